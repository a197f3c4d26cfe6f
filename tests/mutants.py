"""A mutation run: would the tests notice a mistake? `make mutants`; here, for example, `python tests/mutants.py pools`.

Each mutant of `mutate` is a process of its own, forked from one that has imported the large packages already, and runs
the judges of its file: its doctests, then the tests that `JUDGES` names, until one fails. Nothing is written to the
source. The time limit is CPU time, three times what the judge takes without a mutant, so that a loaded machine changes
no result. What is left are the survivors: mistakes that no test notices, and changes that are none.
"""

import argparse
import ast
import gc
import importlib
import os
import signal
import sys
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from mutate import Mutant, mutants_of
from planted import Planted, asked, decide, forked, limit_of

ROOT = Path(__file__).resolve().parent.parent
PRELOAD = ("numpy", "torch", "hypothesis.stateful", "nbval.plugin", "safetensors.torch", "tokenizers")
FLOOR = 0.80  # the share of mutants that must die, in each package
MEMORY = 4 << 30  # bytes that one process may have: some mutants grow a list without end

# Of these no mutants are made: what needs slow judges, what is compiled from the text of the file, and what runs in
# another process, where no mutant is planted.
UNJUDGED = (
    "__main__", "cli", "course", "engine", "progress_bar", "store/triton_copy",
    "tools/__main__", "tools/pytest_plugin", "tools/why/builder_process",
)  # fmt: skip

# For each file of `minikv`, or for all others of a folder, the tests that judge it, the quickest first. A key that
# begins with `tools/` is a file of `minikv_tools`, and its judges are in tools/tests.
JUDGES = {
    "break_even": "break_even",
    "errors": "errors manager manager_faults",
    "files": "files",
    "interrupts": "interrupts threads ctrl_c",
    "layers": "layers",
    "model_types": "layers",
    "sizing": "sizing layers arguments",
    "tokens": "tokens contract",
    "untrusted": "untrusted broken_checkpoints",
    "copy_on_write": "copy_on_write museum_llmds ctrl_c::test_shared_pages_survive_ctrl_c_at_any_line",
    "testing": "ledger_and_canary watch interleave",
    "testing/attempt": "attempt answers exercises",
    "testing/canary": "ledger_and_canary engine windowed_manager",
    "testing/model": "conformance machine",
    "testing/snapshot": "draw film",
    "testing/adapter": "adapter",
    "testing/apart": "apart verify",
    "testing/audits": "conformance",
    "testing/calls": "conformance",
    "testing/cases": "conformance",
    "testing/playing": "conformance machine::test_radix",
    "testing/rules": "conformance verify",
    "testing/scenarios": "conformance machine::test_requests_that_take_turns",
    "testing/search": "conformance",
    "testing/time_limit": "attempt",
    "testing/verify": "conformance verify",
    "prefix/contract": "no_cache radix contract",
    "prefix/eviction": "eviction tree_check radix machine::test_radix",
    "prefix/hash_blocks": "tree_check hash_blocks contract machine::test_another_design",
    "prefix/radix": "tree_check radix race::test_a_bare_index_is_given_what_follows_the_lock_only_if_it_says_so "
    "scheduler::test_a_run_is_scheduled_so eviction contract machine::test_radix",
    "prefix/base_index": "no_cache arguments contract",
    "prefix/sliding_window": "tree_check sliding_window still_radix window_machine arguments contract",
    "prefix/token_trie": "tree_check hash_blocks contract machine::test_another_design",
    "prefix/host_memory": "tiered",
    "prefix/tiered": "tiered still_radix",
    "prefix/tree_check": "tree_check radix sliding_window contract",
    "prefix/windows": "tree_check sliding_window still_radix window_machine contract",
    "pools/bitmask": "pools arguments",
    "pools/contract": "pools arguments contract",
    "pools/free_list": "pools manager manager_faults",
    "pools/page_table": "page_table arguments manager manager_faults",
    "pools/queue": "pools arguments",
    "pools/windowed": "windowed_manager windowed_model",
    "store": "slots moves store_audit store",
    "manager/audit": "audit manager",
    "manager/fit": "fit arguments manager",
    "manager/host_moves": "host_moves fit engine_faults engine_oracle",
    "manager/manager": "fit threads manager manager_faults host_moves ctrl_c interrupts arguments",
    "manager/sequence": "manager manager_faults",
    "manager/layered": "layered",
    "manager/windowed": "windowed_manager engine_faults",
    "cli/bench": "bench",
    "cli/chat": "chat word_wrap",
    "cli/replay": "cli_replay",
    "measure": "workloads lives race bench",
    "traffic": "tables trace_tree made_up synthetic traces trace_file agents mooncake curve broken_traces cli_replay",
    "traffic/replay": "replay pools reuse",
    "traffic/reuse": "curve reuse",
    "course/film": "film_words film film_laws",
    "course/pictures/cells": "film_words branches draw",
    "course/pictures/palette": "picture draw",
    "course/pictures/picture": "picture draw",
    "course/pictures/shelves": "shelves film_words draw",
    "course/playground": "playground_says playground playground_widgets",
    "course/classroom": "classroom",
    "course/pieces/catch": "catch",
    "course/pieces/checking": "kept judge answers record",
    "course/pieces/cost": "answers",
    "course/pieces/facts": "judge answers",
    "course/pieces/guessing": "guesses catch",
    "course/pieces/hunt": "answers",
    "course/pieces/mine": "kept colab answers",
    "course/pieces/mistakes": "judge answers pieces",
    "course/pieces/observer": "judge answers pieces",
    "course/pieces/origin": "kept answers",
    "course/pieces/piece": "answers judge pieces",
    "course/pieces/pressing": "guesses",
    "course/pieces/record": "record guesses "
    "classroom::test_progress_is_looked_for_here_and_then_in_the_folder_of_the_course",
    "course/pieces/scoreboard": "scoreboard",
    "course/pieces/showing": "step_pictures judge",
    "course/pieces/stored": "judge classroom",
    "course/pieces/trial": "judge answers exercises pieces",
    "course/pieces/worlds": "kept judge answers pieces",
    "serving/attention": "attention llama",
    "serving/batch": "attention llama llama_oracle",
    "serving/chat": "chat broken_checkpoints",
    "serving/chat_format": "chat_format chat small_model",
    "serving/checkpoint": "llama broken_checkpoints llama_oracle",
    "serving/managers": "scheduler_ends drafts twins",
    "serving/model": "sampling engine arguments llama",
    "serving/drafts": "drafts drafts_oracle",
    "serving/engine": "engine scheduler scheduler_ends ctrl_c threads drafts drafts_oracle engine_faults",
    "serving/llama": "llama packed broken_checkpoints llama_oracle",
    "serving/request": "scheduler scheduler_ends engine arguments",
    "serving/schedule": "scheduler scheduler_ends arguments engine drafts drafts_oracle",
    "serving/scheduler": "scheduler scheduler_ends arguments engine ctrl_c",
    "serving/phrasebook": "phrasebook",
    "serving/tokenizer": "tokenizer broken_checkpoints",
    "serving/layered_llama": "layered",
    "serving/windowed_llama": "windowed_model",
    "tools/__init__": "python",
    "tools/bodies": "bodies why_pairs",
    "tools/exports": "formats why_log",
    "tools/formats": "formats bodies",
    "tools/journal": "journal",
    "tools/log_format": "log_format cli_plan::test_an_estimate_of_tokens_is_marked_in_every_form",
    "tools/logs": "logs units log_format bodies::test_a_time_is_in_milliseconds "
    "bodies::test_a_conversation_is_named_by_text_or_a_number",
    "tools/pieces": "bodies why_pairs formats",
    "tools/report": "report",
    "tools/usage": "usage formats",
    "tools/cli/__init__": "tools_extras",
    "tools/cli/extras": "tools_extras",
    "tools/cli/plan": "cli_plan plan_files plan_words tools_extras::test_what_a_command_offers",
    "tools/cli/sweep": "sweep tools_extras::test_what_a_command_offers",
    "tools/cli/trace": "cli_trace tools_extras::test_what_a_command_offers",
    "tools/cli/why": "tools_extras::test_what_a_command_offers "
    "tools_extras::test_what_a_command_cannot_do_is_refused_with_what_it_can "
    "tools_extras::test_what_an_option_takes why_sources why_sessions why_log",
    "tools/plans/__init__": "quantities planning plan_words tiering python "
    "cli_plan::test_a_mistake_is_one_line_and_nothing_is_written "
    "cli_plan::test_bytes_are_no_tokens_of_a_model",
    "tools/plans/plan_files": "plan_files plan_words tiering",
    "tools/plans/plan_words": "plan_words plan_files tiering",
    "tools/plans/planning": "planning plan_words plan_files tiering "
    "python::test_a_log_is_planned_in_the_units_that_it_is_cut_into",
    "tools/plans/prefill_cost": "prefill_cost",
    "tools/plans/prefixes": "prefixes plan_words planning",
    "tools/plans/quantities": "quantities",
    "tools/plans/tiering": "quantities plan_words tiering",
    "tools/sweep/__init__": "sweep",
    "tools/sweep/sweep_config": "sweep",
    "tools/sweep/workers": "workers",
    "tools/why/__init__": "why_caches why_pairs why_sources why_providers",
    "tools/why/breakpoints": "why_providers",
    "tools/why/breaks": "why_breaks why_log why_fixes",
    "tools/why/changes": "why_pairs why_log",
    "tools/why/changing": "why_symbols why_fixes",
    "tools/why/fixes": "why_log why_fixes",
    "tools/why/histories": "why_breaks why_pairs why_log",
    "tools/why/log": "why_log why_fixes",
    "tools/why/log_report": "why_log",
    "tools/why/places": "why_places why_sources why_pairs",
    "tools/why/providers": "why_providers",
    "tools/why/rewrites": "why_symbols why_fixes why_log",
    "tools/why/second": "why_pairs why_blind",
    "tools/why/sessions": "why_sessions",
    "tools/why/stable": "stable",
    "tools/why/symbols": "why_symbols why_pairs why_log why_fixes",
    "tools/why/texts": "why_texts why_places why_pairs",
    "tools/why/bills": "why_verdicts why_log why_providers",
    "tools/why/verdicts": "why_verdicts why_log",
}


def source_of(name):
    folder, file = "minikv", name
    if name.startswith("tools/"):
        folder, file = "tools/minikv_tools", name.removeprefix("tools/")
    return ROOT / folder / f"{file}.py"


def module_of(name):
    """The module that a file is when it is imported."""
    home = ROOT / "tools" if name.startswith("tools/") else ROOT
    parts = source_of(name).relative_to(home).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def names():
    """The files that have judges: those of `JUDGES`, and in the place of a folder its others."""
    found = {}
    for key in JUDGES:
        inside = sorted(source_of(key).with_suffix("").glob("*.py"))
        here = [f"{key}/{path.stem}" for path in inside if path.stem != "__init__"]
        found |= dict.fromkeys([name for name in here if name not in UNJUDGED] or [key])
    return list(found)


def judges_of(name):
    """What pytest is asked to run for a file: its own doctests first."""
    judges = JUDGES[name] if name in JUDGES else JUDGES[name.rpartition("/")[0]]
    tests = "tools/tests" if name.startswith("tools/") else "tests"
    files = [judge.partition("::") for judge in judges.split()]
    doctests = source_of(name).relative_to(ROOT).as_posix()
    return [doctests, *(f"{tests}/test_{file}.py{colons}{test}" for file, colons, test in files)]


@dataclass
class Trial:
    """A mutant before its judges."""

    name: str
    tree: ast.Module
    mutant: Mutant
    judges: deque[str] = field(init=False)
    survived: bool = True

    def __post_init__(self):
        self.judges = deque(judges_of(self.name))

    def begin(self, limits):
        """Ask the next judge, in a process of its own; returns its number."""
        judge = self.judges.popleft()
        with open(os.devnull, "wb") as nowhere:
            return forked(lambda: self._ask(judge, limits[judge]), nowhere.fileno())

    def _ask(self, judge, limit):
        import resource  # not on Windows, where doctests of this file are collected all the same

        self.mutant.plant()
        loader = Planted(module_of(self.name), source_of(self.name), self.tree)
        sys.meta_path.insert(0, loader)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        signal.alarm(10 * limit + 60)  # what waits for ever takes no CPU time
        return asked(judge)


def belongs(name, *parts):
    """Whether one of `parts` is this file, or a folder that it is in."""
    return f"{name}/".startswith(tuple(f"{part}/" for part in parts))


def trials(every, *parts):
    """For each file that belongs to `parts`, or any, one of each `every` mutants of all files."""
    number = 0
    for name in names():
        tree = ast.parse(source_of(name).read_text("utf-8"))
        all_here = [Trial(name, tree, mutant) for mutant in mutants_of(tree)]
        chosen = all_here[-number % every :: every]
        number += len(all_here)
        if chosen and (belongs(name, *parts) or not parts):
            yield chosen


def report(scores):
    """Print the score of each package; does each keep the floor?"""
    print(f"\n{'package':<10}{'mutants':>8}{'killed':>8}{'score':>8}")
    for package, killed in scores.items():
        print(f"{package:<10}{len(killed):>8}{sum(killed):>8}{sum(killed) / len(killed):>8.1%}")
    return all(sum(killed) >= FLOOR * len(killed) for killed in scores.values())


def prepare():
    """Import what every judge would import, but nothing of ours: a mutant must be imported in its place."""
    os.chdir(ROOT)
    os.environ |= {"HYPOTHESIS_PROFILE": "mutants", "OMP_NUM_THREADS": "1"}
    sys.path[:0] = [str(ROOT), str(ROOT / "tools")]
    for module in PRELOAD:
        importlib.import_module(module)
    gc.freeze()  # or each process would collect what this one has imported


def known_part(text):
    """`text`, if there is a file that belongs to it."""
    if not any(belongs(name, text) for name in names()):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a file nor a package of {', '.join(packages())}")
    return text


def packages():
    return sorted({name.split("/")[0] for name in JUDGES})


def count(text):
    """A whole number from 1."""
    if not (text.isascii() and text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Would the tests notice a mistake?")
    parser.add_argument("parts", nargs="*", type=known_part, help="packages or files: prefix/radix")
    parser.add_argument("--every", type=count, default=1, metavar="N", help="one of each N mutants, always the same")
    parser.add_argument("--jobs", type=count, default=1, help="mutants at a time")
    options = parser.parse_args(arguments)
    prepare()
    limits = {}
    scores = {}
    for chosen in trials(options.every, *options.parts):
        name = chosen[0].name
        limits |= {judge: limit_of(judge) for judge in judges_of(name) if judge not in limits}
        decide(chosen, limits, options.jobs)
        killed = [not trial.survived for trial in chosen]
        scores.setdefault(name.split("/")[0], []).extend(killed)
        print(f"{name}: {sum(killed)} of {len(killed)} mutants killed", flush=True)
        for trial in chosen:
            if trial.survived:
                place = source_of(name).relative_to(ROOT).as_posix()
                print(f"  {place}:{trial.mutant.line}: {trial.mutant}", flush=True)
    if not scores:
        parts = " ".join(options.parts)
        parser.error(f"none of each {options.every} mutants is in {parts}: nothing was tried")
    return 0 if report(scores) else 1


if __name__ == "__main__":
    sys.exit(main())
