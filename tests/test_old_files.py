"""A learner's files of a course whose pieces had other numbers are set aside, and nothing in them counts."""

import os
import re

from lesson import Notebook, learner, printed_by
from project import write

from minikv import mine, progress

OLD = "# %% 3.1 split · mine\ndef split(node, at):\n    raise AssertionError('it ran')\n"
MARKS = '{"3.1": "✅", "4.a": {"question": "how many?", "said": "4"}}'


def texts_in(folder):
    return {path.name: path.read_text("utf-8") for path in folder.iterdir()}


def test_files_of_other_numbers_are_set_aside_when_a_chapter_begins(tmp_path):
    """Also those that a newer minikv wrote would be set aside."""
    write(tmp_path, {"my_minikv.py": OLD, "progress.json": MARKS})
    with learner(tmp_path, 3) as notebook:
        named = re.findall("^  (.*) is from an older course", notebook.began, re.MULTILINE)
        assert named == ["my_minikv.py", "progress.json"]
        assert texts_in(tmp_path) == {"my_minikv.py.bad": OLD, "progress.json.bad": MARKS}
        assert not re.search("✓|mine", printed_by(progress, 3) + printed_by(mine))
        assert not Notebook(tmp_path, 3).began
        os.environ["MINIKV_PROGRESS"] += ".bad"
        assert "your progress can't be read" in printed_by(progress, 3)


def test_another_programs_files_are_left_alone(tmp_path):
    write(tmp_path, theirs := {"my_minikv.py": "x = 1\n", "progress.json": '{"theirs": 1}'})
    with learner(tmp_path, 3):
        assert texts_in(tmp_path) == theirs
