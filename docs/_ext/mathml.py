"""Render mathematics to MathML while the site is built.

The pages then need no script, no font server and no network to show a formula, and
screen readers can speak it. A formula that does not convert, or that has a character which
the site's font lacks, is a warning, which ``-W`` turns into a failed build.

A browser may break a line between a formula and the comma after it, as beside a picture;
the punctuation at an inline formula is kept with it.

The conversion is math-core's (https://pypi.org/project/math-core/).
"""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from math_core import LatexError, LatexToMathML
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

logger = logging.getLogger(__name__)
converter = LatexToMathML(annotation=True)
FONTS = Path(__file__).parents[1] / "_static" / "fonts"
OPENS, CLOSES = re.compile(r"[(\[“]+$"), re.compile(r"[,.;:!?)\]”’'-]+")
SERVED = {
    character
    for file in ("common.txt", "rare.txt")
    for character in FONTS.joinpath(file).read_text(encoding="utf-8")
}


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer under the name ``mathml``."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_display, None))
    app.add_post_transform(Punctuation)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


class Punctuation(SphinxPostTransform):
    """Puts an inline formula and the punctuation that it touches into one node."""

    default_priority = 900
    formats = ("html",)

    def run(self, **options: Any) -> None:
        """Go over the page."""
        for formula in list(self.document.findall(nodes.math)):
            parent = formula.parent
            at = parent.index(formula)
            held: list[nodes.Node] = [formula]
            before, after = parent[max(at - 1, 0)], parent[min(at + 1, len(parent) - 1)]
            if isinstance(before, nodes.Text) and (found := OPENS.search(before)):
                parent[at - 1] = nodes.Text(before[: found.start()])
                held.insert(0, nodes.Text(found[0]))
            if isinstance(after, nodes.Text) and (found := CLOSES.match(after)):
                parent[at + 1] = nodes.Text(after[found.end() :])
                held.append(nodes.Text(found[0]))
            if held[1:]:
                parent[at] = nodes.inline("", "", *held, classes=["one-line"])


def to_mathml(tex: str, *, display: bool, node: nodes.Node | None = None) -> str:
    """Return ``tex`` as a ``<math>`` element, or the source after a warning."""
    try:
        formula = converter.convert_with_local_state(tex, displaystyle=display)
    except LatexError as error:
        logger.warning("formula %r does not convert: %s", tex, error, location=node)
        return f"<code>{nodes.Text(tex).astext()}</code>"
    shown = re.sub(r"<annotation.*?</annotation>|<[^>]*>", "", formula)
    if lacking := {c for c in html.unescape(shown) if not c.isspace()} - SERVED:
        what = " ".join(sorted(lacking))
        logger.warning("formula %r: the math font lacks %s", tex, what, location=node)
    return formula


def visit_inline(self: HTML5Translator, node: nodes.math) -> None:
    """Write an inline formula."""
    tex = to_mathml(node.astext(), display=False, node=node)
    self.body.append(f'<span class="math notranslate">{tex}</span>')
    raise nodes.SkipNode


def visit_display(self: HTML5Translator, node: nodes.math_block) -> None:
    """Write a displayed formula, with its number when it carries a label."""
    tex = node.astext()
    if "\\\\" in tex and "\\begin{" not in tex:
        tex = rf"\begin{{aligned}}{tex}\end{{aligned}}"
    opening = self.starttag(node, "div", CLASS="math notranslate", tabindex="0")
    self.body.append(opening)
    if number := node.get("number"):
        self.body.append(f'<span class="eqno">({number})</span>')
    self.body.append(to_mathml(tex, display=True, node=node))
    self.body.append("</div>\n")
    raise nodes.SkipNode
