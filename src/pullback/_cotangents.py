"""What a trace consists of: edges with their cotangents, operations, and leaves."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

SMALL = 12  # numbers up to which a cotangent is kept and printed


class Edge(NamedTuple):
    """One edge of the backward graph with the cotangent that travelled along it.

    Attributes:
        source: Name of the operation that sent the cotangent, or ``v`` (``v[0]``,
            ``v[1]``…) for the one that you pass.
        target: Name of the node that it arrived at; an operation, or a leaf.
        shape: Its shape; None where nothing was sent (an undefined gradient, which
            PyTorch takes for zeros).
        norm: Its Euclidean norm, computed in double precision; None with shape None.
        value: A copy of it when it has up to 12 numbers, else None.
        nan: Whether one of its numbers is NaN.
        zero: Whether all of its numbers are zero.
        infinite: Whether one of its numbers is infinite.
    """

    source: str
    target: str
    shape: torch.Size | None
    norm: float | None
    value: Tensor | None
    nan: bool
    zero: bool
    infinite: bool = False


class Node(NamedTuple):
    """One operation of the backward graph.

    Attributes:
        name: Its name in the edges: what ``names`` calls its result, else PyTorch's
            name of the operation, numbered where there are several.
        operation: PyTorch's name of the operation, ``MulBackward0`` for one.
        saved: How many tensors of the forward pass it keeps for this moment.
        saved_bytes: Their size; a tensor that several operations keep counts in each.
        hooks: The hooks on it, such as ``"tensor hook"``, ``"pre-hook"``,
            ``"post-hook"`` and ``"retain_grad"``.
        scope: The module that it is counted with in a picture of a large graph.
        received: What arrived at each of its outputs, edges added up and hooks done; a
            copy where it has up to 12 numbers, else None.
        line: The line that computed it, as ``path:line``, where that is known: inside
            :func:`pullback.watch`, or made under ``torch.autograd.detect_anomaly()``.
    """

    name: str
    operation: str
    saved: int
    saved_bytes: int
    hooks: tuple[str, ...]
    scope: str
    received: tuple[Tensor | None, ...]
    line: str = ""


class Leaf(NamedTuple):
    """One leaf and what ``backward`` would add to its ``.grad``.

    Attributes:
        name: Its name in the edges.
        shape: Its shape.
        edges: How many edges arrive at it, whose cotangents are added up.
        total: Their sum, after the leaf's own hooks; None where nothing arrived.
        holds: Whether ``.grad`` holds something already, to which it would be added.
        hooks: The hooks on it, ``"tensor hook"`` or ``"post-accumulate hook"``.
    """

    name: str
    shape: torch.Size
    edges: int
    total: Tensor | None
    holds: bool
    hooks: tuple[str, ...]


class Cotangents(NamedTuple):
    """All that was seen on the way back, as in a trace."""

    edges: tuple[Edge, ...]
    nodes: tuple[Node, ...]
    leaves: tuple[Leaf, ...]


def numbers(t: Tensor) -> str:
    """Return a small tensor as nested lists of rounded numbers, a large one as its norm."""
    if t.numel() > SMALL:
        return f"norm {torch.linalg.vector_norm(t.detach().to_dense()):.4g}"
    if t.ndim == 0:
        return f"{t.item():.4g}"
    return f"[{', '.join(numbers(part) for part in t.detach().to_dense())}]"
