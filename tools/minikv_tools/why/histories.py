"""The changes between two histories: the messages from the first different one on."""

from __future__ import annotations

import re

from minikv_tools.pieces import Items, PromptItem, bounded_name
from minikv_tools.report import many
from minikv_tools.why.texts import NORMAL, PromptChange, common_run, masked, shared_length, text_change, volatile_at

_ALIKE = 0.3  # of a message's text that must be shared for it to be an edit and not another message
PLACED = {"tool result edited": "in a tool result", "answer edited": "in an answer from the model"}
_REASONING = {"reasoning_content", "reasoning", "thinking"}
_SUMMARY = re.compile("(?i:summar|conversation so far|compact|recap|r[eé]sum|zusammenfass|riassunto|摘要|总结|要約)")
_THOUGHT = re.compile(r"<think>(?:.*?</think>)?\s*", re.DOTALL)
_CALL_ID = re.compile(r'"(?:id|call_id|toolUseId)": "[^"]*"')
_CALL = re.compile('"(?:function|tool_use|toolUse)"')
_IMAGE = re.compile(r"(?:image|inline_?[Dd]ata|file_?[Dd]ata)[^.]*$")
_LABEL = re.compile(r"(?i:\b(?:current|now|timestamp)\b[ \w]{0,12}[:=>(\[]? ?[\w:., -]{0,24}$)")
_SENTENCE, _TELLING = re.compile(r"(?<=[.!?\n。！？：])\s*|(?<=: )"), 16  # bytes
_CALLED = re.compile(r'"(?:id|call_id|tool_call_id)": ?"[\w-]*$')  # of a call of a tool in a rendered prompt
_END = "<|im_end|>\n"
_MARKERS = len("<|im_start|>user\n<|im_end|>\n")  # characters which every two messages share
_INDEX = re.compile(r"\[\d+\](?:\.text)?")  # of a part: a text may come as it is, or as a list of parts
_PROBE = 64  # characters by which a text is found again where it moved to
_MOST = 4096  # messages that are looked through for one that moved


def normal_item(item: PromptItem, kind: str) -> PromptItem:
    """An item without what a change of `kind` changes, such as its line ends.

    >>> from minikv_tools.pieces import Place, PromptPiece
    >>> item = PromptItem("prompt", "", (PromptPiece(Place("prompt"), "a\\r\\nb"),), "a\\r\\nb")
    >>> normal_item(item, "line ends").text
    'a\\nb'
    """
    pieces = [piece._replace(text=NORMAL[kind](piece.text)) for piece in item.pieces]
    return item._replace(pieces=tuple(pieces), text="".join(piece.text for piece in pieces))


def history_change(one: Items, two: Items, begun: bool = False) -> PromptChange:
    """The kind of change between two histories that differ from their first messages on, and more about it.

    `begun`: there are messages before them, which are the same.

    >>> a, b, c = (PromptItem("messages", "user", (), text) for text in "abc")
    >>> print(*history_change([a, b, c], [b, c]), *history_change([a, b], [c, a, b]), sep=", ")
    history truncated, 1 message dropped, message inserted, 1 message
    """
    if (one[0].name == "reasoning") != (two[0].name == "reasoning"):
        return PromptChange("reasoning removed")
    before, after = ([item.text.removesuffix(_END) for item in items] for items in (one, two))  # the last may have none
    if moved := _moved(before, after, begun) or role_change(one[0], two[0]):
        return moved
    last = len(one) == len(two) == 1
    change = _message_change(one[0], two[0], last)
    if last and change.kind in ("message edited", "text appended", "text cut off", *PLACED):
        return PromptChange("question")
    alike = similar(before[0], after[0], _MARKERS) or not {*before[1:]}.isdisjoint(after[1:])
    return change if alike or change.kind != "message edited" else PromptChange("conversation")


def _moved(before: list[str], after: list[str], begun: bool) -> PromptChange | None:
    """Messages that were dropped, summarized, inserted, or put into another order."""
    if sorted(before) == sorted(after[: len(before)]):
        return PromptChange("messages reordered")
    dropped = "message removed" if begun else "history truncated"
    kinds = [(n, 0, dropped, " dropped") for n in range(1, len(before[:_MOST]))]
    kinds += [(n, 1, "history summarized", " replaced") for n in range(2, len(before[:_MOST]))]
    kinds += [(0, n, "message inserted", "") for n in range(1, len(after[:_MOST]))]
    for gone, new, kind, what in kinds:
        if before[gone : gone + 1] == after[new : new + 1]:
            same = common_run(before[gone:], after[new:])
            if same >= min(len(before) - gone, len(after) - new) - (same > 1):  # the last question may be another one
                return PromptChange(kind, f"{many(gone or new, 'message')}{what}")
    summary, whole = (_SUMMARY.search(texts[0][: 2 * _PROBE]) for texts in (after, before))
    if len(after) < len(before) and summary and not whole:
        return PromptChange("history summarized", f"{len(before)} messages replaced")
    return None


def role_change(one: PromptItem, two: PromptItem) -> PromptChange | None:
    """The change to another role, if two messages are one text, or nearly.

    >>> role_change(*(PromptItem("messages", role, (), f"{role}: Be brief and kind.") for role in ("system", "user")))
    PromptChange(kind='role changed', detail='system to user')
    """
    before, after = (item.text.replace(item.name, "", 1) for item in (one, two))
    if one.name == two.name or not (before == after or similar(before, after, _MARKERS)):
        return None
    return PromptChange("role changed", f"{bounded_name(one.name)} to {bounded_name(two.name)}")


def _message_change(one: PromptItem, two: PromptItem, last: bool) -> PromptChange:
    """Return the change from one message to the other, judged by the first pieces that differ."""
    if one.name != two.name:
        return PromptChange("message edited")
    before, after = ([*(piece.text for piece in item.pieces), ""] for item in (one, two))
    at = common_run(before, after)
    left, right = before[at], after[at]
    fields = [_INDEX.sub("", item.pieces[at].place.field) if at < len(item.pieces) else "" for item in (one, two)]
    called = _CALL.search(left) and _CALL_ID.sub("", left) == _CALL_ID.sub("", right)  # but for the ids
    if kind := _of_parts(before, after, fields) or "tool call id" * bool(called):
        signed = kind == "image changed" and left.split("?")[0] == right.split("?")[0]
        return PromptChange("signed URL" if signed else kind)
    found, edited = text_change(left, right) if fields[0] == fields[1] else None, edited_kind(one.name, *fields)
    if found and (_decides_last(found, left, right) if last else found.whole or similar(left, right)):
        where = "" if last else PLACED.get(edited, "")
        return PromptChange(found.kind, f"{where} {found.detail}".strip())
    if edited == "message edited":
        for part, whole, kind in ((left, right, "text appended"), (right, left, "text cut off")):
            if part == _END or whole.startswith(part):
                return PromptChange(kind)
    return PromptChange(edited)


def _of_parts(before: list[str], after: list[str], fields: list[str]) -> str | None:
    """Return what the parts of two messages show by themselves: another order, thoughts in one of them, an image."""
    if sorted(before) == sorted(after):
        return "messages reordered" if fields[0].endswith(("tool_use_id", "content.content")) else "order"
    if fields[0] != fields[1]:
        return "reasoning removed" if _REASONING.intersection(".".join(fields).split(".")) else None
    if fields[0].endswith(("tool_use_id", "call_id")):
        return "tool call id"
    if _IMAGE.search(fields[0]):
        return "image changed"
    one, two = "".join(before), "".join(after)
    left, right = _THOUGHT.sub("", one), _THOUGHT.sub("", two)
    return "reasoning removed" if right.startswith(left) and (left == one) != (right == two) else None


def edited_kind(role: str, *fields: str) -> str:
    """The kind of an edit in a message of a role, in these fields.

    >>> edited_kind("tool", "content"), edited_kind("user", "content[0].content")
    ('tool result edited', 'tool result edited')
    >>> edited_kind("user", "content[0].toolResult.content[0].text")
    'tool result edited'
    """
    said = " ".join(_INDEX.sub("", field) for field in fields)
    if role in ("tool", "function") or "t.content" in said:  # content.content, and Bedrock's toolResult.content
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
    begin = at - len(_SENTENCE.split(one[:at])[-1])  # of the sentence in which they part
    sides = (_SENTENCE.split(text[begin:]) for text in (one, two))
    left, right = ([part.lstrip("0123456789[]().- ") for part in side] for side in sides)  # without list numbers
    both = {part for part in left if _size(part) >= _TELLING}.intersection(right)
    if sum(map(_size, both)) < max(_PROBE, _size(two[at:]) / 2):
        return None
    if [part for part in left if part in both] != [part for part in right if part in both]:
        return "order"
    kind = volatile_at(one, two, at)
    many_follow = kind == "number" and shared_length(masked(one[at:], kind), masked(two[at:], kind)) > _PROBE
    if many_follow or kind in ("clock", "random id"):
        return kind
    return "shared text last" if at < len(two) / 2 else None


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def similar(one: str, two: str, frame: int = 0) -> bool:
    """Return whether two texts share so much at their beginnings and ends that one is a version of the other.

    `frame` characters are those that every two of them share.

    >>> similar("Write a test for this file.", "Write a test for that file."), similar("Why?", "Write it.")
    (True, False)
    """
    shared = shared_length(one, two)
    behind = shared_length(one[shared:][::-1], two[shared:][::-1])
    return shared + behind - frame > _ALIKE * (max(len(one), len(two)) - frame)


def prompt_change(one: str, two: str) -> PromptChange:
    """The kind of change between two prompts of plain text, neither of which continues the other.

    >>> prompt_change("Rules. Be kind. Question 1", "Rules. Be kind. Answer me").kind
    'question'
    >>> prompt_change("abcXdef", "abcdef").kind
    'text edited'
    """
    found, at = text_change(one, two), shared_length(one, two)
    if found and (found.whole or similar(one, two)):
        called = found.kind == "random id" and _CALLED.search(one[max(0, at - _PROBE) : at])
        return PromptChange("tool call id") if called else found
    behind, least = shared_length(one[at:][::-1], two[at:][::-1]), min(len(one), len(two))
    moved = any(
        side[at : at + _PROBE] in other[at:] for side, other in ((one, two), (two, one)) if len(side) > at + _PROBE
    )
    if moved or behind > _PROBE or at + behind == least:
        return PromptChange("order" if late_text(one, two) == "order" else "text edited")
    return PromptChange("question" if at > _ALIKE * least else "conversation")
