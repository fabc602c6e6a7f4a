"""The frames of Python in which code runs."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import FrameType


def frames(innermost: FrameType | None = None) -> Iterator[FrameType]:
    """Yield a frame, or else that of the caller, then the one that called it, and so on."""
    here = inspect.currentframe()
    frame = innermost or (here and here.f_back)
    while frame is not None:
        yield frame
        frame = frame.f_back
