"""Messages of transforms, compilers and process groups about what they do not take."""

from pullback._messages._entry import Message, Theme

UNSUPPORTED = Theme(
    "unsupported",
    (
        Message(
            anchor="linearize-tangent",
            title="tangent:0 with shape torch.Size([2]) in flattened pytree doesn't match "
            "the shape torch.Size([3]) of the corresponding primal.",
            patterns=(
                r"tangent:(?P<index>\d+) with (?:shape|dtype|device) "
                r"(?P<tangent>torch\.Size\(\[[\d, ]*\]\)|[\w.:]+) in flattened pytree "
                r"doesn't match the (?:shape|dtype|device) "
                r"(?P<primal>torch\.Size\(\[[\d, ]*\]\)|[\w.:]+) of the corresponding "
                r"primal",
            ),
            why="""`torch.func.linearize(f, x)` gives the linear map t ↦ J t at x, traced
                for tangents made like x: t is a change of x.""",
            fix="""Tangent {index} is {tangent} and its primal {primal}: pass one of the
                same shape, dtype and device, `torch.ones_like(x)` for example. Another
                x needs `linearize` again.""",
            unknown={"index": "0", "tangent": "different", "primal": "not"},
            broken="""
                import torch

                x = torch.ones(3)
                y, push = torch.func.linearize(torch.sin, x)
                push(torch.ones(2))
                """,
            fixed="""
                import torch

                x = torch.ones(3)
                t = torch.tensor([1.0, 0.0, 0.0])
                y, dy = torch.func.jvp(torch.sin, (x,), (t,))
                assert torch.allclose(dy, x.cos() * t)
                print(dy)
                """,
            see=("what-is-a-jvp", "error-primals-and-tangents"),
            source=("torch/_functorch/eager_transforms.py",),
        ),
        Message(
            anchor="tangent-of-running-statistics",
            title="batch_norm is not differentiable wrt running_mean and running_var, they "
            "cannot have forward grad defined",
            patterns=(
                r"batch_norm is not differentiable wrt running_mean and running_var",
            ),
            why="""In forward mode a tangent was given to everything the module holds. The
                running mean and variance are buffers: they record, and the rule of batch
                norm has no derivative by them.""",
            fix="""Give tangents to the parameters only, and pass the buffers as they are:
                `functional_call(model, (params, buffers), x)`.""",
            tell=(
                "`state_dict()` was taken for the parameters: it holds both; use "
                "`named_parameters()` and `named_buffers()`.",
                "In training mode the buffers are written to as well: "
                "`track_running_stats=False`, or `model.eval()`.",
            ),
            broken="""
                import torch
                from torch.func import functional_call, jvp

                norm = torch.nn.BatchNorm1d(2).eval()
                held = {k: v.float() for k, v in norm.state_dict().items()}
                ones = {k: torch.ones_like(v) for k, v in held.items()}
                jvp(lambda p: functional_call(norm, p, torch.ones(3, 2)), (held,), (ones,))
                """,
            fixed="""
                import torch
                from torch.func import functional_call, jvp

                norm = torch.nn.BatchNorm1d(2).eval()
                buffers = dict(norm.named_buffers())
                params = {k: v.detach() for k, v in norm.named_parameters()}
                ones = {k: torch.ones_like(v) for k, v in params.items()}

                def f(params):
                    return functional_call(norm, (params, buffers), torch.ones(3, 2))

                y, dy = jvp(f, (params,), (ones,))
                assert torch.allclose(dy, torch.full((3, 2), 2.0), atol=1e-4)
                print(dy)
                """,
            see=("functional-buffers", "what-is-a-jvp"),
            source=("torch/csrc/autograd (FunctionsManual.cpp)",),
        ),
        Message(
            anchor="compiled-result-is-no-leaf",
            title="returning intermediate with requires_grad_()",
            kinds=("Unsupported",),
            patterns=(r"returning intermediate with requires_grad_\(\)",),
            why="""A compiled function made a tensor, called `requires_grad_()` on it, and
                returned it or something computed from it. The compiled graph would lose
                the flag on its way out, and no gradient would reach that tensor.""",
            fix="""Call `requires_grad_()` on the result outside, or make the leaf outside
                and pass it in; for a derivative inside the function use
                `torch.func.grad`.""",
            tell=(
                "Only the values are wanted: `.detach()` before `return`.",
                "The gradient is used inside (a step of gradient descent on an input): "
                "`torch.func.grad` needs no flag.",
            ),
            broken="""
                import torch

                @torch.compile(backend="eager", fullgraph=True)
                def f(x):
                    return (x * 2).requires_grad_()

                f(torch.ones(2))
                """,
            fixed="""
                import torch

                @torch.compile(backend="eager", fullgraph=True)
                def f(x):
                    return x * 2

                y = f(torch.ones(2)).requires_grad_()
                (y**2).sum().backward()
                assert y.grad.tolist() == [4.0, 4.0]
                print(y.grad)
                """,
            see=("error-requires-grad-inside-compile", "compiled-and-exported"),
            source=("torch/_dynamo (output_graph.py)",),
        ),
        Message(
            anchor="backward-under-capture",
            title="CUDA error: operation would make the legacy stream depend on a "
            "capturing blocking stream",
            patterns=(
                r"operation would make the legacy stream depend on a capturing blocking "
                r"stream",
                r"has a stale (?:reference to the default stream|non-capturing stream)",
                r"dependency created on uncaptured work in another stream",
            ),
            older=(
                "autograd node 'AccumulateGrad' has a stale reference to the default "
                "stream (stream 0) from warmup. This will invalidate the capture",
                "CUDA error: dependency created on uncaptured work in another stream",
            ),
            why="""Backward runs each operation on the stream of its forward, and waits for
                it. While a CUDA graph is captured on a side stream, a node that was made
                on the default stream makes the capture wait for it, which is not
                allowed. `AccumulateGrad` of a parameter lives as long as any graph that
                uses it.""",
            fix="""Run the warm-up steps on a side stream too (`with
                torch.cuda.stream(s):`), let go of their loss and outputs, set the
                gradients to None, and capture forward and backward together.
                `torch.cuda.make_graphed_callables` does all this.""",
            tell=(
                "A loss or an output from before the capture is still held: `del` it.",
                "DistributedDataParallel was made on the default stream: make it inside "
                "`with torch.cuda.stream(s):`.",
                "The message names a stale stream: newer releases have "
                "`torch.autograd.graph.set_override_stale_capture_stream(True)`.",
            ),
            see=("error-accumulate-grad-stream", "compiled-and-exported"),
            source=("PT#15623", "PT#180090", "PT#189591"),
        ),
        Message(
            anchor="ddp-sparse-gradient",
            title="Tensors must be CUDA and dense",
            patterns=(r"Tensors must be CUDA and dense",),
            why="""NCCL adds up dense tensors on GPUs. Either a parameter lies on the CPU,
                or an `nn.Embedding(sparse=True)` sent a sparse gradient into the sum that
                DistributedDataParallel makes in `backward`.""",
            fix="""Leave `sparse=True` out. If the table is too large for that, use the
                backend gloo, which adds sparse gradients.""",
            tell=(
                "It comes when the model is wrapped: parameters or buffers on the CPU; "
                "`model.cuda()` first.",
                "It comes in `backward`: sparse gradients, as above.",
            ),
            fixed="""
                import torch
                import torch.distributed as dist
                from torch.nn.parallel import DistributedDataParallel

                store = dist.HashStore()
                dist.init_process_group("gloo", store=store, rank=0, world_size=1)
                try:
                    table = DistributedDataParallel(torch.nn.Embedding(3, 2, sparse=True))
                    table(torch.tensor([1])).sum().backward()
                finally:
                    dist.destroy_process_group()
                g = table.module.weight.grad
                assert g.is_sparse and g.to_dense()[1].tolist() == [1.0, 1.0]
                print(g.to_dense())
                """,
            see=("ddp-messages", "sparse-and-nested", "error-sparse-gradients"),
            source=(
                "Lightning-AI/pytorch-lightning#5355",
                "huggingface/accelerate#1599",
                "PT#22037",
            ),
        ),
        Message(
            anchor="distribute-a-computed-tensor",
            title="`distribute_tensor` should be used to distribute leaf tensors! but "
            "found non-leaf tensor!",
            patterns=(
                r"`?distribute_tensor`? should be used to distribute leaf tensors! but "
                r"found non-leaf tensor",
            ),
            why="""`distribute_tensor` makes a new leaf on the mesh. A tensor with a history
                would lose it there, and nothing before it would get a gradient.""",
            fix="""Keep the graph with `DTensor.from_local(t, mesh, placements)`, or
                distribute the leaf and compute from that. For a plain copy:
                `distribute_tensor(t.detach(), …)`.""",
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
                    x = torch.ones(2, requires_grad=True)
                    try:
                        distribute_tensor(x * 3, mesh, [Shard(0)])
                    finally:
                        dist.destroy_process_group()
                """,
            fixed="""
                import tempfile

                import torch
                import torch.distributed as dist
                from torch.distributed.device_mesh import init_device_mesh
                from torch.distributed.tensor import DTensor, Shard

                with tempfile.NamedTemporaryFile() as meeting:
                    dist.init_process_group(
                        "gloo", init_method=f"file://{meeting.name}", rank=0, world_size=1
                    )
                    mesh = init_device_mesh("cpu", (1,))
                    x = torch.ones(2, requires_grad=True)
                    y = DTensor.from_local(x * 3, mesh, [Shard(0)])
                    y.sum().backward()
                    dist.destroy_process_group()
                assert x.grad.tolist() == [3.0, 3.0]
                print(x.grad)
                """,
            see=("sharded-parameters", "error-mixed-tensor-and-dtensor"),
            source=("torch/distributed/tensor/_api.py",),
        ),
        Message(
            anchor="fsdp-training-state",
            title="expected to be in states [<TrainingState.FORWARD_BACKWARD: 2>] but "
            "current state is TrainingState.IDLE",
            kinds=("ValueError", "AssertionError"),
            patterns=(
                r"expected to be in states \[.{0,160}?\] but current state is "
                r"TrainingState",
                r"Expects `BACKWARD_PRE` or `BACKWARD_POST` state but got",
            ),
            older=(
                "expected to be in states [<TrainingState.BACKWARD_POST: 4>] but current "
                "state is TrainingState.IDLE",
                "Expects `BACKWARD_PRE` or `BACKWARD_POST` state but got "
                "HandleTrainingState.FORWARD",
            ),
            why="""`FullyShardedDataParallel` follows each wrapped module through its
                forward and its backward pass by hooks. Here a hook fired that the last
                one had not prepared: `backward` reached parameters of a module whose
                output did not lead to the loss, or the passes were not taken one after
                the other.""",
            fix="""Let the output of each wrapped module lead to the loss (`loss + 0 *
                y.sum()`), call the wrapped root and not a submodule, and `backward` once
                for each forward pass; or move to `fully_shard`.""",
            tell=(
                "The loss uses keys, values or hidden states and the module's last layer "
                "leads nowhere: as reported in pytorch/pytorch#148756.",
                "A branch of the model is left out on some batches, such as images absent: "
                "run it on a dummy and add `0 *` its output.",
                "A checkpoint with `use_reentrant=True` around the module: False.",
                "`backward` in Lightning's hooks after the step: call it in "
                "`training_step`.",
            ),
            see=("sharded-parameters", "error-fsdp-double-backward"),
            source=(
                "PT#148756",
                "Lightning-AI/pytorch-lightning#20138",
                "Lightning-AI/pytorch-lightning#19626",
            ),
        ),
    ),
)
