"""The built site in a real browser.

Needs Chromium and a built site (``nox -s docs``); skips, and says so, without.
"""

import functools
import http.server
import shutil
import threading

import pytest
from executed import ROOT

SITE = ROOT / "docs" / "_build" / "html"
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
PAGES = [
    "index.html",
    "which_v.html",
    "contract.html",
    "corrections.html",
    "errors.html",
    "errors/mismatch-in-shape.html",
    "errors/loss-broadcast.html",
    "glossary.html",
    "source_map.html",
    "api/index.html",
    "auto_examples/index.html",
    "auto_examples/01_gradient_argument/30_one_component.html",
    "auto_examples/01_gradient_argument/60_small_graph.html",
    "auto_examples/02_jacobians/10_which_way_up.html",
    "auto_examples/02_jacobians/60_seeing.html",
]
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
    pytest.mark.skipif(
        not (SITE / "index.html").exists(), reason="no built site: run `nox -s docs`"
    ),
]


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files without a word."""

    def log_message(self, *args):
        """Say nothing."""


@pytest.fixture(scope="module")
def address():
    handler = functools.partial(Quiet, directory=str(SITE))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()


@pytest.mark.parametrize("path", PAGES)
def test_page_is_whole(browser, address, path):
    """No request to another host, no error, and formulas without scripts."""
    page = browser.new_page(java_script_enabled=True)
    elsewhere, errors = [], []
    page.on("request", lambda r: r.url.startswith(address) or elsewhere.append(r.url))
    page.on("response", lambda r: r.status >= 400 and errors.append(r.url))
    page.on("console", lambda m: m.type == "error" and errors.append(m.text))
    page.on("pageerror", lambda e: errors.append(str(e)))
    page.goto(address + path, wait_until="load")
    assert elsewhere == []
    assert errors == []
    unconverted = page.evaluate(
        "[...document.querySelectorAll('.math')].filter(e => !e.querySelector('math'))"
        ".map(e => e.textContent)"
    )
    assert unconverted == []
    page.close()


@pytest.mark.parametrize("path", PAGES)
def test_page_fits_a_phone(browser, address, path):
    page = browser.new_page(viewport={"width": 360, "height": 740})
    page.goto(address + path, wait_until="load")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.close()


@pytest.mark.parametrize("path", PAGES)
def test_pictures_say_what_they_show(browser, address, path):
    page = browser.new_page()
    page.goto(address + path, wait_until="load")
    # A thumbnail stands beside the title that links to its page: it is decoration.
    alternatives = page.eval_on_selector_all(
        "article img:not(.sphx-glr-thumbcontainer img)", "images => images.map(i => i.alt)"
    )
    assert all(len(text) > 3 for text in alternatives), alternatives
    page.close()


def test_courses_lead_from_page_to_page(browser, address):
    """Next leads through all the pages of both chapters."""
    page = browser.new_page()
    page.goto(address + "auto_examples/01_gradient_argument/05_first_vjp.html")
    visited = [page.title()]
    while (link := page.query_selector("a.next-page")) is not None:
        target = link.evaluate("a => a.href")
        if "auto_examples" not in target:
            break
        page.goto(target)
        visited.append(page.title())
    assert len(set(visited)) == len(visited) >= 27
    page.close()
