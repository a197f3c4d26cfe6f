"""Where the tools write files."""

import ast

from house import NEXT_DOOR
from test_files import writes


def test_files_are_written_by_the_package_alone():
    found = set()
    for source in NEXT_DOOR.rglob("*.py"):
        calls = [node for node in ast.walk(ast.parse(source.read_text("utf-8"))) if isinstance(node, ast.Call)]
        found |= {source.relative_to(NEXT_DOOR).as_posix() for call in calls if writes(call)}
    assert found == {
        "why/builder_process.py",  # into a pipe
        "journal.py",  # by SQLite, which adds a row in one step
    }
