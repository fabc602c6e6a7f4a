"""What several blocks of a program need at once, whichever of them ends first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Generic, TypeVar

Given = TypeVar("Given")


class Shared(Generic[Given]):
    """What the first block puts in place, and the last one to end takes away.

    Attributes:
        given: What each of the open blocks has given, such as whom to tell.
    """

    def __init__(self, put: Callable[[], AbstractContextManager[object]]) -> None:
        self._put, self._stack = put, ExitStack()
        self.given: list[Given] = []

    @contextmanager
    def block(self, given: Given) -> Iterator[None]:
        """Open a block."""
        if not self.given:
            self._stack.enter_context(self._put())
        self.given.append(given)
        try:
            yield
        finally:
            self.given.remove(given)
            if not self.given:
                self._stack.close()
