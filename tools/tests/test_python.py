"""From Python: `explain`, `survey`, `plan` and `replay` take plain things, and return what the commands print."""

import json
import subprocess
import sys

import pytest

import minikv
import minikv_tools
from minikv import Replay, asset, replay
from minikv.cli import main
from minikv_tools import Explanation, LogReport, Plan, explain, plan, survey
from minikv_tools.plans.plan_files import plan_object
from minikv_tools.why.places import as_body


def body(time):
    system = {"role": "system", "content": f"It is {time}. Be brief."}
    return {"model": "m", "messages": [system, {"role": "user", "content": "Hi"}]}


@pytest.mark.parametrize(
    ("one", "two", "place"),
    [
        ("It is 14:05.", "It is 14:06.", "prompt, after 10 characters"),
        ([5, 6, 7], [5, 6, 8], "prompt, after 2 tokens"),
        (body("14:05")["messages"], body("14:06")["messages"], "messages[0] (system), content, after 10 characters"),
        (body("14:05"), {"request": body("14:06")}, "messages[0] (system), content, after 10 characters"),
        (as_body(body("14:05")), body("14:06"), "messages[0] (system), content, after 10 characters"),
    ],
)
def test_prompts_are_compared_as_they_are(one, two, place):
    found = explain(one, two)
    assert isinstance(found, Explanation)
    assert str(found.spots[1]) == place
    assert f"  where    {place}\n" in repr(found)


@pytest.mark.parametrize(
    ("thing", "error", "message"),
    [
        (None, TypeError, "the prompt is None: expected a text, "),
        ({"hash_ids": [1]}, ValueError, "the prompt: "),
        ([{"content": 7, "role": 7}], ValueError, "the prompt: messages\\[0\\] has the role 7: expected text"),
    ],
)
def test_what_is_not_a_prompt_is_refused(thing, error, message):
    for pair in (thing, "Hi"), ("Hi", thing):
        with pytest.raises(error, match=message):
            explain(*pair)


def test_the_command_prints_what_explain_returns(tmp_path, capsys):
    names = []
    for time in ("14:05", "14:06"):
        path = tmp_path / f"{time[-1]}.json"
        path.write_text(json.dumps(body(time)), "utf-8")
        names.append(str(path))
    assert main(["why", *names]) == 0
    assert capsys.readouterr().out == f"{explain(body('14:05'), body('14:06'))!r}\n"
    assert main(["why", *names, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == explain(body("14:05"), body("14:06")).as_json()


def test_the_command_prints_what_survey_returns(tmp_path, capsys):
    log = [body(f"14:{n}") for n in range(10, 30)]
    path = tmp_path / "log.jsonl"
    path.write_text("".join(f"{json.dumps(entry)}\n" for entry in log), "utf-8")
    found = survey(path)
    assert isinstance(found, LogReport)
    assert [place.kind for place in found.places if place.lost] == ["clock"]
    with path.open(encoding="utf-8") as lines:
        for same in (log, lines, path.read_bytes().splitlines()):
            assert survey(same, str(path)).as_json(99) == found.as_json(99)
    assert main(["why", str(path)]) == 0
    assert capsys.readouterr().out == f"{found!r}\n"
    assert main(["why", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out).items() >= {"lost": found.lost, "requests": 20}.items()


def test_a_log_that_is_none_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError):
        survey(tmp_path / "none.jsonl")
    with pytest.raises(ValueError, match="day, line 1"):
        survey(["[]"], "day")
    with pytest.raises(ValueError, match="log holds no request"):
        survey([{"hash_ids": [1]}])


TRAFFIC = "synthetic:chat?requests=60"


def test_the_command_prints_what_replay_returns(capsys):
    found = replay(TRAFFIC, capacity="500")
    assert isinstance(found, Replay)
    assert main(["replay", TRAFFIC, "--capacity", "500", "--json"]) == 0
    assert json.loads(capsys.readouterr().out).items() >= found.row().items()


def test_the_command_prints_what_plan_returns(capsys):
    found = plan(TRAFFIC, "llama-3.1-8b", "2GiB", tp=2, ttl=[60], warm_up=0.5)
    assert isinstance(found, Plan)
    command = ["plan", TRAFFIC, "--model", "llama-3.1-8b", "--memory", "2GiB", "--tp", "2", "--ttl", "60"]
    assert main([*command, "--warm-up", "0.5"]) == 0
    assert capsys.readouterr().out.endswith(f"tokens.\n{found!r}\n")
    assert main([*command, "--warm-up", "0.5", "--json"]) == 0
    assert capsys.readouterr().out == f"{json.dumps(plan_object(found))}\n"


def test_a_log_is_planned_in_the_units_that_it_is_cut_into(tmp_path):
    (tmp_path / "log.jsonl").write_text("".join(f"{json.dumps(body(f'14:{n}'))}\n" for n in range(10, 20)), "utf-8")
    found = plan(tmp_path / "log.jsonl", block_size=4)
    assert (found.unit, found.block_size) == ("bytes", 4)
    assert plan(tmp_path / "log.jsonl", tokenizer=asset("model")).unit == "tokens"


@pytest.mark.parametrize(
    ("model", "each", "has_flops"),
    [
        ("llama-3.1-8b", 131_072, True),
        ("gemma-3-12b", 65_536, True),
        ("qwen3-next-80b-a3b", 24_576, False),
    ],
)
def test_a_plan_for_a_model_needs_no_memory_and_no_flops(model, each, has_flops):
    found = plan(TRAFFIC, model)
    assert (found.memory, found.at_memory, found.bytes_per_token) == (None, None, each)
    assert (found.prefill_flops is not None, found.tiers) == (has_flops, ())


def test_weights_leave_each_gpu_its_share():
    """8,030,261,248 parameters of two bytes each, half of them on each of two GPUs."""
    found = plan(TRAFFIC, "llama-3.1-8b", "60GiB", weights="bf16", tp=2)
    assert found.memory == 60 * 2**30 - 8_030_261_248


def test_times_to_live_need_no_model_and_may_be_zero():
    assert [life.seconds for life in plan(TRAFFIC, ttl=[0, 60]).time_to_live] == [0, 60]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"model": "llama-3.1-8b", "memory": 0}, ValueError, "memory is 0: a number of bytes, or a text such as 60GiB"),
        ({"model": "llama-3.1-8b", "memory": "8GiB", "weights": "b"}, ValueError, "weights is 'b': expected one of "),
        ({"model": "llama-3.1-8b", "dtype": "b"}, ValueError, "dtype"),
        ({"ttl": [-1]}, ValueError, "ttl is -1: expected a number from 0 to 1e.09"),
        ({"warm_up": 1}, ValueError, "warm_up is 1: expected a number from 0 to 1"),
        ({"ttls": [1]}, TypeError, "ttls"),
    ],
)
def test_a_plan_that_cannot_be_made_says_why(options, error, message):
    with pytest.raises(error, match=message):
        plan(TRAFFIC, **options)


def test_the_package_itself_stays_light():
    code = "import sys, minikv_tools; print('numpy' in sys.modules, 'minikv' in sys.modules, *dir(minikv_tools))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert said[:2] == ["False", "False"]
    assert set(minikv_tools.__all__) <= set(said)


def test_a_name_is_the_function_whatever_was_imported_before():
    code = "import minikv_tools.cli.plan, minikv_tools.why.stable; from minikv_tools import plan, explain; print("
    code += "callable(plan), callable(explain), minikv_tools.plan is plan)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert said == ["True"] * 3


@pytest.mark.parametrize("name", sorted(minikv_tools.__all__))
def test_the_old_name_says_what_to_install_and_to_import(name):
    said = f"^{name} is in minikv_tools: pip install minikv-tools, then from minikv_tools import {name}$"
    with pytest.raises(ImportError, match=said):
        getattr(minikv, name)
