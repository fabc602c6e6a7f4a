"""Explain says what backward does: every statement is held to a real backward."""

import pytest
import torch

import pullback

LINE = torch.linspace(-2, 2, 5)


def two(x):
    return torch.stack([-(x**3), 5 * x], dim=-1)


def sums(x):
    return torch.stack([x.sum(-1), (x**2).sum(-1)], dim=-1)


def powers(x):
    return torch.stack([x**0 * 1, x, x**2, x**3, x**4, x**5]).reshape(3, 2)


CASES = {
    "x² at one point": (torch.square, torch.tensor(1.0)),
    "x² at (1,)": (torch.square, torch.tensor([1.0])),
    "x² at (1, 1)": (torch.square, torch.tensor([[1.0]])),
    "x² at five points": (torch.square, LINE),
    "x² at a (5, 1) column": (torch.square, LINE[:, None]),
    "3x₁² + 5x₂²": (lambda x: 3 * x[0] ** 2 + 5 * x[1] ** 2, torch.tensor([1.0, 2.0])),
    "-x₁² + x₂² at three points": (
        lambda x: -(x[:, 0] ** 2) + x[:, 1] ** 2,
        torch.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]),
    ),
    "(-x³, 5x) at one point": (two, torch.tensor(1.0)),
    "(-x³, 5x) at three points": (two, torch.arange(3.0)),
    "(Σx, Σx²)": (sums, torch.arange(4.0)),
    "(Σx, Σx²) at three points": (sums, torch.arange(12.0).reshape(3, 4)),
    "a matrix of powers": (powers, torch.tensor(2.0)),
    "a matrix of squares": (torch.square, torch.arange(1.0, 16).reshape(5, 3)),
    "one sum of a matrix": (torch.sum, torch.arange(6.0).reshape(3, 2)),
    "a complex result": (lambda x: x * 1j, torch.tensor(2.0)),
}
GRADIENTS = {
    "nothing": (),
    "None": (None,),
    "1.0": (1.0,),
    "a list": ([1.0, 2.0],),
    "0-dim": (torch.tensor(1.0),),
    "(1,)": (torch.ones(1),),
    "(2,)": (torch.tensor([1.0, 2.0]),),
    "(3,)": (torch.ones(3),),
    "integers": (torch.ones(5, dtype=torch.int64),),
    "double": (torch.ones(2, dtype=torch.float64),),
    "NumPy": (torch.ones(2).numpy(),),
}


@pytest.mark.parametrize("gradient", GRADIENTS)
@pytest.mark.parametrize("case", CASES)
def test_outcome_is_what_backward_does(case, gradient):
    f, point = CASES[case]
    arguments = GRADIENTS[gradient]
    said = pullback.explain(f, point, v=arguments[0] if arguments else None)
    outcome = said.given or said.bare
    x = point.clone().requires_grad_()
    try:
        f(x).backward(*arguments)
    except Exception as error:
        assert outcome.grads is None
        assert type(outcome.error) is type(error)
        assert str(outcome.error) == str(error)
    else:
        assert outcome.error is None
        torch.testing.assert_close(outcome.grads, (x.grad,))


@pytest.mark.parametrize("case", CASES)
def test_shapes_ones_and_one_hot(case):
    f, point = CASES[case]
    said = pullback.explain(f, point)
    x = point.clone().requires_grad_()
    y = f(x)
    assert said.gradient_shape == said.y_shape == y.shape
    assert said.jacobian_shapes == (y.shape + x.shape,)
    y.backward(torch.ones_like(y), retain_graph=True)
    torch.testing.assert_close(said.ones.grads, (x.grad,))
    x.grad = None
    one_hot = torch.zeros(y.numel(), dtype=y.dtype)
    one_hot[0] = 1
    y.backward(one_hot.reshape(y.shape))
    torch.testing.assert_close(said.one_hot.grads, (x.grad,))


def test_both_vocabularies():
    text = str(pullback.explain(torch.square, torch.arange(5.0)))
    assert "vector of dimension 5 · tensor of shape (5,)" in text
    assert "scalar · tensor of shape ()" in str(pullback.explain(torch.sum, torch.ones(2)))
    row = str(pullback.explain(torch.square, torch.ones(1, 5)))
    assert "1×5 matrix (a row) · tensor of shape (1, 5)" in row


def test_html_is_an_accessible_table():
    html = pullback.explain(torch.square, torch.arange(5.0))._repr_html_()
    assert "<caption>" in html
    assert '<th scope="row">gradient must be</th>' in html


def test_computed_tensor_keeps_its_graph_and_grad():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    h = 3 * x
    y = h**2
    said = pullback.explain(y, h)
    torch.testing.assert_close(said.ones.grads[0], 2 * h.detach())
    assert x.grad is None
    y.sum().backward()
    torch.testing.assert_close(x.grad, 18 * x.detach())


def test_mixing_is_told():
    x = torch.ones(3)
    assert pullback.explain(lambda x: x.softmax(0), x).mixes is True
    assert pullback.explain(torch.square, x).mixes is False
    assert pullback.explain(torch.sum, x).mixes is None


def raising(g):
    raise ZeroDivisionError("the hook's own")


def hooked(x):
    y = 2 * x
    y.register_hook(raising)
    return y


def freed(x):
    y = x**2
    y.sum().backward()
    return y


@pytest.mark.parametrize("f", [lambda x: x.exp().add_(1), hooked, freed])
def test_an_error_of_the_graph_is_an_outcome(f):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = f(x)
    x.grad = None
    said = [pullback.explain(f, x.detach(), v=torch.ones(2)), pullback.explain(y, x)]
    for gradient, outcomes in {
        (torch.ones(2),): [said[0].ones, said[0].given, said[1].ones, said[1].one_hot],
        (): [said[0].bare, said[1].bare],
    }.items():
        with pytest.raises((RuntimeError, ZeroDivisionError)) as caught:
            y.backward(*gradient)
        for outcome in outcomes:
            assert str(outcome) == f"{caught.typename}: {caught.value}"
    assert said[0].mixes is None
    assert x.grad is None


BAD = {
    "a list as x": (
        torch.square,
        ([1.0],),
        TypeError,
        r"inputs\[0\] is a list|a float",
    ),
    "integers": (torch.square, (torch.arange(3),), TypeError, r"inputs\[0\].*int64"),
    "no input": (torch.square, (), TypeError, "no inputs"),
    "no function": ("square", (torch.ones(2),), TypeError, "f is a str"),
    "returns a float": (
        lambda x: 1.0,
        (torch.ones(2),),
        TypeError,
        "f returned a float",
    ),
    "ignores x": (lambda x: torch.ones(2), (torch.ones(2),), RuntimeError, "depend"),
    "changes x": (lambda x: x.add_(1), (torch.ones(2),), RuntimeError, "in place"),
    "raises": (lambda x: x @ torch.ones(5), (torch.ones(2),), RuntimeError, "."),
}


@pytest.mark.parametrize("function", [pullback.explain, pullback.mixing, pullback.check])
@pytest.mark.parametrize("case", BAD)
def test_bad_input(function, case):
    f, inputs, kind, message = BAD[case]
    if function is not pullback.explain and not inputs:
        pytest.skip("x is a required argument here")
    arguments = (*inputs, torch.ones(2)) if function is pullback.check else inputs
    rng, dtype = torch.get_rng_state(), torch.get_default_dtype()
    before = [i.clone() for i in inputs if isinstance(i, torch.Tensor)]
    with pytest.raises(kind, match=message):
        function(f, *arguments)
    assert torch.equal(torch.get_rng_state(), rng)
    assert torch.get_default_dtype() is dtype
    for given, copy in zip(inputs, before, strict=False):
        assert torch.equal(given, copy)
        assert not given.requires_grad
        assert given.grad is None
