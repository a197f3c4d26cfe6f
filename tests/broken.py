"""Broken checkpoints, over 1,500 of them: a sound one, and what each changes in it.

A case is a label and the files that it replaces (bytes), removes (None) or links (a path). They are made from the sound
checkpoint by rules and are the same on every run: cut off, of the wrong kind at each key, in the words of an attacker.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import torch
from llamas import llama, settings
from safetensors.torch import save
from test_tokenizer import file_tokenizer

TEMPLATE = "{% for message in messages %}<{{ message.role }}>{{ message['content'] | trim }}{% endfor %}<assistant>"
SIZES = {"vocab_size": 259, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
SETTINGS = settings(
    **{**SIZES, "num_key_value_heads": 1}, head_dim=4, hidden_act="silu", max_position_embeddings=128,
    rms_norm_eps=1e-6, rope_theta=10000.0, eos_token_id=258, bos_token_id=None, tie_word_embeddings=True,
    attention_bias=False, mlp_bias=False, sliding_window=None, use_sliding_window=False, torch_dtype="float16",
    rope_scaling={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                  "original_max_position_embeddings": 64},
)  # fmt: skip
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
FILES = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", WEIGHTS)


def sound(folder):
    """Write a checkpoint that works; returns its files by name."""
    file_tokenizer(folder)
    tokenizer = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    pattern = {
        "type": "Split",
        "pattern": {"Regex": r" ?\p{L}+|\s+(?!\S)|[^a]"},
        "behavior": "Isolated",
        "invert": False,
    }
    tokenizer["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [pattern, tokenizer["pre_tokenizer"]]}
    tokenizer["normalizer"] = {"type": "Replace", "pattern": {"String": "\t"}, "content": "  "}
    piece = {"Sequence": {"id": "A", "type_id": 0}}
    tokenizer["post_processor"] = {"type": "TemplateProcessing", "single": [piece], "pair": [piece, piece],
                                   "special_tokens": {}}  # fmt: skip
    config = {"chat_template": TEMPLATE, "bos_token": "<|end|>", "eos_token": {"content": "<|end|>"}, "unk_token": None}
    texts = {"config.json": SETTINGS, "generation_config.json": {"eos_token_id": [258]}, "tokenizer.json": tokenizer,
             "tokenizer_config.json": config}  # fmt: skip
    files = {name: json.dumps(value).encode() for name, value in texts.items()}
    weights = llama(
        dtype=torch.float16, **{key: value for key, value in SETTINGS.items() if key != "model_type"}
    ).weights
    files[WEIGHTS] = save(weights, {"format": "pt"})
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return files


# -- what stands where something else should ------------------------------------------------------------------------

ODD = [None, True, False, 0, -1, 7, 1.5, "x", "", "x" * 5000, [], {}, [1], [None], {"a": 1}, 10**9, 2**62, 10**400,
       1e300, float("nan"), float("inf")]  # fmt: skip


def paths_of(value, path=(), most=14):
    """The way to each part of a JSON value; of a long list or object only the first parts."""
    parts = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    for key, part in parts[:most]:
        yield (*path, key)
        yield from paths_of(part, (*path, key), most)


def replaced(value, path, odd):
    """`value` with `odd` at the end of `path`; without it where `odd` is `...`."""
    if not path:
        return odd
    copy = dict(value) if isinstance(value, dict) else list(value)
    if len(path) == 1 and odd is ...:
        del copy[path[0]]
    else:
        copy[path[0]] = replaced(value[path[0]], path[1:], odd) if path[1:] else odd
    return copy


def of_the_wrong_kind(files, name, more=()):
    value = json.loads(files[name])
    for path in [*paths_of(value, most=30 if name == "config.json" else 9), *more]:
        for odd in [..., *ODD]:
            if path in more and odd is ...:
                continue
            yield f"{name} {path} = {str(odd)[:20]}", {name: json.dumps(replaced(value, path, odd)).encode()}


NEW_KEYS = [("kv_lora_rank",), ("v_head_dim",), ("text_config",), ("quantization_config",), ("partial_rotary_factor",),
            ("rope_parameters",), ("num_kv_heads",), ("multi_query",)]  # fmt: skip


# -- files cut off, emptied, and not what they are called -------------------------------------------------------------

JUNK = {"empty": b"", "brackets": b"[" * 200_000, "objects": b'{"a":' * 100_000, "list": b"[1]", "number": b"7",
        "not UTF-8": b"\xff\xfe{}", "NUL": b"\0" * 1000, "null": b"null", "two keys": b'{"a": 1, "a": 2}',
        "pairs": b'[["a", 1]]', "surrogate": b'{"\\ud800": 1}', "digits": b'{"a": ' + b"9" * 10**5 + b"}",
        "long": b" " * (2**24 + 1)}  # fmt: skip


def cut_or_junk(files):
    for name, content in files.items():
        for i in range(24):
            yield f"{name} cut at {i}/24", {name: content[: len(content) * i // 24]}
        for kind, junk in JUNK.items():
            yield f"{name} is {kind}", {name: junk}
        yield f"{name} is missing", {name: None}


# -- weights --------------------------------------------------------------------------------------------------------


def with_header(header, data=b"\0" * 16):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def headers(files):
    length = int.from_bytes(files[WEIGHTS][:8], "little")
    header, data = json.loads(files[WEIGHTS][8 : 8 + length]), files[WEIGHTS][8 + length :]
    name = "model.norm.weight"
    for path in [(name,), (name, "dtype"), (name, "shape"), (name, "shape", 0), (name, "data_offsets"),
                 (name, "data_offsets", 0), (name, "data_offsets", 1), ("__metadata__",)]:  # fmt: skip
        for odd in [..., *ODD, "I64", "BOOL", [0, 0], [-2, -2], [0, 2**62, 2**62], [4] * 10_000, ["a", "b"], [8.0]]:
            yield f"header {path} = {str(odd)[:20]}", {WEIGHTS: with_header(replaced(header, path, odd), data)}
    for size in (0, 1, 7, 10**6, 2**22 + 1, 2**60, 2**63, 2**64 - 1):
        yield f"header of {size} bytes", {WEIGHTS: size.to_bytes(8, "little") + files[WEIGHTS][8:]}
    entry = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}
    twice = b'{"a": %b, "a": %b}' % ((json.dumps(entry).encode(),) * 2)
    odd = {"overlap": {"a": entry, "b": entry}, "gap": {"a": {**entry, "data_offsets": [4, 20]}}, "twice": twice,
           "name": {"n" * 10**6: entry}, "kind": {"a": {**entry, "dtype": "x" * 10**6}},
           "control": {"a\x1b[31m": entry},
           "dimensions": {"a": {**entry, "shape": [1] * 10_000 + [4]}}, "pairs": [["a", entry]], "nothing": {},
           "some": {f"t{i}": {**entry, "shape": [0], "data_offsets": [0, 0]} for i in range(20_001)}}  # fmt: skip
    for kind, text in odd.items():
        data = b"" if kind in ("some", "nothing") else b"\0" * (20 if kind == "gap" else 16)
        yield f"header with {kind}", {WEIGHTS: with_header(text, data)}


def chance(files):
    draw, length = random.Random(0), int.from_bytes(files[WEIGHTS][:8], "little")
    for i in range(300):
        content = bytearray(files[WEIGHTS])
        for at in draw.sample(range(8 + length), draw.randint(1, 3)):
            content[at] = draw.randrange(256)
        yield f"header with bytes of chance {i}", {WEIGHTS: bytes(content)}


# -- shards ---------------------------------------------------------------------------------------------------------

NAMES = ["../outside/secret.safetensors", "/etc/passwd", "../../../../../../etc/passwd", "/dev/zero", "/dev/stdin",
         "..\\outside\\secret.safetensors", "C:\\secret", "//host/share", ".", "..", "", "a\0b", "a\nb", "x" * 100_000,
         "x" * 300, "missing.safetensors", "config.json", "link/secret.safetensors", "link.safetensors",
         "./../outside/secret.safetensors",
         5, None, ["x"], {}, True]  # fmt: skip


def shards(files):
    whole = {WEIGHTS: None, "one.safetensors": files[WEIGHTS]}
    links = {"link": Path("../outside"), "link.safetensors": Path("../outside/secret.safetensors")}
    for name in NAMES:
        index = {"weight_map": {"model.norm.weight": name, "model.embed_tokens.weight": "one.safetensors"}}
        yield f"shard {str(name)[:40]}", {**whole, **links, INDEX: json.dumps(index).encode()}
    for odd in [..., *ODD]:
        index = json.dumps(replaced({"weight_map": {}}, ("weight_map",), odd)).encode()
        yield f"weight_map = {str(odd)[:20]}", {**whole, INDEX: index}
    for kind, junk in JUNK.items():
        yield f"index is {kind}", {**whole, INDEX: junk}
    for key in ("model.norm.weight", "nothing", "\x1b" * 10**5):
        yield f"index of {key[:20]}", {**whole, INDEX: json.dumps({"weight_map": {key: "one.safetensors"}}).encode()}
    for name in (*FILES, "chat_template.jinja", INDEX):
        for target in ("../outside/secret.safetensors", "/etc/passwd", "/dev/zero", name):
            yield f"{name} is a link to {target}", {**({WEIGHTS: None} if name == INDEX else {}), name: Path(target)}


# -- templates ------------------------------------------------------------------------------------------------------

TEMPLATES = [  # each asks for too much, for what the sandbox keeps, or is not a template
    "{{ 2**100000000 }}",
    "{% for i in range(10**9) %}{% endfor %}",
    "{{ 'a'*10**12 }}",
    "{{ [1]*10**9 }}",
    "{{ 1/0 }}",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "{{ nothing.at.all }}",
    "{% for %}",
    "{{",
    "{%",
    "{{ 9**9**9**9**9 }}",
    "{{ 'a'|replace('', 'b'*1000000) }}",
    "{% set n = namespace(x=3) %}{% for i in range(60) %}{% set n.x = n.x * n.x %}{% endfor %}{{ n.x }}",
    "{% for a in range(99999) %}" + "x" * 60000 + "{% endfor %}",
    "x" * 70_000,
    "{{ " + "9" * 5000 + " }}",
    "{% set s = 'ab'*500000 %}{% for a in range(99999) %}{{ 'ac' in s }}{% endfor %}",
    "{{ range(99999)|map('string')|map('upper')|map('lower')|join }}",
    "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{% include 'config.json' %}",
    "{% import '/etc/passwd' as y %}",
    "{% extends 'x' %}",
    "{{ messages.append(1) }}",
    "{% for m in messages recursive %}{{ loop(messages) }}{% endfor %}",
    "{{" + "(" * 5000 + "1" + ")" * 5000 + "}}",
    "{{ " + "1+" * 15000 + "1 }}",
    "{% if 1 %}" * 3000 + "{% endif %}" * 3000,
    "{{ raise_exception('x'*100000) }}",
    "{{ raise_exception('a\nb\x1b[31m') }}",
    "{{ messages|no_such_filter }}",
]


def templates(files):
    config = json.loads(files["tokenizer_config.json"])
    for source in TEMPLATES:
        text = json.dumps({**config, "chat_template": source}).encode()
        yield f"template {source[:60]}", {"tokenizer_config.json": text}
    for odd in [
        5,
        [1],
        [{"name": "default"}],
        [{"template": "x"}],
        {"default": "x"},
        [{"name": "x", "template": "y"}],
        [[]],
    ]:
        text = json.dumps({**config, "chat_template": odd}).encode()
        yield f"chat_template = {odd}", {"tokenizer_config.json": text}
    yield "template file of another encoding", {"chat_template.jinja": b"\xff\xfe"}
    yield "template file without end", {"chat_template.jinja": b"x" * (2**18 + 1)}


# -- tokenizers -----------------------------------------------------------------------------------------------------

PATTERNS = [r"\g<0>?a", "(", "[a", "*a", "\\", "(" * 4000, r"\k<x>"]
PARTS = {
    "pre_tokenizer": {"type": "FixedLength", "length": 0},
    "post_processor": {"type": "Sequence", "processors": [{"type": "TemplateProcessing", "single": [], "pair": []}]},
    "decoder": {"type": "Strip", "content": "ab"},
    "model": {"type": "Unigram", "vocab": []},
    "padding": {"strategy": {"Fixed": -1}},
}


def tokenizers(files):
    """The library reads the file: whatever it raises, a panic among it, is one line."""
    tokenizer = json.loads(files["tokenizer.json"])
    where = ("pre_tokenizer", "pretokenizers", 0, "pattern", "Regex")
    for pattern in PATTERNS:
        yield f"pattern {pattern[:40]}", {"tokenizer.json": json.dumps(replaced(tokenizer, where, pattern)).encode()}
    for part, odd in [*PARTS.items(), *((part, ODD[i]) for part in PARTS for i in (1, 6, 9, 12))]:
        yield f"tokenizer {part} {str(odd)[:9]}", {"tokenizer.json": json.dumps({**tokenizer, part: odd}).encode()}
    for dropout in (0.5, 2, "x"):
        value = replaced(tokenizer, ("model", "dropout"), dropout)
        yield f"dropout {dropout}", {"tokenizer.json": json.dumps(value).encode()}


def config(files):
    yield from of_the_wrong_kind(files, "config.json", NEW_KEYS)


def generation_config(files):
    yield from of_the_wrong_kind(files, "generation_config.json")


def tokenizer_config(files):
    yield from of_the_wrong_kind(files, "tokenizer_config.json")


MIXED = [chance, config, generation_config, tokenizer_config]  # a 7 where a 6 was may well be sound
BROKEN = [cut_or_junk, headers, shards, templates, tokenizers]
STILL_SOUND = {  # of those
    "generation_config.json is missing", "generation_config.json is surrogate", "tokenizer_config.json is missing",
    "tokenizer_config.json is surrogate", "header ('__metadata__',) = Ellipsis", "header ('__metadata__',) = {}",
    "header ('__metadata__',) = None",
}  # fmt: skip
