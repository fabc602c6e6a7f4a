"""Messages of checkpointing and of training on several devices or processes."""

from pullback._messages._entry import Message, Theme

PARALLEL = Theme(
    "parallel",
    (
        Message(
            anchor="checkpoint-reentrant",
            title="When use_reentrant=True, torch.utils.checkpoint is incompatible with "
            ".grad() or passing an `inputs` parameter to .backward()",
            patterns=(
                r"When use_reentrant=True, torch\.utils\.checkpoint is incompatible with "
                r"\.grad\(\)",
                r"Checkpointing is not compatible with \.grad\(\) or when an `inputs` "
                r"parameter is passed to \.backward\(\)",
            ),
            older=(
                "Checkpointing is not compatible with .grad() or when an `inputs` "
                "parameter is passed to .backward(). Please use .backward() and do not "
                "pass its `inputs` argument.",
            ),
            why="""The reentrant kind of checkpoint calls `backward` inside the backward
                pass and fills `.grad` of every parameter; a call that asks for certain
                gradients only cannot pass through it.""",
            fix="""Pass `use_reentrant=False` to `checkpoint`; leaving the argument out
                means True. Or call `backward()` without `inputs` and read `.grad`.""",
            broken="""
                import torch
                from torch.utils.checkpoint import checkpoint

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                y = checkpoint(torch.square, x, use_reentrant=True).sum()
                torch.autograd.grad(y, x)
                """,
            fixed="""
                import torch
                from torch.utils.checkpoint import checkpoint

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                y = checkpoint(torch.square, x, use_reentrant=False).sum()
                (gradient,) = torch.autograd.grad(y, x)
                assert torch.equal(gradient, 2 * x)
                print(gradient)
                """,
            see=("checkpointing", "never-forms-j"),
            source=("PT#51743", "haidog-yaqub/MeanFlow#4"),
        ),
        Message(
            anchor="checkpoint-use-reentrant",
            title="torch.utils.checkpoint: the use_reentrant parameter should be passed",
            kinds=("UserWarning",),
            patterns=(
                r"torch\.utils\.checkpoint(?:\.checkpoint_sequential)?: (?:the "
                r"use_reentrant parameter should be passed|please pass in use_reentrant)",
            ),
            older=(
                "torch.utils.checkpoint: please pass in use_reentrant=True or "
                "use_reentrant=False explicitly.",
                "torch.utils.checkpoint.checkpoint_sequential: the "
                "use_reentrant parameter should be passed explicitly.",
            ),
            why="""There are two kinds of checkpoint. A call that names neither still gets
                the older one, `use_reentrant=True`, and is to become an error.""",
            fix="""Pass `use_reentrant=False`, the kind that works with
                `torch.autograd.grad` and with inputs that need no gradient.""",
            tell=(
                "You call `checkpoint` or `checkpoint_sequential`: pass it there.",
                "A library calls it: look for its option, in Hugging Face transformers "
                '`gradient_checkpointing_kwargs={"use_reentrant": False}`.',
            ),
            broken="""
                import torch
                from torch.utils.checkpoint import checkpoint

                checkpoint(torch.exp, torch.zeros(2, requires_grad=True))
                """,
            fixed="""
                import torch
                from torch.utils.checkpoint import checkpoint

                x = torch.zeros(2, requires_grad=True)
                checkpoint(torch.exp, x, use_reentrant=False).sum().backward()
                assert torch.equal(x.grad, torch.ones(2))
                print(x.grad)
                """,
            see=("checkpointing", "error-checkpoint-reentrant"),
            source=("torch/utils/checkpoint.py",),
        ),
        Message(
            anchor="checkpoint-inputs-no-grad",
            title="None of the inputs have requires_grad=True. Gradients will be None",
            kinds=("UserWarning",),
            patterns=(
                r"None of the inputs have requires_grad=True\. Gradients will be None",
            ),
            why="""The reentrant kind of checkpoint records its block only if an *input*
                of the block requires a gradient. Data does not, so the first block's
                parameters get none.""",
            fix="""Pass `use_reentrant=False` to `checkpoint`, which looks at parameters as
                well. Where that is out of your hands, let the block's input require a
                gradient: `h.requires_grad_()`.""",
            tell=(
                "Training with reentrant checkpoints: the block's parameters get no "
                "gradient; `use_reentrant=False`.",
                "Frozen embeddings before the block (fine-tuning with adapters): the same; "
                "or `requires_grad_()` on what they return, which is what "
                "`model.enable_input_require_grads()` of transformers does.",
                "The input that requires a gradient is inside a dict or a list: pass it as "
                "an argument of its own, or `use_reentrant=False`.",
                "Validation under `torch.no_grad()`: harmless.",
            ),
            broken="""
                import torch
                from torch.utils.checkpoint import checkpoint

                layer = torch.nn.Linear(2, 1)
                checkpoint(layer, torch.ones(1, 2), use_reentrant=True)
                """,
            fixed="""
                import torch
                from torch.utils.checkpoint import checkpoint

                layer = torch.nn.Linear(2, 1)
                h = torch.ones(1, 2).requires_grad_()  # as the embeddings return it
                for x, reentrant in ((torch.ones(1, 2), False), (h, True)):
                    layer.zero_grad()
                    checkpoint(layer, x, use_reentrant=reentrant).sum().backward()
                    assert torch.equal(layer.weight.grad, torch.ones(1, 2))
                print(layer.weight.grad)
                """,
            see=("checkpointing", "error-checkpoint-reentrant"),
            source=("torch/utils/checkpoint.py",),
        ),
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
            ),
            older=(
                "Parameter indices which did not receive grad for rank 0: 197 198",
                "Parameters which did not receive grad for rank 0: "
                "module.pooler.weight, module.pooler.bias",
                "It looks like your LightningModule has parameters that were "
                "not used in producing the loss returned by training_step.",
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
                "`find_unused_parameters=True` does not help, since y uses the bias, and "
                "under `static_graph=True` the processes drift apart without a message.",
                "The message lists `Parameter indices which did not receive grad`. They "
                "count the trained parameters only: `[name for name, p in "
                "model.named_parameters() if p.requires_grad]`. With the environment "
                "variable `TORCH_DISTRIBUTED_DEBUG=DETAIL` it gives the names.",
                "An output of `forward` is not in the loss, and layers lead to that output "
                "alone: leave it out or add it.",
                "A branch runs only in some steps: `find_unused_parameters=True`.",
                "A submodule is defined and never used: delete it.",
                "`static_graph=True` is set, and a step used other parameters than the "
                "first: drop it.",
                "The loss uses parameters outside `forward`: move that into `forward`.",
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
                gradients later.""",
            fix="""Checkpoint with `use_reentrant=False`; or, when the graph is the same in
                every step, pass `static_graph=True` to DistributedDataParallel.""",
            tell=(
                "`checkpoint` is used with `find_unused_parameters=True`: "
                "`use_reentrant=False`.",
                "Two `backward` calls for one forward pass raise nothing in this release; "
                "the second is not averaged. Add the losses: `(a + b).backward()`.",
                "`find_unused_parameters=True` is set although all are used: drop it.",
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
            anchor="checkpoint-metadata",
            title="torch.utils.checkpoint: Recomputed values for the following tensors "
            "have different metadata than during the forward pass",
            kinds=("CheckpointError",),
            patterns=(
                r"torch\.utils\.checkpoint: Recomputed values for the following tensors "
                r"have different metadata(?!.*recomputed metadata: "
                r"\{'shape': torch\.Size\(\[0\]\))",
                r"torch\.utils\.checkpoint: A different number of tensors was saved during "
                r"the original forward and recomputation",
                r"torch\.utils\.checkpoint: trying to save more tensors during "
                r"recomputation",
                r"Detected non-determinism while running activation checkpointing",
            ),
            older=(
                "torch.utils.checkpoint: A different number of tensors was saved during "
                "the original forward and recomputation.",
                "torch.utils.checkpoint: trying to save more tensors during recomputation "
                "than during the original forward pass.",
            ),
            why="""Checkpointing runs the function a second time during `backward`, and the
                second run did other things than the first: other shapes, dtypes or
                operations.""",
            fix="""Let the function depend on its arguments alone: no counter, no cache, no
                random choice outside torch's generators, and no `eval()`, `.half()` or
                `requires_grad_(False)` of the model between forward and backward pass.""",
            tell=(
                "A dtype differs: `.half()` or `.double()` between the runs. (`autocast` "
                "around the call is restored.)",
                "A shape differs: a cache (keys and values, masks) or a random crop "
                "changed between.",
                "The number of tensors differs: an `if` on a state that has changed, "
                "dropout switched off by `eval()`, a layer frozen between; `debug=True` "
                "shows the operations of both runs.",
            ),
            broken="""
                import torch
                from torch.utils.checkpoint import checkpoint

                cache = []

                def f(x):
                    cache.append(x)
                    return torch.cat(cache).sin()

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                checkpoint(f, x, use_reentrant=False).sum().backward()
                """,
            fixed="""
                import torch
                from torch.utils.checkpoint import checkpoint

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                checkpoint(torch.sin, x, use_reentrant=False).sum().backward()
                torch.testing.assert_close(x.grad, x.detach().cos())
                print(x.grad)
                """,
            see=(
                "checkpointing",
                "error-checkpoint-of-another-function",
                "error-checkpoint-under-zero3",
            ),
            source=("torch/utils/checkpoint.py",),
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
            anchor="cudnn-training-mode",
            title="cudnn RNN backward can only be called in training mode",
            patterns=(r"cudnn RNN backward can only be called in training mode",),
            why="""On a GPU an RNN in `eval()` mode keeps nothing for its backward pass, and
                you differentiate through it: a saliency map, an attack, a frozen
                encoder.""",
            fix="""Call `train()` on the RNN alone (set its `dropout` to 0 if it has one),
                or run its forward pass inside
                `with torch.backends.cudnn.flags(enabled=False):`.""",
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
            anchor="autograd-threads-and-fork",
            title="Unable to handle autograd's threading in combination with fork-based "
            "multiprocessing",
            patterns=(
                r"Unable to handle autograd's threading in combination with fork-based "
                r"multiprocessing",
            ),
            why="""On a machine with a GPU, `backward` has started threads in this process,
                and a forked child does not inherit them. A backward pass on the CPU alone
                runs in the thread that calls it, and works in the child.""",
            fix="""Start workers with `torch.multiprocessing.get_context("spawn")`, or call
                `backward` for the first time after the fork, in the child.""",
            see=("ddp-messages", "across-processes"),
            source=("torch/csrc/autograd (python_engine.cpp)",),
        ),
        Message(
            anchor="inputs-not-a-leaf",
            title="One of the differentiated Tensors given as 'inputs' to backward is not "
            "a leaf Tensor",
            patterns=(
                r"One of the differentiated Tensors given as 'inputs' to backward is not a "
                r"leaf Tensor",
            ),
            why="""The first releases that had `y.backward(inputs=[t])` took leaves only,
                since it stores into `.grad`.""",
            fix="""A current PyTorch fills `.grad` of computed tensors in `inputs`, too.
                `torch.autograd.grad(y, t)` works in all releases.""",
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                t = x * 3
                (t**2).sum().backward(inputs=[t])
                assert torch.equal(t.grad, 2 * t) and x.grad is None
                print(t.grad)
                """,
            see=("leaves-and-roots", "error-non-leaf-grad"),
            source=("torch/csrc/autograd (python_engine.cpp), older releases",),
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
                after the last backward call `model.reshard()`, else `.grad` of the
                parameters reads None. Two losses of one output need none of this:
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
                from torch.distributed.fsdp import fully_shard

                store = dist.HashStore()
                dist.init_process_group("gloo", store=store, rank=0, world_size=1)
                try:
                    mesh = init_device_mesh("cpu", (1,))
                    layer = torch.nn.Linear(2, 1, bias=False)
                    torch.nn.init.ones_(layer.weight)
                    model = fully_shard(layer, mesh=mesh)
                    model.set_reshard_after_backward(False)
                    x = torch.ones(1, 2, requires_grad=True)
                    loss = (model(x) ** 2).sum()
                    (g,) = torch.autograd.grad(loss, x, create_graph=True)
                    (g**2).sum().backward()
                    model.reshard()
                    found = model.weight.grad.full_tensor()
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
    ),
)
