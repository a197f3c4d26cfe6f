"""A folder that cannot be loaded is one line that names the file, the value and the rule, and no traceback."""

import io
import json
import re
import sys

import pytest
import torch
from llamas import llama, settings
from safetensors.torch import load_file, save_file
from test_tokenizer import file_tokenizer

from minikv import cli
from minikv.serving.llama import Llama
from minikv.serving.tokenizer import load_tokenizer

pytest.importorskip("tokenizers")
CONFIG, TOKENIZER, WEIGHTS = "config.json", "tokenizer.json", "model.safetensors"


@pytest.fixture
def folder(tmp_path):
    """A checkpoint that can be loaded."""
    file_tokenizer(tmp_path)
    (tmp_path / CONFIG).write_text(json.dumps(settings(vocab_size=259, bos_token_id=257, eos_token_id=258)))
    save_file(llama(vocab_size=259, dtype=torch.float16).weights, tmp_path / WEIGHTS)
    return tmp_path


def setting(**changed):
    """A config that differs in some settings."""

    def change(folder):
        config = json.loads((folder / CONFIG).read_text("utf-8"))
        (folder / CONFIG).write_text(json.dumps({**config, **changed}))

    return change


def weights(**changed):
    """Weights that differ: another tensor, or none."""

    def change(folder):
        found = {**load_file(folder / WEIGHTS), **changed}
        save_file({name: weight.clone() for name, weight in found.items() if weight is not None}, folder / WEIGHTS)

    return change


def content(name, text):
    return lambda folder: (folder / name).write_bytes(text)


def cut(name, size):
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:size])


def without(name):
    return lambda folder: (folder / name).unlink()


NORM = "model.norm.weight"
YARN = {"rope_type": "yarn", "factor": 4.0}
BROKEN = {  # what is changed, and what is said of it; {} is the folder
    "no config": (without(CONFIG), "{} has no config.json: expected the folder of a checkpoint"),
    "a config that was cut off": (cut(CONFIG, 20), "{}/config.json is not JSON: "),
    "a list as a config": (content(CONFIG, b"[1]"), "{}/config.json holds a list: expected an object"),
    "another RoPE": (
        setting(rope_scaling=YARN), "{}/config.json: rope_type is 'yarn': expected one of default, linear, llama3"),
    "a number where settings should be": (setting(rope_scaling=5), "{}/config.json: 'int' object is not "),
    "an end outside the vocabulary": (
        setting(eos_token_id=259), "{}/config.json: eos_token_id is 259: expected at most 258"),
    "no weights": (without(WEIGHTS), "{} has neither model.safetensors nor shards model-*.safetensors"),
    "no safetensors file": (content(WEIGHTS, b"\xff" * 100), "{}/model.safetensors is not a safetensors file: "),
    "a file that was cut off": (cut(WEIGHTS, -7), "{}/model.safetensors is not a safetensors file: "),
    "a missing weight": (weights(**{NORM: None}), "{} has no model.norm.weight, which its config asks for"),
    "another shape": (
        weights(**{NORM: torch.ones(31)}), "model.norm.weight of {} is (31,): its config asks for (32,)"),
    "an unknown weight": (
        weights(**{"model.norm.bias": torch.ones(32)}), "{} has model.norm.bias, which its config does not mention"),
    "no tokenizer": (without(TOKENIZER), "{} has no tokenizer.json, and its config.json names the tokenizer None"),
    "another tokenizer": (content(TOKENIZER, b"{}"), "{}/tokenizer.json is not a tokenizer that can be read: "),
}  # fmt: skip


def test_the_folder_loads_unless_something_is_changed_and_is_talked_to_in_plain_lines(folder, capsys, monkeypatch):
    """A prompt begins with the model's first id; all that was said is in the cache in the next turn."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("the first\nthe second\n"))
    assert cli.main(["chat", "--model", str(folder), "--max-new-tokens", "4"]) == 0
    said = capsys.readouterr().out
    first, second = re.findall(r"\[(\d+) of (\d+) prompt tokens", said)
    prompt = [257, *load_tokenizer(folder).encode("User: the first\nAssistant:")]
    assert first == ("0", str(len(prompt)))
    assert int(second[0]) >= len(prompt)
    assert "was taught" not in said  # a checkpoint of one's own has no phrasebook


@pytest.mark.parametrize("kind", BROKEN)
def test_a_folder_that_cannot_be_loaded_is_one_line(folder, capsys, kind):
    change, said = BROKEN[kind]
    change(folder)
    assert cli.main(["chat", "--model", str(folder)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"minikv: {said.replace('{}', str(folder), 1)}")
    assert err.count("\n") == 1
    assert len(err) < 300 + len(str(folder))


@pytest.mark.parametrize("name", ["minikv.store.KVStore", "minikv.serving.checkpoint.load_file"])
def test_memory_that_runs_out_is_one_line(folder, monkeypatch, capsys, name):
    def no_memory(*_, **__):
        raise RuntimeError("[enforce fail at alloc_cpu.cpp] unable to mmap 1099511627784 bytes\n" + "frame\n" * 999)

    monkeypatch.setattr(name, no_memory)
    assert cli.main(["chat", "--model", str(folder)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"minikv: cannot open {folder}: [enforce fail at alloc_cpu.cpp] unable to mmap")
    assert said.count("\n") == 1


def test_a_chat_template_and_other_files_beside_the_weights_are_not_read(folder):
    for name in ("tokenizer_config.json", "chat_template.jinja", "consolidated.safetensors"):
        (folder / name).write_bytes(b"\xff")
    assert Llama.from_folder(folder).vocab_size == 259
