"""The frames of Python in which code runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType


def frames(innermost: FrameType | None = None) -> Iterator[FrameType]:
    """Yield a frame, or else that of the caller, then the one that called it, and so on."""
    # Its own frame in a variable would keep all that the caller holds until the garbage
    # collector comes.
    frame: FrameType | None = innermost or sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back
