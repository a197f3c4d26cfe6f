"""A manager at work, as the pieces of chapter 07 are judged: what an engine would do, and what can be seen of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from minikv.course.pieces.identity import ALL_RIGHT, kept, shuffle
from minikv.course.pieces.observe import bracketed, came_of, numbers, outline
from minikv.engine import World, ours
from minikv.engine.shells import SequenceShell, faults, name_of
from minikv.errors import OutOfPages
from minikv.testing.canary import Canary, CanaryError
from minikv.testing.snapshot import plain, ranges

_LARGE = 70_000  # what stands for the token 9: it is no byte


def _tokens(prompt: str) -> list[int]:
    return [_LARGE if token == 9 else token for token in numbers(prompt)]


class Desk:
    """A manager of a world and a canary that does what an engine would do, one step after the other."""

    def __init__(self, world: World, num_pages: int, page_size: int):
        self.world, self.canary, self.count = world, Canary(), 0
        self.manager = world["CacheManager"](num_pages, page_size)
        shuffle(self.manager.pool)

    def step(self, verb: str, what: str, more: str = "") -> tuple[str, Mapping[str, Any]] | None:
        """Do one step; what was done in words, and the result. `None` if no running request could do it."""
        if verb == "start":
            namespace = f" in namespace {more!r}" if more else ""
            return f"start {bracketed(_tokens(what))}{namespace}", self.start(what, more)
        if not self.manager.sequences:
            return None
        sequence = self.manager.sequences[int(what) % len(self.manager.sequences)]
        name = name_of(sequence)
        if verb == "compute":
            count = min(int(more or 99), len(sequence.tokens) - sequence.computed)
            self.compute(sequence, count)
            return f"compute {count} token{'s' * (count != 1)} of {name}", {}
        if verb == "extend":
            error, _ = came_of(lambda: self.manager.extend(sequence, _tokens(more)), OutOfPages)
            return f"extend {name} by {bracketed(_tokens(more))}", {"raised": error}
        if verb == "truncate":
            least = max(1, sequence.shared)
            length = least + int(more) % (len(sequence.tokens) - least + 1)
            self.manager.truncate(sequence, length)
            return f"truncate {name} to {length} token{'s' * (length != 1)}", {}
        getattr(self.manager, verb)(sequence)
        return f"{verb} {name}", {}

    def start(self, prompt: str, namespace: str) -> Mapping[str, Any]:
        """Call the piece; say what it raised or returned."""
        tokens, start, running = self.world["pack"](_tokens(prompt)), self.world["start"], len(self.manager.sequences)
        error, made = came_of(lambda: start(self.manager, tokens, namespace or None), OutOfPages)
        for sequence in (*self.manager.sequences, made):
            if isinstance(sequence, SequenceShell) and not sequence.number:
                self.count += 1
                sequence.number, sequence.page_size = self.count, self.manager.page_size
                sequence.cached_length = sequence.shared
        if error != "no error" and len(self.manager.sequences) > running:
            error += ", and the request runs all the same"
        # A class that a decorated answer found may be another notebook's.
        return {"raised": error, "what is returned": "the request" if isinstance(made, SequenceShell) else made}

    def compute(self, sequence: Any, count: int) -> None:
        """Keys and values of the next tokens come into their slots."""
        upto, slots = sequence.computed + count, plain(sequence.slots)
        if len(slots) >= upto:
            self.canary.write(sequence.tokens[:upto], slots, sequence.computed, sequence.namespace, name_of(sequence))
        self.manager.advance(sequence, count)

    def seen(self) -> dict[str, Any]:
        """Whose each page is, the running requests, and what attention reads through their rows."""
        for sequence in self.manager.sequences:
            if not isinstance(sequence.row, list):
                raise TypeError(f"the row is {sequence.row!r:.60}: expected a list of page numbers")
            for page in sequence.row:
                if not 0 <= page < self.manager.num_pages:
                    raise ValueError(
                        f"{name_of(sequence)} has page {page} in its row: the last is {self.manager.num_pages - 1}"
                    )
        shuffle(self.manager.pool)  # in which order pages went back makes no difference
        owners = _owners(self.manager)
        return {
            "the audit": next(faults(self.manager, owners), ALL_RIGHT),
            "who owns what": _whose(owners),
            "what is cached": self.cached(),
            "the nodes that were there": kept(*self.manager.cache.roots.values()),
            "who runs": self.each(lambda sequence: "runs"),
            "the rows, in pages": self.each(lambda sequence: bracketed(sequence.row)),
            "shared and computed tokens": self.each(lambda sequence: f"{sequence.shared} and {sequence.computed}"),
            "the tokens": self.each(lambda sequence: bracketed(sequence.tokens)),
            "the namespaces": self.each(lambda sequence: repr(sequence.namespace)),
            "locks that somebody holds": sum(self.manager.cache.held.values()),
            "what attention reads": self.read(),
        }

    def cached(self) -> str:
        """The trees by their namespaces, and the sizes."""
        trees = [f"{outline(root)} for {name!r}" for name, root in self.manager.cache.roots.items()]
        cache = self.manager.cache
        return f"{'; '.join(trees)}; {cache.evictable_size} evictable, {cache.protected_size} protected"

    def each(self, what: Callable[[Any], str]) -> str:
        """Something of every running request, in words."""
        said = [f"{name_of(sequence)}: {what(sequence)}" for sequence in self.manager.sequences]
        return "; ".join(said) or "nobody runs"

    def read(self) -> str:
        """Say whether each running request finds what it computed or was promised."""
        for sequence in self.manager.sequences:
            done = sequence.computed
            try:
                self.canary.read(sequence.tokens[:done], plain(sequence.slots)[:done], sequence.namespace)
            except CanaryError as error:
                return f"{name_of(sequence)}: {' '.join(str(error).split())}"
        return ALL_RIGHT


def _whose(owners: list[list[str]]) -> str:
    """Everybody's pages on one line."""
    owned: dict[str, list[int]] = {}
    for page, names in enumerate(owners):
        for name in names:
            owned.setdefault(name, []).append(page)
    return "; ".join(f"{name}: {ranges(owned[name])}" for name in sorted(owned))


def _owners(manager: Any) -> list[list[str]]:
    found: list[list[str]] = ours("7.8", {})(manager)
    return found


def fault_in(manager: Any) -> str:
    """The first page that is lost, has two owners, or is read or locked wrongly; empty if there is none.

    >>> from minikv.engine import engine_world
    >>> fault_in(engine_world()["CacheManager"](4))
    ''
    """
    return next(faults(manager, _owners(manager)), "")


# -- what chapter 07 uses in its cells --------------------------------------------------------------------------------


def watched(kind: Callable[[int], Any]) -> Any:
    """A manager of 12 pages with a canary, which complains when a slot is read that holds something else.

    >>> from minikv import CacheManager
    >>> watched(CacheManager).pool.num_free
    12
    """
    manager = kind(12)
    manager.canary = Canary()
    return manager


def compute(manager: Any, sequence: Any) -> None:
    """Do what an engine does: read everything that is computed through the row, compute the rest, and advance.

    >>> from minikv import CacheManager
    >>> manager = watched(CacheManager)
    >>> sequence = manager.start([1, 2, 3])
    >>> compute(manager, sequence); sequence.computed
    3
    """
    done, slots = sequence.computed, sequence.slots
    manager.canary.read(sequence.tokens[:done], slots[:done])
    manager.canary.write(sequence.tokens, slots, done)
    manager.advance(sequence)


_VERBS = "advance", "checkpoint", "extend", "truncate", "finish", "abort"


def same_days(yours: Any, ours: Any, steps: int) -> int:
    """Let two managers live through the same random steps; return how many tokens both have in their caches.

    `AssertionError` names the first step after which they differ.

    >>> from minikv import CacheManager
    >>> same_days(CacheManager(100, 2), CacheManager(100, 2), steps=20) > 0
    True
    """
    chance, pairs = random.Random(7), list[tuple[Any, Any]]()
    for step in range(1, steps + 1):
        tokens = chance.choices([1, 2], k=chance.randint(1, 8))
        if len(pairs) < 3:
            pairs.append((yours.start(tokens), ours.start(tokens)))
        pair, verb = chance.choice(pairs), chance.choice(_VERBS)
        given = {"extend": [tokens], "truncate": [max(1, pair[1].shared)]}.get(verb, [])
        try:
            for manager, sequence in zip((yours, ours), pair):
                getattr(manager, verb)(sequence, *given)
            yours.check()
        except Exception as error:
            raise AssertionError(f"step {step}, {verb}: {type(error).__name__}: {error}") from error
        free = yours.pool.num_free, ours.pool.num_free
        assert free[0] == free[1], f"step {step}, {verb}: yours has {free[0]} free pages, ours {free[1]}"
        pairs = [each for each in pairs if each[1].state == "running"]
    return int(yours.cache.total_size)
