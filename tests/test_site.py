"""The built site in a real browser.

Needs Chromium and a built site (``nox -s docs``); skips, and says so, without.
"""

import functools
import gzip
import html
import re
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe, AxeResults
from built import DESKTOP, PAGES, SITE, needs_chromium, needs_site
from executed import EXAMPLES
from fontTools.ttLib import TTFont
from PIL import Image

# The sidebar is the same on all pages of a part: a few of them show what is in it.
WITH_SIDEBAR = re.compile(r"(^|/)(index|30_one_component|scalar-outputs)\.html")
COLOURS = {"runOnly": ["color-contrast", "link-in-text-block"]}  # what a scheme changes
VIOLATIONS = """async (rules) => {
  const found = await axe.run({ resultTypes: ["violations"], ...rules });
  return { violations: found.violations };
}"""
# Half of a page's elements are coloured words of code: one of each colour is looked at, and
# not one of a single letter, which axe-core passes over.
ONE_OF_EACH = """() => {
  const seen = new Set();
  for (const word of document.querySelectorAll("pre span")) {
    const kind = [word, word.parentElement, word.closest("[class*=highlight-]")];
    const key = kind.map((element) => element?.className).join("|");
    const short = word.textContent.length < 2;
    if (short || seen.has(key)) word.replaceWith(...word.childNodes);
    else seen.add(key);
  }
  document.querySelectorAll("pre").forEach((block) => block.normalize());
}"""
pytestmark = [needs_chromium, needs_site]

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
  sizeless: [...document.querySelectorAll("article img:not([width][height])")]
    .map((e) => e.src),
  wordless: [...document.querySelectorAll("article img:not(.sphx-glr-thumbcontainer img)")]
    .filter((e) => e.alt.length < 4).map((e) => e.src),
})"""


@functools.cache
def weight(file):
    """Return the bytes of a file as a static host sends it."""
    data = file.read_bytes()
    return len(data) if file.suffix == ".woff2" else len(gzip.compress(data))


@pytest.mark.parametrize("path", PAGES)
def test_page_loads_like_paper_and_everyone_can_read_it(browser, address, path):
    """Whole, from this host alone; light, its own pictures apart; and nothing moves.

    axe-core objects to nothing, light or dark, and the page itself never scrolls sideways.
    """
    page = browser.new_page(viewport=DESKTOP, color_scheme="light")
    page.add_init_script(SHIFT)
    requests, errors = [], []
    page.on("request", lambda r: requests.append((r.resource_type, r.url)))
    page.on("response", lambda r: r.status >= 400 and errors.append(r.url))
    page.on("console", lambda m: m.type == "error" and errors.append(m.text))
    page.on("pageerror", lambda e: errors.append(str(e)))
    page.goto(address + path, wait_until="load")
    page.evaluate("document.fonts.ready")
    seen = page.evaluate(READ)
    loaded = {r for r in requests if not r[1].startswith("data:")}
    assert [url for _, url in loaded if not url.startswith(address)] == []
    assert seen["unconverted"] == []
    assert seen["wordless"] == []
    assert seen["sizeless"] == [], "text would move when they come"
    assert seen["shift"] <= 0.02
    assert len({url for _, url in loaded}) <= 12
    files = {urlsplit(url).path for kind, url in loaded if kind != "image"}
    assert sum(weight(SITE / file.lstrip("/")) for file in files) <= 100_000

    for width in (360, 640):  # a phone, and a window of 1280 px at 200 % zoom
        page.set_viewport_size({"width": width, "height": 740})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.set_viewport_size(DESKTOP)
    if not WITH_SIDEBAR.search(path):
        page.evaluate("document.querySelector('.sidebar-drawer')?.remove()")
    page.evaluate(ONE_OF_EACH)
    page.evaluate(Axe().axe_script)
    for scheme, rules in {"light": {}, "dark": COLOURS}.items():
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        found = AxeResults(page.evaluate(VIOLATIONS, rules))
        assert not found.violations_count, f"{scheme}: {found.generate_report()}"
    assert errors == []
    page.close()


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


def test_courses_lead_from_page_to_page():
    """Next leads through all the pages of all chapters."""
    page = SITE / "auto_examples" / "01_gradient_argument" / "05_first_vjp.html"
    visited = [page]
    while link := re.search('class="next-page" href="([^"]+)"', page.read_text("utf-8")):
        page = (page.parent / link[1]).resolve()
        if "auto_examples" not in page.parts:
            break
        assert page not in visited
        visited.append(page)
    pages = {page for page in visited if re.match(r"\d\d_", page.name)}
    assert {f"{p.parent.name}/{p.stem}" for p in pages} == {
        f"{page.parent.name}/{page.stem}" for page in EXAMPLES
    }


def test_no_page_shows_its_markup():
    """A role that a line break cuts in two builds without a warning."""
    role = re.compile(r"\{[a-z]+\}`|:[a-z]+:`|^\([\w-]+\)=|^[<=>]{7}", re.MULTILINE)
    for path in PAGES:
        text = (SITE / path).read_text(encoding="utf-8")
        prose = re.sub(r"<(pre|script|code).*?</\1>|<[^>]*>", "", text, flags=re.DOTALL)
        assert not role.search(html.unescape(prose)), path


def test_every_letter_of_a_formula_is_served():
    """The math font holds all of them, so that a formula looks the same on any system."""
    font = TTFont(SITE / "_static" / "fonts" / "stix-two-math-subset.woff2")
    served = set(map(chr, font.getBestCmap()))
    for path in PAGES:
        text = (SITE / path).read_text(encoding="utf-8")
        for formula in re.findall(r"<math.*?</math>", text, re.DOTALL):
            shown = re.sub(r"<annotation.*?</annotation>|<[^>]*>", "", formula)
            missing = set(html.unescape(shown)) - served
            assert not {c for c in missing if not c.isspace()}, f"{path}: {missing}"


def test_pages_are_announced():
    """In the sitemap and llms.txt; each with a description and a picture that exist."""
    sitemap = (SITE / "sitemap.xml").read_text(encoding="utf-8")
    listed = set(re.findall(r"<loc>(.*?)</loc>", sitemap))
    named = (SITE / "llms.txt").read_text(encoding="utf-8")
    host = next(url for url in listed if url.endswith("/index.html")).split("/")[2]
    for path in sorted(set(PAGES) - {"404.html", "genindex.html", "search.html"}):
        text = (SITE / path).read_text(encoding="utf-8")
        (url,) = re.findall(r'<link rel="canonical" href="(.*?)"', text)
        assert url in listed
        assert path == "index.html" or f"({url}): " in named
        (described,) = re.findall(r'<meta [^>]*name="description"[^>]*>', text)
        said = re.search(r'content="(.*?)"', described)[1]
        assert len(said) > 20
        (picture,) = re.findall(r'<meta property="og:image" content="(.*?)"', text)
        assert urlsplit(picture).netloc == host
        site = url.removesuffix(path)
        with Image.open(SITE / picture.removeprefix(site)) as card:
            assert card.size == (1200, 630)
            assert len(card.getcolors(maxcolors=10**6)) > 10, "there is a picture on it"
        assert re.search(r'<meta property="og:image:alt" content="[^"]{10}', text)
    assert len(listed) == len(PAGES) - 3
