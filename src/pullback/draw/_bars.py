"""Signed numbers side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pullback._report import Table
from pullback.draw._svg import (
    DIGIT,
    WORD,
    Canvas,
    Drawing,
    joined,
    listed,
    names_for,
    real,
    text_width,
    tidy,
    written,
)

LONGEST = 150  # pixels of the longest bar
THICK = 20  # height of a bar
LARGEST = 24  # entries that are drawn one by one


def bars(
    series: Mapping[str, Any], *, names: Sequence[str] | None = None, alt: str | None = None
) -> Drawing:
    """Draw numbers as bars, those of one entry beneath one another, to be compared.

    Args:
        series: Tensors of one shape, by what they are called, such as
            ``{"v = ones": g, "v = prices": h}``.
        names: Names of the entries; ``x[0]``, ``x[1]``… when left out.
        alt: What a reader who does not see the picture is told; left out, the numbers.

    Returns:
        A :class:`Drawing`.

    Raises:
        TypeError: One of the series holds no real numbers.
        ValueError: There are none, they differ in shape, have none or more than 24
            entries, or there are more or fewer names than entries.

    Examples:
        >>> import pullback
        >>> pullback.draw.bars({"prices": [8.0, 6.0, 4.0], "ones": [3.0, 5.0, 7.0]})
        prices and ones, entry by entry
        entry  prices  ones
        x[0]   8       3
        x[1]   6       5
        x[2]   4       7
    """
    each = {name: real(name, numbers) for name, numbers in series.items()}
    shapes = {tuple(t.shape) for t in each.values()}
    if len(shapes) != 1:
        raise ValueError(f"the series have shapes {sorted(shapes)}; one shape is needed")
    (shape,) = shapes
    entries = names_for("names", names, "x", shape)
    if not 1 <= len(entries) <= LARGEST:
        raise ValueError(f"{len(entries)} entries; 1 to {LARGEST} can be drawn")
    numbers = {name: t.reshape(-1).tolist() for name, t in each.items()}
    every = [x for line in numbers.values() for x in line]
    unit = LONGEST / ((max(0.0, *every) - min(0.0, *every)) or 1.0)
    label = max(text_width(written(x), DIGIT) for x in every) + 8
    left = max(text_width(entry, WORD) for entry in entries) + 12
    below = [-x for x in every if x < 0]
    zero = left + (max(below) * unit + label if below else 0.0)
    shown, y = Canvas(), 0.0
    for k, name in enumerate(numbers):  # what the kinds of bars are
        shown.box(left, y + 3, 14, 14, f' class="k{k % 6}"', 4)
        shown.words(left + 22, y + 10, name, "s")
        y += 22
    y += 10
    top = y
    for i, entry in enumerate(entries):
        middle = y + len(numbers) * THICK / 2
        shown.words(left - 12, middle, entry, "e")
        for k, line in enumerate(numbers.values()):
            length = line[i] * unit
            x = zero + min(0.0, length)
            shown.box(x, y + 1.5, max(1.0, abs(length)), THICK - 3, f' class="k{k % 6}"', 3)
            at, side = (zero + length + 7, "s") if length >= 0 else (zero + length - 7, "e")
            shown.words(at, y + THICK / 2, written(line[i]), f"n {side}")
            y += THICK
        y += 14
    shown.line([(zero, top - 6), (zero, y - 8)])
    caption = f"{joined(list(numbers))}, entry by entry"
    rows = [
        [entry, *(tidy(line[i]) for line in numbers.values())]
        for i, entry in enumerate(entries)
    ]
    sentence = "; ".join(f"{name}: {listed(line)}" for name, line in numbers.items())
    return shown.drawing(
        alt=alt or f"Bars. {sentence}.",
        text=Table(caption, ("entry", *numbers), rows).text(),
    )
