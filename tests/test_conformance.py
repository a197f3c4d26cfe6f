"""The conformance kit: what keeps the rules passes, whatever it is made of, and each rule is found broken."""

import functools
import itertools

import numpy as np
import pytest
from careless_caches import CARELESS, ForgetsTheMatch, NeverHits, NeverJoins, SplitForgetsTheLocks, TakesTheNewPages
from indexes import CarriedOut
from plain_cache import PlainCache

from minikv import NoCache, RadixCache
from minikv.testing import attempt as attempt_module
from minikv.testing.rules import BROKEN, HOLDS, NOT_CLAIMED, NOT_JUDGED, NOT_REACHED, RULES, subject_of
from minikv.testing.scenarios import scenario_of
from minikv.testing.search import find_breach
from minikv.testing.verify import verify
from minikv.tokens import PackedTokens

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


class OfOne(PlainCache):
    def __init__(self):
        super().__init__()


class OfFour(PlainCache):
    def __init__(self):
        super().__init__(4)


class Opaque(PlainCache):
    """A join that nobody can see."""

    claims = tuple(RULES)


class Modest(TakesTheNewPages):
    claims = frozenset({1, 2, 10})


class EntersAndLeaves(PlainCache):
    """A plain LRU that is right by its own lights: the end of a request is no use."""

    used_by = ("match_prefix", "insert")

    def unlock(self, handle):
        before = {key: cached.used for key, cached in self.table.items()}
        super().unlock(handle)
        for key, used in before.items():
            self.table[key].used = used


class Half:
    """What nothing could show is not reached."""

    def match_prefix(self, tokens, **options):
        return 0

    def insert(self, tokens, pages, **options):
        return 0


@pytest.mark.parametrize(("made", "options", "most", "others"), [
    (RadixCache, {"examples": FEW}, HOLDS, {}), (RadixCache, {"evict_by": "page"}, HOLDS, {}),
    (PlainCache, {"examples": FEW}, HOLDS, {NOT_CLAIMED: [14]}),
    (EntersAndLeaves, {"examples": FEW}, HOLDS, {NOT_CLAIMED: [14]}),
    (OfOne, {"examples": FEW}, HOLDS, {NOT_CLAIMED: [14], NOT_REACHED: [15]}),
    (OfFour, {"examples": FEW}, HOLDS, {NOT_CLAIMED: [14], NOT_REACHED: [2]}),
    (CarriedOut, {"examples": FEW, "host_pages": 6}, HOLDS, {}),
    (CarriedOut, {"host_pages": 6, "write": "write_through"}, HOLDS, {}),
    (Opaque, {}, HOLDS, {NOT_REACHED: [14]}),
    (Modest, {"examples": FEW}, NOT_CLAIMED, {HOLDS: [1, 2, 10]}),
    (NoCache, {"examples": FEW}, NOT_REACHED, {HOLDS: [1], NOT_CLAIMED: [4]}),
    (Half, {"examples": FEW}, NOT_REACHED, {BROKEN: [3, 4, 6, 7, 9, 10, 11, 12]}),
], ids=lambda value: getattr(value, "__name__", ""))  # fmt: skip
def test_a_class_is_judged_by_what_it_claims_and_by_what_could_be_seen(made, options, most, others):
    """Most rules, all but those of the `others`, come to one verdict."""
    rest = [rule for rule in RULES if not any(rule in rules for rules in others.values())]
    assert states(made, **options) == {most: rest, **others}


def test_a_use_is_what_the_class_says():
    """Without its word, the unlock that is no use breaks rule 8."""
    made = type("SaysNothing", (EntersAndLeaves,), {"used_by": None})
    assert states(made)[BROKEN] == [8]


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
    assert rule in states(made, examples=0, host_pages=6)[BROKEN]


# -- what is not ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("made", "rule"), CARELESS.items(), ids=lambda value: getattr(value, "__name__", value))
def test_each_rule_is_found_broken_and_named_first_by_a_script_that_runs_as_it_is(made, rule):
    broken = judged(made).broken
    assert rule in [each.rule for each in broken][:2]
    assert len(broken) <= 3
    for each in broken:
        lines, comment = each.script.rsplit("\n", 1)
        assert comment.startswith("# ")
        raised = None
        try:
            exec(lines, {})
        except Exception as error:  # whatever it is, it comes from the last line
            raised = error
        assert (raised is not None) == comment.startswith("# raises"), raised


def test_every_rule_has_a_careless_cache():
    assert set(CARELESS.values()) == set(RULES)


def test_a_cache_that_never_hits_is_told_so():
    found = verify(NeverHits, examples=0, home="")
    assert [each.rule for each in found.broken] == [3]
    assert found.broken[0].script.endswith("\n# finds nothing, expected length 2 and pages [5, 6]")
    said = "it never hits: nothing that was inserted was found again, so this cache saves no work"
    assert said in str(found).partition("rule 3 is broken")[0]
    assert said in verify(NoCache, examples=0).note
    assert not verify(PlainCache, examples=0).note


def test_the_scripts_are_short_and_the_same_every_time():
    assert script(TakesTheNewPages, 4, examples=FEW) == [
        "cache = TakesTheNewPages()",
        "cache.insert([1], [0])",
        "cache.insert([1], [1])",
        "cache.evict(1)",
        "# gives [1]: page 1 is not cached",
    ]
    found = script(ForgetsTheMatch, 8, examples=FEW)
    assert found[-1].endswith("was used less recently")
    assert found == script(ForgetsTheMatch, 8, examples=FEW)
    assert len(script(SplitForgetsTheLocks, 5)) <= 6


@pytest.mark.parametrize(("name", "said"), [("claims", [99]), ("claims", "all"), ("claims", 5), ("claims", [[]]),
                                            ("claims", ["1"]), ("used_by", ["evict"]), ("used_by", "all")])  # fmt: skip
def test_claims_that_are_no_numbers_of_rules_and_uses_that_are_no_verbs_are_named(name, said):
    made = type("Boastful", (PlainCache,), {name: said})
    with pytest.raises(ValueError, match=rf"{name} is .*: expected (numbers of rules, 1 to \d+|some of match_prefix)"):
        verify(made)


FIVE, SIX, TWO = "cache.insert([1, 2], [5, 6])", "cache.insert([1, 3], [5, 7])", "cache.insert([2], [6])"
ONE = "cache.insert([1], [5])"


@pytest.mark.parametrize(
    ("lines", "reached"),
    [
        (["cache.match_prefix([1])", "cache.evict(1)", "cache.reset()"], set()),
        (["cache.insert([-1], [5])"], {1}),
        ([ONE], {7, 9}),  # at the end all is evicted
        ([ONE, TWO], {7, 8, 9}),
        ([FIVE, "cache.match_prefix([2])"], {7, 9}),
        ([FIVE, "cache.match_prefix([1])"], {3, 7, 9, 14}),  # a split, so that a join would be seen
        ([FIVE, SIX], {4, 7, 8, 9, 14}),
        ([FIVE, "a = cache.acquire([1])"], {3, 5, 7, 9, 14}),
        ([FIVE, "a = cache.acquire([1, 2])", "cache.evict(1)"], {3, 6, 7}),
        ([ONE, TWO, "a = cache.acquire([1])"], {3, 7, 9}),
        ([FIVE, "cache.reset()"], {7, 11}),
        ([FIVE, "cache.insert([1], [7], namespace='a')"], {7, 8, 9, 10}),
        ([FIVE, "cache.insert([2], [7], namespace='a')"], {7, 8, 9}),
        (["tokens = [1]", "cache.insert(tokens, [5])", "tokens[0] = 2", "cache.match_prefix([1])"], {2, 3, 7, 9}),
    ],
)
def test_a_rule_is_reached_by_what_happens(lines, reached):
    found = set()
    assert find_breach(subject_of(RadixCache), scenario_of(*lines), found) is None
    assert found == reached


def test_what_only_follows_from_another_fault_does_not_hold():
    made = type("Scarred", (NeverJoins,), {"reset": lambda self: self._clear()})
    found = states(made)
    assert (found[BROKEN], found[NOT_REACHED]) == ([11], [14])


class OneAfterTheOther(PlainCache):
    """What has a namespace goes last, however long ago it was used."""

    def leaves(self):
        found = super().leaves()
        return [key for key in found if key[0] is None] or found


def test_an_eviction_in_the_wrong_order_is_not_a_shared_namespace():
    lines = "cache.insert([1], [5], namespace='a')", "cache.insert([1], [6])", "cache.evict(1)"
    found = find_breach(subject_of(OneAfterTheOther), scenario_of(*lines), set())
    assert (found.rule, found.words) == (8, "evicts page 6, although page 5 was used less recently")


class TakesOneMore(PlainCache):
    def evict(self, num_tokens):
        return super().evict(num_tokens + 1)


def test_an_eviction_of_a_leaf_too_many_is_found_though_one_hangs_on_the_other():
    found = find_breach(subject_of(TakesOneMore), scenario_of(FIVE, "cache.match_prefix([1])", "cache.evict(1)"), set())
    assert (found.rule, found.words) == (9, "frees 2 tokens, more leaves than it takes to free 1")


class RemembersTheReset(PlainCache):
    def reset(self):
        super().reset()
        self.claims = ()

    def evict(self, num_tokens):
        return super().evict(num_tokens)[:: -1 if self.claims == () else 1]


def test_a_cache_that_is_another_after_a_reset_is_found():
    assert states(RemembersTheReset)[BROKEN] == [13]


class FindsWhatWent(PlainCache):
    claims = (3, 4, 9)

    def evict(self, num_tokens):
        table = {**self.table}
        pages = super().evict(num_tokens)
        self.table = table
        return pages


def test_a_match_of_pages_that_went_is_the_fault_of_the_eviction():
    lines = "cache.insert([1], [5])", "cache.evict(1)", "cache.match_prefix([1])"
    assert find_breach(subject_of(FindsWhatWent), scenario_of(*lines), set()).rule == 9


# -- what is silly --------------------------------------------------------------------------------------------------


def test_of_a_class_that_cannot_be_made_no_rule_is_judged_and_it_says_why():
    made = type("NeedsMore", (RadixCache,), {"__init__": lambda self, capacity: None})
    found = verify(made, home="", examples=0)
    assert ({each.state for each in found.verdicts}, found.status) == ({NOT_JUDGED}, 1)
    said = "\n".join(["it cannot be made:", "    cache = NeedsMore()", "    # raises TypeError ("])
    assert found.note.startswith(said)
    assert str(found).endswith(f"{found.note}\nnot judged: {len(RULES)}")


class SmallPages(PlainCache):
    def __init__(self, page_size=1):
        assert page_size == 1
        super().__init__()


def test_a_class_that_cannot_be_made_with_larger_pages_breaks_rule_15():
    assert states(SmallPages)[BROKEN] == [15]


@pytest.mark.parametrize(
    ("verb", "rule"),
    [("acquire", 6), ("insert", 4), ("evict", 9), ("reset", 11), ("check", 12), ("lock", 6), ("total_size", 7)],
)
def test_what_is_missing_is_named(verb, rule):
    made = type("Half", (PlainCache,), {verb: property(lambda self: self.nothing)})
    assert rule in states(made)[BROKEN]
    assert script(made, rule)[-2:] == [f"cache.{verb}", f"# it has no {'method ' * (verb[-4:] != 'size')}{verb}"]


def test_a_size_that_cannot_be_read_is_told_with_its_error():
    made = type("Half", (PlainCache,), {"total_size": property(lambda self: 1 // 0)})
    assert script(made, 7)[-1].startswith("# reading the sizes raises ZeroDivisionError")


ANSWERS = [None, 7, "text", object(), itertools.count(), RadixCache]


@pytest.mark.parametrize(("verb", "rule"), [("match_prefix", 3), ("insert", 4), ("evict", 9)])
def test_an_answer_of_the_wrong_kind_is_shown(verb, rule, monkeypatch):
    monkeypatch.setattr(attempt_module, "MOST_SECONDS", 0.3)  # one of them has no end
    for answer in ANSWERS:
        made = type("Odd", (PlainCache,), {verb: lambda self, *args, answer=answer, **options: answer})
        assert rule in states(made)[BROKEN], answer


@pytest.mark.parametrize("error", [KeyError(3), SystemExit(0), RecursionError(), GeneratorExit()])
def test_whatever_it_raises_comes_no_further(error):
    def verb(self, *args, **options):
        raise error

    assert 9 in states(type("Raises", (PlainCache,), {"evict": verb}))[BROKEN]


class Spins(PlainCache):
    """AstrAI: with everything locked, eviction never ends."""

    def evict(self, num_tokens):
        while num_tokens and self.kept:
            pass
        return super().evict(num_tokens)


def test_an_endless_loop_is_a_broken_rule(monkeypatch):
    monkeypatch.setattr(attempt_module, "MOST_SECONDS", 0.3)
    (broken,) = verify(Spins, examples=0, home="").broken
    assert (broken.rule, broken.script.split("\n")[-1]) == (9, "# did not finish within 0.3 seconds")


class Anything:
    def __getattr__(self, name):
        return lambda *args, **options: self


def test_a_plain_cache_is_needed_to_say_what_an_object_can_do():
    assert {3, 4} <= set(states(Anything)[BROKEN])
