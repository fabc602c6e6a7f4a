"""On which line the backward of a custom Function is wrong, as far as that can be told."""

from __future__ import annotations

import ast
import functools
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode

from pullback._watch.findings import Site
from pullback._watch.frames import own_frame
from pullback._watch.functions import backward_of

TRIED = 48  # calls in a backward in which a matrix is turned, or a sign, to try it
GETTER = "__get__"  # the call that gives x.mT, whose matrix is turned already


def line_of(kind: Any, at: int) -> Site | None:
    """Return the line of a backward that computes the gradient of an input, if it is told.

    ``at`` says which input it is, counted from 0. The line is that on which the name was
    assigned last that stands in its place in ``return``.
    """
    code = backward_of(kind)
    tree = _source_of(code) if code is not None else None
    if tree is None or code is None:
        return None
    returns = [
        n for n in ast.walk(tree) if isinstance(n, ast.Return) and n.value is not None
    ]
    for node in reversed(returns):
        value = node.value
        if isinstance(value, ast.Tuple):
            value = value.elts[at] if at < len(value.elts) else None
        if value is None or (isinstance(value, ast.Constant) and value.value is None):
            continue
        line = value.lineno
        if isinstance(value, ast.Name):
            lines = [
                n.lineno
                for n in ast.walk(tree)
                if isinstance(n, ast.Name)
                and n.id == value.id
                and isinstance(n.ctx, ast.Store)
                and n.lineno < line
            ]
            line = max(lines, default=line)
        return Site(code.co_filename, code.co_firstlineno + line - 1)
    return None


def turned(
    kind: Any,
    backward: Callable[[Any], list[Tensor]],
    right: Callable[[list[Tensor]], bool],
) -> tuple[Site, str, str] | None:
    """Return the call that is right when one matrix in it is transposed, or its sign.

    Args:
        kind: The Function whose backward is wrong.
        backward: Computes the gradients with another Function in its place.
        right: Tells whether gradients are right.
    """
    code = backward_of(kind)
    if code is None:
        return None

    def tried(
        at: int, argument: int | None
    ) -> tuple[bool, list[tuple[Site, str, list[int]]]]:
        mode = Turned(code, at, argument)
        return right(backward(_inside(kind, mode))), mode.calls

    _, calls = tried(-1, None)
    ways: Iterator[tuple[int, int | None]] = (
        *((n, i) for n, (_, f, square) in enumerate(calls) for i in square if f != GETTER),
        *((n, None) for n in range(len(calls))),
    ).__iter__()
    for _, (number, argument) in zip(range(TRIED), ways, strict=False):
        try:
            is_right, _ = tried(number, argument)
        except Exception:  # the turned matrix does not fit
            continue
        if is_right:
            site, name, _ = calls[number]
            if argument is None:
                says = f"the result of {name} has the other sign"
                return site, says, "Turn the sign on this line."
            matrix = _written(code, site, name, argument)
            says = f"it is right with the transpose of {matrix} in {name}"
            other = re.sub(r"\.m?T$", "", matrix)
            if other == matrix:
                other = f"{matrix}.mT" if matrix.isidentifier() else f"({matrix}).mT"
            return site, says, f"Write {other} for {matrix} on this line."
    return None


class Turned(TorchFunctionMode):
    """Turns one matrix, or the sign of one result, in one call of a backward.

    Attributes:
        calls: The calls in the backward so far: the line, the function, and which of its
            arguments are square matrices.
    """

    def __init__(self, code: CodeType, at: int, argument: int | None) -> None:
        super().__init__()
        self._code, self._at, self._argument = code, at, argument
        self.calls: list[tuple[Site, str, list[int]]] = []

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Run a call, with one thing turned if it is the one."""
        frame = own_frame()
        if frame is None or frame.f_code is not self._code:
            return func(*args, **(kwargs or {}))
        number = len(self.calls)
        site = Site(frame.f_code.co_filename, frame.f_lineno)
        square = [i for i, t in enumerate(args) if _is_square(t)]
        self.calls.append((site, getattr(func, "__name__", str(func)), square))
        if number != self._at:
            return func(*args, **(kwargs or {}))
        if self._argument is None:
            out = func(*args, **(kwargs or {}))
            return -out if isinstance(out, Tensor) and out.is_floating_point() else out
        turned = [t.mT if i == self._argument else t for i, t in enumerate(args)]
        return func(*turned, **(kwargs or {}))


def _inside(kind: Any, mode: Turned) -> Any:
    """Return a Function whose backward runs inside a mode, which the engine leaves out."""

    def backward(*given: Any) -> Any:
        with mode:
            return kind.backward(*given)

    return type(kind.__name__, (kind,), {"backward": staticmethod(backward)})


def _is_square(t: Any) -> bool:
    matrix = isinstance(t, Tensor) and t.ndim >= 2 and t.is_floating_point()
    return matrix and t.shape[-1] == t.shape[-2] > 1


def _written(code: CodeType, site: Site, name: str, argument: int) -> str:
    """Return the source of an argument of a call, or which one it is."""
    tree = _source_of(code)
    for node in ast.walk(tree) if tree is not None else ():
        if getattr(node, "lineno", 0) + code.co_firstlineno - 1 != site.line:
            continue
        given: list[ast.expr] = []
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            given = [node.left, node.right] if "matmul" in name else []
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            of_torch = ast.unparse(node.func).startswith("torch.")
            of_name = name.endswith(node.func.attr)  # solve is linalg_solve
            given = [] if of_torch else [node.func.value]
            given = [*given, *node.args] if of_name else []
        if argument < len(given):
            return ast.unparse(given[argument])
    return f"argument {argument + 1}"


@functools.lru_cache(maxsize=256)
def _source_of(code: CodeType) -> ast.AST | None:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(code)))
    except (OSError, SyntaxError, TypeError):
        return None
