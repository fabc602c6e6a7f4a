"""Messages of operations whose derivative, or second derivative, is missing."""

from pullback._messages._entry import Message, Theme

NO_DERIVATIVE = Theme(
    "no-derivative",
    (
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
                "The name contains `scaled_dot_product`: let the MATH backend be the only "
                "one for the forward pass. A fused one that is still allowed is preferred: "
                "`sdp_kernel(enable_math=True)` leaves the others on. MATH is slower and "
                "keeps the weights of all pairs of positions.",
                "`_cdist_backward`, before 2.14: write "
                "`(a[..., :, None, :] - b[..., None, :, :]).norm(dim=-1)`. For distances "
                "within one set only the pairs i < j: at 0 the second derivative of a "
                "norm is nan.",
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
            see=(
                "no-double-backward",
                "second-derivatives",
                "error-forward-ad-not-implemented",
            ),
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
            anchor="cudnn-training-mode",
            title="cudnn RNN backward can only be called in training mode",
            patterns=(r"cudnn RNN backward can only be called in training mode",),
            why="""On a GPU an RNN in `eval()` mode keeps nothing for its backward pass, and
                you differentiate through it: a saliency map, an attack, a frozen
                encoder.""",
            fix="""Call `train()` on the RNN alone (set its `dropout` to 0 if it has one),
                or run its forward pass inside
                `with torch.backends.cudnn.flags(enabled=False):`. Either way before the
                forward pass: `train()` before `backward` is too late.""",
            fixed="""
                import torch

                lstm = torch.nn.LSTM(2, 1).eval()
                x = torch.ones(3, 1, 2, requires_grad=True)
                with torch.backends.cudnn.flags(enabled=False):
                    y = lstm(x)[0].sum()
                y.backward()
                assert x.grad.shape == x.shape
                print(x.grad.shape)
                """,
            see=("error-cudnn-double-backward", "saliency"),
            source=("aten/src/ATen/native/cudnn (RNN.cpp)",),
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
        Message(
            anchor="no-deterministic-implementation",
            title="upsample_bilinear2d_backward_out_cuda does not have a deterministic "
            "implementation",
            kinds=("RuntimeError", "UserWarning"),
            patterns=(
                r"(?P<operation>\w+) does not have a deterministic implementation, but you "
                r"set",
                r"(?P<operation>\w+_backward_out_cuda) does not have a deterministic "
                r"implementation",
                r"(?P<operation>(?:Memory Efficient|Flash) [Aa]ttention) defaults to a "
                r"non-deterministic algorithm",
                r"this operation is not deterministic because it uses "
                r"(?P<operation>CuBLAS)",
            ),
            older=(
                "Memory Efficient attention defaults to a non-deterministic algorithm. To "
                "explicitly enable determinism call "
                "torch.use_deterministic_algorithms(True, warn_only=False).",
                "scatter_add_cuda_kernel does not have a deterministic implementation, but "
                "you set 'torch.use_deterministic_algorithms(True)'.",
                "Deterministic behavior was enabled with either "
                "`torch.use_deterministic_algorithms(True)` or "
                "`at::Context::setDeterministicAlgorithms(true)`, but this operation is "
                "not "
                "deterministic because it uses CuBLAS and you have CUDA >= 10.2.",
            ),
            why="""That operation, most often a backward on a GPU, adds contributions to one
                place from many threads, in an order that changes from run to run, and sums
                of floats depend on the order.""",
            fix="""Replace the operation behind {operation}, move it to the CPU, or allow it
                with `torch.use_deterministic_algorithms(True, warn_only=True)`: the last
                digits of the gradient then differ between runs.""",
            tell=(
                "`defaults to a non-deterministic algorithm`: attention has one that is "
                "deterministic as well; `warn_only=False` chooses it.",
                "`because it uses CuBLAS`: nothing is to be replaced; set the environment "
                "variable `CUBLAS_WORKSPACE_CONFIG=:4096:8` before the program starts.",
            ),
            see=("error-backward-not-reentrant", "gradcheck"),
            source=("aten/src/ATen (Context.cpp)",),
        ),
    ),
)
