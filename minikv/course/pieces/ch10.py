"""The pieces of chapter 10: the chain of keys, the longest hit, giving blocks back, and the seed of a tenant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from types import SimpleNamespace
from typing import Any

from hypothesis import strategies as st

from minikv.course.pieces.designs import lazy_pool, separators_in_words
from minikv.course.pieces.identity import ALL_RIGHT, named
from minikv.course.pieces.observe import DEEP, MOST, bracketed, came_of, counting, kind_of, listed, numbers
from minikv.course.pieces.observer import RETURNED
from minikv.course.pieces.piece import CaseFrame, Cost, Frames, Piece, exercise
from minikv.course.pieces.trial import rebound
from minikv.engine import World, engine_world
from minikv.testing.attempt import short_repr

_LETTERS = st.text("a,:|/= None12'\\\0\1", max_size=4)
_PAIR = st.tuples(st.none() | _LETTERS, st.none() | _LETTERS)
_KEY = st.sampled_from("abcdef")
_REQUEST = st.lists(st.sampled_from(["1", "2", "1k", "2k"]), max_size=5).map(" ".join)
_ON_PURPOSE = (ValueError, AssertionError, RuntimeError, MemoryError)


def _key(key: Any) -> str:
    """A key in a form that can be read: the first of its 64 hexadecimal digits."""
    return key.hex()[:8] if isinstance(key, bytes) else f"no bytes: {short_repr(key)}"


def play_block_keys(world: World, case: Any) -> Frames:
    """The keys of a prompt, with blocks of `size` tokens, starting from `seed`."""
    (prompt, size, seed), tokens = case, numbers(case[0])
    keys = listed(world["block_keys"](tokens, size, seed, world["sha_key"]), _key)
    seen = {
        "how many keys": len(keys) if isinstance(keys, list) else keys, "the keys": keys,
        "the caller's tokens, which must not change": tokens,
    }  # fmt: skip
    yield CaseFrame(f"the keys of {bracketed(prompt)} in blocks of {size}, with the seed {seed!r}", seen)
    weak = world["block_keys"](tokens[:99], size, 0, lambda parent, tokens: (parent, tuple(tokens)))
    yield CaseFrame("the same with the seed 0 and key_of=lambda parent, tokens: (parent, tokens)", {"the keys": weak})
    bits = world["block_keys"](tokens, size, 1, lambda parent, tokens: 1 - parent)  # 0 is a key, and keys repeat
    yield CaseFrame("the same with the seed 1 and key_of=lambda parent, tokens: 1 - parent", {"the keys": bits})


def play_longest_hit(world: World, case: Any) -> Frames:
    """A table with some keys, letters here, with "" for "f"; "a" has the block of page 0, "b" one that is not true."""
    cached, given = ([letter.replace("f", "") for letter in letters] for letters in case)
    idle = type("IdleBlock", (world["PoolBlock"],), {"__bool__": lambda block: False})
    pages = [ord(letter) - ord("a") for letter in case[0]]
    table = {key: (idle if page == 1 else world["PoolBlock"])(page) for key, page in zip(cached, pages)}
    for block in table.values():
        block.users = block.page % 2  # other requests may use it
    keys, blocks, hits = list(given), list(table.values()), world["longest_hit"](table, given)
    seen = {
        "what is returned": listed(hits, partial(_page, blocks)), "the keys in the table": sorted(table),
        "the users of the blocks, which must not change": [block.users for block in blocks],
        "the caller's keys, which must not change": given,
    }  # fmt: skip
    yield CaseFrame(f"the keys {keys} of a prompt, with {list(table)} in the table", seen)


def _page(known: Any, block: Any) -> str:
    """A block by its page if it is one of those `known`, or the value in its place, in words."""
    return named(block, f"page {block.page}", known) if hasattr(block, "page") else f"no block, but {kind_of(block)}"


def play_give_back(world: World, case: Any) -> Frames:
    """A request with a block for each word of `states`: how many requests use it, and k where it has a key."""
    waiting, states, again = case
    pool, states = world["BlockPool"](len(states.split()) + waiting), states.split()
    taken = pool.take(len(states))
    blocks = taken[1:] + taken[:1]  # the pages of a request may have any numbers
    for block, state in zip(blocks, states):
        block.users = int(state[0])
        if state.endswith("k"):
            block.key = f"key {block.page}" if block.page else ""  # a key may be anything but None
            pool.table[block.key] = block
    yield CaseFrame(f"the request's blocks: {_blocks_in_words(blocks)}", _queue_of(pool))
    for verb in ["give back", "give back once more"][: 1 + again]:
        given, caption = list(blocks), f"{verb}: {_blocks_in_words(blocks)}"
        error, _ = came_of(lambda: world["give_back"](pool, given), *_ON_PURPOSE)  # noqa: B023 - called at once
        seen = {
            "raised": error, "the blocks": _blocks_in_words(blocks), **_queue_of(pool),
            "the table": [key for key, _ in sorted(pool.table.items())],
            "the blocks of the pool that were not given": _blocks_in_words([b for b in pool.blocks if b not in blocks]),
            "the caller's list, which must not change": listed(given, partial(_page, pool.blocks)),
        }  # fmt: skip
        yield CaseFrame(caption, seen)


def _blocks_in_words(blocks: Sequence[Any]) -> str:
    """The blocks of a request, in its order."""
    states = [f"page {b.page} ({'cached' if b.key is not None else 'without a key'}, users {b.users})" for b in blocks]
    return ", ".join(states) or "none"


def _queue_of(pool: Any) -> Mapping[str, Any]:
    """The queue from the next block to be taken: those without a key at its front in any order, then the others."""
    found, backward, block = list(islice(pool.queue, MOST)), list[int](), pool.queue.mark.before
    while block is not pool.queue.mark and len(backward) < MOST:
        backward.append(block.page)
        block = block.before
    count = next((at for at, block in enumerate(found) if block.key is not None), len(found))
    pages = [_page(pool.blocks, block) for block in found]
    return {
        "at the front of the queue, without a key": sorted(pages[:count]),
        "the rest of the queue, in order": pages[count:],
        "the queue, walked backward, agrees": backward == [block.page for block in found[::-1]],
    }


ONE_TEXT, AN_EQUAL_TEXT, HALF = "ab", "".join(["a", "b"]), "\ud800"  # two objects; half a character, as JSON has it
LONG, FEW = 40, 21  # letters in a string; bytes of a seed that is made of it: SHA-1 has 20, and collisions are known


def play_seed_of(world: World, case: Any) -> Frames:
    """Some pairs of adapter and salt; pairs that differ need seeds that differ."""
    seeds = [world["seed_of"](*pair) for pair in case]
    kinds = sorted({type(seed).__name__ for seed in seeds})
    for at, pair in enumerate(case):
        same = [case[i] for i in range(at) if seeds[i] == seeds[at]]
        seen = {"the type": kinds, "equal to the seed of": short_repr(same[0]) if same else "none before it"}
        is_forged = any(isinstance(text, _OneHash) for text in pair)
        note = ", a string that has the same `hash` as the other one" if is_forged else ""
        yield CaseFrame(f"seed_of(lora={short_repr(pair[0])}, salt={short_repr(pair[1])}){note}", seen)
    long = [world["seed_of"](text, text) for text, _ in case if text is not None and len(text) >= LONG]
    if sizes := [_size_of(seed) for seed in long if isinstance(seed, bytes)]:
        enough = ALL_RIGHT if min(sizes) >= FEW else f"{min(sizes)} bytes, few enough that collisions can be found"
        yield CaseFrame(f"the seeds of strings of {LONG} letters", {"their lengths": enough})
    if not case:
        yield CaseFrame(
            "strings that contain what you put between the two", {"the seeds": separators_in_words(world["seed_of"])}
        )


def _size_of(seed: bytes) -> int:
    """How many bytes a seed has; of a number that is written out, decimal or hexadecimal, about those of the number."""
    try:
        return -(-int(seed, 16).bit_length() // 8)
    except ValueError:
        return len(seed)


class _OneHash(str):
    """A text whose `hash` is that of all others of its kind, as with a hash that somebody has forged."""

    def __hash__(self) -> int:
        return 0


def _looks_into_table(world: World) -> int:
    """How often the table is looked into for a prompt of a hundred blocks of which the first three are cached."""
    keys, (table, tally) = [*range(3), *range(200, 300)], counting(dict)
    world["longest_hit"](table((key, world["PoolBlock"](key)) for key in keys), list(range(100)))
    return tally[0]


PIECES = (
    Piece(
        "10.1", "block_keys", play_block_keys,
        cases=[("1234", 2, b""), ("12345", 2, b""), ("", 4, b""), ("12", 2, b"salt"), ("123", 1, b""),
               ("1234", 2, b"salt"), ([300, 7], 1, b""), ("1" * DEEP, 1, b"")],
        strategy=st.tuples(st.text("012", max_size=13), st.integers(1, 4), st.sampled_from([b"", b"salt"])),
    ),
    Piece(
        "10.2", "longest_hit", play_longest_hit,
        cases=[("abc", "abc"), ("ab", "abc"), ("", "a"), ("ac", "abc"), ("bc", "abc"), ("fad", "dfa")],
        strategy=st.tuples(st.sets(_KEY).map(sorted), st.lists(_KEY)),
        cost=Cost("looks into the table", _looks_into_table, 2,
                  "after the first miss nothing can be used: stop there, and never search the table itself"),
    ),
    Piece(
        "10.3", "give_back", play_give_back,
        cases=[(1, "1k 1k 1k", False), (2, "2k 1k", False), (1, "1k 1", True), (1, "2k 1k", True),
               (0, "2 1 1k", False)],
        strategy=st.tuples(st.integers(0, 2), _REQUEST, st.booleans()),
    ),
    Piece(
        "10.4", "seed_of", play_seed_of,
        cases=[[("x", None), (None, "x")], [(None, None), ("x", None), ("x", None)],
               [(None, None), ("None", "None"), ("None", None)], [(None, "a"), ("", "a")], [("a", "b"), ("b", "a")],
               [(ONE_TEXT, ONE_TEXT), (ONE_TEXT, AN_EQUAL_TEXT)], [("é", None), (None, None)],
               [(_OneHash("a"), None), (_OneHash("b"), None)], [], [("x" * LONG, None), (None, "y" * LONG)],
               [(None, salt) for salt in ("é", "è", "中", "?", "-", "")],
               [(None, "a"), (None, "A"), (None, "\U00010041")], [("a", "b"), (" a", "b"), ("a", "b ")],
               [(lora, None) for lora in ("\ufb01", "fi", "\xe9", "e\u0301", "\x01\x0b", "\x0b\x01",
                                          "\U0001f600" * 4, "\u1f60\u01f6\x1f\u6001\uf600")],
               [("x" * 10_000, "a"), ("x" * 9_999 + "y", "a"), ("x" * 10_000, "b")],
               [(None, salt) for salt in (HALF, "\udfff", "\\ud800", "?", "\ud83d\ude00", "\U0001f600")],
               [("12aaaaaaaaa", "zz"), ("1", "12aaaaaaaaazz"), ("x", "y" * 11), ("x" + "y" * 10, "y")]],
        strategy=st.lists(_PAIR, max_size=5),
    ),
)  # fmt: skip


Prompts = Sequence[Sequence[int]]


def hit_tokens(prompts: Prompts, size: int) -> int:
    """Return how many prompt tokens are found in blocks of `size`, if nothing is evicted and the last one is computed.

    >>> hit_tokens([[1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 3, 9]], 2)
    4
    """
    seen, hits = set[tuple[int, ...]](), 0
    for prompt in prompts:
        prefixes = [tuple(prompt[:end]) for end in range(size, len(prompt) + 1, size)]
        hits += size * sum(prefix in seen and len(prefix) < len(prompt) for prefix in prefixes)
        seen.update(prefixes)
    return hits


def lazy_hit(table: Mapping[Any, Any], keys: Sequence[Any]) -> list[Any]:
    """Return the blocks of the first keys, in a table that may lead to blocks which have other keys by now."""
    hits = []
    for key in keys:
        block = table.get(key)
        if block is None or block.key != key:
            break
        hits.append(block)
    return hits


def play_lazy_hit(world: World, prompts: Sequence[list[int]]) -> Frames:
    """Prompts are served one after the other, in three pages of two tokens; which pages, and how many are hits."""
    engine, calls = {**engine_world(2, 3, 4, 5, 10)}, list[str]()
    pool, open_request = lazy_pool(engine["BlockPool"](3)), rebound(engine["open_request"], engine)
    engine["longest_hit"] = world["lazy_hit"]

    def serve(tokens: list[int]) -> tuple[list[int], str]:
        blocks, hits = open_request(pool, tokens, 2)
        pool.give_back(blocks)
        return [block.page for block in blocks], f"{hits} hits"

    for tokens in prompts:
        calls.append(f"serve({tokens})")
        yield CaseFrame(", ".join(calls), {RETURNED: serve(tokens)})
    for held in () if prompts else ("ba", "cb"):
        blocks = [SimpleNamespace(page=page, key=key, users=0) for page, key in enumerate(held)]
        table = dict(zip("ab", blocks))
        found = [block.page for block in world["lazy_hit"](table, ["a", "b"])]
        yield CaseFrame(
            f"lazy_hit of keys a and b, which lead to blocks with the keys {held[0]} and {held[1]}", {RETURNED: found}
        )


EXERCISES = (
    exercise(
        "10.5", "hit_tokens", hit_tokens,
        cases=[([], 2), ([[1, 2, 3]], 2), ([[1, 2, 3], [1, 2, 3]], 2), ([[1, 2], [1, 2]], 2),
               ([[1, 2, 3, 4], [1, 2, 9, 9, 9]], 2), ([[1, 2, 3], [1, 2, 3]], 1), ([[1, 2, 1, 2, 1]], 2),
               ([[1, 2, 3], [4, 5, 6], [1, 2, 3]], 2), ([[1] * 5, [1] * 5], 4)],
        strategy=st.tuples(st.lists(st.lists(st.integers(0, 1), max_size=7), max_size=5), st.integers(1, 4)),
    ),
    exercise(
        "10.6", "lazy_hit", lazy_hit,
        cases=[[[1, 2, 3], [4, 5, 6], [7, 8, 9], [1, 2, 3]], [[1, 2, 3, 4, 5], [6], [1, 2, 3, 4, 5]],
               [[1, 2, 3], [4, 5, 6, 7, 8, 9, 9], [1, 2, 3]], []],
        strategy=st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=5), max_size=5),
        play=play_lazy_hit,
    ),
)  # fmt: skip
