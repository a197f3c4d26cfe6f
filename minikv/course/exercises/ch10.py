"""The exercises of chapter 10: what a block size is worth, and a table that is not told."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from minikv.course.exercises.exercise import Exercise, Hunt, Wrong
from minikv.course.exercises.judge import Script
from minikv.tokens import common_prefix

Prompts = Sequence[Sequence[int]]


def hit_tokens(prompts: Prompts, size: int) -> int:
    """How many prompt tokens are found in blocks of `size`, when nothing is evicted and the last token is computed.

    >>> hit_tokens([[1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 3, 9]], 2)
    4
    """
    seen, hits = set[tuple[int, ...]](), 0
    for prompt in prompts:
        prefixes = [tuple(prompt[:end]) for end in range(size, len(prompt) + 1, size)]
        hits += size * sum(prefix in seen and len(prefix) < len(prompt) for prefix in prefixes)
        seen.update(prefixes)
    return hits


def _whole_prompts_too(prompts: Prompts, size: int) -> int:
    seen, hits = set[tuple[int, ...]](), 0
    for prompt in prompts:
        prefixes = [tuple(prompt[:end]) for end in range(size, len(prompt) + 1, size)]
        hits += size * sum(prefix in seen for prefix in prefixes)
        seen.update(prefixes)
    return hits


def _ends_in_front(prompts: Prompts, size: int) -> int:
    seen, hits = set[tuple[int, ...]](), 0
    for prompt in prompts:
        prefixes = [tuple(prompt[:end]) for end in range(size, len(prompt), size)]
        hits += size * sum(prefix in seen for prefix in prefixes)
        seen.update(prefixes)
    return hits


def _without_the_chain(prompts: Prompts, size: int) -> int:
    seen, hits = set[tuple[int, ...]](), 0
    for prompt in prompts:
        blocks = [tuple(prompt[end - size : end]) for end in range(size, len(prompt) + 1, size)]
        hits += size * sum(block in seen and (i + 1) * size < len(prompt) for i, block in enumerate(blocks))
        seen.update(blocks)
    return hits


def _token_by_token(prompts: Prompts, size: int) -> int:
    longest = [max((common_prefix(p, q) for q in prompts[:i]), default=0) for i, p in enumerate(prompts)]
    return sum(min(found, len(prompt) - 1) for found, prompt in zip(longest, prompts) if prompt)


def _blocks(prompts: Prompts, size: int) -> int:
    return hit_tokens(prompts, size) // size


def _only_the_last(prompts: Prompts, size: int) -> int:
    return sum(hit_tokens(prompts[i : i + 2], size) for i in range(len(prompts) - 1))


class TinyPool:
    """Blocks of two tokens; `serve` gives a request's pages, and how many were hits."""

    def __init__(self, size: int):
        self.queue = list(range(size))  # the next page to be taken comes first
        self.table = dict[tuple[int, ...], int]()  # a whole prefix is its own key

    def serve(self, tokens: list[int]) -> tuple[list[int], int]:
        """Find what is cached, take pages for the rest, and give all of them back."""
        keys = [tuple(tokens[:end]) for end in range(2, len(tokens) + 1, 2)]
        hits = list[int]()
        for key in keys[: (len(tokens) - 1) // 2]:
            if key not in self.table:
                break
            hits.append(self.table[key])
        left = [page for page in self.queue if page not in hits]
        wanted = -(-len(tokens) // 2) - len(hits)
        taken = left[:wanted]
        self.forget(taken)
        pages = hits + taken
        for key, page in zip(keys, pages):
            self.table.setdefault(key, page)
        self.queue = [page for page in left if page not in taken] + pages[::-1]
        return pages, len(hits)

    def forget(self, taken: list[int]) -> None:
        """These pages get new contents: take their old keys out of the table."""
        kept = [pair for pair in self.table.items() if pair[1] not in taken]
        self.table = dict(kept)


class CarelessPool(TinyPool):
    """The same, but the table is not told."""

    def forget(self, taken: list[int]) -> None:
        """These pages get new contents."""


def _advice(script: Script) -> str | None:
    """A hint for a script that does no harm: what it does not do yet."""
    pool, was_taken, known = TinyPool(*script.init), False, set[tuple[int, ...]]()
    for _, (tokens,) in script.operations:
        before = set(pool.table)
        pool.serve(tokens)
        was_taken = was_taken or bool(before - set(pool.table))
        known.add(tuple(tokens))
    if not was_taken:
        return "no cached page was taken for something else: ask for more than the pool holds"
    return "a page was taken; now ask again for the prompt that it held, and for one token more"


def _too_large() -> Script:
    return Script((8,), (("serve", ([1, 2, 3],)), ("serve", ([4, 5, 6],)), ("serve", ([1, 2, 3],))))


def _does_not_ask() -> Script:
    return Script((2,), (("serve", ([1, 2, 3],)), ("serve", ([4, 5, 6],)), ("serve", ([7, 8, 9],))))


EXERCISES = (
    Exercise(
        id="10.5",
        name="hit_tokens",
        reference=hit_tokens,
        cases=[([], 2), ([[1, 2, 3]], 2), ([[1, 2, 3], [1, 2, 3]], 2), ([[1, 2], [1, 2]], 2),
               ([[1, 2, 3, 4], [1, 2, 9, 9, 9]], 2), ([[1, 2, 3], [1, 2, 3]], 1), ([[1, 2, 1, 2, 1]], 2),
               ([[1, 2, 3], [4, 5, 6], [1, 2, 3]], 2), ([[1] * 5, [1] * 5], 4)],
        strategy=st.tuples(st.lists(st.lists(st.integers(0, 1), max_size=7), max_size=5), st.integers(1, 4)),
        hint="keep a set of all prefixes that end at the end of a block, and count those of the next prompt in it",
        wrong=(
            Wrong(_whole_prompts_too, "the last token is always computed: a block that ends with the prompt is no hit"),
            Wrong(_ends_in_front, "a block that ends with its own prompt is cached too: a longer prompt can hit it"),
            Wrong(_without_the_chain, "equal blocks behind different beginnings are different blocks"),
            Wrong(_token_by_token, "only whole blocks can be found"),
            Wrong(_blocks, "count tokens: each block that is found is worth `size` of them"),
            Wrong(_only_the_last, "all earlier prompts are cached, not just the one before"),
        ),
    ),
    Hunt(
        id="10.6",
        name="CarelessPool",
        careless=CarelessPool,
        reference=TinyPool,
        example=Script((2,), (("serve", ([1, 2, 3],)), ("serve", ([4, 5, 6],)), ("serve", ([1, 2, 3],)))),
        hint="fill the pool with another prompt, and then ask for the first one again",
        advice=_advice,
        wrong=(
            Wrong(_too_large, "the pool holds all of it, so no page is ever taken a second time"),
            Wrong(_does_not_ask, "pages are taken, but nobody asks for what they held before"),
        ),
    ),
)  # fmt: skip
