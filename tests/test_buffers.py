"""What is asked of a function leaves the running statistics of modules in it alone."""

import functools
import threading

import pytest
import torch
from torch import nn

import pullback
from pullback import _buffers

X = torch.linspace(-1, 1, 15, dtype=torch.float64).reshape(5, 3).sin()


def network():
    torch.manual_seed(0)  # any weights do
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).double()


NET = network()


def uses_a_global(x):
    return inner(x)


def inner(x):
    return NET(x)


class Trainer:
    def __init__(self, net):
        self.kept = {"nets": [net]}

    def predict(self, x):
        return self.kept["nets"][0](x)

    def __call__(self, x):
        return self.predict(x)


def with_default(x, net=NET):
    return net(x)


def of_parameters(net):
    parameters = dict(net.named_parameters())
    return lambda x: torch.func.functional_call(net, parameters, (x,))


WAYS = {
    "the module": lambda net: net,
    "its forward": lambda net: net.forward,
    "a closure": lambda net: lambda x: net(x).exp(),
    "a function in a function": lambda net: lambda x: (lambda z: net(z))(x),
    "a global": lambda net: uses_a_global,
    "a default": lambda net: with_default,
    "a partial": lambda net: functools.partial(lambda net, x: net(x), net),
    "a method": lambda net: Trainer(net).predict,
    "an object": Trainer,
    "functional_call": of_parameters,
    "a part that trains": lambda net: nn.Sequential(net).eval() and (net.train(), net)[1],
}
QUESTIONS = [
    pullback.jacobian,
    pullback.hessian,
    pullback.mixing,
    pullback.explain,
    pullback.sparsity,
    pullback.check,
    pullback.jacobian_operator,
]


@pytest.mark.parametrize("ask", QUESTIONS, ids=lambda ask: ask.__name__)
@pytest.mark.parametrize("way", WAYS)
def test_running_statistics_stay(way, ask):
    f = WAYS[way](NET.train())
    held = dict(NET.named_buffers())
    before = {name: b.clone() for name, b in held.items()}
    expected = f(X)  # which moves them, as training does
    assert not torch.equal(NET[1].running_mean, before["1.running_mean"])
    before = {name: b.clone() for name, b in held.items()}
    ask(f, X)
    after = dict(NET.named_buffers())
    assert all(after[name] is b for name, b in held.items())
    assert all(torch.equal(after[name], b) for name, b in before.items())
    torch.testing.assert_close(f(X), expected)


def test_statistics_that_f_uses_are_those_of_the_module():
    net = network()
    net(X)
    net.eval()
    expected = torch.func.jacrev(net)(X)
    torch.testing.assert_close(pullback.jacobian(lambda x: net(x), X), expected)


class Counts(nn.Module):
    """Multiplies x by the number of its calls."""

    def __init__(self, count):
        super().__init__()
        self.register_buffer("count", count)

    def forward(self, x):
        self.count += 1
        return x * self.count.clone()


def test_a_buffer_that_two_modules_share_stays_one():
    count = torch.zeros(1, dtype=torch.float64)
    net = nn.Sequential(Counts(count), Counts(count))
    J = pullback.jacobian(lambda x: net(x), X[0])
    torch.testing.assert_close(J, 2 * torch.eye(3, dtype=J.dtype))  # 1 * 2
    assert count == 0
    assert net[0].count is net[1].count is count


def test_what_f_puts_in_the_place_of_a_buffer_stays():
    class Caches(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("table", torch.zeros(0, dtype=torch.float64))

        def forward(self, x):
            if len(self.table) != len(x):
                self.table = torch.arange(len(x), dtype=x.dtype)
            return x * self.table

    net = Caches()
    torch.testing.assert_close(pullback.vjp(lambda x: net(x), X[0], v=X[0]).shape, (3,))
    assert len(net.table) == 3


def test_an_error_in_f_gives_them_back():
    net = network()
    held = dict(net.named_buffers())
    with pytest.raises(ZeroDivisionError):
        pullback.jacobian(lambda x: net(x) / (1 // 0), X)
    assert all(dict(net.named_buffers())[name] is b for name, b in held.items())


@pytest.mark.parametrize("fails", [False, True], ids=["returns", "raises"])
@pytest.mark.parametrize("first", ["the one that began first", "the other"])
def test_two_threads_with_one_module_leave_it_its_buffers(first, fails):
    net = Counts(torch.zeros(1, dtype=torch.float64))
    held, found = net.count, []
    both, done = threading.Barrier(2), threading.Event()

    def ask(*, begins, ends):
        def f(x):
            y = net(x)  # each finds the numbers of the caller
            if begins:
                other.start()
            both.wait(timeout=60)
            if not ends:
                assert done.wait(timeout=60)
            if fails:
                raise ZeroDivisionError
            return y

        try:
            found.append(pullback.jacobian(f, X[0]))
        except ZeroDivisionError:
            found.append(torch.eye(3, dtype=X.dtype))
        if ends:
            done.set()

    begins_and_ends = first == "the one that began first"
    other = threading.Thread(
        target=ask, kwargs={"begins": False, "ends": not begins_and_ends}, daemon=True
    )
    ask(begins=True, ends=begins_and_ends)
    other.join(timeout=60)
    torch.testing.assert_close(found, [torch.eye(3, dtype=X.dtype)] * 2)
    assert net.count is held
    assert held == 0


def test_a_copy_of_a_thread_that_has_ended_is_not_kept():
    net = Counts(torch.zeros(1, dtype=torch.float64))
    held = net.count
    inside, leave = threading.Event(), threading.Event()

    def slow(x):
        inside.set()
        assert leave.wait(timeout=60)
        return net(x)

    def f(x):
        other.start()
        assert inside.wait(timeout=60)
        count = net.count  # what `net.count += 1` does, with the end of a thread in it
        leave.set()
        other.join(timeout=60)
        net.count = count
        return net(x)

    other = threading.Thread(target=pullback.jacobian, args=(slow, X[0]), daemon=True)
    pullback.jacobian(f, X[0])
    assert net.count is held
    assert held == 0


def test_in_forward_mode_threads_take_turns_and_say_so(monkeypatch):
    net, found, said = network(), [], []
    inside, leave = threading.Event(), threading.Event()

    def slow(x):
        inside.set()
        assert leave.wait(timeout=60)
        return net(x)

    def warn(text, **_):
        said.append(text)
        leave.set()

    monkeypatch.setattr(_buffers, "PATIENCE", 0)
    monkeypatch.setattr(_buffers.warnings, "warn", warn)
    held = dict(net.named_buffers())
    other = threading.Thread(
        target=lambda: found.append(pullback.jacobian(slow, X, mode="forward")), daemon=True
    )
    other.start()
    assert inside.wait(timeout=60)
    J = pullback.jacobian(net, X, mode="forward")
    other.join(timeout=60)
    torch.testing.assert_close(found, [J])
    assert "mode='reverse'" in said[0]
    assert all(b is held[name] for name, b in net.named_buffers())


def test_a_question_in_f_begins_with_the_numbers_of_f_and_leaves_them():
    net = Counts(torch.zeros(1, dtype=torch.float64))
    held = net.count

    def f(x):
        y = net(x)
        inner = pullback.jacobian(net, x.detach())
        return y * inner.trace() * net(x)  # 1 * (3 * 2) * 2

    torch.testing.assert_close(pullback.vjp(f, X[0], v=torch.ones_like(X[0])), 24 * X[0])
    assert net.count is held
    assert held == 0


@pytest.mark.parametrize("way", ["the module", "a closure"])
def test_a_compiled_module_says_that_its_statistics_moved(way):
    net = network()
    compiled = torch.compile(net, backend="eager")
    f = WAYS[way](compiled)
    with pytest.warns(
        UserWarning, match=r"changed its .*1\.running_mean and 2 more buffers.*eval"
    ):
        pullback.jacobian(f, X)
    assert net[1].num_batches_tracked > 0


@pytest.mark.filterwarnings("error:f calls a compiled module")
def test_a_compiled_module_without_statistics_says_nothing():
    compiled = torch.compile(network().eval(), backend="eager")
    pullback.jacobian(lambda x: compiled(x), X)  # a warning would be an error
