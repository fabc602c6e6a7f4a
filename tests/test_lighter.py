"""Styles and scripts without what no browser reads."""

import pytest
from executed import ROOT
from py_mini_racer import MiniRacer
from sites import Site, conf, write

import lighter

SCRIPTS = [*(ROOT / "docs" / "_static").glob("*.js"), *ROOT.glob("src/pullback/*.js")]


def test_a_style_sheet():
    text = """
    /* A "comment" that doesn't
       count. */
    a > b,
    c:hover { margin: calc(1rem - 2px) ; content: "a ; b  {" }
    @media (hover: none), (max-width: 46em) { i { --s: url('x,<p a="1 > 2"/>'); } }
    """
    assert lighter.style(text) == (
        'a>b,c:hover{margin: calc(1rem - 2px);content: "a ; b  {"}'
        """@media (hover: none),(max-width: 46em){i{--s: url('x,<p a="1 > 2"/>');}}\n"""
    )


def test_a_script():
    text = '// One\n\n  const a = "// two"; // three\n    // four\n  a;\n'
    assert lighter.script(text) == 'const a = "// two"; // three\na;\n'


@pytest.mark.parametrize("file", SCRIPTS, ids=lambda file: file.name)
def test_a_script_of_the_site_means_the_same(file):
    """Its functions, without the spaces, are the same; no string runs over lines."""
    text = file.read_text(encoding="utf-8")
    short = lighter.script(text)
    assert len(short) < len(text)
    with MiniRacer() as parses:
        parses.eval(f"new Function({quoted(text)}), new Function({quoted(short)}), 0")
    for literal in text.split("`")[1::2]:
        assert "\n" not in literal


def test_a_page_loads_what_it_needs(tmp_path):
    """A file that few pages need is left out of the others, and some out of all."""
    settings = conf(
        "leave_out",
        html_static_path=["_static"],
        html_css_files=["few.css", "all.css"],
        html_leave_out=["basic.*"],
        html_only_on={"few.css": ["search", "api/*"]},
    )
    pages = {f"docs/{page}.rst": ":orphan:\n\nA\n=\n" for page in ("a", "api/b", "index")}
    styles = {f"docs/_static/{name}.css": "a {}" for name in ("few", "all")}
    write(tmp_path, {"docs/conf.py": settings} | pages | styles)
    site = Site(tmp_path)
    site.build()
    for page, few in {"a": False, "api/b": True, "index": False, "search": True}.items():
        text = site.page(f"docs/{page}.rst")
        assert "all.css" in text
        assert ("few.css" in text) == few
        assert "basic.css" not in text


def quoted(text):
    return "`" + text.replace("\\", "\\\\").replace("`", "\\`").replace("${", "\\${") + "`"
