"""What ``y.backward(v)`` does, shown on your own function.

:func:`explain` says what ``backward`` would do: shapes, the error or the result.
:func:`check` computes one vector-Jacobian product by many independent routes;
:func:`assert_checked` is the same as an assertion.
:func:`jacobian` and :func:`value_and_jacobian` give the whole Jacobian.
:func:`hessian` gives the second derivatives.
:func:`vjp`, :func:`jvp` and :func:`hvp` give one product with them;
:func:`jacobian_operator`, :func:`hessian_operator` and :func:`gauss_newton_operator` give
all products, as a matrix that is never formed.
:func:`diagonal`, :func:`divergence` and :func:`laplacian` give diagonals and their sums,
exact or estimated.
:func:`per_sample_gradients` gives a gradient for each sample of a batch.
:func:`sparsity` finds the zeros of a Jacobian or a Hessian, and gives it by few products.
:func:`mixing` tells whether samples mix, so that the ones trick lies.
:func:`trace` shows the cotangent on every edge of the graph, whole or step by step.
:func:`live` makes a picture of a product that answers when x and v are moved.
:func:`watch` names the line: of an in-place edit, a first NaN, a lost gradient.
:func:`hints` adds cause, fix and page to the errors of autograd.
:mod:`pullback.draw` draws small products, graphs and patterns with their numbers.
:mod:`pullback.plot` draws fields and large matrices (needs the extra ``pullback[plot]``).
:mod:`pullback.distributed` shares a Jacobian among processes.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pullback._saved import let_torch_load_plans

if TYPE_CHECKING:
    from pullback import distributed as distributed
    from pullback import draw
    from pullback import plot as plot
    from pullback._check import Check, Entry, Route, assert_checked, check
    from pullback._cotangents import Edge, Leaf, Node
    from pullback._diagonal import Estimate, diagonal, divergence, laplacian
    from pullback._explain import Explanation, Outcome, explain
    from pullback._hessian import hessian
    from pullback._hints import hints
    from pullback._jacobian import jacobian, value_and_jacobian
    from pullback._live import Live, live
    from pullback._mixing import Mixing, mixing
    from pullback._operators import (
        Operator,
        gauss_newton_operator,
        hessian_operator,
        hvp,
        jacobian_operator,
        jvp,
        vjp,
    )
    from pullback._per_sample import per_sample_gradients
    from pullback._sparse.plan import Sparsity
    from pullback._sparsity import sparsity
    from pullback._steps import Step, Steps
    from pullback._trace import Trace, trace
    from pullback._watch.findings import Finding, Findings
    from pullback._watch.watching import watch

__all__ = [
    "Check",
    "Edge",
    "Entry",
    "Estimate",
    "Explanation",
    "Finding",
    "Findings",
    "Leaf",
    "Live",
    "Mixing",
    "Node",
    "Operator",
    "Outcome",
    "Route",
    "Sparsity",
    "Step",
    "Steps",
    "Trace",
    "assert_checked",
    "check",
    "diagonal",
    "divergence",
    "draw",
    "explain",
    "gauss_newton_operator",
    "hessian",
    "hessian_operator",
    "hints",
    "hvp",
    "jacobian",
    "jacobian_operator",
    "jvp",
    "laplacian",
    "live",
    "mixing",
    "per_sample_gradients",
    "sparsity",
    "trace",
    "value_and_jacobian",
    "vjp",
    "watch",
]


# Each name is imported when it is first asked for: torch alone takes a second or more.
# Python 3.15 has `lazy from` for this.
_MODULES = {
    "_check": ("Check", "Entry", "Route", "assert_checked", "check"),
    "_cotangents": ("Edge", "Leaf", "Node"),
    "_diagonal": ("Estimate", "diagonal", "divergence", "laplacian"),
    "_explain": ("Explanation", "Outcome", "explain"),
    "_hessian": ("hessian",),
    "_hints": ("hints",),
    "_jacobian": ("jacobian", "value_and_jacobian"),
    "_live": ("Live", "live"),
    "_mixing": ("Mixing", "mixing"),
    "_operators": (
        "Operator",
        "gauss_newton_operator",
        "hessian_operator",
        "hvp",
        "jacobian_operator",
        "jvp",
        "vjp",
    ),
    "_per_sample": ("per_sample_gradients",),
    "_sparse.plan": ("Sparsity",),
    "_sparsity": ("sparsity",),
    "_steps": ("Step", "Steps"),
    "_trace": ("Trace", "trace"),
    "_watch.findings": ("Finding", "Findings"),
    "_watch.watching": ("watch",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}

if not TYPE_CHECKING:  # which knows the names, and that there are no others

    def __getattr__(name):
        if name in _HOMES:
            value = getattr(import_module(f"pullback.{_HOMES[name]}"), name)
        elif name in ("distributed", "draw", "plot"):
            value = import_module(f"pullback.{name}")
        else:
            raise AttributeError(f"module 'pullback' has no attribute {name!r}")
        globals()[name] = value
        return value


let_torch_load_plans()


def load_ipython_extension(shell: Any) -> None:
    """Watch each cell of a notebook from the next one on: ``%load_ext pullback``."""
    from pullback._ipython import load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Watch no more: ``%unload_ext pullback``."""
    from pullback._ipython import unload

    unload(shell)


def __dir__() -> list[str]:
    return [*__all__, "distributed", "plot"]
