"""The changes between two histories: the messages from the first different one on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

from minikv.traffic.bodies import PromptPiece, bounded_name
from minikv.traffic.why.texts import PromptChange, masked, shared_length, text_change, volatile_at

_ALIKE = 0.3  # of a message's text that must be shared for it to be an edit and not another message
PLACED = {"tool result edited": "in the result of a tool", "answer edited": "in an answer of the model"}
_REASONING = ("reasoning_content", "reasoning", "thinking")
_SUMMARY = re.compile("(?i:summar|conversation so far|compact|recap|r[eé]sum|zusammenfass|riassunto|摘要|总结|要約)")
_THOUGHT = re.compile(r"<think>(?:.*?</think>)?\s*", re.DOTALL)
_CALL_ID = re.compile(r'"(?:id|call_id)": "[^"]*"')
_LABEL = re.compile(r"(?i:\b(?:current|now|timestamp)\b[ \w]{0,12}[:=>(\[]? ?[\w:., -]{0,24}$)")
_SENTENCE, _TELLING = re.compile(r"(?<=[.\n])\s*"), 16
_CALLED = re.compile(r'"(?:id|call_id|tool_call_id)": ?"[\w-]*$')  # of a call of a tool in a rendered prompt
_END = "<|im_end|>\n"
_MARKERS = "<|im_start|>user\n<|im_end|>\n"  # which every two messages share
_TEMPLATES = {"ChatML": "<|im_start|>", "Llama 3": "<|start_header_id|>", "Llama 2 or Mistral": "[INST]",
              "Gemma": "<start_of_turn>", "Phi or Zephyr": "<|user|>", "DeepSeek": "<｜User｜>",
              "Harmony": "<|start|>", "Command": "<|START_OF_TURN_TOKEN|>"}  # fmt: skip
_PROBE = 64  # characters by which a text is found again where it moved to
_MOST = 4096  # messages that are looked through for one that moved


class PromptItem(NamedTuple):
    """A tool, a system prompt or a message: the part of the body that it is in, its name, its pieces, its text."""

    part: str
    name: str
    pieces: tuple[PromptPiece, ...]
    text: str


def history_change(one: Sequence[PromptItem], two: Sequence[PromptItem], begun: bool = False) -> PromptChange:
    """The kind of change between two histories that differ from their first messages on, and more about it.

    `begun`: there are messages before them, which are the same.

    >>> a, b, c = (PromptItem("messages", "user", (), text) for text in "abc")
    >>> print(*history_change([a, b, c], [b, c]), *history_change([a, b], [c, a, b]), sep=", ")
    history truncated, 1 message dropped, message inserted, 1 message
    """
    if one and two and (one[0].name == "reasoning") != (two[0].name == "reasoning"):
        return PromptChange("reasoning removed")
    before, after = ([item.text.removesuffix(_END) for item in items] for items in (one, two))  # the last may have none
    if moved := _moved(before, after, begun):
        return moved
    last = len(one) == len(two) == 1
    change = _message_change(one[0], two[0], last) if one and two else PromptChange("message edited")
    edited = change.kind in ("message edited", "text appended", "text cut off", *PLACED)
    if not one or not two or (last and edited):
        answers = all(items[0].name == "assistant" for items in (one, two) if items)
        return PromptChange("prefill" if answers else "question")
    if change.kind == "message edited" and not _alike(before, after):
        return PromptChange("conversation")
    return change


def _run(one: Sequence[str], two: Sequence[str]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, two)))


def _messages(count: int, what: str = "") -> str:
    return f"{count} message{'' if count == 1 else 's'}{what}"


def _moved(before: list[str], after: list[str], begun: bool) -> PromptChange | None:
    """Messages that were dropped, summarized, inserted, or put into another order."""
    if before and sorted(before) == sorted(after[: len(before)]):
        return PromptChange("messages reordered")
    gone = ("message removed" if begun else "history truncated", " dropped"), ("history summarized", " replaced")
    for begin, (kind, what) in enumerate(gone):
        target = after[begin] if begin < len(after) else None
        for dropped in range(1 + begin, min(len(before), _MOST)):
            same = _run(before[dropped:], after[begin:]) if before[dropped] == target else 0
            if same and dropped + same >= len(before) - (same > 1):  # the last question may be another one
                return PromptChange(kind, _messages(dropped, what))
    if (
        len(after) < len(before)
        and _SUMMARY.search(after[0][: 2 * _PROBE])
        and not _SUMMARY.search(before[0][: 2 * _PROBE])
    ):
        return PromptChange("history summarized", _messages(len(before), " replaced"))
    for new in range(1, min(len(after), _MOST) if before else 0):
        if after[new] == before[0] and _run(before, after[new:]) == min(len(before), len(after) - new):
            return PromptChange("message inserted", _messages(new))
    return None


def _message_change(one: PromptItem, two: PromptItem, last: bool) -> PromptChange:
    """Return the change from one message to the other, judged by the first pieces that differ."""
    before, after = [[piece.text for piece in item.pieces] for item in (one, two)]
    if one.name != two.name:
        same = before[1:-1] == after[1:-1] and len(before) > 2
        return role_change(one, two) if same else PromptChange("message edited")
    at = _run(before, after)
    if one.name == "user" and not last and (kind := _parts_change(before[at:], after[at:])):
        return PromptChange(kind)
    if at == len(before) or at == len(after):
        return PromptChange("message edited")
    left, right = one.pieces[at], two.pieces[at]
    field, other = left.place.field, right.place.field
    if kind := _of_parts(before, after, field) or _of_field(field, other) or _of_call(left.text, right.text):
        signed = kind == "image changed" and "?" in left.text and left.text.split("?")[0] == right.text.split("?")[0]
        return PromptChange("signed URL" if signed else kind)
    found = text_change(left.text, right.text) if field == other else None
    kind = _edited(one.name, field)
    if found and (
        _decides_last(found, left.text, right.text) if last else found.whole or similar(left.text, right.text)
    ):
        where = "" if last else PLACED.get(kind, "")
        return PromptChange(found.kind, f"{where} {found.detail}".strip())
    return PromptChange(_ends(left.text, right.text, kind) if kind == "message edited" and field == other else kind)


def role_change(one: PromptItem, two: PromptItem) -> PromptChange:
    """The same text under another role."""
    return PromptChange("role changed", f"{bounded_name(one.name)} to {bounded_name(two.name)}")


def _parts_change(before: list[str], after: list[str]) -> str | None:
    """Whole parts of a message that came or went; the message is given from the first piece on that differs."""
    if len(before) < len(after) and after[len(after) - len(before) :] == before:
        return "text appended" if len(before) <= 1 else "text inserted"
    if len(after) < len(before) and before[len(before) - len(after) :] == after:
        return "text cut off" if len(after) <= 1 else "text removed"
    return None


def _of_field(one: str, two: str) -> str | None:
    """Return the change that the field shows by itself: missing reasoning, another image."""
    if one != two:
        gone = any(name in field.split(".") for name in _REASONING for field in (one, two))
        return "reasoning removed" if gone else None
    if one.endswith(("tool_call_id", "tool_use_id", "call_id")):
        return "tool call id"
    return "image changed" if "image" in one.rsplit(".", 1)[-1] else None


def _of_parts(before: list[str], after: list[str], field: str) -> str | None:
    """Return whether two messages have the same parts in another order, or are one with thoughts and one without."""
    if sorted(before) == sorted(after):
        return "messages reordered" if field.endswith("tool_use_id") else "order"
    one, two = "".join(before), "".join(after)
    left, right = _THOUGHT.sub("", one), _THOUGHT.sub("", two)
    return "reasoning removed" if right.startswith(left) and (left == one) != (right == two) else None


def _of_call(one: str, two: str) -> str | None:
    """Return whether two calls of tools, as JSON, differ in their ids only."""
    same = ('"function"' in one or '"tool_use"' in one) and _CALL_ID.sub("", one) == _CALL_ID.sub("", two)
    return "tool call id" if same else None


def _ends(one: str, two: str, edited: str) -> str:
    """Text that was added at the end of a message, or is gone from there; else the message was `edited`."""
    return "text appended" if two.startswith(one) else "text cut off" if one.startswith(two) else edited


def _edited(role: str, field: str) -> str:
    if role in ("tool", "function") or ("content[" in field and field.endswith(".content")):
        return "tool result edited"
    return "answer edited" if role == "assistant" else "message edited"


def _decides_last(found: PromptChange, one: str, two: str) -> bool:
    """Whether two last messages differ by this change and are one message, in which more comes after a clock or an id.

    A number may well be another question, and so may a date at the end, or a few words in another order.
    """
    at = shared_length(one, two)
    if found.kind == "order":
        return len(one) - at > _PROBE
    asked = found.kind in ("clock", "random id") and shared_length(one[::-1], two[::-1]) < _PROBE
    return found.whole and found.kind != "number" and not (asked and not _LABEL.search(one[:at][-_PROBE:]))


def late_text(one: str, two: str) -> str | None:
    """The kind of change that hides text of a last message that both have; `None` if that is not most of it.

    >>> late_text("Who?\\nA tree holds the prefixes of all prompts of a day, and their pages too.",
    ...           "When?\\nA tree holds the prefixes of all prompts of a day, and their pages too.")
    'shared text last'
    """
    at = shared_length(one, two)
    sides = [[part.lstrip("0123456789[]().- ") for part in _SENTENCE.split(text[at:])] for text in (one, two)]
    both = {part for part in sides[0] if len(part) >= _TELLING} & {*sides[1]}
    if sum(map(len, both)) < max(_PROBE, (len(two) - at) / 2):
        return None
    if [part for part in sides[0] if part in both] != [part for part in sides[1] if part in both]:
        return "order"
    kind, rest = volatile_at(one, two, at), (masked(text[at:], "number") for text in (one, two))
    decides = kind in ("clock", "random id") or (kind == "number" and shared_length(*rest) > _PROBE)
    return kind if decides else "shared text last" if at < len(two) / 2 else None


def _alike(before: Sequence[str], after: Sequence[str]) -> bool:
    """Return whether two histories are versions of one: their first messages are alike, or a later one is in both."""
    return similar(before[0], after[0], len(_MARKERS)) or bool(set(before[1:]) & set(after[1:]))


def similar(one: str, two: str, frame: int = 0) -> bool:
    """Return whether two texts share so much at their beginnings and ends that one is a version of the other.

    `frame` characters are those that every two of them share.

    >>> similar("Write a test for this file.", "Write a test for that file."), similar("Why?", "Write it.")
    (True, False)
    """
    shared = shared_length(one, two)
    behind = shared_length(one[shared:][::-1], two[shared:][::-1])
    return shared + behind - frame > _ALIKE * (max(len(one), len(two)) - frame)


def template_change(one: str, two: str) -> PromptChange | None:
    """The change of the chat template between two rendered prompts, if they have marks of different ones.

    >>> template_change("[INST] Hi [/INST]", "<|im_start|>user\\nHi").detail
    'Llama 2 or Mistral to ChatML'
    """
    one_style, two_style = ({name for name, mark in _TEMPLATES.items() if mark in text} for text in (one, two))
    changed = one_style and two_style and not one_style & two_style
    return PromptChange("chat template changed", f"{min(one_style)} to {min(two_style)}") if changed else None


def prompt_change(one: str, two: str) -> PromptChange:
    """The kind of change between two prompts of plain text, neither of which continues the other.

    >>> prompt_change("Rules. Be kind. Question 1", "Rules. Be kind. Answer me").kind
    'question'
    >>> prompt_change("abcXdef", "abcdef").kind
    'text removed'
    """
    found, at = text_change(one, two), shared_length(one, two)
    if found and (found.whole or similar(one, two)):
        called = found.kind == "random id" and _CALLED.search(one[max(0, at - _PROBE) : at])
        return PromptChange("tool call id") if called else found
    for kind, whole, part in (("text removed", one, two), ("text inserted", two, one)):
        probe = part[at : at + _PROBE]
        ends = len(whole) > len(part) and whole.endswith(part[at:])
        if probe and (ends or (len(probe) == _PROBE and probe in whole[at:])):
            return PromptChange(kind)
    if shared_length(one[at:][::-1], two[at:][::-1]) > _PROBE:
        return PromptChange("text edited")
    return PromptChange("question" if at > _ALIKE * min(len(one), len(two)) else "conversation")
