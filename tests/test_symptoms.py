"""The page of a symptom is found in people's words; what is known of it is on the page."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pullback import _symptoms
from pullback.__main__ import main

FIX = Path(__file__).parents[1] / "docs" / "fix"


def said_by(file):
    """Return what a page of Fix says of itself."""
    text = file.read_text("utf-8")
    asked = re.search(r'^asked: "(.*)"$', text, re.M)[1]
    words = re.search(r"^% words: (.*?)\n\n", text, re.M | re.S)[1].replace("\n%", " ")
    return {
        "page": file.stem,
        "title": re.search(r"^# (.*)$", text, re.M)[1],
        "asked": asked.split("; "),
        "words": [" ".join(word.split()) for word in words.split(",")],
        "questions": [h.replace("`", "") for h in re.findall(r"^## (.*)$", text, re.M)],
    }


def test_what_is_known_of_each_page_is_what_it_says(pytestconfig):
    said = json.dumps([said_by(file) for file in sorted(FIX.glob("*.md"))], indent=1,
                      ensure_ascii=False)  # fmt: skip
    if pytestconfig.getoption("--regen-all"):
        _symptoms.FILE.write_text(f"{said}\n", "utf-8")
    assert _symptoms.FILE.read_text("utf-8") == f"{said}\n", "renew it: --regen-all"


@pytest.mark.parametrize(
    ("text", "page"),
    [
        ("grad is None", "none"),
        ("my .grad is None", "none"),
        ("parameter has no grad", "none"),
        ("loss does not go down", "not-learning"),
        ("the loss doesn't decrease", "not-learning"),
        ("model does not learn", "not-learning"),
        ("weights don't change", "not-learning"),
        ("memory grows", "memory"),
        ("memory leak in training loop", "memory"),
        ("out of memory after a few epochs", "memory"),
        ("twice too large", "factor"),
        ("gradient is 2x too big", "factor"),
        ("gradients are doubled", "factor"),
        ("loss is nan", "nan"),
        ("inf gradient", "nan"),
        ("all gradients are zero", "zeros"),
        ("vanishing gradients", "zeros"),
        ("gradcheck fails", "finite-differences"),
        ("backward is slow", "slow"),
        ("gradient has the wrong sign", "formula"),
        ("different results with two GPUs", "two-gpus"),
    ],
)
def test_a_symptom_in_peoples_words(text, page, capsys):
    assert main(["explain", text]) == 0
    out = capsys.readouterr().out
    (known,) = (known for known in _symptoms.pages() if known["page"] == page)
    assert out.startswith(f"{known['title']}\n")
    assert known["questions"][0] in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 88


@pytest.mark.parametrize(
    "text",
    [
        "all is well",
        "no-such-entry",
        "the weather is nice in Berlin",
        "ValueError: the loss does not go down",
        "how do I install torch",
        "requires_grad",
        "a story of " + "a loss that does not go down " * 3,
    ],
)
def test_what_tells_no_symptom(text):
    assert main(["explain", text]) == 1


def test_entries_for_nearly_the_same_words_are_named(capsys):
    main(["explain", "loss does not go down, all predictions the same"])
    assert "more: python -m pullback explain loss-broadcast\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("requires_grad = True on a module", "requires-grad-of-a-module"),
        ("backbone does not train", "requires-grad-of-a-module"),
    ],
)
def test_an_entry_is_shown_where_people_ask_for_it_in_these_words(text, name, capsys):
    assert main(["explain", text]) == 0
    out = capsys.readouterr().out
    assert f"more: python -m pullback explain {name}\n" in out
    assert "why: " in out
    assert "fix: " in out


@pytest.mark.parametrize("asked", ["scalar-outputs", "grad is None"])
def test_a_pipe_that_is_closed_ends_it_quietly(asked):
    read, written = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "pullback", "explain", asked]
    ran = subprocess.run(command, stdout=written, stderr=subprocess.PIPE, text=True)
    os.close(written)
    assert (ran.returncode, ran.stderr) == (141, "")


def test_a_message_comes_before_a_symptom(capsys):
    main(["explain", "grad can be implicitly created only for scalar outputs"])
    assert "python -m pullback train.py" not in capsys.readouterr().out


def test_torch_is_not_imported_for_a_symptom():
    code = (
        "import sys; from pullback.__main__ import main; "
        "main(['explain', 'memory grows']); sys.exit('torch' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert ran.returncode == 0
