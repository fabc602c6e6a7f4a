"""Messages of ``DataParallel``, FSDP and DTensor, of forks and streams."""

from pullback._messages._entry import Message, Theme

PARALLEL = Theme(
    "parallel",
    (
        Message(
            anchor="gather-along-dimension-0",
            title="Was asked to gather along dimension 0, but all input tensors were "
            "scalars",
            kinds=("UserWarning",),
            patterns=(
                r"Was asked to gather along dimension 0, but all input tensors were "
                r"scalars",
            ),
            why="""`DataParallel` returns one loss for each GPU; they are put together as a
                vector. Its `backward()` then asks for a `gradient`.""",
            fix="""`loss.mean().backward()`: the mean over the devices. Where the batch does
                not divide evenly, return the sum of each part and divide by the size of the
                whole batch.""",
            see=("ddp-messages", "error-scalar-outputs", "error-mean-of-unequal-batches"),
            source=("PT#9811", "airsplay/lxmert#17"),
        ),
        Message(
            anchor="scatter-twice",
            title="Scatter is not differentiable twice",
            patterns=(r"Scatter is not differentiable twice",),
            why="""A gradient penalty under `DataParallel` differentiated its scatter twice,
                which PyTorch before 0.2 could not do.""",
            fix="""Use a current PyTorch, where it is differentiable twice; or
                DistributedDataParallel.""",
            see=("gradient-penalty", "error-once-differentiable"),
            source=("PT#2467", "PT#2508"),
        ),
        Message(
            anchor="data-parallel-zero-grad",
            title="Calling .zero_grad() from a module created with nn.DataParallel() has "
            "no effect.",
            kinds=("UserWarning",),
            patterns=(
                r"Calling \.zero_grad\(\) from a module created with nn\.DataParallel\(\) "
                r"has no effect",
            ),
            why="""Inside `forward` DataParallel runs a copy of the module on each GPU. The
                copy's parameters are computed from the true ones, so they are no leaves:
                gradients go on to the true ones, and the copy has none to clear.""",
            fix="""Do not call `zero_grad`, `backward` or the optimizer inside `forward`;
                clear outside, with `optimizer.zero_grad()`. For a derivative inside
                `forward` take `torch.autograd.grad`.""",
            broken="""
                import torch

                layer = torch.nn.Linear(2, 1)
                copy = layer._replicate_for_data_parallel()  # as DataParallel does
                copy.zero_grad()
                """,
            fixed="""
                import torch

                layer = torch.nn.Linear(2, 1)
                layer(torch.ones(1, 2)).sum().backward()
                layer.zero_grad()  # outside of forward, the true module
                assert layer.weight.grad is None
                print(layer.weight.grad)
                """,
            see=("across-processes", "error-scatter-twice"),
            source=("PT#31768", "torch/nn/modules/module.py"),
        ),
        Message(
            anchor="fsdp-uniform-requires-grad",
            title="Must flatten tensors with uniform `requires_grad` when "
            "`use_orig_params=False`",
            kinds=("ValueError",),
            patterns=(
                r"Must flatten tensors with uniform `?requires_grad`? when "
                r"`?use_orig_params=False",
                r"`?FlatParameter`? requires uniform `?requires_grad`?",
            ),
            older=("`FlatParameter` requires uniform `requires_grad`",),
            why="""FullyShardedDataParallel lays the parameters of a block into one flat
                tensor, and one tensor requires a gradient as a whole or not at all. The
                block holds frozen and trained ones, as with LoRA.""",
            fix="""Shard with `fully_shard(model)`, which keeps each parameter for itself;
                or pass `use_orig_params=True`; or wrap so that a block holds frozen
                parameters only or trained ones only.""",
            tell=(
                "Accelerate or the Trainer wraps the model: its option is "
                "`fsdp_use_orig_params`; for LoRA peft has an auto-wrap policy that "
                "separates the adapters.",
                "Parameters frozen by oversight: freeze after you have looked at "
                "`[n for n, p in model.named_parameters() if not p.requires_grad]`.",
            ),
            broken="""
                import torch
                import torch.distributed as dist
                from torch.distributed.fsdp import FullyShardedDataParallel

                store = dist.HashStore()
                dist.init_process_group("gloo", store=store, rank=0, world_size=1)
                try:
                    frozen = torch.nn.Linear(2, 2).requires_grad_(False)
                    model = torch.nn.Sequential(frozen, torch.nn.Linear(2, 1))
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
                    frozen = torch.nn.Linear(2, 2).requires_grad_(False)
                    model = torch.nn.Sequential(frozen, torch.nn.Linear(2, 1))
                    fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
                    model(torch.ones(1, 2)).sum().backward()
                    filled = [p.grad is not None for p in model.parameters()]
                finally:
                    dist.destroy_process_group()
                assert filled == [False, False, True, True]
                print(filled)
                """,
            see=("sharded-parameters", "across-processes"),
            source=("PT#104690", "PT#91167", "huggingface/peft#1702"),
        ),
        Message(
            anchor="fsdp-double-backward",
            title="setStorage: sizes are out of bounds for storage of size 0",
            patterns=(
                r"setStorage: sizes (?:\[[\d, ]*\], strides .{0,120} )?are out of bounds "
                r"for storage of size 0",
                r"FSDP does not support gradients of gradients",
            ),
            older=("FSDP does not support gradients of gradients",),
            why="""FSDP gives the memory of a gathered weight back after a backward pass,
                and the graph still points to it. A second derivative
                (`create_graph=True`, a gradient penalty) needs the weight again.""",
            fix="""`model.set_reshard_after_backward(False)` keeps the gathered weights;
                after the last backward call `reshard()` of every module that was sharded,
                else `.grad` of its parameters reads None, and a step passes them by. Two
                losses of one output need none of this:
                `retain_graph=True` gathers again, and adding them takes one pass.""",
            tell=(
                "A second derivative: as above. `gradients of gradients` is the same from "
                "`FullyShardedDataParallel`; use `fully_shard`.",
                "No second derivative, and the loss uses a tensor that a sharded module "
                "keeps as an attribute (`self.hidden = h`): only what `forward` returns "
                "has the weight gathered for its backward pass. Return that tensor too, or "
                "shard this module with `fully_shard(…, reshard_after_forward=False)`; "
                "`set_reshard_after_backward(False)` does not help here.",
                "No second derivative, and an operation in place (`x += y`) on what a "
                "sharded module returned as a view: see the page on its warning.",
                "No second derivative, several modules in one `fully_shard([a, b])`, and "
                "one of them is called twice: reported (pytorch/pytorch#183702); shard "
                "with `reshard_after_forward=False`.",
            ),
            broken="""
                import torch
                import torch.distributed as dist
                from torch.distributed.device_mesh import init_device_mesh
                from torch.distributed.fsdp import fully_shard

                store = dist.HashStore()
                dist.init_process_group("gloo", store=store, rank=0, world_size=1)
                try:
                    mesh = init_device_mesh("cpu", (1,))
                    model = fully_shard(torch.nn.Linear(2, 1), mesh=mesh)
                    x = torch.ones(3, 2, requires_grad=True)
                    loss = (model(x) ** 2).sum()
                    (g,) = torch.autograd.grad(loss, x, create_graph=True)
                    (g**2).sum().backward()
                finally:
                    dist.destroy_process_group()
                """,
            fixed="""
                import torch
                import torch.distributed as dist
                from torch.distributed.device_mesh import init_device_mesh
                from torch.distributed.fsdp import FSDPModule, fully_shard

                store = dist.HashStore()
                dist.init_process_group("gloo", store=store, rank=0, world_size=1)
                try:
                    mesh = init_device_mesh("cpu", (1,))
                    layer = torch.nn.Linear(2, 1, bias=False)
                    torch.nn.init.ones_(layer.weight)
                    model = torch.nn.Sequential(fully_shard(layer, mesh=mesh))
                    fully_shard(model, mesh=mesh)
                    model.set_reshard_after_backward(False)
                    x = torch.ones(1, 2, requires_grad=True)
                    loss = (model(x) ** 2).sum()
                    (g,) = torch.autograd.grad(loss, x, create_graph=True)
                    (g**2).sum().backward()
                    for module in model.modules():
                        if isinstance(module, FSDPModule):
                            module.reshard()
                    found = layer.weight.grad.full_tensor()
                finally:
                    dist.destroy_process_group()
                # |g|^2 = 4 (w x)^2 |w|^2, at w = x = (1, 1)
                assert torch.equal(found, torch.tensor([[64.0, 64.0]]))
                print(found)
                """,
            see=("sharded-parameters", "gradient-penalty", "error-fsdp-returned-a-view"),
            source=("PT#106637", "PT#172543", "PT#183702"),
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
            anchor="autograd-threads-and-fork",
            title="Unable to handle autograd's threading in combination with fork-based "
            "multiprocessing",
            patterns=(
                r"Unable to handle autograd's threading in combination with fork-based "
                r"multiprocessing",
            ),
            why="""On a machine with a GPU the first `backward`, on the CPU as well, starts
                threads in this process, and a forked child does not inherit them. Where
                torch sees no GPU it starts none, and the child may go on.""",
            fix="""Start workers with `torch.multiprocessing.get_context("spawn")`, or call
                `backward` for the first time after the fork, in the child. Where all is on
                the CPU, set `CUDA_VISIBLE_DEVICES=` (to nothing) before the program
                starts.""",
            see=("ddp-messages", "across-processes"),
            source=("torch/csrc/autograd (python_engine.cpp)",),
        ),
        Message(
            anchor="accumulate-grad-stream",
            title="The AccumulateGrad node's stream does not match the stream of the node "
            "that produced the incoming gradient",
            kinds=("UserWarning",),
            patterns=(
                r"The AccumulateGrad node's stream does not match the stream of the node "
                r"that produced the incoming gradient",
            ),
            why="""On a GPU, the place where the gradient of a parameter is added up
                remembers the stream on which it was first used. Something kept it alive
                from an earlier step on another stream: a loss that you still hold, or
                DistributedDataParallel.""",
            fix="""The numbers are right; it costs a synchronisation. Let go of the earlier
                graph (`del loss`), wrap the model in DDP under the same stream as the
                forward pass, or, when it is meant to be so, call
                `torch.autograd.graph.set_warn_on_accumulate_grad_stream_mismatch(False)`.""",
            see=("ddp-messages", "second-backward"),
            source=("PT#137483", "Lightning-AI/pytorch-lightning#21567"),
        ),
    ),
)
