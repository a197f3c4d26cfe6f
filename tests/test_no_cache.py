"""The null cache: every verb and every refusal of the contract, and nothing kept."""

import pytest

from minikv import InvariantError, LockError, NoCache


def test_nothing_is_ever_found_or_evicted():
    cache = NoCache(2)
    for _ in range(2):
        done = cache.insert([1, 2, 3], [0, 1])
        assert (done.prefix_length, done.length) == (0, 0)
    assert cache.match_prefix([1, 2, 3]).length == 0
    match = cache.acquire([1, 2, 3], limit=2)
    assert match.pages.tolist() == match.slots.tolist() == []
    assert cache.evict(5).tolist() == []
    assert (cache.evictable_size, cache.protected_size, cache.total_size) == (0, 0, 0)


def test_locks_are_counted_all_the_same():
    cache = NoCache()
    match = cache.match_prefix([1])
    with pytest.raises(LockError, match="cannot unlock the handle of length 0"):
        cache.unlock(match)
    with pytest.raises(LockError, match="cannot start from"):
        cache.insert([1], [0], start=match)
    cache.lock(match)
    cache.lock(match)
    cache.insert([1], [0], start=match)
    with pytest.raises(LockError, match="cannot reset: 2 locks are held"):
        cache.reset()
    cache.unlock(match)
    cache.unlock(match)
    assert not cache._held, "what is unlocked is forgotten, or a server would remember every request"
    cache.reset()
    gone = r"cannot lock the handle of length 0: another cache made it, or reset\(\) came after"
    with pytest.raises(LockError, match=gone):
        cache.lock(match)
    cache.check()


def test_bad_input_is_bad_input_here_too():
    cache = NoCache()
    for verb in (cache.lock, cache.unlock, lambda thing: cache.insert([1], [0], start=thing)):
        with pytest.raises(TypeError, match="a list: expected the handle of a match or an insertion"):
            verb([5])
    with pytest.raises(ValueError, match=r"tokens\[0\] is -1"):
        cache.match_prefix([-1])
    with pytest.raises(ValueError, match="1 pages for 2 tokens: expected one page for each token"):
        cache.insert([1, 2], [0])
    with pytest.raises(ValueError, match="limit is -1"):
        cache.match_prefix([1], limit=-1)
    nameless = type("Nameless", (), {"__hash__": lambda self: int("no")})()
    for namespace in ([], nameless):
        with pytest.raises(TypeError, match="a namespace must be hashable"):
            cache.match_prefix([1], namespace=namespace)
    with pytest.raises(ValueError, match="page_size is 0"):
        NoCache(0)


@pytest.mark.parametrize(("field", "value"), [("locks", 0), ("length", 3)])
def test_its_audit_finds_a_handle_that_cannot_be(field, value):
    cache = NoCache()
    match = cache.acquire([1])
    cache.check()
    if field == "locks":
        cache._held[match] = value
    else:
        match.length = value
    with pytest.raises(InvariantError, match=r"^NoCache: the handle of length . is kept as holding . locks$"):
        cache.check()
