"""Every wrong statement of the five write-ups is corrected above a cell that checks it."""

import re

import pytest
from executed import ROOT

COMMENT = re.compile(r"^% (.+)$", re.M)


def sections(name):
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    return dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", page, re.M | re.S))


SECTIONS = sections("corrections.md")
OFFICIAL = sections("corrections_tutorials.md")
del OFFICIAL["Where next"]

#: Items of the source map in which something is wrong or only half said.
WRONG = {
    "S0": [5, 6, 8, 9, 14, 16, 17, 18, 20, 21],
    "S1": [5, 7, 13, 17, 24, 27, 28, 29, 30, 33, 34],
    "S2": [2, 3, 5, 6, 8, 10, 11],
    "S3": [1, 2, 3, 4, 6, 8, 9, 10],
    "S4": [2, 3, 4, 5, 6],
}


def corrected(texts):
    """Return the items that the comments of texts name; "% S4-3 to S4-6" names four."""
    text = " ".join(line for text in texts for line in COMMENT.findall(text))
    spans = re.findall(r"\b(S\d)-(\d+) to \1-(\d+)", text)
    between = {f"{s}-{i}" for s, a, b in spans for i in range(int(a), int(b) + 1)}
    return between | set(re.findall(r"\bS\d-\d+", text))


def test_every_wrong_item_is_corrected():
    wrong = {f"{source}-{i}" for source, items in WRONG.items() for i in items}
    assert wrong <= corrected(SECTIONS.values())
    assert corrected(["\n% S2-6\n\n> z is a leaf", "S1-1\n% S4-3 to S4-6\n"]) == {
        "S2-6",
        "S4-3",
        "S4-4",
        "S4-5",
        "S4-6",
    }


@pytest.mark.parametrize("heading", [*SECTIONS, *OFFICIAL])
def test_the_heading_is_true_and_what_is_wrong_is_quoted(heading):
    """The numbers of the items are comments; a reader sees none."""
    text = SECTIONS.get(heading) or OFFICIAL[heading]
    assert re.search(r"^> \S", text.partition("```")[0], re.M)
    assert not re.search(r"\bS\d\b", heading + COMMENT.sub("", text))


@pytest.mark.parametrize("heading", SECTIONS)
def test_a_cell_checks_it(heading):
    cells = re.findall(r"```\{code-cell\}\n(.+?)```", SECTIONS[heading], re.S)
    assert any("assert" in cell for cell in cells)


@pytest.mark.parametrize("heading", OFFICIAL)
def test_a_correction_of_the_official_docs_has_its_place_and_a_cell(heading):
    place = OFFICIAL[heading].split("```", 1)[0]
    assert re.search(
        r"https://|Docstring|Same (place|note|tutorial)|^The intro", place, re.M
    )
    cells = re.findall(r"```\{code-cell\}\n(.+?)```", OFFICIAL[heading], re.S)
    assert any("assert" in cell for cell in cells)
