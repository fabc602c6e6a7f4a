"""The executed pages and the code of the messages, and what they show.

A page is a gallery script or an executed Markdown page. What it shows is what the build
shows; it is executed here only where no build has done so since it last changed.
"""

import functools
from pathlib import Path

from bs4 import BeautifulSoup

from pages import ODD_ANSWERS, Page, Store, find, pieces, written

ROOT = Path(__file__).parents[1]
PAGES = {page.source: page for page in find(ROOT)}
EXAMPLES = [source for source in PAGES if source.suffix == ".py"]
NOTEBOOKS = [source for source in PAGES if source.suffix == ".md"]
DOCS = written(ROOT)
store = functools.cache(Store)


def name_of(page: Path) -> str:
    """Return the page's path below the repository, for test ids."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[str]:
    """Return the code blocks of a page in order."""
    return [block["code"] for block in PAGES[page].blocks]


def shown(page: Path) -> list[dict[str, str]]:
    """Return what the blocks of a page show."""
    return ran(PAGES[page])


def ran(page: Page) -> list[dict[str, str]]:
    """Return what the blocks of a page, or of another thing that is executed, show."""
    result = store().fresh(page)
    if result is None:
        ((_, result),) = store().execute([page], 1)
    assert not result["failure"], result["failure"]
    return result["shown"]


@functools.cache
def pieces_of() -> dict[str, dict[str, Page]]:
    """Return the pieces of code of each message, by its anchor and their names."""
    found: dict[str, dict[str, Page]] = {}
    for piece in pieces(ROOT):
        found.setdefault(piece.anchor, {})[piece.kind] = piece
    return found


@functools.cache
def shown_by(anchor: str) -> dict[str, dict[str, str]]:
    """Return what the pieces of code of a message show; nothing else is executed."""
    return {name: ran(piece)[0] for name, piece in pieces_of().get(anchor, {}).items()}


def odd_answers() -> str:
    """Return what the functions answer to odd input, as JSON."""
    (block,) = ran(Page(ROOT, ODD_ANSWERS))
    return block["stdout"]


def outputs(page: Path) -> list[tuple[str, str]]:
    """Return (last line of the block, what it shows as text) pairs."""
    pairs = zip(blocks(page), map(as_text, shown(page)), strict=True)
    return [(code.strip().splitlines()[-1], text) for code, text in pairs if text]


def as_text(block: dict[str, str]) -> str:
    """Return what a block prints and the value that it ends on."""
    value = block.get("text", "")
    if value.startswith("<IPython.core.display.HTML"):
        part = BeautifulSoup(block["html"], "html.parser")
        lines = part.select("caption, tr, dt, dd, summary:has(+ dl)") or [part]
        value = "\n".join(line.get_text(" | ", strip=True) for line in lines)
    return f"{block.get('stdout', '')}{value}".rstrip()
