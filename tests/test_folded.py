"""Boxes that stay closed: what a page shows, what it takes in, on paper and as text."""

import pytest
from bs4 import BeautifulSoup
from built import needs_chromium
from executed import ROOT
from sites import Site, conf, write

CONF = conf("folded")
PAGE = """
    Page
    ====

    .. dropdown:: The *answer*

       It is four.

    .. code-block:: python

       2 + 2

    .. rst-class:: sphx-glr-script-out

     .. code-block:: none

       4

    After it.

    .. code-block:: python

       outside
    """


@pytest.fixture(scope="module")
def html(tmp_path_factory):
    site = Site(tmp_path_factory.mktemp("folded"))
    write(site.folder, {"docs/conf.py": CONF, "docs/index.rst": PAGE})
    site.build("-n", "-W")
    return site.page("docs/index.rst")


def test_takes_in_the_code_that_follows_and_no_more(html):
    (box,) = BeautifulSoup(html, "html.parser").select("details.folded")
    assert not box.has_attr("open")
    assert str(box.summary) == "<summary>The <em>answer</em></summary>"
    assert [p.get_text().strip() for p in box.select("p, pre")] == [
        "It is four.",
        "2 + 2",
        "4",
    ]


@needs_chromium
def test_opens_by_keyboard_and_prints_open(show, html):
    style = (ROOT / "docs" / "_static" / "pullback.css").read_text()
    box = str(BeautifulSoup(html, "html.parser").select_one("details.folded"))
    page = show(f"<style>{style}</style>", box, scripts=False)
    inside = page.get_by_text("It is four.")
    shown = "e => e.checkVisibility({contentVisibilityAuto: true})"
    assert not inside.evaluate(shown)
    page.emulate_media(media="print")
    assert inside.evaluate(shown)
    page.emulate_media(media="screen")
    assert not inside.evaluate(shown)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert inside.evaluate(shown)
