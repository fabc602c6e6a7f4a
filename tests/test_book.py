"""Learn as a book: what is in it, and that a reader of books can open it."""

import xml.etree.ElementTree as ElementTree
from zipfile import ZipFile

import pytest
from executed import ROOT
from sites import Site, conf, write

import book

XHTML = "{http://www.w3.org/1999/xhtml}"
CONF = conf(
    "book",
    "mathml",
    html_math_renderer="mathml",
    epub_basename="learn",
    epub_tocscope="includehidden",
    html_static_path=[str(ROOT / "docs" / "_static")],
    html_baseurl="",
)
PAGES = {
    "docs/conf.py": CONF,
    "docs/_static/book.css": "p { margin: 0 }",
    "docs/index.rst": """
        Home
        ====

        .. toctree::
           :hidden:
           :caption: Fix

           fix

        .. toctree::
           :hidden:
           :caption: Learn

           one/index
           play
        """,
    "docs/fix.rst": "Fix\n===\n\nIt is mended.\n",
    "docs/play.rst": "Play\n====\n\nWith it.\n",
    "docs/one/index.rst": "Part one\n========\n\n.. toctree::\n\n   b\n   a\n",
    "docs/one/a.rst": "The *second*\n============\n\nSee :doc:`/fix` and :doc:`b`.\n",
    "docs/one/b.rst": """
        The first & best
        ================

        Here :math:`x^2` is.

        .. raw:: html

           <form class="pb-live" autocomplete="off"><style>.a { color: red }</style>
           <svg viewBox="0 0 1 1"><path d="M0 0"></svg><input disabled><br></form>
           <details><summary>Open</summary>An answer</details>

        .. code-block:: python

           x = 1 < 2
        """,
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return the book of a tiny site."""
    site = Site(tmp_path_factory.mktemp("book"))
    write(site.folder, PAGES)
    site.build("-n", "-W", "-b", "book", "-d", "docs/_build/doctrees")
    return ZipFile(site.html.parent / "learn.epub")


def test_it_has_the_pages_of_the_parts_of_learn(made):
    names = {name for name in made.namelist() if name.endswith(".xhtml")}
    assert names == {"nav.xhtml", "one/index.xhtml", "one/a.xhtml", "one/b.xhtml"}
    nav = ElementTree.fromstring(made.read("nav.xhtml"))
    links = [(link.text, link.get("href")) for link in nav.iter(f"{XHTML}a")]
    assert links == [
        ("Part one", "one/index.xhtml"),
        ("The first & best", "one/b.xhtml"),
        ("The second", "one/a.xhtml"),
    ]
    assert "_static/book.css" in made.namelist()


def test_a_page_is_xhtml_with_all_that_can_be_read(made):
    page = ElementTree.fromstring(made.read("one/b.xhtml"))
    assert page.find(f"{XHTML}head/{XHTML}title").text == "The first & best"
    assert page.find(f"{XHTML}head/{XHTML}style").text == ".a { color: red }"
    (drawing,) = page.iter("{http://www.w3.org/2000/svg}svg")
    assert drawing.get("viewBox") == "0 0 1 1"
    assert len([*page.iter("{http://www.w3.org/1998/Math/MathML}msup")]) == 1
    (box,) = page.iter(f"{XHTML}details")
    assert box.get("open") == "open"
    assert not [*page.iter(f"{XHTML}form"), *page.iter(f"{XHTML}input")]
    assert "x = 1 < 2" in "".join(page.itertext())
    opf = made.read("content.opf").decode()
    assert 'href="one/b.xhtml" properties="mathml svg"' in opf
    assert 'href="one/a.xhtml" media-type' in opf


def test_a_link_out_of_the_book_is_text(made):
    page = ElementTree.fromstring(made.read("one/a.xhtml"))
    assert [link.get("href") for link in page.iter(f"{XHTML}a")] == ["b.xhtml"]
    assert "See Fix and" in "".join(page.itertext())
    assert not [n for n in made.namelist() if book.OUTSIDE.encode() in made.read(n)]
