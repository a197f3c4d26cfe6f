"""The command `minikv why`: where two prompts part, or which places of a log's prompts break their prefix."""

from __future__ import annotations

import argparse
import json
from typing import Any

from minikv.cli.console import complain, lacking, say
from minikv.cli.importing import importing
from minikv.errors import shown
from minikv.measure.why.caches import HYBRID
from minikv.measure.why.explain import explain
from minikv.measure.why.explanation_text import explanation_text
from minikv.measure.why.sources import read_prompt
from minikv.measure.why.units import PromptUnit

_MOST_BLOCK = 2**31 - 1
_EXAMPLES = """examples:
  minikv why monday.json tuesday.json                 two request bodies: where they part, and what kind of change it is
  minikv why log.jsonl:17 log.jsonl:18                two lines of a log
  minikv why a.txt b.txt --tokenizer ~/Qwen3-8B       two prompts as text, counted in the tokens of a model
  minikv why a.json b.json --blocks 16,784            what a hybrid model with blocks of 16 and 784 would reuse"""


def add_why(commands: Any) -> None:
    """Add `why` to the sub-commands of a parser.

    >>> parser = argparse.ArgumentParser(); add_why(parser.add_subparsers())
    >>> parser.parse_args(["why", "a.json", "b.json", "--blocks", "16,784"]).blocks
    (16, 784)
    """
    says = "why a prompt missed the cache: where it parts from another one, and what to do"
    lines = argparse.RawDescriptionHelpFormatter
    why = commands.add_parser("why", help=says, description=says, epilog=_EXAMPLES, formatter_class=lines)
    why.add_argument("a", metavar="A", help="a file with a prompt or a request body, or FILE:LINE of a log")
    why.add_argument("b", metavar="B", help="the prompt that missed, named like A")
    why.add_argument("--tokenizer", metavar="FOLDER", help="a checkpoint, to count its tokens (default: count bytes)")
    why.add_argument("--blocks", type=block_sizes, default=HYBRID, metavar="N,M",
                     help=f"tokens in the blocks of a hybrid model's groups (default {HYBRID[0]})")  # fmt: skip
    why.add_argument("--json", action="store_true", help="print one JSON object")
    why.set_defaults(run=run_why)


def block_sizes(text: str) -> tuple[int, ...]:
    """`text` as sizes of blocks; the error that argparse expects says what is wrong.

    >>> block_sizes("16,784")
    (16, 784)
    """
    parts = text.split(",")
    if not 1 <= len(parts) <= 8 or not all(part.strip().isascii() and part.strip().isdigit() for part in parts):
        raise argparse.ArgumentTypeError(f"{text[:60]!r} is not a list of block sizes, such as 16,784")
    sizes = tuple(int(part[:12]) for part in parts)
    if not all(1 <= size <= _MOST_BLOCK for size in sizes):
        raise argparse.ArgumentTypeError(f"{text[:60]!r}: a block holds from 1 to {_MOST_BLOCK} tokens")
    return sizes


def run_why(options: argparse.Namespace) -> int:
    """Compare two prompts as `options` say and print what was found; returns the exit status."""
    try:
        unit = _unit(options.tokenizer)
    except (OSError, ValueError, ModuleNotFoundError) as error:
        return complain(str(error), 2)
    try:
        found = explain(read_prompt(options.a), read_prompt(options.b), unit, options.blocks)
    except OSError as error:
        return complain(f"cannot read {shown(str(error.filename or 'the prompt'))}: {error.strerror}", 2)
    except ValueError as error:  # also where the tokenizer refuses a text
        return complain(str(error), 1)
    say(json.dumps(found.as_json()) if options.json else explanation_text(found))
    return 0


def _unit(folder: str | None) -> PromptUnit:
    """What prompts are counted in: the tokens of the checkpoint in `folder`, or bytes."""
    if folder is None:
        return PromptUnit()
    if missing := lacking("--tokenizer", "tokenizers"):
        raise ModuleNotFoundError(missing)
    with importing():
        from minikv.serving.tokenizer import load_tokenizer
    return PromptUnit(load_tokenizer(folder))
