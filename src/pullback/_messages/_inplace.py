"""Messages about tensors changed in place."""

from pullback._messages._entry import NODE, Message, Theme
from pullback._messages._inplace_operations import INPLACE_OPERATIONS

INPLACE = Theme(
    "inplace",
    (
        Message(
            anchor="modified-by-an-inplace-operation",
            title="one of the variables needed for gradient computation has been "
            "modified by an inplace operation",
            patterns=(
                r"one of the variables needed for gradient computation has been modified "
                r"by an inplace operation(?:: \[[\w.]+ (?P<shape>\[[\d, ]*\])\](?:, "
                rf"which is output \d+ of (?P<operation>{NODE}),)? is at version "
                r"(?P<version>\d+); expected version (?P<expected>\d+))?",
            ),
            older=(
                "one of the variables needed for gradient computation has been modified "
                "by an inplace operation",
            ),
            why="""An operation saved a tensor for its backward pass, and the tensor was
                changed afterwards. Its version counter shows it. With the new values the
                gradient would be wrong, so autograd refuses.""",
            fix="""Find what writes to the tensor of shape {shape}, the result of
                {operation}: it was at version {expected} when saved and is at {version}
                now. Replace `+=`, `x[i] = …`, `relu_` by a new tensor; let that
                write, and `optimizer.step()`, come after every `backward` that needs the
                old values.""",
            unknown={
                "shape": "in question",
                "operation": "no operation that is named (a parameter, data, an index)",
                "expected": "a lower number",
                "version": "a higher one",
            },
            tell=(
                "The tensor is a parameter: no operation is named, or the shape is that of "
                "a weight transposed, `[in, out]`, as output of `AsStrided` or `T`. "
                "`optimizer.step()` ran between forward and `backward`, as with two "
                "networks trained in turns; call every `backward` first, or compute the "
                "second loss anew after the step, in a GAN `D(fake)`.",
                "The same, and you pass `retain_graph=True` in a loop: `backward` goes "
                "through the last step's graph, whose weights have moved on; detach the "
                "state that is carried over.",
                "DistributedDataParallel in earlier releases, and the shape is that of a "
                "buffer, such as BatchNorm's mean: each forward pass writes rank 0's "
                "buffers into the module. Two batches go into one forward pass, or "
                "`broadcast_buffers=False`.",
                "`Relu`, `Sigmoid`, `Tanh` (`ReluBackward0` in earlier releases): an "
                "`inplace=True` activation after it, or `+=`.",
                "`AsStrided` of shape `[]` or of a row, `x[i] = …` in a loop: collect in a "
                "list and `torch.stack`, or read a copy, `w * x[i - 1].clone()`.",
                "`AsStrided`, `View`, `Select`: a view's base was written to.",
                "You wrote to `y.detach()`, which shares y's numbers: "
                "`y.detach().clone()`. (By NumPy it would be wrong without a word.)",
                "A mask, `y[y < 1] = 0` behind `exp`: `torch.where(y < 1, 0, y)`, or "
                "`y.masked_fill(y < 1, 0)`; neither writes to y.",
                "An index, a mask or data (`LongTensor`, `BoolType`, or no operation): "
                "write to a clone.",
                "Not clear: `torch.autograd.set_detect_anomaly(True)` shows the line.",
                "Operations that save nothing (`x + 1`) may be written over; `exp`, "
                "`sigmoid`, `sqrt` save their output, `square`, `sin` their input.",
            ),
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
                y = x.exp()
                y += 1
                y.sum().backward()
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
                y = x.exp()
                y = y + 1
                y.sum().backward()
                torch.testing.assert_close(x.grad, x.detach().exp())
                print(x.grad)
                """,
            see=("in-place", "second-backward"),
            source=("PT#39141", "PF/169583", "PT#175024"),
        ),
        Message(
            anchor="leaf-inplace",
            title="a leaf Variable that requires grad is being used in an in-place "
            "operation",
            patterns=(
                r"(?<!a view of )a leaf Variable that requires grad (?:is being|has been) "
                r"used in an in-place operation",
                r"leaf variable was used in an inplace operation",
            ),
            older=(
                "a leaf Variable that requires grad has been used in an in-place "
                "operation.",
                "leaf variable was used in an inplace operation",
            ),
            why="""A leaf is where gradients arrive. Writing to it inside the graph would
                make it the result of an operation, and it would be a leaf no more.""",
            fix="""For an update step: wrap it in `with torch.no_grad():`. Inside a function
                that you differentiate: make a new tensor (`x = x + 1`).""",
            tell=(
                "`w -= lr * w.grad`: an update; `torch.no_grad()` around it.",
                "`nn.init` by hand, `weight.fill_(0)`: the same.",
                "`x += 1` in the forward pass: `x = x + 1`.",
                "`inputs_embeds += …` or `inputs_embeds[mask] = …`, with LoRA only: a "
                "frozen embedding's output has no history, and "
                "`enable_input_require_grads` makes a leaf of it. Out of place, "
                "`inputs_embeds = inputs_embeds + …`, or write to a clone.",
                "`x[mask] = …`, `x[[0, 1]] += …`: clone first, `y = x.clone()`, and write "
                "to `y`; or `torch.where(mask, …, x)`.",
                "An `inplace=True` activation is the first to get the input: "
                "`inplace=False`, or pass `x.clone()`.",
                "Your own Function calls `ctx.mark_dirty(x)`, and x is a leaf: pass it "
                "`x.clone()`.",
                "`optimizer.step()` with `differentiable=True`: give the optimizer a clone "
                "of the leaf, and its `.grad` yourself; see the page on closures.",
            ),
            broken="""
                import torch

                w = torch.tensor([1.0, 2.0], requires_grad=True)
                (w**2).sum().backward()
                w -= 0.5 * w.grad
                """,
            fixed="""
                import torch

                w = torch.tensor([1.0, 2.0], requires_grad=True)
                (w**2).sum().backward()
                with torch.no_grad():
                    w -= 0.5 * w.grad
                assert torch.equal(w, torch.zeros(2)) and w.is_leaf
                print(w)
                """,
            see=("in-place", "token-gradients", "optimizer-closures"),
            source=("pytorch/examples#779", "PF/120297", "modelscope/ms-swift#4613"),
        ),
        Message(
            anchor="view-of-a-leaf-inplace",
            title="a view of a leaf Variable that requires grad is being used in an "
            "in-place operation",
            patterns=(
                r"a view of a leaf Variable that requires grad is being used in an "
                r"in-place operation",
            ),
            why="""`x[0] = …`, `x[1:3] += …` or a write to `x.view(...)` writes to `x`,
                which is a leaf that requires a gradient.""",
            fix="""To set values: wrap it in `with torch.no_grad():`; `x` stays a leaf that
                is trained. Inside a function that you differentiate: `y = x.clone()` first
                and write to `y`, or build the result with `torch.where`, `torch.cat`.""",
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
                x[0] = 10.0
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
                y = x.clone()
                y[0] = 10.0
                (y**2).sum().backward()
                assert torch.equal(x.grad, torch.tensor([0.0, 4.0, 6.0]))
                print(x.grad)
                """,
            see=("in-place", "error-leaf-inplace"),
            source=("hustvl/YOLOP#17", "PF/120297"),
        ),
        Message(
            anchor="multiple-views-inplace",
            title="Output 0 of Unbind is a view and is being modified inplace. This view "
            "is the output of a function that returns multiple views",
            patterns=(
                rf"Output (?P<index>\d+) of (?P<operation>{NODE}) is a view and (?:is "
                r"being|its base or another view of its base has been) modified inplace\. "
                r"This view is (?:the|an) output of a function that returns multiple views",
                r"A view was created in (?:no_grad|inference) mode and (?:is being|its "
                r"base or another view of its base has been) modified inplace (?:with grad "
                r"mode enabled|in normal mode)\. This view is the output of a function "
                r"that returns multiple views",
            ),
            unknown={"operation": "`unbind`, `split` or the loop"},
            older=(
                "A view was created in no_grad mode and is being modified inplace with "
                "grad mode enabled. This view is the output of a function that returns "
                "multiple views. Such functions do not allow the output views to be "
                "modified inplace.",
                "Output 0 of UnbindBackward is a view and is being modified inplace. This "
                "view is the output of a function that returns multiple views. Such "
                "functions do not allow the output views to be modified inplace.",
                "Output 0 of SplitBackward is a view and is being modified "
                "inplace. This view is an output of a function that returns "
                "multiple views. Inplace operators on such views are being "
                "deprecated and will be forbidden starting from version 1.8.",
                "Output 0 of UnbindBackward0 is a view and its base or another "
                "view of its base has been modified inplace. This view is the "
                "output of a function that returns multiple views.",
            ),
            why="""`unbind`, `split`, `chunk` and iterating over a tensor (`for row in x`)
                give several views of one tensor at once. Autograd cannot follow a write to
                one of them.""",
            fix="""Do not write to what {operation} gave, nor to the tensor that it came
                from while a part is still needed: compute new tensors and `torch.stack`
                them, or write through an index, `x[i].mul_(2)`, which autograd follows
                where `x` is no leaf.""",
            tell=(
                "`Output 0 of Unbind`, `Split`: the tensor that was split is in the graph.",
                "`A view was created in no_grad mode`, without any `no_grad`: the tensor "
                "that was split requires no gradient, and what you write does.",
                "`its base or another view of its base has been`: you wrote to "
                "the tensor that was taken apart, and use a part afterwards; "
                "write first, or take it apart anew.",
                "The name of a Function of yours: its `forward` returns views of its "
                "input; return clones.",
            ),
            broken="""
                import torch

                image = torch.ones(3, 2, requires_grad=True) * 1
                for channel, scale in zip(image, (1.0, 2.0, 3.0)):
                    channel.mul_(scale)
                """,
            fixed="""
                import torch

                image = torch.ones(3, 2, requires_grad=True)
                scales = torch.tensor([1.0, 2.0, 3.0])
                scaled = image * scales[:, None]
                scaled.sum().backward()
                assert torch.equal(image.grad, scales[:, None].expand(3, 2))
                print(image.grad)
                """,
            see=("in-place", "error-modified-by-an-inplace-operation"),
            source=("haofanwang/Score-CAM#28",),
        ),
        Message(
            anchor="view-in-custom-function-inplace",
            title="Output 0 of BackwardHookFunction is a view and is being modified "
            "inplace",
            patterns=(
                rf"Output (?P<index>\d+) of (?P<operation>{NODE}) is a view and (?:is "
                r"being|its base or another view of its base has been) modified inplace\. "
                r"This view was created inside a custom Function",
                r"Output (?P<index>\d+) of (?P<operation>BackwardHookFunction\w*) is a "
                r"view and is being modified inplace",
            ),
            older=(
                "Output 0 of BackwardHookFunctionBackward is a view and is being modified "
                "inplace. This view was created inside a custom Function (or because an "
                "input was returned as-is)",
            ),
            why="""A full backward hook (or your own Function that returns its input, or a
                view of it) wraps its output in a view, and the next operation writes to
                it in place. Autograd would have to drop the backward of the hook or of
                the Function.""",
            fix="""Make the operation after {operation} out-of-place:
                `nn.ReLU(inplace=False)`, `x = x + y` in place of `x += y`. In your own
                Function return a copy, with `.clone()`.""",
            tell=(
                "`BackwardHookFunction`: `register_full_backward_hook` and an "
                "`inplace=True` module or a residual `+=`.",
                "Your Function's name: its `forward` returns its input as it is, or a view "
                "such as `x.view(-1)`.",
            ),
            broken="""
                import torch
                from torch import nn

                layer = nn.Linear(2, 2)
                layer.register_full_backward_hook(lambda module, grad_in, grad_out: None)
                nn.ReLU(inplace=True)(layer(torch.ones(1, 2)))
                """,
            fixed="""
                import torch
                from torch import nn

                layer, seen = nn.Linear(2, 2), []
                layer.register_full_backward_hook(
                    lambda module, grad_in, grad_out: seen.append(grad_out[0].shape)
                )
                x = torch.ones(1, 2, requires_grad=True)
                nn.ReLU()(layer(x)).sum().backward()
                assert seen == [(1, 2)]
                print(seen)
                """,
            see=("hooks",),
            source=("PT#61519",),
        ),
        Message(
            anchor="view-in-no-grad-inplace",
            title="A view was created in no_grad mode and is being modified inplace",
            patterns=(
                r"A view was created in (?P<mode>no_grad|inference) mode and (?:is being|"
                r"its base or another view of its base has been) modified inplace"
                r"(?! .{10,25}\. This view is the output of)",
            ),
            older=(
                "A view was created in inference mode and is being modified inplace in "
                "normal mode.",
                "A view was created in no_grad mode and its base or another "
                "view of its base has been modified inplace with grad mode "
                "enabled.",
            ),
            why="""The view was taken inside `torch.no_grad()` or `inference_mode()`, the
                write happens outside. Whether the write should be in the graph cannot be
                told.""",
            fix="""Put both the view and the write inside that block (not differentiated),
                or both outside (differentiated).""",
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                y = x * 2
                with torch.no_grad():
                    first = y[0]
                first.mul_(10)
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                y = x * 2
                y[0].mul_(10)
                y.sum().backward()
                assert torch.equal(x.grad, torch.tensor([20.0, 2.0]))
                print(x.grad)
                """,
            see=("in-place", "error-leaf-inplace"),
            source=("torch/csrc/autograd (variable.cpp)",),
        ),
        *INPLACE_OPERATIONS,
    ),
)
