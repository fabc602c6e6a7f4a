"""Messages about what a transform of ``torch.func`` takes and returns."""

from pullback._messages._entry import Message, Theme

TRANSFORMS = Theme(
    "transforms",
    (
        Message(
            anchor="grad-needs-a-scalar",
            title="grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor",
            patterns=(
                r"(?:grad|grad_and_value)\(f\)\(\*args\): Expected f\(\*args\) to return a "
                r"scalar [Tt]ensor(?:, got (?P<got>.*?)(?:\.|$))?",
            ),
            older=(
                "grad(f)(*args): Expected f(*args) to return a scalar tensor, got tensor "
                "with 1 dims. Maybe you wanted to use the vjp or jacrev APIs instead?",
            ),
            why="""`torch.func.grad` is for functions that return one 0-dimensional tensor.
                Unlike `backward` it refuses even a tensor of shape `(1,)`.""",
            fix="""f returned a {got}. Return a 0-dimensional tensor (`.sum()`,
                `.squeeze()`, `y[k]`), or take `jacrev` for all outputs, or `vmap(grad(f))`
                for many points.""",
            unknown={"got": "tensor with dimensions"},
            tell=(
                "Shape `(1,)` or `(1, 1)`, a network with one output: `.squeeze()`.",
                "One loss for each sample: `.mean()` for the batch's gradient, "
                "`vmap(grad(f))` for the gradient of each.",
                "All outputs count: `jacrev(f)`.",
                "With `has_aux=True`: the first of the two results is meant.",
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
            see=("per-sample-gradients", "ones-trick", "jacobian-at-once"),
            source=("FT#1070",),
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
            fix="""Give {function} a function of real tensors that returns real tensors:
                `torch.view_as_complex` puts the parts together inside f, and
                `torch.view_as_real` splits z, and what f returns, into real and imaginary
                part.""",
            tell=(
                "`inputs`: split them outside. `outputs`: split them in the `return`.",
                "The result is one real number, a loss: `torch.func.grad` takes complex "
                "inputs as they are.",
            ),
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
            see=("complex-v", "jacobian-at-once"),
            source=("PT#94397", "PT#92140", "PT#94805"),
        ),
        Message(
            anchor="transform-wants-tensors",
            title="Thing passed to transform API must be Tensor, got <class 'float'>",
            kinds=("ValueError", "RuntimeError"),
            patterns=(
                r"Thing passed to transform API must be Tensor, got <class "
                r"'(?P<type>[^']+)'",
                r"Expected \w+ to (?:be a tuple of|only contain) Tensors, got(?: <class "
                r"'(?P<type>[^']+)')?",
            ),
            why="""`torch.func.grad`, `vjp`, `jacrev` differentiate by tensors. (JAX takes
                Python numbers in the same place.)""",
            fix="""What you differentiate by has type `{type}`: pass a tensor,
                `torch.tensor(2.0)`, or for a model the tensors of
                `dict(model.named_parameters())`. Use `argnums=` so that
                options which are no tensors are not differentiated by.""",
            unknown={"type": "other than Tensor"},
            tell=(
                "`float`, `int`: `torch.tensor(2.0)`, with a decimal point.",
                "`numpy.ndarray`: `torch.as_tensor(array)`.",
                "`str`: names are in what you pass. Of "
                "`list(model.named_parameters())` make "
                "`dict(model.named_parameters())`; of other options, see `argnums`.",
                "A module: differentiate by `dict(model.named_parameters())`, and call it "
                "with `torch.func.functional_call`.",
            ),
            broken="""
                import torch

                torch.func.grad(lambda x: x**2)(3.0)
                """,
            fixed="""
                import torch

                gradient = torch.func.grad(lambda x: x**2)(torch.tensor(3.0))
                assert gradient == 6
                print(gradient)
                """,
            see=("dictionary", "jacobian-of-parameters", "jacobian-at-once"),
            source=("torch/_functorch/eager_transforms.py",),
        ),
        Message(
            anchor="transform-returns-tensors",
            title="vjp(f, *primals): expected f(*primals) to return only tensors, got "
            "unsupported type <class 'float'>",
            patterns=(
                r"expected f\(\*(?:primals|args)\) to return only tensors, got "
                r"unsupported type <class '(?P<type>[^']+)'",
                r"Expected output of f to be a Tensor or Tensors, got",
                r"Expected f\(\*args\) to return a Tensor, got <class '(?P<type>[^']+)'",
                r"Expected f to be a function that has non-empty output \(got output = "
                r"\[?(?P<type>\w*)",
            ),
            older=(
                "vjp(f, *primals): Expected f to be a function that has non-empty output "
                "(got output = [None])",
                "grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got "
                "<class 'float'>",
            ),
            why="""The function must compute its result with torch from its arguments; a
                number that `.item()`, `float()` or NumPy made has no derivative.""",
            fix="""It returned `{type}`: return the tensor itself. A constant result is
                `x.new_tensor(3.0)`; further results that need no gradient go out through
                `has_aux=True`.""",
            unknown={"type": "something else"},
            tell=(
                "`got <class 'float'>`: take `.item()` out of the function.",
                "`got <class 'tuple'>` from `grad`: return the loss alone, or "
                "`(loss, rest)` with `has_aux=True`.",
                "`got <class 'NoneType'>`, `got output = [None]`: the `return` is missing.",
            ),
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0])
                torch.func.jacrev(lambda x: x.detach().sum().item())(x)
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0])
                f = lambda x: ((x**2).sum(), x.max().detach())
                gradient, largest = torch.func.grad(f, has_aux=True)(x)
                assert torch.equal(gradient, 2 * x)
                print(gradient, largest)
                """,
            see=("jacobian-at-once",),
            source=("torch/_functorch/eager_transforms.py",),
        ),
        Message(
            anchor="floating-point-outputs",
            title="vjp(f, ...): All outputs of f must be floating-point or complex "
            "Tensors, got Tensor with dtype torch.int64",
            patterns=(
                r"All outputs of f must be floating-point or complex Tensors, got Tensor "
                r"with dtype (?P<dtype>[\w.]+)",
            ),
            why="""The function returns integers or Booleans: `argmax`, a comparison,
                `.long()`. They have no derivative.""",
            fix="""It returns {dtype}: return the real value that it was made from (`amax`
                for `argmax`, the score for a comparison), or pass it out beside the real
                result with `has_aux=True`. (`torch.func.grad` and `jacfwd` return zeros
                without a word.)""",
            broken="""
                import torch

                x = torch.tensor([1.0, 3.0, 2.0])
                torch.func.vjp(lambda x: x.argmax(), x)
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 3.0, 2.0])
                f = lambda x: (x.amax(), x.argmax())
                largest, pull, place = torch.func.vjp(f, x, has_aux=True)
                (gradient,) = pull(torch.tensor(1.0))
                assert gradient.argmax() == place
                print(gradient, place)
                """,
            see=("discrete-choices", "kinks"),
            source=("torch/_functorch/eager_transforms.py",),
        ),
        Message(
            anchor="cotangent-structure",
            title="Expected pytree structure of cotangents to be the same as pytree "
            "structure of outputs to the function",
            patterns=(
                r"Expected pytree structure of cotangents to be the same as pytree "
                r"structure of outputs",
                r"missing 1 required positional argument: 'cotangents'",
            ),
            older=(
                "_vjp_with_argnums.<locals>.wrapper() missing 1 required positional "
                "argument: 'cotangents'",
            ),
            why="""What `torch.func.vjp` returns wants one cotangent for each output, nested
                as the outputs are: a tuple for a tuple, a dict for a dict.""",
            fix="""Pass the cotangents as the function returned its outputs:
                `pull((v1, v2))` for `return y1, y2`, and `pull(v)` for `return y`.""",
            tell=(
                "The message shows both, with `*` for a tensor: `(*, *)` is a tuple of "
                "two, `{'a': *}` a dict.",
                "A list for a tuple is refused as well.",
                "`missing 1 required positional argument`: there is no v that it would "
                "fill in; for a number as output, `torch.ones_like(y)`.",
            ),
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0])
                outputs, pull = torch.func.vjp(lambda x: (x.sum(), x**2), x)
                pull(torch.tensor(1.0))
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0])
                outputs, pull = torch.func.vjp(lambda x: (x.sum(), x**2), x)
                (product,) = pull((torch.tensor(1.0), torch.ones(2)))
                assert torch.equal(product, 1 + 2 * x)
                print(product)
                """,
            see=("several-outputs",),
            source=("torch/_functorch/eager_transforms.py (vjp)",),
        ),
        Message(
            anchor="primals-and-tangents",
            title="jvp(f, primals, tangents): Expected primals to be a tuple. E.g. it "
            "should be valid to call f(*primals)",
            patterns=(
                r"Expected primals to be a tuple\. E\.g\. it should be valid to call "
                r"f\(\*primals\)",
                r"Expected primals and tangents to have the same python structure",
                r"Expected (?:primals|tangents) to contain at least one Tensor",
            ),
            older=(
                "jvp(f, primals, tangents): Expected primals to contain at least one "
                "Tensor.",
                "jvp(f, primals, tangents): Expected primals and tangents to have the same "
                "python structure. For example, if primals is a tuple of 3 tensors, "
                "tangents also must be.",
            ),
            why="""`torch.func.jvp` takes all arguments of f as one tuple and all tangents
                as another; `vjp` takes the arguments one by one.""",
            fix="""`torch.func.jvp(f, (x,), (t,))`: tuples, not lists, with the commas also
                for one argument, and one tangent for each argument.""",
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0])
                torch.func.jvp(torch.square, x, torch.ones(2))
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0])
                _, product = torch.func.jvp(torch.square, (x,), (torch.ones(2),))
                assert torch.equal(product, 2 * x)
                print(product)
                """,
            see=("what-is-a-jvp",),
            source=("torch/_functorch/eager_transforms.py (jvp)",),
        ),
        Message(
            anchor="primal-floating-point",
            title="Expected primal to be floating point or complex, but got: torch.int64",
            kinds=("ValueError", "RuntimeError"),
            patterns=(
                r"Expected (?P<what>primal|tangent) to be floating point or complex, but "
                r"got: (?P<dtype>[\w.]+)",
                r"Expected both tensor and its forward grad to be floating point "
                r"or complex",
            ),
            older=(
                "Expected both tensor and its forward grad to be floating point "
                "or complex, but tensor is Long and grad is Float",
            ),
            why="""Forward mode carries a direction along with each number, and an integer
                cannot move in a direction.""",
            fix="""The {what} is {dtype}: write `torch.tensor([1.0, 2.0])` with a decimal
                point, or `.float()`.""",
            unknown={"what": "primal or the tangent", "dtype": "of integers"},
            broken="""
                import torch

                x = torch.tensor([1, 2])
                torch.func.jvp(torch.square, (x,), (torch.ones(2),))
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0])
                _, product = torch.func.jvp(torch.square, (x,), (torch.ones(2),))
                assert torch.equal(product, 2 * x)
                print(product)
                """,
            see=("what-is-a-jvp", "error-only-floating-point"),
            source=("torch/autograd/forward_ad.py",),
        ),
        Message(
            anchor="got-argnum",
            title="Got argnum=1, but only 1 positional inputs",
            patterns=(
                r"Got argnums?=(?P<argnum>-?\d+), but only (?P<count>\d+) positional "
                r"inputs",
                r"argnums? must be int(?: or Tuple\[int, \.\.\.\])?, got",
                r"argnums (?:must be non-empty|elements must be unique)",
            ),
            older=(
                "argnums must be int or Tuple[int, ...], got: <class 'list'>",
                "argnums must be non-empty",
                "argnums elements must be unique, got (0, 0)",
            ),
            why="""`argnums` counts the positional arguments of the *call*, from 0. Keyword
                arguments are not counted and cannot be differentiated by.""",
            fix="""Pass by position what you differentiate by, and name its place, the first
                being 0 (you asked for {argnum}, of {count} arguments); for several, a tuple
                of different places.""",
            unknown={"count": "your", "argnum": "something else"},
            tell=(
                "`must be int or Tuple`: write `argnums=(0, 1)`, not a list.",
                "`must be unique`: -1 and the last number are the same argument.",
            ),
            broken="""
                import torch

                f = lambda x, w: (w * x).sum()
                x, w = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
                torch.func.grad(f, argnums=1)(x, w=w)
                """,
            fixed="""
                import torch

                f = lambda x, w: (w * x).sum()
                x, w = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
                gradient = torch.func.grad(f, argnums=1)(x, w)
                assert torch.equal(gradient, x)
                print(gradient)
                """,
            see=("jacobian-of-parameters",),
            source=("torch/_functorch/eager_transforms.py",),
        ),
        Message(
            anchor="has-aux",
            title="output of function f should be a tuple: (output, aux) if has_aux is "
            "True",
            patterns=(
                r"output of function f should be a tuple: \(output, aux\) if has_aux is "
                r"True",
                r"Expected tensors, got unsupported type <class '[^']+'",
            ),
            older=("Expected tensors, got unsupported type <class 'float'>",),
            why="""With `has_aux=True` the function returns a tuple of two: what is
                differentiated, and tensors that are handed through.""",
            fix="""`return loss, rest`, with everything else packed into `rest`, as tensors
                in tuples, lists or dicts; or leave `has_aux` out.""",
            tell=(
                "`should be a tuple`: f returned one thing, three, or a list.",
                "`unsupported type`: a number, a string or None is in `rest`. Make it a "
                "tensor, `torch.tensor(3.0)`, or keep it out.",
            ),
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0])
                torch.func.grad(lambda x: (x**2).sum(), has_aux=True)(x)
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0])
                f = lambda x: ((x**2).sum(), {"norm": x.norm()})
                gradient, rest = torch.func.grad(f, has_aux=True)(x)
                assert torch.equal(gradient, 2 * x)
                print(gradient, rest["norm"])
                """,
            see=("jacobian-at-once",),
            source=("torch/_functorch/eager_transforms.py",),
        ),
        Message(
            anchor="functorch-is-torch-func",
            title="We've integrated functorch into PyTorch. As the final step of the "
            "integration, `functorch.make_functional` is deprecated",
            kinds=("FutureWarning", "ModuleNotFoundError", "RuntimeError"),
            patterns=(
                r"We've integrated functorch into PyTorch",
                r"No module named 'functorch'",
                r"make_functional\(module\): we don't yet support models that do parameter "
                r"tying",
                r"make_functional(?:_deprecated_v1)?\(model\): `model` has buffers",
            ),
            older=(
                "No module named 'functorch'",
                "make_functional(module): we don't yet support models that do parameter "
                "tying (also sometimes known as weight sharing).",
                "make_functional(model): `model` has buffers. Please use "
                "make_functional_with_buffers(model) instead.",
            ),
            why="""`functorch` was a package of its own before PyTorch 2.0. Its transforms
                are in `torch.func` under the same names; `make_functional` has become
                `torch.func.functional_call`, which also takes shared weights.""",
            fix="""`from torch.func import grad, vjp, jacrev, vmap`, and in place of
                `fmodel, params = make_functional(model)`: `params =
                dict(model.named_parameters())` and
                `functional_call(model, params, (x,))`.""",
            tell=(
                "`make_functional_with_buffers`: `functional_call` uses the model's own "
                "buffers; others go beside the parameters, "
                "`functional_call(model, (params, buffers), (x,))`.",
                "`combine_state_for_ensemble`: `torch.func.stack_module_state`.",
            ),
            broken="""
                import functorch
                import torch

                model = torch.nn.Linear(2, 1)
                functional, parameters = functorch.make_functional(model)
                """,
            fixed="""
                import torch
                from torch.func import functional_call, grad

                model = torch.nn.Linear(2, 1)
                parameters = dict(model.named_parameters())
                x = torch.tensor([[1.0, 2.0]])

                def loss(parameters):
                    return functional_call(model, parameters, (x,)).sum()

                g = grad(loss)(parameters)
                assert torch.equal(g["weight"], x) and g["bias"] == 1
                print(g["weight"])
                """,
            see=("jacobian-of-parameters", "version-notes"),
            source=("torch/_functorch/deprecated.py",),
        ),
        Message(
            anchor="functional-call-names",
            title="Error(s) in reparametrizing for Linear: Unexpected key(s): 'wieght'.",
            kinds=("RuntimeError", "AttributeError", "ValueError"),
            patterns=(
                r"Error\(s\) in reparametrizing for (?P<module>\w+)",
                r"\b(?P<module>(?!object )\w+) has no attribute `\w+`",
                r"functional_call got multiple values for keys",
                r"appeared in multiple dictionaries; behavior of functional call is "
                r"ambiguous",
                r"Expected (?:parameter_and_buffer_dicts to be a dict|all elements of "
                r"parameter_and_buffer_dicts to be dictionaries)",
            ),
            older=(
                "Linear has no attribute `module`",
                "functional_call got multiple values for keys ['a.weight', 'b.weight'], "
                "which are tied. Consider using tie_weights=False",
                "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of "
                "dicts, but got <class 'torch.Tensor'>",
                "['weight', 'bias'] appeared in multiple dictionaries; behavior of "
                "functional call is ambiguous",
            ),
            why="""`torch.func.functional_call` puts tensors in the place of parameters and
                buffers by their names in the module. These names are not its names, or one
                place is named twice.""",
            fix="""Start from `dict(model.named_parameters())` of the same model and replace
                values only. Parameters and buffers in two dicts go in as one tuple:
                `functional_call(model, (params, buffers), (x,))`.""",
            tell=(
                "``has no attribute `module` ``: the names come from a model in "
                "DataParallel or DistributedDataParallel; take them from `model.module`. "
                "`get_submodule` and `get_parameter` say the same of a name.",
                "`which are tied`: two names of one weight; give one of them, or "
                "`tie_weights=False` for two tensors.",
                "A misspelled last part, such as `wieght`, is ignored without "
                "`strict=True`, and its gradient is zero or None.",
            ),
            broken="""
                import torch
                from torch.func import functional_call

                model = torch.nn.Linear(2, 1)
                params = {"wieght": torch.ones(1, 2), "bias": torch.ones(1)}
                functional_call(model, params, (torch.ones(1, 2),), strict=True)
                """,
            fixed="""
                import torch
                from torch.func import functional_call, grad

                model = torch.nn.Linear(2, 1)
                params = dict(model.named_parameters()) | {"weight": torch.ones(1, 2)}
                x = torch.tensor([[1.0, 2.0]])
                f = lambda params: functional_call(model, params, (x,), strict=True).sum()
                g = grad(f)(params)
                assert torch.equal(g["weight"], x)
                print(g["weight"])
                """,
            see=("jacobian-of-parameters", "functional-buffers"),
            source=(
                "torch/nn/utils/stateless.py",
                "torch/_functorch/functional_call.py",
            ),
        ),
        Message(
            anchor="chunk-size",
            title="vmap: chunk_size should be None or greater than 0. (got 0)",
            kinds=("ValueError",),
            patterns=(
                r"chunk_size`? should be (?:None or )?greater than 0\b"
                r"(?:\. \(got (?P<size>-?\d+)\))?",
            ),
            older=("jacrev: `chunk_size` should be greater than 0.",),
            why="""`chunk_size` is how many rows or samples are computed at once. None takes
                all of them; none at all would never end.""",
            fix="""It was {size}: pass a positive number, or None. Where you compute it,
                `max(1, n // parts)` stays above 0.""",
            unknown={"size": "0 or negative"},
            broken="""
                import torch

                x = torch.ones(3)
                torch.vmap(torch.sin, chunk_size=len(x) // 4)(x)
                """,
            fixed="""
                import torch

                x = torch.ones(3)
                y = torch.vmap(torch.sin, chunk_size=max(1, len(x) // 4))(x)
                assert torch.equal(y, torch.sin(x))
                print(y)
                """,
            see=("jacobian-at-once", "memory-measured"),
            source=("torch/_functorch (apis.py, eager_transforms.py)",),
        ),
    ),
)
