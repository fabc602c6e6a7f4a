"""Messages about methods that a custom function lacks, and gradients for no input."""

from pullback._messages._entry import NODE, Message

FUNCTION_METHODS = (
    Message(
        anchor="implement-backward",
        title="You must implement either the backward or vjp method for your custom "
        "autograd.Function",
        kinds=("NotImplementedError",),
        patterns=(
            r"You must implement either the backward or vjp method for your custom "
            r"autograd\.Function",
            r"You must implement the backward function for custom autograd\.Function",
            r"autograd/function\.py.?, line \d+, in backward raise NotImplementedError",
        ),
        older=(
            "You must implement the backward function for custom autograd.Function.",
            'torch/autograd/function.py", line 181, in backward raise NotImplementedError',
        ),
        why="""The Function has a `forward` and no rule for its derivative; inside
            `forward` nothing is recorded.""",
        fix="""Add a static `backward(ctx, v)` that returns `v @ J` for each input. If
            torch's own operations would do, write a plain function and no Function.""",
        broken="""
            import torch

            class Double(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    return x * 2

            x = torch.tensor([1.0, 2.0], requires_grad=True)
            Double.apply(x).sum().backward()
            """,
        fixed="""
            import torch

            class Double(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    return x * 2

                @staticmethod
                def backward(ctx, v):
                    return v * 2

            x = torch.tensor([1.0, 2.0], requires_grad=True)
            Double.apply(x).sum().backward()
            assert torch.equal(x.grad, torch.tensor([2.0, 2.0]))
            print(x.grad)
            """,
        see=("deriving-vjps", "vjp-and-chain-rule"),
        source=("torch/autograd/function.py",),
    ),
    Message(
        anchor="once-differentiable",
        title="trying to differentiate twice a function that was marked with "
        "@once_differentiable",
        patterns=(
            r"trying to differentiate twice a function that was marked with "
            r"@?once_differentiable",
        ),
        why="""The author of the Function said with `@once_differentiable` that its
            `backward` cannot be differentiated, and you asked for that: a second
            derivative, or a gradient penalty. The mark notices only a `v` that
            requires a gradient itself, and speaks in `backward()`, not in
            `torch.autograd.grad(g, x)`, which does not go there; otherwise that part
            of the second derivative is missing without a word.""",
        fix="""Write `backward` with differentiable torch operations on
            `ctx.saved_tensors` and take the mark away; check with
            `torch.autograd.gradgradcheck`.""",
        tell=(
            "In its place `element 0 of tensors does not require grad`, or `appears to "
            "not have been used in the graph`: it is the same cause; nothing else "
            "leads to the input.",
            "No message, and a second derivative that lacks a part: a sum of a marked "
            "Function and something else; only the latter was differentiated twice.",
        ),
        broken="""
            import torch
            from torch.autograd.function import once_differentiable

            class Square(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    ctx.save_for_backward(x)
                    return x**2

                @staticmethod
                @once_differentiable
                def backward(ctx, v):
                    return 2 * ctx.saved_tensors[0] * v

            x = torch.tensor([1.0, 2.0], requires_grad=True)
            y = (Square.apply(x) ** 2).sum()
            (g,) = torch.autograd.grad(y, x, create_graph=True)
            g.sum().backward()
            """,
        fixed="""
            import torch

            class Square(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    ctx.save_for_backward(x)
                    return x**2

                @staticmethod
                def backward(ctx, v):
                    return 2 * ctx.saved_tensors[0] * v

            x = torch.tensor([1.0, 2.0], requires_grad=True)
            y = (Square.apply(x) ** 2).sum()
            (g,) = torch.autograd.grad(y, x, create_graph=True)
            g.sum().backward()
            assert torch.equal(x.grad, 12 * x**2)  # of x⁴
            print(x.grad)
            """,
        see=("twice-differentiable", "error-saved-intermediate"),
        source=("torch/autograd/function.py (once_differentiable)",),
    ),
    Message(
        anchor="expected-variable-or-none",
        title="expected Variable or None (got float)",
        kinds=("RuntimeError", "TypeError"),
        patterns=(
            r"expected Variable or None \(got (?P<type>[\w.]+)\)",
            r"expected Variable, but hook returned '(?P<type>[\w.]+)'",
        ),
        older=("expected Variable, but hook returned 'float'",),
        why="""A `backward` of your own, or a hook, returned something that is neither a
            tensor nor None.""",
        fix="""What was returned is of type {type}. From `backward` return, for each
            input, a tensor of the input's shape (`torch.full_like(x, number)`) or None,
            several as a tuple; from a hook of a tensor one tensor like `v`, and no
            tuple, or None.""",
        broken="""
            import torch

            class Constant(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    return x * 2

                @staticmethod
                def backward(ctx, v):
                    return 2.0

            x = torch.tensor([1.0, 2.0], requires_grad=True)
            Constant.apply(x).sum().backward()
            """,
        fixed="""
            import torch

            class Constant(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    return x * 2

                @staticmethod
                def backward(ctx, v):
                    return 2.0 * v

            x = torch.tensor([1.0, 2.0], requires_grad=True)
            Constant.apply(x).sum().backward()
            assert torch.equal(x.grad, torch.tensor([2.0, 2.0]))
            print(x.grad)
            """,
        see=("custom-function",),
        source=("torch/csrc/autograd (python_function.cpp, python_hook.cpp)",),
    ),
    Message(
        anchor="not-differentiable-argument",
        title="The function 'binary_cross_entropy' is not differentiable with "
        "respect to argument 'weight'",
        patterns=(
            r"[Tt]he function '(?P<function>\w+)' is not differentiable with respect "
            r"to argument '(?P<argument>\w+)'",
            r"the derivative for '(?P<argument>target|weight)' is not "
            r"implemented",
            r"nn criterions don't compute the gradient w\.r\.t\. "
            r"(?P<argument>target)s",
        ),
        older=(
            "the derivative for 'target' is not implemented",
            "nn criterions don't compute the gradient w.r.t. targets - "
            "please mark these tensors as not requiring gradients",
        ),
        why="""That argument has no derivative rule in torch, so a gradient for it would
            silently be missing; torch refuses instead.""",
        kinds=("RuntimeError", "AssertionError"),
        unknown={"function": "the loss", "argument": "t"},
        fix="""Pass `{argument}.detach()` when it is a constant. When you need its
            gradient, write the formula of {function} out with tensor operations.""",
        tell=(
            "`target`: prediction and target may be swapped; the prediction comes "
            "first. A teacher's output is `target.detach()`.",
            "`scale` or `zero_point` of a fake quantization: the formula rounds, and "
            "has slope zero. `torch._fake_quantize_learnable_per_tensor_affine` has "
            "a gradient for both; or write a Function with a straight-through rule.",
        ),
        broken="""
            import torch

            p = torch.tensor([0.5, 0.25], requires_grad=True)
            weight = torch.tensor([1.0, 2.0], requires_grad=True)
            torch.nn.functional.binary_cross_entropy(p, torch.ones(2), weight)
            """,
        fixed="""
            import torch

            p = torch.tensor([0.5, 0.25], requires_grad=True)
            weight = torch.tensor([1.0, 2.0], requires_grad=True)
            loss = (weight * -p.log()).mean()  # the target is 1
            loss.backward()
            torch.testing.assert_close(weight.grad, -p.detach().log() / 2)
            print(weight.grad)
            """,
        see=("deriving-vjps", "v-is-a-weight"),
        source=("PT#60610",),
    ),
    Message(
        anchor="gradient-for-no-tensor",
        title="function FBackward returned a gradient different than None at position "
        "2, but the corresponding forward input was not a Variable",
        patterns=(
            rf"function (?P<function>{NODE}) returned a gradient different than None "
            r"at position (?P<position>\d+), but the corresponding forward input was "
            r"not a (?:Variable|Tensor)",
        ),
        why="""`backward` returned a gradient for an argument of `forward` that is no
            tensor: a number, a flag, a shape.""",
        fix="""Let {function} return `None` in place {position} (counted from 1, after
            `ctx`).""",
        unknown={"position": "of that argument"},
        broken="""
            import torch

            class Scale(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x, factor):
                    ctx.factor = factor
                    return x * factor

                @staticmethod
                def backward(ctx, v):
                    return v * ctx.factor, v

            x = torch.tensor([1.0, 2.0], requires_grad=True)
            Scale.apply(x, 3.0).sum().backward()
            """,
        fixed="""
            import torch

            class Scale(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x, factor):
                    ctx.factor = factor
                    return x * factor

                @staticmethod
                def backward(ctx, v):
                    return v * ctx.factor, None

            x = torch.tensor([1.0, 2.0], requires_grad=True)
            Scale.apply(x, 3.0).sum().backward()
            assert torch.equal(x.grad, torch.tensor([3.0, 3.0]))
            print(x.grad)
            """,
        see=("custom-function", "error-incorrect-number-of-gradients"),
        source=("torch/csrc/autograd (python_function.cpp)",),
    ),
    Message(
        anchor="implement-forward",
        title="You must implement the forward function for custom autograd.Function",
        kinds=("NotImplementedError",),
        patterns=(
            r"You must implement the forward function for custom autograd\.Function",
        ),
        why="""`apply` calls the static method `forward`, and the class has none under
            that name, or calls it something else.""",
        fix="""Write `@staticmethod def forward(ctx, x)`, or `forward(x)` together with
            `setup_context(ctx, inputs, output)`.""",
        broken="""
            import torch

            class Double(torch.autograd.Function):
                @staticmethod
                def foward(ctx, x):  # one letter is missing
                    return x * 2

            Double.apply(torch.ones(2))
            """,
        fixed="""
            import torch

            class Double(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    return x * 2

            y = Double.apply(torch.ones(2))
            assert torch.equal(y, torch.tensor([2.0, 2.0]))
            print(y)
            """,
        see=("custom-function",),
        source=("torch/autograd/function.py",),
    ),
)
