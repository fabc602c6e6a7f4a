"""A live picture under a finger, and under the arrow keys, on a phone."""

import pytest
import torch
from built import needs_chromium

import pullback

X = torch.tensor([1.0, 2.0, 3.0])
V = torch.tensor([10.0, 1.0])
PHONE = {"width": 360, "has_touch": True}

pytestmark = needs_chromium


def sums(x):
    return torch.stack([x.sum(), (x**2).sum()])


def product(x, v):
    """Return what torch answers, as the picture writes it."""
    leaf = torch.tensor(x, requires_grad=True)
    (found,) = torch.autograd.grad(sums(leaf), leaf, torch.tensor(v))
    return found.tolist()


def shown(page):
    texts = page.locator(".pb-by-v .pb-sum text").all_text_contents()
    return [float(text.replace("\N{MINUS SIGN}", "-")) for text in texts]


class Finger:
    """One finger on a page."""

    def __init__(self, page):
        self.session = page.context.new_cdp_session(page)

    def send(self, kind, *points):
        touches = [{"x": x, "y": y} for x, y in points]
        self.session.send(
            "Input.dispatchTouchEvent", {"type": kind, "touchPoints": touches}
        )

    def drag(self, first, *others):
        """Put the finger down and move it, and leave it there."""
        self.send("touchStart", first)
        self.move(*others)

    def move(self, *points):
        for point in points:
            self.send("touchMove", point)

    def lift(self):
        self.send("touchEnd")


def until(page, slider, holds):
    """Wait until the value of a slider is as it should be."""
    for _ in range(200):
        if holds(float(slider.input_value())):
            return
        page.wait_for_timeout(10)
    raise AssertionError(slider.input_value())


def track(slider):
    """Return where the thumb of a slider is at its ends, and how high."""
    box = slider.bounding_box()
    thumb = 8  # half of it
    left, right = box["x"] + thumb, box["x"] + box["width"] - thumb
    return left, right, box["y"] + box["height"] / 2


def at(slider):
    """Return where the thumb of a slider is."""
    left, right, y = track(slider)
    low, high = (float(slider.get_attribute(end)) for end in ("min", "max"))
    share = (float(slider.input_value()) - low) / (high - low)
    return left + share * (right - left), y


def test_a_tap_moves_a_slider_and_presses_a_button(show):
    page = show(pullback.live(sums, X, V).html, **PHONE)
    slider = page.get_by_label("weight of y[1], slider")
    box = slider.bounding_box()
    slider.tap(position={"x": box["width"] - 2, "y": box["height"] / 2})
    assert slider.input_value() == slider.get_attribute("max")
    assert shown(page) == product([1.0, 2.0, 3.0], [10.0, float(slider.input_value())])
    page.get_by_role("button", name="ones").tap()
    assert shown(page) == product([1.0, 2.0, 3.0], [1.0, 1.0])


def test_dragging_x_under_a_finger(show):
    """Numbers follow on the way, not when the finger is lifted."""
    page = show(pullback.live(sums, X, V, graph=True).html, **PHONE)
    slider, finger = page.get_by_label("x[1], slider", exact=True), Finger(page)
    left, right, y = track(slider)
    least, most = (float(slider.get_attribute(end)) for end in ("min", "max"))
    finger.drag(at(slider), (left, y))
    until(page, slider, lambda value: value == least)
    assert shown(page) == product([1.0, least, 3.0], [10.0, 1.0])
    finger.move(((left + right) / 2, y))
    until(page, slider, lambda value: abs(value) <= 0.5)
    middle = float(slider.input_value())
    assert shown(page) == pytest.approx(product([1.0, middle, 3.0], [10.0, 1.0]), rel=1e-3)
    assert page.get_by_label("x[1]", exact=True).input_value() == slider.input_value()
    finger.move((right, y))
    until(page, slider, lambda value: value == most)
    finger.lift()
    assert shown(page) == product([1.0, most, 3.0], [10.0, 1.0])
    page.get_by_text(f"[12, {10 + 2 * most:g}, 16] in all").first.wait_for()


def test_a_finger_that_moves_up_scrolls_the_page(show):
    """So a reader who scrolls over the picture changes nothing."""
    html = pullback.live(sums, X, V).html
    page = show(html, "<div style='height: 3000px'></div>", **PHONE)
    slider, finger = page.get_by_label("weight of y[1], slider"), Finger(page)
    left, right, y = track(slider)
    middle = (left + right) / 2
    finger.drag((middle, y))
    until(page, slider, lambda value: value == 0)  # as a browser takes it at first
    finger.move(*((middle, y - d) for d in range(10, 210, 20)))
    finger.lift()
    page.wait_for_function("scrollY > 50")
    until(page, slider, lambda value: value == 1)
    assert shown(page) == product([1.0, 2.0, 3.0], [10.0, 1.0])


def test_a_wide_picture_scrolls_under_a_finger(show):
    page = show(pullback.live(torch.tanh, torch.ones(12)).html, **PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    box = page.locator(".pb-j rect").first.bounding_box()
    y, finger = box["y"] + box["height"] / 2, Finger(page)
    finger.drag((300, y), *((x, y) for x in range(280, 60, -20)))
    finger.lift()
    page.wait_for_function("document.querySelector('.pb-scroll').scrollLeft > 50")


def test_arrows_on_each_slider_and_field(show):
    """Every number can be changed by the keyboard alone, there and back."""
    page = show(pullback.live(sums, X, V).html, **PHONE)
    now = {"x": X.tolist(), "v": V.tolist()}
    for which, i, name in [
        *(("x", i, f"x[{i}]") for i in range(3)),
        *(("v", i, f"weight of y[{i}]") for i in range(2)),
    ]:
        slider = page.get_by_label(f"{name}, slider", exact=True)
        field = page.get_by_label(name, exact=True)
        step = float(slider.get_attribute("step"))
        slider.focus()
        for key, by in [("ArrowRight", 1), ("ArrowUp", 1), ("ArrowLeft", -1)]:
            slider.press(key)
            now[which][i] += by * step
            assert shown(page) == pytest.approx(product(now["x"], now["v"]), rel=1e-3)
        field.focus()
        for key, by in [("ArrowUp", 1), ("ArrowDown", -1), ("ArrowDown", -1)]:
            field.press(key)
            now[which][i] += by * step
            assert shown(page) == pytest.approx(product(now["x"], now["v"]), rel=1e-3)
        for key, end in [("Home", "min"), ("End", "max")]:
            slider.press(key)
            now[which][i] = float(slider.get_attribute(end))
            assert shown(page) == pytest.approx(product(now["x"], now["v"]), rel=1e-3)


def test_the_tab_key_comes_by_everything(show):
    """And leaves the picture again; arrows choose the way and scroll what is wide."""
    page = show("<a href='#'>before</a>", pullback.live(sums, X, V).html, **PHONE)
    page.get_by_role("link").focus()
    seen = []
    for _ in range(30):
        page.keyboard.press("Tab")
        seen.append(page.evaluate(NAME))
        if seen[-1] == "":
            break
    assert seen == [
        "vᵀJ, backward",
        *("ones", "one-hot", "mean", "own", "start again"),
        "Input, weights, Jacobian and product",
        *(f"x[{i}]{more}" for i in range(3) for more in ("", ", slider")),
        *(f"weight of y[{i}]{more}" for i in range(2) for more in ("", ", slider")),
        "",
    ]
    page.get_by_label("vᵀJ, backward").focus()
    page.keyboard.press("ArrowRight")
    assert page.get_by_label("J u, forward").is_checked()
    page.keyboard.press("ArrowLeft")
    assert page.get_by_label("vᵀJ, backward").is_checked()


NAME = """() => {
    const now = document.activeElement, form = now.closest("form");
    return form ? now.ariaLabel || (now.closest("label") ?? now).textContent.trim() : "";
}"""


def test_a_wide_picture_scrolls_by_arrows(show):
    page = show(pullback.live(torch.tanh, torch.ones(12)).html, **PHONE)
    page.locator(".pb-scroll").focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    page.wait_for_function("document.querySelector('.pb-scroll').scrollLeft > 50")
