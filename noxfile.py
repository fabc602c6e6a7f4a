#!/usr/bin/env -S uv run --script
# /// script
# dependencies = ["nox>=2025.2.9"]
# ///
"""What a contributor runs. ``nox -l`` lists it."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import nox
from packaging.version import Version

nox.needs_version = ">=2025.2.9"
nox.options.sessions = ["docs", "tests", "doctest"]
nox.options.reuse_venv = "yes"

PYPROJECT = nox.project.load_toml("pyproject.toml")
PINS = Path("constraints.txt")
PINNED = PINS.read_text(encoding="utf-8").splitlines()
(TORCH,) = (pin for pin in PINNED if pin.startswith("torch=="))
OF_PAGES = {"built", "entries", "executed", "sites"}  # what tests of the site import
SITE = Path("docs/_build/html")
BOOK = Path("docs/_build/book")
GENERATED = ["docs/_build", "docs/auto_examples", "docs/errors", "docs/api/generated"]
# Sphinx writes in one process fewer than it is told to read in.
BUILD = ["-j", str((os.cpu_count() or 1) + 1), "-d", "docs/_build/doctrees"]
STRICT = ["-n", "-W", "-T", "--keep-going"]
PARALLEL = ["-n", "auto", "--maxprocesses", "4", "--dist", "worksteal"]
BY_FILE = [*PARALLEL, "--dist", "loadfile"]  # the examples of a file build on one another
ONE_THREAD = {"OMP_NUM_THREADS": "1"}  # in each of the parallel processes
EVERY_CASE = "--every-case"  # of sweeps, of which a run takes some otherwise
PRINTED = ["README.md", "docs", "src", "tests/test_records.py"]


def install(session: nox.Session, *groups: str, pins: Path = PINS) -> None:
    """Install the package and dependency groups at the versions in constraints.txt."""
    wanted = nox.project.dependency_groups(PYPROJECT, *groups)
    extras = [w for w in wanted if w.startswith("pullback")] or ["pullback"]
    others = [w for w in wanted if not w.startswith("pullback")]
    local = [extra.replace("pullback", ".", 1) for extra in extras]
    session.install("-c", str(pins), "-e", *local, *others)


def with_torch(session: nox.Session, release: str) -> Path:
    """Write the pins of constraints.txt for another torch, "==2.6.0" or "" the newest."""
    own = ("torch==", "sympy==")  # of which a torch asks for one release
    kept = [pin for pin in PINNED if not pin.startswith(own)]
    return constraints(session, [*kept, f"torch{release}"])


def constraints(session: nox.Session, lines: list[str]) -> Path:
    """Write other pins than those of constraints.txt."""
    pins = Path(session.create_tmp(), "constraints.txt").resolve()
    pins.write_text("\n".join(lines))
    return pins


def tests_with(condition: Callable[[str], bool]) -> list[str]:
    """Return the files of tests whose text is so."""
    tests = sorted(Path("tests").glob("test_*.py"))
    return [str(test) for test in tests if condition(test.read_text(encoding="utf-8"))]


def uses_package_alone(test: str) -> bool:
    """Tell whether a test imports the package, and neither pages nor what is built."""
    imports = [
        row.split()[1] for row in test.splitlines() if row.startswith(("import ", "from "))
    ]
    names = {name.partition(".")[0] for name in imports}
    return "pullback" in names and not names & OF_PAGES


def check_style(session: nox.Session) -> None:
    """Have ruff look at everything."""
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


def only(session: nox.Session, otherwise: str) -> list[str]:
    """Return the option that executes the pages with a part in their names (-- PART)."""
    return ["-D", f"execution_pages={[*session.posargs, otherwise][0]}"]


@nox.session
def docs(session: nox.Session) -> None:
    """Build the whole site into docs/_build/html, with Learn as an EPUB."""
    install(session, "docs")
    args = session.posargs or STRICT
    session.run("sphinx-build", "-b", "book", *BUILD, *args, "docs", str(BOOK))
    session.run("sphinx-build", *BUILD, *args, "docs", str(SITE))
    session.log(f"open {SITE / 'index.html'}")


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests; those of the site run where `docs` has built it from these sources."""
    install(session, "tests")
    session.run("python", "docs/_ext/pages.py")  # executes what the build has not
    records = ["--ignore", "tests/test_records.py"]  # doctest's
    session.run("pytest", *PARALLEL, "tests", *records, *session.posargs, env=ONE_THREAD)


@nox.session
def doctest(session: nox.Session) -> None:
    """Hold every printed output to its record (-- --regen-all renews the record)."""
    install(session, "tests")
    session.run("python", "docs/_ext/pages.py")  # executes what the build has not
    session.run("pytest", *BY_FILE, *PRINTED, *session.posargs, env=ONE_THREAD)


@nox.session(default=False, venv_backend="none")
def full(session: nox.Session) -> None:
    """Run the default sessions, with every case of a sweep, passed or not."""
    session.notify("docs")
    session.notify("tests", [EVERY_CASE])
    session.notify("doctest")


@nox.session(default=False)
def coverage(session: nox.Session) -> None:
    """Run the tests of the package; fail below the share of lines in pyproject.toml."""
    install(session, "coverage")
    session.run("python", "docs/_ext/pages.py")
    args = session.posargs or tests_with(lambda test: "pullback" in test)
    # Behind --cov an option: it would take the name of a file for what to look at.
    session.run("pytest", "--cov", *PARALLEL, EVERY_CASE, *args, env=ONE_THREAD)


@nox.session(default=False)
def page(session: nox.Session) -> None:
    """Execute, check and render one page (-- 30_one_component, --regen-all)."""
    install(session, "tests")
    session.install("-c", str(PINS), "ruff")
    session.run("python", "docs/_ext/one_page.py", *session.posargs, env=ONE_THREAD)


@nox.session(default=False)
def draft(session: nox.Session) -> None:
    """Build without executing, or executing only the pages named (-- 30_one_component)."""
    install(session, "docs")
    session.run("sphinx-build", *BUILD, *only(session, ""), "docs", str(SITE))


@nox.session(default=False)
def book(session: nox.Session) -> None:
    """Build Learn as a book, docs/_build/learn.epub; epubcheck (Java) looks at it."""
    install(session, "docs")
    session.install("epubcheck")
    session.run("sphinx-build", "-b", "book", *BUILD, *STRICT, "docs", str(BOOK))
    session.run("epubcheck", str(BOOK.with_name("learn.epub")))


@nox.session(default=False)
def live(session: nox.Session) -> None:
    """Serve the site and rebuild it after each edit (-- PART executes as in draft)."""
    install(session, "docs")
    session.install("-c", str(PINS), "sphinx-autobuild")
    ignore = [arg for folder in GENERATED for arg in ("--ignore", folder)]
    watched = ["examples", "src", "benchmarks/results"]
    watch = [arg for folder in watched for arg in ("--watch", folder)]
    pages = only(session, "all")
    session.run("sphinx-autobuild", *BUILD, *pages, *ignore, *watch, "docs", str(SITE))


@nox.session(default=False)
def twice(session: nox.Session) -> None:
    """Build the site twice and compare every byte; run each example with the wheel."""
    install(session, "tests")
    patient = ["-o", "faulthandler_timeout=10800"]  # two builds may take an hour
    session.run("pytest", "-m", "whole", *patient, "tests", *session.posargs)


@nox.session(default=False)
def compat(session: nox.Session) -> None:
    """Run tests, doctests and examples with the newest torch, or another (-- 2.6.0).

    With one older than that of constraints.txt, which the pages need, the tests of the
    package alone.
    """
    release, *args = session.posargs or [""]
    install(session, "tests", pins=with_torch(session, release and f"=={release}"))
    if release and Version(release) < Version(TORCH.removeprefix("torch==")):
        alone = tests_with(uses_package_alone)
        session.run("pytest", *PARALLEL, *alone, *args, env=ONE_THREAD)
        return
    session.run("python", "docs/_ext/pages.py")
    session.run("pytest", *BY_FILE, *PRINTED, "tests", EVERY_CASE, *args, env=ONE_THREAD)


@nox.session(default=False)
def wild(session: nox.Session) -> None:
    """Try the package on tiny models of other libraries, at their newest (-- -k timm)."""
    install(session, "wild", pins=constraints(session, [TORCH]))
    args = ["--confcutdir", "tests/wild", "-m", "wild", "tests/wild", *session.posargs]
    session.run("pytest", *args, env=ONE_THREAD)


@nox.session(default=False, reuse_venv=False)
def newest(session: nox.Session) -> None:
    """Build and test with the newest of everything but torch; say what breaks."""
    old = {pin for pin in PINNED if "==" in pin and pin[0] != "#"}
    install(session, "tests", pins=constraints(session, [TORCH]))
    now = session.run("python", "-m", "pip", "freeze", silent=True) or ""
    session.log("not as in constraints.txt:\n" + "\n".join({*now.splitlines()} - old))
    steps = {
        "docs": ("sphinx-build", *BUILD, *STRICT, "docs", str(SITE)),
        "tests": ("pytest", *BY_FILE, "tests", *PRINTED, *session.posargs),
    }
    broken = []
    for name, step in steps.items():
        try:
            session.run(*step, env=ONE_THREAD)
        except nox.command.CommandFailed:
            broken.append(name)
    if broken:
        session.error(f"with the newest releases fails: {', '.join(broken)}")


@nox.session(default=False)
def package(session: nox.Session) -> None:
    """Build sdist and wheel; try the wheel by itself and the sdist with its own tests."""
    shutil.rmtree("dist", ignore_errors=True)
    session.install("-c", str(PINS), "build", "twine")
    session.run("python", "-m", "build")
    session.run("twine", "check", "--strict", *map(str, Path("dist").iterdir()))
    (wheel,), (sdist,) = Path("dist").glob("*.whl"), Path("dist").glob("*.tar.gz")

    fresh = Path(session.create_tmp(), "fresh").resolve()
    session.run("python", "-m", "venv", "--clear", str(fresh))
    python = str(fresh / Path(session.bin).name / "python")
    pip = (python, "-m", "pip", "install", "-q", "-c", str(PINS))
    session.run(*pip, str(wheel), external=True)
    session.run(python, "-I", "tests/smoke.py", external=True)

    shutil.unpack_archive(sdist, fresh)
    wanted = nox.project.dependency_groups(PYPROJECT, "tests")
    all_of_it = [w.replace("pullback", str(wheel), 1) for w in wanted]
    session.run(*pip, *all_of_it, external=True)
    with session.chdir(fresh / sdist.name.removesuffix(".tar.gz")):
        session.run(python, "-m", "pytest", "tests", *session.posargs, external=True)


@nox.session(default=False)
def style(session: nox.Session) -> None:
    """Check style and docstrings with ruff alone, in seconds."""
    session.install("-c", str(PINS), "ruff")
    check_style(session)


@nox.session(default=False)
def lint(session: nox.Session) -> None:
    """Check style, docstrings, types, and the files that hosts read."""
    install(session, "lint", "docs")
    hosts = {"github-workflows": Path(".github/workflows").glob("*.yml")}
    hosts["github-actions"] = Path(".github/actions").glob("*/action.yml")
    hosts["readthedocs"] = [Path(".readthedocs.yaml")]
    hosts["dependabot"] = [Path(".github/dependabot.yml")]
    for schema, files in hosts.items():
        session.run("check-jsonschema", "--builtin-schema", schema, *map(str, files))
    session.run("zizmor", "--offline", "--min-severity", "medium", ".github")
    check_style(session)
    session.run("mypy")


@nox.session(default=False)
def links(session: nox.Session) -> None:
    """Check that every link to another site still answers (needs a network)."""
    install(session, "docs")
    session.run("sphinx-build", "-b", "linkcheck", *BUILD, "docs", "docs/_build/linkcheck")


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """Time Jacobians, the pages of 07_measured and the build; record the results."""
    install(session, "bench")
    of_torch = "jacobian", "hvp", "per_sample", "sparse"
    for script in (*of_torch, "operators", "pages", "watch", "build"):
        session.run("python", f"benchmarks/{script}.py")


@nox.session(default=False)
def dictionary(session: nox.Session) -> None:
    """Check the dictionary's JAX column with JAX installed."""
    install(session, "dictionary")
    session.run("pytest", "tests/test_dictionary.py", *session.posargs)


@nox.session(default=False)
def clean(session: nox.Session) -> None:
    """Delete everything that a build writes."""
    for path in GENERATED:
        shutil.rmtree(path, ignore_errors=True)


os.environ.setdefault("PIP_DISABLE_PIP_VERSION_CHECK", "1")

if __name__ == "__main__":
    nox.main()
