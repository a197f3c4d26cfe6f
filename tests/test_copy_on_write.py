"""Sequences that share pages, beside a model that shares nothing: each has what was written to it, and no more."""

import threading

import pytest
from copy_on_write_machine import AgainstCopies
from hypothesis import settings
from refusals import said

from minikv import CopyOnWrite, InvariantError, KVShape, KVStore


class TestAgainstCopies(AgainstCopies.TestCase):
    settings = settings(stateful_step_count=30)


# -- what is shared; what is found, the machine says -------------------------------------------------------------------


def played(page_size, steps, **options):
    """A cache of 8 pages after some acts, each a verb and its arguments."""
    cache = CopyOnWrite(8, page_size, **options)
    for verb, *arguments in steps:
        getattr(cache, verb)(*arguments)
        cache.check()
    return cache


A = ("attach", "a", [1, 2, 3, 4], "ABCD")


def test_a_fork_copies_nothing_and_no_draft_the_first_write_one_page_and_the_second_none():
    assert played(2, [A, ("draft", "a", [5], "E"), ("fork", "a", "b")]).tokens("b") == [1, 2, 3, 4]
    cache = played(2, [A, ("fork", "a", "b"), ("write", "b", 3, [9], "Z"), ("write", "b", 2, [8], "Y")])
    assert (cache.pages("a"), cache.pages("b"), cache.pool.num_free) == ([0, 1], [0, 2], 5)


def test_what_get_returns_is_a_copy_and_so_is_what_was_given():
    given = [["A"], ["B"]]
    cache = played(2, [("attach", "a", [1, 2], given), ("fork", "a", "b")])
    given[0].append("changed")
    cache.get("a")[1].append("changed")
    assert cache.get("a") == cache.get("b") == [["A"], ["B"]]


def test_a_name_that_is_known_gets_a_new_sequence_and_its_pages_are_room_for_it():
    cache = played(1, [(*A[:2], [turn, *range(7)], "ABCDEFGH") for turn in range(5)])
    assert (cache.get("a"), cache.pool.num_free) == ([*"ABCDEFGH"], 0)


SPOILS = [
    (lambda c, a, b: b.keys.append(a.keys[1]), "2 pages of 'b' can be found: at most 1"),
    (lambda c, a, b: a.keys.reverse(), "page 0 of 'a' can be found, but not by its tokens and those"),
    (lambda c, a, b: a.keys.__setitem__(1, b""), "page 1 of 'a' can be found, but not by its tokens"),
    (lambda c, a, b: a.tokens.__setitem__(0, 5), "page 0 of 'a' can be found, but not by its tokens"),
    (lambda c, a, b: c._known._keys.__setitem__(1, b""), "2 pages can be found"),
    (lambda c, a, b: c._known.forget(1), "page 1 of 'a' can be found, but not by its tokens"),
    (lambda c, a, b: c._known.publish([8], [9]), "page 9 can be found, and no sequence has it"),
    (lambda c, a, b: b.pages.append(3), "'b' has 2 pages: its tokens need 1"),
    (lambda c, a, b: c._references.counts.__setitem__(0, 1), "references to page 0: 1 counted, expected 2"),
    (lambda c, a, b: c.pool.free([0]), "page 0 has 2 references, but the pool disagrees"),
    (
        lambda c, a, b: c._references.hold([0]) or c._references.counts.__setitem__(0, 2),
        r"are counted as \(4, 1\)",
    ),
]


@pytest.mark.parametrize(("spoil", "words"), SPOILS)
def test_check_finds_what_disagrees_and_names_it(spoil, words):
    cache = played(1, [("attach", "a", [1, 2], "AB"), ("attach", "b", [1], "A")])
    spoil(cache, *cache._sequences.values())
    with pytest.raises(InvariantError, match=words):
        cache.check()


# -- what cannot be done changes nothing ------------------------------------------------------------------------------


def state(cache):
    each = [(name, cache.pages(name), cache.draft_length(name), repr(cache.get(name))) for name in cache.names()]
    return cache.stats(), each


def refused(cache, verb, *arguments):
    """What is said of an act that must fail; nothing has changed then."""
    before = state(cache)
    says = said(getattr(cache, verb), *arguments)
    assert state(cache) == before
    cache.check()
    return says


WRONG = [
    (("get", "x"), "KeyError: \"there is no sequence 'x'"),
    (("detach", "x"), "KeyError: \"there is no sequence 'x'"),
    (("fork", "a", "a"), "ValueError: cannot fork 'a' to 'a'"),
    (("append", "a", [4], "DE"), "ValueError: 2 values for 1 tokens"),
    (("append", "a", [-4], "D"), "ValueError: tokens[0] is -4"),
    (("append", "a", range(50), range(50)), "OutOfPages: "),
    (("attach", "b", range(5, 50), range(5, 50)), "OutOfPages: "),
    (("attach", "b", [1], None, 2), "ValueError: prefix_length is 2: the sequence has 1 tokens"),
    (
        ("write", "a", 2, [1, 1], "XX"),
        "ValueError: at is 2, and 2 tokens were given: 'a' has 3 to write over",
    ),
    (("truncate", "a", 4), "ValueError: length is 4: 'a' has 3 tokens"),
    (("settle", "a", 0), "ValueError: cannot settle 'a': it has no draft"),
]


@pytest.mark.parametrize(("act", "words"), WRONG)
def test_what_cannot_be_changes_nothing(act, words):
    assert refused(played(2, [("attach", "a", [1, 2, 3], "ABC")]), *act).startswith(words)


WRITES = [("append", "a", [8, 9]), ("draft", "a", [8, 9]), ("write", "b", 1, [8, 9]), ("attach", "a", [8, 9]),
          ("attach", "new", [8, 9])]  # fmt: skip
each_write = pytest.mark.parametrize("act", WRITES)


@each_write
def test_values_that_cannot_be_kept_change_nothing(act):
    cache = played(2, [("attach", "a", [1, 2, 3, 4, 5], "ABCDE"), ("fork", "a", "b")])
    assert refused(cache, *act, ["X", threading.Lock()]).startswith("TypeError: cannot pickle")
    for values in ({8: "X", 9: "Y"}, {"X", "Y"}, 5, iter("XY")):
        says = refused(cache, *act, values)
        assert says.startswith("TypeError: ")
        assert says.endswith("expected one for each token, in order")


class Stubborn:
    """A value that can be copied so many times, and then not any more."""

    def __init__(self, times):
        self.times = times

    def __deepcopy__(self, memo):
        if not self.times:
            raise RuntimeError("not again")
        return Stubborn(self.times - 1)


@pytest.mark.parametrize("act", WRITES[:3])
def test_a_page_is_copied_though_its_values_cannot_be_copied_again(act, monkeypatch):
    cache = played(2, [("attach", "a", [1, 2, 3], [Stubborn(1)] * 3), ("fork", "a", "b")])
    getattr(cache, act[0])(*act[1:], "XY")
    cache = played(2, [("attach", "a", [1, 2, 3], "ABC"), ("fork", "a", "b")])
    monkeypatch.setattr(cache.values, "copy", lambda source, target: 1 / 0)
    assert refused(cache, *act, "XY").startswith("ZeroDivisionError")


class Fickle:
    """A name whose hash works `times` times."""

    times = 100

    def __hash__(self):
        self.times -= 1
        if self.times < 0:
            raise RuntimeError("no hash today")
        return 1


@pytest.mark.parametrize("times", range(6))
@pytest.mark.parametrize(
    ("which", "act"),
    [
        (1, lambda cache, old, new: cache.attach(new, [1, 2, 3])),
        (1, lambda cache, old, new: cache.attach(new, [1, 2, 7, 8, 9], "ABXYZ")),
        (0, lambda cache, old, new: cache.attach(old, range(12), range(12))),
        (1, lambda cache, old, new: cache.fork(old, new)),
        (0, lambda cache, old, new: cache.detach(old)),
    ],
)
def test_a_name_whose_hash_raises_changes_nothing(which, act, times):
    """It fails at its first use, or its second, or at one after that; where it does not fail, the act is done."""
    names = Fickle(), Fickle()
    cache = played(2, [("attach", names[0], [1, 2, 3], "ABC")])
    before = state(cache)
    names[which].times = times
    says = said(act, cache, *names)
    names[which].times = 100
    assert not says or state(cache) == before
    cache.check()


# -- the tensors of a store -------------------------------------------------------------------------------------------


@pytest.fixture
def store():
    pytest.importorskip("torch")
    return KVStore(KVShape(num_layers=2, num_kv_heads=1, head_dim=2), num_pages=8, page_size=2, dtype="fp32")


@each_write
def test_tensors_that_cannot_be_kept_change_nothing(act, store):
    ones = store.read(0, [0, 1])[0] + 1
    cache = played(2, [("attach", "a", [1, 2], [(ones, ones)] * 2), ("fork", "a", "b")], store=store)
    for wrong, words in (
        ((ones, ones.half()), "values of layer 1 are rows of torch.float16"),
        ((ones, ones[..., :1]), "values of layer 1 are rows of torch.float32 (1, 1) on cpu: expected"),
        ((ones, ones, ones), "values of layer 1 have 3 parts: expected keys and values"),
        ((ones.tolist(), ones), "keys of layer 1 are a list: expected a tensor"),
        ((ones, ones[:1]), "values have [1, 2] rows"),
    ):
        assert refused(cache, *act, [(ones, ones), wrong]).startswith(f"ValueError: {words}")


def test_tensors_of_a_store_are_shared_and_copied_in_all_layers(store):
    rows = store.read(0, [0, 1, 2])[0] + 1
    pairs = [(rows, 2 * rows), (3 * rows, 4 * rows)]
    cache = played(2, [("attach", "a", [1, 2, 3], pairs), ("fork", "a", "b")], store=store)
    cache.write("b", 0, [9], [(5 * rows[:1],) * 2] * 2)
    for name, first in ("a", None), ("b", 5):
        found = [side[:, 0, 0].tolist() for pair in cache.get(name) for side in pair]
        assert found == [[first or number, number, number] for number in range(1, 5)]
    assert said(CopyOnWrite, 4, 1, store) == "ValueError: the store has 8 pages of 2 tokens: expected 4 of 1"


def test_of_tensors_for_all_tokens_those_after_the_shared_pages_are_written(store):
    rows = store.read(0, [0, 1, 2, 3, 4])[0]
    for token in range(5):
        rows[token] = token
    cache = played(2, [("attach", "a", [1, 2, 3], [(rows[:3], rows[:3])] * 2)], store=store)
    assert cache.attach("b", [1, 2, 3, 4, 5], [(rows, 10 * rows)] * 2) == 2
    assert [side[:, 0, 0].tolist() for side in cache.get("b")[1]] == [[0, 1, 2, 3, 4], [0, 1, 20, 30, 40]]
