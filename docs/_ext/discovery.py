"""What leads to a page from outside: descriptions, a sitemap, and a 404 page.

Every page says in its first sentences what it answers; here they become its description
in search engines and on social cards.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sphinx.application import Sphinx

import search_index
from files import write_file


def setup(app: Sphinx) -> dict[str, Any]:
    """Describe each page, and write the file that names all of them."""
    app.connect("html-page-context", describe)
    app.connect("html-collect-pages", not_found)
    app.connect("build-finished", write_sitemap)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def describe(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any
) -> None:
    """Give the template of one page its description."""
    if doctree is not None:
        context["description"] = description(app, page)


def first_sentences(text: str) -> str:
    """Return a paragraph, or as many of its sentences as a card shows."""
    if len(text) <= 200:
        return text
    end = text.rfind(". ", 60, 200) + 1
    return text[:end] if end else f"{text[:200].rsplit(' ', 1)[0]} …"


def not_found(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield the page for addresses that do not exist, at whatever depth."""
    yield "404", {"root": urlsplit(app.config.html_baseurl).path or "/"}, "404.html"


def write_sitemap(app: Sphinx, exception: Exception | None) -> None:
    """Write ``sitemap.xml``, whose addresses have to be whole."""
    if exception is None and app.builder.name == "html":
        file = Path(app.outdir, "sitemap.xml")
        if app.config.html_baseurl:
            write_file(file, "\n".join(sitemap(app)) + "\n")
        else:
            file.unlink(missing_ok=True)


def address(app: Sphinx, name: str) -> str:
    """Return the address of a page on the host of the site."""
    base: str = app.config.html_baseurl
    return base + app.builder.get_target_uri(name)


def sitemap(app: Sphinx) -> Iterator[str]:
    """Yield the lines of the sitemap."""
    yield '<?xml version="1.0" encoding="utf-8"?>'
    yield '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
    for name in sorted(app.env.found_docs):
        yield f"<url><loc>{escape(address(app, name))}</loc></url>"
    yield "</urlset>"


def description(app: Sphinx, name: str) -> str:
    """Return the first sentences of a page."""
    entries = search_index.records_of_pages(app.env)[name]
    first = next((entry["first"] for entry in entries if not entry["anchor"]), "")
    return first_sentences(search_index.titled(app, first))
