"""What `nox -s page` takes a name for, and what it checks."""

import re
import sys
from textwrap import dedent
from types import SimpleNamespace

import pytest
from executed import EXAMPLES, NOTEBOOKS, ROOT, name_of
from forks import run_code
from sites import conf, write

import one_page
from one_page import checks, chosen


@pytest.mark.parametrize("page", [EXAMPLES[0], EXAMPLES[-1], *NOTEBOOKS], ids=name_of)
def test_a_name_is_a_part_of_a_path(page):
    assert chosen(name_of(page)) == page
    assert chosen(name_of(page).removesuffix(page.suffix)) == page


def test_another_name_is_that_of_a_message():
    assert chosen("leaf-inplace") == "leaf-inplace"
    assert chosen("errors/scalar-outputs") == "scalar-outputs"
    with pytest.raises(SystemExit, match="no page has leaf-in-place in its path"):
        chosen("leaf-in-place")


def test_a_name_of_several_pages_lists_them():
    with pytest.raises(SystemExit, match=r"several pages:\n  docs/answers/"):
        chosen("docs/answers/")


def test_an_example_is_linted_and_held_to_form_and_record():
    page = next((ROOT / "examples").glob("*/[0-9]*.py"))
    ruff, layout, tests = checks(page, ["--regen-all"])
    name = page.relative_to(ROOT).as_posix()
    assert ruff == ["ruff", "check", name]
    assert layout == ["ruff", "format", "--check", name]
    assert {"--regen-all", "tests/test_records.py", "tests/test_examples.py"} < {*tests}
    record = name.replace("/", "-").removesuffix(".py")
    assert tests[-1].startswith(f"{name} or [{record}] or ")


COLLECT = """
    import os, pytest

    os.chdir({root!r})
    for arguments in {commands}:
        pytest.main(arguments)
        print({end!r})
    """
END = "-- the next page --"
OF_A_PAGE = {
    "examples/01_gradient_argument/30_shapes.py": {
        *("also_asked", "examples", "live_pages", "noise", "records", "terms")
    },
    "docs/answers/none.md": {"answers", "noise", "records"},
    "docs/fix/none.md": {"noise", "records", "symptoms"},
    "docs/corrections_tutorials.md": {"corrections", "noise", "records"},
    "docs/glossary.md": {"glossary"},
}


def collected(commands):
    """Return what pytest lists for each of its commands, all in one process."""
    python = [sys.executable, "-m", "pytest"]
    assert all(command[:3] == python for command in commands)
    arguments = [command[3:] for command in commands]
    code = dedent(COLLECT).format(root=str(ROOT), commands=arguments, end=END)
    said = run_code(code).stdout
    assert said.count(END) == len(commands), said
    return said.split(END)


def test_the_tests_of_a_page_are_those_that_name_it():
    commands = [[*checks(ROOT / page, ["--collect-only"])][-1] for page in OF_A_PAGE]
    for about, said in zip(OF_A_PAGE.values(), collected(commands), strict=False):
        found = {*re.findall(r"^tests/test_(\w+)\.py::", said, re.M)}
        assert found == about | {"bibliography", "source_map"}, said


def test_a_message_is_held_to_its_tests():
    (tests,) = checks("scalar-outputs", [])
    assert {"tests/test_messages.py", "tests/test_recognition.py"} < {*tests}
    assert tests[-2:] == ["-k", "[scalar-outputs]"]


def test_a_message_is_what_these_tests_are_about():
    """What people paste, of an error; what `watch` finds, of a trap; in one run."""
    about = {
        "scalar-outputs": {"test_messages.py", "test_recognition.py"},
        "loss-broadcast": {"test_messages.py", "test_watch.py"},
    }
    (error,), (trap,) = (checks(anchor, ["--collect-only"]) for anchor in about)
    assert error[:-1] == trap[:-1]
    command = [*error[:-1], f"{error[-1]} or {trap[-1]}"]
    said, _ = collected([command])
    found = re.findall(r"^tests/(\w+\.py)::.*\[(.*)\]$", said, re.M)
    for anchor, where in about.items():
        assert {file for file, its in found if its == anchor} == where


def test_a_message_that_no_test_is_about_is_a_failure(monkeypatch):
    none = SimpleNamespace(returncode=pytest.ExitCode.NO_TESTS_COLLECTED)
    monkeypatch.setattr(one_page.pages, "main", lambda part: 0)
    monkeypatch.setattr(one_page.subprocess, "run", lambda *given, **options: none)
    assert one_page.main("leaf-inplace") > 0


RENDERED = """
    from pathlib import Path

    import one_page

    one_page.ROOT = Path({folder!r})
    one_page.DOCS = one_page.ROOT / "docs"
    one_page.BUILT = one_page.DOCS / "_build"
    place, warned = one_page.render(one_page.DOCS / "asks.md")
    print(place.exists(), warned)
    """


def test_what_sphinx_warns_of_is_a_failure_each_time(tmp_path):
    page = "# Asks\n\n:::{predict}\nWhat is printed?\n:::\n\nNothing is.\n"
    extensions = ["asking", "execution", "myst_nb", "sphinx_gallery.gen_gallery"]
    files = {
        "docs/conf.py": conf(*extensions, myst_enable_extensions=["colon_fence"]),
        "docs/asks.md": page,
        "docs/index.md": "# Home\n",
        "examples/GALLERY_HEADER.rst": "Examples\n========\n",
        "src/tiny/__init__.py": "",
    }
    write(tmp_path, files)
    code = dedent(RENDERED).format(folder=str(tmp_path))
    for _ in range(2):
        ran = run_code(code)
        assert ran.stdout == "True 1\n", ran.stderr
        assert "asks.md:3: WARNING" in ran.stderr
    write(tmp_path, {"docs/asks.md": "# Asks\n\nNothing.\n"})
    ran = run_code(code)
    assert ran.stdout == "True 0\n", ran.stderr
