"""Reads the values that a page printed: tensors, arrays, shapes, numbers, truth values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
PLAIN = rf"{NUMBER}|True|False"
# Neither a part of a word, such as x0, nor of a call, such as f(2).
START = re.compile(
    rf"(?<![\w.])(?:(?P<kind>tensor|array|torch\.Size)?(?P<open>[(\[])|(?:{PLAIN})(?!\w))"
)
TOKEN = re.compile(rf"{PLAIN}|\S")
ABOUT = re.compile(r",\s*(?:dtype|grad_fn|device|requires_grad|size)=[^,\])]*")


class Printed(NamedTuple):
    """One printed value.

    Attributes:
        label: What stands before it in its line, such as the ``x`` of ``x  tensor(3.)``.
        text: The value as printed.
        nested: Its numbers in nested lists, each as it was written.
        is_size: Whether it is a ``torch.Size``.
    """

    label: str
    text: str
    nested: Any
    is_size: bool = False

    @property
    def shape(self) -> list[int]:
        """The shape of the lists."""
        return list(shape_of(self.nested))

    @property
    def numbers(self) -> list[float]:
        """The numbers, in order; True is 1."""
        return [number(written) for written in flat(self.nested)]

    @property
    def slack(self) -> list[float]:
        """How far a prediction may be from each number (:func:`slack`)."""
        return [slack(written) for written in flat(self.nested)]

    def item(self, index: tuple[int, ...]) -> Printed:
        """Return an entry or a row; raise ValueError where there is none."""
        nested = self.nested
        for i in index:
            if not (isinstance(nested, list) and -len(nested) <= i < len(nested)):
                raise ValueError(f"a value of shape {self.shape} has no item {index}")
            nested = nested[i]
        return Printed(self.label, json.dumps(nested).replace('"', ""), nested)


def values(text: str) -> list[Printed]:
    """Return the values in a text, in order.

    A tensor that was printed in part (``...``), and NaN and infinity, are left out:
    nothing can be compared with them.
    """
    found, at, told = [], 0, 0
    while match := START.search(text, at):
        start = match.start()
        end = closed(text, match.end()) if match["open"] else match.end()
        written = text[start:end]
        try:
            nested = read(written)
        except ValueError:
            at = end if match["kind"] else match.start("open") + 1  # or look inside
            continue
        label = text[told:start].rpartition("\n")[2].strip(" \t:=,;")
        found.append(Printed(label, written, nested, match["kind"] == "torch.Size"))
        at = told = end
    return found


def closed(text: str, at: int) -> int:
    """Return where the bracket that was opened before ``at`` has been closed."""
    depth = 1
    for bracket in re.compile(r"[(\[\])]").finditer(text, at):
        depth += 1 if bracket[0] in "([" else -1
        if not depth:
            return bracket.end()
    return len(text)


def read(text: str) -> Any:
    """Return a printed value as nested lists of numbers, each as it was written.

    Raises:
        ValueError: It is none, it is not printed whole, or it is no full grid of numbers.
    """
    text = ABOUT.sub("", text)
    if kind := re.match(r"(?:tensor|array|torch\.Size)\((.*)\)$", text, re.DOTALL):
        text = kind[1]
    tokens = TOKEN.findall(text)
    tokens.reverse()
    nested = item(tokens)
    if tokens:
        raise ValueError(f"{text!r} goes on after its first value")
    shape_of(nested)
    return nested


def item(tokens: list[str]) -> Any:
    """Take a number or a list from the end of the tokens."""
    token = tokens.pop() if tokens else ""
    if re.fullmatch(PLAIN, token):
        return token
    if token not in ("(", "["):
        raise ValueError(f"{token!r} is no value")
    close, entries = {"(": ")", "[": "]"}[token], []
    while tokens and tokens[-1] != close:
        entries.append(item(tokens))
        if tokens and tokens[-1] == ",":
            tokens.pop()
    if not tokens:
        raise ValueError("a bracket is not closed")
    tokens.pop()
    return entries


def shape_of(nested: Any) -> tuple[int, ...]:
    """Return the shape of nested lists; refuse those of different lengths."""
    if not isinstance(nested, list):
        return ()
    shapes = {shape_of(entry) for entry in nested}
    if len(shapes) > 1:
        raise ValueError("the lists inside have different lengths")
    return (len(nested), *(shapes.pop() if shapes else ()))


def flat(nested: Any) -> Iterator[str]:
    """Yield the numbers of nested lists."""
    if isinstance(nested, list):
        for entry in nested:
            yield from flat(entry)
    else:
        yield nested


def number(written: str) -> float:
    """Return a written number; True is 1."""
    return float({"True": "1", "False": "0"}.get(written, written))


def slack(written: str) -> float:
    """Return how far a prediction may be from a number and still be right.

    That is the printed precision; where there are decimals, also one part in a hundred,
    because people round, too. A number without decimals is exact.
    """
    mantissa, _, power = written.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    if not decimals:
        return 0.0
    return max(0.5 * 10.0 ** (int(power or 0) - decimals), 0.0101 * abs(number(written)))
