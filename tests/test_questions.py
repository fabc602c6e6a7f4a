"""Questions that people have asked in public, and the page that answers them.

``questions.txt`` has one to a line, with the places where it was asked: ``SO`` is
stackoverflow.com/questions, ``PF`` discuss.pytorch.org/t, ``NM`` a forum's text; the
others are issues of a GitHub repository, ``PT`` being pytorch/pytorch, ``FT``
pytorch/functorch, ``TUT`` pytorch/tutorials and ``JAX`` jax-ml/jax.
"""

import re

import pytest
from executed import DOCS, EXAMPLES, ROOT

GROUPS = sorted((ROOT / "docs" / "questions").glob("*.md"))
PAGES = "\n".join(group.read_text(encoding="utf-8") for group in GROUPS)
ANSWERS = re.findall(r"^(\S[^\n]*)\n: ((?:.+\n)+)", PAGES, re.M)
ASKED = (ROOT / "tests" / "questions.txt").read_text(encoding="utf-8").splitlines()
SOURCES = {f"auto_examples/{page.parent.name}/{page.stem}": page for page in EXAMPLES}
SOURCES |= {
    page.relative_to(ROOT / "docs").with_suffix("").as_posix(): page for page in DOCS
}


def headings(source):
    """Return the title of a page and the headings below it, as they are written."""
    text = source.read_text(encoding="utf-8")
    if source.suffix == ".py":
        return re.findall(r"^(?:# )?(.+)\n(?:# -{3,}|={3,})$", text, re.M)
    return re.findall(
        r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.M
    )


def labels():
    for source in SOURCES.values():
        text = source.read_text(encoding="utf-8")
        yield from re.findall(r"^(?:\.\. _|\()([a-z0-9-]+)(?::|\)=)$", text, re.M)


LABELS = set(labels())


@pytest.mark.parametrize("question", [line.split("\t")[0] for line in ASKED])
def test_a_question_asked_in_public_is_there_word_for_word(question):
    assert question in dict(ANSWERS)


@pytest.mark.parametrize(("question", "answer"), ANSWERS, ids=[a[0] for a in ANSWERS])
def test_every_question_has_an_answer_and_a_link(question, answer):
    """It shows what it lands on: a page by its label, or "title › heading"."""
    said, _, link = " ".join(answer.split()).partition(" → ")
    assert len(said.split()) >= 3
    shown, page, heading = re.fullmatch(
        r"\{ref\}`([^`<]+?)(?: <([^:]+):([^`]+)>)?`", link
    ).groups()
    if page is None:
        assert shown in LABELS
        return
    title, *below = headings(SOURCES[page])
    found = {each.lower(): each for each in below}
    assert heading in found
    assert shown == f"{title} › {found[heading]}".replace("`", "")


def test_no_question_is_asked_twice():
    assert len(ANSWERS) == len(dict(ANSWERS)) > len(ASKED)
