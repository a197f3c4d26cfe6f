"""An index that is a radix tree and more is nothing else as long as that is not used: node by node, step by step."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from index_machine import LIMITS, NAMESPACES, TOKENS

from minikv import LockError, RadixCache, SlidingWindowCache, TieredCache
from minikv.prefix.eviction import POLICIES
from minikv.prefix.radix import EVICT_BY
from minikv.prefix.tiered import WRITES

pytestmark = pytest.mark.core

VERBS = st.sampled_from(
    ["match_prefix", "acquire", "insert", "insert", "insert from a lock", "lock", "unlock", "unlock", "evict"]
)
OPERATIONS = st.lists(st.tuples(VERBS, st.integers(0, 99), TOKENS, NAMESPACES, LIMITS), max_size=40)
MORE = [  # windows that never go, tiers without host memory, and host memory that the device does not notice
    *(partial(SlidingWindowCache, window=window) for window in (1, 2, 3, 6)),
    *(partial(TieredCache, write=write) for write in WRITES),
    *(partial(TieredCache, write=write, host_pages=9) for write in ("write_back", "write_through")),
]


def outcome(cache, handles, step, verb, which, tokens, namespace, extra):
    """What one operation on `cache` comes to; the handles that it has given so far are in `handles`."""
    handle, number = handles[which % len(handles)] if handles else None, step * 100
    try:
        if verb in ("match_prefix", "acquire"):
            found = getattr(cache, verb)(tokens, limit=extra, namespace=namespace)
        elif verb == "insert":
            found = cache.insert(tokens, range(number, number + len(tokens)), namespace=namespace)
        elif verb == "insert from a lock" and handle is not None:
            whole = [*np.frombuffer(handle.source, np.uint32)[: handle.length].tolist(), *tokens]
            found = cache.insert(whole, range(number, number + len(whole)), namespace=handle.namespace, start=handle)
        elif verb in ("lock", "unlock") and handle is not None:
            return getattr(cache, verb)(handle)
        else:
            return cache.evict(extra or 0).tolist() if verb == "evict" else None
    except (LockError, ValueError) as error:
        return str(error)
    handles.append(found)
    return found.length, getattr(found, "prefix_length", None), found.node.id


def anatomy(cache):
    """Every node with all that is kept on it, and the eviction order; the audit adds up the sizes."""
    fields = ("id", "end", "key_runs", "page_runs", "ref_count", "last_used", "created", "hits")
    nodes = [(*(getattr(node, field) for field in fields), node.parent.id) for node in cache.nodes()]
    return nodes, [node.id for node in cache._order]


@given(OPERATIONS, st.integers(1, 3), st.sampled_from(MORE), st.sampled_from([*POLICIES]), st.sampled_from(EVICT_BY))
def test_what_is_not_used_changes_no_answer_and_no_node(operations, page_size, made, policy, evict_by):
    radix = RadixCache(page_size, policy, evict_by)
    index = made(page_size, policy=policy, evict_by=evict_by)
    of_radix, of_index = [], []
    for step, operation in enumerate(operations):
        assert outcome(index, of_index, step, *operation) == outcome(radix, of_radix, step, *operation)
        assert anatomy(index) == anatomy(radix)
        index.check()
        if isinstance(index, TieredCache):
            while (move := index.next_move()) is not None:
                index.settle(move)
        else:
            assert index.window_evictable_size + index.window_protected_size == index.total_size
