"""Formulas (docs/_ext/mathml.py)."""

import pytest

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
