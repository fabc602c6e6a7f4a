"""``python -m pullback``: run a script, explain an error, or print an index.

The last two need no torch, and do not wait for it.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pullback._messages import Message

INDEX = Path(__file__).with_name("agents.md")
FOUND = 3  # exit status of a script that ended well, and of which something was found

DESCRIPTION = f"""\
python -m pullback [--strict] [--without RULE] SCRIPT [ARGUMENT ...]
    runs a script as it is, under pullback.watch, and prints what was found to standard
    error. The exit status is its own; {FOUND} where that is 0 and there is a finding.
    -m MODULE in the place of SCRIPT runs a module.
python -m pullback explain "MESSAGE"
    says what an error message of PyTorch means, and what to do. Without a message it is
    read from standard input, a whole traceback for one. The exit status is 1 where the
    message is not known.
python -m pullback explain NAME
    prints the entry of that name, which other texts of this package lead to: the cause,
    what to do, how to tell, and code that raises the message and does it right.
python -m pullback index
    prints, for an AGENTS.md, what to pass to backward and what this package does.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says, and return the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["explain"]:
        return explain(" ".join(given[1:]) or sys.stdin.read())
    if given == ["index"]:
        print(INDEX.read_text(encoding="utf-8"), end="")
        return 0
    import argparse  # here and below, what explain would wait for

    parser = argparse.ArgumentParser(
        prog="python -m pullback",
        description=DESCRIPTION,
        usage=argparse.SUPPRESS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--strict", action="store_true", help="see pullback.watch")
    parser.add_argument("--without", action="append", default=[], metavar="RULE")
    parser.add_argument("-m", dest="module", action="store_true", help="run a module")
    parser.add_argument("script", help="a script, or the name of a module after -m")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args(given)
    return run(
        [options.script, *options.arguments],
        module=options.module,
        strict=options.strict,
        without=options.without,
    )


def explain(text: str) -> int:
    """Print what a message in any of its wordings means, or the entry of a name."""
    from pullback._hints import note_of
    from pullback._recognition import found

    entry = _named(text)
    if entry is not None:
        print("\n\n".join(_whole(entry)))
        return 0
    message = next(found(text), None)
    if message is None:
        print("This message is not in the index of errors.")
        return 1
    match = message.find(text)
    print(message.title)
    print(note_of(message, match.groupdict() if match else {}))
    print("\n".join(_signs(message)))
    return 0


def _named(text: str) -> Message | None:
    from pullback._messages import FOLDER, read

    name = text.strip()
    files = FOLDER.glob(f"*/{name}.md") if re.fullmatch(r"[a-z0-9-]+", name) else ()
    return next(map(read, files), None)


def _whole(entry: Message) -> Iterator[str]:
    """Yield the parts of an entry as they are read without its page."""
    from pullback._hints import cause_and_fix, filled

    yield "\n".join(dict.fromkeys(filter(None, (entry.name, entry.message))))
    yield filled(cause_and_fix(entry, {}))
    if entry.tell:
        yield "\n".join(_signs(entry))
    broken = "silently wrong" if entry.silent else "raises it"
    for label, code in ((broken, entry.broken), ("done right", entry.fixed)):
        if code:
            yield f"# {label}\n{code.rstrip()}"


def _signs(message: Message) -> Iterator[str]:
    for sign in message.tell:
        yield textwrap.fill(sign, 88, initial_indent="- ", subsequent_indent="  ")


def run(
    command: Sequence[str], *, module: bool, strict: bool, without: Sequence[str]
) -> int:
    """Run a script under watch, print what was found, and return the exit status."""
    import runpy

    from pullback._watch.watching import watch

    status = 0
    sys.argv = list(command)
    sys.path[0] = "" if module else str(Path(command[0]).resolve().parent)
    seen = None
    try:
        with watch(strict=strict, without=without) as seen:
            if module:
                runpy.run_module(command[0], run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(command[0], run_name="__main__")
    except SystemExit as end:
        status = _status(end.code)
    except BaseException as error:
        status = 130 if isinstance(error, KeyboardInterrupt) else 1
        _print_own(error)
    if seen is not None and (len(seen) or seen.unseen):
        print(seen, file=sys.stderr)
    return status or (FOUND if seen else 0)


def _status(code: object) -> int:
    if isinstance(code, str):
        print(code, file=sys.stderr)
    return code if isinstance(code, int) else int(code is not None)


def _print_own(error: BaseException) -> None:
    """Print a traceback from the script's own first line on, as Python does."""
    import traceback

    error.__notes__ = [
        note for note in getattr(error, "__notes__", ()) if "pullback.watch" not in note
    ]  # which is printed with the others
    frames = error.__traceback__
    while frames is not None and _is_ours(frames.tb_frame.f_code.co_filename):
        frames = frames.tb_next
    traceback.print_exception(type(error), error, frames or error.__traceback__)


def _is_ours(path: str) -> bool:
    return path == __file__ or path.startswith("<frozen") or Path(path).name == "runpy.py"


if __name__ == "__main__":
    sys.exit(main())
