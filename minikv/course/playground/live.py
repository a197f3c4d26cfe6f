"""The live parts of a playground, and the history of what was done to them.

A prompt is served by a `CacheManager`, as in an engine, so nothing leaks: every page in use is in the tree, or held by
a request that runs. A film of all of it is recorded, one frame per step.

A history keeps its steps, not its states. The live cache is made by replaying the steps from the start, which is fast
for a lesson's few steps and always right: a step that fails leaves the history as it was, undo replays one step fewer,
and other settings replay the same steps in another cache, which shows their effect there.

    steps   insert  insert  lock  |  set page size 4  evict        replayed up to here: at = 3
            [0, at): done            [at, len): undone, and can be redone
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from minikv.course.film import Film, Frame, record
from minikv.course.film.captions import counted, numbered
from minikv.course.playground.steps import Settings, Step, label_text
from minikv.errors import LockError, OutOfPages
from minikv.manager import CacheManager
from minikv.pools import page_slots
from minikv.testing.snapshot import shorten

_BEGINNINGS = ("reset", "scene")


@dataclass(frozen=True)
class StepOutcome:
    """The result of a step, in `words`, and how many tokens of its prompt were `cached`."""

    words: str
    cached: int = 0


class LiveCache:
    """One cache over one pool of `settings.capacity` pages; `locks` and `running` are by number.

    >>> live = LiveCache(Settings(capacity=4))
    >>> live.do(Step("insert", tokens=(1, 2, 3))).words
    '0 of 3 cached, 3 new in slots 0-2'
    >>> live.do(Step("evict", number=1)).words
    '1 asked for, 3 freed: slots 0-2'
    """

    def __init__(self, settings: Settings):
        self.settings = settings
        self.cache: Any = settings.make()  # of whatever design, it lists its nodes
        self.manager = CacheManager(settings.capacity, settings.page_size, self.cache)
        self.pool = self.manager.pool
        self.locks: dict[int, tuple[Any, str]] = {}
        self.running: dict[int, tuple[Any, str]] = {}
        self._locks_taken = 0
        self._letters: set[int] = set()  # tokens that were typed as text
        self.film: Film = record(self.manager, label=self._label).start()

    def _label(self, tokens: list[Any]) -> str:
        """Tokens that were typed as text are shown as text, others as numbers."""
        return label_text(tokens) if self._letters.issuperset(tokens) else f"[{shorten(tokens)}]"

    def do(self, step: Step) -> StepOutcome:
        """Do what `step` says as one step of the film; after an error, which is raised, throw this live cache away."""
        if step.text:
            self._letters.update(step.tokens)
        with self.film.step(str(step)):
            outcome: StepOutcome = getattr(self, f"_{step.verb}")(step)
        changes, words = self.film.at(-1).changes, outcome.words
        if step.verb in ("match", "insert", "lock"):
            words += "; split a node" * bool(changes.splits) + "; joined nodes" * bool(changes.joined)
        return StepOutcome(words, outcome.cached)

    # -- prompts --------------------------------------------------------------------------------------------------

    def _match(self, step: Step) -> StepOutcome:
        match = self.cache.match_prefix(step.tokens, namespace=step.namespace)
        where = f" in {numbered(match.slots.tolist())}" if match.length else ""
        where += f", {match.host_length} more in host memory" if match.host_length else ""
        return StepOutcome(f"{match.length} of {len(step.tokens)} cached{where}", match.length)

    def _insert(self, step: Step) -> StepOutcome:
        """Serve the prompt: the whole life of a request, which may find all of its tokens cached."""
        sequence, evicted = self._open(step)
        slots, cached, size = sequence.slots.tolist(), sequence.cached_length, self.cache.page_size
        stored = len(slots) // size * size
        self.manager.advance(sequence)
        self.manager.finish(sequence)
        words = f"{cached} of {len(slots)} cached{_loaded(sequence)}"
        words += f", {stored - cached} new in {numbered(slots[cached:stored])}" if stored > cached else ""
        tail = f", tail of {len(slots) - stored} not kept" if len(slots) > stored else ""
        return StepOutcome(words + evicted + tail, cached)

    def _open(self, step: Step) -> tuple[Any, str]:
        """Begin a request: its sequence, and in words what was evicted for it."""
        size = self.cache.total_size
        sequence = self.manager.start(step.tokens, namespace=step.namespace, limit=len(step.tokens))
        evicted = (size + sequence.loaded - self.cache.total_size) // self.cache.page_size
        return sequence, f", evicted {evicted} page{'s' * (evicted > 1)} for it" if evicted else ""

    # -- locks and evictions --------------------------------------------------------------------------------------

    def _lock(self, step: Step) -> StepOutcome:
        match = self.cache.match_prefix(step.tokens, namespace=step.namespace)
        if not match.length:
            raise ValueError(f"there is nothing to lock: no page of {step.said} is cached in this namespace")
        self.cache.lock(match.handle)
        self._locks_taken += 1
        self.locks[self._locks_taken] = match.handle, f"{counted(match.length)} of {step.said}{step.where}"
        return StepOutcome(f"lock {self._locks_taken} holds {counted(match.length)}", match.length)

    def _unlock(self, step: Step) -> StepOutcome:
        if step.number not in self.locks:
            held = f"held are {', '.join(map(str, self.locks))}" if self.locks else "no lock is held"
            raise LockError(f"cannot give back lock {step.number}: {held}")
        handle, what = self.locks.pop(step.number)
        self.cache.unlock(handle)
        return StepOutcome(f"{what} given back")

    def _evict(self, step: Step) -> StepOutcome:
        evicted = self.cache.evict(step.number)
        if self.manager.host is not None:
            self.manager.host.carry_out()
        self.pool.free(evicted)
        slots = page_slots(evicted, self.cache.page_size).tolist()
        words = f"{step.number} asked for, {len(slots)} freed{f': {numbered(slots)}' if slots else ''}"
        if len(slots) < step.number:
            locked = self.cache.protected_size
            words += f", {locked} protected by locks" if locked else ", nothing is left"
        return StepOutcome(words)

    def _reset(self, step: Step) -> StepOutcome:
        if self.running:
            raise LockError(f"cannot reset: {len(self.running)} running: finish or abort first")
        size, pages = self.cache.total_size, [int(page) for node in self.cache.nodes() for page in node.pages]
        self.cache.reset()  # refused while anything is locked
        self.pool.free(pages)
        return StepOutcome(f"{counted(size)} forgotten{', and host memory' * bool(self.settings.host_pages)}")

    # -- requests that keep running -------------------------------------------------------------------------------

    def _start(self, step: Step) -> StepOutcome:
        sequence, evicted = self._open(step)
        self.running[sequence.number] = sequence, f"{step.said}{step.where}"
        cached, length = sequence.cached_length, sequence.length
        found, rest = f"{cached} of {length} cached{_loaded(sequence)}", f"{length - cached} to compute"
        return StepOutcome(f"r{sequence.number} runs: {found}, {rest}{evicted}", cached)

    def _publish(self, step: Step) -> StepOutcome:
        """Compute what is left of the prompt, and publish it."""
        sequence, before = self._running(step), self.cache.total_size
        self.manager.advance(sequence)
        self.manager.checkpoint(sequence)
        return StepOutcome(f"all computed, {counted(self.cache.total_size - before)} more can be found by others")

    def _finish(self, step: Step) -> StepOutcome:
        self.manager.advance(self._running(step))
        return self._end(step, self.manager.finish, "what it computed is cached")

    def _abort(self, step: Step) -> StepOutcome:
        return self._end(step, self.manager.abort, "what it had published stays")

    def _end(self, step: Step, end: Callable[[Any], None], kept: str) -> StepOutcome:
        sequence, free = self._running(step), self.pool.num_free
        end(sequence)
        del self.running[step.number]
        freed = (self.pool.num_free - free) * self.settings.page_size
        return StepOutcome(f"r{step.number} is over, {counted(freed)} freed, {kept}")

    def _running(self, step: Step) -> Any:
        if step.number not in self.running:
            raise ValueError("no request runs: type a prompt and press start")
        return self.running[step.number][0]


def _loaded(sequence: Any) -> str:
    return f", {sequence.loaded} of them from host memory" if sequence.loaded else ""


class History:
    """Steps that were done, up to `at`, and undone ones after it; `live` is the cache after them.

    `refused` is the last step since the scene for which there was no room.

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
        self.refused: Step | None = None
        self._replay(())

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self.live.settings

    @property
    def since(self) -> list[tuple[Step, StepOutcome, Frame]]:
        """The steps since the last beginning, each with its outcome and its frame."""
        frames = self.live.film.frames[1:]
        start = self.at - len(frames)
        return list(zip(self.steps[start:], self.outcomes[start:], frames))

    @property
    def at(self) -> int:
        """Return how many steps are done and not undone."""
        return len(self.outcomes)

    def do(self, *steps: Step) -> None:
        """Do one step or more, all or none; undone ones are forgotten. Raises the package's error for a bad step."""
        done = (*self.steps[: self.at], *steps)
        try:
            self._replay(done)
        except OutOfPages:
            self.refused = steps[-1]
            raise
        self.steps = done
        if steps[0].verb == "scene":
            self.refused = None

    def set(self, settings: Settings) -> None:
        """Continue with other settings, as if they had been so since the last reset: its steps are replayed in them.

        Raises `ValueError`, and changes nothing, when one of these steps cannot be done in them.
        """
        if settings != self.settings:
            self.do(Step("set", self.settings.changes(settings), settings=settings))

    def undo(self) -> Step:
        """Take the last step back and return it."""
        if not self.at:
            raise ValueError("there is nothing to undo")
        self._replay(self.steps[: self.at - 1])
        return self.steps[self.at]

    def redo(self) -> Step:
        """Do the step that was undone last again and return it."""
        if self.at == len(self.steps):
            raise ValueError("there is nothing to redo")
        self._replay(self.steps[: self.at + 1])
        return self.steps[self.at - 1]

    def _replay(self, steps: Sequence[Step]) -> None:
        """Do `steps` from an empty cache; an error of an earlier step than the last says which one it was."""
        outcomes = []
        live = LiveCache(_settings_in(steps, self._first))
        for i, step in enumerate(steps):
            try:
                outcomes.append(_do(live, step))
            except Exception as error:
                if i == len(steps) - 1:
                    raise
                words = f"step {i + 1} ({step}) cannot be done then: {error}. Undo it, or reset first"
                raise ValueError(words) from error
            if step.verb in _BEGINNINGS:
                live = LiveCache(_settings_in(steps[i + 1 :], step.settings or live.settings))
        self.live = live
        self.outcomes = outcomes


def _settings_in(steps: Sequence[Step], settings: Settings) -> Settings:
    """The last settings chosen before the next beginning: all steps up to there are replayed in them."""
    for step in takewhile(lambda step: step.verb not in _BEGINNINGS, steps):
        settings = step.settings or settings
    return settings


def _do(live: LiveCache, step: Step) -> StepOutcome:
    if step.verb == "scene":
        return StepOutcome("begins with an empty cache")
    if step.verb != "set":
        return live.do(step)
    replayed = len(live.film) - 1
    with live.film.step(str(step)):
        return StepOutcome(f"{replayed} step{'' if replayed == 1 else 's'} replayed")
