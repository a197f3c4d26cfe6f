"""The facts of a difference, in sentences: of a value, an error, a result of the wrong kind, a call too deep."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from minikv.course.pieces.observer import ALL_RIGHT, RETURNED, Raised, Words, same
from minikv.course.pieces.piece import CALLERS
from minikv.course.pieces.props import DEEP
from minikv.course.pieces.stored import ABOUT_ERRORS
from minikv.course.pieces.trial import Difference, is_code
from minikv.testing.attempt import Outcome, is_own, type_in_words


def about_error(error: BaseException | None) -> str | None:
    """Return what an error of Python's is often about; `None` where there is none, or it is the answer's own.

    >>> try:
    ...     raise ValueError("NoneType is what a learner's own `raise` tells of")
    ... except ValueError as error:
    ...     about_error(error)
    """
    said = "" if error is None or is_own(error) else str(Outcome(error=error))
    return next((hint for pattern, hint in ABOUT_ERRORS.items() if re.search(pattern, said)), None)


def facts_of(found: Difference) -> list[str]:
    """Return what is so of a value, and of what is expected, in sentences: the most telling comes first."""
    if found.right == ALL_RIGHT:
        return []
    facts = _facts_of_state(found) | _facts_of_value(_called(found.path), found.mine, found.right)
    return [fact for fact, is_so in facts.items() if is_so]


def _called(path: str) -> str:
    """Return what is at a path, as the subject of a sentence.

    >>> [_called(path) for path in (RETURNED, RETURNED + "[1]", "root.children[1]", "free pages")]
    ['the result', '`[1]` of the result', '`root.children[1]`', 'this value']
    """
    if path.startswith(RETURNED):
        step = path.removeprefix(RETURNED)
        return f"`{step}` of the result" if step[:1] in ("[", ".") else f"the result{step}"
    return f"`{path}`" if is_code(path) else "this value"


def _facts_of_state(found: Difference) -> dict[str, bool]:
    it, mine, right, before = _called(found.path), found.mine, found.right, found.before
    if found.path.startswith(CALLERS.format("")):
        more = 0 if "[" in found.path else _count(mine) - _count(right)  # of the whole of it
        return {
            "the caller may change its object later: keep a copy": _is(mine, "the same "),
            "your code removes items from the caller's object, as `pop` does": more < 0,
            "your code adds to the caller's object, as `+=` does": more > 0,
            "the caller's object must not change": True,
        }
    is_state = before is not None and not found.path.startswith(RETURNED)
    is_there = is_state and not _is(before, "a new ", "the new ") and not re.fullmatch(r"\d+ \w+", str(before))
    return {
        f"{it} is shared, so a change in one place changes the other":
            _is(mine, "the same ") and not _is(right, "the same ") and _kind_of(mine) == _kind_of(right),
        f"{it} must be an object that was there before, not a new one":
            _is(mine, "a new ") and _is(right, "the old ", "what it was"),
        f"the call must change {it}": is_there and same(mine, before),
        f"{it} must not change": _is(right, "what it was") or (is_there and right != [] and same(right, before)),
    }  # fmt: skip


def _count(value: Any) -> int:
    """The number of items in a list or a dictionary, or in one that is told in words."""
    return len(value) if isinstance(value, list | dict) else int((re.match(r"\d+", str(value)) or "0")[0])


def _is(value: Any, *starts: str) -> bool:
    """Return whether what is seen is described with one of these words."""
    return isinstance(value, Words) and value.startswith(starts)


def _facts_of_value(it: str, mine: Any, right: Any) -> dict[str, bool]:
    if type(mine) is int and type(right) is int:
        return {f"{it} is too large by 1": mine == right + 1, f"{it} is too small by 1": mine == right - 1}
    if not isinstance(mine, list) or not isinstance(right, list):
        return {}
    mine, right = [*map(repr, mine)], [*map(repr, right)]  # 1 and 1.0 are not the same
    given, wanted = Counter(mine), Counter(right)
    return {
        f"{it} must not be empty": not mine,
        f"{it} should be empty": not right,
        f"{it} has the right items, in the opposite order": mine == right[::-1],
        f"{it} has the right items, in another order": given == wanted,
        f"the last item of {it} is missing": mine == right[:-1],
        f"the last items of {it} are missing": mine == right[: len(mine)],
        f"the first items of {it} are missing": mine == right[-len(mine) :],
        f"{it} has extra items at the end": mine[: len(right)] == right,
        f"some items of {it} are missing, but the others are correct": given < wanted,
        f"{it} has extra items": given > wanted,
    }


def about_depth(found: Difference) -> str | None:
    """A hint for an answer that calls itself for each node of a path, where that is all that is wrong with it."""
    if not is_deep(found.case) or not isinstance(found.error, RecursionError):
        return None
    return "use a loop: this case needs more nested calls than Python allows"


def is_deep(case: Any) -> bool:
    """Return whether a case has a path of thousands of nodes."""
    return len(said := str(case)) > DEEP or re.match(rf"\W*(1, )?{DEEP}\b", said) is not None


def about_form(found: Difference) -> str | None:
    """A hint for a result of the wrong kind, to which what an exercise has to say about values does not fit.

    >>> about_form(Difference((), 0, "", RETURNED, Words("a set of [1]"), [1]))
    'return a list, not a set'
    >>> about_form(Difference((), 0, "", RETURNED, None, [1], printed="[1]"))
    'print only shows a value; return gives it to the caller'
    >>> about_form(Difference((), 0, "", RETURNED, None, [1]))  # it printed nothing
    """
    mine, right = found.mine, found.right
    if found.path != RETURNED or found.error or isinstance(mine, Raised) or isinstance(right, Raised):
        return None
    if mine is None:
        return "print only shows a value; return gives it to the caller" if found.printed else None
    if isinstance(mine, float) and not isinstance(right, float) and mine == right:
        return "return a whole number: `/` gives a float, and `//` gives a whole number"
    kinds = [_kind_of(value) for value in (mine, right)]
    return f"return {kinds[1]}, not {kinds[0]}" if kinds[0] != kinds[1] and right is not None else None


def _kind_of(seen: Any) -> str:
    """The kind of a value that was seen.

    >>> [_kind_of(Words(words)) for words in ("a generator", "the same array as x", "2 values", "{1: ...}", "the root")]
    ['a generator', 'an array', 'a list', 'a dict', 'an object']
    """
    if not isinstance(seen, Words):
        return type_in_words(seen)
    if named := re.match(r"(?:an?|the same) (?:new )?(\w)(\w*)", seen):
        return f"a{'n' * (named[1] in 'aeiouAEIOU')} {named[1]}{named[2]}"
    is_dict = seen.startswith("{") or seen.endswith(" keys")
    return "a dict" if is_dict else "a list" if seen[0] in "[0123456789" else "an object"
