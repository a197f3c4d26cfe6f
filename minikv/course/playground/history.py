"""The history of a playground: steps that can be undone and redone.

A history keeps its steps, not its states. The live cache is made by replaying the steps from the start, which is fast
for a lesson's few steps and always right: a step that fails leaves the history as it was, undo replays one step fewer,
and other settings replay the same steps in another cache, which shows their effect there.

    steps   insert  insert  lock  |  set page size 4  evict        replayed up to here: at = 3
            [0, at): done            [at, len): undone, and can be redone
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from minikv.course.film import Frame
from minikv.course.playground.live import LiveCache, StepOutcome
from minikv.course.playground.steps import Settings, Step

_BEGINNINGS = ("reset", "scene")


class History:
    """Steps that were done, up to `at`, and undone ones after it; `live` is the cache after them.

    >>> from minikv.course.playground.steps import prompt_step
    >>> history = History(Settings())
    >>> history.do(prompt_step("insert", "1 2 3")); history.live.cache.total_size
    3
    >>> print(history.undo(), history.live.cache.total_size)
    insert [1 2 3] 0
    """

    def __init__(self, settings: Settings | None = None):
        self._first = settings or Settings()
        self.steps: tuple[Step, ...] = ()
        self._go(())

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self.live.settings

    @property
    def since(self) -> list[tuple[Step, StepOutcome, Frame]]:
        """The steps since the last beginning, each with what came of it and its frame."""
        frames = self.live.film.frames[1:]
        done = list(zip(self.steps, self.outcomes))
        return [(*pair, frame) for pair, frame in zip(done[len(done) - len(frames) :], frames)]

    @property
    def at(self) -> int:
        """How many steps are done and not undone."""
        return len(self.outcomes)

    def do(self, *steps: Step) -> None:
        """Do one step or more, all or none; undone ones are forgotten. Raises the package's error for a bad step."""
        told = (*self.steps[: self.at], *steps)
        self._go(told)
        self.steps = told

    def set(self, settings: Settings) -> None:
        """Go on with other settings, as if they had been so since the last reset: its steps are replayed in them.

        Raises `ValueError`, and changes nothing, when one of these steps cannot be done in them.
        """
        if settings != self.settings:
            self.do(Step("set", self.settings.changes(settings), settings=settings))

    def undo(self) -> Step:
        """Take the last step back and return it."""
        if not self.at:
            raise ValueError("there is nothing to undo")
        self._go(self.steps[: self.at - 1])
        return self.steps[self.at]

    def redo(self) -> Step:
        """Do the step that was undone last again and return it."""
        if self.at == len(self.steps):
            raise ValueError("there is nothing to redo")
        self._go(self.steps[: self.at + 1])
        return self.steps[self.at - 1]

    def _go(self, steps: Sequence[Step]) -> None:
        self.live, self.outcomes = play_steps(self._first, steps)


def play_steps(first: Settings, steps: Sequence[Step]) -> tuple[LiveCache, list[StepOutcome]]:
    """Do `steps` from an empty cache; return the live cache and the outcome of each step.

    A step's error is raised as it is when it comes from the last step, else with the step that it comes from.

    >>> live, outcomes = play_steps(Settings(), [Step("insert", tokens=(1, 2)), Step("evict", number=2)])
    >>> [outcome.words for outcome in outcomes]
    ['0 of 2 cached, 2 new in slots 0-1', '2 asked for, 2 freed: slots 0-1']
    """
    outcomes: list[StepOutcome] = []
    live, since = LiveCache(_settings_in(steps, first)), 0
    for i, step in enumerate(steps):
        try:
            outcome = _tell(live, step, i - since)
        except Exception as error:
            if i == len(steps) - 1:
                raise
            raise ValueError(f"step {i + 1} ({step}) cannot be done then: {error}. Undo it, or reset first") from error
        outcomes.append(outcome)
        if step.verb in _BEGINNINGS:
            live, since = LiveCache(_settings_in(steps[i + 1 :], step.settings or live.settings)), i + 1
    return live, outcomes


def _settings_in(steps: Sequence[Step], settings: Settings) -> Settings:
    """The last settings chosen before the next beginning: all steps up to there are replayed in them."""
    for step in takewhile(lambda step: step.verb not in _BEGINNINGS, steps):
        settings = step.settings or settings
    return settings


def _tell(live: LiveCache, step: Step, steps_before: int) -> StepOutcome:
    if step.verb == "set":
        with live.film.step(str(step)):
            pass
        return StepOutcome(f"{steps_before} step{'' if steps_before == 1 else 's'} replayed")
    if step.verb == "scene":
        return StepOutcome("begins with an empty cache")
    return live.tell(step)
