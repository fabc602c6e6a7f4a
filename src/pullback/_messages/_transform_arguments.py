"""Messages about the arguments and options of a transform of ``torch.func``."""

from pullback._messages._entry import Message

TRANSFORM_ARGUMENTS = (
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
            "jvp(f, primals, tangents): Expected primals to contain at least one Tensor.",
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
        title="output of function f should be a tuple: (output, aux) if has_aux is True",
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
)
