"""The pieces of chapter 11: forking a branch, dropping pages, the copy before the first write, and settling a draft."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from minikv.course.pieces.designs import branch_name, built, seen_of_pages
from minikv.course.pieces.hunt import Calls, calls_of, engine_hunt
from minikv.course.pieces.identity import ALL_RIGHT
from minikv.course.pieces.observe import bracketed, came_of, kinds
from minikv.course.pieces.piece import CaseFrame, Frames, Piece, exercise, framed
from minikv.course.pieces.trial import Played, rebound
from minikv.engine import World, engine_world

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
_frame = framed(seen_of_pages)


def _branch(made: Any, which: int) -> tuple[Any, str, Any]:
    """Shared pages, and the name of one of their branches with the branch itself."""
    cache = built(made)
    name = branch_name(cache, which)
    return cache, name, cache.branches[name]


def _copied_lists(branch: Any, old: Any) -> str:
    """Return whether a forked branch has lists of its own."""
    if branch is old:
        return "it is the old branch itself"
    for name in ("tokens", "pages"):
        if not isinstance(value := getattr(branch, name, None), list | None):
            return f"its {name} are a {type(value).__name__}; make a list, which can grow"
    one = [name for name in ("tokens", "pages") if getattr(branch, name, None) is getattr(old, name)]
    if one:
        return f"both branches have one list of {' and one of '.join(one)}: what one adds to it, the other has too"
    return ALL_RIGHT


def play_fork_branch(world: World, case: Any) -> Frames:
    """One of the branches is forked."""
    cache, name, old = _branch(*case)
    yield _frame("before", cache)
    new = world["fork_branch"](cache, old)
    names = ", ".join(map(str, cache.branches))
    is_branch = hasattr(new, "pages") and hasattr(new, "tokens")
    if is_branch:
        cache.branches["the new one"] = new
    seen = {
        "what is returned": "a branch" if is_branch else None if new is None else kinds(new),
        "the new branch": _copied_lists(new, old), **seen_of_pages(cache), "the names in `cache.branches`": names,
        "the tokens of the new branch": getattr(new, "tokens", None), "its draft": getattr(new, "draft_from", "none"),
    }  # fmt: skip
    yield CaseFrame(f"fork {name}", seen, cache)
    if is_branch:
        found = type(old)(list(old.tokens), list(old.pages))
        cache.branches["one more"] = world["fork_branch"](cache, found)
        yield _frame("fork a branch that has no name yet, as `attach` does", cache)


def play_drop_pages(world: World, case: Any) -> Frames:
    """Branches let go of their pages from number `start` on, one after the other."""
    made, leaving = case
    cache = built(made)
    yield _frame("before", cache)
    for which, start in leaving:
        name = branch_name(cache, which)
        branch = cache.branches[name]
        start = min(start, len(branch.pages))
        kept, given = branch.pages[:start], branch.pages[start:]
        if not start:  # as when a branch ends; one that keeps some pages still has all of them during the call
            branch.pages = kept
        world["drop_pages"](cache, given)
        branch.tokens, branch.pages = branch.tokens[: start * cache.size], kept
        what = "all its pages" if not start else f"its pages after the first {start}"
        yield _frame(f"{name} releases {what}", cache, {"the list of pages, which must not change": given})


def play_own_pages(world: World, case: Any) -> Frames:
    """A branch is to have `count` more tokens; then they are written, with themselves for values."""
    made, which, count = case
    cache, name, branch = _branch(made, which)
    before, last = list(branch.pages), len(branch.pages) - 1
    yield _frame("before", cache)
    error, _ = came_of(lambda: world["own_pages"](cache, branch, count), MemoryError)
    seen = {
        "raised": error, "the tokens, which `put` appends afterwards": bracketed(branch.tokens),
        "the last page that it had": "kept" if branch.pages[last : last + 1] == before[-1:] else "replaced",
        "how many pages it has now": len(branch.pages),
    }  # fmt: skip
    empty = "" if before else ", which has no page yet,"
    yield _frame(f"{name}{empty} needs room for {count} more token{'s' * (count != 1)}", cache, seen)
    if error == "no error":
        new = list(range(101, 101 + count))
        for number in new:
            index, at = divmod(len(branch.tokens), cache.size)
            cache.values[branch.pages[index]][at] = number
            branch.tokens.append(number)
        yield _frame(f"then {name} writes {bracketed(new)}", cache)


def play_settle_draft(world: World, case: Any) -> Frames:
    """A branch has a draft, of which the first `right` tokens are correct."""
    made, which, drafted, right = case
    cache, name, branch = _branch(made, which)
    draft, right = list(range(101, 101 + drafted)), min(right, drafted)
    error, _ = came_of(lambda: cache.draft(name, draft, draft), MemoryError)
    if error != "no error":
        return
    yield _frame(f"{name} drafts {bracketed(draft)}", cache)
    world["settle_draft"](cache, branch, right)
    begin = branch.draft_from
    seen = {
        "its tokens": bracketed(branch.tokens), "how many pages it has": len(branch.pages),
        "its `draft_from`": "None" if begin is None else begin,
    }  # fmt: skip
    yield _frame(f"{right} of {drafted} draft tokens {'is' if right == 1 else 'are'} correct", cache, seen)


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
