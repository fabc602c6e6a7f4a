"""Tests that look at the site or into a browser say so where they cannot."""

import os
import subprocess
import sys

import pytest
from built import look_at_site
from sites import write

from pages import sources

FILES = {"docs/index.md": "# Home", "docs/_build/html/index.html": "", "src/a.py": ""}


def test_a_site_of_other_sources_fails_what_looks_at_it(tmp_path):
    site = tmp_path / "docs" / "_build" / "html"
    with pytest.raises(pytest.skip.Exception, match="no built site"):
        look_at_site(site, tmp_path)
    write(tmp_path, FILES)
    with pytest.raises(pytest.fail.Exception, match="run `nox -s docs`"):
        look_at_site(site, tmp_path)
    site.with_name("built.txt").write_text(sources(tmp_path))
    write(tmp_path, {"docs/errors/of-a-build.md": "", "src/__pycache__/a.pyc": ""})
    look_at_site(site, tmp_path)
    write(tmp_path, {"src/a.py": "1"})
    with pytest.raises(pytest.fail.Exception, match="of other sources"):
        look_at_site(site, tmp_path)


@pytest.mark.parametrize("host", ["", "true"])
def test_on_a_host_a_missing_browser_is_an_error(host, tmp_path):
    environment = {**os.environ, "PATH": str(tmp_path), "CI": host}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    ran = subprocess.run(
        [sys.executable, "-c", "import built"],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert ("Chromium is not installed" in ran.stderr) == bool(ran.returncode) == bool(host)
