"""The pieces of chapter 11: forking a branch, dropping pages, the copy before the first write, and settling a draft."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from hypothesis import strategies as st

from minikv.course.pieces.hunt import Calls, CallsMade, engine_hunt
from minikv.course.pieces.piece import Frames, Piece, Shown, called, exercise
from minikv.course.pieces.props import bracketed, shuffle, steps_of, up_to
from minikv.course.pieces.worlds import rebound
from minikv.engine import World, engine_world

_PAGES = 7
_NUMBER = up_to(3)
_VERB = st.sampled_from(["append", "append", "fork", "attach", "detach"])
_STEPS = st.lists(st.builds("{} {} {}".format, _VERB, _NUMBER, _NUMBER), max_size=5).map(", ".join)
_THREE = "2, append 0 3"  # pages of 2; a: [A B] [C .]
_FORKED = "2, append 0 3, fork 0"  # b has the same


def _day(asks: str, *numbers: Any) -> Any:
    """Days with any steps, and at their end what is asked for."""
    return st.builds(f"{{}}, {{}}, {asks}".format, st.integers(1, 3), _STEPS, *numbers)


@lru_cache
def _ours() -> World:
    return engine_world(2, 11)


class _Value(str):
    """A value, which may be anything: one of them counts as false."""

    def __bool__(self) -> bool:
        return self != "C"


def built(day: str) -> tuple[Any, list[list[int]]]:
    """Shared pages after a day, made by our own pieces, and what is asked for in the end; no token comes twice.

    A day begins with the size of a page. A step is a verb, the place of a branch, and perhaps how many tokens, whose
    values are letters. One for which there is no room is left out.
    """
    (size,), *steps = steps_of(day)
    cache, count, asks = _ours()["SharedPages"](_PAGES, int(size)), 0, list[list[int]]()
    shuffle(cache.pool)
    cache.values = [["old" if page < 5 else None] * cache.size for page in range(_PAGES)]  # some have been in use
    cache.attach("a", [])
    for verb, *given in steps:
        which, *more = map(int, given)
        name, new = _name_of(cache, which), chr(ord(max(cache.branches)) + 1)
        if verb == "ask":
            asks.append([which, *more])
        elif verb == "append":
            numbers = range(count, count + more[0])
            with suppress(MemoryError):
                cache.append(name, [11 + at * 7 % 30 for at in numbers], [_Value(chr(ord("A") + at)) for at in numbers])
                count += len(numbers)
        elif verb == "fork":
            cache.fork(name, new)
        elif verb == "attach":
            cache.attach(new, list(cache.branches[name].tokens))
        elif len(cache.branches) > 1:
            cache.detach(name)
    return cache, asks


def _name_of(cache: Any, which: int) -> str:
    names: list[str] = list(cache.branches)
    return names[which % len(names)]


def _asked(day: str) -> Any:
    """Shared pages after a day, the name of the branch that is asked for, the branch itself, and further numbers."""
    cache, [(which, *numbers)] = built(day)
    name = _name_of(cache, which)
    return cache, name, cache.branches[name], *numbers


def _tidy(cache: Any, branch: Any = None, free: Sequence[int] = ()) -> None:
    """Take away what may differ: the order in which pages were freed, or were taken by a branch, and unused places."""
    cache.pool.stack.sort(reverse=True)
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


def play_fork_branch(world: World, day: str) -> Frames:
    """One of the branches is forked, and then one without a name, as `attach` does."""
    cache, name, branch = _asked(day)
    yield Shown("before", {"cache": cache})
    yield called(world, "fork_branch", cache=cache, **{name: branch})
    nameless = type(branch)(list(branch.tokens), list(branch.pages))
    yield called(world, "fork_branch", cache=cache, nameless=nameless)


def play_drop_pages(world: World, day: str) -> Frames:
    """Branches let go of their pages from number `start` on, one after the other."""
    cache, leaving = built(day)
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


def play_own_pages(world: World, day: str) -> Frames:
    """A branch is to have `count` more tokens."""
    cache, name, branch, count = _asked(day)
    free = cache.pool.stack[::-1]
    yield Shown("before", {name: branch, "cache": cache})
    shown = called(world, "own_pages", MemoryError, cache=cache, **{name: branch}, count=count, also={name: branch})
    _tidy(cache, branch, free)
    yield shown


def play_settle_draft(world: World, day: str) -> Frames:
    """A branch has a draft, of which the first `right` tokens are correct."""
    cache, name, branch, drafted, right = _asked(day)
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
        "11.1", play_fork_branch,
        cases=[f"{_THREE}, ask 0"],
        strategy=_day("ask {}", _NUMBER),
    ),
    Piece(
        "11.2", play_drop_pages,
        cases=[f"{_THREE}, ask 0 0", f"{_FORKED}, fork 0, ask 0 0, ask 1 1, ask 2 0"],
        strategy=_day("{}", st.lists(st.builds("ask {} {}".format, _NUMBER, up_to(2)), max_size=3)
                      .map(", ".join)),
    ),
    Piece(
        "11.3", play_own_pages,
        cases=[f"{_FORKED}, ask 1 1", f"{_FORKED}, ask 0 2", f"{_FORKED}, ask 1 12",
               f"{_FORKED}, ask 1 11", "2, append 0 5, fork 0, ask 1 1"],
        strategy=_day("ask {} {}", _NUMBER, up_to(9)),
    ),
    Piece(
        "11.4", play_settle_draft,
        cases=[f"{_THREE}, ask 0 4 2"],
        strategy=_day("ask {} {} {}", _NUMBER, up_to(5), up_to(5)),
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
_STILL_THERE = "the page still has its old contents: let others write to every free page in between"


def _advice(right: CallsMade) -> str:
    """A hint for a script that does no harm: what it does not do yet."""
    calls = [call for call, _ in right if call.arguments["version"] == "B"]
    if not calls and right:
        return "the versions that you called are correct: read the others again"
    ended, again, long = False, False, False
    seen = set[tuple[int, ...]]()
    for call in calls:
        ended = ended or call.verb == "detach"
        if call.verb == "attach":
            tokens = tuple(call.arguments["tokens"])
            again, long = again or (ended and tokens in seen), long or len(tokens) >= 4
            seen.update(tokens[:end] for end in range(1, len(tokens) + 1))
    if not ended:
        return "no page is freed while all sequences are attached: detach one"
    if not long:
        return "dropping one page does no harm; what about two full pages at once?"
    return _STILL_THERE if again else "pages were freed, but no sequence asks for what was in them"


EXERCISES = (
    exercise(
        "11.5", pages_of_answers,
        cases=[(5, [1], 2), (5, [0], 2)],
        strategy=st.tuples(up_to(9), st.lists(up_to(5), min_size=1, max_size=4), st.integers(1, 4)),
    ),
    engine_hunt(
        "11.6", "one_of_three", "11.6 B forgets one page alone",
        Calls(_Desks, ("attach", "detach")),
        advice=_advice,
    ),
)  # fmt: skip
