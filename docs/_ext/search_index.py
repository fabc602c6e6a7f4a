"""The index behind ``search.html``: a record for each heading, term and API entry.

Sphinx's own search wants every word of a query, so it finds no error message that carries
the reader's own shapes. MiniSearch (https://github.com/lucaong/minisearch) ranks by BM25
whatever words it knows; ``_static/search.js`` asks it. Records and words are written as a
script, so that searching works from a folder, without a server, too. The words are counted
here: a browser takes longer to do so than a reader waits.

An entry that sends its reader on with an arrow, such as the short answer to a question,
says in its title what is asked there: the records of the page and of its section have it.

``search_messages`` has ``pages``: what is known of a page beside its text. ``messages`` are
regular expressions of the messages that it explains, ``line`` is one for the line of code
that raises them; a query in which one is found, and no other line is said to have raised,
leads there first. ``asked`` are words under which it is to be found, too.
``_static/recognition.js`` finds them, by the ``expressions`` for what is around a message.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

from docutils import nodes
from math_core import LatexToMathML
from sphinx import addnodes
from sphinx.application import Sphinx

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
"""
FIELDS = ("title", "page", "text", "code", "asked")
SHOWN = {"url", "title", "page", "text", "line", "messages"}  # of a record, in the browser
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
        "env_version": 3,
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


def noted(env: Any) -> dict[str, list[dict[str, str]]]:
    """Return what was noted of each page: a record of each of its entries."""
    if not hasattr(env, "search_entries"):
        env.search_entries = {}
    entries: dict[str, list[dict[str, str]]] = env.search_entries
    return entries


def note(app: Sphinx, doctree: nodes.document) -> None:
    """Note the entries of a page that has been read."""
    noted(app.env)[app.env.current_document.docname] = list(records(doctree))


def forget(app: Sphinx, env: Any, name: str) -> None:
    """Forget a page that is read again, or gone."""
    noted(env).pop(name, None)


def merge(app: Sphinx, env: Any, names: set[str], other: Any) -> None:
    """Take over what another process noted."""
    noted(env).update({name: noted(other)[name] for name in names})


def search_page(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield the page that searches."""
    yield "search", {"title": "Search"}, "search.html"


def write_index(app: Sphinx, exception: Exception | None) -> None:
    """Write ``searchindex.js``: the records of all pages, in the order of their names."""
    if exception is None and app.builder.name == "html":
        found = [r for name in sorted(app.env.found_docs) for r in addressed(app, name)]
        asked(found)
        told = repr([found, app.config.search_messages])
        of = hashlib.sha256(Path(__file__).read_bytes() + told.encode()).hexdigest()
        file = Path(app.outdir, "searchindex.js")
        if not (file.exists() and first_line(file) == f"// {of}"):
            shown = [{key: r[key] for key in r if key in SHOWN} for r in found]
            encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
            parts = {"RECORDS": encode(shown), "INDEX": encode(counted(found))}
            expressions = app.config.search_messages.get("expressions", {})
            parts["EXPRESSIONS"] = encode(expressions)
            texts = (f"const {name} = {part};\n" for name, part in parts.items())
            file.write_text("".join([f"// {of}\n", *texts]), encoding="utf-8")


def first_line(file: Path) -> str:
    """Return the first line of a file."""
    with file.open(encoding="utf-8") as lines:
        return next(lines, "").rstrip("\n")


def counted(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Count the words of each record, field by field.

    Returns:
        ``common``: words that are not counted. ``fields``: their names. ``lengths``: for
        each record, how many different words each of its fields has. ``words``: for each
        word, how often it stands anywhere, and for each field, of every record that has it
        there, how many records after the one before it comes, and then, where that is more
        than once, minus the number of other times.
    """
    common = set(split(COMMON))
    lengths: list[list[int]] = []
    places: dict[str, list[list[int]]] = {}
    last: dict[tuple[str, int], int] = {}
    times: Counter[str] = Counter()
    for number, record in enumerate(found):
        lengths.append([])
        for field, name in enumerate(name for name in FIELDS if name in record):
            text = record[name]
            counts = Counter(split(text if isinstance(text, str) else " ".join(text)))
            lengths[-1].append(len(counts))
            times.update(counts)
            for word in sorted(counts.keys() - common):
                place = places.setdefault(word, [[] for _ in FIELDS])[field]
                place.append(number - last.get((word, field), 0))
                last[word, field] = number
                if counts[word] > 1:
                    place.append(1 - counts[word])
    words = {
        word: "|".join(" ".join(map(str, place)) for place in ([times[word]], *by_field))
        for word, by_field in places.items()
    }
    return {"common": sorted(common), "fields": FIELDS, "lengths": lengths, "words": words}


def asked(found: list[dict[str, Any]]) -> None:
    """Give each record the titles of the entries whose arrow leads to it."""
    known = {(record["page"], record["title"]): record for record in found}
    for record in found:
        page, _, section = record["text"].partition(" → ")[2].strip().partition(" › ")
        for place in {("", page), (page, section)} & known.keys():
            known[place].setdefault("asked", []).append(record["title"])


def addressed(app: Sphinx, name: str) -> Iterator[dict[str, Any]]:
    """Yield the records of one page with their addresses and what is known of messages."""
    uri = app.builder.get_target_uri(name)
    page = app.env.titles[name].astext()
    for entry in noted(app.env)[name]:
        record: dict[str, Any] = {"url": f"{uri}#{entry['anchor']}", "page": page}
        if not entry["anchor"]:
            record = {"url": uri, "page": ""}
            told = app.config.search_messages.get("pages", {}).get(name, {})
            if told.get("messages"):
                record["line"] = as_js(told["line"])
                record["messages"] = [as_js(pattern) for pattern in told["messages"]]
            if told.get("asked"):
                record["asked"] = [*told["asked"]]
        record |= {key: entry[key] for key in ("title", "code")}
        yield record | {"text": titled(app, entry["text"])}


def as_js(pattern: str) -> str:
    """Return a regular expression of Python as JavaScript writes it.

    Only the named group differs, in what ``tests/test_recognition.py`` lets them use.
    """
    return pattern.replace("(?P<", "(?<")


def titled(app: Sphinx, text: str) -> str:
    """Put the titles of what a page links to in the places of their labels."""
    labels = app.env.domains.standard_domain.labels
    pattern = LABEL.format("(.+?)")
    return re.sub(pattern, lambda label: labels.get(label[1], [label[1]])[-1], text)


def records(doctree: nodes.document) -> Iterator[dict[str, str]]:
    """Yield the record of each entry on one page; that of the page has no anchor."""
    for entry in (e for e in doctree.findall(nodes.Element) if isinstance(e, ENTRIES)):
        title, anchor = heading(entry)
        if title and title != "Where next":
            prose, code = said(entry)
            more = " ".join(sorted(set(split(code)) - set(split(prose))))
            record = {"anchor": anchor, "title": title, "text": prose, "code": more}
            if isinstance(entry.parent, nodes.document):
                record |= {"anchor": "", "first": first_paragraph(doctree)}
            yield record


def first_paragraph(doctree: nodes.document) -> str:
    """Return what the first paragraph of a page says."""
    paragraphs = doctree.findall(nodes.paragraph)
    paragraph = next((p for p in paragraphs if isinstance(p.parent, nodes.section)), None)
    return said(paragraph)[0] if paragraph else ""


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


def said(entry: nodes.Element) -> tuple[str, str]:
    """Return what an entry says itself: its prose, and its code with what that prints."""
    prose: list[str] = []
    code: list[str] = []
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
        elif isinstance(node, CODE):
            code.append(node.astext())
        elif isinstance(node, nodes.math):
            prose.append(plain(node.astext()))
        elif node.get("nb_element") == "mime_bundle":
            kinds = [c for c in node.children if isinstance(c, nodes.Element)]
            pending.extend(c for c in kinds if c.get("mime_type") == "text/plain")
        else:
            if isinstance(node, nodes.TextElement) and not isinstance(node, nodes.Inline):
                prose.append(" ")
            pending.extend(reversed(node.children))
    return " ".join("".join(prose).split()), " ".join(code)


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


def split(text: str) -> list[str]:
    """Return the words of a text as ``search.js`` sees them."""
    return re.findall(r"[^\W_]+", text.lower())
