"""The tables of `trireme top`: cells of lines that fit their columns, so that nothing is off the screen.

Tests: tests/unit/cli/test_top.py.
"""

import textwrap
from collections.abc import Sequence

from rich import text
from textual import widgets

from trireme.cli import row_table

# Lines of a reason; what is longer ends with an ellipsis.
_TEXT_LINES = 2
# A cell has a blank on each side, and the table a scrollbar.
_PADDING, _SCROLLBAR = 2, 1


def fill(
    shown: "widgets.DataTable[text.Text]",
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    columns: int,
    *,
    right: Sequence[str],
    wrapped: str,
    styles: Sequence[str] = (),
) -> None:
    """Replace the rows by these; the cursor stays in its row, as far as there is one.

    `columns` is the width of the screen. Names go on in a second line; the texts of the column `wrapped` do, too, and
    are cut off after it. `styles` are those of the rows' texts.
    """
    at = shown.cursor_row
    shown.clear(columns=True)
    table = row_table.RowTable(headers, rows, right=right, wrapped=(wrapped,), header_style="")
    widths = table.widths(columns - _SCROLLBAR - _PADDING * len(headers))
    for header, width in zip(headers, widths, strict=True):
        shown.add_column(header, width=width)
    for number, row in enumerate(rows):
        cells = [
            _lines(cell, width, _TEXT_LINES if header == wrapped else None)
            for header, cell, width in zip(headers, row, widths, strict=True)
        ]
        style = styles[number] if styles else ""
        texts = [
            text.Text("\n".join(lines), style if header == wrapped else "")
            for header, lines in zip(headers, cells, strict=True)
        ]
        shown.add_row(*texts, height=max(1, *map(len, cells)))
    if shown.row_count:
        shown.move_cursor(row=min(at, shown.row_count - 1))


def _lines(cell: str, width: int, limit: int | None) -> list[str]:
    """The cell's lines of so many columns, at most `limit` of them."""
    return textwrap.wrap(cell, width, max_lines=limit, placeholder="…", break_on_hyphens=False)
