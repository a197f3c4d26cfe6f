"""What a new `my_minikv.py` replaces: kept once, and only if somebody's work is lost otherwise."""

import pytest

from minikv.course.pieces.mine import assembled
from minikv.course.pieces.origin import keep_older
from minikv.course.pieces.piece import find_piece

MY_SPLIT = "def split(node, at):\n    return 'mine', node, at\n"
MY_NEXT = "def split(node, at):\n    return 'another', node, at\n"


def kept(path, old, new):
    copy = keep_older(path, assembled({"3.3": old}), assembled({"3.3": new}), assembled({}))
    return copy and copy.relative_to(path.parent).as_posix()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "my_minikv.py"


def test_other_code_is_kept_in_a_folder_of_its_own(path):
    assert kept(path, MY_SPLIT, MY_NEXT) == "my_minikv_older/my_minikv_1.py"
    assert kept(path, MY_NEXT, MY_SPLIT) == "my_minikv_older/my_minikv_2.py"
    assert (path.parent / "my_minikv_older" / "my_minikv_1.py").read_text("utf-8") == assembled({"3.3": MY_SPLIT})


@pytest.mark.parametrize(
    "new",
    [
        MY_SPLIT.replace("\n", "  \n\n"),
        MY_SPLIT.replace("\n", "\r\n"),
    ],
)
def test_the_same_code_in_another_form_is_no_loss(new, path):
    assert kept(path, MY_SPLIT, new) is None
    assert not list(path.parent.iterdir())


def test_a_comment_that_is_gone_is_a_loss(path):
    assert kept(path, "# why: see page 3\n" + MY_SPLIT, MY_SPLIT)


@pytest.mark.parametrize("ours", [find_piece("3.3").solution, find_piece("4.4").solution])
def test_code_of_ours_is_no_loss(ours, path):
    assert kept(path, ours, MY_SPLIT) is None


def test_what_is_in_the_folder_already_is_not_kept_again(path):
    for old, new in ((MY_SPLIT, MY_NEXT), (MY_NEXT, MY_SPLIT), (MY_SPLIT, MY_NEXT), (MY_NEXT, MY_SPLIT)):
        kept(path, old, new)
    assert len(list((path.parent / "my_minikv_older").iterdir())) == 2


def test_a_file_in_the_folder_that_is_no_text_is_passed_over(path):
    kept(path, MY_SPLIT, MY_NEXT)
    (path.parent / "my_minikv_older" / "a.py").write_bytes(b"\xff\xfe\x00")
    assert kept(path, MY_SPLIT, MY_NEXT) is None


def test_code_that_is_broken_is_kept_as_it_is(path):
    assert kept(path, MY_SPLIT.replace("(", "((", 1), MY_SPLIT)
