"""The conformance kit: what keeps the rules passes, whatever it is made of, and each rule is found broken."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
from careless_caches import CARELESS, ForgetsTheMatch, NeverJoins, SplitForgetsTheLocks, TakesTheNewPages
from indexes import CarriedOut
from plain_cache import PlainCache

from minikv import NoCache, RadixCache
from minikv.testing import attempt as attempt_module
from minikv.testing.conformance.caches import CacheRun
from minikv.testing.conformance.examine import verify
from minikv.testing.conformance.playing import find_breach
from minikv.testing.conformance.rules import BROKEN, CACHE_RULES, HOLDS, NOT_CLAIMED, NOT_JUDGED, NOT_REACHED
from minikv.testing.conformance.script import scenario_of
from minikv.testing.conformance.subject import subject_of
from minikv.tokens import PackedTokens

pytestmark = pytest.mark.core

FEW = 40  # scenarios of Hypothesis: what finds the mistakes below without being picked for them


@functools.cache
def judged(made):
    """The verdicts on a careless cache."""
    return verify(made, examples=0, home="careless_caches")


def states(made, **options):
    """For each state the numbers of the rules that have it."""
    found = {}
    for each in verify(made, **{"examples": 0, **options}).verdicts:
        found.setdefault(each.state, []).append(each.rule)
    return found


def script(made, rule, **options):
    """The lines that show that this rule is broken."""
    (found,) = [each for each in verify(made, **{"examples": 0, "home": "", **options}).verdicts if each.rule == rule]
    return (found.script or "").split("\n")


# -- what is right --------------------------------------------------------------------------------------------------


def test_the_radix_cache_keeps_all_fifteen_rules():
    assert states(RadixCache, examples=FEW) == {HOLDS: [*range(1, 16)]}


def test_a_slow_cache_of_plain_lists_keeps_what_it_claims():
    assert states(PlainCache, examples=FEW) == {HOLDS: [*range(1, 14), 15], NOT_CLAIMED: [14]}


def test_a_cache_that_takes_no_page_size_is_judged_with_pages_of_1():
    class OfOne(PlainCache):
        def __init__(self):
            super().__init__()

    assert states(OfOne, examples=FEW) == {HOLDS: [*range(1, 14)], NOT_CLAIMED: [14], NOT_REACHED: [15]}


def test_a_cache_with_pages_of_its_own_size_is_judged_with_those():
    class OfFour(PlainCache):
        def __init__(self):
            super().__init__(4)

    assert states(OfFour, examples=FEW) == {HOLDS: [1, *range(3, 14), 15], NOT_CLAIMED: [14], NOT_REACHED: [2]}


@pytest.mark.parametrize("write", ["write_back", "write_through"])
def test_the_device_side_of_two_tiers_keeps_all_fifteen_rules(write):
    assert states(CarriedOut, examples=FEW, host_pages=6, write=write) == {HOLDS: [*range(1, 16)]}


class CountsHostMemory(CarriedOut):
    """Says of what is in host memory that it is cached, in whatever pages it had there."""

    def _find_in_both(self, *asked):
        match, path = super()._find_in_both(*asked)
        if match.host_length:
            there = self.host.index.match_prefix(PackedTokens(match.source)[: match.length + match.host_length])
            match.length, match.parts = there.length, [there.pages.tobytes()]
        return match, path


class KeepsWhatMoves(CarriedOut):
    """Of what it evicts, it does not return the pages that are copied out."""

    def evict(self, num_tokens):
        pages = super(CarriedOut, self).evict(num_tokens)
        while (move := self.next_move()) is not None:
            self.settle(move)
            pages = pages[~np.isin(pages, move.src)]
        return pages


@pytest.mark.parametrize(("made", "rule"), [(CountsHostMemory, 3), (KeepsWhatMoves, 9)])
def test_a_mistake_between_two_tiers_is_found_on_the_device(made, rule):
    assert rule in states(made, examples=FEW, host_pages=6)[BROKEN]


def test_arguments_can_be_given_to_all_objects():
    assert states(RadixCache, evict_by="page") == {HOLDS: [*range(1, 16)]}


# -- what is not ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("made", "rule"), CARELESS.items(), ids=lambda value: getattr(value, "__name__", value))
def test_each_rule_is_found_broken_and_named_first(made, rule):
    broken = judged(made).broken
    assert rule in [each.rule for each in broken][:2]
    assert len(broken) <= 3


def test_every_rule_has_a_careless_cache():
    assert set(CARELESS.values()) == set(CACHE_RULES)


@pytest.mark.parametrize("made", CARELESS, ids=lambda made: made.__name__)
def test_the_script_of_a_broken_rule_runs_as_it_is(made):
    for each in judged(made).broken:
        *lines, comment = each.script.split("\n")
        assert comment.startswith("# ")
        text = "\n".join(lines)
        if comment.startswith("# raises"):
            with pytest.raises(Exception):  # noqa: B017, PT011 - whatever it is, it comes from the last line
                exec(text, {})
        else:
            exec(text, {})


def test_the_scripts_are_short():
    assert script(TakesTheNewPages, 4, examples=FEW) == [
        "cache = TakesTheNewPages()",
        "cache.insert([1], [0])",
        "cache.insert([1], [1])",
        "cache.evict(1)",
        "# gives [1]: page 1 is not cached",
    ]
    assert script(ForgetsTheMatch, 8, examples=FEW)[-1].endswith("was used less recently")
    assert len(script(SplitForgetsTheLocks, 5, examples=FEW)) <= 6


def test_the_same_class_has_the_same_report_every_time():
    first, again = (str(verify(ForgetsTheMatch, examples=FEW)) for _ in range(2))
    assert first == again


def test_a_rule_that_is_not_claimed_is_not_judged():
    class Modest(TakesTheNewPages):
        claims = frozenset({1, 2, 10})

    assert states(Modest, examples=FEW) == {
        HOLDS: [1, 2, 10],
        NOT_CLAIMED: [n for n in range(1, 16) if n not in (1, 2, 10)],
    }


@pytest.mark.parametrize("claims", [[99], "all", 5, [[]], ["1"]])
def test_claims_that_are_no_numbers_of_rules_are_named(claims):
    made = type("Boastful", (PlainCache,), {"claims": claims})
    with pytest.raises(ValueError, match=r"claims is .*: expected numbers of rules, 1 to 15"):
        verify(made)


def test_what_nothing_could_show_is_not_reached():
    class Half:
        def match_prefix(self, tokens, **options):
            return 0

        def insert(self, tokens, pages, **options):
            return 0

    assert states(Half, examples=FEW) == {BROKEN: [3, 4, 6, 7, 9, 10, 11, 12], NOT_REACHED: [1, 2, 5, 8, 13, 14, 15]}
    lines = str(verify(Half, examples=FEW)).splitlines()
    assert "  8  not reached  the least recently used goes first: last match, insert or unlock" in lines
    assert lines[-1] == "not reached: 7, broken: 8"


def test_an_index_that_caches_nothing_shows_nothing():
    assert states(NoCache, examples=FEW) == {
        HOLDS: [1], NOT_CLAIMED: [4], NOT_REACHED: [2, 3, *range(5, 16)],
    }  # fmt: skip


FIVE, SIX = "cache.insert([1, 2], [5, 6])", "cache.insert([1, 3], [5, 7])"


@pytest.mark.parametrize(
    ("lines", "reached"),
    [
        (["cache.match_prefix([1])", "cache.evict(1)", "cache.reset()"], set()),
        (["cache.insert([-1], [5])"], {1}),
        (["cache.insert([1], [5])"], {7, 9}),  # at the end all is evicted
        (["cache.insert([1], [5])", "cache.insert([2], [6])"], {7, 8, 9}),
        ([FIVE, "cache.match_prefix([2])"], {7, 9}),
        ([FIVE, "cache.match_prefix([1])"], {3, 7, 9, 14}),  # a split, so that a join would be seen
        ([FIVE, SIX], {4, 7, 8, 9, 14}),
        ([FIVE, "a = cache.acquire([1])"], {3, 5, 7, 9, 14}),
        ([FIVE, "a = cache.acquire([1, 2])", "cache.evict(1)"], {3, 6, 7}),
        (["cache.insert([1], [5])", "cache.insert([2], [6])", "a = cache.acquire([1])"], {3, 7, 9}),
        ([FIVE, "cache.reset()"], {7, 11}),
        ([FIVE, "cache.insert([1], [7], namespace='a')"], {7, 8, 9, 10}),
        ([FIVE, "cache.insert([2], [7], namespace='a')"], {7, 8, 9}),
        (["tokens = [1]", "cache.insert(tokens, [5])", "tokens[0] = 2", "cache.match_prefix([1])"], {2, 3, 7, 9}),
    ],
)
def test_a_rule_is_reached_by_what_happens(lines, reached):
    found = set()
    assert find_breach(CacheRun, subject_of(RadixCache, range(1, 16)), scenario_of(*lines), found) is None
    assert found == reached


def test_what_only_follows_from_another_fault_does_not_hold():
    class Scarred(NeverJoins):
        def reset(self):
            self._clear()

    found = states(Scarred)
    assert (found[BROKEN], found[NOT_REACHED]) == ([11], [14])


def test_an_eviction_in_the_wrong_order_is_not_a_shared_namespace():
    class OneAfterTheOther(PlainCache):
        """What has a namespace goes last, however long ago it was used."""

        def leaves(self):
            found = super().leaves()
            return [key for key in found if key[0] is None] or found

    lines = "cache.insert([1], [5], namespace='a')", "cache.insert([1], [6])", "cache.evict(1)"
    found = find_breach(CacheRun, subject_of(OneAfterTheOther, range(1, 16)), scenario_of(*lines), set())
    assert (found.rule, found.words) == (8, "evicts page 6, although page 5 was used less recently")


def test_a_join_that_nobody_can_see_is_not_reached():
    class Opaque(PlainCache):
        claims = range(1, 16)

    assert states(Opaque) == {HOLDS: [*range(1, 14), 15], NOT_REACHED: [14]}


# -- what is silly --------------------------------------------------------------------------------------------------


def test_of_a_class_that_cannot_be_made_no_rule_is_judged_and_it_says_why():
    class NeedsMore(RadixCache):
        def __init__(self, capacity):
            super().__init__()

    found = verify(NeedsMore, home="", examples=0)
    assert {each.state for each in found.verdicts} == {NOT_JUDGED}
    assert found.status == 1
    why, made, error = found.note.split("\n    ")[:3]
    assert (why, made) == ("it cannot be made:", "cache = NeedsMore()")
    assert error.startswith("# raises TypeError (")
    assert str(found).endswith(f"{found.note}\nnot judged: 15")


def test_a_class_that_cannot_be_made_with_larger_pages_breaks_rule_15():
    class SmallPages(PlainCache):
        def __init__(self, page_size=1):
            assert page_size == 1
            super().__init__()

    assert states(SmallPages)[BROKEN] == [15]


@pytest.mark.parametrize(
    ("verb", "rule"),
    [("acquire", 6), ("insert", 4), ("evict", 9), ("reset", 11), ("check", 12), ("lock", 6), ("total_size", 7)],
)
def test_what_is_missing_is_named(verb, rule):
    made = type("Half", (PlainCache,), {verb: property(lambda self: self.nothing)})
    assert rule in states(made)[BROKEN]
    assert script(made, rule)[-2:] == [f"cache.{verb}", f"# it has no {'method ' * (verb[-4:] != 'size')}{verb}"]


@pytest.mark.parametrize("answer", [None, 7, "text", object(), [], itertools.count(), RadixCache])
@pytest.mark.parametrize(("verb", "rule"), [("match_prefix", 3), ("insert", 4), ("evict", 9)])
def test_an_answer_of_the_wrong_kind_is_shown(answer, verb, rule, monkeypatch):
    if (verb, answer) == ("evict", []):
        pytest.skip("a list is right")
    if isinstance(answer, itertools.count):  # it has no end
        monkeypatch.setattr(attempt_module, "MOST_SECONDS", 0.3)
    made = type("Odd", (PlainCache,), {verb: lambda self, *args, **options: answer})
    assert rule in states(made)[BROKEN]


@pytest.mark.parametrize("error", [KeyError(3), SystemExit(0), RecursionError(), GeneratorExit()])
def test_whatever_it_raises_comes_no_further(error):
    def verb(self, *args, **options):
        raise error

    assert 9 in states(type("Raises", (PlainCache,), {"evict": verb}))[BROKEN]


def test_an_endless_loop_is_a_broken_rule(monkeypatch):
    monkeypatch.setattr(attempt_module, "MOST_SECONDS", 0.3)

    class Spins(PlainCache):
        """AstrAI: with everything locked, eviction never ends."""

        def evict(self, num_tokens):
            while num_tokens and self.kept:
                pass
            return super().evict(num_tokens)

    (broken,) = verify(Spins, examples=0, home="").broken
    assert (broken.rule, broken.script.split("\n")[-1]) == (9, "# did not finish within 0.3 seconds")


def test_a_plain_cache_is_needed_to_say_what_an_object_can_do():
    class Anything:
        def __getattr__(self, name):
            return lambda *args, **options: self

    found = states(Anything)
    assert 3 in found[BROKEN]
    assert 4 in found[BROKEN]
