"""An answer at the edge of a terminal: lines break between words, however the text was cut into pieces."""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from minikv.serving.word_wrap import WordWrap, cells_of

WIDTH = st.integers(1, 30)
WIDE = "\N{HIRAGANA LETTER A}"
ACCENT = "\N{COMBINING ACUTE ACCENT}"
TEXT = st.text(st.sampled_from(["a", "b", " ", " ", "\t", "\n", WIDE, ACCENT]), max_size=80)


def wrapped(text, width, column=0):
    lines = WordWrap(width, column)
    return lines.push(text) + lines.close()


def cells(line):
    return sum(map(cells_of, line))


@given(st.lists(st.text("abc", min_size=1, max_size=9)), st.integers(9, 30))
def test_plain_words_are_filled_into_lines_as_textwrap_fills_them(words, width):
    assert wrapped(" ".join(words), width) == textwrap.fill(" ".join(words), width)


@given(TEXT, st.integers(2, 30), st.integers(0, 30))
def test_no_line_is_too_wide_and_nothing_but_spaces_is_lost(text, width, column):
    lines = wrapped(text, width, column).split("\n")
    assert cells(lines[0]) <= max(width - column, 0)
    assert max(map(cells, lines)) <= width
    assert "".join("".join(lines).split()) == "".join(text.split())


@given(TEXT, WIDTH)
def test_a_word_that_fits_in_a_line_is_in_one_line(text, width):
    whole = {word for word in text.replace(WIDE, " ").split() if cells(word) <= width}
    assert whole <= {part for word in wrapped(text, width).split() for part in word.split(WIDE)}


@given(st.lists(TEXT), WIDTH)
@example(["a page", "s"], 5)
def test_the_pieces_do_not_matter(pieces, width):
    lines = WordWrap(width)
    assert "".join(map(lines.push, pieces)) + lines.close() == wrapped("".join(pieces), width)


def test_by_hand():
    assert wrapped("one two three", 7) == "one two\nthree"
    assert wrapped("one two three", 6) == "one\ntwo\nthree"
    assert wrapped("two", 6, column=4) == "\ntwo"
    assert wrapped("abcdefgh ij", 3) == "abc\ndef\ngh\nij"
    assert wrapped("a  b \n\n  c ", 9) == "a  b\n\n  c"
    assert wrapped("   abc", 3) == "abc"
    assert wrapped(WIDE, 1) == WIDE
    assert wrapped(f"a {WIDE}{WIDE}{WIDE}", 4) == f"a {WIDE}\n{WIDE}{WIDE}"
    assert wrapped(f"ab{ACCENT} c", 4) == f"ab{ACCENT} c"


def test_a_word_is_written_as_soon_as_it_ends_and_a_wide_character_at_once():
    lines = WordWrap(20)
    assert [lines.push(piece) for piece in ("pa", "ge ", "is", " ", WIDE)] == ["", "page", "", " is", f" {WIDE}"]


@pytest.mark.parametrize("text", ["", "  spaces and a tab\t ", "word " * 100])
def test_without_a_width_text_is_returned_as_it_comes(text):
    lines = WordWrap(None)
    assert (lines.push(text), lines.close()) == (text, "")
