"""Two prompts, and why the second finds no more of the first in a cache: where, what kind of change, what is reused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from minikv.traffic.bodies import Body
from minikv.traffic.why.caches import HYBRID, Reused, reused_by_each
from minikv.traffic.why.changes import PromptChange, change_between
from minikv.traffic.why.kinds import KINDS, ChangeKind
from minikv.traffic.why.notes import notes_on
from minikv.traffic.why.places import Spot, parting, shown_after, shown_before, spot_at
from minikv.traffic.why.units import PromptUnit, shared_units


@dataclass(frozen=True)
class Explanation:
    """Where two prompts part, the kind of change, and what a cache that has the first reuses of the second.

    `spots` are the places in the two prompts, `None` where one ends; `lengths` and `shared` count `unit`, of which a
    token has `scale`; `apart` names the fields that give the two requests different caches; `notes` are sentences
    on what else to know.
    """

    change: PromptChange
    spots: tuple[Spot | None, Spot | None]
    lengths: tuple[int, int]
    shared: int
    unit: str
    scale: int
    caches: tuple[Reused, ...]
    apart: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def kind(self) -> ChangeKind:
        """What the kind of change means, and what to do about it."""
        return KINDS[self.change.kind]

    def as_json(self) -> dict[str, Any]:
        """The same as plain values, texts cut short."""
        return {
            "kind": self.change.kind,
            "says": self.kind.says,
            "detail": self.change.detail,
            "harmless": self.kind.harmless,
            "remedy": self.kind.remedy,
            "a": _spot_json(self.spots[0]),
            "b": _spot_json(self.spots[1]),
            "unit": self.unit,
            "lengths": list(self.lengths),
            "shared": self.shared,
            "apart": list(self.apart),
            "notes": list(self.notes),
            "caches": [row._asdict() for row in self.caches],
        }


def explain(one: Body, two: Body, unit: PromptUnit | None = None, blocks: Sequence[int] = HYBRID) -> Explanation:
    """Compare two prompts; `blocks` are the sizes of a hybrid model's blocks in tokens.

    >>> from minikv.traffic.bodies import read_body
    >>> found = explain(read_body({"prompt": "It is 14:05."}), read_body({"prompt": "It is 14:06."}))
    >>> found.change.kind, str(found.spots[0]), found.shared
    ('clock', 'prompt, after 10 characters', 10)
    """
    unit = unit or PromptUnit()
    change = change_between(one, two)
    at = parting(one.pieces, two.pieces)
    first, second = unit.split(one.text), unit.split(two.text)
    shared = shared_units(first, second)
    names = one.namespace.keys() | two.namespace.keys()
    apart = tuple(sorted(name for name in names if one.namespace.get(name) != two.namespace.get(name)))
    why = f"another {', '.join(apart)}: another namespace" if apart else ""
    caches = tuple(reused_by_each(shared, len(second), blocks, unit.scale, why))
    lengths = (len(first), len(second))
    notes = tuple(notes_on(change.kind, (one, two), lengths, shared, caches, unit.name))
    spots = spot_at(one, at), spot_at(two, at)
    return Explanation(change, spots, lengths, shared, unit.name, unit.scale, caches, apart, notes)


def _spot_json(spot: Spot | None) -> dict[str, Any] | None:
    if spot is None:
        return None
    texts = {"before": shown_before(spot), "after": shown_after(spot)}
    return {"place": str(spot.place), "key": spot.key, "character": spot.at, **texts}
