"""Products with a Jacobian, many at a time: the seeds, the chunks, and J put together."""

from __future__ import annotations

import importlib.util
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from pullback._graph import bytes_on_the_way
from pullback._inputs import ChunkSize, Mode, check_chunk_size, check_flag, check_mode
from pullback._samples import Probes
from pullback._torch import apply_to_rows, in_transform, vector_jacobian

if TYPE_CHECKING:
    from pullback._process_group import SharedProducts  # imports torch.distributed

logger = logging.getLogger("pullback")


def ramps(ys: Sequence[Tensor]) -> list[Tensor]:
    """Return a cotangent for each y, from 1 to 2: none of its entries is zero."""
    return [
        torch.linspace(1, 2, y.numel(), dtype=y.dtype, device=y.device).reshape(y.shape)
        for y in ys
    ]


def pulled(
    ys: Sequence[Tensor], xs: Sequence[Tensor]
) -> tuple[list[Tensor], tuple[Tensor, ...]]:
    """Return a v, and v^T J with a graph: v -> J^T v is linear, so any v has its J.

    Raises:
        RuntimeError: a backward has no derivative, and says so.
    """
    with torch.enable_grad():
        vs = [v.requires_grad_() for v in ramps(ys)]
        return vs, vjp(ys, xs, create_graph=True)(*vs)


# v_1, ..., v_k -> v^T J, one tensor for each x; or t_1, ..., t_k -> J t, one for each y
Product = Callable[..., tuple[Tensor, ...]]

#: ``chunk_size="auto"`` keeps what one chunk holds under this: its seeds and results, and
#: what is on its way through the graph.
CHUNK_BYTES = 64 * 2**20

#: On a CPU, products that take twice that or more go through in pieces of this size, as
#: much as three times as fast: large tensors are new memory from the system each time.
PIECE_BYTES = 8 * 2**20


class Options(NamedTuple):
    """How the caller of ``jacobian`` wants the products taken."""

    mode: Mode = "auto"
    chunk_size: ChunkSize = None
    batched: bool = False
    allow_unused: bool = False
    progress: bool = False
    bytes_each: int = 0  # bytes that one product needs on its way through the graph
    fastest: int | None = None  # products at a time where chunk_size is None; all if None
    group: SharedProducts | None = None  # processes that share the products
    decide: Callable[[bool], float | None] | None = None  # what mixes, by f in float64

    def are_plain(self) -> bool:
        """Tell whether all products go together, and nothing else is asked."""
        asked = self.chunk_size or self.fastest or self.group or self.batched
        return not (asked or self.progress)

    def check(self) -> None:
        """Raise TypeError, ValueError or ImportError unless all can be done."""
        check_mode(self.mode)
        check_chunk_size(self.chunk_size)
        check_flag("batched", self.batched)
        check_flag("allow_unused", self.allow_unused)
        check_progress(self.progress)


def check_progress(progress: bool) -> None:
    """Raise TypeError or ImportError unless progress says whether to show a bar."""
    check_flag("progress", progress)
    if progress and not importlib.util.find_spec("tqdm"):
        raise ImportError(
            "progress=True needs tqdm, which is not installed; "
            "pip install 'pullback[progress]' adds it"
        )


#: What torch says where a compiled backward may not run for several v, or twice.
ONE_BACKWARD = "donated buffers|aot_autograd does not currently support double backward"


def vjp(ys: Sequence[Tensor], xs: Sequence[Tensor], create_graph: bool) -> Product:
    """Return v -> v^T J from the graph of the ys, which stays; zeros where no path is."""
    live = [i for i, y in enumerate(ys) if y.requires_grad]  # the others are constants
    outputs, inputs = tuple([ys[i] for i in live]), tuple(xs)

    def pull(*vs: Tensor) -> tuple[Tensor, ...]:
        if not live:
            return tuple([torch.zeros_like(x) for x in xs])
        try:
            found = vector_jacobian(outputs, [vs[i] for i in live], inputs, create_graph)
        except RuntimeError as error:
            if re.search(ONE_BACKWARD, str(error)):
                raise RuntimeError(
                    "y comes from a compiled function, whose backward runs once, for one "
                    "v, and has no derivative; the function is needed in place of y, as in "
                    "pullback.jacobian(f, x), which takes it as it was before torch."
                    "compile, or y from a call under torch.compiler.set_stance("
                    "'force_eager')"
                ) from error
            raise
        pairs = zip(found, xs, strict=True)
        return tuple(
            [
                torch.zeros_like(x, requires_grad=create_graph) if r is None else r
                for r, x in pairs
            ]
        )

    return pull


def fastest_count(count: int, ys: list[Tensor], xs: list[Tensor]) -> int | None:
    """Return how many of ``count`` products are fastest together, None for all."""
    ends = sum([t.nbytes for t in (*ys, *xs)])
    # to look at the graph would take longer than it gains
    small = count < 64 and count * ends < 2**20
    if small or ys[0].device.type != "cpu":
        return None
    one = ends + bytes_on_the_way(ys)
    return max(1, PIECE_BYTES // one) if count * one >= 2 * PIECE_BYTES else None


def by_rows(
    pull: Product, ys: list[Tensor], xs: list[Tensor], options: Options
) -> list[list[Tensor]]:
    """Return J by the rows that ``pull`` gives: block i, j is that of y_i and x_j."""
    lead = int(options.batched)
    results = apply(pull, ys, options)
    # (m, *x) -> y.shape + x.shape, and (m, B, *x) -> (B, *y, *x)
    if lead:
        results = [r.movedim(0, lead) for r in results]
    split = [_split(r, ys, lead, lead) for r in results]
    return [
        [_reshape(split[j][i], y.shape + x.shape[lead:]) for j, x in enumerate(xs)]
        for i, y in enumerate(ys)
    ]


def columns_to_blocks(
    columns: list[Tensor], ys: list[Tensor], xs: list[Tensor], options: Options
) -> list[list[Tensor]]:
    """Return J cut into blocks: block i, j is that of y_i and x_j."""
    lead = int(options.batched)
    # (n, *y) -> y.shape + x.shape, and (n, B, *y) -> (B, *y, *x)
    split = [_split(c.movedim(0, -1), xs, lead, -1) for c in columns]
    return [
        [_reshape(split[i][j], y.shape + x.shape[lead:]) for j, x in enumerate(xs)]
        for i, y in enumerate(ys)
    ]


def _reshape(t: Tensor, shape: torch.Size) -> Tensor:
    return t if t.shape == shape else t.reshape(shape)


def _split(t: Tensor, like: list[Tensor], lead: int, dim: int) -> Sequence[Tensor]:
    """Cut ``dim`` of t into a piece for each tensor, as long as it has numbers."""
    if len(like) == 1:
        return (t,)
    return t.split_with_sizes([u.shape[lead:].numel() for u in like], dim)


def apply(
    product: Product, like: list[Tensor], options: Options, values: bool = False
) -> list[Tensor]:
    """Apply ``product`` to one-hot seeds shaped as ``like``, chunk by chunk.

    Its results get one dimension more, the first, along the seeds. If it returns as
    many ``values`` after them, which are the same for every seed, one of each is kept.
    """
    numbers = numbers_in(like, options)
    if numbers and not values and options.are_plain():
        return list(Together(product, None)(one_hot(like, 0, numbers, False)))
    start, total = 0, max(numbers, 1)  # for no numbers, one empty seed
    if options.group:  # past the last number, seeds are empty, too
        start, total = options.group.share(total)
    take, made = Together(product, options.chunk_size), Joined(total - start)
    probes = Probes(like, options.decide) if _are_samples(like, options) else None
    size = options.fastest or made.total
    if options.chunk_size:  # "auto" learns from one product how many fit
        size = 1 if options.chunk_size == "auto" else options.chunk_size
    constants: Sequence[Tensor] = ()
    shown = options.progress
    with progress_bar("jacobian", "product", made.total) if shown else nullcontext() as bar:
        while start < total:
            stop = min(start + size, total)
            probing = probes is not None and stop == total  # with the last chunk
            seeds = one_hot(like, start, stop, options.batched, room=2 * probing)
            if probes and probing:
                for seed, own in zip(seeds, probes.seeds(), strict=True):
                    seed[-2:] = own
            rows: Sequence[Tensor] = take(seeds)
            if options.chunk_size == "auto" and not made.done:
                used = sum(t.nbytes for t in (*seeds, *rows)) + options.bytes_each
                size = max(1, CHUNK_BYTES // max(1, used))
            if values:
                half = len(rows) // 2
                rows, constants = rows[:half], [value[0] for value in rows[half:]]
            if probing:
                rows, probed = [r[:-2] for r in rows], [r[-2:] for r in rows]
            made.add(rows, stop - start)
            if bar is not None:
                bar.update(stop - start)
            start = stop
    whole = made.tensors()
    if options.group:
        whole = options.group.gather(whole)
    whole = [w[:numbers] if w.shape[0] > numbers else w for w in whole]
    if probes:
        probes.check(probed, whole, lambda seeds: take(seeds)[: len(whole)])
    return [*whole, *constants]


def rows_in_chunks(
    take: Together, ys: list[Tensor], bytes_each: int, batched: bool = False
) -> Iterator[tuple[int, int, tuple[Tensor, ...]]]:
    """Yield some rows of J at a time, and which: from where, and to where.

    Args:
        take: Products of many seeds at once.
        ys: What the rows are of.
        bytes_each: What one of them takes; so many go together as keep under a limit.
        batched: Whether a row is that of one number of every sample.
    """
    total = numbers_in(ys, Options(batched=batched))
    size = max(1, CHUNK_BYTES // max(1, bytes_each))
    for start in range(0, total, size):
        stop = min(start + size, total)
        yield start, stop, take(one_hot(ys, start, stop, batched))


def _are_samples(like: list[Tensor], options: Options) -> bool:
    """Tell whether there are samples that must not mix, and numbers by which to tell."""
    return options.batched and not in_transform() and not any(t.is_meta for t in like)


class Joined:
    """The results of one chunk after the other, put together.

    Where no graph needs the chunks, each goes at once to where it belongs, so that all of
    them are never there twice.

    Args:
        total: How many there are of all chunks.
    """

    def __init__(self, total: int) -> None:
        self.total, self.done = total, 0
        self._pieces: list[Sequence[Tensor]] = []
        self._whole: list[Tensor] = []

    def add(self, rows: Sequence[Tensor], count: int) -> None:
        """Add the results of the next ``count``."""
        if count < self.total and not self.done and not _in_graph(rows):
            self._whole = [r.new_empty(self.total, *r.shape[1:]) for r in rows]
        if self._whole:
            for whole, part in zip(self._whole, rows, strict=True):
                whole[self.done : self.done + count] = part
        else:
            self._pieces.append(rows)
        self.done += count

    def tensors(self) -> list[Tensor]:
        """Return all results."""
        if len(self._pieces) == 1:
            return list(self._pieces[0])
        return self._whole or [torch.cat(p) for p in zip(*self._pieces, strict=True)]


def _in_graph(ts: Sequence[Tensor]) -> bool:
    """Tell whether someone may differentiate or batch the tensors again."""
    if in_transform():
        return True
    return any(t.requires_grad for t in ts)


class Together:
    """Products of many seeds at once; one by one where vmap cannot, if that is left open.

    Args:
        product: v -> v^T J, or t -> J t.
        chunk_size: What the caller said: 1 is one by one, another int is not left open.
    """

    def __init__(self, product: Product, chunk_size: ChunkSize) -> None:
        self.product = product
        self.alone = chunk_size == 1  # which holds for probes, too
        self.left_open = not isinstance(chunk_size, int)

    def __call__(self, seeds: list[Tensor]) -> tuple[Tensor, ...]:
        """Apply the product to every row of the seeds."""
        count = seeds[0].shape[0]
        if count == 1:
            return tuple(r.unsqueeze(0) for r in self.product(*(s[0] for s in seeds)))
        if not self.alone:
            try:
                return apply_to_rows(self.product, seeds)
            except (RuntimeError, TypeError) as error:  # a TypeError of torch.cond in 2.6
                if not self.left_open:
                    if re.search("vmap|batching rule", str(error)):
                        error.add_note(
                            f"pullback: {count} products ran together under torch.func."
                            "vmap; with chunk_size=1 each runs on its own"
                        )
                    raise
                reason = str(error).partition("\n")[0]
            self.alone = True
            logger.info("products run one by one, for together they raise: %s", reason)
        each = [self.product(*row) for row in zip(*seeds, strict=True)]
        return tuple([torch.stack(r) for r in zip(*each, strict=True)])


def progress_bar(what: str, unit: str, total: int | None = None) -> Any:
    """Return a bar of tqdm."""
    from tqdm import tqdm  # type: ignore[import-untyped]

    return tqdm(total=total, desc=what, unit=unit)


def one_hot(
    like: list[Tensor], start: int, stop: int, batched: bool, room: int = 0
) -> list[Tensor]:
    """Rows start to stop of the identity, cut into one piece for each tensor.

    Behind the last row there may be room for others.
    """
    if len(like) == 1 and not batched and start == 0 and stop == like[0].numel():
        t = like[0]
        eye = torch.eye(stop, dtype=t.dtype, device=t.device)
        return [_reshape(eye, torch.Size((stop, *t.shape)))]
    seeds, offset = [], 0
    for t in like:
        # the same number of every sample at once, which is the sum trick
        samples, numbers = (len(t), t.shape[1:].numel()) if batched else (1, t.numel())
        count = stop - start + room
        eye = torch.zeros(count, samples, numbers, dtype=t.dtype, device=t.device)
        eye.diagonal(start - offset, 0, 2).fill_(1)
        seeds.append(eye.reshape(count, *t.shape))
        offset += numbers
    return seeds


def numbers_in(ts: Sequence[Tensor], options: Options) -> int:
    """Count the numbers in ``ts``, those of one sample if batched."""
    if not options.batched:
        return sum([t.numel() for t in ts])
    return sum([t.shape[1:].numel() for t in ts])
