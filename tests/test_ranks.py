"""A Jacobian shared by two real processes is the one that a single process computes."""

import inspect
import re
import subprocess
import sys
import typing

import pytest
import ranks_worker
import torch
from ranks_worker import ERRORS, SAME, SECONDS, X, f

import pullback
from pullback._inputs import Keywords

RAISED = {  # what rank 0 and rank 1 say
    "f raises on one": ('RuntimeError: rank 1 .* KeyError: "f\'s own"', "KeyError"),
    "f raises on the other": ("KeyError", "RuntimeError: rank 0 .* KeyError"),
    "f raises on both": ("KeyError", "KeyError"),
    "backward raises on one": (
        "RuntimeError: rank 1 .* inplace operation",
        "RuntimeError: one of the variables",
    ),
    "other inputs": ("ValueError: the ranks .* different inputs",) * 2,
    "other shapes": ("ValueError: the ranks .* different results",) * 2,
    "other outputs": ("ValueError: the ranks .* different results",) * 2,
    "one more output": ("ValueError: the ranks .* different outputs",) * 2,
    "other functions": ("ValueError: the ranks .* different outputs",) * 2,
    "other random numbers": ("ValueError: .* different outputs .* the same seed",) * 2,
    "bad input on one": (r"TypeError: inputs\[0\] has dtype", "RuntimeError: rank 0 "),
    "mixes": ("ValueError: batched=True, and f mixes samples",) * 2,
    "unused": (r"RuntimeError: the output does not depend on inputs\[1\]",) * 2,
}


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """What the two processes answered, started once for all tests."""
    folder = tmp_path_factory.mktemp("ranks")
    answers = [folder / f"rank{rank}.pt" for rank in (0, 1)]
    processes = [
        subprocess.Popen(
            [sys.executable, ranks_worker.__file__, str(rank), folder / "meeting", path],
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank, path in enumerate(answers)
    ]
    try:
        errors = [process.communicate(timeout=2 * SECONDS)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0, 0], "\n".join(errors)
    return [torch.load(path) for path in answers]


@pytest.mark.parametrize("name", SAME)
def test_every_rank_has_what_one_process_computes(ranks, name):
    alone = SAME[name](None)
    for rank in ranks:
        torch.testing.assert_close(rank["same"][name], alone)


@pytest.mark.parametrize("name", ERRORS)
def test_no_rank_waits_for_one_that_failed(ranks, name):
    for rank, words in zip(ranks, RAISED[name], strict=True):
        assert re.match(words, rank["errors"][name]), rank["errors"][name]


def test_the_group_is_good_after_errors(ranks):
    for rank in ranks:
        torch.testing.assert_close(rank["after"], pullback.jacobian(f, X))


def test_each_takes_half_of_the_products(ranks):
    for rank in ranks:
        assert rank["counts"] == [4, 3]  # of seven rows, of five columns


def test_a_process_outside_of_the_group_is_told_so(ranks):
    outside, member = (rank["alone"] for rank in ranks)
    assert re.match("TypeError: group .* that this process belongs to", outside)
    assert member == "no error"


def test_bad_groups():
    for group in ("gloo", 2, object()):
        with pytest.raises(TypeError, match=r"group is (an? \w+|None); a process group"):
            pullback.distributed.jacobian(f, X, group=group)


def test_the_options_are_those_of_jacobian():
    alone = inspect.signature(pullback.jacobian).parameters
    shared = inspect.signature(pullback.distributed.jacobian).parameters
    passed_on = typing.get_type_hints(Keywords)
    alone_only = {
        "has_aux",  # what goes with the output may be anything
        "create_graph",  # what is gathered has no graph
    }
    assert (
        alone.keys() - alone_only == shared.keys() - {"group", "options"} | passed_on.keys()
    )
    for name, kind in passed_on.items():
        assert typing.get_type_hints(pullback.jacobian)[name] == kind
    for name in (
        "fastest",
        "bytes_each",
        *alone_only,
    ):  # two that the package has for itself
        with pytest.raises(TypeError, match=f"{name} is no option of pullback.distributed"):
            pullback.distributed.jacobian(f, X, group=None, **{name: 1})
