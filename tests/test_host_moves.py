"""Host memory under a manager: no token changes, whatever is moved, whenever it fails, and nothing is lost."""

from __future__ import annotations

import random
from dataclasses import replace

from chats import Tally, assert_nothing_leaked, engine_for, serve, workload
from nightly import NIGHTLY

from minikv import CacheManager, Canary, CanaryModel

WORKLOADS = range(200) if NIGHTLY else range(60)


def canaries(manager):
    """A model whose marks are followed through both tiers."""
    device = Canary(manager.cache, writes=False)
    if getattr(manager, "host", None) is not None and manager.cache.host is not None:
        manager.host.store, manager.host.host = device, device.beside(manager.cache.host.index)
    return CanaryModel(23, canary=device)


def in_tight_pool(seed, manager_type=CacheManager):
    return engine_for(replace(workload(seed), index="tiered"), "tight", canaries, manager_type)


def test_engines_with_and_without_host_memory_give_the_same_tokens():
    tally = Tally()
    for seed in WORKLOADS:
        work = workload(seed)
        expected = serve(engine_for(work, "off", canaries), work, Tally())
        engine = in_tight_pool(seed)
        for shuffle in (None, random.Random(seed)):
            assert serve(engine, work, tally, shuffle) == expected, f"workload {seed}"
        assert_nothing_leaked(engine.manager)
    assert tally.loaded > 10 * len(WORKLOADS)
    assert tally.evictions > len(WORKLOADS)
