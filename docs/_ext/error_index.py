"""The error index: a page for each message, written anew when it could have changed.

The pages come from :mod:`error_pages`, which runs the reproducers: that of an entry whose
file has changed, or all when torch or the package has. A message that torch
words in another way is a warning, which ``-W`` turns into a failed build. The directive
``error-list`` lists the pages of one theme.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

logger = logging.getLogger(__name__)
WRITER = Path(__file__).with_name("error_pages.py")
PACKAGE = Path(__file__).parents[2] / "src" / "pullback"
ENTRIES = PACKAGE / "messages"


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive; write the pages before the sources are read."""
    app.add_directive("error-list", ErrorList)
    pages = ErrorPages()
    app.connect("builder-inited", pages.start, priority=90)  # before others are executed
    app.connect("builder-inited", pages.finish, priority=110)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


class ErrorList(SphinxDirective):
    """List the messages of one theme, and put their pages under this one."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the list and a hidden table of contents."""
        from pullback._messages import themes  # with torch, which a build may not need

        (theme,) = self.arguments
        self.env.note_dependency("errors/written.json")  # with each change of an entry
        entries = [f"- {{ref}}`error-{m.anchor}`" for m in themes()[theme]]
        pages = [f"errors/{m.anchor}" for m in themes()[theme]]
        lines = [*entries, "", "```{toctree}", ":hidden:", "", *pages, "```"]
        return self.parse_text_to_nodes("\n".join(lines))


class ErrorPages:
    """Writes the pages whose entries, or the package, torch or the writer, have changed.

    That takes a process of its own, beside those that execute the other pages: what the
    reproducers start and leave behind must not be in this one when it forks.
    """

    def start(self, app: Sphinx) -> None:
        """Begin to write the pages that are not up to date; delete those of no entry."""
        self.folder = Path(app.srcdir, "errors")
        self.folder.mkdir(exist_ok=True)
        self.stamp, self.keys = self.folder / "written.json", keys()
        self.writer: subprocess.Popen[str] | None = None
        written = json.loads(self.stamp.read_text()) if self.stamp.exists() else {}
        before = written.get("keys", {})
        changed = [
            anchor for anchor in self.keys if before.get(anchor) != self.keys[anchor]
        ]
        for page in self.folder.glob("*.md"):
            if page.stem in changed or page.stem not in self.keys:
                page.unlink()
        if before == self.keys:
            app.config["search_messages"] = written["search"]
        else:  # also when an entry has gone: the search is to forget it
            command = [sys.executable, str(WRITER), str(self.folder), *changed]
            self.writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def finish(self, app: Sphinx) -> None:
        """Wait for the pages; warn of those that could not be written."""
        if self.writer is None:
            return
        printed, _ = self.writer.communicate()
        if self.writer.returncode:
            raise ExtensionError("the pages of the error index could not be written")
        wrong, search = json.loads(printed)
        for anchor, reason in wrong.items():
            logger.warning("error index, %s: %s", anchor, reason)
        right = {anchor: key for anchor, key in self.keys.items() if anchor not in wrong}
        self.stamp.write_text(json.dumps({"keys": right, "search": search}, indent=1))
        app.config["search_messages"] = search


def keys() -> dict[str, str]:
    """Return for each message a digest of all that its page depends on."""
    digest = hashlib.sha256(version("torch").encode())
    for file in (WRITER, *sorted(PACKAGE.rglob("*.py"))):
        digest.update(file.read_bytes())
    found = {}
    for file in sorted(ENTRIES.glob("*/*.md")):
        own = digest.copy()
        own.update(file.read_bytes())
        found[file.stem] = own.hexdigest()
    return found
