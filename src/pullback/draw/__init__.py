"""Drawings."""

from pullback.draw._bars import bars
from pullback.draw._chain import chain
from pullback.draw._graphs import graph
from pullback.draw._products import accumulate, jvp, vjp
from pullback.draw._structure import compression, cost, dependence, shapes
from pullback.draw._svg import Drawing

__all__ = [
    "Drawing",
    "accumulate",
    "bars",
    "chain",
    "compression",
    "cost",
    "dependence",
    "graph",
    "jvp",
    "shapes",
    "vjp",
]
