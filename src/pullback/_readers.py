"""What reads the numbers of a tensor past all operations, and a mode that sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode

#: Methods that hand a tensor's numbers out without an operation, past the graph.
READERS = {"__array__", "__dlpack__", "__dlpack_device__", "numpy", "tolist"}


class SeeReaders(TorchFunctionMode):
    """Sees each of :data:`READERS` before it runs.

    Args:
        look: Called with the name of the method, and the tensor that it reads.
        no_branches: Gives the error to raise for ``torch.cond``, in place of running it: in
            2.6 it ends the process under a mode.
    """

    def __init__(
        self,
        look: Callable[[str, Tensor], None],
        no_branches: Callable[[str], Exception] | None = None,
    ) -> None:
        super().__init__()
        self._look, self._no_branches = look, no_branches

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name == "cond" and self._no_branches is not None:
            raise self._no_branches(name)
        if name in READERS:
            self._look(name, args[0])
        return func(*args, **kwargs or {})
