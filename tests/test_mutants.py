"""The mutation run itself: what it changes, what it leaves alone, who judges, and when it fails."""

import ast
import os

import mutants
import pytest
from mutate import mutants_of
from project import ROOT, python, write

pytestmark = pytest.mark.nightly  # it tests the tests

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="the run forks, which Windows cannot")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a < b < c", "`a < b < c` -> `a <= b < c`, `a < b < c` -> `a < b <= c`"),
        ("a is not b + c", "`a is not b + c` -> `a is b + c`, `b + c` -> `b - c`"),
        ("a | b", ""),
        ("a and not b", "`a and (not b)` -> `not b`, `a and (not b)` -> `a`, `not b` -> `b`"),
        (
            "f(8, x=True)",
            "`f(8, x=True)` -> `pass`, `f(8, x=True)` -> `f(8)`, `8` -> `9`, `True` -> `False`",
        ),
        ("a[b:c] = d[e:f]", "`a[b:c] = d[e:f]` -> `pass`, `d[e:f]` -> `d`"),
        ("a = [b.copy(), list(c)]", "`b.copy()` -> `b`, `list(c)` -> `c`"),
        ("a = f(copy.deepcopy(b), **d)", "`copy.deepcopy(b)` -> `b`"),
        ("if a: b", "`if a:` -> `if False:`, `if a:` -> `if True:`"),
        ("while a: break", "`while a:` -> `while False:`, `break` -> `continue`"),
        ("n += k", "`n += k` -> `n -= k`, `n += k` -> `pass`"),
        ("a.x = b", "`a.x = b` -> `pass`"),
        ("x = b", ""),
        ("del a[b]", "`del a[b]` -> `pass`"),
        (
            '"""Two."""\n@cached(2)\ndef f(x: Literal[2]) -> Literal[2]:\n    "One."\n    return f"{2 + x}"',
            "",
        ),
        ("if TYPE_CHECKING:\n    x = 1", ""),
        (f"{'a' * 90} < b", f"`...{'a' * 38} < b` -> `...{'a' * 38} <= b`"),
    ],
)
def test_each_change_is_small_and_texts_and_annotations_stay(source, expected):
    assert ", ".join(map(str, mutants_of(ast.parse(source)))) == expected


def test_a_mutant_is_the_code_with_that_one_change():
    source = "def f(n):\n    return n + 1 if n < 3 else 0"
    results = []
    for number, _ in enumerate(mutants_of(ast.parse(source))):
        tree, names = ast.parse(source), {}
        list(mutants_of(tree))[number].plant()
        exec(compile(tree, "f.py", "exec"), names)
        results.append([names["f"](n) for n in (2, 3)])
    # in its order: False, True, n <= 3, n < 4, n - 1, n + 2, and 1 for the 0
    assert results == [[0, 0], [3, 4], [3, 4], [3, 4], [1, 0], [4, 0], [3, 1]]


def test_a_sample_is_one_of_each_n_of_all_and_a_part_a_whole_file_or_folder(monkeypatch):
    monkeypatch.setattr(mutants, "JUDGES", {"store/layout": "", "pools/contract": "", "tools/why/texts": ""})

    def names(*options):
        found = [trial for here in mutants.trials(*options) for trial in here]
        return [f"{trial.name}:{trial.mutant.line}: {trial.mutant}" for trial in found]

    sample = names(1)[::7]
    assert names(7) == names(7, "pools", "tools", "store") == sample
    for part in ("pools", "tools", "tools/why/texts"):
        assert names(7, part) == [name for name in sample if name.startswith(part)] != []
    assert names(7, "pool", "tools/why/text") == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("pre", "'pre' is neither a file nor a package of "),
        ("prefix/radix.py", "'prefix/radix.py' is neither a file nor a package"),
        ("--every=0", "argument --every: '0' is not a whole number of at least 1"),
        ("--jobs=two", "argument --jobs: 'two' is not a whole number of at least 1"),
        (
            "pools/contract --every=1000000",
            "none of each 1000000 mutants is in pools/contract: nothing was tried",
        ),
    ],
)
def test_a_run_that_would_try_nothing_is_an_error(arguments, message, monkeypatch, capsys):
    monkeypatch.setattr(mutants, "prepare", lambda: None)
    monkeypatch.setattr(mutants, "decide", lambda *_: pytest.fail("tried"))
    with pytest.raises(SystemExit) as stopped:
        mutants.main(arguments.split())
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


FILES = {
    "minikv/__init__.py": "",
    "minikv/pools/__init__.py": "",
    "minikv/pools/last.py": SOURCE,
    "pytest.ini": "[pytest]\naddopts = --doctest-modules\npythonpath = .\n",
}


@forks
@pytest.mark.parametrize(
    ("test", "every", "status", "said"),
    [
        # Of three mutants one counts nothing, one counts without end, and one is wrong about even numbers only.
        (CARELESS, 2, 1, ["pools/last: 2 of 3 mutants killed", "  minikv/pools/last.py:8: `1` -> `2`", "",
                          "package    mutants  killed   score", "pools            3       2   66.7%"]),
        (CAREFUL, 5, 0, ["pools/last: 2 of 2 mutants killed", "", "package    mutants  killed   score",
                         "pools            2       2  100.0%"]),
        (WRONG, 5, 1, ["tests/test_last.py fails without a mutant"]),  # which proves nothing
    ],
)  # fmt: skip
def test_a_run_names_the_survivors_and_fails_below_the_floor(test, every, status, said, tmp_path):
    write(tmp_path, {**FILES, "tests/test_last.py": test})
    code = RUN.format(tests=str(ROOT / "tests"), root=str(tmp_path))
    done = python("-c", code, f"--every={every}", "--jobs=2", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    assert done.returncode == status
    assert (done.stdout + done.stderr).splitlines()[-len(said) :] == said
