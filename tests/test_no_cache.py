"""The null cache: its locks, and its audit. That it keeps nothing and refuses what the contract says, the kit shows."""

import pytest

from minikv import InvariantError, LockError, NoCache


def test_locks_are_counted_all_the_same():
    cache = NoCache()
    match = cache.match_prefix([1])
    with pytest.raises(LockError, match="cannot unlock the handle of length 0"):
        cache.unlock(match)
    with pytest.raises(LockError, match="cannot start from"):
        cache.insert([1], [0], start=match)
    cache.lock(match)
    cache.lock(match)
    assert (cache.insert([1], [0], start=match).prefix_length, match.slots.tolist()) == (0, [])
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
