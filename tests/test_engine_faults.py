"""Steps of an engine that fail anywhere, over every index: no token changes, nobody waits for ever, nothing is lost."""

import contextlib
import random
import signal
from dataclasses import replace

import pytest
from chats import Tally, engine_for, serve, workload
from nightly import NIGHTLY
from test_engine_oracle import DESIGNS, canary_model
from test_windowed_manager import plain_engine, windowed_engine

from minikv import OutOfPages, PromptLookup

VERBS = {
    "pool": ("alloc_to", "free", "free_window", "move_window"),
    "cache": ("match_prefix", "acquire", "insert", "lock", "unlock", "evict"),
    "manager": ("start", "advance", "extend", "checkpoint", "finish", "abort", "truncate"),
    "model": ("forward",),
    "device": ("take_pages",),
    "host": ("take_pages",),
}


class Breakdown(Exception):
    """What fails; all but a move has done nothing by then."""


class Unreliable:
    """Lets one call in twenty of any part of an engine fail while it serves, and tries again what failed.

    A move fails in its middle, when half of the bytes are there; or Ctrl-C comes there, and is raised when the act is
    done. `torn` says which ways such moves went, and whether it was Ctrl-C.
    """

    def __init__(self, engine, draw):
        self.failures, self.steps, self.draw, self.share, self.torn = 0, 0, draw, 0.05, set()
        manager = engine.manager
        for name, part in (
            ("pool", manager.pool),
            ("cache", manager.cache),
            ("manager", manager),
            ("model", engine.model),
            ("device", getattr(manager.host, "store", None)),
            ("host", getattr(manager.host, "host", None)),
        ):
            for verb in VERBS[name]:
                if hasattr(part, verb):
                    setattr(part, verb, self.guarded(getattr(part, verb), name))
        self.step_of, self.abort_of = engine.step, engine.abort
        engine.step, engine.abort = self.step, self.abort

    def guarded(self, call, name):
        is_store = name in ("device", "host")

        def guard(*args, **kwargs):
            if self.draw.random() < self.share * (8 if is_store else 1):
                self.failures += 1
                if is_store:
                    source, src, dst = args
                    call(source, src[: len(src) // 2], dst[: len(dst) // 2])
                    is_pressed = self.draw.random() < 0.5
                    self.torn.add((name, is_pressed))
                    if is_pressed:
                        signal.raise_signal(signal.SIGINT)
                        return call(source, src, dst)
                raise Breakdown
            return call(*args, **kwargs)

        return guard

    def step(self):
        """One step. Where a pool fails while room is made, there is none: then it is `OutOfPages`."""
        before, self.steps = self.failures, self.steps + 1
        assert self.steps < 5000, "somebody waits for ever"
        try:
            self.step_of()
        except (Breakdown, OutOfPages, KeyboardInterrupt):
            assert self.failures > before

    def abort(self, request):
        with contextlib.suppress(Breakdown, KeyboardInterrupt):
            self.abort_of(request)


def engines(work, index, draw):
    """An engine for `work` in which all goes well, and one in a tight pool."""
    if index == "windowed":
        return plain_engine(work), windowed_engine(work, True, draw)
    return engine_for(work, "off", canary_model), engine_for(work, "tight", canary_model)


@pytest.mark.parametrize("index", [*DESIGNS, "windowed"])
def test_a_step_that_fails_is_made_again_and_changes_no_token(index):
    failures, torn = 0, set()
    for seed in range(120) if NIGHTLY else range(5, 13):
        work, draw = replace(workload(seed), index=index), random.Random(seed)
        quiet, engine = engines(work, index, draw)
        engine.drafts = PromptLookup(length=1, most=3) if seed % 2 else None
        expected = serve(quiet, work, Tally())
        unreliable = Unreliable(engine, draw)
        assert serve(engine, work, Tally()) == expected, f"workload {seed}"
        failures, unreliable.share = failures + unreliable.failures, 0
        torn |= unreliable.torn
        engine.scheduler.sweep()
        engine.manager.abort(engine.manager.start([0]))  # whatever was on its way to the pool goes with the next pages
        engine.manager.check()
        left = engine.scheduler.running, engine.manager.sequences, engine.manager.cache.protected_size
        assert left == ([], [], 0)
        assert not (engine.manager.host and engine.manager.cache.host.moves)
    assert failures > 50
    every_way = {(name, pressed) for name in ("device", "host") for pressed in (False, True)}
    assert torn == (every_way if index == "tiered" else set())
