"""Messages of releases long past, whose place another one has taken since."""

from pullback._messages._entry import Message

OLD_RELEASES = (
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
            "Expected isFloatingType(grads[i].scalar_type()) to be true, but got false.",
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
    Message(
        anchor="torch-six",
        title="No module named 'torch._six'",
        kinds=("ModuleNotFoundError", "ImportError"),
        patterns=(
            r"No module named 'torch\._six'",
            r"cannot import name '\w+' from 'torch\._six'",
        ),
        older=("cannot import name 'container_abcs' from 'torch._six'",),
        why="""Code that computes the norm of gradients or clips them took `inf` from this
            private module, which bridged Python 2 and 3. It went in PyTorch 2.0.""",
        fix="""`from math import inf`, or `torch.inf`; `container_abcs` is
            `collections.abc`, `string_classes` is `str`. The whole function is
            `torch.nn.utils.clip_grad_norm_`, and
            `torch.nn.utils.get_total_norm` where nothing is to be clipped.""",
        tell=(
            "DeepSpeed, apex, timm, fairscale or a copy of MAE or Swin: update it, or "
            "change that one line.",
        ),
        broken="""
            import torch
            from torch._six import inf
            """,
        fixed="""
            import torch
            from torch import inf

            w = torch.tensor([3.0, 4.0], requires_grad=True)
            (w**2).sum().backward()
            largest = torch.nn.utils.clip_grad_norm_([w], 1.0, norm_type=inf)
            assert largest == 8
            torch.testing.assert_close(w.grad, torch.tensor([0.75, 1.0]))
            print(largest, w.grad)
            """,
        see=("clip-norm-or-value", "gradient-norms"),
        source=("torch/nn/utils (clip_grad.py)",),
    ),
    Message(
        anchor="zero-gradients",
        title="cannot import name 'zero_gradients' from 'torch.autograd.gradcheck'",
        kinds=("ImportError",),
        patterns=(r"cannot import name 'zero_gradients'",),
        why="""Attacks and Jacobians of that time cleared `x.grad` between two calls of
            `backward` with this helper. It went in PyTorch 1.9.""",
        fix="""`x.grad = None`. Or ask for the gradient without `x.grad`,
            `torch.autograd.grad(loss, x)`: then there is nothing to clear.""",
        tell=(
            "advertorch, autoattack, torchattacks, dlutils: a newer version has a helper "
            "of its own.",
            "`x.zero_grad()`, as some threads say: a tensor has no such method.",
        ),
        broken="""
            import torch
            from torch.autograd.gradcheck import zero_gradients
            """,
        fixed="""
            import torch

            x = torch.tensor([1.0, 2.0], requires_grad=True)
            y = torch.stack([x.sum(), (x**2).sum()])
            rows = []
            for v in torch.eye(2):
                (row,) = torch.autograd.grad(y, x, v, retain_graph=True)
                rows.append(row)
            assert x.grad is None
            assert torch.stack(rows).tolist() == [[1, 1], [2, 4]]
            print(torch.stack(rows))
            """,
        see=("gradient-doubled", "jacobian-row-by-row"),
        source=("PT#60523", "fra31/auto-attack#59", "BorealisAI/advertorch#99"),
    ),
)
