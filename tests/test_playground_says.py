"""What a playground says and shows when its buttons are pressed, without a browser."""

from __future__ import annotations

import pytest
from test_playground import check

from minikv.course.playground import playground
from minikv.course.playground.lessons import SCENES
from minikv.course.playground.steps import FIELDS


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


# How it is made; what is pressed → what is said or shown, & what else; ✗ an error changes nothing.
SAYS = {
    "the buttons": ({"capacity": 8}, """
unlock → ✗ unlock: there is no such lock or request
undo → ✗ undo: there is nothing to undo
redo → ✗ redo: there is nothing to redo
insert 1 2 3 → insert [1 2 3]: none of it is cached; 3 tokens are new
match 1 2 9 → match [1 2 9]: 2 of 3 tokens are cached
lock → lock [1 2 9]: 2 of 3 tokens are cached; 2 tokens are now protected from eviction, 1 evictable
evict 3 → evict 3: 1 token is evicted (slot 2); nothing else can be
reset → ✗ reset: cannot reset while these are held: 1 [1 2 9]
lock 1 2 → lock [1 2]: 2 of 2 tokens are cached; 2 tokens are now protected from eviction, 0 evictable
unlock 1 [1 2 9] → unlock 1 [1 2 9]: 2 tokens are now protected from eviction, 0 evictable
unlock → unlock 2 [1 2]: 0 tokens are now protected from eviction, 2 evictable
insert 1 2 in B → insert [1 2] in 'B': none of it is cached; 2
lock 9 → ✗ lock: there is nothing to lock: no page of [9] is cached
evict -1 → ✗ evict: num_tokens is -1: evict frees 0 tokens or more
reset → reset: 0 tokens cached & 1. reset: 0 tokens cached
undo → undo: reset & cached: 4
redo → redo: reset & cached: 0
"""),
    "what is no prompt": ({"capacity": 8}, f"""
insert 1 2 3 → 3 tokens are new
insert [ ] → ✗ insert: the prompt is empty: type some words, or token ids such as 1 2 3
match 1 -2 → ✗ match: tokens[1] is -2: a token is an integer in [0, 2**32)
lock 4294967296 → ✗ lock: tokens[0] is 4294967296: a token is an integer
match {"9" * 5000} → ✗ match: tokens[0] is 9999
insert \ud800 → ✗ insert: 'utf-8' codec can't encode character
"""),
    "what there is room for": ({"capacity": 6}, """
insert 1 2 3 → 3 tokens are new
lock 1 2 3 → 3 tokens are now protected
insert 7 8 → 2 tokens are new
insert 1 2 9 9 9 9 → ✗ insert: 4 pages needed, but only 1 free and 2 evictable
insert 4 5 → insert [4 5]: none of it is cached; 2 tokens are evicted (slots 3-4); 2 tokens are new
"""),
    "a prefix of one's own is never evicted": ({"capacity": 4}, """
insert 1 2 3 → 3 tokens are new
insert 1 2 8 9 → 2 of 4 tokens are cached; 1 token is evicted (slot 2); 2 tokens are new, 2 were already
match 1 2 8 9 → 4 of 4 tokens are cached
"""),
    "the tail that fills no page needs one": ({"page_size": 4, "capacity": 3}, """
insert 1 2 3 4 5 6 7 8 9 10 → 8 tokens are new, 2 tokens are in no whole page & free slots: 4
capacity 2 → ✗ capacity: step 1 (insert [1 2 3 4 … 7 8 9 10 (10 in all)]) would fail: 3 pages needed, but
"""),
    "text": ({"capacity": 31}, """
insert a: b → insert 'a: b': none of it is cached; 4 tokens are new
lock a: b → lock 'a: b': 4 of 4 tokens are cached; 4 tokens are now protected from eviction, 0 evictable
match a: b → locked: 4 (protected) & mmmm
unlock → unlock 1 'a: b': 0 tokens are now protected
insert hello world → └─ 'hello world' · n2
insert 1 2 3 → [1 2 3] · n
"""),
    "settings": ({"scene": "pages of 4"}, """
undo → undo: match [1 2 3 4 5 6 0]
redo → match [1 2 3 4 5 6 0]: 4 of 7 tokens are cached
page_size 0 → ✗ page_size: page_size is 0: a playground draws 1 to 64
capacity 100000 → ✗ capacity: capacity is 100000: a playground draws 1 to 256
page_size 2 → set page_size 2: 10 tokens cached & match [1 2 3 4 5 6 0]: 6 of 7 tokens are cached
evict_by page → evict_by='page'
undo → page_size=2 & evict_by='node'
lock 1 2 → 2 tokens are now protected
page_size 4 → ✗ page_size: step 6 (lock [1 2]) would fail: there is nothing to lock: no page & Undo it or
"""),
    "another design": ({"capacity": 8, "index": "hash"}, """
policy mru → ✗ policy: policy is 'mru': index 'hash' has one order of eviction, its own
"""),
    "host memory": ({"capacity": 4, "host_pages": 4}, """
insert 1 2 3 → host memory: 4 of 4 pages free
evict 3 → evict 3: 3 tokens are evicted (slots 0-2) & host memory: 1 of 4 pages free
insert 1 2 3 → none of it is cached, 3 in host memory; host pages 0-2 to slots 0-2
"""),
    "after a reset": ({"capacity": 31}, """
insert 1 2 3 → 3 tokens are new
reset → reset: 0 tokens cached
capacity 2 → set capacity 2: 0 tokens cached
insert 5 → free slots: 1 · in hand: 0 · cached: 1
"""),
    "a new step forgets the undone ones": ({"capacity": 8}, """
insert 1 → 1 token is new
insert 2 → 1 token is new
undo → undo: insert [2]
insert 3 → 1. insert [1] & 2. insert [3]
redo → ✗ redo: there is nothing to redo
"""),
    "a scene is history": ({"capacity": 8}, """
insert 1 2 3 → 3 tokens are new
scene two prompts share a prefix → 'the cat ' · n2 · slots 0-7 · matched · split
undo → undo: insert 'the cat ran'
undo → undo: insert 'the cat sat'
undo → undo: scene two prompts share a prefix & └─ [1 2 3] · n1 · slots 0-2 · new
"""),
    "what is shown": ({"capacity": 8}, """
insert 1 2 3 → └─ [1 2 3] · n1 · slots 0-2 · new
match 1 9 → └─ [1] · n2 · slot 0 · matched · split & [2 3] · n1 · slots 1-2 · split
evict 2 → [2 3] · n1 · slots 1-2 · evicted
match 1 → └─ [1] · n2 · slot 0 · matched & FreeListPool: 7 of 8 slots free
"""),
    "requests": ({"capacity": 8, "requests": True}, """
start 1 2 3 → start [1 2 3]: none of it is cached & r1 runs  ...
publish → publish r1 [1 2 3]: 3 tokens are new
start 1 2 9 → start [1 2 9]: 2 of 3 tokens are cached
reset → ✗ reset: cannot reset while these are held: r1 [1 2 3], r2 [1 2 9]
abort → abort r1 [1 2 3]: 1 token is unlocked
finish → finish r2 [1 2 9]: 1 token is new, 2 were already cached
finish → ✗ finish: there is no such lock or request
"""),
    "cut": ({"goal": "cut an edge in one step"}, """
insert 1 2 3 4 5 6 7 → not yet: no edge was cut
match 1 2 9 → reached, your steps: 2
start over → not yet: no edge was cut
scene two namespaces → The same tokens in three namespaces
undo → undo: match
undo → undo: insert
undo → undo: insert
undo → undo: scene & goal: cut an edge
reset → not yet
insert 1 2 3 → not yet
insert 1 2 4 → reached, your steps: 3
"""),
    "hit": ({"goal": "make a prompt hit 8 tokens"}, """
match the → not yet: no prompt hit exactly 8 tokens
insert the cat ran → reached
"""),
    "protect": ({"goal": "protect more than half with two locks"}, """
lock 1 2 3 4 5 6 → not yet: take two locks
lock 1 2 3 → not yet: at most 8 slots are protected
undo → not yet: take two locks
lock 1 2 3 7 8 9 → reached
lock 20 → not yet: take two locks
"""),
    "refuse": ({"goal": "make admit refuse a prompt that would fit"}, """
lock 1 2 3 4 → not yet: nothing was refused
insert 9 9 9 9 9 9 9 9 9 → not yet: this prompt is too long for the pool
insert 7 8 9 10 11 → reached
"""),
    "evict": ({"goal": "evict the prompt that was inserted last"}, """
match 1 1 1 → not yet: evict something
match 2 2 2 → not yet: evict something
evict 1 → reached
start over → not yet: evict something
evict 3 → the last prompt is still fully cached
evict 9 → an earlier prompt was evicted
start over → not yet: evict something
insert 4 4 4 in B → not yet
evict 0 → the last prompt is still fully cached
"""),
    "publish": ({"goal": "publish, hit, and abort"}, """
start 1 2 3 4 → not yet: no running request has published
publish → not yet: no other prompt hit
insert 1 2 3 9 → has not been aborted
abort → reached
"""),
}  # fmt: skip


FIELDS_OF_SETTINGS = "page_size", "capacity", "policy", "evict_by"


def refused(room, message):
    """The message is in the box of errors, with its sign and its border."""
    assert message in room.said
    for part in ('role="alert"', "<b>✗</b>", "solid rgb(208 74 88)"):
        assert part in room.message.value


@pytest.mark.parametrize("name", SAYS)
def test_a_playground_says_how_it_went(name):
    how, script = SAYS[name]
    room = playground(**how)
    for line in script.strip().splitlines():
        before = room.text, [room.controls[field].value for field in FIELDS_OF_SETTINGS]
        act, _, words = line.partition(" → ")
        press(room, act)
        if words.startswith("✗ "):
            refused(room, words[2:].split(" & ")[0])
            assert (room.text, [room.controls[field].value for field in FIELDS_OF_SETTINGS]) == before, line
        shown = f"{room.said}\n{room.text}"
        assert [part for part in words.removeprefix("✗ ").split(" & ") if part not in shown] == [], line
        check(room.history.live)
        if "goal" in how and room.text.startswith("goal: "):
            assert room.text.splitlines()[0] in room.message.value
            assert ("<b>✓</b> goal: " in room.message.value) == ("reached" in room.text.splitlines()[0])
