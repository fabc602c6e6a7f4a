"""Messages about leaves, ``.grad`` and ``requires_grad``."""

from pullback._messages._entry import Message, Theme

SIZE = r"\[[\d, ]*\]"
# Functions of layers and losses: they get inputs and parameters, not gradients.
OF_LAYERS = (
    r"linear|conv|embedding|relu|gelu|silu|sigmoid|tanh|softmax|dropout|lstm|gru|pad|bmm|"
    r"kl_div|scaled_dot|(?:batch|layer|group|instance|rms)_norm|\w+_(?:loss|logits|entropy)|\w+_pool\dd"
)

LEAVES = Theme(
    "leaves",
    (
        Message(
            anchor="non-leaf-grad",
            title="The .grad attribute of a Tensor that is not a leaf Tensor is being "
            "accessed",
            kinds=("UserWarning",),
            patterns=(
                r"The \.grad attribute of a Tensor that is not a leaf Tensor is being "
                r"accessed",
            ),
            why="""You read `.grad` of a tensor that was computed from others. `backward`
                fills `.grad` of leaves only, the parameters and the tensors that you made
                with `requires_grad=True`; elsewhere it stays None.""",
            fix="""Read `.grad` of the leaf, or call `t.retain_grad()` on the computed
                tensor before `backward`, or ask for it: `torch.autograd.grad(y, t, v)`.""",
            tell=(
                "You wrote `torch.rand(3, requires_grad=True).cuda()` (or `.to`, "
                "`.double()`, `/ 10`): the result is computed; make the leaf there, or "
                "call `.requires_grad_()` last.",
                "You reassigned the variable: `x = x.reshape(...)`; keep the first name.",
                "You read `x[0].grad`: the slice is a new tensor. Write `x.grad[0]`.",
                "You do want the gradient of an intermediate value: `retain_grad()`.",
            ),
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True) / 10
                (x**2).sum().backward()
                x.grad
                """,
            fixed="""
                import torch

                x = (torch.tensor([1.0, 2.0, 3.0]) / 10).requires_grad_()
                (x**2).sum().backward()
                assert torch.equal(x.grad, 2 * x)
                print(x.grad)
                """,
            see=("leaves-and-roots",),
            source=("microsoft/nni#5299", "PT#2730", "TUT#3717"),
        ),
        Message(
            anchor="only-floating-point",
            title="Only Tensors of floating point and complex dtype can require gradients",
            patterns=(
                r"[Oo]nly Tensors of floating point (?:and complex )?dtype can require "
                r"gradients",
                r"data set to a tensor that requires gradients must be floating "
                r"point",
            ),
            older=(
                "only Tensors of floating point dtype can require gradients",
                "data set to a tensor that requires gradients must be floating "
                "point or complex dtype",
            ),
            why="""An integer or a Boolean cannot be changed by a small amount, so nothing
                can be differentiated by it. `torch.tensor([1, 2])` makes integers.""",
            fix="""For data: write one number as `1.0`, pass `dtype=torch.float32`, or call
                `.float()` before `.requires_grad_()`. For an index, a label or a mask:
                leave the flag out.""",
            tell=(
                "You wrote the numbers, or read them from an integer array: make floats.",
                "`argmax`, a comparison or `.long()` made the tensor: no gradient comes "
                "back through it, whatever its flag says. Use the values it was made from.",
                "Token ids (`input_ids`), numbers of categories: differentiate by their "
                "vectors, the output of the embedding.",
                "An integer weight (quantised, an index table): "
                "`torch.nn.Parameter(t, requires_grad=False)`, or a buffer.",
            ),
            broken="""
                import torch

                x = torch.tensor([1, 2, 3], requires_grad=True)
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2, 3], requires_grad=True)
                (x**2).sum().backward()
                assert torch.equal(x.grad, 2 * x)
                print(x.grad)
                """,
            see=("leaves-and-roots", "token-gradients", "discrete-choices"),
            source=("PT#53466",),
        ),
        Message(
            anchor="requires-grad-of-leaves",
            title="you can only change requires_grad flags of leaf variables",
            patterns=(r"you can only change requires_grad flags of leaf variables",),
            why="""The tensor was computed from one that requires a gradient, so it does,
                too; the flag follows from its history and cannot be turned off.""",
            fix="""`t = t.detach()` gives the same values without the history. To freeze a
                model, set the flag on its parameters, which are leaves.""",
            tell=(
                "An output or a feature: `detach()` it, or compute it under "
                "`torch.no_grad()`.",
                "`layer.weight` under pruning, `weight_norm` or another parametrization is "
                "computed in each step: `layer.requires_grad_(False)` freezes what it is "
                "computed from.",
            ),
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                y = x * 2
                y.requires_grad = False
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                y = (x * 2).detach()
                assert not y.requires_grad
                print(y)
                """,
            see=("no-grad-detach", "parametrizations"),
            source=("PT#163263",),
        ),
        Message(
            anchor="optimize-non-leaf",
            title="can't optimize a non-leaf Tensor",
            kinds=("ValueError",),
            patterns=(r"can't optimize a non-leaf (?:Tensor|Variable)",),
            older=("can't optimize a non-leaf Variable",),
            why="""An optimizer reads `.grad` and changes the tensor in place; both are for
                leaves. This tensor was computed, for example by `.cuda()`, `.to(...)`,
                `* scale` or `[0]` after `requires_grad=True`.""",
            fix="""Do everything to the values first and call `.requires_grad_()` last. A
                tensor that has a history already: `t.detach().clone().requires_grad_()`,
                which starts a new leaf. Or pass the leaf that it was computed from.""",
            tell=(
                "`t.is_leaf` is False and you train `t` itself: make it a leaf.",
                "You train a part of a tensor, `[x[0]]`: pass `[x]`; the rest gets zeros "
                "as its gradient, and still shrinks with `weight_decay`, as in AdamW.",
                "`layer.weight` of a parametrized layer: pass `layer.parameters()`.",
            ),
            broken="""
                import torch

                w = torch.ones(3, requires_grad=True) * 0.1
                torch.optim.SGD([w], lr=1.0)
                """,
            fixed="""
                import torch

                w = (torch.ones(3) * 0.1).requires_grad_()
                optimizer = torch.optim.SGD([w], lr=1.0)
                w.sum().backward()
                optimizer.step()
                torch.testing.assert_close(w.detach(), torch.full((3,), 0.1 - 1))
                print(w)
                """,
            see=("leaves-and-roots", "error-non-leaf-grad"),
            source=("TUT#3717", "torch/optim/optimizer.py"),
        ),
        Message(
            anchor="retain-grad",
            title="can't retain_grad on Tensor that has requires_grad=False",
            patterns=(
                r"can't retain_grad on (?:Tensor|Variable) that has requires_grad=False",
                r"cannot register a hook on a (?:tensor|variable) that doesn't require "
                r"gradient",
            ),
            older=(
                "can't retain_grad on Variable that has requires_grad=False",
                "cannot register a hook on a tensor that doesn't require gradient",
                "cannot register a hook on a variable that doesn't require gradient",
            ),
            why="""No gradient will ever reach this tensor, so there is none to keep (or to
                hand to a hook).""",
            fix="""Call `.requires_grad_()` on the input before the forward pass, and
                `retain_grad()` or `register_hook` on the result before `backward`.""",
            tell=(
                "Computed under `torch.no_grad()` or `inference_mode()` (a test script): "
                "take that away; `eval()` alone is harmless.",
                "Computed from data only: no input requires a gradient.",
                "A frozen model (Grad-CAM, feature maps): its parameters require none, so "
                "the input must.",
                "Made by `.detach()`, `argmax` or a comparison: take the tensor before it.",
                "It comes from `backward(inputs=[t])`: `t` requires no gradient.",
                "A loop that hooks `model.parameters()` meets a frozen one: skip it, "
                "`if p.requires_grad`.",
            ),
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0])
                y = x**2
                y.retain_grad()
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                y = x**2
                y.retain_grad()
                (3 * y).sum().backward()
                assert torch.equal(y.grad, torch.tensor([3.0, 3.0]))
                print(y.grad)
                """,
            see=("leaves-and-roots", "small-graph", "saliency"),
            source=("TUT#3652",),
        ),
        Message(
            anchor="assign-gradient",
            title="attempting to assign a gradient of size '[2]' to a tensor of size '[3]'",
            kinds=("RuntimeError", "TypeError"),
            patterns=(
                rf"attempting to assign a gradient of size '(?P<grad>{SIZE})' to a tensor "
                rf"of size '(?P<tensor>{SIZE})'",
                r"attempting to assign a gradient with (?:dtype|device type) "
                r"'(?P<grad>[^']+)' to a tensor with (?:(?:grad_)?dtype|device type) "
                r"'(?P<tensor>[^']+)'",
                r"assigned grad has data (?:of|located on) a different "
                r"(?:size|type|device)",
                r"assigned grad expected to be a Tensor or None but got grad of type "
                r"(?P<grad>[\w.]*\w)",
                r"attempting to assign a gradient located on device with index "
                r"'(?P<grad>-?\d+)' to a tensor located on device with index "
                r"'(?P<tensor>-?\d+)'",
                r"can't assign Variable as its own grad",
                r"Cannot set grad_dtype to '(?P<tensor>[^']+)' because there is "
                r"already a gradient with dtype '(?P<grad>[^']+)'",
            ),
            older=(
                "assigned grad has data of a different size",
                "assigned grad has data of a different type",
                "assigned grad has data located on a different device",
                "assigned grad expected to be a Tensor or None but got grad of type float",
                "attempting to assign a gradient with device type 'cpu' to a "
                "tensor with device type 'cuda'. Please ensure that the "
                "gradient and the tensor are on the same device",
                "attempting to assign a gradient with dtype 'c10::BFloat16' to a tensor "
                "with dtype 'float'",
                "can't assign Variable as its own grad",
                "Cannot set grad_dtype to 'Half' because there is already a "
                "gradient with dtype 'float'.",
            ),
            why="""`x.grad` holds one number for each element of `x`: the same shape, dtype
                and device, or None.""",
            fix="""You assign {grad} where {tensor} belongs: assign a tensor made like `x`
                (`torch.as_tensor(g).to(x).reshape(x.shape)`), or None to clear it.""",
            unknown={"grad": "something else", "tensor": "a tensor like `x`"},
            tell=(
                "The same number of elements, another shape or dtype: as above. Rows and "
                "columns exchanged, `[3, 2]` for `[2, 3]`: `g.T`, since `reshape` puts the "
                "numbers in other places.",
                "One number for all elements: `torch.full_like(x, g)`.",
                "`its own grad`, from `x.grad = x`: `x.detach().clone()`.",
                "More elements than `x`, a row for each sample: sum over the samples.",
                "Fewer: it is the gradient of something else; look at where it came from.",
                "You assign nothing, and the dtypes differ: FSDP with mixed precision "
                "settles them in its first forward pass. Convert and unfreeze parameters "
                "before it; evaluate under `torch.no_grad()`, not frozen.",
                "You assign nothing, and the sizes differ: reported for "
                "`FullyShardedDataParallel(…, use_orig_params=True)` under `torch.compile` "
                "in 2.0, where the parameter is a shard already and the gradient is not "
                "(pytorch/pytorch#93288): update, or use `fully_shard`.",
            ),
            broken="""
                import torch

                x = torch.ones(3, requires_grad=True)
                x.grad = torch.ones(2)
                """,
            fixed="""
                import torch

                x = torch.ones(3, requires_grad=True)
                x.grad = torch.zeros_like(x)
                (2 * x).sum().backward()
                assert torch.equal(x.grad, torch.full((3,), 2.0))
                print(x.grad)
                """,
            see=("external-loss", "shape-rule"),
            source=("torch/csrc/autograd (python_variable.cpp)",),
        ),
        Message(
            anchor="grad-is-none",
            title="'NoneType' object has no attribute 'zero_'",
            kinds=("AttributeError", "TypeError", "RuntimeError"),
            patterns=(
                r"'NoneType' object has no attribute "
                r"'(?P<name>zero_|detach_?|norm|clone|data|abs|"
                r"(?:add|sub|mul|div|clamp|fill|copy)_|sign|mean|sum|std|max|min|flatten|"
                r"numpy|cpu|item|pow|square|is_sparse|layout)'",
                r"unsupported operand type\(s\) for [^:]+: '(?:float|Tensor|NoneType)' "
                r"and 'NoneType'",
                r"unsupported operand type\(s\) for [^:]+: 'NoneType' and "
                r"'(?:float|Tensor)'",
                r"unsupported operand type\(s\) for [*/][^:]*: (?:'NoneType' and 'int'|"
                r"'int' and 'NoneType')",
                rf"(?<!\w)(?!{OF_LAYERS})\w+\(\): argument '\w+' \(position \d+\) must "
                r"be Tensor, not NoneType",
                r"expected Tensor as element \d+ in argument 0, but got NoneType",
                # whatever is done with it, where the line that does it is shown
                r"\.grad\b(?!\()(?:(?!-> ?\d|, line \d).){0,160}?\bNoneType\b",
            ),
            older=(
                "expected Tensor as element 0 in argument 0, but got NoneType",
                "unsupported operand type(s) for *: 'float' and 'NoneType'",
                "'NoneType' object has no attribute 'data'",
                "'NoneType' object has no attribute 'sign'",
                "mul(): argument 'other' (position 2) must be Tensor, not NoneType",
            ),
            only_line=r"\bgrads?\b",
            why="""`x.grad` is None: no gradient has arrived. Before the first `backward`
                it always is, and after `optimizer.zero_grad()`, which since PyTorch 2.0
                sets it to None rather than to zero.""",
            fix="""Clear with `x.grad = None` or `optimizer.zero_grad()`, which need no
                check. When `backward` has run and `.grad` is still None, `x` is no leaf,
                does not require a gradient, or the output does not depend on it.""",
            tell=(
                "It happens in the first step: nothing has arrived yet.",
                "It happens right after the update, or in the second step: "
                "`x = x - lr * x.grad` "
                "made a new tensor, which has no `.grad`, and a graph that grows with "
                "every update. Write `x -= lr * x.grad` under `torch.no_grad()`, or make a "
                "new leaf: `x = (x - lr * x.grad).detach().requires_grad_()`.",
                "`x.is_leaf` is False: see the page on `.grad` of non-leaf tensors.",
                "`x.requires_grad` is False: set it before the forward pass.",
                "A parameter that this step does not use: skip it (`if p.grad is not "
                "None`).",
                "`backward(inputs=[...])` fills `.grad` of what it names only, and nothing "
                "comes through a Function whose `backward` returns None.",
                "The None is not a `.grad`: `torch.autograd.grad(..., allow_unused=True)` "
                "returned it for an input that the output does not depend on. Find out why "
                "not before you ask for zeros with `materialize_grads=True`.",
                "The line stands in `backward` of a Function: after "
                "`ctx.set_materialize_grads(False)`, v of an output that the loss does not "
                "use is None. Leave that call out, and it is zeros.",
                "The line has no gradient in it: something else is None, such as what a "
                "function without `return` gave.",
            ),
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                for step in range(2):
                    x.grad.zero_()
                    (x**2).sum().backward()
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                for step in range(2):
                    x.grad = None
                    (x**2).sum().backward()
                assert torch.equal(x.grad, 2 * x)  # once, not twice
                print(x.grad)
                """,
            see=(
                "grad-is-none",
                "error-not-used-in-the-graph",
                "error-non-leaf-grad",
                "error-update-makes-a-new-tensor",
            ),
            source=("pytorch/examples#1172", "PT#2730"),
        ),
        Message(
            anchor="resize-requires-grad",
            title="cannot resize variables that require grad",
            patterns=(r"cannot resize variables that require grad",),
            why="""`resize_` and `resize_as_` change the memory of the tensor itself, and no
                derivative goes through that. `torch.no_grad()` does not help: what counts
                is the tensor's flag.""",
            fix="""`x.reshape(...)` for the same numbers in another shape, `x[:n]` or
                `torch.nn.functional.pad` for fewer or more of them.""",
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
                x.resize_(2)
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
                x[:2].sum().backward()
                assert torch.equal(x.grad, torch.tensor([1.0, 1.0, 0.0]))
                print(x.grad)
                """,
            see=("in-place",),
            source=("torch/csrc/autograd (VariableTypeManual.cpp)",),
        ),
    ),
)
