"""The interleaving explorer: every order once, fewest interruptions first, and the first one that breaks."""

import itertools

import pytest

from minikv.testing.interleave import NAMES, Exploration, explore


def program(*steps):
    """A program of steps, each of which is its words and what it does to the world."""

    def run(world):
        for words, act in steps:
            yield words
            act(world)

    return run


def walker(name, steps):
    """A program that writes its letter into the world at each step."""
    return program(*((f"step {number + 1}", lambda world: world.append(name)) for number in range(steps)))


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


@pytest.mark.parametrize("most", range(4))
def test_a_bound_leaves_out_the_orders_with_more_interruptions(most):
    every = all_orders((3, 3))
    assert all_orders((3, 3), interruptions=most) == [order for order in every if interruptions(order) <= most]


def test_the_first_order_that_breaks_is_told_as_far_as_it_went():
    def broken(world):
        if world == ["A", "B", "A"]:
            raise AssertionError("no A after B")

    found = explore(list, walker("A", 3), walker("B", 2), check=broken)
    at = all_orders((3, 2)).index("ABAAB") + 1
    assert (found.tried, found.broken.letters, str(found.broken.error)) == (at, "ABA", "no A after B")
    assert repr(found).splitlines() == [
        f"order {at} breaks it, with 2 interruptions:", "A        B", "step 1", "         step 1", "step 2",
        "AssertionError: no A after B",
    ]  # fmt: skip


FAILS = program(("go", lambda world: {}["gone"]))


def hurried(world):
    """It has more steps where nothing was done before."""
    yield "look"
    if not world:
        yield "do it all"
        world.append("B")


def early(world):
    """What it does before its first step is there from the beginning."""
    world.append("ready")
    yield "nothing"


@pytest.mark.parametrize(
    ("programs", "tried", "broken"),
    [
        ((walker("A", 1), hurried), len(["AB", "BBA", "BAB"]), None),
        ((early, program(("look", lambda world: world.index("ready")))), 2, None),
        ((walker("A", 2), FAILS), 1, ("AAB", KeyError)),
        ((program(("add", lambda world: world + 1)),), 1, ("A", TypeError)),
    ],
)
def test_a_program_may_look_at_the_world_and_what_it_raises_breaks_its_order(programs, tried, broken):
    found = explore(list, *programs)
    assert found.tried == tried
    assert broken == (found.broken and (found.broken.letters, type(found.broken.error)))


def test_the_check_comes_after_every_step_that_does_not_raise():
    seen = []
    explore(list, walker("A", 2), FAILS, check=lambda world: seen.append(len(world)))
    assert seen == [1, 2]


def test_one_order_is_told_as_one():
    assert repr(Exploration(1)) == "1 order, and it breaks nothing"
    assert repr(explore(list, walker("A", 1), walker("B", 1))) == "2 orders, and none breaks anything"


@pytest.mark.parametrize(
    ("programs", "options", "error", "words"),
    [
        ([], {}, ValueError, "0 programs: expected 1 to 26"),
        ([walker("A", 0)] * 27, {}, ValueError, "27 programs"),
        ([walker("A", 1)], {"interruptions": -1}, ValueError, "interruptions is -1"),
        ([len], {}, TypeError, "program A gave 0: write a generator, with a yield before each step"),
        ([walker("A", 1001)], {}, ValueError, "program A has more than 1000 steps"),
        ([program((None, pytest.fail))], {}, TypeError, 'program A yields None: write `yield "words"`'),
        ([program(("say", len), (0, len))], {}, TypeError, 'program A yields 0: write `yield "words"`'),
    ],
)
def test_what_cannot_be_explored_is_refused(programs, options, error, words):
    """A `yield` without words is a mistake in the program, not its end."""
    with pytest.raises(error, match=words):
        explore(list, *programs, **options)
