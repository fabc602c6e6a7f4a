"""Keep the links on functions in code; drop those on variables.

sphinx-gallery links each variable to its class, too. On a page of this site that is
eighty links to ``torch.Tensor``, every one a stop on the way of the keyboard.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

VARIABLE = re.compile(r'<a class="[^"]*sphx-glr-backref-instance[^"]*"[^>]*>(.*?)</a>')


def setup(app: Sphinx) -> dict[str, Any]:
    """Go over the pages after sphinx-gallery has."""
    app.connect("build-finished", unlink_variables, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def unlink_variables(app: Sphinx, exception: Exception | None) -> None:
    """Take the links from the variables of every gallery page."""
    if exception is None and app.builder.name == "html":
        for page in Path(app.outdir, "auto_examples").rglob("*.html"):
            text = page.read_text(encoding="utf-8")
            if "sphx-glr-backref-instance" in text:
                page.write_text(VARIABLE.sub(r"\1", text), encoding="utf-8")
