"""The pieces of chapter 11: forking a branch, dropping pages, the copy before the first write, and settling a draft."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from hypothesis import strategies as st

from minikv.course.pieces.hunt import Calls, calls_of, engine_hunt
from minikv.course.pieces.piece import Frames, Piece, Shown, called, exercise
from minikv.course.pieces.props import bracketed, shuffle, steps_of
from minikv.course.pieces.trial import Played, rebound
from minikv.engine import World, engine_world

_PAGES = 7
_NUMBER = st.integers(0, 3)
_STEP = st.builds(
    "{} {} {}".format, st.sampled_from(["append", "append", "fork", "attach", "detach"]), _NUMBER, _NUMBER
)
_BUILT = st.tuples(st.integers(1, 3), st.lists(_STEP, max_size=5).map(", ".join))
_THREE = 2, "append 0 3"  # a: [A B] [C .]
_FORKED = 2, "append 0 3, fork 0"  # b has the same
_PARTED = 2, "append 0 3, fork 0, append 1 2"  # b: the first page of a, and two of its own
_FULL = 2, "append 0 4, fork 0"  # as _FORKED, but the last page is full
_THREE_HAVE_IT = 2, "append 0 3, fork 0, fork 0"


@lru_cache
def _ours() -> World:
    return engine_world(2, 11)


class _Value(str):
    """A value, which may be anything: one of them counts as false."""

    def __bool__(self) -> bool:
        return self != "C"


def built(case: tuple[int, str]) -> Any:
    """Shared pages after some steps, made by our own pieces; no token comes twice, and their values are letters.

    A step is a verb, the place of a branch, and perhaps how many tokens. One for which there is no room is left out.
    """
    size, day = case
    cache, count = _ours()["SharedPages"](_PAGES, size), 0
    shuffle(cache.pool)
    cache.values = [["old" if page < 5 else None] * size for page in range(_PAGES)]  # some have been in use
    cache.attach("a", [])
    for verb, which, *more in steps_of(day):
        name, new = _name_of(cache, int(which)), chr(ord(max(cache.branches)) + 1)
        if verb == "append":
            numbers = range(count, count + int(more[0]))
            with suppress(MemoryError):
                cache.append(name, [11 + at for at in numbers], [_Value(chr(ord("A") + at)) for at in numbers])
                count += len(numbers)
        elif verb == "fork":
            cache.fork(name, new)
        elif verb == "attach":
            cache.attach(new, list(cache.branches[name].tokens))
        elif len(cache.branches) > 1:
            cache.detach(name)
    return cache


def _name_of(cache: Any, which: int) -> str:
    names: list[str] = list(cache.branches)
    return names[which % len(names)]


def _branch(made: Any, which: int) -> tuple[Any, str, Any]:
    """Shared pages, and the name of one of their branches with the branch itself."""
    cache = built(made)
    name = _name_of(cache, which)
    return cache, name, cache.branches[name]


def _tidy(cache: Any, branch: Any = None, free: Sequence[int] = ()) -> None:
    """Take away what may differ: the order in which pages were freed, or were taken by a branch, and unused places."""
    cache.pool.stack.sort()
    places = [at for at, page in enumerate(branch.pages) if page in free] if branch else []
    taken = [branch.pages[at] for at in places]
    values = [cache.values[page] for page in taken]
    for at, page, held in zip(places, sorted(taken, key=free.index), values):
        branch.pages[at], cache.values[page] = page, held
    for page, held in enumerate(cache.values):
        ends = [len(each.tokens) - cache.size * each.pages.index(page)
                for each in cache.branches.values() if page in each.pages]  # fmt: skip
        for place in range(max([0, *ends]), len(held)):
            held[place] = None


def play_fork_branch(world: World, case: Any) -> Frames:
    """One of the branches is forked, and then one without a name, as `attach` does."""
    cache, name, branch = _branch(*case)
    yield Shown("before", {"cache": cache})
    yield called(world, "fork_branch", cache=cache, **{name: branch})
    nameless = type(branch)(list(branch.tokens), list(branch.pages))
    yield called(world, "fork_branch", cache=cache, nameless=nameless)


def play_drop_pages(world: World, case: Any) -> Frames:
    """Branches let go of their pages from number `start` on, one after the other."""
    made, leaving = case
    cache = built(made)
    yield Shown("before", {"cache": cache})
    for which, start in leaving:
        branch = cache.branches[_name_of(cache, which)]
        start = min(start, len(branch.pages))
        kept, given = branch.pages[:start], branch.pages[start:]
        if not start:  # as when a branch ends; one that keeps some pages still has all of them during the call
            branch.pages = kept
        shown = called(world, "drop_pages", cache=cache, pages=given)
        branch.tokens, branch.pages = branch.tokens[: start * cache.size], kept
        _tidy(cache)
        yield shown


def play_own_pages(world: World, case: Any) -> Frames:
    """A branch is to have `count` more tokens."""
    made, which, count = case
    cache, name, branch = _branch(made, which)
    free = cache.pool.stack[::-1]
    yield Shown("before", {name: branch, "cache": cache})
    shown = called(world, "own_pages", MemoryError, cache=cache, **{name: branch}, count=count, also={name: branch})
    _tidy(cache, branch, free)
    yield shown


def play_settle_draft(world: World, case: Any) -> Frames:
    """A branch has a draft, of which the first `right` tokens are correct."""
    made, which, drafted, right = case
    cache, name, branch = _branch(made, which)
    draft, right = list(range(101, 101 + drafted)), min(right, drafted)
    try:
        cache.draft(name, draft, draft)
    except MemoryError:
        return
    yield Shown(f"{name} drafts {bracketed(draft)}", {name: branch, "cache": cache})
    shown = called(world, "settle_draft", cache=cache, **{name: branch}, num_right=right, also={name: branch})
    _tidy(cache)
    yield shown._replace(caption=f"{shown.caption} with the draft {bracketed(draft)}")


PIECES = (
    Piece(
        "11.1", "fork_branch", play_fork_branch,
        cases=[(_THREE, 0), (_FORKED, 0), (_FORKED, 1), (_PARTED, 1), (_FULL, 0)],
        strategy=st.tuples(_BUILT, st.integers(0, 3)),
    ),
    Piece(
        "11.2", "drop_pages", play_drop_pages,
        cases=[(_THREE, [(0, 0)]), (_FORKED, [(0, 0)]), (_PARTED, [(1, 0)]),
               (_THREE_HAVE_IT, [(0, 0), (1, 1), (2, 0)]), (_FULL, [(0, 0), (1, 0)])],
        strategy=st.tuples(_BUILT, st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=3)),
    ),
    Piece(
        "11.3", "own_pages", play_own_pages,
        cases=[(_FORKED, 1, 1), (_THREE, 0, 1), ((2, ""), 0, 3), (_FORKED, 0, 2), (_FULL, 1, 1), (_FULL, 1, 2),
               (_FORKED, 1, 0), (_FORKED, 1, 12), (_FORKED, 1, 11), ((2, "append 0 13"), 0, 1), (_PARTED, 1, 1),
               (_THREE_HAVE_IT, 2, 4), ((2, "append 0 5, fork 0"), 1, 1)],
        strategy=st.tuples(_BUILT, st.integers(0, 3), st.integers(0, 9)),
    ),
    Piece(
        "11.4", "settle_draft", play_settle_draft,
        cases=[(_THREE, 0, 4, 2), (_THREE, 0, 4, 4), (_THREE, 0, 4, 0), (_FORKED, 1, 4, 1), (_PARTED, 0, 3, 1),
               ((2, ""), 0, 3, 2), ((2, "append 0 2"), 0, 3, 1)],
        strategy=st.tuples(_BUILT, st.integers(0, 3), st.integers(0, 5), st.integers(0, 5)),
    ),
)  # fmt: skip


def pages_of_answers(prompt: int, answers: Sequence[int], size: int) -> int:
    """Return how many pages a prompt and its answers have in the end, from their lengths in tokens.

    >>> pages_of_answers(5, [3, 1, 0], 2)
    6
    """
    full, rest = divmod(prompt, size)
    own = sum(-(-(rest + length) // size) for length in answers if length)
    return full + own + bool(rest and not all(answers))


class _Desks:
    """For each version of `drop_pages`, two shared pages of two tokens; a token is its own value."""

    def __init__(self, world: World):
        self.pages = {}
        for version in VERSIONS:
            own = engine_world(2, 11)
            own["drop_pages"] = rebound(world.get("versions", {}).get(version, own["drop_pages"]), own)
            self.pages[version] = own["SharedPages"](2, 2)

    def attach(self, version: str, name: str, tokens: list[int]) -> list[int]:
        """Begin a sequence, and take pages for what is not known; the tokens in all its pages."""
        pages = self.pages[version]
        found = pages.attach(name, tokens)
        pages.append(name, tokens[found:], tokens[found:])
        read: list[int] = pages.get(name)
        return read

    def detach(self, version: str, name: str) -> None:
        """End a sequence; pages that no other has are free."""
        self.pages[version].detach(name)


VERSIONS = "ABC"
_STILL_THERE = "the page still holds what it held: let others write to every free page in between"


def _advice(right: Played) -> str:
    """A hint for a script that does no harm: what it does not do yet."""
    calls = [call for call in calls_of(right) if call.arguments["version"] == "B"]
    if not calls and right.frames:
        return "the versions that you called work, whatever you call: read the rest again"
    ended, again, long = False, False, False
    seen = set[tuple[int, ...]]()
    for call in calls:
        ended = ended or call.verb == "detach"
        if call.verb == "attach":
            tokens = tuple(call.arguments["tokens"])
            again, long = again or (ended and tokens in seen), long or len(tokens) >= 4
            seen.update(tokens[:end] for end in range(1, len(tokens) + 1))
    if not ended:
        return "as long as all sequences live, no page is free: detach one"
    if not long:
        return "letting go of one page does no harm; what about two full pages at once?"
    return _STILL_THERE if again else "pages were freed, but no sequence asks for what was in them"


EXERCISES = (
    exercise(
        "11.5", "pages_of_answers", pages_of_answers,
        cases=[(5, [1], 2), (5, [1, 1], 2), (4, [1, 1], 2), (5, [0], 2), (5, [0, 0], 2), (5, [4, 4, 4], 4)],
        strategy=st.tuples(st.integers(0, 9), st.lists(st.integers(0, 5), min_size=1, max_size=4), st.integers(1, 4)),
    ),
    engine_hunt(
        "11.6", "one_of_three", ("11.6", "B forgets one page alone"),
        Calls(_Desks, ("attach", "detach")),
        advice=_advice,
    ),
)  # fmt: skip
