"""The exercises of chapter 11: how many pages several answers need, and a map of pages that are gone."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from minikv.course.exercises.exercise import Exercise, Hunt, Wrong
from minikv.course.exercises.judge import Script


def pages_of_answers(prompt: int, answers: Sequence[int], size: int) -> int:
    """How many pages a prompt of so many tokens and its answers, with so many tokens each, have in the end.

    >>> pages_of_answers(5, [3, 1, 0], 2)
    6
    """
    full, rest = divmod(prompt, size)
    own = sum(-(-(rest + length) // size) for length in answers if length)
    return full + own + bool(rest and not all(answers))


def _shares_nothing(prompt: int, answers: Sequence[int], size: int) -> int:
    return sum(-(-(prompt + length) // size) for length in answers)


def _no_copies(prompt: int, answers: Sequence[int], size: int) -> int:
    return -(-prompt // size) + sum(-(-length // size) for length in answers)


def _forgets_the_unwritten(prompt: int, answers: Sequence[int], size: int) -> int:
    full, rest = divmod(prompt, size)
    return full + sum(-(-(rest + length) // size) for length in answers if length)


def _copies_for_all(prompt: int, answers: Sequence[int], size: int) -> int:
    full, rest = divmod(prompt, size)
    return full + sum(-(-(rest + length) // size) for length in answers)


def _keeps_the_first(prompt: int, answers: Sequence[int], size: int) -> int:
    full, rest = divmod(prompt, size)
    own = sum(-(-(rest + length) // size) for length in answers if length)
    return full + own + bool(rest)


def _rounds_down(prompt: int, answers: Sequence[int], size: int) -> int:
    full, rest = divmod(prompt, size)
    return full + sum((rest + length) // size for length in answers if length) + bool(rest and not all(answers))


class TinyPages:
    """Pages of two tokens; `attach` gives what is in the pages of a sequence, `detach` ends it."""

    def __init__(self, size: int):
        self.free, self.refs = list(range(size)), [0] * size
        self.known = dict[tuple[int, ...], int]()  # first tokens -> the page that they end in
        self.holds = dict[int, list[int]]()
        self.sequences = dict[str, list[int]]()

    def attach(self, name: str, tokens: list[int]) -> list[int]:
        """Begin a sequence, and take pages for what is not known; the tokens in all its pages."""
        ends = range(2, len(tokens) + 1, 2)
        wanted = sum(tuple(tokens[:end]) not in self.known for end in ends)
        if name in self.sequences or wanted > len(self.free):
            raise ValueError(f"there is no room for {name}, or it is there already")
        pages = self.sequences[name] = list[int]()
        for end in ends:
            key = tuple(tokens[:end])
            if key not in self.known:
                self.known[key] = self.free.pop(0)
                self.holds[self.known[key]] = tokens[end - 2 : end]
            pages.append(self.known[key])
            self.refs[pages[-1]] += 1
        return [token for page in pages for token in self.holds[page]]

    def detach(self, name: str) -> None:
        """End a sequence; pages that no other has are free."""
        for page in self.sequences.pop(name):
            self.refs[page] -= 1
            if self.refs[page] == 0:
                self.free.append(page)
                self.forget(page)

    def forget(self, page: int) -> None:
        """Nobody finds `page` from now on."""
        self.known = {key: other for key, other in self.known.items() if other != page}


class CarelessPages(TinyPages):
    """The same, but a free page is still found by what was in it."""

    def forget(self, page: int) -> None:
        """The page is free."""


_STILL_THERE = (
    "the page still holds what it held: let others write to every free page in between, or have one page only"
)


def _advice(script: Script) -> str | None:
    """A hint for a script that does no harm: what it does not do yet."""
    pages, ended, seen = TinyPages(*script.init), False, set[tuple[int, ...]]()
    again = False
    for verb, given in script.operations:
        getattr(pages, verb)(*given)
        ended = ended or verb == "detach"
        if verb == "attach":
            again = again or (ended and tuple(given[1]) in seen)
            seen.add(tuple(given[1]))
    if not ended:
        return "as long as all sequences live, no page is free: detach one"
    if not again:
        return "a page was freed, but no sequence asks for what was in it"
    return _STILL_THERE


def _nothing_between() -> Script:
    return Script((2,), (("attach", ("a", [1, 2])), ("detach", ("a",)), ("attach", ("b", [1, 2]))))


def _nobody_asks() -> Script:
    return Script((1,), (("attach", ("a", [1, 2])), ("detach", ("a",)), ("attach", ("b", [3, 4]))))


EXERCISES = (
    Exercise(
        id="11.5",
        name="pages_of_answers",
        reference=pages_of_answers,
        cases=[(4, [2], 2), (5, [1], 2), (5, [1, 1], 2), (4, [1, 1], 2), (5, [0], 2), (5, [0, 0], 2), (5, [3, 0], 2),
               (0, [3, 2], 2), (5, [4, 4, 4], 4), (3, [2, 2], 8)],
        strategy=st.tuples(st.integers(0, 9), st.lists(st.integers(0, 5), min_size=1, max_size=4), st.integers(1, 4)),
        hint="the full pages of the prompt count once; an answer that wrote anything has all else in pages of its own",
        wrong=(
            Wrong(_shares_nothing, "the full pages of the prompt are there once, for all answers"),
            Wrong(_no_copies, "the first token of an answer goes into the last page of the prompt, if it has room: "
                              "each answer has a copy of it, or the page itself"),
            Wrong(_forgets_the_unwritten, "answers that wrote nothing still have the last page of the prompt"),
            Wrong(_copies_for_all, "answers that wrote nothing have no copy: they share the last page of the prompt"),
            Wrong(_keeps_the_first, "the last answer that writes finds the page in nobody else's hands, and keeps it"),
            Wrong(_rounds_down, "round up: a page that is not full is a page"),
        ),
    ),
    Hunt(
        id="11.6",
        name="CarelessPages",
        careless=CarelessPages,
        reference=TinyPages,
        example=Script((1,), (("attach", ("a", [1, 2])), ("detach", ("a",)), ("attach", ("b", [3, 4])),
                              ("detach", ("b",)), ("attach", ("c", [1, 2])))),
        hint="let a page be freed, let another sequence write to it, and ask for what was in it at first",
        advice=_advice,
        wrong=(
            Wrong(_nothing_between, _STILL_THERE),
            Wrong(_nobody_asks, "the page holds something else now; ask for what it held before"),
        ),
    ),
)  # fmt: skip
