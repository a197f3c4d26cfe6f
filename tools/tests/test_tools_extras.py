"""The commands of the tools: without any extra, under both names, and whatever is typed."""

import re
import shlex
import subprocess
import sys

import pytest
from golden_text import compare
from nightly import NIGHTLY
from test_extras import COMMANDS, COURSE, SERVING, run

from minikv import __version__, cli
from minikv.cli.command import COMMANDS as GROUPS
from minikv.cli.command import TOOLS, RefusedError, _parser
from minikv_tools.cli import plan, why
from minikv_tools.cli.extras import EXTRAS, need

SWEEP = {"joblib"}
OURS = sorted(GROUPS["tools"])


def test_the_commands_run_without_any_extra(tmp_path):
    trace = tmp_path / "day.jsonl"
    trace.write_text('{"timestamp": 1, "input_length": 9, "output_length": 1, "hash_ids": [1, 2]}\n' * 2, "utf-8")
    (tmp_path / "day.toml").write_text('traces = "day.jsonl"\ncapacities = "unlimited"', "utf-8")
    sweep = ["sweep", str(tmp_path / "day.toml")]
    log = tmp_path / "log.jsonl"
    log.write_text("".join(f'{{"prompt": "It is 14:0{n}. Be brief."}}\n' for n in range(3)), "utf-8")
    lacking = [
        (sweep, 2, "pip install 'minikv-tools[sweep]'"),
        (["why", str(log), "--tokenizer", "x"], 2, "pip install 'minikv-tools[tokenizer]'"),
    ]
    others = [  # by day test_front.py runs such commands
        ([*sweep, "--jobs", "1"], 0, "50.0"),
        (["plan", str(trace)], 0, "Hits by size"),
        (["trace", str(log)], 0, '"hash_ids"'),
        (["replay", str(log)], 0, "format log, blocks of 64 bytes"),
        (["why", str(log), "--html", str(tmp_path / "why.html")], 0, "A date or a time changed."),
        (["why", f"{log}:1", f"{log}:1"], 0, "Nothing changed."),
    ]
    for command, status, said in lacking + others * NIGHTLY:
        done = run(COMMANDS, *command, lacked=COURSE | SERVING | SWEEP)
        assert said in done.stdout + done.stderr, command
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode == status, command


BROUGHT = [(extra, package) for extra, packages in EXTRAS.items() for package in packages]


@pytest.mark.parametrize(("extra", "package"), BROUGHT)
def test_a_package_that_lacks_is_named_with_the_extra_that_brings_it(extra, package, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    said = f"it needs {package}, which is not installed: pip install 'minikv-tools[{extra}]'"
    with pytest.raises(RefusedError, match=re.escape(said)):
        need("it", package)


@pytest.mark.parametrize("program", ["minikv", TOOLS])
@pytest.mark.parametrize("command", OURS)
def test_the_help_of_a_command_has_examples_that_it_accepts(command, program, capsys):
    with pytest.raises(SystemExit):
        cli.main([command, "--help"], program)
    lines = capsys.readouterr().out.partition("example")[2].splitlines()
    name = f"{program} "
    found = [shlex.split(re.split(r"  +", line.partition(name)[2])[0]) for line in lines if name in line]
    assert found
    assert all(example[0] == command for example in found)
    for example in found:
        _parser(example, program).parse_known_args(example)


@pytest.mark.parametrize("command", OURS)
def test_what_a_command_offers(command, capsys, monkeypatch):
    """All of its help but the usage, however a version of Python lays it out, and the defaults."""
    monkeypatch.setenv("COLUMNS", "999")
    with pytest.raises(SystemExit):
        cli.main([command, "--help"], TOOLS)
    said = capsys.readouterr().out.partition("\n\n")[2].replace("-o FILE, ", "-o, ")
    options = vars(_parser([command], TOOLS).parse_args([command, "x"]))
    defaults = [f"{name} = {value!r}" for name, value in sorted(options.items()) if name != "run"]
    found = re.sub(r"(?<=\S)(\n {20}|  ) *", "  ", said)
    compare("tools_help.txt", command, [*found.splitlines(), *defaults])


def test_their_own_program_has_these_commands_alone_and_speaks_of_no_other(capsys):
    with pytest.raises(SystemExit):
        cli.main(["--help"], TOOLS)
    out = capsys.readouterr().out
    assert re.findall(r"^    (\w+) ", out, re.MULTILINE) == list(GROUPS["tools"])
    with pytest.raises(SystemExit):
        cli.main(["why", "--help"], TOOLS)
    assert not re.search(r"minikv(?!-tools)", out + capsys.readouterr().out)
    with pytest.raises(SystemExit) as ended:
        cli.main(["replay", "x"], TOOLS)
    assert ended.value.code == 2


def test_the_script_is_that_program(tmp_path):
    log = tmp_path / "log.jsonl"
    log.write_text('{"prompt": "It is 14:05."}\n{"prompt": "It is 14:06."}\n', "utf-8")

    def said(*words):
        command = [sys.executable, "-m", "minikv_tools", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    assert said("--version") == (0, f"{TOOLS} {__version__}\n")
    assert said("why", "nothing.jsonl") == (2, f"{TOOLS}: cannot read nothing.jsonl: No such file or directory\n")
    status, out = said("why", str(log), "--fail-if", "lost > 1%")
    assert (status, f"\n{TOOLS}: --fail-if lost > 1%: lost is " in out) == (1, True)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


PRICES = "CACHED must not be above the others, nor WRITE above WRITE_1H"
LIMITS = "and the kinds of change (--kinds)"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("why x --fail-if 'shared < 1%'", "--fail-if shared < 1%: a log has no 'shared'"),
        ("why x y --fail-if 'lost > 1%'", "--fail-if lost > 1%: a pair has no 'lost'"),
        ("why x y --html z", "--html needs a log, not prompts"),
        ("why x y --by z", "--by needs a log, not prompts"),
        ("why x y --price 3,1", "--price needs a log, not prompts"),
        ("why x --html no/z", "minikv: cannot write no/z: Its folder does not exist"),
        ("why log --html ./log", "./log is read, and would be overwritten: name another file"),
        ("plan x --csv no/z", "minikv: cannot write no/z: Its folder does not exist"),
        ("why x --fail-if 'cost > 1%'", LIMITS),
        ("why x --fail-if 'lost > 2% x'", "'lost > 2% x' is not a limit, such as 'lost > 2%'"),
        ("why x --price 3", "'3' is not a list of two to four prices, such as 3,0.30,3.75"),
        ("why x --price 3,1,4,5,6", "is not a list of two to four prices, such as 3,0.30,3.75"),
        ("why x --price 3,4", PRICES),
        ("why x --price 3,2,1", PRICES),
        ("why x --price 3,1,5,4", PRICES),
        ("why x --blocks 0", "'0': a block holds from 1 to 2147483647 tokens"),
        ("why x --blocks 16,2147483648", "a block holds from 1 to 2147483647 tokens"),
        ("why x --blocks 16,,784", "'16,,784' is not a list of block sizes, such as 16,784"),
        ("why x --blocks 1,2,3,4,5,6,7,8,9", "is not a list of block sizes, such as 16,784"),
        ("plan x --ttl 60,", "'60,': expected seconds, such as 60,300,3600"),
    ],
)
def test_what_a_command_cannot_do_is_refused_with_what_it_can(command, said, capsys, here):
    (here / "log").write_text('{"prompt": "Hi"}', "utf-8")
    try:
        status = cli.main(shlex.split(command))
    except SystemExit as ended:
        status = ended.code
    assert status == 2
    assert capsys.readouterr().err.endswith(f"{said}\n")


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (why.limit(" lost<2 "), ("lost<2", "lost", "<", 2)),
        (why.limit("hits > 99.5 %"), ("hits > 99.5 %", "hits", ">", 99.5)),
        (why.limit("shared < 100%"), ("shared < 100%", "shared", "<", 100)),
        (why.prices("3,3,3,3"), (3, 3, 3, 3)),
        (why.prices("3,0.3,3.75,6"), (3, 0.3, 3.75, 6)),
        (why.prices("3,0.3,2"), (3, 0.3, 2, None)),
        (why.block_sizes(" 1 , 2147483647"), (1, 2**31 - 1)),
        (why.block_sizes("1,2,3,4,5,6,7,8"), (1, 2, 3, 4, 5, 6, 7, 8)),
        (plan.seconds_list("0.5"), (0.5,)),
    ],
)
def test_what_an_option_takes(found, expected):
    assert tuple(found) == expected


ODD = "\x1b[31mred" + "x" * 9999
TYPED = [
    ["trace", ODD], ["trace", "x", "-o", ODD], ["trace", "x", "--block-size", ODD], ["sweep", ODD], ["plan", ODD],
    ["sweep", "x", "--jobs", ODD], ["sweep", "a\0b"], ["sweep", "x", "--csv", ODD], ["why", ODD], ["why", ODD, ODD],
    ["plan", "x", "--model", ODD], ["plan", "x", "--tiers", ODD], ["why", "x", "--fail-if", ODD], ["why", "a\0b"],
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
