"""What building the site costs: clean, without executing, unchanged, one script edited.

Works on a copy of the repository. Prints and writes to ``results/build.json`` seconds on
the clock and of the processors, beside the load of the machine: on a busy one the clock
says little. Run ``python benchmarks/build.py`` on a calm machine (some minutes).
"""

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "docs/_ext"))
from sites import ROOT, copy_sources

RESULTS = ROOT / "benchmarks" / "results" / "build.json"
EDITED = Path("examples", "08_more_on_jacobians", "25_row_by_row.py")


def build(folder, *options):
    """Build the site in ``folder``; return what it cost in seconds."""
    jobs = str((os.cpu_count() or 1) + 1)  # as noxfile.py says
    command = [sys.executable, "-m", "sphinx", "-q", "-j", jobs, *options]
    before, start = os.times(), time.perf_counter()
    subprocess.run(
        [*command, "docs", "docs/_build/html"],
        cwd=folder,
        env={**os.environ, "MPLBACKEND": "agg", "PYTHONPATH": str(folder / "src")},
        check=True,
    )
    clock, after = time.perf_counter() - start, os.times()
    used = after.children_user + after.children_system
    used -= before.children_user + before.children_system
    return {"clock": round(clock, 2), "processors": round(used, 2)}


def own_seconds(folder):
    """Return the time that the code of each page took, one running beside another."""
    outputs = (folder / "docs" / "_build" / "outputs").rglob("*.json")
    return [json.loads(file.read_text(encoding="utf-8"))["seconds"] for file in outputs]


def main():
    """Build a copy of the site in each of the ways."""
    costs = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy_sources(folder)
        costs["clean"] = build(folder)
        seconds = own_seconds(folder)
        costs["nothing changed"] = build(folder)
        with (folder / EDITED).open("a") as script:
            script.write("# edited\n")
        costs["one script edited"] = build(folder)
        shutil.rmtree(folder / "docs" / "_build")
        shutil.rmtree(folder / "docs" / "auto_examples")
        costs["nothing executed"] = build(folder, "-D", "execution_pages=")
    own, processors = sum(seconds), os.cpu_count()
    bound = max(own / processors, costs["nothing executed"]["clock"])
    overhead = (costs["clean"]["clock"] - own / processors) / len(seconds)
    figures = {
        "costs in seconds": costs,
        "pages executed": len(seconds),
        "their own seconds": round(own, 1),
        "clean / larger of (own / processors, nothing executed)": round(
            costs["clean"]["clock"] / bound, 2
        ),
        "overhead per executed page in seconds": round(overhead, 2),
    }
    about = {
        "machine": platform.machine(),
        "processors": processors,
        "load": os.getloadavg(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("sphinx", "sphinx-gallery", "torch")},
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    print(json.dumps(figures, indent=2))
    RESULTS.write_text(json.dumps({**about, **figures}, indent=2) + "\n")


if __name__ == "__main__":
    main()
