"""The tree of pages in the sidebar (docs/_ext/navigation.py)."""

import io
import re

import pytest
from sphinx.application import Sphinx

from navigation import LONG, NEIGHBOURS, Entry, written

SOURCES = {
    "index": """
Home
====

.. toctree::
   :caption: Learn *this*
   :hidden:

   a/index
   Of another name <b>

.. toctree::

   c
""",
    "a/index": """
``A``, or *α* & <more>
======================

A section
---------

.. toctree::

   one
   deeper/two
""",
    "a/one": "One\n===",
    "a/deeper/two": "Two\n===",
    "b": "B\n=",
    "c": "C\n=\n\nD\n-",
}


def test_a_page_has_what_sphinx_would_give_it(tmp_path):
    """Every page of a site with captions, titles with markup, and folders."""
    for name, text in SOURCES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / f"{name}.rst").write_text(text)
    (tmp_path / "conf.py").write_text("extensions = ['navigation']")
    trees = {}

    def note(kind, page, context):
        wanted = {"collapse": False, "includehidden": True, "maxdepth": -1}
        tree = context["toctree"](titles_only=True, **wanted)
        trees[page, kind] = re.sub(r"\s*\n\s*", "", tree)

    app = Sphinx(
        tmp_path, tmp_path, tmp_path / "html", tmp_path, "html", status=io.StringIO()
    )
    for kind, priority in {"Sphinx's": 50, "ours": 150}.items():
        app.connect(
            "html-page-context",
            lambda app, page, template, context, doctree, kind=kind: note(
                kind, page, context
            ),
            priority=priority,
        )
    app.build()
    for page in SOURCES:
        ours = trees[page, "ours"]
        assert ours == trees[page, "Sphinx's"]
        assert ours.count(' current"><a class="current') == (page != "index")


def sidebar(pages, current=None):
    """Return the numbers of the entries that the sidebar of one page shows."""
    below = [Entry(f"{n}.html", f"<em>{n}</em>", []) for n in range(pages)]
    tree = [Entry("up.html", "Up", below)]
    html = written(tree, "elsewhere.html" if current is None else f"{current}.html")
    assert 'href="up.html">Up</a>' in html
    assert html.count("<ul") == html.count("</ul>")
    return [int(n) for n in re.findall(r"<em>(\d+)</em>", html)]


def test_a_short_list_stays():
    assert sidebar(LONG - 1) == list(range(LONG - 1))


def test_a_long_list_is_left_out_of_other_pages():
    assert sidebar(LONG) == []


@pytest.mark.parametrize("current", [0, 100, 199])
def test_a_member_of_a_long_list_shows_its_neighbours(current):
    near = range(max(0, current - NEIGHBOURS), min(200, current + NEIGHBOURS + 1))
    assert sidebar(200, current) == list(near)
