"""Fix: what the page of a symptom asks stands above it, each question a link.

Whoever knows the answer of a question goes to the one that fits, without reading the rest.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

FOLDER = "fix/"
FEW = 3  # questions that one sees without a list


def setup(app: Sphinx) -> dict[str, Any]:
    """Put the list into a page that has been read, after the search has noted its words."""
    app.connect("doctree-read", list_questions, priority=950)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def list_questions(app: Sphinx, doctree: nodes.document) -> None:
    """Put a list of the sections of a page below its first paragraph."""
    if not app.env.current_document.docname.startswith(FOLDER):
        return
    page = next(doctree.findall(nodes.section))
    questions = [part for part in page.children if isinstance(part, nodes.section)]
    first = next((p for p in page.children if isinstance(p, nodes.paragraph)), None)
    if len(questions) < FEW or first is None:
        return
    assert not first.astext().endswith(":"), (
        f"{app.env.current_document.docname}: code follows"
    )
    found = nodes.bullet_list(classes=["questions"])
    for question in questions:
        link = nodes.reference("", "", refid=question["ids"][0], internal=True)
        link += [node.deepcopy() for node in question[0].children]
        found += nodes.list_item("", nodes.paragraph("", "", link))
    page.insert(page.index(first) + 1, found)
