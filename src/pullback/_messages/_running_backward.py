"""Messages about what runs through the graph, and what stays of it."""

from pullback._messages._entry import NODE, Message

RUNNING_BACKWARD = (
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
)
