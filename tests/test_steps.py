"""Backward step by step: the order, the sentences, and the buttons in a browser."""

import copy
import re
from itertools import combinations

import pytest
import torch
from built import needs_chromium

import pullback
from pullback._cotangents import numbers


def graph():
    """L = 10 - (w3 w1 a + w4 w2 a), in which a is reached by two edges."""
    values = {"a": 4.0, "w1": 2.0, "w2": 5.0, "w3": 9.0, "w4": 7.0}
    t = {name: torch.tensor(value, requires_grad=True) for name, value in values.items()}
    b, c = t["w1"] * t["a"], t["w2"] * t["a"]
    L = 10 - (t["w3"] * b + t["w4"] * c)
    return L, {**t, "b": b, "c": c, "L": L}


def walk():
    L, names = graph()
    return pullback.trace(L, names=names).steps()


def wide(numbers):
    """A graph as large as can be shown, with cotangents of that many numbers."""
    torch.manual_seed(0)  # numbers with all their digits
    leaves = {f"parameter {i}": torch.randn(numbers, requires_grad=True) for i in range(8)}
    y = torch.randn(numbers)
    for leaf in leaves.values():
        y = (y * leaf).sin()
    return pullback.trace(y, torch.randn(numbers), names=leaves).steps()


def test_every_edge_once_and_nothing_is_passed_on_before_all_has_arrived():
    L, names = graph()
    traced = pullback.trace(L, names=names)
    steps = traced.steps().steps
    assert [edge for step in steps for edge in step.passed] == list(traced.edges)
    seen = set()
    for step in steps:
        assert seen >= {edge[:2] for edge in step.received}
        assert {edge.target for edge in step.received} <= {step.node}
        seen |= {edge[:2] for edge in step.passed}
    assert [step.node for step in steps if step.node in {n.name for n in traced.nodes}] == [
        node.name for node in traced.nodes
    ]
    gradients = torch.autograd.grad(L, [names[leaf.name] for leaf in traced.leaves])
    last = {step.node: step for step in steps if not step.passed}
    assert set(last) == {leaf.name for leaf in traced.leaves}
    for leaf, gradient in zip(traced.leaves, gradients, strict=True):
        assert sum(edge.value for edge in last[leaf.name].received) == gradient


def test_sentences():
    told = {step.node: step.sentence for step in walk().steps}
    assert told["v"] == "v = 1 starts at L."
    assert told["L"] == "L (Rsub) receives 1 from v; it passes -1 to Add."
    assert told["w4"] == "w4 receives -20 from Mul #2; backward adds it to .grad."
    assert "-35 from c" in told["a"]
    assert "-18 from b" in told["a"]
    assert told["a"].endswith(", -53 in all; backward adds it to .grad.")


def test_what_an_operation_receives_is_added_up():
    x = torch.tensor(3.0, requires_grad=True)
    y = x.exp()
    y.register_hook(lambda v: 10 * v)
    traced = pullback.trace(y * 2 + y * 5, names={"x": x, "y": y})
    (node,) = [node for node in traced.nodes if node.name == "y"]
    assert node.received[0] == 70, "after the hook"
    (step,) = [step for step in traced.steps().steps if step.node == "y"]
    assert "70 in all" in step.sentence
    copy = node.received[0].clone()
    node.received[0].zero_()
    assert pullback.trace(y, names={"y": y}).nodes[0].received[0] == 10 != copy


def test_several_outputs_and_several_roots():
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    p, q, _ = x.unbind()
    told = repr(pullback.trace([p * q, p], [None, torch.tensor(5.0)]).steps())
    assert "v[0] = 1 starts at Mul." in told
    assert "v[1] = 5 starts at Unbind." in told
    assert "each at one of its 3 outputs; it passes [7, 1, 0] to leaf" in told


def test_a_root_that_is_a_leaf():
    x = torch.tensor(2.0, requires_grad=True)
    steps = pullback.trace(x, names={"x": x}).steps().steps
    assert [step.sentence for step in steps] == [
        "v = 1 starts at x.",
        "x receives 1 from v; backward adds it to .grad.",
    ]


def test_nothing_and_many_numbers():
    class Half(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            return a * b

        @staticmethod
        def backward(ctx, g):
            return 2 * g, None

    a, b = (torch.ones(4, 5, requires_grad=True) for _ in range(2))
    told = repr(pullback.trace(Half.apply(a, b).sum(), names={"a": a, "b": b}).steps())
    assert "b receives nothing from Half; backward adds nothing to .grad." in told
    assert "a receives (4, 5) of norm 8.944 from Half; backward adds it to .grad." in told


@pytest.mark.parametrize("numbers", [1, 12, 13])
def test_weight_of_the_largest(numbers):
    steps = wide(numbers)
    assert len(steps.steps) == 25
    assert len(steps.html.encode()) <= 30_000


def layers(count):
    """A net of some layers of five operations and leaves each, an input, and names."""
    torch.manual_seed(0)  # any weights do
    parts = [torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh())] * count
    net = torch.nn.Sequential(*map(copy.deepcopy, parts))
    x = torch.randn(2, 3, requires_grad=True)
    return net(x).square().sum(), {"": net, "x": x}


def test_a_larger_graph_is_walked_through_by_modules():
    y, names = layers(7)
    traced = pullback.trace(y, names=names)
    steps = traced.steps().steps
    titles = [step.node.partition(" (group")[0] for step in steps]
    assert titles == ["v", *(f"{i}.0" for i in range(6, -1, -1)), "x"]


def test_what_a_module_receives_passes_on_and_keeps():
    y, names = layers(7)
    traced = pullback.trace(y, names=names)
    passed = [edge[:2] for step in traced.steps().steps for edge in step.passed]
    assert len(passed) == 1 + 7  # all others stay in their modules
    (first,) = [s for s in traced.steps().steps if s.node.startswith("0.0 (")]
    gradient = torch.autograd.grad(y, names["x"], retain_graph=True)[0]
    (edge,) = first.passed
    assert edge.target == "x"
    assert torch.equal(edge.value, gradient)
    (weight,) = [leaf for leaf in traced.leaves if leaf.name == "0.0.weight"]
    assert f"{numbers(weight.total)} to 0.0.weight.grad" in first.sentence
    assert "(3 operations) receives" in first.sentence


def test_a_larger_graph_without_modules_is_walked_through_in_stretches():
    y = x = torch.ones((), requires_grad=True)
    for _ in range(60):
        y = y.sin()
    steps = pullback.trace(y, names={"x": x}).steps()
    assert 12 <= len(steps.steps) <= 24
    *_, last = steps.steps
    assert numbers(torch.autograd.grad(y, x)[0]) in last.sentence
    assert len(steps.html.encode()) <= 30_000


def test_asks_for_nothing_else():
    html = walk().html
    assert not re.search(
        r"https?:|//\w|url\(|@import|\bsrc=|\bhref=|fetch\(|import\(", html
    )
    assert "{{" not in html
    assert " id=" not in html, "nothing that a second fragment could clash with"
    assert html == walk().html == walk()._repr_html_(), "reproducible"


def test_names_are_escaped():
    x = torch.ones((), requires_grad=True)
    html = pullback.trace(x.sin(), names={'<b>"x"': x}).steps().html
    assert "<b>" not in html
    assert "&lt;b&gt;&quot;x&quot; receives" in html


# ---------------------------------------------------------------- in a browser


def said(page):
    return page.locator("output").first.text_content()


def expected(number, steps):
    return f"Step {number} of {len(steps)}: {steps[number - 1].sentence}"


def button(page, name):
    return page.get_by_role("button", name=name)


@needs_chromium
def test_next_and_previous(show):
    steps = walk().steps
    page = show(walk().html)
    assert said(page) == expected(1, steps)
    assert page.locator("output").get_attribute("aria-live") == "polite"
    for number in range(2, len(steps) + 1):
        button(page, "Next").click()
        assert said(page) == expected(number, steps)
        current = page.locator("svg g.pb-now:has(rect) text").text_content()
        assert current.startswith(steps[number - 1].sentence.split()[0])
        later = page.locator("svg g.pb-later:has(rect)").count()
        assert later == len(steps) - number
    assert button(page, "Next").get_attribute("aria-disabled") == "true"
    button(page, "Next").click(force=True)
    assert said(page) == expected(len(steps), steps), "the end is the end"
    button(page, "Previous").click()
    assert said(page) == expected(len(steps) - 1, steps)


@needs_chromium
def test_a_cotangent_is_shown_once_it_was_sent(show):
    page = show(walk().html)
    labels = page.locator("svg g:has(path) text")
    visible = page.locator("svg g:has(path) text:visible")
    assert visible.all_text_contents() == ["1"]
    button(page, "Next").click()
    assert sorted(visible.all_text_contents()) == ["-1", "1"]
    button(page, "Next").press("End")
    assert visible.count() == labels.count() == len(pullback.trace(graph()[0]).edges)


@needs_chromium
def test_keyboard(show):
    steps = walk().steps
    page = show(walk().html)
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert said(page) == expected(2, steps)
    page.keyboard.press("Space")
    assert said(page) == expected(3, steps)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert said(page) == expected(2, steps)
    page.keyboard.press("End")
    assert said(page) == expected(len(steps), steps)
    focused = page.evaluate("document.activeElement.textContent")
    assert focused == "Next", "the focus stays where there is nothing more to do"
    page.keyboard.press("Home")
    assert said(page) == expected(1, steps)


@needs_chromium
def test_touch(show):
    page = show(walk().html, width=360, has_touch=True)
    button(page, "Next").tap()
    assert said(page) == expected(2, walk().steps)
    for name in "Previous", "Next":
        box = button(page, name).bounding_box()
        assert min(box["width"], box["height"]) >= 24, "large enough to be touched"


@needs_chromium
def test_a_wide_picture_scrolls_in_its_place(show):
    page = show(wide(3).html, width=360, reduced_motion="reduce")
    view = page.locator(".pb-scroll")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert view.evaluate("e => e.scrollWidth > e.clientWidth")
    assert view.get_attribute("tabindex") == "0", "reached by keyboard"
    for _ in range(24):
        button(page, "Next").click()
        box = page.locator(".pb-now rect").bounding_box()
        assert box["x"] >= -1
        assert box["x"] + box["width"] <= 361
    assert page.evaluate("[scrollX, scrollY]") == [0, 0], "the page stays"


@needs_chromium
@pytest.mark.parametrize(("motion", "moves"), [("reduce", False), ("no-preference", True)])
def test_reduced_motion(show, motion, moves):
    page = show(walk().html, reduced_motion=motion)
    rect = page.locator(".pb-steps rect").first
    duration = rect.evaluate("e => getComputedStyle(e).transitionDuration")
    assert any(float(part.strip().rstrip("s")) for part in duration.split(",")) == moves


@needs_chromium
def test_a_list_without_scripts(show):
    page = show(walk().html, scripts=False)
    items = page.locator("ol > li:visible").all_text_contents()
    assert items == [step.sentence for step in walk().steps]
    assert page.locator("button:visible, output:visible").count() == 0, (
        "nothing that is dead"
    )
    labels = page.locator("svg text:visible").count()
    assert labels == page.locator("svg text").count()


@needs_chromium
def test_on_paper_all_of_it_is_shown(show):
    page = show(walk().html)
    assert page.locator("svg text:visible").count() < page.locator("svg text").count()
    page.emulate_media(media="print")
    assert page.locator("svg text:visible").count() == page.locator("svg text").count()


@needs_chromium
def test_ink_is_that_of_the_page(show):
    page = show(f'<div style="color: rgb(1, 2, 3)">{walk().html}</div>')
    read = "[...document.querySelectorAll('svg text, button')].map(e => {"
    read += (
        "const s = getComputedStyle(e); return e.localName === 'text' ? s.fill : s.color;})"
    )
    assert set(page.evaluate(read)) == {"rgb(1, 2, 3)"}


@needs_chromium
def test_texts_stay_in_their_boxes(show):
    page = show(wide(3).html)
    outside = page.evaluate(
        """[...document.querySelectorAll('svg g')].filter(g => g.querySelector('rect'))
        .filter(g => {
          const box = g.querySelector('rect').getBBox(), text = g.querySelector('text');
          const ink = text.getBBox();
          return ink.x < box.x || ink.x + ink.width > box.x + box.width
            || ink.y < box.y || ink.y + ink.height > box.y + box.height;
        }).length"""
    )
    assert outside == 0


@needs_chromium
def test_texts_do_not_overlap(show):
    torch.manual_seed(0)  # numbers with all their digits
    net = torch.nn.Sequential(
        torch.nn.Linear(3, 30), torch.nn.Tanh(), torch.nn.Linear(30, 1)
    )
    traced = pullback.trace(net(torch.randn(5, 3)).mean(), names=net)
    page = show(traced.steps().html)
    boxes = page.evaluate(
        """[...document.querySelectorAll('svg text')].map(text => text.getBBox())
        .map(box => [box.x, box.y, box.x + box.width, box.y + box.height])"""
    )
    for one, other in combinations(boxes, 2):
        apart = one[2] <= other[0] or other[2] <= one[0]
        assert apart or one[3] <= other[1] or other[3] <= one[1]


@needs_chromium
def test_two_on_a_page_do_not_meddle(show):
    page = show(walk().html, walk().html)
    first, second = page.locator(".pb-steps").all()
    first.get_by_role("button", name="Next").click()
    assert said(first) == expected(2, walk().steps)
    assert said(second) == expected(1, walk().steps)
