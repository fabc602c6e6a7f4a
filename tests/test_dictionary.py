"""Every column of docs/dictionary.toml that can run gives what NumPy says.

The columns of JAX and TensorFlow run where the library is installed:
``nox -s dictionary`` installs JAX.
"""

import importlib.util
import tomllib

import numpy as np
import pytest
from executed import ROOT

TABLE = tomllib.loads((ROOT / "docs" / "dictionary.toml").read_text(encoding="utf-8"))
PRODUCTS = {entry["mathematics"]: entry for entry in TABLE["product"]}
CASES = {entry["what"]: entry for entry in TABLE["case"]}


def setting(library):
    if library != "numpy" and importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    names = {}
    exec(TABLE["setting"][library], names)
    return names


def value(code, names):
    """Execute all lines of a cell but the last, whose value this returns."""
    *lines, last = code.strip().splitlines()
    exec("\n".join(lines), names)
    return eval(last, names)


def arrays(result):
    """Return a result, a tensor or a sequence of them, as a list of arrays."""
    parts = result if isinstance(result, (tuple, list)) else [result]
    parts = [part.detach() if hasattr(part, "detach") else part for part in parts]
    return [np.asarray(part) for part in parts]


def outcome(code, names):
    """Return numbers as text, or the name of what was raised."""
    try:
        result = value(code, names)
    except Exception as error:  # whatever the library chose is what is looked for
        return type(error).__name__
    return "None" if result is None else str(np.asarray(result).tolist())


@pytest.mark.parametrize(
    ("name", "column"),
    [
        (name, column)
        for name, entry in PRODUCTS.items()
        for column in ("autograd", "func", "jax", "tensorflow")
        if entry[column]
    ],
)
def test_a_column_gives_the_mathematics(name, column):
    entry = PRODUCTS[name]
    names = setting({"autograd": "torch", "func": "torch"}.get(column, column))
    if column == "autograd":
        names["x"].requires_grad_()
    wanted = arrays(value(entry["want"], setting("numpy")))
    given = arrays(value(entry[column], names))
    assert len(given) == len(wanted)
    for one, other in zip(given, wanted, strict=True):
        assert one.shape == np.shape(other)
        np.testing.assert_allclose(one, other, rtol=1e-5)


@pytest.mark.parametrize("library", ["jax", "tensorflow"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_case_ends_as_the_table_says(case, library):
    names = setting(library)
    if case[library]:
        assert outcome(case[library], names) == case[f"{library}_gives"]


def f(x):
    return np.array([x.sum(), (x**2).sum()])


def g(x):
    return x[0] ** 2 * x[1] + x[2] ** 3


def by_differences(function, x, h=1e-3):
    steps = h * np.eye(len(x))
    return np.stack([(function(x + e) - function(x - e)) / (2 * h) for e in steps], -1)


def test_the_oracle_is_right():
    names = setting("numpy")
    x = names["x"]
    assert names["value"] == g(x)
    np.testing.assert_allclose(by_differences(g, x), names["gradient"], rtol=1e-6)
    np.testing.assert_allclose(by_differences(f, x), names["J"], rtol=1e-6)
    second = by_differences(lambda x: by_differences(g, x), x)
    np.testing.assert_allclose(second, names["H"], atol=1e-5)
