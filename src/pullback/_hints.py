"""Cause, fix and page beside an error of autograd, where it is raised."""

from __future__ import annotations

import contextlib
import functools
import inspect
import linecache
import sys
import textwrap
import threading
import warnings
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator, Mapping
from contextlib import ContextDecorator
from itertools import chain, repeat
from traceback import walk_tb
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pullback._messages import Message

IN_PLACE = "modified-by-an-inplace-operation"


class hints(ContextDecorator):  # noqa: N801 - it is called like a function
    """Add cause, fix and page to errors and warnings of autograd.

    An exception that leaves the block keeps its type, its text and its traceback; a note
    (:pep:`678`) is printed below it, with the shapes and names of your own tensors. A
    warning that is shown while the block is open has the same note below its text.
    Whatever does not come from autograd stays as it is.

    Use it as a context manager, as a decorator of a function, a generator function, a
    coroutine function or an asynchronous generator function, or for the whole program:
    ``hints.enable()``, until ``hints.disable()``. The latter adds the note to what ends the
    program or a thread, or what a notebook cell shows.

    Blocks may be nested and used from several threads; a note is added once. Warnings
    belong to the process in Python: a block in one thread adds notes to those of all.
    In code that ``torch.compile`` traces, a block does nothing; one around the call of
    the compiled function does.

    Examples:
        >>> import torch, pullback
        >>> x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        >>> try:
        ...     with pullback.hints():
        ...         (x**2).backward()
        ... except RuntimeError as error:
        ...     print(error)
        ...     print(error.__notes__[0])
        grad can be implicitly created only for scalar outputs
        why:  `y` has more than one element (or none), ...
        fix:  Reduce the output, of shape (3,), to one number first ...
        more: ...scalar-outputs...
    """

    _blocks = 0  # that this object has opened: torch.compile may trace only one end of one

    def __enter__(self) -> hints:
        if not _traced():
            self._blocks += 1
            _warnings.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if _traced():
            return
        if self._blocks:
            self._blocks -= 1
            _warnings.close()
        if error is not None:
            annotate(error)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:  # type: ignore[override]
        """Return ``function`` with every call of it inside a block."""
        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
                with hints():
                    return (yield from function(*args, **kwargs))

            return generator
        if inspect.isasyncgenfunction(function):

            @functools.wraps(function)
            async def stream(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
                with hints():
                    async with contextlib.aclosing(function(*args, **kwargs)) as inner:
                        step = inner.asend(None)
                        while True:
                            try:
                                value = await step
                            except StopAsyncIteration:
                                return
                            try:
                                step = inner.asend((yield value))
                            except GeneratorExit:
                                raise
                            except BaseException as error:
                                step = inner.athrow(error)

            return stream
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def coroutine(*args: Any, **kwargs: Any) -> Any:
                with hints():
                    return await function(*args, **kwargs)

            return coroutine

        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with hints():  # made here, where torch.compile sees what it is
                return function(*args, **kwargs)

        return inside

    @staticmethod
    def enable() -> None:
        """Add notes from here on, in the whole program; a second call does nothing."""
        _program.enable()

    @staticmethod
    def disable() -> None:
        """Take back what :meth:`enable` did."""
        _program.disable()


def annotate(error: BaseException) -> None:
    """Add the note to ``error``, to those in its group and to those that caused it.

    Whatever fails while it looks, the error stays as it is.
    """
    pending, done = [error], set[int]()
    while pending:
        error = pending.pop()
        if id(error) in done:
            continue
        done.add(id(error))
        if isinstance(error, BaseExceptionGroup):
            pending += error.exceptions
        before = (error.__cause__, not error.__suppress_context__ and error.__context__)
        pending += [other for other in before if other]
        note = note_for(error)
        with contextlib.suppress(Exception):  # it may take no notes, as a frozen dataclass
            if note is not None and note not in getattr(error, "__notes__", ()):
                error.add_note(note)


def note_for(error: BaseException) -> str | None:
    """Return the note that belongs to an exception or a warning, if any does.

    Whatever fails while it looks raises nothing; what was found before that counts.
    """
    note = None
    with contextlib.suppress(Exception):  # it asks the program's own objects
        for found in _notes_for(error):
            note = found
    return note


def _notes_for(error: BaseException) -> Iterator[str]:
    """Yield the note of the entry that knows an error, then one that says more, if any."""
    text = error.args[0] if error.args else None
    if not isinstance(text, str):
        return
    from pullback._recognition import matches  # and the table, with the first error

    kinds = {kind.__name__ for kind in type(error).__mro__}
    frame, line = _raised_at(error.__traceback__)
    function = frame and frame.f_code.co_name
    for words in (text, f"{line} {text}"):
        for message, match in matches(words):
            if (
                not kinds.isdisjoint(message.kinds)
                and message.only_from in ("", function)
                and message.may_be_raised_by(line)
            ):
                values = {**_shapes(message, frame), **match.groupdict()}
                yield note_of(message, values)
                if message.anchor == IN_PLACE and (changed := _changed(error)):
                    yield note_of(message, values, changed)
                return


def note_of(
    message: Message, values: Mapping[str, str | None], seen: str | None = None
) -> str:
    """Return cause, fix and page of an entry, filled in with the reader's values.

    Where the program itself has shown more than its message, ``seen`` says so in the place
    of the first paragraph of the fix, and of those that tell what the message has said.
    """
    from pullback._messages import more

    return filled(
        {**cause_and_fix(message, values, seen), "more: ": [more(message.anchor)]}
    )


def cause_and_fix(
    message: Message, values: Mapping[str, str | None], seen: str | None = None
) -> dict[str, Iterable[str]]:
    """Return the paragraphs of both, each with its label."""
    from pullback._messages import in_text

    first, *others = in_text(message.advice(values))
    if seen:
        others = [part for part in in_text(message.fix) if part in others]
    return {"why:  ": message.why.split("\n\n"), "fix:  ": [seen or first, *others]}


def filled(parts: Mapping[str, Iterable[str]]) -> str:
    """Return the paragraphs of each part below its label, in lines of equal length."""
    return "\n".join(
        textwrap.fill(
            text,
            width=88,
            initial_indent=name if first else " " * len(name),
            subsequent_indent=" " * (len(name) + 2 * text.startswith("- ")),
            break_long_words=False,
            break_on_hyphens=False,
        )
        for name, texts in parts.items()
        for first, text in zip(chain([True], repeat(False)), texts, strict=False)
    )


def _raised_at(traceback: TracebackType | None) -> tuple[Any, str]:
    """Return the frame and the line of source in which an exception was raised."""
    stack = list(walk_tb(traceback))
    if not stack:
        return None, ""
    frame, number = stack[-1]
    return frame, linecache.getline(frame.f_code.co_filename, number, frame.f_globals)


def _shapes(message: Message, frame: Any) -> dict[str, str | None]:
    """Return the shapes that the message leaves out, from the frame that raised it."""
    if frame is None or not frame.f_globals.get("__name__", "").startswith("torch."):
        return {}
    found: dict[str, str | None] = {}
    for group, variable in message.shapes.items():
        # a nested tensor with strides raises a RuntimeError where others have a shape
        with contextlib.suppress(AttributeError, RuntimeError):
            found[group] = str(tuple(frame.f_locals.get(variable).shape))
    return found


def _changed(error: BaseException) -> str | None:
    """Return what is to be done where an optimizer has changed a parameter, or None."""
    from pullback._changed import changed_parameter  # and torch, which has raised the error
    from pullback._watch.edits import STEP

    what = changed_parameter(error)
    return what and f"{what} after the forward pass had saved it. {STEP}"


def _traced() -> bool:
    """Tell whether torch.compile traces this code: it can trace no lock and no note."""
    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.compiler.is_compiling())


class _Warnings:
    """Adds notes to the warnings that are shown while at least one block is open.

    Only their formatting is touched: filters, recording (``catch_warnings``) and logging
    see the same warnings as ever.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._blocks = 0
        self._undo: Callable[[], None] = lambda: None

    def open(self) -> None:
        with self._lock:
            self._blocks += 1
            if self._blocks == 1:
                self._undo = self._install()

    def close(self) -> None:
        with self._lock:
            self._blocks -= 1
            if self._blocks == 0:
                self._undo()

    def _install(self) -> Callable[[], None]:
        before = warnings.formatwarning

        def with_note(message: Warning | str, *args: Any, **kwargs: Any) -> str:
            text = before(message, *args, **kwargs)
            note = note_for(message) if isinstance(message, Warning) else None
            if not self._blocks or note is None or note in text:
                return text
            return f"{text.rstrip()}\n{note}\n"

        warnings.formatwarning = with_note

        def undo() -> None:
            # If another was put around ours, ours stays, and adds nothing.
            if warnings.formatwarning is with_note:
                warnings.formatwarning = before

        return undo


class _Program:
    """Adds notes to what ends the program, a thread or a notebook cell."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._undo: list[Callable[[], None]] = []

    def enable(self) -> None:
        with self._lock:
            if self._undo:
                return
            _warnings.open()
            self._undo = [_warnings.close, self._hook_program(), self._hook_threads()]
            shell = _notebook()
            if shell is not None:
                self._undo.append(self._hook_notebook(shell))

    def disable(self) -> None:
        with self._lock:
            while self._undo:
                self._undo.pop()()

    def _hook_program(self) -> Callable[[], None]:
        before = sys.excepthook

        def hook(
            kind: type[BaseException],
            error: BaseException,
            traceback: TracebackType | None,
        ) -> None:
            annotate(error)
            before(kind, error, traceback)

        sys.excepthook = hook

        def undo() -> None:
            if sys.excepthook is hook:
                sys.excepthook = before

        return undo

    def _hook_threads(self) -> Callable[[], None]:
        before = threading.excepthook

        def hook(args: threading.ExceptHookArgs) -> None:
            if args.exc_value is not None:
                annotate(args.exc_value)
            before(args)

        threading.excepthook = hook

        def undo() -> None:
            if threading.excepthook is hook:
                threading.excepthook = before

        return undo

    def _hook_notebook(self, shell: Any) -> Callable[[], None]:
        # IPython shows exceptions itself; sys.excepthook never sees them.
        before = shell.custom_exceptions, shell.CustomTB

        def show(shell: Any, kind: Any, error: Any, traceback: Any, tb_offset: Any) -> None:
            annotate(error)
            shell.showtraceback((kind, error, traceback), tb_offset=tb_offset)

        shell.set_custom_exc((Exception,), show)

        def undo() -> None:
            shell.custom_exceptions, shell.CustomTB = before

        return undo


def _notebook() -> Any:
    """Return the running IPython shell, if there is one."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


_warnings = _Warnings()
_program = _Program()
