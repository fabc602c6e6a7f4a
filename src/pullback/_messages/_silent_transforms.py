"""Traps that raise nothing, of forward mode, ``functional`` and ``vmap``."""

from pullback._messages._entry import Theme, trap

SILENT_TRANSFORMS = Theme(
    "silent-transforms",
    (
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
