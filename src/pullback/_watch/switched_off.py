"""Which line has switched gradients off around an operation, as far as frames show it."""

from __future__ import annotations

import ast
import functools
import linecache
from types import FrameType
from typing import NamedTuple

from pullback._frames import frames
from pullback._watch.findings import Note, Site
from pullback._watch.frames import is_own

OFF = ("no_grad", "inference_mode", "set_grad_enabled")
DECORATED = "decorate_context"  # what torch runs in place of a function under @no_grad()


class Around(NamedTuple):
    """A frame around an operation: its line, and the function, if it is a decorated one."""

    site: Site
    decorated: Site | None
    name: str


def around(frame: FrameType | None) -> tuple[Around, ...]:
    """Return the own frames around an operation, the innermost first."""
    found: list[Around] = []
    for outer in frames(frame) if frame is not None else ():
        code = outer.f_code
        if is_own(code):
            decorated = _is_decorated(outer)
            begins = Site(code.co_filename, code.co_firstlineno) if decorated else None
            found.append(
                Around(Site(code.co_filename, outer.f_lineno), begins, code.co_name)
            )
    return tuple(found)


def _is_decorated(frame: FrameType) -> bool:
    outer = frame.f_back
    return outer is not None and outer.f_code.co_name == DECORATED


def line_off(frames_around: tuple[Around, ...]) -> Note | None:
    """Return the nearest line that switches gradients off: a block, or a decorator."""
    for site, decorated, name in frames_around:
        line = _block(site.path, site.line)
        if line:
            return Note("off", Site(site.path, line), "gradients are off in this block")
        if decorated is not None:
            return Note("off", decorated, f"gradients are off in all of {name}")
    return None


@functools.lru_cache(maxsize=256)
def _block(path: str, line: int) -> int:
    """Return the line of the innermost block without gradients around a line, else 0."""
    found = 0
    for node in ast.walk(_tree(path)):
        if not isinstance(node, ast.With | ast.AsyncWith):
            continue
        last = node.end_lineno or 0
        if found <= node.lineno <= line <= last and any(map(_is_off, node.items)):
            found = node.lineno
    return found


def _is_off(item: ast.withitem) -> bool:
    call = item.context_expr
    named = call.func if isinstance(call, ast.Call) else None
    name = named.attr if isinstance(named, ast.Attribute) else getattr(named, "id", "")
    if name not in OFF or not isinstance(call, ast.Call):
        return False
    given = call.args[0] if call.args else None
    on = given.value if isinstance(given, ast.Constant) else name != "set_grad_enabled"
    return bool(on) is (name != "set_grad_enabled")


@functools.lru_cache(maxsize=16)
def _tree(path: str) -> ast.AST:
    try:
        return ast.parse("".join(linecache.getlines(path)))
    except (SyntaxError, ValueError):
        return ast.Module([], [])
