"""Gallery indexes as cards whose titles are links, and mini-galleries as plain lists.

sphinx-gallery gives each entry a picture and a link without words. Here an entry of an
index is its picture, if the page draws one, which loads when it comes into sight, and the
title that leads to the page. A page without such a picture, but with a drawing of
:mod:`pullback.draw`, lends its first one: it is SVG, and so sharp on every screen, and has
the colours of the page around it. Elsewhere, as in the API, a mini-gallery is a list of
links.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any, TypeGuard

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.transforms.post_transforms import SphinxPostTransform

from pages import GALLERY

OPENING, CLOSING = "thumbnail-parent-div-open", "thumbnail-parent-div-close"
WIDTH, HEIGHT = "200", "140"  # of half the pixels, which are for screens of twice as many
DEFAULT = ".svg"  # the thumbnail of pages that draw nothing
DRAWING = re.compile(r'<svg class="pb-draw".*?</svg>', re.DOTALL)
TOLD = re.compile(r' role="img" aria-label="[^"]*"')


def setup(app: Sphinx) -> dict[str, Any]:
    """Go over each page that is read."""
    app.add_transform(Cards)
    app.add_post_transform(Drawings)
    return {
        "version": "3",
        "env_version": 2,
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }


class Cards(SphinxTransform):
    """Replaces what sphinx-gallery writes between two comments, and raw HTML around it."""

    default_priority = 500

    def apply(self, **options: Any) -> None:
        """Replace each gallery of one page."""
        for raw in list(self.document.findall(nodes.raw)):
            if "sg-tag-list" in raw.astext():  # for tags, which no page has
                raw.parent.remove(raw)
        for opening in list(self.document.findall(is_opening)):
            parent, start = opening.parent, opening.parent.index(opening)
            end = start
            while parent[end].astext() != CLOSING:
                end += 1
            entries = [entry for entry in parent[start:end] if is_entry(entry)]
            here = self.env.current_document.docname
            index = here.startswith(f"{GALLERY}/") and here.endswith("index")
            shown = cards(entries) if index else links(entries)
            parent[start - 1 : end + 2] = [shown] if entries else []  # with their <div>


class Drawings(SphinxPostTransform):
    """Puts the first drawing of its page on a card without a picture.

    All pages have been read by then. Sphinx writes an index anew when one of the pages of
    its toctree has changed.
    """

    default_priority = 500
    formats = ("html",)

    def run(self, **options: Any) -> None:
        """Go over the cards of one page."""
        for card in list(self.document.findall(nodes.container)):
            page = card.attributes.pop("draws", None)
            if page and (drawing := first_drawing(self.env.get_doctree(page))):
                card.insert(0, nodes.raw("", drawing, format="html"))


def first_drawing(page: nodes.document) -> str | None:
    """Return a page's first drawing; its card has words, so it is left to the eye."""
    drawn = (DRAWING.search(raw.astext()) for raw in page.findall(nodes.raw))
    first = next(filter(None, drawn), None)
    return first and TOLD.sub(' aria-hidden="true"', first[0], count=1)


def is_opening(node: nodes.Node) -> bool:
    """Tell whether a gallery starts here."""
    return isinstance(node, nodes.comment) and node.astext() == OPENING


def is_entry(node: nodes.Node) -> TypeGuard[addnodes.only]:
    """Tell whether a node holds the picture and the link of an entry."""
    return isinstance(node, addnodes.only) and node["expr"] == "html"


def cards(entries: list[addnodes.only]) -> nodes.Element:
    """Return a card for each entry: its picture, if there is one, and its link."""
    shown = nodes.container(classes=["sphx-glr-thumbnails"])
    for entry in entries:
        card = nodes.container(classes=["sphx-glr-thumbcontainer"])
        for image in entry.findall(nodes.image):
            if PurePosixPath(image["uri"]).suffix != DEFAULT:
                image.attributes.update(width=WIDTH, height=HEIGHT, loading="lazy")
                image["classes"].append("no-scaled-link")  # the title is the link
                card += image.deepcopy()
        if not card.children:
            (link,) = entry.findall(addnodes.pending_xref)
            card["draws"] = link["reftarget"].lstrip("/")
        card += linked(entry)
        shown += card
    return shown


def links(entries: list[addnodes.only]) -> nodes.Element:
    """Return a list of the links of all entries."""
    items = [nodes.list_item("", linked(entry)) for entry in entries]
    said = nodes.paragraph("", "Pages that use it")
    return nodes.container("", said, nodes.bullet_list("", *items), classes=["used-by"])


def linked(entry: addnodes.only) -> nodes.paragraph:
    """Return the link of an entry, which Sphinx fills with the title of the page."""
    (link,) = entry.findall(addnodes.pending_xref)
    return nodes.paragraph("", "", link)
