"""What readers take away runs where only torch, numpy, matplotlib and the wheel are.

Each example does, as a plain script; and what the built site offers is these examples.
"""

import importlib.metadata
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from built import SITE, needs_site
from executed import EXAMPLES, ROOT, blocks, name_of
from hatchling.builders.wheel import WheelBuilder

WORKER = ROOT / "tests" / "copies_worker.py"


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
def wrong_with(wheel, tmp_path_factory):
    """Return what runs a script in a fresh Python and returns what it had to object."""
    home = tmp_path_factory.mktemp("fresh")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    (packages,) = home.glob("lib/python*/site-packages")
    wanted, seen = ["torch", "numpy", "matplotlib", "scipy"], set()
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
    command = [home / "bin" / "python", "-I", WORKER]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env={"PATH": ""}, text=True, **pipes) as worker:

        def run(script):
            print(script, file=worker.stdin, flush=True)
            return json.loads(worker.stdout.readline())

        yield run
        worker.stdin.close()


@pytest.mark.parametrize("page", EXAMPLES, ids=name_of)
def test_example_runs_alone(wrong_with, page):
    """In an empty folder, warnings being errors, silent on standard error."""
    assert wrong_with(page) == ""


@pytest.mark.parametrize(
    ("code", "wrong"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("import sys; print('here', file=sys.stderr)", "here\n"),
        ("import warnings; warnings.warn('beware')", "UserWarning: beware"),
        ("import sphinx", "No module named 'sphinx'"),
        ("import os; os._exit(3)", "ended with"),
        ("import os; assert os.listdir() == ['a.py'], os.listdir()", ""),
    ],
)
def test_what_does_not_run_is_told(wrong_with, tmp_path, code, wrong):
    (tmp_path / "a.py").write_text(code)
    found = wrong_with(tmp_path / "a.py")
    assert wrong in found
    assert bool(wrong) == bool(found)


@needs_site
def test_downloads_are_the_examples():
    """Every script to the letter; every notebook has the code of its script."""
    for example in EXAMPLES:
        (script,) = (SITE / "_downloads").glob(f"*/{example.name}")
        assert script.read_bytes() == example.read_bytes()
        (notebook,) = (SITE / "_downloads").glob(f"*/{example.stem}.ipynb")
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        code = ["".join(c["source"]).strip() for c in cells if c["cell_type"] == "code"]
        code = [cell for cell in code if "%pip" not in cell]
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
            url = re.search(r"^%pip install --quiet (\S+)$", code[0], re.MULTILINE)[1]
            assert url.endswith(f"/_static/{wheel.name}")
            assert cells[0]["cell_type"] == "code"
            installing += 1
    assert installing >= 20
