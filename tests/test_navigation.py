"""The menu (docs/_ext/navigation.py)."""

import io
import re
from itertools import islice

import pytest
from bs4 import BeautifulSoup
from sphinx.application import Sphinx

import navigation
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


def plain(tree):
    """Return a menu without classes and levels, and with a mark on the current page."""
    tree = BeautifulSoup(tree, "html.parser")
    for item in tree.find_all(True):
        current = item.name == "a" and "current" in [
            *item.get("class", []),
            item.get("aria-current"),
        ]
        item.attrs = {"href": item["href"]} if item.name == "a" else {}
        if current or (item.name == "a" and item["href"] == "#"):
            item["current"] = ""
        if item.name == "span":
            item.unwrap()
    return re.sub(r"\s*\n\s*", "", str(tree))


def test_a_page_has_what_sphinx_would_give_it(tmp_path):
    """Every page of a site with captions, titles with markup, and folders."""
    for name, text in SOURCES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / f"{name}.rst").write_text(text)
    (tmp_path / "conf.py").write_text("extensions = ['navigation']")
    theirs, ours = {}, {}

    def note_theirs(app, page, template, context, doctree):
        wanted = {"collapse": True, "includehidden": True, "maxdepth": -1}
        theirs[page] = plain(context["toctree"](titles_only=True, **wanted))

    def note_ours(app, page, template, context, doctree):
        ours[page] = context["menu"]

    app = Sphinx(
        tmp_path, tmp_path, tmp_path / "html", tmp_path, "html", status=io.StringIO()
    )
    app.connect("html-page-context", note_theirs, priority=50)
    app.connect("html-page-context", note_ours, priority=150)
    app.build()
    for page in SOURCES:
        assert plain(ours[page]) == theirs[page]
        assert ours[page].count(' aria-current="page"') == (page != "index")


def test_each_toctree_of_a_page_is_a_group(tmp_path, monkeypatch):
    monkeypatch.setattr(navigation, "LONG", 4)
    contents = ".. toctree::\n\n   {}\n   {}\n\n"
    pages = dict.fromkeys("abcd", "A page\n======\n")
    up = "Up\n==\n\nOne\n---\n\n" + contents.format(*"ab") + contents.format(*"cd")
    index = "Home\n====\n\n.. toctree::\n\n   up\n"
    for name, text in {**pages, "up": up, "index": index}.items():
        (tmp_path / f"{name}.rst").write_text(text)
    (tmp_path / "conf.py").write_text("extensions = ['navigation']")
    folders = [tmp_path, tmp_path, tmp_path / "html", tmp_path]
    app = Sphinx(*folders, "html", status=io.StringIO())
    menus = {}
    app.connect(
        "html-page-context",
        lambda app, page, template, context, doctree: menus.update({page: context["menu"]}),
        priority=150,
    )
    app.build()
    assert re.findall(r'href="(.*?)"', menus["d"]) == ["up.html", "c.html", "#"]


def menu(sizes, current):
    """Return the numbers of the pages below a branch that a page of it shows.

    The groups of the branch have so many pages; the branch itself is the page -1.
    """
    numbers = iter(range(sum(sizes)))
    below = [
        [Entry(f"{n}.html", f"<em>{n}</em>", []) for n in islice(numbers, size)]
        for size in sizes
    ]
    tree = [Entry("-1.html", "Up", below), Entry("other.html", "Other", [])]
    html = written(tree, f"{current}.html")
    assert html.count("<a ") == html.count("<em>") + 2
    assert html.count("<ul") == html.count("</ul>")
    return [int(n) for n in re.findall(r"<em>(\d+)</em>", html)]


def test_a_short_list_stays():
    assert menu([LONG - 1], 3) == menu([5, LONG - 6], -1) == list(range(LONG - 1))


def test_elsewhere_a_branch_is_closed():
    assert menu([3], "other") == []


def test_the_page_that_carries_a_long_list_shows_it_by_itself():
    assert menu([LONG], -1) == []


def test_a_long_list_shows_the_group_of_the_page():
    assert menu([LONG, 5, 9], LONG + 2) == list(range(LONG, LONG + 5))


@pytest.mark.parametrize("current", [0, 100, 199])
def test_a_member_of_a_long_group_shows_its_neighbours(current):
    near = range(max(0, current - NEIGHBOURS), min(200, current + NEIGHBOURS + 1))
    assert menu([200, 5], current) == list(near)
