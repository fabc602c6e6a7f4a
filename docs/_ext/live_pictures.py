"""Give a page with live pictures (:func:`pullback.live`) and walks their scripts, once.

In a notebook each picture brings its script along. On a page of the site it is a file of
its own, so that a picture is data, which also a strict content security policy allows.
"""

from __future__ import annotations

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


def setup(app: Sphinx) -> dict[str, Any]:
    """Go over the pictures of each page."""
    app.add_transform(LeaveScripts)
    app.connect("html-page-context", add_script)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


class LeaveScripts(SphinxTransform):
    """Takes the script out of each picture."""

    default_priority = 890

    def apply(self, **options: Any) -> None:
        """Go over the HTML of one page."""
        for node in list(self.document.findall(nodes.raw)):
            text = bare = node.astext()
            if any(mark in text for mark, _, _ in SCRIPTS):
                for _, _, brought in SCRIPTS:
                    bare = bare.replace(brought, "")
                assert "<script" not in bare, "the script of a picture is not what it was"
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
