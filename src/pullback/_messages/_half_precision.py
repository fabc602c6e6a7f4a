"""Messages about values and dtypes of half precision, and where ``autocast`` runs."""

from pullback._messages._entry import Message, Theme

HALF_PRECISION = Theme(
    "half-precision",
    (
        Message(
            anchor="overflow-in-half",
            title="value cannot be converted to type c10::Half without overflow",
            patterns=(
                r"value cannot be converted to type (?:at|c10)::(?:Half|BFloat16) without "
                r"overflow",
            ),
            older=("value cannot be converted to type at::Half without overflow: -1e+09",),
            why="""float16 ends at 65504. A number such as -1e9, put into a mask of scores
                that `autocast` or `.half()` made, is beyond it.""",
            fix="""`scores.masked_fill(mask, torch.finfo(scores.dtype).min)`, which fits any
                dtype, or `float("-inf")` where no row is masked altogether: such a row has
                a softmax, and a gradient, of nan.""",
            tell=(
                "The line is in a library: update it, or run it in bfloat16, which reaches "
                "as far as float32.",
                "`torch.finfo(torch.float32).min` in a float16 tensor: ask the tensor for "
                "its dtype.",
            ),
            broken="""
                import torch

                scores = torch.zeros(1, 2, dtype=torch.float16, requires_grad=True)
                mask = torch.tensor([[False, True]])
                scores.masked_fill(mask, -1e9).softmax(1)
                """,
            fixed="""
                import torch

                scores = torch.zeros(1, 2, dtype=torch.float16, requires_grad=True)
                mask = torch.tensor([[False, True]])
                lowest = torch.finfo(scores.dtype).min
                weights = scores.masked_fill(mask, lowest).softmax(1)
                weights.sum().backward()
                assert weights.tolist() == [[1, 0]] and scores.grad.isfinite().all()
                print(weights)
                """,
            see=("attention-masks", "mixed-precision", "masked-nan"),
            source=("NVIDIA/apex#1052", "NVIDIA/apex#1105", "QwenLM/Qwen#32"),
        ),
        Message(
            anchor="dtype-of-what-is-written",
            title="Index put requires the source and destination dtypes match, got Float "
            "for the destination and Half for the source.",
            patterns=(
                r"Index put requires the source and destination dtypes match, got "
                r"(?P<destination>\w+) for the destination and (?P<source>\w+) for the "
                r"source",
                r"scatter\w*\(\): Expected self\.dtype to be equal to src\.dtype",
                r"index_(?:add|copy)_?\(\): self .{0,20}?and source "
                r".{0,20}?(?:must|expected "
                r"to) have the same (?:scalar type|dtype)",
                r"masked_scatter: expected self and source to have same dtypes",
            ),
            older=(
                "scatter(): Expected self.dtype to be equal to src.dtype",
                "index_add_(): self (Float) and source (Half) must have the same scalar "
                "type",
                "masked_scatter: expected self and source to have same dtypes but got"
                "Float and Half",
            ),
            why="""Writing at indices does not convert. Under `autocast` a layer's result is
                half precision, and the tensor that it is written to was made in
                float32.""",
            fix="""Convert what is written: `out[i] = y.to(out.dtype)`. Autograd converts v
                back on its way. Or make `out` in the dtype of y,
                `y.new_zeros(...)`.""",
            broken="""
                import torch

                y = torch.ones(2, dtype=torch.float16, requires_grad=True)
                out = torch.zeros(3)
                out[torch.tensor([0, 2])] = y
                """,
            fixed="""
                import torch

                y = torch.ones(2, dtype=torch.float16, requires_grad=True)
                out = torch.zeros(3)
                out[torch.tensor([0, 2])] = y.to(out.dtype)
                out.sum().backward()
                assert y.grad.dtype == torch.float16
                print(out, y.grad)
                """,
            see=("mixed-precision", "repeated-indices", "error-same-dtype"),
            source=(
                "PT#63935",
                "open-mmlab/mmdetection3d#1842",
                "hiyouga/LlamaFactory#3807",
            ),
        ),
        Message(
            anchor="query-key-and-value",
            title="Expected query, key, and value to have the same dtype, but got "
            "query.dtype: float key.dtype: float and value.dtype: c10::Half instead.",
            patterns=(
                r"Expected query, key, and value to have the same dtype, but got "
                r"query\.dtype: (?P<query>\S+) key\.dtype: (?P<key>\S+) and value\.dtype: "
                r"(?P<value>\S+) instead",
            ),
            why="""Attention multiplies query by key and the weights by the value, in one
                kernel of one dtype. One of the three took another way: rotary embeddings
                in float32, an adapter, a cache.""",
            fix="""Here they are {query}, {key} and {value}. Convert them just before the
                call, `query.to(value.dtype)`, or run forward and loss under
                `autocast`.""",
            unknown={"query": "…", "key": "…", "value": "…"},
            broken="""
                import torch

                q = torch.ones(1, 2, 4, requires_grad=True)
                k, v = torch.ones(1, 2, 4), torch.ones(1, 2, 4, dtype=torch.float16)
                torch.nn.functional.scaled_dot_product_attention(q, k, v)
                """,
            fixed="""
                import torch

                q = torch.ones(1, 2, 4, requires_grad=True)
                k, v = torch.ones(1, 2, 4), torch.ones(1, 2, 4, dtype=torch.float16)
                attend = torch.nn.functional.scaled_dot_product_attention
                y = attend(q, k, v.to(q.dtype))
                y.sum().backward()
                assert y.dtype == q.grad.dtype == torch.float32
                print(y.dtype, q.grad.shape)
                """,
            see=("mixed-precision", "error-same-dtype"),
            source=("aten/src/ATen/native/transformers (attention.cpp)",),
        ),
        Message(
            anchor="norm-in-half-precision",
            title="mixed dtype (CPU): expect parameter to have scalar type of Float",
            patterns=(
                r"mixed dtype \(CPU\): (?:expect (?:parameter|input) to have scalar type "
                r"of \w+|all inputs must share same datatype)",
            ),
            older=(
                "mixed dtype (CPU): expect input to have scalar type of BFloat16",
                "mixed dtype (CPU): all inputs must share same datatype.",
            ),
            why="""A normalisation on the CPU takes an input and parameters of one dtype, or
                a half-precision input with float32 parameters. Here the model was converted
                and the data was not.""",
            fix="""Convert the data with the model, `model(x.to(dtype))`; or leave the model
                in float32 and run it under `torch.autocast("cpu")`.""",
            broken="""
                import torch

                layer = torch.nn.LayerNorm(2).half()
                layer(torch.tensor([[1.0, 2.0]])).sum().backward()
                """,
            fixed="""
                import torch

                layer = torch.nn.LayerNorm(2)  # float32
                x = torch.tensor([[1.0, 2.0]], dtype=torch.bfloat16)
                layer(x).sum().backward()
                assert layer.weight.grad.dtype == torch.float32
                print(layer.weight.grad)
                """,
            see=("mixed-precision", "error-same-dtype"),
            source=("aten/src/ATen/native (mixed_data_type.h)",),
        ),
        Message(
            anchor="autocast-dtype",
            title="In CPU autocast, but the target dtype is not supported. Disabling "
            "autocast.",
            kinds=("UserWarning",),
            patterns=(
                r"In (?P<device>\w+) autocast, but the target dtype is not supported",
            ),
            older=(
                "In CPU autocast, but the target dtype is not supported. Disabling "
                "autocast. CPU Autocast only supports dtype of torch.bfloat16 currently.",
                "In MPS autocast, but the target dtype is not supported. Disabling "
                "autocast.",
            ),
            why="""The block asked for a dtype that `autocast` does not know on this device,
                and does nothing: all runs in float32. The gradients are right.""",
            fix="""`torch.autocast("cpu", dtype=torch.bfloat16)`; on any device
                `torch.bfloat16` or `torch.float16`, as that release has them.""",
            tell=(
                "A model for the GPU runs on the CPU: torch was installed without CUDA, or "
                "`device_type` is fixed to a word.",
                "float64 is wanted: no block makes it; `model.double()`.",
            ),
            broken="""
                import torch

                with torch.autocast("cpu", dtype=torch.float64):
                    torch.nn.Linear(2, 1)(torch.ones(1, 2)).sum().backward()
                """,
            fixed="""
                import torch

                layer = torch.nn.Linear(2, 1)
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    y = layer(torch.ones(1, 2))
                y.float().sum().backward()
                assert y.dtype == torch.bfloat16
                assert layer.weight.grad.dtype == torch.float32
                print(y.dtype, layer.weight.grad)
                """,
            see=("mixed-precision", "error-autocast-without-cuda"),
            source=("torch/amp (autocast_mode.py)",),
        ),
        Message(
            anchor="autocast-wants-a-device",
            title="autocast.__init__() missing 1 required positional argument: "
            "'device_type'",
            kinds=("TypeError", "ValueError", "RuntimeError"),
            patterns=(
                r"__init__\(\) missing 1 required positional argument: 'device_type'",
                r"autocast\.__(?:init|new)__\(\) got an unexpected keyword argument "
                r"'device_type'",
                r"Expected `device_type` of type `str`, got: `<class '\w+'>`",
                r"User specified an unsupported autocast device_type '(?P<device>[\w:]+)'",
            ),
            older=(
                "__init__() missing 1 required positional argument: 'device_type'",
                "autocast.__new__() got an unexpected keyword argument 'device_type'",
                "Expected `device_type` of type `str`, got: `<class 'bool'>`",
                "User specified an unsupported autocast device_type 'mps'",
            ),
            why="""There are two: `torch.cuda.amp.autocast(enabled)`, which is for CUDA, and
                `torch.autocast(device_type)`, the same as `torch.amp.autocast`, which must
                be told the device.""",
            fix="""`torch.autocast("cuda", dtype=torch.float16, enabled=True)`, or
                `torch.autocast(x.device.type)`: the word without a number.""",
            tell=(
                "`unsupported autocast device_type 'mps'`: that release has none for it; "
                "update torch, or pass `enabled=False` there.",
                "`'cuda:0'`: the type is `cuda`.",
                "`unexpected keyword argument`: the other way round; that one has no "
                "`device_type`.",
            ),
            broken="""
                import torch

                with torch.amp.autocast():
                    torch.nn.Linear(2, 1)(torch.ones(1, 2))
                """,
            fixed="""
                import torch

                x = torch.ones(1, 2)
                with torch.amp.autocast(x.device.type, dtype=torch.bfloat16):
                    y = torch.nn.Linear(2, 1)(x)
                assert y.dtype == torch.bfloat16
                print(y.dtype)
                """,
            see=("mixed-precision", "error-cuda-amp-renamed"),
            source=("torch/amp (autocast_mode.py)",),
        ),
        Message(
            anchor="half-precision-needs-a-gpu",
            title="Your setup doesn't support bf16/gpu. You need torch>=1.10, using Ampere "
            "GPU with cuda>=11.0",
            kinds=("ValueError",),
            patterns=(
                r"Your setup doesn't support bf16/(?:gpu|cpu)",
                r"FP16 Mixed precision training with AMP or APEX \(`--fp16`\)",
                r"(?:fp16|bf16) mixed precision requires (?:a GPU|PyTorch)",
            ),
            older=(
                "Your setup doesn't support bf16/gpu. You need Ampere+ GPU with cuda>=11.0",
                "FP16 Mixed precision training with AMP or APEX (`--fp16`) and FP16 half "
                "precision evaluation (`--fp16_full_eval`) can only be used on CUDA "
                "devices.",
                "fp16 mixed precision requires a GPU",
            ),
            why="""The Trainer or Accelerate was asked for a precision that the device does
                not compute in. bfloat16 wants an NVIDIA GPU from Ampere on (A100, RTX 30),
                not V100, T4 or RTX 20; float16 with its loss scale wants a GPU at all.""",
            fix="""On an older GPU `fp16=True` instead of `bf16=True`; without a GPU
                neither. If there should be one: `torch.cuda.is_available()`.""",
            tell=(
                "A model that was trained in bfloat16 and now gives nan with `fp16`: its "
                "values are beyond 65504; train it in float32.",
                "DeepSpeed: change its configuration too, `bf16` there means the same.",
            ),
            see=("mixed-precision", "error-gradient-overflow"),
            source=(
                "tatsu-lab/stanford_alpaca#133",
                "OptimalScale/LMFlow#88",
                "lm-sys/FastChat#399",
            ),
        ),
        Message(
            anchor="apex-before-initialize",
            title="'AdamW' object has no attribute '_amp_stash'",
            kinds=("AttributeError", "RuntimeError"),
            patterns=(
                r"object has no attribute '_amp_stash'",
                r"'AmpState' object has no attribute '(?:opt_properties|loss_scalers)'",
                r"Incoming model is an instance of [\w.]+\. Parallel wrappers should only "
                r"be applied to the model",
                r"Found param [\w.]+ with type [\w.]+, expected [\w.]+\. ?When using "
                r"amp\.initialize",
            ),
            older=(
                "'Adagrad' object has no attribute '_amp_stash'",
                "'AmpState' object has no attribute 'opt_properties'",
                "Incoming model is an instance of torch.nn.parallel.distributed."
                "DistributedDataParallel. Parallel wrappers should only be applied to the "
                "model(s) AFTER the model(s) have been returned from amp.initialize.",
                "Found param conv1.weight with type torch.cuda.HalfTensor, expected "
                "torch.cuda.FloatTensor. When using amp.initialize, you do not need to "
                "call .half() on your model before passing it.",
            ),
            why="""Apex's amp changes model and optimizer in `amp.initialize`, and
                `amp.scale_loss` relies on it. They came before it, without it, or another
                object took their place after it.""",
            fix="""Replace Apex's amp, which is no longer developed, by `torch.autocast` and
                `torch.amp.GradScaler`. Or keep its order: float32 model on the GPU,
                optimizer, `amp.initialize`, then DistributedDataParallel.""",
            tell=(
                "`_amp_stash`: the optimizer given to `scale_loss` is not the one that "
                "`initialize` returned, or was made again.",
                "`opt_properties`: `initialize` was never called, or `enabled=False` in "
                "one "
                "place only.",
            ),
            fixed="""
                import torch

                layer = torch.nn.Linear(2, 1)
                optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
                scaler = torch.amp.GradScaler("cpu")
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    loss = layer(torch.ones(1, 2)).sum()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                torch.testing.assert_close(layer.weight.grad, torch.ones(1, 2))
                print(layer.weight.grad)
                """,
            see=("grad-scaler-order", "mixed-precision"),
            source=("NVIDIA/apex#1057", "NVIDIA/apex#307"),
        ),
    ),
)
