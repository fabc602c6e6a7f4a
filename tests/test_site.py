"""The built site in a real browser.

Needs Chromium and a built site (``nox -s docs``); skips, and says so, without.
"""

import functools
import gzip
import http.server
import shutil
import threading

import pytest
from executed import ROOT

SITE = ROOT / "docs" / "_build" / "html"
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
PAGES = sorted(p.relative_to(SITE).as_posix() for p in SITE.rglob("*.html")) or [
    "index.html"
]
TEXT = {"document", "script", "stylesheet", "fetch", "xhr"}
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


SHIFT = """
window.shift = 0;
new PerformanceObserver((list) => list.getEntries().forEach((entry) => {
  if (!entry.hadRecentInput) window.shift += entry.value;
})).observe({type: "layout-shift", buffered: true});
"""


@pytest.mark.parametrize("path", PAGES)
def test_page_loads_like_paper(browser, address, path):
    """Light, whole, from this host alone, and nothing moves."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.add_init_script(SHIFT)
    requests, responses, errors = [], [], []
    page.on("request", lambda r: requests.append(r))
    page.on("response", lambda r: responses.append(r))
    page.on("console", lambda m: m.type == "error" and errors.append(m.text))
    page.on("pageerror", lambda e: errors.append(str(e)))
    page.goto(address + path, wait_until="networkidle")
    assert [r.url for r in requests if not r.url.startswith((address, "data:"))] == []
    assert errors == []
    assert [r.url for r in responses if r.status >= 400] == []
    assert len({r.url for r in requests if r.url.startswith("http")}) <= 12
    assert sum(map(weight, responses)) <= 100_000
    assert page.evaluate("window.shift") <= 0.02
    unconverted = page.evaluate(
        "[...document.querySelectorAll('.math')].filter(e => !e.querySelector('math'))"
        ".map(e => e.textContent)"
    )
    assert unconverted == []
    page.close()


def weight(response):
    """Return the bytes that a static host sends; pictures of the page's own are apart."""
    kind = response.request.resource_type
    if kind == "image" or response.url.startswith("data:"):
        return 0
    body = response.body()
    return len(gzip.compress(body)) if kind in TEXT else len(body)


@pytest.mark.parametrize("path", PAGES)
def test_everyone_can_read_the_page(browser, address, path):
    """axe-core finds nothing to object to, light and dark."""
    from axe_playwright_python.sync_playwright import Axe

    page = browser.new_page(viewport={"width": 1280, "height": 800}, color_scheme="light")
    page.goto(address + path, wait_until="load")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        found = Axe().run(page)
        assert found.violations_count == 0, f"{scheme}: {found.generate_report()}"
    page.close()


@pytest.mark.parametrize("path", PAGES)
def test_page_fits_a_phone_and_a_magnifier(browser, address, path):
    """No sideways scrolling at 360 px, nor at 200 % zoom of a 1280 px window."""
    for width in (360, 640):
        page = browser.new_page(viewport={"width": width, "height": 740})
        page.goto(address + path, wait_until="load")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
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


def test_keyboard_sees_where_it_is(browser, address):
    """The first stop skips to the content; each of the first twenty looks focused."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(address + "auto_examples/index.html", wait_until="load")
    for stop in range(20):
        page.keyboard.press("Tab")
        outline = page.evaluate(
            "() => { const e = document.activeElement, s = getComputedStyle(e);"
            "return [e.getAttribute('href'), s.outlineStyle, parseFloat(s.outlineWidth)]; }"
        )
        assert stop or outline[0] == "#furo-main-content"
        assert outline[1] != "none"
        assert outline[2] >= 1
    page.close()


def test_page_reads_without_scripts(browser, address):
    """Text, formulas, navigation and downloads need no script."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address + "auto_examples/01_gradient_argument/30_one_component.html")
    for part in ("h1", "math", ".sphx-glr-download a", "a.next-page", ".sidebar-tree a"):
        assert page.locator(part).first.is_visible(), part
    context.close()


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
