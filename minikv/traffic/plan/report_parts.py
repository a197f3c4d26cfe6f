"""What a report says, for a terminal and for a page alike: headings, sentences and tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

NOTE = "note"  # the heading of a column of words, the last one


class ReportPart(NamedTuple):
    """A heading, sentences, and perhaps a table: its `head`, its `rows`, and which rows are to be pointed out."""

    title: str
    sentences: tuple[str, ...]
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    marked: tuple[int, ...] = ()


def text_lines(sections: Sequence[ReportPart]) -> Iterator[str]:
    """The sections as lines for a terminal.

    >>> sizes = ReportPart("Sizes", ("Some.",), ("size", "hits"), (("1", "5 %"), ("10", "25 %")))
    >>> for line in text_lines([sizes]): print(line)
    <BLANKLINE>
    Sizes
      Some.
        size  hits
           1   5 %
          10  25 %
    """
    for section in sections:
        yield ""
        yield section.title
        yield from (f"  {sentence}" for sentence in section.sentences)
        if section.head:
            table = [section.head, *section.rows]
            widths = [max(map(len, column)) for column in zip(*table)]
            for row in table:
                cells = [cell.rjust(width) for cell, width in zip(row, widths)]
                if section.head[-1] == NOTE:
                    cells[-1] = row[-1]
                yield ("    " + "  ".join(cells)).rstrip()
