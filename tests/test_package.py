"""The package as a whole: what importing it gives, and who imports whom."""

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import pullback

PACKAGE = Path(pullback.__file__).parent


def imported(path):
    """Return the modules of the package that one imports, wherever the line stands."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("pullback"):
            found.add(node.module)
            found |= {f"{node.module}.{name.name}" for name in node.names}
    return found


def test_imports_form_no_circle():
    """Also those inside of functions, and those for types alone."""
    modules = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        modules[".".join(parts).removesuffix(".__init__")] = path
    order = {name: imported(path) & modules.keys() for name, path in modules.items()}
    for name in order:  # a package is what it imports, and its modules need not know it
        order[name] -= {name, "pullback", "pullback._sparse", "pullback._messages"}
    list(TopologicalSorter(order).static_order())  # raises CycleError
    for name in ("_cotangents", "_picture", "_steps", "_trace", "_sparse.plan"):
        assert f"pullback.{name}" in order, "a module that the circle was of"


def python(script):
    command = [sys.executable, "-c", script]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert not result.returncode, result.stderr
    return result.stdout.split()


def test_pictures_and_groups_are_imported_when_asked_for():
    script = """
import sys, pullback
print({"matplotlib", "pullback.plot", "pullback.distributed"} & sys.modules.keys())
print(pullback.plot.pattern.__name__, pullback.distributed.jacobian.__name__)
"""
    assert python(script) == ["set()", "pattern", "jacobian"]
    assert {"plot", "distributed", "jacobian"} <= set(dir(pullback))


def test_other_names_are_refused():
    with pytest.raises(AttributeError, match="'pullback' has no attribute 'pictures'"):
        pullback.pictures  # noqa: B018


def test_everything_listed_is_there():
    assert all(hasattr(pullback, name) for name in pullback.__all__)
    assert sorted(pullback.__all__) == pullback.__all__
