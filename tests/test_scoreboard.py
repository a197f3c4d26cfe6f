"""The scoreboard: it counts what a conversation takes of an engine, and leaves the engine as it was."""

from __future__ import annotations

import pytest

from minikv import CacheManager, CanaryModel, Engine, RadixCache
from minikv.course.pieces import begin, check
from minikv.course.pieces.piece import all_pieces
from minikv.course.pieces.scoreboard import scoreboard
from minikv.engine import engine_world

pytestmark = pytest.mark.core

PROMPTS = [[1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 3, 4, 9, 9, 9, 9, 5], [1, 2, 3, 4, 5, 6, 7, 8, 9]]


@pytest.fixture(autouse=True)
def own_record(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIKV_PROGRESS", str(tmp_path / "progress.json"))
    monkeypatch.setenv("MINIKV_MINE", str(tmp_path / "my_minikv.py"))
    begin(7, {})


def one_after_the_other(engine):
    return [engine.generate([prompt], 2)[0] for prompt in PROMPTS]


def learners(page_size=1):
    world = engine_world()
    return Engine(CanaryModel(20), world["CacheManager"](64, page_size))


def score(engine, talk=one_after_the_other):
    return scoreboard({"it": engine}, talk).scores["it"]


@pytest.mark.parametrize("page_size", [1, 4])
def test_both_engines_compute_the_same_and_say_the_same(page_size):
    theirs = Engine(CanaryModel(20), CacheManager(64, page_size))
    board = scoreboard({"yours": learners(page_size), "ours": theirs}, one_after_the_other)
    yours, ours = board.scores.values()
    assert board.agree
    assert (yours.computed, yours.first_token, yours.answers) == (ours.computed, ours.first_token, ours.answers)
    assert yours.nodes >= ours.nodes > 0, "only ours joins"


@pytest.mark.parametrize("page_size", [1, 4])
def test_a_second_conversation_counts_as_well(page_size):
    engine = learners(page_size)
    first, second = score(engine), score(engine)
    assert first.lookups >= second.lookups > 0
    assert second.nodes > first.nodes, "its prompts are found now"


def test_lookups_nodes_and_tokens_are_counted():
    cache = RadixCache()
    engine = Engine(CanaryModel(20), CacheManager(64, prefix_cache=cache))
    first = score(engine, lambda engine: engine.generate([[1, 2, 3]], 1))
    assert (first.lookups, first.nodes, first.computed) == (2, 0, 3)
    again = score(engine, lambda engine: engine.generate([[1, 2, 3]], 1))
    assert (again.lookups, again.nodes, again.computed) == (2, 3, 1)


def test_engines_that_disagree_are_said_to():
    prompts = iter([[1], [2]])
    board = scoreboard({"a": learners(), "b": learners()}, lambda engine: engine.generate([next(prompts)], 1))
    assert not board.agree
    assert str(board).endswith("the same answers: no")


@pytest.mark.parametrize("talk", [one_after_the_other, lambda engine: 1 / 0])
def test_the_engine_is_as_it_was_afterwards(talk):
    engine = learners()
    before = set(vars(engine.manager.cache))
    try:
        score(engine, talk)
    except ZeroDivisionError:
        assert talk is not one_after_the_other
    assert set(vars(engine.manager.cache)) == before


def test_it_says_how_many_pieces_are_the_learners(tmp_path):
    cell = tmp_path / "cell.py"
    assert score(learners()).pieces == "0"
    piece = all_pieces()[0]
    cell.write_text(piece.solution, "utf-8")
    names = {"__name__": "__main__"}
    begin(7, names)
    exec(compile(piece.solution, str(cell), "exec"), names)
    check(f"{piece.id} {piece.name}", names[piece.name])
    assert score(learners()).pieces == "1"
    assert score(Engine(CanaryModel(20), CacheManager(64))).pieces == "-"
