"""What a playground says and shows when its buttons are pressed, without a browser."""

import re
from ast import literal_eval
from html import unescape

import pytest
from golden_text import replay, sections
from reels import pictures_of
from test_playground import check

from minikv.course.playground import playground
from minikv.course.playground.lessons import SCENES
from minikv.course.playground.steps import FIELDS

GOLDEN = "playground.txt"


def press(room, act):
    """Type, perhaps `in` a namespace, and press a button, or change a field; what it says."""
    name = max((name for name in room.controls if f"{act} ".startswith(f"{name} ")), key=len)
    control, what = room.controls[name], act[len(name) + 1 :]
    if hasattr(control, "click"):
        what, _, room.controls["namespace"].value = what.partition(" in ")
        if what:
            field = room.controls[FIELDS[name]]
            field.value = type(field.value or "")(what)
        control.click()
    else:
        control.value = SCENES[what] if name == "scene" else type(control.value)(what)
    return room.said


FIELDS_OF_SETTINGS = "page_size", "capacity", "policy", "evict_by"


def refused(room, message):
    """The message is in the box of errors, with its sign and its border."""
    assert message in room.said
    for part in ('role="alert"', "<b>✗</b>", "solid rgb(208 74 88)"):
        assert part in room.message.value


def look(room):
    """What is shown: the text, and the player tells the same; its step if it is not the last; what is chosen."""
    reel, held, lines = room.player.reel, room.controls["held"], room.text.splitlines()
    last, (*_, sizes) = len(reel["captions"]) - 1, reel["film"]["sizes"]["values"]
    assert reel["captions"][1:] == lines[len(lines) - last :]
    counts = "free slots: {} · in hand: {} · cached: {} (evictable) · locked: {} (protected)".format(*sizes)
    lines.remove(counts)
    pictures = "".join(list(pictures_of(reel, panel))[room.player.index] for panel in range(len(reel["panels"])))
    tells = {"requests: 1 running" in part for part in (room.text, room.player.still.svg, pictures)}
    assert len(tells) == 1
    chosen = [f"held: {held.value} of {', '.join(held.options)}"] * bool(held.options)
    place = [f"player: step {room.player.index} of {last}"] * (room.player.index != last)
    return [*lines, *place, *chosen]


def everything(room):
    """What an error leaves as it was: all but whether a goal is reached."""
    fields = [room.controls[field].value for field in FIELDS_OF_SETTINGS]
    return room.text.partition("Settings")[2], room.player.index, fields


@pytest.mark.parametrize("title", sections(GOLDEN))
def test_a_playground_says_what_the_golden_file_says(title):
    """What is in the box of messages after a press; `show` shows what neither it nor the box has shown before."""
    room = playground(**literal_eval(title.partition(" @ ")[2]))
    shown, told = look(room), []

    def act(words):
        if words == "show":
            known, shown[:] = [*shown], look(room)
            return [line for line in shown if line not in known and line.partition(". ")[2] not in told]
        if words == "back":
            room.player.index -= 1
            return []
        before, said = everything(room), press(room, words)
        check(room.history.live)
        *goal, message = re.findall(r"<b>(.)</b> (.*?)</div>", unescape(room.message.value))
        assert message[1] == said
        told.append(said)
        assert not goal or room.text.startswith(goal[0][1])
        assert message[0] != "✗" or everything(room) == before
        return [f"{sign} {words.removeprefix(f'goal: {room.scene.name} ')}" for sign, words in (*goal, message)]

    replay(GOLDEN, title, act)


@pytest.mark.parametrize(("typed", "message"), [("9" * 5000, "tokens[0] is 9999"), ("\ud800", "'utf-8' codec can't")])
def test_what_cannot_be_a_prompt_is_refused(typed, message):
    room = playground(capacity=8)
    press(room, f"match {typed}")
    refused(room, f"match: {message}")
