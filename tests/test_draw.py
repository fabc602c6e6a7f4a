"""What each drawing says as text and to those who do not see it, and how it looks."""

import re

import pytest
import torch
from built import needs_chromium

import pullback
from pullback import draw
from pullback.draw._svg import (
    DIGIT,
    LEGIBLE,
    NARROW,
    WORD,
    Scale,
    opacity,
    text_width,
    tidy,
)

J = torch.tensor([[1.0, 1.0, 1.0], [2.0, 4.0, 6.0]])
V = torch.tensor([10.0, -1.0])
A = torch.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, -1.0], [1.0, 1.0, 0.0]])
B = torch.tensor([[1.0, 2.0, 0.0], [0.0, 3.0, 1.0]])
BY_HAND = [
    ("x", "heat", [10.0, 10.0, 10.0]),
    ("x", "fuel", [-2.0, -4.0, -6.0]),
    ("heat", "worth", 10.0),
    ("fuel", "worth", -1.0),
]
WORTH = {"x": [1.0, 2.0, 3.0], "heat": 6.0, "fuel": 14.0, "worth": 46.0}


def house():
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    heat, fuel = x.sum(), (x**2).sum()
    y = torch.stack([heat, fuel])
    names = {"x": x, "heat": heat, "fuel": fuel, "y": y}
    return pullback.trace(y, V, names=names), names


PLAN = pullback.sparsity(lambda x: x[1:] * x[:-1], torch.ones(8))
COLUMNS = pullback.sparsity(
    lambda x: torch.cat([x[1:] * x[:-1], x[1:] - x[:-1], x]), torch.ones(8)
)
DRAWINGS = {
    "vjp": draw.vjp(V, J, rows=["heat", "fuel"], result_name="x.grad"),
    "vjp, tints": draw.vjp(torch.arange(20.0) - 9, torch.arange(600.0).reshape(20, 30)),
    "jvp": draw.jvp(J, [1.0, 0.0, 2.0]),
    "jvp, tints": draw.jvp(torch.arange(600.0).reshape(30, 20) - 7, torch.ones(20)),
    "accumulate": draw.accumulate([1, 1, 1], [2, 4, 6]),
    "chain, back": draw.chain(B, A, v=V),
    "chain, forward": draw.chain(B, A, u=[1.0, 0.0, -1.0]),
    "chain, tints": draw.chain(torch.ones(2, 8), torch.ones(8, 20), v=V),
    "graph": draw.graph(*house()),
    "graph by hand": draw.graph(BY_HAND, WORTH, v=1.0),
    "graph, cut": draw.graph(
        [("x", "y", [8.0, 6.0, 4.0]), ("y", "loss", V)], v=1.0, cut=[("y", "loss")]
    ),
    "dependence": draw.dependence(torch.block_diag(*[torch.ones(2, 3)] * 3), samples=3),
    "mixing": draw.dependence(pullback.mixing(lambda x: x.cumsum(0), torch.ones(4))),
    "compression of rows": draw.compression(PLAN),
    "compression of columns": draw.compression(COLUMNS),
    "shapes": draw.shapes((8, 3, 4), (2, 2)),
    "cost": draw.cost((2, 6)),
    "bars": draw.bars({"prices": [8.0, 6.0, 4.0], "ones": [3.0, 5.0, -7.0]}),
}
every_drawing = pytest.mark.parametrize("name", DRAWINGS)


def words(drawing):
    """Return the words of a picture, each in its order."""
    return re.findall(r"<text[^>]*>([^<]*)</text>", drawing.svg)


def in_cells(drawing, kind):
    group = re.search(rf'<g class="{kind} n".*?</g>', drawing.svg)[0]
    texts = re.findall(r">([^<]+)</text>", group)
    return [float(text.replace("\N{MINUS SIGN}", "-")) for text in texts]


# ---------------------------------------------------------------- numbers


def test_vjp_draws_v_the_matrix_and_their_product():
    shown = DRAWINGS["vjp"]
    assert in_cells(shown, "pb-v") == V.tolist()
    assert in_cells(shown, "pb-j") == J.flatten().tolist()
    assert in_cells(shown, "pb-sum") == (V @ J).tolist()
    assert {"heat", "fuel", "x[0]", "x[2]", "x.grad = vᵀJ", "v"} <= set(words(shown))
    assert repr(shown).splitlines()[-1].split() == ["x.grad", "8", "6", "4"]
    assert shown.alt == (
        "v = [10, -1] stands beside the rows of J. 10 times heat [1, 1, 1] plus -1 times "
        "fuel [2, 4, 6] gives x.grad = [8, 6, 4]."
    )


def test_vjp_of_tensors_is_that_of_backward():
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = x @ x
    v = torch.tensor([[1.0, -2.0], [0.5, 3.0]])
    with torch.no_grad():
        jacobian = pullback.jacobian(y, x)
    y.backward(v)
    shown = draw.vjp(v, jacobian)
    assert in_cells(shown, "pb-sum") == x.grad.flatten().tolist()
    assert "x[1, 0]" in words(shown)


def test_jvp_draws_u_the_matrix_and_their_product():
    shown, u = DRAWINGS["jvp"], torch.tensor([1.0, 0.0, 2.0])
    assert in_cells(shown, "pb-v") == u.tolist()
    assert in_cells(shown, "pb-j") == J.flatten().tolist()
    assert in_cells(shown, "pb-sum") == (J @ u).tolist()
    assert "gives J u = [3, 14]." in shown.alt


def test_accumulate_adds():
    shown = DRAWINGS["accumulate"]
    assert in_cells(shown, "pb-sum") == [3, 5, 7]
    assert shown.alt.endswith("added up, x.grad is [3, 5, 7].")


def test_chain_multiplies_from_either_side():
    back, forward = repr(DRAWINGS["chain, back"]), repr(DRAWINGS["chain, forward"])
    for vector, text in (
        (V @ B, back),
        (V @ B @ A, back),
        (A @ torch.tensor([1.0, 0.0, -1.0]), forward),
        (B @ A @ torch.tensor([1.0, 0.0, -1.0]), forward),
    ):
        assert f"[{', '.join(map(tidy, vector.tolist()))}]" in text
    assert back.splitlines()[-1] == (
        "15 multiplications; 24 if the matrices are multiplied first"
    )


def test_graph_tells_what_arrives():
    traced, names = house()
    shown = draw.graph(traced, names)
    assert (
        shown.steps[0] == "y starts with v = [10, -1]; it passes 10 to heat and -1 to fuel."
    )
    assert shown.steps[-1].endswith("[8, 6, 4] in all.")
    assert {"[1, 2, 3]", "6", "14", "[8, 6, 4]"} <= set(words(shown))
    by_hand = draw.graph(BY_HAND, WORTH, v=1.0)
    assert by_hand.steps[-1] == (
        "x receives [10, 10, 10] from heat and [-2, -4, -6] from fuel, [8, 6, 4] in all."
    )
    assert "across the cut" in repr(DRAWINGS["graph, cut"])


def test_dependence_names_what_mixes():
    assert "each output depends on its own sample alone" in DRAWINGS["dependence"].alt
    assert "3 of 4 outputs depend on another sample" in DRAWINGS["mixing"].alt
    assert repr(DRAWINGS["mixing"]).splitlines()[-1].split() == [
        *("y[3]", "mix", "mix", "mix", "yes")
    ]


@pytest.mark.parametrize("plan", [PLAN, COLUMNS], ids=["rows", "columns"])
def test_compression_keeps_every_entry_twice(plan):
    tiles = re.findall(r'<rect class="k(\d)"', draw.compression(plan).svg)
    assert len(tiles) == 2 * int(plan.pattern.values().sum())
    assert {int(tile) for tile in tiles} == set(range(plan.n_colors))


def test_shapes_cost_and_bars():
    assert "(8, 3, 4, 2, 2)" in DRAWINGS["shapes"].alt
    assert "2 products in reverse mode, 6 in forward mode" in DRAWINGS["cost"].alt
    assert DRAWINGS["bars"].alt == "Bars. prices: [8, 6, 4]; ones: [3, 5, -7]."


# ---------------------------------------------------------------- looks


def test_one_scale_for_all_of_a_figure():
    shown = DRAWINGS["vjp"].svg
    tints = dict(re.findall(r'<rect class="(\w+)"[^>]*/><text[^>]*>([^<]+)<', shown))
    by_number = {text: tint for tint, text in tints.items()}
    assert by_number["10"] == "tP", "the largest of v, J and the result"
    assert by_number["\N{MINUS SIGN}1"].startswith("u")
    assert re.search(r'<rect class="tG"[^>]*/><text[^>]*>4<', shown), "4 in J"
    assert shown.count(f'class="{Scale(V.tolist()).tint(4.0)}"') == 2, "and in the result"


def luminance(color):
    parts = [c / 255 for c in color]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize(
    ("theme", "paper", "ink"),
    [("light", (255, 255, 255), (0, 0, 0)), ("dark", (19, 20, 22), (207, 208, 208))],
)
def test_numbers_keep_their_contrast(theme, paper, ink):
    sheet = pullback.draw._svg.style()
    hues = re.findall(r"--(?:plus|minus):#(\w{6})", sheet)
    hues = hues[:2] if theme == "light" else hues[2:]
    hues += re.findall(r"\.k[2-5]\{fill:#(\w{6})", sheet)
    assert len(hues) >= 6
    for hue in hues:
        color = [int(hue[i : i + 2], 16) for i in (0, 2, 4)]
        over = [
            opacity(15) * c + (1 - opacity(15)) * p
            for c, p in zip(color, paper, strict=True)
        ]
        one, other = sorted((luminance(over), luminance(ink)))
        assert (other + 0.05) / (one + 0.05) >= 4.5, hue


@every_drawing
def test_digits_are_legible_on_a_phone(name):
    drawing = DRAWINGS[name]
    least = re.search(r"min-width:(\d+)px", drawing.svg)
    shown_at = max(min(drawing.width, NARROW), int(least[1]) if least else 0)
    assert WORD * shown_at / drawing.width >= LEGIBLE
    assert shown_at <= NARROW, "no common picture scrolls"


@every_drawing
def test_says_what_it_shows(name):
    drawing = DRAWINGS[name]
    assert drawing.alt.endswith(".")
    assert len(drawing.alt.split()) > 4
    assert 'role="img"' in drawing.svg
    assert repr(drawing) == drawing.text
    assert not re.search(r"https?:|url\(|<script| id=", drawing.svg)
    assert drawing._repr_html_() == drawing.html


def test_alt_text_can_be_given_and_is_escaped():
    shown = draw.vjp(V, J, rows=["<b>", '"c"'], alt='a "b" <c>')
    assert 'aria-label="a &quot;b&quot; &lt;c&gt;"' in shown.svg
    assert "<b>" not in shown.svg


def test_weight():
    assert len(DRAWINGS["vjp"].svg) <= 6_000
    assert all(len(drawing.svg) <= 30_000 for drawing in DRAWINGS.values())


def test_save(tmp_path):
    DRAWINGS["vjp"].save(tmp_path / "vjp.svg")
    from xml.etree import ElementTree

    root = ElementTree.parse(tmp_path / "vjp.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"


def test_widths_of_text_are_on_the_wide_side():
    assert text_width("-12.35", DIGIT) >= 6 * 0.5 * DIGIT


@pytest.mark.parametrize(
    ("error", "told", "call"),
    [
        (ValueError, r"v has shape \(1,\)", lambda: draw.vjp([1.0], J)),
        (ValueError, r"u has shape \(2,\)", lambda: draw.jvp(J, V)),
        (TypeError, "complex64; real", lambda: draw.vjp(V, J * 1j)),
        (TypeError, "J is an object", lambda: draw.vjp(V, object())),
        (ValueError, "rows has 1 names; 2", lambda: draw.vjp(V, J, rows=["a"])),
        (ValueError, "J is 41 × 1", lambda: draw.vjp(torch.ones(41), torch.ones(41, 1))),
        (ValueError, "no gradients", lambda: draw.accumulate()),
        (ValueError, "one shape", lambda: draw.accumulate([1.0], [1.0, 2.0])),
        (TypeError, "one of v", lambda: draw.chain(A)),
        (ValueError, "can be multiplied", lambda: draw.chain(A, B, v=[1.0, 2.0, 3.0])),
        (ValueError, "no edges", lambda: draw.graph([])),
        (ValueError, "cycle", lambda: draw.graph([("a", "b", 1), ("b", "a", 1)])),
        (ValueError, "cut names", lambda: draw.graph(BY_HAND, cut=[("x", "worth")])),
        (ValueError, "divide", lambda: draw.dependence(J, samples=4)),
        (ValueError, "both at least 1", lambda: draw.cost((0, 2))),
        (ValueError, "one shape", lambda: draw.bars({"a": [1.0], "b": [1.0, 2.0]})),
        (ValueError, "one shape", lambda: draw.bars({})),
    ],
)
def test_refusals(error, told, call):
    with pytest.raises(error, match=told):
        call()


# ---------------------------------------------------------------- in a browser


@needs_chromium
def test_texts_stay_in_the_picture_and_apart(show):
    page = show(*(drawing.html for drawing in DRAWINGS.values()), width=360)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    outside, overlaps = page.evaluate("""() => {
      const outside = [], overlaps = [];
      for (const svg of document.querySelectorAll("svg")) {
        const frame = svg.getBoundingClientRect();
        const texts = [...svg.querySelectorAll("text")]
          .map(e => [e.textContent, e.getBoundingClientRect()]);
        for (const [text, box] of texts)
          if (box.left < frame.left - 1 || box.right > frame.right + 1 ||
              box.top < frame.top - 3 || box.bottom > frame.bottom + 3) outside.push(text);
        texts.forEach(([a, p], i) => texts.slice(0, i).forEach(([b, q]) => {
          if (p.left < q.right - 1 && q.left < p.right - 1 &&
              p.top < q.bottom - 4 && q.top < p.bottom - 4) overlaps.push([a, b]);
        }));
      }
      return [outside, overlaps];
    }""")
    assert outside == []
    assert overlaps == []


@needs_chromium
def test_walking_back_through_a_graph(show):
    drawing = draw.graph(*house(), steps=True)
    page = show(drawing.html, width=360)
    shown = (
        "[...document.querySelectorAll('.pb-back')].map(e => getComputedStyle(e).opacity)"
    )
    ended = "Promise.all(document.getAnimations().map(a => a.finished)).then(() => null)"
    said = page.locator("output").first

    def visible():
        page.evaluate(ended)  # the change of opacity
        return page.evaluate(shown).count("1")

    assert said.text_content() == f"Step 1 of 5: {drawing.steps[0]}"
    first = visible()
    page.get_by_role("button", name="Next").click()
    assert said.text_content() == f"Step 2 of 5: {drawing.steps[1]}"
    assert first < visible()
    page.keyboard.press("End")
    assert said.text_content() == f"Step 5 of 5: {drawing.steps[-1]}"
    assert visible() == len(page.evaluate(shown))
    page.keyboard.press("ArrowLeft")
    assert said.text_content() == f"Step 4 of 5: {drawing.steps[-2]}"
    still = show(drawing.html, scripts=False)
    assert set(still.evaluate(shown)) == {"1"}, "a still picture shows all of it"
    assert still.locator("button:visible").count() == 0
    assert still.locator("li").all_text_contents() == list(drawing.steps)


@needs_chromium
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_ink_is_that_of_the_page(show, scheme):
    page = show(
        f'<div style="color: rgb(1, 2, 3)">{DRAWINGS["vjp"].html}</div>',
        color_scheme=scheme,
    )
    read = "[...document.querySelectorAll('text')].map(e => getComputedStyle(e).fill)"
    assert set(page.evaluate(read)) == {"rgb(1, 2, 3)"}
    hue = "getComputedStyle(document.querySelector('.pb-v rect')).fill"
    assert (
        page.evaluate(hue)
        == {
            "light": "rgb(100, 80, 200)",
            "dark": "rgb(138, 118, 240)",
        }[scheme]
    )
