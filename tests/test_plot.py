"""A plot says in its text twin what its lines show."""

from __future__ import annotations

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
    pictures = [plot("t", {"x": [1, 2]}, {"a": [1, 2], "b": [2, 1]}) for _ in range(2)]
    assert pictures[0].svg == pictures[1].svg
    assert pictures[0].png[:4] == b"\x89PNG"
    assert pictures[0].svg.count("stroke-dasharray") == 2, "in the legend and in the plot"


def test_a_series_of_another_length_is_refused():
    with pytest.raises(ValueError, match="series 'a' and x differ in length: 1 and 2"):
        plot("t", {"x": [1, 2]}, {"a": [1]})


def test_more_lines_than_can_be_told_apart_are_refused():
    lines = {str(i): [i] for i in range(8)}
    with pytest.raises(ValueError, match="8 series: a plot shows at most 7"):
        plot("t", {"x": [1]}, lines)
    lines.pop("7")
    assert plot("t", {"x": [1]}, lines).text.splitlines()[1].split() == ["x", *lines]


def test_whole_numbers_are_whole_whoever_counted_them():
    assert plot("t", {"x": [1]}, {"a": np.array([1_234_567])}).text.splitlines()[-1].split() == ["1", "1,234,567"]


HOSTILE = ["]]> \x1b[31m \x01\x02 \x00 \uffff \ud800 a\nb <b>&\"' 日本", "$\\foo$", "$x$"]


@pytest.mark.parametrize("words", HOSTILE)
def test_any_words_make_a_picture_that_is_well_formed(words):
    picture = plot(words, {words: [1, 2]}, {words: [1, 2], "other": [2, 1]}, words)
    ElementTree.fromstring(picture.svg)
    assert picture.png[:4] == b"\x89PNG"
    json.dumps(picture._repr_mimebundle_()[0], ensure_ascii=False).encode()
