"""The stored answers: each wrong one is caught with its hint, and each right one passes."""

import os
import re
import zlib

import pytest
from lesson import learner, stored
from nightly import NIGHTLY, by_day

from minikv.course.pieces.checking import verdict_on
from minikv.course.pieces.piece import CHAPTERS, Piece, all_pieces, exercises_of
from minikv.course.pieces.record import WRONG
from minikv.course.pieces.worlds import reference_world
from minikv.engine import run_section

PIECES = all_pieces()
TASKS = [*PIECES, *(exercise for chapter in CHAPTERS for exercise in exercises_of(chapter))]
BY_DAY = 25  # one of each so many stored answers is judged on every run, and all of them at night
# seen in many cases only, so at night
RARE = {"takes page 0 for none", "a ring that is empty takes over the other"}
each_piece = pytest.mark.parametrize("piece", PIECES, ids=lambda piece: piece.id)


@pytest.fixture
def notebook(tmp_path):
    with learner(tmp_path) as found:
        yield found


# -- stored answers --------------------------------------------------------------------------------


def some_of(wrong_answers):
    """All at night; by day some of each piece, the same ones, whatever else is in the file."""
    if NIGHTLY:
        return wrong_answers
    found = [wrong for wrong in wrong_answers if wrong.mistake not in RARE]
    names = {wrong: f"{wrong.section.id} {wrong.mistake}" for wrong in found}
    mixed = sorted(names, key=lambda wrong: zlib.crc32(names[wrong].encode()))
    return mixed[: -(-len(mixed) // BY_DAY)]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.id)
def test_each_wrong_answer_is_caught_and_gets_its_hint(task, notebook):
    """Also by day each is compared with all stored ones, so their hints are told apart."""
    judged = some_of(task.wrong)
    assert judged
    for wrong in judged:
        world = reference_world(task) if isinstance(task, Piece) else task.world()
        world.update(run_section(wrong.section, world, "<wrong>"))
        verdict = verdict_on(task, world[wrong.section.name], world)
        hint = verdict.hint.removeprefix(": ") or verdict.words.rpartition("Hint: ")[2]
        assert (verdict.mark, hint) == (WRONG, wrong.hint), (wrong.mistake, verdict)
        is_run = not re.search("NameError|run the cells above", verdict.words)
        assert is_run or "NameError" in wrong.section.text  # it would be like itself with any hint


RIGHT = {f"{section.id}{section.remark}": section for section in stored("right")}
FIRST = {section.id: name for name, section in reversed(RIGHT.items())}


@pytest.mark.parametrize("name", by_day(RIGHT, lambda name: name in FIRST.values()))
def test_a_right_answer_of_another_shape_passes(name, notebook, monkeypatch):
    section = RIGHT[name]
    monkeypatch.setenv("MINIKV_MINE", os.devnull)
    said = notebook.answer(section.id, section.text, section.name)
    assert said.startswith(f"✓ {section.id} {section.name}: correct in ")


@each_piece
def test_a_piece_has_a_ladder_of_hints_and_hints_that_differ(piece):
    known = [wrong.hint for wrong in piece.wrong]
    assert 2 <= len(piece.hints) <= 4
    assert len(known) >= 3
    assert all(known)
    assert len(set(known)) == len(known)
