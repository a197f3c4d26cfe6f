"""The playground: its core by random acts, its widgets by pressing every button without a browser."""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from chapters import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st
from nightly import NIGHTLY

from minikv.course.playground import GOALS, Goal, Playground, playground
from minikv.course.playground.lessons import SCENES
from minikv.course.playground.live import History, LiveCache
from minikv.course.playground.page import message_html, page_html, playground_text
from minikv.course.playground.steps import MOST_PAGES, Settings, Step, label_text, prompt_step
from minikv.errors import LockError, OutOfPages
from minikv.prefix import BY_POLICY, INDEXES
from minikv.prefix.eviction import POLICIES

# -- the core ---------------------------------------------------------------------------------------------------------

PROMPTS = st.lists(st.integers(1, 3), min_size=1, max_size=9).map(lambda ids: " ".join(map(str, ids)))
NAMESPACES = st.sampled_from([None, None, "B"])
STEPS = st.one_of(
    st.builds(
        lambda verb, typed, namespace: prompt_step(verb, typed, namespace=namespace),
        st.sampled_from(["match", "insert", "insert", "insert", "lock"]), PROMPTS, NAMESPACES,
    ),
    st.builds(lambda n: Step("unlock", str(n), number=n), st.integers(1, 3)),
    st.builds(lambda n: Step("evict", str(n), number=n), st.integers(0, 9)),
    st.builds(lambda typed: prompt_step("start", typed), PROMPTS),
    st.builds(
        lambda verb, n: Step(verb, f"r{n}", number=n),
        st.sampled_from(["publish", "finish", "abort"]), st.integers(1, 3),
    ),
    st.just(Step("reset")),
)  # fmt: skip
RADIX_SETTINGS = st.builds(
    Settings, st.integers(1, 4), st.integers(1, 12), st.sampled_from(list(POLICIES)), st.sampled_from(["node", "page"]),
    host_pages=st.sampled_from([0, 0, 3, 9]),
)  # fmt: skip
OTHER_SETTINGS = st.builds(Settings, st.integers(1, 4), st.integers(1, 12), index=st.sampled_from(list(INDEXES)))
SETTINGS = st.one_of(RADIX_SETTINGS, OTHER_SETTINGS)
DOINGS = st.lists(st.one_of(STEPS, STEPS, STEPS, SETTINGS, st.sampled_from(list(SCENES.values()))), max_size=14)


def check(live):
    """Cache and pool are sound, and each page is free, cached or held by a request, and that once."""
    live.cache.check()
    live.pool.check()
    size = live.settings.page_size
    held = [slot // size for sequence, _ in live.running.values() for slot in sequence.owned.tolist()[::size]]
    cached = [page for node in live.cache.nodes() for page in node.pages]
    used = [page for page in range(live.pool.size) if not live.pool.is_free(page)]
    assert sorted(held + cached) == used


def do(history, doing):
    """One doing of a class; what cannot be done must change nothing."""
    before = playground_text(history)
    try:
        if isinstance(doing, Settings):
            history.set(doing)
        else:
            history.do(*(doing.steps if hasattr(doing, "hint") else [doing]))
    except (ValueError, LockError, OutOfPages):
        assert playground_text(history) == before


@given(SETTINGS, DOINGS, st.integers(0, 14))
@settings(max_examples=120 if NIGHTLY else 40, deadline=None)
def test_whatever_a_class_does_nothing_leaks_and_undo_comes_back_to_the_same(first, doings, count):
    history = History(first)
    for doing in doings:
        do(history, doing)
        check(history.live)
    text, page, count = playground_text(history), page_html(history), min(count, history.at)
    undone = [history.undo() for _ in range(count)]
    check(history.live)
    assert [history.redo() for _ in range(count)] == undone[::-1]
    assert (playground_text(history), page_html(history)) == (text, page)
    while history.at:
        history.undo()
    live = history.live
    assert history.settings == first
    assert (live.cache.total_size, live.pool.num_free, live.locks) == (0, first.capacity, {})


def test_a_request_that_does_not_fit_says_what_there_is_and_changes_nothing():
    history = History(Settings(capacity=6))
    for step in [prompt_step("insert", "1 2 3"), prompt_step("lock", "1 2 3"), prompt_step("insert", "7 8")]:
        history.do(step)
    before, clock = playground_text(history), history.live.cache._clock
    with pytest.raises(OutOfPages, match=r"^4 pages needed, but only 1 free and 2 evictable$"):
        history.do(prompt_step("insert", "1 2 9 9 9 9"))
    assert (playground_text(history), history.live.cache._clock) == (before, clock)


def test_a_request_makes_room_by_evicting_but_never_its_own_prefix():
    live = LiveCache(Settings(capacity=4))
    live.do(prompt_step("insert", "1 2 3"))
    outcome = live.do(prompt_step("insert", "1 2 8 9"))
    assert outcome.words == "2 of 4 cached, 2 new in slots 2-3, evicted 1 page for it; split a node"
    assert live.cache.match_prefix([1, 2, 8, 9]).length == 4


def test_the_unaligned_tail_needs_a_page_and_gives_it_back():
    live = LiveCache(Settings(page_size=4, capacity=3))
    outcome = live.do(prompt_step("insert", "1 2 3 4 5 6 7 8 9 10"))
    assert outcome.words == "0 of 10 cached, 8 new in slots 0-7, tail of 2 not kept"
    assert live.pool.num_free == 1
    with pytest.raises(OutOfPages, match="3 pages needed, but only 2 free"):
        LiveCache(Settings(page_size=4, capacity=2)).do(prompt_step("insert", "1 2 3 4 5 6 7 8 9 10"))


def test_reset_waits_for_the_locks():
    history = History()
    history.do(prompt_step("insert", "1 2"), prompt_step("lock", "1 2"))
    with pytest.raises(LockError, match="cannot reset: 1 lock"):
        history.do(Step("reset"))
    history.do(Step("unlock", "1", number=1), Step("reset"))
    assert history.live.cache.total_size == 0
    history.undo()
    assert history.live.cache.total_size == 2


def test_locks_are_numbered_and_given_back_by_number():
    history = History()
    history.do(*[prompt_step(verb, "1 2") for verb in ("insert", "lock", "lock")])
    assert {number: what for number, (_, what) in history.live.locks.items()} == dict.fromkeys(
        (1, 2), "2 tokens of [1 2]"
    )
    history.do(Step("unlock", "1", number=1))
    assert history.live.cache.protected_size == 2
    with pytest.raises(LockError, match="cannot give back lock 1: held are 2"):
        history.do(Step("unlock", "1", number=1))
    with pytest.raises(ValueError, match="nothing to lock: no page of \\[9\\] is cached"):
        history.do(prompt_step("lock", "9"))


def test_other_settings_replay_the_same_steps():
    history = History(Settings(page_size=4, capacity=12))
    history.do(*SCENES["pages of 4"].steps[1:])
    assert history.outcomes[-1].words == "4 of 7 cached in slots 0-3; split a node"
    history.set(Settings(page_size=2, capacity=12))
    assert [outcome.words for outcome in history.outcomes[1:]] == [
        "6 of 7 cached in slots 0-5; split a node",
        "2 steps replayed",
    ]
    history.undo()
    assert history.settings.page_size == 4


def test_settings_in_which_a_step_cannot_be_done_are_refused_by_its_number():
    history = History()
    history.do(prompt_step("insert", "1 2"), prompt_step("lock", "1 2"))
    before = playground_text(history)
    wanted = r"^step 2 \(lock \[1 2\]\) cannot be done then: there is nothing to lock: .*\. Undo it, or reset first$"
    with pytest.raises(ValueError, match=wanted):
        history.set(Settings(page_size=4))
    assert playground_text(history) == before


def test_after_a_reset_what_came_before_does_not_bind():
    history = History()
    history.do(prompt_step("insert", "1 2 3"), Step("reset"))
    history.set(Settings(capacity=2))
    history.do(prompt_step("insert", "5"))
    assert history.outcomes[0].words == "0 of 3 cached, 3 new in slots 0-2"
    assert history.settings.capacity == history.live.pool.size == 2


def test_a_new_step_forgets_the_undone_ones():
    history = History()
    history.do(prompt_step("insert", "1"), prompt_step("insert", "2"))
    history.undo()
    history.do(prompt_step("insert", "3"))
    assert list(map(str, history.steps)) == ["insert [1]", "insert [3]"]
    with pytest.raises(ValueError, match="nothing to redo"):
        history.redo()


def test_the_same_settings_are_no_step():
    history = History()
    history.set(Settings())
    assert not history.steps
    with pytest.raises(ValueError, match="nothing to undo"):
        history.undo()


@pytest.mark.parametrize("typed", ["1 2 3", "1, 2, 3", "[1, 2, 3]", "[1 2 3]", " 1,2 ,3 "])
def test_token_ids_may_be_typed_in_any_usual_way(typed):
    assert prompt_step("match", typed).tokens == (1, 2, 3)


BAD_PROMPTS = {
    "": "the prompt is empty: type some words, or token ids such as 1 2 3",
    " [ ] ": "the prompt is empty",
    "1 -2": "tokens[1] is -2: a token is an integer in [0, 2**32)",
    "4294967296": "tokens[0] is 4294967296: a token is an integer",
    "9" * 5000: "tokens[0] is 9999",
    "\ud800": "the prompt has half a character in it",
}


@pytest.mark.parametrize("typed", ["hello world", "1 two", "1.2", "[1 2", "1,,2", "'1 2'", '"7"', "a"])
def test_what_is_not_integers_is_text(typed):
    """As it was typed; what stands in quotes without them."""
    wanted = typed.strip("'\"") if typed[0] in "'\"" else typed
    step = prompt_step("match", typed)
    assert step.tokens == tuple(wanted.encode())
    assert step.text


@given(st.text(st.characters(blacklist_categories=["Cs"]), min_size=1, max_size=12), st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_any_text_can_be_a_prompt_and_is_drawn(typed, page_size):
    history = History(Settings(page_size, 64))
    history.do(prompt_step("insert", typed, text=True))
    assert history.steps[0].tokens == tuple(typed.encode())
    assert ElementTree.fromstring(page_html(history)).tag == "div"
    assert playground_text(history).replace("\n", "").isprintable()


def test_a_long_namespace_is_cut_in_words_and_pictures():
    history = History()
    history.do(prompt_step("insert", "1", namespace="x" * 3000), prompt_step("lock", "1", namespace="x" * 3000))
    assert max(map(len, playground_text(history).splitlines())) < 120
    assert "x" * 70 not in page_html(history)


def test_text_that_is_cut_within_a_character_is_shown_byte_by_byte():
    assert label_text(list("é".encode())[:1]) == "'\\xc3'"
    assert label_text(list(b"a" * 30)) == f"'{'a' * 12}…{'a' * 11}'"


BAD_SETTINGS = {
    "page_size is 0: a page holds at least 1 token": {"page_size": 0},
    "page_size is 65: a playground draws at most 64 tokens": {"page_size": 65},
    "capacity is 0: a pool holds at least 1 page": {"capacity": 0},
    "capacity is 257: a playground draws at most 256 pages": {"capacity": MOST_PAGES + 1},
    "policy is 'best': expected one of": {"policy": "best"},
    "evict_by is 'tree': expected one of node, page": {"evict_by": "tree"},
    "index is 'btree': expected one of radix": {"index": "btree"},
    "host_pages is -1: host memory has 0 or more pages": {"host_pages": -1},
    "host_pages is 257: a playground draws at most 256 pages": {"host_pages": MOST_PAGES + 1},
    "host_pages is 3: index 'trie' has no host memory": {"index": "trie", "host_pages": 3},
    "policy is 'fifo': index 'hash' has one order of eviction, its own": {"index": "hash", "policy": "fifo"},
    "evict_by is 'page': index 'trie' has one order of eviction, its own": {"index": "trie", "evict_by": "page"},
}


@pytest.mark.parametrize("message", BAD_SETTINGS)
def test_settings_that_no_cache_can_have_are_refused(message):
    with pytest.raises(ValueError, match=message):
        playground(**BAD_SETTINGS[message])


@pytest.mark.parametrize("name", SCENES)
def test_every_scene_plays_under_every_policy(name):
    for policy in POLICIES:
        history = History()
        history.do(*SCENES[name].steps)
        history.set(replace(history.settings, policy=policy))
        check(history.live)
        assert page_html(history)
    room = playground(scene=name)
    room.buttons["insert"].click()  # the prompt to continue with
    assert room.history.steps[-1].verb == "insert"


def test_scenes_keep_what_they_promise():
    def told(name):
        history = History()
        history.do(*SCENES[name].steps)
        return history, playground_text(history)

    assert "'the cat ' · n2 · slots 0-7 · matched · split" in told("two prompts share a prefix")[1]
    assert told("split under a lock")[1].count("locked ×1") == 2
    assert "[5 6] · n3 · slots 4-5 · evicted" in told("evict the tail first")[1]
    assert "0 of 3 cached" in told("two namespaces")[1]
    assert told("full: what may go?")[0].live.pool.num_free == 0
    for page_size in (1, 2):
        history, _ = told("pages of 4")
        history.set(replace(history.settings, page_size=page_size))


# -- the widgets ------------------------------------------------------------------------------------------------------


def press(room, name, prompt=None, **fields):
    if prompt is not None:
        room.prompt.value = prompt
    for field, value in fields.items():
        getattr(room, field).value = value
    room.buttons[name].click()
    return room.said


def refused(room, message):
    """The message is in the red box with its sign, and neither text nor history moved since `room.before`."""
    assert message in room.said
    assert "✗" in room.message.value
    assert 'role="alert"' in room.message.value
    assert "solid #d04a58" in room.message.value


def test_buttons_do_what_they_say():
    room = playground(capacity=8)
    assert press(room, "insert", "1 2 3") == "insert [1 2 3]: 0 of 3 cached, 3 new in slots 0-2"
    assert press(room, "match", "1 2 9") == "match [1 2 9]: 2 of 3 cached in slots 0-1; split a node"
    assert press(room, "lock") == "lock [1 2 9]: lock 1 holds 2 tokens"
    assert room.held.options == (("1: 2 tokens of [1 2 9]", 1),)
    assert press(room, "evict", amount=3) == "evict 3: 3 asked for, 1 freed: slot 2, 2 protected by locks"
    assert press(room, "unlock") == "unlock 1: 2 tokens of [1 2 9] given back"
    assert press(room, "insert", "1 2", namespace="B").startswith("insert [1 2] in 'B': 0 of 2 cached")
    assert press(room, "reset") == "reset: 4 tokens forgotten"
    assert press(room, "undo") == "undone: reset"
    assert press(room, "redo") == "done again: reset"
    assert "(undone)" not in room.view.value
    press(room, "undo")
    assert "(undone)" in room.view.value


@pytest.mark.parametrize("goal", GOALS)
def test_no_playground_opens_with_its_own_solution(goal):
    """Whatever one presses first."""
    for name in playground(goal=goal).buttons:
        room = playground(goal=goal)
        room.buttons[name].click()
        assert not room._aim()[0], name


def test_the_view_shows_tree_pool_sizes_locks_and_history():
    room = playground(capacity=8)
    press(room, "insert", "1 2 3")
    press(room, "lock", "1 2")
    shown = room.view.value
    assert shown.count('role="img"') == 1
    assert f'aria-label="{room.text.splitlines()[1]}' in shown
    assert "max-width:100%" in shown
    assert "background" not in shown  # the page's own, light or dark
    for words in ("free slots 5", "cached 1 (evictable)", "locked 2 (protected)", "lock 1: 2 tokens of [1 2]",
                  "1. insert [1 2 3]", "FreeListPool: 5 of 8 slots free"):  # fmt: skip
        assert words in shown, words


@pytest.mark.parametrize("typed", BAD_PROMPTS, ids=lambda typed: typed[:12])
def test_a_bad_prompt_is_said_and_changes_nothing(typed):
    room = playground(capacity=8)
    press(room, "insert", "1 2 3")
    before = room.text
    for verb in ("match", "insert", "lock"):
        press(room, verb, typed)
        refused(room, BAD_PROMPTS[typed])
    assert room.text == before


def test_every_refusal_is_said_in_the_box():
    room = playground(capacity=4)
    before = room.text
    for name, message in {"unlock": "no lock is held", "undo": "nothing to undo", "redo": "nothing to redo"}.items():
        press(room, name)
        refused(room, message)
    press(room, "insert", "1 2 3 4 5")
    refused(room, "insert: 5 pages needed, but only 4 free and 0 evictable")
    press(room, "lock", "1 2")
    refused(room, "there is nothing to lock")
    press(room, "evict", amount=-1)
    refused(room, "num_tokens is -1: evict frees 0 tokens or more")
    press(room, "match", "\ud800")
    refused(room, "half a character")
    press(room, "match", "")
    refused(room, "type some words")
    assert room.text == before
    press(room, "insert", "1")
    press(room, "lock")
    press(room, "reset")
    refused(room, "cannot reset: 1 lock")


def test_bad_settings_are_said_and_the_field_goes_back():
    room = playground(capacity=8)
    press(room, "insert", "1 2 3")
    for name, value, message in [
        ("page_size", 0, "page_size is 0: a page holds at least 1 token"),
        ("page_size", -3, "page_size is -3"),
        ("capacity", 100_000, "capacity is 100000: a playground draws at most 256 pages"),
        ("capacity", 2, "step 1 (insert [1 2 3]) cannot be done then: 3 pages needed, but only 2 free"),
    ]:
        before = room.text, room.settings[name].value
        room.settings[name].value = value
        refused(room, message)
        assert (room.text, room.settings[name].value) == before


def test_settings_are_chosen_undone_and_follow_the_scene():
    room = playground(scene="pages of 4")
    assert room.settings["page_size"].value == 4
    room.settings["page_size"].value = 2
    assert room.said == "page size 4 → 2: 2 steps replayed"
    room.settings["evict_by"].value = "page"
    assert room.history.live.cache.evict_by == "page"
    press(room, "undo")
    press(room, "undo")
    assert (room.settings["page_size"].value, room.settings["evict_by"].value) == (4, "node")


@pytest.mark.parametrize("index", INDEXES)
def test_the_same_steps_are_replayed_in_another_design(index):
    room = playground(scene="split under a lock")
    room.settings["index"].value = index
    live = room.history.live
    assert type(live.cache) is type(INDEXES[index](1))
    assert (live.cache.protected_size, live.cache.evictable_size) == (6, 1)
    assert room.text.startswith("Playground(page_size=1, capacity=32, " + ("policy" if index in BY_POLICY else "index"))
    press(room, "insert", "1 2 3 4 5 6 7")
    assert "6 of 7 cached, 1 new in slot 7" in room.said
    press(room, "evict")
    assert "1 asked for, 1 freed" in room.said


def test_another_design_has_no_policy_to_choose():
    room = playground(capacity=8, index="hash")
    room.settings["policy"].value = "mru"
    assert room.said == "policy: policy is 'mru': index 'hash' has one order of eviction, its own"
    assert room.settings["policy"].value == "lru"


def test_a_scene_is_history_and_what_was_before_is_not_lost():
    room = Playground()
    press(room, "insert", "1 2 3")
    text = room.text
    room.scene.value = "two prompts share a prefix"
    assert "'the cat '" in room.view.value.replace("&#39;", "'").replace("&#x27;", "'").replace("&#160;", " ")
    for _ in range(3):
        press(room, "undo")
    assert room.text.startswith(text)
    with pytest.raises(ValueError, match="scene is 'none': expected one of 'two prompts share a prefix'"):
        playground(scene="none")


def test_what_is_typed_is_never_markup():
    room = Playground()
    press(room, "insert", "<script>alert(1)</script>", namespace="<b>")
    assert "<script" not in room.view.value + room.message.value
    assert "in '<b>'" not in room.view.value
    press(room, "insert", "<img>")
    assert "<img" not in message_html("bad", room.said)


def test_a_long_history_shows_the_steps_near_the_present():
    room = Playground()
    for i in range(20):
        press(room, "match", str(i))
    assert "12 earlier" in room.text
    assert "20. match [19]" in room.text
    for _ in range(15):
        press(room, "undo")
    assert "5. match [4]: 0 of 1 cached" in room.text
    assert "9. match [8] (undone)" in room.text
    assert "… 11 more (undone)" in room.text


def test_the_bundle_has_the_widget_the_picture_and_the_text():
    room = playground(scene="split under a lock")
    data, metadata = room._repr_mimebundle_()
    assert data["text/plain"] == room.text == repr(room)
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == room.box.model_id
    if "image/png" in data:
        assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")
        assert metadata["image/png"]["width"] > 100
    assert repr(playground(scene="split under a lock")) == repr(room)
    assert not re.search(r"0x[0-9a-f]{6}", repr(room))


def test_the_stored_picture_shows_requests_only_while_one_runs():
    room = playground(requests=True)
    assert "requests:" not in (room.picture.svg or "") + room.text + room.view.value
    press(room, "start", "1 2")
    assert "requests: 1 running" in room.text
    assert all("requests: 1 running" in shown for shown in (room.view.value, room.picture.svg or room.text))
    press(room, "abort")
    assert "requests:" not in (room.picture.svg or "") + room.text + room.view.value


def test_without_graphviz_the_text_tree_stands_in(monkeypatch):
    monkeypatch.setattr("minikv.course.pictures.tree.node_places", lambda *shape, **how: None)
    room = Playground()
    press(room, "insert", "1 2")
    assert "└─ [1 2] · n1 · slots 0-1 · new</text>" in room.view.value
    assert "image/png" not in room._repr_mimebundle_()[0]


def test_the_notebook_comparison_is_never_disturbed():
    sources = [path.read_text("utf-8") for path in (ROOT / "minikv" / "course" / "playground").glob("*.py")]
    assert len(sources) > 1
    for word in ("Output(", "interact", "clear_output", "display_id", "display("):
        assert not any(word in source for source in sources), word


def test_an_error_that_nobody_foresaw_is_said_too(monkeypatch):
    room = Playground()
    monkeypatch.setattr(room.history, "do", lambda step: 1 / 0)
    press(room, "insert", "1")
    refused(room, "insert: division by zero")


# -- what it shows, and goals -----------------------------------------------------------------------------------------


def test_it_opens_with_a_scene_unless_it_was_told_how_to_begin():
    assert playground().history.steps[0].said == repr(next(iter(SCENES)))
    assert "'the cat '" in playground().text
    assert playground(capacity=8).history.at == 0


def test_text_is_shown_as_text_and_ids_as_ids():
    room = Playground()
    press(room, "insert", "hello world")
    press(room, "insert", "1 2 3")
    assert "'hello world' · n1" in room.text
    assert "[1 2 3] · n2" in room.text
    assert room.said == "insert [1 2 3]: 0 of 3 cached, 3 new in slots 11-13"


def test_a_split_is_marked_and_what_was_evicted_stays_for_one_step():
    room = Playground(Settings(capacity=8))
    press(room, "insert", "1 2 3")
    press(room, "match", "1 9")
    assert "[1] · n2 · slot 0 · matched · split" in room.text
    assert "[2 3] · n1 · slots 1-2 · split" in room.text
    press(room, "evict", amount=2)
    assert "[2 3] · n1 · slots 1-2 · evicted" in room.text
    press(room, "match", "1")
    assert "evicted" not in room.text.split("1. insert")[0]
    assert ">evicted</text>" not in room.view.value


def test_a_locked_slot_that_was_matched_shows_both():
    room = Playground(Settings(capacity=4))
    press(room, "insert", "1 2")
    press(room, "lock", "1 2")
    press(room, "match", "1 2")
    assert [(cell.state, cell.event) for cell in room.history.live.film.at(-1).pools[0].boxes[:2]] == [
        ("locked", "matched")
    ] * 2
    for word in ("locked 2 (protected)", "matched", "free slots 2"):
        assert f">{word}</text>" in room.view.value


def test_its_film_has_a_frame_for_each_step_and_can_be_played():
    room = Playground(Settings(capacity=8))
    for typed in ("1 2 3", "1 2 4"):
        press(room, "insert", typed)
    press(room, "undo")
    assert [frame.words for frame in room.history.live.film] == ["start", "insert [1 2 3]"]
    assert room.history.live.film.player().reel["captions"] == ["0. start", "1. insert [1 2 3]"]


def test_requests_run_publish_and_end():
    room = playground(capacity=8, requests=True)
    assert press(room, "start", "1 2 3") == "start [1 2 3]: r1 runs: 0 of 3 cached, 3 to compute"
    assert "r1 runs  ..." in room.text
    assert press(room, "publish") == "publish r1: all computed, 3 tokens more can be found by others"
    assert press(room, "start", "1 2 9") == "start [1 2 9]: r2 runs: 2 of 3 cached, 1 to compute"
    assert room.runs.options == (("r1: [1 2 3]", 1), ("r2: [1 2 9]", 2))
    press(room, "reset")
    refused(room, "cannot reset: 2 running")
    assert press(room, "abort") == "abort r1: r1 is over, 0 tokens freed, what it had published stays"
    assert press(room, "finish") == "finish r2: r2 is over, 0 tokens freed, what it computed is cached"
    check(room.history.live)
    assert room.history.live.cache.total_size == 4
    press(room, "finish")
    refused(room, "no request runs")


def test_start_over_leads_back_to_the_scene():
    room = playground(goal="cut an edge in one step")
    press(room, "match", "1 2 9")
    assert "done, in 1 step" in room.text
    press(room, "start over")
    assert "not yet: no edge was cut" in room.text
    press(room, "undo")
    free = Playground()
    press(free, "start over")
    refused(free, "no scene was chosen")


# For each goal what reaches it: what is pressed, with what, and what is missing before it.
REACHED = {
    "cut an edge in one step": [("insert", "1 2 3 4 5 6 7", "no edge was cut"), ("match", "1 2 9", "")],
    "make a prompt hit 8 tokens": [
        ("match", "the", "the last hit was 3 tokens long"), ("insert", "the cat ran", "")],
    "protect more than half with two locks": [
        ("lock", "1 2 3 4 5 6", "1 lock protects 6 of 16 slots"), ("lock", "1 2 3 7 8 9", "")],
    "make admit refuse a prompt that would fit": [
        ("lock", "1 2 3 4", "nothing was refused"),
        ("insert", "9 9 9 9 9 9 9 9 9", "would not fit even an empty pool"),
        ("insert", "7 8 9 10 11", "")],
    "evict the prompt that was inserted last": [
        ("match", "1 1 1", "evict something"), ("match", "2 2 2", "evict something"), ("evict", 1, "")],
    "publish, hit, and abort": [
        ("start", "1 2 3 4", "no request has published"), ("publish", None, "no other prompt has hit"),
        ("insert", "1 2 3 9", "was not aborted yet"), ("abort", None, "")],
}  # fmt: skip


@pytest.mark.parametrize("name", GOALS)
def test_a_goal_is_reached_and_says_what_is_missing(name):
    room = playground(goal=name)
    assert f"goal: {name} (not yet: " in room.text
    assert room.text.splitlines()[0] in room.aim.value
    for verb, what, missing in REACHED[name]:
        fields = {"amount": what} if isinstance(what, int) else {}
        press(room, verb, what if isinstance(what, str) else None, **fields)
        said = room.text.splitlines()[0]
        assert (f"not yet: {missing}" in said or missing in said) if missing else "done, in" in said, said
    assert "✓" in room.aim.value


def test_a_goal_is_not_reached_by_something_like_it():
    room = playground(goal="evict the prompt that was inserted last")
    press(room, "evict", amount=3)
    assert "the prompt inserted last, [3, 3, 3], is still whole" in room.text
    press(room, "evict", amount=9)
    assert "an earlier prompt went too" in room.text
    room = playground(goal="protect more than half with two locks")
    for prompt in ("1 2 3 4 5 6", "1 2 3 7 8 9", "20"):
        press(room, "lock", prompt)
    assert "3 locks protect 10 of 16 slots" in room.text
    with pytest.raises(ValueError, match="goal is 'none': expected one of 'cut an edge in one step'"):
        playground(goal="none")


def test_a_goal_of_ones_own():
    goal = Goal("be empty", next(iter(SCENES.values())), lambda history, own: "" if not own else "too late")
    room = playground(goal=goal)
    assert room.text.startswith("goal: be empty (done, in 0 steps)")
    press(room, "match", "x")
    assert room.text.startswith("goal: be empty (not yet: too late)")
