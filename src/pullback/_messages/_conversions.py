"""Messages about tensors that become arrays, numbers, copies and files."""

from pullback._messages._entry import Message, Theme

CONVERSIONS = Theme(
    "conversions",
    (
        Message(
            anchor="cannot-call-numpy",
            title="Can't call numpy() on Tensor that requires grad",
            kinds=("RuntimeError", "BufferError"),
            patterns=(
                r"Can't call (?:numpy|apply_|map2?_)\(\) on (?:Tensor|Variable) that "
                r"requires grad",
                r"Can't export tensors that require gradient",
                r"Can't get __cuda_array_interface__ on Variable that requires grad",
            ),
            older=(
                "Can't export tensors that require gradient, use tensor.detach()",
                "Can't get __cuda_array_interface__ on Variable that requires grad. If "
                "gradients aren't required, use var.detach() to get Variable that doesn't "
                "require grad.",
                "Can't call numpy() on Variable that requires grad. Use "
                "var.detach().numpy() instead.",
                "Can't call apply_() on Variable that requires grad. Use "
                "var.detach().apply_() instead.",
            ),
            why="""NumPy knows nothing of the graph; what it computes could not be
                differentiated, and what it writes autograd would not notice. So you must
                say that you leave the graph.""",
            fix="""For a plot or a print: `t.detach().cpu().numpy()`. In the middle of a
                function that you differentiate: use the torch function instead, or wrap
                the NumPy part in a `torch.autograd.Function`.""",
            tell=(
                "It comes from matplotlib, pandas, scikit-learn or `np.array(t)`: they "
                "convert; pass `t.detach().cpu()`.",
                "A list of losses is plotted: collect `loss.item()`, which also lets go of "
                "each step's graph.",
                "You need the gradient through it: torch has nearly every NumPy function.",
                "`Can't export tensors`: JAX, CuPy or NumPy take it through DLPack; "
                "`from_dlpack(t.detach())`.",
                "`apply_()`, `map_()`: a Python function for each element has "
                "no derivative; write it with torch operations, or detach.",
            ),
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
                (x**2).numpy()
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
                array = (x**2).detach().numpy()
                assert array.tolist() == [1.0, 4.0, 9.0]
                print(array)
                """,
            see=("other-libraries", "external-loss", "by-hand"),
            source=("zhuangdizhu/FedGen#1",),
        ),
        Message(
            anchor="tensor-to-scalar",
            title="Converting a tensor with requires_grad=True to a scalar may lead to "
            "unexpected behavior",
            kinds=("UserWarning",),
            patterns=(
                r"Converting a tensor with requires_grad=True to a scalar may lead to "
                r"unexpected behavior",
            ),
            why="""`float(t)`, `math.sqrt(t)` or `torch.tensor([t, ...])` makes a plain
                number of a tensor that has a graph. The number has none: the gradient
                stops there, silently but for this warning.""",
            fix="""When only the number is wanted: `t.item()` or `t.detach()`. When the
                gradient should pass: torch functions (`t.sqrt()`), and `torch.stack` to put
                tensors together.""",
            tell=(
                "`torch.tensor([a, b])` of tensors: `torch.stack([a, b])`.",
                "`torch.tensor(losses, requires_grad=True)`: a leaf of its own, on which "
                "`backward` raises nothing, and training stands still: "
                "`torch.stack(losses)`.",
                "`math.exp(t)`: `t.exp()`.",
                "`array[i] = t` into a NumPy array: `t.item()` when it is a record.",
                "`total += float(loss)` for a log: `loss.item()`.",
            ),
            broken="""
                import torch

                a = torch.tensor(2.0, requires_grad=True)
                torch.tensor([a**2, a**3])
                """,
            fixed="""
                import torch

                a = torch.tensor(2.0, requires_grad=True)
                y = torch.stack([a**2, a**3])
                y.sum().backward()
                assert a.grad == 2 * 2 + 3 * 4
                print(a.grad)
                """,
            see=("no-grad-detach",),
            source=("torch/csrc/autograd (python_variable_methods.cpp)",),
        ),
        Message(
            anchor="converted-to-scalar",
            title="a Tensor with 3 elements cannot be converted to Scalar",
            kinds=("RuntimeError", "ValueError"),
            patterns=(
                r"a Tensor with (?P<count>\d+) elements cannot be converted to Scalar",
                r"only one element tensors can be converted to Python scalars",
            ),
            older=("only one element tensors can be converted to Python scalars",),
            why="""`.item()`, `float()`, `math` functions and `torch.tensor([t, ...])` want
                one number, and the tensor has another count. It is often a loss with
                `reduction='none'`, a gradient, or a list of vectors.""",
            fix="""Reduce it first (`loss.mean().item()`), pick an entry (`t[k].item()`), or
                take all of them: `t.tolist()`. Vectors are put together with
                `torch.stack`.""",
            tell=(
                "`torch.tensor([a, b])` of tensors: `torch.stack([a, b])`, which also "
                "keeps the gradient.",
                "`loss.item()`, `float(loss)`: the loss was not reduced.",
                "0 elements: a mask or a filter left nothing over.",
            ),
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
                losses = x**2
                losses.item()
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
                losses = x**2
                losses.sum().backward()
                assert losses.tolist() == [1.0, 4.0, 9.0]
                print(losses.sum().item(), x.grad)
                """,
            see=("loss-as-v", "error-scalar-outputs"),
            source=("aten/src/ATen/native (Scalar.cpp)",),
        ),
        Message(
            anchor="conjugate-bit",
            title="Can't call numpy() on Tensor that has conjugate bit set",
            patterns=(
                r"Can't call numpy\(\) on Tensor that has (?P<bit>conjugate|negative) bit "
                r"set",
                r"view_as_real doesn't work on unresolved (?P<bit>conjugate)d "
                r"tensors",
            ),
            older=(
                "Can't call numpy() on Tensor that has negative bit set. Use "
                "tensor.resolve_neg().numpy() instead.",
                "view_as_real doesn't work on unresolved conjugated tensors. To "
                "resolve the conjugate tensor so you can view it as real, use "
                "self.resolve_conj();",
            ),
            why="""`z.conj()` does not touch memory; it sets a bit that torch honours and
                NumPy does not know. The gradient that comes back through `conj()` can carry
                it, too, and so can `.mH`; `z.conj().imag` has a negative bit.""",
            fix="""The {bit} bit is set. Conjugate: `t.resolve_conj().numpy()`,
                `torch.view_as_real(t.resolve_conj())`; negative:
                `t.resolve_neg().numpy()`.""",
            unknown={"bit": "conjugate or the negative"},
            broken="""
                import torch

                z = torch.tensor([1 + 2j, 3 - 1j])
                z.conj().numpy()
                """,
            fixed="""
                import torch

                z = torch.tensor([1 + 2j, 3 - 1j])
                array = z.conj().resolve_conj().numpy()
                assert array.tolist() == [1 - 2j, 3 + 1j]
                print(array)
                """,
            see=("complex-v",),
            source=("torch/csrc/utils (tensor_numpy.cpp)",),
        ),
        Message(
            anchor="bfloat16-to-numpy",
            title="Got unsupported ScalarType BFloat16",
            kinds=("TypeError",),
            patterns=(r"Got unsupported ScalarType (?P<dtype>BFloat16|Float8\w+)",),
            why="""NumPy has no such dtype. The tensor, a gradient or an output, is the work
                of mixed precision or of a model that was loaded in half precision.""",
            fix="""Convert first: `t.detach().float().cpu().numpy()`. Every {dtype} number
                is a float32 number; nothing is lost.""",
            unknown={"dtype": "such"},
            broken="""
                import torch

                torch.ones(2, dtype=torch.bfloat16).numpy()
                """,
            fixed="""
                import torch

                w = torch.tensor([1.0, 2.0], dtype=torch.bfloat16, requires_grad=True)
                (w**2).sum().backward()
                g = w.grad.float().numpy()
                assert g.tolist() == [2.0, 4.0]
                print(g.dtype)
                """,
            see=("mixed-precision", "error-cannot-call-numpy"),
            source=("reproduced here; no thread found",),
        ),
        Message(
            anchor="copy-construct",
            title="To copy construct from a tensor, it is recommended to use "
            "sourceTensor.detach().clone()",
            kinds=("UserWarning",),
            patterns=(
                r"To copy construct from a tensor, it is recommended to use "
                r"sourceTensor\.(?:detach\(\)\.)?clone\(\)(?:\.detach\(\))?",
            ),
            tell=(
                "`t` is data: nothing is lost. `torch.as_tensor(t)` takes both lists and "
                "tensors without the warning.",
                "`t` was computed from what you train: the gradient stops here. Use `t` "
                "itself.",
            ),
            older=(
                "To copy construct from a tensor, it is recommended to use "
                "sourceTensor.clone().detach() or sourceTensor.clone().detach()."
                "requires_grad_(True), rather than torch.tensor(sourceTensor).",
            ),
            why="""`torch.tensor(t)` copies the numbers of a tensor and leaves its graph
                behind: no gradient flows back through the copy.""",
            fix="""To keep the graph: `t.clone()`, or `t` itself. To leave it on purpose:
                `t.detach().clone()`, with `.requires_grad_()` for a new leaf.""",
            broken="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                y = torch.tensor(x**2, requires_grad=True)
                y.sum().backward()
                assert x.grad is None
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                y = (x**2).clone()
                y.sum().backward()
                assert torch.equal(x.grad, 2 * x)
                print(x.grad)
                """,
            see=("no-grad-detach", "grad-is-none"),
            source=("torch/csrc/utils (tensor_new.cpp)",),
        ),
        Message(
            anchor="deepcopy-of-non-leaf",
            title="Only Tensors created explicitly by the user (graph leaves) support the "
            "deepcopy protocol",
            patterns=(
                r"Only (?:Tensors|Variables) created explicitly by the user \(graph "
                r"leaves\) support the deepcopy protocol",
            ),
            older=(
                "Only Variables created explicitly by the user (graph leaves) support the "
                "deepcopy protocol at the moment",
            ),
            why="""`copy.deepcopy` met a tensor that was computed and still has its graph. A
                module that keeps such a tensor as an attribute (a hidden state, a cached
                output, an old `weight_norm`) cannot be copied.""",
            fix="""Keep `t.detach()` on the module (a buffer with a graph is refused as
                well); copy one tensor with `t.detach().clone()`, or `t.clone()` to stay in
                the graph.""",
            tell=(
                "A module that you wrote, which can be copied until `forward` has run: "
                "search its attributes for one that `forward` assigns. "
                "`self.last = x.detach()`, or `model.last = None` before the copy.",
                "`torch.nn.utils.weight_norm` or `spectral_norm`: use those of "
                "`torch.nn.utils.parametrizations`, which can be copied.",
                "`torch.nn.utils.prune`: copy before pruning, or after `prune.remove`.",
                "A leaf (no `nn.Parameter`) whose `.grad` has a graph, after "
                "`backward(create_graph=True)`: `x.grad = None` before the copy.",
                "A running average of the weights (EMA): it was recorded, and the graph of "
                "all steps is behind it. Update it under `torch.no_grad()`.",
            ),
            broken="""
                import copy

                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                copy.deepcopy(x * 2)
                """,
            fixed="""
                import copy

                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                twin = copy.deepcopy((x * 2).detach())
                assert torch.equal(twin, torch.tensor([2.0, 4.0]))
                print(twin)
                """,
            source=("PT#103001",),
            see=("leaves-and-roots", "parametrizations"),
        ),
        Message(
            anchor="refusing-to-serialize",
            title="Cowardly refusing to serialize non-leaf tensor which requires_grad",
            patterns=(
                r"Cowardly refusing to serialize non-leaf tensor which requires_grad",
            ),
            why="""A tensor with a graph was to be sent to another process. The graph cannot
                travel.""",
            fix="""Send `t.detach()`. To go on with the backward pass there, send the
                gradient back and pass it as `gradient` to `t.backward(g)` here.""",
            tell=(
                "A `DataLoader` with workers and a `collate_fn` of your own: a worker "
                "prints the message, and the program waits for ever. Return `t.detach()`, "
                "or compute under `torch.no_grad()`.",
                "Your own `Queue` or `Pool`: what you put in has a graph.",
            ),
            broken="""
                from multiprocessing.reduction import ForkingPickler

                import torch
                import torch.multiprocessing

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                ForkingPickler.dumps(x * 2)  # what Queue.put does
                """,
            fixed="""
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                y = x * 2
                sent = y.detach().clone().requires_grad_()
                (sent**2).sum().backward()  # elsewhere
                y.backward(sent.grad)  # here, with what came back
                assert torch.equal(x.grad, 2 * 2 * sent)
                print(x.grad)
                """,
            see=("across-processes",),
            source=("torch/multiprocessing/reductions.py",),
        ),
        Message(
            anchor="cannot-pickle-a-node",
            title="cannot pickle 'MulBackward0' object",
            kinds=("TypeError",),
            patterns=(r"cannot pickle '(?P<node>\w+Backward\d*|AccumulateGrad)' object",),
            why="""Something that is copied, saved or sent to a process holds a node of the
                graph (`y.grad_fn`, a `GradientEdge`). A node belongs to the forward pass
                that made it and cannot leave its process.""",
            fix="""Keep no node in a module or a dict that is copied or saved: keep the name
                (`y.grad_fn.name()`) or the value (`y.detach()`).""",
            broken="""
                import copy
                import torch

                y = torch.tensor([1.0, 2.0], requires_grad=True) * 3
                copy.deepcopy({"value": y.detach(), "made by": y.grad_fn})
                """,
            fixed="""
                import copy
                import torch

                y = torch.tensor([1.0, 2.0], requires_grad=True) * 3
                kept = copy.deepcopy({"value": y.detach(), "made by": y.grad_fn.name()})
                assert kept["made by"] == "MulBackward0"
                print(kept)
                """,
            see=("what-keeps-a-graph", "error-deepcopy-of-non-leaf"),
            source=("reproduced here; no thread found",),
        ),
        Message(
            anchor="hook-not-serialized",
            title="backward hook <function <lambda> at 0x7f04325c3ce0> on tensor will not "
            "be serialized.",
            kinds=("UserWarning",),
            patterns=(r"backward hook .{1,200}? on tensor will not be serialized",),
            why="""A tensor with a hook is saved or sent to another process. Its numbers go
                along; the hook, a function of this program, does not. What is loaded has
                no hook.""",
            fix="""Save `x.detach()`, which has no hooks, and register the hook again after
                loading. With `@torch.utils.hooks.unserializable_hook` on the function it
                is left behind in silence.""",
            broken="""
                import io
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                x.register_hook(lambda v: 2 * v)
                torch.save(x, io.BytesIO())
                """,
            fixed="""
                import io
                import torch

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                x.register_hook(lambda v: 2 * v)
                file = io.BytesIO()
                torch.save(x.detach(), file)
                file.seek(0)
                loaded = torch.load(file).requires_grad_()
                loaded.sum().backward()
                assert loaded.grad.tolist() == [1.0, 1.0]  # no hook
                print(loaded.grad)
                """,
            see=("hooks", "error-refusing-to-serialize"),
            source=("torch/utils/hooks.py",),
        ),
    ),
)
