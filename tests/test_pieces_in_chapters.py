"""The pieces as their chapters show them."""

import ast
import re
from pathlib import Path

import pytest
from chapters import NOTEBOOKS, WRITTEN, code_cells, code_under, load, markdown

from minikv.course.pieces.piece import all_pieces, pieces_of
from minikv.engine import LAST, engine_sections, section_of

CHECKED = re.compile(r'^(\w+) = check\("([\d.]+) (\w+)", (\w+)\)$', re.MULTILINE)
# What the set-up cell imports.
VERBS = {"check", "fold", "guess", "hint", "mine", "progress", "solution", "source"}
SHARE = 0.4  # of the code under "Build it", in lines
each_chapter = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def number_of(path):
    return int(path.stem[:2])


@each_chapter
def test_each_piece_is_in_its_chapter_with_its_docstring_and_a_true_count(path):
    """Stub and check share a cell; the stub is what the engine says of the piece, and no more."""
    sources = [cell.source for cell in code_cells(load(path))]
    stubs = {found[2]: source for source in sources if (found := CHECKED.search(source))}
    assert set(stubs) == {piece.id for piece in pieces_of(number_of(path))}
    for piece in pieces_of(number_of(path)):
        theirs, ours = ast.parse(stubs[piece.id]).body[0], ast.parse(piece.solution).body[-1]
        assert ast.get_docstring(theirs) == ast.get_docstring(ours)
        assert ast.unparse(theirs.args) == ast.unparse(ours.args)
        claimed = int(re.search(r"about (\d+) lines", stubs[piece.id])[1])
        assert abs(claimed - len(body_lines(piece))) <= 1, (piece.id, len(body_lines(piece)))
        assert f"def {piece.name}({ast.unparse(ours.args)}" not in markdown(load(path))


def body_lines(piece):
    """The lines of our solution without its head, docstring, comments and empty lines."""
    definition = ast.parse(piece.solution).body[-1]
    first = definition.body[1 if ast.get_docstring(definition) else 0]
    return code_lines(piece.solution.splitlines()[first.lineno - 1 : definition.end_lineno])


def code_lines(lines):
    return [line for line in lines if line.strip() and not line.strip().startswith("#")]


class WithoutBodies(ast.NodeTransformer):
    """Leaves of each function its head, which is read before it is called."""

    def visit_FunctionDef(self, function):
        function.body = [ast.Pass()]
        return function


@each_chapter
def test_the_name_of_a_piece_is_read_when_it_is_called_and_means_nothing_else(path):
    """A class attribute, a default or an alias would keep ours when the learner's is right; and
    the classes call the pieces by name: after `match = ...` in a cell, nothing matches. `mine()`
    still works at the end, too."""
    known = VERBS | {piece.name for piece in all_pieces() if piece.chapter <= number_of(path)}
    for cell in code_cells(load(path)):
        own = {name for name, *_ in CHECKED.findall(cell.source)}
        for part in WithoutBodies().visit(ast.parse(CHECKED.sub("", cell.source))).body:
            calls = [node for node in ast.walk(part) if isinstance(node, ast.Call)]
            read = [call.func for call in calls]
            if not isinstance(part, ast.FunctionDef | ast.ClassDef):
                read += [each for call in calls for each in call.args]  # given to what runs now
            names = [node for node in ast.walk(part) if isinstance(node, ast.Name)]
            bound = {name.id for name in names if name not in read} | {getattr(part, "name", "")} - own
            assert not known & bound, cell.source


def test_much_of_the_code_under_build_it_is_the_learners():
    """The learner's pieces, as they are printed, among all lines."""
    engine = [0, 0]
    for path in WRITTEN:
        own = sum(len(body_lines(piece)) + 1 for piece in pieces_of(number_of(path)))
        cells = [cell.source for cell in code_under(load(path), "Build it")]
        rest = [code_lines(text.splitlines()) for text in cells if not CHECKED.search(text)]
        total = own + sum(map(len, rest))
        if path.stem[:2] != "01":
            assert own / total >= 0.3, path.stem
            if number_of(path) <= LAST:
                engine = [engine[0] + own, engine[1] + total]
    assert engine[0] / engine[1] >= SHARE


def test_the_engine_is_in_the_order_of_the_course():
    """But for the two splits: the first has its own file, and chapter 04's is in the tree's."""
    ids = [section.id for section in engine_sections() if section.id != "given"]
    assert Path(section_of("4.4").file).stem == "ch03_tree"
    ids = [id for id in ids if id not in ("3.3", "4.4")]
    assert ids == sorted(ids, key=lambda id: [int(part) for part in id.split(".")])
