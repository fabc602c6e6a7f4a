"""Messages about the graph: cut, freed, unused, or running into nan."""

from pullback._messages._entry import NODE, Message, Theme

GRAPH = Theme(
    "graph",
    (
        Message(
            anchor="does-not-require-grad",
            title="element 0 of tensors does not require grad and does not have a grad_fn",
            patterns=(
                r"[Ee]lement (?P<index>\d+) of (?:the input )?(?:tensor|variable)s? does "
                r"not require grad",
                r"element (?P<index>\d+) of variables tuple is volatile",
                r"there are no graph nodes that require computing gradients",
            ),
            older=(
                "element 0 of variables does not require grad and does not have a grad_fn",
                "element 0 of variables tuple is volatile",
                "there are no graph nodes that require computing gradients",
            ),
            why="""The output that you differentiate has no graph behind it: nothing that
                it was computed from requires a gradient, or something on the way cut the
                graph.""",
            fix="""Follow output {index} (counted from 0) back and print `t.requires_grad`
                of each tensor: where it turns from True into False, the graph was cut. Set
                `requires_grad=True` on the input, or take the cutting operation out;
                `loss.requires_grad_()` (`loss.requires_grad = True`) silences the message,
                and nothing is learnt: the loss is a leaf then, and no parameter hears of
                it.""",
            tell=(
                "No tensor requires a gradient: `x.requires_grad_()` before the forward "
                "pass; a frozen model has no parameter that does.",
                "Computed under `torch.no_grad()` or `torch.inference_mode()`, or after a "
                "`torch.set_grad_enabled(False)` that was never taken back.",
                "A trainer validates under `no_grad`, and `forward` takes a gradient of "
                "its own: `with torch.enable_grad():` around that, by an input made with "
                "`t.detach().requires_grad_()`.",
                "The same under `inference_mode`, where Lightning validates: `enable_grad` "
                "does not undo it. `with torch.inference_mode(False):` around that, by "
                "`t.clone().requires_grad_()`; or `Trainer(inference_mode=False)`, and "
                "`enable_grad` as above.",
                "`torch.autograd.grad` inside `torch.vmap`, where a sample has "
                "`requires_grad=False`: `torch.vmap(torch.func.grad(f))`. For losses that "
                "you have already: `torch.autograd.grad(losses, x, "
                "torch.eye(N).to(losses), is_grads_batched=True)`, a row for each and no "
                "second forward pass.",
                "`.item()`, `.detach()`, `.data`, `.numpy()`, `torch.tensor(t)` before it.",
                "`torch.tensor([l1, l2])` of tensors copies their values; "
                "`torch.stack([l1, l2])` keeps their graphs.",
                "`argmax`, a comparison (an accuracy, a count of errors), `.long()`, "
                "`round` to an integer dtype: integers have no derivative, whatever flag "
                "you set on them. Train on a smooth loss, such as the cross-entropy.",
                "Inside `checkpoint` with `use_reentrant=True` (gradient checkpointing of "
                "a model with frozen embeddings): its inputs require no gradient; "
                "`use_reentrant=False`.",
                "A second derivative: pass `create_graph=True` to the first `grad`.",
                "A second derivative of a linear function: the first is a constant, and "
                "the answer is zero; `materialize_grads=True` does not help here.",
                "A second derivative through a custom Function marked "
                "`@once_differentiable`, or whose `backward` detaches.",
            ),
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
                chosen = (x**2).argmax()
                chosen.backward()
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
                largest = (x**2).amax()  # the value, and not its index
                assert largest.grad_fn is not None
                largest.backward()
                assert torch.equal(x.grad, torch.tensor([0.0, 0.0, 6.0]))
                print(x.grad)
                """,
            see=(
                "no-grad-detach",
                "several-losses",
                "no-slope",
                "error-checkpoint-inputs-no-grad",
            ),
            source=("PT#19806", "PT#44189"),
        ),
        Message(
            anchor="backward-second-time",
            title="Trying to backward through the graph a second time",
            patterns=(r"Trying to backward through the graph (?:a )?second time",),
            older=(
                "Trying to backward through the graph a second time, but the buffers have "
                "already been freed. Specify retain_graph=True when calling backward the "
                "first time.",
                "Trying to backward through the graph a second time, but the saved "
                "intermediate results have already been freed. Specify retain_graph=True "
                "when calling .backward() or autograd.grad() the first time.",
                "Trying to backward through the graph second time, but the buffers have "
                "already been freed. Please specify retain_variables=True when calling "
                "backward for the first time.",
            ),
            why="""The first `backward` freed the tensors that the graph had saved for it.
                A second one finds them gone. Operations that save nothing (a sum, adding
                a constant) can be passed twice, so the error may appear only after a
                change elsewhere.""",
            fix="""Add the losses and call `backward` once; or run the forward pass again;
                or detach what is carried from one step into the next; or pass
                `retain_graph=True` to every call but the last.""",
            tell=(
                "Two losses share a part of the graph: `(a + b).backward()`.",
                "In the second step of a loop: a state (hidden state, running mean, "
                "cached embedding) still carries the last step's graph; `h = h.detach()`. "
                "`retain_graph=True` would go back through all earlier steps each time.",
                "Something was computed once, before the loop (a text embedding): if it is "
                "trained, move it into the loop; if not, compute it under `no_grad`.",
                "A second derivative: `create_graph=True` in the first call keeps it.",
                "A notebook: the cell with `backward` ran again, and not the one that "
                "computes the loss. Put both into one cell; `retain_graph=True` would only "
                "add the same gradient once more.",
                "One row of a Jacobian at a time: `retain_graph=True`, or one call with "
                "`is_grads_batched=True`.",
                "You read `grad_fn._saved_...` or `ctx.saved_tensors` after `backward`: "
                "read it before.",
            ),
            broken="""
                import torch

                w = torch.tensor(2.0, requires_grad=True)
                state = torch.tensor(1.0)
                for step in range(2):
                    state = state * w * w
                    state.backward()
                """,
            fixed="""
                import torch

                w = torch.tensor(2.0, requires_grad=True)
                state = torch.tensor(1.0)
                for step in range(2):
                    state = state.detach() * w * w
                    state.backward()
                assert w.grad == 1 * 2 * 2 + 4 * 2 * 2
                print(w.grad)
                """,
            see=("second-backward", "one-component", "upstream", "jacobian-row-by-row"),
            source=("PF/6795", "quark0/darts#56"),
        ),
        Message(
            anchor="not-used-in-the-graph",
            title="The differentiated Tensor at index 0 appears to not have been used in "
            "the graph",
            patterns=(
                r"The differentiated Tensor at index (?P<index>\d+) appears to not have "
                r"been used in the graph",
                r"One of the differentiated (?:Tensors|Variables) appears to not have been "
                r"used in the graph",
                r"differentiated input is unreachable",
            ),
            older=(
                "One of the differentiated Tensors appears to not have been used in the "
                "graph. Set allow_unused=True if this is the desired behavior.",
                "One of the differentiated Variables appears to not have been used in the "
                "graph",
                "differentiated input is unreachable",
            ),
            why="""`torch.autograd.grad` found no path from the output to that input. Often
                the input is a slice, a view or a copy made *after* the forward pass, which
                the output has never seen.""",
            fix="""Differentiate the very tensor that went into the forward pass: look at
                input {index} of your list. When the output really does not depend on it,
                pass `allow_unused=True` (gives None) or `materialize_grads=True` (gives
                zeros).""",
            unknown={"index": "after input"},
            tell=(
                "You pass `x[i]`, `x.view(...)` or `x.to(...)`: take the gradient of `x` "
                "and slice that.",
                "An ensemble (`stack_module_state` and `vmap`), a loss for each model, and "
                "a slice `w[k]` of the stack: take `losses.sum()` by the whole stack; row "
                "k is model k's gradient.",
                "`x.requires_grad_()` came after the forward pass: move it before.",
                "The attention that `nn.MultiheadAttention` returns: the output was not "
                "computed from it. Write the attention out, and take the tensor that is "
                "multiplied by the values.",
                "You passed `allow_unused=True` and the result is None, on which `.norm()` "
                "crashes: the flag took the message away, and not its cause. Pass the "
                "tensor that went in; zeros in place of None are right only where the "
                "output does not depend on it.",
                "A model has a branch that this input does not take: `allow_unused=True`.",
                "A second derivative of something linear in that input, as a sum of "
                "outputs is in the last bias: it is zero; `materialize_grads=True`. A "
                "squared error is not linear in it.",
                "A custom Function marked `@once_differentiable`, or one that detaches, "
                "lies between: the answer is not zero, and `allow_unused=True` would hide "
                "it.",
            ),
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
                y = (x**2).sum()
                torch.autograd.grad(y, x[0])
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
                y = (x**2).sum()
                (gradient,) = torch.autograd.grad(y, x)
                assert gradient[0] == 2 * x[0]
                print(gradient[0])
                """,
            see=(
                "grad-is-none",
                "shape-rule",
                "jacobian-of-parameters",
                "functional-buffers",
            ),
            source=("PT#181917", "PF/43679", "PT#44189"),
        ),
        Message(
            anchor="differentiated-does-not-require-grad",
            title="One of the differentiated Tensors does not require grad",
            patterns=(
                r"One of the differentiated (?:Tensors|Variables) does not require grad",
            ),
            older=("One of the differentiated Variables does not require grad",),
            why="""One of the inputs given to `torch.autograd.grad` has
                `requires_grad=False`, so it is no part of any graph.
                `allow_unused=True` covers inputs that are unused, and not these.""",
            fix="""Call `x.requires_grad_()` on every input that you differentiate by,
                before the forward pass; leave the others out of `inputs`.""",
            tell=(
                "Data, such as an image for a saliency map: `x.requires_grad_()` before "
                "the forward pass. Later it only changes the message.",
                "`model.parameters()` with frozen ones among them: "
                "`[p for p in model.parameters() if p.requires_grad]`.",
                "`x.detach()`, or a value of `model.state_dict()`: pass `x` itself, and "
                "`model.parameters()`.",
                "A result of `torch.autograd.grad` without `create_graph=True`.",
            ),
            broken="""
                import torch

                x = torch.tensor(2.0, requires_grad=True)
                scale = torch.tensor(3.0)
                torch.autograd.grad(scale * x, [x, scale], allow_unused=True)
                """,
            fixed="""
                import torch

                x = torch.tensor(2.0, requires_grad=True)
                scale = torch.tensor(3.0, requires_grad=True)
                gradients = torch.autograd.grad(scale * x, [x, scale])
                assert gradients == (3.0, 2.0)
                print(gradients)
                """,
            see=("leaves-and-roots",),
            source=("PT#115918",),
        ),
        Message(
            anchor="materialize-grads",
            title="Expected allow_unused to be True or not passed when "
            "materialize_grads=True",
            kinds=("ValueError",),
            patterns=(
                r"Expected allow_unused to be True or not passed when "
                r"materialize_grads=True",
            ),
            why="""`materialize_grads=True` turns the None of an unused input into zeros, so
                it has to allow unused inputs.""",
            fix="""Leave `allow_unused` out.""",
            broken="""
                import torch

                x = torch.tensor(2.0, requires_grad=True)
                z = torch.tensor(3.0, requires_grad=True)
                torch.autograd.grad(
                    x**2, [x, z], allow_unused=False, materialize_grads=True
                )
                """,
            fixed="""
                import torch

                x = torch.tensor(2.0, requires_grad=True)
                z = torch.tensor(3.0, requires_grad=True)
                gradients = torch.autograd.grad(x**2, [x, z], materialize_grads=True)
                assert gradients == (4.0, 0.0)
                print(gradients)
                """,
            see=("second-derivatives", "error-not-used-in-the-graph"),
            source=("PT#97015",),
        ),
        Message(
            anchor="create-graph-reference-cycle",
            title="Using backward() with create_graph=True will create a reference cycle",
            kinds=("UserWarning",),
            patterns=(
                r"Using backward\(\) with create_graph=True will create a reference cycle",
            ),
            why="""With `create_graph=True`, `x.grad` has a graph that leads back to `x`,
                and `x` holds `x.grad`. Reference counting never frees such a circle: each
                step may leak its whole graph.""",
            fix="""Use `torch.autograd.grad(y, x, create_graph=True)`, which returns the
                gradient and stores nothing; or set `x.grad = None` after use.""",
            broken="""
                import torch

                x = torch.tensor(2.0, requires_grad=True)
                (x**3).backward(create_graph=True)
                """,
            fixed="""
                import torch

                x = torch.tensor(2.0, requires_grad=True)
                (first,) = torch.autograd.grad(x**3, x, create_graph=True)
                (second,) = torch.autograd.grad(first, x)
                assert second == 6 * x
                print(second)
                """,
            see=("retain-or-create", "which-v"),
            source=("PT#78622", "amirgholami/PyHessian#25"),
        ),
        Message(
            anchor="found-dtype",
            title="Found dtype Double but expected Float",
            patterns=(
                r"Found dtype (?P<found>\w+) but expected (?P<expected>\w+)",
                r"[Ee]xpected dtype (?P<expected>\w+) but got dtype (?P<found>\w+)",
                r"Expected object of (?:scalar )?type (?:torch\.)?"
                r"(?P<expected>(?!Long)\w+) but (?:got|found) (?:scalar )?type "
                r"(?:torch\.)?(?P<found>\w+) for argument",
                r"result type (?P<expected>\w+) can't be cast to the desired "
                r"output type (?P<found>\w+)",
            ),
            older=(
                "Expected object of scalar type Float but got scalar type Double for "
                "argument #2 'target'",
                "expected dtype Double but got dtype Float",
                "result type Float can't be cast to the desired output type Long",
            ),
            why="""Two tensors have different dtypes, most often prediction and target. Some
                losses convert, some refuse at once, and some refuse only in `backward`, far
                from the cause. NumPy's default is float64, PyTorch's is float32.""",
            fix="""Bring the {found} tensor to {expected} first; for a loss:
                `target.to(prediction.dtype)`.""",
            tell=(
                "`Found dtype Double`: data from NumPy or pandas; "
                "`torch.as_tensor(a, dtype=torch.float32)`.",
                "`Found dtype Long`: integer labels in a loss for real targets; "
                "`target.float()`, or a loss for classes (`cross_entropy`).",
                "`result type Float can't be cast to ... Long`, in a line with `+=`, `/=` "
                "or `.div_()`: an integer tensor cannot hold the result; `t = t / 2`, or "
                "`t.float()` first. In `binary_cross_entropy_with_logits` the targets are "
                "integers; `target.float()`.",
                "`expected Half`, `expected BFloat16`: the model computes in half "
                "precision; rather take `prediction.float()`.",
            ),
            broken="""
                import numpy as np
                import torch

                prediction = torch.zeros(3, requires_grad=True)
                target = torch.from_numpy(np.array([1.0, 2.0, 3.0]))
                torch.nn.functional.huber_loss(prediction, target).backward()
                """,
            fixed="""
                import numpy as np
                import torch

                prediction = torch.zeros(3, requires_grad=True)
                target = torch.from_numpy(np.array([1.0, 2.0, 3.0])).to(prediction.dtype)
                torch.nn.functional.huber_loss(prediction, target).backward()
                torch.testing.assert_close(prediction.grad, torch.full((3,), -1 / 3))
                print(prediction.grad)
                """,
            see=("external-loss", "shape-rule"),
            source=("PT#2138", "PT#36553"),
        ),
        Message(
            anchor="returned-nan-values",
            title="Function 'SqrtBackward0' returned nan values in its 0th output",
            patterns=(
                rf"Function '(?P<function>{NODE})' returned nan values in its "
                r"(?P<index>\d+)th output",
            ),
            why="""Anomaly detection is on and the backward pass of that operation gave nan.
                Often it is 0 · inf: the slope of `sqrt`, `log` or a division is
                infinite at 0, and a mask applied *after* it multiplies by 0, which
                leaves nan.""",
            fix="""Change the input of the operation behind {function} where it is bad,
                before the operation, and mask the result as well; for a square root:
                `torch.where(x > 0, x, 1.0).sqrt()`.""",
            tell=(
                "`SqrtBackward0`, `PowBackward0` with an exponent below 1: an input is 0.",
                "`LogBackward0`, `DivBackward0`, `ReciprocalBackward0` (`1 / x`): an input "
                "is 0; clamp it or use `log1p`, `logsumexp`, `log_softmax`. The `log` of a "
                "`softmax` that came out as 0 (it may be named `SoftmaxBackward0`): "
                "`log_softmax`, not a clamp or an eps, which leave that sample without a "
                "gradient.",
                "`StdBackward0`, `VarBackward0`: fewer than two elements.",
                "`ExpBackward0`: `exp` gave inf; clamp its input.",
                "`SoftmaxBackward0`, `LogSoftmaxBackward0`: a row is `-inf` throughout, as "
                "when a mask of attention hides everything.",
                "`LinalgEighBackward0`, `LinalgSvdBackward0`: two equal eigenvalues or "
                "singular values.",
                "`VarBackward0`, `LinalgVectorNormBackward0`, `MulBackward0`: look at what "
                "comes *after* it, such as the square root of a variance or a norm that is "
                "0; the operation itself was handed inf, or it multiplies by nan.",
                "The forward pass is nan already: find it there first.",
            ),
            broken="""
                import torch

                x = torch.tensor([0.0, 4.0], requires_grad=True)
                with torch.autograd.detect_anomaly(check_nan=True):
                    (x.sqrt() * (x > 0)).sum().backward()
                """,
            fixed="""
                import torch

                x = torch.tensor([0.0, 4.0], requires_grad=True)
                safe = torch.where(x > 0, x, 1.0)
                torch.where(x > 0, safe.sqrt(), 0.0).sum().backward()
                assert torch.equal(x.grad, torch.tensor([0.0, 0.25]))
                print(x.grad)
                """,
            see=(
                "masked-nan",
                "find-the-nan",
                "log-of-softmax",
                "error-nan-from-a-mask",
                "eigenvectors-nan",
            ),
            source=("PT#38714",),
        ),
        Message(
            anchor="no-node",
            title="'NoneType' object has no attribute 'next_functions'",
            kinds=("AttributeError", "RuntimeError"),
            patterns=(
                r"'NoneType' object has no attribute "
                r"'(?P<name>next_functions|register_prehook|metadata|saved_tensors)'",
                r"It is not possible to get the gradient edge for a Tensor that does not "
                r"require gradients",
                r"Attempted to get grad_fn, but got None",
            ),
            older=(
                "It is not possible to get the gradient edge for a Tensor that does not "
                "require gradients",
                "Attempted to get grad_fn, but got None.Is this being created in a no-grad "
                "context?",
            ),
            only_line=r"next_functions|register_prehook|metadata|saved_tensors"
            r"|raise RuntimeError",
            why="""You look at the graph behind a tensor that has none: its `grad_fn` is
                None, because it is a leaf or was computed without a graph. On a walk
                through `next_functions`, None also stands where an input needs no
                gradient.""",
            fix="""Ask first (`while node is not None`). For a leaf that requires a gradient
                `torch.autograd.graph.get_gradient_edge(x).node` is the node that adds to
                `x.grad`.""",
            tell=(
                "The tensor should have a graph: `no_grad`, `detach`, `.item()` or NumPy "
                "came before; see the page on element 0 of tensors.",
                "A leaf has no `grad_fn`, and no operation made it.",
                "Somewhere inside the walk: a constant input; skip it.",
            ),
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                x.grad_fn.next_functions
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                node, names = (3 * x**2).sum().grad_fn, []
                while node is not None:
                    names.append(node.name().split("::")[-1])
                    inputs = [n for n, _ in node.next_functions if n is not None]
                    node = inputs[0] if inputs else None
                assert names[-1] == "AccumulateGrad"
                print(names)
                """,
            see=("leaves-and-roots", "gradient-edges", "error-does-not-require-grad"),
            source=(
                "torch/autograd/graph.py",
                "torch/distributed (pipelining/_backward.py)",
            ),
        ),
    ),
)
