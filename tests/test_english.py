"""Our English: the words that a translation leaves behind stay out of the package, the chapters and the README.

Each pattern is one that no native speaker would write, with the words to take in its place. In Python files
strings and comments count, in chapters all of their text; code in backquotes and addresses are left out.
"""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

import pytest
from project import ROOT

PATTERNS = {
    r"longest ago": "least recently used",
    r"behind": "after",
    r"in front of": "before",
    r"(go|goes|going|went|gone) on(?! (?:sale|to))": "continue",
    r"runs? on(?=[.,;:)]| while| when\b| as\b)": "continues, keeps running",
    r"of (yours|ours)": "your own, our",
    r"what (comes|came) of": "the result of",
    r"anew": "again",
    r"is sooner": "is faster",
    r"asks? after": "ask for",
    r"stands? (in|at|on|under|below|beside|above|behind|here|there)": "is in",
    r"(one|bytes?|nodes?|tokens?|requests?|blocks?|hits?|pages?|rows?|numbers?|\w+[)}]) a "
    r"(token|second|request|GPU|layer|step|slot|block|number)(?!'s| is| computes)": "per",
    r"GPU of \d+": "an 80 GiB GPU",
    r"with \d+ bytes each": "at 2 bytes each",
    r"from how many": "at how many",
    r"(is|are|was|were) right(?! (after|before|above|below|there|away|now))": "is correct, works",
    r"keeps? book": "keep track",
    r"the mend": "the fix",
    r"very (slot|page|node|row)": "that slot",
    r"whoever": "any request that",
    r"shall": "must",
    r"helps a little": 'Stuck? Try hint("3.3")',
    r"what both refuse": "the correct version raises this error too",
    r"is (finished|free|aborted) already": "has already finished, is already free",
}
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


@pytest.mark.parametrize(
    ("line", "is_found"),
    [
        ("the block behind it", True),
        ("one node a token", True),
        ("a page a token is in", False),
        ("pairs (keys, values) a layer", True),
        ("the engine goes on with it", True),
        ("it runs on a GPU", False),
        ("the request runs on, and", True),
        ("it is right", True),
        ("it is right after the first", False),
        ("`behind` is a name", False),
    ],
)
def test_the_patterns_find_words_and_leave_others_alone(line, is_found, tmp_path):
    file = tmp_path / "line.md"
    file.write_text(line, "utf-8")
    assert bool(faults(file)) == is_found
