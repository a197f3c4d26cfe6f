"""The history of a playground: steps that can be undone and redone.

A story keeps its steps, not its states. Whatever is shown is made by replaying the steps from the start, which is
quick at a classroom's size and always right: a step that fails leaves the story as it was, undo replays one step
fewer, and other settings replay the same steps in another cache, which shows what would have come of them there.

    steps   insert  insert  lock  |  set page size 4  evict        replayed up to here: at = 3
            [0, at): done            [at, len): undone, and can be redone
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from minikv.course.playground.bench import Bench, Outcome
from minikv.course.playground.steps import Settings, Step

_BEGINNINGS = ("reset", "scene")


class Story:
    """Steps that were done, up to `at`, and undone ones after it; `bench` is what came of them.

    >>> from minikv.course.playground.steps import prompt_step
    >>> story = Story(Settings())
    >>> story.do(prompt_step("insert", "1 2 3")); story.bench.cache.total_size
    3
    >>> print(story.undo(), story.bench.cache.total_size)
    insert [1 2 3] 0
    """

    def __init__(self, settings: Settings | None = None):
        self._first = settings or Settings()
        self.steps: tuple[Step, ...] = ()
        self._go(())

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self.bench.settings

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
        self.bench, self.outcomes = replay(self._first, steps)


def replay(first: Settings, steps: Sequence[Step]) -> tuple[Bench, list[Outcome]]:
    """Do `steps` from an empty cache; what came of them all, and of each.

    A step's error is raised as it is when it comes from the last step, else with the step that it comes from.

    >>> bench, outcomes = replay(Settings(), [Step("insert", tokens=(1, 2)), Step("evict", number=2)])
    >>> [outcome.words for outcome in outcomes]
    ['0 of 2 cached, 2 new in slots 0-1', '2 asked for, 2 freed: slots 0-1']
    """
    outcomes: list[Outcome] = []
    bench, since = Bench(_settings_in(steps, first)), 0
    for i, step in enumerate(steps):
        try:
            outcome = _tell(bench, step, i - since)
        except Exception as error:
            if i == len(steps) - 1:
                raise
            raise ValueError(f"step {i + 1} ({step}) cannot be done then: {error}. Undo it, or reset first") from error
        outcomes.append(outcome)
        if step.verb in _BEGINNINGS:
            bench, since = Bench(_settings_in(steps[i + 1 :], step.settings or bench.settings)), i + 1
    return bench, outcomes


def _settings_in(steps: Sequence[Step], settings: Settings) -> Settings:
    """The last settings chosen before the next beginning: all steps up to there are replayed in them."""
    for step in takewhile(lambda step: step.verb not in _BEGINNINGS, steps):
        settings = step.settings or settings
    return settings


def _tell(bench: Bench, step: Step, steps_before: int) -> Outcome:
    if step.verb == "set":
        return Outcome(f"{steps_before} step{'' if steps_before == 1 else 's'} replayed")
    if step.verb == "scene":
        return Outcome("begins with an empty cache")
    return bench.act(step)
