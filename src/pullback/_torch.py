"""Every door to what PyTorch keeps private, and the one module that opens any.

Each gives what no public name gives, or not as fast, and says what stands in its place
where a release has closed it. All are open in every release from 2.6, the oldest that was
tried, to 2.13, unless a door says otherwise; what is known of later ones stands where it
matters. ``tests/test_torch.py`` opens each of them and closes those that have another way.
"""

from __future__ import annotations

import functools
import gc
import math
import operator
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import chain
from types import CodeType, FrameType
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch._C import _functorch
from torch._decomp import decomposition_table
from torch._functorch import eager_transforms as _transforms
from torch._ops import OpOverload
from torch.autograd import forward_ad
from torch.autograd.graph import Node
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.hooks import RemovableHandle

from pullback._frames import frames
from pullback._shared import Shared

try:
    from torch.autograd.graph import _engine_run_backward as _run_engine
except ImportError:  # pragma: no cover - its test takes it away
    _run_engine = None  # type: ignore[assignment]

__all__ = [
    "COMPILED",
    "Asked",
    "OpOverload",  # an operation of a dispatch mode; has no public path
    "QuietDispatchMode",
    "TorchDispatchMode",  # sees each operation; has no public path
    "accumulated_leaf",
    "apply_to_rows",
    "asked_by",
    "calls_engine",
    "cotangent_bytes",
    "cut_by",
    "decomposition",
    "edited_tensors_of",
    "forward_level",
    "frames_of",
    "function_of",
    "functions_of",
    "given_to_clip",
    "given_to_kl_div",
    "given_to_loss",
    "gradients_of_functional",
    "has_compiled",
    "has_compiler",
    "has_numbers",
    "has_open_sizes",
    "hook_count",
    "hooked_tensors",
    "hooks_of",
    "in_transform",
    "is_compiled",
    "is_freed",
    "node_number",
    "nodes_made",
    "number_of",
    "optimizers_made",
    "out_of_sight",
    "part_of_torch",
    "product_of",
    "put_engine",
    "pytree",  # nested tuples, lists and dicts, and paths in them
    "running_backward",
    "running_node",
    "saved_tensors_of",
    "schema",
    "sees_operations",
    "shapes_received",
    "shapes_sent",
    "stack_of_backward",
    "storage_key",
    "tensor_hooks",
    "uncompiled",
    "unwatched",
    "unwrap",
    "variant",
    "vector_jacobian",
    "version",
    "with_numbers",
]


# --- products -------------------------------------------------------------------------


def vector_jacobian(
    ys: Sequence[Tensor], vs: Sequence[Tensor], xs: Sequence[Tensor], create_graph: bool
) -> tuple[Tensor | None, ...]:
    """Return v^T J for each x, None where no path leads, from a graph that stays.

    The engine itself does without the checks of the vs that :func:`torch.autograd.grad`
    makes first, a third of the time of a small product. Without it that function is called.
    """
    if _run_engine is None:
        return torch.autograd.grad(
            ys, xs, vs, retain_graph=True, create_graph=create_graph, allow_unused=True
        )
    return _run_engine(
        tuple(ys),
        grad_tensors=tuple(vs),
        keep_graph=True,
        create_graph=create_graph,
        inputs=tuple(xs),
        allow_unreachable=True,
        accumulate_grad=False,
    )


@contextmanager
def forward_level() -> Iterator[None]:
    """Keep the level of forward mode open until the last thread that is in here leaves.

    PyTorch has one level for the whole process, and one count of those on it. The thread
    that came first to :func:`torch.func.jvp` closes the level when it is done, and the
    tangents of the others are lost, which ends in an error or, without one, in zeros (to
    2.15). Counted once more, none of them closes it, and no thread waits for another.
    Without that count, one thread at a time is let in.
    """
    if not hasattr(_transforms, NESTING):
        with _Level.lock:
            yield
        return
    with _Level.lock:
        if not _Level.users and not getattr(_transforms, NESTING):
            forward_ad.enter_dual_level()
            _count_levels(1)
            _Level.opened = True
        _Level.users += 1
    try:
        yield
    finally:
        with _Level.lock:
            _Level.users -= 1
            if not _Level.users and _Level.opened:
                _Level.opened = False
                _count_levels(-1)
                forward_ad.exit_dual_level()


#: What a release must have for threads to share the level of forward mode.
NESTING = "JVP_NESTING"


class _Level:
    """Who is on the level of forward mode, and whether :func:`forward_level` opened it."""

    lock = threading.RLock()  # f may take derivatives itself
    users = 0
    opened = False


def _count_levels(change: int) -> None:
    setattr(_transforms, NESTING, getattr(_transforms, NESTING) + change)


#: What a release must have for :func:`apply_to_rows` to do as :func:`torch.func.vmap` does.
LEVELS = (
    "_vmap_increment_nesting",
    "_vmap_decrement_nesting",
    "_add_batch_dim",
    "_remove_batch_dim",
)
_LEVELS = operator.attrgetter(*LEVELS)


def apply_to_rows(
    product: Callable[..., tuple[Tensor, ...]], seeds: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """Apply ``product`` to all rows of the seeds at once.

    What :func:`torch.func.vmap` does to tensors, without its handling of nested
    arguments, which takes longer than a small product. (Not ``is_grads_batched``, whose
    older vmap takes many operations one by one.) Without it that function is called.
    """
    try:
        enter, leave, add, remove = _LEVELS(_functorch)
    except AttributeError:
        return torch.func.vmap(product, randomness="same")(*seeds)
    count = seeds[0].shape[0]
    level = enter(count, "same")
    try:
        rows = product(*[add(seed, 0, level) for seed in seeds])
        return tuple([remove(r, level, count, 0) for r in rows])
    finally:
        leave()


def in_transform() -> bool:
    """Tell whether a transform of :mod:`torch.func` is running; there is no other way."""
    return torch._C._are_functorch_transforms_active()


def is_compiled(module: torch.nn.Module) -> bool:
    """Tell whether a module is compiled or scripted, and cannot be called in parts.

    Without ``_orig_mod`` a module that :func:`torch.compile` gave is taken for a plain one.
    """
    return isinstance(module, torch.jit.ScriptModule) or hasattr(module, "_orig_mod")


def sees_operations() -> bool:
    """Tell whether a dispatch mode is on, under which nothing can be compiled.

    Without ``_len_torch_dispatch_stack`` none is ever known to be.
    """
    count: Callable[[], int] = getattr(torch._C, "_len_torch_dispatch_stack", int)
    return count() > 0


def has_compiler() -> bool:
    """Tell whether ``torch.compile`` can have compiled anything: to load it takes seconds.

    A release without ``torch._dynamo`` would have its compiler under another name, and
    what it compiled would be taken for plain functions.
    """
    return "torch._dynamo" in sys.modules


def has_compiled() -> bool:
    """Tell whether a graph can come from a compiler; to load one alone makes none.

    Each backend that makes such graphs does it with this module. A release that has
    another would have its compiled functions taken for plain ones.
    """
    return "torch._functorch.aot_autograd" in sys.modules


@contextmanager
def uncompiled() -> Iterator[None]:
    """Run what was compiled as it was before, which leaves what was compiled in place.

    Where a mode or a transform is on, PyTorch would mark a compiled function as one that is
    never to be compiled again.
    """
    if has_compiler():
        with _PLAIN.block(None):
            yield
        return
    try:
        yield
    finally:
        if has_compiler():  # loaded just now: nothing of the caller's was compiled before
            torch.compiler.reset()


_PLAIN = Shared[None](lambda: torch.compiler.set_stance("force_eager"))


def optimizers_made(
    tell: Callable[[torch.optim.Optimizer], None],
) -> AbstractContextManager[None]:
    """Tell of each optimizer that is made in this block; there is no hook for it.

    The first block puts a constructor around that which it finds, a program's own, too, and
    the last one puts that back.
    """
    return _MADE.block(tell)


@contextmanager
def _telling_constructor() -> Iterator[None]:
    init = torch.optim.Optimizer.__init__

    @functools.wraps(init)
    def init_and_tell(self: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        for tell in (*_MADE.given,):
            tell(self)

    torch.optim.Optimizer.__init__ = init_and_tell  # type: ignore[method-assign]
    try:
        yield
    finally:
        torch.optim.Optimizer.__init__ = init  # type: ignore[method-assign]


_MADE = Shared[Callable[[torch.optim.Optimizer], None]](_telling_constructor)


#: What a graph calls the backward of what was compiled.
COMPILED = "CompiledFunctionBackward"


def unwrap(t: Tensor) -> Tensor:
    """Return the tensor inside those of the transforms; there is no other way."""
    while _functorch.is_functorch_wrapped_tensor(t):
        t = _functorch.get_unwrapped(t)
    return t


# --- nodes of the graph ---------------------------------------------------------------


def accumulated_leaf(node: Node) -> Tensor | None:
    """Return the leaf that a node accumulates into, None of an operation."""
    return getattr(node, "variable", None)


def saved_tensors_of(node: Node) -> list[Tensor]:
    """Return the tensors that a node keeps, as packed, or none once they are freed.

    Since 2.7 or later ``_raw_saved_*`` shows what is packed. Before, they are unpacked,
    which runs the unpack hooks of saved tensors.
    """
    tensors: list[Tensor | None] = []
    try:
        for attribute in dir(node):
            if attribute.startswith("_raw_saved_"):
                raw = getattr(node, attribute)
                if not all(hasattr(part, "data") for part in _parts(raw)):
                    tensors += _parts(getattr(node, attribute.removeprefix("_raw")))
                else:
                    tensors += [part.data for part in _parts(raw)]
    except RuntimeError:  # freed: backward is about to say so
        return []
    return [t for t in tensors if t is not None]


def product_of(node: Node) -> tuple[Tensor, Tensor, int | None, bool] | None:
    """Return what the node of a ``prod`` keeps: input, result, dim and keepdim.

    None for other nodes, and where a release calls it something else.
    """
    if not node.name().startswith("ProdBackward") or not hasattr(node, "_saved_result"):
        return None
    dim = getattr(node, "_saved_dim", None)  # a negative one is told without its sign
    signed = dim - 2**64 if dim is not None and dim >= 2**63 else dim
    kept, keeps = cast(Any, node), getattr(node, "_saved_keepdim", True)
    return kept._saved_self, kept._saved_result, signed, keeps


def _parts(saved: Any) -> Sequence[Any]:
    return saved if isinstance(saved, tuple | list) else (saved,)


def cotangent_bytes(node: Node) -> list[int]:
    """Return the size of what each output of the node's operation sends back.

    Nothing is counted where nothing is known.
    """
    return [math.prod(t.shape) * t.dtype.itemsize for t in _received(node)]


def shapes_received(node: Node | None) -> list[tuple[int, ...]]:
    """Return the shape of each cotangent that a node receives, if it is known."""
    return [tuple(t.shape) for t in _received(node)]


def _received(node: Node | None) -> Sequence[Any]:
    """Return shape and dtype of each cotangent; none without ``_input_metadata``."""
    known: Sequence[Any] = getattr(node, "_input_metadata", ())
    return known


def node_number() -> int:
    """Return the number of the node that is running, or else of this thread's newest.

    It is -1 where neither can be told.
    """
    running = running_node()
    return nodes_made() - 1 if running is None else number_of(running)


def nodes_made() -> int:
    """Return the number that the next node of this thread will have.

    Autograd makes the node of an operation before it runs it, so that within the
    operation its node is the last one. Without ``_get_sequence_nr`` it is always 0; there
    is no other way.
    """
    count: Callable[[], int] = getattr(torch._C._autograd, "_get_sequence_nr", int)
    return count()


def number_of(node: Node) -> int:
    """Return the number that a node got when it was made; there is no other way.

    Those that accumulate into a leaf have the largest number of 64 bits.
    """
    return node._sequence_nr()


def hook_count(handle: RemovableHandle) -> int:
    """Return how many hooks of its kind there are where the handle's is, with it.

    Without ``hooks_dict_ref`` only the handle's own is known.
    """
    if not hasattr(handle, "hooks_dict_ref"):
        return 1
    return len(handle.hooks_dict_ref() or ())


# --- tensors --------------------------------------------------------------------------


def tensor_hooks(t: Tensor) -> tuple[int, int]:
    """Return how many tensor hooks t has, and how many for after accumulation.

    Without ``_backward_hooks`` and ``_post_accumulate_grad_hooks`` none are known.
    """
    before, after = "_backward_hooks", "_post_accumulate_grad_hooks"
    return len(getattr(t, before, None) or ()), len(getattr(t, after, None) or ())


def hooks_of(owner: Tensor | torch.nn.Module) -> list[Callable[..., Any]]:
    """Return the functions that hang on a tensor or a module as hooks.

    Without the names under which they are kept none are known.
    """
    of_tensors = "_backward_hooks", "_post_accumulate_grad_hooks"
    of_modules = "_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks"
    names = of_tensors if isinstance(owner, Tensor) else (*of_modules, "_backward_hooks")
    tables = (getattr(owner, name, None) or {} for name in names)
    return [hook for table in tables for hook in table.values()]


def version(t: Tensor) -> int:
    """Return how often t was written into; there is no other way.

    A tensor made under :func:`torch.inference_mode` counts no versions.
    """
    return 0 if t.is_inference() else t._version


def storage_key(t: Tensor) -> int:
    """Return the same number for all tensors of one storage; there is no other way.

    (``data_ptr()`` is 0 for all without memory: empty ones, and those on meta.)
    """
    key: int = t.untyped_storage()._cdata
    return key


def has_numbers(t: Tensor) -> bool:
    """Tell whether a plain tensor has memory, with numbers in it.

    Zeros of forward mode have none, and reading them ends the process; there is no
    other way to know them.
    """
    return not (t.is_meta or torch._is_zerotensor(t))


def has_open_sizes(t: Tensor) -> bool:
    """Tell whether a size is a symbol of a tracer, so that a question would bind it."""
    return bool(t._has_symbolic_sizes_strides)


def with_numbers(tree: Any) -> Any:
    """Return a structure in which zeros that have no memory have some.

    A dispatch mode is given such zeros by forward mode, and operations that it runs read
    them as if they had.
    """
    tensors = (t for t in pytree.tree_leaves(tree) if isinstance(t, Tensor))
    if not any(torch._is_zerotensor(t) for t in tensors):
        return tree
    return pytree.tree_map(_written_zeros, tree)


def _written_zeros(value: Any) -> Any:
    if not isinstance(value, Tensor) or not torch._is_zerotensor(value):
        return value
    count = value.untyped_storage().nbytes() // value.element_size()
    zeros = torch.zeros(count, dtype=value.dtype, device=value.device)
    return zeros.as_strided(value.shape, value.stride(), value.storage_offset())


def hooked_tensors() -> list[Tensor]:
    """Return every tensor that Python knows of with a hook, or that retains its gradient.

    A tensor may be anybody's, and left from what has ended: no more is read than these
    three, which are kept as they are. (``grad_fn`` of a view makes its node anew when its
    base was edited, and a subclass is asked for each attribute.)
    """
    found = []
    with torch._C.DisableTorchFunctionSubclass():
        for t in _all_tensors():
            with suppress(RuntimeError):  # undefined: another thread is at work on it
                if t.retains_grad or any(tensor_hooks(t)):
                    found.append(t)
    return found


def _all_tensors() -> list[Tensor]:
    """Return every tensor that Python knows of.

    They refer to their classes, so that ``gc.get_referrers`` finds them; in 2.6 those that
    C++ holds as well say nothing to it, and are looked for among all objects. (A list of
    those holds tuples, too, also one that a function in C is filling in another thread;
    that function fails when it is not the only owner.)
    """
    kinds: list[type] = [Tensor]
    for kind in kinds:
        kinds += kind.__subclasses__()
    probe = torch.empty(0, device="cpu")
    view = probe.view(0)  # whose part in C++ holds the probe
    found = _tensors_in(gc.get_referrers(*kinds))
    if not any(t is probe for t in found):
        found = _tensors_in(gc.get_objects())
    return [t for t in found if t is not probe and t is not view]


def _tensors_in(objects: Sequence[object]) -> list[Tensor]:
    # type(), for isinstance() wakes deprecated proxies among the objects
    return [o for o in objects if issubclass(type(o), Tensor)]  # type: ignore[misc]


# --- operations -----------------------------------------------------------------------


def schema(func: Any) -> Any:
    """Return the arguments and results of an operation, and what it writes."""
    return func._schema


def variant(func: Any, name: str) -> Any:
    """Return the operation of another name and the same overload, or None."""
    return getattr(getattr(torch.ops.aten, name, None), func._overloadname, None)


def decomposition(func: Any) -> Callable[..., Any] | None:
    """Return the operation written as simpler ones, or None where it has no such form.

    The table that torch itself uses, larger than that of
    :func:`torch.export.default_decompositions`.
    """
    table: Mapping[Any, Callable[..., Any]] = decomposition_table
    return table.get(func)


def out_of_sight() -> AbstractContextManager[Any]:
    """Return a block whose operations no mode sees; there is no other way.

    Modes that trace would else take what is computed in it for a part of the program.
    """
    block: AbstractContextManager[Any] = torch._C._DisableTorchDispatch()
    return block


class QuietDispatchMode(TorchDispatchMode):
    """A mode that torch.compile leaves alone, at no cost.

    The wrapper that keeps the compiler out of a mode otherwise doubles the time of an
    operation, and imports the compiler, which takes seconds. Where the function itself
    cannot be marked (after 2.6, which has no wrapper) the wrapper stays.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        compiler = torch._C._dynamo.eval_frame
        if {*dir(compiler)} >= _MARKS:
            skip = compiler._FrameAction.SKIP
            strategy = compiler._FrameExecStrategy(skip, skip)
            compiler.set_code_exec_strategy(cls.__torch_dispatch__.__code__, strategy)
            cls._should_skip_dynamo = classmethod(lambda cls: False)  # type: ignore[assignment, method-assign]
        super().__init_subclass__(**options)  # type: ignore[no-untyped-call]

    def __exit__(self, *exception: Any) -> None:
        """Leave it, also where modes that were entered later are still on."""
        on = _modes()
        above = on[on.index(self) + 1 :] if self in on else []
        for later in above[:1]:  # each restores what it has found, and that one is next
            for name in vars(self).keys() & vars(later).keys():
                if name.startswith("old_"):
                    ours, theirs = getattr(self, name), getattr(later, name)
                    setattr(self, name, theirs)
                    setattr(later, name, ours)
        _put_in_place_of(above, [])
        super().__exit__(*exception)  # type: ignore[no-untyped-call]
        _put_in_place_of([], above)


@contextmanager
def unwatched() -> Iterator[None]:
    """Run what no :class:`QuietDispatchMode` sees, for it is not what a program asked for.

    So it is where f is run at other numbers than those that it was given. Other modes may
    be a part of what f computes, and stay.
    """
    on = _modes()
    _put_in_place_of(on, [mode for mode in on if not isinstance(mode, QuietDispatchMode)])
    try:
        yield
    finally:
        _put_in_place_of(_modes(), on)


def _modes() -> list[Any]:
    """Return the dispatch modes that are on, but for those of torch's own tracers.

    Without the names of their stack, none.
    """
    if not all(hasattr(torch._C, name) for name in _STACK):
        return []
    count = torch._C._len_torch_dispatch_stack()
    stack = map(torch._C._get_dispatch_stack_at, range(count))
    return [mode for mode in stack if getattr(mode, "_mode_key", None) is None]


def _put_in_place_of(last: Sequence[Any], modes: Sequence[Any]) -> None:
    """Take the last modes off their stack, and put others on it."""
    for _ in last:
        torch._C._pop_torch_dispatch_stack(None)
    for mode in modes:
        torch._C._push_on_torch_dispatch_stack(mode)


_STACK = (
    "_len_torch_dispatch_stack",
    "_get_dispatch_stack_at",
    "_pop_torch_dispatch_stack",
    "_push_on_torch_dispatch_stack",
)
_MARKS = {"_FrameAction", "_FrameExecStrategy", "set_code_exec_strategy"}


# --- frames of torch ------------------------------------------------------------------

FOLDER = os.path.join(os.path.dirname(str(torch.__file__)), "")


@functools.lru_cache(maxsize=4096)
def part_of_torch(path: str) -> str:
    """Return a file's place in torch, ``nn/functional.py``, or nothing of another file."""
    return path.removeprefix(FOLDER).replace(os.sep, "/") if path.startswith(FOLDER) else ""


def frames_of(part: str, frame: FrameType | None = None) -> Iterator[FrameType]:
    """Yield the frames of a file or folder of torch in which this runs, innermost first.

    Only those around ``frame``, where one is given.
    """
    for around in frames(frame):
        if part_of_torch(around.f_code.co_filename).startswith(part):
            yield around


def functions_of(part: str) -> list[str]:
    """Return the functions of a file or folder of torch in which this runs, by name."""
    return [frame.f_code.co_name for frame in frames_of(part)]


def given_to_loss() -> list[Tensor]:
    """Return input and target of the loss of ``nn.functional`` in which this runs.

    They are under these names in its frame; without them, or a loss, none are known.
    """
    frame = next(frames_of("nn/functional.py"), None)
    if frame is None or not frame.f_code.co_name.endswith("_loss"):
        return []
    values = [frame.f_locals.get(name) for name in ("input", "target")]
    return [t for t in values if isinstance(t, Tensor)]


def given_to_kl_div() -> Tensor | None:
    """Return the input of the ``kl_div`` in which this runs.

    It is under that name in its frame; without it, or elsewhere, none is known.
    """
    frame = next(frames_of("nn/functional.py"), None)
    if frame is None or frame.f_code.co_name != "kl_div":
        return None
    given = frame.f_locals.get("input")
    return given if isinstance(given, Tensor) else None


def given_to_clip() -> list[Tensor]:
    """Return the tensors whose gradients are clipped, in the clipping in which this runs.

    They are under ``parameters`` in its frame; without it, or clipping, none are known,
    as where ``clip_grad_value_`` has used a generator up.
    """
    names = "clip_grad_norm_", "clip_grad_value_"
    for frame in frames_of("nn/utils/clip_grad.py"):
        if frame.f_code.co_name in names:
            values = frame.f_locals.get("parameters")
            given = values if isinstance(values, list | tuple) else [values]
            return [t for t in given if isinstance(t, Tensor)]
    return []


def gradients_of_functional() -> Sequence[Tensor | None]:
    """Return the gradients that ``autograd.functional`` is about to fill up with zeros.

    Of a first derivative, and none where it does something else. They are under ``vj`` in
    ``jacobian``, and elsewhere under ``grads`` while ``stage`` is ``"back"``.
    """
    stack = list(frames_of("autograd/functional.py"))
    names = [frame.f_code.co_name for frame in stack]
    if not stack or not {"hessian", "hvp", "vhp"}.isdisjoint(names):
        return ()
    values = stack[0].f_locals
    found = values.get("vj" if names[0] == "jacobian" else "grads") or ()
    return found if values.get("stage", "back") == "back" else ()


# --- what runs now --------------------------------------------------------------------


def running_node() -> Node | None:
    """Return the node in whose backward this is, or None; there is no other way.

    Without ``_current_autograd_node`` no node is ever known to run.
    """
    current: Callable[[], Node | None]
    current = getattr(torch._C, "_current_autograd_node", lambda: None)
    return current()


def running_backward() -> int:
    """Return the number of the backward pass that this is in, or -1.

    There is no other way.
    """
    return torch._C._current_graph_task_id()


def calls_engine(code: CodeType) -> bool:
    """Tell whether it is torch's own code that calls the engine; there is no other way."""
    return code.co_name == "_engine_run_backward"


def put_engine(call: Callable[..., Any]) -> Callable[..., Any]:
    """Put a function in the place of that which calls the engine, and return the latter.

    There is no other way to hear of an error of backward that the program catches. Without
    that name nothing is put anywhere.
    """
    name = "_engine_run_backward"
    before: Callable[..., Any] | None = vars(torch.autograd).get(name)
    if before is not None:
        setattr(torch.autograd, name, call)
    return before or call


def stack_of_backward(thread: int) -> FrameType | None:
    """Return the frame that called the engine, of this thread or else of another.

    On a device, backward runs in a thread of the engine's own, which has no frames of
    Python; ``thread`` is the one that waits for it. There is no other way.
    """
    waiting = sys._current_frames().get(thread)
    for frame in chain(frames(), frames(waiting) if waiting else ()):
        if calls_engine(frame.f_code):
            return frame
    return None


class Asked(NamedTuple):
    """What a backward pass was asked for.

    Attributes:
        roots: What it starts from.
        cotangents: What it starts with, each with the shape of its root.
        given: The argument ``gradient``, ``grad_tensors`` or ``grad_outputs``.
        inputs: The tensors that it is restricted to, if any.
        create_graph: Whether it makes a graph of its own.
        accumulates: Whether it fills ``.grad``, as ``backward`` does and ``grad`` not.
    """

    roots: Sequence[Any]
    cotangents: Sequence[Any]
    given: Any
    inputs: Sequence[Any]
    create_graph: bool
    accumulates: bool


def asked_by(frame: FrameType) -> Asked:
    """Return what a backward pass was asked for, by the frame that called the engine.

    The engine is given the roots under ``t_outputs`` (without that none are known) and what
    comes after them by place; the frame around has what it made that of.
    """
    values = frame.f_locals
    names = ("grad_tensors", "keep_graph", "create_graph", "inputs")
    given = dict(zip(names, values.get("args", ()), strict=False))
    given |= values.get("kwargs", {})
    behind = frame.f_back
    while behind is not None and calls_engine(behind.f_code):  # a watched one, around it
        behind = behind.f_back
    around = behind.f_locals if behind is not None else {}
    return Asked(
        values.get("t_outputs", ()),
        given.get("grad_tensors", ()),
        around.get("grad_tensors", around.get("grad_outputs")),
        given.get("inputs", ()),
        bool(given.get("create_graph")),
        bool(given.get("accumulate_grad")),
    )


def edited_tensors_of(node: Node) -> list[tuple[str, Tensor | None]]:
    """Return the saved tensors that were edited since, by the names of what they are.

    The first part of a name is ``self``, ``result`` or another argument of the
    operation; a custom Function calls all of them ``tensors``. Before 2.7 or later the
    tensors themselves are not to be had, and are None.
    """
    found: list[tuple[str, Tensor | None]] = []
    for attribute in dir(node):
        if not attribute.startswith("_raw_saved_"):
            continue
        name = attribute.removeprefix("_raw_saved_")
        public = "saved_tensors" if name == "tensors" else f"_saved_{name}"
        try:
            getattr(node, public)
        except RuntimeError as error:
            if "modified by an inplace operation" in str(error):
                raw = _parts(getattr(node, attribute))
                found += [(name, getattr(part, "data", None)) for part in raw if part]
    return found


def is_freed(node: Node) -> bool:
    """Tell whether a backward has freed what a node had saved."""
    for attribute in dir(node):
        if attribute.startswith("_raw_saved_"):
            name = attribute.removeprefix("_raw_saved_")
            try:
                getattr(node, "saved_tensors" if name == "tensors" else f"_saved_{name}")
            except RuntimeError as error:
                if "already been freed" in str(error):
                    return True
    return False


def function_of(node: Node) -> Any:
    """Return the class of the custom Function whose backward a node runs, or None."""
    return getattr(node, "_forward_cls", None)


#: The code that ``once_differentiable`` puts around any backward.
_ONCE = torch.autograd.function.once_differentiable(print).__code__
#: Operators of control flow whose backward computes where no graph, or half of one, is
#: recorded: second derivatives are zeros, or half of what they are (to 2.13).
_HALF = ("cond", "while_loop", "scan", "associative_scan", "map")


def cut_by(node: Node) -> str:
    """Return what has no second derivative at a node, and why; else an empty text.

    A custom Function that is marked with ``once_differentiable``, or an operator such as
    :func:`torch.cond`. ``map`` is differentiated right since it makes its backward when it
    is asked for. Without the names in here nothing is known to be cut.
    """
    function = function_of(node)
    if function is None:
        return ""
    if _is_once_differentiable(function):
        return f"{function.__qualname__} is marked with once_differentiable"
    package, _, name = function.__module__.rpartition(".")
    if package != "torch._higher_order_ops" or name not in _HALF:
        return ""
    names = getattr(getattr(function.backward, "__code__", None), "co_names", ())
    if name == "map" and "create_bw_fn" in names:
        return ""
    return f"torch does not differentiate the backward of {name}"


def _is_once_differentiable(function: Any) -> bool:
    """Tell whether the backward of a custom Function is marked as having no derivative."""
    for rule in (function.backward, function.vjp):
        while rule is not None:
            if getattr(rule, "__code__", None) is _ONCE:
                return True
            rule = getattr(rule, "__wrapped__", None)
    return False


def shapes_sent(node: Node) -> list[tuple[int, ...]]:
    """Return the shapes of what a node is to send on, as far as they are known."""
    found = []
    for target, at in node.next_functions:
        leaf = accumulated_leaf(target) if target is not None else None
        known = [tuple(leaf.shape)] if leaf is not None else shapes_received(target)
        found += known[at : at + 1]
    return found
