"""Answers: every question that leads somewhere is an entry's, and the entry runs.

``questions.txt`` has one to a line, some with the places where it was asked: ``SO`` is
stackoverflow.com/questions, ``PF`` discuss.pytorch.org/t, ``NM`` a forum's text; the
others are issues of a GitHub repository, ``PT`` being pytorch/pytorch, ``FT``
pytorch/functorch, ``TUT`` pytorch/tutorials and ``JAX`` jax-ml/jax.
"""

from collections import Counter

import pytest
from entries import ENTRIES, PAGES, bare, entries
from executed import ROOT

from pages import CELL

LISTED = [
    line.split("\t")[0]
    for line in (ROOT / "tests" / "questions.txt").read_text(encoding="utf-8").splitlines()
]
WORDINGS = [bare(said) for entry in ENTRIES for said in (entry.heading, *entry.wordings)]


def test_questions_are_there_word_for_word():
    there = {*WORDINGS}
    assert [question for question in LISTED if bare(question) not in there] == []


def test_no_question_has_two_answers():
    assert [question for question, n in Counter(WORDINGS).items() if n > 1] == []
    assert len(LISTED) == len(set(LISTED))


def test_every_entry_has_an_address():
    assert [entry.heading for entry in ENTRIES if not entry.label] == []
    assert len({entry.label for entry in ENTRIES}) == len(ENTRIES)


def test_an_entry_answers_where_it_stands():
    """In words, before it sends its reader on."""
    said = {entry.label: entry.prose.partition("**See also:**")[0] for entry in ENTRIES}
    assert [label for label, text in said.items() if len(text.split()) < 20] == []


def test_answers_run():
    """All but some about machines and libraries that are not here."""
    running = sum(CELL.search(entry.text) is not None for entry in ENTRIES)
    assert running >= 0.95 * len(ENTRIES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_can_be_browsed(page):
    assert len(list(entries(page))) <= 24
