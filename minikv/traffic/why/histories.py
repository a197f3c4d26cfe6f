"""What changed between two histories: the messages from the first one on that differs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from minikv.traffic.bodies import PromptPiece, bounded_name
from minikv.traffic.why.texts import TextChange, shared_length, text_change

MessagePieces = Sequence[PromptPiece]
_ALIKE = 0.3  # of a message's text that must be shared for it to be an edit and not another message
_REASONING = ("reasoning_content", "reasoning", "thinking")
_ADDED = {"text appended", "text cut off"}
_MARKERS = "<|im_start|>user\n<|im_end|>\n"  # which every two messages share
_PROBE = 64  # characters by which a text is found again where it moved to
_MOST = 4096  # messages that are looked through for one that moved


def history_change(one: Sequence[MessagePieces], two: Sequence[MessagePieces], begun: bool = False) -> tuple[str, str]:
    """The kind of change between two histories that differ from their first messages on, and more about it.

    `begun`: messages stand before them that are the same.

    >>> from minikv.traffic.bodies import Place
    >>> a, b, c = ([PromptPiece(Place("messages", 0, "user", "content"), text)] for text in "abc")
    >>> history_change([a, b, c], [b, c]), history_change([a, b], [c, a, b])
    (('history truncated', '1 message dropped'), ('message inserted', '1 message'))
    """
    before, after = [_text(message) for message in one], [_text(message) for message in two]
    if moved := _moved(before, after, begun):
        return moved
    if not one or not two:
        return ("prefill" if (one or two)[0][0].place.name == "assistant" else "question"), ""
    last = len(one) == len(two) == 1
    kind, detail = _message_change(one[0], two[0], last)
    if last and kind in ("message edited", "answer edited", *_ADDED):
        return ("prefill" if one[0][0].place.name == two[0][0].place.name == "assistant" else "question"), ""
    if kind == "message edited" and not _alike(before, after):
        return "conversation", ""
    return kind, detail


def _text(message: MessagePieces) -> str:
    return "".join(piece.text for piece in message)


def _run(one: Sequence[str], two: Sequence[str]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, two)))


def _moved(before: list[str], after: list[str], begun: bool) -> tuple[str, str] | None:
    """Messages that were dropped, summarized, inserted, or put into another order."""
    if before and after and len(before) == len(after) and sorted(before) == sorted(after):
        return "messages reordered", ""
    for begin, kind in ((0, "message removed" if begun else "history truncated"), (1, "history summarized")):
        target = after[begin] if begin < len(after) else None
        for dropped in range(1 + begin, min(len(before), _MOST)):
            if before[dropped] == target and dropped + _run(before[dropped:], after[begin:]) == len(before):
                return kind, f"{dropped} message{'' if dropped == 1 else 's'} {('dropped', 'replaced')[begin]}"
    for new in range(1, min(len(after), _MOST)):
        if (
            before
            and after[new] == before[0]
            and (run := _run(before, after[new:])) == min(len(before), len(after) - new)
        ):
            return ("message inserted", f"{new} message{'' if new == 1 else 's'}") if run else None
    return None


def _message_change(one: MessagePieces, two: MessagePieces, last: bool) -> tuple[str, str]:
    """What made one message of the other, told from the first pieces that differ."""
    role, other_role = one[0].place.name, two[0].place.name
    if role != other_role:
        same = [piece.text for piece in one[1:-1]] == [piece.text for piece in two[1:-1]]
        return (
            ("role changed", f"{bounded_name(role)} to {bounded_name(other_role)}")
            if same and len(one) > 2
            else ("message edited", "")
        )
    at = _run([piece.text for piece in one], [piece.text for piece in two])
    if role == "user" and not last and (parts := _parts_change(one[at:], two[at:])):
        return parts, ""
    if at == len(one) or at == len(two):
        return "message edited", ""
    left, right = one[at], two[at]
    if special := _of_field(left.place.field, right.place.field):
        return special, ""
    if left.place.field != right.place.field:
        return _edited(role, left.place.field), ""
    found = text_change(left.text, right.text)
    if found and (_decides_last(found) if last else found.whole or similar(left.text, right.text)):
        return found.kind, "" if found.whole else "and more than that"
    kind = _edited(role, left.place.field)
    return (_ends(left.text, right.text) or kind) if kind == "message edited" else kind, ""


def _parts_change(one: MessagePieces, two: MessagePieces) -> str | None:
    """Whole parts of a message that came or went; the message is given from the first piece on that differs."""
    before, after = [piece.text for piece in one], [piece.text for piece in two]
    if len(before) < len(after) and after[len(after) - len(before) :] == before:
        return "text appended" if len(before) <= 1 else "text inserted"
    if len(after) < len(before) and before[len(before) - len(after) :] == after:
        return "text cut off" if len(after) <= 1 else "text removed"
    return None


def _of_field(one: str, two: str) -> str | None:
    """What is told from the field alone: reasoning that is gone, another image."""
    if one != two and any(name in one.split(".") or name in two.split(".") for name in _REASONING):
        return "reasoning removed"
    if one == two and one.endswith(("tool_call_id", "tool_use_id", "call_id")):
        return "random id"
    if "image" in one.rsplit(".", 1)[-1] and one == two:
        return "image changed"
    return None


def _ends(one: str, two: str) -> str | None:
    """Text that was added at the end of a message, or is gone from there."""
    return "text appended" if two.startswith(one) else "text cut off" if one.startswith(two) else None


def _edited(role: str, field: str) -> str:
    if role in ("tool", "function") or ("content[" in field and field.endswith(".content")):
        return "tool result edited"
    return "answer edited" if role == "assistant" else "message edited"


def _decides_last(found: TextChange) -> bool:
    """Whether two last messages differ by this change and are one message: a number may well be another question."""
    return found.whole and found.kind not in ("number", "order")


def _alike(before: Sequence[str], after: Sequence[str]) -> bool:
    """Whether two histories are versions of one: their first messages are alike, or a later one is in both."""
    return similar(before[0], after[0], len(_MARKERS)) or bool(set(before[1:]) & set(after[1:]))


def similar(one: str, two: str, frame: int = 0) -> bool:
    """Whether two texts share so much at their beginnings and ends that one is a version of the other.

    `frame` characters are those that every two of them share.

    >>> similar("Write a test for this file.", "Write a test for that file."), similar("Why?", "Write it.")
    (True, False)
    """
    shared = shared_length(one, two)
    behind = shared_length(one[shared:][::-1], two[shared:][::-1])
    return shared + behind - frame > _ALIKE * (max(len(one), len(two)) - frame)


def prompt_change(one: str, two: str) -> tuple[str, str]:
    """The kind of change between two prompts of plain text, neither of which continues the other.

    >>> prompt_change("Rules. Be kind. Question 1", "Rules. Be kind. Answer me"), prompt_change("abcXdef", "abcdef")
    (('question', ''), ('text removed', ''))
    """
    found, at = text_change(one, two), shared_length(one, two)
    if found and (found.whole or similar(one, two)):
        return found.kind, "" if found.whole else "and more than that"
    for kind, whole, part in (("text removed", one, two), ("text inserted", two, one)):
        probe = part[at : at + _PROBE]
        ends = len(whole) > len(part) and whole.endswith(part[at:])
        if probe and (ends or (len(probe) == _PROBE and whole.find(probe, at) > 0)):
            return kind, ""
    behind = shared_length(one[at:][::-1], two[at:][::-1])
    if behind > _PROBE:
        return "text edited", ""
    return ("question" if at > _ALIKE * min(len(one), len(two)) else "conversation"), ""
