"""nano-vllm's BlockManager behind `minikv.testing.Adapter`: minikv verify assets/adapters/nanovllm_blocks.py

Not run by the tests: it needs nano-vllm. Run by hand on 2026-11-30 with version 0.2.0, on a CPU, with only the two
files that this one imports: nine rules hold, and none is broken.

With issue 163 put back (`_allocate_block` does not remove the old hash), the picked scenarios find nothing, because a
lookup compares the tokens of the block too. Those of Hypothesis find a block that holds the same token after another
prefix, which breaks rules 3 and 4:

    cache.insert([1, 2, 1], [0, 1, 2])
    cache.evict(2)
    cache.insert([2], [3])
    cache.match_prefix([1, 2])
    # gives length 2 and pages [0, 3], expected length 1 and pages [0]

The manager never looks for the last block of a sequence, so one more token is asked for. Whatever holds nothing lies at
the front of its free blocks; to evict, the next cached one is put there and taken, as for a new sequence.
"""

from nanovllm.engine.block_manager import BlockManager
from nanovllm.engine.sequence import Sequence

from minikv.testing import Adapter


class NanoVLLMBlockManager(Adapter):
    """A block per page, and no namespaces; a lock is a sequence that runs."""

    claims = Adapter.claims - {10}

    def open(self):
        self.manager = BlockManager(1000, self.page_size)
        self.page_of, self.running = {}, []

    def start(self, tokens):
        sequence = Sequence([*tokens, 0])
        sequence.block_size = self.page_size
        self.manager.allocate(sequence, self.manager.can_allocate(sequence))
        return sequence

    def find(self, tokens, namespace):
        sequence = self.start(tokens)
        found = sequence.block_table[: sequence.num_cached_tokens // self.page_size]
        self.manager.deallocate(sequence)
        return [self.page_of[block] for block in found], tokens[: len(found) * self.page_size]

    def store(self, tokens, pages, namespace):
        sequence = self.start(tokens)
        there = sequence.num_cached_tokens
        sequence.num_scheduled_tokens = len(tokens) - there
        self.manager.hash_blocks(sequence)
        new = slice(there // self.page_size, len(pages))
        self.page_of |= dict(zip(sequence.block_table[new], pages[new]))
        self.manager.deallocate(sequence)
        return there, tokens

    def hold(self, place):
        self.running.append((place, self.start(place)))

    def release(self, place):
        (number, sequence), *_ = [(n, each) for n, (at, each) in enumerate(self.running) if at == place]
        del self.running[number]
        self.manager.deallocate(sequence)

    def free(self, num_tokens):
        free = self.manager.free_block_ids
        gone = [block for block in free if block in self.page_of][: -(-num_tokens // self.page_size)]
        for block in gone:
            free.remove(block)
            free.appendleft(block)
            self.manager._allocate_block()  # which forgets what it held
            self.manager.blocks[block].ref_count = 0
            self.manager.used_block_ids.remove(block)
            free.appendleft(block)
        return [self.page_of.pop(block) for block in gone]

    def sizes(self):
        held = len(self.manager.used_block_ids) - len(self.running)  # each has a block for the token after its prompt
        return (len(self.page_of) - held) * self.page_size, held * self.page_size
