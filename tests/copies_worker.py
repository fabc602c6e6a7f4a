"""Run scripts, each in a process and an empty folder of its own, with torch imported once.

Reads the path of a script from each line of its input; answers each with a line, the JSON
of what went wrong or of "". Whatever a script writes to standard error is wrong.
"""

import json
import os
import runpy
import shutil
import sys
import tempfile
import traceback
import warnings

import matplotlib

matplotlib.use("agg")
import torch

import pullback

#: What torch says of its own code on the first use of forward mode, from 2.14 on.
OF_TORCH = "`torch.jit.script` is deprecated"

torch.set_num_threads(1)
assert "site-packages" in pullback.__file__, pullback.__file__


def wrong_with(path: str) -> str:
    """Run a copy of the script; return what it wrote to standard error."""
    folder = tempfile.mkdtemp()
    copy = shutil.copy(path, folder)
    with tempfile.TemporaryFile() as error:
        if child := os.fork():
            status = os.waitpid(child, 0)[1]
            shutil.rmtree(folder)
            error.seek(0)
            return error.read().decode() or (f"it ended with {status}" if status else "")
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(error.fileno(), 2)
            os.chdir(folder)
            warnings.simplefilter("error", UserWarning)
            warnings.filterwarnings("ignore", OF_TORCH, FutureWarning)
            runpy.run_path(copy, run_name="__main__")
            sys.stderr.flush()
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(wrong_with(line.rstrip("\n"))), flush=True)
