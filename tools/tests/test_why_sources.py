"""The two sides of `minikv why`: files of every kind, lines of logs, and one line about each that is wrong."""

import gzip
import json

import pytest

from minikv.cli import main
from minikv.traffic import TraceError
from minikv_tools.why import places
from minikv_tools.why.places import read_prompt

BODY = {"messages": [{"role": "user", "content": "Hi"}]}


@pytest.mark.parametrize(("content", "text"), [
    (b"Hi\n", "Hi\n"), (b"", ""), (b"\xef\xbb\xbfHi", "\ufeffHi"), (b"[sic] Hi", "[sic] Hi"), (b"3", "3"),
    (b"{not JSON", "{not JSON"), (b"{'a': 1}", "{'a': 1}"), (b'[{"role": "user", "content": "Hi"}]',
                                                              "<|im_start|>user\nHi<|im_end|>\n"),
    (b'{"prompt": "Hi"}', "Hi"), (b'\xef\xbb\xbf{"prompt": "Hi"}', "Hi"), (b'{\n "prompt": "Hi"\n}\n', "Hi"),
    (b"[5, 7]", "\U00010005\U00010007"), (b'[INST] {"input": 1} [/INST]', '[INST] {"input": 1} [/INST]'),
    (b'{"role": "user"} {"a', '{"role": "user"} {"a'),
    (gzip.compress(b'{"prompt": "Hi"}', mtime=0), "Hi"),
])  # fmt: skip
def test_a_file_is_a_body_or_the_text_of_a_prompt(tmp_path, content, text):
    (tmp_path / "a").write_bytes(content)
    assert read_prompt(str(tmp_path / "a")).text == text


def test_a_line_of_a_log_is_named_by_its_number(tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(json.dumps({"prompt": text}) for text in ("one", "two")), "utf-8")
    assert read_prompt(f"{log}:2").text == "two"


def test_a_line_of_too_many_bytes_is_refused_and_one_of_as_many_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(places, "LONGEST_LINE", 16)
    (tmp_path / "log").write_bytes(b'{"prompt": "a"}\n{"prompt": "Hi"}\n')
    assert read_prompt(f"{tmp_path}/log:1").text == "a"
    with pytest.raises(TraceError, match="log, line 2 has over 16 bytes: expected a request of fewer"):
        read_prompt(f"{tmp_path}/log:2")


def test_a_file_whose_name_ends_in_a_number_is_that_file(tmp_path):
    (tmp_path / "a:1").write_text("Hi", "utf-8")
    assert read_prompt(str(tmp_path / "a:1")).text == "Hi"


@pytest.mark.parametrize(("content", "name", "why"), [
    (b'{"prompt": "a"}\n{"prompt": "b"}', "", "is a log: pass one of its lines, such as "),
    (b"\xff\xfe", "", "is not UTF-8: invalid start byte at byte 1"),
    (b'{"prompt": "a"}', ":2", "has no line 2"),
    (b'{"prompt": "a"}', ":0", "has no line 0"),
    (b"\n\n", ":1", "has no line 1, or that line is empty"),
    (b"Hi", ":1", "line 1: it is not JSON"),
    (b"[null]", ":1", "line 1: it holds null: expected an object"),
    (b'[{"prompt": "a"}, {"prompt": "b"}]', "", "holds 2 requests: pass one of them, such as "),
    (b"[null]", "", "holds a list of None: expected a request"),
    (b'{"a": 1}', "", "expected a request, not the fields a"),
    (b'{"prompt": "a", "prompt": "b"}', "", "has the key 'prompt' twice"),
    (b'{"model":"m","messages":[{"role":"user","content":"Hi', "", "a is not JSON: "),
    (b"{'model': 'm', 'messages': [{'role': 'user', 'content': 'Hi'}]}", "", "a is not JSON: "),
    (b'[\n{"prompt": "Hi"},\n{"prompt', "", "a is not JSON: "),
    (b"INFO 04-02 A.\nINFO 04-02 Received request cmpl-1: prompt: 'Hi', params", "", "is a log: pass one of"),
    (b'{"prompt": NaN}', "", "has the number NaN"),
    (b'{"a": 1}\n{"a": 2}', "", "is a log: pass one of its lines, such as "),
    (b'{"hash_ids": [1]}', ":1", "line 1: there are no messages and no prompt"),
    (b'{"prompt": [1, "a"]}', "", "prompt is [1, 'a']: expected text or a list of token ids"),
    (b'{"messages": [' + b"[" * 5000 + b"]" * 5000 + b"]}", ":1", "nested too deeply"),
    (b"\x1f\x8bbroken", "", "cannot be unpacked"),
])  # fmt: skip
def test_what_is_wrong_is_one_line(tmp_path, capsys, content, name, why):
    (tmp_path / "a").write_bytes(content)
    assert main(["why", f"{tmp_path / 'a'}{name}", f"{tmp_path / 'a'}{name}"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert why in said.err
    assert said.err.count("\n") == 1
    assert len(said.err) < 600


@pytest.mark.parametrize("name", ["no_such_file", "no_such_file:3", ".", "a\0b", "a\0b:3"])
def test_a_file_that_cannot_be_opened_is_one_line(name, capsys):
    assert main(["why", name, name]) == 2
    assert capsys.readouterr().err.startswith("minikv: cannot read ")


def test_a_prompt_is_counted_in_the_tokens_of_a_checkpoint(tmp_path, capsys):
    pytest.importorskip("tokenizers")
    from minikv.files import asset

    (tmp_path / "a").write_text("Größe", "utf-8")
    assert main(["why", *[str(tmp_path / "a")] * 2, "--tokenizer", str(asset("model")), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["unit"], found["lengths"]) == ("tokens", [7, 7])
    assert main(["why", *[str(tmp_path / "a")] * 2, "--tokenizer", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("blocks", ["0", "x", "1,,2", "99999999999", ",".join("1" * 20), "-1"])
def test_blocks_are_sizes(blocks, capsys):
    with pytest.raises(SystemExit):
        main(["why", "a", "b", f"--blocks={blocks}"])
    assert "block" in capsys.readouterr().err


def test_hostile_names_in_a_body_are_cut_and_printable(tmp_path, capsys):
    odd = "\x1b[31m\n" + "k" * 100_000
    for name, text in (("a", "one"), ("b", "two")):
        tools = [{"name": odd, odd: {odd: text}}]
        body = {
            "messages": [{"role": odd, odd: text, "content": text}],
            "tools": tools if text == "one" else [],
            odd: text,
        }
        (tmp_path / name).write_text(json.dumps(body), "utf-8")
        (tmp_path / f"{name}2").write_text(json.dumps({**body, "tools": []}), "utf-8")
    (tmp_path / "log").write_text("\n".join((tmp_path / name).read_text("utf-8") for name in ("a", "b", "a2")), "utf-8")
    for names in (["a", "b"], ["a2", "b2"], ["a2", "a"], ["log"]):
        assert main(["why", *(str(tmp_path / name) for name in names)]) == 0
        said = capsys.readouterr().out
        assert "\x1b" not in said
        assert len(said) < 5000
