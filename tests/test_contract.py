"""The contract over every index of this package: the kit plays it, and the rest here is what only ours promise.

What the rules ask of anybody's index are the scenarios of `minikv.testing.cases`, with many kinds of bad input.
The other tests are stricter: the words of our errors, our types, and namespaces of any kind.
"""

from array import array
from collections import deque

import numpy as np
import pytest
from indexes import SUBJECTS, every_index, every_shipped_index

from minikv import LockError, RadixCache
from minikv.pools.contract import INT32, INT32_CODES, NO_PAGES
from minikv.testing.verify import examine_class


def sizes(cache):
    return cache.evictable_size, cache.protected_size, cache.total_size


@pytest.mark.parametrize("name", SUBJECTS)
def test_every_index_keeps_every_rule_that_it_claims(name):
    found = examine_class(SUBJECTS[name], examples=0)
    assert not found.broken, str(found)


# -- rule 1, and the words of every refusal ---------------------------------------------------------------------------

BAD_TOKENS = [([1, -1], ValueError, r"tokens\[1\] is -1"), ([1, 2, 3.5], TypeError, r"tokens\[2\] is 3.5")]
BAD_PAGES = [
    ([1, 2, -3], ValueError, r"pages\[2\] is -3"), (None, TypeError, "NoneType"),
    ({5, 6, 7}, TypeError, "pages are a set"), (np.ones((3, 1), int), ValueError, r"shape \(3, 1\)"),
    (memoryview(array("i", [-1, 2, 3])), ValueError, r"pages\[0\] is -1"),
    (np.ones(2, np.int32), ValueError, "2 pages for 3 tokens: expected one page for each token"),
    (np.ones((3, 1), np.int32), ValueError, r"shape \(3, 1\)"),
    (np.ones(3, np.float32), TypeError, r"pages\[0\] is 1.0"),
    (memoryview(array("f", [1, 2, 3])), TypeError, r"pages\[0\] is 1.0"),
    (np.array([1, 2**31, 3], np.uint32), ValueError, r"pages\[1\] is 2147483648"),
    (np.array([1, 2, 3], "datetime64[s]"), TypeError, "pages"),
]  # fmt: skip
REFUSED = [  # verb, arguments, options, error, words; the cache holds [1, 2], and "held" is the locked handle of that
    *[("match_prefix", [tokens], {}, *said) for tokens, *said in BAD_TOKENS],
    *[("insert", [tokens, [0, 1]], {}, *said) for tokens, *said in BAD_TOKENS],
    *[("insert", [[1, 5, 6], pages], {}, *said) for pages, *said in BAD_PAGES],
    *[("insert", [[1, 2, 3], pages], {"start": "held"}, error, words) for pages, error, words in (
        ([5, 6, -7], ValueError, r"pages\[2\] is -7"), ({5, 6, 7}, TypeError, "pages are a set"))],
    *[(verb, [[1, 9]], {"limit": limit}, error, f"limit is {limit!r}") for verb in ("match_prefix", "acquire")
      for limit, error in ((-1, ValueError), (True, TypeError))],
    *[("evict", [wanted], {}, error, f"num_tokens is {wanted!r}")
      for wanted, error in ((-1, ValueError), (None, TypeError))],
    *[(verb, [wrong], {}, TypeError, "expected the handle") for verb in ("lock", "unlock") for wrong in (None, [1])],
    *[("insert", [[1], [1]], {"start": wrong}, TypeError, "expected the handle") for wrong in (0, [1])],
    *[("insert", [tokens, range(len(tokens))], {"start": "held", "namespace": name}, ValueError, "start is")
      for tokens, name in (([1, 9, 3], None), ([1], None), ([1, 2, 3], "lora"))],
]  # fmt: skip


@every_shipped_index
def test_what_is_wrong_is_named_and_changes_nothing(make):
    cache = make()
    cache.insert([1, 2], [0, 1])
    held = cache.acquire([1, 2])
    before = [repr(node) for node in cache.nodes()], sizes(cache)
    for verb, args, options, error, words in REFUSED:
        given = {name: held if value == "held" else value for name, value in options.items()}
        with pytest.raises(error, match=words):
            getattr(cache, verb)(*args, **given)
        assert ([repr(node) for node in cache.nodes()], sizes(cache)) == before, (verb, args)
    for held_by in ("1 lock is held, protecting 2 tokens", "2 locks are held, protecting 2 tokens"):
        with pytest.raises(LockError, match=f"cannot reset: {held_by}"):
            cache.reset()
        cache.lock(held)
    cache.check()


FORMS = [list, tuple, deque, lambda s: np.array(s, np.int32), np.array, lambda s: array("i", s)]


@pytest.mark.parametrize("form", FORMS)
def test_one_bad_page_is_found_in_any_form_and_those_before_the_start_are_not_looked_at(form):
    """Whichever of its four bytes is zero or has its high bit set; long arrays are searched in another way."""
    cache = RadixCache()
    for bad in (-1, -128, -256, -(2**16), -(2**31)):
        for length in (2, 3000):
            with pytest.raises(ValueError, match=rf"pages\[{length - 1}\] is {bad}"):
                cache.insert(range(length), form([*range(length - 1), bad]))
    assert sizes(cache) == (0, 0, 0)
    cache.insert([1, 2], form([5, 6]))
    held = cache.acquire([1, 2])
    with pytest.raises(ValueError, match=r"pages\[3\] is -7"):
        cache.insert([1, 2, 3, 4], form([-1, -1, 7, -7]), start=held)
    cache.insert([1, 2, 3], form([-1, -1, 7]), start=held)
    if form in (list, tuple, deque):
        cache.insert([1, 2, 3, 4], form([None, "nothing", 2**70, 8]), start=cache.acquire([1, 2, 3]))
    assert cache.match_prefix([1, 2, 3]).pages.tolist() == [5, 6, 7]


@every_index
def test_pages_of_16_need_a_number_for_each_whole_page_and_perhaps_one_for_the_tail(make):
    for num_tokens, right in ((0, [0]), (1, [0, 1]), (15, [0, 1]), (16, [1]), (17, [1, 2])):
        for count in range(4):
            cache = make(16)
            if count in right:
                assert cache.insert(range(num_tokens), range(count)).length == num_tokens // 16 * 16
                continue
            said = f"{count} pages for {num_tokens} tokens: expected one page for each 16"
            with pytest.raises(ValueError, match=said):
                cache.insert(range(num_tokens), np.arange(count, dtype=np.int32))
            assert cache.total_size == 0
    cache = make(2)
    cache.insert([1, 2], [5])
    with pytest.raises(ValueError, match="1 pages for 4 tokens: expected one page for each 2 tokens"):
        cache.insert([1, 2, 3, 4], [6], start=cache.acquire([1, 2]))


# -- our types ---------------------------------------------------------------------------------------------------------


@every_index
def test_pages_go_in_and_come_back_one_number_each_and_can_become_a_tensor_without_copying(make):
    cache = make(16)
    cache.insert(range(40), [9, 5])
    match = cache.match_prefix(range(40))
    assert (match.pages.tolist(), match.pages.dtype, match.slots.dtype) == ([9, 5], np.int32, np.int32)
    assert match.slots.tolist() == [*range(144, 160), *range(80, 96)]
    torch, pages = pytest.importorskip("torch"), match.pages
    assert torch.as_tensor(pages).data_ptr() == pages.__array_interface__["data"][0]
    pages[:] = 0  # the caller's own
    cache.insert(torch.tensor([7] * 16), torch.tensor([3], dtype=torch.int32))
    assert cache.match_prefix(torch.tensor([7] * 17, dtype=torch.int32)).pages.tolist() == [3]
    with pytest.raises(ValueError, match="pages are a tensor on meta, which has no values"):
        cache.insert(range(16), torch.empty(16, dtype=torch.int64, device="meta"))


def test_a_row_is_of_int32_whatever_a_platform_calls_it():
    """An "l" has 4 bytes on Windows and in a browser, where numpy uses it."""
    assert {array(code).itemsize for code in INT32_CODES} == {4}
    assert {np.empty(0, np.int32).data.format, NO_PAGES.format} == {INT32}


def test_a_match_is_written_to_a_row_that_has_room_for_it():
    cache, row = RadixCache(), memoryview(array("i", [0] * 4))
    cache.insert([1, 2, 3], [7, 8, 9])
    match = cache.match_prefix([1, 2, 3])
    match.copy_to(row[1:])
    for wrong, error, words in (
        (row[:2], ValueError, "room for 2 pages: the match has 3"),
        (memoryview(array("q", [0] * 4)), TypeError, "the row is a memoryview of 'q': a row holds int32, 'i'"),
    ):
        with pytest.raises(error, match=words):
            match.copy_to(wrong)
    assert row.tolist() == [0, 7, 8, 9]
    pairs = RadixCache(page_size=2)
    pairs.insert([1, 2, 3, 4], [5, 6])
    pairs.match_prefix([1, 2, 3, 4]).copy_to(row[:2])  # a place for each page is enough
    assert row.tolist() == [5, 6, 8, 9]


@every_shipped_index
def test_after_a_reset_the_same_operations_give_the_same_nodes(make):
    used, new = make(), make()
    used.insert([1], [0])
    used.evict(1)
    used.reset()
    for cache in used, new:
        cache.insert([1, 2], [3, 4], namespace="a")
        cache.match_prefix([1], namespace="a")
    assert [repr(node) for node in used.nodes()] == [repr(node) for node in new.nodes()]


@every_shipped_index
def test_nodes_are_a_list_of_the_callers_own_parents_first_then_in_the_order_they_came(make):
    cache = make(2)
    for number, prompt in enumerate(([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 7, 8], [9, 9])):
        cache.insert(prompt, range(10 * number, 10 * number + len(prompt) // 2))
    nodes = cache.nodes()
    place = {id(node): at for at, node in enumerate(nodes)}
    assert all(place.get(id(node.parent), -1) < place[id(node)] for node in nodes)
    assert [slot for node in nodes for slot in node.slots] == [0, 1, 2, 3, 4, 5, 24, 25, 40, 41]
    nodes.clear()
    assert len(cache.nodes()) == len(place)


@every_shipped_index
def test_an_insert_may_start_at_a_handle_whose_node_was_joined_before_it_was_locked(make):
    cache = make()
    start = cache.insert([1, 2], [5, 6])
    cache.insert([1, 2, 3], [5, 6, 7])
    cache.match_prefix([1, 2, 3])
    cache.lock(start)
    cache.insert([1, 2, 9], [5, 6, 8], start=start)
    assert cache.match_prefix([1, 2, 9]).pages.tolist() == [5, 6, 8]


# -- namespaces of any kind --------------------------------------------------------------------------------------------


@every_shipped_index
def test_a_namespace_of_nan_is_itself_and_no_other(make):
    """NaN is not equal to itself; as in a dict, the same object is the same name all the same."""
    cache, one, other = make(), float("nan"), float("nan")
    cache.insert([1, 2], [0, 1], namespace=one)
    cache.insert([1, 2], [2, 3], namespace=other)
    found = [cache.match_prefix([1, 2], namespace=name).pages.tolist() for name in (one, other, None)]
    assert found == [[0, 1], [2, 3], []]
    handle = cache.acquire([1, 2], namespace=one)
    cache.insert([1, 2, 5], [0, 1, 5], namespace=one, start=handle)
    with pytest.raises(ValueError, match="start is in namespace nan"):
        cache.insert([1, 2, 5], [0, 1, 5], namespace=other, start=handle)
    cache.unlock(handle)
    cache.check()
    assert sorted(cache.evict(10).tolist()) == [0, 1, 2, 3, 5]
    assert (sizes(cache), list(cache.roots)) == ((0, 0, 0), [None])


def nested(depth):
    """A list in a list in a list: its repr needs a recursion of that depth."""
    found = []
    for _ in range(depth):
        found = [found]
    return found


@every_shipped_index
def test_the_error_of_a_long_or_deep_namespace_is_short(make):
    cache = make()
    handle = cache.acquire([1], namespace="x" * 10**6)
    refused = [
        *[("match_prefix", [[1]], {"namespace": name}) for name in (["x" * 10**6], nested(100_000))],
        ("acquire", [[1]], {"namespace": ["x" * 10**6]}), ("insert", [[1], [1]], {"namespace": nested(100_000)}),
        ("insert", [[1], [1]], {"namespace": "y" * 10**6, "start": handle}),
    ]  # fmt: skip
    for verb, args, options in refused:
        with pytest.raises((TypeError, ValueError), match=r"must be hashable|start is in namespace") as caught:
            getattr(cache, verb)(*args, **options)
        assert len(str(caught.value)) < 200
