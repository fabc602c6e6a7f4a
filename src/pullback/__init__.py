"""What ``y.backward(v)`` does, shown on your own function.

:func:`explain` says what ``backward`` would do: shapes, the error or the result.
:func:`check` computes one vector-Jacobian product by many independent routes;
:func:`assert_checked` is the same as an assertion.
:func:`jacobian` and :func:`value_and_jacobian` give the whole Jacobian.
:func:`hessian` gives the second derivatives of a function that returns one number.
:func:`sparsity` finds the zeros of a Jacobian or a Hessian, and gives it by few products.
:func:`mixing` tells whether samples mix, so that the ones trick lies.
:func:`trace` shows the cotangent on every edge of the graph, whole or step by step.
:func:`explore` makes a picture of a product to touch, for a notebook or a page.
:func:`hints` adds cause, fix and page to the errors of autograd.
:mod:`pullback.draw` draws small products, graphs and patterns with their numbers.
:mod:`pullback.plot` draws fields and large matrices (needs the extra ``pullback[plot]``).
:mod:`pullback.distributed` shares a Jacobian among processes.
"""

from importlib import import_module
from types import ModuleType

from pullback import draw
from pullback._check import Check, Entry, Route, assert_checked, check
from pullback._cotangents import Edge, Leaf, Node
from pullback._explain import Explanation, Outcome, explain
from pullback._explore import Exploration, explore
from pullback._hessian import hessian
from pullback._hints import hints
from pullback._jacobian import jacobian, value_and_jacobian
from pullback._mixing import Mixing, mixing
from pullback._sparse.plan import Sparsity
from pullback._sparsity import sparsity
from pullback._steps import Step, Steps
from pullback._trace import Trace, trace

__all__ = [
    "Check",
    "Edge",
    "Entry",
    "Explanation",
    "Exploration",
    "Leaf",
    "Mixing",
    "Node",
    "Outcome",
    "Route",
    "Sparsity",
    "Step",
    "Steps",
    "Trace",
    "assert_checked",
    "check",
    "draw",
    "explain",
    "explore",
    "hessian",
    "hints",
    "jacobian",
    "mixing",
    "sparsity",
    "trace",
    "value_and_jacobian",
]


def __getattr__(name: str) -> ModuleType:
    if name in ("distributed", "plot"):  # they import torch.distributed and matplotlib
        return import_module(f"pullback.{name}")
    raise AttributeError(f"module 'pullback' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "distributed", "plot"]
