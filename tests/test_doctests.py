"""The doctest runner really reads what it is meant to read."""

import os
import re
import subprocess
import sys

from executed import ROOT
from sites import write

WRONG = {
    "docs/page.md": "```python\n>>> 1 + 1\n3\n```\n",
    "docs/plain.md": "```python\nassert 1 + 1 == 3\n```\n",
    "src/pullback/module.py": '"""Two.\n\n>>> 1 + 1\n3\n"""\n',
}
RIGHT = {name: text.replace("3", "2") for name, text in WRONG.items()}


def doctest(folder, files):
    """Return what comes of the one example in each file."""
    write(folder, {"conftest.py": (ROOT / "conftest.py").read_text("utf-8"), **files})
    alone = ["-p", "no:cacheprovider", "--confcutdir", folder]
    command = [sys.executable, "-m", "pytest", "-q", "-rA", *alone, "docs", "src"]
    path = {"PYTHONPATH": str(folder / "src/pullback")}
    env = os.environ | path | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # none is needed
    ran = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    found = re.findall(r"^(PASSED|FAILED) (\S+?)::", ran.stdout, re.M)
    assert len(found) == len(files), ran.stdout
    return {name: outcome for outcome, name in found}


def test_a_wrong_answer_is_caught(tmp_path):
    assert doctest(tmp_path, WRONG) == dict.fromkeys(WRONG, "FAILED")


def test_a_right_answer_passes(tmp_path):
    assert doctest(tmp_path, RIGHT) == dict.fromkeys(RIGHT, "PASSED")


def test_every_docstring_with_an_example_is_read():
    """A folder of the package more, and its examples would never run."""
    for module in (ROOT / "src" / "pullback").rglob("*.py"):
        if ">>> " in module.read_text():
            assert len(module.relative_to(ROOT / "src" / "pullback").parts) <= 2, module
