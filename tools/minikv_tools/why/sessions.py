"""The sessions that coding agents leave on a reader's own machine: where the cache was lost, why, and what it cost.

A session file has no system prompt and no tools, so its prompts cannot be compared. But it has the bill of each step,
and that is enough: the tokens that the step before left in the cache, and that this step did not read, were lost. A
pause between the two, a compaction, another model or a restart is the cause. Two kinds of files are read:

    Claude Code   ~/.claude/projects/*/*.jsonl; one line for each block of an answer, with the bill of the whole answer
    Codex         ~/.codex/sessions/**/rollout-*.jsonl; `token_usage_record`, before 0.150 `token_count`

Neither is documented by its maker. Sources, read in November 2026: the formats in github.com/skillsynchq/txcript and
docs.rs/agent-sessions; ccusage issue 888 and vibe-usage pull request 63 on answers that are written several times;
code.claude.com/docs/en/prompt-caching on lifetimes, which are those of `providers.json`.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from minikv.traffic.tables import aligned
from minikv.traffic.trace_file import open_trace
from minikv.untrusted import json_object
from minikv_tools.bodies import Body
from minikv_tools.formats import object_of
from minikv_tools.logs import time_of
from minikv_tools.usage import Usage, read_usage
from minikv_tools.why.providers import RULES, of_model, providers_of

CAUSES = dict(part.split("\n", 1) for part in Path(__file__).with_name("sessions.txt").read_text("utf-8").split("\n\n"))
LEAST = 1024  # tokens: a smaller difference is the end of a prompt, which a cache may not hold
PRICES = (0.1, 1.25, 2.0)  # of a token that is read, written, and written for an hour; one of plain input costs 1
_TELLING = re.compile(rb'"usage"|"token_count"|"turn_context"|"session_meta"')
_EVENT = re.compile(
    rb'("subtype": ?"compact_boundary"|"isCompactSummary": ?true|"type": ?"(?:context_)?compacted")'
    rb'|"role": ?"user", ?"content": ?"(?:<command-message>[^<]*</command-message>[\\n ]*)?'
    rb"<command-name>/(?:clear|resume)<"
    rb'|"hookName": ?"SessionStart:(?:clear|resume)'
)
_SESSION = re.compile(
    rb'"parentUuid".*"sessionId"|"type": ?"(?:session_meta|turn_context|response_item|event_msg)".*"payload"'
)
_NO_STEP = {"": 0}
_SAMPLE, _WIDTH = 100, 100  # lines, characters
_LATEST = 1e14  # ms


class SessionStep(NamedTuple):
    """One request of an agent: its line, when it was answered (ms), by which model, and its bill.

    `event` is a cause that the file tells of between the step before and this one; `cached` are the tokens that a cache
    has after it: what was read and written, or the whole prompt where no write is billed.
    """

    line: int
    time: float
    model: str
    event: str
    usage: Usage
    cached: int

    @property
    def cost(self) -> float:
        """The price of the prompt, in tokens of plain input."""
        return self.usage.prompt + sum((price - 1) * (part or 0) for price, part in zip(PRICES, self.usage[1:]))


class CacheLoss(NamedTuple):
    """Tokens that were in the cache after a step and were not read by the next one, which is in `line` of `file`.

    `pause` counts seconds, and `cost` tokens of plain input: what was paid for them, less what reading them costs.
    """

    file: str
    line: int
    time: float
    tokens: int
    cause: str
    pause: float
    cost: int


class SessionReport:
    """The findings in the session files of coding agents, in tokens as the provider billed them.

    `totals` has `files`, `steps`, the fields of a `Usage`, and `cost`, in tokens of plain input; `causes` has for each
    cause of losses how many `times` it came, the `tokens` that were lost and their `cost`.

    >>> report = SessionReport()
    >>> bill = '"usage": {"input_tokens": 9, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 5000}'
    >>> lines = (f'{{"type": "assistant", "message": {{"id": {n}, {bill}}}}}' for n in (1, 1, 2))
    >>> report.add([line.encode() for line in lines], "a.jsonl")
    >>> report.totals["steps"], report.totals["prompt"], [(loss.tokens, loss.cause) for loss in report.losses]
    (2, 10018, [(5000, 'unknown')])
    """

    def __init__(self) -> None:
        self.totals: Counter[str] = Counter()
        self.causes = defaultdict[str, Counter[str]](Counter)
        self.losses: list[CacheLoss] = []
        self._seen = set[object]()

    def add(self, lines: Iterable[bytes], name: str) -> None:
        """Read one more file; an answer counts once, however many lines and files have it."""
        self.totals["files"] += 1
        before = dict[str, SessionStep]()
        for agent, answer, step in _steps(lines):
            if (agent, answer) not in self._seen:
                self._seen.add((agent, answer))
                self.totals.update({**step.usage._asdict(), "steps": 1, "cost": round(step.cost)})
                self._compare(before.get(agent, step), step, name)
            before[agent] = step

    def _compare(self, before: SessionStep, step: SessionStep, name: str) -> None:
        prompt, read = step.usage.prompt, step.usage.read or 0
        least = max(LEAST, of_model(_rule(before).get("step", _NO_STEP), before.model))
        lost = min(before.cached, prompt) - read
        if before is step or lost < least:
            return
        pause = (step.time - before.time) / 1000
        cause = _cause(before, step, pause)
        cost = round(lost * (step.cost - PRICES[0] * prompt) / (prompt - read))  # its share of what was paid
        self.losses.append(CacheLoss(name, step.line, step.time, lost, cause, pause, cost))
        self.causes[cause].update(times=1, tokens=lost, cost=cost)

    def as_json(self, top: int) -> dict[str, Any]:
        """The same as plain values, with the `top` largest losses."""
        causes = {cause: {**sums, "says": CAUSES[cause]} for cause, sums in self.causes.items()}
        return {**self.totals, "causes": causes, "largest": [loss._asdict() for loss in self.losses[:top]]}


def _steps(lines: Iterable[bytes]) -> Iterator[tuple[str, str, SessionStep]]:
    """The steps of a file whose bills tell of the cache, each with the names of its subagent and of its answer."""
    model, event, recorded = "", "", False
    for number, line in enumerate(lines, start=1):
        if found := _EVENT.search(line):
            event = "compaction" if found[1] else event or "cleared"
        try:
            entry = json_object(line, "it") if _TELLING.search(line) else {}
        except ValueError:
            continue
        kind, payload, message = entry.get("type"), object_of(entry.get("payload")), object_of(entry.get("message"))
        model = str(message.get("model") or payload.get("model") or model)
        event = event or ("cleared" if kind == "session_meta" else "")
        recorded = recorded or kind == "token_usage_record"  # the count after it says the same
        usage = None if recorded and payload.get("type") == "token_count" else read_usage(entry)
        if usage is None or usage.read is None or model == "<synthetic>":
            continue
        billed = Usage(*(part or 0 for part in usage))
        cached = usage.prompt if usage.written is None else sum(part or 0 for part in usage[1:])
        agent = str(entry.get("agentId") or entry.get("isSidechain") or "")
        answer = str(message.get("id") or payload.get("response_id") or payload.get("info") or entry.get("uuid"))
        yield agent, answer, SessionStep(number, time_of(entry) or 0.0, model, event, billed, cached)
        event = event if agent else ""


def _rule(step: SessionStep) -> Any:
    return RULES[(*providers_of(Body((), {"model": step.model}, {})), "anthropic")[0]]


def _cause(before: SessionStep, step: SessionStep, pause: float) -> str:
    """The first thing between two steps that is enough to lose the cache."""
    rule = _rule(before)
    surely = rule["ttl"] | rule["surely"]
    kept = surely[of_model(rule["kept"], before.model)] if "kept" in rule else min(surely.values())
    kept = surely["1h"] if before.usage.written_1h else kept
    if step.event == "compaction":
        return step.event
    if step.model != before.model:
        return "model"
    return "pause" if pause > kept else step.event or "unknown"


def read_sessions(path: str) -> SessionReport | None:
    """The report on the session file `path`, or on all in the folder `path`; `None` where it is another file.

    >>> read_sessions("no such file") is None
    True
    """
    place, report = Path(path), SessionReport()
    for name in sorted(place.rglob("*.jsonl")) if place.is_dir() else [place] if place.is_file() else []:
        with open_trace(str(name)) as file:
            lines = iter(file)
            sample = [*islice(lines, _SAMPLE)]
            if any(_SESSION.search(line) for line in sample):
                report.add(chain(sample, lines), file.name)
    report.losses.sort(key=lambda loss: -loss.tokens)
    return report if report.totals["files"] or place.is_dir() else None


def session_text(report: SessionReport, top: int) -> str:
    """The findings as lines for a terminal: the bill, the losses by cause, the `top` largest ones, what to do.

    >>> print(session_text(SessionReport(), 3).splitlines()[0])
    Session files: 0; steps: 0; tokens of prompts: 0.
    """
    sums, whole = report.totals, max(1, report.totals["prompt"])
    rows = [(sums["read"], "read from the cache"), (sums["written"], "written to it"),
            (sums["written_1h"], "written to it for an hour")]  # fmt: skip
    rows += [(sums["prompt"] - sum(size for size, _ in rows), "neither")]
    rows += [(found["tokens"], f"lost: {cause} ({found['times']:,}×), price {found['cost']:,.0f}")
             for cause, found in report.causes.items()]  # fmt: skip
    lines = [f"Session files: {sums['files']:,}; steps: {sums['steps']:,}; tokens of prompts: {sums['prompt']:,}.", ""]
    lines += aligned([(f"{size:,}", f"{size / whole:.1%}", what) for size, what in rows], left=[2])
    lines += ["", *textwrap.wrap(_MEANING.format(sums["cost"], *PRICES), _WIDTH), ""]
    lines += aligned([_shown(loss) for loss in report.losses[:top]], left=[1, 3, 4])
    for cause in report.causes:
        lines += ["", *textwrap.wrap(f"{cause}: {CAUSES[cause]}", _WIDTH)]
    return "\n".join(lines)


_MEANING = """All prompts cost as much as {:,.0f} tokens of plain input. A token that is read costs {} of one, a token
that is written {}, and one that is written for an hour {}. A token is lost if it was in the cache after one step and
was not read by the next; its price is the extra cost. The largest losses, with the pause before each:"""


def _shown(loss: CacheLoss) -> tuple[str, ...]:
    time = datetime.fromtimestamp(min(loss.time, _LATEST) / 1000, timezone.utc)
    when, where = f"{time:%Y-%m-%d %H:%M} UTC", f"{loss.file}:{loss.line}"
    return f"{loss.tokens:,}", loss.cause, f"{loss.pause / 60:,.0f} min", when, where
