"""A vector and a Jacobian: pulled back, pushed forward, through a chain, and added up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor

from pullback._report import Table
from pullback.draw._svg import (
    CELL,
    GAP,
    MARGIN,
    NARROW,
    WORD,
    Canvas,
    Drawing,
    Matrix,
    Point,
    Product,
    Scale,
    cell_width,
    even,
    joined,
    legible_width,
    listed,
    names_for,
    real,
    text_width,
    tidy,
    written,
)

LARGEST = 40  # rows, and columns, that are drawn one by one
STEP = CELL + GAP
NARROWEST = 34  # width of a cell
WIDEST = 56  # and of one whose number may change
TOLD = 36  # entries of J up to which the alternative text holds them all
ROW_CAPTION = "v multiplies the rows of J; their sum is vᵀJ"
COLUMN_CAPTION = "u multiplies the columns of J; their sum is J u"


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
    r"""Draw :math:`v^\top J`: v beside the rows of J that it multiplies, their sum beneath.

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
        v multiplies the rows of J; their sum is vᵀJ
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
    """Draw J u: u above the columns of J that it multiplies, their sum at the right.

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
        u multiplies the columns of J; their sum is J u
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
    wide = cell_width([x for line in [*lines, total] for x in line])
    wide = even(max(wide, *(text_width(name, WORD) + 4 for name in inputs)))
    xs = [j * (wide + GAP) for j in range(len(total))]
    _heads(shown, xs, wide, inputs)
    for i, (line, name) in enumerate(zip(lines, told, strict=True)):
        y = i * STEP
        shown.words(-26, y + CELL / 2, name, "e")
        if i:
            shown.words(-13, y + CELL / 2, "+", "n m")
        shown.numbers([(x, y) for x in xs], (wide, CELL), line, scale)
    _sum(shown, xs, len(lines) * STEP, wide, total, scale)
    shown.words(-26, len(lines) * STEP + 14 + CELL / 2, result_name, "b e")
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
    digits: bool | None,
    alt: str | None,
) -> Drawing:
    """Draw a product whose weights belong to rows."""
    _check_size(product)
    text, told = row_text(product, result_name), alt or row_sentence(product, result_name)
    shown = weigh_rows(product, result_name=result_name)
    matrix(shown, product, _width(product, product.result, NARROWEST), CELL)
    if digits is False or (digits is None and legible_width(shown.view[2]) > NARROW):
        shown = _tint_rows(product, result_name)
    return shown.drawing(alt=told, text=text)


def weigh_rows(
    product: Product, *, result_name: str, tall: float = CELL, least: float = NARROWEST
) -> Canvas:
    """Draw v beside the rows of J and their sum beneath; J itself begins at (0, 0)."""
    weights, _, result, rows, columns = product
    shown, scale = Canvas(), product.scale
    wide, heavy = _width(product, result, least), cell_width(weights, least)
    xs, ys = _steps(len(columns), wide), _steps(len(rows), tall)
    v = -22 - heavy
    whole = xs[-1] + wide - v
    _heads(shown, xs, wide, columns)
    shown.words(v + heavy / 2, -14, "v", "b")
    _bands(shown, [(v, y) for y in ys], (whole, tall), weights, scale)
    _write_words(shown, [(v - 10, y + tall / 2) for y in ys], rows, "e")
    _write_words(shown, [(-11, y + tall / 2) for y in ys], ["×"] * len(ys), "m")
    shown.numbers([(v, y) for y in ys], (heavy, tall), weights, scale, "pb-v")
    bottom = ys[-1] + tall + GAP
    _sum(shown, xs, bottom, wide, result, scale)
    title = "vᵀJ" if result_name == "vᵀJ" else f"{result_name} = vᵀJ"
    shown.words(-10, bottom + 14 + CELL / 2, title, "b e")
    return shown


class Alive(NamedTuple):
    """A picture with two views, and how far what stands above J moves up for the second."""

    canvas: Canvas
    views: dict[str, tuple[int, int, int, int]]
    lift: float


def alive(
    rows: Product,
    columns: Product,
    x: Tensor,
    y: Tensor,
    tall: float,
    name: str,
    way: str = "v",
) -> Alive:
    """Draw x above one J, and y beside it, with v and vᵀJ or u and J u, one hidden.

    The name is what f calls x.
    """
    least = max(WIDEST, _width(rows, rows.result, 0), _width(columns, columns.weights, 0))
    least = max(least, cell_width(x.tolist()))
    told = [f"{row} = {written(n)}" for row, n in zip(rows.rows, y.tolist(), strict=True)]
    by_v = weigh_rows(rows._replace(rows=told), result_name="vᵀJ", tall=tall, least=least)
    by_u = weigh_columns(
        columns._replace(rows=told), result_name="J u", tall=tall, least=least
    )
    lift = -22 - tall  # where u stands
    above = Canvas()
    xs = _steps(len(rows.columns), least)
    above.words(-10, -28 - tall / 2, name, "b e")
    places = [(left, -28 - tall) for left in xs]
    above.numbers(places, (least, tall), x.tolist())
    longest = max(text_width(f"{row} = −0.0000", WORD) for row in rows.rows)
    for part, names_end, up in ((by_v, -32 - least, 0.0), (by_u, -10.0, lift)):
        part.reach(names_end - longest, -28 - tall + up, longest, 0)
    shown = Canvas()
    first, moved = by_v, ""
    hidden = {"v": "", "u": " hidden"}
    if way == "u":
        first, moved = by_u, f' transform="translate(0 {lift:g})"'
        hidden = {"v": " hidden", "u": ""}
    shown.parts = [f'<g class="pb-by-v"{hidden["v"]}>', *by_v.parts, "</g>"]
    shown.parts += [f'<g class="pb-by-u"{hidden["u"]}>', *by_u.parts, "</g>"]
    shown.parts += [f'<g class="pb-x"{moved}>', *above.parts, "</g>"]
    left, top, wide, high = first.view
    shown.reach(left + MARGIN, top + MARGIN, wide - 2 * MARGIN, high - 2 * MARGIN)
    matrix(shown, rows, least, tall)
    return Alive(shown, {"v": by_v.view, "u": by_u.view}, lift)


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
    if len(weights) * len(result) > TOLD:
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
    digits: bool | None,
    alt: str | None,
) -> Drawing:
    """Draw a product whose weights belong to columns."""
    _check_size(product)
    text = column_text(product, result_name)
    told = alt or column_sentence(product, result_name)
    shown = weigh_columns(product, result_name=result_name)
    matrix(shown, product, _width(product, product.weights, NARROWEST), CELL)
    if digits is False or (digits is None and legible_width(shown.view[2]) > NARROW):
        shown = _tint_columns(product, result_name)
    return shown.drawing(alt=told, text=text)


def weigh_columns(
    product: Product, *, result_name: str, tall: float = CELL, least: float = NARROWEST
) -> Canvas:
    """Draw u above the columns of J, and their sum beside it; J itself begins at (0, 0)."""
    weights, _, result, rows, columns = product
    shown, scale = Canvas(), product.scale
    wide, heavy = _width(product, weights, least), cell_width(result, least)
    xs, ys = _steps(len(columns), wide), _steps(len(rows), tall)
    u, bottom = -22 - tall, ys[-1] + tall
    _heads(shown, xs, wide, columns, u)
    shown.words(-10, u + tall / 2, "u", "b e")
    _bands(shown, [(x, u) for x in xs], (wide, bottom - u), weights, scale)
    _write_words(shown, [(x + wide / 2, -11) for x in xs], ["×"] * len(xs), "m")
    shown.numbers([(x, u) for x in xs], (wide, tall), weights, scale, "pb-v")
    _write_words(shown, [(-10, y + tall / 2) for y in ys], rows, "e")
    line, end = xs[-1] + wide + 9, xs[-1] + wide + 18
    shown.line([(line, -2), (line, bottom + 2)])
    heavy = max(heavy, text_width(result_name, WORD))
    shown.words(end + heavy / 2, -14, result_name, "b")
    shown.numbers([(end, y) for y in ys], (heavy, tall), result, scale, "pb-sum")
    return shown


def column_text(product: Product, result_name: str) -> str:
    """Return u, J and J u as text."""
    weights, J, result, rows, columns = product
    lines = [["u", *map(tidy, weights), ""]]
    lines += [
        [name, *map(tidy, row), tidy(value)]
        for name, row, value in zip(rows, J, result, strict=True)
    ]
    return Table(COLUMN_CAPTION, ("output", *columns, result_name), lines).text()


def column_sentence(product: Product, result_name: str) -> str:
    """Return u, J and J u in words."""
    weights, J, result, rows, columns = product
    if len(rows) * len(columns) > TOLD:
        return (
            f"u with {len(weights)} entries stands above the {len(weights)} columns of J; "
            f"their sum, weighted by u, is {result_name} with {len(result)} entries."
        )
    parts = [
        f"{tidy(weight)} times {name} {listed(row[j] for row in J)}"
        for j, (name, weight) in enumerate(zip(columns, weights, strict=True))
    ]
    return (
        f"u = {listed(weights)} stands above the columns of J. "
        f"{' plus '.join(parts)} gives {result_name} = {listed(result)}."
    )


def _check_size(product: Product) -> None:
    """Refuse what is too large to be seen."""
    m, n = len(product.rows), len(product.columns)
    if not (1 <= m <= LARGEST and 1 <= n <= LARGEST):
        raise ValueError(
            f"J is {m} × {n}; 1 to {LARGEST} rows and columns can be drawn "
            "(pullback.plot.heatmap draws larger ones)"
        )


def _width(product: Product, others: Sequence[float], least: float) -> float:
    """Return the width of the columns of J: of its numbers, others, and their names."""
    numbers = cell_width([*others, *(x for row in product.J for x in row)], least)
    names = max(text_width(name, WORD) + 4 for name in product.columns)
    return even(max(numbers, names))


def _steps(count: int, size: float) -> list[float]:
    """Return where cells of a size begin."""
    return [i * (size + GAP) for i in range(count)]


def _heads(
    shown: Canvas, xs: Sequence[float], wide: float, names: Sequence[str], y: float = 0
) -> None:
    """Write names above columns."""
    for x, name in zip(xs, names, strict=True):
        shown.words(x + wide / 2, y - 14, name)


def matrix(shown: Canvas, product: Product, wide: float, tall: float) -> None:
    """Draw J, a cell for each number, at (0, 0)."""
    xs, ys = _steps(len(product.columns), wide), _steps(len(product.rows), tall)
    places = [(x, y) for y in ys for x in xs]
    numbers = [x for row in product.J for x in row]
    shown.numbers(places, (wide, tall), numbers, product.scale, "pb-j")


def _write_words(
    shown: Canvas, places: Sequence[Point], words: Sequence[str], kind: str
) -> None:
    """Write words of one kind."""
    shown.add(f'<g class="{kind}">')
    for (x, y), word in zip(places, words, strict=True):
        shown.words(x, y, word, within=kind)
    shown.add("</g>")


def _bands(
    shown: Canvas,
    places: Sequence[Point],
    size: Point,
    weights: Sequence[float],
    scale: Scale,
) -> None:
    """Frame rows, or columns, in the tint of their weights."""
    (w, h), r = size, 2
    shown.add(f'<g class="pb-band n" style="--w:{w + 2 * r:g}px;--h:{h + 2 * r:g}px">')
    for (x, y), weight in zip(places, weights, strict=True):
        shown.add(f'<rect{scale.fill(weight)} x="{x - r:g}" y="{y - r:g}"/>')
        shown.reach(x - 2 * r, y - 2 * r, w + 4 * r, h + 4 * r)
    shown.add("</g>")


def _sum(
    shown: Canvas,
    xs: Sequence[float],
    y: float,
    wide: float,
    total: Sequence[float],
    scale: Scale,
) -> None:
    """Draw the line under a column of numbers, and the sums beneath it, as on paper."""
    shown.line([(xs[0] - 2, y + 5), (xs[-1] + wide + 2, y + 5)])
    shown.numbers([(x, y + 14) for x in xs], (wide, CELL), total, scale, "pb-sum")


def _tint_rows(product: Product, result_name: str) -> Canvas:
    """Draw v, J and the sum of its rows by tints alone."""
    weights, J, result, rows, columns = product
    shown, scale = Canvas(), product.scale
    side = _side(product)
    m, n = len(rows) * side, len(columns) * side
    _frame(shown, 0, 0, J, side, scale)
    _frame(shown, -14 - side, 0, [[w] for w in weights], side, scale)
    _frame(shown, 0, m + 12, [result], side, scale)
    shown.line([(-2, m + 6), (n + 2, m + 6)])
    shown.words(-14 - side / 2, -14, "v", "b")
    shown.words(n / 2, -14, f"J: {len(rows)} rows, {len(columns)} columns")
    title = "vᵀJ" if result_name == "vᵀJ" else f"{result_name} = vᵀJ"
    shown.words(n / 2, m + 12 + side + 14, title, "b")
    _legend(shown, scale, m + side + 50)
    return shown


def _tint_columns(product: Product, result_name: str) -> Canvas:
    """Draw u, J and the sum of its columns by tints alone."""
    weights, J, result, rows, columns = product
    shown, scale = Canvas(), product.scale
    side = _side(product)
    m, n = len(rows) * side, len(columns) * side
    _frame(shown, 0, 0, J, side, scale)
    _frame(shown, 0, -14 - side, [weights], side, scale)
    _frame(shown, n + 12, 0, [[x] for x in result], side, scale)
    shown.line([(n + 6, -2), (n + 6, m + 2)])
    shown.words(-8, -14 - side / 2, "u", "b e")
    shown.words(n + 12 + side / 2, -14, result_name, "b")
    shown.words(n / 2, m + 14, f"J: {len(rows)} rows, {len(columns)} columns")
    _legend(shown, scale, m + 40)
    return shown


def _side(product: Product) -> float:
    """Return the size of the cells of a picture without numbers."""
    return min(20.0, (NARROW - 60) / len(product.columns))


def _frame(
    shown: Canvas, x: float, y: float, rows: Matrix, side: float, scale: Scale
) -> None:
    """Draw a grid of tints in a frame."""
    shown.tints(x, y, side, side, rows, scale)
    wide, high = side * len(rows[0]), side * len(rows)
    shown.box(x - 1, y - 1, wide + 2, high + 2, r=3)


def _legend(shown: Canvas, scale: Scale, y: float) -> None:
    """Say what the strongest tints stand for."""
    most = tidy(scale.most)
    for x, value, word in (
        (0, -scale.most, f"-{most}"),
        (70, 0, "0"),
        (120, scale.most, most),
    ):
        _frame(shown, x, y, [[value]], 14, scale)
        shown.words(x + 20, y + 7, word.replace("-", "\N{MINUS SIGN}"), "s")
