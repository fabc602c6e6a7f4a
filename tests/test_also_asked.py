"""The box with other wordings of a question: what a page shows of it."""

import pytest
from bs4 import BeautifulSoup
from executed import ROOT
from sites import Site, write

CONF = f"""
    import sys
    sys.path.insert(0, {str(ROOT / "docs" / "_ext")!r})
    project = "Tiny"
    extensions = ["also_asked", "myst_nb"]
    myst_enable_extensions = ["colon_fence"]
    nb_execution_mode = "off"
    """
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


@pytest.mark.parametrize("suffix", WRITTEN)
def test_wordings_stand_in_a_closed_box(tmp_path, suffix):
    site = Site(tmp_path)
    page = f"docs/index.{suffix}"
    write(site.folder, {"docs/conf.py": CONF, page: WRITTEN[suffix]})
    site.build("-n", "-W")
    html = BeautifulSoup(site.page(page), "html.parser")
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
