"""Messages of ``torch.autograd.functional``."""

from pullback._messages._entry import SIZE, Message, Theme

FUNCTIONAL = Theme(
    "functional",
    (
        Message(
            anchor="vector-v-can-only-be-none",
            title="The vector v can only be None if the user-provided function returns a "
            "single Tensor with a single element",
            patterns=(r"The vector v can only be None if the",),
            why="""The functions of `torch.autograd.functional` fill in a 1 for a single
                number only. For more, you must give `v`: a weight on each output for `vjp`,
                a direction in the space of the inputs for `jvp`, `hvp` and `vhp`.""",
            fix="""Pass `v`: of the output's shape to `vjp(f, x, v)`, of the input's shape
                to `jvp(f, x, v)`, `hvp(f, x, v)` and `vhp(f, x, v)`.""",
            older=(
                "The vector v can only be None if the input to the user-provided function "
                "is a single Tensor with a single element.",
            ),
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0, 3.0])
                torch.autograd.functional.vjp(torch.square, x)
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0, 3.0])
                _, product = torch.autograd.functional.vjp(torch.square, x, torch.ones(3))
                assert torch.equal(product, 2 * x)
                print(product)
                """,
            see=("dictionary", "bare-backward", "vjp-and-chain-rule"),
            source=("torch/autograd/functional.py (vjp, jvp)",),
        ),
        Message(
            anchor="v-has-invalid-size",
            title="v has invalid size: should be torch.Size([3]) but got torch.Size([2])",
            patterns=(
                rf"v has invalid size: should be (?P<needed>{SIZE}) "
                rf"but got (?P<v>{SIZE})",
            ),
            why="""In `torch.autograd.functional`, `v` has the shape of the output for
                `vjp`, and the shape of the *input* for `jvp`, `hvp` and `vhp`: there it is
                a direction in which the input moves.""",
            fix="""`v` needs the shape {needed} and has {v}. For several outputs (`vjp`) or
                inputs (the others) pass a tuple with one for each.""",
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0, 3.0])
                f = lambda x: x[:2] * x[2]
                torch.autograd.functional.jvp(f, x, torch.ones(2))
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0, 3.0])
                f = lambda x: x[:2] * x[2]
                _, forward = torch.autograd.functional.jvp(f, x, torch.ones(3))
                _, reverse = torch.autograd.functional.vjp(f, x, torch.ones(2))
                assert forward.tolist() == [3 + 1, 3 + 2]
                assert reverse.tolist() == [3, 3, 1 + 2]
                print(forward, reverse)
                """,
            see=("dictionary", "what-is-a-jvp", "error-v-is-a-tuple"),
            source=("torch/autograd/functional.py (_validate_v)",),
        ),
        Message(
            anchor="v-is-a-tuple",
            title="v is a tuple of invalid length: should be 2 but got 1",
            patterns=(
                r"v is a tuple of invalid length: should be (?P<expected>\d+) but got "
                r"(?P<got>\d+)",
                r"The given v should contain a single Tensor",
            ),
            older=("The given v should contain a single Tensor.",),
            why="""In `torch.autograd.functional`, v has the structure of what it is
                multiplied with: of the outputs in `vjp`, of the inputs in `jvp`, `hvp` and
                `vhp`. One tensor there is one tensor in v, a tuple is a tuple of as
                many.""",
            fix="""Pass {expected} tensors in v (it has {got}), each of the shape of its
                output or input.""",
            unknown={"expected": "as many", "got": "another number"},
            broken="""
                import torch

                a, b = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
                f = lambda a, b: (a * b, a + b)
                torch.autograd.functional.vjp(f, (a, b), (torch.ones(2),))
                """,
            fixed="""
                import torch

                a, b = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
                f = lambda a, b: (a * b, a + b)
                v = (torch.ones(2), torch.ones(2))
                _, (by_a, by_b) = torch.autograd.functional.vjp(f, (a, b), v)
                assert torch.equal(by_a, b + 1) and torch.equal(by_b, a + 1)
                print(by_a, by_b)
                """,
            see=("shape-rule", "error-vector-v-can-only-be-none"),
            source=("torch/autograd/functional.py",),
        ),
        Message(
            anchor="hessian-single-element",
            title="The Tensor returned by the function given to hessian should contain a "
            "single element",
            patterns=(
                r"The Tensor returned by the function given to (?P<function>\w+) should "
                r"contain a single element",
                r"The function given to (?P<function>\w+) should return a single "
                r"Tensor",
            ),
            older=("The function given to hessian should return a single Tensor",),
            why="""A Hessian belongs to a function with one output, and yours returns
                several.""",
            fix="""Reduce the result to one number (`y.sum()`, or `y[k]` for one output)
                before {function}; for the Hessian of each output use
                `torch.func.hessian(f)(x)`, of shape `y.shape + x.shape + x.shape`.""",
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0])
                torch.autograd.functional.hessian(lambda x: x**3, x)
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0])
                H = torch.autograd.functional.hessian(lambda x: (x**3).sum(), x)
                assert torch.equal(H, torch.diag(6 * x))
                print(H)
                """,
            see=("full-hessian", "tensor-jacobian"),
            source=("torch/autograd/functional.py",),
        ),
        Message(
            anchor="forward-mode-needs-vectorize",
            title="Computing Jacobian using forward-AD or forward-over-reverse Hessian "
            "isonly implemented for `vectorize=True`",
            kinds=("NotImplementedError",),
            patterns=(
                r"Computing Jacobian using forward-AD or forward-over-reverse Hessian is ?"
                r"only implemented for `?vectorize=True`?",
            ),
            why="""`torch.autograd.functional.jacobian(strategy="forward-mode")` pushes all
                tangents at once and has no loop.""",
            fix="""Pass `vectorize=True` as well, or call `torch.func.jacfwd(f)(x)`, for
                `hessian` `torch.func.hessian(f)(x)`.""",
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0])
                torch.autograd.functional.jacobian(torch.square, x, strategy="forward-mode")
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0])
                J = torch.autograd.functional.jacobian(
                    torch.square, x, strategy="forward-mode", vectorize=True
                )
                assert torch.equal(J, torch.diag(2 * x))
                print(J)
                """,
            see=("jacobian-at-once", "reverse-or-forward"),
            source=("PT#184898",),
        ),
        Message(
            anchor="independent-in-strict-mode",
            title="Output 0 of the user-provided function is independent of input 0. "
            "This is not allowed in strict mode",
            patterns=(
                r"Output (?P<output>\d+) of the user-provided function is independent of "
                r"input (?P<input>\d+)",
                r"Output (?P<output>\d+) of the user-provided function does not require "
                r"gradients",
                r"The output of the user-provided function is independent of input "
                r"(?P<input>\d+)",
                r"The (?:jacobian|hessian) of the user-provided function (?:with "
                r"respect to input \d+ )?is independent of",
                r"While computing the hessian, found that the jacobian of the "
                r"user-provided function",
                r"The gradient with respect to (?:the input|input \d+) is "
                r"independent of",
                r"The output of f is independent of the inputs\. This is not "
                r"allowed with strict=True",
            ),
            older=(
                "Output 0 of the user-provided function does not require gradients. The "
                "outputs must be computed in a differentiable manner from the input when "
                "running in strict mode.",
                "The jacobian of the user-provided function is independent of "
                "input 0. This is not allowed in strict mode when "
                "create_graph=True.",
                "While computing the hessian, found that the jacobian of the "
                "user-provided function with respect to input 0 is independent "
                "of the input. This is not allowed in strict mode.",
                "jvp(f, primals, tangents, strict=True): The output of f is "
                "independent of the inputs. This is not allowed with "
                "strict=True.",
            ),
            why="""With `strict=True`, torch tells you that the result, or its derivative
                where the message names one, does not depend on an argument. Otherwise it
                would return zeros. Often the function uses a variable from outside in the
                argument's place.""",
            fix="""If zero is the right answer, as for the second derivative of a linear
                function, leave `strict` out. Else compute output {output} from the
                argument that the function gets, and not from a variable of the same
                content around it.""",
            unknown={"output": "of the function"},
            tell=(
                "The function uses a variable from outside: give it as an argument.",
                "`does not require gradients`: the function detaches, or goes through "
                "NumPy or integers.",
                "Several inputs or outputs, of which not each depends on each: zero is "
                "right; leave `strict` out.",
                "`The jacobian … is independent`, `While computing the hessian`: the "
                "function is linear and its second derivative zero; leave `strict` out. "
                "Zero is wrong where a custom Function marked `@once_differentiable` lies "
                "between.",
            ),
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                f = lambda unused: x**2
                torch.autograd.functional.jacobian(f, x, strict=True)
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                f = lambda x: x**2
                J = torch.autograd.functional.jacobian(f, x, strict=True)
                assert torch.equal(J, torch.diag(2 * x))
                print(J)
                """,
            see=("closures-of-zeros", "error-jacobian-of-a-closure"),
            source=("torch/autograd/functional.py",),
        ),
        Message(
            anchor="functional-options",
            title="torch.autograd.functional.jacobian: `create_graph=True` and "
            '`strategy="forward-mode"` are not supported together (yet)',
            kinds=("NotImplementedError", "RuntimeError"),
            patterns=(
                r"torch\.autograd\.functional\.(?P<function>\w+): `(?P<one>[^`]+)` and "
                r"`(?P<other>[^`]+)` are not supported together",
            ),
            older=(
                "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` "
                "are not supported together. Please either set `strict=False` or "
                "`vectorize=False`.",
            ),
            why="""`torch.autograd.functional` was written before `torch.func`, and not
                every option goes with every other.""",
            fix="""Leave out `{one}` or `{other}`; or use `torch.func.jacfwd` and `jacrev`,
                whose results can be differentiated again without an option.""",
            unknown={"one": "one option", "other": "the other"},
            tell=(
                "`vectorized=True` is the message's name for the argument `vectorize`.",
                "You called `hessian`: `strategy` is its `outer_jacobian_strategy`; "
                "`torch.func.hessian(f)(x)` needs neither.",
            ),
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                torch.autograd.functional.jacobian(
                    torch.square,
                    x,
                    create_graph=True,
                    strategy="forward-mode",
                    vectorize=True,
                )
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                J = torch.func.jacfwd(torch.square)(x)
                J.sum().backward()  # J is diag(2x)
                assert torch.equal(x.grad, torch.tensor([2.0, 2.0]))
                print(J.detach(), x.grad)
                """,
            see=("jacobian-at-once", "dictionary"),
            source=("torch/autograd/functional.py",),
        ),
        Message(
            anchor="functional-tensor-or-tuple",
            title="The inputs given to jacobian must be either a Tensor or a tuple of "
            "Tensors but the given inputs has type <class 'list'>",
            kinds=("TypeError",),
            patterns=(
                r"The (?P<what>[\w -]+?) given to (?P<function>\w+) must be either a "
                r"Tensor or a tuple of Tensors but the (?:given [\w -]+?|value at index "
                r"\d+) has type <class '(?P<type>[^']+)'>",
            ),
            older=(
                "The outputs of the user-provided function given to jacobian must be "
                "either a Tensor or a tuple of Tensors but the given outputs of the "
                "user-provided function has type <class 'dict'>.",
            ),
            why="""`torch.autograd.functional` takes and returns tensors and tuples of
                tensors, and no lists, dicts, arrays or numbers.""",
            fix="""Found in the {what}: {type}. Make a tuple of a list, `tuple(values)`, and
                a tensor of an array or a number, `torch.as_tensor(value)`. For dicts use
                `torch.func.jacrev`, which takes any nesting.""",
            unknown={"what": "inputs", "type": "another kind"},
            broken="""
                import torch

                a, b = torch.tensor(2.0), torch.tensor(3.0)
                torch.autograd.functional.jacobian(torch.mul, [a, b])
                """,
            fixed="""
                import torch

                a, b = torch.tensor(2.0), torch.tensor(3.0)
                by_a, by_b = torch.autograd.functional.jacobian(torch.mul, (a, b))
                assert (by_a, by_b) == (b, a)
                print(by_a, by_b)
                """,
            see=("jacobian-at-once",),
            source=("torch/autograd/functional.py",),
        ),
        Message(
            anchor="strategy",
            title='Expected strategy to be either "forward-mode" or "reverse-mode"',
            kinds=("AssertionError",),
            patterns=(r"Expected strategy to be either \"forward-mode\"",),
            why="""`strategy` of `torch.autograd.functional.jacobian`, and
                `outer_jacobian_strategy` of `hessian`, is one of two words, and another was
                passed.""",
            fix="""`"reverse-mode"` (the default; one pass for each output) or
                `"forward-mode"` with `vectorize=True` (one for each input).""",
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0])
                torch.autograd.functional.jacobian(torch.square, x, strategy="forward")
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0])
                J = torch.autograd.functional.jacobian(
                    torch.square, x, strategy="reverse-mode", vectorize=True
                )
                assert torch.equal(J, torch.diag(2 * x))
                print(J)
                """,
            see=("reverse-or-forward", "error-forward-mode-needs-vectorize"),
            source=("torch/autograd/functional.py",),
        ),
    ),
)
