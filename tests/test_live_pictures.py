"""Live pictures on a page of the site: data in the page, one script beside it."""

import math
import re
from textwrap import indent

import pytest
import torch
from built import needs_chromium
from executed import ROOT
from sites import Site, conf, write

import pullback
from certified import AGREE, COUNT, Difference, certify, inputs_for

SCRIPTS = [str(ROOT / "src" / "pullback" / name) for name in ("live.js", "steps.js")]
CONF = conf("live_pictures", html_static_path=SCRIPTS)
POLICY = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'"


def house(x):
    return torch.stack([x.sum(), (x**2).sum()])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    site = Site(tmp_path_factory.mktemp("live"))
    write(site.folder, {"docs/conf.py": CONF})
    write(site.folder, {"docs/other.rst": ":orphan:\n\nOther\n=====\n"})
    pictures = [
        pullback.live(house, torch.ones(3), graph=True),
        pullback.live(torch.sigmoid, torch.ones(3)),
    ]
    parts = [f".. raw:: html\n\n{indent(p.html, '    ')}\n" for p in pictures]
    (site.folder / "docs" / "index.rst").write_text("Page\n====\n\n" + "\n".join(parts))
    site.build("-n", "-W", PYTHONPATH=str(ROOT / "src"))
    return site


def test_one_script_for_all_pictures(site):
    page = site.page("docs/index.rst")
    assert page.count('class="pb-live"') == 2
    for name in ("live", "steps"):
        assert len(re.findall(rf'<script[^>]* src="_static/{name}\.js[^"]*"', page)) == 1
    assert "data-live" in page
    assert "form.pb-live:not" not in page, "what the script says"
    assert "live.js" not in site.page("docs/other.rst")
    script = (site.html / "_static" / "live.js").read_text()
    assert script == (ROOT / "src" / "pullback" / "live.js").read_text()
    assert not re.search(r"\beval\b|\bFunction\b|\bfetch\b|https?:", script)


@needs_chromium
def test_under_a_strict_policy(site, browser):
    page = browser.new_page()
    page.route("**/*", lambda route: answer(route, site.html))
    page.goto("http://site.test/index.html")
    form = page.locator("form.pb-live").first
    form.get_by_label("x[1]", exact=True).fill("-4")
    shown = form.locator(".pb-by-v .pb-sum text").all_text_contents()
    assert shown == ["3", "\N{MINUS SIGN}7", "3"]
    form.get_by_text("Step 5 of 5: x receives").wait_for()
    form.get_by_role("button", name="Previous").click()
    form.get_by_text("Step 4 of 5").wait_for()
    page.close()


def answer(route, folder):
    """Serve a file with a policy that allows scripts from files alone."""
    file = folder / route.request.url.removeprefix("http://site.test/").partition("?")[0]
    if not file.is_file():
        return route.fulfill(status=404)
    return route.fulfill(path=file, headers={"Content-Security-Policy": POLICY})


def test_what_is_compared():
    """A hundred inputs and more, of each kind, in x as in v."""
    inputs = list(inputs_for(4, 3, COUNT))
    assert len(inputs) >= 100
    assert {(len(x), len(v)) for x, v in inputs} == {(4, 3)}
    xs, vs = (torch.stack(list(part)) for part in zip(*inputs, strict=True))
    assert (xs == 0).all(dim=1).any()
    assert ((xs == xs[:, :1]).all(dim=1) & (xs[:, 0] != 0)).any()
    assert (xs.abs().amin(dim=1) > 10).any()
    for t in (xs, vs):
        assert ((t == 0).sum(dim=1) == 1).any()
        assert (t < 0).all(dim=1).any()
        assert (t.abs().amax(dim=1) > 1e6).any()
        assert (t.abs().amax(dim=1) < 1e-5).any()
    ties = [len(set(x.tolist()) - {0.0}) < int((x != 0).sum()) for x in xs]
    assert sum(ties) > 10
    large, small = xs.abs().amax(dim=1) > 1e5, vs.abs().amax(dim=1) < 1e-4
    assert (large & small & (vs != 0).any(dim=1)).any(), "each kind with each"


def test_the_measure_of_a_difference():
    """Relative, however large or small; to the terms, where they cancel."""

    def size(exact, page, of):
        parts = (torch.tensor(t, dtype=torch.float64) for t in (exact, page, of))
        exact, page, of = parts
        return Difference(of, of, exact, page, of).size

    assert size([1e6, 2.0], [1e6, 2.0 + 1e-3], [1.0]) == pytest.approx(1e-9)
    assert size([1e-6, 0.0], [1e-6, 1e-9], [1e-7]) == pytest.approx(1e-3)
    assert size([1e-17], [0.0], [1.0]) == pytest.approx(1e-17)
    assert size([math.nan, math.inf], [math.nan, math.inf], [1.0]) == 0
    for wrong in (math.nan, math.inf):
        assert not size([1.0], [wrong], [1.0]) <= AGREE
        assert not size([wrong], [1.0], [1.0]) <= AGREE
    assert not size([math.inf], [-math.inf], [1.0]) <= AGREE


def test_nothing_but_rounding_is_between_them():
    live = pullback.live(torch.sigmoid, torch.ones(2))
    found = certify(live)
    assert found.inputs == COUNT
    assert 0 < found.largest < 1e-14
    assert found.bytes <= 2048
    assert certify(torch.ones(2)) is None
