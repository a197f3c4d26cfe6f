"""The queue of blocks: any block leaves from the middle, and runs of neighbours leave with one cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from minikv.prefix.block import Block
from minikv.prefix.block_queue import BlockQueue

MOVES = st.lists(st.permutations(range(8)).flatmap(lambda p: st.integers(0, 8).map(lambda n: p[:n])), max_size=8)


def blocks(count):
    return [Block(i, i, b"", i, None, 0, 0) for i in range(count)]


@given(MOVES)
def test_the_order_is_that_of_a_plain_list(moves):
    queue, model, every = BlockQueue(), list(range(8)), blocks(8)
    queue.add(every)
    for move in moves:
        queue.remove([every[i] for i in move])
        model = [i for i in model if i not in move]
        assert [block.id for block in queue] == model
        assert [block.id for block in queue.first(3)] == model[:3]
        queue.add([every[i] for i in move])
        model += move
        assert [block.id for block in queue] == model
        assert backwards(queue) == model[::-1]


def backwards(queue):
    found, block = [], queue.older
    while block is not queue:
        found.append(block.id)
        block = block.older
    return found


def test_removing_nothing_changes_nothing():
    queue = BlockQueue()
    queue.remove([])
    queue.add([])
    assert list(queue) == []
    assert queue.newer is queue.older is queue
