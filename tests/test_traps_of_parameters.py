"""What an optimizer holds of a model: an old parameter is named, and no innocent one."""

import copy
import gc
import itertools

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, prune
from watched import at, lines_of

import pullback

here = lines_of(__file__)

RULE = "optimizer-holds-the-old-parameter"
X = torch.tensor([[0.5, -1.0, 2.0]])


def old_of(seen):
    """Return the names of the parameters that are said to be held by no optimizer."""
    assert seen.unseen == ()
    return [f.message.partition(",")[0] for f in seen if f.rule == RULE]


def net_of(*sizes):
    layers = [nn.Linear(a, b) for a, b in itertools.pairwise(sizes)]
    return nn.Sequential(*layers)


def sgd(net):
    return torch.optim.SGD(net.parameters(), lr=0.1)


def train(net, *optimizers, steps=2):
    for _ in range(steps):
        for optimizer in optimizers:
            optimizer.zero_grad()
        net.zero_grad()
        net(X).square().sum().backward()
        for optimizer in optimizers:
            optimizer.step()


# --- an old parameter -----------------------------------------------------------------


def new_head(net):
    net[1] = nn.Linear(4, 4)


def head_of_other_classes(net):
    net[1] = nn.Linear(4, 7)


def new_weight(net):
    net[1].weight = nn.Parameter(net[1].weight.data * 0.9)


def initialised_again(net):
    net[0].weight = nn.Parameter(nn.init.orthogonal_(torch.empty(4, 3)))


def assigned(net):
    net.load_state_dict(copy.deepcopy(net.state_dict()), assign=True)


def moved(net):
    """Convert as ``.to()`` does where it cannot keep the tensor."""
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        net.double().float()
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(False)


def normalised(net):
    parametrizations.weight_norm(net[1])


REPLACED = {
    new_head: "1.weight",
    head_of_other_classes: "1.weight",
    new_weight: "1.weight",
    initialised_again: "0.weight",
    assigned: "0.weight",
    moved: "0.weight",
}


@pytest.mark.parametrize("replace", [*REPLACED], ids=lambda f: f.__name__)
@pytest.mark.parametrize("all_is_seen", [True, False])
def test_what_was_replaced_after_the_optimizer_was_made(replace, all_is_seen):
    blocks = [pullback.watch()]
    if all_is_seen:
        seen = blocks[0].__enter__()
    net = net_of(3, 4, 4)
    optimizer = sgd(net)
    replace(net)
    if not all_is_seen:
        seen = blocks[0].__enter__()
    train(net, optimizer)
    blocks[0].__exit__(None, None, None)
    assert REPLACED[replace] in old_of(seen)


def test_the_finding_says_both_shapes():
    net = net_of(2, 4, 10)
    optimizer = sgd(net)
    net[1] = nn.Linear(4, 3)
    with pullback.watch() as seen:
        net(torch.ones(1, 2)).square().sum().backward()
        optimizer.step()
    (finding,) = [f for f in seen if f.rule == RULE]
    assert "1.weight, of shape [3, 4]" in finding.message
    assert "a parameter of shape [10, 4]" in finding.message


def test_what_is_replaced_in_a_seen_program_may_have_any_shape():
    with pullback.watch() as seen:
        net = net_of(3, 4, 4)
        optimizer = sgd(net)
        net[1] = nn.Sequential(nn.Linear(4, 9), nn.Tanh(), nn.Linear(9, 2))
        train(net, optimizer)
    assert old_of(seen) == ["1.0.weight"]  # one finding for the line that uses them


def test_a_weight_that_is_parametrized_later():
    with pullback.watch() as seen:
        net = net_of(3, 4, 4)
        optimizer = sgd(net)
        normalised(net)
        train(net, optimizer)
    assert old_of(seen) == ["1.parametrizations.weight.original0"]


def test_parameters_in_groups():
    with pullback.watch() as seen:
        net = net_of(3, 4, 4)
        decayed = [p for p in net.parameters() if p.ndim > 1]
        others = [p for p in net.parameters() if p.ndim == 1]
        groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others}]
        optimizer = torch.optim.SGD(groups, lr=0.1)
        new_head(net)
        train(net, optimizer)
    assert old_of(seen) == ["1.weight"]


def test_a_parameter_that_is_replaced_while_it_trains():
    net = nn.Linear(3, 1)
    optimizer = sgd(net)
    with pullback.watch() as seen:
        for _ in range(2):
            optimizer.zero_grad()
            net(X).square().sum().backward()
            optimizer.step()
            net.weight = nn.Parameter(net.weight.data * 0.9)
        train(net, optimizer, steps=1)
    assert old_of(seen) == ["weight"]


def test_an_optimizer_of_a_copy():
    net = net_of(3, 4, 4)
    optimizer = sgd(copy.deepcopy(net))
    with pullback.watch() as seen:
        train(net, optimizer)
    assert old_of(seen) == ["0.weight"]


# --- innocent -------------------------------------------------------------------------


def after_another_training():
    """A layer is looked at when a tensor of its shape has been trained."""
    W = torch.eye(3).requires_grad_()
    optimizer = torch.optim.SGD([W], lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        (X @ W).square().sum().backward()
        optimizer.step()
    nn.Linear(3, 3, bias=False)(X).sum().backward()


def between_two_trainings():
    after_another_training()
    after_another_training()


def tied_shapes():
    """Only the last layers of equal ones are trained, and one of them rests."""
    net = net_of(3, 3, 3, 3)
    spare = nn.Parameter(torch.ones(3, 3))
    train(net, torch.optim.SGD([*net[1].parameters(), spare], lr=0.1))


def a_head_that_rests():
    net = nn.ModuleDict({"body": net_of(3, 4), "a": nn.Linear(4, 2), "b": nn.Linear(4, 2)})
    net.forward = lambda x: net["b"](net["body"](x))
    train(net, torch.optim.SGD([*net["body"].parameters(), *net["a"].parameters()], 0.1))


def two_optimizers():
    first, second = net_of(3, 4, 4), net_of(3, 4, 4)
    optimizers = sgd(first), sgd(second)
    for net in (first, second):
        train(net, *optimizers)


def an_average():
    net = net_of(3, 4, 4)
    average, optimizer = copy.deepcopy(net), sgd(net)
    for _ in range(3):
        loss = (net(X) - average(X).detach()).square().sum() + net(X).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for p, q in zip(average.parameters(), net.parameters(), strict=True):
                p.lerp_(q, 0.1)


def a_model_trained_by_hand():
    net, other = net_of(3, 4), net_of(3, 4)
    optimizer = sgd(other)
    for _ in range(3):
        train(net, optimizer, steps=1)
        with torch.no_grad():
            for p in net.parameters():
                p -= 0.1 * p.grad


def a_model_trained_through_data():
    net, other = net_of(3, 4), net_of(3, 4)
    optimizer = sgd(other)
    for _ in range(3):
        train(net, optimizer, steps=1)
        for p in net.parameters():
            p.data = p.data - 0.1 * p.grad


def two_nets_against_each_other():
    maker, judge = net_of(3, 3, 3), net_of(3, 3, 3)
    of_maker, of_judge = sgd(maker), sgd(judge)
    for step in range(4):
        of_judge.zero_grad()
        (judge(X) - judge(maker(X).detach())).mean().backward()
        of_judge.step()
        if step % 2:
            of_maker.zero_grad()
            judge(maker(X)).mean().backward()  # fills the gradients of both
            of_maker.step()


def the_judge_alone():
    maker, judge = net_of(3, 3, 3), net_of(3, 3, 3)
    optimizer = sgd(judge)
    for _ in range(3):
        optimizer.zero_grad()
        judge(maker(X)).mean().backward()  # not detached
        optimizer.step()


def a_shared_model():
    """Gradients of a copy are handed to the model that the optimizer holds."""
    shared = net_of(3, 4)
    optimizer, local = sgd(shared), copy.deepcopy(shared)
    for _ in range(3):
        local.zero_grad()
        local(X).square().sum().backward()
        for p, q in zip(local.parameters(), shared.parameters(), strict=True):
            q.grad = p.grad
        optimizer.step()


def a_master_copy():
    net = net_of(3, 4).bfloat16()
    master = [p.detach().float().requires_grad_() for p in net.parameters()]
    optimizer = torch.optim.SGD(master, lr=0.1)
    for _ in range(3):
        net.zero_grad()
        net(X.bfloat16()).square().sum().backward()
        for p, q in zip(net.parameters(), master, strict=True):
            q.grad = p.grad.float()
        optimizer.step()
        with torch.no_grad():
            for p, q in zip(net.parameters(), master, strict=True):
                p.copy_(q)


def a_new_optimizer():
    net = net_of(3, 4, 4)
    optimizer = sgd(net)
    train(net, optimizer)
    new_head(net)
    train(net, sgd(net))


def a_group_is_added():
    net = net_of(3, 4, 4)
    optimizer = sgd(net)
    new_head(net)
    optimizer.add_param_group({"params": net[1].parameters()})
    train(net, optimizer)


def a_head_that_stands_still():
    net = net_of(3, 4, 4)
    optimizer = sgd(net)
    net[1] = nn.Linear(4, 4).requires_grad_(False)
    train(net, optimizer)


def steps_of_meta_learning():
    """The parameters of inner steps stand in the place of those that are held."""
    net = net_of(3, 4)
    optimizer, own = sgd(net), dict(net[0].named_parameters())
    for _ in range(2):
        for name in own:
            setattr(net[0], name, nn.Parameter(own[name].detach().clone()))
        net(X).square().sum().backward()
        for name, p in own.items():
            p.grad = getattr(net[0], name).grad
            setattr(net[0], name, p)
        optimizer.step()


def pruned_weights():
    net = net_of(3, 4)
    prune.l1_unstructured(net[0], "weight", 0.5)
    optimizer = sgd(net)
    prune.remove(net[0], "weight")
    train(net, optimizer, steps=0)
    saliency = net_of(3, 4)
    saliency(X).sum().backward()


@pytest.mark.parametrize(
    "program",
    [
        after_another_training,
        between_two_trainings,
        tied_shapes,
        a_head_that_rests,
        two_optimizers,
        an_average,
        a_model_trained_by_hand,
        a_model_trained_through_data,
        two_nets_against_each_other,
        the_judge_alone,
        a_shared_model,
        a_master_copy,
        a_new_optimizer,
        a_group_is_added,
        a_head_that_stands_still,
        steps_of_meta_learning,
        pruned_weights,
    ],
)
def test_parameters_that_no_optimizer_holds_and_that_replace_none(program):
    with pullback.watch() as seen:
        program()
    assert old_of(seen) == late_of(seen) == []


# --- parameters that came after the optimizer -----------------------------------------

LATE = "added-after-the-optimizer"


class Adapted(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base
        self.A = nn.Parameter(torch.ones(1, base.in_features))
        self.B = nn.Parameter(torch.ones(base.out_features, 1))

    def forward(self, x):
        return self.base(x) + x @ self.A.T @ self.B.T


def adapt(net):
    for i, layer in enumerate(net):
        net[i] = Adapted(layer)


def late_of(seen):
    assert seen.unseen == ()
    assert old_of(seen) == []
    return [f for f in seen if f.rule == LATE]


@pytest.mark.parametrize("frozen", [True, False])
def test_adapters_that_came_after_the_optimizer(frozen):
    with pullback.watch() as seen:
        net = net_of(3, 4, 4).requires_grad_(not frozen)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)  # made here
        adapt(net)
        train(net, optimizer)
    (finding,) = late_of(seen)
    assert finding.message.startswith(
        "No optimizer holds 0.A, 0.B, 1.A, 1.B of Sequential:"
    )
    assert at(finding.site) == here("made here")


def test_adapters_that_came_before_the_block_on_what_is_frozen():
    net = net_of(3, 4).requires_grad_(False)
    optimizer = sgd(net)
    adapt(net)
    with pullback.watch() as seen:
        train(net, optimizer)
    (finding,) = late_of(seen)
    assert "SGD holds what is frozen" in finding.message


def test_a_network_that_grows_while_it_trains():
    net = net_of(3, 4)
    optimizer = sgd(net)
    with pullback.watch() as seen:
        train(net, optimizer)
        adapt(net)
        train(net, optimizer)
    (finding,) = late_of(seen)
    assert "0.A, 0.B" in finding.message


def adapters_first():
    net = net_of(3, 4, 4)
    adapt(net)
    train(net, sgd(net))


def adapters_in_a_group():
    net = net_of(3, 4)
    optimizer = sgd(net)
    adapt(net)
    optimizer.add_param_group({"params": [net[0].A, net[0].B]})
    train(net, optimizer)


def adapters_with_an_optimizer_of_their_own():
    net = net_of(3, 4)
    optimizer = sgd(net)
    adapt(net)
    train(net, optimizer, torch.optim.SGD([net[0].A, net[0].B], lr=0.1))


def adapters_whose_optimizer_waits():
    net = net_of(3, 4)
    optimizer = sgd(net)
    adapt(net)
    later = torch.optim.SGD([net[0].A, net[0].B], lr=0.1)
    train(net, optimizer)
    return later


def adapters_that_are_frozen():
    net = net_of(3, 4)
    optimizer = sgd(net)
    adapt(net)
    net[0].A.requires_grad_(False)
    net[0].B.requires_grad_(False)
    train(net, optimizer)


def adapters_by_hand():
    net = net_of(3, 4)
    optimizer = sgd(net)
    adapt(net)
    for _ in range(2):
        train(net, optimizer, steps=1)
        with torch.no_grad():
            net[0].A -= 0.1 * net[0].A.grad
        net[0].B.data = net[0].B.data - 0.1 * net[0].B.grad


def adapters_whose_optimizer_was_replaced():
    net = net_of(3, 4)
    optimizer = sgd(net)
    adapt(net)
    train(net, optimizer)
    train(net, sgd(net))


def a_part_that_is_not_trained():
    """It was there before the optimizer was made, which holds another part alone."""
    net = net_of(3, 4, 4)
    train(net, sgd(net[0]))
    train(net, sgd(net[1]))


def an_average_inside():
    net = net_of(3, 3)
    optimizer = sgd(net)
    net.append(copy.deepcopy(net[0]))
    for _ in range(3):
        train(net, optimizer, steps=1)
        with torch.no_grad():
            for p, q in zip(net[1].parameters(), net[0].parameters(), strict=True):
                p.lerp_(q, 0.1)


@pytest.mark.parametrize(
    "program",
    [
        adapters_first,
        adapters_in_a_group,
        adapters_with_an_optimizer_of_their_own,
        adapters_whose_optimizer_waits,
        adapters_that_are_frozen,
        adapters_by_hand,
        adapters_whose_optimizer_was_replaced,
        a_part_that_is_not_trained,
        an_average_inside,
    ],
)
def test_what_came_late_and_is_right(program):
    with pullback.watch() as seen:
        held = program()  # an optimizer that waits is there when the block ends
        gc.collect()
    assert late_of(seen) == []
    del held


# --- a list that hides layers ---------------------------------------------------------


class Unregistered(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = [nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2)) for _ in range(2)]

    def forward(self, x):
        for block in self.blocks:
            x = block(x)  # called here
        return x


def test_of_what_a_list_hides_the_blocks_alone_are_named():
    with pullback.watch() as seen:
        Unregistered()(torch.ones(1, 2)).square().sum().backward()
    (finding,) = seen
    assert "calls a Sequential" in finding.message
    assert at(finding.site) == here("called here")


@pytest.mark.parametrize("change", [new_head, head_of_other_classes, new_weight])
def test_a_parameter_that_is_replaced_is_one_finding(change):
    with pullback.watch() as seen:
        net = net_of(3, 4, 4)
        optimizer = sgd(net)
        change(net)
        train(net, optimizer)
    assert [finding.rule for finding in seen] == [RULE]
    assert seen.why("1.weight").startswith("It got a gradient, 2 times")
    assert "got no gradient" in seen.why("1.weight (the old one)")
    with pullback.watch(without=[RULE]) as seen:
        net = net_of(3, 4, 4)
        optimizer = sgd(net)
        change(net)
        train(net, optimizer)
    assert [finding.rule for finding in seen] == ["no-gradient"]
    assert seen[0].message.startswith("1.weight (the old one)")


# --- requires_grad of a module --------------------------------------------------------

FLAG = "requires-grad-of-a-module"


def flags_of(seen):
    """Return the lines on which the attribute is said to have no effect."""
    assert seen.unseen == ()
    return [at(f.site) for f in seen if f.rule == FLAG]


def set_flag(module, value):
    module.requires_grad = value  # the attribute


def test_the_line_that_sets_requires_grad_of_a_module_is_named():
    net = net_of(3, 4, 2)
    net[0].requires_grad_(False)
    with pullback.watch() as seen:
        set_flag(net[0], True)
        train(net, sgd(net))
    assert flags_of(seen) == [here("the attribute")]
    assert "0.weight, 0.bias stay frozen" in seen[0].message
    assert "requires_grad_(True)" in seen[0].fix
    net = net_of(3, 4, 2)
    with pullback.watch() as seen:
        net[1].requires_grad = False  # on a part
        train(net, sgd(net))
    assert flags_of(seen) == [here("on a part")]
    assert "1.weight, 1.bias go on to get gradients" in seen[0].message


def test_printing_it_is_no_use_of_it():
    net = net_of(3, 4, 2)
    with pullback.watch() as seen:
        net.requires_grad = False  # then printed
        assert str(net.requires_grad) == "False"
        train(net, sgd(net))
    assert flags_of(seen) == [here("then printed")]


def test_what_was_set_before_the_block_is_named_where_the_module_is_called():
    net = net_of(3, 4, 2)
    set_flag(net[0].requires_grad_(False), True)
    with pullback.watch() as seen:
        for _ in range(2):
            net(X).sum().backward()  # called
    assert flags_of(seen) == [here("called")]
    net[0].bias.requires_grad = True  # so that it may be meant
    with pullback.watch() as seen:
        train(net)
    assert flags_of(seen) == []


class Optional(nn.Module):
    """A module with an option of this name, which it reads."""

    def __init__(self, requires_grad, read=True):
        super().__init__()
        self.requires_grad = requires_grad
        self.layer, self.read = nn.Linear(3, 2), read

    def forward(self, x):
        if self.read:
            x = x.clone().requires_grad_(self.requires_grad)
        return self.layer(x)


class Derived(nn.Linear):
    """A module with a property of this name."""

    @property
    def requires_grad(self):
        return self.weight.requires_grad

    @requires_grad.setter
    def requires_grad(self, value):
        self.requires_grad_(value)


class Declared(nn.Linear):
    """A module with an attribute of its class of this name."""

    requires_grad = True


def read_inside():
    return Optional(False)


def read_inside_and_set_outside():
    net = Optional(True)
    net.requires_grad = False
    return net


def own_and_read_outside():
    net = Optional(False, read=False)
    return net if net.requires_grad in (False, True) else None


def own_property():
    net = Derived(3, 2)
    net.requires_grad = False
    net.bias.requires_grad = True
    return net


def declared_by_its_class():
    net = Declared(3, 2).requires_grad_(False)
    net.requires_grad = True
    net.bias.requires_grad = True
    return net


def own_parameter():
    net = net_of(3, 2)
    net.requires_grad = nn.Parameter(torch.ones(1))
    return net


def own_buffer():
    net = net_of(3, 2)
    net.register_buffer("requires_grad", torch.ones(1))
    return net


def agrees():
    net = net_of(3, 2)
    net.requires_grad = True
    net[0].bias.requires_grad = False  # later, on purpose
    return net


def made_to_agree_later():
    net = net_of(3, 4, 2)
    net.requires_grad = False
    for p in net.parameters():
        p.requires_grad = False
    net[1].requires_grad_(True)
    net.requires_grad = True
    return net.requires_grad_(True)


def taken_away():
    net = net_of(3, 2)
    net.requires_grad = False
    del net.requires_grad
    return net


def without_parameters():
    net = nn.Sequential(nn.Identity(), nn.Linear(3, 2))
    net[0].requires_grad = False
    return net


INNOCENT = [
    read_inside,
    read_inside_and_set_outside,
    own_property,
    declared_by_its_class,
    own_parameter,
    own_buffer,
    agrees,
    made_to_agree_later,
    taken_away,
    without_parameters,
]


@pytest.mark.parametrize("make", [*INNOCENT, own_and_read_outside])
def test_what_a_module_has_of_its_own_or_agrees_is_no_finding(make):
    with pullback.watch() as seen:
        net = make()
        train(net, sgd(net))
    assert flags_of(seen) == []


@pytest.mark.parametrize("make", INNOCENT)
def test_nor_is_what_it_had_before_the_block(make):
    net = make()
    with pullback.watch() as seen:
        train(net, sgd(net))
    assert flags_of(seen) == []


def test_a_module_that_is_not_trained_may_have_any_flag():
    teacher, net = net_of(3, 2), net_of(3, 2)
    optimizer = sgd(net)
    with pullback.watch() as seen:
        teacher.requires_grad = False
        with torch.no_grad():
            target = teacher(X)
        (net(X) - target).square().sum().backward()
        optimizer.step()
    assert flags_of(seen) == []


def test_modules_are_as_before_while_they_are_watched():
    net, names = nn.Linear(3, 2), dir(nn.Module)
    outside = [_error(of) for of in (nn.Module, net)]
    with pullback.watch(), pullback.watch():
        assert not hasattr(net, "requires_grad")
        inside = [_error(of) for of in (nn.Module, net)]
        with pytest.raises(AttributeError):
            del net.requires_grad
        net.requires_grad = "anything"
        assert vars(net)["requires_grad"] == net.requires_grad == "anything"
        copied = copy.deepcopy(net)
    assert inside == outside
    assert net.requires_grad == copied.requires_grad == "anything"
    assert dir(nn.Module) == names


def _error(of):
    with pytest.raises(AttributeError) as raised:
        _ = of.requires_grad
    return str(raised.value)
