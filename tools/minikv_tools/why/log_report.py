"""The report of a log, as lines for a terminal and as one HTML file.

Both have its figures and the places that break the prefix, worst first. The page also has the texts that most prompts
share, which are the edges of their tree.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from minikv.traffic.tables import aligned
from minikv.traffic.trace_tree import PrefixTree
from minikv_tools.exports import RequestLog
from minikv_tools.logs import Units
from minikv_tools.report import ReportPart, document, escape, many, section_html
from minikv_tools.why.bills import Billed, billed_part
from minikv_tools.why.fixes import BreakingPlace, Share
from minikv_tools.why.places import shown_after, shown_before, shown_text
from minikv_tools.why.verdicts import Verdicts

_WIDTH = 100
_FIGURES = ("requests", "reused", "lost", "hits", "continued", "sessions", "unread")
_HEAD, _TAIL = 48, 48  # characters that are shown of the beginning and of the end of a text
_REASONS = 4  # for which lines are left out
_JOINT = 0.005  # of all prompts: what several causes lose together for it to be shown


@dataclass(repr=False)
class LogReport(Share):
    """The findings in a log: what an unlimited cache finds in it, and would find with all causes fixed.

    `groups` has the same for each value of a field, `trees` the prompts by what keeps their caches apart, such as the
    model, `billed` the tokens of each that were billed, and `verdicts` what the provider said of its misses. `log` has
    its name, and the lines that were left out of it; `unread` says that it had more text than is held, and the length
    of a token is measured in the `sample`. `sessions` counts the requests that were taken to continue the latest one of
    their session, by the name of its field. Its repr is the report.

    >>> from minikv_tools.why.log import survey
    >>> survey([{"prompt": "Hi"}, {"prompt": "Ho"}]).hits
    0.25
    """

    log: RequestLog = field(default_factory=lambda: RequestLog("log"))
    continued: int = 0
    unread: bool = False
    sample: str = ""
    sessions: Mapping[str, int] = field(default_factory=dict)
    places: list[BreakingPlace] = field(default_factory=list)
    groups: dict[str, Share] = field(default_factory=dict)
    billed: dict[str, Billed] = field(default_factory=dict)
    verdicts: Verdicts = field(default_factory=Verdicts)
    trees: dict[str, PrefixTree] = field(default_factory=dict)

    def __repr__(self) -> str:
        return log_text(LogWords(self, Units()), 10)

    def quantity(self, name: str) -> float:
        """`lost`, `hits`, or what a kind of change loses, alone and with others, as a share of all prompts."""
        kind = sum(place.most_lost for place in self.places if place.kind == name) / max(1, self.size)
        return {"lost": self.lost / max(1, self.size), "hits": self.hits}.get(name, kind)

    def as_json(self, top: int) -> dict[str, Any]:
        """The same as plain values, with the `top` places and groups that lose the most."""
        log = self.log
        return {
            "log": log.name,
            "bytes": self.size,
            "hits_after": self.after,
            **{name: getattr(self, name) for name in _FIGURES},
            "other_lines": log.others,
            "other_reasons": dict(log.reasons),
            "malformed": log.malformed,
            "first_malformed": log.first,
            "places": [place.as_json() for place in self.places[:top]],
            "groups": {name: one.figures() for name, one in islice(self.groups.items(), top)},
            "billed": {name: one.figures() for name, one in self.billed.items()},
            "verdicts": self.verdicts.as_json(),
        }


class Price(NamedTuple):
    """The cost of a million tokens: as input, read from the cache, and written to it, where a provider charges that."""

    input: float
    cached: float
    write: float | None = None
    write_1h: float | None = None

    @property
    def computed(self) -> tuple[str, float]:
        """The name and the price of what is computed: all of it is written where that has a price."""
        given = ("WRITE_1H", self.write_1h), ("WRITE", self.write)
        return next(((name, price) for name, price in given if price is not None), ("IN", self.input))


class LogWords:
    """Words about a report, whose sizes are shown in `units`: with a tokenizer in tokens, as long as in its sample.

    `price` says what is lost in money, and `by` is the field that the groups of the report are values of.

    >>> from minikv_tools.why.log import survey
    >>> words = LogWords(survey([b'{"prompt": "Hi"}']), Units())
    >>> words.size(2), words.unit
    ('2', 'bytes')
    """

    def __init__(self, report: LogReport, units: Units, price: Price | None = None, by: str = ""):
        units = Units(ids=True) if report.log.ids else units
        self.report, self.unit, self.price, self._by, self._bytes = report, units.unit, price, by, 1.0
        self._scale = units.scale  # units in a token
        if units.scale == 1 and report.sample:
            size = len(report.sample.encode("utf-8", "surrogatepass"))
            self._bytes = size / max(1, units.count(report.sample))

    def size(self, count: float) -> str:
        """A number of bytes in the unit."""
        return f"{round(count / self._bytes):,}"

    def share(self, count: float) -> str:
        """A number of bytes as a share of all prompts."""
        return f"{count / max(1, self.report.size):.1%}"

    def money(self, share: Share) -> float:
        """The money that a fix saves."""
        if not self.price:
            return 0.0
        saved = (self.price.computed[1] - self.price.cached) * share.lost - self.price.cached * share.extra
        return saved / (self._bytes * self._scale) / 1e6

    def as_json(self, top: int) -> dict[str, Any]:
        """The report as plain values, with what everything costs where there is a price."""
        found, report = self.report.as_json(top), self.report
        if self.price:
            groups = ((found["groups"][name], report.groups[name]) for name in found["groups"])
            places = zip(found["places"], (place.fixed for place in report.places))
            for said, share in ((found, report), *places, *groups):
                said["costs"] = self.money(share)
        return found

    def sentences(self) -> Iterator[str]:
        """The totals: read, reusable, and lost."""
        report, log = self.report, self.report.log
        yield (f"{log.name}: {many(report.requests, 'request')}, "
               f"{many(self.size(report.size), self.unit[:-1])} of prompts.")  # fmt: skip
        if self._bytes != 1.0 and not log.ids:
            yield f"A token has {self._bytes:.2f} bytes here, measured on the first prompts; sizes are estimates."
        yield (f"An unlimited cache reuses {report.hits:.1%} of these {self.unit}; "
               f"{many(report.continued, 'of the requests continues', 'of the requests continue')} "
               "an earlier one.")  # fmt: skip
        for name, count in report.sessions.items():
            yield f"In {count:,} of {many(report.requests, 'request')}, {name} says which conversation continues."
        fixed = f"with all causes below fixed, the cache would reuse {report.after:.1%}"
        yield f"{self.share(report.lost)} was sent before but not reused, because something changed: {fixed}."
        if self.price:
            token = f", with {self._scale} bytes per token" if self._scale > 1 else ""
            prices = f"{self.price.computed[0]} for computed tokens, CACHED for tokens that would be read"
            yield f"That costs {self.money(report):,.2f} at these prices{token}: {prices}."
        yield from self._left_out()

    def _left_out(self) -> Iterator[str]:
        report, log = self.report, self.report.log
        if log.others:
            reasons = [f"{count:,} {reason}" for reason, count in log.reasons.most_common(_REASONS)]
            rest = ["and others"] * (len(log.reasons) > _REASONS)
            yield f"Left out {many(log.others, 'line')} without a request: {'; '.join(reasons + rest)}."
        if log.malformed:
            yield f"Left out {many(log.malformed, 'malformed line')}. The first: {log.first}."
        if report.unread:
            yield ("The log holds more text than is compared at once: only "
                   f"{many(report.requests, 'request was', 'requests were')} read.")  # fmt: skip

    def places(self, top: int) -> ReportPart:
        """The `top` places that lose the most, as a table; with what is lost by several causes of the same prompts."""
        places, words = self.report.places[:top], ("place", "kind of change")
        joint = ("with others",) if any(place.joint >= _JOINT * self.report.size for place in places) else ()
        head = (f"lost {self.unit}", "of all", *joint, "hits then", *self._prices("costs"), "breaks", *words)
        rows = tuple(
            (*(lost := self._lost(place.fixed))[:2], *(f"+{self.share(place.joint)}" for _ in joint), *lost[2:],
             f"{place.breaks:,}", place.place or "the end", place.kind)
            for place in places
        )  # fmt: skip
        says = () if rows else ("Nowhere: no prefix is broken.",)
        if joint:
            says = (
                'Each row is for one cause alone. "with others" is what is gained only if other causes in the '
                "same prompts are fixed, too. It is in the row of each cause, so the rows do not add up.",
            )
        return ReportPart("Where the prefix breaks", says, head if rows else (), rows, words=words)

    def groups(self, top: int) -> ReportPart | None:
        """The `top` values of the field that lose the most, as a table, or `None` where no field was asked for."""
        if not self._by:
            return None
        head = (self._by, "requests", self.unit, "hits", "lost", "hits then", *self._prices("costs"))
        rows = tuple(
            (shown_text(name), f"{share.requests:,}", self.size(share.size), f"{share.hits:.1%}",
             f"{share.lost / max(1, share.size):.1%}", *self._lost(share)[2:])
            for name, share in islice(self.report.groups.items(), top)
        )  # fmt: skip
        return ReportPart(f"By {self._by}", (), head, rows, words=(self._by,))

    def said(self) -> tuple[ReportPart | None, ...]:
        """The provider's bills and its verdicts, as tables."""
        return billed_part(self.report.billed), self.report.verdicts.part()

    def begins(self, top: int) -> ReportPart:
        """The `top` texts by what is shared in each: edges of the trees, through which several prompts go."""
        found = [
            ((count - 1) * len(edge), count, depth - len(edge), edge)
            for tree in self.report.trees.values()
            for count, depth, edge in zip(tree.requests_through(), tree.depths, tree.edges)
        ]
        found.sort(key=lambda one: -one[0])
        rows = tuple(
            (f"{count:,}", f"{at:,}", f"{len(edge):,}", _ends(edge))
            for shared, count, at, edge in found[:top]
            if shared
        )
        says = "Each row is text that several prompts share, and so is all before it. What is shared most comes first."
        head = ("requests", "after bytes", "bytes", "text")
        return ReportPart("What the prompts share", (says,), head if rows else (), rows, words=head[3:])

    def _lost(self, fixed: Share) -> tuple[str, ...]:
        money = self._prices(f"{self.money(fixed):,.2f}")
        return self.size(max(0, fixed.lost)), self.share(max(0, fixed.lost)), f"{fixed.after:.1%}", *money

    def _prices(self, text: str) -> tuple[str, ...]:
        return (text,) if self.price else ()

    def sides(self, place: BreakingPlace) -> Iterator[tuple[str, str]]:
        """The text around a place in the two requests that lost the most there, with its names; and its partners."""
        yield "both", shown_before(next((spot for spot in place.spots if spot), None))
        for line, spot in zip(place.lines, place.spots):
            yield f"line {line}", shown_after(spot)
        if place.joint >= _JOINT * self.report.size and place.partners:
            named = (f"{kind} {'here' if where == place.place else f'in {where}'}" for where, kind in place.partners)
            yield "with others", f"+{self.share(place.joint)} with {' and '.join(named)}"

    def telling(self, top: int) -> list[BreakingPlace]:
        """Those of the `top` places about which something can be done."""
        return [
            place for place in self.report.places[:top] if not place.about.harmless and place.lost + place.joint > 0
        ]


def log_text(words: LogWords, top: int) -> str:
    """The findings in a log: sentences, the `top` places as a table, and what to do about each.

    >>> from minikv_tools.why.log import survey
    >>> print(log_text(LogWords(survey([b'{"prompt": "Hi"}']), Units()), 3).splitlines()[0])
    log: 1 request, 2 bytes of prompts.
    """
    lines = [line for sentence in words.sentences() for line in textwrap.wrap(sentence, _WIDTH)]
    places = words.places(top)
    for part in (*words.said(), words.groups(top), places):
        if part and part.rows:
            lines += ["", *aligned([part.head, *part.rows], part.left)]
            lines += [line for sentence in part.sentences for line in textwrap.wrap(sentence, _WIDTH)]
    if left := len(words.report.places) - len(places.rows):
        lines.append(f"and {many(left, 'more place')} (--top)")
    for number, place in enumerate(words.telling(top), start=1):
        lines += ["", f"{number}. {place.place}: {place.about.says}"]
        lines += [f"   {name:<12} {text}" for name, text in words.sides(place)]
        lines += textwrap.wrap(place.about.remedy, _WIDTH, initial_indent="   ", subsequent_indent="   ")
    return "\n".join(lines)


def log_page(words: LogWords, top: int) -> str:
    """The page: the `top` places, and the `top` texts that prompts share.

    >>> from minikv_tools.why.log import survey
    >>> "Why do these prompts miss?" in log_page(LogWords(survey([b'{"prompt": "Hi"}']), Units()), 3)
    True
    """
    parts = [part for part in (*words.said(), words.groups(top), words.places(top)) if part]
    for number, place in enumerate(words.telling(top), start=1):
        says, head = (place.about.says, place.about.remedy), ("in", "text")
        parts.append(ReportPart(f"{number}. {place.place}", says, head, tuple(words.sides(place)), words=head))
    about, parts = f"<p>{escape(' '.join(words.sentences()))}</p>", [*parts, words.begins(top)]
    return document("Why do these prompts miss?", [about, *map(section_html, parts)])


def _ends(text: bytes) -> str:
    """The beginning and the end of a text: prompts diverge where it ends."""
    if len(text) <= _HEAD + _TAIL:
        return shown_text(text.decode("utf-8", "replace"))
    head, tail = text[: 4 * _HEAD].decode("utf-8", "replace"), text[-4 * _TAIL :].decode("utf-8", "replace")
    return f"{shown_text(head[:_HEAD])} … {shown_text(tail[-_TAIL:])}"
