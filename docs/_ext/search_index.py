"""What the search knows: a record for each heading, term and API entry.

Sphinx's own search wants every word of a query, so it finds no error message that carries
the reader's own shapes, and no question in a person's own words. ``_static/ranking.js``
ranks whatever words it knows, mistyped ones and those of ``same.txt`` too, and
``_static/search.js`` shows what it finds. All is written as scripts, so that searching
works from a folder, without a server, too:

``searchindex.js``
    The title of each record, how many pages link to it, and which terms are in its
    wordings, in its words and in how its text begins. It is written in as few bytes as it
    takes (:func:`packed`).
``searchmessages.js``
    By what a pasted message is recognised (``_static/recognition.js``), before the rest.
``leads/PAGE.js``
    How the text of each record of a page begins, which its results show; of the page of a
    message, what to do about it, since its text begins with what the reader has typed.

The names of a record are its heading and the wordings in which people ask for it: those of
a box (:mod:`also_asked`), or of a page that shows no box, in its front matter, as in
``asked: "one; another"``, or in a comment of its source, ``.. asked: one; another``.

Beside these an entry has words that its asker would use and that it does not say itself.
Nobody is shown them. In Markdown they stand in a comment directly under the heading or the
box of wordings, ``% words: halve weird jumps``; in a script at its end, beside its
wordings, ``# .. words: halve weird jumps``; of a message in its field ``words``.

``search_areas`` says how the addresses of an area of the site begin. Pages of an area rank
in their own way: each ``message``, ``fix`` (a page that starts from a symptom), ``answer``,
``term`` of the glossary, ``example``, and each ``list`` of what others explain.

``search_messages`` has ``pages``: what is known of a page beside its text. ``messages`` are
regular expressions of the messages that it explains, ``line`` is one for the line of code
that raises them; a query in which one is found, and no other line is said to have raised,
leads there first. ``asked`` and ``words`` are what it is to be found under, too; ``card``
is what to do about a message (:func:`error_pages.card`), and ``lead`` the same in a line.
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
from itertools import chain
from pathlib import Path
from textwrap import shorten
from typing import Any

from docutils import nodes
from math_core import LatexToMathML
from py_mini_racer import MiniRacer
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util import logging

from also_asked import also_asked, wordings
from files import write_file

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
SEE = "See also:"
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
such than them these they thing those too very want we were wrt
actually always anyway explain explained let meaning pytorch really simply still
tell understand
"""
RANKING = Path(__file__).parents[1] / "_static" / "ranking.js"
FIRST = 36  # words of a text that are counted
ZERO = ord("@")  # of the numbers in the index, as ranking.js reads them
MOST = 29  # times that count, of those that a word is said again
ASKED, WORDS = "asked: ", "words: "  # begin a comment with wordings, or with words
MEANT = re.compile(r"\W*(?:(?:asked|wordings?|words?)\b|[^\W_]+\s*:)", re.IGNORECASE)
LEAD = 240  # characters of its text that a result shows
EVERYWHERE = 10  # pages that have a heading which says nothing of them
ENTRIES = (nodes.section, nodes.definition_list_item, addnodes.desc)


def setup(app: Sphinx) -> dict[str, Any]:
    """Write the index with the site, in the place of Sphinx's own."""
    app.add_config_value("search_areas", {}, "", [dict])
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


def records_of_pages(env: Any) -> dict[str, list[dict[str, Any]]]:
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
    records_of_pages(app.env)[name] = list(records(doctree))
    links = doctree.findall(addnodes.pending_xref)
    linking(app.env)[name] = [(link["reftype"], link["reftarget"]) for link in links]


def forget(app: Sphinx, env: Any, name: str) -> None:
    """Forget a page that is read again, or gone."""
    records_of_pages(env).pop(name, None)
    linking(env).pop(name, None)


def merge(app: Sphinx, env: Any, names: set[str], other: Any) -> None:
    """Take over what another process noted."""
    records_of_pages(env).update({name: records_of_pages(other)[name] for name in names})
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
    all_records = gathered([r for name in names for r in addressed(app, name, links)])
    known = {"same": same_things(), "areas": app.config.search_areas}
    write(app, "searchindex.js", INDEX=packed(all_records) | known)
    settings = app.config.search_messages
    keys = ("url", "title", "line", "messages")
    pages = [{key: r[key] for key in keys} for r in all_records if "messages" in r]
    write(
        app,
        "searchmessages.js",
        MESSAGES=pages,
        EXPRESSIONS=settings.get("expressions", {}),
    )
    leads: dict[str, dict[str, str]] = {}
    for record in all_records:
        page, _, anchor = record["url"].partition("#")
        lead = shorten(record.get("lead", record["text"]), LEAD, placeholder=" …")
        leads.setdefault(page, {})[anchor] = lead
    written = {Path(app.outdir, "leads", f"{page}.js"): page for page in leads}
    for file in Path(app.outdir, "leads").rglob("*.js"):
        if file not in written:
            file.unlink()
    for file, page in written.items():
        text = f"LEADS[{encode(page)}] = {encode(leads[page])};\n"
        of_page = settings.get("pages", {}).get(page.removesuffix(".html"), {})
        if "card" in of_page:
            text += f"CARDS[{encode(page)}] = {encode(of_page['card'])};\n"
        write_file(file, text)


encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def write(app: Sphinx, name: str, **constants: Any) -> None:
    """Write a script that defines constants."""
    lines = [f"const {name} = {encode(value)};\n" for name, value in constants.items()]
    write_file(Path(app.outdir, name), "".join(lines))


def gathered(all_records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give a page what its sections say whose heading says nothing of it.

    Such a heading, as "What goes wrong", stands on many pages.
    """
    times = Counter(record["title"] for record in all_records)
    kept: list[dict[str, Any]] = []
    whole: dict[str, Any] = {}
    for record in all_records:
        if not record["page"]:
            whole = record
        elif times[record["title"]] >= EVERYWHERE:
            for key in ("text", "words"):
                whole[key] = f"{whole[key]} {record[key]}".strip()
            continue
        kept.append(record)
    return kept


def same_things() -> list[list[str]]:
    """Return the groups of names of the same thing, each a line of ``same.txt``."""
    lines = Path(__file__).with_name("same.txt").read_text(encoding="utf-8").splitlines()
    return [line.split(", ") for line in lines if not line.startswith("#")]


def packed(all_records: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what ranking needs of the records, as ``unpacked`` of ``ranking.js`` reads it.

    Returns:
        ``urls``, ``titles`` and ``links`` of the records, each a number of links
        (:func:`coded`); a section has its page before it, so that its address is its
        anchor, or ``#`` alone where its title tells it (``anchorOf`` of the script).
        ``common``: words that do not count. ``terms``: the stems of all others. Of each of
        them (:func:`listed`) ``texts`` and ``words`` say in which records it is there, and
        ``asked`` in which wordings; these follow one another through the records, of which
        ``wordings`` says how many each has, and ``said`` of how many words each is.
    """
    texts = [
        " ".join([*record["text"].split()[:FIRST], *record.get("asked", ())])
        for record in all_records
    ]
    wordings = [record.get("wordings", ()) for record in all_records]
    words = [record["words"] for record in all_records]
    all_texts = [COMMON, *texts, *chain(*wordings), *words]
    in_words = in_ranking("splitWords", all_texts)
    stems = in_ranking("stemOf", chain(*in_words.values()))
    common = set(in_words[COMMON])
    places: dict[str, dict[str, dict[int, int]]] = {"texts": {}, "asked": {}, "words": {}}
    terms: dict[str, None] = {}  # in the order in which they come

    def note(kind: str, text: str, number: int) -> None:
        counts = Counter(stems[word] for word in in_words[text] if word not in common)
        for term in sorted(counts):
            terms[term] = None
            places[kind].setdefault(term, {})[number] = (
                counts[term] if kind == "texts" else 1
            )

    said: list[int] = []
    for number in range(len(all_records)):
        note("texts", texts[number], number)
        for wording in wordings[number]:
            note("asked", wording, len(said))
            said.append(len(in_words[wording]))
        note("words", words[number], number)
    return {
        "urls": brief_addresses(all_records),
        "titles": [record["title"] for record in all_records],
        "links": coded(record["links"] for record in all_records),
        "common": sorted(common),
        "terms": " ".join(terms),
        "texts": listed(places["texts"], terms, len(all_records)),
        "words": listed(places["words"], terms, len(all_records)),
        "asked": listed(places["asked"], terms, len(said)),
        "wordings": coded(map(len, wordings)),
        "said": coded(said),
    }


def brief_addresses(all_records: list[dict[str, Any]]) -> list[str]:
    """Return the addresses of the records, without what the page or the title tells."""
    told = in_ranking("anchorOf", [record["title"] for record in all_records])
    brief = []
    for record in all_records:
        page, _, anchor = record["url"].partition("#")
        anchor = f"#{anchor}"
        shortest = "#" if anchor == told[record["title"]] else anchor
        brief.append(shortest if record["page"] else page)
    return brief


def listed(places: Mapping[str, Mapping[int, int]], terms: Iterable[str], size: int) -> str:
    """Return in which of ``size`` things each term is, those of a term behind a space.

    Each number says how much further on it is than the one before it, of the first how much
    further, counted round, than the first of a term before it; those are near one another,
    since the terms come in the order of the things. Where a term is in one more than once,
    minus the number of other times follows.
    """
    lists = []
    first = 0
    for term in terms:
        numbers = []
        before = first
        for place, times in places.get(term, {}).items():
            numbers.append((place - before) % size)
            before = place
            if times > 1:
                numbers.append(max(1 - times, -MOST))
        first = next(iter(places.get(term, [first])))
        lists.append(coded(numbers))
    return " ".join(lists)


def coded(numbers: Iterable[int]) -> str:
    """Return numbers as characters, which take less room than their digits.

    With digits in lists of JSON the index of 2,593 records had 57 % more bytes, 6.5 % more
    under gzip (level 6) and 8.3 % more under Brotli (level 5).
    """
    return "".join(chr(ZERO + number) for number in numbers)


def linked(app: Sphinx) -> Counter[tuple[str, str]]:
    """Count the links to each entry, by its page and its anchor.

    A link to a place that is no entry of its own is one to the page.
    """
    places: dict[tuple[str, str], tuple[str, str]] = {}
    for name, _, kind, page, anchor, _ in app.env.domains.standard_domain.get_objects():
        entries = {entry["anchor"] for entry in records_of_pages(app.env).get(page, ())}
        places[{"label": "ref"}.get(kind, kind), name] = (
            page,
            anchor if anchor in entries else "",
        )
    counts: Counter[tuple[str, str]] = Counter()
    for links in linking(app.env).values():
        counts.update(places[link] for link in links if link in places)
    return counts


def addressed(
    app: Sphinx, name: str, links: Mapping[tuple[str, str], int]
) -> Iterator[dict[str, Any]]:
    """Yield the records of one page with their addresses and what is known of messages."""
    uri = app.builder.get_target_uri(name)
    page = app.env.titles[name].astext()
    for entry in records_of_pages(app.env)[name]:
        record: dict[str, Any] = {"url": f"{uri}#{entry['anchor']}", "page": page}
        record["links"] = links.get((name, entry["anchor"]), 0)
        words = ""
        if not entry["anchor"]:
            record |= {"url": uri, "page": ""}
            message = app.config.search_messages.get("pages", {}).get(name, {})
            if message.get("messages"):
                record["line"] = as_js(message["line"])
                record["messages"] = [as_js(pattern) for pattern in message["messages"]]
            if message.get("asked"):
                record["asked"] = [*message["asked"]]
            if message.get("lead"):
                record["lead"] = message["lead"]
            words = message.get("words", "")
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
            record: dict[str, Any] = {
                "anchor": anchor,
                "title": title,
                "text": prose_of(entry),
            }
            record["words"] = " ".join(comments_with(words.get(entry, ()), WORDS))
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
    asked = comments_with(doctree.findall(nodes.comment), ASKED)
    return [wording for text in asked for wording in text.split("; ")]


def comments_with(comments: Iterable[nodes.comment], key: str) -> Iterator[str]:
    """Yield what those comments say that begin with a key, each in one line."""
    for comment in comments:
        if comment.astext().startswith(key):
            yield " ".join(comment.astext().removeprefix(key).split())


def with_words(doctree: nodes.document) -> dict[nodes.Element, list[nodes.comment]]:
    """Return the comments with words of each entry; those of a script are of its page.

    Warn of one that stands elsewhere, and of one that seems to be meant for the search and
    begins otherwise.
    """
    by_entry: dict[nodes.Element, list[nodes.comment]] = {}
    page = next(doctree.findall(nodes.section), None)
    for comment in doctree.findall(nodes.comment):
        text = comment.astext()
        if text.startswith(WORDS):
            beside = [c for c in comment.parent.children if isinstance(c, nodes.comment)]
            if isinstance(comment.previous_sibling(), nodes.title | also_asked):
                by_entry.setdefault(comment.parent, []).append(comment)
            elif page is not None and any(comments_with(beside, ASKED)):
                by_entry.setdefault(page, []).append(comment)
            else:
                logger.warning(
                    "words where the search sees no entry: %s", text, location=comment
                )
        elif MEANT.match(text) and not text.startswith(ASKED):
            logger.warning(
                "a comment that the search does not know: %s", text, location=comment
            )
    return by_entry


def first_paragraph(doctree: nodes.document) -> str:
    """Return what the first paragraph of a page says."""
    paragraphs = doctree.findall(nodes.paragraph)
    paragraph = next((p for p in paragraphs if isinstance(p.parent, nodes.section)), None)
    return prose_of(paragraph) if paragraph else ""


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


def prose_of(entry: nodes.Element) -> str:
    """Return the prose of an entry itself, and the messages that it quotes."""
    prose: list[str] = []
    pending = list(reversed(entry.children))
    while pending:
        node = pending.pop()
        if not isinstance(node, nodes.Element):
            prose.append(node.astext())
        elif (
            isinstance(node, SILENT)
            or names_neighbours(node)
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


def names_neighbours(node: nodes.Element) -> bool:
    """Tell a "See also" and its list: the words are those of other entries."""
    if isinstance(node, nodes.bullet_list):
        before = node.previous_sibling()
        return before is not None and before.astext() == SEE
    return isinstance(node, nodes.paragraph) and node.astext().startswith(SEE)


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


def in_ranking(function: str, texts: Iterable[str]) -> dict[str, Any]:
    """Return what a function of ``ranking.js`` gives for each text."""
    distinct = list(dict.fromkeys(texts))
    script = RANKING.read_text(encoding="utf-8")
    with MiniRacer() as engine:
        found = engine.eval(f"{script}\nJSON.stringify({encode(distinct)}.map({function}))")
    return dict(zip(distinct, json.loads(str(found)), strict=True))
