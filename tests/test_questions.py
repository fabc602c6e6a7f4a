"""Questions that people have asked in public, and the page that answers them.

``questions.txt`` has one to a line, with the places where it was asked: ``SO`` is
stackoverflow.com/questions, ``PF`` discuss.pytorch.org/t, ``NM`` a forum's text; the
others are issues of a GitHub repository, ``PT`` being pytorch/pytorch, ``FT``
pytorch/functorch, ``TUT`` pytorch/tutorials and ``JAX`` jax-ml/jax.
"""

import re

import pytest
from executed import ROOT

PAGE = (ROOT / "docs" / "questions.md").read_text(encoding="utf-8")
ANSWERS = re.findall(r"^(\S[^\n]*)\n: ((?:.+\n)+)", PAGE, re.M)
ASKED = (ROOT / "tests" / "questions.txt").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("question", [line.split("\t")[0] for line in ASKED])
def test_a_question_asked_in_public_is_there_word_for_word(question):
    assert question in dict(ANSWERS)


@pytest.mark.parametrize(("question", "answer"), ANSWERS, ids=[a[0] for a in ANSWERS])
def test_every_question_has_an_answer_and_a_link(question, answer):
    """The build fails where a link does not land on a page or a heading."""
    said, _, link = answer.partition("→")
    assert len(said.split()) >= 3
    assert re.fullmatch(r"\s*\{ref\}`[^`]+`\s*", link)


def test_no_question_is_asked_twice():
    assert len(ANSWERS) == len(dict(ANSWERS)) > len(ASKED)
