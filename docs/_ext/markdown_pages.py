"""A Markdown file beside each page, and ``llms.txt``, for readers that are programs.

What is converted is the page as it is written, so that both show the same executed output.
markdownify does it (https://pypi.org/project/markdownify/: typed, two small dependencies,
releases each year): extensions of Sphinx that write Markdown build all pages a second time
and know none of the nodes that show output here.

``llms.txt`` (https://llmstxt.org) lists the first level of the menu; a page that has others
below it names a list of its own, such as ``errors/llms.txt``, so that no list is long.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urljoin, urlsplit

from bs4 import BeautifulSoup, Tag
from markdownify import ATX, MarkdownConverter
from sphinx import addnodes
from sphinx.application import Sphinx

from discovery import description
from files import write_file

LIST = "llms.txt"
MANY = 100  # pages of a list that has their titles only
KINDS = {
    "Python": "python",
    "default": "python",
    "ipython3": "python",
    "myst-ansi": "text",
    "none": "text",
}
SPAN = re.compile(r"</?span\b[^>]*>")  # most of what is to be read: colours of code
#: What an article has for a browser alone, and neither Markdown nor a book keeps.
ON_SCREEN = (
    "a.headerlink, script, .functions-used, .sphx-glr-download-link-note, .sphx-glr-footer"
)


def setup(app: Sphinx) -> dict[str, Any]:
    """Write a page's Markdown with the page, and the lists at the end."""
    app.connect("html-page-context", write_page, priority=800)
    app.connect("build-finished", write_lists)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def write_page(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object
) -> None:
    """Write one page as Markdown; tell the template where."""
    if doctree is None or app.builder.name != "html":
        return
    context["markdown"] = f"{PurePosixPath(page).name}.md"
    file = Path(app.outdir, f"{page}.md")
    base = context["pageurl"] or ""
    place = f"> {base and f'<{base}> · '}[All pages]({urljoin(base, lists(context))})\n"
    title, _, text = as_markdown(context["body"], base).partition("\n")
    write_file(file, f"{title}\n\n{place}{text}")


def lists(context: dict[str, Any]) -> str:
    """Return where the list of all pages lies, seen from a page."""
    return f"{context['content_root']}{LIST}"


def as_markdown(body: str, base: str = "") -> str:
    """Return the HTML of an article as Markdown; links are whole with `base`."""
    article = BeautifulSoup(SPAN.sub("", body), "html.parser")
    for part in article.select(f"{ON_SCREEN}, form, style"):
        part.decompose()
    for link in article.select("a[href]"):
        link["href"] = urljoin(base, as_text(str(link["href"])))
    text: str = Converter(heading_style=ATX, bullets="-").convert_soup(article)
    return text.strip() + "\n"


class Converter(MarkdownConverter):
    """Converts what articles of this site have beside plain text."""

    def convert_pre(self, element: Tag, text: str, parent_tags: set[str]) -> str:
        """Write a block of code, or of what code shows, between fences."""
        kind = kind_of(element)
        code = element.get_text().strip("\n")
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", code)), default=0))
        return f"\n\n{fence}{kind}\n{code}\n{fence}\n\n"

    def convert_math(self, element: Tag, text: str, parent_tags: set[str]) -> str:
        """Write a formula as its TeX."""
        source = element.find("annotation")
        tex = source.get_text().strip() if source else element.get_text()
        return f"\n\n$$\n{tex}\n$$\n\n" if element.get("display") == "block" else f"${tex}$"

    def convert_svg(self, element: Tag, text: str, parent_tags: set[str]) -> str:
        """Say what a drawing shows."""
        said = element.get("aria-label")
        return f"\n\n*Drawing: {said}*\n\n" if said else ""

    def convert_summary(self, element: Tag, text: str, parent_tags: set[str]) -> str:
        """Write the title of a box that opens."""
        return f"\n\n**{text.strip()}**\n\n"


def as_text(link: str) -> str:
    """Return where a link of a page leads from its Markdown: to that of another page."""
    target = urlsplit(link)
    if target.netloc or not target.path.endswith(".html"):
        return link
    return target._replace(path=target.path.removesuffix(".html") + ".md").geturl()


def kind_of(block: Tag) -> str:
    """Return the language of a block of code."""
    for parent in block.parents:
        for name in parent.get("class") or ():
            if name.startswith("highlight-"):
                kind = name.removeprefix("highlight-")
                return KINDS.get(kind, kind)
    return "text"


def write_lists(app: Sphinx, exception: Exception | None) -> None:
    """Write each list of pages; delete what belongs to pages that are gone."""
    if exception is not None or app.builder.name != "html":
        return
    known = dict(written(app))
    for file in Path(app.outdir).rglob(LIST):
        if file.relative_to(app.outdir).as_posix() not in known:
            file.unlink()
    for name, lines in known.items():
        write_file(Path(app.outdir, name), "\n".join(lines) + "\n")
    for file in Path(app.outdir).rglob("*.md"):
        page = file.relative_to(app.outdir).with_suffix("").as_posix()
        if page not in app.env.found_docs:
            file.unlink()


def written(app: Sphinx) -> Iterator[tuple[str, list[str]]]:
    """Yield the name of each list, and its lines; that of the whole site is the last."""
    home = app.config.root_doc
    lines = [f"# {app.config.project}", f"\n> {description(app, home)}\n"]
    lines.append("Each page is Markdown at its address with .md in the place of .html.")
    for tree in app.env.tocs[home].findall(addnodes.toctree):
        lines.append(f"\n## {tree['caption']}\n")
        for _, name in tree["entries"]:
            lines.append(line(app, name))
            below = list(under(app, name))
            if below:
                part = f"{PurePosixPath(below[0]).parent}/{LIST}"
                yield part, nested(app, name, below)
                lines.append(f"  - [all {len(below)} pages]({at(app, part)})")
    lines.append("\n## More\n")
    lines.append(f"- [errors.json]({at(app, 'errors.json')}): every message as data")
    orphans = (n for n in sorted(app.env.found_docs) if "orphan" in app.env.metadata[n])
    lines += [line(app, name) for name in orphans]
    yield LIST, lines


def nested(app: Sphinx, name: str, below: list[str]) -> list[str]:
    """Return the lines of the list of what is under a page."""
    head = [f"# {app.env.titles[name].astext()}", f"\n> {description(app, name)}\n"]
    return head + [line(app, page, described=len(below) < MANY) for page in below]


def under(app: Sphinx, name: str) -> Iterator[str]:
    """Yield the pages below one, at any depth."""
    for below in app.env.toctree_includes.get(name, []):
        yield below
        yield from under(app, below)


def at(app: Sphinx, path: str) -> str:
    """Return the address of a file of the site, from its root where none is known."""
    return f"{app.config.html_baseurl or '/'}{path}"


def line(app: Sphinx, name: str, *, described: bool = True) -> str:
    """Return the line for one page."""
    title = app.env.titles[name].astext()
    said = f": {description(app, name)}" if described else ""
    return f"- [{title}]({at(app, name)}.md){said}"
