"""Pictures of large Jacobians, of gradients and of graphs, drawn with matplotlib.

Small products, whose numbers can be read, are drawn by :mod:`pullback.draw`.

Needs the extra ``pullback[plot]``. Every picture has a title that says what it shows,
and colours that stay apart when a dark page turns its lightness.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

try:
    import matplotlib.pyplot as plt
except ImportError as error:  # pragma: no cover - exercised in a subprocess
    raise ImportError(
        "pullback.plot needs matplotlib: python -m pip install 'pullback[plot]'"
    ) from error

from pullback._cotangents import Cotangents
from pullback._layout import Point, layout
from pullback._picture import picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pullback._sparse.plan import Sparsity
    from pullback._trace import Trace

Array = NDArray[np.float64]
READABLE = 100  # entries up to which the values are written into the cells
CELLS, BLOCKS = 40, 100  # rows or columns of a pattern drawn one by one, and in blocks
PALE = 12  # colours of the palette Set3, under black numbers


def heatmap(
    J: Any,
    ax: Axes | None = None,
    *,
    title: str | None = None,
    xlabel: str = "input",
    ylabel: str = "output",
) -> Axes:
    """Draw a matrix as a heat map, white at zero.

    Args:
        J: Matrix of shape ``(m, n)``.
        ax: Where to draw; a new figure when left out.
        title: What the picture shows.
        xlabel: Name of the columns.
        ylabel: Name of the rows.

    Returns:
        The axes.

    Raises:
        ValueError: J is not a matrix.
    """
    matrix = _numbers("J", J)
    if matrix.ndim != 2:
        raise ValueError(f"J has shape {matrix.shape}; a matrix (m, n) is needed")
    ax = ax or _new_axes()
    _cells(ax, matrix, title or f"Jacobian, {matrix.shape[0]} × {matrix.shape[1]}")
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    return ax


def field(
    points: Any, gradients: Any, ax: Axes | None = None, *, title: str | None = None
) -> Axes:
    """Draw a gradient at each of N points of the plane as an arrow.

    Args:
        points: Shape ``(N, 2)``.
        gradients: Shape ``(N, 2)``, the gradient at each point.
        ax: Where to draw; a new figure when left out.
        title: What the picture shows.

    Returns:
        The axes.

    Raises:
        ValueError: the shapes are not both ``(N, 2)``.
    """
    at, arrows = _numbers("points", points), _numbers("gradients", gradients)
    if at.ndim != 2 or at.shape[1] != 2 or at.shape != arrows.shape:
        raise ValueError(
            f"points has shape {at.shape} and gradients has shape {arrows.shape}; "
            "the same (N, 2) is needed for both"
        )
    ax = ax or _new_axes()
    length = np.hypot(arrows[:, 0], arrows[:, 1])
    quiver = ax.quiver(at[:, 0], at[:, 1], arrows[:, 0], arrows[:, 1], length)
    ax.figure.colorbar(quiver, ax=ax, label="length of the gradient")
    ax.set_aspect("equal")
    ax.set_title(title or f"The gradient at {len(at)} points, as arrows")
    ax.set_xlabel("x₁")
    ax.set_ylabel("x₂")
    return ax


def graph(
    edges: Sequence[tuple[str, str, str]],
    ax: Axes | None = None,
    *,
    title: str | None = None,
) -> Axes:
    """Draw a computation graph from left to right, with a label on every edge.

    A node stands in the column of the longest path that leads to it, an input next to what
    first uses it.

    Args:
        edges: ``(source, target, label)`` triples; sources are inputs of targets.
        ax: Where to draw; a new figure when left out.
        title: What the picture shows.

    Returns:
        The axes.

    Raises:
        ValueError: there are no edges, or they form a cycle.
    """
    if not edges:
        raise ValueError("edges is empty; (source, target, label) triples are needed")
    drawing = layout([(source, target) for source, target, _ in edges])
    place = {node: _rightwards(point) for node, point in drawing.places.items()}
    points = [_rightwards(p) for route in drawing.routes.values() for p in route]
    columns = max(x for x, _ in points)
    low, high = min(y for _, y in points), max(y for _, y in points)
    if ax is None:
        _, ax = plt.subplots(
            figsize=(2.2 * columns + 1.5, 1.2 * (high - low) + 1.4), layout="constrained"
        )
    drawn: dict[tuple[str, str], int] = {}
    for source, target, label in edges:
        again = drawn[source, target] = drawn.get((source, target), 0) + 1
        bend = 0.25 * (again - 1)
        route = [_rightwards(point) for point in drawing.routes[source, target]]
        ax.plot(*zip(*route[:-1], strict=True), color="0.45", linewidth=1)
        ax.annotate(
            "",
            route[-1],
            route[-2],
            arrowprops={
                "arrowstyle": "-|>",
                "connectionstyle": f"arc3,rad={bend}",
                "color": "0.45",
                "shrinkA": 15 if len(route) == 2 else 0,
                "shrinkB": 15,
            },
        )
        middle = (len(route) - 1) // 2  # labels stand on the middle of their edges
        (x0, _), (x1, _) = start, end = route[middle], route[middle + 1]
        x, y = _between(start, end, 0.5)
        ax.text(
            x,
            y - bend * (x1 - x0) / 2,
            label,
            ha="center",
            va="center",
            fontsize=9,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5},
        )
    for node, (x, y) in place.items():
        ax.text(
            x,
            y,
            node,
            ha="center",
            va="center",
            bbox={"boxstyle": "circle", "facecolor": "0.92", "edgecolor": "0.3"},
        )
    ax.set_xlim(-0.4, columns + 0.4)
    ax.set_ylim(low - 0.5, high + 0.5)
    ax.axis("off")
    ax.set_title(title or f"A graph of {len(place)} nodes, a label on each edge")
    return ax


def trace(trace: Trace, ax: Axes | None = None, *, limit: int = 50) -> Axes:
    """Draw what :func:`pullback.trace` saw: the cotangent on every edge.

    Arrows run downwards from v to the leaves, as cotangents travel. An arrow that
    carries NaN is red and thick, one that carries only zeros is dotted; the label says
    it, too. ``MulBackward0`` is written ``Mul``. A graph of more than ``limit`` boxes is
    collapsed by the modules that its leaves' names tell (``layer1.0.weight``), else by
    runs of operations. Colours are those of the matplotlib style in use, so that
    ``plt.style.context("dark_background")`` gives a dark picture.

    Args:
        trace: What :func:`pullback.trace` returned.
        ax: Where to draw; a new figure when left out.
        limit: How many boxes the picture may have.

    Returns:
        The axes.

    Raises:
        ValueError: ``limit`` is below 5.
    """
    if limit < 5:
        raise ValueError(f"limit is {limit}; at least 5 boxes are needed")
    seen = Cotangents(trace.edges, trace.nodes, trace.leaves)
    boxes, arrows, _ = picture(seen, limit)
    drawing = layout([(arrow.source, arrow.target) for arrow in arrows])
    xs, ys = zip(*(p for route in drawing.routes.values() for p in route), strict=True)
    if ax is None:
        size = (max(5.0, 1.5 * (max(xs) - min(xs)) + 2.0), 0.85 * max(ys) + 0.9)
        _, ax = plt.subplots(figsize=size, layout="constrained")
    ink, paper = plt.rcParams["text.color"], plt.rcParams["axes.facecolor"]
    for arrow in arrows:
        route = drawing.routes[arrow.source, arrow.target]
        color = "tab:red" if arrow.nan else ink
        ax.plot(
            [x for x, _ in route],
            [y for _, y in route],
            color=color,
            alpha=0.55,
            linestyle=":" if arrow.zero else "-",
            linewidth=2 if arrow.nan else 1,
            zorder=1,
        )
        ax.annotate(
            "",
            _between(route[-2], route[-1], 0.74),
            _between(route[-2], route[-1], 0.66),
            arrowprops={"arrowstyle": "-|>", "color": color, "shrinkA": 0, "shrinkB": 0},
        )
        middle = (len(route) - 1) // 2
        ax.text(
            *_between(route[middle], route[middle + 1], 0.47),
            arrow.label,
            color=color,
            ha="center",
            va="center",
            fontsize=8,
            zorder=3,
            bbox={"facecolor": paper, "edgecolor": "none", "pad": 1, "alpha": 0.85},
        )
    for box in boxes:
        ax.text(
            *drawing.places[box.name],
            box.text,
            ha="center",
            va="center",
            fontsize=9,
            zorder=4,
            bbox={
                "boxstyle": "round,pad=0.35" if box.kind != "leaf" else "square,pad=0.35",
                "facecolor": paper,
                "edgecolor": ink,
                "linewidth": 2 if box.kind == "group" else 1,
            },
        )
    ax.set_xlim(min(xs) - 0.6, max(xs) + 0.6)
    ax.set_ylim(max(ys) + 0.4, min(ys) - 0.4)
    ax.axis("off")
    ax.set_title(f"From v to {len(trace.leaves)} leaves: the cotangent on every edge")
    return ax


def pattern(plan: Sparsity, ax: Axes | None = None, *, title: str | None = None) -> Axes:
    """Draw a sparsity pattern, each entry in the colour of the product that gives it.

    Up to 40 rows and columns an entry is a cell with the number of its colour, so that
    each number comes from the product of that number, which belongs to its row or column
    (of a Hessian to either). Larger patterns are drawn as the
    count of entries in each of at most 100 × 100 blocks.

    Args:
        plan: What :func:`pullback.sparsity` found.
        ax: Where to draw; a new figure when left out.
        title: What the picture shows.

    Returns:
        The axes.
    """
    m, n = plan.pattern.shape
    column = plan.pattern.col_indices().cpu().numpy()
    row = np.repeat(np.arange(m), np.diff(plan.pattern.crow_indices().cpu().numpy()))
    lines = {"forward": "columns", "both": "rows and columns"}.get(plan.mode, "rows")
    # by the product that the entry is read from
    place, columns = plan.entries.cpu().numpy(), plan.n_reverse * n
    by_row, by_column = place // max(n, 1), plan.n_reverse + (place - columns) // max(m, 1)
    colors = np.where(place < columns, by_row, by_column)
    ax = ax or _new_axes()
    if max(m, n) <= CELLS:
        cells = np.full((m, n), np.nan)
        cells[row, column] = colors % PALE
        ax.imshow(cells, cmap="Set3", vmin=0, vmax=PALE, interpolation="nearest")
        for i, j, color in zip(row.tolist(), column.tolist(), colors, strict=True):
            ax.text(j, i, f"{color}", ha="center", va="center", fontsize=8, color="black")
    else:
        bins = (min(m, BLOCKS), min(n, BLOCKS))
        counts, _, _ = np.histogram2d(row, column, bins=bins, range=((0, m), (0, n)))
        image = ax.imshow(
            np.ma.masked_equal(counts, 0), extent=(0, n, m, 0), interpolation="nearest"
        )
        ax.figure.colorbar(image, ax=ax, label="entries in a block")
    found = f"{m} × {n}: {len(row)} entries, {plan.n_colors} colours of {lines}"
    ax.set_title(title or f"Sparsity, {found}", fontsize=10)
    ax.set_xlabel("input")
    ax.set_ylabel("output")
    return ax


def _rightwards(point: Point) -> Point:
    x, y = point
    return y, -x


def _between(start: Point, end: Point, part: float) -> Point:
    (x0, y0), (x1, y1) = start, end
    return x0 + part * (x1 - x0), y0 + part * (y1 - y0)


def _cells(ax: Axes, matrix: Array, title: str) -> None:
    limit = float(np.abs(matrix).max(initial=0.0)) or 1.0
    ax.imshow(matrix, cmap="RdBu", vmin=-limit, vmax=limit, aspect="auto")
    ax.set_title(title, fontsize=10)
    ax.set_xticks([])
    ax.set_yticks([])
    if matrix.size <= READABLE:
        for (i, j), value in np.ndenumerate(matrix):
            ink = "white" if abs(value) > 0.6 * limit else "black"
            ax.text(j, i, f"{value:.3g}", ha="center", va="center", color=ink)


def _new_axes() -> Axes:
    return plt.subplots(layout="constrained")[1]


def _numbers(name: str, value: Any) -> Array:
    """Return a tensor, array or nested list as a float64 array."""
    if hasattr(value, "detach"):
        value = value.detach().clone().numpy(force=True)  # zeros may have no memory
    array = np.asarray(value)
    if not np.issubdtype(array.dtype, np.number) or np.iscomplexobj(array):
        raise TypeError(f"{name} has dtype {array.dtype}; real numbers are needed")
    return array.astype(np.float64)
