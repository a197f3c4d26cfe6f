"""Scenes to begin a lesson with, which are scripts, so that undo walks back through them, and goals to play for.

A goal is a scene with tests: each says what is missing while it is not met.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from minikv.course.playground.live import Done, History
from minikv.course.playground.steps import Step, steps_in


class Scene(NamedTuple):
    """A script, and a prompt to continue with; `hint` says what to look at.

    In a goal, `tests` has what is missing, each with a function that tells whether it is there: of
    the history, and of the player's own steps, those after the scene's.

    >>> print(*Scene("a", "", "set page_size 2, insert 1 2 in B", "1 3").steps, sep="; ")
    scene a; set page_size 2; insert [1 2] in 'B'
    """

    name: str
    hint: str
    script: str
    then: str
    tests: dict[str, Any] | None = None

    @property
    def steps(self) -> list[Step]:
        """The scene as history, from an empty cache on."""
        return [Step("scene", self.name), *steps_in(self.script)]

    def state(self, history: History) -> tuple[str, str]:
        """Return "good" where a goal is reached, else "hint", and in words how far one is; nothing without a goal.

        >>> goal, history = GOALS["cut an edge in one step"], History()
        >>> history.do(*goal.steps)
        >>> goal.state(history)
        ('hint', 'goal: cut an edge in one step (not yet: no edge was cut)')
        """
        done = history.live.done
        own = done[len(self.steps) if done and done[0][0].verb == "scene" else 0 :]
        missing = next((words for words, is_met in (self.tests or {}).items() if not is_met(history, own)), "")
        state = f"not yet: {missing}" if missing else f"reached, your steps: {len(own)}"
        return "hint" if missing else "good", f"goal: {self.name} ({state})" if self.tests else ""


_SCENES = [
    Scene(
        "two prompts share a prefix",
        "Both prompts start with the same tokens, stored only once. Undo walks back to the first prompt.",
        "insert the cat sat, insert the cat ran", "the dog sat",
    ),
    Scene(
        "split under a lock",
        "The locked node was cut in two: both parts stay locked. Release lock 1, and both can be evicted.",
        "insert 1 2 3 4 5 6, lock 1 2 3 4 5 6, insert 1 2 3 9", "1 2 8",
    ),
    Scene(
        "evict the tail first",
        "The least recently used leaf went. Evict again: the shared prefix is always the last to go.",
        "insert 1 2 3 4, insert 1 2 5 6, match 1 2 3 4, evict 2", "1 2 5 6",
    ),
    Scene(
        "pages of 4",
        "Six tokens agree, but only whole pages are shared. Set the page size to 1 or 2 to replay the steps with it.",
        "set page_size 4 capacity 12, insert 1 2 3 4 5 6 7 8 9 10, match 1 2 3 4 5 6 0",
        "1 2 3 4 5 6 7 8 9 10 11 12",
    ),
    Scene(
        "two namespaces",
        "The same tokens in three namespaces: they share nothing, and C finds nothing.",
        "insert 1 2 3, insert 1 2 3 4 in B, match 1 2 3 in C", "1 2 3",
    ),
    Scene(
        "full: what can be evicted?",
        "The pool is full, and a lock holds 4 of 8 slots. Insert 9 10 11: what is evicted? Now try five tokens.",
        "set capacity 8, insert 1 2 3 4, lock 1 2 3 4, insert 1 2 5 6, insert 7 8", "9 10 11",
    ),
    Scene(
        "who goes first?",
        "Which of the three went, and why? Choose another policy: the same steps are replayed under it.",
        "set capacity 12, insert 1 1 1, match 1 1 1, match 1 1 1, insert 2 2 2, insert 3 3 3, match 2 2 2, evict 3",
        "4 4 4 4 4",
    ),
    Scene(
        "(none)",
        "Type text or token ids and press Enter to insert them, or choose a scene.",
        "", "",
    ),
]  # fmt: skip
SCENES = {scene.name: scene for scene in _SCENES}
NO_SCENE = _SCENES[-1]


def _whole(history: History) -> list[bool]:
    """Which of the prompts that were inserted are cached whole: in a replay, each is looked for."""
    inserted = dict.fromkeys((step.what, step.namespace) for step, _, _ in history.live.done if step.verb == "insert")
    again = History()
    again.do(*history.steps, *(Step("match", *prompt) for prompt in inserted))
    return [hit == len(step.prompt[0]) for step, hit, _ in again.live.done[-len(inserted) :]]


def _requests(verb: str, own: list[Done]) -> set[str]:
    return {step.what for step, _, _ in own if step.verb == verb}


_GOALS = (
    Scene(
        "cut an edge in one step",
        "The tree has one prompt, on one edge. Which prompt cuts that edge?",
        "insert 1 2 3 4 5 6", "1 2 3 4 5 6",
        {"no edge was cut": lambda _, own: any(frame.changes.splits for _, _, frame in own)},
    ),
    Scene(
        "make a prompt hit 8 tokens",
        "Each letter is a token. Type a prompt that hits exactly 8 cached tokens.",
        "insert the cat sat, insert a dog", "the dog",
        {"no prompt hit exactly 8 tokens": lambda _, own: 8 in (hit for _, hit, _ in own)},
    ),
    Scene(
        "protect more than half with two locks",
        "16 slots, three prompts: lock two so that more than 8 slots are protected.",
        "set capacity 16, insert 1 2 3 4 5 6, insert 1 2 3 7 8 9, insert 20 21 22", "1 2 3",
        {
            "take two locks": lambda history, _: len(history.live.held) == 2,
            "at most 8 slots are protected": lambda history, _: history.live.cache.protected_size > 8,
        },
    ),
    Scene(
        "make admit refuse a prompt that would fit",
        "6 of 8 slots are in use. Take a lock, then insert a prompt of at most 8 tokens that does not fit.",
        "set capacity 8, insert 1 2 3 4, insert 5 6", "7 8 9",
        {
            "nothing was refused for lack of room": lambda history, _: history.live.refused,
            "this prompt is too long for the pool": lambda history, _: (
                len(history.live.refused.prompt[0]) <= 8
            ),
        },
    ),
    Scene(
        "evict the prompt that was inserted last",
        "The least recently used prompt goes first: make that the one inserted last.",
        "set capacity 12, insert 1 1 1, insert 2 2 2, insert 3 3 3", "3 3 3",
        {
            "evict something": lambda _, own: own and own[-1][0].verb == "evict",
            "the last prompt is still fully cached": lambda history, _: not _whole(history)[-1],
            "an earlier prompt was evicted too": lambda history, _: all(_whole(history)[:-1]),
        },
    ),
    Scene(
        "publish, hit, and abort",
        "Start a request, publish while it runs, let another prompt hit what it published, then abort the request.",
        "set capacity 16", "1 2 3 4",
        {
            "no running request has published yet": lambda _, own: _requests("publish", own),
            "no other prompt hit what it published": lambda _, own: any(
                hit for _, hit, _ in own[[step.verb for step, _, _ in own].index("publish") :]
            ),
            "that request has not been aborted yet": lambda _, own: (
                _requests("publish", own) & _requests("abort", own)
            ),
        },
    ),
)  # fmt: skip
GOALS = {goal.name: goal for goal in _GOALS}


def scene_named(name: str) -> Scene:
    """A scene or a goal by its name; `ValueError` names those that there are."""
    known = {**SCENES, **GOALS}
    if name not in known:
        raise ValueError(f"scene is {name!r}: expected one of {', '.join(map(repr, known))}")
    return known[name]
