"""What is differentiated: f at its inputs, or in its place a tensor y, already computed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from pullback._buffers import NOTHING
from pullback._graph import (
    Reach,
    check_twice,
    cut_off,
    keep_grads,
    reach,
    refusal_on_the_way,
)
from pullback._inputs import (
    Untouched,
    call,
    check_inputs,
    check_output,
    check_single,
    flatten,
    jvp,
    leaf_of,
    unflatten,
)
from pullback._torch import pytree

T = TypeVar("T")
logger = logging.getLogger("pullback")


def function_or_tensor(
    f: Callable[..., Any] | Tensor, inputs: Sequence[Any], argnums: int | tuple[int, ...]
) -> CalledFunction:
    """Return f, or the tensor in its place, with what it is differentiated by.

    Raises:
        TypeError, ValueError, RuntimeError: as :func:`pullback._inputs.check_inputs`.
    """
    if isinstance(f, Tensor):
        return ComputedTensor(f, inputs, argnums)
    return CalledFunction(f, inputs, argnums)


def without_aux(f: Any) -> tuple[Callable[..., Any], list[Any]]:
    """Return f without what it returns beside its output, and what was beside that.

    Kept are that of the first call and that of the last.

    Raises:
        TypeError: f is no function. The function that comes back raises it where f returns
            no tuple of two.
    """
    if not callable(f) or isinstance(f, Tensor):
        raise TypeError(
            f"f is {type(f).__name__} and has_aux is True; a function is needed"
        )
    kept: list[Any] = []

    def alone(*args: Any) -> Any:
        output = f(*args)
        if not isinstance(output, tuple) or len(output) != 2:
            raise TypeError(
                f"f returned {type(output).__name__} and has_aux is True; a tuple of two, "
                "the output and what goes with it, is needed"
            )
        del kept[1:]
        kept.append(output[1])
        return output[0]

    return alone, kept


def beside(f: Any, ask: Callable[[Callable[..., Any]], T]) -> tuple[T, Any]:
    """Return what ``ask`` says of f alone, and what f returned beside it, off its graph."""
    alone, kept = without_aux(f)
    return ask(alone), detached(kept[0])


def flat_form(f: Any, inputs: tuple[Any, ...], index: int) -> tuple[Any, tuple[Any, ...]]:
    """Return f and its inputs with that one as a flat tensor, if it is not one tensor.

    Raises:
        TypeError: the tensors in it have not one dtype.
    """
    if isinstance(f, Tensor) or isinstance(inputs[index], Tensor):
        return f, inputs
    leaves, structure = pytree.tree_flatten(inputs[index])
    if len({t.dtype for t in leaves}) > 1:
        names = ", ".join(sorted({str(t.dtype) for t in leaves}))
        raise TypeError(f"inputs[{index}] has tensors of {names}; one dtype is needed")

    def of_flat(*args: Any) -> Any:
        parts = args[index].split([t.numel() for t in leaves])
        shaped = [p.reshape(t.shape) for p, t in zip(parts, leaves, strict=True)]
        return f(*args[:index], structure.unflatten(shaped), *args[index + 1 :])

    flat = torch.cat([t.reshape(-1) for t in leaves])
    return of_flat, (*inputs[:index], flat, *inputs[index + 1 :])


def detached(aux: Any) -> Any:
    """Return aux with its tensors off their graphs."""
    return pytree.tree_map_only(Tensor, Tensor.detach, aux)


def without_fused_attention(compute: Callable[[], T]) -> T:
    """Return ``compute()``, with attention in plain operations where that is needed.

    The fused kernels of ``scaled_dot_product_attention`` have a first derivative in reverse
    mode and no other; what they are made of has all. That they are left, the logger
    ``"pullback"`` says at level INFO.
    """
    try:
        return compute()
    except RuntimeError as error:
        if not stops_at_fused_attention(error):
            raise
    with plain_attention():
        return compute()


def stops_at_fused_attention(error: RuntimeError) -> bool:
    """Tell whether a fused kernel of attention had no derivative."""
    reason = str(error).partition("\n")[0]
    if "scaled_dot_product" not in reason:
        return False
    logger.info("attention runs in plain operations, for fused it raises: %s", reason)
    return True


def plain_attention() -> AbstractContextManager[None]:
    """Have ``scaled_dot_product_attention`` run in plain operations."""
    return sdpa_kernel(SDPBackend.MATH)


class Recorded(NamedTuple):
    """A graph to take products with.

    Attributes:
        xs: Where it ends: one for each of ``CalledFunction.xs``.
        ys: Where it starts: the tensors in the output.
        structure: What they stand in.
        used: Which of the xs the ys reach.
        alone: Whether products that run together would be wrong.
        again: Whether the caller may differentiate the products.
        refusal: Why the products cannot be differentiated, if they might be.
    """

    xs: list[Tensor]
    ys: list[Tensor]
    structure: pytree.TreeSpec
    used: list[bool]
    alone: bool
    again: bool
    refusal: str

    @property
    def output(self) -> Any:
        """What f returned."""
        return unflatten(self.ys, self.structure)

    def cut(self, products: Sequence[Tensor]) -> list[Tensor]:
        """Return the products so that to differentiate them raises, if it must."""
        if not self.refusal:
            return list(products)
        return [cut_off(p, self.refusal) for p in products]


def _recorded(
    xs: list[Tensor],
    ys: list[Tensor],
    structure: pytree.TreeSpec,
    met: Reach,
    again: bool,
) -> Recorded:
    refusal = refusal_on_the_way(ys, xs) if again and met.custom else ""
    return Recorded(xs, ys, structure, met.used, met.alone, again, refusal)


class CalledFunction:
    """A function f and what it is called with.

    Attributes:
        f: The function.
        inputs: All that it is called with.
        xs: The tensors in those inputs that ``argnums`` names.
        computed: Whether there is no function, but the tensor that it returned.
        output_name: What errors call the output.
    """

    computed = False
    output_name = "the output of f"

    def __init__(
        self, f: Any, inputs: Sequence[Any], argnums: int | tuple[int, ...]
    ) -> None:
        self.indices = self._check_inputs(f, inputs, argnums)
        self.f, self.inputs = f, inputs
        self._one = isinstance(argnums, int)
        chosen = tuple([inputs[i] for i in self.indices])
        self.xs, self._structure = flatten(chosen[0] if self._one else chosen)

    def __call__(self, *xs: Tensor, copied: bool = False) -> Any:
        """Return what f returns for other xs; copied ones are taken as they are."""
        args = list(self.inputs)
        x = self.like_inputs(xs)
        for i, x_i in zip(self.indices, (x,) if self._one else x, strict=True):
            args[i] = x_i
        with Untouched() as rng:  # so that every call of f draws the same random numbers
            return call(self.f, args, xs if copied else (), rng=rng)

    def record(self, again: bool | None = None) -> Recorded:
        """Call f once and return the graph that it left.

        Args:
            again: Whether the caller may differentiate the products; None for whether
                grad mode is on.
        """
        again = torch.is_grad_enabled() if again is None else again
        # a view leads back to the caller's x; a detached x leads nowhere
        outer = again and any(x.requires_grad for x in self.xs)
        xs = [x.view_as(x) if outer and x.requires_grad else leaf_of(x) for x in self.xs]
        with NOTHING if torch.is_grad_enabled() else torch.enable_grad():
            xs = [x.clone() for x in xs]  # for f, and what is differentiated
            ys, structure = flatten(self(*xs, copied=True))
        met = reach(ys, xs)
        met.check_whole()
        again = outer or (again and met.captured)
        return _recorded(xs, ys, structure, met, again)

    def push(self, xs: Sequence[Tensor], ts: Sequence[Tensor]) -> tuple[Any, Any]:
        """Return the output at xs, and J t."""
        output, tangents = jvp(self, xs, ts)
        return output, tangents

    def value(self, recorded: Recorded) -> Any:
        """Return the output, without a graph that the caller would not have."""
        if recorded.again:
            return recorded.output
        return unflatten([y.detach() for y in recorded.ys], recorded.structure)

    def like_inputs(self, leaves: Sequence[Any]) -> Any:
        """Return one thing for each of the xs in the structure of the inputs."""
        return unflatten(leaves, self._structure)

    def check_used(self, used: Sequence[bool]) -> None:
        """Raise RuntimeError if no output depends on some input."""
        if all(used):
            return
        left = iter(used)
        for i in self.indices:
            of_input = [next(left) for _ in pytree.tree_leaves(self.inputs[i])]
            if not any(of_input):
                raise RuntimeError(
                    f"the output does not depend on inputs[{i}]; an input that it "
                    "depends on is needed, or allow_unused=True to get zeros"
                )

    def keep_grads(self) -> AbstractContextManager[None]:
        """Give back every ``.grad`` that products would write; a graph of f's has none."""
        return NOTHING

    def _check_inputs(
        self, f: Any, inputs: Sequence[Any], argnums: int | tuple[int, ...]
    ) -> tuple[int, ...]:
        return check_inputs(f, inputs, argnums)


class ComputedTensor(CalledFunction):
    """A tensor y in place of f; it has one graph, the caller's, and no tangents."""

    computed = True
    output_name = "y"

    def __call__(self, *xs: Tensor, copied: bool = False) -> Any:
        """Return y, whatever the xs are."""
        return self.f

    def record(self, again: bool | None = None) -> Recorded:
        """Return the graph of y."""
        if not all(x.requires_grad for x in self.xs):
            raise RuntimeError(
                "x does not require grad, so the graph of y does not contain it; an x "
                "that y was computed from after x.requires_grad_() is needed"
            )
        again = torch.is_grad_enabled() if again is None else again
        ys, structure = flatten(self.f)
        met = reach(ys, self.xs)
        met.check_whole()
        return _recorded(self.xs, ys, structure, met, again)

    def push(self, xs: Sequence[Tensor], ts: Sequence[Tensor]) -> tuple[Any, Any]:
        """Raise ValueError, for there is no function to push tangents through."""
        raise ValueError(
            "Jacobian-vector products compute y again, with tangents, and y is a tensor; "
            "the function is needed in its place, or mode='reverse' (of "
            "pullback.sparsity, where a plan takes them)"
        )

    def value(self, recorded: Recorded) -> Any:
        """Return y itself."""
        return self.f

    def keep_grads(self) -> AbstractContextManager[None]:
        """Give back every ``.grad`` on the way, which products would write."""
        return keep_grads(self.f)

    def _check_inputs(
        self, f: Any, inputs: Sequence[Any], argnums: int | tuple[int, ...]
    ) -> tuple[int, ...]:
        indices = check_inputs(lambda: f, inputs, argnums)
        check_output(f)
        return indices


def gradient(f: Callable[..., Any], argnum: int) -> Callable[..., Any]:
    """Return the gradient of f, which must return one number; grad mode must be on.

    Not that of :func:`torch.func.grad`, which refuses a ``torch.autograd.Function`` whose
    forward takes ``ctx``.
    """

    def slope(*inputs: Any) -> Tensor:
        y: Tensor = call(f, inputs, (inputs[argnum],))
        check_single("the output of f", y)
        if y.numel() != 1:
            raise ValueError(
                f"the output of f has shape {tuple(y.shape)}; one number is needed for "
                "a plan (pullback.hessian gives one Hessian for each output)"
            )
        x: Tensor = inputs[argnum]
        if not y.requires_grad:
            return torch.zeros_like(x)
        check_twice([y], [x])
        (found,) = torch.autograd.grad(
            y.reshape(()), x, create_graph=True, materialize_grads=True
        )
        return found

    return slope
