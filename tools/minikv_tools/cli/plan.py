"""The command `minikv plan`: how much cache does this traffic need?"""

from __future__ import annotations

import argparse
import json

from minikv.cli.command import option, refusing, say
from minikv.cli.traffic import add_traffic, with_traffic
from minikv.course.pictures.chart import Chart, chart_svg
from minikv.course.pictures.svg import svg_size
from minikv.errors import bounded
from minikv.files import replace
from minikv.progress_bar import Progress
from minikv.sizing import DTYPE_BITS, size_text
from minikv.traffic import Traffic
from minikv.traffic.trace_tree import TraceTree
from minikv_tools.cli.extras import add_options, help_texts, require_apart
from minikv_tools.log_format import estimated
from minikv_tools.plans import Terms
from minikv_tools.plans.plan_files import curve_csv, plan_object, plan_page
from minikv_tools.plans.plan_words import PlanWords
from minikv_tools.plans.planning import make_plan
from minikv_tools.plans.quantities import GIB, hours
from minikv_tools.plans.tiering import memory_size
from minikv_tools.report import many


def add_plan(plan: argparse.ArgumentParser) -> None:
    """Add the options of `minikv plan` to its parser.

    >>> parser = argparse.ArgumentParser(); add_plan(parser)
    >>> parser.parse_args(["day.jsonl", "--model", "llama-3.1-8b", "--memory", "1kB"]).memory
    1000
    """
    (plan.epilog,) = help_texts("plan")
    add_traffic(plan)
    types = {"memory_size": option(memory_size), "seconds_list": seconds_list}
    add_options(plan, "plan", dtypes=DTYPE_BITS, **types)


@option
def seconds_list(text: str) -> tuple[float, ...]:
    """Return `text` as numbers, separated by commas.

    >>> seconds_list("60,300")
    (60.0, 300.0)
    """
    try:
        return tuple(map(float, text.split(",")))
    except ValueError:
        raise ValueError(f"{bounded(text)}: expected seconds, such as 60,300,3600") from None


def run_plan(options: argparse.Namespace) -> int:
    """Plan as `options` say and print the plan; returns the exit status."""
    with refusing(OSError, ValueError):
        require_apart(options.trace, options.csv, options.html)
        terms = Terms.for_model(options.model, options.memory, options.dtype, options.state_dtype, options.tp,
                                options.weights, options.ttl, options.warm_up, options.tiers,
                                options.bytes_per_token, options.bytes_per_sequence)  # fmt: skip

    def use(opened: Traffic) -> int:
        traffic = estimated(opened, options.text_bytes_per_token)
        return _plan(traffic, options, terms.on(traffic))

    return with_traffic(options, use)


def _plan(traffic: Traffic, options: argparse.Namespace, terms: Terms) -> int:
    tree = TraceTree(traffic.requests)
    with Progress(command=options.prog) as progress:
        plan = make_plan(tree, terms, progress)
    about, words = f"{traffic}. {_about(options, terms)}", PlanWords(plan)
    if options.csv:
        replace(options.csv, curve_csv(plan))
    if options.html:
        replace(options.html, plan_page(words, about, plan_picture(words)))
    say(json.dumps(plan_object(plan)) if options.json else f"{about}\n{plan!r}")
    return 0


def _about(options: argparse.Namespace, terms: Terms) -> str:
    """The model and its memory, in a sentence."""
    if terms.bytes_per_token is None:
        return "No model was given, so sizes are in the units of the trace."
    name = f"{options.model}: " if options.model else "As given, "
    of = terms.layers.dtype and f" of {terms.layers.dtype}"
    gpus, kept = terms.gpus, terms.layers.bytes_per_sequence

    def on_gpus(size: int) -> str:
        return f" on each of {gpus} GPUs ({size_text(size * gpus)} in all)" if gpus > 1 else ""

    each = terms.bytes_per_token
    said = f"{name}{size_text(each)}{of} per token{on_gpus(each)}"
    if kept:
        said += f" and {size_text(kept)} per prompt{on_gpus(kept)}"
    if terms.memory is not None:
        said += (
            f"; the cache may use {size_text(terms.memory)}{on_gpus(terms.memory)}: "
            f"{many(terms.memory // each, 'token')}"
        )
        if kept >= terms.memory:
            said += ", but one long prompt's windows and states take more"
        elif kept:
            said += ", minus windows and states of prompts"
    unsaid = "Its FLOPs are not counted." if options.model else "FLOPs and prefill times need a model."
    return said + ("." if terms.cost else f". {unsaid}")


# -- the picture ------------------------------------------------------------------------------------------------------


def plan_curves(words: PlanWords) -> Chart:
    """The curve of the plan, to be drawn.

    >>> from minikv_tools.plans import Terms
    >>> from minikv_tools.plans.planning import TraceTree, make_plan
    >>> list(plan_curves(PlanWords(make_plan(TraceTree(), Terms(16)))).lines)
    ['LRU', 'bound of any eviction']
    """
    plan = words.plan
    scale = words.block_bytes / GIB if words.block_bytes else plan.block_size
    lines = {
        "LRU": [100 * point.hit_rate for point in plan.points],
        "bound of any eviction": [100 * point.bound_rate for point in plan.points],
    }
    marks = {name: blocks * scale for name, blocks in words.sizes.items() if blocks}
    axis = f"GiB of cache{words.each}" if words.block_bytes else f"{plan.unit} of cache"
    level = (f"ceiling {words.share(plan.ceiling.hits)}", 100 * plan.ceiling.hit_rate)
    sizes = [point.blocks * scale for point in plan.points]
    return Chart("Share of blocks that hit, by size", axis, sizes, lines, " %", "x", marks, level)


def hours_chart(words: PlanWords) -> Chart:
    """The hours of a plan with tiers, by size, to be drawn: loading pays as long as it is below computing.

    >>> from minikv_tools import plan
    >>> tiers = plan("synthetic:chat?requests=9", "llama-3.1-8b", tiers="gpu=1GiB,host=4GiB@50GB/s")
    >>> list(hours_chart(PlanWords(tiers)).lines)
    ['prefill left', 'loading', 'computing what is loaded']
    """
    curve, times, without = plan_curves(words), words.plan.hours, words.plan.hours_without_cache
    fields = {"prefill left": "prefill_hours", "loading": "load_hours", "computing what is loaded": "loaded_hours"}
    lines = {name: [getattr(at, field) or None for at in times] for name, field in fields.items()}
    marks = {name: at for name, at in curve.marks.items() if name != "knee"}
    level = f"no cache {hours(without)}", without
    return Chart("Hours of prefill and of loading, by size", curve.axis, curve.xs, lines, " h", "xy", marks, level)


def plan_picture(words: PlanWords) -> str:
    """The curve of the plan as a picture in SVG, and with tiers the hours below it.

    >>> from minikv_tools.plans import Terms
    >>> from minikv_tools.plans.planning import TraceTree, make_plan
    >>> plan_picture(PlanWords(make_plan(TraceTree(), Terms(16)))).count("<svg")
    1
    """
    chart = chart_svg(plan_curves(words))
    if not words.plan.hours:
        return chart
    wide, high = svg_size(chart)
    below = f'<g transform="translate(0 {high:g})">{chart_svg(hours_chart(words))}</g>'
    size = f'viewBox="0 0 {wide:g} {2 * high:g}" width="{wide:g}" height="{2 * high:g}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{chart}{below}</svg>'
