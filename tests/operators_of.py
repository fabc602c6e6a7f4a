"""Print which operators of ATen a script runs, and what a live picture makes of each.

``python operators_of.py SCRIPT`` runs a script of the gallery and takes down a call of each
operator that gets real numbers, the smallest. Each is then a function of its first tensor:
a program is written of it and run in the script's engine, or it is refused. Prints JSON: by
the name of the operator, ``computed`` or the reason of the refusal.
"""

import contextlib
import io
import json
import os
import re
import runpy
import sys
import warnings
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "docs" / "_ext"))

from certified import engine
from pullback._inputs import Untouched
from pullback._live_recorder import Recorder, named
from pullback._readers import SeeReaders
from pullback._torch import OpOverload, TorchDispatchMode, pytree

RUN = """([x, program]) => {
    const at = live.run(program, x.map(n => Number(n.replace("inf", "Infinity"))), [0]);
    return program.outputs.map(i => at[i].map(String));
}"""
AGREE = 1e-11  # of one call, with numbers of one size
LARGEST = 10_000  # numbers in the arguments of a call


class Calls(TorchDispatchMode):
    """Keeps the smallest call of each operator that real numbers go into."""

    supports_higher_order_operators = True

    def __init__(self):
        super().__init__()
        self.smallest = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Keep the arguments of a call that works if they are the smallest so far."""
        kwargs, kept = kwargs or {}, {}
        if isinstance(func, OpOverload) and func.namespace == "aten":
            kept = self.smaller(func, args, kwargs)  # before the call writes into them
        out = func(*args, **kwargs)
        self.smallest.update(kept)
        return out

    def smaller(self, func, args, kwargs):
        """Return arguments with real numbers; most have been seen before, as large."""
        parts = pytree.tree_leaves((args, kwargs))
        tensors = [t for t in parts if isinstance(t, torch.Tensor)]
        size = sum(t.numel() for t in tensors)
        if size >= self.smallest.get(func, (LARGEST + 1,))[0]:
            return {}
        devices = [*(t.device for t in tensors), kwargs.get("device")]
        if not any(map(is_real, tensors)) or torch.device("meta") in devices:
            return {}
        return {func: (size, *pytree.tree_map(copied, (args, kwargs)))}


def is_real(t):
    """Tell whether a value is a dense tensor of real numbers, and of no other kind."""
    plain = type(t) in (torch.Tensor, torch.nn.Parameter) and t.is_floating_point()
    return plain and t.layout is torch.strided and t.numel() > 0


def copied(t):
    """Return a copy of a tensor, with its strides."""
    return t.detach().clone() if isinstance(t, torch.Tensor) else t


def outcome(func, args, kwargs):
    """Return what a live picture makes of a call as a function of a real tensor in it."""
    leaves, structure = pytree.tree_flatten((args, kwargs))
    place = next(i for i, t in enumerate(leaves) if is_real(t))

    def f(x):
        given = [x if i == place else copied(t) for i, t in enumerate(leaves)]
        args, kwargs = pytree.tree_unflatten(given, structure)
        return func(*args, **kwargs)

    x = leaves[place].double().clone(memory_format=torch.contiguous_format)
    numbers = x.flatten().tolist()  # before f writes into it
    recorder = Recorder(x, torch.zeros(1).double())
    with Untouched(), torch.no_grad():
        try:
            with recorder, SeeReaders(recorder.read_past_operations):
                results = tensors_of(f(x))
        except NotImplementedError as error:
            return re.sub(r"\b\d{4,}", "N", str(error).partition(";")[0])
        except RuntimeError as error:  # which live takes for this, too
            assert "must be a float tensor" in str(error), error
            return "takes float32 alone"
        nodes = [recorder.read(t) for t in results]
        told = json.dumps([[*map(str, numbers)], recorder.program.data(nodes)])
        pages = json.loads(str(engine().eval(f"JSON.stringify(({RUN})({told}))")))
    for t, page in zip(results, pages, strict=True):
        wanted = t.double().flatten()
        given = torch.tensor([float(n) for n in page], dtype=torch.float64)
        torch.testing.assert_close(given, wanted, rtol=AGREE, atol=AGREE, equal_nan=True)
    return "computed"


def tensors_of(out):
    """Return the tensors in a result."""
    leaves = pytree.tree_leaves(out)
    return [t for t in leaves if isinstance(t, torch.Tensor) and t.numel()]


def main(script):
    """Run a script and print what becomes of its operators."""
    os.chdir(Path(script).parent)
    sys.path.insert(0, str(Path(script).parent))
    quiet = contextlib.redirect_stdout(io.StringIO())
    with Calls() as calls, quiet, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runpy.run_path(script, run_name="__main__")
    found = {}
    for func, (_, args, kwargs) in calls.smallest.items():
        found.setdefault(named(func), set()).add(outcome(func, args, kwargs))
    print(json.dumps({name: sorted(found[name]) for name in sorted(found)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
