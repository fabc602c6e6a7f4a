"""Execute what is stale, side by side, each page in a process of its own.

Before Sphinx reads, every gallery script and notebook whose output could have changed is
run in a child forked from this process. The heavy imports (``execution_preload``) are
made here, once; nothing else runs here, so that every page starts from the same state,
cannot change another one's, and may come in any order. sphinx-gallery and MyST-NB then
find their own stores filled and only render.

A page is stale when its code, a module of the package that it can reach
(:mod:`freshness`), a file that it names, a setting of the gallery, or the version of one
of ``execution_versions`` is not what it was when the page ran. A page that raises, writes
to standard error (a cell may be tagged ``remove-stderr``) or outlasts
``nb_execution_timeout`` stops the build.

``execution_pages`` is ``all``, or a part of the names of the pages to run (``none`` is in
no name): the others show their last output where it is still true, and else none.

Where processes cannot fork (Windows), sphinx-gallery and MyST-NB run the pages as they do
without this extension.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import hashlib
import importlib
import json
import multiprocessing
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import deque
from collections.abc import Iterator
from importlib.metadata import version
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, cast

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.display import status_iterator
from sphinx.util.matching import get_matching_files
from sphinx.util.parallel import parallel_available

from freshness import Package
from pages import Notebook, Page, PageError, Script, delete_orphans

# Of this folder: what they do shows in output.
TOOLS = ["calls", "execution", "freshness", "pages"]


def setup(app: Sphinx) -> dict[str, Any]:
    """Run the pages before sphinx-gallery looks; tell Sphinx which ones have changed."""
    app.add_config_value("execution_package", "", "")  # its folder, seen from conf.py
    app.add_config_value("execution_versions", [], "")  # distributions that show in output
    app.add_config_value("execution_preload", [], "")  # modules imported once for all
    app.add_config_value("execution_pages", "all", "")
    os.environ["OMP_NUM_THREADS"] = "1"  # children of a process with a pool hang
    os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"  # it remarks on standard error
    if parallel_available:
        execution = Execution()
        app.connect("config-inited", execution.note_settings, priority=5)
        app.connect("builder-inited", execution.run, priority=100)
        app.connect("env-get-outdated", execution.read_again)
        app.connect("env-updated", execution.write_again)
        app.connect("build-finished", execution.finish)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


class Execution:
    """What one build executes and publishes."""

    def note_settings(self, app: Sphinx, config: Any) -> None:
        """Place MyST-NB's cache; note the gallery's settings before it adds its own."""
        config.nb_execution_cache_path = str(Path(app.outdir).parent / "executed")
        tools = [Path(__file__).with_name(f"{name}.py") for name in TOOLS]
        common = [sys.version, repr(config.sphinx_gallery_conf)]
        common += [f"{name} {version(name)}" for name in config.execution_versions]
        common += [tool.read_text(encoding="utf-8") for tool in tools]
        self.common = "\n".join(common)

    def run(self, app: Sphinx) -> None:
        """Run every page whose output could have changed since it ran."""
        store = Path(app.config.nb_execution_cache_path, "keys.json")
        ran = json.loads(store.read_text()) if store.exists() else {}
        package = Package(Path(app.confdir, app.config.execution_package))
        noted = store.with_name("uses.json")
        notes = json.loads(noted.read_text()) if noted.exists() else {}
        pages = {page: key(page, package, self.common, notes) for page in find_pages(app)}
        stale = [
            page
            for page, now in pages.items()
            if ran.get(page.docname, {}).get("key") != now or not page.kept()
        ]
        for page in stale:
            page.forget()
        wanted = app.config.execution_pages
        chosen = [page for page in stale if wanted == "all" or wanted in page.docname]
        chosen.sort(key=lambda page: -ran.get(page.docname, {}).get("seconds", 60))
        try:
            for page, seconds in run_all(app, chosen):
                ran[page.docname] = {"key": pages[page], "seconds": seconds}
        finally:
            store.parent.mkdir(parents=True, exist_ok=True)
            store.write_text(json.dumps(ran, indent=1, sort_keys=True))
            noted.write_text(json.dumps(notes))
        # The tools render from now on: what was not chosen is left without output.
        app.config.sphinx_gallery_conf["plot_gallery"] = False
        self.without = {page.docname for page in stale} - {page.docname for page in chosen}
        self.shown = {
            page.docname: "" if page.docname in self.without else now
            for page, now in pages.items()
        }

    def read_again(
        self, app: Sphinx, env: Any, added: set[str], changed: set[str], removed: set[str]
    ) -> list[str]:
        """Name the pages that ran since they were published; unpublish the removed."""
        env.mystnb_config = env.mystnb_config.copy(
            execution_excludepatterns=[f"{docname}.md" for docname in self.without]
        )
        for docname in removed:
            Path(app.outdir, f"{docname}.html").unlink(missing_ok=True)
        store = published(app)
        self.last = json.loads(store.read_text()) if store.exists() else {}
        return [name for name, now in self.shown.items() if self.last.get(name) != now]

    def write_again(self, app: Sphinx, env: Any) -> list[str]:
        """Name every page when the table of contents, which each shows, has changed."""
        contents = [
            (docname, env.toctree_includes.get(docname), env.titles[docname].astext())
            for docname in sorted(env.all_docs)
        ]
        contents += [env.tocs[docname].astext() for docname in sorted(env.toctree_includes)]
        self.shown[""] = hashlib.sha256(repr(contents).encode()).hexdigest()
        return [] if self.shown[""] == self.last.get("") else list(env.all_docs)

    def finish(self, app: Sphinx, exception: Exception | None) -> None:
        """Note what has been published; delete pictures and downloads of lost pages."""
        if exception is None:
            published(app).write_text(json.dumps(self.shown))
            gallery = Path(app.srcdir, app.config.sphinx_gallery_conf["gallery_dirs"])
            kept = {image.name for image in gallery.rglob("images/*")}
            kept |= {str(name) for _, name in app.env.images.values()}
            for image in Path(app.outdir, "_images").glob("*"):
                if image.name not in kept:
                    image.unlink()
            downloads = {str(name) for _, name in app.env.dlfiles.values()}
            for file in Path(app.outdir, "_downloads").glob("*/*"):
                if file.relative_to(file.parents[1]).as_posix() not in downloads:
                    shutil.rmtree(file.parent)


def published(app: Sphinx) -> Path:
    """Return the file that says which output of each page was written."""
    return Path(app.doctreedir, "published.json")


def find_pages(app: Sphinx) -> Iterator[Page]:
    """Return the executed pages, after deleting what is left of former ones."""
    conf = app.config.sphinx_gallery_conf
    examples = Path(app.srcdir, conf["examples_dirs"]).resolve()
    gallery = Path(app.srcdir, conf["gallery_dirs"])
    delete_orphans(examples, gallery, Path(app.srcdir, conf["backreferences_dir"]))
    for name in sorted(
        get_matching_files(app.srcdir, ["**.md"], app.config.exclude_patterns)
    ):
        source = Path(app.srcdir, name)
        if "```{code-cell}" in source.read_text(encoding="utf-8"):
            cache = Path(app.config.nb_execution_cache_path)
            yield Notebook(name.removesuffix(".md"), source, cache)
    for source in sorted([*examples.glob("*.py"), *examples.glob("*/*.py")]):
        if not re.search(conf["ignore_pattern"], str(source)):
            target = gallery / source.relative_to(examples)
            docname = target.relative_to(app.srcdir).with_suffix("").as_posix()
            yield Script(docname, source, target, conf)


def key(page: Page, package: Package, common: str, notes: dict[str, Any]) -> str:
    """Condense all that the output of a page depends on.

    ``notes`` keeps what its text was found to use, for as long as nothing changes that
    this could depend on: to find it takes longer than all else in a build without changes.
    """
    of = condensed(page.source.read_text(encoding="utf-8"), package.whole, common)
    if notes.get(page.docname, {}).get("of") != of:
        try:
            tree = ast.parse(page.code)
        except SyntaxError:  # a magic of IPython, say: nothing is known of what it uses
            tree = ast.parse(f"from {package.name} import *")
        constants = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)}
        texts = {text for text in constants if isinstance(text, str)}
        notes[page.docname] = {
            "of": of,
            "uses": condensed(page.code, package.digest(tree)),
            "names": sorted(text for text in texts if may_name_a_file(text)),
        }
    note = notes[page.docname]
    folder = str(page.source.parent)
    files = (os.path.join(folder, name) for name in note["names"])
    contents = (Path(file).read_bytes().hex() for file in files if os.path.isfile(file))
    return condensed(note["uses"], common, *contents)


def may_name_a_file(text: str) -> bool:
    """Tell whether a system would look for a file of this name."""
    return 0 < len(text) < 1000 and text.isprintable()


def condensed(*parts: str) -> str:
    """Return a digest of some texts."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def run_all(app: Sphinx, pages: list[Page]) -> Iterator[tuple[Page, float]]:
    """Run pages, as many at a time as ``sphinx-build -j`` says; raise when any failed."""
    if not pages:
        return
    for module in app.config.execution_preload:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    gc.freeze()  # a page that collects looks at its own objects, not at all of torch's
    finished = side_by_side(pages, app.parallel, app.config.nb_execution_timeout)
    failures = []
    for page, result, seconds, failure in status_iterator(
        finished,
        "executing pages... ",
        "purple",
        len(pages),
        app.verbosity,
        lambda finished: f"{finished[0].docname} ({finished[2]:.1f} s)",
    ):
        if failure:
            failures.append(f"{page.source}\n\n{failure}")
        else:
            page.keep(result)
            yield page, seconds
    if failures:
        raise ExtensionError("pages did not run as they should:\n\n" + "\n".join(failures))


Outcome = tuple[Page, Any, float, str]


def side_by_side(pages: list[Page], jobs: int, limit: int) -> Iterator[Outcome]:
    """Run each page in a child of its own; return what came of it, as it comes."""
    fork = multiprocessing.get_context("fork")
    waiting = deque(pages)
    running: dict[Any, tuple[Page, Any, float]] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            page = waiting.popleft()
            receiver, sender = fork.Pipe(duplex=False)
            child = fork.Process(target=run_alone, args=(page, limit, sender))
            child.start()
            sender.close()
            running[receiver] = page, child, time.monotonic()
        for ready in wait(list(running)):
            receiver = cast("Connection[Any, Any]", ready)
            page, child, start = running.pop(receiver)
            try:
                result, failure = receiver.recv()
            except EOFError:
                result, failure = None, f"took more than {limit} s, or crashed"
            child.join()
            yield page, result, time.monotonic() - start, failure


def run_alone(page: Page, limit: int, sender: Connection) -> None:
    """In the child: run a page and send its result, with what it should not have said."""
    signal.alarm(limit)
    gc.enable()
    with tempfile.TemporaryFile() as said:
        os.dup2(said.fileno(), 2)
        result = failure = None
        try:
            result = page.run()
        except PageError as error:
            failure = str(error)
        except BaseException:
            failure = traceback.format_exc()
        sys.stderr.flush()
        said.seek(0)
        noise = said.read().decode(errors="replace")
        if noise and not failure:
            failure = f"written to standard error:\n{noise}"
        sender.send((result, failure))
