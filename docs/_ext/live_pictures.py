"""Give a page with live pictures (:func:`pullback.live`) and walks their scripts, once.

In a notebook each picture brings its script and its style along. On a page of the site the
script is a file of its own, so that a picture is data, which also a content security policy
of ``script-src 'self'`` allows, and the first picture or drawing brings the style for those
after it. Its shapes have styles of their own, too: a policy has to allow
``style-src 'unsafe-inline'``, as without it the fields do not stand in their cells.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

from pullback import _live, _steps

#: What shows that a picture needs a script, the file that has it, and what it brings.
SCRIPTS = (
    ('class="pb-live"', "live.js", f"<script>{_live.script()}</script>"),
    ('class="pb-steps"', "steps.js", f"<script>{_steps.script()}</script>"),
)
SHEET = re.compile("<style>[^<]*</style>")  # of a picture or a drawing


def setup(app: Sphinx) -> dict[str, Any]:
    """Go over the pictures of each page."""
    app.add_transform(BringOnce)
    app.connect("html-page-context", add_script)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def first(text: str, said: set[str]) -> str:
    """Return a text if it has not been said, and note that it has."""
    new = text not in said
    said.add(text)
    return text if new else ""


class BringOnce(SphinxTransform):
    """Takes the script out of each picture, and a style that stands before it."""

    default_priority = 890

    def apply(self, **options: Any) -> None:
        """Go over the HTML of one page."""
        sheets: set[str] = set()
        for node in list(self.document.findall(nodes.raw)):
            text = bare = node.astext()
            if any(mark in text for mark, _, _ in SCRIPTS):
                for _, _, brought in SCRIPTS:
                    bare = bare.replace(brought, "")
                assert "<script" not in bare, "the script of a picture is not what it was"
            bare = SHEET.sub(lambda sheet: first(sheet[0], sheets), bare)
            if bare != text:
                node.replace_self(nodes.raw(bare, bare, **node.attributes))


def add_script(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any
) -> None:
    """Have a page load the scripts of its pictures."""
    if doctree is not None:
        texts = [node.astext() for node in doctree.findall(nodes.raw)]
        for mark, file, _ in SCRIPTS:
            if any(mark in text for text in texts):
                app.add_js_file(file, loading_method="defer")
