"""Which entries a text holds: what an error says, or what somebody pastes.

``docs/_static/recognition.js`` does for the search of the site what :func:`found` does,
with the same expressions and the same patterns; ``tests/test_recognition.py`` holds them
to the same answers.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path

from pullback._messages import Message, entry_of, fields, needle, one_line, whole

# Expressions that mean the same to Python and to JavaScript.
ERROR = r"\b\w+(?:Error|Exception): "
EXPRESSIONS = {
    "error": ERROR,
    # A warning up to the error after it
    "warning": rf"\b\w*Warning: .*?(?=Traceback|{ERROR}|$)",
    # What stands before the code in a frame of a traceback: of Python, IPython, rich
    "frame": r"\bline \d+, in \S+|-{2,}> ?\d+\b|\u2771 *\d+\b",
    # What torchrun puts before each line
    "rank": r"\[rank\d+\]:",
}
BEGINNING = 8  # characters of a text that is in all that a pattern finds


def matches(text: str) -> Iterator[tuple[Message, re.Match[str]]]:
    """Yield each entry that ``text`` holds in one of its wordings, and where."""
    line = one_line(text)
    for message in _likely(line):
        if match := message.find_in_line(line):
            yield message, match


def found(text: str) -> Iterator[Message]:
    """Yield the entries for a pasted text, the likeliest first.

    A traceback may hold several errors, and warnings before them: the last error counts.
    Where nobody knows that one, an error before it may be its cause; a warning is not.

    Where it shows the line that raised, words of Python are held to that line, as
    :func:`pullback.hints` does.
    """
    text = one_line(text)
    last = re.split(EXPRESSIONS["error"], text)[-1]
    errors = re.sub(EXPRESSIONS["warning"], "", text)
    parts = (text.removesuffix(last), last), ("", errors)
    for before, part in dict.fromkeys(parts):
        for message, match in matches(part):
            if message.may_be_raised_by(_line_shown(before + part[: match.end()])):
                yield message


def lookup(text: str) -> Message | None:
    """Return the entry for a pasted text, a message in any of its wordings, or None."""
    return next(found(text), None)


def _likely(line: str) -> list[Message]:
    """Return, in their order, the entries of which a line may hold a wording.

    Few share so much with it; to look for each of the others takes far longer.
    """
    index = _index()
    there = {line[i : i + BEGINNING] for i in range(len(line) - BEGINNING + 1)}
    files = index[""].union(*(index[beginning] for beginning in there & index.keys()))
    return [entry_of(file) for file in sorted(files, key=lambda file: file.stem)]


@functools.cache
def _index() -> dict[str, set[Path]]:
    """Return the files of the entries by how what is in all that they find begins."""
    found: dict[str, set[Path]] = {"": set()}  # those of which little is sure
    for file, entry in fields("patterns"):
        for text in map(needle, map(whole, entry.get("patterns", ()))):
            beginning = text[:BEGINNING] if len(text) >= BEGINNING else ""
            found.setdefault(beginning, set()).add(file)
    return found


def _line_shown(text: str) -> str | None:
    """Return the line that raised, if a text that ends on the message shows one."""
    *frames, line = re.split(EXPRESSIONS["frame"], text)
    line = re.split(EXPRESSIONS["error"], line)[0]
    shown = frames and re.search(r"\w", re.sub(EXPRESSIONS["rank"], "", line))
    return line if shown else None
