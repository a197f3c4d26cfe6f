"""Copy on write: sequences that share pages until one of them writes.

A page has as many references as sequences have it. A sequence that writes to a page with more than one gets a copy of
its own first, so nobody sees what another wrote. That is all that beam search, parallel sampling and speculative
decoding need from a cache: `fork` copies nothing, and the first write after it copies one page.

    a  [ 0 ][ 1 ][ 2 ]        fork a -> b         a  [ 0 ][ 1 ][ 2 ]        append to b        a  [ 0 ][ 1 ][ 2 ]
                                                  b  [ 0 ][ 1 ][ 2 ]                           b  [ 0 ][ 1 ][ 3 ]

Two sequences share by a fork, or because their first pages have the same tokens: as far as the caller declares them
a prefix, or all of them if they are to be discovered. Then the second one need not compute what is there already. A
page can be found while some sequence has it, and no longer.

After `KVCache` of llm-rag-ds-optimizer. That one cites Cache-Craft, which reuses chunks that are *not* prefixes; this
one, like the original, shares prefixes alone.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from minikv.copy_on_write.shared_sequences import PagedSequence, SharedSequences
from minikv.errors import OutOfPages, bounded, whole_number
from minikv.interrupts import exclusive
from minikv.tokens import TokensLike, pack


class CopyOnWrite(SharedSequences):
    """Sequences over `num_pages` pages of `page_size` tokens, each page shared by all that have the same in it.

    With a `store`, a `KVStore` of as many pages, a value is one (keys, values) pair per layer; without one it is any
    Python object. `declared` and `discovered` say which kinds of sharing are on. Sequences have names of the
    caller's. Any thread may call it. Every act is done whole, or raises and changes nothing: `OutOfPages`, `KeyError`
    for a name that is unknown, `TypeError` or `ValueError` for the rest.

    >>> cache = CopyOnWrite(num_pages=8, page_size=2)
    >>> cache.attach("a", [1, 2, 3], values=["A", "B", "C"])
    0
    >>> cache.fork("a", "b"); cache.append("b", [4], ["D"])
    >>> cache.get("a"), cache.get("b"), cache.pages("a"), cache.pages("b")
    (['A', 'B', 'C'], ['A', 'B', 'C', 'D'], [0, 1], [0, 2])
    """

    # -- coming and going -------------------------------------------------------------------------------------------

    @exclusive
    def attach(self, name: Hashable, tokens: TokensLike, values: Any = None, prefix_length: int = 0) -> int:
        """Begin a sequence, in the place of the one of that name if there is one; how many tokens it found.

        Whole pages are found: of the first `prefix_length` tokens, if that is declared, or of all, where sharing is
        discovered. With `values`, one for each of the tokens, the sequence has all of them at once, and those that were
        found are not looked at. Without, it has what was found, and the rest is to be computed and appended.

        >>> cache = CopyOnWrite(num_pages=8, page_size=2)
        >>> cache.attach("a", [1, 2, 3], values="ABC"), cache.attach("b", [1, 2, 4])
        (0, 2)
        >>> cache.append("b", [4], "D"); cache.get("b")
        ['A', 'B', 'D']
        """
        numbers = pack(tokens).tolist()
        rule = f"the sequence has {len(numbers)} tokens, and a prefix has 0 to that many"
        prefix_length = whole_number("prefix_length", prefix_length, 0, rule, len(numbers) + 1)
        if values is not None:
            self._require_count(numbers, values)
        open_to = 2**63 if self.discovered else prefix_length if self.declared else 0
        found, keys = self._known.find(numbers[:open_to])
        at = len(found) * self.page_size
        rest = numbers[at:] if values is not None else []
        taken = self.values.take(values, at, len(numbers)) if rest else None
        made, old = PagedSequence(numbers[:at], list(found), open_to, keys), self._sequences.get(name)
        self._references.hold(found)
        try:
            self._attach_rest(name, made, rest, taken, old)
        except BaseException:
            self._let_go(made.pages)
            raise
        self._shares += bool(found)
        return at

    def _attach_rest(
        self, name: Hashable, made: PagedSequence, rest: list[int], taken: Any, old: PagedSequence | None
    ) -> None:
        """Append the `rest`, which `made` did not find, and enter it as `name`; may reuse the pages of `old`."""
        needed = -(-len(rest) // self.page_size)  # what was found ends where a page ends
        if old and needed > self.pool.num_free:
            room = self.pool.num_free + sum(self._references.counts[page] == 1 for page in old.pages)
            if needed > room:
                raise OutOfPages(needed, room)
            self._let_go(old.pages)
            old.pages = []
        self._put(made, len(made.tokens), rest, taken)
        self._publish(made)
        if old is None:
            self._sequences[name] = made
        else:
            self._let_go(old.pages)
            vars(old).update(vars(made))  # so that the name is not hashed again, which may raise

    @exclusive
    def fork(self, name: Hashable, new_name: Hashable) -> None:
        """Begin the sequence `new_name` with all that `name` has; nothing is copied. A draft is not taken along.

        >>> cache = CopyOnWrite(num_pages=4, page_size=2)
        >>> _ = cache.attach("a", [1, 2, 3], "ABC"); cache.fork("a", "b"); cache.stats()["shared_pages_count"]
        2
        """
        source = self._sequence(name)
        if new_name in self._sequences:
            raise ValueError(f"cannot fork {bounded(name)} to {bounded(new_name)}: that sequence already exists")
        end = len(source.tokens) if source.draft_from is None else source.draft_from
        pages = source.pages[: -(-end // self.page_size)]
        self._sequences[new_name] = PagedSequence(source.tokens[:end], pages, source.open_to, list(source.keys))
        self._references.hold(pages)  # last, for a name's own __hash__ may raise

    @exclusive
    def detach(self, name: Hashable) -> None:
        """End a sequence; a page goes back to the pool when the last sequence that has it goes."""
        sequence = self._sequence(name)
        del self._sequences[name]
        self._let_go(sequence.pages)

    # -- writing ----------------------------------------------------------------------------------------------------

    @exclusive
    def append(self, name: Hashable, tokens: TokensLike, values: Any) -> None:
        """Append `tokens` with their `values` to a sequence."""
        sequence, numbers, taken = self._given(name, "append to", tokens, values)
        self._put(sequence, len(sequence.tokens), numbers, taken)
        self._publish(sequence)

    @exclusive
    def write(self, name: Hashable, at: int, tokens: TokensLike, values: Any) -> None:
        """Write `tokens` with their `values` over those of a sequence, from its token number `at` on.

        Later tokens keep their values. Those were computed after other tokens, so nobody finds them by their tokens.

        >>> cache = CopyOnWrite(num_pages=4, page_size=2)
        >>> _ = cache.attach("a", [1, 2], "AB"); cache.fork("a", "b"); cache.write("b", 1, [9], "Z")
        >>> cache.get("a"), cache.get("b")
        (['A', 'B'], ['A', 'Z'])
        >>> cache.write("a", 0, [7], "Y"); cache.attach("c", [1, 2], "AB")   # what was overwritten is not found
        0
        """
        sequence, numbers, taken = self._given(name, "write to", tokens, values)
        at = whole_number("at", at, 0, "a token's number is 0 or more")
        if at + len(numbers) > len(sequence.tokens):
            rule = f"{bounded(name)} has {len(sequence.tokens)} to write over"
            raise ValueError(f"at is {at}, and {len(numbers)} tokens were given: {rule}")
        self._put(sequence, at, numbers, taken)
        self._publish(sequence)

    def _put(self, sequence: PagedSequence, at: int, numbers: list[int], taken: Any) -> None:
        """Write `numbers` and what was `taken` for them from token `at` on, in pages that are its own by then."""
        if not numbers:
            return
        size = self.page_size
        end = at + len(numbers)
        touched = range(at // size, -(-end // size))
        self._own(sequence, touched)
        for i in touched:
            self._known.forget(sequence.pages[i])
            start, stop = max(at, i * size), min(end, (i + 1) * size)
            self.values.write(sequence.pages[i], start - i * size, taken, start - at, stop - at)
        sequence.tokens[at:end] = numbers
        del sequence.keys[at // size :]
        if end < len(sequence.tokens):
            sequence.open_to = min(sequence.open_to, end)

    def _own(self, sequence: PagedSequence, touched: range) -> None:
        """Give a sequence its own pages at `touched`: copies of those that are shared, and new ones at its end."""
        held = sequence.pages
        counts = self._references.counts
        wanted = [i for i in touched if i >= len(held) or counts[held[i]] > 1]
        shared = [held[i] for i in wanted if i < len(held)]
        pages = self.pool.alloc(len(wanted)).tolist()  # all or none
        try:
            for source, page in zip(shared, pages):
                self.values.copy(source, page)
        except BaseException:
            self.pool.free(pages)
            raise
        self._references.hold(pages)
        self._let_go(shared)
        for i, page in zip(wanted, pages):
            held[i : i + 1] = [page]

    @exclusive
    def truncate(self, name: Hashable, length: int) -> None:
        """Keep the first `length` tokens of a sequence. Later pages that nobody else uses are freed."""
        sequence = self._settled(name, "truncate")
        rule = f"{bounded(name)} has {len(sequence.tokens)} tokens, and keeps 0 to that many"
        self._cut(sequence, whole_number("length", length, 0, rule, len(sequence.tokens) + 1))

    def _cut(self, sequence: PagedSequence, length: int) -> None:
        keep = -(-length // self.page_size)
        leaving, sequence.pages = sequence.pages[keep:], sequence.pages[:keep]
        del sequence.tokens[length:], sequence.keys[length // self.page_size :]
        self._let_go(leaving)

    # -- drafts -----------------------------------------------------------------------------------------------------

    @exclusive
    def draft(self, name: Hashable, tokens: TokensLike, values: Any) -> None:
        """Append guessed `tokens` to a sequence, until `settle` says how many of them were correct.

        Nobody finds a draft, and nothing else can be written to the sequence meanwhile.

        >>> cache = CopyOnWrite(num_pages=4, page_size=2)
        >>> _ = cache.attach("a", [1], "A"); cache.draft("a", [2, 3, 4], "BCD"); cache.settle("a", 1); cache.get("a")
        ['A', 'B']
        """
        sequence, numbers, taken = self._given(name, "draft for", tokens, values)
        begin = len(sequence.tokens)
        self._put(sequence, begin, numbers, taken)
        sequence.draft_from = begin

    @exclusive
    def settle(self, name: Hashable, num_right: int) -> None:
        """Keep the first `num_right` tokens of a draft, and roll the others back; whole pages can be found from now on.

        >>> cache = CopyOnWrite(num_pages=4, page_size=2)
        >>> _ = cache.attach("a", [1], "A"); cache.draft("a", [2, 3], "BC"); cache.settle("a", 1)
        >>> cache.attach("b", [1, 2, 4], "ABX")   # two tokens were there
        2
        """
        sequence = self._sequence(name)
        if sequence.draft_from is None:
            raise ValueError(f"cannot settle {bounded(name)}: it has no draft")
        drafted = len(sequence.tokens) - sequence.draft_from
        rule = f"{drafted} tokens were drafted, so 0 to that many can be accepted"
        num_right = whole_number("num_right", num_right, 0, rule, drafted + 1)
        self._cut(sequence, sequence.draft_from + num_right)
        sequence.draft_from = None
        self._publish(sequence)

    def __repr__(self) -> str:
        pages = f"{self.pool.size} pages of {self.page_size}, {self.pool.num_free} free"
        return f"CopyOnWrite({pages}, {len(self._sequences)} sequences)"

    # -- what is asked for ------------------------------------------------------------------------------------------

    def _settled(self, name: Hashable, verb: str) -> PagedSequence:
        sequence = self._sequence(name)
        if sequence.draft_from is not None:
            raise ValueError(f"cannot {verb} {bounded(name)}: it has a draft, which settle() ends")
        return sequence

    def _given(
        self, name: Hashable, verb: str, tokens: TokensLike, values: Any
    ) -> tuple[PagedSequence, list[int], Any]:
        """Return the sequence `name`, the `tokens` as ints, and their `values`, one per token, ready to write."""
        sequence, numbers = self._settled(name, verb), pack(tokens).tolist()
        self._require_count(numbers, values)
        return sequence, numbers, self.values.take(values, 0, len(numbers))

    def _require_count(self, numbers: list[int], values: Any) -> None:
        if (count := self.values.count(values)) != len(numbers):
            raise ValueError(f"{count} values for {len(numbers)} tokens: expected one for each")
