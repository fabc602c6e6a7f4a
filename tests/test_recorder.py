"""Whatever is watched computes the same bits, and nothing stays behind."""

import functools
import os
import subprocess
import sys
import threading
import warnings
from contextlib import ExitStack, suppress

import pytest
import torch
from functions import OldCube
from torch import nn
from watched import TRAP, hooks_of_torch

import pullback
from pullback._watch.places import Places
from pullback._watch.recorder import Recorder


def test_an_entry_of_a_converted_weight_may_be_nudged():
    with pullback.watch() as seen:
        net = nn.Linear(3, 1).double()
        with torch.no_grad():
            net.weight[0, 0] += 1e-3
    assert not seen.unseen


def test_nested_tensors_are_let_through():
    with warnings.catch_warnings(action="ignore"), pullback.watch() as seen:
        parts = [torch.ones(2, requires_grad=True), torch.ones(3, requires_grad=True)]
        (torch.nested.as_nested_tensor(parts) * 2).to_padded_tensor(0.0).sum().backward()
    assert parts[1].grad.tolist() == [2.0] * 3
    assert seen.unseen == ()


def test_a_view_that_may_not_be_differentiated():
    base = torch.ones(3, requires_grad=True) * 1
    with torch.no_grad():
        view = base[:2]
    base.mul_(2)
    with torch.no_grad(), pullback.watch() as seen:
        torch.zeros(2).copy_(view)
    assert seen.unseen == ()


def test_a_leaf_that_became_a_result_is_asked_for_no_gradient(recwarn):
    x, kept = torch.ones(2, requires_grad=True), []
    with pullback.watch() as seen:
        for _ in range(2):
            x.square().sum().backward()
            with torch.no_grad():
                x -= x.grad
        kept = x.grad  # which lives on
        x.grad = None
        x.detach_().requires_grad_()
        x.square().sum().backward()
        x.grad, x.requires_grad = None, False
        x.add_(torch.ones(2, requires_grad=True))
    assert seen.unseen == ()
    assert not recwarn.list
    assert kept.shape == x.shape


@pytest.mark.filterwarnings("ignore:Using `torch.compile:UserWarning")
def test_modules_without_a_length_are_called():
    net = torch.compile(nn.Linear(2, 1), backend="eager")
    with pullback.watch() as seen:
        net(torch.ones(1, 2)).sum().backward()
    assert list(seen) == []


# --- nothing changes ------------------------------------------------------------------


def trained(steps=3):
    torch.manual_seed(0)  # the same start with and without
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    optimizer = torch.optim.AdamW(layer.parameters())
    for _ in range(steps):
        optimizer.zero_grad()
        layer(torch.randn(2, 5, 8)).square().mean().backward()
        optimizer.step()
    return [p.detach().clone() for p in layer.parameters()] + [torch.rand(3)]


def test_results_are_the_same_to_the_bit():
    plain = trained()
    with pullback.watch() as seen:
        same = trained()
    assert list(seen) == []
    assert seen.unseen == ()
    for a, b in zip(plain, same, strict=True):
        assert torch.equal(a, b)


def a_net(seed=0):
    torch.manual_seed(seed)  # the same start with and without
    return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))


def steps_of(net, loss_of, optimizer, steps=2):
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(net, torch.randn(4, 3)).backward()
        optimizer.step()
    return [*net.state_dict().values(), torch.rand(2)]


def squares(net, x):
    return net(x).square().mean()


def with_hooks():
    net, arrived = a_net(), []
    net[3].register_full_backward_hook(lambda *given: arrived.extend(given[2]))
    net[3].weight.register_hook(lambda v: 2 * v)
    net[3].bias.register_post_accumulate_grad_hook(lambda p: arrived.append(p.grad.clone()))
    return steps_of(net, squares, torch.optim.SGD(net.parameters(), lr=0.1)) + arrived


def with_a_custom_function():
    net = a_net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    return steps_of(net, lambda net, x: OldCube.apply(net(x)).mean(), optimizer)


def with_checkpoints(use_reentrant):
    from torch.utils.checkpoint import checkpoint

    net = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 1))

    def loss_of(net, x):
        x.requires_grad_()
        return checkpoint(net, x, use_reentrant=use_reentrant).square().mean()

    return steps_of(net, loss_of, torch.optim.SGD(net.parameters(), lr=0.1))


def with_autocast_and_a_scaler():
    net, scaler = a_net(), torch.amp.GradScaler("cpu", init_scale=2.0**10)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = squares(net, torch.randn(4, 3))
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    return [*net.state_dict().values(), torch.tensor(scaler.get_scale())]


def with_a_gradient_penalty():
    def loss_of(net, x):
        x.requires_grad_()
        (slope,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
        return (slope.norm(dim=1) - 1).square().mean() + net[3].bias.square().sum()

    net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Tanh(), nn.Linear(8, 1))
    return steps_of(net, loss_of, torch.optim.SGD(net.parameters(), lr=0.1))


def with_a_compiled_region():
    net = a_net()
    compiled = torch.compile(net[2:], backend="aot_eager")

    def loss_of(net, x):
        return compiled(net[:2](x)).square().mean()

    return steps_of(net, loss_of, torch.optim.SGD(net.parameters(), lr=0.1))


def in_threads():
    nets = [a_net(seed) for seed in range(4)]

    def work(net):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(5):
            optimizer.zero_grad()
            squares(net, torch.ones(4, 3)).backward()
            optimizer.step()

    threads = [threading.Thread(target=work, args=(net,)) for net in nets[1:]]
    for thread in threads:
        thread.start()
    work(nets[0])
    for thread in threads:
        thread.join()
    return [t for net in nets for t in net.state_dict().values()]


class Doubled(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        return torch.full((3,), float(i)) * 2


def with_workers_of_a_loader():
    net = a_net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.001)
    loader = torch.utils.data.DataLoader(Doubled(), batch_size=4, num_workers=2)
    for x in loader:
        optimizer.zero_grad()
        squares(net, x).backward()
        optimizer.step()
    return [*net.state_dict().values()]


def inside_another_watch():
    with pullback.watch() as seen:
        result = with_hooks()
    assert list(seen) == []
    assert seen.unseen == ()
    return result


@pytest.mark.filterwarnings("ignore:Using `torch.compile:UserWarning")
@pytest.mark.parametrize(
    "program",
    [
        with_hooks,
        with_a_custom_function,
        functools.partial(with_checkpoints, True),
        functools.partial(with_checkpoints, False),
        with_autocast_and_a_scaler,
        with_a_gradient_penalty,
        with_a_compiled_region,
        in_threads,
        with_workers_of_a_loader,
        inside_another_watch,
    ],
    ids=lambda program: getattr(program, "__name__", str(getattr(program, "args", ""))),
)
def test_nothing_is_changed_and_nothing_stays(program):
    before = hooks_of_torch()
    torch.manual_seed(0)  # the same start with and without
    plain = program()
    torch.manual_seed(0)
    with pullback.watch() as seen:
        watched = program()
    assert list(seen) == [], seen
    assert seen.unseen == ()
    assert hooks_of_torch() == before
    for a, b in zip(plain, watched, strict=True):
        assert torch.equal(a, b)


def test_what_other_threads_do_does_not_hide_what_this_one_does():
    w = torch.zeros(2, requires_grad=True)
    other = nn.Parameter(torch.ones(2))
    slow = torch.optim.SGD([other], lr=0.1)
    begun, done = threading.Event(), threading.Event()

    def wait(*_):
        begun.set()
        done.wait(60)

    slow.register_step_pre_hook(wait)
    thread = threading.Thread(target=slow.step)
    with pullback.watch() as seen:
        thread.start()
        begun.wait(60)
        w.pow(2).sum().sqrt().backward()
        done.set()
        thread.join()
    assert [finding.page for finding in seen] == ["norm-at-zero"]


def test_a_watch_inside_another_finds_the_same():
    with pullback.watch() as outer, pullback.watch() as inner:
        exec(TRAP, {"torch": torch})
    assert [f.page for f in outer] == [f.page for f in inner] == ["norm-at-zero"]


@pytest.mark.parametrize("depth", [1, 2])
def test_nothing_stays_where_backward_raises(depth):
    before = hooks_of_torch()
    x = torch.ones(3, requires_grad=True)
    with ExitStack() as stack:
        stack.enter_context(pytest.raises(RuntimeError, match="inplace"))
        blocks = [stack.enter_context(pullback.watch()) for _ in range(depth)]
        y = x.exp()
        y += 1
        y.sum().backward()
    assert [len(seen) for seen in blocks] == [1] * depth
    assert hooks_of_torch() == before


class Skips(torch.optim.SGD):
    def step(self, closure=None):
        raise ValueError


def test_operations_after_a_step_that_raised_are_seen():
    w = torch.nn.Parameter(torch.zeros(2))
    optimizer = Skips([w], lr=0.1)
    x = torch.zeros(2, requires_grad=True)
    with pullback.watch() as seen:
        with suppress(ValueError):
            optimizer.step()
        x.pow(2).sum().sqrt().backward()
    assert [found.rule for found in seen] == ["not-finite"]


def test_operations_of_a_step_are_no_part_of_the_program():
    def watched(optimizer):
        w = torch.nn.Parameter(torch.ones(2))
        w.grad = torch.ones(2)
        with pullback.watch() as seen:
            optimizer([w]).step()
        return seen.watched

    assert watched(torch.optim.Adam) == watched(torch.optim.SGD)  # it computes more


HOOKS = ["_module_called", "_module_returned", "_step_begins", "_step_ended"]
OF_PLACES = ["parameter_registered", "module_registered"]


@pytest.mark.parametrize("name", [*HOOKS, *OF_PLACES])
def test_a_hook_that_fails_leaves_the_program_alone(name, monkeypatch):
    def fail(*arguments):
        raise LookupError("of the hook")

    fail.__name__ = name
    monkeypatch.setattr(Recorder if name in HOOKS else Places, name, fail)
    with pullback.watch() as seen:
        net = nn.Sequential(nn.Linear(2, 1))
        net(torch.ones(1, 2)).sum().backward()
        torch.optim.SGD(net.parameters(), lr=0.1).step()
    assert seen.unseen == (f"{name}: LookupError: of the hook",)


def test_a_module_without_a_hash_runs():
    class Equal(nn.Linear):
        def __eq__(self, other):
            return True

    net = nn.Sequential(nn.Linear(2, 2))
    with pullback.watch() as seen:
        assert Equal(2, 2)(torch.ones(2)).shape == (2,)
        net(torch.ones(2)).sum().backward()
    assert "unhashable" in seen.unseen[0]
    assert not seen


def test_an_open_block_is_not_entered_again():
    block = pullback.watch()
    with block as seen:
        with pytest.raises(RuntimeError, match="is open already"), block:
            pass
        x = torch.zeros(2, requires_grad=True)
        x.pow(2).sum().sqrt().backward()
    assert [found.rule for found in seen] == ["not-finite"]
    assert hooks_of_torch()[-1] == 0
    with block as again:  # after its end it may be
        torch.ones(2) + 1
    assert again.watched == "2 operations, 0 backward passes"


class Ready(torch.autograd.Function):
    forward = staticmethod(lambda ctx, x: x.new_zeros(()))
    backward = staticmethod(lambda ctx, v: torch.ones(2))


def test_nothing_stays_when_the_block_ends_and_when_it_raises():
    before = hooks_of_torch()
    x = torch.ones(2, requires_grad=True)
    y = 3 * Ready.apply(x)
    with pullback.watch() as seen:
        y.backward(retain_graph=True)
        assert hooks_of_torch() != before
    assert [f.page for f in seen] == ["backward-that-ignores-v"]
    assert hooks_of_torch() == before
    with pytest.raises(ZeroDivisionError), pullback.watch():
        1 / 0  # noqa: B018
    assert hooks_of_torch() == before
    y.backward()  # a hook that stayed would add to what is seen
    assert len(seen) == 1


def test_a_rule_that_fails_ends_no_program(monkeypatch):
    def fail(*_):
        raise KeyError("x")

    monkeypatch.setattr(Recorder, "_tensors_of", fail)
    with pullback.watch() as seen:
        total = torch.ones(2).sum()
    assert total == 2
    assert "KeyError" in seen.unseen[0]


def test_what_is_traced_is_the_program_alone():
    from torch.fx.experimental.proxy_tensor import make_fx

    def operations():
        graph = make_fx(lambda x: x.sin() * 2)(torch.ones(3)).graph
        return [node.name for node in graph.nodes]

    plain = operations()
    with pullback.watch():
        assert operations() == plain


def test_an_exported_program_keeps_its_open_sizes():
    from torch.fx.experimental.proxy_tensor import make_fx

    class Difference(nn.Module):
        def forward(self, x):
            return x - x.detach().tanh()

    sizes = {0: torch.export.Dim("size")}  # that x is no square must not be asked
    with pullback.watch() as seen:
        at = (torch.ones(4, 3),)
        # strict, the default of torch 2.6, reads the code, of which watch has wrapped some
        program = torch.export.export(
            Difference(), at, dynamic_shapes=(sizes,), strict=False
        )
        traced = make_fx(Difference(), tracing_mode="symbolic")(*at)
    assert program.module()(torch.ones(3, 3)).shape == (3, 3)
    assert traced(torch.ones(5, 5)).shape == (5, 5)
    assert not seen.unseen


def test_compiled_functions_run_plain():
    f = torch.compile(lambda x: (x.sin() * 2).sum(), backend="eager")
    x = torch.zeros(3, requires_grad=True)
    with pullback.watch() as seen:
        f(x).backward()
    assert x.grad.tolist() == [2.0] * 3
    assert seen.unseen == ()


def test_two_blocks_that_end_in_the_order_of_their_beginning():
    from torch.utils import _python_dispatch as dispatch

    first, second = pullback.watch(), pullback.watch()
    in_first = first.__enter__()
    in_second = second.__enter__()
    first.__exit__(None, None, None)
    x = torch.zeros(1, requires_grad=True)
    x.log().backward()
    assert dispatch.is_in_torch_dispatch_mode()
    second.__exit__(None, None, None)
    assert not dispatch.is_in_torch_dispatch_mode()
    assert [finding.rule for finding in in_second] == ["not-finite"]
    assert list(in_first) == []
    assert in_first.watched == "0 operations, 0 backward passes"


def test_of_three_blocks_the_one_in_the_middle_ends_first():
    blocks = [pullback.watch() for _ in range(3)]
    seen = [block.__enter__() for block in blocks]
    for at in (1, 0, 2):
        torch.zeros(1).add(1)
        blocks[at].__exit__(None, None, None)
    counts = [of.watched.partition(" ")[0] for of in seen]
    assert counts == ["4", "2", "6"]


def test_compiled_code_is_compiled_again_when_both_blocks_have_ended():
    from torch._dynamo import eval_frame

    before = eval_frame._stance.stance
    first, second = pullback.watch(), pullback.watch()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert eval_frame._stance.stance == "force_eager"
    second.__exit__(None, None, None)
    assert eval_frame._stance.stance == before


def work():
    torch.zeros(50, 1, requires_grad=True).log().sum().backward()
    sum(i for i in range(100_000))


def in_a_thread():
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def in_a_process():
    subprocess.run([sys.executable, "-c", "sum(i for i in range(1_000_000))"], check=True)


@pytest.mark.parametrize(
    ("run", "told"), [(in_a_thread, "other threads"), (in_a_process, "other processes")]
)
def test_a_block_that_saw_nothing_says_that_something_ran_elsewhere(run, told):
    with pullback.watch() as seen:
        run()
    assert seen.watched == "0 operations, 0 backward passes"
    (unseen,) = (text for text in seen.unseen if told in text)
    assert unseen.startswith("this thread ran no operation of torch")
    assert told in str(seen)
    with pullback.watch() as seen:
        run()
        torch.zeros(1).add(1)
    assert seen.unseen == ()


def of_positive_numbers(x):
    return x.log().relu().sum() * torch.linspace(1, 2, 5000)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: pullback.live(torch.log, torch.tensor([0.5, 1.0, 4.0])),
        lambda: pullback.sparsity(of_positive_numbers, torch.linspace(0.5, 2, 4096)),
    ],
)
def test_what_pullback_computes_at_other_numbers_is_not_seen(ask):
    with pullback.watch() as seen:
        ask()
        assert list(seen) == []
        torch.zeros(1, requires_grad=True).log().backward()
    assert [finding.rule for finding in seen] == ["not-finite"]


def test_a_block_without_anything_says_nothing():
    with pullback.watch() as seen:
        assert sum(range(100)) == 4950
    assert seen.unseen == ()


def test_an_operation_of_a_second_derivative_takes_few_calls():
    """A step with a second derivative runs hundreds of small operations in backward."""
    net = nn.Sequential(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 1))
    of_package, calls = os.path.dirname(pullback.__file__), 0

    def count(frame, kind, _):
        nonlocal calls
        calls += kind == "call" and frame.f_code.co_filename.startswith(of_package)

    def step():
        t = torch.ones(3, 1, requires_grad=True)
        y = t**2 * net(t)
        (first,) = torch.autograd.grad(y.sum(), t, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), t, create_graph=True)
        second.square().mean().backward()

    with pullback.watch() as seen:
        step()
        sys.setprofile(count)
        step()
        sys.setprofile(None)
    assert not seen
    operations = int(seen.watched.split()[0]) / 2
    assert calls < 42 * operations
