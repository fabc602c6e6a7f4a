"""Messages about ctx, rules and writing in place inside a custom function."""

from pullback._messages._entry import Message, Theme

INSIDE_FUNCTION = Theme(
    "inside-function",
    (
        Message(
            anchor="ctx-has-no-attribute",
            title="'ClipBackward' object has no attribute 'mask'",
            kinds=("AttributeError",),
            patterns=(
                r"'(?P<function>\w*[A-Za-z])Backward' object has no attribute "
                r"'(?P<name>(?!backward'|grad'|previous_functions'|saved_variables')\w+)'",
            ),
            older=("'QuantGeneratedBackward' object has no attribute 'scale'",),
            why="""`ctx` is an object for one call of your Function: `backward` finds on it
                what `forward`, or `setup_context`, has put there in that call. Nothing of
                this name was.""",
            fix="""Set `ctx.{name}` in `forward` (or `setup_context`), on every way through
                it; tensors that are inputs or outputs go into `ctx.save_for_backward`.""",
            tell=(
                "It is set in one branch only, or after an early `return`.",
                "`saved_tensor`, `needs_input_grads`: the names are `ctx.saved_tensors` "
                "and `ctx.needs_input_grad`.",
                "It is set on the class or on `self`: `ctx` is neither.",
                "The name is one of torch's, such as `AddmmBackward` in PyTorch 1.x, and "
                "you walk the graph: only the nodes of leaves have `variable`, and what "
                "is saved begins with `_saved_`.",
            ),
            broken="""
                import torch

                class Clip(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        mask = x > 0
                        return x * mask

                    @staticmethod
                    def backward(ctx, v):
                        return v * ctx.mask

                x = torch.tensor([-1.0, 2.0], requires_grad=True)
                Clip.apply(x).sum().backward()
                """,
            fixed="""
                import torch

                class Clip(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        ctx.mask = x > 0
                        return x * ctx.mask

                    @staticmethod
                    def backward(ctx, v):
                        return v * ctx.mask

                x = torch.tensor([-1.0, 2.0], requires_grad=True)
                Clip.apply(x).sum().backward()
                assert torch.equal(x.grad, torch.tensor([0.0, 1.0]))
                print(x.grad)
                """,
            see=("ctx-or-saved", "custom-function"),
            source=("reproduced here; no thread found",),
        ),
        Message(
            anchor="vmap-rule-returns",
            title="Expected the vmap staticmethod to have two returns, an output and "
            "out_dims with pytree structure compatible with the output",
            patterns=(
                r"Expected the vmap staticmethod to have two returns",
                r"The autograd\.Function's vmap staticmethod returned an incompatible "
                r"\(output, out_dims\) tuple",
            ),
            older=(
                "The autograd.Function's vmap staticmethod returned an incompatible "
                "(output, out_dims) tuple. Expected out_dims=(0, 0) to be compatible with "
                "the structure of `output`.",
            ),
            why="""The `vmap` rule of a Function gets the batched tensors and must also say
                where the samples lie in its result: it returns the output and, for each
                tensor of it, the dimension of the batch.""",
            fix="""End the rule on `return y, 0` when the samples lie in dimension 0 of y;
                on `return (y, z), (0, None)` for two outputs of which the second has no
                batch.""",
            tell=(
                "The formula works on batches as it is: leave the rule out, and set "
                "`generate_vmap_rule = True`.",
            ),
            broken="""
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

                    @staticmethod
                    def vmap(info, in_dims, x):
                        return Cube.apply(x)

                torch.vmap(Cube.apply)(torch.tensor([1.0, 2.0]))
                """,
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

                    @staticmethod
                    def vmap(info, in_dims, x):
                        return Cube.apply(x), in_dims[0]

                x = torch.tensor([1.0, 2.0])
                each = torch.vmap(torch.func.grad(Cube.apply))(x)
                assert torch.equal(each, 3 * x**2)
                print(each)
                """,
            see=("function-under-transforms", "error-setup-context"),
            source=("torch/_functorch/autograd_function.py",),
        ),
        Message(
            anchor="marked-as-dirty",
            title="Some elements marked as dirty during the forward method were not "
            "returned as output",
            patterns=(
                r"Some elements marked as dirty during the forward method were not "
                r"returned as output",
            ),
            why="""`ctx.mark_dirty(x)` says that `forward` writes to x. From then on x has
                another history, and autograd can give it one only when x is an output.""",
            fix="""Return the tensor that you wrote to, or do not write: compute a new
                tensor and leave `mark_dirty` out.""",
            broken="""
                import torch

                class AddOne(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        ctx.mark_dirty(x)
                        x.add_(1)
                        return x * 2

                    @staticmethod
                    def backward(ctx, v):
                        return v * 2

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                AddOne.apply(x.clone())
                """,
            fixed="""
                import torch

                class AddOne(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        ctx.mark_dirty(x)
                        return x.add_(1)

                    @staticmethod
                    def backward(ctx, v):
                        return v

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                (AddOne.apply(x.clone()) * 2).sum().backward()
                assert torch.equal(x.grad, torch.tensor([2.0, 2.0]))
                print(x.grad)
                """,
            see=("custom-function", "in-place"),
            source=("torch/csrc/autograd (custom_function.cpp)",),
        ),
        Message(
            anchor="mark-wants-tensors",
            title="mark_non_differentiable only accepts variable arguments, but got",
            kinds=("TypeError", "RuntimeError"),
            patterns=(
                r"mark_non_differentiable only accepts variable arguments, but got",
                r"mark_dirty can only accept variables, but argument",
            ),
            older=("mark_dirty can only accept variables, but argument 0 is of type list",),
            why="""`ctx.mark_non_differentiable` and `ctx.mark_dirty` take tensors, one
                argument for each, and got a list or a number.""",
            fix="""Pass the tensors one by one: `ctx.mark_non_differentiable(*indices)`,
                all in one call.""",
            broken="""
                import torch

                class MaxAndPlace(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        value, place = x.max(0)
                        ctx.mark_non_differentiable([place])
                        ctx.place, ctx.n = place, len(x)
                        return value, place

                    @staticmethod
                    def backward(ctx, v, _):
                        return v * torch.eye(ctx.n)[ctx.place]

                MaxAndPlace.apply(torch.tensor([1.0, 3.0], requires_grad=True))
                """,
            fixed="""
                import torch

                class MaxAndPlace(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        value, place = x.max(0)
                        ctx.mark_non_differentiable(place)
                        ctx.place, ctx.n = place, len(x)
                        return value, place

                    @staticmethod
                    def backward(ctx, v, _):
                        return v * torch.eye(ctx.n)[ctx.place]

                x = torch.tensor([1.0, 3.0], requires_grad=True)
                value, place = MaxAndPlace.apply(x)
                value.backward()
                assert x.grad.tolist() == [0.0, 1.0]
                assert not place.requires_grad
                print(x.grad)
                """,
            see=("custom-function", "error-save-for-backward"),
            source=("torch/csrc/autograd (python_function.cpp)",),
        ),
        Message(
            anchor="writes-to-a-view",
            title="If your Function modifies inplace an input that is a view of another "
            "Tensor, your Function cannot return more than one Tensor",
            patterns=(
                r"If your Function modifies inplace an input that is a view of another "
                r"Tensor",
                r"Functions which modify views in-place must return a single Variable",
            ),
            older=("Functions which modify views in-place must return a single Variable",),
            why="""`ctx.mark_dirty(x)` says that `forward` writes to x, and this x is a part
                of a larger tensor. Autograd then records the write for the larger tensor,
                which works for a Function with one output.""",
            fix="""Compute a new tensor and leave `mark_dirty` out. Or give the Function
                `x.clone()`; or split it in two, of which the one that writes returns
                x alone.""",
            broken="""
                import torch

                class Double(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        ctx.mark_dirty(x)
                        return x.mul_(2), x + 1

                    @staticmethod
                    def backward(ctx, v, w):
                        return 2 * (v + w)

                x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
                Double.apply((x * 1)[:2])
                """,
            fixed="""
                import torch

                class Double(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        y = x * 2
                        return y, y + 1

                    @staticmethod
                    def backward(ctx, v, w):
                        return 2 * (v + w)

                x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
                y, z = Double.apply((x * 1)[:2])
                (y + z).sum().backward()
                assert torch.equal(x.grad, torch.tensor([4.0, 4.0, 0.0]))
                print(x.grad)
                """,
            see=("in-place", "error-marked-as-dirty"),
            source=("torch/csrc/autograd (custom_function.cpp)",),
        ),
        Message(
            anchor="jvp-in-place",
            title="An inplace custom Function is not modifying the forward mode gradients "
            "inplace",
            patterns=(
                r"An inplace custom Function is not (?:modifying|returning) the forward "
                r"mode gradients",
            ),
            older=(
                "An inplace custom Function is not returning the forward mode gradients "
                "as-is.",
            ),
            why="""`forward` writes to its input, and the tangent of that input has to
                follow: `jvp` made a new tensor in its place, so x and its tangent would
                belong to different moments.""",
            fix="""Let `jvp` do to the tangent, in place, what the rule says, and return
                that same tensor: `return t.mul_(2)` where `forward` has `x.mul_(2)`, and
                `return t.mul_(1)` where it adds a constant, since a tangent that was not
                written to is refused.""",
            broken="""
                import torch
                import torch.autograd.forward_ad as fwAD

                class Double(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        ctx.mark_dirty(x)
                        return x.mul_(2)

                    @staticmethod
                    def jvp(ctx, t):
                        return t * 2

                with fwAD.dual_level():
                    Double.apply(fwAD.make_dual(torch.ones(2), torch.ones(2)))
                """,
            fixed="""
                import torch
                import torch.autograd.forward_ad as fwAD

                class Double(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        ctx.mark_dirty(x)
                        return x.mul_(2)

                    @staticmethod
                    def jvp(ctx, t):
                        return t.mul_(2)

                t = torch.tensor([3.0, 4.0])
                with fwAD.dual_level():
                    y = Double.apply(fwAD.make_dual(torch.ones(2), t.clone()))
                    tangent = fwAD.unpack_dual(y).tangent
                assert torch.equal(tangent, 2 * t)
                print(tangent)
                """,
            see=("what-is-a-jvp", "error-jvp-returns"),
            source=("torch/csrc/autograd (custom_function.cpp)",),
        ),
        Message(
            anchor="saved-tensors-empty",
            title="x, n = ctx.saved_tensors: not enough values to unpack (expected 2, "
            "got 0)",
            kinds=("ValueError", "IndexError"),
            patterns=(
                r"not enough values to unpack \(expected \d+, got 0\)",
                r"saved_tensors\b.{0,60} (?:not enough|too many) values to unpack \(",
                r"saved_tensors ?\[.{0,60} tuple index out of range",
            ),
            only_line=r"saved_tensors",
            why="""`backward` takes another number of tensors out of `ctx.saved_tensors`
                than `forward` put in. It got 0 where `ctx.save_for_backward` was never
                called, or was assigned to: that hides the method, and nothing is saved or
                said.""",
            fix="""Call it once, with everything: `ctx.save_for_backward(x, n)` in `forward`
                or `setup_context`, and take the same number out. Numbers, shapes and flags
                are no tensors: `ctx.n = n`.""",
            tell=(
                "`ctx.save_for_backward = x, n`: write the call.",
                "`forward` saves on one of its ways only, or returns before.",
                "Two calls: the second replaces what the first has saved.",
                "`got 1`, `too many values`: the two lists differ; for one tensor, "
                "`(x,) = ctx.saved_tensors`, with the comma.",
                "The line has no `ctx.saved_tensors`: these are Python's own words for any "
                "empty sequence.",
            ),
            broken="""
                import torch

                class Scale(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x, s):
                        ctx.save_for_backward = x, s
                        return x * s

                    @staticmethod
                    def backward(ctx, v):
                        x, s = ctx.saved_tensors
                        return v * s, (v * x).sum()

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                s = torch.tensor(3.0, requires_grad=True)
                Scale.apply(x, s).sum().backward()
                """,
            fixed="""
                import torch

                class Scale(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x, s):
                        ctx.save_for_backward(x, s)
                        return x * s

                    @staticmethod
                    def backward(ctx, v):
                        x, s = ctx.saved_tensors
                        return v * s, (v * x).sum()

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                s = torch.tensor(3.0, requires_grad=True)
                Scale.apply(x, s).sum().backward()
                assert x.grad.tolist() == [3.0, 3.0]
                assert s.grad == 1 + 2
                print(x.grad, s.grad)
                """,
            see=("ctx-or-saved", "error-save-for-backward", "error-ctx-has-no-attribute"),
            source=("reproduced here; no thread found",),
        ),
    ),
)
