"""What `nox -s page` takes a name for, and what it checks."""

import pytest
from executed import EXAMPLES, NOTEBOOKS, ROOT, name_of

from one_page import checks, chosen


@pytest.mark.parametrize("page", [EXAMPLES[0], EXAMPLES[-1], *NOTEBOOKS], ids=name_of)
def test_a_name_is_a_part_of_a_path(page):
    assert chosen(name_of(page)) == page
    assert chosen(name_of(page).removesuffix(page.suffix)) == page


def test_another_name_is_that_of_a_message():
    assert chosen("leaf-inplace") == "leaf-inplace"
    assert chosen("errors/scalar-outputs") == "scalar-outputs"
    with pytest.raises(SystemExit, match="no page has leaf-in-place in its path"):
        chosen("leaf-in-place")


def test_a_name_of_several_pages_lists_them():
    with pytest.raises(SystemExit, match=r"several pages:\n  docs/answers/"):
        chosen("docs/answers/")


def test_an_example_is_linted_and_held_to_form_and_record():
    page = next((ROOT / "examples").glob("*/[0-9]*.py"))
    ruff, layout, tests = checks(page, ["--force-regen"])
    name = page.relative_to(ROOT).as_posix()
    assert ruff == ["ruff", "check", name]
    assert layout == ["ruff", "format", "--check", name]
    assert {"--force-regen", "tests/test_records.py", "tests/test_examples.py"} < {*tests}
    assert tests[-2:] == ["-k", name]


def test_a_message_is_held_to_its_tests():
    (tests,) = checks("scalar-outputs", [])
    assert tests[-3:] == ["tests/test_messages.py", "-k", "[scalar-outputs]"]
