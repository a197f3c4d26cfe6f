"""A film of a whole engine: a frame for each of its steps, and for each request what is computed of it by then."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nightly import NIGHTLY

from minikv import CacheManager, CanaryModel, Engine, Scheduler, record
from minikv.course.film.frame import MOST_LETTERS, MOST_LINES, request_rows
from minikv.course.film.layout import FilmLayout
from minikv.course.film.state import RequestView
from minikv.course.pictures import tree
from minikv.course.pictures.svg import svg_size
from minikv.engine import engine_world

needs_graphviz = pytest.mark.skipif(tree.graphviz_way() is None, reason="no way to run Graphviz here")


def an_engine(pages=24, **how):
    manager = CacheManager(pages)
    return Engine(CanaryModel(64), manager, Scheduler(manager, **how))


def said(frame):
    """The lines about requests, if there are any."""
    return "\n".join(rows.text for rows in frame.rows if rows.heading.startswith("requests"))


def bars(frame):
    return said(frame).splitlines()[1:-1]


def test_a_frame_is_a_step_and_says_what_was_computed_of_whom():
    """Four tokens a step: four of the first's five; its last and, behind a match of three, all of the second's."""
    engine = an_engine(token_budget=4, max_running=2, min_awaited_prefix=None)
    with record(engine) as film:
        engine.submit([1, 2, 3, 4, 5], 3)
        engine.submit([1, 2, 3, 9, 9, 9], 2)
        engine.submit([7], 1)
        for _ in range(5):
            engine.step()
    assert [frame.words for frame in film] == [
        "start",
        "submit [1 2 3 4 5]: r1 waits",
        "submit [1 2 3 9 9 9]: r2 waits",
        "submit [7]: r3 waits",
        "step: prompts are read; no token yet",
        "step: a token for r1, r2",
        "step: a token for r1, r2; r2 has ended",
        "step: a token for r1, r3; r1 has ended; r3 has ended",  # and then one in which nothing is left to do
    ]
    assert [bars(frame) for frame in film][3:8] == [
        ["r1 waits  .....", "r2 waits  ......", "r3 waits  ."],
        ["r1 reads  nnnn.", "r2 waits  ......", "r3 waits  ."],
        ["r1 answers  ####n", "r2 answers  mmmnnn", "r3 waits    ."],
        ["r1 answers  #####n", "r3 waits    ."],
        [],
    ]


def test_an_abort_is_a_frame_and_the_request_is_gone():
    engine = an_engine()
    with record(engine) as film:
        request = engine.submit([1, 2, 3], 9)
        engine.step()
        engine.abort(request)
    assert film.at(-1).words == "abort r1: 3 tokens are unlocked"
    assert said(film.at(-1)) == ""


def test_a_preempted_request_waits_again_and_begins_with_what_is_left_of_it():
    """Seven slots for two requests of 2 + 4 tokens: the second must make way, and comes back when the first is over."""
    engine = an_engine(pages=7)
    with record(engine) as film:
        second = [engine.submit([name, name], 4) for name in (1, 2)][1]
        while engine.step():
            pass
    assert second.preemptions == 1
    does = [line for frame in film for line in re.findall(r"r2 (\w+)", said(frame))]
    assert [word for word, _ in itertools.groupby(does)] == ["waits", "answers", "waits", "answers"]


def test_a_managers_sequences_are_shown_with_what_is_computed():
    manager = CacheManager(8)
    with record(manager) as film:
        first = manager.start([1, 2, 3])
        manager.advance(first, 2)
        manager.extend(first, [4])
    assert [frame.words for frame in film][1:] == [
        "start [1 2 3]: r1 begins; none of it is cached; 3 slots are taken",
        "advance r1 by 2: 2 of 3 tokens are computed",
        "extend r1 by [4]: 1 slot is taken",
    ]
    assert [bars(frame) for frame in film][1:] == [["r1 runs  ..."], ["r1 runs  nn."], ["r1 runs  ##.."]]
    assert [cell.word for cell in film.at(-1).pools[0].boxes][:5] == ["r1", "r1", "r1", "r1", ""]


def test_the_learners_engine_is_filmed_as_ours_is_with_letters_for_tokens():
    own = engine_world()["CacheManager"](24)
    engine = Engine(CanaryModel(64), own)
    with record(engine, label=lambda tokens: "".join(map(chr, tokens))) as film:
        engine.generate([[5, 6, 7]], 2)
    assert "finish r1: 3 tokens are unlocked; 1 token is new in the cache" in film.at(-1).inner


PROMPTS = st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=8), min_size=1, max_size=6)


@given(PROMPTS, st.integers(3, 12))
@settings(max_examples=2000 if NIGHTLY else 30)
def test_the_bars_are_what_the_engine_computes(prompts, budget):
    """Of everybody who runs after a step, as many cells are new as the model got tokens."""
    engine = an_engine(pages=14, token_budget=budget, max_running=3)
    with record(engine) as film:
        requests = [engine.submit(prompt, 4) for prompt in prompts]
        while not all(request.is_over for request in requests):
            before = [request.computed_tokens for request in requests]
            engine.step()
            drawn = dict(re.findall(r"^(r\d+) \w+ +([m#n.]+)$", said(film.at(-1)), re.MULTILINE))
            assert list(drawn) == [f"r{request.number}" for request in requests if not request.is_over]
            for request, computed in zip(requests, before):
                bar, sequence = drawn.get(f"r{request.number}", ""), request.sequence
                if sequence is not None:
                    assert bar.count("n") == request.computed_tokens - computed
                    assert (len(bar) - bar.count("."), len(bar)) == (sequence.computed, len(sequence.tokens))
                else:
                    assert not bar.strip(".")


def test_many_requests_and_long_ones_are_cut_and_it_is_said():
    line = RequestView("r1", "waits", 0, 0, 1)
    assert len(request_rows((line,) * 20).text.splitlines()) == MOST_LINES + 2
    assert request_rows((line,) * 20).heading == "requests: 0 running, 20 waiting, the first 12 shown"
    long = request_rows((RequestView("r1", "reads", 50, 100, 120),))
    assert long.text.splitlines() == [
        "requests: 1 running, 0 waiting",
        f"r1 reads  {17 * 'm'}{17 * 'n'}{6 * '.'}",
        ". to compute  n new  m matched  (each letter is 3 tokens)",
    ]
    assert MOST_LETTERS >= 17 + 17 + 6


@needs_graphviz
def test_all_frames_have_one_size_and_every_request_is_in_the_picture():
    engine = an_engine(token_budget=4, max_running=2)
    with record(engine) as film:
        for prompt in ([1, 2, 3, 4, 5], [1, 2, 3, 9], [7]):
            engine.submit(prompt, 3)
        for _ in range(5):
            engine.step()
    layout = FilmLayout(film.frames)
    assert len({svg_size(layout.svg(frame)) for frame in film}) == 1
    requests = layout.panels[-1]
    drawn = requests.paper.svg(requests.parts(film.at(3)))
    assert all(f">r{number} waits<" in drawn for number in (1, 2, 3))
    assert [panel["kind"] for panel in film.player().reel["panels"]] == ["tree", "pool", "rows"]
    old, new = RequestView("r1", "reads", 2, 3, 7), RequestView("r1", "reads", 2, 5, 7)
    shapes = re.findall(r"<rect (?:data-say=\S+ )([^>]*) width=", request_rows([new], [old]).picture.svg)
    kinds = {re.sub(r"#[0-9a-f]{6}", "", shape) for shape in shapes}
    assert len(kinds) == 4, "the kinds of cells differ without colour"
