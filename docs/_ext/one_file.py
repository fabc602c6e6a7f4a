"""Serve all style sheets as one file, and all scripts as another.

The theme and each extension add files of their own to every page, so that a first visit
waits for twenty requests. Here ``_static/site.css`` and ``_static/site.js`` take their
place: what a page lists, in that order, but for what ``one_file_leave_out`` matches
(shell patterns on file names).
"""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any

from furo import get_pygments_stylesheet  # type: ignore[import-untyped]
from sphinx.application import Sphinx
from sphinx.builders.html._assets import _CascadingStyleSheet, _JavaScript

Asset = _CascadingStyleSheet | _JavaScript
JOINED: dict[str, Asset] = {
    "css_files": _CascadingStyleSheet("_static/site.css"),
    "script_files": _JavaScript("_static/site.js"),
}


def setup(app: Sphinx) -> dict[str, Any]:
    """List the joined files on every page, in the place of their parts."""
    app.add_config_value("one_file_leave_out", [], "html", [list])
    app.connect("html-page-context", OneFile().join, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


class OneFile:
    """The parts of the joined files of one build."""

    def __init__(self) -> None:
        self.parts: dict[str, list[Asset]] = {}

    def join(
        self,
        app: Sphinx,
        page: str,
        template: str,
        context: dict[str, Any],
        doctree: object,
    ) -> None:
        """Write the joined files for the first page; list them on it and on all others.

        By then Sphinx has copied the parts, and has not yet started further processes.
        """
        for key, joined in JOINED.items():
            listed = sorted(context[key], key=lambda asset: asset.priority)
            if key not in self.parts:
                self.parts[key] = [asset for asset in listed if is_local(asset)]
                texts = [content(app, str(part.filename)) for part in self.parts[key]]
                target = Path(app.outdir, joined.filename)
                target.write_text("\n".join(texts), encoding="utf-8")
            more = [asset for asset in listed if asset not in self.parts[key]]
            context[key] = [joined, *more]


def is_local(asset: Asset) -> bool:
    """Return whether the file is one that the site serves and that carries no options."""
    plain = not set(asset.attributes) - {"rel", "type"}
    return plain and str(asset.filename).startswith("_static/")


def content(app: Sphinx, filename: str) -> str:
    """Return the text of one part, with its links seen from ``_static``."""
    part = PurePosixPath(filename)
    if any(fnmatch(part.name, pattern) for pattern in app.config.one_file_leave_out):
        return ""
    if part.name == "pygments.css":  # Furo writes it after the last page
        colours: str = get_pygments_stylesheet()
        return colours
    text = Path(app.outdir, part).read_text(encoding="utf-8")
    folder = part.relative_to("_static").parent
    if part.suffix == ".css":
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
        return re.sub(r"url\((['\"]?)(?!data:|['\"]|/|#)", rf"url(\1{folder}/", text)
    return re.sub(r"^//# sourceMappingURL=.*$", "", text, flags=re.MULTILINE)
