"""`minikv plan` as a user meets it: its tables and files, its refusals, and that killed work goes on."""

import json
import re

import pytest
from traffic import CUTS

from minikv import asset, cli

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


def test_more_gpus_hold_more_tokens_and_weights_take_room(capsys):
    two = json.loads(plan(capsys, *LLAMA, "--tp", "2", "--json")[1])
    assert (two["bytes_per_token"], two["at_memory"]["blocks"]) == (2**16, 60 * 2**30 // (2**16 * 512))
    less = json.loads(plan(capsys, *LLAMA, "--weights", "bf16", "--json")[1])
    assert (list(two), list(two["knee"]), two["gpus"]) == (list(less), list(less["knee"]), 2)
    assert less["memory"] == 60 * 2**30 - 2 * 8_030_261_248


def test_where_a_model_is_split_every_size_in_bytes_says_per_gpu(capsys, tmp_path):
    status, out, _ = plan(capsys, *LLAMA, "--tp", "2", "--html", "plan.html", "--csv", "plan.csv")
    assert status == 0
    bare = re.compile(r"[\d,.]+ GiB(?! (?:per GPU|of cache per GPU|on each of 2 GPUs|on 2 GPUs|in all))")
    assert all(line.startswith("    ") for line in out.splitlines() if bare.search(line))  # a row of the table
    page = (tmp_path / "plan.html").read_text("utf-8")
    assert not bare.search(re.sub(r"<t[hd][^>]*>[\d,.]+ GiB</t[hd]>", "", page))
    assert "memory per GPU" in out
    assert "memory per GPU" in page
    assert "60 GiB on each of 2 GPUs (120 GiB in all)" in out
    assert "--memory, 60 GiB per GPU: LRU hits" in out
    assert ",bytes," in (tmp_path / "plan.csv").read_text("utf-8").splitlines()[0]


OR = ". In place of the model, give --bytes-per-token, such as 72KiB"


def config_with(**fields):
    return json.loads(asset("configs/qwen3-8b.json").read_text("utf-8")) | fields


@pytest.mark.parametrize("inside", [False, True], ids=["", "text_config"])
def test_what_is_not_known_of_a_model_is_refused_by_name(inside, capsys, tmp_path):
    config = config_with(attention_window_size=4096)
    (tmp_path / "config.json").write_text(json.dumps({"text_config": config} if inside else config), "utf-8")
    status, out, err = plan(capsys, "--model", "config.json")
    assert (status, out) == (2, "")
    said = "attention_window_size in config.json is 4096: minikv does not know what qwen3 keeps then"
    assert err.splitlines() == [f"minikv: {said}{OR}"]


def test_a_model_for_translation_is_refused_by_name(capsys, tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "t5", "num_layers": 6}', "utf-8")
    said = f"minikv: model_type in config.json is 't5': minikv does not know its layers{OR}\n"
    assert plan(capsys, "--model", "config.json")[1:] == ("", said)


def test_a_model_that_is_not_known_is_planned_for_by_the_bytes_that_it_keeps(capsys):
    """With those of Llama 3.1 8B, all is as with the model, but for what its FLOPs say."""
    given, llama = (json.loads(plan(capsys, *options, "--memory", "60GiB", "--json")[1])
                    for options in (["--bytes-per-token", "128KiB"], LLAMA[:2]))  # fmt: skip
    assert given["points"] == [{**row, "flops_saved": None} for row in llama["points"]]
    assert given["prefill_flops"] is None
    said = plan(capsys, "--bytes-per-token", "24KiB", "--bytes-per-sequence", "73MiB", "--memory", "60GiB")[1]
    about = "As given, 24 KiB per token and 73 MiB per prompt; the cache may use 60 GiB: 2,621,440 tokens, minus "
    assert about + "windows and states of prompts. FLOPs and prefill times need a model." in said


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("qwen3-next-80b-a3b", "24 KiB of bf16 per token and 73.69 MiB per prompt"),
        ("deepseek-v3", "68.62 KiB of bf16 per token; "),
        ("llama-4-scout", "48 KiB of bf16 per token and 1.125 GiB per prompt"),
    ],
)
def test_bytes_of_models_whose_layers_differ(model, said, capsys):
    assert f"{model}: {said}" in plan(capsys, "--model", model, "--memory", "60GiB")[1]


def test_what_the_layers_keep_is_a_table_with_conventions(capsys, tmp_path):
    status, out, _ = plan(capsys, "--model", "qwen3-next-80b-a3b", "--memory", "60GiB", "--html", "plan.html")
    page = (tmp_path / "plan.html").read_text("utf-8")
    for said in ("What the layers keep", "73.69 MiB", "sums in fp32, as in SGLang; vLLM takes the type of the model",
                 "The smallest prefix that vLLM reuses has 1,056 tokens", "LRU in vLLM",
                 "SGLang comes close to that", "Its FLOPs are not counted."):  # fmt: skip
        assert said in out
        assert said in page
    assert status == 0
    half = plan(capsys, "--model", "qwen3-next-80b-a3b", "--state-dtype", "bf16", "--tp", "2", "--json")[1]
    found = json.loads(half)
    assert (found["gpus"], found["smallest_prefix"]) == (2, 544)
    assert found["bytes_per_sequence"] == found["layers"][1]["state"] == 18 * (2**20 + 49_152)


def test_the_hits_in_vllm_s_blocks_are_those_of_a_trace_that_is_cut_into_such_blocks(capsys):
    """58.8 % of the blocks of 16 tokens are hits, but few prompts share 1,056 tokens."""
    fine, coarse = (json.loads(plan(capsys, "--model", "qwen3-next-80b-a3b", "--block-size", size, "--json",
                                    trace="synthetic:chat?requests=50")[1]) for size in ("16", "1056"))  # fmt: skip
    share = coarse["ceiling"]["tokens_saved"] / (16 * fine["blocks"])
    assert (fine["ceiling"]["hit_rate"], fine["ceiling"]["grid_hit_rate"]) == (0.587605, round(share, 6))
    assert fine["points"][-1]["grid_hit_rate"] == 0.176741
    windows = json.loads(plan(capsys, "--model", "gemma-3-12b", "--json")[1])
    assert windows["ceiling"]["grid_hit_rate"] is None


def test_all_that_is_in_the_cache_counts_in_its_size(capsys):
    """Windows of 320 MiB for each of 150 prompts; the largest of them cannot be in 1 GiB."""
    windows = json.loads(plan(capsys, "--model", "gemma-3-12b", "--memory", "1GiB", "--json")[1])
    plain = json.loads(plan(capsys, "--json")[1])
    assert windows["at_memory"]["requests_too_large"] > 0
    assert windows["at_memory"]["tokens"] is None  # that depends on the prompts
    assert "16,384 tokens, minus windows" in plan(capsys, "--model", "gemma-3-12b", "--memory", "1GiB")[1]
    less = plan(capsys, "--model", "gemma-3-12b", "--memory", "100MiB")[1]
    assert "1,600 tokens, but one long prompt's windows and states take more." in less
    in_blocks = windows["ceiling"]["bytes"] - plain["ceiling"]["tokens"] * 65_536
    assert 0.9 * 150 * 320 * 2**20 < in_blocks <= 150 * 320 * 2**20 + 512 * 65_536
    assert windows["ceiling"]["hits"] == plain["ceiling"]["hits"]


def test_a_model_without_a_layer_that_keeps_all_tokens_has_no_curve(capsys, tmp_path):
    config = {"model_type": "mistral", "sliding_window": 4096}  # 7B v0.1, by its class
    (tmp_path / "config.json").write_text(json.dumps(config), "utf-8")
    status, _, err = plan(capsys, "--model", "config.json")
    assert (status, err) == (
        2,
        "minikv: no layer of 'config.json' keeps every token, only 512 MiB per prompt: there is no curve\n",
    )


def test_keys_and_values_are_of_the_type_that_the_checkpoint_says(capsys, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(config_with()), "utf-8")
    beside = {"producer": {"name": "modelopt"}, "quantization": {"kv_cache_quant_algo": "FP8"}}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(beside), "utf-8")
    assert "72 KiB of fp8 per token" in plan(capsys, "--model", "config.json")[1]
    assert "144 KiB of bf16 per token" in plan(capsys, "--model", ".", "--dtype", "bf16")[1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--memory", "60GiB"], "memory needs a model or bytes_per_token, and neither is given"),
        (["--bytes-per-sequence", "1MiB"], "bytes_per_sequence needs a model or bytes_per_token"),
        (["--bytes-per-token", "1KiB", "--dtype", "fp8"], "dtype needs a model, which is not given"),
        ([*LLAMA, "--bytes-per-token", "1KiB"], "leave out either it or the model"),
        ([*LLAMA, "--bytes-per-sequence", "1KiB"], "bytes_per_sequence is for a model that is not known"),
        (["--tp", "2"], "tp needs a model, which is not given"),
        (["--state-dtype", "bf16"], "state_dtype needs a model, which is not given"),
        (["--weights", "bf16"], "weights needs a model, which is not given"),
        (["--model", "llama-3.1-8b", "--memory", "60"], "argument --memory: '60': expected a number and its unit"),
        (["--model", "llama-3.1-8b", "--memory", "1MiB"], "the memory is too small for a block of 512 tokens"),
        (["--model", "no-such-model"], "'no-such-model' is not a config.json, a folder with one, or one of the models"),
        (["--model", "no/such/folder"], "'no/such/folder' is not a config.json, a folder with one, or one of"),
        ([*LLAMA, "--tp", "3"], "8 KV heads do not divide among 3 ranks"),
        ([*LLAMA, "--weights", "fp32", "--memory", "20GiB"], "the weights take 29.92 GiB, but only 20 GiB may be used"),
        (
            ["--model", "qwen3-next-80b-a3b", "--memory", "9GiB", "--weights", "fp8"],
            "whose parameters and FLOPs are not counted",
        ),
        (["--model", "llama-3.1-8b", "--weights", "bf16"], "weights are subtracted from memory, which is not given"),
        (["--text-bytes-per-token", "4"], "is counted in tokens: leave --text-bytes-per-token out"),
        (["--ttl", "sixty"], "argument --ttl: 'sixty': expected seconds"),
        (["--ttl", "nan"], "ttl is nan: expected a number from 0 to 1e+09"),
        (["--warm-up", "1"], "warm_up is 1.0: expected a number from 0 to 1"),
        (["--csv", "no/such/folder.csv"], "Its folder does not exist"),
        (["--html", MOONCAKE], "is read, and would be overwritten: name another file"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(options, said, capsys, tmp_path):
    status, out, err = plan(capsys, *options)
    assert (status, out) == (2, "")
    assert said in err.splitlines()[-1]
    assert not list(tmp_path.iterdir())


def test_bytes_are_no_tokens_of_a_model(capsys, tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps({"prompt": "one " * 160}) + "\n" * 3, "utf-8")
    cli.main(["trace", str(log), "-o", "day.jsonl"])
    for trace, made in ((str(log), "add"), ("day.jsonl", "make it again with minikv trace")):
        status, _, err = plan(capsys, "--model", "llama-3.1-8b", trace=trace)
        assert status == 2
        assert f"is counted in bytes, a model in tokens: {made} --tokenizer FOLDER; for an estimate, add " in err
    status, _, err = plan(capsys, "--ttl", "60", trace=str(log))
    assert (status, "has no times" in err) == (2, True)


@pytest.mark.parametrize("trace", ["log.jsonl", "day.jsonl"])
def test_an_estimate_of_tokens_is_marked_in_every_form(trace, capsys, tmp_path):
    (tmp_path / "log.jsonl").write_text((json.dumps({"prompt": "one " * 160}) + "\n") * 3, "utf-8")
    cli.main(["trace", "log.jsonl", "-o", "day.jsonl"])
    capsys.readouterr()
    options = "--model", "llama-3.1-8b", "--text-bytes-per-token", "4", "--html", "plan.html"
    found = json.loads(plan(capsys, *options, "--json", trace=trace)[1])
    assert (found["unit"], found["block_size"], found["prompt_tokens"]) == ("estimated tokens", 16, 3 * 160)
    assert found["ceiling"]["bytes"] == 160 * 2**17
    said, page = plan(capsys, *options, trace=trace)[1], (tmp_path / "plan.html").read_text("utf-8")
    for mark in ("blocks of 16 estimated tokens (4 bytes counted as a token)", "480 estimated tokens, 160 on average",
                 "Every figure in tokens, GiB, FLOPs or hours is an estimate.", "about 0.020 GiB"):  # fmt: skip
        assert mark in said
        assert mark in page
    three = plan(capsys, *options[:3], "3", trace=trace)
    assert (three[0], "a block of 64 bytes is not a whole number of tokens of 3 bytes" in three[2]) == (2, True)


def test_prompts_that_are_longer_than_the_context_are_counted(capsys, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(config_with(max_position_embeddings=8192)), "utf-8")
    assert "; 81 exceed the model's context of 8,192 tokens; " in plan(capsys, "--model", "config.json")[1]
    found = json.loads(plan(capsys, *LLAMA, "--json")[1])
    assert (found["context"], found["prompts_beyond_context"]) == (131_072, 0)
    assert "exceed" not in plan(capsys)[1]
