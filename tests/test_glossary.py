"""The glossary calls things by names that PyTorch and this package really have."""

import pydoc
import re

import pytest
import torch
from executed import ROOT

GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
NAMES = sorted(set(re.findall(r"`((?:torch|pullback)(?:\.\w+)+)`", GLOSSARY)))


@pytest.mark.parametrize("name", NAMES)
def test_the_name_exists(name):
    assert pydoc.locate(name) is not None


def test_a_wrong_name_would_be_seen():
    assert "torch.func.vjp" in NAMES
    assert pydoc.locate("torch.func.jacobian") is None


def test_the_numbers_of_the_table_and_of_its_product():
    x = torch.tensor([1.0, 2.0, 3.0])
    _, pull = torch.func.vjp(lambda x: torch.stack([x.sum(), (x**2).sum()]), x)
    rows = [pull(v)[0] for v in torch.eye(2)]
    for found in (x, *rows, *pull(torch.tensor([10.0, 1.0]))):
        text = ", ".join(f"{number:.0f}" for number in found)
        assert f"({text})" in " ".join(GLOSSARY.split())
