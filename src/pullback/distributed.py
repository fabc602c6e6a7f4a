"""A Jacobian whose products the processes of ``torch.distributed`` share.

Every process of a group makes the same call with the same f and inputs, runs f, takes its
part of the rows (of the columns with ``mode="forward"``), and has the whole of J at the
end, without a graph. An error in one process is an error in all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Unpack

import torch
from torch import Tensor

from pullback._inputs import Keywords
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
    **options: Unpack[Keywords],
) -> Any:
    """Return what :func:`pullback.jacobian` does, on every process of the group.

    Args:
        f: As there; the same function on every process, and for a random one the same
            seed.
        *inputs: As there; the same on every process.
        group: Processes that share the work, such as ``torch.distributed.group.WORLD``.
        argnums: As there.
        **options: Those of :func:`pullback.jacobian`, without ``has_aux`` and
            ``create_graph``. ``mode="forward"`` shares the columns, anything else the
            rows; ``chunk_size`` counts the products at a time on each process, and
            ``progress`` shows the part of this one.

    Returns:
        J, on the device of the inputs, without a graph.

    Raises:
        TypeError: as there, or ``group`` is no process group that this process is in.
        ValueError: as there, an input is on the meta device, or the processes have
            different inputs or outputs.
        RuntimeError: as there, another process has raised, or the call is inside a
            transform of ``torch.func``.
    """
    return value_and_jacobian(f, *inputs, group=group, argnums=argnums, **options)[1]


def value_and_jacobian(
    f: Callable[..., Any] | Tensor,
    *inputs: Any,
    group: ProcessGroup,
    argnums: int | tuple[int, ...] = 0,
    **options: Unpack[Keywords],
) -> tuple[Any, Any]:
    """Return ``(f(*inputs), J)``, both as :func:`jacobian` does."""
    for name in options.keys() - Keywords.__annotations__:
        raise TypeError(f"{name} is no option of pullback.distributed.jacobian")
    shared = SharedProducts(group)
    with torch.no_grad(), shared.together():  # what is gathered has no graph
        return dense(f, inputs, argnums, Options(**options, group=shared))
