"""Pairs of requests as real programs send them, each with the kind of change and the place that `minikv why` must name.

Shapes and wordings follow public reports (`source`); the texts are ours. A place is the beginning of what is printed.
"""

from __future__ import annotations

import copy
import json
from typing import Any, NamedTuple


class Pair(NamedTuple):
    name: str
    a: dict[str, Any] | str
    b: dict[str, Any] | str
    kind: str
    place: str | None
    source: str = ""


def system(text):
    return {"role": "system", "content": text}


def user(text):
    return {"role": "user", "content": text}


def answer(text, **more):
    return {"role": "assistant", "content": text, **more}


def result(text, call="call_1"):
    return {"role": "tool", "tool_call_id": call, "content": text}


def tool(name, describes="Does what its name says.", **properties):
    properties = properties or {"path": {"type": "string", "description": "relative to the project"}}
    schema = {"type": "object", "properties": properties, "required": sorted(properties)}
    return {"type": "function", "function": {"name": name, "description": describes, "parameters": schema}}


RULES = "You are a careful assistant for a house. Answer in one sentence. Never switch the alarm off without asking."
READ, GREP, EDIT = tool("read_file"), tool("grep", pattern={"type": "string"}), tool("edit_file")
TALK = [user("Is the door locked?"), answer("Yes, since ten."), user("And the window in the kitchen?")]
LONG = [*TALK, answer("It is open."), user("Close it, please."), answer("Done."), user("Is anything else open?")]
CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "grep", "arguments": '{"pattern": "lock", "n": 5}'},
}
WORK = [user("Find the lock."), answer(None, tool_calls=[CALL]), result("src/lock.py:3: lock\nsrc/door.py:9: lock"),
        answer("There are two."), user("Show me the first.")]  # fmt: skip

AT_ONCE = [{"role": role, "content": [{"type": kind, name: call, **more} for call in "ab"]}
           for role, kind, name, more in (("assistant", "tool_use", "id", {"name": "grep", "input": {}}),
                                          ("user", "tool_result", "tool_use_id", {"content": "found"}))]  # fmt: skip


def chat(*messages, **more):
    return {"model": "m", "messages": list(messages), **more}


def told(text, *messages, **more):
    return chat(system(text), *(messages or TALK), **more)


def claude(text, *messages, **more):
    return {"model": "m", "system": [{"type": "text", "text": text}], "messages": list(messages or TALK), **more}


def in_parts(*texts):
    return {"role": "user", "content": [{"type": "text", "text": text} for text in texts]}


def called(arguments):
    return {**CALL, "function": {**CALL["function"], "arguments": arguments}}


def changed(messages, at, **fields):
    found = copy.deepcopy(list(messages))
    found[at].update(fields)
    return found


def image(data):
    return user(
        [
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}},
            {"type": "text", "text": "What is it?"},
        ]
    )


def swapped(body):
    """The same JSON with the keys of every object in the opposite order."""
    if isinstance(body, dict):
        return {key: swapped(value) for key, value in reversed(body.items())}
    return [swapped(item) for item in body] if isinstance(body, list) else body


HISTORY = f"{RULES}\n" + "\n".join(
    f"User: question {i}?\nHouse: answer {i}, as before and with details." for i in range(40)
)
CELLAR = "The door on the left leads to the cellar and to the garden, as all know."
SYSTEM = "messages[0] (system), content, after "
FIRST = "messages[1] (user), content, after "

PAIRS = [
    # -- clocks --
    Pair(
        "a time at the head of the system prompt",
        told(f"Current time is 15:09:20. Today's date is 2026-09-09.\n{RULES}"),
        told(f"Current time is 15:09:34. Today's date is 2026-09-09.\n{RULES}"),
        "clock",
        SYSTEM + "22",
        "goruck/home-generative-agent#617",
    ),
    Pair(
        "a date and time in words",
        told(f"The current date and time is Thursday, September 17, 2026 3:42 PM.\n{RULES}"),
        told(f"The current date and time is Thursday, September 17, 2026 3:43 PM.\n{RULES}"),
        "clock",
        SYSTEM + "61",
        "Mintplex-Labs/anything-llm#6398",
    ),
    Pair(
        "a timestamp in the runtime information",
        told(f"{RULES}\n--- Runtime Info ---\nTimestamp: 2026-07-20 12:13:14 UTC"),
        told(f"{RULES}\n--- Runtime Info ---\nTimestamp: 2026-07-20 12:13:15 UTC"),
        "clock",
        SYSTEM,
        "adolfousier/opencrabs#657",
    ),
    Pair(
        "a date that turned at midnight",
        claude(f"{RULES} Today is 2026-11-21."),
        claude(f"{RULES} Today is 2026-11-22."),
        "clock",
        "system[0].text, after ",
        "nex-agi/NexAU#12",
    ),
    Pair(
        "seconds since 1970 in the question",
        chat(system(RULES), user(f"Say hi. Current timestamp: 1779514688.{1}")),
        chat(system(RULES), user(f"Say hi. Current timestamp: 1779514702.{9}")),
        "clock",
        FIRST,
        "Mesh-LLM/mesh-llm#662",
    ),
    Pair("morning and evening", told(f"Good morning! {RULES}"), told(f"Good evening! {RULES}"), "clock", SYSTEM + "5"),
    Pair(
        "a Chinese date", told(f"今天是2026年9月9日。{RULES}"), told(f"今天是2026年9月10日。{RULES}"), "clock", SYSTEM
    ),
    Pair(
        "a clock and more behind it",
        told(f"It is 14:05. {RULES} The lamp is on."),
        told(f"It is 14:06. {RULES} The door is open."),
        "clock",
        SYSTEM + "10",
    ),
    # -- random ids and numbers --
    Pair(
        "a hash in a billing header",
        claude(f"x-billing-header: cc_version=2.1.177.01c; cch=36ee5;\n{RULES}"),
        claude(f"x-billing-header: cc_version=2.1.177.01c; cch=0aaa9;\n{RULES}"),
        "random id",
        "system[0].text, after ",
        "anthropics/claude-code#68900",
    ),
    Pair(
        "a uuid of the session",
        told(f"Session 0b8d7a46-5d0e-4b0c-9f5f-1f3f0c6b7a11. {RULES}"),
        told(f"Session 7c1e2f90-91ab-4d5a-8a3c-6de0c2b41f72. {RULES}"),
        "random id",
        SYSTEM + "8",
    ),
    Pair(
        "the id of a conversation in a memory block",
        told(f"{RULES}\n- CONVERSATION_ID: conv_8Kf3LmQ2xZ\n- AGENT_ID: a"),
        told(f"{RULES}\n- CONVERSATION_ID: conv_Pq7TnW4yBd\n- AGENT_ID: a"),
        "random id",
        SYSTEM,
        "code-yeongyu/oh-my-openagent#6881",
    ),
    Pair(
        "a temporary folder",
        told(f"Work in /tmp/session-a81f. {RULES}"),
        told(f"Work in /tmp/session-77b2. {RULES}"),
        "random id",
        SYSTEM,
    ),
    Pair(
        "an address of an object",
        told(f"Tools: <function read at 0x7f3a1c2b>. {RULES}"),
        told(f"Tools: <function read at 0x7f9d0e4f>. {RULES}"),
        "random id",
        SYSTEM,
    ),
    Pair(
        "the id of a tool call",
        chat(*WORK),
        chat(*changed(WORK, 2, tool_call_id="call_9f2c")),
        "tool call id",
        "messages[2] (tool), tool_call_id, after 5",
    ),
    Pair(
        "a counter of messages",
        told(f"{RULES} 7 previous messages are stored."),
        told(f"{RULES} 9 previous messages are stored."),
        "number",
        SYSTEM,
        "code-yeongyu/oh-my-openagent#6881",
    ),
    Pair(
        "1 and 1.0 in a schema",
        chat(*TALK, tools=[tool("wait", s={"type": "number", "default": 1})]),
        chat(*TALK, tools=[tool("wait", s={"type": "number", "default": 1.0})]),
        "number format",
        "tools[0] (wait), function.parameters.properties.s.default, after ",
    ),
    # -- tools --
    Pair(
        "tools from a set without order",
        chat(*TALK, tools=[READ, GREP, EDIT]),
        chat(*TALK, tools=[GREP, EDIT, READ]),
        "tools reordered",
        "tools[0] (read_file), function.name, after ",
        "whoz-oss/coday#1322",
    ),
    Pair(
        "keys of a schema in another order",
        chat(*TALK, tools=[READ, GREP]),
        chat(*TALK, tools=[READ, swapped(GREP)]),
        "keys reordered",
        "tools[1] (grep), ",
        "Lakr233/FlowDown#273",
    ),
    Pair(
        "a tool added by a plugin",
        chat(*TALK, tools=[READ, GREP]),
        chat(*TALK, tools=[READ, EDIT, GREP]),
        "tool added",
        "tools[1] (grep), function.name, after ",
    ),
    Pair(
        "a tool switched off",
        chat(*TALK, tools=[READ, EDIT, GREP]),
        chat(*TALK, tools=[READ, GREP]),
        "tool removed",
        "tools[1] (edit_file), ",
    ),
    Pair(
        "other tools in plan mode",
        chat(*TALK, tools=[READ, EDIT]),
        chat(*TALK, tools=[READ, GREP]),
        "tools changed",
        "tools[1] ",
    ),
    Pair(
        "a description with live data",
        chat(*TALK, tools=[tool("read_file", "Reads a file of the branch main.")]),
        chat(*TALK, tools=[tool("read_file", "Reads a file of the branch fix.")]),
        "tool edited",
        "tools[0] (read_file), function.description, after ",
    ),
    Pair(
        "a schema of the output",
        chat(*TALK, response_format={"type": "json_schema", "name": "short"}),
        chat(*TALK, response_format={"type": "json_schema", "name": "long"}),
        "schema edited",
        "response_format",
    ),
    Pair(
        "two versions of a tool, whose first difference is a number",
        told(RULES, tools=[tool("grep", "Finds 10 lines. Paths are absolute.")]),
        told(RULES, tools=[tool("grep", "Finds 50 lines. Paths may be relative.")]),
        "tool edited",
        "tools[0] (grep)",
    ),
    # -- system prompt --
    Pair(
        "a new version of the system prompt",
        told(RULES),
        told(RULES.replace("one sentence", "two sentences")),
        "system edited",
        SYSTEM,
    ),
    Pair(
        "a fact from memory in the system prompt",
        told(f"{RULES}\nMemory: likes tea."),
        told(f"{RULES}\nMemory: has a cat."),
        "system edited",
        SYSTEM,
    ),
    Pair(
        "a system prompt that is sent only once",
        told(RULES),
        chat(*TALK),
        "system added",
        "messages[0] (system)",
    ),
    Pair(
        "the order of a set in the system prompt",
        told(f"{RULES} Rooms: hall, kitchen, attic."),
        told(f"{RULES} Rooms: attic, hall, kitchen."),
        "order",
        SYSTEM,
    ),
    # -- history --
    Pair(
        "history cut from the front",
        told(RULES, *LONG[:5]),
        told(RULES, *LONG[2:]),
        "history truncated",
        FIRST,
        "unslothai/unsloth#7472",
    ),
    Pair(
        "history summarized",
        told(RULES, *LONG),
        told(RULES, user("Before: the door was locked."), *LONG[5:]),
        "history summarized",
        FIRST,
    ),
    Pair(
        "a question asked again after another one",
        told(RULES, user("Is it warm outside, and windy?"), answer("No."), user("Is it cold?"), answer("Yes.")),
        told(RULES, user("Is it cold?"), answer("Very cold."), user("Is it late?")),
        "conversation",
        FIRST,
    ),
    Pair(
        "a message of memory in front of the history",
        told(RULES, *TALK),
        told(RULES, user("Notes: prefers tea."), *TALK),
        "message inserted",
        FIRST,
    ),
    Pair(
        "a message left out in the middle",
        told(RULES, *LONG),
        told(RULES, *LONG[:2], *LONG[4:]),
        "message removed",
        "messages[3] (user), ",
    ),
    Pair(
        "two old messages in another order",
        told(RULES, user("Fact: tea."), user("Fact: cat."), user("Go.")),
        told(RULES, user("Fact: cat."), user("Fact: tea."), user("Go.")),
        "messages reordered",
        FIRST,
    ),
    Pair(
        "a reminder added to an old message",
        told(RULES, *LONG[:5]),
        told(RULES, *changed(LONG, 0, content=LONG[0]["content"] + "\n<system-reminder>No tasks.</system-reminder>")),
        "text appended",
        "messages[1] (user)",
        "claude-remember#301",
    ),
    Pair(
        "a reminder that was in the last message only",
        chat(user(LONG[0]["content"] + "\n<system-reminder>No tasks.</system-reminder>")),
        chat(*LONG[:3]),
        "text cut off",
        "messages[0] (user), content, after ",
    ),
    Pair(
        "an old question corrected",
        told(RULES, *LONG[:5]),
        told(RULES, *changed(LONG, 0, content="Is the front door locked?")),
        "message edited",
        FIRST,
    ),
    Pair(
        "an old tool result cleared",
        chat(*WORK),
        chat(*changed(WORK, 2, content="[Old tool result content cleared]"), answer("x")),
        "tool result edited",
        "messages[2] (tool), content, after ",
        "vercel/eve#175",
    ),
    Pair(
        "an answer that was trimmed",
        chat(*LONG[:3]),
        chat(*changed(LONG, 1, content="Yes.")),
        "answer edited",
        "messages[1] (assistant), content, after ",
    ),
    Pair(
        "reasoning stripped from the history",
        chat(user("Is it?"), answer("Yes.", reasoning_content="I look."), user("Sure?")),
        chat(user("Is it?"), answer("Yes."), user("Sure?"), answer("Yes."), user("Really?")),
        "reasoning removed",
        "messages[1] (assistant), reasoning_content, after 0",
        "ggml-org/llama.cpp#22746",
    ),
    Pair(
        "arguments of a call written anew",
        chat(*WORK),
        chat(
            *changed(
                WORK,
                1,
                tool_calls=[{**CALL, "function": {"name": "grep", "arguments": '{"pattern":"lock","n":5}'}}],
            )
        ),
        "JSON rewritten",
        "messages[1] (assistant), tool_calls[0], function.arguments, after ",
    ),
    Pair(
        "the keys of a call's arguments in another order",
        told(RULES, *WORK),
        told(RULES, *changed(WORK, 1, tool_calls=[called('{"n": 5, "pattern": "lock"}')])),
        "keys reordered",
        "messages[2] (assistant), tool_calls[0], function.arguments, after ",
    ),
    Pair(
        "a system prompt sent by a developer",
        told(RULES),
        chat({"role": "developer", "content": RULES}, *TALK),
        "role changed",
        "messages[0] (system)",
    ),
    Pair(
        "a reminder added to an old message as a part of its own",
        claude(RULES, in_parts("Go."), answer("Done."), user("On.")),
        claude(RULES, in_parts("Go.", "<system-reminder>No tasks.</system-reminder>"), answer("Done."), user("On.")),
        "text appended",
        "messages[0] (user), content[0].text, after ",
    ),
    Pair(
        "a reminder that is gone from the parts of an old message",
        claude(RULES, in_parts("<system-reminder>No tasks.</system-reminder>", "Go."), answer("Done."), user("On.")),
        claude(RULES, in_parts("Go."), answer("Done."), user("On.")),
        "message edited",
        "messages[0] (user), content[0].text, after ",
    ),
    Pair(
        "found documents in another order",
        "[1] The door is red.\n[2] Ann has the key.\nWho?",
        "[2] Ann has the key.\n[1] The door is red.\nWho?",
        "order",
        "prompt, after 1 ",
    ),
    Pair("a word that begins like what follows", "A: b\nA: d\nQ", "A: b\nA: dd\nQ", "text edited", "prompt, after 9 "),
    Pair(
        "the system prompt sent as a user's",
        chat(*TALK[:1], user(RULES), user("Go.")),
        chat(*TALK[:1], system(RULES), user("Go.")),
        "role changed",
        "messages[1] (user)",
    ),
    Pair(
        "another question to the same rules",
        told(RULES, user("Is it warm?")),
        told(RULES, user("Who is at the door?")),
        "question",
        FIRST + "0",
    ),
    Pair(
        "a sum to be worked out",
        told(RULES, user("What is 2 + 2?")),
        told(RULES, user("What is 3 + 3?")),
        "question",
        FIRST,
    ),
    Pair(
        "two conversations",
        told(RULES, *LONG),
        told(RULES, user("Write a poem."), answer("Roses."), user("More.")),
        "conversation",
        FIRST + "0",
    ),
    Pair(
        "the beginning of an answer",
        chat(*TALK, answer('{"open": "')),
        chat(*TALK, answer('{"closed": "')),
        "question",
        "messages[3] (assistant), content, after 2",
    ),
    Pair(
        "results of parallel calls in another order in one message",
        claude(RULES, TALK[0], *AT_ONCE, user("Go on.")),
        claude(RULES, TALK[0], AT_ONCE[0], user(AT_ONCE[1]["content"][::-1]), user("Go on.")),
        "messages reordered",
        "messages[2] (user), content[0].tool_use_id",
    ),
    Pair(
        "documents as parts of a message in another order",
        chat(in_parts("The door is red.", "Ann has the key.", "Who?")),
        chat(in_parts("Ann has the key.", "The door is red.", "Who?")),
        "order",
        "messages[0] (user), content[0].text",
    ),
    Pair(
        "scores before passages that were found again",
        told(RULES, user(f"[1] (score 0.8312) {HISTORY[:900]}\nWho?")),
        told(RULES, user(f"[1] (score 0.8297) {HISTORY[:900]}\nWhen?")),
        "number",
        FIRST + "14",
    ),
    Pair(
        "thoughts of a template that the next turn leaves out",
        "<|im_start|>user\nWho?<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
        "<|im_start|>user\nWho?<|im_end|>\n<|im_start|>assistant\nAnn.<|im_end|>\n<|im_start|>user\nWhen?<|im_end|>\n",
        "reasoning removed",
        "prompt, after ",
    ),
    Pair(
        "an item of reasoning that is not sent again",
        {"model": "m", "input": [TALK[0], {"type": "reasoning", "encrypted_content": "gAAAAB"}, *TALK[1:]]},
        {"model": "m", "input": [*LONG]},
        "reasoning removed",
        "input[1] (reasoning)",
    ),
    # -- characters --
    Pair("a space at the end of a line", told(f"{RULES} \nGo."), told(f"{RULES}\nGo."), "white space", SYSTEM),
    Pair("a newline at the end of the prompt", told(RULES), told(RULES + "\n"), "white space", ""),
    Pair(
        "another indentation",
        told(f"{RULES}\n  - one\n  - two"),
        told(f"{RULES}\n    - one\n    - two"),
        "white space",
        SYSTEM,
    ),
    Pair("CRLF from Windows", told(f"{RULES}\r\nGo."), told(f"{RULES}\nGo."), "line ends", SYSTEM),
    Pair("capitals", told(f"Dear User, {RULES}"), told(f"Dear user, {RULES}"), "system edited", SYSTEM + "5"),
    Pair("a byte order mark", told("\ufeff" + RULES), told(RULES), "unicode form", SYSTEM + "0"),
    Pair(
        "a zero-width space",
        told(RULES),
        told(RULES.replace("assistant", "assis\u200btant")),
        "unicode form",
        SYSTEM,
    ),
    Pair("two forms of one letter", told(f"Café. {RULES}"), told(f"Cafe\u0301. {RULES}"), "unicode form", SYSTEM),
    Pair("curly quotes", told(f"Say 'no'. {RULES}"), told(f"Say ‘no’. {RULES}"), "unicode form", SYSTEM),
    Pair(
        "escaped letters in a result",
        chat(*changed(WORK, 2, content='{"city": "K\\u00f6ln"}')),
        chat(*changed(WORK, 2, content='{"city": "Köln"}')),
        "JSON rewritten",
        "messages[2] (tool), content, city, after ",
    ),
    Pair(
        "another image",
        chat(image("AAAA"), answer("A cat."), user("Sure?")),
        chat(image("BBBB"), answer("A cat."), user("Sure?")),
        "image changed",
        "messages[0] (user), content[0].image_url",
    ),
    # -- plain text --
    Pair(
        "a text whose beginning slid out",
        HISTORY,
        RULES + HISTORY[HISTORY.index("\nUser: question 9") :] + "\nUser: new?",
        "text edited",
        "prompt, after ",
    ),
    Pair(
        "a document put in front of the rest",
        HISTORY,
        RULES + "\nDocument: the manual." + HISTORY[len(RULES) :],
        "text edited",
        "prompt, after ",
    ),
    Pair(
        "an example corrected",
        HISTORY,
        HISTORY.replace("answer 7, as before", "reply 7, unlike before"),
        "text edited",
        "prompt, after ",
    ),
    Pair(
        "the same examples, another question",
        HISTORY + "\nUser: is it warm?",
        HISTORY + "\nUser: who rang?",
        "question",
        "prompt, after ",
    ),
    Pair(
        "two texts",
        "Translate this sentence into French.",
        "Write a haiku about autumn.",
        "conversation",
        "prompt, after 0",
    ),
    # -- nothing --
    Pair(
        "the same request again",
        told(RULES, tools=[READ]),
        told(RULES, tools=[READ]),
        "nothing",
        None,
        "vllm-project/vllm#54607",
    ),
    Pair(
        "the same request with its keys in another order",
        told(RULES),
        dict(reversed(told(RULES).items())),
        "nothing",
        None,
    ),
    Pair(
        "a cache marker for another provider's model",
        {**claude(RULES), "model": "gpt-4o"},
        {**claude(RULES), "model": "gpt-4o", "system": [{"type": "text", "text": RULES, "cache_control": {}}]},
        "too short for the cache",
        None,
    ),
    Pair(
        "another temperature", told(RULES, temperature=0), told(RULES, temperature=0.7, max_tokens=9), "settings", None
    ),
    Pair("a model that may not think", told(RULES), told(RULES, enable_thinking=False), "template settings", None),
    Pair("another model", told(RULES), {**told(RULES), "model": "n"}, "namespace", None),
    Pair("another salt", told(RULES, cache_salt="tenant-1"), told(RULES, cache_salt="tenant-2"), "namespace", None),
    Pair("a LoRA adapter", told(RULES), told(RULES, lora_name="polite"), "namespace", None),
    Pair("a conversation that went on", told(RULES, *TALK), told(RULES, *LONG), "extended", None),
    Pair(
        "a begun answer that was completed",
        chat(*TALK, answer("It is")),
        chat(*TALK, answer("It is open."), user("Close it.")),
        "extended",
        None,
    ),
    Pair("a retry without the last turns", told(RULES, *LONG), told(RULES, *TALK), "shortened", None),
]


PAIRS += [
    Pair("messages dropped from a history that ended in an answer", told(RULES, *LONG, answer("No.")),
         told(RULES, *LONG[2:], answer("No."), user("Good.")), "history truncated", "messages[1] (user)"),
    Pair("a begun answer and its thoughts, both written anew", *(
         told(RULES, *changed(LONG[:2], 1, content=f"<think>{thought}</think>Yes{said}"))
         for thought, said in (("I look.", ""), ("I see it.", ", since ten."))), "question", "messages[2]"),
    Pair("two questions that have less than half of their text in common",
         told(RULES, user(f"Who? {CELLAR}")), told(RULES, user(f"When? {CELLAR} {'Is it in the hall? ' * 6}")),
         "question", FIRST),
    Pair("two questions after much that is the same, and before some that is",
         told(RULES, user(f"{HISTORY[:400]} Who? {CELLAR}")), told(RULES, user(f"{HISTORY[:400]} When? {CELLAR}")),
         "question", FIRST),
    Pair("a short question that is also in the next one", f"{HISTORY}\nUser: Go.", f"{HISTORY}\nUser: Say: Go. Now",
         "question", "prompt, after "),
    Pair("two long questions after the same examples", f"{HISTORY}\nUser: {CELLAR}",
         f"{HISTORY}\nUser: {'Is it in the hall? ' * 6}", "question", "prompt, after "),
    Pair("a text with a clock and more that differs before what is the same", f"It is 14:05, the lamp is on. {RULES}",
         f"It is 14:06, the door is open. {RULES}", "clock", "prompt, after 10 "),
    Pair("another cache key for an open model", *(told(RULES, prompt_cache_key=key) for key in "ab"),
         "cache key changed", None),
    Pair("other instructions, and the history is at the server", *(
         {"model": "m", "previous_response_id": "resp_1", "instructions": f"{said} {RULES}", "input": "Go on."}
         for said in ("Be brief.", "Be exact.")), "system edited", "instructions"),
    Pair("two tools of one name in another order, with other keys", chat(*TALK, tools=[tool("f", "A"), tool("f", "B")]),
         chat(*TALK, tools=swapped([tool("f", "A"), tool("f", "B")])[::-1]), "tools reordered", "tools[0] (f)"),
]  # fmt: skip


class Reuse(NamedTuple):
    """A pair in which not the change decides but the cache: what each kind reuses, and a word of the note on it.

    The tokens are bytes; caches as in `reused_by_each`: pages of 1, 16, 64, full blocks of 16, hybrid, from 1,024 on.
    """

    name: str
    a: str | dict[str, Any]
    b: str | dict[str, Any]
    kind: str
    reused: list[int]
    note: str = ""
    blocks: tuple[int, ...] = (784,)
    source: str = ""


REUSES = [
    Reuse(
        "a block boundary only",
        "x" * 160,
        "x" * 160,
        "nothing",
        [160, 160, 128, 144, 0],
        "a block boundary, not a change",
    ),
    Reuse(
        "a tail that does not fill a block",
        "x" * 170,
        "x" * 170 + "y" * 99,
        "extended",
        [170, 160, 128, 160, 0],
        "computes the end again, 10 tokens:",
    ),
    Reuse(
        "a prompt shorter than one block",
        "x" * 240,
        "x" * 240,
        "nothing",
        [240, 240, 192, 224, 0],
        "the prompt is shorter than one block",
        source="vllm-project/vllm#54607",
    ),
    Reuse(
        "a hybrid's multiple",
        "x" * 1600,
        "x" * 1700,
        "extended",
        [1600, 1600, 1600, 1600, 1568],
        blocks=(16, 784),
    ),
    Reuse(
        "a multiple that is longer than each block",
        "x" * 9000,
        "x" * 9000,
        "nothing",
        [9000, 8992, 8960, 8992, 8192],
        blocks=(512, 4096),
        source="vllm-project/vllm-ascend#16270",
    ),
    Reuse(
        "groups that meet too late",
        "x" * 3000,
        "x" * 3000,
        "nothing",
        [3000, 2992, 2944, 2992, 0],
        "reuses nothing here",
        blocks=(528, 784),
    ),
    Reuse(
        "a part that fills no block of a hybrid",
        "x" * 300,
        "x" * 1000,
        "extended",
        [300, 288, 256, 288, 0],
        "reuses nothing here, as expected: the shared part does not fill a block",
    ),
    Reuse(
        "another salt",
        {"prompt": "x" * 64, "cache_salt": "a"},
        {"prompt": "x" * 64, "cache_salt": "b"},
        "namespace",
        [0] * 5,
    ),
    Reuse("a change behind the first block", "x" * 20 + "one", "x" * 20 + "two", "question", [20, 16, 0, 16, 0]),
]


def text_of(body):
    """A request as a file would hold it."""
    return body if isinstance(body, str) else json.dumps(body)
