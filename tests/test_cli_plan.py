"""`minikv plan` as a user meets it: its tables and files, its refusals, and that killed work goes on."""

from __future__ import annotations

import csv
import json
import re
import signal
import subprocess
import sys
import time

import pytest
from traffic import CUTS

from minikv import asset, cli

pytestmark = pytest.mark.core

MOONCAKE = str(CUTS / "mooncake.jsonl")
LLAMA = ["--model", "llama-3.1-8b", "--memory", "60GiB"]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def plan(capsys, *options, trace=MOONCAKE):
    try:
        status = cli.main(["plan", trace, *options])
    except SystemExit as ended:  # argparse refuses an option
        status = ended.code
    return status, *capsys.readouterr()


def test_it_says_all_there_is_to_say(capsys):
    status, out, err = plan(capsys, *LLAMA, "--ttl", "60,3600")
    assert status == 0
    for title in ("Hits by size", "Ceiling, knee and bound", "Time to live", "Conversations", "Prefixes worth most"):
        assert f"\n{title}\n" in out
    assert "llama-3.1-8b: 128 KiB of bf16 per token; the cache may use 60 GiB: 491,520 tokens." in out
    assert "format mooncake, blocks of 512 tokens" in err
    assert max(map(len, out.splitlines())) < 320


def test_without_a_model_it_counts_tokens(capsys):
    status, out, _ = plan(capsys)
    assert status == 0
    assert "No model was given" in out
    assert "GiB" not in out


def test_one_json_object(capsys):
    found = json.loads(plan(capsys, *LLAMA, "--json")[1])
    assert found["at_memory"]["blocks"] == 60 * 2**30 // (2**17 * 512)
    assert found["ceiling"]["hit_rate"] == found["points"][-1]["hit_rate"]


def test_more_gpus_hold_more_tokens_and_weights_take_room(capsys):
    two = json.loads(plan(capsys, *LLAMA, "--tp", "2", "--json")[1])
    assert two["bytes_per_token_per_gpu"] == 2**16
    less = json.loads(plan(capsys, *LLAMA, "--weights", "bf16", "--json")[1])
    assert less["memory"] == 60 * 2**30 - 2 * 8_030_261_248


def test_where_a_model_is_split_every_size_in_bytes_says_per_gpu(capsys, tmp_path):
    status, out, _ = plan(capsys, *LLAMA, "--tp", "2", "--policies", "lru", "--html", "plan.html", "--csv", "plan.csv")
    assert status == 0
    bare = re.compile(r"[\d,.]+ GiB(?! (?:per GPU|of cache per GPU|on each of 2 GPUs))")
    assert all(line.startswith("    ") for line in out.splitlines() if bare.search(line))  # a row of the table
    page = (tmp_path / "plan.html").read_text("utf-8")
    assert not bare.search(re.sub(r'<th scope="row">[^<]*</th>', "", page))
    assert "memory per GPU" in out
    assert "memory per GPU" in page
    assert ",bytes_per_gpu," in (tmp_path / "plan.csv").read_text("utf-8").splitlines()[0]


NO_FULL_ATTENTION = [  # what configs of these models say
    {"layer_types": ["linear_attention", "full_attention"]},  # Qwen3-Next
    {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 128},  # gpt-oss
    {"full_attention_interval": 4}, {"linear_num_key_heads": 16},
    {"hybrid_override_pattern": "M-M*"}, {"ssm_state_size": 128},  # Nemotron-H
    {"sliding_window_pattern": 6}, {"sliding_window": 1024},  # Gemma 3
    {"use_sliding_window": True, "sliding_window": None}, {"attention_chunk_size": 8192},  # Llama 4
    {"layers_block_type": ["mamba", "attention"]}, {"block_types": ["recurrent", "attention"]},
    {"attn_type_list": [0, 1]}, {"attn_layer_period": 8}, {"linear_attn_config": {"kda_layers": [1]}},
    {"num_kv_shared_layers": 15}, {"index_topk": 2048},  # Gemma 3n, DeepSeek-V3.2
    {"kv_cache_quant_algo": "FP8"}, {"quantization_config": {"kv_cache_scheme": {"num_bits": 8}}},
    {"quantization": {"kv_cache_quant_algo": "FP8"}},
]  # fmt: skip


def config_with(**fields):
    return json.loads(asset("configs/qwen3-8b.json").read_text("utf-8")) | fields


@pytest.mark.parametrize("fields", NO_FULL_ATTENTION, ids=str)
@pytest.mark.parametrize("inside", [False, True], ids=["", "text_config"])
def test_a_model_whose_layers_are_not_all_full_attention_is_refused_by_name(fields, inside, capsys, tmp_path):
    config = config_with(**fields)
    (tmp_path / "config.json").write_text(json.dumps({"text_config": config} if inside else config), "utf-8")
    status, out, err = plan(capsys, "--model", "config.json")
    assert (status, out) == (2, "")
    (line,) = err.splitlines()
    assert re.match(rf"minikv: ({'|'.join(re.findall(r'[a-z_]{6,}', str(fields)))}) in config.json (is|has) ", line)


@pytest.mark.parametrize(
    "fields",
    [{"sliding_window": None}, {"use_sliding_window": False, "sliding_window": 32768, "max_window_layers": 28},
     {"layer_types": ["full_attention"] * 36}, {"num_kv_shared_layers": 0}, {"kv_cache_quant_algo": None},
     {"quantization_config": {"quant_method": "awq", "bits": 4}}],
    ids=str,
)  # fmt: skip
def test_a_field_that_is_not_in_force_is_none_of_its_business(fields, capsys, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(config_with(**fields)), "utf-8")
    assert "144 KiB of bf16 per token" in plan(capsys, "--model", "config.json")[1]


def test_files_for_spreadsheets_and_browsers(capsys, tmp_path):
    assert plan(capsys, "--csv", "curve.csv", "--html", "report.html")[0] == 0
    assert len(list(csv.DictReader((tmp_path / "curve.csv").open()))) > 5
    assert (tmp_path / "report.html").read_text("utf-8").startswith("<!doctype html>")


def test_a_picture_needs_resvg(capsys, tmp_path, monkeypatch):
    pytest.importorskip("resvg_py")
    assert plan(capsys, "--png", "curve.png")[0] == 0
    assert (tmp_path / "curve.png").read_bytes()[:4] == b"\x89PNG"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    status, _, err = plan(capsys, "--png", "curve.png")
    assert (status, err) == (
        2,
        "minikv: --png needs resvg_py, which is not installed: pip install 'minikv[course]'\n",
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--memory", "60GiB"], "--memory needs --model"),
        (["--model", "llama-3.1-8b", "--memory", "60"], "argument --memory: '60': expected a number and its unit"),
        (["--model", "llama-3.1-8b", "--memory", "1MiB"], "--memory is less than a block of 512 tokens takes"),
        (["--model", "no-such-model"], "no asset 'configs/no-such-model.json'"),
        ([*LLAMA, "--tp", "3"], "8 KV heads do not divide among 3 ranks"),
        ([*LLAMA, "--weights", "fp32", "--memory", "20GiB"], "the weights take"),
        (["--weights", "bf16"], "--weights are taken off --memory, which is not given"),
        (["--ttl", "sixty"], "argument --ttl: 'sixty': expected numbers from 0 to 1e9"),
        (["--ttl", "nan"], "argument --ttl: 'nan'"),
        (["--warm-up", "1"], "argument --warm-up: '1': it is a share of the requests, less than 1"),
        (["--policies", "best"], "argument --policies: 'best': expected all, or some of lru"),
        (["--policies", "all", "--warm-up", "0.5"], "leave --warm-up out"),
        (["--csv", "no/such/folder.csv"], "Its folder does not exist"),
        (["--html", MOONCAKE], "is the trace, which would be overwritten"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(options, said, capsys, tmp_path):
    status, out, err = plan(capsys, *options)
    assert (status, out) == (2, "")
    assert said in err.splitlines()[-1]
    assert not list(tmp_path.iterdir())


def test_bytes_are_no_tokens_of_a_model(capsys, tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text('{"prompt": "one"}\n' * 3, "utf-8")
    status, _, err = plan(capsys, "--model", "llama-3.1-8b", trace=str(log))
    assert status == 2
    assert "is counted in bytes, a model in tokens: --tokenizer FOLDER counts tokens" in err
    status, _, err = plan(capsys, "--ttl", "60", trace=str(log))
    assert (status, "says nothing of time" in err) == (2, True)


def test_policies_of_standard_input_are_refused(capsys):
    assert "which standard input does not allow" in plan(capsys, "--policies", "lru", trace="-")[2]


def test_policies_are_replayed_and_lru_is_the_curve(capsys):
    found = json.loads(plan(capsys, "--policies", "lru,mru", "--json")[1])
    hits = {point["blocks"]: point["hits"] for point in found["points"]}
    assert set(found["policies"]) == {"lru", "mru"}
    assert all(row["hits"] == hits[row["blocks"]] for row in found["policies"]["lru"])


def test_another_trace_s_journal_is_refused(capsys):
    plan(capsys, "--policies", "lru", "--journal", "kept.journal")
    status, _, err = plan(capsys, "--policies", "lru", "--journal", "kept.journal", trace=str(CUTS / "miniswe.jsonl"))
    assert status == 2
    assert "is a journal of other work" in err
    assert "--journal names another file" in err


def test_a_journal_is_refused_once_a_prompt_goes_on_from_another_one(capsys, tmp_path):
    day = tmp_path / "day.jsonl"

    def replayed(last):
        lines = [{"timestamp": 0, "input_length": 512 * len(ids), "output_length": 1, "hash_ids": ids}
                 for ids in ([1, 2], [3, 4], last)]  # fmt: skip
        day.write_text("\n".join(map(json.dumps, lines)), "utf-8")
        return plan(capsys, "--policies", "lru", trace=str(day))

    assert replayed([1, 2, 5])[0] == 0
    status, _, err = replayed([3, 4, 5])  # as many nodes, of the same depths
    assert (status, "is a journal of other work" in err) == (2, True)


SIGKILL = getattr(signal, "SIGKILL", signal.SIGTERM)


def test_killed_and_started_again_it_gives_the_same_table(capsys, tmp_path):
    command = [sys.executable, "-m", "minikv", "plan", MOONCAKE, "--policies", "all", "--json"]
    journal = tmp_path / "mooncake.jsonl.journal"
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while running.poll() is None and not (journal.exists() and journal.read_bytes().count(b"\n") > 3):
        time.sleep(0.002)
    running.send_signal(SIGKILL)
    running.wait()
    assert journal.read_bytes().count(b"\n") > 3
    again = plan(capsys, "--policies", "all", "--json")[1]
    journal.unlink()
    assert again == plan(capsys, "--policies", "all", "--json")[1]
