"""The box with other wordings of a question: what a page shows of it."""

import json
import re

import pytest
from bs4 import BeautifulSoup
from executed import EXAMPLES, name_of
from sites import Site, conf, write

import wheel
from pages import WORDINGS, Page

SEARCHED = """
    # Page

    :::{asked}
    - Twice?
    :::
    % words: gizmo
    % widget

    It adds up.

    ## Section
    % words: gadget

    More.
    """
MYST = {"myst_enable_extensions": ["colon_fence"], "nb_execution_mode": "off"}
CONF = conf("also_asked", "myst_nb", **MYST)
SEARCH = conf(
    "also_asked",
    "markdown_pages",
    "search_index",
    "myst_nb",
    html_copy_source=False,
    **MYST,
)
WRITTEN = {
    "md": """
        # Page

        :::{asked}
        - What does `x.grad` hold, when
          I call it twice?
        - "twice as large"
        :::

        It adds up.
        """,
    "rst": """
        Page
        ====

        .. asked::

           - What does ``x.grad`` hold, when
             I call it twice?
           - "twice as large"

        It adds up.
        """,
}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A site with the same page in both languages."""
    site = Site(tmp_path_factory.mktemp("asked"))
    index = "Home\n====\n\n.. toctree::\n\n   md\n   rst\n"
    pages = {f"docs/{suffix}.{suffix}": text for suffix, text in WRITTEN.items()}
    write(site.folder, {"docs/conf.py": CONF, "docs/index.rst": index, **pages})
    site.build("-n", "-W")
    return site


@pytest.mark.parametrize("suffix", WRITTEN)
def test_wordings_stand_in_a_closed_box(site, suffix):
    html = BeautifulSoup(site.page(f"docs/{suffix}.{suffix}"), "html.parser")
    (box,) = html.select("details.folded.asked")
    assert not box.has_attr("open")
    assert box.summary.get_text() == "Also asked as"
    wordings = [" ".join(item.get_text().split()) for item in box.select("li")]
    assert wordings == ["What does x.grad hold, when I call it twice?", "“twice as large”"]
    assert box.code.get_text() == "x.grad"


def test_text_that_is_no_list_is_refused(tmp_path):
    site = Site(tmp_path)
    text = "# Page\n\n:::{asked}\nWhy?\n:::\n"
    write(site.folder, {"docs/conf.py": CONF, "docs/index.md": text})
    site.build("-W", fails=True)
    assert "the content must be one list" in site.said


def test_words_of_an_entry_are_for_the_search_alone(tmp_path):
    site = Site(tmp_path)
    write(site.folder, {"docs/conf.py": SEARCH, "docs/index.md": SEARCHED})
    site.build()
    for word in ("gizmo", "widget", "gadget"):
        known = [name for name, text in site.published().items() if word.encode() in text]
        assert known == ["searchindex.js"], word
    index = site.published()["searchindex.js"].decode()
    packed = json.loads(index.removeprefix("const INDEX = ").removesuffix(";\n"))
    where = dict(zip(packed["terms"].split(), packed["words"].split(" "), strict=True))
    assert [where[word] for word in ("gizmo", "gadget")] == ["@", "A"]  # page, section


def test_the_names_of_neighbours_are_those_of_other_entries(tmp_path):
    several = "\n\n    **See also:**\n\n    - a gimmick\n    - a doodad"
    one = "More.\n\n    **See also:** a trinket."
    text = SEARCHED.replace("It adds up.", f"It adds up.{several}").replace("More.", one)
    site = Site(tmp_path)
    write(site.folder, {"docs/conf.py": SEARCH, "docs/index.md": text})
    site.build()
    index = site.published()["searchindex.js"]
    assert b"widget" in index
    for word in (b"gimmick", b"doodad", b"trinket"):
        assert word in site.published()["index.html"]
        assert word not in index, word


def test_a_comment_that_the_search_would_not_see_is_refused(tmp_path):
    wrong = {
        "word": ("% words: gizmo", "% word: gizmo"),
        "capital": ("% words: gizmo", "% Words: gizmo"),
        "colon": ("% words: gizmo", "% words gizmo"),
        "hints": ("% words: gizmo", "% hints: gizmo"),
        "below": ("It adds up.", "It adds up.\n\n    % words: gizmo"),  # a paragraph
    }
    assert all(text in SEARCHED for text, _ in wrong.values())
    pages = {f"docs/{page}.md": SEARCHED.replace(*edit) for page, edit in wrong.items()}
    site = Site(tmp_path)
    write(site.folder, {"docs/conf.py": SEARCH, "docs/index.md": SEARCHED, **pages})
    site.build("-W", "--keep-going", fails=True)
    refused = re.findall(r"(\w+)\.md:\d+: WARNING: .*the search", site.said)
    assert {*refused} == wrong.keys()


def test_wordings_in_a_comment_at_the_end_of_a_script(tmp_path):
    """They change neither what its page shows nor whether it has to run again."""
    script = EXAMPLES[0].read_text(encoding="utf-8")
    assert "\n#\n# .. asked: " in script
    bare, _, comment = script.rpartition("#\n# .. asked: ")
    write(tmp_path, {"examples/one.py": "1\n"})
    page = tmp_path / "examples" / "one.py"
    asked, words = "# .. asked: one; two\n#    three\n", "# .. words: four\n#    five\n"
    for text in (bare, script, f"{bare}#\n{asked}", f"{script}{words}"):
        page.write_text(text, encoding="utf-8")
        assert Page(tmp_path, "examples/one.py").text == bare
    page.write_text(script + "# More.\n", encoding="utf-8")
    assert Page(tmp_path, "examples/one.py").text != bare
    cell = "**Next:** a page.\n\n.. asked: " + comment.replace("\n# ", "\n")
    cell += words.replace("# ", "")
    assert wheel.WORDINGS.sub("", cell).rstrip() == "**Next:** a page."


@pytest.mark.parametrize("page", EXAMPLES, ids=name_of)
def test_every_page_says_how_people_ask_for_it(page):
    if "questions_" in page.stem:
        pytest.skip("asks questions itself")
    text = WORDINGS.search(page.read_text(encoding="utf-8"))
    assert text, "a comment `.. asked: one; another` at the end"
    asked = " ".join(re.sub(r"^# *", "", text[0], flags=re.M).split())
    asked = asked.partition(".. asked: ")[2].partition(" .. words: ")[0]
    found = asked.split("; ")
    assert len(found) >= 3
    assert len({*map(str.lower, found)}) == len(found), "one of them twice"
