"""The command `minikv why`: where two prompts begin to differ, or which places break the prefix of a log's prompts."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable

from minikv.cli.command import CommandError, RefusedError, complain, failing, option, refusing, say, using
from minikv.errors import bounded, shown
from minikv.files import replace
from minikv.traffic.trace_file import behind_bar, open_trace
from minikv_tools.cli.extras import add_options, help_texts, need, require_apart
from minikv_tools.exports import request_lines
from minikv_tools.logs import Units, units_of
from minikv_tools.why import HYBRID, explain, explanation_text
from minikv_tools.why.changes import KINDS, KINDS_TEXT
from minikv_tools.why.log import survey
from minikv_tools.why.log_report import LogWords, Price, log_page, log_text
from minikv_tools.why.places import read_prompt
from minikv_tools.why.sessions import read_sessions, session_text

_MOST_BLOCK = 2**31 - 1
_OF_LOGS = ("html", "price", "by", "no_sessions", "fail_if")  # options that go with a log
_QUANTITIES = ("lost", "hits", "shared")
_MOST_TOP = 1000  # on a page


def add_why(why: argparse.ArgumentParser) -> None:
    """Add the options of `minikv why` to its parser.

    >>> parser = argparse.ArgumentParser(); add_why(parser)
    >>> parser.parse_args(["a.json", "b.json", "--blocks", "16,784"]).blocks
    (16, 784)
    """
    why.description, why.epilog, kinds = help_texts("why")
    types = {"block_sizes": block_sizes, "limit": limit, "prices": prices}
    texts = {"hybrid_block": str(HYBRID[0]), "list_of_kinds": f"{kinds}\n\n{KINDS_TEXT}"}
    add_options(why, "why", **types, **texts)


@option
def limit(text: str) -> tuple[str, str, str, float]:
    """`text` as a limit: itself, the quantity, the sign, and the number in percent.

    >>> limit("tools reordered>0.5%")
    ('tools reordered>0.5%', 'tools reordered', '>', 0.5)
    """
    found = re.fullmatch(r" *([A-Za-z -]+?) *([<>]) *(\d{1,3}(?:\.\d{1,9})?) *%? *", text)
    if not found:
        raise ValueError(f"{bounded(text)} is not a limit, such as 'lost > 2%'")
    if found[1] not in (*_QUANTITIES, *KINDS):
        raise ValueError(f"{bounded(found[1])} is none of {', '.join(_QUANTITIES)} and the kinds of change (--kinds)")
    return text.strip(), found[1], found[2], float(found[3])


@option
def prices(text: str) -> Price:
    """`text` as prices per million tokens.

    >>> prices("3,0.30,3.75")
    Price(input=3.0, cached=0.3, write=3.75, write_1h=None)
    """
    if not re.fullmatch(r"\d{1,9}(\.\d{1,9})?(,\d{1,9}(\.\d{1,9})?){1,3}", text):
        raise ValueError(f"{bounded(text)} is not a list of two to four prices, such as 3,0.30,3.75")
    values = [float(part) for part in text.split(",")]
    if values[1] > min(values) or values[2:] != sorted(values[2:]):
        raise ValueError(f"{bounded(text)}: CACHED must not be above the others, nor WRITE above WRITE_1H")
    return Price(*values)


@option
def block_sizes(text: str) -> tuple[int, ...]:
    """`text` as sizes of blocks.

    >>> block_sizes("16,784")
    (16, 784)
    """
    if not re.fullmatch(r"\s*[0-9]+\s*(,\s*[0-9]+\s*){0,7}", text):
        raise ValueError(f"{text[:60]!r} is not a list of block sizes, such as 16,784")
    sizes = tuple(int(part[:12]) for part in text.split(","))
    if not all(1 <= size <= _MOST_BLOCK for size in sizes):
        raise ValueError(f"{text[:60]!r}: a block holds from 1 to {_MOST_BLOCK} tokens")
    return sizes


def run_why(options: argparse.Namespace) -> int:
    """Compare two prompts, or look through a log, as `options` say, and print what was found; the exit status."""
    is_log = options.b is None
    for name in () if is_log else _OF_LOGS[:-1]:
        if getattr(options, name):
            raise RefusedError(f"--{name.replace('_', '-')} needs a log, not prompts")
    for text, quantity, *_ in options.fail_if:
        if (quantity == "shared") == is_log:
            what = "a log" if is_log else "a pair"
            raise RefusedError(f"--fail-if {text}: {what} has no {quantity!r}")
    if options.tokenizer is not None:
        need("--tokenizer", "tokenizers")
    with refusing(OSError, ValueError, ModuleNotFoundError):
        unit = units_of(options.tokenizer)
        require_apart(options.a, options.html)  # what is wrong with it is said before the work begins
    with refusing(ValueError):  # a `TraceError`, or the tokenizer refuses a text
        return _run_log(options, unit) if is_log else _run_pair(options, unit)


def _run_pair(options: argparse.Namespace, unit: Units) -> int:
    bodies = []
    for name in (options.a, options.b):
        with using(name):
            bodies.append(read_prompt(name))
    found = explain(bodies[0], bodies[1], unit, options.blocks)
    say(json.dumps(found.as_json()) if options.json else explanation_text(found))
    return _status(options, lambda _: found.shared / max(1, found.lengths[1]))


def _status(options: argparse.Namespace, share: Callable[[str], float]) -> int:
    """The exit status: 1 where a limit is broken, and a line for each that is."""
    status = 0
    for text, quantity, sign, percent in options.fail_if:
        found = 100 * share(quantity)
        if found > percent if sign == ">" else found < percent:
            complain(f"--fail-if {text}: {quantity} is {found:.2f}%", options.program)
            status = 1
    return status


def _run_log(options: argparse.Namespace, unit: Units) -> int:
    with using(options.a):
        if (sessions := read_sessions(options.a)) is not None:
            given = next((name for name in _OF_LOGS if getattr(options, name)), "").replace("_", "-")
            if given or not sessions.totals["files"]:
                what = f"is a session: --{given} needs a log" if given else "has no session files of an agent"
                raise RefusedError(f"{shown(options.a)} {what}")
            say(json.dumps(sessions.as_json(options.top)) if options.json else session_text(sessions, options.top))
            return 0
        with open_trace(options.a) as file:
            report = survey(request_lines(behind_bar(file, file=file)), file.name, options.by, not options.no_sessions)
    words = LogWords(report, unit, options.price, options.by)
    if options.html:
        with failing(f"cannot write {shown(options.html)}", CommandError):
            replace(options.html, log_page(words, min(options.top, _MOST_TOP)))
    say(json.dumps(words.as_json(options.top)) if options.json else log_text(words, options.top))
    return _status(options, report.quantity)
