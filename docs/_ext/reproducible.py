"""Make what the build writes depend on its sources alone.

sphinx-gallery's zip files carry the time and the permissions of the files they hold; here
they carry neither. MyST-NB writes its style sheet after the pages, whose links to it
therefore lack the checksum in a first build only; here it is written before. (In Sphinx
itself, ``SOURCE_DATE_EPOCH`` sets the dates.)
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from myst_nb.sphinx_ext import add_global_html_resources
from sphinx.application import Sphinx
from sphinx_gallery import downloads, gen_rst
from sphinx_gallery.utils import _replace_md5


def setup(app: Sphinx) -> dict[str, Any]:
    """Put :func:`zip_files` in the place of sphinx-gallery's; write the style sheet."""
    app.connect("builder-inited", write_style_sheet)
    gen_rst.zip_files = downloads.zip_files = zip_files
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def write_style_sheet(app: Sphinx) -> None:
    """Write MyST-NB's style sheet before a page asks for its checksum."""
    Path(app.outdir, "_static").mkdir(parents=True, exist_ok=True)
    add_global_html_resources(app, None)


def zip_files(
    file_list: Sequence[str | os.PathLike[str]],
    zipname: str | os.PathLike[str],
    relative_to: str | os.PathLike[str],
    extension: str | None = None,
) -> str:
    """Write a zip file that is the same whenever its content is; return its name."""
    new = Path(f"{zipname}.new")
    with zipfile.ZipFile(new, "w") as archive:
        for file in sorted(Path(name) for name in file_list):
            source = file.with_suffix(extension) if extension else file
            member = zipfile.ZipInfo(source.relative_to(relative_to).as_posix())
            member.external_attr = 0o644 << 16
            archive.writestr(member, source.read_bytes())
    _replace_md5(new)
    return str(zipname)
