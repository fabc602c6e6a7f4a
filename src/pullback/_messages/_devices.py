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
                r"(?P<backend>\w+)",
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
                "`SparseCsr`: the products of two sparse matrices have their rule for COO "
                "only; `x.to_sparse_coo()` before them.",
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
        Message(
            anchor="scaler-without-cuda",
            title="torch.cuda.amp.GradScaler is enabled, but CUDA is not available. "
            "Disabling.",
            kinds=("UserWarning",),
            patterns=(
                r"torch\.cuda\.amp\.GradScaler is enabled, but CUDA is not available",
            ),
            why="""A GradScaler for CUDA was made where torch finds no CUDA. It turns itself
                off: `scale(loss)` returns the loss as it is, and `step` calls the
                optimizer's.""",
            fix="""On the CPU, where autocast uses bfloat16, no scale is needed: nothing is
                wrong. For one script on both:
                `torch.amp.GradScaler(device, enabled=device == "cuda")`.""",
            tell=(
                "The machine has a GPU: torch does not see it; "
                "`torch.cuda.is_available()` is False and `torch.version.cuda` tells "
                "whether this build can.",
                "A Mac: with `mps` train in float32 or bfloat16, without a scaler.",
            ),
            broken="""
                import torch

                scaler = torch.amp.GradScaler("cuda")
                """,
            fixed="""
                import torch

                device = "cpu"
                scaler = torch.amp.GradScaler(device, enabled=device == "cuda")
                w = torch.tensor([1.0, 2.0], requires_grad=True)
                scaler.scale((w**2).sum()).backward()
                assert torch.equal(w.grad, 2 * w)  # no scale in it
                print(w.grad)
                """,
            see=("mixed-precision", "error-cuda-amp-renamed"),
            source=("torch/amp/grad_scaler.py",),
        ),
        Message(
            anchor="unscale-bfloat16",
            title='"_amp_foreach_non_finite_check_and_unscale_cuda" not implemented for '
            "'BFloat16'",
            kinds=("RuntimeError", "NotImplementedError"),
            patterns=(
                r"_amp_(?:foreach_)?non_finite_check_and_unscale_\w+\"? not implemented "
                r"for '(?P<dtype>\w+)'",
            ),
            why="""A GradScaler divides the gradients by its scale, and on a GPU it cannot
                do so in bfloat16. The parameters are bfloat16, so their gradients are,
                too. That dtype reaches as far as float32 and needs no scale.""",
            fix="""Leave the scaler out (`GradScaler(enabled=False)`), in Hugging Face
                transformers `bf16=True` and not `fp16=True`.""",
            tell=(
                "The model was loaded in bfloat16 and is trained with `fp16=True`: choose "
                "one of the two.",
                "Only some parameters are bfloat16, such as adapters: convert those that "
                "you train to float32 before the optimizer is made.",
            ),
            fixed="""
                import torch

                w = torch.ones(2, dtype=torch.bfloat16, requires_grad=True)
                optimizer = torch.optim.SGD([w], lr=0.5)
                scaler = torch.amp.GradScaler("cpu", enabled=False)
                scaler.scale((w**2).sum()).backward()
                scaler.step(optimizer)
                scaler.update()
                assert torch.equal(w, torch.zeros_like(w))
                print(w.dtype)
                """,
            see=("mixed-precision", "error-unscale-fp16"),
            source=("PT#127176", "QwenLM/Qwen-VL#372", "huggingface/trl#4901"),
        ),
        Message(
            anchor="autocast-without-cuda",
            title="CUDA is not available or torch_xla is imported. Disabling autocast.",
            kinds=("UserWarning",),
            patterns=(
                r"CUDA is not available or torch_xla is imported\. Disabling",
                r"User provided device_type of 'cuda', but CUDA is not available\. "
                r"Disabling",
            ),
            older=(
                "User provided device_type of 'cuda', but CUDA is not available. Disabling",
            ),
            why="""`torch.autocast("cuda")` was opened where torch finds no CUDA. It turns
                itself off: everything inside is computed in the dtype of the tensors, and
                the gradients are right.""",
            fix="""Name the device that you compute on: `torch.autocast(device)`, with
                `device = "cuda" if torch.cuda.is_available() else "cpu"`; on the CPU it
                computes in bfloat16. To leave it out, `enabled=False`.""",
            tell=(
                "The machine has a GPU: `torch.version.cuda` is None in a build without "
                "CUDA; install the other one.",
                "The line is in a library, such as YOLOv5: it may stay.",
            ),
            broken="""
                import torch

                with torch.autocast("cuda"):
                    y = torch.ones(2, 2) @ torch.ones(2, 2)
                """,
            fixed="""
                import torch

                w = torch.ones(2, 2, requires_grad=True)
                device = "cpu"
                with torch.autocast(device, dtype=torch.bfloat16):
                    y = w @ w
                y.float().sum().backward()
                assert w.grad.dtype == torch.float32  # as the leaf
                print(y.dtype, w.grad.dtype)
                """,
            see=("mixed-precision", "error-scaler-without-cuda"),
            source=("torch/amp/autocast_mode.py",),
        ),
        Message(
            anchor="mixed-tensor-and-dtensor",
            title="aten.mul.Tensor got mixed torch.Tensor and DTensor, need to convert all "
            "torch.Tensor to DTensor before calling distributed operators!",
            patterns=(
                r"(?:(?P<operation>aten\.[\w.]+)(?: ?:)? )?got mixed torch\.Tensor and "
                r"DTensor",
            ),
            older=(
                "aten.embedding.default: got mixed torch.Tensor and DTensor, need to "
                "convert all torch.Tensor to DTensor before calling distributed operators!",
            ),
            why="""One argument is distributed over processes and another is not. In
                `backward` it is v: a plain tensor for a y that is a `DTensor`.""",
            fix="""`torch.ones_like(y)` is distributed as y is; another v goes through
                `distribute_tensor(v, y.device_mesh, y.placements)`. In the forward pass do
                the same to the input, or shard the layer that gets it, too; for
                `clip_grad_norm_`, shard the parameters that are still plain.""",
            tell=(
                "It comes from `y.backward(v)`: as above.",
                "`_foreach_norm`, from `clip_grad_norm_`: some parameters are sharded, "
                "others are not; shard all, or clip each group by their common norm, with "
                "`torch.nn.utils.get_total_norm` and `clip_grads_with_norm_`.",
                "`embedding`, `mm` in the forward pass: call the root that was sharded, "
                "`model(x)`, and not a submodule or `model.forward`; shard the root last.",
                "Checkpoints under nested `fully_shard`, and two forward passes before "
                "`backward`: reported as a fault of torch (pytorch/pytorch#153354); put "
                "both batches into one forward pass, or update.",
            ),
            broken="""
                import tempfile

                import torch
                import torch.distributed as dist
                from torch.distributed.device_mesh import init_device_mesh
                from torch.distributed.tensor import Shard, distribute_tensor

                with tempfile.NamedTemporaryFile() as meeting:
                    dist.init_process_group(
                        "gloo", init_method=f"file://{meeting.name}", rank=0, world_size=1
                    )
                    mesh = init_device_mesh("cpu", (1,))
                    x = torch.tensor([1.0, 2.0], requires_grad=True)
                    x = distribute_tensor(x, mesh, [Shard(0)])
                    try:
                        (x**2).backward(torch.ones(2))
                    finally:
                        dist.destroy_process_group()
                """,
            fixed="""
                import tempfile

                import torch
                import torch.distributed as dist
                from torch.distributed.device_mesh import init_device_mesh
                from torch.distributed.tensor import Shard, distribute_tensor

                with tempfile.NamedTemporaryFile() as meeting:
                    dist.init_process_group(
                        "gloo", init_method=f"file://{meeting.name}", rank=0, world_size=1
                    )
                    mesh = init_device_mesh("cpu", (1,))
                    x = torch.tensor([1.0, 2.0], requires_grad=True)
                    x = distribute_tensor(x, mesh, [Shard(0)])
                    y = x**2
                    v = torch.tensor([1.0, 10.0])
                    y.backward(distribute_tensor(v, y.device_mesh, y.placements))
                    g = x.grad.full_tensor()
                    dist.destroy_process_group()
                assert g.tolist() == [2.0, 40.0]
                print(g)
                """,
            see=("sharded-parameters", "rows-across-ranks"),
            source=("PT#153354", "PT#156535"),
        ),
        Message(
            anchor="fsdp-returned-a-view",
            title="FSDP2-wrapped module (FSDPFlat) returned a view tensor.",
            kinds=("UserWarning",),
            patterns=(
                r"FSDP2-wrapped module \((?P<module>[^)]*)\) returned a view tensor",
            ),
            why="""`fully_shard` gathers the weights again when v reaches what `forward`
                returned. This is a view (`view`, `transpose`, a part of a tensor): an
                operation in place on it takes that mark away, and `backward` finds no
                weights.""",
            fix="""Write out of place after it, `y = y + 1` and not `y += 1`; then the
                warning may stay. Or return `y.clone()` from `{module}`, which also ends the
                warning.""",
            unknown={"module": "the module"},
            tell=(
                "`setStorage: … out of bounds for storage of size 0` comes next: it is "
                "this, and a residual connection written as `x += y` is the usual place.",
            ),
            broken="""
                import torch
                import torch.distributed as dist
                from torch.distributed.device_mesh import init_device_mesh
                from torch.distributed.fsdp import fully_shard

                class Flat(torch.nn.Linear):
                    def forward(self, x):
                        return super().forward(x).view(-1)

                store = dist.HashStore()
                dist.init_process_group("gloo", store=store, rank=0, world_size=1)
                try:
                    mesh = init_device_mesh("cpu", (1,))
                    model = fully_shard(Flat(2, 2), mesh=mesh)
                    model(torch.ones(3, 2)).add_(1)
                finally:
                    dist.destroy_process_group()
                """,
            fixed="""
                import torch
                import torch.distributed as dist
                from torch.distributed.device_mesh import init_device_mesh
                from torch.distributed.fsdp import fully_shard

                class Flat(torch.nn.Linear):
                    def forward(self, x):
                        return super().forward(x).view(-1).clone()

                store = dist.HashStore()
                dist.init_process_group("gloo", store=store, rank=0, world_size=1)
                try:
                    mesh = init_device_mesh("cpu", (1,))
                    model = fully_shard(Flat(2, 2), mesh=mesh)
                    torch.nn.init.ones_(model.weight)
                    model(torch.ones(3, 2)).add_(1).sum().backward()
                    found = model.weight.grad.full_tensor()
                finally:
                    dist.destroy_process_group()
                assert torch.equal(found, torch.full((2, 2), 3.0))
                print(found)
                """,
            see=("sharded-parameters", "in-place", "error-fsdp-double-backward"),
            source=("torch/distributed (fsdp/_fully_shard/_fsdp_state.py)",),
        ),
    ),
)
