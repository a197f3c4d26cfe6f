"""Scenes to begin a lesson with: a few steps each, loaded as history, so that undo walks back through them."""

from __future__ import annotations

from dataclasses import dataclass

from minikv.course.playground.steps import Settings, Step, prompt_step

_USUAL = Settings()


@dataclass(frozen=True)
class Scene:
    """Settings and steps; `hint` says what to look at, `then` is a prompt to go on with.

    In `told`, a step is its verb and then a prompt, a number, or a prompt and its namespace; with `text`, prompts are
    text.

    >>> print(*Scene("a", "", (("insert", "1 2"), ("evict", 1))).steps, sep=", ")
    scene 'a', insert [1 2], evict 1
    """

    name: str
    hint: str
    told: tuple[tuple[str | int, ...], ...]
    settings: Settings = _USUAL
    text: bool = False
    then: str = ""

    @property
    def steps(self) -> list[Step]:
        """The scene as history, from an empty cache on."""
        return [Step("scene", repr(self.name), settings=self.settings), *(self._step(*words) for words in self.told)]

    def _step(self, verb: str | int, what: str | int, namespace: str | int | None = None) -> Step:
        if isinstance(what, int):
            return Step(str(verb), str(what), number=what)
        return prompt_step(str(verb), what, text=self.text, namespace=None if namespace is None else str(namespace))


_ALL = [
    Scene(
        "two prompts share a prefix",
        "Both prompts begin alike, and these tokens are stored once. Undo walks back to the first prompt.",
        (("insert", "the cat sat"), ("insert", "the cat ran")),
        text=True,
        then="the dog sat",
    ),
    Scene(
        "split under a lock",
        "The locked node was cut in two: both parts stay locked. Give lock 1 back, and both are free to go.",
        (("insert", "1 2 3 4 5 6"), ("lock", "1 2 3 4 5 6"), ("insert", "1 2 3 9")),
        then="1 2 8",
    ),
    Scene(
        "evict the tail first",
        "The leaf that was not used for longest went. Evict again: the shared prefix is always the last to go.",
        (("insert", "1 2 3 4"), ("insert", "1 2 5 6"), ("match", "1 2 3 4"), ("evict", 2)),
        then="1 2 5 6",
    ),
    Scene(
        "pages of 4",
        "Six tokens agree, but only whole pages are shared. Set the page size to 1 or 2: the steps are replayed in it.",
        (("insert", "1 2 3 4 5 6 7 8 9 10"), ("match", "1 2 3 4 5 6 0")),
        Settings(page_size=4, capacity=12),
        then="1 2 3 4 5 6 7 8 9 10 11 12",
    ),
    Scene(
        "two namespaces",
        "The same tokens, three namespaces: nothing is shared between them, and C finds nothing.",
        (("insert", "1 2 3"), ("insert", "1 2 3 4", "B"), ("match", "1 2 3", "C")),
        then="1 2 3",
    ),
    Scene(
        "full: what may go?",
        "The pool is full, and a lock holds 4 of 8. Insert 9 10 11: what goes? Then try five tokens: why not?",
        (("insert", "1 2 3 4"), ("lock", "1 2 3 4"), ("insert", "1 2 5 6"), ("insert", "7 8")),
        Settings(capacity=8),
        then="9 10 11",
    ),
    Scene(
        "who goes first?",
        "Which of the three went, and why? Choose another policy: the same steps are replayed under it.",
        (("insert", "1 1 1"), ("match", "1 1 1"), ("match", "1 1 1"), ("insert", "2 2 2"), ("insert", "3 3 3"),
         ("match", "2 2 2"), ("evict", 3)),
        Settings(capacity=12),
        then="4 4 4 4 4",
    ),
]  # fmt: skip
SCENES = {scene.name: scene for scene in _ALL}
