"""The core of the playground: random acts, and everything that can be typed."""

from dataclasses import asdict
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nightly import NIGHTLY

from minikv.course.playground import playground
from minikv.course.playground.lessons import GOALS, SCENES
from minikv.course.playground.live import History
from minikv.course.playground.steps import Settings, Step, label_in, tokens_of
from minikv.errors import LockError, OutOfPages
from minikv.prefix import INDEXES
from minikv.prefix.eviction import POLICIES

PROMPTS = st.lists(st.integers(1, 3), min_size=1, max_size=9).map(lambda ids: " ".join(map(str, ids)))
STEPS = st.one_of(
    st.builds(Step, st.sampled_from(["match", "insert", "insert", "insert", "lock"]), PROMPTS,
              st.sampled_from(["", "", "B"])),
    st.tuples(st.sampled_from(["unlock", "publish", "finish", "abort"]), st.integers(0, 3)),
    st.builds(Step, st.just("evict"), st.integers(0, 9).map(str)),
    st.builds(Step, st.just("start"), PROMPTS),
    st.just(Step("reset")),
)  # fmt: skip
RADIX_SETTINGS = st.builds(
    Settings, st.integers(1, 4), st.integers(1, 12), st.sampled_from(list(POLICIES)), st.sampled_from(["node", "page"]),
    host_pages=st.sampled_from([0, 0, 3, 9]),
)  # fmt: skip
OTHER_SETTINGS = st.builds(Settings, st.integers(1, 4), st.integers(1, 12), index=st.sampled_from(list(INDEXES)))
SETTINGS = st.one_of(RADIX_SETTINGS, OTHER_SETTINGS)
CHANGES = SETTINGS.map(lambda settings: Step("set", " ".join(f"{n} {v}" for n, v in asdict(settings).items())))
DOINGS = st.lists(
    st.one_of(*[STEPS.map(lambda step: [step])] * 3, CHANGES.map(lambda step: [step]),
              st.sampled_from([*SCENES.values(), *GOALS.values()]).map(lambda scene: scene.steps)), max_size=14,
)  # fmt: skip


def check(live):
    """Cache and pool are sound, and each page is free, cached or held by a request, and that once."""
    live.cache.check()
    pool, size = live.manager.pool, live.settings.page_size
    pool.check()
    running = [what for name, what in live.held.items() if name.startswith("r")]
    held = [slot // size for sequence in running for slot in sequence.owned.tolist()[::size]]
    cached = [page for node in live.cache.nodes() for page in node.pages]
    assert sorted(held + cached) == [page for page in range(pool.size) if not pool.is_free(page)]


def seen(history):
    """All that can be seen of it: each frame in words, what is held, settings, and the clock."""
    live = history.live
    clock = getattr(live.cache, "_clock", None)
    return [repr(frame) for frame in live.film], [*live.held], live.settings, len(history.steps), clock


def do(history, doing):
    """One doing of a class; what cannot be done must change nothing."""
    before, held = seen(history), dict(enumerate(history.live.held))
    try:
        history.do(*(step if isinstance(step, Step) else Step(step[0], held.get(step[1], "none")) for step in doing))
    except (TypeError, ValueError, LockError, OutOfPages):
        assert seen(history) == before


@given(SETTINGS, DOINGS, st.integers(0, 14))
@settings(max_examples=120 if NIGHTLY else 25, deadline=None)
def test_whatever_a_class_does_nothing_leaks_and_undo_comes_back_to_the_same(first, doings, count):
    history = History(first)
    for doing in doings:
        do(history, doing)
        check(history.live)
    before, count = seen(history), min(count, len(history.steps))
    undone = [history.undo() for _ in range(count)]
    check(history.live)
    assert [history.redo() for _ in range(count)] == undone[::-1]
    assert seen(history) == before
    while history.steps:
        history.undo()
    live = history.live
    assert live.settings == first
    assert (live.cache.total_size, live.manager.pool.num_free, live.held) == (0, first.capacity, {})


IDS = ["1 2 3", "1, 2, 3", "[1, 2, 3]", "[1 2 3]", " 1,2 ,3 "]
TEXTS = {text: text for text in ("hello world", "1 two", "1.2", "1;2", "a")} | {"'1 2'": "1 2", '"7"': "7"}


def test_ids_may_be_typed_in_any_usual_way_and_all_else_is_text():
    """As it was typed; what stands in quotes without them."""
    assert [tokens_of(typed) for typed in IDS] == [((1, 2, 3), False)] * len(IDS)
    assert {typed: tokens_of(typed) for typed in TEXTS} == {
        typed: (tuple(text.encode()), True) for typed, text in TEXTS.items()
    }


@given(st.text(st.characters(blacklist_categories=["Cs"]), min_size=1, max_size=12), st.integers(1, 3))
@settings(max_examples=60 if NIGHTLY else 25, deadline=None)
def test_any_text_can_be_a_prompt_and_is_drawn(typed, page_size):
    history = History(Settings(page_size, 64))
    history.do(Step("insert", f"'{typed}'"))
    assert history.steps[0].prompt == (tuple(typed.encode()), True)
    assert repr(history.live.film.at(-1)).replace("\n", "").isprintable()
    for drawing in history.live.film.reel.drawings:
        ElementTree.fromstring(f"<g>{drawing}</g>")


def test_long_namespaces_and_texts_are_cut_and_half_a_character_is_shown_byte_by_byte():
    history = History()
    history.do(Step("insert", "1", "x" * 3000), Step("lock", "1", "x" * 3000))
    assert max(map(len, repr(history.live.film.at(-1)).splitlines())) < 140
    assert "x" * 70 not in str(seen(history)[1]) + str(history.live.film.reel.as_dict())
    assert label_in("é".encode()[:1], is_text=True) == r"'\\xc3'"
    assert label_in(b"a" * 30, is_text=True) == f"'{'a' * 12}…{'a' * 11}'"


BAD_SETTINGS = {
    "page_size is 65: a playground draws 1 to 64": {"page_size": 65},
    "capacity is 257: a playground draws 1 to 256": {"capacity": 257},
    "policy is 'best': expected one of": {"policy": "best"},
    "evict_by is 'tree': expected one of node, page": {"evict_by": "tree"},
    "index is 'btree': expected one of radix": {"index": "btree"},
    "host_pages is -1: a playground draws 0 to 256": {"host_pages": -1},
    "host_pages is 3: 'trie' has no host memory": {"index": "trie", "host_pages": 3},
    "policy is 'fifo': index 'hash' has one order of eviction, its own": {"index": "hash", "policy": "fifo"},
    "evict_by is 'page': index 'trie' has one order of eviction, its own": {"index": "trie", "evict_by": "page"},
    "scene is 'none': expected one of 'two prompts share a prefix', .*'cut an edge in one step'": {"scene": "none"},
    "scene is 'never': expected one of": {"goal": "never"},
}


@pytest.mark.parametrize("message", BAD_SETTINGS)
def test_settings_that_no_playground_can_have_are_refused(message):
    with pytest.raises(ValueError, match=message):
        playground(**BAD_SETTINGS[message])
