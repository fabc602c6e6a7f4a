"""Live pictures on a page of the site: data in the page, one script beside it."""

import json
import math
import re
from textwrap import indent

import pytest
import torch
from built import needs_chromium
from executed import ROOT
from sites import Site, conf, write
from torch.nn import functional as F

import pullback
from certified import (
    AGREE,
    COUNT,
    Difference,
    certify,
    differences,
    engine,
    held,
    inputs_for,
)
from pullback._live import script

SCRIPTS = [str(ROOT / "src" / "pullback" / name) for name in ("live.js", "steps.js")]
CONF = conf("live_pictures", html_static_path=SCRIPTS)
POLICY = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'"


def house(x):
    return torch.stack([x.sum(), (x**2).sum()])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    site = Site(tmp_path_factory.mktemp("live"))
    write(site.folder, {"docs/conf.py": CONF})
    write(site.folder, {"docs/other.rst": ":orphan:\n\nOther\n=====\n"})
    pictures = [
        pullback.live(house, torch.ones(3), graph=True),
        pullback.live(torch.sigmoid, torch.ones(3)),
    ]
    parts = [f".. raw:: html\n\n{indent(p.html, '    ')}\n" for p in pictures]
    (site.folder / "docs" / "index.rst").write_text("Page\n====\n\n" + "\n".join(parts))
    site.build("-n", "-W", PYTHONPATH=str(ROOT / "src"))
    return site


def test_one_script_for_all_pictures(site):
    page = site.page("docs/index.rst")
    assert page.count('class="pb-live"') == 2
    for name in ("live", "steps"):
        assert len(re.findall(rf'<script[^>]* src="_static/{name}\.js[^"]*"', page)) == 1
    sheets = re.findall("<style>[^<]*</style>", page)
    assert len(sheets) == len({*sheets}) >= 2, "of the pictures, and of the graph"
    assert "data-live" in page
    assert "form.pb-live:not" not in page, "what the script says"
    assert "live.js" not in site.page("docs/other.rst")
    script = (site.html / "_static" / "live.js").read_text()
    assert script == (ROOT / "src" / "pullback" / "live.js").read_text()
    assert not re.search(r"\beval\b|\bFunction\b|\bfetch\b|https?:", script)


@needs_chromium
def test_under_a_strict_policy(site, browser):
    page = browser.new_page()
    page.route("**/*", lambda route: answer(route, site.html))
    page.goto("http://site.test/index.html")
    form = page.locator("form.pb-live").first
    form.get_by_label("x[1]", exact=True).fill("-4")
    shown = form.locator(".pb-by-v .pb-sum text").all_text_contents()
    assert shown == ["3", "\N{MINUS SIGN}7", "3"]
    form.get_by_text("Step 5 of 5: x receives").wait_for()
    form.get_by_role("button", name="Previous").click()
    form.get_by_text("Step 4 of 5").wait_for()
    page.close()


def answer(route, folder):
    """Serve a file with a policy that allows scripts from files alone."""
    file = folder / route.request.url.removeprefix("http://site.test/").partition("?")[0]
    if not file.is_file():
        return route.fulfill(status=404)
    return route.fulfill(path=file, headers={"Content-Security-Policy": POLICY})


def test_what_is_compared():
    """A hundred inputs and more, of each kind, in x as in v."""
    inputs = list(inputs_for(4, 3, COUNT))
    assert len(inputs) >= 100
    assert {(len(x), len(v)) for x, v in inputs} == {(4, 3)}
    xs, vs = (torch.stack(list(part)) for part in zip(*inputs, strict=True))
    assert (xs == 0).all(dim=1).any()
    assert ((xs == xs[:, :1]).all(dim=1) & (xs[:, 0] != 0)).any()
    assert (xs.abs().amin(dim=1) > 10).any()
    for t in (xs, vs):
        assert ((t == 0).sum(dim=1) == 1).any()
        assert (t < 0).all(dim=1).any()
        assert (t.abs().amax(dim=1) > 1e6).any()
        assert (t.abs().amax(dim=1) < 1e-5).any()
        for size in (1e16, 1e40, -40.0, 1e-16):
            other = ((t != size) & (t.abs() > 1e-3) & (t.abs() < 10)).any(dim=1)
            assert ((t == size).any(dim=1) & other).any(), "beside numbers of usual size"
    assert ((vs == 1).sum(dim=1).eq(1) & (vs == 0).sum(dim=1).eq(2)).any(), "one-hot"
    ties = [len(set(x.tolist()) - {0.0}) < int((x != 0).sum()) for x in xs]
    assert sum(ties) > 10
    large, small = xs.abs().amax(dim=1) > 1e5, vs.abs().amax(dim=1) < 1e-4
    assert (large & small & (vs != 0).any(dim=1)).any(), "each kind with each"


def difference(exact, page, terms=None, cells=("0",)):
    exact, page = (torch.tensor(t, dtype=torch.float64) for t in (exact, page))
    terms = exact.abs() if terms is None else torch.tensor(terms, dtype=torch.float64)
    return Difference("y", exact, exact, exact, terms, page, list(cells))


def test_the_measure_of_a_difference():
    """Relative to the number itself, whatever stands beside it; to the terms it is of."""
    assert difference([1e6, 2.0], [1e6, 2.0 + 1e-3]).size == pytest.approx(5e-4)
    assert difference([1e16, 4.0], [1e16, 0.0]).size == 1
    assert difference([1e-17], [0.0], [1.0]).size == pytest.approx(1e-17)
    assert difference([math.nan, math.inf], [math.nan, math.inf]).size == 0
    for wrong in (math.nan, math.inf):
        assert not difference([1.0], [wrong]).size <= AGREE
        assert not difference([wrong], [1.0]).size <= AGREE
    assert not difference([math.inf], [-math.inf]).size <= AGREE


def test_what_a_cell_says():
    """Its digits are right, and the next one is rounded."""
    for number, right, wrong in [
        (1234.5678, "1235", "1236"),
        (0.0123456, "0.0123", "0.0124"),
        (1.26e-7, "1.3e-7", "1.2e-7"),
        (1234567.0, "1.23e6", "1.24e6"),
        (9.9996, "10", "9.999"),
        (1e-20, "1.0e-20", "0"),
        (math.nan, "NaN", "0"),
        (math.inf, "Infinity", "NaN"),
    ]:
        assert difference([number], [number], cells=[right]).shown <= AGREE
        assert not difference([number], [number], cells=[wrong]).shown <= AGREE


def test_rounding_is_that_of_the_terms_of_a_number():
    """Not of the largest number beside it, and of nothing where there is none."""
    a = torch.tensor([[1.0, -1.0, 1e-9], [0.1, 0.2, 0.3]], dtype=torch.float64)

    def ask():
        return (a / 3).sum(1), a[0, :2] - 1, (a[1] > 0.15).double()

    pages = [("", t, ["0"] * len(t)) for t in ask()]
    sums, whole, truth = (d.terms for d in held(ask, pages, a, a))
    assert 0.1 < float(sums[0]) < 10
    assert whole.tolist() == [0, 2]
    assert truth.tolist() == [0, 1, 1]


def squares():
    return pullback.live(torch.square, torch.tensor([1.0, 2.0, 2.0]))


def test_a_large_number_hides_no_other():
    """4 beside 2e16 is 4: a product is rounding beside its own terms alone."""
    shown = product_shown(squares(), [1.0, 2.0, 2.0], [1e16, 1.0, 1.0])
    assert shown == ["2.00e16", "4", "4"]
    cancels = pullback.live(lambda x: torch.stack([x.sum(), x[0]]) / 3, torch.ones(2))
    assert product_shown(cancels, [1.0, 1.0], [0.1, -0.1])[0] == "0"
    assert product_shown(cancels, [1.0, 1.0], [0.1, -0.1 * (1 + 1e-13)])[0] != "0"


def product_shown(live, x, v):
    """Return what the cells of vᵀJ show."""
    told = engine().eval(f"""(program => {{
        const x = {x}, v = {v}, [J, at] = live.jacobian(program, x, v.length);
        const product = live.run(program, x, v, at)[program.outputs[1]];
        return JSON.stringify(live.backward(program, J, v, product).map(live.tidy));
    }})({json.dumps(live.program)})""")
    return json.loads(str(told))


def test_a_whole_number_is_not_rounding():
    """4 of 4e15 and nearly -4e15 is what is left, and nothing was rounded."""
    live = pullback.live(house, torch.ones(3))
    v = [4e15, -999999999999999.0]
    assert product_shown(live, [1.0, 2.0, 3.0], v)[1] == "4"


class Sign(torch.autograd.Function):
    """Has a backward that is no linear map."""

    @staticmethod
    def forward(ctx, x):
        """Double x."""
        return 2 * x

    @staticmethod
    def backward(ctx, v):
        """Forget how large v is."""
        return v.sign()


def hooked(hook):
    def f(x):
        y = 2 * x
        y.register_hook(hook)
        return y

    return f


NOT_LINEAR = {
    "clamped": (hooked(lambda g: g.clamp(-1, 1)), [-2.0, 0.5]),
    "normed": (hooked(lambda g: g / g.norm().clamp(min=1)), [3.0, 4.0]),
    "sign": (Sign.apply, [3.0, -0.1]),
    "cancelling": (
        lambda x: torch.stack([hooked(lambda g: g.clamp(-1, 1))(x).sum(), -4 * x.sum()]),
        [2e16, 1e16],
    ),
}


@pytest.mark.parametrize("case", NOT_LINEAR)
def test_a_product_that_is_no_sum_of_rows_is_shown(case):
    """Gradients that a hook clamps, and a backward of one's own: what torch gives."""
    f, v = NOT_LINEAR[case]
    x = torch.tensor([1.0, 2.0], dtype=torch.float64)
    live = pullback.live(f, x)
    assert not live.program["linear"]
    leaf = x.clone().requires_grad_()
    (wanted,) = torch.autograd.grad(f(leaf), leaf, torch.tensor(v).double())
    shown = [float(text) for text in product_shown(live, x.tolist(), v)]
    assert shown == pytest.approx(wanted.tolist(), rel=1e-3)
    assert pullback.live(house, x).program["linear"]


BROKEN = {
    "rounding beside the largest number of the table": (
        "const size = terms[k].reduce((all, x) => all + Math.abs(x), 0);",
        "const size = Math.max(...terms.flat().map(Math.abs));",
        torch.square,
    ),
    "a sigmoid that loses its tail": (
        "sigmoid: a => 1 / (1 + Math.exp(-a))",
        "sigmoid: a => 1 - 1 / (1 + Math.exp(a))",
        torch.sigmoid,
    ),
    "an erfc that loses its tail": (
        "erfc: a => a > 1 ? tail(a) :",
        "erfc: a => a > 1 ? 1 - functions.erf(a) :",
        torch.erfc,
    ),
    "a log1p that loses small numbers": (
        "neg: a => -a,",
        "neg: a => -a, log1p: a => Math.log(1 + a),",
        torch.log1p,
    ),
    "an expm1 that loses small numbers": (
        "neg: a => -a,",
        "neg: a => -a, expm1: a => Math.exp(a) - 1,",
        torch.expm1,
    ),
    "a digit too few": ("Math.abs(x) < 1 ? 3 : 4", "3", torch.square),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_fault_of_the_script_is_seen(fault):
    right, wrong, f = BROKEN[fault]
    assert script().count(right) == 1
    found = differences(
        pullback.live(f, torch.ones(3)), COUNT, script().replace(right, wrong)
    )
    assert any(max(one.size, one.shown) > AGREE for one in found)


def test_the_script_as_it_is_squares_without_a_fault():
    """That it does so with the others is among the tails."""
    assert {f for *_, f in BROKEN.values()} - {*TAILS.values()} == {torch.square}
    certify(pullback.live(torch.square, torch.ones(3)))


TAILS = {
    "sigmoid": torch.sigmoid,
    "logsigmoid": F.logsigmoid,
    "softplus": F.softplus,
    "softplus, scaled": lambda x: F.softplus(x, beta=3),
    "silu": F.silu,
    "mish": F.mish,
    "gelu": F.gelu,
    "gelu, by tanh": lambda x: F.gelu(x, approximate="tanh"),
    "erf": torch.erf,
    "erfc": torch.erfc,
    "log1p": torch.log1p,
    "expm1": torch.expm1,
    "tanh": torch.tanh,
    "elu": F.elu,
    "logaddexp": lambda x: torch.logaddexp(x, -x),
    "log_softmax": lambda x: x.log_softmax(0),
}


@pytest.mark.parametrize("name", TAILS)
def test_tails_keep_their_digits(name):
    assert certify(pullback.live(TAILS[name], torch.ones(2))).inputs == COUNT


def test_nothing_but_rounding_is_between_them():
    live = pullback.live(torch.sigmoid, torch.ones(2))
    found = certify(live)
    assert found.inputs == COUNT
    assert 0 < found.largest < 1e-14
    assert found.bytes <= 2048
    assert certify(torch.ones(2)) is None
