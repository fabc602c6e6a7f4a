"""Leave files of the theme and of extensions out of pages that do not need them.

Each of them adds style sheets and scripts to every page, for which a first visit waits.
``html_leave_out`` lists shell patterns of file names. ``html_only_on`` has a name for each
file that few pages need, and shell patterns of the names of these.
"""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import PurePosixPath
from typing import Any

from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, Any]:
    """Go over what each page lists, after all others have added to it."""
    app.add_config_value("html_leave_out", [], "html", [list])
    app.add_config_value("html_only_on", {}, "html", [dict])
    app.connect("html-page-context", leave_out, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def leave_out(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object
) -> None:
    """Shorten the two lists of one page."""
    for key in ("css_files", "script_files"):
        context[key] = [
            file for file in context[key] if needed(app, page, str(file.filename))
        ]


def needed(app: Sphinx, page: str, file: str) -> bool:
    """Tell whether no pattern matches the name of a file, or one of its own the page."""
    name = PurePosixPath(file).name
    if pages := app.config.html_only_on.get(name):
        return any(fnmatch(page, pattern) for pattern in pages)
    return not any(fnmatch(name, pattern) for pattern in app.config.html_leave_out)
