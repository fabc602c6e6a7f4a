"""Messages about forward mode."""

from pullback._messages._entry import Message, Theme

FORWARD_MODE = Theme(
    "forward-mode",
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
                and in place of `jvp` `torch.autograd.functional.jvp`, which is two passes
                of reverse mode.""",
            tell=(
                "From `torch.func.jacfwd`: `jacrev`.",
                "From `torch.func.jvp`: `torch.autograd.functional.jvp(f, x, tangent)`, if "
                "`backward` is made of differentiable operations; of one marked "
                "`@once_differentiable` it makes zeros, without a word. (`vjp` is another "
                "product: its v has the shape of the output.)",
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
                second derivative, which attention lacks as well (and `_cdist_forward`,
                before 2.14).""",
            tell=(
                "The name contains `scaled_dot_product`: choose the MATH backend.",
                "`_cdist_forward`, `_euclidean_dist`: write "
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
                one, or `torch.func.jvp` inside one: use `torch.func.jvp` for both, which
                nests. On a tensor that is dual already:
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
    ),
)
