"""Gallery indexes as cards that load one picture, and mini-galleries as plain lists.

sphinx-gallery gives each entry an image file of its own and a link without words. Here
an index page gets a single sheet of all its thumbnails, of which each card shows its
part; a page that draws nothing shows its first lines of code and what they print.
Elsewhere, as in the API, a mini-gallery becomes a list of links.
"""

from __future__ import annotations

import html
import posixpath
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from PIL import Image
from sphinx.application import Sphinx

WIDTH, HEIGHT, COLUMNS = 400, 280, 4  # a thumbnail in pixels, twice its size on the page
CARD = re.compile(
    r'<div class="sphx-glr-thumbcontainer"[^>]*><img alt="" src="(?P<image>[^"]*)"[^>]*>'
    r'\s*<p><a class="reference internal" href="(?P<href>[^"]*)">.*?</a></p>'
    r'\s*<div class="sphx-glr-thumbnail-title">(?P<title>.*?)</div>\s*</div>',
    re.DOTALL,
)
OPENING = '<div class="sphx-glr-thumbnails">'
LISTED = re.compile(rf"{OPENING}((?:\s*<li>.*?</li>)+)\s*</div>")
USED_BY = r'<div class="used-by"><p>Pages that use it</p><ul>\1</ul></div>'
EMPTY = re.compile(
    r"<div id='sg-tag-list' class='sphx-glr-tag-list'></div>"
    rf"|{OPENING}\s*</div>(?=\s*<section)"
)


def setup(app: Sphinx) -> dict[str, Any]:
    """Rewrite every page that holds a gallery."""
    app.connect("html-page-context", rewrite)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def rewrite(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object
) -> None:
    """Replace the cards of sphinx-gallery on one page."""
    body = context.get("body")
    if not body or "sphx-glr-thumb" not in body:
        return
    body = EMPTY.sub("", body)
    if posixpath.basename(page) == "index" and page.startswith("auto_examples/"):
        context["body"] = Index(app, page, context["pathto"]).of(body)
    else:
        body = CARD.sub(r'<li><a href="\g<href>">\g<title></a></li>', body)
        context["body"] = LISTED.sub(USED_BY, body)


class Index:
    """The cards of one gallery index, and the sheet of their thumbnails."""

    def __init__(self, app: Sphinx, page: str, pathto: Any) -> None:
        self.app, self.page = app, page
        self.thumbnails: list[Path] = []
        self.name = f"_static/cards-{page.replace('/', '-')}.webp"
        self.source = pathto(self.name, 1)

    def of(self, body: str) -> str:
        """Return the body with our cards; write the sheet."""
        body = CARD.sub(self.card, body)
        if self.thumbnails:
            rows = -(-len(self.thumbnails) // COLUMNS)
            sheet = Image.new("RGB", (WIDTH * COLUMNS, HEIGHT * rows), "white")
            for number, path in enumerate(self.thumbnails):
                with Image.open(path) as thumbnail:
                    sheet.paste(thumbnail.convert("RGB"), self.corner(number))
            target = Path(self.app.outdir, self.name)
            target.parent.mkdir(parents=True, exist_ok=True)
            sheet.save(target, quality=80, method=6)
        return body

    def corner(self, number: int) -> tuple[int, int]:
        """Return where on the sheet a thumbnail starts."""
        row, column = divmod(number, COLUMNS)
        return column * WIDTH, row * HEIGHT

    def card(self, match: re.Match[str]) -> str:
        """Return one card: what the page shows first, and its title as the link."""
        example = posixpath.normpath(
            posixpath.join(
                posixpath.dirname(self.page), match["href"].removesuffix(".html")
            )
        )
        folder = Path(self.app.srcdir, posixpath.dirname(example), "images", "thumb")
        image = folder / posixpath.basename(match["image"])
        if image.suffix == ".png":
            x, y = self.corner(len(self.thumbnails))
            self.thumbnails.append(image)
            place = f"-{x // 2}px -{y // 2}px"
            face = (
                f'<img alt="" width="{WIDTH // 2}" height="{HEIGHT // 2}"'
                f' src="{self.source}" srcset="{self.source} 2x"'
                f' style="object-position: {place}">'
            )
        else:
            face = f'<pre aria-hidden="true">{html.escape(self.first_lines(example))}</pre>'
        return (
            f'<div class="sphx-glr-thumbcontainer">{face}'
            f'<p><a class="reference internal" href="{match["href"]}">'
            f"{match['title']}</a></p></div>"
        )

    def first_lines(self, example: str) -> str:
        """Return the end of an example's first block of code, and what it prints."""
        blocks = self.app.env.get_doctree(example).findall(nodes.literal_block)
        code, printed = (next(blocks).astext().splitlines() for _ in range(2))
        return "\n".join([*[line for line in code if line][-4:], "", *printed[:4]])
