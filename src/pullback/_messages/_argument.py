"""Messages about the gradient argument: its presence, shape, dtype and number."""

from pullback._messages._entry import SIZE, Message, Theme

ARGUMENT = Theme(
    "argument",
    (
        Message(
            anchor="scalar-outputs",
            title="grad can be implicitly created only for scalar outputs",
            patterns=(
                r"grad can be implicitly created only for scalar outputs",
                r"backward should be called only on a scalar",
            ),
            older=(
                "backward should be called only on a scalar (i.e. 1-element tensor) or "
                "with gradient w.r.t. the variable",
            ),
            why="""`y` has several elements (or none), and no `gradient` was passed. There
                is no single gradient then: PyTorch computes a weighted sum of the outputs'
                gradients and needs the weights from you, one for each output.""",
            fix="""Reduce the output, of shape {output}, to one number first (`y.sum()`,
                `y.mean()`), or pass a tensor of its shape: `y.backward(v)`,
                `torch.autograd.grad(y, x, v)`. `v = torch.ones_like(y)` gives each
                independent point its own derivative.""",
            unknown={"output": "`y.shape`"},
            shapes={"output": "out"},
            tell=(
                "You train and `y` is a loss for each sample (`reduction='none'`): take "
                "`y.mean()` or `y.sum()`.",
                "You evaluated one function at many points: pass `torch.ones_like(y)`.",
                "You want the gradient of one entry: `y[k].backward()`.",
                "You did pass a gradient, and it was None: the `.grad` of a tensor that is "
                "no leaf. Call its `retain_grad()` before the pass that fills it.",
                "Your data-parallel model returns one loss for each device: take "
                "`loss.mean()`. `loss.sum()` would be as many times that as there are "
                "devices.",
                "Its shape has a 0: a mask or a filter let nothing through. `y.sum()` is 0 "
                "and its gradient zeros, `y.mean()` is nan; skip the step.",
                "You want every entry's gradient: that is the Jacobian, "
                "`pullback.jacobian(f, x)` or `torch.func.jacrev(f)(x)`.",
            ),
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
                y = x**2
                y.backward()
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
                y = x**2
                y.backward(torch.ones_like(y))
                assert torch.equal(x.grad, 2 * x)
                print(x.grad)
                """,
            see=("loss-as-v", "bare-backward", "ones-trick", "which-v", "ddp-messages"),
            source=("SO/54754153", "PF/116079", "1Konny/gradcam_plus_plus-pytorch#7"),
        ),
        Message(
            anchor="real-scalar-outputs",
            title="grad can be implicitly created only for real scalar outputs",
            patterns=(
                r"grad can be (?:implicitly created|computed) only for real scalar outputs"
                r"(?: but got (?P<dtype>[\w.]+))?",
            ),
            older=(
                "grad can be computed only for real scalar outputs but got torch.complex64",
            ),
            why="""The output is one complex number. Its real and its imaginary part are
                two outputs, so that there is no gradient of `y` until you say which
                combination you mean.""",
            fix="""The output is {dtype}. Make the loss real (`y.abs()`, `y.real`,
                `(y * y.conj()).real`), or pass a complex `gradient` of `y`'s shape;
                `torch.ones_like(y)` gives the gradient of `y.real`.""",
            unknown={"dtype": "complex"},
            tell=(
                "It should be a loss: a loss is real; take `y.abs() ** 2` or `y.real`. To "
                "differentiate twice, `(y * y.conj()).real`: torch has 0 for the second "
                "derivative of `y.abs() ** 2` at 0.",
                "You continue from dL/dy: pass that complex tensor as `gradient`.",
                "From `torch.autograd.functional.jacobian` of a complex function: take "
                "`torch.func.jacrev` of real and imaginary parts, `torch.view_as_real`.",
            ),
            broken="""
                import torch

                z = torch.tensor([1 + 2j, 3 - 1j], requires_grad=True)
                (z**2).sum().backward()
                """,
            fixed="""
                import torch

                z = torch.tensor([1 + 2j, 3 - 1j], requires_grad=True)
                (z.abs() ** 2).sum().backward()
                torch.testing.assert_close(z.grad, 2 * z.detach())
                print(z.grad)
                """,
            see=("complex-v", "bare-backward", "contract"),
            source=("torch/autograd/__init__.py (_make_grads)",),
        ),
        Message(
            anchor="mismatch-in-shape",
            title="Mismatch in shape: grad_output[0] has a shape of torch.Size([1]) and "
            "output[0] has a shape of torch.Size([])",
            patterns=(
                r"Mismatch in shape: grad_output\[\d+\] has a shape of"
                rf"(?: (?P<v>{SIZE}) and output\[\d+\] has a shape of "
                rf"(?P<output>{SIZE}))?",
                rf"(?<!returned an )invalid gradient at index \d+ - expected shape "
                rf"(?P<output>{SIZE}) but got (?P<v>{SIZE})",
            ),
            older=("invalid gradient at index 0 - expected shape [] but got [1]",),
            why="""The tensor that you passed as `gradient` (`grad_tensors`,
                `grad_outputs`) must have exactly the shape of the output: one weight for
                each output. It is not broadcast; `()`, `(1,)` and `(1, 1)` differ.""",
            fix="""Your `v` has shape {v}, the output has shape {output}. Pass a tensor of
                shape {output}: `torch.ones_like(y)`, or `v.reshape(y.shape)` when only
                dimensions of size 1 differ.""",
            unknown={"v": "another", "output": "`y.shape`"},
            tell=(
                "`(1,)` against `()`: the loss is 0-dimensional; pass nothing, or "
                "`torch.tensor(1.0)`. For `mone` in old WGAN code `torch.tensor(-1.0)`, "
                "which is `(-loss).backward()`: ascent. A `loss = -loss` after it is for "
                "the log: the gradients are there already.",
                "`(32,)` against `(32, 1)`: as many numbers in another shape; "
                "`v.view_as(y)`. In `v * y` the two would broadcast to `(32, 32)`, "
                "silently another loss.",
                "`v` has the shape of the *input*: weights belong to outputs. If it is a "
                "direction to move the input in, `torch.func.jvp(f, (x,), (v,))[1]`.",
                "A map smaller than the output, `(1, 1, 80, 80)` against `(1, 1, 96, 96)`: "
                "the size of the input plays no part, the second is what the model "
                "returned. Crop that, `y[..., 8:-8, 8:-8].backward(v)`, or write `v` into "
                "`torch.zeros_like(y)`, which is the same.",
                "`(5, 4)` against `(4, 5)`: `v.T`; `reshape` would mix the weights up.",
                "`()` against `(3,)`: one number for three outputs, such as "
                "`torch.tensor(1.0)`; `torch.ones_like(y)` is the gradient of `y.sum()`. "
                "Or a list of such tensors, taken for a `v` for each output; "
                "`torch.stack(v)`.",
                "`v` has one dimension more, such as `torch.eye(n)`: a stack of `v`s needs "
                "`torch.autograd.grad(..., is_grads_batched=True)`.",
                "`j1` in a shape: the output is a nested tensor, and only "
                "`torch.ones_like(y)`, or another made from y, has its lengths.",
                "A list of losses: each needs a `v` of its own shape; "
                "`torch.stack(losses).sum().backward()` needs none.",
            ),
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
                loss = (x**2).sum()
                loss.backward(torch.ones(1))
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
                loss = (x**2).sum()
                loss.backward(torch.ones_like(loss))
                assert torch.equal(x.grad, 2 * x)
                print(x.grad)
                """,
            see=("shape-rule", "contract", "which-v"),
            source=(
                "PT#17893",
                "natanielruiz/deep-head-pose#85",
                "PRBonn/LiDAR-MOS#35",
            ),
        ),
        Message(
            anchor="is-grads-batched",
            title="If `is_grads_batched=True`, we interpret the first dimension",
            patterns=(
                r"If `?is_grads_batched=True`?, we interpret the first dimension"
                rf"(?:.*? has a shape of (?P<row>{SIZE}) and output\[\d+\] has a shape of "
                rf"(?P<output>{SIZE}))?",
                r"vmap\(vjp, in_dims=0, \.\.\.\)\(<inputs>\): Got in_dim=0 for some input, "
                r"but that input is a Tensor of dimensionality 0",
                r"Batched grads are not supported with (?:Nested ?Tensor|GradientEdge)",
            ),
            older=(
                "vmap(vjp, in_dims=0, ...)(<inputs>): Got in_dim=0 for some input, but "
                "that input is a Tensor of dimensionality 0 so expected in_dim to satisfy "
                "0 <= in_dim < 0.",
                "Batched grads are not supported with Nested Tensor.",
            ),
            kinds=("RuntimeError", "ValueError"),
            why="""With `is_grads_batched=True`, `grad_outputs` is a stack of `v`s: its
                first dimension counts them, the others must be the output's. In torch
                2.13 the shape that the message gives for `grad_output` has lost *two*
                leading dimensions instead of one (where it has two).""",
            fix="""The output has shape {output}, so `grad_outputs` needs shape
                `(N,) + {output}`: add a leading dimension (`v[None]`), or drop
                `is_grads_batched` for one `v`.""",
            unknown={"output": "y.shape"},
            tell=(
                "One `v` of the output's shape: leave `is_grads_batched` out.",
                "All rows of the Jacobian: "
                "`torch.eye(y.numel()).to(y).reshape(-1, *y.shape)`.",
                "Some outputs of a list batched, some not: use `torch.vmap`.",
                "`vmap(vjp, in_dims=0, ...)`: `grad_outputs`, or one of several, was left "
                "out, and there is nothing to count along; for one `v` leave "
                "`is_grads_batched` out. A 0-dimensional one raises `invalid index of a "
                "0-dim tensor`.",
                "A nested tensor: call `grad` once for each `v`. A GradientEdge does take "
                "a batch: its shape did not fit.",
            ),
            broken="""
                import torch

                x = torch.ones(10, 2, requires_grad=True)
                y = x**2
                torch.autograd.grad(y, x, torch.ones(10, 2), is_grads_batched=True)
                """,
            fixed="""
                import torch

                x = torch.ones(10, 2, requires_grad=True)
                y = x**2
                v = torch.ones(5, 10, 2)  # five of them
                (products,) = torch.autograd.grad(y, x, v, is_grads_batched=True)
                assert torch.equal(products, torch.full((5, 10, 2), 2.0))
                print(products.shape)
                """,
            see=("batched-v", "jacobian-at-once"),
            source=("PT#76290", "PF/217805", "torch/autograd/__init__.py (_make_grads)"),
        ),
        Message(
            anchor="complex-dtype",
            title="For complex Tensors, both grad_output and output are required to have "
            "the same dtype",
            patterns=(
                r"For complex Tensors, both grad_output and output are required"
                r"(?:.*?grad_output\[\d+\] has a dtype of (?P<v>[\w.]+) and "
                r"output\[\d+\] has a dtype of (?P<output>\w[\w.]*\w))?",
            ),
            why="""A real output takes a real `v`, a complex output a complex one. PyTorch
                converts between precisions, and never between real and complex.""",
            fix="""Your `v` is {v}, the output is {output}: `v.to(y.dtype)` when `v` is
                real, `v.real` when only its real part is meant.""",
            unknown={"v": "of one kind", "output": "of the other"},
            tell=(
                "The output is complex: `v.to(y.dtype)`. Ones ask for the gradient of "
                "`y.real.sum()`; for optimising make a real loss, `(y.abs() ** 2).sum()`.",
                "The input is real and the output complex, as of an FFT: the same, and "
                "`x.grad` is real.",
                "The output is real and `v` came from an FFT: take `v.real`.",
            ),
            broken="""
                import torch

                z = torch.tensor([1 + 2j, 3 - 1j], requires_grad=True)
                (z**2).backward(torch.ones(2))
                """,
            fixed="""
                import torch

                z = torch.tensor([1 + 2j, 3 - 1j], requires_grad=True)
                y = z**2
                y.backward(torch.ones_like(y))
                torch.testing.assert_close(z.grad, (2 * z.detach()).conj())
                print(z.grad.resolve_conj())
                """,
            see=("complex-v", "contract", "shape-rule"),
            source=("torch/autograd/__init__.py (_make_grads)",),
        ),
        Message(
            anchor="gradients-tensors-or-none",
            title="gradients can be either Tensors or None, but got float",
            kinds=("TypeError",),
            patterns=(
                r"gradients can be either Tensors(?:, Variables)? or None"
                r"(?:, but got (?P<type>[\w.]*\w))?",
            ),
            older=("gradients can be either Tensors, Variables or None, but got list",),
            why="""`gradient` must be a tensor. A list or a NumPy array is taken apart, as
                if it were a list of `v`s for several outputs, and its first entry is no
                tensor.""",
            fix="""Found where a tensor is needed: {type}. Make one of the whole list or
                array: `torch.as_tensor(v, dtype=y.dtype, device=y.device)`.""",
            unknown={"type": "a number"},
            tell=(
                "`but got float` or `int`: you passed a list of numbers.",
                "`but got float64`: you passed a NumPy array; `ndarray`: one with two or "
                "more dimensions, or a list of arrays.",
                "`but got list`: you passed nested lists.",
                "Several outputs, and a list with one array for each: convert each array, "
                "and leave the list.",
            ),
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
                (x**2).backward([0.1, 1.0, 10.0])
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
                (x**2).backward(torch.tensor([0.1, 1.0, 10.0]))
                torch.testing.assert_close(x.grad, torch.tensor([0.2, 4.0, 60.0]))
                print(x.grad)
                """,
            see=("shape-rule", "contract"),
            source=("SO/49441425",),
        ),
        Message(
            anchor="float-not-iterable",
            title="'float' object is not iterable",
            kinds=("TypeError",),
            patterns=(
                r"'(?P<type>float|int|bool|complex|numpy\.\w+)' object is not iterable",
                r"iteration over a 0-d (?P<type>array)",
            ),
            older=("iteration over a 0-d array",),
            only_from="_tensor_or_tensors_to_tuple",
            why="""`gradient` is a number, of Python or NumPy. Whatever is not a tensor is
                taken for a list of tensors, and a number cannot be iterated over.""",
            fix="""Pass a tensor, and no {type}: `torch.tensor(1.0)` for a 0-dimensional
                loss, `torch.full_like(y, 1.0)` in general. For a loss you may pass
                nothing.""",
            tell=(
                "The traceback ends in `_tensor_or_tensors_to_tuple`: it is this one. A "
                "list of numbers or a NumPy array is refused as well, in other words. To "
                "double the gradient: `loss.backward(torch.tensor(2.0))`, or "
                "`(2 * loss).backward()`.",
                "It ends in `backward` or `grad` of `torch/autograd/__init__.py`: an "
                "output or an input is a number, as after `.item()`; pass the tensor.",
                "It ends elsewhere: a `for` loop or `tuple()` of your own got a number.",
            ),
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
                (x**2).sum().backward(1.0)
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
                (x**2).sum().backward(torch.tensor(1.0))
                assert torch.equal(x.grad, 2 * x)
                print(x.grad)
                """,
            see=("bare-backward", "contract"),
            source=("torch/autograd/__init__.py (_tensor_or_tensors_to_tuple)",),
        ),
        Message(
            anchor="tensors-and-gradients",
            title="got 2 tensors and 1 gradients",
            kinds=("RuntimeError", "TypeError"),
            patterns=(
                r"got (?P<tensors>\d+) tensors and (?P<gradients>\d+) gradients",
                r"run_backward\b.{0,300}only integer tensors of a single element can be "
                r"converted to an index",
            ),
            why="""`torch.autograd.backward` and `grad` take one `v` for each output, in the
                same order. Too few raise this message; too many raise nothing, the rest
                is dropped.""",
            fix="""You passed {tensors} outputs and {gradients} gradients: pass
                {tensors} of them, `None` for each output with one element, or sum the
                losses and call `backward()` once.""",
            unknown={"tensors": "m", "gradients": "another number of"},
            tell=(
                "`torch.autograd.backward(losses, v)`: a list of losses takes a list of v.",
                "`only integer tensors of a single element can be converted to an index`, "
                "out of `run_backward`: `torch.autograd.grad(ys, x, v1, v2)` lacks the "
                "brackets, and the second v is taken for `retain_graph`. Write "
                "`torch.autograd.grad(ys, x, (v1, v2))`. `y.backward(v1, v2)` has one "
                "output and room for one v: of `(v1, v2)` the second would be dropped.",
            ),
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                losses = [(x**2).sum(), (x**3).sum()]
                torch.autograd.backward(losses, [torch.tensor(1.0)])
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                losses = [(x**2).sum(), (x**3).sum()]
                torch.autograd.backward(losses, [None, torch.tensor(10.0)])
                assert torch.equal(x.grad, 2 * x + 10 * 3 * x**2)
                print(x.grad)
                """,
            see=("several-losses", "shape-rule", "error-extra-gradients-dropped"),
            source=("syfafterzy/PCB_RPP_for_reID#16", "ChenRocks/fast_abs_rl#73"),
        ),
        Message(
            anchor="gradient-device",
            title="invalid gradient at index 0 - expected device cpu but got meta",
            patterns=(
                r"(?<!returned an )invalid gradient at index \d+ - expected device "
                r"(?P<output>[\w:]+) but got (?P<v>[\w:]+)",
                r"(?<!returned an )invalid gradient at index \d+ - expected type "
                r"(?P<output>[\w.]+) but got (?P<v>[\w.]+)",
            ),
            older=(
                "invalid gradient at index 0 - expected device cuda:0 but got cpu",
                "invalid gradient at index 0 - expected type "
                "torch.cuda.FloatTensor but got torch.FloatTensor",
            ),
            why="""`v` lies on another device than the output. A tensor that you make
                without `device=` lies on the CPU, also when the model is on a GPU.""",
            fix="""Your `v` is on {v}, the output on {output}: make it like the output,
                `torch.ones_like(y)`, or move it, `v.to(y)`.""",
            unknown={"v": "another device", "output": "`y.device`"},
            tell=(
                "`expected device cuda:0 but got cpu`: `torch.ones(n)` where "
                "`torch.ones_like(y)` was meant.",
                "`meta`: that device keeps shapes and no numbers; the model or `v` was "
                "never loaded to a real one.",
                "`expected type torch.FloatTensor but got torch.DoubleTensor`, in an early "
                "release: the dtype differs, and not the device; `v.to(y)` as well.",
            ),
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
                v = torch.ones(3, device="meta")  # any other device will do
                (x**2).backward(v)
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
                y = x**2
                y.backward(torch.ones_like(y))
                assert torch.equal(x.grad, 2 * x)
                print(x.grad)
                """,
            see=("shape-rule", "contract"),
            source=("torch/csrc/autograd (engine.cpp, validate_outputs)",),
        ),
    ),
)
