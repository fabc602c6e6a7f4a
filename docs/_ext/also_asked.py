"""Other wordings of the question that an entry answers: ``:::{asked}``.

Its content is a list, an item for each wording as people type it. The page shows them in a
small box that stays closed; :mod:`search_index` finds the entry by them as by its heading.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from folded import close_box, folded_title, ignore, open_box

TITLE = "Also asked as"


def setup(app: Sphinx) -> dict[str, Any]:
    """Add the directive; the title of its box is a node of :mod:`folded`."""
    app.setup_extension("folded")
    app.add_node(also_asked, html=(open_box, close_box), text=(ignore, ignore))
    app.add_directive("asked", Asked)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


class also_asked(nodes.General, nodes.Element):  # noqa: N801 (docutils writes nodes so)
    """A closed box with a list of wordings."""


class Asked(SphinxDirective):
    """The directive; its content is a list."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the box with the list."""
        self.assert_has_content()
        content = self.parse_content_to_nodes()
        if [type(node) for node in content] != [nodes.bullet_list]:
            raise self.error("asked: the content must be one list, an item a wording")
        box = also_asked("", folded_title(TITLE, TITLE), *content, classes=["asked"])
        self.set_source_info(box)
        return [box]


def wordings(box: also_asked) -> Iterator[str]:
    """Yield the wordings in a box as plain text."""
    for item in box.findall(nodes.list_item):
        yield " ".join(item.astext().split())
