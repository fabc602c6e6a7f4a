"""What every drawing is made of: cells, words, lines, and one scale of tints."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pullback._inputs import kind_of

DIGIT, WORD = 15, 13  # sizes of the two kinds of text, in pixels
MARGIN = 3  # around everything, in pixels
LEGIBLE = 11  # what the smaller of them may shrink to on a narrow screen
NARROW = 328  # what a phone of 360 pixels leaves for a drawing
CELL, GAP, ROUND = 36, 7, 6  # height of a cell, the space between two, its corners
HEAD = 6  # length of an arrow's head
TINTS = 16  # steps of the scale, from
STRONGEST, FAINTEST = 0.55, 0.07  # tint of the largest number, and of the smallest

Matrix = list[list[float]]
Point = tuple[float, float]


class Drawing:
    """One picture: SVG for notebooks and pages, the same numbers as text for the rest.

    Attributes:
        svg: The picture, as SVG that asks for nothing else.
        alt: What it shows, in a sentence or two, for those who do not see it.
        text: What ``print`` gives: a caption and the numbers.
        width: Its natural width in pixels.
        numbers: What a page may ask about, such as v and J; the fragment carries it.
    """

    def __init__(self, svg: str, *, alt: str, text: str, width: float) -> None:
        self.svg, self.alt, self.text, self.width = svg, alt, text, width
        self.numbers: dict[str, Any] = {}

    @property
    def html(self) -> str:
        """The picture as an HTML fragment; a wide one scrolls in itself."""
        focus = ' tabindex="0"' if legible_width(self.width) > NARROW else ""
        data = escape(json.dumps(self.numbers, separators=(",", ":")))
        asked = f' data-numbers="{data}"' if self.numbers else ""
        return f'<div class="pb-drawing"{asked}{focus}>{self.svg}</div>'

    def save(self, path: str | Path) -> None:
        """Write the picture to an SVG file."""
        alone = self.svg.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
        Path(path).write_text(alone, encoding="utf-8")

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.html


class Scale:
    """One scale of tints for all the numbers of a picture: violet above 0, orange below."""

    def __init__(self, *groups: Iterable[float]) -> None:
        finite = [abs(x) for group in groups for x in group if math.isfinite(x)]
        self.most = max(finite, default=0.0) or 1.0

    def tint(self, number: float) -> str:
        """Return the class of a number's tint: its sign and its step; 0 has none."""
        if number == 0 or math.isnan(number):
            return ""
        step = math.floor((TINTS - 1) * min(1.0, abs(number) / self.most) + 0.5)
        return ("t" if number > 0 else "u") + chr(ord("A") + step)

    def fill(self, number: float) -> str:
        """Return the attribute that tints a shape."""
        tint = self.tint(number)
        return f' class="{tint}"' if tint else ""


class Canvas:
    """Shapes and words, collected from back to front."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.left = self.top = math.inf
        self.right = self.bottom = -math.inf

    def add(self, part: str) -> None:
        """Add a piece of SVG."""
        self.parts.append(part)

    def reach(self, x: float, y: float, w: float = 0.0, h: float = 0.0) -> None:
        """Make the picture large enough to hold a box."""
        self.left, self.right = min(self.left, x), max(self.right, x + w)
        self.top, self.bottom = min(self.top, y), max(self.bottom, y + h)

    @property
    def view(self) -> tuple[int, int, int, int]:
        """The smallest box that holds everything: x, y, width, height."""
        x, y = math.floor(self.left - MARGIN), math.floor(self.top - MARGIN)
        return (
            x,
            y,
            math.ceil(self.right + MARGIN) - x,
            math.ceil(self.bottom + MARGIN) - y,
        )

    def words(
        self,
        x: float,
        y: float,
        text: str,
        kind: str = "",
        *,
        within: str = "",
        markup: str = "",
    ) -> None:
        """Write text with the middle of its letters at height y.

        kind says how: n for numbers, b bold, m muted, s from its start, e to its end;
        within says what the group around it has set already, and markup is what to write
        where text says only how wide it is.
        """
        chosen = f' class="{kind}"' if kind else ""
        kinds = f"{kind} {within}".split()
        size = DIGIT if "n" in kinds else WORD
        at = f'x="{x:.0f}" y="{y + 0.36 * size:.0f}"'
        self.add(f"<text{chosen} {at}>{markup or escape(text, quote=False)}</text>")
        wide = text_width(text, size)
        start = 0 if "s" in kinds else wide if "e" in kinds else wide / 2
        self.reach(x - start, y - size / 2, wide, size)

    def box(
        self, x: float, y: float, w: float, h: float, attributes: str = "", r: float = ROUND
    ) -> None:
        """Draw a rounded box."""
        corner = "" if r == ROUND else f' style="rx:{r:.3g}px"'
        self.add(
            f'<rect{attributes} x="{x:.4g}" y="{y:.4g}" width="{w:.4g}" '
            f'height="{h:.4g}"{corner}/>'
        )
        self.reach(x, y, w, h)

    def line(self, points: Sequence[Point], kind: str = "l") -> None:
        """Draw a line through points."""
        d = "L".join(f"{x:.4g} {y:.4g}" for x, y in points)
        self.add(f'<path class="{kind}" d="M{d}"/>')
        for x, y in points:
            self.reach(x, y)

    def arrow(
        self, points: Sequence[Point], kind: str = "l", *, shaft: bool = True
    ) -> None:
        """Draw a line that ends in an open arrow head, or the head alone."""
        (x0, y0), (x1, y1) = points[-2:]
        length = math.hypot(x1 - x0, y1 - y0) or 1.0
        dx, dy = HEAD * (x1 - x0) / length, HEAD * (y1 - y0) / length
        one, other = (
            (x1 - dx - side * dy * 0.7, y1 - dy + side * dx * 0.7) for side in (1, -1)
        )
        self.line([one, (x1, y1), other], kind)
        if shaft:
            self.line(points, kind)

    def numbers(
        self,
        places: Iterable[Point],
        size: Point,
        values: Iterable[float],
        scale: Scale | None = None,
        kind: str = "",
    ) -> None:
        """Draw cells of one size with numbers, tinted by a scale; kind names the group."""
        w, h = size
        named = f"{kind} n" if kind else "n"
        self.add(f'<g class="{named}" style="--w:{w:.4g}px;--h:{h:.4g}px">')
        for (x, y), value in zip(places, values, strict=True):
            at = f'x="{x + w / 2:.4g}" y="{y + h / 2 + 0.36 * DIGIT:.0f}"'
            tint = scale.fill(value) if scale else ""
            self.add(
                f'<rect{tint} x="{x:.4g}" y="{y:.4g}"/><text {at}>{written(value)}</text>'
            )
            self.reach(x, y, w, h)
        self.add("</g>")

    def tints(
        self, x: float, y: float, w: float, h: float, rows: Matrix, scale: Scale
    ) -> None:
        """Draw a grid of cells without numbers, those of one tint as one shape."""
        same: dict[str, list[str]] = {}
        for i, row in enumerate(rows):
            for j, value in enumerate(row):
                tint = scale.fill(value)
                at = f"M{x + j * w + 0.5:.4g} {y + i * h + 0.5:.4g}"
                same.setdefault(tint, []).append(
                    f"{at}h{w - 1:.3g}v{h - 1:.3g}h{1 - w:.3g}z"
                )
        for tint, cells in same.items():
            if tint:
                self.add(f'<path{tint} d="{"".join(cells)}"/>')
        self.reach(x, y, w * len(rows[0]), h * len(rows))

    def svg(self, alt: str) -> str:
        """Return everything as SVG, with its style."""
        x, y, wide, high = self.view
        parts = "".join(self.parts)
        sheet = style(palette=' class="k' in parts)
        least = math.ceil(legible_width(wide))
        shape = f"width:{wide}px" + (f";min-width:{least}px" if least > NARROW else "")
        return (
            f'<svg class="pb-draw" role="img" '
            f'aria-label="{escape(alt)}" viewBox="{x} {y} {wide} {high}" '
            f'width="{wide}" height="{high}" style="{shape}"><style>{sheet}</style>'
            f"{parts}</svg>"
        )

    def drawing(self, *, alt: str, text: str) -> Drawing:
        """Close the picture."""
        return Drawing(self.svg(alt), alt=alt, text=text, width=self.view[2])


@cache
def style(*, palette: bool = True) -> str:
    """Return the style sheet of all drawings, and the steps of their scale."""
    names = ["draw.css", "palette.css"] if palette else ["draw.css"]
    sheets = [files("pullback.draw").joinpath(name) for name in names]
    return "".join(
        minified(sheet.read_text(encoding="utf-8")) for sheet in sheets
    ) + "".join(
        f".pb-draw [class$={chr(ord('A') + step)}]{{--o:{opacity(step):.2g}}}"
        for step in range(TINTS)
    )


def minified(sheet: str) -> str:
    """Return a style sheet without its comments and the spaces between its parts."""
    sheet = re.sub(r"/\*.*?\*/", "", sheet, flags=re.DOTALL)
    return re.sub(r" ?([{};,]) ?|(?<=:) ", r"\1", re.sub(r"\s+", " ", sheet)).strip()


def opacity(step: int) -> float:
    """Return how strong a step of the scale is."""
    return FAINTEST + (STRONGEST - FAINTEST) * step / (TINTS - 1)


def legible_width(width: float) -> float:
    """Return the width below which the smaller words would be less than 11 pixels."""
    return min(width, max(NARROW, width * LEGIBLE / WORD))


def around(a: Point, b: Point, middle: Point, size: Point) -> Iterator[tuple[Point, Point]]:
    """Yield what is left of a line from a to b outside of a box."""
    enter, leave = 0.0, 1.0
    for p, q, m, s in zip(a, b, middle, size, strict=True):
        if abs(q - p) < 1e-9:
            if abs(p - m) >= s / 2:
                leave = -1.0
            continue
        ends = sorted(((m - s / 2 - p) / (q - p), (m + s / 2 - p) / (q - p)))
        enter, leave = max(enter, ends[0]), min(leave, ends[1])
    if enter >= leave:
        yield a, b
        return
    for start, stop in ((0.0, enter), (leave, 1.0)):
        if stop - start > 1e-9:
            yield (
                (a[0] + start * (b[0] - a[0]), a[1] + start * (b[1] - a[1])),
                (a[0] + stop * (b[0] - a[0]), a[1] + stop * (b[1] - a[1])),
            )


def tidy(number: float) -> str:
    """Return a number in two to four digits, as the script writes it."""
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    if 0 < abs(number) < 1e-3 or 1e6 <= abs(number) < 1e308:
        digits, power = f"{number:.{1 if abs(number) < 1 else 2}e}".split("e")
        return f"{digits}e{int(power)}"
    rounded = float(f"{number:.{3 if abs(number) < 1 else 4}g}")
    if not math.isfinite(rounded):  # the largest of all
        return repr(number)
    return str(int(rounded)) if rounded == int(rounded) else repr(rounded)


def written(number: float) -> str:
    """Return a number as a drawing shows it, with a real minus."""
    return tidy(number).replace("-", "\N{MINUS SIGN}")


def listed(values: Iterable[float]) -> str:
    """Return numbers as a list, as text."""
    return f"[{', '.join(map(tidy, values))}]"


def text_width(text: str, size: float) -> float:
    """Return about how wide text is, on the wide side."""
    narrow = sum(c in " .,:;|il[]()'" for c in text)
    return size * (0.6 * (len(text) - narrow) + 0.34 * narrow)


def cell_width(numbers: Iterable[float], least: float = 34) -> float:
    """Return the width of cells that hold these numbers."""
    widest = max((text_width(written(x), DIGIT) + 12 for x in numbers), default=0.0)
    return even(max(least, widest))


def even(size: float) -> float:
    """Return the next even number of pixels, whose middle is a pixel, too."""
    return 2.0 * math.ceil(size / 2)


def joined(parts: Sequence[str]) -> str:
    """Return words as a list in a sentence."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def elements(name: str, shape: Sequence[int]) -> list[str]:
    """Return the names of the elements of a tensor, such as x, x[0] and x[0, 1]."""
    indices = product(*(range(size) for size in shape))
    return [f"{name}[{', '.join(map(str, index))}]" if index else name for index in indices]


def real(name: str, value: Any) -> Tensor:
    """Return a tensor, array, number or nested list as a float64 tensor on the CPU."""
    try:
        t = value if isinstance(value, Tensor) else torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(
            f"{name} is {kind_of(value)}; a tensor, or numbers, are needed"
        ) from error
    if t.is_complex():
        raise TypeError(f"{name} has dtype {t.dtype}; real numbers are needed")
    return t.detach().to("cpu", torch.float64).to_dense()


class Product(NamedTuple):
    """The numbers of a product of a vector and a Jacobian, flat, with their names."""

    weights: list[float]
    J: Matrix
    result: list[float]
    rows: list[str]
    columns: list[str]

    @property
    def scale(self) -> Scale:
        """One scale for all of them."""
        return Scale(self.weights, self.result, *self.J)


def names_for(
    what: str, given: Sequence[str] | None, default: str, shape: Sequence[int]
) -> list[str]:
    """Return the names of rows or columns: those given, or the usual ones."""
    usual = elements(default, shape)
    if given is None:
        return usual
    if len(given) != len(usual):
        raise ValueError(f"{what} has {len(given)} names; {len(usual)} are needed")
    return list(given)
