"""What each order of eviction finds in a trace at several sizes, by real replays, which may be stopped at any time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager

from minikv.prefix.radix import RadixCache
from minikv.progress_bar import Progress
from minikv.traffic.journal import Journal
from minikv.traffic.replay import replay
from minikv.traffic.trace_request import TraceRequest

OpenRequests = Callable[[], AbstractContextManager[Iterable[TraceRequest]]]


def replay_policies(
    requests: OpenRequests, policies: Sequence[str], sizes: Sequence[int], journal: Journal, progress: Progress
) -> dict[str, dict[int, int]]:
    """The hits of each policy at each size in blocks, evicting by pages; `requests` opens the trace for each replay.

    What `journal` has is not done again, and each replay that ends is written there at once.

    >>> import contextlib, io, os, tempfile
    >>> from minikv.traffic.journal import open_journal
    >>> from minikv.tokens import pack
    >>> trace = [TraceRequest(0, 1000, 10, pack(ids)) for ids in ([1], [2], [1])]
    >>> with open_journal(os.path.join(tempfile.mkdtemp(), "plan.journal"), {}) as journal:
    ...     replay_policies(lambda: contextlib.nullcontext(trace), ["lru", "mru"], [1, 2], journal,
    ...                     Progress(io.StringIO()))
    {'lru': {1: 0, 2: 1}, 'mru': {1: 0, 2: 1}}
    """
    runs = [{"policy": policy, "blocks": size} for policy in policies for size in sizes]
    progress.expect(len(runs), sum(journal.found(run) is not None for run in runs))
    found: dict[str, dict[int, int]] = {policy: {} for policy in policies}
    for policy in policies:
        for size in sizes:
            run = {"policy": policy, "blocks": size}
            if (done := journal.found(run)) is None:
                progress(f"{policy}, {size:,} blocks")
                with requests() as trace:
                    done = {"hits": replay(trace, RadixCache(1, policy, "page"), size).hits}
                journal.add(run, done)
            found[policy][size] = int(done["hits"])
    return found
