"""A table of rows whose text columns, the reasons, are readable at any width: names are folded before they give way."""

from collections.abc import Iterator, Sequence

from rich import cells, console, measure, table, text

_GAP = 2
# A column so narrow (an age, a state) saves nothing by being folded.
_NARROW = 10
# The share of the text columns where all do not fit, in fifths: a reason needs more lines than a name, but no more of
# the line.
_TEXT_FIFTHS = 2


class RowTable:
    """Rows without lines, under their headers; columns are as wide as their contents, as long as all fit.

    Where they do not, numbers and narrow columns stay as they are. The rest is divided: text columns get at least two
    fifths, and long names are folded into the space that is left. Nothing is cut off.
    """

    def __init__(
        self,
        headers: Sequence[str],
        rows: Sequence[Sequence[str | text.Text]],
        *,
        right: Sequence[str],
        wrapped: Sequence[str],
        header_style: str,
    ) -> None:
        """`right` names the columns of numbers, `wrapped` those of texts; the others hold names."""
        self._headers = headers
        self._rows = rows
        self._right = right
        self._wrapped = wrapped
        self._header_style = header_style
        columns = [[header, *(row[number] for row in rows)] for number, header in enumerate(headers)]
        self._natural = [max(map(_cell_width, column)) for column in columns]

    def __rich_measure__(self, terminal: console.Console, options: console.ConsoleOptions) -> measure.Measurement:
        """The width at which nothing is folded, and any down to a few columns."""
        whole = sum(self._natural) + _GAP * (len(self._headers) - 1)
        return measure.Measurement(min(len(self._headers), whole), whole)

    def __rich_console__(
        self, terminal: console.Console, options: console.ConsoleOptions
    ) -> Iterator[console.RenderableType]:
        """The table, for the width of these options."""
        out = table.Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style=self._header_style)
        widths = self.widths(options.max_width - _GAP * (len(self._headers) - 1))
        for header, width in zip(self._headers, widths, strict=True):
            out.add_column(
                header,
                justify="right" if header in self._right else "left",
                overflow="fold",
                width=width,
            )
        for row in self._rows:
            out.add_row(*row)
        yield out

    def widths(self, space: int) -> list[int]:
        """The widths of the columns' contents, which add up to `space` at most. Shape: one for each header."""
        if sum(self._natural) <= space:
            return self._natural
        texts = [number for number, header in enumerate(self._headers) if header in self._wrapped]
        names = [
            number
            for number, header in enumerate(self._headers)
            if number not in texts and header not in self._right and self._natural[number] > _NARROW
        ]
        rest = [number for number in range(len(self._headers)) if number not in texts and number not in names]
        flexible = space - sum(self._natural[number] for number in rest)
        if flexible < _NARROW * (len(texts) + len(names)):  # a very narrow terminal: each column gives way
            return _shared(self._natural, space)
        of_names = sum(self._natural[number] for number in names)
        of_texts = sum(self._natural[number] for number in texts)
        for_texts = min(of_texts, max(flexible - of_names, flexible * _TEXT_FIFTHS // 5))
        widths = dict(zip(texts, _shared([self._natural[number] for number in texts], for_texts), strict=True))
        widths |= zip(names, _shared([self._natural[number] for number in names], flexible - for_texts), strict=True)
        return [widths.get(number, natural) for number, natural in enumerate(self._natural)]


def _cell_width(cell: str | text.Text) -> int:
    return max(map(cells.cell_len, str(cell).split("\n")))


def _shared(natural: Sequence[int], space: int) -> list[int]:
    """Widths that add up to `space` at most, each at least 1: the widest give way first."""
    out = list(natural)
    for done, number in enumerate(sorted(range(len(natural)), key=natural.__getitem__)):
        out[number] = max(min(natural[number], space // (len(natural) - done)), 1)
        space -= out[number]
    return out
