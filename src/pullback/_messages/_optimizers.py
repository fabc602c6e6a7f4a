"""Messages of optimizers and schedulers about what they were given."""

from pullback._messages._entry import Message, Theme

OPTIMIZERS = Theme(
    "optimizers",
    (
        Message(
            anchor="state-on-another-device",
            title="torch/optim/adam.py … Expected all tensors to be on the same device, "
            "but found at least two devices, cuda:0 and cpu!",
            patterns=(
                r"torch[/\\]optim[/\\]\w+\.py.{0,1500}?Expected all tensors to be on the "
                r"same device",
                r"torch\._foreach_\w+\(device_\w+, .{0,200}?Expected all tensors to be on "
                r"the same device",
                r"optim[/\\]adam\.py … Expected all tensors to be on the same device",
            ),
            older=(
                'File "torch/optim/adamw.py", line 464, in _multi_tensor_adamw '
                "torch._foreach_lerp_(device_exp_avgs, device_grads, 1 - beta1) "
                "RuntimeError: Expected all tensors to be on the same device, but found at "
                "least two devices, cuda:0 and cpu!",
            ),
            why="""The gradients lie on one device and what the optimizer remembers (its
                moments) on another: the model was moved after the optimizer had made or
                loaded its state.""",
            fix="""Move the model first, then make the optimizer, then call
                `optimizer.load_state_dict`: it puts the state on the device of each
                parameter.""",
            tell=(
                "After loading a checkpoint: `model.to(device)` came after "
                "`load_state_dict` of the optimizer, or its `state` was filled by hand.",
                "`argument state_steps` and `fused=True`: the counter of steps was loaded "
                "to the CPU; load it again after the model was moved.",
                "The model was moved to the CPU between two steps (to evaluate, to save): "
                "move it back before `step`.",
            ),
            fixed="""
                import torch

                model = torch.nn.Linear(2, 1)
                optimizer = torch.optim.Adam(model.parameters())
                model(torch.ones(1, 2)).sum().backward()
                optimizer.step()
                kept = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}

                device = "cuda" if torch.cuda.is_available() else "cpu"
                again = torch.nn.Linear(2, 1).to(device)  # first
                again.load_state_dict(kept["model"])
                optimizer = torch.optim.Adam(again.parameters())  # then
                optimizer.load_state_dict(kept["optimizer"])
                average = optimizer.state[again.weight]["exp_avg"]
                assert average.device == again.weight.device
                print(average)
                """,
            see=("optimizer-closures", "error-optimizer-state-of-another-list"),
            source=("PT#2830", "FoundationVision/VAR#127", "PT#8741"),
        ),
        Message(
            anchor="fused-and-differentiable",
            title="`fused` does not support `differentiable`",
            patterns=(
                r"`?fused(?:=True)?`? does not support `?differentiable",
                r"\w+ with fused=True does not support differentiable=True",
            ),
            why="""A fused step is one kernel without a derivative rule.
                `differentiable=True` asks for a step that autograd can go through.""",
            fix="""Leave `fused=True` out. To learn through steps, either use
                `differentiable=True` on tensors that are no leaves, or write the step
                yourself.""",
            broken="""
                import torch

                w = torch.ones(2, requires_grad=True)
                torch.optim.Adam([w], fused=True, differentiable=True)
                """,
            fixed="""
                import torch

                rate = torch.tensor(0.1, requires_grad=True)
                w = torch.ones(2, requires_grad=True)
                (g,) = torch.autograd.grad((w**2).sum(), w, create_graph=True)
                after = w - rate * g  # a step with a graph
                (after**2).sum().backward()
                assert torch.isclose(rate.grad, torch.tensor(-6.4))
                print(rate.grad)
                """,
            see=("optimizer-closures", "second-derivatives"),
            source=("torch/optim (adam.py)",),
        ),
        Message(
            anchor="lbfgs-parameter-groups",
            title="LBFGS doesn't support per-parameter options (parameter groups)",
            kinds=("ValueError",),
            patterns=(r"LBFGS doesn't support per-parameter options \(parameter groups\)",),
            why="""L-BFGS lays all parameters into one vector and searches along one line in
                that space; a learning rate for each group has no place in it.""",
            fix="""Pass one list: `torch.optim.LBFGS([*a.parameters(), *b.parameters()])`.
                Scale a parameter by hand if its steps are to be smaller.""",
            broken="""
                import torch

                a, b = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
                torch.optim.LBFGS(
                    [{"params": a.parameters()}, {"params": b.parameters(), "lr": 0.1}]
                )
                """,
            fixed="""
                import torch

                a, b = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
                optimizer = torch.optim.LBFGS([*a.parameters(), *b.parameters()])

                def closure():
                    optimizer.zero_grad()
                    loss = b(a(torch.ones(1, 2))).square().sum()
                    loss.backward()
                    return loss

                before, after = optimizer.step(closure), closure()
                assert after < before or before == 0
                print(before, after)
                """,
            see=("optimizer-closures", "error-step-needs-a-closure"),
            source=("torch/optim (lbfgs.py)",),
        ),
        Message(
            anchor="muon-wants-matrices",
            title="Muon only supports 2D parameters whereas we found a parameter with "
            "size: torch.Size([2])",
            kinds=("ValueError",),
            patterns=(
                r"Muon only supports 2D parameters whereas we found a parameter with size: "
                r"(?P<shape>torch\.Size\(\[[\d, ]*\]\))",
                r"(?:Param|Input tensor) gradient must be a 2D matrix",
            ),
            why="""Muon replaces the gradient of a matrix by the orthogonal matrix nearest
                to it. A bias, a norm's weight or a convolution's kernel is no matrix.""",
            fix="""A parameter of shape {shape} goes to another optimizer. Give Muon the
                weights of the hidden linear layers, and AdamW the rest, embedding and last
                layer included; call `step` and `zero_grad` of both.""",
            broken="""
                import torch

                torch.optim.Muon(torch.nn.Linear(2, 2).parameters())
                """,
            fixed="""
                import torch

                layer = torch.nn.Linear(2, 2)
                muon = torch.optim.Muon([p for p in layer.parameters() if p.ndim == 2])
                adam = torch.optim.AdamW([p for p in layer.parameters() if p.ndim != 2])
                before = [p.detach().clone() for p in layer.parameters()]
                layer(torch.ones(1, 2)).sum().backward()
                muon.step()
                adam.step()
                moved = [not p.equal(q) for p, q in zip(layer.parameters(), before)]
                assert moved == [True, True]
                print(moved)
                """,
            see=("optimizer-closures",),
            source=("torch/optim (_muon.py)",),
        ),
        Message(
            anchor="step-was-replaced",
            title="Seems like `optimizer.step()` has been overridden after learning rate "
            "scheduler initialization",
            kinds=("UserWarning",),
            patterns=(
                r"Seems like `optimizer\.step\(\)` has been overridden after learning rate "
                r"scheduler",
            ),
            why="""The scheduler counts the steps of the optimizer through a wrapper around
                its `step`. Something put another `step` there since (mixed precision,
                Accelerate, a profiler), so it can no longer tell who was called first.
                Gradients and steps are what they were.""",
            fix="""Make the scheduler last, after the optimizer has been wrapped. Then call
                `optimizer.step()` before `scheduler.step()`.""",
            tell=(
                "With `Gradient overflow. Skipping step` before it: the first steps were "
                "left out by the loss scaler; no harm.",
                "A checkpoint of the whole optimizer was unpickled after the scheduler was "
                "made: load state dicts.",
            ),
            broken="""
                import torch

                w = torch.ones(1, requires_grad=True)
                optimizer = torch.optim.SGD([w], lr=0.1)
                scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
                step = optimizer.step
                optimizer.step = lambda: step()
                w.sum().backward()
                optimizer.step()
                scheduler.step()
                """,
            fixed="""
                from types import MethodType

                import torch

                w = torch.ones(1, requires_grad=True)
                optimizer = torch.optim.SGD([w], lr=0.1)
                step = optimizer.step
                optimizer.step = MethodType(lambda self: step(), optimizer)
                scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
                w.sum().backward()
                optimizer.step()
                scheduler.step()
                assert abs(scheduler.get_last_lr()[0] - 0.01) < 1e-12
                print(scheduler.get_last_lr())
                """,
            see=("error-scheduler-before-optimizer", "mixed-precision"),
            source=("PT#71272", "ultralytics/yolov5#313", "PT#21460"),
        ),
        Message(
            anchor="step-under-capture",
            title="Attempting CUDA graph capture of step() for an instance of AdamW but "
            "param_groups' capturable is False",
            patterns=(
                r"Attempting \w+ graph capture of step\(\) for an instance of \w+",
                r"If capturable=True, params and state_steps must be (?:CUDA tensors|on "
                r"supported devices)",
            ),
            older=("If capturable=True, params and state_steps must be CUDA tensors.",),
            kinds=("RuntimeError", "AssertionError"),
            why="""A captured graph repeats what runs on the GPU. The counter of steps lies
                on the CPU, where a replay would never count it up; `capturable=True` keeps
                it on the GPU.""",
            fix="""Make the optimizer with `capturable=True` when `step` is captured, in
                each group, and before its first step. Without a capture leave it False.""",
            tell=(
                "`params and state_steps must be`: the other way round; you pass "
                "`capturable=True` for parameters on the CPU, or a loaded state says so "
                "and its counter lies on the CPU. PyTorch 1.12.0 loads it so: update.",
                "You captured nothing: another thread or library did, such as a profiler "
                "or `torch.compile(mode='reduce-overhead')` around the step.",
            ),
            see=("compiled-and-exported", "error-cudagraph-output-overwritten"),
            source=("PT#77862", "PT#89987", "Lightning-AI/pytorch-lightning#18501"),
        ),
        Message(
            anchor="scale-by-frequency-and-sparse",
            title="embedding_backward: scale_grad_by_freq not supported with sparse "
            "gradients",
            kinds=("RuntimeError", "ValueError"),
            patterns=(
                r"scale_grad_by_freq not supported with sparse gradients",
                r"max mode does not support scaling the gradient by the frequency",
            ),
            older=("max mode does not support scaling the gradient by the frequency",),
            why="""`scale_grad_by_freq` divides each row's gradient by the number of
                times it was looked up. The sparse gradient keeps one row for each
                look-up and does not count them.""",
            fix="""Use one of the two: `sparse=False`, or divide by the counts in a hook of
                the weight. `EmbeddingBag(mode='max')` takes neither: leave
                `scale_grad_by_freq` out.""",
            broken="""
                import torch

                table = torch.nn.Embedding(3, 2, sparse=True, scale_grad_by_freq=True)
                table(torch.tensor([1, 1])).sum().backward()
                """,
            fixed="""
                import torch

                table = torch.nn.Embedding(3, 2, scale_grad_by_freq=True)
                table(torch.tensor([1, 1])).sum().backward()
                assert table.weight.grad.tolist() == [[0, 0], [1, 1], [0, 0]]
                print(table.weight.grad)
                """,
            see=("sparse-and-nested", "error-sparse-gradients"),
            source=("aten/src/ATen (native/Embedding.cpp)",),
        ),
    ),
)
