"""Whose line it is: the frames of Python in which an operation runs."""

from __future__ import annotations

import inspect
import os
from itertools import takewhile
from types import CodeType, FrameType
from typing import NamedTuple

from pullback._frames import frames
from pullback._site import PACKAGE, is_own_file
from pullback._torch import calls_engine

HERE = os.path.dirname(__file__)
BETWEEN = {"__torch_dispatch__", "__torch_function__"}  # of modes, whoever wrote them


def is_own(code: CodeType) -> bool:
    """Tell whether code is somebody's own; a mode only stands between."""
    return code.co_name not in BETWEEN and is_own_file(code.co_filename)


def own_frame(frame: FrameType | None = None) -> FrameType | None:
    """Return the nearest frame of somebody's own code, from here or from a frame."""
    if frame is None:
        frame = inspect.currentframe()  # not by frames(): this runs at every operation
    while frame is not None and not is_own(frame.f_code):
        frame = frame.f_back
    return frame


def calling_frame() -> FrameType | None:
    """Return the frame that called what this package looks at, or that called a hook."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(HERE):
        frame = frame.f_back
    return frame


def runs(frame: FrameType) -> bool:
    """Tell whether a frame of this thread has not ended, so that this runs inside it."""
    around = inspect.currentframe()
    while around is not None and around is not frame:
        around = around.f_back
    return around is not None


def caller() -> CodeType | None:
    """Return the code that called the operation at hand; None in a thread without any."""
    frame = calling_frame()
    return frame.f_code if frame is not None else None


class Instruction(NamedTuple):
    """Where in a program an operation was called, more closely than by its line."""

    code: CodeType
    at: int


def calling(frame: FrameType) -> Instruction:
    """Return the instruction at hand of a frame."""
    return Instruction(frame.f_code, frame.f_lasti)


def called_by_engine() -> bool:
    """Tell whether the engine itself runs the operation at hand, and no code in Python."""
    code = caller()
    return code is None or calls_engine(code)


def asked_by_package() -> bool:
    """Tell whether it is this package that runs, called by the nearest own line."""
    for frame in frames():
        path = frame.f_code.co_filename
        if is_own(frame.f_code):
            return False
        if path.startswith(PACKAGE) and os.path.dirname(path) != HERE:
            return True
    return False


def runs_ahead() -> bool:
    """Tell whether backward runs code anew that has asked for it, and has not ended yet."""
    stack = frames()
    inside = takewhile(lambda frame: not calls_engine(frame.f_code), stack)
    anew = {frame.f_code for frame in inside if is_own(frame.f_code)}
    return any(frame.f_code in anew for frame in stack)
