"""Two tiers page by page, with nothing of the package: pages lie in frames, and move from frame to frame.

Each tier evicts the page that was used longest ago. A request uses its pages from the last to the first, so a page is
never older than those after it. What the device lacks is loaded from host memory or computed, and what host memory
lacks is written through to it. Whatever is read must be the page that is asked for.
"""

import gzip
import json
import os
import random
from collections import deque
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("MINIKV_SHARED", ROOT.parent / "shared"))
SESSIONS = SHARED / "traces/claude_code_sessions.jsonl.gz"
CHAT = SHARED / "traces/mooncake_conversation_trace.jsonl"


class Frames:
    """A tier of so many frames for pages that are numbered from 0; `writes` counts the pages written."""

    def __init__(self, frames, pages):
        self.frames, self.writes, self.clock = frames, 0, 0
        self.frame, self.last = np.full(pages, -1), np.full(pages, -1)  # of each page: where it is, when it was used
        self.content, self.free = np.full(frames, -1), list(range(frames))
        self.uses = deque()

    def holds(self, path):
        """How many of the first pages of `path` are here."""
        missing = self.frame[path] < 0
        return int(missing.argmax()) if missing.any() else len(path)

    def use(self, path):
        order = path[::-1]
        times = np.arange(self.clock, self.clock + len(order))
        self.clock += len(order)
        self.last[order] = times
        self.uses.append((order, times))

    def write(self, pages, contents):
        """Put pages in free frames; the pages used longest ago leave where there are too few."""
        while len(self.free) < len(pages):
            order, times = self.uses[0]
            here = (self.last[order] == times) & (self.frame[order] >= 0)
            order, times = order[here], times[here]
            gone = order[: len(pages) - len(self.free)]
            self.free += self.frame[gone].tolist()
            self.frame[gone] = -1
            self.uses[0] = order[len(gone) :], times[len(gone) :]
            if len(gone) == len(order):
                self.uses.popleft()
        frames = [self.free.pop() for _ in pages]
        self.content[frames], self.frame[pages] = contents, frames
        self.writes += len(frames)

    def read(self, pages):
        found = self.content[self.frame[pages]]
        assert (found == pages).all()
        return found


def served(paths, device_frames, host_frames, host=None):
    """Yield how many pages of each request are on the device, and how many there or in host memory."""
    pages = 1 + max(int(path.max(initial=0)) for path in paths)
    device, host = Frames(device_frames, pages), host or Frames(host_frames, pages)
    for path in paths:
        if len(path) > device_frames:
            yield 0, 0
            continue
        near = device.holds(path)
        far = max(near, host.holds(path))
        device.use(path)
        host.use(path)
        device.write(path[near:], np.concatenate((host.read(path[near:far]), path[far:])))
        device.read(path)
        lacking = path[host.frame[path] < 0]
        host.write(lacking, device.read(lacking))
        yield near, far


def bought(requests, found, block, cost, token_bytes, link, speed):
    """Hit shares of device and host, hours of prefill and of loading; `cost` is 2 x parameters, and FLOPs per pair."""
    dense, pair = cost
    total = sum(len(path) for path, _ in requests)

    def flops(tokens):
        return dense * tokens + pair * tokens * (tokens + 1) // 2

    near_hits = far_hits = compute = loaded = 0
    for (_, tokens), (near, far) in zip(requests, found):
        start, end = min(tokens, near * block), min(tokens, far * block)
        near_hits, far_hits = near_hits + near, far_hits + far - near
        rest = flops(end) - flops(start)
        if rest / speed > (end - start) * token_bytes / link:
            loaded += end - start
        else:
            compute += rest
        compute += flops(tokens) - flops(end)
    return near_hits / total, far_hits / total, compute / speed / 3600, loaded * token_bytes / link / 3600


def arrivals(sessions, hours=8, seed=0):
    """The requests (pages, tokens) of sessions that begin at random moments, in order of time; pages are numbered."""
    dice, events, base = random.Random(seed), [], 0
    for number, session in enumerate(sessions):
        start, path, most = dice.uniform(0, hours * 3600), np.zeros(0, np.int64), 0
        for when, tokens, _, shared, runs, *_ in session["requests"]:
            new = [np.arange(first, first + count) for first, count in runs]
            most = max([most, *(first + count for first, count in runs)])
            path = np.concatenate((path[:shared], *(base + ids for ids in new)))
            if when <= hours * 3600:
                events.append((start + when, number, len(events), path, tokens))
        base += most
    events.sort(key=lambda event: event[:3])
    return [(path, tokens) for _, _, _, path, tokens in events]


def sessions_in(path):
    """The sessions of a file."""
    opened = gzip.open if str(path).endswith(".gz") else open
    with opened(path, "rt") as lines:
        return [json.loads(line) for line in lines]
