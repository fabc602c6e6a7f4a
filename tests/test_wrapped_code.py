"""Code that wraps on a phone: no row is empty, and what is copied is what was written."""

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


@needs_chromium
def test_a_line_starts_on_its_first_row(show):
    block = f'<div class="highlight-python highlight"><pre>{CODE}</pre></div>'
    page = show(f"<article>{block}</article>", width=360)
    page.add_style_tag(content=(STATIC / "pullback.css").read_text(encoding="utf-8"))
    page.add_script_tag(content=(STATIC / "pullback.js").read_text(encoding="utf-8"))
    starts = page.evaluate(STARTS)
    assert len(starts) == 4
    assert max(starts) < 0.5, "of the height of a row"
    height = "e => e.getBoundingClientRect().height"
    rows = [line.evaluate(height) for line in page.locator(".line").all()]
    assert rows[2] > 1.5 * rows[0], "it wraps"
    copied = page.evaluate(COPIED)
    assert copied.rstrip() == CODE.rstrip()
