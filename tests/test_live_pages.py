"""Which pages live, and that each picture on them was compared with torch."""

import re

import pytest
from executed import PAGES, ROOT, name_of, shown

from certified import AGREE, COUNT, Certificate

LEARN = ("examples/01_gradient_argument/", "examples/02_jacobians/")
CALL = re.compile(r"\blive\(")
LIVE = [source for source, page in PAGES.items() if CALL.search(page.text)]
FUNCTIONS = 24  # side by side on Play
HEAVIEST = 2048


def pictures(source):
    """Return the pictures that a page shows."""
    return [block for block in shown(source) if 'class="pb-live"' in block.get("html", "")]


@pytest.mark.parametrize("source", LIVE, ids=name_of)
def test_each_picture_was_compared(source):
    found = pictures(source)
    assert found, "the code calls it, and nothing is shown"
    for block in found:
        certificate = Certificate(*block["certified"])
        assert certificate.inputs == COUNT >= 100
        assert 0 <= certificate.largest <= AGREE
        assert certificate.bytes <= HEAVIEST


def test_all_of_learn_lives():
    learn = [source for source in PAGES if name_of(source).startswith(LEARN)]
    assert len(learn) > 20
    assert [name_of(source) for source in learn if source not in LIVE] == []


def test_forty_pages_live():
    assert len(LIVE) >= 40


def test_graphs_that_live():
    """Beside the picture, where several ways meet, or many steps follow one another."""
    graphs = [b for source in LIVE for b in pictures(source) if "pb-steps" in b["html"]]
    assert len(graphs) >= 8


def test_functions_side_by_side():
    assert len(pictures(ROOT / "docs" / "play.md")) >= FUNCTIONS
