"""The interleaving explorer: every order once, fewest interruptions first, and the first one that breaks."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikv import CacheManager
from minikv.testing.interleave import NAMES, Exploration, explore

pytestmark = pytest.mark.core


def walker(name, steps):
    """A program that writes its letter into the world at each step."""

    def program(world):
        for number in range(steps):
            yield f"step {number + 1}"
            world.append(name)

    return program


def all_orders(lengths, **more):
    """Every order that `explore` tries, in its order."""
    worlds = []

    def world():
        worlds.append([])
        return worlds[-1]

    found = explore(world, *(walker(NAMES[who], steps) for who, steps in enumerate(lengths)), **more)
    assert found == Exploration(len(worlds))
    return ["".join(done) for done in worlds]


def interruptions(order):
    return sum(one != other and one in order[at:] for at, (one, other) in enumerate(itertools.pairwise(order), 1))


@pytest.mark.parametrize("lengths", [(0,), (3,), (1, 1), (2, 3), (3, 0), (2, 1, 1), (2, 2, 2), (1, 1, 1, 1), (0, 0)])
def test_every_order_is_tried_once_fewest_interruptions_first_then_by_the_alphabet(lengths):
    letters = "".join(NAMES[who] * steps for who, steps in enumerate(lengths))
    expected = {"".join(order) for order in itertools.permutations(letters)}
    assert all_orders(lengths) == sorted(expected, key=lambda order: (interruptions(order), order))


@given(st.integers(0, 3))
def test_a_bound_leaves_out_the_orders_with_more_interruptions(most):
    every = all_orders((3, 3))
    assert all_orders((3, 3), interruptions=most) == [order for order in every if interruptions(order) <= most]


def test_the_first_order_that_breaks_is_told_as_far_as_it_went():
    def broken(world):
        if world == ["A", "B", "A"]:
            raise AssertionError("no A after B")

    found = explore(list, walker("A", 3), walker("B", 2), check=broken)
    at = all_orders((3, 2)).index("ABAAB") + 1
    assert (found.tried, found.broken.letters, found.broken.interruptions) == (at, "ABA", 2)
    assert str(found.broken.error) == "no A after B"
    assert repr(found).splitlines() == [
        f"order {at} breaks it, with 2 interruptions:", "A        B", "step 1", "         step 1", "step 2",
        "AssertionError: no A after B",
    ]  # fmt: skip


def test_a_step_that_raises_breaks_its_order_and_the_check_comes_after_every_step():
    seen = []

    def fails(world):
        yield "go"
        raise LookupError("gone")

    found = explore(list, walker("A", 2), fails, check=lambda world: seen.append(len(world)))
    assert (found.tried, found.broken.letters, str(found.broken.error)) == (1, "AAB", "gone")
    assert seen == [1, 2]


def test_programs_may_have_more_steps_in_one_order_than_in_another():
    def hurried(world):
        yield "look"
        if not world:
            yield "do it all"
            world.append("B")

    assert explore(list, walker("A", 1), hurried) == Exploration(len(["AB", "BBA", "BAB"]))


def test_what_is_done_before_the_first_yield_is_there_from_the_beginning():
    def early(world):
        world.append("ready")
        yield "nothing"

    def needs_it(world):
        yield "look"
        assert world == ["ready"]

    assert explore(list, early, needs_it) == Exploration(2)


def silent(world):
    """Its one step fails, and its `yield` does not say what it does."""
    yield
    pytest.fail("this step ran")


def falls_silent(world):
    yield "say"
    yield 0


@pytest.mark.parametrize(("program", "yields"), [(silent, "None"), (falls_silent, "0")])
def test_a_yield_without_words_is_a_mistake_in_the_program_not_its_end(program, yields):
    with pytest.raises(TypeError, match=rf'program A yields {yields}: write `yield "words"`'):
        explore(list, program)


def test_a_step_may_raise_a_type_error_of_its_own():
    def fails(world):
        yield "add"
        world + 1

    found = explore(list, fails)
    assert (found.tried, type(found.broken.error)) == (1, TypeError)


def test_one_order_is_told_as_one():
    assert repr(Exploration(1)) == "1 order, and it breaks nothing"
    assert repr(explore(list, walker("A", 1), walker("B", 1))) == "2 orders, and none breaks anything"


def test_the_package_manager_stands_every_order_of_two_lives_and_an_abort():
    """In too little room for both, with an audit after each step."""

    def life(prompt, end):
        def steps(manager):
            yield "start"
            sequence = manager.start(prompt)
            yield "compute"
            manager.advance(sequence)
            yield "checkpoint"
            manager.checkpoint(sequence)
            yield "end"
            getattr(manager, end)(sequence)

        return steps

    for page_size, end in itertools.product([1, 2], ["finish", "abort"]):
        found = explore(
            lambda size=page_size: CacheManager(8, size), life([1, 2, 3, 4], "finish"), life([1, 2, 3, 5], end),
            check=CacheManager.check,
        )  # fmt: skip
        assert found == Exploration(70)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: explore(list), ValueError, "0 programs: expected 1 to 26"),
        (lambda: explore(list, *[walker("A", 0)] * 27), ValueError, "27 programs"),
        (lambda: explore(list, walker("A", 1), interruptions=-1), ValueError, "interruptions is -1"),
        (lambda: explore(list, len), TypeError, "program A gave 0: write a generator, with a yield before each step"),
        (lambda: explore(list, walker("A", 1001)), ValueError, "program A has more than 1000 steps"),
    ],
)
def test_what_cannot_be_explored_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()
