"""Learn as a book: ``sphinx-build -b book`` makes an EPUB from the same sources.

Sphinx's builder of EPUB makes the container, the table of contents and the pictures. Here
it takes the pages of the parts of Learn alone, and what a reader of books can show of them:
a box that opens is open, a line to type in is left out, and a link that leads out of the
book goes to the site, where its address is known, and else is text. It is put beside the
folder that the builder writes to: ``docs/_build/learn.epub``.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Set
from html import escape
from pathlib import Path
from typing import Any

from bs4 import BeautifulSoup
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.builders.epub3 import Epub3Builder
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.osutil import relative_uri

from markdown_pages import ON_SCREEN

CAPTION = "Learn"
OUTSIDE = "outside:"
LEFT_OUT = (
    f"{ON_SCREEN}, form.exercise, fieldset, button, input, output, .asked, .used-by, "
    ".sphx-glr-thumbnails"
)
NAMESPACES = {
    "math": "http://www.w3.org/1998/Math/MathML",
    "svg": "http://www.w3.org/2000/svg",
}
KINDS = {"mathml": "math", "svg": "svg"}
UPPER = re.compile(r"\b[a-z]+[A-Z]\w*(?==)")  # of SVG, which the parser writes small
PAGE = """\
<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE html>
<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops" \
lang="en" xml:lang="en">
<head><title>{title}</title>
<link rel="stylesheet" type="text/css" href="{style}"/>{styles}</head>
<body>
{body}
</body>
</html>
"""


def setup(app: Sphinx) -> dict[str, Any]:
    """Add the builder."""
    app.add_builder(Book)
    app.add_post_transform(LeaveOutside)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


class Book(Epub3Builder):
    """Writes the pages of Learn as one EPUB."""

    name = "book"
    epilog = "The book is in %(outdir)s."

    @property
    def pages(self) -> list[str]:
        """The pages of the parts of Learn, in their order."""
        trees = self.env.tocs[self.config.root_doc].findall(addnodes.toctree)
        learn = next(tree for tree in trees if tree.get("caption") == CAPTION)
        parts = [name for _, name in learn["entries"]]
        return [
            page
            for part in parts
            if part in self.env.toctree_includes
            for page in (part, *self.env.toctree_includes[part])
        ]

    def get_outdated_docs(self) -> Iterator[str]:
        """Yield a page, so that there is something to write: the book, as one."""
        yield self.config.root_doc

    def write_documents(self, docnames: Set[str]) -> None:
        """Write the pages of the book, in this process."""
        self.parallel_ok = False
        super().write_documents(frozenset(self.pages))

    def get_relative_uri(self, from_: str, to: str, typ: str | None = None) -> str:
        """Return the address of a page in the book, or a mark and that of another."""
        uri = super().get_relative_uri(from_, to, typ)
        return uri if to in self.pages else f"{OUTSIDE}{to}.html"

    def handle_page(
        self,
        pagename: str,
        addctx: dict[str, Any],
        templatename: str = "page.html",
        *,
        outfilename: Any = None,
        event_arg: Any = None,
    ) -> None:
        """Write one page as XHTML; the book has none of Sphinx's own."""
        if "body" not in addctx:
            return
        file = Path(self.outdir, self.get_target_uri(pagename))
        file.parent.mkdir(parents=True, exist_ok=True)
        title = BeautifulSoup(addctx["title"], "html.parser").get_text()
        style = relative_uri(self.get_target_uri(pagename), "_static/book.css")
        body, styles = xhtml(addctx["body"])
        page = PAGE.format(title=escape(title), style=style, styles=styles, body=body)
        file.write_text(page, encoding="utf-8")

    def copy_static_files(self) -> None:
        """Copy the one style sheet, and the colours of code."""
        self._static_dir.mkdir(parents=True, exist_ok=True)
        style = Path(self.confdir, "_static", "book.css").read_text(encoding="utf-8")
        colours = self.highlighter.get_stylesheet() if self.highlighter else ""
        book = Path(self._static_dir, "book.css")
        book.write_text(f"{style}\n{colours}", encoding="utf-8")

    def copy_download_files(self) -> None:
        """Copy none: a book has nothing to download."""

    def copy_extra_files(self) -> None:
        """Copy none."""

    def get_toc(self) -> None:
        """List the parts, and under each its pages."""
        self.refnodes = [
            {
                "level": 1 if page in self.env.toctree_includes else 2,
                "refuri": self.get_target_uri(page),
                "text": escape(self.env.titles[page].astext()),
            }
            for page in self.pages
        ]

    def build_epub(self) -> None:
        """Put the book beside the folder of its parts."""
        super().build_epub()
        name = f"{self.config.epub_basename}.epub"
        shutil.copy(Path(self.outdir, name), Path(self.outdir).parent / name)

    def build_content(self) -> None:
        """Say in the list of files which have formulas and drawings, as EPUB wants it."""
        super().build_content()
        file = Path(self.outdir, "content.opf")
        text = file.read_text(encoding="utf-8")
        for page in map(self.get_target_uri, self.pages):
            written = Path(self.outdir, page).read_text(encoding="utf-8")
            if kinds := [kind for kind in KINDS if f"<{KINDS[kind]}" in written]:
                entry = f'href="{page}"'
                text = text.replace(entry, f'{entry} properties="{" ".join(kinds)}"', 1)
        file.write_text(text, encoding="utf-8")


class LeaveOutside(SphinxPostTransform):
    """Leads links out of the book to the site, or makes them text."""

    default_priority = 950
    formats = ("html",)

    def run(self, **options: Any) -> None:
        """Go over one page."""
        if self.app.builder.name != Book.name:
            return
        for link in list(self.document.findall(nodes.reference)):
            uri = link.get("refuri", "")
            if not uri.startswith(OUTSIDE):
                continue
            if base := self.config.html_baseurl:
                link["refuri"] = base + uri.removeprefix(OUTSIDE)
            else:
                link.parent.replace(link, nodes.inline("", "", *link.children))


def xhtml(body: str) -> tuple[str, str]:
    """Return the HTML of an article as XHTML for a book, and the styles that it brings."""
    article = BeautifulSoup(body, "html.parser")
    for part in article.select(LEFT_OUT):
        part.decompose()
    for box in article.select("details"):
        box["open"] = "open"
    for form in article.select("form, label"):
        form.name = "div" if form.name == "form" else "span"
        form.attrs = {"class": form.get("class") or ""}
    names = {name.lower(): name for name in UPPER.findall(body)}
    for part in article.find_all(True):
        if part.name in NAMESPACES:
            part["xmlns"] = NAMESPACES[part.name]
        for name in [name for name in part.attrs if name in names]:
            part[names[name]] = part.attrs.pop(name)
        for name in [name for name in part.attrs if name.startswith(("data-", "on"))]:
            del part[name]
        if part.name != "mstyle":
            part.attrs.pop("scriptlevel", None)
    styles = dict.fromkeys(str(part.extract()) for part in article.select("style"))
    return article.decode(formatter="minimal"), "".join(styles)
