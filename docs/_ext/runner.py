"""Execute pages, each in a process and a folder of its own. Nothing here knows of Sphinx.

``python runner.py`` reads an :class:`Order` as JSON from its standard input, and answers
with a line of JSON for each page, as it comes. The heavy imports are made here, once; each
page runs in a child forked from here, so that it starts from the same state as all others,
cannot change what another one shows, and may come in any order. It runs

- in an empty folder, which holds its own text, and the files that it names, and no more;
- where only the standard library, the package and what the order names can be imported,
  if it is a script: a reader who copies it has no more than that;
- with live pictures that agree with torch (:mod:`certified`);
- silent on standard error, where warnings go, which are not on the page; or else it fails.

What it shows is kept block by block: what it prints, the value that the block ends on, as
text, HTML and Markdown, and its figures, in two sizes. So are the names of what it calls
(:mod:`call_recorder`), and the folders of the package that it reads (see :mod:`pages`).
"""

from __future__ import annotations

import ast
import base64
import contextlib
import gc
import importlib.util
import io
import json
import linecache
import multiprocessing
import os
import re
import shutil
import sys
import sysconfig
import tempfile
import time
import traceback
import types
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from importlib import metadata
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import IO, Any, NamedTuple, NotRequired, TypedDict, cast

from call_recorder import CallRecorder


class Block(TypedDict):
    """Code of a page, the line on which it starts, and the tags of its cell.

    A block that ``forgets`` sees no name that a block before it has made.
    """

    line: int
    code: str
    tags: list[str]
    forgets: NotRequired[bool]


class Job(TypedDict):
    """A page to execute.

    Its place and the files are given as paths below a folder of its own; the value of a
    file says where it is copied from; without one, the place holds the code of the blocks.
    ``strict`` makes warnings errors. Of a page that ``may_raise`` the error is shown, and
    what it warns of, too; of another it is a failure.
    """

    name: str
    place: str
    files: dict[str, str]
    blocks: list[Block]
    strict: bool
    may_raise: bool


class Order(TypedDict):
    """What to execute, in how many processes at a time, within how many seconds each."""

    package: str
    importable: list[str]  # distributions, beside the package, for scripts
    preload: list[str]  # modules
    processes: int
    limit: int
    jobs: list[Job]


class Shown(TypedDict):
    """What one block shows; all but the line may be missing."""

    line: int
    stdout: NotRequired[str]
    stderr: NotRequired[str]  # of a cell that is tagged remove-stderr
    text: NotRequired[str]
    html: NotRequired[str]
    markdown: NotRequired[str]
    figures: NotRequired[list[Figure]]
    certified: NotRequired[tuple[int, float, int]]  # of a live picture: a Certificate
    raised: NotRequired[list[tuple[str, str]]]  # classes and texts of errors and warnings


class Figure(TypedDict):
    """A figure in two sizes, as base64 of PNG, and its titles."""

    png: str
    large: str
    titles: str


class Result(TypedDict):
    """What came of a page; ``failure`` says what went wrong, if anything did."""

    name: str
    seconds: float
    failure: str
    shown: list[Shown]
    calls: dict[str, list[str]]
    folders: list[str]
    key: NotRequired[str]  # what it depended on (pages.py)


#: What torch says of its own code, on the first use of forward mode or of distributed
#: optimizers, from 2.14 on.
TORCH_DEPRECATES = "`torch.jit.(script|interface)` is deprecated"
EVERYTHING = "*"  # in the place of folders: the page starts other processes


# -- Around the pages ------------------------------------------------------------------


def run(order: Order) -> Iterator[Result]:
    """Execute the pages of an order side by side; yield what came of each."""
    os.environ["OMP_NUM_THREADS"] = "1"  # children of a process with a pool hang
    os.environ["MPLBACKEND"] = "agg"
    importlib.import_module("py_mini_racer")  # for us, and for no script
    allowed = AllowedImports([*order["importable"]], order["package"])
    sandbox = Sandbox(allowed, FoldersRead(order["package"]))
    sandbox.enter()
    for module in [*order["preload"], order["package"]]:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    with contextlib.suppress(ImportError):
        if importlib.util.find_spec(f"{order['package']}._live"):  # it has live pictures
            importlib.import_module("certified")
    gc.freeze()  # a page that collects looks at its own objects, not at all of torch's
    with tempfile.TemporaryDirectory() as folder:
        yield from side_by_side(order, sandbox, Path(folder))


def side_by_side(order: Order, sandbox: Sandbox, inside: Path) -> Iterator[Result]:
    """Run each page in a child of its own; yield what came of it, as it comes."""
    forks = "fork" in multiprocessing.get_all_start_methods()
    context: Any = multiprocessing.get_context("fork" if forks else "spawn")
    waiting = deque(order["jobs"])
    running: dict[Any, tuple[Job, Any, float]] = {}
    while waiting or running:
        while waiting and len(running) < order["processes"]:
            job = waiting.popleft()
            receiver, sender = context.Pipe(duplex=False)
            child = context.Process(target=run_alone, args=(job, sandbox, inside, sender))
            child.start()
            sender.close()
            running[receiver] = job, child, time.monotonic()
        for _, child, start in running.values():
            if time.monotonic() - start > order["limit"]:
                child.kill()
        for receiver in cast("list[Connection[Any, Any]]", wait(list(running), timeout=1)):
            job, child, start = running.pop(receiver)
            try:
                result: Result = receiver.recv()
            except (EOFError, OSError):  # it has sent nothing, or a part
                result = failed(f"took more than {order['limit']} s, or crashed")
                child.kill()
            child.join()
            seconds = time.monotonic() - start
            yield {**result, "name": job["name"], "seconds": seconds}


def keep_from_forks(end: IO[str] | Connection) -> None:
    """Close an end of a pipe in every process that is forked from here.

    Who reads the other end waits until none has this one. Other processes inherit none.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=end.close)


def failed(reason: str) -> Result:
    """Return the result of a page that did not run as it should."""
    return Result(name="", seconds=0.0, failure=reason, shown=[], calls={}, folders=[])


class AllowedImports(MetaPathFinder):
    """Finds what the standard library, the package, and some distributions have to import.

    It stands where Python's own finder stood, and asks it; of the folder of what is
    installed, only what these distributions need can be found.
    """

    def __init__(self, distributions: list[str], package: str) -> None:
        self.names, seen = {package}, set[str]()
        while distributions:
            try:
                found = metadata.distribution(distributions.pop())
            except metadata.PackageNotFoundError:
                continue  # for another system
            if found.name not in seen:
                seen.add(found.name)
                needs = (need for need in found.requires or [] if "extra ==" not in need)
                distributions += (
                    re.split(r"[^\w.-]", need, maxsplit=1)[0] for need in needs
                )
                # `found.files` makes an object of each, and torch has thousands
                files = (found.read_text("RECORD") or "").splitlines()
                self.names |= {re.split(r"[/.,]", file, maxsplit=1)[0] for file in files}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: Any = None
    ) -> ModuleSpec | None:
        """Return where a module is, or None as for one that is not installed."""
        if path is None and name not in self.names:
            installed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
            path = [entry for entry in sys.path if entry not in installed]
        return PathFinder.find_spec(name, path, target)


class FoldersRead:
    """Which folders of the package this process has read: of modules, and of other files.

    Attributes:
        names: The folders, below that of the package, whose name is ``""``.
    """

    def __init__(self, package: str) -> None:
        spec = importlib.util.find_spec(package)
        self.root = Path(spec.origin).resolve().parent if spec and spec.origin else None
        self.start = f"{self.root}{os.sep}"
        self.names = set[str]()

    def note(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Take down what is opened or listed; an audit hook."""
        if event in {"subprocess.Popen", "os.fork", "os.posix_spawn", "os.system"}:
            self.names.add(EVERYTHING)
        elif event in {"open", "os.listdir", "os.scandir"} and self.root:
            file = arguments[0]
            if isinstance(file, str) and f"{file}{os.sep}".startswith(self.start):
                path = Path(file) if event != "open" else Path(file).parent
                parts = path.relative_to(self.root).parts
                self.names.add("/".join(p for p in parts if p != "__pycache__"))


class Sandbox(NamedTuple):
    """What pages may import, and what they read."""

    allowed: AllowedImports
    read: FoldersRead

    def enter(self) -> None:
        """Put both to work in this process, if they are not: a fork of one has them."""
        if self.allowed not in sys.meta_path:
            sys.meta_path[sys.meta_path.index(PathFinder)] = self.allowed
            sys.addaudithook(self.read.note)


# -- In the child ----------------------------------------------------------------------


def run_alone(job: Job, sandbox: Sandbox, inside: Path, sender: Connection) -> None:
    """Run a page and send its result, with what it should not have said."""
    gc.enable()
    keep_from_forks(sender)
    page = os.getpid()
    sandbox.enter()
    sandbox.read.names.discard(EVERYTHING)  # to fork this process is none of the page's
    folder = Path(tempfile.mkdtemp(dir=inside))
    with tempfile.TemporaryFile() as written:
        os.dup2(written.fileno(), 1)
        os.dup2(written.fileno(), 2)
        try:
            result = execute(job, folder, sandbox.allowed)
        except BaseException:
            result = failed(traceback.format_exc())
        if os.getpid() != page:
            os._exit(0)  # the page has forked it, and it has come to the end of its code
        sys.stderr.flush()
        written.seek(0)
        noise = written.read().decode(errors="replace")
        if noise and not result["failure"]:
            result = failed(f"written to standard error:\n{noise}")
        sender.send({**result, "folders": sorted(sandbox.read.names)})
    os._exit(0)  # without waiting for threads, such as those of a process group


def execute(job: Job, folder: Path, allowed: AllowedImports) -> Result:
    """Run the blocks of a page one after the other, in a folder that was empty."""
    page = folder / job["place"]
    for name, source in job["files"].items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, folder / name)
    if job["place"] not in job["files"]:
        page.parent.mkdir(parents=True)
        page.write_text("".join(b["code"] for b in job["blocks"]), encoding="utf-8")
    os.chdir(page.parent)
    sys.argv, sys.path[0] = [str(page)], str(page.parent)  # as `python page` has them
    main = empty_main()
    recorder = CallRecorder(page)
    if job["strict"]:
        warnings.simplefilter("error", UserWarning)
    warnings.filterwarnings("error", category=DeprecationWarning, module="__main__")
    warnings.filterwarnings("ignore", TORCH_DEPRECATES, FutureWarning)
    if page.suffix != ".py":
        sys.meta_path[sys.meta_path.index(allowed)] = PathFinder
    elif not job["may_raise"]:
        recorder.find_calls(page.read_text(encoding="utf-8"))
    shown = []
    for number, block in enumerate(job["blocks"]):
        if block.get("forgets"):
            main = empty_main()
        if page.suffix == ".py":
            file, text = str(page), "\n" * (block["line"] - 1) + block["code"]
        else:  # prose may move what is a cell
            file, text = f"{page.name}, cell {number}", block["code"]
            linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
        parts: dict[str, Any] = {}
        with recording_raised(parts) if job["may_raise"] else contextlib.nullcontext():
            parts |= show(text, file, vars(main), recorder, block["tags"])
        shown.append(cast("Shown", {"line": block["line"], **parts}))
    return {**failed(""), "shown": shown, "calls": recorder.notes}


def empty_main() -> types.ModuleType:
    """Put an empty module in the place of the program."""
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    return main


def show(
    code: str, file: str, names: dict[str, Any], recorder: CallRecorder, tags: list[str]
) -> dict[str, Any]:
    """Run one block; return the parts of what it shows that are not empty."""
    tree = ast.parse(code, file)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, warned = io.StringIO(), io.StringIO()
    quiet = "remove-stderr" in tags
    shown: dict[str, Any] = {}
    error = contextlib.redirect_stderr(warned) if quiet else contextlib.nullcontext()
    with contextlib.redirect_stdout(printed), error:
        value = None
        with recorder:
            exec(compile(tree, file, "exec", dont_inherit=True), names)
            if isinstance(last, ast.Expr):
                whole = compile(ast.Expression(last.value), file, "eval", dont_inherit=True)
                value = eval(whole, names)
        recorder.note_variables(names)
        if value is not None:
            if certified := sys.modules.get("certified"):
                shown["certified"] = certified.certify(value)
            shown["html"] = represented(value, "_repr_html_")
            shown["markdown"] = represented(value, "_repr_markdown_")
            shown["text"] = repr(value)
    shown |= {"stdout": printed.getvalue(), "stderr": warned.getvalue()}
    shown["figures"] = list(figures())
    return {part: content for part, content in shown.items() if content}


@contextlib.contextmanager
def recording_raised(parts: dict[str, Any]) -> Iterator[None]:
    """Add the error and the warnings that come up, also those torch shows only once."""
    raised: list[tuple[str, str]] = []
    if torch := sys.modules.get("torch"):
        torch.set_warn_always(True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", TORCH_DEPRECATES)
        try:
            yield
        except Exception as error:
            raised.append((type(error).__name__, str(error)))
    raised += [(warning.category.__name__, str(warning.message)) for warning in caught]
    if raised:
        parts["raised"] = raised


def represented(value: object, method: str) -> str | None:
    """Return a value as one of its methods shows it, if it has that."""
    if isinstance(value, type) or not hasattr(value, method):
        return None
    return cast("str | None", getattr(value, method)())


def figures() -> Iterator[Figure]:
    """Yield the figures that a block has left open; close them."""
    if "matplotlib.pyplot" not in sys.modules:
        return
    import matplotlib.pyplot as plt

    for number in plt.get_fignums():
        figure = plt.figure(number)
        titles = [figure.get_suptitle()]
        for axes in figure.axes:
            titles += [
                axes.get_title("left"),
                axes.get_title("center"),
                axes.get_title("right"),
            ]
        dpi = plt.rcParams["savefig.dpi"]
        dpi = figure.dpi if dpi == "figure" else dpi
        yield {
            "png": png(figure, dpi),
            "large": png(figure, 2 * dpi),
            "titles": ", ".join(title for title in titles if title),
        }
    plt.close("all")


def png(figure: Any, dpi: float) -> str:
    """Draw a figure."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=dpi)
    return base64.b64encode(drawn.getvalue()).decode()


if __name__ == "__main__":
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)  # what is printed here is no answer
        keep_from_forks(answers)
        for result in run(json.load(sys.stdin)):
            print(json.dumps(result), file=answers, flush=True)
