"""The command `minikv verify`: what it prints, its exit status, and that no class can bring it down."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time

import pytest
from project import ROOT

from minikv import cli
from minikv.testing.conformance import apart
from minikv.testing.conformance.subject import classes_in, load_module

pytestmark = pytest.mark.core

RIGHT = "from minikv import RadixCache\nclass Mine(RadixCache):\n    pass\n"
WRONG = RIGHT.replace("pass", "def reset(self):\n        self._clear()")


@pytest.fixture
def verify(tmp_path, monkeypatch, capsys):
    """Write a file, verify it; the exit status and what was printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    def run(text, *options, name="theirs.py", target=None):
        (tmp_path / name).write_text(text, "utf-8")
        status = cli.main(["verify", target or name, "--examples", "0", *options])
        return status, *capsys.readouterr()

    return run


@pytest.fixture
def verify_here(verify, monkeypatch):
    """The same in this process, where nothing depends on there being another one."""

    def messages(judge, *arguments):
        said = []
        apart.judge_classes(lambda **message: said.append(message), *arguments)
        return said

    monkeypatch.setattr(apart, "messages_apart", messages)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield verify
    sys.modules.pop("theirs", None), sys.modules.pop("my_cache", None)


def test_what_is_right_is_a_list_of_rules_that_hold(verify):
    status, out, _ = verify(RIGHT)
    assert status == 0
    assert out.splitlines()[:2] == [
        "Mine",
        "  1  holds        tokens and pages are checked, and bad input changes nothing",
    ]
    assert out.splitlines()[-1] == "15 rules hold, 0 are broken, 0 are not claimed"


def test_what_is_wrong_comes_with_a_script_that_runs(verify, tmp_path):
    status, out, _ = verify(WRONG)
    assert status == 1
    lines = out.split("rule 11 is broken: reset forgets everything, or refuses while anything is locked\n")[1]
    script = [line[4:] for line in lines.splitlines() if line.startswith("    ")]
    assert script[:2] == ["from theirs import Mine", "cache = Mine()"]
    assert script[-1] == "# gives None, expected a LockError: locked"
    subprocess.run([sys.executable, "-c", "\n".join(script)], check=True, cwd=tmp_path)


def test_a_teacher_collects_lines_of_json(verify_here):
    status, out, _ = verify_here(RIGHT + WRONG.replace("Mine", "Other"), "--json")
    assert status == 1
    mine, other = map(json.loads, out.splitlines())
    assert (mine["file"], mine["class"], other["class"]) == ("theirs.py", "Mine", "Other")
    assert [rule["rule"] for rule in mine["rules"]] == [*range(1, 16)]
    assert {rule["state"] for rule in mine["rules"]} == {"holds"}
    (broken,) = [rule for rule in other["rules"] if rule["state"] == "broken"]
    assert (broken["rule"], broken["script"].splitlines()[0]) == (11, "from theirs import Other")
    assert set(broken) == {"rule", "name", "state", "script"}


def test_the_guide_for_teachers_shows_what_it_prints(verify_here):
    teachers = pytest.importorskip("teachers")  # it needs nbformat
    status, out, _ = verify_here(teachers.VERIFIED, "--json", name="my_cache.py")
    assert status == 1
    shown = teachers.as_output("minikv verify my_cache.py --json", teachers.shortened(out))
    assert teachers.blocks()["verify"] == shown, "python tests/teachers.py writes it again"


def test_the_manager_of_the_package_is_judged_by_its_name(verify_here):
    status, out, error = verify_here("", target="minikv.manager:CacheManager")
    assert (status, error) == (0, "")
    assert out.splitlines()[0] == "CacheManager"
    assert out.splitlines()[-1] == "12 rules hold, 0 are broken, 0 are not claimed"


def test_one_class_of_a_file_can_be_named(verify_here):
    text = RIGHT + WRONG.replace("Mine", "Other")
    assert verify_here(text, target="theirs.py:Mine")[0] == 0
    assert verify_here(text, target="theirs:Other")[0] == 1


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("x = 1", {}, "cannot verify theirs.py: it has no class with "),
        ("x = 1", {"target": "theirs.py:Mine"}, "cannot verify theirs.py: it has no class 'Mine'"),
        ("x = 1", {"target": "theirs:x"}, "cannot verify theirs: 'x' is not a class with match_prefix and insert or"),
        ("x = 1", {"target": "others.py"}, "cannot verify others.py: ImportError: there is no such file"),
        ("x = 1", {"target": "no.such.module"}, "cannot verify no.such.module: ModuleNotFoundError: No module"),
        ("def", {}, "cannot verify theirs.py: SyntaxError: "),
        ("raise SystemExit(3)", {}, "cannot verify theirs.py: SystemExit: 3"),
        (RIGHT.replace("pass", "claims = 5"), {}, "cannot verify theirs.py: Mine: claims is 5: expected"),
    ],
)  # fmt: skip
def test_a_wrong_call_is_one_line(verify_here, text, options, said):
    status, out, error = verify_here(text, **options)
    assert (status, out) == (2, "")
    assert error.startswith(f"minikv: {said}")
    assert error.count("\n") == 1


def test_what_the_class_prints_is_not_in_the_report(verify):
    status, out, error = verify(RIGHT.replace("pass", "def check(self):\n        print('printed')"))
    assert status == 1
    assert "printed" not in out + error


def test_a_class_that_ends_the_process_is_not_judged(verify):
    text = "import os\n" + RIGHT.replace("pass", "def evict(self, n):\n        os._exit(7)")
    status, out, _ = verify(text)
    assert status == 1
    assert "  9  not judged   evict frees unlocked leaves" in out
    assert "the process ends with status 7 in these lines:\n    cache." in out
    assert out.endswith("0 rules hold, 0 are broken, 0 are not claimed, 15 not judged\n")


def test_a_call_into_c_that_never_returns_is_not_waited_for(verify, monkeypatch):
    monkeypatch.setattr(apart, "SILENCE", 4.0)
    text = "import time\n" + RIGHT.replace("pass", "def evict(self, n):\n        time.sleep(1000)")
    status, out, _ = verify(text)
    assert status == 1
    assert "the process was silent for 4 seconds (it may be waiting, or this machine is busy) in these" in out


def test_without_hypothesis_it_says_what_to_install(verify, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    status, _, error = verify(RIGHT)
    said = "minikv: minikv verify needs hypothesis, which is not installed: pip install 'minikv[testing]'\n"
    assert (status, error) == (2, said)


def test_a_package_is_looked_through_for_what_it_imports():
    indexes = {"HashBlockCache", "NoCache", "RadixCache", "SlidingWindowCache", "TokenTrie"}
    assert classes_in(load_module("minikv.prefix")).keys() >= indexes
    assert sorted(classes_in(load_module("minikv.prefix.token_trie"))) == ["TokenTrie"]


@pytest.mark.parametrize(("number", "json"), [(3, []), (0, ["--json"])])
def test_an_import_that_ends_the_process_is_no_pass(verify, number, json):
    status, out, error = verify(f"import os; os._exit({number})", *json)
    assert (status, out, error) == (2, "", f"minikv: cannot verify theirs.py: its import ends with status {number}\n")


def test_the_classes_after_one_that_ends_the_process_are_not_judged_either(verify):
    text = "import os\n" + RIGHT.replace("pass", "def evict(self, n):\n        os._exit(0)")
    status, out, _ = verify(text + RIGHT.replace("Mine", "Other"))
    assert status == 1
    assert out.count("15 not judged\n") == 2
    assert "Other\n  1  not judged   tokens" in out


@pytest.mark.parametrize("leaves", [
    "import threading, time\nthreading.Thread(target=time.sleep, args=[20]).start()\n",
    "import os, time\nif os.fork() == 0:\n    time.sleep(20)\n    os._exit(0)\n",
    "import json\njson.dumps = lambda *args, **options: '{}'\n",
], ids=["a thread", "a child", "another json.dumps"])  # fmt: skip
def test_what_a_file_leaves_behind_does_not_matter(verify, leaves):
    begun = time.monotonic()
    status, out, error = verify(leaves + RIGHT)
    assert (status, out.splitlines()[-1], error) == (0, "15 rules hold, 0 are broken, 0 are not claimed", "")
    assert time.monotonic() - begun < 20


WRITES = """
import os
for number in range(3, 12):
    try:
        os.write(number, b'junk')
    except OSError:
        pass
"""


def test_what_is_no_verdict_is_not_taken_for_one(verify):
    status, out, error = verify(WRITES)
    assert (status, out, error) == (2, "", "minikv: cannot verify theirs.py: its import writes what is not a verdict\n")
    body = textwrap.indent(WRITES, " " * 8)
    in_a_verb = f"def evict(self, n):\n{body}"
    status, out, error = verify(RIGHT.replace("    pass", f"    {in_a_verb}"))
    assert (status, error) == (1, "")
    assert "the process writes what is not a verdict in these lines:" in out


def test_a_file_that_patches_the_judge_away_is_not_judged(verify):
    cheat = "from minikv.testing.conformance import rules\nrules.Conformance.as_json = lambda self: {}\n"
    cheat += (
        "from minikv.testing.conformance import apart\napart.verify = lambda *args: rules.Conformance('Mine', ())\n"
    )
    status, out, _ = verify(cheat + RIGHT)
    assert status == 1
    assert out.endswith("15 not judged\n")


def test_a_class_that_claims_nothing_is_no_pass(verify_here):
    assert verify_here(RIGHT.replace("pass", "claims = ()"))[0] == 1


def test_endless_claims_are_named_at_once(verify_here):
    status, _, error = verify_here(RIGHT.replace("pass", "claims = range(10**12)"))
    assert status == 2
    assert error.startswith("minikv: cannot verify theirs.py: Mine: claims is range(0, 1000000000000): expected")


def allow(monkeypatch, name, most):
    """Set a limit, in the other process too."""
    monkeypatch.setattr(apart, name, most)
    there = f"import minikv.testing.conformance.apart as apart; apart.{name} = {most}; apart.serve()"
    monkeypatch.setattr(apart, "_SERVE", there)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits this memory")
def test_memory_is_limited(verify, monkeypatch):
    allow(monkeypatch, "MOST_BYTES", 2**30)
    status, out, _ = verify(RIGHT.replace("pass", "def evict(self, n):\n        return bytearray(2**31)"))
    assert status == 1
    assert "# raises MemoryError" in out


def test_time_counts_while_the_process_computes(verify, monkeypatch):
    allow(monkeypatch, "MOST_COMPUTING", 1)
    status, out, _ = verify(RIGHT.replace("pass", "def evict(self, n):\n        10 ** 10 ** 9"))
    assert status == 1
    assert "the process computes for 1 seconds without a word in these lines:" in out


CHECKS = """from minikv.course.pieces import check
def common(a, b):
    return next((at for at, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
check("3.7", common)"""
COMMON = "# %% 3.7 common \N{MIDDLE DOT} mine\n" + CHECKS.partition("\n")[2].rpartition("\n")[0]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("verify theirs.py --examples 10", "15 rules hold, 0 are broken, 0 are not claimed"),
        ("classroom homework --csv", "answer,solved,"),
        ("check", "\N{CHECK MARK} 3.7 common"),
    ],
)
def test_hypothesis_leaves_no_folder_behind(tmp_path, command, said):
    """It would keep the constants of each module that isn't installed, for the next run."""
    (tmp_path / "homework").mkdir()
    (tmp_path / "homework" / "anna.py").write_text(COMMON, "utf-8")
    (tmp_path / "theirs.py").write_text(RIGHT, "utf-8")
    words = ["-c", CHECKS] if command == "check" else ["-m", "minikv", *command.split()]
    kept = {"MINIKV_MINE": os.devnull, "MINIKV_PROGRESS": os.devnull, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUTF8": "1"}
    environment = {**os.environ, **kept, "PYTHONPATH": str(ROOT)}
    environment.pop("HYPOTHESIS_STORAGE_DIRECTORY", None)
    done = subprocess.run(
        [sys.executable, *words], cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8", check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert said in done.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"homework", "theirs.py"}


def test_the_help_says_that_the_file_is_executed(capsys):
    with pytest.raises(SystemExit):
        cli.main(["verify", "--help"])
    assert "The file is executed, in a process of its own but with your rights" in capsys.readouterr().out
