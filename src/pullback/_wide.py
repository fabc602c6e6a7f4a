"""What tells rounding from mistakes: float64 for less, and rounding at random."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from pullback._torch import (
    OpOverload,
    TorchDispatchMode,
    has_numbers,
    pytree,
    schema,
    storage_key,
)

WIDE = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}

#: Operations that round what they return.
ROUND = re.compile(
    r"""
    add|r?sub|mul|div|reciprocal|pow|square|addcmul|addcdiv|lerp|hypot|atan2|xlogy|sinc
    |expm?[12]?|log(1[0p]|2|it)?|r?sqrt|a?(sin|cos|tan)h?|sigmoid|log_sigmoid_forward
    |erf(c|inv)?|lgamma|digamma|polygamma|i0|special_\w+|softplus|gelu|silu|mish|s?elu
    |(nan)?sum|mean|prod|(var|std)(_mean)?|cum(sum|prod)|log(cum)?sumexp|logaddexp2?
    |_(log_)?softmax|norm|linalg_vector_norm|native_(layer|batch|group)_norm
    |_native_batch_norm_legit|_fused_rms_norm|v?dot|[mb]?mm|mv|add(mv|b?mm|r)|baddbmm
    |_addmm_activation|linear|_?convolution|_(c|p)dist_forward|_euclidean_dist|dist
    |cholesky|cholesky_(solve|inverse)|linalg_cholesky_ex|triangular_solve
    |_?linalg_(solve|inv|lu|qr|eigh?|svd|det|slogdet|lstsq|matrix_exp)\w*
    |(mse|smooth_l1|huber)_loss|nll_loss_forward|binary_cross_entropy(_with_logits)?
    |grid_sampler_[23]d|upsample_(bi|tri)?(linear|cubic)[123]d|_fft_\w+|scatter_add
    |index_add|_scaled_dot_product_flash_attention_for_cpu|\w+_backward
    """,
    re.VERBOSE,
)

#: What f raises where it cannot follow into float64; it has run before, without.
REFUSED = (RuntimeError, ValueError, TypeError, AssertionError)

#: What rounds more coarsely than this may hide what is no rounding.
COARSE = 1e-5

#: What rounds more finely than this is double precision.
FINE = 1e-10


def is_coarse(*ts: Tensor) -> bool:
    """Tell whether one of the tensors is in half precision, or less."""
    return any(torch.finfo(t.dtype).eps > COARSE for t in ts)


def is_single(*ts: Tensor) -> bool:
    """Tell whether what rounds most coarsely is single precision."""
    return COARSE > max(torch.finfo(t.dtype).eps for t in ts) > FINE


def run_in_float64(
    mode: InFloat64, f: Callable[..., Any], xs: Sequence[Tensor], ys: Sequence[Tensor]
) -> tuple[list[Tensor], list[Tensor]] | None:
    """Return leaves with the numbers of xs, and the outputs of f there, in float64.

    Args:
        mode: To be entered again for products with them.
        f: Function of the xs that returns tensors.
        xs: The inputs.
        ys: What f returned in the dtype that it was written for.

    Returns:
        None where f refuses float64, or gives something else there.
    """
    try:
        with mode, torch.enable_grad():
            leaves = [mode.widen(x.detach()).clone().requires_grad_() for x in xs]
            wide: list[Tensor] = pytree.tree_leaves(f(*leaves))
    except REFUSED:
        return None
    if [w.shape for w in wide] != [y.shape for y in ys]:
        return None
    for w, y in zip(wide, ys, strict=True):
        if w.dtype not in WIDE.values():
            return None
        narrow, w = y.detach().to(w.dtype), w.detach()
        size = float(w.abs().nan_to_num(0, 0, 0).max()) if w.numel() else 0.0
        slack = float(torch.finfo(y.dtype).eps) ** 0.5 * size
        if not torch.allclose(narrow, w, rtol=0, atol=slack, equal_nan=True):
            return None
    return leaves, wide


class SeesDtypes(TorchDispatchMode):
    """Sees in which precisions operations compute.

    Attributes:
        coarsest: The dtype with the largest rounding that was met.
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.coarsest = torch.float64

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **kwargs or {})
        for t in pytree.tree_leaves(out):
            if isinstance(t, Tensor) and t.dtype in WIDE:
                self.note(t.dtype)
        return out

    def note(self, dtype: torch.dtype) -> None:
        """Keep a dtype if it rounds more than those so far."""
        if torch.finfo(dtype).eps > torch.finfo(self.coarsest).eps:
            self.coarsest = dtype


class InFloat64(SeesDtypes):
    """Gives every operation copies in float64 of what it would take in less.

    So weights that f captures stay as they are, and f need not know: ``.float()`` gives
    float64, and what is written into a captured tensor goes into a copy that is dropped.
    """

    supports_higher_order_operators = False

    def __init__(self) -> None:
        super().__init__()
        self._mixed = _AtTheCall(self)

    def __enter__(self) -> InFloat64:
        self._mixed.__enter__()  # type: ignore[no-untyped-call]
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self._mixed.__exit__(*error)  # type: ignore[no-untyped-call]

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        args, kwargs = pytree.tree_map(self.widen, (args, kwargs or {}))
        return pytree.tree_map(self.widen, func(*args, **kwargs))

    def widen(self, value: Any) -> Any:
        """Return a tensor or a dtype in float64; anything else as it is."""
        if isinstance(value, Tensor) and value.dtype in WIDE:
            self.note(value.dtype)
            return value.to(WIDE[value.dtype])
        if isinstance(value, torch.dtype) and value in WIDE:
            self.note(value)
            return WIDE[value]
        return value


class RoundedAtRandom(TorchDispatchMode):
    """Moves what each operation returns by one unit of rounding, up or down at random.

    What f returns then moves by what rounding inside f comes to (Parker, *Monte Carlo
    Arithmetic*, 1997). Operations that do not round, such as a maximum or an index, are
    left alone, and so is zero.

    Args:
        xs: The inputs: moved is what depends on them; None for all.
        seed: Of the directions, from a generator of their own.
    """

    supports_higher_order_operators = True

    def __init__(self, xs: Sequence[Tensor] | None, seed: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._source = torch.Generator("cpu").manual_seed(seed)
        # memory that was freed and taken again counts, too: no more than too much noise
        self._reached = None if xs is None else {storage_key(x) for x in xs}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        output = func(*args, **kwargs)
        given = _tensors((args, kwargs))
        if self._reached is None or any(storage_key(t) in self._reached for t in given):
            if _rounds(func):
                output = pytree.tree_map(self._moved, output)
            if self._reached is not None:
                self._reached |= {storage_key(t) for t in _tensors((output, args[:1]))}
        return output

    def _moved(self, value: Any) -> Any:
        if not isinstance(value, Tensor) or not (
            value.is_floating_point() or value.is_complex()
        ):
            return value
        up = torch.randint(2, value.shape, generator=self._source, device="cpu")
        return value + value * (2 * up - 1).to(value.device) * torch.finfo(value.dtype).eps


def _tensors(tree: Any) -> list[Tensor]:
    """Return the tensors with memory."""
    leaves = [t for t in pytree.tree_leaves(tree) if isinstance(t, Tensor)]
    return [t for t in leaves if t.layout is torch.strided and has_numbers(t)]


def _rounds(func: Any) -> bool:
    """Tell whether an operation gives new numbers that it has rounded."""
    if not isinstance(func, OpOverload):
        return False
    name = schema(func).name.partition("::")[2]
    return ROUND.fullmatch(name) is not None


class _AtTheCall(TorchFunctionMode):
    """Widens where tensors of both kinds meet, which convolutions refuse on their way."""

    def __init__(self, wide: InFloat64) -> None:
        super().__init__()
        self._wide = wide

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if getattr(func, "__name__", "") == "cond":  # in 2.6 it ends the process here
            raise NotImplementedError("torch.cond does not run in float64")
        given = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
        dtypes = {t.dtype for t in given}
        if dtypes & WIDE.keys() and dtypes & set(WIDE.values()):
            args, kwargs = pytree.tree_map(self._wide.widen, (args, kwargs or {}))
        return func(*args, **(kwargs or {}))
