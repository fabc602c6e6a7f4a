"""Messages of ``torch.utils.checkpoint``."""

from pullback._messages._entry import Message, Theme

CHECKPOINTS = Theme(
    "checkpoints",
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
                means True. With it `create_graph=True` works, too. Or call `backward()`
                without `inputs` and read `.grad`.""",
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
                random choice but by torch's default generators (a `torch.Generator` of
                your own is not set back, and with `preserve_rng_state=False` none is), and
                no `eval()`, `.half()` or `requires_grad_(False)` of the model between
                forward and backward pass. `debug=True` shows the operations of both
                runs.""",
            tell=(
                "A dtype differs: `.half()` or `.double()` between the runs. (`autocast` "
                "around the call is restored.)",
                "A shape differs: a cache (keys and values, masks) or a random crop "
                "changed between.",
                "A mixture of experts, and a few rows more or less: the second run routed "
                "other tokens to an expert, as when the block updates the router or the "
                "experts' bias. Update them after `backward`, outside of the block, or "
                "leave routing and experts out of the checkpoint.",
                "The number of tensors differs: an `if` on a state that has changed, "
                "dropout switched off by `eval()`, a layer frozen between.",
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
            anchor="checkpoint-keyword-arguments",
            title="Unexpected keyword arguments: mask",
            kinds=("ValueError",),
            patterns=(
                r"(?:^|ValueError: )Unexpected keyword arguments: (?P<names>\w+(?:,\w+)*)",
                r"Passing `context_fn` or `debug` is only supported when "
                r"use_reentrant=False",
            ),
            older=(
                "Unexpected keyword arguments: attention_mask,use_cache",
                "Passing `context_fn` or `debug` is only supported when "
                "use_reentrant=False.",
            ),
            only_from="checkpoint",
            why="""`torch.utils.checkpoint.checkpoint(f, ..., use_reentrant=True)` takes
                positional arguments for f and nothing else; the kind without reentrance
                also hands on keywords.""",
            fix="""Pass `use_reentrant=False`. Or give f its arguments by position, or
                bound: `checkpoint(functools.partial(f, mask=mask), x)`.""",
            tell=(
                "`partial` and the reentrant kind: a bound tensor gets its gradient only "
                "if one of the arguments by position requires one, too.",
                "A model of Hugging Face transformers: "
                '`gradient_checkpointing_kwargs={"use_reentrant": False}`.',
            ),
            broken="""
                import torch
                from torch.utils.checkpoint import checkpoint

                def f(x, mask):
                    return x**2 * mask

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                checkpoint(f, x, mask=torch.tensor([1.0, 0.0]), use_reentrant=True)
                """,
            fixed="""
                import torch
                from torch.utils.checkpoint import checkpoint

                def f(x, mask):
                    return x**2 * mask

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                mask = torch.tensor([1.0, 0.0])
                checkpoint(f, x, mask=mask, use_reentrant=False).sum().backward()
                assert torch.equal(x.grad, 2 * x * mask)
                print(x.grad)
                """,
            see=("checkpointing", "error-checkpoint-reentrant"),
            source=("torch/utils/checkpoint.py",),
        ),
        Message(
            anchor="checkpoint-output-no-grad",
            title="none of output has requires_grad=True, this checkpoint() is not "
            "necessary",
            patterns=(
                r"none of output has requires_grad=True, this checkpoint\(\) is not",
            ),
            why="""The checkpointed function ran a second time in `backward`, and this time
                its result had no graph: something in it detaches, works under `no_grad`,
                leaves torch, or does not use the input that requires a gradient.""",
            fix="""Take `.detach()`, `torch.no_grad()` and conversions out of the function,
                or leave `checkpoint` out where nothing is differentiated.""",
            broken="""
                import torch
                from torch.utils.checkpoint import checkpoint

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                y = checkpoint(lambda x: x.detach() ** 2, x, use_reentrant=True)
                y.sum().backward()
                """,
            fixed="""
                import torch
                from torch.utils.checkpoint import checkpoint

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                y = checkpoint(lambda x: x**2, x, use_reentrant=False)
                y.sum().backward()
                assert torch.equal(x.grad, 2 * x)
                print(x.grad)
                """,
            see=("checkpointing", "error-checkpoint-inputs-no-grad"),
            source=("torch/utils/checkpoint.py",),
        ),
        Message(
            anchor="checkpoint-unpacked-once",
            title="torch.utils.checkpoint: Unpack is being triggered for a tensor that was "
            "already unpacked once",
            kinds=("CheckpointError",),
            patterns=(
                r"torch\.utils\.checkpoint: Unpack is being triggered for a tensor that "
                r"was already unpacked once",
            ),
            why="""A checkpoint computes what `backward` needs again, hands each tensor out
                once and forgets it. A custom Function that reads `ctx.saved_tensors` twice
                asks twice; so does a hook that reads `grad_fn._saved_self` of a node whose
                backward reads it, too.""",
            fix="""Read `ctx.saved_tensors` once at the top of `backward` and keep the
                names; read no `_saved_…` of a node inside a checkpoint.""",
            broken="""
                import torch
                from torch.utils.checkpoint import checkpoint

                class Product(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, a, b):
                        ctx.save_for_backward(a, b)
                        return a * b

                    @staticmethod
                    def backward(ctx, v):
                        return v * ctx.saved_tensors[1], v * ctx.saved_tensors[0]

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                square = lambda x: Product.apply(x * 1, x * 1)
                checkpoint(square, x, use_reentrant=False).sum().backward()
                """,
            fixed="""
                import torch
                from torch.utils.checkpoint import checkpoint

                class Product(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, a, b):
                        ctx.save_for_backward(a, b)
                        return a * b

                    @staticmethod
                    def backward(ctx, v):
                        a, b = ctx.saved_tensors
                        return v * b, v * a

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                square = lambda x: Product.apply(x * 1, x * 1)
                checkpoint(square, x, use_reentrant=False).sum().backward()
                assert torch.equal(x.grad, 2 * x)
                print(x.grad)
                """,
            see=("checkpointing", "custom-function"),
            source=("torch/utils/checkpoint.py",),
        ),
        Message(
            anchor="selective-checkpoint-twice",
            title="Trying to backward an extra time. You are only allowed to backward "
            "once on any region computed under selective activation checkpoint",
            patterns=(
                r"Trying to backward an extra time\. You are only allowed to backward once "
                r"on any region computed under selective activation checkpoint",
                r"Tensor cached during selective activation checkpoint has been mutated",
            ),
            older=(
                "Tensor cached during selective activation checkpoint has been mutated",
            ),
            why="""Selective checkpointing keeps the results of the operations that you list
                and hands each out once. `retain_graph=True` does not bring them back, as it
                does for a plain checkpoint.""",
            fix="""Take all products in one pass: add the losses up first, or pass a batch
                of v with `is_grads_batched=True`. For several passes use a plain
                `checkpoint`.""",
            tell=(
                "`backward an extra time`: a second `backward` or `grad` through the "
                "region; that of a second derivative is one, too.",
                "`has been mutated`: the region writes in place to a result on the list; "
                "write `y + 1` for `y.add_(1)`. `allow_cache_entry_mutation=True` takes "
                "the message away, and the gradient is wrong.",
            ),
            broken="""
                from functools import partial

                import torch
                from torch.utils import checkpoint as ck

                keep = [torch.ops.aten.mm.default]
                contexts = partial(ck.create_selective_checkpoint_contexts, keep)
                x = torch.eye(2, requires_grad=True)
                y = ck.checkpoint(
                    lambda x: (x @ x).sin(), x, use_reentrant=False, context_fn=contexts
                )
                for v in torch.eye(4).reshape(4, 2, 2):
                    torch.autograd.grad(y, x, v, retain_graph=True)
                """,
            fixed="""
                from functools import partial

                import torch
                from torch.utils import checkpoint as ck

                keep = [torch.ops.aten.mm.default]
                contexts = partial(ck.create_selective_checkpoint_contexts, keep)
                x = torch.eye(2, requires_grad=True)
                y = ck.checkpoint(
                    lambda x: (x @ x).sin(), x, use_reentrant=False, context_fn=contexts
                )
                v = torch.eye(4).reshape(4, 2, 2)
                (rows,) = torch.autograd.grad(y, x, v, is_grads_batched=True)
                J = torch.func.jacrev(lambda x: (x @ x).sin())(x.detach())
                torch.testing.assert_close(rows, J.reshape(4, 2, 2))
                print(rows.shape)
                """,
            see=("checkpointing", "batched-v", "error-backward-second-time"),
            source=("torch/utils/checkpoint.py",),
        ),
    ),
)
