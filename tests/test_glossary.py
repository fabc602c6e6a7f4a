"""The glossary calls things by names that PyTorch and this package really have."""

import pydoc
import re

import pytest
from executed import ROOT

GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
NAMES = sorted(set(re.findall(r"`((?:torch|pullback)(?:\.\w+)+)`", GLOSSARY)))


@pytest.mark.parametrize("name", NAMES)
def test_the_name_exists(name):
    assert pydoc.locate(name) is not None


def test_a_wrong_name_would_be_seen():
    assert "torch.func.vjp" in NAMES
    assert pydoc.locate("torch.func.jacobian") is None
