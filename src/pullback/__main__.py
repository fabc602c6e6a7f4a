"""``python -m pullback``: run a script, explain an error, or print an index.

The last two need no torch, and do not wait for it.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import textwrap
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from traceback import FrameSummary

    from pullback._messages import Message

INDEX = Path(__file__).with_name("agents.md")
WATCH = Path(__file__).with_name("_watch")
FOUND = 3  # exit status of a script that ended well, and of which something was found

HELP = f"""\
python -m pullback names the line that autograd does not tell.

Watch a script, which runs as it is:
    python -m pullback train.py --epochs 1
    python -m pullback -m package.train
  Standard error then has the line that edited a tensor in place, made the first NaN,
  cut a parameter or the loss off, or leads into a graph that is used up, and mistakes
  that raise nothing. The exit status is the script's own, or {FOUND} where that is 0 and
  there is a finding. Before the script may stand:
    --without RULE   to leave out a rule, by the name below its finding; may be repeated
    --strict         to report also what correct programs do on purpose
    --check-functions  to compare the backward of custom Functions with differences

Explain an error of PyTorch, its cause and what to do:
    python -m pullback explain "grad can be implicitly created only for scalar outputs"
    python train.py 2>&1 | python -m pullback explain
  A whole traceback will do, and a symptom: "grad is None", "memory grows". The exit
  status is 1 where it is not known.

Print an entry of the index of errors, with code that raises it and does it right:
    python -m pullback explain scalar-outputs

Print what to pass to backward, and what this package does, for an AGENTS.md:
    python -m pullback index >> AGENTS.md
"""


def command() -> int:
    """Do what the command line says; a pipe that is closed, as by ``head``, ends it."""
    try:
        status = main()
        sys.stdout.flush()  # or else Python does it, where nobody catches its error
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 128 + 13  # as of a program that SIGPIPE has ended
    return status


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says, and return the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["explain"] and given[1:] not in (["-h"], ["--help"]):
        return explain(" ".join(given[1:]) or sys.stdin.read())
    if given == ["index"]:
        print(INDEX.read_text(encoding="utf-8"), end="")
        return 0
    if not given or given[0] in ("-h", "--help", "explain"):
        print(HELP, end="", file=sys.stdout if given else sys.stderr)
        return 0 if given else 2
    import argparse  # here and below, what explain would wait for

    parser = argparse.ArgumentParser(
        prog="python -m pullback",
        usage="python -m pullback [--strict] [--without RULE] [--check-functions] [-m] "
        "SCRIPT [ARGUMENT ...]",
        add_help=False,
    )
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--without", action="append", default=[])
    parser.add_argument("--check-functions", action="store_true")
    parser.add_argument("-m", dest="module", action="store_true")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args(given)
    return run(
        [options.script, *options.arguments],
        module=options.module,
        strict=options.strict,
        without=options.without,
        check_functions=options.check_functions,
    )


def explain(text: str) -> int:
    """Print what a message means, the entry of a name, or what to ask of a symptom."""
    from pullback._recognition import lookup

    entry = _named(text)
    if entry is not None:
        print("\n\n".join(_whole(entry)))
        return 0
    message = lookup(text)
    if message is None:
        return _by_symptom(text)
    match = message.find(text)
    _print_note(message, match.groupdict() if match else {})
    return 0


def _by_symptom(text: str) -> int:
    from pullback._symptoms import entry, symptom, told

    page = symptom(text)
    if page is not None:
        print("\n".join(told(page, text)))
        return 0
    asked = entry(text)
    if asked is None:
        print("This message is not in the index of errors.")
        return 1
    _print_note(asked, {})
    return 0


def _print_note(message: Message, values: dict[str, str | None]) -> None:
    from pullback._hints import note_of

    print(message.title)
    print(note_of(message, values))
    print("\n".join(_signs(message)))


def _named(text: str) -> Message | None:
    from pullback._messages import FOLDER, read

    name = text.strip()
    files = FOLDER.glob(f"*/{name}.md") if re.fullmatch(r"[a-z0-9-]+", name) else ()
    return next(map(read, files), None)


def _whole(entry: Message) -> Iterator[str]:
    """Yield the parts of an entry as they are read without its page."""
    from pullback._hints import cause_and_fix, filled

    yield "\n".join(dict.fromkeys(filter(None, (entry.name, entry.message))))
    own = entry.told
    yield filled(cause_and_fix(entry, {name: f"<{name}>" for name in own}))
    if own:
        yield f"{', '.join(f'<{name}>' for name in own)}: what your own message says there."
    if entry.tell:
        yield "\n".join(_signs(entry))
    broken = "silently wrong" if entry.silent else "raises it"
    for label, code in ((broken, entry.broken), ("done right", entry.fixed)):
        if code:
            yield f"# {label}\n{code.rstrip()}"


def _signs(message: Message) -> Iterator[str]:
    for sign in message.tell:
        yield textwrap.fill(sign, 88, initial_indent="- ", subsequent_indent="  ")


def run(command: Sequence[str], *, module: bool, **options: Any) -> int:
    """Run a script under watch, print what was found, and return the exit status."""
    import runpy

    from pullback._hints import hints
    from pullback._watch.watching import watch

    status, stopped = 0, False
    hints.enable()  # beside warnings, and errors of threads
    sys.argv = list(command)
    if not sys.flags.safe_path:  # or else none of them is the folder of what runs
        sys.path[0] = "" if module else str(Path(command[0]).resolve().parent)
    seen = None
    try:
        with _stop_on_sigterm(), watch(**options) as seen:
            if module:
                runpy.run_module(command[0], run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(command[0], run_name="__main__")
    except SystemExit as end:
        status, stopped = _status(end.code), isinstance(end, _Stopped)
    except BaseException as error:
        stopped = isinstance(error, KeyboardInterrupt)
        status = 128 + signal.SIGINT if stopped else 1
        _print_own(error)
    hints.disable()
    if seen is not None and (len(seen) or seen.unseen or seen.caught):
        print(seen, file=sys.stderr)
    elif seen is not None:
        beside = " beside that error" if status else ""
        if stopped:
            beside = " before it was stopped"
        clean = f"{command[0]}: {seen.watched}; nothing was found{beside}"
        print(f"pullback.watch: {clean}", file=sys.stderr)
    for text in seen.unchecked if seen is not None else ():
        print(f"unchecked: {text}", file=sys.stderr)
    if seen is not None and seen.unchecked and not options["check_functions"]:
        print("           (--check-functions compares them)", file=sys.stderr)
    return status or (FOUND if seen else 0)


class _Stopped(SystemExit):
    """Ends a script that has been sent SIGTERM, as by a scheduler whose time is up."""


@contextlib.contextmanager
def _stop_on_sigterm() -> Iterator[None]:
    """End what runs in this block as Ctrl-C does, so that what was found is printed.

    A script may set a handler of its own, which then counts. Processes that it forks end
    as they do without this.
    """
    process = os.getpid()

    def stop(number: int, frame: object) -> None:
        if os.getpid() == process:
            raise _Stopped(128 + number)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    main_thread = threading.current_thread() is threading.main_thread()
    if not main_thread or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGTERM) is stop:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _status(code: object) -> int:
    if isinstance(code, str):
        print(code, file=sys.stderr)
    return code if isinstance(code, int) else int(code is not None)


def _print_own(error: BaseException) -> None:
    """Print a traceback as Python does, without the frames of this package.

    Below an error that no rule explains stands what the index of errors says.
    """
    import traceback

    from pullback._hints import annotate

    notes = getattr(error, "__notes__", [])
    error.__notes__ = [note for note in notes if "pullback.watch" not in note]
    if len(error.__notes__) == len(notes):  # else it is printed with the others
        annotate(error)
    shown = traceback.TracebackException.from_exception(error)
    parts = [shown]
    for part in parts:
        before = (part.__cause__, part.__context__, *(part.exceptions or ()))
        parts += [other for other in before if other is not None]
        part.stack = traceback.StackSummary.from_list(_without_ours(part.stack))
    print(*shown.format(), sep="", end="", file=sys.stderr)


def _without_ours(stack: Iterable[FrameSummary]) -> Iterator[FrameSummary]:
    """Yield the frames that there are without this command, in which torch calls it."""
    called = False
    for frame in stack:
        ours = _is_ours(frame.filename)
        if not ours and not (called and Path(frame.filename).name == "_ops.py"):
            yield frame
        called = ours


def _is_ours(path: str) -> bool:
    name = Path(path).name
    return (
        path == __file__
        or path.startswith("<frozen")
        or name == "runpy.py"
        or Path(path).parent == WATCH
    )


if __name__ == "__main__":
    sys.exit(command())
