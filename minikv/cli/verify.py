"""The command `minikv verify`: which rules anybody's prefix cache or cache manager keeps, and which it breaks."""

from __future__ import annotations

import argparse
import json
import os

from minikv.cli.command import complain, lacking, say, whole
from minikv.errors import shown

_EXAMPLES = """The file is executed, in a process of its own but with your rights: verify only code that you would run.

examples:
  minikv verify my_minikv.py                          the caches and managers that a file defines
  minikv verify my_minikv.py:RadixCache               one of its classes
  minikv verify minikv.prefix:NoCache --json          a class of a module, as one JSON object

The exit status is 0 if no rule that is claimed is broken, 1 if one is, and 2 if there is nothing to judge."""


def add_verify(verify: argparse.ArgumentParser) -> None:
    """Add the options of `minikv verify` to its parser.

    >>> parser = argparse.ArgumentParser(); add_verify(parser)
    >>> parser.parse_args(["my_minikv.py:RadixCache"]).target
    ('my_minikv.py', 'RadixCache')
    """
    verify.epilog = _EXAMPLES
    verify.add_argument("target", type=target, metavar="FILE_OR_MODULE[:CLASS]",
                        help="default: every class there that is a prefix cache or a cache manager")  # fmt: skip
    verify.add_argument("--json", action="store_true", help="print a JSON object for each class, on a line of its own")
    verify.add_argument("--examples", type=whole, metavar="N", help="how many random scenarios to try (default 1000)")


def target(text: str) -> tuple[str, str]:
    r"""The file or module and the class that `text` names; a drive letter is part of the file.

    >>> target("my_minikv.py"), target("a.b:C"), target("C:\\a.py")
    (('my_minikv.py', ''), ('a.b', 'C'), ('C:\\a.py', ''))
    """
    place, _, name = text.rpartition(":")
    if not place or not name.isidentifier():
        return text, ""
    return place, name


def run_verify(options: argparse.Namespace) -> int:
    """Judge what `options` name and print the report: 0 if nothing that is claimed is broken, else 1."""
    if missing := lacking("minikv verify", "hypothesis"):
        return complain(missing, 2)
    from minikv.testing.conformance.apart import NothingToJudgeError, verify_apart

    place, name = options.target
    status = 0
    try:
        for number, found in enumerate(verify_apart(place, name, options.examples)):
            report = {"file": os.path.basename(place), **found.as_json()}
            say(json.dumps(report) if options.json else f"{chr(10) if number else ''}{found}")
            status = status if found.is_clean else 1
    except NothingToJudgeError as error:
        return complain(f"cannot verify {shown(place)}: {error}", 2)
    return status
