"""The extensions stand on what others have made public."""

import ast

import pytest
from executed import ROOT

EXTENSIONS = sorted((ROOT / "docs" / "_ext").glob("*.py"))


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


def test_a_replaced_attribute_would_be_seen():
    code = "import a.b, c as d\na.b.f = d.g = None\nsetattr(d, 'h', 1)\nown.i = 1"
    assert sorted(replaced(ast.parse(code))) == ["a.b.f", "d.g", "setattr(d, 'h', 1)"]
