"""What readers take away from the built site runs where only its wheel is installed."""

import importlib.metadata
import json
import re
import subprocess
import sys
import zipfile

import pytest
from built import SITE, needs_site
from executed import ROOT
from sphinx_gallery.py_source_parser import split_code_and_text_blocks

pytestmark = needs_site


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """Return a fresh Python that has torch, numpy, matplotlib, scipy and our wheel."""
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
    (wheel,) = (SITE / "_static").glob("*.whl")
    zipfile.ZipFile(wheel).extractall(packages)
    return home


def code_of(notebook):
    """Return the code cells of a notebook, but for the one that installs."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    code = ["".join(c["source"]).strip() for c in cells if c["cell_type"] == "code"]
    return [cell for cell in code if "%pip" not in cell]


def test_downloads_run_in_a_fresh_environment(fresh):
    """Every script, in an empty folder; every notebook has the code of its script."""
    scripts = sorted((SITE / "_downloads").rglob("*.py"))
    assert len(scripts) >= 54
    notebooks = [code_of(n) for n in (SITE / "_downloads").rglob("*.ipynb")]
    for script in scripts:
        _, blocks = split_code_and_text_blocks(script)
        code = [text.strip() for kind, text, _ in blocks if kind == "code"]
        assert [cell for cell in code if cell] in notebooks, script.stem
    assert len(notebooks) == len(scripts)
    command = [fresh / "bin" / "python", ROOT / "tests" / "run_copies.py", *scripts]
    (fresh / "empty").mkdir()
    done = subprocess.run(
        command, cwd=fresh / "empty", env={"PATH": ""}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]


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
