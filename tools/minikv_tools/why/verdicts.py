"""The bill of a request and the provider's own verdict on it, compared with what is found here.

If asked to, Anthropic and OpenAI compare a request with the one whose response it names, and report the first thing
that changed. The verdict is in the response, so a log may have it:

    Anthropic   `diagnostics.cache_miss_reason.type`; asked for with `diagnostics.previous_message_id`
    OpenAI      `prompt_cache_diagnostics`, a type and a reason; `prompt_cache_options.comparison_response_id`

Both compare requests, not what a cache did: if nothing changed and the bill still shows little read, the entry was
gone. The reasons, what each of them is about, and the sentences below the tables are in `verdicts.json`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from minikv.untrusted import read_json
from minikv_tools.bodies import Body
from minikv_tools.formats import object_of
from minikv_tools.logs import Units, field_of
from minikv_tools.report import ReportPart, many
from minikv_tools.usage import Usage
from minikv_tools.why.fixes import Share
from minikv_tools.why.providers import Prediction, RequestPair, predict, providers_of

_TABLE = read_json(Path(__file__).with_name("verdicts.json"))
_TOLERANCE = 0.1  # of a prompt: the most by which a prediction that agrees may differ from a bill
_ANTHROPIC = "diagnostics"


class ProviderVerdict(NamedTuple):
    """A provider's verdict on a request: the `reason`, and the id of the earlier response that it is about."""

    reason: str
    about: str = ""


def read_verdict(objects: Iterable[Mapping[str, Any]], body: Body) -> ProviderVerdict | None:
    """The verdict on request `body` in one of the objects of its log entry, or `None` if none was asked for.

    >>> from minikv_tools.bodies import read_body
    >>> from minikv_tools.usage import objects_in
    >>> said = {"type": "system_changed", "cache_missed_input_tokens": 5000}
    >>> entry = {"request": {"prompt": "Hi", "diagnostics": {"previous_message_id": "msg_1"}},
    ...          "response": {"diagnostics": {"cache_miss_reason": said}}}
    >>> read_verdict(objects_in(entry), read_body(entry))
    ProviderVerdict(reason='system_changed', about='msg_1')
    """
    about = object_of(body.settings.get("prompt_cache_options")).get("comparison_response_id")
    about = str(about or object_of(body.settings.get(_ANTHROPIC)).get("previous_message_id") or "")
    for said in objects:
        if found := object_of(said.get("prompt_cache_diagnostics")):
            return ProviderVerdict(str(found.get("reason") or found.get("type")), about)
        found = object_of(said.get(_ANTHROPIC))
        if "cache_miss_reason" in found:
            return ProviderVerdict(str(object_of(found["cache_miss_reason"]).get("type") or "pending"), about)
        if about and said.get(_ANTHROPIC, about) is None:
            return ProviderVerdict("no change", about)
    return None


def response_id(objects: Iterable[Mapping[str, Any]]) -> str:
    """The id of the response in the objects of a log entry, by which a later request names it; empty if there is none.

    >>> response_id([{"id": "resp_1"}])
    'resp_1'
    """
    names = (said.get("id") for said in objects)
    return next((name for name in names if isinstance(name, str) and name.startswith(("msg_", "resp_"))), "")


def parts_changed(one: Body, two: Body) -> list[str]:
    """The parts that changed between two requests, among those that a provider may name, in the order of the prompt.

    >>> from minikv_tools.bodies import read_body
    >>> parts_changed(*(read_body({"model": "m", "system": said, "prompt": "Hi"}) for said in "ab"))
    ['the system prompt']
    """
    found = ["the model"] * (one.namespace.get("model") != two.namespace.get("model"))
    for name, paths in _TABLE["settings"].items():
        found += [name] * any(field_of(one.settings, path) != field_of(two.settings, path) for path in paths)
    before, after = (_by_part(body) for body in (one, two))
    found += [part for part in before | after if part != "the messages" and before[part] != after[part]]
    return found + ["the messages"] * (not after["the messages"].startswith(before["the messages"]))


def _by_part(body: Body) -> defaultdict[str, str]:
    texts = defaultdict[str, str](str)
    for place, text, _ in body.pieces:
        leads = place.name in ("system", "developer") and not texts["the messages"]
        texts[_TABLE["parts"].get(place.part, "the system prompt" if leads else "the messages")] += text
    return texts


@dataclass
class Verdicts:
    """The verdicts in a log: how often each agrees with what is found here, differs from it, or cannot be compared.

    `differ` has the number of requests and the line of the first one, by the reason and what changed.
    """

    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    differ: dict[tuple[str, str], list[int]] = field(default_factory=dict)

    def add(self, verdict: ProviderVerdict, one: Body | None, two: Body, line: int) -> None:
        """Compare the verdict on request `two` with what changed since `one`, which is `None` if it is not known.

        >>> from minikv_tools.bodies import read_body
        >>> verdicts, (one, two) = Verdicts(), (read_body({"prompt": said}) for said in ("Hi", "Hi there"))
        >>> verdicts.add(ProviderVerdict("cache_hit"), one, two, 2); verdicts.counts
        {'cache_hit': {'agree': 1, 'differ': 0, 'unknown': 0}}
        """
        how, theirs = "unknown", _TABLE["reasons"].get(verdict.reason)
        if one and theirs is not None:
            ours = parts_changed(one, two)
            how = "agree" if {*theirs} & {*ours} or theirs == ours else "differ"
            if how == "differ":
                self.differ.setdefault((verdict.reason, " and ".join(ours) or "nothing"), [0, line])[0] += 1
        self.counts.setdefault(verdict.reason, dict.fromkeys(("agree", "differ", "unknown"), 0))[how] += 1

    def as_json(self) -> dict[str, Any]:
        """The verdicts as plain values."""
        differ = [{"verdict": reason, "here": ours, "requests": count, "line": line}
                  for (reason, ours), (count, line) in self.differ.items()]  # fmt: skip
        return {"counts": self.counts, "differ": differ}

    def part(self) -> ReportPart | None:
        """The verdicts as a table, with a sentence for each way to differ; `None` if there are none.

        >>> Verdicts().part() is None
        True
        """
        said = [f"{reason}, but in the log {ours} changed: {many(count, 'request')}, the first in line {line}."
                for (reason, ours), (count, line) in self.differ.items()]  # fmt: skip
        said += [_TABLE["differ"]] * bool(said)
        rows = tuple((reason, *map(str, how.values())) for reason, how in sorted(self.counts.items()))
        head = ("the provider's verdict", "agree", "differ", "unknown")
        return ReportPart("What the provider said", tuple(said), head, rows, words=head[:1]) if rows else None


# -- bills ------------------------------------------------------------------------------------------------------------


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
        rows.append((name or "no model", f"{found.requests:,}", f"{found.size:,}", *shares))
    return ReportPart("What was billed", tuple(_TABLE["billed"]), head, tuple(rows), words=head[:1]) if rows else None


def predicted(one: Body, two: Body, shared: int, length: int, units: Units) -> list[Prediction]:
    """The predictions for two requests; two if only the model's name would tell which of a provider's rules apply.

    >>> from minikv_tools.bodies import read_body
    >>> body = read_body({"model": "gpt-4o", "prompt": "Hi"})
    >>> [found.kind for found in predicted(body, body, 2, 2, Units())]
    ['too short for the cache']
    """
    age, scale = 0.0, 0.0
    if one.time is not None and two.time is not None:
        age = max(age, two.time - one.time) / 1000
    if two.usage and two.usage.prompt:
        scale = length / two.usage.prompt
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
