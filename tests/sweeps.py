"""Which cases of a sweep a run of the tests takes, and which random numbers a test draws.

A sweep is a test of hundreds of cases that is marked ``@pytest.mark.sweep(lot=20)``: pages
in a browser, operators of torch. A case that has passed is tried again when what decides it
has changed. Of those that are to be tried, a run takes as many as ``lot`` says, so that a
fresh copy of the repository, or an edit of the package, does not wait for all of them; the
next run takes others. ``--every-case`` takes all, as ``nox -s full`` does each night.

What decides a case is its test and the package with its torch, or else what ``state``
returns, and the ``file`` of the case. Those whose files were written last, which somebody
may just have changed, are taken beside the lot; in a fresh copy all were written at once.

The lot, and the numbers that a test draws, follow from the sources alone: a fresh copy
takes no case, and sees no number, that a run which passed here has not. Only with
``--every-case`` does Hypothesis draw examples that no run has seen, and a test other
numbers in each run; the head of the report says how to draw these once more. Of a test
with costly ``examples`` a run draws a quarter; of a long table it asks for
``one_in`` many.
"""

import functools
import hashlib
import random
import sys
from importlib.metadata import version
from operator import attrgetter
from pathlib import Path

import hypothesis
import pytest
from executed import ROOT

import pages

LATEST = 10

for name in ("repeatable", "every"):  # on a busy machine a deadline fails by chance
    hypothesis.settings.register_profile(
        name, derandomize=name == "repeatable", deadline=None
    )


def examples(count, **others):
    """Return the settings of a test with so many examples, or a quarter, as in the lots."""
    repeatable = hypothesis.settings.get_current_profile_name() == "repeatable"
    return hypothesis.settings(max_examples=count // 4 if repeatable else count, **others)


def one_in(count, names):
    """Return one in so many of some names, by lot."""
    return by_lot(names)[: len(names) // count]


def pytest_addoption(parser):
    parser.addoption(
        "--every-case", action="store_true", help="try every case of a sweep, passed or not"
    )
    parser.addoption("--draw", type=int, help="what the tests draw their numbers by")


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "sweep(lot, state, file): try so many cases in a run"
    )
    every = config.getoption("--every-case", False)
    hypothesis.settings.load_profile("every" if every else "repeatable")
    if config.getoption("--draw", None) is None:  # which a worker is given
        config.option.draw = random.randrange(10**6) if every else 0


def pytest_report_header(config):
    return f"random numbers: --draw {config.option.draw}"


def pytest_runtest_setup(item):
    """Have a test draw the same numbers wherever and after whichever others it runs."""
    seed = int(digest(item.nodeid, str(item.config.option.draw))[:8], 16)
    random.seed(seed)
    for library, draw in (("numpy", "random.seed"), ("torch", "manual_seed")):
        if library in sys.modules:
            attrgetter(draw)(sys.modules[library])(seed)


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
    lot = cases[0].get_closest_marker("sweep").kwargs["lot"]
    left = [places[at] for at in untried(cache, places, state)]
    drawn = left[:lot]
    if not any(cache.get(at, None) for at in places):
        return {*drawn}  # nothing has passed here: a fresh copy
    files = {case: file for case in left if (file := file_of(case))}
    latest = sorted(files, key=lambda case: files[case].stat().st_mtime)[-LATEST:]
    return {*drawn, *latest}


def untried(cache, places, state_of):
    """Return what has not passed in its state, in an order that only the sources give.

    ``places`` has each case by the place where it is noted in which state it passed. The
    first of the order are the lot of a fresh copy, whatever has passed here.
    """
    passed = {at: cache.get(at, None) for at in places}
    left = [at for at in places if not passed[at] or passed[at] != state_of(places[at])]
    return by_lot(left)


def by_lot(names):
    """Return names in an order that the sources alone give."""
    return sorted(names, key=lambda name: digest(name, sources()))


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
def sources():
    """Return a digest of all that is written by hand."""
    return pages.sources(ROOT, ("benchmarks", "docs", "examples", "src", "tests"))


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
