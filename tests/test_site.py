"""The built site in a real browser.

Needs Chromium and a built site (``nox -s docs``); skips, and says so, without.
"""

import functools
import gzip
import http.server
import shutil
import threading
from urllib.parse import urlsplit

import pytest
from executed import ROOT

Axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe

SITE = ROOT / "docs" / "_build" / "html"
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
PAGES = sorted(p.relative_to(SITE).as_posix() for p in SITE.rglob("*.html")) or [
    "index.html"
]
DESKTOP = {"width": 1280, "height": 800}
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
# Read after a first visit. A thumbnail stands beside the title that links to its page: it
# is decoration, and needs no words.
READ = """() => ({
  shift: window.shift,
  unconverted: [...document.querySelectorAll(".math")]
    .filter((e) => !e.querySelector("math")).map((e) => e.textContent),
  wordless: [...document.querySelectorAll("article img:not(.sphx-glr-thumbcontainer img)")]
    .filter((e) => e.alt.length < 4).map((e) => e.src),
})"""


@pytest.fixture(scope="module")
def visit(browser, address):
    """Return what a first visit to a page is like: what it loads, shows and breaks."""

    @functools.cache
    def first_visit(path):
        page = browser.new_page(viewport=DESKTOP, color_scheme="light")
        page.add_init_script(SHIFT)
        requests, errors = [], []
        page.on("request", lambda r: requests.append((r.resource_type, r.url)))
        page.on("response", lambda r: r.status >= 400 and errors.append(r.url))
        page.on("console", lambda m: m.type == "error" and errors.append(m.text))
        page.on("pageerror", lambda e: errors.append(str(e)))
        page.goto(address + path, wait_until="networkidle")
        seen = page.evaluate(READ)
        seen["errors"] = errors
        loaded = {r for r in requests if not r[1].startswith("data:")}
        seen["elsewhere"] = [url for _, url in loaded if not url.startswith(address)]
        seen["requests"] = len({url for _, url in loaded})
        files = {urlsplit(url).path for kind, url in loaded if kind != "image"}
        seen["weight"] = sum(weight(SITE / file.lstrip("/")) for file in files)
        seen["barriers"] = []
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            found = Axe().run(page)
            if found.violations_count:
                seen["barriers"].append(f"{scheme}: {found.generate_report()}")
        seen["too_wide"] = []
        for width in (360, 640):  # a phone, and a window of 1280 px at 200 % zoom
            page.set_viewport_size({"width": width, "height": 740})
            if (wide := page.evaluate("document.documentElement.scrollWidth")) > width:
                seen["too_wide"].append(f"{wide} px at {width}")
        page.close()
        return seen

    return first_visit


def weight(file):
    """Return the bytes of a file as a static host sends it."""
    data = file.read_bytes()
    return len(data) if file.suffix == ".woff2" else len(gzip.compress(data))


@pytest.mark.parametrize("path", PAGES)
def test_page_loads_like_paper(visit, path):
    """Whole, from this host alone; light, its own pictures apart; and nothing moves."""
    seen = visit(path)
    assert seen["elsewhere"] == []
    assert seen["errors"] == []
    assert seen["unconverted"] == []
    assert seen["requests"] <= 12
    assert seen["weight"] <= 100_000
    assert seen["shift"] <= 0.02


@pytest.mark.parametrize("path", PAGES)
def test_everyone_can_read_the_page(visit, path):
    """axe-core objects to nothing, light or dark; the page fits; pictures have words."""
    seen = visit(path)
    assert seen["barriers"] == []
    assert seen["too_wide"] == []
    assert seen["wordless"] == []


def test_keyboard_sees_where_it_is(browser, address):
    """The first stop skips to the content; each of the first twenty looks focused."""
    page = browser.new_page(viewport=DESKTOP)
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
