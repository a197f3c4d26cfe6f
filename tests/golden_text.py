"""Golden files: what was seen once, for a reviewer to read, is compared with what is seen now.

A section begins with `== its title`. In a script, what is done begins with `> `, and what was seen
follows. `python tests/golden_text.py tests/test_film_words.py` runs a test file and writes what it
sees into its golden file.
"""

import os
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "golden"
WRITING = "MINIKV_GOLDEN"  # a variable of the environment: write in place of comparing


def sections(name):
    """The lines of each section of a golden file, by its title."""
    _, *texts = f"\n{(FOLDER / name).read_text('utf-8')}".split("\n== ")
    return {title: lines for title, *lines in (text.strip("\n").split("\n") for text in texts)}


def replay(name, title, act):
    """A script, done again: each act returns the lines of what is seen, which must be those of the golden file."""
    script = [line for line in sections(name)[title] if line[:2] == "> "]
    compare(name, title, [line for done in script for line in (done, *act(done[2:]))])


def compare(name, title, found):
    """A section must be what its golden file says."""
    known = sections(name)
    if WRITING in os.environ:
        known[title] = found
        texts = ("\n".join([f"== {title}", *lines]) for title, lines in known.items())
        (FOLDER / name).write_text("\n\n".join(texts) + "\n", "utf-8")
    else:
        assert found == known.get(title, []), f"{title}, in {name}"


if __name__ == "__main__":
    os.environ |= {WRITING: "1", "HYPOTHESIS_PROFILE": "nightly"}  # the sections of the night, too
    sys.exit(pytest.main(["-q", *sys.argv[1:]]))
