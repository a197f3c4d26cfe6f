"""Host memory under a manager: what moves when, and what is locked until it has arrived.

That no token changes, whatever moves and whenever it fails, `test_engine_oracle` and `test_engine_faults` say.
"""

from types import SimpleNamespace

import pytest

from minikv import CacheManager, OutOfPages, TieredCache


def served(manager, tokens):
    with manager.request(tokens) as sequence:
        manager.advance(sequence)
        return sequence.loaded, sequence.cached_length


def swapped(num_pages=4, host_pages=8, **options):
    """A manager: one prompt is in host memory, and the one that took its pages is cached."""
    manager = CacheManager(num_pages, prefix_cache=TieredCache(host_pages=host_pages), **options)
    assert served(manager, [1, 2, 3, 4]) == served(manager, [5, 6, 7, 8]) == (0, 0)
    return manager


@pytest.mark.parametrize("answer", [2, 1.5, "yes", None, 0])
def test_only_what_is_worth_loading_is_loaded(answer):
    """Whatever counts as yes."""
    asked = []
    manager = swapped(worth_loading=lambda *numbers: asked.append(numbers) or answer)
    assert served(manager, [1, 2, 3, 9]) == ((3, 3) if answer else (0, 0))
    assert (asked, manager.cache.host.moves) == ([(3, 0)], [])


@pytest.mark.parametrize("act", ["checkpoint", "finish"])
def test_what_is_written_through_is_in_host_memory_when_it_is_published(act):
    manager = CacheManager(4, prefix_cache=TieredCache(host_pages=8, write="write_through"))
    sequence = manager.start([1, 2, 3])
    manager.advance(sequence)
    getattr(manager, act)(sequence)
    assert manager.cache.host.index.total_size == 3


def test_what_was_loaded_is_found_by_others_before_the_request_ends():
    manager = swapped(5)
    first, second = manager.start([1, 2, 3, 9]), manager.start([1, 2, 3, 7])
    assert [(each.loaded, each.cached_length, each.shared) for each in (first, second)] == [(3, 3, 3), (0, 3, 3)]
    manager.check()


def test_of_what_is_worth_loading_only_what_is_still_there_counts():
    """Room for the request was made on the device, and so in host memory, where a part of what was found went."""
    asked = []
    manager = swapped(host_pages=4, worth_loading=lambda *numbers: asked.append(numbers))
    assert manager.cache.match_prefix([1, 2, 3, 4, 9]).host_length == 4
    served(manager, [1, 2, 3, 9])
    assert (asked, manager.cache.host.index.protected_size) == ([], 0)
    manager.check()


def test_a_load_whose_worth_cannot_be_told_is_no_load():
    manager = swapped(worth_loading=lambda *numbers: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        manager.start([1, 2, 3, 9])
    manager.check()
    assert (manager.sequences, manager.cache.host.moves) == ([], [])


def test_a_load_needs_room_like_any_prefill():
    manager = swapped()
    busy = manager.start([3, 4, 5])
    with pytest.raises(OutOfPages, match="3 pages needed, but only 1 free and 0 evictable"):
        manager.start([1, 2, 9])
    manager.abort(busy)
    assert served(manager, [1, 2, 9]) == (2, 2)
    assert served(manager, [1, 2, 3, 9]) == (1, 3)  # what is on the device is not loaded again


def test_a_load_of_what_has_gone_since_it_was_found_holds_nothing():
    manager = swapped()
    served(manager, [1, 2, 9])
    match, host = manager.cache.acquire([1, 2, 3, 9]), manager.cache.host.index
    host.evict(6)  # all but tokens 1 and 2
    assert (match.host_length, manager.cache.load(match, [3]), host.protected_size) == (1, None, 0)


class Layers:
    """Stores whose loads have layers to come."""

    def take_pages(self, source, src, dst, later=False):
        self.crossing = SimpleNamespace(done=not later)
        return self.crossing


@pytest.mark.parametrize("act", ["finish", "start"])
def test_the_host_pages_of_a_load_are_locked_until_its_last_layer_has_arrived(act):
    """The next act that could move pages unlocks them: one that publishes, or could load."""
    manager, stores = swapped(6), Layers()
    manager.host.store = manager.host.host = stores
    first, host = manager.start([1, 2, 3]), manager.cache.host
    manager.host.look()
    manager.check()
    assert (first.loaded, len(host.moves), host.index.protected_size) == (2, 1, 2)
    stores.crossing.done, manager.host.worth = True, lambda *numbers: False
    if act == "start":
        manager.start([5, 6, 9])
    else:
        manager.advance(first)
        manager.finish(first)
    assert (host.moves, host.index.protected_size) == ([], 0)
