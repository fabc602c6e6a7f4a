"""Formulas (docs/_ext/mathml.py)."""

import re

import pytest
from docutils import nodes
from docutils.utils import new_document

import mathml


@pytest.mark.parametrize(
    ("tex", "warned"),
    [
        (r"v^\top J=\hat x", []),
        (r"\aleph", [r"formula '\\aleph': the math font lacks ℵ"]),
        (r"\nosuchcommand", [r"formula '\\nosuchcommand' does not convert"]),
    ],
)
def test_a_formula_that_cannot_be_shown_is_a_warning(monkeypatch, tex, warned):
    said = []
    monkeypatch.setattr(
        mathml.logger, "warning", lambda text, *values, location: said.append(text % values)
    )
    shown = mathml.to_mathml(tex, display=False)
    assert [text[: len(start)] for text, start in zip(said, warned, strict=True)] == warned
    assert shown.startswith("<code>" if "nosuch" in tex else "<math")


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("Add $x$, then.", ["Add ", ["$", ","], " then."]),
        ("Both ($x$).", ["Both ", ["(", "$", ")."]]),
        ("An $m$-vector", ["An ", ["$", "-"], "vector"]),
        ("$x$ and $y$", ["$", " and ", "$"]),
        ("*A*$x$*B*", ["A", "$", "B"]),
        ("$x$: $y$", [["$", ":"], " ", "$"]),
        ("$x$ (", ["$", " ("]),
    ],
)
def test_punctuation_stays_on_the_line_of_its_formula(written, shown):
    pieces = re.findall(r"\$\w\$|\*\w\*|[^$*]+", written)
    made = {"$": nodes.math, "*": nodes.emphasis}
    parts = [
        made.get(p[0], nodes.Text)(*["", p[1:-1]] if p[0] in made else [p]) for p in pieces
    ]
    document = new_document("page")
    document += nodes.paragraph("", "", *parts)
    mathml.Punctuation(document).run()

    def told(node):
        if isinstance(node, nodes.inline):
            return [told(child) for child in node]
        return "$" if isinstance(node, nodes.math) else node.astext()

    assert [t for t in map(told, document[0]) if t] == shown
