"""Why a parameter got no gradient, and the line that cut it off."""

import math
import warnings

import pytest
import torch
from torch import nn
from watched import at, lines_of

import pullback
from pullback._messages import messages

here = lines_of(__file__)


class Net(nn.Module):
    def __init__(self, cut):
        super().__init__()
        self.first, self.last = nn.Linear(3, 3), nn.Linear(3, 1)
        self.frozen = nn.Linear(3, 3).requires_grad_(False)
        self.unused = nn.Linear(2, 2)
        self.cut = cut

    def forward(self, x):
        return self.last(self.frozen(self.cut(self.first(x))))


def by_detach(h):
    return h.detach()  # detached here


@torch.no_grad()
def by_no_grad(h):
    return h * 2  # without grad here


def by_item(h):
    return torch.tensor([[number.item() for number in row] for row in h])  # item here


def by_items_in_lines(h):
    a, b, c = h[0]
    return torch.tensor(
        [
            a.item(),
            b.item(),
            c.item(),  # items in lines here
        ]
    )


def by_list(h):
    return torch.tensor(
        [
            [2 * number for number in row]
            for row in h.tanh().tolist()  # list in a call here
        ]
    )


def by_integers(h):
    return (h > 0).float()  # integers here


def through_data(h):
    return h.data * 1.0  # data here


@pytest.mark.parametrize(
    ("cut", "where", "says"),
    [
        (by_detach, "detached here", "detach()"),
        (by_no_grad, "without grad here", "no_grad"),
        (by_item, "item here", "as by .item()"),
        (by_items_in_lines, "items in lines here", "as by .item()"),
        (by_list, "list in a call here", ".tolist()"),
        (by_integers, "integers here", "integers or booleans"),
        (through_data, "data here", "detach()"),
    ],
)
def test_why_a_parameter_got_no_gradient(cut, where, says):
    net = Net(cut)
    optimizer = torch.optim.Adam(net.parameters())
    with pullback.watch() as seen:
        for _ in range(2):
            optimizer.zero_grad()
            net(torch.ones(4, 3)).square().mean().backward()
            optimizer.step()
    found = {finding.message: finding for finding in seen}
    (message,) = [m for m in found if m.startswith("first.weight, first.bias got no")]
    assert says in message
    assert at(found[message].site) == here(where)
    (unused,) = [m for m in found if m.startswith("unused.weight, unused.bias got no")]
    assert "not used" in unused
    assert len(seen) == 2
    why, line = seen.why("first.bias").splitlines()
    assert says in why
    assert line.strip().startswith(f"{found[message].site}: ")
    assert "frozen" in seen.why("frozen.weight")
    assert "2 times" in seen.why("last.bias")
    with pytest.raises(KeyError, match=r"first\.weight"):
        seen.why("nobody")


def twice(h):
    return h * 2


def in_a_block(h):
    with torch.no_grad():  # off around a call
        with torch.set_grad_enabled(True), torch.inference_mode(False):
            pass
        return twice(h)


def in_another_mode(h):
    with torch.enable_grad(), torch.set_grad_enabled(False):  # off by an argument
        return h * 2


def all_at_once(h):
    torch.set_grad_enabled(False)
    out = h * 2
    torch.set_grad_enabled(True)
    return out


@pytest.mark.parametrize(
    ("cut", "off"),
    [
        (by_no_grad, [("@torch.no_grad()", "gradients are off in all of by_no_grad")]),
        (in_a_block, [("# off around a call", "gradients are off in this block")]),
        (in_another_mode, [("# off by an argument", "gradients are off in this block")]),
        (all_at_once, []),
    ],
)
def test_the_line_that_switched_gradients_off(cut, off):
    net = Net(cut)
    del net.unused
    optimizer = torch.optim.Adam(net.parameters())
    with pullback.watch() as seen:
        net(torch.ones(4, 3)).square().mean().backward()
        optimizer.step()
    (finding,) = seen
    assert "got no gradient: cut by no_grad" in finding.message
    notes = [note for note in finding.notes if note.label == "off"]
    assert [note.text for note in notes] == [says for _, says in off]
    for note, (code, _) in zip(notes, off, strict=True):
        assert note.site.code.endswith(code)


def test_parameters_of_one_name_are_told_apart():
    class Critic(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(3, 1)

        def forward(self, x):
            return self.first(x.detach())

    nets = Net(lambda h: h), Critic(), Critic()
    parameters = [p for net in nets for p in net.parameters()]
    optimizer = torch.optim.Adam(parameters)
    with pullback.watch() as seen:
        loss = nets[0](torch.ones(4, 3)).mean() + nets[2](torch.ones(4, 3)).mean()
        nets[1](torch.ones(4, 3))
        loss.backward()
        optimizer.step()
    (finding,) = (f for f in seen if "first.weight" in f.message)
    assert "first.weight of Critic 2, first.bias of Critic 2 got" in finding.message
    assert "got a gradient" in seen.why("first.weight of Net")
    assert "got a gradient" in seen.why("first.weight of Critic 1")
    assert "got a gradient" in seen.why("last.weight")


class Sixth(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        cube = x**3
        return cube * cube

    @staticmethod
    def backward(ctx, v):
        return 6 * v * ctx.saved_tensors[0] ** 5


class SixthOfNumPy(Sixth):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        cube = x.detach().numpy() ** 3
        return torch.from_numpy(cube * cube)


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * 1 * w

    @staticmethod
    def backward(ctx, v):
        return v * ctx.saved_tensors[1], v * ctx.saved_tensors[0]


@torch.library.custom_op("test_watch::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


double.register_autograd(lambda ctx, v: 2 * v)


LOG = []


def numpy_beside(h):
    LOG.append(h.detach().numpy())
    kept = h.detach()  # kept here
    LOG.append(h.detach().cpu().numpy())
    return kept


def another_detach(h):
    kept = h.detach()[:, :]  # kept first here
    LOG.append(h.detach().mean())
    return kept * 1


def behind_a_function(h):
    return Sixth.apply(h).detach()  # behind the Function here


def behind_a_function_of_numpy(h):
    return SixthOfNumPy.apply(h).detach()  # behind NumPy here


def behind_an_operator(h):
    return (double(h) > 0).float()  # behind the operator here


def before_a_function(h):
    h = h.detach() * 2  # before the Function here
    return Product.apply(h, torch.ones(3, requires_grad=True))


def a_new_leaf(h):
    h = h.detach().requires_grad_()  # a new leaf here
    return h * 2


def a_new_parameter(h):
    h = nn.Parameter(h.detach())  # a new parameter here
    return h * 2


def a_view_of_no_grad(h):
    LOG.append(h.detach().numpy())
    with torch.no_grad():
        h = h[:, :]  # a view here
    return h * 1


def through_numpy(h):
    return torch.from_numpy(h.detach().numpy() * 2)  # through NumPy here


@pytest.mark.parametrize(
    ("cut", "where", "says"),
    [
        (numpy_beside, "kept here", "detach()"),
        (another_detach, "kept first here", "detach()"),
        (behind_a_function, "behind the Function here", "detach()"),
        (behind_a_function_of_numpy, "behind NumPy here", "detach()"),
        (behind_an_operator, "behind the operator here", "integers or booleans"),
        (before_a_function, "before the Function here", "detach()"),
        (a_new_leaf, "a new leaf here", "detach()"),
        (a_new_parameter, "a new parameter here", "detach()"),
        (a_view_of_no_grad, "a view here", "no_grad"),
        (through_numpy, "through NumPy here", "NumPy"),
    ],
)
def test_lines_beside_the_cut_are_not_named(cut, where, says):
    net = Net(cut)
    with pullback.watch() as seen:
        for _ in range(2):
            net(torch.ones(4, 3)).square().mean().backward()
    why, line = seen.why("first.weight").splitlines()
    assert f"cut by {says}" in why.replace("an operation that gives ", "")
    name, number = here(where)
    assert f"{name}:{number}: " in line


def as_a_number(h):
    number = h.sum().item()  # a number here
    return torch.full((4, 3), number)


def as_a_list(h):
    h = h.tanh()
    numbers = h.tolist()  # a list here
    rows = [[math.exp(-number) for number in row] for row in numbers]
    return torch.tensor(rows)


def by_chain(h):
    number = (
        h.tanh().sum().item()  # by a chain here
    )
    return torch.full(
        (4, 3),
        number,
    )


def by_call(h):
    h = h.tanh()
    number = float(  # by a call here
        h.sum()
    )
    return torch.full((4, 3), number)


def to_array_in_lines(h):
    LOG.append(
        h.tanh()
        .detach()  # NumPy in lines here
        .numpy()
    )
    return torch.ones(4, 3)


def to_decide(h):
    if h.sum() < 1e9:  # decided here
        LOG.append(h.detach().numpy())  # to NumPy here
    return torch.ones(4, 3)


def in_place(h):
    h = h * 1
    h.detach_()
    return h * 2  # read without a graph here


def to_an_array(h):
    LOG.append(h.detach().numpy())  # to an array here
    return torch.ones(4, 3)


def left_where_it_is(h):
    h = h.tanh()  # overwritten here
    h = torch.ones(4, 3)
    return h * 2


@pytest.mark.parametrize(
    ("cut", "where", "says"),
    [
        (as_a_number, "a number here", "left autograd by .item(), float() or .tolist()"),
        (as_a_list, "a list here", "left autograd by .item(), float() or .tolist()"),
        (by_chain, "by a chain here", "left autograd by .item(), float() or .tolist()"),
        (by_call, "by a call here", "left autograd by .item(), float() or .tolist()"),
        (to_array_in_lines, "NumPy in lines here", "left autograd by detach()"),
        (to_an_array, "to an array here", "left autograd by detach()"),
        (left_where_it_is, "overwritten here", "nothing has taken the result of"),
    ],
)
def test_where_all_of_it_ends_is_the_line_that_is_named(cut, where, says):
    net = Net(cut)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with pullback.watch() as seen:
        for _ in range(3):
            net(torch.ones(4, 3)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    finding = next(f for f in seen if "first" in f.message)
    assert says in finding.message
    assert at(finding.site) == here(where)
    assert finding.brief == seen.why("first.weight").replace(
        ".weight", ".weight, first.bias"
    )


class Ends(nn.Module):
    """Two parameters, of which a function makes what the first layer is multiplied by."""

    def __init__(self, of):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.tensor(1.5)), nn.Parameter(torch.tensor(2.5))
        self.ends, self.layer, self.of = [self.a, self.b], nn.Linear(3, 2), of

    def forward(self, x):
        return self.layer(x) * self.of(self)


def between(net):
    return torch.linspace(net.a, net.b, 2)  # between the ends


def between_results(net):
    start, end = net.a * 2, net.b * 2
    return torch.linspace(start, end, 2)  # between results


def put_together(net):
    return torch.tensor([net.a, net.b])  # put together


def results_put_together(net):
    start, end = net.a.exp(), net.b.exp()
    return torch.as_tensor(  # results put together
        [
            start,
            end,
        ]
    )


def of_a_list(net):
    return torch.Tensor(net.ends)  # of a list


def like_another(net):
    return net.layer.weight.new_tensor(data=(net.a, net.b))  # like another


def order(net):
    _, order = torch.stack([net.a, net.b]).sort()  # order of both
    return order


def the_largest(net):
    at = torch.stack([net.a, net.b]).topk(1).indices  # the largest
    return torch.zeros(2).scatter(0, at, 1.0)


def histogram(net):
    return torch.histc(torch.stack([net.a, net.b]), bins=2)  # histogram of both


def by_mathematics(net):
    return math.exp(net.a) + int(net.b)  # by mathematics


def shape_alone(net):
    both = torch.stack([net.a, net.b])  # of which a shape is taken
    return torch.ones_like(both)


@pytest.mark.parametrize(
    ("of", "where", "says"),
    [
        (between, "between the ends", "no derivative: linspace"),
        (between_results, "between results", "no derivative: linspace"),
        (put_together, "put together", "a number of Python"),
        (results_put_together, "results put together", "a number of Python"),
        (of_a_list, "of a list", "a number of Python"),
        (like_another, "like another", "a number of Python"),
        (order, "order of both", "integers or booleans"),
        (the_largest, "the largest", "integers or booleans"),
        (histogram, "histogram of both", "no derivative: histc"),
        (by_mathematics, "by mathematics", "a number of Python"),
        (shape_alone, "of which a shape is taken", "nothing has taken the result"),
    ],
)
@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad=True")
def test_the_line_that_takes_numbers_out_is_named(of, where, says):
    net = Ends(of)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with pullback.watch() as seen:
        for _ in range(2):
            optimizer.zero_grad()
            net(torch.ones(4, 3)).square().mean().backward()
            optimizer.step()
    (finding,) = seen
    assert finding.message.startswith("a, b got no gradient: ")
    assert says in finding.message
    assert at(finding.site) == here(where)
    assert seen.unseen == ()


class Aloof:
    """What has no attributes of its own, and wants to be asked for none."""

    __slots__ = ()

    @property
    def weight(self):
        raise AssertionError("it was asked")


def test_a_new_tensor_of_numbers_is_no_cut():
    net, aloof = nn.Linear(3, 2), Aloof()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    numbers, code = [1.0, 2.0], "torch.tensor([numbers[0], 2.0 if aloof.weight else 0])"
    with pullback.watch() as seen:
        for _ in range(2):
            scale = torch.tensor(numbers) + torch.tensor([*numbers]) + torch.tensor(1)
            with pytest.raises(AssertionError):
                eval(code)
            loss = (net(torch.ones(4, 3)) * scale).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            shown = torch.tensor([loss, *numbers])
    assert list(seen) == []
    assert seen.unseen == ()
    assert shown[0] == loss
    assert aloof is not None


def fill(h):
    h.fill_(1)  # filled here


def copy(h):
    h.copy_(torch.ones_like(h))  # copied here


def assign(h):
    h[:] = 1  # assigned here


def half(h):
    h[:, 0] = 1


def unrecorded(h):
    with torch.no_grad():
        h.zero_()


def of_itself(h):
    h.copy_(h * 2)


@pytest.mark.parametrize(
    ("write", "cut"),
    [
        (torch.Tensor.zero_, True),
        (fill, True),
        (copy, True),
        (assign, True),
        (torch.Tensor.normal_, True),
        (half, False),
        (unrecorded, False),
        (of_itself, False),
    ],
)
@pytest.mark.parametrize("beside", [False, True])
def test_what_is_written_over_gets_zeros(write, cut, beside):
    first, last = nn.Linear(3, 3), nn.Linear(3, 3)
    net = nn.ModuleList([first, last])
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    x, loss = torch.ones(4, 3), torch.zeros(())
    with pullback.watch() as seen:
        for _ in range(2):
            h = first(x)
            if beside:
                loss = h.sum()
            write(h)  # written over here
            optimizer.zero_grad()
            (loss + (h + last(x)).sum()).backward()
            optimizer.step()
    if cut and not beside:
        (finding,) = seen
        assert "of Linear 1 got no gradient but zeros" in finding.message
        assert "written over in place" in finding.message
        words = "written over here", "filled here", "copied here", "assigned here"
        assert at(finding.site) in [*map(here, words)]
        assert not first.weight.grad.any()
    else:
        assert list(seen) == []
        assert first.weight.grad.any()


@pytest.mark.parametrize(("cut", "left"), [(to_decide, ["decided here", "to NumPy here"])])
def test_what_may_have_cut_is_said_to_be_no_more_than_that(cut, left):
    net = Net(cut)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with pullback.watch() as seen:
        net(torch.ones(4, 3)).square().mean().backward()
        optimizer.step()
    finding = next(f for f in seen if "first" in f.message)
    assert "did not enter the loss" in finding.message
    assert "unless as numbers of Python or NumPy" in finding.message
    assert finding.site.code == "return self.last(self.frozen(self.cut(self.first(x))))"
    notes = [note for note in finding.notes if note.label == "left"]
    assert [at(note.site) for note in notes] == [here(text) for text in left]


def test_a_cut_that_is_no_operation_is_said_to_be_before():
    net = Net(in_place)
    with pullback.watch() as seen:
        net(torch.ones(4, 3)).square().mean().backward()
    why, line = seen.why("first.weight").splitlines()
    assert "without a graph on this line" in why
    name, number = here("read without a graph here")
    assert f"{name}:{number}: " in line


def test_a_cut_in_the_second_of_two_losses():
    net = Net(by_detach)
    with pullback.watch() as seen:
        net(torch.ones(4, 3))
        net.last.weight.sum().backward()  # the first is aside
        net(torch.ones(4, 3)).square().mean().backward()
    assert "cut by detach()" in seen.why("first.weight")


class Nothing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, v):
        if v is None:
            return v
        return None  # nothing here


def test_a_loss_that_is_put_together_of_numbers():
    net = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with warnings.catch_warnings(action="ignore"), pullback.watch() as seen:
        losses = [net(x).square().sum() for x in torch.ones(4, 3)]
        losses = torch.tensor(losses, requires_grad=True)  # put together here
        losses.mean().backward()
        optimizer.step()
    (finding,) = seen
    assert "0.weight, 0.bias, 2.weight, 2.bias got no gradient" in finding.message
    assert at(finding.site) == here("put together here")
    assert "torch.stack" in finding.fix


def test_a_parameter_is_not_used_where_it_is_made():
    with pullback.watch() as seen:
        net = nn.Linear(3, 1)  # as in a script that is run by the command
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        y = net(torch.ones(2, 3))  # used first here
        (y.detach() * torch.ones(1, requires_grad=True)).sum().backward()
        optimizer.step()
    (finding,) = seen
    assert [at(note.site) for note in finding.notes] == [here("used first here")]


def test_many_parameters_are_not_all_named():
    net = nn.Sequential(*[nn.Linear(2, 2) for _ in range(10)])
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with pullback.watch() as seen:
        (
            net(torch.ones(1, 2)).detach() * torch.ones(1, requires_grad=True)
        ).sum().backward()
        optimizer.step()
    (finding,) = seen
    assert "1.bias and 16 more parameters got no gradient" in finding.message
    assert "cut by detach()" in seen.why("9.bias")


def test_a_parameter_that_no_optimizer_holds():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    optimizer = torch.optim.SGD(net[0].parameters(), lr=0.1)
    with pullback.watch() as seen:
        net(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    assert "no optimizer holds it" in seen.why("1.bias")
    assert "no optimizer" not in seen.why("0.bias")


def test_a_function_that_sends_nothing_back():
    net = Net(Nothing.apply)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with pullback.watch() as seen:
        net(torch.ones(4, 3)).square().mean().backward()
        optimizer.step()
    finding = next(f for f in seen if "first" in f.message)
    assert "sends nothing: Nothing" in finding.message
    assert at(finding.site) == here("nothing here")


def test_the_page_about_a_number_tells_what_to_do():
    net = Net(by_item)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with pullback.watch() as seen:
        net(torch.ones(4, 3)).square().mean().backward()
        optimizer.step()
    finding = next(f for f in seen if "item" in f.message)
    assert finding.page == "grad-is-none"
    page = next(m for m in messages() if m.anchor == finding.page)
    for words in ("`.item()`", "`torch.stack"):
        assert words in page.fix
        assert words.strip("`") in finding.fix


def test_a_parameter_that_is_used_beside_the_loss():
    net = Net(lambda h: h)
    optimizer = torch.optim.SGD([*net.first.parameters(), *net.last.parameters()], lr=0.1)
    with pullback.watch() as seen:
        net(torch.ones(4, 3))
        net.last(torch.ones(1, 3)).sum().backward()
        optimizer.step()
    assert "did not enter the loss" in seen.why("first.weight")


def test_a_closure_without_backward_and_an_optimizer_that_reads_its_loss():
    w, other = nn.Parameter(torch.ones(2)), torch.ones(2, requires_grad=True)
    optimizer = torch.optim.LBFGS([w])
    with pullback.watch() as seen:
        optimizer.step(lambda: (w**2).sum())  # reads the loss as a number
        other.sum().backward()
    assert "did not enter the loss of any backward" in seen.why("w")


def test_networks_that_are_trained_in_turns_are_right():
    torch.manual_seed(0)  # any numbers do
    G, D = nn.Linear(2, 3), nn.Linear(3, 1)
    of_G = torch.optim.Adam(G.parameters())
    of_D = torch.optim.Adam(D.parameters())
    with pullback.watch() as seen:
        for _ in range(3):
            fake = G(torch.randn(4, 2))
            of_D.zero_grad()
            (D(fake.detach()).mean() - D(torch.randn(4, 3)).mean()).backward()
            of_D.step()
            of_G.zero_grad()
            D(fake).mean().neg().backward()
            of_G.step()
    assert list(seen) == []


def test_leaves_whose_gradients_are_returned_are_not_looked_after(monkeypatch):
    looks = []
    real = pullback._watch.gradients.reason_for
    monkeypatch.setattr(
        pullback._watch.gradients,
        "reason_for",
        lambda log, leaf, call: looks.append(leaf) or real(log, leaf, call),
    )
    w, x = nn.Parameter(torch.ones(2)), torch.ones(2)
    with pullback.watch() as seen:
        for _ in range(5):
            x.requires_grad_()
            (slope,) = torch.autograd.grad((x**2).sum(), x)
            x = (x - 0.1 * slope).detach()
            (w * x).sum().backward()
    assert not looks
    assert not seen
    assert seen.why("x").startswith("Its gradient was returned")


def test_a_parameter_that_inputs_leave_out():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with pullback.watch() as seen:
        for _ in range(2):
            net(torch.ones(1, 2)).sum().backward(  # left out here
                inputs=[*net[1].parameters()]
            )
            optimizer.step()
            optimizer.zero_grad()
    (finding,) = seen
    assert finding.message.startswith("0.weight, 0.bias got no gradient: used, but inputs=")
    assert at(finding.site) == here("left out here")


def test_a_teacher_that_is_not_trained_is_right():
    online, target = nn.Linear(2, 1), nn.Linear(2, 1)
    optimizer = torch.optim.Adam(online.parameters())
    with pullback.watch() as seen:
        for _ in range(3):
            with torch.no_grad():
                wanted = target(torch.ones(4, 2))
            optimizer.zero_grad()
            (online(torch.ones(4, 2)) - wanted).square().mean().backward()
            optimizer.step()
            with torch.no_grad():
                for t, w in zip(target.parameters(), online.parameters(), strict=True):
                    t.lerp_(w, 0.1)
    assert list(seen) == []


def test_a_reentrant_checkpoint_whose_input_requires_no_gradient():
    from torch.utils.checkpoint import checkpoint

    net = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    other = torch.ones(2, requires_grad=True)
    with warnings.catch_warnings(action="ignore"), pullback.watch() as seen:
        y = checkpoint(net, torch.ones(1, 2), use_reentrant=True)
        (y.sum() + other.sum()).backward()
        optimizer.step()
    (finding,) = seen
    assert "weight, bias got no gradient: used inside a reentrant" in finding.message
    assert finding.page == "checkpoint-inputs-no-grad"


def test_a_storage_that_comes_from_elsewhere_has_no_past():
    from pullback._watch.log import Event, Leaf
    from pullback._watch.ways import Reason, Way

    w = torch.ones(1, requires_grad=True)
    way = Way(Leaf(lambda: w, 1, 0, None, "w"))
    way.cut[5] = Reason("integer")  # of a storage that is gone
    event = Event(1, "lift_fresh", None)
    event.reads = event.makes = (5,)
    way.follow(event)
    assert way.cut == {}


def test_gradients_that_are_set_by_hand_are_right():
    w, other = nn.Parameter(torch.ones(2)), torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.1)
    with pullback.watch() as seen:
        other.sum().backward()
        (w.grad,) = torch.autograd.grad((w**2).sum(), w)
        optimizer.step()
        optimizer.zero_grad()
    assert list(seen) == []
    assert "by hand" in seen.why("w")
