"""Runs a function and lets index sets pass through every operation that it runs."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._decomp import decomposition_table
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from pullback import _index_sets, _rules
from pullback._index_sets import Memory, Sets


class Tracker(TorchDispatchMode):
    """Runs every operation, and its rule beside it.

    Args:
        x: The tensor whose elements are tracked.
        inputs: All that f is called with; what is not x can change, too.
    """

    def __init__(self, x: Tensor, inputs: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        n = x.numel()
        self.memory = Memory(n + 1)
        self.dense: list[str] = []
        for t in pytree.tree_leaves(inputs):
            if isinstance(t, Tensor) and t is not x and t.layout is torch.strided:
                self._changes(t)
        self.memory.write(x, _index_sets.singletons(np.arange(n), n + 1))

    def pattern(self, y: Tensor) -> Any:
        """Return on which elements of x those of y depend, as a boolean CSR array."""
        sets = self.memory.read(y)[:, :-1].tocsr()
        sets.sum_duplicates()  # which also sorts
        return sets

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        given = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
        for t in given:
            self._captured(t)
        random = torch.Tag.nondeterministic_seeded in func.tags
        known = not random and not any(self.memory.tracks(t) for t in given)
        if known or torch.Tag.inplace_view in func.tags:
            return func(*args, **kwargs)
        rule = _rules.rule_of(func) if given else _rules.fresh
        if func._schema.is_mutable:
            return self._write(func, args, kwargs, rule)
        if rule is None:
            taken_apart = self._decompose(func, args, kwargs)
            if taken_apart is not NotImplemented:
                return taken_apart
        result = func(*args, **kwargs)
        leaves = pytree.tree_leaves(result)
        inputs = {t.untyped_storage()._cdata for t in given if t.layout is torch.strided}
        outputs = [
            t
            for t in leaves
            if isinstance(t, Tensor)
            and (t.layout is not torch.strided or t.untyped_storage()._cdata not in inputs)
        ]
        self._remember(_rules.Call(func, args, kwargs, self.memory, outputs), rule)
        if len(outputs) < len(leaves) and not any(isinstance(t, Tensor) for t in leaves):
            self._look(func, given)
        return result

    def _captured(self, t: Tensor) -> None:
        """What requires grad and is not known is a parameter, and may change."""
        if t.requires_grad and t.layout is torch.strided and not self.memory.tracks(t):
            self._changes(t)

    def _changes(self, t: Tensor) -> None:
        n = self.memory.columns
        self.memory.write(t, _index_sets.singletons(np.full(t.numel(), n - 1), n))

    def _remember(self, what: _rules.Call, rule: _rules.Rule | None) -> None:
        if not what.outputs:
            return
        if rule is None:
            self.dense.append(what.name)
            rule = _dense
        for t, sets in zip(what.outputs, _rules.find(rule, what), strict=True):
            self.memory.write(t, sets)

    def _write(
        self, func: Any, args: Any, kwargs: dict[str, Any], rule: _rules.Rule | None
    ) -> Any:
        """An operation that writes into its arguments: its rule reads them before."""
        names = [a.name for a in func._schema.arguments]
        bound = {**dict(zip(names, args, strict=False)), **kwargs}
        written = [
            bound[a.name]
            for a in func._schema.arguments
            if a.alias_info is not None and a.alias_info.is_write and a.name in bound
        ]
        outputs = [t for t in pytree.tree_leaves(written) if isinstance(t, Tensor)]
        if rule is None and not func._schema.name.endswith("__") and len(outputs) == 1:
            packet = getattr(torch.ops.aten, _rules.name_of(func), None)
            plain = getattr(packet, func._overloadname, None)
            if plain is not None and not plain._schema.is_mutable:
                with self:
                    return outputs[0].copy_(plain(*args, **kwargs))
        what = _rules.Call(func, args, kwargs, self.memory, outputs)
        shapes = [t.shape for t in outputs]
        found = self._sets_before(what, rule)
        result = func(*args, **kwargs)
        if shapes != [t.shape for t in outputs]:
            raise NotImplementedError(f"{func} resizes its output")
        for t, sets in zip(outputs, found, strict=True):
            self.memory.write(t, sets)
        return result

    def _sets_before(self, what: _rules.Call, rule: _rules.Rule | None) -> list[Sets]:
        if rule is None:
            self.dense.append(what.name)
            rule = _dense
        return _rules.find(rule, what)

    def _decompose(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Let PyTorch take the operation apart, and follow the parts."""
        parts = decomposition_table.get(func)
        with self:
            if parts is not None:
                return parts(*args, **kwargs)
            return func.decompose(*args, **kwargs)

    def _look(self, func: Any, given: list[Tensor]) -> None:
        if any(self.memory.tracks(t) and self.memory.read(t).nnz for t in given):
            warnings.warn(
                f"f looks at values that its inputs decide ({func}); the pattern holds "
                "for the way that these inputs take, and verify=True tells when "
                "another x takes another",
                stacklevel=2,
            )


def _dense(call: _rules.Call) -> _rules.Result:
    everything = call.everything(call.tensors())
    return [_rules.spread(everything, t.numel()) for t in call.outputs]
