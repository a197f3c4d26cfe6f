"""An explanation as lines of text for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from minikv.traffic.why.explain import Explanation
from minikv.traffic.why.places import shown_after, shown_before

_WIDTH = 100


def explanation_text(found: Explanation) -> str:
    """What was found, in a few lines: the kind of change, the place, what is shared, what each cache reuses.

    >>> from minikv.traffic.bodies import read_body
    >>> from minikv.traffic.why.explain import explain
    >>> hi = read_body({"prompt": "Hi"})
    >>> print(explanation_text(explain(hi, hi)).splitlines()[0])
    Nothing changed.
    """
    detail = f" ({found.change.detail})" if found.change.detail else ""
    lines = [f"{found.kind.says.rstrip('.')}{detail}.", ""]
    lines += [*_places(found), *_lengths(found), "", *_caches(found), ""]
    for paragraph in (*found.notes, f"What to do: {found.kind.remedy}"):
        lines += textwrap.wrap(paragraph, _WIDTH)
    return "\n".join(lines)


def _places(found: Explanation) -> Iterator[str]:
    """Where the two part, and what stands around that place in both."""
    one, two = found.spots
    spot = one or two
    if spot is None:
        return
    same = one and two and (one.place, one.key, one.at) == (two.place, two.key, two.at)
    if same:
        yield f"  where    {one}"
    else:
        yield f"  where A  {one or 'its end'}"
        yield f"  where B  {two or 'its end'}"
    yield f"  shared   {shown_before(spot)}"
    yield f"  then A   {shown_after(one)}"
    yield f"  then B   {shown_after(two)}"
    yield ""


def _lengths(found: Explanation) -> Iterator[str]:
    """How long the prompts are, and how much of the second is shared."""
    first, second = found.lengths
    counted = f" (without --tokenizer; a token is taken to have {found.scale})" if found.scale > 1 else ""
    yield f"  A        {first:>12,} {found.unit}{counted}"
    yield f"  B        {second:>12,} {found.unit}"
    yield f"  shared   {found.shared:>12,} {found.unit}, {found.shared / max(1, second):.1%} of B"


def _caches(found: Explanation) -> Iterator[str]:
    """What each kind of cache reuses of the second prompt."""
    width = max(len(row.cache) for row in found.caches)
    yield f"  {'a cache that has A reuses of B':<{width}}  {found.unit:>12}"
    for row in found.caches:
        yield f"  {row.cache:<{width}}  {row.reused:>12,}  {row.why}".rstrip()
