"""Each door to what torch keeps private, open, and closed where there is another way."""

import ast
import gc
import inspect
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
import torch
from functions import OldSquare
from torch.autograd.graph import get_gradient_edge

import pullback
from pullback import _torch

close = torch.testing.assert_close
PACKAGE = Path(pullback.__file__).parent
X = torch.tensor([1.0, 2.0, 3.0])
OWN = {"self", "cls"}  # whose private names are one's own
NAMED_TUPLE = {"_replace", "_asdict", "_fields"}  # public, by the documentation of Python


def private_names(path):
    """Return the private names of others that a module reads."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute):
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            if owner not in OWN and node.attr not in NAMED_TUPLE:
                found.append(node.attr)
        elif isinstance(node, ast.ImportFrom) and not node.module.startswith("pullback"):
            found += [*node.module.split("."), *(name.name for name in node.names)]
        elif isinstance(node, ast.Import):
            found += [part for name in node.names for part in name.name.split(".")]
    return {n for n in found if n.startswith("_") and not n.startswith("__")}


def test_one_module_opens_doors():
    modules = [p for p in PACKAGE.rglob("*.py") if "_messages" not in p.parts]
    found = {p.name: names for p in modules if (names := private_names(p))}
    assert {"_C", "_engine_run_backward", "_version"} <= found.pop("_torch.py")
    assert found == {}


def test_every_door_is_listed_and_tested():
    here = Path(__file__).read_text(encoding="utf-8")
    listed = set(_torch.__all__)
    doors = {name for name, door in vars(_torch).items() if is_own(name, door)}
    assert doors <= listed
    assert not [name for name in listed if f"_torch.{name}" not in here]


def is_own(name, door):
    return not name.startswith("_") and getattr(door, "__module__", "") == _torch.__name__


@pytest.fixture(params=["open", "closed"])
def engine(request, monkeypatch):
    if request.param == "closed":
        monkeypatch.setattr(_torch, "_run_engine", None)


@pytest.mark.usefixtures("engine")
def test_vector_jacobian():
    x, unused = X.clone().requires_grad_(), X.clone().requires_grad_()
    y, v = x**3, torch.tensor([1.0, 0.0, 2.0])
    for _ in range(2):  # the graph stays
        product, nothing = _torch.vector_jacobian([y], [v], [x, unused], False)
        close(product, 3 * X**2 * v)
        assert nothing is None
        assert not product.requires_grad
    assert _torch.vector_jacobian([y], [v], [x], True)[0].requires_grad
    assert x.grad is None


@pytest.fixture(params=["open", "closed"])
def levels(request, monkeypatch):
    if request.param == "closed":
        monkeypatch.setattr(_torch, "LEVELS", ("_a_name_that_torch_has_not",))


@pytest.mark.usefixtures("levels")
def test_apply_to_rows():
    seeds = torch.eye(3)
    weights, squares = _torch.apply_to_rows(lambda v: (v @ X, v**2), [seeds])
    close(weights, X)
    close(squares, seeds)
    rows = _torch.apply_to_rows(lambda v: (v + torch.rand(3),), [seeds])[0] - seeds
    close(rows[0], rows[1])  # one draw for all


@pytest.mark.usefixtures("levels", "engine")
def test_the_jacobian_by_either_door():
    close(pullback.jacobian(torch.sin, X), X.cos().diag())
    with pytest.raises(RuntimeError, match="vmap"):
        _torch.apply_to_rows(lambda v: (v.sum().item(),), [torch.eye(2)])
    assert not _torch.in_transform()  # an error leaves nothing on


@pytest.fixture(params=["open", "closed"])
def nesting(request, monkeypatch):
    if request.param == "closed":
        monkeypatch.setattr(_torch, "NESTING", "A_NAME_THAT_TORCH_HAS_NOT")


@pytest.mark.usefixtures("nesting")
def test_the_level_of_forward_mode():
    def columns(x):
        with _torch.forward_level(), _torch.forward_level():
            return torch.func.jacfwd(lambda x: x**2)(x).diag()

    with ThreadPoolExecutor(4) as pool:
        xs = [X + i for i in range(20)]
        close(list(pool.map(columns, xs)), [2 * x for x in xs])
    with pytest.raises(ZeroDivisionError), _torch.forward_level():
        raise ZeroDivisionError
    with torch.autograd.forward_ad.dual_level():  # which asks that no other is open
        pass


def test_the_level_of_forward_mode_stays_while_a_thread_is_on_it():
    inside, left, found = threading.Event(), threading.Event(), []

    def slow(x):
        inside.set()
        assert left.wait(timeout=60)
        return x**2

    def other():
        with _torch.forward_level():
            found.append(torch.func.jvp(slow, (X,), (X,))[1])

    thread = threading.Thread(target=other)
    with _torch.forward_level():
        thread.start()
        assert inside.wait(timeout=60)
        torch.func.jvp(torch.sin, (X,), (X,))
    left.set()
    thread.join(timeout=60)
    close(found, [2 * X**2])


def test_in_transform_and_unwrap():
    seen = []

    def f(x):
        seen.append((_torch.in_transform(), _torch.unwrap(x)))
        return x.sum()

    torch.func.vmap(torch.func.grad(f))(torch.ones(2, 3))
    ((inside, plain),) = seen
    assert inside
    assert plain.tolist() == [[1, 1, 1]] * 2
    assert not _torch.in_transform()
    assert _torch.unwrap(X) is X


@pytest.mark.parametrize("door", ["open", "closed"])
def test_node_number(door, monkeypatch):
    if door == "closed":
        monkeypatch.delattr(torch._C._autograd, "_get_sequence_nr")
        monkeypatch.delattr(torch._C, "_current_autograd_node")
    x, seen = X.clone().requires_grad_(), []
    y = x.sin()
    made = _torch.node_number()
    assert made == (-1 if door == "closed" else _torch.number_of(y.grad_fn))
    z = y * 2
    later = _torch.node_number()
    y.register_hook(lambda v: seen.append(_torch.node_number()))
    z.sum().backward()
    assert (made < later, seen == [made]) == (
        (True, True) if door == "open" else (False, True)
    )


def test_is_compiled():
    layer = torch.nn.Linear(1, 1)
    assert not _torch.is_compiled(layer)
    assert _torch.is_compiled(torch.compile(layer, backend="eager"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scripting is deprecated
        assert _torch.is_compiled(torch.jit.script(layer))


def test_sees_operations():
    assert not _torch.sees_operations()
    with _torch.TorchDispatchMode():
        assert _torch.sees_operations()


def test_what_was_compiled_stays_so():
    f = torch.compile(lambda x: (x.sin() * x.sum()).cos(), backend="aot_eager")
    x = X.clone().requires_grad_()
    f(x).sum().backward()  # as in training: memory is not kept for a second backward
    assert _torch.has_compiler()
    assert _torch.has_compiled()

    def is_compiled():
        return type(f(x).grad_fn).__name__ == _torch.COMPILED

    assert is_compiled()
    with _torch.uncompiled():
        assert not is_compiled()
    with pullback.watch():
        assert not is_compiled()
    asked = [
        pullback.jacobian(f, X),
        pullback.jacobian(f, X, mode="forward"),
        pullback.sparsity(f, X).jacobian(f, X).to_dense(),
    ]
    for J in asked:
        assert is_compiled()
        close(J, torch.func.jacrev(lambda x: (x.sin() * x.sum()).cos())(X))
    assert pullback.check(f, X).ok
    assert pullback.mixing(f, X)
    assert pullback.explain(f, X).mixes
    assert len(pullback.hessian(lambda x: f(x).sum(), X)) == len(X)
    pullback.live(f, X)
    assert is_compiled()


def test_what_was_compiled_and_computed_says_what_to_do():
    f = torch.compile(lambda x: x.sin().cos().exp().sin() * x, backend="aot_eager")
    x = X.clone().requires_grad_()
    f(x).sum().backward()
    y = f(x)
    for ask in (
        lambda: pullback.jacobian(y, x),
        lambda: pullback.jacobian(y, x, chunk_size=1),
        lambda: pullback.vjp(y, x, v=X),
        lambda: pullback.hessian(y.sum(), x),
    ):
        with pytest.raises(RuntimeError, match="in place of y, as in pullback"):
            ask()
    with torch.compiler.set_stance("force_eager"):
        eager = f(x)
    close(pullback.jacobian(eager, x), pullback.jacobian(f, x))
    before = x.grad.clone()
    y.sum().backward()  # which is still there
    close(x.grad, 2 * before)


def test_cond_under_modes_and_transforms_leaves_nothing_broken():
    def f(x):
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))

    for _ in range(2):
        assert pullback.check(f, X).ok
        with pytest.raises(RuntimeError, match=r"f runs torch\.cond"):
            pullback.sparsity(f, X)
        with pytest.raises(RuntimeError, match=r"f runs torch\.cond.*no rule"):
            pullback.jacobian(f, X, mode="forward")
        close(pullback.jacobian(f, X), X.cos().diag())


def test_accumulated_leaf():
    x = X.clone().requires_grad_()
    assert _torch.accumulated_leaf(get_gradient_edge(x).node) is x
    assert _torch.accumulated_leaf(x.sin().grad_fn) is None


def test_product_of():
    x = torch.ones(2, 3, requires_grad=True)
    y = x.prod(-1)
    kept, result, dim, keeps = _torch.product_of(y.grad_fn)
    assert (dim, keeps) == (-1, False)
    close(kept.detach(), torch.ones(2, 3))
    close(result.detach(), torch.ones(2))
    assert _torch.product_of(x.prod().grad_fn)[2:] == (None, True)
    assert _torch.product_of(x.prod(0, keepdim=True).grad_fn)[2:] == (0, True)
    assert _torch.product_of(x.sum().grad_fn) is None


def test_saved_tensors_of():
    x = X.clone().requires_grad_()
    (kept,) = _torch.saved_tensors_of(x.sin().grad_fn)
    close(kept.detach(), X)
    parts = torch.stack([x, x]).index_put((torch.tensor([0]),), x)
    assert len(_torch.saved_tensors_of(parts.grad_fn)) == 1  # an index is a tuple of them
    assert _torch.saved_tensors_of((x + 1).grad_fn) == []
    y = x.sin()
    y.sum().backward()
    assert _torch.saved_tensors_of(y.grad_fn) == []  # freed


class NothingToSee:
    """A node of a release that shows saved tensors unpacked alone."""

    _raw_saved_self = object()
    _raw_saved_others = (object(), object())
    _raw_saved_none = object()
    _saved_self = X
    _saved_others = (X, X)
    _saved_none = None


def test_saved_tensors_of_an_older_release():
    assert len(_torch.saved_tensors_of(NothingToSee())) == 3


def test_cotangent_bytes():
    x = torch.ones(2, 3, dtype=torch.float64, requires_grad=True)
    assert _torch.cotangent_bytes((x * 2).grad_fn) == [48]
    assert _torch.cotangent_bytes(x.unbind()[0].grad_fn) == [24, 24]
    assert _torch.cotangent_bytes(NothingToSee()) == []


def test_hooks():
    x = X.clone().requires_grad_()
    y = x * 2
    y.grad_fn.register_hook(lambda *_: None)
    assert _torch.hook_count(y.grad_fn.register_hook(lambda *_: None)) == 2
    assert _torch.hook_count(object()) == 1
    assert _torch.tensor_hooks(x) == (0, 0)
    x.register_hook(lambda g: g)
    x.register_post_accumulate_grad_hook(lambda p: None)
    assert _torch.tensor_hooks(x) == (1, 1)
    assert _torch.tensor_hooks(object()) == (0, 0)


def test_hooks_of():
    x, layer = X.clone().requires_grad_(), torch.nn.Linear(1, 1)
    assert _torch.hooks_of(x) == _torch.hooks_of(layer) == []

    def hook(*_):
        return None

    x.register_hook(hook)
    x.register_post_accumulate_grad_hook(print)
    assert _torch.hooks_of(x) == [hook, print]
    layer.register_full_backward_hook(print)
    layer.register_forward_hook(hook)
    assert _torch.hooks_of(layer) == [hook, print]
    assert _torch.hooks_of(object()) == []


def test_version():
    x = X.clone()
    before = _torch.version(x)
    x.add_(1)
    assert _torch.version(x) == before + 1
    with torch.inference_mode():
        assert _torch.version(torch.ones(2)) == 0


def test_storage_key():
    x = X.clone()
    assert _torch.storage_key(x[1:]) == _torch.storage_key(x) != _torch.storage_key(X)
    empty = [torch.empty(3, device="meta") for _ in range(2)]
    assert len({_torch.storage_key(t) for t in empty}) == 2


class Asked(torch.Tensor):
    functions = ()

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.functions += (func,)
        return super().__torch_function__(func, types, args, kwargs or {})


@pytest.mark.parametrize("referring", [True, False])
def test_hooked_tensors(monkeypatch, referring):
    if not referring:  # as in an older release
        monkeypatch.setattr(gc, "get_referrers", lambda *kinds: [])
    plain = [X.clone(), torch.nn.Parameter(X), X.clone().as_subclass(Asked)]
    leaf, waiting, inner = (t.detach().clone().requires_grad_() for t in plain)
    handle = leaf.register_hook(print)
    waiting.register_post_accumulate_grad_hook(print)
    inner = inner * 2
    inner.retain_grad()
    gc.collect()
    Asked.functions = ()
    found = {id(t) for t in _torch.hooked_tensors()}
    assert Asked.functions == ()
    assert {id(leaf), id(waiting), id(inner)} <= found
    assert not found & {id(t) for t in plain}
    handle.remove()
    assert id(leaf) not in {id(t) for t in _torch.hooked_tensors()}


def test_optimizers_made():
    init, told, outer = torch.optim.Optimizer.__init__, [], []
    with _torch.optimizers_made(outer.append):
        with _torch.optimizers_made(told.append):
            first = torch.optim.SGD([torch.nn.Parameter(X)], lr=0.1)
        second = torch.optim.Adam([torch.nn.Parameter(X)])
    assert torch.optim.Optimizer.__init__ is init
    assert (told, outer) == ([first], [first, second])


def test_a_constructor_of_optimizers_that_a_program_has_replaced(monkeypatch):
    init, seen, told = torch.optim.Optimizer.__init__, [], []

    def own(self, *args, **kwargs):
        init(self, *args, **kwargs)
        seen.append(self)

    monkeypatch.setattr(torch.optim.Optimizer, "__init__", own)
    with _torch.optimizers_made(told.append):
        made = torch.optim.SGD([torch.nn.Parameter(X)], lr=0.1)
    assert seen == told == [made]
    assert torch.optim.Optimizer.__init__ is own


def test_operations():
    add, add_ = torch.ops.aten.add.Tensor, torch.ops.aten.add_.Tensor
    assert [a.name for a in _torch.schema(add).arguments] == ["self", "other", "alpha"]
    assert _torch.schema(add_).is_mutable
    assert _torch.variant(add_, "add") is add
    assert _torch.variant(add_, "there_is_no_such_operation") is None
    parts = _torch.decomposition(torch.ops.aten.addcmul.default)
    close(parts(X, X, X, value=2), X + 2 * X * X)
    assert _torch.decomposition(add_) is None or callable(_torch.decomposition(add_))


class Twice(torch.autograd.Function):
    seen = asked = ()

    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, v):
        node = _torch.running_node()
        Twice.seen = (
            _torch.running_backward(),
            _torch.function_of(node),
            _torch.shapes_received(node),
            _torch.stack_of_backward(threading.get_ident()),
        )
        Twice.asked = _torch.asked_by(Twice.seen[-1])
        return 2 * v


def test_what_runs_now():
    assert _torch.running_backward() == -1
    assert _torch.running_node() is None
    assert _torch.stack_of_backward(threading.get_ident()) is None
    x = X.clone().requires_grad_()
    before = _torch.nodes_made()
    y = Twice.apply(x)
    assert _torch.number_of(y.grad_fn) == before == _torch.nodes_made() - 1
    assert _torch.number_of(get_gradient_edge(x).node) > 2**60
    z = y.sum()
    z.backward()
    run, function, shapes, frame = Twice.seen
    assert (function, shapes) == (Twice, [(3,)])
    assert frame.f_code.co_name == "_engine_run_backward"
    assert _torch.calls_engine(frame.f_code)
    asked, Twice.asked, Twice.seen = Twice.asked, (), ()
    assert [root is z for root in asked.roots] == [True]
    assert [v.tolist() for v in asked.cotangents] == [1]
    assert asked[2:] == (None, (), False, True)
    other = inspect.currentframe()
    assert not _torch.calls_engine(other.f_code)
    nothing = _torch.Asked((), (), None, (), False, False)
    assert _torch.asked_by(other) == nothing
    assert run >= 0
    assert _torch.function_of(x.sin().grad_fn) is None
    assert _torch.shapes_received(NothingToSee()) == []
    assert _torch.shapes_sent(y.grad_fn) == [(3,)]
    assert _torch.shapes_sent(y.sum().grad_fn) == [(3,)]
    assert _torch.shapes_sent((y * 2).sum(0).grad_fn) == [(3,)]
    assert _torch.shapes_sent(torch.stack([x, x[0].expand(3)]).grad_fn) == [(3,), (3,)]


def test_open_sizes():
    seen = []

    class Look(_torch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.extend(map(_torch.has_open_sizes, args))
            return func(*args, **kwargs or {})

    class Module(torch.nn.Module):
        def forward(self, x):
            return x.sin()

    with Look():
        Module()(X)
    assert seen == [False]
    open_size = {"x": {0: torch.export.Dim("n", min=2)}}
    exported = torch.export.export(Module(), (X,), dynamic_shapes=open_size)
    found = [node.meta["val"] for node in exported.graph.nodes if "val" in node.meta]
    assert found
    assert all(map(_torch.has_open_sizes, found))


def test_what_stands_before_the_engine(monkeypatch):
    def call(*args, **kwargs):
        given.append(args[0])
        return before(*args, **kwargs)

    given, y = [], (X.clone().requires_grad_() * 2).sum()
    before = _torch.put_engine(call)
    y.backward()
    assert _torch.put_engine(before) is call
    assert [root is y for (root,) in given] == [True]
    monkeypatch.delattr(torch.autograd, "_engine_run_backward")
    assert _torch.put_engine(call) is call
    assert not hasattr(torch.autograd, "_engine_run_backward")


def test_what_has_no_second_derivative():
    class Marked(Twice):
        backward = staticmethod(torch.autograd.function.once_differentiable(print))

    class ByVjp(Twice):
        vjp = Marked.backward

    x = X.clone().requires_grad_()
    assert _torch.cut_by(x.sin().grad_fn) == _torch.cut_by(Twice.apply(x).grad_fn) == ""
    for function in (Marked, ByVjp):
        said = _torch.cut_by(function.apply(x).grad_fn)
        assert said == f"{function.__qualname__} is marked with once_differentiable"


def test_what_a_gradient_is_asked_for():
    x, v = X.clone().requires_grad_(), X.clone()
    y = Twice.apply(x)
    torch.autograd.grad(y, x, v, create_graph=True)
    asked, Twice.asked, Twice.seen = Twice.asked, (), ()
    found = (*asked.roots, *asked.cotangents, asked.given, *asked.inputs)
    assert [*map(id, found)] == [id(y), id(v), id(v), id(x)]
    assert (asked.create_graph, asked.accumulates) == (True, False)


def test_part_of_torch():
    assert _torch.part_of_torch(torch.nn.functional.__file__) == "nn/functional.py"
    assert _torch.part_of_torch(torch.__file__) == "__init__.py"
    assert _torch.part_of_torch(_torch.__file__) == ""
    beside = Path(torch.__file__).parent.with_name("torchvision") / "__init__.py"
    assert _torch.part_of_torch(str(beside)) == ""


def at_operation(name, look, f, *args):
    """Return what ``look`` gives whenever f runs the operation of a name."""
    found = []

    class Look(_torch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if _torch.schema(func).name == f"aten::{name}":
                found.append(look())
            return func(*args, **kwargs or {})

    with Look():
        f(*args)
    return found


def test_frames_of_torch():
    layers = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.ReLU())
    name, part = "relu", "nn/modules/container.py"
    (names,) = at_operation(name, lambda: _torch.functions_of("nn/"), layers, X[:1])
    assert names[:2] == ["relu", "forward"]  # of nn.functional, and of the module
    assert _torch.functions_of("nn/") == []
    (frames,) = at_operation(name, lambda: [*_torch.frames_of(part)], layers, X[:1])
    assert [frame.f_locals["self"] for frame in frames] == [layers]
    assert [*_torch.frames_of(part, frames[0])] == frames
    assert [*_torch.frames_of(part, frames[0].f_back)] == []


def test_given_to_loss():
    a, b = X[:, None], X.clone()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the shapes
        found = at_operation(
            "expand", _torch.given_to_loss, torch.nn.functional.mse_loss, a, b
        )
    assert len(found[0]) == 2
    assert found[0][0] is a
    assert found[0][1] is b
    assert at_operation("relu", _torch.given_to_loss, torch.nn.functional.relu, a) == [[]]


def test_given_to_clip():
    x = X.clone().requires_grad_()
    for given in ([x], x, iter([x])):
        x.grad = torch.ones_like(x)
        clip = torch.nn.utils.clip_grad_norm_
        found = at_operation("reciprocal", _torch.given_to_clip, clip, given, 1.0)
        assert [t is x for t in found[0]] == [True]
    found = at_operation("relu", _torch.given_to_clip, torch.nn.functional.relu, X)
    assert found == [[]]


def test_given_to_kl_div():
    a, b = X.softmax(0), X.flip(0).softmax(0)
    kl_div = torch.nn.functional.kl_div
    for given in ((a, b), (a,)):  # by place, and the target by name
        names = {} if len(given) == 2 else {"target": b}
        found = at_operation(
            "xlogy", _torch.given_to_kl_div, partial(kl_div, **names), *given
        )
        assert [t is a for t in found] == [True]
    assert at_operation("xlogy", _torch.given_to_kl_div, torch.xlogy, a, b) == [None]


def test_gradients_of_functional():
    def of(f, *args):
        return at_operation("zeros_like", _torch.gradients_of_functional, f, *args)

    functional, constant = torch.autograd.functional, torch.ones(1, requires_grad=True)
    assert of(functional.jacobian, lambda x: constant * 2, X) == [(None,)]
    assert of(functional.vjp, lambda x: constant.sum(), X) == [(None,)]
    assert of(functional.hessian, lambda x: x.sum(), X) == [()] * 3
    assert of(torch.zeros_like, X) == [()]


def test_the_frame_of_a_backward_in_another_thread():
    found = []

    def look(v):
        with ThreadPoolExecutor() as pool:  # as the engine does it on a device
            found.append(pool.submit(_torch.stack_of_backward, here).result())

    here, x = threading.get_ident(), X.clone().requires_grad_()
    x.register_hook(look)
    x.sum().backward()
    assert found[0].f_code.co_name == "_engine_run_backward"


def test_edited_tensors_of():
    x = X.clone().requires_grad_()
    y = x.exp()
    assert _torch.edited_tensors_of(y.grad_fn) == []
    node = y.grad_fn
    y += 1
    ((name, kept),) = _torch.edited_tensors_of(node)
    assert name == "result"
    assert kept is None or _torch.storage_key(kept) == _torch.storage_key(y)
    z = x.sin()
    z.sum().backward()
    assert _torch.edited_tensors_of(z.grad_fn) == []  # freed


def test_is_freed():
    x = X.clone().requires_grad_()
    made = [x.sin(), OldSquare.apply(x), x + 1]
    nodes = [y.grad_fn for y in made]
    assert not any(map(_torch.is_freed, nodes))
    made[0].sum().backward(retain_graph=True)
    assert not any(map(_torch.is_freed, nodes))
    for y in made:
        y.sum().backward()
    assert [*map(_torch.is_freed, nodes)] == [True, True, False]  # a sum keeps nothing


def test_has_numbers():
    assert _torch.has_numbers(X)
    assert not _torch.has_numbers(X.to("meta"))
    assert not _torch.has_numbers(torch._efficientzerotensor((2,)))


def test_with_numbers():
    zeros = torch._efficientzerotensor((2, 3)).mT
    given = {"a": [X, zeros], "b": 3}
    made = _torch.with_numbers(given)
    assert made["a"][0] is X
    assert made["b"] == 3
    assert made["a"][1].tolist() == [[0, 0]] * 3
    assert made["a"][1].stride() == zeros.stride()
    assert _torch.with_numbers(made) is made  # nothing to be done


def test_operations_apart_from_those_that_take_functions():
    assert isinstance(torch.ops.aten.sin.default, _torch.OpOverload)
    assert not isinstance(torch.ops.higher_order.cond, _torch.OpOverload)


def test_out_of_sight():
    seen = []

    class Watch(_torch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **kwargs or {})

    with Watch(), _torch.out_of_sight():
        X.sin()
    assert seen == []


@pytest.mark.parametrize("marked", [True, False])
def test_a_mode_without_a_wrapper(monkeypatch, marked):
    if not marked:  # as in an older release
        monkeypatch.setattr(_torch, "_MARKS", {"a_name_that_torch_has_not"})

    def dispatch(self, func, types, args=(), kwargs=None):
        return func(*args, **kwargs or {})

    quiet = type("Quiet", (_torch.QuietDispatchMode,), {"__torch_dispatch__": dispatch})
    # 2.6 has no wrapper, and its compiler stays out of modes by itself
    wraps = "__init_subclass__" in vars(_torch.TorchDispatchMode)
    assert (quiet.__torch_dispatch__ is dispatch) == (marked or not wraps)
    with quiet():
        close(torch.compile(lambda x: x.sin() * 2, backend="eager")(X), X.sin() * 2)


def test_what_has_no_public_path():
    seen = []

    class Watch(_torch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **kwargs or {})

    with Watch():
        X.sin()
    assert seen == [torch.ops.aten.sin.default]
    ((path, leaf),) = _torch.pytree.tree_leaves_with_path({"a": [X]})
    assert _torch.pytree.keystr(path) == "['a'][0]"
    assert leaf is X


def test_another_mode_sees_what_watch_does_not():
    class Counting(_torch.TorchDispatchMode):
        count = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.count += 1
            return func(*args, **(kwargs or {}))

    with pullback.watch() as seen, Counting() as mode:
        with _torch.unwatched():
            torch.zeros(1).add(1)
        torch.zeros(1).add(1)
    assert mode.count == 4
    assert seen.watched == "2 operations, 0 backward passes"
