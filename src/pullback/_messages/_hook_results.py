"""Messages about what hooks return, and about hooks on saved tensors and on leaves."""

from pullback._messages._entry import Message, Theme

HOOK_RESULTS = Theme(
    "hook-results",
    (
        Message(
            anchor="number-of-grad-input",
            title="Backward hook returned an invalid number of grad_input, got 2, but "
            "expected 1",
            patterns=(
                r"Backward (?:pre )?hook returned an invalid number of "
                r"(?P<what>grad_(?:in|out)put), got (?P<got>\d+), but expected "
                r"(?P<expected>\d+)",
            ),
            older=(
                "Backward pre hook returned an invalid number of grad_output, got 2, but "
                "expected 1",
            ),
            why="""What a module's backward hook returns replaces the gradients of the
                module's inputs: one for each argument of `forward` that was passed by
                position, and none for its parameters.""",
            fix="""Return a tuple of {expected} (it has {got}), or `None` to leave
                `{what}` as it is. A bare tensor counts by its rows: `(g,)` and not `g`. To
                change the gradient of a parameter, put a hook on the parameter.""",
            unknown={
                "expected": "as many as there are",
                "got": "another number",
                "what": "grad_input",
            },
            broken="""
                import torch

                def halve(module, grad_input, grad_output):
                    return tuple(g / 2 for g in grad_input + grad_output)

                layer = torch.nn.Linear(2, 1)
                layer.register_full_backward_hook(halve)
                layer(torch.ones(1, 2, requires_grad=True)).sum().backward()
                """,
            fixed="""
                import torch

                def halve(module, grad_input, grad_output):
                    return tuple(g / 2 for g in grad_input)

                layer = torch.nn.Linear(2, 1)
                layer.register_full_backward_hook(halve)
                x = torch.ones(1, 2, requires_grad=True)
                layer(x).sum().backward()
                assert torch.equal(x.grad, layer.weight / 2)
                print(x.grad.shape)
                """,
            see=("hooks", "error-hook-that-returns"),
            source=("torch/utils/hooks.py",),
        ),
        Message(
            anchor="hook-before-the-output",
            title="Module backward hook for grad_input is called before the grad_output "
            "one",
            patterns=(
                r"Module backward hook for grad_input is called before the grad_output "
                r"one",
            ),
            why="""A gradient reached the module's input without passing its output:
                something that `forward` keeps, as an attribute, is in the loss, or the
                backward pass is itself differentiated.""",
            fix="""PyTorch 1.13 raises this for second derivatives of a module with a full
                backward hook; later releases do not. Where you cannot update, put
                `register_hook` on the tensors in place of the hook on the module.""",
            fixed="""
                import torch

                loss = torch.nn.MSELoss()
                loss.register_full_backward_hook(lambda module, grad_in, grad_out: None)
                x = torch.tensor([3.0], requires_grad=True)
                y = loss(x, torch.tensor([1.0]))
                (first,) = torch.autograd.grad(y, x, create_graph=True)
                (second,) = torch.autograd.grad(first, x)
                assert (first, second) == (4, 2)
                print(first.item(), second.item())
                """,
            see=("hooks", "second-derivatives"),
            source=("PT#88312",),
        ),
        Message(
            anchor="post-accumulate-hook-returns",
            title="Tensor post accumulate grad hooks should return None",
            patterns=(r"Tensor post accumulate grad hooks should return None",),
            why="""Such a hook runs when the gradient lies in `.grad` already, so there is
                nothing left that a returned value could replace.""",
            fix="""Return nothing, and change `parameter.grad` in place; or use
                `register_hook`, whose result replaces the gradient before it is added. Both
                run at every `backward`: to clip what several have added up, do so once,
                before the step.""",
            broken="""
                import torch

                w = torch.ones(2, requires_grad=True)
                w.register_post_accumulate_grad_hook(lambda w: w.grad.clamp_(max=1))
                (3 * w).sum().backward()
                """,
            fixed="""
                import torch

                def clamp(w):
                    w.grad.clamp_(max=1)

                w = torch.ones(2, requires_grad=True)
                w.register_post_accumulate_grad_hook(clamp)
                (3 * w).sum().backward()
                assert torch.equal(w.grad, torch.ones(2))
                print(w.grad)
                """,
            see=("hooks", "same-or-not", "error-post-accumulate-hook"),
            source=("torch/csrc/autograd (python_hook.cpp)",),
        ),
        Message(
            anchor="multi-grad-hook-on-leaves",
            title="A leaf node was passed to _will_engine_execute_node but we are "
            "currently running autograd.grad()",
            patterns=(
                r"A leaf node was passed to _will_engine_execute_node but we are "
                r"currently running autograd\.grad\(\)",
            ),
            why="""`register_multi_grad_hook` on leaves asks which of them will get a
                gradient in this pass, and inside `torch.autograd.grad` the engine cannot
                tell for leaves.""",
            fix="""Use `y.backward(inputs=[…])` where it said
                `torch.autograd.grad(y, […])`, or register the hook with `mode="any"`,
                which does not ask.""",
            broken="""
                import torch
                from torch.autograd.graph import register_multi_grad_hook

                a, b = (torch.tensor(2.0, requires_grad=True) for _ in range(2))
                register_multi_grad_hook((a, b), print)
                torch.autograd.grad(a * b, (a, b))
                """,
            fixed="""
                import torch
                from torch.autograd.graph import register_multi_grad_hook

                seen = []
                a, b = (torch.tensor(2.0, requires_grad=True) for _ in range(2))
                register_multi_grad_hook((a, b), seen.append)
                (a * b).backward(inputs=[a, b])
                assert seen == [[b, a]]
                print(seen)
                """,
            see=("hooks", "leaves-and-roots"),
            source=("torch/csrc/autograd (init.cpp)",),
        ),
        Message(
            anchor="saved-tensor-hook-results",
            title="Output of saved tensor unpack_hook expected to be a Tensor but got "
            "result of type NoneType",
            kinds=("TypeError", "RuntimeError"),
            patterns=(
                r"Output of saved tensor unpack_hook expected to be a Tensor but got "
                r"result of type (?P<type>[\w.]*\w)",
                r"A saved tensor pack hook is modifying its input in place",
            ),
            older=(
                "A saved tensor pack hook is modifying its input in place. Tensors "
                "provided as input to pack hook cannot be modified by in-place operations "
                "as this can lead to unexpected side-effects.",
            ),
            why="""`pack` gets each tensor that an operation saves and may return anything;
                `unpack` turns that into the tensor again when `backward` needs it. The
                tensor that `pack` gets is the program's own.""",
            fix="""Let `unpack` return a tensor (it returned {type}), and let `pack` leave
                its argument as it is.""",
            unknown={"type": "something else"},
            broken="""
                import torch
                from torch.autograd.graph import saved_tensors_hooks

                kept = {}

                def pack(t):
                    kept[len(kept)] = t
                    return len(kept) - 1

                def unpack(key):
                    kept[key]

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                with saved_tensors_hooks(pack, unpack):
                    y = (x**2).sum()
                y.backward()
                """,
            fixed="""
                import torch
                from torch.autograd.graph import saved_tensors_hooks

                kept = {}

                def pack(t):
                    kept[len(kept)] = t
                    return len(kept) - 1

                def unpack(key):
                    return kept[key]

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                with saved_tensors_hooks(pack, unpack):
                    y = (x**2).sum()
                y.backward()
                assert torch.equal(x.grad, 2 * x) and len(kept) == 1
                print(x.grad)
                """,
            see=("hooks", "memory-measured"),
            source=("torch/csrc/autograd (python_saved_variable_hooks.cpp)",),
        ),
        Message(
            anchor="gradcheck-batched",
            title="gradcheck or gradgradcheck failed while testing batched gradient "
            "computation",
            kinds=("GradcheckError",),
            patterns=(
                r"gradcheck or gradgradcheck failed while testing batched gradient "
                r"computation",
            ),
            why="""With `check_batched_grad=True`, gradcheck also runs your `backward`
                under `vmap`, with a batch of v. It leaves torch (NumPy, `.item()`, an
                extension), has an `if` on v, draws random numbers or writes v into a tensor
                without a batch, and `vmap` cannot follow.""",
            fix="""Write `backward` with torch operations, `torch.where` in place of an
                `if`, and new tensors in place of writing. Where that cannot be, leave
                `check_batched_grad=True` out, and take Jacobians row by row instead of
                with `is_grads_batched`.""",
            broken="""
                import torch

                class Double(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        return x * 2

                    @staticmethod
                    def backward(ctx, v):
                        return torch.from_numpy(v.numpy() * 2)

                x = torch.ones(2, dtype=torch.float64, requires_grad=True)
                torch.autograd.gradcheck(Double.apply, x, check_batched_grad=True)
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

                x = torch.ones(2, dtype=torch.float64, requires_grad=True)
                passed = torch.autograd.gradcheck(
                    Double.apply, x, check_batched_grad=True
                )
                assert passed
                print(passed)
                """,
            see=("gradcheck", "vmap-limits"),
            source=("torch/autograd/gradcheck.py",),
        ),
        Message(
            anchor="gradcheck-undefined",
            title="Expected all input grads to be undefined or zero when all output grads "
            "are undefined or zero",
            kinds=("GradcheckError",),
            patterns=(
                r"Expected all input grads to be undefined or zero when all output grads",
                r"Expected backward function to handle undefined output grads",
            ),
            older=("Expected backward function to handle undefined output grads.",),
            why="""With `ctx.set_materialize_grads(False)`, v is None where the loss does
                not use an output. No v means zero, and zero times a Jacobian is zero: your
                `backward` returned something else, or failed.""",
            fix="""Return None for each input if every v is None, and leave out the part of
                a single v that is None. Without `set_materialize_grads(False)` you get
                zeros and need no such case.""",
            broken="""
                import torch

                class Double(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        ctx.set_materialize_grads(False)
                        return x * 2

                    @staticmethod
                    def backward(ctx, v):
                        one = torch.ones(2, dtype=torch.float64)
                        return 2 * (one if v is None else v)

                x = torch.ones(2, dtype=torch.float64, requires_grad=True)
                torch.autograd.gradcheck(Double.apply, x)
                """,
            fixed="""
                import torch

                class Double(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        ctx.set_materialize_grads(False)
                        return x * 2

                    @staticmethod
                    def backward(ctx, v):
                        return None if v is None else 2 * v

                x = torch.ones(2, dtype=torch.float64, requires_grad=True)
                passed = torch.autograd.gradcheck(Double.apply, x)
                assert passed
                print(passed)
                """,
            see=("gradcheck", "custom-function"),
            source=("torch/autograd/gradcheck.py",),
        ),
    ),
)
