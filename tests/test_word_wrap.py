"""An answer at the edge of a terminal: lines break between words, however the text was cut into pieces."""

import textwrap

from hypothesis import example, given
from hypothesis import strategies as st

from minikv.cli.chat import WordWrap

WIDTH = st.integers(1, 30)
TEXT = st.text("ab  \t\n", max_size=80)


def wrapped(text, width, column=0):
    lines = WordWrap(width, column)
    return lines.push(text) + lines.close()


@given(st.lists(st.text("abc", min_size=1, max_size=9)), st.integers(9, 30))
def test_plain_words_are_filled_into_lines_as_textwrap_fills_them(words, width):
    assert wrapped(" ".join(words), width) == textwrap.fill(" ".join(words), width)


@given(TEXT, WIDTH, st.integers(0, 30))
def test_no_line_is_too_long_no_short_word_is_cut_and_nothing_but_spaces_is_lost(text, width, column):
    lines = wrapped(text, width, column).split("\n")
    assert len(lines[0]) <= max(width - column, 0)
    assert max(map(len, lines)) <= width
    assert "".join("".join(lines).split()) == "".join(text.split())
    assert {word for word in text.split() if len(word) <= width} <= {*" ".join(lines).split()}


@given(st.lists(TEXT), WIDTH)
@example(["a page", "s"], 5)
def test_the_pieces_do_not_matter(pieces, width):
    lines = WordWrap(width)
    assert "".join(map(lines.push, pieces)) + lines.close() == wrapped("".join(pieces), width)


def test_by_hand():
    assert wrapped("two", 6, column=4) == "\ntwo"
    assert wrapped("abcdefgh ij", 3) == "abc\ndef\ngh\nij"
    assert wrapped("a  b \n\n  c ", 9) == "a  b\n\n  c"
    assert wrapped("abc\nde fg", 5) == "abc\nde fg"  # a new line begins at its left end
    assert wrapped("  spaces and a tab\t ", None) == "  spaces and a tab\t "
