"""The picture that lives: its numbers, its weight, and how it behaves in a browser."""

import cProfile
import json
import math
import re
import zlib

import pytest
import torch
from axe_playwright_python.sync_playwright import Axe
from built import needs_chromium
from forks import run_code

import pullback
from pullback._live import script
from pullback.draw._svg import tidy


def sums(x):
    return torch.stack([x.sum(), (x**2).sum()])


def drawn_j(html):
    """Return the part of the picture that is J."""
    return re.search(r'<g class="pb-j.*?</g>', html)[0]


def dense(x):
    return torch.tanh(x[:, None] * x).sum(1) * x.exp()


X = torch.tensor([1.0, 2.0, 3.0])
V = torch.tensor([10.0, 1.0])
J = torch.tensor([[1.0, 1.0, 1.0], [2.0, 4.0, 6.0]])


def test_values():
    shown = pullback.live(sums, X, V)
    assert torch.equal(shown.J, J)
    assert torch.equal(shown.v, V)
    assert torch.equal(shown.result, torch.tensor([12.0, 14.0, 16.0]))
    assert torch.equal(shown.y, torch.tensor([6.0, 14.0]))
    assert torch.equal(pullback.live(sums, X).v, torch.ones(2))
    assert X.grad is None
    assert not X.requires_grad


def test_of_matrices_and_numbers():
    shown = pullback.live(lambda x: x @ x, torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert shown.J.shape == (4, 4)
    assert ">x[1, 0]</text>" in shown.html
    x = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
    shown = pullback.live(torch.square, x, torch.tensor(2.0))
    assert shown.result.tolist() == [12.0]
    assert ">y = 9</text>" in shown.html
    assert x.grad is None


def test_names():
    named = {"rows": ["heat", "fuel"], "columns": ["stove 1", "stove 2", "stove 3"]}
    html = pullback.live(sums, X, V, **named).html
    assert ">heat = 6</text>" in html
    assert ">stove 3</text>" in html
    assert "y[0]" not in html
    with pytest.raises(ValueError, match="rows has 1 names; 2 are needed"):
        pullback.live(sums, X, V, rows=["heat"])
    with pytest.raises(ValueError, match="columns has 2 names; 3 are needed"):
        pullback.live(sums, X, V, columns=["first", "second"])


def test_weight():
    """What each page carries, and what each picture of this one adds, as they are sent."""
    assert len(zlib.compress(script().encode(), 9)) <= 5 * 1024
    torch.manual_seed(0)  # some numbers with all their digits
    for dtype in (torch.float32, torch.float64):
        shown = pullback.live(dense, torch.randn(12, dtype=dtype))
        assert len(zlib.compress(json.dumps(shown.program).encode(), 9)) <= 2 * 1024
        assert len(shown.html.encode()) <= 40_000
        with_graph = pullback.live(dense, torch.randn(12, dtype=dtype), graph=True)
        assert len(zlib.compress(json.dumps(with_graph.program).encode(), 9)) <= 2 * 1024


def test_a_large_program_is_refused():
    weights = torch.randn(40, 40, generator=torch.Generator().manual_seed(0))

    def wide(x):
        return (weights @ torch.cat([x] * 10)).tanh()[:2]

    with pytest.raises(ValueError, match=r"bytes when compressed; a page can carry 2048"):
        pullback.live(wide, torch.ones(4))


def test_a_page_of_its_own(tmp_path):
    pullback.live(sums, X, V).save(tmp_path / "f.html")
    page = (tmp_path / "f.html").read_text()
    assert "{{" not in page
    assert len(zlib.compress(page.encode(), 9)) <= 10_000
    assert len(page.encode()) <= 25_000


def test_asks_for_nothing_else():
    html = pullback.live(sums, X, V).html
    assert not re.search(
        r"https?:|//\w|url\(|@import|\bsrc=|\bhref=|fetch\(|import\(", html
    )
    assert "{{" not in html
    assert " id=" not in html, "nothing that a second fragment could clash with"
    assert html == pullback.live(sums, X, V).html, "reproducible"
    assert pullback.live(sums, X, V)._repr_html_() == html


def test_infinite_and_nan_entries_are_told():
    html = pullback.live(torch.sqrt, torch.tensor([0.0, 4.0])).html
    assert ">Infinity</text>" in drawn_j(html)
    html = pullback.live(torch.sqrt, torch.tensor([-1.0, 4.0])).html
    assert ">NaN</text>" in drawn_j(html)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (12.0, "12"),
        (-1.23456, "-1.235"),
        (0.123456, "0.123"),
        (0.000123456, "1.2e-4"),
        (12345.0, "12340"),
        (1234567.0, "1.23e6"),
        (-2.5e30, "-2.50e30"),
        (math.inf, "Infinity"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
    ],
)
def test_tidy(number, text):
    assert tidy(number) == text


BAD = {
    "no function": (3, X, None, TypeError, "f is an int"),
    "integers": (sums, torch.arange(3), None, TypeError, "int64"),
    "complex": (sums, torch.ones(2, dtype=torch.complex64), None, TypeError, "x has dtype"),
    "complex y": (lambda x: x * 1j, X, None, TypeError, r"y = f\(x\) has dtype"),
    "too large": (sums, torch.ones(13), None, ValueError, "13 elements"),
    "too tall": (lambda x: torch.cat([x] * 5), X, None, ValueError, "15 elements"),
    "empty": (sums, torch.ones(0), None, ValueError, "0 elements"),
    "two results": (lambda x: (x, x), X, None, TypeError, "returned a tuple"),
    "ignores x": (lambda x: torch.ones(2), X, None, RuntimeError, "depend"),
    "v is a list": (sums, X, [1.0, 2.0], TypeError, "v is a list"),
    "v of integers": (sums, X, torch.tensor([1, 2]), TypeError, "v is of dtype"),
    "v's shape": (sums, X, torch.ones(3), ValueError, r"v has shape \(3,\).*\(2,\)"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case):
    f, x, v, kind, message = BAD[case]
    with pytest.raises(kind, match=message):
        pullback.live(f, x, v)


def test_the_input_is_called_as_f_calls_it():
    def corridor(T):
        warm = 2 * T
        return warm * warm

    shown = pullback.live(corridor, X, graph=True)
    assert "T[2]" in repr(shown)
    assert "added to T.grad" in shown.html
    assert 'aria-label="At T = [1, 2, 3], y = [4, 16, 36].' in shown.html
    assert shown.graph.steps[-1] == "T receives [8, 16, 24]."
    assert "x[0]" not in shown.html
    assert pullback.live(torch.func.grad(lambda w: (w**3).sum()), X).input == "w"
    for f in (torch.square, torch.nn.Tanh(), lambda y: 2 * y, lambda *args: 2 * args[0]):
        assert pullback.live(f, X).input == "x", "no name, or one that says something else"


# ---------------------------------------------------------------- the graph of f


def house(x):
    squares = x**2
    heat = x.sum()
    fuel = squares.sum()
    return torch.stack([heat, fuel])


def test_variables_of_f_name_the_graph():
    told = pullback.live(house, X, V, graph=True).graph.steps
    assert told[0] == "y starts with v = [10, 1]; it passes 10 to heat and 1 to fuel."
    assert told[-1] == (
        "x receives [10, 10, 10] from heat and [2, 4, 6] from squares, [12, 14, 16] in all."
    )
    assert pullback.live(house, X, V).graph is None


def test_what_the_graph_shows_elsewhere():
    """Values and cotangents as autograd gives them to who keeps the tensors."""
    x, v = (
        torch.tensor([1.0, -4.0, 0.5]).double().requires_grad_(),
        torch.tensor([2.0, -3.0]),
    )
    squares, heat = x**2, x.sum()
    fuel = squares.sum()
    along = (heat, fuel, squares, x)
    cotangents = torch.autograd.grad(torch.stack([heat, fuel]), along, v.double())
    shown = pullback.live(house, X, V, graph=True)
    answer = {tuple(t.tolist()) for t in shown.answer(x.detach(), v)}
    for t in (*along, *cotangents):
        assert tuple(t.detach().reshape(-1).tolist()) in answer


def test_under_a_profiler():
    """Which knows of calls in its own way; then variables have no names."""
    with cProfile.Profile() as profile:
        shown = pullback.live(house, X, V, graph=True)
    assert shown.result.tolist() == [12.0, 14.0, 16.0]
    assert profile.getstats()


def test_the_graph_of_a_module_is_drawn_by_module():
    torch.manual_seed(0)  # any weights will do
    block = [torch.nn.Linear(2, 2), torch.nn.Tanh(), torch.nn.Linear(2, 2)]
    net = torch.nn.Sequential(*[torch.nn.Sequential(*block, torch.nn.Tanh())] * 4)
    shown = pullback.live(net, torch.ones(2), graph=True).graph
    assert len(shown.steps) <= 24
    assert "4 operations" in shown.svg
    assert all(parameter.grad is None for parameter in net.parameters())


def rounds(x):
    for _ in range(15):
        x = (1.1 * x).sin()
    return x.sum()


def test_the_rounds_of_a_loop_are_drawn_each():
    """Not by all the operations in them; and x keeps a box of its own."""
    told = pullback.live(rounds, torch.tensor([0.5, 1.0]), graph=True).graph.steps
    assert len(told) == 17
    assert told[1].startswith("round 15 of 15 receives [1, 1]; it passes ")
    assert told[-2].startswith("round 1 of 15 ")
    assert told[-1].startswith("x receives ")
    assert not any("\N{HORIZONTAL ELLIPSIS}" in step for step in told)

    def twice(x):
        return rounds(rounds(x) * x)

    told = pullback.live(twice, torch.tensor([0.5, 1.0]), graph=True).graph.steps
    assert len(told) <= 24


def test_values_of_what_is_edited_in_place_are_those_of_their_time():
    def f(x):
        return (2 * x).relu_() * 3

    shown = pullback.live(f, torch.tensor([-1.0, 2.0]), graph=True)
    assert "[−2, 4]" in drawn_values(shown.graph), "before relu_ made [0, 4] of it"


@pytest.mark.parametrize(
    "f",
    [
        lambda x: torch.layer_norm(x, (3,)),
        lambda x: torch.group_norm(torch.stack([x, 2 * x]).reshape(1, 6), 2).reshape(6),
        lambda x: torch.sort(x).values,
        lambda x: torch.stack([x, 2 * x]).max(0).values,
        lambda x: (3 * x).unbind()[1].reshape(1),
    ],
)
def test_an_operation_with_several_results_shows_the_one_that_goes_on(f):
    """Its value, and what comes back to it, also where a page computes them anew."""
    shown = pullback.live(lambda x: f(x) ** 3, X, graph=True)
    for x in (X, torch.tensor([2.0, -1.0, 0.5])):
        value = f(x.double())
        numbers = [t.flatten().tolist() for t in shown.answer(x, shown.v)]
        for wanted in (value, 3 * value**2 * shown.v):
            assert pytest.approx(wanted.tolist()) in numbers


def drawn_values(graph):
    return re.findall(r"<text [^>]*><tspan data-at=\"\d+\">([^<]*)</tspan>", graph.svg)


# ---------------------------------------------------------------- in a browser


@needs_chromium
def test_the_graph_follows(show):
    page = show(pullback.live(house, X, V, graph=True).html)
    graph = page.locator(".pb-steps")
    page.get_by_label("x[1]", exact=True).fill("-4")
    page.get_by_label("weight of y[1]", exact=True).fill("2")
    page.get_by_text("[4, −16, 12] from squares, [14, −6, 22] in all").first.wait_for()
    texts = graph.locator("svg tspan").all_text_contents()
    assert {"[1, 16, 9]", "0", "26", "[2, 2, 2]", "[14, −6, 22]"} <= set(texts)
    graph.get_by_role("button", name="Previous").click()
    page.get_by_text("Step 4 of 5: squares receives [2, 2, 2]").wait_for()
    page.get_by_role("button", name="start again").click()
    page.get_by_text("Step 4 of 5: squares receives [1, 1, 1]").wait_for()
    told = graph.locator("svg").get_attribute("aria-label")
    assert "[2, 4, 6] from squares, [12, 14, 16] in all" in told


def result(page, way="v"):
    texts = page.locator(f".pb-by-{way} .pb-sum text").all_text_contents()
    return torch.tensor([float(text.replace("\N{MINUS SIGN}", "-")) for text in texts])


def said(page, text):
    """Wait until the live region says so."""
    page.get_by_text(text).wait_for()


@needs_chromium
def test_typing_a_weight(show):
    page = show(pullback.live(sums, X, V).html)
    assert torch.equal(result(page), V @ J)
    page.get_by_label("weight of y[1]", exact=True).fill("-2.5")
    assert torch.equal(result(page), torch.tensor([10.0, -2.5]) @ J)
    assert page.get_by_label("weight of y[1], slider").input_value() == "-2", "a step"
    said(
        page,
        "y = [6, 14]; vᵀJ = 10·[1, 1, 1] + -2.5·[2, 4, 6] = [5, 0, -5], added to x.grad",
    )


@needs_chromium
def test_a_product_that_is_no_sum_of_rows(show):
    """It is what torch gives, and the sentence makes no sum of it."""

    def clipped(x):
        y = 2 * x
        y.register_hook(lambda g: g.clamp(-1, 1))
        return y

    page = show(pullback.live(clipped, X[:2], torch.tensor([-2.0, 0.5])).html)
    said(page, "y = [2, 4]; vᵀJ = [-2, 1], added to x.grad")
    assert result(page).tolist() == [-2, 1]


@needs_chromium
def test_opens_on_a_push(show):
    u = torch.tensor([1.0, 0.0, -1.0])
    shown = pullback.live(sums, X, V, u=u, columns=["a", "b", "c"])
    assert torch.equal(shown.u, u)
    assert repr(shown) == repr(pullback.draw.jvp(J, u, columns=["a", "b", "c"]))
    quiet, live = show(shown.fragment), show(shown.html)
    assert quiet.evaluate(ROWS)[1:] == [
        ["a", "b", "c"],
        ["u", "1", "0", "−1"],
        ["×", "×", "×", "J u"],
        ["y[0] = 6", "1", "1", "1", "0"],
        ["y[1] = 14", "2", "4", "6", "−4"],
    ]
    said(live, "J u = ")
    assert live.get_by_label("J u, forward").is_checked()
    assert live.get_by_label("weight of c", exact=True).input_value() == "-1"
    live.get_by_label("vᵀJ, backward").check()
    assert torch.equal(result(live), V @ J)
    assert 'transform="translate' not in pullback.live(sums, X, V).html
    assert "At t = [1, 2, 3], y = " in pullback.live(lambda t: sums(t), X, u=u).fragment
    with pytest.raises(ValueError, match=r"u has shape .2,. and x has shape .3,.; exactly"):
        pullback.live(sums, X, V, u=V)
    with pytest.raises(TypeError, match="u is a list; a real floating point tensor"):
        pullback.live(sums, X, u=[1.0, 0.0, 0.0])


@needs_chromium
def test_an_unfinished_number_changes_nothing(show):
    page = show(pullback.live(sums, X, V).html)
    field = page.get_by_label("weight of y[0]", exact=True)
    field.fill("")
    assert torch.equal(result(page), V @ J)
    field.blur()
    assert field.input_value() == "10", "the weight that counts is shown again"


@needs_chromium
def test_a_field_keeps_what_was_typed(show):
    """As it was typed, until the number is another."""
    page = show(pullback.live(sums, X, V).html)
    field, other = (
        page.get_by_label(name, exact=True) for name in ("x[0]", "weight of y[1]")
    )
    for typed in ("1e-3", "0.10", "0.123456", "12345.678"):
        field.fill("")
        field.press_sequentially(typed)
        assert field.input_value() == typed
        other.fill("2")
        other.blur()
        assert field.input_value() == typed
    page.get_by_role("button", name="ones").click()
    assert field.input_value() == "12345.678"
    slider = page.get_by_label("x[0], slider", exact=True)
    slider.focus()
    slider.press("Home")
    assert field.input_value() == slider.get_attribute("min")


@needs_chromium
def test_keyboard(show):
    page = show(pullback.live(sums, X, V).html)
    slider = page.get_by_label("weight of y[1], slider")
    slider.focus()
    slider.press("ArrowRight")
    assert torch.equal(result(page), torch.tensor([10.0, 2.0]) @ J)
    field = page.get_by_label("weight of y[0]", exact=True)
    field.focus()
    field.press("ArrowDown")
    assert torch.equal(result(page), torch.tensor([9.0, 2.0]) @ J)
    field.press("Enter")
    assert torch.equal(result(page), torch.tensor([9.0, 2.0]) @ J), "no form is sent"


@needs_chromium
def test_wheel_and_drag(show):
    page = show(pullback.live(sums, X, V).html)
    slider = page.get_by_label("weight of y[1], slider")
    box = slider.bounding_box()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(*middle)
    page.mouse.wheel(0, -100)
    assert torch.equal(result(page), V @ J), "the page scrolls until the slider is chosen"
    slider.focus()
    page.mouse.wheel(0, -100)
    page.wait_for_function("document.querySelector('.pb-sum text').textContent !== '12'")
    assert torch.equal(result(page), torch.tensor([10.0, 2.0]) @ J)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"], middle[1])
    page.mouse.up()
    assert torch.equal(result(page), torch.tensor([10.0, 20.0]) @ J)


@needs_chromium
def test_presets(show):
    page = show(pullback.live(sums, X, V).html)

    def press(name):
        page.get_by_role("button", name=name).click()
        pressed = page.locator("button[aria-pressed=true]").all_text_contents()
        assert pressed == [name]
        return result(page)

    assert torch.equal(press("ones"), torch.ones(2) @ J)
    assert torch.equal(press("one-hot"), J[0])
    assert torch.equal(press("one-hot"), J[1]), "the next output"
    assert torch.equal(press("one-hot"), J[0])
    assert torch.equal(press("mean"), J.mean(0))
    assert torch.equal(press("own"), V @ J)
    page.get_by_label("weight of y[0]", exact=True).fill("3")
    press("ones")
    assert torch.equal(press("own"), torch.tensor([3.0, 1.0]) @ J), "what was set by hand"


@needs_chromium
def test_forward(show):
    page = show(pullback.live(sums, X, V).html)
    page.get_by_label("J u, forward").check()
    assert torch.equal(result(page, "u"), J[:, 0])
    assert not page.locator(".pb-by-v .pb-sum text").first.is_visible()
    page.get_by_label("weight of x[2]", exact=True).fill("2")
    u = torch.tensor([1.0, 0.0, 2.0])
    expected = torch.func.jvp(sums, (X,), (u,))[1]
    assert torch.equal(result(page, "u"), expected)
    said(
        page,
        "y = [6, 14]; J u = 1·[1, 2] + 0·[1, 4] + 2·[1, 6] = [3, 14], "
        "the change of y along u",
    )
    page.get_by_role("button", name="ones").click()
    assert torch.equal(result(page, "u"), J.sum(1))
    page.get_by_label("vᵀJ, backward").check()
    assert torch.equal(result(page), V @ J), "v is as it was"


ROWS = """() => {
  const rows = {};
  for (const text of document.querySelectorAll("svg text")) {
    const box = text.getBoundingClientRect();
    if (box.width) (rows[Math.round((box.y + box.height / 2) / 6)] ??= [])
      .push([box.x, text.textContent]);
  }
  return Object.entries(rows).sort(([a], [b]) => a - b)
    .map(([_, row]) => row.sort((a, b) => a[0] - b[0]).map(([_, word]) => word));
}"""


@needs_chromium
def test_the_picture_without_scripts(show):
    page = show(pullback.live(sums, X, V).html, scripts=False)
    svg = pullback.draw.vjp(V, J).svg
    quiet = show(pullback.live(sums, X, V).fragment)
    assert quiet.evaluate(ROWS) == [
        ["x", "1", "2", "3"],
        ["v", "x[0]", "x[1]", "x[2]"],
        ["y[0] = 6", "10", "×", "1", "1", "1"],
        ["y[1] = 14", "1", "×", "2", "4", "6"],
        ["vᵀJ", "12", "14", "16"],
    ]
    drawn = show(svg).evaluate(ROWS)
    shown = [[re.sub(" = .*", "", word) for word in row] for row in quiet.evaluate(ROWS)]
    assert shown[1:] == drawn, "what draw.vjp draws, under x"
    told = page.get_by_role("img").get_attribute("aria-label")
    assert told == (
        "At x = [1, 2, 3], y = [6, 14]. v = [10, 1] stands beside the rows of J. "
        "10 times y[0] [1, 1, 1] plus 1 times y[1] [2, 4, 6] gives vᵀJ = [12, 14, 16]."
    )
    assert page.locator("button").first.is_hidden(), "no control that does nothing"


@needs_chromium
def test_the_script_draws_what_python_drew(show):
    torch.manual_seed(0)  # numbers of many sizes, the same each time
    x = torch.randn(6, dtype=torch.float64) * torch.logspace(-5, 3, 6, dtype=torch.float64)
    for v in (None, torch.linspace(-30, 5, 6, dtype=torch.float64)):
        html = pullback.live(lambda x: x**3 * x.flip(0), x, v).html
        read = """[...document.querySelectorAll(".pb-by-v rect, .pb-by-v text, .pb-j *")]
          .map(e => [e.getAttribute("class") ?? "", e.textContent])"""
        quiet = show(re.sub(r"<script>.*</script>", "", html, flags=re.S)).evaluate(read)
        page = show(html)
        page.evaluate(
            "document.querySelectorAll('.pb-sum text').forEach(e => e.textContent = '')"
        )
        page.evaluate(
            "document.querySelectorAll('rect').forEach(e => (e.className.baseVal = 'no'))"
        )
        page.get_by_role("button", name="own").click()
        assert page.evaluate(read) == quiet
        fields = page.locator("input[type=number].pb-by-v").all()
        weights = torch.ones(6) if v is None else v
        assert [field.input_value() for field in fields] == [
            tidy(w) for w in weights.tolist()
        ]


@needs_chromium
@pytest.mark.parametrize("way", ["v", "u"])
def test_controls_stand_in_their_cells(show, way):
    page = show(pullback.live(sums, X, V).html, width=360)
    page.locator(f"input[value={way}]").check()
    rects = page.locator(f".pb-by-{way} .pb-v rect").all()
    cells = [rect.bounding_box() for rect in rects]
    fields = page.locator(f"input[type=number].pb-by-{way}").all()
    sliders = page.locator(f"input[type=range].pb-by-{way}").all()
    assert len(cells) == len(fields) == len(sliders) == (2 if way == "v" else 3)
    for cell, field, slider in zip(cells, fields, sliders, strict=True):
        for box in field.bounding_box(), slider.bounding_box():
            assert cell["x"] - 1 <= box["x"]
            assert box["x"] + box["width"] <= cell["x"] + cell["width"] + 1
            assert cell["y"] - 1 <= box["y"]
            assert box["y"] + box["height"] <= cell["y"] + cell["height"] + 1


@needs_chromium
def test_two_on_a_page_do_not_meddle(show):
    html = pullback.live(sums, X, V).html
    page = show(html, html)
    first, second = page.locator("form").all()
    first.get_by_label("J u, forward").check()
    second.get_by_label("weight of y[0]", exact=True).fill("0")
    assert first.get_by_label("J u, forward").is_checked()
    assert second.get_by_label("vᵀJ, backward").is_checked()
    assert torch.equal(result(first, "u"), J[:, 0])
    assert torch.equal(result(second), J[1])


@needs_chromium
@pytest.mark.parametrize("way", ["vᵀJ, backward", "J u, forward"])
def test_a_phone(show, way):
    torch.manual_seed(0)  # some numbers
    page = show(pullback.live(dense, torch.randn(8)).html, width=360)
    page.get_by_label(way).check()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    for control in page.locator("button:visible, input[type=range]:visible").all():
        box = control.bounding_box()
        assert min(box["width"], box["height"]) >= 24, "large enough to be touched"


@needs_chromium
def test_every_control_has_a_name(show):
    page = show(pullback.live(sums, X, V).html)
    controls = page.locator("input, button")
    names = page.evaluate(
        "[...document.querySelectorAll('input, button')].map(e =>"
        " e.getAttribute('aria-label') || e.closest('label')?.textContent || e.textContent)"
    )
    assert controls.count() == len(names) == 2 + 5 + 2 * 2 + 2 * 3 + 2 * 3
    assert all(len(name.strip()) > 2 for name in names)
    assert len(set(names)) == len(names)
    assert page.locator("output").get_attribute("aria-live") == "polite"


@needs_chromium
def test_moving_x(show):
    """F, its J and the product follow, in both ways."""
    page = show(pullback.live(sums, X, V).html)
    page.get_by_label("x[1]", exact=True).fill("-4")
    x = torch.tensor([1.0, -4.0, 3.0])
    after = torch.func.jacrev(sums)(x)
    assert torch.equal(result(page), V @ after)
    assert numbers(page, ".pb-j text") == after.flatten().tolist()
    assert page.locator(".pb-by-v .e text").all_text_contents() == ["y[0] = 0", "y[1] = 26"]
    said(
        page,
        "y = [0, 26]; vᵀJ = 10·[1, 1, 1] + 1·[2, -8, 6] = [12, 2, 16], added to x.grad",
    )
    page.get_by_label("J u, forward").check()
    assert torch.equal(result(page, "u"), after[:, 0])
    slider = page.get_by_label("x[0], slider", exact=True)
    slider.focus()
    slider.press("End")
    assert page.get_by_label("x[0]", exact=True).input_value() == "5"
    assert torch.equal(result(page, "u"), torch.tensor([1.0, 10.0]))
    page.get_by_role("button", name="start again").click()
    page.get_by_label("vᵀJ, backward").check()
    assert torch.equal(result(page), V @ J)
    assert numbers(page, ".pb-j text") == J.flatten().tolist()


def numbers(page, selector):
    texts = page.locator(selector).all_text_contents()
    return [float(text.replace("\N{MINUS SIGN}", "-")) for text in texts]


@needs_chromium
def test_what_has_no_derivative_is_shown(show):
    page = show(pullback.live(torch.sqrt, torch.tensor([1.0, 4.0])).html)
    page.get_by_label("x[0]", exact=True).fill("0")
    assert page.locator(".pb-j text").first.text_content() == "Infinity"
    page.get_by_label("x[0]", exact=True).fill("-1")
    assert page.locator(".pb-j text").first.text_content() == "NaN"
    assert page.locator(".pb-by-v .e text").first.text_content() == "y[0] = NaN"


@needs_chromium
def test_a_page_of_its_own_in_a_browser(browser, tmp_path):
    """Its policy lets the script run that it has, and nothing else."""
    pullback.live(house, X, V, graph=True).save(tmp_path / "f.html")
    page, errors = browser.new_page(), []
    page.on("console", lambda message: errors.append(message.text))
    page.goto((tmp_path / "f.html").as_uri())
    page.get_by_label("x[1]", exact=True).fill("-4")
    assert result(page).tolist() == [12.0, 2.0, 16.0]
    assert errors == []
    page.evaluate("""() => {
      const other = document.createElement("script");
      other.textContent = "window.other = 1";
      document.body.append(other);
    }""")
    assert page.evaluate("window.other") is None
    assert "Content Security Policy" in errors[0]
    page.close()


@needs_chromium
def test_accessible(browser, tmp_path):
    pullback.live(house, X, V, graph=True).save(tmp_path / "f.html")
    page = browser.new_page()
    page.goto((tmp_path / "f.html").as_uri())
    for way in ("vᵀJ, backward", "J u, forward"):
        page.get_by_label(way).check()
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            found = Axe().run(page)
            assert found.violations_count == 0, found.generate_report()
    page.close()


def test_in_several_threads():
    """Also while Python waits, in each thread, for what listens to profile functions."""
    code = """
import sys, time
from concurrent.futures import ThreadPoolExecutor
import torch, pullback

def wait(event, _):
    if event == "sys.setprofile":
        time.sleep(0.01)

x = torch.ones(2, dtype=torch.float64)
lives = [pullback.live(torch.square, x, x, graph=True) for _ in range(8)]
sys.addaudithook(wait)
with ThreadPoolExecutor(8) as pool:
    print({live[1].tolist()[0] for live in pool.map(lambda live: live.answer(x, x), lives)})
"""
    ran = run_code(code)
    assert (ran.stdout, ran.stderr) == ("{2.0}\n", "")


@needs_chromium
def test_two_functions_on_a_page(show):
    other = pullback.live(lambda x: x.softmax(0), torch.zeros(2))
    page = show(pullback.live(sums, X, V).html, other.html)
    first, second = page.locator("form").all()
    second.get_by_label("x[0]", exact=True).fill("100")
    assert result(second).tolist() == [0.0, 0.0]
    assert numbers(second, ".pb-j text") == [0.0, -3.7e-44, -3.7e-44, 3.7e-44]
    assert torch.equal(result(first), V @ J)
