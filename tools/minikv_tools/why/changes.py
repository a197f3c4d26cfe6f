"""The kind of change between two prompts, judged by how tools, system prompt and messages moved.

Two prompts are compared item by item: a tool, the system prompt, a message. The first items that differ decide. Items
that moved as a whole (reordered, inserted, dropped) are recognized before two texts are compared.

The kinds are in `kinds.txt`, each as its name, a sentence about it, and what to do. The name of a harmless
kind is followed by "(harmless)".
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from minikv_tools.bodies import Body
from minikv_tools.formats import stored_history
from minikv_tools.pieces import Items, Place, PromptItem, PromptPiece, Sides, bounded_name
from minikv_tools.usage import JsonObject
from minikv_tools.why.histories import history_change, late_text, prompt_change, role_change
from minikv_tools.why.texts import PATTERNS, PromptChange, common_run, keys_moved, text_change, unfolded

_TURN = re.compile(f"(?={PATTERNS['TURN']})")  # a group for each family of models
_TEMPLATED = re.compile(PATTERNS["TEMPLATED"])
_ROLE = re.compile(r"(?:<\|?(?:im_)?start\w*\|?>)?\W*(\w*)")  # after the mark, or in it
_HARMLESS = " (harmless)"
_SHORT = 64  # characters of a setting's value that are shown
_SYSTEM = ("system", "developer")
_HISTORY = {"history truncated", "history summarized", "message inserted", "message removed", "message edited",
            "messages reordered"}  # fmt: skip
_PARTS = ("tools", "response_format", "system")


class ChangeKind(NamedTuple):
    """One kind of change: a sentence about it, and what to do; `harmless` ones are no fault of the prompt."""

    says: str
    remedy: str
    harmless: bool


def _read(text: str) -> tuple[str, ChangeKind]:
    name, says, *remedy = text.splitlines()
    return name.removesuffix(_HARMLESS), ChangeKind(says, " ".join(remedy), name.endswith(_HARMLESS))


KINDS_TEXT = Path(__file__).with_name("kinds.txt").read_text("utf-8")
KINDS = dict(map(_read, KINDS_TEXT.split("\n\n")))


def items_of(body: Body) -> list[PromptItem]:
    """The items of a body in the order of the prompt; a first message of the role system is the system prompt.

    >>> from minikv_tools.bodies import read_body
    >>> body = read_body({"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "Hi"}]})
    >>> [(item.part, item.name) for item in items_of(body)]
    [('system', 'system'), ('messages', 'user')]
    """
    found = list(body.items)
    turns = _TURN.split(body.text)[:: _TURN.groups + 1] if [item.part for item in found] == ["prompt"] else []
    if len(turns) > 2:
        return [_turn(text) for text in filter(None, turns)]
    for at, item in enumerate(found):
        if item.part == "messages" and item.name in _SYSTEM:
            found[at] = item._replace(part="system")
        elif item.part not in _PARTS:
            break
    return found


def _turn(text: str) -> PromptItem:
    """A message of a prompt that a chat template has rendered."""
    name = _ROLE.findall(text[:64])[0]
    part = "system" if name in _SYSTEM else "messages"
    return PromptItem(part, name, (PromptPiece(Place("prompt"), text),), text)


def change_between(one: Body, two: Body) -> PromptChange:
    """Return the kind of change from the prompt of `one` to that of `two`.

    >>> from minikv_tools.bodies import read_body
    >>> change_between(read_body({"prompt": "It is 14:05."}), read_body({"prompt": "It is 14:06."}))
    PromptChange(kind='clock', detail='')
    """
    found = beside_change(one, two) if one.text == two.text else _change(one, two)
    if found.kind == "question" and (kind := late_text(items_of(one)[-1].text, items_of(two)[-1].text)):
        found = PromptChange(kind)
    if found.kind == "order" and keys_moved(one.text, two.text):
        found = PromptChange("keys reordered")
    stored = stored_history(two.settings)
    if stored and (KINDS[found.kind].harmless or found.kind in _HISTORY):
        return PromptChange("history at the server", stored)
    return found


def _change(one: Body, two: Body) -> PromptChange:
    if two.text.startswith(one.text):
        return PromptChange("extended")
    if one.text.startswith(two.text):
        return PromptChange("shortened")
    raw = one.pieces[0].place.part == two.pieces[0].place.part == "prompt"
    marks = [mark for body in (one, two) if (mark := _TURN.search(body.text))] if raw else []
    if len({mark.lastindex for mark in marks}) == 2:
        return PromptChange("chat template changed", " to ".join(mark[mark.lastindex or 0] for mark in marks))
    return items_change(items_of(one), items_of(two))


def items_change(one: Items, two: Items) -> PromptChange:
    """The kind of change between two prompts, of which none continues the other, from their items.

    >>> from minikv_tools.bodies import read_body
    >>> items_change(*(items_of(read_body({"prompt": f"It is 14:0{n}."})) for n in (5, 6))).kind
    'clock'
    """
    left, right = apart(one, two)
    parts = {left[0].part, right[0].part}
    begun = [item.part for item in one[: -len(left)]]
    for part in _PARTS:
        if part in parts:
            return _of_part(part, left, right, part in begun)
    if parts == {"prompt"}:
        return prompt_change(left[0].text, right[0].text)
    return history_change(left, right, "messages" in begun)


def apart(one: Items, two: Items) -> Sides:
    """Two lists of items, each from the first that differs.

    >>> a, b, c = (PromptItem("messages", "user", (), text) for text in "abc")
    >>> [[item.text for item in items] for items in apart([a, b], [a, c, b])]
    [['b'], ['c', 'b']]
    """
    same = common_run([item.text for item in one], [item.text for item in two])
    return one[same:], two[same:]


def beside_change(one: Body, two: Body) -> PromptChange:
    """The change outside of two prompts: of the cache they belong to, of a setting that templates read, or of others.

    >>> from minikv_tools.bodies import read_body
    >>> beside_change(*(read_body({"prompt": "Hi", "model": model, "temperature": 0}) for model in "ab"))
    PromptChange(kind='namespace', detail='model (a to b)')
    """
    for before, after, kind in ((one.namespace, two.namespace, "namespace"), (one.settings, two.settings, "settings")):
        changed = changed_settings(before, after)
        templated = [says for name, says in changed.items() if _TEMPLATED.fullmatch(name)]
        if key := changed.get("prompt_cache_key"):
            return PromptChange("cache key changed", key)
        if changed:
            kind = "template settings" if templated else kind
            return PromptChange(kind, ", ".join((templated or [*changed.values()])[:6]))
    return PromptChange("nothing")


def changed_settings(one: JsonObject, two: JsonObject) -> dict[str, str]:
    """The settings that differ, sorted by name: of each, what `changed_setting` says.

    >>> changed_settings({"n": 1, "seed": 7}, {"n": 2, "seed": 7, "top_p": 0.5})
    {'n': 'n (1 to 2)', 'top_p': 'top_p (null to 0.5)'}
    """
    return {name: changed_setting(name, one.get(name), two.get(name)) for name in _differing(one, two)}


def _differing(one: JsonObject, two: JsonObject) -> list[str]:
    return sorted((name for name in one.keys() | two.keys() if one.get(name) != two.get(name)), key=str)


def changed_setting(name: str, one: Any, two: Any) -> str:
    """The name of a setting, or of the field in it that differs, with its values if they are short.

    >>> changed_setting("reasoning", {"effort": "low", "summary": "auto"}, {"effort": "high", "summary": "auto"})
    'reasoning.effort (low to high)'
    """
    while isinstance(one, Mapping) and isinstance(two, Mapping):
        keys = _differing(one, two)
        if len(keys) > 1:
            break
        name, one, two = f"{name}.{keys[0]}", one.get(keys[0]), two.get(keys[0])
    values = [value if isinstance(value, str) else json.dumps(value) for value in (one, two)]
    said = f" ({' to '.join(map(bounded_name, values))})" * (max(map(len, values)) < _SHORT)
    return bounded_name(name) + said


def _of_part(part: str, left: Items, right: Items, begun: bool) -> PromptChange:
    """Return the change in the tools, the schema or the system prompt."""
    if part == "tools":
        return tools_change(*([item for item in items if item.part == part] for items in (left, right)))
    one, two = left[0], right[0]
    if changed := role_change(one, two):
        return changed
    edited = "system edited" if part == "system" else "schema edited"
    if one.part != two.part:
        if begun:
            return PromptChange("message inserted" if two.part == part else "message removed")
        return PromptChange("system added" if part == "system" else edited)
    pairs = zip(one.pieces, two.pieces)
    before, after = next((pair for pair in pairs if pair[0].text != pair[1].text), (one, two))
    return _text_kind(before.text, after.text, edited)


def _text_kind(one: str, two: str, edited: str) -> PromptChange:
    """The change from one text to the other; a number that explains only a part of it is an edit."""
    found = text_change(one, two)
    return found if found and (found.whole or found.kind != "number") else PromptChange(edited)


def tools_change(one: Items, two: Items) -> PromptChange:
    """The kind of change between two lists of tools, and the tools that it is about.

    >>> a, b = PromptItem("tools", "a", (), "A"), PromptItem("tools", "b", (), "B")
    >>> print(*tools_change([a, b], [b, a]), *tools_change([a], [a, b]), sep="; ")
    tools reordered; b, a; tool added; b
    """
    names, others = ([tool.name for tool in tools] for tools in (one, two))
    gone, come = Counter(names) - Counter(others), Counter(others) - Counter(names)
    if gone or come:
        kind = "tools changed" if gone and come else "tool removed" if gone else "tool added"
        return PromptChange(kind, _names(come or gone))
    before, after = ([json.dumps(unfolded(tool.text), sort_keys=True) for tool in tools] for tools in (one, two))
    if names != others or (before != after and sorted(before) == sorted(after)):
        return PromptChange("tools reordered", _names(others))
    left, right = apart(one, two)
    kind, name = _text_kind(left[0].text, right[0].text, "tool edited").kind, bounded_name(left[0].name)
    return PromptChange("tools reordered" if kind == "order" and not name else kind, name)  # Gemini's are in one


def _names(names: Iterable[str]) -> str:
    found = [bounded_name(name) for name in names if name]
    return ", ".join(found[:4]) + f" and {len(found) - 4} more" * (len(found) > 4)
