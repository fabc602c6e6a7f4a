"""Whoever a page cites is in the bibliography, and each of its links is there once."""

import calendar
import re

from executed import EXAMPLES, NOTEBOOKS, ROOT

PAGE = (ROOT / "docs" / "bibliography.md").read_text(encoding="utf-8")
CITED = re.compile(
    r"\b([A-Z][a-z]+)(?: et al\.| and [A-Z][a-z]+|'s estimator)?,? \(?(\d{4})\)"
)


def test_everyone_cited_is_listed():
    entries = re.split(r"\n- ", PAGE)
    cited = {
        match
        for page in [*EXAMPLES, *NOTEBOOKS]
        for match in CITED.findall(page.read_text(encoding="utf-8"))
        if match[0] not in calendar.month_name  # when a source was read
    }
    assert len(cited) >= 6
    missing = [
        (name, year)
        for name, year in cited
        if not any(name in entry and year in entry for entry in entries)
    ]
    assert missing == []


def test_links_are_well_formed_and_there_once():
    links = re.findall(r"\]\((https?://[^)]+)\)", PAGE)
    assert len(links) == len(set(links)) >= 40
    for shown, target in re.findall(r"\[doi:([^\]]+)\]\((.+?)\)", PAGE):
        assert target == f"https://doi.org/{shown}"
    for shown, target in re.findall(r"\[arXiv:([^\]]+)\]\((.+?)\)", PAGE):
        assert target == f"https://arxiv.org/abs/{shown}"
        assert re.fullmatch(r"\d{4}\.\d{4,5}", shown)
