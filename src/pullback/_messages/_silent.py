"""Traps that raise nothing: the number is wrong, or is not what was asked for."""

from pullback._messages._entry import Theme, trap

SILENT = Theme(
    "silent",
    (
        trap(
            anchor="saved-intermediate",
            title="A custom Function whose first derivative is right and whose second is "
            "wrong",
            why="""`forward` runs without recording. An intermediate result that it saves
                is a constant in `backward`, so its own dependence on x is missing in the
                second derivative.""",
            fix="""Save inputs or outputs only, and compute the intermediate again in
                `backward`; check with `torch.autograd.gradgradcheck`.""",
            broken="""
                import torch

                class Cube(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        square = x**2
                        ctx.save_for_backward(square)  # neither input nor output
                        return square * x

                    @staticmethod
                    def backward(ctx, v):
                        return 3 * ctx.saved_tensors[0] * v

                x = torch.tensor(2.0, requires_grad=True)
                y = Cube.apply(x) * x  # x⁴
                (first,) = torch.autograd.grad(y, x, create_graph=True)
                (second,) = torch.autograd.grad(first, x)
                assert first == 4 * 2**3  # right
                assert second == 24  # wrong: 12x² is 48
                print(first.item(), second.item())
                """,
            fixed="""
                import torch

                class Cube(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        ctx.save_for_backward(x)
                        return x**3

                    @staticmethod
                    def backward(ctx, v):
                        return 3 * ctx.saved_tensors[0] ** 2 * v

                x = torch.tensor(2.0, requires_grad=True)
                y = Cube.apply(x) * x  # x⁴
                (first,) = torch.autograd.grad(y, x, create_graph=True)
                (second,) = torch.autograd.grad(first, x)
                assert first == 4 * x**3 and second == 12 * x**2
                print(first.item(), second.item())
                """,
            see=("twice-differentiable", "error-once-differentiable"),
            source=("PT#58509", "PT#76185"),
        ),
        trap(
            anchor="broadcast-gradient-summed",
            title="backward of a custom Function returns too large a gradient: it is "
            "summed",
            why="""A gradient that could have been broadcast from the input's shape is
                summed down to it, as the chain rule for broadcasting asks. A missing sum
                in your `backward` stays hidden this way, and so does a wrong one.""",
            fix="""Return exactly the input's shape, and check with
                `torch.autograd.gradcheck`.""",
            broken="""
                import torch

                class Same(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        return x * 1

                    @staticmethod
                    def backward(ctx, v):
                        return v.expand(4, 3)  # x has shape (3,)

                x = torch.ones(3, requires_grad=True)
                Same.apply(x).sum().backward()
                assert torch.equal(x.grad, torch.full((3,), 4.0))  # 4 times too large
                print(x.grad)
                """,
            fixed="""
                import torch

                class Same(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        return x * 1

                    @staticmethod
                    def backward(ctx, v):
                        return v

                x = torch.ones(3, dtype=torch.float64, requires_grad=True)
                assert torch.autograd.gradcheck(Same.apply, x)
                Same.apply(x).sum().backward()
                print(x.grad)
                """,
            see=("gradcheck", "error-invalid-gradient"),
            source=("PT#65244",),
        ),
        trap(
            anchor="nan-from-a-mask",
            title="nan in the gradient of a masked loss whose value is finite",
            why="""The mask multiplies the result by 0, and its derivative, which is
                infinite, as well: 0 · inf is nan. The loss itself shows nothing.""",
            fix="""Replace the bad inputs *before* the operation (`torch.where`), and mask
                after it.""",
            broken="""
                import torch

                x = torch.tensor([0.0, 4.0], requires_grad=True)
                loss = torch.where(x > 0, x.sqrt(), 0.0).sum()
                loss.backward()
                assert loss == 2 and x.grad[0].isnan()
                print(loss.item(), x.grad)
                """,
            fixed="""
                import torch

                x = torch.tensor([0.0, 4.0], requires_grad=True)
                safe = torch.where(x > 0, x, 1.0)
                loss = torch.where(x > 0, safe.sqrt(), 0.0).sum()
                loss.backward()
                assert loss == 2 and torch.equal(x.grad, torch.tensor([0.0, 0.25]))
                print(loss.item(), x.grad)
                """,
            see=("masked-nan", "error-returned-nan-values"),
            source=("PT#38714",),
        ),
        trap(
            anchor="data-hides-changes",
            title="An edit through .data, or through NumPy, goes unnoticed",
            why="""`x.data` and `x.detach().numpy()` share x's memory and not its version
                counter (`.detach()` shares both). What was saved for the backward pass
                changes, and no in-place error comes.""",
            fix="""Write inside `with torch.no_grad():`, on the tensor itself: autograd then
                notices and refuses. For an array of your own to write into, copy first:
                `x.detach().clone().numpy()`.""",
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                y = (x**2).sum()
                x.detach().numpy()[0] = 100.0
                y.backward()
                assert x.grad[0] == 200  # y was computed at 1
                print(x.grad)
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                y = (x**2).sum()
                with torch.no_grad():
                    x[0] = 100.0
                try:
                    y.backward()
                except RuntimeError as error:
                    noticed = str(error)
                assert "modified by an inplace operation" in noticed
                print(noticed.partition(":")[0])
                """,
            see=("silent-traps", "error-modified-by-an-inplace-operation"),
            source=("PF/169583",),
        ),
        trap(
            anchor="ties-of-a-maximum",
            title="At a tie, max over a dimension gives all the gradient to one entry, "
            "amax shares it",
            why="""Where several entries are the largest there is no derivative, and each
                function chooses a subgradient of its own: `max(dim)` the entry whose index
                it returns, `amax` and `max()` equal parts.""",
            fix="""Neither is wrong. Use `amax` where the order of equal entries must not
                matter, and do not compare gradients at ties.""",
            broken="""
                import torch

                x = torch.tensor([3.0, 3.0, 1.0], requires_grad=True)
                (chosen,) = torch.autograd.grad(x.max(dim=0).values, x)
                (shared,) = torch.autograd.grad(x.amax(dim=0), x)
                assert sorted(chosen.tolist()) == [0.0, 0.0, 1.0]
                assert shared.tolist() == [0.5, 0.5, 0.0]
                print(chosen, shared)
                """,
            fixed="""
                import torch

                x = torch.tensor([3.0, 2.5, 1.0], requires_grad=True)
                (chosen,) = torch.autograd.grad(x.max(dim=0).values, x)
                (shared,) = torch.autograd.grad(x.amax(dim=0), x)
                assert torch.equal(chosen, shared)  # no tie, no choice
                print(chosen, shared)
                """,
            see=("kinks",),
            source=("torch.amax, its documentation",),
        ),
        trap(
            anchor="norm-at-zero",
            title="The square root of a sum of squares has gradient nan at zero, norm() "
            "has 0",
            why="""The derivative of the root is infinite at 0 and that of the square is 0:
                0 · inf is nan. `norm()` knows the place and returns the subgradient 0.""",
            fix="""Use `torch.linalg.vector_norm`, or add a small number *inside* the root:
                `(x.pow(2).sum() + 1e-12).sqrt()`.""",
            tell=(
                "A complex magnitude, `(z.real**2 + z.imag**2).sqrt()`: `z.abs()` has 0.",
                "The *second* derivative is nan, as of forces between all pairs: there is "
                "none at 0, and `norm()` says nan (`torch.func.hessian` says 0). Leave out "
                "a point's distance to itself.",
            ),
            broken="""
                import torch

                x = torch.zeros(2, requires_grad=True)
                length = x.pow(2).sum().sqrt()
                length.backward()
                assert length == 0 and x.grad.isnan().all()
                print(length.item(), x.grad)
                """,
            fixed="""
                import torch

                x = torch.zeros(2, requires_grad=True)
                torch.linalg.vector_norm(x).backward()
                assert torch.equal(x.grad, torch.zeros(2))
                print(x.grad)
                """,
            see=("kinks", "masked-nan", "error-nan-from-a-mask"),
            source=("PT#38714",),
        ),
        trap(
            anchor="hook-that-returns",
            title="A hook that returns something replaces the gradient",
            why="""What a hook on a tensor returns takes the gradient's place. A lambda
                returns its expression: `lambda v: v.mul(2)` doubles, though it was meant to
                look only; an in-place call such as `v.clamp_` does so as well.""",
            fix="""Let a hook that only looks return None: write a `def` without `return`,
                or `lambda v: seen.append(v.clone())`, since `append` returns None.""",
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                y = x * 3
                y.register_hook(lambda v: v.abs().neg())  # meant as a look
                y.sum().backward()
                assert x.grad.tolist() == [-3.0, -3.0]  # the derivative is 3
                print(x.grad)
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                y, seen = x * 3, []
                y.register_hook(lambda v: seen.append(v.clone()))
                y.sum().backward()
                assert x.grad.tolist() == [3.0, 3.0]
                print(x.grad, seen)
                """,
            see=("hooks", "error-hook-changed-the-size"),
            source=("torch.Tensor.register_hook, its documentation",),
        ),
        trap(
            anchor="checkpoint-of-another-function",
            title="Checkpointing a function that gives other values the second time: a "
            "wrong gradient",
            why="""`checkpoint` throws the saved tensors away and runs the function again
                during `backward`. It restores torch's random state and `autocast`, and
                nothing else: Python's `random`, NumPy's, counters and caches go on.""",
            fix="""Draw such numbers before and pass them in as arguments, or use
                `torch.rand`.""",
            broken="""
                import random

                import torch
                from torch.utils.checkpoint import checkpoint

                random.seed(0)
                used = []

                def f(x):
                    used.append(random.random())
                    return (used[-1] * x) ** 2

                x = torch.tensor(1.0, requires_grad=True)
                y = checkpoint(f, x, use_reentrant=False)
                y.backward()
                first, again = used
                torch.testing.assert_close(y.detach(), torch.tensor(first**2))
                assert not torch.isclose(x.grad, torch.tensor(2 * first**2))
                print(len(used), x.grad / (2 * y.detach()))  # not 1
                """,
            fixed="""
                import random

                import torch
                from torch.utils.checkpoint import checkpoint

                random.seed(0)
                factor = random.random()
                f = lambda x, factor: (factor * x) ** 2
                x = torch.tensor(1.0, requires_grad=True)
                y = checkpoint(f, x, factor, use_reentrant=False)
                y.backward()
                torch.testing.assert_close(x.grad, 2 * y.detach())
                print(x.grad / (2 * y.detach()))
                """,
            see=("checkpointing", "error-checkpoint-metadata"),
            source=("torch/utils/checkpoint.py, its documentation",),
        ),
    ),
)
