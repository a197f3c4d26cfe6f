"""The first steps of the commands: read their help, look for a package, check that a file can be written."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

from minikv.cli.command import TOOLS, RefusedError, positive, refusing, require_packages, using
from minikv.errors import shown
from minikv.files import destination

EXTRAS = {
    "sweep": ("joblib",),
    "tokenizer": ("tokenizers",),
}


def help_texts(command: str) -> list[str]:
    """The parts of a command's help, which is in a text file with the command's name.

    >>> help_texts("plan")[0].splitlines()[0]
    'examples:'
    """
    return Path(__file__).with_name(f"{command}.txt").read_text("utf-8").rstrip("\n").split("\n----\n")


def add_options(command: argparse.ArgumentParser, name: str, **values: Any) -> None:
    """Add the options that `options.json` has for the command `name`; a word there that names one of `values` is that.

    >>> parser = argparse.ArgumentParser(); add_options(parser, "sweep")
    >>> parser.parse_args(["day.toml", "--jobs", "4"]).jobs
    4
    """
    values |= {"int": int, "float": float, "positive": positive}
    for flags, settings in json.loads(Path(__file__).with_name("options.json").read_text("utf-8"))[name].items():
        settings = {key: values.get(str(value), value) for key, value in settings.items()}
        command.add_argument(*flags.split(), **settings)


def need(what: str, *packages: str) -> None:
    """Raise `RefusedError` unless the `packages` that `what` needs are there; it names the extra of the first.

    >>> need("this line", "json")
    """
    require_packages(what, *packages, extras=EXTRAS, distribution=TOOLS)


def require_apart(read: str, *paths: str | None) -> None:
    """Refuse to write to `paths` that cannot be written, or to the file that is read; a path of `None` is skipped.

    >>> require_apart("day.jsonl", "new.csv", None)
    """
    for path in filter(None, paths):
        with using(path, "write"), refusing(ValueError):
            target = destination(path)
            if target.exists() and os.path.exists(read) and os.path.samefile(target, read):
                what = "is read, and would be overwritten: name another file"
                raise RefusedError(f"{shown(path)} {what}")
