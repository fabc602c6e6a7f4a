"""The log: each operation that ran, the backward passes, and what was seen of the rest."""

from __future__ import annotations

import weakref
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from pullback._torch import storage_key, unwrap
from pullback._watch.findings import Findings, Site
from pullback._watch.flags import Flag
from pullback._watch.functions import Calls, Function
from pullback._watch.places import Places
from pullback._watch.switched_off import Around

KEPT = 20_000  # operations; a step of a small network is some hundred
SHARES = 8  # of a sum
FORWARD = -1  # where the number of a backward pass would stand
ZEROING = {"zero_", "_foreach_zero_", "fill_"}  # how gradients are cleared in place


class Sources(NamedTuple):
    """What an operation of a forward pass took, as far as it has to do with graphs.

    Attributes:
        inner: Storages of the tensors that have a graph.
        leaves: The leaves that require a gradient, by ``id``.
        given: Those of both that the custom Function around was given.
        parted: Storages of the tensors that share the numbers of one that has a graph and
            have none themselves, and the operation that made them so.
        given_back: Storages of what custom Functions returned, and the numbers of their
            nodes.
        function: The custom Function in whose forward this is, if any.
    """

    inner: tuple[int, ...]
    leaves: tuple[int, ...]
    given: frozenset[int]
    parted: dict[int, Event]
    given_back: dict[int, int]
    function: Function | None


class Event:
    """One operation that ran.

    Tensors are known by their storages, which views share. A storage may get the key of
    one that is gone: what happened to a tensor is what has the key and came after it.

    Attributes:
        index: Its place among all operations.
        op: Its name, such as ``"mul"`` or ``"add_"``; ``"step"`` for an optimizer's.
        site: The line that called it, the nearest outside torch; in backward, the line
            of the operation whose backward it is part of.
        number: Number of the node that autograd made for it, or of one before it.
        run: Number of the backward pass that it is part of, or ``FORWARD``.
        node: Name of the node in whose backward it ran, and the number of that node.
        grad: Whether gradients were enabled.
        reads: Storages of the tensors that it took.
        live: Those of them that required a gradient.
        makes: Storages that it made.
        writes: Storages that it wrote into.
        room: How many numbers there are in the storage that it wrote into.
        shape: Shape of its first result.
        total: Sum of its first result, None where that was not looked at.
        integers: Storages of those of its results that hold integers or booleans.
        recorded: Whether autograd made a node for it.
        owner: Name of the optimizer whose step it is; ``"torch"`` for a number that torch
            itself read.
        sources: Of an operation of a forward pass whose inputs have to do with a graph,
            what they are.
        until: Last line of the call that makes a tensor of numbers, else 0.
    """

    __slots__ = (
        "grad",
        "index",
        "integers",
        "live",
        "makes",
        "node",
        "node_number",
        "number",
        "op",
        "owner",
        "reads",
        "recorded",
        "room",
        "run",
        "shape",
        "site",
        "sources",
        "total",
        "until",
        "writes",
    )

    def __init__(self, index: int, op: str, site: Site | None, run: int = FORWARD) -> None:
        self.index, self.op, self.site, self.run = index, op, site, run
        self.number = self.node_number = -1
        self.node = self.owner = ""
        self.grad = True
        self.reads: tuple[int, ...] = ()
        self.live: tuple[int, ...] = ()
        self.makes: tuple[int, ...] = ()
        self.writes: tuple[int, ...] = ()
        self.room = 0
        self.shape: tuple[int, ...] = ()
        self.total: float | None = None
        self.integers: tuple[int, ...] = ()
        self.recorded = False
        self.sources: Sources | None = None
        self.until = 0

    @property
    def function(self) -> Function | None:
        """The custom Function in whose forward it ran, if it took what has a graph."""
        return self.sources.function if self.sources is not None else None

    @property
    def integer(self) -> bool:
        """Whether all that it gives are integers or booleans."""
        return bool(self.integers) and {*self.makes, *self.writes} <= {*self.integers}

    @property
    def of_shapes(self) -> bool:
        """Whether it takes no numbers, only a shape."""
        return self.op.endswith("_like") or self.op.startswith("new_")

    @property
    def clears(self) -> bool:
        """Whether it is one of those that set gradients to zero."""
        return self.op in ZEROING


class Moment(NamedTuple):
    """An operation that has run a moment ago, with its tensors, which the log lets go.

    Attributes:
        event: What the log keeps of it.
        args: What it took, in the order of its arguments.
        kwargs: What it took by name.
        inputs: The tensors among both.
        outputs: The tensors that it gave.
        node: The node in whose backward it ran, or None.
    """

    event: Event
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    inputs: Sequence[Tensor]
    outputs: Sequence[Tensor]
    node: Any


@dataclass
class Call:
    """A backward pass that begins, as it was asked for.

    Attributes:
        run: Its number.
        site: The line that asked.
        accumulates: Whether it fills ``.grad``, as ``backward`` does and ``grad`` not.
        create_graph: Whether it makes a graph of its own.
        roots: What it starts from; let go when it has begun.
        cotangents: What it starts with, each with the shape of its root.
        given: The argument ``gradient``, ``grad_tensors`` or ``grad_outputs``.
        inputs: The tensors that it is restricted to, if any.
        keys: The storages of the roots.
        begun: Index of the first operation in it.
        restricted: Whether there were such inputs.
    """

    run: int
    site: Site | None
    accumulates: bool
    create_graph: bool
    roots: Sequence[Any]
    cotangents: Sequence[Any]
    given: Any
    inputs: Sequence[Any]
    keys: tuple[int, ...]
    begun: int
    restricted: bool = False

    def let_go(self) -> None:
        """Keep no tensor alive."""
        self.roots = self.cotangents = self.inputs = ()
        self.given = None


class Added(NamedTuple):
    """What backward added to a gradient last.

    Attributes:
        event: The operation that did.
        key: The storage of the leaf then.
        call: The backward pass.
        cleared: Whether the gradient had been set to zero since the addition before.
        stale: Whether it was the gradient of an earlier step.
    """

    event: Event
    key: int
    call: Call | None
    cleared: bool
    stale: bool


class Share(NamedTuple):
    """What one backward pass has put into a gradient, or added to it.

    Attributes:
        run: The number of the pass.
        at: Index of the operation that did.
        key: The storage of the gradient.
    """

    run: int
    at: int
    key: int


@dataclass(eq=False)
class Leaf:
    """A tensor that requires a gradient and that no operation made.

    Attributes:
        tensor: The tensor, weakly.
        key: Its storage.
        first: Index of the operation that used it first.
        site: The line that used it first.
        name: Name of a variable there that holds it.
        used: Whether an operation that is differentiated has taken it.
        version: How often it had been written into when forward used it last.
        total: Sum of its numbers then.
        arrivals: How many gradients have arrived, one in each backward pass.
        arrived: The pass in which the last one did.
        last: Index of the last operation that stored one.
        nonzero: Whether one of them was not all zeros.
        asked: Whether a backward was restricted to it, among others.
        returned: Whether its gradient was returned, as by ``torch.autograd.grad``.
        added: What was added to its gradient last.
        shares: What its gradient is the sum of, the last ones.
        reason: Why none arrived, as far as is known.
        looks: How often the reason was looked for.
    """

    tensor: weakref.ref[Tensor]
    key: int
    first: int
    site: Site | None
    name: str
    used: bool = False
    version: int = -1
    total: float | None = None
    arrivals: int = 0
    arrived: int = FORWARD
    last: int = -1
    nonzero: bool = False
    asked: bool = False
    returned: bool = False
    added: Added | None = None
    shares: tuple[Share, ...] = ()
    reason: Any = None
    looks: int = 0


class Memory:
    """What the rules of one trap keep: a dataclass beside them, whose fields have defaults.

    It begins empty and goes with the log, at the end of the block. What it knows by a
    storage or by the number of a node, of which new ones come with every step, it drops
    before that, in :meth:`forget`.
    """

    def forget(self, before: int) -> None:
        """Drop what operations before this index have left, as the log does."""


M = TypeVar("M", bound=Memory)


class Lines(NamedTuple):
    """What one log hands on to the next, so that it knows the lines of earlier operations.

    Attributes:
        of_number: The operation for which each node was made.
        writers: The operations that wrote into each storage, the last ones.
        seen: How many operations there were.
    """

    of_number: dict[int, Event]
    writers: dict[int, deque[Event]]
    seen: int


@dataclass
class Log:
    """All that is known of a watched program.

    Attributes:
        findings: What the rules have found.
        strict: Whether what correct programs do on purpose counts, too.
        without: The rules that are turned off.
        events: The last operations.
        of_number: The operation for which each node was made.
        makers: The operation that made each storage.
        writers: The operations that wrote into each storage, the last ones.
        detached: The operation that last detached a tensor of a storage.
        parted: The operation that made a tensor, by its ``id``, which shares the numbers of
            one that has a graph, and has none.
        leaves: The leaves that operations took, by ``id``.
        leaf_of: The leaf that has a storage.
        modules: The modules that were called by no other.
        called: Those that were called since the last step, where gradients are enabled:
            whether in training mode, and on which line.
        hidden: What they called beside their own parts, and on which line.
        flags: The modules that have an attribute ``requires_grad`` of their own.
        optimizers: The optimizers that made a step: the line of the last one, and its
            place among the operations.
        made: The optimizers that are there: the line that made each, if that was seen,
            and when it was made, in the time of the places; or else when it made a step.
        moved: What they moved, by ``id``: it had a gradient, if one set by hand; and when
            they did so last.
        off: What stood around the lines that took what has to do with a graph, and ran
            without gradients.
        places: Where the parameters were put that the program has made.
        kept: Leaves that are kept alive, to be asked at the end: parameters, and a few
            others.
        call: The backward pass that runs, or ran last.
        of_run: The backward passes that have run, by their numbers, the last ones.
        passes: How many there were.
        calls: How many of them fill ``.grad``.
        count: How many operations there were.
        begun: How many of them an earlier log has seen.
        compares: Whether the backward of custom Functions is to be compared.
        functions: The custom Functions of the program that ran, each with what it was
            called with at some of its calls, if it is to be compared.
        called_at: Number of the node of the one that ran last.
        memories: What the rules keep, by its kind.
    """

    findings: Findings
    strict: bool
    without: frozenset[str] = frozenset()
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=KEPT))
    of_number: dict[int, Event] = field(default_factory=dict)
    makers: dict[int, Event] = field(default_factory=dict)
    writers: dict[int, deque[Event]] = field(
        default_factory=lambda: defaultdict(lambda: deque(maxlen=8))
    )
    detached: dict[int, Event] = field(default_factory=dict)
    parted: dict[int, Event] = field(default_factory=dict)
    leaves: dict[int, Leaf] = field(default_factory=dict)
    leaf_of: dict[int, Leaf] = field(default_factory=dict)
    modules: dict[torch.nn.Module, None] = field(default_factory=dict)
    called: dict[torch.nn.Module, tuple[bool, Site | None]] = field(default_factory=dict)
    hidden: dict[torch.nn.Module, Any] = field(default_factory=dict)
    flags: MutableMapping[torch.nn.Module, Flag] = field(
        default_factory=weakref.WeakKeyDictionary
    )
    optimizers: dict[Any, tuple[Site | None, int]] = field(default_factory=dict)
    made: MutableMapping[Any, tuple[Site | None, int]] = field(
        default_factory=weakref.WeakKeyDictionary
    )
    moved: dict[int, int] = field(default_factory=dict)
    off: dict[Site | None, tuple[Around, ...]] = field(default_factory=dict)
    places: Places = field(default_factory=Places)
    kept: list[Tensor] = field(default_factory=list)
    call: Call | None = None
    of_run: dict[int, Call] = field(default_factory=dict)
    passes: int = 0
    calls: int = 0
    count: int = 0
    begun: int = 0
    compares: bool = False
    functions: dict[Any, Calls] = field(default_factory=dict)
    called_at: int = -1
    memories: dict[type[Memory], Memory] = field(default_factory=dict)

    def memory(self, kind: type[M]) -> M:
        """Return what the rules of one trap keep."""
        kept = self.memories.get(kind)
        if not isinstance(kept, kind):
            self.memories[kind] = kept = kind()
        return kept

    @property
    def lines(self) -> Lines:
        """What the next log may go on from; it keeps no tensor alive."""
        return Lines(self.of_number, self.writers, self.count)

    def go_on(self, lines: Lines) -> None:
        """Know the lines of what an earlier log has seen."""
        self.of_number, self.writers, self.count = lines
        self.begun = self.count

    def add(self, event: Event) -> None:
        """Keep an operation, and forget the oldest now and then."""
        self.events.append(event)
        for key in event.makes:
            self.makers[key] = event
        for key in event.writes:
            self.writers[key].append(event)
        if event.op == "detach" and event.live and event.run == FORWARD:
            self.detached[event.live[0]] = event
        if event.index % KEPT == 0:
            self._forget(event.index - KEPT)

    def _forget(self, before: int) -> None:
        tables: Sequence[dict[int, Event]] = (
            self.of_number,
            self.makers,
            self.detached,
            self.parted,
        )
        for table in tables:
            drop(table, before)
        for memory in self.memories.values():
            memory.forget(before)
        for key in [key for key, of in self.writers.items() if of[-1].index < before]:
            del self.writers[key]
        for leaves in (self.leaves, self.leaf_of):
            for key in [key for key, leaf in leaves.items() if leaf.tensor() is None]:
                del leaves[key]
        self.places.forget()
        for run in [run for run, call in self.of_run.items() if call.begun < before]:
            del self.of_run[run]

    def leaf(self, t: Tensor) -> Leaf | None:
        """Return what is known of a leaf, if it was used."""
        leaf = self.leaves.get(id(t))
        return leaf if leaf is not None and leaf.tensor() is t else None

    def made_for(self, number: int) -> Event | None:
        """Return the operation for which the node of this number was made."""
        return self.of_number.get(number)

    def writes_since(self, key: int, index: int) -> list[Event]:
        """Return the operations that wrote into a storage after the one of this index."""
        return [e for e in self.writers.get(key, ()) if e.index > index]

    def held(self) -> dict[int, Tensor]:
        """Return the tensors that the optimizers hold, by ``id``."""
        return {id(p): p for optimizer in self.optimizers for p in held_by(optimizer)}

    def named(self) -> dict[int, tuple[str, Tensor]]:
        """Return the parameters of the modules that ran, by ``id``, with their names.

        Where two modules have a parameter of one name, each is called after its module.
        """
        found: dict[int, tuple[str, Tensor]] = {}
        of: dict[int, str] = {}
        kinds = Counter(type(module) for module in self.modules)
        ran: Counter[type] = Counter()
        for module in tuple(self.modules):
            kind = type(module)
            ran[kind] += 1
            number = f" {ran[kind]}" if kinds[kind] > 1 else ""
            for name, parameter in module.named_parameters():
                found.setdefault(id(parameter), (name, parameter))
                of.setdefault(id(parameter), f" of {kind.__name__}{number}")
        shared = Counter(name for name, _ in found.values())
        return {
            key: (name + of[key] if shared[name] > 1 else name, parameter)
            for key, (name, parameter) in found.items()
        }

    def name_of(self, t: Tensor) -> str:
        """Return the name of a tensor in its module, of its variable, or what it is."""
        named = self.named().get(id(t))
        leaf = self.leaf(t)
        if named:
            return named[0]
        if leaf and leaf.name:
            return leaf.name
        stood = self.places.name_of(t)
        return f"{stood} (the old one)" if stood else f"a tensor of shape {tuple(t.shape)}"

    def forward_events(self) -> Iterator[Event]:
        """Yield the operations that are kept and were no part of a backward pass."""
        return (event for event in tuple(self.events) if event.run == FORWARD)


def drop(table: dict[int, Event], before: int) -> None:
    """Drop the operations before an index from a table."""
    for key in [key for key, event in table.items() if event.index < before]:
        del table[key]


def held_by(optimizer: Any) -> list[Tensor]:
    """Return the tensors that an optimizer holds."""
    return [p for group in optimizer.param_groups for p in group["params"]]


def keys_of(tensors: Sequence[Any]) -> tuple[int, ...]:
    """Return the storages of those of the tensors that have one."""
    return tuple(
        [
            storage_key(unwrap(t))
            for t in tensors
            if isinstance(t, Tensor) and t.layout is torch.strided
        ]
    )


def operation_of(node: str) -> str:
    """Return the name of an operation from that of its node: Mul of MulBackward0."""
    return node.rstrip("0123456789").removesuffix("Backward")
