"""The source map names every item of the five write-ups once, on a page that exists."""

import re

from executed import EXAMPLES, ROOT

ITEMS = {"S0": 23, "S1": 34, "S2": 11, "S3": 10, "S4": 6}
MAP = (ROOT / "docs" / "source_map.md").read_text()


def missing(text):
    named = re.findall(r"\bS\d-\d+\b", text)
    wanted = {f"{s}-{i}" for s, count in ITEMS.items() for i in range(1, count + 1)}
    assert len(named) == len(set(named)), "an item is named twice"
    return wanted.symmetric_difference(named)


def test_every_item_has_a_page():
    assert missing(MAP) == set()


def test_a_gap_would_be_seen():
    assert missing(MAP.replace("S1-32, ", "")) == {"S1-32"}


def test_every_page_named_exists():
    labels = {re.search(r"^\.\. _([a-z0-9-]+):", p.read_text(), re.M)[1] for p in EXAMPLES}
    assert set(re.findall(r"\{ref\}`([a-z0-9-]+)`", MAP)) <= labels
