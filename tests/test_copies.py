"""What readers take away are the examples that were executed, and they run alone.

A build executes them where no more can be imported than readers have. With the wheel in
the place of the sources, and warnings as errors, it is tried on request (some minutes).
"""

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from built import SITE, needs_site
from executed import EXAMPLES, PAGES, ROOT, blocks, name_of
from hatchling.builders.wheel import WheelBuilder

from pages import LIBRARIES, PRELOAD, RUNNER, run_jobs
from runner import Order


def files(wheel):
    """Return the contents of every file in a wheel, by name."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Return the package as a wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    (built,) = WheelBuilder(str(ROOT)).build(directory=str(folder))
    return Path(built)


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """Return a Python that can import the wheel and what readers have, and no more."""
    home = tmp_path_factory.mktemp("fresh")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    (packages,) = home.glob("lib/python*/site-packages")
    wanted, seen = [*LIBRARIES], set()
    while wanted:
        try:
            found = importlib.metadata.distribution(wanted.pop())
        except importlib.metadata.PackageNotFoundError:
            continue  # for another system
        if found.name in seen:
            continue
        seen.add(found.name)
        needs = [r for r in found.requires or [] if "extra ==" not in r]
        wanted += [re.match(r"[\w.-]+", r)[0] for r in needs]
        for top in {f.parts[0] for f in found.files or [] if f.parts[0] != ".."}:
            if top != "__pycache__" and not (packages / top).exists():
                (packages / top).symlink_to(found.locate_file(top))
    zipfile.ZipFile(wheel).extractall(packages)
    return home / "bin" / "python"


@pytest.mark.whole
def test_every_example_runs_alone(python):
    """As a build runs it, but with the wheel, no file that it names, and no warning."""
    jobs = [PAGES[page].job() for page in EXAMPLES]
    for job in jobs:
        job.update(strict=True, files={job["name"]: str(ROOT / job["name"])})
    order = Order(
        package="pullback",
        importable=LIBRARIES,
        preload=PRELOAD,
        processes=os.cpu_count() or 1,
        limit=120,
        jobs=jobs,
    )
    command = [str(python), "-E", "-s", str(RUNNER)]
    results = {
        result["name"]: result["failure"]
        for result in run_jobs(order, command, {"PATH": ""})
    }
    assert results == dict.fromkeys(map(name_of, EXAMPLES), "")


@needs_site
def test_downloads_are_the_examples():
    """Every script to the letter; every notebook has the code of its script."""
    for example in EXAMPLES:
        (script,) = (SITE / "_downloads").glob(f"*/{example.name}")
        assert script.read_bytes() == example.read_bytes()
        (notebook,) = (SITE / "_downloads").glob(f"*/{example.stem}.ipynb")
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        code = ["".join(c["source"]).strip() for c in cells if c["cell_type"] == "code"]
        code = [cell for cell in code if "_static/pullback" not in cell]
        assert code == [block.strip() for block in blocks(example)], example


@needs_site
def test_notebooks_install_the_package_from_this_site(wheel):
    """Those that import it do so in their first cell, from a wheel that is there."""
    assert files(SITE / "_static" / wheel.name) == files(wheel)
    installing = 0
    for path in (SITE / "_downloads").rglob("*.ipynb"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        code = ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]
        if any(re.search("^(import|from) pullback", cell, re.MULTILINE) for cell in code):
            known = r"^%pip install --quiet \w+://\S+/" if "%pip" in code[0] else r"^# .*: "
            assert re.search(rf"{known}_static/{wheel.name}$", code[0], re.MULTILINE)
            assert cells[0]["cell_type"] == "code"
            installing += 1
    assert installing >= 20
