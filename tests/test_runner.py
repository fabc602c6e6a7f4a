"""What the runner and the store of outputs do with pages, seen on a small project."""

import re

import pytest
from executed import EXAMPLES, NOTEBOOKS
from sites import write

from pages import ROOT, Store, find

PACKAGE = {"src/tiny/__init__.py": "def a():\n    return 'number one'"}


def ran(folder, code, name="examples/one/page.py", **files):
    """Execute a page of a project; return what came of it."""
    write(folder, {**PACKAGE, **files, name: code})
    ((_, result),) = Store(folder).execute(list(find(folder)), 1)
    return result


@pytest.mark.parametrize(
    ("code", "wrong"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("import sys; print('here', file=sys.stderr)", "here\n"),
        ("import os; os.write(2, b'said in C') > 0", "said in C"),
        ("import os; os.write(1, b'said in C') > 0", "said in C"),
        ("import warnings; warnings.warn('beware')", "UserWarning: beware"),
        ("import warnings; warnings.warn('old', DeprecationWarning)", "DeprecationWarning"),
        ("import sphinx", "No module named 'sphinx'"),
        ("import os; os._exit(3)", "crashed"),
        ("import os; assert os.listdir() == ['page.py'], os.listdir()", ""),
        ("import numpy, tiny", ""),
    ],
)
def test_what_does_not_run_alone_is_told(tmp_path, code, wrong):
    found = ran(tmp_path, f'"""Page."""\n{code}')["failure"]
    assert wrong in found
    assert bool(wrong) == bool(found)


def test_a_page_that_takes_too_long_is_ended(tmp_path):
    write(
        tmp_path,
        {**PACKAGE, "examples/one/page.py": '"""P."""\nimport time; time.sleep(60)'},
    )
    ((_, result),) = Store(tmp_path).execute(list(find(tmp_path)), 1, limit=1)
    assert "took more than 1 s" in result["failure"]


def test_a_block_shows_what_it_prints_its_value_and_its_figures(tmp_path):
    code = '''
        """Page."""
        import matplotlib.pyplot as plt

        class Rich:
            def _repr_html_(self):
                return "<b>rich</b>"

            def __repr__(self):
                return "plain"

        print("printed")
        2 * 3

        # %%
        # Words, and a figure.

        plt.plot([0, 1])
        plt.title("Rising")
        Rich()

        # %%
        # Nothing to show.

        None
        '''
    first, second, third = ran(tmp_path, code)["shown"]
    assert first == {"line": 2, "stdout": "printed\n", "text": "6"}
    assert (second["text"], second["html"]) == ("plain", "<b>rich</b>")
    (figure,) = second["figures"]
    assert figure["titles"] == "Rising"
    assert figure["png"] != figure["large"]
    assert third.keys() == {"line"}


def test_cells_are_found_with_their_options(tmp_path):
    text = """
        ```{code-cell}
        :tags: [hide-input, remove-stderr]
        import sys
        print("ow", file=sys.stderr)
        ```
        ```{code-cell} python
        sys.version_info.major
        ```
        """
    first, second = ran(tmp_path, text, "docs/page.md")["shown"]
    assert first["stderr"] == "ow\n"
    assert second["text"] == "3"


def test_files_that_a_page_names_are_there_and_no_others(tmp_path):
    code = '''
        """Page."""
        from pathlib import Path

        print(Path("../data/named.txt").read_text())
        sorted(path.name for path in Path("..").rglob("*.*"))
        '''
    data = {"examples/data/named.txt": "found", "examples/data/other.txt": "hidden"}
    (shown,) = ran(tmp_path, code, **data)["shown"]
    assert shown["stdout"].startswith("found")
    assert shown["text"] == "['named.txt', 'page.py']"


def test_an_output_is_known_until_what_it_depends_on_changes(tmp_path):
    """What this is, test_execution.py shows on a site."""
    ran(tmp_path, '"""Page."""\nprint(1)')
    (page,) = find(tmp_path)
    assert Store(tmp_path).stale([page]) == []
    result = ran(tmp_path, '"""Page."""\n1 / 0')
    assert result["failure"]
    (page,) = find(tmp_path)
    assert Store(tmp_path).last(page) is None, "what failed leaves nothing"


@pytest.mark.parametrize(
    "file", sorted(ROOT.glob("benchmarks/results/*.json")), ids=lambda file: file.name
)
def test_recorded_figures_are_named_whole(file):
    """A page finds the files that it names in one string."""
    for page in (*EXAMPLES, *NOTEBOOKS):
        text = page.read_text(encoding="utf-8")
        if re.search(rf"\b{file.name}", text):
            (named,) = re.findall(rf'"(\S+/{file.name})"', text)
            assert (page.parent / named).samefile(file)
