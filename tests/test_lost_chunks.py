"""An error in one of several processes of the build is not lost."""

import sys
import time

import pytest
from executed import ROOT
from sphinx.errors import SphinxParallelError
from sphinx.util import parallel

sys.path.insert(0, str(ROOT / "docs" / "_ext"))
import lost_chunks


def fail(chunk):
    raise OSError("no such picture")


@pytest.mark.parametrize("setup", [True, False])
def test_a_chunk_that_fails_before_the_next_is_handed_out(monkeypatch, setup):
    """With the extension it raises; without, which is why there is one, it is lost."""
    if setup:
        monkeypatch.setattr(parallel.ParallelTasks, "terminate", lost_chunks.loud)
    tasks = parallel.ParallelTasks(2)
    tasks.add_task(fail, ["first"])
    time.sleep(0.5)  # for the process to end
    if not setup:
        tasks.add_task(len, ["second"])
        tasks.join()
        return
    with pytest.raises(SphinxParallelError, match="no such picture"):
        tasks.add_task(len, ["second"])
