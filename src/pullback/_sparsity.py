"""Which outputs can depend on which inputs, without forming the Jacobian."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from pullback._function import CalledFunction, flat_form, gradient, without_aux
from pullback._inputs import (
    Mode,
    Untouched,
    call,
    check_argnum,
    check_inputs,
    check_no_transform,
    check_single,
)
from pullback._products import vjp
from pullback._readers import SeeReaders
from pullback._sparse.plan import (
    Sparsity,
    check_wanted,
    dense_plan,
    input_shapes,
    plan_of_sets,
)
from pullback._torch import unwatched


def sparsity(
    f: Callable[..., Any],
    *inputs: Any,
    argnums: int = 0,
    mode: Mode = "auto",
    hessian: bool = False,
    has_aux: bool = False,
) -> Sparsity:
    r"""Find which outputs of f can depend on which numbers of an input.

    f is run once, and every operation that it runs passes on the index sets of its
    elements, so that the pattern holds for **all** inputs of these shapes: an entry
    that is zero here by accident is in it. The cost grows with the number of
    non-zeros, of the Jacobian and of those of the intermediate results. The rows or the
    columns are then coloured, whichever needs fewer colours, or some of both where a few
    rows and columns are much longer than the rest. The result is a plan:
    :meth:`Sparsity.jacobian` takes one product for each colour.

    Of a J with more than 2**24 entries, and 4096 numbers in x at the least, f is run once
    more, and eight rows drawn by lot are looked at first, but none of zeros alone. If none
    has a zero (that is one at -x, too, where f is then run), J is taken to be dense, which
    ``assumed_dense`` says, and the pattern is made when it is asked for.

    What f captures is a constant, and zeros in it count (a banded matrix is banded, and to
    solve with a triangular one gives a triangle), as does -inf before a softmax (a causal
    mask is causal), unless it requires grad. (A mask of -1e9 does not: beside scores of
    -2e9, which some x may give, what it masks counts.)
    What f is given can change, also the inputs that ``argnums`` leaves out.

    An operation without a rule makes all its outputs depend on all its inputs. The
    pattern is larger then, not wrong, and ``assumed_dense`` names the operation, as it
    does an index that x (or another input) decides, which may be any. So it
    is where a ``torch.autograd.Function`` computes out of sight, as in NumPy; one that
    torch can see is followed through its forward, and ``verify=True`` of
    :meth:`Sparsity.jacobian` tells if its backward depends on more. Where f looks at values
    (``if x.sum() > 0``, ``.item()``, ``.tolist()``), the pattern holds for the way that
    these inputs take, and a warning says so (but for ``.tolist()``, ``.numpy()`` and
    DLPack under ``torch.no_grad()``).

    The method is that of Griewank and Walther, *Evaluating Derivatives*, 2nd ed., 2008,
    section 7.1 (index domains); the colouring is that of Coleman and Moré, *Estimation
    of sparse Jacobian matrices and graph coloring problems*, SIAM J. Numer. Anal. 20,
    1983; both modes in one plan that of Coleman and Verma, *The efficient computation of
    sparse Jacobian matrices using automatic differentiation*, SIAM J. Sci. Comput. 19,
    1998. All are told in Gebremedhin, Manne and Pothen, *What color is your Jacobian?*,
    SIAM Review 47, 2005.

    With ``hessian=True`` f returns one number, and the pattern is that of its Hessian, a
    plan for :meth:`Sparsity.hessian`. Detection then follows f and its backward pass (what
    that computes out of sight of torch, as a ``torch.autograd.Function`` may in NumPy, is a
    constant, as to :func:`hessian`; :func:`hvp` finds it), and the colouring makes use of
    symmetry: of an entry and its mirror image one is enough. It is the star colouring of
    Coleman and Moré, *Estimation of sparse Hessian matrices
    and graph coloring problems*, Math. Programming 28, 1984, by the greedy method of
    Gebremedhin, Tarafdar, Manne and Pothen, *New acyclic and star coloring algorithms
    with application to computing Hessians*, SIAM J. Sci. Comput. 29, 2007.

    Args:
        f: Function of the inputs that returns one tensor.
        *inputs: What f is called with. The one named by ``argnums`` is a real floating
            point tensor, of any shape, on any device, also on ``"meta"``; or a tuple, list
            or dict of them, whose numbers stand one tensor after the other.
        argnums: The input to differentiate with respect to.
        mode: ``"reverse"`` for a plan of vector-Jacobian products alone, which every
            differentiable f supports, also one that is already computed;
            ``"forward"`` for Jacobian-vector products alone; ``"auto"`` for the fewest,
            but for reverse where f computes under ``torch.no_grad()``, which tangents
            pass, or in a ``torch.autograd.Function``, or where a trial product raises,
            because an operation has no rule for tangents.
        hessian: Whether the second derivatives of f are wanted, not the first.
        has_aux: f returns ``(y, aux)``, and the pattern is that of y.

    Returns:
        A :class:`Sparsity`, with ``m = f(x).numel()`` rows (``x.numel()`` for a Hessian)
        and ``n = x.numel()`` columns, both in the order of ``flatten()``.

    Raises:
        TypeError: f, the input or the output is of the wrong kind or dtype, or f
            computes a tensor of sparse layout from x (a constant one may be sparse).
        ValueError: ``argnums`` is out of range, ``mode`` is none of the three or given
            with ``hessian=True``, or ``hessian=True`` and f returns more than one number.
        RuntimeError: f changes an input in place, or almost everything depends on
            almost everything, so that the index sets do not fit in memory.
        ImportError: SciPy is not installed.

    Examples:
        >>> import torch, pullback
        >>> plan = pullback.sparsity(lambda x: x[1:] * x[:-1], torch.ones(1000))
        >>> plan
        Sparsity of the Jacobian
        shape     999 outputs, 1000 inputs
        entries   1998 of 999000, 0.002 of them
        colours   2, of the rows
        products  2 vector-Jacobian products, for 999 if dense
        >>> plan.jacobian(lambda x: x[1:] * x[:-1], torch.arange(1000.0))[7, 8]
        tensor(7.)
    """
    from pullback._sparse.detection import Tracker, hidden_branches  # which need SciPy

    if has_aux:
        f, _ = without_aux(f)
    check_argnum(argnums)
    check_wanted(mode, hessian)
    check_no_transform()
    example = "pullback.sparsity(f, x), for the pattern is that of these shapes"
    (index,) = check_inputs(f, inputs, argnums, example)
    f, inputs = flat_form(f, inputs, index)
    check_single(f"inputs[{index}]", inputs[index])
    if hessian:
        f = gradient(f, index)
    else:
        output_shape = _shape_if_dense(f, inputs, index)
        if output_shape is not None:
            return _plan_if_dense(f, inputs, index, output_shape, mode)
    x = inputs[index].detach().clone(memory_format=torch.contiguous_format)
    with Untouched(), torch.enable_grad():
        args = list(inputs)
        args[index] = x.requires_grad_().view_as(x)  # no leaf: it has a place in the graph
        tracker = Tracker(args[index], args)
        readers = SeeReaders(tracker.read_past_operations, hidden_branches)
        with tracker, readers, _named_control_flow(), _without_onednn():
            y = call(f, args)
    check_single("the output of f", y)
    shapes = input_shapes(inputs)
    sets = tracker.pattern(y)
    if hessian:  # H[i, j] is H[j, i], so that either being zero is enough
        sets = sets.multiply(sets.T).tocsr()
        sets.sort_indices()
    if mode == "auto" and tracker.unrecorded:
        mode = "reverse"
    wanted = "symmetric" if hessian else mode
    plan = plan_of_sets(sets, tracker.dense, index, shapes, tuple(y.shape), wanted)
    if wanted == "auto" and plan.mode in ("forward", "both"):
        try:
            _push_once(f, inputs, index)
        except RuntimeError:  # an operation has no rule for tangents
            plan = plan_of_sets(
                sets, tracker.dense, index, shapes, tuple(y.shape), "reverse"
            )
    return plan


#: How large J must be for a look at some of its rows before all operations are followed.
LARGE = 2**24
#: And how many numbers x must have.
WIDE = 2**12
#: How many rows are looked at, other than those of zeros alone.
ROWS = 8
#: How many are drawn, for an output may be dead here, as one behind a ReLU.
DRAWN = 64
#: What f may raise where it is given other numbers.
REFUSED = (RuntimeError, ValueError, IndexError, AssertionError)


def _shape_if_dense(
    f: Callable[..., Any], inputs: Sequence[Any], index: int
) -> tuple[int, ...] | None:
    """Return the shape of y if J is large, and no row drawn by lot has a zero.

    What is zero at x may be so since a ReLU is flat here. Therefore a row counts as full,
    too, if each of its zeros is none at -x, and a row of zeros alone tells nothing.
    """
    x = inputs[index]
    if x.is_meta or x.numel() < WIDE:
        return None
    try:
        y, row_here = _rows_at(f, inputs, index, x)
        if not isinstance(y, torch.Tensor) or y.numel() * x.numel() < LARGE:
            return None
        row_there, alive = None, 0
        source = torch.Generator("cpu").manual_seed(0)  # any seed but the caller's
        lots = torch.randint(y.numel(), (DRAWN,), generator=source, device="cpu")
        for i in lots.tolist():
            row = row_here(i)
            if not bool(row.any()):
                continue
            if not bool(row.all()):
                with unwatched():
                    if row_there is None:
                        row_there = _rows_at(f, inputs, index, -x.detach())[1]
                    if not bool((row | row_there(i)).all()):
                        return None
            alive += 1
            if alive == ROWS:
                return tuple(y.shape)
    except REFUSED:  # what it was, following each operation will say
        return None
    return None


def _rows_at(
    f: Callable[..., Any], inputs: Sequence[Any], index: int, x: torch.Tensor
) -> tuple[Any, Callable[[int], torch.Tensor]]:
    """Return y at x, and what tells where a row of J is a number other than zero."""
    args = [*inputs[:index], x, *inputs[index + 1 :]]
    with torch.no_grad():
        graph = CalledFunction(f, args, index).record()
    y, pull = graph.output, vjp(graph.ys, graph.xs, create_graph=False)

    def row(i: int) -> torch.Tensor:
        seed = torch.zeros_like(y)
        seed.view(-1)[i] = 1
        found = pull(seed)[0]
        return (found != 0) & found.isfinite()

    return y, row


def _plan_if_dense(
    f: Callable[..., Any],
    inputs: Sequence[Any],
    index: int,
    output_shape: tuple[int, ...],
    mode: Mode,
) -> Sparsity:
    shape = torch.Size(output_shape).numel(), inputs[index].numel()
    shapes = input_shapes(inputs)
    plan = dense_plan(index, shapes, shape, output_shape, mode)
    if mode == "auto" and plan.mode == "forward":
        try:
            _push_once(f, inputs, index)
        except RuntimeError:
            return dense_plan(index, shapes, shape, output_shape, "reverse")
    return plan


@contextmanager
def _without_onednn() -> Iterator[None]:
    """Have torch run an LSTM step by step, not as one operation of oneDNN."""
    flags = torch.backends.mkldnn.flags(enabled=False)
    with _quiet():
        flags.__enter__()
    try:
        yield
    finally:
        with _quiet():
            flags.__exit__(None, None, None)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep to itself what the flags say of Intel's GPUs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _named_control_flow() -> Iterator[None]:
    """Say of what is like ``torch.cond`` that it cannot be followed."""
    from pullback._sparse.detection import hidden_branches

    try:
        yield
    except NotImplementedError as error:
        operator = re.search(r"HigherOrderOperator (\w+)", str(error))
        if operator is None:
            raise
        raise hidden_branches(operator[1], error) from error


def _push_once(f: Callable[..., Any], inputs: Sequence[Any], argnum: int) -> None:
    """Take one Jacobian-vector product, which may raise."""
    function = CalledFunction(f, inputs, argnum)
    (x,) = (x.detach().contiguous() for x in function.xs)
    function.push((x,), (torch.ones_like(x),))
