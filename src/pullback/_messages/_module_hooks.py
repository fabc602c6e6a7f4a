"""Messages about hooks of leaves and modules, and of anomaly mode."""

from pullback._messages._entry import NODE, Message

MODULE_HOOKS = (
    Message(
        anchor="post-accumulate-hook",
        title="post accumulate grad hooks cannot be registered on non-leaf tensors",
        patterns=(r"post accumulate grad hooks cannot be registered on non-leaf tensors",),
        why="""Such a hook runs after `.grad` was added to, and only leaves have a
            `.grad` that is added to.""",
        fix="""On a computed tensor use `t.register_hook(hook)`, which gets the
            gradient itself. If it was to be a leaf, convert or move it first and call
            `requires_grad_()` last.""",
        tell=(
            "`nn.Parameter(...).double()`, `.to(device)`, `* 0.1`: the result is "
            "computed; do that inside, `nn.Parameter(t.double())`.",
            "`layer.weight` of a parametrized layer (`weight_norm`): the leaf is in "
            "`layer.parametrizations`; of the older `torch.nn.utils.weight_norm`, "
            "`layer.weight_g` and `layer.weight_v`.",
        ),
        broken="""
            import torch

            x = torch.tensor([1.0, 2.0], requires_grad=True)
            y = x * 2
            y.register_post_accumulate_grad_hook(lambda t: print(t.grad))
            """,
        fixed="""
            import torch

            x = torch.tensor([1.0, 2.0], requires_grad=True)
            seen = []
            x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.tolist()))
            (x * 2).sum().backward()
            assert seen == [[2.0, 2.0]]
            print(seen)
            """,
        see=("hooks", "leaves-and-roots"),
        source=("torch/_tensor.py",),
    ),
    Message(
        anchor="full-backward-hook-outputs",
        title="Full backward hook is firing when gradients are computed with respect "
        "to module outputs since no inputs require gradients",
        kinds=("UserWarning", "RuntimeError"),
        patterns=(
            r"Full backward hook is firing when gradients are computed with respect to "
            r"module outputs",
            r"Backward hook for Modules where no input requires gradient should always "
            r"return None",
        ),
        older=(
            "Backward hook for Modules where no input requires gradient should always "
            "return None or None for all gradients.",
        ),
        why="""A full backward hook shows the gradients of a module's inputs and
            outputs. No tensor among the arguments given by position requires one, so
            `grad_input` holds None, or is empty.""",
        fix="""Nothing is wrong when you want `grad_output` only; the hook then returns
            None. For the gradient of the input: `x.requires_grad_()` before the forward
            pass.""",
        tell=(
            "The input is data, as for a first layer: nothing is wrong.",
            "`should always return None`: the hook returns a gradient for an input "
            "that needs none; let it return None there.",
            "The input requires a gradient and is given by keyword, `module(x=x)`, or "
            "in a dict or list: the hook does not see it; pass it by position, or use "
            "`x.register_hook`.",
        ),
        broken="""
            import torch

            layer = torch.nn.Linear(2, 1)
            layer.register_full_backward_hook(lambda module, g_in, g_out: None)
            layer(torch.ones(1, 2)).sum().backward()
            """,
        fixed="""
            import torch

            layer, seen = torch.nn.Linear(2, 1), []
            layer.register_full_backward_hook(
                lambda module, g_in, g_out: seen.append(g_in[0])
            )
            layer(torch.ones(1, 2, requires_grad=True)).sum().backward()
            assert torch.equal(seen[0], layer.weight.detach())
            print(seen[0].shape)
            """,
        see=("module-hooks",),
        source=("torch/nn/modules/module.py", "torch/utils/hooks.py"),
    ),
    Message(
        anchor="non-full-backward-hook",
        title="Using a non-full backward hook when the forward contains multiple "
        "autograd Nodes is deprecated",
        kinds=("FutureWarning", "UserWarning"),
        patterns=(r"Using (?:a )?non-full backward hooks? .{1,120}? is deprecated",),
        older=(
            "Using a non-full backward hook when the forward contains multiple "
            "autograd Nodes is deprecated and will be removed in future versions. This "
            "hook will be missing some grad_input.",
        ),
        why="""`register_backward_hook` sees the last operation of the module only: its
            `grad_input` is that operation's, and not the module's.""",
        fix="""Use `register_full_backward_hook`, whose `grad_input` belongs to the
            module's own inputs, where they and the outputs are tensors.""",
        tell=(
            "`does not return` or `does not take as input a single Tensor or a tuple`: "
            "a full hook does not look into that list or dict either. Hook a submodule "
            "that takes and returns tensors, or the tensor, `t.register_hook`.",
        ),
        broken="""
            import torch

            class Model(torch.nn.Module):
                def forward(self, x):
                    return (x * 2).exp()

            model = Model()
            model.register_backward_hook(lambda module, g_in, g_out: None)
            model(torch.zeros(2, requires_grad=True)).sum().backward()
            """,
        fixed="""
            import torch

            class Model(torch.nn.Module):
                def forward(self, x):
                    return (x * 2).exp()

            model, seen = Model(), []
            model.register_full_backward_hook(
                lambda module, g_in, g_out: seen.append(g_in[0].tolist())
            )
            model(torch.zeros(2, requires_grad=True)).sum().backward()
            assert seen == [[2.0, 2.0]]
            print(seen)
            """,
        see=("hooks", "error-hooks-need-tensors"),
        source=("torch/nn/modules/module.py",),
    ),
    Message(
        anchor="both-kinds-of-hooks",
        title="Cannot use both regular backward hooks and full backward hooks on a "
        "single Module",
        patterns=(r"Cannot use both regular backward hooks and full backward hooks",),
        why="""A module has one kind of backward hook or the other, and a library
            (an explainer, a profiler) may have registered the old kind. The first
            one counts, also after `handle.remove()` and in a `deepcopy`.""",
        fix="""Use `register_full_backward_hook` everywhere. A module that has had a
            hook of the old kind is made anew, and loads its `state_dict()`.""",
        tell=(
            "Only v is wanted: `register_full_backward_pre_hook` is taken all the same.",
            "`as a global Module hook`: the same for the hooks of all modules, until "
            "the process ends.",
        ),
        broken="""
            import torch

            layer = torch.nn.Linear(2, 1)
            layer.register_backward_hook(lambda module, g_in, g_out: None)
            layer.register_full_backward_hook(lambda module, g_in, g_out: None)
            """,
        fixed="""
            import torch

            old = torch.nn.Linear(2, 1)
            old.register_backward_hook(lambda module, g_in, g_out: None).remove()
            layer, seen = torch.nn.Linear(2, 1), []
            layer.load_state_dict(old.state_dict())
            for name in "ab":
                layer.register_full_backward_hook(
                    lambda module, g_in, g_out, name=name: seen.append(name)
                )
            layer(torch.ones(2, requires_grad=True)).backward()
            assert sorted(seen) == ["a", "b"]
            print(sorted(seen))
            """,
        see=("hooks",),
        source=("torch/nn/modules/module.py",),
    ),
    Message(
        anchor="hooks-need-tensors",
        title="For backward hooks to be called, module output should be a Tensor or a "
        "tuple of Tensors but received",
        kinds=("UserWarning",),
        patterns=(
            r"For backward hooks to be called, module (?P<what>output|input) should "
            r"be a Tensor or a tuple of Tensors but received"
            r"(?: <class '(?P<type>[^']+)'>)?",
        ),
        why="""A full backward hook is tied to the tensors that go in and out of the
            module. It does not look into a dict or an object, so the hook is never
            called.""",
        fix="""The module's {what} is a {type}: hook a submodule that returns a tensor,
            or call `register_hook` on the tensor inside.""",
        unknown={"what": "output", "type": "container"},
        broken="""
            import torch

            class Model(torch.nn.Module):
                def forward(self, x):
                    return {"logits": x * 2}

            model = Model()
            model.register_full_backward_hook(lambda module, g_in, g_out: None)
            model(torch.ones(2, requires_grad=True))["logits"].sum().backward()
            """,
        fixed="""
            import torch

            class Model(torch.nn.Module):
                def forward(self, x):
                    return {"logits": x * 2}

            model, seen = Model(), []
            logits = model(torch.ones(2, requires_grad=True))["logits"]
            logits.register_hook(lambda v: seen.append(v.tolist()))
            logits.sum().backward()
            assert seen == [[1.0, 1.0]]
            print(seen)
            """,
        see=("hooks",),
        source=("torch/nn/modules/module.py",),
    ),
    Message(
        anchor="anomaly-detection-enabled",
        title="Anomaly Detection has been enabled. This mode will increase the runtime",
        kinds=("UserWarning",),
        patterns=(r"Anomaly Detection has been enabled",),
        why="""Anomaly detection keeps a stack trace for every operation and looks for
            nan in every gradient. A small network is then several times slower.""",
        fix="""Use it to find a fault and take it out again: as a block,
            `with torch.autograd.detect_anomaly():`, around the forward *and* the
            backward pass. `set_detect_anomaly(True)` without `with` stays on.""",
        broken="""
            import torch

            x = torch.tensor([1.0, 4.0], requires_grad=True)
            with torch.autograd.detect_anomaly():
                x.sqrt().sum().backward()
            """,
        fixed="""
            import torch

            x = torch.tensor([1.0, 4.0], requires_grad=True)
            x.sqrt().sum().backward()
            assert not torch.is_anomaly_enabled()
            print(x.grad)
            """,
        see=("masked-nan", "error-returned-nan-values"),
        source=("torch/autograd/anomaly_mode.py",),
    ),
    Message(
        anchor="error-detected-in",
        title="Error detected in ExpBackward0. Traceback of forward call that caused "
        "the error",
        kinds=("UserWarning",),
        patterns=(
            rf"Error detected in (?P<function>{NODE})\. (?:Traceback of forward call|"
            r"No forward pass information available)",
        ),
        older=(
            "Error detected in MulBackward0. No forward pass information available. "
            "Enable detect anomaly during forward pass for more information.",
        ),
        why="""Anomaly detection found which operation's backward failed and shows the
            line of the *forward* pass that made it. The error itself follows below.""",
        fix="""Read the last of your own lines in that traceback: {function} belongs to
            the operation there. When there is none, put the forward pass inside
            `detect_anomaly()` as well.""",
        tell=(
            "`modified by an inplace operation` follows: what that line computed was "
            "written to later.",
            "`returned nan values` follows: what that line got is out of its range.",
            "`Previous calculation was induced by` follows, under `create_graph=True`: "
            "the first traceback ends in the first backward pass, and the line of your "
            "forward is in the second.",
        ),
        broken="""
            import torch

            x = torch.tensor([1.0, 2.0], requires_grad=True)
            y = x.exp()
            y += 1
            with torch.autograd.detect_anomaly():
                y.sum().backward()
            """,
        fixed="""
            import torch

            x = torch.tensor([1.0, 2.0], requires_grad=True)
            y = x.exp() + 1
            y.sum().backward()
            torch.testing.assert_close(x.grad, x.detach().exp())
            print(x.grad)
            """,
        see=("in-place", "error-modified-by-an-inplace-operation"),
        source=("torch/csrc/autograd (python_anomaly_mode.cpp)",),
    ),
    Message(
        anchor="gradcheck-sparse-output",
        title="Sparse output is not supported at gradcheck yet. Please call "
        "to_dense(masked_grad=...) on the output of fn for gradcheck.",
        kinds=("ValueError",),
        patterns=(
            r"(?:Sparse|MKLDNN) output is not supported at gradcheck yet",
            r"gradcheck expects all tensor inputs are dense when check_sparse_nnz",
        ),
        older=(
            "gradcheck expects all tensor inputs are dense when check_sparse_nnz is "
            "set to False.",
        ),
        why="""`gradcheck` compares Jacobians, number by number, and a sparse result has
            no number where nothing is stored.""",
        fix="""End the function on `.to_dense(masked_grad=True)` and pass `masked=True`
            when the places without an entry count as absent; False for both when they
            count as zeros.""",
        broken="""
            import torch

            x = torch.eye(2, dtype=torch.float64).to_sparse().requires_grad_()
            torch.autograd.gradcheck(lambda x: 2 * x, x)
            """,
        fixed="""
            import torch

            x = torch.eye(2, dtype=torch.float64).to_sparse().requires_grad_()
            f = lambda x: (2 * x).to_dense(masked_grad=True)
            passed = torch.autograd.gradcheck(f, x, masked=True)
            assert passed
            print(passed)
            """,
        see=("gradcheck", "sparse-and-nested"),
        source=("torch/autograd/gradcheck.py",),
    ),
)
