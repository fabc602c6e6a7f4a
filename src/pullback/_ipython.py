"""The extension of IPython: each cell of a notebook is watched."""

from __future__ import annotations

from typing import Any

from pullback._watch.watching import watch


class Cells:
    """Watches each cell, and prints what was found below it."""

    def __init__(self) -> None:
        self._block = watch()  # one for all, so that it knows the lines of earlier cells
        self._seen: Any = None  # while a cell is watched
        self._depth = 0  # cells that run: a magic such as %%capture runs one inside another
        self._error: BaseException | None = None  # of the innermost, which is shown there

    def before(self, info: Any) -> None:
        """Begin to watch, unless this cell is part of one that is watched."""
        self._depth += 1
        if self._depth == 1:
            self._seen = self._block.__enter__()

    def after(self, result: Any) -> None:
        """Stop, and print, unless this cell is part of one that runs on."""
        self._depth = max(0, self._depth - 1)  # or the extension was loaded in this cell
        self._error = self._error or result.error_in_exec
        if self._depth == 0:
            error, self._error = self._error, None
            seen = self.stop(error)
            if seen:
                print(seen)

    def stop(self, error: BaseException | None = None) -> Any:
        """Stop, if a cell is being watched, and return what was found."""
        if self._seen is None:  # the extension was loaded in this very cell
            return ()
        seen, self._seen = self._seen, None
        self._block.__exit__(type(error) if error else None, error, None)
        return seen


def load(shell: Any) -> None:
    """Watch each cell from the next one on."""
    cells = Cells()
    shell.events.register("pre_run_cell", cells.before)
    shell.events.register("post_run_cell", cells.after)
    shell.user_ns_hidden["_pullback_cells"] = shell.user_ns["_pullback_cells"] = cells


def unload(shell: Any) -> None:
    """Watch no more."""
    cells = shell.user_ns.pop("_pullback_cells", None)
    if cells is not None:
        cells.stop()
        shell.events.unregister("pre_run_cell", cells.before)
        shell.events.unregister("post_run_cell", cells.after)
