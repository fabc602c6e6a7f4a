"""The rules: functions that look at the log at their moments, and how they are found.

A rule yields findings. Its name is what ``watch(without=...)`` turns off; a silent trap's
rule has the name of its page in the error index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

from pullback._watch.findings import Finding, Note, Site
from pullback._watch.log import Call, Log, Moment

Found = Iterable[Finding]
F = TypeVar("F", bound=Callable[..., Found])


class Rule(NamedTuple):
    """A rule.

    Attributes:
        name: What turns it off.
        look: What finds.
        strict: Whether it is about what correct programs do on purpose, and looks only
            when asked for.
        ops: The operations after which it looks; none: after all.
        run: Of these, ``"forward"``, ``"backward"`` or, in the backward of a custom
            Function, ``"function"`` alone; nothing: all.
    """

    name: str
    look: Callable[..., Found]
    strict: bool
    ops: frozenset[str]
    run: str = ""


#: After an operation; when a backward pass begins and ends; before an optimizer's step; at
#: the end of the block.
AFTER: list[Rule] = []
BEGIN: list[Rule] = []
DONE: list[Rule] = []
STEP: list[Rule] = []
END: list[Rule] = []


def after(
    name: str, *ops: str, strict: bool = False, run: str = ""
) -> Callable[[Callable[[Log, Moment], Found]], Callable[[Log, Moment], Found]]:
    """Make a function a rule that looks after some operations, or after all."""
    return _join(AFTER, name, strict, ops, run)


def at_begin(
    name: str, *, strict: bool = False
) -> Callable[[Callable[[Log, Call], Found]], Callable[[Log, Call], Found]]:
    """Make a function a rule that looks when a backward pass begins."""
    return _join(BEGIN, name, strict)


def when_done(
    name: str,
) -> Callable[[Callable[[Log, Call], Found]], Callable[[Log, Call], Found]]:
    """Make a function a rule that looks when a backward pass has ended."""
    return _join(DONE, name)


def at_step(
    name: str,
) -> Callable[
    [Callable[[Log, Any, Site | None], Found]], Callable[[Log, Any, Site | None], Found]
]:
    """Make a function a rule that looks before an optimizer makes a step."""
    return _join(STEP, name)


def at_end(name: str) -> Callable[[Callable[[Log], Found]], Callable[[Log], Found]]:
    """Make a function a rule that looks when the block has ended."""
    return _join(END, name)


def _join(
    rules: list[Rule],
    name: str,
    strict: bool = False,
    ops: tuple[str, ...] = (),
    run: str = "",
) -> Callable[[F], F]:
    def add(look: F) -> F:
        rules.append(Rule(name, look, strict, frozenset(ops), run))
        return look

    return add


def trap(page: str, site: Site | None, message: str, fix: str, *notes: Note) -> Finding:
    """Return the finding of a rule that has the name of its page."""
    return Finding(
        rule=page, site=site, message=message, fix=fix, page=page, notes=tuple(notes)
    )


def names(strict: bool = False) -> list[str]:
    """Return the names of all rules, or of those that look only when asked for."""
    found = [rule for rules in (AFTER, BEGIN, DONE, STEP, END) for rule in rules]
    return sorted({rule.name for rule in found if rule.strict or not strict})
