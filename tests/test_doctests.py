"""The doctest runner really reads what it is meant to read."""

import os
import subprocess
import sys

import pytest
from executed import ROOT

WRONG = {
    "page.md": "```python\n>>> 1 + 1\n3\n```\n",
    "plain.md": "```python\nassert 1 + 1 == 3\n```\n",
    "module.py": '"""Two.\n\n>>> 1 + 1\n3\n"""\n',
}
RIGHT = {name: text.replace("3", "2") for name, text in WRONG.items()}


def doctest(tmp_path, name, text):
    package = tmp_path / ("src/pullback" if name.endswith(".py") else "docs")
    package.mkdir(parents=True)
    (package / name).write_text(text)
    (tmp_path / "conftest.py").write_text((ROOT / "conftest.py").read_text())
    alone = ["-p", "no:cacheprovider", "--confcutdir", tmp_path]
    command = [sys.executable, "-m", "pytest", "-q", *alone, package]
    env = {**os.environ, "PYTHONPATH": str(package)}
    return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_answer_is_caught(tmp_path, name):
    result = doctest(tmp_path, name, WRONG[name])
    assert result.returncode == 1, result.stdout
    assert "1 failed" in result.stdout


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_answer_passes(tmp_path, name):
    result = doctest(tmp_path, name, RIGHT[name])
    assert result.returncode == 0, result.stdout
    assert "1 passed" in result.stdout


def test_every_docstring_with_an_example_is_read():
    """A folder of the package more, and its examples would never run."""
    for module in (ROOT / "src" / "pullback").rglob("*.py"):
        if ">>> " in module.read_text():
            assert len(module.relative_to(ROOT / "src" / "pullback").parts) <= 2, module
