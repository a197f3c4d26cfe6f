"""`record`: a film of everything that happens to a prefix cache, its pool and its requests, one frame an operation.

The objects are watched from outside (`minikv.testing.watch`): none of them has a hook, and when the recording ends
they are as they were. A caption says what was called and what it returned, so a learner's own
cache is filmed as ours are, as long as it has the verbs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from minikv.course.film.camera import Recording
from minikv.course.film.frame import Frame, first_and_last
from minikv.course.film.layout import reel_of
from minikv.course.pictures.picture import Picture
from minikv.course.reel import Reel, page_of
from minikv.errors import whole_number
from minikv.files import replace
from minikv.testing.snapshot import Label

if TYPE_CHECKING:
    from minikv.course.player import Player

_MOST_LINES = 30


class Story(NamedTuple):
    """The story of one slot, as a line of events; made by `Film.why`."""

    slot: int
    events: tuple[str, ...]

    def __repr__(self) -> str:
        return f"slot {self.slot}: {' · '.join(self.events)}"


class Film(Recording):
    """The frames of a recording: `at`, `why`, `player` and `save`; made by `record`.

    Frame 0 is the state at the start. An operation inside another that is watched too is part of that one's frame
    (`frame.inner`), so recording a manager gives one frame for each of its operations, and recording only its cache
    and pool gives each of their steps. An operation that raises has a frame as well. Methods that the film does not
    know have one if they changed something.

    >>> from minikv import FreeListPool, record
    >>> pool = FreeListPool(4)
    >>> film = record(pool).start()
    >>> slots = pool.alloc(2)
    >>> film.finish()
    >>> len(film), film.at(-1).words, film.at(-1).sizes
    (2, 'alloc 2: slots 0-1', {'free': 2, 'in hand': 2})
    """

    _reel: Reel | None = None

    def __len__(self) -> int:
        return len(self.frames)

    def __iter__(self) -> Iterator[Frame]:
        return iter(self.frames)

    def at(self, step: int) -> Frame:
        """The frame of a step, or from the end with a negative one; `ValueError` if there is none."""
        rule = f"this film has steps 0 to {len(self.frames) - 1}"
        return self.frames[whole_number("step", step, -len(self.frames), rule, len(self.frames))]

    def why(self, slot: int) -> Story:
        """Who owned `slot`, when and why; `ValueError` for a slot that this film never saw."""
        stories = self.slot_stories()
        rule = "this film saw " + (f"slots {min(stories)} to {max(stories)}" if stories else "none")
        number = whole_number("slot", slot, 0, rule)
        if number not in stories:
            raise ValueError(f"slot is {number}: {rule}")
        return Story(number, tuple(words for _, words in stories[number]))

    def slot_stories(self) -> dict[int, list[tuple[int, str]]]:
        """For every slot that the film saw, its events: (step, words)."""
        stories = {}
        first = self.at(0).state
        for _, free in first.pools[:1]:
            for slot in range(len(free) * first.page_size):
                words = "free" if free[slot // first.page_size] else "in use"
                stories[slot] = [(0, f"{words} from the start")]
        for slot, (key, _) in first.held.items():
            stories[slot] = [(0, f"in node {key} from the start")]
        for frame in self.frames:
            for slot, words in frame.slot_events:
                known = stories.setdefault(slot, [])
                if known[:1] == [(0, "free from the start")]:
                    known.clear()
                known.append((frame.step, words))
        return stories

    def player(self, still: int | None = None) -> Player:
        """The film as an interactive widget: buttons, slider, keys; a click on a node or a slot tells its story.

        Until the first step it shows the step `still` faintly, and where widgets do not run that step is the picture,
        with the text up to it, so that a reader can still predict the later ones; by default it is the first one in
        which there is something. `ValueError` for a step that the film does not have.
        The film keeps playing when the kernel is gone.
        For HTML that is opened offline, `save` carries its own player. `ImportError` without the extra `course`.
        """
        from minikv.course.player import Player

        frame = self.at(self.reel.film["poster"] if still is None else still)
        text = f"{self._text(self.frames[: frame.step + 1])}\n\n{frame.text}"
        alt = f"{self._title}\n{frame.text}"
        return Player(self.reel, Picture(text, lambda: frame.picture.svg, alt), poster=frame.step)

    @property
    def reel(self) -> Reel:
        """The data of the player and of the saved page; made once for so many frames.

        >>> from minikv import FreeListPool
        >>> with record(pool := FreeListPool(2)) as film:
        ...     len(film.reel.captions)
        ...     _ = pool.alloc(1)
        1
        >>> len(film.reel.captions)
        2
        """
        if self._reel is None or len(self._reel.captions) != len(self.frames):
            self._reel = reel_of(self.frames, self.slot_stories())
        return self._reel

    def save(self, path: str | Path) -> Path:
        """Write the film as one HTML file that opens offline, and return its path.

        `OSError` where it cannot be written; a film that was there before is whole then.
        """
        place = Path(path)
        replace(place, page_of(self._title, self.reel))
        return place

    def _text(self, frames: list[Frame]) -> str:
        return "\n".join([self._title, *first_and_last([frame.caption for frame in frames], _MOST_LINES)])

    @property
    def _title(self) -> str:
        names = " and ".join(type(thing).__name__ for thing in self.things)
        return f"Film of {names}: {len(self.frames)} frame{'s' * (len(self.frames) > 1)}"

    def __repr__(self) -> str:
        return self._text(self.frames)


def record(*things: Any, label: Label | None = None, page_size: int | None = None) -> Film:
    """A film of every operation on `things`: a prefix cache, pools, page tables, sequences, a manager, or an engine.

    `label` turns tokens into what is written on nodes and in captions. `page_size` is how many slots an id of the
    pool covers, by default the cache's. Raises `TypeError` for what cannot be filmed.

    >>> from minikv import FreeListPool, RadixCache
    >>> cache, pool = RadixCache(), FreeListPool(8)
    >>> with record(cache, pool) as film:
    ...     _ = cache.insert([1, 2], pool.alloc(2))
    ...     match = cache.match_prefix([1, 9])
    ...     pool.free(cache.evict(1))
    >>> film
    Film of RadixCache and FreeListPool: 6 frames
    0. start
    1. alloc 2: slots 0-1
    2. insert [1 2]: 2 tokens are new
    3. match [1 9]: 1 of 2 tokens is cached
    4. evict 1: 1 token is evicted (slot 1)
    5. free slot 1: 7 slots are free now
    >>> film.why(1).events[1:]
    ('cached by step 2 in node 1 (insert [1 2])', 'evicted by step 4 (evict 1)', 'freed by step 5')
    >>> film.at(4)
    4. evict 1: 1 token is evicted (slot 1)
       (n1 evicted)
    root
    └─ [1] · n2 · slot 0
       └─ [2] · n1 · slot 1 · evicted
    FreeListPool: 6 of 8 slots free
     0  ce......    . free  c cached  e evicted
    free slots: 6 · in hand: 1 · cached: 1 (evictable) · locked: 0 (protected)
    """
    return Film(things, label, page_size)
