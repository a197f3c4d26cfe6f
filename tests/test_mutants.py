"""The mutation run itself: what it changes, what it leaves alone, who judges, and when it fails."""

from __future__ import annotations

import ast
import os
import subprocess
import sys

import mutants
import pytest
from mutate import mutants_of
from project import ROOT

pytestmark = pytest.mark.nightly  # it tests the tests

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="the run forks, which Windows cannot")


def changes(source):
    return [str(mutant) for mutant in mutants_of(ast.parse(source))]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a < b", ["`a < b` -> `a <= b`"]),
        ("a < b < c", ["`a < b < c` -> `a <= b < c`", "`a < b < c` -> `a < b <= c`"]),
        ("a is not b", ["`a is not b` -> `a is b`"]),
        ("a + b", ["`a + b` -> `a - b`"]),
        ("a | b", []),
        ("a and b", ["`a and b` -> `b`", "`a and b` -> `a`"]),
        ("not a", ["`not a` -> `a`"]),
        ("f(8, x=True)", ["`f(8, x=True)` -> `pass`", "`f(8, x=True)` -> `f(8)`", "`8` -> `9`", "`True` -> `False`"]),
        ("a = b[c:d]", ["`b[c:d]` -> `b`"]),
        ("a[b:c] = d", ["`a[b:c] = d` -> `pass`"]),
        ("a = b.copy()", ["`b.copy()` -> `b`"]),
        ("a = list(b)", ["`list(b)` -> `b`"]),
        ("a = copy.deepcopy(b)", ["`copy.deepcopy(b)` -> `b`"]),
        ("a = f(b, c, **d)", []),
        ("if a: b", ["`if a:` -> `if False:`", "`if a:` -> `if True:`"]),
        ("while a: break", ["`while a:` -> `while False:`", "`break` -> `continue`"]),
        ("n += k", ["`n += k` -> `n -= k`", "`n += k` -> `pass`"]),
        ("a.x = b", ["`a.x = b` -> `pass`"]),
        ("x = b", []),
        ("del a[b]", ["`del a[b]` -> `pass`"]),
    ],
)
def test_each_change_is_small(source, expected):
    assert changes(source) == expected


def test_of_a_long_line_the_changed_place_is_shown():
    (change, *_) = changes("call(" + ", ".join(f"a{number}" for number in range(50)) + ") < 3")
    kept = "...42, a43, a44, a45, a46, a47, a48, a49)"
    assert change == f"`{kept} < 3` -> `{kept} <= 3`"


def test_docstrings_texts_annotations_and_decorators_stay():
    assert not changes('"""Two."""\n@cached(2)\ndef f(x: Literal[2]) -> Literal[2]:\n    "One."\n    return f"{2 + x}"')
    assert not changes("if TYPE_CHECKING:\n    x = 1")


def test_a_mutant_is_the_code_with_that_one_change():
    source = "def f(n):\n    return n + 1 if n < 3 else 0"
    results = []
    for number in range(len(changes(source))):
        tree = ast.parse(source)
        list(mutants_of(tree))[number].plant()
        names = {}
        exec(compile(tree, "f.py", "exec"), names)
        results.append([names["f"](n) for n in (2, 3)])
    # in its order: False, True, n <= 3, n < 4, n - 1, n + 2, and 1 for the 0
    assert results == [[0, 0], [3, 4], [3, 4], [3, 4], [1, 0], [4, 0], [3, 1]]


def test_a_sample_is_one_of_each_n_of_all_and_always_the_same(monkeypatch):
    monkeypatch.setattr(mutants, "JUDGES", {"store/layout": "", "pools/contract": "", "pools/queue": ""})

    def names(*options):
        return [
            f"{trial.name}:{trial.mutant.line}: {trial.mutant}" for here in mutants.trials(*options) for trial in here
        ]

    everything = names(1, "")
    assert names(7, "") == everything[::7]
    assert names(7, "pools") == [name for name in everything[::7] if name.startswith("pools")]


@pytest.mark.parametrize(
    ("part", "files"),
    [
        ("", ["tokens", "prefix/radix", "prefix/radix_more"]),
        ("prefix", ["prefix/radix", "prefix/radix_more"]),
        ("prefix/radix", ["prefix/radix"]),
        ("tokens", ["tokens"]),
    ],
)
def test_a_part_is_a_whole_file_or_a_whole_package(part, files):
    names = ["tokens", "prefix/radix", "prefix/radix_more"]
    assert [name for name in names if mutants.belongs(name, part)] == files


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["prefx"], "'prefx' is neither a file nor a package of copy_on_write, errors, files, "),
        (["prefix/radix.py", "--every=500"], "'prefix/radix.py' is neither a file nor a package"),
        (["pre"], "'pre' is neither"),
        (["--every=0"], "argument --every: '0' is not a whole number of at least 1"),
        (["--every=-3"], "'-3' is not a whole number"),
        (["--jobs=0"], "argument --jobs: '0' is not a whole number of at least 1"),
        (["--jobs=two"], "'two' is not a whole number"),
        (["pools/contract", "--every=1000000"], "none of each 1000000 mutants is in pools/contract: nothing was tried"),
    ],
)
def test_a_run_that_would_try_nothing_is_an_error(arguments, message, monkeypatch, capsys):
    monkeypatch.setattr(mutants, "prepare", lambda: None)
    monkeypatch.setattr(mutants, "decide", lambda *_: pytest.fail("tried"))
    with pytest.raises(SystemExit) as stopped:
        mutants.main(arguments)
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


# -- a run over a package of one function ---------------------------------------------------------------------------

SOURCE = '''
def last(n):
    """Counts down in twos.

    >>> last(5)
    1
    """
    while n > 1:
        n -= 2
    return n
'''
CARELESS = "def test_nothing(): pass"
CAREFUL = "from minikv.pools.last import last\ndef test_even(): assert last(4) == 0"
WRONG = "from minikv.pools.last import last\ndef test_even(): assert last(4) == 4"
RUN = """
import sys, pathlib
sys.path.insert(0, {tests!r})
import mutants
mutants.ROOT, mutants.PRELOAD, mutants.JUDGES = pathlib.Path({root!r}), (), {{"pools/last": "last"}}
sys.exit(mutants.main(sys.argv[1:]))
"""


@pytest.fixture
def run(tmp_path):
    """Makes that package with a test, and runs some of its mutants; returns the exit status and what was said."""

    def run(test, every):
        for folder in ("minikv/pools", "tests"):
            (tmp_path / folder).mkdir(parents=True)
        for package in ("minikv", "minikv/pools"):
            (tmp_path / package / "__init__.py").touch()
        (tmp_path / "minikv" / "pools" / "last.py").write_text(SOURCE, "utf-8")
        (tmp_path / "tests" / "test_last.py").write_text(test, "utf-8")
        (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --doctest-modules\npythonpath = .\n", "utf-8")
        code = RUN.format(tests=str(ROOT / "tests"), root=str(tmp_path))
        environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        done = subprocess.run([sys.executable, "-c", code, f"--every={every}", "--jobs=2"], env=environment,
                              capture_output=True, text=True, timeout=300, check=False)  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    return run


@forks
def test_a_run_names_the_survivor_and_fails_below_the_floor(run):
    """Of three mutants one counts nothing, one counts without end, and one is wrong about even numbers only."""
    status, said = run(CARELESS, every=2)
    assert said.splitlines() == [
        "pools/last: 2 of 3 mutants killed",
        "  minikv/pools/last.py:8: `1` -> `2`",
        "",
        "package    mutants  killed   score",
        "pools            3       2   66.7%",
    ]
    assert status == 1


@forks
def test_a_run_in_which_all_die_passes(run):
    status, said = run(CAREFUL, every=5)
    assert "pools/last: 2 of 2 mutants killed" in said
    assert status == 0


@forks
def test_a_judge_that_fails_without_a_mutant_proves_nothing(run):
    status, said = run(WRONG, every=5)
    assert said.splitlines()[-1] == "tests/test_last.py fails without a mutant"
    assert status == 1
