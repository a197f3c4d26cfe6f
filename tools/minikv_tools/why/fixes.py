"""The hit rate of a log with one cause fixed: its prompts are replayed with that cause's text made constant.

`rewrites` fixes a cause in one item. This module fixes a cause in a whole prompt:

    history      nothing is dropped from it or inserted: the new messages come after all that was sent
    namespace    two namespaces are one
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from minikv_tools.pieces import Items, Sides
from minikv_tools.why.breaks import HISTORY, REGION, LoggedRequest
from minikv_tools.why.changes import KINDS, ChangeKind
from minikv_tools.why.changing import PlaceKey
from minikv_tools.why.places import Spots, shown_after, shown_before
from minikv_tools.why.rewrites import ALL, Ends, FixedTree, Prompt, Rewrites, tools_text, without_tools
from minikv_tools.why.symbols import SYMBOL_BYTES, Cause, packed
from minikv_tools.why.texts import VOLATILE

_BY_USER = ("random id", "number", *REGION)  # kinds of change between the values of a block that differs by user
_MOST_KEPT = 2**12  # items of a history in which nothing is dropped
_BEGIN = 6 * SYMBOL_BYTES  # of a prompt: those that begin with other ones share nothing worth counting
_RESULT = r"\w+\[\*\] \((?:(?:tool|function|function_call_output)\)|user\), content\S*\.(?:content|toolResult))"
_PARTNERS = 2  # causes that are named beside one that loses with others
_OFTEN = 3  # values that come again, at the least, where they differ by user

Savings = dict[Cause, tuple[int, int]]


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

    def add(self, requests: int, size: int, reused: int, lost: int, extra: int = 0) -> None:
        """Count more requests: their number, their bytes, what is reused of them, lost, and sent besides."""
        self.requests += requests
        self.size += size
        self.reused += reused
        self.lost += lost
        self.extra += extra

    def figures(self) -> dict[str, float]:
        """The counts, and the hit rates before and after the fix."""
        return {**vars(self), "hits": self.hits, "hits_after": self.after}

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

    `fixed` has the bytes of the whole log with this cause fixed and no other. `joint` are those that are saved only if
    `others` in the same prompts are fixed, too: several causes in one prompt hide each other. `lines` and `spots` are
    those of the two longest requests that part there; `inside` is above 0 if many breaks are in one conversation.
    """

    place: str
    kind: str
    breaks: int = 0
    inside: int = 0
    most: int = -1
    latest: int = -1
    lines: tuple[int, int] = (0, 0)
    spots: Spots = (None, None)
    fixed: Share = field(default_factory=Share)
    joint: int = 0
    others: Counter[Cause] = field(default_factory=Counter)

    @property
    def lost(self) -> int:
        """Bytes that are computed again because of it, and would not be without it."""
        return self.fixed.lost

    @property
    def most_lost(self) -> int:
        """Bytes that are lost by it, alone or with others."""
        return self.lost + self.joint

    @property
    def about(self) -> ChangeKind:
        """The meaning of the kind of change, and what to do about it: another thing in the result of a tool."""
        known = KINDS[self.kind]
        placed = self.kind in VOLATILE and re.match(_RESULT, self.place)
        return known._replace(remedy=KINDS["tool result edited"].remedy) if placed else known

    @property
    def partners(self) -> list[Cause]:
        """The causes together with which it loses the most."""
        return [cause for cause, lost in self.others.most_common(_PARTNERS) if lost > self.joint / 2]

    def as_json(self) -> dict[str, Any]:
        """The same as plain values, texts cut short."""
        spot = next(filter(None, self.spots), None)
        return {
            **{name: getattr(self, name) for name in ("place", "kind", "breaks", "lost", "lines")},
            "lost_with_others": self.joint, "lost_with": self.partners, "hits_after": self.fixed.after,
            "says": self.about.says, "remedy": self.about.remedy,
            "before": shown_before(spot), "after": [*map(shown_after, self.spots)],
        }  # fmt: skip


Gains = defaultdict[Cause, defaultdict[str, Share]]


def best_fix(gains: Gains) -> tuple[dict[Cause, int], Cause]:
    """Sum up what the fix of each cause saves in all groups of requests, and find the best: `ALL` if none saves more.

    >>> gains = defaultdict(lambda: defaultdict(Share)); gains[ALL][""].add(0, 0, 0, 5); best_fix(gains)
    ({('', ''): 5}, ('', ''))
    """
    lost = {cause: sum(share.lost for share in groups.values()) for cause, groups in gains.items()}
    return lost, max(lost, key=lambda cause: (lost[cause], cause == ALL), default=ALL)


class ReplayedRequest(NamedTuple):
    """A request as it is replayed: `lead` of its `items`, of which the first is its root, are no messages.

    It may continue the request `before`; it is `answered` if it has an answer of the model.
    """

    items: Prompt
    lead: int
    reused: int
    size: int
    group: str
    answered: bool
    before: int | None


class Fixes:
    """Learns from breaks what each cause is, and replays all prompts with it fixed."""

    def __init__(self) -> None:
        self.rewrites = Rewrites()
        self._requests: list[ReplayedRequest] = []
        self._dropped: tuple[Cause, int, list[str]] | None = None  # by the next request
        self._roots: defaultdict[Cause, dict[int, int]] = defaultdict(dict)  # namespaces that are joined to another
        self._histories: dict[int, tuple[Cause, Prompt]] = {}

    def add(self, turn: LoggedRequest, reused: int, group: str, continues: int | None) -> None:
        """Put in the next request, in bytes; `continues` is the number of the one that it continues."""
        items = turn.items[turn.same :]
        texts = tools_text(items), *(item.text for item in without_tools(items))
        known = self._requests[continues or 0].items if turn.same else (turn.root,)
        prompt = *known, *self.rewrites.ids(list(filter(None, texts)))
        lead = len(prompt) - sum(item.part in ("messages", "prompt") for item in turn.items)
        self._requests.append(ReplayedRequest(prompt, lead, reused, turn.size, group, turn.answered, continues))
        if self._dropped:
            cause, like, new = self._dropped
            self._keep(cause, like, self.rewrites.ids(new))
        elif continues in self._histories and (more := prompt[len(self._requests[continues].items) :]):
            self._keep(self._histories[continues][0], continues, more)
        self._dropped = None

    def _keep(self, cause: Cause, like: int, new: Sequence[int]) -> None:
        """The latest request has all that `like` has with nothing dropped, and then its `new` items."""
        request, before = self._requests[-1], self._requests[like]
        _, sent = self._histories.setdefault(like, (cause, before.items))
        kept = sent[before.lead :][-_MOST_KEPT:]
        history = *request.items[: request.lead], *kept, *new
        self._histories[len(self._requests) - 1] = cause, history

    def learn(self, cause: Cause, left: Items, right: Items, origins: Sides, like: int) -> Sides | None:
        """Learn from where two prompts part what `cause` is; what is left of the two after it, or `None`.

        `origins` are the two as they are, `like` is the number of the earlier one.
        """
        if cause[1] in HISTORY:
            sent, again = (Counter(item.text for item in side) for side in (right, left))
            self._dropped = cause, like, list((sent - again).elements())
            return None
        return self.rewrites.learn(cause, left, right, origins)

    def join(self, cause: Cause, one: int, two: int) -> None:
        """Learn that two namespaces are one once `cause` is fixed."""
        for key in (cause, ALL):
            first, second = (self._joined(key, root) for root in (one, two))
            if first != second:
                self._roots[key][second] = first

    def _joined(self, cause: Cause, root: int) -> int:
        known = self._roots.get(cause, {})
        while root in known:
            root = known[root]
        return root

    def by_user(self) -> set[Cause]:
        """The causes whose text is one of several values: most conversations have one that comes again after others."""
        slots, items = self.rewrites.slots, self.rewrites.items
        slots.forget_chance(items)
        seen: defaultdict[Cause, Counter[bytes]] = defaultdict(Counter)
        again, latest = defaultdict[Cause, set[bytes]](set), dict[PlaceKey, bytes]()
        for data in [items[item] for request in self._requests if not request.answered for item in request.items[1:]]:
            for cause, begin, end, _, key in slots.regions(data):
                text = data[SYMBOL_BYTES * begin : SYMBOL_BYTES * end]
                if text in seen[cause] and latest.get(key) != text:
                    again[cause].add(text)
                latest[key] = text
                seen[cause][text] += 1
        often = {cause: [seen[cause][text] for text in texts] for cause, texts in again.items() if len(texts) >= _OFTEN}
        found = {cause for cause, counts in often.items() if 2 * sum(counts) > sum(seen[cause].values())}
        return {cause for cause in found if cause[1] in _BY_USER and not cause[0].startswith("messages[*]")}

    def replay(self, renamed: Mapping[Cause, Cause]) -> Iterator[tuple[ReplayedRequest, set[Cause], Savings]]:
        """Each request, its causes, and by cause the bytes that its fix saves in it, and those sent besides.

        A request without a cause is replayed with those that have it where they begin alike: it may share more then.
        """
        self.rewrites.relabel(renamed)
        numbers = range(len(self._requests))
        known = {self._begin(number, cause) for number in numbers for cause in self._causes_in(number)}
        fixes = sorted({cause for cause, _ in known} | {ALL for _ in known})
        trees = {cause: FixedTree(functools.partial(self._fixed, cause)) for cause in fixes}
        for number, request in enumerate(self._requests):
            saved, mine = Savings(), self._causes_in(number)
            for cause, tree in trees.items():
                if cause in (ALL, *mine) or self._begin(number, cause) in known:
                    size, hits = tree.insert(number, self._sent(number, cause), request.before)
                    extra = size - request.size if cause in (ALL, *mine) else 0
                    if hits < request.reused and hits >= self._whole_symbols(request):
                        hits = request.reused
                    saved[cause] = hits - request.reused - extra, extra
            yield request, mine, saved

    def _fixed(self, cause: Cause, item: int) -> tuple[bytes, Ends]:
        """The symbols of an item with a cause fixed, and the bytes of each beginning; a namespace is a symbol."""
        return self.rewrites.fixed(item, cause) if item >= 0 else (packed([-self._joined(cause, item)]), (0, 0))

    def _whole_symbols(self, request: ReplayedRequest) -> int:
        """The bytes that are reused of a request, without those of the last symbol if it is not reused whole."""
        begin = request.size
        for item in request.items[:0:-1]:
            ends = self.rewrites.fixed(item, None)[1]
            begin -= ends[-1]
            if begin <= request.reused:
                return begin + ends[bisect_right(ends, request.reused - begin) - 1]
        return request.reused

    def _causes_in(self, number: int) -> set[Cause]:
        items, known = self._requests[number].items, self.rewrites.causes_of
        found = {cause for cause, roots in self._roots.items() if cause != ALL and items[0] in roots}
        return found.union(self._histories.get(number, ())[:1], *[known[item] for item in known.keys() & items])

    def _sent(self, number: int, cause: Cause) -> Prompt:
        """The items of a request with the changes of its history fixed, if they are of that cause."""
        why, items = self._histories.get(number, (None, ()))
        return items if why and cause in (ALL, why) else self._requests[number].items

    def _begin(self, number: int, cause: Cause) -> tuple[Cause, bytes]:
        """The namespace and the first symbols of a request once a cause is fixed."""
        first = [self._fixed(cause, item)[0] for item in self._sent(number, cause)[:2]]
        return cause, b"".join(first)[:_BEGIN]
