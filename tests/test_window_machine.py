"""The sliding-window index against a naive model that recomputes every window, and whether that would notice."""

import itertools
from functools import partial

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from machine import LONG_ONES, Pooled, Watched, hunt
from nightly import NIGHTLY
from plant import plant
from window_model import NaiveWindowCache
from window_pool import WindowLedger

from minikv import LockError, SlidingWindowCache
from minikv.prefix.eviction import POLICIES
from minikv.prefix.windows import Windows
from minikv.testing.rules import RULES, Subject
from minikv.testing.scenarios import Scenario


class Windowed(Pooled):
    """The sliding-window index over a pool that listens."""

    def __init__(self, page_size, evict_by, policy, window):
        self.windows = WindowLedger()
        made = partial(SlidingWindowCache, window=window, pool=self.windows)
        super().__init__(made, page_size, policy, evict_by)

    def free(self, pages):
        super().free(pages)
        self.windows.free(pages)

    def insert(self, tokens, pages, *, start=None, window_start=0, **options):
        first = max(start.length if start else 0, window_start)
        self.windows.alloc(pages[-(-first // self.page_size) :])
        try:
            return super().insert(tokens, pages, start=start, window_start=window_start, **options)
        except LockError:
            self.windows.free(pages)
            raise

    def evict(self, num_tokens, window_tokens=0):
        self.windows.buried.clear()
        return super().evict(num_tokens, window_tokens)


class WatchedWindows(Watched):
    """A run in which the windows agree as well: which are there, which can go, and which go."""

    def new_model(self):
        return NaiveWindowCache(self.page_size, **self.subject.fixed)

    def eviction(self, reply, expected):
        gone = sorted(reply.value), sorted(self.index.windows.buried)
        return self.exactly(9, gone, (sorted(expected.value), sorted(self.model.tombs)))

    def look_around(self, reply, expected):
        found = super().look_around(reply, expected)
        sizes = [(each.window_evictable_size, each.window_protected_size) for each in (self.index, self.model)]
        live = {self.model.pages[key].number for key in self.model.live}
        return found or self.exactly(7, (sizes[0], self.index.windows.live), (sizes[1], live))


def with_windows(scenario, numbers):
    """The scenario with inserts whose windows begin late, and evictions that free windows."""
    lines = []
    for line, number in zip(scenario.lines, itertools.cycle(numbers)):
        if number and ".insert(" in line:
            line = f"{line[:-1]}, window_start={number})"
        lines.append(line.replace("evict(", f"evict({number % 4}, window_tokens=") if number else line)
    return Scenario(tuple(lines), scenario.page_size)


CASES = st.builds(with_windows, LONG_ONES, st.lists(st.just(0) | st.integers(0, 12), min_size=1))
SUBJECTS = st.builds(
    lambda window, policy: Subject(
        Windowed, "Windowed", frozenset(RULES) - {14}, (1, 2, 3), ({"evict_by": "page"},),
        {"window": window, "policy": policy},
    ),
    st.integers(1, 6), st.sampled_from(["lru", "lru", *POLICIES]),  # for the full layers
)  # fmt: skip


def test_the_index_agrees_with_a_model_that_recomputes_every_window():
    most = settings().max_examples if NIGHTLY else 100  # sixty find all that is planted below
    hunt(SUBJECTS, CASES, WatchedWindows, max_examples=most)


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
    with pytest.raises(AssertionError, match="cache = Windowed"):
        hunt(SUBJECTS, CASES, WatchedWindows, max_examples=400, phases=[Phase.generate])
