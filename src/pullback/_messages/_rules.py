"""Messages about what the methods of a custom Function take and return."""

from pullback._messages._entry import Message, Theme

RULES = Theme(
    "rules",
    (
        Message(
            anchor="backward-arguments",
            title="backward() takes 2 positional arguments but 3 were given",
            kinds=("TypeError",),
            patterns=(
                r"(?<!Tensor\.)backward\(\) takes \d+ positional arguments? but \d+ were "
                r"given",
                r"(?<!Tensor\.)backward\(\) missing \d+ required positional arguments?"
                r"(?!: 'loss')",
            ),
            older=("Two.backward() missing 1 required positional argument: 'w'",),
            why="""`backward` gets `ctx` and one `v` for each *output* of `forward`. It
                returns one gradient for each *input*. Here the number of its arguments is
                not that of the outputs.""",
            fix="""Count what `forward` returns: two outputs need
                `backward(ctx, v_first, v_second)`. An output that the loss does not use
                sends zeros.""",
            broken="""
                import torch

                class SumAndDifference(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, a, b):
                        return a + b, a - b

                    @staticmethod
                    def backward(ctx, v):
                        return v, v

                a, b = (torch.tensor(2.0, requires_grad=True) for _ in range(2))
                s, d = SumAndDifference.apply(a, b)
                (s * d).backward()
                """,
            fixed="""
                import torch

                class SumAndDifference(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, a, b):
                        return a + b, a - b

                    @staticmethod
                    def backward(ctx, v_sum, v_difference):
                        return v_sum + v_difference, v_sum - v_difference

                a, b = (torch.tensor(2.0, requires_grad=True) for _ in range(2))
                s, d = SumAndDifference.apply(a, b)
                (s * d).backward()  # a² - b²
                assert (a.grad, b.grad) == (4, -4)
                print(a.grad, b.grad)
                """,
            see=("deriving-vjps", "error-incorrect-number-of-gradients"),
            source=("torch/autograd/function.py (BackwardCFunction)",),
        ),
        Message(
            anchor="forward-arguments",
            title="Scale.setup_context() takes 2 positional arguments but 3 were given",
            kinds=("TypeError",),
            patterns=(
                r"setup_context\(\) (?:takes|missing) \d+ (?:required )?positional "
                r"argument",
                # from torch's call; in other code this is a module or a method
                r"super\(\)\.apply\(.{0,160}forward\(\) (?:takes|missing) \d+ "
                r"(?:required )?positional argument",
                r"(?<![\w.])apply\(\) takes no keyword arguments",
            ),
            older=("apply() takes no keyword arguments",),
            why="""`apply` calls the static methods of a Function in one of two ways:
                `forward(ctx, x)`, or `forward(x)` and then
                `setup_context(ctx, inputs, output)`. Which of them, it tells by whether
                there is a `setup_context`. Here the signature is another.""",
            fix="""Write `setup_context(ctx, inputs, output)`, with the inputs of `forward`
                as a tuple, and leave `ctx` out of `forward`; or leave `setup_context` out
                and begin `forward` with `ctx`.""",
            tell=(
                "`forward() takes 1 positional argument but 2 were given`, out of "
                "`super().apply`: `forward(x)` has no `ctx`, and there is no "
                "`setup_context`.",
                "`forward() missing 1 required positional argument`, out of "
                "`super().apply`: `self` stands before `ctx`, or `apply` got fewer "
                "arguments.",
                "`apply() takes no keyword arguments`: an earlier release; pass all by "
                "position.",
                "Out of your own call of a module: its `forward` has other arguments than "
                "you pass, and gradients have no part in it.",
            ),
            broken="""
                import torch

                class Scale(torch.autograd.Function):
                    @staticmethod
                    def forward(x, s):
                        return x * s

                    @staticmethod
                    def setup_context(ctx, inputs):
                        ctx.save_for_backward(*inputs)

                    @staticmethod
                    def backward(ctx, v):
                        x, s = ctx.saved_tensors
                        return v * s, (v * x).sum()

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                Scale.apply(x, torch.tensor(3.0))
                """,
            fixed="""
                import torch

                class Scale(torch.autograd.Function):
                    @staticmethod
                    def forward(x, s):
                        return x * s

                    @staticmethod
                    def setup_context(ctx, inputs, output):
                        ctx.save_for_backward(*inputs)

                    @staticmethod
                    def backward(ctx, v):
                        x, s = ctx.saved_tensors
                        return v * s, (v * x).sum()

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                Scale.apply(x, torch.tensor(3.0)).sum().backward()
                assert x.grad.tolist() == [3.0, 3.0]
                print(x.grad)
                """,
            see=("function-under-transforms", "error-setup-context"),
            source=("torch/autograd/function.py (Function.apply)",),
        ),
        Message(
            anchor="both-backward-and-vjp",
            title="Implementing both 'backward' and 'vjp' for a custom Function is not "
            "allowed",
            patterns=(r"Implementing both 'backward' and 'vjp' for a custom Function",),
            why="""`vjp` is another name of `backward`. With both, torch cannot tell which
                rule you mean.""",
            fix="""Keep one of the two, `backward(ctx, v)`. The rule for forward mode is
                called `jvp`.""",
            broken="""
                import torch

                class Double(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        return x * 2

                    @staticmethod
                    def backward(ctx, v):
                        return v * 2

                    @staticmethod
                    def vjp(ctx, v):
                        return v * 2

                Double.apply(torch.tensor(1.0, requires_grad=True)).backward()
                """,
            fixed="""
                import torch

                class Double(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        return x * 2

                    @staticmethod
                    def vjp(ctx, v):
                        return v * 2

                x = torch.tensor(1.0, requires_grad=True)
                Double.apply(x).backward()
                assert x.grad == 2
                print(x.grad)
                """,
            see=("custom-function", "error-implement-jvp"),
            source=("torch/autograd/function.py",),
        ),
        Message(
            anchor="complex-gradient-for-a-real-input",
            title="Expected isFloatingType(grad.scalar_type()) || (input_is_complex == "
            "grad_is_complex) to be true, but got false",
            patterns=(
                r"Expected isFloatingType\(grad\.scalar_type\(\)\) \|\| "
                r"\(input_is_complex == grad_is_complex\) to be true",
            ),
            why="""`backward` of your Function returned a complex gradient for a real input
                (or an integer gradient for a complex one). A real input has a real
                gradient: moving it can only follow the real part.""",
            fix="""Return `g.real` for each input that is real. The real part belongs to the
                formula: for `y = x * c` with a complex `c` the gradient of x is
                `(v * c.conj()).real`.""",
            broken="""
                import torch

                class Turn(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        return x * (3 + 4j)

                    @staticmethod
                    def backward(ctx, v):
                        return v * (3 - 4j)

                x = torch.tensor(1.0, requires_grad=True)
                Turn.apply(x).abs().backward()
                """,
            fixed="""
                import torch

                class Turn(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        return x * (3 + 4j)

                    @staticmethod
                    def backward(ctx, v):
                        return (v * (3 - 4j)).real

                x = torch.tensor(1.0, requires_grad=True)
                Turn.apply(x).abs().backward()  # 5 |x|
                torch.testing.assert_close(x.grad, torch.tensor(5.0))
                print(round(x.grad.item(), 4))
                """,
            see=("complex-v", "deriving-vjps"),
            source=("torch/csrc/autograd (engine.cpp, validate_outputs)",),
        ),
        Message(
            anchor="input-returned-as-it-is",
            title="An input that has been returned as-is as output is being saved for "
            "backward",
            patterns=(
                r"An input that has been returned as-is as output is being saved for "
                r"backward",
            ),
            why="""`forward` returns its input unchanged, and `setup_context` saves it.
                Input and output are then one tensor with two histories.""",
            fix="""Return `x.view_as(x)` (or `x.clone()`) and save that.""",
            broken="""
                import torch

                class Clipped(torch.autograd.Function):
                    @staticmethod
                    def forward(x):
                        return x

                    @staticmethod
                    def setup_context(ctx, inputs, output):
                        ctx.save_for_backward(output)

                    @staticmethod
                    def backward(ctx, v):
                        return v.clamp(-1, 1)

                Clipped.apply(torch.tensor([1.0, 2.0], requires_grad=True))
                """,
            fixed="""
                import torch

                class Clipped(torch.autograd.Function):
                    @staticmethod
                    def forward(x):
                        return x.view_as(x)

                    @staticmethod
                    def setup_context(ctx, inputs, output):
                        ctx.save_for_backward(output)

                    @staticmethod
                    def backward(ctx, v):
                        return v.clamp(-1, 1)

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                (Clipped.apply(x) * 10).sum().backward()
                assert torch.equal(x.grad, torch.ones(2))
                print(x.grad)
                """,
            see=("function-under-transforms", "error-view-in-custom-function-inplace"),
            source=("torch/csrc/autograd (custom_function.cpp)",),
        ),
        Message(
            anchor="jvp-returns",
            title="Function's jvp returned an invalid number of forward gradients "
            "(expected 2 but got 1)",
            patterns=(
                r"Function's jvp returned an invalid number of forward gradients "
                r"\(expected (?P<expected>\d+) but got (?P<got>\d+)\)",
                r"A custom Function(?:'s forward)? is returning a view (?:\(or an input "
                r"as-is\) )?but the jvp is not returning a view",
            ),
            older=(
                "A custom Function's forward is returning a view (or an input as-is) but "
                "the jvp is not returning a view.",
            ),
            why="""`jvp` gets a tangent for each *input* and returns one for each *output*,
                the other way round than `backward`; and where an output is a view of an
                input, its tangent is that view of the input's tangent.""",
            fix="""Return from `jvp` one tangent for each output of `forward`, in their
                order (expected {expected}, got {got}), and for a view of x the same view of
                its tangent.""",
            unknown={"expected": "a view", "got": "none"},
            tell=(
                "`invalid number`: count the outputs of `forward`.",
                "`not returning a view`: do to the tangent what `forward` does to x "
                "(`t.view_as(t)` where it returns x as it is), or return a copy from "
                "`forward`.",
            ),
            broken="""
                import torch

                class SinCos(torch.autograd.Function):
                    @staticmethod
                    def forward(x):
                        return x.sin(), x.cos()

                    @staticmethod
                    def setup_context(ctx, inputs, output):
                        ctx.save_for_forward(*output)

                    @staticmethod
                    def jvp(ctx, tangent):
                        sin, cos = ctx.saved_tensors
                        return cos * tangent

                x = torch.tensor([0.0, 1.0])
                torch.func.jvp(SinCos.apply, (x,), (torch.ones(2),))
                """,
            fixed="""
                import torch

                class SinCos(torch.autograd.Function):
                    @staticmethod
                    def forward(x):
                        return x.sin(), x.cos()

                    @staticmethod
                    def setup_context(ctx, inputs, output):
                        ctx.save_for_forward(*output)

                    @staticmethod
                    def jvp(ctx, tangent):
                        sin, cos = ctx.saved_tensors
                        return cos * tangent, -sin * tangent

                x = torch.tensor([0.0, 1.0])
                _, product = torch.func.jvp(SinCos.apply, (x,), (torch.ones(2),))
                assert torch.equal(product[0], x.cos())
                assert torch.equal(product[1], -x.sin())
                print(product[0])
                """,
            see=("what-is-a-jvp", "function-under-transforms"),
            source=("torch/csrc/autograd (custom_function.cpp)",),
        ),
        Message(
            anchor="view-of-v",
            title="view size is not compatible with input tensor's size and stride (at "
            "least one dimension spans across two contiguous subspaces). Use .reshape(...) "
            "instead.",
            patterns=(r"view size is not compatible with input tensor's size and stride",),
            only_from="backward",
            why="""`view` cannot copy, and this tensor's numbers do not lie in the order
                that the new shape needs. In `backward` that is v: it comes as the next
                operation made it, transposed or expanded, although your output was
                contiguous.""",
            fix="""Use `v.reshape(...)`, which copies where it must, or `v.contiguous()` for
                a kernel of your own.""",
            tell=(
                "The traceback ends in a `backward` of yours: as above. It depends on what "
                "follows your Function, so a test with `sum()` passes.",
                "It ends in your forward code, after `transpose`, `permute` or a slice: "
                "`reshape` there.",
                "It ends in `loss.backward()` with no line of yours below: a rule of "
                "torch on that device. Make the input `contiguous()`, and update torch.",
            ),
            broken="""
                import torch

                class Half(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        return x / 2

                    @staticmethod
                    def backward(ctx, v):
                        return (v.view(-1) / 2).view(v.shape)

                x = torch.ones(2, 3, requires_grad=True)
                (Half.apply(x).T * torch.ones(3, 2)).sum().backward()
                """,
            fixed="""
                import torch

                class Half(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        return x / 2

                    @staticmethod
                    def backward(ctx, v):
                        return (v.reshape(-1) / 2).reshape(v.shape)

                x = torch.ones(2, 3, requires_grad=True)
                (Half.apply(x).T * torch.ones(3, 2)).sum().backward()
                assert torch.equal(x.grad, torch.full((2, 3), 0.5))
                print(x.grad)
                """,
            see=("what-backward-is-handed", "deriving-vjps", "what-losses-send"),
            source=("reproduced here; no thread found",),
        ),
    ),
)
