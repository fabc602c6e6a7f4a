"""Messages of attribution, attention and solver libraries; not reproduced here."""

from pullback._messages._entry import Message, Theme

EXTENSIONS = Theme(
    "extensions",
    (
        Message(
            anchor="attribution-needs-a-target",
            title="Target not provided when necessary, cannot take gradient with respect "
            "to multiple outputs.",
            kinds=("AssertionError",),
            patterns=(
                r"Target not provided when necessary, cannot ?take gradient with respect "
                r"to multiple outputs",
            ),
            why="""Captum differentiates one number for each sample. The model returned
                several, as a classifier does, and none was chosen.""",
            fix="""Pass `target=` the index of the output to explain, one or a list with one
                for each sample; for two dimensions and more a tuple.""",
            tell=(
                "A regression over time steps: explain one step at a time, or wrap the "
                "model to return one number for each sample.",
                "The model returns an object or a tuple (Hugging Face transformers): wrap "
                "it to return the logits, then pass `target=`.",
            ),
            fixed="""
                import torch

                model = torch.nn.Linear(3, 2)
                x = torch.ones(4, 3, requires_grad=True)
                target = 1
                (g,) = torch.autograd.grad(model(x)[:, target].sum(), x)
                assert torch.allclose(g, model.weight[target].expand(4, 3))
                print(g.shape)
                """,
            see=("saliency", "one-component"),
            source=("meta-pytorch/captum#1358", "meta-pytorch/captum#389"),
        ),
        Message(
            anchor="module-used-twice",
            title="A Module ReLU() was detected that does not contain some of the "
            "input/output attributes that are required for DeepLift computations",
            kinds=("AssertionError", "RuntimeError"),
            patterns=(
                r"A Module (?P<module>.{1,80}?) was detected that does not contain some of "
                r"the input/output attributes",
            ),
            why="""DeepLift replaces the backward of each activation by a rule of its own
                and keeps that activation's input and output on the module. A module that is
                called twice in a forward pass has room for one pair only.""",
            fix="""Give each place its own module: `self.relu1`, `self.relu2`. {module} is
                called more than once, or runs in place.""",
            unknown={"module": "One"},
            tell=(
                "torchvision's residual blocks use one `self.relu` twice: set another one "
                "on the block and call it in `forward`.",
                "`inplace=True`: set it to False on every activation.",
                "No error and odd numbers: `nn.ReLU()` made inside `forward` is not seen.",
            ),
            see=("module-hooks", "saliency"),
            source=("meta-pytorch/captum#578", "meta-pytorch/captum#1082"),
        ),
        Message(
            anchor="no-second-derivative-in-a-library",
            title="double backwards on roi_align not supported",
            kinds=("RuntimeError", "NotImplementedError"),
            patterns=(
                r"double backwards? on (?P<operation>\w+) not supported",
                r"backward_backward_input_impl: not implemented",
            ),
            older=(
                "DifferentiableObject::backward_backward_input_impl: not implemented error",
            ),
            why="""The operation comes from a compiled extension that has a backward and no
                derivative of that. A gradient penalty, a normal or a Hessian differentiates
                through the backward.""",
            fix="""For {operation} write the formula with torch's own operations in the part
                that is differentiated twice, or take the inner derivative by finite
                differences, and the outer by `backward`.""",
            unknown={"operation": "such an operation"},
            tell=(
                "torchvision (`roi_align`, `deform_conv2d`): keep it out of the penalty.",
                "tiny-cuda-nn: the message is about one part of the network; `nn.Linear` "
                "in the place of its MLP has every derivative.",
            ),
            see=("no-double-backward", "error-derivative-not-implemented"),
            source=("NVlabs/tiny-cuda-nn#303", "torchvision (csrc/ops/autograd)"),
        ),
        Message(
            anchor="xformers-backward",
            title="No operator found for `memory_efficient_attention_backward` with "
            "inputs:",
            kinds=("NotImplementedError",),
            patterns=(
                r"No operator found for `?memory_efficient_attention_backward",
                r"_dispatch_bw.{0,200}?No operator found for this attention",
            ),
            why="""xformers chooses forward and backward kernels one by one. For these
                shapes, this dtype and this GPU it has a forward and no backward.""",
            fix="""Read the reason under each kernel: it names dtype, head size or GPU. As a
                rule, use `torch.nn.functional.scaled_dot_product_attention`, which always
                finds a backward.""",
            tell=(
                "`dtype=torch.float32`: train in bfloat16 or float16.",
                "xformers 0.0.16 on a GPU such as an RTX 3090: update, as diffusers says.",
                "No gradient is wanted there: `torch.no_grad()` around the frozen part.",
            ),
            fixed="""
                import torch

                q = torch.ones(1, 1, 4, 80, requires_grad=True)
                y = torch.nn.functional.scaled_dot_product_attention(q, q, q)
                y.sum().backward()
                assert q.grad.isfinite().all()
                print(q.grad.shape)
                """,
            see=("error-flash-attention-backward-gpu", "error-derivative-not-implemented"),
            source=("facebookresearch/xformers#799", "huggingface/diffusers#4144"),
        ),
        Message(
            anchor="backward-in-evaluation-mode",
            title="backward pass is invalid for module in evaluation mode",
            kinds=("AssertionError",),
            patterns=(r"backward pass is invalid for module in evaluation mode",),
            why="""`eval()` changes dropout and batch norm, and no gradient. ZeRO stage 3 in
                DeepSpeed before 0.16 kept two plans for gathering weights, one for
                training and one for evaluation, and only the first knew `backward`.""",
            fix="""Update DeepSpeed. Else call `engine.train()` before the forward pass, and
                switch dropout and batch norm off one by one.""",
            tell=(
                "A validation or a generation in between left the model in `eval()`: "
                "`train()` after it.",
                "Gradients are wanted in evaluation (saliency): only the update helps.",
            ),
            see=("sharded-parameters", "error-checkpoint-under-zero3"),
            source=(
                "deepspeedai/DeepSpeed#6662",
                "OpenRLHF/OpenRLHF#118",
                "Lightning-AI/pytorch-lightning#19467",
            ),
        ),
        Message(
            anchor="adjoint-parameters",
            title="func must be an instance of nn.Module to specify the adjoint parameters",
            kinds=("ValueError",),
            patterns=(
                r"`?func`? must be an instance of nn\.Module to specify the adjoint "
                r"parameters",
                r"func is required to be an instance of nn\.Module",
            ),
            older=("func is required to be an instance of nn.Module",),
            why="""`odeint_adjoint` runs the solver without a graph and solves a second
                equation for the gradients. It must be told which tensors they belong to,
                and a plain function does not say.""",
            fix="""Make the right-hand side a module that holds its parameters, or pass
                `adjoint_params=(a, b)`; `()` if there are none. `odeint` needs neither.""",
            tell=(
                "A parameter outside the module gets no gradient, and nothing is said: "
                "name it in `adjoint_params`.",
            ),
            see=("custom-function", "jacobian-of-parameters"),
            source=("rtqichen/torchdiffeq#216", "rtqichen/torchdiffeq#118"),
        ),
        Message(
            anchor="old-checkpointing-format",
            title="You are using an old version of the checkpointing format that is "
            "deprecated (We will also silently ignore `gradient_checkpointing_kwargs` in "
            "case you passed it).",
            kinds=("Warning",),
            patterns=(
                r"You are using an old version of the checkpointing format that is "
                r"deprecated",
            ),
            why="""It is about gradient checkpointing, and not about files. The model brings
                code from before transformers 4.35, which switches checkpoints on by
                itself; `use_reentrant=False` does not reach it.""",
            fix="""The gradient is right. If an error about reentrant checkpoints follows,
                delete `_set_gradient_checkpointing` from the model's file, or use a
                version of the model that is part of transformers.""",
            tell=(
                "With LoRA: call `model.enable_input_require_grads()`, since reentrant "
                "checkpoints need an input that requires a gradient.",
            ),
            see=("checkpointing", "error-checkpoint-inputs-no-grad"),
            source=("huggingface/transformers#27610", "hiyouga/LlamaFactory#1916"),
        ),
        Message(
            anchor="more-backward-than-passes",
            title="Gradients were computed more than backward_passes_per_step times before "
            "call to step()",
            kinds=("AssertionError", "RuntimeError"),
            patterns=(
                r"Gradients were computed more than backward_passes_per_step times",
                r"optimizer\.zero_grad\(\) was called after loss\.backward\(\) but before "
                r"optimizer\.step\(\)",
            ),
            older=(
                "optimizer.zero_grad() was called after loss.backward() but before "
                "optimizer.step() or optimizer.synchronize(). This is prohibited as it can "
                "cause a race condition.",
            ),
            why="""Horovod begins to add up a gradient over the processes as soon as
                `backward` has made it for the last time before `step`, and counts the
                passes to know when that is.""",
            fix="""Set `backward_passes_per_step` of `hvd.DistributedOptimizer` to the
                number of `backward` calls between two steps, and keep the order
                `zero_grad`, `backward`, `step`.""",
            tell=(
                "At the end of an epoch: a last step with fewer passes leaves the count "
                "wrong; step, or drop the rest, before the next epoch.",
                "Two optimizers: a `backward` of one loss also reaches the parameters of "
                "the other; freeze them, or differentiate with `inputs=`.",
            ),
            see=("accumulating-twice", "several-losses"),
            source=("horovod/horovod#1549", "horovod/horovod#2466"),
        ),
    ),
)
