"""The write policies of a real `TieredCache`: what they copy to host memory, and what is found there.

`python tests/tier_policies.py` prints both for the whole chat and all sessions of agents, evicting by nodes and by
pages; MINIKV_SHARED names the folder of the traces.
"""

from __future__ import annotations

import sys
import time
from typing import NamedTuple

import numpy as np
from two_tiers import CHAT, SESSIONS, arrivals, sessions_in

from minikv import CacheManager, PackedTokens, TieredCache
from minikv.prefix.tiered import WRITES

# Pages on the device and in host memory: 1.4 M and 6.5 M tokens; 2 M and 8 M tokens.
SIZES = {SESSIONS: (21_875, 101_562), CHAT: (4_000, 16_000)}


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


def driven(paths, gpu, host, write, evict_by="page", hot=2):
    """Serve every request that fits, from start to finish, and load all that host memory has."""
    cache = Counting(1, host, write=write, hot=hot, evict_by=evict_by)
    manager, near, far = CacheManager(gpu, 1, cache), 0, 0
    for path in paths:
        if 0 < len(path) <= gpu:
            tokens = PackedTokens(path.astype(np.uint32).tobytes())
            sequence = manager.start(tokens, limit=len(path))
            near, far = near + sequence.cached_length - sequence.loaded, far + sequence.loaded
            manager.advance(sequence)
            manager.finish(sequence)
    return Written(near, far, cache.written)


def chat(path):
    """The prompts of a trace in Mooncake's format, as numbers of blocks."""
    return [np.array(request["hash_ids"], np.int64) for request in sessions_in(path)]


def main():
    for trace, sizes in SIZES.items():
        paths = chat(trace) if trace == CHAT else [path for path, _ in arrivals(sessions_in(trace))]
        total = sum(map(len, paths))
        print(f"{trace.name}: {len(paths)} requests, {total} blocks; device and host have room for {sizes}")
        for evict_by in ("node", "page"):
            for write in WRITES:
                begin, found = time.process_time(), driven(paths, *sizes, write, evict_by)
                print(
                    f"  by {evict_by}, {write}: device {found.near / total:.4f}, host {found.far / total:.4f}; "
                    f"written {found.written:,} pages ({time.process_time() - begin:.0f} s)",
                    flush=True,
                )


if __name__ == "__main__":
    sys.exit(main())
