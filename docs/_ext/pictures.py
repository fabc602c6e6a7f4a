"""The figures of a page: their size is known before they load, and one is on its card.

A browser that knows the size of a figure leaves room for it, so that no text moves when
it comes. Social networks show a page with a card, a picture of the shape that none of them
crops: here the page's first figure in the middle of it, or the one picture of the site.
"""

from __future__ import annotations

import posixpath
import re
from html import unescape
from pathlib import Path
from typing import Any

from PIL import Image, ImageOps
from sphinx.application import Sphinx

FIGURE = re.compile(
    r'<img (?=src="(?P<source>[^"]+\.png)" srcset="[^"]+, (?P<large>[^" ]+) 2.00x"'
    r' alt="(?P<alt>[^"]*)" class = "sphx-glr-single-img")'
)
WIDTH, HEIGHT, MARGIN = 1200, 630, 30  # of a card, in pixels
CARDS = Path("_static", "cards")


def setup(app: Sphinx) -> dict[str, Any]:
    """Go over the figures of each page; draw the card of those without."""
    app.add_config_value("social_picture", ("", ""), "html", [tuple])  # and what it shows
    app.connect("html-page-context", go_over)
    app.connect("build-finished", finish, priority=600)  # after lost figures are deleted
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def go_over(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any
) -> None:
    """Give the figures of one page their sizes, and its template a card."""
    if doctree is None:
        return

    def published(picture: str) -> Path:
        return Path(app.outdir, "_images", posixpath.basename(picture))

    def sized(match: re.Match[str]) -> str:
        with Image.open(published(match["source"])) as figure:
            return f'<img width="{figure.width}" height="{figure.height}" '

    picture, alt = app.config.social_picture
    if first := FIGURE.search(context["body"]):
        picture, alt = first["large"], unescape(first["alt"])
        draw_card(app, published(picture))
        context["body"] = FIGURE.sub(sized, context["body"])
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
