"""What must work in an environment that holds the wheel, torch and numpy alone."""

from importlib import resources

import torch

import pullback


def f(x):
    """Return two numbers from two, with Jacobian [[x1, x0], [2 x0, 0]]."""
    return torch.stack([x[0] * x[1], x[0] ** 2])


x, v = torch.tensor([2.0, 3.0]), torch.tensor([10.0, 1.0])
assert "site-packages" in pullback.__file__, pullback.__file__
assert resources.files("pullback").joinpath("py.typed").is_file()
assert pullback.jacobian(f, x).tolist() == [[3.0, 2.0], [4.0, 0.0]]
assert pullback.check(f, x, v).ok
for report in pullback.explain(f, x), pullback.mixing(f, x), pullback.live(f, x):
    assert repr(report)
    assert report._repr_html_().startswith("<")
print(f"{pullback.__file__} works with torch {torch.__version__}")
