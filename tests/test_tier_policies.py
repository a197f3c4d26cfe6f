"""What each write policy of a real `TieredCache` copies to host memory, and what that costs in hits."""

from __future__ import annotations

import pytest
from tier_policies import SIZES, WRITES, chat, driven
from traffic import CUTS
from two_tiers import CHAT, SESSIONS, Frames, arrivals, served, sessions_in

pytestmark = pytest.mark.core

PATHS = [path for path, _ in arrivals(sessions_in(CUTS / "agents.jsonl"), hours=0.2)]


def moved(paths, gpu, host):
    """The same two tiers, written through, as pages that move."""
    tier = Frames(host, 1 + max(int(path.max(initial=0)) for path in paths))
    found = list(served(paths, gpu, host, tier))
    near = sum(near for near, _ in found)
    return near, sum(far for _, far in found) - near, tier.writes


@pytest.mark.parametrize("host", [9_000, 14_000])
def test_by_pages_and_written_through_it_is_what_pages_that_move_do(host):
    assert driven(PATHS, 6_700, host, "write_through") == moved(PATHS, 6_700, host)
    assert moved(PATHS, 6_700, host)[1] > 0


def test_a_later_copy_is_of_fewer_pages_and_the_device_does_not_notice():
    """By pages. Whole nodes are split where a load ends, so by nodes the device's hits differ a little."""
    found = {write: driven(PATHS, 6_700, 14_000, write) for write in WRITES}
    assert len({one.near for one in found.values()}) == 1
    assert found["write_back"].written < found["write_through"].written
    assert found["write_through_selective"].written < found["write_through"].written
    assert found["write_through_selective"].far < found["write_through"].far


def test_selective_from_the_first_use_is_write_through():
    assert driven(PATHS, 6_700, 9_000, "write_through_selective", hot=1) == driven(PATHS, 6_700, 9_000, "write_through")


@pytest.mark.nightly
@pytest.mark.skipif(not SESSIONS.exists(), reason="needs both traces: MINIKV_SHARED names their folder")
@pytest.mark.parametrize("trace", [SESSIONS, CHAT], ids=["agents", "chat"])
def test_on_both_traces(trace):
    paths = chat(trace) if trace == CHAT else [path for path, _ in arrivals(sessions_in(trace))]
    found = {write: driven(paths, *SIZES[trace], write) for write in WRITES}
    assert found["write_through"] == moved(paths, *SIZES[trace])
    assert found["write_back"].written < found["write_through"].written
    assert found["write_through_selective"].written < found["write_through"].written
    assert len({one.near for one in found.values()}) == 1
