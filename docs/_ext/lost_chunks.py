"""What fails while pages are read or written side by side stops the build.

Sphinx hands pages out in chunks. Where one has failed by the time that the next is handed
out, ``ParallelTasks.add_task`` drops the error and the pages with it, and the build
succeeds without them. (Seen in Sphinx 9.)
"""

from __future__ import annotations

import sys
from typing import Any

from sphinx.application import Sphinx
from sphinx.util.parallel import ParallelTasks

quiet = ParallelTasks.terminate


def setup(app: Sphinx) -> dict[str, Any]:
    """Let an error out that ends the tasks."""
    ParallelTasks.terminate = loud  # type: ignore[method-assign, assignment]
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def loud(tasks: ParallelTasks) -> None:
    """End the tasks; raise again what is being handled, if anything is."""
    quiet(tasks)
    if error := sys.exception():
        raise error
