"""Runs f and its product once and writes down, operation by operation, what is computed."""

from __future__ import annotations

import linecache
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from inspect import signature
from pathlib import Path
from traceback import walk_tb
from types import FrameType, TracebackType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import get_gradient_edge

from pullback._frames import frames
from pullback._graph import nodes_from
from pullback._live_operators import CONSTANT, RULES, Lacking, check_integers
from pullback._live_program import Program, extent, places
from pullback._site import is_own_file
from pullback._torch import (
    OpOverload,
    TorchDispatchMode,
    decomposition,
    node_number,
    number_of,
    product_of,
    pytree,
    schema,
    storage_key,
)

CALLERS = {str(Path(__file__).with_name(f"_live{part}.py")) for part in ("", "_again")}
HALF, STRIDED = (torch.float16, torch.bfloat16), torch.strided
#: Operations that write the arguments of these numbers, and whose schemas do not say so.
SILENT = {"native_batch_norm": (3, 4), "cudnn_batch_norm": (3, 4)}
SHAPES = {"is_same_size", "_has_same_storage_numel"}  # at which they look, not at values
DROPOUT = {"bernoulli_", "native_dropout"}


class Lent(dict[int, tuple[Any, Any]]):
    """The memory of tensors that f wrote into and did not make, and what it held before.

    A BatchNorm in training mode writes its running statistics, and looking at a picture of
    it is no training step: at the end of the block all is as it was.
    """

    def __enter__(self) -> Lent:
        return self

    def __exit__(self, *error: object) -> None:
        for memory, numbers in self.values():
            memory.copy_(numbers)


class Watched(TorchDispatchMode):
    """Keeps what f writes into, unless f has made it, and refuses to write into x."""

    supports_higher_order_operators = True

    def __init__(self, x: Tensor, lent: Lent) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.x, self.lent = x, lent
        self.refused: Exception | None = None  # which f may have caught
        self.made: dict[int, Tensor] = {}  # by f; no memory is used twice

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        """Raise what f has caught."""
        super().__exit__(kind, error, trace)  # type: ignore[no-untyped-call]
        if error is None and self.refused:
            raise self.refused

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if not isinstance(func, OpOverload):
            return func(*args, **kwargs)
        for t in written(func, args, kwargs):
            key, memory = storage_key(t), t.untyped_storage()
            if key == storage_key(self.x):
                reason = (
                    "f changed x in place; f must return a new tensor and leave x alone "
                    "(x.add(1) in place of x.add_(1), or start f with x = x.clone())"
                )
                self.refused = RuntimeError(at(reason, place_in_f()))
                raise self.refused
            if key not in self.made and key not in self.lent:
                self.lent[key] = memory, memory.clone()
        out = func(*args, **kwargs)
        fresh = named(func) == "lift_fresh"  # what torch.tensor() has made
        given = {storage_key(t) for t in strided(args, kwargs) if not fresh}
        for t in strided(out):
            if storage_key(t) not in given:
                self.made[storage_key(t)] = t
        return out


class Operation(NamedTuple):
    """An operation that ran, what it was given, and the line of f."""

    name: str
    given: list[Any]
    place: str


class Listed(TorchDispatchMode):
    """Keeps each operation that runs."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found: list[Operation] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        parts = pytree.tree_leaves((args, kwargs or {}))
        given = [t.detach().clone() if isinstance(t, Tensor) else t for t in parts]
        self.found.append(Operation(str(func), given, place_in_f()))
        return func(*args, **kwargs or {})


def written(func: Any, args: Any, kwargs: Any) -> Iterator[Tensor]:
    """Yield the tensors that an operation writes."""
    silent = SILENT.get(named(func), ())
    for i, argument in enumerate(schema(func).arguments):
        if i in silent or (argument.alias_info and argument.alias_info.is_write):
            yield from strided(args[i] if i < len(args) else kwargs.get(argument.name))


def strided(*values: Any) -> Iterator[Tensor]:
    """Yield the tensors in values whose numbers lie in one piece of memory."""
    for t in pytree.tree_leaves(values):
        if isinstance(t, Tensor) and t.layout is torch.strided:
            yield t


def named(func: Any) -> str:
    """Return the name of an operation, without its overload."""
    name: str = schema(func).name.partition("::")[2]
    return name


class Doubled(TorchDispatchMode):
    """Computes everything in float64: constants and what f makes in float32, too.

    So a function whose parameters are float32 can be followed in the numbers of a page,
    which have no other kind.

    Attributes:
        made: The results that a node of the graph was made for, by its number and theirs.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.made: dict[int, dict[int, Any]] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        number = node_number()
        kept: dict[int, Any] = {}
        first = self.made.setdefault(number, kept) is kept
        out = self.run(func, *pytree.tree_map(doubled, (args, kwargs or {})))
        if first:  # what has no node of its own comes after what has the newest
            for place, t in enumerate(out if isinstance(out, tuple | list) else [out]):
                if isinstance(t, Tensor) and t.is_floating_point():
                    kept[place] = self.keep(t)
        return out

    def run(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operation."""
        return pytree.tree_map(doubled, func(*args, **kwargs))

    def keep(self, t: Tensor) -> Any:
        """Return a tensor as it is now."""
        return t.detach().clone()


@contextmanager
def as_without_modes(y: Tensor) -> Iterator[None]:
    """Have the backward of each ``prod`` behind y compute as torch does without a mode.

    It divides the result by each factor if none is 0, and under a mode multiplies the
    others, which is another number where the result is too small or too large.
    """
    handles = [
        node.register_hook(partial(_divided, node))
        for node in nodes_from([get_gradient_edge(y).node])
        if product_of(node)
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _divided(node: Any, sent: Any, arrived: Any) -> Any:
    kept = product_of(node)
    if kept is None or sent[0] is None or not kept[0].ndim:
        return None
    factors, result, dim, keeps = kept
    (v,) = arrived
    if dim is not None and not keeps:
        result, v = result.unsqueeze(dim), v.unsqueeze(dim)
    return (torch.where((factors == 0).any(), sent[0], v * (result / factors)),)


def doubled(value: Any) -> Any:
    """Return a tensor, or a dtype, of double precision if it is of single precision."""
    if isinstance(value, Tensor) and value.dtype in (torch.float32, *HALF):
        return value.double()
    return torch.float64 if value is torch.float32 else value


class Recorder(Doubled):
    """Runs every operation, and writes down those that depend on x or v.

    What a tensor holds is known by its memory: views and writes into views need nothing
    more than the places that they mean.
    """

    supports_higher_order_operators = True  # to refuse them

    def __init__(self, x: Tensor, v: Tensor) -> None:
        super().__init__()
        self.program = Program(x.numel(), v.numel())
        self.memory = {storage_key(x): 0, storage_key(v): 1}
        self.kept: list[Any] = [x, v]  # no memory is used twice
        self.places: dict[int, str] = {}  # in f, by the nodes of the graph made there
        self.operations: dict[str, str] = {}  # and by the names of operations
        self.written_at: dict[int, str] = {}  # by the nodes of the program
        self.refused: NotImplementedError | None = None  # which f may have caught

    def run(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operation, and write it down if it depends on x or v."""
        if place := place_in_f():
            self.places[node_number()] = place
            if isinstance(func, OpOverload):
                self.operations[named(func)] = place
        first = len(self.program.nodes)
        try:
            out = self.follow(func, args, kwargs)
            if isinstance(func, OpOverload) and "empty" in named(func):
                out.zero_()  # what lies there by chance belongs in no program
            return out
        finally:
            for node in range(first, len(self.program.nodes)):
                self.written_at.setdefault(node, self.place())

    def follow(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Do so if that is possible."""
        if not isinstance(func, OpOverload):  # such as torch.cond
            raise self.refusal(f"a page has no {func.name()}; another operation is needed")
        name, parts = named(func), pytree.tree_leaves((args, kwargs))
        if torch.Tag.nondeterministic_seeded in func.tags:
            return self.without_chance(func, name, args, kwargs)
        if not any(map(self.tracks, parts)):
            return pytree.tree_map(doubled, func(*args, **kwargs))
        if any(part in HALF for part in parts):
            raise self.refusal(
                f"{name} rounds to half precision; float32 or float64 is needed"
            )
        if any(isinstance(part, Tensor) and part.layout is not STRIDED for part in parts):
            raise self.refusal(f"{name} takes a sparse tensor; a dense one is needed")
        try:
            return self.record(func, name, args, kwargs)
        except Lacking as reason:
            why = f"{name} of this kind ({reason})" if str(reason) else name
            raise self.refusal(
                f"a page has no {why}; another operation is needed"
            ) from None

    def keep(self, t: Tensor) -> int | None:
        """Return the node of a tensor that depends on x or v."""
        return self.read(t) if self.tracks(t) else None

    def record(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        """Run an operation and write it down."""
        if any(a.alias_info and a.alias_info.is_write for a in schema(func).arguments):
            return self.write_in_place(func, name, args, kwargs)
        out = pytree.tree_map(doubled, func(*args, **kwargs))
        results = out if isinstance(out, tuple | list) else (out,)
        if name in SHAPES or any(isinstance(t, Tensor) and t.is_meta for t in results):
            return out
        if not all(isinstance(t, Tensor) or t is None for t in results):
            raise self.refusal(looks_at_a_value(name))
        if any(t.is_complex() for t in results if t is not None):
            raise self.refusal(f"{name} gives complex numbers; real ones are needed")
        if any(t.layout is not STRIDED for t in results if t is not None):
            raise self.refusal(f"{name} gives a sparse tensor; a dense one is needed")
        if name in CONSTANT or self.is_view(results, args):
            return out
        if (rule := RULES.get(name)) is None:
            return self.take_apart(func, args, kwargs)
        try:
            signature(rule).bind(self, out, *args, **kwargs)
        except TypeError:
            raise Lacking("arguments that are rarely given") from None
        nodes = rule(self, out, *args, **kwargs)
        if nodes is NotImplemented:
            return self.take_apart(func, args, kwargs)
        for t, node in zip(
            results, nodes if isinstance(nodes, tuple) else (nodes,), strict=True
        ):
            check_integers(self, t, node)
            self.write(t, node)
        return out

    def take_apart(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run what torch says that an operation is made of."""
        with self:
            out = (decomposition(func) or func.decompose)(*args, **kwargs)
        if out is NotImplemented:
            dynamic = torch.Tag.dynamic_output_shape in func.tags
            raise Lacking("its shape depends on values" if dynamic else "")
        return out

    def without_chance(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        """Run what may draw random numbers, but need not: attention without dropout."""
        try:
            return self.take_apart(func, args, kwargs)
        except Lacking:
            how = " (eval() of a module turns dropout off)" if name in DROPOUT else ""
            raise self.refusal(
                f"{name} draws random numbers; a function without them is needed{how}"
            ) from None

    def write_in_place(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        """Compute what an operation writes, and let it write."""
        if "out" in kwargs:
            raise Lacking("out=")
        target = args[0]
        if name in ("copy_", "copy_to"):
            node = self.read(args[1], target.shape)
        else:
            plain = getattr(torch.ops.aten, name.rstrip("_"), None)
            if plain is None or not name.endswith("_"):
                raise Lacking
            with self:
                value = plain(*args, **kwargs)
            node = self.read(value)
        self.write(target, node)
        return func(*args, **kwargs)

    def is_view(self, results: Sequence[Any], args: Any) -> bool:
        """Tell whether all results lie in the memory of an argument, as its numbers."""
        given = {
            storage_key(t): t.dtype
            for t in pytree.tree_leaves(args)
            if isinstance(t, Tensor)
        }
        return all(t is not None and given.get(storage_key(t)) is t.dtype for t in results)

    def tracks(self, value: Any) -> bool:
        """See :class:`pullback._live_operators.Reader`."""
        return (
            isinstance(value, Tensor)
            and value.layout is STRIDED
            and value.numel() > 0
            and not value.is_meta
            and storage_key(value) in self.memory
        )

    def read(self, value: Any, shape: Sequence[int] | None = None) -> int:
        """See :class:`pullback._live_operators.Reader`."""
        if not isinstance(value, Tensor):
            return self.program.constant([float(value)])
        t = value.detach() if shape is None or value.numel() == 1 else value.expand(shape)
        if self.tracks(t):
            node = self.memory[storage_key(t)]
            if self.program.lengths[node] > 1:
                return self.program.take(node, places(t))
        else:
            known = t.double().flatten().clone()  # zeros of autograd have no memory
            node = self.program.constant(known.tolist())
        return self.program.spread(node, t.numel()) if shape is None else node

    def write(self, t: Tensor, node: int) -> None:
        """Let a list be what t holds, in the order of its elements."""
        self.kept.append(t)
        key, size, where = storage_key(t), extent(t), places(t)
        if len(where) < size or (key in self.memory and where != list(range(size))):
            whole = torch.empty(0, dtype=t.dtype, device="cpu").set_(t.untyped_storage())
            new = self.program.spread(node, len(where))
            node = self.program.put(self.read(whole), self.program.constant(where), new)
        elif where != list(range(size)):
            order = [0] * size
            for i, place in enumerate(where):
                order[place] = i
            node = self.program.take(node, order)
        self.memory[key] = node

    def read_past_operations(self, name: str, t: Tensor) -> None:
        """Refuse what reads the numbers of what is recorded, as ``numpy`` does."""
        if self.tracks(t):
            raise self.refusal(looks_at_a_value(name))

    def refusal(self, reason: str) -> NotImplementedError:
        """Return the error that says why f has no program, and where in f."""
        error = NotImplementedError(at(reason, self.place()))
        self.refused = self.refused or error
        return error

    def place(self) -> str:
        """Return the line of f that runs, or the one whose backward does."""
        return place_in_f() or self.places.get(node_number(), "")

    def place_of_backward(self, y: Tensor, v: Tensor) -> str:
        """Return the line of f of the operation whose backward raises, if any does."""
        running: list[Any] = []
        nodes = nodes_from([get_gradient_edge(y).node])
        handles = [node.register_prehook(_note(running, node)) for node in nodes]
        try:
            torch.autograd.grad(y, self.kept[0], v, allow_unused=True)
        except (RuntimeError, TypeError) as error:
            if found := re.search(r"aten::(\w+)", str(error)):  # its node has no number
                return self.operations.get(found[1], "")
            for node in running[-1:]:
                return self.places.get(number_of(node), f"{node.name()} of f")
        finally:
            for handle in handles:
                handle.remove()
        return ""

    def longest(self) -> str:
        """Return the line of f that has the largest share of the program."""
        shares: Counter[str] = Counter()
        for node, place in self.written_at.items():
            shares[place] += len(str(self.program.nodes[node]))
        ((place, _),) = shares.most_common(1) or [("", 0)]
        return place


def _note(running: list[Any], node: Any) -> Callable[[Any], None]:
    return lambda arrived: running.append(node)


def looks_at_a_value(name: str) -> str:
    """Return why a branch cannot be followed."""
    how = "if, float(), item()" if name == "_local_scalar_dense" else name
    return f"f looks at a value ({how}); one way for all x is needed"


def at(reason: str, place: str) -> str:
    """Return a reason with the place in f that it is about, if that is known."""
    return f"{reason}; {place}" if place else reason


def place_in_f(error: BaseException | None = None) -> str:
    """Return the line of f that runs, or that an error comes from; if none, the module.

    A line is f's if neither torch's nor this package's: f is called by this package, so the
    frames that called the package are not f's. A module is one of torch's own.
    """
    stack = _running() if error is None else _raising(error.__traceback__)
    module = ""
    for frame, number in stack:
        file = frame.f_code.co_filename
        if is_own_file(file):
            if where := line(frame, number):
                return where
        elif not module and frame.f_code.co_name == "forward":
            owner = frame.f_locals.get("self")
            if isinstance(owner, torch.nn.Module):
                module = f"{type(owner).__name__}({owner.extra_repr()}) of f"
    return module


def line(frame: FrameType, number: int) -> str:
    """Return a line of a frame's file in words; nothing if there is no such file."""
    file = frame.f_code.co_filename
    code = linecache.getline(file, number).strip()
    where = f" of {Path(file).name}" if Path(file).exists() else ""
    return f"line {number}{where}: {code}" if code else ""


@contextmanager
def told_at(place: str) -> Iterator[None]:
    """Have an error say a place in f, too."""
    try:
        yield
    except (RuntimeError, TypeError, ValueError) as error:
        raise type(error)(at(str(error), place)) from None


def _running() -> Iterator[tuple[FrameType, int]]:
    """Yield the frames of f, and their lines, from the innermost."""
    for frame in frames():
        if frame.f_code.co_filename in CALLERS:
            return
        yield frame, frame.f_lineno


def _raising(traceback: TracebackType | None) -> list[tuple[FrameType, int]]:
    """Return those of an error, from the one that raised it."""
    return list(walk_tb(traceback))[::-1]
