"""Messages about devices and layouts that lack a part of backward."""

from pullback._messages._entry import Message, Theme

DEVICES = Theme(
    "devices",
    (
        Message(
            anchor="sparse-gradient-norm",
            title="Could not run 'aten::linalg_vector_norm' with arguments from the "
            "'SparseCPU' backend",
            kinds=("NotImplementedError", "RuntimeError"),
            patterns=(
                r"Could not run 'aten::(?:linalg_vector_|_foreach_)?norm[\w.]*' with "
                r"arguments from the 'Sparse(?:CPU|CUDA|XPU)' backend",
            ),
            older=(
                "Could not run 'aten::_foreach_norm.Scalar' with arguments from the "
                "'SparseCPU' backend.",
            ),
            why="""`nn.Embedding(sparse=True)` has a gradient that stores the used rows
                only, and `clip_grad_norm_` asks for its norm with an operation that
                sparse tensors do not have, on CPU and CUDA before torch 2.14.""",
            fix="""Update torch, or clip the values of the sparse gradient yourself: after
                `coalesce()` they are a plain tensor. Or leave `sparse=True` out.""",
            fixed="""
                import torch

                table = torch.nn.Embedding(3, 2, sparse=True)
                table(torch.tensor([1, 1])).sum().backward()
                table.weight.grad = table.weight.grad.coalesce()
                values = table.weight.grad.values()
                values.mul_((1.0 / values.norm()).clamp(max=1.0))
                torch.testing.assert_close(values.norm(), torch.tensor(1.0))
                print(table.weight.grad.to_dense().norm(dim=1).round(decimals=4))
                """,
            see=("sparse-and-nested", "error-sparse-gradients"),
            source=("TUT#2245", "intel/torch-xpu-ops#4901"),
        ),
        Message(
            anchor="no-backward-for-sparse",
            title="Could not run 'aten::tanh_backward' with arguments from the 'SparseCPU' "
            "backend",
            kinds=("NotImplementedError", "RuntimeError"),
            patterns=(
                r"Could not run 'aten::(?P<operation>\w*_backward[\w.]*)' with arguments "
                r"from the '(?P<backend>\w+)' backend",
                r"(?P<operation>\w+_backward): unsupported combination of layouts, grad: "
                r"\w+, mat1: (?P<backend>\w+)",
                r"unsupported tensor layout: (?P<backend>Sparse\w+)",
            ),
            older=(
                "sparse_addmm_sparse_backward: unsupported combination of layouts, grad: "
                "SparseCsr, mat1: SparseCsr, mat2: SparseCsr",
                "unsupported tensor layout: SparseCsr",
            ),
            why="""The forward operation exists for sparse tensors and its backward, another
                operation, does not: the value is computed, and `backward` stops.""",
            fix="""`{operation}` is missing for {backend}. Differentiate by the stored
                values: apply the function to `x.values()` and build the sparse tensor from
                the result. Or go through `x.to_dense()`.""",
            unknown={"operation": "The operation", "backend": "sparse tensors"},
            tell=(
                "`SparseCPU`, `SparseCUDA`: as above. `sin`, `tan`, `erf`, `sqrt` and "
                "others stop for the same reason, in words that do not say so: `Could not "
                "run 'aten::cos'`, `add(sparse, dense) is not supported`.",
                "`SparseCsr`: `torch.sparse.mm` of two sparse matrices has its rule for "
                "COO only; `x.to_sparse_coo()` before it, and `.to_dense()` of the product "
                "before a sum. `SparseCsc`: only the second of the two is sparse; `a @ b`.",
                "Another backend: its package lacks the rule. Compute that step on the "
                "CPU, `f(x.cpu()).to(x.device)`; autograd carries v across both copies.",
            ),
            broken="""
                import torch

                x = torch.tensor([[0.0, 2.0], [0.0, 0.0]]).to_sparse().requires_grad_()
                y = torch.tanh(x)
                y.backward(torch.ones(2, 2).to_sparse())
                """,
            fixed="""
                import torch

                values = torch.tensor([2.0], requires_grad=True)
                place = torch.tensor([[0], [1]])
                y = torch.sparse_coo_tensor(
                    place, values.tanh(), (2, 2), check_invariants=True
                )
                y.to_dense().sum().backward()
                torch.testing.assert_close(values.grad, 1 - values.detach().tanh() ** 2)
                print(values.grad.shape)
                """,
            see=("sparse-and-nested", "error-derivative-not-implemented"),
            source=("reproduced here; no thread found",),
        ),
        Message(
            anchor="no-backward-on-mps",
            title="The operator 'aten::grid_sampler_2d_backward' is not currently "
            "implemented for the MPS device",
            kinds=("NotImplementedError",),
            patterns=(
                r"The operator 'aten::(?P<operation>\w*_backward[\w.]*)' is not "
                r"current(?:ly)? implemented for the MPS device",
            ),
            older=(
                "The operator 'aten::softplus_backward.grad_input' is not current "
                "implemented for the MPS device.",
            ),
            why="""On a Mac's GPU the forward operation exists and its backward, another
                operation, does not: the loss is computed, and `backward` stops.""",
            fix="""Compute the step behind `{operation}` on the CPU, `f(x.cpu()).to("mps")`:
                autograd carries v across both copies. Or let torch do so with every
                missing operation: set the environment variable
                `PYTORCH_ENABLE_MPS_FALLBACK=1` before torch is imported.""",
            unknown={"operation": "the operation"},
            tell=("Your torch is old: newer releases have more of them.",),
            see=("error-no-backward-for-sparse", "error-derivative-not-implemented"),
            source=("PT#77764",),
        ),
        Message(
            anchor="no-current-cuda-context",
            title="Attempting to run cuBLAS, but there was no current CUDA context! "
            "Attempting to set the primary context...",
            kinds=("UserWarning",),
            patterns=(r"Attempting to run cuBLAS, but there was no current CUDA context",),
            why="""`backward` runs on a thread of its own for each GPU, and the first matrix
                product there found no CUDA context on that thread. torch sets it and goes
                on.""",
            fix="""Nothing is wrong: the gradient is right, and the warning comes once in a
                process.""",
            see=("several-threads",),
            source=("lucidrains/stylegan2-pytorch#287",),
        ),
        Message(
            anchor="flash-attention-backward-gpu",
            title="FlashAttention backward for head dim > 64 requires A100 or H100 GPUs as "
            "the implementation needs a large amount of shared memory.",
            patterns=(
                r"FlashAttention backward for head dim > (?P<dim>\d+) requires",
                r"Expected is_sm80(?: \|\| is_sm90)? to be true, but got false",
            ),
            older=(
                "Expected is_sm80 to be true, but got false. (Could this error message be "
                "improved? If so, please report an enhancement request to PyTorch.)",
                "Expected is_sm80 || is_sm90 to be true, but got false.",
            ),
            why="""The backward of that attention kernel needs more shared memory than this
                GPU has for heads of that size. Forward needs less, so inference works and
                training does not.""",
            fix="""Choose another kernel for the forward pass, which fixes that of backward:
                `with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):`; or
                update the library.""",
            tell=(
                "Your code calls `torch.nn.functional.scaled_dot_product_attention`: as "
                "above.",
                "A model calls the package `flash_attn`: use its option, such as "
                '`attn_implementation="sdpa"`, or smaller heads.',
            ),
            fixed="""
                import torch
                from torch.nn.attention import SDPBackend, sdpa_kernel

                q = torch.ones(1, 1, 2, 128, requires_grad=True)
                k = torch.ones(1, 1, 2, 128)
                with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
                    y = torch.nn.functional.scaled_dot_product_attention(q, k, k)
                y.sum().backward()
                assert torch.equal(q.grad, torch.zeros_like(q))  # both keys are alike
                print(q.grad.shape)
                """,
            see=("error-derivative-not-implemented", "no-double-backward"),
            source=("Dao-AILab/flash-attention#51",),
        ),
    ),
)
