"""Every message of autograd that people paste into a search box, an entry each.

An entry is a file ``messages/<theme>/<anchor>.md``; CONTRIBUTING.md tells its form. The
error index of the site and :func:`pullback.hints` are both made from the entries. They are
read when the first one is needed, which importing this module is not.
"""

from __future__ import annotations

import functools
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("messages")
NEEDED: dict[str, type] = {"name": str, "asked": list, "see": list, "source": list}
# which a trap that raises nothing has not
OF_A_MESSAGE: dict[str, type] = {"message": str, "kinds": list, "patterns": list}
OPTIONAL: dict[str, type] = {
    "words": str,
    "place": int,
    "older": list,
    "only_line": str,
    "only_from": str,
    "takes": str,
    "unknown": dict,
    "shapes": dict,
}
SECTIONS = {"Do this": "fix", "Which cause is yours?": "tell"}
DOCUMENTATION = re.compile(r"^Project-URL: documentation, (\S+)", re.I | re.M)
CODE = {"python broken": "broken", "python fixed": "fixed", "python check": "proof"}
FIELD = re.compile(r"^(\w+) = .*?(?=^\w+ = |\Z)", re.M | re.S)
GROUP = re.compile(r"\(\?P<(\w+)>")
PLACEHOLDER = re.compile(r"\{(\w+)\}")
SHORT = {  # what a pattern may say in the place of a long expression, inside a group
    # The name of a node of the graph, which need not be a name of Python:
    # MulBackward0, torch::autograd::CopySlices, CppNode<(anonymous namespace)::RoIAlign>
    "{node}": r"(?:struct )?\w[\w:.<>]*(?:\(anonymous namespace\)[\w:.<>]*)?",
    # The shape of a tensor; j1 stands in that of a nested one
    "{shape}": r"torch\.Size\(\[[\dj, ]*\]\)|\[[\dj, ]*\]",
}


@dataclass(frozen=True, kw_only=True)
class Message:
    """One error message or warning of autograd, or one trap that says nothing.

    Attributes:
        anchor: Name of its file and of its page, ``errors/<anchor>.html``; the label of
            the page is ``error-<anchor>``.
        theme: Name of its folder: the part of the error index that lists it.
        name: What it means, in plain words, the heading of the page; of a silent trap,
            what it does.
        asked: Other words under which the search of the site is to find its page.
        words: What its asker would say and the entry does not; only the search sees them.
        place: Where the list of its theme has it; those without a number come last.
        message: The recognisable beginning of the message; empty for a silent trap.
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
        takes: What it takes to raise it, where ``broken`` is empty.
        fixed: The same task done right, to be copied; it prints its result.
        proof: Assertions that run after ``fixed``: that it does what it is to do.
        see: Labels of pages that tell more.
        source: Threads where people met it, or the file of torch that raises it.
    """

    anchor: str
    theme: str
    name: str
    asked: tuple[str, ...]
    why: str
    fix: str
    see: tuple[str, ...]
    source: tuple[str, ...]
    words: str = ""
    place: int | None = None
    message: str = ""
    kinds: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    older: tuple[str, ...] = ()
    tell: tuple[str, ...] = ()
    unknown: Mapping[str, str] = field(default_factory=dict)
    shapes: Mapping[str, str] = field(default_factory=dict)
    only_from: str = ""
    only_line: str = ""
    broken: str = ""
    takes: str = "a GPU, several processes, another library or an old release"
    fixed: str = ""
    proof: str = ""

    @property
    def file(self) -> Path:
        """Where it is written."""
        return FOLDER / self.theme / f"{self.anchor}.md"

    @property
    def page(self) -> str:
        """Path of the page below the root of the site."""
        return f"errors/{self.anchor}.html"

    @property
    def title(self) -> str:
        """What it is recognised by: the message, or what the trap does."""
        return self.message or self.name

    @property
    def told(self) -> tuple[str, ...]:
        """The groups of ``fix`` that the message tells, in their order."""
        groups = dict.fromkeys(PLACEHOLDER.findall(self.fix))
        return tuple(name for name in groups if name not in self.shapes)

    @property
    def silent(self) -> bool:
        """Whether it is a trap that raises nothing."""
        return not self.patterns

    def find(self, text: str) -> re.Match[str] | None:
        """Return where ``text`` contains the message in any of its wordings."""
        return self.find_in_line(one_line(text))

    def find_in_line(self, line: str) -> re.Match[str] | None:
        """Return the same for a text that has been joined to one line."""
        for pattern in self.patterns:
            # Most patterns are not in most texts; compiling one takes longer than this.
            if needle(pattern) in line and (match := self._compiled(pattern).search(line)):
                return match
        return None

    def may_be_raised_by(self, line: str | None) -> bool:
        """Return whether a line of code may raise it; None for a line that is not known."""
        return line is None or self._compiled(self.only_line).search(line) is not None

    def _compiled(self, pattern: str) -> re.Pattern[str]:
        try:
            return _compiled(pattern)
        except re.error as error:
            raise ValueError(f"{self.file}: the pattern {pattern!r}: {error}") from error

    def check(self) -> None:
        """Compile every pattern, which is else done when one is needed.

        Raises:
            ValueError: one does not compile; the text names the file.
        """
        for pattern in (*self.patterns, self.only_line):
            self._compiled(pattern)

    def advice(self, values: Mapping[str, str | None]) -> str:
        """Return ``fix`` filled in with ``values``, and ``unknown`` for the others."""
        known = {name: _plain(value) for name, value in values.items() if value}
        filled = {**self.unknown, **known}
        # a wording that lacks a value gets a gap and no error
        return PLACEHOLDER.sub(lambda name: filled.get(name[1], "…"), self.fix)


def in_text(advice: str) -> Iterator[str]:
    """Yield the paragraphs of an advice, each row of a table as ``- have: write``."""
    for paragraph in advice.split("\n\n"):
        if not paragraph.startswith(("|", "- ")):
            yield paragraph
            continue
        for line in paragraph.splitlines():
            cells = [c.strip() for c in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
            if line.startswith("- "):
                yield line
            elif set("".join(cells)) - set("-: ") and cells != ["you have", "write"]:
                yield f"- {': '.join(cells)}".replace("\\|", "|")


@functools.cache
def messages() -> tuple[Message, ...]:
    """Return all entries in the order of their anchors.

    Raises:
        ValueError: a file is not in the form of an entry; the text names it.
    """
    found: dict[str, Message] = {}
    for file in FOLDER.glob("*/*.md"):
        message = entry_of(file)
        if message.anchor in found:
            raise ValueError(f"{file}: {found[message.anchor].file} has this name, too")
        found[message.anchor] = message
    return tuple(found[anchor] for anchor in sorted(found))


def themes() -> dict[str, tuple[Message, ...]]:
    """Return the entries of each theme in the order of their places."""
    found: dict[str, list[Message]] = {}
    for message in messages():
        found.setdefault(message.theme, []).append(message)
    last = float("inf")
    return {
        theme: tuple(sorted(of, key=lambda m: last if m.place is None else m.place))
        for theme, of in sorted(found.items())
    }


def read(file: Path) -> Message:
    """Return the entry that is written in a file.

    Raises:
        ValueError: it is not in the form of an entry; the text names the file.
    """
    try:
        message = Message(
            anchor=file.stem, theme=file.parent.name, **_fields(file.read_text("utf-8"))
        )
        _check_placeholders(message)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error
    return message


#: The entry of a file, which is read once: whoever meets an entry twice meets one object.
entry_of = functools.cache(read)


def fields(*names: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield each file of an entry with some of its fields.

    To read those alone takes a third of the time, which a command line waits for.
    """
    for file in FOLDER.glob("*/*.md"):
        table = file.read_text("utf-8").split("+++\n", 2)[1].partition("\n[")[0]
        some = (found[0] for found in FIELD.finditer(table) if found[1] in names)
        yield file, tomllib.loads("".join(some))


def one_line(text: str) -> str:
    """Join the lines of a text: a message may have been wrapped by a terminal."""
    return " ".join(text.split())


def _fields(text: str) -> dict[str, Any]:
    """Return the fields of an entry, its table and what stands below it."""
    parts = text.split("+++\n", 2)
    if len(parts) < 3 or parts[0]:
        raise ValueError("an entry begins with its fields, between two lines of `+++`")
    return _table(tomllib.loads(parts[1])) | _body(parts[2])


def _table(table: dict[str, Any]) -> dict[str, Any]:
    trap = not OF_A_MESSAGE.keys() & table.keys()
    needed = NEEDED if trap else NEEDED | OF_A_MESSAGE
    known = needed | OPTIONAL
    if unknown := table.keys() - known.keys():
        raise ValueError(f"unknown field: {', '.join(sorted(unknown))}")
    if missing := [name for name in needed if not table.get(name)]:
        raise ValueError(f"missing or empty field: {', '.join(missing)}")
    for name, value in table.items():
        kind = known[name]
        if type(value) is not kind:
            raise ValueError(f"the field {name} is to be a {kind.__name__}")
        parts: list[Any] = [*value.values()] if isinstance(value, dict) else []
        parts = value if isinstance(value, list) else parts
        if not all(isinstance(part, str) for part in parts):
            raise ValueError(f"the field {name} is to hold text")
    found = {n: tuple(v) if isinstance(v, list) else v for n, v in table.items()}
    if not trap:
        found["patterns"] = tuple(map(whole, found["patterns"]))
    return found


def whole(pattern: str) -> str:
    """Return a pattern with its short forms written out."""
    for short, long in SHORT.items():
        pattern = pattern.replace(short, long)
    return pattern


def _body(body: str) -> dict[str, Any]:
    prose, *blocks = body.split("\n```")
    why, *sections = prose.split("\n## ")
    found: dict[str, Any] = {"why": _paragraphs(why)}
    for heading, _, text in (section.partition("\n") for section in sections):
        name = SECTIONS.get(heading)
        if name is None or name in found:
            raise ValueError(f"a heading is one of {[*SECTIONS]}, once: {heading!r}")
        found[name] = tuple(_items(text)) if name == "tell" else _paragraphs(text)
    for name, where in (("why", "the fields"), ("fix", "`## Do this`")):
        if not found.get(name):
            raise ValueError(f"text below {where} is missing")
    if len(blocks) % 2 or any(after.strip() for after in blocks[1::2]):
        raise ValueError("code stands at the end, each block between lines of three `")
    for kind, _, code in (block.partition("\n") for block in blocks[::2]):
        name = CODE.get(kind)
        if name is None or name in found:
            raise ValueError(f"a block of code is one of {[*CODE]}, once: {kind!r}")
        found[name] = code
    if "proof" in found and "fixed" not in found:
        raise ValueError("a check stands behind the code that it checks")
    return found


def _paragraphs(text: str) -> str:
    """Join the lines of each paragraph; those of a table or a list stay."""
    parts = text.strip().split("\n\n")
    return "\n\n".join(p if p.startswith(("|", "- ")) else one_line(p) for p in parts)


def _items(text: str) -> Iterator[str]:
    first, *items = f"\n{text}".split("\n- ")
    if first.strip() or not items:
        raise ValueError(f"each cause begins with `- `: {first.strip()!r}")
    return map(one_line, items)


def _check_placeholders(message: Message) -> None:
    used = set(PLACEHOLDER.findall(message.fix))
    groups = {name for pattern in message.patterns for name in GROUP.findall(pattern)}
    if unknown := used - groups - message.shapes.keys():
        raise ValueError(f"no pattern has a group for {{{'}, {'.join(sorted(unknown))}}}")
    if unused := message.unknown.keys() - used:
        raise ValueError(f"[unknown] is not used: {', '.join(sorted(unused))}")


@functools.cache  # re itself keeps 512, fewer than there are
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


@functools.cache
def needle(pattern: str) -> str:
    """Return a text that is in whatever ``pattern`` is found in; empty if none is sure.

    It is the longest run of characters outside of groups, classes and repetitions.
    """
    escaped = re.sub(r"\\(\W)", lambda c: chr(0xE000 + ord(c[1])), pattern)  # set aside
    bare = re.sub(r"\\\w|\[[^]]*\]", "\0", escaped)
    while "(" in bare:
        bare = re.sub(r"\([^()]*\)", "\0", bare)
    if "|" in bare:
        return ""
    bare = re.sub(r"(?:.[?*]|.\{[^}]*\}|[+.^$])\??", "\0", bare)
    longest = max(bare.split("\0"), key=len)
    return re.sub(r"[\ue000-\ue07f]", lambda c: chr(ord(c[0]) - 0xE000), longest)


def _plain(value: str) -> str:
    """Return ``torch.Size([2, 3])`` and ``[2, 3]`` as ``(2, 3)``."""
    shape = re.fullmatch(r"(?:torch\.Size\()?\[([\dj, ]*)\]\)?", value)
    if shape is None:
        return value
    sizes = [size.strip() for size in shape[1].split(",") if size.strip()]
    return f"({sizes[0]},)" if len(sizes) == 1 else f"({', '.join(sizes)})"


def more(anchor: str) -> str:
    """Return where an entry is to be read: its page, or the command that prints it."""
    site = address()
    return f"{site}errors/{anchor}.html" if site else f"python -m pullback explain {anchor}"


@functools.cache
def address() -> str:
    """Return the address of the documentation that the package names, with a slash.

    Read by hand: ``importlib.metadata`` takes as long to import as all entries to read.
    """
    for folder in sys.path:
        for file in Path(folder).glob("pullback-*.dist-info/METADATA"):
            found = DOCUMENTATION.search(file.read_text("utf-8"))
            return f"{found[1].rstrip('/')}/" if found else ""
    return ""
