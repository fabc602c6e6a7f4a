"""What the runner and the store of outputs do with pages, seen on a small project."""

import os
import re
import signal
from pathlib import Path

import pytest
from executed import EXAMPLES, NOTEBOOKS
from sites import write

from pages import ODD_ANSWERS, ROOT, Store, executed, find, pieces

PACKAGE = {"src/tiny/__init__.py": "def a():\n    return 'number one'"}


def ran_together(folder, pages, **files):
    """Execute the pages of a project in one go; return what came of each."""
    write(folder, {**PACKAGE, **files, **pages})
    found = {page.name: page for page in find(folder)}
    done = Store(folder).execute([found[name] for name in pages], 1)
    results = {page.name: result for page, result in done}
    return [results[name] for name in pages]


def ran(folder, code, name="examples/one/page.py", **files):
    """Execute a page of a project; return what came of it."""
    (result,) = ran_together(folder, {name: code}, **files)
    return result


def hold(results, codes):
    """Hold the result of each code to what is wrong with it, which may be nothing."""
    for (code, wrong), result in zip(codes.items(), results, strict=True):
        assert wrong in result["failure"], code
        assert bool(wrong) == bool(result["failure"]), (code, result["failure"])


def test_what_does_not_run_alone_is_told(tmp_path):
    codes = {
        "1 / 0": "ZeroDivisionError",
        "import sys; print('here', file=sys.stderr)": "here\n",
        "import os; os.write(2, b'said in C') > 0": "said in C",
        "import os; os.write(1, b'said in C') > 0": "said in C",
        "import warnings; warnings.warn('beware')": "UserWarning: beware",
        "import warnings; warnings.warn('old', DeprecationWarning)": "DeprecationWarning",
        "import sphinx": "No module named 'sphinx'",
        "import os; os._exit(3)": "crashed",
        "import os; assert os.listdir() == ['page.py'], os.listdir()": "",
        "import numpy, tiny": "",
    }
    pages = {
        f"examples/number_{i}/page.py": f'"""Page."""\n{code}'
        for i, code in enumerate(codes)
    }
    hold(ran_together(tmp_path, pages), codes)


ENTRY = "src/tiny/messages/theme/number-0.md"


def raised_together(folder, codes):
    """Execute the code of each of some messages; return what came of each."""
    for i, code in enumerate(codes):
        entry = ENTRY.replace("0", str(i))
        write(folder, {**PACKAGE, entry: f"Prose.\n\n```python broken\n{code}\n```"})
    done = Store(folder).execute(list(pieces(folder)), 1)
    results = {piece.name: result for piece, result in done}
    return [results[f"errors/number-{i}/broken.py"] for i in range(len(codes))]


def raised(folder, code):
    """Execute a piece of code of a message; return what came of it."""
    (result,) = raised_together(folder, [code])
    return result


def test_the_code_of_a_message_shows_what_it_raises_and_warns_of(tmp_path):
    first = "import warnings; print(__name__); warnings.warn('old', DeprecationWarning)"
    raising, passing = raised_together(tmp_path, [f"{first}\n1 / 0", "print(__name__)"])
    assert raising["failure"] == ""
    (shown,) = raising["shown"]
    texts = [["ZeroDivisionError", "division by zero"], ["DeprecationWarning", "old"]]
    assert shown == {"line": 1, "raised": texts}
    (shown,) = passing["shown"]
    assert shown == {"line": 1, "stdout": "__main__\n"}


@pytest.mark.usefixtures("torch_alone")
def test_a_warning_that_torch_gives_once_is_given_to_each(tmp_path):
    """The first one is no other's: the process is new."""
    code = "import torch\nx = torch.ones(1, requires_grad=True) * 2\nx.grad\nx.grad"
    for result in raised_together(tmp_path, [code, code]):
        (shown,) = result["shown"]
        assert [kind for kind, _ in shown["raised"]] == ["UserWarning", "UserWarning"]


def test_the_code_of_a_message_runs_alone(tmp_path):
    codes = {
        "import sphinx": "",  # raises, as it may
        "import os; os._exit(3)": "crashed",
        "import os; os.write(2, b'said in C')": "said in C",
        "import os; assert os.listdir() == ['broken.py']": "",
    }
    results = raised_together(tmp_path, codes)
    hold(results, codes)
    for code, result in zip(codes, results, strict=True):
        assert ("sphinx" in code) == any("raised" in shown for shown in result["shown"])


def test_nobody_waits_for_threads_that_the_code_leaves(tmp_path):
    mark = tmp_path / "mark"
    code = f"import threading\nthreading.Timer(3, open, [{str(mark)!r}, 'w']).start()"
    assert raised(tmp_path, code)["failure"] == ""
    assert not mark.exists()


def test_the_prose_of_a_message_is_not_executed(tmp_path):
    raised(tmp_path, "print(1)")
    (tmp_path / ENTRY).write_text((tmp_path / ENTRY).read_text().replace("Prose", "More"))
    store = Store(tmp_path)
    assert store.stale(pieces(tmp_path)) == []
    write(tmp_path, {"src/tiny/other.py": ""})
    assert Store(tmp_path).stale(pieces(tmp_path)) == [], "it does not use the package"
    (tmp_path / ENTRY).write_text((tmp_path / ENTRY).read_text().replace("(1)", "(2)"))
    assert [piece.name for piece in store.stale(pieces(tmp_path))] == [
        "errors/number-0/broken.py"
    ]


def test_a_script_imports_what_stands_beside_it_and_depends_on_it(tmp_path):
    script = {ODD_ANSWERS: '"""Page."""\nfrom beside import two\ntwo'}
    beside = str(Path(ODD_ANSWERS).with_name("beside.py"))
    write(tmp_path, {**PACKAGE, **script, beside: "two = 2"})
    for value in "23":
        write(tmp_path, {beside: f"two = {value}"})
        (page,) = stale = Store(tmp_path).stale(executed(tmp_path))
        ((_, result),) = Store(tmp_path).execute(stale, 1)
        assert (page.name, result["shown"][0]["text"]) == (ODD_ANSWERS, value)
    assert Store(tmp_path).stale(executed(tmp_path)) == []


def test_a_page_that_takes_too_long_is_ended(tmp_path):
    write(
        tmp_path,
        {**PACKAGE, "examples/one/page.py": '"""P."""\nimport time; time.sleep(60)'},
    )
    ((_, result),) = Store(tmp_path).execute(list(find(tmp_path)), 1, limit=1)
    assert "took more than 1 s" in result["failure"]


@pytest.mark.parametrize(
    ("then", "limit", "wrong"),
    [
        ("time.sleep(600)", 2, "took more than 2 s"),
        ("os._exit(3)", 200, "crashed"),
        ("print('printed')", 200, ""),
    ],
)
def test_nobody_waits_for_processes_that_a_page_leaves(tmp_path, then, limit, wrong):
    """They would be gone by then."""
    mark = tmp_path / "mark"
    code = f'''
        """Page."""
        import os, pathlib, time

        if child := os.fork():
            pathlib.Path({str(mark)!r}).write_text(str(child))
            {then}
        else:
            time.sleep(600)
            os._exit(0)
        '''
    write(tmp_path, {**PACKAGE, "examples/one/page.py": code})
    ((_, result),) = Store(tmp_path).execute(list(find(tmp_path)), 1, limit)
    os.kill(int(mark.read_text()), signal.SIGKILL)  # it is still there
    assert wrong in result["failure"]
    assert bool(wrong) == bool(result["failure"])


def test_a_process_that_a_page_forks_does_not_answer_for_it(tmp_path):
    code = '''
        """Page."""
        import os

        child = os.fork()
        if child:
            os.waitpid(child, 0)
        print("page" if child else "child")
        '''
    (shown,) = ran(tmp_path, code)["shown"]
    assert shown["stdout"] == "page\n"


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


@pytest.mark.usefixtures("torch_alone")
def test_a_live_picture_that_differs_from_torch_is_no_page(tmp_path):
    """Where the package has live pictures, each that a page shows is compared."""
    text = """
        ```{code-cell}
        import pullback, torch
        live = pullback.live(torch.sigmoid, torch.ones(2))
        (node,) = [node for node in live.program["nodes"] if node[0] == "sigmoid"]
        node[0] = "tanh"
        live
        ```
        """
    result = ran(tmp_path, text, "docs/page.md", **{"src/tiny/_live.py": ""})
    assert "the page and torch differ" in result["failure"]


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


def test_a_cell_may_write_to_standard_error_if_its_tag_says_so(tmp_path):
    text = "```{code-cell}\nimport sys\nsys.stderr.write('ow')\n```"
    tagged = text.replace("cell}\n", "cell}\n:tags: [remove-stderr]\n")
    pages = {"docs/page.md": text, "docs/tagged.md": tagged}
    failing, passing = ran_together(tmp_path, pages)
    assert failing["failure"].startswith("written to standard error:\now")
    assert passing["failure"] == ""
    assert passing["shown"][0]["stderr"] == "ow"


ENTRIES = """
    ```{code-cell}
    a = 1
    ```

    ## First

    ```{code-cell}
    "a" in globals()
    ```

    :::{note}
    ```python
    ## no heading
    ```
    :::

    ```{code-cell}
    b = 2
    "a" in globals()
    ```

    ### A part of the first

    ```{code-cell}
    def after():
        return b

    "b" in globals()
    ```

    ## Second

    ```{code-cell}
    "b" in globals()
    ```
    """


def test_each_entry_of_a_page_of_answers_starts_without_names(tmp_path):
    pages = {f"docs/{folder}/page.md": ENTRIES for folder in ("answers", "other")}
    of_answers, other = (
        [block["text"] for block in result["shown"][1:]]
        for result in ran_together(tmp_path, pages)
    )
    assert of_answers == ["False", "False", "True", "False"]
    assert other == ["True", "True", "True", "True"]


def test_what_was_a_heading_and_is_none_makes_an_output_stale(tmp_path):
    ran(tmp_path, ENTRIES, "docs/answers/page.md")
    write(tmp_path, {"docs/answers/page.md": ENTRIES.replace("## Second", "Second")})
    assert len(Store(tmp_path).stale(find(tmp_path))) == 1


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


def test_recorded_figures_are_named_whole():
    """A page finds the files that it names in one string."""
    files = {file.name: file for file in ROOT.glob("benchmarks/results/*.json")}
    names = re.compile(rf"\b(?:{'|'.join(map(re.escape, files))})")
    seen = set()
    for page in (*EXAMPLES, *NOTEBOOKS):
        text = page.read_text(encoding="utf-8")
        for name in {*names.findall(text)}:
            (named,) = re.findall(rf'"(\S+/{name})"', text)
            assert (page.parent / named).samefile(files[name]), page
            seen.add(name)
    assert seen
