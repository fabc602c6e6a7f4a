"""Messages about forward mode, second derivatives and the functional API."""

from pullback._messages._entry import Message, Theme

HIGHER = Theme(
    "higher",
    (
        Message(
            anchor="implement-jvp",
            title="You must implement the jvp function for custom autograd.Function to use "
            "it with forward mode AD",
            kinds=("NotImplementedError", "RuntimeError"),
            patterns=(
                r"You must implement the jvp function for custom autograd\.Function",
                r"jvp is not implemented for the c\+\+ API of custom Function",
            ),
            older=("jvp is not implemented for the c++ API of custom Function yet.",),
            why="""Forward mode pushes a tangent through each operation. Your Function has a
                rule for reverse mode only.""",
            fix="""Add a static `jvp(ctx, tangent)` (save what it needs with
                `ctx.save_for_forward`), or use reverse mode: `jacrev` in place of `jacfwd`,
                `vjp` in place of `jvp`.""",
            tell=(
                "From `torch.func.jacfwd` or `jvp`: `jacrev`, `vjp`.",
                "From `torch.func.hessian`, which is `jacfwd(jacrev(f))`: "
                "`jacrev(jacrev(f))`, for which a rule for `vmap` and a `backward` of "
                "differentiable operations do.",
            ),
            broken="""
                import torch

                class Square(torch.autograd.Function):
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
                torch.func.jvp(Square.apply, (x,), (torch.ones(2),))
                """,
            fixed="""
                import torch

                class Square(torch.autograd.Function):
                    @staticmethod
                    def forward(x):
                        return x**2

                    @staticmethod
                    def setup_context(ctx, inputs, output):
                        ctx.save_for_forward(*inputs)

                    @staticmethod
                    def jvp(ctx, tangent):
                        return 2 * ctx.saved_tensors[0] * tangent

                x = torch.tensor([1.0, 2.0])
                _, product = torch.func.jvp(Square.apply, (x,), (torch.ones(2),))
                assert torch.equal(product, 2 * x)
                print(product)
                """,
            see=("function-under-transforms", "reverse-or-forward"),
            source=("flatironinstitute/pytorch-finufft#110",),
        ),
        Message(
            anchor="forward-ad-not-implemented",
            title="Trying to use forward AD with … that does not support it "
            "because it has not been implemented yet",
            kinds=("NotImplementedError",),
            patterns=(
                r"Trying to use forward AD with (?P<operation>\S+) that does not support "
                r"it(?! because it is an out= function)",
            ),
            why="""That operation, often one fused for speed, has a rule for reverse mode
                and none for forward mode.""",
            fix="""{operation} has no forward rule: use a variant of the operation that has
                one (for attention: `sdpa_kernel(SDPBackend.MATH)`), or reverse mode:
                `jacrev`. A JVP from two VJPs (`torch.autograd.functional.jvp`) needs its
                second derivative, which attention lacks as well (and `cdist`, before
                2.14).""",
            tell=(
                "The name contains `scaled_dot_product`: choose the MATH backend.",
                "`_cdist_forward`: write "
                "`(a[..., :, None, :] - b[..., None, :, :]).norm(dim=-1)`.",
                "`mkldnn_rnn_layer`, an `nn.LSTM` on the CPU: run it inside "
                "`with torch.backends.mkldnn.flags(enabled=False):`.",
                "Anything else: `jacrev` in place of `jacfwd`; for a Hessian "
                "`jacrev(jacrev(f))`.",
            ),
            broken="""
                import torch
                from torch.nn.functional import scaled_dot_product_attention

                q = torch.ones(1, 1, 2, 4)
                attention = lambda q: scaled_dot_product_attention(q, q, q)
                torch.func.jvp(attention, (q,), (q,))
                """,
            fixed="""
                import torch
                from torch.nn.attention import SDPBackend, sdpa_kernel
                from torch.nn.functional import scaled_dot_product_attention

                q = torch.ones(1, 1, 2, 4)
                attention = lambda q: scaled_dot_product_attention(q, q, q)
                with sdpa_kernel(SDPBackend.MATH):
                    _, product = torch.func.jvp(attention, (q,), (q,))
                # all rows are equal, so each output is that row, whatever the weights
                torch.testing.assert_close(product, q)
                print(product.shape)
                """,
            see=("what-is-a-jvp", "reverse-or-forward"),
            source=("PT#98164", "PT#128971", "PT#137720"),
        ),
        Message(
            anchor="derivative-not-implemented",
            title="derivative for "
            "aten::_scaled_dot_product_flash_attention_for_cpu_backward is not implemented",
            kinds=("RuntimeError", "NotImplementedError", "ValueError"),
            patterns=(
                r"(?:the )?derivative for '?(?:aten::)?(?!(?:target|weight)')"
                r"(?P<operation>\w+(?::? \w+)??)'? is not implemented(?!\. Double)",
                r"(?P<operation>scatter_reduce|index_reduce)\(\): Double backward is "
                r"unsupported",
                r"`?(?P<operation>max_pool2d) with `return_indices=False` is not "
                r"infinitely differentiable",
                r"(?P<operation>lobpcg)\.backward does not support \w+ input yet",
                r"(?P<operation>\w+) does not support automatic differentiation for "
                r"outputs with complex dtype",
            ),
            older=(
                "lobpcg.backward does not support sparse input yet. Note that "
                "lobpcg.forward does though.",
                "cumprod does not support automatic differentiation for outputs with "
                "complex dtype.",
                "the derivative for 'digamma_backward' is not implemented",
                "the derivative for 'igamma: input' is not implemented.",
                "the derivative for 'cudnn_batch_norm_backward save_mean' is "
                "not implemented",
                "the derivative for '_cdist_backward' is not implemented.",
                "scatter_reduce(): Double backward is unsupported for src when "
                ">1 zeros in src are scattered to the same position in self",
                "max_pool2d with `return_indices=False` is not infinitely "
                "differentiable. If you want to calculate higher order "
                "derivatives, e.g. second order, set `return_indices=True`.",
            ),
            why="""torch has no derivative rule for that operation. A name that ends in
                `_backward` means that you differentiate twice and the *second* derivative
                is missing.""",
            fix="""{operation} has no derivative: use a variant that has one. For attention:
                `with sdpa_kernel(SDPBackend.MATH):`; else write the formula out with basic
                operations.""",
            tell=(
                "The name contains `scaled_dot_product`: choose the MATH backend for the "
                "forward pass.",
                "`_cdist_backward`, before 2.14: write "
                "`(a[..., :, None, :] - b[..., None, :, :]).norm(dim=-1)`.",
                "`cudnn` in the name: "
                "`torch.backends.cudnn.flags(enabled=False)` around the forward "
                "pass.",
                "`lobpcg`, sparse or complex: `torch.linalg.eigh` of the dense matrix.",
                "`outputs with complex dtype`: PyTorch 1.6 to 1.8; newer releases have "
                "those rules.",
                "`name: argument`, such as `igamma: input`: only that argument has no "
                "rule; detach it if it is a constant.",
            ),
            broken="""
                import torch
                from torch.nn.functional import scaled_dot_product_attention

                q = torch.ones(1, 1, 2, 4, requires_grad=True)
                y = scaled_dot_product_attention(q, q, q).sum()
                (g,) = torch.autograd.grad(y, q, create_graph=True)
                g.sum().backward()
                """,
            fixed="""
                import torch
                from torch.nn.attention import SDPBackend, sdpa_kernel
                from torch.nn.functional import scaled_dot_product_attention

                q = torch.ones(1, 1, 2, 4, requires_grad=True)
                with sdpa_kernel(SDPBackend.MATH):
                    y = scaled_dot_product_attention(q, q, q).sum()
                (g,) = torch.autograd.grad(y, q, create_graph=True)
                g.sum().backward()
                assert q.grad.shape == q.shape and q.grad.isfinite().all()
                print(q.grad.shape)
                """,
            see=("second-derivatives", "error-forward-ad-not-implemented"),
            source=("PT#116350", "PT#181177"),
        ),
        Message(
            anchor="cudnn-double-backward",
            title="Double backwards is not supported for CuDNN RNNs due to limitations in "
            "the CuDNN API",
            kinds=("NotImplementedError", "RuntimeError"),
            patterns=(r"Double backwards is not supported for CuDNN RNNs",),
            why="""On a GPU, `nn.LSTM`, `nn.GRU` and `nn.RNN` run in cuDNN, whose backward
                cannot be differentiated. A gradient penalty or a Hessian-vector product
                asks for that.""",
            fix="""Run the forward pass of the RNN inside
                `with torch.backends.cudnn.flags(enabled=False):`.""",
            fixed="""
                import torch

                lstm = torch.nn.LSTM(2, 1)
                x = torch.ones(3, 1, 2, requires_grad=True)
                with torch.backends.cudnn.flags(enabled=False):
                    y = lstm(x)[0].sum()
                (g,) = torch.autograd.grad(y, x, create_graph=True)
                (g**2).sum().backward()
                assert x.grad.shape == x.shape
                print(x.grad.shape)
                """,
            source=("cyanrain7/TRPO-in-MARL#14",),
            see=("gradient-penalty", "error-derivative-not-implemented"),
        ),
        Message(
            anchor="compile-double-backward",
            title="torch.compile with aot_autograd does not currently support double "
            "backward",
            patterns=(
                r"torch\.compile with aot_autograd does not currently support double "
                r"backward",
            ),
            why="""A compiled function has a compiled backward, and that is not
                differentiable again.""",
            fix="""Differentiate twice in eager mode, with the function that has not gone
                through `torch.compile`, or compile a function that computes
                the second derivative with `torch.func` inside.""",
            broken="""
                import torch

                cube = torch.compile(lambda x: (x**3).sum(), backend="aot_eager")
                x = torch.tensor([1.0, 2.0], requires_grad=True)
                (g,) = torch.autograd.grad(cube(x), x, create_graph=True)
                g.sum().backward()
                """,
            fixed="""
                import torch

                cube = lambda x: (x**3).sum()
                x = torch.tensor([1.0, 2.0], requires_grad=True)
                (g,) = torch.autograd.grad(cube(x), x, create_graph=True)
                g.sum().backward()
                assert torch.equal(x.grad, 6 * x)
                print(x.grad)
                """,
            see=("second-derivatives", "error-create-graph-reference-cycle"),
            source=("PT#91469", "PT#183603"),
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
                "function is linear and its second derivative zero; leave `strict` out.",
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
            anchor="tangent-size",
            title="Trying to set a forward gradient that has a different size than that of "
            "the original Tensor",
            patterns=(
                r"Trying to set a forward gradient that has a different size than that of "
                r"the original Tensor(?:.*?Tensor is of size (?P<tensor>\[[\d, ]*\]) while "
                r"the given forward gradient is of size (?P<tangent>\[[\d, ]*\]))?",
            ),
            unknown={"tensor": "`x.shape`", "tangent": "another"},
            why="""In forward mode the vector belongs to the *input*: one number for each
                element of `x`. (In reverse mode `v` has the shape of the output.)""",
            fix="""Your tangent has shape {tangent}, `x` has shape {tensor}: pass a
                tangent of shape {tensor}, in a floating-point dtype.""",
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0, 3.0])
                f = lambda x: x[:2] * x[2]
                torch.func.jvp(f, (x,), (torch.ones(2),))
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0, 3.0])
                f = lambda x: x[:2] * x[2]
                _, product = torch.func.jvp(f, (x,), (torch.ones(3),))
                assert torch.equal(product, torch.tensor([3.0 + 1, 3.0 + 2]))
                print(product)
                """,
            see=("what-is-a-jvp", "shape-rule", "reverse-or-forward"),
            source=("torch/csrc/autograd (autograd_meta.cpp)",),
        ),
        Message(
            anchor="no-dual-level",
            title="Trying to create a dual Tensor for forward AD but no level exists",
            patterns=(
                r"Trying to create a dual Tensor for forward AD but no level exists",
                r"Nested forward mode AD is not supported at the moment",
                r"Trying to exit a forward AD level that was not the last",
                r"Making a dual Tensor based on a Tensor that already has a "
                r"forward gradient at the same level",
                r"Setting a forward grad that itself has a forward gradient at "
                r"the same level",
            ),
            older=(
                "Nested forward mode AD is not supported at the moment",
                "Making a dual Tensor based on a Tensor that already has a "
                "forward gradient at the same level 0 is not supported.",
                "Trying to exit a forward AD level that was not the last one "
                "that was created. This is not supported.",
                "Setting a forward grad that itself has a forward gradient at "
                "the same level0 is not supported.",
            ),
            why="""`torch.autograd.forward_ad` works inside one `dual_level()` block: not
                outside of it, and not inside two.""",
            fix="""Outside of a block: wrap it in `with fwAD.dual_level():`. Inside a second
                one: use `torch.func.jvp`, which nests. On a tensor that is dual already:
                make the dual once, of `fwAD.unpack_dual(dual).primal`. Read the tangent
                inside the block: after it, `fwAD.unpack_dual(out).tangent` is None.""",
            broken="""
                import torch
                import torch.autograd.forward_ad as fwAD

                x = torch.tensor([1.0, 2.0])
                fwAD.make_dual(x, torch.ones(2))
                """,
            fixed="""
                import torch
                import torch.autograd.forward_ad as fwAD

                x = torch.tensor([1.0, 2.0])
                with fwAD.dual_level():
                    dual = fwAD.make_dual(x, torch.ones(2))
                    tangent = fwAD.unpack_dual(dual**2).tangent
                assert torch.equal(tangent, 2 * x)
                print(tangent)
                """,
            see=("what-is-a-jvp", "reverse-or-forward"),
            source=("torch/autograd/forward_ad.py",),
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
            anchor="decomposition-phase",
            title="svd_backward: The singular vectors in the complex case are specified up "
            "to multiplication by e^{i phi}",
            patterns=(
                r"(?P<function>\w+): The (?:singular vectors|eigenvectors) in the complex "
                r"case are specified up to multiplication by e\^\{i phi\}",
                r"The (?:singular vectors|eigenvectors) in the complex case are specified "
                r"up to",
            ),
            older=(
                "linalg_eigh_backward: The eigenvectors in the complex case are specified "
                "up to multiplication by e^{i phi}. The specified loss function depends on "
                "this phase term, making it ill-defined.",
            ),
            why="""Complex singular vectors and eigenvectors may be turned by any phase, and
                those of `torch.linalg.eig` are complex for a real matrix as well. A loss
                that changes with the phase has no one value, and so no gradient.""",
            fix="""Make the loss a function of what does not turn: the values, `abs()` of
                the vectors, projectors `u uᴴ`, or the product `U diag(s) Vᴴ`.""",
            broken="""
                import torch

                A = torch.tensor([[1 + 1j, 2], [3, 4j]], requires_grad=True)
                U, s, Vh = torch.linalg.svd(A)
                U.sum().abs().backward()
                """,
            fixed="""
                import torch

                A = torch.tensor([[1 + 1j, 2], [3, 4j]], requires_grad=True)
                s = torch.linalg.svdvals(A)
                (s**2).sum().backward()  # the squared norm of A
                torch.testing.assert_close(A.grad, 2 * A.detach())
                print(A.grad.shape)
                """,
            see=("complex-v", "eigenvectors-nan"),
            source=("torch/csrc/autograd (FunctionsManual.cpp)",),
        ),
        Message(
            anchor="qr-not-differentiable",
            title="The QR decomposition is not differentiable when mode='complete' and "
            "nrows > ncols",
            patterns=(
                r"The QR decomposition is not differentiable when mode='(?P<mode>\w+)'",
                r"The derivative of linalg\.qr depends on Q",
            ),
            why="""The additional columns of a complete `Q` may be any that complete the
                basis; they are no function of the matrix. With `mode="r"` there is
                no `Q`, and the derivative needs it.""",
            fix="""Use `mode="reduced"`, whose columns are determined.""",
            broken="""
                import torch

                A = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]], requires_grad=True)
                Q, R = torch.linalg.qr(A, mode="complete")
                Q.sum().backward()
                """,
            fixed="""
                import torch

                A = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]], requires_grad=True)
                Q, R = torch.linalg.qr(A, mode="reduced")
                (Q @ R).sum().backward()  # Q R is A
                torch.testing.assert_close(A.grad, torch.ones(3, 2), atol=1e-5, rtol=0)
                print(A.grad.shape)
                """,
            see=("eigenvectors-nan", "singular-matrices"),
            source=("torch/csrc/autograd (FunctionsManual.cpp)",),
        ),
        Message(
            anchor="strategy",
            title='Expected strategy to be either "forward-mode" or "reverse-mode"',
            kinds=("AssertionError",),
            patterns=(r"Expected strategy to be either",),
            why="""`strategy` of `torch.autograd.functional.jacobian` is one of two words,
                and another was passed.""",
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
        Message(
            anchor="flex-attention-on-the-cpu",
            title="FlexAttention does not support backward on CPU",
            kinds=("NotImplementedError",),
            patterns=(r"FlexAttention does not support backward on (?P<device>\w+)",),
            older=(
                "FlexAttention does not support backward on MPS. Please set the input "
                "requires_grad to False or use another device.",
            ),
            why="""The backward pass of `flex_attention` is written for GPUs. On the CPU
                (and on MPS) it refuses inputs that require a gradient.""",
            fix="""On the {device} use `scaled_dot_product_attention` with a mask, or write
                the softmax out; or detach the inputs when no gradient is wanted.""",
            unknown={"device": "CPU"},
            broken="""
                import torch
                from torch.nn.attention.flex_attention import flex_attention

                q = torch.ones(1, 1, 16, 16, requires_grad=True)
                flex_attention(q, q, q)
                """,
            fixed="""
                import torch
                from torch.nn.functional import scaled_dot_product_attention

                q = torch.ones(1, 1, 16, 16, requires_grad=True)
                y = scaled_dot_product_attention(q, q, q)
                y.sum().backward()
                assert q.grad.shape == q.shape and q.grad.isfinite().all()
                print(q.grad.shape)
                """,
            see=("error-derivative-not-implemented",),
            source=("torch/nn/attention/flex_attention.py",),
        ),
    ),
)
