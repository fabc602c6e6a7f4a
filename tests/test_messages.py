"""The table of messages: what torch says is recognised, and the fixes work."""

import dataclasses
import json
import os
import re
import string
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from executed import ROOT

import error_pages
from error_pages import run, seen, shown
from pullback._messages import MESSAGES, THEMES, lookup

REPRODUCED = [m for m in MESSAGES if m.broken and not m.silent]
SILENT = [m for m in MESSAGES if m.silent]
FIXED = [m for m in MESSAGES if m.fixed]
PASTED = json.loads((ROOT / "tests" / "pasted_messages.json").read_text(encoding="utf-8"))


def each(messages):
    return pytest.mark.parametrize("message", messages, ids=lambda m: m.anchor)


def recognised(text):
    return [message.anchor for message in MESSAGES if message.find(text)]


@each(REPRODUCED)
def test_what_the_reproducer_raises_is_this_message_and_no_other(message):
    kind, text = seen(message)
    assert kind in message.kinds
    assert recognised(text) == [message.anchor]


@each(REPRODUCED)
def test_a_pasted_traceback_is_recognised(message):
    kind, text = seen(message)
    wrapped = "\n    ".join(re.findall(r".{1,60}(?:\s|$)|\S+", text.replace("\n", " ")))
    pasted = f"Traceback (most recent call last):\n  ...\n{kind}: {wrapped}\n"
    assert lookup(pasted) is message


@each(FIXED)
def test_the_fix_passes_without_a_warning_and_shows_its_result(message):
    assert shown(message.fixed, message.anchor)
    assert "assert" in message.fixed


@each(SILENT)
def test_the_trap_is_silent_and_proved_by_an_assertion(message):
    assert shown(message.broken, message.anchor)
    assert "assert" in message.broken


@each(MESSAGES)
def test_older_wordings_and_the_title_are_recognised(message):
    wordings = [*message.older, *([] if message.silent else [message.title])]
    for wording in wordings:
        assert recognised(wording) == [message.anchor], wording


@each(MESSAGES)
def test_the_entry_is_whole(message):
    assert re.fullmatch(r"[a-z0-9-]+", message.anchor)
    assert message.why.endswith((".", ".)"))
    assert message.fix.endswith((".", ".)"))
    assert message.see
    assert message.source
    assert message.silent == (not message.kinds)
    assert message.fixed or not message.broken


@each(MESSAGES)
def test_every_value_in_the_fix_is_a_group_of_a_pattern(message):
    used = {name for _, name, _, _ in string.Formatter().parse(message.fix) if name}
    groups = set(message.shapes)
    for pattern in message.patterns:
        groups |= set(re.compile(pattern).groupindex)
    assert used <= groups
    assert set(message.unknown) <= used


@each(MESSAGES)
def test_advice_needs_no_value(message):
    assert "{" not in message.advice({})


def test_names_are_used_once():
    anchors = [message.anchor for message in MESSAGES]
    assert len(set(anchors)) == len(anchors)
    titles = [message.title for message in MESSAGES]
    assert len(set(titles)) == len(titles)


@pytest.mark.parametrize("text", PASTED)
def test_a_message_that_people_paste_is_found(text):
    found = lookup(text)
    assert found is not None
    assert found.anchor == PASTED[text]
    assert recognised(text) == [found.anchor]


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


def test_a_line_that_names_the_matter_is_enough():
    text = "ValueError: not enough values to unpack (expected 2, got {})"
    frame = 'File "a.py", line 3, in backward\n    x, n = {}\n    ^^^^\n'
    for got in (0, 1):
        assert lookup(frame.format("ctx.saved_tensors") + text.format(got)) is not None
        assert lookup(frame.format("sizes") + text.format(got)) is None


@pytest.mark.parametrize(
    ("shown", "known"),
    [
        ('File "a.py", line 3, in step\n    p.grad.norm()\n    ^^^^^^^^^^^', True),
        ('File "a.py", line 3, in loss\n    self.aux.norm()\n    ^^^^^^^^^^^^^', False),
        ('[rank0]:   File "a.py", line 3, in loss\n[rank0]:     aux.norm()\n', False),
        ("Cell In[5], line 2\n      1 y.backward()\n----> 2 x.grad.norm()\n", True),
        ("Cell In[5], line 2\n      1 x.grad = None\n----> 2 y.norm()\n", False),
        ('File "<stdin>", line 1, in <module>', True),
        ('[rank1]:   File "<stdin>", line 1, in <module>\n[rank1]: ', True),
        ("Traceback (most recent call last):\n  ...", True),
    ],
)
def test_words_of_python_are_held_to_the_line_that_raised(shown, known):
    text = "AttributeError: 'NoneType' object has no attribute 'norm'"
    assert (lookup(f"{shown}\n{text}") is not None) == known
    later = "During handling of this:\nValueError: of my own"
    assert (lookup(f"{shown}\n{text}\n{later}") is not None) == known


def test_every_message_is_among_those_that_people_paste():
    assert set(PASTED.values()) == {m.anchor for m in MESSAGES if not m.silent}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "CUDA out of memory. Tried to allocate 20.00 MiB",
        "mat1 and mat2 shapes cannot be multiplied (1x3 and 1x1)",
        "'float' object is not callable",
        "'NoneType' object has no attribute 'shape'",
        "list index out of range",
        "Net.forward() missing 1 required positional argument: 'x'",
        "tuple index out of range",
        "not enough values to unpack (expected 2, got 1)",
        "'DataLoader' object is not iterable",
        "'tuple' object has no attribute 'append'",
        "'NoneType' object has no attribute 'items'",
        "linear(): argument 'input' (position 1) must be Tensor, not NoneType",
        "cross_entropy_loss(): argument 'target' (position 2) must be Tensor, not NoneType",
        "unsupported operand type(s) for +: 'int' and 'NoneType'",
        "Cannot copy out of meta tensor; no data!",
        "module 'torch' has no attribute 'compile'",
        "forward() got an unexpected keyword argument 'inputs'",
        "cannot pickle '_thread.lock' object",
        "'dict' object has no attribute 'data'",
        "The operator 'aten::cumsum.out' is not currently implemented for the MPS device",
        "Could not run 'aten::add.out' with arguments from the 'QuantizedCPU' backend.",
        "output with shape [3] doesn't match the broadcast shape [4, 3]",
        "The size of tensor a (3) must match the size of tensor b (4)",
    ],
)
def test_other_messages_are_not_claimed(text):
    assert lookup(text) is None


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


# -- The pages --------------------------------------------------------------------------


@each(MESSAGES)
def test_the_page_has_anchor_title_and_sections(message):
    page = error_pages.page_of(message)
    assert f"(error-{message.anchor})=\n# " in page
    for heading in ("## What you see", "## The fix", "## More"):
        assert f"\n{heading}\n" in page
    for code in (message.broken, message.fixed):
        assert f"```python\n{code}\n```" in page or not code
    for ours in (r"0x[0-9a-f]{6}", "site-packages", re.escape(str(error_pages.__file__))):
        assert not re.search(ours, page.replace(message.title, ""))


def test_a_message_that_is_not_reproduced_says_so():
    for message in MESSAGES:
        page = error_pages.page_of(message)
        assert ("Not reproduced here" in page) == (not message.broken)


def test_a_changed_wording_stops_the_page():
    message = lookup("got 2 tensors and 1 gradients")
    changed = dataclasses.replace(message, patterns=("got 2 outputs and 1 gradients",))
    with pytest.raises(AssertionError, match=r"the reproducer raised .*got 2 tensors"):
        error_pages.page_of(changed)


def test_code_that_no_longer_passes_stops_the_page():
    message = lookup("got 2 tensors and 1 gradients")
    with pytest.raises(AssertionError, match=r"should pass raised .*ZeroDivisionError"):
        error_pages.page_of(dataclasses.replace(message, fixed="1 / 0"))


def test_what_torch_says_when_it_first_loads_something_is_not_the_codes():
    message = next(m for m in MESSAGES if m.anchor == "jvp-returns")
    alone = f"import error_pages; error_pages.shown({message.fixed!r}, 'alone')"
    folder = Path(error_pages.__file__).parent
    subprocess.run([sys.executable, "-c", alone], cwd=folder, check=True)


def test_code_runs_alone_and_leaves_nothing(capsys):
    before = torch.get_rng_state(), torch.is_warn_always_enabled()
    raised = run("import torch\ntorch.rand(3)\nprint('here')\n1 / 0", "example")
    assert raised == ("here", (("ZeroDivisionError", "division by zero"),))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert torch.is_warn_always_enabled() == before[1]
    assert capsys.readouterr().out == ""
    assert run("print(__name__)", "example").printed == "__main__"


def test_a_process_group_runs_in_a_process_of_its_own():
    code = "import os, torch.distributed\nprint(os.getpid())\nraise KeyError('here')"
    raised = run(code, "example")
    assert raised.texts == (("KeyError", "'here'"),)
    assert int(raised.printed) != os.getpid()


def test_every_theme_is_listed_on_the_index_page():
    text = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    assert re.findall(r"```\{error-list\} ([\w-]+)", text) == [
        theme.name for theme in THEMES
    ]


def test_a_process_that_dies_is_named():
    with pytest.raises(ChildProcessError, match=r"broken example.* ended with 3"):
        run("import os, torch.distributed\nos._exit(3)", "broken example")
