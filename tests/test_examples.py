"""What every gallery page must have; that it runs alone, its execution shows."""

import ast
import re

import pytest
from executed import EXAMPLES, name_of

from doors import split_code_and_text_blocks
from wheel import WORDINGS

BELITTLES = "a word that belittles"
FORBIDDEN = {
    "Variable": r"\bautograd\.Variable\b|\bVariable\(",
    ".data": r"(?<!\butils)\.data\b(?!\w)",  # torch.utils.data is a module
    "FloatTensor": r"\bFloatTensor\b",
    "builtin sum": r"(?<![.\w])sum\(",
    # "why not simply" asks; it does not say that something is
    BELITTLES: r"(?i)(?<!not\s)\b(simply|obviously|just)\b",
}
WARNS_OF = {"in-place": {".data"}}  # pages whose code shows what others must avoid
every_page = pytest.mark.parametrize("page", EXAMPLES, ids=name_of)


def label_of(page):
    return re.search(r"^\.\. _([a-z0-9-]+):$", page.read_text(), re.M)[1]


def test_no_two_pages_have_the_same_label():
    labels = [label_of(page) for page in EXAMPLES]
    assert sorted(set(labels)) == sorted(labels)


@every_page
def test_opens_with_label_title_and_answer(page):
    docstring = ast.get_docstring(ast.parse(page.read_text()), clean=False)
    opening = re.match(
        r"\n\.\. _[a-z0-9-]+:\n\n(?P<title>[^\n]+)\n(?P<line>=+)\n\n(?P<answer>.+)",
        docstring,
        re.S,
    )
    assert opening, "label, title and an answer, in this order"
    assert len(opening["line"]) >= len(opening["title"])


@every_page
def test_has_a_check_that_can_fail(page):
    assert any(
        isinstance(node, ast.Assert)
        or (isinstance(node, ast.Attribute) and node.attr == "assert_close")
        for node in ast.walk(ast.parse(page.read_text()))
    )


@every_page
def test_ends_on_a_way_on(page):
    *_, last = split_code_and_text_blocks(page)[1]
    assert last[0] == "text"
    way_on = re.search(
        r"^(Where next\n-+|\*\*Next:\*\*)(?P<links>.*)", last[1], re.M | re.S
    )
    assert way_on, "a section called Where next, or a paragraph that begins with **Next:**"
    assert ":ref:" in way_on["links"]


@every_page
def test_avoids_what_others_copy(page):
    avoided = FORBIDDEN.keys() - WARNS_OF.get(label_of(page), set())
    for kind, content, *_ in split_code_and_text_blocks(page)[1]:
        if kind == "text":  # a page may name what it warns of, and be asked for it
            content = re.sub(r"``.*?``", "", WORDINGS.sub("", content), flags=re.S)
        for idiom in avoided - ({BELITTLES} if kind == "code" else set()):
            assert not re.search(FORBIDDEN[idiom], content), f"{idiom}: {content}"


def test_the_chapters_have_their_headers():
    for chapter in {page.parent for page in EXAMPLES}:
        header = chapter / "GALLERY_HEADER.rst"
        assert re.match(
            r"\.\. _(chapter-\d|notes-on-[a-z]+):\n\n.+\n-+\n\n\w", header.read_text()
        )
