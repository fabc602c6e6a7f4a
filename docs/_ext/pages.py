"""The executed pages, what they depend on, and the store of what they have shown.

A page is a script of the gallery or a Markdown file with cells; the code of each message is
executed as they are, and so is :mod:`odd_answers`. :class:`Store` has each
page executed (:mod:`runner`) when what it shows could have changed, and keeps the outcome
in ``docs/_build/outputs``, a file for a page. The build renders what is there, the records
of the tests are its text, and no page is executed twice for them.

A page in ``docs/answers`` holds many answers, and a reader takes away one: there each
``##`` heading starts without the names of the entries before it.

A page is stale when one of these is not what it was when it ran:

- its code; the lines around it, too, in a script, whose line numbers can be on the page,
  but for the comments at its end, which only the search sees;
- a file that the code names, or a module beside it that it imports;
- the package, if its name occurs in the code: those of its folders of which a file was
  read while the page ran, or all where it started other processes;
- Python, one of :data:`LIBRARIES`, or the runner.

``python pages.py [PART]`` executes what is stale, or of that what has PART in its name.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

from doors import split_code_and_text_blocks
from runner import EVERYTHING, Block, Job, Order, Result

LIBRARIES = ["matplotlib", "numpy", "scipy", "torch"]  # what readers have, and scripts use
PRELOAD = [
    "matplotlib.backends.backend_agg",
    "matplotlib.pyplot",
    "numpy.testing",
    "torch._decomp.decompositions_for_jvp",  # what torch itself imports when it is used
    "torch._dynamo",
    "torch.func",
]
RUNNER = Path(__file__).with_name("runner.py")
TOOLS = [RUNNER.with_name(f"{n}.py") for n in ("runner", "call_recorder", "certified")]
ANSWER_PAGES = "docs/answers/"  # pages of entries that stand alone
GALLERY = "auto_examples"  # below docs, where the gallery has its pages
SKIPPED = {"_build", GALLERY, "errors", "generated"}  # below docs
SOURCES = (
    "LICENSE",
    "README.md",
    "benchmarks",
    "docs",
    "examples",
    "pyproject.toml",
    "src",
)
NAMED = re.compile(r"""["']([^"'\n\\]{1,200})["']""")
MODULE = re.compile(r"^(?:from|import) (\w+)", re.M)
ODD_ANSWERS = "docs/_ext/odd_answers.py"
WORDINGS = re.compile(  # for the search, at the end of a script
    r"(?:(?:#\n)?# \.\. (?:asked|words): .*\n(?:#    .*\n)*)+\Z"
)
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Page:
    """A page that is executed; its name is its path below the root of the project."""

    root: Path
    name: str

    @property
    def source(self) -> Path:
        """Where its text is."""
        return self.root / self.name

    @property
    def docname(self) -> str:
        """The page of the site that shows what it shows, as Sphinx names it."""
        path = Path(self.name).with_suffix("")
        if path.parts[0] == "examples":
            return Path(GALLERY, *path.parts[1:]).as_posix()
        return path.relative_to("docs").as_posix()

    @functools.cached_property
    def blocks(self) -> list[Block]:
        """Its code."""
        text = self.source.read_text(encoding="utf-8")
        if self.source.suffix == ".py":
            return blocks_of(self.source)
        cells = [*cells_of(text)]
        if self.name.startswith(ANSWER_PAGES):
            heads = entries_of(text)
            for before, cell in pairwise(cells):
                lines = before["line"], cell["line"]
                cell["forgets"] = any(lines[0] < head < lines[1] for head in heads)
        return cells

    @functools.cached_property
    def text(self) -> str:
        """What its output depends on, of its text."""
        if self.source.suffix == ".py":
            return WORDINGS.sub("", self.source.read_text(encoding="utf-8"))
        return "\n".join(
            f"{block['tags']}{' forgets' * block.get('forgets', False)}\n{block['code']}"
            for block in self.blocks
        )

    @functools.cached_property
    def files(self) -> dict[str, str]:
        """The files that its code names: where they are, by their paths below the root."""
        code = "\n".join(block["code"] for block in self.blocks)
        names = [*NAMED.findall(code), *(f"{module}.py" for module in MODULE.findall(code))]
        named = (os.path.join(self.source.parent, name) for name in names)
        found = (
            Path(file).resolve() for file in sorted(set(named)) if os.path.isfile(file)
        )
        return {
            file.relative_to(self.root).as_posix(): str(file)
            for file in found
            if file.is_relative_to(self.root)
        }

    def job(self) -> Job:
        """Return what the runner needs to know."""
        return Job(
            name=self.name,
            place=self.name,
            files={**self.files, self.name: str(self.source)},
            blocks=self.blocks,
            strict=False,
            may_raise=False,
        )


@dataclass(frozen=True)
class Piece(Page):
    """One of the two pieces of code of a message, a script of its own in no file.

    ``broken`` is to raise or to warn, unless the message is a trap that raises nothing;
    ``fixed`` is to do neither.
    """

    code: str

    @property
    def docname(self) -> str:
        """The page of its message."""
        return Path(self.name).parent.as_posix()

    @property
    def anchor(self) -> str:
        """That of its message."""
        return Path(self.name).parent.name

    @property
    def kind(self) -> str:
        """Which of the two it is."""
        return Path(self.name).stem

    @property
    def text(self) -> str:
        """What its output depends on."""
        return self.code

    @property
    def blocks(self) -> list[Block]:
        """Its code."""
        return [Block(line=1, code=self.code, tags=[])]

    @property
    def files(self) -> dict[str, str]:
        """No file."""
        return {}

    def job(self) -> Job:
        """Return what the runner needs to know."""
        return {**super().job(), "files": {}, "may_raise": True}


def written(root: Path) -> list[Path]:
    """Return the Markdown pages that are written by hand; a build writes as many again."""
    found = []
    for folder, folders, names in os.walk(root / "docs"):
        folders[:] = {*folders} - SKIPPED
        found += [Path(folder, name) for name in names if name.endswith(".md")]
    return sorted(found)


def find(root: Path) -> Iterator[Page]:
    """Yield the pages of the site that are executed, Markdown first."""
    for source in written(root):
        if CELL.search(source.read_text(encoding="utf-8")):
            yield Page(root, source.relative_to(root).as_posix())
    examples = root / "examples"
    for source in sorted([*examples.glob("*.py"), *examples.glob("*/*.py")]):
        yield Page(root, source.relative_to(root).as_posix())


def executed(root: Path) -> Iterator[Page]:
    """Yield all that is executed: the pages, what odd input gives, the messages."""
    yield from find(root)
    if (root / ODD_ANSWERS).exists():
        yield Page(root, ODD_ANSWERS)
    yield from pieces(root)


def is_chosen(name: str, part: str) -> bool:
    """Tell whether a page is to be executed, by its name and ``execution_pages``."""
    return part == "all" or (part != "" and part in name)


PIECE = re.compile(
    r"^```python (?P<name>broken|fixed)\n(?P<code>.*?)\n```$"
    r"(?:\n\n^```python check\n(?P<check>.*?)\n```$)?",
    re.M | re.S,
)


def pieces(root: Path) -> Iterator[Piece]:
    """Yield the pieces of code of the messages: ``errors/ANCHOR/broken.py`` and fixed.

    The check of a fix runs behind it and is not shown with what is to be copied.
    """
    for entry in sorted(root.glob("src/*/messages/*/*.md")):
        for piece in PIECE.finditer(entry.read_text(encoding="utf-8")):
            code = "\n\n".join(filter(None, (piece["code"], piece["check"])))
            yield Piece(root, f"errors/{entry.stem}/{piece['name']}.py", code)


def blocks_of(script: Path) -> list[Block]:
    """Return the blocks of code of a script."""
    _, parts = split_code_and_text_blocks(str(script))
    return [
        Block(line=part.lineno, code=part.content, tags=[])
        for part in parts
        if part.type == "code" and part.content.strip()
    ]


CELL = re.compile(
    r"^```\{code-cell\}[^\n]*\n(?P<options>(:[^\n]*\n)*)(?P<code>.*?)^```$", re.M | re.S
)


def cells_of(text: str) -> Iterator[Block]:
    """Yield the cells of a Markdown page."""
    for cell in CELL.finditer(text):
        tags = re.search(r"^:tags: \[(.*)\]$", cell["options"], re.M)
        names = re.split(r",\s*", tags[1]) if tags else []
        line = text.count("\n", 0, cell.start("code")) + 1
        yield Block(line=line, code=cell["code"], tags=names)


FENCED = re.compile(r"^(?P<fence>`{3,}|:{3,}).*?^(?P=fence)$", re.M | re.S)


def entries_of(text: str) -> list[int]:
    """Return the lines of the ``##`` headings of a Markdown page."""
    prose = FENCED.sub(lambda fenced: "\n" * fenced[0].count("\n"), text)
    return [n for n, line in enumerate(prose.splitlines(), 1) if line.startswith("## ")]


class Store:
    """What the pages of a project have shown, and whether it still holds.

    Attributes:
        root: The folder that holds ``docs``, ``examples`` and ``src``.
        package: The folder of the package, the only one in ``src``.
    """

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root
        (init,) = root.glob("src/*/__init__.py")
        self.package = init.parent
        self.outputs = root / "docs" / "_build" / "outputs"
        common = [sys.version, *(f"{name} {version(name)}" for name in LIBRARIES)]
        self.common = digest(*(tool.read_bytes() for tool in TOOLS), repr(common).encode())
        self.folders: dict[str, str] = {}

    def file(self, page: Page) -> Path:
        """Return where the outcome of a page is kept."""
        return self.outputs / f"{page.name}.json"

    def last(self, page: Page) -> Result | None:
        """Return what came of a page when it ran last."""
        file = self.file(page)
        if not file.exists():
            return None
        result: Result = json.loads(file.read_text(encoding="utf-8"))
        return result

    def key(self, page: Page, folders: Iterable[str]) -> str:
        """Condense all that what a page shows depends on; it read from these folders."""
        files = (Path(file).read_bytes() for file in page.files.values())
        parts = [page.text.encode(), repr(page.files.keys()).encode(), *files]
        if re.search(rf"\b{self.package.name}\b", page.text):
            parts += [self.folder(name).encode() for name in folders]
        return digest(self.common.encode(), *parts)

    def folder(self, name: str) -> str:
        """Return the digest of the files in a folder of the package, or in all."""
        if name not in self.folders:
            found = (
                self.package.rglob("*")
                if name == EVERYTHING
                else (self.package / name).glob("*")
            )
            files = sorted(f for f in found if f.is_file() and "__pycache__" not in f.parts)
            texts = (
                f"{f.relative_to(self.package)}\n".encode() + f.read_bytes() for f in files
            )
            self.folders[name] = digest(*texts)
        return self.folders[name]

    def fresh(self, page: Page) -> Result | None:
        """Return what a page shows, if it is known; ``key`` in it tells the state."""
        last = self.last(page)
        return last if last and last.get("key") == self.key(page, last["folders"]) else None

    def day(self, page: Page) -> str:
        """Return the day on which a page ran, in UTC; ``SOURCE_DATE_EPOCH`` at the latest.

        Two builds of one state on different days then agree, where that is set.
        """
        ran = self.file(page).stat().st_mtime
        latest = float(os.environ.get("SOURCE_DATE_EPOCH", "inf"))
        return datetime.fromtimestamp(min(ran, latest), UTC).date().isoformat()

    def stale(self, pages: Iterable[Page]) -> list[Page]:
        """Return those whose output is not known, the slowest first."""
        left = [page for page in pages if self.fresh(page) is None]
        seconds = {
            page.name: (self.last(page) or {"seconds": 60})["seconds"] for page in left
        }
        return sorted(left, key=lambda page: -seconds[page.name])

    def execute(
        self, pages: list[Page], processes: int, limit: int = 120
    ) -> Iterator[tuple[Page, Result]]:
        """Execute pages; yield each with what came of it, which is kept if it is right."""
        if not pages:
            return
        code = "\n".join(page.text for page in pages)
        order = Order(
            package=self.package.name,
            importable=LIBRARIES,
            preload=[name for name in PRELOAD if name.partition(".")[0] in code],
            processes=processes,
            limit=limit,
            jobs=[page.job() for page in pages],
        )
        by_name = {page.name: page for page in pages}
        sources = [str(self.package.parent), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sources))}
        for result in run_jobs(order, [sys.executable, str(RUNNER)], environment):
            page = by_name.pop(result["name"])
            self.keep(page, result)
            yield page, result
        assert not by_name, f"the runner ended before {[*by_name]}"

    def keep(self, page: Page, result: Result) -> None:
        """Write down what came of a page, or forget what it showed before it failed."""
        file = self.file(page)
        if result["failure"]:
            file.unlink(missing_ok=True)
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        result["key"] = self.key(page, result["folders"])
        new = file.with_suffix(f".{os.getpid()}")
        new.write_text(json.dumps(result, indent=1), encoding="utf-8")
        new.replace(file)


def run_jobs(
    order: Order, command: list[str], environment: dict[str, str]
) -> Iterator[Result]:
    """Start the runner; yield what came of each page, as it comes."""
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        env=environment,
    ) as runner:
        assert runner.stdin is not None
        assert runner.stdout is not None
        with runner.stdin:
            json.dump(order, runner.stdin)
        yield from map(json.loads, runner.stdout)


def digest(*parts: bytes) -> str:
    """Return a digest of some texts."""
    return hashlib.sha256(
        b"\0".join(hashlib.sha256(part).digest() for part in parts)
    ).hexdigest()


def sources(root: Path, parts: Iterable[str] = SOURCES) -> str:
    """Return a digest of what the site is made from, and nothing that a build writes."""
    files = [root / part for part in parts if (root / part).is_file()]
    for part in parts:
        for folder, folders, names in os.walk(root / part):
            folders[:] = {*folders} - SKIPPED - {"__pycache__"}
            files += [Path(folder, name) for name in names]
    return digest(
        *(
            f"{file.relative_to(root).as_posix()}\n".encode() + file.read_bytes()
            for file in sorted(files)
        )
    )


def main(part: str = "") -> int:
    """Execute the stale pages with a part in their names; say how it went."""
    store = Store()
    pages = [page for page in executed(ROOT) if part in page.name]
    failures = 0
    for page, result in store.execute(store.stale(pages), os.cpu_count() or 1):
        print(f"executed {page.name} ({result['seconds']:.1f} s)", flush=True)
        if result["failure"]:
            failures += 1
            print(result["failure"], file=sys.stderr)
    return failures


if __name__ == "__main__":
    sys.exit(min(main(*sys.argv[1:]), 1))
