"""Messages about names and options that torch has left behind, and a check it outgrew."""

from pullback._messages._entry import Message, Theme

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
                r"module 'torch' has no attribute '(?P<name>func|vmap)'",
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
                "2.1: `materialize_grads`. 2.0: `torch.func`, `torch.vmap`, `chunk_size` "
                "of `jacrev`; before, the package functorch.",
                "1.11: `is_grads_batched`, `strategy` of `jacobian` and `hessian`, "
                "`use_reentrant`. 1.10: `torch.autograd.graph`.",
                "1.8: `backward(inputs=...)`, `vectorize`, `torch.autograd.forward_ad`. "
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
        Message(
            anchor="retain-variables",
            title="backward() got an unexpected keyword argument 'retain_variables'",
            kinds=("TypeError",),
            patterns=(r"\(\) got an unexpected keyword argument 'retain_variables'",),
            why="""The option was renamed to `retain_graph` in PyTorch 0.2, and the old name
                is gone. It keeps what the graph has saved, so that `backward` can go
                through it again.""",
            fix="""Write `retain_graph=True` where you go through the same graph twice, and
                leave the option out everywhere else: the graph is then freed.""",
            tell=(
                "A GAN of that time passes it in every step: often only the first of two "
                "`backward` calls through one graph needs it.",
                "`create_graph=True` keeps the graph already.",
            ),
            broken="""
                import torch

                x = torch.tensor(3.0, requires_grad=True)
                (x**2).backward(retain_variables=True)
                """,
            fixed="""
                import torch

                x = torch.tensor(3.0, requires_grad=True)
                y = x**2
                y.backward(retain_graph=True)
                y.backward()
                assert x.grad == 2 * 6  # one gradient for each pass
                print(x.grad)
                """,
            see=("retain-or-create", "error-backward-second-time"),
            source=("torch/_tensor.py (backward)",),
        ),
        Message(
            anchor="input-or-output-tensors",
            title="save_for_backward can only save input or output tensors, but argument 0 "
            "doesn't satisfy this condition",
            patterns=(r"save_for_backward can only save input or output tensors",),
            why="""Until PyTorch 0.3 `save_for_backward` took the inputs and outputs of the
                very Function that saved, and no other tensor: not one that `forward` had
                computed in between, and not a plain tensor among `Variable`s.""",
            fix="""Update torch: since 0.4 any tensor may be saved. In the old release keep
                an intermediate result as an attribute, `ctx.t = t`, and wrap a plain
                tensor that an operation of torch gets in `Variable`.""",
            tell=(
                "The line is in a Function: it saves what `forward` computed.",
                "The line calls torch itself (`embedding`, `masked_select`, a loss): one "
                "argument is a `Variable` and another is not.",
            ),
            fixed="""
                import torch

                class Swish(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        s = x.sigmoid()
                        ctx.save_for_backward(x, s)  # s is neither input nor output
                        return x * s

                    @staticmethod
                    @torch.autograd.function.once_differentiable
                    def backward(ctx, v):
                        x, s = ctx.saved_tensors
                        return v * s * (1 + x * (1 - s))

                x = torch.tensor([-1.0, 2.0], dtype=torch.float64, requires_grad=True)
                Swish.apply(x).sum().backward()
                (g,) = torch.autograd.grad(torch.nn.functional.silu(x).sum(), x)
                torch.testing.assert_close(x.grad, g)
                print(x.grad)
                """,
            see=("custom-function", "error-saved-intermediate"),
            source=("PT#5632", "jiangtaoxie/fast-MPN-COV#22"),
        ),
        Message(
            anchor="storage-of-variables",
            title="in-place operations can be only used on variables that don't share "
            "storage with any other variables, but detected that there are 2 objects "
            "sharing it",
            patterns=(
                r"in-place operat\w+ can be only used on variables that don't share "
                r"storage",
            ),
            older=(
                "in-place operatioins can be only used on variables that don't share "
                "storage with any other variables, but detected that there are 3 objects "
                "sharing it",
            ),
            why="""Until PyTorch 0.3 autograd could not follow a write to a tensor of which
                there was a view: a slice, an `expand`, an element of an iteration. In
                `t[0:2] += x` the slice is such a view itself.""",
            fix="""Update torch: since 0.4 a write through a view is part of the graph. In
                the old release compute the parts and put them together with `torch.cat`
                or `torch.stack`.""",
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                canvas = torch.zeros(4)
                for i in range(3):
                    canvas[i : i + 2] += x**2
                canvas.sum().backward()
                assert torch.equal(x.grad, 3 * 2 * x)
                print(x.grad)
                """,
            see=("in-place", "error-leaf-in-the-graph-interior"),
            source=("PT#2425", "jcdubron/scnn_pytorch#11"),
        ),
        Message(
            anchor="attribute-creator",
            title="'Tensor' object has no attribute 'creator'",
            kinds=("AttributeError", "DeprecationWarning"),
            patterns=(
                r"'(?:Tensor|Variable|Parameter)' object has no attribute 'creator'",
                r"'\w+' object has no attribute '(?:previous_functions|saved_variables)'",
                r"'saved_variables' is deprecated; use 'saved_tensors'",
            ),
            older=(
                "'Variable' object has no attribute 'creator'",
                "'ReluBackward0' object has no attribute 'previous_functions'",
                "'SwishBackward' object has no attribute 'saved_variables'",
                "'saved_variables' is deprecated; use 'saved_tensors'",
            ),
            why="""These names of the graph are from the first releases. Code that draws a
                graph, or a Function of that time, still asks for them.""",
            fix="""`creator` is `grad_fn` since PyTorch 0.2, `previous_functions` of a node
                is `next_functions`, and `ctx.saved_variables` is `ctx.saved_tensors`.""",
            tell=("A drawing of the graph: the present torchviz knows the new names.",),
            broken="""
                import torch

                x = torch.tensor(3.0, requires_grad=True)
                (x**2).creator
                """,
            fixed="""
                import torch

                x = torch.tensor(3.0, requires_grad=True)
                node = (x**2).grad_fn
                (behind, _), = node.next_functions
                assert behind.variable is x
                print(node.name(), behind.name())
                """,
            see=("reading-grad-fn", "custom-function"),
            source=("torch/csrc/autograd (python_variable.cpp)",),
        ),
        Message(
            anchor="functorch-without-functions",
            title="functorch functions (vmap, grad, vjp, etc.) currently do not support "
            "the use of autograd.Function",
            patterns=(
                r"\(vmap, grad, vjp, etc\.\) currently do not support the use of "
                r"autograd\.Function",
            ),
            why="""Before PyTorch 2.0 functorch could not look into a
                `torch.autograd.Function`: the results were wrong without a word, and a
                later release refused. No way of writing the Function helps there.""",
            fix="""Update to PyTorch 2.0 or later, and split the Function: `forward(x)`
                computes, `setup_context(ctx, inputs, output)` saves. In the old release
                write its formula with torch operations.""",
            tell=(
                "The Function is a library's (a kernel, a checkpoint): switch it off "
                "inside the transform, or take `torch.autograd.functional`, which knows "
                "Functions in every release.",
            ),
            fixed="""
                import torch

                class Cube(torch.autograd.Function):
                    @staticmethod
                    def forward(x):
                        return x**3

                    @staticmethod
                    def setup_context(ctx, inputs, output):
                        ctx.save_for_backward(*inputs)

                    @staticmethod
                    def backward(ctx, v):
                        (x,) = ctx.saved_tensors
                        return 3 * x**2 * v

                x = torch.tensor([1.0, 2.0])
                J = torch.func.jacrev(lambda x: Cube.apply(x).sum())(x)
                assert torch.equal(J, 3 * x**2)
                print(J)
                """,
            see=("function-under-transforms", "error-setup-context"),
            source=("FT#207", "FT#121"),
        ),
        Message(
            anchor="integer-gradient",
            title="Expected isFloatingType(grads[i].type().scalarType()) to be true, but "
            "got false",
            patterns=(
                r"Expected isFloatingType\(grads\[i\]\.(?:type\(\)\.scalarType|"
                r"scalar_type)\(\)\) to be true",
            ),
            older=(
                "Expected isFloatingType(grads[i].scalar_type()) to be true, but got "
                "false.",
            ),
            why="""In PyTorch 1.3 to 1.5 an integer gradient reached the check of what
                `backward` returns. Mostly it is the gradient for the integer output of a
                Function, an index such as that of `furthest_point_sample` or `ball_query`,
                which that release counted as differentiable.""",
            fix="""In `forward` say which outputs have no gradient,
                `ctx.mark_non_differentiable(index)`, and return None for integer inputs. Or
                update: the present release leaves integer outputs out by itself.""",
            tell=(
                "`votenet`, `pointnet2_ops` and what was made of them: each Function that "
                "returns indices.",
                "Your own `backward` returns integers: `g.to(x.dtype)`.",
                "The first v is an integer: `y.backward(torch.tensor(1.0))`, with a point.",
            ),
            fixed="""
                import torch

                class Largest(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        index = x.argmax()
                        ctx.mark_non_differentiable(index)
                        ctx.save_for_backward(index)
                        ctx.shape = x.shape
                        return x[index], index

                    @staticmethod
                    def backward(ctx, v, _):
                        (index,) = ctx.saved_tensors
                        g = v.new_zeros(ctx.shape)
                        g[index] = v
                        return g

                x = torch.tensor([1.0, 3.0, 2.0], requires_grad=True)
                largest, index = Largest.apply(x)
                (2 * largest).backward()
                assert not index.requires_grad
                assert x.grad.tolist() == [0.0, 2.0, 0.0]
                print(x.grad)
                """,
            see=("custom-function", "error-complex-gradient-for-a-real-input"),
            source=("NUAAXQ/MLCVNet#3", "qiqihaer/votenet-kitti#5"),
        ),
        Message(
            anchor="reinforce-was-removed",
            title="reinforce() was removed. Use torch.distributions instead.",
            patterns=(r"reinforce\(\) was removed",),
            why="""Until PyTorch 0.3 a sampled action had `action.reinforce(reward)`, and
                `action.backward()` then did the rest. A sample has no derivative; that of
                the expected reward comes from the logarithm of its probability.""",
            fix="""Sample from a distribution, and make the loss that has this derivative:
                `-distribution.log_prob(action) * reward`.""",
            broken="""
                import torch

                scores = torch.zeros(3, requires_grad=True)
                action = torch.softmax(scores, 0).multinomial(1)
                action.reinforce(1.0)
                """,
            fixed="""
                import torch

                scores = torch.zeros(3, requires_grad=True)
                policy = torch.distributions.Categorical(logits=scores)
                action, reward = torch.tensor(1), 3.0  # policy.sample() gives one
                (-policy.log_prob(action) * reward).backward()
                picked = torch.tensor([0.0, 1.0, 0.0])
                torch.testing.assert_close(scores.grad, reward * (1 / 3 - picked))
                print(scores.grad)
                """,
            see=("reinforce", "discrete-choices"),
            source=("torch/_tensor.py",),
        ),
    ),
)
