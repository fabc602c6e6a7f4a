"""Which page of Fix is about what somebody sees: "grad is None", "memory grows".

``symptoms.json`` holds what the pages in ``docs/fix/`` say of themselves;
``tests/test_symptoms.py`` holds it to them, and renews it.
"""

from __future__ import annotations

import functools
import json
import math
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pullback._messages import Message, address, entry_of, fields

FILE = Path(__file__).with_name("symptoms.json")
LONGEST = 14  # words; a longer text is a traceback, or a story
NEAR = 3  # entries that are named beside a page
SURE = 0.7  # of an entry that is shown where no page is
ENOUGH = 0.5  # of what is asked, and of a phrase of the page, that both have in common
ENDINGS = re.compile(r"(?<=\w{3})(?:ing|ed|es|s|e)$")
#: Words that say nothing about which symptom it is.
COMMON = " a an the my is are was be of to in on for by it its does do and or with at i "
NUMBERS = dict.fromkeys(("2", "two", "2x", "double", "doubled"), "twice")


def symptom(text: str) -> dict[str, Any] | None:
    """Return the page whose symptom a text tells in a few words, or None."""
    said = _said(text)
    if not said:
        return None
    scores = [_score(said, phrases) for phrases in _phrases()]
    best = max(scores)
    return pages()[scores.index(best)] if best >= ENOUGH else None


def told(page: dict[str, Any], text: str) -> Iterator[str]:
    """Yield the lines that say what to ask about a symptom, and where more is."""
    yield page["title"]
    yield from _listed("ask:  ", page["questions"])
    yield "line: python -m pullback train.py names it in many of these cases"
    more = [f"python -m pullback explain {m.anchor}" for m in _near(_words(text))]
    yield from _listed(
        "more: ", [f"{address()}fix/{page['page']}.html"] * bool(address()) + more
    )


def entry(text: str) -> Message | None:
    """Return the entry that people ask for in a few words like these, or None."""
    said = _said(text)
    near = _near(said, SURE) if len(said) > 1 else ()  # one word is in many
    return next(iter(near), None)


def _said(text: str) -> frozenset[str]:
    """Return the words of a few; none of a message, a traceback or a story."""
    error = re.search(r"\w(?:Error|Warning)\b", text)
    return frozenset() if error or len(text.split()) > LONGEST else _words(text)


def _near(said: frozenset[str], enough: float = ENOUGH) -> list[Message]:
    """Return the entries that people ask for in nearly these words, the nearest first."""
    scores = [
        (_score(said, map(_words, (entry["name"], *entry["asked"]))), file)
        for file, entry in fields("name", "asked")
    ]
    near = sorted(scores, key=lambda scored: (-scored[0], scored[1].stem))[:NEAR]
    return [entry_of(file) for score, file in near if score >= enough]


def _listed(label: str, lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield textwrap.fill(line, 88, initial_indent=label, subsequent_indent=" " * 8)
        label = " " * len(label)


@functools.cache
def pages() -> tuple[dict[str, Any], ...]:
    """Return what is known of each page."""
    return tuple(json.loads(FILE.read_text("utf-8")))


def _words(text: str) -> frozenset[str]:
    plain = re.findall(r"[a-z0-9_]+", text.lower().replace("n't", " not"))
    said = (NUMBERS.get(word, word) for word in plain if f" {word} " not in COMMON)
    return frozenset(ENDINGS.sub("", word) for word in said)


@functools.cache
def _phrases() -> tuple[tuple[frozenset[str], ...], ...]:
    """Return the words of each phrase of each page."""
    return tuple(
        tuple(map(_words, (page["title"], *page["asked"], *page["words"])))
        for page in pages()
    )


@functools.cache
def _weights() -> dict[str, float]:
    """Return how much each word says: a word of every page says little."""
    of_pages = [frozenset().union(*phrases) for phrases in _phrases()]
    counts = Counter(word for words in of_pages for word in words)
    return {word: math.log(1 + len(of_pages) / count) for word, count in counts.items()}


def _weight(words: Iterable[str]) -> float:
    unknown = math.log(1 + len(pages()))
    return sum(_weights().get(word, unknown) for word in words)


def _score(said: frozenset[str], phrases: Iterable[frozenset[str]]) -> float:
    """Return how much a text and the nearest phrase have in common, from 0 to 1."""
    near = ((_weight(said & phrase), phrase) for phrase in phrases if said & phrase)
    return max((c / math.sqrt(_weight(said) * _weight(p)) for c, p in near), default=0.0)
