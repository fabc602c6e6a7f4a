"""Link the functions in a page's code, and list them once at its end.

sphinx-gallery links a name where it is imported. Here a method is linked as well, by what
was called when the page ran (:mod:`call_recorder`). A variable is not, which would lead to
its class: on a page of this site that would be eighty links to ``torch.Tensor``.

The keyboard does not stop at a link in code, of which a page may have a hundred: each of
them is in the list at the end of the page, where it does.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.ext.intersphinx import resolve_reference_any_inventory
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.writers.html5 import HTML5Translator

from doors import CodeLinksTransform, code_links_block

LIBRARIES = ["pullback", "torch", "numpy"]  # in the order of the list; others follow
METHOD = re.compile(r"\b[A-Z]\w*\.\w+$")


def setup(app: Sphinx) -> dict[str, Any]:
    """Go over each page after sphinx-gallery has."""
    app.add_node(code_link, html=(visit_code_link, depart_code_link))
    app.add_post_transform(FunctionLinks)
    app.add_config_value("code_links_inventories", "", "html")  # what is in them
    app.connect("config-inited", read_inventories)
    return {"version": "2", "parallel_read_safe": True, "parallel_write_safe": True}


def read_inventories(app: Sphinx, config: Any) -> None:
    """Have every page written again when an inventory of links has changed."""
    places = (
        Path(app.confdir, place or "") for _, place in config.intersphinx_mapping.values()
    )
    files = (place.read_bytes() for place in places if place.is_file())
    config.code_links_inventories = hashlib.sha256(b"".join(files)).hexdigest()


class code_link(nodes.reference):  # noqa: N801
    """A link in code."""


def visit_code_link(self: HTML5Translator, node: code_link) -> None:
    """Open the link, without a stop for the keyboard."""
    target = node["refuri"] if "refuri" in node else f"#{node['refid']}"
    title = node["reftitle"]
    self.body.append(self.starttag(node, "a", "", href=target, title=title, tabindex="-1"))


def depart_code_link(self: HTML5Translator, node: code_link) -> None:
    """Close the link."""
    self.body.append("</a>")


class FunctionLinks(SphinxPostTransform):
    """Makes the links of one page."""

    default_priority = CodeLinksTransform.default_priority + 1
    formats = ("html",)

    def run(self, **options: Any) -> None:
        """Link the calls in the blocks of the script, and list what is linked."""
        script = Path(self.env.srcdir, f"{self.env.docname}.py")
        if not script.exists():
            return
        text = script.read_text(encoding="utf-8")
        noted = script.with_suffix(".calls.json")
        notes = json.loads(noted.read_text(encoding="utf-8")) if noted.exists() else {}
        end = 0
        for block in list(self.document.findall(code_links_block)):
            code = block.astext().strip("\n")
            start = text.find(code, end) if block["lang"] == "Python" else -1
            end = start + len(code) if start >= 0 else end
            block[:] = list(self.linked(block, start, notes if start >= 0 else {}))
        links = {link["reftitle"]: link for link in self.document.findall(code_link)}
        if links:
            (footer,) = (
                node
                for node in self.document.findall(nodes.container)
                if "sphx-glr-footer" in node["classes"]
            )
            place = footer.parent if isinstance(footer.parent, addnodes.only) else footer
            place.parent.insert(place.parent.index(place), listed(links))

    def linked(
        self, block: nodes.Element, at: int, notes: dict[str, list[str]]
    ) -> Iterator[nodes.Node]:
        """Yield the parts of a block of code that starts at an offset in its script."""
        name: list[nodes.Node] = []  # the parts of a dotted name so far
        for part in parts_of(block):
            at += len(part.astext())
            if isinstance(part, code_link) or not (
                part.astext().isidentifier() or (name and part.astext() == ".")
            ):
                yield from name
                yield part
                name = []
                continue
            name.append(part)
            if (link := self.resolved(notes.get(str(at), []))) is not None:
                yield code_link("", "", *name, **link)
                name = []
        yield from name

    def resolved(self, names: list[str]) -> dict[str, Any] | None:
        """Return the address of what is documented under one of these names."""
        domain, builder = self.env.domains.python_domain, self.env._app.builder
        for name in names:
            wanted = addnodes.pending_xref(
                refdomain="py", reftype="obj", reftarget=name, refdoc=self.env.docname
            )
            shown = nodes.inline()
            found = domain.resolve_xref(
                self.env, self.env.docname, builder, "obj", name, wanted, shown
            ) or resolve_reference_any_inventory(self.env, False, wanted, shown)
            if found is not None:
                return {**address(found), "reftitle": name}
        return None


def parts_of(block: nodes.Element) -> Iterator[nodes.Node]:
    """Yield the parts of a block, its links being those to functions and classes.

    sphinx-gallery, which has not seen the page run, links what is imported and no variable.
    """
    for part in block:
        if isinstance(part, nodes.reference):
            part = code_link("", "", *part.children, **address(part))
        yield part


def address(link: nodes.Element) -> dict[str, Any]:
    """Return what a link says of where it leads."""
    parts = ("refuri", "refid", "internal", "reftitle")
    return {part: link[part] for part in parts if part in link}


def listed(links: dict[str, code_link]) -> nodes.container:
    """Return the list of all that is linked: functions and classes, and then methods."""

    def order(name: str) -> tuple[int, bool, str]:
        library = name.partition(".")[0]
        place = LIBRARIES.index(library) if library in LIBRARIES else len(LIBRARIES)
        return place, METHOD.search(name) is not None, name.lower()

    items = nodes.bullet_list()
    for name in sorted(links, key=order):
        method = METHOD.search(name)
        shown = nodes.Text(method[0] if method else name)
        link = nodes.reference("", "", shown, **address(links[name]))
        items += nodes.list_item("", nodes.paragraph("", "", link))
    title = nodes.rubric("", "Functions used here")
    return nodes.container("", title, items, classes=["functions-used"])
