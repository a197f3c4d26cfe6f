"""The command as a user meets it: what it prints, what it returns, and that a mistake is one clear line."""

import io
import json
import os
import re
import shlex
import subprocess
import sys
from types import SimpleNamespace

import pytest

from minikv import __version__, cli, pack
from minikv.cli.command import COMMANDS, _parser
from minikv.traffic import TraceRequest
from minikv.traffic.mooncake import write_trace

OWN = [name for group, names in COMMANDS.items() if group != "tools" for name in names]


def written(path, prompts):
    requests = [TraceRequest(at, 512 * len(ids), 1, pack(ids)) for at, ids in enumerate(prompts)]
    path.write_bytes(b"".join(write_trace(requests, 512, "tokens")))
    return str(path)


@pytest.fixture
def trace(tmp_path):
    return written(tmp_path / "day.jsonl", [[1, 2], [1, 2, 3], [9], [1, 2, 3]])


def ended(*words):
    """The exit status, whoever ends the command."""
    try:
        return cli.main(list(map(str, words)))
    except SystemExit as end:
        return end.code


def told(capsys, *words):
    """What a command that ends well writes to both streams."""
    assert ended(*words) == 0
    return capsys.readouterr()


def run(*command):
    """Run a command in a process of its own; it may be a line for a shell."""
    words = ["bash", "-c", *command] if len(command) == 1 else [sys.executable, *command]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(words, capture_output=True, text=True, check=False, env=environment, input="")


# -- replay -----------------------------------------------------------------------------------------------------------


def test_replay_says_the_same_to_programs_and_to_people(trace, capsys):
    found = json.loads(told(capsys, "replay", trace, "--json").out)
    assert found.pop("requests_per_second") > 0
    assert found == {
        "requests": 4, "blocks": 9, "hits": 5, "hit_rate": 0.555556,
        "evicted": 0, "peak_size": 4, "uncached_requests": 0,
    }  # fmt: skip
    options = "--capacity", 2, "--evict-by", "page", "--policy", "lru"
    shown = told(capsys, "replay", trace, *options).out.splitlines()
    rows = dict(row.rsplit(maxsplit=1) for row in shown)
    assert (rows["requests"], rows["uncached requests"], rows["hits"]) == ("4", "2", "0")
    assert {name.replace(" ", "_") for name in rows} == {*found, "requests_per_second"}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b'{"timestamp": 1', ", line 1: the line is not JSON: "),
        (b"\n \n", " is empty: a trace has one request a line\n"),
    ],
)
def test_a_trace_that_is_none_is_one_line(content, says, tmp_path, monkeypatch, capsys):
    path = tmp_path / "bad.jsonl"
    path.write_bytes(content)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    for given, name in ((path, path), ("-", "standard input")):
        assert ended("replay", given, "--json") == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert f"{name}{says}" in err


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("missing.jsonl", "No such file"), ("", "directory|denied"), ("\x1b[31mred", ""), ("two\nlines", ""),
        ("\udcff", ""), ("x" * 10_000, ""), ("a\0b", r"'[^\0]*a\\x00b': a path has no NUL character\n$"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_read_is_one_bounded_line(name, why, tmp_path, capsys):
    for command in (["replay"], ["bench", "--trace"]):
        assert ended(*command, f"{tmp_path}/{name}") == 2
        said = capsys.readouterr().err
        assert said.startswith("minikv: cannot read ")
        assert re.search(why, said)
        assert said[:-1].isprintable()
        assert len(said) < 400


# -- what is typed ----------------------------------------------------------------------------------------------------

ODD = "\x1b[31mred" + "x" * 9999
USAGE = ["replay", "replay x --capacity 0", "replay x --capacity 1e30", "replay x --capacity many", "replay x --what",
         "replay x --policy best", "replay x --page-size -1", "bake", ""]  # fmt: skip
TYPED = [
    "replay x ODD", "replay x --policy ODD", "replay x --capacity ODD", "replay x --span ODD", "replay ODD",
    "replay x --tokenizer ODD", "replay x --curve ODD", "bench --only ODD", "bench --race ODD", "bench --trace ODD",
    "chat --model ODD", "chat --temperature ODD", "chat --seed ODD", "chat --seed " + "9" * 5000, "chat --seed -1",
    "chat --max-new-tokens " + "9" * 4000, "ODD", "replay synthetic:chat?turn=2",
    "replay x --capacity 4 --page-size 16", f"replay x --page-size {2**40}", f"replay x --page-size {2**70}",
]  # fmt: skip


@pytest.mark.parametrize("typed", USAGE + TYPED, ids=lambda typed: typed[:40])
def test_whatever_is_typed_is_answered_with_a_bounded_line_without_control_characters(typed, capsys):
    assert ended(*typed.replace("ODD", ODD).split()) == 2
    said = capsys.readouterr().err
    *_, line = said.splitlines()
    assert re.match(r"minikv( \w+)?: ", line)
    assert line.isprintable()
    assert len(line) < 1050
    assert typed not in USAGE or "usage: minikv" in said


@pytest.mark.parametrize("command", sorted({*OWN} - {"doctor"}))  # which has no options
def test_the_help_of_a_command_has_examples_that_it_accepts(command, capsys):
    examples = told(capsys, command, "--help").out.partition("example")[2]
    lines = re.findall("minikv (.*?)(?:  .*)?$", examples, re.MULTILINE)
    found = [shlex.split(line) for line in lines]
    assert found
    for example in found:
        assert example[0] == command
        if "--race" not in example:  # that one imports a module of the reader's own
            _parser(example, "minikv").parse_known_args(example)


# -- processes and streams that are not what they should be -----------------------------------------------------------

shell = pytest.mark.skipif(os.name != "posix", reason="closes streams as a POSIX shell does")
full = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="has no device that is always full")
UNREADABLE = "minikv: the chat cannot continue: Bad file descriptor\n"
CLOSED = "minikv: cannot write the result: standard output is closed\n"
FULL = "(.*format mooncake.*\n)?minikv: cannot write the result: No space left on device\n"


@shell
@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        ("replay {trace} >&-", 1, CLOSED),
        ("replay {trace} --json >&- 2>&-", 1, ""),
        pytest.param("doctor >&-", 1, CLOSED, marks=pytest.mark.nightly),
        ("chat <&-", 2, "minikv: cannot read the questions: standard input is closed\n"),
        pytest.param("chat 0>/dev/null", 1, UNREADABLE, marks=pytest.mark.nightly),
        ("replay - <&-", 2, "minikv: cannot read standard input: it is closed\n"),
        ("replay nothing.jsonl 2>&-", 2, ""),
        pytest.param(
            "bench --quick --only W1 --rounds 1 --json >/dev/null 2>&-",
            0,
            "",
            marks=pytest.mark.nightly,
        ),
        ("replay {trace} >/dev/null 2>&-", 0, ""),
        ("replay {trace} | true", 0, "(?!.*(Traceback|Exception)).*\n?"),
        pytest.param("replay {trace} >/dev/full", 1, FULL, marks=full),
        pytest.param("doctor >/dev/full", 1, FULL, marks=[full, pytest.mark.nightly]),
    ],
)
def test_a_stream_that_is_closed_or_full_is_one_line(command, status, said, trace):
    done = run(f"{sys.executable} -m minikv {command.format(trace=trace)}")
    assert done.returncode == status
    assert re.fullmatch(said, done.stderr)


def test_python_m_minikv_is_the_same_command(trace):
    done = run("-m", "minikv", "replay", trace, "--json")
    assert json.loads(done.stdout)["hits"] == 5
    said = f"{trace}: format mooncake, blocks of 512 tokens (as the trace says)\n"
    assert done.stderr == said, "the format, and no progress bar off a terminal"
    assert run("-m", "minikv", "--version").stdout == f"minikv {__version__}\n"


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
from minikv.cli import main
sys.exit(main({words!r}))
"""


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("argparse", ["doctor"]), ("minikv.cli.command", ["doctor"]), ("minikv.traffic.traces", ["replay", "x"]),
        ("torch._utils", ["doctor"]), pytest.param("torch._utils", ["chat"], marks=pytest.mark.nightly),
    ],
)  # fmt: skip
def test_ctrl_c_while_importing_is_no_traceback(module, words):
    if module == "torch._utils":
        pytest.importorskip("torch")
    done = run("-c", PRESSES.format(module=module, words=words))
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "minikv: interrupted\n")


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (KeyboardInterrupt(), 130, "minikv: interrupted\n"),
        (FileNotFoundError(2, "No such file or directory", "bench.json"), 1,
         "minikv: doctor cannot continue: [Errno 2] No such file or directory: 'bench.json'\n"),
    ],
)  # fmt: skip
def test_what_ends_a_command_is_one_line_and_no_error_of_the_result(error, status, said, monkeypatch, capsys):
    def ends(options):
        raise error

    monkeypatch.setattr("minikv.cli.doctor.run_doctor", ends)
    assert ended("doctor") == status
    assert capsys.readouterr().err == said


# -- commands of another package --------------------------------------------------------------------------------------

NONE = "{} is a command of minikv-tools, which is not installed: pip install minikv-tools"
BROKEN = "No module named 'minikv_tools'"


@pytest.mark.parametrize("name", COMMANDS["tools"])
def test_without_the_tools_their_commands_say_what_to_install(name, monkeypatch, capsys):
    def load():
        raise ModuleNotFoundError(BROKEN)

    for entries, says in (([], NONE.format(name)), ([SimpleNamespace(load=load)], BROKEN)):
        monkeypatch.setattr("importlib.metadata.entry_points", lambda entries=entries, **_: entries)
        for words in ([], ["x"], ["--help"]):
            assert ended(name, *words) == 2
            assert capsys.readouterr() == ("", f"minikv: {says}\n")


def test_the_help_groups_the_commands_and_looks_for_no_other_package(monkeypatch, capsys):
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: pytest.fail("looks for entry points"))
    assert [ended("--version", "why"), ended("--help", "why")] == [0, 0]
    listed = capsys.readouterr().out.partition("\ncourse:\n")[2]
    assert re.findall(r"^(\w.*):$", listed, re.MULTILINE) == [
        "caches",
        "tools (pip install minikv-tools)",
    ]
    assert re.findall(r"^    (\w+) ", listed, re.MULTILINE) == [name for names in COMMANDS.values() for name in names]
