"""What sphinx-gallery and MyST-NB do not document is there, name by name."""

import ast
import importlib
import re
from types import SimpleNamespace

import pytest
from executed import ROOT

EXTENSIONS = ROOT / "docs" / "_ext"
TOOLS = {"sphinx_gallery", "myst_nb"}
#: What their documentation shows how to import.
DOCUMENTED = {"sphinx_gallery.scrapers.figure_rst"}


def taken(text):
    """Yield what a module takes of the tools: module, name, and the comment at it."""
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            modules = [name.name for name in node.names]
            yield from ((m, "", "") for m in modules if m.partition(".")[0] in TOOLS)
        if isinstance(node, ast.ImportFrom) and node.module.partition(".")[0] in TOOLS:
            for name in node.names:
                yield node.module, name.name, lines[name.lineno - 1].partition("# ")[2]


def gone(module, name):
    """Return what is not there any more, or nothing."""
    try:
        found = importlib.import_module(module)
    except ImportError:
        return f"the module {module}"
    return "" if hasattr(found, name) else f"{module}.{name}"


DOORS = sorted(taken((EXTENSIONS / "doors.py").read_text(encoding="utf-8")))


@pytest.mark.parametrize(("module", "name", "why"), DOORS, ids=[d[1] for d in DOORS])
def test_a_name_is_there(module, name, why):
    assert why, f"{name} without a line why"
    missing = gone(module, name)
    assert not missing, f"{missing} is gone; doors.py takes {name}, which {why}"


def test_what_is_gone_would_be_named():
    assert gone("sphinx_gallery.gen_rst", "CODE_OUTPUT") == ""
    assert gone("sphinx_gallery.gen_rst", "NO_NAME") == "sphinx_gallery.gen_rst.NO_NAME"
    assert gone("sphinx_gallery.none", "NAME") == "the module sphinx_gallery.none"


def test_all_go_through_the_doors():
    found = {}
    for path in EXTENSIONS.glob("*.py"):
        names = {f"{module}.{name}" for module, name, _ in taken(path.read_text("utf-8"))}
        if path.name != "doors.py" and names - DOCUMENTED:
            found[path.name] = names - DOCUMENTED
    assert found == {}
    assert [*taken("import myst_nb.core\nimport torch")] == [("myst_nb.core", "", "")]


def test_every_door_is_used():
    doors = importlib.import_module("doors")
    others = [p.read_text("utf-8") for p in EXTENSIONS.glob("*.py") if p.name != "doors.py"]
    used = [name for name in doors.__all__ if re.search(rf"\b{name}\b", "\n".join(others))]
    assert used == doors.__all__


def test_leave_without_output():
    doors = importlib.import_module("doors")
    env = SimpleNamespace(mystnb_config=doors.NbParserConfig())
    doors.leave_without_output(env, ["a.md"])
    assert env.mystnb_config.execution_excludepatterns == ["a.md"]
