"""Traps that raise nothing: the number is wrong, or is not what was asked for."""

from pullback._messages._entry import Theme, trap

SILENT = Theme(
    "silent",
    (
        trap(
            anchor="extra-gradients-dropped",
            title="More grad_tensors than tensors: the rest is dropped",
            why="""`torch.autograd.backward` and `grad` pair outputs and gradients with
                `zip` before they count them, and `zip` stops at the shorter list. So does
                `y.backward((v1, v2))`: the second is dropped.""",
            fix="""Compare the lengths yourself: `zip(outputs, gradients, strict=True)`
                raises.""",
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                v = [torch.ones(2), torch.full((2,), 100.0)]
                torch.autograd.backward([x**2], v)
                assert torch.equal(x.grad, 2 * x)  # the 100 is nowhere
                print(x.grad)
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                pairs = zip([x**2], [torch.ones(2), torch.ones(2)], strict=True)
                try:
                    outputs, gradients = zip(*pairs)
                except ValueError as error:
                    refused = str(error)
                assert "longer" in refused
                print(refused)
                """,
            see=("several-losses", "shape-rule", "error-tensors-and-gradients"),
            source=("syfafterzy/PCB_RPP_for_reID#16",),
        ),
        trap(
            anchor="gradient-cast",
            title="An int or float64 gradient is cast to the output's dtype",
            why="""`gradient` may have another real dtype than the output; autograd converts
                it. Digits that the output's dtype cannot hold are lost without a word.""",
            fix="""Compute in the precision that you need from the start: the output's dtype
                decides.""",
            broken="""
                import torch

                x = torch.tensor(1.0, requires_grad=True)  # float32
                v = torch.tensor(16777217)  # 2²⁴ + 1, an integer
                (x * 1).backward(v)
                assert int(x.grad) == 16777216
                print(int(x.grad))
                """,
            fixed="""
                import torch

                x = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
                v = torch.tensor(16777217)
                (x * 1).backward(v)
                assert int(x.grad) == 16777217
                print(int(x.grad))
                """,
            see=("contract",),
            source=("torch/csrc/autograd (engine.cpp, validate_outputs)",),
        ),
        trap(
            anchor="one-element-needs-no-gradient",
            title="A result of shape (1,) or (1, 1) needs no gradient argument",
            why="""What counts is the number of elements, not the number of dimensions. A
                batch of one therefore passes, and the same code fails with a batch of
                two.""",
            fix="""Reduce explicitly (`.mean()`, `.sum()`) in code that is to work for every
                batch size.""",
            broken="""
                import torch

                x = torch.ones(1, 3, requires_grad=True)  # a batch of one
                y = (x**2).sum(1)
                y.backward()
                assert y.shape == (1,) and x.grad is not None
                print(x.grad)
                """,
            fixed="""
                import torch

                for batch in (1, 2):
                    x = torch.ones(batch, 3, requires_grad=True)
                    y = (x**2).sum(1)
                    y.mean().backward()
                    torch.testing.assert_close(x.grad, 2 * x.detach() / batch)
                print(x.grad)
                """,
            see=("bare-backward",),
            source=("torch/autograd/__init__.py (_make_grads)",),
        ),
        trap(
            anchor="no-grad-and-forward-mode",
            title="torch.no_grad() inside f stops reverse mode and not forward mode",
            why="""`torch.no_grad()` stops the recording of a graph. Forward mode (`jvp`,
                `jacfwd`) needs no graph and goes on, so `jacfwd` and `jacrev` of one
                function differ. Around `torch.func` calls, `no_grad` changes neither.""",
            fix="""To treat a part as a constant use `.detach()`, which both modes
                respect.""",
            broken="""
                import torch

                def f(x):
                    with torch.no_grad():
                        return x**2

                x = torch.tensor([1.0, 2.0])
                forward, reverse = torch.func.jacfwd(f)(x), torch.func.jacrev(f)(x)
                assert torch.equal(forward, torch.diag(2 * x))
                assert torch.equal(reverse, torch.zeros(2, 2))
                print(forward, reverse)
                """,
            fixed="""
                import torch

                f = lambda x: x.detach() ** 2
                x = torch.tensor([1.0, 2.0])
                forward, reverse = torch.func.jacfwd(f)(x), torch.func.jacrev(f)(x)
                assert torch.equal(forward, reverse)
                print(forward)
                """,
            see=("no-grad-detach", "reverse-or-forward"),
            source=("reproduced here; no thread found",),
        ),
        trap(
            anchor="jacobian-of-a-closure",
            title="torch.autograd.functional.jacobian of a closure gives zeros",
            why="""The function ignores its argument and uses the variable around it, so
                with respect to the argument it is constant. The answer, zeros, is right
                for the question that was asked.""",
            fix="""Compute from the argument. `strict=True` turns the zeros into an error;
                for a tensor that is computed already use `pullback.jacobian(y, x)`.""",
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                y = x**2
                J = torch.autograd.functional.jacobian(lambda _: y, x)
                assert torch.equal(J, torch.zeros(2, 2))
                print(J)
                """,
            fixed="""
                import torch

                import pullback

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                y = x**2
                J = pullback.jacobian(y, x)
                assert torch.equal(J, torch.diag(2 * x))
                print(J)
                """,
            see=(
                "closures-of-zeros",
                "jacobian-at-once",
                "error-independent-in-strict-mode",
            ),
            source=("PT#53666", "PT#95916"),
        ),
        trap(
            anchor="complex-jacobian-conjugate",
            title="functional.jacobian of a complex function: reverse and forward mode "
            "disagree",
            why="""With `vectorize=True` (without it torch refuses). For a holomorphic
                function reverse mode returns the conjugate of what forward mode returns:
                the cotangent carries a conjugate (it points uphill), the tangent does not.
                For other functions neither number is the whole derivative, which has two
                real columns for each complex input.""",
            fix="""Write complex functions as functions of their real and imaginary parts
                (`torch.view_as_real`): both modes then agree, and nothing is assumed
                about f.""",
            broken="""
                import torch

                z = torch.tensor([1 + 2j])
                reverse, forward = (
                    torch.autograd.functional.jacobian(
                        torch.square, z, vectorize=True, strategy=strategy
                    )
                    for strategy in ("reverse-mode", "forward-mode")
                )
                assert torch.equal(reverse, forward.conj())
                assert not torch.equal(reverse, forward)
                print(reverse.resolve_conj(), forward.resolve_conj())
                """,
            fixed="""
                import torch

                def f(parts):
                    z = torch.view_as_complex(parts)
                    return torch.view_as_real(z**2)

                parts = torch.view_as_real(torch.tensor([1 + 2j]))
                reverse, forward = (
                    transform(f)(parts)
                    for transform in (torch.func.jacrev, torch.func.jacfwd)
                )
                assert torch.equal(reverse, forward)
                print(forward.squeeze())
                """,
            see=("complex-v", "error-expected-real-inputs"),
            source=("PT#94397", "PT#92140"),
        ),
        trap(
            anchor="mutating-function",
            title="A function that works in place changes your own x under jvp, jacfwd "
            "and vmap",
            why="""Reverse mode refuses a function that writes to its argument. Forward
                mode (`torch.func.jvp`, `jacfwd`) and `vmap` let it, on your tensor's own
                memory: the product is right, and x is another one afterwards.""",
            fix="""Write out-of-place operations, or start f with `x = x.clone()`.
                `pullback` refuses such functions by name.""",
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0])
                _, product = torch.func.jvp(lambda x: x.mul_(2), (x,), (torch.ones(2),))
                assert torch.equal(x, torch.tensor([2.0, 4.0]))  # it was [1, 2]
                print(product, x)
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0])
                _, product = torch.func.jvp(lambda x: x * 2, (x,), (torch.ones(2),))
                assert torch.equal(x, torch.tensor([1.0, 2.0]))
                print(product, x)
                """,
            see=("in-place", "reverse-or-forward"),
            source=("reproduced here; no thread found",),
        ),
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
            anchor="outputs-are-summed",
            title="Several outputs in one grad call: their gradients are summed, not "
            "stacked",
            why="""`torch.autograd.grad([y1, y2], x)` returns one tensor for each *input*.
                What each output sends back is added up, as if you had differentiated
                `y1 + y2`.""",
            fix="""Call once for each output (`retain_graph=True`), or pass one-hot `v`s
                with `is_grads_batched=True`, or use `pullback.jacobian`.""",
            broken="""
                import torch

                x = torch.tensor(3.0, requires_grad=True)
                (g,) = torch.autograd.grad([x**2, 10 * x], [x])
                assert g == 2 * 3 + 10
                print(g)
                """,
            fixed="""
                import torch

                x = torch.tensor(3.0, requires_grad=True)
                y = torch.stack([x**2, 10 * x])
                (each,) = torch.autograd.grad(y, x, torch.eye(2), is_grads_batched=True)
                assert each.tolist() == [6.0, 10.0]
                print(each)
                """,
            see=("several-outputs", "one-component", "jacobian-row-by-row"),
            source=("PF/83134", "PT#7786", "PT#1605"),
        ),
        trap(
            anchor="ones-on-mixed-samples",
            title="ones_like(y) gives no derivative for each sample when samples mix",
            why="""With softmax over the batch, BatchNorm in training, attention or cumsum
                an output depends on other samples, too. Ones then sum over all of them.""",
            fix="""Ask `pullback.mixing(f, x)` first; when samples mix, take the Jacobian
                and its diagonal.""",
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
                y = x.softmax(0)
                (g,) = torch.autograd.grad(y, x, torch.ones(3))
                torch.testing.assert_close(g, torch.zeros(3), atol=1e-7, rtol=0)
                print(g.round(decimals=4).abs())
                """,
            fixed="""
                import torch

                import pullback

                x = torch.tensor([1.0, 2.0, 3.0])
                f = lambda x: x.softmax(0)
                assert pullback.mixing(f, x)
                own = pullback.jacobian(f, x).diagonal()
                torch.testing.assert_close(own, f(x) * (1 - f(x)))
                print(own.round(decimals=4))
                """,
            see=("mixing-samples", "ones-trick"),
            source=("TaoYang225/AD-DROP#2", "mrana6/euclideanizing_flows#2"),
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
        trap(
            anchor="python-random-inside-vmap",
            title="random.random() inside vmap gives all samples one number",
            why="""`vmap` runs the Python function once, for all samples together. Python's
                and NumPy's random numbers, a counter, a `print` happen once.""",
            fix="""Draw with torch, and say `randomness="different"`; or draw a tensor
                outside, with a number for each sample, and pass it in.""",
            broken="""
                import random

                import torch

                noisy = torch.vmap(lambda x: x + random.random())(torch.zeros(3))
                assert (noisy == noisy[0]).all()
                print(len(noisy.unique()))
                """,
            fixed="""
                import torch

                draw = torch.vmap(lambda x: x + torch.rand(()), randomness="different")
                noisy = draw(torch.zeros(3))
                assert len(noisy.unique()) == 3
                print(len(noisy.unique()))
                """,
            see=("vmap-limits",),
            source=("PT#42368",),
        ),
    ),
)
