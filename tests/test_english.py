"""Our English: the words that a translation leaves behind stay out of the package, the chapters and the README.

The patterns are in golden/english.txt, each with the words to take in its place. In Python files strings and comments
count, in chapters all of their text; code in backquotes and addresses are left out.
"""

import io
import re
import tokenize

from house import EVERY, named
from project import ROOT, text_of
from test_house import PAGES

PATTERNS = dict(line.split(" => ") for line in text_of("tests/golden/english.txt").splitlines()[2:])
FOUND = {pattern: re.compile(rf"\b(?:{pattern})(?!\w)", re.IGNORECASE) for pattern in PATTERNS}
CODE = re.compile(r"\(https?://\S*|`[^`]*`")


def words_of(path):
    """The lines of a file in which there are words: of Python its strings and its comments."""
    text = path.read_text("utf-8")
    if path.suffix != ".py" or path.parent.name == "src":
        return text.splitlines()
    kinds = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [line for token in tokens if token.type in kinds for line in token.string.splitlines()]


def faults(path):
    """What a file has of the patterns: the line, and what to write in their place."""
    lines = [CODE.sub("", line) for line in words_of(path)]
    pairs = [(line, pattern) for line in lines for pattern in PATTERNS if FOUND[pattern].search(line)]
    return [f"{line.strip()}: write {PATTERNS[pattern]!r}" for line, pattern in pairs]


def test_no_file_sounds_translated():
    """The packages, all pages, and the sources of the chapters and of the site."""
    places = "minikv/**/*.txt", "tools/mini*/**/*.txt", "notebooks/**/*.py", "tools/site/*.py"
    others = [path for place in places for path in ROOT.glob(place)]
    found = {named(path): faults(path) for path in [*EVERY, *PAGES, *others]}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_a_docstring_of_the_package_says_what_a_thing_does_or_is():
    """It begins with "Return" or "The", say, and never with "What", which no verb follows."""
    files = *EVERY, *ROOT.glob("notebooks/*.py")
    assert [path.name for path in files if re.search(r'^\s*"""What ', path.read_text("utf-8"), re.MULTILINE)] == []
