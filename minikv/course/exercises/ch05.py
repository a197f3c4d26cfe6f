"""The exercises of chapter 05: a policy in two rings, and a lock that is given back badly."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Hashable, Sequence

from hypothesis import strategies as st

from minikv.course.exercises.exercise import Exercise, Hunt, Wrong
from minikv.course.exercises.judge import Script

TokenPath = tuple[int, ...]


class TwoRings:
    """Pages used once go before pages used again, both in the order of their last use; slru in two rings.

    `use(page)` says that a page is used, for the first time or again; `evict()` gives the page that goes, or `None`.
    A page that went and comes back is new.
    """

    def __init__(self) -> None:
        self.once: OrderedDict[Hashable, None] = OrderedDict()
        self.again: OrderedDict[Hashable, None] = OrderedDict()

    def use(self, page: Hashable) -> None:
        """`page` is used now."""
        if page in self.once or page in self.again:
            self.once.pop(page, None)
            self.again.pop(page, None)
            self.again[page] = None
        else:
            self.once[page] = None

    def evict(self) -> Hashable:
        """Take out the page that goes first and give it back; `None` if there is none."""
        for ring in (self.once, self.again):
            if ring:
                return ring.popitem(last=False)[0]
        return None


class PathRing:
    """Cached prefixes with one token on each edge; a prefix that no lock protects stands in `ring`, oldest first.

    `use(tokens)` caches all prefixes of `tokens`, or uses them again; `evict()` takes one out and gives it back. A
    prefix must not go before the longer ones that begin with it: without their beginning they are worth nothing.
    """

    def __init__(self) -> None:
        self.ring: OrderedDict[TokenPath, None] = OrderedDict()
        self.locks: Counter[TokenPath] = Counter()

    def path(self, tokens: Sequence[int]) -> list[TokenPath]:
        """Every prefix of `tokens`, the longest first."""
        return [tuple(tokens[:end]) for end in range(len(tokens), 0, -1)]

    def use(self, tokens: Sequence[int]) -> None:
        """Put all that is not locked at the young end, the longest first."""
        for prefix in self.path(tokens):
            if not self.locks[prefix]:
                self.ring[prefix] = None
                self.ring.move_to_end(prefix)

    def lock(self, tokens: Sequence[int]) -> None:
        """Protect every prefix of `tokens`; `KeyError` if they are not cached."""
        path = self.path(tokens)
        if not all(self.locks[prefix] or prefix in self.ring for prefix in path):
            raise KeyError(tuple(tokens))
        for prefix in path:
            self.locks[prefix] += 1
            self.ring.pop(prefix, None)

    def unlock(self, tokens: Sequence[int]) -> None:
        """Give back one lock; what it frees is at the young end then; `ValueError` if nobody locked it."""
        if not all(self.locks[prefix] for prefix in self.path(tokens)):
            raise ValueError(tuple(tokens))
        for prefix in self.way_back(tokens):
            self.locks[prefix] -= 1
            if not self.locks[prefix]:
                self.ring[prefix] = None

    def way_back(self, tokens: Sequence[int]) -> list[TokenPath]:
        """In which order the prefixes of `tokens` go back into the ring."""
        return self.path(tokens)

    def evict(self) -> TokenPath | None:
        """Take out the oldest prefix; `None` if all are locked."""
        return self.ring.popitem(last=False)[0] if self.ring else None


class CarelessPathRing(PathRing):
    """The same, but a lock is given back from the root down."""

    def way_back(self, tokens: Sequence[int]) -> list[TokenPath]:
        """In which order the prefixes of `tokens` go back into the ring."""
        return self.path(tokens)[::-1]


class _OneRing(TwoRings):
    """Plain lru."""

    def use(self, page: Hashable) -> None:
        self.once.pop(page, None)
        self.once[page] = None


class _NotRefreshed(TwoRings):
    """A page that is used for the third time stays where it is in its ring."""

    def use(self, page: Hashable) -> None:
        if page not in self.again:
            super().use(page)


class _Remembers(TwoRings):
    """A page that went and comes back counts as used again."""

    def __init__(self) -> None:
        super().__init__()
        self.known: set[Hashable] = set()

    def use(self, page: Hashable) -> None:
        if page in self.known and page not in self.once and page not in self.again:
            self.again[page] = None
        else:
            super().use(page)
        self.known.add(page)


class _Counts(TwoRings):
    """lfu: the page used least often goes first."""

    def __init__(self) -> None:
        super().__init__()
        self.count: Counter[Hashable] = Counter()

    def use(self, page: Hashable) -> None:
        self.once.pop(page, None)
        self.once[page] = None
        self.count[page] += 1

    def evict(self) -> Hashable:
        if not self.once:
            return None
        page = min(self.once, key=lambda page: self.count[page])
        del self.once[page], self.count[page]
        return page


class _OnlyTheFirst(TwoRings):
    """Nothing goes while nothing stands in the first ring."""

    def evict(self) -> Hashable:
        return self.once.popitem(last=False)[0] if self.once else None


class _RaisesWhenEmpty(TwoRings):
    def evict(self) -> Hashable:
        return (self.once or self.again).popitem(last=False)[0]


class _GivesThePair(TwoRings):
    def evict(self) -> Hashable:
        ring = self.once or self.again
        return ring.popitem(last=False) if ring else None


class _YoungestFirst(TwoRings):
    def evict(self) -> Hashable:
        ring = self.once or self.again
        return ring.popitem()[0] if ring else None


class _AgainFirst(TwoRings):
    def evict(self) -> Hashable:
        ring = self.again or self.once
        return ring.popitem(last=False)[0] if ring else None


class _InBothRings(TwoRings):
    """A page that is used again stays in the first ring as well."""

    def use(self, page: Hashable) -> None:
        if page in self.once:
            self.again[page] = None
            self.again.move_to_end(page)
        self.once[page] = None


def _pages(*pages: str, evict: int = 1) -> Script:
    """Uses of `pages` in order, then `evict` evictions."""
    return Script((), (*(("use", (page,)) for page in pages), *[("evict", ())] * evict))


def _scripts() -> st.SearchStrategy[Script]:
    step = st.one_of(st.just(("evict", ())), st.sampled_from("abc").map(lambda page: ("use", (page,))))
    return st.lists(step, max_size=10).map(lambda steps: Script((), tuple(steps)))


def _no_lock() -> Script:
    return Script((), (("use", ([1, 2],)), ("evict", ())))


def _one_token() -> Script:
    return Script((), (("use", ([1],)), ("lock", ([1],)), ("unlock", ([1],)), ("evict", ())))


def _used_again() -> Script:
    steps = (("use", ([1, 2],)), ("lock", ([1, 2],)), ("unlock", ([1, 2],)), ("use", ([1, 2],)), ("evict", ()))
    return Script((), steps)


def _evicted_elsewhere() -> Script:
    path = (("use", ([1, 2],)), ("lock", ([1, 2],)), ("unlock", ([1, 2],)))
    return Script((), (("use", ([9],)), *path, ("evict", ())))


def _advice(script: Script) -> str | None:
    """A hint for a script that does no harm: what it does not do yet."""
    ring, back, gone, used = PathRing(), [], False, False
    for verb, given in script.operations:
        result = getattr(ring, verb)(*given)
        if verb == "unlock":
            back.append(tuple(*given))
        used = used or (verb == "use" and tuple(*given) in back and not gone)
        gone = gone or any(result and path[: len(result)] == result for path in back)
    if not back:
        return "the careless line runs when a lock is given back: lock a path, and unlock it"
    if max(map(len, back)) < 2:
        return "a path of one node has only one order; lock a longer one"
    if not gone:
        return "after the unlock, nothing of that path was evicted: evict once more"
    return "the use after the unlock puts the order right again; evict before it" if used else None


_BACK = Script((), (*_pages("a", "b").operations, *_pages("a", "c", evict=3).operations))

EXERCISES = (
    Exercise(
        id="5.5",
        name="TwoRings",
        reference=TwoRings,
        cases=[_pages(), _pages("a"), _pages("a", "b", evict=3), _pages("a", "a", evict=2), _pages("a", "b", "a", "c"),
               _pages("a", "a", "b"), _pages("a", "a", "b", "b", "a"), _pages("a", "a", "a", "b", "b"), _BACK],
        strategy=_scripts(),
        hint="keep two OrderedDicts, of pages used once and of pages used again; evict asks the first one first",
        wrong=(
            Wrong(_OneRing, "that is plain lru: a page used once goes first, even if it was used just now"),
            Wrong(_NotRefreshed, "among pages used again it is the last use that counts, not the second"),
            Wrong(_Remembers, "a page that was evicted has nothing left: when it comes back, it is used once"),
            Wrong(_Counts, "that is lfu: two uses and three count the same here, and then the last use decides"),
            Wrong(_RaisesWhenEmpty, "when there is no page at all, evict returns None"),
            Wrong(_GivesThePair, "popitem gives a pair, a page and its value: return the page alone"),
            Wrong(_YoungestFirst, "popitem() takes the youngest; popitem(last=False) takes the oldest"),
            Wrong(_AgainFirst, "the other way round: pages used only once go before those used again"),
            Wrong(_InBothRings, "a page stands in one ring only: take it out of the first when it is used again"),
            Wrong(_OnlyTheFirst, "when no page was used only once, the oldest of those used again goes"),
        ),
    ),
    Hunt(
        id="5.6",
        name="CarelessPathRing",
        careless=CarelessPathRing,
        reference=PathRing,
        example=Script((), (("use", ([1, 2],)), ("lock", ([1, 2],)), ("unlock", ([1, 2],)), ("evict", ()))),
        hint="the two differ only when a lock is given back: what stands in the ring then, and in which order?",
        advice=_advice,
        wrong=(
            Wrong(_no_lock, "nothing was locked, so nothing was given back"),
            Wrong(_one_token, "a path of one node has only one order; lock a longer one"),
            Wrong(_used_again, "the use after the unlock puts the order right again; evict before it"),
            Wrong(_evicted_elsewhere, "after the unlock, nothing of that path was evicted: evict once more"),
        ),
    ),
)  # fmt: skip
