"""What readers take away from the built site runs where only its wheel is installed."""

import importlib.metadata
import json
import re
import subprocess
import sys
import zipfile

import pytest
from built import SITE, needs_site

pytestmark = needs_site

RUN = """
import json, os, runpy, sys
import matplotlib
matplotlib.use("agg")
import torch
torch.set_num_threads(1)
import pullback
assert "site-packages" in pullback.__file__, pullback.__file__
broken = []
for path in sys.argv[1:]:
    if (child := os.fork()) == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if path.endswith(".ipynb"):
            cells = json.load(open(path))["cells"]
            code = [c["source"] for c in cells if c["cell_type"] == "code"]
            lines = "\n".join("".join(c) for c in code).splitlines()
            path = "notebook.py"
            open(path, "w").write("\n".join(l for l in lines if not l.startswith("%")))
        runpy.run_path(path, run_name="__main__")
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        broken.append(path)
sys.exit(f"failed: {broken}" if broken else 0)
"""


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """Return a fresh Python that has torch, numpy, matplotlib and the served wheel."""
    home = tmp_path_factory.mktemp("fresh")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    (packages,) = home.glob("lib/python*/site-packages")
    wanted, seen = ["torch", "numpy", "matplotlib"], set()
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
    (wheel,) = (SITE / "_static").glob("*.whl")
    zipfile.ZipFile(wheel).extractall(packages)
    return home


@pytest.mark.parametrize("kind", ["py", "ipynb"])
def test_downloads_run_in_a_fresh_environment(fresh, kind):
    """Every script and notebook that a page offers, in an empty folder."""
    files = sorted(map(str, (SITE / "_downloads").rglob(f"*.{kind}")))
    assert len(files) >= 54
    folder = fresh / kind
    folder.mkdir()
    command = [fresh / "bin" / "python", "-c", RUN, *files]
    done = subprocess.run(command, cwd=folder, env={"PATH": ""}, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()[-3000:]


def test_notebooks_install_the_package_from_this_site():
    """Those that import it do so in their first cell, from a wheel that is there."""
    installing = 0
    for path in (SITE / "_downloads").rglob("*.ipynb"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        code = ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]
        if any(re.search("^(import|from) pullback", cell, re.MULTILINE) for cell in code):
            url = re.search(r"^%pip install --quiet (\S+)$", code[0], re.MULTILINE)[1]
            assert (SITE / "_static" / url.rpartition("/")[2]).exists()
            assert cells[0]["cell_type"] == "code"
            installing += 1
    assert installing >= 20
