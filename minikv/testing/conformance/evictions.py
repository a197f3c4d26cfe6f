"""Checks of an eviction: which pages it removed, in which order, how many, and which it kept.

The contract leaves open how much a leaf is: a page, or a node of many pages. So an eviction is not compared with one
right answer. It may take any unlocked leaves that were used least recently, and of the last one more than is needed.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

from minikv.testing.attempt import attempt
from minikv.testing.conformance.playing import SideBySide
from minikv.testing.conformance.script import Breach, Reply
from minikv.testing.model import NaiveCache, PageKey


class EvictingRun(SideBySide):
    """A run that evicts: pages that were `offered` and not taken, or `evicted`, are not to be seen again.

    A `scar` is a node that is not joined. It counts if nothing else is wrong, so the run continues.
    """

    scar: Breach | None = None

    def begin(self) -> None:
        """No page was offered or evicted yet; a cache that takes only single tokens breaks rule 15."""
        self.rule_of_making = 15 if self.page_size > 1 else 1
        self.offered: set[int] = set()
        self.evicted: set[int] = set()

    def at_the_end(self) -> Breach | None:
        """A node that was not joined."""
        return self.scar

    def scarred(self, words: str) -> None:
        """A node is not joined; the first such counts."""
        self.scar = self.scar or self.end(14, words)


def wrong_eviction(run: EvictingRun, reply: Reply) -> Breach | None:
    """The rule that an eviction broke and how, or `None`; the model then forgets the same pages."""
    model, numbers, wanted = run.model, reply.value, int(reply.args[0])
    keys = {page.number: key for key, page in model.pages.items()}
    if (unknown := _unknown(run, numbers, keys, wanted)) is not None:
        return unknown
    gone = [keys[number] for number in numbers]
    faults = [*_torn(run, gone), _amount(run, gone, wanted), _recency(run, gone)]
    found = next((each for each in faults if each is not None and each.rule in run.subject.claims), None)
    if found is None:
        _scars(run, numbers, wanted)
        model.drop(gone)
        run.evicted |= set(numbers)
    return found


def _unknown(run: EvictingRun, numbers: list[int], keys: dict[int, PageKey], wanted: int) -> Breach | None:
    """A page that is not cached, or is given twice."""
    for place, number in enumerate(numbers):
        if number in numbers[:place]:
            return run.end(9, f"gives page {number} twice")
        if number not in keys:
            why = "was evicted before" if number in run.evicted else "is not cached"
            rule = 4 if number in run.offered else 15 if _are_slots(run, numbers, keys) else 9
            return run.end(rule, f"gives {numbers}: page {number} {why}")
    return None


def _are_slots(run: EvictingRun, numbers: list[int], keys: dict[int, PageKey]) -> bool:
    """Return whether these are not pages, but the slots of pages that are cached."""
    pages, size = {number // run.page_size for number in numbers}, run.page_size
    slots = {page * size + place for page in pages for place in range(size)}
    return size > 1 and pages <= keys.keys() and slots == set(numbers)


def _torn(run: EvictingRun, gone: list[PageKey]) -> Iterator[Breach]:
    """Each page that is evicted although it is locked, then each that is evicted while a later page stays."""
    pages, model = run.model.pages, run.model
    for key in filter(model.locked, gone):
        yield run.end(6, f"evicts page {pages[key].number}, which is locked")
    for key in gone:
        for below in model.below(key):
            if below not in gone:
                first, then = pages[key].number, pages[below].number
                yield run.end(9, f"evicts page {first}, and keeps page {then}, which comes after it")


def _amount(run: EvictingRun, gone: list[PageKey], wanted: int) -> Breach | None:
    """Enough, and of the last leaf at most too much."""
    size, freed = run.page_size, len(gone) * run.page_size
    least = min(-(-wanted // size) * size, run.model.evictable_size)
    if freed < least:
        return run.end(9, f"frees {freed} tokens, expected {least}")
    if not wanted and gone:
        return run.end(9, f"frees {freed} tokens, expected none")
    run.reach({9: gone, 6: freed < wanted and run.model.protected_size})  # a lock was in the way
    if gone and freed - max(_run_of(run, key, gone) for key in gone) * size >= wanted:
        return run.end(9, f"frees {freed} tokens, more leaves than it takes to free {wanted}")
    return None


def _run_of(run: EvictingRun, key: PageKey, gone: list[PageKey]) -> int:
    """How many of the pages that went end at `key` in one unbroken run that was used together: at most one node."""
    model, count = run.model, 1
    above = (key[0], key[1][: -run.page_size])
    while above in gone and model.pages[above].last_used == model.pages[key].last_used:
        count, above = count + 1, (above[0], above[1][: -run.page_size])
    return count


def _recency(run: EvictingRun, gone: list[PageKey]) -> Breach | None:
    """Of what went, nothing was used later than a leaf that stays."""
    if not gone:
        return None
    pages, left = run.model.pages, copy.copy(run.model)
    left.pages = {key: page for key, page in pages.items() if key not in gone}
    stays = min(left.unlocked_leaves(), key=lambda key: pages[key].last_used, default=None)
    latest = max(gone, key=lambda key: pages[key].last_used)
    older = [key for key, page in pages.items() if page.last_used < pages[latest].last_used]
    run.reach({6: any(map(run.model.locked, older))})  # without its lock, that page would have gone first
    if stays is None or pages[latest].last_used <= pages[stays].last_used:
        newer = [key for key in run.model.unlocked_leaves() if pages[key].last_used > pages[latest].last_used]
        run.reach({8: newer})
        return None
    return run.end(8, f"evicts page {pages[latest].number}, although page {pages[stays].number} was used less recently")


def _scars(run: EvictingRun, numbers: list[int], wanted: int) -> None:
    """By whole nodes, as much goes as if what is used together had been joined; else the run has a scar."""
    if 14 in run.subject.claims and evicts_whole_nodes(run):
        expected = NaiveCache.evict(copy.deepcopy(run.model), wanted).tolist()
        if sorted(expected) != sorted(numbers):
            run.scarred(f"evicts pages {sorted(numbers)}, expected {sorted(expected)}: one node, if it was joined")
        run.reach({14: run.model.cuts})


def evicts_whole_nodes(run: EvictingRun) -> bool:
    """Whether this index evicts the whole of a leaf when one token is wanted; found out once for each way to make it.

    >>> from minikv import RadixCache
    >>> from minikv.testing.conformance.caches import CacheRun
    >>> from minikv.testing.conformance.subject import subject_of
    >>> subject = subject_of(RadixCache, range(1, 16))
    >>> [evicts_whole_nodes(CacheRun(subject, 2, settings)) for settings in subject.settings]
    [True, False]
    """
    known, way = run.subject.whole_nodes, (run.page_size, str(run.settings))
    if way not in known:
        cache, tokens = run.make(), list(range(4 * run.page_size))
        freed = attempt(lambda: (cache.insert(tokens, [0, 1, 2, 3]), len(cache.evict(1)))[1])
        known[way] = freed.value == 4
    return known[way]


def look_for_scars(run: EvictingRun) -> None:
    """Tell the run when the index has more nodes than there are where all that is used together is joined."""
    if 14 in run.subject.claims and callable(getattr(run.index, "nodes", None)):
        model = run.model
        ends = sum(key in model.ends or not model.below(key) for key in model.pages)
        found = attempt(lambda: sum(1 for _ in run.index.nodes()))
        if found.error is not None or found.value > ends:
            run.scarred(f"then the cache has {found.value} nodes, expected {ends}: the others are joined")
        run.reach({14: model.cuts})
