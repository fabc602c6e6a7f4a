"""``python -m MODULE``, forked from a process that has made the slow imports, once.

To import torch, or what builds a site, takes longer than most of what tests do with it.
"""

import functools
import gc
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
import warnings
from multiprocessing import forkserver
from pathlib import Path

import pytest

IMPORTS = ["torch._dynamo", "execution", "myst_nb", "sphinx_gallery.gen_gallery"]
STREAMS = ("stdin", "stdout", "stderr")


@functools.cache
def server():
    """Return what forks a process from one that has made the imports that there are."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTS)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        forkserver.ensure_running()
    return context


def run_module(name, *arguments, folder, environment=None, text="", quiet=False):
    """Run a module as a program, which warns of nothing if it is quiet; return its end."""
    with tempfile.TemporaryDirectory() as place:
        files = [Path(place, stream) for stream in STREAMS]
        for file, content in zip(files, (text, "", ""), strict=True):
            file.write_text(content, encoding="utf-8")
        environment = {**(os.environ if environment is None else environment)}
        given = (name, arguments, folder, environment, files, quiet)
        child = server().Process(target=be_module, args=given)
        child.start()
        child.join()
        out, err = (file.read_text(encoding="utf-8") for file in files[1:])
    return subprocess.CompletedProcess([name, *arguments], child.exitcode, out, err)


def run_code(code):
    """Run a program of that code; return how it ended."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "program.py").write_text(code, encoding="utf-8")
        return run_module("program", folder=folder)


def be_module(name, arguments, folder, environment, files, quiet):
    """Be the program."""
    for number, (stream, file) in enumerate(zip(STREAMS, files, strict=True)):
        with file.open("r+b") as opened:
            os.dup2(opened.fileno(), number)
        mode = "w" if number else "r"
        setattr(sys, stream, os.fdopen(number, mode, encoding="utf-8", closefd=False))
    gc.freeze()  # what is imported stays, and need not be walked again and again
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.path[:0] = [os.getcwd(), *environment.get("PYTHONPATH", "").split(os.pathsep)]
    sys.argv = [name, *arguments]
    if quiet:
        warnings.simplefilter("ignore")
    try:
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    except Exception:
        sys.excepthook(*sys.exc_info())
        sys.exit(1)
