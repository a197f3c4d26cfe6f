"""A log of requests: which places break the prefix, how much text is computed again for it, and what they look like."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from minikv.traffic.bodies import is_body, read_body
from minikv.traffic.formats import fields_of
from minikv.traffic.logs import conversation_of
from minikv.traffic.trace_file import TraceError, located
from minikv.traffic.trace_tree import PrefixTree
from minikv.traffic.why.breaks import Break, Breaks, LoggedRequest, Turns
from minikv.traffic.why.changes import KINDS, ChangeKind
from minikv.traffic.why.places import Spot, shown_after, shown_before

LARGEST_TREE = 2**30  # bytes of text that is not shared
_SAMPLE = 2**17  # characters


@dataclass
class BreakingPlace:
    """A place where the prefix breaks again and again, by one kind of change; `lost` counts bytes.

    `lines` and `spots` are those of the two requests that lost the most there.
    """

    place: str
    kind: str
    breaks: int = 0
    lost: int = 0
    most: int = -1
    lines: tuple[int, int] = (0, 0)
    spots: tuple[Spot | None, Spot | None] = (None, None)

    @property
    def about(self) -> ChangeKind:
        """The meaning of the kind of change, and what to do about it."""
        return KINDS[self.kind]

    def as_json(self) -> dict[str, Any]:
        """The same as plain values, texts cut short."""
        sides = [shown_after(spot) for spot in self.spots]
        before = shown_before(next((spot for spot in self.spots if spot), None))
        return {"place": self.place, "kind": self.kind, "breaks": self.breaks, "lost": self.lost, "lines": self.lines,
                "says": self.about.says, "remedy": self.about.remedy, "before": before, "after": sides}  # fmt: skip


@dataclass
class LogReport:
    """The findings in a log; sizes are bytes of prompts.

    `reused` is what an unlimited cache would have found, `continued` the number of requests that continue an earlier
    one, `other_lines` those that hold no request, `unread` whether the log had more text than is held. `sample` is some
    of the prompts, from which the length of a token is measured.
    """

    name: str
    requests: int = 0
    size: int = 0
    reused: int = 0
    continued: int = 0
    other_lines: int = 0
    unread: bool = False
    sample: str = ""
    places: list[BreakingPlace] = field(default_factory=list)
    tree: PrefixTree = field(default_factory=PrefixTree)

    @property
    def lost(self) -> int:
        """Bytes that were computed again because of a break that is no ordinary difference between requests."""
        return sum(place.lost for place in self.places if not place.about.harmless)

    def as_json(self, top: int) -> dict[str, Any]:
        """The same as plain values, with the `top` places that lose the most."""
        return {"log": self.name, "requests": self.requests, "bytes": self.size, "reused": self.reused,
                "lost": self.lost, "continued": self.continued, "other_lines": self.other_lines, "unread": self.unread,
                "places": [place.as_json() for place in self.places[:top]]}  # fmt: skip


def survey(lines: Iterable[bytes], name: str = "log") -> LogReport:
    """Read a log of requests, and find where each one parts from the one that it continues or is most like.

    Raises `TraceError` at the first line that is not a JSON object, and where no line holds a request.

    >>> log = [f'{{"prompt": "It is 14:0{n}. Be brief. Say {n * n * n} words."}}'.encode() for n in range(4)]
    >>> [(place.place, place.kind, place.breaks) for place in survey(log).places]
    [('prompt', 'clock', 3)]
    """
    work = _Survey(name)
    for _ in located(name, work.counted(lines), work.take):
        if work.report.size - work.report.reused > LARGEST_TREE:
            work.report.unread = True
            break
    return work.close()


class _Survey:
    """The work of `survey`, request by request."""

    def __init__(self, name: str):
        self.report = LogReport(name)
        self._line, self._fields = 0, ""  # the fields of the first line without a request
        self._turns, self._breaks = Turns(), Breaks()
        self._latest = [-1]  # of the tree's nodes: the latest request through each
        self._places: dict[tuple[str, str], BreakingPlace] = {}

    def counted(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """The lines, with the number of each kept while it is looked at."""
        for self._line, line in enumerate(lines, start=1):
            yield line

    def take(self, entry: dict[str, Any]) -> None:
        """One line of the log."""
        report, conversation = self.report, conversation_of(entry)
        if not is_body(entry):
            self._fields = self._fields or fields_of(entry)
            report.other_lines += 1
            return
        turn = LoggedRequest(report.requests, self._line, read_body(entry))
        text = turn.text.encode("utf-8", "surrogatepass")
        reused, latest = self._insert(text, turn.number)
        report.requests += 1
        report.size += len(text)
        report.reused += reused
        report.sample += turn.text[: max(0, _SAMPLE - len(report.sample))]
        like = self._turns.before(turn, conversation) or self._turns.get(latest)
        if like is not None:
            self._note(like, turn, self._breaks.between(like, turn), reused / max(1, len(text)))
        self._turns.add(turn, conversation)

    def _insert(self, text: bytes, number: int) -> tuple[int, int | None]:
        """Put a prompt into the tree; the bytes that it shares with earlier ones, and the latest that shares them."""
        tree, latest = self.report.tree, self._latest
        shared, node = tree.insert(text)
        found = latest[node] if shared else None
        latest += [number] * (len(tree.parents) - len(latest))
        for passed in tree.path(tree.ends[-1]):
            latest[passed] = number
        return shared, found

    def _note(self, one: LoggedRequest, two: LoggedRequest, found: Break, reused: float) -> None:
        """Count a break: what it loses, less what another earlier prompt made up for."""
        if found.kind in ("extended", "shortened", "nothing", "settings", "template settings", "namespace"):
            self.report.continued += found.kind == "extended"
            return
        place = self._places.setdefault((found.place, found.kind), BreakingPlace(found.place, found.kind))
        width = len(two.text.encode("utf-8", "surrogatepass")) / len(two.text)
        made_up = max(0.0, reused * len(two.text) - found.shared)
        lost = max(0, round((found.lost - made_up) * width))
        place.breaks, place.lost = place.breaks + 1, place.lost + lost
        if lost > place.most:
            place.most, place.lines, place.spots = lost, (one.line, two.line), found.spots

    def close(self) -> LogReport:
        """The findings, with the places that lose the most first."""
        if not self.report.requests:
            raise TraceError(
                f"{self.report.name} holds no request: its first line has the fields {self._fields or 'none'}"
            )
        self.report.places = sorted(
            self._places.values(), key=lambda place: (-place.lost, -place.breaks, place.place, place.kind)
        )
        return self.report
