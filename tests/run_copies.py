"""Run scripts, each in a process of its own that has imported torch.

``python run_copies.py FILE…`` prints the traceback of each that fails, and then fails.
"""

import os
import runpy
import sys
import traceback

import matplotlib

matplotlib.use("agg")
import torch

import pullback

torch.set_num_threads(1)
assert "site-packages" in pullback.__file__, pullback.__file__


def passes(path: str) -> bool:
    """Return whether the file runs to its end."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == 0
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        runpy.run_path(path, run_name="__main__")
    except BaseException:
        print(path, traceback.format_exc(), file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    broken = [path for path in sys.argv[1:] if not passes(path)]
    sys.exit(f"failed: {broken}" if broken else 0)
