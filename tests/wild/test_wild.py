"""Programs with real libraries: watch finds nothing in them, and Jacobians are right."""

import warnings

import pytest
import torch
from wild.programs import PROGRAMS

import pullback

pytestmark = [
    pytest.mark.wild,
    pytest.mark.filterwarnings("ignore"),  # of the libraries
]


#: Operations whose places the input decides: experts for tokens, bins of a spline.
BY_VALUES = {
    "mixtral": {"nonzero", "index", "index_add", "scatter"},
    "spline_flow": {"gather", "index", "index_put"},
}


@pytest.fixture(params=PROGRAMS, ids=lambda p: f"{p[0]}-{p[1].__name__}")
def make(request):
    library, make = request.param
    pytest.importorskip(library)

    def seeded():
        torch.manual_seed(0)  # any weights do, the same each time
        return make()

    torch.set_default_dtype(torch.float64)
    yield seeded
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def program(make):
    return make()


def test_watch_finds_nothing_and_changes_nothing(make):
    plain, watched = make(), make()
    torch.manual_seed(1)  # the same batches and dropout with and without
    plain.train()
    after = plain.f(plain.x), torch.rand(1)
    torch.manual_seed(1)
    with pullback.watch() as seen:
        watched.train()
    assert list(seen) == [], seen
    assert seen.unseen == ()
    same = watched.f(watched.x), torch.rand(1)
    torch.testing.assert_close(same, after, rtol=0, atol=0)


def by_torch(f, x):
    """Return the Jacobian as torch computes it, all rows at once or one after the other."""
    try:
        return torch.func.jacrev(f)(x)
    except RuntimeError:  # a Function without setup_context, a mask that requires grad
        return torch.autograd.functional.jacobian(f, x)


def test_the_jacobian_is_that_of_torch(program):
    f, x = program.f, program.x
    torch.testing.assert_close(pullback.jacobian(f, x), by_torch(f, x))


def test_the_routes_agree(program):
    report = pullback.check(program.f, program.x)
    assert report.ok, report


def test_the_pattern_holds_every_entry(program, request):
    f, x = program.f, program.x
    name = request.node.callspec.id.partition("-")[2]
    with warnings.catch_warnings(action="ignore"):  # of values that f looks at
        plan = pullback.sparsity(f, x)
    J = pullback.jacobian(f, x).reshape(-1, x.numel())
    assert not J[~plan.pattern.to_dense()].any()
    assert {*plan.assumed_dense} <= BY_VALUES.get(name, set())
