"""Messages about dtypes that an operation or a loss does not take."""

from pullback._messages._entry import Message, Theme

DTYPES = Theme(
    "dtypes",
    (
        Message(
            anchor="not-implemented-for-complex",
            title="\"mse_cpu\" not implemented for 'ComplexFloat'",
            kinds=("NotImplementedError", "RuntimeError"),
            patterns=(
                r"\"(?P<operation>(?!_amp_)[\w:]+)\" not implemented for "
                r"'Complex(?:Float|Double|Half)'",
                r"(?P<operation>clamp) is not supported for complex types",
            ),
            older=("clamp is not supported for complex types",),
            why="""`relu` and `max` order numbers, and complex ones have no order; most
                losses, `softmax` and others are defined or written for real ones. A loss
                must be real in any case: only a real number can be made smaller.""",
            fix="""Make real numbers first. The mean squared error is
                `(z - t).abs().pow(2).mean()`, or, to differentiate it twice where z may be
                t, `((z - t) * (z - t).conj()).real.mean()`. `torch.view_as_real(z)` hands
                real and imaginary part to what works entry by entry; a layer that mixes
                entries, such as a pooling, gets `z.real` and `z.imag` one by one.""",
            broken="""
                import torch

                z = torch.tensor([1 + 2j, 3 + 0j], requires_grad=True)
                torch.nn.functional.mse_loss(z, torch.zeros_like(z)).backward()
                """,
            fixed="""
                import torch

                z = torch.tensor([1 + 2j, 3 + 0j], requires_grad=True)
                target = torch.zeros(2, dtype=torch.complex64)
                loss = (z - target).abs().pow(2).mean()
                loss.backward()
                torch.testing.assert_close(z.grad, z.detach())  # 2 (z - target) / 2
                print(z.grad)
                """,
            see=("complex-v", "error-real-scalar-outputs"),
            source=("reproduced here; no thread found",),
        ),
        Message(
            anchor="not-implemented-for-integers",
            title="\"mse_cpu\" not implemented for 'Long'",
            kinds=("NotImplementedError", "RuntimeError"),
            patterns=(
                r"\"(?P<operation>[\w:]+)\" not implemented for "
                r"'(?P<dtype>Long|Int|Short|Char|Byte|Bool)'",
            ),
            older=(
                '"nll_loss_forward_reduce_cuda_kernel_2d_index" not implemented for '
                "'Int'",
            ),
            why="""The operation got integers or booleans and works on real numbers, which
                alone have derivatives. It is most often a target that was read as
                integers, or a batch of tokens or pixels.""",
            fix="""Convert the {dtype} tensor: `.float()` for a target of a regression or of
                a binary cross-entropy, and for pixels; `.long()` for class labels, which
                `cross_entropy` wants as int64.""",
            unknown={"dtype": "integer"},
            tell=(
                "`nll_loss`, `cross_entropy`: class labels in int32; `target.long()`.",
                "`mse`, `smooth_l1`, `binary_cross_entropy`: prediction and target are "
                "both integers (one alone raises other errors, or none). An `argmax` came "
                "before the loss, and no gradient passes it: hand over the scores, and "
                "`target.float()`.",
            ),
            broken="""
                import torch

                y = torch.tensor([1, 2])
                torch.nn.functional.mse_loss(y, torch.tensor([0, 0]))
                """,
            fixed="""
                import torch

                y = torch.tensor([1.0, 2.0], requires_grad=True)
                target = torch.tensor([0, 0])
                torch.nn.functional.mse_loss(y, target.float()).backward()
                assert torch.equal(y.grad, y)  # 2 (y - target) / 2
                print(y.grad)
                """,
            see=("discrete-choices", "error-found-dtype", "error-same-dtype"),
            source=("reproduced here; no thread found",),
        ),
        Message(
            anchor="not-implemented-for-half",
            title="\"linalg_svd_cpu\" not implemented for 'Half'",
            kinds=("NotImplementedError", "RuntimeError"),
            patterns=(
                r"\"(?P<operation>(?!_amp_)[\w:]+)\" not implemented for "
                r"'(?P<dtype>Half|BFloat16|Float8\w*)'",
                r"Low precision dtypes not supported\. Got (?P<dtype>Half|BFloat16)",
            ),
            older=(
                "\"addmm_impl_cpu_\" not implemented for 'Half'",
                "linalg.inv: Low precision dtypes not supported. Got Half",
            ),
            why="""The operation has no version for half precision on that device: most of
                linear algebra on any, and in earlier releases nearly everything on the CPU.
                It would have to be accurate to be of use.""",
            fix="""Compute that step in float32: `f(x.float()).to(x.dtype)`; autograd
                carries v across both conversions. Under `autocast` do it in
                `with torch.autocast(device, enabled=False):`.""",
            tell=(
                "A model that was loaded in half precision runs on the CPU: "
                "`model.float()`, or bfloat16, which the CPU knows better; or it should "
                "be on the GPU.",
                "The operation ends in `_backward`: the forward pass knows the dtype, its "
                "derivative does not; the same.",
            ),
            broken="""
                import torch

                x = torch.eye(2, dtype=torch.float16, requires_grad=True)
                torch.linalg.svdvals(x).sum().backward()
                """,
            fixed="""
                import torch

                x = torch.diag(torch.tensor([1.0, 2.0])).half().requires_grad_()
                s = torch.linalg.svdvals(x.float()).to(x.dtype)
                s.sum().backward()
                torch.testing.assert_close(x.grad, torch.eye(2, dtype=torch.float16))
                print(x.grad.dtype)
                """,
            see=("mixed-precision", "error-same-dtype"),
            source=("reproduced here; no thread found",),
        ),
    ),
)
