"""Words that come piece by piece, broken into lines between them: an answer at the edge of a terminal."""

from __future__ import annotations

import unicodedata


class WordWrap:
    r"""Text in pieces, as lines of at most `width` columns, the first of which begins at `column`.

    `push` returns what can be written now: a word is held back until it ends, since it may have to go to the next line.
    `close` returns the rest, without spaces at the end. A word wider than a line is cut. Without a `width` all text is
    returned as it comes.

    >>> lines = WordWrap(12, column=4)
    >>> [lines.push(" A pa"), lines.push("ge is "), lines.push("short."), lines.close()]
    [' A', ' page\nis', '', ' short.']
    """

    def __init__(self, width: int | None, column: int = 0):
        self._width, self._column = width, column
        self._gap, self._word, self._cells = "", "", 0  # what is held back; `_cells` is how wide the word is

    def push(self, piece: str) -> str:
        """What can be written once `piece` has come."""
        return piece if self._width is None else "".join(self._next(char, self._width) for char in piece)

    def close(self) -> str:
        """What is left to write."""
        text, self._gap = self._place(), ""
        return text

    def _next(self, char: str, width: int) -> str:
        if char.isspace():
            text = self._place()
            if char != "\n":
                self._gap += " "
                return text
            self._gap, self._column = "", 0
            return f"{text}\n"
        cells = cells_of(char)
        # A line may break on both sides of a wide character, and within a word that fills a line.
        text = self._place() if cells == 2 or self._cells + cells > width else ""
        self._word, self._cells = self._word + char, self._cells + cells
        return text + (self._place() if cells == 2 else "")

    def _place(self) -> str:
        """The word that was held back, in this line or in the next."""
        if not self._word:
            return ""
        text, column = self._gap + self._word, self._column + len(self._gap) + self._cells
        if self._width is not None and column > self._width:
            text, column = ("\n" if self._column else "") + self._word, self._cells
        self._gap, self._word, self._cells, self._column = "", "", 0, column
        return text


def cells_of(char: str) -> int:
    """How many columns of a terminal `char` takes: 0 for an accent that joins the letter before it, 2 for a wide one.

    >>> [cells_of(char) for char in ("a", "\N{COMBINING ACUTE ACCENT}", "\N{HIRAGANA LETTER A}")]
    [1, 0, 2]
    """
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
