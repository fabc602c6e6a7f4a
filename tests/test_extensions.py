"""The extensions stand on what others have made public."""

import ast

import pytest
from executed import ROOT

EXTENSIONS = sorted((ROOT / "docs" / "_ext").glob("*.py"))
OWN = {"self", "cls"}  # whose private names are one's own
PUBLIC = {"_replace", "_asdict", "_fields", "_exit"}  # by the documentation of Python
#: What there is no public name for; docs/upstream.md says of each what would make it one.
ALLOWED = {
    "code_links.py": {"self.env._app"},
    "doors.py": {"sphinx_gallery._doctree_links"},
}


def replaced(tree):
    """Yield the attributes of imported modules, and of what they hold, that are set."""
    imports = [n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)]
    names = {(a.asname or a.name).partition(".")[0] for n in imports for a in n.names}
    names -= {"sys"}  # which is there to be set
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            written = ast.unparse(node)
            if written.partition(".")[0] in names:
                yield written
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("setattr", "delattr"):
            yield ast.unparse(node)


@pytest.mark.parametrize("path", EXTENSIONS, ids=lambda path: path.name)
def test_no_attribute_of_another_module_is_replaced(path):
    """Whoever must, says in docs/upstream.md what would make it unnecessary."""
    assert [*replaced(ast.parse(path.read_text(encoding="utf-8")))] == []


def private(tree):
    """Yield the private modules and names of others that are imported or read.

    The package is no other, and neither are the modules beside.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) not in OWN:
            names = {ast.unparse(node): [node.attr]}
        elif isinstance(node, ast.ImportFrom):
            names = {node.module: node.module.split(".")}
            names |= {f"{node.module}.{name.name}": [name.name] for name in node.names}
        elif isinstance(node, ast.Import):
            names = {name.name: name.name.split(".") for name in node.names}
        else:
            continue
        for name, parts in names.items():
            hidden = [p for p in parts if p.startswith("_") and not p.startswith("__")]
            if {*hidden} - PUBLIC and name.partition(".")[0] != "pullback":
                yield name


@pytest.mark.parametrize("path", EXTENSIONS, ids=lambda path: path.name)
def test_no_private_name_is_read(path):
    """But those that are allowed, which are there and told of in docs/upstream.md."""
    found = {*private(ast.parse(path.read_text(encoding="utf-8")))}
    assert found == ALLOWED.get(path.name, set())
    told = (ROOT / "docs" / "upstream.md").read_text(encoding="utf-8")
    for name in found:
        assert name.rpartition(".")[2] in told, name


def test_a_private_name_would_be_seen():
    code = "import a._b\nfrom c._d import e, _f\nfrom pullback._torch import pytree\n"
    code += "self._own = e._g.h(x._replace(), e.__dict__)\nself.env._app"
    names = ["a._b", "c._d", "c._d._f", "e._g", "self.env._app"]
    assert sorted(private(ast.parse(code))) == names


def test_a_replaced_attribute_would_be_seen():
    code = "import a.b, c as d\na.b.f = d.g = None\nsetattr(d, 'h', 1)\nown.i = 1"
    assert sorted(replaced(ast.parse(code))) == ["a.b.f", "d.g", "setattr(d, 'h', 1)"]
