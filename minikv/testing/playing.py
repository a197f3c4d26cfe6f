"""Playing a scenario on a cache and on the naive model, side by side: the first difference, and the rule it breaks.

The same lines run in two worlds, so a scenario needs no expectations, and what is printed is what was run.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable, Iterator
from typing import Any

from minikv.errors import LockError
from minikv.testing.attempt import TooLong, attempt
from minikv.testing.calls import Change, Recorder, Reply, differing, is_named, read_number
from minikv.testing.model import NaiveCache, PageKey, is_on_the_way
from minikv.testing.rules import SIZES, Subject
from minikv.testing.scenarios import Breach, Scenario
from minikv.testing.snapshot import plain
from minikv.tokens import pack

RULE_OF = {"match_prefix": 3, "acquire": 6, "insert": 4, "lock": 6, "unlock": 6, "evict": 9,
           "reset": 11, "check": 12, **dict.fromkeys(SIZES, 7)}  # fmt: skip
ALL = 10**6  # more tokens than any scenario caches
_BAD_INPUT = {"tokens": 1, "pages": 1, "namespace": 10, "limit": 3, "start": 4, "num_tokens": 9}


class SideBySide:
    """One scenario on a new cache and on a new model; at its end all is evicted.

    `refused` has the lines that must be refused, with the rule that says so, and `reached` the rules that the lines so
    far could have broken. Pages that were `offered` and not taken, or `evicted`, are not to be seen again. A `scar` is
    a node that is not joined; it counts if nothing else is wrong, so the run continues.

    >>> from minikv import RadixCache
    >>> from minikv.testing.rules import subject_of
    >>> SideBySide(subject_of(RadixCache), 1, {}).play(["cache.insert([1, 2], [5, 6])"])
    """

    def __init__(self, subject: Subject, page_size: int, settings: Any, change: Change | None = None):
        self.subject, self.page_size, self.settings = subject, page_size, settings
        self.made = attempt(self.make)
        self.index, self.model = self.made.value, self.new_model()
        self.world = Recorder(self.index, self.make, change)
        self.expected = Recorder(self.model, self.new_model, change)
        self.lines: list[str] = []
        self.raised, self.refused = dict[int, str](), dict[int, int]()
        self.reached, self.offered, self.evicted = set[int](), set[int](), set[int]()
        self.scar: Breach | None = None

    def make(self) -> Any:
        """A new object of the class."""
        return self.subject.make(**self.subject.arguments(self.page_size, self.settings))

    def new_model(self) -> NaiveCache:
        """The model, as empty as the cache is."""
        model = NaiveCache(self.page_size, self.settings.get("evict_by", "node"))
        model.used_by, model.follows = self.subject.used_by, True
        return model

    def play(self, lines: Iterable[str]) -> Breach | None:
        """Run these lines, up to the first after which something is wrong, and evict all that is left, bit by bit."""
        if self.made.error is not None:
            return self.end(15 if self.page_size > 1 else 1, self.made.in_words)
        found = filter(None, map(self.step, itertools.chain(lines, self.last_lines())))
        return next(found, None) or self.scar

    def last_lines(self) -> Iterator[str]:
        """Evictions, until nothing more can go."""
        while self.model.unlocked_leaves() and "evict" not in self.subject.lacks:
            yield f"cache.evict({self.page_size})"

    def step(self, line: str) -> Breach | None:
        """Run one line in both worlds; where they part, if they do. What is trusting gets no line that is refused."""
        expected = self.expected.step(line)
        if self.subject.trusting and expected.error:
            return None
        reply = self.world.step(line)
        self.lines.append(line)
        if reply.error:
            self.raised[len(self.lines) - 1] = next(
                each.__name__ for each in type(reply.error).__mro__ if each.__module__ == "builtins"
            )
        if not (expected.verb and reply.verb):
            return None
        found = self.judge(reply, expected) or self.look_around(reply, expected)
        if found is None:
            self.witness(expected)
        return found

    def end(self, rule: int, words: str, endless: bool = False) -> Breach:
        """The breach of a `rule` that the lines so far show, and in `words` what happened."""
        body, head = Scenario(tuple(self.lines), self.page_size), self.subject.head(self.page_size, self.settings)
        return Breach(rule, body, words, head, self.raised, endless)

    def reach(self, seen: dict[int, Any]) -> None:
        """Note the rules that could have been broken."""
        self.reached |= {rule for rule, was in seen.items() if was}

    def judge(self, reply: Reply, expected: Reply) -> Breach | None:
        """The rule that a reply breaks, or `None` if it is as `expected`."""
        got, want, is_late = reply.value, expected.value, isinstance(reply.error, TooLong)
        if expected.error is not None and not is_late:
            return self.refusal(reply, expected)
        if reply.error is not None:
            return self.end(RULE_OF.get(reply.verb, 0), reply.in_words, endless=is_late)
        if reply.verb == "evict":
            return self.eviction(reply, expected)
        if reply.verb == "insert":
            return self.insertion(got, expected)
        if got == want or 3 not in self.subject.claims:
            return None
        pages = set(got["pages"])
        is_a_slot_each = self.page_size > 1 and len(got["pages"]) == want["length"]
        rule = 9 if pages & self.evicted else 4 if pages & self.offered else 15 if is_a_slot_each else 3
        return self.end(rule, differing(got, want))

    def refusal(self, reply: Reply, expected: Reply) -> Breach | None:
        """A call that must be refused: with a `LockError`, or as bad input."""
        rule = self.refused_by(expected)
        if expected.verb == "reset" and reply.error is None and not self.model.protected_size:
            self.model.held.clear()  # whether a lock on nothing is a lock is left open
            self.model.reset()
            return None
        kinds = ["LockError"] * (rule == 4 or isinstance(expected.error, LockError))
        kinds += ["ValueError", "TypeError"] * (rule == 4 or not kinds)
        if is_named(reply.error, *kinds):
            self.refused[len(self.lines) - 1] = rule
            return None
        return self.end(rule, f"{reply.in_words}, expected a {' or a '.join(kinds)}: {expected.error}")

    def refused_by(self, expected: Reply) -> int:
        """The rule by which the model refuses a call."""
        if not isinstance(expected.error, LockError):
            return _BAD_INPUT.get(str(expected.error).split()[0].partition("[")[0], 1)
        is_reset = "cache.reset()" in self.lines and expected.verb == "lock"
        return 11 if is_reset and expected.args[0].epoch is not self.model.epoch else RULE_OF[expected.verb]

    def insertion(self, got: dict[str, Any], expected: Reply) -> Breach | None:
        """A cache that does not claim rule 4 may store less, and the model then stores as much."""
        want, size, model, done = expected.value, self.page_size, self.model, expected.result
        if got != want and (4 in self.subject.claims or got["length"] > want["length"]):
            return self.end(4, differing(got, want))
        cached, there = model.path(done.namespace, done.node[0]), want["prefix_length"] // size
        offered = zip(plain(expected.args[1]), cached[:there])
        self.offered |= {page for page, key in offered if model.pages[key].number != page}
        stored = got["length"] // size
        model.drop(cached[max(there, stored) :])
        if got["length"] < want["length"]:
            done.node, done.length = model.place(cached[:stored])
        return None

    def eviction(self, reply: Reply, expected: Reply) -> Breach | None:
        """The rule that an eviction broke and how, or `None`; the model then forgets the same pages.

        The contract leaves open how much a leaf is: a page, or a node of many pages. So it may take any unlocked leaves
        that were used least recently, and of the last one more than is needed.
        """
        model, numbers, size = self.model, reply.value, self.page_size
        keys = {page.number: key for key, page in model.pages.items()}
        for place, number in enumerate(numbers):
            if number in numbers[:place]:
                return self.end(9, f"gives page {number} twice")
            if number not in keys:
                pages, why = {each // size for each in numbers}, "was evicted before" * (number in self.evicted)
                are_slots = size > 1 and pages <= keys.keys() and len(set(numbers)) == size * len(pages)
                rule = 4 if number in self.offered else 15 if are_slots else 9
                return self.end(rule, f"gives {numbers}: page {number} {why or 'is not cached'}")
        gone, wanted = [keys[number] for number in numbers], int(reply.args[0])
        faults = itertools.chain(self.torn(gone), self.too_much(gone, wanted), self.too_new(gone) if gone else ())
        if (found := next((each for each in faults if each.rule in self.subject.claims), None)) is None:
            self.look_for_wide_scars(sorted(numbers), wanted)
            model.drop(gone)
            self.evicted |= set(numbers)
        return found

    def torn(self, gone: list[PageKey]) -> Iterator[Breach]:
        """Each page that is evicted although it is locked, then each that is evicted while a later page stays."""
        pages, model = self.model.pages, self.model
        for key in filter(model.locked, gone):
            yield self.end(6, f"evicts page {pages[key].number}, which is locked")
        for key in gone:
            for below in model.below(key):
                if below not in gone:
                    words = f"evicts page {pages[key].number}, and keeps page {pages[below].number}, which comes after"
                    yield self.end(9, f"{words} it")

    def too_much(self, gone: list[PageKey], wanted: int) -> Iterator[Breach]:
        """Enough, and of the last leaf at most too much: an unbroken run that was used together is at most one node."""
        size, freed, pages = self.page_size, len(gone) * self.page_size, self.model.pages
        least = min(-(-wanted // size) * size, self.model.evictable_size)
        if freed < least:
            yield self.end(9, f"frees {freed} tokens, expected {least}")
        self.reach({9: gone, 6: freed < wanted and self.model.protected_size})  # a lock was in the way
        used = {key: pages[key].last_used for key in gone}
        runs = [sum(is_on_the_way(each, *key) and used[each] == used[key] for each in gone) for key in gone]
        if gone and freed - size * max(runs) >= wanted:
            yield self.end(9, f"frees {freed} tokens, more leaves than it takes to free {wanted}")

    def too_new(self, gone: list[PageKey]) -> Iterator[Breach]:
        """Of what went, nothing was used later than a leaf that stays, or than what came after that."""
        pages, model, left = self.model.pages, self.model, copy.copy(self.model)
        left.pages = {key: page for key, page in pages.items() if key not in gone}
        latest = max((pages[key] for key in gone), key=lambda page: page.last_used)

        def is_older(key: PageKey) -> bool:
            return all(pages[each].last_used < latest.last_used for each in (key, *model.below(key)))

        for stays in filter(is_older, left.unlocked_leaves()):
            yield self.end(
                8, f"evicts page {latest.number}, although page {pages[stays].number} was used less recently"
            )
            return
        newer = any(pages[key].last_used > latest.last_used for key in model.unlocked_leaves())
        locked = any(page.last_used < latest.last_used and model.locked(key) for key, page in pages.items())
        self.reach({8: newer, 6: locked})  # without its lock, that page would have gone first

    def sizes(self) -> list[int]:
        """The sizes, as the cache has them."""
        return [read_number(getattr(self.index, name), name) for name in SIZES]

    def look_around(self, reply: Reply, expected: Reply) -> Breach | None:
        """The sizes, and whether all is joined."""
        if 7 in self.subject.claims:
            found, right = attempt(self.sizes), [getattr(self.model, name) for name in SIZES]
            if found.error is not None:
                return self.end(7, f"reading the sizes {found.in_words}")
            wrong = [f"{name} is {a}, expected {b}" for name, a, b in zip(SIZES, found.value, right) if a != b]
            if wrong:
                return self.end(self.rule_of_sizes(expected, found.value[0]), f"then {'; '.join(wrong)}")
        self.look_for_scars()
        return None

    def rule_of_sizes(self, expected: Reply, evictable_size: int) -> int:
        """Return whether the counting or the locking is wrong, by evicting all that can be evicted."""
        if expected.error is not None:
            return self.refused_by(expected)
        if expected.verb == "reset":
            return 11
        if not self.has_locked:
            return 7
        freed, model = self.world.step(f"cache.evict({ALL})").value or [], self.model
        evictable = [page.number for key, page in model.pages.items() if not model.locked(key)]
        is_counted = len(freed) * self.page_size == evictable_size
        return 6 if is_counted and sorted(freed) != sorted(evictable) else 7

    @property
    def has_locked(self) -> bool:
        """Return whether anything was locked at any time."""
        return any(verb in line for line in self.lines for verb in ("lock(", "acquire("))

    def look_for_scars(self) -> None:
        """Where all that is used together is joined, a cache has no more nodes than the model."""
        model = self.model
        if 14 in self.subject.claims and callable(getattr(self.index, "nodes", None)):
            ends = sum(key in model.ends or not model.below(key) for key in model.pages)
            nodes = attempt(lambda: sum(1 for _ in self.index.nodes())).value
            words = f"then the cache has {nodes} nodes, expected {ends}: the others are joined"
            self.compare_joined(nodes is not None and nodes <= ends, words)

    def look_for_wide_scars(self, gone: list[int], wanted: int) -> None:
        """By whole nodes, as much goes as if what is used together had been joined."""
        if 14 in self.subject.claims and self.model.cuts:
            other = Recorder(self.make())
            other.step(f"cache.insert({[*range(4 * self.page_size)]}, [0, 1, 2, 3])")
            if len(other.step("cache.evict(1)").value or ()) == 4:  # the whole of a leaf when one token is wanted
                joined = copy.deepcopy(self.model)
                joined.follows = False
                expected = sorted(joined.evict(wanted).tolist())
                words = f"evicts pages {gone}, expected {expected}: one node, if it was joined"
                self.compare_joined(gone == expected, words)

    def compare_joined(self, is_joined: bool, words: str) -> None:
        """Keep the first scar; without a cut there could have been none."""
        self.scar = self.scar or (None if is_joined else self.end(14, words))
        self.reach({14: self.model.cuts})

    def witness(self, expected: Reply) -> None:
        """Tell `reach`; what an eviction could have broken is told where that is judged."""
        model, verb, value = self.model, expected.verb, expected.value
        refused = self.refused.get(len(self.lines) - 1)
        is_reset = 7 in self.reached and (refused == 11 or verb == "reset")
        self.reach({1: refused == 1, 5: model.cuts and model.protected_size, 7: model.pages, 11: is_reset})
        if value is None or verb == "evict":
            return
        name, size = expected.options.get("namespace"), self.page_size
        first = tuple(pack(expected.args[0]).tolist()[:size])
        found = verb != "insert" and value["length"]
        self.reach({
            2: found and any("[0] = " in line for line in self.lines), 3: found, 4: value.get("prefix_length"),
            10: any(tokens == first and other != name for other, tokens in model.pages), 15: found and size > 1,
        })  # fmt: skip
