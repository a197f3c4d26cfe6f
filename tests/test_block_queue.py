"""The queue of blocks: runs of them, used and locked by prefixes, against a plain list of blocks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from minikv.prefix.block import BlockRoot
from minikv.prefix.block_queue import BlockQueue
from minikv.prefix.block_run import BlockRun, path_to

PREFIXES = [("a", 3), ("a", 2), ("a", 1), ("b", 4), ("b", 1), ("c", 2), ("c", 1)]
MOVES = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["use", "lock"]), st.sampled_from(PREFIXES)),
        st.tuples(st.just("unlock"), st.integers(0, 9)),
        st.tuples(st.just("evict"), st.integers(1, 3)),
    ),
    max_size=25,
)


def runs():
    """Three blocks; four behind the second of them; and two behind the first of those."""
    root = BlockRoot(0, None, b"")
    a = BlockRun(root, None, 0, stride=4)
    b = BlockRun(root, a, 2, stride=4)
    found = {"a": a, "b": b, "c": BlockRun(root, b, 1, stride=4)}
    for first_id, (name, run), count in zip((1, 11, 21), found.items(), (3, 4, 2)):
        run.grow([f"{name}{i}" for i in range(count)], bytes(4 * count), bytes(4 * count), first_id)
    return found


def blocks_of(path):
    """The keys of the blocks of a path, deepest first."""
    return [run.keys[i] for run, count in path for i in reversed(range(count))]


@given(MOVES)
def test_the_order_is_that_of_a_plain_list(moves):
    queue, every, locks, now = BlockQueue(), runs(), [], 0
    model = {}  # of each block: when it was last used, how deep it is, how often it is locked
    for name in "abc":
        path, now = path_to(every[name], len(every[name].keys)), now + 1
        queue.use(path, now)
        depth = len(blocks_of(path))
        model |= {key: [now, depth - i, 0] for i, key in enumerate(blocks_of(path))}
    for verb, what in moves:
        now += 1
        if verb in ("use", "lock"):
            run, count = every[what[0]], what[1]
            if count > len(run.keys):
                continue
            path = path_to(run, count)
            if verb == "use":
                queue.use(path, now)
            else:
                newly = sum(not model[key][2] for key in blocks_of(path))
                assert queue.lock(path) == newly
                locks.append(path)
            for key in blocks_of(path):
                model[key] = [now if verb == "use" else model[key][0], model[key][1], model[key][2] + (verb == "lock")]
        elif verb == "unlock" and locks:
            path = locks.pop(what % len(locks))
            for key in blocks_of(path):
                model[key] = [now, model[key][1], model[key][2] - 1]
            assert queue.unlock(path, now) == sum(not model[key][2] for key in blocks_of(path))
        elif verb == "evict" and (use := queue.first()) is not None:
            keys, _ = use.run.cut(queue.shorten(use, what))
            assert 1 <= len(keys) <= what
            assert keys == in_order(model)[: len(keys)]
            for key in keys:
                del model[key]
        assert [block.key for block in queue] == in_order(model)


def in_order(model):
    """The unlocked blocks as the law has it: by last use, and then the deepest first."""
    return sorted((key for key in model if not model[key][2]), key=lambda key: (model[key][0], -model[key][1]))


def test_nothing_is_nothing():
    queue = BlockQueue()
    queue.use([], now=1)
    assert (queue.lock([]), queue.unlock([], now=2), queue.first(), list(queue)) == (0, 0, None, [])


def test_a_prefix_of_a_thousand_blocks_that_is_used_again_stays_one_use():
    queue, run = BlockQueue(), BlockRun(BlockRoot(0, None, b""), None, 0, stride=4)
    for now in range(1, 1001):
        run.grow([now], bytes(4), bytes(4), first_id=now)
        queue.use([(run, now)], now)
    assert [(use.end, use.used) for use in queue.uses()] == [(1000, 1000)]


def of_four():
    """A run of four blocks, used as a whole, and its first again."""
    queue, run = BlockQueue(), BlockRun(BlockRoot(0, None, b""), None, 0, stride=4)
    run.grow("abcd", bytes(16), bytes(16), first_id=1)
    queue.use([(run, 4)], now=1)
    queue.use([(run, 1)], now=2)
    return queue, run


def test_what_is_locked_of_a_use_stays_when_the_rest_of_it_goes():
    queue, run = of_four()
    queue.lock([(run, 2)])
    assert queue.shorten(queue.first(), 9) == 2
    assert (queue.first(), list(queue)) == (None, [])


def test_a_use_that_has_gone_is_forgotten():
    queue, run = of_four()
    run.cut(queue.shorten(queue.first(), 9))
    assert [(use.end, use.used) for use in run.uses] == [(1, 2)]
