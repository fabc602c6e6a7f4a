"""A line of source: where something was found, or where a tensor is held."""

from __future__ import annotations

import functools
import linecache
import os
from typing import NamedTuple

from pullback._torch import part_of_torch

PACKAGE = os.path.join(os.path.dirname(__file__), "")


@functools.lru_cache(maxsize=4096)
def is_own_file(path: str) -> bool:
    """Tell whether lines are somebody's own: not torch's, this package's or Python's."""
    return not (part_of_torch(path) or path.startswith((PACKAGE, "<frozen")))


class Site(NamedTuple):
    """A line of source, printed as ``path:line`` so that editors can jump there."""

    path: str
    line: int

    @property
    def code(self) -> str:
        """What stands on the line."""
        return linecache.getline(self.path, self.line).strip()

    @property
    def quoted(self) -> str:
        """The place, and what stands there."""
        return f"{self}: {self.code}" if self.code else str(self)

    def __str__(self) -> str:
        inside = self.path.startswith(os.getcwd() + os.sep)
        path = os.path.relpath(self.path) if inside else self.path
        return f"{path}:{self.line}"
