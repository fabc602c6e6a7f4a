"""A product of Jacobians, multiplied from the left or from the right, a line each time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pullback._report import Table
from pullback.draw._svg import (
    NARROW,
    WORD,
    Canvas,
    Drawing,
    Scale,
    cell_width,
    joined,
    legible_width,
    listed,
    real,
    text_width,
)

UNIT = 28  # height of a cell with a number
BETWEEN = 18  # space between two factors
LARGEST = 200  # rows and columns that a box may stand for


class Block(NamedTuple):
    """A factor: its name, its numbers as a matrix, and where it stands."""

    name: str
    numbers: Tensor
    x: float


def chain(
    *matrices: Any,
    v: Any = None,
    u: Any = None,
    names: Sequence[str] | None = None,
    alt: str | None = None,
) -> Drawing:
    r"""Draw a product of Jacobians as backward takes it, from the left, or as forward does.

    With v each line multiplies a vector by the matrix to the right of it:
    :math:`v^\top B A` is :math:`(v^\top B)A`. With u each line multiplies the last matrix
    by a vector: :math:`B A u` is :math:`B(A u)`. The boxes have the proportions of their
    shapes.

    Args:
        matrices: The Jacobians from the left, that of the last operation first.
        v: Cotangent of the last output, to be pulled back.
        u: Tangent of the first input, to be pushed forward; give one of v and u.
        names: Names of the matrices; ``A`` for one, ``B`` and ``A`` for two and so on.
        alt: What a reader who does not see the picture is told; left out, the steps in
            words.

    Returns:
        A :class:`Drawing`.

    Raises:
        TypeError: One of them holds no real numbers, or both or none of v and u are given.
        ValueError: There are no matrices, the shapes cannot be multiplied, or names do not
            fit.

    Examples:
        >>> import torch, pullback
        >>> A, B = torch.tensor([[1.0, 2.0, 0.0], [0.0, 1.0, 3.0]]), torch.eye(2)
        >>> pullback.draw.chain(B, A, v=[1.0, -1.0])
        Pulled back from the left: a vector times a matrix each time
        product  shapes                 result
        v        (2,)                   [1, -1]
        vᵀB      (2,) @ (2, 2) -> (2,)  [1, -1]
        vᵀBA     (2,) @ (2, 3) -> (3,)  [1, 1, -3]
        10 multiplications; 18 if the matrices are multiplied first
    """
    if (v is None) == (u is None):
        raise TypeError("give one of v (to pull back) and u (to push forward)")
    factors = [real(f"matrices[{i}]", matrix) for i, matrix in enumerate(matrices)]
    back = v is not None
    vector = real("v" if back else "u", v if back else u)
    _check(factors, vector, back)
    called = _names(len(factors), names)
    vectors, products = [vector], ["v" if back else "u"]
    for count in range(1, len(factors) + 1):
        if back:
            vectors.append(vectors[-1] @ factors[count - 1])
            products.append("vᵀ" + "".join(called[:count]))
        else:
            vectors.append(factors[-count] @ vectors[-1])
            products.append("".join(called[-count:]) + " u")
    shown = _draw(factors, vectors, called, products, back)
    order = factors if back else factors[::-1]
    text, sentence = _text_and_sentence(order, vectors, products, back)
    return shown.drawing(alt=alt or sentence, text=text)


def _check(factors: Sequence[Tensor], vector: Tensor, back: bool) -> None:
    shapes = [tuple(factor.shape) for factor in factors]
    fits = bool(factors) and vector.ndim == 1 and all(len(shape) == 2 for shape in shapes)
    fits = fits and all(one[1] == two[0] for one, two in pairwise(shapes))
    end = (shapes[0][0] if back else shapes[-1][1]) if fits else None
    if end != (vector.shape[0] if vector.ndim else None):
        name = "v" if back else "u"
        raise ValueError(
            f"{name} has shape {tuple(vector.shape)} and the matrices {shapes}; "
            "factors that can be multiplied are needed"
        )
    if max(max(shape) for shape in shapes) > LARGEST:
        raise ValueError(f"shapes {shapes}; up to {LARGEST} rows and columns can be drawn")


def _names(count: int, names: Sequence[str] | None) -> list[str]:
    usual = [chr(ord("A") + i) for i in reversed(range(count))]
    if names is not None and len(names) != count:
        raise ValueError(f"names has {len(names)} names; {count} are needed")
    return usual if names is None else list(names)


def _draw(
    factors: Sequence[Tensor],
    vectors: Sequence[Tensor],
    called: Sequence[str],
    products: Sequence[str],
    back: bool,
) -> Canvas:
    """Draw a line for each product still to be taken, the factors where they always are."""
    scale = Scale(*(t.reshape(-1).tolist() for t in [*factors, *vectors]))
    ends = [vectors[0][None]] if back else [vectors[0][:, None]]
    first = [*ends, *factors] if back else [*factors, *ends]
    numbers = [x for t in [*factors, *vectors] for x in t.reshape(-1).tolist()]
    columns, spaces = sum(t.shape[1] for t in first), (len(first) - 1) * BETWEEN
    wide = cell_width(numbers, UNIT) if len(numbers) < 200 else NARROW
    digits = legible_width(columns * wide + spaces) <= NARROW
    tall = float(UNIT)
    if not digits:
        wide = tall = max(0.5, min(20.0, (NARROW - spaces) / columns))
    xs, x = [], 0.0
    for factor in first:
        xs.append(x)
        x += factor.shape[1] * wide + BETWEEN
    shown, y = Canvas(), 0.0
    count = len(factors)
    for done, (vector, name) in enumerate(zip(vectors, products, strict=True)):
        if back:
            line = [Block(name, vector[None], xs[done])]
            line += [Block(called[i], factors[i], xs[i + 1]) for i in range(done, count)]
        else:
            line = [Block(called[i], factors[i], xs[i]) for i in range(count - done)]
            line += [Block(name, vector[:, None], xs[count - done])]
        y = _line(shown, line, y, wide, tall, scale, digits, back)
    return shown


def _line(
    shown: Canvas,
    line: Sequence[Block],
    y: float,
    wide: float,
    tall: float,
    scale: Scale,
    digits: bool,
    back: bool,
) -> float:
    """Draw one product; return where the next begins."""
    high = max(block.numbers.shape[0] for block in line) * tall
    pair = line[:2] if back else line[-2:]
    for block in line:
        m, n = block.numbers.shape
        vector = block is (line[0] if back else line[-1])
        top = y + 40 + (high - m * tall) / 2
        middle = block.x + n * wide / 2
        name_at = max(middle, text_width(block.name, WORD) / 2)
        shown.words(name_at, y + 9, block.name, "b")
        shape = f"({m if not back else n},)" if vector else f"{m} × {n}"
        shown.words(max(middle, text_width(shape, WORD) / 2), y + 26, shape, "m")
        _grid(shown, block, top, wide, tall, scale, digits)
        if block is not line[0]:
            shown.words(block.x - BETWEEN / 2, y + 40 + high / 2, "·", "n")
    below = y + 40 + high
    if len(line) == 1:
        return below
    left = pair[0].x
    right = pair[1].x + pair[1].numbers.shape[1] * wide
    target = pair[1 if back else 0]
    at = target.x + (target.numbers.shape[1] if back else 1) * wide / 2
    shown.line(
        [(left, below + 5), (left, below + 9), (right, below + 9), (right, below + 5)]
    )
    shown.arrow([(at, below + 10), (at, below + 26)])
    return below + 30


def _grid(
    shown: Canvas,
    block: Block,
    top: float,
    wide: float,
    tall: float,
    scale: Scale,
    digits: bool,
) -> None:
    m, n = block.numbers.shape
    rows = block.numbers.tolist()
    if digits:
        places = [
            (block.x + j * wide + 1, top + i * tall + 1) for i in range(m) for j in range(n)
        ]
        numbers = [x for row in rows for x in row]
        return shown.numbers(places, (wide - 2, tall - 2), numbers, scale)
    shown.box(block.x, top, n * wide, m * tall, r=min(4.0, wide))
    if m * n <= 400:
        shown.tints(block.x, top, wide, tall, rows, scale)
    return None


def _text_and_sentence(
    order: Sequence[Tensor], vectors: Sequence[Tensor], products: Sequence[str], back: bool
) -> tuple[str, str]:
    """Return the steps as text and as a sentence."""
    shapes = [str(tuple(t.shape)) for t in vectors]
    factors = [str(tuple(t.shape)) for t in order]
    ways = [
        f"{before} @ {factor} -> {after}" if back else f"{factor} @ {before} -> {after}"
        for (before, after), factor in zip(pairwise(shapes), factors, strict=True)
    ]
    results = [listed(t.tolist()) if len(t) <= 12 else f"{len(t)} numbers" for t in vectors]
    rows = list(zip(products, [shapes[0], *ways], results, strict=True))
    caption = (
        "Pulled back from the left: a vector times a matrix each time"
        if back
        else "Pushed forward from the right: a matrix times a vector each time"
    )
    vector_cost = sum(t.numel() for t in order)
    whole, matrix_cost = order[0], 0
    for factor in order[1:]:
        one, two = (whole, factor) if back else (factor, whole)
        matrix_cost += one.shape[0] * one.shape[1] * two.shape[1]
        whole = torch.empty(one.shape[0], two.shape[1])
    cost = f"{vector_cost} multiplications"
    if len(order) > 1:
        cost += f"; {matrix_cost + whole.numel()} if the matrices are multiplied first"
    text = f"{Table(caption, ('product', 'shapes', 'result'), rows).text()}\n{cost}"
    parts = [f"{name} is {result}" for name, result in zip(products, results, strict=True)]
    return text, f"{caption}. {joined(parts)}. {cost}."
