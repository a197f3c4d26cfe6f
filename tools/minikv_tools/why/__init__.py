"""Two prompts, and why the second reuses no more of the first: the place, the kind of change, the reuse."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from minikv.errors import whole_number
from minikv_tools.logs import Units, units_for
from minikv_tools.report import many
from minikv_tools.why.bills import compared, predicted
from minikv_tools.why.breakpoints import images_in
from minikv_tools.why.changes import KINDS, ChangeKind, beside_change, change_between, changed_settings
from minikv_tools.why.histories import PLACED
from minikv_tools.why.places import Spots, as_body, shown_after, shown_before, spot_at, spot_json
from minikv_tools.why.providers import NOTHING_SHARED, RULES, Prediction
from minikv_tools.why.second import second_change
from minikv_tools.why.texts import PromptChange, shared_length

PAGES = (1, 16, 64)  # tokens
BLOCK = 16  # tokens: vLLM's default
HYBRID = (784,)  # tokens: the block of a hybrid model in vllm-project/vllm#54607, whose prompts of 240 never hit
_LITTLE = 200  # tokens in common that no provider would keep anyway
_LIVE = ("clock", "random id", "number")
_COMPLETE = ("nothing", "settings", "extended")  # kinds after which all of the first prompt could be reused


class Reused(NamedTuple):
    """The reuse of one kind of cache, in tokens or bytes, and why it is no more than that."""

    cache: str
    reused: int
    why: str = ""


def reused_by_each(
    shared: int, length: int, blocks: Sequence[int] = HYBRID, scale: int = 1, apart: str = ""
) -> list[Reused]:
    """Return the reuse of each kind of cache for a prompt of `length`, of which `shared` was computed before.

    Both count in units of which a token has `scale`. `blocks` are the sizes of the blocks of a hybrid model's groups in
    tokens: it reuses whole multiples of them all. `apart` says why the two prompts do not meet in one cache, if so.

    >>> [row.reused for row in reused_by_each(100, 300)]
    [100, 96, 64, 96, 0]
    >>> reused_by_each(1600, 1700, blocks=[16, 784])[4]
    Reused(cache='hybrid model, blocks of 784 (the least common multiple of 16 and 784)', reused=1568, why='')
    """
    common = math.lcm(*(whole_number("blocks", size, 1, "a block holds at least 1 token") for size in blocks))
    known = min(shared, max(0, length - scale))  # the last token is computed again: it gives the next one
    kinds = [("pages of 1 token (a radix tree)" if size == 1 else f"pages of {size} tokens", shared, size)
             for size in PAGES]  # fmt: skip
    several = f" (the least common multiple of {' and '.join(map(str, blocks))})" if len(blocks) > 1 else ""
    kinds += [(f"full blocks of {BLOCK}, minus the last token (vLLM)", known, BLOCK),
              (f"hybrid model, blocks of {common:,}{several}", known, common)]  # fmt: skip
    rows = []
    for cache, most, size in kinds:
        unit = size * scale
        found = most // unit * unit
        short = "the prompt is shorter than one block" * (length < unit)
        why = apart or short or "the shared part does not fill a block" * (most > found == 0)
        rows.append(Reused(cache, 0 if apart else found, why))
    return rows


@dataclass(frozen=True, repr=False)
class Explanation:
    """The place where two prompts differ, the kind of change, and the reuse of the second if the first is cached.

    `also` is a second kind: the effect of the first on the provider's cache, or the change in the prompts if the cache
    decides. `then` is a change of another kind that is left once the first is fixed. `spots` are the places in the two
    prompts, `None` where one ends; `lengths` and `shared` count `unit`, of which a token has `scale`; `apart` names the
    fields that give the two requests different caches; `image`: one has an image; `provider` is what the provider's
    rules predict. Its repr says all of it in words.

    >>> print(str(explain("It is 14:05.", "It is 14:06."))[:25])
    A date or a time changed.
    """

    change: PromptChange
    spots: Spots
    lengths: tuple[int, int]
    shared: int
    unit: str
    scale: int
    caches: tuple[Reused, ...]
    apart: tuple[str, ...] = ()
    image: bool = False
    also: PromptChange | None = None
    provider: Prediction | None = None
    bill: str = ""
    then: PromptChange | None = None

    def __repr__(self) -> str:
        return explanation_text(self)

    @property
    def kind(self) -> ChangeKind:
        """The meaning of the kind of change, and what to do about it."""
        return KINDS[self.change.kind]

    @property
    def remedies(self) -> list[str]:
        """The advice, the most important first."""
        also, provider = self.also, self.provider
        changed, late, first = self.change.kind, "breakpoint on what changes", _placed(self.change)
        spot = self.spots[0] or self.spots[1]
        in_tools = spot is not None and spot.place.part in ("tools", "functions")
        if in_tools and changed in _LIVE:
            first = "tool edited"
        advice = {changed: first}
        vain = in_tools or first in PLACED or (also or self.change).detail.endswith(NOTHING_SHARED)
        doubt = also and provider and provider.unsure and provider.kind == also.kind
        if also and not doubt and not (also.kind == late and vain):
            advice[also.kind] = also.kind
        if self.then:
            advice.setdefault(self.then.kind, _placed(self.then))
        found = [kind for kind in advice if not KINDS[kind].harmless] or [changed]
        if changed in _LIVE:
            found.sort(key=lambda kind: kind != late)
        own = {provider.kind: provider.advice} if provider else {}
        remedies = [f"{KINDS[advice[kind]].remedy} {own.get(kind, '')}".rstrip() for kind in found]
        if changed == "clock" and spot and spot.before.endswith("Today Date: "):
            remedies[0] = f"Llama's chat template writes the day: give it a fixed date_string. {remedies[0]}"
        return [f"({kind}) {one}" for kind, one in zip(found, remedies)] if len(found) > 1 else remedies

    @property
    def notes(self) -> list[str]:
        """Sentences on what else to know: blocks that do not fill, tokens that are cut otherwise, images."""
        found, kind, rest = [], self.change.kind, self.lengths[0] - self.shared
        blocks, hybrid = self.caches[3:5]
        again = self.shared - blocks.reused
        if kind == "extended" and rest > 0:
            found.append(f"The tokenizer cuts the end of A, {many(rest, self.unit[:-1])}, "
                         "differently if text follows, so it is not shared.")  # fmt: skip
        if kind in _COMPLETE and not blocks.why and again > 0:
            found.append(f"A cache with full blocks of {BLOCK} computes the end again, "
                         f"{many(again, self.unit[:-1])}: a block boundary, not a change.")  # fmt: skip
        if kind in _COMPLETE and hybrid.why.startswith("the "):
            found.append(f"A {hybrid.cache.replace(', ', ' with ', 1)} reuses nothing here, as expected: {hybrid.why}.")
        if self.provider:
            rules = RULES[self.provider.rules]
            price = f" Writing costs {rules['price']} times as much as ordinary input." if self.provider.written else ""
            found.append(f"Rules of {rules['title']}: {rules['source']}, read on {rules['read']}.{price}")
        elif kind == "template settings":
            found.append("These rows compare texts alone: less is shared if the chat template writes the setting into "
                         "the prompt.")  # fmt: skip
        if self.bill:
            found.append(self.bill)
        if self.image:
            found.append("An image counts as a short hash here, not as the tokens that a model turns it into.")
        return found

    def as_json(self) -> dict[str, Any]:
        """The same as plain values, texts cut short."""
        return {
            "kind": self.change.kind,
            "says": self.kind.says,
            "detail": self.change.detail,
            "harmless": self.kind.harmless,
            "remedy": " ".join(self.remedies),
            "also": self.also and self.also._asdict(),
            "then": self.then and self.then._asdict(),
            "provider": self.provider and {**self.provider._asdict(), "title": self.provider.title, "bill": self.bill},
            "a": spot_json(self.spots[0]),
            "b": spot_json(self.spots[1]),
            "unit": self.unit,
            "lengths": list(self.lengths),
            "shared": self.shared,
            "apart": list(self.apart),
            "notes": self.notes,
            "caches": [row._asdict() for row in self.caches],
        }


def _placed(change: PromptChange) -> str:
    """The kind whose advice is given: that of an edit, if the change is in an answer or in the result of a tool."""
    return next((kind for kind, where in PLACED.items() if change.detail.startswith(where)), change.kind)


def explain(one: Any, two: Any, units: Units | None = None, blocks: Sequence[int] = HYBRID) -> Explanation:
    """Compare two prompts: why does the second find no more of the first in a cache?

    Each is a text, a list of token ids or of messages, a request body, or an entry of a log that holds one. They are
    counted in bytes, or in the tokens of `units`; `blocks` are the sizes of a hybrid model's blocks in tokens.
    `TypeError` and `ValueError` say why something is not a prompt.

    >>> found = explain("It is 14:05.", "It is 14:06.")
    >>> found.change.kind, str(found.spots[0]), found.shared
    ('clock', 'prompt, after 10 characters', 10)
    """
    one, two = as_body(one), as_body(two)
    units = units_for(units or Units(), one, two)
    change = change_between(one, two)
    first, second = units.packed([one.text]), units.packed([two.text])
    shared = shared_length(first, second) // units.width
    lengths = len(first) // units.width, len(second) // units.width
    apart = tuple(changed_settings(one.namespace, two.namespace))
    why = f"different {', '.join(apart)}: a different namespace" if apart else ""
    caches = reused_by_each(shared, lengths[1], blocks, units.scale, why)
    found = [] if change.kind == "history at the server" else predicted(one, two, shared, lengths[1], units)
    provider = found[0] if len(found) == 1 and not apart else None
    caches += [_row(row, why) for row in found]
    change = change if change.whole else PromptChange(change.kind)
    change, also = _headline(change, beside_change(one, two), provider, shared < _LITTLE * units.scale)
    at = shared_length(one.text, two.text)
    spots, bill = (spot_at(one, at), spot_at(two, at)), compared(provider, two.usage, lengths[1])
    return Explanation(change, spots, lengths, shared, units.unit, units.scale, tuple(caches), apart,
                       any(map(images_in, (one, two))), also, provider, bill, second_change(one, two))  # fmt: skip


def _row(found: Prediction, apart: str) -> Reused:
    kind = found.kind or "too little is shared" * (not found.read)
    why = "unsure: " * found.unsure + kind + f"; writes {found.written:,}" * bool(found.written)
    return Reused(found.title, 0 if apart else found.read, apart or why.removeprefix("; "))


def _headline(
    change: PromptChange, beside: PromptChange, found: Prediction | None, little: bool
) -> tuple[PromptChange, PromptChange | None]:
    """Return the kind that decides, and the other one: a harmless change is none where the cache misses."""
    kind, harmless = change.kind, KINDS[change.kind].harmless and not (change.kind == "conversation" and little)
    changed = None if change in (beside, PromptChange("nothing")) else change
    if found is None:
        fault = None if KINDS[beside.kind].harmless or not changed else beside
        if fault and (harmless or fault.kind == "namespace"):  # without which nothing is shared
            return fault, changed
        return change, None if KINDS[kind].harmless else fault
    if kind == "extended" and not (found.read or found.kind):
        return PromptChange("too short for the cache"), change
    if kind == "template settings" and not found.kind:
        return PromptChange("settings", change.detail), None
    if found.kind in ("", kind):
        return change, None
    cache = PromptChange(found.kind, found.detail)
    short = little and found.kind == "too short for the cache" and kind != "extended"
    decides = kind in ("nothing", "settings") or not (found.unsure or short)
    if harmless and decides:
        return cache, changed
    return change, None if found.unsure and not harmless else cache


def explanation_text(found: Explanation) -> str:
    """The findings, in a few lines: the kind of change, the place, what is shared, what each cache reuses.

    >>> print(explanation_text(explain("Hi", "Hi")).splitlines()[0])
    Nothing changed.
    """
    changes = {"": found.change, "Also: ": found.also, "Next, once the first is fixed: ": found.then}
    said = [f"{lead}{_said(change)}" for lead, change in changes.items() if change]
    table = ["", *differing_places(found), *_lengths(found), "", *_caches(found), ""]
    advice = [*found.notes, f"What to do: {found.remedies[0]}", *found.remedies[1:]]
    fill = textwrap.TextWrapper(width=100).fill
    return "\n".join([*map(fill, said), *table, *map(fill, advice)])


def _said(change: PromptChange) -> str:
    return f"{KINDS[change.kind].says.rstrip('.')}{f' ({change.detail})' if change.detail else ''}."


def differing_places(found: Explanation) -> Iterator[str]:
    """Return where the two differ, and the text around that place in both."""
    one, two = found.spots
    spot = one or two
    if spot is None:
        return
    if str(one) == str(two):
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
    counted = f" (without --tokenizer, {found.scale} are counted as a token)" if found.scale > 1 else ""
    part = f", {found.shared / max(1, second):.1%} of B"
    for name, size, more in (("A", first, counted), ("B", second, ""), ("shared", found.shared, part)):
        yield f"  {name:<8} {many(size, found.unit[:-1]):>{13 + len(found.unit)}}{more}"


def _caches(found: Explanation) -> Iterator[str]:
    """Return the reuse of each kind of cache for the second prompt."""
    width = max(len(row.cache) for row in found.caches)
    yield f"  {'a cache that has A reuses of B':<{width}}  {found.unit:>12}"
    yield from (f"  {row.cache:<{width}}  {row.reused:>12,}  {row.why}".rstrip() for row in found.caches)
