"""Which cases of a sweep a run of the tests takes: pages in a browser, operators of torch.

A sweep is a test of hundreds of cases that is marked ``@pytest.mark.sweep(lot=20)``. A case
that has passed is tried again when what decides it has changed. Of those that are to be
tried, a run takes as many as ``lot`` says, so that a fresh copy of the repository, or an
edit of the package, does not wait for all of them; the next run takes others.
``--every-case`` takes every case, as ``nox -s full`` does each night; only then does
Hypothesis draw examples that no run has seen.

What decides a case is its test and the package with its torch, or else what ``state``
returns, and the ``file`` of the case. Those whose files were written last, which somebody
may just have changed, are taken beside the lot.
"""

import functools
import hashlib
from importlib.metadata import version
from pathlib import Path

import hypothesis
import pytest
from executed import ROOT

LATEST = 10

for name in ("repeatable", "every"):  # on a busy machine a deadline fails by chance
    hypothesis.settings.register_profile(
        name, derandomize=name == "repeatable", deadline=None
    )


def pytest_addoption(parser):
    parser.addoption(
        "--every-case", action="store_true", help="try every case of a sweep, passed or not"
    )


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "sweep(lot, state, file): try so many cases in a run"
    )
    every = config.getoption("--every-case", False)
    hypothesis.settings.load_profile("every" if every else "repeatable")


def pytest_collection_modifyitems(config, items):
    """Leave out the cases of each sweep that this run does not take."""
    if config.getoption("--every-case", False):
        return
    out = set()
    for cases in sweeps(items):
        out |= {*cases} - taken(config.cache, cases)
    items[:] = [item for item in items if item not in out]
    config.hook.pytest_deselected(items=[*out])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Note that a case has passed as it is."""
    report = yield
    if report.when == "call" and report.passed and item.get_closest_marker("sweep"):
        item.config.cache.set(place(item), state(item))
    return report


def sweeps(items):
    """Return the cases of each sweep."""
    found = {}
    for item in items:
        if item.get_closest_marker("sweep"):
            found.setdefault((item.path, item.originalname), []).append(item)
    return found.values()


def taken(cache, cases):
    """Return those of the cases of a sweep that a run takes."""
    places = {place(case): case for case in cases}
    states = {at: state(case) for at, case in places.items()}
    lot = cases[0].get_closest_marker("sweep").kwargs["lot"]
    left = [places[at] for at in untried(cache, states)]
    drawn = left[:lot]
    files = {case: file for case in left if (file := file_of(case))}
    latest = sorted(files, key=lambda case: files[case].stat().st_mtime)[-LATEST:]
    return {*drawn, *latest}


def untried(cache, states):
    """Return what has not passed in its state, in an order that only a lot gives.

    ``states`` has the state of each case by the place where it is noted that it passed.
    """
    left = [at for at, state in states.items() if cache.get(at, None) != state]
    return sorted(left, key=lambda at: digest(at, states[at]))


def place(case):
    """Return where it is noted that a case has passed."""
    return f"sweeps/{digest(case.nodeid)}"


def state(case):
    """Return a digest of what decides a case."""
    shared = case.get_closest_marker("sweep").kwargs.get("state", package)
    file = file_of(case)
    return digest(shared(), of(case.path), of(Path(__file__)), of(file) if file else "")


def file_of(case):
    """Return the file that a case is about, if there is one."""
    kwargs = case.get_closest_marker("sweep").kwargs
    if "file" not in kwargs:
        return None
    (parameter,) = case.callspec.params.values()
    file = kwargs["file"](parameter)
    return file if file.exists() else None


@functools.cache
def package():
    """Return a digest of the package, of its torch, and of what tests share."""
    shared = set(Path(__file__).parent.glob("*.py")) - {
        *Path(__file__).parent.glob("test_*")
    }
    sources = sorted({*(ROOT / "src").rglob("*.py"), *shared})
    return digest(version("torch"), *map(of, sources))


def of(file):
    """Return a digest of a file."""
    return hashlib.sha256(file.read_bytes()).hexdigest()


def digest(*texts):
    """Return a digest of some texts."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()
