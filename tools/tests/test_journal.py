"""A journal keeps what is done, whatever ends the work; and it refuses another's."""

import os
import sqlite3

import pytest

from minikv.files import locked
from minikv_tools.journal import JournalError, open_journal

WORK = {"traces": ["day.jsonl"], "capacities": (1000, None)}
RUNS = [{"capacity": number, "trace": "dä\ny"} for number in range(4)]


@pytest.fixture
def path(tmp_path):
    """A journal of two runs."""
    path = tmp_path / "work.journal"
    with open_journal(path, WORK) as journal:
        for run in RUNS[:2]:
            journal.add(run, {"hits": run["capacity"] + 10})
    return path


def found_in(path, work=WORK):
    with open_journal(path, work) as journal:
        return [journal.found(run) for run in RUNS]


def changed(path, statement):
    with sqlite3.connect(path) as database:
        database.execute(statement)
    database.close()


def test_what_is_done_is_found_again_by_the_run_and_not_by_the_order_of_its_fields(path):
    with open_journal(path, WORK) as journal:
        assert journal.found({"trace": "dä\ny", "capacity": 1}) == {"hits": 11}
        assert journal.found({"trace": "day", "capacity": 1}) is None


def test_each_run_is_in_the_file_as_soon_as_it_is_added(path, tmp_path):
    with open_journal(path, WORK) as journal:
        journal.add(RUNS[2], result := {"hits": 0})
        result["hits"] = 9
        assert journal.found(RUNS[2]) == {"hits": 0}, "as it is in the file"
        killed = tmp_path / "killed.journal"
        killed.write_bytes(path.read_bytes())
    assert found_in(killed) == [{"hits": 10}, {"hits": 11}, {"hits": 0}, None]
    assert sorted(os.listdir(tmp_path)) == ["killed.journal", "work.journal"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"capacities": [1000, 2500]}, r"capacities is \[1000, null\] there and \[1000, 2500\] here"),
        ({"capacities": [1000]}, r"capacities is \[1000, null\] there and \[1000\] here"),
        ({"traces": ["x" * 10**5]}, r'traces is \["day.jsonl"\] there and \["x{197}… here'),
        ({"content of day.jsonl": "ab"}, 'content of day.jsonl is absent there and "ab" here'),
    ],
)
def test_a_journal_of_other_work_is_refused_with_the_difference(change, said, path):
    before = path.read_bytes()
    with pytest.raises(JournalError, match=rf"work\.journal is a journal of other work: {said}$"):
        found_in(path, WORK | change)
    assert path.read_bytes() == before


OLD = b'{"minikv journal":1,"traces":["day.jsonl"]}\n'  # of minikv, before it was released


@pytest.mark.parametrize("content", [b"my only copy of a novel", b"\n\n", b"\xff" * 9000, OLD])
def test_a_file_that_is_not_a_journal_is_refused_and_stays(content, path):
    path.write_bytes(content)
    with pytest.raises(JournalError, match=r"work\.journal is not a journal of minikv: file is not a database$"):
        found_in(path)
    assert path.read_bytes() == content


def test_a_database_of_another_program_is_refused_and_stays(path):
    changed(path, "ALTER TABLE minikv_journal RENAME TO novels")
    before = path.read_bytes()
    with pytest.raises(OSError, match=r"no such table: minikv_journal: .*work\.journal"):
        found_in(path)
    assert path.read_bytes() == before


def test_a_damaged_journal_is_named(path):
    whole = path.read_bytes()
    changed(path, "UPDATE minikv_journal SET found = '{'")
    for content in (path.read_bytes(), whole[:5000]):
        path.write_bytes(content)
        with pytest.raises(JournalError, match=r"work\.journal is not a journal of minikv: "):
            found_in(path)


def test_an_empty_file_is_begun(path):
    path.write_bytes(b"")
    assert found_in(path) == [None] * 4


def test_two_processes_cannot_have_it_open(path):
    held = r"held its lock.*work\.journal"
    with open_journal(path, WORK), pytest.raises(TimeoutError, match=held), locked(path, 0):
        pytest.fail("two have it")


def test_a_run_whose_record_does_not_reach_the_disk_is_not_done(path):
    def fill():
        with open_journal(path, WORK) as journal:
            journal.database.execute("PRAGMA max_page_count = 3")
            journal.add(RUNS[2], {"hits": "1" * 10**5})

    with pytest.raises(OSError, match=r"full: .*work\.journal"):
        fill()
    assert found_in(path)[2:] == [None, None]
