"""What is kept about one message: how to know it, why it comes, what to do."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from inspect import cleandoc

# The name of a node of the graph, which need not be a name of Python:
# MulBackward0, torch::autograd::CopySlices, CppNode<(anonymous namespace)::RoIAlign>
NODE = r"(?:struct )?\w[\w:.<>]*(?:\(anonymous namespace\)[\w:.<>]*)?"
# The shape of a tensor; j1 stands in that of a nested one
SIZE = r"torch\.Size\(\[[\dj, ]*\]\)|\[[\dj, ]*\]"


@functools.cache  # re itself keeps 512, fewer than there are
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


@dataclass(frozen=True, kw_only=True)
class Message:
    """One error message or warning of autograd, or one trap that says nothing.

    Text may be written over several indented lines; it is kept without them.

    Attributes:
        anchor: Name of its page, ``errors/<anchor>.html``; its label is
            ``error-<anchor>``.
        title: The recognisable beginning of the message; of a silent trap, what it does.
        why: What autograd was asked to do and why it cannot.
        fix: What to do, with ``{group}`` where the message tells the reader's values.
        kinds: Names of the classes of the exception or warning; none for a silent trap.
        patterns: Regular expressions of which one is found in every wording of the
            message, whatever shapes, dtypes and names it carries. Their named groups
            may be used in ``fix``.
        older: Earlier wordings, as people still paste them.
        tell: One line for each possible cause: the sign, and what it calls for.
        unknown: What stands in ``fix`` for a group that a wording does not carry.
        shapes: Groups that are the shape of a variable of the function that raises,
            for messages that leave the shape out: ``{group: variable}``.
        only_from: The function of torch that raises it, for words that other code
            could raise as well.
        only_line: Regular expression found in the line of the reader's code that raises
            it, for words that Python itself raises.
        broken: Code that raises the message; empty where that takes a GPU, several
            processes, another library or an old release.
        fixed: The same task done right; it ends on a check and prints its result.
        see: Labels of pages that tell more.
        source: Threads where people met it, or the file of torch that raises it.
    """

    anchor: str
    title: str
    why: str
    fix: str
    kinds: tuple[str, ...] = ("RuntimeError",)
    patterns: tuple[str, ...] = ()
    older: tuple[str, ...] = ()
    tell: tuple[str, ...] = ()
    unknown: Mapping[str, str] = field(default_factory=dict)
    shapes: Mapping[str, str] = field(default_factory=dict)
    only_from: str = ""
    only_line: str = ""
    broken: str = ""
    fixed: str = ""
    see: tuple[str, ...] = ()
    source: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("why", "fix"):
            object.__setattr__(self, name, " ".join(getattr(self, name).split()))
        for name in ("broken", "fixed"):
            object.__setattr__(self, name, cleandoc(getattr(self, name)))

    @property
    def page(self) -> str:
        """Path of the page below the root of the site."""
        return f"errors/{self.anchor}.html"

    @property
    def silent(self) -> bool:
        """Whether it is a trap that raises nothing."""
        return not self.patterns

    def find(self, text: str) -> re.Match[str] | None:
        """Return where ``text`` contains the message in any of its wordings."""
        # A pasted message may have been wrapped by a terminal.
        flat = " ".join(text.split())
        found = (_compiled(pattern).search(flat) for pattern in self.patterns)
        return next((match for match in found if match), None)

    def advice(self, values: Mapping[str, str | None]) -> str:
        """Return ``fix`` filled in with ``values``, and ``unknown`` for the others."""
        known = {name: _plain(value) for name, value in values.items() if value}
        return self.fix.format_map(_Values({**self.unknown, **known}))


@dataclass(frozen=True)
class Theme:
    """Messages that belong together, under one heading of the error index."""

    name: str
    messages: tuple[Message, ...]


def trap(**what: object) -> Message:
    """Return an entry that has no message."""
    return Message(kinds=(), **what)  # type: ignore[arg-type]


class _Values(dict[str, str]):
    """Values to fill in; a wording that lacks one gets a gap and no error."""

    def __missing__(self, name: str) -> str:
        return "…"


def _plain(value: str) -> str:
    """Return ``torch.Size([2, 3])`` and ``[2, 3]`` as ``(2, 3)``."""
    shape = re.fullmatch(r"(?:torch\.Size\()?\[([\dj, ]*)\]\)?", value)
    if shape is None:
        return value
    sizes = [size.strip() for size in shape[1].split(",") if size.strip()]
    return f"({sizes[0]},)" if len(sizes) == 1 else f"({', '.join(sizes)})"
