"""A build that lost pages fails (docs/_ext/nothing_lost.py); why it may lose them."""

import multiprocessing
import os
import time

import pytest
from sphinx.application import Sphinx
from sphinx.errors import SphinxError
from sphinx.util.parallel import ParallelTasks

from nothing_lost import raise_if_lost


def fail(chunk):
    raise OSError("no such picture")


def test_sphinx_loses_a_chunk_that_fails_before_the_next_is_handed_out():
    """And the next with it: the reason for the extension. When this fails, it can go."""
    found = []
    tasks = ParallelTasks(2)
    tasks.add_task(fail, ["first"], lambda chunk, _: found.extend(chunk))
    for process in multiprocessing.active_children():
        process.join(timeout=60)
    tasks.add_task(len, ["second"], lambda chunk, _: found.extend(chunk))
    tasks.join()
    assert found == []


@pytest.fixture
def app(tmp_path):
    """A site of two pages, built."""
    (tmp_path / "conf.py").write_text("extensions = ['nothing_lost']")
    (tmp_path / "index.rst").write_text("Home\n====\n\n.. toctree::\n\n   other")
    (tmp_path / "other.rst").write_text("Other\n=====")
    app = Sphinx(tmp_path, tmp_path, tmp_path / "html", tmp_path, "html", status=None)
    app.build()
    return app


def test_a_page_that_was_not_read(app):
    del app.env.all_docs["other"]
    with pytest.raises(SphinxError, match=r"lost in a process of the build: other$"):
        raise_if_lost(app, None)


def test_a_page_that_was_not_written(app):
    (app.outdir / "index.html").unlink()
    with pytest.raises(SphinxError, match=r"lost in a process of the build: index$"):
        app.events.emit("build-finished", None)


def test_a_page_that_was_not_written_again(app):
    later = time.time() + 60
    os.utime(app.srcdir / "other.rst", (later, later))
    with pytest.raises(SphinxError, match=r"lost in a process of the build: other$"):
        raise_if_lost(app, None)


def test_an_error_that_is_known_is_left_alone(app):
    (app.outdir / "index.html").unlink()
    raise_if_lost(app, OSError("no space"))
