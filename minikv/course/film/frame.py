"""One frame of a film: an operation, everything as it was after it, and what it changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from minikv.course.film.changes import NodeEvent, lock_events
from minikv.course.film.layout import picture_of
from minikv.course.film.view import StateView
from minikv.course.pictures.picture import Picture

MOST_INNER = 12


@dataclass(frozen=True)
class Frame(StateView):
    """What a film shows at one step, as plain data; it draws itself in a notebook.

    `op` is the operation in short, `words` with its outcome, `inner` the watched operations that it called itself,
    `error` the name of what it raised. `began` is the moment at which it was called.
    """

    step: int = 0
    op: str = ""
    words: str = ""
    inner: tuple[str, ...] = ()
    error: str | None = None
    began: int = 0

    @property
    def caption(self) -> str:
        """The step and its words."""
        return f"{self.step}. {self.words}"

    @property
    def inner_words(self) -> list[str]:
        """What it called itself; of many operations, the first and the last ones."""
        over = len(self.inner) - MOST_INNER
        if over <= 0:
            return list(self.inner)
        return [*self.inner[: MOST_INNER // 2], f"… {over} more …", *self.inner[-MOST_INNER // 2 :]]

    @property
    def node_events(self) -> list[NodeEvent]:
        """(node, what happened to it), in words that name this step."""
        locks = lock_events(self.before, self.state, self.changes)
        return [(key, words.format(step=self.step, op=self.op)) for key, words in (*self.changes.nodes, *locks)]

    @property
    def slot_events(self) -> list[tuple[int, str]]:
        """(slot, what happened to it), in words that name this step."""
        return [(slot, words.format(step=self.step, op=self.op)) for slot, _, words in self.changes.slots]

    @property
    def text(self) -> str:
        """The text twin of the picture, with what the operation called."""
        changes = "; ".join(self.changes.words)
        lines = [self.caption, *(f"   {words}" for words in self.inner_words), *[f"   ({changes})"] * bool(changes)]
        return "\n".join([*lines, self.contents])

    @property
    def picture(self) -> Picture:
        """The frame as a picture on a canvas of its own size."""
        return picture_of(self)

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, str], dict[str, Any]]:
        return self.picture._repr_mimebundle_()
