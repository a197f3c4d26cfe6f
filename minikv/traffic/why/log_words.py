"""What a report of a log says in words: sizes in tokens or bytes, sentences, one line a place."""

from __future__ import annotations

from collections.abc import Iterator

from minikv.traffic.why.log import BreakingPlace, LogReport
from minikv.traffic.why.places import shown_after, shown_before
from minikv.traffic.why.units import PromptUnit

HEAD = ("lost", "of all", "breaks", "place", "kind of change")


class LogWords:
    """Words about a report, whose sizes are shown in `unit`: with a tokenizer in tokens, as long as in its sample.

    >>> from minikv.traffic.why.log import survey
    >>> words = LogWords(survey([b'{"prompt": "Hi"}']), PromptUnit())
    >>> words.size(2), words.unit
    ('2', 'bytes')
    """

    def __init__(self, report: LogReport, unit: PromptUnit):
        self.report, self.unit, self._bytes = report, unit.name, 1.0
        if unit.scale == 1 and report.sample:
            self._bytes = len(report.sample.encode("utf-8", "surrogatepass")) / max(1, len(unit.split(report.sample)))

    def size(self, count: float) -> str:
        """A number of bytes in the unit."""
        return f"{round(count / self._bytes):,}"

    def share(self, count: float) -> str:
        """A number of bytes as a share of all prompts."""
        return f"{count / self.report.size:.1%}" if self.report.size else "0.0%"

    def sentences(self) -> Iterator[str]:
        """What was read, what can be reused, what is lost."""
        report = self.report
        yield f"{report.name}: {_many(report.requests, 'request')}, {self.size(report.size)} {self.unit} of prompts."
        if self._bytes != 1.0:
            yield f"A token has {self._bytes:.2f} bytes here, measured on the first prompts; sizes follow from it."
        yield (f"An unlimited cache by tokens reuses {self.share(report.reused)} of them; "
               f"{report.continued:,} of the requests continue an earlier one.")  # fmt: skip
        yield f"{self.share(report.lost)} was sent before but not reused, because something in front of it changed."
        if report.other_lines:
            yield f"{_many(report.other_lines, 'line')} without a request left out."
        if report.unread:
            yield f"The log holds more text than is compared at once: only {report.requests:,} requests were read."

    def rows(self, top: int) -> list[tuple[str, ...]]:
        """The `top` places that lose the most, as rows below `HEAD`."""
        return [
            (self.size(place.lost), self.share(place.lost), f"{place.breaks:,}", place.place or "the end", place.kind)
            for place in self.report.places[:top]
        ]

    def telling(self, top: int) -> list[BreakingPlace]:
        """Those of the `top` places about which something can be done."""
        return [place for place in self.report.places[:top] if not place.about.harmless and place.lost]


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def sides(place: BreakingPlace) -> list[tuple[str, str]]:
    """What stands around a place in the two requests that lost the most there, with its names."""
    before = next((spot for spot in place.spots if spot), None)
    found = [("both", shown_before(before))]
    return found + [(f"line {line}", shown_after(spot)) for line, spot in zip(place.lines, place.spots)]
