"""A plan for a sparse Jacobian or Hessian: its pattern, its colours, and their products."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pullback._function import (
    CalledFunction,
    beside,
    detached,
    flat_form,
    function_or_tensor,
    gradient,
    without_aux,
    without_fused_attention,
)
from pullback._inputs import (
    ChunkSize,
    Mode,
    check_chunk_size,
    check_devices,
    check_inputs,
    check_mode,
    check_no_transform,
    check_single,
)
from pullback._products import Together, fastest_count, vjp
from pullback._report import Table
from pullback._saved import plan
from pullback._sparse import bicoloring, coloring, star
from pullback._sparse.coloring import count
from pullback._torch import pytree

if TYPE_CHECKING:
    from scipy.sparse import csr_array  # type: ignore[import-untyped]

#: Numbers in the seeds of one chunk: small products go together, large ones alone.
CHUNK_NUMBERS = 2**16


@dataclass(frozen=True, repr=False, eq=False)
class Sparsity:
    """What :func:`sparsity` found: a pattern, its colours, and J or H from few products.

    It never changes, so a copy of it is itself. ``torch.save`` takes it, and ``torch.load``
    needs no flag in a program that has imported pullback.

    Attributes:
        pattern: Sparse CSR tensor of booleans and shape ``(m, n)``, for m numbers of
            the output and n of the input: can output i depend on input j? Of a large
            dense J it is made when it is first asked for.
        shape: ``(m, n)``.
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
            taken to depend on all of its inputs, and of those that read or write where
            an index says which x or another input decides, so that it may be any.
        argnum: The input that x is.
        input_shapes: Shape of every tensor among the inputs; x in a dict, list or tuple is
            flat.
        output_shape: Shape of the output.
        entries: Where each entry of the pattern stands in the flattened products.
    """

    shape: tuple[int, int]
    colors: Tensor
    n_colors: int
    n_reverse: int
    mode: Literal["reverse", "forward", "both", "symmetric"]
    assumed_dense: tuple[str, ...]
    argnum: int
    input_shapes: tuple[tuple[int, ...], ...]
    output_shape: tuple[int, ...]
    _found: tuple[Tensor, Tensor] | None  # pattern and entries; None if J is dense
    _kept: dict[Any, Tensor] = field(default_factory=dict, init=False)  # small seeds

    @functools.cached_property
    def pattern(self) -> Tensor:
        """Which entries there are."""
        if self._found is not None:
            return self._found[0]
        m, n = self.shape
        columns = torch.arange(n, device="cpu").repeat(m)
        return _pattern(torch.arange(m + 1, device="cpu") * n, columns, self.shape)

    @functools.cached_property
    def entries(self) -> Tensor:
        """Where each of them stands in the products."""
        if self._found is not None:
            return self._found[1]
        m, n = self.shape
        if self.mode == "reverse":
            return torch.arange(m * n, device="cpu")
        return torch.arange(m * n, device="cpu").reshape(n, m).T.reshape(-1)

    def __deepcopy__(self, memo: object) -> Sparsity:
        """Return the plan itself, for nothing in it changes, and torch copies no CSR."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what a file keeps: a call that torch knows, with the plan's values."""
        return plan, tuple([getattr(self, f.name) for f in fields(self) if f.init])

    def __repr__(self) -> str:
        return self._table().text()

    def _repr_html_(self) -> str:
        return self._table().html()

    def seeds(self, like: Tensor, start: int = 0, stop: int | None = None) -> Tensor:
        """Return a seed for each colour, of shape ``(n_colors, *like.shape)``.

        Each is 1 at the rows (or columns) of its colour and 0 elsewhere. :meth:`jacobian`
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
            m = self.shape[0]
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

    @classmethod
    def from_pattern(
        cls,
        pattern: Any,
        *,
        input_shape: Sequence[int] | None = None,
        output_shape: Sequence[int] | None = None,
        mode: Mode = "auto",
        hessian: bool = False,
    ) -> Sparsity:
        """Return the plan for a pattern that you know, from a mesh or from a paper.

        It is for functions of one input. Whether a function fits, ``verify=True`` of
        :meth:`jacobian` and :meth:`hessian` tells.

        Args:
            pattern: Matrix of shape ``(m, n)``, whose non-zeros are the entries that may
                be non-zero: dense or sparse, of NumPy, SciPy or torch.
            input_shape: Shape of the input, of n numbers; None for ``(n,)``.
            output_shape: Shape of the output, of m numbers; None for ``(m,)``.
            mode: As for :func:`sparsity`.
            hessian: Whether it is the pattern of a Hessian, of which one triangle is
                enough.

        Raises:
            TypeError: the pattern is no matrix.
            ValueError: a shape has not the size of the pattern, a Hessian is not square,
                or ``mode`` is none of the three or given with ``hessian=True``.
            ImportError: SciPy is not installed.

        Examples:
            >>> import torch, pullback
            >>> neighbours = torch.eye(6).diff(dim=0)  # each output meets two inputs
            >>> plan = pullback.Sparsity.from_pattern(neighbours)
            >>> plan.n_colors
            2
            >>> plan.jacobian(lambda x: x[1:] * x[:-1], torch.arange(6.0))[2, 3]
            tensor(2.)
        """
        import scipy.sparse as sp  # type: ignore[import-untyped]

        check_wanted(mode, hessian)
        if isinstance(pattern, torch.Tensor):
            pattern = pattern.detach().cpu()
        if isinstance(pattern, torch.Tensor) and pattern.layout is not torch.strided:
            parts = pattern.to_sparse_coo().coalesce()
            pattern = sp.coo_array(
                (parts.values().numpy(), tuple(parts.indices().numpy())), shape=parts.shape
            )
        elif not sp.issparse(pattern):
            pattern = np.asarray(pattern)
        if pattern.ndim != 2:
            raise TypeError(f"pattern has {pattern.ndim} dimensions; a matrix is needed")
        sets = sp.csr_array(pattern != 0)
        m, n = sets.shape
        if hessian:
            if m != n:
                raise ValueError(f"pattern has shape {(m, n)}; a Hessian is square")
            sets = (sets + sets.T).tocsr()
            output_shape = input_shape
        sets.sort_indices()
        shapes = []
        for name, shape, size in (("input", input_shape, n), ("output", output_shape, m)):
            shapes.append((size,) if shape is None else tuple(shape))
            if torch.Size(shapes[-1]).numel() != size:
                raise ValueError(
                    f"{name}_shape is {shapes[-1]} and pattern is {(m, n)}; a shape of "
                    f"{size} numbers is needed"
                )
        wanted = "symmetric" if hessian else mode
        return plan_of_sets(sets, [], 0, (shapes[0],), shapes[1], wanted)

    def to_scipy(self, J: Tensor | None = None) -> csr_array:
        """Return what :meth:`jacobian` or :meth:`hessian` gave as a SciPy CSR array.

        On a CPU it shares memory with J, whose graph it leaves.

        Args:
            J: What they gave; without it the pattern is returned, of dtype bool.

        Raises:
            ImportError: SciPy is not installed.
            TypeError: J is bfloat16, which NumPy lacks.

        Examples:
            >>> import torch, pullback
            >>> x = torch.arange(3.0)
            >>> plan = pullback.sparsity(torch.square, x)
            >>> plan.to_scipy(plan.jacobian(torch.square, x)).toarray()
            array([[0., 0., 0.],
                   [0., 2., 0.],
                   [0., 0., 4.]], dtype=float32)
            >>> plan.to_scipy().nnz
            3
        """
        from scipy.sparse import csr_array

        J = self.pattern if J is None else J
        J = J.detach().cpu()
        parts = (J.values(), J.col_indices(), J.crow_indices())
        return csr_array(tuple(part.numpy() for part in parts), shape=J.shape)

    def jacobian(
        self,
        f: Callable[..., Any] | Tensor,
        *inputs: Any,
        chunk_size: ChunkSize = None,
        allow_unused: bool = False,
        verify: bool = False,
        has_aux: bool = False,
    ) -> Any:
        """Return the Jacobian of f at ``inputs``, sparse, from a product for each colour.

        It is differentiable again (through ``to_dense`` and ``@``), but the call is not
        possible inside the transforms of ``torch.func``.

        Args:
            f: The function that the plan was made for, or another one whose zeros are
                in the same places; or a tensor y that it returned, if the products
                are all of reverse mode.
            *inputs: What f is called with, of the shapes that the plan was made for; with
                a tensor y, the x that it was computed from.
            chunk_size: Products at a time, as in :func:`pullback.jacobian`. None and
                ``"auto"`` take small ones together. Those that you compile as one
                function go through :meth:`assemble`.
            allow_unused: Whether an x that the output does not depend on gives zeros.
            verify: Whether to check, by one more product with random numbers, that f has
                no entry outside of the pattern, as it may if f looks at values.
            has_aux: f returns ``(y, aux)``, and so ``(J, aux)`` comes back.

        Returns:
            A CSR tensor of shape ``(y.numel(), x.numel())``, its rows and columns in the
            order of ``flatten()``, on the device of the inputs. Its index tensors are
            those of the plan.

        Raises:
            TypeError: f, the input or the output is of the wrong kind or dtype.
            ValueError: an option is out of range, the plan is for a Hessian or for other
                shapes, or it has products of forward mode and f is a tensor.
            RuntimeError: f changes an input in place, the output does not depend on x,
                or ``verify=True`` finds that f has outgrown the plan.

        Examples:
            >>> import torch, pullback
            >>> x = torch.arange(1000.0)
            >>> plan = pullback.sparsity(lambda x: x[1:] * x[:-1], x)
            >>> plan.jacobian(lambda x: x[1:] * x[:-1], x)[7, 8]
            tensor(7.)
        """
        found = self.value_and_jacobian(
            f,
            *inputs,
            chunk_size=chunk_size,
            allow_unused=allow_unused,
            verify=verify,
            has_aux=has_aux,
        )
        return found[1:] if has_aux else found[1]

    def value_and_jacobian(
        self,
        f: Callable[..., Any] | Tensor,
        *inputs: Any,
        chunk_size: ChunkSize = None,
        allow_unused: bool = False,
        verify: bool = False,
        has_aux: bool = False,
    ) -> tuple[Any, ...]:
        """Return ``(f(*inputs), J)``, and aux third; see :meth:`jacobian`."""
        if self.mode == "symmetric":
            raise ValueError(
                "the plan is for a Hessian; its method hessian is needed, or a plan from "
                "pullback.sparsity without hessian=True"
            )
        if has_aux:
            f, kept = without_aux(f)
        y, J = self._evaluate(f, inputs, chunk_size, allow_unused, verify)
        if has_aux:
            return y, J, kept[0] if y.requires_grad else detached(kept[0])
        return y, J

    def hessian(
        self,
        f: Callable[..., Any],
        *inputs: Any,
        chunk_size: ChunkSize = None,
        verify: bool = False,
        has_aux: bool = False,
    ) -> Any:
        """Return the Hessian of f at ``inputs``, sparse, from a product for each colour.

        Args:
            f: The function that the plan was made for, which returns one number.
            *inputs: What f is called with, of the shapes that the plan was made for.
            chunk_size: Products at a time, as in :meth:`jacobian`.
            verify: Whether to check, by one more product with random numbers, that H has
                no entry outside of the pattern and is symmetric.
            has_aux: f returns ``(y, aux)``, and so ``(H, aux)`` comes back, without graphs
                of tensors in aux.

        Returns:
            A CSR tensor of shape ``(x.numel(), x.numel())`` in the order of
            ``flatten()``, exactly symmetric. It is differentiable again.

        Raises:
            TypeError: f, the input or the output is of the wrong kind or dtype.
            ValueError: f returns more than one number, an option is out of range, or the
                plan is for a Jacobian or for other shapes.
            RuntimeError: f changes an input in place, or ``verify=True`` finds that f has
                outgrown the plan.

        Examples:
            >>> import torch, pullback
            >>> def energy(x):  # every variable meets the first
            ...     return (x[0] * x[1:] ** 2).sum()
            >>> x = torch.arange(1.0, 1001)
            >>> plan = pullback.sparsity(energy, x, hessian=True)
            >>> plan
            Sparsity of the Hessian
            shape     1000 by 1000 inputs
            entries   2997 of 1000000, 0.003 of them
            colours   2, of the rows, and of the columns alike
            products  2 Hessian-vector products, for 1000 if dense
            >>> H = plan.hessian(energy, x)
            >>> H[0, 6], H[6, 0]
            (tensor(14.), tensor(14.))
            >>> torch.equal(H.to_dense(), pullback.hessian(energy, x))
            True
        """
        if has_aux:
            options: Any = {"chunk_size": chunk_size, "verify": verify}
            return beside(f, lambda f: self.hessian(f, *inputs, **options))
        if self.mode != "symmetric":
            raise ValueError(
                "the plan is for a Jacobian; one from pullback.sparsity with "
                "hessian=True is needed"
            )
        check_inputs(f, inputs, self.argnum)
        f, inputs = flat_form(f, inputs, self.argnum)
        slope = gradient(f, self.argnum)
        # a linear f has zeros
        return without_fused_attention(
            lambda: self._evaluate(slope, inputs, chunk_size, True, verify)[1]
        )

    def _evaluate(
        self,
        f: Callable[..., Any] | Tensor,
        inputs: Sequence[Any],
        chunk_size: ChunkSize,
        allow_unused: bool,
        verify: bool,
    ) -> tuple[Tensor, Tensor]:
        check_chunk_size(chunk_size)
        function = self._function(f, inputs)
        with function.keep_grads():
            y, used, sides = self._sides(function, chunk_size)
            if not allow_unused:
                function.check_used(used)
            parts = [part for side in sides for part in side.products(self)]
            J = self.assemble(torch.cat(parts) if len(parts) != 1 else parts[0])
            if verify:
                self._verify(J, sides[0])
        return y, J

    def _function(self, f: Any, inputs: Sequence[Any]) -> CalledFunction:
        """Return f, or the tensor in its place, once its inputs are those of the plan."""
        argnum = 0 if isinstance(f, Tensor) else self.argnum  # a tensor comes with its x
        check_inputs(f if callable(f) else lambda: f, inputs, argnum)
        f, inputs = flat_form(f, tuple(inputs), argnum)
        function = function_or_tensor(f, inputs, argnum)
        check_single(f"inputs[{argnum}]", inputs[argnum])
        shapes = input_shapes(inputs)
        planned = self.input_shapes
        if function.computed:
            planned = (planned[self.argnum],)
        if shapes != planned:
            raise ValueError(
                f"the inputs have shapes {_list(shapes)} and the plan is for "
                f"{_list(planned)}; a plan from pullback.sparsity for these shapes is "
                "needed"
            )
        check_no_transform()
        return function

    def _sides(
        self, function: CalledFunction, chunk_size: ChunkSize
    ) -> tuple[Tensor, list[bool], list[_Side]]:
        """Return y, whether it depends on x, and the products of each kind."""
        sides = []
        (x,), used = function.xs, [True]
        rows, columns = range(self.n_reverse), range(self.n_reverse, self.n_colors)
        if self.mode != "forward":
            graph = function.record()
            value, used = function.value(graph), graph.used
            y = self._check_output(graph.output)
            chunk_size = 1 if graph.alone else chunk_size
            pull = vjp([y], graph.xs, graph.again)
            together = self._together
            if y.device.type == "cpu":
                together = fastest_count(len(rows), [y], graph.xs) or max(1, len(rows))
            sides += [_Side(pull, y, rows, chunk_size, together, graph.cut)]
        if self.mode in ("forward", "both"):
            x = x.contiguous()  # the tangents of an expanded x need room
            push = functools.partial(_push, function, x)
            sides += [_Side(push, x, columns, chunk_size, self._together)]
        if self.mode == "forward":
            value = self._check_output(function(x))
        check_devices([x], [value])
        return value, used, sides

    @property
    def _together(self) -> int:
        return max(1, CHUNK_NUMBERS // max(*self.shape, 1))

    def _check_output(self, y: Any) -> Tensor:
        check_single("the output of f", y)
        if tuple(y.shape) != self.output_shape:
            raise ValueError(
                f"the output has shape {tuple(y.shape)} and the plan is for "
                f"{self.output_shape}; a plan from pullback.sparsity at this input is "
                "needed"
            )
        checked: Tensor = y
        return checked

    def _verify(self, J: Tensor, side: _Side) -> None:
        """Raise unless a product with random numbers agrees with the one by J."""
        m, n = self.shape
        if not m * n or J.is_meta:  # which keeps no numbers
            return
        like = side.like
        generator = torch.Generator("cpu").manual_seed(0)  # any seed but the caller's
        seed = torch.rand(like.shape, generator=generator, device="cpu").to(like) + 0.5
        values = J.detach().values()
        column = J.col_indices()
        count = J.crow_indices().diff()
        row = torch.repeat_interleave(torch.arange(m, device=J.device), count)
        forward = self.mode == "forward"
        length, to, by = (m, row, column) if forward else (n, column, row)
        terms = values * seed.reshape(-1)[by]
        found = values.new_zeros(length).index_add(0, to, terms)
        scale = values.new_zeros(length).index_add(0, to, terms.abs())
        expected = side.product(seed)[0].detach().reshape(-1).to(found.dtype)
        precision = torch.finfo(found.dtype).eps ** 0.5
        allowed = precision * (scale + precision * scale.nan_to_num().max())
        same = (expected == found) | expected.isnan() | found.isnan()  # NaN tells nothing
        wrong = ~(same | ((expected - found).abs() <= allowed))
        if wrong.any():  # or rounded where large terms cancel, which a multiple shows
            wrong &= (expected - found).abs() > 16 * _rounding(side, seed, expected)
        if wrong.any():
            at = int(wrong.nonzero()[0])
            line = "row" if forward else "column"
            raise RuntimeError(
                "the function has outgrown its plan: J has entries outside of the pattern "
                f"in {int(wrong.sum())} of {length} {line}s, first in {line} {at}; a plan "
                "from pullback.sparsity at this input is needed"
            )

    def _table(self) -> Table:
        m, n = self.shape
        nnz = m * n if self._found is None else self.pattern.values().numel()
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


class _Side(NamedTuple):
    """The products of one kind, all with the same graph or the same function.

    Attributes:
        product: v -> v^T J, or t -> J t.
        like: What v or t is like: y or x.
        colors: Those whose products are of this kind.
        chunk_size: How many of them go together, where the caller says it.
        together: How many otherwise.
        cut: What they go through, so that to differentiate them raises if it must.
    """

    product: Callable[[Tensor], tuple[Tensor, ...]]
    like: Tensor
    colors: range
    chunk_size: ChunkSize
    together: int
    cut: Callable[[Sequence[Tensor]], list[Tensor]] = list

    def products(self, plan: Sparsity) -> list[Tensor]:
        """Return one product for each colour, flat, in as many pieces as chunks."""
        size = self.chunk_size if isinstance(self.chunk_size, int) else self.together
        take = Together(self.product, self.chunk_size)
        parts: list[Tensor] = []
        for start in range(self.colors.start, self.colors.stop, size):
            seeds = plan.seeds(self.like, start, start + size)
            parts.append(take([seeds])[0].reshape(-1))
        return self.cut(parts or [self.like.new_zeros(0)])


def _push(function: CalledFunction, x: Tensor, t: Tensor) -> tuple[Tensor]:
    """Return J t, for which y is computed again, with tangents."""
    return (function.push((x,), (t,))[1],)


def _rounding(side: _Side, seed: Tensor, expected: Tensor) -> Tensor:
    """Return by how much products with multiples of a seed differ, divided again."""
    others = [side.product(k * seed)[0].detach().reshape(-1) / k for k in (3, 5, 7)]
    return (torch.stack(others) - expected).abs().nan_to_num().max()


def input_shapes(inputs: Sequence[Any]) -> tuple[tuple[int, ...], ...]:
    """Return the shape of every tensor in the inputs."""
    if not all(isinstance(t, Tensor) for t in inputs):  # pytree walks for longer
        inputs = pytree.tree_leaves(inputs)
    return tuple([tuple(t.shape) for t in inputs if isinstance(t, Tensor)])


def _list(shapes: tuple[tuple[int, ...], ...]) -> str:
    return ", ".join(map(str, shapes))


def check_wanted(mode: Mode, hessian: bool) -> None:
    """Raise ValueError unless such a plan can be made."""
    check_mode(mode)
    if hessian and mode != "auto":
        raise ValueError(
            f"mode is {mode!r} and hessian is True, whose products are of one kind; no "
            "mode is needed"
        )


def plan_of_sets(
    sets: Any,
    dense: list[str],
    argnum: int,
    shapes: tuple[tuple[int, ...], ...],
    output_shape: tuple[int, ...],
    wanted: Mode | Literal["symmetric"],
) -> Sparsity:
    """Return the plan for a boolean CSR array with sorted indices, coloured."""
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
    # not from_numpy alone: torch 2.6 takes no stride of 0, which an empty array may have
    columns = torch.empty(len(column), dtype=torch.int64, device="cpu")
    columns.copy_(torch.from_numpy(column))
    pattern = _pattern(torch.from_numpy(sets.indptr.astype(np.int64)), columns, (m, n))
    return Sparsity(
        shape=(m, n),
        colors=torch.from_numpy(colors.astype(np.int64)),
        n_colors=count(colors),
        n_reverse=n_reverse,
        mode=mode,
        assumed_dense=tuple(sorted(set(dense))),
        argnum=argnum,
        input_shapes=shapes,
        output_shape=output_shape,
        _found=(pattern, torch.from_numpy(entries)),
    )


def dense_plan(
    argnum: int,
    shapes: tuple[tuple[int, ...], ...],
    shape: tuple[int, int],
    output_shape: tuple[int, ...],
    wanted: Mode,
) -> Sparsity:
    """Return the plan for a J of which every entry may be other than zero."""
    m, n = shape
    forward = wanted == "forward" or (wanted == "auto" and n < m)
    number = n if forward else m
    return Sparsity(
        shape=shape,
        colors=torch.arange(number, device="cpu"),
        n_colors=number,
        n_reverse=0 if forward else number,
        mode="forward" if forward else "reverse",
        assumed_dense=(DENSE,),
        argnum=argnum,
        input_shapes=shapes,
        output_shape=output_shape,
        _found=None,
    )


#: What ``assumed_dense`` says where no operation was followed.
DENSE = "f, by rows drawn by lot"


def _pattern(crow: Tensor, columns: Tensor, shape: tuple[int, int]) -> Tensor:
    with warnings.catch_warnings():  # the first CSR tensor of a process says "beta"
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support")
        return torch.sparse_csr_tensor(
            crow,
            columns,
            torch.ones(len(columns), dtype=torch.bool, device="cpu"),
            size=shape,
            device="cpu",
            check_invariants=True,
        )
