"""The command `minikv verify`: which rules any prefix cache keeps, and which it breaks."""

from __future__ import annotations

import argparse
import json
import os

from minikv.cli.command import RefusedError, complain, positive, require_packages, say, whole
from minikv.errors import shown
from minikv.files import asset, replace

_EXAMPLES = """A prefix cache is a class with match_prefix, acquire, insert, lock, unlock, evict, reset and check,
and the properties evictable_size, protected_size and total_size. help(minikv.PrefixCache) says what they take and
return. For the cache of an engine that has other methods, --template prints a class to fill in: seven methods of a line
or two, and the base class checks all input. The attribute `claims` of a class has the numbers of the rules that it
keeps; the others are not judged. Its attribute `used_by` has the methods that count as a use in rule 8, by default
("match_prefix", "insert", "unlock"). A rule is "not reached" if nothing happened that could have broken it.

The file runs in a separate process, but with your rights: verify only code that you would run yourself.
Processes that it starts end with it: on macOS only those in its process group, on Windows none.

examples:
  minikv verify my_minikv.py                          the caches that a file defines
  minikv verify my_minikv.py:RadixCache               one of its classes
  minikv verify minikv.prefix:NoCache --json          a class of a module, as one JSON object
  minikv verify --template > my_engine.py             a class to fill in, for the cache of an engine
  minikv verify my_engine.py --junit verify.xml       for CI: a test case for each rule

The exit status is 0 if rules hold and none is broken, 1 if one is broken or was not judged, and 2 if there is nothing
to judge."""


def add_verify(verify: argparse.ArgumentParser) -> None:
    """Add the options of `minikv verify` to its parser.

    >>> parser = argparse.ArgumentParser(); add_verify(parser)
    >>> parser.parse_args(["my_minikv.py:RadixCache"]).target
    ('my_minikv.py', 'RadixCache')
    """
    verify.epilog = _EXAMPLES
    verify.add_argument("target", nargs="?", type=target, metavar="FILE_OR_MODULE[:CLASS]",
                        help="without CLASS: every prefix cache in it")  # fmt: skip
    verify.add_argument("--json", action="store_true", help="print a JSON object for each class, on a line of its own")
    verify.add_argument("--junit", metavar="FILE", help="also write the report as JUnit's XML")
    verify.add_argument("--examples", type=whole, default=1000, metavar="N",
                        help="number of random scenarios (default 1000)")  # fmt: skip
    verify.add_argument("--trusting", action="store_true", help="for a class that does not check its input")
    verify.add_argument("--timeout", type=positive, default=60, metavar="SECONDS",
                        help="most CPU time for the import, and for each scenario (default 60)")  # fmt: skip
    verify.add_argument("--template", action="store_true", help="print a class to fill in, and nothing else")


def target(text: str) -> tuple[str, str]:
    r"""The file or module and the class that `text` names; a drive letter is part of the file.

    >>> target("my_minikv.py"), target("a.b:C"), target("C:\\a.py")
    (('my_minikv.py', ''), ('a.b', 'C'), ('C:\\a.py', ''))
    """
    place, _, name = text.rpartition(":")
    return (place, name) if place and name.isidentifier() else (text, "")


def run_verify(options: argparse.Namespace) -> int:
    """Judge what `options` name and print the report; returns the exit status."""
    if options.template:
        say(asset("adapter.txt").read_text("utf-8").rstrip())
        return 0
    if not options.target:
        raise RefusedError("name a file or a module to verify, or --template")
    require_packages("minikv verify", "hypothesis")
    from minikv.testing.rules import Conformance, NothingToJudgeError, junit
    from minikv.testing.verify import verify_apart

    place, name = options.target
    file, judged, trouble = os.path.basename(place), list[Conformance](), ""
    try:
        for found in verify_apart(place, name, options.examples, options.trusting, options.timeout):
            report = {"file": file, **found.as_json()}
            say(json.dumps(report) if options.json else f"{chr(10) if judged else ''}{found}")
            judged.append(found)
            trouble = trouble if found.status < 2 else f"no rule that {found.name} claims was reached"
    except NothingToJudgeError as error:
        trouble = str(error)
    if options.junit:
        replace(options.junit, junit(file, judged, trouble))
    if trouble:
        complain(f"cannot verify {shown(place)}: {trouble}")
    return 1 if any(found.status == 1 for found in judged) else 2 * bool(trouble)
