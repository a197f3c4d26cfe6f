"""Laws of films: nobody notices the recording, and every frame agrees with itself."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st
from nightly import NIGHTLY
from scripted_films import Server, an_engine

from minikv import OutOfPages, record
from minikv.course.film.frame import MOST_LINES, request_rows
from minikv.course.film.state import RequestView
from minikv.course.pictures.palette import SIZES

STEPS = st.lists(
    st.tuples(st.sampled_from(["serve", "serve", "hold", "drop", "evict"]), st.lists(st.integers(0, 2), max_size=6)),
    max_size=14,
)
SETTINGS = st.sampled_from([(1, "node"), (1, "page"), (2, "node"), (2, "page")])


def a_server(page_size, evict_by):
    return Server(8 // page_size, page_size=page_size, evict_by=evict_by)


def run(server, steps):
    """Drive a server; everything that came back, as plain data."""
    held, said, cache = [], [], server.cache
    for what, value in steps:
        tokens = [token for token in value for _ in range(cache.page_size)]
        if what in ("serve", "hold"):
            try:
                server.serve(tokens)
            except OutOfPages as error:
                said.append(repr(error))
        if what == "hold":
            held.append(cache.acquire(tokens).handle)
        elif what == "drop" and held:
            cache.unlock(held.pop())
        elif what == "evict":
            said.append(freed := cache.evict(len(value)).tolist())
            server.pool.free(freed)
    return said, [repr(node) for node in cache.nodes()]


@given(STEPS, SETTINGS)
@settings(max_examples=2000 if NIGHTLY else 40)
def test_recording_changes_nothing_and_is_the_same_every_time(steps, setting):
    texts, said = [], run(a_server(*setting), steps)
    for _ in range(2):
        server = a_server(*setting)
        with record(server.cache, server.pool, page_size=1) as film:
            assert run(server, steps) == said
        server.cache.check()
        texts.append([frame.text for frame in film] + [repr(film.why(slot)) for slot in film.slot_stories()])
    assert texts[0] == texts[1]


def slots_of(frame, mark):
    return {slot for view in frame.nodes if mark in view.marks for slot in view.slots}


ENDS = {"free": ("freed", "free from"), "in hand": ("taken", "evicted"), "cached": ("cached", "split", "joined")}


def check(frame, size):
    """Cells, tree and sizes tell one story, and what is new is marked in the tree and in the cells."""
    live = [view for view in frame.nodes if "evicted" not in view.marks]
    assert {view.id for view in live} == frame.state.nodes.keys()
    assert len({view.id for view in frame.nodes}) == len(frame.nodes)
    holders = {slot // size: f"n{view.id}" for view in live for slot in view.slots}
    cells = frame.pools[0].boxes
    assert {i: cell.word for i, cell in enumerate(cells) if cell.state in ("cached", "locked")} == holders
    for name, state in SIZES.items():
        assert frame.sizes[name] == size * sum(cell.state == state for cell in cells)
    assert {slot // size for slot in slots_of(frame, "new")} == {
        i for i, cell in enumerate(cells) if cell.event == "new"
    }


@given(STEPS, SETTINGS)
@settings(max_examples=2000 if NIGHTLY else 60)
def test_every_frame_agrees_with_itself_and_a_server_and_its_parts_tell_the_same_story(steps, setting):
    """One film has a frame for each prompt, the other for each step of it: slots fare the same."""
    server, size = a_server(*setting), setting[0]
    with record(server) as coarse, record(server.cache, server.pool) as fine:
        run(server, steps)
    for frame in (*coarse, *fine):
        check(frame, size)
    for frame in fine:
        was, now = set(frame.before.held), set(frame.state.held)
        assert (slots_of(frame, "evicted"), slots_of(frame, "new")) == (was - now, now - was)
    for slot in range(8):
        one, other = ([re.split(" by | at ", words)[0] for words in film.why(slot).events] for film in (coarse, fine))
        assert one == other
        cell = fine.at(-1).pools[0].boxes[slot // size]
        assert one[-1].startswith(ENDS[cell.state.replace("locked", "cached")]), cell


# -- requests --------------------------------------------------------------------------------------


def said(frame):
    """The lines about requests, if there are any."""
    return "\n".join(rows.text for rows in frame.rows if rows.heading.startswith("requests"))


@given(st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=8), min_size=1, max_size=6), st.integers(3, 12))
@settings(max_examples=2000 if NIGHTLY else 20)
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
    many = request_rows((RequestView("r1", "waits", 0, 0, 1),) * 20)
    assert len(many.text.splitlines()) == MOST_LINES + 2
    assert many.heading == "requests: 0 running, 20 waiting, the first 12 shown"
    assert request_rows((RequestView("r1", "reads", 50, 100, 120),)).text.splitlines()[1:] == [
        f"r1 reads  {17 * 'm'}{17 * 'n'}{6 * '.'}",
        ". to compute  n new  m matched  (each letter is 3 tokens)",
    ]
