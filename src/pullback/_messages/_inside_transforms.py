"""Messages about what code may do inside a transform of ``torch.func``."""

from pullback._messages._entry import Message, Theme

INSIDE_TRANSFORMS = Theme(
    "inside-transforms",
    (
        Message(
            anchor="backward-inside-a-transform",
            title="backward() called inside a functorch transform. This is not supported",
            patterns=(
                r"(?:backward|autograd\.grad|torch\.autograd\.grad)\(\) called inside a "
                r"functorch transform",
                r"backward\(\) called inside torch\.vmap",
            ),
            older=(
                "backward() called inside torch.vmap. This is not supported, "
                "please call backward() outside torch.vmap or instead use "
                "torch.autograd.grad inside torch.vmap",
            ),
            why="""Inside `grad`, `vjp`, `vmap` and the others, f is a function to be
                differentiated; `backward` inside it would write to `.grad` fields
                that do not belong to it.""",
            fix="""Use `torch.func.grad` or `torch.func.vjp` inside as well: they nest. When
                f is a training step, let it return the loss and differentiate it from
                outside.""",
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
            see=("per-sample-gradients", "pinn", "jacobian-at-once"),
            source=("torch/autograd/__init__.py (backward)",),
        ),
        Message(
            anchor="requires-grad-inside-a-transform",
            title="You are attempting to call Tensor.requires_grad_() (or perhaps using "
            "torch.autograd.functional.* APIs) inside of a function being transformed",
            patterns=(
                r"You are attempting to call Tensor\.(?:requires|retain)_grad_?\(\)",
            ),
            older=(
                "You are attempting to call Tensor.retain_grad() inside of a "
                "function being transformed by a functorch transform.",
            ),
            why="""`torch.func` keeps track of what is differentiated itself;
                `requires_grad_()`, `retain_grad()` and `torch.autograd.functional` use the
                other mechanism, and the two do not nest this way.""",
            fix="""Inside, use `torch.func` alone: `torch.func.vjp`, `jacrev`, `hessian` in
                place of `torch.autograd.functional.*`, no `requires_grad_()`, and for an
                intermediate result a function of it in place of `retain_grad()`.""",
            tell=(
                "`requires_grad_()`: leave it out; `argnums` says what is differentiated.",
                "A derivative inside of the function, such as forces: `torch.func.grad` in "
                "place of `requires_grad_()` and `torch.autograd.grad`.",
                "`torch.func.stack_module_state` calls it: stack the models once, outside.",
                "`retain_grad()`, for the gradient of an intermediate `h`: split the "
                "function, and `torch.vmap(torch.func.grad(rest))(h)` is that gradient for "
                "each sample. For its value, return it beside the loss and set "
                "`has_aux=True`.",
                "`torch.autograd.functional.jacobian` calls it: `torch.func.jacrev`.",
            ),
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
            see=("vmap-limits", "jacobian-per-sample", "jacobian-at-once"),
            source=("FT#847", "FT#849", "FT#922"),
        ),
        Message(
            anchor="setup-context",
            title="In order to use an autograd.Function with functorch transforms (vmap, "
            "grad, jvp, jacrev, ...), it must override the setup_context staticmethod",
            kinds=("RuntimeError", "NotImplementedError"),
            patterns=(
                r"In order to use an autograd\.Function with functorch transforms",
                r"You tried to vmap over (?P<name>\w+), but it (?:does not have vmap "
                r"support|has both generate_vmap_rule=True)",
                r"To use autograd\.Function with vmap, you must either override "
                r"the vmap staticmethod",
                r"cannot use C\+\+ torch::autograd::Function with functorch "
                r"transforms",
                r"bind_default_args.*missing a required argument: '\w+'",
            ),
            older=(
                "You tried to vmap over Square, but it does not have vmap support. Please "
                "override and implement the vmap staticmethod or set "
                "generate_vmap_rule=True.",
                "You tried to vmap over F, but it has both "
                "generate_vmap_rule=True and an overridden vmap staticmethod.",
                "cannot use C++ torch::autograd::Function with functorch "
                "transforms (vmap, grad, vjp, etc)",
                "To use autograd.Function with vmap, you must either override "
                "the vmap staticmethod or set generate_vmap_rule=True.",
            ),
            why="""`torch.func` calls `forward` without a `ctx` and saves in a separate
                step. A Function whose `forward(ctx, x)` does both cannot be
                transformed.""",
            fix="""Split it: `forward(x)` computes, `setup_context(ctx, inputs, output)`
                saves. For `vmap`, also set `generate_vmap_rule = True` or write a static
                `vmap`.""",
            tell=(
                "`must override the setup_context`: `forward` still takes `ctx`. "
                "`torch.autograd.functional.jacobian` takes such a Function as it is.",
                "`does not have vmap support`: the rule for `vmap` is missing.",
                "`missing a required argument: 'x'`: there is a `setup_context`, and "
                "`forward` still takes `ctx`, which then gets the first input.",
                "`has both`: delete the one of the two that you do not need.",
                "`cannot use C++ torch::autograd::Function`: it is compiled, and has no "
                "place for `setup_context`; wrap its forward and backward in a Function "
                "of Python.",
                "You wrote no Function: a library did, for example a checkpoint with "
                "`use_reentrant=True`. Switch it off inside `torch.func`.",
                "An operator of `torch.library.custom_op` with `register_autograd` is a "
                "Function of the old form: call it in one of your own.",
                "A module has a `register_full_backward_hook`, or its pre-hook: torch puts "
                "such a Function around it. Call the handle's `remove()` first, and return "
                "from the function what you wanted to see.",
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
            see=("function-under-transforms", "jacobian-per-sample"),
            source=("FT#1093",),
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
            tell=(
                "`aten::add_.Tensor` and a model: BatchNorm counts its batches.",
                "`aten::copy_`: `buffer[i] = ...` on a tensor made outside f; make it "
                "inside.",
            ),
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
            see=("functional-buffers", "per-sample-gradients", "mixing-samples"),
            source=("PT#85533",),
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
                `torch.autograd.grad` in its place, for a whole Jacobian
                `torch.autograd.functional.jacobian`. `jacfwd`, `jvp` and `vmap` take
                checkpoints as they are; forward mode keeps nothing, and needs none.""",
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
            see=("checkpointing", "never-forms-j"),
            source=("PT#122729",),
        ),
        Message(
            anchor="no-storage",
            title="Cannot access data pointer of Tensor that doesn't have storage",
            patterns=(
                r"Cannot access data pointer of Tensor(?: \(e\.g\. FakeTensor, "
                r"FunctionalTensor\))?(?: that doesn't have storage|\. If you're using "
                r"torch\.compile)",
            ),
            older=(
                "Cannot access data pointer of Tensor (e.g. FakeTensor, FunctionalTensor). "
                "If you're using torch.compile/export/fx, it is likely that we are "
                "erroneously tracing into a custom kernel.",
            ),
            why="""Inside `torch.func` transforms and `vmap` your function gets a wrapper
                that has no memory of its own. NumPy, SciPy and compiled extensions ask for
                the memory.""",
            fix="""Use torch functions in place of `.numpy()`; or wrap the foreign code in a
                `torch.autograd.Function` with `setup_context`, `backward` and `vmap`.""",
            tell=(
                "`.numpy()`, SciPy, `.tolist()` or an extension inside f: as above.",
                "The text names `torch.compile`: it traces an extension that asks for the "
                "memory; register that with `torch.library.custom_op`.",
                "A sparse tensor has no memory of its own either: `t.to_dense()`.",
            ),
            broken="""
                import numpy as np
                import torch

                f = lambda x: torch.as_tensor(np.sin(x.detach().numpy())).sum()
                torch.func.grad(f)(torch.tensor([1.0, 2.0]))
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0])
                gradient = torch.func.grad(lambda x: x.sin().sum())(x)
                torch.testing.assert_close(gradient, x.cos())
                print(gradient)
                """,
            see=("function-under-transforms", "other-libraries"),
            source=("c10/core (TensorImpl.h)",),
        ),
        Message(
            anchor="data-inside-a-transform",
            title="mutating directly with `.data` inside functorch transform is not "
            "allowed",
            patterns=(
                r"mutating directly with `\.data` (?:inside functorch|under vmap) "
                r"transform is not allowed",
                r"accessing `data` under vmap transform is not allowed",
            ),
            older=("mutating directly with `.data` under vmap transform is not allowed.",),
            why="""Assigning to `.data` changes a tensor behind autograd's back, and a
                transform has to see every change.""",
            fix="""Compute a new tensor: `x.detach()` for a constant, `torch.where` for new
                values in some places.""",
            broken="""
                import torch

                def f(x):
                    x.data = x.clamp(min=0)
                    return (x**2).sum()

                torch.func.grad(f)(torch.tensor([-1.0, 2.0]))
                """,
            fixed="""
                import torch

                x = torch.tensor([-1.0, 2.0])
                g = torch.func.grad(lambda x: (x.clamp(min=0) ** 2).sum())(x)
                assert torch.equal(g, torch.tensor([0.0, 4.0]))
                print(g)
                """,
            see=("error-data-hides-changes", "error-mutate-a-captured-tensor"),
            source=("torch/csrc/autograd (python_variable.cpp)",),
        ),
        Message(
            anchor="iteration-over-a-0-d-tensor",
            title="iteration over a 0-d tensor",
            kinds=("TypeError",),
            patterns=(r"iteration over a 0-d tensor", r"len\(\) of a 0-d tensor"),
            older=("len() of a 0-d tensor",),
            why="""A 0-dimensional tensor has nothing to go through or to unpack. Often it
                is a gradient: `torch.autograd.grad` returns a tuple, with one gradient for
                each input; `torch.func.grad` returns the gradient for one argument as it
                is, and there is no tuple to take apart.""",
            fix="""Write `g = torch.func.grad(f)(x)`. With `argnums=(0, 1)` it is a tuple of
                two.""",
            tell=(
                "`(g,) = …` or `g, = …` before `torch.func.grad`: without the comma.",
                "`for loss in losses` or `sum(loss)`: there is one loss, a tensor.",
                "`squeeze()` before it: of a batch of one sample it leaves no dimension; "
                "`squeeze(1)`.",
                "Inside `torch.vmap`: f gets one sample, without the dimension of the "
                "batch; of a batch of numbers a sample is 0-dimensional.",
            ),
            broken="""
                import torch

                (g,) = torch.func.grad(torch.square)(torch.tensor(3.0))
                """,
            fixed="""
                import torch

                g = torch.func.grad(torch.square)(torch.tensor(3.0))
                assert g == 6
                print(g)
                """,
            see=("dictionary", "error-grad-returns-a-tuple"),
            source=("torch/_tensor.py",),
        ),
        Message(
            anchor="escaped-from-vmap",
            title="Either your tensor may have escaped from inside a function being "
            "vmapped and this is a user error",
            patterns=(
                r"Either your tensor may have escaped from inside a function being vmapped",
                r"wrapper->level\(\)\.value\(\) <= current_level INTERNAL ASSERT FAILED",
            ),
            older=("wrapper->level().value() <= current_level INTERNAL ASSERT FAILED",),
            why="""f put a tensor into a list, an attribute or a global variable, and it is
                used after the transform is over. Inside it stood for all samples at once
                (or carried a tangent); outside it stands for nothing.""",
            fix="""Return what you need from f, as a further result, or as `aux` with
                `has_aux=True`.""",
            broken="""
                import torch

                kept = []

                def f(x):
                    kept.append(2 * x)
                    return (x**2).sum()

                torch.vmap(f)(torch.ones(3, 2))
                kept[0] + 1
                """,
            fixed="""
                import torch

                def f(x):
                    return (x**2).sum(), 2 * x

                y, kept = torch.vmap(f)(torch.ones(3, 2))
                assert torch.equal(kept, torch.full((3, 2), 2.0))
                print(kept.shape)
                """,
            see=("vmap-limits", "error-has-aux"),
            source=("PT#104933",),
        ),
        Message(
            anchor="stack-module-state",
            title="stack_module_state: Expected all models to be of the same class.",
            patterns=(
                r"(?:stack_module_state|combine_state_for_ensemble): Expected "
                r"(?:all models to|at least one model)",
                r"Expected \S+ from each model to have the same \.requires_grad",
            ),
            older=(
                "stack_module_state: Expected all models to have the same training/eval "
                "mode.",
                "Expected weight from each model to have the same .requires_grad",
                "combine_state_for_ensemble: Expected all models to have the same "
                "training/eval mode.",
            ),
            why="""An ensemble runs as one model, through which `vmap` goes with all weights
                stacked. So the models must agree in everything but the numbers: class,
                mode, and what requires a gradient.""",
            fix="""Make the models, at least one, in the same way, and call `train()` or
                `eval()` and `requires_grad_` on all of them or on none. Models of several
                classes are called one after another.""",
            broken="""
                import torch

                models = [torch.nn.Linear(2, 1), torch.nn.Sequential(torch.nn.Linear(2, 1))]
                torch.func.stack_module_state(models)
                """,
            fixed="""
                import torch
                from torch.func import functional_call, grad, stack_module_state, vmap

                models = [torch.nn.Linear(2, 1) for _ in range(3)]
                params, buffers = stack_module_state(models)
                x = torch.tensor([[1.0, 2.0]])
                f = lambda params: functional_call(models[0], params, (x,)).sum()
                g = vmap(grad(f))(params)
                assert torch.equal(g["weight"], x.expand(3, 1, 2))
                print(g["weight"].shape)
                """,
            see=("jacobian-of-parameters", "vmap-limits"),
            source=("torch/_functorch/functional_call.py",),
        ),
    ),
)
