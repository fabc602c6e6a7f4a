"""The exercises: what is hidden, what is said, in a browser, with scripts and without."""

import html
import re

import pytest
from built import needs_chromium
from executed import ROOT, shown

PAGE = ROOT / "docs" / "exercises.md"
SCRIPTS = [ROOT / "docs" / "_static" / name for name in ("typed.js", "asking.js")]


@pytest.fixture(scope="module")
def fragments():
    """Return the HTML that the page's cells end on."""
    return [block["html"] for block in shown(PAGE) if "html" in block]


@pytest.fixture
def page(browser, fragments):
    page = browser.new_page()
    page.set_content("".join(fragments))
    for script in SCRIPTS:
        page.add_script_tag(content=script.read_text())
    yield page
    page.close()


def said(page, number, text):
    page.fill(f"#v-{number}", text)
    page.press(f"#v-{number}", "Enter")
    return page.inner_text(f"#said-{number}")


def test_a_question_for_each_chapter(fragments):
    text = PAGE.read_text()
    assert len(fragments) == len(re.findall(r"^### \d+\. ", text, re.M)) >= 10
    assert len(re.findall(r"^## ", text, re.M)) == 7  # six chapters and Where next
    assert len(re.findall(r"^More: \{ref\}", text, re.M)) == len(fragments)


def test_only_the_answer_tells_the_answer(fragments):
    for fragment in fragments:
        form, answer = fragment.split("<details")
        assert html.unescape(answer).count("v = ") >= 1
        assert "v = " not in form
        assert " hidden>" in form, "no form without a script that serves it"


ANSWERS = {
    1: ["torch.ones(5)", "[1, 1, 1, 1, 1]", "[1,1,1,1,1.0,]", "torch.ones_like(y)"],
    2: [
        "[0, 1]",
        "0 1",
        "(0, 1)",
        "torch.eye(2)[1]",
        "torch.tensor([0., 1.])",
        "v = [0, 1]",
    ],
    3: ["[1, 0, -1]"],
    4: ["[[1/4, 1 / 4], [0.25, 2.5e-1]]"],
    5: ["[[0, 0], [1, 0]]"],
    6: ["[[1]]", "ones(1, 1)", "torch.ones((1, 1))"],
    7: ["[27, 48]"],
    8: ["[1, 0, 0, 1, 0, 0]"],
    9: ["[4, 5, 6]"],
    10: ["[1, -1]"],
    11: ["ones(3)"],
    12: ["[1/3, 0, 1/3, 1/3]", "[0.3333, 0, 0.3333, 0.3333]"],
    13: ["[2, -2]"],
    14: ["[[0, 0, 1], [1, 0, 0]]", "F.one_hot(torch.tensor([2, 0]), 3)"],
    15: ["[0, 3]"],
    16: ["[.5, .5, .5]"],
    17: ["[1, 2, 3]"],
    18: ["[-1, -1]"],
}


@needs_chromium
def test_right_answers_are_right(page, fragments):
    assert list(ANSWERS) == list(range(1, len(fragments) + 1))
    for number, answers in ANSWERS.items():
        for answer in answers:
            assert said(page, number, answer).startswith("Right: "), (number, answer)
            assert page.get_attribute(f"#v-{number}", "aria-invalid") == "false"


@needs_chromium
def test_wrong_answers_are_told_what_they_give(page):
    assert said(page, 2, "[1, 0]") == (
        "Not yet: this v gives [1, 1, 1], and [2, 4, 6] is asked for. "
        "A single 1 takes one row."
    )
    assert page.get_attribute("#v-2", "aria-invalid") == "true"
    for number in ANSWERS:
        assert not said(page, number, "0").startswith("Right"), number


@needs_chromium
@pytest.mark.parametrize(
    ("text", "begins"),
    [
        ("[0, 1, 0]", "Mismatch in shape: v has the shape (3,), and y has (2,)."),
        ("[[0, 1]]", "Mismatch in shape: v has the shape (1, 2)"),
        ("1", "Mismatch in shape: v has the shape ()"),
        ("[[1, 2], [3]]", "Not a tensor"),
        ("", "Not read"),
        ("[0, 1", "Not read"),
        ("[[0 1]", "Not read"),
        ("torch.ones_like(x)", "Mismatch in shape: v has the shape (3,), and y has (2,)."),
        ("[0, 1] [", "Not read"),
        ("alert(1)", "Not read"),
        ("[0,, 1]", "Not read"),
        ("<b>", "Not read"),
    ],
)
def test_what_cannot_be_a_v_is_told_why(page, text, begins):
    assert said(page, 2, text).startswith(begins)


@needs_chromium
def test_labelled_and_announced(page):
    for number in ANSWERS:
        assert page.get_by_label(f"v for exercise {number}", exact=True).count() == 1
        assert page.get_attribute(f"#said-{number}", "aria-live") == "polite"


@needs_chromium
def test_without_scripts_the_answers_open(browser, fragments):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.set_content("".join(fragments))
    assert page.locator("form").first.is_hidden()
    page.click("details:nth-of-type(2) summary")
    assert page.locator("details:nth-of-type(2) code").first.is_visible()
    context.close()
