"""Messages about what a transform of ``torch.func`` takes and returns."""

from pullback._messages._entry import Message, Theme
from pullback._messages._transform_arguments import TRANSFORM_ARGUMENTS

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
        *TRANSFORM_ARGUMENTS,
    ),
)
