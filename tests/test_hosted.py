"""Google Colab, as far as its own package is a part of it, and a browser: the learner's file is saved and restored."""

import os
import sys
from base64 import b64decode
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from golden_text import replay, sections
from lesson import printed_by

from minikv.course.pieces import begin, hosted, mine
from minikv.course.pieces.hosted import advice_on_saving
from minikv.course.pieces.mine import _with_failed, assembled
from minikv.course.pieces.piece import find_piece

GOLDEN = "hosted.txt"
ANOTHER = "def split(node, at):\n    return node  # another one of mine\n"
MINE = assembled({"3.3": find_piece("3.3").solution})
TEXTS = {
    "mine": MINE.encode(),
    "another": assembled({"3.3": ANOTHER}).encode(),
    **{what: _with_failed(MINE, {"3.4": what}).encode() for what in ("tried", "tried_more")},
    "no text": b"\xff\xfe\x00",
    "no pieces": b"print('some other file')",
}


def upload(filename):
    """Give what `chosen` is, as `google.colab.files` gives what was chosen in the browser."""
    if not os.path.exists("chosen"):
        raise ValueError("File has not been uploaded")
    os.replace("chosen", filename)


ACTS = {
    "begin": lambda _: begin(1, {}),
    "advice": lambda _: print(advice_on_saving()),
    "choose": lambda what: Path("chosen").write_bytes(TEXTS[what]),
    "write": lambda what: Path("my_minikv.py").write_bytes(TEXTS[what]),
    "mine": mine,
}


@pytest.mark.parametrize("title", sections(GOLDEN))
def test_the_files_are_what_the_golden_file_says(title, tmp_path, monkeypatch):
    """After what is said, which files are there, and whose text is in each."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINIKV_MINE", "my_minikv.py")
    if title != "elsewhere":
        files = SimpleNamespace(download=partial(print, "downloaded:"), upload_file=upload)
        for name in ("google", "google.colab", "google.colab.files"):
            monkeypatch.setitem(sys.modules, name, files)
    names = {text: name for name, text in TEXTS.items()}

    def act(words):
        verb, _, what = words.partition(" ")
        said = printed_by(ACTS[verb], what)
        files = (path for path in sorted(Path().rglob("*")) if path.is_file())
        there = [f"{path.as_posix()}: {names[path.read_bytes()]}" for path in files]
        return [*said.splitlines(), *there]

    replay(GOLDEN, title, act)


def test_in_a_browser_a_link_saves_the_file_and_a_button_brings_one_back(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINIKV_MINE", "my_minikv.py")
    shown = []
    monkeypatch.setattr(hosted, "_show", shown.append)
    monkeypatch.setattr(hosted, "IN_BROWSER", True)
    assert "are kept in this browser only" in printed_by(begin, 1, {})
    file = Path("my_minikv.py")
    file.write_bytes(TEXTS["mine"])
    mine("download")
    mine("upload")
    link, (button, said) = shown[0].value, shown[1].children
    assert b64decode(link.split("base64,")[1].split('"')[0]) == TEXTS["mine"]
    about = {"name": "my_minikv.py", "type": "", "last_modified": datetime.now(timezone.utc)}
    for what, words in (("another", "is restored, with 3.3"), ("no text", "Nothing has changed")):
        button.value = ({**about, "size": len(TEXTS[what]), "content": memoryview(TEXTS[what])},)
        assert words in said.value
        assert file.read_bytes() == TEXTS["another"]
        assert not button.value
