"""The Jacobian, whole: ``y.shape + x.shape`` from one call."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial, reduce
from math import inf
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pullback._buffers import NOTHING
from pullback._function import (
    CalledFunction,
    Recorded,
    detached,
    function_or_tensor,
    without_aux,
)
from pullback._graph import bytes_on_the_way, reach
from pullback._inputs import (
    ChunkSize,
    Mode,
    Untouched,
    call,
    check_all_real,
    check_devices,
    check_numbers,
    check_real,
    flatten,
    leaf_of,
    named_tensors,
    unflatten,
)
from pullback._products import (
    Options,
    apply,
    by_rows,
    columns_to_blocks,
    fastest_count,
    numbers_in,
    pulled,
    ramps,
    vjp,
)
from pullback._samples import left_in_float64
from pullback._torch import in_transform, pytree


def jacobian(
    f: Callable[..., Any] | Tensor,
    *inputs: Any,
    argnums: int | tuple[int, ...] = 0,
    mode: Mode = "auto",
    chunk_size: ChunkSize = None,
    batched: bool = False,
    allow_unused: bool = False,
    progress: bool = False,
    has_aux: bool = False,
    create_graph: bool = True,
) -> Any:
    r"""Return the Jacobian of f at ``inputs``, of shape ``y.shape + x.shape``.

    ``J[i, j]`` is :math:`\partial y_i/\partial x_j`, where i and j are as many indices
    as y and x have dimensions. A tuple of ``argnums``, a dict of inputs, and a tuple
    or dict of outputs give the structure that :func:`torch.func.jacrev` gives: that of
    the outputs, with that of the inputs in each of its places.

    In place of f you may give a tensor y that is already computed, and then the
    tensor x, leaf or not, that y was computed from: ``jacobian(y, x)``. It is done in
    reverse mode, keeps the graph of y, and leaves every ``.grad`` as it is; to find the
    tensors that retain one takes tens of milliseconds, which a function does not need. The
    graph of a compiled function that has trained may refuse more than one product; the
    function itself does not.

    **Modes.** With m output numbers and n input numbers, reverse mode takes m
    vector-Jacobian products, a row each, and forward mode n Jacobian-vector products,
    a column each (Griewank and Walther, *Evaluating Derivatives*, 2nd ed., 2008,
    chapters 3 and 8). ``"auto"`` calls f once and works on the graph that it left:
    rows, unless m >= 2 n and m >= 256, where columns were measured to be faster
    (below that their fixed cost, a second graph, is more than they save).
    The columns come from the same graph, as the derivative of :math:`v\mapsto
    J^\top v`, and are checked against one product; where an operation is not
    twice differentiable, auto takes rows. ``"forward"`` runs f under
    :func:`torch.func.jvp`, once for each chunk, and needs no graph; what f computes
    under ``torch.no_grad()`` counts there, for tangents pass it.

    Where most entries are zero, :meth:`pullback.Sparsity.jacobian` needs fewer products;
    :func:`pullback.distributed.jacobian` shares them among processes.

    The Jacobian is differentiable again: with respect to inputs and to captured tensors
    that require grad, as an inner ``jacobian`` (a Hessian), and under the transforms of
    ``torch.func``. Where f has no second derivative (see :func:`hessian`), that raises.
    With ``create_graph=False`` it is not, and costs less, as it is with
    ``torch.no_grad()`` around the call.

    Args:
        f: Function of the inputs that returns a tensor, or a tuple, list or dict of
            tensors; or the tensor y. Keyword arguments of f go through
            ``functools.partial``.
        *inputs: What f is called with. Those named by ``argnums`` are real floating
            point tensors, or tuples, lists or dicts of them, of any shape, on any
            device. A block of J has the dtype of its x (reverse) or of its y (forward),
            which are the same unless f changes dtype.
        argnums: The input, or the inputs, to differentiate with respect to.
        mode: ``"auto"``, ``"reverse"`` or ``"forward"``, see above.
        chunk_size: Products at a time: an int, or ``"auto"`` for as many as keep their
            seeds and results, and what they hold on their way through the graph, within
            64 MiB (``"forward"``, which has no graph, counts seeds and results). None is
            for as many as were measured to be fastest: all, but 8 MiB of them on a CPU
            where all would take twice that or more, and J keeps no graph. Products that
            :func:`torch.func.vmap` cannot take together run one by one then, which the
            logger ``"pullback"`` says at level INFO; with an int they raise. With 1,
            nothing runs under vmap and its limits do not apply.
        batched: f maps ``(B, *x)`` to ``(B, *y)`` and treats the B samples on their
            own. J then has shape ``(B, *y, *x)``: the zero blocks between samples are
            left out, and the number of products does not grow with B. Two products with
            random weights catch functions that mix, by more than rounding;
            :func:`pullback.mixing` tells which samples, and how much.
        allow_unused: Whether an input that no output depends on gives zeros.
        progress: Show a bar over the chunks (needs ``pullback[progress]``).
        has_aux: f returns ``(y, aux)``, and so ``(J, aux)`` comes back; aux is anything.
        create_graph: Whether J (and y) may be differentiated again, where grad mode is on
            and there is something to differentiate by.

    Returns:
        J, on the device of the inputs.

    Raises:
        TypeError: f, an input or an output is of the wrong kind or dtype, or complex.
        ValueError: an option is out of range; ``mode="forward"`` is asked of a tensor;
            ``batched=True`` and the batch sizes differ or the samples mix.
        RuntimeError: f changes an input in place; no output depends on an input (and
            ``allow_unused`` is False).
        ImportError: ``progress=True`` and tqdm is not installed.

    Inside a ``torch.func`` transform, and on the meta device, values cannot be looked at:
    there, samples that mix go unnoticed, and with ``mode="forward"``, and in transforms
    with any, unused inputs give zeros.

    Examples:
        >>> import torch, pullback
        >>> x = torch.tensor([1.0, 2.0, 3.0])
        >>> pullback.jacobian(lambda x: torch.stack([x.sum(), (x**2).sum()]), x)
        tensor([[1., 1., 1.],
                [2., 4., 6.]])

        A tensor that is already computed, and a Hessian as a Jacobian twice:

        >>> a = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> y = a**3
        >>> with torch.no_grad():
        ...     pullback.jacobian(y, a)
        tensor([[ 3.,  0.],
                [ 0., 12.]])
        >>> pullback.jacobian(lambda x: pullback.jacobian(torch.prod, x), x)
        tensor([[0., 3., 2.],
                [3., 0., 1.],
                [2., 1., 0.]])
    """
    options = Options(mode, chunk_size, batched, allow_unused, progress)
    with NOTHING if create_graph else torch.no_grad():
        if has_aux:
            return _with_aux(f, inputs, argnums, options)[1:]
        return dense(f, inputs, argnums, options)[1]


def value_and_jacobian(
    f: Callable[..., Any] | Tensor,
    *inputs: Any,
    argnums: int | tuple[int, ...] = 0,
    mode: Mode = "auto",
    chunk_size: ChunkSize = None,
    batched: bool = False,
    allow_unused: bool = False,
    progress: bool = False,
    has_aux: bool = False,
    create_graph: bool = True,
) -> tuple[Any, ...]:
    """Return ``(f(*inputs), J)`` from one forward pass.

    With ``mode="forward"`` and a ``chunk_size``, every chunk is a forward pass of its own.

    Args:
        f: As for :func:`jacobian`, like all the others.
        *inputs: What f is called with.
        argnums: The input, or the inputs, to differentiate with respect to.
        mode: ``"auto"``, ``"reverse"`` or ``"forward"``.
        chunk_size: Products at a time.
        batched: Whether f treats the samples of a batch on their own.
        allow_unused: Whether an input that no output depends on gives zeros.
        progress: Whether to show a bar.
        has_aux: f returns ``(y, aux)``, and aux comes third.
        create_graph: Whether y and J may be differentiated again.

    Returns:
        What f returned, in its shapes and dtypes, and J, of shape
        ``y.shape + x.shape``, as a tuple.

    Raises:
        TypeError, ValueError, RuntimeError, ImportError: as :func:`jacobian`.

    Examples:
        >>> import torch, pullback
        >>> pullback.value_and_jacobian(torch.square, torch.tensor([1.0, 2.0]))
        (tensor([1., 4.]), tensor([[2., 0.],
                [0., 4.]]))
    """
    options = Options(mode, chunk_size, batched, allow_unused, progress)
    with NOTHING if create_graph else torch.no_grad():
        if has_aux:
            return _with_aux(f, inputs, argnums, options)
        return dense(f, inputs, argnums, options)


def _with_aux(
    f: Any, inputs: Sequence[Any], argnums: int | tuple[int, ...], options: Options
) -> tuple[Any, Any, Any]:
    """Return the value, J, and what f returns beside the value at its inputs."""
    alone, kept = without_aux(f)
    value, J = dense(alone, inputs, argnums, options)
    if options.mode == "forward" or in_transform():  # what was kept may be of a transform
        with Untouched():
            call(alone, inputs)
        aux = kept[-1]
    else:
        aux = kept[0]
    if not any(y.requires_grad for y in pytree.tree_leaves(value)):
        aux = detached(aux)
    return value, J, aux


def dense(
    f: Callable[..., Any] | Tensor,
    inputs: Sequence[Any],
    argnums: int | tuple[int, ...],
    options: Options,
) -> tuple[Any, Any]:
    """Return the value, and J as a strided tensor."""
    options.check()
    function = function_or_tensor(f, inputs, argnums)
    _check_inputs(function, options)
    if options.batched and not function.computed:
        decide = partial(left_in_float64, function, function.xs)
        options = options._replace(decide=decide)
    with function.keep_grads():
        if options.mode == "forward":
            found = _forward(function, options)
        elif in_transform():
            found = _reverse_in_transform(function, options)
        else:
            found = _on_graph(function, options)
    if options.group:
        options.group.compare(function.xs, pytree.tree_leaves(found.value))
    if not options.allow_unused:
        function.check_used(found.used)
    rows = [function.like_inputs(row) for row in found.blocks]
    return found.value, unflatten(rows, found.structure)


class _Found(NamedTuple):
    value: Any
    structure: pytree.TreeSpec  # that of the value
    blocks: list[list[Tensor]]  # blocks[i][j] is dy_i/dx_j
    used: Sequence[bool]  # used[j]: does any y depend on x_j?


def _on_graph(function: CalledFunction, options: Options) -> _Found:
    """Differentiate the graph that one call of f leaves, by rows or by columns."""
    graph = function.record()
    xs, ys = graph.xs, graph.ys
    _check_outputs(xs, ys, options)
    if graph.alone:
        options = options._replace(chunk_size=1)
    if options.chunk_size == "auto":
        options = options._replace(bytes_each=bytes_on_the_way(ys))

    blocks = None
    try:
        if options.mode == "auto" and _has_cheaper_columns(ys, xs, options):
            blocks = _columns_on_graph(graph, options)
        if blocks is None:
            options = _in_pieces(graph, numbers_in(ys, options), options)
            blocks = by_rows(vjp(ys, xs, graph.again), ys, xs, options)
    except RuntimeError as error:
        _say_size_if_out_of_memory(error, ys, xs, options)
        raise
    blocks = [graph.cut(row) for row in blocks]
    return _Found(function.value(graph), graph.structure, blocks, graph.used)


def _in_pieces(graph: Recorded, count: int, options: Options) -> Options:
    """Say how many of ``count`` products go together, where that is left open."""
    if options.chunk_size is None and not graph.again:
        fastest = fastest_count(count, graph.ys, graph.xs)
        return options._replace(fastest=fastest) if fastest else options
    return options


def _say_size_if_out_of_memory(
    error: RuntimeError, ys: Sequence[Tensor], xs: Sequence[Tensor], options: Options
) -> None:
    """Say how large J is where there is no memory for it."""
    full = re.search("can't allocate memory|not enough memory", str(error))
    if full or isinstance(error, torch.OutOfMemoryError):
        m, n = numbers_in(ys, options), numbers_in(xs, options)
        batch = f"{len(xs[0])} x " if options.batched else ""
        size = m * n * (len(xs[0]) if options.batched else 1) * xs[0].element_size()
        error.add_note(
            f"pullback: J has {batch}{m} x {n} numbers, {size / 1e9:.3g} GB, and no "
            "memory was left. batched=True leaves out the zeros between samples where "
            "f treats each on its own; pullback.sparsity, those that it finds; "
            "pullback.jacobian_operator gives products, and J is never formed"
        )


def _has_cheaper_columns(ys: list[Tensor], xs: list[Tensor], options: Options) -> bool:
    m = numbers_in(ys, options)
    if m < 256 or m < 2 * numbers_in(xs, options):
        return False
    # several ranks must all take the same way; numbers on meta can check no columns
    return options.group is None and not any(y.is_meta for y in ys)


def _columns_on_graph(graph: Recorded, options: Options) -> list[list[Tensor]] | None:
    """Return J by columns, or None where an operation is not twice differentiable.

    v -> J^T v is linear, so its own VJP with t is J t, whatever v is. At a v that is
    not zero the columns must also give v^T J back, which is a check on them.
    """
    xs, ys = graph.xs, graph.ys
    try:
        vs, vJ = pulled(ys, xs)
    except RuntimeError:  # "... is not differentiable twice", "once_differentiable"
        return None
    if not any(w.requires_grad for w in vJ):
        return None
    try:
        options = _in_pieces(graph, numbers_in(xs, options), options)
        columns = apply(vjp(vJ, vs, graph.again), xs, options)
    except RuntimeError:
        return None
    with torch.no_grad():
        pairs = zip(columns, vs, strict=True)
        found = reduce(torch.add, [c.flatten(1) @ v.flatten() for c, v in pairs])
        right = torch.cat([(w.sum(0) if options.batched else w).flatten() for w in vJ])
        if not _largest(found - right) <= 1e-3 * _largest(right):
            return None
    blocks = columns_to_blocks(columns, ys, xs, options)
    # in the dtype that rows have
    return [[b.to(x.dtype) for b, x in zip(row, xs, strict=True)] for row in blocks]


def _largest(t: Tensor) -> float:
    """Return the largest absolute value, by one operation where abs and max are two."""
    return float(torch.linalg.vector_norm(t, inf)) if t.numel() else 0.0


def _reverse_in_transform(function: CalledFunction, options: Options) -> _Found:
    """Do it as ``torch.func.jacrev`` does, which vmap, grad and jvp compose with."""
    xs = function.xs
    value, pull_back = torch.func.vjp(function, *xs)[:2]
    ys, structure = flatten(value)
    _check_outputs(xs, ys, options)

    def pull(*vs: Tensor) -> tuple[Tensor, ...]:
        return tuple(pull_back(structure.unflatten(vs)))

    blocks = by_rows(pull, ys, xs, options)
    return _Found(value, structure, blocks, [True] * len(xs))


def _forward(function: CalledFunction, options: Options) -> _Found:
    """Push tangents through f itself, which keeps no graph of it."""
    structure: pytree.TreeSpec | None = None
    xs = [x.contiguous() for x in function.xs]  # the tangents of an expanded x need room

    def push(*ts: Tensor) -> tuple[Tensor, ...]:
        nonlocal structure
        value, tangents = function.push(xs, ts)
        ys, structure = flatten(value)
        _check_outputs(xs, ys, options)
        return (*pytree.tree_leaves(tangents), *ys)

    results = apply(push, xs, options, values=True)
    columns, ys = results[: len(results) // 2], results[len(results) // 2 :]
    assert structure is not None  # push has run
    blocks = columns_to_blocks(columns, ys, xs, options)

    used = [True] * len(xs)
    if not in_transform() and not any(x.is_meta for x in xs):
        nonzero = [any(bool(row[j].any()) for row in blocks) for j in range(len(xs))]
        if not all(nonzero):  # a derivative that is zero, or an x that y never met?
            leaves = [leaf_of(x) for x in xs]
            with torch.enable_grad():
                outputs = pytree.tree_leaves(function(*leaves))
                used = reach(outputs, leaves).used
            _check_tangents(outputs, leaves, nonzero)
    return _Found(structure.unflatten(ys), structure, blocks, used)


def _check_tangents(ys: list[Tensor], xs: list[Tensor], nonzero: list[bool]) -> None:
    """Raise if J is zero by tangents, and v^T J is not.

    Operations that compute their own derivative in the forward pass can lose tangents.
    """
    rows = vjp(ys, xs, create_graph=False)(*ramps(ys))
    if any(bool(row.any()) and not found for row, found in zip(rows, nonzero, strict=True)):
        raise RuntimeError(
            "tangents are lost on their way through f: by forward mode the derivative is "
            "zero, and by reverse mode it is not; mode='reverse' is needed"
        )


def _check_inputs(function: CalledFunction, options: Options) -> None:
    xs = function.xs
    if any(x.is_complex() for x in xs):  # to name them takes longer than a small product
        for name, t in named_tensors(function.inputs):
            if any(t is x for x in xs):
                check_real(name, t)
    if options.group is None:
        return
    if in_transform():
        raise RuntimeError(
            "group was given inside a transform of torch.func, which processes cannot "
            "share; a call outside of it is needed"
        )
    for x in xs:
        check_numbers("an input", x)


def _check_outputs(xs: list[Tensor], ys: list[Tensor], options: Options) -> None:
    check_all_real("an output", ys)
    check_devices(xs, ys)
    if options.batched:
        batches = {tuple(t.shape[:1]) for t in (*xs, *ys)}
        if len(batches) > 1 or () in batches:
            shapes = [", ".join(str(tuple(t.shape)) for t in ts) for ts in (xs, ys)]
            raise ValueError(
                f"batched=True, inputs have shape {shapes[0]} and outputs {shapes[1]}; "
                "inputs (B, *x) and outputs (B, *y) with one batch size B are needed"
            )
