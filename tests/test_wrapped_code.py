"""Code that wraps on a phone: no row is empty, and what is copied is what was written."""

import pytest
from built import needs_chromium
from executed import ROOT

STATIC = ROOT / "docs" / "_static"
CODE = """\
def f(x):
    if x.requires_grad:
            return torch_autograd_functional_jacobian_of_everything(x)
    y = torch.autograd.grad(first, second, third, create_graph=True)
"""
STARTS = """() => [...document.querySelectorAll(".line")].map((line) => {
  const walker = document.createTreeWalker(line, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const { data } = walker.currentNode, at = data.search(/\\S/);
    if (at < 0) continue;
    const range = document.createRange();
    range.setStart(walker.currentNode, at);
    range.setEnd(walker.currentNode, at + 1);
    const { top, height } = range.getBoundingClientRect();
    return (top - line.getBoundingClientRect().top) / height;
  }
})"""
COPIED = """() => new Promise((done) => {
  document.addEventListener("copy", (event) => done(event.clipboardData.getData("text")));
  getSelection().selectAllChildren(document.querySelector("pre"));
  document.execCommand("copy");
})"""


@pytest.fixture
def on_site(show):
    """Put a fragment on a page, with the style and the script of the site."""

    def on_site(fragment, width):
        page = show(fragment, width=width)
        page.add_style_tag(content=(STATIC / "pullback.css").read_text(encoding="utf-8"))
        page.add_script_tag(content=(STATIC / "pullback.js").read_text(encoding="utf-8"))
        return page

    return on_site


@needs_chromium
def test_a_line_starts_on_its_first_row(on_site):
    block = f'<div class="highlight-python highlight"><pre>{CODE}</pre></div>'
    page = on_site(f"<article>{block}</article>", width=360)
    starts = page.evaluate(STARTS)
    assert len(starts) == 4
    assert max(starts) < 0.5, "of the height of a row"
    height = "e => e.getBoundingClientRect().height"
    rows = [line.evaluate(height) for line in page.locator(".line").all()]
    assert rows[2] > 1.5 * rows[0], "it wraps"
    copied = page.evaluate(COPIED)
    assert copied.rstrip() == CODE.rstrip()


@needs_chromium
def test_a_line_of_code_wraps_behind_a_dot_or_a_bracket(on_site):
    path = ["torch", "nn", "functional", "mse_loss"]
    names = [f'<span class="n">{name}</span>' for name in path]
    line = '<span class="o">.</span>'.join(names) + '<span class="p">(</span>'
    code = line + '<span class="n">predictions</span>'
    block = f'<div class="highlight-python highlight"><pre>{code}</pre></div>'
    page = on_site(f"<article>{block}</article>", width=230)
    rects = "e => e.getClientRects().length"
    assert {name.evaluate(rects) for name in page.locator(".line .n").all()} == {1}
    tops = {name.bounding_box()["y"] for name in page.locator(".line .n").all()}
    assert len(tops) > 1, "it wraps"


@needs_chromium
def test_printed_text_wraps_where_it_has_no_columns(on_site):
    message = "grad can be implicitly created only for scalar outputs, whatever they are"
    table = "never emptied:   1.5   3.75   5.62   6.19   5.1\nemptied:   1.5   2.25   2.62"
    block = '<div class="cell_output"><div class="highlight"><pre>{}</pre></div></div>'
    both = block.format(message) + block.format(table)
    page = on_site(f"<article>{both}</article>", width=320)
    scrolls = "e => e.scrollWidth > e.clientWidth"
    assert [p.evaluate(scrolls) for p in page.locator("pre").all()] == [False, True]


@needs_chromium
def test_code_in_a_table_breaks_between_names(on_site):
    code = "torch.autograd.grad(outputs=y, inputs=x, grad_outputs=torch.ones_like(y))"
    cell = f'<td><code><span class="pre">{code}</span></code></td>'
    page = on_site(
        f"<article><table><tr><td>a</td>{cell}</tr></table></article>", width=320
    )
    pieces = page.locator("code .pre").evaluate("e => e.innerHTML.split('<wbr>')")
    assert "".join(pieces) == code
    assert pieces[:3] == ["torch.", "autograd.", "grad("]
    assert pieces[-2:] == ["ones_", "like(y))"]


@needs_chromium
def test_a_wide_picture_begins_with_what_it_shows(on_site):
    drawing = '<svg width="400" height="40"><rect x="70" width="330" height="40"/></svg>'
    box = f'<div class="pb-scroll" style="overflow-x: auto">{drawing}</div>'
    page = on_site(f"<article>{box}</article>", width=340)
    scroller, picture = page.locator(".pb-scroll"), page.locator("rect")
    left = picture.bounding_box()["x"] - scroller.bounding_box()["x"]
    assert 0 <= left <= 24
