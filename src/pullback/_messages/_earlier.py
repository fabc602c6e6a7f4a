"""Messages about names and options that torch has left behind, and a check it outgrew."""

from pullback._messages._entry import Message, Theme
from pullback._messages._old_releases import OLD_RELEASES

EARLIER = Theme(
    "earlier",
    (
        Message(
            anchor="volatile-was-removed",
            title="volatile was removed and now has no effect. Use `with torch.no_grad():` "
            "instead.",
            kinds=("UserWarning",),
            patterns=(
                r"volatile was removed(?: \([^)]*\))? and now has no effect",
                r"volatile was removed \(Variable\.volatile is always False\)",
            ),
            older=("volatile was removed (Variable.volatile is always False)",),
            why="""Until PyTorch 0.3 `Variable(x, volatile=True)` switched the graph off for
                everything computed from x. Since 0.4 the option does nothing: the graph
                is recorded, and kept in memory.""",
            fix="""Put the computation that needs no gradient under
                `with torch.no_grad():`, and leave `Variable` out.""",
            broken="""
                import torch

                x = torch.autograd.Variable(torch.ones(2), volatile=True)
                """,
            fixed="""
                import torch

                layer = torch.nn.Linear(2, 1)
                with torch.no_grad():
                    y = layer(torch.ones(2))
                assert not y.requires_grad
                print(y.requires_grad)
                """,
            see=("no-grad-detach", "error-variable-data"),
            source=("torch/csrc/autograd (python_variable.cpp)",),
        ),
        Message(
            anchor="variable-data",
            title="Variable data has to be a tensor, but got float",
            kinds=("TypeError", "RuntimeError"),
            patterns=(
                r"Variable data has to be a tensor, but got (?P<type>[\w.]*\w)",
                r"torch\.autograd\.variable\(\.\.\.\) is deprecated",
                r"expected a Variable argument, but got (?P<type>[\w.]*\w)",
            ),
            older=(
                "Variable data has to be a tensor, but got Variable",
                "torch.autograd.variable(...) is deprecated, use torch.tensor(...) instead",
                "expected a Variable argument, but got torch.FloatTensor",
            ),
            why="""Until PyTorch 0.3 a tensor had no gradient, and `Variable(tensor)` was
                the box around it that had one. Since 0.4 a tensor is both, and `Variable`
                hands it back as it is; a number, a list or an array it never took.""",
            fix="""Make a tensor and leave `Variable` out:
                `torch.tensor(data, requires_grad=True)`, and `torch.from_numpy(array)`
                for an array.""",
            tell=(
                "`has to be a tensor, but got float`, `list` or `numpy.ndarray`: as above.",
                "`but got Variable`, or `expected a Variable argument`: torch 0.3 or "
                "older, where the two did not mix. Such code runs with a newer release "
                "once `Variable(...)` is taken out.",
            ),
            broken="""
                import torch

                x = torch.autograd.Variable(3.0, requires_grad=True)
                """,
            fixed="""
                import torch

                x = torch.tensor(3.0, requires_grad=True)
                (x**2).backward()
                assert x.grad == 6
                print(x.grad)
                """,
            see=("leaves-and-roots", "error-volatile-was-removed"),
            source=("torch/csrc/autograd (python_variable.cpp)",),
        ),
        Message(
            anchor="clip-grad-norm-renamed",
            title="`torch.nn.utils.clip_grad_norm` is now deprecated in favor of "
            "`torch.nn.utils.clip_grad_norm_`.",
            kinds=("FutureWarning", "UserWarning"),
            patterns=(
                r"torch\.nn\.utils\.clip_grad_norm`? is now deprecated in favor of "
                r"`?torch\.nn\.utils\.clip_grad_norm_",
            ),
            older=(
                "torch.nn.utils.clip_grad_norm is now deprecated in favor of "
                "torch.nn.utils.clip_grad_norm_.",
            ),
            why="""The function writes to the gradients in place, and torch ends the name of
                such a function on an underscore. The old name calls the new one.""",
            fix="""Add the underscore: `clip_grad_norm_`. Arguments and result stay: it
                scales all gradients together and returns their norm from before.""",
            broken="""
                import torch

                x = torch.tensor([3.0, 4.0], requires_grad=True)
                (x**2 / 2).sum().backward()
                torch.nn.utils.clip_grad_norm([x], max_norm=1.0)
                """,
            fixed="""
                import torch

                x = torch.tensor([3.0, 4.0], requires_grad=True)
                (x**2 / 2).sum().backward()
                before = torch.nn.utils.clip_grad_norm_([x], max_norm=1.0)
                assert before == 5
                torch.testing.assert_close(x.grad.norm(), torch.tensor(1.0))
                print(before)
                """,
            see=("error-non-finite-norm", "error-clip-empty-generator"),
            source=("torch/nn/utils/clip_grad.py",),
        ),
        Message(
            anchor="only-inputs-ignored",
            title="only_inputs argument is deprecated and is ignored now (defaults to "
            "True).",
            kinds=("FutureWarning", "UserWarning"),
            patterns=(r"only_inputs argument is deprecated and is ignored now",),
            why="""`grad(..., only_inputs=False)` once added to `.grad` of the other leaves
                as well. It no longer does: `torch.autograd.grad` returns the gradients of
                `inputs` and changes no `.grad`.""",
            fix="""Leave `only_inputs` out; with True, as in many a gradient penalty, it
                says what is so in any case. For the gradients of the other leaves name
                them in `inputs`, or call `backward`.""",
            broken="""
                import torch

                x = torch.tensor(2.0, requires_grad=True)
                w = torch.tensor(3.0, requires_grad=True)
                torch.autograd.grad(x * w, x, only_inputs=False)
                """,
            fixed="""
                import torch

                x = torch.tensor(2.0, requires_grad=True)
                w = torch.tensor(3.0, requires_grad=True)
                gx, gw = torch.autograd.grad(x * w, (x, w))
                assert (gx, gw) == (3, 2)
                assert w.grad is None
                print(gx, gw)
                """,
            see=("gradient-penalty", "error-grad-missing-inputs"),
            source=("torch/autograd/__init__.py (grad)",),
        ),
        Message(
            anchor="cuda-amp-renamed",
            title="`torch.cuda.amp.GradScaler(args...)` is deprecated. Please use "
            "`torch.amp.GradScaler('cuda', args...)` instead.",
            kinds=("FutureWarning",),
            patterns=(
                r"`?torch\.(?:cuda|cpu)\.amp\."
                r"(?P<name>GradScaler|autocast|custom_fwd|custom_bwd)\(args\.\.\.\)`? is "
                r"deprecated",
            ),
            older=(
                "`torch.cuda.amp.autocast(args...)` is deprecated. Please use "
                "`torch.amp.autocast('cuda', args...)` instead.",
                "`torch.cpu.amp.autocast(args...)` is deprecated. Please use "
                "`torch.amp.autocast('cpu', args...)` instead.",
                "`torch.cuda.amp.custom_bwd(args...)` is deprecated. Please use "
                "`torch.amp.custom_bwd(args..., device_type='cuda')` instead.",
            ),
            why="""The tools of mixed precision have moved to `torch.amp`, where the device
                is an argument. The old names call the new ones: the gradients are the
                same.""",
            fix="""Write `torch.amp.{name}` and name the device: `GradScaler("cuda")`,
                `autocast("cuda", dtype=torch.float16)`, and for a Function
                `custom_fwd(device_type="cuda")`.""",
            unknown={"name": "…"},
            tell=(
                "The line is in a library, such as YOLOv5: update it, or leave it; nothing "
                "is wrong.",
                "`CUDA is not available` comes with it: that is another matter, see below.",
            ),
            broken="""
                import torch

                scaler = torch.cuda.amp.GradScaler()
                """,
            fixed="""
                import torch

                w = torch.tensor([1.0, 2.0], requires_grad=True)
                scaler = torch.amp.GradScaler("cpu")
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    loss = (w * w).sum()
                scaler.scale(loss).backward()
                assert torch.equal(w.grad, 2 * w * scaler.get_scale())
                print(scaler.get_scale())
                """,
            see=("mixed-precision", "error-scaler-without-cuda"),
            source=("torch/cuda (amp/grad_scaler.py)", "torch/amp/autocast_mode.py"),
        ),
        Message(
            anchor="differentiable-type-assert",
            title="isDifferentiableType(variable.scalar_type()) INTERNAL ASSERT FAILED",
            patterns=(
                r"isDifferentiableType\(variable\.scalar_type\(\)\) ?INTERNAL ASSERT "
                r"FAILED",
            ),
            why="""An operation got a tensor that requires a gradient and makes integers or
                booleans of it. They have no derivative, but that release took the result
                for differentiable, until its own check stopped it.""",
            fix="""Give the operation `x.detach()`: what it returns carries no gradient in
                any case. In the present release `unique`, `isin`, `signbit` and `any` take
                `x` as it is.""",
            tell=(
                "`unique`, `isin`, `signbit`, `any` in PyTorch 1.7 to 1.10: update, or "
                "`x.detach()`.",
                "The line mixes integers with tensors that require a gradient, as "
                "`tensordot` or `Bilinear`: convert to one dtype first.",
            ),
            fixed="""
                import torch

                x = torch.tensor([2.0, 1.0, 2.0], requires_grad=True)
                values, counts = x.detach().unique(return_counts=True)
                assert values.tolist() == [1.0, 2.0]
                assert counts.tolist() == [1, 2]
                print(counts)
                """,
            see=("discrete-choices", "error-only-floating-point"),
            source=("PT#47851", "PT#62506", "PT#58547", "PT#77517"),
        ),
        Message(
            anchor="name-of-a-newer-release",
            title="module 'torch' has no attribute 'func'",
            kinds=("AttributeError", "TypeError", "ImportError", "ModuleNotFoundError"),
            patterns=(
                r"module 'torch' has no attribute '(?P<name>func|vmap|inference_mode)'",
                r"module 'torch\.(?:cuda|utils|amp)' has no attribute "
                r"'(?P<name>amp|checkpoint|GradScaler|autocast|custom_fwd|custom_bwd)'",
                r"cannot import name '(?P<name>\w+)' from 'torch\.amp'",
                r"module 'torch\.autograd' has no attribute "
                r"'(?P<name>forward_ad|functional|graph)'",
                r"No module named 'torch\.(?P<name>func|autograd\.\w+)'",
                r"cannot import name '(?P<name>\w+)' from "
                r"'torch\.(?:func|autograd\.(?:forward_ad|functional|graph))'",
                r"(?<!\w)grad\(\) got an unexpected keyword argument "
                r"'(?P<name>is_grads_batched|materialize_grads)'",
                r"(?<!\w)(?:grad|backward|jacobian|hessian|jacrev|checkpoint|zero_grad)"
                r"\(\) got an unexpected keyword argument '(?P<name>inputs|vectorize|"
                r"strategy|chunk_size|use_reentrant|set_to_none)'",
            ),
            older=(
                "module 'torch' has no attribute 'vmap'",
                "module 'torch.autograd' has no attribute 'forward_ad'",
                "No module named 'torch.func'",
                "module 'torch.amp' has no attribute 'GradScaler'",
                "cannot import name 'custom_fwd' from 'torch.amp'",
                "module 'torch.cuda' has no attribute 'amp'",
                "module 'torch.utils' has no attribute 'checkpoint'",
                "grad() got an unexpected keyword argument 'is_grads_batched'",
                "checkpoint() got an unexpected keyword argument 'use_reentrant'",
            ),
            why="""The installed torch is older than what the code asks for. Print
                `torch.__version__` in the program itself: a second environment often
                holds another one.""",
            fix="""`{name}` is missing: update torch, or say the same in the words of that
                release. A loop over the rows of the identity is a Jacobian in each of
                them.""",
            unknown={"name": "The name"},
            tell=(
                "2.4: `custom_fwd` and `custom_bwd` of `torch.amp`; 2.3: its `GradScaler`. "
                "Before, they are in `torch.cuda.amp`.",
                "`torch.utils` has no `checkpoint`: nobody imported it yet; "
                "`import torch.utils.checkpoint`.",
                "2.1: `materialize_grads`. 2.0: `torch.func`, `torch.vmap`, `chunk_size` "
                "of `jacrev`; before, the package functorch.",
                "1.11: `is_grads_batched`, `strategy` of `jacobian` and `hessian`, "
                "`use_reentrant`. 1.10: `torch.autograd.graph`.",
                "1.9: `inference_mode`. 1.8: `backward(inputs=...)`, `vectorize`, "
                "`torch.autograd.forward_ad`. "
                "1.7: `set_to_none`. 1.5: `torch.autograd.functional`.",
                "Your torch is new enough: the object is not torch's own. A wrapper "
                "(an engine, an optimizer, a file named `torch.py`) lacks the option.",
            ),
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                y = x**3
                rows = [
                    torch.autograd.grad(y, x, v, retain_graph=True)[0] for v in torch.eye(2)
                ]
                J = torch.stack(rows)  # in any release
                assert torch.equal(J, torch.func.jacrev(lambda x: x**3)(x.detach()))
                print(J)
                """,
            see=("version-notes", "jacobian-row-by-row"),
            source=("PT#1888",),
        ),
        *OLD_RELEASES,
    ),
)
