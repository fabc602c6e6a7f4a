"""The table of the API page that says what every function answers to odd input.

It comes from :mod:`odd_answers`, in a process of its own: what the functions start and
leave behind must not be in the one that reads the pages.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

HERE = Path(__file__).parent
WRITER = HERE / "odd_answers.py"
PACKAGE = HERE.parents[1] / "src" / "pullback"


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("odd-inputs", OddInputs)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


class OddInputs(SphinxDirective):
    """Write a table of all cases, tried now."""

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        for source in (WRITER, HERE / "odd_cases.py", *sorted(PACKAGE.rglob("*.py"))):
            self.env.note_dependency(str(source))
        command = [sys.executable, str(WRITER)]
        made = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        return [nodes.raw("", made.stdout, format="html")]
