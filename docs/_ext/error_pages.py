"""The text of a page for each message of autograd, with what torch says today.

What the two pieces of code of a message raise and print was stored when they ran
(:mod:`pages`); here it is put beside the cause and the fix. A wording that the entry no
longer recognises is an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from markdown_it import MarkdownIt

from pages import Store, pieces
from pullback._messages import Message, in_text, messages
from pullback._recognition import EXPRESSIONS
from runner import Shown

THREADS = {  # the name of each forum, and the address of a thread
    "PT": ("pytorch/pytorch#{}", "https://github.com/pytorch/pytorch/issues/{}"),
    "FT": ("pytorch/functorch#{}", "https://github.com/pytorch/functorch/issues/{}"),
    "TUT": ("pytorch/tutorials#{}", "https://github.com/pytorch/tutorials/issues/{}"),
    "JAX": ("jax-ml/jax#{}", "https://github.com/jax-ml/jax/issues/{}"),
    "SO": ("Stack Overflow, question {}", "https://stackoverflow.com/questions/{}"),
    "PF": ("PyTorch forum, topic {}", "https://discuss.pytorch.org/t/{}"),
}


Pieces = Mapping[str, Shown]  # what ``broken`` and ``fixed`` showed, if they ran


def stored(store: Store) -> dict[str, dict[str, Shown]]:
    """Return what is known of the pieces of code of each message."""
    found: dict[str, dict[str, Shown]] = {}
    for piece in pieces(store.root):
        if result := store.fresh(piece):
            found.setdefault(piece.anchor, {})[piece.kind] = result["shown"][0]
    return found


def raised_by(message: Message, pieces: Pieces) -> tuple[str, str]:
    """Return the class and the text that the code of a message has raised.

    Raises:
        AssertionError: it raised nothing that the table recognises as this message.
    """
    texts = pieces["broken"].get("raised", [])
    found = [(kind, text) for kind, text in texts if message.find(text)]
    assert found, f"the reproducer raised {texts or 'nothing'}"
    assert found[0][0] in message.kinds, f"raised as {found[0][0]}"
    return found[0]


def printed(piece: Shown) -> str:
    """Return what code that is to pass has printed.

    Raises:
        AssertionError: it raised or warned.
    """
    texts = piece.get("raised", [])
    assert not texts, f"code that should pass raised {texts}"
    return piece.get("stdout", "").rstrip()


def page_of(message: Message, pieces: Pieces) -> str:
    """Return the whole page of one message as MyST Markdown.

    Raises:
        AssertionError: what its code shows is not what the entry says.
    """
    lines = [
        "---",
        "myst:",
        "  html_meta:",
        f"    description: {json.dumps(message.why, ensure_ascii=False)}",
        "---",
        f"(error-{message.anchor})=",
        f"# {_title(message)}",
        "",
        *_what_you_see(message, pieces),
        message.why,
        "",
        "## Do this",
        "",
    ]
    values: dict[str, str | None] = {}
    if "broken" in pieces and not message.silent:
        match = message.find(raised_by(message, pieces)[1])
        values = match.groupdict() if match else {}
    lines += [message.advice(values), ""]
    if message.fixed:
        piece = pieces.get("fixed")
        lines += _code(message.fixed, piece and printed(piece))
    if message.tell:
        lines += ["## Which cause is yours?", ""]
        lines += [*(f"- {line}" for line in message.tell), ""]
    if message.broken:
        piece = pieces.get("broken")
        if message.silent:
            title, text = "A program in which it happens", piece and printed(piece)
        else:
            title = "The code that raises it here"
            text = ": ".join(raised_by(message, pieces)) if piece else None
        lines += _folded(title, _code(message.broken, text))
    if message.older:
        wordings = [line for wording in message.older for line in _text(wording)]
        lines += _folded("The same in other words, or in other releases", wordings)
    lines += ["## More", ""]
    lines += [f"- {{ref}}`{label}`" for label in message.see]
    lines += [f"- {_link(source)}" for source in message.source]
    lines += ["- {ref}`All messages <errors>`", ""]
    return "\n".join(lines)


def _what_you_see(message: Message, pieces: Pieces) -> list[str]:
    """Return what the reader has before them: the first line, or that there is none."""
    if message.silent:
        return ["PyTorch raises no error here, and gives no warning.", ""]
    if not message.broken:
        return [
            *_text(f"{message.kinds[0]}: {message.title}"),
            f"Not reproduced here: it takes {message.takes}. The text is that of the "
            "sources named below.",
            "",
        ]
    if "broken" not in pieces:
        return []
    kind, text = raised_by(message, pieces)
    return _text(f"{kind}: {shortened(text)}")


#: Characters of a message above the fix; the whole of it stands with the code.
SHOWN = 300


def shortened(text: str) -> str:
    """Return the lines of a message up to some length, which may end within one."""
    return text if len(text) <= SHOWN else f"{text[:SHOWN].rsplit(' ', 1)[0]} …"


def _folded(title: str, lines: list[str]) -> list[str]:
    return [f"::::{{dropdown}} {title}", *lines, "::::", ""]


def _code(code: str, shown: str | None) -> list[str]:
    """Return code and what it shows, if it ran."""
    return ["```python", code, "```", "", *(_text(shown) if shown is not None else [])]


def _text(text: str) -> list[str]:
    """Return a block that wraps: messages are long."""
    return ["```{code-block} text", ":class: message", "", steady(text), "```", ""]


#: Files whose calls stand around each piece of code: the runner, and what forks it.
AROUND = re.compile(r"\S*/(_ext/runner|multiprocessing/\w+)\.py\(")


def steady(text: str) -> str:
    """Return a message without what only this run and this machine have.

    These are addresses in memory, the folders that torch and the code are in, and the calls
    around the code.
    """
    lines = (line for line in text.splitlines() if not AROUND.match(line))
    text = re.sub(r"[^\s\"'(]*/(site-packages|errors/[\w-]+)/", "", "\n".join(lines))
    return re.sub(r"\b0x[0-9a-f]{6,}", "0x…", text.rstrip("\n"))


def _title(message: Message) -> str:
    """Return the heading: the name as a sentence."""
    return re.sub(r"([_*\[\]<>])", r"\\\1", message.name)


def _link(source: str) -> str:
    """Return a thread as a link, a file as it stands."""
    if match := re.fullmatch(r"(PT|FT|TUT|JAX)#(\d+)|(SO|PF)/(\d+)", source):
        forum, number = match[1] or match[3], match[2] or match[4]
        name, address = (part.format(number) for part in THREADS[forum])
        return f"[{name}]({address})"
    if match := re.fullmatch(r"([\w.-]+/[\w.-]+)#(\d+)", source):
        return f"[{source}](https://github.com/{match[1]}/issues/{match[2]})"
    return f"`{source}`" if source.startswith(("torch/", "aten/")) else source


def for_search() -> dict[str, Any]:
    """Return what the search recognises a pasted message by (``search_index.py``)."""
    pages = {
        f"errors/{m.anchor}": {
            "line": m.only_line,
            "messages": m.patterns,
            "asked": m.asked,
            "words": m.words,
            "card": card(m),
            "lead": lead(m),
        }
        for m in messages()
        if m.patterns or m.asked
    }
    return {"expressions": EXPRESSIONS, "pages": pages}


inline = MarkdownIt("commonmark").enable("table")


def card(message: Message) -> dict[str, Any]:
    """Return what the search shows of a message that somebody pasted.

    ``html`` is the fix, with ``{group}`` where the message tells a value; ``unknown`` is
    what stands there if it does not; ``works`` is code; ``why`` is the cause, which comes
    last: whoever pastes a message wants to be rid of it first.
    """
    unknown = {name: inline.renderInline(said) for name, said in message.unknown.items()}
    html, why = inline.render(message.fix), inline.render(message.why)
    return {"html": html, "unknown": unknown, "works": message.fixed, "why": why}


def lead(message: Message) -> str:
    """Return the fix as a list of answers shows it: plain text, without what has a gap."""
    advice = in_text(message.advice({}))
    parts = [" ".join(part.removeprefix("- ").split()) for part in advice]
    told = [part for part in parts if "…" not in part] or parts
    tokens = (inline.parseInline(part)[0].children or () for part in told)
    return " · ".join("".join(token.content for token in line) for line in tokens)
