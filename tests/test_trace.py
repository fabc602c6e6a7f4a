"""Trace sees what travels on every edge, and leaves everything as it was."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd.graph import get_gradient_edge
from torch.utils.checkpoint import checkpoint

import pullback


def small_graph():
    """L = 10 - (w3 b + w4 c), b = w1 a, c = w2 a, with a = 4."""
    w1, w2, w3, w4 = (torch.tensor(w, requires_grad=True) for w in (2.0, 5.0, 9.0, 7.0))
    b, c = w1 * 4, w2 * 4
    d = w3 * b + w4 * c
    L = 10 - d
    return {"w1": w1, "w2": w2, "w3": w3, "w4": w4, "b": b, "c": c, "d": d, "L": L}


def test_every_edge_of_a_graph_done_by_hand():
    names = small_graph()
    traced = pullback.trace(names["L"], names=names)
    sent = {(e.source, e.target): e.value.item() for e in traced.edges}
    first, second = (n.name for n in traced.nodes if n.name.startswith("Mul"))
    products = {first: "w4", second: "w3"} if (first, "w4") in sent else {first: "w3"}
    products |= {n: "w3" for n in (first, second) if n not in products}
    by_w4, by_w3 = sorted(products, key=products.get, reverse=True)
    assert sent == {
        ("v", "L"): 1,
        ("L", "d"): -1,
        ("d", by_w3): -1,
        ("d", by_w4): -1,
        (by_w3, "w3"): -8,
        (by_w4, "w4"): -20,
        (by_w3, "b"): -9,
        (by_w4, "c"): -7,
        ("b", "w1"): -36,
        ("c", "w2"): -28,
    }
    assert {leaf.name: leaf.total.item() for leaf in traced.leaves} == {
        "w1": -36,
        "w2": -28,
        "w3": -8,
        "w4": -20,
    }


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@given(st.integers(0, 10**6))
@settings(max_examples=10)
def test_the_cotangents_that_arrive_add_up_to_the_gradient(dtype, seed):
    """At every node, held against autograd.grad with respect to what it made."""
    source = torch.Generator().manual_seed(seed)
    x = torch.randn(3, 2, dtype=dtype, generator=source, requires_grad=True)
    w = torch.randn(2, dtype=dtype, generator=source, requires_grad=True)
    h = (x * w).tanh()
    e = h.exp()
    y = torch.stack([e * h, e + w])
    v = torch.randn(y.shape, dtype=dtype, generator=source)
    names = {"x": x, "w": w, "h": h, "e": e, "y": y}
    traced = pullback.trace(y, v, names=names)
    for name, t in names.items():
        (expected,) = torch.autograd.grad(y, get_gradient_edge(t), v, retain_graph=True)
        arriving = [edge.value for edge in traced.edges if edge.target == name]
        torch.testing.assert_close(torch.stack(arriving).sum(0), expected)
        if t.is_leaf:
            (leaf,) = (leaf for leaf in traced.leaves if leaf.name == name)
            torch.testing.assert_close(leaf.total, expected)
            assert leaf.edges == len(arriving)


def test_the_norm_is_not_lost_to_half_precision():
    x = torch.arange(20.0, dtype=torch.float16, requires_grad=True)
    y = (x * 10).square()  # the squares of its gradient, 200 x, leave float16
    last = pullback.trace(y, torch.ones_like(y)).edges[-1]
    assert last.shape == (20,)
    assert last.value is None, "more than 12 numbers"
    np.testing.assert_allclose(last.norm, 200 * np.linalg.norm(np.arange(20)), rtol=1e-3)


@pytest.mark.parametrize("sparse", [False, True])
def test_embedding(sparse):
    table = torch.nn.Embedding(50, 3, sparse=sparse)
    traced = pullback.trace(table(torch.tensor([1, 1, 7])).sum(), names=table)
    (leaf,) = traced.leaves
    expected = torch.zeros(50, 3)
    expected[1], expected[7] = 2, 1
    torch.testing.assert_close(leaf.total.to_dense(), expected)
    np.testing.assert_allclose(traced.edges[-1].norm, expected.norm())
    assert "norm 3.873" in str(traced)


def test_several_roots():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    roots = [x * 3, (x**2).sum()]
    traced = pullback.trace(roots, [torch.tensor([1.0, 10.0]), None], names={"x": x})
    assert [edge.source for edge in traced.edges[:2]] == ["v[0]", "v[1]"]
    torch.testing.assert_close(traced.leaves[0].total, torch.tensor([5.0, 34.0]))


def test_a_leaf_alone():
    x = torch.tensor(2.0, requires_grad=True)
    traced = pullback.trace(x)
    assert traced.edges[0][:2] == ("v", "leaf")
    assert traced.leaves[0].total == 1
    assert traced.nodes == ()


def test_nan_origin_of_zero_times_infinity():
    """The masked square root: where() hands back 0, sqrt's derivative there is inf."""
    x = torch.tensor([0.0, 4.0], requires_grad=True)
    y = torch.where(x > 0, x.sqrt(), torch.zeros(2)).sum() * 2
    traced = pullback.trace(y, names={"x": x})
    assert [(e.source, e.target) for e in traced.nan_origins] == [("SqrtBackward0", "x")]
    assert [e.nan for e in traced.edges] == [False] * (len(traced.edges) - 1) + [True]
    assert "from SqrtBackward0 to x" in str(traced)


def test_a_nan_is_followed_to_its_origin_only():
    x = torch.tensor([0.0, 4.0], requires_grad=True)
    h = x * 3
    y = torch.where(h > 0, h.sqrt(), torch.zeros(2)).sum()
    traced = pullback.trace(y, names={"x": x, "h": h})
    assert [(e.source, e.target) for e in traced.edges if e.nan] == [
        ("SqrtBackward0", "h"),
        ("h", "x"),
    ]
    assert [(e.source, e.target) for e in traced.nan_origins] == [("SqrtBackward0", "h")]


def test_a_nan_in_v_is_found_at_v():
    x = torch.ones(2, requires_grad=True)
    traced = pullback.trace(x * 2, torch.tensor([math.nan, 1.0]))
    assert [edge.source for edge in traced.nan_origins] == ["v"]


def test_zero_origin():
    x = torch.tensor([-1.0, -2.0], requires_grad=True)
    h = x * 5
    traced = pullback.trace(h.relu().sum(), names={"x": x, "h": h})
    assert [(e.source, e.target) for e in traced.zero_origins] == [("ReluBackward0", "h")]
    assert traced.leaves[0].total.tolist() == [0, 0]


def test_nothing_sent_is_told_from_zeros():
    class Half(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            return a + b

        @staticmethod
        def backward(ctx, g):
            return g, None

    a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    traced = pullback.trace(Half.apply(a, b).sum(), names={"a": a, "b": b})
    to_b = traced.edges[-1]
    assert to_b.target == "b"
    assert to_b.shape is None
    assert {leaf.name: leaf.total is None for leaf in traced.leaves} == {
        "a": False,
        "b": True,
    }
    assert "nothing" in str(traced)


def test_saved_tensors_are_counted_without_being_unpacked():
    unpacked = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: t.numpy(), lambda a: unpacked.append(1) or torch.from_numpy(a)
    ):
        x = torch.ones(3, dtype=torch.float64, requires_grad=True)
        y = (x.exp() + 1).sum()
    traced = pullback.trace(y)
    saved = {node.operation: (node.saved, node.saved_bytes) for node in traced.nodes}
    assert saved == {
        "SumBackward0": (0, 0),
        "AddBackward0": (0, 0),
        "ExpBackward0": (1, 24),
    }
    shown = hasattr((x.exp()).grad_fn._raw_saved_result, "data")  # since 2.7
    assert len(unpacked) == 1 + (not shown), "by the engine alone"


def test_hooks_run_and_are_named():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    h = x * 3
    h.register_hook(lambda g: 10 * g)
    y = h.sum()
    y.grad_fn.register_hook(lambda sent, arrived: None)
    y.grad_fn.register_prehook(lambda arrived: (2 * arrived[0],))
    accumulated = []
    x.register_post_accumulate_grad_hook(accumulated.append)
    x.register_hook(lambda g: g + 1)
    traced = pullback.trace(y, names={"x": x, "h": h})
    hooks = {node.name: node.hooks for node in traced.nodes}
    assert hooks == {"SumBackward0": ("pre-hook", "post-hook"), "h": ("tensor hook",)}
    assert sorted(traced.leaves[0].hooks) == ["post-accumulate hook", "tensor hook"]
    assert accumulated == [], "nothing accumulates"
    y.backward()
    torch.testing.assert_close(traced.leaves[0].total, x.grad)
    assert x.grad.tolist() == [61, 61]


# ---------------------------------------------------------------- nothing is changed


def test_no_grad_is_accumulated_and_the_graph_is_kept():
    names = small_graph()
    names["b"].retain_grad()
    names["c"].retain_grad()
    names["c"].grad = torch.tensor(100.0)
    names["w1"].grad = torch.tensor(5.0)
    traced = pullback.trace(names["L"], names=names)
    assert [leaf.holds for leaf in traced.leaves if leaf.name == "w1"] == [True]
    assert names["b"].grad is None
    assert names["c"].grad == 100
    assert names["w1"].grad == 5
    assert names["w2"].grad is None
    names["L"].backward()
    assert names["b"].grad == -9, "retain_grad() is still on"
    assert names["c"].grad == 93
    assert names["w1"].grad == -31


def test_tensors_of_other_programs_are_not_asked_where_they_come_from():
    class Foreign(torch.Tensor):
        asked = ()

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.asked += (func,)
            return super().__torch_function__(func, types, args, kwargs or {})

    other = torch.ones(2).as_subclass(Foreign).requires_grad_() * 2
    other.retain_grad()
    bystander = other * 3
    Foreign.asked = ()
    x = torch.ones(2, requires_grad=True)
    assert pullback.trace((3 * x).sum()).leaves[0].total.tolist() == [3, 3]
    assert bystander.is_leaf is False
    asked = [func.__self__.__name__ for func in Foreign.asked]
    assert asked.count("grad_fn") == 1, "of the one that retains its gradient"


def test_an_output_of_unbind_whose_base_was_edited_is_no_obstacle():
    base = torch.ones(2, requires_grad=True) * 1
    a, b = base.unbind()
    b.retain_grad()
    b.grad = torch.tensor(100.0)
    y = 3 * b
    base.add_(2)
    with pytest.raises(RuntimeError, match="modified inplace"):
        a.grad_fn  # noqa: B018 - torch refuses to say what made it
    assert pullback.trace(y).nodes[1].name == "UnbindBackward0"
    assert b.grad == 100
    y.backward()
    assert b.grad == 103, "retain_grad() is still on"


class Raises(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        torch.manual_seed(1)
        raise ArithmeticError("midway")


@pytest.mark.parametrize("raises", [False, True])
def test_no_hook_is_left_and_no_grad_even_when_backward_raises(raises):
    x = torch.ones(2, requires_grad=True)
    h = x * 3
    k = h * 2
    k.retain_grad()
    y = (Raises.apply(h) + k if raises else h + k).sum()
    nodes = [y.grad_fn, y.grad_fn.next_functions[0][0], k.grad_fn, h.grad_fn]
    state = torch.get_rng_state()
    if raises:
        with pytest.raises(ArithmeticError, match="midway") as caught:
            pullback.trace(y, names={"x": x, "h": h, "k": k})
        assert caught.value.__notes__ == ["pullback.trace: raised in RaisesBackward"]
    else:
        pullback.trace(y)
    assert torch.equal(torch.get_rng_state(), state)
    assert x.grad is None
    assert k.grad is None
    for node in nodes:
        for register in (node.register_hook, node.register_prehook):
            handle = register(lambda *_: None)
            assert len(handle.hooks_dict_ref()) == 1, "only the one that is looking"
            handle.remove()


def test_a_freed_graph_names_the_operation():
    x = torch.ones(2, requires_grad=True)
    y = (x.exp() * 2).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="a second time") as caught:
        pullback.trace(y)
    assert caught.value.__notes__[0].startswith("pullback.trace: raised in ")
    assert x.grad.tolist() == pytest.approx([2 * math.e] * 2)


def test_a_tensor_that_outlived_its_vmap_is_passed_over():
    w, left = torch.tensor(2.0, requires_grad=True), []

    def f(x):
        left.append(x)
        return w * x

    torch.func.vmap(torch.func.grad(f))(torch.ones(3))
    with pytest.raises(RuntimeError, match="vmap"):
        get_gradient_edge(left[0])
    y = 3 * w
    assert pullback.trace(y, names={"w": w, "y": y}).edges[-1].value == 3


def test_checkpointed_graph():
    layer = torch.nn.Linear(2, 2)
    x = torch.ones(1, 2)
    plain = pullback.trace(layer(x).tanh().sum(), names=layer)
    again = checkpoint(lambda t: layer(t).tanh(), x, use_reentrant=False)
    traced = pullback.trace(again.sum(), names=layer)
    for one, other in zip(plain.leaves, traced.leaves, strict=True):
        torch.testing.assert_close(one.total, other.total)


def test_under_no_grad_and_with_threads_of_a_loop():
    x = torch.ones(2, requires_grad=True)
    y = x.square().sum()
    with torch.no_grad():
        traced = pullback.trace(y)
    assert traced.leaves[0].total.tolist() == [2, 2]
    assert not traced.leaves[0].total.requires_grad


# ---------------------------------------------------------------- names and errors


def test_parameters_are_named_by_their_module():
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    traced = pullback.trace(net(torch.ones(5, 3)).sum(), names=net)
    assert {leaf.name for leaf in traced.leaves} == {n for n, _ in net.named_parameters()}
    scopes = [(node.operation, node.scope) for node in traced.nodes]
    assert ("ReluBackward0", "0") in scopes
    assert {scope for _, scope in scopes} == {"0", "2"}


def test_names_that_no_edge_leads_to():
    x, a = torch.ones(2, requires_grad=True), torch.ones(2)
    unused = torch.ones(1, requires_grad=True)
    traced = pullback.trace((x * a).sum(), names={"x": x, "a": a, "unused": unused})
    assert traced.unreached == ("a", "unused")
    assert "unused" in str(traced)


def test_one_name_for_several_is_numbered():
    x = torch.ones(2, requires_grad=True)
    traced = pullback.trace((x * 2 * 3).sum(), names={"v": x})
    names = [edge.source for edge in traced.edges] + [leaf.name for leaf in traced.leaves]
    assert names == ["v #1", "SumBackward0", "MulBackward0 #1", "MulBackward0 #2", "v #2"]


def test_html_is_accessible_tables():
    html = pullback.trace(small_graph()["L"])._repr_html_()
    assert html.count("<caption>") == 3
    assert '<th scope="row">v</th>' in html


def test_a_long_graph_prints_its_first_edges():
    y = x = torch.ones(1, requires_grad=True)
    for _ in range(300):
        y = y * 1.01
    traced = pullback.trace(y)
    assert len(traced.edges) == 301
    assert "and 241 more, in .edges" in str(traced)
    torch.testing.assert_close(traced.leaves[0].total, torch.autograd.grad(y, x)[0])


X = torch.ones(2, requires_grad=True)
BAD = {
    "no tensor": (3.0, None, None, TypeError, "y is 3.0"),
    "nothing": ([], None, None, TypeError, r"y is \[\]"),
    "a float among them": ([X.sum(), 1.0], None, None, TypeError, r"y\[1\] is a float"),
    "no graph": (torch.ones(2), None, None, RuntimeError, "requires_grad"),
    "v left out": (X * 2, None, None, RuntimeError, r"v was left out.*\(2,\)"),
    "v on meta": (
        X * 2,
        torch.ones(2, device="meta"),
        None,
        ValueError,
        "v is on the meta",
    ),
    "wrong shape": (X * 2, torch.ones(3), None, ValueError, r"v has shape \(3,\).*\(2,\)"),
    "a list as v": (X * 2, [1.0, 2.0], None, TypeError, "v is a list"),
    "too many v": ([X.sum()], [None, None], None, ValueError, "v has 2 items and y has 1"),
    "a float as v of a list": ([X * 2], 1.0, None, TypeError, "v is a float"),
    "one v for a list": ([X * 2], torch.ones(2, 2), None, TypeError, "v is a Tensor"),
    "names a list": (X.sum(), None, [X], TypeError, "names is a list"),
    "names a number": (X.sum(), None, {1: X}, TypeError, "names has the key 1; a str"),
    "names a float": (X.sum(), None, {"x": 1.0}, TypeError, r"names\['x'\] is a float"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case):
    y, v, names, kind, message = BAD[case]
    with pytest.raises(kind, match=message):
        pullback.trace(y, v, names=names)
    assert X.grad is None


def test_tensors_that_outlived_a_transform_do_not_disturb():
    """They claim to require grad and have no graph; trace looks at all tensors."""
    kept = []
    torch.func.grad(lambda x: kept.append(x) or x.sum())(torch.ones(2))
    torch.func.vmap(lambda x: kept.append(x) or x)(torch.ones(2))
    x = torch.ones(2, requires_grad=True)
    (leaf,) = pullback.trace((x * 2).sum()).leaves
    assert leaf.total.tolist() == [2.0, 2.0]
    assert len(kept) == 2


def test_an_infinity_is_named_where_it_begins():
    w = torch.zeros(2, requires_grad=True)
    traced = pullback.trace((w**2).sum().sqrt(), names={"w": w})
    (infinite,), (nan,) = traced.infinite_origins, traced.nan_origins
    assert infinite.source == "SqrtBackward0"  # 1/(2√0)
    assert nan.source == "PowBackward0"  # 2w · ∞ = 0 · ∞
    assert "infinity first appears  from SqrtBackward0 to SumBackward0" in repr(traced)
    assert "infinity" not in repr(pullback.trace((w + 1).sum().sqrt()))


def test_the_line_of_an_operation_where_it_is_known():
    w = torch.zeros(2, requires_grad=True)
    assert {node.line for node in pullback.trace((w**2).sum()).nodes} == {""}
    with pullback.watch(without=["not-finite"]):
        y = (w**2).sum().sqrt()
        watched = pullback.trace(y)
    with torch.autograd.detect_anomaly(check_nan=False):
        kept = pullback.trace((w**2).sum().sqrt())
    for traced in (watched, kept):
        (line,) = {node.line for node in traced.nodes}
        path, _, number = line.rpartition(":")
        assert path.endswith("test_trace.py")
        with open(__file__, encoding="utf-8") as own:
            assert "(w**2).sum().sqrt()" in own.readlines()[int(number) - 1]
        assert f"SqrtBackward0 ({line}) to" in repr(traced)


def test_names_for_inputs_beside_those_of_a_module():
    net, x = torch.nn.Linear(2, 1), torch.ones(2, requires_grad=True)
    for prefix, weight in (("", "weight"), ("net", "net.weight")):
        traced = pullback.trace(net(x), names={prefix: net, "x": x})
        assert {leaf.name for leaf in traced.leaves} >= {weight, "x"}


def test_lines_stand_in_the_table_and_in_the_steps():
    w = torch.ones(2, requires_grad=True)
    plain = pullback.trace((w**2).sum(), names={"w": w})
    assert "cotangent  line" not in repr(plain)
    with pullback.watch():
        traced = pullback.trace((w**2).sum(), names={"w": w})
    lines = {node.line for node in traced.nodes}
    (line,) = lines
    (row,) = [r for r in repr(traced).splitlines() if r.startswith("PowBackward0 ")]
    assert row.endswith(line)
    told = [step.sentence for step in traced.steps().steps]
    assert told[2].startswith(f"Pow ({line}) receives")
    assert told[2].endswith("to w.")
