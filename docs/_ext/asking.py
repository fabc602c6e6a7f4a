"""A question that a reader answers before the page does: ``.. predict::``.

It is a box with a question and a line to type in, which may be skipped. What is typed is
compared with what the page printed when it ran, and nothing is written by hand::

    .. predict::
       :expects: v

       Which ``v`` puts the diagonal of this table into ``x.grad``?

The argument is the title, ``Predict`` if there is none. Options:

``expects``
    ``value`` (as it is without this option): the value that the next output shows; of a
    ``torch.Size``, its shape. ``shape``: the shape of that value. ``largest``: which of its
    entries is the largest. ``signs``: the signs of its entries. ``v``: a v that gives what
    the next :func:`pullback.draw.vjp` shows. ``choice``: one of the items of the list in
    the question; for each of them, the page prints whether it is so: ``it runs: False``.
``value``, ``label``
    Which value, where the output shows several: its number, from 1, or what is printed
    before it.
``item``
    Which entry or row of the value: its index, such as ``1`` or ``0, 2``.
``for``
    What the answer is, in the words of the label: ``x.grad`` or ``the shape of v``. A
    place ``counted from 0`` is read so, and a number of ``millions`` or ``ninths`` may
    also be written in full.
``wrong``
    What wrong guesses are: ``ones: That is the gradient of the sum.`` Anywhere on the page
    a cell prints the guess with these words before it, ``ones tensor([3., 5., 7.])``, as
    it would be printed for an answer; ``;`` stands between those of several. Of a
    choice, every item but one is wrong.

``code``
    Without a value: the code tells the answer, too, and is covered with it (it always is
    where a v is asked for).
``also``
    Words of a later paragraph, table or output, or of what a later drawing says, that
    tells the answer, too; ``;`` stands between those of several.

An output counts until the next question. If the expected answer cannot be read from it,
or a wrong guess is not printed or is the right answer, the build warns, and the question
stands alone. Without scripts, and in other formats than HTML, it always does.
``_static/asking.js`` does the rest, and ``typed.js`` reads what is typed.

On a screen, what tells the answer lies under a cover until a reader has given one, or asks
to be shown: the output, the text behind it up to the next code or box, and in the same
section every later output or drawing that shows the same numbers, if the question does
not. What stands in a
``dropdown`` needs no cover.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from html import escape, unescape
from typing import Any

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from doors import imgsgnode
from folded import folded, ignore
from pages import GALLERY, is_chosen
from printed import Printed, values

logger = logging.getLogger(__name__)
KINDS = ("value", "shape", "largest", "signs", "v", "choice")
# In a question: ``x`` has the shape ``(4, 3)``.
SHAPE = re.compile(r"`+(?P<name>[\w.]+)`+[^`]*\bshape\s+`+(?P<shape>\([\d, ]*\))`+")
NUMBERS = re.compile(r'data-numbers="([^"]*)"')
SAID = re.compile(r'aria-label="([^"]*)"')  # by a drawing
ENDS = (nodes.Admonition, addnodes.only, folded)  # a passage

FORM = """\
<form class="exercise" data-asks="{asks}" hidden>{fields}<button>Check</button>\
<output id="said-{number}" for="answer-{number}" aria-live="polite"></output></form>
"""
LINE = """\
<label for="answer-{number}">{label}</label>\
<input id="answer-{number}" autocomplete="off" autocapitalize="off" spellcheck="false" \
aria-describedby="said-{number}">"""
CHOICE = '<fieldset id="answer-{number}"><legend>{label}</legend>{items}</fieldset>'
ITEM = '<label><input type="radio" name="answer" value="{place}"> {text}</label>'


def setup(app: Sphinx) -> dict[str, Any]:
    """Add the directive, what reads its answers, and the script where it is needed."""
    nothing = (skip, None)
    app.setup_extension("folded")
    through = (ignore, ignore)
    app.add_node(asked, html=(write, None), latex=nothing, man=nothing, text=nothing)
    app.add_node(veil, html=(open_veil, close_veil), latex=through, text=through)
    app.add_directive("predict", Predict)
    app.add_transform(ReadAnswers)
    app.connect("html-page-context", add_script)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


class asked(nodes.General, nodes.Element):  # noqa: N801 (docutils writes nodes so)
    """The line to type in."""


class veil(nodes.General, nodes.Element):  # noqa: N801
    """What tells an answer."""


def index(text: str) -> tuple[int, ...]:
    """Read the index of an item; docutils reports a ValueError at the directive."""
    return tuple(int(part) for part in text.split(","))


def guesses(text: str) -> dict[str, str]:
    """Read what wrong guesses are, by the words before them in an output."""
    found = {}
    for part in text.replace("`", "").split(";"):
        label, _, said = " ".join(part.split()).partition(": ")
        if not said:
            raise ValueError(f"{part.strip()!r} does not read WORDS: SENTENCE")
        found[label] = said
    return found


class Predict(SphinxDirective):
    """The directive; its content is the question."""

    optional_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec = {  # noqa: RUF012 (docutils reads it from the class)
        "expects": lambda kind: directives.choice(kind, KINDS),
        "value": directives.positive_int,
        "label": directives.unchanged_required,
        "item": index,
        "for": directives.unchanged_required,
        "code": directives.flag,
        "also": directives.unchanged_required,
        "wrong": guesses,
    }

    def run(self) -> list[nodes.Node]:
        """Return the box, with the question and a line to type in."""
        self.assert_has_content()
        title = self.arguments[0] if self.arguments else "Predict"
        texts, messages = self.state.inline_text(title, self.lineno)
        box = nodes.admonition("", nodes.title(title, "", *texts))
        box["classes"].append(f"admonition-{nodes.make_id(title)}")
        box += self.parse_content_to_nodes()
        question = "\n".join(self.content)
        shapes = {
            found["name"]: [int(n) for n in re.findall(r"\d+", found["shape"])]
            for found in SHAPE.finditer(question)
        }
        line = asked("", options=dict(self.options), shapes=shapes)
        self.set_source_info(line)
        box += line
        return [box, *messages]


class ReadAnswers(SphinxTransform):
    """Gives each question the answer that the page shows next, and covers that."""

    default_priority = 895  # when code is in its boxes, and a drawing without its script

    def apply(self, **options: Any) -> None:
        """Go over the questions of one page."""
        blocks = [n for n in self.document.findall(nodes.literal_block) if shows(n)]
        printed = [value for block in blocks for value in values(block.astext())]
        for number, (line, after) in enumerate(followed(self.document), 1):
            try:
                wrong = line["options"].get("wrong", {})
                if line["options"].get("expects") == "choice":
                    line["choices"], asks = choice(line.parent, wrong, printed)
                    numbers: list[float] = []
                else:
                    asks, numbers = expectation(line["options"], after)
                    asks |= {"wrong": [*told_of(wrong, asks, printed)]} if wrong else {}
                line["asks"] = {"shapes": line["shapes"]} | asks
                line["number"] = number
                cover(line, [*what_tells(line, numbers), *named_by_author(line, after)])
            except ValueError as error:
                if self.is_executed():
                    logger.warning("%s", error, location=line, type="asking")
                line.parent.remove(line)

    def is_executed(self) -> bool:
        """Tell whether this page shows what it prints, as far as the build was told."""
        name = f"docs/{self.env.doc2path(self.env.docname, base=False)}"
        if name.startswith(f"docs/{GALLERY}/"):
            name = f"{self.env.docname.removeprefix('auto_')}.py"
        return is_chosen(name, getattr(self.config, "execution_pages", "all"))


def followed(document: nodes.document) -> Iterator[tuple[asked, list[nodes.Element]]]:
    """Yield each question with what comes before the next."""
    line: asked | None = None
    after: list[nodes.Element] = []
    for node in list(document.findall(nodes.Element)):
        if isinstance(node, asked):
            if line is not None:
                yield line, after
            line, after = node, []
        else:
            after.append(node)
    if line is not None:
        yield line, after


def expectation(
    options: dict[str, Any], after: Iterable[nodes.Element]
) -> tuple[dict[str, Any], list[float]]:
    """Return what the script compares an answer with, and the numbers that tell it.

    Raises:
        ValueError: It cannot be read from what comes after the question.
    """
    kind = options.get("expects", "value")
    if kind == "v":
        drawn = (NUMBERS.search(n.astext()) for n in after if isinstance(n, nodes.raw))
        if not (found := next(filter(None, drawn), None)):
            raise ValueError("no drawing of v and J follows the question")
        asks = product(json.loads(unescape(found[1])))
        return asks, asks["wanted"]
    texts = (n.astext() for n in after if isinstance(n, nodes.literal_block) and shows(n))
    if (text := next(texts, None)) is None:
        raise ValueError("no output follows the question")
    whole = value = chosen(values(text), options)
    if "item" in options:
        value = value.item(options["item"])
    asks = COMPARED["shape" if value.is_size and kind == "value" else kind](value)
    return asks, asks["numbers"] if asks["kind"] == "shape" else whole.numbers


def choice(
    box: nodes.Element, wrong: dict[str, str], printed: list[Printed]
) -> tuple[list[str], dict[str, Any]]:
    """Return the items of the list in a question, and which one is right.

    Raises:
        ValueError: There is no single list, no word on each wrong item, or the page does
            not print that this one alone is so.
    """
    lists = list(box.findall(nodes.bullet_list))
    if len(lists) != 1:
        raise ValueError(f"the question has {len(lists)} lists to choose from; 1 is needed")
    items = [" ".join(item.astext().split()) for item in lists[0].children]
    so = [named(printed, item).text for item in items]
    if sorted(so) != ["False"] * (len(items) - 1) + ["True"]:
        raise ValueError(f"one of {items} has to be True, and the others False, not {so}")
    right = so.index("True")
    if {*wrong} != {*items} - {items[right]}:
        raise ValueError(f"wrong has to say what each is of {items} but {items[right]!r}")
    lists[0]["classes"].append("choices")
    said = [wrong.get(item, "") for item in items]
    return items, {"kind": "choice", "right": right, "said": said}


def named(printed: list[Printed], label: str) -> Printed:
    """Return the value that stands behind these words in an output of the page.

    Raises:
        ValueError: None does, or values that differ.
    """
    found = {value.text: value for value in printed if value.label == label}
    if len(found) != 1:
        raise ValueError(f"the page prints {len(found)} values of {label!r}; 1 is needed")
    return found.popitem()[1]


def told_of(
    wrong: dict[str, str], asks: dict[str, Any], printed: list[Printed]
) -> Iterator[dict[str, Any]]:
    """Yield the wrong guesses as the script compares them, each with what it is.

    Raises:
        ValueError: A guess is not printed, or it is the answer, or another guess.
    """
    seen = {"the answer": asks}
    for label, said in wrong.items():
        kind = "value" if asks["kind"] == "v" else asks["kind"]
        guess = COMPARED[kind](named(printed, label))
        for other, before in seen.items():
            if alike(guess, before):
                raise ValueError(f"the wrong guess {label!r} is the same as {other}")
        seen[label] = guess
        if kind == "largest":
            yield {"is": guess["place"], "said": said}
        elif kind == "signs":
            yield {"is": signs(guess["numbers"]), "said": said}
        elif kind == "shape":
            yield {"is": guess["numbers"], "said": said}
        else:
            rounded = {"slack": guess["slack"]} if any(guess["slack"]) else {}
            yield {k: guess[k] for k in ("shape", "numbers")} | rounded | {"said": said}


def alike(guess: dict[str, Any], other: dict[str, Any]) -> bool:
    """Tell whether what is typed for a guess is taken for another, or for the answer."""
    typed: list[float] = guess["numbers"]
    expected: list[float] = other["numbers"] if other["kind"] != "v" else other["wanted"]
    if other["kind"] == "v":
        if guess["shape"] != other["shape"]:
            return False
        columns = zip(*other["rows"], strict=True)
        typed = [sum(w * x for w, x in zip(typed, col, strict=True)) for col in columns]
        near = [1e-3 * (1 + abs(n)) for n in expected]
    elif other["kind"] == "largest":
        return bool(guess["place"] == other["place"])
    elif other["kind"] == "signs":
        return signs(typed) == signs(expected)
    elif other["kind"] == "shape":
        return typed == expected
    elif len(typed) == len(expected):
        near = [*map(max, guess["slack"], other["slack"])]
    return len(typed) == len(expected) and all(
        abs(a - b) <= slack for a, b, slack in zip(typed, expected, near, strict=True)
    )


def signs(numbers: list[float]) -> list[int]:
    """Return the sign of each number."""
    return [(n > 0) - (n < 0) for n in numbers]


def shows(block: nodes.Element) -> bool:
    """Tell whether a block is what a cell printed, in the gallery or in MyST-NB."""
    if "sphx-glr-script-out" in block["classes"]:
        return True
    node = block.parent
    while node is not None and node.get("nb_element") != "cell_code_output":
        node = node.parent
    return node is not None


def cover(line: asked, told: Iterable[nodes.Element]) -> None:
    """Put what tells the answer to a question under covers, neighbours under one."""
    last: nodes.Element | None = None
    for node in told:
        parent = node.parent
        place = parent.index(node)
        before = [n for n in parent[:place] if not isinstance(n, nodes.comment)]
        if last is None or before[-1:] != [last]:
            last = veil("", of=line["number"])
            parent.insert(place, last)
        parent.remove(node)
        last += node


def what_tells(line: asked, numbers: list[float]) -> Iterator[nodes.Element]:
    """Yield what tells the answer to a question."""
    with_code = "code" in line["options"] or line["asks"]["kind"] == "v"
    asks_for_them = has_numbers(line.parent.astext(), numbers)
    told = passage = False
    plots: list[nodes.Element] = []  # which stand before what their cell has printed
    for node in parts(line.parent):
        if not told and isinstance(node, folded):
            return  # which has the answer
        if isinstance(node, nodes.section) or node.next_node(asked):
            return
        first = not told and is_output(node)
        told = told or first
        if first:
            yield from plots
        plots = [*plots, node] if isinstance(node, imgsgnode) else []
        passage = first or (passage and not (isinstance(node, ENDS) or is_code(node)))
        code = with_code and not told and is_code(node)
        again = (
            told
            and not asks_for_them
            and is_output(node)
            and has_numbers(text_of(node), numbers)
        )
        if passage or code or again:
            yield node


def named_by_author(line: asked, after: list[nodes.Element]) -> Iterator[nodes.Element]:
    """Yield what the author says tells the answer, too.

    Raises:
        ValueError: Nothing does before the next question.
    """
    texts = [
        n for n in after if isinstance(n, (nodes.paragraph, nodes.table)) or is_output(n)
    ]
    for words in line["options"].get("also", "").split(";"):
        if words := words.strip():
            found = [node for node in texts if words in " ".join(text_of(node).split())]
            if not found:
                raise ValueError(f"nothing after the question says {words!r}")
            yield found[0]


def parts(box: nodes.Element) -> Iterator[nodes.Element]:
    """Yield what follows a box, and the parts of a cell of MyST-NB in its place."""
    place = box.parent.index(box) + 1
    for node in box.parent.children[place:]:
        is_cell = (
            isinstance(node, nodes.container) and node.get("nb_element") == "cell_code"
        )
        for part in node.children if is_cell else [node]:
            if isinstance(part, nodes.Element):
                yield part


def is_output(node: nodes.Element) -> bool:
    """Tell whether a part of a page is what code printed or drew."""
    if isinstance(node, nodes.raw):
        return bool(SAID.search(node.astext()))
    return node.get("nb_element") == "cell_code_output" or (
        isinstance(node, nodes.literal_block) and shows(node)
    )


def is_code(node: nodes.Element) -> bool:
    """Tell whether a part of a page is code."""
    return node.get("nb_element") == "cell_code_source" or (
        isinstance(node, nodes.literal_block) and not shows(node)
    )


def text_of(node: nodes.Element) -> str:
    """Return the text of a part of a page, and what the drawings in it say."""
    shown = " ".join(part.astext() for part in node.findall(nodes.raw))
    drawn = "\n".join(map(unescape, SAID.findall(shown)))
    return drawn or node.astext()


def has_numbers(text: str, numbers: list[float]) -> bool:
    """Tell whether a text has these numbers, one after the other, in a value.

    One number alone may stand there for something else.
    """
    return len(numbers) > 1 and any(
        all(math.isclose(a, b, rel_tol=0.01, abs_tol=0.001) for a, b in pairs)
        for value in values(text)
        for pairs in runs(value.numbers, numbers)
    )


def runs(
    shown: list[float], numbers: list[float]
) -> Iterator[Iterable[tuple[float, float]]]:
    """Yield the numbers beside each stretch of as many that are shown."""
    for start in range(len(shown) - len(numbers) + 1):
        yield zip(shown[start:], numbers, strict=False)


def chosen(found: list[Printed], options: dict[str, Any]) -> Printed:
    """Return the one value that is meant."""
    if (label := options.get("label")) is not None:
        found = [value for value in found if value.label == label]
    if place := options.get("value"):
        found = found[place - 1 : place]
    if len(found) != 1:
        raise ValueError(
            f"the next output shows {len(found)} values that the question may mean; 1 is "
            "needed (see the options value and label)"
        )
    return found[0]


def by_value(value: Printed) -> dict[str, Any]:
    """Ask for the numbers."""
    return {
        "kind": "value",
        "shape": value.shape,
        "numbers": value.numbers,
        "slack": value.slack,
        "text": value.text,
    }


def by_shape(value: Printed) -> dict[str, Any]:
    """Ask for the shape."""
    shape = [int(n) for n in value.numbers] if value.is_size else value.shape
    return {"kind": "shape", "numbers": shape}


def by_largest(value: Printed) -> dict[str, Any]:
    """Ask for the place of the largest entry."""
    numbers = value.numbers
    if len(value.shape) != 1 or numbers.count(max(numbers, default=0)) != 1:
        raise ValueError(f"{value.text} has no single largest entry in a list")
    return by_value(value) | {"kind": "largest", "place": numbers.index(max(numbers))}


def by_signs(value: Printed) -> dict[str, Any]:
    """Ask for the signs."""
    return by_value(value) | {"kind": "signs"}


COMPARED: dict[str, Callable[[Printed], dict[str, Any]]] = {
    "value": by_value,
    "shape": by_shape,
    "largest": by_largest,
    "signs": by_signs,
}


def product(drawn: dict[str, Any]) -> dict[str, Any]:
    """Ask for a v that gives what a drawing of v and J shows."""
    shape, whole = lengths(drawn["v"]), lengths(drawn["J"])
    v, flat = leaves(drawn["v"]), leaves(drawn["J"])
    size = len(flat) // len(v)
    rows = [flat[i : i + size] for i in range(0, len(flat), size)]
    wanted = [
        sum(w * x for w, x in zip(v, row, strict=True)) for row in zip(*rows, strict=True)
    ]
    return {
        "kind": "v",
        "shape": shape,
        "shapes": {"x": whole[len(shape) :]},
        "rows": rows,
        "wanted": wanted,
    }


def lengths(nested: Any) -> list[int]:
    """Return the shape of nested lists that a tensor was written as."""
    return [len(nested), *lengths(nested[0])] if isinstance(nested, list) else []


def leaves(nested: Any) -> list[float]:
    """Return the numbers of nested lists."""
    if not isinstance(nested, list):
        return [nested]
    return [leaf for entry in nested for leaf in leaves(entry)]


def write(visitor: Any, node: asked) -> None:
    """Write the line to type in, or what to choose from; the script shows it."""
    told, number = node["options"].get("for"), node["number"]
    label = escape(f"Your answer: {told}" if told else "Your answer")
    choices: list[str] = node.get("choices", [])
    items = "".join(
        ITEM.format(place=place, text=escape(text)) for place, text in enumerate(choices)
    )
    fields = (CHOICE if items else LINE).format(number=number, label=label, items=items)
    asks = escape(json.dumps(node["asks"], separators=(",", ":")))
    visitor.body.append(FORM.format(asks=asks, fields=fields, number=number))
    raise nodes.SkipNode


def open_veil(visitor: Any, node: veil) -> None:
    """Begin what lies under a cover, which the script puts there; a book has none."""
    if visitor.builder.name != "book":
        visitor.body.append(f'<div class="veil" data-of="{node["of"]}"><div>\n')


def close_veil(visitor: Any, node: veil) -> None:
    """End it."""
    if visitor.builder.name != "book":
        visitor.body.append("</div></div>\n")


def skip(visitor: Any, node: asked) -> None:
    """Write nothing."""
    raise nodes.SkipNode


def add_script(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any
) -> None:
    """Have a page with questions load the script."""
    if doctree is not None and next(doctree.findall(asked), None) is not None:
        app.add_js_file("asking.js", loading_method="defer")
