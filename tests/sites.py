"""Builds sites in folders of their own and looks at what was executed and published."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

from forks import run_module

from pages import SKIPPED, SOURCES

ROOT = Path(__file__).parents[1]
OF_A_START = {"PYTHONHASHSEED", "LC_ALL"}  # what no process that is forked takes up
GALLERY = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": ".py",
    "backreferences_dir": "api",
    "min_reported_time": 1e9,
    "write_computation_times": False,
}


def copy_sources(folder):
    """Copy all that the site is built from, and nothing that a build made."""
    ignore = shutil.ignore_patterns(*SKIPPED, "__pycache__")
    for part in SOURCES:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, folder / part, ignore=ignore)
        else:
            shutil.copy(ROOT / part, folder)


def write(folder, files):
    """Write files, given by their names below a folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text).lstrip("\n") + "\n")


def conf(*extensions, **settings):
    """Return the text of a conf.py: extensions, ours or others, and what they are told."""
    gallery = "sphinx_gallery.gen_gallery" in extensions
    if gallery:
        settings |= {"html_copy_source": False, "sphinx_gallery_conf": GALLERY}
    settings = {"project": "Tiny", "extensions": [*extensions]} | settings
    lines = ["import sys", f"sys.path.insert(0, {str(ROOT / 'docs' / '_ext')!r})"]
    lines += [f"{name} = {value!r}" for name, value in settings.items()]
    if gallery:
        lines += ["def setup(app):", "    app.registry.source_suffix.pop('.ipynb', None)"]
    return "\n".join(lines)


class Site:
    """A site whose sources are in ``docs``, ``examples`` and ``src`` of a folder."""

    def __init__(self, folder):
        self.folder, self.html = folder, folder / "docs" / "_build" / "html"

    def edit(self, name, old, new):
        path = self.folder / name
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))

    def build(self, *options, fails=False, **environment):
        """Build the site; return the names of the pages that were executed."""
        options = options or ("-n", "-W", "--keep-going")
        start = environment.keys() & OF_A_START
        environment = {
            **os.environ,
            "MPLBACKEND": "agg",
            "NO_COLOR": "1",
            "PYTHONPATH": str(self.folder / "src"),
            **environment,
        }
        command = ["sphinx", *options, "docs", "docs/_build/html"]
        if start:
            result = subprocess.run(
                [sys.executable, "-m", *command],
                cwd=self.folder,
                env=environment,
                capture_output=True,
                text=True,
            )
        else:
            result = run_module(*command, folder=self.folder, environment=environment)
        self.said = result.stdout + result.stderr
        assert bool(result.returncode) == fails, self.said
        self.order = re.findall(r"executing pages\.\.\. .*?\] (\S+) \(", result.stdout)
        return set(self.order)

    def page(self, source):
        """Return the HTML of a page, which is named by its source."""
        docname = source.rpartition(".")[0].removeprefix("docs/")
        gallery = docname.replace("examples/", "auto_examples/", 1)
        return (self.html / f"{gallery}.html").read_text()

    def published(self):
        """Return every file of the site with its content, Sphinx's own notes left out."""
        files = (file for file in self.html.rglob("*") if file.is_file())
        return {
            file.relative_to(self.html).as_posix(): file.read_bytes()
            for file in files
            if ".doctrees" not in file.parts and file.name != ".buildinfo"
        }


def build_apart(first, second, pages, *options):
    """Build two copies of a site in opposite orders, all else as different as can be."""
    there = {
        "PYTHONHASHSEED": "6",
        "TZ": "Asia/Tokyo",
        "LC_ALL": "C.UTF-8",
        "COLUMNS": "50",
    }
    here = {"PYTHONHASHSEED": "4", "TZ": "UTC", "LC_ALL": "C", "COLUMNS": "150"}
    for sign, site, environment in (1, first, here), (-1, second, there):
        # What took longest the last time is executed first.
        for i, page in enumerate(sorted(pages)):
            ran = {"seconds": sign * i, "folders": []}
            write(site.folder, {f"docs/_build/outputs/{page}.json": json.dumps(ran)})
        site.build(*options, SOURCE_DATE_EPOCH="1700000000", **environment)
    return first, second


def differing(first, second):
    """Return the names of the published files that two sites do not share."""
    one, other = first.published(), second.published()
    return [name for name in {**one, **other} if one.get(name) != other.get(name)]
