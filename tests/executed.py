"""Runs the code of a page block by block and keeps what it prints.

A page is a gallery script or an executed Markdown page; its printed output is what the
site shows: standard output and the value that a block ends on.
"""

import ast
import contextlib
import io
import re
import sys
import types
from pathlib import Path

from bs4 import BeautifulSoup
from IPython.display import HTML
from sites import GENERATED
from sphinx_gallery.py_source_parser import split_code_and_text_blocks

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*/[0-9]*.py"))
DOCS = sorted(
    page
    for page in (ROOT / "docs").rglob("*.md")
    if not {*GENERATED} & {*page.relative_to(ROOT).parts}
)
NOTEBOOKS = [p for p in DOCS if "```{code-cell}" in p.read_text(encoding="utf-8")]


def name_of(page: Path) -> str:
    """Return the page's path below the repository, for test ids."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[str]:
    """Return the code blocks of a page in order."""
    if page.suffix == ".py":
        _, parts = split_code_and_text_blocks(page)
        return [part[1] for part in parts if part[0] == "code" and part[1].strip()]
    text = page.read_text(encoding="utf-8")
    cells = re.findall(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", text, re.M | re.S)
    return [re.sub(r"\A(:[\w-]+:[^\n]*\n)+|\A---\n(?s:.*?)\n---\n", "", c) for c in cells]


def outputs(page: Path) -> list[tuple[str, str]]:
    """Execute a page; return (last line of the block, what it printed) pairs."""
    module = types.ModuleType("__main__")
    module.__file__ = str(page)
    saved, sys.modules["__main__"] = sys.modules["__main__"], module
    if compiler := sys.modules.get("torch._dynamo"):
        compiler.reset()  # it counts what it compiles, up to a limit, over all pages
    try:
        shown = [(code, run(code, vars(module), page)) for code in blocks(page)]
    finally:
        sys.modules["__main__"] = saved
    return [(code.strip().splitlines()[-1], text) for code, text in shown if text]


def run(code: str, namespace: dict[str, object], page: Path) -> str:
    """Execute one block as sphinx-gallery does; return what it printed."""
    tree = ast.parse(code, page.name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, page.name, "exec"), namespace)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), page.name, "eval"), namespace)
            if isinstance(value, HTML):
                part = BeautifulSoup(value.data, "html.parser")
                lines = part.select("caption, tr, dt, dd, summary:has(+ dl)") or [part]
                print(*(line.get_text(" | ", strip=True) for line in lines), sep="\n")
            elif value is not None:
                print(repr(value))
    return printed.getvalue().rstrip()
