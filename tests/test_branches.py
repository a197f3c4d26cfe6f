"""The picture of sequences that share pages: the same in words and in lines, for ours and for the learner's."""

from __future__ import annotations

import pytest

from minikv import CopyOnWrite, draw
from minikv.engine import engine_world

pytestmark = pytest.mark.core

HOW = "a  0[A B]×2  1[C .]\nb  0[A B]×2  2[C D?]  3[E? .]\n×2 two sequences have it · ? a draft"


def parted(cache):
    cache.append("a", [1, 2, 3], "ABC")
    cache.fork("a", "b")
    cache.draft("b", [4, 5], "DE")
    return draw(cache)


def test_ours_and_the_learners_look_alike():
    ours, theirs = CopyOnWrite(6, 2), engine_world(2, 11)["SharedPages"](6, 2)
    ours.attach("a", [], ""), theirs.attach("a", [])
    pictures = [parted(ours), parted(theirs)]
    assert pictures[0].text == f"CopyOnWrite: 2 of 6 pages free\n{HOW}"
    assert pictures[1].text == f"SharedPages: 2 of 6 pages free\n{HOW}"
    assert pictures[0].svg == pictures[1].svg.replace("SharedPages", "CopyOnWrite")


def test_a_shared_page_is_told_by_its_shape_and_by_a_number():
    cache = CopyOnWrite(6, 2)
    cache.attach("a", [], "")
    svg = parted(cache).svg
    assert svg.count(">×2<") == 2
    assert svg.count('width="44" height="40"') == 5
    assert svg.count('rx="14"') == 3  # round, and two are square


def test_values_that_are_no_words_are_shown_by_their_tokens():
    cache = CopyOnWrite(2, 2)
    cache.attach("a", [7, 8], [[0.5], [0.25]])
    assert draw(cache).text.splitlines()[1] == "a  0[7 8]"


def test_a_sequence_without_pages_is_a_row():
    cache = CopyOnWrite(2, 2)
    cache.attach("a", [], "")
    assert draw(cache).text == "CopyOnWrite: 2 of 2 pages free\na  -"


def test_marks_are_refused():
    with pytest.raises((TypeError, AttributeError)):
        draw(CopyOnWrite(2, 2), matched=[0])
