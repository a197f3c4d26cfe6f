"""Films of small scripts, by their names: `golden/film_words.txt` has what they say."""

import contextlib
from functools import cache

from chats import canary_model

from minikv import (
    BitmaskPool,
    CacheManager,
    CanaryModel,
    Engine,
    FreeListPool,
    HashBlockCache,
    PageTable,
    QueuePool,
    RadixCache,
    Scheduler,
    SlidingWindowCache,
    TieredCache,
    WindowedPool,
    record,
)
from minikv.errors import LockError, OutOfPages

FILMS = {}


def filmed(make, **how):
    """A script becomes a film, made when it is asked for: of what `make` makes."""

    def of(script):
        @cache
        def made():
            things = make()
            things = things if isinstance(things, tuple) else (things,)
            with record(*things, **how) as film:
                script(*things, film)
            return film

        FILMS[script.__name__.replace("_", " ")] = made
        return made

    return of


def refused(verb, *given):
    with contextlib.suppress(LockError, OutOfPages, TypeError, ValueError):
        verb(*given)


def pair(size=8, **settings):
    return RadixCache(**settings), FreeListPool(size)


# -- caches, pools and tables ----------------------------------------------------------------------


@filmed(lambda: pair(12))
def a_cache_and_a_pool(cache, pool, film):
    """Alice caches four tokens; Bob shares two of them; Alice's rest is evicted."""
    cache.insert([1, 2, 3, 4], pool.alloc(4))
    match = cache.match_prefix([1, 2, 9])
    cache.lock(match.handle)
    bob = cache.insert([1, 2, 9], [*match.slots, *pool.alloc(1)])
    cache.lock(bob.handle)
    pool.free(cache.evict(2))
    cache.unlock(bob.handle)
    cache.unlock(match.handle)
    cache.unlock(cache.acquire([1, 2, 9]))
    with film.step('a remark with <b>, "quotes", & and </script>, long enough to be wrapped on a narrow page'):
        pass


@filmed(pair)
def what_does_nothing_is_no_frame_and_what_raises_is_one(cache, pool, film):
    cache.match_prefix([1, 2])
    cache.check()
    pool.free(cache.evict(0))
    pool.alloc(0)
    cache.evict(1)
    with film.step("Anna asks"):
        anna = cache.insert([1, 2, 3], pool.alloc(3)).handle
    refused(cache.unlock, anna)
    with contextlib.suppress(LockError), film.step("Ben is wrong"):
        cache.unlock(cache.match_prefix([1, 9]).handle)
    refused(pool.alloc)


@filmed(RadixCache, label=lambda tokens: bytes(tokens).decode())
def labels_and_namespaces(cache, film):
    cache.insert(b"abc", range(3), namespace="tenant")
    cache.insert(b"ab", range(2), namespace="tenant")
    cache.match_prefix(b"xy")
    for wanted in (0, 9):
        cache.evict(wanted)
    cache.insert("hé".encode(), range(3))
    cache.match_prefix("hè".encode())
    cache.reset()


@filmed(lambda: (BitmaskPool(4), QueuePool(4), PageTable(1, 4)))
def pools_and_tables(bits, queue, table, film):
    bits.occupy(2)
    queue.occupy(3)
    queue.free([])
    row = table.open()
    table.append(row, [2, 3])
    table.append(row, [0])
    table.close(row)


@filmed(lambda: RadixCache(evict_by="page"))
def trimming(cache, film):
    cache.insert([1, 2, 3], [4, 5, 6])
    cache.evict(1)
    cache.evict(9)


@filmed(HashBlockCache)
def hashed_blocks(cache, film):
    """They are in no tree, and leave the cache as nodes do."""
    cache.insert([1, 2], range(2))
    for count in (1, 9):
        cache.evict(count)


@filmed(lambda: SlidingWindowCache(window=1))
def windows(cache, film):
    """A window that goes alone leaves every token in the tree."""
    cache.insert([1, 2, 3], range(3))
    cache.evict(0, window_tokens=2)
    cache.evict(0, 1)


@filmed(lambda: (*pair(4), FreeListPool(4), BitmaskPool(2), PageTable(2, 4)))
def several_pools(cache, first, second, bits, table, film):
    """A shared slot is named after the first row that has it, and the tree's are of the first pool."""
    second.alloc(3)
    bits.alloc(1)
    slots = first.alloc(2)
    for count in (1, 2):
        table.append(table.open(), slots[:count])
    cache.insert([1], slots[:1])


@filmed(lambda: (*pair(4, page_size=2), PageTable(1, 4)))
def a_pool_of_pages(cache, pool, table, film):
    """Two pages are given back, so that the tree holds one alone."""
    pages = pool.alloc(4)
    cache.insert(range(2), pages[2:3])
    pool.free(pages[:2])
    pool.free(cache.evict(2))


@filmed(RadixCache)
def locks_in_a_nodes_story(cache, film):
    """A split hands its lock to the upper part, which tells no event of its own."""
    handle = cache.insert([1, 2, 3], [0, 1, 2]).handle
    cache.lock(handle)
    cache.match_prefix([1])


# -- one operation that does many things -----------------------------------------------------------


class Server:
    """Serves a prompt in one operation: match, lock, make room, take slots, insert, unlock."""

    def __init__(self, size=8, **settings):
        self.cache, self.pool = pair(size, **settings)

    def start(self):
        self.pool.alloc(1)

    def finish(self):
        return self.pool.num_free

    def serve(self, tokens):
        match = self.cache.match_prefix(tokens)
        self.cache.lock(match.handle)
        size = self.cache.page_size
        missing = (len(tokens) - match.length) // size
        if missing > self.pool.num_free:
            self.pool.free(self.cache.evict(size * (missing - self.pool.num_free)))
        try:
            self.cache.insert(tokens, [*match.pages, *self.pool.alloc(missing)])
        finally:
            self.cache.unlock(match.handle)

    def trim(self, times):
        for _ in range(times):
            self.pool.free(self.cache.evict(1))

    def waste(self, tokens):
        self.serve(tokens)
        self.trim(1)

    def restart(self, tokens):
        self.cache.reset()
        self.cache.insert(tokens, range(len(tokens)))


@filmed(lambda: Server(5))
def a_server(server, film):
    """The end of n1 is evicted, and its slots hold other tokens at once; then all change hands."""
    server.serve([1, 2, 3, 4])
    server.serve([1, 2, 8, 9])
    server.finish()
    server.serve([5, 6, 7, 5, 6])
    refused(server.serve, list(range(10)))


@filmed(lambda: Server(5, evict_by="page"))
def pages_that_are_trimmed_one_after_the_other_are_one_end(server, film):
    server.serve([1, 2, 3, 4])
    server.trim(2)
    server.trim(2)


@filmed(Server)
def after_a_reset_an_id_is_another_node(server, film):
    server.cache.insert([1, 2], [0, 1])
    server.restart([1, 2, 3])


@filmed(Server)
def what_was_made_and_went_in_one_operation_is_not_new(server, film):
    server.waste([1, 2])


def with_many_steps():
    server = Server(16)
    server.start = lambda: [server.pool.alloc(1) for _ in range(16)]
    return server


@filmed(with_many_steps)
def of_many_steps_the_first_and_the_last_are_told(server, film):
    server.start()


@filmed(lambda: CacheManager(6, page_size=2))
def requests_of_a_manager(manager, film):
    """Six pages of 2 tokens: the third request needs more than are free."""
    first, second = manager.start([1, 2, 3, 4, 5]), manager.start([1, 2, 3, 4, 6])
    manager.advance(first, 4)
    for sequence in (first, second):
        manager.advance(sequence)
        manager.checkpoint(sequence)
    manager.extend(first, [7, 8])
    manager.truncate(first, 5)
    manager.finish(first)
    manager.abort(second)
    manager.start([9] * 10)


def an_engine(pages, **how):
    manager = CacheManager(pages)
    return Engine(CanaryModel(64), manager, Scheduler(manager, **how))


@filmed(lambda: an_engine(12, token_budget=4, max_running=2, min_awaited_prefix=None))
def a_step_says_what_was_computed_of_whom(engine, film):
    """Four tokens a step: of the first, then its last and, after a match, those of the second."""
    for prompt, length in (([1, 2, 3, 4, 5], 1), ([1, 2, 3, 9, 9, 9], 1), ([7], 9)):
        last = engine.submit(prompt, length)
    for _ in range(3):
        engine.step()
    engine.abort(last)


# -- beside the tree -------------------------------------------------------------------------------


@filmed(lambda: TieredCache(host_pages=3, evict_by="page"))
def each_step_of_a_move_to_host_memory_and_back(cache, film):
    """The first one fails."""
    for arrives in (False, True):
        cache.insert([1, 2], [5, 6])
        cache.evict(2)
        cache.settle(cache.next_move(), arrives)
    cache.settle(cache.load(cache.acquire([1, 2, 3]), [8, 9]))
    assert cache.load(cache.acquire([7]), [8]) is cache.next_move() is None
    refused(cache.settle, "a move")


def an_engine_with_host_memory():
    manager = CacheManager(8, prefix_cache=TieredCache(host_pages=12, evict_by="page"))
    return Engine(canary_model(manager), manager, Scheduler(manager, max_running=1))


@filmed(an_engine_with_host_memory)
def an_engine_moves_pages_between_tiers(engine, film):
    for prompt in ([1, 2, 3, 4, 5], [6, 7, 8, 9, 10], [1, 2, 3, 4, 11]):
        engine.submit(prompt, 1)
    for _ in range(3):
        engine.step()


@filmed(lambda: CacheManager(3, prefix_cache=TieredCache(host_pages=4)))
def a_namespace_that_goes_and_comes_back_in_one_step(manager, film):
    """Both of what the manager and of what somebody else calls a step."""
    for tokens, remark in ([1, 2, 3], None), ([5, 6, 7], None), ([7, 8, 9], "as the playground does"):
        with film.step(remark) if remark else contextlib.nullcontext():
            manager.advance(sequence := manager.start(tokens, namespace="B"))
            manager.finish(sequence)


def a_window():
    pool = WindowedPool(6, num_window_pages=5)
    return SlidingWindowCache(window=2, pool=pool), pool


@filmed(a_window)
def window_slots_come_go_and_change_hands(cache, pool, film):
    cache.insert([1, 2, 3], pool.alloc(3))
    cache.evict(0, window_tokens=1)
    twice = pool.alloc(2)
    done = cache.insert([1, 2], twice)
    pool.free(twice[: done.prefix_length])
