"""What every public function does with the caller's f, inputs and outputs."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypedDict, get_args

import torch
from torch import Tensor

from pullback._buffers import own_buffers
from pullback._graph import leads_to
from pullback._torch import (
    COMPILED,
    forward_level,
    has_compiled,
    has_compiler,
    in_transform,
    pytree,
    sees_operations,
    uncompiled,
    version,
)

logger = logging.getLogger("pullback")

Mode = Literal["auto", "reverse", "forward"]
_MODES = get_args(Mode)
ChunkSize = int | Literal["auto"] | None


class Keywords(TypedDict, total=False):
    """The options of :func:`pullback.jacobian`, for functions that pass them on."""

    mode: Mode
    chunk_size: ChunkSize
    batched: bool
    allow_unused: bool
    progress: bool


def check_chunk_size(chunk_size: object) -> None:
    """Raise TypeError or ValueError unless ``chunk_size`` is a :data:`ChunkSize`."""
    if chunk_size in (None, "auto"):
        return
    if not isinstance(chunk_size, int) or isinstance(chunk_size, bool):
        raise TypeError(f"chunk_size is {chunk_size!r}; None, 'auto' or an int is needed")
    if chunk_size < 1:
        raise ValueError(f"chunk_size is {chunk_size}; at least 1 is needed")


def check_flag(name: str, value: object) -> None:
    """Raise TypeError unless an option is True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} is {value!r}; True or False is needed")


def check_mode(mode: object) -> None:
    """Raise ValueError unless ``mode`` is a :data:`Mode`."""
    if mode not in _MODES:
        raise ValueError(f"mode is {mode!r}; 'auto', 'reverse' or 'forward' is needed")


def check_argnum(argnums: object) -> None:
    """Raise TypeError unless ``argnums`` is the number of one input."""
    if not isinstance(argnums, int):
        raise TypeError(f"argnums is {argnums!r}; the int of one input is needed")


class Untouched:
    """Give the caller back RNG states, default dtype and grad mode, also on an error.

    A function that draws random numbers sees the state that the caller left, and
    the caller sees it again afterwards: asking a question about f is no draw.

    Kept are PyTorch's own generators, of the CPU and, once CUDA is initialized, of its
    GPUs. Those of other devices (MPS, XPU), a ``torch.Generator``, Python's and NumPy's go
    on where f left them. The CPU's is one for all threads: what another thread draws
    meanwhile is drawn again afterwards.
    """

    __slots__ = ("_gpus", "_rng", "_settings")

    def __enter__(self) -> Tensor:  # of a class: a generator takes as long as a small f
        # not torch.random.fork_rng, which looks for devices, as slow
        self._rng = random_numbers()
        gpus = torch.cuda.is_initialized()
        self._gpus = torch.cuda.get_rng_state_all() if gpus else []
        self._settings = torch.get_default_dtype(), torch.is_grad_enabled()
        return self._rng

    def __exit__(self, *error: object) -> None:
        _set_settings(*self._settings)
        with _GENERATOR:
            torch.default_generator.set_state(self._rng)
        if self._gpus:
            torch.cuda.set_rng_state_all(self._gpus)


def random_numbers() -> Tensor:
    """Return the state of PyTorch's generator, in one thread at a time.

    ``torch.get_rng_state`` holds the generator while it makes a tensor. If Python collects
    garbage then, other threads run, and one that calls ``torch.set_rng_state`` waits for
    the generator without letting go of Python: both wait for ever (torch 2.13).
    """
    with _GENERATOR:
        return torch.default_generator.get_state()


_GENERATOR = threading.RLock()  # what is collected may ask for it, too


@contextmanager
def same_settings() -> Iterator[None]:
    """Give the caller back default dtype and grad mode, also on an error."""
    dtype, recording = torch.get_default_dtype(), torch.is_grad_enabled()
    try:
        yield
    finally:
        _set_settings(dtype, recording)


def _set_settings(dtype: torch.dtype, recording: bool) -> None:
    if torch.get_default_dtype() is not dtype:
        torch.set_default_dtype(dtype)
    if torch.is_grad_enabled() is not recording:
        torch.set_grad_enabled(recording)


def flatten(tree: Any) -> tuple[list[Any], pytree.TreeSpec]:
    """Return what ``pytree.tree_flatten`` does, for one tensor without its walk."""
    return ([tree], _LEAF) if isinstance(tree, Tensor) else pytree.tree_flatten(tree)


_LEAF = pytree.tree_structure(None)


def unflatten(leaves: Sequence[Any], structure: pytree.TreeSpec) -> Any:
    """Return the leaves in a structure that :func:`flatten` gave."""
    return leaves[0] if structure is _LEAF else structure.unflatten(leaves)


def leaf_of(x: Tensor) -> Tensor:
    """Return a leaf with the numbers of x (in its memory) that requires grad."""
    # a tensor made under torch.inference_mode() can have no graph; its clone can
    return (x.clone() if x.is_inference() else x.detach()).requires_grad_()


def call(
    f: Callable[..., Any],
    inputs: Sequence[Any],
    copied: Sequence[Tensor] = (),
    *,
    check: bool = True,
    rng: Tensor | None = None,
) -> Any:
    """Return ``f(*inputs)``, computed on clones and checked.

    The clones are differentiable, so a graph that reaches ``inputs`` reaches through
    them; what f does to its arguments in place happens to the clones. Tensors in
    ``copied`` are clones already and are taken as they are. With ``check=False`` the output
    is left to :func:`check_output`. ``rng`` is the state of the random numbers, if known.

    Raises:
        RuntimeError: f changed one of its arguments in place.
        TypeError: the output is not a tensor (or a tuple, list or dict of tensors)
            of floating point or complex dtype.
    """
    leaves, structure = inputs, None
    for t in inputs:
        if not isinstance(t, Tensor):
            leaves, structure = pytree.tree_flatten(tuple(inputs))
            break
    kept = [id(t) for t in copied]
    clones = [
        t if id(t) in kept or not isinstance(t, Tensor) else t.clone() for t in leaves
    ]
    before = [(t, version(t), t.requires_grad) for t in clones if isinstance(t, Tensor)]
    args = pytree.tree_unflatten(clones, structure) if structure else clones
    try:
        with own_buffers(f):
            output = _run(f, args, rng)
    except RuntimeError as error:
        if in_transform():
            error.add_note(
                "pullback: f ran under a transform of torch.func, as it does for "
                "Jacobian-vector products; with mode='reverse' of pullback.jacobian (of "
                "pullback.sparsity, where a plan takes them) it runs as it is"
            )
        raise
    except TypeError as error:
        note = _on_arguments(str(error), inputs)
        if note and note not in getattr(error, "__notes__", ()):  # of a call in a call
            error.add_note(note)
        raise
    for i, (t, count, graph) in enumerate(before):
        if version(t) == count and (t.requires_grad or not graph):  # x.detach_()
            continue
        name = named_tensors(inputs)[i][0]
        raise RuntimeError(
            f"f changed {name} in place; f must return a new "
            "tensor and leave its arguments alone (x.add(1) in place of x.add_(1), or "
            "start f with x = x.clone())"
        )
    if check:
        check_output(output)
    return output


def _on_arguments(message: str, inputs: Sequence[Any]) -> str:
    """Return how to give f the arguments that Python misses, or nothing."""
    if len(inputs) == 1 and re.search(r"missing \d+ required positional", message):
        return (
            f"pullback: f was called with one input, {kind_of(inputs[0])}; several are "
            "given one after the other, pullback.jacobian(f, a, b), and as a tuple to "
            "pullback.check(f, (a, b))"
        )
    if name := re.search(r"missing \d+ required keyword-only .*?'(\w+)'", message):
        return (
            "pullback: f is called with its inputs alone; what it takes by name goes "
            f"through functools.partial(f, {name[1]}=...)"
        )
    return ""


def _run(f: Callable[..., Any], args: Sequence[Any], rng: Tensor | None) -> Any:
    """Return ``f(*args)``, with a graph that was not compiled.

    The backward of what was compiled may run once alone, has no derivative, and cannot run
    for several cotangents at a time. What was compiled stays as it is.
    """
    if in_transform() or sees_operations():
        with uncompiled():
            try:
                return f(*args)
            except KeyError as error:  # torch.cond has no rule
                if "TransformType" not in str(error):
                    raise
                raise RuntimeError(
                    "f runs torch.cond, or an operation like it, which has no rule under a "
                    "transform of torch.func; torch.where or a Python statement is needed"
                ) from error
    if not has_compiler():
        return f(*args)
    rng = random_numbers() if rng is None else rng
    output = f(*args)
    if not has_compiled():
        return output
    ys = [t for t in flatten(output)[0] if isinstance(t, Tensor)]
    if not leads_to(ys, {COMPILED}):
        return output
    logger.info("f is compiled; derivatives are those of what it was before torch.compile")
    with _GENERATOR:
        torch.set_rng_state(rng)
    with uncompiled():
        return f(*args)


def jvp(f: Callable[..., Any], xs: Sequence[Tensor], ts: Sequence[Tensor]) -> Any:
    """Return what :func:`torch.func.jvp` does, also in several threads at once."""
    with forward_level():
        return torch.func.jvp(f, tuple(xs), tuple(ts))


def check_output(output: Any) -> None:
    """Raise TypeError unless ``output`` holds differentiable tensors only."""
    if isinstance(output, Tensor) and output.is_floating_point() and _strided(output):
        return
    leaves = pytree.tree_leaves_with_path(output)
    if not leaves:
        raise TypeError(f"f returned {output!r}; a tensor is needed")
    for path, leaf in leaves:
        name = f"output{pytree.keystr(path)}"
        if not isinstance(leaf, Tensor):
            raise TypeError(
                f"f returned {kind_of(leaf)} as {name}; a tensor, or a tuple, list or "
                "dict of tensors, is needed"
            )
        if not _differentiable(leaf):
            raise TypeError(
                f"{name} of f has dtype {leaf.dtype}; a floating point or complex "
                "dtype is needed"
            )
        if not _strided(leaf):
            raise TypeError(
                f"{name} of f has layout {leaf.layout}; a strided tensor is needed "
                "(y.to_dense() gives one)"
            )


#: How a function of f is called, for those who gave it f alone.
EXAMPLE = (
    "pullback.jacobian(f, x), or in place of f a tensor y and the x that it was computed "
    "from (keyword arguments of f go through functools.partial)"
)


def check_inputs(
    f: Callable[..., Any],
    inputs: Sequence[Any],
    argnums: int | tuple[int, ...] = 0,
    example: str = EXAMPLE,
) -> tuple[int, ...]:
    """Return ``argnums`` as a tuple of indices >= 0, once everything is in order.

    Inputs that ``argnums`` leaves out may be anything; those it names must be
    tensors, or tuples, lists or dicts of tensors, of floating or complex dtype. The
    ``example`` is shown where there are none.

    Raises:
        TypeError: f is not callable, there are no inputs, or an input that is to be
            differentiated is not made of strided floating point or complex tensors.
        ValueError: ``argnums`` is out of range, empty, or names an input twice.
        RuntimeError: the call is made under ``torch.inference_mode()``.
    """
    if torch.is_inference_mode_enabled():
        raise RuntimeError(
            "torch.inference_mode() is on, under which no graph is recorded; a call "
            "outside of it is needed (under torch.no_grad() works, too)"
        )
    if not callable(f):
        raise TypeError(f"f is {kind_of(f)}; a function of the inputs is needed")
    if not inputs:
        raise TypeError(
            f"no inputs were given; what f is called with is needed, too, as in {example}"
        )
    asked = argnums if isinstance(argnums, tuple) else (argnums,)
    for i in asked:
        if not isinstance(i, int) or isinstance(i, bool):
            raise TypeError(f"argnums is {argnums!r}; an int or a tuple of ints is needed")
        if not -len(inputs) <= i < len(inputs):
            raise ValueError(
                f"argnums has {i}, and the number of inputs is {len(inputs)}; "
                f"a number from {-len(inputs)} to {len(inputs) - 1} is needed"
            )
    indices = tuple(i % len(inputs) for i in asked)
    if not indices or len(set(indices)) < len(indices):
        raise ValueError(
            f"argnums is {argnums!r}; each input at most once, and at least one, is needed"
        )
    for i in indices:
        check_differentiated(f"inputs[{i}]", inputs[i])
    return indices


def named_tensors(inputs: Sequence[Any]) -> list[tuple[str, Tensor]]:
    """Return the tensors in ``inputs`` with names such as ``inputs[0]['weight']``."""
    leaves = pytree.tree_leaves_with_path(tuple(inputs))
    return [(f"inputs{pytree.keystr(p)}", t) for p, t in leaves if isinstance(t, Tensor)]


def check_differentiated(name: str, value: Any) -> None:
    """Raise TypeError unless ``value`` is made of strided differentiable tensors."""
    if isinstance(value, Tensor) and value.is_floating_point() and _strided(value):
        return
    leaves = pytree.tree_leaves_with_path(value)
    if not leaves:
        raise TypeError(f"{name} is {value!r}; at least one tensor is needed")
    for path, leaf in leaves:
        if not isinstance(leaf, Tensor):
            named = " (of a model, dict(model.named_parameters()) is one)"
            more = named if isinstance(leaf, Iterator | torch.nn.Module) else ""
            raise TypeError(
                f"{name}{pytree.keystr(path)} is {kind_of(leaf)}; a tensor, or a tuple, "
                f"list or dict of tensors, is needed{more}"
            )
        if not _differentiable(leaf):
            raise TypeError(
                f"{name}{pytree.keystr(path)} has dtype {leaf.dtype}; a floating point "
                "or complex dtype is needed (what only chooses, such as token ids, has no "
                "derivative: take it by the embeddings that the ids choose, which many "
                "models accept as inputs_embeds; whole numbers that measure something are "
                "taken as x.double())"
            )
        if not _strided(leaf):
            raise TypeError(
                f"{name}{pytree.keystr(path)} has layout {leaf.layout}; a strided "
                "tensor is needed (x.to_dense() gives one)"
            )


def check_no_transform() -> None:
    """Raise RuntimeError inside the transforms of ``torch.func``."""
    if in_transform():
        raise RuntimeError(
            "the call is inside a torch.func transform, where no graph of its own can be "
            "made; a call outside of it is needed (pullback.jacobian works inside, too)"
        )


def check_tensors(f: Callable[..., Any], inputs: Sequence[Any]) -> None:
    """Check f, and ``inputs``, each of which is to be one tensor with numbers in it.

    Raises:
        TypeError: as :func:`check_inputs`, or an input is a tuple, list or dict.
        ValueError: an input is on the meta device.
        RuntimeError: as :func:`check_inputs` and :func:`check_no_transform`.
    """
    check_no_transform()
    check_inputs(f, inputs, tuple(range(len(inputs))) or 0)
    check_each_is_tensor(inputs)


def check_each_is_tensor(inputs: Sequence[Any]) -> None:
    """Raise TypeError or ValueError unless each input is one tensor with numbers in it."""
    for i, x in enumerate(inputs):
        if not isinstance(x, Tensor):
            raise TypeError(f"inputs[{i}] is {kind_of(x)}; one tensor is needed")
        check_numbers(f"inputs[{i}]", x)


def one_tensor(y: object) -> Tensor:
    """Return the output of f, which is to be one tensor with numbers in it.

    Raises:
        TypeError: it is no tensor.
        ValueError: it is on the meta device.
    """
    if not isinstance(y, Tensor):
        raise TypeError(f"f returned {kind_of(y)}; one tensor is needed")
    check_numbers("the output of f", y)
    return y


def check_single(name: str, value: Any) -> None:
    """Raise TypeError unless ``value`` is one real tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} is {kind_of(value)}; one tensor is needed")
    check_real(name, value)


def check_real(name: str, t: Tensor) -> None:
    """Raise TypeError if ``t`` is complex."""
    if t.is_complex():
        raise TypeError(
            f"{name} has dtype {t.dtype}; a real floating point dtype is needed, since a "
            "complex derivative has more than one convention (torch.view_as_real gives "
            "the real and imaginary parts)"
        )


def check_all_real(name: str, ts: Sequence[Tensor]) -> None:
    """Raise TypeError if one of the tensors is complex."""
    for t in ts:
        check_real(name, t)


def check_numbers(name: str, t: Tensor) -> None:
    """Raise ValueError if ``t`` is on the meta device."""
    if t.is_meta:
        raise ValueError(
            f"{name} is on the meta device, which keeps no numbers; a tensor with numbers "
            "is needed (pullback.jacobian and pullback.sparsity do without)"
        )


def check_readable(name: str, t: Tensor) -> None:
    """Raise TypeError or ValueError unless the numbers of ``t`` can be read one by one."""
    if not _strided(t):
        raise TypeError(
            f"{name} has layout {t.layout}; a strided tensor is needed "
            f"({name}.to_dense() gives one)"
        )
    check_numbers(name, t)


def _differentiable(t: Tensor) -> bool:
    return t.is_floating_point() or t.is_complex()


def check_devices(xs: Sequence[Tensor], ys: Sequence[Tensor]) -> None:
    """Raise ValueError if some tensors are on the meta device and others not."""
    meta = any(x.is_meta for x in xs)
    odd = [y.device for y in ys if y.is_meta is not meta]
    if odd:
        raise ValueError(
            f"an input is on {xs[0].device} and an output on {odd[0]}; the meta device "
            "keeps no numbers, so all of them or none on it are needed"
        )


def _strided(t: Tensor) -> bool:
    return t.layout is torch.strided


def kind_of(value: Any) -> str:
    """Return what a value is, with its article, for an error."""
    if value is None:
        return "None"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
