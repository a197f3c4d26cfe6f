"""The playground's widgets: its player, its scenes and designs, and what a notebook stores."""

import base64
import re
from html import unescape

import pytest
from test_playground import check
from test_playground_says import press, refused

from minikv.course.playground import Playground, playground
from minikv.course.playground.lessons import GOALS, SCENES
from minikv.prefix import INDEXES
from minikv.prefix.eviction import POLICIES


def test_it_opens_with_a_scene_unless_it_was_told_how_to_begin():
    assert playground().history.steps[0].what == next(iter(SCENES))
    assert playground(capacity=8).history.steps == []


@pytest.mark.parametrize("goal", GOALS)
def test_no_playground_opens_with_its_own_solution(goal):
    """Whatever one presses first."""
    room = playground(goal=goal)
    buttons = [name for name, one in room.controls.items() if hasattr(one, "click")]
    assert len(buttons) == 13
    for name in buttons:
        press(room, "start over")
        room.controls[name].click()
        assert room.scene.state(room.history)[0] == "hint", name


@pytest.mark.parametrize("name", [name for name, scene in SCENES.items() if scene.script])
def test_every_scene_plays_under_every_policy_and_has_a_prompt_to_continue_with(name):
    room = playground(scene=name)
    for policy in POLICIES:
        press(room, f"policy {policy}")
        check(room.history.live)
    room.controls["insert"].click()
    assert room.history.steps[-1].verb == "insert"


@pytest.mark.parametrize("index", INDEXES)
def test_the_same_steps_are_replayed_in_another_design(index):
    room = playground(scene="split under a lock")
    press(room, f"index {index}")
    live = room.history.live
    assert type(live.cache) is type(INDEXES[index](1))
    assert (live.cache.protected_size, live.cache.evictable_size) == (6, 1)
    assert "6 of 7 tokens are cached; 1 token is new, 6 were already cached" in press(room, "insert 1 2 3 4 5 6 7")
    assert "1 token is evicted" in press(room, "evict 1")


def test_reel_and_step_reach_the_browser_together(monkeypatch):
    """Else it would draw the new reel at the old step first."""
    room, sent = playground(capacity=8), []
    monkeypatch.setattr(type(room.player), "_send", lambda self, message, buffers=None: sent.append(message["state"]))
    press(room, "insert 1 2 3")
    assert [sorted({"reel", "index"} & state.keys()) for state in sent if "reel" in state] == [["index", "reel"]]


def test_what_is_typed_is_never_markup():
    room = Playground()
    press(room, "insert <script>alert(1)</script> in <b>")
    sent = "".join([*room.player.reel["drawings"], room.player.reel["film"]["legend"], room.message.value])
    assert "&lt;script&gt;" in sent
    assert "<script" not in sent
    assert "<b>'" not in sent


def test_the_bundle_has_the_widget_the_picture_and_the_text():
    room = playground(scene="split under a lock")
    data, metadata = room._repr_mimebundle_()
    assert data["text/plain"] == room.text == repr(room) == repr(playground(scene="split under a lock"))
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == room.box.model_id
    if "image/png" in data:
        assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")
        assert metadata["image/png"]["width"] > 100
        alt = re.search(r'alt="(.*?)"', data["text/html"], re.DOTALL)[1]
        assert unescape(alt) == room.text
    assert not re.search(r"0x[0-9a-f]{6}", repr(room))
    press(room, "undo")
    assert room._repr_mimebundle_()[0]["text/plain"] == room.text != data["text/plain"]
    room.box.close()
    assert room._repr_mimebundle_() == {"text/plain": room.text}


@pytest.mark.parametrize("how", [{"requests": True}, {"capacity": 8}, {"goal": "publish, hit, and abort"}])
def test_buttons_for_requests_are_there_where_they_were_asked_for(how):
    room = playground(**how)
    shown = [control for row in room.box.children for control in getattr(row, "children", ())]
    assert [room.controls[name] in shown for name in ("unlock", "publish")] == [True, "capacity" not in how]


def test_an_error_that_nobody_foresaw_is_said_too_and_it_can_be_played_on(monkeypatch):
    room = Playground()
    for owner, name in ((room.history, "do"), (room.player, "hold_sync")):
        acts = iter([lambda *_: 1 / 0, getattr(owner, name)])
        with monkeypatch.context() as broken:
            broken.setattr(owner, name, lambda *given, acts=acts: next(acts)(*given))
            press(room, "insert 1")
            refused(room, "insert: division by zero")
    assert press(room, "match 1") == "match [1]: 1 of 1 token is cached"


def test_a_goal_of_ones_own():
    goal = SCENES["two namespaces"]._replace(name="be empty", tests={"too late": lambda history, own: not own})
    room, reached = Playground(scene=goal), "goal: be empty (reached, your steps: 0)"
    assert room.text.startswith(reached)
    press(room, "match x")
    assert room.text.startswith("goal: be empty (not yet: too late)")
    press(room, "start over")
    assert room.text.startswith(reached)
    room.controls["namespace"].value = "of another scene"
    press(room, "scene two namespaces")
    assert ("goal:" in room.text, room.controls["namespace"].value) == (False, "")
    for _ in range(4):
        press(room, "undo")
    assert room.scene is goal is room.controls["scene"].value
