"""Every printed output of every page is held to a reviewed record.

``nox -s doctest -- --regen-all`` writes the records anew; read the diff.
"""

import pytest
from executed import EXAMPLES, NOTEBOOKS, ROOT, name_of, outputs

RECORDS = ROOT / "tests" / "records"
PAGES = [*EXAMPLES, *NOTEBOOKS]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_printed_output_is_as_recorded(page, file_regression):
    shown = "\n\n".join(f">>> {line}\n{text}" for line, text in outputs(page))
    record = (RECORDS / name_of(page).replace("/", "-")).with_suffix(".txt")
    file_regression.check(shown + "\n", fullpath=record)


def test_no_record_outlives_its_page():
    expected = {name_of(page).replace("/", "-").rsplit(".", 1)[0] for page in PAGES}
    assert {record.stem for record in RECORDS.glob("*.txt")} == expected
