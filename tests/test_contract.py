"""The fifteen rules of `PrefixCache` over every index of this package, and what our indexes promise besides.

What the contract asks of anybody's index stands in `minikv.testing.conformance`, as scenarios; here they run over ours.
The other tests are stricter: the words of our errors, our types, our nodes, and namespaces of any kind.
"""

from __future__ import annotations

from array import array
from collections import deque

import numpy as np
import pytest
from indexes import SUBJECTS, every_index, every_shipped_index

from minikv import InvariantError, LockError, RadixCache, pack
from minikv.testing.conformance.examine import examine_class

pytestmark = pytest.mark.core


def cached(cache, tokens, namespace=None):
    return cache.match_prefix(tokens, namespace=namespace).pages.tolist()


def evicted(cache, num_tokens):
    return sorted(cache.evict(num_tokens).tolist())


def sizes(cache):
    return cache.evictable_size, cache.protected_size, cache.total_size


# -- the contract, as it is for anybody's index ----------------------------------------------------------------------


@pytest.mark.parametrize("name", SUBJECTS)
def test_every_index_keeps_every_rule_that_it_claims(name):
    broken = examine_class(SUBJECTS[name], examples=0).broken
    assert not {rule: found.script for rule, found in broken.items()}


@every_index
def test_an_index_that_lists_its_nodes_gives_a_list_of_the_callers_own(make):
    """The optional part: parents before children, each page once, and no iterator that can be read only once."""
    cache = make(2)
    if not hasattr(cache, "nodes"):
        assert type(cache).__name__ == "NaiveCache"
        return
    for number, prompt in enumerate(([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 7, 8], [9, 9])):
        cache.insert(prompt, range(10 * number, 10 * number + len(prompt) // 2))
    nodes = cache.nodes()
    assert type(nodes) is list
    place = {id(node): at for at, node in enumerate(nodes)}
    assert all(place.get(id(node.parent), -1) < place[id(node)] for node in nodes)
    pages = [page for node in nodes for page in getattr(node, "pages", node.slots)]
    assert sorted(pages) == [0, 1, 2, 12, 20]
    nodes.clear()
    assert len(cache.nodes()) == len(place)


# -- rule 1: what tokens and pages are ------------------------------------------------------------------------------

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
BAD_PAGES = {
    "too few": ([1], ValueError, "1 pages for 3 tokens"),
    "too many": ([1, 2, 3, 4], ValueError, "4 pages for 3 tokens"),
    "negative": ([1, 2, -3], ValueError, r"pages\[2\] is -3"),
    "too large": ([1, 2**31, 3], ValueError, r"pages\[1\] is 2147483648"),
    "float": ([1, 2.0, 3], TypeError, r"pages\[1\] is 2.0"),
    "None": (None, (TypeError, ValueError), "NoneType"),
    "a string": ("abc", TypeError, "str"),
    "numpy floats": (np.ones(3), TypeError, r"pages\[0\] is 1.0"),
    "a column": (np.ones((3, 1), int), ValueError, r"shape \(3, 1\)"),
    "int32, negative": (np.array([1, 2, -3], np.int32), ValueError, r"pages\[2\] is -3"),
    "array, negative": (array("i", [1, -2, 3]), ValueError, r"pages\[1\] is -2"),
    "memory, negative": (memoryview(array("i", [-1, 2, 3])), ValueError, r"pages\[0\] is -1"),
    "int32, too few": (np.ones(2, np.int32), ValueError, "2 pages for 3 tokens"),
    "int32, a column": (np.ones((3, 1), np.int32), ValueError, r"shape \(3, 1\)"),
    "float32": (np.ones(3, np.float32), TypeError, r"pages\[0\] is 1.0"),
    "float32 memory": (memoryview(array("f", [1, 2, 3])), TypeError, r"pages\[0\] is 1.0"),
    "uint32, too large": (np.array([1, 2**31, 3], np.uint32), ValueError, r"pages\[1\] is 2147483648"),
    "dates": (np.array([1, 2, 3], "datetime64[s]"), TypeError, "pages"),
}


@every_index
def test_rule_1_a_torch_tensor_is_a_key_and_pages_become_one_without_copying(make):
    torch = pytest.importorskip("torch")
    cache = make()
    cache.insert(torch.tensor([1, 2, 3]), torch.tensor([7, 8, 9], dtype=torch.int32))
    match = cache.match_prefix(torch.tensor([1, 2, 3, 4], dtype=torch.int32))
    pages = match.pages
    assert pages.dtype == np.int32
    assert torch.as_tensor(pages).data_ptr() == pages.__array_interface__["data"][0]
    with pytest.raises(TypeError, match=r"tokens\[0\] is 0.5"):
        cache.match_prefix(torch.tensor([0.5]))


@every_index
def test_rule_1_bad_tokens_are_named_and_change_nothing(make):
    for tokens, error, names in BAD_TOKENS.values():
        cache = make()
        cache.insert([1, 2], [0, 1])
        before = sizes(cache)
        with pytest.raises(error, match=names):
            cache.match_prefix(tokens)
        with pytest.raises(error, match=names):
            cache.insert(tokens, [0, 1])
        assert sizes(cache) == before, tokens
        cache.check()


@every_index
def test_rule_1_bad_pages_are_named_and_change_nothing(make):
    for pages, error, names in BAD_PAGES.values():
        cache = make()
        cache.insert([1, 2], [0, 1])
        before = sizes(cache)
        with pytest.raises(error, match=names):
            cache.insert([1, 5, 6], pages)
        assert sizes(cache) == before, pages
        assert cache.match_prefix([1, 5]).length == 1, pages
        cache.check()


@every_index
def test_rule_1_a_tensor_without_values_is_refused(make):
    torch = pytest.importorskip("torch")
    cache = make()
    for dtype in (torch.int64, torch.float32):
        empty = torch.empty(3, dtype=dtype, device="meta")
        with pytest.raises(ValueError, match="tokens are a tensor on meta, which has no values"):
            cache.match_prefix(empty)
        with pytest.raises(ValueError, match="pages are a tensor on meta, which has no values"):
            cache.insert([1, 2, 3], empty)
    assert cache.total_size == 0


@every_index
def test_rule_1_one_bad_page_of_many_is_found(make):
    cache = make()
    pages = np.arange(5000, dtype=np.int32)
    pages[4321] = -7
    with pytest.raises(ValueError, match=r"pages\[4321\] is -7"):
        cache.insert(range(5000), pages)
    assert cache.total_size == 0


@every_index
@pytest.mark.parametrize(
    "form", [list, tuple, lambda s: np.array(s, np.int32), lambda s: np.array(s), lambda s: array("i", s), deque]
)
def test_rule_4_pages_before_the_start_are_not_looked_at(make, form):
    cache = make()
    cache.insert([1, 2], [5, 6])
    handle = cache.match_prefix([1, 2]).handle
    cache.lock(handle)
    with pytest.raises(ValueError, match=r"pages\[3\] is -7"):
        cache.insert([1, 2, 3, 4], form([-1, -1, 7, -7]), start=handle)
    cache.insert([1, 2, 3], form([-1, -1, 7]), start=handle)
    assert cached(cache, [1, 2, 3]) == [5, 6, 7]
    if form in (list, tuple, deque):
        cache.insert([1, 2, 3, 4], form([None, "nothing", 2**70, 8]), start=cache.acquire([1, 2, 3]))
        assert cached(cache, [1, 2, 3, 4]) == [5, 6, 7, 8]


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
def test_rule_4_a_start_in_another_namespace_is_refused_however_its_prompt_was_packed(make):
    cache, prompt = make(), pack([1, 2])
    cache.insert(prompt, [0, 1], namespace="a")
    handle = cache.acquire(prompt, namespace="a")
    with pytest.raises(ValueError, match="start is"):
        cache.insert(prompt + pack([3]), [0, 1, 2], namespace="b", start=handle)
    assert cache.total_size == 2


# -- rules 3 and 4: matching and inserting -------------------------------------------------------------


@every_shipped_index
@pytest.mark.parametrize(("limit", "error"), [(-1, ValueError), (2.0, TypeError), ("2", TypeError), (True, TypeError)])
def test_rule_3_a_wrong_limit_is_named_and_changes_nothing(make, limit, error):
    cache = make()
    cache.insert([1, 2, 3], [0, 1, 2])
    before = [repr(node) for node in cache.nodes()], sizes(cache)
    for verb in (cache.match_prefix, cache.acquire):
        with pytest.raises(error, match=f"limit is {limit!r}"):
            verb([1, 2, 9], limit=limit)
    assert ([repr(node) for node in cache.nodes()], sizes(cache)) == before


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


# -- rule 6: locks ---------------------------------------------------------------------------------


@every_shipped_index
def test_rule_6_only_handles_can_be_locked(make):
    cache = make()
    for wrong in (None, 1, [1]):
        for verb in (cache.lock, cache.unlock, lambda start: cache.insert([1], [1], start=start or 0)):
            with pytest.raises(TypeError, match="expected the handle"):
                verb(wrong)


@every_index
def test_a_match_is_written_to_a_row_that_has_room_for_it(make):
    cache, row = make(), memoryview(array("i", [0] * 4))
    cache.insert([1, 2, 3], [7, 8, 9])
    cache.match_prefix([1, 2, 3]).copy_to(row[1:])
    assert row.tolist() == [0, 7, 8, 9]
    with pytest.raises(ValueError, match="room for 2 pages: the match has 3"):
        cache.match_prefix([1, 2, 3]).copy_to(row[:2])
    with pytest.raises(TypeError, match="the row is a memoryview of 'q': a row holds int32, 'i'"):
        cache.match_prefix([1, 2, 3]).copy_to(memoryview(array("q", [0] * 4)))
    assert row.tolist() == [0, 7, 8, 9]


# -- rule 9: eviction ----------------------------------------------------------------------------


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
    cache.insert(range(8), range(4))
    assert cache.evict(1).tolist() == [3]
    assert cache.evict(3).tolist() == [2, 1], "the end of a leaf goes first"
    assert cached(cache, range(8)) == [0]
    cache.check()


# -- rules 10 to 13: namespaces, reset, check, determinism ----------------------------------------------------------


@every_shipped_index
def test_rule_10_a_namespace_of_nan_is_itself_and_no_other(make):
    """NaN is not equal to itself; as in a dict, the same object is the same name all the same."""
    cache, one, other = make(), float("nan"), float("nan")
    cache.insert([1, 2], [0, 1], namespace=one)
    cache.insert([1, 2], [2, 3], namespace=other)
    assert (cached(cache, [1, 2], one), cached(cache, [1, 2], other), cached(cache, [1, 2])) == ([0, 1], [2, 3], [])
    handle = cache.acquire([1, 2], namespace=one)
    cache.insert([1, 2, 5], [0, 1, 5], namespace=one, start=handle)
    with pytest.raises(ValueError, match="start is in namespace nan"):
        cache.insert([1, 2, 5], [0, 1, 5], namespace=other, start=handle)
    cache.unlock(handle)
    cache.check()
    assert evicted(cache, 10) == [0, 1, 2, 3, 5]
    assert (sizes(cache), list(cache.roots)) == ((0, 0, 0), [None])


def nested(depth):
    """A list in a list in a list: its repr needs a recursion of that depth."""
    found = []
    for _ in range(depth):
        found = [found]
    return found


@every_shipped_index
@pytest.mark.parametrize("wrong", [["x" * 10**6], nested(100_000)], ids=["long", "deep"])
def test_rule_10_the_error_of_a_long_or_deep_namespace_is_short(make, wrong):
    cache = make()
    for verb in (
        cache.match_prefix,
        cache.acquire,
        lambda tokens, namespace: cache.insert(tokens, [1], namespace=namespace),
    ):
        with pytest.raises(TypeError, match="a namespace must be hashable") as caught:
            verb([1], namespace=wrong)
        assert len(str(caught.value)) < 200
    handle = cache.acquire([1], namespace="x" * 10**6)
    with pytest.raises(ValueError, match="start is in namespace") as caught:
        cache.insert([1], [1], start=handle, namespace="y" * 10**6)
    assert len(str(caught.value)) < 200


@every_shipped_index
def test_rule_11_a_reset_that_is_refused_counts_the_locks(make):
    cache = make()
    handle = cache.insert([1, 2], [0, 1]).handle
    for held in ("1 lock is held, protecting 2 tokens", "2 locks are held, protecting 2 tokens"):
        cache.lock(handle)
        with pytest.raises(LockError, match=f"cannot reset: {held}"):
            cache.reset()


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
def test_rule_1_pages_may_be_any_sequence_and_errors_name_the_first_bad_one_with_start_too(make):
    cache = make()
    cache.insert([1, 2], deque([5, 6]))
    handle = cache.match_prefix([1, 2]).handle
    cache.lock(handle)
    for pages, names in (
        ([5, 6, -7], r"pages\[2\] is -7"),
        ({5, 6, 7}, "pages are a set"),
        ({5: 5, 6: 6, 7: 7}, "a dict"),
    ):
        with pytest.raises((TypeError, ValueError), match=names):
            cache.insert([1, 2, 3], pages, start=handle)
    cache.insert([1, 2, 3], pack([0, 0, 7]), start=handle)
    assert cached(cache, [1, 2, 3]) == [5, 6, 7]
    cache.unlock(handle)


@every_index
@pytest.mark.parametrize("bad", [-1, -128, -256, -(2**16), -(2**31)])
@pytest.mark.parametrize("length", [2, 3000])
def test_rule_1_a_negative_page_is_found_in_any_array_and_nothing_has_changed(make, bad, length):
    """Whichever of its four bytes is zero or has its high bit set; long arrays are searched in another way."""
    cache = make()
    for form in (lambda pages: np.array(pages, np.int32), lambda pages: array("i", pages)):
        with pytest.raises(ValueError, match=rf"pages\[{length - 1}\] is {bad}"):
            cache.insert(range(length), form([*range(length - 1), bad]))
    assert sizes(cache) == (0, 0, 0)


@every_index
def test_rule_1_an_object_array_is_looked_at_item_by_item(make):
    cache = make()
    cache.insert(np.array([1, 2], object), np.array([5, 6], object))
    assert cached(cache, [1, 2]) == [5, 6]
    with pytest.raises(TypeError, match=r"tokens\[1\] is 2.5"):
        cache.match_prefix(np.array([1, 2.5], object))


# -- rules 14 and 15: joins and pages -------------------------------------------------------------------------------


def edges(cache):
    """The tokens of every edge, parents before children."""
    return [node.tokens for node in cache.nodes()]


def split_in_two(**settings):
    """A tree whose one prompt, [1, 2, 3, 4] in pages 5 to 8, has been split after [1, 2]; and the handle there."""
    cache = RadixCache(**settings)
    cache.insert([1, 2, 3, 4], [5, 6, 7, 8])
    handle = cache.match_prefix([1, 2]).handle
    assert edges(cache) == [[1, 2], [3, 4]]
    return cache, handle


@pytest.mark.parametrize("evict_by", ["node", "page"])
def test_rule_14_a_match_joins_what_it_walked_through(evict_by):
    cache, _ = split_in_two(evict_by=evict_by)
    assert cached(cache, [1, 2, 3, 4]) == [5, 6, 7, 8]
    assert edges(cache) == [[1, 2, 3, 4]]
    assert sizes(cache) == (4, 0, 4)
    cache.check()
    assert evicted(cache, 1) == ([8] if evict_by == "page" else [5, 6, 7, 8])


def test_rule_14_an_insert_joins_what_it_walked_through():
    cache, _ = split_in_two()
    cache.insert([1, 2, 3, 4, 9], [0, 0, 0, 0, 9])
    assert edges(cache) == [[1, 2, 3, 4], [9]]
    cache.check()
    assert cached(cache, [1, 2, 3, 4, 9]) == [5, 6, 7, 8, 9]
    assert edges(cache) == [[1, 2, 3, 4, 9]]


def test_rule_14_a_chain_of_many_nodes_is_joined_at_once():
    cache, tokens = RadixCache(page_size=2), range(200)
    cache.insert(tokens, range(100))
    for length in range(198, 0, -2):
        cache.match_prefix(tokens[:length])
    assert [len(edge) for edge in edges(cache)] == [2] * 100
    assert cached(cache, tokens) == list(range(100))
    assert [len(edge) for edge in edges(cache)] == [200]
    cache.check()


def test_rule_14_a_node_with_two_children_stays():
    cache, _ = split_in_two()
    cache.insert([1, 2, 9], [0, 0, 9])
    cache.match_prefix([1, 2, 3, 4])
    assert edges(cache) == [[1, 2], [3, 4], [9]]


def test_rule_14_different_locks_keep_nodes_apart_until_they_are_given_back():
    cache, handle = split_in_two()
    cache.lock(handle)
    cache.match_prefix([1, 2, 3, 4])
    assert edges(cache) == [[1, 2], [3, 4]]
    assert (sizes(cache), evicted(cache, 0)) == ((2, 2, 4), [])
    cache.unlock(handle)
    cache.match_prefix([1, 2, 3, 4])
    assert edges(cache) == [[1, 2, 3, 4]]


def test_rule_14_nodes_under_the_same_lock_are_joined_and_stay_locked():
    cache, _ = split_in_two()
    _, lower = cache.nodes()
    match = cache.acquire([1, 2, 3, 4])
    assert edges(cache) == [[1, 2, 3, 4]]
    cache.match_prefix([1, 2])
    cache.match_prefix([1, 2, 3, 4])
    assert (edges(cache), match.node is lower, sizes(cache)) == ([[1, 2, 3, 4]], True, (0, 4, 4))
    cache.check()
    cache.unlock(match)
    assert sizes(cache) == (4, 0, 4)
    cache.check()


APART = {
    "lfu": lambda cache: (cache.insert([1, 2, 3, 4], range(4)), cache.match_prefix([1, 2])),
    "slru": lambda cache: (cache.insert([1, 2, 3, 4], range(4)), cache.match_prefix([1, 2])),
    "fifo": lambda cache: (cache.insert([1, 2], range(2)), cache.insert([1, 2, 3, 4], range(4))),
    "filo": lambda cache: (cache.insert([1, 2], range(2)), cache.insert([1, 2, 3, 4], range(4))),
    "priority": lambda cache: (cache.insert([1, 2], range(2), priority=1), cache.insert([1, 2, 3, 4], range(4))),
}


@pytest.mark.parametrize("policy", APART)
def test_rule_14_nodes_that_differ_in_what_the_policy_reads_stay_apart(policy):
    found = {}
    for name in (policy, "lru"):
        cache = RadixCache(policy=name)
        APART[policy](cache)
        cache.match_prefix([1, 2, 3, 4])
        cache.check()
        found[name] = edges(cache)
    assert found == {policy: [[1, 2], [3, 4]], "lru": [[1, 2, 3, 4]]}


def test_rule_14_nodes_that_have_become_equal_in_it_are_joined():
    by_hits = RadixCache(policy="lfu")
    by_hits.insert([1, 2, 3, 4], range(4))
    match = by_hits.acquire([1, 2])
    by_hits.insert([1, 2, 3, 4], range(4), start=match)  # only [3, 4] counts as used
    by_hits.unlock(match)
    by_birth = RadixCache(policy="fifo")
    by_birth.insert([1, 2, 3, 4], range(4))
    by_birth.match_prefix([1, 2])
    by_priority = RadixCache(policy="priority")
    by_priority.insert([1, 2], range(2), priority=1)
    by_priority.insert([1, 2, 3, 4], range(4), priority=1)
    for cache in (by_hits, by_birth, by_priority):
        assert edges(cache) == [[1, 2], [3, 4]]
        cache.match_prefix([1, 2, 3, 4])
        cache.check()
        assert edges(cache) == [[1, 2, 3, 4]]


def test_rule_14_a_handle_that_ended_where_there_is_no_end_any_more_still_locks():
    cache, handle = split_in_two()
    deep = cache.match_prefix([1, 2, 3, 4]).handle
    cache.lock(handle)
    assert (edges(cache), sizes(cache)) == ([[1, 2], [3, 4]], (2, 2, 4))
    cache.check()
    assert cache.evict(10).tolist() == [7, 8]
    with pytest.raises(LockError, match="its end was evicted"):
        cache.lock(deep)
    cache.unlock(handle)
    assert sizes(cache) == (2, 0, 2)
    cache.check()


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_rule_14_a_handle_finds_its_place_when_the_joined_edge_was_cut_again(cut):
    cache, handle = split_in_two()
    cache.match_prefix([1, 2, 3, 4])
    cache.match_prefix([1, 2, 3, 4][:cut])
    cache.lock(handle)
    assert (handle.node.end, sizes(cache)) == (2, (2, 2, 4))
    cache.check()
    assert evicted(cache, 10) == [7, 8]
    cache.unlock(handle)
    assert cached(cache, [1, 2, 3, 4]) == [5, 6]


@pytest.mark.parametrize("evict_by", ["node", "page"])
@pytest.mark.parametrize("again", [[1, 2, 3, 4], [1, 2, 3, 9]], ids=["the same tokens", "other tokens"])
def test_rule_14_a_handle_stays_stale_whatever_was_cached_and_joined_there_since(again, evict_by):
    cache = RadixCache(evict_by=evict_by)
    upper = cache.insert([1, 2, 3], [1, 2, 3]).handle
    handle = cache.insert([1, 2, 3, 4], [0, 0, 0, 4]).handle
    assert cache.evict(1).tolist() == [4]
    cache.insert(again, [0, 0, 0, 5])
    cache.match_prefix(again)
    assert edges(cache) == [again]
    with pytest.raises(LockError, match="its end was evicted"):
        cache.lock(handle)
    cache.lock(upper)
    assert sizes(cache) == (1, 3, 4)
    cache.check()


def test_rule_14_a_handle_whose_end_was_joined_and_then_trimmed_is_stale():
    cache = RadixCache(evict_by="page")
    tokens = [1, 2, 3, 4, 5]
    cache.insert(tokens, range(5))
    short, long = cache.match_prefix(tokens[:2]).handle, cache.match_prefix(tokens[:3]).handle
    cache.match_prefix(tokens)
    assert cache.evict(3).tolist() == [4, 3, 2]
    cache.insert(tokens, [0, 0, 7, 8, 9])
    cache.match_prefix(tokens)
    assert edges(cache) == [tokens]
    with pytest.raises(LockError, match="its end was evicted"):
        cache.lock(long)
    cache.lock(short)
    assert sizes(cache) == (3, 2, 5)
    cache.check()


@every_index
def test_rule_15_pages_go_in_and_come_back_one_number_each(make):
    cache, row = make(16), memoryview(array("i", [-1] * 3))
    done = cache.insert(range(40), [9, 5])
    assert (done.prefix_length, done.length) == (0, 32)
    match = cache.match_prefix(range(40))
    match.copy_to(row)
    assert (match.length, match.pages.tolist(), row.tolist()) == (32, [9, 5], [9, 5, -1])
    assert match.slots.tolist() == [*range(144, 160), *range(80, 96)]
    assert (match.pages.dtype, match.slots.dtype) == (np.int32, np.int32)
    assert cache.match_prefix(range(31)).pages.tolist() == [9]
    assert cache.insert([*range(16), *range(100, 116)], [1, 2]).prefix_length == 16
    assert cache.total_size == 48
    assert sorted(cache.evict(48).tolist()) == [2, 5, 9]


@every_shipped_index
def test_rule_15_there_is_one_number_a_page(make):
    cache = make(16)
    cache.insert(range(64), [4, 3, 2, 1])
    nodes = list(cache.nodes())
    assert [page for node in nodes for page in node.pages] == [4, 3, 2, 1]
    slots = [slot for node in nodes for slot in node.slots]
    assert slots == [*range(64, 80), *range(48, 64), *range(32, 48), *range(16, 32)]


def test_rule_15_the_radix_tree_keeps_an_edge_in_two_strings_of_bytes():
    cache = RadixCache(16)
    cache.insert(range(64), [4, 3, 2, 1])
    (node,) = cache.nodes()
    assert (len(node.key_bytes), len(node.page_bytes)) == (4 * 64, 4 * 4)


@every_index
@pytest.mark.parametrize(("num_tokens", "right"), [(0, [0]), (1, [0, 1]), (15, [0, 1]), (16, [1]), (17, [1, 2])])
def test_rule_1_there_is_a_page_for_each_whole_page_of_tokens_and_perhaps_one_for_the_tail(make, num_tokens, right):
    for count in range(4):
        cache = make(16)
        if count in right:
            assert cache.insert(range(num_tokens), range(count)).length == num_tokens // 16 * 16
        else:
            with pytest.raises(
                ValueError, match=f"{count} pages for {num_tokens} tokens: expected one page for each 16"
            ):
                cache.insert(range(num_tokens), np.arange(count, dtype=np.int32))
            assert cache.total_size == 0
        cache.check()


@every_index
def test_rule_1_pages_in_front_of_the_start_count_too(make):
    cache = make(2)
    cache.insert([1, 2], [5])
    handle = cache.acquire([1, 2])
    with pytest.raises(ValueError, match="1 pages for 4 tokens: expected one page for each 2 tokens"):
        cache.insert([1, 2, 3, 4], [6], start=handle)
    cache.insert([1, 2, 3, 4], [-1, 6], start=handle)
    assert cached(cache, [1, 2, 3, 4]) == [5, 6]


# -- rule 12: a page has one place ----------------------------------------------------------------------------------


@every_shipped_index
@pytest.mark.parametrize(
    ("inserts", "names"),
    [
        ([([1, 2], [5, 5])], "page 5 is cached (twice in node 1|in nodes 1 and 2)"),
        ([([1, 2], [4, 5]), ([7, 8], [5, 6])], r"page 5 is cached in nodes \d and \d"),
        ([([1, 2], [4, 5]), ([1, 2, 3], [0, 0, 4])], r"page 4 is cached in nodes 1 and \d"),
    ],
)
def test_rule_12_a_page_that_is_cached_twice_is_found(make, inserts, names):
    cache = make()
    for tokens, pages in inserts:
        cache.insert(tokens, pages)
    with pytest.raises(InvariantError, match=names):
        cache.check()
