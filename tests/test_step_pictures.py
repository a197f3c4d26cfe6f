"""The pictures of a step: whatever an answer returns is drawn, or not, and never stops the judging."""

import re

import pytest
from golden_text import compare, sections
from reels import said_and_drawn
from test_manager import ran

from minikv import CacheManager, beside
from minikv.course.pieces.piece import find_piece
from minikv.course.pieces.showing import (
    answered_rows,
    attention_picture,
    both_films,
    picture_of_links,
    row_strip,
    schedule_picture,
)
from minikv.course.pieces.trial import difference, judge, play_case
from minikv.course.pieces.worlds import reference_world
from minikv.engine.ch03_tree import Node

GOLDEN = "steps.txt"


def shares():
    return attention_picture({"token 0": [0.004, 0.5, 1.0, 7.5, -2.0, float("nan"), 0.0]})


def bars():
    return schedule_picture([4, 1, 9], [2, 1, 99])


def a_row_before_and_after_a_checkpoint():
    """By hand, in pages of 2: 4 tokens are shared; at first no others are computed. Later 6 are there,
    and 9 are computed, so 8 are in whole pages."""
    manager = CacheManager(num_pages=12, page_size=2)
    ran(manager, [1, 2, 3, 4])
    ben = manager.start([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    at_first = row_strip("row", ben, manager)
    ran(manager, [1, 2, 3, 4, 5, 6])
    manager.advance(ben, 5)
    before = row_strip("row", ben, manager)
    manager.checkpoint(ben)
    return beside(at_first, before, row_strip("row", ben))


def the_last_token_of_a_cached_prompt_is_computed():
    return beside(*(answered_rows(piece, ("12", "34"), ("12", "34")) for piece in ("2.5", "3.7")))


def a_link_that_does_not_lead_back():
    root, lower = Node([], []), Node([4], [9])
    upper = root.children[1] = Node([1], [7], root)
    upper.children[4] = lower
    lower.parent = root  # which a split has forgotten to set
    return picture_of_links(parent=root, upper=upper, node=lower)


@pytest.mark.parametrize("name", sections(GOLDEN))
def test_a_picture_of_a_step_says_what_the_golden_file_says(name):
    compare(GOLDEN, name, said_and_drawn(globals()[name.replace(" ", "_")]()))


def test_a_share_is_the_darker_the_larger_it_is_none_is_out_of_range_and_zero_is_none():
    found = re.findall(r"rgb\((\d+),(\d+),(\d+)\)", shares().svg)
    least, half, full, more, less, unknown = [tuple(map(int, fill)) for fill in found]
    assert more == full < half < least <= less == unknown


def test_the_boxes_of_a_bar_that_are_computed_are_new():
    assert [bars().svg.count(f'data-say="{word}"') for word in ("new", "to compute")] == [3, 1]


def shown(schedule):
    """The picture of what this answer to 8.3 returns, beside the right one."""
    piece = find_piece("8.3")
    world, right = reference_world(piece) | {"schedule": schedule}, reference_world(piece)
    case = ([5, 1], 3)
    found = difference(piece, world, case, play_case(piece, world, case), play_case(piece, right, case))
    ((_, picture),) = both_films(piece, world, found)
    return picture


@pytest.mark.parametrize("returned", [None, 5, "ab", [1], {0: 9}, [[1], [2]], [None, None]])
def test_an_answer_that_is_not_a_list_of_shares_is_said_not_to_be_drawn(returned):
    picture = shown(lambda left, budget: returned)
    mine, expected = picture.text.split("expected:")
    assert mine.split("\n")[:2] == ["yours:", "cannot be drawn:"]
    assert "reads" in expected or "answers" in expected
    assert "cannot be drawn" in picture.svg


def test_an_answer_that_raises_is_said_to_have_ended():
    assert shown(lambda left, budget: 1 // 0).text.startswith("yours:\nended in an error\nexpected:\n")


def test_the_film_of_a_difference_ends_at_it():
    piece = find_piece("4.1")
    world = reference_world(piece)
    world["lock"] = lambda cache, node: None
    found = judge(piece, world)
    assert len(both_films(piece, world, found)) == found.at + 1
