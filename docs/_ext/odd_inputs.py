"""The table of the API page that says what every function answers to odd input.

It shows what :mod:`odd_answers` printed when that was executed, as the pages are.
"""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from pages import ODD_ANSWERS, Page, Store

Groups = dict[str, list[str]]  # functions by what they answer, right answers first


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("odd-inputs", OddInputs)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


class OddInputs(SphinxDirective):
    """Write the table, or nothing where the answers are not known."""

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        store = Store(Path(self.env.srcdir).parent)
        page = Page(store.root, ODD_ANSWERS)
        self.env.note_dependency(str(store.file(page)))
        if not (result := store.fresh(page)):
            return []
        return [nodes.raw("", table(result["shown"][0]["stdout"]), format="html")]


def table(printed: str) -> str:
    """Return the table as HTML: a row for each case, to open for the exact words."""
    found = json.loads(printed)
    answers: dict[str, dict[str, Groups]] = found["answers"]
    bodies = []
    for theme, cases in answers.items():
        head = f'<tr><th colspan="2" scope="rowgroup">{theme}</th></tr>'
        rows = "".join(_row(name, groups) for name, groups in cases.items())
        bodies.append(f"<tbody>{head}{rows}</tbody>")
    groups = next(iter(next(iter(answers.values())).values()))
    counts = ", ".join(f"<code>{name}</code> {n}" for name, n in found["calls"].items())
    return (
        f'<table class="pullback odd-inputs"><caption>{sum(map(len, groups.values()))} '
        f"functions, {sum(map(len, answers.values()))} kinds of odd input</caption>"
        f"{''.join(bodies)}</table>"
        f"<p>Each calls f for three numbers this often: {counts}.</p>"
    )


def _row(case: str, groups: Groups) -> str:
    right = len(groups.get("right", ()))
    others = sum(map(len, groups.values())) - right
    verdict = f"{right} right, {others} say why not" if others else "all right"
    row = f'<tr><th scope="row">{case}</th><td>{verdict}</td></tr>'
    if not others:
        return row
    words = "".join(
        f"<dt>{', '.join(names)}</dt><dd>{escape(text)}</dd>"
        for text, names in groups.items()
    )
    summary = "<summary>in their words</summary>"
    return (
        f'{row}<tr><td colspan="2"><details>{summary}<dl>{words}</dl></details></td></tr>'
    )
