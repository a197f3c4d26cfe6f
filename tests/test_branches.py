"""The picture of sequences that share pages: the same in words and in lines, for ours and for the learner's."""

import pytest

from minikv import CopyOnWrite, draw
from minikv.course.pictures.cells import MOST_LETTERS
from minikv.engine import engine_world

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
    svg = pictures[0].svg
    assert svg == pictures[1].svg.replace("SharedPages", "CopyOnWrite")
    assert svg.count(">×2<") == 2  # a shared page is told by a number, and by its shape:
    assert svg.count('width="44" height="40"') == 5
    assert svg.count('rx="14"') == 3  # round, and two are square


@pytest.mark.parametrize(
    ("tokens", "values", "row"),
    [
        ([7, 8], [[0.5], [0.25]], "1 of 2 pages free\na  0[7 8]"),
        ([7], ["x" * 99], f"1 of 2 pages free\na  0[{'x' * MOST_LETTERS} .]"),
        ([], "", "2 of 2 pages free\na  -"),
    ],
)
def test_a_page_shows_the_beginnings_of_words_or_tokens_and_none_is_said(tokens, values, row):
    cache = CopyOnWrite(2, 2)
    cache.attach("a", tokens, values)
    assert draw(cache).text == f"CopyOnWrite: {row}"
    with pytest.raises((TypeError, AttributeError)):
        draw(cache, matched=[0])  # it has no marks
