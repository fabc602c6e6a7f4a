"""Which operations a live picture can compute: torch's own samples, compared with it."""

import warnings

import pytest
import torch
from executed import ROOT

import pullback
from certified import AGREE, certify, differences
from pullback._live import Live, _recorded
from pullback._live_operators import CONSTANT, RULES

LARGEST = 60  # numbers in an input or an output, more than a picture shows
#: Where torch's own kernel is less exact: it has 1/6 in single precision.
INEXACT = {"nn.functional.hardsigmoid": 1e-7}


def samples():
    """Yield a name, a function of one tensor, and the tensor, of torch's samples."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    for op in op_db:
        if torch.float64 not in op.supported_dtypes("cpu") or not op.supports_autograd:
            continue
        if "sparse" in op.name:
            continue
        torch.manual_seed(0)  # the samples are drawn
        name = ".".join(filter(None, (op.name, op.variant_test_name)))
        for sample in op.sample_inputs("cpu", torch.float64, requires_grad=False):

            def f(x, op=op, sample=sample):
                y = op(x, *sample.args, **sample.kwargs)
                return y[0] if isinstance(y, tuple | list) else y

            if fits(f, sample.input):
                yield name, f, sample.input
                break


def fits(f, x):
    """Tell whether x and f(x) are small real tensors, and the one depends on the other."""
    if not isinstance(x, torch.Tensor) or not 1 <= x.numel() <= LARGEST:
        return False
    try:
        y = f(x.detach().clone().requires_grad_())
    except (RuntimeError, TypeError, ValueError):
        return False
    return y.is_floating_point() and y.requires_grad and 1 <= y.numel() <= LARGEST


def outcome(name, f, x):
    """Return whether the program agrees with torch, or why there is none."""
    y = f(x).detach()
    try:
        program, _ = _recorded(f, x, y, torch.ones_like(y), graph=False)
    except (NotImplementedError, ValueError) as error:
        return str(error).partition(";")[0]
    live = Live(f, (x, torch.ones_like(y), y, torch.zeros(1, 1), x), ([], []), program)
    try:
        worst = max(differences(live, 6), key=lambda d: d.size)
    except RuntimeError as error:
        return f"torch raises: {error}"
    assert worst.size <= INEXACT.get(name, AGREE), (name, worst)
    return "agrees"


def test_torch_samples(file_regression):
    """The record is the table of what a page can compute, and of what it refuses."""
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, f, x in samples():
            found.setdefault(outcome(name, f, x), []).append(name)
    assert len(found["agrees"]) > 250
    lines = [f"{reason}:\n    {', '.join(found[reason])}" for reason in sorted(found)]
    record = ROOT / "tests" / "records" / "live_operators.md"
    file_regression.check("\n".join(lines) + "\n", fullpath=record, extension=".md")


W = torch.linspace(-1, 1, 12).reshape(4, 3)
MORE = {
    "_unsafe_index": lambda x: x.reshape(1, 1, 3).repeat_interleave(2, -1),
    "alpha": lambda x: torch.sub(x, x.exp(), alpha=3) + torch.rsub(x, x.sin(), alpha=2),
    "argmin": lambda x: x * x.argmin(),
    "attention": lambda x: torch.nn.functional.scaled_dot_product_attention(
        *[x.reshape(1, 1, 3, 1)] * 3, is_causal=True
    ),
    "bool or": lambda x: x * ((x > 0) + (x < -1)),
    "captured module": torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GELU()),
    "gather by order": lambda x: x.gather(0, x.argsort(descending=True)) * x,
    "in place, in a view": lambda x: x.clone().reshape(3, 1).t().mul_(2).squeeze(0) * x,
    "in place, of a constant": lambda x: torch.zeros(4).index_copy_(
        0, torch.tensor([2, 0, 3]), x
    ),
    "index by a computed place": lambda x: x[x.argsort()[:1]] * x,
    "mask": lambda x: x.clone().masked_fill_(x > 0, 0).add_(x),
    "matrix and vector": lambda x: (W @ x).tanh() @ W,
    "negative places": lambda x: x[torch.tensor([-1, 0])],
    "second derivative": torch.func.grad(lambda x: (x**3).sum()),
    "second derivative, of a graph": lambda x: torch.autograd.grad(
        (x**3).sum(), x, create_graph=True
    )[0],
    "straight through": lambda x: x + (x.round() - x).detach(),
    "truth of numbers": lambda x: x * torch.logical_xor(x, x.floor()),
    "write where true": lambda x: torch.where(x > 0, x, x.new_zeros(())).index_put(
        (x > 1,), torch.tensor(7.0)
    ),
}


@pytest.mark.parametrize("case", MORE)
def test_combinations(case):
    certify(pullback.live(MORE[case], torch.tensor([0.5, -1.5, 2.0])))


def test_a_wrong_program_is_seen():
    live = pullback.live(torch.sigmoid, torch.ones(2))
    (node,) = [node for node in live.program["nodes"] if node[0] == "sigmoid"]
    node[0] = "tanh"
    with pytest.raises(AssertionError, match="differ"):
        certify(live)


def test_a_wrong_number_in_the_graph_is_seen():
    live = pullback.live(lambda x: (2 * x).sin(), torch.ones(2), graph=True)
    certify(live)
    live.program["outputs"][-1] = live.program["outputs"][0]
    with pytest.raises(AssertionError, match="differ"):
        certify(live)


WHY = {
    "if": (lambda x: x if x.sum() > 0 else -x, r"looks at a value \(if, float"),
    "float": (lambda x: x * float(x[0]), r"looks at a value \(if, float"),
    "tolist": (lambda x: x * sum(x.tolist()), r"looks at a value \(tolist"),
    "numpy": (lambda x: x * float(x.detach().numpy()[0]), r"looks at a value \(numpy"),
    "equal": (lambda x: x * torch.equal(x, x), r"looks at a value \(equal"),
    "shape": (lambda x: x[x > 0], r"index of this kind \(its shape depends on values"),
    "nonzero": (lambda x: x[x.nonzero()[0]], "nonzero of this kind .its shape depends"),
    "rand": (lambda x: x * torch.rand(3), "rand draws random numbers"),
    "dropout": (torch.nn.Dropout(), "draws random numbers"),
    "half": (lambda x: x.half().float(), "rounds to half precision"),
    "complex": (lambda x: torch.fft.fft(x).real, "gives complex numbers"),
    "lacking": (lambda x: torch.linalg.inv(x.outer(x) + torch.eye(3)), "linalg_inv_ex"),
    "bits": (lambda x: x * (x.long() & 1), "bits of integers"),
}


@pytest.mark.parametrize("why", WHY)
def test_refused(why):
    f, message = WHY[why]
    x = torch.tensor([1.0, 2.0, 3.0])
    state = torch.get_rng_state()
    with pytest.raises(NotImplementedError, match=message):
        pullback.live(f, x)
    assert torch.equal(state, torch.get_rng_state())


def test_the_line_of_f_is_named():
    def f(x):
        y = x * 2
        z = y.exp()
        return z if z.sum() > 0 else y

    with pytest.raises(NotImplementedError, match=r"test_live_operators.py: return z if z"):
        pullback.live(f, torch.ones(3))


def test_the_line_of_f_whose_backward_is_refused():
    def f(x):
        y = x * 2
        z = torch.nn.functional.hardshrink(y)
        return z + y

    with pytest.raises(NotImplementedError, match=r"hardshrink_backward.*: z = torch.nn"):
        pullback.live(f, torch.ones(3))


def test_of_one_dtype_alone():
    convolution = torch.nn.Conv1d(1, 1, 2)
    with pytest.raises(NotImplementedError, match=r"float64, in which a page\s+computes"):
        pullback.live(lambda x: convolution(x[None]), torch.ones(3))


def test_names():
    """No rule stands for an operation that torch does not have."""
    known = {name for name in [*RULES, *CONSTANT] if hasattr(torch.ops.aten, name)}
    assert {*RULES, *CONSTANT} - known == {"convert_element_type"}  # of prims
