"""The Jacobian, whole: ``y.shape + x.shape`` from one call."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from pullback._graph import grads_kept, passing, reach
from pullback._inputs import (
    Mode,
    call,
    check_devices,
    check_inputs,
    check_mode,
    check_numbers,
    check_output,
    flatten,
    jvp,
    leaf_of,
    untouched,
)
from pullback._products import (
    Options,
    apply,
    by_rows,
    columns_to_blocks,
    fastest,
    numbers_in,
    vjp,
)
from pullback._sparse.compressed import value_and_sparse_jacobian

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

    from pullback._sparse.plan import Sparsity


def jacobian(
    f: Callable[..., Any] | Tensor,
    *inputs: Any,
    argnums: int | tuple[int, ...] = 0,
    mode: Mode = "auto",
    chunk_size: int | Literal["auto"] | None = None,
    batched: bool = False,
    allow_unused: bool = False,
    progress: bool = False,
    sparsity: Sparsity | None = None,
    verify: bool = False,
    group: ProcessGroup | None = None,
) -> Any:
    r"""Return the Jacobian of f at ``inputs``, of shape ``y.shape + x.shape``.

    ``J[i, j]`` is :math:`\partial y_i/\partial x_j`, where i and j are as many indices
    as y and x have dimensions. A tuple of ``argnums``, a dict of inputs, and a tuple
    or dict of outputs give the structure that :func:`torch.func.jacrev` gives: that of
    the outputs, with that of the inputs in each of its places.

    In place of f you may give a tensor y that is already computed, and then the
    tensor x, leaf or not, that y was computed from: ``jacobian(y, x)``. It is done in
    reverse mode, keeps the graph of y, and leaves every ``.grad`` as it is; to find the
    tensors that retain one takes tens of milliseconds, which a function does not need.

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

    The Jacobian is differentiable again: with respect to inputs and to captured tensors
    that require grad, as an inner ``jacobian`` (a Hessian), and under the transforms of
    ``torch.func``. With ``torch.no_grad()`` around the call it is not, and costs less.

    Args:
        f: Function of the inputs that returns a tensor, or a tuple, list or dict of
            tensors; or the tensor y.
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
            where all would take twice that or more, and J keeps no graph. With 1,
            nothing runs under :func:`torch.func.vmap` and its limits do not apply.
        batched: f maps ``(B, *x)`` to ``(B, *y)`` and treats the B samples on their
            own. J then has shape ``(B, *y, *x)``: the zero blocks between samples are
            left out, and the number of products does not grow with B. Two products on
            a random half of the samples catch functions that mix; that is a probe, and
            :func:`pullback.mixing` is the exact test.
        allow_unused: Whether an input that no output depends on gives zeros.
        progress: Show a bar over the chunks (needs ``pullback[progress]``).
        sparsity: What :func:`sparsity` found for f and inputs of these shapes. J is
            then a sparse CSR tensor of shape ``(y.numel(), x.numel())``, its rows and
            columns in the order of ``flatten()``, from one product for each colour
            (small ones together, unless ``chunk_size`` says how many; those that you
            compile as one function go through :meth:`pullback.Sparsity.assemble`). Its
            index tensors are those of the plan. It is differentiable again (through
            ``to_dense`` and ``@``), but not inside the transforms of ``torch.func``.
        verify: Whether to check, by one more product with random numbers, that f has
            no entry outside of the pattern, as it may if f looks at values.
        group: Processes of ``torch.distributed`` that share the work, such as
            ``torch.distributed.group.WORLD``. Each of them makes this same call with the
            same f and inputs, runs f, takes its part of the rows (of the columns with
            ``mode="forward"``), and has the whole of J at the end, without a graph. An
            error in one is an error in all.

    Returns:
        J, on the device of the inputs.

    Raises:
        TypeError: f, an input or an output is of the wrong kind or dtype.
        ValueError: an option is out of range; ``mode="forward"`` is asked of a tensor;
            ``batched=True`` and the batch sizes differ or the samples mix; the plan
            is for other shapes or another input; the ranks of ``group`` have different
            inputs or outputs.
        RuntimeError: f changes an input in place; no output depends on an input (and
            ``allow_unused`` is False); an input or output is complex.
            With a plan: ``verify=True`` finds that f has outgrown it. With a group:
            another rank has raised.
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
    return value_and_jacobian(
        f,
        *inputs,
        argnums=argnums,
        mode=mode,
        chunk_size=chunk_size,
        batched=batched,
        allow_unused=allow_unused,
        progress=progress,
        sparsity=sparsity,
        verify=verify,
        group=group,
    )[1]


def value_and_jacobian(
    f: Callable[..., Any] | Tensor,
    *inputs: Any,
    argnums: int | tuple[int, ...] = 0,
    mode: Mode = "auto",
    chunk_size: int | Literal["auto"] | None = None,
    batched: bool = False,
    allow_unused: bool = False,
    progress: bool = False,
    sparsity: Sparsity | None = None,
    verify: bool = False,
    group: ProcessGroup | None = None,
) -> tuple[Any, Any]:
    """Return ``(f(*inputs), J)`` from one forward pass.

    The arguments, errors and J are those of :func:`jacobian`. (With
    ``mode="forward"`` and a ``chunk_size``, every chunk is a forward pass of its own.)

    Examples:
        >>> import torch, pullback
        >>> pullback.value_and_jacobian(torch.square, torch.tensor([1.0, 2.0]))
        (tensor([1., 4.]), tensor([[2., 0.],
                [0., 4.]]))
    """
    _check_options(f, mode, chunk_size, progress)
    if sparsity is None:
        if verify:
            raise ValueError("verify=True checks a plan; sparsity= is needed with it")
    elif mode != "auto" or batched or progress or group is not None:
        raise ValueError(
            "sparsity was given together with mode, batched, progress or group; the "
            "plan says which products to take, so sparsity alone is needed"
        )
    with grads_kept(f):
        if sparsity is not None:
            return value_and_sparse_jacobian(
                f,
                inputs,
                sparsity,
                argnums=argnums,
                chunk_size=chunk_size,
                allow_unused=allow_unused,
                verify=verify,
            )
        options = Options(chunk_size, batched, progress)
        if group is None:
            return _dense(f, inputs, argnums, mode, allow_unused, options)
        from pullback._ranks import Ranks  # which imports torch.distributed

        ranks = Ranks(group)
        with torch.no_grad(), ranks.together():  # what is gathered has no graph
            options = options._replace(ranks=ranks)
            return _dense(f, inputs, argnums, mode, allow_unused, options)


def _dense(
    f: Callable[..., Any] | Tensor,
    inputs: Sequence[Any],
    argnums: int | tuple[int, ...],
    mode: Mode,
    allow_unused: bool,
    options: Options,
) -> tuple[Any, Any]:
    """Return the value, and J as a strided tensor."""
    indices = check_inputs((lambda: f) if isinstance(f, Tensor) else f, inputs, argnums)
    one = isinstance(argnums, int)
    xs, x_spec = flatten(inputs[indices[0]] if one else tuple(inputs[i] for i in indices))
    _check_real("inputs", xs)
    if options.ranks:
        _check_sharable(xs)

    def g(*xs: Tensor, copied: bool = False) -> Any:
        if isinstance(f, Tensor):
            check_output(f)
            return f
        args = list(inputs)
        x = pytree.tree_unflatten(xs, x_spec)
        for i, x_i in zip(indices, (x,) if one else x, strict=True):
            args[i] = x_i
        with untouched():  # so that every call of f draws the same random numbers
            output = call(f, args, xs if copied else ())
        return output

    if mode == "forward":
        result = _forward(g, xs, options)
    elif torch._C._are_functorch_transforms_active():
        result = _reverse_in_transform(g, xs, options)
    else:
        result = _on_graph(g, xs, options, mode, computed=isinstance(f, Tensor))

    if options.ranks:
        options.ranks.compare(xs, result.ys)
    if not all(result.used) and not allow_unused:
        used = iter(result.used)
        for i in indices:
            used_i = [next(used) for _ in pytree.tree_leaves(inputs[i])]
            if not any(used_i):
                raise RuntimeError(
                    f"the output does not depend on inputs[{i}]; an input that it "
                    "depends on is needed, or allow_unused=True to get zeros"
                )
    rows = [pytree.tree_unflatten(row, x_spec) for row in result.blocks]
    unflatten = result.structure.unflatten
    return unflatten(result.ys), unflatten(rows)


class _Result(NamedTuple):
    ys: list[Tensor]
    structure: pytree.TreeSpec  # of the output whose leaves are ys
    blocks: list[list[Tensor]]  # blocks[i][j] is dy_i/dx_j
    used: Sequence[bool]  # used[j]: does any y depend on x_j?


def _on_graph(
    g: Callable[..., Any],
    xs: list[Tensor],
    options: Options,
    mode: Mode,
    computed: bool,
) -> _Result:
    """Differentiate the graph that one call of g leaves, by rows or by columns."""
    again = torch.is_grad_enabled()  # may the caller differentiate the result?
    if computed:
        if not all(x.requires_grad for x in xs):
            raise RuntimeError(
                "x does not require grad, so the graph of y does not contain it; an x "
                "that y was computed from after x.requires_grad_() is needed"
            )
        ys, structure = flatten(g())
        used, _, alone = reach(ys, xs)
    else:
        # a view leads back to the caller's x; a detached x leads nowhere
        outer = again and any(x.requires_grad for x in xs)
        xs = [x.view_as(x) if outer and x.requires_grad else leaf_of(x) for x in xs]
        with torch.enable_grad():
            xs = [x.clone() for x in xs]  # for f, and what is differentiated
            ys, structure = flatten(g(*xs, copied=True))
        used, captured, alone = reach(ys, xs)
        again = outer or (again and captured)
    _check_outputs(xs, ys, options)
    if alone:
        options = options._replace(chunk_size=1)
    if options.chunk_size == "auto":
        options = options._replace(passing=passing(ys))
    elif options.chunk_size is None and not again:
        options = options._replace(chunk_size=fastest(ys, xs, options))

    blocks = None
    if mode == "auto" and _has_cheaper_columns(ys, xs, options):
        blocks = _columns_on_graph(ys, xs, options, again)
    if blocks is None:
        blocks = by_rows(vjp(ys, xs, again), ys, xs, options)
    if not again and not computed:
        ys = [y.detach() for y in ys]
    return _Result(ys, structure, blocks, used)


def _has_cheaper_columns(ys: list[Tensor], xs: list[Tensor], options: Options) -> bool:
    m = numbers_in(ys, options)
    if m < 256 or m < 2 * numbers_in(xs, options):
        return False
    # several ranks must all take the same way; numbers on meta can check no columns
    return options.ranks is None and not any(y.is_meta for y in ys)


def _columns_on_graph(
    ys: list[Tensor],
    xs: list[Tensor],
    options: Options,
    again: bool,
) -> list[list[Tensor]] | None:
    """Return J by columns, or None where an operation is not twice differentiable.

    v -> J^T v is linear, so its own VJP with t is J t, whatever v is. At a v that is
    not zero the columns must also give v^T J back, which is a check on them.
    """
    with torch.enable_grad():
        ramps = [torch.linspace(1, 2, y.numel(), device=y.device) for y in ys]
        vs = [r.to(y).reshape(y.shape) for r, y in zip(ramps, ys, strict=True)]
        vs = [v.requires_grad_() for v in vs]
        try:
            vJ = vjp(ys, xs, create_graph=True)(*vs)
        except RuntimeError:  # "... is not differentiable twice", "once_differentiable"
            return None
    if not any(w.requires_grad for w in vJ):
        return None
    try:
        columns = apply(vjp(vJ, vs, again), xs, options)
    except RuntimeError:
        return None
    with torch.no_grad():
        pairs = zip(columns, vs, strict=True)
        found = torch.stack([c.flatten(1) @ v.flatten() for c, v in pairs]).sum(0)
        right = torch.cat([(w.sum(0) if options.batched else w).flatten() for w in vJ])
        scale = right.abs().max()
        if not (found - right).abs().max() <= 1e-3 * scale:
            return None
    blocks = columns_to_blocks(columns, ys, xs, options)
    # in the dtype that rows have
    return [[b.to(x.dtype) for b, x in zip(row, xs, strict=True)] for row in blocks]


def _reverse_in_transform(
    g: Callable[..., Any], xs: list[Tensor], options: Options
) -> _Result:
    """Do it as ``torch.func.jacrev`` does, which vmap, grad and jvp compose with."""
    value, pull_back = torch.func.vjp(g, *xs)[:2]
    ys, structure = flatten(value)
    _check_outputs(xs, ys, options)

    def pull(*vs: Tensor) -> tuple[Tensor, ...]:
        return tuple(pull_back(structure.unflatten(vs)))

    blocks = by_rows(pull, ys, xs, options)
    return _Result(ys, structure, blocks, [True] * len(xs))


def _forward(g: Callable[..., Any], xs: list[Tensor], options: Options) -> _Result:
    """Push tangents through f itself, which keeps no graph of it."""
    structure: pytree.TreeSpec | None = None
    xs = [x.contiguous() for x in xs]  # the tangents of an expanded x need room

    def push(*ts: Tensor) -> tuple[Tensor, ...]:
        nonlocal structure
        value, tangents = jvp(g, xs, ts)
        ys, structure = flatten(value)
        _check_outputs(xs, ys, options)
        return (*pytree.tree_leaves(tangents), *ys)

    results = apply(push, xs, options, values=True)
    columns, ys = results[: len(results) // 2], results[len(results) // 2 :]
    assert structure is not None  # push has run
    blocks = columns_to_blocks(columns, ys, xs, options)

    used = [True] * len(xs)
    if not torch._C._are_functorch_transforms_active() and not any(x.is_meta for x in xs):
        nonzero = [any(bool(row[j].any()) for row in blocks) for j in range(len(xs))]
        if not all(nonzero):  # a derivative that is zero, or an x that y never met?
            leaves = [leaf_of(x) for x in xs]
            with torch.enable_grad():
                used = reach(pytree.tree_leaves(g(*leaves)), leaves).used
    return _Result(ys, structure, blocks, used)


def _check_outputs(xs: list[Tensor], ys: list[Tensor], options: Options) -> None:
    _check_real("outputs", ys)
    check_devices(xs, ys)
    if options.batched:
        batches = {tuple(t.shape[:1]) for t in (*xs, *ys)}
        if len(batches) > 1 or () in batches:
            x, y = (", ".join(str(tuple(t.shape)) for t in ts) for ts in (xs, ys))
            raise ValueError(
                f"batched=True, inputs have shape {x} and outputs {y}; inputs (B, *x) "
                "and outputs (B, *y) with one batch size B are needed"
            )


def _check_real(what: str, ts: Sequence[Tensor]) -> None:
    for t in ts:
        if t.is_complex():
            raise RuntimeError(
                f"{what} include a tensor of dtype {t.dtype}; real ones are needed, "
                "since a complex derivative has more than one convention "
                "(torch.view_as_real gives the real and imaginary parts)"
            )


def _check_sharable(xs: Sequence[Tensor]) -> None:
    if torch._C._are_functorch_transforms_active():
        raise RuntimeError(
            "group was given inside a transform of torch.func, which processes cannot "
            "share; a call outside of it is needed"
        )
    for x in xs:
        check_numbers("an input", x)


def _check_options(f: Any, mode: Any, chunk_size: Any, progress: bool) -> None:
    check_mode(mode)
    if mode == "forward" and isinstance(f, Tensor):
        raise ValueError(
            "mode is 'forward' and y is a tensor; forward mode computes y again with "
            "tangents, so the function is needed in place of y (or mode='reverse')"
        )
    if chunk_size not in (None, "auto") and (
        not isinstance(chunk_size, int) or isinstance(chunk_size, bool)
    ):
        raise TypeError(f"chunk_size is {chunk_size!r}; None, 'auto' or an int is needed")
    if isinstance(chunk_size, int) and chunk_size < 1:
        raise ValueError(f"chunk_size is {chunk_size}; at least 1 is needed")
    if progress and not importlib.util.find_spec("tqdm"):
        raise ImportError(
            "progress=True needs tqdm, which is not installed; "
            "pip install 'pullback[progress]' adds it"
        )
