"""Messages of ``torch.compile`` and of CUDA graphs."""

from pullback._messages._entry import Message, Theme

COMPILED = Theme(
    "compiled",
    (
        Message(
            anchor="compile-double-backward",
            title="torch.compile with aot_autograd does not currently support double "
            "backward",
            patterns=(
                r"torch\.compile with aot_autograd does not currently support double "
                r"backward",
            ),
            why="""A compiled function has a compiled backward, and that is not
                differentiable again.""",
            fix="""Differentiate twice in eager mode, with the function that has not gone
                through `torch.compile`, or compile a function that computes
                the second derivative with `torch.func` inside.""",
            broken="""
                import torch

                cube = torch.compile(lambda x: (x**3).sum(), backend="aot_eager")
                x = torch.tensor([1.0, 2.0], requires_grad=True)
                (g,) = torch.autograd.grad(cube(x), x, create_graph=True)
                g.sum().backward()
                """,
            fixed="""
                import torch

                cube = lambda x: (x**3).sum()
                x = torch.tensor([1.0, 2.0], requires_grad=True)
                (g,) = torch.autograd.grad(cube(x), x, create_graph=True)
                g.sum().backward()
                assert torch.equal(x.grad, 6 * x)
                print(x.grad)
                """,
            see=("second-derivatives", "error-create-graph-reference-cycle"),
            source=("PT#91469", "PT#183603"),
        ),
        Message(
            anchor="unsupported-tensor-backward",
            title="Unsupported Tensor.backward() call",
            kinds=("Unsupported",),
            patterns=(
                r"Unsupported Tensor\.backward\(\) call",
                r"autograd\.grad consumed returned tensor's grad_fn",
            ),
            older=("autograd.grad consumed returned tensor's grad_fn",),
            why="""`torch.compile` traces the forward pass; `backward` belongs after the
                compiled function, not inside it. With `fullgraph=True` it may not leave
                the graph to run it.""",
            fix="""Compile the function up to the loss and call `loss.backward()` outside,
                or take the gradient with `torch.func.grad` inside; without `fullgraph=True`
                the same code runs, in several graphs, and fills the same `.grad`.""",
            tell=(
                "The hint names `torch._dynamo.trace_autograd_ops=True`: in torch 2.13 the "
                "switch is `torch._dynamo.config.trace_autograd_ops = True`. With it "
                "`fullgraph=True` runs, too, if the function returns `loss.detach()`: "
                "returning `loss` raises `consumed returned tensor's grad_fn`.",
            ),
            broken="""
                import torch

                @torch.compile(fullgraph=True, backend="eager")
                def step(x):
                    loss = (x**2).sum()
                    loss.backward()
                    return loss

                step(torch.tensor([1.0, 2.0], requires_grad=True))
                """,
            fixed="""
                import torch

                @torch.compile(fullgraph=True, backend="eager")
                def loss(x):
                    return (x**2).sum()

                def step(x):
                    (x**2).sum().backward()

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                loss(x).backward()
                assert torch.equal(x.grad, 2 * x)
                torch.compile(step, backend="eager")(x)
                with torch._dynamo.config.patch(trace_autograd_ops=True):
                    torch.compile(step, fullgraph=True, backend="eager")(x)
                assert torch.equal(x.grad, 3 * 2 * x)
                print(x.grad)
                """,
            see=("error-compile-double-backward", "error-grad-inside-compile"),
            source=("torch/_dynamo (variables/tensor.py)",),
        ),
        Message(
            anchor="grad-inside-compile",
            title="using `torch.autograd.grad` with "
            "`torch._dynamo.config.trace_autograd_ops=False`",
            kinds=("Unsupported",),
            patterns=(
                r"using `torch\.autograd\.grad` with "
                r"`torch\._dynamo\.config\.trace_autograd_ops=False`",
                r"Unsupported Tensor\.requires_grad_\(\) call",
                r"Tensor\.retain_grad\(\) with AOTDispatcher",
            ),
            older=(
                "Unsupported Tensor.requires_grad_() call Explanation: Dynamo does not "
                "support changes to a Tensor's `requires_grad` through calling "
                "`requires_grad_()`.",
                "Tensor.retain_grad() with AOTDispatcher",
            ),
            why="""`torch.compile` traces the function as one graph, and steering autograd
                in the middle of it (`torch.autograd.grad`, `requires_grad_()`,
                `retain_grad()`) is no operation of that graph.""",
            fix="""Inside the compiled function use `torch.func.grad`, `vjp` or `jacrev`,
                which it can trace; or leave `fullgraph=True` out, and that line runs in
                eager mode.""",
            broken="""
                import torch

                @torch.compile(backend="eager", fullgraph=True)
                def slope(x):
                    (g,) = torch.autograd.grad((x**2).sum(), x)
                    return g

                slope(torch.tensor([1.0, 2.0], requires_grad=True))
                """,
            fixed="""
                import torch

                @torch.compile(backend="eager", fullgraph=True)
                def slope(x):
                    return torch.func.grad(lambda x: (x**2).sum())(x)

                x = torch.tensor([1.0, 2.0])
                g = slope(x)
                assert torch.equal(g, 2 * x)
                print(g)
                """,
            see=("error-unsupported-tensor-backward", "error-compile-double-backward"),
            source=("torch/_dynamo (graph_break_registry.json)",),
        ),
        Message(
            anchor="exported-fake-tensor",
            title="We found a fake tensor in the exported program constant's list",
            patterns=(r"We found a fake tensor in the exported program constant's list",),
            why="""A `forward` that calls `torch.autograd.grad`. `torch.export` follows that
                through some operations, `sin` or a power; at others, `exp` or a
                `Linear`, it is left with a tensor of unknown origin.""",
            fix="""Write the gradient down as operations with `make_fx`, then export
                that, for the shapes of the example.""",
            broken="""
                import torch

                class Slope(torch.nn.Module):
                    def forward(self, x):
                        x = x.detach().requires_grad_()
                        return torch.autograd.grad(x.exp().sum(), x)[0]

                torch.export.export(Slope(), (torch.ones(2),))
                """,
            fixed="""
                import torch
                from torch.fx.experimental.proxy_tensor import make_fx

                x = torch.tensor([1.0, 2.0])
                slope = make_fx(torch.func.grad(lambda x: x.exp().sum()))(x)
                program = torch.export.export(slope, (x,))
                assert torch.allclose(program.module()(2 * x), (2 * x).exp())
                print(program.module()(2 * x))
                """,
            see=("compiled-and-exported",),
            source=("torch/export",),
        ),
        Message(
            anchor="donated-buffers",
            title="This backward function was compiled with non-empty donated buffers "
            "which requires create_graph=False and retain_graph=False",
            patterns=(
                r"This backward function was compiled with non-empty donated buffers which "
                r"requires create_graph=False and retain_graph=False",
            ),
            why="""The compiled backward writes its results into memory that the forward
                pass saved. After the first pass that memory is used up, so
                `retain_graph=True` and `create_graph=True` are refused. What was compiled
                for an earlier, plain `backward` is used again, so training runs until a
                loss asks for the graph.""",
            fix="""Go back once: add the losses before `backward`, or pass several v at once
                with `is_grads_batched=True` in eager mode. To keep the graph, set
                `torch._functorch.config.donated_buffer = False` before the first call.""",
            tell=(
                "It comes after some epochs, with a GAN loss or an adaptive weight: the "
                "first `grad` with `retain_graph=True`. Set the switch before training.",
                "A first `backward` that keeps the graph does not raise: it compiles a "
                "version that donates nothing. Where sizes are dynamic (`dynamic=True`, a "
                "second batch size) it raises, too.",
            ),
            broken="""
                import torch
                from torch.nn import GELU, Linear, Sequential, Tanh

                layers = Linear(4, 8), Tanh(), Linear(8, 8), GELU(), Linear(8, 1)
                model = Sequential(*layers)
                compiled = torch.compile(model, backend="aot_eager")
                x = torch.ones(3, 4)
                compiled(x).sum().backward()
                weight = model[0].weight
                torch.autograd.grad(compiled(x).sum(), weight, retain_graph=True)
                """,
            fixed="""
                import torch
                from torch.nn import GELU, Linear, Sequential, Tanh

                layers = Linear(4, 8), Tanh(), Linear(8, 8), GELU(), Linear(8, 1)
                model = Sequential(*layers)
                compiled = torch.compile(model, backend="aot_eager")
                x, weight = torch.ones(3, 4), model[0].weight
                with torch._functorch.config.patch(donated_buffer=False):
                    compiled(x).sum().backward()
                    loss = compiled(x).sum()
                    (g,) = torch.autograd.grad(loss, weight, retain_graph=True)
                    loss.backward()
                torch.testing.assert_close(weight.grad, 2 * g)
                print(g.shape)
                """,
            see=("second-backward", "several-losses"),
            source=("torch/_functorch (_aot_autograd/runtime_wrappers.py)",),
        ),
        Message(
            anchor="cudagraph-output-overwritten",
            title="Error: accessing tensor output of CUDAGraphs that has been overwritten "
            "by a subsequent run",
            patterns=(
                r"accessing tensor output of CUDAGraphs that has been overwritten by a "
                r"subsequent run",
                r"Unable to hit fast path of CUDAGraphs because of pending, "
                r"uninvoked backwards",
            ),
            older=(
                "Unable to hit fast path of CUDAGraphs because of pending, "
                "uninvoked backwards.",
            ),
            kinds=("RuntimeError", "UserWarning"),
            why="""With `mode="reduce-overhead"` the results of a compiled function lie in
                memory that its next call uses again. A loss, an output or a gradient of the
                call before is gone.""",
            fix="""`.clone()` what you keep beyond the next call, outside the compiled
                function, and finish `backward` before the next forward pass.
                `torch.compiler.cudagraph_mark_step_begin()` marks the beginning of a step
                and keeps nothing alive.""",
            tell=(
                "Several forward passes before one `backward` (gradient accumulation, a "
                "discriminator): use another mode, or one pass over the joined batch.",
                "A list of losses or outputs over steps: `.detach().clone()` each.",
                "`pending, uninvoked backwards`: a result of the forward pass "
                "is still held, and `backward` was not called on it; detach "
                "what you keep for printing.",
            ),
            see=("second-backward", "gradient-cache"),
            source=("PT#148439", "PT#170604"),
        ),
        Message(
            anchor="compiled-backward-in-vmap",
            title="It looks like you're trying to call a compiled backward function within "
            "vmap/grad/vjp, which isn't supported.",
            patterns=(
                r"It looks like you're trying to call a compiled backward function within "
                r"vmap/grad/vjp",
            ),
            why="""y comes from a compiled function, so its backward is one compiled node,
                and `vmap` cannot look into that to batch it.""",
            fix="""Put the transform around the plain function and compile the result:
                `torch.compile(torch.func.jacrev(f))(x)`, or `vmap` of `vjp` in the same
                way. `jacrev(compiled)(x)` runs, too, but plain calls of `compiled` are no
                longer compiled after it.""",
            broken="""
                import torch

                cube = torch.compile(lambda x: x**3, backend="aot_eager")
                x = torch.tensor([1.0, 2.0], requires_grad=True)
                y = cube(x)
                torch.vmap(lambda v: torch.autograd.grad(y, x, v))(torch.eye(2))
                """,
            fixed="""
                import torch

                cube = lambda x: x**3
                x = torch.tensor([1.0, 2.0])
                J = torch.compile(torch.func.jacrev(cube), backend="aot_eager")(x)
                assert torch.equal(J, torch.diag(3 * x**2))
                print(J)
                """,
            see=(
                "compiled-and-exported",
                "jacobian-at-once",
                "error-compile-double-backward",
            ),
            source=("torch/_functorch (_aot_autograd/runtime_wrappers.py)",),
        ),
        Message(
            anchor="requires-grad-inside-compile",
            title="Attempted to use tensor creation function with requires_grad=True",
            kinds=("Unsupported",),
            patterns=(
                r"Attempted to use tensor creation function with requires_grad=True",
                r"setattr\(\) on Tensor\.requires_grad",
            ),
            older=("setattr() on Tensor.requires_grad",),
            why="""A leaf is made, or a tensor turned into one, in the middle of the traced
                function. The compiled graph has its leaves at the edge: the inputs and
                the parameters.""",
            fix="""Make the leaf outside and pass it in. For a derivative inside the
                function use `torch.func.grad`, which needs no `requires_grad`.""",
            broken="""
                import torch

                @torch.compile(backend="eager", fullgraph=True)
                def f(x):
                    w = torch.ones(2, requires_grad=True)
                    return (w * x).sum()

                f(torch.tensor([3.0, 4.0])).backward()
                """,
            fixed="""
                import torch

                @torch.compile(backend="eager", fullgraph=True)
                def f(x, w):
                    return (w * x).sum()

                w = torch.ones(2, requires_grad=True)
                f(torch.tensor([3.0, 4.0]), w).backward()
                assert w.grad.tolist() == [3.0, 4.0]
                print(w.grad)
                """,
            see=("error-grad-inside-compile", "error-unsupported-tensor-backward"),
            source=("torch/_dynamo (variables/torch.py)",),
        ),
        Message(
            anchor="module-hook-inside-compile",
            title="Module-level backwards hooks require compiled autograd.",
            kinds=("Unsupported",),
            patterns=(r"Module-level backwards hooks require compiled autograd",),
            why="""A full backward hook of a module, or a pre-hook, is Python that runs in
                the middle of backward. With `fullgraph=True` the backward is compiled
                without Python in between.""",
            fix="""Leave `fullgraph=True` out, and the module with the hook runs in eager
                mode. Or register the hook on the output of the compiled function:
                `y.register_hook(...)`.""",
            broken="""
                import torch

                layer = torch.nn.Linear(2, 1)
                layer.register_full_backward_hook(lambda module, g_in, g_out: None)
                f = torch.compile(layer, backend="eager", fullgraph=True)
                f(torch.ones(1, 2, requires_grad=True)).sum().backward()
                """,
            fixed="""
                import torch

                layer, seen = torch.nn.Linear(3, 1), []
                f = torch.compile(layer, backend="eager", fullgraph=True)
                y = f(torch.ones(1, 3, requires_grad=True))
                y.register_hook(seen.append)
                y.sum().backward()
                assert seen[0].item() == 1.0
                print(seen)
                """,
            see=("hooks", "error-grad-inside-compile"),
            source=("torch/_dynamo (variables/distributed.py)",),
        ),
        Message(
            anchor="custom-jvp-inside-compile",
            title="Unsupported custom jvp",
            kinds=("Unsupported",),
            patterns=(r"Unsupported custom (?P<name>jvp|vjp)\b",),
            older=("Unsupported custom vjp",),
            why="""The Function has a rule of its own for forward mode (or calls its
                backward `vjp`), and `torch.compile` traces only `forward` and
                `backward`.""",
            fix="""Leave `fullgraph=True` out: the Function then runs in eager mode, with
                both rules. Where only reverse mode is compiled, give it a version without
                `jvp`, and rename `vjp` to `backward`.""",
            broken="""
                import torch

                class Double(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        return 2 * x

                    @staticmethod
                    def backward(ctx, v):
                        return 2 * v

                    @staticmethod
                    def jvp(ctx, tangent):
                        return 2 * tangent

                f = torch.compile(Double.apply, backend="eager", fullgraph=True)
                f(torch.ones(2, requires_grad=True))
                """,
            fixed="""
                import torch

                class Double(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        return 2 * x

                    @staticmethod
                    def backward(ctx, v):
                        return 2 * v

                f = torch.compile(Double.apply, backend="eager", fullgraph=True)
                x = torch.ones(2, requires_grad=True)
                f(x).sum().backward()
                assert x.grad.tolist() == [2.0, 2.0]
                print(x.grad)
                """,
            see=("custom-function", "error-implement-jvp"),
            source=("torch/_dynamo (variables/misc.py)",),
        ),
    ),
)
