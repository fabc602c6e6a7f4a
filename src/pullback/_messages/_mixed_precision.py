"""Messages of mixed precision: ``autocast`` and ``GradScaler``."""

from pullback._messages._entry import Message, Theme

MIXED_PRECISION = Theme(
    "mixed-precision",
    (
        Message(
            anchor="no-inf-checks",
            title="No inf checks were recorded for this optimizer",
            kinds=("AssertionError",),
            patterns=(
                r"No inf checks were recorded for this optimizer",
                r"Attempted (?:step|unscale_|update) but _scale is None",
                r"No inf checks were recorded prior to update",
            ),
            older=(
                "Attempted step but _scale is None. This may indicate your script did not "
                "use scaler.scale(loss or outputs) earlier in the iteration.",
                "No inf checks were recorded prior to update.",
            ),
            why="""`GradScaler.step` looks at the optimizer's gradients for infinities, and
                there are none to look at: no `.grad` of its parameters was filled by a
                scaled `backward`.""",
            fix="""Call `scaler.scale(loss).backward()` and not `loss.backward()`, and check
                that the optimizer holds the parameters which that loss depends on. Call
                `scaler.update()` only after `scaler.step`.""",
            tell=(
                "`_scale is None`: `scaler.scale` was never called.",
                "`No inf checks`: `.grad` of all its parameters is None: another model's "
                "parameters, all of them frozen, or `zero_grad` between.",
                "`prior to update`: `scaler.update()` ran in a round without "
                "`scaler.step`, as between accumulated batches; call it after a step only.",
                "Several optimizers: call `scaler.step` only for those whose loss was "
                "differentiated in this step.",
            ),
            broken="""
                import torch

                used = torch.ones(2, requires_grad=True)
                other = torch.ones(2, requires_grad=True)
                optimizer = torch.optim.SGD([other], lr=0.1)
                scaler = torch.amp.GradScaler("cpu")
                scaler.scale((used**2).sum()).backward()
                scaler.step(optimizer)
                """,
            fixed="""
                import torch

                used = torch.ones(2, requires_grad=True)
                optimizer = torch.optim.SGD([used], lr=0.5)
                scaler = torch.amp.GradScaler("cpu")
                scaler.scale((used**2).sum()).backward()
                scaler.step(optimizer)
                scaler.update()
                assert torch.equal(used, torch.zeros(2))
                print(used)
                """,
            see=("mixed-precision", "grad-is-none"),
            source=("torch/amp/grad_scaler.py",),
        ),
        Message(
            anchor="unscale-twice",
            title="unscale_() has already been called on this optimizer since the last "
            "update()",
            patterns=(
                r"unscale_\(\) has already been called on this optimizer since the last "
                r"update\(\)",
                r"unscale_\(\) is being called after step\(\)",
                r"step\(\) has already been called since the last update\(\)",
            ),
            older=(
                "unscale_() is being called after step().",
                "step() has already been called since the last update().",
            ),
            why="""The loss was multiplied by a scale, and `unscale_` divides the gradients
                by it. A second division would make them too small.""",
            fix="""Once for each optimizer and step, in this order:
                `scale(loss).backward()`, `unscale_`, clip, `step`, and one `update()` at
                the end. With accumulated gradients, unscale only before the step.""",
            tell=(
                "`after step()`, or `step() has already been called`: `scaler.update()` is "
                "missing at the end of the loop.",
                "`unscale_() has already been called`: two clippings, or one in each part "
                "of an accumulated step.",
            ),
            broken="""
                import torch

                w = torch.ones(2, requires_grad=True)
                optimizer = torch.optim.SGD([w], lr=0.5)
                scaler = torch.amp.GradScaler("cpu")
                for part in range(2):
                    scaler.scale((w**2).sum() / 2).backward()
                    scaler.unscale_(optimizer)
                """,
            fixed="""
                import torch

                w = torch.ones(2, requires_grad=True)
                optimizer = torch.optim.SGD([w], lr=0.5)
                scaler = torch.amp.GradScaler("cpu")
                for part in range(2):
                    scaler.scale((w**2).sum() / 2).backward()
                scaler.unscale_(optimizer)
                assert torch.equal(w.grad, 2 * w)
                scaler.step(optimizer)
                scaler.update()
                print(w)
                """,
            see=("grad-scaler-order", "mixed-precision"),
            source=("torch/amp/grad_scaler.py",),
        ),
        Message(
            anchor="unscale-fp16",
            title="Attempting to unscale FP16 gradients",
            kinds=("ValueError",),
            patterns=(r"Attempting to unscale FP16 gradients",),
            why="""Mixed precision keeps the parameters in float32 and lets `autocast`
                compute in float16. This model's parameters are float16 themselves, so
                their gradients are, too, and small ones would underflow when unscaled.""",
            fix="""Keep the parameters that you train in float32, and compute inside
                `torch.autocast`; for an all-bfloat16 model drop the scaler.""",
            tell=(
                "You called `model.half()`: leave it out.",
                "The model was loaded in float16: load it in float32, or call "
                "`model.float()` before the optimizer is made.",
                "Adapters (LoRA) on a frozen float16 model: convert the trained ones "
                "alone, `p.data = p.data.float()` for each `p` with `p.requires_grad`.",
            ),
            broken="""
                import torch

                w = torch.ones(2, dtype=torch.float16, requires_grad=True)
                optimizer = torch.optim.SGD([w], lr=0.5)
                scaler = torch.amp.GradScaler("cpu")
                scaler.scale((w**2).sum()).backward()
                scaler.step(optimizer)
                """,
            fixed="""
                import torch

                w = torch.ones(2, requires_grad=True)
                optimizer = torch.optim.SGD([w], lr=0.5)
                scaler = torch.amp.GradScaler("cpu")
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    loss = (w**2).sum()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                assert torch.equal(w, torch.zeros(2))
                print(w)
                """,
            see=("mixed-precision",),
            source=("torch/amp/grad_scaler.py",),
        ),
        Message(
            anchor="same-dtype",
            title="mat1 and mat2 must have the same dtype, but got Double and Float",
            patterns=(
                r"mat1 and mat2 must have the same dtype, but got (?P<one>\w+) and "
                r"(?P<other>\w+)",
                r"expected m(?:at)?1 and m(?:at)?2 to have the same dtype, but got: "
                r"(?P<one>(?:long |short |struct )?[\w:]+(?:<\w+>)?) != "
                r"(?P<other>(?:long |short |struct )?[\w:]+(?:<\w+>)?)",
                r"expected scalar type (?P<other>(?!Long)\w+) but found (?P<one>\w+)",
                r"Input type \((?P<one>[^)]+)\) and (?:weight|bias) type "
                r"\((?P<other>[^)]+)\) should be the same",
                r"RNN input dtype \((?P<one>[\w.]+)\) does not match weight "
                r"dtype \((?P<other>[\w.]+)\)",
            ),
            older=(
                "expected m1 and m2 to have the same dtype, but got: double != float",
                "expected scalar type Float but found Double",
                "Input type (double) and bias type (float) should be the same",
                "RNN input dtype (torch.float64) does not match weight dtype "
                "(torch.float32). Convert input: input.to(torch.float32), or "
                "convert model: model.to(torch.float64)",
                "Input type (torch.FloatTensor) and weight type "
                "(torch.cuda.FloatTensor) should be the same",
            ),
            why="""Products of matrices and convolutions do not convert dtypes. NumPy makes
                float64, a model has float32 parameters, `autocast` and `.half()` make half
                precision.""",
            kinds=("RuntimeError", "ValueError"),
            fix="""One is {one}, the other {other}: `x.to(layer.weight)` for the data, which
                takes dtype and device, or `.double()` for the model, as gradcheck needs
                it.""",
            tell=(
                "Double: the data came from NumPy. Long: it is integers; `x.float()`.",
                "Half or BFloat16: a result of `autocast` is used outside it, or the model "
                "was loaded in half precision.",
                "`torch.FloatTensor` against `torch.cuda.FloatTensor`: the "
                "devices differ and not the dtypes; move both to one device.",
            ),
            broken="""
                import numpy as np
                import torch

                layer = torch.nn.Linear(2, 1)
                layer(torch.from_numpy(np.ones((3, 2)))).sum().backward()
                """,
            fixed="""
                import numpy as np
                import torch

                layer = torch.nn.Linear(2, 1)
                x = torch.from_numpy(np.ones((3, 2)))
                layer(x.to(layer.weight.dtype)).sum().backward()
                assert torch.equal(layer.weight.grad, torch.full((1, 2), 3.0))
                print(layer.weight.grad)
                """,
            see=("error-found-dtype", "gradcheck"),
            source=("aten/src/ATen/native/cpu (linear algebra)",),
        ),
        Message(
            anchor="scaler-wants-tensors",
            title="outputs must be a Tensor or an iterable of Tensors",
            kinds=("ValueError",),
            patterns=(r"outputs must be a Tensor or an iterable of Tensors",),
            only_from="apply_scale",
            why="""`scaler.scale` multiplies a loss, so that its small gradients survive
                float16. It was given a number, which has no gradient.""",
            fix="""Scale the tensor: `scaler.scale(loss).backward()`, and take
                `loss.item()` for the log afterwards.""",
            tell=(
                "The model returns an object: `scaler.scale(output.loss)`. (A dict says "
                "*'map' object has no attribute 'backward'*: `output['loss']`.)",
                "None: the function that computes the loss lacks its `return`.",
            ),
            broken="""
                import torch

                w = torch.tensor([1.0, 2.0], requires_grad=True)
                loss = (w**2).sum().item()
                torch.amp.GradScaler("cpu").scale(loss).backward()
                """,
            fixed="""
                import torch

                w = torch.tensor([1.0, 2.0], requires_grad=True)
                loss = (w**2).sum()
                scaler = torch.amp.GradScaler("cpu")
                scaler.scale(loss).backward()
                assert torch.equal(w.grad / scaler.get_scale(), 2 * w)
                print(loss.item())
                """,
            see=("mixed-precision", "error-no-inf-checks"),
            source=("torch/amp/grad_scaler.py",),
        ),
        Message(
            anchor="bce-and-autocast",
            title="torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are "
            "unsafe to autocast",
            patterns=(
                r"torch\.nn\.functional\.binary_cross_entropy and torch\.nn\.BCELoss are "
                r"unsafe to autocast",
            ),
            why="""The gradient of binary cross-entropy is `1/p`, too large for half
                precision when p is close to 0. On a GPU autocast refuses the function.""",
            fix="""Leave the sigmoid out of the model and use
                `binary_cross_entropy_with_logits` (`BCEWithLogitsLoss`), whose gradient
                `sigmoid(x) - target` stays finite.""",
            fixed="""
                import torch

                x = torch.tensor([100.0, -100.0], requires_grad=True)
                target = torch.tensor([0.0, 1.0])
                with torch.autocast("cpu"):
                    loss = torch.nn.functional.binary_cross_entropy_with_logits(
                        x, target, reduction="sum"
                    )
                loss.backward()
                assert torch.equal(x.grad, torch.tensor([1.0, -1.0]))
                print(x.grad)
                """,
            see=("masked-nan", "error-returned-nan-values"),
            source=("aten/src/ATen (autocast_mode.h)",),
        ),
        Message(
            anchor="scaler-state-empty",
            title="The source state dict is empty, possibly because it was saved from a "
            "disabled instance of GradScaler.",
            patterns=(
                r"The source state dict is empty, possibly because it was saved from a "
                r"disabled instance of GradScaler",
            ),
            why="""A `GradScaler` that is switched off (`enabled=False`, or there is no such
                device) has no scale, and its `state_dict()` is empty. This one is switched
                on and finds nothing to load.""",
            fix="""Load what there is: `if state: scaler.load_state_dict(state)`. Without a
                state it begins with its usual scale and finds its own within some
                steps.""",
            tell=(
                "The first run was in float32, in bfloat16 or on a CPU, and this one is in "
                "float16: as above.",
                "Both are in bfloat16: that needs no scaler; switch it off here too.",
            ),
            broken="""
                import torch

                saved = torch.amp.GradScaler("cpu", enabled=False).state_dict()
                torch.amp.GradScaler("cpu").load_state_dict(saved)
                """,
            fixed="""
                import torch

                saved = torch.amp.GradScaler("cpu", enabled=False).state_dict()
                scaler = torch.amp.GradScaler("cpu")
                if saved:
                    scaler.load_state_dict(saved)
                assert scaler.get_scale() == 2.0**16
                print(scaler.get_scale())
                """,
            see=("mixed-precision",),
            source=("lucidrains/lightweight-gan#103",),
        ),
        Message(
            anchor="scaler-without-cuda",
            title="torch.cuda.amp.GradScaler is enabled, but CUDA is not available. "
            "Disabling.",
            kinds=("UserWarning",),
            patterns=(
                r"torch\.cuda\.amp\.GradScaler is enabled, but CUDA is not available",
            ),
            why="""A GradScaler for CUDA was made where torch finds no CUDA. It turns itself
                off: `scale(loss)` returns the loss as it is, and `step` calls the
                optimizer's.""",
            fix="""On the CPU, where autocast uses bfloat16, no scale is needed: nothing is
                wrong. For one script on both:
                `torch.amp.GradScaler(device, enabled=device == "cuda")`.""",
            tell=(
                "The machine has a GPU: torch does not see it; "
                "`torch.cuda.is_available()` is False and `torch.version.cuda` tells "
                "whether this build can.",
                "A Mac: with `mps` train in float32 or bfloat16, without a scaler.",
            ),
            broken="""
                import torch

                scaler = torch.amp.GradScaler("cuda")
                """,
            fixed="""
                import torch

                device = "cpu"
                scaler = torch.amp.GradScaler(device, enabled=device == "cuda")
                w = torch.tensor([1.0, 2.0], requires_grad=True)
                scaler.scale((w**2).sum()).backward()
                assert torch.equal(w.grad, 2 * w)  # no scale in it
                print(w.grad)
                """,
            see=("mixed-precision", "error-cuda-amp-renamed"),
            source=("torch/amp/grad_scaler.py",),
        ),
        Message(
            anchor="unscale-bfloat16",
            title='"_amp_foreach_non_finite_check_and_unscale_cuda" not implemented for '
            "'BFloat16'",
            kinds=("RuntimeError", "NotImplementedError"),
            patterns=(
                r"_amp_(?:foreach_)?non_finite_check_and_unscale_\w+\"? not implemented "
                r"for '(?P<dtype>\w+)'",
            ),
            why="""A GradScaler divides the gradients by its scale, and on a GPU it cannot
                do so in bfloat16. The parameters are bfloat16, so their gradients are,
                too. That dtype reaches as far as float32 and needs no scale.""",
            fix="""Leave the scaler out (`GradScaler(enabled=False)`), in Hugging Face
                transformers `bf16=True` and not `fp16=True`.""",
            tell=(
                "The model was loaded in bfloat16 and is trained with `fp16=True`: choose "
                "one of the two.",
                "Only some parameters are bfloat16, such as adapters: convert those that "
                "you train to float32 before the optimizer is made.",
            ),
            fixed="""
                import torch

                w = torch.ones(2, dtype=torch.bfloat16, requires_grad=True)
                optimizer = torch.optim.SGD([w], lr=0.5)
                scaler = torch.amp.GradScaler("cpu", enabled=False)
                scaler.scale((w**2).sum()).backward()
                scaler.step(optimizer)
                scaler.update()
                assert torch.equal(w, torch.zeros_like(w))
                print(w.dtype)
                """,
            see=("mixed-precision", "error-unscale-fp16"),
            source=("PT#127176", "QwenLM/Qwen-VL#372", "huggingface/trl#4901"),
        ),
        Message(
            anchor="autocast-without-cuda",
            title="CUDA is not available or torch_xla is imported. Disabling autocast.",
            kinds=("UserWarning",),
            patterns=(
                r"CUDA is not available or torch_xla is imported\. Disabling",
                r"User provided device_type of 'cuda', but CUDA is not available\. "
                r"Disabling",
            ),
            older=(
                "User provided device_type of 'cuda', but CUDA is not available. Disabling",
            ),
            why="""`torch.autocast("cuda")` was opened where torch finds no CUDA. It turns
                itself off: everything inside is computed in the dtype of the tensors, and
                the gradients are right.""",
            fix="""Name the device that you compute on: `torch.autocast(device)`, with
                `device = "cuda" if torch.cuda.is_available() else "cpu"`; on the CPU it
                computes in bfloat16. To leave it out, `enabled=False`.""",
            tell=(
                "The machine has a GPU: `torch.version.cuda` is None in a build without "
                "CUDA; install the other one.",
                "The line is in a library, such as YOLOv5: it may stay.",
            ),
            broken="""
                import torch

                with torch.autocast("cuda"):
                    y = torch.ones(2, 2) @ torch.ones(2, 2)
                """,
            fixed="""
                import torch

                w = torch.ones(2, 2, requires_grad=True)
                device = "cpu"
                with torch.autocast(device, dtype=torch.bfloat16):
                    y = w @ w
                y.float().sum().backward()
                assert w.grad.dtype == torch.float32  # as the leaf
                print(y.dtype, w.grad.dtype)
                """,
            see=("mixed-precision", "error-scaler-without-cuda"),
            source=("torch/amp/autocast_mode.py",),
        ),
    ),
)
