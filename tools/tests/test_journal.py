"""A journal keeps what is done, whatever ends the work; and it refuses another's."""

import json
import os
import signal

import pytest

from minikv.files import locked
from minikv_tools.journal import JournalError, open_journal

WORK = {"traces": ["day.jsonl"], "capacities": [1000, 2000, 3000]}
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


def test_what_is_done_is_found_again_by_the_run_and_not_by_the_order_of_its_fields(path):
    with open_journal(path, WORK) as journal:
        assert journal.found({"trace": "dä\ny", "capacity": 1}) == {"hits": 11}
        assert journal.found({"trace": "day", "capacity": 1}) is None


def test_each_run_is_in_the_file_as_soon_as_it_is_added(path):
    with open_journal(path, WORK) as journal:
        journal.add(RUNS[2], result := {"hits": 0})
        result["hits"] = 9
        assert journal.found(RUNS[2]) == {"hits": 0}, "as it is in the file"
        last = json.loads(path.read_text("utf-8").splitlines()[-1])
    assert last == {"run": RUNS[2], "found": {"hits": 0}}


def test_ctrl_c_waits_until_a_run_is_on_the_disk(path, monkeypatch):
    fsync = os.fsync

    def pressed(descriptor):
        signal.raise_signal(signal.SIGINT)
        fsync(descriptor)

    with open_journal(path, WORK) as journal:
        monkeypatch.setattr(os, "fsync", pressed)
        with pytest.raises(KeyboardInterrupt):
            journal.add(RUNS[2], {"hits": 2})
    monkeypatch.undo()
    assert found_in(path)[2] == {"hits": 2}


def test_a_record_that_was_cut_off_anywhere_is_done_again_and_the_others_stay(path):
    whole = path.read_bytes()
    last = whole.rindex(b"\n", 0, -1) + 1
    for end in range(last, len(whole)):
        path.write_bytes(whole[:end])
        assert found_in(path) == [{"hits": 10}, None, None, None], end
        assert path.read_bytes() == whole[:last], "what is added next stands behind a whole line"
        path.write_bytes(whole[:last] + b"\0" * (end - last) + b"\n")  # as a power cut may leave it
        assert found_in(path) == [{"hits": 10}, None, None, None], end
    path.write_bytes(whole)
    assert found_in(path)[1] == {"hits": 11}
    assert path.read_bytes() == whole


def test_work_goes_on_behind_a_record_that_was_cut_off(path):
    path.write_bytes(path.read_bytes()[:-3])
    with open_journal(path, WORK) as journal:
        journal.add(RUNS[3], {"hits": 3})
    assert found_in(path) == [{"hits": 10}, None, None, {"hits": 3}]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"capacities": [1000, 2500, 3000]}, r"capacities\[1\] is 2000 there and 2500 here"),
        ({"capacities": [1000, 2000]}, r"capacities\[2\] is 3000 there and absent here"),
        ({"traces": ["x" * 10**5]}, r"traces\[0\] is 'day.jsonl' there and 'x{58}… here"),
        ({"content of day.jsonl": "ab"}, "content of day.jsonl is absent there and 'ab' here"),
        ({"minikv journal": 2}, "minikv journal is 1 there and 2 here"),
    ],
)
def test_a_journal_of_other_work_is_refused_with_the_difference(change, said, path):
    before = path.read_bytes()
    with pytest.raises(JournalError, match=rf"work\.journal is a journal of other work: {said}$"):
        found_in(path, WORK | change)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("content", [b"my only copy of a novel", b"{}\n", b"\xff\n", b"[1]\n", b'{"a": 1', b"\n\n"])
def test_a_file_that_is_not_a_journal_is_refused_and_stays(content, path):
    path.write_bytes(content)
    with pytest.raises(JournalError, match=r"work\.journal is not a journal of minikv: "):
        found_in(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b'{"run": 1, "found": {}}', b'{"run": {}}', b"\xff", b"[" * 10**5])
def test_a_damaged_line_that_is_not_the_last_is_named_and_the_file_stays(line, path):
    lines = path.read_bytes().split(b"\n")
    for content in b"\n".join([lines[0], line, *lines[1:]]), b"\n".join([lines[0], line, lines[1][:-3]]):
        path.write_bytes(content)
        with pytest.raises(JournalError, match=r"work\.journal, line 2, is damaged: ") as caught:
            found_in(path)
        assert len(str(caught.value)) < 300 + len(str(path))
        assert path.read_bytes() == content


def test_an_empty_file_is_begun(path):
    path.write_bytes(b"")
    assert found_in(path) == [None] * 4
    assert len(path.read_bytes().splitlines()) == 1


def test_two_processes_cannot_have_it_open(path):
    held = r"held its lock.*work\.journal"
    with open_journal(path, WORK), pytest.raises(TimeoutError, match=held), locked(path, 0):
        pytest.fail("two have it")


def test_a_run_whose_record_does_not_reach_the_disk_is_not_done(path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    with open_journal(path, WORK) as journal:
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            journal.add(RUNS[2], {"hits": 1})
        assert journal.found(RUNS[2]) is None
    monkeypatch.undo()
    assert found_in(path)[2:] == [None, None]
