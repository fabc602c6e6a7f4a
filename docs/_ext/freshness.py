"""What the output of a page depends on, beside its own code.

sphinx-gallery runs a script again when its text changes, MyST-NB a page when its cells
change. Neither sees an edit in the package that the page shows, or another version of a
library. :class:`Package` finds by reading which modules of the package a piece of code
can reach, and :meth:`Package.digest` condenses their texts.

The rule is never to miss a module; where the code does not say plainly what it uses, it
uses everything:

- ``pullback.name`` and ``from pullback import name`` mean the module that ``__init__``
  takes ``name`` from, and the modules which that one names in turn, in any function.
- Any other use of the package (passed on, assigned to, ``import *``) means all of it, and
  so does code that can import or run what it keeps in a string (:data:`DYNAMIC`).
- Importing the package runs all of its modules. ``__init__``, files that are not Python
  and modules whose top level does more than define names therefore count for every page
  that imports it.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

DYNAMIC = {"__import__", "import_module", "exec", "eval", "runpy", "subprocess"}
DEFINITIONS = (
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.FunctionDef,
    ast.Import,
    ast.ImportFrom,
    ast.Pass,
    ast.Raise,
)


class Package:
    """The modules of a package and what they use of each other."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.name = folder, folder.name
        self.files = sorted(
            file
            for file in folder.rglob("*")
            if file.is_file() and "__pycache__" not in file.parts
        )
        self.modules = {self._dotted(f): f for f in self.files if f.suffix == ".py"}

    @cached_property
    def trees(self) -> dict[str, ast.Module]:
        """The modules, parsed."""
        return {m: ast.parse(file.read_bytes()) for m, file in self.modules.items()}

    @cached_property
    def whole(self) -> str:
        """The digest of the whole package."""
        return self._digest(self.files)

    def _dotted(self, file: Path) -> str:
        parts = file.relative_to(self.folder.parent).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def digest(self, tree: ast.Module) -> str:
        """Return the digest of every file of the package that ``tree`` can reach."""
        return self._digest(sorted(self.reach(tree)))

    def _digest(self, files: Iterable[Path]) -> str:
        digest = hashlib.sha256()
        for file in files:
            digest.update(f"{file.relative_to(self.folder)}\n".encode())
            digest.update(file.read_bytes())
        return digest.hexdigest()

    def reach(self, tree: ast.Module) -> set[Path]:
        """Return every file of the package that ``tree`` can reach."""
        used = self.uses(tree)
        if not used:
            return set()
        waiting, seen = {*used, *self.with_effects}, set[str]()
        while waiting:
            seen.add(module := waiting.pop())
            if module not in self.packages:  # an __init__ uses all; each name is resolved
                waiting |= self.used[module] - seen
        read = f"{self.name}._messages" in seen  # what reads the entries, in Markdown
        data = {f for f in self.files if f.suffix != ".py" and (read or f.suffix != ".md")}
        return {self.modules[m] for m in seen | self.packages} | data

    @cached_property
    def used(self) -> dict[str, set[str]]:
        """What each module names."""
        return {module: self.uses(tree, module) for module, tree in self.trees.items()}

    @cached_property
    def packages(self) -> set[str]:
        """The modules that are an ``__init__``."""
        return {m for m, file in self.modules.items() if file.name == "__init__.py"}

    @cached_property
    def with_effects(self) -> set[str]:
        """Modules whose import may change what others do."""
        found = {m for m, tree in self.trees.items() if not all(map(inert, tree.body))}
        return set(self.modules) if found & self.packages else found

    def uses(self, tree: ast.Module, module: str | None = None) -> set[str]:
        """Return the modules that ``tree``, the text of ``module``, names."""
        search = _Search(self, module)
        for node in ast.walk(tree):  # what the names mean, wherever they are bound
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                search.bind(node)
        search.visit(tree)
        if None in search.found:
            return set(self.modules)
        return {module for module in search.found if module}

    def resolve(self, package: str, names: Iterable[str]) -> str | None:
        """Return the module that holds ``package.name…``; None if that is unclear."""
        where = package
        for name in names:
            if where not in self.packages:
                return where
            if f"{where}.{name}" in self.modules:
                where = f"{where}.{name}"
            elif source := self._exports(where).get(name):
                where = source
            else:
                return None
        return where

    def _exports(self, package: str) -> dict[str, str | None]:
        """Return where the ``__init__`` of ``package`` takes each of its names from."""
        return {
            alias.asname or alias.name: self.resolve(source, [alias.name])
            for node in self.trees[package].body
            if isinstance(node, ast.ImportFrom)
            and (source := self.source(node, package)) in self.modules
            for alias in node.names
        }

    def source(self, node: ast.ImportFrom, module: str | None) -> str:
        """Return the absolute name of the module that ``node`` imports from."""
        if not node.level or module is None:
            return node.module or ""
        up = node.level - (module in self.packages)
        parts = module.split(".")[: -up or None]
        return ".".join([*parts, *filter(None, [node.module])])


class _Search(ast.NodeVisitor):
    """Collects the modules that a text names; None stands for a use that is unclear."""

    def __init__(self, package: Package, module: str | None) -> None:
        self.package, self.module = package, module
        self.bound: dict[str, str] = {}
        self.found: set[str | None] = set()

    def bind(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if DYNAMIC & {alias.name, *alias.name.split(".")[:1]}:
                self.found.add(None)
            if isinstance(node, ast.ImportFrom):
                source = self.package.source(node, self.module)
                if source in self.package.modules:
                    target = self.package.resolve(source, [alias.name])
                    self._bind(alias.asname or alias.name, target)
            elif alias.name.split(".")[0] == self.package.name:
                known = alias.name in self.package.modules
                self.found.add(alias.name if known else None)
                target = alias.name if alias.asname else self.package.name
                self._bind(alias.asname or self.package.name, target)

    def _bind(self, name: str, target: str | None) -> None:
        self.found.add(target)
        if target in self.package.packages:
            assert target is not None
            self.bound[name] = target

    def visit_Attribute(self, node: ast.Attribute) -> None:
        names, root = [node.attr], node.value
        while isinstance(root, ast.Attribute):
            names, root = [root.attr, *names], root.value
        if isinstance(root, ast.Name) and root.id in self.bound:
            clear = isinstance(node.ctx, ast.Load)
            target = self.package.resolve(self.bound[root.id], names) if clear else None
            self.found.add(None if target in self.package.packages else target)
        else:
            if node.attr == "import_module" or ast.unparse(node) == "sys.modules":
                self.found.add(None)
            self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in self.bound or node.id in DYNAMIC:
            self.found.add(None)


def inert(statement: ast.stmt) -> bool:
    """Tell whether a statement at the top of a module only defines names."""
    match statement:
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Assign(targets=targets):
            return all(isinstance(target, ast.Name) for target in targets)
        case ast.AnnAssign(target=target):
            return isinstance(target, ast.Name)
        case ast.If() | ast.Try():
            return all(map(inert, _branches(statement)))
    return isinstance(statement, DEFINITIONS)


def _branches(statement: ast.If | ast.Try) -> Iterator[ast.stmt]:
    yield from statement.body
    yield from statement.orelse
    if isinstance(statement, ast.Try):
        yield from statement.finalbody
        for handler in statement.handlers:
            yield from handler.body
