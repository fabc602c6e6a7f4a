"""Cards of a gallery index, lists of a mini-gallery (docs/_ext/gallery_cards.py)."""

import io

import pytest
from bs4 import BeautifulSoup
from PIL import Image
from sphinx.application import Sphinx
from sphinx_gallery.backreferences import (
    BACKREF_THUMBNAIL_TEMPLATE,
    THUMBNAIL_PARENT_DIV,
    THUMBNAIL_PARENT_DIV_CLOSE,
    THUMBNAIL_TEMPLATE,
)

import pullback

PAGES = {"a": "png", "b": "svg", "c": "svg"}  # the second draws nothing, the third twice
DRAWN = pullback.draw.vjp([1, 2], [[1, 2], [3, 4]])._repr_html_()
AGAIN = pullback.draw.shapes((2,), (3,))._repr_html_()
TAGS = "\n.. raw:: html\n\n  <div id='sg-tag-list'></div>\n"


def gallery(template):
    """Return what sphinx-gallery writes for two pages."""
    said = {"intro": "An intro", "title": "A title", "tags": ""}
    entries = (
        template.format(
            thumbnail=f"{page}.{kind}", doc_name=f"/auto_examples/{page}", **said
        )
        for page, kind in PAGES.items()
    )
    return "\n".join([TAGS, THUMBNAIL_PARENT_DIV, *entries, THUMBNAIL_PARENT_DIV_CLOSE])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A site with an index, a page of the API, and an index of nothing."""
    folder = tmp_path_factory.mktemp("site")
    pages = {f"auto_examples/{page}": f"Page {page} & ``x``\n{16 * '='}" for page in PAGES}
    for drawing in (DRAWN, AGAIN):
        pages["auto_examples/c"] += f"\n\n.. raw:: html\n\n    {drawing}\n"
    pages["auto_examples/index"] = f"All\n===\n\n{gallery(THUMBNAIL_TEMPLATE)}\nAnd more."
    empty = THUMBNAIL_PARENT_DIV + THUMBNAIL_PARENT_DIV_CLOSE
    pages["auto_examples/none/index"] = f"None\n====\n\n{empty}\nAnd no more."
    pages["index"] = f"API\n===\n\n{gallery(BACKREF_THUMBNAIL_TEMPLATE)}\nAnd more."
    for name, text in pages.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.rst").write_text(f":orphan:\n\n{text}")
    Image.new("RGB", (400, 280)).save(folder / "a.png")
    (folder / "b.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (folder / "conf.py").write_text("extensions = ['gallery_cards']")
    html, warnings = folder / "html", io.StringIO()
    app = Sphinx(folder, folder, html, folder, "html", status=None, warning=warnings)
    app.build()
    assert warnings.getvalue() == ""
    return html


def body(site, page):
    text = (site / f"{page}.html").read_text()
    return BeautifulSoup(text, "html.parser").select_one("section")


def test_a_card_is_a_picture_if_there_is_one_and_a_link_with_words(site):
    section = body(site, "auto_examples/index")
    assert section.select_one("#sg-tag-list") is None
    (row,) = section.select(".sphx-glr-thumbnails")
    first, second, _ = row.select(":scope > .sphx-glr-thumbcontainer")
    assert first.img["alt"] == ""
    assert first.img["src"] == "../_images/a.png"
    assert first.img["loading"] == "lazy"
    assert (first.img["width"], first.img["height"]) == ("200", "140")
    assert second.img is None
    assert [card.a.text for card in (first, second)] == ["Page a & x", "Page b & x"]
    assert [card.a["href"] for card in (first, second)] == ["a.html", "b.html"]
    assert section.find_all("p")[-1].text == "And more."


def test_a_card_without_a_picture_shows_the_first_drawing_of_its_page(site):
    row = body(site, "auto_examples/index").select_one(".sphx-glr-thumbnails")
    first, second, third = row.select(":scope > .sphx-glr-thumbcontainer")
    assert first.svg is second.svg is None
    (svg,) = third.find_all("svg")
    drawn = BeautifulSoup(DRAWN, "html.parser").svg
    assert svg["viewbox"] == drawn["viewbox"]
    assert svg.text == drawn.text
    assert svg["aria-hidden"] == "true"
    assert not svg.has_attr("aria-label")
    assert third.a.text == "Page c & x"


def test_elsewhere_it_is_a_list_of_links(site):
    section = body(site, "index")
    assert section.img is None
    assert section.select_one(".used-by p").text == "Pages that use it"
    links = section.select(".used-by li a")
    assert [link["href"] for link in links] == [f"auto_examples/{p}.html" for p in PAGES]
    assert [link.text for link in section.find_all("a")[1:]] == [
        link.text for link in links
    ]


def test_of_a_gallery_of_nothing_nothing_is_left(site):
    section = body(site, "auto_examples/none/index")
    assert section.find("div") is None
    assert section.p.text == "And no more."
