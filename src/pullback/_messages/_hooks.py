"""Messages about hooks, gradcheck and anomaly mode."""

from pullback._messages._entry import Message, Theme
from pullback._messages._module_hooks import MODULE_HOOKS

HOOKS = Theme(
    "hooks",
    (
        Message(
            anchor="hook-changed-the-size",
            title="hook '<lambda>' has changed the size of value",
            patterns=(
                r"hook '(?P<hook>[^']*)' has changed the (?P<what>\w+) of value",
                r"can't replace a(?:n empty| None) gradient with a "
                r"non-(?:None|empty) value",
            ),
            older=("can't replace a None gradient with a non-None value",),
            why="""What a hook returns replaces the gradient, so it must have its shape,
                dtype and device.""",
            unknown={"hook": "of yours", "what": "gradient"},
            fix="""The hook `{hook}` changed the {what}: return a tensor like the one that
                it got, or nothing.""",
            tell=(
                "`size`: a slice, a sum or another dimension; to drop a part, multiply by "
                "a mask.",
                "`type`: the dtype or the device is another one; `result.to(v)`.",
                "`replace a None gradient`, in a hook of a node: nothing came for that "
                "output; leave None where it is.",
                "A name that is not yours, `hook`: a hook of a module, "
                "`register_full_backward_hook`. Its result replaces `grad_input`, so it "
                "has that shape, not the one of `grad_output`, and comes too late for the "
                "module's own weights.",
                "It only looks and returns what it computed: a `lambda` returns its value; "
                "let it return None.",
            ),
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
                y = x * 2
                y.register_hook(lambda v: v[:2])
                y.sum().backward()
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
                y = x * 2
                mask = torch.tensor([1.0, 1.0, 0.0])
                y.register_hook(lambda v: v * mask)
                y.sum().backward()
                assert torch.equal(x.grad, 2 * mask)
                print(x.grad)
                """,
            see=("hooks", "module-hooks"),
            source=("torch/csrc/autograd (python_hook.cpp)",),
        ),
        Message(
            anchor="gradcheck-jacobian-mismatch",
            title="GradcheckError: Jacobian mismatch for output 0 with respect to input 0",
            kinds=("GradcheckError", "RuntimeError"),
            patterns=(
                r"Jacobian mismatch for output (?P<output>\d+) with respect to input "
                r"(?P<input>\d+)",
                r"Numerical gradient for function expected to be zero",
                r"Jacobian computed with forward mode mismatch for output "
                r"(?P<output>\d+) with respect to input (?P<input>\d+)",
                r"backward not multiplied by grad_output",
                r"input has a dimension with stride 0\. gradcheck only supports",
            ),
            older=(
                "Jacobian computed with forward mode mismatch for output 0 with "
                "respect to input 0,",
                "backward not multiplied by grad_output",
                "The 0th input has a dimension with stride 0. gradcheck only "
                "supports inputs that are non-overlapping to be able to compute "
                "the numerical gradients correctly.",
            ),
            why="""`gradcheck` compares the Jacobian that `backward` gives with one from
                differences of f at nearby points, and they differ.""",
            fix="""Compare the numerical with the analytical matrix for output {output} and
                input {input}. Use float64 inputs away from kinks and without a stride of 0,
                fix f's random numbers, and if they still differ, `backward` is
                wrong.""",
            unknown={"output": "0", "input": "0"},
            tell=(
                "Differences in the second or third digit: float32, of the inputs or "
                "inside f; use `dtype=torch.float64` throughout.",
                "The analytical matrix is zero: f detaches, or makes a new leaf of x.",
                "0.5 against 0 or 1: a kink, such as `relu` at 0; move the input away.",
                "One is a multiple of the other, or its transpose: a factor or a transpose "
                "in `backward`.",
                "Huge numerical entries: f is random or has a jump; seed it, or leave the "
                "kink.",
                "`expected to be zero`: f changes with x, and its result has no graph.",
                "`computed with forward mode`: the static `jvp` is wrong, or "
                "`backward` and `jvp` disagree.",
                "`backward not multiplied by grad_output`: `backward` returns "
                "the derivative alone; multiply it by what it gets.",
                "`a dimension with stride 0`: an expanded input; "
                "`.contiguous()` or `.clone()`.",
                "`cholesky`, `eigh`: they read one triangle of a symmetric matrix, and "
                "`backward` shares its gradient with the other; let f begin with "
                "`(A + A.mT) / 2`.",
                "Out of `gradgradcheck`, and `gradcheck` passes: the first derivative is "
                "right, and `backward` uses what has no graph, such as an intermediate "
                "result that `forward` saved.",
            ),
            broken="""
                import torch

                class Square(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        ctx.save_for_backward(x)
                        return x**2

                    @staticmethod
                    def backward(ctx, v):
                        return ctx.saved_tensors[0] * v

                x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
                torch.autograd.gradcheck(Square.apply, x)
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

                x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
                assert torch.autograd.gradcheck(Square.apply, x)
                print("backward is the VJP of forward")
                """,
            see=("gradcheck",),
            source=("jinfagang/DCNv2_latest#13", "torch/autograd/gradcheck.py"),
        ),
        Message(
            anchor="gradcheck-precision",
            title="Input #0 requires gradient and is not a double precision floating point "
            "or complex",
            kinds=("UserWarning",),
            patterns=(
                r"(?:Input #|The )(?P<input>\d+)(?:th input)? requires gradient and is not "
                r"a double precision floating point",
            ),
            older=(
                "The 0th input requires gradient and is not a double precision floating "
                "point or complex. This check will likely fail if all the inputs are not "
                "of double precision floating point or complex.",
            ),
            why="""`gradcheck` divides a difference of function values by a step of 10⁻⁶.
                float32 has about seven digits, of which the division leaves one or
                none.""",
            fix="""Make input {input} float64, `x.double()`, or if it is complex
                `x.to(torch.complex128)`; a module `module.double()`.""",
            unknown={"input": "0"},
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                torch.autograd.gradcheck(torch.sin, x)
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
                passed = torch.autograd.gradcheck(torch.sin, x)
                assert passed
                print(passed)
                """,
            see=("gradcheck", "error-gradcheck-jacobian-mismatch"),
            source=("torch/autograd/gradcheck.py",),
        ),
        Message(
            anchor="gradcheck-requires-grad",
            title="gradcheck expects at least one input tensor to require gradient",
            kinds=("ValueError",),
            patterns=(r"gradcheck expects at least one input tensor to require gradient",),
            why="""`gradcheck` differentiates by those inputs that require a gradient, and
                none does.""",
            fix="""`x.double().requires_grad_()` for every input that is to be checked.""",
            tell=(
                "They are in a list or a dict, or are a module's parameters: only tensors "
                "that are inputs themselves count; "
                "`gradcheck(f, tuple(module.parameters()))`, with `functional_call` in f.",
            ),
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0], dtype=torch.float64)
                torch.autograd.gradcheck(torch.sin, x)
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0], dtype=torch.float64).requires_grad_()
                passed = torch.autograd.gradcheck(torch.sin, x)
                assert passed
                print(passed)
                """,
            see=("gradcheck",),
            source=("torch/autograd/gradcheck.py",),
        ),
        Message(
            anchor="backward-not-reentrant",
            title="Backward is not reentrant, i.e., running backward with same input and "
            "grad_output multiple times gives different values",
            kinds=("GradcheckError",),
            patterns=(r"Backward is not reentrant, i\.e\., running backward",),
            why="""`gradcheck` ran your `backward` twice with the same `v`, and the results
                differ: it draws random numbers, changes something that it saved, or adds in
                an order that varies.""",
            fix="""Draw random numbers in `forward` and save them; do not write to
                `ctx.saved_tensors` or to `v`. If the order of a sum on a GPU is the cause,
                pass `nondet_tol`.""",
            broken="""
                import torch

                class Twice(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        ctx.calls = 0
                        return x * 2

                    @staticmethod
                    def backward(ctx, v):
                        ctx.calls += 1
                        return v * (2 + 1e-9 * ctx.calls)

                x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
                torch.autograd.gradcheck(Twice.apply, x)
                """,
            fixed="""
                import torch

                class Twice(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        return x * 2

                    @staticmethod
                    def backward(ctx, v):
                        return v * 2

                x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
                passed = torch.autograd.gradcheck(Twice.apply, x)
                assert passed
                print(passed)
                """,
            see=("gradcheck",),
            source=("torch/autograd/gradcheck.py",),
        ),
        *MODULE_HOOKS,
    ),
)
