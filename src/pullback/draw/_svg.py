"""What every drawing is made of: cells, words, lines, one scale of colours, and alt text."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from html import escape
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

DIGIT, WORD = 15, 13  # sizes of the two kinds of text, in pixels
LEGIBLE = 11  # what the smaller of them may shrink to on a narrow screen
NARROW = 328  # what a phone of 360 pixels leaves for a drawing
CELL, GAP = 36, 4  # height of a cell, and the space between two
STRONGEST, FAINTEST = 0.55, 0.07  # tint of the largest number, and of the smallest

Matrix = list[list[float]]

# Ink and paper are those of the page, light or dark: lines and text take the colour of the
# text around them, and tints are laid over whatever is behind. STRONGEST is chosen so that
# text on a tint keeps its contrast on both.
STYLE = """<style>
.pb-drawing{overflow-x:auto;margin:.7rem 0 1.3rem}
.pb-draw{display:block;height:auto;max-width:100%;font-family:inherit;overflow:visible}
.pb-draw text{fill:currentColor;stroke:none;font-size:13px;font-style:normal;text-anchor:middle;font-variant-numeric:tabular-nums}
.pb-draw .n{font-size:15px}
.pb-draw .b{font-weight:600}
.pb-draw .m{fill-opacity:.78}
.pb-draw .s{text-anchor:start}
.pb-draw .e{text-anchor:end}
.pb-draw :is(rect,path){fill:none;stroke:none}
.pb-draw rect{stroke:currentColor;stroke-opacity:.28}
.pb-draw .r{stroke-opacity:.8;stroke-width:1.5px}
.pb-draw .l{stroke:currentColor;stroke-opacity:.6;stroke-width:1.5px;stroke-linecap:round;stroke-linejoin:round}
.pb-draw .d{stroke-dasharray:1 5}
.pb-draw .a{stroke:var(--pb-accent,#7a66d9);stroke-opacity:1;stroke-width:2px}
.pb-draw .p{fill:var(--pb-plus,#6450c8)}
.pb-draw .q{fill:var(--pb-minus,#d66820)}
.pb-draw :is(.k0,.k1,.k2,.k3,.k4,.k5){fill-opacity:.5}
.pb-draw .k0{fill:var(--pb-plus,#6450c8)}
.pb-draw .k1{fill:var(--pb-minus,#d66820)}
.pb-draw .k2{fill:#1f8a70}
.pb-draw .k3{fill:#c2448a}
.pb-draw .k4{fill:#2f7fc1}
.pb-draw .k5{fill:#8a7a1f}
</style>"""


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
        Path(path).write_text(self.svg, encoding="utf-8")

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.html


class Scale:
    """One scale of tints for all the numbers of a picture: violet above 0, orange below."""

    def __init__(self, *groups: Iterable[float]) -> None:
        finite = [abs(x) for group in groups for x in group if math.isfinite(x)]
        self.most = max(finite, default=0.0) or 1.0

    def opacity(self, number: float, strongest: float = STRONGEST) -> float:
        """Return how strong the tint of a number is; 0 has none."""
        if number == 0 or math.isnan(number):
            return 0.0
        share = min(1.0, abs(number) / self.most)
        return round(FAINTEST + (strongest - FAINTEST) * share, 3)

    def fill(self, number: float, strongest: float = STRONGEST) -> str:
        """Return the attributes that tint a shape."""
        if not (opacity := self.opacity(number, strongest)):
            return ""
        kind = "p" if number > 0 else "q"
        return f' class="{kind}" fill-opacity="{opacity:g}"'


class Canvas:
    """Shapes and words, collected from back to front."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.width = self.height = 0.0

    def add(self, part: str) -> None:
        """Add a piece of SVG."""
        self.parts.append(part)

    def reach(self, x: float, y: float) -> None:
        """Make the picture large enough to hold a point."""
        self.width, self.height = max(self.width, x), max(self.height, y)

    def words(self, x: float, y: float, text: str, kind: str = "") -> None:
        """Write text with the middle of its letters at height y; kind: n, b, m, s, e."""
        size = DIGIT if "n" in kind.split() else WORD
        chosen = f' class="{kind}"' if kind else ""
        at = f'x="{x:.4g}" y="{y + 0.36 * size:.4g}"'
        self.add(f"<text{chosen} {at}>{escape(text, quote=False)}</text>")
        wide = text_width(text, size)
        self.reach(
            x + (wide if "s" in kind else 0 if "e" in kind else wide / 2), y + size / 2
        )

    def box(
        self, x: float, y: float, w: float, h: float, attributes: str = "", r: float = 6
    ) -> None:
        """Draw a rounded box."""
        self.add(
            f'<rect{attributes} x="{x:.4g}" y="{y:.4g}" width="{w:.4g}" '
            f'height="{h:.4g}" rx="{r:g}"/>'
        )
        self.reach(x + w, y + h)

    def line(self, points: Sequence[tuple[float, float]], kind: str = "l") -> None:
        """Draw a line through points."""
        d = "L".join(f"{x:.4g} {y:.4g}" for x, y in points)
        self.add(f'<path class="{kind}" d="M{d}"/>')

    def arrow(
        self, points: Sequence[tuple[float, float]], kind: str = "l", head: float = 6
    ) -> None:
        """Draw a line that ends in an open arrow head."""
        (x0, y0), (x1, y1) = points[-2:]
        length = math.hypot(x1 - x0, y1 - y0) or 1.0
        dx, dy = head * (x1 - x0) / length, head * (y1 - y0) / length
        d = "L".join(f"{x:.4g} {y:.4g}" for x, y in points)
        one, other = (
            f"{x1 - dx - side * dy * 0.7:.4g} {y1 - dy + side * dx * 0.7:.4g}"
            for side in (1, -1)
        )
        self.add(f'<path class="{kind}" d="M{d}M{one}L{x1:.4g} {y1:.4g}L{other}"/>')

    def number(
        self,
        x: float,
        y: float,
        w: float,
        h: float,
        value: float,
        scale: Scale,
        kind: str = "",
    ) -> None:
        """Draw a cell with a number in it, tinted by the scale; kind names the group."""
        group = f'<g class="{kind}">' if kind else "<g>"
        self.add(group)
        self.box(x, y, w, h, scale.fill(value))
        self.words(x + w / 2, y + h / 2, written(value), "n")
        self.add("</g>")

    def tints(
        self, x: float, y: float, w: float, h: float, rows: Matrix, scale: Scale
    ) -> None:
        """Draw a grid of cells without numbers, those of one tint as one shape."""
        same: dict[str, list[str]] = {}
        for i, row in enumerate(rows):
            for j, value in enumerate(row):
                tint = scale.fill(round(value / scale.most * 20) / 20 * scale.most, 0.9)
                at = f"M{x + j * w + 0.5:.4g} {y + i * h + 0.5:.4g}"
                same.setdefault(tint, []).append(
                    f"{at}h{w - 1:.3g}v{h - 1:.3g}h{1 - w:.3g}z"
                )
        for tint, cells in same.items():
            if tint:
                self.add(f'<path{tint} d="{"".join(cells)}"/>')
        self.reach(x + w * len(rows[0]), y + h * len(rows))

    def drawing(self, *, alt: str, text: str, margin: float = 2) -> Drawing:
        """Close the picture."""
        wide, high = math.ceil(self.width + 2 * margin), math.ceil(self.height + 2 * margin)
        least = math.ceil(legible_width(wide))
        shape = f"width:{wide}px" + (f";min-width:{least}px" if least > NARROW else "")
        svg = (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="pb-draw" role="img" '
            f'aria-label="{escape(alt)}" viewBox="{-margin:g} {-margin:g} {wide} {high}" '
            f'width="{wide}" height="{high}" style="{shape}">{STYLE}'
            f"{''.join(self.parts)}</svg>"
        )
        return Drawing(svg, alt=alt, text=text, width=wide)


def legible_width(width: float) -> float:
    """Return the width below which the smaller words would be less than 11 pixels."""
    return min(width, max(NARROW, width * LEGIBLE / WORD))


def holes(x: float, y: float, w: float, h: float, cells: Iterable[Any], r: float) -> str:
    """Return the outline of a box with boxes left out, to be filled even-odd.

    A tint behind cells would change theirs.
    """
    return rounded(x, y, w, h, r) + "".join(rounded(*cell, 6) for cell in cells)


def rounded(x: float, y: float, w: float, h: float, r: float) -> str:
    """Return the outline of a rounded box."""
    a = f"a{r:g} {r:g} 0 0 1"
    return (
        f"M{x + r:.4g} {y:.4g}h{w - 2 * r:.4g}{a} {r:g} {r:g}v{h - 2 * r:.4g}{a}-{r:g} {r:g}"
        f"h{2 * r - w:.4g}{a}-{r:g}-{r:g}v{2 * r - h:.4g}{a} {r:g}-{r:g}z"
    )


def tidy(number: float) -> str:
    """Return a number in three or four digits, as the script writes it."""
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    if 0 < abs(number) < 1e-3:
        digits, power = f"{number:.1e}".split("e")
        return f"{digits}e{int(power)}"
    rounded = float(f"{number:.{3 if abs(number) < 1 else 4}g}")
    return str(int(rounded)) if rounded == int(rounded) else repr(rounded)


def written(number: float) -> str:
    """Return a number as a drawing shows it, with a real minus and a short infinity."""
    return tidy(number).replace("Infinity", "∞").replace("-", "\N{MINUS SIGN}")


def listed(values: Iterable[float]) -> str:
    """Return numbers as a list, as text."""
    return f"[{', '.join(map(tidy, values))}]"


def text_width(text: str, size: float) -> float:
    """Return about how wide text is, on the wide side."""
    narrow = sum(c in " .,:;|il[]()'" for c in text)
    return size * (0.6 * (len(text) - narrow) + 0.34 * narrow)


def cell_width(numbers: Iterable[float], least: float = 34) -> float:
    """Return the width of cells that hold these numbers."""
    return max([least, *(text_width(written(x), DIGIT) + 12 for x in numbers)])


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
            f"{name} is a {type(value).__name__}; a tensor, or numbers, are needed"
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


def names_for(
    what: str, given: Sequence[str] | None, default: str, shape: Sequence[int]
) -> list[str]:
    """Return the names of rows or columns: those given, or y[0], y[1]…"""
    usual = elements(default, shape)
    if given is None:
        return usual
    if len(given) != len(usual):
        raise ValueError(f"{what} has {len(given)} names; {len(usual)} are needed")
    return list(given)
