"""A page as Markdown (docs/_ext/markdown_pages.py)."""

import runpy
from types import SimpleNamespace

import pytest
from executed import ROOT
from markdown_it import MarkdownIt

from markdown_pages import as_markdown, write_page

CODE = '<div class="highlight-{}"><div class="highlight"><pre>{}</pre></div></div>'


def test_a_name_in_angle_brackets_is_no_tag():
    """In a title, too: MyST would take <AddBackward0> for HTML, which is not shown."""
    disabled = runpy.run_path(str(ROOT / "docs" / "conf.py"))["myst_disable_syntax"]
    parser = MarkdownIt().disable(disabled)
    shown = as_markdown(parser.render("# What is grad_fn=<AddBackward0>?"))
    assert "<AddBackward0>" in shown


@pytest.mark.parametrize(
    ("kind", "told"),
    [("ipython3", "python"), ("Python", "python"), ("myst-ansi", "text"), ("cpp", "cpp")],
)
def test_code_is_kept_to_the_letter(kind, told):
    text = "<span>a</span> = x &lt; y\n\n\nb = a_*_\n"
    expected = f"```{told}\na = x < y\n\n\nb = a_*_\n```\n"
    assert as_markdown(CODE.format(kind, text)) == expected


def test_a_fence_is_longer_than_those_in_the_code():
    assert as_markdown(CODE.format("none", "```\n")) == "````text\n```\n````\n"


def test_formulas_are_tex():
    formula = "<math{}><mi>v</mi><annotation>v^\\top J</annotation></math>"
    assert as_markdown(f"<p>the {formula.format('')}.</p>") == "the $v^\\top J$.\n"
    block = as_markdown(formula.format(' display="block"'))
    assert block == "$$\nv^\\top J\n$$\n"


def test_links_lead_to_markdown():
    links = '<p><a href="../a.html#b">a</a> <a href="https://x.org/c.html">c</a></p>'
    assert as_markdown(links) == "[a](../a.md#b) [c](https://x.org/c.html)\n"
    whole = "[a](https://site.org/a.md#b) [c](https://x.org/c.html)\n"
    assert as_markdown(links, "https://site.org/part/d.html") == whole


def test_each_page_says_where_all_pages_are(tmp_path):
    """Under its title, where a program that reads no further than that finds it."""
    app = SimpleNamespace(builder=SimpleNamespace(name="html"), outdir=tmp_path)
    body = '<h1>A</h1><p>b <a href="c.html">c</a></p>'
    context = {"body": body, "pageurl": None, "content_root": "../"}
    write_page(app, "part/a", "page.html", context, doctree=object())
    assert context["markdown"] == "a.md"
    written = tmp_path.joinpath("part", "a.md").read_text(encoding="utf-8")
    assert written == "# A\n\n> [All pages](../llms.txt)\n\nb [c](c.md)\n"
    address = "https://site.org/part/a.html"
    write_page(app, "part/a", "page.html", context | {"pageurl": address}, object())
    written = tmp_path.joinpath("part", "a.md").read_text(encoding="utf-8")
    first = f"> <{address}> · [All pages](https://site.org/llms.txt)"
    assert written == f"# A\n\n{first}\n\nb [c](https://site.org/part/c.md)\n"


def test_a_box_keeps_its_title_and_a_drawing_what_it_shows():
    box = "<details><summary>Why?</summary><p>So.</p></details>"
    assert as_markdown(box) == "**Why?**\n\nSo.\n"
    assert as_markdown('<svg aria-label="a graph"><text>1</text></svg>') == (
        "*Drawing: a graph*\n"
    )


def test_what_only_a_browser_uses_is_left_out():
    page = '<h1>A<a class="headerlink" href="#a">#</a></h1><form>0</form><p>b</p>'
    assert as_markdown(page) == "# A\n\nb\n"
