"""Sparsity patterns, their colours, and the Jacobians that they give."""

import copy
import io
import tracemalloc
import warnings

import matplotlib.pyplot as plt
import numpy as np
import pytest
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from forks import run_code
from functions import noting, numbers
from hypothesis import given
from hypothesis import strategies as st
from sweeps import examples
from torch.autograd.functional import jacobian as dense

import pullback
from pullback import plot
from pullback._sparse import bicoloring, coloring, index_sets

close = torch.testing.assert_close


def tridiagonal(x):
    p = F.pad(x, (1, 1))
    return 2 * p[:-2] + p[1:-1] ** 2 - p[2:].sin()


def stencil(u):
    n = round(u.numel() ** 0.5)
    p = F.pad(u.reshape(n, n), (1, 1, 1, 1))
    around = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
    return (around - 4 * p[1:-1, 1:-1] - u.reshape(n, n).exp()).reshape(-1)


def tall(x):
    return torch.cat([x * k for k in range(1, 6)]).sin()  # five rows for a column


def wide(x):
    return x.reshape(-1, 5).prod(1)  # five columns for a row


def arrow(x):
    # a whole row, a whole column, and the diagonal
    return torch.cat([x.sin().sum()[None], x[0] * x[1:] + x[1:] ** 3])


def entries(f, x):
    """Return the pattern as a dense matrix, and forget the colours."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return pullback.sparsity(f, x).pattern.to_dense()


# --- the Jacobian from a plan -------------------------------------------------------


@pytest.mark.parametrize("f", [tridiagonal, stencil, tall, wide, arrow, F.softmax])
@pytest.mark.parametrize("chunk_size", [None, 1, 2, "auto"])
@pytest.mark.filterwarnings("ignore:Implicit dimension choice")
def test_equals_the_dense_jacobian_entry_by_entry(f, chunk_size):
    x = numbers(25)
    plan = pullback.sparsity(f, x)
    other = numbers(25) ** 2  # the plan is for every x of this shape
    y, J = plan.value_and_jacobian(f, other, chunk_size=chunk_size)
    assert J.layout is torch.sparse_csr
    assert (J.shape, J.dtype) == ((y.numel(), 25), torch.float64)
    close(y, f(other))
    close(J.to_dense(), dense(f, other))


@pytest.mark.parametrize(
    ("f", "mode", "colors"),
    [
        (tridiagonal, "reverse", 3),
        (tall, "forward", 1),
        (wide, "reverse", 1),
        (arrow, "both", 3),
    ],
)
def test_one_product_for_each_colour(f, mode, colors):
    x = numbers(100)
    plan = pullback.sparsity(f, x)
    assert (plan.mode, plan.n_colors) == (mode, colors)
    products = []
    plan.jacobian(lambda x: f(noting(products).apply(x)), x, chunk_size=1)
    assert len(products) == colors


@pytest.mark.parametrize(("n", "together"), [(50_000, 3), (1_000_000, 1)])
def test_products_go_together_where_that_is_fastest(n, together):
    x = torch.linspace(0, 1, n)
    plan = pullback.sparsity(tridiagonal, x)
    products = []
    plan.jacobian(lambda x: tridiagonal(noting(products).apply(x)), x)
    assert len(products) * together == plan.n_colors == 3


@pytest.mark.parametrize("f", [tridiagonal, tall, wide, arrow])
def test_products_taken_another_way(f):
    x = numbers(6, 5).reshape(-1)
    plan = pullback.sparsity(f, x)
    y, pull = torch.func.vjp(f, x)
    push = torch.func.vmap(lambda t: torch.func.jvp(f, (x,), (t,))[1])
    products, k = [], plan.n_reverse
    if plan.mode != "forward":
        products += [torch.func.vmap(pull)(plan.seeds(y))[0]]
    if plan.mode != "reverse":
        products += [push(plan.seeds(x, k, k + 1)), push(plan.seeds(x, k + 1))]
    products = torch.cat([p.reshape(-1) for p in products])
    close(plan.assemble(products).to_dense(), torch.func.jacrev(f)(x))


def test_seeds_of_another_size():
    plan = pullback.sparsity(tall, torch.ones(4))
    with pytest.raises(ValueError, match=r"like has 20 numbers; 4 are needed .* columns"):
        plan.seeds(torch.ones(20))
    plan = pullback.sparsity(wide, torch.ones(20))
    with pytest.raises(ValueError, match=r"like has 20 numbers; 4 are needed .* rows"):
        plan.seeds(torch.ones(20))


def test_a_backward_that_writes_into_its_seed():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, v):
            return v.mul_(2)

    x = numbers(8)
    plan = pullback.sparsity(lambda x: 2 * x, x)
    for _ in range(3):  # the seeds are kept after the first
        J = plan.jacobian(Twice.apply, x)
        close(J.to_dense(), 2 * torch.eye(8, dtype=x.dtype))


def test_any_shape_in_the_order_of_flatten():
    x = numbers(2, 3, 4)[:, :, ::2]  # not contiguous

    def f(x):
        return x.transpose(0, 2)[1:].cumsum(0)

    J = pullback.sparsity(f, x).jacobian(f, x)
    close(J.to_dense(), dense(f, x).reshape(6, 12))


def test_an_output_already_computed():
    x = numbers(9).requires_grad_()
    plan = pullback.sparsity(tridiagonal, x)
    J = plan.jacobian(tridiagonal(x), x)
    close(J.to_dense().detach(), dense(tridiagonal, x.detach()))
    assert x.grad is None
    for f in (tall, arrow):
        with pytest.raises(ValueError, match="the function is needed in its place"):
            pullback.sparsity(f, x).jacobian(f(x), x)
        plan = pullback.sparsity(f, x, mode="reverse")
        J = plan.jacobian(f(x), x)
        close(J.to_dense().detach(), dense(f, x.detach()))


class OnlyReverse(torch.autograd.Function):
    """A sine without a rule for tangents."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, v):
        return v * ctx.saved_tensors[0].cos()


def no_tangents(x):
    """Leave a function of PyTorch's own that forward mode lacks."""
    return torch.cdist(x.reshape(-1, 1, 1), x.reshape(-1, 1, 1) ** 2).flatten()


def unrecorded(x):
    """Compute a factor that is no part of the derivative."""
    with torch.no_grad():
        factor = x.exp()
    return x * factor


@pytest.mark.parametrize("inner", [OnlyReverse.apply, unrecorded])
@pytest.mark.parametrize("outer", [tall, arrow])
def test_what_tangents_would_miss_or_pass_is_done_in_reverse(inner, outer):
    def f(x):
        return outer(inner(x))

    x = numbers(9)
    plan = pullback.sparsity(f, x)
    assert plan.mode == "reverse"
    close(plan.jacobian(f, x).to_dense(), dense(f, x))
    assert pullback.sparsity(f, x, mode="forward").mode == "forward"


def test_without_forward_mode():
    def f(x):
        return arrow(no_tangents(x))

    x = numbers(9)
    plan = pullback.sparsity(f, x, mode="forward")
    with pytest.raises(RuntimeError) as caught:
        plan.jacobian(f, x)
    assert "with mode='reverse' of" in caught.value.__notes__[0]
    plan = pullback.sparsity(f, x)  # for which "both" was tried
    assert (plan.mode, plan.n_reverse) == ("reverse", plan.n_colors)
    close(plan.jacobian(f, x).to_dense(), dense(f, x))


@pytest.mark.parametrize("f", [tridiagonal, tall, wide, arrow])
def test_forward_mode_alone(f):
    x = numbers(25)
    plan = pullback.sparsity(f, x, mode="forward")
    assert (plan.mode, plan.n_reverse) == ("forward", 0)
    close(plan.jacobian(f, x).to_dense(), dense(f, x))


@pytest.mark.parametrize("f", [tridiagonal, tall, arrow])
def test_differentiable_again(f):
    x = numbers(8).requires_grad_()
    plan = pullback.sparsity(f, x)

    def total(x):
        J = plan.jacobian(f, x)
        return (J @ x.unsqueeze(1)).square().sum()

    def reference(x):
        J = dense(f, x, create_graph=True)
        return (J @ x).square().sum()

    (ours,) = torch.autograd.grad(total(x), x)
    close(ours, torch.autograd.grad(reference(x), x)[0])


def test_another_argument_and_a_captured_parameter():
    weight = torch.zeros(9, dtype=torch.float64, requires_grad=True)  # zero for now

    def f(scale, x):
        return tridiagonal(x) * scale * (1 + x * weight)

    args = numbers(9), numbers(9)
    plan = pullback.sparsity(f, *args, argnums=1)
    with torch.no_grad():
        weight += 1
    J = plan.jacobian(f, *args).detach().to_dense()  # of the input that the plan is for
    close(J, dense(lambda x: f(args[0], x).detach() * 0 + f(args[0], x), args[1]).detach())
    x = args[1].requires_grad_()
    plan = pullback.sparsity(f, *args, argnums=1, mode="reverse")
    close(plan.jacobian(f(*args), x).detach().to_dense(), J)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_low_precision(dtype):
    x = numbers(20, dtype=dtype)
    J = pullback.sparsity(wide, x).jacobian(wide, x)
    assert J.dtype is dtype
    close(J.to_dense().double(), dense(wide, x.double()), rtol=0.05, atol=0.05)


def test_a_plan_from_a_meta_tensor():
    plan = pullback.sparsity(tridiagonal, torch.empty(30, device="meta"))
    x = numbers(30)
    close(plan.jacobian(tridiagonal, x).to_dense(), dense(tridiagonal, x))
    x = x.to("meta")
    J = plan.jacobian(tridiagonal, x, verify=True)
    assert (J.is_meta, J.shape) == (True, (30, 30))


@pytest.mark.parametrize(("m", "n"), [(0, 4), (3, 0), (0, 0)])
def test_no_numbers(m, n):
    def f(x):
        return x.sum() * torch.ones(m)

    plan = pullback.sparsity(f, torch.ones(n))
    assert plan.pattern.shape == (m, n)
    for verify in (False, True):
        J = plan.jacobian(f, torch.ones(n), verify=verify)
        assert J.shape == (m, n)


@pytest.mark.parametrize("pool", [F.avg_pool1d, F.max_pool1d, F.adaptive_avg_pool1d])
def test_no_samples(pool):
    x = torch.ones(0, 2, 6)
    plan = pullback.sparsity(lambda x: pool(x, 2), x)
    assert plan.pattern.shape == (0, 0)
    assert plan.jacobian(lambda x: pool(x, 2), x).shape == (0, 0)


def test_an_output_that_depends_on_nothing():
    x = numbers(3)
    plan = pullback.sparsity(torch.zeros_like, x)
    assert plan.pattern.values().numel() == 0
    with pytest.raises(RuntimeError, match=r"does not depend on inputs\[0\]"):
        plan.jacobian(torch.zeros_like, x)
    J = plan.jacobian(torch.zeros_like, x, allow_unused=True)
    assert not J.to_dense().any()


# --- what the plan does not fit -----------------------------------------------------


def test_changed_shapes_are_caught():
    plan = pullback.sparsity(tridiagonal, numbers(9))
    with pytest.raises(ValueError, match=r"shapes \(8,\) and the plan is for \(9,\)"):
        plan.jacobian(tridiagonal, numbers(8))
    with pytest.raises(ValueError, match=r"output has shape \(8,\) and the plan is for"):
        plan.jacobian(lambda x: tridiagonal(x)[1:], numbers(9))


@pytest.mark.parametrize("f", [tridiagonal, tall, arrow])
def test_verify_catches_a_function_that_has_outgrown_its_plan(f):
    x = numbers(30)
    plan = pullback.sparsity(f, x)

    def grown(x):
        y = f(x)
        return torch.cat([y[:-1], y[-1:] + 1e-3 * x[4]])

    J = plan.jacobian(f, x, verify=True)
    close(J.to_dense(), dense(f, x))
    with pytest.raises(
        RuntimeError, match=r"in [12] of (30 columns, .* 4|150 rows, .* 149);"
    ):
        plan.jacobian(grown, x, verify=True)


def test_verify_takes_nan_for_what_it_is():
    x = torch.tensor([0.0, 1.0, 4.0])
    plan = pullback.sparsity(lambda x: (x - 1).sqrt(), x)
    J = plan.jacobian(lambda x: (x - 1).sqrt(), x, verify=True)
    assert J.values().isnan().tolist() == [True, False, False]


def test_a_check_for_errors_is_no_branch():
    def f(x):
        return torch.linalg.solve(torch.diag(x), x)

    assert entries(f, numbers(3)).all()


def test_a_branch_on_a_value_warns_and_verify_tells():
    def f(x):
        return x if x.sum() > 0 else x.flip(0)

    with pytest.warns(UserWarning, match="looks at values"):
        plan = pullback.sparsity(f, torch.ones(4))
    plan.jacobian(f, torch.ones(4), verify=True)
    with pytest.raises(RuntimeError, match="outgrown its plan"):
        plan.jacobian(f, -torch.ones(4), verify=True)


@pytest.mark.parametrize(
    ("read", "hessian"),
    [
        (lambda x: x.tolist(), False),
        (lambda x: x.tolist(), True),
        (lambda x: x.detach().numpy(), False),
        (lambda x: np.asarray(x.detach()), False),
        (lambda x: np.from_dlpack(x.detach()), False),
    ],
)
def test_numbers_read_past_all_operations_warn(read, hessian):
    def f(x):
        assert torch.ones(2).tolist() == [1, 1]  # of a constant, which says nothing
        y = x if read(x)[0] > 0 else x.flip(0)
        return (y**2).sum() if hessian else y

    with pytest.warns(UserWarning, match="looks at values") as found:
        pullback.sparsity(f, torch.ones(4), hessian=hessian)
    assert len(found) == 1


@pytest.mark.parametrize("option", ["mode", "batched", "progress", "argnums"])
def test_what_a_plan_has_decided_is_no_option(option):
    x = numbers(5)
    with pytest.raises(TypeError, match=option):
        pullback.sparsity(tridiagonal, x).jacobian(tridiagonal, x, **{option: 0})


@pytest.mark.parametrize("option", ["sparsity", "verify", "group"])
def test_the_dense_jacobian_has_no_option_of_a_plan_or_a_group(option):
    with pytest.raises(TypeError, match=option):
        pullback.jacobian(tridiagonal, numbers(5), **{option: None})


def test_wrong_kinds():
    x = numbers(5)
    with pytest.raises(TypeError, match=r"inputs\[0\]\[0\] is a str; a tensor, or a tuple"):
        pullback.sparsity(lambda t: x, ("x",))
    with pytest.raises(TypeError, match="the output of f is a tuple; one tensor"):
        pullback.sparsity(lambda x: (x, x), x)
    with pytest.raises(TypeError, match=r"argnums is \(0,\); the int of one input"):
        pullback.sparsity(tridiagonal, x, argnums=(0,))
    with pytest.raises(TypeError, match="a real floating point dtype is needed"):
        pullback.sparsity(torch.fft.fft, x)
    with pytest.raises(ValueError, match="mode is 'both'; 'auto', 'reverse' or 'for"):
        pullback.sparsity(tridiagonal, x, mode="both")
    with pytest.raises(ValueError, match="mode is 'reverse' and hessian is True"):
        pullback.sparsity(torch.sum, x, mode="reverse", hessian=True)
    with pytest.raises(RuntimeError, match=r"changed inputs\[0\] in place"):
        pullback.sparsity(lambda x: x.add_(1), x)
    plan = pullback.sparsity(tridiagonal, x)
    with pytest.raises(RuntimeError, match=r"inside a torch\.func transform"):
        torch.vmap(lambda x: plan.jacobian(tridiagonal, x).values())(x.expand(2, 5))


def test_nothing_of_the_callers_changes():
    x = numbers(6).requires_grad_()
    x.grad = torch.ones_like(x)
    state = torch.get_rng_state()
    f = torch.nn.Dropout(0.5)
    plan = pullback.sparsity(f, x)
    assert torch.equal(plan.pattern.to_dense(), torch.eye(6, dtype=torch.bool))
    plan.jacobian(f, x, verify=True)
    assert torch.equal(torch.get_rng_state(), state)
    assert x.grad.sum() == 6
    with pytest.raises(ZeroDivisionError):
        pullback.sparsity(lambda x: x / (1 // 0), x)
    assert torch.equal(torch.ones(2) + 1, torch.tensor([2.0, 2.0]))  # no mode is left on


def test_without_scipy():
    code = """
import sys
sys.modules["scipy"] = sys.modules["scipy.sparse"] = None
import pullback, torch
print(pullback.jacobian(torch.sin, torch.zeros(1)).item())
try:
    pullback.sparsity(torch.sin, torch.zeros(1))
except ImportError as error:
    print(error)
"""
    run = run_code(code)
    assert run.stdout.splitlines() == [
        "1.0",
        "pullback.sparsity needs SciPy: python -m pip install 'pullback[sparse]'",
    ]


# --- every x of the shape -----------------------------------------------------------


class Hidden(torch.autograd.Function):
    """Computes in NumPy, where no operation of torch is to be seen."""

    @staticmethod
    def forward(ctx, x):
        return torch.from_numpy(np.cumsum(x.detach().numpy()))

    @staticmethod
    def backward(ctx, v):
        return v.flip(0).cumsum(0).flip(0)


class Buffered(Hidden):
    @staticmethod
    def forward(ctx, x):
        y = torch.empty_like(x)
        y.numpy()[:] = np.cumsum(x.detach().numpy())
        return y


@pytest.mark.parametrize("function", [Hidden, Buffered])
def test_what_no_operation_shows_is_dense(function):
    def f(x):
        return torch.cat([function.apply(x[:3]) * 2, x[3:]])

    plan = pullback.sparsity(f, numbers(5))
    assert plan.assumed_dense == (f"{function.__name__}Backward",)
    assert "assumed dense  " + plan.assumed_dense[0] in repr(plan)
    J = plan.jacobian(f, numbers(5), verify=True)
    close(J.to_dense(), dense(f, numbers(5)))


def mask_by_where(x):
    return x * torch.where(x.flip(0) > 0, 1.0, 0.0)


def mask_by_fill(x):
    return x * torch.zeros(4).masked_fill(x.flip(0) > 0, 1.0)


def mask_by_sign(x):
    return x * x.flip(0).sign().clamp(min=0)


def mask_by_cast(x):
    return x * (x.flip(0) > 0)


def mask_by_copysign(x):
    return x * (torch.copysign(torch.ones(4), x.flip(0)) + 1)


@pytest.mark.parametrize(
    "f", [mask_by_where, mask_by_fill, mask_by_sign, mask_by_cast, mask_by_copysign]
)
def test_a_mask_that_x_decides_is_no_constant(f):
    expected = torch.eye(4, dtype=torch.bool)
    for x in (torch.zeros(4), -torch.ones(4), torch.ones(4)):
        assert torch.equal(entries(f, x), expected)


def test_constant_zeros_count():
    band = torch.ones(6, 6).triu(-1).tril(1)
    expected = band.bool()
    x = torch.zeros(6)
    for f in (
        lambda x: band @ x,
        lambda x: F.linear(x, band),
        lambda x: (band * x).sum(1),
        lambda x: torch.einsum("ij,j->i", band, x),
        lambda x: band.to_sparse_csr() @ x,
        lambda x: x @ band.to_sparse(),
        lambda x: torch.sparse.mm(band.to_sparse(), x.unsqueeze(1)),
        lambda x: torch.where(band.bool(), x, 0.0).sum(1),
    ):
        assert torch.equal(entries(f, x), expected)


LOWER = (torch.ones(4, 4) + 4 * torch.eye(4)).tril().double()
BLOCKS = torch.block_diag(LOWER[:2, :2] + 1, LOWER[2:, 2:].T)  # 2 full, 2 triangular
FACTOR = torch.block_diag(LOWER[:1, :1], LOWER[:3, :3])  # its product with its transpose
BATCH = torch.stack([LOWER, BLOCKS])
SHUFFLE = torch.tensor([2, 0, 3, 1])

solve, solve_triangular = torch.linalg.solve, torch.linalg.solve_triangular


@pytest.mark.parametrize(
    ("f", "shape"),
    [
        (lambda x: solve(LOWER, x), (4,)),
        (lambda x: solve(LOWER.T, x), (4, 3)),
        (lambda x: solve(LOWER[SHUFFLE][:, SHUFFLE], x), (4,)),  # of another order
        (lambda x: solve(BLOCKS, x, left=False), (3, 4)),
        (lambda x: solve(BATCH, x), (2, 4)),  # one vector for each matrix
        (lambda x: solve(BATCH, x.T.expand(2, 4, 3)), (3, 4)),
        (lambda x: solve(BATCH[:, None], x), (1, 3, 4, 2)),
        (lambda x: solve(LOWER + 1, x), (4, 3)),  # full, but columns stay apart
        (lambda x: solve_triangular(LOWER, x, upper=False), (4, 3)),
        (lambda x: solve_triangular(LOWER + 1, x, upper=True), (4, 3)),
        (lambda x: solve_triangular(BATCH, x, upper=False, left=False), (2, 3, 4)),
        (lambda x: solve_triangular(BLOCKS, x, upper=True, unitriangular=True), (4, 1)),
        (lambda x: torch.cholesky_solve(x, FACTOR), (4, 2)),
        (lambda x: torch.cholesky_solve(x, FACTOR.T, upper=True), (4, 2)),
        (lambda x: torch.linalg.lu_solve(*torch.linalg.lu_factor(BLOCKS), x), (4, 2)),
        (
            lambda x: torch.linalg.lu_solve(
                *torch.linalg.lu_factor(LOWER.T), x, left=False, adjoint=True
            ),
            (2, 4),
        ),
    ],
)
def test_solving_with_a_constant_matrix_has_the_zeros_of_its_inverse(f, shape):
    x = numbers(*shape)
    J = dense(f, x).reshape(-1, x.numel())
    plan = pullback.sparsity(f, x)
    assert torch.equal(plan.pattern.to_dense(), J.abs() > 1e-12)
    close(plan.jacobian(f, x, chunk_size=1).to_dense(), J)


def test_the_hessian_of_a_solution_has_its_zeros_too():
    def f(x):
        return (solve(BLOCKS, x) ** 2).sum()

    expected = torch.block_diag(torch.ones(2, 2), torch.ones(2, 2)).bool()
    plan = pullback.sparsity(f, numbers(4), hessian=True)
    assert torch.equal(plan.pattern.to_dense(), expected)


def test_a_matrix_that_x_changes_is_no_constant():
    assert entries(lambda x: solve(LOWER + x.diag(), x), numbers(4)).all()


def test_in_place_and_views():
    def f(x):
        y = torch.zeros(6)
        y[::2] = x[:3]
        y.view(2, 3)[1].mul_(x[5])
        y[0].add_(x[4])
        y[1:3] = 7.0
        return y

    expected = torch.zeros(6, 6, dtype=torch.bool)
    expected[0, [0, 4]] = expected[4, [2, 5]] = True
    assert torch.equal(entries(f, torch.ones(6)), expected)


@pytest.mark.parametrize("causal", [False, True])
def test_fused_attention_which_copies_where_a_view_will_not_do(causal):
    q, k = numbers(2, 3, 4, 2), numbers(2, 3, 5, 2)

    def of_q(q):
        return F.scaled_dot_product_attention(q, k, k, is_causal=causal)

    def of_k(k):
        return F.scaled_dot_product_attention(q, k, k, is_causal=causal)

    rows, heads = torch.kron(torch.eye(24), torch.ones(2, 2)), torch.eye(6)
    assert torch.equal(entries(of_q, q), rows.bool())
    seen = torch.ones(4, 5).tril() if causal else torch.ones(4, 5)
    keys = torch.kron(heads, torch.kron(seen, torch.ones(2, 2)))
    assert torch.equal(entries(of_k, k), keys.bool())
    for f, x in ((of_q, q), (of_k, k)):
        J = pullback.sparsity(f, x).jacobian(f, x)
        close(J.to_dense(), dense(f, x).reshape(48, -1))


def test_a_derivative_inside():
    def f(x):
        return torch.func.grad(lambda x: (x[1:] ** 2 * x[:-1]).sum())(x)

    plan = pullback.sparsity(f, numbers(7))
    J = plan.jacobian(f, numbers(7), verify=True)
    close(J.to_dense(), dense(f, numbers(7)))
    assert plan.n_colors == 3


def test_an_index_that_x_decides():
    x = torch.tensor([3.0, 1.0, 2.0])

    def f(x):
        return torch.cat([x[x.argsort()], x.gather(0, x.argmax(0, keepdim=True))])

    assert entries(f, x).all()


# --- random compositions ------------------------------------------------------------

STEPS = {
    "sin": torch.sin,
    "square": lambda x: x * x,
    "relu": torch.relu,
    "flip": lambda x: x.flip(0),
    "roll": lambda x: x.roll(2),
    "transpose": lambda x: x[: len(x) // 3 * 3].reshape(3, -1).T.reshape(-1),
    "slice": lambda x: x[1:-1] if len(x) > 6 else x,
    "stride": lambda x: x[::2] if len(x) > 8 else x,
    "pad": lambda x: F.pad(x, (1, 2)),
    "cat": lambda x: torch.cat([x[3:], x[:3]]),
    "stack": lambda x: torch.stack([x, x.cos()]).flatten()[: len(x) + 3],
    "difference": lambda x: torch.cat([x.diff(), x[:1]]),
    "add first": lambda x: x + x[0],
    "times shifted": lambda x: x * x.roll(1),
    "cumsum of part": lambda x: torch.cat([x[:3].cumsum(0), x[3:]]),
    "sum of pairs": lambda x: torch.cat([x[: len(x) // 2 * 2].view(-1, 2).sum(1), x]),
    "softmax of part": lambda x: torch.cat([x[:4].softmax(0), x[4:]]),
    "band": lambda x: torch.eye(len(x), dtype=x.dtype).roll(1, 0).add(1).tril(1).triu() @ x,
    "convolution": lambda x: F.conv1d(
        x[None, None], torch.ones(1, 1, 3, dtype=x.dtype), padding=1
    ).flatten(),
    "pool": lambda x: F.max_pool1d(x[None, None], 3, 1, 1).flatten(),
    "sort part": lambda x: torch.cat([x[:3].sort().values, x[3:]]),
    "where": lambda x: torch.where(x > 2, x, x.roll(3)),
    "mask": lambda x: x * (x.roll(1) > 2),
    "index": lambda x: x[torch.arange(len(x)) * 7 % len(x)],
    "index add": lambda x: x.index_add(0, torch.tensor([0, 2]), x[1:3]),
    "scatter": lambda x: x.scatter(0, torch.tensor([1, 4]), x[2:4] * 2),
    "norm": lambda x: x / x[:2].norm(),
    "detach": lambda x: x * x.detach().roll(1),
}


def write(x):
    y = x.clone()
    y[1:4] *= x[0]
    y[0] = x[-1]
    return y


STEPS["write"] = write


@examples(120)
@given(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=6), st.data())
def test_random_compositions(names, data):
    def f(x):
        for name in names:
            x = STEPS[name](x)
        return x

    n = data.draw(st.integers(2, 4)) * 3
    seen = data.draw(st.sampled_from([torch.zeros(n), numbers(n)])).double()
    plan = pullback.sparsity(f, seen)
    assert plan.assumed_dense == ()
    x = torch.tensor(
        data.draw(st.lists(st.integers(-30, 30), min_size=n, max_size=n)),
        dtype=torch.float64,
    ).div(7)
    expected = dense(f, x)
    assert not ((expected.nan_to_num() != 0) & ~plan.pattern.to_dense()).any()
    J = plan.jacobian(f, x, verify=True, allow_unused=True)
    # 0 × inf is NaN, and rows and columns differ in where; rows also hide 0 / 0 in y
    if f(x).isfinite().all() and expected.isfinite().all():
        close(J.to_dense(), expected)


def test_verify_takes_terms_that_cancel_for_rounding():
    def f(x):
        x = STEPS["pool"](x)
        return x / x[:2].norm()

    x = torch.tensor([0.0, 0, 9, 0, 0, 0], dtype=torch.float64) / 7
    plan = pullback.sparsity(f, numbers(6))
    close(plan.jacobian(f, x, verify=True).to_dense(), dense(f, x))
    with pytest.raises(RuntimeError, match=r"in 1 of 6 columns, first in column 5"):
        plan.jacobian(lambda x: f(x) + 1e-9 * x[5], x, verify=True)


# --- colours ------------------------------------------------------------------------


@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 2**32 - 1), st.floats(0, 0.6))
def test_colours_keep_apart_what_meets(m, n, seed, share):
    matrix = np.random.default_rng(seed).random((m, n)) < share
    mode, colors = coloring.fewest(sp.csr_array(matrix))
    lines = matrix if mode == "reverse" else matrix.T
    for color in range(colors.max() + 1):
        assert lines[colors == color].sum(0).max() <= 1
    assert sorted(set(colors)) == list(range(colors.max() + 1))
    assert colors.max() < min(m, n)


@given(st.integers(4, 30), st.integers(4, 30), st.integers(0, 2**32 - 1), st.booleans())
def test_rows_and_columns_together_give_every_entry(m, n, seed, transposed):
    """From few products, in NumPy, of a matrix with a few long rows and columns."""
    random = np.random.default_rng(seed)
    matrix = np.where(random.random((m, n)) < 0.5 / n, random.random((m, n)), 0)
    matrix[: random.integers(3)] = random.random(n)
    matrix[:, : random.integers(3)] = random.random((m, 1))
    matrix = matrix.T if transposed else matrix
    m, n = matrix.shape
    pattern = sp.csr_array(matrix != 0)
    alone = min((matrix != 0).sum(0).max(), (matrix != 0).sum(1).max())
    found = bicoloring.fewest(pattern)
    if found is None:
        return
    kinds = [np.arange(colors.max() + 1)[:, None] == colors for colors in found]
    products = np.concatenate([(kinds[0] @ matrix).ravel(), (kinds[1] @ matrix.T).ravel()])
    assert len(kinds[0]) + len(kinds[1]) < alone
    row, column = pattern.nonzero()
    np.testing.assert_allclose(
        products[bicoloring.entries(row, column, *found)], matrix[row, column]
    )


@pytest.mark.parametrize("transposed", [False, True])
def test_both_modes_where_neither_saves_anything_alone(transposed):
    """An arrow with a broad head: 2 for its columns, 1 for its rows, 1 for the rest."""
    matrix = np.eye(60, dtype=bool)
    matrix[:, :2] = True  # two long columns
    matrix[0, :30] = matrix[1, 30:] = True
    matrix = matrix.T if transposed else matrix
    assert coloring.fewest(sp.csr_array(matrix))[1].max() + 1 >= 31
    rows, columns = bicoloring.fewest(sp.csr_array(matrix))
    assert rows.max() + 1 + columns.max() + 1 == 4


@pytest.mark.parametrize("n", [2, 3, 7, 40])
def test_a_five_point_stencil_needs_few_colours(n):
    assert pullback.sparsity(stencil, torch.ones(n * n)).n_colors <= 6


def test_bands_need_as_many_colours_as_they_are_wide():
    for width in (1, 2, 5):
        plan = pullback.sparsity(
            lambda x, w=width: x.unfold(0, w, 1).sum(1), torch.ones(50)
        )
        assert plan.n_colors == width


# --- what it costs ------------------------------------------------------------------


def test_memory_grows_with_the_non_zeros():
    def peak(n):
        x = torch.empty(n, device="meta")
        tracemalloc.start()
        pullback.sparsity(tridiagonal, x)
        bytes_ = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return bytes_

    pullback.sparsity(tridiagonal, torch.empty(1000, device="meta"))  # imports
    small, large = peak(2_000), peak(20_000)
    assert large < 11 * small
    assert large < 2e9 / 1e6 * 20_000  # a million unknowns within 2 GB


def test_work_grows_with_the_non_zeros(monkeypatch):
    made = 0
    inner = index_sets._csr

    def counting(indices, indptr, columns):
        nonlocal made
        made += len(indices)
        return inner(indices, indptr, columns)

    monkeypatch.setattr(index_sets, "_csr", counting)
    counts = []
    for n in (1000, 10_000):
        made = 0
        pullback.sparsity(tridiagonal, torch.ones(n))
        counts.append(made)
    assert counts[0] > 3000  # each entry at least once
    assert counts[1] < 10.1 * counts[0]


def test_what_would_not_fit_is_refused():
    with pytest.raises(RuntimeError, match="depends on nearly all of x everywhere"):
        pullback.sparsity(lambda x: x + x.sum(), torch.empty(20_000, device="meta"))


# --- to be read ---------------------------------------------------------------------


def test_repr():
    plan = pullback.sparsity(tridiagonal, torch.ones(1000))
    assert repr(plan).splitlines() == [
        "Sparsity of the Jacobian",
        "shape     1000 outputs, 1000 inputs",
        "entries   2998 of 1000000, 0.003 of them",
        "colours   3, of the rows",
        "products  3 vector-Jacobian products, for 1000 if dense",
    ]
    assert repr(pullback.sparsity(arrow, torch.ones(9))).splitlines()[-2:] == [
        "colours   1, of the rows and 2, of the columns",
        "products  1 vector-Jacobian product and 2 Jacobian-vector products, "
        "for 9 if dense",
    ]
    html = plan._repr_html_()
    assert "<caption>Sparsity of the Jacobian</caption>" in html
    assert "3, of the rows" in html


def test_picture():
    plan = pullback.sparsity(tridiagonal, torch.ones(5))
    ax = plot.pattern(plan)
    assert ax.get_title() == "Sparsity, 5 × 5: 13 entries, 3 colours of rows"
    cells = {tuple(map(int, t.get_position())): t.get_text() for t in ax.texts}
    expected = {
        (j, i): str(int(plan.colors[i]))
        for i in range(5)
        for j in range(5)
        if abs(i - j) < 2
    }
    assert cells == expected
    ax = plot.pattern(pullback.sparsity(arrow, torch.ones(4)))
    assert ax.get_title() == "Sparsity, 4 × 4: 10 entries, 3 colours of rows and columns"
    assert [t.get_text() for t in ax.texts] == list("0000121212")
    _, mine = plt.subplots()
    large = pullback.sparsity(stencil, torch.ones(400))
    assert plot.pattern(large, mine, title="mine") is mine
    assert mine.get_title() == "mine"
    blocks = mine.images[0].get_array()
    assert blocks.shape == (100, 100)
    assert blocks.sum() == 5 * 400 - 4 * 20
    plt.close("all")


def distances(x):
    return torch.cdist(x, torch.ones(1, 2, dtype=x.dtype)).flatten()


def recurrent(x):
    torch.manual_seed(0)
    cell = torch.nn.LSTM(1, 2, batch_first=True, dtype=x.dtype)
    return cell(x.reshape(-1, 1, 1))[0].sum((1, 2)).repeat(5)


def attention(x):
    q = x.reshape(1, 1, -1, 1)
    found = torch.nn.functional.scaled_dot_product_attention(q, q, q)
    return found.flatten().repeat(3)


@pytest.mark.parametrize(
    ("f", "shape"), [(distances, (9, 2)), (recurrent, (4,)), (attention, (5,))]
)
def test_auto_takes_rows_where_an_operation_has_no_rule_for_tangents(f, shape):
    x = torch.linspace(-1, 1, torch.Size(shape).numel()).reshape(shape)
    assert pullback.sparsity(f, x, mode="forward").mode == "forward"
    plan = pullback.sparsity(f, x)
    assert plan.mode == "reverse"
    J = pullback.jacobian(f, x, mode="reverse").reshape(plan.pattern.shape)
    torch.testing.assert_close(plan.jacobian(f, x).to_dense(), J)


def neighbours(x):
    return x[1:] * x[:-1]


BANDED = torch.eye(6).diff(dim=0)


@pytest.mark.parametrize(
    "pattern",
    [
        BANDED,
        BANDED.clone().requires_grad_(),
        BANDED.numpy(),
        BANDED.bool(),
        BANDED.to_sparse(),
        BANDED.to_sparse_csr(),
        sp.csr_matrix(BANDED.numpy()),
        sp.coo_array(BANDED.numpy()),
    ],
    ids=[
        "torch",
        "requires grad",
        "numpy",
        "bool",
        "coo",
        "csr",
        "scipy matrix",
        "scipy array",
    ],
)
def test_a_plan_of_a_pattern_that_is_known(pattern):
    plan, x = pullback.Sparsity.from_pattern(pattern), torch.arange(6.0)
    traced = pullback.sparsity(neighbours, x)
    assert plan.n_colors == traced.n_colors == 2
    J = plan.jacobian(neighbours, x, verify=True)
    torch.testing.assert_close(J.to_dense(), pullback.jacobian(neighbours, x))
    found = plan.to_scipy(J)
    assert isinstance(found, sp.csr_array)
    np.testing.assert_array_equal(found.toarray(), J.to_dense().numpy())


def test_a_known_pattern_has_the_shapes_of_input_and_output():
    def f(x):
        return (x[1:] * x[:-1]).sum(1)

    x = torch.arange(6.0).reshape(3, 2)
    pattern = pullback.jacobian(f, x + 1).reshape(2, 6)
    plan = pullback.Sparsity.from_pattern(pattern, input_shape=(3, 2), output_shape=(2,))
    torch.testing.assert_close(
        plan.jacobian(f, x).to_dense(), pullback.jacobian(f, x).reshape(2, 6)
    )
    with pytest.raises(ValueError, match="the plan is for"):
        plan.jacobian(f, x.flatten())


def test_one_triangle_of_a_hessian_is_enough():
    def f(x):
        return neighbours(x).sum() + (x**3).sum()

    plan = pullback.Sparsity.from_pattern(
        torch.eye(6) + BANDED.new_ones(6, 6).triu(1).tril(1), hessian=True
    )
    x = torch.arange(6.0)
    assert plan.n_colors < 6
    H = plan.hessian(f, x, verify=True).to_dense()
    torch.testing.assert_close(H, torch.func.hessian(f)(x))


def test_verify_finds_that_a_known_pattern_is_wrong():
    plan = pullback.Sparsity.from_pattern(torch.eye(5, 6))
    with pytest.raises(RuntimeError, match="outgrown its plan"):
        plan.jacobian(neighbours, torch.arange(6.0), verify=True)


@pytest.mark.parametrize(
    ("pattern", "options", "error", "message"),
    [
        (np.ones(3), {}, TypeError, "pattern has 1 dimensions"),
        ("text", {}, TypeError, "pattern has 0 dimensions"),
        (np.ones((3, 2)), {"hessian": True}, ValueError, "a Hessian is square"),
        (np.ones((3, 2)), {"input_shape": (3,)}, ValueError, "a shape of 2 numbers"),
        (np.ones((3, 2)), {"output_shape": (2,)}, ValueError, "a shape of 3 numbers"),
        (np.ones((2, 2)), {"mode": "back"}, ValueError, "mode is 'back'"),
    ],
)
def test_bad_patterns(pattern, options, error, message):
    with pytest.raises(error, match=message):
        pullback.Sparsity.from_pattern(pattern, **options)


def test_a_plan_is_copied_and_loaded_with_a_module():
    plan = pullback.sparsity(neighbours, torch.ones(6))

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.plan = plan

    assert copy.deepcopy(Model()).plan is copy.deepcopy(plan) is plan  # it never changes
    stored = io.BytesIO()
    torch.save(plan, stored)
    stored.seek(0)
    x = torch.arange(6.0)
    loaded = torch.load(stored, weights_only=True)
    assert torch.equal(
        loaded.jacobian(neighbours, x).to_dense(), plan.jacobian(neighbours, x).to_dense()
    )


def test_control_flow_operators_are_named():
    def f(x):
        return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))

    with pytest.raises(RuntimeError, match=r"f runs torch\.cond.*: return torch\.cond\(x"):
        pullback.sparsity(f, torch.ones(3))


FORWARD_OVER_REVERSE = """
import torch, warnings
from torch.func import grad, hessian, jvp
import pullback

def product_along(x):
    return jvp(grad(torch.prod), (x,), (torch.ones_like(x),))[1]

def curvature(x):
    return hessian(lambda x: (x**3).sum() * x[0])(x)

warnings.filterwarnings("error", "f looks at values")
x = torch.tensor([1.0, 2.0, 3.0])
for f in (product_along, curvature):
    plan = pullback.sparsity(f, x)
    J = pullback.jacobian(f, x)
    assert torch.equal(plan.pattern.to_dense(), J.reshape(-1, 3) != 0)
    assert torch.allclose(plan.jacobian(f, x).to_dense().reshape(J.shape), J)
    assert not plan.assumed_dense
pullback.sparsity(lambda x: curvature(x).sum(), x, hessian=True)
"""


def test_zeros_of_forward_mode_have_no_memory_to_be_read():
    run = run_code(FORWARD_OVER_REVERSE)  # for such a read ends the process
    assert run.returncode == 0, run.stderr


# --- what attention, convolutions and indices hide -----------------------------------

CAUSAL = torch.ones(5, 5, dtype=torch.bool).tril()
WINDOW = CAUSAL & ~torch.ones(5, 5, dtype=torch.bool).tril(-2)


def bias(mask, low=-torch.inf):
    return torch.zeros(mask.shape, dtype=torch.float64).masked_fill(~mask, low)


MASKS = {
    "added": lambda s, mask: s + bias(mask),
    "added in place": lambda s, mask: s.clone().add_(bias(mask)),
    "added, the lowest number": lambda s, mask: s + bias(mask, torch.finfo(s.dtype).min),
    "filled": lambda s, mask: s.masked_fill(~mask, -torch.inf),
    "where": lambda s, mask: torch.where(mask, s, -torch.inf),
    "added, then filled": lambda s, mask: (s + bias(CAUSAL)).masked_fill(~mask, -torch.inf),
    "added, then cast": lambda s, mask: (s + bias(mask)).to(torch.float32),
}


@pytest.mark.parametrize("mask", [CAUSAL, WINDOW], ids=["causal", "window"])
@pytest.mark.parametrize("name", MASKS)
def test_a_masked_softmax_depends_on_what_the_mask_leaves(name, mask):
    def f(s):
        return MASKS[name](s.reshape(5, 5), mask).softmax(-1)

    kept = mask.flatten()
    rows = torch.block_diag(*torch.ones(5, 5, 5)).bool()
    assert torch.equal(entries(f, numbers(25)), rows & kept & kept[:, None])


def test_a_mask_that_can_change_masks_nothing():
    mask = bias(CAUSAL)
    plan = pullback.sparsity(lambda s, m: (s + m).softmax(-1), numbers(5, 5), mask)
    assert plan.pattern.values().numel() == 125
    weight = mask.clone().requires_grad_()
    assert entries(lambda s: (s + weight).softmax(-1), numbers(5, 5)).sum() == 125


def test_what_a_mask_adds_is_seen_outside_of_a_softmax():
    assert torch.equal(entries(lambda s: s + bias(CAUSAL)[4], numbers(5)), torch.eye(5) > 0)
    low = bias(CAUSAL)[1]  # of numbers 2 to 4
    found = entries(lambda s: (s + low).log_softmax(0), numbers(5))
    wanted = torch.eye(5, dtype=torch.bool)
    wanted[:, :2] = True
    assert torch.equal(found, wanted)
    close(
        pullback.sparsity(lambda s: (s + low).log_softmax(0)[:2], numbers(5))
        .jacobian(lambda s: (s + low).log_softmax(0)[:2], numbers(5))
        .to_dense(),
        dense(lambda s: (s + low).log_softmax(0)[:2], numbers(5)),
    )


def test_a_row_that_is_masked_throughout_depends_on_all_of_itself():
    lowest = torch.finfo(torch.float64).min
    f = lambda s: (s + torch.full((3,), lowest, dtype=s.dtype)).softmax(0)  # noqa: E731
    assert entries(f, numbers(3)).all()


def test_what_is_written_over_a_mask_counts_again():
    def f(s):
        masked = s + bias(CAUSAL)[1]
        masked[3] = s[3]
        return masked.softmax(0)

    kept = torch.tensor([1, 1, 0, 1, 0]).bool()
    assert torch.equal(entries(f, numbers(5)), kept & kept[:, None])


@pytest.mark.parametrize("how", ["is_causal", "boolean", "float"])
def test_attention_sees_as_far_as_its_mask(how):
    options = {
        "is_causal": {"is_causal": True},
        "boolean": {"attn_mask": CAUSAL},
        "float": {"attn_mask": bias(CAUSAL).float()},
    }[how]

    def f(x):
        x = x.reshape(1, 2, 5, 3)
        return F.scaled_dot_product_attention(x, x, x, **options)

    head = torch.kron(CAUSAL, torch.ones(3, 3, dtype=torch.bool))
    found = entries(f, numbers(30, dtype=torch.float32))
    assert torch.equal(found, torch.block_diag(head, head))


def test_an_lstm_looks_back_only():
    torch.manual_seed(0)  # of the weights
    lstm = torch.nn.LSTM(2, 3, batch_first=True)
    before = torch.backends.mkldnn.enabled
    plan = pullback.sparsity(lambda x: lstm(x)[0], torch.ones(1, 4, 2))
    past = torch.ones(4, 4, dtype=torch.bool).tril()
    assert torch.equal(
        plan.pattern.to_dense(), torch.kron(past, torch.ones(3, 2, dtype=torch.bool))
    )
    assert (plan.assumed_dense, torch.backends.mkldnn.enabled) == ((), before)


@pytest.mark.parametrize(
    ("f", "name"),
    [
        (lambda x: x[x.argsort()], "index"),
        (lambda x: x[x > 1], "index"),
        (lambda x: x.gather(0, x.argmax(0, keepdim=True)), "gather"),
        (lambda x: torch.zeros_like(x).scatter_add(0, x.argsort(), x), "scatter_add"),
        (lambda x: x.index_select(0, x.argsort()), "index_select"),
    ],
)
def test_an_index_that_x_decides_is_named(f, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # x > 1 decides the shape
        assert pullback.sparsity(f, numbers(4)).assumed_dense == (name,)
    index = torch.tensor([2, 0])
    assert pullback.sparsity(lambda x: x[index], numbers(4)).assumed_dense == ()
    by_input = pullback.sparsity(lambda x, i: x[i], numbers(4), index)
    assert by_input.assumed_dense == ("index",)


def test_the_sets_of_channels_are_kept_once():
    torch.manual_seed(0)  # of the weights
    wide = torch.nn.Sequential(
        torch.nn.Conv2d(3, 64, 3, padding=1),
        torch.nn.BatchNorm2d(64),
        torch.nn.ReLU(),
        torch.nn.Conv2d(64, 64, 3, padding=1, stride=2),
        torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(64, 2, 1),
    ).eval()
    x = torch.randn(1, 3, 16, 16)
    pullback.sparsity(wide, x[..., :8, :8])  # imports
    tracemalloc.start()
    plan = pullback.sparsity(wide, x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # 4 x 4 places of 64 channels at stride 4: windows of at most 9 x 9 x 3 numbers
    of_first = entries(lambda x: wide(x).squeeze(0)[0], x)
    assert torch.equal(plan.pattern.to_dense(), of_first.repeat(2, 1))
    assert plan.pattern.values().numel() < 2 * 16 * 243 + 1
    assert peak < 40 * 2**20  # 250 MiB with a set for each element


@given(st.data())
def test_sets_that_are_kept_once_are_those_of_each_element(data):
    columns, rows = 7, 24

    def draw():
        kept = data.draw(st.lists(st.sets(st.integers(0, 6)), min_size=1, max_size=12))
        at = data.draw(
            st.lists(st.integers(-1, len(kept) - 1), min_size=rows, max_size=rows)
        )
        table = np.zeros((len(kept), columns), bool)
        for row, members in zip(table, kept, strict=True):
            row[list(members)] = True
        sets = index_sets.Sets(sp.csr_array(table), np.array(at))
        return sets, np.vstack([table, np.zeros((1, columns), bool)])[at]

    (a, A), (b, B) = draw(), draw()
    size = data.draw(st.sampled_from([1, 2, 3, 8, 24]))
    n = data.draw(st.integers(1, 40))
    choice = st.lists(st.integers(0, rows - 1), min_size=n, max_size=n)
    target, source = np.array(data.draw(choice)), np.array(data.draw(choice))
    led = np.zeros_like(A)
    for i, j in zip(target, source, strict=True):
        led[i] |= A[j]
    right = {
        "union": (index_sets.union(a, b), A | B),
        "select": (index_sets.select(a, source), A[source]),
        "keep": (index_sets.keep(a, B[:, 0]), A * B[:, :1]),
        "merge": (index_sets.merge(a, size), A.reshape(-1, size, columns).any(1)),
        "through": (index_sets.through((target, source), rows, a), led),
        "stack": (index_sets.stack([a, b]), np.vstack([A, B])),
    }
    for name, (sets, wanted) in right.items():
        assert np.array_equal(index_sets.matrix(sets).toarray(), wanted), name
        assert np.array_equal(index_sets.changing(sets), wanted.any(1)), name
        assert (sets.any, sets.rows) == (wanted.any(), len(wanted)), name


@pytest.fixture
def all_are_large(monkeypatch):
    from pullback import _sparsity

    monkeypatch.setattr(_sparsity, "LARGE", 12)
    monkeypatch.setattr(_sparsity, "WIDE", 2)


@pytest.mark.parametrize("mode", ["auto", "reverse", "forward"])
@pytest.mark.parametrize(("m", "n"), [(3, 5), (5, 3)])
def test_a_large_dense_jacobian_is_not_followed(all_are_large, tmp_path, mode, m, n):
    W = torch.linspace(1, 2, m * n, dtype=torch.float64).reshape(m, n)
    x = torch.linspace(-1, 1, n, dtype=torch.float64)
    f = torch.nn.Tanh()
    plan = pullback.sparsity(lambda x: f(W @ x), x, mode=mode)
    assert plan.mode == (
        "forward" if mode == "forward" or (mode == "auto" and n < m) else "reverse"
    )
    assert plan.assumed_dense == ("f, by rows drawn by lot",)
    assert "15 of 15" in repr(plan)
    assert "pattern" not in vars(plan)  # it is made when it is asked for
    J = plan.jacobian(lambda x: f(W @ x), x, verify=True)
    torch.testing.assert_close(J.to_dense(), torch.func.jacrev(lambda x: f(W @ x))(x))
    assert plan.pattern.to_dense().all()
    torch.save(plan, tmp_path / "plan.pt")
    again = torch.load(tmp_path / "plan.pt")
    assert torch.equal(again.jacobian(lambda x: f(W @ x), x).to_dense(), J.to_dense())


def test_one_row_with_a_zero_is_enough_to_follow_a_large_function(all_are_large):
    W = torch.ones(6, 6).triu()
    plan = pullback.sparsity(lambda x: W @ x, torch.ones(6))
    assert plan.pattern.values().numel() == 21
    assert plan.assumed_dense == ()


@pytest.mark.parametrize("name", ["outputs", "inputs"])
def test_what_a_relu_makes_flat_here_may_be_dense(all_are_large, name):
    torch.manual_seed(0)
    W, x = torch.randn(40, 40), torch.randn(40)
    relu = torch.nn.functional.relu
    f = {"outputs": lambda x: relu(W @ x), "inputs": lambda x: W @ relu(x)}[name]
    plan = pullback.sparsity(f, x)
    assert plan.assumed_dense == ("f, by rows drawn by lot",)
    J = torch.func.jacrev(f)(x)
    torch.testing.assert_close(plan.jacobian(f, x).to_dense(), J)


def test_rows_that_are_not_finite_or_not_to_be_had_tell_nothing(all_are_large):
    def f(x):
        if x[0] < 0:
            raise ValueError("x is negative")
        return x.sqrt()[1:] + x[:-1]

    def roots(x):
        return x.sqrt() * torch.ones(6, 6).tril()[3]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # f looks at values
        plan = pullback.sparsity(f, torch.ones(6))
    assert plan.pattern.values().numel() == 10
    assert pullback.sparsity(roots, torch.ones(6)).pattern.values().numel() == 4


def test_an_example_of_the_input_is_needed():
    with pytest.raises(TypeError, match=r"as in pullback\.sparsity\(f, x\)"):
        pullback.sparsity(torch.sin)


def test_a_network_of_images_is_called_dense_early():
    torch.manual_seed(0)  # which weights is no matter
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 7, 4, 3),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.Conv2d(8, 8, 3, 2, 1),
        torch.nn.AdaptiveAvgPool2d(4),
        torch.nn.Flatten(),
        torch.nn.Linear(128, 400),
    )
    x = torch.randn(1, 3, 128, 128)
    before = net[1].running_mean.clone()
    plan = pullback.sparsity(net, x)
    assert torch.equal(net[1].running_mean, before)
    assert plan.n_colors == 400
    assert "pattern" not in vars(plan)


def test_x_may_be_a_dict_as_of_parameters():
    model = torch.nn.Linear(4, 3).double()
    X = torch.eye(4, dtype=torch.float64)[:2]  # which meets two weights of each output
    params = dict(model.named_parameters())

    def f(p):
        return torch.func.functional_call(model, p, (X,)).tanh()

    plan = pullback.sparsity(f, params)
    dense = pullback.jacobian(f, params)
    expected = torch.cat([dense[k].reshape(6, -1) for k in params], 1)
    J = plan.jacobian(f, params, verify=True)
    torch.testing.assert_close(J.to_dense(), expected)
    assert J.to_dense().requires_grad

    def loss(p):
        return sum((t**3).sum() for t in p.values())

    plan = pullback.sparsity(loss, params, hessian=True)
    assert plan.n_colors == 1
    six = torch.cat([6 * t.detach().reshape(-1) for t in params.values()])
    H = plan.hessian(loss, params).detach().to_dense()
    torch.testing.assert_close(H, six.diag())
    torch.testing.assert_close(
        pullback.laplacian(loss, params, plan=plan).detach(), six.sum()
    )
    with pytest.raises(ValueError, match="the inputs have shapes"):
        plan.hessian(loss, {"weight": params["weight"]})
    with pytest.raises(TypeError, match="one dtype is needed"):
        pullback.sparsity(f, {"weight": params["weight"], "bias": params["bias"].float()})
