"""The live parts of a playground, and the history of what was done to them.

A prompt is served by a `CacheManager`, as in an engine, so nothing leaks: every page in use is in
the tree, or held by a request that runs. A film of all of it is recorded, one frame per step; what
a step called says how it went.

A history keeps its steps, not its states. A new step is done in the live cache; for all else the
steps from the last reset or scene are replayed in a new one, which is fast for a lesson's few steps
and always right: a step that fails leaves the history as it was, undo replays one step fewer, and a
step that changes a setting replays those before it, which shows its effect.

    steps   insert  insert  lock   |   undone   evict  set page_size 4      the next one to redo is the last
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

from minikv.course.film import Frame, record
from minikv.course.playground.steps import FIELDS, USUAL, Settings, Step, label_in
from minikv.errors import LockError, OutOfPages
from minikv.manager import CacheManager

Done = tuple[Step, int, Frame]  # a step, how many tokens of its prompt were cached, and its frame


class LiveCache:
    """One cache over one pool of `settings.capacity` pages.

    `held` has the locks and the requests that run, each by its number and its prompt; `done` has
    the steps. `refused` is the last step for which there was no room.

    >>> live = LiveCache(Settings(capacity=4))
    >>> live.do(Step("insert", "1 2 3")); live.film.at(-1).words
    'insert [1 2 3]: none of it is cached; 3 tokens are new'
    >>> live.do(Step("evict", "1")); live.film.at(-1).words
    'evict 1: 3 tokens are evicted (slots 0-2)'
    """

    def __init__(self, settings: Settings):
        self.settings = settings
        self.cache: Any = settings.make()  # of whatever design, it lists its nodes
        self.manager = CacheManager(settings.capacity, settings.page_size, self.cache)
        self.held: Any = {}
        self.done: list[Done] = []
        self.refused: Any = None
        self._locks = count(1)
        self._letters: set[int] = set()  # tokens that were typed as text
        self.film = record(self.manager, label=self._label).start()

    def _label(self, tokens: list[Any]) -> str:
        """Tokens that were typed as text are shown as text, others as numbers."""
        return label_in(tokens, self._letters.issuperset(tokens))

    def do(self, step: Step) -> None:
        """Do a step as one frame of the film; after an error, which is raised, throw this live cache away."""
        tokens, is_text = step.prompt
        self._letters.update(tokens * is_text)
        with self.film.step(str(step)):
            hit = self._served(step) if tokens else self._managed(step)
        frame = self.film.frames.pop()
        telling = ("acquire", "match", "load", "evict", "insert", "abort", f"{step.verb} a prefix")
        told = [line.rpartition(": ")[2] for line in frame.inner if line.startswith(telling)]
        told = told or [f"{self.cache.total_size} token{'s' * (self.cache.total_size != 1)} cached"]
        frame = replace(frame, words=": ".join(filter(None, [frame.op, "; ".join(told)])))
        self.film.frames.append(frame)
        self.done.append((step, hit, frame))

    def _served(self, step: Step) -> int:
        """Do a step with a prompt, and return how much of it was cached."""
        tokens, manager = step.prompt[0], self.manager
        namespace = step.namespace or None
        if step.verb in ("match", "lock"):
            match = self.cache.match_prefix(tokens, namespace=namespace)
            if step.verb == "lock":
                if not match.length:
                    raise ValueError(f"there is nothing to lock: no page of {step.said} is cached")
                self.cache.lock(match.handle)
                self.held[f"{next(self._locks)} {step.said}"] = match.handle
            return int(match.length)
        sequence = manager.start(tokens, namespace=namespace, limit=len(tokens))
        if step.verb == "start":
            self.held[f"r{sequence.number} {step.said}"] = sequence
        else:  # insert: the whole life of a request, which may find all of its tokens cached
            manager.advance(sequence)
            manager.finish(sequence)
        return sequence.cached_length

    def _managed(self, step: Step) -> int:
        """Do any other step; `set`, `scene` and `reset` did what they do when this cache was made."""
        manager, held = self.manager, self.held.get(step.what)
        match step.verb, held:
            case "evict", _:
                evicted = self.cache.evict(int(step.what))
                if manager.host is not None:
                    manager.host.carry_out()
                manager.pool.free(evicted)
            case "unlock" | "publish" | "finish" | "abort", None:
                raise LockError("there is no such lock or request")
            case "publish", _:
                manager.advance(held)
                manager.checkpoint(held)
            case "finish", _:
                manager.advance(held)
                manager.finish(self.held.pop(step.what))
            case "abort", _:
                manager.abort(self.held.pop(step.what))
            case "unlock", _:
                self.cache.unlock(self.held.pop(step.what))
        return 0


class History:
    """The `steps` that were done and the `undone` ones, the next one last; `live` is the cache after the steps.

    >>> history = History(Settings())
    >>> history.do(Step("insert", "1 2 3")); history.live.cache.total_size
    3
    >>> print(history.undo(), history.live.cache.total_size)
    insert [1 2 3] 0
    """

    def __init__(self, settings: Settings = USUAL):
        self._first = settings
        self.steps: list[Step] = []
        self.undone: list[Step] = []
        self._replay([])

    def do(self, *steps: Step) -> None:
        """Do one step or more, all or none; undone ones are forgotten. Raises the package's error for a bad step."""
        if steps[0].verb == "reset" and self.live.held:
            raise LockError(f"cannot reset while these are held: {', '.join(self.live.held)}")
        try:
            if {step.verb for step in steps} <= FIELDS.keys():
                for step in steps:
                    self.live.do(step)
            else:
                self._replay([*self.steps, *steps])
        except Exception as error:
            self._replay(self.steps)
            if isinstance(error, OutOfPages):
                self.live.refused = steps[-1]
            raise
        self.steps += steps
        self.undone = []

    def undo(self) -> Step:
        """Take the last step back and return it."""
        if not self.steps:
            raise ValueError("there is nothing to undo")
        self.undone.append(self.steps.pop())
        self._replay(self.steps)
        return self.undone[-1]

    def redo(self) -> Step:
        """Do the step that was undone last again and return it."""
        if not self.undone:
            raise ValueError("there is nothing to redo")
        *undone, step = self.undone
        self.do(step)
        self.undone = undone
        return step

    def _replay(self, steps: list[Step]) -> None:
        """Do what came since the last beginning; an error says which step it was."""
        settings, begin = self._first, 0
        for i, step in enumerate(steps):
            match step.verb:
                case "set":
                    settings = settings.having(step.what)
                case "scene":
                    settings, begin = self._first if step.what == "(none)" else USUAL, i
                case "reset":
                    begin = i
        live = LiveCache(settings)
        for i, step in enumerate(steps[begin:], 1):
            try:
                live.do(step)
            except Exception as error:
                words = f"step {i} ({step}) would fail: {error}. Undo it or reset first"
                raise ValueError(words) from error
        self.live = live
