"""Messages about tensors that are made, replaced, traced and exported."""

from pullback._messages._entry import Message, Theme

MAKING = Theme(
    "making",
    (
        Message(
            anchor="requires-grad-keyword",
            title="as_tensor() got an unexpected keyword argument 'requires_grad'",
            kinds=("TypeError",),
            patterns=(
                r"(?P<function>[\w.]+)\(\) got an unexpected keyword argument "
                r"'requires_grad'",
                r"new\(\) received an invalid combination of arguments - got "
                r"\([^()]*requires_grad=bool",
            ),
            older=(
                "new() received an invalid combination of arguments - got (list, "
                "requires_grad=bool), but expected one of:",
                "Linear.__init__() got an unexpected keyword argument 'requires_grad'",
            ),
            only_line=r"requires_grad",
            why="""`requires_grad=` belongs to functions that make new memory:
                `torch.tensor`, `zeros`, `ones_like`, `randn`. What wraps given memory,
                computes from tensors or makes a module does not take it.""",
            fix="""Set it afterwards: `torch.as_tensor(data).requires_grad_()`, for a module
                `layer.requires_grad_(False)`. In place of `torch.Tensor(data)` write
                `torch.tensor(data, dtype=torch.float32, requires_grad=True)`, and
                `torch.empty` for `torch.Tensor(2, 3)`.""",
            tell=(
                "`new()`: the line calls `torch.Tensor` or `torch.FloatTensor`.",
                "`stack()`, `cat()`: the result requires a gradient when one of the parts "
                "does; set it on the parts.",
                "`__init__()`: a module or a class of your own.",
            ),
            broken="""
                import torch

                x = torch.as_tensor([1.0, 2.0], requires_grad=True)
                """,
            fixed="""
                import torch

                x = torch.as_tensor([1.0, 2.0]).requires_grad_()
                (x**2).sum().backward()
                assert torch.equal(x.grad, 2 * x)
                print(x.grad)
                """,
            see=("leaves-and-roots", "error-only-floating-point"),
            source=("torch/csrc/utils (tensor_new.cpp)",),
        ),
        Message(
            anchor="no-attribute-requires-grad",
            title="'numpy.ndarray' object has no attribute 'requires_grad'",
            kinds=("AttributeError",),
            patterns=(
                r"'(?!NoneType|tuple|Tensor)(?P<type>[\w.]+)' object has no attribute "
                r"'(?P<name>requires_grad_?|grad|grad_fn|retain_grad|is_leaf)'",
            ),
            older=(
                "'list' object has no attribute 'requires_grad_'",
                "'Linear' object has no attribute 'grad'",
                "'Sequential' object has no attribute 'requires_grad'",
                "'float' object has no attribute 'grad'",
            ),
            # A module raises it itself, in torch's own code.
            only_line=r"\.(?:requires_grad|grad|retain_grad|is_leaf)|raise AttributeError",
            why="""Only a tensor has a gradient. An array, a list or a number has none, and
                a module has one for each of its parameters.""",
            fix="""{type} is no tensor: make one of it, `torch.as_tensor(data)`, before the
                computation that you differentiate. For a module ask its parameters:
                `[p.grad for p in model.parameters()]`.""",
            unknown={"type": "The object"},
            tell=(
                "A module: `model.requires_grad_(False)` freezes it; there is no "
                "`model.requires_grad` and no `model.grad`.",
                "`float`: `item()` or `float(...)` came before, and the graph is left.",
                "`numpy.ndarray`: torch cannot look into NumPy; compute with torch.",
                "`list`, `dict`: one call for each tensor in it.",
            ),
            broken="""
                import numpy as np
                import torch

                x = np.array([1.0, 2.0])
                x.requires_grad = True
                y = torch.tensor(x)
                """,
            fixed="""
                import numpy as np
                import torch

                x = torch.from_numpy(np.array([1.0, 2.0])).requires_grad_()
                (x**2).sum().backward()
                assert x.grad.tolist() == [2.0, 4.0]
                print(x.grad)
                """,
            see=("leaves-and-roots", "error-no-attribute-backward"),
            source=("reproduced here; no thread found",),
        ),
        Message(
            anchor="inference-tensors",
            title="Inference tensors cannot be saved for backward",
            patterns=(
                r"Inference tensors cannot be saved for backward",
                r"Setting requires_grad=True on inference tensor outside InferenceMode",
                r"Inplace update to inference tensor outside InferenceMode is not allowed",
                r"Inference tensors do not track version counter",
                r"Cannot set version_counter for inference tensor",
            ),
            older=(
                "Setting requires_grad=True on inference tensor outside InferenceMode is "
                "not allowed.",
                "Inplace update to inference tensor outside InferenceMode is not allowed."
                "You can make a clone to get a normal tensor before doing inplace update.",
                "Inference tensors do not track version counter.",
                "Cannot set version_counter for inference tensor",
            ),
            why="""A tensor made under `torch.inference_mode()` has no version counter,
                which autograd needs to notice changes. It stays such a tensor after the
                block.""",
            fix="""Make it under `torch.no_grad()` instead, or take `t.clone()` outside the
                block; `t.detach()` is not enough.""",
            tell=(
                "You made it yourself (a target, an embedding): `torch.no_grad()` there.",
                "A module keeps what its first call computed (position tables, masks), and "
                "that call, a validation for example, ran in inference mode: make it "
                "before, or validate under `torch.no_grad()`.",
                "The model itself was made or loaded inside the block: move that out.",
            ),
            broken="""
                import torch

                w = torch.tensor([1.0, 2.0], requires_grad=True)
                with torch.inference_mode():
                    target = torch.tensor([3.0, 4.0]) * 2
                (w * target).sum().backward()
                """,
            fixed="""
                import torch

                w = torch.tensor([1.0, 2.0], requires_grad=True)
                with torch.no_grad():
                    target = torch.tensor([3.0, 4.0]) * 2
                (w * target).sum().backward()
                assert torch.equal(w.grad, target)
                print(w.grad)
                """,
            source=("huggingface/trl#2983", "ai4co/rl4co#272"),
            see=("no-grad-detach",),
        ),
        Message(
            anchor="incompatible-tensor-type",
            title="Attempted to call `variable.set_data(tensor)`, but `variable` and "
            "`tensor` have incompatible tensor type.",
            patterns=(
                r"Attempted to call `variable\.set_data\(tensor\)`, but `variable` and "
                r"`tensor` have incompatible tensor type",
            ),
            why="""`p.data = t` puts other memory into the tensor that the model and the
                optimizer hold. That works from one plain tensor to another, and not
                between a plain one and one that is sparse, quantised or on `meta`. (Of a
                subclass, as DTensor, nothing is said, and the values do not arrive.)""",
            fix="""Put a new parameter in its place,
                `layer.weight = torch.nn.Parameter(t)`, before the optimizer is made.""",
            tell=(
                "A model made on `meta`: `model.load_state_dict(state, assign=True)` puts "
                "the loaded tensors in.",
                "Another library replaces the weights, for quantization or sharding: do "
                "that first, and `model.to(...)` before it.",
            ),
            broken="""
                import torch

                layer = torch.nn.Linear(2, 1, device="meta")
                layer.weight.data = torch.ones(1, 2)
                """,
            fixed="""
                import torch

                layer = torch.nn.Linear(2, 1, bias=False, device="meta")
                layer.weight = torch.nn.Parameter(torch.ones(1, 2))
                layer(torch.tensor([3.0, 4.0])).sum().backward()
                assert layer.weight.grad.tolist() == [[3.0, 4.0]]
                print(layer.weight.grad)
                """,
            see=(
                "error-optimizer-holds-the-old-parameter",
                "error-swapped-before-backward",
            ),
            source=("torch/csrc/autograd (variable.cpp)",),
        ),
        Message(
            anchor="swapped-before-backward",
            title="Trying to execute AccumulateGrad node that was poisoned by swap_tensors",
            patterns=(
                r"Trying to execute AccumulateGrad node that was poisoned by swap_tensors",
            ),
            why="""Between the forward pass and `backward` a parameter was swapped for
                another tensor, by `torch.utils.swap_tensors` or by `model.to(…)`: in a
                program that has turned swapping on, and of parameters of a subclass, such
                as DTensor. The graph leads to a place that is no longer the
                parameter's.""",
            fix="""Change device and dtype of a model before the forward pass or after
                `backward`, not between them.""",
            broken="""
                import torch

                w = torch.ones(2, requires_grad=True)
                y = (3 * w).sum()
                torch.utils.swap_tensors(w, torch.zeros(2, requires_grad=True))
                y.backward()
                """,
            fixed="""
                import torch

                w = torch.ones(2, requires_grad=True)
                torch.utils.swap_tensors(w, torch.zeros(2, requires_grad=True))
                y = (3 * w).sum()
                y.backward()
                assert torch.equal(w.grad, torch.tensor([3.0, 3.0]))
                print(w.grad)
                """,
            see=("leaves-and-roots", "error-optimizer-holds-the-old-parameter"),
            source=("torch/utils (__init__.py, swap_tensors)",),
        ),
        Message(
            anchor="export-python-function",
            title="Could not export Python function call 'Square'. Remove calls to Python "
            "functions before export.",
            kinds=("RuntimeError", "UnsupportedOperatorError"),
            patterns=(
                r"Could not export Python function call '(?P<name>\w+)'",
                r"Couldn't export Python operator (?P<name>\w+)",
                r"Exporting the operator '?prim::PythonOp'? to ONNX",
            ),
            older=(
                "ONNX export failed: Couldn't export Python operator SwishImplementation",
                "Exporting the operator 'prim::PythonOp' to ONNX opset version 11 is not "
                "supported.",
            ),
            why="""A traced file holds operations of torch only. Your
                `torch.autograd.Function`, with its rule for backward, is Python and
                cannot be written into it.""",
            fix="""For the file call the formula of {name}'s `forward` in place of `apply`,
                or use `torch.export.export`, which looks into `forward`.""",
            unknown={"name": "the Function"},
            tell=(
                "`Swish`, `HardSwishJitAutoFn`, `SwishImplementation`: the model has an "
                "option without the Function, such as `set_swish(memory_efficient=False)` "
                "or `timm.layers.set_exportable(True)`.",
                "You train what was exported: it has the derivative of the operations, and "
                "your own rule is gone.",
            ),
            broken="""
                import io
                import torch

                class Square(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        ctx.save_for_backward(x)
                        return x**2

                    @staticmethod
                    def backward(ctx, v):
                        return 2 * ctx.saved_tensors[0] * v

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                traced = torch.jit.trace(lambda x: Square.apply(x), x)
                torch.jit.save(traced, io.BytesIO())
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

                class Model(torch.nn.Module):
                    def forward(self, x):
                        return Square.apply(x)

                x = torch.tensor([1.0, 2.0])
                program = torch.export.export(Model(), (x,)).module()
                assert torch.equal(program(x), x**2)
                print(program(x))
                """,
            see=("custom-function", "error-legacy-function"),
            source=("PT#61813", "PT#109868", "alibaba/TinyNeuralNetwork#224"),
        ),
        Message(
            anchor="constant-that-requires-grad",
            title="Cannot insert a Tensor that requires grad as a constant",
            patterns=(r"Cannot insert a Tensor that requires grad as a constant",),
            why="""`torch.jit.trace` makes constants of the tensors that the function uses
                from around it. One that requires a gradient is none.""",
            fix="""Make it an `nn.Parameter` of the module that you trace, or pass it as an
                input; `w.detach()` when it is to be a constant.""",
            broken="""
                import torch

                w = torch.ones(2, requires_grad=True) * 2
                torch.jit.trace(lambda x: x * w, torch.ones(2))
                """,
            fixed="""
                import torch

                class Scale(torch.nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.w = torch.nn.Parameter(torch.full((2,), 2.0))

                    def forward(self, x):
                        return x * self.w

                scale = torch.compile(Scale(), backend="eager")
                scale(torch.ones(2)).sum().backward()
                assert torch.equal(scale.w.grad, torch.ones(2))
                print(scale.w.grad)
                """,
            see=("leaves-and-roots",),
            source=("torch/csrc/jit (tracer.cpp)",),
        ),
        Message(
            anchor="requires-grad-is-a-bool",
            title="requires_grad must be a bool",
            kinds=("RuntimeError", "TypeError"),
            patterns=(
                r"requires_grad must be a bool",
                r"(?P<function>\w+)\(\): argument '(?:requires?_grad|enabled)'"
                r"(?: \(position \d+\))? must be bool, not (?P<type>[\w.]*\w)",
            ),
            older=(
                "requires_grad_(): argument 'requires_grad' (position 1) must be bool, not "
                "str",
                "ones(): argument 'requires_grad' must be bool, not int",
                "set_grad_enabled(): argument 'enabled' (position 1) must be bool, not "
                "Tensor",
            ),
            why="""`requires_grad` is True or False of Python, and nothing is taken for one
                of them: no 1, no text, and neither NumPy's nor torch's own.""",
            fix="""Convert the {type}: `x.requires_grad_(bool(flag))`; of a text
                `flag == 'true'`.""",
            unknown={"type": "value"},
            tell=(
                "`int`, `numpy.bool_`, `Tensor`: `bool(flag)`.",
                "`str`, from a file or the command line: `flag == 'true'`, since "
                "`bool('false')` is True.",
                "`NoneType`: an option that was not set.",
                "`del x.requires_grad`: `x.requires_grad_(False)`.",
            ),
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0])
                x.requires_grad = 1
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0])
                x.requires_grad = bool(1)
                (x**2).sum().backward()
                assert torch.equal(x.grad, 2 * x)
                print(x.grad)
                """,
            see=("leaves-and-roots", "no-grad-detach"),
            source=("torch/csrc/autograd (python_variable.cpp)",),
        ),
        Message(
            anchor="not-writable",
            title="attribute 'is_leaf' of 'torch._C.TensorBase' objects is not writable",
            kinds=("AttributeError",),
            patterns=(
                r"attribute '(?P<name>\w+)' of 'torch\._C\.(?:_?TensorBase|_FunctionBase)' "
                r"objects is not writable",
            ),
            older=(
                "attribute 'grad_fn' of 'torch._C._TensorBase' objects is not writable",
            ),
            why="""This attribute tells how the tensor came to be; setting it could not make
                that true. Of autograd's, `requires_grad` of a leaf and `grad` can be
                set.""",
            fix="""Leave `{name}` and do what changes it: `x.detach()` is without `grad_fn`,
                and `x.detach().requires_grad_()` is a leaf of which `backward` keeps the
                gradient.""",
            unknown={"name": "it"},
            tell=(
                "`is_leaf`, `grad_fn`: as above; the graph before x gets no gradient then.",
                "`retains_grad`: `x.retain_grad()`, which leaves the graph whole.",
                "`saved_tensors` of `ctx`: `ctx.save_for_backward(x)`.",
                "`shape`: `x.reshape(...)`.",
            ),
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                y = 2 * x
                y.is_leaf = True
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                y = (2 * x).detach().requires_grad_()
                (y**2).sum().backward()
                assert y.is_leaf
                assert torch.equal(y.grad, 2 * y)
                assert x.grad is None
                print(y.grad)
                """,
            see=("leaves-and-roots", "error-non-leaf-grad"),
            source=("reproduced here; no thread found",),
        ),
    ),
)
