"""The picture of a trace: a sound layout, every edge told, large graphs collapsed."""

from copy import deepcopy
from itertools import combinations, pairwise

import matplotlib.pyplot as plt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import pullback
from pullback._layout import layout
from pullback._picture import picture


@pytest.fixture(autouse=True)
def no_open_figures():
    yield
    plt.close("all")


@st.composite
def acyclic(draw):
    pairs = st.tuples(st.integers(0, 14), st.integers(0, 14)).filter(lambda p: p[0] != p[1])
    edges = draw(st.lists(pairs, min_size=1, max_size=30))
    return [(f"n{min(pair)}", f"n{max(pair)}") for pair in edges]


@given(acyclic())
@settings(max_examples=60)
def test_layout(edges):
    places, routes = layout(edges)
    assert set(places) == {node for edge in edges for node in edge}
    for source, target in edges:
        assert places[source][1] < places[target][1], "arrows run downwards"
        route = routes[source, target]
        assert (route[0], route[-1]) == (places[source], places[target])
        assert all(b[1] - a[1] == 1 for a, b in pairwise(route)), "a point in each layer"
    for (x, y), (u, w) in combinations(places.values(), 2):
        assert y != w or abs(x - u) >= 1 - 1e-9, "nodes do not overlap"
    longest = max(y for _, y in places.values())
    assert longest == max(len(route) for route in _paths(edges)) - 1


def _paths(edges):
    """Every path, by brute force, from nodes without an arriving edge."""
    starts = {source for source, _ in edges} - {target for _, target in edges}
    stack = [[start] for start in starts]
    targets = dict.fromkeys(edges)
    while stack:
        path = stack.pop()
        onward = [target for source, target in targets if source == path[-1]]
        if not onward:
            yield path
        stack += [[*path, target] for target in onward]


def test_edges_of_a_diamond_do_not_cross():
    edges = [("v", "a"), ("v", "b"), ("a", "p"), ("b", "q"), ("a", "q"), ("b", "r")]
    shuffled = [edges[i] for i in (1, 0, 5, 3, 4, 2)]
    x = {node: place[0] for node, place in layout(shuffled).places.items()}
    assert (x["a"] < x["b"]) == (x["p"] < x["q"]) == (x["q"] < x["r"])


def chain(length):
    x = torch.ones(2, requires_grad=True)
    y = x
    for _ in range(length):
        y = y.sin() * x
    return pullback.trace(y.sum(), names={"x": x})


def blocks():
    torch.manual_seed(0)  # some weights, the same each time
    layers = torch.nn.Linear(3, 3), torch.nn.Tanh(), torch.nn.LayerNorm(3)
    net = torch.nn.Sequential(
        *(torch.nn.Sequential(*map(deepcopy, layers)) for _ in range(12))
    )
    return pullback.trace(net(torch.ones(2, 3)).sum(), names=net)


def test_small_graph_is_drawn_whole():
    traced = chain(3)
    boxes, arrows, _ = picture(traced, 50)
    names = {box.name for box in boxes}
    assert names == {"v", "x"} | {node.name for node in traced.nodes}
    assert {(a.source, a.target) for a in arrows} == {e[:2] for e in traced.edges}


@pytest.mark.parametrize("limit", [5, 20, 50])
@pytest.mark.parametrize("make", [lambda: chain(60), blocks], ids=["chain", "modules"])
def test_large_graph_is_collapsed_without_a_cycle(make, limit):
    traced = make()
    boxes, arrows, _ = picture(traced, limit)
    assert len(boxes) <= limit
    pairs = [(arrow.source, arrow.target) for arrow in arrows]
    places = layout(pairs).places
    assert set(places) == {box.name for box in boxes}
    assert all(places[a][1] < places[b][1] for a, b in pairs)
    members = sum(int(b.text.split("\n")[1].split()[0]) for b in boxes if b.kind == "group")
    single = sum(box.kind == "operation" for box in boxes)
    assert members + single == len(traced.nodes)


def test_groups_are_modules():
    boxes, *_ = picture(blocks(), 30)
    titles = [box.text.split("\n")[0] for box in boxes if "\n" in box.text]
    assert sorted(titles) == sorted({f"{i}.{j}" for i in range(12) for j in (0, 2)})
    boxes, *_ = picture(blocks(), 20)
    titles = [box.text.split("\n")[0] for box in boxes if "\n" in box.text]
    assert sorted(titles, key=int) == [str(i) for i in range(12)]


def test_a_root_that_is_a_leaf_in_a_large_graph():
    x = torch.ones(2, requires_grad=True)
    y, leaf = x, torch.ones((), requires_grad=True)
    for _ in range(60):
        y = y.sin()
    boxes, arrows, _ = picture(pullback.trace([y.sum(), leaf], names={"l.w": leaf}), 20)
    assert ("v[1]", "l.w") in {(arrow.source, arrow.target) for arrow in arrows}
    assert len(boxes) <= 20


def labels(ax):
    return {text.get_text(): text for text in ax.texts}


def test_labels_nan_and_zero():
    x = torch.tensor([0.0, 4.0], requires_grad=True)
    y = torch.where(x > 0, x.sqrt(), torch.zeros(2)).sum() + (x * 0).sum()
    ax = pullback.plot.trace(pullback.trace(y, names={"x": x}))
    texts = labels(ax)
    assert {"v", "x", "Sqrt", "Where", "[nan, 0.25]", "[0, 0]"} <= set(texts)
    assert texts["[nan, 0.25]"].get_color() == "tab:red"
    assert {line.get_linestyle() for line in ax.lines} == {"-", ":"}
    assert "the cotangent on every edge" in ax.get_title()


def test_two_edges_between_the_same_boxes_share_an_arrow():
    x = torch.tensor(3.0, requires_grad=True)
    texts = labels(pullback.plot.trace(pullback.trace(x * x)))
    assert "3\n3" in texts
    texts = labels(pullback.plot.trace(pullback.trace(torch.stack([x, x, x]).sum())))
    assert "3 edges\nnorm 1.73" in texts


def test_named_operations_and_large_cotangents():
    x = torch.ones(4, 5, requires_grad=True)
    h = x * 2
    texts = labels(pullback.plot.trace(pullback.trace(h.sum(), names={"h": h})))
    assert {"h\nMul", "(4, 5)\nnorm 4.47"} <= set(texts)


def test_dark_style_and_given_axes():
    traced = chain(2)
    with plt.style.context("dark_background"):
        ax = pullback.plot.trace(traced)
    assert labels(ax)["v"].get_bbox_patch().get_facecolor()[:3] == (0, 0, 0)
    _, mine = plt.subplots()
    assert pullback.plot.trace(traced, mine) is mine


def test_limit_too_low():
    with pytest.raises(ValueError, match="limit is 4"):
        pullback.plot.trace(chain(2), limit=4)
