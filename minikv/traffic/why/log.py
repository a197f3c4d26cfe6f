"""A log of requests: which places break the prefix, how much text is computed again for it, and what they look like."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import Any

from minikv.files import FileName
from minikv.traffic.bodies import Body
from minikv.traffic.exports import RequestLog, log_lines
from minikv.traffic.logs import Units, conversation_of, field_of
from minikv.traffic.trace_tree import PrefixTree
from minikv.traffic.usage import read_usage
from minikv.traffic.why.breaks import Break, Breaks, LoggedRequest, Turns, common_run, general_place, spot_in, tail_kind
from minikv.traffic.why.changes import KINDS, ChangeKind
from minikv.traffic.why.fixes import ALL, Cause, Fixes
from minikv.traffic.why.places import Spot, shown_after, shown_before
from minikv.traffic.why.texts import shared_length

LARGEST_TREE = 2**30  # bytes of text that is not shared
_SAMPLE = 2**17  # characters
_CAUSES = 24  # places that are looked for in one request
_NOTHING = 0, 0


@dataclass
class Share:
    """Prompts and what a cache finds of them, in bytes: now, and with some causes fixed.

    The fix saves `lost` bytes, which are computed now. It sends `extra` bytes more, of a history that is kept, and
    reads them from the cache.

    >>> Share(requests=2, size=100, reused=20, lost=50).after
    0.7
    """

    requests: int = 0
    size: int = 0
    reused: int = 0
    lost: int = 0
    extra: int = 0

    def add(self, *counts: int) -> None:
        """Count more requests: their number, their bytes, what is reused of them, lost, and sent besides."""
        for name, count in zip(("requests", "size", "reused", "lost", "extra"), counts):
            setattr(self, name, getattr(self, name) + count)

    @property
    def hits(self) -> float:
        """The hit rate."""
        return self.reused / max(1, self.size)

    @property
    def after(self) -> float:
        """The hit rate after the fix."""
        return (self.reused + self.lost + self.extra) / max(1, self.size + self.extra)


@dataclass
class BreakingPlace:
    """A place where the prefix breaks again and again, by one kind of change; `lost` is what its fix would save.

    `fixed` has the bytes of the whole log with this cause fixed and no other. `lines` and `spots` are those of the two
    longest requests that part there.
    """

    place: str
    kind: str
    breaks: int = 0
    most: int = -1
    latest: int = -1
    lines: tuple[int, int] = (0, 0)
    spots: tuple[Spot | None, Spot | None] = (None, None)
    fixed: Share = field(default_factory=Share)

    @property
    def lost(self) -> int:
        """Bytes that are computed again because of it, and would not be without it."""
        return self.fixed.lost

    @property
    def about(self) -> ChangeKind:
        """The meaning of the kind of change, and what to do about it."""
        return KINDS[self.kind]

    def as_json(self) -> dict[str, Any]:
        """The same as plain values, texts cut short."""
        sides = [shown_after(spot) for spot in self.spots]
        before = shown_before(next((spot for spot in self.spots if spot), None))
        return {"place": self.place, "kind": self.kind, "breaks": self.breaks, "lost": self.lost,
                "hits_after": self.fixed.after, "lines": self.lines, "says": self.about.says,
                "remedy": self.about.remedy, "before": before, "after": sides}  # fmt: skip


@dataclass(repr=False)
class LogReport(Share):
    """The findings in a log: what an unlimited cache finds in it, and would find with all causes fixed.

    `groups` has the same for each value of a field, `trees` the prompts by what keeps their caches apart, such as the
    model, and `billed` the tokens of each that were read from the cache; `lost` is what an unlimited one would read
    besides. `log` has its name, and the lines that were left out of it; `unread` says that it had more text than is
    held, and the length of a token is measured in the `sample`. Its repr is the report.

    >>> survey([{"prompt": "Hi"}, {"prompt": "Ho"}]).hits
    0.25
    """

    log: RequestLog = field(default_factory=lambda: RequestLog("log"))
    continued: int = 0
    unread: bool = False
    sample: str = ""
    places: list[BreakingPlace] = field(default_factory=list)
    groups: dict[str, Share] = field(default_factory=dict)
    billed: dict[str, Share] = field(default_factory=dict)
    trees: dict[str, PrefixTree] = field(default_factory=dict)

    def __repr__(self) -> str:
        from minikv.traffic.why.log_report import LogWords, log_text

        return log_text(LogWords(self, Units()), 10)

    def quantity(self, name: str) -> float:
        """`lost`, `hits`, or what a kind of change loses, as a share of all prompts."""
        kind = sum(place.lost for place in self.places if place.kind == name) / max(1, self.size)
        return {"lost": self.lost / max(1, self.size), "hits": self.hits}.get(name, kind)

    def as_json(self, top: int) -> dict[str, Any]:
        """The same as plain values, with the `top` places that lose the most."""
        return {"log": self.log.name, "requests": self.requests, "bytes": self.size, "reused": self.reused,
                "lost": self.lost, "hits": self.hits, "hits_after": self.after, "continued": self.continued,
                "other_lines": self.log.others, "malformed": self.log.malformed, "first_malformed": self.log.first,
                "unread": self.unread,
                "places": [place.as_json() for place in self.places[:top]],
                "groups": {name: vars(one) for name, one in self.groups.items()},
                "billed": {name: vars(one) for name, one in self.billed.items()},
                }  # fmt: skip


def survey(log: FileName | Iterable[Mapping[str, Any] | str | bytes], name: str = "log", by: str = "") -> LogReport:
    """Read a log of requests, and find where each one parts from the one that it continues or is most like.

    `log` is the name of a file, or the entries: objects, or lines of JSON. `by` is a field of the entries, with dots
    between its names, by which the totals are told apart. Raises `TraceError` where no line holds a request, and where
    more than one line in a hundred cannot be read.

    >>> log = [{"prompt": f"It is 14:0{n}. Be brief. Say {n * n * n} words."} for n in range(4)]
    >>> [(place.place, place.kind, place.breaks) for place in survey(log).places]
    [('prompt', 'clock', 3), ('prompt', 'number', 3)]
    """
    name = fspath(log) if isinstance(log, (str, PathLike)) else name
    work = _Survey(name, by)
    for entry, body in work.report.log.requests(log_lines(log)):
        work.take(entry, body)
        if work.report.size - work.report.reused > LARGEST_TREE:
            work.report.unread = True
            break
    return work.close()


def _before(turn: LoggedRequest, at: int) -> list[str]:
    """The messages before an item."""
    return [item.text for item in turn.items[:at] if item.part == "messages"]


class _Survey:
    """The work of `survey`, request by request."""

    def __init__(self, name: str, by: str):
        self.report, self._by = LogReport(log=RequestLog(name)), by
        self._received: dict[str, tuple[str, float]] = {}  # by SGLang: the cache of each, and the share that it reuses
        self._turns, self._breaks, self._fixes = Turns(), Breaks(), Fixes()
        self._latest: dict[str, list[int]] = {}  # of the nodes of each tree: the latest request through each
        self._places: dict[Cause, BreakingPlace] = {}

    def take(self, entry: dict[str, Any], body: Body | None) -> None:
        """One request of the log, or the end of one."""
        rid = str(entry.get("rid", ""))
        if body is None:
            if came := self._received.pop(rid, None):
                self._bill(entry, *came)
            return
        report, conversation = self.report, conversation_of(entry)
        turn = LoggedRequest(report.requests, report.log.line, body)
        text = turn.text.encode("utf-8", "surrogatepass")
        reused, latest = self._insert(text, turn)
        report.requests += 1
        report.size += len(text)
        report.reused += reused
        report.sample += turn.text[: max(0, _SAMPLE - len(report.sample))]
        share = turn.apart, reused / max(1, len(text))
        self._received.update({rid: share} if rid else {})
        self._bill(entry, *share)
        before = self._turns.before(turn, conversation)
        self._compare(before or self._turns.get(latest), turn)
        group = field_of(entry, self._by) if self._by else ""
        self._fixes.add(turn.root, turn.items, reused, len(text), group, before.number if before else None)
        self._turns.add(turn, conversation)

    def _bill(self, entry: dict[str, Any], apart: str, share: float) -> None:
        """Count the bill of a request, of which a cache without a limit would reuse `share`."""
        if (usage := read_usage(entry)) and usage.read is not None:
            more = round(share * usage.prompt) - usage.read
            self.report.billed.setdefault(apart, Share()).add(1, usage.prompt, usage.read, more)

    def _insert(self, text: bytes, turn: LoggedRequest) -> tuple[int, int | None]:
        """Put a prompt into its tree; the bytes that it shares with earlier ones, and the latest that shares them."""
        tree = self.report.trees.setdefault(turn.apart, PrefixTree())
        latest = self._latest.setdefault(turn.apart, [-1])
        shared, node = tree.insert(text)
        found = latest[node] if shared else None
        latest += [turn.number] * (len(tree.parents) - len(latest))
        for passed in tree.path(tree.ends[-1]):
            latest[passed] = turn.number
        return shared, found

    def _compare(self, like: LoggedRequest | None, turn: LoggedRequest) -> None:
        """Find the causes by which a request parts from an earlier one: after the first, as if it were fixed."""
        left, right = origins = (like.items if like else []), turn.items
        if like and like.root != turn.root:
            if 2 * shared_length(like.text, turn.text) > len(like.text):
                self._note(Break("model", "namespace", (None, None)), like, turn, 0)
                self._fixes.learn(("model", "namespace"), left, right, origins, like.number)
            return
        if like and (turn.text.startswith(like.text) or like.text.startswith(turn.text)):
            self.report.continued += len(turn.text) > len(like.text)
            return
        for depth in range(_CAUSES):
            same = common_run([item.text for item in left], [item.text for item in right])
            left, right = left[same:], right[same:]
            if like and right and len(left) == 1 and right[0].text.startswith(left[0].text):
                return
            found = self._breaks.between(left, right) if left and right else None
            tail = bool(right) and (not found or found.new) and self._tail(turn, len(turn.items) - len(right), depth)
            if tail or not found or not like:
                return
            if not found.harmless or not depth:
                self._note(found, like, turn, depth)
            rest = None if found.harmless else self._fixes.learn(found[:2], left, right, origins, like.number)
            if rest is None:
                return
            left, right = rest

    def _tail(self, turn: LoggedRequest, at: int, depth: int) -> bool:
        """Whether an item that is new has text that was sent before, after a place where it parts from that."""
        two = full = turn.items[at]
        found = self._fixes.earlier(full)
        other = self._turns.get(found[0]) if found else None
        if not found or not other or _before(other, found[1]) != _before(turn, at):
            return False
        left = one = other.items[found[1]]
        for deeper in range(depth, _CAUSES):
            kind = tail_kind(left, two)
            if kind is None:
                self._fixes.follow(one, full)
                return deeper > depth
            parts = shared_length(left.text, two.text)
            spots = spot_in(left, parts), spot_in(two, parts)
            cause = general_place(spots[1].place if spots[1] else full.pieces[-1].place), kind
            self._note(Break(*cause, spots), other, turn, deeper)
            rest = self._fixes.learn(cause, [left], [two], ([one], [full]), other.number)
            if not rest or not rest[0]:
                break
            left, two = rest[0][0], rest[1][0]
        return True

    def _note(self, found: Break, one: LoggedRequest, two: LoggedRequest, depth: int) -> None:
        """Count a break, and keep the longest prompt in which it is the first."""
        place = self._places.setdefault(found[:2], BreakingPlace(*found[:2]))
        place.breaks += place.latest != two.number
        place.latest = two.number
        if (size := 0 if depth else len(two.text)) > place.most:
            place.most, place.lines, place.spots = size, (one.line, two.line), found.spots

    def close(self) -> LogReport:
        """The findings, with the places that lose the most first."""
        report = self.report
        report.log.close(report.requests)
        del self._turns  # which holds the most
        renamed = {cause: (cause[0], "differs by user") for cause in self._fixes.by_user()}
        for cause, new in renamed.items():
            one, two = self._places.pop(cause), self._places.setdefault(new, BreakingPlace(*new))
            two.breaks += one.breaks
            if one.most > two.most:
                two.most, two.lines, two.spots = one.most, one.lines, one.spots
        for request, saved in self._fixes.replay(renamed):
            group, every = report.groups.setdefault(request.group, Share()), saved.get(ALL, _NOTHING)
            group.add(1, request.size, request.reused, *every)
            report.add(0, 0, 0, *every)
            for cause, gain in saved.items():
                if cause != ALL:
                    self._places[cause].fixed.add(0, 0, 0, *gain)
        for place in self._places.values():
            place.fixed.add(report.requests, report.size, report.reused, 0, 0)
        found = self._places.values()
        report.places = sorted(found, key=lambda place: (-place.lost, -place.breaks, place.place, place.kind))
        return report
