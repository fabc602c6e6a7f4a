"""Which pages of the built site a run of the tests visits.

A page that has passed is visited again when its bytes have changed, or those that all pages
share. The pages of messages come from one template: of those that are to be visited, a run
takes the ones written last, which somebody may just have changed, and some by lot, so that
a fresh copy of the repository does not wait for all of them. ``--every-page`` does.
"""

import functools
import hashlib

from built import PAGES, SITE
from executed import ROOT

LATEST, BY_LOT = 10, 30
JUDGES = [ROOT / "tests" / name for name in ("test_site.py", "visits.py")]


@functools.cache
def shared():
    """Return a digest of what all pages share: styles, scripts, fonts, and the tests."""
    kinds = {".css", ".js", ".woff2"}
    files = sorted(file for file in SITE.rglob("_static/**/*") if file.suffix in kinds)
    return hashlib.sha256(b"".join(f.read_bytes() for f in (*files, *JUDGES))).digest()


def state(path):
    """Return a digest of all that decides how a page looks."""
    return hashlib.sha256(shared() + (SITE / path).read_bytes()).hexdigest()


def note(cache, path):
    """Note that a page has passed as it is."""
    cache.set(f"visited/{path}", state(path))


def to_visit(config):
    """Return the paths of the pages that this run visits."""
    if config.getoption("--every-page"):
        return PAGES
    pages = [p for p in PAGES if config.cache.get(f"visited/{p}", None) != state(p)]
    messages = [path for path in pages if path.startswith("errors/")]
    by_lot = sorted(messages, key=state)[:BY_LOT]
    latest = sorted(messages, key=lambda path: (SITE / path).stat().st_mtime)[-LATEST:]
    return sorted({*pages} - {*messages} | {*by_lot, *latest})
