"""A learner at work: cells that run one after the other, and answers that are given to `check`."""

import ast
import contextlib
import functools
import io
import itertools
import os
from unittest import mock

from nightly import NIGHTLY
from project import ROOT

from minikv.course.pieces import begin, check, trial
from minikv.course.pieces.mine import failed_sections, kept_sections
from minikv.course.pieces.piece import find_exercise, find_piece
from minikv.engine import sections
from minikv.testing.scenarios import smallest_case

SPLIT = '''
def hang(child, parent):
    child.parent = parent
    parent.children[child.tokens[0]] = child


# mine
def split(node, at):
    """My own way."""
    upper = Node(node.tokens[:at], node.slots[:at])
    hang(upper, node.parent)
    node.tokens, node.slots = node.tokens[at:], node.slots[at:]
    hang(node, upper)
    return upper
'''
WRONG_SPLIT = """# a first try
def half(run, at):
    return run[:at]


def split(node, at):

    node.tokens = half(node.tokens, at)
    return node
"""


def printed_by(act, *args):
    """Do something; the text that it prints."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        act(*args)
    return said.getvalue()


def few_cases():
    """By day Hypothesis makes a tenth of the cases."""
    few = functools.partial(smallest_case, examples=30)
    fewer = mock.patch.multiple(trial, smallest_case=few, MADE=30)
    return contextlib.nullcontext() if NIGHTLY else fewer


@contextlib.contextmanager
def learner(folder, chapter=7):
    """The notebook of a learner whose file and record are in `folder`; the machine may be slow."""
    files = {"MINIKV_MINE": "my_minikv.py", "MINIKV_PROGRESS": "progress.json"}
    places = {name: str(folder / file) for name, file in files.items()}
    patience = mock.patch("minikv.testing.attempt.MOST_SECONDS", 60)
    with mock.patch.dict(os.environ, places), few_cases(), patience:
        yield Notebook(folder, chapter)


@functools.cache
def stored(folder):
    """The sections of the files in a folder of the tests."""
    files = sorted((ROOT / "tests" / folder).glob("*.txt"))
    return [section for path in files for section in sections(path.read_text("utf-8"))]


def golden(name):
    """The sections of a file of what is expected."""
    return sections((ROOT / "tests" / "golden" / f"{name}.txt").read_text("utf-8"))


def rows_of(text):
    """The rows of a table, whose columns have `|` between them."""
    return [[column.strip() for column in line.split(" | ")] for line in text.splitlines()]


def stub(piece):
    """The head of a piece, as its chapter gives it."""
    definition = ast.parse(piece.solution).body[-1]
    head = piece.solution[: piece.solution.index(":\n") + 1].strip().splitlines()[-1]
    return f'{head}\n    """{ast.get_docstring(definition)}"""\n    raise NotImplementedError'


class Notebook:
    """A chapter whose cells are files, as in IPython; `began` is what its set-up prints."""

    count = itertools.count()

    def __init__(self, folder, chapter=7):
        self.folder, self.names = folder, {"__name__": "__main__", "check": check}
        self.began = printed_by(begin, chapter, self.names)

    def run(self, text):
        """Run a cell; the text that it prints."""
        cell = self.folder / f"cell_{next(self.count)}.py"
        cell.write_text(text, "utf-8")
        return printed_by(exec, compile(text, str(cell), "exec"), self.names)

    def answer(self, id, text=None, name=None):
        """Answer a piece or an exercise, if not with `text` with ours; what `check` says of it."""
        task = find_piece(id) or find_exercise(id)
        name = name or task.name
        own = task.solution if text is None else text
        return self.run(f'{own}\n\n{name} = check("{id} {task.name}", {name})')

    @property
    def file(self):
        """The learner's own file."""
        return self.folder / "my_minikv.py"

    @property
    def text(self):
        """The text of the learner's file; none where there is no file."""
        return self.file.read_text("utf-8") if self.file.exists() else ""

    @property
    def kept(self):
        """The right answers in the learner's file, by piece."""
        return kept_sections(self.text)

    @property
    def failed(self):
        """The last failing answers in the learner's file, by piece."""
        return failed_sections(self.text)

    @property
    def older(self):
        """The names of the earlier versions of the learner's file."""
        return sorted(path.name for path in self.folder.glob("my_minikv_older/*"))

    def edit(self, old, new):
        """Change the learner's file by hand."""
        assert old in self.text
        self.file.write_text(self.text.replace(old, new), "utf-8")
