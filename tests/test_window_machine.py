"""The sliding-window index against a naive model that recomputes every window, and whether that would notice."""

from __future__ import annotations

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule, run_state_machine_as_test
from index_machine import NAMESPACES, PAGES, TOKENS, IndexAgainstModel
from nightly import NIGHTLY
from plant import plant
from window_model import NaiveWindowCache
from window_pool import WindowLedger

from minikv import FreeListPool, LockError, SlidingWindowCache
from minikv.prefix.eviction import POLICIES
from minikv.prefix.windows import Windows
from minikv.testing.canary import Canary
from minikv.testing.ledger import Ledger

pytestmark = pytest.mark.core

LATE = st.integers(0, 12)  # where the windows of an insert begin


class WindowIndexAgainstModel(IndexAgainstModel):
    """The machine of every index, with windows: budgets, offsets from which they are there, and a pool that listens.

    The policies, of which lru is tried most, say what goes for the full layers.
    """

    @initialize(
        page_size=st.integers(1, 3), window=st.integers(1, 6), policy=st.sampled_from(["lru", "lru", *POLICIES])
    )
    def start(self, page_size, window, policy):
        self.model, self.windows = NaiveWindowCache(page_size, window, policy), WindowLedger()
        self.index = SlidingWindowCache(page_size, policy, "page", window=window, pool=self.windows)
        self.page_size, self.pool = page_size, FreeListPool(PAGES)
        self.ledger, self.canary = Ledger(self.pool, self.index, page_size), Canary(self.index)

    def free(self, pages):
        super().free(pages)
        self.windows.free(pages)

    def put(self, tokens, pages, namespace, pair=None, window_start=0):
        at = pair[1].length // self.page_size if pair else 0
        first = max(at, -(-window_start // self.page_size))
        self.windows.alloc(pages[first - at :])
        return super().put(tokens, pages, namespace, pair, window_start=window_start)

    def evict(self, num_tokens, window_tokens=0):
        self.windows.buried.clear()
        found = self.index.evict(num_tokens, window_tokens).tolist()
        freed, tombs = self.model.evict(num_tokens, window_tokens)
        assert (sorted(found), sorted(self.windows.buried)) == (sorted(freed), sorted(tombs))
        self.free(found)

    @rule(num_tokens=st.integers(0, 4), window_tokens=LATE)
    def evict_both(self, num_tokens, window_tokens):
        self.evict(num_tokens, window_tokens)

    @rule(tokens=TOKENS, namespace=NAMESPACES, window_start=LATE)
    def insert_late(self, tokens, namespace, window_start):
        if (pages := self.room_for(len(tokens))) is not None:
            self.put(tokens, pages, namespace, window_start=window_start)

    @rule(prompt=TOKENS, answer=TOKENS, window_start=LATE, namespace=NAMESPACES)
    def late_request(self, prompt, answer, window_start, namespace):
        pair, tokens = self.acquire(prompt, namespace), [*prompt, *answer]
        pages = self.room_for(len(tokens) - pair[1].length)
        if pages is not None:
            self.put(tokens, pages, namespace, pair, window_start=window_start)
        self.unlock(pair)

    @invariant()
    def the_windows_agree(self):
        if hasattr(self, "index"):
            for size in ("window_evictable_size", "window_protected_size"):
                assert getattr(self.index, size) == getattr(self.model, size)
            assert {self.model.pages[key].number for key in self.model.live} == self.windows.live


def test_the_index_agrees_with_a_model_that_recomputes_every_window():
    most = max(100, settings().max_examples if NIGHTLY else 0)  # a hundred find all that is planted below
    run_state_machine_as_test(WindowIndexAgainstModel, settings=settings(stateful_step_count=30, max_examples=most))


# -- and whether the machine would notice ------------------------------------------------------------------------------


def gives_the_live_part_up(split, self, upper, node):
    live_from = node.window.live_from
    split(self, upper, node)
    if upper.start < live_from < upper.end:
        upper.window.live_from = upper.start


def takes_a_short_path_for_invalid(valid_length, self, *args):
    found = valid_length(self, *args)
    return found if found >= self.span else 0


PLANTED = {
    "the window that a lock holds begins too late":
        (Windows, "lock unlock", lambda method, self, node, end: method(self, node, end + 1 if end > 1 else end)),
    "a split gives the live part to the upper half (pymllm's Mamba split)": (Windows, "split", gives_the_live_part_up),
    "a leaf loses its last window, so that no match can ever end there":
        (Windows, "spare", lambda spare, self, state: state.num_free),
    "a match does not refresh windows, so what everybody reads loses its window first":
        (Windows, "touch", lambda touch, self, path, now: None),
    "the counter begins at zero": (Windows, "valid_length", takes_a_short_path_for_invalid),
    "healing forgets the pool, which still gives the window to the duplicate":
        (Windows, "revive", lambda revive, self, *args: revive(self, *args[:-1], None)),
}  # fmt: skip


@pytest.mark.nightly
@pytest.mark.parametrize("mistake", PLANTED)
def test_the_window_machine_catches(mistake, monkeypatch):
    plant(monkeypatch, *PLANTED[mistake])
    hunt = settings(max_examples=400, stateful_step_count=30, phases=[Phase.generate])
    with pytest.raises((AssertionError, LockError, ValueError, KeyError)):
        run_state_machine_as_test(WindowIndexAgainstModel, settings=hunt)
