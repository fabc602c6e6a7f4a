"""The cotangent on every edge of the backward graph, as it travels back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.autograd.graph import Node as GraphNode

from pullback._cotangents import SMALL, Cotangents, Edge, Leaf, Node, numbers
from pullback._graph import Graph, line_of, restore_grads, saved_tensors
from pullback._inputs import Untouched, check_numbers, kind_of
from pullback._report import Table
from pullback._steps import Steps, walk
from pullback._torch import hook_count

E = TypeVar("E")
G = TypeVar("G")

ROWS = 60  # edges up to which the table prints them all


class Trace(NamedTuple):
    """What :func:`trace` saw, as tables; :meth:`steps` walks through it.

    :func:`pullback.plot.trace` draws it.

    Attributes:
        edges: Every edge, in the order in which cotangents travelled.
        nodes: Every operation, in the order in which backward ran it.
        leaves: Every leaf that the graph reaches.
        unreached: Those of ``names`` that no edge leads to.
    """

    edges: tuple[Edge, ...]
    nodes: tuple[Node, ...]
    leaves: tuple[Leaf, ...]
    unreached: tuple[str, ...]

    @property
    def nan_origins(self) -> tuple[Edge, ...]:
        """The edges that carry a NaN although none arrived at their source."""
        return self._origins(lambda edge: edge.nan, any)

    @property
    def infinite_origins(self) -> tuple[Edge, ...]:
        """The edges that carry an infinity although none arrived at their source.

        A later operation may have made a NaN of it: 0 times infinity.
        """
        return self._origins(lambda edge: edge.infinite, any)

    @property
    def zero_origins(self) -> tuple[Edge, ...]:
        """The edges that carry zeros only although something else arrived."""
        return self._origins(lambda edge: edge.zero, all)

    def steps(self) -> Steps:
        """Walk through the graph: what each node receives, and what it passes on.

        It prints as a numbered list. In a notebook, or on a page, it is the picture of
        the graph with two buttons, for mouse, touch and keyboard; a screen reader hears
        each step. ``.html`` is one fragment of less than 30 KB that asks for nothing
        else, and without scripts shows the picture and the list.

        A graph of more than 24 operations and leaves is walked through by modules, the
        deepest that make so few steps; they are known where ``names`` gives parameters
        the names that they have in the module. Where no module is known, or there are
        too many, a step is a number of operations that follow one another.

        Returns:
            A :class:`Steps`, whose ``.steps`` are in the order of the engine.

        Examples:
            >>> import torch, pullback
            >>> w, x = torch.tensor(3.0, requires_grad=True), torch.tensor(2.0)
            >>> pullback.trace((w * x).square(), names={"w": w}).steps()
            Backward, step by step
            1. v = 1 starts at Pow.
            2. Pow receives 1 from v; it passes 12 to Mul.
            3. Mul receives 12 from Pow; it passes 24 to w.
            4. w receives 24 from Mul; backward adds it to .grad.
        """
        return walk(Cotangents(self.edges, self.nodes, self.leaves))

    def __repr__(self) -> str:
        return "\n\n".join(table.text() for table in self._tables())

    def _repr_html_(self) -> str:
        return "".join(table.html() for table in self._tables())

    def _origins(
        self, has: Callable[[Edge], bool], of: Callable[[Iterator[bool]], bool]
    ) -> tuple[Edge, ...]:
        arrived: dict[str, list[Edge]] = {}
        for edge in self.edges:
            arrived.setdefault(edge.target, []).append(edge)
        return tuple(
            edge
            for edge in self.edges
            if has(edge)
            and not (edge.source in arrived and of(has(e) for e in arrived[edge.source]))
        )

    def _places(self, edges: Sequence[Edge]) -> str:
        lines = {node.name: f" ({node.line})" for node in self.nodes if node.line}
        first = [
            f"from {edge.source}{lines.get(edge.source, '')} to {edge.target}"
            for edge in edges[:3]
        ]
        more = [f"and {len(edges) - 3} more"] if len(edges) > 3 else []
        return "; ".join([*first, *more]) or "nowhere"

    def _tables(self) -> list[Table]:
        lines = {node.name: node.line for node in self.nodes if node.line}
        columns = ["from", "to", "shape", "norm", "cotangent", *["line"][: len(lines)]]
        edges = [
            [
                edge.source,
                edge.target,
                "nothing" if edge.shape is None else str(tuple(edge.shape)),
                "" if edge.norm is None else f"{edge.norm:.4g}",
                _value(edge),
                lines.get(edge.source, ""),
            ][: len(columns)]
            for edge in self.edges[:ROWS]
        ]
        if len(self.edges) > ROWS:
            more = f"and {len(self.edges) - ROWS} more, in .edges"
            edges += [[more, *[""] * (len(columns) - 1)]]
        leaves = [
            [
                leaf.name,
                str(tuple(leaf.shape)),
                str(leaf.edges),
                "nothing" if leaf.total is None else numbers(leaf.total),
                "added to what .grad holds" if leaf.holds else ".grad is empty",
            ]
            for leaf in self.leaves
        ]
        leaves += [
            [name, "", "0", "nothing: no edge leads here", ""] for name in self.unreached
        ]
        return [
            Table("What backward does here", (), self._summary()),
            Table(
                "The cotangent on every edge, in the order of travel",
                tuple(columns),
                edges,
            ),
            Table(
                "What the leaves receive",
                ("leaf", "shape", "edges", "sum", "then"),
                leaves,
            ),
        ]

    def _summary(self) -> list[list[str]]:
        hooked = [(node.name, node.hooks) for node in self.nodes if node.hooks]
        hooked += [(leaf.name, leaf.hooks) for leaf in self.leaves if leaf.hooks]
        hooks = [f"{', '.join(hooks)} at {name}" for name, hooks in hooked]
        saved = sum(node.saved for node in self.nodes)
        size = sum(node.saved_bytes for node in self.nodes)
        graph = [
            f"{n} {one if n == 1 else more}"
            for n, one, more in (
                (len(self.edges), "edge", "edges"),
                (len(self.nodes), "operation", "operations"),
                (len(self.leaves), "leaf", "leaves"),
            )
        ]
        infinite = self.infinite_origins  # of which most graphs need not speak
        return [
            ["graph", ", ".join(graph)],
            *([["infinity first appears", self._places(infinite)]] if infinite else []),
            ["NaN first appears", self._places(self.nan_origins)],
            ["all zeros first appear", self._places(self.zero_origins)],
            ["saved tensors", f"{saved}, {size} bytes, kept" if saved else "none"],
            ["hooks", "; ".join(hooks) or "none"],
        ]


def trace(
    y: Tensor | Sequence[Tensor],
    v: Tensor | Sequence[Tensor | None] | None = None,
    *,
    names: Mapping[str, Tensor | torch.nn.Module] | torch.nn.Module | None = None,
) -> Trace:
    r"""Follow the cotangent back from y: what travels along every edge of the graph.

    On the edge from an operation to an input of it travels the arriving cotangent times
    the operation's own derivative; where edges meet, cotangents add up (Griewank and
    Walther, *Evaluating Derivatives*, 2008, section 3.2).

    The engine runs once, as :func:`torch.autograd.grad` with respect to all leaves and
    with ``retain_graph=True``, and hooks on the nodes look on
    (``torch.autograd.graph.Node.register_hook``). Nothing is accumulated in any
    ``.grad``, also not in that of a tensor with ``retain_grad()``, the graph is kept, and
    no hook stays, also when backward raises. **Your own hooks run**, as in any backward,
    because what they return is what travels; what else they do, they do. Hooks that wait
    for accumulation in a leaf do not run, because none happens.

    Args:
        y: The tensor that backward would start from, computed with a graph, or a
            sequence of them.
        v: Cotangent with exactly y's shape, or one for each of several y; may be left out
            (None) for a y of one element, where it is 1.
        names: Names for leaves and intermediate tensors, or a module whose parameters'
            names are taken. In a mapping a module gives its name to its parameters
            (``"net.0.weight"``), and ``""`` stands for none: ``{"": net, "x": x}``. What
            it does not name is called by its operation.

    Returns:
        A :class:`Trace`: ``.edges``, ``.nodes``, ``.leaves``, where infinities, NaN or
        zeros first appear, a text form, a rich one in notebooks, and ``.steps()``. With
        the line that computed what an operation differentiates, where it is known: when y
        was computed inside of :func:`pullback.watch`, and this is, or when y was computed
        under :class:`torch.autograd.set_detect_anomaly`.

    Raises:
        TypeError: y or v is no tensor (or sequence of tensors), or names is no mapping.
        ValueError: v does not have y's shape, there are more or fewer v than y, or y or v
            is on the meta device.
        RuntimeError: y has no graph, or v is left out for a y of several elements. What
            backward itself raises (a graph whose saved tensors are freed, say) comes
            through, with a note that names the operation that raised.

    Examples:
        >>> import torch, pullback
        >>> w, x = torch.tensor(3.0, requires_grad=True), torch.tensor(2.0)
        >>> y = (w * x).square()
        >>> for edge in pullback.trace(y, names={"w": w}).edges:
        ...     print(edge.source, "->", edge.target, edge.value)
        v -> PowBackward0 tensor(1.)
        PowBackward0 -> MulBackward0 tensor(12.)
        MulBackward0 -> w tensor(24.)
    """
    roots, cotangents = _roots(y, v)
    graph = Graph(roots, _tensor_by_name(names), several=not isinstance(y, Tensor))
    return seen(graph, roots, cotangents, graph.leaves)


def seen(
    graph: Graph,
    roots: Sequence[Tensor],
    cotangents: Sequence[Tensor],
    leaves: Mapping[GraphNode, Tensor],
) -> Trace:
    """Look on while the engine runs for these leaves."""
    with Untouched(), restore_grads(graph.order) as hooks:
        way = follow(graph, roots, cotangents, leaves, _edge, _copy, hooks)
    scope, arrivals = graph.scopes(), Counter(edge.target for edge in way.edges)
    nodes = [
        Node(
            graph.name[n],
            n.name(),
            *way.saved[n],
            tuple(hooks[n]),
            scope[n],
            way.received[n],
            line_of(n),
        )
        for n in way.received
    ]
    received = [
        Leaf(
            name=graph.name[node],
            shape=variable.shape,
            edges=arrivals[graph.name[node]],
            total=total,
            holds=variable.grad is not None,
            hooks=tuple(hooks[node]),
        )
        for (node, variable), total in zip(leaves.items(), way.totals, strict=True)
    ]
    return Trace(tuple(way.edges), tuple(nodes), tuple(received), graph.unreached)


class Way(NamedTuple, Generic[E, G]):
    """What was seen on the way back, in its order."""

    edges: list[E]
    received: dict[GraphNode, tuple[G | None, ...]]
    totals: Sequence[Tensor | None]
    saved: dict[GraphNode, tuple[int, int]]


def follow(
    graph: Graph,
    roots: Sequence[Tensor],
    cotangents: Sequence[Tensor],
    leaves: Iterable[GraphNode],
    edge: Callable[[str, str, Tensor | None], E],
    copy: Callable[[Tensor], G | None],
    hooks: dict[GraphNode, list[str]],
) -> Way[E, G]:
    """Run the engine for some leaves; keep something of every edge and every arrival.

    The hooks on nodes are added to those that are known.
    """
    edges = [
        edge(seed, graph.name[get_gradient_edge(root).node], sent)
        for seed, root, sent in zip(graph.seeds, roots, cotangents, strict=True)
    ]
    running: list[GraphNode] = []
    received: dict[GraphNode, tuple[G | None, ...]] = {}

    def enter(node: GraphNode) -> Callable[..., None]:
        def look(arrived: Sequence[Tensor | None]) -> None:
            running.append(node)
            received[node] = tuple(None if g is None else copy(g) for g in arrived)

        return look

    def leave(node: GraphNode) -> Callable[..., None]:
        def look(sent: Sequence[Tensor | None], arrived: object) -> None:
            running.remove(node)
            for (target, _), cotangent in zip(node.next_functions, sent, strict=True):
                if target is not None:
                    edges.append(edge(graph.name[node], graph.name[target], cotangent))

        return look

    with ExitStack() as stack:
        for node in graph.operations:
            for kind, handle in (
                ("pre-hook", node.register_prehook(enter(node))),
                ("post-hook", node.register_hook(leave(node))),
            ):
                stack.callback(handle.remove)
                hooks[node] += [kind] * (hook_count(handle) - 1)
        saved = {node: saved_tensors(node) for node in graph.operations}
        try:
            totals = torch.autograd.grad(
                roots,
                [GradientEdge(leaf, 0) for leaf in leaves],
                cotangents,
                retain_graph=True,
                allow_unused=True,
            )
        except Exception as error:
            if running:
                error.add_note(f"pullback.trace: raised in {graph.name[running[-1]]}")
            raise
    return Way(edges, received, totals, saved)


def _edge(source: str, target: str, cotangent: Tensor | None) -> Edge:
    if cotangent is None:
        return Edge(source, target, None, None, None, nan=False, zero=True)
    g = cotangent.detach()
    numbers = g if g.layout is torch.strided else g.coalesce().values()
    wide = numbers.to(torch.complex128 if g.is_complex() else torch.float64)
    return Edge(
        source,
        target,
        g.shape,
        float(torch.linalg.vector_norm(wide)),
        _copy(g),
        nan=bool(numbers.isnan().any()),
        infinite=bool(numbers.isinf().any()),
        zero=numbers.numel() > 0 and not numbers.any(),
    )


def _copy(g: Tensor) -> Tensor | None:
    return g.detach().to_dense().clone() if g.numel() <= SMALL else None


def _roots(y: Any, v: Any) -> tuple[list[Tensor], list[Tensor]]:
    """Return the roots and their cotangents, checked."""
    several = not isinstance(y, Tensor)
    if several and (not isinstance(y, Sequence) or isinstance(y, str) or not y):
        raise TypeError(f"y is {y!r}; a tensor, or a sequence of at least one, is needed")
    roots = list(y) if several else [y]
    if several and not (v is None or isinstance(v, Sequence)):
        raise TypeError(f"v is {kind_of(v)}; a sequence, one for each y, is needed")
    given = [None] * len(roots) if v is None else list(v) if several else [v]
    if len(given) != len(roots):
        raise ValueError(
            f"v has {len(given)} items and y has {len(roots)}; one each is needed"
        )
    cotangents = []
    for i, (root, cotangent) in enumerate(zip(roots, given, strict=True)):
        at = f"[{i}]" if several else ""
        if not isinstance(root, Tensor):
            raise TypeError(f"y{at} is {kind_of(root)}; a tensor is needed")
        if not root.requires_grad:
            raise RuntimeError(
                f"y{at} has no graph (requires_grad is False); a y computed from a tensor "
                "with requires_grad=True is needed"
            )
        check_numbers(f"y{at}", root)
        if cotangent is None and root.numel() != 1:
            raise RuntimeError(
                f"v{at} was left out and y{at} has shape {tuple(root.shape)}; a v of that "
                "shape is needed (only for one element does backward take v = 1)"
            )
        if cotangent is None:
            cotangent = torch.ones_like(root)
        if not isinstance(cotangent, Tensor):
            raise TypeError(f"v{at} is {kind_of(cotangent)}; a tensor is needed")
        check_numbers(f"v{at}", cotangent)
        if cotangent.is_complex() and not root.is_complex():
            raise TypeError(
                f"v{at} has dtype {cotangent.dtype} and y{at} has dtype {root.dtype}; a "
                "real dtype is needed"
            )
        if cotangent.shape != root.shape:
            raise ValueError(
                f"v{at} has shape {tuple(cotangent.shape)} and y{at} has shape "
                f"{tuple(root.shape)}; exactly y's shape is needed"
            )
        cotangents.append(cotangent)
    return roots, cotangents


def _tensor_by_name(names: Any) -> dict[str, Tensor]:
    if names is None:
        return {}
    if isinstance(names, torch.nn.Module):
        return dict(names.named_parameters())
    if not isinstance(names, Mapping):
        raise TypeError(f"names is {kind_of(names)}; a dict or a module is needed")
    found: dict[str, Tensor] = {}
    for name, tensor in names.items():
        if not isinstance(name, str):
            raise TypeError(f"names has the key {name!r}; a str is needed")
        if isinstance(tensor, torch.nn.Module):
            found |= dict(tensor.named_parameters(prefix=name))
            continue
        if not isinstance(tensor, Tensor):
            raise TypeError(f"names[{name!r}] is {kind_of(tensor)}; a tensor is needed")
        found[name] = tensor
    return found


def _value(edge: Edge) -> str:
    if edge.value is not None:
        return numbers(edge.value)
    if edge.infinite and not edge.nan:
        return "has infinities"
    return "has NaN" if edge.nan else "zeros" if edge.zero else ""
