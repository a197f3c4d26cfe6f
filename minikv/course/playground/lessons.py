"""Scenes to begin a lesson with, which are scripts, so that undo walks back through them, and goals to play for.

A goal begins with a scene, and says whether it is reached and, if not, what is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from minikv.course.film import Frame
from minikv.course.playground.live import History
from minikv.course.playground.steps import Step, steps_in
from minikv.errors import bounded

StepsDone = list[tuple[Step, int, Frame]]  # each with how many tokens of its prompt were cached


class Scene(NamedTuple):
    """A script, and a prompt to continue with; `hint` says what to look at.

    In a goal, `missing` says what is missing to reach it, and is empty once it is reached. It looks at the history,
    which knows what was refused last, and at the player's own steps, those after the scene's.

    >>> print(*Scene("a", "", "set page_size 2, insert 1 2 in B", "1 3").steps, sep="; ")
    scene a; set page_size 2; insert [1 2] in 'B'
    """

    name: str
    hint: str
    script: str
    then: str
    missing: Callable[[History, StepsDone], str] | None = None

    @property
    def steps(self) -> list[Step]:
        """The scene as history, from an empty cache on."""
        return [Step("scene", self.name), *steps_in(self.script)]

    def state(self, history: History) -> tuple[bool, str]:
        """Return whether a goal is reached, and in words how far one is; a scene without a goal says nothing.

        >>> goal, history = GOALS["cut an edge in one step"], History()
        >>> history.do(*goal.steps)
        >>> goal.state(history)
        (False, 'goal: cut an edge in one step (not yet: no edge was cut)')
        """
        if self.missing is None:
            return False, ""
        own = history.live.done[len(self.steps) :]
        missing = self.missing(history, own)
        state = f"not yet: {missing}" if missing else f"done, in {len(own)} of your steps"
        return not missing, f"goal: {self.name} ({state})"


_SCENES = [
    Scene(
        "two prompts share a prefix",
        "Both prompts begin alike, and these tokens are stored once. Undo walks back to the first prompt.",
        "insert the cat sat, insert the cat ran", "the dog sat",
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
        "set page_size 4 capacity 12, insert 1 2 3 4 5 6 7 8 9 10, match 1 2 3 4 5 6 0",
        "1 2 3 4 5 6 7 8 9 10 11 12",
    ),
    Scene(
        "two namespaces",
        "The same tokens, three namespaces: nothing is shared between them, and C finds nothing.",
        "insert 1 2 3, insert 1 2 3 4 in B, match 1 2 3 in C", "1 2 3",
    ),
    Scene(
        "full: what may go?",
        "The pool is full, and a lock holds 4 of 8. Insert 9 10 11: what goes? Then try five tokens: why not?",
        "set capacity 8, insert 1 2 3 4, lock 1 2 3 4, insert 1 2 5 6, insert 7 8", "9 10 11",
    ),
    Scene(
        "who goes first?",
        "Which of the three went, and why? Choose another policy: the same steps are replayed under it.",
        "set capacity 12, insert 1 1 1, match 1 1 1, match 1 1 1, insert 2 2 2, insert 3 3 3, match 2 2 2, evict 3",
        "4 4 4 4 4",
    ),
]  # fmt: skip
SCENES = {scene.name: scene for scene in _SCENES}
NO_SCENE = Scene("", "Type a prompt, text or token ids, and press Enter, which inserts it; or choose a scene.", "", "")


def _cut(history: History, own: StepsDone) -> str:
    return "" if any(frame.changes.splits for _, _, frame in own) else "no edge was cut"


def _hit(history: History, own: StepsDone) -> str:
    hits = [hit for _, hit, _ in own]
    last = f"the last hit was {hits[-1]} tokens long" if hits else "no prompt was tried"
    return "" if 8 in hits else last


def _protect(history: History, own: StepsDone) -> str:
    have, slots, locks = history.live.cache.protected_size, history.live.slots, len(history.live.held)
    return "" if 2 * have > slots and locks == 2 else f"{have} of {slots} slots are protected, locks: {locks}"


def _refuse(history: History, own: StepsDone) -> str:
    if history.refused is None:
        return "nothing was refused for lack of room"
    fits = len(history.refused.prompt[0]) <= history.live.slots
    return "" if fits else "this prompt would not fit even an empty pool"


def _newest(history: History, own: StepsDone) -> str:
    if not own or own[-1][0].verb != "evict":
        return "evict something"
    inserted = {step.prompt[0]: step for step, _, _ in history.live.done if step.verb == "insert"}
    *others, newest = inserted.values()
    if _is_whole(newest, history):
        return f"the prompt inserted last, {newest.said}, is still whole"
    return "" if all(_is_whole(other, history) for other in others) else "an earlier prompt went too"


def _is_whole(step: Step, history: History) -> bool:
    """Return whether a match would find all of a prompt: it is tried in a replay."""
    again = History()
    again.do(*history.steps[: history.at], step._replace(verb="match"))
    return again.live.done[-1][1] == len(step.prompt[0])


def _publish(history: History, own: StepsDone) -> str:
    published = [at for at, (step, _, _) in enumerate(own) if step.verb == "publish"]
    if not published:
        return "no request has published anything while it ran"
    if not any(hit for _, hit, _ in own[published[0] :]):
        return "no other prompt has hit what it published"
    aborted = {step.what for step, _, _ in own if step.verb == "abort"}
    is_aborted = any(own[at][0].what in aborted for at in published)
    return "" if is_aborted else "the request that published was not aborted yet"


_GOALS = (
    Scene(
        "cut an edge in one step",
        "One prompt, one edge. Which prompt cuts it?",
        "insert 1 2 3 4 5 6", "1 2 3 4 5 6", _cut,
    ),
    Scene(
        "make a prompt hit 8 tokens",
        "Each letter is a token. Type a prompt that finds exactly 8 of them.",
        "insert the cat sat, insert a dog", "the dog", _hit,
    ),
    Scene(
        "protect more than half with two locks",
        "16 slots, three prompts: lock two so that more than 8 slots are protected.",
        "set capacity 16, insert 1 2 3 4 5 6, insert 1 2 3 7 8 9, insert 20 21 22", "1 2 3", _protect,
    ),
    Scene(
        "make admit refuse a prompt that would fit",
        "8 slots, 6 in use. Lock, then insert a prompt of at most 8 tokens that gets no room.",
        "set capacity 8, insert 1 2 3 4, insert 5 6", "7 8 9", _refuse,
    ),
    Scene(
        "evict the prompt that was inserted last",
        "The least recently used prompt goes first: make it the one that was inserted last.",
        "set capacity 12, insert 1 1 1, insert 2 2 2, insert 3 3 3", "3 3 3", _newest,
    ),
    Scene(
        "publish, hit, and abort",
        "Start a request, publish while it runs, let another prompt hit that, then abort the first.",
        "set capacity 16", "1 2 3 4", _publish,
    ),
)  # fmt: skip
GOALS = {goal.name: goal for goal in _GOALS}


def scene_of(kind: str, scene: str | Scene | None, known: dict[str, Scene]) -> Scene | None:
    """A scene or a goal by its name, or as it is; `ValueError` names those that there are."""
    if not isinstance(scene, str):
        return scene
    if scene not in known:
        raise ValueError(f"{kind} is {bounded(scene)}: expected one of {', '.join(map(repr, known))}")
    return known[scene]
