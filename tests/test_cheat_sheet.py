"""The cheat sheet prints on one page, from the built site, on A4 and on Letter."""

import re

import pytest
from built import SITE, needs_chromium, needs_site


@needs_chromium
@needs_site
@pytest.mark.parametrize("paper", ["A4", "Letter"])
def test_prints_on_one_page(browser, paper):
    page = browser.new_page()
    page.goto((SITE / "cheat_sheet.html").as_uri())
    printed = page.pdf(format=paper)
    page.emulate_media(media="print")
    hidden = page.locator(".sidebar-drawer, .toc-drawer, details.hide")
    assert hidden.count() > 2
    assert not any(part.is_visible() for part in hidden.all())
    assert page.locator("article table").count() == 5
    page.close()
    assert len(re.findall(rb"/Type\s*/Page[^s]", printed)) == 1
