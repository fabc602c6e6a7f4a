"""Make what the build writes depend on its sources alone.

sphinx-gallery's zip files carry the time and the permissions of the files they hold; here
they are written anew without. MyST-NB writes its style sheet after the pages, whose links
to it therefore lack the checksum in a first build only; here it is written before. (In
Sphinx itself, ``SOURCE_DATE_EPOCH`` sets the dates.)
"""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

from doors import add_global_html_resources


def setup(app: Sphinx) -> dict[str, Any]:
    """Write the style sheet before the gallery, and go over its zip files after it."""
    zips = Zips()
    app.connect("builder-inited", write_style_sheet)
    app.connect("builder-inited", zips.note, priority=100)
    app.connect("builder-inited", zips.settle, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def write_style_sheet(app: Sphinx) -> None:
    """Write MyST-NB's style sheet before a page asks for its checksum."""
    Path(app.outdir, "_static").mkdir(parents=True, exist_ok=True)
    add_global_html_resources(app, None)


class Zips:
    """The zip files of the gallery, as they were before it wrote them, and their times."""

    def note(self, app: Sphinx) -> None:
        """Keep what is there."""
        self.folder = Path(app.srcdir, app.config.sphinx_gallery_conf["gallery_dirs"])
        files = self.folder.rglob("*.zip")
        self.before = {f: (f.stat().st_mtime_ns, f.read_bytes()) for f in files}

    def settle(self, app: Sphinx) -> None:
        """Write each that is new without times; one that is as before keeps its own."""
        for file in self.folder.rglob("*.zip"):
            time, content = self.before.get(file, (0, b""))
            if file.stat().st_mtime_ns != time:
                now = without_times(file)
                file.write_bytes(now)
                if now == content:
                    os.utime(file, ns=(time, time))  # nothing that shows it is outdated


def without_times(file: Path) -> bytes:
    """Return a zip file with what is now in the files that it holds."""
    with zipfile.ZipFile(file) as archive:
        names = sorted(archive.namelist())
    new = io.BytesIO()
    with zipfile.ZipFile(new, "w") as archive:
        for name in names:
            member = zipfile.ZipInfo(name)
            member.external_attr = 0o644 << 16
            archive.writestr(member, (file.parent / name).read_bytes())
    return new.getvalue()
