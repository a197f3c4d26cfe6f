"""Code to be read, a failing case as a film of both sides, and pictures of steps, rings, rows and links."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

from minikv.course.film.frame import request_rows
from minikv.course.film.state import ANSWERS, READS, RequestView
from minikv.course.pictures import Picture, beside, draw
from minikv.course.pictures.boxes import Box, BoxRows
from minikv.course.pictures.cells import strips, word_rows
from minikv.course.pictures.svg import captioned, words_svg
from minikv.course.pieces.piece import Piece, find_piece
from minikv.course.pieces.props import bracketed
from minikv.course.pieces.trial import Difference, PlayedFrame, play_case
from minikv.course.pieces.worlds import ipython, reference_world
from minikv.engine import World, engine_sections
from minikv.testing.attempt import short_repr

_MOST = 20  # cells of a bar, however many tokens an answer gives
_MOST_RUNS = 24  # rows, and slots of a run
_NONE, _ALL = (248, 249, 250), (116, 169, 216)  # the fill of a share of 0, and of all
CANNOT_BE_DRAWN, ENDED = "cannot be drawn:\nsee the message above", "ended in an error"  # in place of a picture


class Code:
    """Source code, coloured where a notebook shows it; `str()` is the code."""

    def __init__(self, text: str):
        self.text = text.strip("\n")

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/plain": self.text, "text/markdown": f"~~~python\n{self.text}\n~~~"}


def source(*things: Any) -> Code:
    """The source of classes, functions or other code, one below the other, to be read and not to be run.

    >>> from minikv.engine import engine_world
    >>> print(str(source(engine_world()["Ring"])).splitlines()[0])
    class Ring:
    """
    texts = [inspect.cleandoc("\n" + _text_of(thing)) for thing in things]
    return Code("\n\n".join(texts))


def _text_of(thing: Any) -> str:
    """The source of one thing; a class of the engine is looked up there, since it belongs to the notebook's module."""
    if isinstance(thing, Code):
        return str(thing)
    methods = filter(inspect.isfunction, vars(thing).values() if isinstance(thing, type) else ())
    written = {method.__code__.co_filename for method in methods}
    for section in engine_sections():
        for part in ast.parse(section.text).body if section.file in written else ():
            if isinstance(part, ast.ClassDef) and part.name == thing.__name__:
                return "\n".join(section.text.splitlines()[part.lineno - 1 : part.end_lineno])
    return inspect.getsource(thing)


def display_film(steps: list[tuple[str, Picture]]) -> None:
    """Show steps in a player that starts at the last one; in a notebook only."""
    if steps and ipython():
        from IPython.display import display

        from minikv.course.player import play as player

        display(player(steps, at=-1))  # type: ignore[no-untyped-call]


def both_films(piece: Piece, world: World, found: Difference) -> list[tuple[str, Picture]]:
    """Each step up to the one in which they part, with yours and the expected as one picture.

    None, where both look alike in the end: then the words say it all.
    """
    yours, theirs = (play_case(piece, each, found.case, keep=_drawn).frames for each in (world, reference_world(piece)))
    both = [str(frames[found.at].picture) for frames in (yours, theirs) if found.at < len(frames)]
    if len(both) == 2 and both[0] == both[1] != "None":
        return []
    steps = []
    for at, frame in enumerate(theirs[: found.at + 1]):
        own = yours[at].picture if at < len(yours) else None
        if own is None and frame.picture is not None:
            missing = CANNOT_BE_DRAWN if at < len(yours) else ENDED
            own = Picture(missing, partial(words_svg, missing))
        sides = {"yours": own, "expected": frame.picture}
        pictures = [_titled(name, picture) for name, picture in sides.items() if picture is not None]
        if pictures:
            steps.append((frame.caption, beside(*pictures)))
    return steps


def _drawn(frame: PlayedFrame) -> PlayedFrame:
    """The frame with its thing, or things, as a picture of this moment; what cannot be drawn has none."""
    things = frame.picture
    if isinstance(things, list):
        pictures = [picture for thing in things if _is_whole(thing) and (picture := _picture_of(thing)) is not None]
        return frame._replace(picture=beside(*pictures) if pictures else None)
    if not isinstance(things, Picture):
        things = _picture_of(*things if isinstance(things, tuple) else (things,))
    return frame._replace(picture=things)


def _is_whole(thing: Any) -> bool:
    """Return whether a thing is a picture's own: not a part of another, as a node below a root is."""
    return not isinstance(thing, list | dict | type) and getattr(thing, "parent", None) is None


def _picture_of(*things: Any) -> Picture | None:
    try:
        is_ring = len(things) == 1 and hasattr(things[0], "older") and not hasattr(things[0], "tokens")
        return picture_of_ring(*things) if is_ring else draw(*things)
    except Exception:
        return None


def _titled(title: str, picture: Picture) -> Picture:
    """A picture under its name."""
    return Picture(f"{title}:\n{picture.text}", lambda: captioned(title, picture.svg))


def schedule_picture(left: Sequence[int], counts: Any) -> Picture | None:
    """A bar for each request, a cell for each token that it has left; those that the step computes are new.

    `None` where `counts` does not have a number for each request.

    >>> schedule_picture([5, 1], [3, 1])
    requests: 2 running, 0 waiting
    [0] reads    nnn..
    [1] answers  n
    . to compute  n new
    """
    try:
        computed = [int(counts[i]) for i in range(len(left))]
    except (TypeError, ValueError, LookupError, OverflowError):
        return None
    views = [
        RequestView(f"[{i}]", ANSWERS if tokens == 1 else READS, 0, min(count, _MOST), tokens)
        for i, (count, tokens) in enumerate(zip(computed, left))
    ]
    return request_rows(views).picture


def attention_picture(rows: Mapping[str, Sequence[float]]) -> Picture:
    """A row for each new token and a box for each token of the sequence: the share taken of it, the larger the darker.

    A box is empty where nothing is taken at all.

    >>> attention_picture({"token 1": [0.25, 0.75, 0.001, 0.0]})
             0    1    2    3
    token 1  .25  .75  .00  -
    """
    heads = [Box("", str(token)) for token in range(max(map(len, rows.values())))]
    shown = [(name, [_share(share) if share else Box("free") for share in row]) for name, row in rows.items()]
    return BoxRows("", [("", heads), *shown], wide=44, high=26, says_states=False).picture


def _share(share: float) -> Box:
    """A share as two decimals, without the leading 0, on the color between none and all."""
    part = min(1.0, max(0.0, share))  # and none for NaN
    colors = [round(none + part * (full - none)) for none, full in zip(_NONE, _ALL)]
    fill = ",".join(map(str, colors))
    word = f"{share:.2f}".replace("0.", ".", 1) if -1 < share < 1 else f"{share:.3g}"
    return Box("", word, fill=f"rgb({fill})")


def picture_of_runs(slots: list[int], found: Any) -> Picture | None:
    """The slots as they were given, and below them those of each run; `None` for what are no runs.

    >>> picture_of_runs([4, 5, 1], [(4, 2), (1, 1)])
    slots  4  5  1
    run 1  4  5
    run 2  1
    """
    rows = [("slots", list(map(str, slots)))]
    try:
        for number, (start, length) in enumerate(islice(found, _MOST_RUNS), start=1):
            rows.append((f"run {number}", [str(start + at) for at in range(min(length, _MOST_RUNS))]))
    except (TypeError, ValueError):
        return None
    return word_rows(rows)


def picture_of_ring(ring: Any, *out: Any) -> Picture:
    """A ring on its way around and on its way back, and the links of nodes that are `out` of it.

    >>> from types import SimpleNamespace as Node
    >>> ring, node = Node(), Node(tokens=[1, 2])
    >>> ring.newer = ring.older = node
    >>> node.newer = node.older = ring
    >>> picture_of_ring(ring)
    newer  ring  →  [1 2]  →  ring
    older  ring  →  [1 2]  →  ring
    >>> str(_picture_of(ring)) == str(picture_of_ring(ring))  # a step that shows a ring is drawn so
    True
    """
    ways = ("newer", "older")
    rows = [(way, way_around(ring, ring, way)) for way in ways]
    for node in out:
        rows += [(f"{bracketed(node.tokens)} {way}", way_around(ring, node, way, most=1)) for way in ways]
    return word_rows(rows, joint="→")


def way_around(ring: Any, start: Any, way: str, most: int = 20) -> list[str]:
    """The names on the way from a node or the ring, up to the ring, or to a node that was there before."""
    found = [_name(ring, start)]
    seen = [start]
    node = getattr(start, way)
    while len(seen) <= most:
        found.append(_name(ring, node))
        if node is ring or not hasattr(node, way) or len(seen) == most:
            return found
        if any(node is other for other in seen):
            return [*found, "…"]
        seen.append(node)
        node = getattr(node, way)
    return found


def _name(ring: Any, node: Any) -> str:
    if node is ring:
        return "ring"
    if not hasattr(node, "tokens"):
        return short_repr(node)
    return bracketed(node.tokens) if len(node.tokens) else "root"


def answered_rows(piece: str, *turns: tuple[str, str]) -> Picture:
    """The row of each answer of piece 2.5 or 3.7, as a strip: what was looked up, and what each call computed.

    A turn is a prompt and its answer, with a digit for each token.

    >>> answered_rows("2.5", ("12", "5"), ("123", ""))
    12 → 5  call 1: [1, 2]#  call 2: [5]#  model.end has no slot
    123 →   looked upm       call 1: [3]#  model.end has no slot
    # computed  m matched
    """
    ours: Any = find_piece(piece)
    rows = []
    for (prompt, answer), shown in zip(turns, ours.play(reference_world(ours), turns)):
        calls = shown.things["tokens in each model call"]
        regions = [("", len(prompt) - len(calls[0]), "matched", "looked up")]
        for number, call in enumerate(calls, start=1):
            regions.append(("", len(call), "computed", f"call {number}: {call}"))
        rows.append((f"{prompt} → {answer}", regions, "model.end has no slot"))
    return strips(rows, size=80)


def picture_of_links(**nodes: Any) -> Picture:
    """The links between some nodes, by their names: each one down to a child, and below it the child's up.

    >>> from minikv.engine.ch03_tree import Node
    >>> root = Node([], [])
    >>> root.children[1] = node = Node([1, 2], [7, 3], root)
    >>> picture_of_links(parent=root, node=node)
    children  parent []    →  node [1, 2]
    parent    node [1, 2]  →  parent []
    """
    words = {id(node): f"{name} {node.tokens}" for name, node in nodes.items()}
    rows = []
    for node in nodes.values():
        for child in node.children.values():
            rows.append(("children", [words[id(node)], words[id(child)]]))
            rows.append(("parent", [words[id(child)], words[id(child.parent)]]))
    return word_rows(rows, joint="→")


def row_strip(name: str, request: Any, manager: Any = None) -> Picture:
    """The row of a request as a strip: by its two counters or, with its `manager`, by what a checkpoint would find.

    >>> from minikv import CacheManager
    >>> manager = CacheManager(8)
    >>> request = manager.start([1, 2, 3, 4])
    >>> manager.advance(request, 3)
    >>> print(row_strip("row", request))
    row  shared 0[own, computed]  computed 3[own].  end 4
    h in hand  . to compute
    """
    shared, computed, end = request.shared, request.computed, request.length
    regions = [("from 0", shared, "locked", "the cache's, read under a lock")]
    if manager is None:
        regions.append((f"shared {shared}", computed - shared, "in hand", "own, computed"))
        regions.append((f"computed {computed}", end - computed, "to compute", "own"))
    else:
        whole = computed // manager.page_size * manager.page_size
        there = manager.cache.match_prefix(request.tokens[:whole]).length
        regions.append((f"shared {shared}", there - shared, "in hand", "own, duplicates"))
        regions.append((f"there {there}", whole - there, "in hand", "own, not cached"))
        regions.append((f"whole pages to {whole}", end - whole, "in hand", "own, the tail"))
    return strips([(name, regions, f"end {end}")], size=75)
