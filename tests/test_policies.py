"""Replays of each policy that go on after a stop: the same table, and nothing done twice."""

from __future__ import annotations

import contextlib
import io

import pytest
from traffic import cut

from minikv import RadixCache
from minikv.progress_bar import Progress
from minikv.traffic import replay
from minikv.traffic.journal import open_journal
from minikv.traffic.plan.policies import replay_policies

REQUESTS, SIZES = cut("mooncake"), [300, 1000]


def table(path, opened=None, policies=("lru", "mru")):
    opened = [] if opened is None else opened

    @contextlib.contextmanager
    def requests():
        opened.append(1)
        if len(opened) == 3:
            raise KeyboardInterrupt
        yield REQUESTS

    with open_journal(path, {"work": "test"}) as journal:
        return replay_policies(requests, policies, SIZES, journal, Progress(io.StringIO()))


def test_it_is_what_replays_by_pages_find(tmp_path):
    assert table(tmp_path / "a.journal", opened=[1] * 9) == {
        policy: {size: replay(REQUESTS, RadixCache(1, policy, "page"), size).hits for size in SIZES}
        for policy in ("lru", "mru")
    }


def test_stopped_in_the_third_replay_it_goes_on_there(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        table(tmp_path / "a.journal")
    opened = [1] * 9
    found = table(tmp_path / "a.journal", opened)
    assert len(opened) == 9 + 2
    assert found == table(tmp_path / "b.journal", [1] * 9)


def test_more_policies_do_only_what_is_new(tmp_path):
    table(tmp_path / "a.journal", [1] * 9)
    opened = [1] * 9
    assert set(table(tmp_path / "a.journal", opened, ("lru", "fifo"))) == {"lru", "fifo"}
    assert len(opened) == 9 + 2
