"""The bugs of vLLM's block pool, and of nano-vllm after it: tests that pass on ours and fail on what they do.

V1 to V8 are those of the first version, by the numbers under which they were found; the others have their threads. Not
here, for what they broke is not: the offsets of images (vllm#11646), EAGLE's last block (vllm#32802), groups of layers
(vllm#48489) and sparse retention (vllm#57610).
"""

import itertools
from dataclasses import dataclass

import pytest
from digits import put
from museum import law_by_law, without

from minikv import CacheManager, HashBlockCache, QueuePool
from minikv.course.pieces.piece import find_piece
from minikv.course.pieces.worlds import reference_world
from minikv.prefix.eviction import LeastRecentlyUsed
from minikv.prefix.hash_blocks import Block, extra_keys, python_key

# -- the queue --------------------------------------------------------------------------------------------------------


class SeedQueue:
    """vLLM's first queue of free blocks, over numbers: whatever it is told, it believes."""

    def __init__(self, size):
        self.size, self.num_free = size, size
        self.before, self.after = {i: i - 1 for i in range(size)}, {i: i + 1 for i in range(size)}
        self.head, self.tail = range(size)[0], size - 1
        self.before[self.head] = self.after[self.tail] = None

    def occupy(self, page):
        before, after = self.before[page], self.after[page]
        if before is not None:
            self.after[before] = after
        if after is not None:
            self.before[after] = before
        self.head, self.tail = after if page == self.head else self.head, before if page == self.tail else self.tail
        self.before[page] = self.after[page] = None
        self.num_free -= 1

    def alloc(self, count):
        taken = []
        for _ in range(count):
            taken.append(self.head)
            self.occupy(self.head)
        return taken

    def free(self, pages):
        for page in pages:
            self.after[self.tail], self.before[page], self.after[page] = page, self.tail, None
            self.tail = page
            self.num_free += 1

    def __iter__(self):
        page = self.head
        while page is not None:
            yield page
            page = self.after[page]


class EmptySeedQueue(SeedQueue):
    def __init__(self):
        super().__init__(0)


def a_queue_may_be_empty(make):
    """V1: the queue of no blocks is an IndexError."""
    with without(IndexError):
        assert list(make()) == []


def what_is_free_cannot_be_freed_again(make):
    """V2: a block that is appended twice bends the links, and others are lost."""
    pool = make(3)
    with pytest.raises(ValueError, match="page 0"):
        pool.free([0])
    assert [*pool] == [0, 1, 2]


def what_is_in_use_cannot_be_taken_out(make):
    """V3: removing a block that is not in the queue counts it off all the same."""
    pool = make(3)
    pool.occupy(1)
    with pytest.raises(ValueError, match="page 1"):
        pool.occupy(1)
    assert pool.num_free == len([*pool]) == 2


# -- the block --------------------------------------------------------------------------------------------------------


@dataclass
class SeedBlock:
    """vLLM's first block: a dataclass, and its neighbors are among its fields."""

    block_id: int
    block_hash: object = None
    older: object = None
    newer: object = None

    def reset(self):
        self.block_hash = None


def ours_block(number):
    block = Block(bytes(4), 0, None)
    block.id, block.key = number, b"a key"
    return block


def equal_blocks_are_two_blocks(make):
    """V3c: two blocks with equal fields are equal, so removing the one empties the list of the other."""
    one, other = make(0), make(0)
    assert one != other
    assert len({one, other} if one.__hash__ else ()) == 2


def a_block_in_a_long_queue_can_be_shown(make):
    """V4: the repr of a block shows its neighbor, which shows its neighbor, until Python gives up (vllm#14081)."""
    with without(RecursionError):
        assert len(repr(make())) < 200


def ours_in_a_queue():
    cache = HashBlockCache()
    for token in range(2000):
        cache.insert([token], [token])
    return next(cache.queue())


def seed_in_a_queue():
    blocks = [SeedBlock(number) for number in range(2000)]
    for older, newer in itertools.pairwise(blocks):
        older.newer, newer.older = newer, older
    return blocks[0]


def blocks_of_two_queues_can_be_compared(make):
    """V4, too: comparing two blocks compares their neighbors, and those theirs."""
    one, other = make(), make()
    with without(RecursionError):
        assert one != other


def evicted():
    cache = HashBlockCache()
    block = put(cache, b"123").node
    cache.evict(1)
    return block.key, block.parent


def reset_in_a_queue():
    block = SeedBlock(0, 7, SeedBlock(1), SeedBlock(2))
    block.reset()
    return block.block_hash, block.older


def what_is_gone_links_to_nothing(make):
    """V8: `reset` forgets the hash and keeps the links."""
    assert make() == (None, None)


# -- the hash ---------------------------------------------------------------------------------------------------------

# Two blocks of four tokens with one hash after what a chain begins with: the last token makes up for the others.
FORGED, CACHED = [78157, 24212, 98239, 105274], [13307, 73093, 106177, 5]


def unseeded_key(parent, tokens):
    """Each chain begins with the same number, as `hash(None)` is from Python 3.12 on (vllm#12621)."""
    return python_key(parent if len(parent) == 8 else b"", tokens)


class BelievesTheHash(HashBlockCache):
    def __init__(self, page_size=4, seed=b""):
        super().__init__(page_size, unseeded_key, seed, verify=False)


def a_collision_serves_nobody_elses_pages(make):
    """V5d: two blocks of valid tokens with one hash were found in half a minute."""
    cache = make(4)
    cache.insert(CACHED, [66])
    assert cache.match_prefix(FORGED).length == 0


def what_was_prepared_elsewhere_hits_nothing(make):
    """vllm#12621, CVE-2025-25183: the hash was the same in all processes, so a collision could be prepared."""
    keys = []
    for seed in ("this server", "another"):
        cache = make(4, seed=seed)
        keys.append(cache.insert(CACHED, [66]).node.key)
    assert keys[0] != keys[1]


def our_keys(tokens):
    cache, keys = HashBlockCache(2), []
    block = cache.insert(tokens, range(2)).node
    while block.parent is not None:
        keys.append(block.key)
        block = block.parent
    return keys[::-1]


def seed_keys(tokens):
    """A key is a hash, and the tokens of its block alone."""
    keys, parent = [], None
    for start in range(0, len(tokens), 2):
        block = tuple(tokens[start : start + 2])
        parent = hash((parent, *block)), block
        keys.append(parent)
    return keys


def a_second_key_tells_what_is_in_front(keys_of):
    """V5d, too: `hash(-1)` is `hash(-2)`, so behind [-1, 7] and [-2, 7] the block [3, 4] has one key."""
    assert keys_of([1, 7, 3, 4])[1] != keys_of([2, 7, 3, 4])[1]
    try:
        one, other = keys_of([-1, 7, 3, 4]), keys_of([-2, 7, 3, 4])
    except ValueError:  # such a token is refused
        return
    assert one[1] != other[1]


class ForgetsTheNamespace(HashBlockCache):
    """The extra keys, an image or a salt, are not part of the identity of a block."""

    def match_prefix(self, tokens, *, namespace=None, **options):
        return super().match_prefix(tokens, **options)

    def insert(self, tokens, pages, *, namespace=None, **options):
        return super().insert(tokens, pages, **options)


def two_images_with_one_text_share_nothing(make):
    """vllm#12603: extra keys were left out of what tells two blocks apart."""
    cache = make()
    put(cache, b"9994", namespace=extra_keys(image="a cat"))
    put(cache, b"1", namespace=extra_keys(image="a dog"))
    assert cache.match_prefix(b"9994", namespace=extra_keys(image="a dog")).length == 0


def bare_keys(lora=None, salt=None):
    return tuple(text for text in (lora, salt) if text is not None)


def an_adapter_is_no_salt(keys):
    """vllm#44701: the name of an adapter and a salt were bare texts in one tuple."""
    assert keys(lora="x") != keys(salt="x")


def a_stopwatch_tells_a_stranger_nothing(make):
    """vllm#17045, CVE-2025-46570: a hit is fast, so it says who else has sent this prompt."""
    cache, pin = make(), list(b"the pin is 7351")
    cache.insert(pin, range(len(pin)), namespace=extra_keys(salt="Anna"))
    tries = [list(f"the pin is {number}".encode()) for number in (1234, 7351)]
    assert [cache.match_prefix(each, namespace=extra_keys(salt="Ben")).length for each in tries] == [0, 0]


# -- the pool ---------------------------------------------------------------------------------------------------------


def pool_with(give_back, size):
    """A block pool of chapter 10, with this way to give blocks back, and the chapter's names."""
    world = reference_world(find_piece("10.3"))
    world["give_back"] = give_back or world["give_back"]
    return world["BlockPool"](size), world


def serve(world, pool, tokens):
    pool.give_back(world["open_request"](pool, tokens, 2)[0])


def all_to_the_end(pool, blocks):
    """vLLM before #42656: a block without a hash waits like the others, and pushes them out."""
    for block in reversed(blocks):
        block.users -= 1
        pool.queue.add_last(block)


def head_first(pool, blocks):
    """Without `reversed`: the beginning of a prompt goes before its end."""
    for block in blocks:
        block.users -= 1
        pool.queue.add_last(block)


def counts_below_zero(pool, blocks):
    """vLLM's count of users: a block that is freed twice counts -1, and is never handed out again."""
    for block in reversed(blocks):
        block.users -= 1
        if not block.users:
            pool.queue.add_last(block)


def hits_of(world, pool, tokens):
    return len(world["longest_hit"](pool.table, world["block_keys"](tokens, 2, b"", world["sha_key"])))


def what_can_never_hit_pushes_nothing_out(give_back):
    """vllm#42656: half-full blocks, of which every request leaves one, drove out what was cached."""
    pool, world = pool_with(give_back, 4)
    for tokens in ([1, 2, 3, 4], *([token] for token in range(8))):
        serve(world, pool, tokens)
    assert hits_of(world, pool, [1, 2, 3, 4]) == 2


def the_end_of_a_prompt_goes_first(give_back):
    """Freed head first, a chain dies with the first block that is taken."""
    pool, world = pool_with(give_back, 3)
    serve(world, pool, [1, 2, 3, 4, 5, 6])
    pool.take(1)
    assert hits_of(world, pool, [1, 2, 3, 4, 5, 6]) == 2


def a_block_is_given_back_once(give_back):
    """A second free counts to -1 in silence."""
    pool, world = pool_with(give_back, 2)
    blocks, _ = world["open_request"](pool, [1, 2], 2)
    pool.give_back(blocks)
    with pytest.raises(ValueError, match="block 0 is not in use"):
        pool.give_back(blocks)
    assert len(list(pool.queue)) == 2


class KeepsOldNames(HashBlockCache):
    def evict(self, num_tokens):
        old = [(block.key_bytes, block.page) for block in self.queue()]
        found = super().evict(num_tokens)
        for tokens, page in old:
            self._append(self.roots[None], tokens, [page])
        return found


def a_page_loses_its_old_name(make):
    """nano-vllm#163: a block that was reused kept its old hash in the dictionary."""
    cache = make()
    cache.insert([1], [5])
    cache.insert([2], [int(page) for page in cache.evict(1)])
    assert cache.match_prefix([1]).length == 0


class MatchesTheWholePrompt(CacheManager):
    def start(self, tokens, **options):
        return super().start(tokens, **{**options, "limit": len(tokens)})


def one_token_is_left_to_compute(make):
    """nano-vllm#144: with all blocks hit there was no token left, and no logits."""
    manager = make(8, page_size=2, prefix_cache=HashBlockCache(2))
    for _ in range(2):
        with manager.request([1, 2, 3, 4]) as sequence:
            assert len(sequence.tokens[sequence.computed :]) > 0
            manager.advance(sequence)


MUSEUM = {
    a_queue_may_be_empty: (LeastRecentlyUsed, EmptySeedQueue),
    what_is_free_cannot_be_freed_again: (QueuePool, SeedQueue),
    what_is_in_use_cannot_be_taken_out: (QueuePool, SeedQueue),
    equal_blocks_are_two_blocks: (ours_block, SeedBlock),
    a_block_in_a_long_queue_can_be_shown: (ours_in_a_queue, seed_in_a_queue),
    blocks_of_two_queues_can_be_compared: (ours_in_a_queue, seed_in_a_queue),
    what_is_gone_links_to_nothing: (evicted, reset_in_a_queue),
    a_collision_serves_nobody_elses_pages: (HashBlockCache, BelievesTheHash),
    a_second_key_tells_what_is_in_front: (our_keys, seed_keys),
    what_was_prepared_elsewhere_hits_nothing: (HashBlockCache, BelievesTheHash),
    two_images_with_one_text_share_nothing: (HashBlockCache, ForgetsTheNamespace),
    an_adapter_is_no_salt: (extra_keys, bare_keys),
    a_stopwatch_tells_a_stranger_nothing: (HashBlockCache, ForgetsTheNamespace),
    what_can_never_hit_pushes_nothing_out: (None, all_to_the_end),
    the_end_of_a_prompt_goes_first: (None, head_first),
    a_block_is_given_back_once: (None, counts_below_zero),
    a_page_loses_its_old_name: (HashBlockCache, KeepsOldNames),
    one_token_is_left_to_compute: (CacheManager, MatchesTheWholePrompt),
}


test_ours_holds, test_the_original_does_not = law_by_law(MUSEUM)
