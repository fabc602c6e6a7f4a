"""Every item of the five write-ups is on the page that the source map names."""

import re

import pytest
from executed import EXAMPLES, ROOT, name_of

ITEMS = {"S0": 23, "S1": 34, "S2": 11, "S3": 10, "S4": 6}
MAP = (ROOT / "docs" / "source_map.md").read_text(encoding="utf-8")
ROW = r"^\| (S\d-\d+) \| .+ \| \{ref\}`([a-z0-9-]+)` \| `(.+)` \|$"
ROWS = re.findall(ROW, MAP, re.M)


def on_one_line(text):
    """Undo line breaks, with or without the # of a comment, and alignment."""
    return " ".join(re.sub(r"^# ", "", text, flags=re.M).split())


LABEL = re.compile(r"^\.\. _([a-z0-9-]+):", re.M)
PAGES = {LABEL.search(page.read_text(encoding="utf-8"))[1]: page for page in EXAMPLES}


def what_stands_on(label):
    """Return the source of the page and its recorded output."""
    page = PAGES[label]
    record = ROOT / "tests" / "records" / name_of(page).replace("/", "-")
    files = page, record.with_suffix(".txt")
    return "\n".join(on_one_line(file.read_text(encoding="utf-8")) for file in files)


def missing(rows):
    wanted = {f"{s}-{i}" for s, count in ITEMS.items() for i in range(1, count + 1)}
    return wanted.symmetric_difference(item for item, *_ in rows)


def test_every_item_has_a_page():
    assert missing(ROWS) == set()


def test_every_row_was_read():
    assert len(ROWS) == len(re.findall(r"^\| S", MAP, re.M))
    assert len(ROWS) == len({(item, page) for item, page, _ in ROWS})


@pytest.mark.parametrize(("item", "page", "look_for"), ROWS)
def test_the_item_stands_on_its_page(item, page, look_for):
    assert look_for in what_stands_on(page)


def test_a_gap_would_be_seen():
    assert missing([row for row in ROWS if row[0] != "S1-6"]) == {"S1-6"}


def test_a_page_that_lacks_the_item_would_be_seen():
    _, page, look_for = next(row for row in ROWS if row[0] == "S3-9")
    named = {label for _, label, _ in ROWS}
    assert {label for label in named if look_for in what_stands_on(label)} == {page}
