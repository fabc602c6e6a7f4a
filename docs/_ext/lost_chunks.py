"""What fails while pages are read or written side by side stops the build.

Sphinx hands pages out in chunks, each to a process of its own. Where one has failed by the
time that the next is handed out, ``ParallelTasks.add_task`` drops the error and the pages
with it, and the build succeeds without them. Where a process dies, or never ends, Sphinx
waits for it for ever. (Seen in Sphinx 9.) Here all three are errors; what a process was
doing when its time was up is on standard error.
"""

from __future__ import annotations

import faulthandler
import signal
import sys
from collections.abc import Callable
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import SphinxParallelError
from sphinx.util.parallel import ParallelTasks

SECONDS = 600  # for a chunk, which takes a few
quiet, join_one, process = (
    ParallelTasks.terminate,
    ParallelTasks._join_one,
    ParallelTasks._process,
)


def setup(app: Sphinx) -> dict[str, Any]:
    """Let errors out that end the tasks; see to it that each process ends."""
    patch(ParallelTasks)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def patch(tasks: Any) -> None:
    """Put the three functions below into a class of tasks."""
    tasks.terminate, tasks._join_one, tasks._process = loud, join_living, limited


def loud(tasks: ParallelTasks) -> None:
    """End the tasks; raise again what is being handled, if anything is."""
    quiet(tasks)
    if error := sys.exception():
        raise error


def join_living(tasks: ParallelTasks) -> bool:
    """Take in what one process sent; raise when one has died without."""
    for tid, pipe in tasks._precvs.items():
        worker = tasks._procs[tid]
        if not worker.is_alive() and (worker.exitcode or not pipe.poll()):
            chunk = tasks._args[tid]
            raise SphinxParallelError(f"exit code {worker.exitcode} for {chunk}", "")
    try:
        return join_one(tasks)
    except EOFError:  # one is dying: it has closed its pipe, and is dead at the next look
        return False


def limited(
    tasks: ParallelTasks, pipe: Any, function: Callable[..., Any], chunk: Any
) -> None:
    """In the process: end it when its time is up."""
    faulthandler.register(signal.SIGALRM, chain=True)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    process(tasks, pipe, function, chunk)
