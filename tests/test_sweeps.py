"""A run takes some cases of a sweep, the next one others, until all have passed.

The sweep here has twelve cases, of which a run takes six.
"""

import os
import random
import re

import numpy as np
import pytest
import torch
from executed import ROOT

pytest_plugins = ["pytester"]
SWEEP = """
import pathlib
import pytest

HERE = pathlib.Path(__file__).parent

@pytest.mark.sweep(lot=6, state=(HERE / "state").read_text{more})
@pytest.mark.parametrize("case", range(12))
def test_case(case):
    assert str(case) not in (HERE / "wrong").read_text().split()

def test_of_no_sweep():
    pass
"""
FILES = ", file=lambda case: HERE / f'{case}.txt'"


@pytest.fixture
def run(pytester):
    """Run the tests; return the cases that were tried, and how many tests went wrong."""
    pytester.makeconftest((ROOT / "tests" / "conftest.py").read_text("utf-8"))
    pytester.syspathinsert(ROOT / "tests")

    def run(*options, state="", wrong="", more=""):
        files = {"test_it.py": SWEEP.format(more=more), "state": state, "wrong": wrong}
        for name, text in files.items():
            (pytester.path / name).write_text(text)
        lines = pytester.runpytest_inprocess("-v", *options).outlines
        found = {}
        for line in lines:
            if outcome := re.match(r"test_it.py::(\S+) (PASSED|FAILED)", line):
                found[outcome[1]] = outcome[2]
        assert found.pop("test_of_no_sweep") == "PASSED", "\n".join(lines)
        tried = {int(re.search(r"\d+", name)[0]) for name in found}
        return tried, [*found.values()].count("FAILED")

    return run


def test_every_case_comes_up_and_is_not_tried_again(run):
    first, failed = run(wrong="0 1 2 3 4 5 6 7 8 9 10 11")
    assert len(first) == failed == 6
    assert run() == (first, 0), "what fails is tried until it passes"
    assert run() == ({*range(12)} - first, 0)
    assert run() == (set(), 0)
    assert run(state="edited") == (first, 0)
    assert run("--every-case", state="edited") == ({*range(12)}, 0)


def test_a_fresh_copy_draws_what_any_run_on_the_same_sources_has_passed(run, monkeypatch):
    lot, _ = run("--cache-clear")
    assert run("--cache-clear", state="built on another day") == (lot, 0)
    monkeypatch.setattr("sweeps.sources", lambda: "edited")
    other, _ = run("--cache-clear")
    assert other != lot


def test_what_was_written_last_is_tried_beside_the_lot(run, pytester, monkeypatch):
    """But in a fresh copy, where that says nothing."""
    monkeypatch.setattr("sweeps.LATEST", 2)
    files = [pytester.path / f"{case}.txt" for case in range(12)]
    lot, _ = run()
    late = [*{*range(12)} - lot][:2]
    for case, file in enumerate(files):
        file.write_text("")
        os.utime(file, (0, 99 if case in late else case))
    assert run("--cache-clear", more=FILES) == (lot, 0)
    tried, _ = run(more=FILES, state="edited")
    assert tried == {*lot, *late}
    run("--every-case", more=FILES, state="edited")
    files[5].write_text("changed")
    assert run(more=FILES, state="edited") == ({5}, 0)


NUMBERS = """
import test_sweeps

def test_numbers():
    test_sweeps.draw()

def test_more_numbers():
    test_numbers()
"""


def draw():
    by_numpy = np.random.rand()  # noqa: NPY002
    print("drawn", random.random(), by_numpy, torch.rand(()).item())


def test_a_test_draws_the_same_numbers_wherever_it_runs(pytester, run):
    """With every case others, which can be drawn once more."""
    pytester.makepyfile(NUMBERS)

    def drawn(*options):
        lines = pytester.runpytest_inprocess("-s", *options).outlines
        (by,) = (line for line in lines if line.startswith("random numbers: "))
        numbers = [line.partition("drawn ")[2] for line in lines if "drawn " in line]
        return by.partition(": ")[2].split(), numbers

    _, (one, other) = drawn()
    assert len({*one.split(), *other.split()}) == 6
    assert drawn("-k", "more")[1] == [other]
    by, again = drawn("--every-case")
    assert not {one, other} & {*again}
    assert drawn(*by)[1] == again


EXAMPLES = """
from hypothesis import given, strategies as st
from sweeps import examples

drawn = []

@examples(40)
@given(st.integers())
def test_number(number):
    drawn.append(number)

def test_how_many():
    assert len(drawn) == {}
"""


def test_a_run_draws_a_quarter_of_costly_examples(pytester):
    pytester.makeconftest((ROOT / "tests" / "conftest.py").read_text("utf-8"))
    pytester.syspathinsert(ROOT / "tests")
    for options, count in (["--every-case"], 40), ([], 10):
        pytester.makepyfile(EXAMPLES.format(count))
        pytester.runpytest_inprocess(*options).assert_outcomes(passed=2)
