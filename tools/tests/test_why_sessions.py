"""Session files of coding agents: each bill counted once, what the cache lost between two steps, and why.

The lines are made up after github.com/skillsynchq/txcript (docs/formats), docs.rs/agent-sessions (formats.md), ccusage
issue 888 and tests of public readers for `compact_boundary` and `token_usage_record`, read in November 2026.
"""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikv.cli import main
from minikv_tools.why.sessions import CAUSES, LEAST, SessionReport, read_sessions, session_text


def clock(minutes):
    return f"2026-08-10T{10 + int(minutes) // 60:02}:{int(minutes) % 60:02}:{round(minutes * 60) % 60:02}.123Z"


def claude(number, minutes, read=0, written=0, fresh=3, hour=0, **more):
    """A line of Claude Code for one block of answer `number`."""
    creation = {"ephemeral_5m_input_tokens": written - hour, "ephemeral_1h_input_tokens": hour}
    usage = {"input_tokens": fresh, "cache_creation_input_tokens": written, "cache_read_input_tokens": read,
             "output_tokens": 45, "cache_creation": creation, "service_tier": "standard"}  # fmt: skip
    message = {"id": f"msg_{number}", "role": "assistant", "model": more.pop("model", "claude-opus-5"),
               "content": [{"type": "text", "text": "Reading."}], "usage": usage}  # fmt: skip
    return {"parentUuid": "a1f4", "isSidechain": False, "sessionId": "3f2a", "version": "2.1.230", "type": "assistant",
            "message": message, "requestId": f"req_{number}", "uuid": f"b{number}-{minutes}",
            "timestamp": clock(minutes), **more}  # fmt: skip


def user(text, minutes=0, **more):
    return {"parentUuid": None, "sessionId": "3f2a", "type": "user", "uuid": "u", "timestamp": clock(minutes),
            "message": {"role": "user", "content": text}, **more}  # fmt: skip


COMPACTED = {"parentUuid": None, "sessionId": "3f2a", "type": "system", "subtype": "compact_boundary", "uuid": "c",
             "compactMetadata": {"trigger": "auto", "preTokens": 90000}}  # fmt: skip
RESUMED = {**user(""), "type": "attachment", "attachment": {"hookName": "SessionStart:resume"}}


def codex(kind, minutes, **payload):
    return {"timestamp": clock(minutes), "type": kind, "payload": payload}


def codex_count(minutes, prompt, read, total):
    last = {"input_tokens": prompt, "cached_input_tokens": read, "output_tokens": 9, "total_tokens": prompt + 9}
    return codex("event_msg", minutes, type="token_count", rate_limits=None,
                 info={"total_token_usage": {"total_tokens": total}, "last_token_usage": last})  # fmt: skip


def codex_record(minutes, number, prompt, read, written=None):
    usage = {"input_tokens": prompt, "cached_input_tokens": read, "output_tokens": 9, "total_tokens": prompt + 9}
    usage |= {} if written is None else {"cache_write_input_tokens": written}
    return codex("token_usage_record", minutes, response_id=f"resp_{number}", usage=usage)


def report(*files):
    found = SessionReport()
    for number, lines in enumerate(files):
        found.add([json.dumps(line).encode() for line in lines], f"{number}.jsonl")
    return found


def losses(*lines):
    return [(loss.line, loss.tokens, loss.cause) for loss in report(lines).losses]


def test_an_answer_of_several_lines_is_one_step_with_one_bill():
    lines = [user("Hi"), claude(1, 1, 0, 20000), claude(1, 1.1, 0, 20000), user("ok"), claude(2, 2, 20000, 500)]
    totals = report(lines).totals
    assert dict(totals) == {"files": 1, "steps": 2, "prompt": 40506, "read": 20000, "written": 20500, "written_1h": 0,
                            "cost": 27631}  # fmt: skip
    assert not report(lines).losses


def test_a_copy_of_a_session_counts_once_and_goes_on_from_there():
    """A resumed session may be a new file that begins with the lines of the old one."""
    first = [claude(1, 1, 0, 20000), claude(2, 2, 20000, 500)]
    found = report(first, [*first, claude(3, 3, 0, 21000)])
    assert (found.totals["steps"], found.totals["files"]) == (3, 2)
    assert [(loss.file, loss.line, loss.tokens, loss.cause) for loss in found.losses] == [
        ("1.jsonl", 3, 20500, "unknown")
    ]


@pytest.mark.parametrize(("between", "after", "cause"), [
    ([], {"minutes": 7}, "unknown"), ([], {"minutes": 7.5}, "pause"),  # an entry is kept for five minutes
    ([], {"minutes": 3, "model": "claude-sonnet-5-5"}, "model"),
    ([], {"minutes": 70, "model": "claude-sonnet-5-5"}, "model"),
    ([COMPACTED], {"minutes": 3}, "compaction"),
    ([COMPACTED, user("This session is being continued", isCompactSummary=True)], {"minutes": 9}, "compaction"),
    ([user("<command-name>/clear</command-name>")], {"minutes": 3}, "cleared"),
    ([RESUMED], {"minutes": 3}, "cleared"), ([RESUMED], {"minutes": 300}, "pause"),
    ([user("<command-message>resume</command-message>\n <command-name>/resume</command-name>")], {"minutes": 3},
     "cleared"),
    ([user("go on")], {"minutes": 3}, "unknown"),
    ([user("What is <command-name>/resume</command-name>?")], {"minutes": 3}, "unknown"),
    ([user(json.dumps(user("<command-name>/clear</command-name>")))], {"minutes": 3}, "unknown"),
    ([user("The hook SessionStart:resume ran.")], {"minutes": 3}, "unknown"),
])  # fmt: skip
def test_each_cause_is_told_and_none_that_is_only_quoted(between, after, cause):
    lines = [claude(1, 1, 0, 50000), claude(2, 2, 50000, 900), *between, claude(3, read=12000, written=30000, **after)]
    assert losses(*lines) == [(len(lines), 30003, cause)]


def test_a_cache_of_an_hour_outlives_a_pause_of_ten_minutes():
    begin = [claude(1, 1, 0, 50000, hour=50000), claude(2, 2, 50000, 900, hour=900)]
    assert losses(*begin, claude(3, 12, 0, 52000, hour=52000)) == [(3, 50900, "unknown")]
    assert losses(*begin, claude(3, 63, 0, 52000, hour=52000)) == [(3, 50900, "pause")]
    assert not losses(*begin, claude(3, 12, 50900, 1100, hour=1100))


@pytest.mark.parametrize("side", [{"isSidechain": True, "agentId": "x"}, {"isSidechain": True}, {"agentId": "x"}])
def test_a_subagent_has_a_cache_of_its_own(side):
    lines = [claude(1, 1, 0, 50000), claude(2, 1.1, 0, 9000, **side), claude(3, 1.2, 9000, 10, **side),
             claude(4, 2, 50000, 100)]  # fmt: skip
    assert not losses(*lines)
    assert losses(*lines, claude(5, 3, 0, 9500, **side)) == [(5, 9010, "unknown")]
    later = [COMPACTED, claude(5, 2.1, 9010, 10, **side), claude(6, 3, 12000, 30000)]
    assert losses(*lines, *later) == [(7, 30003, "compaction")], "the compaction came before the step of the main agent"


def test_a_line_that_the_agent_made_up_is_no_step():
    assert report([claude(1, 1, 0, 5000), claude(2, 2, 0, 0, model="<synthetic>")]).totals["steps"] == 1


def test_a_bill_that_says_nothing_of_the_cache_is_no_step():
    bill = {"type": "assistant", "message": {"id": "b", "model": "claude-opus-5", "usage": {"input_tokens": 9000}}}
    lines = [claude(1, 1, 0, 5000), bill, claude(2, 2, 5000, 100)]
    assert (report(lines).totals["steps"], losses(*lines)) == (2, [])


def test_a_broken_last_line_is_left_out():
    found = SessionReport()
    found.add([json.dumps(claude(1, 1, 0, 5000)).encode(), b'{"usage": {"input_tok'], "a")
    assert found.totals["steps"] == 1


def test_the_price_of_a_loss_is_what_was_paid_more_than_for_reading():
    """20,000 tokens were written again at 1.25 in place of being read at 0.1; the 3 of the question are plain."""
    (loss,) = report([claude(1, 1, 0, 20000), claude(2, 9, 0, 20000)]).losses
    assert loss.cost == round(20000 * ((20000 * 1.25 + 3) / 20003 - 0.1))
    assert loss.pause == 480


META = codex("session_meta", 0, id="0", cwd="/src", cli_version="0.149.0", originator="codex_cli_rs")
TURN = codex("turn_context", 0, turn_id="t", model="gpt-5.5", effort="high")


def test_codex_says_the_bill_of_each_request_and_repeats_it():
    lines = [META, TURN, codex_count(1, 20000, 0, 20009), codex_count(1.1, 20000, 0, 20009),
             codex("event_msg", 1.2, type="token_count", info=None), codex_count(2, 21000, 19968, 41018)]  # fmt: skip
    found = report(lines)
    assert dict(found.totals) == {"files": 1, "steps": 2, "prompt": 41000, "read": 19968, "written": 0,
                                  "written_1h": 0, "cost": round(41000 - 0.9 * 19968)}  # fmt: skip
    assert not found.losses


def test_codex_has_records_of_requests_and_the_counts_after_them_say_the_same():
    lines = [META, TURN, codex_record(1, 1, 20000, 0, 19000), codex_count(1, 20000, 0, 20009),
             codex_record(2, 2, 21000, 19000, 1500), codex_count(2, 21000, 19000, 41018)]  # fmt: skip
    assert dict(report(lines).totals) == {"files": 1, "steps": 2, "prompt": 41000, "read": 19000, "written": 20500,
                                          "written_1h": 0, "cost": round(1.25 * 20500 + 3400)}  # fmt: skip


@pytest.mark.parametrize(("between", "minutes", "cause"), [
    ([], 5, "unknown"), ([], 8, "unknown"), ([{**TURN, "payload": {"model": "gpt-5.6-sol"}}], 3, "model"),
    ([codex("compacted", 2, message="A summary.")], 3, "compaction"),
    ([codex("event_msg", 2, type="context_compacted")], 3, "compaction"), ([META], 3, "cleared"),
    ([{**META, "payload": {**META["payload"], "cli_version": "0.150.0"}}], 3, "cleared"),
])  # fmt: skip
def test_each_cause_is_told_of_codex(between, minutes, cause):
    lines = [META, TURN, codex_count(1, 20000, 0, 1), codex_count(2, 20500, 19968, 2), *between,
             codex_count(minutes, 21000, 3000, 3)]  # fmt: skip
    assert losses(*lines) == [(len(lines), 17500, cause)]


@pytest.mark.parametrize(("model", "later", "cause"), [
    ("gpt-5.5", "2026-08-11T09:02:00Z", "unknown"), ("gpt-5.5", "2026-08-11T10:03:00Z", "pause"),
    ("gpt-4o", "2026-08-10T10:06:00Z", "unknown"), ("gpt-4o", "2026-08-10T10:08:00Z", "pause"),
])  # fmt: skip
def test_a_pause_is_a_cause_after_the_lifetime_of_the_model(model, later, cause):
    """24 hours for GPT-5.5; before that, five minutes are sure."""
    lines = [META, {**TURN, "payload": {"model": model}}, codex_count(1, 20000, 0, 1), codex_count(2, 20500, 19968, 2),
             {**codex_count(3, 21000, 3000, 3), "timestamp": later}]  # fmt: skip
    assert losses(*lines) == [(5, 17500, cause)]


@given(st.integers(4096, 60000), st.sampled_from([("gpt-5.5", 2048), ("gpt-5.4", 128)]))
def test_what_fills_no_step_of_the_providers_cache_is_not_lost(prompt, rule):
    """GPT-5.5 keeps prompts in steps of 2,048 tokens: a step that reads all of them loses nothing."""
    model, step = rule
    turn = {**TURN, "payload": {"model": model}}
    kept = prompt // step * step
    lines = [META, turn, codex_count(1, prompt, 0, 1)]
    assert not losses(*lines, codex_count(2, prompt + 500, kept, 2))
    assert losses(*lines, codex_count(2, prompt + 500, kept - 2048, 2)) == [(4, prompt - kept + 2048, "unknown")]


SIZES = st.integers(0, 60000)


@given(st.lists(st.tuples(SIZES, SIZES, st.integers(0, 3000), st.integers(0, 90)), min_size=1, max_size=8))
def test_what_is_lost_was_in_the_cache_and_is_not_read(steps):
    minutes, lines = 0, []
    for number, (read, written, fresh, pause) in enumerate(steps):
        minutes += pause
        lines.append(claude(number, minutes, read, written, fresh))
    found = report(lines)
    assert found.totals["steps"] == len(steps)
    assert found.totals["prompt"] == sum(read + written + fresh for read, written, fresh, _ in steps)
    assert all(LEAST <= loss.tokens <= found.totals["prompt"] - found.totals["read"] for loss in found.losses)
    assert sum(sums["tokens"] for sums in found.causes.values()) == sum(loss.tokens for loss in found.losses)
    assert 0 <= sum(loss.cost for loss in found.losses) <= found.totals["cost"] + len(steps)
    assert json.loads(json.dumps(found.as_json(3)))["prompt"] == found.totals["prompt"]
    session_text(found, 3)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)


KEYS = ["message", "payload", "type", "version", "agentId", "timestamp", "usage", "uuid", "timestamp_ms"]


@given(st.sampled_from(KEYS), VALUES)
def test_odd_values_never_raise(key, value):
    for line in (claude(2, 2), codex_count(2, 5000, 3, 3), codex_record(3, 3, 5000, 3)):
        session_text(report([claude(1, 1, 0, 5000), {**line, key: value}]), 3)


def test_a_time_of_no_calendar_is_shown_as_the_last_one():
    late = {**claude(2, 2, 0, 5000), "timestamp": None, "timestamp_ms": 10**19}
    found = report([claude(1, 1, 0, 5000), late])
    assert "5138-11-16 09:46 UTC" in session_text(found, 3)
    assert report([claude(1, 1, 0, 5000), {**late, "timestamp_ms": None}]).losses[0].time == 0, "where it has none"


# -- the command ------------------------------------------------------------------------------------------------------


def written(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


def test_the_command_knows_a_session_by_itself(tmp_path, capsys):
    summary = {"type": "summary", "summary": "A title", "leafUuid": "a"}
    written(tmp_path / "a.jsonl", summary, user("Hi"), claude(1, 1, 0, 50000), COMPACTED, claude(2, 3, 12000, 30000))
    assert main(["why", str(tmp_path / "a.jsonl")]) == 0
    said = capsys.readouterr().out
    assert "Session files: 1; steps: 2; tokens of prompts: 92,006." in said
    assert "12,000  13.0%  read from the cache" in said
    assert "30,003  32.6%  lost: compaction (1×), price 34," in said
    assert "30,003  compaction  2 min  2026-08-10 10:03 UTC" in said
    assert CAUSES["compaction"].split("\n")[0] in said
    assert main(["why", str(tmp_path / "a.jsonl"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["largest"][0]["line"] == 5


def test_the_largest_losses_come_first_and_no_more_than_asked_for(tmp_path, capsys):
    lines = [claude(1, 1, 0, 5000), claude(2, 2, 0, 9000), claude(3, 3, 0, 7000), claude(4, 4, 0, 7000)]
    written(tmp_path / "a.jsonl", *lines)
    assert main(["why", str(tmp_path), "--json", "--top", "2"]) == 0
    assert [(loss["line"], loss["tokens"]) for loss in json.loads(capsys.readouterr().out)["largest"]] == [
        (3, 7003), (4, 7000)
    ]  # fmt: skip
    assert main(["why", str(tmp_path), "--top", "1"]) == 0
    assert capsys.readouterr().out.count(" UTC") == 1


def test_a_folder_is_all_sessions_in_it(tmp_path, capsys):
    written(tmp_path / "p" / "a.jsonl", claude(1, 1, 0, 5000))
    written(tmp_path / "p" / "3f2a" / "subagents" / "agent-x.jsonl", claude(2, 1, 0, 7000, isSidechain=True))
    written(tmp_path / "2026" / "rollout-1.jsonl", META, TURN, codex_count(1, 9000, 0, 1))
    written(tmp_path / "p" / "log.jsonl", {"prompt": "Hi"})
    assert read_sessions(str(tmp_path)).totals["files"] == 3
    assert main(["why", str(tmp_path)]) == 0
    assert "Session files: 3; steps: 3; tokens of prompts: 21,006." in capsys.readouterr().out


def test_what_is_no_session_is_one_line(tmp_path, capsys):
    assert main(["why", str(tmp_path)]) == 2
    assert "has no session files of an agent" in capsys.readouterr().err
    written(tmp_path / "a.jsonl", claude(1, 1, 0, 5000))
    assert main(["why", str(tmp_path), "--html", str(tmp_path / "a.html")]) == 2
    assert "--html needs a log" in capsys.readouterr().err
    log = {"prompt": "Hi", "sessionId": "3", "parent": {"type": "event_msg"}}
    written(tmp_path / "log.jsonl", log)
    assert read_sessions(str(tmp_path / "log.jsonl")) is None
