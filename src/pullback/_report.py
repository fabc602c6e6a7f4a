"""One small table, as text for a terminal and as HTML for a page or a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple


class Table(NamedTuple):
    """A caption, a header (may be empty) and rows of text."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def text(self) -> str:
        """Return the table with its columns aligned."""
        lines = [*([self.header] if self.header else []), *self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
        body = [
            "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True))
            for line in lines
        ]
        return "\n".join(line.rstrip() for line in [self.caption, *body])

    def html(self) -> str:
        """Return the table as HTML that a screen reader can walk through."""
        head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in self.header)
        rows = [
            f'<tr><th scope="row">{escape(first)}</th>'
            + "".join(f"<td>{escape(cell)}</td>" for cell in rest)
            + "</tr>"
            for first, *rest in self.rows
        ]
        top = f"<thead><tr>{head}</tr></thead>" if head else ""
        return (
            f'<table class="pullback"><caption>{escape(self.caption)}</caption>'
            f"{top}<tbody>{''.join(rows)}</tbody></table>"
        )
