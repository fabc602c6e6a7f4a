"""Whose line it is: of a program, and not of a library."""

import inspect
import weakref
from pathlib import Path

import torch
from torch import nn

import pullback
from pullback._frames import frames
from pullback._site import is_own_file


def test_whose_line_it_is():
    beside = Path(torch.__file__).parent.with_name("torchvision") / "ops.py"
    assert is_own_file(str(beside))
    assert is_own_file(__file__)
    for file in (torch.__file__, nn.functional.__file__, pullback.__file__):
        assert not is_own_file(file)


def test_the_same_code_in_two_files_is_two_places():
    code = "def loss(out, target):\n    return ((out - target) ** 2).mean()\n"
    out, target = torch.ones(3, 1, requires_grad=True), torch.ones(3)
    with pullback.watch() as seen:
        for name in ("first.py", "second.py"):
            module = {}
            exec(compile(code, name, "exec"), module)
            module["loss"](out * 1, target)
    assert [str(finding.site) for finding in seen] == ["first.py:2", "second.py:2"]


def test_frames_are_those_of_the_caller_from_within():
    def within():
        return list(frames())

    here = inspect.currentframe()
    inner, *others = within()
    assert inner.f_code is within.__code__
    assert others[:2] == [here, here.f_back]
    assert list(frames(here)) == others


def test_what_a_caller_holds_goes_when_it_returns():
    class Held:
        pass

    def caller():
        held = Held()
        next(frames())
        return weakref.ref(held)

    assert caller()() is None
