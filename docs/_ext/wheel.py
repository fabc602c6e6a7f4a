"""Serve the package beside the site, and have the downloaded notebooks install it.

What a reader copies then runs against the package that computed the page. The wheel is
built with the site; the first cell of each notebook that imports the package installs it.
Boxes, which sphinx-gallery leaves as they are, become quotations in the notebooks; comments
for the search are left out.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from textwrap import dedent
from typing import Any

from hatchling.builders.wheel import WheelBuilder
from sphinx.application import Sphinx

from doors import add_code_cell, save_notebook

ROOT = Path(__file__).parents[2]
INSTALL = """\
# The package of this page, as it was when the page was built.
%pip install --quiet {url}"""
LOCAL = "# This needs the package that the site of this notebook serves: {url}"
BOX = re.compile(
    r"^\.\. (?P<name>admonition|dropdown|predict)::(?P<title>.*)\n"
    r"(?:   :\w+:.*\n(?:    +\S.*\n)*)*"
    r"(?P<body>(?:(?:   .*)?(?:\n|\Z))*)",
    re.MULTILINE,
)
WORDINGS = re.compile(r"\n*^\.\. (?:asked|words): .*(?:\n   .*)*", re.M)  # for the search


def setup(app: Sphinx) -> dict[str, Any]:
    """Go over sphinx-gallery's notebooks; build the wheel at the end."""
    app.connect("builder-inited", go_over, priority=800)
    app.connect("build-finished", build)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def address(config: Any) -> str:
    """Return where the wheel is served."""
    wheel = f"{config.project.lower()}-{config.release}-py3-none-any.whl"
    return f"{config.html_baseurl}_static/{wheel}"


def go_over(app: Sphinx) -> None:
    """Put the installation first in notebooks that need it; write boxes as quotations."""
    known = bool(app.config.html_baseurl)
    install = (INSTALL if known else LOCAL).format(url=address(app.config))
    gallery = Path(app.srcdir, app.config.sphinx_gallery_conf["gallery_dirs"])
    for file in gallery.rglob("*.ipynb"):
        before = file.read_text(encoding="utf-8")
        made = json.loads(before)
        for cell in made["cells"]:
            if cell["cell_type"] == "markdown":
                text = WORDINGS.sub("", "".join(cell["source"]))
                cell["source"] = [boxes_as_markdown(text)]
        code = [cell["source"][0] for cell in made["cells"] if cell["cell_type"] == "code"]
        needs = any(re.search(r"^(import|from) pullback", cell, re.M) for cell in code)
        if needs and install not in code:
            add_code_cell(made, install)
            made["cells"].insert(0, made["cells"].pop())
        if made != json.loads(before):
            save_notebook(made, file)


def boxes_as_markdown(text: str) -> str:
    """Write the boxes of a text as quotations, which Markdown has."""

    def quoted(box: re.Match[str]) -> str:
        title, body = box["title"].strip() or box["name"].capitalize(), dedent(box["body"])
        lines = f"**{title}**\n\n{body.strip()}".splitlines()
        return "".join(f"> {line}".rstrip() + "\n" for line in lines) + "\n"

    return BOX.sub(quoted, text)


def build(app: Sphinx, exception: Exception | None) -> None:
    """Build the wheel into the site."""
    if exception is None and app.builder.name == "html":
        built = list(WheelBuilder(str(ROOT)).build(directory=f"{app.outdir}/_static"))
        assert [Path(b).name for b in built] == [Path(address(app.config)).name], built
