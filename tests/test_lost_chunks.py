"""An error in one of several processes of the build is not lost, nor waited for."""

import os
import sys
import time

import pytest
from executed import ROOT
from sphinx.errors import SphinxParallelError
from sphinx.util.parallel import ParallelTasks

sys.path.insert(0, str(ROOT / "docs" / "_ext"))
import lost_chunks


class Patched(ParallelTasks):
    """What Sphinx uses once the extension is set up."""


lost_chunks.patch(Patched)


def fail(chunk):
    raise OSError("no such picture")


def two_chunks(kind):
    """Hand out one that fails, another when that has ended; return which came back."""
    found = []
    tasks = kind(2)
    tasks.add_task(fail, ["first"], lambda chunk, _: found.extend(chunk))
    time.sleep(0.5)  # for the process to end
    tasks.add_task(len, ["second"], lambda chunk, _: found.extend(chunk))
    tasks.join()
    return found


def test_sphinx_loses_a_chunk_that_fails_before_the_next_is_handed_out():
    """And the next with it: the reason for the extension. When this fails, it can go."""
    assert two_chunks(ParallelTasks) == []


def test_a_chunk_that_fails_before_the_next_is_handed_out():
    with pytest.raises(SphinxParallelError, match="no such picture"):
        two_chunks(Patched)


def test_a_process_that_dies():
    tasks = Patched(1)
    tasks.add_task(lambda chunk: os._exit(3), ["first"])
    with pytest.raises(SphinxParallelError, match=r"exit code 3 for \['first'\]"):
        tasks.join()


def test_a_process_that_is_about_to_die():
    def close_and_die(chunk):
        os.closerange(3, 256)  # its pipe among them, as the system does before it is dead
        time.sleep(0.3)
        os._exit(3)

    tasks = Patched(1)
    tasks.add_task(close_and_die, ["first"])
    with pytest.raises(SphinxParallelError, match=r"exit code 3 for \['first'\]"):
        tasks.join()


def test_a_process_that_never_ends(monkeypatch, capfd):
    monkeypatch.setattr(lost_chunks, "SECONDS", 0.5)
    tasks = Patched(2)
    tasks.add_task(lambda chunk: time.sleep(60), ["first"])
    with pytest.raises(SphinxParallelError, match=r"exit code -14 for \['first'\]"):
        tasks.join()
    assert "test_lost_chunks.py" in capfd.readouterr().err  # where it was


def test_results_are_taken_in():
    found = []
    tasks = Patched(2)
    for chunk in (["a"], ["b", "c"], ["d", "e", "f"]):
        tasks.add_task(len, chunk, lambda chunk, length: found.append((chunk, length)))
    tasks.join()
    assert sorted(found) == [(["a"], 1), (["b", "c"], 2), (["d", "e", "f"], 3)]
