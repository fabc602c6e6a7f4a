"""Take the measurements that the pages of chapter 7 show.

A page that finds no record measures for itself; so each is run in an empty folder, and
what it found is written to ``results``. Run ``python benchmarks/pages.py [name]``.
"""

import contextlib
import json
import runpy
import sys
import tempfile
from pathlib import Path

import matplotlib as mpl

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"


def main(wanted=""):
    """Run every page whose name contains ``wanted`` and record what it measured."""
    mpl.use("agg")
    for page in sorted(ROOT.glob("examples/07_measured/[0-9]*.py")):
        if wanted not in page.name:
            continue
        with tempfile.TemporaryDirectory() as empty, contextlib.chdir(empty):
            names = runpy.run_path(str(page), run_name="__main__")
        if "record" in names:
            result = RESULTS / f"{page.stem[3:]}.json"
            result.write_text(json.dumps(names["record"], indent=2) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:2])
