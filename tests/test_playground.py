"""The playground: its core by random acts, its widgets by pressing every button without a browser."""

from __future__ import annotations

import base64
import re
from dataclasses import asdict
from html import unescape
from xml.etree import ElementTree

import pytest
from chapters import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st
from nightly import NIGHTLY
from reels import pictures_of

from minikv.course.playground import Playground, playground
from minikv.course.playground.lessons import GOALS, SCENES
from minikv.course.playground.live import History, LiveCache
from minikv.course.playground.steps import SIZES, Settings, Step, label_in, steps_in, tokens_of
from minikv.errors import LockError, OutOfPages
from minikv.prefix import INDEXES
from minikv.prefix.eviction import POLICIES

# -- the core ---------------------------------------------------------------------------------------------------------

PROMPTS = st.lists(st.integers(1, 3), min_size=1, max_size=9).map(lambda ids: " ".join(map(str, ids)))
NAMESPACES = st.sampled_from(["", "", "B"])
STEPS = st.one_of(
    st.builds(Step, st.sampled_from(["match", "insert", "insert", "insert", "lock"]), PROMPTS, NAMESPACES),
    st.tuples(st.sampled_from(["unlock", "publish", "finish", "abort"]), st.integers(0, 3)),
    st.builds(Step, st.just("evict"), st.integers(0, 9).map(str)),
    st.builds(Step, st.just("start"), PROMPTS),
    st.just(Step("reset")),
)
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
    used = [page for page in range(pool.size) if not pool.is_free(page)]
    assert sorted(held + cached) == used


def seen(history):
    """All that can be seen of it: each frame in words, what is held, and the settings."""
    live = history.live
    return [repr(frame) for frame in live.film], [*live.held], live.settings, len(history.steps)


def words(history):
    """The outcomes of the steps since the last beginning."""
    return [frame.words for _, _, frame in history.live.done]


def do(history, doing):
    """One doing of a class; what cannot be done must change nothing."""
    before = seen(history)
    try:
        history.do(*(step if isinstance(step, Step) else Step(step[0], nth(history, step[1])) for step in doing))
    except (TypeError, ValueError, LockError, OutOfPages):
        assert seen(history) == before


def nth(history, number):
    """A lock or a request, of which there may be fewer."""
    return dict(enumerate(history.live.held)).get(number, "none")


@given(SETTINGS, DOINGS, st.integers(0, 14))
@settings(max_examples=120 if NIGHTLY else 40, deadline=None)
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


def test_a_request_that_does_not_fit_says_what_there_is_and_changes_nothing():
    history = History(Settings(capacity=6))
    history.do(*steps_in("insert 1 2 3, lock 1 2 3, insert 7 8"))
    before, clock = seen(history), history.live.cache._clock
    with pytest.raises(OutOfPages, match=r"^4 pages needed, but only 1 free and 2 evictable$"):
        history.do(Step("insert", "1 2 9 9 9 9"))
    assert (seen(history), history.live.cache._clock) == (before, clock)


def test_a_request_makes_room_by_evicting_but_never_its_own_prefix():
    history = History(Settings(capacity=4))
    history.do(*steps_in("insert 1 2 3, insert 1 2 8 9, match 1 2 8 9"))
    assert words(history)[1:] == [
        "insert [1 2 8 9]: 2 of 4 tokens are cached; 1 token is evicted (slot 2); "
        "2 tokens are new, 2 were already cached",
        "match [1 2 8 9]: 4 of 4 tokens are cached",
    ]


def test_the_unaligned_tail_needs_a_page_and_gives_it_back():
    live = LiveCache(Settings(page_size=4, capacity=3))
    live.do(Step("insert", "1 2 3 4 5 6 7 8 9 10"))
    assert live.film.at(-1).words.endswith(": none of it is cached; 8 tokens are new, 2 tokens are in no whole page")
    assert live.manager.pool.num_free == 1
    with pytest.raises(OutOfPages, match="3 pages needed, but only 2 free"):
        LiveCache(Settings(page_size=4, capacity=2)).do(Step("insert", "1 2 3 4 5 6 7 8 9 10"))


def test_the_words_of_a_step_are_what_it_called_whatever_is_typed():
    history = History()
    history.do(Step("insert", "a: b"), Step("start", "a: b"), Step("lock", "a: b"), Step("unlock", "1 'a: b'"))
    assert words(history) == [
        "insert 'a: b': none of it is cached; 4 tokens are new",
        "start 'a: b': 4 of 4 tokens are cached",
        "lock 'a: b': 4 of 4 tokens are cached; 4 tokens are now protected from eviction, 0 evictable",
        "unlock 1 'a: b': 4 tokens are now protected from eviction, 0 evictable",
    ]


def test_reset_waits_for_the_locks():
    history = History()
    history.do(*steps_in("insert 1 2, lock 1 2"))
    with pytest.raises(LockError, match=r"cannot reset while these are held: 1 \[1 2\]"):
        history.do(Step("reset"))
    history.do(Step("unlock", "1 [1 2]"), Step("reset"))
    assert history.live.cache.total_size == 0
    assert words(history) == ["reset: 0 tokens cached"]
    history.undo()
    assert history.live.cache.total_size == 2


def test_locks_are_numbered_and_given_back_by_number():
    history = History()
    history.do(*steps_in("insert 1 2, lock 1 2, lock 1 2"))
    assert [*history.live.held] == ["1 [1 2]", "2 [1 2]"]
    history.do(Step("unlock", "1 [1 2]"))
    assert history.live.cache.protected_size == 2
    with pytest.raises(LockError, match="there is no such lock or request"):
        history.do(Step("unlock", "1 [1 2]"))
    with pytest.raises(ValueError, match="nothing to lock: no page of \\[9\\] is cached"):
        history.do(Step("lock", "9"))


def test_other_settings_replay_the_same_steps():
    history = History()
    history.do(*SCENES["pages of 4"].steps)
    assert words(history)[-1] == "match [1 2 3 4 5 6 0]: 4 of 7 tokens are cached"
    history.do(Step("set", "page_size 2"))
    match = "match [1 2 3 4 5 6 0]: 6 of 7 tokens are cached"
    assert words(history)[-2:] == [match, "set page_size 2: 10 tokens cached"]
    history.undo()
    assert history.live.settings.page_size == 4


def test_settings_in_which_a_step_cannot_be_done_are_refused_by_its_number():
    history = History()
    history.do(*steps_in("insert 1 2, lock 1 2"))
    before = seen(history)
    wanted = r"^step 2 \(lock \[1 2\]\) would fail: there is nothing to lock: .*\. Undo it or reset first$"
    with pytest.raises(ValueError, match=wanted):
        history.do(Step("set", "page_size 4"))
    assert seen(history) == before


def test_after_a_reset_what_came_before_does_not_bind():
    history = History()
    history.do(Step("insert", "1 2 3"), Step("reset"), *steps_in("set capacity 2, insert 5"))
    new = "insert [5]: none of it is cached; 1 token is new"
    assert words(history) == ["reset: 0 tokens cached", "set capacity 2: 0 tokens cached", new]
    assert history.live.settings.capacity == history.live.manager.pool.size == 2


def test_a_new_step_forgets_the_undone_ones():
    history = History()
    history.do(*steps_in("insert 1, insert 2"))
    history.undo()
    history.do(Step("insert", "3"))
    assert list(map(str, history.steps)) == ["insert [1]", "insert [3]"]
    with pytest.raises(ValueError, match="there is nothing to redo"):
        history.redo()


def test_there_is_nothing_to_undo_at_the_beginning():
    with pytest.raises(ValueError, match="there is nothing to undo"):
        History().undo()


@pytest.mark.parametrize("typed", ["1 2 3", "1, 2, 3", "[1, 2, 3]", "[1 2 3]", " 1,2 ,3 "])
def test_token_ids_may_be_typed_in_any_usual_way(typed):
    assert tokens_of(typed) == ((1, 2, 3), False)


BAD_PROMPTS = {
    "": "the prompt is empty: type some words, or token ids such as 1 2 3",
    " [ ] ": "the prompt is empty",
    "1 -2": "tokens[1] is -2: a token is an integer in [0, 2**32)",
    "4294967296": "tokens[0] is 4294967296: a token is an integer",
    "9" * 5000: "tokens[0] is 9999",
    "\ud800": "can't encode character",
}


@pytest.mark.parametrize("typed", ["hello world", "1 two", "1.2", "1;2", "'1 2'", '"7"', "a"])
def test_what_is_not_integers_is_text(typed):
    """As it was typed; what stands in quotes without them."""
    wanted = typed.strip("'\"") if typed[0] in "'\"" else typed
    assert tokens_of(typed) == (tuple(wanted.encode()), True)


@given(st.text(st.characters(blacklist_categories=["Cs"]), min_size=1, max_size=12), st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_any_text_can_be_a_prompt_and_is_drawn(typed, page_size):
    history = History(Settings(page_size, 64))
    history.do(Step("insert", f"'{typed}'"))
    assert history.steps[0].prompt == (tuple(typed.encode()), True)
    assert repr(history.live.film.at(-1)).replace("\n", "").isprintable()
    for drawing in history.live.film.reel.drawings:
        ElementTree.fromstring(f"<g>{drawing}</g>")


def test_a_long_namespace_is_cut_in_words_and_pictures():
    history = History()
    history.do(Step("insert", "1", "x" * 3000), Step("lock", "1", "x" * 3000))
    assert max(map(len, repr(history.live.film.at(-1)).splitlines())) < 140
    assert "x" * 70 not in str(seen(history)[1]) + str(history.live.film.reel.as_dict())


def test_text_that_is_cut_within_a_character_is_shown_byte_by_byte():
    assert label_in("é".encode()[:1], is_text=True) == r"'\\xc3'"
    assert label_in(b"a" * 30, is_text=True) == f"'{'a' * 12}…{'a' * 11}'"


BAD_SETTINGS = {
    "page_size is 0: a playground draws 1 to 64": {"page_size": 0},
    "page_size is 65: a playground draws 1 to 64": {"page_size": 65},
    "capacity is 0: a playground draws 1 to 256": {"capacity": 0},
    "capacity is 257: a playground draws 1 to 256": {"capacity": SIZES["capacity"][1] + 1},
    "policy is 'best': expected one of": {"policy": "best"},
    "evict_by is 'tree': expected one of node, page": {"evict_by": "tree"},
    "index is 'btree': expected one of radix": {"index": "btree"},
    "host_pages is -1: a playground draws 0 to 256": {"host_pages": -1},
    "host_pages is 257: a playground draws 0 to 256": {"host_pages": SIZES["host_pages"][1] + 1},
    "host_pages is 3: 'trie' has no host memory": {"index": "trie", "host_pages": 3},
    "policy is 'fifo': index 'hash' has one order of eviction, its own": {"index": "hash", "policy": "fifo"},
    "evict_by is 'page': index 'trie' has one order of eviction, its own": {"index": "trie", "evict_by": "page"},
}


@pytest.mark.parametrize("message", BAD_SETTINGS)
def test_settings_that_no_cache_can_have_are_refused(message):
    with pytest.raises(ValueError, match=message):
        playground(**BAD_SETTINGS[message])


@pytest.mark.parametrize("name", [name for name, scene in SCENES.items() if scene.script])
def test_every_scene_plays_under_every_policy(name):
    for policy in POLICIES:
        history = History()
        history.do(*SCENES[name].steps)
        history.do(Step("set", f"policy {policy}"))
        check(history.live)
    room = playground(scene=name)
    room.controls["insert"].click()  # the prompt to continue with
    assert room.history.steps[-1].verb == "insert"


def test_scenes_keep_what_they_promise():
    def told(name):
        history = History()
        history.do(*SCENES[name].steps)
        return history, repr(history.live.film.at(-1))

    assert "'the cat ' · n2 · slots 0-7 · matched · split" in told("two prompts share a prefix")[1]
    assert told("split under a lock")[1].count("locked ×1") == 2
    assert "[5 6] · n3 · slots 4-5 · evicted" in told("evict the tail first")[1]
    assert "none of it is cached" in told("two namespaces")[1]
    assert told("full: what can be evicted?")[0].live.manager.pool.num_free == 0
    for page_size in (1, 2):
        history, _ = told("pages of 4")
        history.do(Step("set", f"page_size {page_size}"))


# -- the widgets ------------------------------------------------------------------------------------------------------


def press(room, button, prompt=None, **fields):
    fields = fields if prompt is None else {"prompt": prompt, **fields}
    for name, value in fields.items():
        room.controls[name].value = value
    room.controls[button].click()
    return room.said


def refused(room, message):
    """The message is in the box of errors, with its sign and its border."""
    assert message in room.said
    assert "✗" in room.message.value
    assert 'role="alert"' in room.message.value
    assert "solid rgb(208 74 88)" in room.message.value


def svgs(room):
    """The pictures of the step on show."""
    reel = room.player.reel
    return [list(pictures_of(reel, panel))[room.player.index] for panel in range(len(reel["panels"]))]


def test_buttons_do_what_they_say():
    room = playground(capacity=8)
    assert press(room, "insert", "1 2 3") == "insert [1 2 3]: none of it is cached; 3 tokens are new"
    assert press(room, "match", "1 2 9") == "match [1 2 9]: 2 of 3 tokens are cached"
    assert (
        press(room, "lock")
        == "lock [1 2 9]: 2 of 3 tokens are cached; 2 tokens are now protected from eviction, 1 evictable"
    )
    assert room.controls["held"].options == ("1 [1 2 9]",)
    assert press(room, "evict", tokens=3) == "evict 3: 1 token is evicted (slot 2); nothing else can be"
    assert press(room, "unlock") == "unlock 1 [1 2 9]: 0 tokens are now protected from eviction, 2 evictable"
    assert press(room, "insert", "1 2", namespace="B").startswith("insert [1 2] in 'B': none of it is cached; 2")
    assert press(room, "reset") == "reset: 0 tokens cached"
    assert press(room, "undo") == "undo: reset"
    assert room.history.live.cache.total_size == 4
    assert press(room, "redo") == "redo: reset"
    assert room.history.live.cache.total_size == 0


@pytest.mark.parametrize("goal", GOALS)
def test_no_playground_opens_with_its_own_solution(goal):
    """Whatever one presses first."""
    buttons = [name for name, one in playground(goal=goal).controls.items() if hasattr(one, "click")]
    assert len(buttons) == 13
    for name in buttons:
        room = playground(goal=goal)
        room.controls[name].click()
        assert room.scene.state(room.history)[0] == "hint", name


def test_what_is_shown_are_the_steps_tree_pool_sizes_and_what_is_held():
    room = playground(capacity=8)
    press(room, "insert", "1 2 3")
    press(room, "lock", "1 2")
    assert room.player.reel["captions"] == ["0. start", *room.text.splitlines()[-2:]]
    assert room.player.index == 2
    film = room.player.reel["film"]
    assert dict(zip(film["sizes"]["states"], film["sizes"]["values"][-1])) == {
        "free": 5, "in hand": 0, "cached": 1, "locked": 2}  # fmt: skip
    assert "FreeListPool: 5 of 8 slots free" in room.text
    assert room.controls["held"].options == ("1 [1 2]",)
    for line in room.history.live.film.at(-1).contents.splitlines():
        assert line in room.text


def test_the_player_goes_to_the_newest_step_and_an_error_leaves_it_where_it_is():
    room = playground(capacity=8)
    for prompt in ("1 2 3", "4 5"):
        press(room, "insert", prompt)
    room.player.index = 1  # as one steps back in the browser
    press(room, "insert", "6 7 8 9 10 11 12 13 14")
    refused(room, "9 pages needed")
    room.controls["prompt"].value = "6"
    assert room.player.index == 1
    press(room, "insert")
    assert room.history.live.cache.total_size == 6
    assert (room.player.index, len(room.player.reel["captions"])) == (3, 4)
    press(room, "undo")
    assert (room.player.index, len(room.player.reel["captions"])) == (2, 3)


def test_reel_and_step_reach_the_browser_together(monkeypatch):
    """Else it would draw the new reel at the old step first."""
    room, sent = playground(capacity=8), []
    monkeypatch.setattr(type(room.player), "_send", lambda self, message, buffers=None: sent.append(message["state"]))
    press(room, "insert", "1 2 3")
    assert [sorted({"reel", "index"} & state.keys()) for state in sent if "reel" in state] == [["index", "reel"]]


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
    nothing = {"unlock": "no such lock or request", "undo": "nothing to undo", "redo": "nothing to redo"}
    for name, message in nothing.items():
        press(room, name)
        refused(room, f"{name}: there is {message}")
    press(room, "insert", "1 2 3 4 5")
    refused(room, "insert: 5 pages needed, but only 4 free and 0 evictable")
    press(room, "lock", "1 2")
    refused(room, "there is nothing to lock")
    press(room, "evict", tokens=-1)
    refused(room, "num_tokens is -1: evict frees 0 tokens or more")
    press(room, "match", "\ud800")
    refused(room, "can't encode")
    press(room, "match", "")
    refused(room, "type some words")
    assert room.text == before
    press(room, "insert", "1")
    press(room, "lock")
    press(room, "reset")
    refused(room, "cannot reset while these are held: 1 [1]")


def test_bad_settings_are_said_and_the_field_goes_back():
    room = playground(capacity=8)
    press(room, "insert", "1 2 3")
    for name, value, message in [
        ("page_size", 0, "page_size is 0: a playground draws 1 to 64"),
        ("page_size", -3, "page_size is -3"),
        ("capacity", 100_000, "capacity is 100000: a playground draws 1 to 256"),
        ("capacity", 2, "step 1 (insert [1 2 3]) would fail: 3 pages needed, but only 2 free"),
    ]:
        before = room.text, room.controls[name].value
        room.controls[name].value = value
        refused(room, message)
        assert (room.text, room.controls[name].value) == before


def test_settings_are_chosen_undone_and_follow_the_scene():
    room = playground(scene="pages of 4")
    controls = room.controls
    assert controls["page_size"].value == 4
    controls["page_size"].value = 2
    assert room.said == "set page_size 2: 10 tokens cached"
    assert "match [1 2 3 4 5 6 0]: 6 of 7 tokens are cached" in room.text
    controls["evict_by"].value = "page"
    assert room.history.live.cache.evict_by == "page"
    press(room, "undo")
    press(room, "undo")
    assert (controls["page_size"].value, controls["evict_by"].value) == (4, "node")


@pytest.mark.parametrize("index", INDEXES)
def test_the_same_steps_are_replayed_in_another_design(index):
    room = playground(scene="split under a lock")
    room.controls["index"].value = index
    live = room.history.live
    assert type(live.cache) is type(INDEXES[index](1))
    assert (live.cache.protected_size, live.cache.evictable_size) == (6, 1)
    assert f"index='{index}'" in room.text.splitlines()[0]
    press(room, "insert", "1 2 3 4 5 6 7")
    assert "6 of 7 tokens are cached; 1 token is new, 6 were already cached" in room.said
    press(room, "evict")
    assert "1 token is evicted" in room.said


def test_another_design_has_no_policy_to_choose():
    room = playground(capacity=8, index="hash")
    room.controls["policy"].value = "mru"
    assert room.said == "policy: policy is 'mru': index 'hash' has one order of eviction, its own"
    assert room.controls["policy"].value == "lru"


def test_a_scene_is_history_and_what_was_before_is_not_lost():
    room = Playground()
    press(room, "insert", "1 2 3")
    text = room.text
    room.controls["scene"].value = SCENES["two prompts share a prefix"]
    assert "'the cat '" in room.text
    for _ in range(3):
        press(room, "undo")
    assert room.text == text
    with pytest.raises(ValueError, match="scene is 'none': expected one of 'two prompts share a prefix'"):
        playground(scene="none")


def test_what_is_typed_is_never_markup():
    room = Playground()
    press(room, "insert", "<script>alert(1)</script>", namespace="<b>")
    sent = "".join([*room.player.reel["drawings"], room.player.reel["film"]["legend"], room.message.value])
    assert "&lt;script&gt;" in sent
    assert "<script" not in sent
    assert "<b>'" not in sent
    press(room, "insert", "<img>")
    assert "<img" not in room.message.value


def test_the_bundle_has_the_widget_the_picture_and_the_text():
    room = playground(scene="split under a lock")
    data, metadata = room._repr_mimebundle_()
    assert data["text/plain"] == room.text == repr(room)
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == room.box.model_id
    if "image/png" in data:
        assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")
        assert metadata["image/png"]["width"] > 100
        alt = re.search(r'alt="(.*?)"', data["text/html"], re.DOTALL)[1]
        assert unescape(alt) == room.text
    assert repr(playground(scene="split under a lock")) == repr(room)
    assert not re.search(r"0x[0-9a-f]{6}", repr(room))
    press(room, "undo")
    assert room._repr_mimebundle_()[0]["text/plain"] == room.text != data["text/plain"]


def test_requests_are_shown_only_while_one_runs():
    room = playground(requests=True)
    assert "requests:" not in room.player.still.svg + room.text + "".join(svgs(room))
    press(room, "start", "1 2")
    assert all("requests: 1 running" in shown for shown in (room.text, room.player.still.svg, "".join(svgs(room))))
    press(room, "abort")
    assert "requests:" not in room.player.still.svg + room.text


def test_without_graphviz_the_text_tree_stands_in(monkeypatch):
    monkeypatch.setattr("minikv.course.pictures.tree.node_places", lambda *shape, **how: None)
    room = Playground()
    press(room, "insert", "1 2")
    assert "└─ [1 2] · n1 · slots 0-1 · new</text>" in "".join(svgs(room))
    assert "image/png" not in room._repr_mimebundle_()[0]


def test_the_notebook_comparison_is_never_disturbed():
    sources = [path.read_text("utf-8") for path in (ROOT / "minikv" / "course" / "playground").glob("*.py")]
    assert len(sources) > 1
    for word in ("Output(", "interact", "clear_output", "display_id", "display("):
        assert not any(word in source for source in sources), word


def test_an_error_that_nobody_foresaw_is_said_too_and_it_can_be_played_on(monkeypatch):
    room = Playground()
    for owner, name in ((room.history, "do"), (room.player, "hold_sync")):
        with monkeypatch.context() as broken:
            broken.setattr(owner, name, once_broken(getattr(owner, name)))
            press(room, "insert", "1")
            refused(room, "insert: division by zero")
    assert press(room, "match", "1") == "match [1]: 1 of 1 token is cached"


def once_broken(act):
    calls = []

    def call(*given):
        calls.append(given)
        return 1 / 0 if len(calls) == 1 else act(*given)

    return call


# -- what it shows, and goals -----------------------------------------------------------------------------------------


def test_it_opens_with_a_scene_unless_it_was_told_how_to_begin():
    assert playground().history.steps[0].what == next(iter(SCENES))
    assert "'the cat '" in playground().text
    assert playground(capacity=8).history.steps == []


def test_text_is_shown_as_text_and_ids_as_ids():
    room = Playground()
    press(room, "insert", "hello world")
    press(room, "insert", "1 2 3")
    assert "'hello world' · n1" in room.text
    assert "[1 2 3] · n2" in room.text
    assert room.said == "insert [1 2 3]: none of it is cached; 3 tokens are new"


def test_a_split_is_marked_and_what_was_evicted_stays_for_one_step():
    room = Playground(Settings(capacity=8))
    press(room, "insert", "1 2 3")
    press(room, "match", "1 9")
    assert "[1] · n2 · slot 0 · matched · split" in room.text
    assert "[2 3] · n1 · slots 1-2 · split" in room.text
    press(room, "evict", tokens=2)
    assert "[2 3] · n1 · slots 1-2 · evicted" in room.text
    assert ">evicted</text>" in svgs(room)[0]
    press(room, "match", "1")
    assert "evicted" not in room.text.split("1. insert")[0]
    assert ">evicted</text>" not in svgs(room)[0]


def test_a_locked_slot_that_was_matched_shows_both():
    room = Playground(Settings(capacity=4))
    for verb in ("insert", "lock", "match"):
        press(room, verb, "1 2")
    assert [(cell.state, cell.event) for cell in room.history.live.film.at(-1).pools[0].boxes[:2]] == [
        ("locked", "matched")
    ] * 2
    assert "locked: 2 (protected)" in room.text


def test_its_film_has_a_frame_for_each_step_and_can_be_played():
    room = Playground(Settings(capacity=8))
    for typed in ("1 2 3", "1 2 4"):
        press(room, "insert", typed)
    press(room, "undo")
    captions = ["0. start", "1. insert [1 2 3]: none of it is cached; 3 tokens are new"]
    assert [frame.caption for frame in room.history.live.film] == captions
    assert room.history.live.film.player().reel["captions"] == captions


def test_requests_run_publish_and_end():
    room = playground(capacity=8, requests=True)
    held = room.controls["held"]
    assert press(room, "start", "1 2 3") == "start [1 2 3]: none of it is cached"
    assert "r1 runs  ..." in room.text
    assert press(room, "publish") == "publish r1 [1 2 3]: 3 tokens are new"
    assert press(room, "start", "1 2 9") == "start [1 2 9]: 2 of 3 tokens are cached"
    assert held.options == ("r1 [1 2 3]", "r2 [1 2 9]")
    press(room, "reset")
    refused(room, "cannot reset while these are held: r1 [1 2 3], r2 [1 2 9]")
    held.value = "r2 [1 2 9]"
    press(room, "match", "1")
    assert held.value == "r2 [1 2 9]"  # what was chosen stays chosen while it is there
    held.value = "r1 [1 2 3]"
    assert press(room, "abort") == "abort r1 [1 2 3]: 1 token is unlocked"
    assert press(room, "finish") == "finish r2 [1 2 9]: 1 token is new, 2 were already cached"
    check(room.history.live)
    assert room.history.live.cache.total_size == 4
    assert (held.options, held.value) == ((), None)
    press(room, "finish")
    refused(room, "there is no such lock or request")


@pytest.mark.parametrize(("how", "has_them"), [({"requests": True}, True), ({}, False),
                                               ({"goal": "publish, hit, and abort"}, True)])  # fmt: skip
def test_buttons_for_requests_are_there_where_they_were_asked_for(how, has_them):
    room = playground(capacity=8, **how)
    shown = [control for row in room.box.children if hasattr(row, "children") for control in row.children]
    assert (room.controls["publish"] in shown) == has_them
    assert room.controls["unlock"] in shown


def test_start_over_leads_back_to_the_beginning():
    room = playground(goal="cut an edge in one step")
    press(room, "match", "1 2 9")
    assert "reached, your steps: 1" in room.text
    press(room, "start over")
    assert "not yet: no edge was cut" in room.text
    press(room, "undo")
    free = playground(capacity=4, policy="mru")
    press(free, "insert", "1 2")
    press(free, "start over")
    live = free.history.live
    assert (live.cache.total_size, live.settings) == (0, Settings(capacity=4, policy="mru"))


# For each goal what reaches it: what is pressed, with what, and what is missing before it.
REACHED = {
    "cut an edge in one step": [("insert", "1 2 3 4 5 6 7", "no edge was cut"), ("match", "1 2 9", "")],
    "make a prompt hit 8 tokens": [
        ("match", "the", "no prompt hit exactly 8 tokens"), ("insert", "the cat ran", "")],
    "protect more than half with two locks": [
        ("lock", "1 2 3 4 5 6", "take two locks"), ("lock", "1 2 3 7 8 9", "")],
    "make admit refuse a prompt that would fit": [
        ("lock", "1 2 3 4", "nothing was refused"),
        ("insert", "9 9 9 9 9 9 9 9 9", "is too long for the pool"),
        ("insert", "7 8 9 10 11", "")],
    "evict the prompt that was inserted last": [
        ("match", "1 1 1", "evict something"), ("match", "2 2 2", "evict something"), ("evict", 1, "")],
    "publish, hit, and abort": [
        ("start", "1 2 3 4", "no running request has published"), ("publish", None, "no other prompt hit"),
        ("insert", "1 2 3 9", "has not been aborted"), ("abort", None, "")],
}  # fmt: skip


@pytest.mark.parametrize("name", GOALS)
def test_a_goal_is_reached_and_says_what_is_missing(name):
    room = playground(goal=name)
    assert f"goal: {name} (not yet: " in room.text
    assert room.text.splitlines()[0] in room.message.value
    for verb, what, missing in REACHED[name]:
        fields = {"tokens": what} if isinstance(what, int) else {}
        press(room, verb, what if isinstance(what, str) else None, **fields)
        said = room.text.splitlines()[0]
        assert (f"not yet: {missing}" in said or missing in said) if missing else "reached, your steps" in said, said
    assert "<b>✓</b> goal: " in room.message.value


def test_a_goal_is_not_reached_by_something_like_it():
    room = playground(goal="evict the prompt that was inserted last")
    press(room, "evict", tokens=3)
    assert "the last prompt is still fully cached" in room.text
    press(room, "evict", tokens=9)
    assert "an earlier prompt was evicted too" in room.text
    room = playground(goal="protect more than half with two locks")
    for prompt in ("1 2 3 4 5 6", "1 2 3 7 8 9", "20"):
        press(room, "lock", prompt)
    assert "not yet: take two locks" in room.text
    room = playground(goal="protect more than half with two locks")
    for prompt in ("1 2 3 4 5 6", "1 2 3"):
        press(room, "lock", prompt)
    assert "at most 8 slots are protected" in room.text
    with pytest.raises(ValueError, match=r"scene is 'none': expected one of .*, 'cut an edge in one step'"):
        playground(goal="none")


def test_a_goal_of_ones_own():
    scene = next(iter(SCENES.values()))
    goal = scene._replace(name="be empty", tests={"too late": lambda history, own: not own})
    room = Playground(scene=goal)
    assert room.text.startswith("goal: be empty (reached, your steps: 0)")
    press(room, "match", "x")
    assert room.text.startswith("goal: be empty (not yet: too late)")
    press(room, "start over")
    assert room.text.startswith("goal: be empty (reached, your steps: 0)")
    room.controls["scene"].value = scene
    assert "goal:" not in room.text


def test_undo_leads_back_to_the_goal_that_was_there_before_another_scene():
    room = playground(goal="cut an edge in one step")
    room.controls["scene"].value = SCENES["split under a lock"]
    assert "goal:" not in room.text
    for _ in SCENES["split under a lock"].steps:
        press(room, "undo")
    assert room.scene is GOALS["cut an edge in one step"] is room.controls["scene"].value
    assert room.text.startswith("goal: cut an edge in one step (not yet")


def test_after_a_reset_all_steps_are_ones_own():
    room = playground(goal="cut an edge in one step")
    press(room, "reset")
    press(room, "insert", "1 2 3")
    press(room, "insert", "1 2 4")
    assert room.text.startswith("goal: cut an edge in one step (reached, your steps: 3)")


def test_a_prompt_is_looked_for_in_its_own_namespace():
    room = playground(goal="evict the prompt that was inserted last")
    press(room, "insert", "4 4 4", namespace="B")
    press(room, "evict", tokens=0)
    assert "the last prompt is still fully cached" in room.text


def test_a_closed_playground_is_shown_as_text():
    room = playground()
    room.box.close()
    assert room._repr_mimebundle_() == {"text/plain": room.text}
