"""The error index: a page for each message, with what its code shows today.

The code has run (:mod:`execution`) when the pages are written (:mod:`error_pages`). A
message that torch words in another way is a warning, which ``-W`` turns into a failed
build. The directive ``error-list`` lists the pages of one theme. ``errors.json``
has the messages as data.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from error_pages import Pieces, for_search, page_of, stored
from files import write_file
from pages import Store
from pullback._messages import Message, messages, themes

logger = logging.getLogger(__name__)
LISTS = "lists.json"  # the pages of each theme, in their order


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive; write the pages before the sources are read."""
    app.add_directive("error-list", ErrorList)
    app.connect("builder-inited", write_pages, priority=110)
    app.connect("build-finished", write_data)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


class ErrorList(SphinxDirective):
    """List the messages of one theme, and put their pages under this one."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the list and a hidden table of contents."""
        (theme,) = self.arguments
        self.env.note_dependency(f"errors/{LISTS}")
        anchors = [message.anchor for message in themes()[theme]]
        entries = [f"- {{ref}}`error-{anchor}`" for anchor in anchors]
        pages = [f"errors/{anchor}" for anchor in anchors]
        lines = [*entries, "", "```{toctree}", ":hidden:", "", *pages, "```"]
        return self.parse_text_to_nodes("\n".join(lines))


def write_pages(app: Sphinx) -> None:
    """Write the pages that are not there as they should be; delete all others.

    Warn of those whose code does not show what their entry says.
    """
    shown = stored(Store(Path(app.confdir).parent))
    lists = {theme: [m.anchor for m in found] for theme, found in themes().items()}
    texts = {LISTS: json.dumps(lists)}
    for message in messages():
        try:
            texts[f"{message.anchor}.md"] = page_of(message, shown.get(message.anchor, {}))
        except AssertionError as error:
            logger.warning("error index, %s: %s", message.anchor, error)
    folder = Path(app.srcdir, "errors")
    for name, text in texts.items():
        write_file(folder / name, text)
    for file in folder.iterdir():
        if file.name not in texts:
            file.unlink()
    app.config["search_messages"] = for_search()


ABOUT = """\
Messages and warnings of PyTorch's autograd. `id` stays; `page` and `markdown` are below
the root of the site. `patterns` are regular expressions of Python, of which one is found
in every wording of the message; a trap that raises nothing has none. `cause` says why it
is raised, `fix` what to do, `causes` the sign of each of several causes. `raises` is code
that raised the message, `works` the same task done right, both run with the releases in
`seen`; a message that takes another machine, library or release was not run, and has
none. `older` are other wordings. `mechanical` is true where there is one cause and one
way to mend it, so that no choice has to be made."""


def write_data(app: Sphinx, exception: Exception | None) -> None:
    """Write what is known of each message as data."""
    if exception is not None or app.builder.name != "html":
        return
    ran = stored(Store(Path(app.confdir).parent))
    known = [as_data(message, ran.get(message.anchor, {})) for message in messages()]
    text = json.dumps({"about": ABOUT, "messages": known}, ensure_ascii=False, indent=1)
    write_file(Path(app.outdir, "errors.json"), text + "\n")


def as_data(message: Message, pieces: Pieces) -> dict[str, Any]:
    """Return what is known of one message, and whether it ran here."""
    reproduced = [f"torch {version('torch').partition('+')[0]}"] if pieces else []
    fix = message.advice({})
    ways = [line for line in fix.splitlines() if line.startswith("|")][2:]
    return {
        "id": message.anchor,
        "page": message.page,
        "markdown": message.page.removesuffix("html") + "md",
        "title": message.title,
        "kinds": message.kinds,
        "patterns": message.patterns,
        "cause": message.why,
        "fix": fix,
        "causes": message.tell,
        "raises": message.broken,
        "works": message.fixed,
        "seen": reproduced,
        "older": message.older,
        "mechanical": len(message.tell) < 2 and len(ways) < 2,
        "sources": message.source,
    }
