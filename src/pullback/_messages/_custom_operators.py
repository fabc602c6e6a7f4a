"""Messages about operators of one's own, registered with ``torch.library``."""

from pullback._messages._entry import Message, Theme

CUSTOM_OPERATORS = Theme(
    "custom-operators",
    (
        Message(
            anchor="no-autograd-kernel",
            title="an autograd kernel was not registered to the Autograd key(s) but we "
            "are trying to backprop through it",
            kinds=("UserWarning",),
            patterns=(
                r"(?:(?P<operation>[\w:.]+): )?an autograd kernel was not registered to "
                r"the Autograd key\(s\) but we are trying to backprop through it",
            ),
            older=(
                "c10d::allreduce_: an autograd kernel was not registered to the Autograd "
                "key(s) but we are trying to backprop through it. This may lead to "
                "silently incorrect behavior.",
            ),
            why="""The operation has no derivative rule that autograd knows of. Gradients
                pass it by as if it were not there, or stop at it: the numbers are often
                wrong.""",
            fix="""{operation} needs a rule: for `c10d::…` call what stands for it in
                `torch.distributed._functional_collectives` (in earlier releases, and for
                `broadcast`, which has no rule there, `torch.distributed.nn.functional`),
                whose backward communicates, too; for an
                operation of your own `torch.library.register_autograd`. If no gradient
                is wanted, pass it `t.detach()`.""",
            unknown={"operation": "The operation"},
            tell=(
                "`c10d::allreduce_`, `c10d::broadcast_`, `c10d::allgather_`: "
                "communication inside the differentiated part; the gradient does not "
                "cross to the other processes.",
                "Another name: an extension registered its kernels for CPU or CUDA only.",
            ),
            broken="""
                import torch
                import torch.distributed as dist

                store = dist.HashStore()
                dist.init_process_group("gloo", store=store, rank=0, world_size=1)
                try:
                    x = torch.tensor([1.0, 2.0], requires_grad=True)
                    y = x**2
                    dist.all_reduce(y)
                    y.sum().backward()
                finally:
                    dist.destroy_process_group()
                """,
            fixed="""
                import torch
                import torch.distributed as dist
                from torch.distributed._functional_collectives import all_reduce

                store = dist.HashStore()
                dist.init_process_group("gloo", store=store, rank=0, world_size=1)
                try:
                    x = torch.tensor([1.0, 2.0], requires_grad=True)
                    y = all_reduce(x**2, "sum", dist.group.WORLD)
                    y.sum().backward()
                finally:
                    dist.destroy_process_group()
                assert torch.equal(x.grad, 2 * x)
                print(x.grad)
                """,
            see=("across-processes", "error-register-autograd"),
            source=(
                "lucidrains/vector-quantize-pytorch#158",
                "haotian-liu/LLaVA#1893",
            ),
        ),
        Message(
            anchor="register-autograd",
            title="Trying to backward through pages::square.default but no autograd "
            "formula was registered",
            patterns=(
                r"Trying to backward through (?P<operation>[\w:.]+) but no autograd "
                r"formula was registered",
            ),
            why="""An operation made with `torch.library.custom_op` is opaque: autograd does
                not look into it, and it has no rule yet.""",
            fix="""Add the rule for {operation} with `register_autograd(backward,
                setup_context=…)` of what `custom_op` returned: the same two functions as
                in a `torch.autograd.Function`. It serves `backward` and
                `torch.autograd.grad`; for `torch.func.grad` call the operator in such a
                Function.""",
            unknown={"operation": "the operation"},
            broken="""
                import torch

                @torch.library.custom_op("pages::square", mutates_args=())
                def square(x: torch.Tensor) -> torch.Tensor:
                    return x**2

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                square(x).sum().backward()
                """,
            fixed="""
                import torch

                @torch.library.custom_op("pages::square_with_rule", mutates_args=())
                def square(x: torch.Tensor) -> torch.Tensor:
                    return x**2

                def setup_context(ctx, inputs, output):
                    ctx.save_for_backward(*inputs)

                def backward(ctx, v):
                    return 2 * ctx.saved_tensors[0] * v

                square.register_autograd(backward, setup_context=setup_context)
                x = torch.tensor([1.0, 2.0], requires_grad=True)
                square(x).sum().backward()
                assert torch.equal(x.grad, 2 * x)
                print(x.grad)
                """,
            see=("custom-op", "deriving-vjps"),
            source=("torch/_library (autograd.py)",),
        ),
        Message(
            anchor="autograd-of-a-mutating-operator",
            title="Cannot register autograd formula for non-functional operator",
            patterns=(
                r"Cannot register autograd formula for (?:non-functional operator|operator "
                r"tagged with torch\.Tag\.out)",
            ),
            why="""An operator that writes to its argument (`mutates_args`) overwrites what
                its derivative is taken at, so `torch.library` accepts no rule for it.""",
            fix="""Make a functional operator, which returns a new tensor, and register the
                rule for that; call the writing one under `torch.no_grad()` only.""",
            broken="""
                import torch

                @torch.library.custom_op("pages::square_", mutates_args=("x",))
                def square_(x: torch.Tensor) -> None:
                    x.mul_(x)

                square_.register_autograd(lambda ctx, v: None)
                """,
            fixed="""
                import torch

                @torch.library.custom_op("pages::squared", mutates_args=())
                def squared(x: torch.Tensor) -> torch.Tensor:
                    return x * x

                def setup_context(ctx, inputs, output):
                    ctx.save_for_backward(*inputs)

                squared.register_autograd(
                    lambda ctx, v: 2 * ctx.saved_tensors[0] * v,
                    setup_context=setup_context,
                )
                x = torch.tensor([1.0, 2.0], requires_grad=True)
                squared(x).sum().backward()
                assert torch.equal(x.grad, 2 * x)
                print(x.grad)
                """,
            see=("custom-function", "error-register-autograd"),
            source=("torch/library.py",),
        ),
        Message(
            anchor="backward-structure",
            title="Expected the return from backward to be of the same structure as the "
            "inputs",
            patterns=(
                r"Expected the return from backward to be of the same structure as the "
                r"inputs",
            ),
            why="""The operator takes a list of tensors. A rule registered with
                `register_autograd` returns one gradient for each argument, and for the
                list that is a list of the same length.""",
            fix="""Return the gradients in a list where the argument was a list, and None
                for each argument that needs none.""",
            broken="""
                import torch

                @torch.library.custom_op("pages::total", mutates_args=())
                def total(xs: list[torch.Tensor]) -> torch.Tensor:
                    return torch.stack(xs).sum(0)

                total.register_autograd(lambda ctx, v: v)
                x = torch.tensor([1.0, 2.0], requires_grad=True)
                total([x, x]).sum().backward()
                """,
            fixed="""
                import torch

                @torch.library.custom_op("pages::total_of_two", mutates_args=())
                def total(xs: list[torch.Tensor]) -> torch.Tensor:
                    return torch.stack(xs).sum(0)

                total.register_autograd(lambda ctx, v: [v, v])
                x = torch.tensor([1.0, 2.0], requires_grad=True)
                total([x, x]).sum().backward()
                assert x.grad.tolist() == [2.0, 2.0]
                print(x.grad)
                """,
            see=("custom-function", "error-incorrect-number-of-gradients"),
            source=("torch/_library (autograd.py)",),
        ),
    ),
)
