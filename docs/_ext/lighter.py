"""Publish this site's styles and scripts without comments and indentation.

They are a third of what a first visit loads of them, and no browser reads them. Only lines
that are nothing but a comment go from a script, so that a string stays as it is.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
STRING = re.compile(r"""("[^"]*"|'[^']*')""")
AROUND = re.compile(r" ?([{};,>]) ?")
LINE = re.compile(r"^[ \t]*(?://.*)?\n?|^[ \t]+", re.MULTILINE)
OWN = ("pygments.css",)  # written by Sphinx


def setup(app: Sphinx) -> dict[str, Any]:
    """Go over the files when all have been written."""
    app.connect("build-finished", lighten, priority=900)  # after the theme
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def lighten(app: Sphinx, exception: Exception | None) -> None:
    """Shorten what the static folders of the site hold, and the colours of code."""
    if exception is not None or app.builder.name != "html":
        return
    given = [Path(app.confdir, path) for path in app.config.html_static_path]
    names = {file.name for path in given for file in [path, *path.glob("*")]} | {*OWN}
    shorter = {".css": style, ".js": script}
    for file in Path(app.outdir, "_static").iterdir():
        if file.name in names and file.suffix in shorter:
            text = file.read_text(encoding="utf-8")
            file.write_text(shorter[file.suffix](text), encoding="utf-8")


def style(text: str) -> str:
    """Return a style sheet without comments, and with no more space than it needs."""
    parts = STRING.split(COMMENT.sub("", text))
    parts[::2] = [AROUND.sub(r"\1", re.sub(r"\s+", " ", part)) for part in parts[::2]]
    return "".join(parts).strip() + "\n"


def script(text: str) -> str:
    """Return a script without indentation, empty lines and lines of comment."""
    return LINE.sub("", text)
