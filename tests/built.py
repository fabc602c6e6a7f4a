"""The built site, for the tests that look at it, and whether there is one."""

import shutil

import pytest
from executed import ROOT

SITE = ROOT / "docs" / "_build" / "html"
PAGES = sorted(p.relative_to(SITE).as_posix() for p in SITE.rglob("*.html")) or [
    "index.html"
]
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DESKTOP = {"width": 1280, "height": 800}
CHAPTER = "auto_examples/01_gradient_argument/"

needs_site = pytest.mark.skipif(
    not (SITE / "index.html").exists(), reason="no built site: run `nox -s docs`"
)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
