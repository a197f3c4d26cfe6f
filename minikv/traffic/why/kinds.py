"""The kinds of change that break a prefix: what each is called, what it means, and what to do about it."""

from __future__ import annotations

from typing import NamedTuple


class ChangeKind(NamedTuple):
    """One kind of change: a sentence about it, and what to do; `harmless` ones are no fault of the prompt."""

    says: str
    remedy: str
    harmless: bool = False


KINDS = {
    "nothing": ChangeKind(
        "Nothing changed.",
        "Look at the server: capacity, eviction, another replica, a restart.",
        harmless=True,
    ),
    "settings": ChangeKind(
        "Nothing in the prompt changed, only settings beside it.",
        "Settings such as temperature do not matter to a prefix cache. Look at the server: capacity, eviction, "
        "routing.",
        harmless=True,
    ),
    "template settings": ChangeKind(
        "Nothing in the messages changed, but a setting that a server may write into the prompt.",
        "Keep it the same for a whole conversation: a template may write it before all messages (reasoning_effort, "
        "enable_thinking), and an API may keep a cache for each value (tool_choice, thinking).",
    ),
    "namespace": ChangeKind(
        "Nothing in the prompt changed, but the cache is another one.",
        "Requests share keys and values only within one model, one adapter and one salt. Use the same where they may "
        "share.",
    ),
    "extended": ChangeKind(
        "The second prompt continues the first.",
        "Nothing: this is how a prefix is reused.",
        harmless=True,
    ),
    "shortened": ChangeKind(
        "The second prompt is the beginning of the first.",
        "Nothing: a cache by tokens reuses all of it. A model with recurrent state can only go back to a stored state.",
        harmless=True,
    ),
    "question": ChangeKind(
        "The last messages differ; everything before them is shared.",
        "Nothing: this is what differs between requests. What else they share belongs before it.",
        harmless=True,
    ),
    "conversation": ChangeKind(
        "These are two conversations, with the same beginning at most.",
        "Nothing, where they have nothing to do with each other. What both need belongs at the beginning.",
        harmless=True,
    ),
    "prefill": ChangeKind(
        "The answers begun for the model differ; everything before them is shared.",
        "Nothing: only the begun answer is computed again.",
        harmless=True,
    ),
    "clock": ChangeKind(
        "A date or a time changed.",
        "Put it at the end of the last message, or after the part that many requests share, or round it to the day; "
        "a tool can tell the time too.",
    ),
    "random id": ChangeKind(
        "A random id, a hash, an address or a path changed.",
        "Leave it out of the prompt: send it as a header or as metadata, or give the same thing the same id each time.",
    ),
    "number": ChangeKind(
        "A number changed: a counter, a cost, a budget.",
        "Put it at the end of the last message, or after the part that many requests share, or leave it out.",
    ),
    "number format": ChangeKind(
        "The same number is written differently.",
        "Serialize the same way each time, with sorted keys (json.dumps(..., sort_keys=True)) and fixed separators.",
    ),
    "tools reordered": ChangeKind(
        "The same tools come in a different order.",
        "Sort the tools by name before each request; a set has no order.",
    ),
    "tool added": ChangeKind(
        "A tool was added.",
        "Send all tools from the first request on, or add new ones at the end. To switch one off, say so in a message.",
    ),
    "tool removed": ChangeKind(
        "A tool was removed.",
        "Keep all tools in every request, and say in a message or by tool_choice which may be used.",
    ),
    "tools changed": ChangeKind(
        "Other tools are offered.",
        "Keep one list of tools for a whole conversation.",
    ),
    "tool edited": ChangeKind(
        "The definition of a tool changed.",
        "Keep definitions fixed: put no live data into them.",
    ),
    "keys reordered": ChangeKind(
        "The same JSON has its keys in another order.",
        "Serialize the same way each time, with sorted keys (json.dumps(..., sort_keys=True)) and fixed separators.",
    ),
    "JSON rewritten": ChangeKind(
        "The same JSON is written with other spaces or escapes.",
        "Serialize the same way each time, with sorted keys (json.dumps(..., sort_keys=True)) and fixed separators.",
    ),
    "schema edited": ChangeKind(
        "The schema of the output changed.",
        "Use one schema, or ask for its fields in the last message.",
    ),
    "system edited": ChangeKind(
        "The system prompt was edited.",
        "Keep the beginning of the prompt the same, byte for byte, and put what changes after it. Roll out a new "
        "version at once, not request by request.",
    ),
    "system added": ChangeKind(
        "One of the two has a system prompt, the other has none.",
        "Send the system prompt every time.",
    ),
    "role changed": ChangeKind(
        "The same text has another role.",
        "Keep the role that a message was first sent with.",
    ),
    "history truncated": ChangeKind(
        "Old messages were dropped, so all later ones moved up.",
        "Drop rarely and much at once (half of the history), not one message a turn: each time, everything after "
        "them is computed again.",
    ),
    "history summarized": ChangeKind(
        "Old messages were replaced by a shorter text.",
        "Expected at a compaction. Compact rarely, and keep the system prompt and the tools as they are.",
    ),
    "message inserted": ChangeKind(
        "A message was inserted before ones that were already sent.",
        "Append it after the last message instead of putting it between old ones.",
    ),
    "message removed": ChangeKind(
        "An earlier message was left out.",
        "Keep what was sent once; where something must go, drop much at once.",
    ),
    "messages reordered": ChangeKind(
        "The same messages come in a different order.",
        "Keep the order in which they were first sent, or sort them by a fixed key.",
    ),
    "message edited": ChangeKind(
        "An earlier message was edited.",
        "Keep what was sent once; append a correction instead.",
    ),
    "answer edited": ChangeKind(
        "An earlier answer of the model came back changed.",
        "Send the answer back byte for byte as the model wrote it: no trimming, no formatting, no new JSON.",
    ),
    "tool result edited": ChangeKind(
        "The result of an earlier tool call was edited.",
        "Cut a result before it is sent the first time. Clear old results rarely and many at once.",
    ),
    "reasoning removed": ChangeKind(
        "The reasoning of an earlier answer is in one of the two prompts only.",
        "Many templates do this at each new question. Keep it (preserve_thinking and the like), or accept one "
        "recomputed turn.",
    ),
    "text appended": ChangeKind(
        "Text was added at the end of an earlier message.",
        "A reminder belongs in the last message, and must stay there in later requests.",
    ),
    "text cut off": ChangeKind(
        "Text that stood at the end of an earlier message is gone.",
        "What was sent once must stay: keep the reminder in that message, or send it as a message of its own at the "
        "end.",
    ),
    "text inserted": ChangeKind(
        "Text was inserted.",
        "Keep the beginning of the prompt the same, byte for byte, and put what changes after it.",
    ),
    "text removed": ChangeKind(
        "Text was removed.",
        "Keep the beginning of the prompt the same, byte for byte, and put what changes after it.",
    ),
    "text edited": ChangeKind(
        "The text was edited.",
        "Keep the beginning of the prompt the same, byte for byte, and put what changes after it.",
    ),
    "order": ChangeKind(
        "The same words come in a different order.",
        "Sort it before it is written: a set, an unordered map and the results of a search come in any order.",
    ),
    "image changed": ChangeKind(
        "A different image, or the same one encoded again.",
        "Send the same bytes each time (no new encoding, no signed URL that changes), and put images after what is "
        "shared.",
    ),
    "trailing white space": ChangeKind(
        "White space at the end of a line or text differs.",
        "Strip it the same way each time.",
    ),
    "white space": ChangeKind(
        "Only white space differs.",
        "Write the text the same way each time; no new indentation.",
    ),
    "line ends": ChangeKind(
        "Only line ends differ (CRLF and LF).",
        "Read files as text with one kind of line end.",
    ),
    "byte order mark": ChangeKind(
        "Only a byte order mark (U+FEFF) differs.",
        "Read files as utf-8-sig, which drops it.",
    ),
    "invisible characters": ChangeKind(
        "Only invisible characters differ.",
        "Drop zero-width characters before the text is sent.",
    ),
    "unicode form": ChangeKind(
        "The same characters are encoded differently.",
        "Normalize to one form (unicodedata.normalize('NFC', text)).",
    ),
    "letter case": ChangeKind(
        "Only upper and lower case differ.",
        "Write it the same way each time.",
    ),
}
