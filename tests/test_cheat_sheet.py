"""The cheat sheet prints on one page, from the built site, on A4 and on Letter."""

import re
import shutil

import pytest
from executed import ROOT

PAGE = ROOT / "docs" / "_build" / "html" / "cheat_sheet.html"
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
@pytest.mark.skipif(not PAGE.exists(), reason="no built site: run `nox -s docs`")
@pytest.mark.parametrize("paper", ["A4", "Letter"])
def test_prints_on_one_page(browser, paper):
    page = browser.new_page()
    page.goto(PAGE.as_uri())
    printed = page.pdf(format=paper)
    page.emulate_media(media="print")
    hidden = page.locator(".sidebar-drawer, .toc-drawer, details.hide")
    assert hidden.count() > 2
    assert not any(part.is_visible() for part in hidden.all())
    assert page.locator("article table").count() == 5
    page.close()
    assert len(re.findall(rb"/Type\s*/Page[^s]", printed)) == 1
