"""Which outputs can depend on which inputs, without forming the Jacobian."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from pullback._inputs import (
    Mode,
    call,
    check_inputs,
    check_mode,
    check_no_transform,
    untouched,
)
from pullback._report import Table
from pullback._sparse import bicoloring, coloring, star
from pullback._sparse.coloring import count

if TYPE_CHECKING:
    from matplotlib.axes import Axes


#: Numbers in the seeds of one chunk: small products go together, large ones alone.
CHUNK_NUMBERS = 2**16


@dataclass(frozen=True, repr=False, eq=False)
class Sparsity:
    """What :func:`sparsity` found: a pattern, its colours, a plan for ``jacobian``.

    Attributes:
        pattern: Sparse CSR tensor of booleans and shape ``(m, n)``, for m numbers of
            the output and n of the input: can output i depend on input j?
        colors: Colour of each row (``mode="reverse"``, shape ``(m,)``), of each column
            (``mode="forward"``, shape ``(n,)``), of each row and then of each column
            (``mode="both"``, shape ``(m + n,)``, -1 for those that need none), or of
            rows and columns alike (``mode="symmetric"``, shape ``(n,)``), int64.
        n_colors: Number of colours, which is the number of products.
        n_reverse: How many of them, the first ones, are vector-Jacobian products (for a
            Hessian, of the gradient).
        mode: ``"reverse"`` for vector-Jacobian products, ``"forward"`` for
            Jacobian-vector products, ``"both"`` for some of each, ``"symmetric"`` for
            Hessian-vector products.
        assumed_dense: Names of operations without a rule, each of whose outputs was
            taken to depend on all of its inputs.
        argnum: The input that x is.
        input_shapes: Shape of every tensor among the inputs.
        output_shape: Shape of the output.
        entries: Where each entry of the pattern stands in the flattened products.
    """

    pattern: Tensor
    colors: Tensor
    n_colors: int
    n_reverse: int
    mode: Literal["reverse", "forward", "both", "symmetric"]
    assumed_dense: tuple[str, ...]
    argnum: int
    input_shapes: tuple[tuple[int, ...], ...]
    output_shape: tuple[int, ...]
    entries: Tensor
    _kept: dict[Any, Tensor] = field(default_factory=dict, init=False)  # small seeds

    def __repr__(self) -> str:
        return self._table().text()

    def _repr_html_(self) -> str:
        return self._table().html()

    def seeds(self, like: Tensor, start: int = 0, stop: int | None = None) -> Tensor:
        """Return a seed for each colour, of shape ``(n_colors, *like.shape)``.

        Each is 1 at the rows (or columns) of its colour and 0 elsewhere. :func:`jacobian`
        takes the products with them; who takes them on another way, such as compiled,
        gives them to :meth:`assemble`.

        Args:
            like: y for the first ``n_reverse`` colours, x for the others: its shape,
                dtype and device count.
            start: The first colour.
            stop: The colour after the last; None, or more than there are, for all of
                one kind.

        Raises:
            ValueError: ``like`` is not of y's size, or of x's.

        Examples:
            >>> import torch, pullback
            >>> def f(x):
            ...     return x[1:] * x[:-1]
            >>> x = torch.arange(5.0)
            >>> plan = pullback.sparsity(f, x)
            >>> y, pull = torch.func.vjp(f, x)
            >>> (products,) = torch.func.vmap(pull)(plan.seeds(y))  # may be compiled
            >>> plan.assemble(products).to_dense()
            tensor([[1., 0., 0., 0., 0.],
                    [0., 2., 1., 0., 0.],
                    [0., 0., 3., 2., 0.],
                    [0., 0., 0., 4., 3.]])
        """
        of_rows = start < self.n_reverse
        last = self.n_reverse if of_rows else self.n_colors
        stop = last if stop is None else min(stop, last)
        key = start, stop, like.dtype, like.device
        if key in self._kept:  # to build them took a tenth of a small evaluation
            kept = self._kept[key].clone()  # a backward may write into what it is given
            return kept.reshape(stop - start, *like.shape)
        wanted = torch.arange(start, stop, device=like.device).unsqueeze(1)
        colors = self.colors
        if self.mode == "both":
            m = self.pattern.shape[0]
            colors = colors[:m] if of_rows else colors[m:]
        if like.numel() != len(colors):
            raise ValueError(
                f"like has {like.numel()} numbers; {len(colors)} are needed for colours of "
                f"{'rows' if of_rows else 'columns'}"
            )
        seeds = (colors.to(like.device) == wanted).to(like.dtype)
        if stop == last and start in (0, self.n_reverse) and seeds.numel() <= CHUNK_NUMBERS:
            self._kept[key] = seeds.clone()
        return seeds.reshape(stop - start, *like.shape)

    def assemble(self, products: Tensor) -> Tensor:
        """Return the CSR tensor whose entries stand in the products with :meth:`seeds`.

        Args:
            products: A product for each colour, of shape ``(n_colors, ...)``; of both
                kinds, ``(n_reverse, n)`` and ``(n_colors - n_reverse, m)``, flat and
                one after the other.
        """
        # each entry stands alone in the product of its colour
        values = products.reshape(-1).index_select(0, self.entries.to(products.device))
        return torch.sparse_csr_tensor(
            self.pattern.crow_indices().to(products.device),
            self.pattern.col_indices().to(products.device),
            values,
            size=self.pattern.shape,
            device=products.device,
            check_invariants=False,  # the plan's were checked
        )

    def plot(self, ax: Axes | None = None, *, title: str | None = None) -> Axes:
        """Draw the pattern, see :func:`pullback.plot.pattern`."""
        from pullback.plot import pattern  # which needs matplotlib

        return pattern(self, ax, title=title)

    def _table(self) -> Table:
        m, n = self.pattern.shape
        nnz = self.pattern.values().numel()
        share = nnz / (m * n) if m * n else 0.0
        hessian = self.mode == "symmetric"
        kinds = [
            (self.n_reverse, "rows", "vector-Jacobian"),
            (self.n_colors - self.n_reverse, "columns", "Jacobian-vector"),
        ]
        if hessian:
            kinds = [(self.n_colors, "rows, and of the columns alike", "Hessian-vector")]
        elif self.mode != "both":
            kinds = kinds[:1] if self.mode == "reverse" else kinds[1:]
        colors = " and ".join(f"{k}, of the {lines}" for k, lines, _ in kinds)
        products = " and ".join(f"{k} {p} product{'s' * (k != 1)}" for k, _, p in kinds)
        rows = [
            ["shape", f"{n} by {n} inputs" if hessian else f"{m} outputs, {n} inputs"],
            ["entries", f"{nnz} of {m * n}, {share:.2g} of them"],
            ["colours", colors],
            ["products", f"{products}, for {min(m, n)} if dense"],
        ]
        if self.assumed_dense:
            rows += [["assumed dense", ", ".join(self.assumed_dense)]]
        return Table(f"Sparsity of the {'Hessian' if hessian else 'Jacobian'}", (), rows)


def sparsity(
    f: Callable[..., Any],
    *inputs: Any,
    argnums: int = 0,
    mode: Mode = "auto",
    hessian: bool = False,
) -> Sparsity:
    r"""Find which outputs of f can depend on which numbers of an input.

    f is run once, and every operation that it runs passes on the index sets of its
    elements, so that the pattern holds for **all** inputs of these shapes: an entry
    that is zero here by accident is in it. The cost grows with the number of
    non-zeros, of the Jacobian and of those of the intermediate results. The rows or the
    columns are then coloured, whichever needs fewer colours, or some of both where a few
    rows and columns are much longer than the rest. :func:`jacobian` takes the result as a
    plan: one product for each colour.

    What f captures is a constant, and zeros in it count (a banded matrix is banded)
    unless it requires grad. What f is given can change, also the inputs that
    ``argnums`` leaves out.

    An operation without a rule makes all its outputs depend on all its inputs. The
    pattern is larger then, not wrong, and ``assumed_dense`` names the operation. So it
    is where a ``torch.autograd.Function`` computes out of sight, as in NumPy; one that
    torch can see is followed through its forward, and ``verify=True`` of
    :func:`jacobian` tells if its backward depends on more. Where f looks at values
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
    plan for :func:`hessian`. Detection then follows f and its backward pass, and the
    colouring makes use of symmetry: of an entry and its mirror image one is enough. It
    is the star colouring of Coleman and Moré, *Estimation of sparse Hessian matrices
    and graph coloring problems*, Math. Programming 28, 1984, by the greedy method of
    Gebremedhin, Tarafdar, Manne and Pothen, *New acyclic and star coloring algorithms
    with application to computing Hessians*, SIAM J. Sci. Comput. 29, 2007.

    Args:
        f: Function of the inputs that returns one tensor.
        *inputs: What f is called with. The one named by ``argnums`` is a real floating
            point tensor, of any shape, on any device, also on ``"meta"``.
        argnums: The input to differentiate with respect to.
        mode: ``"reverse"`` for a plan of vector-Jacobian products alone, which every
            differentiable f supports, also one that is already computed;
            ``"forward"`` for Jacobian-vector products alone; ``"auto"`` for the fewest,
            but for reverse where f computes under ``torch.no_grad()``, which tangents
            pass, or in a ``torch.autograd.Function``, which may have no rule for them.
        hessian: Whether the second derivatives of f are wanted, not the first.

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
        >>> x = torch.arange(1000.0)
        >>> pullback.jacobian(lambda x: x[1:] * x[:-1], x, sparsity=plan)[7, 8]
        tensor(7.)
    """
    from pullback._sparse.detection import Reads, Tracker  # which need SciPy

    if not isinstance(argnums, int):
        raise TypeError(f"argnums is {argnums!r}; the int of one input is needed")
    check_mode(mode)
    if hessian and mode != "auto":
        raise ValueError(
            f"mode is {mode!r} and hessian is True, whose products are of one kind; no "
            "mode is needed"
        )
    check_no_transform()
    (index,) = check_inputs(f, inputs, argnums)
    check_one(f"inputs[{index}]", inputs[index])
    if hessian:
        f = gradient(f, index)
    x = inputs[index].detach().clone(memory_format=torch.contiguous_format)
    with untouched(), torch.enable_grad():
        args = list(inputs)
        args[index] = x.requires_grad_().view_as(x)  # no leaf: it has a place in the graph
        tracker = Tracker(args[index], args)
        with tracker, Reads(tracker):
            y = call(f, args)
    check_one("the output of f", y)
    shapes = tuple(map(tuple, input_shapes(inputs)))
    sets = tracker.pattern(y)
    if hessian:  # H[i, j] is H[j, i], so that either being zero is enough
        sets = sets.multiply(sets.T).tocsr()
        sets.sort_indices()
    if mode == "auto" and tracker.unrecorded:
        mode = "reverse"
    wanted = "symmetric" if hessian else mode
    return _plan(sets, tracker.dense, index, shapes, tuple(y.shape), wanted)


def gradient(f: Callable[..., Any], argnum: int) -> Callable[..., Any]:
    """Return the gradient of f, which must return one number."""

    def number(*inputs: Any) -> Tensor:
        y: Tensor = call(f, inputs)
        check_one("the output of f", y)
        if y.numel() != 1:
            raise ValueError(
                f"the output of f has shape {tuple(y.shape)}; one number is needed for "
                "a Hessian (torch.func.hessian gives one for each output)"
            )
        return y.reshape(())

    return torch.func.grad(number, argnums=argnum)


def input_shapes(inputs: Any) -> list[torch.Size]:
    """Return the shape of every tensor in the inputs."""
    if all(isinstance(t, Tensor) for t in inputs):  # pytree walks for longer
        return [t.shape for t in inputs]
    return [t.shape for t in pytree.tree_leaves(inputs) if isinstance(t, Tensor)]


def check_one(name: str, value: Any) -> None:
    """Raise TypeError unless ``value`` is one real tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(
            f"{name} is a {type(value).__name__}; one tensor is needed for a plan or a "
            "Hessian"
        )
    if value.is_complex():
        raise TypeError(
            f"{name} has dtype {value.dtype}; a real floating point dtype is needed "
            "(torch.view_as_real gives the real and imaginary parts)"
        )


def _plan(
    sets: Any,
    dense: list[str],
    argnum: int,
    shapes: tuple[tuple[int, ...], ...],
    output_shape: tuple[int, ...],
    wanted: Mode | Literal["symmetric"],
) -> Sparsity:
    m, n = sets.shape
    column = sets.indices.astype(np.int64)
    row = np.repeat(np.arange(m), np.diff(sets.indptr))
    # J[i, j] is element j of the product of row i's colour, or i of that of column j's
    mode: Literal["reverse", "forward", "both", "symmetric"]
    if wanted == "symmetric":
        mode, colors = "symmetric", star.fewest(sets)
        entries = star.entries(row, column, colors)
        n_reverse = count(colors)
    elif wanted == "auto" and (two := bicoloring.fewest(sets)):
        mode, entries = "both", bicoloring.entries(row, column, *two)
        n_reverse = count(two[0])
        colors = np.concatenate([two[0], np.where(two[1] < 0, -1, two[1] + n_reverse)])
    else:
        mode, colors = coloring.fewest(sets, None if wanted == "auto" else wanted)
        reverse = mode == "reverse"
        n_reverse = count(colors) if reverse else 0
        entries = colors[row] * n + column if reverse else colors[column] * m + row
    if entries.max(initial=0) < 2**31:
        entries = entries.astype(np.int32)  # half as much to read in every evaluation
    with warnings.catch_warnings():  # the first CSR tensor of a process says "beta"
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support")
        pattern = torch.sparse_csr_tensor(
            torch.from_numpy(sets.indptr.astype(np.int64)),
            torch.from_numpy(column),
            torch.ones(len(column), dtype=torch.bool, device="cpu"),
            size=(m, n),
            device="cpu",
            check_invariants=True,
        )
    return Sparsity(
        pattern=pattern,
        colors=torch.from_numpy(colors.astype(np.int64)),
        n_colors=count(colors),
        n_reverse=n_reverse,
        mode=mode,
        assumed_dense=tuple(sorted(set(dense))),
        argnum=argnum,
        input_shapes=shapes,
        output_shape=output_shape,
        entries=torch.from_numpy(entries),
    )
