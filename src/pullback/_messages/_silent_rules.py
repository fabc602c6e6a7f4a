"""Traps that raise nothing: torch's own rule leaves a part of the derivative out."""

from pullback._messages._entry import Theme, trap

SILENT_RULES = Theme(
    "silent-rules",
    (
        trap(
            anchor="repeated-index",
            title="Writing to one place twice sends v to the overwritten value too",
            why="""`y[index] = values` with an index that occurs twice keeps one of the
                values. The derivative rule of `index_put`, `scatter` and `index_copy` is
                `v[index]` all the same, so the value that was overwritten, which y does not
                depend on, gets a gradient.""",
            fix="""Make the places unique before you write, or add up instead of
                overwriting: `index_add`, `index_put(accumulate=True)` and `scatter_add` are
                linear and their rule is right.""",
            broken="""
                import torch

                index = torch.tensor([0, 0, 1])
                values = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
                y = torch.zeros(3).scatter(0, index, values)
                (g,) = torch.autograd.grad(y.sum(), values)
                assert torch.equal(y, torch.tensor([2.0, 3.0, 0.0]))  # no 1 in it
                assert torch.equal(g, torch.ones(3))  # and a gradient for it
                print(y.detach(), g)
                """,
            fixed="""
                import torch

                index = torch.tensor([0, 0, 1])
                values = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
                y = torch.zeros(3).index_add(0, index, values)
                (g,) = torch.autograd.grad((y**2).sum(), values)
                assert torch.equal(g, torch.tensor([6.0, 6.0, 6.0]))  # 2y, y = [3, 3, 0]
                print(g)
                """,
            see=("in-place", "silent-traps"),
            source=("torch/csrc/autograd (derivatives.yaml: scatter, index_put)",),
        ),
        trap(
            anchor="det-of-a-singular-matrix",
            title="The gradient of det at a singular matrix is zero, or it is not",
            why="""The gradient of a determinant is the matrix of cofactors, also where the
                determinant is zero. The rule solves with the matrix instead, and where the
                determinant is exactly zero, it puts zeros. With `create_graph=True` (and in
                `torch.func.grad`) another rule is used, which is right; forward mode has
                zeros again.""",
            fix="""Pass `create_graph=True` where the determinant may be exactly zero, or
                write a small determinant out.""",
            broken="""
                import torch

                A = torch.tensor([[1.0, 2.0], [2.0, 4.0]], requires_grad=True)
                (plain,) = torch.autograd.grad(torch.linalg.det(A), A)
                (graph,) = torch.autograd.grad(torch.linalg.det(A), A, create_graph=True)
                cofactors = torch.tensor([[4.0, -2.0], [-2.0, 1.0]])
                assert torch.equal(plain, torch.zeros(2, 2))
                torch.testing.assert_close(graph, cofactors)
                print(plain.abs(), graph.detach().round(), sep="\\n")
                """,
            fixed="""
                import torch

                A = torch.tensor([[1.0, 2.0], [2.0, 4.0]], requires_grad=True)
                det = A[0, 0] * A[1, 1] - A[0, 1] * A[1, 0]
                (g,) = torch.autograd.grad(det, A)
                assert torch.equal(g, torch.tensor([[4.0, -2.0], [-2.0, 1.0]]))
                print(g)
                """,
            see=("kinks", "silent-traps"),
            source=("torch/csrc/autograd (FunctionsManual.cpp, linalg_det_backward)",),
        ),
        trap(
            anchor="once-differentiable-in-a-sum",
            title="@once_differentiable lets a second derivative pass without its part",
            why="""The mark turns into an error only if v itself needs a gradient. When the
                output is summed, v is a constant: what `backward` returns has no graph, it
                counts as a constant, and its part of the second derivative is missing.""",
            fix="""Take the mark away and write `backward` with differentiable operations on
                saved inputs. Check with `torch.autograd.gradgradcheck`.""",
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

                x = torch.tensor(1.0, requires_grad=True)
                y = Square.apply(x) + x**3
                (first,) = torch.autograd.grad(y, x, create_graph=True)
                (second,) = torch.autograd.grad(first, x)
                assert first == 2 + 3 and second == 6  # it is 2 + 6
                print(first.item(), second.item())
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

                x = torch.tensor(1.0, requires_grad=True)
                y = Square.apply(x) + x**3
                (first,) = torch.autograd.grad(y, x, create_graph=True)
                (second,) = torch.autograd.grad(first, x)
                assert first == 2 + 3 and second == 2 + 6
                print(first.item(), second.item())
                """,
            see=("twice-differentiable", "error-once-differentiable"),
            source=("torch/autograd/function.py (once_differentiable)",),
        ),
        trap(
            anchor="forward-mode-in-threads",
            title="jvp, jacfwd and hessian in several threads return zeros",
            why="""Forward mode keeps its level in one place for the whole process. The
                thread that entered first closes the level when it is done, and the tangents
                of the others are gone: zeros, or an error about a missing level, depending
                on the moment.""",
            fix="""Use reverse mode in threads (`torch.func.grad`, `jacrev`, and
                `jacrev(jacrev(f))` for a Hessian), put a lock around forward mode, or use
                processes.""",
            broken="""
                from concurrent.futures import ThreadPoolExecutor
                from threading import Event

                import torch

                x = torch.tensor([1.0, 2.0])
                one_inside, both_inside, one_done = Event(), Event(), Event()

                def cube_in_one(x):
                    one_inside.set()
                    both_inside.wait(timeout=60)
                    return (x**3).sum()

                def cube_in_other(x):
                    both_inside.set()
                    one_done.wait(timeout=60)
                    return (x**3).sum()

                def other():
                    one_inside.wait(timeout=60)
                    return torch.func.hessian(cube_in_other)(x)

                with ThreadPoolExecutor() as pool:
                    one = pool.submit(torch.func.hessian(cube_in_one), x)
                    two = pool.submit(other)
                    H = one.result()
                    one_done.set()
                assert torch.equal(H, torch.diag(6 * x))
                assert torch.equal(two.result(), torch.zeros(2, 2))
                print(two.result())
                """,
            fixed="""
                from concurrent.futures import ThreadPoolExecutor

                import torch
                from torch.func import jacrev

                points = [torch.tensor([1.0, float(i)]) for i in range(8)]
                hessian = jacrev(jacrev(lambda x: (x**3).sum()))
                with ThreadPoolExecutor() as pool:
                    hessians = list(pool.map(hessian, points))
                for x, H in zip(points, hessians, strict=True):
                    torch.testing.assert_close(H, torch.diag(6 * x))
                print(hessians[-1])
                """,
            see=("full-hessian", "reverse-or-forward", "error-no-dual-level"),
            source=("torch/_functorch/eager_transforms.py (JVP_NESTING)",),
        ),
        trap(
            anchor="compiled-custom-backward",
            title="torch.compile of torch.func.grad ignores a custom backward",
            why="""Under `torch.func.grad`, the compiler differentiates the operations of a
                Function's `forward`, before torch 2.15, and not by its `backward`. A rule
                that is no derivative on purpose, as a straight-through one, is lost.""",
            fix="""Write the rule with `detach`, which is compiled as it is; or leave the
                gradient eager, or take `loss.backward()` of the compiled loss. Compare with
                the eager result once.""",
            broken="""
                import torch

                def make_loss():
                    class Through(torch.autograd.Function):
                        forward = staticmethod(lambda x: x.round())
                        setup_context = staticmethod(lambda ctx, inputs, output: None)
                        backward = staticmethod(lambda ctx, v: v)

                    return lambda x: (3 * Through.apply(x)).sum()

                x = torch.tensor([1.2, 2.6])
                gradient = torch.func.grad(make_loss())
                compiled = torch.compile(gradient, backend="aot_eager")
                assert torch.equal(gradient(x), torch.tensor([3.0, 3.0]))
                lost = torch.__version__ < "2.15"
                assert torch.equal(compiled(x), torch.zeros(2)) == lost  # round's slope
                print(gradient(x), compiled(x))
                """,
            fixed="""
                import torch

                x = torch.tensor([1.2, 2.6])
                loss = lambda x: (3 * (x + (x.round() - x).detach())).sum()
                gradient = torch.func.grad(loss)
                compiled = torch.compile(gradient, backend="aot_eager")
                assert torch.equal(compiled(x), torch.tensor([3.0, 3.0]))
                print(compiled(x))
                """,
            see=("compiled-and-exported", "custom-function", "discrete-choices"),
            source=("PT#193279", "PT#186303"),
        ),
        trap(
            anchor="module-in-a-function",
            title="A module passed to a custom Function trains nothing: weight.grad stays "
            "None",
            why="""`forward` of a Function runs without recording, and `apply` sees the
                tensors among its own arguments and none inside of a module. So the
                parameters get no gradient; and where no tensor argument requires one,
                `backward` is never called.""",
            fix="""Pass the parameters to `apply` one by one, `MyFn.apply(x, net,
                *net.parameters())`, and return a gradient for each, None for a frozen one;
                or call the module outside of the Function.""",
            broken="""
                import torch

                class Run(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x, net):
                        ctx.net, ctx.x = net, x.detach().requires_grad_()
                        return net(x)

                    @staticmethod
                    def backward(ctx, v):
                        with torch.enable_grad():
                            y = ctx.net(ctx.x)
                        return torch.autograd.grad(y, ctx.x, v)[0], None

                net, x = torch.nn.Linear(2, 1), torch.ones(1, 2)
                assert not Run.apply(x, net).requires_grad  # no backward at all
                Run.apply(x.requires_grad_(), net).sum().backward()
                assert torch.equal(x.grad, net.weight)
                assert net.weight.grad is None
                print(net.weight.grad)
                """,
            fixed="""
                import torch

                class Run(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x, net, *parameters):
                        ctx.net, ctx.x = net, x.detach().requires_grad_()
                        return net(x)

                    @staticmethod
                    def backward(ctx, v):
                        with torch.enable_grad():
                            y = ctx.net(ctx.x)
                        inputs = ctx.x, *ctx.net.parameters()
                        for_x, *others = torch.autograd.grad(y, inputs, v)
                        return for_x, None, *others

                net, x = torch.nn.Linear(2, 1), torch.ones(1, 2)
                Run.apply(x, net, *net.parameters()).sum().backward()
                assert torch.equal(net.weight.grad, x)
                print(net.weight.grad)
                """,
            see=("custom-function", "checkpointing"),
            source=("PT#95678", "ashawkey/torch-ngp#171"),
        ),
        trap(
            anchor="hook-after-compile",
            title="A module hook registered after the first compiled call does not run",
            why="""The first call compiles the module as it is, without the hook, and later
                calls do not look for new hooks.""",
            fix="""Register hooks before the first call of the compiled function; or call
                `torch.compiler.reset()` after, so that the next call compiles anew.""",
            broken="""
                import torch

                layer = torch.nn.Linear(1, 1, bias=False)
                torch.nn.init.constant_(layer.weight, 3.0)
                run = torch.compile(lambda x: layer(x), backend="aot_eager")
                x = torch.ones(1, 1, requires_grad=True)
                run(x)
                layer.register_full_backward_hook(lambda module, g, v: (10 * g[0],))
                (g,) = torch.autograd.grad(run(x), x)
                assert g == 3  # the hook makes it 30
                print(g)
                """,
            fixed="""
                import torch

                layer = torch.nn.Linear(1, 1, bias=False)
                torch.nn.init.constant_(layer.weight, 3.0)
                layer.register_full_backward_hook(lambda module, g, v: (10 * g[0],))
                run = torch.compile(lambda x: layer(x), backend="aot_eager")
                x = torch.ones(1, 1, requires_grad=True)
                (g,) = torch.autograd.grad(run(x), x)
                assert g == 30
                print(g)
                """,
            see=("module-hooks", "compiled-and-exported"),
            source=("PT#115750",),
        ),
    ),
)
