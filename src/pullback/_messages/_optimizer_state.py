"""Messages about what an optimizer remembers, its names, and who calls its schedule."""

from pullback._messages._entry import Message, Theme

OPTIMIZER_STATE = Theme(
    "optimizer-state",
    (
        Message(
            anchor="class-instead-of-optimizer",
            title="Optimizer.zero_grad() missing 1 required positional argument: 'self'",
            kinds=("TypeError",),
            patterns=(
                r"(?:zero_grad|step|backward|parameters)\(\) missing 1 required positional "
                r"argument: 'self'",
            ),
            older=(
                "zero_grad() missing 1 required positional argument: 'self'",
                "step() missing 1 required positional argument: 'self'",
                "parameters() missing 1 required positional argument: 'self'",
            ),
            why="""The method was called on a class, `torch.optim.SGD` or `Net`, and not on
                an object of it: the class holds no parameters whose gradients could be
                set to zero.""",
            fix="""Make the object first, `optimizer = torch.optim.SGD(model.parameters(),
                lr=0.1)`, and call its method. `Net.parameters()` is likewise
                `Net().parameters()`.""",
            broken="""
                import torch

                optimizer = torch.optim.SGD  # not called
                optimizer.zero_grad()
                """,
            fixed="""
                import torch

                w = torch.tensor([1.0], requires_grad=True)
                optimizer = torch.optim.SGD([w], lr=0.1)
                (w**2).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
                assert w.grad is None
                print(w)
                """,
            see=("optimizer-closures", "frozen-and-stepped"),
            source=("reproduced here; no thread found",),
        ),
        Message(
            anchor="zero-grad-of-a-tensor",
            title="'Tensor' object has no attribute 'zero_grad'",
            kinds=("AttributeError",),
            patterns=(r"'(?P<type>[\w.]+)' object has no attribute 'zero_grad'",),
            older=(
                "'Parameter' object has no attribute 'zero_grad'",
                "'NoneType' object has no attribute 'zero_grad'",
            ),
            why="""`zero_grad` is a method of optimizers and of modules, which clears the
                gradients of all parameters they hold. A tensor has one gradient, its
                attribute `grad`.""",
            fix="""What you have is of type {type}. For a tensor, set
                `w.grad = None` before the next `backward`, which adds to what is there.""",
            unknown={"type": "Tensor"},
            tell=(
                "`Tensor`, `Parameter`: `w.grad = None`, or `w.grad.zero_()` where a "
                "gradient exists.",
                "`NoneType`: the function that builds the optimizer lacks its `return`.",
                "`list`, `dict`, `tuple`: several optimizers; call each.",
                "`function`, `builtin_function_or_method`: parentheses are missing.",
            ),
            broken="""
                import torch

                w = torch.tensor([1.0, 2.0], requires_grad=True)
                (w**2).sum().backward()
                w.zero_grad()
                """,
            fixed="""
                import torch

                w = torch.tensor([1.0, 2.0], requires_grad=True)
                (w**2).sum().backward()
                w.grad = None
                (w**2).sum().backward()
                assert torch.equal(w.grad, torch.tensor([2.0, 4.0]))  # not twice that
                print(w.grad)
                """,
            see=("gradient-doubled", "error-gradients-accumulate"),
            source=("reproduced here; no thread found",),
        ),
        Message(
            anchor="moments-of-another-dtype",
            title="expected dtype float for `end` but got dtype double",
            patterns=(
                r"[Ee]xpected dtype (?P<state>[\w:]+) for `(?:end|weight)` but got dtype "
                r"(?P<gradient>[\w:]+)",
                r"Tensors of the same index must be on the same device and the same dtype",
                r"params, grads, exp_avgs, and exp_avg_sqs must have same dtype, device, "
                r"and layout",
            ),
            older=(
                "expected dtype float for `end` but got dtype c10::Half",
                "Tensors of the same index must be on the same device and the same dtype "
                "except `step` tensors that can be CPU and float32/64 notwithstanding",
                "params, grads, exp_avgs, and exp_avg_sqs must have same dtype, device, "
                "and layout",
            ),
            why="""Adam mixes the gradient into an average that it remembers, and the two
                have different dtypes (or devices). The average was made at the first step,
                in the dtype that the parameter had then.""",
            fix="""Here the average is {state} and the gradient {gradient}. Convert the
                model (`.half()`, `.bfloat16()`, `.double()`, `.to(device)`) before you
                make the optimizer; when you load its state, after the model is converted,
                `load_state_dict` takes the parameters' dtype.""",
            unknown={"state": "of one dtype", "gradient": "of another"},
            tell=(
                "`c10::Half` in a fine-tuning: the weights were made half precision after "
                "the optimizer. Keep them in float32 and use `autocast`.",
                "`p.grad` was assigned by hand, or a library reduces gradients in another "
                "dtype (FSDP's `MixedPrecision`, a hook): cast it to `p.dtype`.",
                "The text says `float32 notwithstanding` and you set the default dtype to "
                "float64: that release wants a counter in float32; a newer one says "
                "`float32/64`.",
                "A parameter was replaced or loaded by hand onto another device.",
                "The line is your own `torch.lerp(start, end, weight)`: give all one "
                "dtype.",
            ),
            broken="""
                import torch

                model = torch.nn.Linear(1, 1)
                optimizer = torch.optim.Adam(model.parameters())
                for dtype in (torch.float32, torch.float64):
                    model.to(dtype)
                    optimizer.zero_grad()
                    model(torch.ones(1, 1, dtype=dtype)).sum().backward()
                    optimizer.step()
                """,
            fixed="""
                import torch

                model = torch.nn.Linear(1, 1).to(torch.float64)
                optimizer = torch.optim.Adam(model.parameters())
                for _ in range(2):
                    optimizer.zero_grad()
                    model(torch.ones(1, 1, dtype=torch.float64)).sum().backward()
                    optimizer.step()
                average = optimizer.state[model.weight]["exp_avg"]
                assert average.dtype == torch.float64
                print(average)
                """,
            see=("mixed-precision", "error-state-on-another-device"),
            source=(
                "PT#127197",
                "PT#110758",
                "PT#113758",
                "tatsu-lab/stanford_alpaca#321",
                "Nerogar/OneTrainer#420",
            ),
        ),
        Message(
            anchor="state-steps",
            title="API has changed, `state_steps` argument must contain a list of "
            "singleton tensors",
            patterns=(
                r"API has changed, `?state_steps`? argument must contain a list of "
                r"singleton tensors",
            ),
            why="""The optimizer counts its steps in a tensor since PyTorch 1.12. Something
                filled `state["step"]` with a number, as older code did.""",
            fix="""Write `state["step"] = torch.tensor(0.0)` where the state is made. A
                state dict of an older release needs nothing: `load_state_dict`
                converts it.""",
            tell=(
                "An optimizer shared between processes (A3C's `SharedAdam`): it makes its "
                "state itself; `torch.zeros(1).share_memory_()` for the counter.",
                "You call `torch.optim.adam.adam(...)` yourself: pass a list of tensors.",
            ),
            broken="""
                import torch

                w = torch.ones(1, requires_grad=True)
                optimizer = torch.optim.Adam([w])
                zeros = {"exp_avg": torch.zeros(1), "exp_avg_sq": torch.zeros(1)}
                optimizer.state[w] = {"step": 0, **zeros}
                w.sum().backward()
                optimizer.step()
                """,
            fixed="""
                import torch

                w = torch.ones(1, requires_grad=True)
                optimizer = torch.optim.Adam([w], lr=0.1)
                zeros = {"exp_avg": torch.zeros(1), "exp_avg_sq": torch.zeros(1)}
                optimizer.state[w] = {"step": torch.tensor(0.0), **zeros}
                w.sum().backward()
                optimizer.step()
                assert optimizer.state[w]["step"] == 1
                print(w)
                """,
            see=("optimizer-closures",),
            source=("philtabor/Youtube-Code-Repository#62",),
        ),
        Message(
            anchor="initial-lr",
            title="\"param 'initial_lr' is not specified in param_groups[0] when resuming "
            "scheduler with last_epoch >= 0.",
            kinds=("KeyError",),
            patterns=(
                r"param 'initial_lr' is not specified in param_groups\[\d+\] when resuming",
            ),
            older=(
                "param 'initial_lr' is not specified in param_groups[0] when resuming an "
                "optimizer",
            ),
            why="""With a `last_epoch` other than -1 the scheduler takes itself for one that
                goes on, and looks in the optimizer for the rate at which it once began. A
                new optimizer has none.""",
            fix="""Make both anew, without `last_epoch`, then load both:
                `optimizer.load_state_dict(...)` and `scheduler.load_state_dict(...)`.""",
            tell=(
                "You start from the beginning: `last_epoch` is -1, not 0; leave it out.",
                "No state of the scheduler was kept: "
                '`group.setdefault("initial_lr", rate)` for each group first.',
                "A parameter group was added after the state was kept: it lacks the key.",
            ),
            broken="""
                import torch

                w = torch.ones(1, requires_grad=True)
                optimizer = torch.optim.SGD([w], lr=0.1)
                torch.optim.lr_scheduler.StepLR(optimizer, 1, last_epoch=4)
                """,
            fixed="""
                import torch

                def build():
                    optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0)
                    return optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 1)

                optimizer, scheduler = build()
                optimizer.step()
                scheduler.step()
                kept = optimizer.state_dict(), scheduler.state_dict()
                optimizer, scheduler = build()
                optimizer.load_state_dict(kept[0])
                scheduler.load_state_dict(kept[1])
                assert abs(scheduler.get_last_lr()[0] - 0.1) < 1e-12
                print(scheduler.get_last_lr())
                """,
            see=("optimizer-closures", "error-scheduler-before-optimizer"),
            source=(
                "mozilla/TTS#57",
                "mit-han-lab/gan-compression#72",
                "stefanopini/simple-HRNet#33",
            ),
        ),
        Message(
            anchor="schedule-is-over",
            title="Tried to step 3 times. The specified number of total steps is 2",
            kinds=("ValueError",),
            patterns=(
                r"Tried to step (?P<steps>\d+) times\. The specified number of total steps "
                r"is (?P<total>\d+)",
            ),
            older=(
                "Tried to step 1001 times. The specified number of total steps is 1000",
            ),
            why="""`OneCycleLR` knows the rate for `total_steps` calls and for none after
                them. It counts calls of its `step`, one for each step of the optimizer.""",
            fix="""It was made for {total} steps. Count them: batches in an epoch, divided
                by the number that you accumulate, rounded up, times the epochs.""",
            unknown={"total": "fewer"},
            tell=(
                "One step of accumulation too many at the end of each epoch: round up.",
                "Training goes on for more epochs from a kept state: `load_state_dict` "
                "brings the old `total_steps` along; set it after loading.",
                "Several processes: Accelerate steps a prepared scheduler once for each "
                "process; give it the steps of all.",
                "It was made with `epochs` and is stepped in each batch: pass "
                "`steps_per_epoch` too.",
            ),
            broken="""
                import torch

                w = torch.ones(1, requires_grad=True)
                optimizer = torch.optim.SGD([w], lr=0.1, momentum=0.9)
                one_cycle = torch.optim.lr_scheduler.OneCycleLR
                schedule = one_cycle(optimizer, 0.1, total_steps=2)
                for _ in range(3):
                    optimizer.step()
                    schedule.step()
                """,
            fixed="""
                import torch

                batches, accumulated, epochs = 5, 2, 2
                steps = -(-batches // accumulated) * epochs  # rounded up
                w = torch.ones(1, requires_grad=True)
                optimizer = torch.optim.SGD([w], lr=0.1, momentum=0.9)
                schedule = torch.optim.lr_scheduler.OneCycleLR(
                    optimizer, 0.1, total_steps=steps
                )
                for _ in range(epochs):
                    for batch in range(1, batches + 1):
                        (w**2).sum().backward()
                        if batch % accumulated == 0 or batch == batches:
                            optimizer.step()
                            optimizer.zero_grad()
                            if schedule.last_epoch < steps - 1:
                                schedule.step()
                assert schedule.last_epoch == 5
                print(steps, schedule.get_last_lr())
                """,
            see=("accumulating-twice", "error-scheduler-before-optimizer"),
            source=("torch/optim (lr_scheduler.py)",),
        ),
        Message(
            anchor="plateau-without-metrics",
            title="ReduceLROnPlateau.step() missing 1 required positional argument: "
            "'metrics'",
            kinds=("TypeError",),
            patterns=(r"step\(\) missing 1 required positional argument: 'metrics'",),
            older=("step() missing 1 required positional argument: 'metrics'",),
            why="""This scheduler lowers the rate when a figure no longer improves, and must
                be told the figure at each step.""",
            fix="""`scheduler.step(validation_loss)`, once an epoch, with a number: no
                gradient goes through it.""",
            tell=(
                "A loop calls `step()` of any scheduler: treat this one apart. In "
                "Lightning return it with `monitor`; `SequentialLR` does not take it.",
            ),
            broken="""
                import torch

                w = torch.ones(1, requires_grad=True)
                optimizer = torch.optim.SGD([w], lr=0.1)
                torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer).step()
                """,
            fixed="""
                import torch

                w = torch.ones(1, requires_grad=True)
                optimizer = torch.optim.SGD([w], lr=0.1)
                schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
                for validation_loss in (1.0, 1.0):
                    schedule.step(validation_loss)
                assert abs(optimizer.param_groups[0]["lr"] - 0.01) < 1e-12
                print(optimizer.param_groups[0]["lr"])
                """,
            see=("error-scheduler-before-optimizer", "optimizer-closures"),
            source=("torch/optim (lr_scheduler.py)",),
        ),
        Message(
            anchor="rate-as-a-tensor",
            title="lr as a Tensor is not supported for capturable=False and foreach=True",
            kinds=("ValueError",),
            patterns=(
                r"lr as a Tensor is not supported for capturable=False and foreach=True",
            ),
            why="""With `foreach=True` all parameters are stepped at once by a number. A
                rate in a tensor would have to be read back from the GPU at each step.""",
            fix="""Pass a number, or leave `foreach` alone. A tensor is of use for
                `torch.compile`, which then does not compile again for each new rate. To
                differentiate by the rate write the step yourself.""",
            broken="""
                import torch

                w = torch.ones(1, requires_grad=True)
                torch.optim.Adam([w], lr=torch.tensor(0.1), foreach=True)
                """,
            fixed="""
                import torch

                rate = torch.tensor(0.1, requires_grad=True)
                w = torch.tensor([1.0], requires_grad=True)
                (g,) = torch.autograd.grad((w**2).sum(), w, create_graph=True)
                ((w - rate * g) ** 2).sum().backward()
                torch.testing.assert_close(rate.grad, torch.tensor(-3.2))
                print(rate.grad)
                """,
            see=("hypergradients", "error-fused-and-differentiable"),
            source=("torch/optim (adam.py)",),
        ),
        Message(
            anchor="names-of-parameters",
            title="all optimizer param groups should be with/without names. cannot add "
            "param group without names to the optimizer",
            kinds=("ValueError",),
            patterns=(r"all optimizer param(?:s| groups)? should be with/without names",),
            older=(
                "all optimizer params should be with/without names. Some param names are "
                "missing",
            ),
            why="""An optimizer that was made from `named_parameters()` keeps the names in
                its state. One group has them and another has none.""",
            fix="""Name all or none: `parameters()` everywhere, or `named_parameters()` in
                `add_param_group` as well.""",
            broken="""
                import torch

                one, other = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
                optimizer = torch.optim.SGD(one.named_parameters(), lr=0.1)
                optimizer.add_param_group({"params": other.parameters()})
                """,
            fixed="""
                import torch

                one, other = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
                optimizer = torch.optim.SGD(one.named_parameters("one"), lr=0.1)
                optimizer.add_param_group({"params": other.named_parameters("other")})
                names = optimizer.param_groups[1]["param_names"]
                assert names == ["other.weight", "other.bias"]
                print(names)
                """,
            see=("error-optimizer-wants-tensors", "error-duplicate-parameters"),
            source=("torch/optim (optimizer.py)",),
        ),
    ),
)
