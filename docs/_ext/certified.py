"""Compare what a live picture shows with what torch computes, before a page shows it.

A picture (:func:`pullback.live`) carries a program. Here the picture's own script runs it
in a JavaScript engine, V8, for many x and v: random ones, zeros, equal entries, negative,
large and small ones, and some of all sizes at once. Each number that its cells would show
is held to torch in float64, and each by itself: a number may differ by what rounding makes
of the terms that it is the sum of, and by no more. How large that is, torch says: it
computes everything once more, with every number on the way off by its last digits. What
differs by more ends the build.

``python certified.py`` says what was compared for the pages that have been executed.
"""

from __future__ import annotations

import atexit
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from threading import Lock
from typing import Any, NamedTuple

import torch
from py_mini_racer import MiniRacer
from torch import Tensor

from pullback import Live
from pullback._live import script
from pullback._live_operators import RULES
from pullback._live_program import weight
from pullback._live_recorder import named, written
from pullback._torch import OpOverload, TorchDispatchMode, decomposition, pytree, schema

COUNT = 108  # x and v to compare at: one of each pair of kinds
WHOLE = 11  # of so many pairs, J and J u are compared at one
AGREE = 2e-14  # of a number, or of the terms that it comes from
OFF = 2.0**-51  # by how much of itself a number is off, to see what rounding does
TIMES = 3  # that torch computes with such numbers
LEAST = 1e-300  # below which double precision has fewer digits
RUN = """(program, inputs) => inputs.map(([x, v, u]) => {
    const [J, known] = live.jacobian(program, x, v.length);
    const at = live.run(program, x, v, known), exact = program.outputs.map(i => at[i]);
    const [y, product, ...seen] = exact, last = [J.flat(), live.forward(J, u)];
    const cells = [y, live.backward(program, J, v, product), ...seen, ...last];
    const written = (lists, how) => lists.map(xs => xs.map(x => how(x)));
    return [written([...exact, ...last], String), written(cells, live.tidy)];
})"""
ONE_AT_A_TIME = Lock()  # threads that start engines, or use one, may wait for one another


class Difference(NamedTuple):
    """How far a page and torch are apart in one list of numbers, at one x and v."""

    what: str
    x: Tensor
    v: Tensor
    torch: Tensor
    terms: Tensor  # how large what each number comes from is, at the least the number
    page: Tensor  # as the program has them; in a product J u, as the cells show them
    cells: list[str]

    @property
    def size(self) -> float:
        """The largest difference, as a part of the number or of its terms.

        It is infinite if one number is finite and the other not.
        """
        return float(_apart(self.torch, self.page, self.terms).max())

    @property
    def shown(self) -> float:
        """The same of what the cells show, but for the digits that they leave out."""
        free = torch.tensor([half_a_digit(t) for t in self.cells], dtype=torch.float64)
        return float(_apart(self.torch, numbers(self.cells), self.terms, free).max())


def _apart(exact: Tensor, page: Tensor, terms: Tensor, free: Tensor | float = 0) -> Tensor:
    same = (exact == page) | (exact.isnan() & page.isnan())
    apart = ((exact - page).abs() - free).clamp(min=0) / (terms + LEAST / AGREE)
    return torch.where(same, 0.0, apart.nan_to_num(nan=math.inf))


def half_a_digit(text: str) -> float:
    """Return how much a number may differ from what stands in a cell, rounded."""
    number = abs(float(text))
    if number == 0 or not math.isfinite(number):
        return 0.0
    digits = 2 if number < 1e-3 else 3 if number < 1 or "e" in text else 4
    return 0.5000001 * 10.0 ** (math.floor(math.log10(number)) + 1 - digits)


class Certificate(NamedTuple):
    """What was compared of one picture."""

    inputs: int  # pairs of x and v
    largest: float  # difference, as :attr:`Difference.size`
    bytes: int  # of its program, compressed


def certify(value: object) -> Certificate | None:
    """Raise AssertionError if a value is a live picture that disagrees with torch."""
    if not isinstance(value, Live):
        return None
    largest = 0.0
    for difference in differences(value, COUNT):
        assert difference.size <= AGREE, f"the page and torch differ: {difference}"
        assert difference.shown <= AGREE, f"the cells and torch differ: {difference}"
        largest = max(largest, difference.size)
    return Certificate(COUNT, largest, weight(value.program))


def differences(
    live: Live,
    count: int,
    source: str | None = None,
    ask: Callable[[Tensor, Tensor], Sequence[Tensor]] | None = None,
) -> Iterator[Difference]:
    """Yield how what a picture shows differs from what torch says, list by list.

    Source is the script that runs the program, if it is another than the picture's own, and
    ``ask`` says what torch answers, if that is not :meth:`pullback.Live.answer`.
    """
    n, m = len(live.x), len(live.v)
    inputs = [(x, v, v.repeat(n)[:n]) for x, v in inputs_for(n, m, count)]
    lists = json.dumps([[t.tolist() for t in each] for each in inputs])
    program = json.dumps(live.program)
    with ONE_AT_A_TIME:
        told = engine(source or script()).eval(
            f"JSON.stringify(({RUN})({program}, {lists}))"
        )
    answers = json.loads(str(told))
    for i, ((x, v, u), (exact, cells)) in enumerate(zip(inputs, answers, strict=True)):
        names = ["y", "v J", *["a number of the graph"] * (len(exact) - 4), "J", "J u"]
        pages = [*zip(names, map(numbers, exact), cells, strict=True)]
        yield from held(partial(ask or live.answer, x, v), pages[:-2], x, v)
        if i % WHOLE == 0:
            yield from held(partial(whole, live, x, u), pages[-2:], x, u)


def held(
    ask: Callable[[], Sequence[Tensor]],
    pages: Iterable[tuple[str, Tensor, list[str]]],
    x: Tensor,
    v: Tensor,
) -> list[Difference]:
    """Return how lists of a page differ from those that torch returns when it is asked."""
    exact = ask()
    found = [
        Difference(what, x, v, wanted, wanted.abs(), page, cells)
        for wanted, (what, page, cells) in zip(exact, pages, strict=True)
    ]
    for seed in range(TIMES):
        if all(max(difference.size, difference.shown) <= AGREE for difference in found):
            break
        with Rounded(seed):
            others = ask()
        for i, (wanted, other) in enumerate(zip(exact, others, strict=True)):
            apart = torch.where(wanted == other, 0.0, (wanted - other).abs()) / OFF
            apart = torch.where(apart.isfinite(), apart, 0.0)
            terms = torch.maximum(found[i].terms, wanted.abs() + apart)
            found[i] = found[i]._replace(terms=terms)
    return found


def whole(live: Live, x: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
    """Return J, row by row, and J u, as torch computes them."""
    J = torch.stack([live.answer(x, unit)[1] for unit in torch.eye(len(live.v)).double()])
    return J.flatten(), (J * u).sum(1)


def numbers(texts: Sequence[str]) -> Tensor:
    """Return numbers that the script has written."""
    return torch.tensor([float(text) for text in texts], dtype=torch.float64)


class Rounded(TorchDispatchMode):
    """Has each operation compute with numbers that are off by their last digits.

    So a sum comes out as far off as its terms are large. What is computed from whole
    numbers alone stays as it is, and equal numbers equal: which way a kink or a tie is
    taken is no matter of rounding.
    What is made of simpler operations is taken apart, as a page has it.
    """

    supports_higher_order_operators = True

    def __init__(self, seed: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seed = seed

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if not isinstance(func, OpOverload) or named(func) in EXACT:
            return func(*args, **kwargs)
        if any(part.alias_info for part in schema(func).arguments):
            kept = {id(t) for t in written(func, args, kwargs)} or {id(args[0])}
        else:
            kept = set()
            if named(func) not in ALONE and (parts := decomposition(func)):
                with self:
                    out = parts(*args, **kwargs)
                if out is not NotImplemented:
                    return out

        fractions = []

        def off(value: Any) -> Any:
            if not _double(value) or id(value) in kept:
                return value
            keep = _whole(value)
            fractions.append(not keep.all())
            return torch.where(keep, value, self.off(value))

        out = func(*pytree.tree_map(off, args), **pytree.tree_map(off, kwargs))
        if _double(out) and not kept and any(fractions):  # it may be rounded to a whole one
            out = torch.where(_whole(out), self.off(out), out)
        return out

    def off(self, t: Tensor) -> Tensor:
        """Return numbers that are off by a part of themselves, equal ones by the same."""
        mixed = (t.contiguous().view(torch.int64) ^ (self.seed + 1)) * 0x2545F4914F6CDD1D
        mixed = (mixed ^ (mixed >> 32)) * 0x2545F4914F6CDD1D
        return t * (1 + OFF * mixed.double() / 2.0**63)


def _double(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype is torch.float64


def _whole(t: Tensor) -> Tensor:
    return (t == t.round()) & (t.abs() < 2.0**53)


#: What a page does not take apart, and attention, whose backward wants more than its parts
#: give.
ALONE = RULES.keys() | {
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_flash_attention_for_cpu_backward",
}
#: Operations that compute nothing, or of which the outcome is one of a few.
EXACT = {
    *("abs", "amax", "amin", "argmax", "argmin", "ceil", "clamp", "clamp_max", "clamp_min"),
    *("clone", "copy", "copy_", "detach", "eq", "equal", "floor", "ge", "gt", "isinf"),
    *("isnan", "le", "lt", "max", "maximum", "min", "minimum", "ne", "neg", "relu"),
    *("round", "sgn", "sign", "sort", "threshold_backward", "trunc", "where", "_to_copy"),
}


@cache
def engine(source: str = script()) -> MiniRacer:
    """Return an engine that has read a script; one serves all pictures of a process."""
    started = MiniRacer()
    # What is left to the end of Python may wait there for a thread that waits for Python.
    atexit.register(started.close)
    started.eval(f"const live = {source}")
    return started


def inputs_for(n: int, m: int, count: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield x and v of n and m entries: each kind of x with each kind of v in turn."""
    chance = torch.Generator().manual_seed(0)  # the same ones in each build

    def drawn(n: int, kind: int, number: int) -> Tensor:
        t = torch.randn(n, generator=chance, dtype=torch.float64)
        match kind:
            case 1:
                return t.round()  # many zeros, and equal entries
            case 2:
                return 1e6 * t
            case 3:
                return 1e-6 * t
            case 4:
                return -t.abs()
            case 5:
                return torch.where(torch.rand(n, generator=chance) < 0.5, 0.0, t)
            case 6:  # one of another size than the rest
                t[number % n] = SPREADS[number % len(SPREADS)]
                return t
            case 7:  # two of them
                for i in (0, 1):
                    t[(number + i) % n] = SPREADS[(number + i) % len(SPREADS)]
                return t
            case 8:
                return torch.eye(n, dtype=torch.float64)[number % n]
            case 9:
                return t[:1].round().expand(n).clone()  # all equal
            case 10:
                return t[torch.randint(n, (n,), generator=chance)]  # some equal
            case 11:
                return 100 * t
        return t

    for i in range(count):
        x, v = drawn(n, i % 12, i + i // 12), drawn(m, i // 12 % 9, i)
        yield (x if i else 0 * x), v


SPREADS = (1e16, -40.0, 1e-16, 1e40)


def main() -> None:
    """Say what was compared of the pages that have been executed, and what it weighs."""
    from pages import ROOT, Store, find  # which are executed with this module

    results = filter(None, map(Store(ROOT).last, find(ROOT)))
    found = [
        (result["name"], Certificate(*block["certified"]))
        for result in results
        for block in result["shown"]
        if "certified" in block
    ]
    pictures = [picture for _, picture in found]
    print(f"pages             {len({name for name, _ in found})}")
    print(f"pictures          {len(pictures)}")
    print(f"(x, v) compared   {sum(picture.inputs for picture in pictures)}")
    print(f"largest apart     {max(picture.largest for picture in pictures):.1e}")
    print(f"script            {weight(script())} bytes, compressed")
    print(f"largest program   {max(picture.bytes for picture in pictures)} bytes")


if __name__ == "__main__":
    main()
