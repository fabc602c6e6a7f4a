"""Gallery indexes as cards that load one picture, and mini-galleries as plain lists.

sphinx-gallery gives each entry an image file of its own and a link without words. Here
an index page gets a single sheet of all its thumbnails, of which each card shows its
part; a page that draws nothing shows its first lines of code and what they print.
Elsewhere, as in the API, a mini-gallery becomes a list of links.
"""

from __future__ import annotations

import hashlib
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
        context["body"] = Index(app, page, context["pathto"], body).rewritten()
    else:
        body = CARD.sub(r'<li><a href="\g<href>">\g<title></a></li>', body)
        context["body"] = LISTED.sub(USED_BY, body)


class Index:
    """The cards of one gallery index, and the sheet of their thumbnails."""

    def __init__(self, app: Sphinx, page: str, pathto: Any, body: str) -> None:
        self.app, self.page, self.body = app, page, body
        images = [self.image(card) for card in CARD.finditer(body)]
        self.thumbnails = [image for image in images if image.suffix == ".png"]
        # named after what it shows: to draw it takes longer than all else on the page
        shown = hashlib.sha256(Path(__file__).read_bytes())
        for thumbnail in self.thumbnails:
            shown.update(thumbnail.read_bytes())
        self.start = f"_static/cards-{page.replace('/', '-')}-"
        self.sheet = f"{self.start}{shown.hexdigest()[:8]}.webp"
        self.source = pathto(self.sheet, 1)

    def rewritten(self) -> str:
        """Return the body with our cards; write the sheet, if it is not there."""
        target = Path(self.app.outdir, self.sheet)
        for former in Path(self.app.outdir).glob(f"{self.start}????????.webp"):
            if former != target:
                former.unlink()
        if self.thumbnails and not target.exists():
            rows = -(-len(self.thumbnails) // COLUMNS)
            sheet = Image.new("RGB", (WIDTH * COLUMNS, HEIGHT * rows), "white")
            for number, path in enumerate(self.thumbnails):
                with Image.open(path) as thumbnail:
                    sheet.paste(thumbnail.convert("RGB"), self.corner(number))
            target.parent.mkdir(parents=True, exist_ok=True)
            sheet.save(target, quality=80, method=6)
        return CARD.sub(self.card, self.body)

    def corner(self, number: int) -> tuple[int, int]:
        """Return where on the sheet a thumbnail starts."""
        row, column = divmod(number, COLUMNS)
        return column * WIDTH, row * HEIGHT

    def card(self, match: re.Match[str]) -> str:
        """Return one card: what the page shows first, and its title as the link."""
        image = self.image(match)
        if image.suffix == ".png":
            x, y = self.corner(self.thumbnails.index(image))
            place = f"-{x // 2}px -{y // 2}px"
            face = (
                f'<img alt="" width="{WIDTH // 2}" height="{HEIGHT // 2}"'
                f' src="{self.source}" srcset="{self.source} 2x"'
                f' style="object-position: {place}">'
            )
        else:
            lines = html.escape(self.first_lines(self.example(match)))
            face = f'<pre aria-hidden="true">{lines}</pre>'
        return (
            f'<div class="sphx-glr-thumbcontainer">{face}'
            f'<p><a class="reference internal" href="{match["href"]}">'
            f"{match['title']}</a></p></div>"
        )

    def example(self, match: re.Match[str]) -> str:
        """Return the name of the page that a card leads to."""
        href = match["href"].removesuffix(".html")
        return posixpath.normpath(posixpath.join(posixpath.dirname(self.page), href))

    def image(self, match: re.Match[str]) -> Path:
        """Return the thumbnail of a card; sphinx-gallery's own is not a PNG."""
        folder = posixpath.dirname(self.example(match))
        name = posixpath.basename(match["image"])
        return Path(self.app.srcdir, folder, "images", "thumb", name)

    def first_lines(self, example: str) -> str:
        """Return the end of an example's first block of code, and what it prints."""
        blocks = self.app.env.get_doctree(example).findall(nodes.literal_block)
        code, printed = (next(blocks).astext().splitlines() for _ in range(2))
        return "\n".join([*[line for line in code if line][-4:], "", *printed[:4]])
