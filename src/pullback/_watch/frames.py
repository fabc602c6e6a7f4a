"""Whose line it is: the frames of Python in which an operation runs."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from types import CodeType, FrameType, ModuleType
from typing import NamedTuple

import torch

import pullback
from pullback._torch import calls_engine


def _folder(of: ModuleType) -> str:
    return os.path.dirname(str(of.__file__)) + os.sep


INSIDE = (_folder(torch), _folder(pullback))  # whose frames are nobody's own lines
HERE = os.path.dirname(__file__)


def is_own(code: CodeType) -> bool:
    """Tell whether code is somebody's own; a mode only stands between."""
    if code.co_name in ("__torch_dispatch__", "__torch_function__"):
        return False
    return not code.co_filename.startswith((*INSIDE, "<frozen"))


def caller() -> CodeType | None:
    """Return the code that called the operation at hand; None in a thread without any."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(HERE):
        frame = frame.f_back
    return frame.f_code if frame is not None else None


class Instruction(NamedTuple):
    """Where in a program an operation was called, more closely than by its line."""

    code: CodeType
    at: int


def calling() -> Instruction | None:
    """Return the instruction that called the operation at hand."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(HERE):
        frame = frame.f_back
    return Instruction(frame.f_code, frame.f_lasti) if frame is not None else None


def called_by_engine() -> bool:
    """Tell whether the engine itself runs the operation at hand, and no code in Python."""
    code = caller()
    return code is None or calls_engine(code)


def asked_by_package() -> bool:
    """Tell whether it is this package that runs, called by the nearest own line."""
    frame = inspect.currentframe()
    while frame is not None and not is_own(frame.f_code):
        path = frame.f_code.co_filename
        if path.startswith(INSIDE[1]) and os.path.dirname(path) != HERE:
            return True
        frame = frame.f_back
    return False


def runs_ahead() -> bool:
    """Tell whether backward runs code anew that has asked for it, and has not ended yet."""
    frame, anew = inspect.currentframe(), set[CodeType]()
    while frame is not None and not calls_engine(frame.f_code):
        if is_own(frame.f_code):
            anew.add(frame.f_code)
        frame = frame.f_back
    while frame is not None:
        if frame.f_code in anew:
            return True
        frame = frame.f_back
    return False


def frames_of(part: str, own_first: bool = False) -> Iterator[FrameType]:
    """Yield the frames of a part of torch in which this runs, the innermost first.

    With ``own_first`` only those that have called a line outside torch.
    """
    frame = inspect.currentframe()
    own = not own_first
    while frame is not None:
        path = frame.f_code.co_filename.replace("\\", "/")
        inside = "/torch/" in path
        if own and inside and part in path:
            yield frame
        own = own or is_own(frame.f_code)
        frame = frame.f_back
