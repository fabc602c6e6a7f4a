"""The sheet of thumbnails of a gallery index (docs/_ext/gallery_cards.py)."""

import re
import sys
from types import SimpleNamespace

import pytest
from executed import ROOT
from PIL import Image

sys.path.append(str(ROOT / "docs" / "_ext"))
from gallery_cards import HEIGHT, WIDTH, Index

CARD = (
    '<div class="sphx-glr-thumbcontainer"><img alt="" src="../_images/{0}.png">'
    '<p><a class="reference internal" href="{0}.html">{0}</a></p>'
    '<div class="sphx-glr-thumbnail-title">Page {0}</div></div>'
)
COLORS = {"a": (255, 0, 0), "b": (0, 0, 255)}


@pytest.fixture
def site(tmp_path):
    """A chapter of two pages that have a thumbnail each."""
    folder = tmp_path / "auto_examples" / "one" / "images" / "thumb"
    folder.mkdir(parents=True)
    for name, color in COLORS.items():
        Image.new("RGB", (WIDTH, HEIGHT), color).save(folder / f"{name}.png")
    return SimpleNamespace(srcdir=tmp_path, outdir=tmp_path / "html", thumbnails=folder)


def rewritten(site):
    """Return the cards, and the one sheet that there is."""
    body = "".join(map(CARD.format, COLORS))
    page = "auto_examples/one/index"
    cards = Index(site, page, lambda name, _: f"/{name}", body).rewritten()
    (sheet,) = site.outdir.rglob("*.webp")
    assert set(re.findall(r'src="/([^"]*)"', cards)) == {
        sheet.relative_to(site.outdir).as_posix()
    }
    return cards, sheet


def test_each_card_shows_its_part_of_the_sheet(site):
    cards, sheet = rewritten(site)
    assert re.findall(r"Page (.)</a>", cards) == list(COLORS)
    places = re.findall(r"object-position: -(\d+)px -(\d+)px", cards)
    with Image.open(sheet) as image:
        for (x, y), color in zip(places, COLORS.values(), strict=True):
            shown = image.getpixel((2 * int(x) + WIDTH // 2, 2 * int(y) + HEIGHT // 2))
            assert all(abs(s - c) < 10 for s, c in zip(shown, color, strict=True))


def test_it_is_drawn_again_when_a_thumbnail_changes_and_not_before(site):
    _, sheet = rewritten(site)
    sheet.write_bytes(b"as it was")
    _, same = rewritten(site)
    assert same == sheet
    assert same.read_bytes() == b"as it was"
    Image.new("RGB", (WIDTH, HEIGHT), "green").save(site.thumbnails / "b.png")
    _, other = rewritten(site)
    assert other != sheet
    assert other.read_bytes() != b"as it was"
