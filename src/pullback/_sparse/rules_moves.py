"""How index sets pass through operations that move elements or put them into places."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from pullback._sparse import index_sets as sets_of
from pullback._sparse.call import Call, Result, along, numbers, source, spread
from pullback._sparse.index_sets import Sets
from pullback._torch import pytree

# --- elements moved as they are -----------------------------------------------------

#: Which arguments hold the elements that the operation moves.
MOVES = {
    "_reshape_copy": "self",
    "_unsafe_index": "self",
    "_unsafe_masked_index": "self",
    "as_strided_copy": "self",
    "as_strided_scatter": "self src",
    "cat": "tensors",
    "channel_shuffle": "self",
    "constant_pad_nd": "self",
    "diag_embed": "self",
    "diagonal_copy": "self",
    "diagonal_scatter": "self src",
    "embedding": "weight",
    "expand_copy": "self",
    "flip": "self",
    "gather": "self",
    "im2col": "self",
    "index": "self",
    "index_select": "self",
    "masked_select": "self",
    "narrow_copy": "self",
    "permute_copy": "self",
    "pixel_shuffle": "self",
    "pixel_unshuffle": "self",
    "reflection_pad1d": "self",
    "reflection_pad2d": "self",
    "reflection_pad3d": "self",
    "repeat": "self",
    "replication_pad1d": "self",
    "replication_pad2d": "self",
    "replication_pad3d": "self",
    "roll": "self",
    "rot90": "self",
    "select_scatter": "self src",
    "slice_scatter": "self src",
    "stack": "tensors",
    "take": "self",
    "tril": "self",
    "triu": "self",
    "unfold_copy": "self",
    "upsample_nearest1d": "self",
    "upsample_nearest2d": "self",
    "upsample_nearest3d": "self",
    "view_copy": "self",
}


def moves(call: Call) -> Result:
    """Run the operation on the elements' numbers, and see where each has gone."""
    data = {name: call[name] for name in MOVES[call.name].split()}
    if call.unknown(*data):
        return moves_anywhere(call)
    leaves, structure = pytree.tree_flatten(data)
    numbered, total = [], 1
    for t in leaves:
        numbered.append(numbers(t, total))
        total += t.numel()
    args = {**call.args, **pytree.tree_unflatten(numbered, structure)}
    if call.name == "constant_pad_nd":
        args["value"] = 0
    rows = stack_operands(call, leaves)
    results = pytree.tree_leaves(call.func(**args))
    return [sets_of.select(rows, source(r)) for r in results]


def moves_anywhere(call: Call) -> Result:
    """The index itself can change: any element along its dimensions may come."""
    call.anywhere = True
    self = call[MOVES[call.name]]
    if call.name in ("gather", "index_select"):
        dims = [call["dim"] % max(self.ndim, 1)]
        args = {**call.args, "index": first(call["index"])}
    elif call.name == "embedding":
        dims = [0]
        args = {**call.args, "indices": first(call["indices"])}
    elif call.name == "index" and not any(
        i is not None and i.dtype in (torch.bool, torch.uint8) for i in call["indices"]
    ):
        dims = [d for d, i in enumerate(call["indices"]) if i is not None]
        zeros = [i if i is None else first(i) for i in call["indices"]]
        args = {**call.args, "indices": zeros}
    else:
        return [spread(call.everything(call.tensors()), t.numel()) for t in call.outputs]
    sets, left = along(call.read(self), self, dims)
    shape = [1 if d in dims else n for d, n in enumerate(self.shape)]
    number = torch.arange(1.0, left + 1, dtype=torch.float64, device="cpu")
    args[MOVES[call.name]] = number.reshape(shape)
    moved = call.func(**args)
    index = without_derivative_of(call, call.tensors(MOVES[call.name]))
    return sets_of.union(sets_of.select(sets, source(moved)), spread(index, moved.numel()))


def without_derivative_of(call: Call, tensors: list[Tensor]) -> Sets:
    """Return one set that says that the values change, if one of the tensors does."""
    everything = call.everything(tensors)
    if torch.is_grad_enabled():
        return sets_of.without_derivative(everything)
    return everything


def first(index: Tensor) -> Tensor:
    """Return an index of the same shape that takes the first element everywhere."""
    return torch.zeros(index.shape, dtype=index.dtype, device="cpu")


def stack_operands(call: Call, tensors: Sequence[Tensor]) -> Sets:
    """Return the sets of all tensors, one after another."""
    return sets_of.stack([call.read(t) for t in tensors])


# --- elements put into places of another tensor -------------------------------------

SCATTERS = {
    "_index_put_impl",
    "_unsafe_index_put",
    "index_add",
    "index_copy",
    "index_fill",
    "index_put",
    "index_reduce",
    "masked_scatter",
    "put",
    "scatter",
    "scatter_add",
    "scatter_reduce",
}


def scatters(call: Call) -> Result:
    """Find the places that are written by reading the places' own numbers there."""
    self, args = call["self"].expand(call.outputs[0].shape), call.args
    if call.unknown("self", "src", "values", "source", "value"):
        call.anywhere = True
        return spread(call.everything(call.tensors()), self.numel())
    place = numbers(self, 0)
    if "indices" in args:
        at = torch.ops.aten.index(place, args["indices"])
        values = args["values"].expand(at.shape)
    elif call.name == "put":
        at, values = place.take(args["index"]), args["source"].reshape(args["index"].shape)
    elif call.name == "masked_scatter":
        at = place[args["mask"].expand(self.shape)]
        values = args["source"].reshape(-1)[: at.numel()]
    elif call.name.startswith("scatter"):
        at = place.gather(args["dim"], args["index"])
        values = args.get("src", args.get("value"))
        if isinstance(values, Tensor) and values.ndim:
            values = values[tuple(slice(n) for n in at.shape)]
    else:
        at = place.index_select(args["dim"], args["index"])
        values = args.get("source", args.get("value"))
    adds = (
        call.name in ("scatter_add", "index_add")
        or args.get("accumulate", False)
        or args.get("include_self", False)
        or args.get("reduce") is not None
    )
    rows = at.reshape(-1).cpu().numpy().astype(np.int64)
    kept = call.read(self)
    if not adds:
        untouched = np.ones(self.numel(), bool)
        untouched[rows] = False
        kept = sets_of.keep(kept, untouched)
    if not isinstance(values, Tensor) or not call.memory.tracks(values):
        return kept
    new = call.read(values.expand(at.shape))
    pairs = (rows, np.arange(len(rows)))
    return sets_of.union(kept, sets_of.through(pairs, self.numel(), new))
