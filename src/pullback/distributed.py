"""A Jacobian whose products the processes of ``torch.distributed`` share.

Every process of a group makes the same call with the same f and inputs, runs f, takes its
part of the rows (of the columns with ``mode="forward"``), and has the whole of J at the
end, without a graph. An error in one process is an error in all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from pullback._inputs import ChunkSize, Mode
from pullback._jacobian import dense
from pullback._process_group import SharedProducts
from pullback._products import Options

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

__all__ = ["jacobian", "value_and_jacobian"]


def jacobian(
    f: Callable[..., Any] | Tensor,
    *inputs: Any,
    group: ProcessGroup,
    argnums: int | tuple[int, ...] = 0,
    mode: Mode = "auto",
    chunk_size: ChunkSize = None,
    batched: bool = False,
    allow_unused: bool = False,
    progress: bool = False,
) -> Any:
    """Return what :func:`pullback.jacobian` does, on every process of the group.

    Args:
        f: As there; the same function on every process, and for a random one the same
            seed.
        *inputs: As there; the same on every process.
        group: Processes that share the work, such as ``torch.distributed.group.WORLD``.
        argnums: As there, and so are the options that follow.
        mode: ``"forward"`` shares the columns, anything else the rows.
        chunk_size: Products at a time on each process.
        batched: Whether f treats samples on their own.
        allow_unused: Whether an input that no output depends on gives zeros.
        progress: Show a bar over the part of this process.

    Returns:
        J, on the device of the inputs, without a graph.

    Raises:
        TypeError: as there, or ``group`` is no process group that this process is in.
        ValueError: as there, an input is on the meta device, or the processes have
            different inputs or outputs.
        RuntimeError: as there, another process has raised, or the call is inside a
            transform of ``torch.func``.
    """
    options = Options(mode, chunk_size, batched, allow_unused, progress)
    return _compute_together(f, inputs, argnums, options, group)[1]


def value_and_jacobian(
    f: Callable[..., Any] | Tensor,
    *inputs: Any,
    group: ProcessGroup,
    argnums: int | tuple[int, ...] = 0,
    mode: Mode = "auto",
    chunk_size: ChunkSize = None,
    batched: bool = False,
    allow_unused: bool = False,
    progress: bool = False,
) -> tuple[Any, Any]:
    """Return ``(f(*inputs), J)``, both as :func:`jacobian` does."""
    options = Options(mode, chunk_size, batched, allow_unused, progress)
    return _compute_together(f, inputs, argnums, options, group)


def _compute_together(
    f: Callable[..., Any] | Tensor,
    inputs: tuple[Any, ...],
    argnums: int | tuple[int, ...],
    options: Options,
    group: ProcessGroup,
) -> tuple[Any, Any]:
    shared = SharedProducts(group)
    with torch.no_grad(), shared.together():  # what is gathered has no graph
        return dense(f, inputs, argnums, options._replace(group=shared))
