"""Messages of ``torch.func`` and ``torch.vmap``."""

from pullback._messages._entry import Message, Theme

TRANSFORMS = Theme(
    "transforms",
    (
        Message(
            anchor="grad-needs-a-scalar",
            title="grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor",
            patterns=(
                r"(?:grad|grad_and_value)\(f\)\(\*args\): Expected f\(\*args\) to return a "
                r"(?:scalar )?[Tt]ensor(?:, got (?P<got>.*?)(?:\.|$))?",
            ),
            older=(
                "grad(f)(*args): Expected f(*args) to return a scalar tensor, got tensor "
                "with 1 dims. Maybe you wanted to use the vjp or jacrev APIs instead?",
            ),
            why="""`torch.func.grad` is for functions that return one 0-dimensional tensor.
                Unlike `backward` it refuses even a tensor of shape `(1,)`.""",
            fix="""f returned {got}. Return a 0-dimensional tensor (`.sum()`, `.squeeze()`,
                `y[k]`), use `has_aux=True` for a tuple of loss and other results, `jacrev`
                for all outputs, or `vmap(grad(f))` for many points.""",
            unknown={"got": "something else"},
            tell=(
                "`tensor with 1 dims`: several outputs, or shape `(1,)`.",
                "`<class 'tuple'>`: return `(loss, rest)` and pass `has_aux=True`.",
                "`<class 'float'>`: `.item()` or `float()` left the graph.",
            ),
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0, 3.0])
                torch.func.grad(lambda x: x**2)(x)
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0, 3.0])
                each = torch.vmap(torch.func.grad(lambda x: x**2))(x)
                assert torch.equal(each, 2 * x)
                print(each)
                """,
            see=("ones-trick", "jacobian-at-once"),
            source=("FT#1070",),
        ),
        Message(
            anchor="backward-inside-a-transform",
            title="backward() called inside a functorch transform. This is not supported",
            patterns=(
                r"(?:backward|autograd\.grad|torch\.autograd\.grad)\(\) called inside a "
                r"functorch transform",
            ),
            why="""Inside `grad`, `vjp`, `vmap` and the others, f is a function to be
                differentiated; `backward` inside it would write to `.grad` fields
                that do not belong to it.""",
            fix="""Use `torch.func.grad` or `torch.func.vjp` inside as well: they nest.""",
            broken="""
                import torch

                def f(x):
                    y = (x**3).sum()
                    y.backward()
                    return y

                torch.func.grad(f)(torch.tensor([1.0, 2.0]))
                """,
            fixed="""
                import torch

                f = lambda x: (x**3).sum()
                norm = lambda x: torch.func.grad(f)(x).pow(2).sum()  # of the gradient
                x = torch.tensor([1.0, 2.0])
                outer = torch.func.grad(norm)(x)
                assert torch.equal(outer, 36 * x**3)
                print(outer)
                """,
            see=("jacobian-at-once",),
            source=("torch/autograd/__init__.py (backward)",),
        ),
        Message(
            anchor="requires-grad-inside-a-transform",
            title="You are attempting to call Tensor.requires_grad_() (or perhaps using "
            "torch.autograd.functional.* APIs) inside of a function being transformed",
            patterns=(r"You are attempting to call Tensor\.requires_grad_\(\)",),
            why="""`torch.func` keeps track of what is differentiated itself;
                `requires_grad_()` and `torch.autograd.functional` use the other mechanism,
                and the two do not nest this way.""",
            fix="""Inside, use `torch.func` alone: `torch.func.vjp`, `jacrev`, `hessian` in
                place of `torch.autograd.functional.*`, and no `requires_grad_()`.""",
            broken="""
                import torch

                J = lambda x: torch.autograd.functional.jacobian(torch.sin, x)
                torch.vmap(J)(torch.zeros(4, 3))
                """,
            fixed="""
                import torch

                J = torch.func.jacrev(torch.sin)
                batch = torch.vmap(J)(torch.zeros(4, 3))
                assert torch.equal(batch, torch.eye(3).expand(4, 3, 3))
                print(batch.shape)
                """,
            see=("jacobian-per-sample", "jacobian-at-once"),
            source=("FT#847", "FT#849", "FT#922"),
        ),
        Message(
            anchor="setup-context",
            title="In order to use an autograd.Function with functorch transforms (vmap, "
            "grad, jvp, jacrev, ...), it must override the setup_context staticmethod",
            patterns=(
                r"In order to use an autograd\.Function with functorch transforms",
                r"You tried to vmap over (?P<name>\w+), but it does not have vmap support",
            ),
            older=(
                "You tried to vmap over Square, but it does not have vmap support. Please "
                "override and implement the vmap staticmethod or set "
                "generate_vmap_rule=True.",
            ),
            why="""`torch.func` calls `forward` without a `ctx` and saves in a separate
                step. A Function whose `forward(ctx, x)` does both cannot be
                transformed.""",
            fix="""Split it: `forward(x)` computes, `setup_context(ctx, inputs, output)`
                saves. For `vmap`, also set `generate_vmap_rule = True` or write a static
                `vmap`.""",
            broken="""
                import torch

                class Square(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        ctx.save_for_backward(x)
                        return x**2

                    @staticmethod
                    def backward(ctx, v):
                        return 2 * ctx.saved_tensors[0] * v

                torch.func.grad(lambda x: Square.apply(x).sum())(torch.tensor([1.0, 2.0]))
                """,
            fixed="""
                import torch

                class Square(torch.autograd.Function):
                    generate_vmap_rule = True

                    @staticmethod
                    def forward(x):
                        return x**2

                    @staticmethod
                    def setup_context(ctx, inputs, output):
                        ctx.save_for_backward(*inputs)

                    @staticmethod
                    def backward(ctx, v):
                        return 2 * ctx.saved_tensors[0] * v

                x = torch.tensor([1.0, 2.0])
                each = torch.vmap(torch.func.grad(Square.apply))(x)
                assert torch.equal(each, 2 * x)
                print(each)
                """,
            see=("jacobian-per-sample",),
            source=("FT#1093",),
        ),
        Message(
            anchor="vmap-data-dependent",
            title="vmap: It looks like you're attempting to use a Tensor in some "
            "data-dependent control flow",
            patterns=(
                r"vmap: It looks like you're attempting to use a Tensor in some "
                r"data-dependent control flow",
            ),
            why="""Under `vmap` the function runs once, on all samples together. An `if` or
                `while` on a tensor's value would have to go both ways at once.""",
            fix="""Compute both branches and choose with `torch.where(condition, a, b)`
                (`torch.cond` for expensive ones), or loop over the samples. When the `if`
                is in a custom Function's `backward`, `jacrev(f, chunk_size=1)` loops for
                you.""",
            broken="""
                import torch

                absolute = lambda x: x if x > 0 else -x
                torch.vmap(absolute)(torch.tensor([-1.0, 2.0]))
                """,
            fixed="""
                import torch

                absolute = lambda x: torch.where(x > 0, x, -x)
                result = torch.vmap(absolute)(torch.tensor([-1.0, 2.0]))
                assert torch.equal(result, torch.tensor([1.0, 2.0]))
                print(result)
                """,
            see=("batched-v", "jacobian-per-sample"),
            source=("FT#257",),
        ),
        Message(
            anchor="vmap-item",
            title="vmap: It looks like you're calling .item() on a Tensor",
            patterns=(r"vmap: It looks like you're calling \.item\(\) on a Tensor",),
            why="""`.item()`, `float(t)` or `int(t)` wants one number, and under `vmap`
                there is one for each sample.""",
            fix="""Keep the tensor: `t * x` works with a 0-dimensional tensor where a number
                would. For sizes and indices take what does not depend on the sample out of
                the function.""",
            broken="""
                import torch

                torch.vmap(lambda x: x * float(x))(torch.tensor([1.0, 2.0]))
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0])
                result = torch.vmap(lambda x: x * x)(x)
                assert torch.equal(result, x**2)
                print(result)
                """,
            see=("batched-v",),
            source=("FT#257", "FT#770"),
        ),
        Message(
            anchor="vmap-dynamic-shape",
            title="vmap: We do not support batching operators that can output dynamic "
            "shape",
            patterns=(
                r"vmap: We do not support batching operators that can (?:support|output) "
                r"dynamic shape",
            ),
            older=(
                "vmap: We do not support batching operators that can support dynamic "
                "shape. Attempting to batch over indexing with a boolean mask.",
            ),
            why="""`x[mask]`, `nonzero`, `unique` give results whose length depends on the
                values; the samples' results could not be stacked.""",
            fix="""Keep the shape and put zeros where the mask is False:
                `torch.where(mask, x, 0)`, and divide by `mask.sum()` for a mean.""",
            broken="""
                import torch

                x = torch.tensor([[1.0, -2.0], [3.0, 4.0]])
                torch.vmap(lambda row: row[row > 0].sum())(x)
                """,
            fixed="""
                import torch

                x = torch.tensor([[1.0, -2.0], [3.0, 4.0]])
                result = torch.vmap(lambda row: torch.where(row > 0, row, 0).sum())(x)
                assert torch.equal(result, torch.tensor([1.0, 7.0]))
                print(result)
                """,
            see=("batched-v",),
            source=("FT#257", "aten/src/ATen/functorch (BatchRulesDynamic.cpp)"),
        ),
        Message(
            anchor="vmap-randomness",
            title="vmap: called random operation while in randomness error mode",
            patterns=(r"vmap: called random operation while in randomness error mode",),
            why="""Dropout or `torch.rand` inside `vmap`: should all samples get the same
                random numbers, or each its own? torch asks.""",
            fix="""`torch.vmap(f, randomness="different")` for each its own, `"same"` for
                all the same; or `model.eval()` when dropout is not wanted. `jacfwd` takes
                `randomness=` as well; or draw the numbers outside and pass them in.""",
            broken="""
                import torch

                torch.vmap(lambda x: x + torch.rand(()))(torch.zeros(3))
                """,
            fixed="""
                import torch

                torch.manual_seed(0)  # any seed: three draws differ
                noisy = lambda x: x + torch.rand(())
                result = torch.vmap(noisy, randomness="different")(torch.zeros(3))
                assert result.unique().numel() == 3
                print(result)
                """,
            see=("batched-v",),
            source=("PT#84220",),
        ),
        Message(
            anchor="mutate-a-captured-tensor",
            title="During a grad (vjp, jvp, grad, etc) transform, the function provided "
            "attempted to call in-place operation (aten::add_.Tensor) that would mutate a "
            "captured Tensor",
            patterns=(
                r"During a grad \(vjp, jvp, grad, etc\) transform, the function provided "
                r"attempted to call in-place operation \((?P<operation>[\w:.]+)\)",
            ),
            why="""f writes to a tensor from outside. A transformed function must get what
                it changes as an argument. BatchNorm in training does it: it updates its
                running statistics.""",
            fix="""{operation} writes to something captured: pass it in and return the new
                value. For BatchNorm: `model.eval()`, `track_running_stats=False`, or
                `torch.func.replace_all_batch_norm_modules_(model)`.""",
            broken="""
                import torch

                norm = torch.nn.BatchNorm1d(2)
                x = torch.tensor([[1.0, 2.0], [3.0, 5.0]])
                torch.func.grad(lambda x: norm(x).pow(3).sum())(x)
                """,
            fixed="""
                import torch

                norm = torch.nn.BatchNorm1d(2, track_running_stats=False)
                x = torch.tensor([[1.0, 2.0], [3.0, 5.0]])
                gradient = torch.func.grad(lambda x: norm(x).pow(3).sum())(x)
                # shifting all samples alike changes nothing
                torch.testing.assert_close(gradient.sum(0), torch.zeros(2))
                print(gradient.shape)
                """,
            see=("mixing-samples", "jacobian-per-sample"),
            source=("PT#85533",),
        ),
        Message(
            anchor="batch-norm-under-vmap",
            title="Batch norm got a batched tensor as input while the running_mean or "
            "running_var, which will be updated in place, were not batched",
            patterns=(
                r"Batch norm got a batched tensor as input while the running_mean or "
                r"running_var",
            ),
            why="""Under `vmap`, BatchNorm would update one running mean from many samples
                at once, each with its own batch.""",
            fix="""`model.eval()`, or BatchNorm with `track_running_stats=False`
                (`torch.func.replace_all_batch_norm_modules_(model)` sets it everywhere), or
                another norm: per-sample gradients of a batch-normalised model mix samples
                anyway.""",
            broken="""
                import torch

                norm = torch.nn.BatchNorm1d(2)
                torch.vmap(norm)(torch.ones(3, 4, 2))
                """,
            fixed="""
                import torch

                norm = torch.nn.BatchNorm1d(2)
                torch.func.replace_all_batch_norm_modules_(norm)
                result = torch.vmap(norm)(torch.ones(3, 4, 2))
                assert torch.equal(result, torch.zeros(3, 4, 2))
                print(result.shape)
                """,
            see=("mixing-samples", "jacobian-per-sample"),
            source=("PT#85533", "FT#867"),
        ),
        Message(
            anchor="expected-4d-input",
            title="expected 4D input (got 3D input)",
            kinds=("ValueError",),
            patterns=(
                r"expected (?P<expected>\dD(?: or \dD)?) input \(got (?P<got>\dD) input\)",
            ),
            why="""Inside `vmap` a function sees one sample, without the batch dimension. A
                layer that insists on one refuses.""",
            fix="""The layer got {got} and wants {expected}: give the sample a batch of one,
                `f(x.unsqueeze(0)).squeeze(0)`.""",
            tell=(
                "Inside `vmap`, `vmap(jacrev(f))`: `unsqueeze(0)`.",
                "Without `vmap`: your data lacks its batch or its channel dimension.",
            ),
            broken="""
                import torch

                norm = torch.nn.BatchNorm2d(2).eval()
                torch.vmap(norm)(torch.ones(3, 2, 4, 4))
                """,
            fixed="""
                import torch

                norm = torch.nn.BatchNorm2d(2).eval()
                one = lambda x: norm(x.unsqueeze(0)).squeeze(0)
                result = torch.vmap(one)(torch.ones(3, 2, 4, 4))
                torch.testing.assert_close(result, norm(torch.ones(3, 2, 4, 4)))
                print(result.shape)
                """,
            see=("jacobian-per-sample",),
            source=("FT#867", "PT#96655"),
        ),
        Message(
            anchor="vmap-in-dims",
            title="vmap: Got in_dim=0 for some input, but that input is a Tensor of "
            "dimensionality 0",
            kinds=("ValueError",),
            patterns=(
                r"Got in_dim=(?P<dim>-?\d+) for some input, but that input is a Tensor of "
                r"dimensionality (?P<ndim>\d+)",
                r"vmap: Expected all tensors to have the same size in the mapped "
                r"dimension, got sizes (?P<sizes>\[[\d, ]*\])",
            ),
            older=(
                "vmap: Expected all tensors to have the same size in the mapped dimension, "
                "got sizes [2, 3] for the mapped dimension",
            ),
            why="""`vmap` takes one dimension off every argument, of the same length. An
                argument without that dimension, or of another length, does not fit. Each
                `vmap` takes off one dimension: two of them need two.""",
            fix="""Say which arguments are batched: `torch.vmap(f, in_dims=(0, None))`
                passes the second one whole to every call. For an `(N, 1)` array squeeze
                it, or `vmap` twice.""",
            broken="""
                import torch

                scale = torch.tensor(3.0)
                torch.vmap(lambda x, scale: x * scale)(torch.ones(4), scale)
                """,
            fixed="""
                import torch

                scale = torch.tensor(3.0)
                f = lambda x, scale: x * scale
                result = torch.vmap(f, in_dims=(0, None))(torch.ones(4), scale)
                assert torch.equal(result, torch.full((4,), 3.0))
                print(result)
                """,
            see=("batched-v",),
            source=("JAX#28110", "torch/_functorch/vmap.py"),
        ),
        Message(
            anchor="vmap-performance-drop",
            title="There is a performance drop because we have not yet implemented the "
            "batching rule for aten::",
            kinds=("UserWarning",),
            patterns=(
                r"There is a performance drop because we have not yet implemented the "
                r"batching rule for (?P<operation>[\w:.]*\w)",
            ),
            why="""`vmap` has no rule for that operation, so it loops over the samples. The
                result is right, and as slow as a loop.""",
            fix="""Nothing needs to be done for correctness. For speed, replace
                {operation} by operations that have a rule.""",
            broken="""
                import torch

                torch.vmap(torch.bincount)(torch.tensor([[0, 1], [1, 1]]))
                """,
            fixed="""
                import torch

                counts = lambda x: torch.nn.functional.one_hot(x, 2).sum(0)
                result = torch.vmap(counts)(torch.tensor([[0, 1], [1, 1]]))
                assert result.tolist() == [[1, 1], [0, 2]]
                print(result)
                """,
            see=("batched-v",),
            source=("PT#122432",),
        ),
        Message(
            anchor="batching-rule-not-implemented",
            title="Batching rule not implemented for aten::lstm.input. We could not "
            "generate a fallback",
            patterns=(
                r"Batching rule not implemented for (?P<operation>[\w:.]*\w)\. We could "
                r"not generate a fallback",
            ),
            why="""`vmap` has no rule for that operation and cannot loop over it either.""",
            fix="""Take {operation} out of the `vmap`: a Python loop over the samples, the
                operation's own batch dimension, or the same formula in basic
                operations.""",
            broken="""
                import torch

                lstm = torch.nn.LSTM(2, 1)
                torch.vmap(lambda x: lstm(x)[0])(torch.ones(3, 4, 2))
                """,
            fixed="""
                import torch

                lstm = torch.nn.LSTM(2, 1)
                x = torch.ones(3, 4, 2)
                looped = torch.stack([lstm(sample)[0] for sample in x])
                own = lstm(x.transpose(0, 1))[0].transpose(0, 1)  # its own batch dimension
                torch.testing.assert_close(looped, own)
                print(own.shape)
                """,
            see=("batched-v", "jacobian-per-sample"),
            source=("PT#122432",),
        ),
        Message(
            anchor="expected-real-inputs",
            title="jacrev: Expected all inputs to be real but received complex tensor",
            patterns=(
                r"(?P<function>jacrev|jacfwd|hessian|jacobian): Expected all (?P<what>"
                r"inputs|outputs) to be real but received complex tensor",
            ),
            why="""A complex function has no Jacobian of complex numbers unless it is
                holomorphic: its real and its imaginary part depend on those of the input
                separately. `jacrev` and `jacfwd` therefore refuse.""",
            fix="""Give {function} real tensors: `torch.view_as_real` splits z into its real
                and imaginary part, `torch.view_as_complex` puts them together inside f.""",
            broken="""
                import torch

                z = torch.tensor([1 + 2j, 3 - 1j])
                torch.func.jacrev(torch.square)(z)
                """,
            fixed="""
                import torch

                def f(parts):
                    z = torch.view_as_complex(parts)
                    return torch.view_as_real(z**2)

                z = torch.tensor(1 + 2j)
                J = torch.func.jacrev(f)(torch.view_as_real(z))
                d = 2 * z  # multiplying by d = a + bi is [[a, -b], [b, a]]
                torch.testing.assert_close(
                    J, torch.tensor([[d.real, -d.imag], [d.imag, d.real]])
                )
                print(J)
                """,
            see=("jacobian-at-once",),
            source=("PT#94397", "PT#92140", "PT#94805"),
        ),
        Message(
            anchor="saved-tensor-hooks",
            title="torch.func.{grad, vjp, jacrev, hessian} don't yet support saved tensor "
            "hooks",
            patterns=(
                r"torch\.func\.\{grad, vjp, jacrev, hessian\} don't yet support saved "
                r"tensor hooks",
            ),
            why="""Checkpointing with `use_reentrant=False`, `save_on_cpu` and similar tools
                hook into what is saved for the backward pass; `torch.func` has no place for
                the hooks.""",
            fix="""Call the function without checkpointing inside `torch.func`, or use
                `torch.autograd.grad` in its place.""",
            broken="""
                import torch
                from torch.utils.checkpoint import checkpoint

                f = lambda x: checkpoint(torch.exp, x, use_reentrant=False).sum()
                torch.func.grad(f)(torch.zeros(2))
                """,
            fixed="""
                import torch
                from torch.utils.checkpoint import checkpoint

                x = torch.zeros(2, requires_grad=True)
                y = checkpoint(torch.exp, x, use_reentrant=False).sum()
                (gradient,) = torch.autograd.grad(y, x)
                assert torch.equal(gradient, torch.ones(2))
                print(gradient)
                """,
            see=("never-forms-j",),
            source=("PT#122729",),
        ),
    ),
)
