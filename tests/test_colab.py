"""Google Colab, as far as its own package is a part of it: the learner's file is saved and brought back."""

import sys
import types

import pytest

from minikv.course.pieces import begin, mine
from minikv.course.pieces.colab import colab_advice
from minikv.course.pieces.mine import assembled
from minikv.course.pieces.piece import find_piece

MINE = assembled({"3.3": find_piece("3.3").solution})
ANOTHER = assembled({"3.3": "def split(node, at):\n    return node  # another one of mine\n"})


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINIKV_MINE", str(tmp_path / "my_minikv.py"))
    begin(1, {})
    return tmp_path / "my_minikv.py"


class Files:
    """As `google.colab.files`: what was downloaded, and what the browser gives when it is asked."""

    def __init__(self):
        self.downloaded, self.chosen = [], None

    def download(self, filename):
        self.downloaded.append(filename)

    def upload_file(self, filename):
        if self.chosen is None:
            raise ValueError("File has not been uploaded")
        with open(filename, "wb") as file:
            file.write(self.chosen)


@pytest.fixture
def colab(monkeypatch):
    files = Files()
    package = types.ModuleType("google.colab")
    package.files = files
    for name, module in (("google", types.ModuleType("google")), ("google.colab", package)):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, "google.colab.files", files)
    return files


def test_how_to_keep_the_file_is_said_once_and_on_colab_only(file, colab, monkeypatch):
    assert colab_advice() == []  # there is no file yet
    file.write_text(MINE, "utf-8")
    (said,) = colab_advice()
    assert 'mine("download") saves your my_minikv.py' in said
    assert colab_advice() == []
    begin(1, {})
    assert colab_advice() == [said]
    begin(1, {})
    monkeypatch.delitem(sys.modules, "google.colab")
    assert colab_advice() == []


def test_the_file_is_downloaded(file, colab, capsys):
    mine("download")
    assert "You don't have a my_minikv.py yet" in capsys.readouterr().out
    file.write_text(MINE, "utf-8")
    mine("download")
    assert (colab.downloaded, capsys.readouterr().out) == ([str(file)], "")


def test_the_file_is_uploaded_and_what_it_replaces_is_kept(file, colab, capsys):
    file.write_text(ANOTHER, "utf-8")
    colab.chosen = MINE.encode()
    mine("upload")
    assert capsys.readouterr().out == (
        "  my_minikv.py is restored, with 3.3. Run the first code cell again to use them.\n"
        "  Your previous version is saved in my_minikv_older/my_minikv_1.py.\n"
    )
    there = {path.name: path.read_text("utf-8") for path in file.parent.rglob("*.*")}
    assert there == {"my_minikv.py": MINE, "my_minikv_1.py": ANOTHER}


@pytest.mark.parametrize("chosen", [None, b"\xff\xfe\x00", b"print('some other file')"])
def test_without_a_file_of_pieces_nothing_changes(chosen, file, colab, capsys):
    file.write_text(MINE, "utf-8")
    colab.chosen = chosen
    mine("upload")
    assert capsys.readouterr().out.startswith("  Nothing has changed: ")
    assert {path: path.read_text("utf-8") for path in file.parent.iterdir()} == {file: MINE}


def test_elsewhere_the_file_stays_where_it_is(file, capsys):
    mine("download")
    assert capsys.readouterr().out.startswith('  mine("download") is for Google Colab. Here, my_minikv.py is in')
