"""What a live picture refuses: why, on which line of f; nothing of the caller's changes."""

import contextlib
import ctypes
import inspect
import io
import pickle
import random
import threading
import time

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import pullback
from pullback._torch import TorchDispatchMode

X = torch.tensor([1.0, 2.0, 3.0])
VALUE = r"f looks at a value \(if, float\(\), item\(\)\); one way for all x is needed"
SHAPE = "of this kind .its shape depends on values.; another operation is needed"
CHANCE = "draws random numbers; a function without them is needed"
REFUSED = {}


def refused(why, kind=NotImplementedError):
    """Say why a function is refused; its line is the one that ends on "here"."""

    def note(f):
        REFUSED[f.__name__] = f, kind, why
        return f

    return note


# ---------------------------------------------------------------- values


@refused(VALUE)
def branch(x):
    y = 2 * x
    if y.sum() > 0:  # here
        return y
    return -y


@refused(VALUE)
def loop(x):
    while x.norm() > 1:  # here
        x = x / 2
    return x


@refused(VALUE)
def check(x):
    assert (x > 0).all()  # here
    return x.log()


@refused(VALUE)
def smallest(x):
    return x * min(x)  # here


@refused(VALUE)
def item(x):
    largest = x.max().item()  # here
    return x / largest


@refused(VALUE)
def chosen(x):
    return x[int(x.argmax())] * x  # here


@refused(VALUE)
def length(x):
    return torch.arange(float(x[0]), 4.0) * x  # here


@refused(VALUE)
def text(x):
    return x * float(f"{x[0]:.1f}")  # here


@refused(r"looks at a value \(tolist\)")
def lists(x):
    return x * sum(x.tolist())  # here


@refused(r"looks at a value \(numpy\)")
def numpy(x):
    return x * torch.from_numpy(np.exp(x.detach().numpy()))  # here


@refused(r"looks at a value \(__array__\)")
def asarray(x):
    return x * float(np.asarray(x.detach()).sum())  # here


@refused(r"looks at a value \(__dlpack_device__\)")
def dlpack(x):
    return x * torch.from_dlpack(x.detach())  # here


@refused(r"looks at a value \(equal\)")
def equal(x):
    return x * torch.equal(x, x.abs())  # here


@refused("a page has no cond")
def cond(x):
    return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))  # here


if not hasattr(TorchDispatchMode, "supports_higher_order_operators"):
    del REFUSED["cond"]  # an older torch refuses it itself, in words of its own


# ---------------------------------------------------------------- shapes


@refused(f"index {SHAPE}")
def mask(x):
    return x[x > 0]  # here


@refused(f"nonzero {SHAPE}")
def nonzero(x):
    return x[x.nonzero()[:, 0]]  # here


@refused(f"_unique2 {SHAPE}")
def unique(x):
    return x.unique()  # here


# ---------------------------------------------------------------- random numbers


@refused(f"rand {CHANCE}")
def rand(x):
    return x * torch.rand(3)  # here


@refused(f"randn_like {CHANCE}")
def noise(x):
    return x + torch.randn_like(x)  # here


@refused(f"multinomial {CHANCE}")
def sample(x):
    return x[x.softmax(0).multinomial(2)]  # here


@refused(rf"{CHANCE} \(eval\(\) of a module turns dropout off\)")
def dropout(x):
    return F.dropout(x, 0.5)  # here


@refused(CHANCE)
def attention(x):
    q = x.reshape(1, 1, 3, 1)
    return F.scaled_dot_product_attention(q, q, q, dropout_p=0.5)  # here


# ---------------------------------------------------------------- operators, numbers


@refused("a page has no linalg_inv_ex; another operation is needed")
def inverse(x):
    return torch.linalg.inv(x.outer(x) + torch.eye(3))  # here


@refused("a page has no hardshrink_backward")
def backward_alone(x):
    y = x * 2
    return y + F.hardshrink(y)  # here


@refused(r"a page has no bitwise_and of this kind \(bits of integers\)")
def bits(x):
    return x * (x.long() & 1)  # here


@refused("_to_copy of this kind .numbers cut to torch.int32, which wraps; long.. is known")
def short_integers(x):
    return x.int() * x  # here


@refused("a page has no sub of this kind .torch.uint8 that may leave 0 to 255.")
def below_zero(x):
    return ((x > 0).to(torch.uint8) - 1) * x  # here


@refused("a page has no mul of this kind .torch.int64 that may leave -9007199254740992 to")
def large_integers(x):
    return (x.long() * 4611686018427387904) * x  # here


@refused("_to_copy rounds to half precision; float32 or float64 is needed")
def half(x):
    return x.half().float()  # here


@refused("_fft_r2c gives complex numbers; real ones are needed")
def complex_between(x):
    return torch.fft.rfft(x).abs()  # here


@refused("_to_sparse gives a sparse tensor; a dense one is needed")
def sparse(x):
    return x.clone().to_sparse().to_dense()  # here


@refused("takes a sparse tensor; a dense one is needed")
def sparse_matrix(x):
    return torch.sparse.mm(torch.eye(3).to_sparse(), x[:, None])  # here


@refused("f takes x of dtype torch.float32 alone; float64, in which a page computes")
def single(x):
    return SLIDING(x[None])  # here


SLIDING = nn.Conv1d(1, 1, 2)


# ---------------------------------------------------------------- size


@refused("720 operations, .* bytes when compressed; a page can carry 2048", ValueError)
def long(x):
    for _ in range(240):
        x = x.sin()  # here
    return x


@refused("bytes when compressed; a page can carry 2048", ValueError)
def wide(x):
    many = torch.cat([x] * 13 + [x[:1]])
    y = WEIGHTS @ many  # here
    return y.tanh()[:2]


WEIGHTS = torch.randn(40, 40, generator=torch.Generator().manual_seed(0))


@refused(r"mm of this kind \(a product of 1000000 numbers; up to 4096 are\)")
def matrix_product(x):
    a = x[0].expand(100, 100)
    return (a @ a).sum()  # here


# ---------------------------------------------------------------- x itself


@refused("f changed x in place; f must return a new tensor", RuntimeError)
def in_place(x):
    return x.mul_(2)  # here


@refused("f changed x in place", RuntimeError)
def in_place_in_a_view(x):
    x.view(-1)[0] = 0  # here
    return 2 * x


@refused("f changed x in place", RuntimeError)
def in_place_past_autograd(x):
    x.data.add_(1)  # here
    return 2 * x


# ---------------------------------------------------------------- rules of one's own


class Judging(torch.autograd.Function):
    """Looks at the cotangent."""

    @staticmethod
    def forward(ctx, x):
        """Double x."""
        return 2 * x

    @staticmethod
    def backward(ctx, v):
        """Look at v."""
        return 2 * v if v.sum() > 0 else v


@refused(VALUE + ".*: return 2 \\* v if v.sum")
def own_backward(x):
    return Judging.apply(x)


@refused(VALUE + ".*: y.register_hook")
def hook(x):
    y = 2 * x
    y.register_hook(lambda v: v if v.sum() > 0 else -v)
    return y


# ---------------------------------------------------------------- what comes out


@refused("f returned a tuple; one tensor is needed", TypeError)
def several(x):
    return x, 2 * x  # here


@refused("output of f has dtype torch.int64", TypeError)
def integers(x):
    return x.long()  # here


@refused(r"y = f\(x\) has dtype torch.complex64; a real floating point dtype", TypeError)
def complex_result(x):
    return x * 1j  # here


@refused(r"y = f\(x\) has shape \(15,\), 15 elements; 1 to 12 can be shown", ValueError)
def too_long(x):
    return torch.cat([x] * 5)  # here


@refused(r"f\(x\) does not depend on x; a function of x is needed", RuntimeError)
def detached(x):
    return 2 * x.detach()  # here


# ---------------------------------------------------------------- what else f depends on


@refused("f draws random numbers of Python's random; a function without them is needed")
def chance_of_python(x):
    y = 2 * x
    return y * random.random()  # here


@refused("f draws random numbers of Python's random")
def chance_that_agrees(x):
    factor = random.choice([3, 3])  # here
    return x * factor


@refused("f draws random numbers of numpy.random")
def chance_of_numpy(x):
    return x * float(np.random.rand())  # noqa: NPY002 - here


@refused("f draws random numbers of numpy.random")
def chance_of_numpy_that_agrees(x):
    return x * float(np.random.choice([3, 3]))  # noqa: NPY002 - here


@refused("f draws random numbers of GENERATOR")
def generator(x):
    return x * float(GENERATOR.random())  # here


@refused("f draws random numbers of DICE")
def dice(x):
    return x * DICE.choice([3, 3])  # here


GENERATOR, DICE = np.random.default_rng(0), random.Random(0)
LEGACY = np.random.mtrand._rand  # whose numbers np.random.rand draws


@refused("another result, .*, when f is called again", RuntimeError)
def counter(x):
    COUNTED.append(1)
    y = x.exp()
    return y * len(COUNTED)  # here


@refused("another result, .*, when f is called again", RuntimeError)
def longer_each_time(x):
    COUNTED.append(1)
    return torch.cat([x[:1]] * (1 + len(COUNTED) % 2))  # here


@refused("another result, .*, when f is called again", RuntimeError)
def clock(x):
    y = 2 * x
    return y + time.perf_counter_ns() % 1_000_000  # here


COUNTED = []


# ---------------------------------------------------------------- past all operations

READ = "f computes with numbers that it has read of x; one way for all x is needed"


@refused(READ)
def pickled(x):
    known = pickle.loads(pickle.dumps(x.detach()))
    return x * known  # here


@refused(READ)
def saved(x):
    file = io.BytesIO()
    torch.save(x.detach(), file)
    file.seek(0)
    return x * torch.load(file)  # here


@refused(READ)
def address(x):
    kind = {torch.float32: ctypes.c_float, torch.float64: ctypes.c_double}[x.dtype]
    first = kind.from_address(x.data_ptr()).value
    return x * first  # here


@refused(READ)
def thread(x):
    y = 2 * x
    found = []
    looks = threading.Thread(target=lambda: found.append(bool(x.detach().sum() > 0)))
    looks.start()
    looks.join()
    return y.sin() if found[0] else y.cos()  # here


# ---------------------------------------------------------------- float32 alone


@refused(r"f gives \[0.1, .*\] in torch.float32, and .* in float64, in which a page")
def left_over(x):
    y = 1 * x
    return torch.fmod(y, 0.3)  # here


@refused(r"in torch.float32, and \[1, 2, 3\] in float64, .*; with x.double\(\) both are")
def cancelled(x):
    y = x + 1e8
    z = y - 1e8  # here
    return 1 * z


# ---------------------------------------------------------------- what f catches


@refused(VALUE)
def branch_in_a_try(x):
    try:
        if x.sum() > 0:  # here
            return 2 * x
    except Exception:
        return x
    return -x


@refused(r"looks at a value \(numpy\)")
def numpy_in_a_try(x):
    try:
        factor = float(x.detach().numpy()[0])  # here
    except Exception:
        factor = 1.0
    return x * factor


@refused("f changed x in place", RuntimeError)
def in_place_in_a_try(x):
    with contextlib.suppress(RuntimeError):
        x.detach().add_(1)  # here
    return 2 * x


# ---------------------------------------------------------------- no derivative


class Forward(torch.autograd.Function):
    """Has no backward."""

    @staticmethod
    def forward(ctx, x):
        """Double x."""
        return 2 * x


@refused(r"f has no derivative: You must implement.*: return 2 \* x")
def without_backward(x):
    return Forward.apply(x)


@refused("f has no derivative: .*heaviside")
def heaviside(x):
    y = torch.heaviside(x, x)  # here
    return y + x


# ---------------------------------------------------------------- the sweep


def state(x, *modules):
    """Return what of the caller's could change."""
    tensors = [x, *(t for m in modules for t in m.state_dict(keep_vars=True).values())]
    return {
        "values": [t.tolist() for t in tensors],
        "grads": [None if t.grad is None else t.grad.tolist() for t in tensors],
        "flags": [(t.requires_grad, t._version if t is x else 0) for t in tensors],
        "training": [m.training for module in modules for m in module.modules()],
        "random numbers": torch.get_rng_state().tolist(),
        "others": repr([random.getstate(), LEGACY.__getstate__(), DICE.getstate()]),
        "generator": GENERATOR.bit_generator.state,
        "modes": (torch.get_default_dtype(), torch.is_grad_enabled()),
    }


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("graph", [False, True], ids=["of a leaf", "with a graph"])
def test_refused(name, graph):
    f, kind, why = REFUSED[name]
    x = X.clone().requires_grad_(not graph)
    x.grad = torch.full((3,), 7.0)
    before = state(x)
    with pytest.raises(kind, match=why) as caught:
        pullback.live(f, x, graph=graph)
    assert state(x) == before
    lines, start = inspect.getsourcelines(f)
    for number, line in enumerate(lines, start):
        code, here, _ = line.partition("here\n")
        if here:
            code = code.partition("  #")[0].strip()
            told = f"line {number} of test_live_refusals.py: {code}"
            assert told in str(caught.value)


def test_every_place_is_looked_for():
    """Those without one have a line of their own, that of the rule."""
    without = [n for n, (f, *_) in REFUSED.items() if "here\n" not in inspect.getsource(f)]
    assert without == ["own_backward", "hook", "without_backward"]


def test_integers_and_complex_numbers_as_x():
    for x in (torch.arange(3), torch.ones(3, dtype=torch.complex64)):
        before = state(x)
        with pytest.raises(TypeError, match="floating point"):
            pullback.live(torch.square, x)
        assert state(x) == before


def test_a_module_without_a_line_is_named():
    net = nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.25))
    before = state(X, net)
    with pytest.raises(NotImplementedError, match=rf"{CHANCE}.*Dropout\(p=0.25.*\) of f"):
        pullback.live(net, X)
    assert state(X, net) == before
    assert pullback.live(net.eval(), X).y.shape == (2,)


# ---------------------------------------------------------------- what need not be refused


class Normed(nn.Module):
    """BatchNorm of three samples, as f or within f."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(2)

    def forward(self, x):
        """Take the samples from x."""
        return self.norm(x[:, None] * torch.tensor([1.0, -2.0])).pow(3).flatten()


def test_a_module_with_too_long_a_result_is_named():
    with pytest.raises(ValueError, match=r"13 elements; .*; Linear\(\) of f"):
        pullback.live(nn.Linear(3, 13), X)


def test_what_f_raises_itself_comes_through():
    def f(x):
        raise ValueError("mine")

    with pytest.raises(ValueError, match=r"^mine$"):
        pullback.live(f, X)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("within", [False, True], ids=["f", "within f"])
def test_batch_norm_in_training_keeps_its_statistics(dtype, within):
    norm = Normed().to(dtype)
    x = X.to(dtype)
    before = state(x, norm)
    picture = pullback.live((lambda x: norm(x)) if within else norm, x, graph=True)
    picture.answer(2 * x, torch.ones(6))
    assert state(x, norm) == before
    reference = Normed().to(dtype)
    with torch.no_grad():
        y = reference(x)
    assert torch.equal(picture.y, y)
    assert reference.norm.num_batches_tracked == 1, "what a call of one's own does"


def test_spectral_norm_keeps_its_vectors():
    """It takes a step of the power method in each call in training."""
    net = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 2)).double()
    before = state(X, net)
    pullback.live(lambda x: net(x), X.double())
    assert state(X, net) == before


def test_what_f_makes_and_writes_is_its_own():
    """A buffer that f makes keeps what f wrote, also where backward reads it."""

    def f(x):
        made = torch.tensor([0.0, 0.0, 0.0])
        made[:2] = x[:2]
        other = torch.zeros(3).copy_(x)
        return made * made + other * other

    shown = pullback.live(f, X)
    assert shown.y.tolist() == [2.0, 8.0, 9.0]
    assert shown.result.tolist() == [4.0, 8.0, 6.0]


def test_a_buffer_that_f_returns_is_shown():
    """And given back as it was."""
    buffer, single, x = torch.zeros(3).double(), torch.zeros(3), X.double()
    assert pullback.live(lambda x: buffer.detach().copy_(x), x).y.tolist() == x.tolist()
    assert buffer.tolist() == [0.0] * 3
    with pytest.raises(NotImplementedError, match=r"float64, in which a page computes"):
        pullback.live(lambda x: single.copy_(x), X)
    assert single.tolist() == [0.0] * 3
