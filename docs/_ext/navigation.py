"""The menu: the parts of the site, and of the part that you are in what is near.

Sphinx would resolve the whole tree of pages anew for each of them, which for some hundred
is most of what a build does, and Furo writes all of it into every page, closed. Here it is
resolved once. A page gets the first level, and below it what leads to the page and stands
beside it. Of a long list, such as that of the error messages, that is the group with the
page in it, which is one ``toctree`` of several, and of a group that is long itself the
neighbours; the page that carries the list shows it by itself.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from html import escape
from itertools import chain
from typing import Any, NamedTuple

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment.adapters.toctree import global_toctree_for_doc
from sphinx.util.osutil import relative_uri

CAPTION = '<p class="caption" role="heading" aria-level="2">{}</p>\n'
LONG = 20
NEIGHBOURS = 6  # on each side


def setup(app: Sphinx) -> dict[str, Any]:
    """Stand between Sphinx's tree and the template that shows it."""
    menu = Menu()
    app.connect("write-started", menu.start)
    app.connect("html-page-context", menu.put, priority=100)
    return {"version": "2", "parallel_read_safe": True, "parallel_write_safe": True}


class Entry(NamedTuple):
    """A page in the tree."""

    uri: str  # from the root of the site
    title: str  # as HTML
    below: list[list[Entry]]  # in groups


class Menu:
    """Keeps the tree while pages are written."""

    def start(self, app: Sphinx, builder: Any) -> None:
        """Resolve the tree, as seen from the home page."""
        self.tree: list[str | list[Entry]] = []  # captions, and what stands under each
        if builder.format != "html":
            return
        first = {
            builder.get_target_uri(toctree["entries"][0][1])
            for page in app.env.toctree_includes
            for toctree in app.env.tocs[page].findall(addnodes.toctree)
            if toctree["entries"]
        }
        tree = global_toctree_for_doc(
            app.env,
            app.config.root_doc,
            builder,
            tags=app.tags,
            maxdepth=-1,
            titles_only=True,
        )
        for part in tree.children if tree is not None else ():
            if isinstance(part, nodes.bullet_list):
                self.tree.append(list(entries(part, builder, first)))
            else:
                self.tree.append(CAPTION.format(escape(part.astext(), quote=False)))

    def put(
        self,
        app: Sphinx,
        page: str,
        template: str,
        context: dict[str, Any],
        doctree: object,
    ) -> None:
        """Give a page its menu, and Furo no tree to draw."""
        here: str = app.builder.get_target_uri(page)
        context["toctree"] = lambda **options: ""
        context["menu"] = "".join(
            part if isinstance(part, str) else written(part, here) for part in self.tree
        )


def entries(pages: Any, builder: Any, first: Container[str]) -> Iterator[Entry]:
    """Yield what stands in a list of the tree; ``first`` are those that begin a group."""
    for item in pages:
        (link,) = item[0].findall(nodes.reference)
        title = "".join(as_html(part, builder) for part in link)
        groups: list[list[Entry]] = []
        for entry in chain.from_iterable(entries(p, builder, first) for p in item[1:]):
            if entry.uri in first or not groups:
                groups.append([])
            groups[-1].append(entry)
        yield Entry(link["refuri"], title, groups)


def as_html(part: nodes.Node, builder: Any) -> str:
    """Return a part of a title as HTML."""
    if isinstance(part, nodes.Text):  # most are, and to render one takes long
        return escape(part, quote=False)
    if isinstance(part, nodes.literal):  # without the classes that a text has in an article
        return f"<code>{escape(part.astext(), quote=False)}</code>"
    fragment: str = builder.render_partial(part)["fragment"]
    return fragment


def written(pages: list[Entry], here: str) -> str:
    """Return a list as HTML, as it is seen from the page at the address ``here``."""
    lines = []
    for page in pages:
        mark = ' aria-current="page"' if page.uri == here else ""
        below = written(shown(page, here), here) if leads_to(page, here) else ""
        address = relative_uri(here, page.uri) or "#"
        lines.append(f'<li><a href="{address}"{mark}>{page.title}</a>{below}</li>\n')
    return f"<ul>\n{''.join(lines)}</ul>\n" if lines else ""


def shown(page: Entry, here: str) -> list[Entry]:
    """Return what a branch that leads to a page shows of what is below it."""
    below = [*chain.from_iterable(page.below)]
    if len(below) < LONG:
        return below
    near = next((group for group in page.below if position(group, here) is not None), [])
    at = position(near, here)
    if at is None or len(near) < LONG:
        return near
    return near[max(0, at - NEIGHBOURS) : at + NEIGHBOURS + 1]


def position(pages: list[Entry], here: str) -> int | None:
    """Tell which of some pages leads to the one at ``here``."""
    return next((at for at, page in enumerate(pages) if leads_to(page, here)), None)


def leads_to(page: Entry, here: str) -> bool:
    """Tell whether a page is the one at ``here``, or above it."""
    return page.uri == here or any(
        leads_to(below, here) for below in chain.from_iterable(page.below)
    )
