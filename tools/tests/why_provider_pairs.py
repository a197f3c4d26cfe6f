"""Pairs of requests to the providers' APIs, in which the cache decides: breakpoints, lifetimes, keys, least lengths.

Each expected answer follows from the provider's documentation, as `providers.json` names it; the texts are ours.
"""

from why_pairs import FIRST, RULES, TALK, Pair, answer, result, tool, user

LONG = "The door on the left leads to the cellar. " * 150  # about 1,580 tokens
CACHE, HOUR = {"cache_control": {"type": "ephemeral"}}, {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
POINT = {"prompt_cache_breakpoint": {"mode": "explicit"}}
EXPLICIT = {"prompt_cache_options": {"mode": "explicit"}}


def text(said, **mark):
    return {"type": "text", "text": said, **mark}


def opus(*blocks, messages=TALK, **more):
    return {"model": "claude-opus-5", "max_tokens": 9, "system": list(blocks), "messages": list(messages), **more}


def gpt(*messages, model="gpt-5.6-sol", **more):
    return {"model": model, "messages": list(messages), **more}


def rules(said=LONG, **mark):
    return {"role": "developer", "content": [text(said, **mark)]}


def turns(count, said="Turn"):
    return [message for n in range(count) for message in (user(f"{said} {n}?"), answer(f"Yes, {n}."))]


def part(said, **mark):
    return {"role": "user", "content": [text(said, **mark)]}


MARKED = opus(text(LONG, **CACHE))
CLOCKS = [opus(text(LONG), text(f"It is 14:0{n}.", **CACHE)) for n in (5, 6)]

PASSAGES = ["Refunds above 200 EUR need a manager's approval.", "Invoices are sent on the first day of each month.",
            "Orders can be cancelled within two hours after they were placed."]  # fmt: skip

CHINESE = [
    "超过二百欧元的退款需要经理批准。",
    "发票在每个月的第一天寄给所有客户。",
    "订单在下单后的两个小时内可以取消吗？",
]
TOPICS = ["refunds: ask a manager for all above 200 EUR.", "invoices: sent on the first day of each month."]


def found(passages, ask="Why is it so?", before="Passages:"):
    return gpt(rules(), user("\n".join([before, *passages, f"Question: {ask}"])), model="gpt-5.4")


PROVIDER_PAIRS = [
    Pair("the passages of a search in another order", found(PASSAGES), found(PASSAGES[::-1]), "order", FIRST),
    Pair("Chinese sentences of one line in another order", *(
         gpt(rules(), user("资料：" + "".join(said)), model="gpt-5.4")
         for said in (CHINESE, CHINESE[::-1])), "order", FIRST),
    Pair("two lines that begin alike in another order", *(
         gpt(rules(), user("\n".join(f"Passage on {topic}" for topic in topics)), model="gpt-5.4")
         for topics in (TOPICS, TOPICS[::-1])), "order", FIRST),
    Pair("a model's name in the rules", *(gpt(rules(f"You are {name}. {LONG}"), *TALK, model="gpt-5.4")
         for name in ("gpt-4o-mini", "gpt-5-nano")), "system edited", "messages[0] (developer)"),
    Pair("the day of a policy's version", *(gpt(rules(f"Version 2026-11-{day} of the policy. {LONG}"), *TALK,
         model="gpt-5.4") for day in ("01", "08")), "system edited", "messages[0] (developer)"),
    Pair("the same and another question", found(PASSAGES), found(PASSAGES[::-1], "When?"), "order", FIRST),
    Pair("an id before the passages", found(PASSAGES, before="request_id=8f3a-77b1"),
         found(PASSAGES, "When?", before="request_id=02cc-19aa"), "random id", FIRST),
    Pair("a question before the passages", found(PASSAGES, before="May I cancel it?"),
         found(PASSAGES, before="Who may approve?"), "shared text last", FIRST),
    Pair("a question between a passage and all of them", *(
         found(PASSAGES, before=f"{PASSAGES[0]}\n{ask}") for ask in ("When?", "Who may approve?")),
         "shared text last", FIRST),
    Pair("a question after the passages", found(PASSAGES), found(PASSAGES, "When?"), "question", FIRST),
    Pair("a breakpoint that is gone", MARKED, opus(text(LONG)), "no breakpoint", None),
    Pair("a breakpoint that is new", opus(text(LONG)), MARKED, "no breakpoint", None),
    Pair("no breakpoint in a conversation", opus(text(LONG)), opus(text(LONG), messages=[*TALK, answer("Open.")]),
         "no breakpoint", None),
    Pair("the same with a breakpoint", MARKED, MARKED, "nothing", None),
    Pair("another temperature with a breakpoint", MARKED, {**MARKED, "temperature": 1}, "settings", None),
    Pair("a breakpoint that moved up", opus(text(LONG), text("Be brief.", **CACHE)),
         opus(text(LONG, **CACHE), text("Be brief.")), "breakpoint moved", None),
    Pair("a breakpoint that moved down", opus(text(LONG, **CACHE), text("Be brief.")),
         opus(text(LONG), text("Be brief.", **CACHE)), "nothing", None),
    Pair("five minutes, then an hour", MARKED, opus(text(LONG, **HOUR)), "cache lifetime changed", None),
    Pair("sixty blocks after the last breakpoint", opus(text(LONG), **CACHE),
         opus(text(LONG), messages=[*TALK, *turns(30)], **CACHE), "breakpoint too far", None),
    Pair("thirty blocks after it, and the system prompt is read",
         opus(text(LONG, **CACHE), messages=[part(LONG, **CACHE)]),
         opus(text(LONG, **CACHE), messages=[part(LONG), answer("."), *turns(15), part("So?", **CACHE)]),
         "breakpoint too far", None),
    Pair("two conversations, each with its automatic breakpoint", opus(text(LONG), **CACHE),
         opus(text(LONG), messages=[user("Who has the key?"), answer("Ann."), user("Since when?")], **CACHE),
         "breakpoint on what changes", "messages[0] (user), content, after "),
    Pair("a breakpoint after the clock", *CLOCKS, "clock", "system[1].text, after 10"),
    Pair("questions behind one automatic breakpoint", opus(text(LONG), messages=[user("Is it open?")], **CACHE),
         opus(text(LONG), messages=[user("Who is there?")], **CACHE), "breakpoint on what changes", "messages[0]"),
    Pair("a long history behind a breakpoint", opus(text(LONG, **CACHE), messages=[user(LONG * 3)]),
         opus(text(LONG, **CACHE), messages=[user(LONG * 3), answer("Yes."), user("And?")]),
         "breakpoint too early", None),
    Pair("five breakpoints", opus(*(text(LONG, **CACHE) for _ in range(4)), text("Be brief.")),
         opus(*(text(LONG, **CACHE) for _ in range(4)), text("Be brief.", **CACHE)), "breakpoints refused", None),
    Pair("too short for Haiku 4.5", {**MARKED, "model": "claude-haiku-4-5"}, {**MARKED, "model": "claude-haiku-4-5"},
         "too short for the cache", None),
    Pair("ten minutes later", {"timestamp": "2026-11-23T10:00:00Z", "request": MARKED},
         {"timestamp": "2026-11-23T10:10:00Z", "request": MARKED}, "cache expired", None),
    Pair("four minutes later", {"timestamp": "2026-11-23T10:00:00Z", "request": MARKED},
         {"timestamp": "2026-11-23T10:04:00Z", "request": MARKED}, "nothing", None),
    Pair("another tool_choice", opus(text("Be brief."), messages=[part(LONG, **CACHE)]),
         opus(text("Be brief."), messages=[part(LONG, **CACHE)], tool_choice={"type": "any"}),
         "template settings", None),
    Pair("another tool_choice behind the breakpoint", MARKED, {**MARKED, "tool_choice": {"type": "any"}},
         "settings", None),
    Pair("a first image in a later message", opus(text("Be brief."), messages=[part(LONG)], **CACHE),
         opus(text("Be brief."), messages=[part(LONG), answer("Yes."), {"role": "user", "content": [
             {"type": "image", "source": {"type": "base64", "data": "AA"}}, text("And this?")]}], **CACHE),
         "image added", None),
    Pair("another model of Anthropic's, and a turn more", MARKED,
         {**MARKED, "model": "claude-sonnet-5", "messages": [*TALK, answer("Yes."), user("Why?")]}, "namespace", None),
    Pair("a tool at the end of the tools", opus(text(LONG, **CACHE), tools=[tool("a")]),
         opus(text(LONG, **CACHE), tools=[tool("a"), tool("b")]), "tool added", None),
    Pair("other last messages since GPT-5.6", gpt(rules(), user("Is it open?")), gpt(rules(), user("Who is there?")),
         "breakpoint on what changes", "messages[1] (user)"),
    Pair("other last messages before", gpt(rules(), user("Is it open?"), model="gpt-5.4"),
         gpt(rules(), user("Who is there?"), model="gpt-5.4"), "question", FIRST + "0"),
    Pair("an explicit breakpoint before them", gpt(rules(**POINT), user("Is it open?")),
         gpt(rules(**POINT), user("Who is there?")), "question", FIRST + "0"),
    Pair("a conversation since GPT-5.6", gpt(rules(), *TALK), gpt(rules(), *TALK, answer("Yes."), user("Why?")),
         "extended", None),
    Pair("the explicit mode without a mark", gpt(rules(), *TALK, **EXPLICIT), gpt(rules(), *TALK, **EXPLICIT),
         "no breakpoint", None),
    Pair("from implicit to explicit mode", gpt(rules(), *TALK), gpt(rules(**POINT), *TALK, answer("Yes."), **EXPLICIT),
         "breakpoint moved", None),
    Pair("a message that grew", gpt(rules(), user("Is it open?")), gpt(rules(), user("Is it open? Now?")),
         "breakpoint on what changes", None),
    Pair("another cache key", gpt(rules(), *TALK, prompt_cache_key="a"), gpt(rules(), *TALK, prompt_cache_key="b"),
         "cache key changed", None),
    Pair("another effort", gpt(rules(), *TALK, reasoning_effort="low"), gpt(rules(), *TALK, reasoning_effort="high"),
         "template settings", None),
    Pair("no tools may be called", gpt(rules(), *TALK), gpt(rules(), *TALK, tool_choice="none"), "settings", None),
    Pair("a cache point of Bedrock's that is gone", *(
        {"modelId": "us.anthropic.claude-opus-5-v1:0", "system": [{"text": LONG}, *point],
         "toolConfig": {"tools": [{"toolSpec": {"name": "f"}}]},
         "messages": [{"role": "user", "content": [{"text": "Hi"}]}]}
        for point in ([{"cachePoint": {"type": "default"}}], [])), "no breakpoint", None),
    Pair("another schema in the responses' form", *(
        {"model": "gpt-5.4", "input": TALK, "text": {"format": {"type": "json_schema", "schema": {"title": title}}}}
        for title in ("A", "B")), "schema edited", "response_format"),
    Pair("a prompt below 1,024 tokens", gpt(rules(RULES), *TALK), gpt(rules(RULES), *TALK), "too short for the cache",
         None),
    Pair("an hour later since GPT-5.6", {"ts": 0, "request": gpt(rules(), *TALK)},
         {"ts": 3600, "request": gpt(rules(), *TALK)}, "cache expired", None),
    Pair("the history is at the server", {"model": "gpt-5.4", "input": [user("A?"), answer("B."), user("C?")]},
         {"model": "gpt-5.4", "previous_response_id": "resp_1", "input": [user("D?")]}, "history at the server", None),
    Pair("another earlier response", *({"model": "gpt-5.4", "previous_response_id": f"resp_{n}", "input": "Go on."}
         for n in (1, 2)), "history at the server", None),
    Pair("the conversation that a log names", *({"model": "qwen", "conversation": name, "messages": TALK}
         for name in ("a", "b")), "settings", None),
    Pair("the marks of another model", f"<|im_start|>system\n{RULES}<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n",
         f"<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n{RULES}<|eot_id|>", "chat template changed",
         "prompt, after 2"),
    Pair("the address of an image was signed again", *(
        {"model": "m", "messages": [{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": f"https://files.example/cat.png?X-Amz-Date={n}&sig=a{n}"}}]},
            answer("A cat."), user("Sure?")]} for n in (1, 2)), "signed URL", "messages[0] (user), content[0]"),
    Pair("the id of a call and nothing else", *(
        {"model": "m", "messages": [user("Go."), answer(None, tool_calls=[{"id": f"call_{n}", "type": "function",
            "function": {"name": "f", "arguments": "{}"}}]), user("And?")]} for n in ("a", "b")), "tool call id",
         "messages[1] (assistant), tool_calls"),
    Pair("a short prompt without a breakpoint", *[{"model": "claude-opus-5", "messages": TALK}] * 2,
         "too short for the cache", None),
    Pair("a history behind a breakpoint on a long system prompt", opus(text(LONG * 9, **CACHE), messages=[user(LONG)]),
         opus(text(LONG * 9, **CACHE), messages=[user(LONG), answer("Yes."), user("And?")]), "breakpoint too early",
         None),
    Pair("a short prompt and another question", gpt(rules(LONG[:2000]), user("Is it open?")),
         gpt(rules(LONG[:2000]), user("Who is there?")), "too short for the cache", FIRST + "0"),
    Pair("two questions after rules that no cache would keep", *(
         gpt(rules(RULES), user(ask)) for ask in ("Is it open?", "Who is there?")),
         "question", FIRST),
    Pair("a date that is asked about", gpt(rules(), user("Is the house empty on 3 May 2026?"), model="gpt-5.4"),
         gpt(rules(), user("Is the house empty on 4 May 2026?"), model="gpt-5.4"), "question", FIRST),
    Pair("a contract that was amended", *(opus(text("Compare."), messages=[{"role": "user", "content": [
        {"type": "document", "source": {"type": "text", "data": f"{LONG} {said}. {LONG}"}, **CACHE}, text("Why?")]}])
        for said in ("Ten days", "Two weeks")), "breakpoint on what changes",
        "messages[0] (user), content[0].source.data, after 6"),
    Pair("a scanned page, of which no tokens are known", *(opus(text("Read."), messages=[{"role": "user", "content": [
        {"type": "document", "source": {"type": "base64", "data": "AAAA"}, **CACHE}, text(said)]}])
        for said in ("Who signed?", "When?")), "question", "messages[0] (user), content[1].text, after 2"),
    Pair("a window that slid, and another question", gpt(rules(), *turns(9), user("Sure?"), model="gpt-5.4"),
         gpt(rules(), *turns(9)[6:], user("Then lock it."), model="gpt-5.4"), "history truncated", "messages[1]"),
    Pair("a compaction that keeps no message", gpt(rules(), *turns(9), user("Sure?"), model="gpt-5.4"),
         gpt(rules(), user("Summary: nine questions on locks."), answer("Good."), user("Go."), model="gpt-5.4"),
         "history summarized", "messages[1] (user)"),
    Pair("a rendered prompt that got a system message",
         "<|im_start|>user\nIs it open?<|im_end|>\n<|im_start|>assistant\n",
         f"<|im_start|>system\n{RULES}<|im_end|>\n<|im_start|>user\nIs it open?<|im_end|>\n<|im_start|>assistant\n",
         "system added", "prompt, after 12"),
    Pair("a rendered history without its first turns", *(
        f"<|start_header_id|>system<|end_header_id|>\n\n{RULES}<|eot_id|>" + "".join(
            f"<|start_header_id|>user<|end_header_id|>\n\nQuestion {n}?<|eot_id|>" for n in range(first, 9))
        for first in (0, 3)), "history truncated", "prompt"),
    Pair("the id of a call in a rendered prompt", *(
        f'[INST] Go. [/INST][TOOL_CALLS] [{{"name": "f", "arguments": {{}}, "id": "{name}"}}][TOOL_RESULTS] 1'
        for name in ("a1B2c3D4e", "z9Y8x7W6v")), "tool call id", "prompt"),
    Pair("results that came in another order, and a turn more", *(
        gpt(rules(), user("Both?"), answer(None, tool_calls=[{"id": "1"}]), *results, *more, model="gpt-5.4")
        for results, more in (([result("Open.", "1"), result("Shut.", "2")], []),
                              ([result("Shut.", "2"), result("Open.", "1")], [answer("Yes."), user("Why?")]))),
        "messages reordered", "messages[3] (tool)"),
    Pair("another effort of an open model, and a turn more", *(
        {"model": "gpt-oss-120b", "reasoning_effort": effort, "messages": [user("Is it open?"), *more]}
        for effort, more in (("low", []), ("high", [answer("Yes."), user("Why?")]))), "template settings", None),
    Pair("a switch of the template in the fields that a client adds, and another question", *(
        {"model": "Qwen3", "messages": [user(LONG), answer("Yes."), user(said)],
         "extra_body": {"chat_template_kwargs": {"enable_thinking": thinks}}}
        for thinks, said in ((True, "Why?"), (False, "Since when?"))), "template settings", None),
    Pair("a turn more in a server's log", *(
        {"timestamp": "2026-11-23T10:00:00", "event": "request.received", "rid": "5c",
         "obj": {"text": f"<|im_start|>user\n{LONG}<|im_end|>\n{more}", "sampling_params": {"temperature": 0}}}
        for more in ("", "<|im_start|>assistant\nYes.<|im_end|>\n")), "extended", None),
    Pair("rules that became the first message of the user", {"model": "m", "messages": [
         {"role": "system", "content": RULES}, *TALK]}, {"model": "m", "messages": [
         user(f"{RULES}\n\n{TALK[0]['content']}"), *TALK[1:]]}, "role changed", "messages[0]"),
    Pair("rules beside the messages, then as one of them", opus(text(RULES)),
         {"model": "claude-opus-5", "messages": [user(RULES), *TALK]}, "role changed", "system"),
    Pair("a reminder that went with the form of its message",
         gpt(user("Go on." + "\nRemember the alarm." * 9), model="gpt-4.1"),
         gpt(part("Go on."), answer("Done."), user("And?"), model="gpt-4.1"), "text cut off", "messages[0] (user)"),
    Pair("a reminder that came as a part of its own", gpt(user("Go on."), answer("Done."), user("And?"), model="gpt-4"),
         gpt({"role": "user", "content": [text("Go on."), text("Remember the alarm.")]}, answer("Done."), user("And?"),
             model="gpt-4"), "text appended", "messages[0] (user)"),
    Pair("a note on the customer after the rules", gpt(rules(), *TALK, model="gpt-5.4"),
         gpt(rules(), {"role": "developer", "content": "A guest."}, *TALK, model="gpt-5.4"), "message inserted",
         "messages[1] (user)"),
    Pair("no note on the customer any more", *(gpt(rules(), *note, *TALK, model="gpt-5.4")
         for note in ([{"role": "developer", "content": "A guest."}], [])), "message removed",
         "messages[1] (developer)"),
    Pair("a year in rules that were rewritten", *(
        gpt({"role": "system", "content": f"{LONG} Norm of {year}: {said}. {LONG}"}, *TALK, model="gpt-5.4")
        for year, said in ((2019, "lock all doors"), (2024, "leave the cellar open at noon"))), "system edited",
        "messages[0] (system)"),
    Pair("an id that is asked about", gpt(rules(), user("Where is the parcel with the id 8f3a-77b1?"), model="gpt-5.4"),
         gpt(rules(), user("Where is the parcel with the id 02cc-19aa?"), model="gpt-5.4"), "question", FIRST),
    Pair("two runs of a tool, each the last message", *(
        gpt(rules(), user("Look."), answer(None, tool_calls=[{"id": "1"}]), result(said, "1"), model="gpt-5.4")
        for said in ("The cellar door is open.", "No file of that name.")), "question", "messages[3] (tool)"),
    Pair("a clock in a body of Gemini's, whose address has the model", *(
         {"systemInstruction": {"parts": [{"text": f"{LONG} It is 14:0{n}."}]},
          "contents": [{"role": "user", "parts": [{"text": "Is it open?"}]}]} for n in (5, 6)), "clock",
         "systemInstruction.parts[0].text"),
    Pair("a deferred tool more", *(opus(text(LONG, **CACHE), tools=[{"name": "a"}, *more])
         for more in ([], [{"name": "b", "defer_loading": True}])), "settings", None),
    Pair("a search of the web that is allowed", *(opus(text(LONG, **CACHE), tools=[*more, {"name": "a"}])
         for more in ([], [{"type": "web_search_20250305", "name": "web_search"}])), "tool added",
         "system, after 0"),
    Pair("citations of a document", *(opus(text(LONG), messages=[{"role": "user", "content": [
         {"type": "document", "source": {"type": "text", "data": LONG}, "citations": {"enabled": on}, **CACHE},
         text("Why?")]}]) for on in (True, False)), "template settings", None),
    Pair("examples in another order before another question", *(
         f"{RULES}\n" + "\n".join(f"Example: {said}" for said in said_in_order) + f"\nQuestion: {ask}"
         for said_in_order, ask in ((PASSAGES, "Why is it so?"), (PASSAGES[::-1], "Since when?"))), "order", "prompt"),
]  # fmt: skip
