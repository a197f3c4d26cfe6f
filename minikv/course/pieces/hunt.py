"""A bug hunt: a stored wrong answer, which the learner has to expose.

The learner's function returns the arguments of a call on which the careless code is wrong, or it is given a structure
of the engine and calls its verbs. These calls are played with our code and with the careless one, and compared. Nothing
else that the function does counts. The careless code is a section of `wrong_NN.txt`; others with the hunt's id
do no harm.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from minikv.course.pieces.observer import RETURNED, Observer, Raised, Words, same
from minikv.course.pieces.piece import Frames, Shown, find_exercise, one_call
from minikv.course.pieces.showing import Code
from minikv.course.pieces.stored import WrongAnswer, hints_for, wrong_answers_to
from minikv.course.pieces.trial import Played, difference, play_case
from minikv.engine import World, engine_world, run_section
from minikv.testing.attempt import Outcome, TooLong, arguments, attempt, short_repr
from minikv.testing.watch import Call, watch

FIX_FIRST = "the correct version raises this error too, so it shows no difference"
MOST_CALLS = 12  # in a caption: of a script with more, the last ones


@dataclass(frozen=True)
class Hunt:
    """A bug to find. `careless` is the id and the mistake of the stored wrong answer that has it.

    `play` makes a case of the learner's function, and plays it. One that does no harm is given to `advice`, as it was
    played with our code, for a hint that fits it; one that does, as the careless code played it, to `praise`.
    """

    id: str
    name: str
    careless: str
    world: Callable[[], World]
    play: CallToFind | Calls
    advice: Callable[[Any], str | None] = lambda _: None
    praise: Callable[[Any], str | None] = lambda _: None

    @property
    def hint(self) -> str:
        """The hint where no stored answer makes the same calls."""
        return hints_for(self.id)[0]

    @property
    def bug(self) -> WrongAnswer:
        """The stored wrong answer that is to be exposed."""
        id, _, mistake = self.careless.partition(" ")
        return next(answer for answer in wrong_answers_to(id) if answer.mistake == mistake)

    @property
    def wrong(self) -> list[WrongAnswer]:
        """The answers that do no harm."""
        return [answer for answer in wrong_answers_to(self.id) if answer != self.bug]

    def careless_world(self) -> World:
        """The engine's world, or the exercise's, with the bug in it."""
        world, section = self.world(), self.bug.section
        world |= run_section(section, world, "<careless>")
        return {**world, self.name: world[section.name]}

    def stored_hint(self, right: Played) -> str | None:
        """The hint of the stored answer that makes the same calls."""
        for answer in self.wrong:
            made = run_section(answer.section, self.world(), "<wrong>")[answer.section.name]
            theirs = play_case(self, self.world(), self.play.read(self.world(), made))
            if right.frames and [shot.caption for shot in theirs.frames] == [shot.caption for shot in right.frames]:
                return answer.hint
        return None


def careless(id: str) -> Code:
    """The careless code of a hunt, by its id, to be read.

    >>> print(str(careless("1.7")).splitlines()[0])
    def careless_pages(memory: int, percent: int, taken: int, page_bytes: int) -> int:
    """
    text = find_exercise(id).bug.section.text
    return Code(text[re.search(r"^(def|class) ", text, re.MULTILINE).start() :])  # type: ignore[union-attr]


class Malformed(Exception):
    """Why what the learner gave is not a case at all, in words."""


@dataclass(frozen=True)
class CallToFind:
    """A play of one call of `name`, with the arguments that are found; `nonsense` says what they may not be."""

    name: str
    names: Sequence[str]
    nonsense: Callable[..., str | None] | None

    def read(self, _: World, answer: Any) -> tuple[Any, ...]:
        """The tuple of arguments that the learner's function returns."""
        given = attempt(answer)
        if isinstance(given.error, NotImplementedError):
            raise given.error
        if given.error is not None:
            raise Malformed(f"your function {given.in_words}")
        if not isinstance(given.value, tuple) or len(given.value) != len(self.names):
            forgot = "" if given.value is not None else f". {'You printed it; r' if given.printed else 'R'}eturn it"
            form = f"({', '.join(self.names)}{',' * (len(self.names) == 1)})"
            raise Malformed(f"got {given}, expected a tuple of the form {form}{forgot}")
        if why := attempt(lambda: self.nonsense and self.nonsense(*given.value)).value:
            raise Malformed(f"{given} is not valid: {why}")
        return given.value

    def __call__(self, world: World, case: Any) -> Frames:
        """The frame of the call."""
        return one_call(self.name, Exception, names=" ".join(self.names))(world, case)

    def subject(self, case: Any, played: Played) -> Any:
        """Return what `advice` and `praise` look at: the arguments."""
        return case

    def is_valid(self, right: Played) -> bool:
        """Return whether our code gives a result."""
        return not isinstance(right.frames[-1].seen[RETURNED], Raised)


def call_hunt(id: str, name: str, mistake: str, reference: Any, nonsense: Any = None, **more: Any) -> Hunt:
    """A hunt for arguments on which the careless function is wrong; `nonsense(*arguments)` says what none may be."""
    names = reference.__code__.co_varnames[: reference.__code__.co_argcount]
    world = {**reference.__globals__, name: reference}
    play = CallToFind(name, names, nonsense)
    return Hunt(id, name, f"{id} {mistake}", lambda: dict(world), play, **more)


class Earlier(NamedTuple):
    """An argument that an earlier call gave: by its number, and where that was a tuple, by the place in it."""

    call: int
    place: int | None = None


Script = Sequence[tuple[str, Mapping[str, Any]]]  # the verbs and the arguments of calls, those of earlier calls as such
CallsMade = Sequence[tuple[Call, Any]]  # of a script that was played, each call with its note


@dataclass(frozen=True)
class Calls:
    """A play of a script: a frame for each call of one of `verbs` of what `make(world)` makes.

    What is `seen` of it and the `result` are compared. A frame has for its picture the call and a `note` of then.
    """

    make: Callable[[World], Any]
    verbs: Sequence[str]
    seen: Callable[[Any], Mapping[str, Any]] = lambda thing: {}
    result: Callable[[Any, Any], Any] = lambda thing, value: in_words(value)
    note: Callable[[Any], Any] = lambda thing: None

    def read(self, world: World, answer: Callable[[Any], Any]) -> Script:
        """The calls that a function makes; `Malformed` if it does anything else that matters, or ends in an error."""
        thing, script, shots = self.make(world), list[tuple[str, Mapping[str, Any]]](), list[Shown]()
        seen, mine, again = list[Any](), Observer(), Observer()

        def listen(call: Call) -> None:
            if call.caller is None:
                script.append((call.verb, {name: _placed(value, shots) for name, value in call.arguments.items()}))
                shots.append(self._frame(call, shots))
                seen.append(mine.look(shots[-1].things))

        watch(thing, self.verbs, listen)
        ended = attempt(lambda: answer(thing))
        if isinstance(ended.error, NotImplementedError):
            raise ended.error
        of_call = shots[-1].picture[0].error if shots else None  # or the time was over in a call: no difference
        if ended.error is not None and (ended.error is not of_call or isinstance(of_call, TooLong)):
            raise Malformed(f"your function {ended.in_words}")
        if not same(seen, [again.look(shot.things) for shot in self(world, script)]):
            raise Malformed(f"only calls to {', '.join(self.verbs)} count; your code also changes something directly")
        return script

    def __call__(self, world: World, script: Script) -> Frames:
        """The frames of a script."""
        thing, shots = self.make(world), list[Shown]()
        for verb, placed in script:
            call = Call(thing, verb, {name: _taken(value, shots) for name, value in placed.items()})
            try:
                call.result = getattr(thing, verb)(**call.arguments)
            except Exception as error:
                call.error = error
            shots.append(self._frame(call, shots))
            yield shots[-1]

    def _frame(self, call: Call, before: Sequence[Shown]) -> Shown:
        calls = [shot.picture[0] for shot in before[-MOST_CALLS + 1 :]] + [call]
        words = ", ".join(call.verb + arguments(map(_as_argument, call.arguments.values())) for call in calls)
        more = "…, " if len(before) >= MOST_CALLS else ""
        result = Raised.of(call.error, [Exception]) if call.error else self.result(call.thing, call.result)
        return Shown(more + words, {RETURNED: result, **self.seen(call.thing)}, (call, self.note(call.thing)))

    def subject(self, case: Any, played: Played) -> CallsMade:
        """Return what `advice` and `praise` look at: the calls of the script, as they were played."""
        return [frame.picture for frame in played.frames]

    def is_valid(self, right: Played) -> bool:
        """A script may end in an error that the careless code does not raise."""
        return True


def _placed(value: Any, shots: Sequence[Shown]) -> Any:
    """An argument as it is written down: what an earlier call gave by its place, anything else as a copy.

    >>> _placed(7, [Shown("", {}, (Call(None, "alloc", {}, result=7), None))])  # a number is itself
    7
    """
    for number, shot in enumerate([] if isinstance(value, int | str | None) else shots):
        result = shot.picture[0].result
        for place, part in [(None, result), *(enumerate(result) if isinstance(result, tuple) else ())]:
            if part is value:
                return Earlier(number, place)
    return copy.deepcopy(value)


def _taken(value: Any, shots: Sequence[Shown]) -> Any:
    if not isinstance(value, Earlier):
        return copy.deepcopy(value)
    result = shots[value.call].picture[0].result
    return result if value.place is None else result[value.place]


def engine_hunt(id: str, name: str, careless: str, calls: Calls, **more: Any) -> Hunt:
    """A hunt with calls of the verbs of a structure of the engine."""
    return Hunt(id, name, careless, partial(engine_world, 2, 3, 4, 5, 7, int(id.split(".")[0])), calls, **more)


def in_words(value: Any) -> Any:
    """Return the result of a call of the engine, without the parts that differ each time.

    >>> from minikv import RadixCache
    >>> in_words(RadixCache().insert([1, 2], [5, 6])), in_words([3])
    (0 cached, [3])
    """
    if hasattr(value, "prefix_length"):
        return Words(f"{value.prefix_length} cached")
    if hasattr(value, "cached_length"):
        return Words(f"request {value.number} with {value.cached_length} cached")
    if hasattr(value, "pages") and hasattr(value, "length"):
        return list(map(int, value.pages))
    if isinstance(value, tuple):
        return tuple(map(in_words, value))
    return Words(f"row {value.row}") if hasattr(value, "row") else value


def _as_argument(value: Any) -> Any:
    """Return an argument of a call of the engine: a request by its number, a match by its slots."""
    if hasattr(value, "prefix_length"):
        return Words("the insertion")
    if hasattr(value, "cached_length"):
        return Words(f"request {value.number}")
    words = in_words(value)
    return Words(f"match {words}") if isinstance(words, list) and hasattr(value, "length") else words


def judge_hunt(hunt: Hunt, answer: Any) -> tuple[bool | None, str]:
    """Return whether an answer exposes the bug (`None` if it is not written yet), and what to say about it."""
    if not callable(answer):
        return False, f"{hunt.name}: you passed {short_repr(answer)}. Pass the function itself"
    try:
        case = hunt.play.read(hunt.world(), answer)
    except NotImplementedError:
        return None, "not attempted yet"
    except Malformed as error:
        return False, f"{hunt.name}: {error}"
    return _compared(hunt, case, play_case(hunt, hunt.world(), case))


def _compared(hunt: Hunt, case: Any, right: Played) -> tuple[bool, str]:
    """Return whether a case that was played with our code exposes the bug, and what to say about it."""
    if right.outcome.error is not None:
        return False, f"{hunt.name}: the call {right.outcome.in_words}"

    def told(look: Callable[[Any], str | None], played: Played) -> str | None:
        said: str | None = attempt(lambda: look(hunt.play.subject(case, played))).value
        return said

    if not right.frames:
        hint = told(hunt.advice, right) or hunt.hint
        return False, f"{hunt.name}: your function makes none of the calls that count. Hint: {hint}"
    (caption, seen, _), world = right.frames[-1], hunt.careless_world()
    careless = play_case(hunt, world, case)
    if hunt.play.is_valid(right) and (found := difference(hunt, world, case, careless, right)):
        praise = told(hunt.praise, careless)
        return True, f"bug found: {found.words}" + (f". {praise}" if praise else "")
    stored, raised = hunt.stored_hint(right), seen[RETURNED]
    if isinstance(raised, Raised):
        advice = told(hunt.advice, right) if not hunt.play.is_valid(right) else None
        return False, f"{caption} {Outcome(error=raised.error).in_words}. Hint: {stored or advice or FIX_FIRST}"
    hint = stored or told(hunt.advice, right) or hunt.hint
    return False, f"{hunt.name}: the careless version gives the same answer for {caption}. Hint: {hint}"
