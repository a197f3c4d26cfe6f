"""Sequences that share pages, beside a model that shares nothing: each has what was written to it, and no more."""

from __future__ import annotations

import contextlib
import threading

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from minikv import CopyOnWrite, InvariantError, KVShape, KVStore, OutOfPages

TOKENS = st.lists(st.integers(0, 1), max_size=6)
PAGES = 12


class AgainstCopies(RuleBasedStateMachine):
    """The model is a list of values for each sequence, and the sequences are copies of each other."""

    names = Bundle("names")

    @initialize(page_size=st.integers(1, 3), declared=st.booleans(), discovered=st.booleans())
    def begin(self, page_size, declared, discovered):
        self.cache = CopyOnWrite(PAGES, page_size, declared=declared, discovered=discovered)
        self.model, self.drafts, self.open_to, self.count = {}, {}, {}, 0

    def values(self, tokens, before=()):
        """A value says which tokens lead to it, as keys and values do."""
        return [(*before, *tokens[: end + 1]) for end in range(len(tokens))]

    def same(self, act):
        """Do it; `False`, and nothing has changed, if there is no room."""
        before = {name: self.cache.pages(name) for name in self.model}
        try:
            act()
        except OutOfPages:
            assert {name: self.cache.pages(name) for name in self.model} == before
            return False
        return True

    def opened(self, prefix):
        """How many tokens of a new sequence may be shared."""
        return 99 if self.cache.discovered else prefix if self.cache.declared else 0

    def at_least(self, tokens, prefix):
        """What some sequence has computed is found, as far as both sides let it be."""
        size, found = self.cache.page_size, 0
        for end in range(size, min(len(tokens), self.opened(prefix)) + 1, size):
            for name, values in self.model.items():
                have = min(self.open_to[name], self.drafts.get(name, len(values)))
                if end <= have and self.cache.tokens(name)[:end] == tokens[:end]:
                    found = end
        return found

    @rule(target=names, tokens=TOKENS, prefix=st.integers(0, 6))
    def attach(self, tokens, prefix):
        name = self.count = self.count + 1
        prefix, found = min(prefix, len(tokens)), []
        expected = self.at_least(tokens, prefix)
        if self.same(lambda: found.append(self.cache.attach(name, tokens, self.values(tokens), prefix))):
            self.model[name], self.open_to[name] = self.values(tokens), self.opened(prefix)
            assert found[0] % self.cache.page_size == 0
            assert found[0] >= expected
        return name

    @rule(name=names, tokens=TOKENS)
    def attach_again(self, name, tokens):
        if name in self.model and self.same(lambda: self.cache.attach(name, tokens, self.values(tokens))):
            self.model[name], self.open_to[name] = self.values(tokens), self.opened(0)
            self.drafts.pop(name, None)

    @rule(target=names, tokens=TOKENS)
    def attach_and_compute_the_rest(self, tokens):
        name = self.count = self.count + 1
        expected, found = self.at_least(tokens, 0), self.cache.attach(name, tokens)
        assert found >= expected
        self.model[name], self.open_to[name] = self.values(tokens)[:found], self.opened(0)
        rest = tokens[found:], self.values(tokens)[found:]
        if self.same(lambda: self.cache.append(name, *rest)):
            self.model[name] = self.values(tokens)
        return name

    @rule(target=names, name=names)
    def fork(self, name):
        if name not in self.model:
            return name
        new = self.count = self.count + 1
        self.cache.fork(name, new)
        self.model[new] = self.model[name][: self.drafts.get(name, len(self.model[name]))]
        self.open_to[new] = self.open_to[name]
        return new

    def settled(self, name):
        return name in self.model and name not in self.drafts

    @rule(name=names, tokens=TOKENS)
    def append(self, name, tokens):
        if self.settled(name):
            values = self.values(tokens, self.model[name][-1] if self.model[name] else ())
            if self.same(lambda: self.cache.append(name, tokens, values)):
                self.model[name] = self.model[name] + values

    @rule(name=names, at=st.integers(0, 5), tokens=TOKENS)
    def write(self, name, at, tokens):
        if self.settled(name) and at + len(tokens) <= len(self.model[name]):
            values = self.values(tokens, self.model[name][at - 1] if at else ())
            if self.same(lambda: self.cache.write(name, at, tokens, values)):
                self.model[name] = [*self.model[name][:at], *values, *self.model[name][at + len(tokens) :]]
                if tokens and at + len(tokens) < len(self.model[name]):
                    self.open_to[name] = min(self.open_to[name], at + len(tokens))

    @rule(name=names, length=st.integers(0, 9))
    def truncate(self, name, length):
        if self.settled(name) and length <= len(self.model[name]):
            self.cache.truncate(name, length)
            self.model[name] = self.model[name][:length]

    @rule(name=names, tokens=TOKENS)
    def draft(self, name, tokens):
        if self.settled(name):
            values = [("guessed", token) for token in tokens]
            if self.same(lambda: self.cache.draft(name, tokens, values)):
                self.drafts[name] = len(self.model[name])
                self.model[name] = self.model[name] + values

    @rule(name=names, num_right=st.integers(0, 3))
    def settle(self, name, num_right):
        if name in self.drafts:
            num_right = min(num_right, len(self.model[name]) - self.drafts[name])
            self.cache.settle(name, num_right)
            self.model[name] = self.model[name][: self.drafts.pop(name) + num_right]

    @rule(name=consumes(names))
    def detach(self, name):
        if name in self.model:
            self.cache.detach(name)
            del self.model[name]
            self.drafts.pop(name, None)

    @invariant()
    def every_sequence_has_what_was_written_to_it(self):
        if hasattr(self, "cache"):
            self.cache.check()
            assert {name: self.cache.get(name) for name in self.model} == self.model
            assert self.cache.stats()["total_sequences"] == len(self.model)


TestAgainstCopies = AgainstCopies.TestCase


def test_a_fork_copies_nothing_and_the_first_write_one_page():
    cache = CopyOnWrite(4, 2)
    cache.attach("a", [1, 2, 3, 4], "ABCD")
    cache.fork("a", "b")
    assert cache.pages("b") == cache.pages("a") == [0, 1]
    cache.write("b", 3, [9], "Z")
    assert (cache.pages("a"), cache.pages("b")) == ([0, 1], [0, 2])
    assert (cache.get("a"), cache.get("b")) == (list("ABCD"), list("ABCZ"))
    cache.write("b", 2, [8], "Y")  # its own by now
    assert cache.pages("b") == [0, 2]


def test_what_get_returns_is_a_copy_and_so_is_what_was_given():
    cache, given = CopyOnWrite(4, 2), [["A"], ["B"]]
    cache.attach("a", [1, 2], given)
    cache.fork("a", "b")
    given[0].append("changed")
    cache.get("a")[1].append("changed")
    assert cache.get("a") == cache.get("b") == [["A"], ["B"]]


def test_a_page_is_found_as_long_as_somebody_has_it():
    cache = CopyOnWrite(4, 2)
    cache.attach("a", [1, 2, 3, 4], "ABCD")
    assert cache.attach("b", [1, 2, 3, 4, 5]) == 4
    cache.detach("a")
    assert cache.attach("c", [1, 2, 9]) == 2
    cache.detach("b")
    cache.detach("c")
    assert cache.attach("d", [1, 2]) == 0
    assert cache.stats()["prefix_map_size"] == 0


def test_what_two_have_computed_is_found_when_the_first_of_them_is_gone():
    cache = CopyOnWrite(8, 2)
    cache.attach("a", [])
    cache.attach("b", [])
    for name in ("a", "b"):  # neither found it, so both computed it
        cache.append(name, [1, 2, 3, 4], "ABCD")
    assert cache.stats()["prefix_map_size"] == 2
    cache.detach("a")
    assert cache.attach("c", [1, 2, 3, 4]) == 4
    assert cache.pages("c") == cache.pages("b")


def test_what_lies_behind_a_write_is_not_found_by_its_new_tokens():
    cache = CopyOnWrite(8, 1)
    cache.attach("a", [0, 1], ["0", "01"])
    cache.attach("b", [0, 0], ["0", "00"])
    cache.write("b", 1, [1], ["01"])  # the page of b, which nobody finds, for the one of a has these tokens too
    cache.write("b", 0, [1], ["1"])
    assert cache.attach("c", [1, 1]) == 1
    assert cache.get("c") == ["1"]


def test_what_a_fork_appends_is_found_after_its_own_tokens_only():
    cache = CopyOnWrite(16, 1)
    cache.attach("a", [1, 2], "AB")
    cache.fork("a", "b")
    cache.append("a", [7], ["X7"])
    cache.append("b", [8], ["Y8"])
    cache.append("a", [9], ["9 after 7"])
    cache.check()
    assert cache.attach("d", [1, 2, 8, 9]) == 3
    assert cache.get("d") == ["A", "B", "Y8"]


def test_a_page_that_was_written_in_part_is_not_found_by_what_comes_after_it():
    """Token 3 was computed after 1 and 2; nobody may find it after 9 and 2, also when its page is full at last."""
    cache = CopyOnWrite(16, 2)
    cache.attach("a", [1, 2, 3], ["1", "12", "123"])
    cache.write("a", 0, [9], ["9"])
    cache.append("a", [4], ["after 3"])
    cache.check()
    assert cache.attach("d", [9, 2, 3, 4]) == 0


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda c: c._sequences["b"].keys.append(c._sequences["a"].keys[1]), "2 pages of 'b' can be found: at most 1"),
        (lambda c: c._sequences["a"].keys.reverse(), "page 0 of 'a' can be found, but not by its tokens and those"),
        (lambda c: c._sequences["a"].keys.__setitem__(1, b""), "page 1 of 'a' can be found, but not by its tokens"),
        (lambda c: c._sequences["a"].tokens.__setitem__(0, 5), "page 0 of 'a' can be found, but not by its tokens"),
        (lambda c: c._known._keys.__setitem__(1, b""), "2 pages can be found"),
        (lambda c: c._known.forget(1), "page 1 of 'a' can be found, but not by its tokens"),
        (lambda c: c._known.publish([8], [9]), "page 9 can be found, and no sequence has it"),
        (lambda c: c._sequences["b"].pages.append(3), "'b' has 2 pages: its tokens need 1"),
        (lambda c: c._references.counts.__setitem__(0, 1), "references to page 0: 1 counted, expected 2"),
        (lambda c: c.pool.free([0]), "page 0 has 2 references, but the pool disagrees"),
        (lambda c: c._references.hold([0]) or c._references.counts.__setitem__(0, 2), r"are counted as \(4, 1\)"),
    ],
)
def test_check_finds_what_disagrees_and_names_it(spoil, words):
    cache = CopyOnWrite(16, 1)
    cache.attach("a", [1, 2], "AB")
    cache.attach("b", [1], "A")
    cache.check()
    spoil(cache)
    with pytest.raises(InvariantError, match=words):
        cache.check()


def test_only_what_is_declared_is_found_where_nothing_is_discovered():
    cache = CopyOnWrite(8, 2, discovered=False)
    cache.attach("a", [1, 2, 3, 4, 5], "ABCDE", prefix_length=3)
    assert cache.attach("b", [1, 2, 3, 4, 5], prefix_length=5) == 2
    assert cache.attach("c", [1, 2, 3, 4, 5]) == 0
    assert CopyOnWrite(8, 2, declared=False, discovered=False).attach("a", [1, 2], "AB", prefix_length=2) == 0


def test_a_name_that_is_known_gets_a_new_sequence_and_its_pages_are_room_for_it():
    cache = CopyOnWrite(2, 2)
    cache.attach("a", [1, 2, 3, 4], "ABCD")
    for _ in range(5):
        cache.attach("a", [5, 6, 7, 8], "EFGH")
    assert (cache.get("a"), cache.pool.num_free) == (list("EFGH"), 0)


def test_a_draft_is_rolled_back_and_touches_no_page_of_another():
    cache = CopyOnWrite(8, 2)
    cache.attach("a", [1, 2, 3], "ABC")
    cache.fork("a", "b")
    before = cache.stats()
    cache.draft("b", [4, 5, 6], "DEF")
    assert cache.attach("c", [1, 2, 3, 4, 5, 6]) == 2  # nobody finds a draft
    cache.detach("c")
    cache.settle("b", 1)
    assert (cache.get("a"), cache.get("b")) == (list("ABC"), list("ABCD"))
    cache.truncate("b", 0)
    cache.detach("b")
    assert cache.stats()["allocated_pages"] == before["allocated_pages"]


@pytest.mark.parametrize(
    ("act", "error", "words"),
    [
        (lambda c: c.get("x"), KeyError, "there is no sequence 'x'"),
        (lambda c: c.detach("x"), KeyError, "there is no sequence 'x'"),
        (lambda c: c.fork("a", "a"), ValueError, "cannot fork 'a' to 'a'"),
        (lambda c: c.append("a", [4], "DE"), ValueError, "2 values for 1 tokens"),
        (lambda c: c.append("a", [-4], "D"), ValueError, r"tokens\[0\] is -4"),
        (
            lambda c: c.write("a", 2, [1, 1], "XX"),
            ValueError,
            "at is 2, and 2 tokens were given: 'a' has 3 to write over",
        ),
        (lambda c: c.truncate("a", 4), ValueError, "length is 4: 'a' has 3 tokens"),
        (lambda c: c.settle("a", 0), ValueError, "cannot settle 'a': it has no draft"),
        (lambda c: c.attach("b", [1], prefix_length=2), ValueError, "prefix_length is 2: the sequence has 1 tokens"),
        (lambda c: c.append("a", range(50), range(50)), OutOfPages, "pages needed"),
        (lambda c: c.attach("b", range(5, 50), range(5, 50)), OutOfPages, "pages needed"),
    ],
)
def test_what_cannot_be_changes_nothing(act, error, words):
    cache = CopyOnWrite(4, 2)
    cache.attach("a", [1, 2, 3], "ABC")
    before = cache.stats(), cache.get("a"), cache.pages("a")
    with pytest.raises(error, match=words):
        act(cache)
    assert (cache.stats(), cache.get("a"), cache.pages("a")) == before
    cache.check()


WRITES = [
    lambda cache, values: cache.append("a", [8, 9], values),
    lambda cache, values: cache.draft("a", [8, 9], values),
    lambda cache, values: cache.write("b", 1, [8, 9], values),
    lambda cache, values: cache.attach("a", [8, 9], values),
    lambda cache, values: cache.attach("new", [8, 9], values),
]


@pytest.mark.parametrize("act", WRITES)
@pytest.mark.parametrize(
    "values",
    [["X", threading.Lock()], {8: "X", 9: "Y"}, {"X", "Y"}, 5, iter("XY")],
    ids=["not to be copied", "a dictionary", "a set", "a number", "an iterator"],
)
def test_values_that_cannot_be_kept_change_nothing(act, values):
    cache = CopyOnWrite(4, 2)
    cache.attach("a", [1, 2, 3, 4, 5], "ABCDE")
    cache.fork("a", "b")
    before = cache.stats(), cache.get("a"), cache.pages("a"), cache.draft_length("a")
    with pytest.raises(TypeError, match=r"cannot pickle|expected one for each token, in order"):
        act(cache, values)
    assert (cache.stats(), cache.get("a"), cache.pages("a"), cache.draft_length("a")) == before
    cache.check()


class Stubborn:
    """A value that can be copied so many times, and then not any more."""

    def __init__(self, times):
        self.times = times

    def __deepcopy__(self, memo):
        if not self.times:
            raise RuntimeError("not again")
        return Stubborn(self.times - 1)


@pytest.mark.parametrize("act", WRITES[:3])
def test_a_page_is_copied_though_its_values_cannot_be_copied_again(act):
    cache = CopyOnWrite(4, 2)
    cache.attach("a", [1, 2, 3], [Stubborn(1), Stubborn(1), Stubborn(1)])
    cache.fork("a", "b")
    act(cache, "XY")
    cache.check()


def test_a_page_that_cannot_be_copied_changes_nothing(monkeypatch):
    cache = CopyOnWrite(4, 2)
    cache.attach("a", [1, 2, 3], "ABC")
    cache.fork("a", "b")
    before = cache.stats(), cache.get("a"), cache.pages("a"), cache.draft_length("a")
    monkeypatch.setattr(cache.values, "copy", lambda source, target: 1 / 0)
    for act in WRITES[:3]:
        with pytest.raises(ZeroDivisionError):
            act(cache, "XY")
        assert (cache.stats(), cache.get("a"), cache.pages("a"), cache.draft_length("a")) == before
        cache.check()


class Fickle:
    """A name whose hash works `times` times."""

    def __init__(self, text):
        self.text, self.times = text, 100

    def __eq__(self, other):
        return self is other

    def __hash__(self):
        self.times -= 1
        if self.times < 0:
            raise RuntimeError("no hash today")
        return hash(self.text)


@pytest.mark.parametrize("act", ["attach", "attach with values", "attach in its place", "fork", "detach"])
@pytest.mark.parametrize("times", range(6))
def test_a_name_whose_hash_raises_changes_nothing(act, times):
    """It fails at its first use, or its second, or at one after that; where it does not fail, the act is done."""
    cache, name, new = CopyOnWrite(6, 2), Fickle("a"), Fickle("b")
    cache.attach(name, [1, 2, 3], "ABC")
    before = cache.stats(), cache.pages(name), cache.get(name)
    name.times, new.times = (100 if act == "fork" else times), times
    with contextlib.suppress(RuntimeError):
        if act == "attach":
            cache.attach(new, [1, 2, 3])
        elif act == "attach with values":
            cache.attach(new, [1, 2, 7, 8, 9], "ABXYZ")
        elif act == "attach in its place":
            cache.attach(name, range(12), range(12))
        elif act == "fork":
            cache.fork(name, new)
        else:
            cache.detach(name)
        before = None
    name.times = new.times = 100
    assert before is None or (cache.stats(), cache.pages(name), cache.get(name)) == before
    cache.check()


@pytest.mark.parametrize("act", WRITES)
@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda ones: (ones, ones.half()), "values of layer 1 are rows of torch.float16"),
        (lambda ones: (ones, ones[..., :1]), r"values of layer 1 are rows of torch.float32 \(1, 1\) on cpu: expected"),
        (lambda ones: (ones, ones, ones), "values of layer 1 have 3 parts: expected keys and values"),
        (lambda ones: (ones.tolist(), ones), "keys of layer 1 are a list: expected a tensor"),
    ],
)
def test_tensors_that_cannot_be_kept_change_nothing(act, spoil, words):
    torch = pytest.importorskip("torch")
    store = KVStore(KVShape(num_layers=2, num_kv_heads=1, head_dim=2), num_pages=4, page_size=2, dtype="fp32")
    cache, ones = CopyOnWrite(4, 2, store), torch.ones(5, 1, 2)
    cache.attach("a", [1, 2, 3, 4, 5], [(ones, ones)] * 2)
    cache.fork("a", "b")
    before, twos = (cache.stats(), cache.pages("a")), 2 * ones[:2]
    with pytest.raises(ValueError, match=f"^{words}"):
        act(cache, [(twos, twos), spoil(twos)])
    assert (cache.stats(), cache.pages("a")) == before
    assert all(side.eq(1).all() for name in "ab" for pair in cache.get(name) for side in pair)
    cache.check()


def test_tensors_of_a_store_are_shared_and_copied_in_all_layers():
    torch = pytest.importorskip("torch")
    store = KVStore(KVShape(num_layers=2, num_kv_heads=1, head_dim=2), num_pages=4, page_size=2, dtype="fp32")
    cache = CopyOnWrite(4, 2, store)
    keys = torch.arange(6.0).view(3, 1, 2)
    cache.attach("a", [1, 2, 3], [(keys, -keys), (keys + 10, keys + 20)])
    cache.fork("a", "b")
    ones = torch.ones(1, 1, 2)
    cache.write("b", 0, [9], [(ones, ones)] * 2)
    for name, first in (("a", [[0.0, 1.0], [10.0, 11.0]]), ("b", [[1.0, 1.0], [1.0, 1.0]])):
        assert [found[0][0, 0].tolist() for found in cache.get(name)] == first
        assert [found[0][1:, 0].tolist() for found in cache.get(name)] == [
            keys[1:, 0].tolist(),
            (keys + 10)[1:, 0].tolist(),
        ]
    for wrong, words in (([(keys, keys)], "1 layers"), ([(keys, keys), (keys, ones)], r"values have \[1, 3\] rows")):
        with pytest.raises(ValueError, match=words):
            cache.append("a", [1, 2, 3], wrong)


def test_a_store_of_another_size_is_refused():
    store = KVStore(KVShape(num_layers=1, num_kv_heads=1, head_dim=2), num_pages=4, page_size=2, dtype="fp32")
    with pytest.raises(ValueError, match="the store has 4 pages of 2 tokens: expected 4 of 1"):
        CopyOnWrite(4, 1, store)


def test_sequences_and_drafts_can_be_asked_for():
    cache = CopyOnWrite(8, 2)
    for name in ("b", "a"):
        cache.attach(name, [1, 2, 3], "ABC")
    cache.draft("a", [4, 5], "DE")
    assert cache.names() == ["b", "a"]
    assert [cache.draft_length(name) for name in cache.names()] == [0, 2]
    cache.settle("a", 1)
    cache.detach("b")
    assert (cache.names(), cache.draft_length("a")) == (["a"], 0)
