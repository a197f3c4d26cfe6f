"""The command `minikv`: open the course, look after the installation, replay a trace, race the tree, chat."""

from __future__ import annotations

import argparse
import contextlib
import errno
import importlib.util
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from minikv import __version__
from minikv.assets import asset
from minikv.measure.command import add_bench
from minikv.measure.command import complain as _complain
from minikv.measure.command import positive as _positive
from minikv.measure.replay import Replay, replay
from minikv.measure.traces import TraceError, read_trace
from minikv.prefix.eviction import POLICIES
from minikv.prefix.radix import EVICT_BY, RadixCache


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status: 0 done, 1 something is wrong, 2 the call is wrong.

    >>> main(["replay", "no_such_file.jsonl"])
    2
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a console that has no ✓ shows a ? instead
    parser = _parser()
    options, rest = parser.parse_known_args(argv)
    if rest and options.command != "lab":
        parser.error(f"unknown arguments: {' '.join(rest)}")
    options.rest = rest
    try:
        status = int(options.run(options))
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _complain("interrupted", 130)
    except OSError as error:  # our output cannot be written: its reader has gone, or the disk is full
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1 if isinstance(error, BrokenPipeError) else _complain(f"cannot write the result: {error.strerror}", 1)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="minikv", description="How LLM serving engines manage their KV cache.")
    parser.add_argument("--version", action="version", version=f"minikv {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    lab = commands.add_parser("lab", help="open the course in JupyterLab (further options go to JupyterLab)")
    lab.set_defaults(run=_lab)

    doctor = commands.add_parser("doctor", help="what is installed, what is missing, what to do")
    doctor.set_defaults(run=_doctor)

    run = commands.add_parser("replay", help="send a Mooncake trace through the radix cache")
    run.add_argument("trace", help="a .jsonl file, or - for standard input")
    run.add_argument("--capacity", type=_positive, metavar="N", help="blocks to hold; without it nothing is evicted")
    run.add_argument("--page-size", type=_positive, default=1, metavar="P", help="blocks in a page (default 1)")
    run.add_argument("--evict-by", choices=EVICT_BY, default="node", help="evict whole nodes, or pages off their end")
    run.add_argument("--policy", choices=sorted(POLICIES), default="lru", help="who is evicted first")
    run.add_argument("--json", action="store_true", help="print one JSON object")
    run.set_defaults(run=_replay)

    add_bench(commands)

    chat = commands.add_parser("chat", help="talk to a small model, and see what the cache serves")
    chat.add_argument("--model", metavar="FOLDER", help="a Llama checkpoint of your own (default: the small one)")
    chat.add_argument("--max-new-tokens", type=_positive, default=256, metavar="N", help="in an answer (default 256)")
    chat.add_argument("--temperature", type=float, default=0.0, metavar="T", help="0, the default: the likeliest token")
    chat.add_argument("--seed", type=int, default=0, metavar="S", help="of what is drawn when T is above 0")
    chat.set_defaults(run=_chat)
    return parser


# -- replay -------------------------------------------------------------------------------------------------------


def _replay(options: argparse.Namespace) -> int:
    cache = RadixCache(options.page_size, options.policy, options.evict_by)
    name = "standard input" if options.trace == "-" else options.trace
    start = time.perf_counter()
    try:
        with _open_trace(options.trace) as file, _progress(options.trace) as bar:
            result = replay(read_trace(_counted(file, bar), name), cache, options.capacity)
    except OSError as error:
        return _complain(f"cannot read {name}: {error.strerror}", 2)
    except TraceError as error:
        return _complain(str(error), 1)
    _report(result, time.perf_counter() - start, as_json=options.json)
    return 0


@contextlib.contextmanager
def _open_trace(path: str) -> Iterator[BinaryIO]:
    if path != "-":
        with open(path, "rb") as file:
            yield file
    elif sys.stdin is None:
        raise OSError(errno.EBADF, "it is closed")
    else:
        yield sys.stdin.buffer


def _progress(path: str) -> Any:
    """A progress bar over the bytes of the file, on a terminal only; one without an end for standard input."""
    from tqdm import tqdm

    total = os.path.getsize(path) if os.path.isfile(path) else None
    return tqdm(total=total, unit="B", unit_scale=True, disable=None, leave=False)


def _counted(lines: Iterable[bytes], bar: Any) -> Iterator[bytes]:
    for line in lines:
        yield line
        bar.update(len(line))


def _report(result: Replay, seconds: float, as_json: bool) -> None:
    row = {
        "requests": result.requests,
        "blocks": result.blocks,
        "hits": result.hits,
        "hit_rate": round(result.hit_rate, 6),
        "evicted": result.evicted,
        "peak_size": result.peak_size,
        "uncached_requests": result.uncached_requests,
        "requests_per_second": round(result.requests / seconds, 1),
    }
    if as_json:
        print(json.dumps(row))
        return
    shown = {**row, "hit_rate": f"{result.hit_rate:.6f}", "requests_per_second": round(result.requests / seconds)}
    for key, value in shown.items():
        print(
            f"{key.replace('_', ' '):<20} {value:>12,}"
            if isinstance(value, int)
            else f"{key.replace('_', ' '):<20} {value:>12}"
        )


# -- chat ---------------------------------------------------------------------------------------------------------


def _chat(options: argparse.Namespace) -> int:
    if importlib.util.find_spec("torch") is None:
        return _complain("the chat needs PyTorch, which is not installed: pip install 'minikv[serving]'", 2)
    from minikv.serving.sampling import Sampler
    from minikv.serving.terminal import converse, open_chat

    try:
        Sampler(options.temperature, options.seed)  # says now what it would say at the first question
        chat = open_chat(options.model or asset("model"))
    except (OSError, ValueError, ModuleNotFoundError) as error:
        return _complain(str(error), 2)
    converse(chat, options.max_new_tokens, options.temperature, options.seed)
    return 0


# -- lab and doctor -----------------------------------------------------------------------------------------------


def find_notebooks() -> Path | None:
    """The folder with the chapters: in the current folder, or beside the package in a checkout; `None` if neither.

    >>> find_notebooks().name
    'notebooks'
    """
    for root in (Path.cwd(), Path(__file__).resolve().parent.parent):
        if (root / "notebooks" / "00_start_here.ipynb").exists():
            return root / "notebooks"
    return None


def _lab(options: argparse.Namespace) -> int:
    notebooks = find_notebooks()
    if notebooks is None:
        return _complain("there is no notebooks/00_start_here.ipynb here: run it in a checkout of the course", 2)
    if importlib.util.find_spec("jupyterlab") is None:
        return _complain("JupyterLab is not installed: pip install 'minikv[course]', or use `make lab`", 2)
    # No pop-up that asks for news in the middle of a lesson, and no request for it.
    paths = [str(asset("jupyter")), *filter(None, [os.environ.get("JUPYTER_CONFIG_PATH")])]
    quiet = {**os.environ, "JUPYTER_CONFIG_PATH": os.pathsep.join(paths)}
    where = [f"--ServerApp.root_dir={notebooks}", "--LabApp.default_url=/lab/tree/00_start_here.ipynb"]
    if hasattr(os, "geteuid") and os.geteuid() == 0 and "--allow-root" not in options.rest:
        where.append("--allow-root")  # in a container everybody is root, and JupyterLab would refuse
    return _become([sys.executable, "-m", "jupyter", "lab", *where, *options.rest], quiet)


def _become(command: list[str], environment: dict[str, str]) -> int:
    """Run `command` in place of this process, so that Ctrl-C and a stop signal reach it and not us."""
    if os.name == "posix":
        sys.stdout.flush()
        os.execve(command[0], command, environment)
    process = subprocess.Popen(command, env=environment)  # Windows has no exec that waits
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return process.wait()


def _doctor(options: argparse.Namespace) -> int:
    from minikv.doctor import examine

    findings = examine()
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        print(f"{finding.mark} {finding.name:<{width}}  {finding.found}")
        if finding.advice:
            print(f"  {'':<{width}}  -> {finding.advice}")
    broken = [finding.name for finding in findings if finding.mark == "✗"]
    print(f"\n{'Missing: ' + ', '.join(broken) if broken else 'Everything that the course needs is here.'}")
    return 1 if broken else 0
