"""The package as a whole: what importing it gives, and who imports whom."""

import ast
import pkgutil
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
import torch

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


@pytest.mark.parametrize("folder", ["src/pullback", "docs/_ext"])
def test_contributing_says_of_each_module_what_it_does(folder):
    root = Path(__file__).parents[1]
    text = (root / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.partition(f"## `{folder}`: who does what\n")[2].partition("\n## ")[0]
    cells = [row.split("|")[1] for row in table.splitlines() if row.startswith("|")]
    named = re.findall(r"`(\w+)/?`", " ".join(cells))
    modules = {path.stem for path in (root / folder).glob("*.py")}
    folders = {path.parent.name for path in (root / folder).glob("*/__init__.py")}
    assert sorted(named) == sorted({*modules, *folders} - {"__init__"})


def test_the_readme_says_of_each_function_what_it_does():
    text = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    rows = [row.split("|")[1:3] for row in text.splitlines() if row.startswith("| `")]
    told = set(re.findall(r"\w+", " ".join(cell for row in rows for cell in row)))
    assert {name for name in pullback.__all__ if name.islower()} <= told


def python(script):
    command = [sys.executable, "-c", script]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert not result.returncode, result.stderr
    return result.stdout.split()


def test_nothing_is_imported_before_it_is_asked_for():
    """Not even torch; and of the package no more than the name needs."""
    script = """
import sys, pullback
print({"torch", "numpy"} & sys.modules.keys() or "light")
pullback.jacobian, pullback.distributed.jacobian
names = [name for name in sys.modules if name.startswith("pullback.")]
print({"matplotlib", "pullback.plot", "pullback.draw"} & {*names, *sys.modules} or "few")
print(pullback.plot.pattern.__name__, pullback.draw.vjp.__name__)
"""
    assert python(script) == ["light", "few", "pattern", "vjp"]
    assert {"plot", "distributed", "jacobian"} <= set(dir(pullback))


@pytest.mark.parametrize("first", ["import torch, pullback", "import pullback, torch"])
def test_torch_loads_a_plan_where_pullback_is_only_imported(tmp_path, first):
    """Without a flag, and before any name of pullback is asked for."""
    torch.save(pullback.sparsity(torch.square, torch.ones(4)), tmp_path / "plan.pt")
    script = f"""
import sys
finders = [*sys.meta_path]
{first}
print(sys.meta_path == finders, "pullback._sparse" in sys.modules)
plan = torch.load({str(tmp_path / "plan.pt")!r})
print(plan.n_colors, plan.jacobian(torch.square, torch.arange(4.0)).values().tolist())
"""
    assert python(script) == ["True", "False", "1", "[0.0,", "2.0,", "4.0,", "6.0]"]


def test_type_checkers_see_the_names_that_are_there():
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if ast.unparse(node).startswith("if TYPE_"))
    found = {}
    for line in block.body:
        found |= {name.name: f"{line.module}.{name.name}" for name in line.names}
    assert sorted(found) == sorted(dir(pullback))
    for name, place in found.items():
        assert pkgutil.resolve_name(place) is getattr(pullback, name), name


def test_a_name_is_one_object_from_the_first_use_on():
    script = """
import pickle, pullback
first = pullback.Check
from pullback import *
from pullback._check import Check as home
print(first is Check is home is pickle.loads(pickle.dumps(first)))
print(sorted({*globals()} & {*pullback.__all__}) == pullback.__all__)
"""
    assert python(script) == ["True", "True"]


def test_other_names_are_refused():
    with pytest.raises(AttributeError, match="'pullback' has no attribute 'pictures'"):
        pullback.pictures  # noqa: B018


def test_everything_listed_is_there():
    assert all(hasattr(pullback, name) for name in pullback.__all__)
    assert sorted(pullback.__all__) == pullback.__all__
