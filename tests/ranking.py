"""The search without a browser: the scripts and the index of the built site.

``python tests/ranking.py`` says which queries of ``own_words.json`` miss their answers, and
how many do not; a change of ``docs/_static/ranking.js`` counts at once, one of the index
after a build.
"""

from __future__ import annotations

import atexit
import functools
import json
from pathlib import Path

from py_mini_racer import MiniRacer
from sphinx.util.inventory import InventoryFile

ROOT = Path(__file__).parents[1]
SITE = ROOT / "docs" / "_build" / "html"
STATIC = ROOT / "docs" / "_static"
INDEX = ("searchmessages.js", "searchindex.js")
SCRIPTS = ("recognition.js", "ranking.js")
START = """
const recognise = recogniser(EXPRESSIONS, MESSAGES);
const rank = ranker(INDEX, MESSAGES);
const entries = JSON.stringify(rank.records.map(({ url }) => url));
const answers = (query) => JSON.stringify([...new Set(
  [...recognise(query), ...rank(query).records].map(({ url }) => url))].slice(0, 20));
0;
"""


@functools.cache
def engine() -> MiniRacer:
    """Return what runs the scripts, with the index loaded."""
    racer = MiniRacer()
    # What is left to the end of Python may wait there for a thread that waits for Python.
    atexit.register(racer.close)
    files = [*(SITE / name for name in INDEX), *(STATIC / name for name in SCRIPTS)]
    racer.eval("\n".join([*(file.read_text(encoding="utf-8") for file in files), START]))
    return racer


def answers(query: str) -> list[str]:
    """Return the addresses of the first twenty answers."""
    found: list[str] = json.loads(engine().eval(f"answers({json.dumps(query)})"))
    return found


@functools.cache
def addresses() -> dict[str, str]:
    """Return where the search leads for each label: an entry, or else its page.

    A term of the glossary is named as one: ``term cotangent``.
    """
    entries = set(json.loads(engine().eval("entries")))
    inventory = InventoryFile.loads((SITE / "objects.inv").read_bytes(), uri="")
    labels = {name: item.uri for name, item in inventory.data["std:label"].items()}
    labels |= {
        f"term {name}": item.uri for name, item in inventory.data["std:term"].items()
    }
    return {
        label: uri if uri in entries else uri.partition("#")[0]
        for label, uri in labels.items()
    }


def ranks(wanted: dict[str, list[str]]) -> dict[str, int | None]:
    """Return for each query at which place its first right answer is, from 0."""
    places = addresses()
    found = {}
    for query, labels in wanted.items():
        right = {places[label] for label in labels}
        given = enumerate(answers(" ".join(query.split())))
        found[query] = next((place for place, url in given if url in right), None)
    return found


def own_words() -> dict[str, list[str]]:
    """Return what people typed, and the labels of what answers it."""
    text = (ROOT / "tests" / "own_words.json").read_text(encoding="utf-8")
    wanted: dict[str, list[str]] = json.loads(text)
    return wanted


def pasted_messages() -> dict[str, str]:
    """Return what people have pasted, and the name of the message that it is, if any."""
    text = (ROOT / "tests" / "pasted_messages.json").read_text(encoding="utf-8")
    return {message: name for message, name in json.loads(text).items() if name}


if __name__ == "__main__":
    found = ranks(own_words())
    for query, place in found.items():
        if place != 0:
            print(f"{place!s:>5}  {query}  {answers(query)[:3]}")
    first = sum(place == 0 for place in found.values())
    three = sum(place in (0, 1, 2) for place in found.values())
    print(f"of {len(found)}: {first} first, {three} among three")
