"""What each picture draws and says, and what it refuses."""

import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.text import Annotation

import pullback
from pullback import plot

J = torch.tensor([[1.0, 2.0, 0.0], [0.0, -3.0, 0.25]])
V = torch.tensor([10.0, 1.0])
EDGES = [("x", "y", "2"), ("x", "z", "3"), ("y", "L", "5"), ("z", "L", "7")]


@pytest.fixture(autouse=True)
def no_open_figures():
    yield
    plt.close("all")


def cells(ax):
    """Return the matrix that an axes shows, and the numbers written into it."""
    (image,) = ax.get_images()
    written = {tuple(map(int, t.get_position()))[::-1]: t.get_text() for t in ax.texts}
    return image.get_array(), written


def written_as(matrix):
    return {index: f"{value:.3g}" for index, value in np.ndenumerate(matrix)}


def labels(ax):
    return {t.get_text(): t for t in ax.texts if t.get_text()}


def arrows(ax):
    """Return (from, to) of each arrow."""
    found = [t for t in ax.texts if isinstance(t, Annotation)]
    return [(tuple(a.get_position()), tuple(a.xy)) for a in found]


def test_heatmap():
    ax = plot.heatmap(J, title="J of f", xlabel="pixel", ylabel="class")
    shown, numbers = cells(ax)
    np.testing.assert_array_equal(shown, J.numpy())
    assert numbers == written_as(J.numpy())
    assert (ax.get_title(), ax.get_xlabel(), ax.get_ylabel()) == (
        "J of f",
        "pixel",
        "class",
    )
    assert plot.heatmap(J).get_title() == "Jacobian, 2 × 3"


def test_heatmap_of_zeros_without_memory():
    shown, _ = cells(plot.heatmap(pullback.jacobian(torch.sgn, J[0])))
    np.testing.assert_array_equal(shown, np.zeros((3, 3)))


def test_heatmap_is_white_at_zero_and_symmetric_about_it():
    (image,) = plot.heatmap(J).get_images()
    assert image.norm.vmin == -image.norm.vmax == -3
    red, green, blue, _ = image.cmap(image.norm(0.0))
    assert min(red, green, blue) > 0.95
    (image,) = plot.heatmap(torch.zeros(2, 2)).get_images()  # nothing to scale by
    assert image.norm.vmax == 1


def test_large_matrices_have_no_numbers_in_them():
    assert len(plot.heatmap(torch.ones(10, 10)).texts) == 100
    assert len(plot.heatmap(torch.ones(10, 11)).texts) == 0


def test_numbers_stay_legible_on_dark_cells():
    ax = plot.heatmap(torch.tensor([[1.0, 0.1, -1.0]]))
    assert [t.get_color() for t in ax.texts] == ["white", "black", "white"]


def test_field_points_along_the_gradients():
    points = torch.tensor([[0.0, 0.0], [1.0, 2.0]])
    gradients = torch.tensor([[3.0, 4.0], [0.0, -1.0]])
    ax = plot.field(points, gradients)
    (quiver,) = (c for c in ax.collections if hasattr(c, "U"))
    np.testing.assert_array_equal(quiver.get_offsets(), points.numpy())
    np.testing.assert_array_equal(np.stack([quiver.U, quiver.V], 1), gradients.numpy())
    np.testing.assert_allclose(quiver.get_array(), [5.0, 1.0])
    assert ax.get_title() == "The gradient at 2 points, as arrows"
    assert ax.get_aspect() == 1
    bar = ax.figure.axes[1]
    assert bar.get_ylabel() == "length of the gradient"
    assert plot.field(points, gradients, title="grad f").get_title() == "grad f"


def test_graph_draws_every_node_and_edge_once():
    ax = plot.graph(EDGES)
    names = labels(ax)
    assert set(names) == {"x", "y", "z", "L", "2", "3", "5", "7"}
    place = {name: names[name].get_position() for name in "xyzL"}
    assert sorted(arrows(ax)) == sorted((place[s], place[t]) for s, t, _ in EDGES)
    for source, target, label in EDGES:  # a label stands on the middle of its edge
        assert place[source][0] < place[target][0], "from left to right"
        middle = np.mean([place[source], place[target]], axis=0)
        np.testing.assert_allclose(names[label].get_position(), middle)
    assert len(set(place.values())) == 4
    assert ax.get_title() == "A graph of 4 nodes, a label on each edge"


def test_graph_takes_the_longest_path_and_bends_a_second_edge():
    ax = plot.graph([("x", "y", "a"), ("y", "z", "b"), ("x", "z", "c"), ("y", "z", "d")])
    names = labels(ax)
    assert [names[n].get_position()[0] for n in "xyz"] == [0, 1, 2]
    assert names["b"].get_position() != names["d"].get_position()


def test_pattern_of_a_small_plan_has_a_number_for_each_entry():
    plan = pullback.sparsity(lambda x: x[1:] * x[:-1], torch.ones(5))
    ax = plot.pattern(plan)
    shown, numbers = cells(ax)
    dense = plan.pattern.to_dense()
    lines = plan.colors if plan.mode == "forward" else plan.colors[:, None]
    expected = lines.expand(4, 5)
    entries = [tuple(index) for index in dense.nonzero().tolist()]
    assert numbers == {index: f"{int(expected[index])}" for index in entries}
    assert np.array_equal(np.isnan(shown.filled(np.nan)), ~dense.numpy())
    assert ax.get_title() == "Sparsity, 4 × 5: 8 entries, 2 colours of rows"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("input", "output")
    assert plot.pattern(plan, title="mine").get_title() == "mine"


def test_pattern_of_a_large_plan_counts_in_blocks():
    plan = pullback.sparsity(lambda x: x.square(), torch.ones(1000))
    ax = plot.pattern(plan)
    (image,) = ax.get_images()
    counts = image.get_array().filled(0)
    np.testing.assert_array_equal(counts, 10 * np.eye(100))
    assert len(ax.texts) == 0
    assert ax.figure.axes[1].get_ylabel() == "entries in a block"


@pytest.mark.parametrize(
    "draw",
    [
        lambda ax: plot.heatmap(J, ax),
        lambda ax: plot.field(J[:, :2], J[:, :2], ax),
        lambda ax: plot.graph(EDGES, ax),
        lambda ax: plot.pattern(pullback.sparsity(torch.sin, torch.ones(2)), ax),
    ],
)
def test_draws_where_it_is_told(draw):
    figure, ax = plt.subplots()
    assert draw(ax) is ax
    assert plt.get_fignums() == [figure.number]


@pytest.mark.parametrize("kind", [torch.tensor, np.array, list])
def test_takes_tensors_arrays_and_lists(kind):
    shown, _ = cells(plot.heatmap(kind(J.tolist())))
    np.testing.assert_array_equal(shown, J.numpy())
    parameter = torch.nn.Parameter(J)  # with a graph
    np.testing.assert_array_equal(cells(plot.heatmap(parameter))[0], J.numpy())


@pytest.mark.parametrize(
    ("error", "words", "draw"),
    [
        (ValueError, r"J has shape \(3,\); a matrix", lambda: plot.heatmap(J[0])),
        (ValueError, r"the same \(N, 2\) is needed", lambda: plot.field(J, J)),
        (ValueError, r"the same \(N, 2\) is needed", lambda: plot.field(J[:, :2], V)),
        (ValueError, "edges is empty", lambda: plot.graph([])),
        (ValueError, "cycle", lambda: plot.graph([("x", "y", ""), ("y", "x", "")])),
        (TypeError, "J has dtype complex64; real", lambda: plot.heatmap(J * 1j)),
        (TypeError, "J has dtype <U1; real", lambda: plot.heatmap([["a"]])),
    ],
)
def test_refusals(error, words, draw):
    with pytest.raises(error, match=words):
        draw()
    assert plt.get_fignums() == []


def test_without_matplotlib_only_the_pictures_are_missing():
    script = """
import sys
sys.modules["matplotlib"] = None
import torch, pullback
print(pullback.jacobian(torch.square, torch.tensor(3.0)))
try:
    pullback.plot
except ImportError as error:
    print(error)
"""
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120
    )
    assert result.stdout.splitlines() == [
        "tensor(6.)",
        "pullback.plot needs matplotlib: python -m pip install 'pullback[plot]'",
    ], result.stderr
