"""Long lists of pages in the sidebar (docs/_ext/navigation.py)."""

import re
from types import SimpleNamespace

import pytest

from navigation import LONG, NEIGHBOURS, shorten


def sidebar(pages, current=None):
    """Return the numbers of the entries that the sidebar of one page shows."""
    mark = {current: " current"}
    entries = "\n".join(
        f'<li class="toctree-l2{mark.get(n, "")}"><a href="{n}.html"><em>{n}</em></a></li>'
        for n in range(pages)
    )
    tree = f'<ul><li class="toctree-l1"><a href="up">Up</a><ul>\n{entries}\n</ul></li></ul>'
    context = {"toctree": lambda **options: tree}
    shorten(SimpleNamespace(), "page", "page.html", context, None)
    shown = context["toctree"](collapse=False)
    assert '<a href="up">Up</a>' in shown
    assert shown.count("<ul") == shown.count("</ul>")
    return [int(n) for n in re.findall(r"<em>(\d+)</em>", shown)]


def test_a_short_list_stays():
    assert sidebar(LONG - 1) == list(range(LONG - 1))


def test_a_long_list_is_left_out_of_other_pages():
    assert sidebar(LONG) == []


@pytest.mark.parametrize("current", [0, 100, 199])
def test_a_member_of_a_long_list_shows_its_neighbours(current):
    near = range(max(0, current - NEIGHBOURS), min(200, current + NEIGHBOURS + 1))
    assert sidebar(200, current) == list(near)
