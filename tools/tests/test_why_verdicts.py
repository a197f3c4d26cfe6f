"""The providers' verdicts in a log that somebody else made from their documentation, with a key, before `why` saw it.

`blind/verdict_log.py` writes 199 requests to both APIs, and of each what changed since the one that it names, the
verdict, and whether it should agree with what a log shows, differ from it (a router or a gateway behind the log), or
cannot be compared. `why` leaves out the requests whose history is at the server.
"""

import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from minikv.cli import main
from minikv_tools import survey
from minikv_tools.bodies import read_body
from minikv_tools.formats import stored_history
from minikv_tools.usage import Usage, objects_in
from minikv_tools.why.bills import Billed
from minikv_tools.why.providers import Prediction
from minikv_tools.why.verdicts import ProviderVerdict, parts_changed, read_verdict, response_id

BLIND = Path(__file__).with_name("blind") / "verdict_log.py"
NAMES = {"none": "", "no divergence": "no change"}  # the key's words for reasons
HERE = {"instructions": "the system prompt", "nothing": "nothing", "system": "the system prompt", "model": "the model",
        "tools": "the tools"}  # fmt: skip  # and for what changed


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The log, and the lines of its key that `why` reads."""
    folder = tmp_path_factory.mktemp("verdicts")
    shutil.copy(BLIND, folder)
    subprocess.run([sys.executable, folder / BLIND.name], check=True, capture_output=True)
    entries = map(json.loads, (folder / "log.jsonl").read_text("utf-8").splitlines())
    key = json.loads((folder / "key.json").read_text("utf-8"))["lines"]
    return folder / "log.jsonl", [row for row, entry in zip(key, entries) if not stored_history(entry["request"])]


def test_each_verdict_agrees_differs_or_cannot_be_compared_as_its_key_says(made):
    log, key = made
    expected = Counter((NAMES.get(row["verdict"], row["verdict"]), row["outcome"].lower()) for row in key)
    verdicts = survey(log).verdicts
    found = {(reason, how): count for reason, counts in verdicts.counts.items() for how, count in counts.items()}
    assert {pair: count for pair, count in found.items() if count} == {
        pair: count for pair, count in expected.items() if pair[0]
    }
    differ = Counter((NAMES.get(row["verdict"], row["verdict"]), HERE[row["changed"][0]])
                     for row in key if row["outcome"] == "DIFFER")  # fmt: skip
    assert {pair: count for pair, (count, _) in verdicts.differ.items()} == differ


def test_the_report_names_each_way_to_differ_with_its_first_line(made, capsys):
    log, key = made
    assert main(["why", str(log)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    first = next(row["line"] for row in key if row["verdict"] == "model_changed" and row["changed"] == ["nothing"])
    assert f"model_changed, but in the log nothing changed: 4 requests, the first in line {first}." in printed
    assert "something changed between it and the provider" in printed


ASKED = {"diagnostics": {"previous_message_id": "msg_1"}}
COMPARED = {"prompt_cache_options": {"comparison_response_id": "resp_1"}}


@pytest.mark.parametrize(("request_of", "response", "verdict"), [
    (ASKED, {"diagnostics": None}, ProviderVerdict("no change", "msg_1")),
    (ASKED, {"diagnostics": {"cache_miss_reason": None}}, ProviderVerdict("pending", "msg_1")),
    ({"diagnostics": {"previous_message_id": None}}, {"diagnostics": None}, None),
    (COMPARED, {"prompt_cache_diagnostics": {"type": "cache_hit"}}, ProviderVerdict("cache_hit", "resp_1")),
    (COMPARED, {"prompt_cache_diagnostics": {"type": "cache_miss", "reason": "tools_changed"}},
     ProviderVerdict("tools_changed", "resp_1")),
    (COMPARED, {}, None), ({}, {"id": "resp_2"}, None),
])  # fmt: skip
def test_a_verdict_is_read_where_the_api_puts_it(request_of, response, verdict):
    request = {"prompt": "Hi", **request_of}
    for entry in ({"request": request, "response": response}, {**request, "response": response}):
        assert read_verdict([*objects_in(entry)], read_body(entry)) == verdict
    assert response_id([response]) == response.get("id", "")


@pytest.mark.parametrize(("more", "part"), [
    ({"prompt_cache_key": "a"}, "the cache key"), ({"reasoning": {"effort": "low"}}, "the effort"),
    ({"text": {"verbosity": "low"}}, "the verbosity"), ({"service_tier": "flex"}, "the service tier"),
    ({"model": "m"}, "the model"), ({"tools": [{"name": "f"}]}, "the tools"),
    ({"response_format": {"type": "json_object"}}, "the output schema"), ({"instructions": "Go."}, "the system prompt"),
])  # fmt: skip
def test_what_changed_is_named_as_a_provider_names_it(more, part):
    body = {"input": [{"role": "user", "content": "Hi"}]}
    assert parts_changed(read_body(body), read_body({**body, **more})) == [part]
    longer = {"input": [*body["input"], {"role": "assistant", "content": "Ho"}]}
    assert parts_changed(read_body(body), read_body(longer)) == []
    assert parts_changed(read_body(longer), read_body(body)) == ["the messages"]


@pytest.mark.parametrize(("kind", "sums"), [
    ("", (0, 0, 500)), ("cache expired", (0, 0, 500)), ("too short for the cache", (500, 0, 0)),
    ("no breakpoint", (0, 500, 0)),
])  # fmt: skip
def test_what_was_not_read_is_too_short_asked_for_or_the_providers(kind, sums):
    billed = Billed()
    billed.count(Usage(1000, 400), 0.9, Prediction("anthropic", 0, kind=kind))
    assert (billed.short, billed.asked, billed.should) == sums
    billed.fix(Usage(1000, 400), 0.9, 0.3)
    assert billed.fixable == 100, "no more than what is left"
