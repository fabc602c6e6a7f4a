"""Every message of autograd that people paste into a search box, in one table.

The error index of the site and :func:`pullback.hints` are both made from it.
"""

from __future__ import annotations

import re

from pullback._messages._argument import ARGUMENT
from pullback._messages._attributes import ATTRIBUTES
from pullback._messages._backward_and_grad import BACKWARD_AND_GRAD
from pullback._messages._calls import CALLS
from pullback._messages._checkpoints import CHECKPOINTS
from pullback._messages._compiled import COMPILED
from pullback._messages._conversions import CONVERSIONS
from pullback._messages._copies_and_shards import COPIES
from pullback._messages._custom_operators import CUSTOM_OPERATORS
from pullback._messages._ddp import DDP
from pullback._messages._devices import DEVICES
from pullback._messages._dtypes import DTYPES
from pullback._messages._earlier import EARLIER
from pullback._messages._entry import Message, Theme
from pullback._messages._extensions import EXTENSIONS
from pullback._messages._forward_mode import FORWARD_MODE
from pullback._messages._function import FUNCTION
from pullback._messages._functional import FUNCTIONAL
from pullback._messages._graph import GRAPH
from pullback._messages._half_precision import HALF_PRECISION
from pullback._messages._hook_results import HOOK_RESULTS
from pullback._messages._hooks import HOOKS
from pullback._messages._inplace import INPLACE
from pullback._messages._inside_function import INSIDE_FUNCTION
from pullback._messages._inside_transforms import INSIDE_TRANSFORMS
from pullback._messages._inside_vmap import INSIDE_VMAP
from pullback._messages._leaves import LEAVES
from pullback._messages._libraries import LIBRARIES
from pullback._messages._loss_values import LOSS_VALUES
from pullback._messages._making import MAKING
from pullback._messages._matrices import MATRICES
from pullback._messages._mixed_precision import MIXED_PRECISION
from pullback._messages._no_derivative import NO_DERIVATIVE
from pullback._messages._not_finite import NOT_FINITE
from pullback._messages._optimizer_state import OPTIMIZER_STATE
from pullback._messages._optimizers import OPTIMIZERS
from pullback._messages._parallel import PARALLEL
from pullback._messages._rules import RULES
from pullback._messages._silent import SILENT
from pullback._messages._silent_argument import SILENT_ARGUMENT
from pullback._messages._silent_rules import SILENT_RULES
from pullback._messages._silent_training import SILENT_TRAINING
from pullback._messages._silent_transforms import SILENT_TRANSFORMS
from pullback._messages._steps_and_losses import STEPS
from pullback._messages._trainers import TRAINERS
from pullback._messages._training import TRAINING
from pullback._messages._transforms import TRANSFORMS
from pullback._messages._unsupported import UNSUPPORTED
from pullback._messages._vmap import VMAP

__all__ = ["MESSAGES", "THEMES", "Message", "Theme", "lookup"]

THEMES = (
    ARGUMENT,
    BACKWARD_AND_GRAD,
    FUNCTIONAL,
    GRAPH,
    LEAVES,
    CONVERSIONS,
    MAKING,
    INPLACE,
    FUNCTION,
    RULES,
    INSIDE_FUNCTION,
    CUSTOM_OPERATORS,
    HOOKS,
    HOOK_RESULTS,
    FORWARD_MODE,
    NO_DERIVATIVE,
    TRANSFORMS,
    INSIDE_TRANSFORMS,
    VMAP,
    INSIDE_VMAP,
    TRAINING,
    STEPS,
    LOSS_VALUES,
    MIXED_PRECISION,
    HALF_PRECISION,
    CALLS,
    ATTRIBUTES,
    OPTIMIZERS,
    OPTIMIZER_STATE,
    NOT_FINITE,
    MATRICES,
    CHECKPOINTS,
    DDP,
    PARALLEL,
    COPIES,
    COMPILED,
    DEVICES,
    DTYPES,
    UNSUPPORTED,
    LIBRARIES,
    TRAINERS,
    EXTENSIONS,
    EARLIER,
    SILENT,
    SILENT_ARGUMENT,
    SILENT_TRANSFORMS,
    SILENT_RULES,
    SILENT_TRAINING,
)
ERROR = r"\b\w+(?:Error|Exception)"
# What stands before the code in a frame of a traceback: of Python, IPython, rich
FRAME = r"\bline \d+, in \S+|-{2,}> ?\d+\b|\u2771 *\d+\b"
MESSAGES = tuple(message for theme in THEMES for message in theme.messages)


def lookup(text: str) -> Message | None:
    """Return the entry for a message in any of its wordings, or None.

    A traceback may hold several errors, and warnings before them: the last error counts.
    Where nobody knows that one, an error before it may be its cause; a warning is not.

    Where it shows the line that raised, words of Python are held to that line, as
    :func:`pullback.hints` does.
    """
    text = " ".join(text.split())
    last = re.split(rf"{ERROR}: ", text)[-1]
    errors = re.sub(rf"\b\w*Warning: .*?(?=Traceback|{ERROR}: |$)", "", text)
    for part, before in ((last, text.removesuffix(last)), (errors, "")):
        for message in MESSAGES:
            match = message.find(part)
            if match and _raised_there(message, before + part[: match.end()]):
                return message
    return None


def _raised_there(message: Message, before: str) -> bool:
    """Return whether the line that raised, if ``before`` shows one, may be the entry's."""
    *frames, line = re.split(FRAME, before)
    line = re.split(rf"{ERROR}: ", line)[0]
    shown = frames and re.search(r"\w", re.sub(r"\[rank\d+\]:", "", line))
    return not shown or re.search(message.only_line, line) is not None
