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
                r"\(vmap, grad, vjp, etc\.\) currently do not support the use of "
                r"autograd\.Function",
                r"cannot use C\+\+ torch::autograd::Function with functorch "
                r"transforms",
            ),
            older=(
                "You tried to vmap over Square, but it does not have vmap support. Please "
                "override and implement the vmap staticmethod or set "
                "generate_vmap_rule=True.",
                "functorch functions (vmap, grad, vjp, etc.) currently do not "
                "support the use of autograd.Function. Please rewrite your "
                "function to not use autograd.Function while we work on fixing "
                "this",
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
                "You wrote no Function: a library did, for example a checkpoint with "
                "`use_reentrant=True`. Switch it off inside `torch.func`.",
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
                `torch.autograd.grad` in its place. `jacfwd`, `jvp` and `vmap` take
                checkpoints as they are.""",
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
                `torch.tensor(2.0)`. Use `argnums=` so that options which are no tensors are
                not differentiated by.""",
            unknown={"type": "other than Tensor"},
            tell=(
                "`float`, `int`: `torch.tensor(2.0)`, with a decimal point.",
                "`numpy.ndarray`: `torch.as_tensor(array)`.",
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
            ),
            why="""What `torch.func.vjp` returns wants one cotangent for each output, nested
                as the outputs are: a tuple for a tuple, a dict for a dict.""",
            fix="""Pass the cotangents as the function returned its outputs:
                `pull((v1, v2))` for `return y1, y2`, and `pull(v)` for `return y`.""",
            tell=(
                "The message shows both, with `*` for a tensor: `(*, *)` is a tuple of "
                "two, `{'a': *}` a dict.",
                "A list for a tuple is refused as well.",
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
            ),
            older=(
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
            unknown={"what": "primal"},
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
            ),
            older=("argnums must be int or Tuple[int, ...], got: <class 'list'>",),
            why="""`argnums` counts the positional arguments of the *call*, from 0. Keyword
                arguments are not counted and cannot be differentiated by.""",
            fix="""There are {count} positional arguments and you asked for number {argnum}:
                pass that argument by position, and mind that the first is 0.""",
            unknown={"count": "fewer", "argnum": "one more"},
            tell=("`must be int or Tuple`: write `argnums=(0, 1)`, not a list.",),
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
            see=("function-under-transforms", "external-loss"),
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
            anchor="functorch-is-torch-func",
            title="We've integrated functorch into PyTorch. As the final step of the "
            "integration, `functorch.make_functional` is deprecated",
            kinds=("FutureWarning", "ModuleNotFoundError", "RuntimeError"),
            patterns=(
                r"We've integrated functorch into PyTorch",
                r"No module named 'functorch'",
                r"make_functional\(module\): we don't yet support models that do parameter "
                r"tying",
            ),
            older=(
                "No module named 'functorch'",
                "make_functional(module): we don't yet support models that do parameter "
                "tying (also sometimes known as weight sharing).",
            ),
            why="""`functorch` was a package of its own before PyTorch 2.0. Its transforms
                are in `torch.func` under the same names; `make_functional` has become
                `torch.func.functional_call`, which also takes shared weights.""",
            fix="""`from torch.func import grad, vjp, jacrev, vmap`, and in place of
                `fmodel, params = make_functional(model)`: `params =
                dict(model.named_parameters())` and
                `functional_call(model, params, (x,))`.""",
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
            anchor="iteration-over-a-0-d-tensor",
            title="iteration over a 0-d tensor",
            kinds=("TypeError",),
            patterns=(r"iteration over a 0-d tensor",),
            why="""A 0-dimensional tensor has nothing to go through or to unpack. Often it
                is a gradient: `torch.autograd.grad` returns a tuple, with one gradient for
                each input; `torch.func.grad` returns the gradient for one argument as it
                is, and there is no tuple to take apart.""",
            fix="""Write `g = torch.func.grad(f)(x)`. With `argnums=(0, 1)` it is a tuple of
                two.""",
            tell=(
                "`(g,) = …` or `g, = …` before `torch.func.grad`: without the comma.",
                "`for loss in losses` or `sum(loss)`: there is one loss, a tensor.",
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
    ),
)
