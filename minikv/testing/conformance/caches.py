"""Scenarios on a prefix cache, beside the naive one: each answer and each size is compared."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, ClassVar

from minikv.errors import LockError
from minikv.pools.contract import Pages
from minikv.prefix.contract import require_wanted
from minikv.testing.attempt import attempt
from minikv.testing.conformance.cases import CASES
from minikv.testing.conformance.evictions import EvictingRun, look_for_scars, wrong_eviction
from minikv.testing.conformance.generate import scenarios
from minikv.testing.conformance.playing import read_number, read_pages, reader
from minikv.testing.conformance.script import Breach, Change, Readers, Reply, Scenario
from minikv.testing.model import NaiveCache
from minikv.testing.snapshot import plain
from minikv.tokens import pack

SIZES = ("evictable_size", "protected_size", "total_size")
_BRANCH = 900  # a token that no scenario has
_APART = 1000  # what is added to the tokens of each further namespace
Args = tuple[tuple[Any, ...], dict[str, Any]]
ALL = 10**6  # more tokens than any scenario caches
_BAD_INPUT = {"tokens": 1, "pages": 1, "namespace": 10, "limit": 3, "start": 4, "num_tokens": 9}
_read_match = reader(length=read_number, pages=read_pages)


class FollowingModel(NaiveCache):
    """The naive model, which evicts what the index has evicted: the contract leaves open how much a leaf is.

    >>> model = FollowingModel()
    >>> _ = model.insert([1, 2], [5, 6])
    >>> len(model.evict(1)), model.total_size
    (0, 2)
    """

    def evict(self, num_tokens: int) -> Pages:
        """Nothing yet: `drop` follows as soon as the index has said what goes."""
        require_wanted(num_tokens)
        return super().evict(0)


class CacheRun(EvictingRun):
    """One scenario on a new cache, at whose end all is evicted.

    >>> from minikv import RadixCache
    >>> from minikv.testing.conformance.subject import subject_of
    >>> CacheRun(subject_of(RadixCache, range(1, 16)), 1, {}).play(["cache.insert([1, 2], [5, 6])"])
    """

    name = "cache"
    readers: ClassVar[Readers] = {
        "match_prefix": _read_match,
        "acquire": _read_match,
        "insert": reader(prefix_length=read_number, length=read_number),
        "evict": lambda result: read_pages(result, "the result"),
    }
    rule_of: ClassVar[Mapping[str, int]] = {
        "match_prefix": 3, "acquire": 6, "insert": 4, "lock": 6, "unlock": 6, "evict": 9, "reset": 11, "check": 12,
    }  # fmt: skip
    words: ClassVar[Mapping[int, str]] = {10: "namespace", 6: "lock(", 11: "reset(", 3: "limit="}
    cases = CASES
    needs = frozenset(["insert", "match_prefix"])
    examples = 1000
    scenarios = staticmethod(scenarios)

    def new_model(self) -> FollowingModel:
        """A naive cache, which evicts as this one does."""
        return FollowingModel(self.page_size, self.settings.get("evict_by", "node"))

    def missing(self) -> dict[int, Breach]:
        """The verbs that the cache lacks, and the sizes."""
        found = super().missing()
        for name in SIZES:
            if attempt(lambda name=name: getattr(self.index, name)).error is not None:
                self.lines = [f"cache.{name}"]
                found[7] = self.end(7, f"it has no {name}")
        return found

    @property
    def has_locked(self) -> bool:
        """Return whether anything was locked at any time."""
        return bool(self.verbs & {"lock", "unlock", "acquire"})

    def last_lines(self) -> Iterator[str]:
        """Evict all that is left, bit by bit."""
        while self.model.unlocked_leaves() and "evict" not in self.subject.lacks:
            yield f"cache.evict({self.page_size})"

    def refusal(self, reply: Reply, expected: Reply) -> Breach | None:
        """A call that must be refused: with a `LockError`, or as bad input."""
        rule = self.refused_by(expected)
        if expected.verb == "reset" and reply.error is None and not self.model.protected_size:
            self.model.held.clear()  # whether a lock on nothing is a lock is left open
            self.model.reset()
            return None
        kinds = ["LockError"] * (rule == 4 or isinstance(expected.error, LockError))
        kinds += ["ValueError", "TypeError"] * (rule == 4 or not kinds)
        return self.require_refused(reply, expected, rule, kinds)

    def refused_by(self, expected: Reply) -> int:
        """The rule by which the model refuses a call."""
        if isinstance(expected.error, LockError):
            stale = [arg for arg in expected.args if getattr(arg, "epoch", self.model.epoch) is not self.model.epoch]
            if expected.verb in ("lock", "unlock"):
                return 11 if stale and expected.verb == "lock" and "cache.reset()" in self.lines else 6
            return 11 if expected.verb == "reset" else 4
        return _BAD_INPUT.get(str(expected.error).split()[0].partition("[")[0], 1)

    def compare(self, reply: Reply, expected: Reply) -> Breach | None:
        """Compare the tokens that are found, stored or evicted with the model's."""
        if reply.verb in ("match_prefix", "acquire"):
            return self._match(reply.value, expected.value) if 3 in self.subject.claims else None
        if reply.verb == "insert":
            return self._insertion(reply.value, expected)
        return wrong_eviction(self, reply) if reply.verb == "evict" else None

    def _match(self, got: dict[str, Any], want: dict[str, Any]) -> Breach | None:
        if got == want:
            return None
        if set(got["pages"]) & self.evicted:
            rule = 9
        elif set(got["pages"]) & self.offered:
            rule = 4
        elif len(got["pages"]) == got["length"] == want["length"] != len(want["pages"]):
            rule = 15
        else:
            rule = 3
        return self.end(rule, f"gives {_in_words(got)}, expected {_in_words(want)}")

    def _insertion(self, got: dict[str, Any], expected: Reply) -> Breach | None:
        """An index that does not claim rule 4 may store less, and the model then stores as much."""
        want, size = expected.value, self.page_size
        tokens = pack(expected.args[0]).tolist()
        # those before a start may be anything
        pages = [int(page) if isinstance(page, int) else -1 for page in plain(expected.args[1])]
        if got != want and (4 in self.subject.claims or got["length"] > want["length"]):
            return self.end(4, f"gives {_in_words(got)}, expected {_in_words(want)}")
        there = want["prefix_length"] // size
        cached = self.model.path(expected.options.get("namespace"), tuple(tokens))
        self.offered |= {page for page, key in zip(pages, cached[:there]) if self.model.pages[key].number != page}
        self.model.drop(cached[max(there, got["length"] // size) :])
        if got["length"] < want["length"]:
            last = cached[got["length"] // size - 1] if got["length"] else None
            expected.result.length = got["length"]
            expected.result.node = (last[1], self.model.pages[last].birth) if last else ((), 0)
        return None

    def look_around(self, expected: Reply) -> Breach | None:
        """The sizes, and whether all is joined."""
        found = self._sizes(expected) if 7 in self.subject.claims else None
        if found is None:
            look_for_scars(self)
        return found

    def _sizes(self, expected: Reply) -> Breach | None:
        found = attempt(lambda: [read_number(getattr(self.index, name), name) for name in SIZES])
        if found.error is not None:
            return self.end(7, f"reading the sizes {found.in_words}")
        right = [getattr(self.model, name) for name in SIZES]
        if found.value == right:
            return None
        words = "; ".join(f"{name} is {a}, expected {b}" for name, a, b in zip(SIZES, found.value, right) if a != b)
        return self.end(self._rule_of_sizes(expected, found.value), f"then {words}")

    def _rule_of_sizes(self, expected: Reply, sizes: list[int]) -> int:
        """Return whether the counting or the locking is wrong, by evicting all that can be evicted."""
        if expected.error is not None:
            return self.refused_by(expected)
        if expected.verb == "reset":
            return 11
        if not self.has_locked:
            return 7
        with suppress(BaseException):
            self.stage.recorder.evict(ALL)
        freed = self.stage.recorder.reply
        if freed is None or freed.error is not None:
            return 7
        evictable = [page.number for key, page in self.model.pages.items() if not self.model.locked(key)]
        counts_right = sorted(freed.value) != sorted(evictable) and len(freed.value) * self.page_size == sizes[0]
        return 6 if counts_right else 7

    def witness(self, expected: Reply) -> None:
        """Tell `reach`; what an eviction could have broken is told where that is judged."""
        model, verb, value = self.model, expected.verb, expected.value
        refused = self.refused.get(len(self.lines) - 1)
        seen = {
            1: refused == 1,
            5: model.cuts and model.protected_size,
            7: model.pages,
            11: 7 in self.reached and (refused == 11 or verb == "reset"),
        }
        self.reach(seen)
        if expected.error is not None or verb not in ("match_prefix", "acquire", "insert"):
            return
        name = expected.options.get("namespace")
        first = tuple(pack(expected.args[0]).tolist()[: self.page_size])
        found = verb != "insert" and value["length"]
        seen = {
            2: found and any("[0] = " in line for line in self.lines),
            3: found,
            4: value.get("prefix_length"),
            10: any(tokens == first and other != name for other, tokens in model.pages),
            15: found and self.page_size > 1,
        }
        self.reach(seen)

    def alterations(self, found: Breach) -> Iterator[tuple[int, Scenario, Change | None]]:
        """Also copied buffers, lists in place of other forms, tokens in place of namespaces, and no splits.

        What is evicted or counted wrong is a namespace's fault only if it needs equal tokens in two of them.
        """
        yield from super().alterations(found)
        scenario, text = found.scenario, "\n".join(found.scenario.lines)
        if "tokens" in text or "pages[" in text:
            yield 2, scenario, _copied
        if any(form in text for form in ("array", "pack", "deque", "range", "(1,", "b'")):
            yield 1, scenario, _plain
        if "namespace" in text and not found.words.endswith("start is not a prefix of the tokens"):
            yield 10, scenario, _apart(found.is_crash or found.rule in (3, 4))
        if self.model.cuts and self.has_locked and (found.rule in (6, 7) or found.is_crash):
            yield 5, self._cut_before(scenario), None

    def _cut_before(self, scenario: Scenario) -> Scenario:
        """The scenario in a cache that branches where it would split: so it splits nothing, and joins nothing there."""
        cuts = sorted({(tokens, str(name)): name for name, tokens in self.model.cuts}.items())
        lines, page = [], 10**6
        for (tokens, _), name in cuts:
            branch = [*tokens, *[_BRANCH] * scenario.page_size]
            pages = list(range(page, page + len(branch) // scenario.page_size))
            options = f", namespace={name!r}" if name is not None else ""
            lines.append(f"cache.insert({branch}, {pages}{options})")
            page += len(pages)
        return dataclasses.replace(scenario, lines=(*lines, *scenario.lines))


def _in_words(seen: dict[str, Any]) -> str:
    return " and ".join(f"{name} {value}" for name, value in seen.items())


def _copied(verb: str, args: tuple[Any, ...], options: dict[str, Any]) -> Args:
    """Buffers of the cache's own."""
    return tuple(copy.copy(arg) if verb == "insert" else arg for arg in args), options


def _plain(verb: str, args: tuple[Any, ...], options: dict[str, Any]) -> Args:
    """Lists in place of any other sequence."""
    return tuple(map(_list_of, args)) if verb in ("insert", "match_prefix", "acquire") else args, options


def _list_of(values: Any) -> Any:
    try:
        return pack(values).tolist()
    except (TypeError, ValueError):
        return values


def _apart(unnamed: bool) -> Change:
    """Tokens that are different in each namespace, and if `unnamed`, no namespaces."""
    known: dict[Any, int] = {None: 0}

    def change(verb: str, args: tuple[Any, ...], options: dict[str, Any]) -> Args:
        if "namespace" not in options:
            return args, options
        name = options["namespace"]
        try:
            shift = _APART * known.setdefault(name, len(known))
            moved = [token + shift for token in pack(args[0]).tolist()]
        except (TypeError, ValueError):
            return args, options
        return (moved, *args[1:]), {key: value for key, value in options.items() if not unnamed or key != "namespace"}

    return change
