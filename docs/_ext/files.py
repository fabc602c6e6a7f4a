"""Write a file of the site, if that changes it: what is as it was keeps its date."""

from __future__ import annotations

from pathlib import Path


def write_file(file: Path, text: str) -> None:
    """Write a file, and the folders that it is in, unless it has this text."""
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
