"""Logs with planted causes and a key that others wrote: what `why` found stays.

Two have 20,000 requests and ten causes each; three has sessions of several kinds, four is in eight languages, and both
have 5,000 requests and eight causes.

A cause is found where one row has both its place and its kind, as LOGS names them. Two causes of one place and kind
are one: the clocks of two applications. The kinds are those of the key but for two: a configuration that is text
inside a system prompt has lines, so its keys in another order are lines in another order; and the cards of customers
differ by user, for which the key of the first log has no name. Its fix leaves these cards in the prompts, after the
policy. In the first log the window of the chat is held against the second fix that its key gives, the whole history:
that is the fix that `why` counts. MORE is in the first log and was not planted: many documents are asked the same
questions, which stand after the document.

By night the command runs over both logs, and the judge is tested: an answer as the key says it passes, and each single
figure beyond its limit is named. The key of the first log counts an unlimited cache over blocks of 64 bytes; a program
that made it is in the history of this folder.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from minikv import cli

BLIND = Path(__file__).with_name("blind")
USER, SYSTEM = "messages[*] (user), content", "messages[0] (system), content"
POINTS, SHARE, LARGE = 0.02, 0.1, 0.01  # hit rates; of a share; of all prompts: what no row but these may lose
MORE = USER, "shared text last"


class Planted(NamedTuple):
    """A log: its module, key, the row of each cause, those whose share is not within a tenth, points of all fixed."""

    module: str
    key: str
    rows: dict[str, tuple[str, str]]
    apart: set[str]
    points: float = POINTS


LOGS = {
    "one": Planted("planted_log", "planted_key.json", {
        "chat_clock": (SYSTEM, "clock"),
        "chat_window": ("messages", "history truncated"),
        "chat_user_block": (SYSTEM, "differs by user"),
        "agent_tool_order": ("tools", "tools reordered"),
        "agent_result_age": ("messages[*] (user), content[0].content", "number"),
        "rag_request_id": (USER, "random id"),
        "rag_passage_order": (USER, "order"),
        "rag_crlf": (USER, "line ends"),
        "batch_schema_keys": ("tools[*] (save_invoice)", "keys reordered"),
        "batch_model": ("model", "namespace"),
    }, {"agent_result_age", "chat_user_block"}),
    "two": Planted("planted_log_two", "planted_key_two.json", {
        "rag_order": (USER, "order"),
        "rag_user": (SYSTEM, "differs by user"),
        "chat_clock": (SYSTEM, "clock"),
        "chat_window": ("messages", "history truncated"),
        "agent_tools": ("tools", "tools reordered"),
        "batch_keys": ("system", "order"),
        "batch_guide": (USER, "shared text last"),
        "agent_path": ("system", "random id"),
        "agent_results": ("messages[*] (user), content[0].content", "tool result edited"),
        "chat_fallback": ("model", "namespace"),
    }, {"chat_window", "agent_results"}, 0.027),
    "three": Planted("planted_log_three", "planted_key_three.json", {
        "support_clock": (SYSTEM, "clock"),
        "support_customer": (SYSTEM, "differs by user"),
        "support_window": ("messages", "history truncated"),
        "ops_budget": (SYSTEM, "number"),
        "manuals_passages": (SYSTEM, "order"),
        "intake_id": ("system", "random id"),
        "travel_tools": ("tools", "tools reordered"),
        "writing_notes": (USER, "message edited"),
    }, set(), 0.01),
    "four": Planted("planted_log_four", "planted_key_four.json", {
        "uhr": (SYSTEM, "clock"),
        "kennung": (SYSTEM, "random id"),
        "betrag": (SYSTEM, "number"),
        "reihenfolge": (SYSTEM, "order"),
        "werkzeuge": ("tools", "tools reordered"),
        "fenster": ("messages", "history truncated"),
        "kunde": ("system", "differs by user"),
        "saat": (SYSTEM, "clock"),
    }, set(), 0.01),
}  # fmt: skip
OTHER_KIND = {"batch_keys", "chat_user_block"}


def key_of(planted: Planted) -> tuple[dict[str, tuple[set[str], float, float]], float]:
    """Of each cause its kinds, its share and the hit rate once it is fixed; and the hit rate with all fixed."""
    key = json.loads((BLIND / planted.key).read_text("utf-8"))
    found, rows = {}, dict[tuple[str, str], str]()
    for cause in key["causes"]:
        fix = cause.get("other_fix", cause)
        saved = cause["saved"] if "saved" in cause else fix["computed_saved_bytes"] / key["planted"]["total_bytes"]
        name = rows.setdefault(planted.rows[cause["name"]], cause["name"])
        others = found[name][1] if name in found else 0.0
        found[name] = set(cause.get("kinds") or cause["kind"]), saved + others, fix["hit_rate_after"] + others
    return found, key["all_fixed"]["hit_rate"] if "all_fixed" in key else key["hit_rate_all_fixed"]


def wrong(answer: dict[str, Any], planted: Planted) -> Iterator[str]:
    """What an answer has not, or has beyond its limit."""
    causes, fixed = key_of(planted)
    rows = {(row["place"], row["kind"]): row for row in answer["places"]}
    for name, (_, share, after) in causes.items():
        row = rows.pop(planted.rows[name], None)
        if row is None or row["lost"] <= 0:
            yield f"{name}: not found"
            continue
        if name not in planted.apart and abs(row["lost"] / answer["bytes"] - share) > SHARE * share:
            yield f"{name}: share"
        if abs(row["hits_after"] - after) > POINTS:
            yield f"{name}: hit rate"
    if abs(answer["hits_after"] - fixed) > planted.points:
        yield "all fixed: hit rate"
    large = (row for row, found in rows.items() if row != MORE and found["lost"] > LARGE * answer["bytes"])
    yield from (f"{row}: not planted" for row in large)


def write(module: ModuleType, path: Path) -> None:
    """Write a log as its own command does."""
    if hasattr(module, "make"):
        module.make(path)
        return
    entries = module.entries() if hasattr(module, "entries") else module.make_log()
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries)


@pytest.mark.nightly
@pytest.mark.parametrize("log", LOGS)
def test_the_planted_causes_are_found(log: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BLIND))
    path, out = tmp_path / "log.jsonl", io.StringIO()
    write(importlib.import_module(LOGS[log].module), path)
    with contextlib.redirect_stdout(out):
        assert cli.main(["why", str(path), "--json", "--top", "1000"]) == 0
    assert not [*wrong(json.loads(out.getvalue()), LOGS[log])]


def as_the_key_says(planted: Planted) -> dict[str, Any]:
    """An answer with the figures of the key."""
    causes, fixed = key_of(planted)
    rows = [dict(zip(("place", "kind"), planted.rows[name]), lost=10**6 * share, hits_after=after)
            for name, (_, share, after) in causes.items()]  # fmt: skip
    return {"bytes": 10**6, "hits_after": fixed, "places": rows}


@pytest.mark.parametrize("log", LOGS)
def test_each_cause_has_a_row_of_its_own_with_a_kind_of_the_key(log: str) -> None:
    planted, (causes, _) = LOGS[log], key_of(LOGS[log])
    assert len(causes) == len({*planted.rows.values()}) == {"one": 10, "two": 10, "three": 8, "four": 7}[log]
    assert {name for name in causes if planted.rows[name][1] not in causes[name][0]} <= OTHER_KIND
    assert len(planted.apart) <= 2, "those within a tenth: eight of each of the first two, and all of the others"


@pytest.mark.nightly
@pytest.mark.parametrize("log", LOGS)
def test_each_figure_beyond_its_limit_is_named(log: str) -> None:
    planted, right = LOGS[log], as_the_key_says(LOGS[log])
    assert not [*wrong(right, planted)]
    hits, size = right["hits_after"], right["bytes"]
    assert [*wrong({**right, "hits_after": hits - planted.points - 0.001}, planted)] == ["all fixed: hit rate"]
    more = {"place": "prompt", "kind": "number", "lost": 0.011 * size, "hits_after": 0.9}
    assert [*wrong({**right, "places": [*right["places"], more]}, planted)] == ["('prompt', 'number'): not planted"]
    for number, (name, row) in enumerate(zip(key_of(planted)[0], right["places"])):
        share = [f"{name}: share"] * (name not in planted.apart)
        for changed, named in (
            ({"kind": "text edited"}, [f"{name}: not found"]), ({"lost": 0}, [f"{name}: not found"]),
            ({"hits_after": row["hits_after"] + 0.021}, [f"{name}: hit rate"]),
            ({"hits_after": row["hits_after"] - 0.021}, [f"{name}: hit rate"]),
            ({"lost": 1.11 * row["lost"]}, share), ({"lost": 0.89 * row["lost"]}, share),
        ):  # fmt: skip
            rows = [{**each, **(changed if at == number else {})} for at, each in enumerate(right["places"])]
            assert [*wrong({**right, "places": rows}, planted)][: len(named) or None] == named
