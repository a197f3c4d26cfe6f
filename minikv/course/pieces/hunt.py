"""A bug hunt: a stored wrong answer, which the learner has to expose.

The learner's function returns the arguments of a call on which the careless code is wrong, or it is given a structure
of the engine and calls its verbs. It is played twice, with our code and with the careless one, and the frames of both
are compared. The careless code is a section of `wrong_NN.txt`, run in the engine's own world. The sections with the
hunt's id are answers that do no harm, each with its hint.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from minikv.course.pieces.piece import GAVE, CaseFrame, WrongAnswer, find_exercise, one_call, wrong_answers_to
from minikv.course.pieces.showing import Code
from minikv.course.pieces.trial import Parting, Played, parted, play_case
from minikv.engine import World, engine_world, run_section
from minikv.testing.attempt import Outcome, arguments, attempt
from minikv.testing.watch import Call, watch

FIX_FIRST = "what both refuse does nothing: fix it first"


@dataclass(frozen=True)
class Hunt:
    """A bug to find. `careless` is the id and the mistake of the stored wrong answer that has it.

    `play(world, case)` yields the frames of a case, which is what `read` makes of the learner's function. A call that
    does no harm, or a script as it was played with our code, is given to `advice` for a hint that fits it, or `None`.
    One that does, as it was played with the careless code, is given to `praise` for a word to add.
    """

    id: str
    name: str
    careless: tuple[str, str]
    world: Callable[[], World]
    play: Callable[[World, Any], Iterator[CaseFrame]]
    read: Callable[[Any], Any]
    hint: str
    is_call: bool = False
    advice: Callable[[Any], str | None] | None = None
    praise: Callable[[Played], str] | None = None

    @property
    def bug(self) -> WrongAnswer:
        """The stored wrong answer that is to be exposed."""
        id, mistake = self.careless
        return next(answer for answer in wrong_answers_to(id) if answer.mistake == mistake)

    @property
    def wrong(self) -> list[WrongAnswer]:
        """The answers that do no harm."""
        return [answer for answer in wrong_answers_to(self.id) if answer != self.bug]

    def careless_world(self) -> World:
        """The engine's world, or the exercise's, with the bug in it."""
        world, section = self.world(), self.bug.section
        world.update(run_section(section, world, "<careless>"))
        return {**world, self.name: world[section.name]}

    def found(self, case: Any, right: Played) -> tuple[Parting | None, Played]:
        """Where the careless code parts from ours on a case, if it does, and how it was played."""
        world = self.careless_world()
        careless = play_case(self, world, case)
        return parted(self, world, case, careless, right), careless

    def stored_hint(self, right: Played) -> str | None:
        """The hint of the stored answer that makes the same calls."""
        for answer in self.wrong:
            made = run_section(answer.section, self.world(), "<wrong>")[answer.section.name]
            theirs = play_case(self, self.world(), self.read(made))
            if right.frames and [shot.caption for shot in theirs.frames] == [shot.caption for shot in right.frames]:
                return answer.hint
        return None


def careless(id: str) -> Code:
    """The careless code of a hunt, by its id, to be read.

    >>> print(careless("1.4"))
    def careless_pages(memory: int, percent: int, taken: int, page_bytes: int) -> int:
        \"\"\"The same, with a float in between.\"\"\"
        usable = int(memory * (percent / 100))
        return (usable - taken) // page_bytes
    """
    text = find_exercise(id).bug.section.text
    return Code(text[re.search(r"^(def|class) ", text, re.MULTILINE).start() :])  # type: ignore[union-attr]


class Malformed(Exception):
    """Why what the learner gave is not a case at all, in words."""


def call_hunt(
    id: str, name: str, mistake: str, reference: Callable[..., Any], hint: str, **more: Callable[..., Any]
) -> Hunt:
    """A hunt for the arguments of a call on which the careless function is wrong, and `reference` is right."""

    def world() -> World:
        return {**reference.__globals__, name: reference}

    is_one = reference.__code__.co_argcount == 1
    return Hunt(id, name, (id, mistake), world, one_call(name), partial(_arguments_from, is_one), hint, True, **more)


def _arguments_from(is_one: bool, answer: Any) -> tuple[Any, ...]:
    """The tuple of arguments that the learner's function returns."""
    given = attempt(answer)
    if isinstance(given.error, NotImplementedError):
        raise given.error
    if given.error is not None:
        raise Malformed(f"your code ended in {given}")
    if not isinstance(given.value, tuple):
        forgot = "" if given.value is not None else f": {'you printed; ' if given.printed else ''}return it"
        form = ", here of one: (argument,)" if is_one else ""
        raise Malformed(f"got {given}, expected a tuple of arguments{form}{forgot}")
    return given.value


@dataclass(frozen=True)
class Calls:
    """A play with a frame for each call of one of `verbs` of what `make(world)` makes, by a function that is given it.

    What is `seen` of it and the `result` are compared. A frame has for its thing the call and a `note` of then.
    """

    make: Callable[[World], Any]
    verbs: Sequence[str]
    seen: Callable[[Any], Mapping[str, Any]] = lambda thing: {}
    result: Callable[[Any, Any], Any] = lambda thing, value: in_words(value)
    note: Callable[[Any], Any] = lambda thing: None

    def __call__(self, world: World, script: Callable[[Any], Any]) -> Iterator[CaseFrame]:
        """The frames of a script."""
        thing, shots = self.make(world), list[CaseFrame]()

        def listen(call: Call) -> None:
            if call.depth == 0:
                done = f"{shots[-1].caption}, " if shots else ""
                given = arguments(map(in_words, call.arguments.values()))
                seen = {GAVE: Outcome(self.result(thing, call.result), call.error), **self.seen(thing)}
                shots.append(CaseFrame(f"{done}{call.verb}{given}", seen, (call, self.note(thing))))

        stop, error = watch(thing, self.verbs, listen), None
        try:
            script(thing)
        except Exception as raised:
            error = raised
        finally:
            stop()
        yield from shots
        if error is not None:
            raise error


def engine_hunt(
    id: str, name: str, careless: tuple[str, str], calls: Calls, hint: str, **more: Callable[..., Any]
) -> Hunt:
    """A hunt with calls of the verbs of a structure of the engine."""

    def world() -> World:
        return engine_world(2, 3, 4, 5, 7, int(id.split(".")[0]))

    return Hunt(id, name, careless, world, calls, lambda answer: answer, hint, False, **more)


def in_words(value: Any) -> Any:
    """What a call of the engine is given or gives, without what is different each time.

    >>> from minikv import RadixCache
    >>> in_words(RadixCache().insert([1, 2], [5, 6])), in_words([3])
    ('0 cached', [3])
    """
    if hasattr(value, "prefix_length"):
        return f"{value.prefix_length} cached"
    if hasattr(value, "cached_length"):
        return f"request {value.number}, {value.cached_length} cached"
    if hasattr(value, "pages") and hasattr(value, "length"):
        return list(map(int, value.pages))
    if isinstance(value, tuple):
        return tuple(map(in_words, value))
    return f"row {value.row}" if hasattr(value, "row") else value


def calls_of(played: Played) -> list[Call]:
    """The calls of a script that was played."""
    return [frame.thing[0] for frame in played.frames]


def _told(look: Callable[[Any], str | None], what: Any) -> str | None:
    """What `advice` or `praise` says; nothing where it does not understand what the learner gave."""
    said: str | None = attempt(lambda: look(what)).value
    return said


def judge_hunt(hunt: Hunt, answer: Any) -> tuple[bool | None, str]:
    """Whether an answer exposes the bug, `None` if it is not written yet; and what to say about it."""
    try:
        case = hunt.read(answer)
    except NotImplementedError:
        return None, "not attempted yet"
    except Malformed as error:
        return False, f"{hunt.name}: {error}"
    right = play_case(hunt, hunt.world(), case)
    return _compared(hunt, case, right) if right.outcome.attempted else (None, "not attempted yet")


def _compared(hunt: Hunt, case: Any, right: Played) -> tuple[bool, str]:
    """Whether a case exposes the bug, which was played with our code; and what to say about it."""
    last = right.frames[-1] if right.frames else CaseFrame("nothing", {GAVE: Outcome()})
    outcome, is_call = last.seen[GAVE], hunt.is_call
    if not (is_call and outcome.error):
        found, careless = hunt.found(case, right)
        if found is not None:
            more = f". {_told(hunt.praise, case if is_call else careless)}" if hunt.praise else ""
            return True, f"bug found: {found.words}{more}"
    hint = hunt.stored_hint(right)
    if hint is None and outcome.error and not is_call:
        return False, f"{last.caption}: {outcome}, on both. Hint: {FIX_FIRST}"
    if hint is None and hunt.advice is not None:
        hint = _told(hunt.advice, case if is_call else right)
    if is_call and outcome.error:
        return False, f"{last.caption} is not a valid call, {outcome}. Hint: {hint or FIX_FIRST}"
    if right.outcome.error is not None:
        return False, f"{hunt.name}: your code ended in {right.outcome}"
    return False, f"on {last.caption} the careless one does no harm. Hint: {hint or hunt.hint}"
