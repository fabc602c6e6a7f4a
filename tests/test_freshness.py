"""Which modules of a package a page can reach."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from executed import EXAMPLES, NOTEBOOKS, ROOT, blocks

sys.path.append(str(ROOT / "docs" / "_ext"))
from freshness import Package

TINY = {
    "__init__.py": "from tiny._a import a\nfrom tiny._b import b\nfrom . import extra",
    "_a.py": "def a():\n    return 'a1'",
    "_b.py": "def b():\n    from ._c import c\n    return 'b1' + c()",
    "_c.py": "try:\n    import nothing\nexcept ImportError:\n    pass\nc = lambda: 'c1'",
    "extra/__init__.py": "from tiny.extra._d import d",
    "extra/_d.py": "import tiny\nd = lambda: tiny.a()",
}


def write(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text).lstrip("\n") + "\n")


def reached(folder, code):
    """Return the modules with code in them that ``code`` reaches, as one word."""
    files = Package(folder).reach(ast.parse(dedent(code)))
    return "".join(sorted(f.stem[1] for f in files if f.name != "__init__.py"))


@pytest.fixture
def tiny(tmp_path):
    write(tmp_path / "tiny", TINY)
    return tmp_path / "tiny"


@pytest.mark.parametrize(
    ("code", "modules"),
    [
        ("import torch\ntorch.ones(1).b()", ""),
        ("import tiny", ""),
        ("import tiny\ntiny.a()", "a"),
        ("import tiny as t\nt.b()", "bc"),
        ("from tiny import b", "bc"),
        ("from tiny._c import c", "c"),
        ("import tiny._c\ntiny._c.c()", "c"),
        ("import tiny._c as c\nc.c()", "c"),
        ("def f():\n    from tiny import a\n    return a", "a"),
        ("import tiny\ntiny.extra.d()", "ad"),
        ("from tiny import extra\nextra.d()", "ad"),
        ("from tiny.extra import d", "ad"),
        # What is not plain is everything.
        ("import tiny\nprint(tiny)", "abcd"),
        ("import tiny\ngetattr(tiny, 'a')", "abcd"),
        ("import tiny\ntiny.a = print", "abcd"),
        ("import tiny\ntiny.unknown", "abcd"),
        ("import tiny\nprint(tiny.extra)", "abcd"),
        ("import tiny.missing", "abcd"),
        ("from tiny import *", "abcd"),
        ("import importlib\nimportlib.import_module('tiny')", "abcd"),
        ("from importlib import import_module", "abcd"),
        ("import sys\nsys.modules['tiny']", "abcd"),
        ("exec('import tiny')", "abcd"),
        ("import subprocess", "abcd"),
    ],
)
def test_reach(tiny, code, modules):
    assert reached(tiny, code) == modules


def test_init_and_data_count_for_whoever_imports_the_package(tiny):
    (tiny / "table.json").write_text("{}")
    package = Package(tiny)
    names = {file.name for file in package.reach(ast.parse("import tiny"))}
    assert names == {"__init__.py", "table.json"}
    assert package.reach(ast.parse("import torch")) == set()


@pytest.mark.parametrize(
    "statement",
    ["print('imported')", "import torch\ntorch.x = 1", "for i in []: pass", "del len"],
)
def test_a_module_that_acts_when_imported_counts_for_all(tiny, statement):
    (tiny / "_c.py").write_text(f"{statement}\nc = lambda: 'c1'\n")
    assert reached(tiny, "import tiny\ntiny.a()") == "ac"


def test_an_init_that_acts_makes_all_count(tiny):
    (tiny / "__init__.py").write_text("from tiny._a import a\nfrom tiny._b import b\nb()\n")
    assert reached(tiny, "import tiny\ntiny.a()") == "abcd"


@pytest.mark.parametrize(
    "file", sorted(ROOT.glob("benchmarks/results/*.json")), ids=lambda file: file.name
)
def test_recorded_figures_are_named_whole(file):
    """The build looks for the files that a page names in one string."""
    for page in (*EXAMPLES, *NOTEBOOKS):
        text = page.read_text(encoding="utf-8")
        if re.search(rf"\b{file.name}", text):
            (named,) = re.findall(rf'"(\S+/{file.name})"', text)
            assert (page.parent / named).samefile(file)


WATCH = """
import contextlib, io, json, os, sys, types
import torch._dynamo, matplotlib.pyplot
import pullback, pullback.plot
for name, code in json.load(sys.stdin).items():
    if os.fork():
        os.wait()
        continue
    ran = set()
    def note(frame, event, argument):
        if event == "call" and frame.f_code.co_name != "<module>":
            ran.add(frame.f_code.co_filename)
    with contextlib.redirect_stdout(io.StringIO()):
        sys.setprofile(note)
        page = sys.modules["page"] = types.ModuleType("page")  # which dynamo imports
        exec(compile(code, name, "exec"), page.__dict__)
        sys.setprofile(None)
    print(json.dumps([name, sorted(ran)]), flush=True)
    os._exit(0)
"""


@pytest.mark.whole
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks a process for each page")
def test_what_pages_run_is_reached():
    """The modules whose functions run while a page executes are among those found."""
    folder = ROOT / "src" / "pullback"
    package = Package(folder)
    code = {page.stem: "\n".join(blocks(page)) for page in EXAMPLES}
    result = subprocess.run(
        [sys.executable, "-c", WATCH],
        env={**os.environ, "MPLBACKEND": "agg", "OMP_NUM_THREADS": "1"},
        input=json.dumps(code),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    watched = dict(map(json.loads, result.stdout.splitlines()))
    assert watched.keys() == code.keys()
    ours = {
        name: set(map(Path, files)) & set(package.files) for name, files in watched.items()
    }
    imports = re.compile(r"^(import|from) pullback\b", re.MULTILINE)
    users = {name for name, text in code.items() if imports.search(text)}
    assert {name for name, ran in ours.items() if ran} == users
    for name, ran in ours.items():
        assert ran <= package.reach(ast.parse(code[name])), name
