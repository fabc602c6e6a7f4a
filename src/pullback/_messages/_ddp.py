"""Messages of ``DistributedDataParallel``."""

from pullback._messages._entry import Message, Theme

DDP = Theme(
    "ddp",
    (
        Message(
            anchor="ddp-unused-parameters",
            title="Expected to have finished reduction in the prior iteration before "
            "starting a new one",
            patterns=(
                r"Expected to have finished reduction in the prior iteration before "
                r"starting a new one",
                r"Parameters? (?:indices )?which "
                r"did not receive grad for rank \d+",
                r"has parameters that were not used in producing the loss "
                r"returned by training_step",
                r"Your training graph has changed in this iteration",
            ),
            older=(
                "Parameter indices which did not receive grad for rank 0: 197 198",
                "Parameters which did not receive grad for rank 0: "
                "module.pooler.weight, module.pooler.bias",
                "It looks like your LightningModule has parameters that were "
                "not used in producing the loss returned by training_step.",
                "Your training graph has changed in this iteration, e.g., one parameter is "
                "unused in first iteration, but then got used in the second iteration. "
                "this is not compatible with static_graph set to True.",
            ),
            why="""DistributedDataParallel waits in `backward` for the gradient of every
                parameter. One of them took no part in the loss, so the step never ended for
                it.""",
            fix="""Let every parameter take part in the loss (`loss + 0 * y.sum()` does
                it for all that lead to y), or freeze the unused ones
                (`requires_grad_(False)`) before wrapping the model. For layers that lead
                to no output, pass `find_unused_parameters=True`.""",
            tell=(
                "The loss is a penalty alone (R1, path length): the last bias does "
                "not change a slope and gets None. Add `0 * y.sum()`. "
                "`find_unused_parameters=True` does not help, since y uses the bias. Leave "
                "`static_graph=True` out: with it the processes drift apart without a "
                "message, with `0 * y.sum()` as well.",
                "The message lists `Parameter indices which did not receive grad`. They "
                "count the trained parameters only: `[name for name, p in "
                "model.named_parameters() if p.requires_grad]`. With the environment "
                "variable `TORCH_DISTRIBUTED_DEBUG=DETAIL` it gives the names.",
                "An output of `forward` is not in the loss, and layers lead to that output "
                "alone: leave it out or add it.",
                "A branch runs only in some steps: `find_unused_parameters=True`.",
                "A submodule is defined and never used: delete it.",
                "`static_graph=True` is set, and a step used other parameters than the "
                "first: `find_unused_parameters=True` in its place.",
                "`backward(inputs=...)` names some of the parameters only: name all that "
                "are trained, or leave `inputs` out.",
            ),
            broken="""
                import torch
                import torch.distributed as dist
                from torch.nn.parallel import DistributedDataParallel

                store = dist.HashStore()
                dist.init_process_group("gloo", store=store, rank=0, world_size=1)
                try:
                    model = torch.nn.ModuleDict(
                        {"used": torch.nn.Linear(2, 1), "unused": torch.nn.Linear(2, 1)}
                    )
                    model.forward = model["used"].forward
                    parallel = DistributedDataParallel(model)
                    for step in range(2):
                        parallel(torch.ones(1, 2)).sum().backward()
                finally:
                    dist.destroy_process_group()
                """,
            fixed="""
                import torch
                import torch.distributed as dist
                from torch.nn.parallel import DistributedDataParallel

                store = dist.HashStore()
                dist.init_process_group("gloo", store=store, rank=0, world_size=1)
                try:
                    model = torch.nn.ModuleDict(
                        {"used": torch.nn.Linear(2, 1), "unused": torch.nn.Linear(2, 1)}
                    )
                    model.forward = model["used"].forward
                    parallel = DistributedDataParallel(model, find_unused_parameters=True)
                    for step in range(2):
                        parallel(torch.ones(1, 2)).sum().backward()
                finally:
                    dist.destroy_process_group()
                assert torch.equal(model["used"].weight.grad, torch.full((1, 2), 2.0))
                print(model["used"].weight.grad)
                """,
            see=("ddp-messages", "across-processes"),
            source=("PT#43259",),
        ),
        Message(
            anchor="ddp-ready-only-once",
            title="Expected to mark a variable ready only once",
            patterns=(
                r"Expected to mark a variable ready only once",
                r"has been marked as ready twice",
            ),
            older=(
                "Parameter at index 5 has been marked as ready twice. This means that "
                "multiple autograd engine hooks have fired for this particular parameter "
                "during this iteration.",
            ),
            why="""DistributedDataParallel was told twice in one step that a parameter is
                done. A reentrant checkpoint hides its parameters from the search of
                `find_unused_parameters=True`, which takes them for unused, and fills their
                gradients later, as does a loss that uses parameters outside `forward`.""",
            fix="""Checkpoint with `use_reentrant=False`; or, when the graph is the same in
                every step, pass `static_graph=True` to DistributedDataParallel.""",
            tell=(
                "`checkpoint` is used with `find_unused_parameters=True`: "
                "`use_reentrant=False`.",
                "Two `backward` calls for one forward pass raise nothing in this release; "
                "the second is not averaged. Add the losses: `(a + b).backward()`.",
                "`find_unused_parameters=True` is set although all are used: drop it.",
                "A layer is used in a reentrant checkpoint and once more outside it (tied "
                "weights), with or without that option: `use_reentrant=False`.",
                "The loss uses a parameter outside `forward` (a penalty on the weights), "
                "with `find_unused_parameters=True`: move that into `forward`.",
            ),
            broken="""
                import torch
                import torch.distributed as dist
                from torch.nn.parallel import DistributedDataParallel
                from torch.utils.checkpoint import checkpoint

                store = dist.HashStore()
                dist.init_process_group("gloo", store=store, rank=0, world_size=1)
                try:
                    model = torch.nn.ModuleDict(
                        {"used": torch.nn.Linear(2, 1), "unused": torch.nn.Linear(2, 1)}
                    )
                    model.forward = lambda x: checkpoint(
                        model["used"], x, use_reentrant=True
                    )
                    parallel = DistributedDataParallel(model, find_unused_parameters=True)
                    parallel(torch.ones(1, 2, requires_grad=True)).sum().backward()
                finally:
                    dist.destroy_process_group()
                """,
            fixed="""
                import torch
                import torch.distributed as dist
                from torch.nn.parallel import DistributedDataParallel
                from torch.utils.checkpoint import checkpoint

                store = dist.HashStore()
                dist.init_process_group("gloo", store=store, rank=0, world_size=1)
                try:
                    model = torch.nn.ModuleDict(
                        {"used": torch.nn.Linear(2, 1), "unused": torch.nn.Linear(2, 1)}
                    )
                    model.forward = lambda x: checkpoint(
                        model["used"], x, use_reentrant=False
                    )
                    parallel = DistributedDataParallel(model, find_unused_parameters=True)
                    parallel(torch.ones(1, 2, requires_grad=True)).sum().backward()
                finally:
                    dist.destroy_process_group()
                assert torch.equal(model["used"].weight.grad, torch.ones(1, 2))
                print(model["used"].weight.grad)
                """,
            see=("ddp-messages", "across-processes", "checkpointing"),
            source=("PT#43259", "torch/csrc/distributed/c10d (reducer.cpp)"),
        ),
        Message(
            anchor="ddp-grad-strides",
            title="Grad strides do not match bucket view strides",
            kinds=("UserWarning",),
            patterns=(
                r"Grad strides do not match bucket view strides",
                r"grad and param do not obey the gradient layout contract",
            ),
            older=(
                "grad and param do not obey the gradient layout contract. This "
                "is not an error, but may impair performance.",
            ),
            why="""DistributedDataParallel keeps gradients in buckets laid out like the
                parameters; one gradient arrived in another memory layout and is copied. The
                numbers are right; it costs a little time.""",
            fix="""Nothing needs to be done. To remove it: change the memory format of the
                model (`channels_last`) before wrapping it, and feed it that format; turn a
                weight of size 1 along a dimension with `reshape`, not with a transpose.""",
            tell=(
                "The message ends in the sizes and strides: the sizes say which parameter.",
                "A 1×1 convolution: its data came out of a `transpose` or `permute`, or in "
                "another memory format.",
                "`model.to(memory_format=...)` after wrapping: do it before.",
                "A `Linear` with one output, under a gradient penalty: its gradient comes "
                "out of a product in the other layout; leave it.",
            ),
            broken="""
                import torch
                import torch.distributed as dist
                from torch.nn.parallel import DistributedDataParallel

                store = dist.HashStore()
                dist.init_process_group("gloo", store=store, rank=0, world_size=1)
                try:
                    parallel = DistributedDataParallel(torch.nn.Conv2d(2, 1, 3))
                    parallel.to(memory_format=torch.channels_last)
                    parallel(torch.ones(1, 2, 4, 4)).sum().backward()
                finally:
                    dist.destroy_process_group()
                """,
            fixed="""
                import torch
                import torch.distributed as dist
                from torch.nn.parallel import DistributedDataParallel

                store = dist.HashStore()
                dist.init_process_group("gloo", store=store, rank=0, world_size=1)
                try:
                    layer = torch.nn.Conv2d(2, 1, 3).to(memory_format=torch.channels_last)
                    DistributedDataParallel(layer)(torch.ones(1, 2, 4, 4)).sum().backward()
                finally:
                    dist.destroy_process_group()
                # each weight meets the ones at 2 · 2 places
                assert torch.equal(layer.weight.grad, torch.full((1, 2, 3, 3), 4.0))
                print(layer.weight.grad.shape)
                """,
            see=("ddp-messages", "across-processes"),
            source=(
                "PT#70222",
                "XPixelGroup/HAT#154",
                "torch/csrc/distributed/c10d (reducer.cpp)",
            ),
        ),
        Message(
            anchor="ddp-not-needed",
            title="DistributedDataParallel is not needed when a module doesn't have any "
            "parameter that requires a gradient",
            patterns=(
                r"DistributedDataParallel is not needed when a module doesn't have any "
                r"parameters? that require",
            ),
            why="""DistributedDataParallel averages gradients, and a module that is frozen,
                or has no parameters, has none.""",
            fix="""Wrap only what is trained; call the frozen module as it is. When it was
                to be trained, set `requires_grad_(True)` before wrapping.""",
            broken="""
                import torch
                import torch.distributed as dist
                from torch.nn.parallel import DistributedDataParallel

                store = dist.HashStore()
                dist.init_process_group("gloo", store=store, rank=0, world_size=1)
                try:
                    frozen = torch.nn.Linear(2, 1).requires_grad_(False)
                    DistributedDataParallel(frozen)
                finally:
                    dist.destroy_process_group()
                """,
            fixed="""
                import torch
                import torch.distributed as dist
                from torch.nn.parallel import DistributedDataParallel

                store = dist.HashStore()
                dist.init_process_group("gloo", store=store, rank=0, world_size=1)
                try:
                    frozen = torch.nn.Linear(2, 2).requires_grad_(False)
                    trained = DistributedDataParallel(torch.nn.Linear(2, 1))
                    trained(frozen(torch.ones(1, 2))).sum().backward()
                finally:
                    dist.destroy_process_group()
                assert trained.module.bias.grad == 1 and frozen.weight.grad is None
                print(trained.module.bias.grad)
                """,
            see=("ddp-messages", "across-processes"),
            source=("torch/nn/parallel/distributed.py",),
        ),
        Message(
            anchor="ddp-no-unused-parameters",
            title="find_unused_parameters=True was specified in DDP constructor, but did "
            "not find any unused parameters in the forward pass",
            kinds=("UserWarning",),
            patterns=(
                r"find_unused_parameters=True was specified in DDP constructor, but did "
                r"not find any unused parameters",
            ),
            why="""DistributedDataParallel walks the graph of every step in search of
                parameters without a gradient, as you asked, and found none.""",
            fix="""The gradients are right. Leave `find_unused_parameters=True` out if every
                step uses every parameter; keep it if a branch is taken in some steps only,
                or if the loss leaves out an output of `forward`: the search begins at the
                outputs and does not know the loss.""",
            see=("ddp-messages", "error-ddp-unused-parameters"),
            source=("torch/csrc/distributed (c10d/reducer.cpp)",),
        ),
    ),
)
