"""The bill of a request, compared with what a cache without a limit reuses and with the provider's rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from minikv.untrusted import read_json
from minikv_tools.bodies import Body
from minikv_tools.logs import Units, time_of
from minikv_tools.pieces import bounded_name
from minikv_tools.report import ReportPart, many
from minikv_tools.usage import JsonObject, Usage, usage_in
from minikv_tools.why.breaks import LoggedRequest
from minikv_tools.why.fixes import Share
from minikv_tools.why.providers import Prediction, RequestPair, predict, providers_of
from minikv_tools.why.texts import shared_length

_SENTENCES = read_json(Path(__file__).with_name("verdicts.json"))["billed"]
LogObjects = Iterable[JsonObject]
_TOLERANCE = 0.1  # of a prompt: the most by which a prediction that agrees may differ from a bill


@dataclass
class Billed(Share):
    """The tokens in a model's bills: `size` billed, `reused` read, and `lost`, which were sent before but not read.

    Of the lost ones, `short` were below the provider's minimum, and `asked` were hidden by the breakpoints, keys or
    settings of the requests. The rest should have been read: they expired, were evicted, or are on another machine.
    `fixable` tokens would be read in addition if all causes in the prompts were fixed.
    """

    short: int = 0
    asked: int = 0
    fixable: int = 0

    def count(self, usage: Usage, share: float, found: Prediction | None) -> None:
        """Add a bill and what the rules say about it; an unlimited cache would read a `share` of its prompt.

        >>> billed = Billed(); billed.count(Usage(1000, 200), 0.9, None); billed.lost, billed.should
        (700, 700)
        """
        read, more = _read_and_more(usage, share)
        self.add(1, usage.prompt, read, more)
        kind = found.kind if found else ""
        self.short += more * (kind == "too short for the cache")
        self.asked += more * (kind not in ("", "too short for the cache", "cache expired"))

    def fix(self, usage: Usage, share: float, fixed: float) -> None:
        """Count what fixing all causes saves of a bill: a `fixed` share, but only tokens not explained yet.

        >>> billed = Billed(); billed.fix(Usage(1000, 200), 0.7, 0.5); billed.fixable
        300
        """
        self.fixable += max(0, min(round(fixed * usage.prompt), usage.prompt - sum(_read_and_more(usage, share))))

    @property
    def should(self) -> int:
        """The tokens that the provider should have read."""
        return self.lost - self.short - self.asked


def _read_and_more(usage: Usage, share: float) -> tuple[int, int]:
    """The tokens of a bill that were read, and the others that an unlimited cache would read."""
    read = usage.read or 0
    return read, max(0, round(share * usage.prompt) - read)


class Bills:
    """The bills of the requests of a log, in `found` by what keeps their caches apart, such as the model.

    >>> bills = Bills(); bills.fix(0, 0.7, 0.5); bills.found
    {}
    """

    def __init__(self) -> None:
        self.found: dict[str, Billed] = {}
        self._of = dict[int, tuple[Billed, Usage]]()  # requests

    def add(
        self, entry: JsonObject, said: LogObjects, turn: LoggedRequest, like: LoggedRequest | None, share: float
    ) -> None:
        """Count the bill among the objects `said` of a log entry; an unlimited cache would reuse `share` of it."""
        usage = usage_in(said)
        if usage is None or usage.read is None:
            return
        turn.body = turn.body._replace(time=time_of(entry), usage=usage)
        rule = None
        if like and round(share * usage.prompt) > usage.read and providers_of(like.body, turn.body):
            units, text = Units(ids=turn.body.has_ids), turn.text
            shared, length = units.count(text[: shared_length(like.text, text)]), units.count(text)
            rule = next(iter(predicted(like.body, turn.body, shared, length, units)), None)
        billed = self.found.setdefault(turn.apart, Billed())
        billed.count(usage, share, rule)
        self._of[turn.number] = billed, usage

    def fix(self, number: int, share: float, fixed: float) -> None:
        """Count what fixing all causes saves of the bill of a request, if it has one."""
        if number in self._of:
            billed, usage = self._of[number]
            billed.fix(usage, share, fixed)


def billed_part(bills: Mapping[str, Billed]) -> ReportPart | None:
    """The tokens that were billed, by model, and why those not read were not; `None` without a bill.

    >>> billed_part({"m": Billed(1, 100, 50, 20, fixable=10)}).rows
    (('m', '1', '100', '50.0%', '10.0%', '20.0%', '0.0%', '20.0%'),)
    """
    head = ("model", "requests", "tokens billed", "read", "yours", "the provider's", "too short", "new")
    rows = []
    for name, found in sorted(bills.items()):
        mine = found.asked + found.fixable
        new = max(0, found.size - found.reused - found.lost - found.fixable)
        shares = (f"{part / max(1, found.size):.1%}" for part in (found.reused, mine, found.should, found.short, new))
        rows.append((bounded_name(name) or "no model", f"{found.requests:,}", f"{found.size:,}", *shares))
    return ReportPart("What was billed", tuple(_SENTENCES), head, tuple(rows), words=head[:1]) if rows else None


def predicted(one: Body, two: Body, shared: int, length: int, units: Units) -> list[Prediction]:
    """The predictions for two requests; two if only the model's name would tell which of a provider's rules apply.

    >>> from minikv_tools.bodies import read_body
    >>> body = read_body({"model": "gpt-4o", "prompt": "Hi"})
    >>> [found.kind for found in predicted(body, body, 2, 2, Units())]
    ['too short for the cache']
    """
    age = 0.0
    if one.time is not None and two.time is not None:
        age = max(age, two.time - one.time) / 1000
    scale = length / two.usage.prompt if two.usage and two.usage.prompt else 0
    exact = units.scale / 4 < scale < units.scale * 4
    if not exact:  # the prompt has images, or the bill is for another prompt
        scale, exact = units.scale, units.scale == 1
    pair = RequestPair(one, two, shared, length, units.count, scale, exact, age)
    return [predict(key, pair) for key in providers_of(one, two)]


def compared(found: Prediction | None, bill: Usage | None, length: int) -> str:
    """Compare a prediction for a prompt of `length` units with its bill; empty if the bill says nothing about a cache.

    >>> compared(Prediction("anthropic", read=4000), Usage(prompt=1200, read=1000), 4800)
    'The bill agrees: of 1,200 tokens, 1,000 were read; about 1,000 were expected.'
    """
    if found is None or bill is None or bill.read is None or not length:
        return ""
    expected = found.read * bill.prompt / length
    said = (f"of {many(bill.prompt, 'token')}, {many(bill.read, 'was', 'were')} read; "
            f"about {many(f'{expected:,.0f}', 'was', 'were')} expected.")  # fmt: skip
    if abs(bill.read - expected) <= max(128, _TOLERANCE * bill.prompt):
        return f"The bill agrees: {said}"
    why = ("a request before A wrote these tokens" if bill.read > expected else "the answer to A had not begun, "
           "A's entry was evicted, or B reached another workspace, region or machine")  # fmt: skip
    return f"The bill differs: {said} Perhaps {why}."
