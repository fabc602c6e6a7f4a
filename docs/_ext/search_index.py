"""What the search knows: a record for each heading, term and API entry.

Sphinx's own search wants every word of a query, so it finds no error message that carries
the reader's own shapes, and no question in a person's own words. ``_static/ranking.js``
ranks whatever words it knows, mistyped ones and those of ``same.txt`` too, and
``_static/search.js`` shows what it finds. All is written as scripts, so that searching
works from a folder, without a server, too:

``searchindex.js``
    The names of each record, how many pages link to it, and the words with which its text
    begins, counted: a browser takes longer to do so than a reader waits. It is written in
    as few bytes as it takes (:func:`briefly`, :func:`counted`).
``searchmessages.js``
    By what a pasted message is recognised (``_static/recognition.js``), before the rest.
``leads/PAGE.js``
    How the text of each record of a page begins, which its results show; of the page of a
    message, what to do about it.

The names of a record are its heading and the wordings in which people ask for it: those of
a box (:mod:`also_asked`), or of a page that shows no box, in its front matter, as in
``asked: "one; another"``, or in a comment of its source, ``.. asked: one; another``.

Beside these an entry has words that its asker would use and that it does not say itself.
Nobody is shown them. In Markdown they stand in a comment directly under the heading or the
box of wordings, ``% words: halve weird jumps``; in a script at its end, beside its
wordings, ``# .. words: halve weird jumps``; of a message in its field ``words``.

``search_messages`` has ``pages``: what is known of a page beside its text. ``messages`` are
regular expressions of the messages that it explains, ``line`` is one for the line of code
that raises them; a query in which one is found, and no other line is said to have raised,
leads there first. ``asked`` and ``words`` are what it is to be found under, too; ``card``
is what to do about a message (:func:`error_pages.card`).
``_static/recognition.js`` finds them, by the ``expressions`` for what is around a message.
"""

from __future__ import annotations

import json
import re
import unicodedata
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from html import unescape
from pathlib import Path
from textwrap import shorten
from typing import Any

from docutils import nodes
from math_core import LatexToMathML
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util import logging

from also_asked import also_asked, wordings

logger = logging.getLogger(__name__)

CODE = (nodes.literal_block, nodes.doctest_block)
# What no reader would type, and what is not said in the words of the entry.
SILENT = (
    nodes.comment,
    nodes.image,
    nodes.math_block,
    nodes.raw,
    nodes.term,
    nodes.title,
    addnodes.desc_signature,
    addnodes.download_reference,
    also_asked,
)
LABEL = "\N{START OF TEXT}{}\N{END OF TEXT}"  # in a note, where a title will stand
converter = LatexToMathML()
BETWEEN = {
    "mfrac": "{}/{}",
    "msub": "{}_{}",
    "msubsup": "{}_{}^{}",
    "msup": "{}^{}",
    "munder": "{}_{}",
    "munderover": "{}_{}^{}",
}
# Words that tell no question from another.
COMMON = """
a an and are as at be but by can do does for from get has have how i if in into is it
its me must my of on or should so that the then there this to was what when which why
will with would you your
about also am any been could getting gets got here just ok please possible some something
such than them these they thing those too very want we were
actually always anyway explain explained let meaning pytorch really simply still
tell understand
"""
FIRST = 70  # words of a text that are counted
ZERO = ord("@")  # of the numbers in the index, as ranking.js reads them
ASKED, WORDS = "asked: ", "words: "  # begin a comment with wordings, or with words
MEANT = re.compile(r"\W*(?:(?:asked|wordings?|words?)\b|[^\W_]+\s*:)", re.IGNORECASE)
APOSTROPHE = re.compile(r"(?<=[^\W\d_])['’](?:s\b|(?=[^\W\d_]))")
LEAD = 240  # characters of its text that a result shows
EVERYWHERE = 10  # pages that have a heading which says nothing of them
ENTRIES = (nodes.section, nodes.definition_list_item, addnodes.desc)


def setup(app: Sphinx) -> dict[str, Any]:
    """Write the index with the site, in the place of Sphinx's own."""
    app.add_config_value("search_messages", {}, "html", [dict])
    app.connect("builder-inited", replace_own_search)
    app.connect("doctree-read", anchor_terms)
    app.connect("doctree-read", note, priority=900)
    app.connect("env-purge-doc", forget)
    app.connect("env-merge-info", merge)
    app.connect("html-collect-pages", search_page)
    app.connect("build-finished", write_index)
    return {
        "version": "1",
        "env_version": 7,
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }


def replace_own_search(app: Sphinx) -> None:
    """Have Sphinx build neither its index nor its page."""
    if app.builder.name == "html":
        app.builder.search = False  # type: ignore[attr-defined]


def anchor_terms(app: Sphinx, doctree: nodes.document) -> None:
    """Give each term of a definition list, such as a question, an address of its own."""
    for term in doctree.findall(nodes.term):
        if not term["ids"]:
            wanted = nodes.make_id(term.astext())[:60].strip("-") or "term"
            same = sum(name.startswith(wanted) for name in doctree.ids)
            anchor = f"{wanted}-{same}" if same else wanted
            doctree.ids[anchor] = term
            term["ids"].append(anchor)


def noted(env: Any) -> dict[str, list[dict[str, Any]]]:
    """Return what was noted of each page: a record of each of its entries."""
    if not hasattr(env, "search_entries"):
        env.search_entries = {}
    entries: dict[str, list[dict[str, Any]]] = env.search_entries
    return entries


def linking(env: Any) -> dict[str, list[tuple[str, str]]]:
    """Return what each page links to: the kind and the name of each target."""
    if not hasattr(env, "search_links"):
        env.search_links = {}
    links: dict[str, list[tuple[str, str]]] = env.search_links
    return links


def note(app: Sphinx, doctree: nodes.document) -> None:
    """Note the entries of a page that has been read, and its links."""
    name = app.env.current_document.docname
    noted(app.env)[name] = list(records(doctree))
    links = doctree.findall(addnodes.pending_xref)
    linking(app.env)[name] = [(link["reftype"], link["reftarget"]) for link in links]


def forget(app: Sphinx, env: Any, name: str) -> None:
    """Forget a page that is read again, or gone."""
    noted(env).pop(name, None)
    linking(env).pop(name, None)


def merge(app: Sphinx, env: Any, names: set[str], other: Any) -> None:
    """Take over what another process noted."""
    noted(env).update({name: noted(other)[name] for name in names})
    linking(env).update({name: linking(other)[name] for name in names})


def search_page(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield the page that searches."""
    yield "search", {"title": "Search"}, "search.html"


def write_index(app: Sphinx, exception: Exception | None) -> None:
    """Write the scripts: the records of all pages, in the order of their names."""
    if exception is not None or app.builder.name != "html":
        return
    links = linked(app)
    names = sorted(app.env.found_docs)
    found = gathered([r for name in names for r in addressed(app, name, links)])
    records = [briefly(record) for record in found]
    index = counted(found) | {"same": same_things()}
    write(app, "searchindex.js", RECORDS=records, INDEX=index)
    told = app.config.search_messages
    known = ("url", "title", "line", "messages")
    pages = [{key: r[key] for key in known} for r in found if "messages" in r]
    write(app, "searchmessages.js", MESSAGES=pages, EXPRESSIONS=told.get("expressions", {}))
    leads: dict[str, dict[str, str]] = {}
    for record in found:
        page, _, anchor = record["url"].partition("#")
        lead = shorten(record["text"], LEAD, placeholder=" …")
        leads.setdefault(page, {})[anchor] = lead
    written = {Path(app.outdir, "leads", f"{page}.js"): page for page in leads}
    for file in Path(app.outdir, "leads").rglob("*.js"):
        if file not in written:
            file.unlink()
    for file, page in written.items():
        text = f"LEADS[{encode(page)}] = {encode(leads[page])};\n"
        known = told.get("pages", {}).get(page.removesuffix(".html"), {})
        if "card" in known:
            text += f"CARDS[{encode(page)}] = {encode(known['card'])};\n"
        file.parent.mkdir(parents=True, exist_ok=True)
        write_file(file, text)


encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def write(app: Sphinx, name: str, **constants: Any) -> None:
    """Write a script that defines constants."""
    lines = [f"const {name} = {encode(value)};\n" for name, value in constants.items()]
    write_file(Path(app.outdir, name), "".join(lines))


def write_file(file: Path, text: str) -> None:
    """Write a file, if that changes it."""
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        file.write_text(text, encoding="utf-8")


def gathered(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give a page what its sections say whose heading says nothing of it.

    Such a heading, as "What goes wrong", stands on many pages.
    """
    times = Counter(record["title"] for record in found)
    kept: list[dict[str, Any]] = []
    whole: dict[str, Any] = {}
    for record in found:
        if not record["page"]:
            whole = record
        elif times[record["title"]] >= EVERYWHERE:
            for key in ("text", "words"):
                whole[key] = f"{whole[key]} {record[key]}".strip()
            continue
        kept.append(record)
    return kept


def briefly(record: dict[str, Any]) -> dict[str, Any]:
    """Return what ranking needs of a record; a section has its page before it."""
    page, mark, anchor = record["url"].partition("#")
    brief = {"url": mark + anchor if record["page"] else page}
    return brief | {
        key: record[key] for key in ("title", "wordings", "links") if record.get(key)
    }


def same_things() -> list[list[str]]:
    """Return the groups of names of the same thing, each a line of ``same.txt``."""
    lines = Path(__file__).with_name("same.txt").read_text(encoding="utf-8").splitlines()
    return [line.split(", ") for line in lines if not line.startswith("#")]


def counted(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Count the words with which the text of each record begins.

    Returns:
        ``common``: words that are not counted. ``words``: for each other word, of every
        record that has it, how many records after the one before it comes, and then, where
        the word is there more than once, minus the number of other times (no more than 30);
        each number is the character of the code ``ZERO`` more, which takes less room than
        its digits. Behind a space, which records have it among their ``words`` instead.
    """
    common = set(split(COMMON))
    places: dict[str, list[int]] = {}
    beside: dict[str, list[int]] = {}
    last: Counter[str] = Counter()
    last_beside: Counter[str] = Counter()
    for number, record in enumerate(found):
        text = " ".join([*record["text"].split()[:FIRST], *record.get("asked", ())])
        counts = Counter(split(text))
        for word in sorted(counts.keys() - common):
            place = places.setdefault(word, [])
            place.append(number - last[word])
            last[word] = number
            if counts[word] > 1:
                place.append(max(1 - counts[word], -30))
        for word in sorted({*split(record["words"])} - common):
            beside.setdefault(word, []).append(number - last_beside[word])
            last_beside[word] = number
    words = {word: coded(place) for word, place in places.items()}
    for word, place in beside.items():
        words[word] = f"{words.get(word, '')} {coded(place)}"
    return {"common": sorted(common), "words": words}


def coded(numbers: list[int]) -> str:
    """Return numbers as characters."""
    return "".join(chr(ZERO + number) for number in numbers)


def linked(app: Sphinx) -> Counter[tuple[str, str]]:
    """Count the links to each entry, by its page and its anchor.

    A link to a place that is no entry of its own is one to the page.
    """
    places: dict[tuple[str, str], tuple[str, str]] = {}
    for name, _, kind, page, anchor, _ in app.env.domains.standard_domain.get_objects():
        entries = {entry["anchor"] for entry in noted(app.env).get(page, ())}
        places[{"label": "ref"}.get(kind, kind), name] = (
            page,
            anchor if anchor in entries else "",
        )
    found: Counter[tuple[str, str]] = Counter()
    for links in linking(app.env).values():
        found.update(places[link] for link in links if link in places)
    return found


def addressed(
    app: Sphinx, name: str, links: Mapping[tuple[str, str], int]
) -> Iterator[dict[str, Any]]:
    """Yield the records of one page with their addresses and what is known of messages."""
    uri = app.builder.get_target_uri(name)
    page = app.env.titles[name].astext()
    for entry in noted(app.env)[name]:
        record: dict[str, Any] = {"url": f"{uri}#{entry['anchor']}", "page": page}
        record["links"] = links.get((name, entry["anchor"]), 0)
        words = ""
        if not entry["anchor"]:
            record |= {"url": uri, "page": ""}
            told = app.config.search_messages.get("pages", {}).get(name, {})
            if told.get("messages"):
                record["line"] = as_js(told["line"])
                record["messages"] = [as_js(pattern) for pattern in told["messages"]]
            if told.get("asked"):
                record["asked"] = [*told["asked"]]
            words = told.get("words", "")
            if asked := app.env.metadata[name].get("asked"):
                record["wordings"] = asked.split("; ")
        record |= {key: entry[key] for key in ("title", "wordings") if key in entry}
        words = f"{entry['words']} {words}".strip()
        yield record | {"text": titled(app, entry["text"]), "words": words}


def as_js(pattern: str) -> str:
    """Return a regular expression of Python as JavaScript writes it.

    Only the named group differs, in what ``tests/test_recognition.py`` lets them use.
    """
    return pattern.replace("(?P<", "(?<")


def titled(app: Sphinx, text: str) -> str:
    """Put the titles of what a page links to in the places of their labels."""
    labels = app.env.domains.standard_domain.labels
    pattern = LABEL.format("(.+?)")
    return re.sub(pattern, lambda label: str(labels.get(label[1], [label[1]])[-1]), text)


def records(doctree: nodes.document) -> Iterator[dict[str, Any]]:
    """Yield the record of each entry on one page; that of the page has no anchor."""
    words = with_words(doctree)
    for entry in (e for e in doctree.findall(nodes.Element) if isinstance(e, ENTRIES)):
        title, anchor = heading(entry)
        if title and title != "Where next":
            record: dict[str, Any] = {"anchor": anchor, "title": title, "text": said(entry)}
            record["words"] = " ".join(told_by(words.get(entry, ()), WORDS))
            boxes = (child for child in entry.children if isinstance(child, also_asked))
            others = [wording for box in boxes for wording in wordings(box)]
            if isinstance(entry.parent, nodes.document):
                record |= {"anchor": "", "first": first_paragraph(doctree)}
                others += asked_in(doctree)
            if others:
                record["wordings"] = others
            yield record


def asked_in(doctree: nodes.document) -> list[str]:
    """Return the wordings that the comments of a page name."""
    asked = told_by(doctree.findall(nodes.comment), ASKED)
    return [wording for text in asked for wording in text.split("; ")]


def told_by(comments: Iterable[nodes.comment], key: str) -> Iterator[str]:
    """Yield what those comments say that begin with a key, each in one line."""
    for comment in comments:
        if comment.astext().startswith(key):
            yield " ".join(comment.astext().removeprefix(key).split())


def with_words(doctree: nodes.document) -> dict[nodes.Element, list[nodes.comment]]:
    """Return the comments with words of each entry; those of a script are of its page.

    Warn of one that stands elsewhere, and of one that seems to be meant for the search and
    begins otherwise.
    """
    found: dict[nodes.Element, list[nodes.comment]] = {}
    page = next(doctree.findall(nodes.section), None)
    for comment in doctree.findall(nodes.comment):
        text = comment.astext()
        if text.startswith(WORDS):
            beside = [c for c in comment.parent.children if isinstance(c, nodes.comment)]
            if isinstance(comment.previous_sibling(), nodes.title | also_asked):
                found.setdefault(comment.parent, []).append(comment)
            elif page is not None and any(told_by(beside, ASKED)):
                found.setdefault(page, []).append(comment)
            else:
                logger.warning(
                    "words where the search sees no entry: %s", text, location=comment
                )
        elif MEANT.match(text) and not text.startswith(ASKED):
            logger.warning(
                "a comment that the search does not know: %s", text, location=comment
            )
    return found


def first_paragraph(doctree: nodes.document) -> str:
    """Return what the first paragraph of a page says."""
    paragraphs = doctree.findall(nodes.paragraph)
    paragraph = next((p for p in paragraphs if isinstance(p.parent, nodes.section)), None)
    return said(paragraph) if paragraph else ""


def heading(entry: nodes.Element) -> tuple[str, str]:
    """Return the title and the anchor of an entry; no title where it is none."""
    if isinstance(entry, nodes.section):
        return entry[0].astext(), entry["ids"][0]
    kind = addnodes.desc_signature if isinstance(entry, addnodes.desc) else nodes.term
    names = [name for name in entry.children if isinstance(name, kind) and name["ids"]]
    if not names:
        return "", ""
    anchor = names[0]["ids"][0]
    if kind is addnodes.desc_signature:
        return anchor, anchor
    return ", ".join(name.astext() for name in names), anchor


def said(entry: nodes.Element) -> str:
    """Return the prose of an entry itself, and the messages that it quotes."""
    prose: list[str] = []
    pending = list(reversed(entry.children))
    while pending:
        node = pending.pop()
        if not isinstance(node, nodes.Element):
            prose.append(node.astext())
        elif (
            isinstance(node, SILENT)
            or (isinstance(node, ENTRIES) and heading(node)[0])
            or "sphx-glr-download-link-note" in node["classes"]
        ):
            continue
        elif node.get("reftype") == "ref" and not node["refexplicit"]:
            prose.append(LABEL.format(node["reftarget"]))
        elif node.get("reftype") == "doc" and not node["refexplicit"]:
            continue  # of a list of the pages that use a function
        elif isinstance(node, CODE) and "message" in node["classes"]:
            prose.append(f" {node.astext()} ")
        elif isinstance(node, CODE):
            continue
        elif isinstance(node, nodes.math):
            prose.append(plain(node.astext()))
        elif node.get("nb_element") == "mime_bundle":
            continue
        else:
            if isinstance(node, nodes.TextElement) and not isinstance(node, nodes.Inline):
                prose.append(" ")
            pending.extend(reversed(node.children))
    return " ".join("".join(prose).split())


def plain(tex: str) -> str:
    """Return a short formula as a line of text, such as ``x_i^2``; a long one as dots."""
    formula = converter.convert_with_local_state(tex, displaystyle=False)
    formula = re.sub(r"&(?!lt;|gt;|amp;)\w+;", lambda name: unescape(name[0]), formula)
    text = unicodedata.normalize("NFKC", line(ElementTree.fromstring(formula)))
    text = text.replace("^⊤", "ᵀ").replace("^′", "′")
    return text if len(text) < 30 else "…"


def line(formula: ElementTree.Element) -> str:
    """Return the text of one MathML element, its parts joined as they are typed."""
    parts = [formula.text or "", *map(line, formula)]
    marks = BETWEEN.get(formula.tag.rpartition("}")[2])
    return "".join(parts) if marks is None else marks.format(*parts[1:])


WHOLE_NAME = re.compile(
    r"[^\W\d_][^\W_]*(?:_[^\W_]+)+|(?<![\d.])\.[a-z][a-zA-Z0-9_]*|[-+*/@]="
)


def split(text: str) -> list[str]:
    """Return the words of a text as ``ranking.js`` sees them.

    "doesn't" is one; ``zero_grad`` is two and the whole name, and so is ``x.data``.
    """
    plain = APOSTROPHE.sub("", text.lower())
    return re.findall(r"[^\W_]+", plain) + WHOLE_NAME.findall(plain)
