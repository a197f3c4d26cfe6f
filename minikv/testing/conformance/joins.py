"""Whether a cache is free of scars: an index that can list its `nodes` has no more of them than the naive model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikv.testing.attempt import attempt

if TYPE_CHECKING:
    from minikv.testing.conformance.playing import SideBySide


def look_for_scars(run: SideBySide) -> None:
    """Tell the run when the index has more nodes than there are where all that is used together is joined."""
    if 14 in run.subject.claims and callable(getattr(run.index, "nodes", None)):
        model = run.model
        ends = sum(key in model.ends or not model.below(key) for key in model.pages)
        found = attempt(lambda: sum(1 for _ in run.index.nodes()))
        if found.error is not None or found.value > ends:
            run.scarred(f"then the cache has {found.value} nodes, expected {ends}: the others are joined")
