"""A box that stays closed until it is asked for: ``.. dropdown:: Title``.

Answers to exercises and the checks of a page stand in one. A block of code cannot be
written into a directive of a gallery script, so a dropdown at the end of a block of text
takes in the code that follows it, with what the code prints, up to the next text.

It is HTML's own ``details``: it needs no script and works by keyboard.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.transforms import Transform
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

CODE = (nodes.comment, nodes.container, nodes.image, nodes.literal_block, nodes.raw)


def setup(app: Sphinx) -> dict[str, Any]:
    """Add the directive, and the transform that takes in the code behind it."""
    app.add_node(folded, html=(open_box, close_box), text=(ignore, ignore))
    app.add_node(folded_title, html=(open_title, close_title), text=(ignore, ignore))
    app.add_directive("dropdown", Dropdown)
    app.add_transform(TakeInCode)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


class folded(nodes.General, nodes.Element):  # noqa: N801 (docutils writes nodes so)
    """A closed box; its first child is the title."""


class folded_title(nodes.Part, nodes.TextElement):  # noqa: N801
    """What a closed box shows."""


class Dropdown(SphinxDirective):
    """The directive; its argument is the title."""

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the box with its content."""
        texts, messages = self.state.inline_text(self.arguments[0], self.lineno)
        box = folded("", folded_title(self.arguments[0], "", *texts))
        self.set_source_info(box)
        box += self.parse_content_to_nodes()
        return [box, *messages]


class TakeInCode(Transform):
    """Moves the code that directly follows a box into it."""

    default_priority = 880  # when nothing else looks for blocks of code any more

    def apply(self, **options: Any) -> None:
        """Go over the boxes of one page."""
        for box in list(self.document.findall(folded)):
            if (parent := box.parent) is None:
                continue
            place = parent.index(box) + 1
            while place < len(parent) and is_code(parent[place]):
                node = parent[place]
                parent.remove(node)
                box += node


def is_code(node: nodes.Node) -> bool:
    """Tell whether a node is code or what it shows, and no text of the page.

    What sphinx-gallery writes for a picture is a node of a class that it keeps private;
    it has no children and no text.
    """
    return isinstance(node, CODE) or not (node.children or isinstance(node, nodes.Text))


def open_box(visitor: Any, node: folded) -> None:
    """Begin the box."""
    visitor.body.append(visitor.starttag(node, "details", CLASS="folded"))


def close_box(visitor: Any, node: folded) -> None:
    """End the box."""
    visitor.body.append("</details>\n")


def open_title(visitor: Any, node: folded_title) -> None:
    """Begin the title."""
    visitor.body.append(visitor.starttag(node, "summary", ""))


def close_title(visitor: Any, node: folded_title) -> None:
    """End the title."""
    visitor.body.append("</summary>\n")


def ignore(visitor: Any, node: nodes.Element) -> None:
    """Show the content of a box and nothing else."""
