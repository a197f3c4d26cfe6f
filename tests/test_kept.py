"""What runs of the learner's, and the learner's file, in which it is kept."""

from __future__ import annotations

import ast
import sys
import types

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from lesson import SPLIT, WRONG_SPLIT, Notebook, learner, printed_by

from minikv.course.pieces import accepted, mine
from minikv.course.pieces.mine import _with_failed, assembled, failed_sections, load
from minikv.course.pieces.origin import lines_of
from minikv.course.pieces.piece import find_piece
from minikv.engine import ours

FAILS = "def split(node, at):\n    return node"
OURS = ours("3.3", {}).__code__


@pytest.fixture
def notebook(tmp_path):
    with learner(tmp_path) as found:
        yield found


def later(notebook, chapter=3):
    """The next session of the same learner."""
    return Notebook(notebook.folder, chapter)


# -- what runs -------------------------------------------------------------------------------------


def test_what_is_right_runs_in_objects_that_are_there_already_and_in_our_pieces(notebook):
    notebook.run("class Tree:\n    def ask(self):\n        return split\n\n\ntree = Tree()")
    notebook.answer("3.3", SPLIT)
    root = notebook.names["Node"]([], [])
    for prompt in ([1, 2], [1, 3]):
        notebook.names["insert"](root, prompt, [0, 1])
    for split in (notebook.names["tree"].ask(), notebook.names["insert"].__globals__["split"]):
        assert split.__doc__ == "My own way."


def test_what_was_right_runs_until_a_session_without_the_file(notebook, monkeypatch):
    notebook.answer("3.3", SPLIT)
    for text in (FAILS, "def split(node, at):\n    raise NotImplementedError"):
        notebook.answer("3.3", text)
        assert notebook.names["split"].__doc__ == "My own way."
    monkeypatch.setenv("MINIKV_MINE", str(notebook.folder / "other.py"))
    assert later(notebook).names["split"].__code__ == OURS


def test_a_session_has_no_class_that_needs_pieces_of_a_later_chapter(tmp_path):
    """Where a cell runs before its imports, `RadixCache` is unknown, and lacks no parts."""
    known = {1: set(), 3: {"Pool", "Node"}, 4: {"Pool", "Node", "RadixCache", "Ring"}}
    for chapter, names in known.items():
        assert known[4] & set(Notebook(tmp_path, chapter).names) == names


# -- the last failing answer -----------------------------------------------------------------------


def test_the_last_failing_answer_is_in_the_file_as_a_comment_until_one_passes(notebook):
    said = [notebook.answer("3.3", FAILS), notebook.answer("3.4", "def walk(root, tokens): ...")]
    said.append(notebook.answer("3.3", WRONG_SPLIT))
    assert list(notebook.failed) == ["3.3", "3.4"]
    assert "def half(run, at):" in notebook.failed["3.3"]
    assert notebook.failed["3.3"].endswith(WRONG_SPLIT[WRONG_SPLIT.index("def split") :].rstrip())
    names = load(notebook.text)
    assert "half" not in names
    assert names["split"].__code__ == ours("4.4", {}).__code__
    assert notebook.kept == {}

    said.append(notebook.answer("3.3", SPLIT))
    assert (list(notebook.kept), list(notebook.failed)) == (["3.3"], ["3.4"])
    before = notebook.text
    said.append(notebook.answer("3.3", WRONG_SPLIT))  # the one that passed stays
    assert notebook.text == before
    said.append(notebook.answer("3.4"))
    assert notebook.failed == {}
    assert notebook.text == assembled(notebook.kept)
    assert "saved in" not in "".join(said)  # a failing answer that is replaced is nobody's loss


def test_a_failing_answer_that_was_made_code_again_is_the_learners(notebook):
    """It is no comment any more: the next version leaves it out, and the old one is kept."""
    notebook.answer("3.3", WRONG_SPLIT)
    notebook.edit("# def", "def")
    notebook.edit("#     ", "    ")
    text = notebook.text
    assert (text.count("\ndef "), notebook.failed) == (2, {})
    said = "Your previous version is saved in my_minikv_older/my_minikv_1.py"
    assert said in notebook.answer("3.4")
    assert (notebook.folder / "my_minikv_older/my_minikv_1.py").read_text("utf-8") == text


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


def test_the_next_session_runs_what_is_in_the_file(notebook):
    notebook.answer("3.3", SPLIT)
    assert later(notebook).names["split"].__doc__ == "My own way."
    listed = "3.3 split           mine\n3.4 walk            the package's"
    assert listed in printed_by(mine)
    names = load(notebook.text)
    assert names["insert"](names["Node"]([], []), [1, 2], [0, 1])[1] == 0


LAST = "    return upper\n"
ONCE = "import sys\nsys.runs += 1\n1 / (sys.runs < 2)\n"
ENDLESS = "never = [number for number in iter(int, 1) if number]\n"


@pytest.mark.parametrize(
    ("id", "old", "new", "why"),
    [
        ("3.3", "    hang(node, upper)\n", "", ""),
        ("3.3", "def hang", "raise SystemExit\ndef hang", "SystemExit"),
        ("3.3", "def split", "def cut", "NotKeptError: its section does not define `split`"),
        ("3.3", LAST, LAST + ONCE, "ZeroDivisionError: division by zero"),
        ("3.3", LAST, LAST + ENDLESS, "TooLong: no result within 0.2"),
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


def test_the_split_of_chapter_03_does_not_replace_the_one_that_keeps_locks(notebook):
    notebook.answer("3.3", SPLIT)
    fresh = later(notebook, 4)
    assert fresh.names["split"].__code__ == ours("4.4", {}).__code__
    assert accepted("3.3", fresh.names).__doc__ == "My own way."
    last = "    hang(node, upper)"
    fresh.answer("4.4", SPLIT.replace(last, f"{last}\n    upper.locks = node.locks"))
    assert set(notebook.kept) == {"3.3", "4.4"}
    for chapter, keeps_locks in ((3, False), (4, True)):
        split = later(notebook, chapter).names["split"]
        assert split.__doc__ == "My own way."
        assert ("locks" in split.__code__.co_names) == keeps_locks


def test_a_piece_that_is_before_those_of_chapter_08_runs_again(notebook):
    pytest.importorskip("torch")
    for id in ("7.2", "8.1"):
        assert notebook.answer(id)[0] == "✓"
    said = "From your my_minikv.py: truncate. The other pieces are the package's.\n"
    assert later(notebook, 7).began == said
    assert "SlotAttention" in load(notebook.text)


# -- what is kept; more of it is in tests/answers --------------------------------------------------


def test_a_file_that_is_broken_by_hand_is_named_and_not_overwritten(notebook):
    notebook.answer("3.3", SPLIT)
    notebook.edit("def hang(child, parent):", "def hang(child, parent:")
    broken = notebook.text
    line = broken.splitlines().index("def hang(child, parent:") + 1
    said = f"Not saved yet: line {line} of the file, in section 3.3, has a syntax error: '"
    assert said in notebook.answer("3.4")
    assert notebook.text == broken
    notebook.answer("3.3", SPLIT)
    assert set(notebook.kept) == {"3.3", "3.4"}


def test_a_line_that_would_begin_a_section_is_not_kept(notebook):
    text = SPLIT.replace("    hang(upper", "# %% 3.4 walk\n    x\n    hang(upper")
    first, second, _ = notebook.answer("3.3", f"x = 1\n{text}").splitlines()
    assert first.startswith("✓")
    assert "a line of 3.3 starts with `# %%`" in second
    assert not notebook.file.exists()


def test_the_marked_line_is_the_same_with_and_without_a_file(notebook, monkeypatch):
    said = notebook.answer("3.3", SPLIT)
    monkeypatch.setenv("MINIKV_MINE", "/dev/null")
    assert notebook.answer("3.3", SPLIT) == said


def test_on_colab_the_first_right_piece_says_how_to_keep_the_file(notebook, monkeypatch):
    monkeypatch.setitem(sys.modules, "google.colab", types.ModuleType("google.colab"))
    _, _, said = notebook.answer("3.3", SPLIT).splitlines()
    assert 'mine("download") saves your my_minikv.py' in said
    assert len(notebook.answer("3.5").splitlines()) == 2


# -- earlier versions ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "precious"), [('pages_of = ours("3.8"', "# note"), ('"""My own engine', "import my_")]
)
def test_what_the_learner_wrote_into_the_file_is_never_lost(place, precious, notebook):
    """Neither between the sections nor above the first one."""
    notebook.answer("3.3", SPLIT)
    for number in (1, 2):
        notebook.edit(place, f"{precious}{number}\n{place}")
        before = notebook.text
        older = f"my_minikv_older/my_minikv_{number}.py"
        said = f"  Your previous version is saved in {older}.\n"
        assert said in notebook.answer("3.3", SPLIT)
        assert (notebook.folder / older).read_text("utf-8") == before
        assert "saved in" not in notebook.answer("3.3", SPLIT)


def test_the_newest_versions_of_the_file_are_kept_once_each(notebook):
    other = SPLIT.replace("hang(", "put_under(")
    for text in (SPLIT, other, SPLIT, other, SPLIT):
        notebook.answer("3.3", text)
    assert len(notebook.older) == 2
    for number in range(6):
        notebook.answer("3.3", SPLIT.replace("My own way.", f"My way {number}."))
    assert notebook.older == [f"my_minikv_{number}.py" for number in (3, 4, 5, 6, 7)]


def test_line_ends_and_a_byte_order_mark_are_no_change(notebook):
    notebook.answer("3.3", SPLIT)
    text = notebook.text
    notebook.file.write_bytes(text.replace("\n", "\r\n").encode("utf-8-sig"))
    assert "is saved in" not in notebook.answer("3.3", SPLIT)
    assert notebook.text == text
