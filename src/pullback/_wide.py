"""Float64 for a function that was written for less: what tells rounding from mistakes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from pullback._torch import TorchDispatchMode, pytree

WIDE = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}


class InFloat64(TorchDispatchMode):
    """Gives every operation copies in float64 of what it would take in less.

    So weights that f captures stay as they are, and f need not know: ``.float()`` gives
    float64, and what is written into a captured tensor goes into a copy that is dropped.

    Attributes:
        coarsest: The dtype with the largest rounding that was met.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.coarsest = torch.float64
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
            self._meet(value.dtype)
            return value.to(WIDE[value.dtype])
        if isinstance(value, torch.dtype) and value in WIDE:
            self._meet(value)
            return WIDE[value]
        return value

    def _meet(self, dtype: torch.dtype) -> None:
        if torch.finfo(dtype).eps > torch.finfo(self.coarsest).eps:
            self.coarsest = dtype


class _AtTheCall(TorchFunctionMode):
    """Widens where tensors of both kinds meet, which convolutions refuse on their way."""

    def __init__(self, wide: InFloat64) -> None:
        super().__init__()
        self._wide = wide

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        given = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
        dtypes = {t.dtype for t in given}
        if dtypes & WIDE.keys() and dtypes & set(WIDE.values()):
            args, kwargs = pytree.tree_map(self._wide.widen, (args, kwargs or {}))
        return func(*args, **(kwargs or {}))
