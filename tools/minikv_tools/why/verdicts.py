"""The provider's own verdict on a request, compared with what is found here.

If asked to, Anthropic and OpenAI compare a request with the one whose response it names, and report the first thing
that changed. The verdict is in the response, so a log may have it:

    Anthropic   `diagnostics.cache_miss_reason.type`; asked for with `diagnostics.previous_message_id`
    OpenAI      `prompt_cache_diagnostics`, a type and a reason; `prompt_cache_options.comparison_response_id`

Both compare requests, not what a cache did: if nothing changed and the bill still shows little read, the entry was
gone. The reasons, what each of them is about, and the sentences below the tables are in `verdicts.json`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from minikv.untrusted import read_json
from minikv_tools.bodies import Body
from minikv_tools.formats import object_of
from minikv_tools.logs import field_of
from minikv_tools.pieces import bounded_name
from minikv_tools.report import ReportPart, many
from minikv_tools.usage import JsonObject

_TABLE = read_json(Path(__file__).with_name("verdicts.json"))
_ANTHROPIC = "diagnostics"


class ProviderVerdict(NamedTuple):
    """A provider's verdict on a request: the `reason`, and the id of the earlier response that it is about."""

    reason: str
    about: str = ""


def read_verdict(objects: Iterable[JsonObject], body: Body) -> ProviderVerdict | None:
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


def response_id(objects: Iterable[JsonObject]) -> str:
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
        how, reason, theirs = "unknown", bounded_name(verdict.reason), _TABLE["reasons"].get(verdict.reason)
        if one and theirs is not None:
            ours = parts_changed(one, two)
            how = "agree" if {*theirs} & {*ours} or theirs == ours else "differ"
            if how == "differ":
                self.differ.setdefault((reason, " and ".join(ours) or "nothing"), [0, line])[0] += 1
        self.counts.setdefault(reason, dict.fromkeys(("agree", "differ", "unknown"), 0))[how] += 1

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
