"""The error index: a page for each message, written anew when it could have changed.

The pages come from :mod:`error_pages`, which runs the reproducers. A message that torch
words in another way is a warning, which ``-W`` turns into a failed build. The directive
``error-list`` lists the pages of one theme.
"""

from __future__ import annotations

import hashlib
import json
import shutil
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
        from pullback._messages import THEMES  # with torch, which a build may not need

        for file in PACKAGE.glob("_messages/*.py"):  # with a new message, read this again
            self.env.note_dependency(str(file))
        (theme,) = (t for t in THEMES if t.name == self.arguments[0])
        entries = [f"- {{ref}}`error-{m.anchor}`" for m in theme.messages]
        pages = [f"errors/{m.anchor}" for m in theme.messages]
        lines = [*entries, "", "```{toctree}", ":hidden:", "", *pages, "```"]
        return self.parse_text_to_nodes("\n".join(lines))


class ErrorPages:
    """Writes the pages when the package, torch or the writer has changed.

    That takes a process of its own, beside those that execute the other pages: what the
    reproducers start and leave behind must not be in this one when it forks.
    """

    def start(self, app: Sphinx) -> None:
        """Begin to write the pages, if they are not up to date."""
        self.folder = Path(app.srcdir, "errors")
        self.stamp, self.key = self.folder / "written.json", key()
        self.writer: subprocess.Popen[str] | None = None
        written = json.loads(self.stamp.read_text()) if self.stamp.exists() else {}
        if written.get("key") == self.key:
            tell_search(app, written["patterns"])
        else:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir()
            command = [sys.executable, str(WRITER), str(self.folder)]
            self.writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def finish(self, app: Sphinx) -> None:
        """Wait for the pages; warn of those that could not be written."""
        if self.writer is None:
            return
        printed, _ = self.writer.communicate()
        if self.writer.returncode:
            raise ExtensionError("the pages of the error index could not be written")
        wrong, patterns = json.loads(printed)
        for anchor, reason in wrong.items():
            logger.warning("error index, %s: %s", anchor, reason)
        if not wrong:
            written = {"key": self.key, "patterns": patterns}
            self.stamp.write_text(json.dumps(written, indent=1))
        tell_search(app, patterns)


def key() -> str:
    """Return a digest of all that the pages depend on."""
    digest = hashlib.sha256(version("torch").encode())
    for file in (WRITER, *sorted(PACKAGE.rglob("*.py"))):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def tell_search(app: Sphinx, patterns: dict[str, list[str]]) -> None:
    """Have the search lead from a pasted message to its page (``search_index.py``)."""
    pages = {f"errors/{anchor}": found for anchor, found in patterns.items()}
    app.config["search_messages"] = pages
