"""A vector and a Jacobian: pulled back, pushed forward, through a chain, and added up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback._report import Table
from pullback.draw._svg import (
    CELL,
    GAP,
    NARROW,
    WORD,
    Canvas,
    Drawing,
    Matrix,
    Product,
    Scale,
    cell_width,
    holes,
    joined,
    legible_width,
    listed,
    names_for,
    real,
    text_width,
    tidy,
)

LARGEST = 40  # rows, and columns, that are drawn one by one
STEP = CELL + GAP
ROW_CAPTION = "v weighs the rows of J; their sum is vᵀJ"
COLUMN_CAPTION = "u weighs the columns of J; their sum is J u"


def vjp(
    v: Any,
    J: Any,
    *,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    result_name: str = "vᵀJ",
    digits: bool | None = None,
    alt: str | None = None,
) -> Drawing:
    r"""Draw :math:`v^\top J`: v beside the rows of J that it weighs, their sum beneath.

    Args:
        v: Cotangent, of y's shape: one weight for each row.
        J: Jacobian of shape ``y.shape + x.shape``.
        rows: Names of the outputs; ``y[0]``, ``y[1]``… when left out.
        columns: Names of the inputs; ``x[0]``, ``x[1]``… when left out.
        result_name: What the result is, such as ``x.grad``.
        digits: Whether numbers are written into the cells; left out, wherever they fit a
            phone. Without them the cells have their tints alone.
        alt: What a reader who does not see the picture is told; left out, the numbers in
            a sentence.

    Returns:
        A :class:`Drawing`.

    Raises:
        TypeError: v or J holds no real numbers.
        ValueError: J's shape does not begin with v's, there are more or fewer names than
            rows or columns, or more than 40 of either.

    Examples:
        >>> import torch, pullback
        >>> J = torch.tensor([[1.0, 1.0, 1.0], [2.0, 4.0, 6.0]])
        >>> v = torch.tensor([10.0, -1.0])
        >>> pullback.draw.vjp(v, J, rows=["heat", "fuel"], result_name="x.grad")
        v weighs the rows of J; their sum is vᵀJ
        output  v   x[0]  x[1]  x[2]
        heat    10  1     1     1
        fuel    -1  2     4     6
        x.grad      8     6     4
    """
    weights, jacobian = real("v", v), real("J", J)
    if jacobian.shape[: weights.ndim] != weights.shape:
        raise ValueError(
            f"v has shape {tuple(weights.shape)} and J has shape {tuple(jacobian.shape)}; "
            "J of shape y.shape + x.shape and v of y's shape are needed"
        )
    y_shape, x_shape = weights.shape, jacobian.shape[weights.ndim :]
    matrix = jacobian.reshape(y_shape.numel(), x_shape.numel())
    drawing = by_rows(
        Product(
            weights.reshape(-1).tolist(),
            matrix.tolist(),
            (weights.reshape(-1) @ matrix).tolist(),
            names_for("rows", rows, "y", y_shape),
            names_for("columns", columns, "x", x_shape),
        ),
        result_name=result_name,
        digits=digits,
        alt=alt,
    )
    if weights.isfinite().all() and jacobian.isfinite().all():  # else it were no JSON
        drawing.numbers = {"v": weights.tolist(), "J": jacobian.tolist()}
    return drawing


def jvp(
    J: Any,
    u: Any,
    *,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    result_name: str = "J u",
    digits: bool | None = None,
    alt: str | None = None,
) -> Drawing:
    """Draw J u: u above the columns of J that it weighs, their sum at the right.

    Args:
        J: Jacobian of shape ``y.shape + x.shape``.
        u: Tangent, of x's shape: one weight for each column.
        rows: Names of the outputs; ``y[0]``, ``y[1]``… when left out.
        columns: Names of the inputs; ``x[0]``, ``x[1]``… when left out.
        result_name: What the result is.
        digits: Whether numbers are written into the cells; left out, wherever they fit a
            phone.
        alt: What a reader who does not see the picture is told; left out, the numbers in
            a sentence.

    Returns:
        A :class:`Drawing`.

    Raises:
        TypeError: J or u holds no real numbers.
        ValueError: J's shape does not end with u's, there are more or fewer names than
            rows or columns, or more than 40 of either.

    Examples:
        >>> import torch, pullback
        >>> J = torch.tensor([[1.0, 1.0, 1.0], [2.0, 4.0, 6.0]])
        >>> pullback.draw.jvp(J, torch.tensor([1.0, 0.0, 2.0]))
        u weighs the columns of J; their sum is J u
        output  x[0]  x[1]  x[2]  J u
        u       1     0     2
        y[0]    1     1     1     3
        y[1]    2     4     6     14
    """
    jacobian, weights = real("J", J), real("u", u)
    first = jacobian.ndim - weights.ndim
    if first < 0 or jacobian.shape[first:] != weights.shape:
        raise ValueError(
            f"u has shape {tuple(weights.shape)} and J has shape {tuple(jacobian.shape)}; "
            "J of shape y.shape + x.shape and u of x's shape are needed"
        )
    y_shape, x_shape = jacobian.shape[:first], weights.shape
    matrix = jacobian.reshape(y_shape.numel(), x_shape.numel())
    return by_columns(
        Product(
            weights.reshape(-1).tolist(),
            matrix.tolist(),
            (matrix @ weights.reshape(-1)).tolist(),
            names_for("rows", rows, "y", y_shape),
            names_for("columns", columns, "x", x_shape),
        ),
        result_name=result_name,
        digits=digits,
        alt=alt,
    )


def accumulate(
    *gradients: Any,
    names: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    result_name: str = "x.grad",
    alt: str | None = None,
) -> Drawing:
    """Draw several results that add up, a row each, as ``.grad`` adds them.

    Args:
        gradients: Tensors of one shape, in the order in which they arrive.
        names: What each comes from, such as ``heat.backward()``.
        columns: Names of the inputs; ``x[0]``, ``x[1]``… when left out.
        result_name: What the sum is.
        alt: What a reader who does not see the picture is told; left out, the numbers in
            a sentence.

    Returns:
        A :class:`Drawing`.

    Raises:
        TypeError: One of them holds no real numbers.
        ValueError: There are none, they differ in shape, or there are more or fewer names
            than gradients or inputs.

    Examples:
        >>> import torch, pullback
        >>> pullback.draw.accumulate([1.0, 1.0, 1.0], [2.0, 4.0, 6.0])
        Each backward adds to x.grad
        from      x[0]  x[1]  x[2]
        backward  1     1     1
        backward  2     4     6
        x.grad    3     5     7
    """
    if not gradients:
        raise ValueError("no gradients; at least one is needed")
    each = [real(f"gradients[{i}]", g) for i, g in enumerate(gradients)]
    if any(g.shape != each[0].shape for g in each):
        shapes = joined([str(tuple(g.shape)) for g in each])
        raise ValueError(f"the gradients have shapes {shapes}; one shape is needed")
    told = ["backward"] * len(each) if names is None else list(names)
    if len(told) != len(each):
        raise ValueError(f"names has {len(told)} names; {len(each)} are needed")
    inputs = names_for("columns", columns, "x", each[0].shape)
    lines: Matrix = [g.reshape(-1).tolist() for g in each]
    total: list[float] = sum(each[1:], each[0]).reshape(-1).tolist()
    shown, scale = Canvas(), Scale(total, *lines)
    left = max(text_width(word, WORD) for word in [*told, result_name]) + 24
    wide = cell_width([x for line in [*lines, total] for x in line])
    xs = [left + j * (wide + GAP) for j in range(len(total))]
    y = _heads(shown, xs, wide, inputs)
    for i, (line, name) in enumerate(zip(lines, told, strict=True)):
        shown.words(left - 24, y + CELL / 2, name, "e")
        if i:
            shown.words(left - 12, y + CELL / 2, "+", "n m")
        for x, value in zip(xs, line, strict=True):
            shown.number(x, y, wide, CELL, value, scale)
        y += STEP
    _sum(shown, xs, y, wide, total, scale, result_name, left - 24)
    caption = f"Each backward adds to {result_name}"
    rows = [
        [name, *map(tidy, line)]
        for name, line in zip([*told, result_name], [*lines, total], strict=True)
    ]
    parts = [
        f"{name} brings {listed(line)}" for name, line in zip(told, lines, strict=True)
    ]
    sentence = f"{joined(parts)}; added up, {result_name} is {listed(total)}."
    return shown.drawing(
        alt=alt or sentence, text=Table(caption, ("from", *inputs), rows).text()
    )


def by_rows(
    product: Product,
    *,
    result_name: str,
    digits: bool | None = None,
    alt: str | None = None,
    tall: float = CELL,
    least: float = 34,
) -> Drawing:
    """Draw a product whose weights belong to rows; ``tall`` and ``least`` size cells."""
    weights, J, result, rows, columns = _checked(product)
    shown, scale = Canvas(), Scale(weights, result, *J)
    title = "vᵀJ" if result_name == "vᵀJ" else f"{result_name} = vᵀJ"
    wide = cell_width([*result, *(x for row in J for x in row)], least)
    wide = max(wide, *(text_width(name, WORD) + 4 for name in columns))
    heavy = cell_width(weights, least)
    left = max(text_width(name, WORD) for name in rows) + 8
    left = max(left, text_width(title, WORD) - heavy - 14)
    start = left + heavy + 22
    whole = start + len(columns) * (wide + GAP)
    if digits is None:
        digits = legible_width(whole) <= NARROW
    if not digits:
        return _tints_by_rows(product, scale, title, alt)
    xs = [start + j * (wide + GAP) for j in range(len(columns))]
    y = _heads(shown, xs, wide, columns)
    shown.words(left + heavy / 2, y - 14, "v", "b")
    step = tall + GAP
    ys = [y + i * step for i in range(len(rows))]
    for y, name, weight, row in zip(ys, rows, weights, J, strict=True):
        _band(shown, scale, weight, left, y, whole - left, tall, xs, wide, heavy)
        shown.words(left - 8, y + tall / 2, name, "e")
        shown.number(left, y, heavy, tall, weight, scale, "pb-v")
        shown.words(start - 11, y + tall / 2, "×", "m")
        for x, value in zip(xs, row, strict=True):
            shown.number(x, y, wide, tall, value, scale, "pb-j")
    _sum(shown, xs, ys[-1] + step, wide, result, scale, title, start - 10)
    return shown.drawing(
        alt=alt or row_sentence(product, result_name), text=row_text(product, result_name)
    )


def row_text(product: Product, result_name: str) -> str:
    """Return v, J and vᵀJ as text."""
    weights, J, result, rows, columns = product
    lines = [
        [name, tidy(weight), *map(tidy, row)]
        for name, weight, row in zip(rows, weights, J, strict=True)
    ]
    lines += [[result_name, "", *map(tidy, result)]]
    return Table(ROW_CAPTION, ("output", "v", *columns), lines).text()


def row_sentence(product: Product, result_name: str) -> str:
    """Return v, J and vᵀJ in words."""
    weights, J, result, rows, _ = product
    if len(weights) * len(result) > 36:
        return (
            f"v with {len(weights)} entries stands beside the {len(weights)} rows of J; "
            f"their sum, weighted by v, has {len(result)} entries: {result_name}."
        )
    parts = [
        f"{tidy(weight)} times {name} {listed(row)}"
        for name, weight, row in zip(rows, weights, J, strict=True)
    ]
    return (
        f"v = {listed(weights)} stands beside the rows of J. "
        f"{' plus '.join(parts)} gives {result_name} = {listed(result)}."
    )


def by_columns(
    product: Product,
    *,
    result_name: str,
    digits: bool | None = None,
    alt: str | None = None,
    tall: float = CELL,
    least: float = 34,
) -> Drawing:
    """Draw a product whose weights belong to columns."""
    weights, J, result, rows, columns = _checked(product)
    shown, scale = Canvas(), Scale(weights, result, *J)
    wide = cell_width([*weights, *(x for row in J for x in row)], least)
    wide = max(wide, *(text_width(name, WORD) + 4 for name in columns))
    heavy = max(cell_width(result, least), text_width(result_name, WORD))
    left = max(text_width(name, WORD) for name in [*rows, "u"]) + 8
    end = left + len(columns) * (wide + GAP)
    whole = end + 20 + heavy
    if digits is None:
        digits = legible_width(whole) <= NARROW
    xs = [left + j * (wide + GAP) for j in range(len(columns))]
    if not digits:
        return _tints_by_columns(product, scale, result_name, alt)
    y = _heads(shown, xs, wide, columns)
    first = y + tall + 22
    ys = [first + i * (tall + GAP) for i in range(len(rows))]
    shown.words(left - 8, y + tall / 2, "u", "b e")
    for x, weight in zip(xs, weights, strict=True):
        cells = [(x, y, wide, tall), *((x, at, wide, tall) for at in ys)]
        top, bottom = y - 3, ys[-1] + tall + 3
        if tint := scale.fill(weight, 0.3):
            outline = holes(x - 3, top, wide + 6, bottom - top, cells, 8)
            shown.add(f'<path{tint} fill-rule="evenodd" d="{outline}"/>')
        shown.number(x, y, wide, tall, weight, scale, "pb-v")
        shown.words(x + wide / 2, y + tall + 11, "×", "m")
    for at, name, row in zip(ys, rows, J, strict=True):
        shown.words(left - 8, at + tall / 2, name, "e")
        for x, value in zip(xs, row, strict=True):
            shown.number(x, at, wide, tall, value, scale, "pb-j")
    shown.line([(end + 6, first - 2), (end + 6, ys[-1] + tall + 2)])
    shown.words(end + 16 + heavy / 2, first - 14, result_name, "b")
    for at, value in zip(ys, result, strict=True):
        shown.number(end + 16, at, heavy, tall, value, scale, "pb-sum r")
    lines = [["u", *map(tidy, weights), ""]]
    lines += [
        [name, *map(tidy, row), tidy(value)]
        for name, row, value in zip(rows, J, result, strict=True)
    ]
    text = Table(COLUMN_CAPTION, ("output", *columns, result_name), lines).text()
    parts = [
        f"{tidy(weight)} times {name} {listed(row[j] for row in J)}"
        for j, (name, weight) in enumerate(zip(columns, weights, strict=True))
    ]
    sentence = (
        f"u = {listed(weights)} stands above the columns of J. "
        f"{' plus '.join(parts)} gives {result_name} = {listed(result)}."
    )
    return shown.drawing(alt=alt or sentence, text=text)


def _checked(product: Product) -> Product:
    """Refuse what is too large to be seen."""
    m, n = len(product.weights), len(product.columns)
    if not (1 <= m <= LARGEST and 1 <= n <= LARGEST):
        raise ValueError(
            f"J is {m} × {n}; 1 to {LARGEST} rows and columns can be drawn "
            "(pullback.plot.heatmap draws larger ones)"
        )
    return product


def _heads(shown: Canvas, xs: Sequence[float], wide: float, names: Sequence[str]) -> float:
    """Write the names of columns; return where the first row begins."""
    for x, name in zip(xs, names, strict=True):
        shown.words(x + wide / 2, 9, name)
    return 24


def _band(
    shown: Canvas,
    scale: Scale,
    weight: float,
    x: float,
    y: float,
    w: float,
    h: float,
    xs: Sequence[float],
    wide: float,
    heavy: float,
) -> None:
    """Tint a row by its weight, between the cells and not behind them."""
    cells = [(x, y, heavy, h), *((at, y, wide, h) for at in xs)]
    outline = holes(x - 2, y - 1.5, w + 2, h + 3, cells, 7)
    tint = scale.fill(weight, 0.35)
    shown.add(f'<g class="pb-band"><path{tint} fill-rule="evenodd" d="{outline}"/></g>')


def _sum(
    shown: Canvas,
    xs: Sequence[float],
    y: float,
    wide: float,
    total: Sequence[float],
    scale: Scale,
    name: str,
    at: float,
) -> None:
    """Draw the line under a column of numbers, and the sums beneath it, as on paper."""
    shown.line([(xs[0] - 2, y + 5), (xs[-1] + wide + 2, y + 5)])
    shown.words(at, y + 14 + CELL / 2, name, "b e")
    for x, value in zip(xs, total, strict=True):
        shown.number(x, y + 14, wide, CELL, value, scale, "pb-sum r")
