"""Films say and show what `golden/film_words.txt` says, word for word; see `golden_text`."""

import re
from collections import defaultdict

import pytest
from films_of_learners import AFTERWARDS
from golden_text import compare, sections
from scripted_films import FILMS

from minikv.course.film.changes import Changes, FilmEvent
from minikv.testing.snapshot import ranges

GOLDEN = "film_words.txt"
LEGEND = re.compile(r"(?<=\S)    \S [a-z].*|^[.#a-z] [a-z].*")  # after the cells of a pool, or below a table
MARKS = re.compile(" · (matched|new|split|joined)")
EVERY_KIND = Changes(
    [
        FilmEvent(1, "split", 5), FilmEvent(9, "joins", 6), FilmEvent(10, "joins", 6), FilmEvent(2, "gone", "evicted"),
        FilmEvent(13, "joins", 14), FilmEvent(6, "new"), FilmEvent(6, "joins", 12),
        FilmEvent(3, "gone", "evicted"), FilmEvent(4, "gone", "removed"), FilmEvent(7, "new"), FilmEvent(8, "grown"),
    ]
)  # fmt: skip


def told(film, tell_events=True):
    """Of each frame what the one before did not show: lines, events, sizes, and whose the cells are."""
    lines, known = [], {"0. start", "root", "   : "}
    for frame in film:
        known |= {pool.heading for pool in frame.pools if frame.step}
        known |= {f"   {words}" for words in frame.inner_words[1:] if "…" not in words}
        shown = frame.text.splitlines()[: -1 if frame.sizes else None]
        shown += [
            f"   n{key}: {short(film, words)}" for key, words in frame.node_events * tell_events if not frame.inner
        ]
        shown += [f"   ! {frame.error}"] if frame.error else []
        cells = [" ".join(box.word or "-" for box in pool.boxes[:8]).rstrip(" -") for pool in frame.pools]
        shown += [f"   = {' '.join(map(str, frame.sizes.values()))}", f"   : {' | '.join(cells)}"] * bool(cells)
        lines += [LEGEND.sub("", line) for line in shown if line not in known]
        known = {*shown, "   : "} | {MARKS.sub("", line) for line in shown}
    return list(filter(None, lines)) + slot_stories(film) * tell_events


def short(film, words):
    """Without the operations of its steps, which their captions have."""
    for frame in film:
        words = words.replace(f" ({frame.op})", "")
    return words


def slot_stories(film):
    """One line for all slots of the same story."""
    alike = defaultdict(list)
    for slot in sorted(film.slot_stories()):
        alike[short(film, " · ".join(film.why(slot).events))].append(slot)
    alike.pop("free from the start", None)
    return [f"slot {ranges(slots)}: {story}" for story, slots in alike.items()]


@pytest.mark.parametrize("name", FILMS)
def test_a_film_says_what_the_golden_file_says(name):
    compare(GOLDEN, name, told(FILMS[name](), name not in AFTERWARDS))


def test_every_kind_of_change_has_its_words_and_no_golden_film_is_left_over():
    compare(GOLDEN, "every kind of change", EVERY_KIND.words)
    assert {*sections(GOLDEN)} == {*FILMS, "every kind of change"}
