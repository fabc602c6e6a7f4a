"""Write a page for each message of autograd, with what torch says today.

``python error_pages.py FOLDER ANCHOR...`` runs the reproducers of these messages and puts
what each raises on its page, beside the cause and the fix. A wording that the entry no
longer recognises is reported, and so is what the search of the site is to know of all.
"""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import gc
import io
import json
import multiprocessing
import os
import re
import sys
import warnings
from collections.abc import Container, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch

from pullback._inputs import untouched
from pullback._messages import Message, messages
from pullback._recognition import EXPRESSIONS

THREADS = {  # the name of each forum, and the address of a thread
    "PT": ("pytorch/pytorch#{}", "https://github.com/pytorch/pytorch/issues/{}"),
    "FT": ("pytorch/functorch#{}", "https://github.com/pytorch/functorch/issues/{}"),
    "TUT": ("pytorch/tutorials#{}", "https://github.com/pytorch/tutorials/issues/{}"),
    "JAX": ("jax-ml/jax#{}", "https://github.com/jax-ml/jax/issues/{}"),
    "SO": ("Stack Overflow, question {}", "https://stackoverflow.com/questions/{}"),
    "PF": ("PyTorch forum, topic {}", "https://discuss.pytorch.org/t/{}"),
}


class Raised(NamedTuple):
    """What one piece of code printed, and the errors and warnings that left it."""

    printed: str
    texts: tuple[tuple[str, str], ...]


def write_pages(folder: Path, anchors: Container[str]) -> dict[str, str]:
    """Write these pages; return what was wrong with those that could not be."""
    wrong = {}
    for message in (message for message in messages() if message.anchor in anchors):
        try:
            text = page_of(message)
        except AssertionError as error:
            wrong[message.anchor] = str(error)
        else:
            (folder / f"{message.anchor}.md").write_text(text, encoding="utf-8")
    return wrong


@functools.cache
def run(code: str, name: str) -> Raised:
    """Run ``code`` as a script of its own."""
    if "torch.distributed" not in code:
        return _run_here(code, name)
    # Its threads outlive it; they would hang this process when it forks or collects.
    forks = "forkserver" in multiprocessing.get_all_start_methods()  # not on Windows
    server: Any = multiprocessing.get_context("forkserver" if forks else "spawn")
    server.set_forkserver_preload(["error_pages", "torch.distributed.fsdp"])
    receiver, sender = server.Pipe(duplex=False)
    child = server.Process(target=_run_there, args=(code, name, sender))
    child.start()
    sender.close()
    if not receiver.poll(120):
        child.kill()
        raise TimeoutError(f"{name}: the reproducer took more than 120 s")
    try:
        return cast("Raised", receiver.recv())
    except EOFError:
        child.join()
        died = f"{name}: the reproducer's process ended with {child.exitcode}"
        raise ChildProcessError(died) from None


def _run_there(code: str, name: str, sender: Connection) -> None:
    gc.disable()
    sender.send(_run_here(code, name))
    os._exit(0)  # without waiting for the threads


def _run_here(code: str, name: str) -> Raised:
    printed, texts = io.StringIO(), []
    if compiler := sys.modules.get("torch._dynamo"):
        compiler.reset()  # what others compiled would be used again, up to a limit
    with always_warning() as caught, untouched(), contextlib.redirect_stdout(printed):
        try:
            exec(compile(code, f"<{name}>", "exec"), {"__name__": "__main__"})
        except Exception as error:
            texts.append((type(error).__name__, str(error)))
    texts += [(warning.category.__name__, str(warning.message)) for warning in caught]
    return Raised(printed.getvalue().rstrip(), tuple(texts))


@contextlib.contextmanager
def always_warning() -> Iterator[list[warnings.WarningMessage]]:
    """Collect warnings, also those that torch shows once in a process."""
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            # of torch's own code, on the first use of forward mode (as copies_worker.py)
            warnings.filterwarnings("ignore", "`torch.jit.script` is deprecated")
            # and of the module of its sharded optimizers, when it is imported
            warnings.filterwarnings("ignore", "`torch.jit.interface` is deprecated")
            yield caught
    finally:
        torch.set_warn_always(before)


def seen(message: Message) -> tuple[str, str]:
    """Run the reproducer; return the class and the text that it raised.

    Raises:
        AssertionError: it raised nothing that the table recognises as this message.
    """
    texts = run(message.broken, message.anchor).texts
    found = [(kind, text) for kind, text in texts if message.find(text)]
    assert found, f"the reproducer raised {texts or 'nothing'}"
    assert found[0][0] in message.kinds, f"raised as {found[0][0]}"
    return found[0]


def shown(code: str, name: str) -> str:
    """Run code that is to pass; return what it printed.

    Raises:
        AssertionError: it raised or warned.
    """
    printed, texts = run(code, name)
    assert not texts, f"code that should pass raised {texts}"
    return printed


def page_of(message: Message) -> str:
    """Return the whole page of one message as MyST Markdown."""
    lines = [
        "---",
        "myst:",
        "  html_meta:",
        f"    description: {json.dumps(message.why, ensure_ascii=False)}",
        "---",
        f"(error-{message.anchor})=",
        f"# {_title(message)}",
        "",
        message.why,
        "",
        *_what_you_see(message),
        "## The fix",
        "",
    ]
    values: dict[str, str | None] = {}
    if message.broken and not message.silent:
        match = message.find(seen(message)[1])
        values = match.groupdict() if match else {}
    lines += [message.advice(values), ""]
    if message.fixed:
        lines += _code(message.fixed, shown(message.fixed, message.anchor))
    if message.tell:
        lines += ["## Which cause is yours?", ""]
        lines += [*(f"- {line}" for line in message.tell), ""]
    if message.older:
        lines += ["## Other wordings", ""]
        lines += ["The same cause and the same fix, in other words or releases:", ""]
        for wording in message.older:
            lines += _text(wording)
    lines += ["## More", ""]
    lines += [f"- {{ref}}`{label}`" for label in message.see]
    lines += [f"- {_link(source)}" for source in message.source]
    lines += ["- {ref}`All messages <errors>`", ""]
    return "\n".join(lines)


def _what_you_see(message: Message) -> list[str]:
    if message.silent:
        printed = shown(message.broken, message.anchor)
        lines = ["## What you see", "", "No error and no warning:", ""]
        return [*lines, *_code(message.broken, printed)]
    if not message.broken:
        return [
            "## What you see",
            "",
            *_text(f"{message.kinds[0]}: {message.title}"),
            "Not reproduced here: it takes a GPU, several processes, another library or an "
            "old release. The text is that of the sources named below.",
            "",
        ]
    kind, text = seen(message)
    return ["## What you see", "", *_code(message.broken, f"{kind}: {text}")]


def _code(code: str, printed: str) -> list[str]:
    return ["```python", code, "```", "", *_text(printed)]


def _text(text: str) -> list[str]:
    """Return a block that wraps: messages are long."""
    return ["```{code-block} text", ":class: message", "", steady(text), "```", ""]


def steady(text: str) -> str:
    """Return a message without what only this run and this machine have.

    These are addresses in memory, the folder that torch is in, calls of this file, and of
    what torch.compile puts around other functions once any reproducer has loaded it.
    """
    ours = (__file__, "torch/_dynamo/eval_frame.py")
    lines = (line for line in text.splitlines() if not any(our in line for our in ours))
    text = re.sub(r"[^\s\"'(]*/site-packages/", "", "\n".join(lines))
    return re.sub(r"\b0x[0-9a-f]{6,}", "0x…", text)


def _title(message: Message) -> str:
    """Return the heading: the name as a sentence, or the message verbatim, as code."""
    if message.name:
        return re.sub(r"([_*\[\]<>])", r"\\\1", message.name)
    return f"`` {message.title} ``" if "`" in message.title else f"`{message.title}`"


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
        }
        for m in messages()
        if m.patterns or m.asked
    }
    return {"expressions": EXPRESSIONS, "pages": pages}


if __name__ == "__main__":
    faulthandler.dump_traceback_later(600, exit=True)  # what hangs says where
    folder, *anchors = sys.argv[1:]
    wrong = write_pages(Path(folder), anchors)
    print(json.dumps([wrong, for_search()]), flush=True)
    os._exit(0)  # without waiting for the threads
