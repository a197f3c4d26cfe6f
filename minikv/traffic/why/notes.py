"""What to know of a comparison beside the change itself: blocks that do not fill, tokens cut anew, images."""

from __future__ import annotations

from collections.abc import Sequence

from minikv.traffic.bodies import Body
from minikv.traffic.why.caches import BLOCK, Reused

_COMPLETE = ("nothing", "settings", "extended")  # kinds after which all of the first prompt could be reused


def notes_on(
    kind: str,
    bodies: Sequence[Body],
    lengths: Sequence[int],
    shared: int,
    caches: Sequence[Reused],
    unit: str = "tokens",
) -> list[str]:
    """Sentences about two prompts whose change is `kind`; `lengths`, `shared` and `caches` count in `unit`.

    >>> from minikv.traffic.why.caches import reused_by_each
    >>> from minikv.traffic.why.sources import text_body
    >>> bodies = [text_body("x" * 160)] * 2
    >>> notes_on("nothing", bodies, (160, 160), 160, reused_by_each(160, 160))[0]
    'A cache with full blocks of 16 computes the last 16 tokens again: a block boundary, not a change.'
    """
    found = []
    blocks, hybrid = caches[3], caches[4]
    if kind == "extended" and shared < lengths[0]:
        rest = lengths[0] - shared
        found.append(
            f"The tokenizer cuts the last {rest:,} {unit} of A differently where text follows: they are not shared."
        )
    if kind in _COMPLETE and not blocks.why and blocks.reused < shared:
        rest = shared - blocks.reused
        again = f"computes the last {rest:,} {unit} again"
        found.append(f"A cache with full blocks of {BLOCK} {again}: a block boundary, not a change.")
    if kind in _COMPLETE and hybrid.why.startswith(("the prompt is shorter", "what is shared")):
        found.append(f"A {hybrid.cache.replace(', ', ' with ', 1)} reuses nothing here, and rightly: {hybrid.why}.")
    if any("image" in piece.place.field.rsplit(".", 1)[-1] for body in bodies for piece in body.pieces):
        found.append("An image counts as a short hash here, not as the tokens that a model makes of it.")
    return found
