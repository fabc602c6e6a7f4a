"""Messages about blocks that are not open, and names that are not called."""

from pullback._messages._entry import Message, Theme

CALLS = Theme(
    "calls",
    (
        Message(
            anchor="class-as-a-block",
            title="'type' object does not support the context manager protocol",
            kinds=("TypeError", "AttributeError"),
            patterns=(
                r"'type' object does not support the (?:asynchronous )?context manager "
                r"protocol",
                r"set_(?:grad_enabled|detect_anomaly)\.__init__\(\) missing 1 required "
                r"positional argument: 'mode'",
                r"with torch\.(?:autograd\.)?(?:no_grad|enable_grad|inference_mode) ?:"
                r".*AttributeError: __(?:enter|exit)__",
            ),
            older=(
                "set_grad_enabled.__init__() missing 1 required positional argument: "
                "'mode'",
                "set_detect_anomaly.__init__() missing 1 required positional argument: "
                "'mode'",
                "with torch.no_grad: AttributeError: __enter__",
            ),
            only_line=r"no_grad|enable_grad|inference_mode|grad_enabled|detect_anomaly"
            r"|dual_level|autocast|hooks",
            why="""`with` was given a class, such as `torch.no_grad`, and not an object of
                it. Before Python 3.11 the message is no more than `__enter__`.""",
            fix="""Call it: `with torch.no_grad():`, with parentheses. The decorator
                `@torch.no_grad` works either way. `set_grad_enabled` and
                `set_detect_anomaly` want True or False in them.""",
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                with torch.no_grad:
                    x -= 0.1
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                with torch.no_grad():
                    x -= 1
                assert x.is_leaf and x.tolist() == [0.0, 1.0]
                print(x)
                """,
            see=("no-grad-detach", "error-leaf-inplace"),
            source=("reproduced here; no thread found",),
        ),
        Message(
            anchor="method-not-iterable",
            title="'method' object is not iterable",
            kinds=("TypeError",),
            patterns=(r"'method' object is not iterable",),
            only_line=r"param|inputs",
            why="""A method was passed where its result belongs: `model.parameters` is the
                method, `model.parameters()` gives the parameters.""",
            fix="""Add the parentheses: `SGD(model.parameters(), lr=0.1)`,
                `clip_grad_norm_(model.parameters(), 1.0)`,
                `torch.autograd.grad(loss, model.parameters())`.""",
            tell=(
                "Two calls share one variable: `parameters()` is used up after one pass; "
                "keep `list(model.parameters())`.",
            ),
            broken="""
                import torch

                model = torch.nn.Linear(2, 1)
                torch.optim.SGD(model.parameters, lr=0.5)
                """,
            fixed="""
                import torch

                model = torch.nn.Linear(2, 1)
                optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
                before = model.bias.item()
                model(torch.ones(1, 2)).sum().backward()
                optimizer.step()
                torch.testing.assert_close(model.bias.item(), before - 0.5)
                print(model.bias.grad)
                """,
            see=("jacobian-of-parameters", "error-optimizer-wants-tensors"),
            source=("torch/optim/optimizer.py", "torch/autograd/__init__.py"),
        ),
        Message(
            anchor="distributed-autograd-context",
            title="Need to initialize distributed autograd using "
            "torch.distributed.autograd.init()",
            patterns=(
                r"Need to initialize distributed autograd using "
                r"torch\.distributed\.autograd\.init\(\)",
                r"Could not find autograd context with id: \d+",
                r"Current thread doesn't have a valid autograd context",
                r"Already have an autograd context id for this thread",
            ),
            older=(
                "Could not find autograd context with id: 4611404543450677248",
                "Current thread doesn't have a valid autograd context. Please wrap your "
                "code using: `with torch.distributed.autograd.context() as context_id` to "
                "generate a valid context",
                "Already have an autograd context id for this thread.",
            ),
            why="""`torch.distributed.autograd` keeps the gradients of one backward pass
                over several processes in a context, and not in `.grad`. There is none
                before RPC has been started, and none after its `with` block.""",
            fix="""Call `rpc.init_rpc(name, rank=..., world_size=...)` first: that
                initializes it, and there is no `init` to call. Then forward pass,
                `dist_autograd.backward(context, [loss])`, `get_gradients(context)` and the
                optimizer's step inside one `with dist_autograd.context() as context:`.""",
            tell=(
                "`Need to initialize`: `init_rpc` has not run in this process.",
                "`Could not find autograd context`: the block is over, or the number is "
                "another block's.",
                "`Already have`: one block inside another.",
                "You want data-parallel training and no remote calls: "
                "DistributedDataParallel needs none of this, call `loss.backward()`.",
            ),
            broken="""
                import torch
                import torch.distributed.autograd as dist_autograd

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                with dist_autograd.context() as context:
                    dist_autograd.backward(context, [(x**2).sum()])
                """,
            fixed="""
                import tempfile
                import warnings

                import torch
                import torch.distributed.autograd as dist_autograd
                from torch.distributed import rpc

                warnings.filterwarnings("ignore", "You are using a Backend")  # init_rpc's
                x = torch.tensor([1.0, 2.0], requires_grad=True)
                with tempfile.NamedTemporaryFile() as meeting:
                    options = rpc.TensorPipeRpcBackendOptions(
                        init_method=f"file://{meeting.name}"
                    )
                    rpc.init_rpc("alone", rank=0, world_size=1, rpc_backend_options=options)
                    with dist_autograd.context() as context:
                        dist_autograd.backward(context, [(x**2).sum()])
                        g = dist_autograd.get_gradients(context)[x]
                    rpc.shutdown()
                assert torch.equal(g, 2 * x)
                assert x.grad is None
                print(g)
                """,
            see=("across-processes", "rows-across-ranks"),
            source=("torch/csrc/distributed (autograd/context/container.cpp)",),
        ),
        Message(
            anchor="mutation-context-is-over",
            title="Trying to backward outside of the 'allow_mutation_on_saved_tensors' "
            "context in which the graph was originally recorded",
            kinds=("AssertionError", "RuntimeError"),
            patterns=(
                r"Trying to backward outside of the 'allow_mutation_on_saved_tensors' "
                r"context ?in which the graph was originally recorded",
                r"allow_mutation_on_saved_tensors contexts cannot be nested",
            ),
            older=("allow_mutation_on_saved_tensors contexts cannot be nested",),
            why="""`allow_mutation_on_saved_tensors` keeps a copy of each saved tensor that
                is written to, and lets go of the copies when its block ends. After that
                `backward` could find changed numbers, and is refused whether anything was
                written to or not.""",
            fix="""Call `backward` inside the same `with` block as the forward pass, and
                open no second one inside it.""",
            broken="""
                import torch
                from torch.autograd.graph import allow_mutation_on_saved_tensors

                x = torch.tensor([0.0, 1.0], requires_grad=True)
                with allow_mutation_on_saved_tensors():
                    y = x.exp()
                    y.add_(1)
                y.sum().backward()
                """,
            fixed="""
                import torch
                from torch.autograd.graph import allow_mutation_on_saved_tensors

                x = torch.tensor([0.0, 1.0], requires_grad=True)
                with allow_mutation_on_saved_tensors():
                    y = x.exp()
                    y.add_(1)
                    y.sum().backward()
                torch.testing.assert_close(x.grad, x.detach().exp())
                print(x.grad)
                """,
            see=("in-place", "error-modified-by-an-inplace-operation"),
            source=("torch/autograd/graph.py",),
        ),
    ),
)
