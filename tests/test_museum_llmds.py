"""The bugs of llm-rag-ds-optimizer's cache: tests that pass on ours and fail on a re-creation of what it does.

The numbers are those under which the bugs were found; L10 is none. The pool's are L7 and L8.
"""

import numpy as np
import pytest
from museum import law_by_law, without

from minikv import CopyOnWrite, FreeListPool, OutOfPages
from minikv.copy_on_write.shared_sequences import KnownPages

# -- what is shared ---------------------------------------------------------------------------------------------------


def sharing_takes_pages_for_the_rest_alone(make):
    """L1: pages are taken for the whole sequence, and those that shared ones replace are dropped on the floor."""
    cache = make(10, 2)
    for _ in range(4):
        cache.attach("a", [1, 2, 3, 4], "ABCD")
    cache.attach("b", [1, 2, 3, 4], "ABCD")
    assert cache.pages("a") == cache.pages("b")
    assert cache.stats()["allocated_pages"] == 2


def everything_comes_back(make):
    """L4: what leaked stays away when all sequences are gone."""
    cache = make(10, 2)
    for name in "ab":
        cache.attach(name, [1, 2, 3, 4], "ABCD")
    for name in "ab":
        cache.detach(name)
    assert cache.stats()["free_pages"] == 10


class TakesAllFirst(CopyOnWrite):
    def attach(self, name, tokens, values=None, prefix_length=0):
        found = super().attach(name, tokens, values, prefix_length)
        self.pool.alloc(found // self.page_size)
        return found


def what_is_gone_is_not_shared(make):
    """L2: a freed page is still in the map, so an attach counts as sharing with nobody."""
    cache = make(8, 2)
    cache.attach("a", [1, 2], "AB")
    cache.detach("a")
    cache.attach("b", [7, 8], "XY")
    cache.attach("c", [1, 2], "AB")
    assert (cache.stats()["prefix_shares"], cache.stats()["shared_pages_count"]) == (0, 0)


def a_freed_page_is_found_by_nobody(make):
    """L2c: it is another sequence's by then, and the next attach is given that one's values."""
    cache = make(2, 2)
    cache.attach("a", [1, 2], "AB")
    cache.detach("a")
    cache.attach("b", [7, 8, 9], "XYZ")
    assert cache.attach("c", [1, 2]) == 0
    assert cache.get("b") == ["X", "Y", "Z"]
    assert cache.get("c") == []


def the_map_ends_with_the_sequences(make):
    """L11: after 1000 prefixes that are gone it has 1001 entries."""
    cache = make(100, 2)
    for i in range(100):
        cache.attach("a", [i, i + 1], "AB")
        cache.detach("a")
    assert cache.stats()["prefix_map_size"] == 0


class Unforgetting(KnownPages):
    def forget(self, page):
        pass


def known_by(pages):
    """Sequences whose pages are known in this way."""

    class Known(CopyOnWrite):
        def __init__(self, *given, **options):
            super().__init__(*given, **options)
            self._known = pages(self.page_size)

    return Known


KeepsTheMap = known_by(Unforgetting)


def a_prefix_is_known_by_all_its_tokens(make):
    """L3: the hash is of the first 100 tokens, so two prompts of 128 have one name."""
    cache = make(200, 4)
    one, other = list(range(128)), [*range(100), *range(500, 528)]
    cache.attach("one", one, one)
    assert cache.attach("other", other) == 100
    cache.append("other", other[100:], other[100:])
    assert cache.get("other") == other


class NamedByAHundred(KnownPages):
    def keys_of(self, tokens, key=b""):
        for end in range(self.page_size, len(tokens) + 1, self.page_size):
            yield ",".join(map(str, tokens[: min(end, 100)])).encode() + bytes([end])


def what_is_not_declared_is_private(make):
    """L6b: a prefix of 2 tokens shares a whole page of 4, and the private end of it too."""
    cache = make(8, 4, discovered=False)
    cache.attach("a", [1, 2, 8, 9], "ABYZ", prefix_length=2)
    assert cache.attach("b", [1, 2, 8, 9], prefix_length=2) == 0


class RoundsUp(CopyOnWrite):
    def attach(self, name, tokens, values=None, prefix_length=0):
        whole = -(-prefix_length // self.page_size) * self.page_size
        return super().attach(name, tokens, values, min(whole, len(tokens)))


def values_need_not_be_compared(make):
    """L12: with tensors, `existing_data != page_data` is neither true nor false."""
    cache = make(8, 2)
    values = [np.array([1.0, 2.0]), np.array([3.0, 4.0])]
    cache.attach("a", [1, 2], values)
    with without(ValueError):  # that of numpy
        assert cache.attach("b", [1, 2], values) == 2
    assert np.array_equal(cache.get("b"), values)


class ComparesValues(CopyOnWrite):
    def attach(self, name, tokens, values=None, prefix_length=0):
        found, _ = self._known.find(tokens)
        if self.values.read(found, len(found) * self.page_size) != values[: len(found) * self.page_size]:
            raise OutOfPages(1, 0)  # it would be copied
        return super().attach(name, tokens, values, prefix_length)


# -- copying, and what fails ------------------------------------------------------------------------------------------


def the_last_one_keeps_the_page(make):
    """L5: a page from which all others were copied away is still flagged as shared, and its owner copies it again."""
    cache = make(8, 2)
    cache.attach("a", [1], "A")
    cache.fork("a", "b")
    cache.append("b", [2], "B")
    before = cache.pages("a")
    cache.append("a", [3], "C")
    assert cache.pages("a") == before


class FlagsForever(CopyOnWrite):
    flagged = frozenset()

    def fork(self, name, new_name):
        super().fork(name, new_name)
        self.flagged |= {*self.pages(name)}

    def _put(self, sequence, at, numbers, taken):
        for i, page in enumerate(sequence.pages):
            if page in self.flagged and self._references.counts[page] == 1:
                (sequence.pages[i],) = self.pool.alloc(1).tolist()
                self._references.hold([sequence.pages[i]])
                self.values.copy(page, sequence.pages[i])
                self._let_go([page])
        super()._put(sequence, at, numbers, taken)


def a_refused_attach_leaves_no_reference(make):
    """L5c: shared pages are counted before it turns out that there is no room for the rest."""
    cache = make(2, 2)
    cache.attach("a", [1, 2], "AB")
    with pytest.raises(OutOfPages):
        cache.attach("b", [1, 2, 3, 4, 5, 6], "ABCDEF")
    cache.detach("a")
    assert cache.stats()["total_page_refs"] == 0
    assert cache.stats()["free_pages"] == 2


class CountsFirst(CopyOnWrite):
    def attach(self, name, tokens, values=None, prefix_length=0):
        self._references.hold(self._known.find(tokens)[0])
        found = super().attach(name, tokens, values, prefix_length)
        self._let_go(self.pages(name)[: found // self.page_size])
        return found


def a_write_is_seen_by_one_sequence(make):
    """L13: there is no way to write, so one reaches for the page, and everybody sees it."""
    cache = make(8, 2)
    cache.attach("a", [1, 2, 3], "ABC")
    cache.fork("a", "b")
    cache.write("b", 1, [9], "Z")
    assert (cache.get("a"), cache.get("b")) == (["A", "B", "C"], ["A", "Z", "C"])


class WritesInPlace(CopyOnWrite):
    def write(self, name, at, tokens, values):
        for i, value in enumerate(values, at):
            self.values.write(self.pages(name)[i // self.page_size], i % self.page_size, [value], 0, 1)


def what_is_read_is_a_copy(make):
    """The original copies here too; without it, writing to what was read is writing to a shared page."""
    cache = make(8, 2)
    cache.attach("a", [1, 2], [["A"], ["B"]])
    cache.get("a")[0].append("!")
    assert cache.get("a") == [["A"], ["B"]]


class GivesAView(CopyOnWrite):
    def get(self, name):
        values = [value for page in self.pages(name) for value in self.values._pages[page]]
        return values[: len(self.tokens(name))]


def an_unknown_name_is_an_error(make):
    """`get` returns None and `detach` does nothing, so a wrong name is never noticed."""
    cache = make(8, 2)
    for act in (cache.get, cache.detach):
        with pytest.raises(KeyError, match="there is no sequence 'x'"):
            act("x")


class SaysNothing(CopyOnWrite):
    def get(self, name):
        return super().get(name) if name in self.names() else None

    def detach(self, name):
        if name in self.names():
            super().detach(name)


def a_draft_is_taken_in_and_taken_back(make):
    """The hook for speculative decoding is `pass`."""
    cache = make(8, 2)
    cache.attach("a", [1], "A")
    cache.draft("a", [2, 3, 4], "BCD")
    assert cache.get("a") == ["A", "B", "C", "D"]
    cache.settle("a", 1)
    assert (cache.get("a"), cache.stats()["free_pages"]) == (["A", "B"], 7)


class DraftsNothing(CopyOnWrite):
    def draft(self, name, tokens, values):
        pass


class Unwalkable(list):
    def __iter__(self):
        pytest.fail("all pages are looked at")


def figures_are_counted_along(make):
    """L9: with a million pages `stats` takes 9 milliseconds, since it walks over all of them."""
    cache = make(8, 2)
    cache.attach("a", [1, 2, 3], "ABC")
    cache.fork("a", "b")
    cache._references.counts = Unwalkable(cache._references.counts)
    figures = cache.stats()
    assert (figures["shared_pages_count"], figures["total_page_refs"]) == (2, 4)


class WalksOverAll(CopyOnWrite):
    def stats(self):
        return {**super().stats(), "total_page_refs": sum(refs for refs in self._references.counts)}


# -- the pool ---------------------------------------------------------------------------------------------------------


class SeedPool:
    """The original's allocator: it takes from the front of a list, and believes what it is told."""

    def __init__(self, size):
        self.in_use, self.free_pages = [False] * size, list(range(size))

    def alloc(self, count):
        pages = [self.free_pages.pop(0) for _ in range(count)]
        for page in pages:
            self.in_use[page] = True
        return pages

    def free(self, pages):
        for page in pages:
            if self.in_use[page]:
                self.in_use[page] = False
                self.free_pages.append(page)

    def defragment(self):
        count = sum(self.in_use)
        self.in_use = [page < count for page in range(len(self.in_use))]
        self.free_pages = list(range(count, len(self.in_use)))


def a_page_is_taken_where_nothing_has_to_move(make):
    """L7: `pop(0)` moves all the others, 0.1 milliseconds a page where a million are free; a stack moves none."""
    pool = make(4)
    pages = pool.alloc(4)
    pool.free(pages[:1])
    pool.free(pages[3:])
    assert list(pool.alloc(1)) == list(pages[3:])  # what was freed last is on top


def a_page_in_use_is_handed_out_to_nobody(make):
    """L8: `defragment` says that the first pages are those in use, and the sequences keep the others."""
    pool = make(4)
    first, rest = pool.alloc(1), pool.alloc(2)
    pool.free(first)
    getattr(pool, "defragment", lambda: None)()  # ours has none: with pages of one size any free page will do
    assert not {*pool.alloc(1)} & {*rest}


def what_is_free_cannot_be_freed(make):
    pool = make(4)
    pool.alloc(1)
    with pytest.raises(ValueError, match="page 3"):
        pool.free([3])


MUSEUM = {
    sharing_takes_pages_for_the_rest_alone: TakesAllFirst,
    everything_comes_back: TakesAllFirst,
    what_is_gone_is_not_shared: KeepsTheMap,
    a_freed_page_is_found_by_nobody: KeepsTheMap,
    the_map_ends_with_the_sequences: KeepsTheMap,
    a_prefix_is_known_by_all_its_tokens: known_by(NamedByAHundred),
    what_is_not_declared_is_private: RoundsUp,
    values_need_not_be_compared: ComparesValues,
    the_last_one_keeps_the_page: FlagsForever,
    a_refused_attach_leaves_no_reference: CountsFirst,
    a_write_is_seen_by_one_sequence: WritesInPlace,
    what_is_read_is_a_copy: GivesAView,
    an_unknown_name_is_an_error: SaysNothing,
    a_draft_is_taken_in_and_taken_back: DraftsNothing,
    figures_are_counted_along: WalksOverAll,
    a_page_is_taken_where_nothing_has_to_move: SeedPool,
    a_page_in_use_is_handed_out_to_nobody: SeedPool,
    what_is_free_cannot_be_freed: SeedPool,
}


test_ours_holds, test_the_original_does_not = law_by_law(
    {law: (FreeListPool if made is SeedPool else CopyOnWrite, made) for law, made in MUSEUM.items()}
)
