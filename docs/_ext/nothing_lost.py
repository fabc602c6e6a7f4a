"""A build that lost pages, or hangs, fails.

Sphinx hands pages out in chunks, each to a process of its own. Where one has failed by the
time that the next is handed out, Sphinx drops the error and the pages with it, and succeeds
without them; where one dies, Sphinx waits for it for ever (docs/upstream.md). Here a page
that was not read, or is older than its source, is an error at the end of the build, and a
build that takes too long ends with what it was doing on standard error.
"""

from __future__ import annotations

import faulthandler
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import SphinxError

SECONDS = 3600  # for a build, which takes a few minutes


def setup(app: Sphinx) -> dict[str, Any]:
    """Look at every page when the build says that it is done."""
    app.connect("builder-inited", start_clock)
    app.connect("build-finished", raise_if_lost, priority=0)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def start_clock(app: Sphinx) -> None:
    """End the process when its time is up; in a process of one chunk nothing does."""
    faulthandler.dump_traceback_later(SECONDS, exit=True)


def raise_if_lost(app: Sphinx, exception: Exception | None) -> None:
    """Stop the clock; raise where a build that found no error has lost pages."""
    faulthandler.cancel_dump_traceback_later()
    if (
        exception is None
        and app.builder.name == "html"
        and (names := sorted(lost_pages(app)))
    ):
        raise SphinxError(f"pages were lost in a process of the build: {', '.join(names)}")


def lost_pages(app: Sphinx) -> Iterator[str]:
    """Yield the pages that were not read, or not written since their sources changed."""
    for name in app.env.found_docs:
        page = Path(app.outdir, app.builder.get_target_uri(name))
        written = page.stat().st_mtime if page.exists() else 0.0
        if name not in app.env.all_docs or written < app.env.doc2path(name).stat().st_mtime:
            yield name
