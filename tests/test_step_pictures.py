"""The pictures of a step: whatever an answer returns is drawn, or not, and never stops the judging."""

import re

import pytest

from minikv import CacheManager
from minikv.course.pieces.piece import find_piece
from minikv.course.pieces.showing import (
    answered_rows,
    attention_picture,
    both_films,
    picture_of_links,
    row_strip,
    schedule_picture,
)
from minikv.course.pieces.trial import difference, play_case
from minikv.course.pieces.worlds import reference_world
from minikv.engine.ch03_tree import Node


def test_a_share_is_the_darker_the_larger_it_is_and_none_is_out_of_range():
    picture = attention_picture({"token 0": [0.004, 0.5, 1.0, 7.5, -2.0, float("nan")]})
    fills = [tuple(map(int, fill)) for fill in re.findall(r"rgb\((\d+),(\d+),(\d+)\)", picture.svg)]
    none, half, full = fills[:3]
    assert none > half > full
    assert fills[3] == full
    assert fills[4] == fills[5] >= none
    shares = [".00", ".50", "1", "7.5", "-2", "nan"]
    assert picture.text.splitlines()[1].split()[2:] == shares
    assert re.findall(r">([^<>]*)</text>", picture.svg)[-6:] == shares


def test_a_box_is_empty_where_nothing_is_taken_and_only_there():
    picture = attention_picture({"token 0": [0.001, 0.0]})
    assert picture.text.splitlines()[1].split()[2:] == [".00", "-"]
    assert picture.svg.count("rgb(") == 1


def test_a_bar_has_the_tokens_left_and_those_computed_are_new():
    picture = schedule_picture([4, 1], [2, 1])
    assert [line.split()[-1] for line in picture.text.splitlines()[1:3]] == ["nn..", "n"]
    assert picture.svg.count('data-say="new"') == 2
    assert picture.svg.count('data-say="to compute"') == 1


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


def test_a_row_is_cut_where_a_checkpoint_finds_what_another_request_has_published():
    """By hand, in pages of 2: 4 tokens are shared, 6 are there, 9 are computed, so 8 are in whole pages."""
    manager = CacheManager(num_pages=12, page_size=2)

    def comes_and_goes(tokens):
        request = manager.start(tokens)
        manager.advance(request)
        manager.finish(request)

    comes_and_goes([1, 2, 3, 4])
    ben = manager.start([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    comes_and_goes([1, 2, 3, 4, 5, 6])
    manager.advance(ben, 5)
    before = row_strip("row", ben, manager).text.splitlines()[0]
    assert before.split("  ")[1:] == [
        "from 0[the cache's, read under a lock]l",
        "shared 4[own, duplicates]",
        "there 6[own, not cached]",
        "whole pages to 8[own, the tail]",
        "end 10",
    ]
    manager.checkpoint(ben)
    after = row_strip("row", ben).text.splitlines()[0]
    assert re.findall(r"\w+ \d+", after) == ["from 0", "shared 8", "computed 9", "end 10"]


def test_the_last_token_of_a_cached_prompt_is_computed_whichever_piece_answers():
    for piece in ("2.5", "3.7"):
        text = answered_rows(piece, ("12", "34"), ("12", "34")).text
        first, again = (re.findall(r"looked up|\[.*?\]", line) for line in text.splitlines()[:2])
        assert first == ["[1, 2]", "[3]", "[4]"]
        assert again == ["looked up", "[2]", "[3]", "[4]"]


def test_a_link_that_does_not_lead_back_is_drawn_as_it_is():
    root, lower = Node([], []), Node([4], [9])
    upper = root.children[1] = Node([1], [7], root)
    upper.children[4] = lower
    lower.parent = root  # which a split has forgotten to set
    picture = picture_of_links(parent=root, upper=upper, node=lower)
    ends = [line.split("→")[1].strip() for line in picture.text.splitlines()]
    assert ends == ["upper [1]", "parent []", "node [4]", "parent []"]
