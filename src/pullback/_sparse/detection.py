"""Runs a function and lets index sets pass through every operation that it runs."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction

from pullback._graph import reach
from pullback._sparse import index_sets, rules
from pullback._sparse.call import Call, Result, Rule, name_of, spread
from pullback._sparse.index_sets import Sets
from pullback._sparse.memory import Memory
from pullback._torch import (
    QuietDispatchMode,
    decomposition,
    pytree,
    schema,
    storage_key,
    unwrap,
    variant,
    with_numbers,
)


def _addbmm(
    self: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    return torch.add(self * beta, torch.bmm(batch1, batch2).sum(0) * alpha)


def _mv(self: Tensor, vec: Tensor) -> Tensor:
    return torch.mm(self, vec.unsqueeze(1)).squeeze(1)


def _pdist(x: Tensor, p: float = 2) -> Tensor:
    i, j = torch.triu_indices(len(x), len(x), 1)
    distance: Tensor = torch.linalg.vector_norm(x[i] - x[j], p, dim=1)
    return distance


def _trilinear(
    i1: Tensor,
    i2: Tensor,
    i3: Tensor,
    expand1: list[int],
    expand2: list[int],
    expand3: list[int],
    sumdim: list[int],
    unroll_dim: int = 1,
) -> Tensor:
    factors = []
    for factor, dims in ((i1, expand1), (i2, expand2), (i3, expand3)):
        for dim in dims:
            factor = factor.unsqueeze(dim)
        factors.append(factor)
    return (factors[0] * factors[1] * factors[2]).sum(sumdim)


def _sparse_addmm(
    self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    return torch.add(self * beta, torch.mm(mat1, mat2) * alpha)


#: What PyTorch has no decomposition for, or none that a sparse constant can take.
PARTS = {
    "_pdist_forward": _pdist,
    "_sparse_addmm": _sparse_addmm,
    "_trilinear": _trilinear,
    "addbmm": _addbmm,
    "addmm": _sparse_addmm,
    "mv": _mv,
}


def hidden_branches(operator: str, error: Exception | None = None) -> RuntimeError:
    """Return the error for ``torch.cond`` and its like, which cannot be followed.

    It names the line of f that runs, or that an error comes from.
    """
    from pullback._live_recorder import at, place_in_f

    reason = (
        f"f runs torch.{operator}, whose branches are hidden from sparsity, which "
        "follows one operation after another; torch.where or a Python statement is "
        "needed (an if holds for the way that these inputs take, and a warning says so)"
    )
    return RuntimeError(at(reason, place_in_f(error)))


#: What returns no tensor, and shows f no value: what raises, as solve, inv and others ask
#: for, and what forward mode asks of a tangent's memory.
NO_BRANCH = {
    "aten._has_same_storage_numel.default",
    "aten._linalg_check_errors.default",
}


class Tracker(QuietDispatchMode):
    """Runs every operation, and its rule beside it.

    Args:
        x: The tensor whose elements are tracked.
        inputs: All that f is called with; what is not x can change, too.
    """

    def __init__(self, x: Tensor, inputs: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        n = x.numel()
        self.x = x
        self.memory = Memory(n + 1)
        self.dense: list[str] = []
        self.unrecorded = False  # whether f computes from x what no graph records
        for t in pytree.tree_leaves(inputs):
            if isinstance(t, Tensor) and t is not x and t.layout is torch.strided:
                self._mark_changing(t)
        self.memory.write(x, index_sets.singletons(n + 1))

    def pattern(self, y: Tensor) -> Any:
        """Return on which elements of x those of y depend, as a boolean CSR array."""
        self._see_captured(y)
        sets = index_sets.matrix(self.memory.read(y))[:, :-1].tocsr()
        sets.sum_duplicates()  # which also sorts
        return sets

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        args, kwargs = with_numbers((args, kwargs or {}))
        given = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
        for t in given:
            self._see_captured(t)
        random = torch.Tag.nondeterministic_seeded in func.tags
        known = not random and not any(self.memory.tracks(t) for t in given)
        if known or (any(t.is_meta for t in given) and not self.x.is_meta):
            # on meta, the rules of zeros without memory ask for shapes
            return func(*args, **kwargs)
        self.unrecorded = self.unrecorded or not torch.is_grad_enabled()
        if _is_view(func):
            with self:  # reshape, contiguous and to, called by a part, are views or copies
                parts = func.decompose(*args, **kwargs)
            return func(*args, **kwargs) if parts is NotImplemented else parts
        rule = rules.rule_of(func, given) if given else rules.fresh
        if rule is None:
            parts = self._take_apart(func, args, kwargs, given)
            if parts is not NotImplemented:
                self._remember_constants(parts)
                return parts
        if schema(func).is_mutable:
            return self._write(func, args, kwargs, rule or self._dense)
        result = func(*args, **kwargs)
        outputs = _new(result, given)
        for t in outputs:
            if t.layout is not torch.strided:
                raise TypeError(
                    f"f makes a tensor of layout {t.layout} ({func}) from what its inputs "
                    "decide; strided tensors are needed there (a constant one may have "
                    "any layout)"
                )
        if outputs:
            call = Call(func, args, kwargs, self.memory, outputs)
            self._remember(call, outputs, rules.find(rule or self._dense, call))
        elif not any(isinstance(t, Tensor) for t in pytree.tree_leaves(result)):
            self.look(func, given)
        return result

    def _see_captured(self, t: Tensor) -> None:
        """What requires grad and is not known is a parameter, and may change.

        Unless it comes from x by a way that no operation shows, as NumPy in the forward
        of a ``torch.autograd.Function``.
        """
        if not t.requires_grad or t.layout is not torch.strided:
            return
        hidden = isinstance(t.grad_fn, BackwardCFunction) and not self.memory.read(t).any
        if self.memory.tracks(t) and not hidden:
            return
        if t.grad_fn is not None and reach([t], [self.x]).used[0]:
            self.dense.append(t.grad_fn.name())
            everything = index_sets.merge(self.memory.read(self.x), self.x.numel())
            self.memory.write(t, spread(everything, t.numel()))
        elif not hidden:
            self._mark_changing(t)

    def _remember_constants(self, results: Any) -> None:
        """Say of results that nothing is known about that they have been seen."""
        for t in pytree.tree_leaves(results):
            strided = isinstance(t, Tensor) and t.layout is torch.strided
            if strided and not self.memory.tracks(t):
                self.memory.write(t, index_sets.empty(t.numel(), self.memory.columns))

    def _mark_changing(self, t: Tensor) -> None:
        self.memory.write(t, index_sets.only_changing(t.numel(), self.memory.columns))

    def _remember(self, call: Call, outputs: list[Tensor], sets: list[Sets]) -> None:
        for t, of_t in zip(outputs, sets, strict=True):
            self.memory.write(t, of_t)
        if call.low is not None:
            self.memory.mark_low(outputs[0], call.low)
        if call.anywhere:
            self.dense.append(call.name)

    def _write(self, func: Any, args: Any, kwargs: dict[str, Any], rule: Rule) -> Any:
        """An operation that writes into its arguments: its rule reads them before."""
        arguments = schema(func).arguments
        bound = {**dict(zip((a.name for a in arguments), args, strict=False)), **kwargs}
        written = [
            bound.get(a.name) for a in arguments if a.alias_info and a.alias_info.is_write
        ]
        outputs = [t for t in pytree.tree_leaves(written) if isinstance(t, Tensor)]
        before = Call(func, args, kwargs, self.memory, outputs)
        found = rules.find(rule, before)
        everything = before.everything(before.tensors())
        shapes = [t.shape for t in outputs]
        result = func(*args, **kwargs)
        if shapes != [t.shape for t in outputs]:
            raise NotImplementedError(f"{func} changed the shape of its output")
        self._remember(before, outputs, found)
        others = _new(result, [t for t in before.tensors() if t.layout is torch.strided])
        others = [t for t in others if not any(t is o for o in outputs)]
        for t in others:
            self.memory.write(t, spread(everything, t.numel()))
        return result

    def _take_apart(
        self, func: Any, args: Any, kwargs: dict[str, Any], given: list[Tensor]
    ) -> Any:
        """Let PyTorch decompose the operation, and follow the parts."""
        parts: Any = None if schema(func).is_mutable else PARTS.get(name_of(func))
        if parts is None and all(t.layout is torch.strided for t in given):
            parts = decomposition(func)
        with self:
            if parts is not None:
                return parts(*args, **kwargs)
            result = func.decompose(*args, **kwargs)
            if result is not NotImplemented or not schema(func).is_mutable:
                return result
            plain = variant(func, name_of(func))
            if plain is None or schema(plain).is_mutable:
                return NotImplemented
            return args[0].copy_(plain(*args, **kwargs))

    def _dense(self, call: Call) -> Result:
        """Each output from everything: what is true of any operation."""
        if not call.outputs:
            return []
        self.dense.append(call.name)
        everything = call.everything(call.tensors())
        return [spread(everything, t.numel()) for t in call.outputs]

    def read_past_operations(self, name: str, t: Tensor) -> None:
        """Warn if a method hands out what is tracked, as ``numpy`` does.

        Without grad mode it does not: there the forward of a ``torch.autograd.Function``
        may read what it likes, since its outputs are taken to depend on everything.
        """
        if torch.is_grad_enabled():
            self.look(name, [unwrap(t)])  # f may take derivatives itself

    def look(self, func: Any, given: list[Tensor]) -> None:
        """Warn if the values of what is given, which no output shows, may change."""
        if str(func) in NO_BRANCH:
            return
        if any(self.memory.tracks(t) and self.memory.read(t).any for t in given):
            warnings.warn(
                f"f looks at values that its inputs decide ({func}); the pattern holds "
                "for the way that these inputs take, and verify=True tells when "
                "another x takes another",
                stacklevel=2,
            )


def _is_view(func: Any) -> bool:
    """Tell whether the operation looks at its argument in another way, and no more."""
    returns = [r.alias_info for r in schema(func).returns]
    looks = any(alias is not None and not alias.is_write for alias in returns)
    return looks or torch.Tag.inplace_view in func.tags


def _new(result: Any, given: list[Tensor]) -> list[Tensor]:
    """Return the tensors in ``result`` that are not views of what was given."""
    old = {storage_key(t) for t in given if t.layout is torch.strided}
    return [
        t
        for t in pytree.tree_leaves(result)
        if isinstance(t, Tensor)
        and (t.layout is not torch.strided or storage_key(t) not in old)
    ]
