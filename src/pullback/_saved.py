"""Plans in files: ``torch.load`` takes them, whether torch or pullback comes first."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType


def plan(*values: Any) -> object:
    """Return the plan with these values, which is what a file holds of it."""
    import pullback

    return pullback.Sparsity(*values)


def let_torch_load_plans() -> None:
    """Tell torch that it may call :func:`plan`: now, or once it is imported."""
    serialization = sys.modules.get("torch.serialization")
    if serialization:
        serialization.add_safe_globals([plan])
    else:
        sys.meta_path.insert(0, _WhenTorchComes())


class _WhenTorchComes:
    """A finder of modules that finds one, as the others do, and then leaves."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return how to import ``torch.serialization`` and tell it; None for the others."""
        if name != "torch.serialization":
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        return spec and _telling(spec)


def _telling(spec: ModuleSpec) -> ModuleSpec:
    loader: Any = spec.loader
    execute = loader.exec_module

    def exec_and_tell(module: ModuleType) -> None:
        execute(module)
        module.add_safe_globals([plan])

    loader.exec_module = exec_and_tell
    return spec
