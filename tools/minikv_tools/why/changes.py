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
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from minikv_tools.bodies import Body
from minikv_tools.formats import stored_history
from minikv_tools.pieces import Place, PromptItem, PromptPiece, bounded_name
from minikv_tools.why.histories import history_change, late_text, prompt_change, role_change
from minikv_tools.why.texts import PromptChange, common_run, keys_moved, text_change

_MARKS = (
    r"<\|im_start\|>", r"<\|start_header_id\|>", r"<\|start\|>", "<start_of_turn>", r"\[INST\]",
    "<｜(?:User|Assistant)｜>", r"<\|(?:system|user|assistant|tool|observation)\|>", r"<\|START_OF_TURN_TOKEN\|>",
)  # fmt: skip  # before a message, in the templates of model families
_MARK, _TURN = re.compile("|".join(f"({mark})" for mark in _MARKS)), re.compile(f"(?={'|'.join(_MARKS)})")
_ROLE = re.compile(r"(?:<\|?(?:im_)?start\w*\|?>)?\W*(\w*)")  # after the mark, or in it
_HARMLESS = " (harmless)"
_SHORT = 64  # characters of a setting's value that are shown
_SYSTEM = ("system", "developer")
_HISTORY = {"history truncated", "history summarized", "message inserted", "message removed", "message edited",
            "messages reordered", "question", "conversation", "extended", "shortened", "nothing",
            "settings"}  # fmt: skip
_TEMPLATED = {
    "add_generation_prompt", "chat_template", "chat_template_kwargs", "citations", "continue_final_message",
    "documents", "enable_thinking", "output_config", "reasoning", "reasoning_effort", "speed", "text", "thinking",
    "tool_choice", "verbosity",
}  # fmt: skip  # settings that templates and servers write into the prompt, or choose its template by
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
    if len(found) == 1 and found[0].part == "prompt" and len(turns := _TURN.split(body.text)) > 2:
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
    return PromptChange("history at the server", stored) if stored and found.kind in _HISTORY else found


def _change(one: Body, two: Body) -> PromptChange:
    if two.text.startswith(one.text):
        return PromptChange("extended")
    if one.text.startswith(two.text):
        return PromptChange("shortened")
    raw = one.pieces[0].place.part == two.pieces[0].place.part == "prompt"
    marks = [mark for body in (one, two) if (mark := _MARK.search(body.text))] if raw else []
    if len({mark.lastindex for mark in marks}) == 2:
        return PromptChange("chat template changed", f"{marks[0][0]} to {marks[1][0]}")
    return items_change(items_of(one), items_of(two))


def items_change(one: Sequence[PromptItem], two: Sequence[PromptItem]) -> PromptChange:
    """The kind of change between two prompts, of which none continues the other, from their items.

    >>> from minikv_tools.bodies import read_body
    >>> items_change(*(items_of(read_body({"prompt": f"It is 14:0{n}."})) for n in (5, 6))).kind
    'clock'
    """
    same = common_run([item.text for item in one], [item.text for item in two])
    left, right = one[same:], two[same:]
    parts = {left[0].part, right[0].part}
    begun = [item.part for item in one[:same]]
    for part in ("tools", "response_format", "system"):
        if part in parts:
            return _of_part(part, left, right, part in begun)
    if parts == {"prompt"}:
        return prompt_change(left[0].text, right[0].text)
    return history_change(left, right, "messages" in begun)


def beside_change(one: Body, two: Body) -> PromptChange:
    """The change outside of two prompts: of the cache they belong to, of a setting that templates read, or of others.

    >>> from minikv_tools.bodies import read_body
    >>> beside_change(*(read_body({"prompt": "Hi", "model": model, "temperature": 0}) for model in "ab"))
    PromptChange(kind='namespace', detail='model (a to b)')
    """
    for before, after, kind in ((one.namespace, two.namespace, "namespace"), (one.settings, two.settings, "settings")):
        names = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
        if "prompt_cache_key" in names:
            kind, names = "cache key changed", ["prompt_cache_key"]
        elif kind == "settings" and _TEMPLATED.intersection(names):
            kind, names = "template settings", sorted(_TEMPLATED.intersection(names))
        if names:
            return PromptChange(
                kind, ", ".join(changed_setting(name, before.get(name), after.get(name)) for name in names[:6])
            )
    return PromptChange("nothing")


def changed_setting(name: str, one: Any, two: Any) -> str:
    """The name of a setting, or of the field in it that differs, with its values if they are short.

    >>> changed_setting("reasoning", {"effort": "low", "summary": "auto"}, {"effort": "high", "summary": "auto"})
    'reasoning.effort (low to high)'
    """
    if name == "citations":  # they are somewhere in the messages
        return f"{name} of {(one or two)[0]} ({'on to off' if one else 'off to on'})"
    while isinstance(one, Mapping) and isinstance(two, Mapping):
        keys = [str(key) for key in one.keys() | two.keys() if one.get(key) != two.get(key)]
        if len(keys) > 1:
            break
        name, one, two = f"{name}.{keys[0]}", one.get(keys[0]), two.get(keys[0])
    values = [value if isinstance(value, str) else json.dumps(value) for value in (one, two)]
    return bounded_name(name) + f" ({values[0]} to {values[1]})" * (max(map(len, values)) < _SHORT)


def _of_part(part: str, left: Sequence[PromptItem], right: Sequence[PromptItem], begun: bool) -> PromptChange:
    """Return the change in the tools, the schema or the system prompt."""
    if part == "tools":
        return tools_change(*([item for item in items if item.part == part] for items in (left, right)))
    one, two = left[0], right[0]
    if part == "system" and (changed := role_change(one, two)):
        return changed
    if one.part != two.part:
        if begun and part == "system":
            return PromptChange("message inserted" if two.part == part else "message removed")
        return PromptChange("system added" if part == "system" else "schema edited")
    pairs = zip(one.pieces, two.pieces)
    before, after = next((pair for pair in pairs if pair[0].text != pair[1].text), (one, two))
    return _text_kind(before.text, after.text, "system edited" if part == "system" else "schema edited")


def _text_kind(one: str, two: str, edited: str) -> PromptChange:
    """The change from one text to the other; a number that explains only a part of it is an edit."""
    found = text_change(one, two)
    return found if found and (found.whole or found.kind != "number") else PromptChange(edited)


def tools_change(one: Sequence[PromptItem], two: Sequence[PromptItem]) -> PromptChange:
    """The kind of change between two lists of tools, and the tools that it is about.

    >>> a, b = PromptItem("tools", "a", (), "A"), PromptItem("tools", "b", (), "B")
    >>> print(*tools_change([a, b], [b, a]), *tools_change([a], [a, b]), sep="; ")
    tools reordered; b, a; tool added; b
    """
    plain = [[_plain(tool.text) for tool in tools] for tools in (one, two)]
    names = [[tool.name for tool in tools] for tools in (one, two)]
    gone, come = Counter(names[0]) - Counter(names[1]), Counter(names[1]) - Counter(names[0])
    if sorted(plain[0]) == sorted(plain[1]) and plain[0] != plain[1]:
        return PromptChange("tools reordered", _names(names[1]))
    if gone or come:
        kind = "tools changed" if gone and come else "tool removed" if gone else "tool added"
        return PromptChange(kind, _names(come or gone))
    if names[0] != names[1]:
        return PromptChange("tools reordered", _names(names[1]))
    before, after = next(pair for pair in zip(one, two) if pair[0].text != pair[1].text)
    return PromptChange(_text_kind(before.text, after.text, "tool edited").kind, bounded_name(before.name))


def _plain(text: str) -> str:
    """The text of a tool with its keys sorted, to recognize it in any position."""
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except ValueError:
        return text


def _names(names: Iterable[str]) -> str:
    found = [bounded_name(name) for name in names if name]
    return ", ".join(found[:4]) + (f" and {len(found) - 4} more" if len(found) > 4 else "")
