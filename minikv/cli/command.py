"""The sub-commands of `minikv`, how one is run, and what they share: options, complaints, the lines of a result."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.util
import io
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import NoReturn, cast

from minikv import __version__
from minikv.errors import EXTRAS, bounded, one_line, remedy, shown

# The commands by what they are for. The tools' own are found as entry points of the group minikv.commands.
COMMANDS = {
    "course": {
        "lab": "open the course in JupyterLab (further options go to JupyterLab)",
        "progress": "show which pieces and exercises you have solved",
        "classroom": "judge the files of a class: who solved what, and the most frequent mistakes",
        "chat": "talk to a small model, and see what the cache saves",
        "doctor": "check what is installed, and what is missing",
    },
    "caches": {
        "replay": "send a trace through a prefix cache",
        "bench": "race the cache against the textbook tree and the physical limit",
        "verify": "check which rules of the contract a cache keeps",
    },
    "tools": {
        "why": "explain why a prompt missed the cache: what changed before it, and what to do",
        "plan": "show how much cache a trace needs: hits at each size, and what bounds them",
        "sweep": "replay traces through many caches, on all cores",
        "trace": "turn a log of requests into an anonymous trace in Mooncake's format",
    },
}
TOOLS = "minikv-tools"  # the package that brings the last group, and its own command, which has these alone
_ABOUT = {
    "minikv": "How LLM serving engines manage their KV cache.",
    TOOLS: "Why prompts miss the prefix cache, and how much cache traffic needs.",
}
_HOMES = {"progress": "classroom"}  # the module of a command that has none of its own
_RESULT = "cannot write the result"


def run(argv: Sequence[str] | None = None, program: str = "minikv") -> int:
    """Run the command of this name and return its exit status; Ctrl-C is for the caller.

    >>> run(["replay", "no_such_file.jsonl"])
    2
    """
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a console that has no ✓ shows a ? instead
    name = program
    try:
        parser = _parser(sys.argv[1:] if argv is None else argv, program)
        options, rest = parser.parse_known_args(argv)
        name = options.command
        if rest and (name != "lab" or options.where):
            parser.error(f"unknown arguments: {' '.join(rest)}")
        options.rest = rest
        if sys.stdout is None and name != "lab":
            raise CommandError("cannot write the result: standard output is closed")
        status = int(options.run(options))
        flush()
        return status
    except CommandError as error:
        failure = error
    except OSError as error:  # of a file or a folder that the command needs
        failure = CommandError(f"{name} cannot continue: {error}")
    return _told(failure, program)


def _told(failure: CommandError, program: str) -> int:
    """Say what went wrong; returns the exit status."""
    if isinstance(failure, OutputError):
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if not isinstance(failure.__cause__, BrokenPipeError):  # the reader of the result has gone
        complain(str(failure), program)
    return failure.status


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are lines that a terminal can show, whatever was typed."""

    def error(self, message: str) -> NoReturn:
        super().error(one_line(message))


def _parser(arguments: Sequence[str], program: str) -> argparse.ArgumentParser:
    """All commands with their one line of help; only the module of the one that is called is imported."""
    groups = {"tools": COMMANDS["tools"]} if program == TOOLS else COMMANDS
    lines = argparse.RawDescriptionHelpFormatter
    listed = "\n".join(_listed(groups))
    parser = _Parser(prog=program, description=_ABOUT[program], epilog=listed, formatter_class=lines)
    parser.add_argument("--version", action="version", version=f"{program} {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", help="one of the commands below")
    called = arguments[0] if arguments else None
    for group, names in groups.items():
        for name, says in names.items():
            command = commands.add_parser(name, description=says, formatter_class=lines)
            if name == called:
                module = _module_of(group, name)
                if name != "doctor":  # it has no options
                    getattr(module, f"add_{name}")(command)
                command.set_defaults(run=getattr(module, f"run_{name}"), program=program, prog=command.prog)
    return parser


def _listed(groups: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """The lines of `--help` that say what each command does."""
    width = max(len(name) for names in groups.values() for name in names)
    for group, names in groups.items():
        yield f"{group} (pip install {TOOLS}):" if group == "tools" and len(groups) > 1 else f"{group}:"
        yield from (f"    {name:<{width}}  {says}" for name, says in names.items())


def _module_of(group: str, name: str) -> ModuleType:
    """The module of a command; `RefusedError` where it is another package's, which is not installed."""
    if group != "tools":
        return importlib.import_module(f"minikv.cli.{_HOMES.get(name, name)}")
    from importlib.metadata import entry_points

    for entry in entry_points(group="minikv.commands", name=name):
        with refusing(Exception):  # whatever is wrong with what another package installed
            return cast(ModuleType, entry.load())
    raise RefusedError(f"{name} is a command of {TOOLS}, which is not installed: pip install {TOOLS}")


# -- what the commands share ------------------------------------------------------------------------------------------


class CommandError(Exception):
    """The command cannot do what it was asked: `run` says why in one line, and returns `status`.

    >>> CommandError("the index failed").status, RefusedError("there is no such file").status
    (1, 2)
    """

    status = 1


class RefusedError(CommandError):
    """The call or its input is wrong."""

    status = 2


class OutputError(CommandError):
    """Standard output cannot be written: its reader has gone, or the disk is full; the cause is the `OSError`."""


@contextlib.contextmanager
def refusing(*kinds: type[Exception], error: type[Exception] = RefusedError) -> Iterator[None]:
    """While it is open, an error of one of these `kinds` ends the command: it becomes a `RefusedError`, or an `error`.

    It decorates functions, too.

    >>> with refusing(ValueError):
    ...     raise ValueError("there is no chapter 99")
    Traceback (most recent call last):
    minikv.cli.command.RefusedError: there is no chapter 99
    """
    try:
        yield
    except kinds as found:
        raise error(str(found)) from found


@contextlib.contextmanager
def failing(failure: str, error: type[CommandError] = OutputError) -> Iterator[None]:
    """While it is open, an `OSError` is one of standard output: it becomes an `error` that says `failure`, and why.

    >>> with failing("cannot write the result"):
    ...     raise OSError(28, "No space left on device")
    Traceback (most recent call last):
    minikv.cli.command.OutputError: cannot write the result: No space left on device
    """
    try:
        yield
    except OSError as found:
        raise error(f"{failure}: {found.strerror}") from found


def using(path: str, verb: str = "read") -> contextlib.AbstractContextManager[None]:
    """While it is open, an `OSError` is one of the file `path`, and becomes a `RefusedError` that names it.

    >>> with using("-"):
    ...     raise OSError(9, "it is closed")
    Traceback (most recent call last):
    minikv.cli.command.RefusedError: cannot read standard input: it is closed
    """
    name = "standard input" if path == "-" else shown(path)
    return failing(f"cannot {verb} {name}", RefusedError)


# -- options ----------------------------------------------------------------------------------------------------------

# Decorates the type of an option, a function of the text: where it raises `ValueError`, argparse says its message.
option = refusing(ValueError, error=argparse.ArgumentTypeError)


@option
def whole(text: str) -> int:
    """`text` as a whole number.

    >>> whole("-7")
    -7
    """
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{bounded(text)} is not a whole number") from None


@option
def positive(text: str) -> int:
    """`text` as a whole number of at least 1.

    >>> positive("7")
    7
    """
    if (number := whole(text)) < 1:
        raise ValueError(f"{bounded(number)} is less than 1")
    return number


def add_json(command: argparse.ArgumentParser) -> None:
    """Add the option `--json` to a command.

    >>> parser = argparse.ArgumentParser(); add_json(parser)
    >>> parser.parse_args(["--json"]).json
    True
    """
    command.add_argument("--json", action="store_true", help="print one JSON object")


# -- lines ------------------------------------------------------------------------------------------------------------


def say(text: str) -> None:
    """Print a line of the result, or raise `OutputError`.

    >>> say("done")
    done
    """
    with failing(_RESULT):
        print(text)


def flush() -> None:
    """Write what is printed so far, if there is a standard output, or raise `OutputError`."""
    with failing(_RESULT):
        print(end="", flush=True)


def mention(text: str) -> None:
    """Print a line on standard error, if there is one."""
    if sys.stderr is not None:
        print(one_line(text, 1008), file=sys.stderr)


def complain(what: str, program: str = "minikv") -> None:
    """Say what is wrong on standard error, in one line that names the `program`, if there is one."""
    mention(f"{program}: {what}")


# -- packages ---------------------------------------------------------------------------------------------------------


def require_packages(
    what: str, *packages: str, extras: Mapping[str, Sequence[str]] = EXTRAS, distribution: str = "minikv"
) -> None:
    """Raise `RefusedError` unless the `packages` that `what` needs are there; it says how to install the first.

    `extras` has the packages that come with each extra of the `distribution`.

    >>> require_packages("this line", "json", "no_such_thing")
    Traceback (most recent call last):
    minikv.cli.command.RefusedError: this line needs no_such_thing, which is not installed: pip install no_such_thing
    """
    for package in packages:
        if importlib.util.find_spec(package) is None:
            name = "PyTorch" if package == "torch" else package
            found = remedy(package, extras, distribution)
            raise RefusedError(f"{what} needs {name}, which is not installed: {found}")
