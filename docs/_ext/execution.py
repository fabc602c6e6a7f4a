"""Show on each page what its code shows, executing only what could show something else.

Before Sphinx reads, the stale pages are executed (:mod:`pages` says which, :mod:`runner`
how). sphinx-gallery is told to execute nothing; its pages get the stored output when
Sphinx reads them, and their figures before, for the thumbnails. MyST-NB finds the executed
notebooks in its cache. A page that does not run as it should stops the build.

``execution_pages`` is ``all``, or a part of the names of the pages to run, or empty for
none of them: the others show their last output where it is still true, otherwise none.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent
from typing import Any

import nbformat.v4
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from myst_parser.config.main import MdParserConfig
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.display import status_iterator
from sphinx_gallery.scrapers import figure_rst

from doors import (
    CODE_OUTPUT,
    HTML_HEADER,
    NbParserConfig,
    create_nb_reader,
    get_md5sum,
    leave_without_output,
)
from pages import Page, Store, executed, find, is_chosen, sources
from runner import Result, Shown

BLOCK = re.compile(r"^\.\. GENERATED FROM PYTHON SOURCE LINES (\d+)-", re.M)
FOOTER = "\n.. _sphx_glr_download_"


def setup(app: Sphinx) -> dict[str, Any]:
    """Run the pages before sphinx-gallery looks; tell Sphinx which ones have changed."""
    app.add_config_value("execution_pages", "all", "")
    execution = Execution()
    app.connect("config-inited", settle, priority=5)  # before the tools look
    app.connect("builder-inited", execution.run, priority=100)
    app.connect("builder-inited", execution.mark, priority=900)
    app.connect("source-read", execution.show)
    app.connect("env-get-outdated", execution.read_again)
    app.connect("env-updated", execution.write_again)
    app.connect("build-finished", execution.finish)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def settle(app: Sphinx, config: Any) -> None:
    """Have sphinx-gallery execute nothing, and MyST-NB look into a cache of ours."""
    config.sphinx_gallery_conf["plot_gallery"] = False
    config.nb_execution_cache_path = str(Path(app.outdir).parent / "executed")


class Execution:
    """What one build executes and publishes.

    Attributes:
        shown: What each page shows, by its name in Sphinx; without the figures.
        keys: What that depends on; ``""`` where a page is left without output.
        done: What has to be written into the folder of a script when that is done.
        built: What the site is made from, or ``""`` if pages are left without output.
    """

    shown: dict[str, list[Shown]]
    keys: dict[str, str]
    done: dict[Path, str]
    built: str

    def run(self, app: Sphinx) -> None:
        """Run every page whose output could have changed since it ran; place the output."""
        self.shown, self.keys, self.done = {}, {}, {}
        store = Store(Path(app.confdir).parent)
        pages = list(find(store.root))
        gallery = Path(app.srcdir, app.config.sphinx_gallery_conf["gallery_dirs"])
        delete_orphans(store.root / "examples", gallery, app)
        part = app.config.execution_pages
        stale = store.stale(executed(store.root))
        chosen = [page for page in stale if is_chosen(page.name, part)]
        self.built = sources(store.root) if chosen == stale else ""
        if app.builder.name == "html":
            record(app).unlink(missing_ok=True)
        execute(app, store, chosen)
        for page in pages:
            result = store.fresh(page)
            if page.source.suffix == ".py":
                self.place(Path(app.srcdir, f"{page.docname}.py"), result, app)
            elif result:
                cache(page, result, app)
            self.keys[page.docname] = result["key"] if result else ""
            self.shown[page.docname] = result["shown"] if result else []

    def place(self, script: Path, result: Result | None, app: Sphinx) -> None:
        """Put figures and the names of what was called where others look for them."""
        conf, url = app.config.sphinx_gallery_conf, app.config.html_baseurl
        now = repr([result and result["key"], conf, url, app.config.release])
        done = script.with_suffix(".done")
        figures = [
            f
            for part in (result or {"shown": []})["shown"]
            for f in part.get("figures", [])
        ]
        if not done.exists() or done.read_text(encoding="utf-8") != now:
            Path(f"{script}.md5").unlink(missing_ok=True)  # sphinx-gallery writes all anew
            for image in script.parent.glob(f"images/**/sphx_glr_{script.stem}_*"):
                image.unlink()
            (script.parent / "images" / "thumb").mkdir(parents=True, exist_ok=True)
            for number, figure in enumerate(figures, 1):
                small, large = images(script, number)
                small.write_bytes(base64.b64decode(figure["png"]))
                large.write_bytes(base64.b64decode(figure["large"]))
            calls = script.with_suffix(".calls.json")
            calls.write_text(json.dumps(result["calls"] if result else {}))
            self.done[done] = now
        for figure in figures:
            figure["png"] = figure["large"] = ""

    def mark(self, app: Sphinx) -> None:
        """Spare sphinx-gallery the scripts whose pages it has written."""
        for done, now in self.done.items():
            script = done.with_suffix(".py")
            Path(f"{script}.md5").write_text(get_md5sum(script, mode="t"))
            done.write_text(now, encoding="utf-8")

    def show(self, app: Sphinx, docname: str, source: list[str]) -> None:
        """Put the output of a script under each block of its page."""
        script = Path(app.srcdir, f"{docname}.py")
        if not (shown := self.shown.get(docname)) or not script.exists():
            return
        number = 0
        outputs = {}
        for block in shown:
            figures = block.get("figures", [])
            pictures = list(enumerate(figures, number + 1))
            number += len(figures)
            outputs[block["line"]] = rst(
                block,
                [
                    figure_rst(
                        [small],
                        app.srcdir,
                        figure["titles"],
                        [{0: small, 2.0: large}],
                    )
                    for n, figure in pictures
                    for small, large in [images(script, n)]
                ],
            )
        body, *footer = source[0].rpartition(FOOTER)
        starts = [*BLOCK.finditer(body)]
        for start, following in reversed([*zip(starts, [*starts[1:], None], strict=True)]):
            if output := outputs.pop(int(start[1]), ""):
                end = following.start() if following else len(body)
                body = body[:end] + output + body[end:]
        assert not outputs, f"{docname} has no blocks at the lines {[*outputs]}"
        source[0] = "".join([body, *footer])

    def read_again(
        self, app: Sphinx, env: Any, added: set[str], changed: set[str], removed: set[str]
    ) -> list[str]:
        """Name the pages that ran since they were published; unpublish the removed."""
        without = [f"{docname}.md" for docname, key in self.keys.items() if not key]
        leave_without_output(env, without)
        for docname in removed:
            Path(app.outdir, f"{docname}.html").unlink(missing_ok=True)
        store = published(app)
        self.last = json.loads(store.read_text()) if store.exists() else {}
        return [
            name
            for name, now in self.keys.items()
            if self.last.get(name) != now and name in env.found_docs
        ]

    def write_again(self, app: Sphinx, env: Any) -> list[str]:
        """Name every page when the table of contents, which each shows, has changed."""
        contents = [
            (docname, env.toctree_includes.get(docname), env.titles[docname].astext())
            for docname in sorted(env.all_docs)
        ]
        contents += [env.tocs[docname].astext() for docname in sorted(env.toctree_includes)]
        self.keys[""] = hashlib.sha256(repr(contents).encode()).hexdigest()
        return [] if self.keys[""] == self.last.get("") else list(env.all_docs)

    def finish(self, app: Sphinx, exception: Exception | None) -> None:
        """Note what has been published; delete pictures and downloads of lost pages."""
        if exception is None:
            published(app).write_text(json.dumps(self.keys))
            if app.builder.name == "html":
                record(app).write_text(self.built)
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


def record(app: Sphinx) -> Path:
    """Return the file that says which sources the site is of, for its tests."""
    return Path(app.outdir).with_name("built.txt")


def execute(app: Sphinx, store: Store, pages: list[Page]) -> None:
    """Execute pages, as many at a time as ``sphinx-build -j`` says; raise if any failed."""
    failures = []
    for page, result in status_iterator(
        store.execute(pages, app.parallel, app.config.nb_execution_timeout),
        "executing pages... ",
        "purple",
        len(pages),
        app.verbosity,
        lambda finished: f"{finished[0].name} ({finished[1]['seconds']:.1f} s)",
    ):
        if result["failure"]:
            failures.append(f"{page.source}\n\n{result['failure']}")
    if failures:
        raise ExtensionError("pages did not run as they should:\n\n" + "\n".join(failures))


# -- Gallery pages ---------------------------------------------------------------------


def images(script: Path, number: int) -> tuple[Path, Path]:
    """Return the files of a figure, in two sizes, as sphinx-gallery names them."""
    name = f"sphx_glr_{script.stem}_{number:03}"
    folder = script.parent / "images"
    return folder / f"{name}.png", folder / f"{name}_2_00x.png"


def rst(block: Shown, pictures: list[str]) -> str:
    """Return what a block shows as sphinx-gallery writes it."""
    printed = block.get("stdout", "").expandtabs()
    parts = [*pictures]
    if "html" not in block and "text" in block:
        printed = f"{printed}\n{block['text']}"
    if printed.strip():
        parts.append(CODE_OUTPUT.format(indent(printed, " " * 4)))
    if "html" in block:
        parts.append(HTML_HEADER.format(indent(block["html"], " " * 4)))
    return "".join(f"\n\n{part}\n\n" for part in parts)


def delete_orphans(examples: Path, gallery: Path, app: Sphinx) -> None:
    """Delete what the gallery wrote for scripts and chapters that are gone."""
    generated = Path(app.srcdir, app.config.sphinx_gallery_conf["backreferences_dir"])
    chapters = [folder for folder in gallery.glob("*/") if (folder / "index.rst").exists()]
    for chapter in chapters:
        if not (examples / chapter.name).is_dir():
            shutil.rmtree(chapter)
            shutil.rmtree(generated, ignore_errors=True)
    for copy in gallery.rglob("*.py"):
        if not (examples / copy.relative_to(gallery)).exists():
            shutil.rmtree(generated, ignore_errors=True)  # sphinx-gallery only adds to it
            for image in copy.parent.glob(f"images/**/sphx_glr_{copy.stem}_*"):
                image.unlink()
            for file in copy.parent.glob(f"{copy.stem}.*"):
                file.unlink()


# -- Notebooks -------------------------------------------------------------------------


def cache(page: Page, result: Result, app: Sphinx) -> None:
    """Put an executed notebook where MyST-NB looks for it."""
    text = page.source.read_text(encoding="utf-8")
    reader = create_nb_reader(str(page.source), MdParserConfig(), NbParserConfig(), text)
    assert reader is not None, f"{page.source} has cells but no notebook header"
    notebook: nbformat.NotebookNode = reader.read(text)
    notebook.metadata["language_info"] = {"name": "python", "pygments_lexer": "ipython3"}
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for number, (cell, block) in enumerate(zip(cells, result["shown"], strict=True), 1):
        cell.execution_count = number
        cell.outputs = list(outputs_of(block, number))
    bundle = CacheBundleIn(notebook, str(page.source), data={})
    get_cache(app.config.nb_execution_cache_path).cache_notebook_bundle(
        bundle, check_validity=False, overwrite=True
    )


def outputs_of(block: Shown, number: int) -> Iterator[nbformat.NotebookNode]:
    """Yield what a cell shows as a notebook keeps it."""
    for name in ("stdout", "stderr"):
        if name in block:
            yield output("stream", name=name, text=block[name])
    for figure in block.get("figures", []):
        yield output("display_data", data={"image/png": figure["png"]})
    if "text" in block:
        data = {"text/plain": block["text"]}
        if "html" in block:
            data["text/html"] = block["html"]
        if "markdown" in block:
            data["text/markdown"] = block["markdown"]
        yield output("execute_result", data=data, execution_count=number)


def output(kind: str, **content: Any) -> nbformat.NotebookNode:
    """Return one output of a cell."""
    made: nbformat.NotebookNode = nbformat.v4.new_output(kind, **content)  # type: ignore[no-untyped-call]
    return made
