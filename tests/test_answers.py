"""The words of `check`, whatever is in an answer: those of tests/answers say which."""

import re
import sys

import pytest
from chapters import NOTEBOOKS, code_cells, load
from lesson import Notebook, learner, stored, stub
from nightly import by_day

from minikv.course.pieces.piece import all_pieces, find_piece, pieces_of
from minikv.course.pieces.worlds import session
from minikv.engine import ours

WAYS = ["says", "never", "keeps", "drops", "tries", "forgets"]  # the second of each two is "not"
SAID = re.compile(rf"^# ({'|'.join(WAYS)}): *(.*)\n", re.MULTILINE)


@pytest.fixture
def notebook(tmp_path):
    with learner(tmp_path) as found:
        yield found


def scripts():
    """The answers of tests/answers, each with those that its notebook gave before it."""
    found = []
    for section in stored("answers"):
        if section.remark.startswith(": then "):
            found[-1].append(section)
        else:
            found.append([section])
    return found


@pytest.mark.parametrize("cells", scripts(), ids=lambda cells: f"{cells[0].id}{cells[-1].remark}")
def test_an_answer_is_told_what_its_first_lines_say(cells, notebook, monkeypatch):
    """What `says` names is printed, `keeps` is in the learner's file as an answer that passed,
    `tries` as one that failed; `never`, `drops` and `forgets` are not. An `endless` one is not
    waited for."""
    if sys.version_info < (3, 11) and "catches all" in cells[0].remark:
        pytest.skip("Python 3.10 finds a thrown exception only inside the `try` of such a loop")
    for section in cells:
        expected, text = SAID.findall(section.text), SAID.sub("", section.text)
        if section.text.startswith("# endless\n"):
            monkeypatch.setattr("minikv.testing.attempt.MOST_SECONDS", 0.3)
        if section.name == "cell":
            said = notebook.run(text)
        else:
            said = notebook.answer(section.id, text, section.name)
        kept, failed = (each.get(section.id, "") for each in (notebook.kept, notebook.failed))
        for way, words in expected:
            at = WAYS.index(way)
            there = (said, kept, failed)[at // 2]
            assert (words in there) == (at % 2 == 0), (way, words, there)
        assert len(said.splitlines()) <= (4 if find_piece(section.id) else 1)
        assert "✓" in said or kept or section.id not in session.accepted, "what did not pass is not used"


ENDINGS = {
    "    return 1 / 0": "raised ZeroDivisionError (division by zero), in your line `return 1 / 0`",
    "    return nothing_like_it": "run the cells above first",
    "    print('so far so good')\n    return 1 / 0": "It printed: so far so good",
    "    raise NotImplementedError\n    return 1": "delete the line `raise NotImplementedError`; your code",
    "    raise SystemExit": "SystemExit",
}
first_of_each_chapter = pytest.mark.parametrize(
    "piece",
    by_day(all_pieces(), lambda piece: piece is pieces_of(piece.chapter)[0]),
    ids=lambda piece: piece.id,
)


@first_of_each_chapter
def test_whatever_an_answer_does_is_said(piece, notebook):
    for body, words in ENDINGS.items():
        said = notebook.answer(piece.id, f"def {piece.name}(*args, **more):\n{body}")
        assert said.startswith(f"✗ {piece.id} {piece.name}: ")
        assert words in said
        assert said.count("\n") <= 4


@first_of_each_chapter
def test_a_stub_is_not_attempted_and_the_package_runs(piece, notebook):
    """Neither is our own function, which is not taken for the learner's."""
    start = f"□ {piece.id} {piece.name}: not attempted yet. "
    said = notebook.answer(piece.id, stub(piece))
    assert said == f"{start}The chapter continues with the package's version.\n"
    assert notebook.names[piece.name].__code__ == ours(piece.id, {}).__code__
    own = f"That is the course's own `{piece.name}`."
    assert Notebook(notebook.folder, piece.chapter).answer(piece.id, "").startswith(start + own)
    assert not notebook.file.exists()


def test_answers_are_judged_with_the_node_of_chapter_03_which_has_no_locks(notebook):
    """Ours is played with it, too; else `node.locks` would be missing in each answer."""
    text = "\n\n".join(cell.source for cell in code_cells(load(NOTEBOOKS[3])))
    notebook.run(re.search(r"^class Node:(\n .+|\n)+", text, re.MULTILINE)[0])
    wrong = find_piece("3.4").wrong[0]
    assert f"Hint: {wrong.hint}" in notebook.answer("3.4", wrong.section.text)
    assert notebook.answer("3.4").startswith("✓ 3.4 walk: correct in ")
