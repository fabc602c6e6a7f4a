"""Messages of trainers and engines: who steps, with what, and in which order."""

from pullback._messages._entry import Message, Theme

TRAINERS = Theme(
    "trainers",
    (
        Message(
            anchor="num-items-in-batch",
            title="CustomTrainer.compute_loss() got an unexpected keyword argument "
            "'num_items_in_batch'",
            kinds=("TypeError",),
            patterns=(r"\(\) got an unexpected keyword argument 'num_items_in_batch'",),
            older=(
                "compute_loss() got an unexpected keyword argument 'num_items_in_batch'",
                "forward() got an unexpected keyword argument 'num_items_in_batch'",
            ),
            why="""Hugging Face's Trainer tells the loss, since transformers 4.46, how many
                tokens all parts of an accumulation have together: a mean over each part
                would weigh a token in a short part more.""",
            fix="""Add the argument to your own `compute_loss(self, model, inputs,
                return_outputs=False, num_items_in_batch=None)`, and divide the sum of the
                losses of the tokens by it where it is not None.""",
            tell=(
                "The method is in a library: its version and that of transformers do not "
                "go together; update it, or stay at transformers 4.45.",
                "`forward()`: `compute_loss` hands all it gets to the model; take the "
                "argument out before.",
            ),
            fixed="""
                import torch
                from torch.nn.functional import cross_entropy

                scores = torch.zeros(3, 4, requires_grad=True)
                labels = torch.tensor([0, 1, 2])
                (whole,) = torch.autograd.grad(cross_entropy(scores, labels), scores)
                num_items_in_batch = 3
                for part in (slice(0, 1), slice(1, 3)):  # parts of one and of two tokens
                    total = cross_entropy(scores[part], labels[part], reduction="sum")
                    (total / num_items_in_batch).backward()
                torch.testing.assert_close(scores.grad, whole)
                print(scores.grad)
                """,
            see=("token-mean", "error-mean-of-unequal-batches"),
            source=(
                "huggingface/transformers#36331",
                "sail-sg/closer-look-LLM-unlearning#1",
                "modelscope/ms-swift#6705",
            ),
        ),
        Message(
            anchor="adamw-of-transformers",
            title="cannot import name 'AdamW' from 'transformers'",
            kinds=("ImportError", "AttributeError", "FutureWarning"),
            patterns=(
                r"cannot import name 'AdamW' from 'transformers(?:\.optimization)?'",
                r"module 'transformers' has no attribute 'AdamW'",
                r"This implementation of AdamW is deprecated and will be removed",
                r"'(?:AdamW|Adam|SGD)' object has no attribute '(?:train|eval)'",
            ),
            older=(
                "module 'transformers' has no attribute 'AdamW'",
                "This implementation of AdamW is deprecated and will be removed in a "
                "future version. Use the PyTorch implementation torch.optim.AdamW instead, "
                "or set `no_deprecation_warning=True` to disable this warning",
                "'AdamW' object has no attribute 'train'",
            ),
            why="""The AdamW of transformers was a copy of the rule that torch has had
                since, and is gone. A `train` method belongs to optimizers without a
                schedule; torch's have none.""",
            fix="""`from torch.optim import AdamW`. Its `weight_decay` is 0.01 unless you
                say otherwise, where the other's was 0; `correct_bias` is always on. For
                the Trainer `optim="adamw_torch"`.""",
            tell=(
                "`has no attribute 'train'`: accelerate 0.33 with transformers 4.45; the "
                "threads report that accelerate 0.34.2 passes.",
            ),
            fixed="""
                import torch

                w = torch.tensor([1.0], requires_grad=True)
                optimizer = torch.optim.AdamW([w], lr=0.1, weight_decay=0.0)
                (3 * w).sum().backward()
                optimizer.step()
                torch.testing.assert_close(w.detach(), torch.tensor([0.9]))
                print(w)
                """,
            see=("decay-or-norm", "optimizer-closures"),
            source=(
                "huggingface/transformers#33620",
                "huggingface/sentence-transformers#1574",
                "unslothai/unsloth#1069",
            ),
        ),
        Message(
            anchor="lightning-several-optimizers",
            title="Training with multiple optimizers is only supported with manual "
            "optimization.",
            kinds=("RuntimeError", "TypeError", "ValueError"),
            patterns=(
                r"Training with multiple optimizers is only supported with manual "
                r"optimization",
                r"training_step\(\) missing 1 required positional argument: "
                r"'optimizer_idx'",
                r"Your LightningModule defines \d+ optimizers but training_step is missing "
                r"the .?optimizer_idx.? argument",
            ),
            older=(
                "training_step() missing 1 required positional argument: 'optimizer_idx'",
                "Your LightningModule defines 2 optimizers but training_step is missing "
                'the "optimizer_idx" argument.',
            ),
            why="""Lightning before 2.0 called `training_step` once for each optimizer and
                told it which by `optimizer_idx`. From 2.0 on it steps one optimizer by
                itself; with two, as for a GAN, the order is yours to say.""",
            fix="""`self.automatic_optimization = False` in `__init__`, no `optimizer_idx`
                among the arguments, and in `training_step` for each optimizer of
                `self.optimizers()`: `zero_grad()`, `self.manual_backward(loss)`,
                `step()`.""",
            tell=(
                "It is set to False already: the argument `optimizer_idx`, with a default "
                "too, brings the message; delete it.",
                "The code cannot be changed: Lightning 1.9.",
            ),
            fixed="""
                import torch

                g, d = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
                steps = [torch.optim.SGD(net.parameters(), lr=0.1) for net in (g, d)]
                z, real = torch.ones(4, 1), torch.zeros(4, 1)
                fake = g(z)
                loss_d = d(real).mean() - d(fake.detach()).mean()
                loss_d.backward()
                assert g.weight.grad is None  # that loss is for d alone
                steps[1].step()
                steps[1].zero_grad()
                (-d(g(z)).mean()).backward(inputs=list(g.parameters()))
                steps[0].step()
                assert d.weight.grad is None
                print(g.weight.grad.shape)
                """,
            see=("fake-for-the-critic", "error-clipping-in-manual-optimization"),
            source=(
                "Lightning-AI/pytorch-lightning#17801",
                "Lightning-AI/pytorch-lightning#7442",
                "hyyan2k/LiSenNet#8",
            ),
        ),
        Message(
            anchor="lightning-no-loss",
            title="In automatic_optimization, when `training_step` returns a dict, the "
            "'loss' key needs to be present",
            kinds=("MisconfigurationException", "RuntimeError"),
            patterns=(
                r"[Ii]n automatic[_ ]optimization, (?:when )?`training_step` (?:returns a "
                r"dict, the 'loss' key|must (?:either )?return a Tensor)",
                r"No `loss` value in the dictionary returned from `model\.training_step",
                r"configure_optimizers` returned `None`, this fit will run with no "
                r"optimizer",
            ),
            older=(
                "In automatic optimization, `training_step` must return a Tensor, a dict, "
                "or None (where the step will be skipped).",
                "No `loss` value in the dictionary returned from `model.training_step()`.",
                "`LightningModule.configure_optimizers` returned `None`, this fit will run "
                "with no optimizer",
            ),
            why="""Lightning calls `backward` on what `training_step` returns, and `step` of
                what `configure_optimizers` returns. It found no loss, or no
                optimizer.""",
            fix="""Return the loss, a tensor with a graph, or a dict that holds it under
                the key "loss". Return the optimizer too.""",
            tell=(
                "`must return a Tensor`: the loss is a number: `.item()` came too early, "
                "or nothing was added to `total = 0`.",
                "The loss has another key, `train_loss`: rename it; log the other name.",
                "`returned None`: the method lacks its `return`; with no optimizer nothing "
                "is learnt, and nothing else says so.",
            ),
            see=("cut-graphs", "error-training-step-returned-none"),
            source=(
                "Lightning-AI/pytorch-lightning#3041",
                "Lightning-AI/pytorch-lightning#7750",
                "openvpi/DiffSinger#197",
            ),
        ),
        Message(
            anchor="engine-without-optimizer",
            title="'DeepSpeedZeRoOffload' object has no attribute 'backward'",
            kinds=("AttributeError", "AssertionError"),
            patterns=(
                r"'DeepSpeedZeRoOffload' object has no attribute '(?:backward|step)'",
                r"must provide optimizer during init in order to use backward",
                r"'DummyOptim' object has no attribute '(?:step|backward)'",
            ),
            older=("must provide optimizer during init in order to use backward",),
            why="""DeepSpeed's `backward` belongs to its optimizer, which also divides and
                scales the gradients. The engine was made without one: with ZeRO-3 it then
                only shards a model for inference.""",
            fix="""Give `deepspeed.initialize` an `optimizer=`, or an "optimizer" section in
                its configuration together with `model_parameters=`.""",
            tell=(
                "Accelerate: pass model, optimizer and data to one call of `prepare`; "
                "`DummyOptim` only with an optimizer in the configuration.",
                "The engine is that of a reference or reward model: `backward` is to be "
                "called on the other one.",
            ),
            see=("sharded-parameters", "error-no-attribute-backward"),
            source=(
                "deepspeedai/DeepSpeed#3024",
                "deepspeedai/DeepSpeed#3516",
                "OpenMOSS/MOSS#273",
            ),
        ),
        Message(
            anchor="inflight-parameters",
            title="still have inflight params [{'id': 586, 'status': 'AVAILABLE', "
            "'numel': 65536, 'ds_numel': 65536, 'shape': (16, 4096)",
            patterns=(
                r"still have inflight params",
                r"\{'id': \d+, 'status': 'INFLIGHT', 'numel': \d+, 'ds_numel': \d+",
            ),
            older=(
                "still have inflight params [<bound method Init._convert_to_deepspeed_param"
                ".<locals>.ds_summary of Parameter containing:",
            ),
            why="""ZeRO-3 fetches the parameters of the next layers ahead of time, in the
                order of an earlier step. A layer was fetched and then not called: a branch
                in `forward` that depends on the data, a mixture of experts, generation in
                between.""",
            fix="""Switch the fetching off (`"stage3_prefetch_bucket_size": 0`), or call
                every layer in every step and multiply by 0 what is not wanted. For experts
                `deepspeed.utils.set_z3_leaf_modules` fetches the whole block at
                once.""",
            tell=(
                "Only after an evaluation, or with generation: update DeepSpeed; several "
                "causes of that kind were mended.",
                "Processes that take different branches hang instead: the same cure.",
            ),
            see=("sharded-parameters", "error-zero-reduced-twice"),
            source=(
                "deepspeedai/DeepSpeed#5828",
                "deepspeedai/DeepSpeed#3156",
                "zhuoyan-xu/AdaLLaVA#3",
            ),
        ),
        Message(
            anchor="inconsistent-gradients",
            title="Fatal error: gradients are inconsistent between workers. Try "
            "--ddp-backend=legacy_ddp.",
            kinds=("FloatingPointError", "AssertionError"),
            patterns=(r"gradients are inconsistent between workers",),
            older=(
                "Fatal error: gradients are inconsistent between workers. Try "
                "--ddp-backend=no_c10d.",
            ),
            why="""fairseq compares the norm of the gradient in all processes after they
                were averaged: it must be the same number everywhere. One of them left a
                parameter out, ran out of memory and skipped its batch, or got nan.""",
            fix="""`--ddp-backend=legacy_ddp` (`no_c10d` before), which averages parameters
                without a gradient as zeros; and look at the list of norms in the
                message.""",
            tell=(
                "One norm is nan or inf: an overflow in that process.",
                "A line about memory before it: smaller batches.",
                "A layer is used in some batches only, or shared: the option above.",
                "GPUs of two kinds: their sums differ in the last digits.",
            ),
            see=("across-processes", "error-ddp-unused-parameters"),
            source=(
                "facebookresearch/fairseq#1372",
                "facebookresearch/fairseq#1359",
                "facebookresearch/fairseq#3920",
            ),
        ),
        Message(
            anchor="opacus-batch-norm",
            title="BatchNorm cannot support training with differential privacy.",
            kinds=("UnsupportedModuleError", "NotImplementedError"),
            patterns=(
                r"BatchNorm cannot support training with differential privacy",
                r"[Gg]rad sampler is not yet implemented for \w+",
                r"Model contains a trainable layer that Opacus doesn'?t currently support",
                r"IllegalModuleConfigurationError\(.{0,4}Model needs to be in training "
                r"mode",
            ),
            older=(
                "[NotImplementedError('grad sampler is not yet implemented for "
                "BatchNorm2d(64, eps=1e-05, momentum=0.1, affine=True')]",
                "UnsupportedModuleError: [IllegalModuleConfigurationError('Model needs to "
                "be in training mode')]",
            ),
            why="""Opacus needs the gradient of each sample. Under a batch norm a sample's
                loss depends on all others, so there is none that is its own; and a layer
                without a rule of Opacus has none that it knows of.""",
            fix="""`ModuleValidator.fix(model)` before the optimizer is made: it puts group
                norms in place of batch norms. Or freeze the layer,
                `requires_grad_(False)`.""",
            tell=(
                "`needs to be in training mode`: `model.train()` before `make_private`.",
                "A layer of your own with parameters: build it from `nn.Linear` and the "
                "like, register a rule, or take `vmap(grad(...))`.",
            ),
            fixed="""
                import torch
                from torch.func import functional_call, grad, vmap

                net = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.GroupNorm(2, 4))
                weights = {k: p.detach() for k, p in net.named_parameters()}

                def loss(weights, x):
                    return functional_call(net, weights, (x[None],)).square().sum()

                each = vmap(grad(loss), in_dims=(None, 0))(weights, torch.ones(3, 2))
                assert each["0.weight"].shape == (3, 4, 2)
                print(each["0.weight"].shape)
                """,
            see=(
                "per-sample-gradients",
                "mixing-samples",
                "error-per-sample-not-initialized",
            ),
            source=(
                "meta-pytorch/opacus#319",
                "meta-pytorch/opacus#618",
                "meta-pytorch/opacus#629",
            ),
        ),
        Message(
            anchor="opacus-accumulation",
            title="Poisson sampling is not compatible with grad accumulation. You need to "
            "call optimizer.step() after every forward/backward pass or consider using "
            "BatchMemoryManager",
            kinds=("ValueError",),
            patterns=(
                r"Poisson sampling is not compatible with grad accumulation",
                r"Gradients haven't been cleared since the last optimizer step",
            ),
            older=(
                "Gradients haven't been cleared since the last optimizer step. In order to "
                "obtain privacy guarantees you must call optimizer.zero_grad() on each "
                "step",
            ),
            why="""The promise of privacy counts one clipped gradient of each sample for
                each step. Gradients that stay from an earlier pass would count a sample
                twice.""",
            fix="""`optimizer.zero_grad()` of the optimizer that `make_private` returned, in
                each step. To fit a large batch into memory wrap the loader in
                `BatchMemoryManager` and leave your own accumulation out.""",
            tell=(
                "A second pass through the model in the same step: `model.eval()` before "
                "an "
                "evaluation; for a penalty one batch of both.",
                "`model.zero_grad()` before the wrapped optimizer: call the optimizer's.",
            ),
            see=("per-sample-gradients", "accumulating-twice"),
            source=("meta-pytorch/opacus#320", "meta-pytorch/opacus#459"),
        ),
    ),
)
