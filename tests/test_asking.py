"""Predictions: what is read from a page's output, what is typed, and what is answered."""

import gzip
import json
import random
import re
from textwrap import dedent
from types import SimpleNamespace

import pytest
from axe_playwright_python.sync_playwright import Axe
from bs4 import BeautifulSoup
from built import PAGES, SITE, article, needs_chromium, needs_site
from docutils import nodes
from executed import ROOT
from py_mini_racer import MiniRacer
from sites import Site, conf, write

import asking
import pullback
from doors import imgsgnode
from markdown_pages import as_markdown
from printed import slack, values
from wheel import boxes_as_markdown

SCRIPT = ROOT / "docs" / "_static" / "asking.js"
TYPED = SCRIPT.with_name("typed.js")  # which that one loads


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


def verdicts(cases):
    """Return what the script says to each (typed, asks), or (typed, asks, label)."""
    with MiniRacer() as racer:
        racer.eval(f"const module = {{}};\n{TYPED.read_text(encoding='utf-8')}")
        each = f"{json.dumps(cases)}.map((one) => module.exports.verdict(...one))"
        return json.loads(racer.eval(f"JSON.stringify({each})"))


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
        "1.0", "1.",
    )),
    *((SIGNS, typed) for typed in (
        "- 0 + +", "-0++", "-, 0, +, +", "−, 0, +, +", "[-1, 0, 1, 3]", "-1 0 1 1",
        "negative, zero, positive, positive", "minus zero plus plus", "-0.5 0 2 2",
    )),
    *((HOUSE, typed) for typed in (
        "torch.ones_like(y)", "ones(2)", "[1, 1]", "1 1", "v = torch.tensor([1., 1.])",
        "ones", "torch.ones", "one and one", "1 ; 1",
    )),
    *((EARNED, typed) for typed in (
        "eight, six, four", "8,6,4.", "8 and 6 and 4", "it is 8, 6 and 4", "8; 6; 4",
        "[10, 10, 10] - [2, 4, 6]", "10 - 2, 10 - 4, 10-6", "10*[1,1,1] - [2,4,6]",
    )),
    *((asks("value", [], [9]), typed) for typed in (
        "2+3+4", "2 + 3 + 4", "nine", "9 pushes", "about 9", "it is 9.", "9 times",
        "ten - 1",
        "no error, 9", "without an error: 9",
    )),
    *((asks("value", [], [-4]), typed) for typed in ("−4", "–4", "minus 4", "minus four")),
    *((asks("value", [], [1 / 3]), typed) for typed in (
        "1/3", "⅓", "2⁄6", "a third", "one third", "0.3333",
    )),
    *((asks("value", [], [2 / 3]), typed) for typed in ("two thirds", "2/3", "⅔")),
    *((asks("value", [], [1000]), typed) for typed in (
        "1,000", "1000", "a thousand", "thousand pulls", "one thousand",
    )),
    *((asks("value", [2, 1], [6, 28]), typed) for typed in (
        "6 28", "[6, 28]", "[[6], [28]]", "6 and 28",
    )),
    *((SHAPE | {"numbers": [3, 3]}, typed) for typed in (
        "no error, (3, 3)", "3 by 3", "3 rows and 3 columns", "it is (3, 3)",
        "no error: 3x3", "three by three",
    )),
    *((SHAPE, typed) for typed in (
        "same as points", "the shape of points", "points's shape", "like points",
    )),
    *((ONE, typed) for typed in ("two", "(2, )", "shape (2,)")),
    *((SHAPE | {"numbers": []}, typed) for typed in ("()", "[]", "torch.Size([])")),
    *((LARGEST | {"place": 2}, typed) for typed in (
        "the last", "third", "stove 3", "3rd", "the last one", "stove three", "x[2]",
    )),
    *((SIGNS, typed) for typed in (
        "down, zero, up, up", "-1, 0, 1, 1", "minus, 0, plus, plus",
    )),
    *((asks("signs", [3], [1, 2, 3]), typed) for typed in (
        "all positive", "+ + +", "all of them +", "they all go up",
    )),
]  # fmt: skip
NONE_OF_THEM = asks("value", [], [10]) | {
    "wrong": [{"shape": [], "numbers": [0], "slack": [0.05], "said": "Nothing is kept."}]
}
LABELLED = [
    (LARGEST | {"place": 1}, "house 1", "the house, counted from 0"),
    (LARGEST | {"place": 1}, "1", "the house, counted from 0"),
    (LARGEST | {"place": 1}, "the second", "the house, counted from 0"),
    (asks("value", [2], [2, 1001]), "2 million, 1001 million", "both, in millions"),
    (asks("value", [], [10]), "10000000", "kept, in millions"),
    (asks("value", [], [10]), "10 million", "kept, in millions"),
    (asks("value", [], [4]), "4/9", "ninths"),
    (asks("value", [], [4]), "four ninths", "ninths"),
    (asks("value", [2], [0, -4]), "heat 0, fuel -4", "the rates of heat and fuel"),
]


def test_every_way_of_writing_a_right_answer():
    cases = [(expected, typed, "") for expected, typed in RIGHT] + LABELLED
    told = verdicts([[typed, expected, label] for expected, typed, label in cases])
    wrong = [
        (t, said)
        for (_, t, _), said in zip(cases, told, strict=True)
        if said[:5] != "Right"
    ]
    assert wrong == []


GIVES = "Not yet: this v gives [2, 4, 6], and [3, 5, 7] is asked for."
WRONG = [
    (EARNED, "[8, 6, 5]", "2 of the 3 are right. Read on"),
    (EARNED, "1 2 3", "Not so. Read on"),
    (EARNED, "[8, 6]", "You wrote 2 numbers, and 3 are asked for."),
    (EARNED, "8", "You wrote one number, and 3 are asked for."),
    (EARNED, "[[8, 6, 5]]", "Yours has the shape (1, 3), and the answer has (3,)."),
    (EARNED, "torch.Size([3])", "That is a shape, and numbers are asked for."),
    (EARNED, "(4, 3)", "That looks like a shape, and 3 numbers are asked for."),
    (EARNED, "(3,)", "That is a shape, and numbers are asked for."),
    (EARNED, "4 6 8", "Not so. The numbers are right, in another order. Read on"),
    (EARNED, "-8 -6 -4", "Not so. Each number has the other sign. Read on"),
    (EARNED, "16 12 8", "Not so. Each number is 2 times the right one. Read on"),
    (EARNED, "9 7 5", "Not so. Each number is 1 too large. Read on"),
    (asks("value", [], [81]), "80", "Not so. The answer is larger. Read on"),
    (EARNED, "an error", "Not so. There is no error. Read on"),
    (EARNED, "no error", "No error, indeed."),
    (EARNED, "None", "Not so. It is not None. Read on"),
    (EARNED, "not 8, 6, 4", "Not read"),
    (EARNED, "8, 6, 4 or 4, 6, 8", "Not read"),
    (asks("value", [], [9]), "more than 9", "Not read"),
    (asks("value", [], [9]), "row 9", "Not read"),
    (asks("value", [], [9]), "9 or 10", "Not read"),
    (asks("value", [], [9]), "9,0", "You wrote 2 numbers, and one is asked for."),
    (asks("value", [], [9]), "-9", "Not so. The sign is the other one. Read on"),
    (asks("value", [2, 2], [1, 2, 3, 4]), "[[1, 3], [2, 4]]", "Not so. Rows and columns"),
    (SHAPE, "2.5", "A shape is asked for"),
    (SHAPE, "torch.tensor([81., 2.])", "A shape is asked for"),
    (SHAPE, "(2, 81)", "Not (2, 81). The sizes are right, in another order. Read on"),
    (LARGEST, "not the first", "Not read"),
    (LARGEST, "stove 7", "There are 3 of them."),
    (LARGEST, "2.0", "Not the second."),
    *(
        (LARGEST | {"wrong": [{"is": 2, "said": "Ones."}]}, typed, "Not read. Write which")
        for typed in ("0.5", "-1", "1,2", "1 2", "yes", "[[8], [6]]", "1e3", "½")
    ),
    (asks("value", [2], [10, -8.2857]), "10 -8", "1 of the 2"),
    (asks("value", [], [81]), "80.5", "Not so."),
    (SHAPE, "(81, 1)", "(81, 1) is the shape of y. Read on"),
    (SHAPE, "y.shape", "(81, 1) is the shape of y."),
    (SHAPE, "81", "Not (81,): the answer has 2 dimensions. Read on"),
    (ONE, "(2, 1)", "Not (2, 1): the answer has one dimension. Read on"),
    (LARGEST, "the third", "Not the third."),
    (LARGEST, "x[1]", "Not the second."),
    (LARGEST, "[4, 6, 7]", "1 of the 3"),
    (SIGNS, "+ 0 + +", "3 of the 4 signs are right. Read on"),
    (SIGNS, "+ + - -", "Not these signs."),
    (SIGNS, "- 0 +", "You wrote 3 signs, and 4 are asked for."),
    (HOUSE, "[1, 0]", "Not yet: this v gives [1, 1, 1], and [3, 5, 7] is asked for."),
    (HOUSE, "[2, 2]", "Not yet: this v gives [6, 10, 14], and [3, 5, 7] is asked for."),
    (HOUSE, "[0, 1]", f"{GIVES} A single 1 takes one row."),
    (
        HOUSE | {"wanted": [1, 1, 1]},
        "ones",
        "Not yet: this v gives [3, 5, 7], and [1, 1, 1] is"
        " asked for. Ones add up all rows.",
    ),
    (HOUSE, "3 5 7", "Mismatch in shape: v has the shape (3,), and y has (2,). These are"),
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


def test_what_is_said_to_a_wrong_answer():
    told = verdicts([[typed, expected] for expected, typed, _ in WRONG])
    said = [
        (t, s)
        for (_, t, begins), s in zip(WRONG, told, strict=True)
        if not s.startswith(begins)
    ]
    assert said == []


GUESSED = [
    {"shape": [3], "numbers": [3, 5, 7], "said": "Ones give this."},
    {"shape": [], "numbers": [1 / 3], "slack": [0.01], "said": "A part."},
    {"shape": [2, 3], "numbers": [1, 1, 1, 2, 4, 6], "said": "The table."},
]
KNOWN = [
    (EARNED, "3 5 7", "Not so. Ones give this. Read on to see why."),
    (EARNED, "three, five, seven", "Not so. Ones give this. Read on to see why."),
    (EARNED, "1/3", "Not so. A part. Read on to see why."),
    (EARNED, "[[1, 1, 1], [2, 4, 6]]", "Not so. The table. Read on to see why."),
    (EARNED, "8 6 4", "Right: tensor([8., 6., 4.])."),
    (SHAPE | {"wrong": [{"is": [2], "said": "Of y."}]}, "(2,)", "Not so. Of y. Read on"),
    (
        LARGEST | {"wrong": [{"is": 2, "said": "Ones."}]},
        "last",
        "Not the third. Ones. Read",
    ),
    (
        SIGNS | {"wrong": [{"is": [1, 0, 1, 1], "said": "Up."}]},
        "+0++",
        "Not so. Up. Read on",
    ),
    (HOUSE, "1 0", "Not yet: this v gives [1, 1, 1], and [3, 5, 7] is asked for. Heat."),
    (
        {"kind": "choice", "right": 1, "said": ["It runs.", ""]},
        "0",
        "Not so. It runs. Read on",
    ),
    ({"kind": "choice", "right": 1, "said": ["It runs.", ""]}, "1", "Right."),
    ({"kind": "choice", "right": 1, "said": ["It runs.", ""]}, "", "Choose one first."),
]


@pytest.mark.parametrize("typed", ["2", "5", "100", "seven", "99999"])
def test_a_number_of_millions_may_be_small(typed):
    """It is a few millions, and not next to none."""
    (said,) = verdicts([[typed, NONE_OF_THEM, "kept, in millions"]])
    assert said.startswith("Not so. The answer is")


def test_a_wrong_guess_that_is_known_is_told_what_it_is():
    heat = {"wrong": [{"shape": [2], "numbers": [1, 0], "said": "Heat."}]}
    cases = [
        [
            typed,
            asks
            | (heat if asks is HOUSE else {"wrong": GUESSED} if asks is EARNED else {}),
        ]
        for asks, typed, _ in KNOWN
    ]
    told = verdicts(cases)
    said = [
        (t, s)
        for (_, t, begins), s in zip(KNOWN, told, strict=True)
        if not s.startswith(begins)
    ]
    assert said == []


def written(rng, numbers):
    """Return one of the ways to write these numbers."""
    words = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    inside = [
        ", ".join(map(str, numbers)),
        " ".join(map(str, numbers)),
        "; ".join(map(str, numbers)),
        " and ".join(map(str, numbers)),
        ", ".join(f"{n + 1} - 1" for n in numbers),
        ", ".join(f"{2 * n}/2" for n in numbers),
        ", ".join(words[n] if 0 <= n < 10 else str(n) for n in numbers),
        ", ".join(f"minus {-n}" if n < 0 else str(n) for n in numbers),
    ]
    text = rng.choice(inside)
    around = ["{}", "{}.", "it is {}", "no error, {}", "about {}", "{} pushes"]
    if not re.search("[a-z;]", text):
        around += ["[{}]", "({})", "torch.tensor([{}])", "x.grad = [{}]", "[{}] * 1"]
    return rng.choice(around).format(text)


def test_no_wrong_guess_is_told_right():
    """And every right one is, however it is written."""
    rng = random.Random(0)
    cases, right = [], []
    for _ in range(6000):
        size = rng.randint(1, 4)
        answer = [rng.randint(-12, 12) for _ in range(size)]
        guess = rng.choice([
            [n + rng.choice([-1, 1]) * rng.choice([1, 2, 10]) for n in answer],
            [-n for n in answer],
            answer[::-1],
            answer[:-1] or [13],
            [*answer, rng.randint(-3, 3)],
            [rng.randint(-12, 12) for _ in range(size)],
            answer,
        ])  # fmt: skip
        shape = [] if size == 1 else [size]
        cases.append([written(rng, guess), asks("value", shape, answer)])
        one = len(guess) == 1 and {*answer} == {*guess}  # it stands for all
        right.append(guess == answer or one)
    told = verdicts(cases)
    wrong = [
        (text, asked["numbers"], said)
        for (text, asked), said, is_right in zip(cases, told, right, strict=True)
        if said.startswith("Right") and not is_right
    ]
    assert wrong == []
    missed = [
        (text, asked["numbers"], said)
        for (text, asked), said, is_right in zip(cases, told, right, strict=True)
        if is_right and not said.startswith("Right")
    ]
    assert missed == []
    assert 500 < sum(right) < 3000


def in_lists(numbers, shape):
    """Return numbers as nested lists of a shape."""
    if not shape:
        return numbers[0]
    size = len(numbers) // shape[0]
    parts = (numbers[i * size : (i + 1) * size] for i in range(shape[0]))
    return [in_lists(part, shape[1:]) for part in parts]


def typed_for(guess, kind):
    """Return what a reader types for a wrong guess."""
    if kind == "largest":
        return f"x[{guess['is']}]"
    if kind == "signs":
        return " ".join("-0+"[sign + 1] for sign in guess["is"])
    if kind == "shape":
        return f"torch.Size({guess['is']})"
    return str(in_lists(guess["numbers"], guess["shape"]))


@needs_site
@pytest.mark.parametrize("chapter", ["01_gradient_argument", "02_jacobians"])
def test_every_question_of_the_course_knows_wrong_guesses(chapter):
    """Each of them is told what it is; and numbers that are none of them are not right."""
    rng, cases, begins = random.Random(0), [], []
    for file in sorted((SITE / "auto_examples" / chapter).glob("*.html")):
        for form in article(file).select("form[data-asks]"):
            asked, label = (
                json.loads(form["data-asks"]),
                form.select_one("label, legend").text,
            )
            if asked["kind"] == "choice":
                assert all(s for i, s in enumerate(asked["said"]) if i != asked["right"])
                continue
            assert asked.get("wrong"), (file.name, label)
            for guess in asked["wrong"]:
                cases.append([typed_for(guess, asked["kind"]), asked, label])
                begins.append(guess["said"])
            if asked["kind"] == "value":
                for _ in range(50):
                    size = len(asked["numbers"])
                    numbers = [
                        n + rng.choice([-3, -1, 1, 2, 10, 0.5]) * (1 + abs(n))
                        for n in asked["numbers"]
                    ]
                    cases.append([str(in_lists(numbers, [size])), asked, label])
                    begins.append(None)
    assert len(cases) > 500
    wrong = [
        (typed, label, said)
        for (typed, _, label), said, told in zip(
            cases, verdicts(cases), begins, strict=True
        )
        if (told or "") not in said or said.startswith("Right")
    ]
    assert wrong == []


ODD = """
    ; ;0;1;-1;2.0;0.5;-0.5;1e3;1e999;1/0;1,2;1 2;[1, 2];[1, 2, 3];(2,);(3, 4);();[];[[]]
    [[1, 2], [3, 4]];[[1], [2, 3]];[1;1];three;the first;last;12th;row 2;2 or 3;not 2;3 x 4
    yes;True;None;nan;inf;an error;no error;hello world;???;<b>;a<b, c>d;½;⅞;−3;0x10;一;.;/
    x;v;A;x[0];x[9];x[-1];y.shape;eye(3)[9];eye(3)[0][0][0];ones(2)[0];ones(0);eye(-1)
    torch.ones_like(y);zeros_like(nothing);ones_like();ones(1.5);ones(ones(2));full(2)
    full([2], [1]);one_hot(0);one_hot([0], 2);one_hot(-1, -1);eye();tensor();tensor([])
    zeros();+ - 0;all positive;constructor;__proto__;toString;[1,2] / [1,2];stove 2.0
"""


@needs_site
def test_whatever_is_typed_gets_a_reply():
    """At each question of the site, and nothing is thrown."""
    typed = [text for line in ODD.splitlines() for text in line.strip().split(";")]
    questions = [
        (json.loads(form["data-asks"]), form.select_one("label, legend").text)
        for path in PAGES
        if "data-asks" in (SITE / path).read_text(encoding="utf-8")
        for form in article(SITE / path).select("form[data-asks]")
    ]
    assert {asked["kind"] for asked, _ in questions} >= {"largest", "choice", "shape"}
    told = verdicts([[text, *question] for question in questions for text in typed])
    assert [said for said in told if not said or "undefined" in said] == []


def test_the_scripts_are_small_and_evaluate_nothing():
    """The first comes with the page, the second behind it."""
    for script, most in (SCRIPT, 1700), (TYPED, 6300):
        text = script.read_text()
        assert len(gzip.compress(text.encode(), 9)) <= most
        assert not re.search(r"\beval\b|\bFunction\b|innerHTML", text)


def test_a_drawing_carries_what_it_shows():
    drawn = pullback.draw.vjp([10.0, -1.0], [[1.0, 1.0, 1.0], [2.0, 4.0, 6.0]]).html
    data = BeautifulSoup(drawn, "html.parser").div["data-numbers"]
    assert json.loads(data) == {"v": [10, -1], "J": [[1, 1, 1], [2, 4, 6]]}
    drawn = pullback.draw.vjp([float("inf")], [[1.0]]).html
    assert "data-numbers" not in drawn


CONF = conf(
    "asking", html_static_path=[str(SCRIPT.parent)], html_css_files=["pullback.css"]
)
OUTPUT = """
    .. rst-class:: sphx-glr-script-out

     .. code-block:: none

        {}
    """
DRAWING = """
    .. raw:: html

        <div data-numbers="{&quot;v&quot;:[1,1],&quot;J&quot;:[[1,1,1],[2,4,6]]}"></div>
    """


CODE = """
    .. code-block:: Python

        {}
    """
SAYS = """
    .. raw:: html

        <svg role="img" width="90" height="60" aria-label="It gives x.grad = {}."></svg>
    """
DROPDOWN = """
    .. dropdown:: {}

       Inside.

"""


def page(*parts):
    return "Page\n====\n" + "\n".join(dedent(part) for part in parts)


ASKED = """
    .. predict::
       {}

       What is it? ``y`` has the shape ``(2,)``.
    """


VEILED = [
    "First\n-----",
    ASKED.format(":for: x.grad"),
    CODE.format("x.grad"),
    OUTPUT.format("tensor([8., 6., 4.])"),
    ".. _reason:\n\nIt is *eight* first.",
    CODE.format("draw(other)"),
    SAYS.format("[8, 6, 5]"),
    "So much for another.",
    CODE.format("draw(it)"),
    SAYS.format("[8, 6, 4]"),
    "It was drawn.",
    "\nSecond\n------",
    ASKED.format(":value: 1\n       :code:\n       :also: of three; Third; a note"),
    CODE.format("the(answer)"),
    OUTPUT.format("3 of 4"),
    "Three.",
    DROPDOWN.format("Why three?"),
    "Three it is.",
    "\n====  ====\nOne   Two\n====  ====\nPart  of three\n====  ====\n",
    "No more.\n\nA third.\n\nThird.\n\n.. A comment of sphinx-gallery\n",
    SAYS.format("what is noted in a note"),
    "\nThird\n-----",
    ASKED.format(":for: y"),
    DROPDOWN.format("The answer"),
    OUTPUT.format("5"),
    ASKED.format(":for: z"),
    OUTPUT.format("6"),
    "- six",
]


CHOSEN = """
    .. predict::
       :expects: choice
       :for: what happens
       :wrong: {}

       What happens?

       - It runs
       - It is refused
    """
TOLD = [
    ASKED.format(
        ":for: x.grad\n       :wrong: ones: Ones ``give``\n          this.; a part: Half."
    ),
    OUTPUT.format("tensor([8., 6., 4.])"),
    CHOSEN.format("It runs: There is an error."),
    OUTPUT.format("Error"),
    DROPDOWN.format("How we checked this page"),
    OUTPUT.format("ones: tensor([3., 5., 7.]) a part: 0.5"),
    OUTPUT.format("It runs: False"),
    OUTPUT.format("It is refused: True"),
]


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
    (site.folder / "docs" / "veiled.rst").write_text(":orphan:\n\n" + page(*VEILED))
    (site.folder / "docs" / "told.rst").write_text(":orphan:\n\n" + page(*TOLD))
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


def test_wrong_guesses_are_read_from_what_the_page_prints(site):
    soup = BeautifulSoup(site.page("docs/told.rst"), "html.parser")
    first, second = (
        json.loads(form["data-asks"]) for form in soup.select("form[data-asks]")
    )
    ones, part = first["wrong"]
    assert ones == {"shape": [3], "numbers": [3, 5, 7], "said": "Ones give this."}
    assert part == {"shape": [], "numbers": [0.5], "slack": [0.05], "said": "Half."}
    assert second["right"] == 1
    assert second["said"] == ["There is an error.", ""]
    assert [label.text.strip() for label in soup.select("fieldset label")] == [
        "It runs",
        "It is refused",
    ]
    assert soup.select_one("legend").text == "Your answer: what happens"


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
    (":also: two", OUTPUT.format("2"), "nothing after the question"),
    (":expects: nothing", OUTPUT.format("[2, 2]"), "Error in"),
    (":wrong: ones", OUTPUT.format("2"), "Error in"),
    (":wrong: ones: A.", OUTPUT.format("2"), "prints 0 values of 'ones'"),
    (":wrong: one: A.", OUTPUT.format("2") + OUTPUT.format("one 2"), "same as the answer"),
    (
        ":wrong: one: A.; two: B.",
        OUTPUT.format("2") + OUTPUT.format("one 1") + OUTPUT.format("two 1"),
        "'two' is the same as one",
    ),
    (
        ":wrong: one: A.",
        OUTPUT.format("2") + OUTPUT.format("one 1") + OUTPUT.format("one 3"),
        "prints 2 values of 'one'",
    ),
    (
        ":expects: shape\n       :wrong: one: A.",
        OUTPUT.format("[1, 2]") + OUTPUT.format("one torch.Size([2])"),
        "same as the answer",
    ),
    (
        ":expects: largest\n       :wrong: one: A.",
        OUTPUT.format("[1, 2]") + OUTPUT.format("one [3, 4]"),
        "same as the answer",
    ),
    (
        ":expects: signs\n       :wrong: one: A.",
        OUTPUT.format("[1, -2]") + OUTPUT.format("one [3, -4]"),
        "same as the answer",
    ),
    (
        ":expects: v\n       :wrong: one: A.",
        DRAWING + OUTPUT.format("one [1, 1]"),
        "same as the answer",
    ),
    (":expects: choice", OUTPUT.format("2"), "has 0 lists to choose from"),
    (
        None,
        CHOSEN.format("It runs: A.") + OUTPUT.format("It runs: False"),
        "prints 0 values",
    ),
    (
        None,
        CHOSEN.format("It runs: A.")
        + OUTPUT.format("It runs: True")
        + OUTPUT.format("It is refused: True"),
        "one of ['It runs', 'It is refused'] has to be True",
    ),
    (
        None,
        CHOSEN.format("It is refused: A.")
        + OUTPUT.format("It runs: False")
        + OUTPUT.format("It is refused: True"),
        "wrong has to say",
    ),
]


def test_an_answer_that_cannot_be_read_stops_the_build(tmp_path):
    site = Site(tmp_path)
    write(tmp_path, {"docs/conf.py": CONF, "docs/index.rst": "Home\n====\n"})
    for number, (options, after, _) in enumerate(UNREADABLE):
        asked = [] if options is None else [ASKED.format(options)]
        text = ":orphan:\n\n" + page(*asked, after)
        (tmp_path / "docs" / f"page_{number}.rst").write_text(text)
    site.build("-n", "-W", "--keep-going", fails=True)
    for number, (_, _, said) in enumerate(UNREADABLE):
        (found,) = re.findall(rf"page_{number}\.rst:.*(?:ERROR|WARNING): (.*)", site.said)
        assert said in found


@pytest.mark.parametrize("part", ["docs/chosen.rst", "chose"])
def test_a_page_that_is_chosen_says_what_cannot_be_read(part, tmp_path):
    """``execution_pages`` is a part of its path; the others may lack their outputs."""
    site = Site(tmp_path)
    chosen = f"\nexecution_pages = {part!r}\n"
    value = """
def setup(app):
    app.add_config_value("execution_pages", "all", "")
"""
    write(tmp_path, {"docs/conf.py": CONF + chosen + value})
    text = ":orphan:\n\n" + page(ASKED.format(":for: v"), "Nothing is printed.")
    for name in ("index", "chosen", "other"):
        (tmp_path / "docs" / f"{name}.rst").write_text(text)
    site.build(fails=True)
    assert re.findall(r"(\w+)\.rst:.*no output follows", site.said) == ["chosen"]


BOXES = """\
Text.

.. predict::
   :wrong: ones: That is
         the sum.
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
    page.add_script_tag(content=TYPED.read_text() + SCRIPT.read_text())
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


def texts(*parts):
    """Return what is in parts of a page: what a drawing says, and all text."""
    found = []
    for part in parts:
        for drawing in part.select("svg"):
            drawing.replace_with(drawing["aria-label"])
        found.append(" ".join(part.get_text(" ").split()))
    return found


def test_what_tells_an_answer_is_under_its_cover(site):
    """The output, the text behind it, what has its numbers; code where it is told."""
    soup = BeautifulSoup(site.page("docs/veiled.rst"), "html.parser")
    assert [veil["data-of"] for veil in soup.select(".veil")] == [
        "1",
        "1",
        "2",
        "2",
        "2",
        "4",
    ]
    assert texts(*soup.select(".veil")) == [
        "tensor([8., 6., 4.]) It is eight first.",
        "It gives x.grad = [8, 6, 4].",
        "the ( answer ) 3 of 4 Three.",
        "One Two Part of three",
        "Third. It gives x.grad = what is noted in a note.",
        "6 six",
    ]


@pytest.mark.parametrize(
    ("text", "numbers", "has"),
    [
        ("gives x.grad = [8, 6, 4].", [8, 6, 4], True),
        ("tensor([[1., 8.], [6., 4.]])", [8, 6, 4], True),
        ("[0, -0.119, 0.81]", [-0.1192, 0.8068], True),
        ("[8, 6, 5]", [8, 6, 4], False),
        ("[8, 6]", [8, 6, 4], False),
        ("8, 6 and 4", [8, 6, 4], False),
        ("[8, 6, 4]", [8], False),
    ],
)
def test_what_shows_the_numbers_of_an_answer(text, numbers, has):
    assert asking.has_numbers(text, numbers) == has


def test_what_the_question_shows_is_no_answer():
    """Later outputs that repeat its numbers stay as they are."""

    def block(text):
        return nodes.literal_block(text, text, classes=["sphx-glr-script-out"])

    for asks, covered in ("Is it [1, 2]?", ["[1, 2]"]), ("What?", ["[1, 2]", "[0, 1, 2]"]):
        line = asking.asked("", options={}, asks={"kind": "value"}, number=1)
        box = nodes.admonition("", nodes.paragraph("", asks), line)
        code = nodes.literal_block("f()", "f()")
        nodes.section("", box, block("[1, 2]"), code, block("[0, 1, 2]"))
        assert [node.astext() for node in asking.what_tells(line, [1, 2])] == covered


def test_a_plot_before_what_its_cell_printed_is_covered_with_it():
    line = asking.asked("", options={}, asks={"kind": "value"}, number=3)
    box, plot, other = nodes.admonition("", line), imgsgnode(), imgsgnode()
    code = nodes.literal_block("f()", "f()")
    output = nodes.literal_block("4", "4", classes=["sphx-glr-script-out"])
    section = nodes.section(
        "", box, other, code, plot, output, nodes.paragraph("", "Four.")
    )
    asking.cover(line, [*asking.what_tells(line, [4])])
    (veil,) = section.findall(asking.veil)
    assert veil.children[:2] == [plot, output]
    assert other.parent is section


def test_a_cell_of_a_notebook_keeps_its_code():
    """Its output is covered, and the text that follows the cell."""

    def block(text):
        return nodes.literal_block(text, text)

    code = nodes.container("", block("f(x)"), nb_element="cell_code_source")
    output = nodes.container("", block("4"), nb_element="cell_code_output")
    cell = nodes.container("", code, output, nb_element="cell_code")
    line = asking.asked("", options={}, asks={"kind": "value"}, number=7)
    box = nodes.admonition("", line)
    section = nodes.section("", box, cell, nodes.paragraph("", "Four."))
    asking.cover(line, [*asking.what_tells(line, [4])])
    assert [veil.astext() for veil in section.findall(asking.veil)] == ["4", "Four."]
    assert code.parent is cell


def test_a_book_and_markdown_know_no_covers(site):
    soup = BeautifulSoup(site.page("docs/veiled.rst"), "html.parser").section
    with_covers = as_markdown(str(soup))
    for veil in soup.select(".veil"):
        veil.div.unwrap()
        veil.unwrap()
    assert as_markdown(str(soup)).split() == with_covers.split()
    book = SimpleNamespace(builder=SimpleNamespace(name="book"), body=[])
    asking.open_veil(book, asking.veil("", of=1))
    asking.close_veil(book, asking.veil())
    assert book.body == []


@pytest.fixture
def veiled(opened, site):
    """Open the page with covers."""

    def veiled(hash="", scripts=True, **options):
        page = opened(scripts, **options)
        page.goto((site.html / "veiled.html").as_uri() + hash)
        if scripts:  # what a focus loads is there
            page.add_script_tag(content=TYPED.read_text())
        return page

    return veiled


def covers(page):
    """Return of which boxes what tells the answer is out of sight."""
    parts = page.locator(".veil > div").all()
    shown = [part.locator("> :first-child").is_visible() for part in parts]
    assert shown == [part.get_attribute("hidden") is None for part in parts]
    assert shown == [part.locator("~ button").count() == 0 for part in parts]
    return [
        part.locator("..").get_attribute("data-of")
        for part, seen in zip(parts, shown, strict=True)
        if not seen
    ]


EVERY = ["1", "1", "2", "2", "2", "4"]
ALL = "Show all"


@needs_chromium
def test_a_checked_answer_uncovers_what_it_is_about(veiled):
    page = veiled()
    assert covers(page) == EVERY
    line = page.locator("#answer-1")
    for unread in "", "eight", "[8, 6]":
        line.fill(unread)
        line.press("Enter")
        assert covers(page) == EVERY, "it may be typed again"
    line.fill("8 6 5")
    line.press("Enter")
    assert page.inner_text("#said-1") == "2 of the 3 are right. Read on to see why."
    assert covers(page) == EVERY[2:]
    assert line.evaluate("line => line === document.activeElement")
    page.fill("#answer-2", "3")
    page.locator("form button").nth(1).click()
    assert covers(page) == ["4"]


@needs_chromium
@pytest.mark.parametrize("width", [360, 1280])
def test_a_choice_by_keyboard_and_touch(browser, site, width):
    """It is a group of buttons with a name; what reads the answer comes behind the page."""
    context = browser.new_context(viewport={"width": width, "height": 700}, has_touch=True)
    page, loaded = context.new_page(), []
    page.on("request", lambda request: loaded.append(request.url.rpartition("/")[2]))
    page.goto((site.html / "told.html").as_uri())
    assert "typed.js" not in loaded
    assert not page.locator("ul.choices").is_visible()
    group = page.get_by_role("group", name="Your answer: what happens")
    assert group.get_by_role("radio").count() == 2
    button, said = page.locator("form button").nth(1), page.locator("#said-2")
    button.click()
    page.wait_for_function("document.querySelector('#said-2').textContent")
    assert said.inner_text() == "Choose one first."
    assert loaded.count("typed.js") == 1
    group.get_by_role("radio").first.focus()
    page.keyboard.press("Space")
    page.keyboard.press("Enter")
    page.wait_for_function("document.querySelector('#said-2').textContent.includes('Not')")
    assert said.inner_text() == "Not so. There is an error. Read on to see why."
    assert page.get_by_text("Error", exact=True).is_visible()
    group.get_by_text("It is refused").tap()
    button.tap()
    page.wait_for_function("document.querySelector('#said-2').textContent === 'Right.'")
    for label in group.locator("label").all():
        assert label.bounding_box()["height"] >= 24
    page.fill("#answer-1", "3 5 7")
    page.press("#answer-1", "Enter")
    page.wait_for_function("document.querySelector('#said-1').textContent")
    assert page.inner_text("#said-1") == "Not so. Ones give this. Read on to see why."
    assert loaded.count("typed.js") == 1
    found = Axe().run(
        page, context="form", options={"rules": {"region": {"enabled": False}}}
    )
    assert found.violations_count == 0, found.generate_report()
    page.emulate_media(media="print")
    assert page.locator("ul.choices").is_visible()
    assert not page.locator("fieldset").is_visible()
    context.close()


@needs_chromium
def test_a_choice_without_scripts_is_a_list(browser, site):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((site.html / "told.html").as_uri())
    assert page.get_by_text("It is refused", exact=True).first.is_visible()
    assert not page.locator("fieldset").is_visible()
    context.close()


@needs_chromium
def test_answers_are_read_without_a_network(browser, site):
    """Once the page has loaded; also where only trusted types make scripts."""
    context = browser.new_context()
    page = context.new_page()
    policy = "default-src 'self'; style-src 'self' 'unsafe-inline'; "
    policy += "require-trusted-types-for 'script'"

    def answer(route):
        path = route.request.url.removeprefix("http://site.test/").partition("?")[0]
        headers = {"Content-Security-Policy": policy}
        route.fulfill(path=site.html / path, headers=headers)

    page.route("**/*.*", answer)
    with page.expect_response("**/typed.js"):
        page.goto("http://site.test/told.html")
    page.wait_for_function("() => 'verdict' in window")
    context.set_offline(True)
    page.route("**/*", lambda route: route.abort())
    page.fill("#answer-1", "8 6 4")
    page.press("#answer-1", "Enter")
    page.wait_for_function("document.querySelector('#said-1').textContent")
    assert page.inner_text("#said-1").startswith("Right")
    context.close()


@needs_chromium
def test_an_answer_after_another_gets_its_own_reply(show, site):
    box = BeautifulSoup(site.page("docs/index.rst"), "html.parser").select("form")[0]
    page = show(str(box))
    page.add_script_tag(content=TYPED.read_text() + SCRIPT.read_text())
    line, said = page.locator("#answer-1"), page.locator("#said-1")
    for typed, told in ("8 6 4", "Right"), ("hello", "Not read"), ("8 6 4", "Right"):
        line.fill(typed)
        line.press("Enter")
        assert said.inner_text().startswith(told)


@needs_chromium
def test_what_reads_answers_may_not_come(browser, site):
    """Then it is said, and the next try loads it again."""
    page = browser.new_page()
    page.route("**/typed.js", lambda route: route.abort())
    page.goto((site.html / "told.html").as_uri())
    page.fill("#answer-1", "8 6 4")
    page.press("#answer-1", "Enter")
    page.wait_for_function("document.querySelector('#said-1').textContent")
    assert page.inner_text("#said-1").startswith("Not checked")
    assert page.locator(".veil > [hidden]").count() == 2
    page.unroute("**/typed.js")
    page.press("#answer-1", "Enter")
    page.wait_for_function(
        "document.querySelector('#said-1').textContent.includes('Right')"
    )
    page.close()


@needs_chromium
def test_a_v_may_be_tried_again(show, site):
    """What a wrong v gives is told, and what the right one is, not yet."""
    box = BeautifulSoup(site.page("docs/index.rst"), "html.parser").select("form")[1]
    page = show(str(box), '<div class="veil" data-of="2"><div><p>Ones.</p></div></div>')
    page.add_script_tag(content=TYPED.read_text() + SCRIPT.read_text())
    for typed, seen in ("[1, 0]", False), ("[1, 1]", True):
        page.fill("#answer-2", typed)
        page.press("#answer-2", "Enter")
        assert page.get_by_text("Ones.").is_visible() == seen


@needs_chromium
@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_moves_when_a_cover_goes(veiled, width):
    """It is as high as what it covers, also in a window that has become narrower."""
    page = veiled(viewport={"width": 500, "height": 700})
    page.set_viewport_size({"width": width, "height": 700})
    ends = "all => all.map((e) => e.getBoundingClientRect().bottom + scrollY)"
    before = page.locator("section > *").evaluate_all(ends)
    button = page.locator(".veil > div + button").first
    box = button.bounding_box()
    assert min(box["height"], box["width"]) >= 40
    assert box["height"] >= page.locator(".veil").first.bounding_box()["height"]
    button.click()
    page.get_by_role("button", name=ALL).click()
    assert covers(page) == []
    assert page.locator("section > *").evaluate_all(ends) == before
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@needs_chromium
def test_a_cover_by_keyboard_and_for_a_screen_reader(veiled):
    """It is a button that has not been opened; what it covers is not read out."""
    page = veiled()
    tree = page.locator(".veil").first.aria_snapshot()
    assert "or show it" in tree
    assert "tensor" not in tree
    button = page.locator(".veil > button").first
    assert button.get_attribute("aria-expanded") == "false"
    button.focus()
    page.keyboard.press("Enter")
    assert covers(page) == EVERY[2:]
    assert page.evaluate("document.activeElement.innerText").startswith("tensor([8.")
    assert page.locator(".veil").first.aria_snapshot().count("tensor") == 1
    found = Axe().run(
        page, context=".veil", options={"rules": {"region": {"enabled": False}}}
    )
    assert found.violations_count == 0, found.generate_report()


@needs_chromium
def test_all_at_once(veiled):
    """Offered once, in the first cover, while there are others of other boxes."""
    page = veiled()
    button = page.get_by_role("button", name=ALL)
    assert page.locator(".veil > div ~ button ~ button").count() == button.count() == 1
    page.locator(".veil > div + button").first.click()
    assert page.locator(".veil").nth(2).get_by_role("button").count() == 2
    button.click()
    assert covers(page) == []
    page = veiled("#reason")
    page.locator(".veil > div + button").first.click()
    assert covers(page) == ["4"]
    assert page.get_by_role("button", name=ALL).count() == 0


@needs_chromium
@pytest.mark.parametrize(
    ("hash", "left"),
    [
        ("#page", EVERY),
        ("#none", EVERY),
        ("#%", EVERY),
        ("#reason", EVERY[2:]),
        ("#first", EVERY[2:]),
        ("#second", ["1", "1", "4"]),
    ],
)
def test_who_comes_by_a_link_to_a_part_reads_it(veiled, hash, left):
    assert covers(veiled(hash)) == left


@needs_chromium
def test_a_link_and_a_search_on_the_page_uncover(veiled):
    page = veiled()
    page.evaluate(
        """() => new Promise((done) => {
          addEventListener("hashchange", () => done(), { once: true });
          location.hash = "second";
        })"""
    )
    assert covers(page) == EVERY, "its heading is not what was covered"
    page.evaluate("location.hash = 'reason'")
    page.wait_for_function("document.querySelectorAll('.veil > [hidden]').length === 4")
    assert covers(page) == EVERY[2:]
    page = veiled("#:~:text=It%20is%20eight", viewport={"width": 800, "height": 200})
    page.wait_for_function("document.getElementById('reason').checkVisibility()")
    assert covers(page) == EVERY[2:]
    page.wait_for_function(
        "Math.abs(document.getElementById('reason').getBoundingClientRect().top) < 200"
    )


@needs_chromium
def test_a_browser_that_cannot_look_under_a_cover(browser, site):
    """There the height needs no help, and a link to what is covered opens it, too."""
    page = browser.new_page()
    page.add_init_script("delete window.onbeforematch")
    page.goto((site.html / "veiled.html").as_uri())
    part = page.locator(".veil > div").first
    assert part.get_attribute("hidden") == ""
    assert not page.get_by_text("eight").is_visible()
    height = part.bounding_box()["height"]
    assert height > 40
    page.evaluate("location.hash = 'reason'")
    page.get_by_text("eight").wait_for(state="visible")
    assert part.bounding_box()["height"] == height
    page.close()


@needs_chromium
def test_on_paper_and_without_scripts_nothing_is_covered(veiled):
    page = veiled()
    assert not page.get_by_text("eight").is_visible()
    page.emulate_media(media="print")
    assert page.get_by_text("eight").is_visible()
    assert page.get_by_text("Three.", exact=True).is_visible()
    assert page.locator(".veil > button:visible").count() == 0
    page = veiled(scripts=False)
    assert page.get_by_text("eight").is_visible()
    assert page.locator(".veil > button").count() == 0
