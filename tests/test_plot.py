"""A plot says in its text twin what its lines show."""

import json
from xml.etree import ElementTree

import numpy as np
import pytest

from minikv import plot


def test_the_text_twin_has_every_number():
    picture = plot("a title", {"x": [1, 10]}, {"a": [1, 2.5], "b": [None, 1_000_000]}, "us", log="xy")
    assert picture.text.splitlines() == [
        "a title (us)",
        " x     a           b",
        " 1     1           -",
        "10   2.5   1,000,000",
    ]


def test_the_same_numbers_make_the_same_picture():
    one, same = (plot("t", {"x": [1, 2]}, {"a": [1, 2], "b": [2, 1]}) for _ in range(2))
    assert one.svg == same.svg
    assert one.svg.count("stroke-dasharray") == 2, "in the legend and in the plot"


LINES = {str(i): [i] for i in range(8)}


@pytest.mark.parametrize(("series", "reason"), [
    ({"a": [1, 2]}, "series 'a' and x differ in length: 2 and 1"),
    (LINES, "8 series: a plot shows at most 7"),  # more cannot be told apart
])  # fmt: skip
def test_series_that_cannot_be_shown_are_refused(series, reason):
    with pytest.raises(ValueError, match=reason):
        plot("t", {"x": [1]}, series)


def test_as_many_lines_as_can_be_told_apart_are_shown_and_whole_numbers_whole_whoever_counted_them():
    lines = {**dict([*LINES.items()][:6]), "b": np.array([1_234_567])}
    _, *rows = plot("t", {"x": [1]}, lines).text.splitlines()
    assert [row.split() for row in rows] == [["x", *lines], ["1", *"012345", "1,234,567"]]


HOSTILE = ["]]> \x1b[31m \x01\x02 \x00 \uffff \ud800 a\nb <b>&\"' 日本", "$\\foo$", "$x$"]


@pytest.mark.parametrize("words", HOSTILE)
def test_any_words_make_a_picture_that_is_well_formed(words):
    picture = plot(words, {words: [1, 2]}, {words: [1, 2], "other": [2, 1]}, words)
    ElementTree.fromstring(picture.svg)
    assert picture.png[:4] == b"\x89PNG"
    json.dumps(picture._repr_mimebundle_()[0], ensure_ascii=False).encode()
