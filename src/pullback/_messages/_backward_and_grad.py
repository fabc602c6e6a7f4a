"""Messages about what ``backward`` and ``grad`` are called on, get besides v and return."""

from pullback._messages._entry import Message, Theme

BACKWARD_AND_GRAD = Theme(
    "backward-and-grad",
    (
        Message(
            anchor="no-attribute-backward",
            title="'float' object has no attribute 'backward'",
            kinds=("AttributeError",),
            patterns=(
                r"'(?P<type>(?!DeepSpeedZeRo|DummyOptim)[\w.]+)' object has no attribute "
                r"'backward'",
            ),
            older=("'CrossEntropyLoss' object has no attribute 'backward'",),
            why="""You call `backward` on something that is no tensor. `.item()`, `float()`
                and NumPy functions return numbers, which know nothing of the graph.""",
            fix="""What you have is of type {type}: call `backward` on the tensor that is
                the loss, and take `.item()` afterwards, for printing.""",
            tell=(
                "`float`, `int`: `.item()` or `float()` came too early, or nothing was "
                "added to `loss = 0`.",
                "`numpy.float64`, `numpy.ndarray`: NumPy computed the loss; use torch.",
                "`tuple`, `list`, `dict`: the function returns several things; pick the "
                "loss.",
                "`NoneType`: the function lacks its `return`.",
                "`CrossEntropyLoss`, `MSELoss`: the loss was built and not called; "
                "`criterion(y, t).backward()`. (`MSELoss(y, t)` only builds, too; where y "
                "has several elements, that raises `Boolean value of Tensor`.)",
                "`Seq2SeqLMOutput` and the like: the model returns its loss "
                "among other things, `output.loss`.",
                "`builtin_function_or_method`: parentheses are missing, `y.sum()`.",
                "`torch.FloatTensor`: code from before 0.4; take a tensor that "
                "requires a gradient.",
            ),
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                loss = (x**2).sum().item()
                loss.backward()
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                loss = (x**2).sum()
                loss.backward()
                assert torch.equal(x.grad, 2 * x)
                print(loss.item(), x.grad)
                """,
            see=("first-vjp",),
            source=("reproduced here; no thread found",),
        ),
        Message(
            anchor="grad-returns-a-tuple",
            title="'tuple' object has no attribute 'norm'",
            kinds=("AttributeError", "TypeError"),
            patterns=(
                r"'tuple' object has no attribute '(?P<name>norm|shape|sum|mean|pow|view|"
                r"reshape|detach|item|abs|data|size|dim|flatten|clone|numpy|cpu|T|square|"
                r"requires_grad|layout|dtype|device|max|min|numel|to)'",
                r"can't multiply sequence by non-int of type '(?:float|Tensor)'",
                r"unsupported operand type\(s\) for [^:]+: '(?:tuple' and "
                r"'(?:int|float|Tensor)|(?:int|float|Tensor)' and 'tuple)'",
                r"\w+\(\): argument '\w+' \(position \d+\) must be Tensor, not tuple",
            ),
            older=(
                "'tuple' object has no attribute 'shape'",
                "unsupported operand type(s) for ** or pow(): 'tuple' and 'int'",
                "sum(): argument 'input' (position 1) must be Tensor, not tuple",
                "can't multiply sequence by non-int of type 'float'",
            ),
            only_line=r"grad|input\.layout",
            why="""`torch.autograd.grad` returns a tuple, one gradient for each input, also
                when there is one input.""",
            fix="""Unpack it: `(g,) = torch.autograd.grad(y, x)`, or take
                `torch.autograd.grad(y, x)[0]`.""",
            tell=(
                "The line has the result of `torch.autograd.grad` (or of `torch.func.grad` "
                "with several `argnums`): it is this one.",
                "Another function returned the tuple: `nn.LSTM` and `nn.GRU` (output and "
                "state), `nn.MultiheadAttention`, `t.max(dim=0)`, a batch of a "
                "`DataLoader`; unpack that.",
                "`state.detach()` of an LSTM's `(h, c)`, carried on to the next batch: "
                "`state = tuple(s.detach() for s in state)`. The assignment matters; "
                "`detach()` returns a new tensor and leaves the old one attached.",
            ),
            broken="""
                import torch

                x = torch.tensor([3.0, 4.0], requires_grad=True)
                grad = torch.autograd.grad((x**2).sum() / 2, x)
                grad.norm()
                """,
            fixed="""
                import torch

                x = torch.tensor([3.0, 4.0], requires_grad=True)
                (grad,) = torch.autograd.grad((x**2).sum() / 2, x)
                assert grad.norm() == 5
                print(grad.norm())
                """,
            see=("first-vjp", "gradient-penalty", "second-backward"),
            source=("torch.autograd.grad, its documentation",),
        ),
        Message(
            anchor="grad-missing-inputs",
            title="grad() missing 1 required positional argument: 'inputs'",
            kinds=("TypeError",),
            patterns=(r"grad\(\) missing 1 required positional argument: 'inputs'",),
            why="""`torch.autograd.grad(y, x)` must be told by what to differentiate, since
                it returns the gradients. `y.backward()` finds the leaves itself, since it
                stores them there.""",
            fix="""`torch.autograd.grad(y, x)`, `torch.autograd.grad(loss,
                list(model.parameters()))`.""",
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                torch.autograd.grad((x**2).sum())
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                (gradient,) = torch.autograd.grad((x**2).sum(), x)
                assert torch.equal(gradient, 2 * x)
                print(gradient)
                """,
            see=("first-vjp", "same-calls"),
            source=("torch/autograd/__init__.py (grad)",),
        ),
        Message(
            anchor="inputs-must-be-a-dict",
            title="`inputs` argument to `grad()` must be a dict, not OrderedDict",
            kinds=("TypeError",),
            patterns=(
                r"`inputs` argument to `(?P<function>\w+)\(\)` must be a dict, not "
                r"(?P<type>[\w.]*\w)",
            ),
            why="""`inputs` is one tensor, a sequence of tensors or a plain `dict`. Other
                mappings are refused, and a `state_dict()` is one; it holds detached tensors
                besides, so that `dict(model.state_dict())` fails as well.""",
            fix="""Pass a plain dict to `{function}`: `dict(mapping)` of your {type}, or in
                place of a `state_dict()` `dict(model.named_parameters())`.""",
            broken="""
                import torch

                layer = torch.nn.Linear(2, 1)
                y = layer(torch.tensor([1.0, 2.0]))
                torch.autograd.grad(y, layer.state_dict())
                """,
            fixed="""
                import torch

                layer = torch.nn.Linear(2, 1)
                y = layer(torch.tensor([1.0, 2.0]))
                parameters = dict(layer.named_parameters())
                gradients = torch.autograd.grad(y, parameters)
                assert gradients["weight"].tolist() == [[1.0, 2.0]]
                print(gradients)
                """,
            see=("jacobian-of-parameters",),
            source=("torch/autograd/__init__.py (grad)",),
        ),
        Message(
            anchor="inputs-must-be-tensors",
            title="all inputs have to be Tensors or GradientEdges, but got float",
            patterns=(
                r"all inputs have to be (?:Tensors(?: or GradientEdges)?|Variables), but "
                r"got (?P<type>[\w.]+)",
            ),
            older=("all inputs have to be Tensors, but got str",),
            why="""Each of the `inputs` is a tensor to differentiate by. A number, a name, a
                pair of `named_parameters()`, a module, a list of lists or the None that a
                layer has for its `bias` is none.""",
            fix="""There is a {type} among the inputs: pass the tensors themselves, in one
                list: `list(model.parameters())` and not the model or its names.""",
            broken="""
                import torch

                model = torch.nn.Linear(2, 1)
                y = model(torch.ones(1, 2)).sum()
                torch.autograd.grad(y, list(dict(model.named_parameters())))
                """,
            fixed="""
                import torch

                model = torch.nn.Linear(2, 1)
                y = model(torch.ones(1, 2)).sum()
                by_weight, by_bias = torch.autograd.grad(y, list(model.parameters()))
                assert torch.equal(by_weight, torch.ones(1, 2)) and by_bias == 1
                print(by_weight, by_bias)
                """,
            see=("jacobian-of-parameters", "error-inputs-empty"),
            source=("torch/csrc/autograd (python_engine.cpp)",),
        ),
        Message(
            anchor="inputs-empty",
            title="`inputs` argument to `backward()` cannot be empty",
            patterns=(
                r"['`]inputs['`] argument to `?(?:backward|grad)(?:\(\))?`? cannot be "
                r"empty",
                r"grad requires non-empty inputs",
            ),
            older=(
                "'inputs' argument to backward cannot be empty.",
                "grad requires non-empty inputs.",
            ),
            why="""`inputs` says which gradients are computed; an empty list would compute
                nothing. It is usually a generator that was used up before, or a filter
                that let nothing through.""",
            fix="""Pass a list that has something in it:
                `inputs=list(model.parameters())`, made anew for each call; in `backward`
                leave it out for all leaves.""",
            tell=(
                "`params = model.parameters()` was iterated over before: make it a list.",
                "A filter such as `p.requires_grad` found nothing: print its length.",
            ),
            broken="""
                import torch

                model = torch.nn.Linear(2, 1)
                parameters = model.parameters()
                count = sum(p.numel() for p in parameters)
                loss = model(torch.ones(2)).sum()
                loss.backward(inputs=list(parameters))
                """,
            fixed="""
                import torch

                model = torch.nn.Linear(2, 1)
                parameters = list(model.parameters())
                count = sum(p.numel() for p in parameters)
                loss = model(torch.ones(2)).sum()
                loss.backward(inputs=parameters)
                assert torch.equal(model.weight.grad, torch.ones(1, 2))
                print(count, model.weight.grad)
                """,
            see=("leaves-and-roots",),
            source=("PT#46373", "torch/autograd/__init__.py (backward)"),
        ),
        Message(
            anchor="inputs-not-a-leaf",
            title="One of the differentiated Tensors given as 'inputs' to backward is not "
            "a leaf Tensor",
            patterns=(
                r"One of the differentiated Tensors given as 'inputs' to backward is not a "
                r"leaf Tensor",
            ),
            why="""The first releases that had `y.backward(inputs=[t])` took leaves only,
                since it stores into `.grad`.""",
            fix="""A current PyTorch fills `.grad` of computed tensors in `inputs`, too.
                `torch.autograd.grad(y, t)` works in all releases.""",
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                t = x * 3
                (t**2).sum().backward(inputs=[t])
                assert torch.equal(t.grad, 2 * t) and x.grad is None
                print(t.grad)
                """,
            see=("leaves-and-roots", "error-non-leaf-grad"),
            source=("torch/csrc/autograd (python_engine.cpp), older releases",),
        ),
        Message(
            anchor="names-of-gradient",
            title="backward() got an unexpected keyword argument 'grad_outputs'",
            kinds=("TypeError", "FutureWarning"),
            patterns=(
                r"(?<!\w)(?:backward|grad)\(\) got an unexpected keyword argument "
                r"'(?P<name>grad_outputs?|grad_tensors?|grad_variables|"
                r"gradients?|v|grad|cotangents?)'",
                r"(?<!\w)backward\(\) got an unexpected keyword argument "
                r"'(?P<name>is_grads_batched|materialize_grads)'",
                r"backward\(\) got multiple values for argument "
                r"'(?P<name>gradient)'",
                r"`(?P<name>grad_variables)` is deprecated\. Use `grad_tensors` "
                r"instead",
            ),
            older=(
                "grad() got an unexpected keyword argument 'gradient'",
                "Tensor.backward() got multiple values for argument 'gradient'",
                "Tensor.backward() got an unexpected keyword argument 'is_grads_batched'",
                "`grad_variables` is deprecated. Use `grad_tensors` instead.",
            ),
            why="""One argument has four names: `gradient` in `y.backward`, `grad_tensors`
                in `torch.autograd.backward`, `grad_outputs` in `torch.autograd.grad`, and
                `cotangents` of what `torch.func.vjp` returns.""",
            fix="""`{name}` is not taken here, or given twice: call
                `y.backward(gradient=v)`, `torch.autograd.backward(y, grad_tensors=v)` or
                `torch.autograd.grad(y, x, grad_outputs=v)`; `materialize_grads` and
                `is_grads_batched` belong to `torch.autograd.grad` alone; one `x.grad` has
                no room for a batch.""",
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                (x**2).backward(grad_outputs=torch.ones(2))
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                (x**2).backward(gradient=torch.ones(2))
                assert torch.equal(x.grad, 2 * x)
                print(x.grad)
                """,
            see=("dictionary", "shape-rule", "glossary"),
            source=("SimplexLab/TorchJD#489",),
        ),
    ),
)
