"""The Jacobian, whole: ``y.shape + x.shape`` from one call."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch._C import _functorch as functorch
from torch.utils import _pytree as pytree

from pullback._inputs import (
    call,
    check_devices,
    check_inputs,
    check_numbers,
    check_output,
    jvp,
    leaf_of,
    untouched,
)

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

    from pullback._ranks import Ranks
    from pullback._sparse.plan import Sparsity

Mode = Literal["auto", "reverse", "forward"]
# v_1, ..., v_k -> v^T J, one tensor for each x; or t_1, ..., t_k -> J t, one for each y
Product = Callable[..., tuple[Tensor, ...]]

#: ``chunk_size="auto"`` keeps what one chunk holds under this: its seeds and results, and
#: what is on its way through the graph.
CHUNK_BYTES = 64 * 2**20


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
    reverse mode, keeps the graph of y, and leaves every ``.grad`` as it is.

    **Modes.** With m output numbers and n input numbers, reverse mode takes m
    vector-Jacobian products, a row each, and forward mode n Jacobian-vector products,
    a column each (Griewank and Walther, *Evaluating Derivatives*, 2nd ed., 2008,
    chapters 3 and 8). ``"auto"`` calls f once and works on the graph that it left:
    rows, unless m >= 2 n and m >= 256, where columns were measured to be faster
    (below that their fixed cost, a second graph, is more than they save).
    The columns come from the same graph, as the derivative of :math:`v\mapsto
    J^\top v`, and are checked against one product; where an operation is not
    twice differentiable, auto takes rows. ``"forward"`` runs f under
    :func:`torch.func.jvp`, once for each chunk, and needs no graph.

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
        chunk_size: Products at a time: None for all, an int, or ``"auto"`` for as many
            as keep their seeds and results, and what they hold on their way through
            the graph, within 64 MiB (``"forward"``, which has no graph, counts seeds
            and results). With 1, nothing runs under :func:`torch.func.vmap` and its
            limits do not apply.
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
            (small ones together, unless ``chunk_size`` says how many). Its
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
    if sparsity is not None:
        from pullback._sparse.compressed import (
            value_and_sparse_jacobian,  # which needs this module
        )

        if mode != "auto" or batched or progress or group is not None:
            raise ValueError(
                "sparsity was given together with mode, batched, progress or group; the "
                "plan says which products to take, so sparsity alone is needed"
            )
        return value_and_sparse_jacobian(
            f,
            inputs,
            sparsity,
            argnums=argnums,
            chunk_size=chunk_size,
            allow_unused=allow_unused,
            verify=verify,
        )
    if verify:
        raise ValueError("verify=True checks a plan; sparsity= is needed with it")
    options = _Options(chunk_size, batched, progress)
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
    options: _Options,
) -> tuple[Any, Any]:
    """Return the value, and J as a strided tensor."""
    indices = check_inputs((lambda: f) if isinstance(f, Tensor) else f, inputs, argnums)
    xs, x_spec = pytree.tree_flatten(tuple(inputs[i] for i in indices))
    _check_real("inputs", xs)
    if options.ranks:
        _check_sharable(xs)

    def g(*xs: Tensor, copied: bool = False) -> Any:
        if isinstance(f, Tensor):
            check_output(f)
            return f
        args = list(inputs)
        for i, x in zip(indices, pytree.tree_unflatten(xs, x_spec), strict=True):
            args[i] = x
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
    if isinstance(argnums, int):
        rows = [row[0] for row in rows]
    unflatten = result.structure.unflatten
    return unflatten(result.ys), unflatten(rows)


class _Options(NamedTuple):
    chunk_size: int | Literal["auto"] | None
    batched: bool
    progress: bool
    passing: int = 0  # bytes that one product needs on its way through the graph
    ranks: Ranks | None = None  # processes that share the products


class _Result(NamedTuple):
    ys: list[Tensor]
    structure: pytree.TreeSpec  # of the output whose leaves are ys
    blocks: list[list[Tensor]]  # blocks[i][j] is dy_i/dx_j
    used: Sequence[bool]  # used[j]: does any y depend on x_j?


def _on_graph(
    g: Callable[..., Any],
    xs: list[Tensor],
    options: _Options,
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
        ys, structure = pytree.tree_flatten(g())
        used, _ = _reach(ys, xs)
    else:
        # a view leads back to the caller's x; a detached x leads nowhere
        outer = again and any(x.requires_grad for x in xs)
        xs = [x.view_as(x) if outer and x.requires_grad else leaf_of(x) for x in xs]
        with torch.enable_grad():
            xs = [x.clone() for x in xs]  # for f, and what is differentiated
            ys, structure = pytree.tree_flatten(g(*xs, copied=True))
        used, captured = _reach(ys, xs)
        again = outer or (again and captured)
    _check_outputs(xs, ys, options)
    if options.chunk_size == "auto":
        options = options._replace(passing=_passing(ys))
    live = [i for i, y in enumerate(ys) if y.requires_grad]  # the others are constants

    def pull(*vs: Tensor, create_graph: bool = again) -> tuple[Tensor, ...]:
        if not live:
            return tuple(torch.zeros_like(x) for x in xs)
        return torch.autograd.grad(
            [ys[i] for i in live],
            xs,
            [vs[i] for i in live],
            retain_graph=True,
            create_graph=create_graph,
            allow_unused=True,
            materialize_grads=True,
        )

    m, n = _numbers(ys, options), _numbers(xs, options)
    blocks = None
    several = options.ranks is not None  # who must all take the same way
    meta = any(y.is_meta for y in ys)
    if mode == "auto" and m >= max(2 * n, 256) and not several and not meta:
        blocks = _columns_on_graph(pull, ys, xs, options, again)
    if blocks is None:
        blocks = _by_rows(pull, ys, xs, options)
    if not again and not computed:
        ys = [y.detach() for y in ys]
    return _Result(ys, structure, blocks, used)


def _columns_on_graph(
    pull: Callable[..., tuple[Tensor, ...]],
    ys: list[Tensor],
    xs: list[Tensor],
    options: _Options,
    again: bool,
) -> list[list[Tensor]] | None:
    """Return J by columns, or None where an operation is not twice differentiable.

    v -> J^T v is linear, so its own VJP with t is J t, whatever v is. At a v that is
    not zero the columns must also give v^T J back, which is a check on them.
    """
    with torch.enable_grad():
        vs = [torch.linspace(1, 2, y.numel()).to(y).reshape(y.shape) for y in ys]
        vs = [v.requires_grad_() for v in vs]
        try:
            vJ = pull(*vs, create_graph=True)
        except RuntimeError:  # "... is not differentiable twice", "once_differentiable"
            return None
    live = [j for j, w in enumerate(vJ) if w.requires_grad]
    if not live:
        return None

    def push(*ts: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(
            [vJ[j] for j in live],
            vs,
            [ts[j] for j in live],
            retain_graph=True,
            create_graph=again,
            allow_unused=True,
            materialize_grads=True,
        )

    try:
        columns = _apply(push, xs, options)
    except RuntimeError:
        return None
    with torch.no_grad():
        pairs = zip(columns, vs, strict=True)
        found = torch.stack([c.flatten(1) @ v.flatten() for c, v in pairs]).sum(0)
        right = torch.cat([(w.sum(0) if options.batched else w).flatten() for w in vJ])
        scale = right.abs().max()
        if not (found - right).abs().max() <= 1e-3 * scale:
            return None
    return _columns_to_blocks(columns, ys, xs, options)


def _reverse_in_transform(
    g: Callable[..., Any], xs: list[Tensor], options: _Options
) -> _Result:
    """Do it as ``torch.func.jacrev`` does, which vmap, grad and jvp compose with."""
    value, vjp = torch.func.vjp(g, *xs)[:2]
    ys, structure = pytree.tree_flatten(value)
    _check_outputs(xs, ys, options)

    def pull(*vs: Tensor) -> tuple[Tensor, ...]:
        return tuple(vjp(structure.unflatten(vs)))

    blocks = _by_rows(pull, ys, xs, options)
    return _Result(ys, structure, blocks, [True] * len(xs))


def _forward(g: Callable[..., Any], xs: list[Tensor], options: _Options) -> _Result:
    """Push tangents through f itself, which keeps no graph of it."""
    structure: pytree.TreeSpec | None = None
    xs = [x.contiguous() for x in xs]  # the tangents of an expanded x need room

    def push(*ts: Tensor) -> tuple[Tensor, ...]:
        nonlocal structure
        value, tangents = jvp(g, xs, ts)
        ys, structure = pytree.tree_flatten(value)
        _check_outputs(xs, ys, options)
        return (*pytree.tree_leaves(tangents), *ys)

    results = _apply(push, xs, options, values=True)
    columns, ys = results[: len(results) // 2], results[len(results) // 2 :]
    assert structure is not None  # push has run
    blocks = _columns_to_blocks(columns, ys, xs, options)

    used = [True] * len(xs)
    if not torch._C._are_functorch_transforms_active() and not any(x.is_meta for x in xs):
        nonzero = [any(bool(row[j].any()) for row in blocks) for j in range(len(xs))]
        if not all(nonzero):  # a derivative that is zero, or an x that y never met?
            leaves = [leaf_of(x) for x in xs]
            with torch.enable_grad():
                used, _ = _reach(pytree.tree_leaves(g(*leaves)), leaves)
    return _Result(ys, structure, blocks, used)


def _by_rows(
    pull: Product, ys: list[Tensor], xs: list[Tensor], options: _Options
) -> list[list[Tensor]]:
    lead = int(options.batched)
    results = _apply(pull, ys, options)
    # (m, *x) -> y.shape + x.shape, and (m, B, *x) -> (B, *y, *x)
    split = [_split(r.movedim(0, lead), ys, lead, lead) for r in results]
    return [
        [split[j][i].reshape(y.shape + x.shape[lead:]) for j, x in enumerate(xs)]
        for i, y in enumerate(ys)
    ]


def _columns_to_blocks(
    columns: list[Tensor], ys: list[Tensor], xs: list[Tensor], options: _Options
) -> list[list[Tensor]]:
    lead = int(options.batched)
    # (n, *y) -> y.shape + x.shape, and (n, B, *y) -> (B, *y, *x)
    split = [_split(c.movedim(0, -1), xs, lead, -1) for c in columns]
    return [
        [split[i][j].reshape(y.shape + x.shape[lead:]) for j, x in enumerate(xs)]
        for i, y in enumerate(ys)
    ]


def _split(t: Tensor, like: list[Tensor], lead: int, dim: int) -> Sequence[Tensor]:
    """Cut ``dim`` of t into a piece for each tensor, as long as it has numbers."""
    if len(like) == 1:
        return (t,)
    return t.split_with_sizes([u.shape[lead:].numel() for u in like], dim)


def _apply(
    product: Product, like: list[Tensor], options: _Options, values: bool = False
) -> list[Tensor]:
    """Apply ``product`` to one-hot seeds shaped as ``like``, chunk by chunk.

    Its results get one dimension more, the first, along the seeds. If it returns as
    many ``values`` after them, which are the same for every seed, one of each is kept.
    """
    numbers = _numbers(like, options)
    start, total = 0, max(numbers, 1)  # for no numbers, one empty seed
    if options.ranks:  # past the last number, seeds are empty, too
        start, total = options.ranks.share(total)
    first = start
    probes: list[Tensor] = []
    active = torch._C._are_functorch_transforms_active()
    if options.batched and not active and not any(t.is_meta for t in like):
        probes = _probes(like)
    # "auto" learns from one product how many fit
    size = 1 if options.chunk_size == "auto" else options.chunk_size or total - first
    bar = _bar(total - first) if options.progress else None
    pieces: list[Sequence[Tensor]] = []
    whole: list[Tensor] = []  # or where the pieces go at once, if no graph needs them
    while start < total:
        stop = min(start + size, total)
        seeds = _one_hot(like, start, stop, options.batched)
        if probes and stop == total:  # they travel with the last chunk
            seeds = [torch.cat(pair) for pair in zip(seeds, probes, strict=True)]
        rows: Sequence[Tensor] = _products(product, seeds)
        if start == first:
            if options.chunk_size == "auto":
                used = sum(t.numel() * t.element_size() for t in (*seeds, *rows))
                size = max(1, CHUNK_BYTES // max(1, used + options.passing))
            count = len(rows) // (1 + values)
            constants = [value[0] for value in rows[count:]]
        rows = rows[:count]
        if probes and stop == total:
            _check_probes([r[-2:] for r in rows])
            rows = [r[:-2] for r in rows]
        if start == first and stop < total and not _in_graph(rows):
            whole = [r.new_empty(total - first, *r.shape[1:]) for r in rows]
        if whole:
            for w, r in zip(whole, rows, strict=True):
                w[start - first : stop - first] = r
        else:
            pieces.append(rows)
        if bar is not None:
            bar.update(stop - start)
        start = stop
    if bar is not None:
        bar.close()
    if len(pieces) == 1:
        whole = list(pieces[0])
    elif pieces:
        whole = [torch.cat(parts) for parts in zip(*pieces, strict=True)]
    if options.ranks:
        whole = options.ranks.gather(whole)
    return [*(w[:numbers] for w in whole), *constants]


def _in_graph(ts: Sequence[Tensor]) -> bool:
    """Tell whether someone may differentiate or batch the tensors again."""
    if torch._C._are_functorch_transforms_active():
        return True
    return any(t.requires_grad for t in ts)


def _products(product: Product, seeds: list[Tensor]) -> tuple[Tensor, ...]:
    """Apply ``product`` to every row of the seeds at once."""
    count = len(seeds[0])
    if count == 1:
        return tuple(r.unsqueeze(0) for r in product(*(seed[0] for seed in seeds)))
    # What torch.func.vmap does to tensors, without its handling of nested arguments,
    # which takes longer than a small product. (Not is_grads_batched, whose older vmap
    # takes many operations one by one.)
    level = functorch._vmap_increment_nesting(count, "same")
    try:
        rows = product(*(functorch._add_batch_dim(seed, 0, level) for seed in seeds))
        return tuple(functorch._remove_batch_dim(r, level, count, 0) for r in rows)
    finally:
        functorch._vmap_decrement_nesting()


def _bar(total: int) -> Any:
    from tqdm import tqdm  # type: ignore[import-untyped]

    return tqdm(total=total, desc="jacobian", unit="product")


def _one_hot(like: list[Tensor], start: int, stop: int, batched: bool) -> list[Tensor]:
    """Rows start to stop of the identity, cut into one piece for each tensor."""
    if len(like) == 1 and not batched and start == 0 and stop == like[0].numel():
        t = like[0]
        eye = torch.eye(stop, dtype=t.dtype, device=t.device)
        return [eye.reshape(stop, *t.shape)]
    seeds, offset = [], 0
    for t in like:
        shape = t.shape[1:] if batched else t.shape
        eye = torch.zeros(stop - start, shape.numel(), dtype=t.dtype, device=t.device)
        eye.diagonal(start - offset).fill_(1)
        seed = eye.reshape(stop - start, *shape)
        if batched:  # the same number of every sample at once, which is the sum trick
            seed = seed.unsqueeze(1).expand(-1, len(t), *shape).contiguous()
        seeds.append(seed)
        offset += shape.numel()
    return seeds


def _probes(like: list[Tensor]) -> list[Tensor]:
    """Return two seeds: random numbers on half of the samples, and on the others."""
    generator = torch.Generator().manual_seed(0)  # any seed; the caller's is not used
    half = _half(like[0])
    probes = []
    for t in like:
        noise = torch.rand(t.shape, generator=generator).to(t)
        inside = half.reshape(-1, *[1] * (t.ndim - 1))
        probes.append(torch.stack([noise * inside, noise * ~inside]))
    return probes


def _half(t: Tensor) -> Tensor:
    """Choose half of the samples of t, always the same ones for one batch size."""
    generator = torch.Generator().manual_seed(0)
    return (torch.randperm(len(t), generator=generator) < len(t) // 2).to(t.device)


def _check_probes(results: list[Tensor]) -> None:
    """Raise if a seed on half of the samples has a result on the other half."""
    for result in results:
        half = _half(result[0])
        for leak in (result[0][~half], result[1][half]):
            if bool(((leak != 0) & ~leak.isnan()).any()):
                raise ValueError(
                    "batched=True, and f mixes samples: an output of one depends on "
                    "the input of another; a function that treats each sample on its "
                    "own is needed, or batched=False (pullback.mixing shows which)"
                )


def _reach(ys: list[Tensor], xs: list[Tensor]) -> tuple[list[bool], bool]:
    """Walk the graph: which xs do the ys reach, and do they reach another leaf?"""
    ends = [_edge(x) for x in xs]
    todo = [_edge(y) for y in ys if y.requires_grad]
    seen: set[Any] = set()
    other = False
    stop = {end[0] for end in ends}
    while todo:
        node, nr = todo.pop()
        if node is None or (node, nr) in seen:
            continue
        seen.add((node, nr))
        if node not in stop:
            other = other or not node.next_functions
            todo += node.next_functions
    return [end in seen for end in ends], other


def _passing(ys: list[Tensor]) -> int:
    """Return the bytes that one product holds on its way through the graph.

    Counted as the two largest cotangents, one in and one out of a node, and as much
    again for what the node's formula makes in between.
    """
    todo: list[Any] = [y.grad_fn for y in ys]
    seen: set[Any] = set()
    sizes = [0, 0]
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        sizes += [math.prod(t.shape) * t.dtype.itemsize for t in node._input_metadata]
        todo += [following for following, _ in node.next_functions]
    return 2 * sum(sorted(sizes)[-2:])


def _edge(t: Tensor) -> tuple[Any, int]:
    if t.grad_fn is None:  # a leaf
        edge = torch.autograd.graph.get_gradient_edge(t)
        return edge.node, edge.output_nr
    return t.grad_fn, t.output_nr


def _numbers(ts: Sequence[Tensor], options: _Options) -> int:
    """Count the numbers in ``ts``, those of one sample if batched."""
    return sum(t.shape[options.batched :].numel() for t in ts)


def _check_outputs(xs: list[Tensor], ys: list[Tensor], options: _Options) -> None:
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
    if mode not in ("auto", "reverse", "forward"):
        raise ValueError(f"mode is {mode!r}; 'auto', 'reverse' or 'forward' is needed")
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
