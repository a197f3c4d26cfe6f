"""The pieces of chapter 10: the chain of keys, the longest hit, giving blocks back, and the seed of a tenant."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby, islice, product, takewhile
from types import SimpleNamespace
from typing import Any

from hypothesis import strategies as st

from minikv.course.pieces.observer import ALL_RIGHT, RETURNED, Words
from minikv.course.pieces.piece import Cost, Frames, Piece, Shown, called, exercise
from minikv.course.pieces.props import DEEP, numbers, up_to
from minikv.engine import World, engine_world
from minikv.testing.attempt import short_repr

_LETTERS = st.text("a,:|/= None12'\\\0\1", max_size=4)
_PAIR = st.tuples(st.none() | _LETTERS, st.none() | _LETTERS)
_KEY = st.sampled_from("abcdef")
_REQUEST = st.lists(st.sampled_from(["1", "2", "1k", "2k"]), max_size=5).map(" ".join)

# Two more kinds of keys, each with a seed: one says of what it is made, the other may be 0, and repeats.
_MORE_KEYS = (
    (0, lambda parent, tokens: (parent, tuple(tokens)), "lambda parent, tokens: (parent, tuple(tokens))"),
    (1, lambda parent, tokens: 1 - parent, "lambda parent, tokens: 1 - parent"),
)


def play_block_keys(world: World, case: Any) -> Frames:
    """The keys of a prompt, with blocks of `size` tokens, starting from `seed`; and the same with two more kinds."""
    prompt, size, seed = case
    for first, key_of, what in ((seed, world["sha_key"], "sha_key"), *_MORE_KEYS):
        most = 99 if first == 0 else None  # since each key holds the one before it
        tokens = numbers(prompt)[:most]
        given = {"tokens": tokens, "size": size, "seed": first, "key_of": key_of}
        caption = f"block_keys({short_repr(tokens)}, {size}, {first!r}, {what})"
        yield called(world, "block_keys", **given, words=_readable)._replace(caption=caption)


def _readable(keys: Any) -> Any:
    """A list of keys, or a tuple, with the first hexadecimal digits of each."""
    if not isinstance(keys, list | tuple):
        return keys
    return [f"bytes {key.hex()[:8]}..." if isinstance(key, bytes) else key for key in keys]


def play_longest_hit(world: World, case: Any) -> Frames:
    """A table with some keys, letters here, with "" for "f"; "a" has the block of page 0, "b" one that is not true."""
    cached, keys = ([letter.replace("f", "") for letter in letters] for letters in case)
    idle = type("PoolBlock", (world["PoolBlock"],), {"__bool__": lambda block: False})
    pages = [ord(letter) - ord("a") for letter in case[0]]
    table = {key: (idle if page == 1 else world["PoolBlock"])(page) for key, page in zip(cached, pages)}
    for block in table.values():
        block.users = block.page % 2  # other requests may use it
    yield Shown("before", {"table": table})
    caption = f"longest_hit(table, {keys}) with {list(table)} in the table"
    yield called(world, "longest_hit", table=table, keys=keys)._replace(caption=caption)


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
    yield Shown("before", {"pool": pool})
    for _ in range(1 + again):
        held = ", ".join(f"page {b.page}{' with a key' * (b.key is not None)} (users={b.users})" for b in blocks)
        shown = called(world, "give_back", ValueError, pool=pool, blocks=list(blocks))
        _sort_front(pool.queue)
        queue = {"pages in the queue": [block.page for block in islice(pool.queue, 2 * pool.size)]}
        yield Shown(f"give_back(pool, blocks) for {held or 'no blocks'}", {**shown.things, **queue})


def _sort_front(queue: Any) -> None:
    """Blocks without a key may be at the front of a queue in any order: put them in the order of their pages."""
    front = list(takewhile(lambda block: block.key is None, islice(queue, 99)))
    for block in sorted(front, key=lambda block: -block.page):
        queue.remove(block)
        queue.add_first(block)


HALF = "\ud800"  # half a character, as JSON has it
LONG, FEW = 40, 21  # letters in a string; bytes of a seed that is made of it: SHA-1 has 20, and collisions are known


def play_seed_of(world: World, case: Any) -> Frames:
    """Some pairs of adapter and salt; pairs that differ need seeds that differ."""
    seeds = list[tuple[Any, str]]()
    for lora, salt in case:
        seed, caption = world["seed_of"](lora, salt), f"seed_of({_written(lora)}, {_written(salt)})"
        equal = next((f"the bytes of {earlier}" for known, earlier in seeds if known == seed), "")
        seeds.append((seed, caption))
        yield Shown(caption, {RETURNED: Words(equal or _about(seed, lora, salt)) if isinstance(seed, bytes) else seed})
    if not case:
        clash = {"the seeds": _clash(world["seed_of"])}
        yield Shown("strings that contain your separator", clash)


def _about(seed: bytes, *texts: str | None) -> str:
    """Say of a new seed whether it is too small for a string that is long."""
    if any(len(text or "") >= LONG for text in texts) and _size_of(seed) < FEW:
        return f"{_size_of(seed)} bytes, few enough that collisions can be found"
    return "bytes that no other pair has"


def _written(text: str | None) -> str:
    """A string in ASCII, where no two letters look alike; a long one by how it is made."""
    if isinstance(text, _OneHash):
        return f"a string {text!r} with a forged hash"
    if text is None or len(text) < LONG:
        return ascii(text)
    runs = [(letter, len(list(same))) for letter, same in groupby(text)]
    return " + ".join(ascii(letter) + f" * {count}" * (count > 1) for letter, count in runs)


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


def _clash(seed_of: Callable[..., Any]) -> str:
    """Say whether the strings of a pair can hold what keeps them apart in the seed."""
    for words, one, other in _forged(seed_of):
        if seed_of(*one) == seed_of(*other):
            return words or f"{short_repr(one)} and {short_repr(other)} get the same seed: where does each length end?"
    return ALL_RIGHT


def _forged(seed_of: Callable[..., Any]) -> Iterator[tuple[str, Sequence[Any], Sequence[Any]]]:
    """Pairs whose seeds are equal, if nothing but what is between them keeps them apart, after words for it."""
    own = ["", *_texts_in(getattr(seed_of, "__code__", ""))]
    for text in own:
        yield "the string that means None in your code gets the same seed as None", (None, text), (text, text)
    found = re.search("Q7(.*)Z9", "".join(_texts_in(seed_of("Q7", "Z9"))), re.DOTALL)
    between = found[1] if found else ""
    tried = between, *" ,:;|/-_.\n\0", ", ", *map("".join, product(own, own))  # a hash may hide it
    for end, each in product(("", "\\"), tried):  # a backslash at the end undoes a quoting that leaves backslashes
        words = (
            f"seed_of('Q7' + between + {'Z9' + end!r}, 'Z9') equals seed_of({'Q7' + end!r}, 'Z9' + between + 'Z9'), "
            "where `between` is your separator"
        )
        yield words, (f"Q7{each}Z9{end}", "Z9"), (f"Q7{end}", f"Z9{each}Z9")
    for size in (2**8, 2**16):  # what a length in one or two bytes cannot say
        more = "x" * (size - len(between))
        yield "", (f"Q7{between}{more}", "Z9"), ("Q7", f"{more}{between}Z9")
    for label in own:  # before each string, and then a length that nothing ends
        rest = "a" * (9 - len(label))
        yield "", (f"{label}12{rest}", "zz"), ("1", f"{rest}{label}2zz")


def _texts_in(code: Any) -> list[str]:
    """The strings and the bytes in a piece of code, as strings."""
    if isinstance(code, str | bytes):
        return [code if isinstance(code, str) else str(code, "utf-8", "replace")]
    return [text for part in getattr(code, "co_consts", ()) for text in _texts_in(part)]


_HUNDRED = "".join(map(chr, range(97, 197)))  # from a on

PIECES = (
    Piece(
        "10.1", play_block_keys,
        cases=[([300, 7], 1, b"salt"), ("1" * DEEP, 1, b"")],
        strategy=st.tuples(st.text("012", max_size=13), st.integers(1, 4), st.sampled_from([b"", b"salt"])),
        cost=Cost("steps for 200 blocks", [("1" * 400, 2, b"")],
                  "cut each block out of `tokens` itself: don't copy the remaining tokens for each block"),
    ),
    Piece(
        "10.2", play_longest_hit,
        cases=[("abc", "abc"), ("fad", "dfa")],
        strategy=st.tuples(st.sets(_KEY).map(sorted), st.lists(_KEY)),
        cost=Cost("steps for 100 blocks", [("".join(map(chr, range(300, 400))) + "abc", _HUNDRED)],
                  "nothing after the first miss can be used: stop there, and never search the table itself", 2),
    ),
    Piece(
        "10.3", play_give_back,
        cases=[(1, "1k 1k 1k", False)],
        strategy=st.tuples(up_to(2), _REQUEST, st.booleans()),
        cost=Cost("steps beside a queue of 1,000 blocks", [(1000, "1k " * 100, False), (1000, "1k", False)],
                  "`users` says whether a block joins the queue, and `key` at which end: don't search the queue"),
    ),
    Piece(
        "10.4", play_seed_of,
        cases=[[("x", None), (None, "x")], [(None, None), ("None", "None"), ("None", None)],
               [("ab", "ab"), ("ab", "".join(["a", "b"]))],
               [("a", "b"), ("b", "a"), (" a", "b"), ("a", "b ")],
               [(_OneHash("a"), None), (_OneHash("b"), None)],
               [("x" * LONG, None), (None, "y" * LONG)],
               [("", "a"), *((None, salt) for salt in ("a", "A", "\U00010041", "é", "è", "中", "?", "-", "", HALF,
                                                       "\udfff", "\\ud800", "\ud83d\ude00", "\U0001f600"))],
               [(lora, None) for lora in ("\ufb01", "fi", "\xe9", "e\u0301", "\x01\x0b", "\x0b\x01",
                                          "\U0001f600" * 4, "\u1f60\u01f6\x1f\u6001\uf600")],
               [("x" * 10_000, "a"), ("x" * 9_999 + "y", "a"), ("x" * 10_000, "b"),
                ("x" * 5_000 + "y" + "x" * 4_999, "a")]],
        strategy=st.lists(_PAIR, max_size=5),
        cost=Cost("steps for 4,000 letters", [[("x" * 2000, "y" * 2000)]],
                  "put the parts together once: bytes that grow letter by letter are copied each time", 20),
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


class _Block(SimpleNamespace):
    """A block of a lazy pool: its page, the key that it has by now, and its users."""


def play_lazy_hit(world: World, case: Any) -> Frames:
    """A table with the keys a, b and c, whose blocks have the keys `now`, a dot for none; some of them are in use."""
    now, asked = ([None if letter == "." else f"key {letter}" for letter in letters] for letters in case)
    blocks = [_Block(page=at, key=key, users=at % 2) for at, key in enumerate(now)]
    table = {f"key {letter}": block for letter, block in zip("abc", blocks)}
    yield Shown("before", {"table": table})
    caption = f"lazy_hit(table, {asked}) where the blocks of {list(table)} have the keys {now}"
    yield called(world, "lazy_hit", table=table, keys=asked)._replace(caption=caption)


def versioned(seed: bytes, version: int) -> bytes:
    """Return the seed for one version of the weights: bytes that no other pair of the two gives."""
    return b"%b@%d" % (seed, version)


def play_versioned(world: World, case: Any) -> Frames:
    """One prompt of three blocks, with each seed and version in turn; a seed of None is what was returned last."""
    own, made, calls = engine_world(10), b"", list[str]()
    pool = own["BlockPool"](99)
    for old, version in case:
        seed = made if old is None else old
        made = world["versioned"](seed, version)
        calls.append(f"versioned({seed!r}, {version})")
        yield Shown(calls[-1], {RETURNED: Words("bytes") if isinstance(made, bytes) else made})
        blocks, hits = own["open_request"](pool, range(3), 1, made)
        pool.give_back(blocks)
        yield Shown(f"the same prompt with the seed {', then with '.join(calls)}", {"cached blocks found last": hits})


EXERCISES = (
    exercise(
        "10.5", hit_tokens,
        cases=[([[1, 2, 3], [1, 2, 3]], 2)],
        strategy=st.tuples(st.lists(st.lists(up_to(1), max_size=7), max_size=5), st.integers(1, 4)),
    ),
    exercise(
        "10.6", lazy_hit,
        cases=[("abc", "abc")],
        strategy=st.tuples(st.text("abc.", max_size=3), st.text("abc", max_size=4)),
        play=play_lazy_hit,
    ),
    exercise(
        "10.7", versioned,
        cases=[[(b"salt", 0), (b"salt", 0), (b"salt", 1)]],
        strategy=st.lists(
            st.tuples(st.sampled_from([b"", b"0", b"1", None]), st.sampled_from([0, 1, 10, 17, 65536]))
        ),
        play=play_versioned,
    ),
)  # fmt: skip
