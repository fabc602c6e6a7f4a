"""Keep long lists of pages out of the sidebar.

Furo writes the whole tree of pages into every page, closed. A list of a hundred pages,
such as that of the error messages, would weigh more than the text beside it: it stays on
the page that carries it, and a member of it shows its neighbours.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

LONG = 60
NEIGHBOURS = 6  # on each side
ENTRY = r'\s*<li class="toctree-l\d[^"]*"><a [^>]*>(?:(?!</a>|<ul).)*</a></li>'
LIST = re.compile(rf"(<ul[^>]*>)((?:{ENTRY}){{{LONG},}})\s*</ul>")


def setup(app: Sphinx) -> dict[str, Any]:
    """Stand between Sphinx's tree and Furo, which draws it."""
    app.connect("html-page-context", shorten, priority=100)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def shorten(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object
) -> None:
    """Leave most of each long list out of the tree of one page."""
    whole = context["toctree"]
    context["toctree"] = lambda **options: LIST.sub(_near, whole(**options))


def _near(found: re.Match[str]) -> str:
    """Return the current entry of a list and its neighbours; nothing if none is current."""
    entries = re.findall(ENTRY, found[2])
    here = [number for number, entry in enumerate(entries) if " current" in entry]
    if not here:
        return ""
    kept = entries[max(0, here[0] - NEIGHBOURS) : here[0] + NEIGHBOURS + 1]
    return f"{found[1]}{''.join(kept)}\n</ul>"
