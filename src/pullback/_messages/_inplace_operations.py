"""Messages about operations that autograd does not take in place, or into ``out``."""

from pullback._messages._entry import Message

INPLACE_OPERATIONS = (
    Message(
        anchor="detach-views-inplace",
        title="Can't detach views in-place. Use detach() instead",
        patterns=(r"Can't detach views in-place\. Use detach\(\) instead",),
        older=("Can't detach views in-place. Use detach() instead",),
        why="""`t.detach_()` would cut the view out of the graph and leave its base in
            it, though both share their memory.""",
        fix="""`t = t.detach()`: a new tensor on the same memory, outside the graph.""",
        tell=(
            "A hidden state, or a result of `split` or `x[i]`: `h = h.detach()`.",
            "In `zero_grad` of old code under DistributedDataParallel with "
            "`gradient_as_bucket_view=True`: use `set_to_none=True`.",
        ),
        broken="""
            import torch

            x = torch.tensor([1.0, 2.0], requires_grad=True)
            state = (x * 2)[0]
            state.detach_()
            """,
        fixed="""
            import torch

            x = torch.tensor([1.0, 2.0], requires_grad=True)
            state = (x * 2)[0].detach()
            assert not state.requires_grad
            print(state)
            """,
        see=("no-grad-detach",),
        source=("LiJunnan1992/MLNT#8", "OpenNMT/OpenNMT-py#403"),
    ),
    Message(
        anchor="out-arguments",
        title="functions with out=... arguments don't support automatic differentiation",
        patterns=(
            r"(?:(?P<function>\w+)\(\): )?functions with out=\.\.\. arguments don't "
            r"support automatic differentiation",
            r"Trying to use forward AD with (?P<function>\w+?)(?:_out)? that "
            r"does not support it because it is an out= function",
        ),
        older=(
            "Trying to use forward AD with add_out that does not support it "
            "because it is an out= function",
        ),
        why="""`out=` writes the result into a tensor that is there already and that no
            graph can lead through. An argument requires a gradient, or the tensor
            given as `out` does.""",
        kinds=("RuntimeError", "NotImplementedError"),
        fix="""Drop `out=` and use what {function} returns; or copy that into the
            buffer, `buffer.copy_(...)` or `buffer[...] = ...`, which is recorded. With
            `out=`, only under `torch.no_grad()`, when no gradient is wanted.""",
        unknown={"function": "the function"},
        broken="""
            import torch

            x = torch.tensor([1.0, 2.0], requires_grad=True)
            result = torch.empty(2)
            torch.add(x, 1.0, out=result)
            """,
        fixed="""
            import torch

            x = torch.tensor([1.0, 2.0], requires_grad=True)
            result = torch.add(x, 1.0)
            buffer = torch.empty(2)
            buffer.copy_(result)
            (result + buffer).sum().backward()
            assert torch.equal(x.grad, 2 * torch.ones(2))
            print(x.grad)
            """,
        see=("in-place",),
        source=("PF/120297",),
    ),
    Message(
        anchor="saved-tensor-detached-inplace",
        title="Trying to use a saved tensor that has been detached in-place, i.e. with "
        ".detach_()",
        patterns=(r"Trying to use a saved tensor that has been detached in-place",),
        why="""`detach_()` cuts the tensor itself off its graph, also for operations
            that saved it before. Their `backward` would send the gradient nowhere.""",
        fix="""`x = x.detach()` makes a new tensor without a graph and leaves the old
            one as it is; call it after `backward` if both are wanted.""",
        broken="""
            import torch

            x = torch.tensor([1.0, 2.0], requires_grad=True)
            state = 3 * x
            y = (state**2).sum()
            state.detach_()
            y.backward()
            """,
        fixed="""
            import torch

            x = torch.tensor([1.0, 2.0], requires_grad=True)
            state = 3 * x
            y = (state**2).sum()
            state = state.detach()
            y.backward()
            assert torch.equal(x.grad, 18 * x) and not state.requires_grad
            print(x.grad)
            """,
        see=("no-grad-detach", "error-detach-views-inplace"),
        source=("torch/csrc/autograd (saved_variable.cpp)",),
    ),
    Message(
        anchor="leaf-in-the-graph-interior",
        title="leaf variable has been moved into the graph interior",
        patterns=(r"leaf variable has been moved into the graph interior",),
        why="""x was a leaf when the forward pass ran, and has a history now: something
            was written to it in place that requires a gradient. Its gradient can no
            longer be put into `x.grad`.""",
        fix="""Call `backward` before you write to x, and write under
            `torch.no_grad()`; or compute a new tensor, `x = x * w`.""",
        broken="""
            import torch

            x = torch.tensor([1.0, 2.0], requires_grad=True)
            w = torch.tensor([3.0, 3.0], requires_grad=True)
            y = (2 * x).sum()
            x.requires_grad_(False)
            x.mul_(w)
            y.backward()
            """,
        fixed="""
            import torch

            x = torch.tensor([1.0, 2.0], requires_grad=True)
            w = torch.tensor([3.0, 3.0], requires_grad=True)
            y = (2 * x).sum()
            scaled = x.detach() * w
            y.backward()
            assert torch.equal(x.grad, torch.tensor([2.0, 2.0]))
            print(x.grad, scaled.requires_grad)
            """,
        see=("in-place", "leaves-and-roots"),
        source=("torch/csrc/autograd (functions/accumulate_grad.cpp)",),
    ),
    Message(
        anchor="inplace-with-negative-slope",
        title="In-place leakyReLu backward calculation is triggered with a negative "
        "slope which is not supported",
        patterns=(
            r"In-place (?P<function>leakyReLu|elu) backward calculation is triggered "
            r"with a negative slope",
        ),
        why="""With `inplace=True` the input is overwritten, and `backward` reads from
            the result's sign on which side it lay. A negative slope turns the sign
            round, and that is lost.""",
        fix="""Pass `inplace=False`.""",
        broken="""
            import torch
            from torch.nn.functional import leaky_relu

            x = torch.tensor([1.0, -2.0], requires_grad=True)
            leaky_relu(x * 1, -0.5, inplace=True).sum().backward()
            """,
        fixed="""
            import torch
            from torch.nn.functional import leaky_relu

            x = torch.tensor([1.0, -2.0], requires_grad=True)
            leaky_relu(x * 1, -0.5).sum().backward()
            assert torch.equal(x.grad, torch.tensor([1.0, -0.5]))
            print(x.grad)
            """,
        see=("in-place", "kinks"),
        source=("aten/src/ATen/native (Activation.cpp)",),
    ),
    Message(
        anchor="single-memory-location",
        title="unsupported operation: more than one element of the written-to tensor "
        "refers to a single memory location. Please clone() the tensor before "
        "performing the operation.",
        patterns=(
            r"more than one element of the written-to tensor refers to a single memory "
            r"location",
        ),
        why="""You write in place to a tensor that repeats one number without a copy of
            it, as `expand` makes. The gradient of `sum` is of that kind: the one v
            for all elements.""",
        fix="""Compute a new tensor, `g * 2` in place of `g.mul_(2)`, or write to
            `g.clone()`.""",
        tell=(
            "A gradient from `torch.autograd.grad` or the v of a hook: as above. A "
            "hook returns the new tensor.",
            "`expand`, `broadcast_to`, `expand_as` in the forward pass: `clone()` "
            "after it, or `repeat`.",
        ),
        broken="""
            import torch

            x = torch.tensor([1.0, 2.0], requires_grad=True)
            (g,) = torch.autograd.grad(x.sum(), x)
            g.mul_(2)
            """,
        fixed="""
            import torch

            x = torch.tensor([1.0, 2.0], requires_grad=True)
            (g,) = torch.autograd.grad(x.sum(), x)
            assert g.stride() == (0,)  # one number, shown twice
            g = g * 2
            assert g.tolist() == [2.0, 2.0]
            print(g)
            """,
        see=("in-place", "sum-is-ones"),
        source=("aten/src/ATen (MemoryOverlap.cpp)",),
    ),
)
