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
from pages import ROOT, Store
from pullback._messages import messages

DOCS = ROOT / "docs"
BUILT = DOCS / "_build"
PER_PAGE = [  # these go page by page
    "test_also_asked",
    "test_examples",
    "test_live_pages",
    "test_noise",
    "test_records",
    "test_terms",
]
OF_ALL_PAGES = ["test_bibliography", "test_source_map"]  # these compare pages, in a second
ABOUT = {  # by how their paths begin
    "docs/answers": "test_answers",
    "docs/corrections": "test_corrections",
    "docs/dictionary": "test_dictionary",
    "docs/exercises": "test_exercises",
    "docs/fix/": "test_symptoms",
    "docs/glossary": "test_glossary",
}
PER_MESSAGE = ["test_messages", "test_recognition", "test_watch"]  # and these by anchor
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
    yield from pages.written(ROOT)


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
    if source.suffix == ".py":
        yield ["ruff", "check", name]
        yield ["ruff", "format", "--check", name]
    about = [test for path, test in ABOUT.items() if name.startswith(path)]
    whole = [f"{test}.py" for test in (*OF_ALL_PAGES, *about)]
    tests = [*(f"tests/{test}.py" for test in PER_PAGE), *(f"tests/{w}" for w in whole)]
    own = [name] if source.suffix == ".md" else []  # its doctests
    record = name.replace("/", "-").removesuffix(source.suffix)
    yield [*pytest, *tests, *own, "-k", " or ".join([name, f"[{record}]", *whole])]


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
        failed += subprocess.run(command, cwd=ROOT).returncode != 0
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
