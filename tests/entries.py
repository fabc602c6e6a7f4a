"""The entries of the pages of answers, and the questions that each of them answers."""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from executed import ROOT

from pages import FENCED, entries_of

PAGES = sorted((ROOT / "docs" / "answers").glob("*.md"))
BOX = re.compile(r"^:::\{asked\}\n(.*?)^:::$", re.M | re.S)


@dataclass
class Entry:
    """A heading of a page of answers, with all that stands below it up to the next.

    Its label, in the line before it, is its address on the page.
    """

    page: Path
    label: str
    heading: str
    text: str

    @property
    def wordings(self):
        """What else people ask, one to an item of the list in the box."""
        items = "".join(BOX.findall(self.text)).split("\n- ")
        return [" ".join(item.removeprefix("- ").split()) for item in items if item]

    @cached_property
    def prose(self):
        """The answer in words."""
        return FENCED.sub("", self.text).strip()


def entries(page):
    """Yield the entries of a page."""
    lines = page.read_text(encoding="utf-8").splitlines(keepends=True)
    heads = entries_of("".join(lines))
    for start, end in zip(heads, [*heads[1:], len(lines) + 1], strict=True):
        heading = lines[start - 1].removeprefix("##").strip()
        label = re.fullmatch(r"\((.+)\)=\n", lines[start - 2])
        text = "".join(lines[start : end - 1])
        yield Entry(page, label[1] if label else "", heading, text)


ENTRIES = [entry for page in PAGES for entry in entries(page)]


def bare(question):
    """Return a question without the marks that set code in its type."""
    return question.replace("`", "")
