"""One request of a log beside an earlier one: where its prefix breaks, what kind of change, how much text is lost."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from itertools import accumulate
from typing import NamedTuple

from minikv.traffic.bodies import Place
from minikv.traffic.why.changes import change_between, items_change
from minikv.traffic.why.places import Spot, spot_at
from minikv.traffic.why.texts import shared_length
from minikv.traffic.why.turns import LoggedRequest

_SURE = 16  # changes of one kind at one place, after which the next ones there are taken for the same kind
_WHOLE = {
    **dict.fromkeys(("tools reordered", "tool added", "tool removed", "tools changed"), "tools"),
    **dict.fromkeys(("history truncated", "history summarized", "message inserted", "message removed"), "messages"),
    "messages reordered": "messages",
}  # kinds that are about a whole list, wherever in it the first difference is
_SIGNED = 12  # characters before a break by which a place is recognized


class Break(NamedTuple):
    """Where a request parts from an earlier one: the place without the number of the message, the kind, what is lost.

    `lost` counts characters that both prompts hold behind the place, which a cache would have reused otherwise.
    """

    place: str
    kind: str
    lost: int
    shared: int
    spots: tuple[Spot | None, Spot | None]


class Breaks:
    """Finds breaks; after many of one kind at one place it takes the next ones there for the same.

    >>> from minikv.traffic.bodies import read_body
    >>> one, two = (LoggedRequest(n, n + 1, read_body({"prompt": f"It is 14:0{n}. Now think."})) for n in range(2))
    >>> found = Breaks().between(one, two)
    >>> found.place, found.kind, found.lost
    ('prompt', 'clock', 12)
    """

    def __init__(self) -> None:
        self._seen: defaultdict[tuple[object, ...], Counter[str]] = defaultdict(Counter)

    def between(self, one: LoggedRequest, two: LoggedRequest) -> Break:
        """Where `two` parts from the earlier request `one`."""
        at = shared_length(one.text, two.text)
        spots = spot_at(one.body, at, one.text), spot_at(two.body, at, two.text)
        spot = spots[0] or spots[1]
        place = general_place(spot.place) if spot else ""
        kind = self._kind(one, two, place, spot.before if spot else "")
        return Break(_WHOLE.get(kind, place), kind, lost_text(one, two, at), at, spots)

    def _kind(self, one: LoggedRequest, two: LoggedRequest, place: str, before: str) -> str:
        if one.text == two.text or two.text.startswith(one.text) or one.text.startswith(two.text):
            return change_between(one.body, two.body).kind
        signature = (place, "".join(c for c in before[-_SIGNED:] if c.isalpha() or c == "\n"), len(two.items) == 1)
        seen = self._seen[signature]
        if len(seen) == 1 and (known := next(iter(seen.items())))[1] >= _SURE:
            return known[0]
        found = items_change(one.items, two.items)
        seen[found.kind] += 1
        return found.kind


def general_place(place: Place) -> str:
    """A place without the number of the message, so that the same place of many requests has one name.

    A system prompt that is the first message keeps its number: a later message of that role is another place.

    >>> general_place(Place("messages", 17, "user", "content")), general_place(Place("tools", 2, "grep"))
    ('messages[*] (user), content', 'tools[*] (grep)')
    """
    leads = place.item == 0 and place.name in ("system", "developer")
    return str(place) if place.item is None or leads else str(place).replace(f"[{place.item}]", "[*]", 1)


def lost_text(one: LoggedRequest, two: LoggedRequest, at: int) -> int:
    """Characters of `two` behind character `at`, where it parts from `one`, that are in `one` too, behind `at`."""
    ends = list(accumulate(len(item.text) for item in two.items))
    number = bisect_right(ends, at)
    if number == len(ends):
        return 0
    begin = ends[number] - len(two.items[number].text)
    left = Counter(item.text for item in one.items[number:])
    lost = 0
    for item in two.items[number:]:
        if left[item.text] > 0:
            left[item.text] -= 1
            lost += len(item.text)
    broken = two.items[number].text
    if number < len(one.items) and broken != one.items[number].text and left[one.items[number].text] > 0:
        inside = at - begin
        lost += shared_length(one.items[number].text[inside:][::-1], broken[inside:][::-1])
    return lost
