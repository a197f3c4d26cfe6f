"""The scoreboard: it counts what a conversation takes of an engine, and leaves the engine as it was."""

import pytest
from golden_text import compare
from lesson import Notebook

from minikv import CacheManager, CanaryModel, Engine
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
def test_what_a_conversation_takes_and_a_second_one_is_what_the_golden_file_says(page_size):
    """Both compute the same and say the same; only ours joins, and so visits fewer nodes."""
    mine, theirs = learners(page_size), Engine(CanaryModel(20), CacheManager(64, page_size))
    boards = [scoreboard({"yours": mine, "ours": theirs}, one_after_the_other) for _ in range(2)]
    compare("scoreboard.txt", f"pages of {page_size}", "\n".join(map(str, boards)).splitlines())


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
