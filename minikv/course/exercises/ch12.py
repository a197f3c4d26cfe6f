"""The exercises of chapter 12: which windows are worth keeping, and an unlock that looks again."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from minikv.course.exercises.exercise import Exercise, Hunt, Wrong
from minikv.course.exercises.judge import Script


def windows_to_keep(ends: Sequence[int], window: int) -> int:
    """How many tokens of one path must keep their window, if matches will end behind `ends` tokens of it.

    >>> windows_to_keep([8, 10], window=4)
    6
    """
    kept: set[int] = set()
    for end in ends:
        kept.update(range(max(0, end - window), end))
    return len(kept)


class TinyWindows:
    """One path of tokens: which of them are live, and how many requests have pinned each; requests lock by name."""

    def __init__(self, window: int):
        self.window = window
        self.live: list[bool] = []
        self.pins: list[int] = []
        self.receipts: dict[str, list[int]] = {}
        self.ends: dict[str, int] = {}

    def grow(self, count: int) -> None:
        """`count` tokens are computed and cached behind the others."""
        self.live += [True] * count
        self.pins += [0] * count

    def bury(self, at: int) -> bool:
        """Free the window of token `at`, if nobody has pinned it."""
        if self.pins[at]:
            return False
        self.live[at] = False
        return True

    def heal(self, at: int) -> None:
        """Token `at` was computed again: it has its window back."""
        self.live[at] = True

    def lock(self, name: str) -> None:
        """Pin what is live among the last tokens, and keep a receipt."""
        if name in self.receipts:
            raise ValueError(f"{name} holds a lock already")
        self.ends[name] = len(self.live)
        self.receipts[name] = self.last(len(self.live))
        for at in self.receipts[name]:
            self.pins[at] += 1

    def unlock(self, name: str) -> None:
        """Give back what `name` pinned."""
        del self.ends[name]
        for at in self.receipts.pop(name):
            self.pins[at] -= 1

    def last(self, end: int) -> list[int]:
        """The live tokens among the last ones before `end`."""
        return [at for at in range(max(0, end - self.window), end) if self.live[at]]


class CarelessWindows(TinyWindows):
    """The same, but to unlock it looks for the tokens again."""

    def unlock(self, name: str) -> None:
        """Give back what `name` pinned."""
        del self.receipts[name]
        for at in self.last(self.ends.pop(name)):
            self.pins[at] -= 1


def _added_up(ends: Sequence[int], window: int) -> int:
    return sum(min(end, window) for end in ends)


def _below_the_root(ends: Sequence[int], window: int) -> int:
    return len({at for end in ends for at in range(end - window, end)})


def _the_last_alone(ends: Sequence[int], window: int) -> int:
    return min(max(ends, default=0), window)


def _one_too_many(ends: Sequence[int], window: int) -> int:
    return len({at for end in ends for at in range(max(0, end - window), end + 1)})


def _one_too_few(ends: Sequence[int], window: int) -> int:
    return len({at for end in ends for at in range(max(0, end - window + 1), end)})


def _the_whole_path(ends: Sequence[int], window: int) -> int:
    return max(ends, default=0)


def _nothing_healed() -> Script:
    return Script((2,), (("grow", (3,)), ("bury", (2,)), ("lock", ("Anna",)), ("unlock", ("Anna",))))


def _nothing_dead() -> Script:
    return Script((2,), (("grow", (3,)), ("lock", ("Anna",)), ("heal", (2,)), ("unlock", ("Anna",))))


def _no_unlock() -> Script:
    return Script((2,), (("grow", (3,)), ("bury", (2,)), ("lock", ("Anna",)), ("heal", (2,))))


def _advice(script: Script) -> str | None:
    """A hint for a script that does no harm: what it does not do yet."""
    verbs = [verb for verb, _ in script.operations]
    if "unlock" not in verbs:
        return "locking is right in both: the careless line runs when somebody unlocks"
    if "bury" not in verbs:
        return "every token is live, so the place looks the same again: let one lose its window before the lock"
    return "the tokens that are live have not changed between lock and unlock: what brings one back to life?"


def _praise(script: Script) -> str:
    """Whether a script that found the bug also took the pin of another request."""
    names = {given[0] for verb, given in script.operations if verb == "lock"}
    if len(names) > 1:
        return "And it took the pin of another request!"
    return "Can you make it take the pin of another request?"


EXERCISES = (
    Exercise(
        id="12.5",
        name="windows_to_keep",
        reference=windows_to_keep,
        cases=[([8], 4), ([8, 10], 4), ([2], 4), ([10, 20], 4), ([], 4), ([8, 8], 4), ([3, 1, 2], 1), ([4, 20, 5], 3)],
        strategy=st.tuples(st.lists(st.integers(0, 20), max_size=5), st.integers(1, 6)),
        hint="collect the tokens themselves in a set, so that none is counted twice",
        wrong=(
            Wrong(_added_up, "windows that overlap share their tokens: count each token once"),
            Wrong(_below_the_root, "no token comes before the root: a short path keeps all it has, and no more"),
            Wrong(_the_last_alone, "a match may end at any of the places, not at the last one alone"),
            Wrong(_one_too_many, "a path of `end` tokens has the tokens 0 to end - 1"),
            Wrong(_one_too_few, "a window of 4 that ends behind 8 tokens is tokens 4 to 7: four of them"),
            Wrong(_the_whole_path, "only the last `window` tokens before each end are read"),
        ),
    ),
    Hunt(
        id="12.6",
        name="CarelessWindows",
        careless=CarelessWindows,
        reference=TinyWindows,
        observe="pins",
        example=Script((2,), (("grow", (3,)), ("bury", (2,)), ("lock", ("Anna",)), ("heal", (2,)),
                              ("lock", ("Ben",)), ("unlock", ("Anna",)))),
        hint="between lock and unlock, make the tree find more live tokens than it did before",
        advice=_advice,
        praise=_praise,
        wrong=(
            Wrong(_nothing_healed, "the tokens that are live have not changed between lock and unlock: what brings "
                                   "one back to life?"),
            Wrong(_nothing_dead, "every token is live, so the place looks the same again: let one lose its window "
                                 "before the lock"),
            Wrong(_no_unlock, "locking is right in both: the careless line runs when somebody unlocks"),
        ),
    ),
)  # fmt: skip
