"""Messages about attributes and calls that a tensor, or what it became, does not have."""

from pullback._messages._entry import Message, Theme

ATTRIBUTES = Theme(
    "attributes",
    (
        Message(
            anchor="tensor-is-not-callable",
            title="'Tensor' object is not callable",
            kinds=("TypeError",),
            patterns=(r"'(?P<type>Tensor|Parameter)' object is not callable",),
            why="""Parentheses stand after a tensor. Either it took the name of a function,
                as in `loss = loss(y, t)`, or it is an attribute that is not called:
                `x.grad`, `x.data`, `x.T`.""",
            fix="""Give function and result two names, `criterion` and `loss`. Read the
                gradient as `x.grad`.""",
            tell=(
                "The first pass works and the second does not: a name was taken over.",
                "A layer was replaced by its weight: `self.fc = ...weight`.",
                "A missing operator: `2 * w(x + 1)` is a call.",
            ),
            broken="""
                import torch

                w = torch.tensor([1.0, 2.0], requires_grad=True)
                loss = torch.nn.MSELoss()
                for _ in range(2):
                    loss = loss(w, torch.zeros(2))
                    loss.backward()
                """,
            fixed="""
                import torch

                w = torch.tensor([1.0, 2.0], requires_grad=True)
                criterion = torch.nn.MSELoss()
                for _ in range(2):
                    w.grad = None
                    loss = criterion(w, torch.zeros(2))
                    loss.backward()
                assert torch.equal(w.grad, w.detach())
                print(w.grad)
                """,
            see=("first-vjp", "error-no-attribute-backward"),
            source=("reproduced here; no thread found",),
        ),
        Message(
            anchor="no-attribute-detach",
            title="'numpy.ndarray' object has no attribute 'detach'",
            kinds=("AttributeError",),
            patterns=(
                r"'(?P<type>numpy\.\w+|list|tuple|float|int|dict|str)' object has no "
                r"attribute '(?:detach|cpu)'",
                r"'(?P<type>float|int)' object has no attribute 'item'",
            ),
            older=(
                "'float' object has no attribute 'item'",
                "'list' object has no attribute 'detach'",
                "'list' object has no attribute 'cpu'",
            ),
            why="""What you have left the graph before: it is a number, an array or a
                container, and needs no `detach`.""",
            fix="""It is of type {type}. A number or an array: drop the call. A list or a
                tuple of tensors: `[t.detach() for t in ts]`, or `torch.stack(ts)`
                first.""",
            unknown={"type": "a type of Python or NumPy"},
            tell=(
                "Its gradient was wanted: then it was converted too early; stay with "
                "tensors up to the loss.",
                "`float` has no `item`: an earlier line took `.item()` already, or the "
                "total began as `0.0` and nothing was added.",
                "`tuple`: a module returned several results (an LSTM, a model with "
                "attention weights); pick one.",
            ),
            broken="""
                import torch

                w = torch.tensor([1.0, 2.0], requires_grad=True)
                y = (w**2).detach().numpy()
                print(y.detach())
                """,
            fixed="""
                import torch

                w = torch.tensor([1.0, 2.0], requires_grad=True)
                y = w**2
                shown = y.detach().numpy()  # once, to show
                y.sum().backward()
                assert w.grad.tolist() == [2, 4]
                print(shown, w.grad)
                """,
            see=("no-grad-detach", "cut-graphs", "error-cannot-call-numpy"),
            source=("reproduced here; no thread found",),
        ),
        Message(
            anchor="to-numpy-from-the-gpu",
            title="can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to "
            "copy the tensor to host memory first.",
            kinds=("TypeError",),
            patterns=(
                r"can't convert (?P<device>\w+(?::\d+)?) (?:device type )?tensor to "
                r"numpy\. "
                r"Use Tensor\.cpu\(\)",
            ),
            older=(
                "can't convert CUDA tensor to numpy. Use Tensor.cpu() to copy the tensor "
                "to host memory first.",
                "can't convert mps:0 device type tensor to numpy. Use Tensor.cpu() to copy "
                "the tensor to host memory first.",
            ),
            why="""NumPy reads the memory of the CPU. This tensor lies on another device, or
                on none.""",
            fix="""`x.detach().cpu().numpy()`: off the graph, over to the CPU, then an
                array. For one number `x.item()`, for a list `x.tolist()`, from any
                device.""",
            tell=(
                "It comes from matplotlib, scikit-learn or a list given to `np.mean`: they "
                "call NumPy; convert what you hand over.",
                "It is part of the loss: no gradient comes back from NumPy; write it with "
                "torch.",
            ),
            broken="""
                import torch

                x = torch.ones(2, device="meta")  # in place of a GPU
                x.numpy()
                """,
            fixed="""
                import torch

                device = "cuda" if torch.cuda.is_available() else "cpu"
                x = torch.tensor([1.0, 2.0], device=device, requires_grad=True)
                y = x**2
                shown = y.detach().cpu().numpy()
                y.sum().backward()
                assert shown.tolist() == [1, 4] and x.grad.tolist() == [2, 4]
                print(shown, x.grad)
                """,
            see=("no-grad-detach", "external-loss", "error-cannot-call-numpy"),
            source=("torch/csrc/utils (tensor_numpy.cpp)",),
        ),
        Message(
            anchor="asarray-requires-grad",
            title="torch.asarray: unspecified requires_grad now defaults to "
            "obj.requires_grad instead of False.",
            kinds=("UserWarning",),
            patterns=(r"torch\.asarray: unspecified requires_grad now defaults to",),
            why="""`torch.asarray` of a tensor used to cut it off the graph. Now its result
                stays in the graph unless you say otherwise, so a gradient may flow where
                none did.""",
            fix="""Say which: `requires_grad=False` for a constant, as before, or
                `requires_grad=True` to keep the graph. `torch.as_tensor(x)` has always
                kept it.""",
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                torch.asarray(x)
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                kept = torch.asarray(x * 3, requires_grad=True)
                kept.sum().backward()
                constant = torch.asarray(x, requires_grad=False)
                assert x.grad.tolist() == [3, 3] and not constant.requires_grad
                print(x.grad, constant)
                """,
            see=("cut-graphs", "no-grad-detach"),
            source=("torch/csrc/utils (tensor_new.cpp)",),
        ),
        Message(
            anchor="shape-through-data",
            title="set_sizes_contiguous is not allowed on a Tensor created from .data or "
            ".detach().",
            patterns=(
                r"(?P<what>set_sizes_contiguous|set_sizes_and_strides|set_\w+|resize_\w*) "
                r"is not allowed on (?:a )?Tensor created from \.data or \.detach\(\)",
            ),
            older=(
                "set_sizes_and_strides is not allowed on a Tensor created from .data or "
                ".detach().",
                "set_storage is not allowed on Tensor created from .data or .detach()",
            ),
            why="""`x.data` shares the values of x and has a shape of its own since
                PyTorch 1.1: `x.data.resize_(...)` would change a tensor that nobody keeps,
                and x would stay as it is.""",
            fix="""Use the new tensor itself: `x = batch.to(device)`. A buffer that must
                stay the same object: `with torch.no_grad(): x.resize_(...).copy_(...)`,
                while x requires no gradient.""",
            tell=(
                "`v.data.resize_(data.size()).copy_(data)`, in code from 2018 (CRNN, "
                "Faster R-CNN): `v = data`, or leave out `.data`.",
                "A newer torch says nothing, and x keeps its shape: the same cure.",
                "Inside a convolution of a checkpointed block: the weight was given new "
                "`.data` meanwhile; assign with `copy_` under `no_grad`.",
            ),
            fixed="""
                import torch

                buffer = torch.zeros(0)
                batch = torch.tensor([1.0, 2.0])
                with torch.no_grad():
                    buffer.resize_(batch.shape).copy_(batch)
                w = torch.tensor(3.0, requires_grad=True)
                (w * buffer).sum().backward()
                assert w.grad == 3
                print(buffer, w.grad)
                """,
            see=("no-grad-detach", "error-data-hides-changes"),
            source=(
                "jwyang/faster-rcnn.pytorch#543",
                "AstarLight/Lets_OCR#57",
                "rystylee/pytorch-cppn-gan#12",
            ),
        ),
        Message(
            anchor="gradient-of-samples",
            title="torch.gradient expected each dimension size to be at least edge_order+1",
            patterns=(
                r"torch\.gradient expected (?:each|spacing)",
                r"torch\.gradient (?:only supports edge_order|does not support)",
            ),
            older=(
                "torch.gradient expected spacing to be unspecified, a scalar, or a list",
                "torch.gradient only supports edge_order=1 and edge_order=2.",
            ),
            why="""`torch.gradient` estimates a slope from values on a grid, by differences
                of neighbours, as `numpy.gradient` does. It knows nothing of the graph, and
                needs at least two values along each dimension.""",
            fix="""For the derivative of a function that torch computed:
                `torch.autograd.grad(y, x, ...)`, exact and at any point. For samples on a
                grid pass `dim=`, without the dimension of the batch.""",
            broken="""
                import torch

                x = torch.tensor([3.0], requires_grad=True)
                torch.gradient(x**2)
                """,
            fixed="""
                import torch

                x = torch.tensor([3.0], requires_grad=True)
                (g,) = torch.autograd.grad((x**2).sum(), x)
                grid = torch.linspace(2.0, 4.0, 5)
                (estimate,) = torch.gradient(grid**2, spacing=0.5)
                assert g == 6 and estimate[2] == 6
                print(g, estimate)
                """,
            see=("gradient-field", "pinn"),
            source=("aten/src/ATen/native (ReduceOps.cpp)",),
        ),
        Message(
            anchor="v-must-be-contiguous",
            title="grad_output must be contiguous",
            kinds=("RuntimeError", "AssertionError"),
            patterns=(
                r"grad_?(?:out(?:put)?|input)\w* must be (?:a )?contiguous",
                r"Expected grad_output->is_contiguous\(",
                r"assert grad_output\.is_cuda and grad_output\.is_contiguous\(\)",
            ),
            older=(
                "grad_input must be contiguous",
                "Expected grad_output->is_contiguous(grad_output->suggest_memory_format()) "
                "to be true, but got false.",
            ),
            why="""The backward pass of an extension reads the memory of v as if its entries
                lay one after another. What v looks like is up to the operation above: that
                of `sum` is one number spread over a shape, that of `permute` is
                turned round.""",
            fix="""In that `backward`, first `v = v.contiguous()`. From outside: a hook on
                the output, `y.register_hook(lambda v: v.contiguous())`.""",
            tell=(
                "A `permute`, `transpose`, `expand` or `sum` comes right after the layer: "
                "its v is such a view, with `.contiguous()` behind it as well.",
                "`input must be contiguous` from a line in `backward`: the same.",
            ),
            broken="""
                import torch

                class Double(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        return 2 * x

                    @staticmethod
                    def backward(ctx, v):
                        if not v.is_contiguous():  # as extensions in C++ ask
                            raise RuntimeError("grad_output must be contiguous")
                        return 2 * v

                x = torch.ones(3, requires_grad=True)
                Double.apply(x).sum().backward()
                """,
            fixed="""
                import torch

                class Double(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        return 2 * x

                    @staticmethod
                    def backward(ctx, v):
                        return 2 * v.contiguous()

                x = torch.ones(3, requires_grad=True)
                Double.apply(x).sum().backward()
                assert x.grad.tolist() == [2, 2, 2]
                print(x.grad)
                """,
            see=("what-backward-is-handed", "error-view-of-v"),
            source=(
                "xfflzl/CIM-CIL#11",
                "chaitjo/graph-convnet-tsp#21",
                "d-li14/involution#35",
                "PT#42588",
            ),
        ),
        Message(
            anchor="saved-tensors-once",
            title="saved_tensors can only be accessed once when "
            "clear_saved_tensors_on_access=True is set on the autograd.Function.",
            patterns=(r"saved_tensors can only be accessed once when",),
            why="""With this switch a custom Function lets go of what it saved as soon as
                `backward` reads it, so that the memory is free while the rest of `backward`
                runs. A second reading finds nothing.""",
            fix="""Read once, into names: `x, y = ctx.saved_tensors`. With
                `retain_graph=True`, or hooks that read too, leave the switch off.""",
            broken="""
                import torch

                class Square(torch.autograd.Function):
                    clear_saved_tensors_on_access = True

                    @staticmethod
                    def forward(ctx, x):
                        ctx.save_for_backward(x)
                        return x**2

                    @staticmethod
                    def backward(ctx, v):
                        return 2 * ctx.saved_tensors[0] * v + 0 * ctx.saved_tensors[0]

                Square.apply(torch.ones(2, requires_grad=True)).sum().backward()
                """,
            fixed="""
                import torch

                class Square(torch.autograd.Function):
                    clear_saved_tensors_on_access = True

                    @staticmethod
                    def forward(ctx, x):
                        ctx.save_for_backward(x)
                        return x**2

                    @staticmethod
                    def backward(ctx, v):
                        (x,) = ctx.saved_tensors
                        return 2 * x * v

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                Square.apply(x).sum().backward()
                assert x.grad.tolist() == [2, 4]
                print(x.grad)
                """,
            see=("ctx-or-saved", "custom-function"),
            source=("torch/csrc/autograd (python_function.cpp)",),
        ),
    ),
)
