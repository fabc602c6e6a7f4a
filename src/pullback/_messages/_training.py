"""Messages of losses, optimizers and modules on the way of a gradient."""

from pullback._messages._entry import Message, Theme

SIZE = r"torch\.Size\(\[[\d, ]*\]\)"

TRAINING = Theme(
    "training",
    (
        Message(
            anchor="target-size",
            title="Using a target size that is different to the input size",
            kinds=("UserWarning", "ValueError"),
            patterns=(
                rf"Using a target size \((?P<target>{SIZE})\) that is different to the "
                rf"input size \((?P<input>{SIZE})\)",
                r"Using a target size that is different to the input size",
                rf"Target size \((?P<target>{SIZE})\) must be the same as input size "
                rf"\((?P<input>{SIZE})\)",
            ),
            older=(
                "Target size (torch.Size([16])) must be the same as input size "
                "(torch.Size([16, 1]))",
                "Using a target size (torch.Size([4])) that is different to the "
                "input size (torch.Size([4, 1])) is deprecated. Please ensure "
                "they have the same size.",
            ),
            why="""Prediction and target differ in shape. `mse_loss` and its relatives
                broadcast them against each other: `(N, 1)` against `(N,)` makes N² losses,
                every prediction against every target. The loss falls, and the gradient is
                that of another problem. The binary cross-entropies refuse.""",
            fix="""The prediction has shape {input}, the target {target}: give both one
                shape. Where only a dimension of 1 differs, `.squeeze(1)` takes it off one
                or `[:, None]` adds it to the other.""",
            unknown={"input": "one shape", "target": "another"},
            tell=(
                "`(N, 1)` and `(N,)`: `prediction.squeeze(1)`, or `target[:, None]`. A "
                "bare `squeeze()` also takes the batch dimension off a batch of one.",
                "The target is a row for every sample, on purpose: "
                "`target.expand_as(prediction)` says so.",
                "Other sizes: the rows do not belong together; look at the data.",
            ),
            broken="""
                import torch

                prediction = torch.tensor([[1.0], [2.0]], requires_grad=True)
                target = torch.tensor([1.0, 2.0])
                torch.nn.functional.mse_loss(prediction, target).backward()
                """,
            fixed="""
                import torch

                prediction = torch.tensor([[1.0], [2.0]], requires_grad=True)
                target = torch.tensor([1.0, 2.0])
                loss = torch.nn.functional.mse_loss(prediction, target[:, None])
                loss.backward()
                assert loss == 0 and not prediction.grad.any()
                print(loss.item(), prediction.grad.squeeze())
                """,
            see=("error-loss-broadcast", "two-meanings-of-dimension"),
            source=("torch/nn/functional.py (mse_loss)",),
        ),
        Message(
            anchor="tensors-used-as-indices",
            title="tensors used as indices must be long, int, byte or bool tensors",
            kinds=("IndexError",),
            patterns=(
                r"tensors used as indices must be long,(?: int,)? byte or bool tensors",
            ),
            older=("tensors used as indices must be long, byte or bool tensors",),
            why="""An index chooses an element, and it cannot be changed by a small amount.
                So it must be an integer, and nothing can be differentiated by it.""",
            fix="""For a fixed choice: `index.long()`; for a mask: `mask.bool()`. For a
                position that is to be learned, make it soft: interpolate between
                neighbours, or weigh all elements with a softmax.""",
            tell=(
                "Zeros and ones that choose where: a mask. `.long()` would take elements 0 "
                "and 1 again and again, without an error.",
                "`torch.tensor([])` is float: an empty list of indices needs "
                "`dtype=torch.long`.",
                "`torch.Tensor([0, 1])` makes floats: write `torch.tensor`.",
            ),
            broken="""
                import torch

                values = torch.tensor([1.0, 4.0, 9.0])
                position = torch.tensor(0.5, requires_grad=True)
                values[position].backward()
                """,
            fixed="""
                import torch

                values = torch.tensor([1.0, 4.0, 9.0])
                position = torch.tensor(0.5, requires_grad=True)
                left = int(position.detach())
                share = position - left
                y = (1 - share) * values[left] + share * values[left + 1]
                y.backward()
                assert position.grad == 4 - 1  # the slope between the two
                print(y.item(), position.grad)
                """,
            see=("error-index-has-no-gradient", "discrete-choices"),
            source=("PT#44944",),
        ),
        Message(
            anchor="empty-parameter-list",
            title="optimizer got an empty parameter list",
            kinds=("ValueError",),
            patterns=(r"optimizer got an empty parameter list",),
            why="""Nothing was found to optimize: the generator was used up before, a filter
                let nothing through, or the layers lie in a Python list or dict, where
                `parameters()` does not look.""",
            fix="""Keep layers in `nn.ModuleList` or `nn.ModuleDict`, single tensors in
                `nn.Parameter`, and pass `model.parameters()` anew.""",
            tell=(
                "`list(model.parameters())` is empty: a plain list of layers, or none.",
                "It is not: the filter (`p.requires_grad`) removes all, or the generator "
                "was iterated over before.",
            ),
            broken="""
                import torch
                from torch import nn

                class Model(nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.layers = [nn.Linear(2, 2), nn.Linear(2, 1)]

                torch.optim.SGD(Model().parameters(), lr=0.1)
                """,
            fixed="""
                import torch
                from torch import nn

                class Model(nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.layers = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 1)])

                parameters = list(Model().parameters())
                assert len(parameters) == 4
                torch.optim.SGD(parameters, lr=0.1)
                print(sum(p.numel() for p in parameters))
                """,
            see=("grad-is-none", "error-plain-list-of-layers"),
            source=("torch/optim/optimizer.py",),
        ),
        Message(
            anchor="optimizer-wants-tensors",
            title="params argument given to the optimizer should be an iterable of Tensors "
            "or dicts, but got torch.FloatTensor",
            kinds=("TypeError",),
            patterns=(
                r"params argument given to the optimizer should be an iterable of Tensors "
                r"or dicts, but got(?: (?P<type>[\w.]+))?",
                r"optimizer can only optimize Tensors, but one of the params is "
                r"(?P<type>[\w.]+)",
                r"optimizer parameters need to be organized in ordered collections",
            ),
            older=(
                "optimizer can only optimize Tensors, but one of the params is str",
                "optimizer parameters need to be organized in ordered collections, but the "
                "ordering of tensors in sets will change between runs. Please use a list "
                "instead.",
            ),
            why="""An optimizer takes a list of leaves, or of dicts with options. One tensor
                is not a list, and a dict by itself gives its names.""",
            fix="""It got `{type}` there. Pass `[w]` for one tensor,
                `model.parameters()` for a model, and
                `[*a.parameters(), *b.parameters()]` for two.""",
            unknown={"type": "something else"},
            tell=(
                "`torch.FloatTensor`: one tensor; put it into a list.",
                "`str`: a dict, such as `state_dict()`; pass `model.parameters()`. (Before "
                "PyTorch 2.6 also `named_parameters()`, and then `tuple`.)",
                "`Module.parameters` or `list`: a list around a list; drop the brackets.",
                "The name of a layer: `.parameters()` is missing.",
            ),
            broken="""
                import torch

                w = torch.ones(3, requires_grad=True)
                torch.optim.SGD(w, lr=0.5)
                """,
            fixed="""
                import torch

                w = torch.ones(3, requires_grad=True)
                optimizer = torch.optim.SGD([w], lr=0.5)
                (w**2).sum().backward()
                optimizer.step()
                assert torch.equal(w, torch.zeros(3))
                print(w)
                """,
            see=("error-optimize-non-leaf",),
            source=("torch/optim/optimizer.py",),
        ),
        Message(
            anchor="assign-parameter",
            title="cannot assign 'torch.FloatTensor' as parameter 'weight' "
            "(torch.nn.Parameter or None expected)",
            kinds=("TypeError", "ValueError"),
            patterns=(
                r"cannot assign '(?P<type>[\w.]+)' as parameter '(?P<name>\w+)' "
                r"\(torch\.nn\.Parameter or None expected\)",
                r"cannot assign '(?P<type>[\w.]+)' object to parameter '(?P<name>\w+)'",
                r"Cannot assign non-leaf (?P<type>Tensor|Variable) to parameter "
                r"'(?P<name>\w+)'",
            ),
            older=(
                "cannot assign 'torch.FloatTensor' object to parameter 'weight' "
                "(torch.nn.Parameter or None required)",
                "Cannot assign non-leaf Tensor to parameter 'weight'. Model "
                "parameters must be created explicitly. To express 'weight' as "
                "a function of another Tensor, compute the value in the "
                "forward() method.",
            ),
            why="""Where a module has a parameter it takes another `nn.Parameter` only,
                which is a leaf: plain tensors, computed ones, arrays and numbers are
                refused.""",
            fix="""New numbers for `{name}`: `copy_` them into it under `torch.no_grad()`. A
                weight that is computed from other tensors, with a gradient back to them:
                `torch.func.functional_call`, with the new tensor under that name.""",
            tell=(
                "You set numbers: `copy_` under `no_grad`; a NumPy array through "
                "`torch.as_tensor`.",
                "The new weight has another shape: `torch.nn.Parameter(t)`, before the "
                "optimizer is made. No gradient goes back to what `t` was made from.",
                "The weight depends on something that you train (a hypernetwork, MAML, a "
                "mask): `functional_call`.",
            ),
            broken="""
                import torch

                layer = torch.nn.Linear(2, 1, bias=False)
                scale = torch.tensor(3.0, requires_grad=True)
                layer.weight = scale * torch.ones(1, 2)
                """,
            fixed="""
                import torch

                layer = torch.nn.Linear(2, 1, bias=False)
                scale = torch.tensor(3.0, requires_grad=True)
                weight = scale * torch.ones(1, 2)
                y = torch.func.functional_call(layer, {"weight": weight}, torch.ones(2))
                y.backward()
                assert scale.grad == 2  # y = scale + scale
                print(y.item(), scale.grad)
                """,
            see=("jacobian-of-parameters", "leaves-and-roots", "parametrizations"),
            source=("torch/nn/modules/module.py",),
        ),
        Message(
            anchor="non-finite-norm",
            title="The total norm of order 2.0 for gradients from `parameters` is "
            "non-finite, so it cannot be clipped",
            patterns=(
                r"The total norm (?:of order (?P<order>[\w.]+) )?for gradients from "
                r"`parameters` is non-finite, so it cannot be clipped",
            ),
            why="""One of the gradients is nan or infinite, so their common norm is, too.
                Clipping divides by it and makes all of them nan or 0;
                without `error_if_nonfinite=True` it does so silently.""",
            fix="""Find the parameter (`p.grad.isfinite().all()` for each), and the
                operation: `torch.autograd.detect_anomaly()` stops at nan, and lets inf
                pass. Leave the step out where the norm that comes back is not finite.
                With mixed precision, call `scaler.unscale_(optimizer)` before
                clipping, without `error_if_nonfinite`, and let `scaler.step` skip the
                step.""",
            tell=(
                "nan: `detect_anomaly()` names the operation.",
                "inf: a division by 0, `sqrt` or `log` at 0, or an overflow; print what "
                "goes into them, or a hook that looks at each gradient.",
                "Mixed precision: now and then a step overflows, and the scaler skips it.",
                "All gradients are finite: their squares overflowed. The norm itself is "
                "too large for the dtype; clip in float32, or by value.",
            ),
            broken="""
                import torch

                x = torch.tensor([0.0, 4.0], requires_grad=True)
                x.sqrt().sum().backward()
                torch.nn.utils.clip_grad_norm_([x], 1.0, error_if_nonfinite=True)
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 4.0], requires_grad=True)
                x.sqrt().sum().backward()
                norm = torch.nn.utils.clip_grad_norm_([x], 0.5, error_if_nonfinite=True)
                torch.testing.assert_close(norm, torch.tensor([0.5, 0.25]).norm())
                torch.testing.assert_close(x.grad.norm(), torch.tensor(0.5))
                print(norm, x.grad)
                """,
            see=("masked-nan", "error-returned-nan-values"),
            source=("torch/nn/utils/clip_grad.py",),
        ),
        Message(
            anchor="sparse-gradients",
            title="Adam does not support sparse gradients, please consider SparseAdam "
            "instead",
            patterns=(
                r"(?P<name>\w+) does not support sparse gradients",
                r"(?P<name>SparseAdam) does not support dense gradients",
                r"weight_decay option is not compatible with sparse gradients",
                r"grad\.add\(param, alpha=weight_decay\).*add\(sparse, dense\) is not "
                r"supported",
            ),
            older=(
                "weight_decay option is not compatible with sparse gradients",
                "SparseAdam does not support dense gradients, please consider Adam instead",
            ),
            why="""`nn.Embedding(sparse=True)` makes a gradient that stores the used rows
                only. Most optimizers need all of them, and `SparseAdam` takes no other
                kind.""",
            fix="""{name} takes the other kind. Leave `sparse=True` out, and `SparseAdam`,
                too; or give `torch.optim.SparseAdam` the sparse embedding alone and another
                optimizer the rest. `SGD` and `Adagrad` take both kinds, without
                `weight_decay` and `fused`.""",
            unknown={"name": "The optimizer"},
            tell=(
                "`_fused_sgd`: leave `fused=True` out.",
                "`SparseAdam does not support dense gradients`: the other way "
                "round; the gradient is a plain tensor, use `Adam`.",
            ),
            broken="""
                import torch

                table = torch.nn.Embedding(3, 2, sparse=True)
                optimizer = torch.optim.Adam(table.parameters())
                table(torch.tensor([1])).sum().backward()
                optimizer.step()
                """,
            fixed="""
                import torch

                table = torch.nn.Embedding(3, 2, sparse=True)
                optimizer = torch.optim.SparseAdam(table.parameters())
                before = table.weight.detach().clone()
                table(torch.tensor([1])).sum().backward()
                optimizer.step()
                changed = (table.weight != before).any(1)
                assert changed.tolist() == [False, True, False]
                print(changed)
                """,
            see=("sparse-and-nested",),
            source=("torch/optim (adam.py)",),
        ),
    ),
)
