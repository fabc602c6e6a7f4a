"""Messages about what the methods of a custom Function take, return and write to."""

from pullback._messages._entry import Message, Theme

RULES = Theme(
    "rules",
    (
        Message(
            anchor="backward-arguments",
            title="backward() takes 2 positional arguments but 3 were given",
            kinds=("TypeError",),
            patterns=(
                r"(?<!Tensor\.)backward\(\) takes \d+ positional arguments? but \d+ were "
                r"given",
                r"(?<!Tensor\.)backward\(\) missing \d+ required positional arguments?"
                r"(?!: 'loss')",
            ),
            older=("Two.backward() missing 1 required positional argument: 'w'",),
            why="""`backward` gets `ctx` and one `v` for each *output* of `forward`. It
                returns one gradient for each *input*. Here the number of its arguments is
                not that of the outputs.""",
            fix="""Count what `forward` returns: two outputs need
                `backward(ctx, v_first, v_second)`. An output that the loss does not use
                sends zeros.""",
            broken="""
                import torch

                class SumAndDifference(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, a, b):
                        return a + b, a - b

                    @staticmethod
                    def backward(ctx, v):
                        return v, v

                a, b = (torch.tensor(2.0, requires_grad=True) for _ in range(2))
                s, d = SumAndDifference.apply(a, b)
                (s * d).backward()
                """,
            fixed="""
                import torch

                class SumAndDifference(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, a, b):
                        return a + b, a - b

                    @staticmethod
                    def backward(ctx, v_sum, v_difference):
                        return v_sum + v_difference, v_sum - v_difference

                a, b = (torch.tensor(2.0, requires_grad=True) for _ in range(2))
                s, d = SumAndDifference.apply(a, b)
                (s * d).backward()  # a² - b²
                assert (a.grad, b.grad) == (4, -4)
                print(a.grad, b.grad)
                """,
            see=("deriving-vjps", "error-incorrect-number-of-gradients"),
            source=("torch/autograd/function.py (BackwardCFunction)",),
        ),
        Message(
            anchor="both-backward-and-vjp",
            title="Implementing both 'backward' and 'vjp' for a custom Function is not "
            "allowed",
            patterns=(r"Implementing both 'backward' and 'vjp' for a custom Function",),
            why="""`vjp` is another name of `backward`. With both, torch cannot tell which
                rule you mean.""",
            fix="""Keep one of the two, `backward(ctx, v)`. The rule for forward mode is
                called `jvp`.""",
            broken="""
                import torch

                class Double(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        return x * 2

                    @staticmethod
                    def backward(ctx, v):
                        return v * 2

                    @staticmethod
                    def vjp(ctx, v):
                        return v * 2

                Double.apply(torch.tensor(1.0, requires_grad=True)).backward()
                """,
            fixed="""
                import torch

                class Double(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        return x * 2

                    @staticmethod
                    def vjp(ctx, v):
                        return v * 2

                x = torch.tensor(1.0, requires_grad=True)
                Double.apply(x).backward()
                assert x.grad == 2
                print(x.grad)
                """,
            see=("custom-function", "error-implement-jvp"),
            source=("torch/autograd/function.py",),
        ),
        Message(
            anchor="complex-gradient-for-a-real-input",
            title="Expected isFloatingType(grad.scalar_type()) || (input_is_complex == "
            "grad_is_complex) to be true, but got false",
            patterns=(
                r"Expected isFloatingType\(grad\.scalar_type\(\)\) \|\| "
                r"\(input_is_complex == grad_is_complex\) to be true",
            ),
            why="""`backward` of your Function returned a complex gradient for a real input
                (or an integer one). A real input has a real gradient: moving it can only
                follow the real part.""",
            fix="""Return `g.real` for each input that is real. The real part belongs to the
                formula: for `y = x * c` with a complex `c` the gradient of x is
                `(v * c.conj()).real`.""",
            broken="""
                import torch

                class Turn(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        return x * (3 + 4j)

                    @staticmethod
                    def backward(ctx, v):
                        return v * (3 - 4j)

                x = torch.tensor(1.0, requires_grad=True)
                Turn.apply(x).abs().backward()
                """,
            fixed="""
                import torch

                class Turn(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        return x * (3 + 4j)

                    @staticmethod
                    def backward(ctx, v):
                        return (v * (3 - 4j)).real

                x = torch.tensor(1.0, requires_grad=True)
                Turn.apply(x).abs().backward()  # 5 |x|
                torch.testing.assert_close(x.grad, torch.tensor(5.0))
                print(round(x.grad.item(), 4))
                """,
            see=("complex-v", "deriving-vjps"),
            source=("torch/csrc/autograd (engine.cpp, validate_outputs)",),
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
            anchor="input-returned-as-it-is",
            title="An input that has been returned as-is as output is being saved for "
            "backward",
            patterns=(
                r"An input that has been returned as-is as output is being saved for "
                r"backward",
            ),
            why="""`forward` returns its input unchanged, and `setup_context` saves it.
                Input and output are then one tensor with two histories.""",
            fix="""Return `x.view_as(x)` (or `x.clone()`) and save that.""",
            broken="""
                import torch

                class Clipped(torch.autograd.Function):
                    @staticmethod
                    def forward(x):
                        return x

                    @staticmethod
                    def setup_context(ctx, inputs, output):
                        ctx.save_for_backward(output)

                    @staticmethod
                    def backward(ctx, v):
                        return v.clamp(-1, 1)

                Clipped.apply(torch.tensor([1.0, 2.0], requires_grad=True))
                """,
            fixed="""
                import torch

                class Clipped(torch.autograd.Function):
                    @staticmethod
                    def forward(x):
                        return x.view_as(x)

                    @staticmethod
                    def setup_context(ctx, inputs, output):
                        ctx.save_for_backward(output)

                    @staticmethod
                    def backward(ctx, v):
                        return v.clamp(-1, 1)

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                (Clipped.apply(x) * 10).sum().backward()
                assert torch.equal(x.grad, torch.ones(2))
                print(x.grad)
                """,
            see=("function-under-transforms", "error-view-in-custom-function-inplace"),
            source=("torch/csrc/autograd (custom_function.cpp)",),
        ),
        Message(
            anchor="jvp-returns",
            title="Function's jvp returned an invalid number of forward gradients "
            "(expected 2 but got 1)",
            patterns=(
                r"Function's jvp returned an invalid number of forward gradients "
                r"\(expected (?P<expected>\d+) but got (?P<got>\d+)\)",
                r"A custom Function(?:'s forward)? is returning a view (?:\(or an input "
                r"as-is\) )?but the jvp is not returning a view",
            ),
            older=(
                "A custom Function's forward is returning a view (or an input as-is) but "
                "the jvp is not returning a view.",
            ),
            why="""`jvp` gets a tangent for each *input* and returns one for each *output*,
                the other way round than `backward`; and where an output is a view of an
                input, its tangent is that view of the input's tangent.""",
            fix="""Return {expected} tangents from `jvp`, in the order of `forward`'s
                outputs (it returns {got}).""",
            unknown={"expected": "as many", "got": "another number"},
            tell=(
                "`invalid number`: count the outputs of `forward`.",
                "`not returning a view`: do to the tangent what `forward` does to x, or "
                "return a copy from `forward`.",
            ),
            broken="""
                import torch

                class SinCos(torch.autograd.Function):
                    @staticmethod
                    def forward(x):
                        return x.sin(), x.cos()

                    @staticmethod
                    def setup_context(ctx, inputs, output):
                        ctx.save_for_forward(*output)

                    @staticmethod
                    def jvp(ctx, tangent):
                        sin, cos = ctx.saved_tensors
                        return cos * tangent

                x = torch.tensor([0.0, 1.0])
                torch.func.jvp(SinCos.apply, (x,), (torch.ones(2),))
                """,
            fixed="""
                import torch

                class SinCos(torch.autograd.Function):
                    @staticmethod
                    def forward(x):
                        return x.sin(), x.cos()

                    @staticmethod
                    def setup_context(ctx, inputs, output):
                        ctx.save_for_forward(*output)

                    @staticmethod
                    def jvp(ctx, tangent):
                        sin, cos = ctx.saved_tensors
                        return cos * tangent, -sin * tangent

                x = torch.tensor([0.0, 1.0])
                _, product = torch.func.jvp(SinCos.apply, (x,), (torch.ones(2),))
                assert torch.equal(product[0], x.cos())
                assert torch.equal(product[1], -x.sin())
                print(product[0])
                """,
            see=("what-is-a-jvp", "function-under-transforms"),
            source=("torch/csrc/autograd (custom_function.cpp)",),
        ),
        Message(
            anchor="no-autograd-kernel",
            title="an autograd kernel was not registered to the Autograd key(s) but we "
            "are trying to backprop through it",
            kinds=("UserWarning",),
            patterns=(
                r"(?:(?P<operation>[\w:.]+): )?an autograd kernel was not registered to "
                r"the Autograd key\(s\) but we are trying to backprop through it",
            ),
            older=(
                "c10d::allreduce_: an autograd kernel was not registered to the Autograd "
                "key(s) but we are trying to backprop through it. This may lead to "
                "silently incorrect behavior.",
            ),
            why="""The operation has no derivative rule that autograd knows of. Gradients
                pass it by as if it were not there, or stop at it: the numbers are often
                wrong.""",
            fix="""{operation} needs a rule: for `c10d::…` call what stands for it in
                `torch.distributed._functional_collectives` (in earlier releases
                `torch.distributed.nn.functional`), whose backward communicates, too; for an
                operation of your own `torch.library.register_autograd`. If no gradient
                is wanted, pass it `t.detach()`.""",
            unknown={"operation": "The operation"},
            tell=(
                "`c10d::allreduce_`, `c10d::broadcast_`, `c10d::allgather_`: "
                "communication inside the differentiated part; the gradient does not "
                "cross to the other processes.",
                "Another name: an extension registered its kernels for CPU or CUDA only.",
            ),
            broken="""
                import torch
                import torch.distributed as dist

                store = dist.HashStore()
                dist.init_process_group("gloo", store=store, rank=0, world_size=1)
                try:
                    x = torch.tensor([1.0, 2.0], requires_grad=True)
                    y = x**2
                    dist.all_reduce(y)
                    y.sum().backward()
                finally:
                    dist.destroy_process_group()
                """,
            fixed="""
                import torch
                import torch.distributed as dist
                from torch.distributed._functional_collectives import all_reduce

                store = dist.HashStore()
                dist.init_process_group("gloo", store=store, rank=0, world_size=1)
                try:
                    x = torch.tensor([1.0, 2.0], requires_grad=True)
                    y = all_reduce(x**2, "sum", dist.group.WORLD)
                    y.sum().backward()
                finally:
                    dist.destroy_process_group()
                assert torch.equal(x.grad, 2 * x)
                print(x.grad)
                """,
            see=("across-processes", "error-register-autograd"),
            source=(
                "lucidrains/vector-quantize-pytorch#158",
                "haotian-liu/LLaVA#1893",
            ),
        ),
        Message(
            anchor="register-autograd",
            title="Trying to backward through pages::square.default but no autograd "
            "formula was registered",
            patterns=(
                r"Trying to backward through (?P<operation>[\w:.]+) but no autograd "
                r"formula was registered",
            ),
            why="""An operation made with `torch.library.custom_op` is opaque: autograd does
                not look into it, and it has no rule yet.""",
            fix="""Add the rule with `{operation}`'s `register_autograd(backward,
                setup_context=…)`: the same two functions as in a
                `torch.autograd.Function`.""",
            unknown={"operation": "the operation"},
            broken="""
                import torch

                @torch.library.custom_op("pages::square", mutates_args=())
                def square(x: torch.Tensor) -> torch.Tensor:
                    return x**2

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                square(x).sum().backward()
                """,
            fixed="""
                import torch

                @torch.library.custom_op("pages::square_with_rule", mutates_args=())
                def square(x: torch.Tensor) -> torch.Tensor:
                    return x**2

                def setup_context(ctx, inputs, output):
                    ctx.save_for_backward(*inputs)

                def backward(ctx, v):
                    return 2 * ctx.saved_tensors[0] * v

                square.register_autograd(backward, setup_context=setup_context)
                x = torch.tensor([1.0, 2.0], requires_grad=True)
                square(x).sum().backward()
                assert torch.equal(x.grad, 2 * x)
                print(x.grad)
                """,
            see=("custom-op", "deriving-vjps"),
            source=("torch/_library (autograd.py)",),
        ),
        Message(
            anchor="view-of-v",
            title="view size is not compatible with input tensor's size and stride (at "
            "least one dimension spans across two contiguous subspaces). Use .reshape(...) "
            "instead.",
            patterns=(r"view size is not compatible with input tensor's size and stride",),
            only_from="backward",
            why="""`view` cannot copy, and this tensor's numbers do not lie in the order
                that the new shape needs. In `backward` that is v: it comes as the next
                operation made it, transposed or expanded, although your output was
                contiguous.""",
            fix="""Use `v.reshape(...)`, which copies where it must, or `v.contiguous()` for
                a kernel of your own.""",
            tell=(
                "The traceback ends in a `backward` of yours: as above. It depends on what "
                "follows your Function, so a test with `sum()` passes.",
                "It ends in your forward code, after `transpose`, `permute` or a slice: "
                "`reshape` there.",
                "It ends in `loss.backward()` with no line of yours below: a rule of "
                "torch on that device. Make the input `contiguous()`, and update torch.",
            ),
            broken="""
                import torch

                class Half(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        return x / 2

                    @staticmethod
                    def backward(ctx, v):
                        return (v.view(-1) / 2).view(v.shape)

                x = torch.ones(2, 3, requires_grad=True)
                (Half.apply(x).T * torch.ones(3, 2)).sum().backward()
                """,
            fixed="""
                import torch

                class Half(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        return x / 2

                    @staticmethod
                    def backward(ctx, v):
                        return (v.reshape(-1) / 2).reshape(v.shape)

                x = torch.ones(2, 3, requires_grad=True)
                (Half.apply(x).T * torch.ones(3, 2)).sum().backward()
                assert torch.equal(x.grad, torch.full((2, 3), 0.5))
                print(x.grad)
                """,
            see=("what-backward-is-handed", "deriving-vjps", "what-losses-send"),
            source=("reproduced here; no thread found",),
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
            anchor="autograd-of-a-mutating-operator",
            title="Cannot register autograd formula for non-functional operator",
            patterns=(
                r"Cannot register autograd formula for (?:non-functional operator|operator "
                r"tagged with torch\.Tag\.out)",
            ),
            why="""An operator that writes to its argument (`mutates_args`) overwrites what
                its derivative is taken at, so `torch.library` accepts no rule for it.""",
            fix="""Make a functional operator, which returns a new tensor, and register the
                rule for that; call the writing one under `torch.no_grad()` only.""",
            broken="""
                import torch

                @torch.library.custom_op("pages::square_", mutates_args=("x",))
                def square_(x: torch.Tensor) -> None:
                    x.mul_(x)

                square_.register_autograd(lambda ctx, v: None)
                """,
            fixed="""
                import torch

                @torch.library.custom_op("pages::squared", mutates_args=())
                def squared(x: torch.Tensor) -> torch.Tensor:
                    return x * x

                def setup_context(ctx, inputs, output):
                    ctx.save_for_backward(*inputs)

                squared.register_autograd(
                    lambda ctx, v: 2 * ctx.saved_tensors[0] * v,
                    setup_context=setup_context,
                )
                x = torch.tensor([1.0, 2.0], requires_grad=True)
                squared(x).sum().backward()
                assert torch.equal(x.grad, 2 * x)
                print(x.grad)
                """,
            see=("custom-function", "error-register-autograd"),
            source=("torch/library.py",),
        ),
        Message(
            anchor="backward-structure",
            title="Expected the return from backward to be of the same structure as the "
            "inputs",
            patterns=(
                r"Expected the return from backward to be of the same structure as the "
                r"inputs",
            ),
            why="""The operator takes a list of tensors. A rule registered with
                `register_autograd` returns one gradient for each argument, and for the
                list that is a list of the same length.""",
            fix="""Return the gradients in a list where the argument was a list, and None
                for each argument that needs none.""",
            broken="""
                import torch

                @torch.library.custom_op("pages::total", mutates_args=())
                def total(xs: list[torch.Tensor]) -> torch.Tensor:
                    return torch.stack(xs).sum(0)

                total.register_autograd(lambda ctx, v: v)
                x = torch.tensor([1.0, 2.0], requires_grad=True)
                total([x, x]).sum().backward()
                """,
            fixed="""
                import torch

                @torch.library.custom_op("pages::total_of_two", mutates_args=())
                def total(xs: list[torch.Tensor]) -> torch.Tensor:
                    return torch.stack(xs).sum(0)

                total.register_autograd(lambda ctx, v: [v, v])
                x = torch.tensor([1.0, 2.0], requires_grad=True)
                total([x, x]).sum().backward()
                assert x.grad.tolist() == [2.0, 2.0]
                print(x.grad)
                """,
            see=("custom-function", "error-incorrect-number-of-gradients"),
            source=("torch/_library (autograd.py)",),
        ),
    ),
)
