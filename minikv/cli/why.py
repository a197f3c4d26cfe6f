"""The command `minikv why`: where two prompts part, or which places of a log's prompts break their prefix."""

from __future__ import annotations

import argparse
import json

from minikv.cli.command import complain, lacking, option, positive, say
from minikv.cli.traffic import behind_bar, cannot_read
from minikv.errors import shown
from minikv.files import destination, replace
from minikv.traffic.exports import request_lines
from minikv.traffic.logs import Units, units_of
from minikv.traffic.trace_file import open_trace
from minikv.traffic.why import HYBRID, explain, explanation_text
from minikv.traffic.why.changes import KINDS_TEXT
from minikv.traffic.why.log import survey
from minikv.traffic.why.log_report import LogWords, log_page, log_text
from minikv.traffic.why.places import read_prompt
from minikv.traffic.why.sessions import read_sessions, session_text

_MOST_BLOCK = 2**31 - 1
_MOST_TOP, _MOST_DEPTH = 1000, 50  # on a page
_ABOUT = """Given two requests, say where B parts from A, what kind of change it is (--kinds lists them), how much of
B a cache that has A reuses, and what to do. Engines are counted in blocks. The APIs of Anthropic and OpenAI, known by
the model, follow dated rules: breakpoints, minimum lengths, lifetimes. A time and a usage beside a request count.
Given a log, rank the places that break the prefix. Requests are read as APIs take them and as OpenTelemetry, LangSmith,
Langfuse, LiteLLM, SGLang and vLLM log them; a prompt may be a list of token ids."""
_KINDS = "Kinds of change: the name, what it means, what to do. A harmless one is no fault of the prompt.\n\n"
_EXAMPLES = """examples:
  minikv why log.jsonl                                which places of a log's prompts break the prefix, worst first
  minikv why log.jsonl.gz --html why.html             the same as a page, with the tree of the prompts
  minikv why monday.json tuesday.json                 two request bodies: where they part, and what kind of change it is
  minikv why log.jsonl:17 log.jsonl:18                two lines of a log
  minikv why ~/.claude/projects                       sessions of coding agents: where the cache was lost, and the price
  minikv why a.txt b.txt --tokenizer ~/Qwen3-8B       two prompts as text, counted in the tokens of a model
  minikv why a.json b.json --blocks 16,784            what a hybrid model with blocks of 16 and 784 would reuse"""


def add_why(why: argparse.ArgumentParser) -> None:
    """Add the options of `minikv why` to its parser.

    >>> parser = argparse.ArgumentParser(); add_why(parser)
    >>> parser.parse_args(["a.json", "b.json", "--blocks", "16,784"]).blocks
    (16, 784)
    """
    why.epilog = _EXAMPLES
    why.description = _ABOUT
    why.add_argument(
        "a",
        metavar="A",
        help="a file with a prompt or a request, or FILE:LINE of a log; alone: a log, or a session "
        "file of Claude Code or Codex, or a folder of them",
    )
    why.add_argument("b", metavar="B", nargs="?", help="the prompt that missed, named like A")
    why.add_argument("--tokenizer", metavar="FOLDER", help="a checkpoint, to count its tokens (default: count bytes)")
    why.add_argument("--blocks", type=block_sizes, default=HYBRID, metavar="N,M",
                     help=f"tokens in the blocks of a hybrid model's groups (default {HYBRID[0]})")  # fmt: skip
    why.add_argument(
        "--kinds", action="version", version=_KINDS + KINDS_TEXT, help="list the kinds of change and what to do"
    )
    why.add_argument("--json", action="store_true", help="print one JSON object")
    why.add_argument("--top", type=positive, default=10, metavar="N", help="of a log: so many places (default 10)")
    why.add_argument("--html", metavar="FILE", help="of a log: write the report to this file too, as one HTML page")
    why.add_argument("--depth", type=positive, default=6, metavar="D", help="of --html: levels of the tree (default 6)")


@option
def block_sizes(text: str) -> tuple[int, ...]:
    """`text` as sizes of blocks.

    >>> block_sizes("16,784")
    (16, 784)
    """
    parts = text.split(",")
    if not 1 <= len(parts) <= 8 or not all(part.strip().isascii() and part.strip().isdigit() for part in parts):
        raise ValueError(f"{text[:60]!r} is not a list of block sizes, such as 16,784")
    sizes = tuple(int(part[:12]) for part in parts)
    if not all(1 <= size <= _MOST_BLOCK for size in sizes):
        raise ValueError(f"{text[:60]!r}: a block holds from 1 to {_MOST_BLOCK} tokens")
    return sizes


def run_why(options: argparse.Namespace) -> int:
    """Compare two prompts, or look through a log, as `options` say, and print what was found; the exit status."""
    if options.b is not None and options.html:
        return complain("--html goes with a log: name one", 2)
    if options.tokenizer is not None and (missing := lacking("--tokenizer", "tokenizers")):
        return complain(missing, 2)
    try:
        unit = units_of(options.tokenizer)
        if options.html:
            destination(options.html)  # what is wrong with it is said before the work begins
    except (OSError, ValueError, ModuleNotFoundError) as error:
        return complain(str(error), 2)
    try:
        return _run_log(options, unit) if options.b is None else _run_pair(options, unit)
    except ValueError as error:  # a `TraceError`, or the tokenizer refuses a text
        return complain(str(error), 1)


def _run_pair(options: argparse.Namespace, unit: Units) -> int:
    bodies = []
    for name in (options.a, options.b):
        try:
            bodies.append(read_prompt(name))
        except OSError as error:
            return cannot_read(name, error)
    found = explain(bodies[0], bodies[1], unit, options.blocks)
    say(json.dumps(found.as_json()) if options.json else explanation_text(found))
    return 0


def _run_log(options: argparse.Namespace, unit: Units) -> int:
    try:
        if (sessions := read_sessions(options.a)) is not None:
            if options.html or not sessions.totals["files"]:
                what = "is a session: --html goes with a log" if options.html else "has no session files of an agent"
                return complain(f"{shown(options.a)} {what}", 2)
            say(json.dumps(sessions.as_json(options.top)) if options.json else session_text(sessions, options.top))
            return 0
        with open_trace(options.a) as file:
            report = survey(request_lines(behind_bar(file, file=file)), file.name)
    except OSError as error:
        return cannot_read(options.a, error)
    words = LogWords(report, unit)
    if options.html:
        try:
            replace(options.html, log_page(words, min(options.top, _MOST_TOP), min(options.depth, _MOST_DEPTH)))
        except OSError as error:
            return complain(f"cannot write {shown(options.html)}: {error.strerror}", 1)
    say(json.dumps(report.as_json(options.top)) if options.json else log_text(words, options.top))
    return 0
