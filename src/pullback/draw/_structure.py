"""Which output depends on which input, of which shapes, and what the whole would cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from pullback._report import Table
from pullback.draw._svg import (
    NARROW,
    WORD,
    Canvas,
    Drawing,
    joined,
    names_for,
    real,
    text_width,
)

if TYPE_CHECKING:
    from pullback._mixing import Mixing
    from pullback._sparse.plan import Sparsity

LARGEST = 40  # rows and columns that are drawn one by one
KINDS = 6  # tints of samples, or of colours, before they begin again


def dependence(
    J: Tensor | Mixing | Sparsity | Any,
    *,
    samples: int | None = None,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    alt: str | None = None,
) -> Drawing:
    """Draw which outputs depend on which inputs: a filled cell for each that does.

    Args:
        J: A Jacobian of shape ``(m, n)``, of which entries other than zero count, a
            boolean pattern, or what :func:`pullback.mixing` or :func:`pullback.sparsity`
            found.
        samples: How many samples of equal size the outputs, and the inputs, belong to, in
            order; each has its tint. A cell where an output depends on the input of
            another sample is marked. Left out, a square J has as many as rows.
        rows: Names of the outputs; ``y[0]``, ``y[1]``… when left out.
        columns: Names of the inputs; ``x[0]``, ``x[1]``… when left out.
        alt: What a reader who does not see the picture is told; left out, what mixes.

    Returns:
        A :class:`Drawing`.

    Raises:
        TypeError: J holds no real numbers.
        ValueError: J is no matrix of up to 40 rows and columns, samples do not divide both,
            or there are more or fewer names than rows or columns.

    Examples:
        >>> import torch, pullback
        >>> pullback.draw.dependence(torch.tensor([[2.0, 0.0], [1.0, 4.0]]))
        Which output depends on which input: 1 of 2 outputs depends on another sample
        output  x[0]  x[1]
        y[0]    yes   ·
        y[1]    mix   yes
    """
    pattern = _pattern(J)
    m, n = pattern.shape
    if samples is None:
        samples = m if m == n else 1
    if samples < 1 or m % samples or n % samples:
        raise ValueError(f"samples is {samples}; it has to divide {m} rows and {n} columns")
    names = (
        names_for("rows", rows, "y", (m,)),
        names_for("columns", columns, "x", (n,)),
    )
    owner_of_row = [i // (m // samples) for i in range(m)]
    owner_of_column = [j // (n // samples) for j in range(n)]
    shown, place = _places(names, pattern)
    outside = 0
    for i, line in enumerate(pattern.tolist()):
        strange = False
        for j, filled in enumerate(line):
            own = owner_of_row[i] == owner_of_column[j]
            strange = strange or (filled and not own)
            tint = owner_of_row[i] % KINDS if samples > 1 else 0
            _dependence_cell(shown, *place(i, j), filled=filled, own=own, tint=tint)
        outside += strange
    if samples == 1:
        what = f"{int(pattern.sum())} of {m * n} entries are not zero"
    elif outside:
        verb = "depends" if outside == 1 else "depend"
        what = f"{outside} of {m} outputs {verb} on another sample"
    else:
        what = "each output depends on its own sample alone"
    caption = f"Which output depends on which input: {what}"
    words = [
        [
            name,
            *(
                "·" if not filled else "yes" if owner_of_row[i] == owner else "mix"
                for filled, owner in zip(line, owner_of_column, strict=True)
            ),
        ]
        for i, (name, line) in enumerate(zip(names[0], pattern.tolist(), strict=True))
    ]
    text = Table(caption, ("output", *names[1]), words).text()
    return shown.drawing(alt=alt or f"{caption}.", text=text)


def compression(plan: Sparsity, *, alt: str | None = None) -> Drawing:
    """Draw a sparse Jacobian, its colours, and the few products that it is read from.

    Columns of one colour share no row, and one product with the sum of their unit vectors
    carries them all; in reverse mode rows do so. The grid at the top is J in its colours,
    the one below holds the products.

    Args:
        plan: What :func:`pullback.sparsity` found, with mode forward or reverse.
        alt: What a reader who does not see the picture is told; left out, the counts.

    Returns:
        A :class:`Drawing`.

    Raises:
        ValueError: The pattern is larger than 40 × 40, or mode is both or symmetric.

    Examples:
        >>> import torch, pullback
        >>> plan = pullback.sparsity(lambda x: x[1:] * x[:-1], torch.ones(5))
        >>> pullback.draw.compression(plan)
        A Jacobian of 4 × 5 from 2 products, one for each color
        color  rows
        1      y[0] y[2]
        2      y[1] y[3]
    """
    if plan.mode not in ("forward", "reverse"):
        raise ValueError(f"the plan's mode is {plan.mode!r}; forward or reverse is needed")
    pattern = _pattern(plan)
    m, n = pattern.shape
    forward = plan.mode == "forward"
    colors = plan.colors.tolist()
    names = names_for("rows", None, "y", (m,)), names_for("columns", None, "x", (n,))
    few, lines = plan.n_colors, "columns" if forward else "rows"
    shown = Canvas()
    left = 12.0
    side = max(8.0, min(26.0, (NARROW - left - (few + 3) * 8.0) / (n + few * forward)))
    shown.words(left + n * side / 2, 9, f"J, {m} × {n}")
    for i, j in pattern.nonzero().tolist():
        color = colors[j if forward else i]
        _tile(shown, left + j * side, 24 + i * side, side, color, side >= 16)
    shown.box(left - 3, 21, n * side + 6, m * side + 6, r=8)
    if forward:  # columns move together beside J
        x0, y0 = left + n * side + 34, 24.0
        shown.arrow([(x0 - 26, y0 + m * side / 2), (x0 - 8, y0 + m * side / 2)])
        shown.words(x0 + few * side / 2, 9, f"{m} × {few}")
        shown.box(x0 - 3, 21, few * side + 6, m * side + 6, r=8)
    else:
        x0, y0 = left, 24 + m * side + 34
        shown.arrow([(x0 + n * side / 2, y0 - 26), (x0 + n * side / 2, y0 - 8)])
        shown.words(x0 + n * side + 12, y0 + few * side / 2, f"{few} × {n}", "s")
        shown.box(x0 - 3, y0 - 3, n * side + 6, few * side + 6, r=8)
    for i, j in pattern.nonzero().tolist():
        color = colors[j if forward else i]
        x = x0 + (color if forward else j) * side
        y = y0 + (i if forward else color) * side
        _tile(shown, x, y, side, color, side >= 16)
    members = [
        [name for name, c in zip(names[forward], colors, strict=True) if c == color]
        for color in range(few)
    ]
    one = "product" if few == 1 else "products"
    caption = f"A Jacobian of {m} × {n} from {few} {one}, one for each color"
    rows = [[str(c + 1), " ".join(group)] for c, group in enumerate(members)]
    groups = [
        f"{lines} {joined(group)} have color {c + 1}" for c, group in enumerate(members)
    ]
    told = f"{caption}: {'; '.join(groups)}." if m + n < 24 else f"{caption}."
    return shown.drawing(
        alt=alt or told, text=Table(caption, ("color", lines), rows).text()
    )


def shapes(y: Any, x: Any, *, alt: str | None = None) -> Drawing:
    """Draw the rule of shapes: v looks like y, and what comes back looks like x.

    Args:
        y: A tensor, or its shape.
        x: A tensor, or its shape.
        alt: What a reader who does not see the picture is told; left out, the shapes.

    Returns:
        A :class:`Drawing`.

    Raises:
        ValueError: A size is negative.

    Examples:
        >>> import pullback
        >>> pullback.draw.shapes((2, 3), (4,))
        v looks like y, and x.grad looks like x
        x       (4,)
        y       (2, 3)
        v       (2, 3)
        x.grad  (4,)
        J       (2, 3, 4)
    """
    y_shape, x_shape = _shape(y), _shape(x)
    shown = Canvas()
    column = (0.0, 190.0)
    high = max(_tensor_size(y_shape)[1], _tensor_size(x_shape)[1])
    second = 62 + high + 30
    for name, shape, at, top in (
        ("x", x_shape, column[0], 0.0),
        ("y", y_shape, column[1], 0.0),
        ("x.grad", x_shape, column[0], second),
        ("v", y_shape, column[1], second),
    ):
        _tensor(shown, name, shape, at, top, high)
    for at in column:
        middle = at + 65
        shown.line([(middle - 3, 44 + high + 4), (middle - 3, second - 4)])
        shown.line([(middle + 3, 44 + high + 4), (middle + 3, second - 4)])
    half = 44 + high / 2
    shown.arrow([(136, half), (184, half)])
    shown.words(160, half - 13, "forward")
    shown.arrow([(184, second + half), (136, second + half)], "l a")
    shown.words(160, second + half - 13, "back")
    text = str((*y_shape, *x_shape))
    whole = second + 44 + high + 22
    shown.words(160, whole, f"J: y.shape + x.shape = {text}", "m")

    rows = [
        ["x", str(x_shape)],
        ["y", str(y_shape)],
        ["v", str(y_shape)],
        ["x.grad", str(x_shape)],
        ["J", text],
    ]
    caption = "v looks like y, and x.grad looks like x"
    sentence = (
        f"x of shape {x_shape} goes forward to y of shape {y_shape}. v has the shape of y, "
        f"{y_shape}, and goes back to x.grad, which has the shape of x, {x_shape}. The "
        f"Jacobian would have shape {text}."
    )
    return shown.drawing(alt=alt or sentence, text=Table(caption, (), rows).text())


def cost(J: Any, *, alt: str | None = None) -> Drawing:
    """Draw what the whole Jacobian costs: a product for each row, or one for each column.

    Args:
        J: A Jacobian of shape ``(m, n)``, or the shape.
        alt: What a reader who does not see the picture is told; left out, the counts.

    Returns:
        A :class:`Drawing`.

    Raises:
        ValueError: It is not two sizes of at least 1.

    Examples:
        >>> import pullback
        >>> pullback.draw.cost((2, 6))
        The whole Jacobian of 2 × 6: 2 products in reverse mode, 6 in forward mode
        reverse  one product per row     2 products
        forward  one product per column  6 products
    """
    shape = _shape(J)
    if len(shape) != 2 or min(shape) < 1:
        raise ValueError(f"the shape is {shape}; (m, n), both at least 1, is needed")
    m, n = shape
    unit = min(22.0, 300 / n, 150 / m)
    wide, high = max(n * unit, 4.0), max(m * unit, 4.0)
    shown = Canvas()
    y = 0.0
    ways = (("reverse", "row", m), ("forward", "column", n))
    for mode, line, count in ways:
        shown.words(0, y + 9, f"{mode}: {_products(count)}", "b s")
        shown.words(0, y + 26, f"one per {line}", "m s")
        top = y + 40
        stripes = min(count, 40)
        for k in range(stripes):
            if mode == "reverse":
                h = high / stripes
                shown.box(0, top + k * h, wide, max(1.0, h - 2), ' class="p w"', 4)
                if count <= 12:
                    middle = top + k * h + h / 2 - 1
                    shown.arrow([(wide + 34, middle), (wide + 8, middle)], "l a")
            else:
                w = wide / stripes
                shown.box(k * w, top, max(1.0, w - 2), high, ' class="q w"', 4)
                if count <= 12:
                    middle = k * w + w / 2 - 1
                    shown.arrow([(middle, top + high + 30), (middle, top + high + 8)], "l")
        y = top + high + (42 if mode == "forward" and count <= 12 else 26)

    caption = (
        f"The whole Jacobian of {m} × {n}: {_products(m)} in reverse "
        f"mode, {n} in forward mode"
    )
    rows = [
        [mode, f"one product per {line}", _products(count)] for mode, line, count in ways
    ]
    return shown.drawing(alt=alt or f"{caption}.", text=Table(caption, (), rows).text())


def _products(count: int) -> str:
    return f"{count} product" if count == 1 else f"{count} products"


def _pattern(J: Any) -> Tensor:
    """Return a boolean matrix of what is not zero."""
    found = getattr(J, "pattern", getattr(J, "matrix", J))  # of Sparsity, or Mixing
    pattern = real("J", found) != 0
    if pattern.ndim != 2 or not all(1 <= size <= LARGEST for size in pattern.shape):
        raise ValueError(
            f"J has shape {tuple(pattern.shape)}; a matrix with 1 to {LARGEST} rows and "
            "columns is needed"
        )
    return pattern


def _places(
    names: tuple[Sequence[str], Sequence[str]], pattern: Tensor
) -> tuple[Canvas, Callable[[int, int], tuple[float, float, float, float]]]:
    """Write the names that fit; return the canvas and where each cell stands."""
    shown = Canvas()
    m, n = pattern.shape
    left = max(text_width(name, WORD) for name in names[0]) + 8 if m <= 12 else 12.0
    side = min(34.0, (NARROW - left) / n)
    wide = max(text_width(name, WORD) + 2 for name in names[1])
    named = wide <= max(side, 40) and left + n * wide <= NARROW
    across = max(side, wide) if named else side
    if named:
        for j, name in enumerate(names[1]):
            shown.words(left + (j + 0.5) * across, 9, name)
    else:
        shown.words(left + n * across / 2, 9, f"{n} inputs")
    high = max(side, 18.0) if m <= 12 else side
    if m <= 12:
        for i, name in enumerate(names[0]):
            shown.words(left - 8, 24 + (i + 0.5) * high, name, "e")

    def place(i: int, j: int) -> tuple[float, float, float, float]:
        gap = 2 if side > 12 else 0.5
        x, y = left + j * across + gap, 24 + i * high + gap
        return x, y, across - 2 * gap, high - 2 * gap

    return shown, place


def _dependence_cell(
    shown: Canvas,
    x: float,
    y: float,
    w: float,
    h: float,
    *,
    filled: bool,
    own: bool,
    tint: int,
) -> None:
    r = min(6.0, w / 4)
    if not filled:
        return shown.box(x, y, w, h, r=r)
    if own:
        return shown.box(x, y, w, h, f' class="k{tint}"', r)
    shown.box(x, y, w, h, ' class="g"', r)
    if w >= 10:  # marked by more than its colour
        inset = min(w, h) * 0.32
        cx, cy = x + w / 2, y + h / 2
        d = min(w, h) / 2 - inset
        shown.line([(cx - d, cy - d), (cx + d, cy + d)])
        shown.line([(cx - d, cy + d), (cx + d, cy - d)])
    return None


def _tile(shown: Canvas, x: float, y: float, side: float, color: int, digits: bool) -> None:
    gap = 1.5 if side > 12 else 0.5
    shown.box(
        x + gap,
        y + gap,
        side - 2 * gap,
        side - 2 * gap,
        f' class="k{color % KINDS}"',
        min(5.0, side / 4),
    )
    if digits:
        shown.words(x + side / 2, y + side / 2, str(color + 1))


def _shape(value: Any) -> tuple[int, ...]:
    shape = tuple(int(size) for size in getattr(value, "shape", value))
    if any(size < 0 for size in shape):
        raise ValueError(f"a shape of {shape}; sizes of at least 0 are needed")
    return shape


def _tensor_size(shape: Sequence[int]) -> tuple[float, float]:
    rows, columns = _front(shape)
    sheets = min(3, max(1, torch.Size(shape[:-2]).numel())) - 1
    return columns * 22 + sheets * 7, rows * 22 + sheets * 7


def _front(shape: Sequence[int]) -> tuple[int, int]:
    """Return the rows and columns of the first sheet, as many as are drawn."""
    columns = shape[-1] if shape else 1
    rows = shape[-2] if len(shape) > 1 else 1
    return min(5, max(1, rows)), min(5, max(1, columns))


def _tensor(
    shown: Canvas, name: str, shape: Sequence[int], x: float, y: float, room: float
) -> None:
    """Draw a tensor as a sheet of cells, with more sheets behind it."""
    middle = x + 65
    tint = "p" if name in ("v", "x.grad") else ""
    shown.words(middle, y + 9, name, "b")
    shown.words(middle, y + 27, str(tuple(shape)), "m")
    wide, high = _tensor_size(shape)
    rows, columns = _front(shape)
    sheets = min(3, max(1, torch.Size(shape[:-2]).numel()))
    left, top = middle - wide / 2, y + 44 + (room - high) / 2
    for sheet in range(1, sheets):  # of which an edge looks out at the top and the right
        x0, y0 = left + 7 * sheet, top + 7 * (sheets - 1 - sheet)
        x1, y1 = x0 + columns * 22, y0 + rows * 22
        edge = [(x0, y0 + 5), (x0, y0), (x1, y0), (x1, y1), (x1 - 5, y1)]
        shown.line(edge)
    front = top + 7 * (sheets - 1)
    fill = f' class="{tint} w"' if tint else ""
    for i in range(rows):
        for j in range(columns):
            shown.box(left + j * 22 + 1, front + i * 22 + 1, 20, 20, fill, 5)
