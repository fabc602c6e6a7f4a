"""What `python -m pullback index` prints for an AGENTS.md."""

import re

import pullback
from pullback.__main__ import main


def test_it_is_short_and_names_every_function(capsys):
    assert main(["index"]) == 0
    printed = capsys.readouterr().out
    assert len(printed.encode()) <= 8_192
    functions = {name for name in pullback.__all__ if name.islower()}
    table = printed[printed.index("## Functions of pullback") :]
    named = {
        name
        for cell in re.findall(r"^\| (`.*?) \|", table, re.M)
        for name in re.findall(r"`(\w+)", cell)
    }
    assert named == functions
