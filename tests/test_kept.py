"""What runs of the learner's, and the learner's file, in which it is kept."""

import ast
import os
import re
import sys
import types

import pytest
from golden_text import replay, sections
from hypothesis import example, given
from hypothesis import strategies as st
from lesson import SPLIT, WRONG_SPLIT, Notebook, learner, printed_by

from minikv.course.pieces import accepted, mine
from minikv.course.pieces.mine import _with_failed, assembled, failed_sections, load
from minikv.course.pieces.origin import cell_of, lines_of
from minikv.course.pieces.piece import find_piece
from minikv.engine import ours

GOLDEN = "kept.txt"


@pytest.fixture
def notebook(tmp_path):
    with learner(tmp_path) as found:
        yield found


def later(notebook, chapter=3):
    """The next session of the same learner."""
    return Notebook(notebook.folder, chapter)


# -- what is said, kept and run, act by act --------------------------------------------------------

LAST = "    hang(node, upper)"
TEXTS = {
    "mine": SPLIT, "put under": SPLIT.replace("hang(", "put_under("), "wrong": WRONG_SPLIT,
    "with locks": SPLIT.replace(LAST, f"{LAST}\n    upper.locks = node.locks"),
    "the same node": "def split(node, at):\n    return node",
    "open": "def split(node, at):\n    raise NotImplementedError",
    "nothing": "def walk(root, tokens): ...",
    "without its comment": SPLIT.replace("# mine\n", ""),
    "with blanks": SPLIT.replace(":\n", ":  \n\n"),
    "a heading": SPLIT.replace("    hang(upper", "# %% 3.4 walk\n    hang(upper"),
}  # fmt: skip


def whose(split):
    """The id of ours, or what the learner's says of itself."""
    known = (id for id in ("3.3", "4.4") if split.__code__ == ours(id, {}).__code__)
    return next(known, split.__doc__ + " With locks." * ("locks" in split.__code__.co_names))


def in_file(notebook):
    names = load(notebook.text)
    assert names["insert"](names["Node"]([], []), [1, 2], [0, 1])[1] == 0
    return whose(names["split"])


def seen(notebook):
    """What the learner has: the answers that are kept, the older files, whose split runs, and what has failed."""
    failed = [f"failed {id} | {line}" for id, text in notebook.failed.items() for line in text.splitlines()]
    now = {"kept": notebook.kept, "older": notebook.older, "failed": notebook.failed}
    has = [f"{what}: {' '.join(names)}" for what, names in now.items()]
    return [*has, f"runs: {whose(notebook.names['split'])}", *failed]


ACTS = {
    "edit": lambda notebook, what: notebook.edit(*what.replace("\\n", "\n").split(" → ")),
    "mine": lambda notebook, _: "".join(re.findall(r"3\.[34].*\n", printed_by(mine))),
    "load": lambda notebook, _: in_file(notebook),
    "accepted": lambda notebook, id: whose(accepted(id, notebook.names)),
    "move": lambda notebook, name: os.environ.update(MINIKV_MINE=str(notebook.folder / name)),
}


@pytest.mark.parametrize("title", sections(GOLDEN))
def test_what_a_learner_is_told_and_has_is_what_the_golden_file_says(title, notebook):
    """An older version is what the file was; a new one is made of its sections alone."""

    def act(words):
        """One of `ACTS`, or the next session, in a chapter; else the id of a piece, and which of `TEXTS` answers it."""
        nonlocal notebook
        (verb, _, what), before, had = words.partition(" "), notebook.text, seen(notebook)
        older = notebook.older
        if verb == "begin":
            notebook = later(notebook, int(what))
            said = re.sub("(?<=used for now: )after .*", "", notebook.began)  # a case that was made
        elif verb in ACTS:
            said = ACTS[verb](notebook, what) or ""
        else:
            text = None if what == "ours" else TEXTS.get(what, SPLIT.replace("own way", what))
            said = re.sub(r"\d+ cases|(?<=syntax error: ).*|  The package's .*\n", "", notebook.answer(verb, text))
            assert notebook.text in (before, _with_failed(assembled(notebook.kept), notebook.failed))
        for name in {*notebook.older} - {*older}:
            assert (notebook.folder / "my_minikv_older" / name).read_text("utf-8") == before
        return [*said.splitlines(), *(line for line in seen(notebook) if line not in had)]

    replay(GOLDEN, title, act)


def test_the_newest_cell_is_asked_first_where_python_knows_none(monkeypatch):
    shell = types.SimpleNamespace(user_ns={"In": ["f = 1", "f = 2"]})
    monkeypatch.setattr("minikv.course.pieces.origin.ipython", lambda: shell)
    assert cell_of(1, "f") == "f = 2"


# -- what runs -------------------------------------------------------------------------------------


def test_what_is_right_runs_in_objects_that_are_there_already_and_in_our_pieces(notebook):
    notebook.run("class Tree:\n    def ask(self):\n        return split\n\n\ntree = Tree()")
    notebook.answer("3.3", SPLIT)
    root = notebook.names["Node"]([], [])
    for prompt in ([1, 2], [1, 3]):
        notebook.names["insert"](root, prompt, [0, 1])
    for split in (notebook.names["tree"].ask(), notebook.names["insert"].__globals__["split"]):
        assert split.__doc__ == "My own way."


def test_a_session_has_no_class_that_needs_pieces_of_a_later_chapter(tmp_path):
    """Where a cell runs before its imports, `RadixCache` is unknown, and lacks no parts."""
    known = {1: set(), 3: {"Pool", "Node"}, 4: {"Pool", "Node", "RadixCache", "Ring"}}
    for chapter, names in known.items():
        assert known[4] & set(Notebook(tmp_path, chapter).names) == names


# -- the last failing answer -----------------------------------------------------------------------


def test_what_the_learner_writes_below_a_failing_answer_stays(notebook):
    """It ends at its last line, and that is found at once, however many comments it has."""
    banner = f"# {'#' * 200}\n" * 50
    notebook.answer("3.3", banner + WRONG_SPLIT)
    notebook.file.write_text(notebook.text + "# MY NOTES\nprint(1)\n", "utf-8")
    notebook.answer("3.3", banner + WRONG_SPLIT.replace("[:at]", "[at:]"))
    assert "# MY NOTES\nprint(1)\n" in notebook.text
    assert notebook.text.count("my last failing answer") == 1
    assert "[at:]" in notebook.failed["3.3"]
    assert len(failed_sections("#\n" * 10**5 + notebook.text)) == 1  # a slow look takes minutes


@given(st.text("# %e\n\r\t\f\u2028\x85'\"\\ ", max_size=30), st.sampled_from(["\n", "\r\n"]))
@example("1\n%% 3.4 walk", "\n")
@example("1\n-- end of the failing answer\nprint(1)", "\n")
def test_no_answer_escapes_from_its_comment(text, end):
    """Whatever is in it, as in a text of several lines, nothing of it runs or begins a section."""
    own, other = f"x = {text}", {"3.4": "def walk(): ..."}
    file = _with_failed(assembled({}), {"3.3": own, **other}).replace("\n", end)
    assert ast.dump(ast.parse(file)) == ast.dump(ast.parse(assembled({})))
    would_end_it = any(line.startswith(("%%", "-- end of")) for line in lines_of(own))
    expected = other if would_end_it else {"3.3": "\n".join(lines_of(own)), **other}
    assert failed_sections(file) == expected
    assert _with_failed(assembled({}), failed_sections(file)) == file.replace("\r\n", "\n")


# -- the next session ------------------------------------------------------------------------------


END = "    return upper\n"
ONCE = "import sys\nsys.runs += 1\n1 / (sys.runs < 2)\n"
ENDLESS = "never = [number for number in iter(int, 1) if number]\n"


@pytest.mark.parametrize(
    ("id", "old", "new", "why"),
    [
        ("3.3", "    hang(node, upper)\n", "", ""),
        ("3.3", "def hang", "raise SystemExit\ndef hang", "SystemExit"),
        ("3.3", "def split", "def cut", "NotKeptError: its section does not define `split`"),
        ("3.3", END, END + ONCE, "ZeroDivisionError: division by zero"),
        ("3.3", END, END + ENDLESS, "TooLong: no result within 0.2"),
        ("2.1", "    if count > len", "    return None\n    if count > len", ""),
        ("5.1", "    last = ring", "    return None\n    last = ring", ""),
    ],
)
def test_a_piece_that_no_longer_passes_is_set_aside(id, old, new, why, notebook, monkeypatch):
    """Whatever was done to its section, the file stays as it is, and the other pieces run."""
    monkeypatch.setattr(sys, "runs", 0, raising=False)
    name = find_piece(id).name
    notebook.answer(id, SPLIT if id == "3.3" else None)
    notebook.edit(old, new)
    before = notebook.text
    if new.endswith(ENDLESS):
        monkeypatch.setattr("minikv.testing.attempt.MOST_SECONDS", 0.2)
    fresh = later(notebook, 3 if id == "3.3" else 7)
    said = f"  Your {id} {name} no longer passes, so the package's version is used for now: {why}"
    assert fresh.began.startswith(said)
    assert fresh.began.count("\n") == 1
    assert fresh.names[name].__code__ == ours(id, {}).__code__
    assert notebook.text == before
    assert "mine, but it no longer passes" in printed_by(mine)
    if new.endswith(ENDLESS):
        said = "Not saved yet: my_minikv.py does not run on its own: TooLong (no result within 0.2"
        assert said in fresh.answer("3.1")


def test_a_piece_that_is_before_those_of_chapter_08_runs_again(notebook):
    pytest.importorskip("torch")
    for id in ("7.2", "8.1"):
        assert notebook.answer(id)[0] == "✓"
    said = "From your my_minikv.py: truncate. The other pieces are the package's.\n"
    assert later(notebook, 7).began == said
    assert "SlotAttention" in load(notebook.text)


# -- what is kept; more of it is in tests/answers --------------------------------------------------


def test_on_colab_the_first_right_piece_says_how_to_keep_the_file(notebook, monkeypatch):
    monkeypatch.setitem(sys.modules, "google.colab", types.ModuleType("google.colab"))
    _, _, said = notebook.answer("3.3", SPLIT).splitlines()
    assert 'mine("download") saves your my_minikv.py' in said
    assert len(notebook.answer("3.5").splitlines()) == 2


# -- earlier versions ------------------------------------------------------------------------------


def test_line_ends_and_a_byte_order_mark_are_no_change_and_what_is_no_text_is_passed_over(notebook):
    notebook.answer("3.3", SPLIT)
    (beside := notebook.folder / "my_minikv_older").mkdir()
    (beside / "a.py").write_bytes(b"\xff\xfe\x00")
    text = notebook.text
    notebook.file.write_bytes(text.replace("\n", "\r\n").encode("utf-8-sig"))
    assert "is saved in" not in notebook.answer("3.3", SPLIT)
    assert notebook.text == text
