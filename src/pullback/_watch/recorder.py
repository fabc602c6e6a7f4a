"""Writes the log: looks at each operation, each module call, each step of an optimizer."""

from __future__ import annotations

import functools
import os
import textwrap
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.modules import module as modules
from torch.optim import optimizer as optimizers

from pullback._torch import (
    QuietDispatchMode,
    accumulated_leaf,
    asked_by,
    calls_engine,
    function_of,
    has_numbers,
    has_open_sizes,
    nodes_made,
    number_of,
    optimizers_made,
    out_of_sight,
    part_of_torch,
    running_backward,
    running_node,
    schema,
    stack_of_backward,
    storage_key,
    uncompiled,
    unwrap,
    version,
)
from pullback._watch import rules
from pullback._watch.findings import Site, counted
from pullback._watch.flags import (
    Flag,
    Listener,
    flag_of,
    flags_inside,
    flags_seen,
    method_of,
)
from pullback._watch.frames import (
    Instruction,
    asked_by_package,
    calling,
    calling_frame,
    is_own,
    own_frame,
    runs,
)
from pullback._watch.functions import Calls, backward_of, copied_arguments, running
from pullback._watch.log import (
    FORWARD,
    SHARES,
    Call,
    Event,
    Leaf,
    Log,
    Moment,
    Share,
    Sources,
    held_by,
    keys_of,
)
from pullback._watch.numbers import last_line, lists_made, taken_as_numbers
from pullback._watch.switched_off import around

FLOATS = {torch.float16, torch.bfloat16, torch.float32, torch.float64}
NUMBER = "_local_scalar_dense"  # what .item() and float() are below autograd
NEW = ("lift_fresh", "set_")  # what came from elsewhere is first seen when they take it
#: Their numbers are nobody's result.
UNWRITTEN = ("empty", "new_empty", "resize_", "as_strided_", *NEW)
GRADCHECK = "autograd/gradcheck.py"
NOTABLE = 5e-4  # seconds of other threads; to start one takes less
OTHERS = 100  # leaves that are no parameters and are kept until the end
PLAIN = (Tensor, torch.nn.Parameter)
SEVERAL = (list, tuple)  # as which an operation takes and gives tensors
STRIDED = torch.strided
NONE: dict[int, Any] = {}  # one for all, where there is nothing to keep
NOTHING: frozenset[int] = frozenset()
Taken = Sequence[tuple[Tensor, int]]  # tensors and their storages


class Operation(NamedTuple):
    """What is the same at every call of an operation."""

    name: str
    written: tuple[tuple[int, str], ...]  # arguments that it writes into
    computes: bool  # the numbers of its results, and does not take them as they are
    in_forward: tuple[rules.Rule, ...]
    in_backward: tuple[rules.Rule, ...]
    in_function: tuple[rules.Rule, ...]  # in the backward of a custom Function


#: What takes numbers where no operation is seen.
READ = Operation(NUMBER, (), True, (), (), ())


class Recorder(QuietDispatchMode):
    """Sees every operation below autograd, in forward and in backward.

    It runs each operation as it is, and looks at the result. Operations of its own are
    out of its sight, and none of them changes a tensor that is not its own.
    """

    def __init__(self, log: Log) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._log = log
        self._known: dict[Any, Operation] = {}
        self._sites: dict[tuple[str, int], Site] = {}
        self._last_number = nodes_made() - 1
        self._last: tuple[Event, Instruction] | None = None
        self._run = FORWARD
        self._open: dict[int, Call] = {}
        self._thread = threading.get_ident()
        self._step: FrameType | None = None  # of an optimizer, without a closure
        self._stack: list[weakref.ref[torch.nn.Module]] = []
        self._cleanup = ExitStack()
        self._elsewhere = 0.0, 0.0

    # --- beginning and end ------------------------------------------------------------

    def __enter__(self) -> Recorder:
        with ExitStack() as stack:
            places = self._log.places
            safe = self._safe
            for handle in (
                modules.register_module_parameter_registration_hook(
                    safe(places.parameter_registered)
                ),
                modules.register_module_module_registration_hook(
                    safe(places.module_registered)
                ),
                modules.register_module_forward_pre_hook(safe(self._module_called)),
                modules.register_module_forward_hook(
                    safe(self._module_returned), always_call=True
                ),
                optimizers.register_optimizer_step_pre_hook(safe(self._step_begins)),
                optimizers.register_optimizer_step_post_hook(safe(self._step_ended)),
            ):
                stack.callback(handle.remove)
            stack.enter_context(optimizers_made(safe(self._optimizer_made)))
            stack.enter_context(lists_made(safe(self._list_made)))
            flags = Listener(safe(self._flag_set), safe(self._flag_read))
            stack.enter_context(flags_seen(flags))
            stack.enter_context(uncompiled())
            self._elsewhere = _time_elsewhere()
            super().__enter__()  # type: ignore[no-untyped-call]
            self._cleanup = stack.pop_all()
        return self

    def __exit__(self, *exception: Any) -> None:
        try:
            super().__exit__(*exception)
        finally:
            self._cleanup.close()
            self._step = None

    def finish(self) -> None:
        """Let the last rules look."""
        self._backward_ended()
        self._ask(self._rules(rules.END))
        if self._log.count == self._log.begun:
            threads, processes = _time_elsewhere()
            where = ["threads"] * (threads - self._elsewhere[0] > NOTABLE)
            where += ["processes"] * (processes > self._elsewhere[1])
            for others in where:
                self._log.findings.missed(
                    f"this thread ran no operation of torch, and other {others} ran: watch "
                    "there, inside the function that they run"
                )
        operations = counted(self._log.count - self._log.begun, "operation")
        passes = counted(self._log.passes, "backward pass")
        self._log.findings.watched = f"{operations}, {passes}"

    def _safe(self, hook: Callable[..., None]) -> Callable[..., None]:
        """Return a hook that raises nothing: no program must end because it is watched."""

        def safe(*args: Any) -> None:
            try:
                hook(*args)
            except Exception as error:
                self._missed(hook.__name__, error)

        return safe

    def _missed(self, what: object, error: Exception) -> None:
        why = textwrap.shorten(str(error), 200)  # some list all of torch's backends
        self._log.findings.missed(f"{what}: {type(error).__name__}: {why}")

    # --- operations -------------------------------------------------------------------

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run an operation, and look."""
        kwargs = kwargs or {}
        if self._step is not None and self._in_step():
            return func(*args, **kwargs)
        number = nodes_made() - 1
        out = func(*args, **kwargs)
        try:
            with out_of_sight():
                self._record(func, args, kwargs, out, number)
        except Exception as error:  # a program must not end because it is watched
            self._missed(func, error)
        return out

    def _record(
        self,
        func: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        out: Any,
        number: int,
    ) -> None:
        log = self._log
        operation = self._known.get(func) or self._operation(func)
        inputs = _tensors(args)
        if kwargs:
            inputs += _tensors(kwargs.values())
        outputs = [out] if isinstance(out, Tensor) else _tensors((out,))
        for t in (*inputs, *outputs):
            if type(t) not in PLAIN and has_open_sizes(t):
                return  # it is traced for all sizes; comparing them would rule some out
        run = running_backward()
        if run != self._run:
            self._run_changed(run)
        frame = calling_frame()  # once: this runs at every operation
        if operation.name == "detach" and run == FORWARD and self._saves(inputs[0], frame):
            return
        own = frame is not None and is_own(frame.f_code)
        new = operation.name == NEW[0] and run == FORWARD
        if new and frame is not None and own and torch.is_grad_enabled():
            for t in taken_as_numbers(frame):
                if t.requires_grad:
                    self._numbers_read(t, number)
        node = None if run == FORWARD else running_node()
        event = Event(log.count, operation.name, None, run)
        log.count += 1
        event.grad, event.number = torch.is_grad_enabled(), number
        if node is not None:
            event.node, event.node_number = node.name(), number_of(node)
        event.site = self._site(event, frame)
        event.until = last_line(frame) if new and frame is not None else 0
        if event.op == NUMBER and not own:
            event.owner = "torch"  # as LBFGS does, or a print; the program has no number
        self._tensors_of(event, operation, args, kwargs, inputs, outputs, frame)
        if number > self._last_number:  # its node has just been made
            self._last_number = number
            event.recorded = True
            log.of_number[number] = event
        log.add(event)
        if event.sources is not None and not event.grad and event.site not in log.off:
            log.off[event.site] = around(frame)
        if run == FORWARD and frame is not None:
            instruction = calling(frame)
            if event.writes and self._last is not None:
                self._own_number(event, instruction, *self._last)
            self._last = event, instruction
        if node is not None and event.node.endswith("AccumulateGrad"):
            self._arrived(node, event, outputs)
        looking = operation.in_forward if run == FORWARD else operation.in_backward
        if node is not None and function_of(node) is not None:
            looking = operation.in_function
        if looking:
            self._ask(looking, Moment(event, args, kwargs, inputs, outputs, node))

    def _numbers_read(self, t: Tensor, number: int) -> None:
        """Keep that a program takes the numbers of a tensor, as if by ``.item()``."""
        if t.layout is torch.strided:
            event = Event(self._log.count, NUMBER, self._line())
            self._log.count += 1
            event.grad, event.number = torch.is_grad_enabled(), number
            self._tensors_of(event, READ, (t,), {}, [t], [], None)
            self._log.add(event)

    def _list_made(self, t: Tensor) -> None:
        frame = calling_frame() if self._in_watched_thread() else None
        if frame is not None and is_own(frame.f_code) and running_backward() == FORWARD:
            with out_of_sight():
                self._numbers_read(unwrap(t), nodes_made() - 1)

    def _own_number(
        self, event: Event, here: Instruction, before: Event, there: Instruction
    ) -> None:
        """Keep an edit of what its own backward needs under the number of its node.

        Autograd makes its node, then clones what it saves, which makes another, and edits.
        """
        if (before.op, before.number, there) == ("clone", event.number, here):
            self._log.of_number.setdefault(event.number - 1, event)

    def _saves(self, t: Tensor, frame: FrameType | None) -> bool:
        """Tell whether it is autograd that detaches a result, to save it for backward.

        It does so as part of the operation before: in the same instruction of Python.
        """
        if self._last is None or frame is None:
            return False
        event, instruction = self._last
        key = storage_key(t) if t.layout is STRIDED else None
        return key in (*event.makes, *event.writes) and instruction == calling(frame)

    def _tensors_of(
        self,
        event: Event,
        operation: Operation,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        frame: FrameType | None,
    ) -> None:
        reads: list[int] = []
        live: list[int] = []
        leaves: list[tuple[Tensor, int]] = []
        inner: list[tuple[Tensor, int]] = []
        for t in inputs:
            if t.layout is not STRIDED:
                continue
            key = storage_key(t)
            reads.append(key)
            if t.requires_grad:
                live.append(key)
                (leaves if is_leaf(t) else inner).append((t, key))
        event.reads, event.live = tuple(reads), tuple(live)
        if operation.written:
            for at, name in operation.written:
                target = args[at] if at < len(args) else kwargs.get(name)
                targets = _tensors((target,))
                event.writes += keys_of(targets)
                event.room = max([event.room, *map(_size_of_storage, targets)])
            if _by_gradcheck(frame):
                event.writes = ()  # it moves a number a little, and back
        made = tuple([storage_key(t) for t in outputs if t.layout is STRIDED])
        if not reads or operation.name in NEW:
            event.makes = made
        else:
            event.makes = tuple([key for key in made if key not in reads])
        if event.run == FORWARD and (live or self._log.parted):
            event.sources = self._sources(event, inputs, leaves, inner)
            if self._log.parted or not event.grad or event.op == "detach":
                self._keep_parted(event, event.sources.parted, outputs, made)
        for t, key in leaves:
            self._leaf_used(t, key, event)
        if outputs and not outputs[0].is_nested:
            first = outputs[0]
            event.shape = tuple(first.shape)
            if first.dtype in FLOATS:
                numbers = operation.computes and (event.makes or event.writes)
                if numbers and readable(first):
                    event.total = first.sum().item()
            if len(outputs) > 1 or first.dtype not in FLOATS:
                event.integers = keys_of([t for t in outputs if _holds_integers(t)])

    def _sources(
        self, event: Event, inputs: Sequence[Tensor], leaves: Taken, inner: Taken
    ) -> Sources:
        """Return what the inputs have to do with graphs."""
        inside = running() if event.live and not event.grad else None
        if inside is not None and event.number != self._log.called_at:
            self._log.called_at = event.number
            self._function_called(inside.function.kind)
        parted = self._parted(event, inputs) if self._log.parted else NONE
        given_back = {}
        for t, key in inner:
            maker = self._log.makers.get(key)
            if maker is not None and not maker.grad and _made_by(t, maker):
                given_back[key] = maker.number
        return Sources(
            tuple([key for _, key in inner if key not in parted]),
            tuple([id(t) for t, _ in leaves]),
            _given_to_function(inside.arguments, leaves, inner)
            if inside is not None
            else NOTHING,
            parted,
            given_back or NONE,
            inside.function if inside is not None else None,
        )

    def _function_called(self, kind: Any) -> None:
        """Keep which custom Functions ran, and what they took."""
        code = backward_of(kind)
        if code is not None and is_own(code):
            calls = self._log.functions.setdefault(kind, Calls())
            calls.count += 1
            if self._log.compares and calls.is_kept:
                calls.keep(copied_arguments())

    def _parted(self, event: Event, inputs: Sequence[Tensor]) -> dict[int, Event]:
        """Return the inputs that share numbers with what has a graph, and have none."""
        found = {}
        taken = (t for t in inputs if t.layout is torch.strided)
        for t, key in zip(taken, event.reads, strict=True):
            parting = self._log.parted.get(id(t))
            if parting is None or key not in parting.live:  # of one that is gone
                continue
            if parting.function is None or not t.requires_grad or is_leaf(t):
                found[key] = parting  # or else the Function gave it back, with a graph
        return found

    def _keep_parted(
        self,
        event: Event,
        before: dict[int, Event],
        outputs: Sequence[Tensor],
        made: Sequence[int],
    ) -> None:
        """Keep which results share numbers with what has a graph, and have none."""
        parted = self._log.parted
        parts = not event.writes and (event.op == "detach" or not event.grad)
        given = (t for t in outputs if t.layout is torch.strided)
        for t, key in zip(given, made, strict=True):
            if key in before:
                parted[id(t)] = before[key]
            elif parts and key in event.live:
                parted[id(t)] = event
            else:
                parted.pop(id(t), None)

    def _operation(self, func: Any) -> Operation:
        """Return what is known of an operation that runs for the first time."""
        known = schema(func)
        name = known.name.rpartition("::")[2]
        written = tuple(
            (at, argument.name)
            for at, argument in enumerate(known.arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
        )
        after = self._rules(rules.AFTER)
        looking = [rule for rule in after if not rule.ops or name in rule.ops]
        computes = not name.startswith(UNWRITTEN)
        self._known[func] = Operation(
            name,
            written,
            computes,
            tuple(rule for rule in looking if rule.run in ("", "forward")),
            tuple(rule for rule in looking if rule.run in ("", "backward")),
            tuple(rule for rule in looking if rule.run != "forward"),
        )
        return self._known[func]

    def _site(self, event: Event, frame: FrameType | None) -> Site | None:
        """Return the line of an operation; in backward, that of the one it belongs to."""
        call = self._log.call
        by_engine = frame is not None and calls_engine(frame.f_code)
        if by_engine and call is not None and call.run == event.run:
            here = call.site  # the nearest own line around; most frames are of this kind
        else:
            here = self._line(frame)
        if event.node and (here is None or (call is not None and here == call.site)):
            made_for = self._log.made_for(event.node_number)
            return made_for.site if made_for is not None else here
        return here  # in forward, in a custom backward, in a hook, computed anew

    def _line(self, frame: FrameType | None = None) -> Site | None:
        """Return the nearest own line, from here or from a frame."""
        frame = own_frame(frame)
        if frame is None:
            return None
        place = frame.f_code.co_filename, frame.f_lineno
        site = self._sites.get(place)
        if site is None:
            site = self._sites[place] = Site(*place)
        return site

    # --- leaves -----------------------------------------------------------------------

    def _leaf_used(self, t: Tensor, key: int, event: Event) -> None:
        leaf = self._log.leaf(t)
        inside = event.run != FORWARD or event.function is not None
        if leaf is None and inside and type(t) is not torch.nn.Parameter:
            return  # of a custom Function: its own leaf, or a view of one
        if leaf is None and key in event.writes and not event.makes:
            return  # its numbers are set, as when it is made
        used = event.run == FORWARD and event.grad and event.op != "detach"
        if leaf is None or (used and not leaf.used):
            frame = own_frame()
            held = frame.f_locals.items() if frame is not None else ()
            name = next((n for n, value in held if value is t), "")
            if leaf is None:
                leaf = Leaf(weakref.ref(t), key, event.index, event.site, name)
                self._log.leaves[id(t)] = leaf
                if type(t) is torch.nn.Parameter or len(self._log.kept) < OTHERS:
                    self._log.kept.append(t)
            leaf.site, leaf.name, leaf.used = event.site, name or leaf.name, used
        if leaf.key != key or key not in self._log.leaf_of:
            leaf.key = key
            self._log.leaf_of[key] = leaf
        now = version(t)
        changed = leaf.version != now or key in self._log.detached  # .data counts nothing
        if used and changed and t.dtype in FLOATS and readable(t):
            leaf.version, leaf.total = now, t.detach().sum().item()

    def _arrived(self, node: Any, event: Event, outputs: Sequence[Tensor]) -> None:
        t = accumulated_leaf(node)
        leaf = self._log.leaf(t) if t is not None else None
        if leaf is None:
            return
        if leaf.arrived != event.run:  # in 2.6 its node takes two operations to store it
            leaf.arrivals, leaf.arrived = leaf.arrivals + 1, event.run
        leaf.last = event.index
        leaf.shares = self._shares(leaf, event, keys_of(outputs))
        if not leaf.nonzero and outputs and readable(outputs[0]):
            leaf.nonzero = bool(outputs[0].any())

    def _shares(self, leaf: Leaf, event: Event, keys: tuple[int, ...]) -> tuple[Share, ...]:
        """Return what a gradient is the sum of, now that a backward pass has stored it."""
        if not keys:
            return ()  # it is sparse
        share, before = Share(event.run, event.index, keys[0]), leaf.shares
        if event.op != "add_" or not before or before[-1].key != share.key:
            return (share,)
        between = self._log.writes_since(share.key, before[-1].at)
        made = self._log.makers.get(share.key)
        changed = any(write is not event for write in between)
        if changed or (made is not None and made.index > before[-1].at):
            return (share,)  # it was cleared or changed, or is another one
        return (*before[1 - SHARES :], share)

    # --- backward passes --------------------------------------------------------------

    def _run_changed(self, run: int) -> None:
        if run == FORWARD:
            self._backward_ended()
        elif run in self._open:  # one that another one ran inside of
            self._log.call = self._open[run]
        else:
            self._begins(run)
        self._run = run

    def _begins(self, run: int) -> None:
        self._log.passes += 1
        call = self._call(run)
        if call is not None:
            self._log.call = self._open[run] = self._log.of_run[run] = call
            self._log.calls += call.accumulates
            for t in call.inputs:
                leaf = self._log.leaf(t)
                if leaf is not None:
                    leaf.asked, leaf.returned = True, leaf.returned or not call.accumulates
            self._ask(self._rules(rules.BEGIN), call)
            call.let_go()

    def _backward_ended(self) -> None:
        for call in self._open.values():
            self._ask(self._rules(rules.DONE), call)
        self._open.clear()
        self._run = FORWARD

    def _call(self, run: int) -> Call | None:
        frame = stack_of_backward(self._thread)
        if frame is None:
            return None
        asked = asked_by(frame)
        return Call(
            run=run,
            site=self._line(frame),
            keys=keys_of(asked.roots),
            begun=self._log.count,
            restricted=bool(asked.inputs),
            **asked._asdict(),
        )

    # --- modules and optimizers -------------------------------------------------------

    def _in_watched_thread(self) -> bool:
        """Tell whether this thread is the one that is watched; hooks run in all."""
        return threading.get_ident() == self._thread

    def line_asked(self) -> Site | None:
        """Return the line at hand of the watched thread, unless this package asks."""
        asked = self._in_watched_thread() and not asked_by_package()
        return self._line() if asked else None

    def _module_called(self, module: torch.nn.Module, args: Any) -> None:
        if not self._in_watched_thread():
            return
        self._step = None  # one that computes the loss itself
        if self._stack:
            root = self._stack[0]()
            if root is not None and not self._has_part(root, module):
                self._log.hidden.setdefault(module, (root, self._line()))
        elif module not in self._log.modules:
            self._log.modules[module] = None
            _parts_of.cache_clear()
            for part, flag in flags_inside(module):
                self._log.flags.setdefault(part, flag)
        if not self._stack and torch.is_grad_enabled():
            site = self._line()
            self._log.called[module] = module.training, site
        self._stack.append(weakref.ref(module))

    def _has_part(self, root: torch.nn.Module, module: torch.nn.Module) -> bool:
        """Tell whether a module is part of the root, or of another that runs."""
        if _is_part(root, module):
            return True
        others = (of() for of in self._stack[1:])
        return any(other is not None and _is_part(other, module) for other in others)

    def _module_returned(self, module: torch.nn.Module, args: Any, out: Any) -> None:
        called = self._stack and self._in_watched_thread()
        if called and self._stack[-1]() is module:  # or else the hook before it failed
            self._stack.pop()

    def _in_step(self) -> bool:
        """Tell whether the step runs; one that raised has not said that it ended."""
        if self._step is not None and self._in_watched_thread() and not runs(self._step):
            self._step = None
        return self._step is not None

    def _flag_set(self, module: torch.nn.Module) -> None:
        flag = flag_of(module)
        if flag is not None and self._in_watched_thread():
            flag.site, flag.own = self._line(), method_of(own_frame()) is module
            self._log.flags[module] = flag
        else:
            self._log.flags.pop(module, None)

    def _flag_read(self, module: torch.nn.Module) -> None:
        flag = self._log.flags.setdefault(module, Flag(False, None, []))
        flag.used |= flag.own or method_of(calling_frame()) is not None

    def _optimizer_made(self, optimizer: Any) -> None:
        site = self._line() if self._in_watched_thread() else None
        self._log.made[optimizer] = site, self._log.places.count

    def _step_begins(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if not self._in_watched_thread():
            return
        self._log.made.setdefault(optimizer, (None, self._log.places.count))
        closure = args[1] if len(args) > 1 else kwargs.get("closure")
        self._step = None if closure else calling_frame()
        if not closure:
            site = self._line()
            with out_of_sight():
                self._ask(self._rules(rules.STEP), optimizer, site)
        self._log.called.clear()

    def _step_ended(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if not self._in_watched_thread():
            return
        self._step = None
        log = self._log
        site = self._line()
        log.optimizers[optimizer] = site, log.count
        event = Event(log.count, "step", site)
        log.count += 1
        event.owner, event.grad = type(optimizer).__name__, False
        moved = [p for p in held_by(optimizer) if p.grad is not None]
        log.moved.update((id(p), event.index) for p in moved)
        event.writes = keys_of(moved)
        log.add(event)

    # --- rules ------------------------------------------------------------------------

    def _rules(self, of: Sequence[rules.Rule]) -> list[rules.Rule]:
        """Return those that are asked for and not turned off."""
        strict, without = self._log.strict, self._log.without
        return [r for r in of if r.name not in without and (strict or not r.strict)]

    def _ask(self, of: Sequence[rules.Rule], *about: Any) -> None:
        for rule in of:
            try:
                for finding in rule.look(self._log, *about):
                    if finding.rule not in self._log.without:
                        self._log.findings.add(finding)
            except Exception as error:
                self._log.findings.missed(
                    f"the rule {rule.name} failed: {type(error).__name__}: {error}"
                )


def _time_elsewhere() -> tuple[float, float]:
    """Return how long other threads have run, and processes that were started from here.

    Of processes, those that have ended.
    """
    times = os.times()
    threads = time.process_time() - time.thread_time()
    return threads, times.children_user + times.children_system


def is_leaf(t: Tensor) -> bool:
    """Tell whether no operation made t; a view that may not be differentiated raises."""
    try:
        return t.is_leaf
    except RuntimeError:  # its base was edited, outside of the no_grad that made it
        return False


def _holds_integers(t: Tensor) -> bool:
    return not (t.is_floating_point() or t.is_complex())


def _size_of_storage(t: Tensor) -> int:
    """Return how many numbers there are in the storage of a tensor."""
    if t.layout is not torch.strided or not has_numbers(t):
        return 0
    return t.untyped_storage().nbytes() // t.element_size()


def _by_gradcheck(frame: FrameType | None) -> bool:
    """Tell whether it is gradcheck that runs the operation which a frame has called."""
    return frame is not None and part_of_torch(frame.f_code.co_filename) == GRADCHECK


def _given_to_function(
    arguments: frozenset[int], leaves: Taken, inner: Taken
) -> frozenset[int]:
    """Return what a custom Function was given: leaves by ``id``, others by storage."""
    of_leaves = [id(t) for t, _ in leaves if id(t) in arguments]
    return frozenset([*of_leaves, *(key for t, key in inner if id(t) in arguments)])


def _made_by(t: Tensor, maker: Event) -> bool:
    """Tell whether a tensor has the node of the custom Function that made it."""
    try:
        node = t.grad_fn
    except RuntimeError:  # as in is_leaf: such a view is no result of a Function
        return False
    return node is not None and number_of(node) == maker.number


def readable(t: Tensor) -> bool:
    """Tell whether the numbers of a tensor may be looked at."""
    if type(t) not in PLAIN or t.layout is not STRIDED or not has_numbers(t):
        return False
    return not (t.is_cuda and torch.cuda.is_current_stream_capturing())


def _tensors(values: Any) -> list[Tensor]:
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, SEVERAL):
            found += _tensors(value)
    return found


def _is_part(root: torch.nn.Module, module: torch.nn.Module) -> bool:
    return id(module) in _parts_of(weakref.ref(root)) or any(
        part is module for part in root.modules()
    )


@functools.lru_cache(maxsize=64)
def _parts_of(root: Callable[[], torch.nn.Module | None]) -> frozenset[int]:
    module = root()
    return frozenset(map(id, module.modules() if module is not None else ()))
