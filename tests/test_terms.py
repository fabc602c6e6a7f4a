"""Every page links the words of the glossary where it first uses them."""

import re

import pytest
from executed import EXAMPLES, name_of

from doors import split_code_and_text_blocks

TERMS = {  # as the glossary spells them; those that are everyday words too are left out
    "cotangent",
    "finite differences",
    "forward mode",
    "Hessian",
    "Hessian-vector product",
    "Jacobian",
    "Jacobian-vector product",
    "JVP",
    "one-hot vector",
    "reverse mode",
    "saved tensor",
    "subgradient",
    "tangent",
    "vector-Jacobian product",
    "VJP",
    "vmap",
}
SPELLING = {term.lower(): term for term in TERMS}
WORDS = "|".join(sorted(map(re.escape, TERMS), key=len, reverse=True))
MENTION = re.compile(rf"(?<![\w.-])({WORDS})s?(?![\w-])", re.I)
LINK = re.compile(r":term:`[^`]*`")
NOT_PROSE = re.compile(
    r"^Where next\n-----.*"  # a list of links of another kind
    r"|neural tangent"  # another word
    r"|``[^`]*``|:(?!term:)[\w:]+:`[^`]*`"  # code and other roles
    r"|^[^\n]*\n[=~-]{4,}$"  # headings
    r"|^=+ +=[= ]*\n.*?\n=[= ]*(?=\n\n|\Z)"  # tables
    r"|^\.\. (?:\w|_).*?(?=\n\n\S|\Z)"  # directives, with what belongs to them
    r"|(?<![\w*])\*[^*\s][^*]*\*(?!\w)",  # emphasis, which cannot hold a link
    re.S | re.M,
)


def unlinked(text):
    """Return (start, end, term) of each term whose first mention is no link."""
    prose = NOT_PROSE.sub(lambda part: re.sub(r"[^\n]", " ", part[0]), text)
    prose = prose.replace("\n", " ")
    links = [link.span() for link in LINK.finditer(prose)]
    first = {}
    for mention in MENTION.finditer(prose):
        first.setdefault(SPELLING[mention[1].lower()], mention.span())
    return [
        (start, end, term)
        for term, (start, end) in first.items()
        if not any(a <= start < b for a, b in links)
    ]


@pytest.mark.parametrize("page", EXAMPLES, ids=name_of)
def test_terms_are_linked_at_first_mention(page):
    parts = split_code_and_text_blocks(page)[1]
    text = "\n\n".join(part[1].strip("\n") for part in parts if part[0] == "text")
    assert [term for *_, term in unlinked(text)] == []


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("A VJP and :term:`another VJP <VJP>`.", ["VJP"]),
        ("Rows are :term:`VJPs <VJP>`; a VJP costs little.", []),
        ("The vector-Jacobian\nproduct, once", ["vector-Jacobian product"]),
        ("``vmap`` and *what vmap does*, in code and in emphasis.", []),
        ("Tangents\n--------\n\nForward mode carries them.", ["forward mode"]),
    ],
)
def test_a_missing_link_would_be_seen(text, missing):
    assert [term for *_, term in unlinked(text)] == missing
