"""Messages about the graph: cut, freed, unused, or running into nan."""

from pullback._messages._entry import Message, Theme
from pullback._messages._running_backward import RUNNING_BACKWARD

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
                "On the way: `.item()`, `.detach()`, `.data`, `.numpy()`, "
                "`torch.tensor(t)`.",
                "`torch.tensor([l1, l2])` of tensors copies their values; "
                "`torch.stack([l1, l2])` keeps their graphs.",
                "`argmax`, a comparison (an accuracy, a count of errors), `.long()`, "
                "`round` to an integer dtype: integers have no derivative, whatever flag "
                "you set on them. Train on a smooth loss, such as the cross-entropy.",
                "Inside `checkpoint` with `use_reentrant=True` (gradient checkpointing of "
                "a model with frozen embeddings): its inputs require no gradient; "
                "`use_reentrant=False`.",
                "A second derivative: pass `create_graph=True` to the first `grad`.",
                "A second derivative of a linear function, as of a term of a PDE: the "
                "first, `g`, is a constant, and the answer is zero. Neither "
                "`allow_unused=True` nor `materialize_grads=True` helps here: take zeros "
                "where `g.requires_grad` is False.",
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
                "Two losses share a part of the graph: `(a + b).backward()`. A loss and a "
                "tensor with a `v`: `torch.autograd.backward([loss, y], [None, v])`.",
                "A GAN: the critic's loss went through the generator's graph. "
                "`D(fake.detach())` in the critic's step, `D(fake)` anew in the "
                "generator's.",
                "In the second step of a loop: a state (hidden state, running mean, "
                "cached embedding) still carries the last step's graph; `h = h.detach()`. "
                "`retain_graph=True` would go back through all earlier steps each time.",
                "PPO: the rollout's log-probability was stored with its graph. Store "
                "`log_prob.detach()`, or collect under `no_grad`. The first update was "
                "wrong as well: old and new cancel, and its gradient is zero. "
                "`retain_graph=True` brings the next error, since the step changes weights "
                "that the old graph saved.",
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
            see=(
                "second-backward",
                "one-component",
                "upstream",
                "jacobian-row-by-row",
                "ratio-of-one",
            ),
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
                the input is a slice, a view or a copy that did not go into the forward
                pass, whether it was made before or after.""",
            fix="""Differentiate the very tensor that went into the forward pass: look at
                input {index} of your list. When the output really does not depend on it,
                pass `allow_unused=True` (gives None) or `materialize_grads=True` (gives
                zeros).""",
            unknown={"index": "after input"},
            tell=(
                "You pass `x[i]`, `x.view(...)` or `x.to(...)`: take the gradient of `x` "
                "and slice that.",
                "`x, t = X[:, :1], X[:, 1:]` and then `net(X)`: the same, by `X`; or "
                "`net(torch.cat([x, t], 1))`.",
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
        *RUNNING_BACKWARD,
    ),
)
