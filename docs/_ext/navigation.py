"""Keep long lists of pages out of the sidebar of all other pages.

Furo writes the whole tree of pages into every page, closed. A list of a hundred pages,
such as that of the error messages, would weigh more than the text beside it; it stays on
the page that carries it and in the sidebars of its own members.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

LONG = 30
# An entry without sublists, and not on the way to the current page (a class of its own).
ENTRY = r'\s*<li class="toctree-l\d"><a [^>]*>(?:(?!</a>|<ul).)*</a></li>'
CLOSED = re.compile(rf"<ul>(?:{ENTRY}){{{LONG},}}\s*</ul>")


def setup(app: Sphinx) -> dict[str, Any]:
    """Stand between Sphinx's tree and Furo, which draws it."""
    app.connect("html-page-context", shorten, priority=100)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def shorten(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object
) -> None:
    """Leave the long closed lists out of the tree of one page."""
    whole = context["toctree"]
    context["toctree"] = lambda **options: CLOSED.sub("", whole(**options))
