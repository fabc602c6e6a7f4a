"""The tree of pages in the sidebar: made once, short where it is long.

Sphinx would resolve the whole tree anew for each page, which for some hundred pages is most
of what a build does. Here that is done once; a page gets it with its own addresses.

Furo writes all of the tree into every page, closed. A list of a hundred pages, such as that
of the error messages, would weigh more than the text beside it: it stays on the page that
carries it, and a member of it shows its neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any, NamedTuple

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment.adapters.toctree import global_toctree_for_doc
from sphinx.util.osutil import relative_uri

CAPTION = '<p class="caption" role="heading"><span class="caption-text">{}</span></p>'
LONG = 60
NEIGHBOURS = 6  # on each side


def setup(app: Sphinx) -> dict[str, Any]:
    """Stand between Sphinx's tree and Furo, which draws it."""
    sidebar = Sidebar()
    app.connect("write-started", sidebar.start)
    app.connect("html-page-context", sidebar.put, priority=100)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


class Entry(NamedTuple):
    """A page in the tree."""

    uri: str  # from the root of the site
    title: str  # as HTML
    below: list[Entry]


class Sidebar:
    """Keeps the tree while pages are written."""

    def start(self, app: Sphinx, builder: Any) -> None:
        """Resolve the tree, as seen from the home page."""
        self.tree: list[str | list[Entry]] = []
        if builder.format != "html":
            return
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
                self.tree.append(list(entries(part, builder)))
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
        """Give a page the tree with its own addresses."""
        here: str = app.builder.get_target_uri(page)
        context["toctree"] = lambda **options: "\n".join(
            part if isinstance(part, str) else written(part, here) for part in self.tree
        )


def entries(pages: Any, builder: Any) -> Iterator[Entry]:
    """Yield what stands in a list of the tree."""
    for item in pages:
        (link,) = item[0].findall(nodes.reference)
        title = "".join(as_html(part, builder) for part in link)
        below = [entry for part in item[1:] for entry in entries(part, builder)]
        yield Entry(link["refuri"], title, below)


def as_html(part: nodes.Node, builder: Any) -> str:
    """Return a part of a title as HTML."""
    if isinstance(part, nodes.Text):  # most are, and to render one takes long
        return escape(part, quote=False)
    fragment: str = builder.render_partial(part)["fragment"]
    return fragment


def written(pages: Sequence[Entry], here: str, level: int = 1) -> str:
    """Return a list as HTML, as it is seen from the page at the address ``here``."""
    lines = []
    for page in shown(pages, here):
        current = leads_to(page, here)
        below = written(page.below, here, level + 1)
        lines += [
            f'<li class="toctree-l{level}{" current" * current}">',
            f'<a class="{"current " * (page.uri == here)}reference internal" ',
            f'href="{relative_uri(here, page.uri) or "#"}">{page.title}</a>{below}</li>\n',
        ]
    mark = ' class="current"' if any(leads_to(page, here) for page in pages) else ""
    return f"<ul{mark}>\n{''.join(lines)}</ul>\n" if lines else ""


def shown(pages: Sequence[Entry], here: str) -> Sequence[Entry]:
    """Leave out most of a long list."""
    if len(pages) < LONG:
        return pages
    at = next((i for i, page in enumerate(pages) if page.uri == here), None)
    return [] if at is None else pages[max(0, at - NEIGHBOURS) : at + NEIGHBOURS + 1]


def leads_to(page: Entry, here: str) -> bool:
    """Tell whether a page is the one at ``here``, or above it."""
    return page.uri == here or any(leads_to(below, here) for below in page.below)
