"""What the page of a symptom asks, above it (docs/_ext/symptoms.py)."""

from bs4 import BeautifulSoup
from sphinx.application import Sphinx

PAGE = """
Zero
====

Begin here.

Then this.

1 · Is ``x`` a *leaf*?
----------------------

No.

2 · Is it cut?
--------------

Yes.
"""
THIRD = """
None of these
-------------

So.
"""


def lists_of(tmp_path, **pages):
    """Return the lists of questions of each page, as their links."""
    source, out = tmp_path / "source", tmp_path / "out"
    for name, text in {"index": "Home\n====\n", **pages}.items():
        file = (source / name.replace("_", "/")).with_suffix(".rst")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(":orphan:\n" + text, encoding="utf-8")
    settings = {"extensions": ["symptoms"]}
    Sphinx(source, None, out, tmp_path / "trees", "html", settings, status=None).build()
    found = {}
    for name in pages:
        html = (out / name.replace("_", "/")).with_suffix(".html").read_text("utf-8")
        soup = BeautifulSoup(html, "html.parser")
        links = soup.select("ul.questions a")
        for link in links:
            assert soup.find(id=link["href"].removeprefix("#")), link
        before = soup.select_one("ul.questions")
        assert not links or before.find_previous("p").text == "Begin here."
        found[name] = [link.decode_contents() for link in links]
    return found


def test_each_question_is_a_link_above_the_first(tmp_path):
    found = lists_of(tmp_path, fix_zero=PAGE + THIRD, fix_short=PAGE, other=PAGE + THIRD)
    links = found.pop("fix_zero")
    assert found == {"fix_short": [], "other": []}
    assert [BeautifulSoup(link, "html.parser").text for link in links] == [
        "1 · Is x a leaf?",
        "2 · Is it cut?",
        "None of these",
    ]
    assert "<em>leaf</em>" in links[0]
