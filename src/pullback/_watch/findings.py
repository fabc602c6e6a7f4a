"""What was found, and where: what :func:`pullback.watch` gives."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, overload

from pullback._site import Site as Site

WIDTH = 88
LISTED = 8  # parameters that are named in one finding


class Note(NamedTuple):
    """Another line that has to do with a finding, and how.

    Attributes:
        label: Its part: ``"saved"``, ``"edited"``, ``"became NaN"``.
        site: The line; None where it is not known.
        text: What happened there.
    """

    label: str
    site: Site | None
    text: str

    def __str__(self) -> str:
        return f"{self.text}, {self.site.quoted}" if self.site else self.text


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that is wrong in a program.

    Attributes:
        rule: Name of the rule that found it, which ``watch(without=...)`` turns off.
        site: The line that it is about; None where that is not known.
        message: What happens there, in a sentence or two.
        notes: Other lines that have to do with it.
        fix: What to do about it.
        page: The entry of the error index that tells more.
    """

    rule: str
    site: Site | None
    message: str
    fix: str
    page: str
    notes: tuple[Note, ...] = ()

    @property
    def address(self) -> str:
        """The page on the site that tells more, or the command that prints it."""
        from pullback._messages import more

        return more(self.page)

    @property
    def brief(self) -> str:
        """What is wrong, and on the next line where, if that is known."""
        return f"{self.message}\n    {self.site.quoted}" if self.site else self.message

    def __str__(self) -> str:
        where = f"{self.site}: " if self.site else ""
        lines = [_fill(f"{where}{self.message}", "", "")]
        if self.site and self.site.code:
            lines.append(f"    {self.site.code}")
        labelled = [(f"{note.label}:", str(note)) for note in self.notes]
        labelled += [("fix:", self.fix), ("more:", self.address)]
        labelled += [("rule:", self.rule)]
        width = max(len(label) for label, _ in labelled) + 1
        lines += [
            _fill(text, f"  {label:{width}}", " " * (width + 2)) for label, text in labelled
        ]
        return "\n".join(lines)


class Findings(Sequence[Finding]):
    """What a watched block or program has shown so far, in the order of its discovery.

    It is a sequence of :class:`Finding`, and prints as a text that names lines.

    Attributes:
        watched: How many operations and backward passes were seen; empty until the block
            has ended.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[str, Site | None, str], Finding] = {}
        self._why: dict[str, str] = {}
        self._unseen: list[str] = []
        self._unchecked: list[str] = []
        self._caught: list[Finding] = []
        self.watched = ""

    @overload
    def __getitem__(self, at: int) -> Finding: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Finding]: ...
    def __getitem__(self, at: int | slice) -> Finding | Sequence[Finding]:
        return tuple(self._found.values())[at]

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[Finding]:
        return iter(tuple(self._found.values()))

    @property
    def unseen(self) -> tuple[str, ...]:
        """What happened out of sight, such as code that was run compiled before."""
        return tuple(self._unseen)

    @property
    def caught(self) -> tuple[Finding, ...]:
        """What is known of errors of backward that the program itself has caught."""
        told = {finding.site or finding.rule for finding in self}
        return tuple(f for f in self._caught if (f.site or f.rule) not in told)

    @property
    def unchecked(self) -> tuple[str, ...]:
        """The custom Functions whose backward was not compared with differences."""
        return tuple(self._unchecked)

    def why(self, name: str) -> str:
        """Return why a parameter got no gradient, or that it got one.

        Args:
            name: Its name in the module, such as ``"encoder.weight"``, or that of the
                variable that holds it. Known when the block has ended.

        Raises:
            KeyError: No tensor of that name was used or belongs to a module that ran.
        """
        if name not in self._why:
            raise KeyError(f"{name!r} is none of {', '.join(sorted(self._why)) or 'none'}")
        return self._why[name]

    def add(self, finding: Finding) -> None:
        """Keep a finding, once for each line and page."""
        self._found.setdefault((finding.rule, finding.site, finding.page), finding)

    def explain(self, name: str, reason: str) -> None:
        """Keep why a parameter got no gradient."""
        self._why[name] = reason

    def not_compared(self, name: str, site: Site | None, why: str = "") -> None:
        """Keep that the backward of a custom Function was not compared."""
        reason = f" ({why})" if why else ""
        self._unchecked.append(f"the backward of {name}, {site}{reason}")

    def raised(self, finding: Finding, site: Site) -> None:
        """Keep what is known of an error of backward, which the program may catch."""
        caught = Note("caught", site, "backward raised, and the program caught the error")
        self._caught.append(replace(finding, notes=(*finding.notes, caught)))

    def missed(self, what: str) -> None:
        """Keep that something was not seen."""
        if what not in self._unseen:
            self._unseen.append(what)

    def __repr__(self) -> str:
        found = [str(finding) for finding in self]
        head = f"pullback.watch: {counted(len(found), 'finding')}"
        found += [f"Caught by the program, and no finding:\n{f}" for f in self.caught]
        unseen = [_fill(text, "not seen: ", " " * 10) for text in self._unseen]
        return "\n\n".join([head, *found, *unseen])


def counted(number: int, what: str) -> str:
    """Return a number of things in words: ``"1 finding"``, ``"2,000 findings"``."""
    plural = "" if number == 1 else "es" if what.endswith("s") else "s"
    return f"{number:,} {what}{plural}"


def listed(names: list[str]) -> str:
    """Return names in a row, of very many only the first."""
    if len(names) <= LISTED:
        return ", ".join(names)
    shown = LISTED // 2
    return f"{', '.join(names[:shown])} and {len(names) - shown} more parameters"


def _fill(text: str, first: str, others: str) -> str:
    return textwrap.fill(
        text,
        width=WIDTH,
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    )
