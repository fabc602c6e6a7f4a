"""The table of messages: what torch says is recognised, and the fixes work."""

import dataclasses
import json
import re
import shutil
import subprocess
import sys
import textwrap

import pytest
from executed import ROOT, shown_by
from noise import rounding_noise
from sites import write

import error_pages
from pages import Store, find, pieces
from pullback import _messages
from pullback._messages import messages, themes
from pullback._recognition import lookup, matches

MESSAGES = messages()
SILENT = [m for m in MESSAGES if m.silent]
PASTED = json.loads((ROOT / "tests" / "pasted_messages.json").read_text(encoding="utf-8"))
ENTRY = """+++
name = 'Two are too many'
message = 'got 2'
kinds = ['RuntimeError']
patterns = ['got (?P<number>\\d+)']
asked = ['two of them']
see = ['shape-rule']
source = ['torch/autograd']

[unknown]
number = 'some'
+++

Too
many.

## Do this

Pass {number}, not `{}`.

| you have | write |
|---|---|
| one | two |

## Which cause is yours?

- One
  cause.
- Another.

```python broken
1 / 0
```

```python fixed
print(1)
```
"""


def raised_by(message):
    return error_pages.raised_by(message, shown_by(message.anchor))


def printed(message, name):
    return error_pages.printed(shown_by(message.anchor)[name])


def page_of(message):
    return error_pages.page_of(message, shown_by(message.anchor))


def recognised(text):
    return [message.anchor for message, _ in matches(text)]


# -- The entries ------------------------------------------------------------------------


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.anchor)
def test_an_entry_is_whole_its_code_shows_what_it_says_and_so_does_its_page(message):
    """One test an entry: a test of each of these would be four thousand."""
    the_entry_is_whole(message)
    the_entry_is_named_and_asked_for(message)
    message.check()
    assert "{" not in message.advice({}), "it needs a value"
    older_wordings_and_the_title_are_recognised(message)
    if message.silent:
        the_trap_is_silent_and_proved_by_an_assertion(message)
    elif message.broken:
        the_reproducer_raises_this_message_and_no_other(message)
        a_pasted_traceback_is_recognised(message)
    if message.fixed:
        assert printed(message, "fixed"), "it shows no result"
        the_fix_is_checked_and_not_by_what_is_to_be_copied(message)
    page = page_of(message)
    the_page_has_anchor_title_and_sections(message, page)
    the_page_prints_no_rounding_noise(message, page)


def the_entry_is_whole(message):
    assert re.fullmatch(r"[a-z0-9-]+", message.anchor)
    assert message.why.endswith((".", ".)"))
    assert message.fix.endswith((".", ".)", "|"))
    assert message.see
    assert message.source
    assert message.silent == (not message.kinds)
    assert message.fixed or not message.broken


def the_entry_is_named_and_asked_for(message):
    assert message.name
    assert not re.search(r"\.$|`", message.name), "a heading, without Markdown"
    assert message.name != message.message
    assert message.asked
    assert len({*message.asked}) == len(message.asked)


def older_wordings_and_the_title_are_recognised(message):
    wordings = [*message.older, *([] if message.silent else [message.title])]
    for wording in wordings:
        assert recognised(wording) == [message.anchor], wording


def the_trap_is_silent_and_proved_by_an_assertion(message):
    assert printed(message, "broken")
    assert "assert" in message.broken


def the_reproducer_raises_this_message_and_no_other(message):
    kind, text = raised_by(message)
    assert kind in message.kinds
    assert recognised(text) == [message.anchor]


def a_pasted_traceback_is_recognised(message):
    kind, text = raised_by(message)
    wrapped = "\n    ".join(re.findall(r".{1,60}(?:\s|$)|\S+", text.replace("\n", " ")))
    pasted = f"Traceback (most recent call last):\n  ...\n{kind}: {wrapped}\n"
    assert lookup(pasted) is message


def the_fix_is_checked_and_not_by_what_is_to_be_copied(message):
    assert "assert" in message.proof
    assert "assert" not in message.fixed, "it is not to be copied"


def the_page_has_anchor_title_and_sections(message, page):
    assert f"(error-{message.anchor})=\n# " in page
    for heading in ("## Do this", "## More"):
        assert f"\n{heading}\n" in page
    for code in (message.broken, message.fixed):
        assert f"```python\n{code}\n```" in page or not code
    if message.broken:  # what to do comes first, and what goes wrong is folded
        unfolded = page.partition("::::{dropdown} ")[0]
        assert f"```python\n{message.broken}\n```" not in unfolded
    for ours in (r"0x[0-9a-f]{6}", "site-packages", "/errors/", r"runner\.py"):
        assert not re.search(ours, page.replace(message.title, ""))


def the_page_prints_no_rounding_noise(message, page):
    blocks = re.findall(r"^:class: message\n\n(.*?)^```$", page, re.M | re.S)
    assert blocks or message.silent or not message.broken
    assert rounding_noise("\n".join(blocks)) == []


def test_names_are_used_once():
    titles = [message.title for message in MESSAGES]
    assert len(set(titles)) == len(titles)
    names = [message.name for message in MESSAGES if message.name]
    assert len(set(names)) == len(names)


def test_of_several_errors_in_one_paste_the_last_is_found():
    warning, first, second = (
        "UserWarning: The .grad attribute of a Tensor that is not a leaf Tensor is being",
        "RuntimeError: grad can be implicitly created only for scalar outputs",
        "RuntimeError: Trying to backward through the graph a second time",
    )
    for parts in ([first, second], [warning, second], [second, "raise it again"]):
        pasted = "\n\nDuring handling of the above exception, another:\n\n".join(parts)
        assert lookup(pasted) is lookup(second), parts
    assert lookup(f"{first}\nValueError: of my own") is lookup(first)


def test_a_warning_is_not_taken_for_the_error_after_it():
    warning = "UserWarning: Anomaly Detection has been enabled."
    error = "RuntimeError: CUDA error: device-side assert triggered"
    assert lookup(warning) is not None
    assert lookup(f"train.py:1: {warning}\n{error}") is None
    assert lookup(f"{warning}\nTraceback (most recent call last):\n  f()\n{error}") is None
    assert lookup(f"{error}\ntrain.py:1: {warning}") is lookup(warning)


def test_every_message_is_among_those_that_people_paste():
    assert set(PASTED.values()) - {None} == {m.anchor for m in MESSAGES if not m.silent}


@pytest.mark.parametrize(
    "name",
    ["MulBackward0", "torch::autograd::CopySlices", "CppNode<(anonymous namespace)::F>"],
)
def test_a_node_is_named_whole(name):
    text = f"Function '{name}' returned nan values in its 0th output."
    message = lookup(text)
    assert message.find(text)["function"] == name


def test_a_type_is_named_whole():
    text = "gradients can be either Tensors or None, but got numpy.ndarray"
    assert lookup(text).find(text)["type"] == "numpy.ndarray"


def test_shapes_are_written_as_python_writes_them():
    message = lookup("Mismatch in shape: grad_output[0] has a shape of ")
    advice = message.advice({"v": "torch.Size([1])", "output": "[2, 3]"})
    assert "shape (1,)," in advice
    assert "shape (2, 3)" in advice
    assert "shape ()" in message.advice({"v": "[]", "output": None})


# -- The files --------------------------------------------------------------------------


@pytest.fixture
def entry(tmp_path, monkeypatch):
    """Write an entry, in a folder of its own, with one text in the place of another."""
    monkeypatch.setattr(_messages, "FOLDER", tmp_path)

    def write(old="", new="", name="theme/got-two.md"):
        assert old in ENTRY
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(ENTRY.replace(old, new, 1) if old else ENTRY, encoding="utf-8")
        return file

    return write


def test_an_entry_is_read_whole(entry):
    message = _messages.read(entry())
    assert (message.anchor, message.theme) == ("got-two", "theme")
    assert message.why == "Too many."
    table = "\n\n| you have | write |\n|---|---|\n| one | two |"
    assert message.advice({"number": "3"}) == "Pass 3, not `{}`." + table
    assert message.advice({}) == "Pass some, not `{}`." + table
    assert message.tell == ("One cause.", "Another.")
    assert (message.broken, message.fixed) == ("1 / 0", "print(1)")
    assert message.kinds == ("RuntimeError",)
    assert not message.silent


def test_the_card_and_the_line_of_an_entry_begin_with_what_to_do(entry):
    message = _messages.read(entry())
    card = error_pages.card(message)
    assert card["html"].startswith("<p>Pass {number}, not")
    assert card["why"] == "<p>Too many.</p>\n"
    assert card["why"] not in card["html"]
    assert error_pages.lead(message) == "Pass some, not {}. · one: two"
    gap = _messages.read(entry("[unknown]\nnumber = 'some'\n"))
    assert error_pages.lead(gap) == "one: two"  # what has a gap is left out


def test_a_trap_has_no_message(entry):
    pattern = (
        "message = 'got 2'\nkinds = ['RuntimeError']\npatterns = ['got (?P<number>\\d+)']\n"
    )
    file = entry(pattern)
    with pytest.raises(ValueError, match=r"no pattern has a group for \{number\}"):
        _messages.read(file)
    file.write_text(file.read_text().replace("{number}", "2").replace("number =", "#"))
    trap = _messages.read(file)
    assert trap.silent
    assert trap.title == "Two are too many"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("+++\n", "---\n", "begins with its fields"),
        ("see =", "also =", "unknown field: also"),
        ("message =", "title =", "unknown field: title"),
        ("see = ['shape-rule']", "", "missing or empty field: see"),
        ("name = 'Two are too many'", "", "missing or empty field: name"),
        ("['two of them']", "[]", "missing or empty field: asked"),
        ("['RuntimeError']", "[]", "missing or empty field: kinds"),
        ("kinds = ['RuntimeError']", "", "missing or empty field: kinds"),
        ("['shape-rule']", "'shape-rule'", "the field see is to be a list"),
        ("['shape-rule']", "[1]", "the field see is to hold text"),
        ("'some'", "1", "the field unknown is to hold text"),
        ("'got 2'", "got 2", "Invalid value"),
        ("\nToo\nmany.\n", "", "text below the fields is missing"),
        ("Pass {number}", "Pass {numbers}", r"no pattern has a group for \{numbers\}"),
        ("Pass {number}", "Pass 1", r"\[unknown\] is not used: number"),
        ("## Do this", "## Do that", "a heading is one of"),
        ("## Which cause is yours?", "## Do this", "a heading is one of"),
        ("- One\n", "One\n", "each cause begins with `- `: 'One"),
        ("python broken", "python", "a block of code is one of .*: 'python'"),
        ("python fixed", "python broken", "a block of code is one of .*once"),
        ("1 / 0\n```\n", "1 / 0\n```\nand then\n", "code stands at the end"),
    ],
)
def test_what_is_wrong_with_an_entry_is_said_with_its_file(entry, old, new, reason):
    file = entry(old, new)
    with pytest.raises(ValueError, match=reason) as raised:
        _messages.read(file)
    assert str(raised.value).startswith(f"{file}: ")


@pytest.mark.usefixtures("torch_alone")
def test_the_entry_that_contributing_shows_passes_what_an_entry_is_held_to(tmp_path):
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (template,) = re.findall(r"^````md\n(\+{3}.*?)^````$", text, re.M | re.S)
    name = "src/tiny/messages/theme/anchor.md"
    write(tmp_path, {name: template, "src/tiny/__init__.py": ""})
    message = _messages.read(tmp_path / name)
    message.check()
    the_entry_is_whole(message)
    the_entry_is_named_and_asked_for(message)
    the_fix_is_checked_and_not_by_what_is_to_be_copied(message)
    assert message.find(message.message)
    for piece, result in Store(tmp_path).execute(list(pieces(tmp_path)), 1):
        assert not result["failure"], piece.name
    shown = error_pages.stored(Store(tmp_path))["anchor"]
    assert error_pages.raised_by(message, shown)[0] == "RuntimeError"
    assert error_pages.printed(shown["fixed"])
    page = error_pages.page_of(message, shown)  # which raises if ``fixed`` does
    assert f"# {message.name}\n" in page


def test_the_fields_that_contributing_lists_are_those_there_are():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text[text.index("| field |") :]
    listed = [
        name.strip("[]")
        for row in table.partition("\n\n")[0].splitlines()[2:]
        for name in re.findall(r"`([^`]+)`", row.split(" | ")[0])
    ]
    fields = _messages.NEEDED | _messages.OF_A_MESSAGE | _messages.OPTIONAL
    assert sorted(listed) == sorted(fields)


def test_a_pattern_that_does_not_compile_is_named_with_its_file(entry):
    file = entry("\\d+)']", "\\d+']")
    message = _messages.read(file)
    with pytest.raises(ValueError, match="missing \\), unterminated subpattern") as raised:
        message.check()
    assert str(raised.value).startswith(f"{file}: ")


def test_a_message_with_a_name_has_it_for_a_heading():
    message = lookup("got 2 tensors and 1 gradients")
    named = dataclasses.replace(message, name="Two [of] them")
    assert "\n# Two \\[of\\] them\n" in page_of(named)


def test_a_name_that_is_taken_is_said_with_both_files(entry):
    files = entry(), entry(name="other/got-two.md")
    with pytest.raises(ValueError, match="has this name, too") as raised:
        _messages.messages.__wrapped__()
    assert all(str(file) in str(raised.value) for file in files)


def test_entries_without_a_place_come_last_in_their_theme(entry, monkeypatch):
    for name, place in (("a", ""), ("b", "place = 20"), ("c", "place = 10"), ("d", "")):
        entry("see =", f"{place}\nsee =", f"theme/{name}.md")
    monkeypatch.setattr(_messages, "messages", _messages.messages.__wrapped__)
    assert [message.anchor for message in _messages.themes()["theme"]] == list("cbad")


def test_importing_the_package_reads_no_message():
    """Nor what only messages need, nor any package but torch and NumPy."""
    code = """
        import sys, torch, numpy
        before, opened = {*sys.modules}, []
        sys.addaudithook(lambda event, given: event == "open" and opened.append(given[0]))
        from pullback import *
        print(*(name for name in sys.modules if name not in before))
        print(*(file for file in opened if str(file).endswith(".md")))
        """
    python = [sys.executable, "-c", textwrap.dedent(code)]
    printed = subprocess.run(python, capture_output=True, text=True, check=True).stdout
    loaded, opened = printed.split("\n")[:2]
    assert "pullback._hints" in loaded.split()
    assert opened == ""
    others = {name for name in loaded.split() if not name.startswith("pullback")}
    assert {name.split(".")[0] for name in others} <= {"html", "numpy"}
    assert not {"pullback._messages", "pullback._recognition"} & {*loaded.split()}


@pytest.mark.usefixtures("torch_alone")
def test_only_what_adds_notes_depends_on_the_entries(tmp_path):
    """A page runs again when a folder of the package that it read has changed."""
    opening = "import torch, pullback\nfrom contextlib import suppress\nz = torch.ones(2)\n"
    pages = {
        "notes": "with suppress(RuntimeError), pullback.hints():\n    z.backward()",
        "none": "pullback.mixing(torch.square, torch.ones(2, 1))",
    }
    for name, code in pages.items():
        write(tmp_path, {f"examples/one/{name}.py": f'"""Page."""\n{opening}{code}'})
    shutil.copytree(ROOT / "src" / "pullback", tmp_path / "src" / "pullback")
    depends = {}
    for page, result in Store(tmp_path).execute(list(find(tmp_path)), 1):
        assert result["failure"] == ""
        depends[page.source.stem] = any("messages" in name for name in result["folders"])
    assert depends == {"notes": True, "none": False}


# -- The pages --------------------------------------------------------------------------


def test_a_message_that_is_not_reproduced_says_so():
    for message in MESSAGES:
        page = page_of(message)
        assert ("Not reproduced here" in page) == (not message.broken)


def test_a_message_whose_code_has_not_run_shows_it_without_output():
    message = lookup("got 2 tensors and 1 gradients")
    page = error_pages.page_of(message, {})
    assert f"```python\n{message.broken}\n```\n\n::::" in page
    assert ":class: message" not in page
    assert "\n:class: message\n" in page_of(message)


def test_a_changed_wording_stops_the_page():
    message = lookup("got 2 tensors and 1 gradients")
    changed = dataclasses.replace(message, patterns=("got 2 outputs and 1 gradients",))
    with pytest.raises(AssertionError, match=r"the reproducer raised .*got 2 tensors"):
        page_of(changed)


def test_another_class_of_error_stops_the_page():
    message = lookup("got 2 tensors and 1 gradients")
    with pytest.raises(AssertionError, match="raised as RuntimeError"):
        page_of(dataclasses.replace(message, kinds=("ValueError",)))


@pytest.mark.parametrize("anchor", ["scalar-outputs", SILENT[0].anchor])
def test_code_that_no_longer_passes_stops_the_page(anchor):
    message = next(message for message in MESSAGES if message.anchor == anchor)
    pieces = shown_by(anchor)
    wrong = {"line": 1, "raised": [("ZeroDivisionError", "division by zero")]}
    for name in ("fixed", *(["broken"] if message.silent else [])):
        with pytest.raises(AssertionError, match=r"should pass raised .*ZeroDivisionError"):
            error_pages.page_of(message, {**pieces, name: wrong})


def test_what_is_executed_is_the_code_of_the_entries():
    code = {f"errors/{m.anchor}/broken.py": m.broken for m in MESSAGES if m.broken}
    code |= {
        f"errors/{m.anchor}/fixed.py": "\n\n".join(filter(None, [m.fixed, m.proof]))
        for m in MESSAGES
        if m.fixed
    }
    assert {piece.name: piece.code for piece in pieces(ROOT)} == code


def test_every_theme_is_listed_on_the_index_page():
    text = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    listed = re.findall(r"```\{error-list\} ([\w-]+)", text)
    assert sorted(listed) == [*themes()]


def test_a_message_says_nothing_of_the_machine_or_of_what_ran_the_code():
    calls = [
        "/a/site-packages/torch/jit/_trace.py(1022): trace",
        "/b/errors/some-message/broken.py(15): <module>",
        "/another/copy/docs/_ext/runner.py(338): show",
        "/usr/lib/python3.11/multiprocessing/process.py(108): run",
    ]
    kept = ["torch/jit/_trace.py(1022): trace", "broken.py(15): <module>"]
    assert error_pages.steady("\n".join(calls)).splitlines() == kept
