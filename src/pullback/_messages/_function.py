"""Messages about ``torch.autograd.Function``."""

from pullback._messages._entry import NODE, Message, Theme
from pullback._messages._function_methods import FUNCTION_METHODS

FUNCTION = Theme(
    "function",
    (
        Message(
            anchor="invalid-gradient",
            title="Function FBackward returned an invalid gradient at index 0 - got [2] "
            "but expected shape compatible with [3]",
            patterns=(
                rf"Function (?P<function>{NODE}) returned an invalid gradient at index "
                r"(?P<index>\d+) - got (?P<got>\[[\d, ]*\]) but expected shape compatible "
                r"with (?P<expected>\[[\d, ]*\])",
                rf"Function (?P<function>{NODE}) returned an invalid gradient at index "
                r"(?P<index>\d+) - expected (?:shape|device|type) "
                r"(?P<expected>\[[\d, ]*\]|[\w:.]+) but got (?P<got>\[[\d, ]*\]|[\w:.]+)",
                rf"Function (?P<function>{NODE}) returned an invalid gradient at index "
                r"(?P<index>\d+) - expected type TensorOptions\(dtype=(?P<expected>[\w: "
                r"]+),.{0,120}? but got TensorOptions\(dtype=(?P<got>[\w: ]+),",
            ),
            older=(
                "Function MulBackward0 returned an invalid gradient at index 0 - expected "
                "device cuda:0 but got cpu",
                "Function CatBackward returned an invalid gradient at index 1 - expected "
                "type torch.cuda.FloatTensor but got torch.FloatTensor",
                "Function FBackward returned an invalid gradient at index 0 - expected "
                "shape [3] but got [2]",
                "Function AddmmBackward0 returned an invalid gradient at index 1 - "
                "expected type TensorOptions(dtype=c10::Half, device=cuda:0) but got "
                "TensorOptions(dtype=float, device=cuda:0)",
            ),
            why="""The backward of an operation returned, for one of its inputs, a gradient
                that does not fit that input: another shape, dtype or device. A gradient
                of a shape that can be summed down to the input's passes silently.""",
            fix="""Number {index} (counted from 0) of what {function} returns is {got}; in
                the forward pass the input with that number was {expected}: return a
                gradient like that. If the Function is right, the input was wrong: check
                what you passed to it.""",
            tell=(
                "The name is your Function: print `g.shape` and the input's in `backward`. "
                "The gradients come in the order of the arguments of `forward`.",
                "The name is one of torch's, such as `AddmmBackward0`: a parameter was "
                "given another shape through its data, as in pruning or growing a layer, "
                "and its old place in the graph is remembered; make a new `nn.Parameter`.",
                "The name is a compiled extension's: an input has a shape that it was not "
                "built for (three scales for a two-dimensional kernel).",
                "`expected device cuda:0 but got cpu`: tensors from two devices met; "
                "move both to one.",
                "`expected device meta`: `device_map` put a layer elsewhere than on the "
                "GPU, and its weight is empty between calls; it cannot be trained so.",
                "`expected type`: half and float met; `autocast` converts both.",
            ),
            broken="""
                import torch

                class Head(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        return x[:2] * 1

                    @staticmethod
                    def backward(ctx, v):
                        return v

                x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
                Head.apply(x).sum().backward()
                """,
            fixed="""
                import torch

                class Head(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        return x[:2] * 1

                    @staticmethod
                    def backward(ctx, v):
                        return torch.cat([v, v.new_zeros(1)])

                x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
                Head.apply(x).sum().backward()
                assert torch.equal(x.grad, torch.tensor([1.0, 1.0, 0.0]))
                print(x.grad)
                """,
            see=("custom-function", "shape-rule", "error-broadcast-gradient-summed"),
            source=("hbb1/2d-gaussian-splatting#43",),
        ),
        Message(
            anchor="incorrect-number-of-gradients",
            title="function FBackward returned an incorrect number of gradients "
            "(expected 1, got 2)",
            patterns=(
                rf"function (?P<function>{NODE}) returned an incorrect number of gradients "
                r"\(expected (?P<expected>\d+), got (?P<got>\d+)\)",
                rf"Function (?P<function>{NODE}) returned an invalid number of "
                r"gradients - expected (?P<expected>\d+), but got (?P<got>\d+)",
            ),
            older=(
                "Function FBackward returned an invalid number of gradients - "
                "expected 3, but got 2",
            ),
            why="""`backward` returns one gradient for each argument of `forward` (after
                `ctx`), in the same order, also for those that are no tensors.""",
            fix="""{function} returns {got} and must return {expected}: a gradient for each
                argument of `forward`, `None` where none is needed, and nothing more.""",
            tell=(
                "Fewer than expected: a `None` is missing for a number, a flag or a shape; "
                "with `forward(ctx, x, *rest)` each of `rest` counts. A list in place of "
                "the tuple counts as one.",
                "More than expected: one for `ctx` or `self`, or for an argument that "
                "`forward` no longer has. Only further `None`s at the end are let through.",
            ),
            broken="""
                import torch

                class Scale(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x, factor):
                        ctx.factor = factor
                        return x * factor

                    @staticmethod
                    def backward(ctx, v):
                        return v * ctx.factor

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                Scale.apply(x, 3.0).sum().backward()
                """,
            fixed="""
                import torch

                class Scale(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x, factor):
                        ctx.factor = factor
                        return x * factor

                    @staticmethod
                    def backward(ctx, v):
                        return v * ctx.factor, None

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                Scale.apply(x, 3.0).sum().backward()
                assert torch.equal(x.grad, torch.tensor([3.0, 3.0]))
                print(x.grad)
                """,
            see=("custom-function",),
            source=("torch/csrc/autograd (python_function.cpp)",),
        ),
        Message(
            anchor="save-for-backward",
            title="save_for_backward can only save variables, but argument 1 is of type "
            "int",
            kinds=("TypeError", "AssertionError", "RuntimeError"),
            patterns=(
                r"save_for_backward can only save variables, but argument (?P<index>\d+) "
                r"is of type (?P<type>[\w.]+)",
                r"save_for_forward expects all arguments to be tensors",
            ),
            older=(
                "save_for_forward expects all arguments to be tensors; you "
                "should save non-tensors as attributes on ctx.",
            ),
            why="""`ctx.save_for_backward` keeps tensors, and watches that they are not
                changed. Numbers, shapes and lists have no version to watch.""",
            fix="""Argument {index} is of type {type}: keep it as an attribute, `ctx.n = n`;
                a list of tensors is passed as `*tensors`. Save every tensor in one call: a
                second one replaces the first.""",
            unknown={"index": "number … (counted from 0)", "type": "another kind"},
            broken="""
                import torch

                class Power(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x, n):
                        ctx.save_for_backward(x, n)
                        return x**n

                    @staticmethod
                    def backward(ctx, v):
                        x, n = ctx.saved_tensors
                        return v * n * x ** (n - 1), None

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                Power.apply(x, 3)
                """,
            fixed="""
                import torch

                class Power(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x, n):
                        ctx.save_for_backward(x)
                        ctx.n = n
                        return x**n

                    @staticmethod
                    def backward(ctx, v):
                        (x,) = ctx.saved_tensors
                        return v * ctx.n * x ** (ctx.n - 1), None

                x = torch.tensor([1.0, 2.0], requires_grad=True)
                Power.apply(x, 3).sum().backward()
                assert torch.equal(x.grad, 3 * x**2)
                print(x.grad)
                """,
            see=("custom-function",),
            source=("torch/csrc/autograd (python_function.cpp)",),
        ),
        Message(
            anchor="legacy-function",
            title="Legacy autograd function with non-static forward method is deprecated",
            kinds=("RuntimeError", "DeprecationWarning"),
            patterns=(
                r"Legacy autograd function with non-static forward method is deprecated",
                r"should not be instantiated\. Methods on autograd functions are all "
                r"static",
                r"Attribute '\w+' is invalid for this instance of "
                r"_C\._FunctionBase",
            ),
            older=(
                "Legacy autograd function with non-static forward method is deprecated. "
                "Please use new-style autograd function with static forward method.",
                "Attribute 'saved_tensors' is invalid for this instance of "
                "_C._FunctionBase. Accessing this attribute directly on an "
                "instance of autograd.Function is a legacy access pattern that "
                "is no longer supported.",
            ),
            why="""Code for PyTorch before 0.2 made an instance of the Function and kept
                tensors on `self`. Since 1.5 `forward` and `backward` are static and get a
                `ctx`.""",
            fix="""Put `@staticmethod` before both, rename `self` to `ctx`, move the
                arguments of `__init__` to `forward` (each needs a `None` in what
                `backward` returns), and call `MyFunction.apply(x)` where it said
                `MyFunction()(x)`.""",
            tell=(
                "The methods are static already: `MyFunction()(x)` is what is left to "
                "change.",
            ),
            broken="""
                import torch

                class Double(torch.autograd.Function):
                    def forward(self, x):
                        return x * 2

                    def backward(self, v):
                        return v * 2

                Double()(torch.tensor([1.0], requires_grad=True))
                """,
            fixed="""
                import torch

                class Double(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        return x * 2

                    @staticmethod
                    def backward(ctx, v):
                        return v * 2

                x = torch.tensor([1.0], requires_grad=True)
                Double.apply(x).backward()
                assert x.grad == 2
                print(x.grad)
                """,
            see=("custom-function",),
            source=("longcw/RoIAlign.pytorch#41",),
        ),
        *FUNCTION_METHODS,
    ),
)
