"""Our English: the words that a translation leaves behind stay out of the package, the chapters and the README.

The patterns are in golden/english.txt, each with the words to take in its place. In Python files strings and comments
count, in chapters all of their text; code in backquotes and addresses are left out.
"""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

import pytest
from project import ROOT

_, *TABLES = (ROOT / "tests" / "golden" / "english.txt").read_text("utf-8").split("\n\n")
TABLES = [[line.split(" => ") for line in table.splitlines()[1:]] for table in TABLES]
PATTERNS, LINES = dict(TABLES[0]), TABLES[1]
FOUND = {pattern: re.compile(rf"\b(?:{pattern})(?!\w)", re.IGNORECASE) for pattern in PATTERNS}
CODE = re.compile(r"\(https?://\S*|`[^`]*`")


def words_of(path: Path) -> list[tuple[int, str]]:
    """The lines of a file in which there are words, with their numbers: of Python its strings and its comments."""
    text = path.read_text("utf-8")
    if path.suffix != ".py" or path.parent.name == "src":
        return list(enumerate(text.splitlines(), start=1))
    kinds = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    parts = [(token.start[0], token.string) for token in tokens if token.type in kinds]
    return [(at + i, line) for at, part in parts for i, line in enumerate(part.splitlines())]


def faults(path: Path) -> list[str]:
    """What a file has of the patterns: the line, the words, and what to write in their place."""
    lines = [(number, CODE.sub("", line)) for number, line in words_of(path)]
    found = [(number, look.search(line), pattern) for number, line in lines for pattern, look in FOUND.items()]
    return [f"line {number}: {words[0]!r}, not {PATTERNS[pattern]!r}" for number, words, pattern in found if words]


def test_no_file_sounds_translated():
    places = ["minikv/**/*.py", "minikv/**/*.txt", "minikv/**/*.md", "README.md", ".github/*.md"]
    places += ["notebooks/s*/*.py", "notebooks/site/*.md", "notebooks/*.py", "tools/**/*.md"]
    places += ["tools/minikv_tools/**/*.py", "tools/minikv_tools/**/*.txt", "tools/site/*.py"]
    found = {str(path.relative_to(ROOT)): faults(path) for place in places for path in sorted(ROOT.glob(place))}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_a_docstring_of_the_package_says_what_a_thing_does_or_is():
    """It begins with "Return" or "The", say, and never with "What", which no verb follows."""
    files = *ROOT.glob("minikv/**/*.py"), *ROOT.glob("tools/minikv_tools/**/*.py"), *ROOT.glob("notebooks/*.py")
    assert [path.name for path in files if re.search(r'^\s*"""What ', path.read_text("utf-8"), re.MULTILINE)] == []


@pytest.mark.nightly
@pytest.mark.parametrize(("line", "verdict"), LINES)
def test_the_patterns_find_words_and_leave_others_alone(line, verdict, tmp_path):
    file = tmp_path / "line.md"
    file.write_text(line, "utf-8")
    assert bool(faults(file)) == (verdict == "found")
