"""The built site, an address of it, and a browser, for those who look at it."""

import contextlib
import functools
import http.server
import os
import shutil
import threading

import pytest
from bs4 import BeautifulSoup
from executed import ROOT

from pages import sources

SITE = ROOT / "docs" / "_build" / "html"
PAGES = sorted(p.relative_to(SITE).as_posix() for p in SITE.rglob("*.html")) or [
    "index.html"
]
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DESKTOP = {"width": 1280, "height": 800}
CHAPTER = "auto_examples/01_gradient_argument/"

needs_site = pytest.mark.usefixtures("site_of_these_sources")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
if CHROMIUM is None and os.environ.get("CI"):
    raise RuntimeError("Chromium is not installed; where CI is set, no test may do without")


def look_at_site(site=SITE, root=ROOT):
    """Skip where no site has been built; fail where it was built from other sources."""
    if not (site / "index.html").exists():
        pytest.skip("no built site: run `nox -s docs`")
    record = site.with_name("built.txt")
    if not record.exists() or record.read_text() != sources(root):
        pytest.fail(
            "the site is that of other sources, or lacks outputs: run `nox -s docs`",
            pytrace=False,
        )


def article(path):
    """Return what a page says, without the menus around it, which are most of its file."""
    text = path.read_text(encoding="utf-8")
    start, end = text.index("<article"), text.rindex("</article>")
    return BeautifulSoup(text[start:end], "html.parser")


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files without a word, each visit being a first one."""

    def end_headers(self):
        """Keep the browser from keeping them."""
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def log_message(self, *args):
        """Say nothing."""


@contextlib.contextmanager
def served():
    """Serve the site on this machine; give its address."""
    handler = functools.partial(Quiet, directory=str(SITE))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@contextlib.contextmanager
def launched():
    """Launch Chromium without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()
