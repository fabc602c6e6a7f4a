"""Messages about parameters that are copied, flattened, sharded or gathered too late."""

from pullback._messages._entry import Message, Theme

COPIES = Theme(
    "copies",
    (
        Message(
            anchor="weight-must-be-2-d",
            title="'weight' must be 2-D",
            patterns=(
                r"'weight' must be 2-D",
                r"tensor has a non-zero number of elements, but its data is not allocated",
            ),
            older=(
                "The tensor has a non-zero number of elements, but its data is not "
                "allocated yet. Caffe2 uses a lazy allocation, so you will need to call "
                "mutable_data() or raw_mutable_data() to actually allocate memory.",
            ),
            why="""An embedding looks up rows of a matrix and got a vector, as a rule an
                empty one: under ZeRO-3 or FSDP a parameter is whole only while the wrapped
                module that owns it runs, and a flat share of it at other times.""",
            fix="""Call the wrapped model (`engine(x)`, the result of `prepare`), not
                `model.module` or a part of it. A part that is called by itself, such as a
                reference model or `model.embed_tokens`, must be wrapped, or be gathered for
                the call (`deepspeed.zero.GatheredParameters`).""",
            tell=(
                "A reference, teacher or reward model: give it to "
                "`deepspeed.initialize` or `prepare` as well, or load it outside "
                "`zero.Init`.",
                "FSDP: `model.generate` or `model.model(...)` past the wrapper: "
                "`FSDP.summon_full_params(model)` around it; an embedding tied to the last "
                "layer must lie in the same wrapped block.",
                "`data is not allocated yet`: the shape is there and the values were "
                "freed; "
                "the same part was called past the wrapper. In `backward` with the wrapper "
                "all right: a bug of one release; threads report others that pass.",
                "No sharding: the weight was made with one dimension.",
            ),
            broken="""
                import torch

                share = torch.empty(0, requires_grad=True)  # what is left when sharded
                torch.nn.functional.embedding(torch.tensor([0]), share)
                """,
            fixed="""
                import torch

                share = torch.arange(6.0, requires_grad=True)
                weight = share.view(3, 2)  # gathered, in its own shape
                torch.nn.functional.embedding(torch.tensor([1, 1]), weight).sum().backward()
                assert share.grad.tolist() == [0, 0, 2, 2, 0, 0]
                print(share.grad)
                """,
            see=("sharded-parameters", "error-checkpoint-under-zero3"),
            source=(
                "huggingface/trl#600",
                "huggingface/transformers#39186",
                "PT#124019",
                "PT#82461",
            ),
        ),
        Message(
            anchor="fsdp-uniform-dtype",
            title="Must flatten tensors with uniform dtype but got torch.float32 and "
            "torch.bfloat16",
            kinds=("ValueError", "AssertionError"),
            patterns=(
                r"Must flatten tensors with uniform dtype but got (?P<one>[\w.]+) and "
                r"(?P<other>[\w.]+)",
                r"`?FlatParameter`? requires uniform dtype but got (?P<one>[\w.]+) and "
                r"(?P<other>[\w.]+)",
                r"FSDP expects uniform original parameter dtype but got",
            ),
            older=(
                "`FlatParameter` requires uniform dtype but got torch.float16 and "
                "torch.float32",
                "FSDP expects uniform original parameter dtype but got {torch.float32, "
                "torch.bfloat16}",
            ),
            why="""The parameters of a block are gathered together, in one tensor of one
                dtype. The block holds two: adapters in float32 beside weights in half
                precision, norms, or a quantized base.""",
            fix="""Bring {one} and {other} to one dtype before sharding
                (`model.to(torch.bfloat16)`, or float32 with
                `MixedPrecisionPolicy(param_dtype=torch.bfloat16)`); or shard the parts of
                another dtype as blocks of their own.""",
            unknown={"one": "one", "other": "the other"},
            tell=(
                "LoRA on 4-bit weights: `bnb_4bit_quant_storage` must be the dtype of the "
                "rest, and the adapters that dtype too.",
                "Accelerate: with `cpu_ram_efficient_loading` each process must load the "
                "model in the same dtype; pass `torch_dtype`.",
                "A layer that libraries keep in float32 (norms, a router, the last layer): "
                "find it in `{p.dtype for p in model.parameters()}`.",
            ),
            broken="""
                import torch
                import torch.distributed as dist
                from torch.distributed.fsdp import FullyShardedDataParallel

                store = dist.HashStore()
                dist.init_process_group("gloo", store=store, rank=0, world_size=1)
                try:
                    half = torch.nn.Linear(2, 2).bfloat16()
                    model = torch.nn.Sequential(torch.nn.Linear(2, 2), half)
                    FullyShardedDataParallel(model, device_id=torch.device("cpu"))
                finally:
                    dist.destroy_process_group()
                """,
            fixed="""
                import torch
                import torch.distributed as dist
                from torch.distributed.device_mesh import init_device_mesh
                from torch.distributed.fsdp import fully_shard

                store = dist.HashStore()
                dist.init_process_group("gloo", store=store, rank=0, world_size=1)
                try:
                    half = torch.nn.Linear(2, 2).bfloat16()
                    model = torch.nn.Sequential(torch.nn.Linear(2, 2), half)
                    model.to(torch.float32)
                    fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
                    model(torch.ones(1, 2)).sum().backward()
                    dtypes = {p.grad.dtype for p in model.parameters()}
                finally:
                    dist.destroy_process_group()
                assert dtypes == {torch.float32}
                print(dtypes)
                """,
            see=("sharded-parameters", "error-fsdp-uniform-requires-grad"),
            source=(
                "huggingface/trl#1723",
                "huggingface/peft#484",
                "axolotl-ai-cloud/axolotl#1494",
                "hiyouga/LlamaFactory#7993",
            ),
        ),
        Message(
            anchor="fsdp-clip-on-the-root",
            title="`clip_grad_norm_()` should only be called on the root FSDP instance",
            patterns=(
                r"`?clip_grad_norm_\(\)`? should only be called on the root FSDP instance",
            ),
            why="""The norm is that of all gradients of the model, over all shards. A block
                inside the model knows its own ones only.""",
            fix="""Call it on the outermost wrapped model, once, after `backward`. Under
                `fully_shard` use `torch.nn.utils.clip_grad_norm_(model.parameters(),
                1.0)`.""",
            broken="""
                import torch
                import torch.distributed as dist
                from torch.distributed.fsdp import FullyShardedDataParallel as Shard

                store = dist.HashStore()
                dist.init_process_group("gloo", store=store, rank=0, world_size=1)
                try:
                    cpu = torch.device("cpu")
                    block = Shard(torch.nn.Linear(2, 1), device_id=cpu)
                    model = torch.nn.Sequential(torch.nn.Linear(2, 2), block)
                    model = Shard(model, device_id=cpu)
                    model(torch.ones(1, 2)).sum().backward()
                    block.clip_grad_norm_(1.0)
                finally:
                    dist.destroy_process_group()
                """,
            fixed="""
                import torch
                import torch.distributed as dist
                from torch.distributed.device_mesh import init_device_mesh
                from torch.distributed.fsdp import fully_shard

                store = dist.HashStore()
                dist.init_process_group("gloo", store=store, rank=0, world_size=1)
                try:
                    model = torch.nn.Linear(2, 1)
                    fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
                    model(torch.ones(1, 2)).sum().backward()
                    clip = torch.nn.utils.clip_grad_norm_
                    norm = clip(model.parameters(), 1.0).full_tensor()
                finally:
                    dist.destroy_process_group()
                torch.testing.assert_close(norm, torch.tensor(3.0).sqrt())
                print(norm)
                """,
            see=("sharded-parameters", "clip-norm-or-value"),
            source=("torch/distributed/fsdp (fully_sharded_data_parallel.py)",),
        ),
        Message(
            anchor="zero-optimizer-not-consolidated",
            title="Optimizer state has not been consolidated on this rank. Please call "
            "`consolidate_state_dict(to=0)` on all ranks beforehand if you meant to save "
            "the "
            "global state.",
            patterns=(r"Optimizer state has not been consolidated on this rank",),
            why="""ZeroRedundancyOptimizer keeps the moments of a parameter in one process
                only. A state dict needs those of all, which takes a message between all
                processes.""",
            fix="""`optimizer.consolidate_state_dict(to=0)` in every process, then
                `optimizer.state_dict()` in process 0 alone.""",
            broken="""
                import torch
                import torch.distributed as dist
                from torch.distributed.optim import ZeroRedundancyOptimizer

                store = dist.HashStore()
                dist.init_process_group("gloo", store=store, rank=0, world_size=1)
                try:
                    layer = torch.nn.Linear(2, 1)
                    adam = torch.optim.Adam
                    optimizer = ZeroRedundancyOptimizer(layer.parameters(), adam)
                    layer(torch.ones(1, 2)).sum().backward()
                    optimizer.step()
                    optimizer.state_dict()
                finally:
                    dist.destroy_process_group()
                """,
            fixed="""
                import torch
                import torch.distributed as dist
                from torch.distributed.optim import ZeroRedundancyOptimizer

                store = dist.HashStore()
                dist.init_process_group("gloo", store=store, rank=0, world_size=1)
                try:
                    layer = torch.nn.Linear(2, 1)
                    adam = torch.optim.Adam
                    optimizer = ZeroRedundancyOptimizer(layer.parameters(), adam)
                    layer(torch.ones(1, 2)).sum().backward()
                    optimizer.step()
                    optimizer.consolidate_state_dict(to=0)  # in all processes
                    kept = optimizer.state_dict() if dist.get_rank() == 0 else None
                finally:
                    dist.destroy_process_group()
                assert len(kept["state"]) == 2
                print(list(kept["state"][0]))
                """,
            see=("across-processes", "error-optimizer-state-of-another-list"),
            source=("torch/distributed/optim (zero_redundancy_optimizer.py)",),
        ),
        Message(
            anchor="zero-optimizer-dtypes",
            title="ZeroRedundancyOptimizer only supports using the same dense type for all "
            "parameters but got both torch.FloatTensor and torch.HalfTensor",
            kinds=("ValueError",),
            patterns=(
                r"ZeroRedundancyOptimizer only supports using the same dense type for all "
                r"parameters but got",
            ),
            why="""It deals the parameters out to the processes and sends them back in
                buffers of one dtype and device each.""",
            fix="""One optimizer for each dtype: split the parameters by `p.dtype`, or keep
                all in float32 and compute under `autocast`.""",
            broken="""
                import torch
                import torch.distributed as dist
                from torch.distributed.optim import ZeroRedundancyOptimizer

                store = dist.HashStore()
                dist.init_process_group("gloo", store=store, rank=0, world_size=1)
                try:
                    one = torch.nn.Parameter(torch.ones(1))
                    other = torch.nn.Parameter(torch.ones(1, dtype=torch.float16))
                    ZeroRedundancyOptimizer([one, other], torch.optim.Adam)
                finally:
                    dist.destroy_process_group()
                """,
            fixed="""
                import torch
                import torch.distributed as dist
                from torch.distributed.optim import ZeroRedundancyOptimizer

                store = dist.HashStore()
                dist.init_process_group("gloo", store=store, rank=0, world_size=1)
                try:
                    one = torch.nn.Parameter(torch.ones(1))
                    other = torch.nn.Parameter(torch.ones(1))
                    adam = torch.optim.Adam
                    optimizer = ZeroRedundancyOptimizer([one, other], adam, lr=0.1)
                    (one + other).sum().backward()
                    optimizer.step()
                finally:
                    dist.destroy_process_group()
                torch.testing.assert_close(one.detach(), torch.tensor([0.9]))
                print(one, other)
                """,
            see=("across-processes", "mixed-precision"),
            source=("torch/distributed/optim (zero_redundancy_optimizer.py)",),
        ),
        Message(
            anchor="replicas-have-no-parameters",
            title="Caught StopIteration in replica 0 on device 0.",
            kinds=("StopIteration", "UserWarning"),
            patterns=(
                r"Caught StopIteration in replica \d+ on device \d+",
                r"nn\.Parameter(?:List|Dict) is being used with DataParallel but this is "
                r"not supported",
            ),
            older=(
                "nn.ParameterList is being used with DataParallel but this is not "
                "supported. This list will appear empty for the models replicated on each "
                "GPU except the original one.",
            ),
            why="""DataParallel copies the model to each GPU in each step. The copies'
                weights are no parameters: they are results of a copy with a graph, so that
                gradients flow back to the one original. `parameters()` of a copy is
                empty, and `next()` of it stops.""",
            fix="""In `forward` ask a tensor, not the list: `x.device`, `x.dtype`,
                `self.fc.weight.dtype`. Or use DistributedDataParallel, where each process
                has a model of its own.""",
            tell=(
                "The line is in an older transformers or another library: update it, or "
                "show the program one GPU, `CUDA_VISIBLE_DEVICES=0`.",
                "`ParameterList`: keep the parameters as attributes, or in modules in a "
                "`ModuleList`.",
            ),
            fixed="""
                import torch

                class Net(torch.nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.fc = torch.nn.Linear(2, 2)

                    def forward(self, x):
                        mask = torch.ones(2, dtype=x.dtype, device=x.device)
                        return self.fc(x) * mask

                net = Net()
                net(torch.ones(1, 2)).sum().backward()
                assert net.fc.bias.grad.tolist() == [1, 1]
                print(net.fc.bias.grad)
                """,
            see=("across-processes", "leaves-and-roots"),
            source=(
                "PT#40457",
                "lucidrains/BS-RoFormer#25",
                "kimiyoung/transformer-xl#123",
            ),
        ),
        Message(
            anchor="ddp-bucket-view",
            title="Detected at least one parameter gradient is not the expected DDP bucket "
            "view with gradient_as_bucket_view=True.",
            patterns=(
                r"Detected at least one parameter gradient is not the expected DDP bucket "
                r"view",
            ),
            why="""With `gradient_as_bucket_view=True` each `p.grad` is a window into the
                buffer that the processes average. Something put another tensor there
                between the hook and the end of `backward`.""",
            fix="""Leave `gradient_as_bucket_view` out, or leave `p.grad` alone during
                `backward`: wrap a model once, and change gradients after `backward`, in
                place.""",
            tell=(
                "A module is wrapped in DistributedDataParallel twice, itself and as a "
                "part "
                "of another: once is enough.",
                "Two parameters share one gradient (tied by hand, `a.grad = b.grad`): tie "
                "the parameter itself.",
            ),
            see=("ddp-messages", "error-ddp-grad-strides"),
            source=(
                "meta-pytorch/torchrec#1118",
                "torch/csrc/distributed (c10d/reducer.cpp)",
            ),
        ),
        Message(
            anchor="fsdp-forward-order",
            title="Forward order differs across ranks: rank 0 is all-gathering 1 "
            "parameters "
            "while rank 1 is all-gathering 2 parameters",
            kinds=("RuntimeError", "UserWarning"),
            patterns=(
                r"Forward order differs across ranks",
                r"Forward order differs from that of the first iteration on rank \d+",
            ),
            older=(
                "Forward order differs from that of the first iteration on rank 0 -- "
                "collectives are unchecked and may give incorrect results or hang",
            ),
            why="""FSDP gathers each block's parameters when the block runs, and all
                processes must gather the same block at the same time. Here they ran
                different blocks, or another order than in the first step.""",
            fix="""Run the same blocks in the same order everywhere: decide branches from
                what all processes share, multiply an unused block's result by 0.""",
            tell=(
                "The warning, after `generate` or an evaluation: the order of the first "
                "pass is what is compared; harmless while all processes do the same.",
                "Processes that stop after different numbers of words: pad to the longest "
                "(`synced_gpus=True` in transformers).",
            ),
            see=("sharded-parameters", "error-fsdp-training-state"),
            source=("PT#84175", "PT#75902"),
        ),
    ),
)
