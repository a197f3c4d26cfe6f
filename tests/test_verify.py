"""The command `minikv verify`: what it prints, its exit status, and that no class can bring it down."""

import itertools
import json
import os
import queue
import re
import sys
import textwrap
import time
from xml.etree import ElementTree

import pytest
from golden_text import compare
from nightly import by_day
from project import ROOT, python, write

from minikv import RadixCache, cli
from minikv.files import asset
from minikv.testing import apart
from minikv.testing import verify as judge
from minikv.testing.playing import RULE_OF
from minikv.testing.rules import RULES, SIZES

GOLDEN = "verify.txt"
RIGHT = "from minikv import RadixCache\nclass Mine(RadixCache):\n    pass\n"
WRONG = RIGHT.replace("pass", "def reset(self):\n        self._clear()")


@pytest.fixture
def verify(tmp_path, monkeypatch, capsys):
    """Write a file, verify it; the exit status and what was printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    def run(text, *options, name="theirs.py", target=None):
        (tmp_path / name).write_text(text, "utf-8")
        status = cli.main(["verify", name if target is None else target, "--examples", "0", *options])
        return status, *capsys.readouterr()

    return run


@pytest.fixture
def verify_here(verify, monkeypatch):
    """The same in this process, where nothing depends on there being another one."""

    def messages(function, *arguments, seconds):
        said = []
        judge.judge_classes(lambda **message: said.append(message), *arguments)
        return said

    monkeypatch.setattr(judge, "messages_apart", messages)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield verify
    sys.modules.pop("theirs", None), sys.modules.pop("my_cache", None)


def test_what_is_wrong_comes_with_a_script_that_runs(verify, tmp_path):
    status, out, _ = verify(WRONG)
    assert status == 1
    lines = out.split("rule 11 is broken: reset forgets everything, or refuses while anything is locked\n")[1]
    script = [line[4:] for line in lines.splitlines() if line.startswith("    ")]
    assert script[:2] == ["from theirs import Mine", "cache = Mine()"]
    assert script[-1] == "# gives None, expected a LockError: locked"
    python("-c", "\n".join(script), cwd=tmp_path).check_returncode()


def test_a_teacher_collects_lines_of_json(verify_here):
    status, out, _ = verify_here(RIGHT + WRONG.replace("Mine", "Other"), "--json")
    assert status == 1
    mine, other = map(json.loads, out.splitlines())
    assert (mine["class"], other["class"]) == ("Mine", "Other")
    assert [rule["rule"] for rule in mine["rules"]] == [*RULES]


def test_the_guide_for_teachers_shows_what_it_prints(verify_here):
    teachers = pytest.importorskip("teachers")  # it needs nbformat
    status, out, _ = verify_here(teachers.VERIFIED, "--json", name="my_cache.py")
    assert status == 1
    shown = teachers.as_output("minikv verify my_cache.py --json", teachers.shortened(out))
    assert teachers.blocks()["verify"] == shown, "python tests/teachers.py writes it again"


def test_a_file_named_as_a_module_that_is_loaded_replaces_nothing(verify_here):
    status, _, error = verify_here(RIGHT, name="json.py")
    assert (status, error, sys.modules["json"]) == (0, "", json)
    sys.modules.pop("json_to_verify")


def test_who_traces_goes_on_tracing():
    before = sys.gettrace()
    sys.settrace(tracing := lambda *_: None)
    try:
        judge.verify(RadixCache, examples=0)
        assert sys.gettrace() is tracing
    finally:
        sys.settrace(before)


AS_THE_FIRST = r" +(?!1 )\d+  (holds|not judged|not claimed) "


def seen(found):
    """The status, the error and the report; of rules that hold or are not judged, the first."""
    status, out, error = found
    error = re.sub("(SyntaxError:) .*", r"\1", error)  # which is Python's
    told = (line for line in out.splitlines() if not re.match(AS_THE_FIRST, line))
    return [f"status {status}", *error.splitlines(), *told]


NOSY = RIGHT.replace(
    "pass",
    """def match_prefix(self, tokens, **options):
        assert type(tokens) is list and options.get("limit", 0) >= 0
        return super().match_prefix(tokens, **options)
    def evict(self, num_tokens):
        assert num_tokens >= 0
        return super().evict(num_tokens)
    def unlock(self, handle):
        assert self.protected_size or not handle.length
        return super().unlock(handle)""",
)
CLAIMS_NOTHING = RIGHT.replace("pass", "claims = ()")
TEMPLATE = asset("adapter.txt").read_text("utf-8")
OTHER = WRONG.replace("Mine", "Other")
BEGUN = TEMPLATE.replace("self.cache = ...", "self.cache = []").replace(
    "return ...  # evict", "return self.pages[...]  #"
)
SHORT = "from minikv.testing import Adapter\nclass MyEngine(Adapter):\n    def open(self): pass\n"
CALLED = {  # a file, how it is called if not by its name, and options
    "a file without a class": ("x = 1",),
    "a name that it has not": ("x = 1", "theirs.py:Mine"),
    "a name of something else": ("x = 1", "theirs:x"),
    "a manager": ("", "minikv.manager:CacheManager"),
    "another file": ("x = 1", "others.py"),
    "a folder": ("x = 1", "."),
    "an empty name": ("x = 1", ""),
    "a module that is not there": ("x = 1", "no.such.module"),
    "no Python": ("def",),
    "one that exits": ("raise SystemExit(3)",),
    "odd claims": (RIGHT.replace("pass", "claims = 5"),),
    "no claims": (CLAIMS_NOTHING,),
    "no claims, beside a class that is wrong": (CLAIMS_NOTHING + OTHER,),
    "what trusts its input": (NOSY,),
    "what trusts its input, and may": (NOSY, None, "--trusting"),
    "what resets under a lock, which is to be refused": (WRONG, None, "--trusting"),
    "what may trust, and is wrong": (
        NOSY.replace("return super().evict(num_tokens)", "return []"), None, "--trusting"),
    "a template": (TEMPLATE,),
    "a template, by name": (TEMPLATE, "theirs.py:MyEngine"),
    "a template that is begun": (BEGUN,),  # `...` in another way is filled in
    "a class that leaves methods out": (SHORT,),
    "one class of two": (RIGHT + OTHER, "theirs.py:Mine"),
    "the other class": (RIGHT + OTHER, "theirs:Other"),
}  # fmt: skip


@pytest.mark.parametrize("what", CALLED)
def test_what_is_called_is_told_as_the_golden_file_says(verify_here, what):
    text, target, *options = (*CALLED[what], None)[: max(2, len(CALLED[what]))]
    compare(GOLDEN, what, seen(verify_here(text, *options, target=target)))


def evict(does, before=""):
    """A class whose `evict` does something else."""
    return f"{before}\n" + RIGHT.replace("pass", f"def evict(self, n):\n{textwrap.indent(does, ' ' * 8)}")


NO_GPU = "def __init__(self):\n        raise RuntimeError('no GPU')"
DEAF = "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGVTALRM})"  # or a signal would end the sleep
WRITES = (
    "import os\nfor n in range(3, 12):\n    try:\n        os.write(n, b'junk')\n    except OSError:\n        pass\n"
)
CHEAT = """from minikv.testing import rules, verify
rules.Conformance.as_json = lambda self: {}
verify.examine_class = lambda *args: rules.Conformance('Mine', ())
"""
BY_DAY = "cannot be made", "ends the process", "computes in C", "writes in a verb", "leaves a child"
NEVER = evict(f"{DEAF}; time.sleep(1000)", "import signal, time")
THREAD = "import threading, time\nthreading.Thread(target=time.sleep, args=[20]).start()\n"
CHILD = "import os, time\nif os.fork() == 0:\n    time.sleep(20)\n    os._exit(0)\n"
DUMPS = "import json\njson.dumps = lambda *args, **options: '{}'\n"
JUDGED = {  # what a file does, and options
    "is right": (RIGHT,),
    "cannot be made": (RIGHT.replace("pass", NO_GPU),),
    "ends the process": (evict("os._exit(0)", "import os") + RIGHT.replace("Mine", "Other"),),
    "never returns from C": (NEVER, "--timeout", "2"),
    "computes in C": (evict("10 ** 10 ** 9"), "--timeout", "1"),
    "is imported for ever": ("10 ** 10 ** 9", "--timeout", "1"),
    "ends at its import": ("import os; os._exit(0)", "--json"),
    "fails at its import": ("import os; os._exit(3)",),
    "takes memory": (evict("return bytearray(2**31)"),),
    "writes no verdict": (WRITES,),
    "writes in a verb": (evict(WRITES),),
    "patches the judge": (CHEAT + RIGHT,),
    "leaves a thread": (THREAD + RIGHT,),
    "leaves a child": (CHILD + RIGHT,),
    "has another json.dumps": (DUMPS + RIGHT,),
    "prints": (RIGHT.replace("pass", "def check(self):\n        print('printed')"),),
    "has endless claims": (RIGHT.replace("pass", "claims = range(10**12)"),),
}


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits memory and CPU time")
@pytest.mark.parametrize("what", by_day(JUDGED, lambda what: what in BY_DAY))
def test_whatever_a_file_does_it_is_one_report(verify, what, monkeypatch):
    monkeypatch.setattr(apart, "PATIENCE", 2)
    monkeypatch.setattr(apart, "MOST_BYTES", 2**30)
    begun = time.monotonic()
    compare(GOLDEN, what, seen(verify(*JUDGED[what])))
    assert "leaves" not in what or time.monotonic() - begun < 20, "what is left is waited for"


def test_a_package_is_looked_through_for_what_it_imports():
    indexes = {"HashBlockCache", "NoCache", "RadixCache", "SlidingWindowCache", "TokenTrie"}
    assert judge.classes_in(apart.load_module("minikv.prefix")).keys() >= indexes


def test_only_time_in_which_anything_can_run_counts_as_silence(monkeypatch):
    """A clock says an hour; the judge has looked three times."""
    waits = []

    class Said:
        def get(self, timeout):
            waits.append(timeout)
            if len(waits) < 4:
                raise queue.Empty
            return b"{}"

    clock = itertools.count(0, 3600)
    monkeypatch.setattr(apart.time, "monotonic", lambda: next(clock))
    process = type("Process", (), {"poll": lambda self: None, "pid": "none"})()
    assert apart._next_line(process, Said(), 300) == b"{}"
    assert waits == [1, 1, 1, 1]
    assert apart._next_line(process, queue.Queue(), 1) is None


CHECKS = """from minikv.course.pieces import check
def common(a, b):
    return next((at for at, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
check("3.1", common)"""
HEAD = "# numbering of the pieces: 2\n# %% 3.1 common \N{MIDDLE DOT} mine\n"
COMMON = HEAD + CHECKS.partition("\n")[2].rpartition("\n")[0]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("verify sub/theirs.py --examples 10", f"holds: {len(RULES)}"),
        ("classroom homework --csv", "anna,solved,"),
        ("check", "\N{CHECK MARK} 3.1 common"),
    ],
)
def test_hypothesis_leaves_no_folder_behind(tmp_path, command, said, monkeypatch):
    """It would keep the constants of each module that isn't installed, for the next run. A file may import another."""
    (tmp_path / "homework").mkdir()
    (tmp_path / "homework" / "anna.py").write_text(COMMON, "utf-8")
    write(tmp_path, {"sub/theirs.py": f"import beside\n{RIGHT}", "sub/beside.py": ""})
    words = ["-c", CHECKS] if command == "check" else ["-m", "minikv", *command.split()]
    kept = {"MINIKV_MINE": os.devnull, "MINIKV_PROGRESS": os.devnull, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUTF8": "1"}
    monkeypatch.delenv("HYPOTHESIS_STORAGE_DIRECTORY", raising=False)
    done = python(*words, cwd=tmp_path, PYTHONPATH=str(ROOT), **kept)
    assert (done.returncode, done.stderr) == (0, "")
    assert said in done.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"homework", "sub"}


def test_a_process_that_computes_is_not_silent(monkeypatch):
    computed = iter("aabbbb")
    monkeypatch.setattr(apart, "_descendants", lambda above: next(computed))
    monkeypatch.setattr(queue.Queue, "get", lambda self, timeout: raises(queue.Empty))
    process = type("Process", (), {"poll": lambda self: None, "pid": 7})()
    assert apart._next_line(process, queue.Queue(), 4) is None
    assert list(computed) == []


def raises(error):
    raise error


def test_the_template_is_a_class_to_fill_in(verify_here, capsys):
    assert cli.main(["verify", "--template"]) == 0
    template = capsys.readouterr().out
    assert len(template.splitlines()) < 40
    for old, new in {
        "self.cache = ...": "self.cache = RadixCache(self.page_size)",
        "pages, node = ...": "node = self.cache.match_prefix(tokens, namespace=namespace); pages = node.pages",
        "num_tokens, node = ...": "node = self.cache.insert(tokens, pages, namespace=namespace); "
                                  "num_tokens = node.prefix_length",
        "return ...  # lock it": "self.cache.lock(node)  #", "return ...  # unlock it": "self.cache.unlock(node)  #",
        "return ...  # evict": "return self.cache.evict(num_tokens)  #",
        "return ...  # how": "return self.cache.evictable_size, self.cache.protected_size  #",
    }.items():  # fmt: skip
        assert template.count(old) == 1
        template = template.replace(old, new)
    status, out, _ = verify_here("from minikv import RadixCache\n" + template)
    assert (status, out.splitlines()[-1]) == (0, f"not claimed: {len(RULES) - 10}, holds: 10")


def test_without_a_target_there_is_nothing_to_judge(capsys):
    assert cli.main(["verify"]) == 2
    assert capsys.readouterr().err == "minikv: name a file or a module to verify, or --template\n"


REPORTED = {
    "reported to CI": CLAIMS_NOTHING + OTHER.replace("def reset", "claims = 1, 6, 7, 11\n    def reset"),
    "reported to CI, with nothing to judge": "raise ValueError('\\0\\ud800 <&>')",
}


@pytest.mark.parametrize("what", REPORTED)
def test_a_report_for_ci_has_a_case_for_each_rule(verify_here, tmp_path, what):
    """In XML; of the rules that are shown, the first and the broken one."""
    status, *_ = verify_here(REPORTED[what], "--junit", "report.xml")
    ElementTree.parse(report := tmp_path / "report.xml")
    lines = report.read_text("utf-8").splitlines()
    told = [line for line in lines if not re.search('"rule (?!0:|1:|11:)', line)]
    compare(GOLDEN, what, [f"status {status}", *told])


def test_the_help_says_what_to_write(capsys):
    with pytest.raises(SystemExit):
        cli.main(["verify", "--help"])
    out = capsys.readouterr().out
    said = *RULE_OF, *SIZES, "used_by", "--template prints a class to fill in", "but with your rights"
    assert [words for words in said if words not in out] == []
