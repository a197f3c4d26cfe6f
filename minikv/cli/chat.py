"""The command `minikv chat`: talk to a small model, or to a checkpoint of your own."""

from __future__ import annotations

import argparse
import sys

from minikv.cli.command import complain, lacking, positive, whole, writing
from minikv.errors import shown
from minikv.files import asset
from minikv.untrusted import refusal

_EXAMPLES = """examples:
  minikv chat                                         the small model that comes with the package
  minikv chat --temperature 0.8 --seed 3              sampled answers, the same ones for the same seed
  minikv chat --model ~/Llama-3.2-1B                  a Llama checkpoint of your own"""


def add_chat(chat: argparse.ArgumentParser) -> None:
    """Add the options of `minikv chat` to its parser.

    >>> parser = argparse.ArgumentParser(); add_chat(parser)
    >>> parser.parse_args(["--seed", "3"]).seed
    3
    """
    chat.epilog = _EXAMPLES
    chat.add_argument("--model", metavar="FOLDER", help="a Llama checkpoint of your own (default: the small one)")
    chat.add_argument("--max-new-tokens", type=positive, default=256, metavar="N", help="in an answer (default 256)")
    chat.add_argument("--temperature", type=float, default=0.0, metavar="T", help="0, the default: the likeliest token")
    chat.add_argument("--seed", type=whole, default=0, metavar="S", help="for sampling, when T is above 0 (default 0)")


def run_chat(options: argparse.Namespace) -> int:
    """Load the model that `options` name and chat until the input ends; returns the exit status."""
    if sys.stdin is None:
        return complain("cannot read the questions: standard input is closed", 2)
    if missing := lacking("the chat", "torch", "safetensors"):
        return complain(missing, 2)
    from minikv.serving.chat import converse, open_chat
    from minikv.serving.model import SamplingParams
    from minikv.serving.phrasebook import Phrasebook

    try:
        params = SamplingParams(options.max_new_tokens, options.temperature, options.seed)
        chat = open_chat(options.model or asset("model"))
        phrasebook = None if options.model else Phrasebook.read(asset("model/corpus.json"))
    except (OSError, ValueError, ModuleNotFoundError) as error:
        return complain(str(error), 2)
    except (RuntimeError, MemoryError) as error:  # torch finds no memory for the weights, or for the keys and values
        return complain(str(refusal(f"cannot open {shown(str(options.model))}", error)), 2)
    with writing("the chat cannot continue"):
        converse(chat, params, phrasebook=phrasebook)
    return 0
