"""What ``y.backward(v)`` does, shown on your own function.

:func:`explain` says what ``backward`` would do: shapes, the error or the result.
:func:`check` computes one vector-Jacobian product by many independent routes.
:func:`jacobian` and :func:`value_and_jacobian` give the whole Jacobian.
:func:`mixing` tells whether samples mix, so that the ones trick lies.
:func:`hints` adds cause, fix and page to the errors of autograd.
:mod:`pullback.plot` draws it all (needs the extra ``pullback[plot]``).
"""

from pullback._check import Check, Route, check
from pullback._explain import Explanation, Outcome, explain
from pullback._hints import hints
from pullback._jacobian import jacobian, value_and_jacobian
from pullback._mixing import Mixing, mixing

__all__ = [
    "Check",
    "Explanation",
    "Mixing",
    "Outcome",
    "Route",
    "check",
    "explain",
    "hints",
    "jacobian",
    "mixing",
    "value_and_jacobian",
]
