"""The thirteen rules of `PrefixCache`, written once and run over every index that claims them."""

from __future__ import annotations

from array import array
from collections import deque
from copy import copy

import numpy as np
import pytest
from indexes import every_index, every_shipped_index

from minikv import LockError, RadixCache, pack


def cached(cache, tokens, namespace=None):
    return cache.match_prefix(tokens, namespace=namespace).slots.tolist()


def evicted(cache, num_tokens):
    return sorted(cache.evict(num_tokens).tolist())


def sizes(cache):
    return cache.evictable_size, cache.protected_size, cache.total_size


# -- rule 1: what tokens and slots are ------------------------------------------------------------------------------

SAME_TOKENS = {
    "list": [1, 2, 3],
    "tuple": (1, 2, 3),
    "range": range(1, 4),
    "array": array("q", [1, 2, 3]),
    "numpy int64": np.array([1, 2, 3]),
    "numpy uint8": np.array([1, 2, 3], np.uint8),
    "numpy, not contiguous": np.arange(1, 7)[::2] // 2 + 1,
    "bytes": b"\1\2\3",
    "packed": pack([1, 2, 3]),
}
BAD_TOKENS = {
    "negative": ([1, -1], ValueError, r"tokens\[1\] is -1"),
    "too large": ([2**32], ValueError, r"tokens\[0\] is 4294967296"),
    "float": ([1, 2, 3.5], TypeError, r"tokens\[2\] is 3.5"),
    "string in a list": ([1, "2"], TypeError, r"tokens\[1\] is '2'"),
    "None in a list": ([None], TypeError, r"tokens\[0\] is None"),
    "a string": ("hello", TypeError, "'hello'"),
    "a set": ({1, 2}, TypeError, "set"),
    "a number": (5, TypeError, "int"),
    "None": (None, TypeError, "NoneType"),
    "nested": ([[1, 2]], TypeError, r"tokens\[0\] is \[1, 2\]"),
    "a matrix": (np.zeros((2, 2), int), ValueError, r"shape \(2, 2\)"),
    "numpy floats": (np.array([0.5]), TypeError, r"tokens\[0\] is 0.5"),
    "numpy negative": (np.array([4, -7]), ValueError, r"tokens\[1\] is -7"),
    "numpy too large": (np.array([2**40]), ValueError, r"tokens\[0\] is 1099511627776"),
    "numpy booleans": (np.array([True]), TypeError, r"tokens\[0\] is True"),
}
BAD_SLOTS = {
    "too few": ([1], ValueError, "1 slots for 3 tokens"),
    "too many": ([1, 2, 3, 4], ValueError, "4 slots for 3 tokens"),
    "negative": ([1, 2, -3], ValueError, r"slots\[2\] is -3"),
    "too large": ([1, 2**31, 3], ValueError, r"slots\[1\] is 2147483648"),
    "float": ([1, 2.0, 3], TypeError, r"slots\[1\] is 2.0"),
    "None": (None, (TypeError, ValueError), "NoneType"),
    "a string": ("abc", TypeError, "str"),
    "numpy floats": (np.ones(3), TypeError, r"slots\[0\] is 1.0"),
    "a column": (np.ones((3, 1), int), ValueError, r"shape \(3, 1\)"),
    "int32, negative": (np.array([1, 2, -3], np.int32), ValueError, r"slots\[2\] is -3"),
    "array, negative": (array("i", [1, -2, 3]), ValueError, r"slots\[1\] is -2"),
    "memory, negative": (memoryview(array("i", [-1, 2, 3])), ValueError, r"slots\[0\] is -1"),
    "int32, too few": (np.ones(2, np.int32), ValueError, "2 slots for 3 tokens"),
    "int32, a column": (np.ones((3, 1), np.int32), ValueError, r"shape \(3, 1\)"),
    "float32": (np.ones(3, np.float32), TypeError, r"slots\[0\] is 1.0"),
    "float32 memory": (memoryview(array("f", [1, 2, 3])), TypeError, r"slots\[0\] is 1.0"),
    "uint32, too large": (np.array([1, 2**31, 3], np.uint32), ValueError, r"slots\[1\] is 2147483648"),
    "dates": (np.array([1, 2, 3], "datetime64[s]"), TypeError, "slots"),
}


@every_index
@pytest.mark.parametrize("tokens", SAME_TOKENS.values(), ids=SAME_TOKENS)
def test_rule_1_any_sequence_of_integers_is_the_same_key(make, tokens):
    cache = make()
    assert cache.insert(tokens, [7, 8, 9]).length == 3
    assert cached(cache, [1, 2, 3]) == cached(cache, tokens) == [7, 8, 9]


@every_index
def test_rule_1_a_torch_tensor_is_a_key_and_slots_become_one_without_copying(make):
    torch = pytest.importorskip("torch")
    cache = make()
    cache.insert(torch.tensor([1, 2, 3]), torch.tensor([7, 8, 9], dtype=torch.int32))
    match = cache.match_prefix(torch.tensor([1, 2, 3, 4], dtype=torch.int32))
    assert match.slots.dtype == np.int32
    assert torch.as_tensor(match.slots).data_ptr() == match.slots.__array_interface__["data"][0]
    with pytest.raises(TypeError, match=r"tokens\[0\] is 0.5"):
        cache.match_prefix(torch.tensor([0.5]))


@every_index
@pytest.mark.parametrize(("tokens", "error", "names"), BAD_TOKENS.values(), ids=BAD_TOKENS)
def test_rule_1_bad_tokens_are_named_and_change_nothing(make, tokens, error, names):
    cache = make()
    cache.insert([1, 2], [0, 1])
    before = sizes(cache)
    with pytest.raises(error, match=names):
        cache.match_prefix(tokens)
    with pytest.raises(error, match=names):
        cache.insert(tokens, [0, 1])
    assert sizes(cache) == before
    cache.check()


@every_index
@pytest.mark.parametrize(("slots", "error", "names"), BAD_SLOTS.values(), ids=BAD_SLOTS)
def test_rule_1_bad_slots_are_named_and_change_nothing(make, slots, error, names):
    cache = make()
    cache.insert([1, 2], [0, 1])
    before = sizes(cache)
    with pytest.raises(error, match=names):
        cache.insert([1, 5, 6], slots)
    assert sizes(cache) == before
    assert cache.match_prefix([1, 5]).length == 1
    cache.check()


@every_index
def test_rule_1_one_bad_slot_of_many_is_found(make):
    cache = make()
    slots = np.arange(5000, dtype=np.int32)
    slots[4321] = -7
    with pytest.raises(ValueError, match=r"slots\[4321\] is -7"):
        cache.insert(range(5000), slots)
    assert cache.total_size == 0


@every_index
@pytest.mark.parametrize(
    "form", [list, tuple, lambda s: np.array(s, np.int32), lambda s: np.array(s), lambda s: array("i", s)]
)
def test_rule_4_slots_before_the_start_are_not_looked_at(make, form):
    cache = make()
    cache.insert([1, 2], [5, 6])
    handle = cache.match_prefix([1, 2]).handle
    cache.lock(handle)
    with pytest.raises(ValueError, match=r"slots\[3\] is -7"):
        cache.insert([1, 2, 3, 4], form([-1, -1, 7, -7]), start=handle)
    cache.insert([1, 2, 3], form([-1, -1, 7]), start=handle)
    assert cached(cache, [1, 2, 3]) == [5, 6, 7]


@every_index
def test_rule_4_a_start_from_an_insertion_or_from_deep_down_is_checked_to_the_root(make):
    cache = make()
    cache.insert([1, 2], [0, 1])
    deep = cache.insert([1, 2, 3, 4], [0, 1, 2, 3]).handle
    cache.lock(deep)
    for wrong in ([9, 2, 3, 4, 5], [1, 9, 3, 4, 5], [1, 2, 3, 9, 5], [1, 2, 3]):
        with pytest.raises(ValueError, match="start"):
            cache.insert(wrong, range(len(wrong)), start=deep)
    cache.insert([1, 2, 3, 4, 5], range(5), start=deep)
    assert cached(cache, [1, 2, 3, 4, 5]) == [0, 1, 2, 3, 4]


@every_index
def test_rule_4_a_start_of_no_length_disturbs_nobody(make):
    cache = make()
    empty = cache.match_prefix([1, 2], namespace="lora").handle
    cache.lock(empty)
    cache.insert([5], [5], namespace="lora")
    cache.insert([1, 2], [1, 2], namespace="lora", start=empty)
    assert cached(cache, [5], namespace="lora") == [5]
    assert cached(cache, [1, 2], namespace="lora") == [1, 2]
    cache.check()


@every_index
def test_rule_1_no_tokens_match_and_insert_nothing(make):
    cache = make()
    assert cache.match_prefix([]).length == 0
    assert (cache.insert([], []).prefix_length, cache.insert([], []).length, cache.total_size) == (0, 0, 0)
    assert len(cache.evict(10)) == 0


# -- rules 2 to 5: keys, matching, inserting, splitting -------------------------------------------------------------


@every_index
@pytest.mark.parametrize("buffer", [array("I", [1, 2, 3]), np.array([1, 2, 3], np.uint32), [1, 2, 3]], ids=str)
def test_rule_2_changing_the_callers_buffers_later_changes_nothing(make, buffer):
    """N7: the notebook keeps a view of the caller's tensor, and reusing that buffer makes a false hit."""
    cache, buffer, slots = make(), copy(buffer), np.array([7, 8, 9], np.int32)
    cache.insert(buffer, slots)
    buffer[0], slots[0] = 9, 99
    assert cached(cache, [1, 2, 3]) == [7, 8, 9]
    assert cache.match_prefix([9, 2, 3]).length == 0
    cache.match_prefix([1, 2, 3]).slots[0] = 55
    assert cached(cache, [1, 2, 3]) == [7, 8, 9]


@every_index
def test_rule_3_match_gives_the_longest_cached_prefix_and_changes_no_size(make):
    cache = make()
    cache.insert([1, 2, 3, 4], [10, 11, 12, 13])
    for query, slots in {(1, 2, 3, 4, 5): [10, 11, 12, 13], (1, 2, 9): [10, 11], (2,): [], (1,): [10]}.items():
        assert cached(cache, query) == slots
        assert sizes(cache) == (4, 0, 4)
        cache.check()


@every_index
def test_rule_3_any_key_can_be_walked(make):
    """N1: the notebook's walk reads one global request; any other key raises or reads past the end."""
    cache = make()
    cache.insert([1, 3, 6, 7, 9, 77], range(6))
    assert cached(cache, [5, 5]) == []
    assert cached(cache, [1, 3, 6, 7, 9, 77]) == list(range(6))
    assert cached(cache, [1, 3, 6, 7, 87, 66, 5, 4]) == [0, 1, 2, 3]


@every_index
def test_rule_3_an_empty_match_can_be_locked_for_free(make):
    cache = make()
    cache.insert([1], [0])
    handle = cache.match_prefix([2]).handle
    cache.lock(handle)
    assert sizes(cache) == (1, 0, 1)
    assert cache.evict(1).tolist() == [0]
    cache.unlock(handle)
    cache.check()


@every_index
def test_rule_4_tokens_already_there_keep_their_slots(make):
    cache = make()
    first = cache.insert([1, 2, 3], [0, 1, 2])
    second = cache.insert([1, 2, 4, 5], [6, 7, 8, 9])
    again = cache.insert([1, 2, 3], [3, 4, 5])
    assert [(i.prefix_length, i.length) for i in (first, second, again)] == [(0, 3), (2, 4), (3, 3)]
    assert cached(cache, [1, 2, 4, 5]) == [0, 1, 8, 9]
    assert cached(cache, [1, 2, 3]) == [0, 1, 2]
    assert cache.total_size == 5


@every_index
def test_rule_4_only_whole_pages_are_stored_and_matched(make):
    """With pages of 4, three tokens store nothing, six store four, and [1,2,3,9] shares nothing with [1,2,3,4]."""
    cache = make(4)
    assert cache.insert([1, 2, 3], [0, 1, 2]).length == 0
    assert cache.insert([1, 2, 3, 4, 5, 6], range(6)).length == 4
    assert cache.match_prefix([1, 2, 3, 4, 5, 6]).length == 4
    assert cache.insert([1, 2, 3, 9, 5, 6, 7, 8], range(8, 16)).prefix_length == 0
    assert cache.total_size == 12
    cache.check()


@every_index
def test_rule_4_start_continues_from_a_locked_handle_with_the_same_result(make):
    with_start, without = make(2), make(2)
    for cache in (with_start, without):
        cache.insert([1, 2, 3, 4], [0, 1, 2, 3])
    handle = with_start.match_prefix([1, 2, 9, 9]).handle
    without.match_prefix([1, 2, 9, 9])
    with_start.lock(handle)
    tokens, slots = [1, 2, 5, 6, 7, 8, 9], [0, 1, 4, 5, 6, 7, 8]
    results = [with_start.insert(tokens, slots, start=handle), without.insert(tokens, slots)]
    assert {(i.prefix_length, i.length) for i in results} == {(2, 6)}
    with_start.unlock(handle)
    assert cached(with_start, tokens) == cached(without, tokens) == [0, 1, 4, 5, 6, 7]
    assert sizes(with_start) == sizes(without)


@every_index
def test_rule_4_a_wrong_start_is_refused_and_changes_nothing(make):
    cache = make()
    cache.insert([1, 2, 3], [0, 1, 2])
    handle = cache.match_prefix([1, 2, 3]).handle
    with pytest.raises(LockError):
        cache.insert([1, 2, 3, 4], range(4), start=handle)
    cache.lock(handle)
    for tokens, namespace in (([1, 9, 3, 4], None), ([1, 2], None), ([1, 2, 3, 4], "lora")):
        with pytest.raises(ValueError, match="start is"):
            cache.insert(tokens, range(len(tokens)), start=handle, namespace=namespace)
    assert sizes(cache) == (0, 3, 3)
    cache.unlock(handle)
    cache.check()


@every_index
def test_rule_5_a_split_changes_no_size_no_lock_and_nobodys_handle(make):
    cache = make()
    handle = cache.insert([1, 2, 3, 4, 5, 6], range(6)).handle
    cache.lock(handle)
    cache.match_prefix([1, 2])
    cache.insert([1, 2, 3, 9], [0, 1, 2, 7])
    assert sizes(cache) == (1, 6, 7)
    cache.check()
    assert cache.evict(100).tolist() == [7]
    cache.unlock(handle)
    assert sizes(cache) == (6, 0, 6)
    cache.check()


# -- rules 6 and 7: locks and sizes ---------------------------------------------------------------------------------


@every_index
def test_rule_6_a_lock_protects_the_whole_path(make):
    """A4b: AstrAI pins the last node only, so an ancestor of a pinned prefix can be evicted under it."""
    cache = make()
    cache.insert([1, 2], [0, 1])
    deep = cache.insert([1, 2, 3, 4], [0, 1, 2, 3]).handle
    cache.insert([1, 2, 8], [0, 1, 8])
    cache.lock(deep)
    assert sizes(cache) == (1, 4, 5)
    assert cache.evict(100).tolist() == [8]
    assert cached(cache, [1, 2, 3, 4]) == [0, 1, 2, 3]
    cache.check()


@every_index
def test_rule_6_locks_nest_and_each_handle_gives_back_its_own(make):
    cache = make()
    cache.insert([1, 2], [0, 1])
    one, other = cache.match_prefix([1, 2]).handle, cache.match_prefix([1]).handle
    for handle in (one, one, other):
        cache.lock(handle)
    cache.unlock(one)
    assert sizes(cache) == (0, 2, 2)
    cache.unlock(one)
    assert sizes(cache) == (1, 1, 2)
    with pytest.raises(LockError):
        cache.unlock(one)
    assert sizes(cache) == (1, 1, 2)
    cache.unlock(other)
    cache.check()
    assert sizes(cache) == (2, 0, 2)


@every_index
def test_rule_6_what_is_not_locked_here_cannot_be_unlocked(make):
    """SGLang's and pymllm's plain trees count to -1 in silence, and the next lock then protects nothing."""
    cache, stranger = make(), make()
    handle = cache.insert([1], [0]).handle
    theirs = stranger.insert([1], [0]).handle
    stranger.lock(theirs)
    for wrong in (handle, theirs):
        with pytest.raises(LockError):
            cache.unlock(wrong)
    with pytest.raises(LockError):
        cache.lock(theirs)
    assert sizes(cache) == (1, 0, 1)
    cache.check()


@every_shipped_index
def test_rule_6_only_handles_can_be_locked(make):
    cache = make()
    for wrong in (None, 1, [1]):
        for verb in (cache.lock, cache.unlock, lambda start: cache.insert([1], [1], start=start or 0)):
            with pytest.raises(TypeError, match="expected the handle"):
                verb(wrong)


@every_index
def test_rule_6_acquire_is_a_match_and_a_lock(make):
    one, two = make(page_size=2), make(page_size=2)
    for cache in (one, two):
        cache.insert([1, 2, 3, 4], [6, 7, 8, 9])
    match = one.acquire([1, 2, 9])
    other = two.match_prefix([1, 2, 9])
    two.lock(other.handle)
    assert (match.length, match.slots.tolist(), sizes(one)) == (other.length, other.slots.tolist(), sizes(two))
    assert one.evict(4).tolist() == two.evict(4).tolist() == [8, 9]
    one.unlock(match.handle)
    two.unlock(other.handle)
    assert sizes(one) == sizes(two) == (2, 0, 2)
    with pytest.raises(LockError):
        one.unlock(match.handle)
    one.check()


@every_index
def test_rule_6_what_acquire_refuses_changes_nothing(make):
    cache = make()
    cache.insert([1, 2], [3, 4])
    for tokens, namespace in (([-1], None), ("ab", None), ([1], [])):
        with pytest.raises((ValueError, TypeError)):
            cache.acquire(tokens, namespace=namespace)
    assert sizes(cache) == (2, 0, 2)


@every_index
def test_rule_6_an_empty_match_is_acquired_for_free(make):
    cache = make()
    match = cache.acquire([1, 2])
    assert (match.length, sizes(cache)) == (0, (0, 0, 0))
    cache.unlock(match.handle)


@every_index
def test_a_match_is_written_to_a_row_that_has_room_for_it(make):
    cache, row = make(), memoryview(array("i", [0] * 4))
    cache.insert([1, 2, 3], [7, 8, 9])
    cache.match_prefix([1, 2, 3]).copy_to(row[1:])
    assert row.tolist() == [0, 7, 8, 9]
    with pytest.raises(ValueError, match="room for 2 slots: the match has 3"):
        cache.match_prefix([1, 2, 3]).copy_to(row[:2])
    assert row.tolist() == [0, 7, 8, 9]


@every_index
def test_rule_6_a_handle_goes_stale_when_its_end_is_evicted(make):
    cache = make()
    handle = cache.insert([1, 2, 3], [0, 1, 2]).handle
    cache.evict(1)
    cache.insert([1, 2, 3], [3, 4, 5])
    with pytest.raises(LockError):
        cache.lock(handle)
    assert sizes(cache) == (3, 0, 3)


@every_index
def test_rule_7_extending_a_cached_leaf_counts_every_token_once(make):
    """P1: pymllm's sizes drift here: [1..4], then [1..6], and it reports 2 evictable tokens instead of 6."""
    cache = make()
    cache.insert([1, 2, 3, 4], range(4))
    cache.insert([1, 2, 3, 4, 5, 6], range(6))
    assert sizes(cache) == (6, 0, 6)
    assert evicted(cache, 2) == [4, 5]
    assert sizes(cache) == (4, 0, 4)


# -- rules 8 and 9: recency and eviction ----------------------------------------------------------------------------


@every_index
def test_rule_8_what_was_matched_in_the_middle_of_a_node_is_not_evicted_first(make):
    """N5 and M2: on a split, the notebook and mini-sglang forget to refresh the prefix that was just used."""
    cache = make()
    cache.insert([1, 2, 3, 4], [0, 1, 2, 3])
    cache.insert([7, 8], [6, 7])
    cache.match_prefix([1, 2])
    assert evicted(cache, 2) == [2, 3], "the unmatched rest keeps its age and goes first"
    assert evicted(cache, 2) == [6, 7]
    assert cached(cache, [1, 2]) == [0, 1]


@every_index
def test_rule_8_unlocking_is_a_use(make):
    cache = make()
    held = cache.insert([1], [1]).handle
    cache.lock(held)
    cache.insert([2], [2])
    cache.insert([3], [3])
    cache.unlock(held)
    assert [cache.evict(1).tolist() for _ in range(4)] == [[2], [3], [1], []]


@every_index
def test_rule_9_leaves_go_before_their_parents_however_old(make):
    """A1: AstrAI's oldest entry is always the parent; evicting it loses the children, and find() raises KeyError."""
    cache = make()
    cache.insert([1, 2], [0, 1])
    cache.insert([1, 2, 3], [0, 1, 2])
    cache.insert([1, 2, 4], [0, 1, 4])
    assert [cache.evict(1).tolist() for _ in range(2)] == [[2], [4]]
    assert cached(cache, [1, 2, 3]) == [0, 1]
    cache.check()


@every_index
def test_rule_9_evict_frees_enough_or_all_that_is_free_to_go(make):
    cache = make()
    cache.insert([1], [0])
    assert cache.evict(0).tolist() == []
    assert cache.evict(10).tolist() == [0]
    assert cache.evict(10).tolist() == []
    handle = cache.insert([1, 2], [0, 1]).handle
    cache.lock(handle)
    assert cache.evict(1).tolist() == []  # A4: AstrAI spins forever when everything is pinned
    cache.check()


@every_shipped_index
@pytest.mark.parametrize(("wrong", "error"), [(-1, ValueError), (1.5, TypeError), ("1", TypeError), (None, TypeError)])
def test_rule_9_evict_wants_a_whole_number(make, wrong, error):
    cache = make()
    cache.insert([1], [0])
    with pytest.raises(error, match=f"num_tokens is {wrong!r}"):
        cache.evict(wrong)
    assert cache.total_size == 1


def test_rule_9_by_node_evicts_the_whole_leaf():
    cache = RadixCache()
    cache.insert(range(8), range(8))
    assert cache.evict(1).tolist() == list(range(8))


def test_rule_9_by_page_never_evicts_a_page_too_many():
    cache = RadixCache(page_size=2, evict_by="page")
    cache.insert(range(8), range(8))
    assert cache.evict(1).tolist() == [6, 7]
    assert cache.evict(3).tolist() == [2, 3, 4, 5]
    assert cached(cache, range(8)) == [0, 1]
    cache.check()


# -- rules 10 to 13: namespaces, reset, check, determinism ----------------------------------------------------------


@every_index
def test_rule_10_namespaces_never_share(make):
    cache = make()
    for i, namespace in enumerate([None, "A", ("lora", "A"), 7]):
        assert cache.insert([1, 2], [2 * i, 2 * i + 1], namespace=namespace).prefix_length == 0
    assert cached(cache, [1, 2], "A") == [2, 3]
    assert cached(cache, [1, 2]) == [0, 1]
    assert cached(cache, [1, 2], "B") == []
    assert cache.total_size == 8
    assert [evicted(cache, 2) for _ in range(4)] == [[4, 5], [6, 7], [2, 3], [0, 1]]
    assert cache.insert([1, 2], [9, 9], namespace="A").prefix_length == 0
    cache.check()


@every_index
def test_rule_10_a_namespace_must_be_hashable(make):
    cache = make()
    with pytest.raises(TypeError):
        cache.insert([1], [0], namespace=["lora"])
    assert cache.total_size == 0


@every_index
def test_rule_11_reset_forgets_everything_or_refuses(make):
    """P9b: pymllm resets under a live lock, and the unlock that follows dies of an AttributeError."""
    cache = make()
    handle = cache.insert([1, 2], [0, 1]).handle
    cache.lock(handle)
    with pytest.raises(LockError):
        cache.reset()
    assert cached(cache, [1, 2]) == [0, 1]
    cache.unlock(handle)
    cache.reset()
    assert sizes(cache) == (0, 0, 0)
    assert cached(cache, [1, 2]) == []
    for verb in (cache.lock, cache.unlock):
        with pytest.raises(LockError):
            verb(handle)
    cache.check()


@every_shipped_index
def test_rule_13_the_same_operations_give_the_same_cache(make):
    def run(cache):
        seen = []
        for i in range(60):
            tokens = [(i * k) % 5 for k in range(1, i % 7 + 2)]
            seen.append(repr(cache.insert(tokens, range(len(tokens)), namespace=i % 2)))
            seen.append(repr(cache.match_prefix(tokens[::-1], namespace=i % 3)))
            if i % 10 == 9:
                seen.append(cache.evict(3).tolist())
        return seen, [repr(node) for node in cache.nodes()], repr(cache)

    cache = make()
    first = run(cache)
    cache.evict(10**6)
    cache.reset()
    assert run(cache) == first == run(make())


@every_index
def test_rule_1_slots_may_be_any_sequence_and_errors_name_the_first_bad_one_with_start_too(make):
    cache = make()
    cache.insert([1, 2], deque([5, 6]))
    handle = cache.match_prefix([1, 2]).handle
    cache.lock(handle)
    for slots, names in (
        ([5, 6, -7], r"slots\[2\] is -7"),
        ({5, 6, 7}, "slots are a set"),
        ({5: 5, 6: 6, 7: 7}, "a dict"),
    ):
        with pytest.raises((TypeError, ValueError), match=names):
            cache.insert([1, 2, 3], slots, start=handle)
    cache.insert([1, 2, 3], pack([0, 0, 7]), start=handle)
    assert cached(cache, [1, 2, 3]) == [5, 6, 7]
    cache.unlock(handle)


@every_index
def test_rule_1_an_object_array_is_looked_at_item_by_item(make):
    cache = make()
    cache.insert(np.array([1, 2], object), np.array([5, 6], object))
    assert cached(cache, [1, 2]) == [5, 6]
    with pytest.raises(TypeError, match=r"tokens\[1\] is 2.5"):
        cache.match_prefix(np.array([1, 2.5], object))
