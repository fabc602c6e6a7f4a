"""Traps that raise nothing: training goes on, and something does not learn."""

from pullback._messages._entry import Theme, trap

SILENT_TRAINING = Theme(
    "silent-training",
    (
        trap(
            anchor="gradients-accumulate",
            title="The gradient doubles with the second call of backward",
            why="""`backward` *adds* to `.grad`. A second call, also one meant as a second
                derivative, gives the sum of both, and n calls give n times the
                gradient.""",
            fix="""Set `x.grad = None` (or `optimizer.zero_grad()`) before each step, or use
                `torch.autograd.grad`, which adds to nothing.""",
            broken="""
                import torch

                x = torch.tensor(2.0, requires_grad=True)
                for step in range(2):
                    (x**4).backward()
                assert x.grad == 2 * 32  # the derivative 4x³ = 32, twice
                print(x.grad)
                """,
            fixed="""
                import torch

                x = torch.tensor(2.0, requires_grad=True)
                for step in range(2):
                    x.grad = None
                    (x**4).backward()
                assert x.grad == 4 * x**3
                print(x.grad)
                """,
            see=("gradient-doubled", "first-vjp", "one-component"),
            source=("torch.Tensor.backward, its documentation",),
        ),
        trap(
            anchor="mean-of-unequal-batches",
            title="Accumulated gradients of means weigh the last, smaller batch too much",
            why="""Each `mean()` divides by its own batch's size. The sum of two means is
                not the mean over both, unless the batches are equally large.""",
            fix="""Sum the losses and divide by the number of all samples:
                `(losses.sum() / total).backward()` for each part.""",
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0, 6.0])
                w = torch.tensor(1.0, requires_grad=True)
                parts = x.split(2)  # two samples, and one
                for part in parts:
                    ((w * part).mean() / len(parts)).backward()
                assert w.grad == (1.5 + 6) / 2  # the mean of x is 3
                print(w.grad)
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0, 6.0])
                w = torch.tensor(1.0, requires_grad=True)
                for part in x.split(2):
                    ((w * part).sum() / len(x)).backward()
                torch.testing.assert_close(w.grad, x.mean())
                print(w.grad)
                """,
            see=("loss-as-v", "token-mean", "error-gradients-accumulate"),
            source=("reproduced here; no thread found",),
        ),
        trap(
            anchor="plain-list-of-layers",
            title="Layers in a Python list are no part of the model: nothing trains them",
            why="""`model.parameters()` finds modules, `ModuleList`s and `Parameter`s that
                are attributes, and does not look into lists and dicts. The layers get
                gradients, and no optimizer sees them; nor do `model.to(device)` and
                `state_dict()`.""",
            fix="""`nn.ModuleList`, `nn.ModuleDict`, `nn.ParameterList`; compare
                `sum(p.numel() for p in model.parameters())` with what you expect.""",
            broken="""
                import torch
                from torch import nn

                class Model(nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.first = nn.Linear(2, 2)
                        self.rest = [nn.Linear(2, 1)]

                    def forward(self, x):
                        return self.rest[0](self.first(x))

                model = Model()
                model(torch.ones(2)).backward()
                last = model.rest[0].weight
                assert last.grad is not None
                assert all(p is not last for p in model.parameters())
                print([name for name, _ in model.named_parameters()])
                """,
            fixed="""
                import torch
                from torch import nn

                class Model(nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.first = nn.Linear(2, 2)
                        self.rest = nn.ModuleList([nn.Linear(2, 1)])

                model = Model()
                assert any(p is model.rest[0].weight for p in model.parameters())
                print([name for name, _ in model.named_parameters()])
                """,
            see=("error-empty-parameter-list",),
            source=("torch.nn.ModuleList, its documentation",),
        ),
        trap(
            anchor="optimizer-holds-the-old-parameter",
            title="The optimizer updates a parameter that the model no longer uses",
            why="""An optimizer keeps the tensors that it was given. A new `Parameter` in
                the model (a new head, a pruned or a resized layer,
                `load_state_dict(..., assign=True)`) is another tensor; the old one gets no
                gradient, and is skipped without a word.""",
            fix="""Make the optimizer after the model is final, or add the new parameters:
                `optimizer.add_param_group`. New numbers go into the same
                tensor with `copy_`.""",
            broken="""
                import torch

                model = torch.nn.Linear(2, 1)
                optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
                model.weight = torch.nn.Parameter(torch.zeros(1, 2))
                model(torch.ones(2)).backward()
                optimizer.step()
                assert torch.equal(model.weight, torch.zeros(1, 2))  # not moved
                print(model.weight.grad, model.weight)
                """,
            fixed="""
                import torch

                model = torch.nn.Linear(2, 1)
                optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
                with torch.no_grad():
                    model.weight.zero_()
                model(torch.ones(2)).backward()
                optimizer.step()
                assert torch.equal(model.weight, -torch.ones(1, 2))
                print(model.weight.grad, model.weight)
                """,
            see=("grad-is-none", "jacobian-of-parameters"),
            source=("torch/optim/optimizer.py",),
        ),
        trap(
            anchor="update-makes-a-new-tensor",
            title="w = w - lr * w.grad under no_grad makes a tensor that learns no more",
            why="""The right side is a new tensor. Under `no_grad` it does not require a
                gradient, so `w` is a constant from the second step on; other parameters
                keep the loss differentiable, and no error comes.""",
            fix="""Write into the leaf: `w -= lr * w.grad` under `torch.no_grad()`, or leave
                it to an optimizer.""",
            broken="""
                import torch

                w = torch.tensor(1.0, requires_grad=True)
                b = torch.tensor(1.0, requires_grad=True)
                for step in range(2):
                    (w * 3 + b).backward()
                    with torch.no_grad():
                        if w.grad is not None:
                            w = w - 0.1 * w.grad
                assert not w.requires_grad
                print(w, b.grad)
                """,
            fixed="""
                import torch

                w = torch.tensor(1.0, requires_grad=True)
                b = torch.tensor(1.0, requires_grad=True)
                for step in range(2):
                    w.grad = None
                    (w * 3 + b).backward()
                    with torch.no_grad():
                        w -= 0.1 * w.grad
                torch.testing.assert_close(w.detach(), torch.tensor(1 - 2 * 0.3))
                print(w)
                """,
            see=("leaves-and-roots", "error-leaf-inplace"),
            source=("PF/120297",),
        ),
        trap(
            anchor="loss-broadcast",
            title="A prediction of shape (N, 1) and a target of shape (N,) make N² losses",
            why="""`(N, 1) - (N,)` broadcasts to `(N, N)`: every prediction is compared
                with every target. The loss falls, and all predictions go to the mean of
                the targets. `mse_loss` warns, a formula of your own does not.""",
            fix="""Give both the same shape: `prediction.squeeze(1)` or `target[:, None]`,
                and assert that the shapes are equal.""",
            broken="""
                import torch

                prediction = torch.tensor([[1.0], [2.0]], requires_grad=True)
                target = torch.tensor([1.0, 2.0])
                loss = (prediction - target).pow(2).sum()
                loss.backward()
                assert loss == 2  # though every prediction is right
                print(loss.item(), prediction.grad.squeeze())
                """,
            fixed="""
                import torch

                prediction = torch.tensor([[1.0], [2.0]], requires_grad=True)
                target = torch.tensor([1.0, 2.0])
                loss = (prediction.squeeze(1) - target).pow(2).sum()
                loss.backward()
                assert loss == 0 and not prediction.grad.any()
                print(loss.item(), prediction.grad.squeeze())
                """,
            see=("two-meanings-of-dimension", "error-target-size"),
            source=("reproduced here; no thread found",),
        ),
        trap(
            anchor="index-has-no-gradient",
            title="A tensor that is used as an index gets no gradient",
            why="""An integer index chooses; the result does not change with it
                continuously. The values that are chosen get their gradient, what the index
                was computed from gets None.""",
            fix="""Weigh all the entries (softmax, interpolation) where the choice itself is
                to be learned.""",
            broken="""
                import torch

                table = torch.tensor([1.0, 4.0, 9.0], requires_grad=True)
                score = torch.tensor([0.1, 0.7, 0.2], requires_grad=True)
                table[score.argmax()].backward()
                assert score.grad is None
                print(table.grad, score.grad)
                """,
            fixed="""
                import torch

                table = torch.tensor([1.0, 4.0, 9.0], requires_grad=True)
                score = torch.tensor([0.1, 0.7, 0.2], requires_grad=True)
                weights = score.softmax(0)
                (weights @ table).backward()
                # d/ds of a softmax average: weight · (value − average)
                expected = weights * (table - weights @ table)
                torch.testing.assert_close(score.grad, expected.detach())
                print(score.grad)
                """,
            see=("error-tensors-used-as-indices", "discrete-choices", "grad-is-none"),
            source=("PT#44944",),
        ),
        trap(
            anchor="rounding-has-gradient-zero",
            title="round, floor, ceil and sign turn the gradient into zeros",
            why="""These functions are flat wherever they have a derivative, so it is 0, and
                everything before them stops learning. Nothing is raised, unlike for
                comparisons, `.long()` and `argmax`, which leave the graph.""",
            fix="""Decide what you want in its place: a smooth function (`sigmoid`), or the
                straight-through estimator `x + (x.round() - x).detach()`, whose value is
                rounded and whose gradient is 1.""",
            broken="""
                import torch

                x = torch.tensor([0.4, 1.6], requires_grad=True)
                x.round().sum().backward()
                assert torch.equal(x.grad, torch.zeros(2))
                print(x.grad)
                """,
            fixed="""
                import torch

                x = torch.tensor([0.4, 1.6], requires_grad=True)
                y = x + (x.round() - x).detach()
                y.sum().backward()
                torch.testing.assert_close(y.detach(), torch.tensor([0.0, 2.0]))
                assert torch.equal(x.grad, torch.ones(2))
                print(x.grad)
                """,
            see=("discrete-choices", "kinks", "custom-function"),
            source=("tools/autograd (derivatives.yaml)",),
        ),
        trap(
            anchor="clamp-outside",
            title="Outside its limits clamp passes no gradient",
            why="""Beyond the limit the result is constant, so the gradient is 0, and this
                loss never brings a parameter back that got there. At the limit itself it
                is 0 as well since torch 2.14; before, 1.""",
            fix="""Clamp after the step, on the parameter, under `torch.no_grad()`; or use a
                function that is flat only far out (`sigmoid`, `softplus`).""",
            broken="""
                import torch

                x = torch.tensor([0.5, 0.75, 2.0], requires_grad=True)
                (x.clamp(0, 1) - 0.25).pow(2).sum().backward()
                assert x.grad.tolist() == [0.5, 1.0, 0.0]  # the last one is stuck
                print(x.grad)
                """,
            fixed="""
                import torch

                x = torch.tensor([0.5, 0.75, 2.0], requires_grad=True)
                optimizer = torch.optim.SGD([x], lr=0.5)
                (x - 0.25).pow(2).sum().backward()
                optimizer.step()
                with torch.no_grad():
                    x.clamp_(0, 1)
                assert torch.equal(x.detach(), torch.full((3,), 0.25))
                print(x)
                """,
            see=("kinks",),
            source=("tools/autograd (derivatives.yaml)",),
        ),
        trap(
            anchor="grad-is-the-same-tensor",
            title="A gradient kept in a variable changes with the next backward",
            why="""`backward` adds to `.grad` in place, unless with `create_graph=True`.
                `g = x.grad` is a second name for that tensor, and not a copy of it.""",
            fix="""Keep a copy, `x.grad.clone()`; or set `x.grad = None` before the next
                call, which makes a new tensor; or use `torch.autograd.grad`.""",
            broken="""
                import torch

                x = torch.tensor(2.0, requires_grad=True)
                (x**2).backward()
                first = x.grad
                (x**3).backward()
                assert first == 4 + 12  # it was 4
                print(first)
                """,
            fixed="""
                import torch

                x = torch.tensor(2.0, requires_grad=True)
                (x**2).backward()
                first = x.grad.clone()
                (x**3).backward()
                assert first == 4 and x.grad == 4 + 12
                print(first)
                """,
            see=("gradient-doubled", "error-gradients-accumulate"),
            source=("torch/csrc/autograd (accumulate_grad.h)",),
        ),
        trap(
            anchor="all-gather-has-no-gradient",
            title="dist.all_gather cuts the graph: what is gathered is a constant",
            why="""`torch.distributed.all_gather` copies numbers into tensors that you made,
                and records nothing. A contrastive loss of the gathered rows is right, and
                no gradient comes back through them, not even to this process's own.""",
            fix="""Put this process's own tensor into its place, `parts[rank] = z`, which
                gives the gradient by its own rows; the averaging of
                `DistributedDataParallel` then divides by the number of processes, so
                multiply the loss by it. A gather that is differentiated on all ranks
                (`torch.distributed.nn.functional.all_gather`, deprecated in 2.13) adds up
                what the ranks send back.""",
            broken="""
                import torch
                import torch.distributed as dist

                store = dist.HashStore()
                dist.init_process_group("gloo", store=store, rank=0, world_size=1)
                z = 2 * torch.ones(1, 2, requires_grad=True)
                parts = [torch.empty_like(z) for _ in range(dist.get_world_size())]
                dist.all_gather(parts, z)
                dist.destroy_process_group()
                assert z.requires_grad and not torch.cat(parts).requires_grad
                print(torch.cat(parts))
                """,
            fixed="""
                import torch
                import torch.distributed as dist

                store = dist.HashStore()
                dist.init_process_group("gloo", store=store, rank=0, world_size=1)
                x = torch.ones(1, 2, requires_grad=True)
                z = 2 * x
                parts = [torch.empty_like(z) for _ in range(dist.get_world_size())]
                dist.all_gather(parts, z)
                parts[dist.get_rank()] = z
                dist.destroy_process_group()
                (torch.cat(parts) ** 2).sum().backward()
                assert torch.equal(x.grad, 8 * torch.ones(1, 2))
                print(x.grad)
                """,
            see=("across-processes", "gradient-cache"),
            source=("accelerate#1154", "open_clip#616"),
        ),
        trap(
            anchor="sigmoid-before-bce",
            title="A wrong answer, a loss of 100 and a gradient of 0: sigmoid before BCE",
            why="""In float32 `sigmoid` is exactly 1 from about 17 on, where its slope is 0.
                `binary_cross_entropy` cuts the logarithm off at -100. So the sample that is
                most wrong gets no gradient.""",
            fix="""Give the scores themselves to `binary_cross_entropy_with_logits`, whose
                gradient is `sigmoid(x) - target`, and drop the `sigmoid`.""",
            broken="""
                import torch
                from torch.nn.functional import binary_cross_entropy

                x = torch.tensor([200.0], requires_grad=True)
                loss = binary_cross_entropy(torch.sigmoid(x), torch.zeros(1))
                loss.backward()
                assert loss == 100 and x.grad == 0
                print(loss.item(), x.grad)
                """,
            fixed="""
                import torch
                from torch.nn.functional import binary_cross_entropy_with_logits

                x = torch.tensor([200.0], requires_grad=True)
                loss = binary_cross_entropy_with_logits(x, torch.zeros(1))
                loss.backward()
                assert loss == 200 and x.grad == 1
                print(loss.item(), x.grad)
                """,
            see=("what-losses-send", "zeros-and-equal-rows", "error-bce-and-autocast"),
            source=("aten/src/ATen/native (Loss.cpp, binary_cross_entropy)",),
        ),
        trap(
            anchor="backward-that-ignores-v",
            title="A backward that returns a ready gradient and ignores v",
            why="""What comes after the Function, a weight of the loss, a mean, the scale of
                `GradScaler`, reaches it as v. Left out, that factor is lost; and the
                scaler divides by its scale before the step all the same.""",
            fix="""Return `v * gradient`. Or leave the Function out: `x.backward(gradient)`,
                with a scaler `x.backward(scaler.scale(gradient))`.""",
            broken="""
                import torch

                class Ready(torch.autograd.Function):
                    forward = staticmethod(lambda ctx, x: x.new_zeros(()))
                    backward = staticmethod(lambda ctx, v: torch.tensor([0.5]))

                x = torch.tensor([1.0], requires_grad=True)
                optimizer = torch.optim.SGD([x], lr=1.0)
                scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
                scaler.scale(Ready.apply(x)).backward()
                scaler.unscale_(optimizer)
                assert x.grad == 0.5 / 1024  # it should be 0.5
                print(x.grad)
                """,
            fixed="""
                import torch

                class Ready(torch.autograd.Function):
                    forward = staticmethod(lambda ctx, x: x.new_zeros(()))
                    backward = staticmethod(lambda ctx, v: v * torch.tensor([0.5]))

                x = torch.tensor([1.0], requires_grad=True)
                optimizer = torch.optim.SGD([x], lr=1.0)
                scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
                scaler.scale(Ready.apply(x)).backward()
                scaler.unscale_(optimizer)
                assert x.grad == 0.5
                print(x.grad)
                """,
            see=("custom-function", "mixed-precision"),
            source=("stable-dreamfusion#158",),
        ),
    ),
)
