"""Hessians: whole, and from the products that star colours leave."""

from itertools import permutations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from functions import OldCube, noting, numbers
from hypothesis import given
from hypothesis import strategies as st
from sweeps import examples

import pullback
from pullback._sparse import star

close = torch.testing.assert_close


def tridiagonal(x):
    return (x[1:] * x[:-1].sin()).sum() + (x**4).sum()


def grid(u):
    return ((u[1:] - u[:-1]) ** 4).sum() + ((u[:, 1:] - u[:, :-1]) ** 4).sum()


def arrow(x):
    return x[0] * (x[1:] ** 3).sum() + x[0] ** 3


def arrow_backwards(x):
    return x[-1] * (x[:-1] ** 3).sum() + x[-1] ** 3


def dense(x):
    return x.sum().exp() / 100


def diagonal(x):
    return x.exp().sum()


def products_of(plan, f, x):
    """Count the products with the Hessian: what is pulled back through the gradient."""
    seeds = []

    gradient = noting(seeds)

    class Argument(gradient):
        @staticmethod
        def backward(ctx, v):
            return gradient.apply(v)

    plan.hessian(lambda x: f(Argument.apply(x)), x, chunk_size=1)
    assert all(seed.shape == x.shape for seed in seeds)
    return len(seeds)


@pytest.mark.parametrize(
    ("f", "shape", "products"),
    [
        (tridiagonal, (40,), 3),
        (arrow, (40,), 2),
        (arrow_backwards, (40,), 2),
        (grid, (10, 10), 5),
        (diagonal, (40,), 1),
        (dense, (6,), 6),
    ],
)
def test_equals_torch_entry_by_entry(f, shape, products):
    plan = pullback.sparsity(f, numbers(*shape), hessian=True)
    assert (plan.mode, plan.n_colors) == ("symmetric", products)
    x = numbers(*shape) ** 2  # the plan is for every x of this shape
    H = plan.hessian(f, x, verify=True)
    n = x.numel()
    assert (H.layout, H.shape, H.dtype) == (torch.sparse_csr, (n, n), torch.float64)
    expected = torch.func.hessian(f)(x).reshape(n, n)
    close(H.to_dense(), expected)
    assert torch.equal(plan.pattern.to_dense(), expected != 0), "no more than needed"
    assert torch.equal(H.to_dense(), H.to_dense().T)
    assert products_of(plan, f, x) == products
    assert x.grad is None


def test_symmetry_saves_products():
    for f, ordinary, symmetric in (arrow, 3, 2), (grid, 6, 5):
        x = numbers(100).reshape((10, 10) if f is grid else (100,))
        plain = pullback.sparsity(torch.func.grad(f), x)
        assert plain.n_colors >= ordinary
        assert pullback.sparsity(f, x, hessian=True).n_colors == symmetric


@st.composite
def sums(draw):
    """Random sums of functions of a few variables each: their Hessians are sparse."""
    n = draw(st.integers(1, 12))
    index = st.integers(0, n - 1)
    groups = draw(st.lists(st.lists(index, min_size=1, max_size=4), max_size=14))
    kinds = draw(st.lists(st.integers(0, 3), min_size=len(groups), max_size=len(groups)))

    def f(x):
        total = x.new_zeros(())
        for group, kind in zip(groups, kinds, strict=True):
            y = x[group]
            total = total + (y.prod(), y.sum().sin(), y.square().sum(), y.sum())[kind]
        return total

    return f, n


@given(sums())
@examples(60)
def test_random_sums(case):
    f, n = case
    x = numbers(n)
    plan = pullback.sparsity(f, x, hessian=True)
    H = plan.hessian(f, x)
    expected = torch.func.hessian(f)(x)
    close(H.to_dense(), expected)
    close(pullback.hessian(f, x), expected)
    assert bool((plan.pattern.to_dense() | (expected == 0)).all())
    ordinary = pullback.sparsity(torch.func.grad(f), x)
    assert plan.n_colors <= ordinary.n_colors or ordinary.mode == "forward"


@st.composite
def graphs(draw):
    n = draw(st.integers(1, 9))
    pairs = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))
    pattern = np.zeros((n, n), bool)
    for i, j in draw(st.lists(pairs, max_size=18)):
        pattern[i, j] = pattern[j, i] = True
    return pattern, draw(st.permutations(range(n)))


@given(graphs(), st.booleans())
@examples(200)
def test_stars(case, ahead):
    """By brute force: neighbours differ, and each path of four has three colours."""
    pattern, order = case
    sets, n = sp.csr_array(pattern), len(pattern)
    stars = star._greedy(sets, np.array(order), ahead=ahead)
    for i, j in permutations(range(n), 2):
        assert not pattern[i, j] or stars[i] != stars[j]
    for path in permutations(range(n), 4):
        if all(pattern[path[k], path[k + 1]] for k in range(3)):
            assert len({stars[i] for i in path}) >= 3
    for colors in stars, star.fewest(sets):
        matrix = np.where(pattern, np.arange(n * n).reshape(n, n) + 1.0, 0.0)
        matrix = np.triu(matrix) + np.triu(matrix, 1).T
        seeds = colors == np.arange(colors.max() + 1)[:, None]
        row, column = pattern.nonzero()
        found = (seeds @ matrix).reshape(-1)[star.entries(row, column, colors)]
        assert (found == matrix[row, column]).all()


def test_of_one_input_among_several():
    w, x, label = numbers(4), numbers(4), "a word"

    def f(w, x, label):
        assert label == "a word"
        return (w * x**3).sum()

    plan = pullback.sparsity(f, w, x, label, argnums=1, hessian=True)
    H = plan.hessian(f, w, x, label)
    close(H.to_dense(), torch.diag(6 * w * x))
    close(pullback.hessian(f, w, x, label, argnums=-2), torch.diag(6 * w * x))


def test_of_tensors_and_of_one_number():
    x = numbers(2, 3)
    H = pullback.hessian(grid, x)
    assert H.shape == (2, 3, 2, 3)
    close(H, torch.func.hessian(grid)(x))
    close(pullback.hessian(lambda x: x**3, torch.tensor(2.0)), torch.tensor(12.0))
    H = pullback.hessian(lambda x: (x**3).sum().reshape(1), x[0])
    close(H, torch.diag(6 * x[0]).unsqueeze(0))


def test_one_for_each_output_of_any_structure_as_torch_gives_it():
    def f(p, x, scale):
        y = (x @ p["w"]) ** 2 * scale + p["b"] ** 3
        return {"rows": y, "sum": (y.sum() ** 2, x.prod())}

    p = {"w": numbers(3, 2), "b": numbers(2)}
    args = (p, numbers(4, 3), 2.0)
    for argnums in (0, 1, (0, 1), (1,)):
        found = pullback.hessian(f, *args, argnums=argnums)
        expected = torch.func.hessian(f, argnums=argnums)(*args)
        close(found, expected)


def test_batched_leaves_the_zeros_between_samples_out():
    def one(x):
        return torch.stack([x.prod(), (x**3).sum()])

    X = numbers(5, 3)
    H = pullback.hessian(torch.func.vmap(one), X, batched=True)
    assert H.shape == (5, 2, 3, 3)
    close(H, torch.func.vmap(torch.func.hessian(one))(X))
    H = pullback.hessian(lambda X: X.prod(1), X, batched=True)
    close(H, torch.func.vmap(torch.func.hessian(torch.prod))(X))
    with pytest.raises(ValueError, match="mixes samples"):
        pullback.hessian(lambda X: X.sum(0).prod() * X.prod(1), X, batched=True)


def test_through_a_function_in_the_old_form():
    def f(x):
        return (OldCube.apply(x[1:]) * x[:-1]).sum()

    def same(x):
        return (x[1:] ** 3 * x[:-1]).sum()

    x = numbers(6)
    with pytest.raises(RuntimeError, match="setup_context"):
        torch.func.hessian(f)(x)
    expected = torch.func.hessian(same)(x)
    close(pullback.hessian(f, x), expected)
    plan = pullback.sparsity(f, x, hessian=True)
    assert plan.n_colors < 6
    close(plan.hessian(f, x, verify=True).to_dense(), expected)


@pytest.mark.parametrize("f", [torch.sum, lambda x: torch.tensor(3.0, requires_grad=True)])
def test_linear_and_constant(f):
    x = numbers(3)
    plan = pullback.sparsity(f, x, hessian=True)
    assert plan.n_colors <= 1
    assert plan.pattern.values().numel() == 0
    close(plan.hessian(f, x).to_dense(), x.new_zeros(3, 3))
    close(pullback.hessian(f, x), x.new_zeros(3, 3))


def test_differentiable_again():
    x = numbers(5).requires_grad_()
    plan = pullback.sparsity(arrow, x, hessian=True)
    (third,) = torch.autograd.grad(plan.hessian(arrow, x).to_dense().square().sum(), x)
    leaf = x.detach()
    expected = torch.func.grad(lambda x: torch.func.hessian(arrow)(x).square().sum())(leaf)
    close(third, expected)


def test_a_plan_that_f_has_outgrown():
    def f(x):
        return (x**2).sum() if x.sum() < 0 else (x.sum()) ** 3

    x = numbers(4)
    with pytest.warns(UserWarning, match="value"):
        plan = pullback.sparsity(f, -x, hessian=True)
    plan.hessian(f, -x, verify=True)
    with pytest.raises(RuntimeError, match="outgrown its plan"):
        plan.hessian(f, x, verify=True)


def test_report_and_picture():
    import matplotlib.pyplot as plt

    plan = pullback.sparsity(arrow, numbers(6), hessian=True)
    assert "Sparsity of the Hessian" in str(plan)
    assert "2 Hessian-vector products, for 6 if dense" in str(plan)
    texts = pullback.plot.pattern(plan).texts
    told = {(t.get_position()[1], t.get_position()[0]): t.get_text() for t in texts}
    plt.close("all")
    first = int(plan.colors[0])
    assert told[0, 3] == told[3, 0] == told[0, 0] == str(first), "the first row's product"
    assert told[3, 3] == str(1 - first)


def test_large():
    x = torch.ones(20_000, dtype=torch.float64)
    for f, products in (arrow, 2), (tridiagonal, 3):
        plan = pullback.sparsity(f, x, hessian=True)
        assert plan.n_colors == products
        H = plan.hessian(f, x, verify=True)
        u = torch.linspace(1, 2, len(x), dtype=x.dtype)
        close(H @ u, torch.func.jvp(torch.func.grad(f), (x,), (u,))[1])


X = numbers(3)
PLAN = pullback.sparsity(arrow, X, hessian=True)
JACOBIAN = pullback.sparsity(torch.sin, X)
BAD = {
    "complex": (lambda x: (x * 1j).sum(), X, {}, TypeError, "complex"),
    "integers": (arrow, torch.arange(3), {}, TypeError, "int64"),
    "no function": (3, X, {}, TypeError, "f is an int"),
    "argnums": (arrow, X, {"argnums": (1,)}, ValueError, "argnums has 1"),
    "batched": (arrow, X, {"batched": True}, ValueError, "one batch size B"),
}


@pytest.mark.parametrize(
    ("f", "error", "message"),
    [
        (torch.sin, ValueError, r"shape \(3,\); one number"),
        (lambda x: (x.sum(), x.sum()), TypeError, "is a tuple"),
    ],
)
def test_a_plan_is_of_one_number(f, error, message):
    with pytest.raises(error, match=message):
        pullback.sparsity(f, X, hessian=True)
    with pytest.raises(error, match=message):
        PLAN.hessian(f, X)


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case):
    f, x, options, kind, message = BAD[case]
    with pytest.raises(kind, match=message):
        pullback.hessian(f, x, **options)


def test_each_plan_for_its_own():
    with pytest.raises(ValueError, match="for a Hessian"):
        PLAN.jacobian(arrow, X)
    with pytest.raises(ValueError, match="for a Jacobian"):
        JACOBIAN.hessian(arrow, X)
    with pytest.raises(ValueError, match=r"\(4,\)"):
        PLAN.hessian(arrow, numbers(4))
    with pytest.raises(TypeError, match="f is a Tensor"):
        PLAN.hessian(arrow(X), X)
    with pytest.raises(ValueError, match="one number is needed"):
        pullback.sparsity(torch.sin, X, hessian=True)


def test_f_that_changes_its_input():
    with pytest.raises(RuntimeError, match="in place"):
        pullback.hessian(lambda x: x.mul_(2).sum(), X)


def of_parameters(p):
    return (p["w"].sin() @ p["b"]).exp() + (p["b"] ** 3).sum()


PARAMETERS = {"w": numbers(3) / 3, "b": numbers(3).cos()}


def with_graph(tree):
    return {name: t.clone().requires_grad_() for name, t in tree.items()}


def test_the_hessian_of_a_loss_that_is_computed():
    p = with_graph(PARAMETERS)
    loss = of_parameters(p)
    expected = torch.func.hessian(of_parameters)(PARAMETERS)
    close(pullback.hessian(loss, p), expected)
    with torch.no_grad():
        close(pullback.hessian(loss, p), expected)
    assert not pullback.hessian(loss, p, create_graph=False)["w"]["b"].requires_grad
    w, b = p.values()
    u = {"w": numbers(3), "b": numbers(3).sin()}
    both = pullback.hvp(loss, w, b, u=tuple(u.values()), argnums=(0, 1))
    close(both, tuple(pullback.hvp(of_parameters, PARAMETERS, u=u).values()))
    H = pullback.hessian_operator(loss, p)
    close(H @ u, pullback.hvp(of_parameters, PARAMETERS, u=u))
    assert w.grad is None is b.grad
    loss.backward()  # whose graph is still there


def test_the_hessian_of_samples_that_are_computed():
    X = numbers(4, 3).requires_grad_()
    y = (X**3).sum(1) * X.prod(1)
    expected = pullback.hessian(lambda X: (X**3).sum(1) * X.prod(1), X, batched=True)
    close(pullback.hessian(y, X, batched=True), expected)
    close(pullback.hessian(y[:1], X)[0, 0, :, 0], expected[0])
    with pytest.raises(ValueError, match=r"y has shape \(4,\); one number is needed"):
        pullback.hessian_operator(y, X)


def test_grads_on_the_way_stay():
    x = numbers(3).requires_grad_()
    h = x.sin()
    h.retain_grad()
    loss = (h**3).sum()
    close(pullback.hessian(loss, x), torch.func.hessian(lambda x: (x.sin() ** 3).sum())(x))
    pullback.hvp(loss, x, u=numbers(3))
    assert h.grad is None is x.grad


def test_a_loss_without_graph_says_so():
    with pytest.raises(RuntimeError, match="x does not require grad"):
        pullback.hessian(numbers(3).sum(), numbers(3))
    with pytest.raises(RuntimeError, match="x does not require grad"):
        pullback.hvp(numbers(3).sum(), numbers(3), u=numbers(3))
