"""The Jacobian against oracles that share no code with it."""

import functools
import gc
import importlib.util
import threading
import weakref

import numpy as np
import pytest
import torch
from functions import OldSquare, numbers
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.func import functional_call, grad, jacrev, vmap

import pullback
from pullback import _products
from pullback._jacobian import jacobian, value_and_jacobian

MODES = ["auto", "reverse", "forward"]
close = torch.testing.assert_close
numbers = functools.partial(numbers, about=0)


@pytest.fixture(params=MODES)
def mode(request):
    return request.param


def finite_differences(f, x, h=1e-6):
    """Central differences in NumPy, one input number at a time."""
    x = x.detach().numpy()
    columns = []
    for j in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[j] = h
        up, down = (f(torch.from_numpy(x + s)).numpy() for s in (step, -step))
        columns.append((up - down) / (2 * h))
    shape = f(torch.from_numpy(x)).shape
    J = np.stack(columns, -1) if columns else np.zeros((*shape, 0))
    return torch.from_numpy(J.reshape(tuple(shape) + x.shape))


def wide(x):
    return torch.stack([x.prod(), (x**2).sum()])


def tall(x):
    # enough outputs for mode="auto" to take columns
    return (x.unsqueeze(-1) * torch.arange(200, dtype=x.dtype) / 80).sin()


def matrix(x):
    return x.T @ x + x.sum()


@pytest.mark.parametrize("f", [wide, tall, matrix, torch.tanh])
@pytest.mark.parametrize("chunk_size", [None, 1, 2, 1000, "auto"])
def test_finite_differences(f, chunk_size, mode):
    x = numbers(2, 3)
    J = jacobian(f, x, mode=mode, chunk_size=chunk_size)
    close(J, finite_differences(f, x), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("xs", [(), (0,), (0, 2), (3,)])
@pytest.mark.parametrize("ys", [(), (0,), (2, 0), (2,)])
def test_zero_size(xs, ys, mode):
    W = numbers(*ys)
    J = jacobian(lambda x: W * x.sum(), numbers(*xs), mode=mode)
    close(J, W.reshape(ys + (1,) * len(xs)).expand(ys + xs))


def test_analytic(mode):
    A, x = numbers(2, 3), numbers(3)
    assert torch.equal(jacobian(lambda x: A @ x, x, mode=mode), A)


shapes = st.lists(st.integers(0, 3), max_size=2).map(tuple)


@settings(max_examples=60)
@given(
    shapes,
    shapes,
    st.sampled_from([torch.float32, torch.float64]),
    st.sampled_from(MODES),
    st.sampled_from(["tensor", "tuple", "dict"]),
    st.sampled_from([0, 1, -1, (1, 0), (0,)]),
    st.sampled_from([None, 1, 3]),
)
def test_same_as_jacrev(xs, ys, dtype, mode, kind, argnums, chunk_size):
    weight = numbers(*ys, dtype=dtype)

    def f(x, p):
        y = weight * (x.sin().sum() + (p["a"] * p["b"]).sum()) ** 2
        z = x * p["b"]
        return {"tensor": y, "tuple": (y, z), "dict": {"z": z, "y": [y]}}[kind]

    p = {"a": numbers(2, dtype=dtype), "b": numbers(dtype=dtype)}
    x = numbers(*xs, dtype=dtype)
    J = jacobian(f, x, p, argnums=argnums, mode=mode, chunk_size=chunk_size)
    wanted = (argnums,) if isinstance(argnums, int) else argnums
    try:
        K = jacrev(f, tuple(i % 2 for i in wanted))(x, p)
    except IndexError:  # jacrev's own, for an output without numbers
        return
    if isinstance(argnums, int):  # in K each output leaf holds a tuple of one
        y = f(x, p)
        K = torch.utils._pytree.tree_map(
            lambda leaf, held: held[0],
            y,
            K,
            is_leaf=lambda t: isinstance(t, torch.Tensor),
        )
    close(J, K)


def test_parameters_of_a_module(mode):
    torch.manual_seed(0)  # weights that stay the same
    model = torch.nn.Linear(3, 2)
    params = dict(model.named_parameters())

    def f(p, x):
        return functional_call(model, p, (x,))

    close(
        jacobian(f, params, numbers(3).float(), mode=mode),
        jacrev(f)(params, numbers(3).float()),
    )
    assert all(p.grad is None for p in model.parameters())


def test_value_and_one_forward_pass(mode):
    for f in (wide, tall):
        calls = []

        def counted(x, f=f, calls=calls):
            calls.append(x)
            return f(x)

        value, J = value_and_jacobian(counted, numbers(3), mode=mode)
        assert len(calls) == 1
        close(value, f(numbers(3)))
        close(J, jacrev(f)(numbers(3)))
        assert not value.requires_grad
        assert not J.requires_grad


def test_hessian(mode):
    x = numbers(3)
    H = jacobian(lambda x: jacobian(torch.prod, x, mode=mode), x, mode=mode)
    zero = torch.zeros((), dtype=x.dtype)
    close(
        H,
        torch.stack([zero, x[2], x[1], x[2], zero, x[0], x[1], x[0], zero]).view(3, 3),
    )


@pytest.mark.parametrize("f", [wide, tall])
def test_differentiable_again(f, mode):
    x = numbers(3).requires_grad_()
    W = numbers(3, 3).requires_grad_()

    def loss(jac):
        return jac(lambda x: f(W @ x), x).pow(2).sum()

    ours = torch.autograd.grad(loss(lambda f, x: jacobian(f, x, mode=mode)), [x, W])
    close(ours, torch.autograd.grad(loss(lambda f, x: jacrev(f)(x)), [x, W]))
    x = x.detach()  # only the captured tensor asks now
    ours = torch.autograd.grad(loss(lambda f, x: jacobian(f, x, mode=mode)), W)
    close(ours, torch.autograd.grad(loss(lambda f, x: jacrev(f)(x)), W))
    with torch.no_grad():
        assert not jacobian(lambda x: f(W @ x), x, mode=mode).requires_grad


@pytest.mark.parametrize("f", [wide, tall])
def test_under_transforms(f, mode):
    X = numbers(4, 3)

    def ours(x):
        return jacobian(f, x, mode=mode)

    close(vmap(ours)(X), vmap(jacrev(f))(X))
    close(
        grad(lambda X: vmap(ours)(X).pow(2).sum())(X),
        grad(lambda X: vmap(jacrev(f))(X).pow(2).sum())(X),
    )
    close(
        vmap(grad(lambda x: ours(x).sin().sum()))(X),
        vmap(grad(lambda x: jacrev(f)(x).sin().sum()))(X),
    )


@pytest.mark.parametrize("chunk_size", [None, 2])
def test_batched(mode, chunk_size):
    X = numbers(5, 2, 2)
    for f in (
        lambda x: (x @ x).sin(),
        lambda x: tall(x).sum(1),
        lambda x: x.sum((1, 2)),
    ):
        J = jacobian(f, X, mode=mode, batched=True, chunk_size=chunk_size)
        full = jacobian(f, X, mode=mode)
        assert J.shape == full.shape[: full.ndim - 3] + X.shape[1:]
        close(J, torch.stack([full[b].select(-3, b) for b in range(5)]))
    assert jacobian(torch.sin, X[:1], batched=True, mode=mode).shape == (1, 2, 2, 2, 2)
    assert jacobian(torch.sin, X[:0], batched=True, mode=mode).shape == (0, 2, 2, 2, 2)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.softmax(0),
        lambda x: x.cumsum(0),
        lambda x: x.flip(0).cumsum(0),
        lambda x: torch.nn.functional.batch_norm(x, None, None, training=True),
    ],
)
@pytest.mark.parametrize("B", [2, 7])
def test_batched_refuses_mixing(f, B, mode):
    with pytest.raises(ValueError, match="mixes samples"):
        jacobian(f, numbers(B, 3), mode=mode, batched=True)


@pytest.mark.parametrize("count", [2, 200])  # rows and columns
def test_the_dtype_does_not_depend_on_the_way_that_auto_takes(count):
    def f(x):
        return (x.unsqueeze(1) * torch.linspace(0, 1, count, dtype=torch.float64)).sin()

    x = numbers(3, dtype=torch.float32)
    auto, rows = jacobian(f, x), jacobian(f, x, mode="reverse")
    assert auto.dtype is rows.dtype is torch.float32
    close(auto, rows)


class Alone(OldSquare):
    """A square whose backward looks at the cotangent, which vmap cannot."""

    @staticmethod
    def backward(ctx, v):
        return 2 * v * ctx.saved_tensors[0] if v.abs().sum().item() else v * 0


@pytest.mark.parametrize("batched", [False, True])
def test_with_chunks_of_one_nothing_runs_under_vmap(batched):
    X = numbers(4, 3)
    expected = jacobian(torch.square, X, batched=batched)
    close(jacobian(Alone.apply, X, batched=batched, chunk_size=1), expected)
    with pytest.raises(RuntimeError, match="vmap") as caught:
        jacobian(Alone.apply, X, batched=batched, chunk_size=4)
    assert "with chunk_size=1 each runs on its own" in caught.value.__notes__[0]


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("chunk_size", [None, "auto"])
@pytest.mark.parametrize("mode", ["auto", "reverse"])
def test_what_vmap_cannot_take_together_runs_one_by_one(caplog, batched, chunk_size, mode):
    X = numbers(4, 3)
    with caplog.at_level("INFO", "pullback"):
        J = jacobian(Alone.apply, X, mode=mode, batched=batched, chunk_size=chunk_size)
    close(J, jacobian(torch.square, X, batched=batched))
    assert [r.getMessage()[:38] for r in caplog.records] == [
        "products run one by one, for together "
    ]


def test_tangents_that_vmap_cannot_take_together_run_one_by_one():
    def f(x):  # .item() is impossible under vmap, and a jvp alone allows it
        return torch.autograd.forward_ad.unpack_dual(x).primal.sum().item() * x.sin()

    x = numbers(5)
    close(jacobian(f, x, mode="forward"), torch.diag(x.cos()) * x.sum())


def test_an_error_of_the_backward_itself_is_raised():
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, v):
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        jacobian(Wrong.apply, numbers(3))


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("computed", [False, True])
def test_what_torch_gets_wrong_under_vmap(batched, computed):
    x, others = numbers(3, 4, 2).requires_grad_(), numbers(3, 2, 2) * 3

    def f(x):
        return torch.cdist(x, others).sum(1)

    def by_hand(x):
        return (x.unsqueeze(2) - others.unsqueeze(1)).square().sum(3).sqrt().sum(1)

    expected = jacobian(by_hand, x, batched=batched)
    close(jacobian(f(x) if computed else f, x, batched=batched), expected)
    plan = pullback.sparsity(f, x, mode="reverse")
    J = plan.jacobian(f(x) if computed else f, x)
    close(J.to_dense(), jacobian(by_hand, x).reshape(6, 24))
    vs = torch.eye(6, dtype=x.dtype).reshape(6, 3, 2)
    rows = vmap(lambda v: torch.autograd.grad(f(x), x, v)[0])(vs)
    assert not torch.allclose(rows.reshape(6, 24), J.to_dense())  # or it can go


def test_unused(mode):
    def f(x, unused):
        return x * 2

    x = numbers(2)
    with pytest.raises(RuntimeError, match=r"does not depend on inputs\[1\]"):
        jacobian(f, x, x, argnums=(0, 1), mode=mode)
    J = jacobian(f, x, x, argnums=(0, 1), mode=mode, allow_unused=True)
    close(J, jacrev(f, (0, 1))(x, x))
    # depending on x with a derivative of zero is not the same
    assert not jacobian(torch.floor, x, mode=mode).any()
    # nor is one unused tensor in a dict
    J = jacobian(lambda p: p["a"] * 2, {"a": x, "b": x}, mode=mode)
    close(J["b"], torch.zeros(2, 2, dtype=x.dtype))


def test_computed_tensor():
    x = numbers(3).requires_grad_()
    z = x.sin()  # not a leaf
    y = wide(z)
    for mode in ("auto", "reverse"):
        for chunk_size in (None, 1):  # many times: the graph is kept
            close(jacobian(y, z, mode=mode, chunk_size=chunk_size), jacrev(wide)(z))
    close(jacobian(y, x), jacrev(lambda x: wide(x.sin()))(x))
    assert jacobian(y, x).requires_grad
    with torch.no_grad():
        assert not jacobian(y, x).requires_grad
    assert x.grad is None
    assert value_and_jacobian(y, x)[0] is y
    with pytest.raises(ValueError, match="the function is needed"):
        jacobian(y, x, mode="forward")
    with pytest.raises(RuntimeError, match="does not require grad"):
        jacobian(y, x.detach())
    with pytest.raises(RuntimeError, match="does not depend on"):
        jacobian(y, numbers(3).requires_grad_())


def test_random_function_is_one_draw(mode):
    def f(x):
        return x * torch.rand(x.shape, dtype=x.dtype)

    x, before = numbers(4), torch.get_rng_state()
    for chunk_size in (None, 1, 3):
        value, J = value_and_jacobian(f, x, mode=mode, chunk_size=chunk_size)
        close(J, torch.diag(value / x))
    assert torch.equal(before, torch.get_rng_state())


def test_leaves_no_cycles_that_would_keep_the_graph(mode):
    kept = []

    def f(x):
        y = wide(x)
        kept.extend(map(weakref.ref, (x, y)))
        return y

    gc.disable()
    try:
        jacobian(f, numbers(3), mode=mode)
        assert kept
        assert [ref() for ref in kept] == [None] * len(kept)
    finally:
        gc.enable()


def test_an_empty_input_of_many_outputs():
    J = jacobian(lambda x: x.sum() + torch.zeros(300), torch.zeros(0))
    assert J.shape == (300, 0)


def test_untouched_when_f_raises(mode):
    x = numbers(2).requires_grad_()
    before = torch.get_rng_state()

    def f(x):
        torch.rand(3)
        torch.set_default_dtype(torch.float64)
        raise KeyError("f's own")

    with pytest.raises(KeyError, match="f's own"):
        jacobian(f, x, mode=mode)
    assert torch.get_default_dtype() == torch.float32
    assert torch.equal(before, torch.get_rng_state())
    assert x.grad is None
    assert x.requires_grad
    jacobian(wide, x.detach(), mode=mode)
    assert not x.detach().requires_grad


def test_f_may_wait_for_a_thread_that_takes_derivatives(mode):
    def f(x):
        found = []
        thread = threading.Thread(
            target=lambda: found.append(jacobian(torch.sin, numbers(2), mode=mode)),
            daemon=True,
        )
        thread.start()
        thread.join(timeout=30)
        return found[0] @ x

    close(jacobian(f, numbers(2), mode=mode), numbers(2).cos().diag())


class NotTwice(OldSquare):
    """A square whose backward is cut off from its argument."""

    @staticmethod
    def backward(ctx, v):
        (x,) = ctx.saved_tensors
        return 2 * x.detach() * v.detach()


class Once(NotTwice):
    """The same, and it says so."""

    backward = staticmethod(torch.autograd.function.once_differentiable(NotTwice.backward))


@pytest.mark.parametrize("function", [NotTwice, Once])
def test_auto_takes_rows_where_columns_are_wrong(function):
    def f(x):
        return tall(function.apply(x)) + tall(x)

    x = numbers(2)
    close(jacobian(f, x, chunk_size=1), jacobian(lambda x: tall(x**2) + tall(x), x))


def test_in_place_inside_f(mode):
    def f(x):
        y = x.clone()
        y[0] = x[1]
        return y

    expected = torch.tensor([[0.0, 1.0], [0.0, 1.0]])
    close(jacobian(f, torch.tensor([3.0, 4.0]), mode=mode), expected)


def test_progress(mode, capsys, monkeypatch):
    jacobian(wide, numbers(3), mode=mode, chunk_size=1, progress=True)
    assert "jacobian: 100%" in capsys.readouterr().err
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pullback\[progress\]"):
        jacobian(wide, numbers(3), progress=True)


def test_the_bar_is_closed_after_an_error(monkeypatch):
    bars, made = [], _products.progress_bar
    monkeypatch.setattr(
        _products, "progress_bar", lambda *of: bars.append(made(*of)) or bars[0]
    )

    def refuse(grad):
        raise LookupError

    def f(x):
        y = x * 2
        y.register_hook(refuse)
        return y

    with pytest.raises(LookupError):
        jacobian(f, numbers(3), mode="reverse", chunk_size=1, progress=True)
    assert bars[0].disable  # as close leaves it


X = numbers(3)
BAD = [
    (TypeError, "no inputs", (wide,), {}),
    (TypeError, "f is a list", ([wide], X), {}),
    (TypeError, r"inputs\[0\] is a ndarray", (wide, X.numpy()), {}),
    (TypeError, r"inputs\[0\] has dtype torch.int64", (wide, X.long()), {}),
    (TypeError, r"inputs\[0\]\['m'\] has dtype torch.bool", (wide, {"m": X > 0}), {}),
    (TypeError, "f returned None", (lambda x: None, X), {}),
    (TypeError, r"output\[1\]", (lambda x: (x, 3), X), {}),
    (TypeError, "output of f has dtype torch.int64", (lambda x: x.argmax(), X), {}),
    (TypeError, "argnums is 'x'", (wide, X), {"argnums": "x"}),
    (ValueError, "argnums has 1", (wide, X), {"argnums": 1}),
    (ValueError, "argnums", (wide, X), {"argnums": ()}),
    (ValueError, "argnums", (wide, X, X), {"argnums": (0, -2)}),
    (ValueError, "mode is 'fast'", (wide, X), {"mode": "fast"}),
    (ValueError, "chunk_size is 0", (wide, X), {"chunk_size": 0}),
    (TypeError, "chunk_size is 1.5", (wide, X), {"chunk_size": 1.5}),
    (TypeError, "complex64", (torch.abs, X.cfloat()), {}),
    (TypeError, "complex128", (lambda x: x * 1j, X), {}),
    (RuntimeError, r"changed inputs\[0\] in place", (lambda x: x.mul_(2), X), {}),
    (ValueError, r"\(B, \*y\)", (lambda x: x.sum(), X), {"batched": True}),
]


@pytest.mark.parametrize(("error", "message", "args", "options"), BAD)
def test_bad_input(error, message, args, options, mode):
    before = X.clone()
    with pytest.raises(error, match=message):
        jacobian(*args, **{"mode": mode, **options})
    assert torch.equal(X, before)


@pytest.fixture
def rows(monkeypatch):
    """Return how many products have been taken together, each time."""
    rows, inner = [], _products.Together.__call__

    def counting(together, seeds):
        rows.append(len(seeds[0]))
        return inner(together, seeds)

    monkeypatch.setattr(_products.Together, "__call__", counting)
    return rows


@pytest.mark.parametrize("chunk_size", ["auto", None])
def test_chunks_count_what_passes_through_the_graph(rows, chunk_size):
    weights = torch.linspace(0, 1, 1000)

    def f(x):  # 500 numbers through half a million
        return (x.unsqueeze(1) * weights).sin().mean(1)

    x = numbers(500, dtype=torch.float32)
    with torch.no_grad():
        J = jacobian(f, x, chunk_size=chunk_size)
    assert sum(rows) == 500
    assert 1 <= max(rows) * 4 * 500 * 1000 <= _products.CHUNK_BYTES
    close(J.diagonal(), (weights * (x.unsqueeze(1) * weights).cos()).mean(1))


def test_a_small_j_goes_in_pieces_where_much_passes_through_the_graph(rows):
    weights = torch.linspace(0, 1, 2000)
    x = numbers(100, dtype=torch.float32)
    J = jacobian(lambda x: (x.unsqueeze(1) * weights).sin().mean(1), x)
    assert max(rows) * 4 * 100 * 2000 <= _products.PIECE_BYTES
    close(J.diagonal(), (weights * (x.unsqueeze(1) * weights).cos()).mean(1))


def test_a_large_j_goes_in_pieces_unless_it_keeps_a_graph(rows):
    x = numbers(2000, dtype=torch.float32)
    expected = x.cos().diag()
    close(jacobian(torch.sin, x), expected)
    assert len(rows) > 1
    assert max(rows) * 2 * 4 * 2000 <= _products.PIECE_BYTES  # of seeds and rows
    del rows[:]
    with torch.no_grad():
        close(jacobian(torch.sin, x[:600]), x[:600].cos().diag())
    assert rows == [600]
    del rows[:]
    assert jacobian(torch.sin, x.requires_grad_()).requires_grad
    assert rows == [2000]


@pytest.mark.parametrize("mode", ["auto", "reverse", "forward"])
def test_what_f_returns_beside_its_output_comes_back(mode):
    def f(x):
        return x**2, {"mean": x.mean(), "note": "seen"}

    x = numbers(3)
    J, aux = jacobian(f, x, mode=mode, has_aux=True)
    close(J, torch.diag(2 * x))
    assert aux["note"] == "seen"
    assert not aux["mean"].requires_grad
    close(aux["mean"], x.mean(), check_device=False)
    y, J, aux = pullback.value_and_jacobian(f, x, mode=mode, has_aux=True)
    close(y, x**2)
    close(J, torch.diag(2 * x))
    with pytest.raises(TypeError, match="a tuple of two"):
        jacobian(torch.square, x, has_aux=True)
    with pytest.raises(TypeError, match="a function is needed"):
        jacobian(x, x, has_aux=True)


def test_what_is_asked_of_a_module_in_training_is_no_training_step():
    module = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3)).double()
    x = numbers(4, 3)
    before = {name: b.clone() for name, b in module.named_buffers()}
    expected = torch.func.jacrev(
        lambda x: torch.nn.functional.batch_norm(module[0](x), None, None, training=True)
    )(x)
    for ask in (jacobian, pullback.hessian, pullback.mixing, pullback.explain):
        ask(module, x)
    pullback.sparsity(module, x)
    pullback.check(module, x, numbers(4, 3))
    close(jacobian(module, x), expected)
    for name, b in module.named_buffers():
        assert torch.equal(b, before[name]), name
    module(x)
    assert module[1].num_batches_tracked == 1


def test_integers_are_told_of_embeddings():
    with pytest.raises(TypeError, match=r"needed \(what only chooses.*inputs_embeds"):
        jacobian(torch.nn.Embedding(3, 2), torch.tensor([1, 2]))


@pytest.mark.parametrize(
    "function", [pullback.jacobian, pullback.hessian, pullback.explain]
)
def test_a_call_without_inputs_says_what_to_do(function):
    with pytest.raises(TypeError, match=r"pullback\.jacobian\(f, x\).*functools\.partial"):
        function(torch.sin)
    with pytest.raises(TypeError, match="in place of f a tensor y and the x"):
        pullback.jacobian(torch.ones(2, requires_grad=True).sin())


def test_the_parameters_of_a_model_are_given_by_name():
    model = torch.nn.Linear(2, 2)
    y = model(torch.ones(2))
    for other in (model, model.parameters(), model.named_parameters()):
        with pytest.raises(TypeError, match=r"dict\(model\.named_parameters\(\)\) is one"):
            jacobian(y, other)
    assert jacobian(y, dict(model.named_parameters()))["bias"].equal(torch.eye(2))


@pytest.mark.parametrize("mode", ["auto", "reverse", "forward"])
def test_create_graph_false_leaves_no_graph(mode):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    weight = torch.tensor([3.0, 4.0], requires_grad=True)

    def f(x):
        return (weight * x**2, x.sum())

    for again in (True, False):
        options = {"mode": mode, "create_graph": again}
        y, J = pullback.value_and_jacobian(lambda x: f(x)[0], x, **options)
        _, total = pullback.jacobian(f, x, has_aux=True, **options)
        assert torch.equal(J, torch.diag(2 * weight * x))
        assert {t.requires_grad for t in (y, J, total)} == {again}
    assert torch.is_grad_enabled()


def test_where_j_does_not_fit_in_memory_its_size_is_told():
    X = torch.ones(1, dtype=torch.float64).expand(2**22)  # J has 2**44 numbers
    with pytest.raises(RuntimeError, match="memory") as raised:
        jacobian(torch.square, X)
    (note,) = raised.value.__notes__
    assert "J has 4194304 x 4194304 numbers, 1.41e+05 GB" in note
    assert "pullback.sparsity" in note
