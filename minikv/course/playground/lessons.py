"""Scenes to begin a lesson with, loaded as history so that undo walks back through them, and goals to play for.

A goal begins with a scene, and says whether it is reached and, if not, what is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from minikv.course.film import Frame
from minikv.course.playground.live import History, StepOutcome
from minikv.course.playground.steps import Settings, Step, prompt_step
from minikv.errors import bounded

_USUAL = Settings()
StepsPlayed = list[tuple[Step, StepOutcome, Frame]]


@dataclass(frozen=True)
class Scene:
    """Settings and steps; `hint` says what to look at, `then` is a prompt to continue with.

    In `script`, a step is its verb and then a number, or a prompt and perhaps the namespace that it is in; with `text`,
    prompts are text.

    >>> print(*Scene("a", "", "insert 1 2 in B, evict 1", "1 3").steps, sep=", ")
    scene 'a', insert [1 2] in 'B', evict 1
    """

    name: str
    hint: str
    script: str
    then: str
    settings: Settings = _USUAL
    text: bool = False

    @property
    def steps(self) -> list[Step]:
        """The scene as history, from an empty cache on."""
        own = map(self._step, filter(None, self.script.split(", ")))
        return [Step("scene", repr(self.name), settings=self.settings), *own]

    def _step(self, words: str) -> Step:
        verb, _, what = words.partition(" ")
        if verb == "evict":
            return Step(verb, what, number=int(what))
        prompt, _, namespace = what.partition(" in ")
        return prompt_step(verb, prompt, text=self.text, namespace=namespace or None)


_SCENES = (
    Scene(
        "two prompts share a prefix",
        "Both prompts begin alike, and these tokens are stored once. Undo walks back to the first prompt.",
        "insert the cat sat, insert the cat ran", "the dog sat", text=True,
    ),
    Scene(
        "split under a lock",
        "The locked node was cut in two: both parts stay locked. Give lock 1 back, and both are free to go.",
        "insert 1 2 3 4 5 6, lock 1 2 3 4 5 6, insert 1 2 3 9", "1 2 8",
    ),
    Scene(
        "evict the tail first",
        "The least recently used leaf went. Evict again: the shared prefix is always the last to go.",
        "insert 1 2 3 4, insert 1 2 5 6, match 1 2 3 4, evict 2", "1 2 5 6",
    ),
    Scene(
        "pages of 4",
        "Six tokens agree, but only whole pages are shared. Set the page size to 1 or 2: the steps are replayed in it.",
        "insert 1 2 3 4 5 6 7 8 9 10, match 1 2 3 4 5 6 0", "1 2 3 4 5 6 7 8 9 10 11 12",
        Settings(page_size=4, capacity=12),
    ),
    Scene(
        "two namespaces",
        "The same tokens, three namespaces: nothing is shared between them, and C finds nothing.",
        "insert 1 2 3, insert 1 2 3 4 in B, match 1 2 3 in C", "1 2 3",
    ),
    Scene(
        "full: what may go?",
        "The pool is full, and a lock holds 4 of 8. Insert 9 10 11: what goes? Then try five tokens: why not?",
        "insert 1 2 3 4, lock 1 2 3 4, insert 1 2 5 6, insert 7 8", "9 10 11",
        Settings(capacity=8),
    ),
    Scene(
        "who goes first?",
        "Which of the three went, and why? Choose another policy: the same steps are replayed under it.",
        "insert 1 1 1, match 1 1 1, match 1 1 1, insert 2 2 2, insert 3 3 3, match 2 2 2, evict 3", "4 4 4 4 4",
        Settings(capacity=12),
    ),
)  # fmt: skip
SCENES = {scene.name: scene for scene in _SCENES}


@dataclass(frozen=True)
class Goal:
    """A goal to reach from a scene; `missing` says what is still missing, and is empty once it is reached.

    It looks at the history, which knows what was refused last, and at the player's own steps, those after the scene's.
    """

    name: str
    scene: Scene
    missing: Callable[[History, StepsPlayed], str]

    def state(self, history: History) -> tuple[bool, str]:
        """Return whether it is reached, and in words how far one is.

        >>> goal, history = GOALS["cut an edge in one step"], History()
        >>> history.do(*goal.scene.steps)
        >>> goal.state(history)
        (False, 'not yet: no edge was cut')
        """
        own = history.since[len(self.scene.steps) - 1 :]
        missing = self.missing(history, own)
        steps = f"{len(own)} step{'' if len(own) == 1 else 's'}"
        return not missing, f"not yet: {missing}" if missing else f"done, in {steps}"


def _cut(history: History, own: StepsPlayed) -> str:
    return "" if any(frame.changes.splits for _, _, frame in own) else "no edge was cut"


def _hit(history: History, own: StepsPlayed) -> str:
    hits = [outcome.cached for _, outcome, _ in own]
    return "" if 8 in hits else f"the last hit was {hits[-1]} tokens long" if hits else "no prompt was tried"


def _protect(history: History, own: StepsPlayed) -> str:
    live = history.live
    have = live.cache.protected_size
    capacity = live.settings.capacity * live.settings.page_size
    locks = len(live.locks)
    if 2 * have > capacity and locks == 2:
        return ""
    return f"{'1 lock protects' if locks == 1 else f'{locks} locks protect'} {have} of {capacity} slots"


def _refuse(history: History, own: StepsPlayed) -> str:
    if history.refused is None:
        return "nothing was refused for lack of room"
    settings = history.settings
    fits = len(history.refused.tokens) <= settings.capacity * settings.page_size
    return "" if fits else "this prompt would not fit even an empty pool"


def _newest(history: History, own: StepsPlayed) -> str:
    if not own or own[-1][0].verb != "evict":
        return "evict something"
    prompts = list(dict.fromkeys(step.tokens for step, _, _ in history.since if step.verb == "insert"))
    kept = [_is_whole(prompt, own[-1][2]) for prompt in prompts]
    if kept[-1]:
        return f"the prompt inserted last, {list(prompts[-1])}, is still whole"
    return "" if all(kept[:-1]) else "an earlier prompt went too"


def _is_whole(prompt: tuple[int, ...], frame: Frame) -> bool:
    """Return whether all of a prompt was cached when a frame was taken."""
    state = frame.state
    paths: dict[int, list[int]] = {}
    for key, node in state.nodes.items():  # parents first
        above = state.parents[key]
        paths[key] = (paths[above] if above is not None else []) + node.tokens
    return any(tuple(path[: len(prompt)]) == prompt for path in paths.values())


def _publish(history: History, own: StepsPlayed) -> str:
    published = [at for at, (step, _, _) in enumerate(own) if step.verb == "publish"]
    if not published:
        return "no request has published anything while it ran"
    later = own[published[0] :]
    if not any(outcome.cached for step, outcome, _ in later if step.verb in ("start", "insert", "match")):
        return "no other prompt has hit what it published"
    numbers = {own[at][0].number for at in published}
    aborted = any(step.verb == "abort" and step.number in numbers for step, _, _ in own)
    return "" if aborted else "the request that published was not aborted yet"


_GOALS = (
    Goal("cut an edge in one step", Scene(
        "cut", "One prompt, one edge. Which prompt cuts it?", "insert 1 2 3 4 5 6", "1 2 3 4 5 6"), _cut),
    Goal("make a prompt hit 8 tokens", Scene(
        "hit", "Each letter is a token. Type a prompt that finds exactly 8 of them.",
        "insert the cat sat, insert a dog", "the dog", text=True), _hit),
    Goal("protect more than half with two locks", Scene(
        "protect", "16 slots, three prompts: lock two so that more than 8 slots are protected.",
        "insert 1 2 3 4 5 6, insert 1 2 3 7 8 9, insert 20 21 22", "1 2 3",
        Settings(capacity=16)), _protect),
    Goal("make admit refuse a prompt that would fit", Scene(
        "refuse", "8 slots, 6 in use. Lock, then insert a prompt of at most 8 tokens that gets no room.",
        "insert 1 2 3 4, insert 5 6", "7 8 9", Settings(capacity=8)), _refuse),
    Goal("evict the prompt that was inserted last", Scene(
        "newest", "The least recently used prompt goes first: make it the one that was inserted last.",
        "insert 1 1 1, insert 2 2 2, insert 3 3 3", "3 3 3", Settings(capacity=12)), _newest),
    Goal("publish, hit, and abort", Scene(
        "publish", "Start a request, publish while it runs, let another prompt hit that, then abort the first.",
        "", "1 2 3 4", Settings(capacity=16)), _publish),
)  # fmt: skip
GOALS = {goal.name: goal for goal in _GOALS}


def goal_of(goal: str | Goal) -> Goal:
    """A goal by its name, or as it is; `ValueError` names those that there are."""
    if isinstance(goal, Goal):
        return goal
    if goal not in GOALS:
        raise ValueError(f"goal is {bounded(goal)}: expected one of {', '.join(map(repr, GOALS))}")
    return GOALS[goal]
