"""A plan in words and tables: the sections that a terminal and a page both show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from minikv.sizing import size_text
from minikv_tools.plans import Plan, PlanPoint
from minikv_tools.plans.quantities import count, gib, hours, percent
from minikv_tools.report import ReportPart, many, text_lines

_DOUBLE = 1.98  # sizes are whole blocks, so a doubling may be a little less
_GRID = "LRU in vLLM"


def plan_text(plan: Plan) -> str:
    """The whole report on a plan, as lines for a terminal.

    >>> from minikv_tools import plan
    >>> plan_text(plan("synthetic:chat?requests=9")).splitlines()[0][:11]
    '9 requests '
    """
    words = PlanWords(plan)
    return "\n".join([words.summary(), *text_lines(list(words.sections()))])


class PlanWords:
    """The report on `plan` in words.

    >>> from minikv_tools.plans import Terms
    >>> from minikv_tools.plans.planning import TraceTree, make_plan
    >>> words = PlanWords(make_plan(TraceTree(), Terms(16)))
    >>> [section.title for section in words.sections()]
    ['Hits by size', 'Ceiling, knee and bound', 'Conversations']
    """

    def __init__(self, plan: Plan):
        self.plan = plan
        self.block_bytes = (plan.bytes_per_token or 0) * plan.block_size
        self.each = " per GPU" if plan.gpus > 1 else ""
        self.about = "about " if plan.unit == "estimated tokens" else ""
        self._memory = plan.at_memory.blocks if plan.at_memory else None
        self.memory_name = "gpu" if plan.tiers else "--memory"
        self.sizes: dict[str, int | None] = {"knee": plan.knee.blocks, self.memory_name: self._memory}
        self.sizes |= {tier.name: tier.blocks for tier in plan.tiers}

    def size(self, blocks: int) -> str:
        """A size in GiB where that is known, else in the trace's units.

        >>> from minikv_tools.plans import Terms
        >>> from minikv_tools.plans.planning import TraceTree, make_plan
        >>> PlanWords(make_plan(TraceTree(), Terms(16, unit="bytes"))).size(1000)
        '16k bytes'
        """
        if self.block_bytes:
            return f"{self.about}{gib(blocks * self.block_bytes)}{self.each}"
        return f"{count(blocks * self.plan.block_size)} {self.plan.unit}"

    def share(self, hits: int) -> str:
        """`hits` as a share of the counted blocks."""
        return percent(self.plan.rate(hits))

    def summary(self) -> str:
        """The contents of the trace, in one sentence."""
        plan = self.plan
        warm = f", after a warm-up of {percent(plan.warm_up)}" if plan.warm_up else ""
        during = f" in {plan.seconds:,.0f} s" if plan.seconds else ""
        mean = plan.prompt_tokens / plan.requests if plan.requests else 0
        beyond = plan.prompts_beyond_context
        said = f"; {many(beyond, 'exceeds', 'exceed')} the model's context of {plan.context:,} tokens"
        context = said if beyond else ""
        return (
            f"{many(plan.requests, 'request')}{during}{warm}; prompts of "
            f"{many(count(plan.prompt_tokens), plan.unit[:-1])}, {count(mean)} on average, "
            f"{many(count(plan.longest_prompt), plan.unit[:-1])} at most{context}; "
            f"{many(count(plan.distinct_blocks * plan.block_size), plan.unit[:-1] + ' is', plan.unit + ' are')} "
            f"different.{' Every figure in tokens, GiB, FLOPs or hours is an estimate.' if self.about else ''}"
        )

    def sections(self) -> Iterator[ReportPart]:
        """The sections, in the order in which they are shown; one without anything to say is left out."""
        if len(self.plan.layers) > 1:
            yield self._layers()
        yield self._curve()
        yield ReportPart("Ceiling, knee and bound", tuple(self._findings()))
        if self.plan.tiers:
            yield self._tiers()
        if self.plan.time_to_live:
            yield self._lifetimes()
        yield ReportPart("Conversations", tuple(self._conversations()))
        if self.plan.prefixes:
            yield self._prefixes()

    def shown_points(self) -> list[PlanPoint]:
        """The points of the table: those that have a name, and from there doublings and halvings."""
        plan = self.plan
        sizes = [point.blocks for point in plan.points]
        shown = {self._memory or sizes[len(sizes) // 2]}
        for size in sizes:
            if size >= _DOUBLE * max(shown):
                shown.add(size)
        for size in reversed(sizes):
            if size <= min(shown) / _DOUBLE:
                shown.add(size)
        shown |= {plan.lru_reaches_ceiling_at_blocks, *filter(None, self.sizes.values())}
        return [point for point in plan.points if point.blocks in shown]

    def name(self, point: PlanPoint) -> str:
        """The name of a point, if it has one."""
        names = {**self.sizes, "LRU at the ceiling": self.plan.lru_reaches_ceiling_at_blocks}
        return ", ".join(name for name, blocks in names.items() if blocks == point.blocks)

    def _layers(self) -> ReportPart:
        rows = [
            {
                "layers": str(group.layers),
                "each keeps": group.keeps + (f" of {many(group.window, 'token')}" if group.window else ""),
                f"bytes per token{self.each}": f"{group.per_token:,}" if group.per_token and not group.window else "",
                f"per prompt{self.each}": size_text(group.per_sequence) if group.per_sequence else "",
                "convention": group.convention,
            }
            for group in self.plan.layers
        ]
        return _table("What the layers keep", self._said_of_layers(), rows, "each keeps", "convention")

    def _said_of_layers(self) -> Iterator[str]:
        plan, prefix = self.plan, self.plan.smallest_prefix
        if plan.bytes_per_sequence:
            yield (
                f"Each prompt keeps its own windows and states, {size_text(plan.bytes_per_sequence)}{self.each} at "
                "most. All sizes below include them. They stay cached as long as the blocks of the prompt, and a "
                "prompt that continues another shares its window."
            )
        if prefix > 1:
            yield (
                f"The smallest prefix that vLLM reuses has {prefix:,} tokens: vLLM keeps a state for each block, and "
                f"makes its blocks that large. The column {_GRID} counts whole blocks of that size. All others count "
                "as if there were a state wherever a prompt can continue. SGLang comes close to that with "
                "extra_buffer: it keeps a state at the end of each prompt, and one where a later prompt diverges."
            )
        elif plan.bytes_per_sequence:
            yield "Any prefix of whole blocks can be reused."

    def _curve(self) -> ReportPart:
        rows = [self._row(point) for point in self.shown_points()]
        what = "The share of all blocks that hit, with LRU by pages and at most with any eviction order."
        return _table("Hits by size", [what], rows, "note")

    def _row(self, point: PlanPoint) -> dict[str, str]:
        """A row of the curve, each cell by its heading."""
        plan, row = self.plan, dict[str, str]()
        if self.block_bytes:
            row[f"memory{self.each}"] = gib(point.blocks * self.block_bytes)
        if point.tokens is not None:  # only blocks take memory
            row[plan.unit] = count(point.tokens)
        row["LRU"] = self.share(point.hits)
        if point.grid_hit_rate is not None:
            row[_GRID] = percent(point.grid_hit_rate)
        row["bound"] = self.share(point.bound)
        row["of ceiling"] = percent(point.hits / max(1, plan.ceiling.hits))
        share = percent(point.tokens_saved / max(1, plan.prompt_tokens))
        row["prefill saved"] = f"{count(point.tokens_saved)} ({share})"
        if plan.prefill_flops:
            row["FLOPs saved"] = percent((point.flops_saved or 0) / plan.prefill_flops)
        return row | {"note": self.name(point)}

    def _findings(self) -> Iterator[str]:
        plan, bend, reach = self.plan, self.plan.knee, self.plan.lru_reaches_ceiling_at_blocks
        yield (
            f"Ceiling: {self.share(plan.ceiling.hits)} of the blocks hit with unlimited memory "
            f"({self.size(plan.ceiling.blocks)}); LRU reaches that with {self.size(reach)}."
        )
        yield (
            f"Knee: {self.size(bend.blocks)}, where LRU hits {self.share(bend.hits)}; above it, more memory gains less "
            "than the average of the whole curve."
        )
        if point := plan.at_memory:
            yield (
                f"{self.memory_name}, {self.size(point.blocks)}: LRU hits {self.share(point.hits)}; no eviction "
                f"order could hit more than {self.share(point.bound)} there."
            )
            if point.requests_too_large:
                yield f"Too large to be cached: {many(point.requests_too_large, 'request')}."
        if plan.cost and (flops := plan.prefill_flops):
            saved = plan.ceiling.flops_saved or 0
            yield (
                f"Prefill: {flops:.2e} FLOPs without a cache, {percent(saved / flops)} less at the ceiling; "
                f"{plan.cost.active / 1e9:.1f} billion parameters are active per token."
            )

    def _tiers(self) -> ReportPart:
        """The worth of each tier, below the hours without any of them."""
        plan, rows = self.plan, []
        for tier in plan.tiers:
            least, is_link = tier.break_even_tokens, tier is not plan.tiers[0]
            worth = "never" if least is None else f"from {least:,} on"
            row = {
                "tier": tier.name,
                f"memory{self.each}": gib(tier.bytes),
                plan.unit: count(tier.blocks * plan.block_size),
                f"rate{self.each}": f"{count(tier.rate)}B/s" * is_link,
                "worth loading": worth * is_link,
                "adds hits": self.share(tier.hits),
                f"{plan.unit} loaded": count(tier.tokens_loaded) * is_link,
                "loading": hours(tier.load_hours) * is_link,
                "prefill left": hours(tier.prefill_hours or 0),
            }
            if not plan.cost:
                del row["worth loading"], row["prefill left"]
            rows.append(row)
        if plan.cost:
            without = {"tier": "none", "prefill left": hours(plan.hours_without_cache)}
            rows.insert(0, dict.fromkeys(rows[0], "") | without)
        return _table("Tiers", self._said_of_tiers(), rows, "tier")

    def _said_of_tiers(self) -> Iterator[str]:
        plan, (gpu, *links) = self.plan, self.plan.tiers
        left = ", and the prefill that is left with it and the tiers before it" if plan.cost else ""
        yield (
            "Each tier evicts the least recently used pages first, and also holds all of the tiers before it. "
            f"A row has the hits that the tier adds{left}."
        )
        times = "Times are calculated, not measured: no load waits for another"
        if not plan.cost:
            only = "only a model's FLOPs tell what is worth loading and how much prefill is left"
            yield f"Everything found is loaded: {only}. {times}."
            return
        yield f"The GPU computes {count(gpu.rate)}FLOP/s{self.each}. {times}, and none overlaps with computing."
        if links:
            even = f"{count(links[0].break_even_rate or 0)}B/s{self.each}"
            yield f"Below {even}, computing a token is faster than loading it, so it is computed."

    def _lifetimes(self) -> ReportPart:
        plan, rows = self.plan, []
        for life in plan.time_to_live:
            lost = 1 - life.hits / plan.ceiling.hits if plan.ceiling.hits else 0.0
            row = {
                "dropped after": f"{life.seconds:g} s",
                "hits, unlimited memory": self.share(life.hits),
                "of all hits lost": percent(lost),
            }
            if life.hits_at_memory is not None:
                row[f"hits at {self.memory_name}"] = self.share(life.hits_at_memory)
            rows.append(row)
        what = "A block is dropped this long after its last use, even if there is room for it."
        return _table("Time to live", [what], rows)

    def _conversations(self) -> Iterator[str]:
        plan, all_hits, own = self.plan, max(1, self.plan.ceiling.hits), self.plan.ceiling.own_conversation_hits
        if own is None:
            yield "The trace names no conversations."
        else:
            yield (
                f"Of all hits at the ceiling, {percent(own / all_hits)} are blocks that the same conversation had sent "
                f"before, {percent(1 - own / all_hits)} come from others "
                f"({many(plan.conversations or 0, 'conversation')})."
            )
            if own == plan.ceiling.hits:
                yield "No conversation finds a block of another one: the trace may not show what they share."
        yield (
            f"{many(plan.continuing_requests, 'request continues', 'requests continue')} a whole "
            "earlier prompt, as a next turn does. "
            f"That gives {percent(plan.hits_of_continuing_requests / all_hits)} of all hits."
        )

    def _prefixes(self) -> ReportPart:
        plan = self.plan
        rows = [
            {
                f"{plan.unit} long": f"{prefix.blocks * plan.block_size:,}",
                "requests with it": f"{prefix.requests:,}",
                f"{plan.unit} it saves": count(prefix.tokens_saved),
                "of all hits": percent(prefix.saved / max(1, plan.ceiling.hits)),
                "first in request": f"{prefix.first + 1:,}",
                "conversations": f"{prefix.conversations:,}" if prefix.conversations else "-",
            }
            for prefix in plan.prefixes
        ]
        what = (
            f"{many(plan.shared_prefixes, 'prefix begins', 'prefixes begin')} more than one prompt. "
            "Each row has what it saves by staying cached, less what the rows above it already save."
        )
        return _table("Prefixes worth most", [what], rows)


def _table(title: str, sentences: Iterable[str], rows: list[dict[str, str]], *words: str) -> ReportPart:
    """A section with a table of `rows`, each cell by its heading; a row with a note is pointed out."""
    marked = tuple(at for at, row in enumerate(rows) if row.get("note"))
    cells = tuple(tuple(row.values()) for row in rows)
    return ReportPart(title, tuple(sentences), tuple(rows[0]), cells, marked, words)
