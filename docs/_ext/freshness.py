"""Execute a page again whenever something that it shows could have changed.

sphinx-gallery runs a script again when its text changes, MyST-NB a page when its cells
change; neither sees an edit in the package or another version of torch. Here a key
covers both: the sources of the package, the tables in docs/, and the versions of what
draws and computes.
When the key differs from that of the last build, the memory of both is dropped.
"""

from __future__ import annotations

import hashlib
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config

PACKAGE = Path(__file__).parents[2] / "src" / "pullback"
TABLES = Path(__file__).parents[1]  # what pages read beside the package: docs/*.toml
SOURCES = (".html", ".py")
LIBRARIES = ("torch", "numpy", "matplotlib")


def setup(app: Sphinx) -> dict[str, Any]:
    """Set the notebooks' cache by the key; clear the gallery's before it looks."""
    app.connect("config-inited", place_cache)
    app.connect("builder-inited", forget_stale_scripts, priority=100)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def key() -> str:
    """Return the digest of everything a page depends on beside its own text."""
    digest = hashlib.sha256()
    for library in LIBRARIES:
        digest.update(f"{library} {version(library)}\n".encode())
    for source in sorted(p for p in PACKAGE.rglob("*.*") if p.suffix in SOURCES):
        digest.update(f"{source.relative_to(PACKAGE)}\n".encode())
        digest.update(source.read_bytes())
    for table in sorted(TABLES.glob("*.toml")):
        digest.update(f"{table.name}\n".encode())
        digest.update(table.read_bytes())
    return digest.hexdigest()[:16]


def place_cache(app: Sphinx, config: Config) -> None:
    """Give each key a cache of its own: the cells of another key are not found."""
    config["nb_execution_cache_path"] = str(Path(app.outdir).parent / f"cells-{key()}")


def forget_stale_scripts(app: Sphinx) -> None:
    """Delete the gallery's checksums when they were taken under another key."""
    for folder in app.config.sphinx_gallery_conf["gallery_dirs"].split():
        gallery = Path(app.srcdir) / folder
        stamp = gallery / "freshness.key"
        if not stamp.exists() or stamp.read_text() != key():
            for checksum in gallery.rglob("*.md5"):
                checksum.unlink()
            gallery.mkdir(exist_ok=True)
            stamp.write_text(key())
