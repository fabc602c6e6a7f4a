"""Which operations a live picture can compute: torch's own samples, compared with it."""

import functools
import json
import math
import os
import re
import warnings
from functools import partial
from textwrap import fill

import pytest
import torch
from executed import EXAMPLES, ROOT, name_of
from forks import run_module
from sweeps import one_in

import pullback
from certified import AGREE, certify, differences, engine
from pullback._live import Live, _recorded
from pullback._live_operators import CONSTANT, RULES

RECORD = ROOT / "tests" / "records" / "live_operators.md"
LARGEST = 60  # numbers in an input or an output, more than a picture shows
#: Where torch's own kernel is less exact: it has 1/6 in single precision.
INEXACT = {"nn.functional.hardsigmoid": 1e-7}
#: Where f itself goes on in single precision, if no mode keeps it in double.
SINGLE = INEXACT | {"float": 1e-7}


def operations():
    """Return the operations of torch's samples by their names."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db
    return {
        ".".join(filter(None, (op.name, op.variant_test_name))): op
        for op in op_db
        if torch.float64 in op.supported_dtypes("cpu") and op.supports_autograd
        if "sparse" not in op.name
    }


def samples(operations):
    """Yield a name, a function of one tensor, and the tensor, of torch's samples."""
    for name, op in operations.items():
        torch.manual_seed(0)  # the samples are drawn
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
    worst = max(differences(live, 6, ask=partial(plain, f, x)), key=lambda d: d.size)
    assert worst.size <= SINGLE.get(name, AGREE), (name, "without modes", worst)
    return "agrees"


def plain(f, like, x, v):
    """Return y and the product at x and v, computed with no mode around f."""
    leaf = x.detach().reshape(like.shape).clone().requires_grad_()
    y = f(leaf)
    (product,) = torch.autograd.grad(y, leaf, v.reshape(y.shape), materialize_grads=True)
    return y.detach().flatten(), product.flatten()


def test_torch_samples(file_regression, request):
    """The record is the table of what a page can compute, and of what it refuses.

    A run asks for one in twelve, by lot; a full run for all, as one that renews it does.
    """
    asked = operations()
    every = any(map(request.config.getoption, ("--every-case", "--regen-all")))
    if not every:
        asked = {name: asked[name] for name in one_in(12, asked)}
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, f, x in samples(asked):
            found.setdefault(outcome(name, f, x), []).append(name)
    if not every:
        known = {name: why for name, why in recorded().items() if name in asked}
        assert {name: why for why, names in found.items() for name in names} == known
        return
    assert len(found["agrees"]) > 250
    lines = [f"{reason}:\n    {', '.join(found[reason])}" for reason in sorted(found)]
    file_regression.check("\n".join(lines) + "\n", fullpath=RECORD, extension=".md")


def recorded():
    """Return the outcome of each operation, as the record has it."""
    lines = RECORD.read_text(encoding="utf-8").splitlines()
    return {
        name: reason.removesuffix(":")
        for reason, names in zip(lines[::2], lines[1::2], strict=True)
        for name in names.strip().split(", ")
    }


# ---------------------------------------------------------------- of the examples

TESTS = ROOT / "tests"
TABLE = ROOT / "tests" / "records" / "live_examples.md"
#: What compiles functions, which a mode that looks at operators keeps from it.
COMPILES = {"27_custom_op", "70_vmap_limits", "78_compiled_exported"}


def table():
    """Return the outcomes of each operator, as the record has them."""
    found = {}
    for part in TABLE.read_text().split("\n\n") if TABLE.exists() else []:
        outcome, names = part.split(":\n")
        for name in names.replace(",", "").split():
            found.setdefault(name, set()).add(outcome)
    return found


def written(found):
    """Return the text of a record."""
    outcomes = sorted({outcome for of_one in found.values() for outcome in of_one})
    parts = []
    for outcome in outcomes:
        names = ", ".join(sorted(name for name in found if outcome in found[name]))
        lines = fill(names, 90, initial_indent="    ", subsequent_indent="    ")
        parts.append(f"{outcome}:\n{lines}")
    return "\n\n".join(parts) + "\n"


@pytest.mark.sweep(lot=1, file=lambda source: source)
@pytest.mark.parametrize("source", EXAMPLES, ids=name_of)
def test_operators_of_an_example(source, request):
    """Each is computed as torch does, or refused; the record is the table of both.

    With ``--regen-all`` what is new goes into the table.
    """
    if source.stem in COMPILES:
        pytest.skip("compiles functions")
    environment = {**os.environ, "MPLBACKEND": "agg"}
    ran = run_module("operators_of", str(source), folder=TESTS, environment=environment)
    assert ran.returncode == 0, ran.stderr
    found = {name: set(outcomes) for name, outcomes in json.loads(ran.stdout).items()}
    known = table()
    new = {name: of_one - known.get(name, set()) for name, of_one in found.items()}
    if request.config.getoption("--regen-all"):
        for name, of_one in new.items():
            known.setdefault(name, set()).update(of_one)
        TABLE.write_text(written(known))
    assert {name: of_one for name, of_one in new.items() if of_one} == {}


def test_core_operators_of_the_examples():
    """What of torch's core operators occurs is computed, or refused by name."""
    found = table()
    assert written(found) == TABLE.read_text()
    core = {name for name in found if is_core(name)}
    computed = {name for name in core if "computed" in found[name]}
    assert len(computed) > 90
    for name in core - computed:
        assert any(name in why or name == "_local_scalar_dense" for why in found[name])
    assert core - computed == {
        *("_cdist_forward", "_embedding_bag", "_fft_r2c", "_local_scalar_dense"),
        *("avg_pool2d", "avg_pool2d_backward", "convolution", "convolution_backward"),
        *("nonzero", "scatter_reduce", "topk"),
    }
    for why in {why for of_one in found.values() for why in of_one} - {"computed"}:
        assert WHY.search(why), why


WHY = re.compile(
    r"^a page has no \w+|draws random numbers$|gives complex numbers$"
    r"|^f looks at a value|(takes|gives) a sparse tensor$|half precision$|float32 alone$"
)


def is_core(name):
    """Tell whether an operator of ATen is one of those that torch calls its core."""
    packet = getattr(torch.ops.aten, name)
    tags = (getattr(packet, overload).tags for overload in packet.overloads())
    return any(torch.Tag.core in of_one for of_one in tags)


# ---------------------------------------------------------------- together

W = torch.linspace(-1, 1, 12).reshape(4, 3)
MORE = {
    "_unsafe_index": lambda x: x.reshape(1, 1, 3).repeat_interleave(2, -1),
    "angles": lambda x: x.tan() * x.atan() + (x / 4).asin() * x.asinh() + (x / 4).atanh(),
    "alpha": lambda x: torch.sub(x, x.exp(), alpha=3) + torch.rsub(x, x.sin(), alpha=2),
    "argmax, argmin": lambda x: x * x.argmin() - x.exp() * x.argmax(),
    "attention": lambda x: torch.nn.functional.scaled_dot_product_attention(
        *[x.reshape(1, 1, 3, 1)] * 3, is_causal=True
    ),
    "bool or": lambda x: x * ((x > 0) + (x < -1)),
    "bool xor": lambda x: x * ((x > -1) ^ (x < 1)),
    "captured module": torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GELU()),
    "count that is doubled, 40 times": lambda x: (
        x
        * functools.reduce(
            lambda n, _: (n + n).fmod(7), range(40), (x > 0).sum(0, keepdim=True)
        )
    ),
    "filled by one entry": lambda x: torch.zeros(3).fill_(x[1].exp()) * x,
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
    "truncated": lambda x: x * x.trunc(),
    "truth of numbers": lambda x: x * torch.logical_xor(x, x.floor()),
    "write where true": lambda x: torch.where(x > 0, x, x.new_zeros(())).index_put(
        (x > 1,), torch.tensor(7.0)
    ),
}


@pytest.mark.sweep(lot=4)
@pytest.mark.parametrize("case", MORE)
def test_combinations(case):
    certify(pullback.live(MORE[case], torch.tensor([0.5, -1.5, 2.0])))


#: Functions with inputs at which torch computes in a way of its own: what is left of a
#: division, NaN, -0, whole numbers, and products that are too small or too large.
EDGES = {
    "floor division": (
        lambda x: x * torch.div(x, 0.1, rounding_mode="floor"),
        [[1.0], [2.5], [-1.0], [0.3], [0.0], [-0.05], [1e300], [math.nan]],
    ),
    "remainder": (
        lambda x: torch.remainder(x[:1], x[1:]),
        [[1.0, 0.1], [-1.0, 0.1], [3.0, -1.0], [1.0, math.inf], [-1.0, math.inf]],
    ),
    "fmod": (lambda x: torch.fmod(x[:1], x[1:]), [[1.0, 0.1], [-1.0, 0.1]]),
    "sign": (lambda x: x.log().abs(), [[-1.0, 1.0, 2.0]]),
    "sgn": (lambda x: x.log().sgn() * x, [[-1.0, 1.0, 2.0]]),
    "min": (lambda x: x.log().min(0).values * x, [[-1.0, 0.1], [2.0, -1.0], [0.1, 0.1]]),
    "argmin": (lambda x: x.log().argmin() * x, [[-1.0, 0.1], [2.0, -1.0], [0.1, 0.1]]),
    "long": (lambda x: x.long() * x, [[3e9], [1e19], [-1e19], [-2.7], [4e18]]),
    "count": (lambda x: (x > 0).sum() * ((x > 0).int() * 3 - 1) * x, [[2.0, -1.0]]),
    "power 0.5": (lambda x: x**0.5, [[-0.0], [0.0], [3.3]]),
    "power -0.5": (lambda x: x**-0.5, [[-0.0], [3.3]]),
    "power -1": (lambda x: x**-1, [[-0.0], [3.3]]),
    "power -2": (lambda x: x**-2, [[-0.0], [3.3]]),
    "power 3": (lambda x: x**3, [[-0.0], [3.3]]),
    "gelu": (torch.nn.functional.gelu, [[-8.25], [-8.2], [-20.0], [-5.0], [1.3]]),
    "layer_norm": (
        lambda x: torch.nn.functional.layer_norm(x, (3,)),
        [[0.1, 0.1, 0.1], [1e40, 1e40, 1e40]],
    ),
    "prod": (
        lambda x: x.prod(),
        [[1e-200, 1e-200, 1.0], [1e200, 1e200, 1.0], [0.0, 2.0, 3.0], [0.0, 0.0, 1.0]],
    ),
    "prod along the last": (
        lambda x: x.reshape(2, 2).prod(-1),
        [[1e-200, 1e-200, 1.0, 2.0], [1e200, 1e200, 1.0, 2.0], [0.0, 2.0, 3.0, 4.0]],
    ),
    "prod along the first": (
        lambda x: x.reshape(2, 2).prod(0, keepdim=True),
        [[1e-200, 1.0, 1e-200, 2.0], [1e200, 1e200, 1e200, 2.0], [0.0, 2.0, 3.0, 4.0]],
    ),
    "the largest": (lambda x: x.log().nan_to_num(), [[0.0, 1.0]]),
}


@pytest.mark.parametrize("graph", [False, True], ids=["a leaf", "with a graph"])
@pytest.mark.parametrize("case", EDGES)
def test_at_the_edges(case, graph):
    """The page has what torch gives in float64, with no mode of this package around it."""
    f, inputs = EDGES[case]
    start = torch.full((len(inputs[0]),), 2.0, dtype=torch.float64)
    live = pullback.live(f, start, graph=graph)
    v = [1.0] * len(live.v)
    for x in inputs:
        leaf = torch.tensor(x, dtype=torch.float64, requires_grad=True)
        y = f(leaf)
        (product,) = torch.autograd.grad(y, leaf, torch.ones_like(y))
        written = json.dumps(x).replace("NaN", '"NaN"').replace("Infinity", '"Infinity"')
        told = engine().eval(f"""((program, x, v) => {{
            const at = live.run(program, x.map(Number), v);
            const found = program.outputs.slice(0, 2).map(i => at[i]);
            const cells = found[0].map(live.tidy);
            return JSON.stringify([...found, cells].map(list => list.map(String)));
        }})({json.dumps(live.program)}, {written}, {v})""")
        page, slopes, cells = (list(map(float, part)) for part in json.loads(str(told)))
        torch.testing.assert_close(
            torch.tensor([*page, *slopes], dtype=torch.float64),
            torch.cat([y.detach().flatten(), product]),
            rtol=1e-14,
            atol=0.0,
            equal_nan=True,
        )
        assert [math.isfinite(cell) for cell in cells] == [math.isfinite(n) for n in page]


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


def test_names():
    """No rule stands for an operation that torch does not have."""
    assert [n for n in [*RULES, *CONSTANT] if not hasattr(torch.ops.aten, n)] == []
