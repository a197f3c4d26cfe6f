"""What each write policy of a real `TieredCache` copies to host memory, and what that costs in hits."""

from typing import NamedTuple

import numpy as np
import pytest
from traffic import CUTS
from two_tiers import CHAT, SESSIONS, Frames, arrivals, served, sessions_in

from minikv import CacheManager, PackedTokens, TieredCache
from minikv.prefix.tiered import WRITES


class Written(NamedTuple):
    """In pages: the hits on the device, those in host memory, and what was copied there."""

    near: int
    far: int
    written: int


class Counting(TieredCache):
    """Counts the pages that are copied to host memory."""

    written = 0

    def settle(self, move, arrived=True):
        super().settle(move, arrived)
        if move.to_host and arrived:
            self.written += len(move.dst)


def driven(paths, gpu, host, write, hot=2):
    """Serve every request that fits, from start to finish, and load all that host memory has.

    By pages. Whole nodes are split where a load ends, so by nodes the device's hits differ a little.
    """
    cache = Counting(1, host, write, hot, evict_by="page")
    manager, near, far = CacheManager(gpu, 1, cache), 0, 0
    for path in paths:
        if 0 < len(path) <= gpu:
            tokens = PackedTokens(path.astype(np.uint32).tobytes())
            sequence = manager.start(tokens, limit=len(path))
            near, far = near + sequence.cached_length - sequence.loaded, far + sequence.loaded
            manager.advance(sequence)
            manager.finish(sequence)
    return Written(near, far, cache.written)


def moved(paths, gpu, host):
    """The same two tiers, written through, as pages that move."""
    tier = Frames(host, 1 + max(int(path.max(initial=0)) for path in paths))
    found = list(served(paths, gpu, host, tier))
    near = sum(near for near, _ in found)
    return Written(near, sum(far for _, far in found) - near, tier.writes)


def compare(paths, gpu, host):
    """Written through it is what pages that move do; a later copy is of fewer, and the device does not notice."""
    found = {write: driven(paths, gpu, host, write) for write in WRITES}
    assert found["write_through"] == moved(paths, gpu, host)
    assert len({one.near for one in found.values()}) == 1
    assert max(found["write_back"].written, found["write_through_selective"].written) < found["write_through"].written


def test_what_each_policy_copies_and_finds():
    paths = [path for path, _ in arrivals(sessions_in(CUTS / "agents.jsonl"), hours=0.2)]
    compare(paths, 6_700, 14_000)
    through = driven(paths, 6_700, 9_000, "write_through")
    assert through == moved(paths, 6_700, 9_000)
    assert driven(paths, 6_700, 9_000, "write_through_selective", hot=1) == through
    assert 0 < driven(paths, 6_700, 9_000, "write_through_selective").far < through.far


@pytest.mark.nightly
@pytest.mark.skipif(not SESSIONS.exists(), reason="needs both traces: MINIKV_SHARED names their folder")
def test_what_each_policy_copies_on_both_traces():
    """With room for 1.4 M and 6.5 M tokens, or 2 M and 8 M."""
    compare([path for path, _ in arrivals(sessions_in(SESSIONS))], 21_875, 101_562)
    compare([np.array(request["hash_ids"], np.int64) for request in sessions_in(CHAT)], 4_000, 16_000)
