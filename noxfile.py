#!/usr/bin/env -S uv run --script
# /// script
# dependencies = ["nox>=2025.2.9"]
# ///
"""What a contributor runs. ``nox -l`` lists it."""

import os
import shutil
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.sessions = ["docs", "tests", "doctest"]

PYPROJECT = nox.project.load_toml("pyproject.toml")
SITE = Path("docs/_build/html")
GENERATED = ["docs/_build", "docs/auto_examples", "docs/errors", "docs/api/generated"]
STRICT = ["-n", "-W", "-T", "--keep-going"]


def install(session: nox.Session, *groups: str) -> None:
    """Install the package and dependency groups at the versions in constraints.txt."""
    wanted = nox.project.dependency_groups(PYPROJECT, *groups)
    extras = [w for w in wanted if w.startswith("pullback")] or ["pullback"]
    others = [w for w in wanted if not w.startswith("pullback")]
    local = [extra.replace("pullback", ".", 1) for extra in extras]
    session.install("-c", "constraints.txt", "-e", *local, *others)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the whole site into docs/_build/html."""
    install(session, "docs")
    args = session.posargs or STRICT
    session.run("sphinx-build", "-b", "html", *args, "docs", str(SITE))
    session.log(f"open {SITE / 'index.html'}")


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests; those of the built site run when it has been built."""
    install(session, "tests")
    session.run("pytest", "tests", *session.posargs)


@nox.session
def doctest(session: nox.Session) -> None:
    """Hold every printed output to its record (-- --force-regen renews the record)."""
    install(session, "tests")
    printed = ["README.md", "docs", "src", "tests/test_records.py"]
    session.run("pytest", *printed, *session.posargs)


@nox.session(default=False)
def live(session: nox.Session) -> None:
    """Serve the site and rebuild it after each edit."""
    install(session, "docs")
    session.install("-c", "constraints.txt", "sphinx-autobuild")
    ignore = [arg for path in GENERATED for arg in ("--ignore", f"{path}/*")]
    watch = ["--watch", "examples", "--watch", "src"]
    session.run("sphinx-autobuild", *ignore, *watch, "docs", str(SITE))


@nox.session(default=False)
def lint(session: nox.Session) -> None:
    """Check style, docstrings and types."""
    install(session, "lint", "docs")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")


@nox.session(default=False)
def links(session: nox.Session) -> None:
    """Check that every link to another site still answers (needs a network)."""
    install(session, "docs")
    session.run("sphinx-build", "-b", "linkcheck", "docs", "docs/_build/linkcheck")


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """Time jacobian against other ways and record the results."""
    install(session, "run")
    session.run("python", "benchmarks/jacobian.py")
    session.run("python", "benchmarks/sparse.py", *session.posargs)


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
