"""The backward graph that torch keeps: its nodes, their names, and what they hold."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from torch import Tensor, no_grad
from torch.autograd.function import BackwardCFunction, Function
from torch.autograd.graph import Node as GraphNode
from torch.autograd.graph import get_gradient_edge

from pullback._site import Site
from pullback._torch import (
    accumulated_leaf,
    cotangent_bytes,
    cut_by,
    function_of,
    hooked_tensors,
    part_of_torch,
    saved_tensors_of,
    tensor_hooks,
)


class Graph:
    """The nodes that the roots reach, each before the inputs of its operation, named."""

    def __init__(
        self, roots: Sequence[Tensor], named: Mapping[str, Tensor], several: bool
    ) -> None:
        self.order = nodes_from([get_gradient_edge(root).node for root in roots])
        self.leaves = _leaves(self.order)
        self.operations = [node for node in self.order if node not in self.leaves]
        known: dict[GraphNode, str] = {}
        nodes, reached = set(self.order), set()
        for name, tensor in named.items():
            if tensor.requires_grad:
                node = get_gradient_edge(tensor).node
                known.setdefault(node, name)
                reached |= {name} if node in nodes else set()
        self.unreached = tuple(name for name in named if name not in reached)
        plain = [f"v[{i}]" if several else "v" for i in range(len(roots))]
        plain += [
            known.get(node, "leaf" if node in self.leaves else node.name())
            for node in self.order
        ]
        unique = _make_unique(plain)
        self.seeds = unique[: len(roots)]
        self.name = dict(zip(self.order, unique[len(roots) :], strict=True))

    def scopes(self) -> dict[GraphNode, str]:
        """Return the module that each node belongs to, told from its leaves' names.

        An operation belongs to the module whose parameter it reads, as it is or turned
        (``weight.T``); without one, to the module of the last operation it reads from.
        """
        position = {node: i for i, node in enumerate(self.order)}
        scope: dict[GraphNode, str] = {}
        parameters = set()  # leaves of a module, and those turned: weight.T
        for node in reversed(self.order):
            inputs = [target for target, _ in node.next_functions if target]
            inputs.sort(key=position.__getitem__)
            own = [i for i in inputs if i in parameters]
            others = [i for i in inputs if i not in parameters and i not in self.leaves]
            module = self.name[node].rpartition(".")[0] if node in self.leaves else ""
            scope[node] = next((scope[i] for i in (*own, *others)), module)
            turned = len(inputs) == len(own) == 1 and saved_tensors(node)[0] == 0
            if module or turned:
                parameters.add(node)
        return scope


def nodes_from(starts: Sequence[GraphNode]) -> list[GraphNode]:
    """Return the nodes reached from the starts, sources of edges before their targets."""
    finished: dict[GraphNode, None] = {}
    stack = [(node, False) for node in starts]
    while stack:
        node, inputs_done = stack.pop()
        if node in finished:
            continue
        if inputs_done:
            finished[node] = None
            continue
        stack.append((node, True))
        stack += [(t, False) for t, _ in node.next_functions if t and t not in finished]
    return list(reversed(finished))


def _make_unique(names: Sequence[str]) -> list[str]:
    """Number the names that occur more than once."""
    total, seen = Counter(names), Counter[str]()
    unique = []
    for name in names:
        seen[name] += 1
        unique.append(f"{name} #{seen[name]}" if total[name] > 1 else name)
    return unique


def _leaves(nodes: Sequence[GraphNode]) -> dict[GraphNode, Tensor]:
    """Return the leaf of each node that accumulates into one."""
    found = ((node, accumulated_leaf(node)) for node in nodes)
    return {node: leaf for node, leaf in found if leaf is not None}


@contextmanager
def restore_grads(nodes: Sequence[GraphNode]) -> Iterator[dict[GraphNode, list[str]]]:
    """Yield the hooks on tensors; give back the ``.grad`` of those that retain it.

    The graph has no way from a node to the tensor that it made, and the engine writes
    the ``.grad`` of a tensor with ``retain_grad()`` on its way: the tensors are found
    among all that Python knows of.
    """
    hooks: dict[GraphNode, list[str]] = {node: [] for node in nodes}
    # no get_gradient_edge() here: it makes a view, which a tensor left by vmap refuses
    node_of = {id(leaf): node for node, leaf in _leaves(nodes).items()}
    kept: list[tuple[Tensor, Tensor | None]] = []
    for t in hooked_tensors():
        try:
            node = node_of.get(id(t)) if t.is_leaf else t.grad_fn
        except RuntimeError:  # of unbind(), and edited since: its old node may be here
            if t.retains_grad:
                kept.append((t, t.grad))
            continue
        if node is None or node not in hooks:
            continue
        before, after = tensor_hooks(t)
        hooks[node] += ["tensor hook"] * before + ["post-accumulate hook"] * after
        if t.retains_grad and not t.is_leaf:
            hooks[node] += ["retain_grad"]
            kept.append((t, t.grad))
    try:
        yield hooks
    finally:
        for t, grad in kept:
            if t.grad is not grad:
                _give_back(t, grad)


def _give_back(t: Tensor, grad: Tensor | None) -> None:
    try:
        t.grad = grad
    except RuntimeError:  # of unbind(), and edited since: since 2.15 only None is taken
        if t.grad is None or grad is None:
            raise
        with no_grad():
            t.grad.copy_(grad)


@contextmanager
def keep_grads(y: Tensor) -> Iterator[None]:
    """Give back every ``.grad`` on the way from y, if it has a graph."""
    if y.grad_fn is not None:
        with restore_grads(nodes_from([y.grad_fn])):
            yield
    else:
        yield


def saved_tensors(node: GraphNode) -> tuple[int, int]:
    """Return how many tensors a node keeps, and their bytes, without unpacking them."""
    tensors = saved_tensors_of(node)
    return len(tensors), sum(getattr(t, "nbytes", 0) for t in tensors)


#: Ways to tell the line of the operation that a node was made for; a watch adds its own.
LINES: list[Callable[[GraphNode], str]] = []


def line_of(node: GraphNode) -> str:
    """Return the line that computed what a node differentiates, or an empty text."""
    lines = (tell(node) for tell in (*reversed(LINES), _line_kept_by_anomaly_mode))
    return next(filter(None, lines), "")


def _line_kept_by_anomaly_mode(node: GraphNode) -> str:
    """Return the line that anomaly mode has kept with a node."""
    for entry in reversed(_metadata(node).get("traceback_", ())):
        found = re.match(r'\s*File "(.*)", line (\d+)', entry)
        if found and not part_of_torch(found[1]):
            return str(Site(found[1], int(found[2])))
    return ""


def _metadata(node: GraphNode) -> dict[str, Any]:
    kept: Any = node.metadata  # a property of what runs, a method to type checkers
    return dict(kept)


class Reach(NamedTuple):
    """What :func:`reach` met on its way.

    Attributes:
        used: Which xs the ys reach.
        captured: Whether they reach another leaf.
        alone: Whether a node gives wrong products when several run together.
        custom: Whether they come through a ``torch.autograd.Function``.
        cut: By what they are cut off, if they are first derivatives that have none.
    """

    used: list[bool]
    captured: bool
    alone: bool
    custom: bool
    cut: str

    def check_whole(self) -> None:
        """Raise RuntimeError if something is cut off, whose derivative would be zero."""
        if self.cut:
            raise RuntimeError(self.cut)


#: Nodes whose backward is wrong under :func:`torch.func.vmap`, without an error.
ALONE = {"CdistBackward0"}

#: The node that ``once_differentiable`` puts in the place of a backward's graph.
CUT = "Error"


def reach(ys: list[Tensor], xs: list[Tensor]) -> Reach:
    """Walk the graph from the ys to the xs."""
    ends = [_edge(x) for x in xs]
    edges = [_edge(y) for y in ys if y.requires_grad]
    met: set[Any] = set()  # of the ends
    seen: set[Any] = {None}
    kinds: dict[type, Any] = {}  # and a node of each
    captured = False
    stop = {end[0] for end in ends}
    while edges:
        edge = edges.pop()
        node = edge[0]
        if node in seen:
            continue
        if node in stop:
            met.add(edge)
            continue
        seen.add(node)
        following = node.next_functions  # a new tuple at every look
        if following:
            edges += following
            kinds[type(node)] = node
        else:
            captured = True
    alone, custom, cut = False, False, ""
    for kind, node in kinds.items():
        name = kind.__name__
        alone = alone or name in ALONE
        if name == CUT:
            cut = cut or refusal("its backward is marked with once_differentiable")
        elif issubclass(kind, BackwardCFunction):
            custom = True
            cut = node.refusal if function_of(node) is _Cut else cut
    return Reach([end in met for end in ends], captured, alone, custom, cut)


def check_twice(ys: Sequence[Tensor], xs: Sequence[Tensor]) -> None:
    """Raise RuntimeError if on the way from the ys to the xs is no second derivative."""
    reason = refusal_on_the_way(ys, xs)
    if reason:
        raise RuntimeError(reason)


def refusal_on_the_way(ys: Sequence[Tensor], xs: Sequence[Tensor]) -> str:
    """Return why what leads from the ys to the xs has no second derivative, or nothing."""
    ends = {_edge(x) for x in xs if x.requires_grad}
    leads: set[Any] = set()
    for node in reversed(nodes_from([_edge(y)[0] for y in ys if y.requires_grad])):
        if any(edge in ends or edge[0] in leads for edge in node.next_functions):
            leads.add(node)
            reason = cut_by(node)
            if reason:
                return refusal(reason)
    return ""


def refusal(reason: str) -> str:
    """Return what to say where f has no second derivative, for that reason."""
    return (
        f"f has no second derivative: {reason} (torch.autograd.grad would leave it out, or "
        "give zeros); operations of torch that are differentiable twice are needed, in a "
        "backward without the mark, and if and for of Python in place of control flow"
    )


@contextmanager
def hidden_backwards(ys: Sequence[Tensor]) -> Iterator[list[str]]:
    """Yield a list, of custom Functions whose backward hides what it computes.

    To be known, backward runs in this block, with a graph, and from cotangents that require
    grad: what is not zero depends on them, so that without a graph it was made out of
    sight of torch, as in NumPy.
    """
    hidden: list[str] = []
    handles = []

    def look_at(node: GraphNode, name: str) -> None:
        def look(sent: Sequence[Any], received: Sequence[Any]) -> None:
            if any(v is not None and v.requires_grad for v in received):
                found = [w for w in sent if w is not None and not w.requires_grad]
                if any(not w.is_meta and bool(w.any()) for w in found):
                    hidden.append(name)

        handles.append(node.register_hook(look))

    for node in nodes_from([_edge(y)[0] for y in ys if y.requires_grad]):
        function = function_of(node)
        if function is not None:
            look_at(node, function.__qualname__)
    try:
        yield hidden
    finally:
        for handle in handles:
            handle.remove()


def cut_off(t: Tensor, refusal: str) -> Tensor:
    """Return t, from which no gradient comes back, but an error."""
    tip = t.new_zeros((), requires_grad=True)  # for t, cut off, may have no graph
    found: Tensor = _Cut.apply(t, tip, refusal)  # type: ignore[no-untyped-call]
    return found


class _Cut(Function):
    @staticmethod
    def forward(ctx: Any, t: Tensor, tip: Tensor, refusal: str) -> Tensor:
        ctx.refusal = refusal
        return t.view_as(t)

    @staticmethod
    def backward(ctx: Any, *vs: Tensor) -> None:
        raise RuntimeError(ctx.refusal)


def leads_to(ys: Sequence[Tensor], names: Container[str]) -> bool:
    """Tell whether the ys lead to a node whose class has one of the names."""
    todo: list[Any] = [y.grad_fn for y in ys]
    seen: set[Any] = set()
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        if type(node).__name__ in names:
            return True
        seen.add(node)
        todo += [following for following, _ in node.next_functions]
    return False


def bytes_on_the_way(ys: list[Tensor]) -> int:
    """Return the bytes that one product holds on its way through the graph.

    Counted as the two largest cotangents, one in and one out of a node, and as much
    again for what the node's formula makes in between.
    """
    todo: list[Any] = [y.grad_fn for y in ys]
    seen: set[Any] = set()
    sizes = [0, 0]
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        sizes += cotangent_bytes(node)
        todo += [following for following, _ in node.next_functions]
    return 2 * sum(sorted(sizes)[-2:])


def _edge(t: Tensor) -> tuple[Any, int]:
    if t.grad_fn is None:  # a leaf
        edge = get_gradient_edge(t)
        return edge.node, edge.output_nr
    return t.grad_fn, t.output_nr
