"""Predictions: what is read from a page's output, what is typed, and what is answered."""

import gzip
import json
import re
import shutil
import subprocess
from textwrap import dedent

import pytest
from bs4 import BeautifulSoup
from built import needs_chromium
from executed import ROOT
from sites import Site, write

import pullback
from printed import slack, values
from wheel import boxes_as_markdown

EXTENSIONS = ROOT / "docs" / "_ext"
SCRIPT = ROOT / "docs" / "_static" / "asking.js"
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="no Node")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("tensor([8., 6., 4.])", [("", [3], [8, 6, 4])]),
        ("tensor(9.)", [("", [], [9])]),
        ("x       tensor([ 4., -2.])\ny  7", [("x", [2], [4, -2]), ("y", [], [7])]),
        ("tensor([[1., 2.],\n        [3., 4.]])", [("", [2, 2], [1, 2, 3, 4])]),
        ("tensor([1.], dtype=torch.float64, requires_grad=True)", [("", [1], [1])]),
        ("tensor(-8.5, grad_fn=<MulBackward0>)", [("", [], [-8.5])]),
        ("torch.Size([81, 2])", [("", [2], [81, 2])]),
        ("torch.Size([])", [("", [0], [])]),
        ("(4, 3)", [("", [2], [4, 3])]),
        ("[8. 6.]", [("", [2], [8, 6])]),
        ("True", [("", [], [1])]),
        ("grows at 58 of 81", [("grows at", [], [58]), ("of", [], [81])]),
        ("1e-9 is x0 (at 3 points)", [("", [], [1e-9]), ("is x0 (at", [], [3])]),
        ("tensor([0., 1., ..., 3.])", []),
        ("tensor([nan, 1.])", []),
        ("nothing", []),
    ],
)
def test_values_are_read_as_printed(text, found):
    assert [(v.label, v.shape, v.numbers) for v in values(text)] == found


def test_a_row_of_a_value():
    (value,) = values("tensor([[-4., 1.], [-0., -2.5]])")
    row = value.item((1,))
    assert (row.text, row.shape, row.numbers) == ("[-0., -2.5]", [2], [0, -2.5])
    assert value.item((0, 1)).numbers == [1]
    with pytest.raises(ValueError, match="no item"):
        value.item((2,))


@pytest.mark.parametrize(
    ("written", "least", "most"),
    [("8.", 0, 0), ("81", 0, 0), ("-8.2857", 0.0043, 0.1), ("1.2346e-09", 5e-14, 1e-10)],
)
def test_exact_numbers_are_exact_and_rounded_ones_not(written, least, most):
    assert least <= slack(written) <= most


def in_node(cases):
    """Return what the script says to each (typed, asks)."""
    code = (
        f"const {{verdict}} = require({json.dumps(str(SCRIPT))});"
        "const cases = JSON.parse(require('fs').readFileSync(0));"
        "console.log(JSON.stringify(cases.map(([text, asks]) => verdict(text, asks))));"
    )
    told = subprocess.run(
        ["node", "-e", code], input=json.dumps(cases), capture_output=True, text=True
    )
    assert not told.returncode, told.stderr
    return json.loads(told.stdout)


def asks(kind, shape, numbers, text="shown", **more):
    slack = [0.0 if n == int(n) else 0.01 * abs(n) for n in numbers]
    return {
        "kind": kind,
        "shape": shape,
        "numbers": numbers,
        "slack": slack,
        "text": text,
        "shapes": {},
    } | more


EARNED = asks("value", [3], [8, 6, 4], "tensor([8., 6., 4.])")
LARGEST = EARNED | {"kind": "largest", "place": 0}
SHAPE = {"kind": "shape", "numbers": [81, 2], "shapes": {"points": [81, 2], "y": [81, 1]}}
ONE = {"kind": "shape", "numbers": [2], "shapes": {}}
SIGNS = asks("signs", [4], [-1, 0, 1, 3])
HOUSE = {
    "kind": "v",
    "shape": [2],
    "shapes": {"x": [3]},
    "rows": [[1, 1, 1], [2, 4, 6]],
    "wanted": [3, 5, 7],
}
RIGHT = [
    *((EARNED, typed) for typed in (
        "[8, 6, 4]", "8 6 4", "8, 6, 4", "(8, 6, 4)", "[8. 6. 4.]", "8 6. +4",
        "[8,6,4,]",
        "torch.tensor([8., 6., 4.])", "tensor([8,6,4])", "x.grad = [8, 6, 4]",
        "torch.tensor([8, 6, 4], dtype=torch.float64)", "2 * [4, 3, 2]", "[16, 12, 8] / 2",
        "np.array([8, 6, 4])", "torch.tensor([8, 6, 4]).float()",
    )),
    *((asks("value", [2], [10, -8.2857]), typed) for typed in (
        "[10, -8.29]", "10 -8.3", "10, −58/7", "[10.0000, -8.2857]",
    )),
    *((asks("value", [3], [0, 0, 0]), typed) for typed in (
        "0", "zeros(3)", "zeros_like(x)",
    )),
    *((asks("value", [], [9]), typed) for typed in ("9", "[9]", "tensor(9.)", "3*3")),
    *((asks("value", [4], [.25] * 4), typed) for typed in (
        "torch.full((4,), 1/4)", "ones(4) / 4", "1/4 1/4 1/4 1/4",
        "0.25 * torch.ones_like(y)",
    )),
    *((asks("value", [], [1]), typed) for typed in ("True", "yes")),
    *((SHAPE, typed) for typed in (
        "(81, 2)", "81, 2", "81 2", "81x2", "81 × 2", "[81, 2]", "torch.Size([81, 2])",
        "points.shape", "points",
    )),
    *((ONE, typed) for typed in ("(2,)", "2", "[2]", "(2)", "torch.Size([2])")),
    *((LARGEST, typed) for typed in (
        "the first", "First stove", "1", "1st", "stove 1", "x[0]", "[8, 6, 4]",
    )),
    *((SIGNS, typed) for typed in (
        "- 0 + +", "-0++", "-, 0, +, +", "−, 0, +, +", "[-1, 0, 1, 3]", "-1 0 1 1",
        "negative, zero, positive, positive", "minus zero plus plus", "-0.5 0 2 2",
    )),
    *((HOUSE, typed) for typed in (
        "torch.ones_like(y)", "ones(2)", "[1, 1]", "1 1", "v = torch.tensor([1., 1.])",
    )),
]  # fmt: skip


@needs_node
def test_every_way_of_writing_a_right_answer():
    told = in_node([[typed, expected] for expected, typed in RIGHT])
    wrong = [
        (t, said) for (_, t), said in zip(RIGHT, told, strict=True) if said[:5] != "Right"
    ]
    assert wrong == []


WRONG = [
    (EARNED, "[8, 6, 5]", "2 of the 3 are right. Read on"),
    (EARNED, "1 2 3", "Not so. Read on"),
    (EARNED, "[8, 6]", "Yours has the shape (2,), and the answer has (3,)."),
    (EARNED, "8", "Yours has the shape (), and the answer has (3,)."),
    (asks("value", [2], [10, -8.2857]), "10 -8", "1 of the 2"),
    (asks("value", [], [81]), "80.5", "Not so."),
    (SHAPE, "(81, 1)", "(81, 1) is the shape of y. Read on"),
    (SHAPE, "y.shape", "(81, 1) is the shape of y."),
    (SHAPE, "81", "Not (81,)."),
    (ONE, "(2, 1)", "Not (2, 1)."),
    (LARGEST, "the third", "Not the third."),
    (LARGEST, "x[1]", "Not the second."),
    (LARGEST, "[4, 6, 8]", "1 of the 3"),
    (LARGEST, "stove nine", "Not read"),
    (SIGNS, "+ 0 + +", "Not these signs."),
    (SIGNS, "- 0 +", "Not these signs."),
    (HOUSE, "[1, 0]", "Not yet: this v gives [1, 1, 1], and [3, 5, 7] is asked for."),
    (HOUSE, "torch.eye(2)[1]", "Not yet: this v gives [2, 4, 6]"),
    (HOUSE, "[1, 1, 1]", "Mismatch in shape: v has the shape (3,), and y has (2,)."),
    (HOUSE, "torch.ones_like(x)", "Mismatch in shape: v has the shape (3,)"),
    (HOUSE, "[[1, 1]]", "Mismatch in shape: v has the shape (1, 2)"),
    *(
        (EARNED, typed, "Not read")
        for typed in (
            *(
                "",
                " ",
                "I don't know",
                "alert(1)",
                "constructor(1)",
                "[8, 6",
                "[8,, 6]",
                "(",
                "[",
            ),
            *(
                "1/0",
                "tensor()",
                "ones(1e9)",
                "eye(3)[5]",
                "8 6 4]",
                "<b>",
                "ones(900, 900)",
            ),
        )
    ),
    (EARNED, "[[1, 2], [3]]", "Not a tensor"),
]


@needs_node
def test_what_is_said_to_a_wrong_answer():
    told = in_node([[typed, expected] for expected, typed, _ in WRONG])
    said = [
        (t, s)
        for (_, t, begins), s in zip(WRONG, told, strict=True)
        if not s.startswith(begins)
    ]
    assert said == []


def test_the_script_is_small_and_evaluates_nothing():
    script = SCRIPT.read_text()
    assert len(gzip.compress(script.encode(), 9)) <= 3 * 1024
    assert not re.search(r"\beval\b|\bFunction\b|innerHTML", script)


def test_a_drawing_carries_what_it_shows():
    drawn = pullback.draw.vjp([10.0, -1.0], [[1.0, 1.0, 1.0], [2.0, 4.0, 6.0]]).html
    data = BeautifulSoup(drawn, "html.parser").div["data-numbers"]
    assert json.loads(data) == {"v": [10, -1], "J": [[1, 1, 1], [2, 4, 6]]}
    drawn = pullback.draw.vjp([float("inf")], [[1.0]]).html
    assert "data-numbers" not in drawn


CONF = f"""
    import sys
    sys.path.insert(0, {str(EXTENSIONS)!r})
    project = "Tiny"
    extensions = ["asking"]
    html_static_path = [{str(SCRIPT.parent)!r}]
    """
OUTPUT = """
    .. rst-class:: sphx-glr-script-out

     .. code-block:: none

        {}
    """
DRAWING = """
    .. raw:: html

        <div data-numbers="{&quot;v&quot;:[1,1],&quot;J&quot;:[[1,1,1],[2,4,6]]}"></div>
    """


def page(*parts):
    return "Page\n====\n" + "\n".join(dedent(part) for part in parts)


ASKED = """
    .. predict::
       {}

       What is it? ``y`` has the shape ``(2,)``.
    """


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    site = Site(tmp_path_factory.mktemp("asking"))
    write(site.folder, {"docs/conf.py": CONF})
    parts = [
        ASKED.format(":for: x.grad"),
        OUTPUT.format("tensor([8., 6., 4.])"),
        ASKED.format(":expects: v"),
        OUTPUT.format("tensor([1.])"),
        DRAWING,
        ASKED.format(":value: 2"),
        OUTPUT.format("1 of 3"),
    ]
    write(site.folder, {"docs/other.rst": ":orphan:\n\nOther\n=====\n"})
    (site.folder / "docs" / "index.rst").write_text(page(*parts))
    site.build("-n", "-W")
    return site


def test_each_question_has_the_answer_that_comes_next(site):
    soup = BeautifulSoup(site.page("docs/index.rst"), "html.parser")
    forms = soup.select(".admonition-predict > form[hidden]")
    first, second, third = (json.loads(form["data-asks"]) for form in forms)
    assert (first["numbers"], first["shapes"]) == ([8, 6, 4], {"y": [2]})
    assert (second["rows"], second["wanted"]) == ([[1, 1, 1], [2, 4, 6]], [3, 5, 7])
    assert third["numbers"] == [3]
    assert forms[0].label.text == "Your answer: x.grad"
    assert soup.select("script[src*='asking.js']")
    assert "asking.js" not in site.page("docs/other.rst")


UNREADABLE = [
    (":for: x", "", "no output follows"),
    (":for: x", ASKED.format(":for: z") + OUTPUT.format("3"), "no output follows"),
    (":for: x", OUTPUT.format("1 2"), "shows 2 values"),
    (":for: x", OUTPUT.format("tensor([nan])"), "shows 0 values"),
    (":label: x", OUTPUT.format("y 3"), "shows 0 values"),
    (":value: 3", OUTPUT.format("1 2"), "shows 0 values"),
    (":item: 4", OUTPUT.format("[1, 2]"), "has no item"),
    (":expects: largest", OUTPUT.format("[2, 2]"), "no single largest"),
    (":expects: v", OUTPUT.format("[2, 2]"), "no drawing"),
    (":expects: nothing", OUTPUT.format("[2, 2]"), "Error in"),
]


def test_an_answer_that_cannot_be_read_stops_the_build(tmp_path):
    site = Site(tmp_path)
    write(tmp_path, {"docs/conf.py": CONF, "docs/index.rst": "Home\n====\n"})
    for number, (options, after, _) in enumerate(UNREADABLE):
        text = ":orphan:\n\n" + page(ASKED.format(options), after)
        (tmp_path / "docs" / f"page_{number}.rst").write_text(text)
    site.build("-n", "-W", "--keep-going", fails=True)
    for number, (_, _, said) in enumerate(UNREADABLE):
        (found,) = re.findall(rf"page_{number}\.rst:.*(?:ERROR|WARNING): (.*)", site.said)
        assert said in found


BOXES = """\
Text.

.. predict::
   :for: v

   Which is it?

   And why?

More.

.. dropdown:: The answer

   - one"""
QUOTED = """\
Text.

> **Predict**
>
> Which is it?
>
> And why?

More.

> **The answer**
>
> - one
"""


def test_in_a_notebook_boxes_are_quotations():
    assert boxes_as_markdown(BOXES).rstrip() == QUOTED.rstrip()


@needs_chromium
def test_in_a_browser_by_keyboard(show, site):
    boxes = BeautifulSoup(site.page("docs/index.rst"), "html.parser").select(
        ".admonition-predict"
    )
    page = show(*map(str, boxes))
    assert not page.locator("form").first.is_visible()
    page.add_script_tag(content=SCRIPT.read_text())
    line, said = page.get_by_label("Your answer: x.grad"), page.locator("output").first
    assert said.get_attribute("aria-live") == "polite"
    page.keyboard.press("Tab")
    page.keyboard.type("8 6 5")
    page.keyboard.press("Enter")
    assert said.inner_text() == "2 of the 3 are right. Read on to see why."
    assert line.get_attribute("aria-invalid") == "true"
    line.fill("torch.tensor([8., 6., 4.])")
    line.press("Enter")
    assert said.inner_text() == "Right: tensor([8., 6., 4.])."
    assert line.get_attribute("aria-invalid") == "false"
    page.locator("#answer-2").fill("[1, 0]")
    page.locator("button").nth(1).click()
    assert page.inner_text("#said-2").startswith("Not yet: this v gives [1, 1, 1]")
