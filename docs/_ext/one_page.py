"""Execute, check and render one page: ``python one_page.py NAME [options of pytest]``.

NAME is a part of the path of an example or of a Markdown page, or the anchor of an error
message (``errors/ANCHOR``, should a page have it in its path, too). Where the site has been
built, the page is built into it; else it is rendered without the others, and links to them
are left as text.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.util.tags import Tags

import pages
from error_pages import page_of, stored
from pages import ROOT, SKIPPED, Store
from pullback._messages import messages

DOCS = ROOT / "docs"
BUILT = DOCS / "_build"
PER_PAGE = ["test_records", "test_examples", "test_terms"]  # these go page by page
PER_MESSAGE = ["test_messages", "test_recognition", "test_watch"]  # and these by anchor
NOTHING_RAN = 5  # what pytest returns
ALONE = [
    "ref.*",
    "toc.not_readable",
    "toc.not_included",
    "toc.excluded",
    "myst.xref_missing",
    "config.cache",
]


def sources() -> Iterator[Path]:
    """Yield what a page is written in."""
    yield from sorted((ROOT / "examples").glob("*/*.py"))
    for source in sorted(DOCS.rglob("*.md")):
        if not SKIPPED & {*source.relative_to(ROOT).parts}:
            yield source


def chosen(name: str) -> Path | str:
    """Return the source with a name in its path, or else the anchor of a message."""
    paths = {source.relative_to(ROOT).as_posix(): source for source in sources()}
    found = [source for path, source in paths.items() if name in path]
    whole = re.compile(rf"(^|/){re.escape(name)}(\.\w+)?$")
    exact = [source for path, source in paths.items() if whole.search(path)]
    if len(exact or found) == 1:
        return (exact or found)[0]
    if found:
        names = "\n  ".join(source.relative_to(ROOT).as_posix() for source in found)
        sys.exit(f"{name} is in the names of several pages:\n  {names}")
    anchor = name.removeprefix("errors/")
    if anchor not in {message.anchor for message in messages()}:
        sys.exit(f"no page has {name} in its path, and no message this anchor")
    return anchor


def checks(source: Path | str, options: list[str]) -> Iterator[list[str]]:
    """Yield the commands that look at a page."""
    pytest = [sys.executable, "-m", "pytest", "-q", "--no-header", *options]
    if isinstance(source, str):
        tests = [f"tests/{test}.py" for test in PER_MESSAGE]
        yield [*pytest, *tests, "-k", f"[{source}]"]
        return
    name = source.relative_to(ROOT).as_posix()
    tests = [f"tests/{test}.py" for test in PER_PAGE]
    if source.suffix == ".py":
        yield ["ruff", "check", name]
        yield ["ruff", "format", "--check", name]
    else:
        tests.append(name)
    yield [*pytest, *tests, "-k", name]
    if source.parent.name == "answers":
        yield [*pytest, "tests/test_answers.py"]


def write_message(anchor: str) -> Path:
    """Write the page of a message; show what has changed on it."""
    (message,) = (message for message in messages() if message.anchor == anchor)
    page = DOCS / "errors" / f"{anchor}.md"
    page.parent.mkdir(exist_ok=True)
    before = page.read_text(encoding="utf-8") if page.exists() else ""
    text = page_of(message, stored(Store()).get(anchor, {}))
    page.write_text(text, encoding="utf-8")
    if before:
        print(*unified_diff(before.splitlines(), text.splitlines(), lineterm=""), sep="\n")
    return page


def render(source: Path) -> tuple[Path, int]:
    """Build a page; return where it is, and whether Sphinx has warned of anything.

    The page is read anew, as Sphinx warns of what is wrong with one when it reads it.
    """
    name = pages.Page(ROOT, source.relative_to(ROOT).as_posix()).docname
    whole = (BUILT / "html" / "index.html").exists()
    built = BUILT if whole else BUILT / "alone"
    settings: dict[str, Any] = {"execution_pages": source.relative_to(ROOT).as_posix()}
    if not whole:
        conf = Config.read(DOCS, overrides={}, tags=Tags())
        settings |= {
            "extensions": [e for e in conf.extensions if e not in {"error_index", "wheel"}],
            "include_patterns": [f"{name}.*", "index.md"],
            "nitpicky": False,
            "suppress_warnings": ALONE,
        }
    app = Sphinx(
        DOCS,
        DOCS,
        built / "html",
        built / "doctrees",
        "html",
        settings,
        status=None,
        warningiserror=True,
        parallel=os.cpu_count() or 1,
    )
    app.connect("env-get-outdated", lambda *given: [name])
    app.build()
    return built / "html" / f"{name}.html", app.statuscode


def main(name: str, *options: str) -> int:
    """Do all that there is to do for one page; return how many checks failed."""
    source = chosen(name)
    part = f"errors/{source}/" if isinstance(source, str) else source.relative_to(ROOT)
    if pages.main(str(part)):
        return 1
    failed = 0
    for command in checks(source, [*options]):
        status = subprocess.run(command, cwd=ROOT).returncode
        # a page need not be what a test is about, and a message always is
        failed += status not in ({0} if isinstance(source, str) else {0, NOTHING_RAN})
    if failed and isinstance(source, str):
        return failed
    page = write_message(source) if isinstance(source, str) else source
    place, warned = render(page)
    if warned:
        print("Sphinx has warned, and the build of the site takes that for an error")
    print(f"\nlook at {place}", flush=True)
    return failed + warned


if __name__ == "__main__":
    sys.exit(min(main(*sys.argv[1:]), 1))
