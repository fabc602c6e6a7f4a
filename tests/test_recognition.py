"""Which entries a text holds: the package and the script of the search page agree."""

import functools
import json
import re

import pytest
from executed import ROOT
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from py_mini_racer import MiniRacer
from sweeps import examples

import search_index
from pullback import _messages, _recognition
from pullback._messages import messages
from pullback._recognition import EXPRESSIONS, found, lookup, matches


def corpus(name):
    return json.loads((ROOT / "tests" / name).read_text(encoding="utf-8"))


# What people paste, and what torch's own tests of autograd, torch.func and nn raise: those
# of nn that have nothing to do with autograd have no entry.
PASTED = corpus("pasted_messages.json") | corpus("torch_messages.json")
SCRIPT = (ROOT / "docs" / "_static" / "recognition.js").read_text(encoding="utf-8")
ANSWERS = """({ expressions, entries, texts }) => {
  const recognise = recogniser(expressions, entries);
  return texts.map((text) => recognise(text).map((entry) => entry.anchor));
}"""
PATTERNS = sorted({pattern for message in messages() for pattern in message.patterns})
USED = [*PATTERNS, *(m.only_line for m in messages()), *EXPRESSIONS.values()]


def texts():
    """Return what people paste, every wording we know, and frames of tracebacks around."""
    wordings = [*PASTED]
    for message in messages():
        wordings += [*message.older, message.title]
    lines = ("x.grad.norm()", "y = sizes", "_, _ = ctx.saved_tensors")
    frames = [
        f'Traceback:\n  File "a.py", line 3, in f\n    {line}\n{text}'
        for line in lines
        for text in wordings
    ]
    warned = [f"UserWarning: of x.grad\n  f(x)\nValueError: {text}" for text in wordings]
    return [*wordings, *frames, *warned]


def of_the_page(given):
    """Return what the page's script answers."""
    with MiniRacer() as racer:
        racer.eval(SCRIPT)
        return json.loads(racer.eval(f"JSON.stringify(({ANSWERS})({json.dumps(given)}))"))


def test_the_page_and_the_package_recognise_the_same():
    pasted = texts()
    given = {
        "expressions": EXPRESSIONS,
        "entries": [
            {
                "anchor": message.anchor,
                "line": search_index.as_js(message.only_line),
                "messages": [search_index.as_js(pattern) for pattern in message.patterns],
            }
            for message in messages()
            if not message.silent
        ],
        "texts": pasted,
    }
    for text, answer in zip(pasted, of_the_page(given), strict=True):
        ours = dict.fromkeys(message.anchor for message in found(text))
        assert [*ours] == answer, text


def test_expressions_mean_the_same_to_both():
    """Python and JavaScript differ in others, such as an end of text or a flag."""
    for expression in USED:
        assert set(re.findall(r"\\([A-Za-z])", expression)) <= set("bdSsuw"), expression
        groups = re.findall(r"\(\?(P<(?=\w)|<?.)", expression)
        assert {*groups} <= {":", "P<", "=", "!", "<=", "<!"}, expression


@pytest.mark.parametrize("anchor", [*dict.fromkeys(PASTED.values())], ids=str)
def test_what_people_paste_is_found_and_no_other(anchor):
    for text in (text for text, its in PASTED.items() if its == anchor):
        message = lookup(text)
        assert (message and message.anchor) == anchor, text
        if message and "During handling" not in text:
            assert [m.anchor for m, _ in matches(text)] == [message.anchor], text


def test_a_text_is_looked_at_whatever_its_form():
    text = "grad can be implicitly\n    created only for\tscalar outputs"
    assert lookup(text) is lookup(" ".join(text.split()))


@given(st.data())
@examples(300, suppress_health_check=list(HealthCheck))
def test_the_text_looked_for_first_is_in_all_that_a_pattern_finds(data):
    pattern = data.draw(st.sampled_from(PATTERNS))
    text = data.draw(st.from_regex(pattern))
    assert _messages.needle(pattern) in text


@pytest.mark.parametrize(
    ("pattern", "needle"),
    [
        (r"one (?:two|three) four", " four"),
        (r"one|two", ""),
        (r"ab?c{0,2}?def+ .{0,9}?x", "def"),
        (r"f\(\[\d, \w\.\]", "f(["),
        (r"(?<!a )of [()x]+ no", "of "),
    ],
)
def test_the_longest_sure_text_is_looked_for(pattern, needle):
    assert _messages.needle(pattern) == needle


def test_most_patterns_have_a_text_to_look_for():
    least = _recognition.BEGINNING
    assert sum(len(_messages.needle(pattern)) < least for pattern in PATTERNS) < 10


def test_a_part_of_an_entry_is_read_as_the_whole_has_it():
    names = ("name", "asked", "patterns")
    for file, some in _messages.fields(*names):
        entry = _messages.read(file)
        patterns = tuple(map(_messages.whole, some.get("patterns", ())))
        assert (some["name"], tuple(some["asked"]), patterns) == (
            entry.name,
            entry.asked,
            entry.patterns,
        )


def test_few_entries_are_read_to_find_the_one_of_a_message(monkeypatch):
    read = functools.cache(_messages.read)
    monkeypatch.setattr(_recognition, "entry_of", read)
    assert lookup("grad can be implicitly created only for scalar outputs")
    assert 0 < read.cache_info().currsize < 10
