"""The command `minikv plan`: how much cache does this traffic need?"""

from __future__ import annotations

import argparse
import hashlib
import os
from array import array

from minikv import __version__
from minikv.cli.console import complain, lacking, say
from minikv.cli.plan_options import PlanOptions, read_options
from minikv.cli.traffic import add_traffic, with_traffic
from minikv.prefix.eviction import POLICIES
from minikv.sizing import DTYPE_BITS
from minikv.traffic.plan.plan import Plan
from minikv.traffic.plan.plan_words import PlanWords
from minikv.traffic.trace_tree import TraceTree
from minikv.traffic.traces import Traffic

_EXAMPLES = """examples:
  minikv plan day.jsonl                                            hits over tokens of cache
  minikv plan day.jsonl --model llama-3.1-8b --memory 60GiB        over GiB, and at the memory of your cache
  minikv plan day.jsonl --model config.json --memory 80GiB --tp 2 --weights bf16
                                                                   80 GiB on each of two GPUs, less the weights
  minikv plan sessions.jsonl.gz --ttl 300,3600 --html report.html  what forgetting costs; a report for a browser
  minikv plan day.jsonl --policies all                             every order of eviction; go on after a stop

The curve is LRU's by pages, and the bound is what an order that knows the future could have: both exact, from one pass.
The knee is the size from which on more memory gains less than the average of the whole curve."""


def add_plan(plan: argparse.ArgumentParser) -> None:
    """Add the options of `minikv plan` to its parser.

    >>> parser = argparse.ArgumentParser(); add_plan(parser)
    >>> parser.parse_args(["day.jsonl", "--model", "llama-3.1-8b", "--memory", "60GiB"]).memory
    '60GiB'
    """
    plan.epilog = _EXAMPLES
    add_traffic(plan)
    plan.add_argument("--model", metavar="NAME|FILE", help="a config.json, its folder, or a name such as llama-3.1-8b")
    plan.add_argument("--memory", metavar="SIZE", help="what the cache may use on each GPU, such as 60GiB")
    plan.add_argument("--dtype", choices=DTYPE_BITS, default="bf16", help="of keys and values (default bf16)")
    plan.add_argument("--tp", type=int, default=1, metavar="N", help="GPUs that the model is split over (default 1)")
    plan.add_argument("--weights", choices=DTYPE_BITS, help="take weights of this type off --memory first")
    plan.add_argument("--ttl", metavar="SECONDS", help="what forgetting after so many seconds costs: 60,300,3600")
    plan.add_argument("--warm-up", default="0", metavar="SHARE", help="requests that fill the cache uncounted: 0.5")
    plan.add_argument("--policies", metavar="NAMES", help=f"replay these too: all, or some of {', '.join(POLICIES)}")
    plan.add_argument("--journal", metavar="FILE", help="where replays of --policies are kept (default TRACE.journal)")
    plan.add_argument("--csv", metavar="FILE", help="write the curve as CSV")
    plan.add_argument("--png", metavar="FILE", help="write the curve as a picture")
    plan.add_argument("--html", metavar="FILE", help="write a report for a browser")
    plan.add_argument("--json", action="store_true", help="print one JSON object")
    plan.set_defaults(run=run_plan)


def run_plan(options: argparse.Namespace) -> int:
    """Plan as `options` say and print the plan; returns the exit status."""
    try:
        wanted = read_options(options)
    except (OSError, ValueError) as error:
        return complain(str(error), 2)
    if options.png and (missing := lacking("--png", "matplotlib")):
        return complain(missing, 2)
    return with_traffic(options, lambda traffic: _plan(traffic, options, wanted))


def _plan(traffic: Traffic, options: argparse.Namespace, wanted: PlanOptions) -> int:
    from minikv.progress_bar import Progress
    from minikv.traffic.plan.planning import make_plan

    if refused := wanted.refusal(traffic):
        return complain(refused, 2)
    tree = TraceTree(traffic.requests)
    with Progress(command="plan") as tick:
        plan = make_plan(tree, wanted.terms(traffic.block_size), tick, tick.expect)
    words = PlanWords(plan, traffic.unit)
    if wanted.policies:
        from minikv.traffic.journal import JournalError

        try:
            words.policies = _policies(words, tree, traffic, options, wanted)
        except JournalError as error:
            return complain(f"{error}; --journal names another file", 2)
    about = f"{traffic}. {wanted.about()}"
    _write(plan, words, about, options)
    _print(plan, words, about, options)
    return 0


def _policies(
    words: PlanWords, tree: TraceTree, traffic: Traffic, options: argparse.Namespace, wanted: PlanOptions
) -> dict[str, dict[int, int]]:
    """Replay the trace by each policy at the sizes of the table; what an earlier run did is in the journal."""
    import contextlib
    from collections.abc import Iterable, Iterator

    from minikv.progress_bar import Progress
    from minikv.traffic.journal import open_journal
    from minikv.traffic.plan.policies import replay_policies
    from minikv.traffic.traces import TraceRequest, open_traffic

    @contextlib.contextmanager
    def requests() -> Iterator[Iterable[TraceRequest]]:
        with open_traffic(options.trace, options.span, options.block_size, options.tokenizer) as again:
            yield again.requests

    sizes = [point.blocks for point in words.shown_points()]
    digest = hashlib.sha256()
    for column in (tree.parents, tree.depths, tree.ends):  # all that decides what hits
        digest.update(array("q", [len(column), *column]).tobytes())
    work = {"minikv": __version__, "plan": traffic.format, "prompts": digest.hexdigest()}
    journal_path = options.journal or f"{os.path.basename(options.trace)}.journal"
    with open_journal(journal_path, work) as journal, Progress(command="plan") as progress:
        return replay_policies(requests, wanted.policies, sizes, journal, progress)


def _write(plan: Plan, words: PlanWords, about: str, options: argparse.Namespace) -> None:
    from minikv.files import replace
    from minikv.traffic.plan.plan_files import curve_csv, plan_curves

    if options.csv:
        replace(options.csv, curve_csv(plan, words.policies))
    if options.png:
        from minikv.traffic.plan.curve_png import curve_png

        replace(options.png, curve_png(plan_curves(plan, words)))
    if options.html:
        from minikv.traffic.plan.plan_page import plan_page

        replace(options.html, plan_page(plan, words, about))


def _print(plan: Plan, words: PlanWords, about: str, options: argparse.Namespace) -> None:
    from minikv.traffic.plan.plan_files import plan_object
    from minikv.traffic.plan.report_parts import text_lines

    if options.json:
        import json

        say(json.dumps(plan_object(plan, words.unit, words.policies)))
        return
    say(about)
    say(words.summary())
    for line in text_lines(list(words.sections())):
        say(line)
