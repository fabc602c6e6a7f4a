"""Drawings of what ``backward`` does, small enough that every number can be read.

Each function returns a :class:`Drawing`: inline SVG in a notebook or on a page, on light
and dark paper and on a phone, and the same numbers as text in a terminal. All the numbers
of a drawing share one scale of tints, violet above zero and orange below.
"""

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
