"""An index that is a radix tree and more is nothing else as long as that is not used: node by node, step by step."""

from functools import partial

from hypothesis import given
from hypothesis import strategies as st
from machine import SCENARIOS

from minikv import RadixCache, SlidingWindowCache, TieredCache
from minikv.prefix.eviction import POLICIES
from minikv.prefix.radix import EVICT_BY
from minikv.prefix.tiered import WRITES
from minikv.testing.calls import Recorder

MORE = [  # windows that never go, tiers without host memory, and host memory that the device does not notice
    *(partial(SlidingWindowCache, window=window) for window in (1, 2, 3, 6)),
    *(partial(TieredCache, write=write) for write in WRITES),
    *(partial(TieredCache, write=write, host_pages=9) for write in ("write_back", "write_through")),
]


def answer(reply):
    """What one line on a cache comes to, and the node that it ends at."""
    return reply and (reply.value, str(reply.error), getattr(getattr(reply.result, "node", None), "id", None))


def anatomy(cache):
    """Every node with all that is kept on it, and the eviction order; the audit adds up the sizes."""
    fields = ("id", "end", "key_runs", "page_runs", "ref_count", "last_used", "created", "hits")
    nodes = [(*(getattr(node, field) for field in fields), node.parent.id) for node in cache.nodes()]
    return nodes, [node.id for node in cache._order]


@given(SCENARIOS, st.sampled_from(MORE), st.sampled_from([*POLICIES]), st.sampled_from(EVICT_BY))
def test_what_is_not_used_changes_no_answer_and_no_node(scenario, made, policy, evict_by):
    radix, index = (each(scenario.page_size, policy=policy, evict_by=evict_by) for each in (RadixCache, made))
    worlds = Recorder(index), Recorder(radix)
    for line in scenario.lines:
        found, expected = (answer(world.step(line)) for world in worlds)
        assert found == expected, line
        assert anatomy(index) == anatomy(radix)
        index.check()
        if isinstance(index, TieredCache):
            while (move := index.next_move()) is not None:
                index.settle(move)
        else:
            assert index.window_evictable_size + index.window_protected_size == index.total_size
