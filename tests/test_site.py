"""The built site in a real browser.

Needs Chromium and a built site (``nox -s docs``); skips, and says so, without.
"""

import functools
import gzip
import html
import re
from urllib.parse import urlsplit

import pytest
import sweeps
from axe_playwright_python.sync_playwright import Axe, AxeResults
from built import CHAPTER, DESKTOP, PAGES, SITE, needs_chromium, needs_site
from executed import EXAMPLES, ROOT
from fontTools.ttLib import TTFont
from PIL import Image

# The sidebar is the same on all pages of a part: a few of them show what is in it.
WITH_SIDEBAR = re.compile(r"(^|/)(index|30_shapes|scalar-outputs)\.html")
NO_ENTRY = {
    "auto_examples/index.html",
    "genindex.html",
    "index.html",
    "search.html",
    "source_map.html",
}
HEAVY = 70_000  # bytes, as a static host sends them
EMPTY_HEAD = re.compile(r"<th[^>]*>(?:\s|<p>\s*</p>)*</th>")
FONTS = SITE / "_static" / "fonts"
FORMULA = re.compile(r"<math.*?</math>", re.DOTALL)
SOURCE_OR_TAG = re.compile(r"<annotation.*?</annotation>|<[^>]+>", re.DOTALL)
PICTURE = re.compile(r'<(svg|form) class="pb-(?:draw|live)".*?</\1>', re.DOTALL)
COLOURS = ["color-contrast", "link-in-text-block"]  # what a scheme changes
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
# The colours of two texts are the same where all that holds them has the same kinds,
# classes and styles: one of each is enough. A link is told from the text around it, if any.
ONE_OF_EACH_COLOUR = """() => {
  const seen = new Set();
  const look = (element, above) => {
    const { tagName, parentElement, textContent } = element;
    const how = ["class", "style", "role"].map((name) => element.getAttribute(name));
    const path = `${above} > ${tagName} ${how}`;
    [...element.children].forEach((child) => look(child, path));
    if (element.children.length || textContent.trim().length < 2) return;
    const alone = parentElement.textContent.trim() === textContent.trim();
    const kind = [path, alone, element.matches(":first-child")].join();
    if (seen.has(kind)) element.remove();
    seen.add(kind);
  };
  look(document.body, "");
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
  outOfSight: [...document.querySelectorAll(".sidebar-tree [aria-current]")].filter((e) => {
    const { top, bottom } = e.getBoundingClientRect();
    return top < 0 || bottom > innerHeight;
  }).map((e) => e.textContent),
  unconverted: [...document.querySelectorAll(".math")]
    .filter((e) => !e.querySelector("math")).map((e) => e.textContent),
  later: [...document.querySelectorAll("img[loading=lazy]")].map((e) => e.src),
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


def without_pictures(page):
    """Return the bytes of a page as it is sent, but for its drawings and live pictures."""
    bare = PICTURE.sub("", page.read_text(encoding="utf-8"))
    return len(gzip.compress(bare.encode()))


def letters_shown(text):
    """Return the characters of the formulas of a page."""
    formulas = "".join(FORMULA.findall(text))
    return {*html.unescape(SOURCE_OR_TAG.sub("", formulas))}


def letters_of(font):
    """Return the characters of one of the two files of the font for formulas."""
    return {*(FONTS / f"{font}.txt").read_text(encoding="utf-8")} - {"\n"}


class Visitor:
    """A window that goes from page to page, and notes what is loaded and what fails."""

    def __init__(self, browser):
        self.page = browser.new_page(viewport=DESKTOP, reduced_motion="reduce")
        self.page.add_init_script(SHIFT)
        self.page.on("request", lambda r: self.loaded.add((r.resource_type, r.url)))
        self.page.on("response", lambda r: r.status >= 400 and self.errors.append(r.url))
        self.page.on("console", lambda m: m.type == "error" and self.errors.append(m.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))

    def open(self, url):
        """Load a page as a first visit does; return what is read on it."""
        self.page.goto("about:blank")
        self.page.set_viewport_size(DESKTOP)
        self.page.emulate_media(color_scheme="light", reduced_motion="reduce")
        self.loaded, self.errors = set(), []
        self.page.goto(url, wait_until="load")
        self.page.evaluate("document.fonts.ready")
        return self.page.evaluate(READ)

    def files(self):
        """Return what the page has loaded, without pictures and what comes behind it."""
        urls = {
            url
            for kind, url in self.loaded
            if kind != "image" and not url.startswith("data:")
        }
        paths = {urlsplit(url).path for url in urls}
        paths.discard("/_static/typed.js")  # two seconds later
        return {SITE / path.lstrip("/") for path in paths}

    def fits(self, width):
        """Tell whether the page, in a window so wide, does not scroll sideways."""
        self.page.set_viewport_size({"width": width, "height": 740})
        return self.page.evaluate("document.documentElement.scrollWidth") <= width

    def violations(self, **rules):
        """Return what axe-core objects to, as a report; nothing if that is nothing."""
        found = AxeResults(self.page.evaluate(VIOLATIONS, rules))
        return found.generate_report() if found.violations_count else ""

    def objections(self):
        """Yield what axe-core objects to, the colours of each scheme apart."""
        self.page.evaluate(ONE_OF_EACH)
        self.page.evaluate(Axe().axe_script)
        yield self.violations(rules={rule: {"enabled": False} for rule in COLOURS})
        self.page.evaluate(ONE_OF_EACH_COLOUR)
        for scheme in ("light", "dark"):
            self.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            if found := self.violations(runOnly=COLOURS):
                yield f"{scheme}: {found}"


@pytest.fixture(scope="module")
def visitor(browser):
    return Visitor(browser)


@functools.cache
def shared():
    """Return a digest of what all pages share: styles, scripts, fonts."""
    kinds = {".css", ".js", ".woff2"}
    files = sorted(file for file in SITE.rglob("_static/**/*") if file.suffix in kinds)
    return sweeps.digest(*map(sweeps.of, files))


FIRST_VISITS = (
    "index.html",
    f"{CHAPTER}10_why_a_vector.html",
    "auto_examples/02_jacobians/05_reading.html",
    "answers/none.html",
    "errors/mismatch-in-shape.html",
)


@pytest.mark.parametrize("visited", FIRST_VISITS)
def test_a_first_visit_is_light(visitor, address, visited):
    """Pictures apart, as a static host sends it, without what comes behind the page."""
    visitor.open(address + visited)
    assert sum(map(weight, visitor.files())) <= 60 * 1024


@pytest.mark.sweep(lot=12, state=shared, file=SITE.joinpath)
@pytest.mark.parametrize("visited", PAGES)
def test_page_loads_like_paper_and_everyone_can_read_it(visitor, address, visited):
    """Whole, from this host alone; light, its own pictures apart; and nothing moves.

    axe-core objects to nothing, light or dark, and the page itself never scrolls sideways.
    """
    seen = visitor.open(address + visited)
    loaded = {r for r in visitor.loaded if not r[1].startswith("data:")}
    assert [url for _, url in loaded if not url.startswith(address)] == []
    assert seen["unconverted"] == []
    assert seen["wordless"] == []
    assert seen["sizeless"] == [], "text would move when they come"
    assert seen["shift"] <= 0.02
    assert seen["outOfSight"] == [], "in the menu"
    own = {url for kind, url in loaded if "/_images/" in url}  # as many as it needs
    assert len({url for _, url in loaded} - {*seen["later"]} - own) <= 16
    beside = visitor.files() - {SITE / visited}
    whole = without_pictures(SITE / visited) + sum(map(weight, beside))
    assert whole <= HEAVY, "does a formula take the rare font?"

    assert visitor.fits(360), "on a phone"
    assert visitor.fits(640), "in a window of 1280 px at 200 % zoom"
    visitor.page.set_viewport_size(DESKTOP)
    if not WITH_SIDEBAR.search(visited):
        visitor.page.evaluate("document.querySelector('.sidebar-drawer')?.remove()")
    assert not "".join(visitor.objections())
    assert visitor.errors == []


def of_every_page(but):
    """Have a test look at every page but some, and name each on which it fails."""

    def test_of(look):
        def test():
            wrong = []
            for path in sorted({*PAGES} - but):
                try:
                    look(path, (SITE / path).read_text(encoding="utf-8"))
                except Exception as error:
                    wrong.append(f"{path}: {type(error).__name__}: {error}")
            assert not wrong, "\n\n".join(wrong)

        test.__doc__ = look.__doc__
        return test

    return test_of


@of_every_page(but={"404.html"})
def test_what_surrounds_an_article_is_light(path, text):
    """The menu has what is near, and one entry for the page itself."""
    around = text[: text.index("<article")] + text[text.rindex("</article>") :]
    assert len(around.encode()) <= 15_000
    (menu,) = re.findall(r'<nav class="sidebar-tree".*?</nav>', around, re.DOTALL)
    assert menu.count("<a ") <= 60
    assert menu.count("aria-current") == (path not in NO_ENTRY)


def test_a_page_has_the_styles_that_few_need():
    """And few have them."""
    styled = re.compile(
        r'id="(?:search-form|cheat-sheet|source-map)"|class="[^"]*odd-inputs'
    )
    texts = {path: (SITE / path).read_text(encoding="utf-8") for path in PAGES}
    having = {path for path, text in texts.items() if "few.css" in text}
    assert {path for path, text in texts.items() if styled.search(text)} <= having
    assert 3 < len(having) < 10


def test_one_text_of_each_colour_is_enough(visitor, address):
    """A faint word is found among others, in the scheme in which it is faint."""
    visitor.open(address + CHAPTER + "30_shapes.html")
    said = "<p {}>plain and <em {}>said</em></p>"
    faint = (
        "<style>@media (prefers-color-scheme: dark) { .faint em { color: #333; } }</style>"
    )
    faint += said.format("", "") + said.format("", "style='color: #eee'")
    faint += said.format("class='faint'", "")
    add = "html => document.querySelector('article').insertAdjacentHTML('beforeend', html)"
    visitor.page.evaluate(add, faint)
    light, dark = filter(None, visitor.objections())
    assert light.count("<em") == dark.count("<em") == 1
    assert "#eeeeee" in light
    assert "#333333" in dark


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
    page.goto(address + "auto_examples/08_more_on_v/30_one_component.html")
    for part in ("h1", "math", ".sphx-glr-download a", "a.next-page", ".sidebar-tree a"):
        assert page.locator(part).first.is_visible(), part
    context.close()


@pytest.mark.parametrize(
    "path",
    [
        CHAPTER + "20_by_hand.html",
        "answers/nan.html",
        "answers/hooks.html",
        "errors/mutating-function.html",
    ],
)
def test_code_fits_a_phone_and_is_copied_as_one_would_type_it(browser, address, path):
    """No line scrolls; a button for a thumb; no prompt, output or assert is copied."""
    size = {"width": 360, "height": 740}
    context = browser.new_context(viewport=size, has_touch=True, is_mobile=True)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(address + path, wait_until="load")
    blocks = page.locator(
        ":is(.highlight-ipython3, .highlight-python, .highlight-Python) pre"
    )
    scrolling = "all => all.filter((e) => e.scrollWidth > e.clientWidth + 1).length"
    assert blocks.evaluate_all(scrolling) == 0
    shown = blocks.evaluate_all("all => all.map((e) => e.textContent)")
    buttons = page.locator("article .copybtn")
    assert buttons.count() == blocks.count() > 0
    for button, text in zip(buttons.all(), shown, strict=True):
        box = button.bounding_box()
        assert min(box["width"], box["height"]) >= 40
        button.evaluate("button => button.click()")  # the header may be in the way
        button.locator(".icon-done").wait_for(state="attached")  # in a closed box, too
        copied = page.evaluate("navigator.clipboard.readText()")
        compile(copied, path, "exec")
        assert not re.search(r"^(assert\b|>>>)", copied, re.MULTILINE)
        text = text.replace("\xa0", " ")  # so that an indented line wraps where it should
        kept = [line for line in text.splitlines() if not line.startswith("assert")]
        assert copied.rstrip("\n").splitlines() == "\n".join(kept).rstrip("\n").splitlines()
    assert page.locator(".search-link").is_visible()
    context.close()


@pytest.mark.parametrize("chapter", sorted({page.parent.name for page in EXAMPLES}))
def test_courses_lead_from_page_to_page(chapter):
    """Next leads through all the pages of a chapter, and then out of it."""
    pages = [page.stem for page in EXAMPLES if page.parent.name == chapter]
    folder, visited = SITE / "auto_examples" / chapter, [min(pages)]
    for _ in pages:
        text = (folder / f"{visited[-1]}.html").read_text("utf-8")
        link = re.search('class="next-page" href="([^"]+)"', text)
        following = (folder / link[1]).resolve() if link else None
        if following is None or following.parent != folder:
            break
        visited.append(following.stem)
    assert visited == sorted(pages)


def test_no_page_shows_its_markup():
    """A role that a line break cuts in two builds without a warning."""
    role = re.compile(r"\{[a-z]+\}`|:[a-z]+:`|^\([\w-]+\)=|^[<=>]{7}", re.MULTILINE)
    for path in PAGES:
        text = (SITE / path).read_text(encoding="utf-8")
        prose = re.sub(r"<(pre|script|code).*?</\1>|<[^>]*>", "", text, flags=re.DOTALL)
        assert not role.search(html.unescape(prose)), path


def test_every_page_is_light_and_every_column_has_a_name():
    """What the browser measures of some pages, of all of them, from what they link to."""
    rare = letters_of("rare")
    linked = re.compile(r'(?:href|src)="(?!https?:)([^"?]+\.(?:css|js|woff2))[?"]')
    heavy, nameless = {}, []
    for path in PAGES:
        page = SITE / path
        text = page.read_text(encoding="utf-8")
        files = {page.parent.joinpath(name).resolve() for name in linked.findall(text)}
        if rare & letters_shown(text):
            files.add((FONTS / "stix-two-math-rare.woff2").resolve())
        whole = without_pictures(page) + sum(map(weight, files))
        if whole > HEAVY:
            heavy[path] = whole
        if EMPTY_HEAD.search(text):
            nameless.append(path)
    assert heavy == {}, "does a formula take the rare font?"
    assert nameless == []


def test_a_rare_letter_loads_its_font():
    """The range in the style sheet has what is in the font, and no letter of the other."""
    sheet = (SITE / "_static" / "pullback.css").read_text(encoding="utf-8")
    text = re.search(r"unicode-range: (.*?);", sheet, re.DOTALL)[1]
    ends = [[int(n, 16) for n in part.strip()[2:].split("-")] for part in text.split(",")]
    within = {
        chr(c) for first, *last in ends for c in range(first, (last or [first])[0] + 1)
    }
    assert letters_of("rare") <= within
    assert not within & letters_of("common")


def test_every_letter_of_a_formula_is_served():
    """The math font holds all of them, so that a formula looks the same on any system."""
    fonts = [TTFont(file) for file in FONTS.glob("*.woff2")]
    served = {chr(code) for font in fonts for code in font.getBestCmap()}
    for path in PAGES:
        text = (SITE / path).read_text(encoding="utf-8")
        missing = {c for c in letters_shown(text) - served if not c.isspace()}
        assert missing == set(), path


IN_NO_LIST = {"404.html", "genindex.html", "search.html"}
SITE_URL = (
    re.search(
        r'<link rel="canonical" href="(.*?)index.html"',
        (SITE / "index.html").read_text("utf-8"),
    )
    if (SITE / "index.html").exists()
    else None
)


@of_every_page(but=IN_NO_LIST)
def test_a_page_says_what_it_is(path, text):
    """To search engines, on cards, and to readers that are programs."""
    (described,) = re.findall(r'<meta [^>]*name="description"[^>]*>', text)
    assert len(re.search(r'content="(.*?)"', described)[1]) > 20
    (beside,) = re.findall(
        r'<link rel="alternate" type="text/markdown" href="(.*?)">', text
    )
    assert (SITE / path).with_name(beside) == (SITE / path).with_suffix(".md")
    assert (SITE / path).with_name(beside).read_text(encoding="utf-8").count("\n") > 4


@of_every_page(but=IN_NO_LIST)
def test_a_page_says_where_it_is(path, text):
    """With whole addresses, where the site has one; else with none."""
    if SITE_URL is None:
        assert not re.search(r'rel="canonical"|"og:url"|"og:image"', text)
        return
    (url,) = re.findall(r'<link rel="canonical" href="(.*?)"', text)
    assert url == SITE_URL[1] + path
    assert f"<loc>{url}</loc>" in (SITE / "sitemap.xml").read_text(encoding="utf-8")
    (picture,) = re.findall(r'<meta property="og:image" content="(.*?)"', text)
    with Image.open(SITE / picture.removeprefix(SITE_URL[1])) as card:
        assert card.size == (1200, 630)
        assert len(card.getcolors(maxcolors=10**6)) > 10, "there is a picture on it"
    assert re.search(r'<meta property="og:image:alt" content="[^"]{10}', text)


def test_no_file_names_this_machine():
    """A site that was built without an address has none, and no dead link in its place."""
    for file in SITE.rglob("*"):
        if file.suffix in {".html", ".ipynb", ".js", ".json", ".md", ".txt", ".xml"}:
            text = file.read_text(encoding="utf-8")
            assert "http://localhost" not in text, file
            assert not re.search(r'href="/?(edit|issues|blob)/', text), file


@of_every_page(but=IN_NO_LIST)
def test_the_foot_of_a_page_says_where_it_comes_from(path, text):
    foot = text[text.index('<div class="provenance">') :]
    assert re.search(r"(Run with|Built with) PyTorch \d+\.\d+", foot)
    assert (ROOT / re.search(r"written in <code>(.*?)</code>", foot)[1]).is_file()
    if "sphx-glr-script-out" in text or "cell_output" in text:
        assert re.search(r"Run with PyTorch \S+ on 20\d\d-\d\d-\d\d", foot)


def test_programs_find_every_page():
    """In llms.txt or a list that it names, none of them longer than 50,000 characters."""
    lists = [*SITE.rglob("llms.txt")]
    found = set()
    for file in lists:
        text = file.read_text(encoding="utf-8")
        assert len(text) < 50_000, file
        found |= {*re.findall(r"\]\((\S+)\)", text)}
    base = SITE_URL[1] if SITE_URL else "/"
    listed = {*PAGES} - IN_NO_LIST - {"index.html"}
    wanted = {path.removesuffix("html") + "md" for path in listed}
    wanted |= {file.relative_to(SITE).as_posix() for file in lists} - {"llms.txt"}
    assert found == {f"{base}{path}" for path in {*wanted, "errors.json"}}
    for link in found:
        assert (SITE / link.removeprefix(base)).is_file()
