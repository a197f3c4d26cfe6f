"""A notebook shows the same with any right pieces: none of the learner's, some, all, and answers of other shapes.

Only the cells of `check`, `mine`, `progress`, `hint` and the scoreboard may say something else.
"""

import os
import re

import build
import nbformat
from chapters import ROOT, WRITTEN, load
from lesson import stored
from nightly import NIGHTLY

from minikv.course.pieces.mine import kept_sections
from minikv.course.pieces.piece import find_piece, pieces_of
from minikv.engine import LAST

OWN_WORDS = re.compile(r"\b(check|mine|progress|hint|solution|scoreboard)\(")
STUB = re.compile(r'\A.*?(?=^\w+ = check\("([\d.]+) )', re.DOTALL | re.MULTILINE)


def answered(tried, folder):
    """The chapters of `tried`, executed with answers in place of their stubs: the cells of each, by its name.

    They run one after the other in one kernel, where `begin` and an empty namespace start each of them afresh: what a
    kernel imports and what a judge makes up is the same for all.
    """
    cells = {name: with_answers(path, answers) for name, (path, answers) in tried.items()}
    whole = build.assemble(ROOT / f"notebooks/src/{WRITTEN[0].stem}.py")
    whole.cells = [cell for name in cells for cell in [afresh(folder / f"{name}.py"), *cells[name]]]
    build.clean(build.execute(whole))
    return cells


def with_answers(path, answers):
    """The cells of the chapter, not yet executed, with answers in place of stubs."""
    cells = build.assemble(ROOT / f"notebooks/src/{path.stem}.py").cells
    for cell in cells:
        found = STUB.match(cell.source) if cell.cell_type == "code" else None
        if found and found[1] in answers:
            cell.source = f"{answers[found[1]]}\n\n{cell.source[found.end() :]}"
    return cells


# By day `check` makes up 10 cases instead of 300: the answers are printed from the code that it compares them with.
FEW_CASES = (
    "from minikv.course.pieces import trial",
    "trial.MADE = trial.FEW = 10",
)


def afresh(mine):
    """A cell that forgets the names of the session before, and says where the learner's work of the next one is."""
    lines = "import os", f'os.environ["MINIKV_MINE"] = {str(mine)!r}', *(() if NIGHTLY else FEW_CASES), "%reset -f"
    return nbformat.v4.new_code_cell("\n".join(lines))


def shown(cells):
    """What each cell shows, but for those that speak of the learner's own answers."""
    found = []
    for cell in cells:
        if cell.cell_type == "code" and not OWN_WORDS.search(cell.source):
            outputs = [{**output, "execution_count": None, "metadata": None} for output in cell.outputs]
            found.append((cell.source, outputs))
    return found


def verdicts(cells):
    """What is said of each piece, by its number and name."""
    text = "".join(output.get("text", "") for cell in cells if cell.cell_type == "code" for output in cell.outputs)
    return dict(re.findall(r"^[□✗✓] ([\d.]+ \w+): (.*)", text, re.MULTILINE))


FILES = {
    "missing": None,
    "empty": "",
    "broken": "def split(:",
    "unfit": "# %% 3.3 split · mine\ndef split(node, at):\n    return node\n",
}


def variants(chapter):
    """Answers to the pieces of a chapter, by name, and the learner's file that is there before them.

    By day all as printed, of each fourth chapter that builds the engine: of others
    `test_any_cell_can_be_run_twice` runs the cells, and the pieces after the engine's are used in
    their own chapter alone. And without answers a file whose piece does not pass. At night also
    every other piece, those of other shapes, and other files.
    """
    pieces = pieces_of(chapter)
    printed = {piece.id: piece.solution for piece in pieces}
    if NIGHTLY or (chapter <= LAST and chapter % 4 == 3):
        yield "printed", printed, None
    for name in FILES if chapter == 3 else ():
        if NIGHTLY or name == "unfit":
            yield name, {}, FILES[name]
    if not NIGHTLY:
        return
    yield "half", {piece.id: piece.solution for piece in pieces[::2]}, None
    others = [section for section in stored("right") if section.id in printed]
    first = {section.id: section.text for section in reversed(others)}
    last = {section.id: section.text for section in others}
    if others:
        yield "of other shapes", {**printed, **first}, None
    if last != first:
        yield "of further shapes", {**printed, **last}, None


def test_a_notebook_shows_the_same_with_any_right_pieces_and_any_file(tmp_path, monkeypatch):
    for name in ("MINIKV_MINE", "MINIKV_PROGRESS"):  # a build sets them, and they come back after the test
        monkeypatch.setenv(name, os.environ.get(name, os.devnull))
    tried = {}
    for path in WRITTEN:
        for variant, answers, text in variants(int(path.stem[:2])):
            tried[f"{path.stem} {variant}"] = path, answers
            if text is not None:
                (tmp_path / f"{path.stem} {variant}.py").write_text(text, "utf-8")
    for name, cells in answered(tried, tmp_path).items():
        path, answers = tried[name]
        said, file = verdicts(cells), tmp_path / f"{name}.py"
        right = {piece for piece, words in said.items() if re.match(r"correct in \d+ cases", words)}
        assert right == {f"{id} {find_piece(id).name}" for id in answers}, f"{name}: {said}"
        assert not answers or set(kept_sections(file.read_text("utf-8"))) == set(answers), name
        sides = [shown(cells), shown(load(path).cells)]
        if not answers:  # what is said of the file is said there
            sides = [[cell for cell in side if "begin(" not in cell[0]] for side in sides]
        assert sides[0] == sides[1], name
