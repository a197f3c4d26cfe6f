"""The things drawn as rows of boxes: pools, page tables, words, the memory of a store, and shared pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from minikv.course.pictures.boxes import Box, BoxRows
from minikv.course.pictures.palette import BOTH, EVENTS, LETTERS, STATES, text_legend
from minikv.course.pictures.picture import Picture
from minikv.engine.ch15_layers import longest, needs
from minikv.errors import bounded
from minikv.testing.snapshot import legible, plain

MOST_CELLS, MOST_PIECES, MOST_SEQUENCES, MOST_LETTERS = 512, 400, 32, 4
TEXT_COLUMNS, MOST_COLUMNS = 16, 24  # of a line of text, and of a row of a picture
_PIECES = 8  # of a store's memory in a row
_ORDER = ("locked", "matched", "new", "evicted")
_GREEN, _RED = EVENTS["matched"].fill, EVENTS["evicted"].fill
_LAYERS = ("#f4f4ef", "#cfdef0", "#ecdcc4", "#d3e8cd")  # in turn, from the first layer on
Row = tuple[int, ...]  # of slots
InMemory = tuple[str, int]  # K or V with its layer, as in K0, and the slot
StripRegion = tuple[str, int, str, str]  # the mark that it begins at, its tokens, its look, and a word


def marks_of(marked: Mapping[str, Any]) -> dict[int, str]:
    """For each page or slot the mark that it is shown with: of several, the first of evicted, new, matched, locked.

    >>> marks_of({"locked": [1, 2], "new": [2]})
    {1: 'locked', 2: 'new'}
    """
    found = {}
    for mark in [m for m in _ORDER if marked.get(m) is not None]:
        for number in plain(marked[mark]):
            if not hasattr(number, "__index__"):
                raise TypeError(f"{mark} has {bounded(number)}: expected the numbers of pages or slots")
            found[int(number)] = mark
    return found


def pool_rows(name: str, free: Sequence[int], cells: Sequence[Box], unit: str = "") -> BoxRows:
    """The pages of a pool, 8 in a row or, of many, 16 smaller ones; `free` is 1 for each free one, shown or not.

    The heading says the `unit` where it is known: a page, or a slot.

    >>> boxes = [Box("free"), Box("cached", "n1"), Box("in hand", "r1", "taken")]
    >>> print(pool_rows("pool", [1, 0, 0], boxes, " pages").text)
    pool: 1 of 3 pages free
     0  .c+    . free  c cached  + taken
    """
    more = f" (the first {MOST_CELLS} shown)" if len(free) > MOST_CELLS else ""
    heading = f"{name}: {sum(free)} of {len(free)}{unit} free{more}"
    shown = [cell.event or cell.state for cell in cells]
    letters, width = "".join(LETTERS[word] for word in shown), len(str(len(shown) - 1)) + 1
    starts = range(0, len(shown), TEXT_COLUMNS)
    lines = [f"{start:>{width}}  {letters[start : start + TEXT_COLUMNS]}" for start in starts]
    text = "\n".join([heading, *lines]) + f"    {text_legend(shown)}"
    side, columns = (38, 8) if len(cells) <= 64 else (26, 16)
    boxes = [cell._replace(number=str(page)) for page, cell in enumerate(cells)]
    rows = [("", boxes[at : at + columns]) for at in range(0, len(boxes), columns)]
    return BoxRows(heading, rows, text, side, side)


def table_slots(table: Any) -> tuple[Row | None, ...]:
    """The slots in each row of a page table; `None` where one is closed."""
    return tuple(tuple(plain(table.slots(r))) if table.is_open(r) else None for r in range(table.num_rows))


def table_rows(
    title: str,
    rows: Sequence[Row | None],
    columns: int,
    marks: Mapping[Any, str],
    states: Mapping[int, str],
) -> BoxRows:
    """Rows of slots, of which so many `columns` are shown; `marks` is by slot, or by (row, column) for one cell.

    `states` says what a slot is where it is known; else a slot in a row is in hand. A row that is `None` is closed.

    >>> print(table_rows("PageTable", ((8, 9), None), 3, {9: "new"}, {}).text)
    PageTable: 1 of 2 rows open
    row 0  8  9n  -
    row 1  (closed)
    . free  h in hand  n new
    """
    longest = max([0, *(len(row or ()) for row in rows)])
    more = f", the first {columns} tokens" if longest > columns else ""
    shown = []
    for y, row in enumerate(rows):
        found = [(slot, marks.get((y, x), marks.get(slot, ""))) for x, slot in enumerate((row or ())[:columns])]
        boxes = [marked_box(str(slot), mark, states.get(slot, "in hand")) for slot, mark in found]
        boxes += [Box("free")] * (columns - len(boxes))
        shown.append((f"row {y}", [Box("", "(closed)", wide=70)] if row is None else boxes))
    count = sum(row is not None for row in rows)
    return BoxRows(f"{title}: {count} of {len(rows)} rows open{more}", shown)


def marked_box(word: str, mark: str, state: str) -> Box:
    """A box with a mark, which is a state or an event."""
    return Box(mark, word) if mark in STATES else Box(state, word, mark)


def word_rows(
    rows: Sequence[tuple[str, Sequence[str]]],
    heads: Sequence[str] = (),
    joint: str = "",
    states: Sequence[str] = (),
) -> Picture:
    """Words in boxes, in rows with names; `heads` are above the columns, `joint` is between a box and the next.

    A box without a word is free; the others are cached, or what `states` say of their rows.

    >>> print(word_rows([("before", ["a", "b", ""]), ("0 to 1", ["a", "a", ""])], heads=["0", "1", "spare"]))
            0  1  spare
    before  a  b  -
    0 to 1  a  a  -
    >>> print(word_rows([("newer", ["ring", "[1]", "ring"])], joint="→"))
    newer  ring  →  [1]  →  ring
    """
    found = []
    if heads:
        found.append(("", [Box("", head) for head in heads]))
    for (name, words), state in zip(rows, states or ["cached"] * len(rows)):
        boxes = list[Box]()
        for word in words:
            if joint and boxes:
                boxes.append(Box("", joint, wide=14))
            boxes.append(Box(state if word else "free", word))
        found.append((name, boxes))
    lengths = [len(box.word) for _, boxes in found for box in boxes]
    wide = 8 * max([1, *lengths]) + 12
    return BoxRows("", found, wide=wide, high=26, says_states=False).picture


def lanes(groups: Sequence[Any], saved: Sequence[Any], ends: Sequence[int], at: int) -> Picture:
    """Groups of chapter 15 as lanes; each box is a saved block and has the place where it ends.

    A line follows the first `at` tokens, and each lane shows what it needs to continue there.

    >>> from minikv.engine.ch15_layers import Group
    >>> groups = [Group("full", 4), Group("window", 4, window=6)]
    >>> print(lanes(groups, [{4, 8}, {4}], [4, 8, 12], at=8))
    tokens  4   8   │  12
    full    4✓  8✓  │  -  can continue
    window  4✓  -✗  │  -  can't continue
    ✓ needed and there · ✗ needed but missing
    """
    found = [("tokens", [Box("", str(end)) for end in ends])]
    for group, places in zip(groups, saved):
        needed = needs(group, at) if at else []  # type: ignore[no-untyped-call]
        boxes = [Box("cached", str(end)) if end in places else Box("free") for end in ends]
        for i in map(ends.index, needed):
            fill, badge = (_GREEN, "✓") if boxes[i].word else (_RED, "✗")
            boxes[i] = Box("", boxes[i].word, fill=fill, badge=badge)
        able = places.issuperset(needed)
        words, fill = ("can continue", _GREEN) if able else ("can't continue", _RED)
        found.append((group.keeps, [*boxes, Box("", words, wide=120, fill=fill)]))
    for _, boxes in found:
        boxes.insert(sum(end <= at for end in ends), Box("", "│", wide=4, fill=BOTH))
    foot = "✓ needed and there · ✗ needed but missing"
    return BoxRows("", found, wide=38, says_states=False, foot=foot).picture


def sliding_line(groups: Sequence[Any], saved: Sequence[Any], limit: int, step: int) -> Any:
    """The lanes at each length that `common_hit` tries, as steps for `play`.

    >>> from minikv.engine.ch15_layers import Group
    >>> groups = [Group("full", 4), Group("state", 4)]
    >>> [caption for caption, _ in sliding_line(groups, [{4, 8, 12}, {4, 12}], 8, 4)]
    ["8 tokens: the state layers can't continue", '4 tokens: all layers can continue']
    """
    ends, length, before, steps = range(step, limit + 1, step), limit, -1, []
    while length != before:
        before = length
        for group, places in zip(groups, saved):
            lower = longest(group, places, length, step)  # type: ignore[no-untyped-call]
            if lower < length:
                words = f"{length} tokens: the {group.keeps} layers can't continue"
                steps.append((words, lanes(groups, saved, ends, length)))
                length = lower
    steps.append((f"{length} tokens: all layers can continue", lanes(groups, saved, ends, length)))
    return steps


def strips(rows: Sequence[tuple[str, Sequence[StripRegion], str]], size: float) -> Picture:
    """Rows of tokens as strips, cut into regions, with `size` units for each token; each row ends in some words.

    A region without tokens is left out.

    >>> row = [("from 0", 4, "locked", "the cache's"), ("shared 4", 2, "computed", "its own")]
    >>> print(strips([("Ben's row", row, "end 6")], size=40))
    Ben's row  from 0[the cache's]l  shared 4[its own]#  end 6
    l locked  # computed
    """
    found = []
    for name, regions, words in rows:
        boxes = [
            marked_box(word, look, "computed")._replace(number=mark, wide=max(1, round(size * tokens)))
            for mark, tokens, look, word in regions
            if tokens
        ]
        found.append((name, [*boxes, Box("", words, wide=8 * len(words) + 12)]))
    return BoxRows("", found, high=40, gap=0).picture


def memory_picture(title: str, pieces: Sequence[InMemory], marks: Mapping[int, str]) -> Picture:
    """The memory of a store from its first byte on: whose keys (K) or values (V) of which layer are in each cell.

    >>> print(memory_picture("KVStore", [("K0", 0), ("V0", 0), ("K0", 1), ("V0", 1)], {1: "matched"}))
    KVStore
    K0[0]  V0[0]  K0[1]m  V0[1]m
    K keys, V values, with their layer [slot]  m matched

    A row has at most 8 of them.

    >>> print(memory_picture("KVStore", [("K0", slot) for slot in range(9)], {}))
    KVStore
    K0[0]  K0[1]  K0[2]  K0[3]  K0[4]  K0[5]  K0[6]  K0[7]
    K0[8]
    K keys, V values, with their layer [slot]
    """
    more = f", the first {MOST_PIECES} shown" if len(pieces) > MOST_PIECES else ""
    boxes = [
        Box("", str(slot), marks.get(slot, ""), name, fill=_LAYERS[int(name[1:]) % len(_LAYERS)])
        for name, slot in pieces[:MOST_PIECES]
    ]
    rows = [("", boxes[at : at + _PIECES]) for at in range(0, len(boxes), _PIECES)]
    return BoxRows(title + more, rows, wide=40, high=36, foot="K keys, V values, with their layer [slot]").picture


def shared_pages_picture(cache: Any) -> Picture:
    """Each sequence is a row, and each of its pages a box; a word followed by `?` is part of a draft.

    >>> from minikv import CopyOnWrite
    >>> cache = CopyOnWrite(num_pages=4, page_size=2)
    >>> _ = cache.attach("a", [1, 2, 3], "ABC"); cache.fork("a", "b"); cache.draft("b", [4], "D")
    >>> shared_pages_picture(cache)
    CopyOnWrite: 1 of 4 pages free
    a  0[A B]×2  1[C .]
    b  0[A B]×2  2[C D?]
    ×2 two sequences have it · ? a draft
    """
    rows = list(_page_rows(cache))[:MOST_SEQUENCES]
    boxes = [box for _, row in rows for box in row]
    counts = sorted({box.badge for box in boxes if box.badge}, key=lambda badge: int(badge[1:]))
    named = {"×2": "two", "×3": "three", "×4": "four"}
    legend = [f"{count} {named.get(count, count[1:])} sequences have it" for count in counts]
    legend += ["? a draft"] * any("?" in box.word for box in boxes)
    heading = f"{type(cache).__name__}: {cache.pool.num_free} of {cache.pool.size} pages free"
    wide = max([40, *(8 * len(box.word) + 12 for box in boxes)])
    return BoxRows(heading, rows, wide=wide, high=40, says_states=False, foot=" · ".join(legend)).picture


def _page_rows(cache: Any) -> Iterator[tuple[str, list[Box]]]:
    size = cache.size if hasattr(cache, "branches") else cache.page_size
    for name, tokens, pages, drafted, refs in _sequences(cache):
        values = cache.get(name)  # where there is a plain one for each token; else the tokens
        if len(values) != len(tokens) or not all(isinstance(value, (str, int, float)) for value in values):
            values = tokens
        words = [legible(str(value))[:MOST_LETTERS] for value in values]
        words = [f"{word}?" if at >= len(tokens) - drafted else word for at, word in enumerate(words)]
        words += ["."] * (len(pages) * size - len(words))
        boxes = []
        for i, page in enumerate(pages):
            count, word = refs(page), " ".join(words[i * size : (i + 1) * size])
            state, badge = ("cached", f"×{count}") if count > 1 else ("in hand", "")
            boxes.append(Box(state, word, number=str(page), badge=badge))
        yield legible(str(name)), boxes or [Box("", "-")]


def _sequences(cache: Any) -> Iterator[tuple[Any, list[int], list[int], int, Any]]:
    """The name, the tokens, the pages, the length of the draft, and who counts references."""
    if hasattr(cache, "branches"):  # the one that the learner builds
        for name, branch in cache.branches.items():
            begin = branch.draft_from
            drafted = 0 if begin is None else len(branch.tokens) - begin
            yield name, branch.tokens, branch.pages, drafted, cache.refs.__getitem__
    else:
        for name in cache.names():
            yield name, cache.tokens(name), cache.pages(name), cache.draft_length(name), cache.references
