"""Buffers of their own for the modules that a function calls, while it runs.

A BatchNorm in training mode writes its running statistics, and asking a question about a
function is no training step. What modules hold is not written back afterwards but left
alone, for the graph may have saved it: while f runs, each module has copies.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache, partial
from itertools import chain, islice
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch import Tensor
from torch.nn import Module

from pullback._torch import in_transform, is_compiled

#: What looks at a whole batch in training mode, and at what it has kept otherwise.
BATCH_NORMS = (
    torch.nn.BatchNorm1d,
    torch.nn.BatchNorm2d,
    torch.nn.BatchNorm3d,
    torch.nn.SyncBatchNorm,
)
#: How far from f a module is looked for: f, what it captures, what that holds, ...
DEPTH = 5
#: Things that are looked at on the way at most.
THINGS = 2000
#: Modules of Python whose functions capture the caller's, and whose globals are their own.
OTHERS = "torch", "pullback", "numpy", "scipy"
#: What changes nothing, made once: it is entered at every call of f.
NOTHING = nullcontext()
#: How many seconds a thread waits for another before it says so.
PATIENCE = 20
#: What holds what it is made of.
COLLECTIONS = (list, tuple, set, frozenset)
#: What holds no module.
PLAIN = (Tensor, str, bytes, int, float, complex, bool, type, ModuleType, type(None))
#: By these most of it is told, faster than by a look at what a class inherits.
PLAINLY = frozenset(PLAIN)


def own_buffers(f: Callable[..., Any]) -> AbstractContextManager[None]:
    """Give the modules in training mode that f calls copies of their buffers meanwhile.

    Found are f itself, and those in its closure, its defaults, the globals that it names,
    a bound object, a :class:`functools.partial`, and in lists, dicts and attributes there.
    Compiled and scripted modules hold what they were compiled with; if their buffers
    change, a warning says so. Where several threads call a module, all write to the copies
    that were lent last, and the last thread to end gives the caller's back. In forward
    mode, and in transforms, they take turns; beside one in reverse mode torch may raise.
    """
    modules = training_modules(f)
    return _lent_to(modules) if modules else NOTHING


@contextmanager
def _lent_to(modules: Sequence[Module]) -> Iterator[None]:
    lent: list[tuple[Module, str, Tensor]] = []
    copies: dict[int, Tensor] = {}  # what two modules share, they share
    compiled = [
        (name, b, b.clone())
        for module in modules
        if is_compiled(module)
        for name, b in module.named_buffers()
        if not b.is_meta
    ]
    own = [m for m in modules if not is_compiled(m) and [*m.buffers(recurse=False)]]
    with _in_turn() if own and in_transform() else nullcontext():
        try:
            with _LENDING:
                for module in own:
                    lent += _lend(module, copies)
            yield
        finally:
            with _LENDING:
                for module, name, copy in lent:
                    _take_back(module, name, copy)
    changed = [name for name, b, before in compiled if not torch.equal(b, before)]
    if changed:
        warnings.warn(
            f"f calls a compiled module in training mode, which changed its {changed[0]}"
            f"{f' and {len(changed) - 1} more buffers' if len(changed) > 1 else ''}, as "
            "each call of it does; module.eval(), or the module before torch.compile, "
            "leaves them alone",
            stacklevel=2,
        )


@contextmanager
def _in_turn() -> Iterator[None]:
    """Let one thread in at a time: a copy made in a transform is of one thread alone."""
    if not _TURN.acquire(timeout=PATIENCE):
        warnings.warn(
            "pullback waits for another thread that is in forward mode, or in a transform "
            "of torch.func, with modules in training mode, whose buffers take copies for "
            "one thread at a time; if it is f that waits for this thread, neither ends: "
            "mode='reverse', or module.eval(), does not wait",
            stacklevel=2,
        )
        _TURN.acquire()
    try:
        yield
    finally:
        _TURN.release()


_TURN = threading.RLock()  # f may take derivatives itself
_LENDING = threading.RLock()  # to clone a buffer may run the caller's code
#: By module and name, a buffer and the copies in its place, with the threads they are for.
_LENT: dict[tuple[int, str], list[tuple[int | None, Tensor]]] = {}
#: Copies by module, name and their own id: a thread may put another's there, by ``+=``.
_COPIES = WeakValueDictionary[tuple[int, str, int], Tensor]()


def _lend(
    module: Module, copies: dict[int, Tensor]
) -> Iterator[tuple[Module, str, Tensor]]:
    """Put copies in the place of buffers: of the caller's, whatever other threads lent."""
    me = threading.get_ident()
    for name, b in list(module.named_buffers(recurse=False, remove_duplicate=False)):
        line = [*_LENT.get((id(module), name), [])]
        if not line or not (_is_copy(module, name, b) or line[-1][1] is b):
            line.append((None, b))
        own = next(t for thread, t in reversed(line) if thread in (None, me))
        if id(own) not in copies:
            copies[id(own)] = own.clone()
        copy = copies[id(own)]
        setattr(module, name, copy)
        _COPIES[id(module), name, id(copy)] = copy
        _LENT[id(module), name] = [*line, (me, copy)]
        yield module, name, copy


def _take_back(module: Module, name: str, copy: Tensor) -> None:
    """Put back what stood there before a copy; with the last copy, what the caller had."""
    line = [(thread, t) for thread, t in _LENT.pop((id(module), name)) if t is not copy]
    if any(thread for thread, _ in line):
        _LENT[id(module), name] = line
    now = getattr(module, name, None)
    if _is_copy(module, name, now) and all(t is not now for _, t in line):
        setattr(module, name, line[-1][1])  # else f has put another there


def _is_copy(module: Module, name: str, b: Tensor | None) -> bool:
    return b is not None and _COPIES.get((id(module), name, id(b))) is b


def training_modules(f: object) -> list[Module]:
    """Return the modules near f that are in training mode and may have buffers."""
    stack = modules_near(f)[::-1]
    if not stack:
        return []
    found: list[Module] = []
    seen: set[int] = set()
    while stack:
        module = stack.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        if not is_compiled(module):
            stack += module.children()
        if module.training:
            found.append(module)
    return found


def modules_near(f: object) -> list[Module]:
    """Return the modules that f can be seen to hold, the outermost alone."""
    found: list[Module] = []  # list[Module]() takes as long as a look at f
    seen: set[int] = set()
    near = [] if isinstance(f, PLAIN) else [f]
    for _ in range(DEPTH):
        held: list[object] = []
        for thing in near:
            if id(thing) in seen or len(seen) > THINGS:
                continue
            seen.add(id(thing))
            if isinstance(thing, FunctionType):
                held += _held_by_function(thing)[:THINGS]
            elif isinstance(thing, Module):
                found.append(thing)
            else:
                held += islice(_held_by(thing), THINGS)
        near = [
            thing
            for thing in held
            if type(thing) not in PLAINLY and not isinstance(thing, PLAIN)
        ]
        if not near:
            break
    return found


def _held_by(thing: object) -> Iterable[object]:
    if isinstance(thing, MethodType):
        return thing.__self__, thing.__func__
    if isinstance(thing, partial):
        return thing.func, *thing.args, *thing.keywords.values()
    if isinstance(thing, dict):
        return thing.values()
    if isinstance(thing, COLLECTIONS):
        return thing
    kept = getattr(type(thing), "__module__", "")
    return () if _is_other(kept) else getattr(thing, "__dict__", {}).values()


def _held_by_function(f: FunctionType) -> list[object]:
    held: list[object] = list(f.__defaults__ or ())
    if f.__kwdefaults__:
        held += f.__kwdefaults__.values()
    for cell in f.__closure__ or ():
        try:
            held.append(cell.cell_contents)
        except ValueError:  # not filled yet
            continue
    if "__wrapped__" in f.__dict__:
        held.append(f.__dict__["__wrapped__"])
    if not _is_other(f.__module__ or ""):
        known = f.__globals__
        held += [known[name] for name in _names_in(f.__code__) if name in known]
    return held


@lru_cache(maxsize=256)
def _names_in(code: CodeType) -> tuple[str, ...]:
    """Return the names that code and the functions in it look up."""
    inner = (_names_in(c) for c in code.co_consts if isinstance(c, CodeType))
    return (*code.co_names, *chain.from_iterable(inner))


def _is_other(module: str) -> bool:
    return module.partition(".")[0] in OTHERS
