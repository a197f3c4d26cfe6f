"""The scoreboard: it counts what a conversation takes of an engine, and leaves the engine as it was."""

import pytest
from lesson import Notebook

from minikv import CacheManager, CanaryModel, Engine, RadixCache
from minikv.course.pieces import begin
from minikv.course.pieces.scoreboard import scoreboard
from minikv.engine import engine_world

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
    """A second conversation counts as well: its prompts are found."""
    mine, theirs = learners(page_size), Engine(CanaryModel(20), CacheManager(64, page_size))
    board = scoreboard({"yours": mine, "ours": theirs}, one_after_the_other)
    yours, ours = board.scores.values()
    assert board.agree
    for part in ("computed", "first_token", "answers"):
        assert getattr(yours, part) == getattr(ours, part)
    assert yours.nodes >= ours.nodes > 0, "only ours joins"
    again = score(mine)
    assert yours.lookups >= again.lookups > 0
    assert again.nodes > yours.nodes


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
    assert score(learners()).pieces == "0"
    Notebook(tmp_path).answer("1.1")
    assert score(learners()).pieces == "1"
    assert score(Engine(CanaryModel(20), CacheManager(64))).pieces == "-"
