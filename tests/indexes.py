"""Every index that claims the contract, with the settings in which it is tested.

A further index is a line in `INDEX_SETTINGS`, for the contract suite, and one in `DESIGNS`, for the machine.
"""

import dataclasses
from functools import partial
from importlib.util import find_spec
from types import SimpleNamespace as Node

import pytest

from minikv import (
    CacheManager,
    HashBlockCache,
    NoCache,
    RadixCache,
    SlidingWindowCache,
    TieredCache,
    TokenTrie,
    WindowedManager,
    WindowedPool,
)
from minikv.prefix import INDEXES, index_named
from minikv.prefix.eviction import POLICIES
from minikv.prefix.hash_blocks import crc32_key
from minikv.testing.model import NaiveCache
from minikv.testing.rules import subject_of


def least_recent_first(policy):
    """Whether a leaf used long ago goes before one used since and one that is new: rules 8 and 9 speak of those."""
    if "last_used" not in POLICIES[policy].reads:
        return False
    key = POLICIES[policy]().key
    old, used, new = ((2, 2, 1), (1, 3, 2), (3, 4, 1))
    old, used, new = (Node(created=c, last_used=u, hits=h, priority=0) for c, u, h in (old, used, new))
    return key(old) < min(key(used), key(new))


BY_RECENCY = [policy for policy in POLICIES if least_recent_first(policy)]


def collides(parent, tokens):
    """A hash of three bits: nearly every key belongs to several blocks."""
    return bytes([crc32_key(parent, tokens)[0] % 8])


class CarriedOut(TieredCache):
    """Two tiers whose moves are carried out when they are due: host memory fills up, and the device must not notice."""

    def insert(self, *args, **kwargs):
        done = super().insert(*args, **kwargs)
        return self._carried(done)

    def evict(self, num_tokens):
        return self._carried(super().evict(num_tokens))

    def _carried(self, result):
        while (move := self.next_move()) is not None:
            self.settle(move)
        return result


INDEX_SETTINGS = {
    **{f"radix, {policy}": (RadixCache, {"policy": policy}) for policy in BY_RECENCY},
    "radix, by pages": (RadixCache, {"evict_by": "page"}),
    f"radix, {BY_RECENCY[-1]} by pages": (RadixCache, {"policy": BY_RECENCY[-1], "evict_by": "page"}),
    "hashed blocks": (HashBlockCache, {}),
    "hashed blocks, by a weak hash": (HashBlockCache, {"block_hash": collides}),  # each lookup collides, and verifies
    "token trie": (TokenTrie, {}),
    "two tiers": (CarriedOut, {"host_pages": 6}),
    "two tiers, written through, by pages": (
        CarriedOut,
        {"host_pages": 6, "write": "write_through", "evict_by": "page"},
    ),
    "two tiers, and no move": (TieredCache, {"host_pages": 6}),
    "window of 3": (SlidingWindowCache, {"window": 3}),
    "window of 3, by pages": (SlidingWindowCache, {"window": 3, "evict_by": "page"}),
}
DESIGNS = {
    **{name: name for name in INDEXES if name != "radix"},
    "eight keys": partial(HashBlockCache, block_hash=collides),
}
SHIPPED = {name: lambda size=1, made=made, how=how: made(size, **how) for name, (made, how) in INDEX_SETTINGS.items()}
MODELS = {
    "naive, by nodes": lambda size=1: NaiveCache(size),
    "naive, by pages": lambda size=1: NaiveCache(size, evict_by="page"),
}


def over(indexes):
    """Run a test over `indexes`; each takes a page size and makes an empty index."""
    return pytest.mark.parametrize("make", indexes.values(), ids=indexes.keys())


if find_spec("anywidget"):  # with the course there is its engine, which claims all rules but 14

    def of_the_course(page_size=1):
        """The engine that the learner builds, of our own pieces."""
        from minikv.engine import engine_world

        return engine_world()["RadixCache"](page_size)

    MODELS["the learner's"] = of_the_course


def subject(made, how):
    """An index as the conformance kit takes it; only under lru can the naive model say what goes first, and joins."""
    found = subject_of(made, how)
    return found if how.get("policy", "lru") == "lru" else dataclasses.replace(found, claims=found.claims - {8, 14})


SUBJECTS = {name: subject(*setting) for name, setting in INDEX_SETTINGS.items()} | {"none": subject(NoCache, {})}
every_index = over({**SHIPPED, **MODELS})
every_shipped_index = over(SHIPPED)

# A manager of that page size over each index of the table, and one of windowed layers.
MANAGERS = {
    **{name: lambda size, name=name: CacheManager(16 // size, size, index_named(name, size)) for name in INDEXES},
    "two tiers": lambda size: CacheManager(16 // size, size, TieredCache(size, 24 // size)),
    "windowed": lambda size: WindowedManager(WindowedPool(24 // size, 24 // size), window=2, page_size=size),
}
