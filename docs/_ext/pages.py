"""The two kinds of executed page: gallery scripts and notebooks.

Both are run in a child of the build (:mod:`execution`) and leave their output where their
own tool looks for it: a script in the gallery's folder beside its checksum, a notebook in
the cache that MyST-NB reads.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import nbformat.v4
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from myst_nb.core.config import NbParserConfig
from myst_nb.core.read import create_nb_reader
from myst_parser.config.main import MdParserConfig
from sphinx_gallery import gen_rst

import calls


@dataclass(eq=False)
class Script:
    """A script of the gallery."""

    docname: str
    source: Path
    target: Path
    conf: dict[str, Any]

    @cached_property
    def code(self) -> str:
        """The text of the script."""
        return self.source.read_text(encoding="utf-8")

    def kept(self) -> bool:
        """Tell whether sphinx-gallery has the output of this text."""
        return (
            self.target.exists()
            and self.target.read_text(encoding="utf-8") == self.code
            and gen_rst.md5sum_is_current(self.target, "t")
        )

    def forget(self) -> None:
        """Delete what an earlier run left, so that nothing of it can stay."""
        Path(f"{self.target}.md5").unlink(missing_ok=True)
        for image in self.target.parent.glob(f"images/sphx_glr_{self.target.stem}_[0-9]*"):
            image.unlink()

    def run(self) -> None:
        """Execute the script and write its page, as sphinx-gallery does."""
        gen_rst._LoggingTee = _OutputOnly
        # Looking for links it reads attributes, such as .grad, that warn of being read.
        warnings.filterwarnings("ignore", module=r"sphinx_gallery\.backreferences")
        (self.target.parent / "images" / "thumb").mkdir(parents=True, exist_ok=True)
        noting = calls.Noting(self.source)

        class Noted(gen_rst._exec_once):  # type: ignore[misc]
            """A block, whose calls are noted while it runs and not while it is shown."""

            def __call__(self) -> None:
                with noting:
                    super().__call__()

        gen_rst._exec_once = Noted
        *_, result = gen_rst.generate_file_rst(
            self.source.name, self.target.parent, self.source.parent, self.conf
        )
        self.target.with_suffix(".calls.json").write_text(json.dumps(noting.notes))
        if error := result.get("formatted_exception"):
            raise PageError(error)

    def keep(self, result: None) -> None:
        """Do nothing: the child has written all."""


class _OutputOnly(gen_rst._LoggingTee):  # type: ignore[misc]
    """Captures standard output, and leaves standard error where it is seen."""

    def set_std_and_reset_position(self) -> _OutputOnly:
        error = self.origs[1] if isinstance(sys.stdout, gen_rst._LoggingTee) else sys.stderr
        super().set_std_and_reset_position()
        sys.stderr = error
        return self


@dataclass(eq=False)
class Notebook:
    """A Markdown page with cells."""

    docname: str
    source: Path
    cache: Path

    @cached_property
    def notebook(self) -> nbformat.NotebookNode:
        """The page as MyST-NB reads it."""
        text = self.source.read_text(encoding="utf-8")
        reader = create_nb_reader(
            str(self.source), MdParserConfig(), NbParserConfig(), text
        )
        assert reader is not None, f"{self.source} has cells but no notebook header"
        notebook: nbformat.NotebookNode = reader.read(text)
        return notebook

    @property
    def cells(self) -> list[nbformat.NotebookNode]:
        """The cells that hold code."""
        return [cell for cell in self.notebook.cells if cell.cell_type == "code"]

    @property
    def code(self) -> str:
        """The code of all cells."""
        return "\n".join(cell.source for cell in self.cells)

    def kept(self) -> bool:
        """Tell whether the cache has the output; it holds the keys, too."""
        return self.cache.exists()

    def forget(self) -> None:
        """Do nothing: a new run takes the place of the old."""

    def run(self) -> nbformat.NotebookNode:
        """Execute the cells in a kernel within this process."""
        from ipykernel.inprocess.manager import InProcessKernelManager

        os.chdir(self.source.parent)
        manager: Any = InProcessKernelManager()
        manager.start_kernel()
        manager.kernel.shell.run_line_magic("matplotlib", "inline")
        client = manager.client()
        client.start_channels()
        self.notebook.metadata["language_info"] = manager.kernel.language_info
        for cell in self.cells:
            client.execute(cell.source)
            reply = client.get_shell_msg()["content"]
            cell.execution_count = reply["execution_count"]
            cell.outputs = list(_joined(client.iopub_channel.get_msgs()))
            check(cell)
        return self.notebook

    def keep(self, result: nbformat.NotebookNode) -> None:
        """Put the executed notebook where MyST-NB looks for it."""
        bundle = CacheBundleIn(result, str(self.source), data={})
        get_cache(self.cache).cache_notebook_bundle(
            bundle, check_validity=False, overwrite=True
        )


def _joined(messages: list[dict[str, Any]]) -> Iterator[nbformat.NotebookNode]:
    """Return the outputs in the messages, what is printed in a row being one."""
    stream = None
    for message in messages:
        if message["msg_type"] in {"stream", "display_data", "execute_result", "error"}:
            output: nbformat.NotebookNode = nbformat.v4.output_from_msg(message)  # type: ignore[no-untyped-call]
            if stream and output.output_type == "stream" and output.name == stream.name:
                stream.text += output.text
                continue
            stream = output if output.output_type == "stream" else None
            yield output


def check(cell: nbformat.NotebookNode) -> None:
    """Raise where a cell fails or writes to standard error and is not tagged so."""
    tags = cell.metadata.get("tags", [])
    for output in cell.outputs:
        if output.output_type == "error" and "raises-exception" not in tags:
            raise PageError("\n".join(output.traceback))
        if output.get("name") == "stderr" and "remove-stderr" not in tags:
            raise PageError(f"written to standard error:\n{output.text}")


class PageError(Exception):
    """A page did not run as it should; the message says what happened."""


Page = Script | Notebook


def delete_orphans(examples: Path, gallery: Path, generated: Path) -> None:
    """Delete what the gallery wrote for scripts and chapters that are gone."""
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
