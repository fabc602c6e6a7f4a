"""Note what each call in a script calls while the script runs.

Code alone does not say whose ``sum`` the call ``f(x).sum()`` is, and the variables that a
script leaves behind say it for a few names only. The interpreter knows, and tells a
profiler: here is one that writes down, for each call, under which names documentation may
have what was called.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import BuiltinMethodType, CodeType, FrameType, ModuleType
from typing import Any


class CallRecorder:
    """A context in which a script, or a part of it, runs and its calls are noted.

    Attributes:
        notes: Names of what was called, by where in the script the name in a call ends.
    """

    def __init__(self, script: Path) -> None:
        self.file = str(script)
        self.ends: dict[Position, tuple[str, int]] = {}
        self.methods: dict[int, str] = {}
        self.notes: dict[str, list[str]] = {}
        self.seen: set[tuple[CodeType, int]] = set()

    def find_calls(self, text: str) -> None:
        """Find the calls in the text of the script; without it, none is noted."""
        found = list(calls(text))
        self.ends = {where: (name.rpartition(".")[2], end) for where, name, end in found}
        self.methods = {end: name for _, name, end in found if "." in name}

    def note_variables(self, names: dict[str, Any]) -> None:
        """Note classes, and the methods that were not seen, such as those that yield.

        ``names`` are the variables after a part of the script.
        """
        for end, method in list(self.methods.items()):
            first, *attributes, name = method.split(".")
            owner = names.get(first)
            for attribute in attributes:
                owner = vars(owner).get(attribute) if hasattr(owner, "__dict__") else None
            if isinstance(owner, ModuleType):
                called = vars(owner).get(name)
                if isinstance(called, type):  # its own name may be the documented one
                    modules = above(called.__module__)
                    found = [f"{module}.{called.__qualname__}" for module in modules]
                    self.notes.setdefault(str(end), found)
            elif owner is not None and hasattr(type(owner), name):
                self.notes.setdefault(str(end), of_method(owner, name))
            if owner is not None:
                del self.methods[end]

    def __enter__(self) -> None:
        self.before = sys.getprofile()
        if self.ends:
            sys.setprofile(self.note)

    def __exit__(self, *error: object) -> None:
        sys.setprofile(self.before)

    def note(self, frame: FrameType, event: str, called: Any) -> None:
        """Take down one call, of many events that are none of the script's."""
        caller = frame.f_back if event == "call" else frame if event == "c_call" else None
        if caller is None or caller.f_code.co_filename != self.file:
            return
        if (at := (caller.f_code, caller.f_lasti)) in self.seen:
            return
        self.seen.add(at)
        *_, where = islice(caller.f_code.co_positions(), caller.f_lasti // 2 + 1)
        if call := self.ends.get((where[1], where[3])):
            name, end = call
            found = of_python(frame, name) if event == "call" else of_c(called, name)
            if found:
                self.notes.setdefault(str(end), found)


Position = tuple[int | None, int | None]  # a line, and a column in bytes


def calls(text: str) -> Iterator[tuple[Position, str, int]]:
    """Yield each call's end, the name that it calls, dotted, and where that ends."""
    lines = text.splitlines(keepends=True)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
            called = node.func
            line = (called.end_lineno or 0) - 1
            column = len(lines[line].encode()[: called.end_col_offset].decode())
            end = sum(map(len, lines[:line])) + column
            yield (node.end_lineno, node.end_col_offset), dotted(called), end


def dotted(called: ast.Attribute | ast.Name) -> str:
    """Return a name as it is written, or its last part where others are not names."""
    written = ast.unparse(called)
    return written if re.fullmatch(r"[\w.]+", written) else written.rpartition(".")[2]


def of_c(called: BuiltinMethodType, name: str) -> list[str]:
    """Return the names of a function or a method written in C, if it is called so."""
    if called.__name__ != name:
        return []
    if called.__self__ is None or isinstance(called.__self__, ModuleType):
        return [f"{called.__module__}.{name}"]
    return of_method(called.__self__, name)


def of_python(frame: FrameType, name: str) -> list[str]:
    """Return the names of what a frame has begun to run, if it is called so."""
    code = frame.f_code
    first: Any = None
    if code.co_argcount:
        first = frame.f_locals.get(code.co_varnames[0])
    elif code.co_flags & inspect.CO_VARARGS:  # a method in a wrapper
        first = next(iter(frame.f_locals[code.co_varnames[code.co_kwonlyargcount]]), None)
    owner = first if isinstance(first, type) else type(first)
    if getattr(getattr(owner, name, None), "__code__", None) is code:
        return of_method(first, name)
    if code.co_qualname != name:  # what a builtin called, such as a function that it maps
        return []
    return [
        f"{module}.{name}"
        for module in above(frame.f_globals["__name__"])
        if getattr(getattr(sys.modules.get(module), name, None), "__code__", None) is code
    ]


def of_method(instance: object, name: str) -> list[str]:
    """Return the names of a method: of each class that has it, where that can be found."""
    owner = instance if isinstance(instance, type) else type(instance)
    return [
        f"{module}.{base.__name__}.{name}"
        for base in owner.__mro__
        if hasattr(base, name)
        for module in above(base.__module__)
        if getattr(sys.modules.get(module), base.__name__, None) is base
    ]


def above(module: str) -> Iterator[str]:
    """Yield the names of the packages that hold a module, and its own."""
    parts = module.split(".")
    for depth in range(1, len(parts) + 1):
        yield ".".join(parts[:depth])
