"""The figures of a page: their size is known before they load, and one is on its card.

A browser that knows the size of a figure leaves room for it, so that no text moves when
it comes. Social networks show a page with a card, a picture of the shape that none of them
crops: here the page's first figure in the middle of it, or the one picture of the site.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from docutils import nodes
from PIL import Image, ImageOps
from sphinx.application import Sphinx
from sphinx.util.images import get_image_size
from sphinx.writers.html5 import HTML5Translator

from doors import imgsgnode, visit_imgsg_html

WIDTH, HEIGHT, MARGIN = 1200, 630, 30  # of a card, in pixels
CARDS = Path("_static", "cards")


def setup(app: Sphinx) -> dict[str, Any]:
    """Go over the figures of each page; draw the card of those without."""
    app.setup_extension("sphinx_gallery.gen_gallery")
    app.add_node(imgsgnode, override=True, html=(visit_figure, depart_figure))
    app.add_config_value("social_picture", ("", ""), "html", [tuple])  # and what it shows
    app.connect("html-page-context", name_card)
    app.connect("build-finished", finish, priority=600)  # after lost figures are deleted
    return {"version": "2", "parallel_read_safe": True, "parallel_write_safe": True}


def visit_figure(self: HTML5Translator, node: imgsgnode) -> None:
    """Write a figure as sphinx-gallery does, with its size."""
    visit_imgsg_html(self, node)
    if size := get_image_size(source(self.builder.srcdir, node["uri"])):
        sized = f'<img width="{size[0]}" height="{size[1]}" '
        self.body[-1] = self.body[-1].replace("<img ", sized, 1)


def depart_figure(self: HTML5Translator, node: imgsgnode) -> None:
    """Do nothing: a figure is one tag."""


def source(folder: Path, uri: str) -> Path:
    """Return the file of a picture that is named from the root of the sources."""
    return Path(folder, uri.lstrip("/"))


def name_card(
    app: Sphinx,
    page: str,
    template: str,
    context: dict[str, Any],
    doctree: nodes.document | None,
) -> None:
    """Give the template of one page its card; draw it, if the page has a figure."""
    if doctree is None:
        return
    picture, alt = app.config.social_picture
    figures = (figure for figure in doctree.findall(imgsgnode) if figure["srcset"])
    if first := next(figures, None):
        large = first["srcset"].rpartition(", ")[2].split()[0]
        picture, alt = large, first["alt"]
        draw_card(app, source(app.srcdir, large))
    card = CARDS / Path(picture).name
    context["card"] = {"url": app.config.html_baseurl + card.as_posix(), "alt": alt}


def draw_card(app: Sphinx, picture: Path) -> None:
    """Put a picture in the middle of a card."""
    target = app.outdir / CARDS / picture.name
    target.parent.mkdir(parents=True, exist_ok=True)
    with Image.open(picture) as image:
        size = (WIDTH - 2 * MARGIN, HEIGHT - 2 * MARGIN)
        inside = ImageOps.pad(image.convert("RGB"), size, color="white")
    ImageOps.expand(inside, MARGIN, "white").save(target, optimize=True)


def finish(app: Sphinx, exception: Exception | None) -> None:
    """Draw the card of pages without a figure; delete those of lost figures."""
    if exception is None and app.builder.name == "html":
        picture = Path(app.srcdir, app.config.social_picture[0])
        draw_card(app, picture)
        kept = {image.name for image in Path(app.outdir, "_images").glob("*")}
        for card in (app.outdir / CARDS).glob("*"):
            if card.name not in kept | {picture.name}:
                card.unlink()
