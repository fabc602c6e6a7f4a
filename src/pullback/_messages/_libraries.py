"""Messages of libraries that call backward for you; not reproduced here."""

from pullback._messages._entry import Message, Theme

LIBRARIES = Theme(
    "libraries",
    (
        Message(
            anchor="zero-no-sync",
            title="no_sync context manager is incompatible with gradient partitioning "
            "logic of ZeRO stage 3",
            kinds=("AssertionError",),
            patterns=(
                r"no.sync context manager is incompatible with gradient ?partitioning "
                r"logic of ZeR[Oo] stage",
            ),
            why="""In ZeRO stages 2 and 3 each process keeps its share of a gradient only,
                so DeepSpeed must reduce in every `backward`. `no_sync` asks it to leave
                that out in all steps of an accumulation but the last.""",
            fix="""Let DeepSpeed accumulate: set `gradient_accumulation_steps` in its
                configuration, call `engine.backward(loss)` and `engine.step()` for each
                part, and leave `no_sync` out.""",
            tell=(
                "Trainer or Accelerate call `no_sync` for you: update both together with "
                "DeepSpeed. The check came with DeepSpeed 0.16.0; the threads report that "
                "0.15.4 passes.",
                "It comes with several steps of accumulation only: with "
                "`gradient_accumulation_steps=1` nobody asks for `no_sync`.",
                "The model fits: ZeRO stage 1, which leaves gradients whole, takes it.",
            ),
            see=("accumulating-twice", "sharded-parameters"),
            source=("deepspeedai/DeepSpeed#6793", "huggingface/accelerate#3481"),
        ),
        Message(
            anchor="zero-reduced-twice",
            title="The parameter 388 has already been reduced. Gradient computed twice for "
            "this partition. Multiple gradient reduction is currently not supported",
            kinds=("AssertionError",),
            patterns=(
                r"The parameter (?P<index>\d+) has already been reduced",
                r"Gradient computed twice for this partition\. Multiple gradient reduction "
                r"is currently not supported",
            ),
            why="""ZeRO sums a gradient over the processes as soon as a hook tells it that
                the gradient is complete. Here the hook of one parameter fired twice in one
                step, and the first sum would miss a part.""",
            fix="""Make one forward and one backward pass of each step: put both inputs
                into one batch, add the losses, and checkpoint with
                `use_reentrant=False`.""",
            tell=(
                "A preference loss or two encoders call the model twice, with reentrant "
                "checkpoints: each call has a backward of its own inside, and the "
                "parameter's gradient comes twice. In Hugging Face transformers "
                '`gradient_checkpointing_kwargs={"use_reentrant": False}`; the threads '
                "also report that it goes away without checkpoints.",
                "`backward` is called twice before `step`: add the losses.",
            ),
            see=("error-ddp-ready-only-once", "checkpointing"),
            source=(
                "huggingface/transformers#18330",
                "xfactlab/orpo#9",
                "OpenSenseNova/piccolo-embedding#8",
            ),
        ),
        Message(
            anchor="use-cache-and-checkpoints",
            title="`use_cache=True` is incompatible with gradient checkpointing. Setting "
            "`use_cache=False`...",
            kinds=("Warning",),
            patterns=(
                r"`?use_cache ?= ?True`? is incompatible with gradient checkpointing",
            ),
            why="""The cache of keys and values helps to generate word after word. A
                checkpoint runs each layer a second time during `backward`, and would fill
                that cache twice; so the library switches it off. The gradient is
                right.""",
            fix="""Nothing is wrong. For silence set `model.config.use_cache = False` before
                training, and True again before you generate.""",
            tell=(
                "An error follows: it is another one; look up the last line of the "
                "traceback.",
            ),
            see=("checkpointing", "error-checkpoint-inputs-no-grad"),
            source=("modelscope/ms-swift#22", "yuanzhoulvpi2017/zero_nlp#49"),
        ),
        Message(
            anchor="purely-quantized-model",
            title="You cannot perform fine-tuning on purely quantized models. Please "
            "attach trainable adapters on top of the quantized model",
            kinds=("ValueError",),
            patterns=(r"You cannot perform fine-tuning on purely quantized models",),
            why="""The weights are stored in 8 or 4 bits and frozen, and nothing else can
                be trained: `backward` would find no parameter to fill.""",
            fix="""Put trainable adapters on the frozen weights (`peft.get_peft_model(model,
                LoraConfig(...))`) before you make the Trainer, or load the model in
                float16 or bfloat16.""",
            tell=(
                "You call `merge_and_unload()` before training: it takes the adapters away "
                "again.",
                "The adapters are your own, without peft: the Trainer does not see them; "
                "train with a loop of your own.",
            ),
            fixed="""
                import torch

                frozen = torch.tensor([[2.0, 0.0], [0.0, 2.0]])  # dequantized weights
                down = torch.ones(1, 2, requires_grad=True)
                up = torch.zeros(2, 1, requires_grad=True)
                x = torch.tensor([1.0, 3.0])
                (frozen @ x + up @ (down @ x)).sum().backward()
                assert torch.equal(up.grad, torch.full((2, 1), 4.0))  # down @ x
                assert frozen.grad is None
                print(up.grad)
                """,
            see=("quantized", "error-only-floating-point"),
            source=("unslothai/unsloth#241", "BAAI-DCAI/Bunny#112"),
        ),
        Message(
            anchor="gradient-overflow",
            title="Gradient overflow. Skipping step, loss scaler 0 reducing loss scale to "
            "32768.0",
            kinds=("Warning", "Exception", "FloatingPointError"),
            patterns=(
                r"Gradient overflow\. ?Skipping step, loss scaler \d+ reducing loss scale",
                r"OVERFLOW! Rank \d+ Skipping step\. Attempted loss scale",
                r"Current loss scale already at minimum - cannot decrease scale anymore",
                r"Minimum loss scale reached \([\d.e-]+\)\. Your loss is probably "
                r"exploding",
            ),
            older=(
                "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, "
                "reducing to 32768.0",
                "Current loss scale already at minimum - cannot decrease scale anymore. "
                "Exiting run.",
                "Minimum loss scale reached (0.0001). Your loss is probably exploding.",
            ),
            why="""With float16 the loss is multiplied by a scale, that is v is not 1 but
                65536, so that small gradients do not round to zero. An inf or nan among
                the gradients means that the scale was too large: the step is left out and
                the scale halved. A scale that falls without end means that they are inf or
                nan at any scale.""",
            fix="""A few times at the start, and now and then later: nothing is wrong. In
                every step: look for the nan in the loss itself, and train in bfloat16,
                which needs no scale.""",
            tell=(
                "The weights were trained in bfloat16 and are loaded as float16: values "
                "above 65504 become inf. Use bfloat16.",
                "The loss is nan before `backward`: the forward pass made it; print the "
                "loss and the inputs.",
                "The loss is finite, a gradient is not: `torch.autograd.detect_anomaly()` "
                "names the operation.",
                "It diverges after many good steps: a smaller learning rate, or clip.",
            ),
            fixed="""
                import torch

                w = torch.tensor([1.0], requires_grad=True)
                optimizer = torch.optim.SGD([w], lr=0.5)
                scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
                for factor in (float("inf"), 1.0):  # an overflow, then a good step
                    optimizer.zero_grad()
                    scaler.scale((w * factor).sum()).backward()
                    scaler.step(optimizer)
                    scaler.update()
                assert scaler.get_scale() == 2.0
                assert w.item() == 0.5  # one step, not two
                print(scaler.get_scale(), w.item())
                """,
            see=("mixed-precision", "error-returned-nan-values", "error-unscale-fp16"),
            source=("NVIDIA/apex#318", "NVIDIA/apex#834", "ymcui/Chinese-LLaMA-Alpaca#534"),
        ),
        Message(
            anchor="fused-and-clipping",
            title="The current optimizer, AdamW, does not allow for gradient clipping "
            "because it performs unscaling of gradients internally. HINT: Are you using a "
            "'fused' optimizer?",
            patterns=(
                r"The current optimizer, (?P<name>\w+), does not allow for gradient "
                r"clipping because it performs unscaling of gradients internally",
            ),
            why="""With float16 the gradients hold a scale until the step. A fused optimizer
                divides by it inside its step, so before the step Lightning has no
                unscaled gradients to clip.""",
            fix="""Pass `fused=False` to {name}, or leave `gradient_clip_val` out.""",
            unknown={"name": "the optimizer"},
            see=("mixed-precision", "error-unscale-twice"),
            source=("Lightning-AI/pytorch-lightning#15501",),
        ),
        Message(
            anchor="training-step-returned-none",
            title="`training_step` returned `None`. If this was on purpose, ignore this "
            "warning...",
            kinds=("UserWarning",),
            patterns=(r"`?training_step`? returned `?None`?\. If this was on purpose",),
            why="""Lightning calls `backward` on what `training_step` returns. It got None,
                so for this batch there is no backward pass and no step.""",
            fix="""End `training_step` with `return loss`; `self.log("loss", loss)` only
                writes it down.""",
            tell=(
                "You skip bad batches on purpose, on one device: nothing is wrong.",
                "Several processes: if one of them skips, the others wait for its "
                "gradients; return a loss of zero that depends on the parameters.",
            ),
            see=("error-no-attribute-backward", "error-ddp-unused-parameters"),
            source=("Lightning-AI/pytorch-lightning#5577", "graviraja/MLOps-Basics#14"),
        ),
        Message(
            anchor="per-sample-not-initialized",
            title="Per sample gradient is not initialized. Not updated in backward pass?",
            kinds=("ValueError", "AttributeError"),
            patterns=(
                r"Per sample gradient is not initialized",
                r"'Parameter' object has no attribute 'grad_(?:sample|batch)'",
            ),
            older=(
                "'Parameter' object has no attribute 'grad_sample'",
                "'Parameter' object has no attribute 'grad_batch'",
            ),
            why="""Opacus fills `p.grad_sample`, a gradient for each sample, from hooks on
                the layers. A parameter that the optimizer holds has none: no hook of its
                layer ran between forward and backward.""",
            fix="""Give the optimizer the parameters that the loss uses:
                `p.requires_grad_(False)` for the others, before the optimizer and
                `make_private`.""",
            tell=(
                "A layer is made in `__init__` and not called in `forward`: delete it.",
                "A weight is used without calling its layer, `F.linear(x, layer.weight)`: "
                "call the layer.",
                "`has no attribute`: the model was not made one of the library's "
                "(`make_private` of Opacus, `extend` of BackPACK), or that layer was not.",
                "A parameter is in no layer that Opacus has a rule for: register one, or "
                "take `vmap(grad(...))` for the gradients.",
            ),
            see=("per-sample-gradients",),
            source=("meta-pytorch/opacus#502", "f-dangel/backpack#270"),
        ),
        Message(
            anchor="nan-in-local-grad-norm",
            title="found NaN in local grad norm in backward pass before data-parallel "
            "communication collective",
            kinds=("AssertionError", "RuntimeError"),
            patterns=(r"found (?:NaN|nan|Inf|inf) in local grad norm",),
            why="""Megatron looks at the gradients of each process before it sums them: one
                nan would reach all the others. This process made one.""",
            fix="""Take the batch of that step and that rank, and run it on one process with
                `torch.autograd.detect_anomaly()`, which names the operation.""",
            tell=(
                "The loss is nan or inf already: look at the forward pass.",
                "A sample without any target: a mean over nothing is 0/0. Divide by "
                "`mask.sum().clamp(min=1)`.",
                "It goes away when the same steps run again: the hardware or a race in a "
                "kernel; the threads tell of both.",
            ),
            fixed="""
                import torch

                losses = torch.tensor([1.0, 2.0], requires_grad=True)
                mask = torch.tensor([0.0, 0.0])  # no target in this sample
                loss = (losses * mask).sum() / mask.sum().clamp(min=1)
                loss.backward()
                assert losses.grad.tolist() == [0.0, 0.0]
                print(losses.grad)
                """,
            see=("masked-nan", "error-returned-nan-values"),
            source=("NVIDIA/Megatron-LM#780", "alibaba/Pai-Megatron-Patch#366"),
        ),
        Message(
            anchor="no-gradient-checkpointing",
            title="ChatGLMForConditionalGeneration does not support gradient "
            "checkpointing.",
            kinds=("ValueError",),
            patterns=(r"(?P<model>\w+) does not support gradient checkpointing",),
            older=("AlbertForMaskedLM does not support gradient checkpointing.",),
            why="""`gradient_checkpointing_enable()` of Hugging Face transformers sets a
                switch that each model must look at in its own code. This one does not, so
                it would change nothing.""",
            fix="""Train {model} without it, or checkpoint the layers yourself: a checkpoint
                around each call of a layer.""",
            unknown={"model": "the model"},
            tell=(
                "The code came with the weights (`trust_remote_code=True`): take both of "
                "one time, the code's newer revision or the older library.",
                "The model is a part of transformers: update it; many have got the switch "
                "since.",
            ),
            fixed="""
                import torch
                from torch.utils.checkpoint import checkpoint

                torch.manual_seed(0)  # two layers that differ
                layers = [torch.nn.Linear(2, 2) for _ in range(2)]
                x = torch.ones(1, 2, requires_grad=True)
                y = x
                for layer in layers:
                    y = checkpoint(layer, y, use_reentrant=False)
                y.sum().backward()
                expected = torch.ones(1, 2) @ layers[1].weight @ layers[0].weight
                torch.testing.assert_close(x.grad, expected.detach())
                print(x.grad.shape)
                """,
            see=("checkpointing", "error-use-cache-and-checkpoints"),
            source=("huggingface/transformers#17464", "hiyouga/LlamaFactory#1550"),
        ),
        Message(
            anchor="checkpoint-under-zero3",
            title="Recomputed values for the following tensors have different metadata "
            "than during the forward pass … recomputed metadata: {'shape': torch.Size([0])",
            kinds=("CheckpointError",),
            patterns=(
                r"Recomputed values for the following tensors have different metadata.*?"
                r"recomputed metadata: \{'shape': torch\.Size\(\[0\]\)",
            ),
            older=(
                "torch.utils.checkpoint: Recomputed values for the following tensors have "
                "different metadata than during the forward pass. tensor at position 4: "
                "saved metadata: {'shape': torch.Size([4096]), 'dtype': torch.bfloat16, "
                "'device': device(type='cuda', index=0)} recomputed metadata: {'shape': "
                "torch.Size([0]), 'dtype': torch.bfloat16, 'device': device(type='cuda', "
                "index=0)}",
            ),
            why="""A weight was whole in the forward pass and has no elements when the
                checkpoint computes it a second time: ZeRO-3 has given a frozen parameter
                back to the processes in between, as it does with adapters (LoRA) on a
                frozen model.""",
            fix="""Under DeepSpeed ZeRO-3 checkpoint with `use_reentrant=True`, or use
                ZeRO-2, where weights stay whole, or update DeepSpeed.""",
            tell=(
                "Hugging Face transformers: "
                '`gradient_checkpointing_kwargs={"use_reentrant": True}`.',
                "No DeepSpeed and no other sharding: something in your function was empty "
                "the second time, a mask, a cache, or what a batch norm keeps, after an "
                "`eval()` in between; see the page without `[0]`.",
                "With `use_reentrant=True` none of the inputs requires a gradient: "
                "`model.enable_input_require_grads()`.",
            ),
            see=("error-checkpoint-metadata", "sharded-parameters"),
            source=(
                "deepspeedai/DeepSpeed#8148",
                "huggingface/transformers#47254",
                "huggingface/trl#2514",
            ),
        ),
        Message(
            anchor="no-loss-from-the-model",
            title="The model did not return a loss from the inputs, only the following "
            "keys: logits.",
            kinds=("ValueError", "KeyError"),
            patterns=(r"The model did not return a loss from the inputs",),
            why="""The Trainer of transformers calls `backward` on the loss that the model
                returns. The model computes one only if the batch has labels under the name
                that it expects.""",
            fix="""Name that column `labels` in the data set, or give the Trainer a
                `compute_loss_func`, or override `compute_loss`.""",
            tell=(
                "The column is called `label` or `target`: rename it to `labels`. The "
                "message lists what the model received.",
                "`remove_unused_columns` took it away: its name must be an argument of the "
                "model's `forward`.",
                "A language model: `DataCollatorForLanguageModeling(tokenizer, mlm=False)` "
                "makes the labels.",
                "A bare model (`AutoModel`) has no head and no loss: take one for the "
                "task.",
            ),
            see=("external-loss", "error-no-attribute-backward"),
            source=("huggingface/transformers#34392", "artidoro/qlora#179"),
        ),
        Message(
            anchor="closure-not-executed",
            title="The closure hasn't been executed. HINT: did you call "
            "`optimizer_closure()` in your `optimizer_step` hook?",
            kinds=("MisconfigurationException",),
            patterns=(r"The closure hasn't been executed\. HINT: did you call",),
            why="""Lightning puts forward pass, `zero_grad` and `backward` into a closure
                and hands it to `optimizer.step`. It came back uncalled, so there was no
                backward pass in this step.""",
            fix="""In `optimizer_step` call `optimizer.step(closure=optimizer_closure)`; an
                optimizer of your own must call `closure()` in its `step`, under
                `torch.enable_grad()`.""",
            tell=(
                "A scheduler or a library steps the optimizer itself: use manual "
                "optimization, `self.automatic_optimization = False`.",
                "Steps are skipped on purpose: call `optimizer_closure()` all the same.",
            ),
            see=("optimizer-closures", "frameworks"),
            source=("Lightning-AI/pytorch-lightning#9360", "spmallick/learnopencv#757"),
        ),
        Message(
            anchor="clipping-in-manual-optimization",
            title="Automatic gradient clipping is not supported for manual optimization. "
            "Remove `Trainer(gradient_clip_val=1.0)` or switch to automatic optimization.",
            kinds=("MisconfigurationException",),
            patterns=(
                r"Automatic gradient clipping is not supported for manual optimization",
            ),
            why="""In manual optimization you decide when `backward` and `step` run, and
                Lightning does not know the moment between them, in which gradients are
                complete and can be clipped.""",
            fix="""Leave `gradient_clip_val` out of the Trainer and clip yourself, after
                `self.manual_backward(loss)`: `self.clip_gradients(optimizer,
                gradient_clip_val=1.0, gradient_clip_algorithm="norm")`.""",
            see=("gradient-norms", "frameworks"),
            source=("galilai-group/stable-pretraining#246",),
        ),
    ),
)
