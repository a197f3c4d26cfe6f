"""A mutation run: would the tests notice a mistake? `make mutants`; here, for example, `python tests/mutants.py pools`.

Each mutant of `mutate` is a process of its own, forked from one that has imported the large packages already, and runs
the judges of its file: its doctests, then the tests that `judges.txt` names, until one fails. Nothing is written to the
source. The time limit is CPU time, three times what the judge takes without a mutant, so that a loaded machine changes
no result. What is left are the survivors: mistakes that no test notices, and changes that are none.
"""

import argparse
import ast
import gc
import importlib
import os
import signal
import sys
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from mutate import Mutant, mutants_of
from planted import Planted, asked, decide, forked, limit_of

ROOT = Path(__file__).resolve().parent.parent
PRELOAD = ("numpy", "torch", "hypothesis.stateful", "nbval.plugin", "safetensors.torch", "tokenizers")
FLOOR = 0.80  # the share of mutants that must die, in each package
MEMORY = 4 << 30  # bytes that one process may have: some mutants grow a list without end

# Of these no mutants are made: what needs slow judges, what is compiled from the text of the file, and what runs in
# another process, where no mutant is planted.
UNJUDGED = (
    "__main__", "cli", "course", "engine", "progress_bar", "store/triton_copy",
    "tools/__main__", "tools/pytest_plugin", "tools/why/builder_process",
)  # fmt: skip

# In `judges.txt`: for each file of `minikv`, or all others of a folder, the tests that judge it, the quickest first.
# A key that begins with `tools/` is a file of `minikv_tools`, and its judges are in tools/tests.
JUDGES = dict(line.split(":", 1) for line in Path(__file__).with_name("judges.txt").read_text("utf-8").splitlines())


def source_of(name):
    folder, file = "minikv", name
    if name.startswith("tools/"):
        folder, file = "tools/minikv_tools", name.removeprefix("tools/")
    return ROOT / folder / f"{file}.py"


def module_of(name):
    """The module that a file is when it is imported."""
    home = ROOT / "tools" if name.startswith("tools/") else ROOT
    parts = source_of(name).relative_to(home).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def names():
    """The files that have judges: those of `JUDGES`, and in the place of a folder its others."""
    found = {}
    for key in JUDGES:
        inside = sorted(source_of(key).with_suffix("").glob("*.py"))
        here = [f"{key}/{path.stem}" for path in inside if path.stem != "__init__"]
        found |= dict.fromkeys([name for name in here if name not in UNJUDGED] or [key])
    return list(found)


def judges_of(name):
    """What pytest is asked to run for a file: its own doctests first."""
    judges = JUDGES[name] if name in JUDGES else JUDGES[name.rpartition("/")[0]]
    tests = "tools/tests" if name.startswith("tools/") else "tests"
    files = [judge.partition("::") for judge in judges.split()]
    doctests = source_of(name).relative_to(ROOT).as_posix()
    return [doctests, *(f"{tests}/test_{file}.py{colons}{test}" for file, colons, test in files)]


@dataclass
class Trial:
    """A mutant before its judges."""

    name: str
    tree: ast.Module
    mutant: Mutant
    judges: deque[str] = field(init=False)
    survived: bool = True

    def __post_init__(self):
        self.judges = deque(judges_of(self.name))

    def begin(self, limits):
        """Ask the next judge, in a process of its own; returns its number."""
        judge = self.judges.popleft()
        with open(os.devnull, "wb") as nowhere:
            return forked(lambda: self._ask(judge, limits[judge]), nowhere.fileno())

    def _ask(self, judge, limit):
        import resource  # not on Windows, where doctests of this file are collected all the same

        self.mutant.plant()
        loader = Planted(module_of(self.name), source_of(self.name), self.tree)
        sys.meta_path.insert(0, loader)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        signal.alarm(10 * limit + 60)  # what waits for ever takes no CPU time
        return asked(judge)


def belongs(name, *parts):
    """Whether one of `parts` is this file, or a folder that it is in."""
    return f"{name}/".startswith(tuple(f"{part}/" for part in parts))


def trials(every, *parts):
    """For each file that belongs to `parts`, or any, one of each `every` mutants of all files."""
    number = 0
    for name in names():
        tree = ast.parse(source_of(name).read_text("utf-8"))
        all_here = [Trial(name, tree, mutant) for mutant in mutants_of(tree)]
        chosen = all_here[-number % every :: every]
        number += len(all_here)
        if chosen and (belongs(name, *parts) or not parts):
            yield chosen


def report(scores):
    """Print the score of each package; does each keep the floor?"""
    print(f"\n{'package':<10}{'mutants':>8}{'killed':>8}{'score':>8}")
    for package, killed in scores.items():
        print(f"{package:<10}{len(killed):>8}{sum(killed):>8}{sum(killed) / len(killed):>8.1%}")
    return all(sum(killed) >= FLOOR * len(killed) for killed in scores.values())


def prepare():
    """Import what every judge would import, but nothing of ours: a mutant must be imported in its place."""
    os.chdir(ROOT)
    os.environ |= {"HYPOTHESIS_PROFILE": "mutants", "OMP_NUM_THREADS": "1"}
    sys.path[:0] = [str(ROOT), str(ROOT / "tools")]
    for module in PRELOAD:
        importlib.import_module(module)
    gc.freeze()  # or each process would collect what this one has imported


def known_part(text):
    """`text`, if there is a file that belongs to it."""
    if not any(belongs(name, text) for name in names()):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a file nor a package of {', '.join(packages())}")
    return text


def packages():
    return sorted({name.split("/")[0] for name in JUDGES})


def count(text):
    """A whole number from 1."""
    if not (text.isascii() and text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Would the tests notice a mistake?")
    parser.add_argument("parts", nargs="*", type=known_part, help="packages or files: prefix/radix")
    parser.add_argument("--every", type=count, default=1, metavar="N", help="one of each N mutants, always the same")
    parser.add_argument("--jobs", type=count, default=1, help="mutants at a time")
    options = parser.parse_args(arguments)
    prepare()
    limits = {}
    scores = {}
    for chosen in trials(options.every, *options.parts):
        name = chosen[0].name
        limits |= {judge: limit_of(judge) for judge in judges_of(name) if judge not in limits}
        decide(chosen, limits, options.jobs)
        killed = [not trial.survived for trial in chosen]
        scores.setdefault(name.split("/")[0], []).extend(killed)
        print(f"{name}: {sum(killed)} of {len(killed)} mutants killed", flush=True)
        for trial in chosen:
            if trial.survived:
                place = source_of(name).relative_to(ROOT).as_posix()
                print(f"  {place}:{trial.mutant.line}: {trial.mutant}", flush=True)
    if not scores:
        parts = " ".join(options.parts)
        parser.error(f"none of each {options.every} mutants is in {parts}: nothing was tried")
    return 0 if report(scores) else 1


if __name__ == "__main__":
    sys.exit(main())
