"""The frames of Python in which code runs."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import FrameType


def frames(innermost: FrameType | None = None) -> Iterator[FrameType]:
    """Yield a frame, or else that of the caller, then the one that called it, and so on."""
    frame = innermost
    if frame is None:
        # In a variable of its own, its frame would keep all that the caller holds until the
        # garbage collector comes.
        frame = inspect.currentframe()
        frame = frame and frame.f_back
    while frame is not None:
        yield frame
        frame = frame.f_back
