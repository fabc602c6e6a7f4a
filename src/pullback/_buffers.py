"""Buffers of their own for the modules that a function calls, while it runs.

A BatchNorm in training mode writes its running statistics, and asking a question about a
function is no training step. What modules hold is not written back afterwards but left
alone, for the graph may have saved it: while f runs, each module has copies.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module

from pullback._torch import is_compiled

#: How far from f a module is looked for: f, what it captures, what that holds, ...
DEPTH = 5
#: Things that are looked at on the way at most.
THINGS = 2000
#: Modules of Python whose functions capture the caller's, and whose globals are their own.
OTHERS = "torch", "pullback", "numpy", "scipy"
#: What holds no module.
PLAIN = (Tensor, str, bytes, int, float, complex, bool, type, ModuleType, type(None))


@contextmanager
def own_buffers(f: Callable[..., Any]) -> Iterator[None]:
    """Give the modules in training mode that f calls copies of their buffers meanwhile.

    Found are f itself, and those in its closure, its defaults, the globals that it names,
    a bound object, a :class:`functools.partial`, and in lists, dicts and attributes there.
    Compiled and scripted modules hold what they were compiled with; if their buffers
    change, a warning says so.
    """
    lent: list[tuple[Module, str, Tensor, Tensor]] = []
    compiled: list[tuple[str, Tensor, Tensor]] = []
    copies: dict[int, Tensor] = {}  # what two modules share, they share
    for module in training_modules(f):
        if is_compiled(module):
            compiled += [
                (n, b, b.clone()) for n, b in module.named_buffers() if not b.is_meta
            ]
            continue
        for name, b in module.named_buffers(recurse=False, remove_duplicate=False):
            copy = copies.setdefault(id(b), b.clone())
            lent.append((module, name, b, copy))
    for module, name, _, copy in lent:
        setattr(module, name, copy)
    try:
        yield
    finally:
        for module, name, b, copy in lent:
            if getattr(module, name, None) is copy:  # else f has put another there
                setattr(module, name, b)
    changed = [name for name, b, before in compiled if not torch.equal(b, before)]
    if changed:
        warnings.warn(
            f"f calls a compiled module in training mode, which changed its {changed[0]}"
            f"{f' and {len(changed) - 1} more buffers' if len(changed) > 1 else ''}, as "
            "each call of it does; module.eval(), or the module before torch.compile, "
            "leaves them alone",
            stacklevel=2,
        )


def training_modules(f: object) -> Iterator[Module]:
    """Yield the modules near f that are in training mode and may have buffers."""
    seen: set[int] = set()
    for found in modules_near(f):
        stack = [found]
        while stack:
            module = stack.pop()
            if id(module) in seen:
                continue
            seen.add(id(module))
            if not is_compiled(module):
                stack += module.children()
            if module.training:
                yield module


def modules_near(f: object) -> Iterator[Module]:
    """Yield the modules that f can be seen to hold, the outermost alone."""
    near, seen = [f], set[int]()
    for _ in range(DEPTH):
        held: list[object] = []
        for thing in near:
            if isinstance(thing, PLAIN) or id(thing) in seen or len(seen) > THINGS:
                continue
            seen.add(id(thing))
            if isinstance(thing, Module):
                yield thing
            else:
                held += islice(_held_by(thing), THINGS)
        near = held


def _held_by(thing: object) -> Iterable[object]:
    if isinstance(thing, FunctionType):
        return _held_by_function(thing)
    if isinstance(thing, MethodType):
        return thing.__self__, thing.__func__
    if isinstance(thing, partial):
        return thing.func, *thing.args, *thing.keywords.values()
    if isinstance(thing, dict):
        return thing.values()
    if isinstance(thing, list | tuple | set | frozenset):
        return thing
    kept = getattr(type(thing), "__module__", "")
    return () if _is_other(kept) else getattr(thing, "__dict__", {}).values()


def _held_by_function(f: FunctionType) -> Iterable[object]:
    held: list[object] = [*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values()]
    for cell in f.__closure__ or ():
        try:
            held.append(cell.cell_contents)
        except ValueError:  # not filled yet
            continue
    held += [v for name, v in f.__dict__.items() if name == "__wrapped__"]
    if not _is_other(f.__module__ or ""):
        known = f.__globals__
        held += [known[name] for name in _names_in(f.__code__) if name in known]
    return held


def _names_in(code: CodeType) -> Iterator[str]:
    """Yield the names that code and the functions in it look up."""
    inner = (_names_in(c) for c in code.co_consts if isinstance(c, CodeType))
    return chain(code.co_names, *inner)


def _is_other(module: str) -> bool:
    return module.partition(".")[0] in OTHERS
