"""A file of the site is written where that changes it."""

import os

from files import write_file


def test_what_has_not_changed_keeps_its_date(tmp_path):
    file = tmp_path / "new" / "file.txt"
    write_file(file, "∂y/∂x")
    os.utime(file, (1, 1))
    write_file(file, "∂y/∂x")
    assert file.stat().st_mtime == 1
    write_file(file, "∂y/∂v")
    assert file.read_text(encoding="utf-8") == "∂y/∂v"
    assert file.stat().st_mtime > 1
