"""A run takes some cases of a sweep, the next one others, until all have passed.

The sweep here has twelve cases, of which a run takes six.
"""

import os
import re

import pytest
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
    other, _ = run(state="edited")
    assert len(other) == 6
    assert other != first
    assert run("--every-case", state="edited") == ({*range(12)}, 0)


def test_what_was_written_last_is_tried_beside_the_lot(run, pytester, monkeypatch):
    monkeypatch.setattr("sweeps.LATEST", 2)
    files = [pytester.path / f"{case}.txt" for case in range(12)]
    for time, file in enumerate(files):
        file.write_text("")
        os.utime(file, (time, time))
    tried, _ = run(more=FILES)
    assert {10, 11} <= tried
    run("--every-case", more=FILES)
    files[5].write_text("changed")
    assert run(more=FILES) == ({5}, 0)
