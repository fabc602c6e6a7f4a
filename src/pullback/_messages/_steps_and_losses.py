"""Messages about losses that were not called, closures, and generators used up."""

from pullback._messages._entry import Message, Theme

STEPS = Theme(
    "steps",
    (
        Message(
            anchor="boolean-value-of-tensor",
            title="Boolean value of Tensor with more than one value is ambiguous",
            patterns=(
                r"[Bb]ool(?:ean)? value of (?:Tensor with more than one value|Variable "
                r"objects containing non-empty [\w.]+) is ambiguous",
            ),
            older=(
                "bool value of Tensor with more than one value is ambiguous",
                "bool value of Variable objects containing non-empty torch.ByteTensor is "
                "ambiguous",
            ),
            only_from="legacy_get_string",
            why="""Something asked a tensor whether it is true, and it has several answers.
                Where a gradient is wanted it is most often a loss that was built with
                prediction and target in place of its options.""",
            fix="""Build first and call then: `torch.nn.MSELoss()(y, target)`, or the
                function `torch.nn.functional.mse_loss(y, target)`. For an `if` use
                `.any()`, `.all()` or `torch.where`.""",
            tell=(
                "`MSELoss(y, target)`, `CrossEntropyLoss(y, target)`: a pair of "
                "parentheses is missing.",
                "`if x > 0:` in a function that you differentiate: `torch.where`.",
                "`if p.grad:`: ask `if p.grad is not None`.",
                "The traceback ends in `_make_grads`, in `backward` or `grad` with several "
                "outputs: one got a `v` of another shape, or a real one for a complex "
                "output, and torch 2.13 stumbles over naming it. Compare `y.shape` and "
                "`v.shape` pair by pair.",
            ),
            broken="""
                import torch

                y, target = torch.tensor([1.0, 2.0]), torch.tensor([0.0, 0.0])
                loss = torch.nn.MSELoss(y, target)
                """,
            fixed="""
                import torch

                y = torch.tensor([1.0, 2.0], requires_grad=True)
                loss = torch.nn.MSELoss()(y, torch.tensor([0.0, 0.0]))
                loss.backward()  # the mean of two squares
                assert torch.equal(y.grad, y)
                print(y.grad)
                """,
            see=(
                "error-no-attribute-backward",
                "error-vmap-data-dependent",
                "error-mismatch-in-shape",
            ),
            source=("torch/csrc/autograd (python_variable_methods.cpp)",),
        ),
        Message(
            anchor="clip-empty-generator",
            title="`parameters` is an empty generator, no gradient clipping will occur",
            kinds=("UserWarning",),
            patterns=(r"`parameters` is an empty generator, no gradient clipping",),
            why="""`model.parameters()` is a generator: it yields each parameter once. It
                was used up before, by the optimizer or by a loop, and nothing is left to
                clip; or a filter let nothing through, or the model has no parameters.""",
            fix="""Pass `model.parameters()` anew in each call, or keep
                `list(model.parameters())`.""",
            broken="""
                import torch

                model = torch.nn.Linear(2, 1)
                parameters = model.parameters()
                optimizer = torch.optim.SGD(parameters, lr=0.1)
                model(torch.ones(1, 2)).sum().backward()
                torch.nn.utils.clip_grad_norm_(parameters, 1.0)
                """,
            fixed="""
                import torch

                model = torch.nn.Linear(2, 1)
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                model(torch.ones(1, 2)).sum().backward()
                norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                torch.testing.assert_close(norm**2, torch.tensor(3.0))  # 1² + 1² + 1²
                print(round(norm.item(), 4))
                """,
            see=("error-inputs-empty", "error-empty-parameter-list"),
            source=("torch/nn/utils/clip_grad.py",),
        ),
        Message(
            anchor="step-needs-a-closure",
            title="LBFGS.step() missing 1 required positional argument: 'closure'",
            kinds=("TypeError", "RuntimeError"),
            patterns=(
                r"step\(\) missing 1 required positional argument: 'closure'",
                r"Closure use is not currently supported if GradScaler is enabled",
            ),
            older=("Closure use is not currently supported if GradScaler is enabled.",),
            why="""L-BFGS evaluates loss and gradient several times in one step, so it needs
                a function that does so. `GradScaler` decides from one evaluation whether to
                step, and takes no closure.""",
            fix="""Write a function that clears the gradients, computes the loss, calls
                `backward` and returns the loss, and pass it: `optimizer.step(closure)`.
                It must be the same function at each call of a step: the same data, no
                dropout. With `GradScaler` choose another optimizer.""",
            broken="""
                import torch

                x = torch.tensor([3.0], requires_grad=True)
                optimizer = torch.optim.LBFGS([x])
                (x**2).sum().backward()
                optimizer.step()
                """,
            fixed="""
                import torch

                x = torch.tensor([3.0], requires_grad=True)
                optimizer = torch.optim.LBFGS([x])

                def closure():
                    optimizer.zero_grad()
                    loss = (x**2).sum()
                    loss.backward()
                    return loss

                optimizer.step(closure)
                assert x.abs() < 1e-4
                print(round(x.item(), 3) + 0.0)
                """,
            see=("optimizer-closures", "error-no-inf-checks"),
            source=("torch/optim/lbfgs.py", "torch/amp/grad_scaler.py"),
        ),
        Message(
            anchor="casting-complex-to-real",
            title="Casting complex values to real discards the imaginary part",
            kinds=("UserWarning", "ComplexWarning"),
            patterns=(r"Casting complex values to real discards the imaginary part",),
            why="""A complex tensor is written to a real one: by `.float()`, `copy_`, or by
                assigning to a slice. The imaginary part is lost, in the value and in the
                gradient.""",
            fix="""Say which part you mean: `z.real`, `z.abs()`, `(z * z.conj()).real`; or
                make the target complex. The gradient of `z.real` is v, that of
                `z.imag` is `1j * v`.""",
            broken="""
                import torch

                z = torch.tensor([3 + 4j], requires_grad=True)
                z.float().sum().backward()
                """,
            fixed="""
                import torch

                z = torch.tensor([3 + 4j], requires_grad=True)
                z.abs().sum().backward()  # uphill: z / |z|
                torch.testing.assert_close(z.grad, torch.tensor([0.6 + 0.8j]))
                print(z.grad)
                """,
            see=("complex-v", "error-real-scalar-outputs"),
            source=("aten/src/ATen/native (Copy.cpp)",),
        ),
        Message(
            anchor="scheduler-before-optimizer",
            title="Detected call of `lr_scheduler.step()` before `optimizer.step()`",
            kinds=("UserWarning",),
            patterns=(
                r"Detected call of `lr_scheduler\.step\(\)` before `optimizer\.step\(\)`",
            ),
            why="""The scheduler was called first. With `GradScaler` the order may be right
                all the same: when the scaled gradients are infinite, it skips the
                optimizer's step, as it does in the first steps of many runs.""",
            fix="""Call `backward`, `optimizer.step()`, `scheduler.step()` in this order.
                With `GradScaler`, step the scheduler only if the scale has not been
                lowered; with accumulated gradients, once for each step.""",
            broken="""
                import torch

                x = torch.tensor([1.0], requires_grad=True)
                optimizer = torch.optim.SGD([x], lr=0.1)
                scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
                scheduler.step()
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0], requires_grad=True)
                optimizer = torch.optim.SGD([x], lr=0.5)
                scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
                (x**2).sum().backward()
                optimizer.step()  # 1 - 0.5 · 2
                scheduler.step()
                assert x == 0
                print(x.item())
                """,
            see=("schedule-of-steps", "error-no-inf-checks", "error-unscale-twice"),
            source=("torch/optim/lr_scheduler.py",),
        ),
        Message(
            anchor="optimizing-without-gradients",
            title="optimizing a parameter that doesn't require gradients",
            kinds=("ValueError",),
            patterns=(
                r"optimizing a parameter that doesn't require gradients",
                r"can't optimize a variable that doesn't require gradients",
            ),
            why="""The first releases of PyTorch refused frozen parameters in an optimizer.
                Current ones take them and pass them by, since their `.grad` stays None.""",
            fix="""Pass the trainable ones only: `[p for p in model.parameters() if
                p.requires_grad]`; or update PyTorch.""",
            fixed="""
                import torch

                model = torch.nn.Linear(2, 1)
                model.weight.requires_grad_(False)
                before = model.weight.clone()
                trained = [p for p in model.parameters() if p.requires_grad]
                optimizer = torch.optim.SGD(trained, lr=0.1)
                model(torch.ones(1, 2)).sum().backward()
                optimizer.step()
                assert torch.equal(model.weight, before) and len(trained) == 1
                print(len(trained))
                """,
            see=("grad-is-none", "leaves-and-roots"),
            source=("PT#679",),
        ),
        Message(
            anchor="duplicate-parameters",
            title="optimizer contains a parameter group with duplicate parameters; in "
            "future, this will cause an error",
            kinds=("UserWarning", "ValueError"),
            patterns=(
                r"optimizer contains a parameter group with duplicate parameters",
                r"some parameters appear in more than one parameter group",
            ),
            older=("some parameters appear in more than one parameter group",),
            why="""The same parameter is given to the optimizer twice. Within one group each
                step then moves it twice by its one gradient; two groups may say two
                learning rates, and torch refuses.""",
            fix="""Give each parameter once. `model.parameters()` names a shared one once;
                joined lists of several modules do not:
                `list(dict.fromkeys(parameters))` drops the repeats.""",
            tell=(
                "Two modules share a weight (`head.weight = embedding.weight`), and you "
                "join their parameters.",
                "`[*model.parameters(), *model.head.parameters()]`: the head is in the "
                "model already.",
                "Two groups: put the special parameters into one and "
                "`[p for p in model.parameters() if p not in special]` into the other, "
                "with `special` a set.",
            ),
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                optimizer = torch.optim.SGD([x, x], lr=0.5)
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                optimizer = torch.optim.SGD(list(dict.fromkeys([x, x])), lr=0.5)
                x.sum().backward()
                optimizer.step()
                assert x.tolist() == [0.5, 1.5]  # one step
                print(x.detach())
                """,
            see=("error-optimizer-wants-tensors", "error-empty-parameter-list"),
            source=("PT#40967", "torch/optim/optimizer.py"),
        ),
        Message(
            anchor="labels-are-long",
            title="expected target dtype to be Long or Byte, but got Float",
            patterns=(
                r"expected target dtype to be Long or Byte, but got (?P<type>\w+)",
                r"expected scalar type Long but found (?P<type>\w+)",
                r"Expected object of (?:scalar )?type (?:torch\.)?(?:cuda\.)?"
                r"Long(?:Tensor)? but (?:got|found) (?:scalar )?type (?:torch\.)?"
                r"(?:cuda\.)?(?P<type>(?!torch|cuda|Long)\w+)",
            ),
            older=(
                "expected scalar type Long but found Float",
                "Expected object of scalar type Long but got scalar type Float for "
                "argument #2 'target' in call to _thnn_nll_loss_forward",
            ),
            why="""`cross_entropy` and `nll_loss` take for each sample the number of its
                class, which is an index into the scores and so an int64. These labels
                have another dtype.""",
            fix="""The labels are {type}: convert them, of shape `(N,)`, with
                `target.long()`. Probabilities or one-hot rows are floats and have the
                shape of the scores, `(N, C)`.""",
            unknown={"type": "of another dtype"},
            tell=(
                "Labels in a column, `(N, 1)`: `target.long().squeeze(1)`.",
                "A yes or no for each sample and one score: "
                "`binary_cross_entropy_with_logits(score, target.float())`.",
                "`embedding`, `gather`, `scatter`, `index_add`: the index; `index.long()`.",
                "Nothing to label, a regression: `mse_loss`.",
            ),
            broken="""
                import torch

                scores = torch.zeros(2, 3, requires_grad=True)
                torch.nn.functional.cross_entropy(scores, torch.tensor([0.0, 2.0]))
                """,
            fixed="""
                import torch

                scores = torch.zeros(2, 3, requires_grad=True)
                target = torch.tensor([0.0, 2.0])
                torch.nn.functional.cross_entropy(scores, target.long()).backward()
                ones = torch.nn.functional.one_hot(target.long(), 3)
                torch.testing.assert_close(scores.grad, (1 / 3 - ones) / 2)
                print(scores.grad)
                """,
            see=("what-losses-send", "error-target-size"),
            source=("reproduced here; no thread found",),
        ),
        Message(
            anchor="module-is-not-iterable",
            title="'Linear' object is not iterable",
            kinds=("TypeError",),
            patterns=(
                r"'(?P<type>(?!NoneType|Tensor|\w*(?:Data|Loader|Config|Output|Namespace))"
                r"[A-Z]\w*)' object is not iterable",
            ),
            older=("'Net' object is not iterable",),
            only_line=r"list\((?:params|parameters|tensors)\)|tuple\(inputs\)|"
            r"in parameters\b",
            why="""A list of tensors was wanted, and a module came. A module holds its
                parameters, and is no list of them.""",
            fix="""Pass `model.parameters()` in place of `{type}`: to the optimizer, to
                `clip_grad_norm_`, to `torch.autograd.grad`, to `backward(inputs=...)`.""",
            unknown={"type": "the module"},
            tell=(
                "Parts of several modules: `[*a.parameters(), *b.parameters()]`.",
                "The line has a `for` of yours, or `*`: go through `model.children()`; a "
                "`Sequential` and a `ModuleList` are lists of modules already.",
                "A class of yours that is no module: it lacks `__iter__`.",
            ),
            broken="""
                import torch

                model = torch.nn.Linear(2, 1)
                model(torch.ones(3, 2)).sum().backward()
                torch.nn.utils.clip_grad_norm_(model, 1.0)
                """,
            fixed="""
                import torch

                model = torch.nn.Linear(2, 1)
                model(torch.ones(3, 2)).sum().backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])
                torch.testing.assert_close(norm, torch.tensor(1.0))
                print(round(norm.item(), 4))
                """,
            see=(
                "gradient-norms",
                "error-optimizer-wants-tensors",
                "error-empty-parameter-list",
            ),
            source=("reproduced here; no thread found",),
        ),
        Message(
            anchor="optimizer-state-of-another-list",
            title="loaded state dict contains a parameter group that doesn't match the "
            "size of optimizer's group",
            kinds=("ValueError",),
            patterns=(
                r"loaded state dict contains a parameter group that doesn't match the size "
                r"of optimizer's group",
                r"loaded state dict has a different number of parameter groups",
            ),
            older=("loaded state dict has a different number of parameter groups",),
            why="""The state of an optimizer is kept by the position of each parameter in
                the list that it was made with. The list that it is loaded into has another
                length, or other groups.""",
            fix="""Make the optimizer as it was made when the state was saved: the same
                parameters, frozen ones included, in the same order and groups. For another
                model, start the optimizer anew and load the weights alone.""",
            tell=(
                "`filter(lambda p: p.requires_grad, ...)`: what was frozen has changed in "
                "between. Pass all parameters; those without a gradient are skipped.",
                "A layer was added or left out: load the weights, not the optimizer.",
                "`number of parameter groups`: `add_param_group` comes before "
                "`load_state_dict`.",
                "The same length in another order raises nothing, and each parameter gets "
                "the momentum of another.",
            ),
            broken="""
                import torch

                model = torch.nn.Linear(2, 1)
                saved = torch.optim.Adam(model.parameters()).state_dict()
                model.bias.requires_grad_(False)
                chosen = [p for p in model.parameters() if p.requires_grad]
                torch.optim.Adam(chosen).load_state_dict(saved)
                """,
            fixed="""
                import torch

                model = torch.nn.Linear(2, 1)
                saved = torch.optim.Adam(model.parameters()).state_dict()
                model.bias.requires_grad_(False)
                optimizer = torch.optim.Adam(model.parameters())
                optimizer.load_state_dict(saved)
                before = model.bias.clone()
                model(torch.ones(3, 2)).sum().backward()
                optimizer.step()
                assert torch.equal(model.bias, before)  # no gradient, no step
                print(model.bias.grad)
                """,
            see=("through-a-frozen-network", "error-optimizer-wants-tensors"),
            source=("ruotianluo/self-critical.pytorch#174", "facebookresearch/GloRe#8"),
        ),
    ),
)
