"""Messages of factorisations and draws that a nan, or a limit of precision, stops."""

from pullback._messages._entry import Message, Theme

MATRICES = Theme(
    "matrices",
    (
        Message(
            anchor="not-positive-definite",
            title="linalg.cholesky: The factorization could not be completed because the "
            "input is not positive-definite (the leading minor of order 2 is not "
            "positive-definite).",
            kinds=("_LinAlgError", "NotPSDError", "RuntimeError", "NumericalWarning"),
            patterns=(
                r"linalg\.cholesky: .{0,40}?The factorization could not be completed "
                r"because the input is not positive-definite",
                r"cholesky_(?:cpu|cuda): .{0,60}?U\(\d+, ?\d+\) is zero, singular U",
                r"Matrix not positive definite after repeatedly adding jitter",
                r"A not p\.d\., added jitter of [\d.e-]+ to the diagonal",
            ),
            older=(
                "cholesky_cpu: U(3,3) is zero, singular U.",
                "Matrix not positive definite after repeatedly adding jitter up to "
                "1.0e-06.",
                "A not p.d., added jitter of 1.0e-06 to the diagonal",
            ),
            why="""A Cholesky factor exists for a symmetric matrix whose eigenvalues are all
                above zero. In float32 those below about a millionth of the largest are
                noise, which may be negative; and nan is not above zero either.""",
            fix="""Look for nan first: with order 1 it is one as a rule. Then symmetrise,
                add a multiple of the identity to the diagonal, compute in float64; or
                learn the factor itself, whose product is positive definite by
                construction.""",
            tell=(
                "`leading minor of order 1`, or from one step to the next: the matrix is "
                "nan since the step before; look at the gradient there.",
                "A kernel matrix: two inputs are equal or close; data in float64, a floor "
                "under the noise, inputs scaled to [0, 1].",
                "A covariance of N samples with more than N - 1 dimensions: its rank is "
                "too small; shrink it towards the identity.",
                "GPyTorch's `added jitter` is a warning: it went on with the larger "
                "diagonal, and the gradient is that of the changed matrix.",
            ),
            broken="""
                import torch

                a = torch.tensor([[1.0, 2.0], [2.0, 1.0]], requires_grad=True)
                torch.linalg.cholesky(a).logdet().backward()
                """,
            fixed="""
                import torch

                free = torch.tensor([[1.0, 0.0], [2.0, 0.5]], requires_grad=True)
                factor = free.tril() + 1e-3 * torch.eye(2)
                a = factor @ factor.T  # positive definite for any `free`
                torch.linalg.cholesky(a).diagonal().log().sum().backward()
                slopes = free.grad.diagonal()
                torch.testing.assert_close(slopes, 1 / factor.diagonal().detach())
                print(slopes)
                """,
            see=("singular-matrices", "error-gaussian-process-nan", "find-the-nan"),
            source=(
                "cornellius-gp/gpytorch#2047",
                "meta-pytorch/botorch#926",
                "BayesWatch/deep-kernel-transfer#14",
            ),
        ),
        Message(
            anchor="factorisation-failed-to-converge",
            title="linalg.svd: The algorithm failed to converge because the input matrix "
            "contained non-finite values.",
            kinds=("_LinAlgError", "RuntimeError"),
            patterns=(
                r"The algorithm failed to converge because the input matrix (?:contained "
                r"non-finite values|is ill-conditioned or has too many repeated "
                r"(?:eigen|singular ?)values)",
                r"(?:svd|symeig|eig)_(?:cpu|cuda): .{0,60}?(?:did not converge|failed to "
                r"converge|updating process of SBDSDC)",
                r"linalg\.eig: input tensor should not contain infs or NaNs",
                r"(?:eig|symeig|svd)\w*: (?:the )?input matrix contains NaN",
            ),
            older=(
                "linalg.eigh: The algorithm failed to converge because the input matrix is "
                "ill-conditioned or has too many repeated eigenvalues (error code: 4).",
                "symeig_cuda: The algorithm failed to converge because the input matrix is "
                "ill-conditioned or has too many repeated eigenvalues (error code: 1807).",
                "svd_cuda: the updating process of SBDSDC did not converge (error: 23)",
                "torch.linalg.eig: input tensor should not contain infs or NaNs.",
            ),
            why="""The routine works in steps until nothing changes any more. A nan or inf
                in the matrix never settles, whatever the message says of its condition; the
                nan comes most often from the gradient of this very factorisation, one step
                earlier.""",
            fix="""Test `a.isfinite().all()` before the call, and every `p.grad` after
                `backward`. Equal eigenvalues make the gradient of eigenvectors infinite:
                build the loss from eigenvalues or from projections, or separate them with
                a small diagonal of different numbers.""",
            tell=(
                "The matrix has a nan and the weights do not: it came from the data, or "
                "from a division in the forward pass.",
                "The weights have one: the step before; "
                "`torch.autograd.detect_anomaly()` names `LinalgSvdBackward0`, "
                "`LinalgEighBackward0` or another.",
                "All is finite: scale the matrix to entries around 1, use float64, or "
                "another `driver=` on the GPU.",
            ),
            broken="""
                import torch

                a = torch.diag(torch.tensor([1.0, 1.0, 0.0])).requires_grad_()
                u, s, vh = torch.linalg.svd(a)
                u.sum().backward()  # equal singular values: nan
                torch.linalg.svd(a.detach() - 0.1 * a.grad)
                """,
            fixed="""
                import torch

                a = torch.diag(torch.tensor([1.0, 1.0, 0.0])).requires_grad_()
                s = torch.linalg.svdvals(a)  # of the values, not of the vectors
                s.square().sum().backward()
                torch.testing.assert_close(a.grad, 2 * a.detach())
                torch.linalg.svd(a.detach() - 0.1 * a.grad)
                print(a.grad)
                """,
            see=("eigenvectors-nan", "error-decomposition-phase", "find-the-nan"),
            source=(
                "Michaelvll/DeepCCA#16",
                "aten/src/ATen/native (BatchLinearAlgebra.cpp)",
            ),
        ),
        Message(
            anchor="singular-matrix",
            title="linalg.inv: The diagonal element 1 is zero, the inversion could not be "
            "completed because the input matrix is singular.",
            kinds=("_LinAlgError", "RuntimeError"),
            patterns=(
                r"linalg\.inv(?:_ex)?: .{0,40}?The diagonal element \d+ is zero, the "
                r"inversion could not be completed because the input matrix is singular",
                r"linalg\.solve: .{0,40}?The solver failed because the input matrix is "
                r"singular",
                r"inverse_c(?:pu|uda): .{0,40}?U\(\d+, ?\d+\) is zero, singular U",
            ),
            older=(
                "torch.linalg.solve: The solver failed because the input matrix is "
                "singular.",
                "inverse_cpu: U(1,1) is zero, singular U.",
            ),
            why="""The matrix has no inverse, and a function without a value has no
                derivative there. Close to such a matrix both exist and are huge.""",
            fix="""For a least-squares solution `torch.linalg.lstsq` or `pinv`; with a
                ridge, `solve(a + eps * torch.eye(n), b)`, the gradient stays bounded.""",
            tell=(
                "A camera, a pose or an affine map of zeros: an input that was not filled, "
                "such as padding in a batch.",
                "`a.T @ a` with more columns than rows: its rank is too small.",
                "It comes late in training: the weights are nan or zero by then.",
            ),
            broken="""
                import torch

                a = torch.zeros(2, 2, requires_grad=True)
                torch.linalg.inv(a).sum().backward()
                """,
            fixed="""
                import torch

                a = torch.zeros(2, 2, requires_grad=True)
                ridge = a.T @ a + 0.1 * torch.eye(2)
                x = torch.linalg.solve(ridge, a.T @ torch.ones(2))
                x.sum().backward()
                assert x.abs().sum() == 0
                torch.testing.assert_close(a.grad, torch.full((2, 2), 10.0))  # 1 / 0.1
                print(a.grad)
                """,
            see=("singular-matrices", "error-det-of-a-singular-matrix"),
            source=("aten/src/ATen/native (BatchLinearAlgebra.cpp)",),
        ),
        Message(
            anchor="probabilities-of-nan",
            title="probability tensor contains either `inf`, `nan` or element < 0",
            patterns=(
                r"probability tensor contains either `?inf`?, `?nan`? or element < 0",
                r"invalid multinomial distribution \((?:sum of probabilities <= 0|"
                r"encountering probability entry < 0)",
            ),
            older=(
                "invalid multinomial distribution (encountering probability entry < 0)",
                "invalid multinomial distribution (sum of probabilities <= 0)",
            ),
            why="""`multinomial` draws and looks at its weights first. They are nan because
                the scores are: an overflow in half precision, or weights that a nan
                gradient has spoilt in an earlier step of training.""",
            fix="""Print `scores.isfinite().all()` before the softmax, then
                `p.isfinite().all()` of each parameter. If the parameters are nan, go back
                to a state before that, and find the gradient that made it.""",
            tell=(
                "Nothing was trained: the model runs in float16 and was made for "
                "bfloat16: overflow. Load it in bfloat16 or float32.",
                "After one step of PPO, GRPO or fine-tuning: `grad_norm` was nan; see the "
                "loss (a deviation of 0, `exp` of a ratio, a mean over no tokens).",
                "All scores are -inf: filters (`top_k`, a list of forbidden words, a mask) "
                "leave nothing to draw.",
            ),
            broken="""
                import torch

                scores = torch.full((3,), float("-inf"))
                torch.multinomial(scores.softmax(0), 1)
                """,
            fixed="""
                import torch

                scores = torch.tensor([0.0, float("-inf"), float("-inf")])
                assert scores.isfinite().any()  # something is left to draw
                drawn = torch.multinomial(scores.softmax(0), 1)
                assert drawn.item() == 0
                print(drawn)
                """,
            see=("masked-nan", "reinforce", "error-grad-norm-nan"),
            source=(
                "StarsfieldAI/R1-V#69",
                "Vision-CAIR/MiniGPT-4#139",
                "shibing624/MedicalGPT#121",
            ),
        ),
    ),
)
