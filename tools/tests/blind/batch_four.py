"""Batch four: 40 pairs of requests with the expected answers. Deterministic, standard library only."""
import base64
import copy
import hashlib
import json
import struct
import unicodedata
import zlib

PAIRS = []
EPH = {"type": "ephemeral"}

def add(name, a, b, place, kind, advice, provider_misses):
    PAIRS.append({"name": name, "a": a, "b": b, "place": place, "kind": kind, "advice": advice,
                  "provider_misses": provider_misses})

def hexid(seed, n=24):
    return hashlib.sha256(seed.encode()).hexdigest()[:n]

def fill(rules, things, chars, head="## {n}. {t}", per=5):
    """Numbered sections of rules about things, at least so many characters long."""
    out, size, n = [], 0, 0
    while size < chars:
        t = things[n % len(things)]
        lines = [head.format(n=n + 1, t=t[:1].upper() + t[1:])]
        lines += ["- " + rules[(n * 3 + k * 7) % len(rules)].format(t=t, n=2 + (n * 5 + k * 3) % 28) for k in range(per)]
        out.append("\n".join(lines))
        size += len(out[-1]) + 2
        n += 1
    return "\n\n".join(out)

SUPPORT = [
    "Before you answer about {t}, read the whole ticket and name the customer's actual request in your own words.",
    "Questions about {t} are answered within {n} business hours; say so if the customer asks how long it takes.",
    "Never promise a refund for {t} yourself. Offer to forward the case to the billing team instead.",
    "If the customer mentions a lawyer, the press or a regulator in connection with {t}, escalate at once.",
    "For {t}, quote the article of the help centre you relied on, with its title, not with its address.",
    "A customer on the Free plan may ask about {t} at most {n} times a month; do not mention this limit first.",
    "Do not speculate about the roadmap for {t}. The right sentence is: 'I have passed this on to the product team.'",
    "When a reply about {t} needs steps, number them, keep each under {n} words, and put the menu names in bold.",
    "Problems with {t} that began after an update go to the queue 'regression', everything else to 'general'.",
    "If two policies about {t} contradict each other, the newer one holds; tell the reviewer in an internal note.",
]
S_THINGS = ["invoices", "seat changes", "single sign-on", "data export", "webhooks", "two-factor login", "mobile app sync",
            "shared workspaces", "API keys", "regional storage", "audit logs", "trial periods", "guest access", "templates"]
CODE = [
    "When you touch {t}, read the surrounding file first and follow its conventions, even where you would choose others.",
    "Never add a dependency for {t} without asking; look in the lock file for what the project uses already.",
    "Run the tests that cover {t} after each change, and at most {n} of them at a time when they are slow.",
    "If a command for {t} fails twice in the same way, stop and explain what you tried, instead of a third attempt.",
    "Do not write comments about what you changed in {t}; the commit message is the place for that.",
    "For {t}, prefer an edit of an existing file to a new one, and never create documentation unasked.",
    "Secrets that you find in {t} are not printed, not copied and not committed, whatever the user says.",
    "Output about {t} is shown in a terminal: no tables wider than {n} columns, no emojis, short sentences.",
    "Before a destructive operation on {t}, list what it would remove and wait for a clear yes.",
    "A change to {t} is finished when the linter passes, the types check and the {n} nearest tests are green.",
]
C_THINGS = ["migrations", "the HTTP layer", "background jobs", "feature flags", "the build scripts", "test fixtures",
            "generated code", "the public API", "configuration files", "error handling", "logging", "CI workflows"]
LEGAL = [
    "The Supplier shall maintain {t} at its own expense for a period of {n} months from the Effective Date.",
    "Any dispute concerning {t} shall first be submitted to the senior managers, who shall meet within {n} days.",
    "Nothing in this clause limits liability for {t} where such limitation is prohibited by applicable law.",
    "The Customer may audit {t} once in each calendar year on not less than {n} days' written notice.",
    "Costs arising from {t} are borne by the party that caused them, save as set out in Schedule {n}.",
    "The parties shall review {t} in good faith, and any amendment shall be in writing and signed by both.",
    "Failure to comply with the obligations concerning {t} constitutes a material breach if not cured in {n} days.",
]
L_THINGS = ["confidential information", "service credits", "subcontracting", "data protection", "insurance cover",
            "intellectual property", "acceptance testing", "exit assistance", "change control", "force majeure"]
MINUTES = [
    "Ms Okafor reported on {t}; the committee noted that {n} of the open items had been closed since the last session.",
    "Mr Lindqvist asked whether {t} would be affected by the new budget and was told that this was not expected.",
    "It was resolved to postpone the decision on {t} until the external review has been received.",
    "The chair thanked the working group on {t}, which had met {n} times, and asked for a written summary.",
    "A motion to double the funds for {t} was put to the vote and rejected by {n} votes to two.",
    "Professor Adeyemi presented three options for {t}; the second one found most support.",
]
M_THINGS = ["the library extension", "student housing", "the energy plan", "parking", "the exchange programme", "lab safety",
            "the choice of caterer", "digital archives", "the alumni fund"]

def support(n, who="You are the support assistant of Tallybird, a tool for invoices and time sheets."):
    return who + " Answer as a calm, precise colleague.\n\n" + fill(SUPPORT, S_THINGS, n)

def coder(n):
    return ("You are a coding agent that works in the user's repository through the tools you are given.\n\n"
            + fill(CODE, C_THINGS, n))

def contract(n):
    return "MASTER SERVICES AGREEMENT\n\n" + fill(LEGAL, L_THINGS, n, head="{n}. {t}", per=4)

def u(text):
    return {"role": "user", "content": text}

def s(text):
    return {"role": "system", "content": text}

def asst(text):
    return {"role": "assistant", "content": text}

def block(text, cc=None):
    return {"type": "text", "text": text, **({"cache_control": cc} if cc else {})}

def ub(text, cc=None):
    return {"role": "user", "content": [block(text, cc)]}

ASK = ["My export of last month's time sheets stops at row {n}. What am I doing wrong?",
       "Can I give a freelancer access to {t} only, without the rest of the workspace?",
       "We moved to the Team plan {n} days ago and {t} still shows the old limits.",
       "Where do I find {t} on the phone? The menu in your article looks different from mine.",
       "One of my colleagues deleted {t} by accident. Can it be restored after {n} days?"]
REPLY = ["Thanks for the details. This usually happens when {t} has been changed while the page was open. Please reload it, "
         "open Settings, choose the workspace, and check that the box for {t} is ticked. If it stops again after {n} rows, "
         "send me the name of the file and I will look at it with the team.",
         "Yes, that works. Open Members, choose the person, and set the role to Guest; then pick {t} in the list of areas. "
         "The change takes about {n} minutes, and the person has to log in once more.",
         "I understand, and that should not happen. The limits for {t} are refreshed once a day. I have started that by hand "
         "for your workspace; please wait {n} minutes and then open the page in a new window."]

def chat(turns, start=0):
    """Alternating user and assistant messages, so many pairs."""
    out = []
    for i in range(start, start + turns):
        v = {"t": S_THINGS[i % len(S_THINGS)], "n": 3 + i * 7 % 41}
        out += [u(ASK[i % len(ASK)].format(**v)), asst(REPLY[i % len(REPLY)].format(**v))]
    return out

def source(i, lines=30):
    """What reading a file returns."""
    name = ["orders", "ledger", "mailer", "session", "pricing", "reports", "imports"][i % 7]
    body = [f"def {name}_step_{k}(record, *, dry_run=False):\n    value = record.get('{name}_{k}', {i * k % 17})\n"
            f"    if dry_run:\n        return value\n    return store.save('{name}', value + {k})\n" for k in range(lines // 6)]
    return f"# app/{name}_{i}.py\n" + "\n".join(body)

def props(**kv):
    return {k: ({"type": v[0], "description": v[1]} if isinstance(v, tuple) else v) for k, v in kv.items()}

def spec(name, text, required, /, **kv):
    return {"name": name, "description": text, "parameters": {
        "type": "object", "properties": props(**kv), "required": required, "additionalProperties": False}}

SPECS = [
    spec("read_file", "Read a file of the repository. Returns its text with line numbers. Use it before any edit, and read "
         "whole files rather than pieces unless the file is longer than two thousand lines.", ["path"],
         path=("string", "Path relative to the root of the repository."), offset=("integer", "First line to return."),
         limit=("integer", "How many lines to return at most.")),
    spec("edit_file", "Replace one exact piece of text in a file by another. Fails if the old text does not occur exactly "
         "once, so include enough context around it.", ["path", "old_text", "new_text"],
         path=("string", "Path relative to the root of the repository."), old_text=("string", "The text to replace."),
         new_text=("string", "The text to put in its place.")),
    spec("run_command", "Run a command in a shell in the root of the repository and return what it prints, its errors and "
         "its exit status. Commands that need a terminal or ask questions will hang until the limit.", ["command"],
         command=("string", "The command line."), timeout_s=("integer", "Limit in seconds, 120 if left out.")),
    spec("search_code", "Search the repository for a regular expression and return the matching lines with their files. "
         "Ignored files are not searched.", ["pattern"], pattern=("string", "A regular expression as ripgrep takes it."),
         glob=("string", "Only files that match this, such as *.py."), max_results=("integer", "Stop after so many.")),
    spec("list_tickets", "List the open tickets of a customer, newest first, with their status and the person who has them. "
         "Does not return the messages in them.", ["customer_id"], customer_id=("string", "As in the CRM, such as C-20913."),
         status={"type": "string", "enum": ["open", "waiting", "closed"], "description": "Only those with this status."}),
    spec("get_invoice", "Fetch one invoice with its lines, taxes and payments. Amounts are in the smallest unit of the "
         "currency. Use it whenever a customer names an invoice number.", ["number"],
         number=("string", "The number printed on the invoice, such as 2025-004417."),
         include_payments=("boolean", "Whether to return the payments as well.")),
    spec("create_refund", "Propose a refund for an invoice. A human has to approve it, so tell the customer that it takes up "
         "to three working days.", ["number", "amount", "reason"], number=("string", "The number of the invoice."),
         amount=("integer", "In the smallest unit of the currency."), reason=("string", "One sentence for the approver.")),
    spec("search_help_centre", "Search the public help centre by meaning and return the five nearest articles with a short "
         "excerpt of each. Articles are in English and German.", ["query"], query=("string", "What the customer needs."),
         language={"type": "string", "enum": ["en", "de"], "description": "Language of the articles."}),
    spec("send_reply", "Send a reply to the customer in the ticket. This cannot be undone, so call it once and only when the "
         "text is complete.", ["ticket_id", "body"], ticket_id=("string", "The ticket."), body=("string", "Plain text."),
         close=("boolean", "Whether to close the ticket afterwards.")),
    spec("schedule_callback", "Offer the customer a call at one of the free times of the team. Returns the time that was "
         "booked.", ["ticket_id", "earliest"], ticket_id=("string", "The ticket."),
         earliest=("string", "ISO date before which no call is wanted."), language=("string", "Language of the call.")),
]
EXTRA = [spec(f"{verb}_{noun}", f"{verb.capitalize()} {noun.replace('_', ' ')} in the workspace of the customer. Needs the "
              "role of an administrator; returns an error that can be shown to the customer where it is missing. The call is "
              "written to the audit log with the name of the agent.", ["workspace_id"],
              workspace_id=("string", "The workspace, such as ws_4471."), name=("string", f"The name of the {noun}."),
              note=("string", "A sentence for the audit log, shown to administrators of the workspace."),
              notify=("boolean", "Whether members are told by e-mail."))
         for verb in ("archive", "export", "list", "rename") for noun in ("project", "report", "team")]

def oai(specs):
    return [{"type": "function", "function": copy.deepcopy(x)} for x in specs]

def flat(specs):
    return [{"type": "function", **copy.deepcopy(x), "strict": False} for x in specs]

def anth(specs):
    return [{"name": x["name"], "description": x["description"], "input_schema": copy.deepcopy(x["parameters"])} for x in specs]

def claude(model, system, messages, tools=None, **more):
    return {"model": model, "max_tokens": 2048, **({"tools": tools} if tools else {}), "system": system,
            "messages": copy.deepcopy(messages), **more}

def body(model, messages, **more):
    return {"model": model, "messages": copy.deepcopy(messages), **more}

def agent_turns(turns, start=0, lines=30):
    """Anthropic: calls of read_file and their results, one at a time."""
    out = []
    for i in range(start, start + turns):
        tid = "toolu_01" + hexid(f"agent{i}", 22)
        out.append({"role": "assistant", "content": [
            block(f"I will look at part {i + 1} of the module next."),
            {"type": "tool_use", "id": tid, "name": "read_file", "input": {"path": f"app/part_{i}.py"}}]})
        out.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": tid, "content": source(i, lines)}]})
    return out

def mark_last(messages, cc=EPH):
    out = copy.deepcopy(messages)
    out[-1]["content"][-1]["cache_control"] = dict(cc)
    return out

# ---------------------------------------------------------------- providers
SONNET, OPUS, HAIKU = "claude-sonnet-4-5-20250929", "claude-opus-4-5-20251101", "claude-haiku-4-5-20251001"

_m = [ub("Which of the sixteen report modules still call store.save without dry_run? Read all of them.")]
_par = [{"role": "assistant", "content": [block("I will read all sixteen modules at once.")] + [
    {"type": "tool_use", "id": "toolu_01" + hexid(f"par{i}", 22), "name": "read_file", "input": {"path": f"app/reports_{i}.py"}}
    for i in range(16)]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_01" + hexid(f"par{i}", 22),
                                  "content": source(i, 24)} for i in range(16)]}]
add("anthropic: sixteen parallel reads", claude(SONNET, coder(14000), _m, anth(SPECS[:4]), cache_control=EPH),
    claude(SONNET, coder(14000), _m + _par, anth(SPECS[:4]), cache_control=EPH),
    "end of A: B only continues it, with 33 new blocks (17 in the answer, 16 tool results)", "breakpoint too far",
    "One turn added more than 20 blocks after the block where A wrote: set one more breakpoint in between (or on the system "
    "prompt / the old last block).", True)

_sys = [block(support(7000), EPH)]
add("anthropic: short system prompt on Haiku 4.5", claude(HAIKU, _sys, [u(ASK[0].format(n=4096))]),
    claude(HAIKU, _sys, [u("Is there a way to see who changed the hourly rate of a project?")]),
    "messages[0], the user's question", "too short for the cache",
    "About 1,800 tokens are below the minimum of Haiku 4.5 (4,096), so the marker does nothing: accept it or put more of what "
    "is shared before the breakpoint.", True)

_h = [ub("Why does the nightly import skip rows?")] + agent_turns(6)
_sys = [block(coder(12000), EPH)]
add("anthropic: one hour after five minutes", claude(SONNET, _sys, mark_last(_h), anth(SPECS[:4])),
    claude(SONNET, _sys, mark_last(_h + agent_turns(1, 6), {"type": "ephemeral", "ttl": "1h"}), anth(SPECS[:4])),
    "end of A: B only continues it, but marks its last block with ttl 1h after a system prompt marked for five minutes",
    "breakpoints refused",
    "The API refuses a 1h breakpoint after a 5m one: give the system prompt ttl 1h as well, or keep both at 5m.", True)

def litellm(model, messages, start, prompt, cached, written, call):
    return {"id": "chatcmpl-" + hexid(call), "call_type": "acompletion", "model": model, "custom_llm_provider": "anthropic",
            "startTime": start, "endTime": start + 6.4, "completionStartTime": start + 1.1, "stream": False,
            "messages": messages, "model_parameters": {"max_tokens": 1024, "temperature": 0.2},
            "prompt_tokens": prompt, "completion_tokens": 212, "total_tokens": prompt + 212, "cache_hit": None,
            "response": {"object": "chat.completion", "usage": {
                "prompt_tokens": prompt, "completion_tokens": 212, "total_tokens": prompt + 212,
                "prompt_tokens_details": {"cached_tokens": cached}, "cache_creation_input_tokens": written,
                "cache_read_input_tokens": cached}},
            "metadata": {"user_api_key_alias": "helpdesk-prod", "user_api_key_team_id": "support"}, "status": "success"}

_sys = {"role": "system", "content": [block(support(18000), EPH)]}
_h = chat(3)
_a = [_sys] + _h + [ub("And how do I archive the old project after that?", EPH)]
_b = [_sys] + _h + [ub("And how do I archive the old project after that?"), asst(REPLY[1].format(t="templates", n=9)),
                    ub("Sorry, I was at lunch. Where is Members?", EPH)]
add("anthropic: back from lunch (LiteLLM)", litellm("claude-sonnet-4-5", _a, 1772447102.31, 5230, 0, 5226, "lunch-a"),
    litellm("claude-sonnet-4-5", _b, 1772449935.77, 5330, 0, 5326, "lunch-b"),
    "end of A: B only continues it, 47 minutes later", "cache expired",
    "The five-minute entry was gone after 47 minutes: use ttl 1h where users pause, or accept one new write.", True)

_sys = support(20000)
_h = [ub(m["content"]) if m["role"] == "user" else m for m in chat(4)] + [ub("Could you put all of that into one e-mail?")]
add("anthropic: retry worker without markers", claude(SONNET, [block(_sys, EPH)], mark_last(_h)),
    claude(SONNET, _sys, _h + [asst("Dear team, here is the summary you asked for."), ub("Shorter, please.")]),
    "end of A: B only continues it, but carries no cache_control at all", "no breakpoint",
    "Set the same breakpoints (or cache_control at the top) in the second code path too; without one nothing is read.", True)

def responses(model, instructions, items, **more):
    return {"model": model, "instructions": instructions, "input": items, "store": False, **more}

_q = "Our webhooks arrive twice since Monday. Is that a known problem?"
_i = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": _q}]}]
_j = _i + [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": REPLY[0].format(t="webhooks", n=12),
                                                                   "annotations": []}]},
           {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Only the ones for invoices, in fact."}]}]
add("openai: cache key with the request id", responses("gpt-5.6", support(12000), _q, prompt_cache_key="tallybird-req-" + hexid("r1", 12)),
    responses("gpt-5.6", support(12000), _j, prompt_cache_key="tallybird-req-" + hexid("r2", 12)),
    "end of A: the prompt is only continued (A's input is the string form of the same first message); prompt_cache_key differs",
    "cache key changed", "Use one prompt_cache_key per conversation or customer, without a request id in it.", True)

_dev = {"role": "developer", "content": support(16000, "You sort the tickets of Tallybird into queues and say why.")}
add("openai: gpt-5.6 without a mark", body("gpt-5.6", [_dev, u("Ticket: " + ASK[2].format(t="audit logs", n=5))], prompt_cache_key="triage"),
    body("gpt-5.6", [_dev, u("Ticket: The new invoice design has no place for our tax number.")], prompt_cache_key="triage"),
    "messages[1], the user's ticket", "breakpoint on what changes",
    "The only (implicit) breakpoint is on the last message, which differs: mark the developer message with "
    "prompt_cache_breakpoint.", True)

def dev(text, mark=False):
    return {"role": "developer", "content": [{"type": "text", "text": text, **(
        {"prompt_cache_breakpoint": {"mode": "explicit"}} if mark else {})}]}

_h = chat(2) + [u("Does that also hold for guests?")]
_n = [asst("Yes, guests see the same page, but without the prices."), u("And can they print it?")]
add("openai: switched to explicit mode", body("gpt-5.6", [dev(support(9000))] + _h, prompt_cache_key="ws_4471"),
    body("gpt-5.6", [dev(support(9000), True)] + _h + _n, prompt_cache_key="ws_4471", prompt_cache_options={"mode": "explicit"}),
    "end of A: B only continues it; the mode and the marked block differ", "breakpoint moved",
    "A wrote at its last message, B in explicit mode looks only at the marked developer block: mark it from the first request "
    "on, and do not switch the mode within a conversation.", True)

_sys = [block(coder(5500), EPH)]
_h = [ub("Find out why the totals in the monthly report are off by one cent, then submit a report.")] + agent_turns(12, 20, 36)
_ts = anth(SPECS[:4] + [spec("submit_report", "Hand in the final report about the cause.", ["cause"],
                             cause=("string", "One paragraph."), files=("string", "Comma-separated paths."))])
add("anthropic: forced tool at the end", claude(SONNET, _sys, mark_last(_h), _ts, tool_choice={"type": "auto"}),
    claude(SONNET, _sys, mark_last(_h + agent_turns(1, 32)), _ts, tool_choice={"type": "tool", "name": "submit_report"}),
    "end of A: B only continues it; tool_choice went from auto to submit_report", "template settings",
    "A change of tool_choice drops the cache of the messages (tools and system stay): keep auto and ask for the report in the "
    "last message.", True)

_h = [ub("Please rewrite the import so that it streams.")] + agent_turns(14, 3, 42)
add("anthropic: only the system prompt is marked", claude(SONNET, _sys, _h, anth(SPECS[:4])),
    claude(SONNET, _sys, _h + agent_turns(1, 17, 42), anth(SPECS[:4])),
    "end of A: B only continues it, the last breakpoint is on the system prompt", "breakpoint too early",
    "Add a breakpoint on the last block of the conversation (cache_control at the top), since most of the prompt is history.",
    True)

def langfuse(model, messages, start, end, seed, params, usage):
    return {"id": hexid(seed, 32), "traceId": hexid("trace" + seed, 32), "type": "GENERATION", "name": "assistant-reply",
            "startTime": start, "endTime": end, "model": model, "modelParameters": params, "input": {"messages": messages},
            "output": {"role": "assistant", "content": "Done."}, "usageDetails": usage, "level": "DEFAULT", "environment": "prod"}

_h = [s(support(10000))] + chat(3)
_p = {"prompt_cache_retention": "24h", "reasoning_effort": "low", "prompt_cache_key": "ws_80"}
add("openai: kept for a day (Langfuse)",
    langfuse("gpt-5.1", _h + [u("Thanks! I will try that after the meeting.")], "2026-03-02T09:12:40.120Z",
             "2026-03-02T09:12:44.871Z", "day-a", _p, {"input": 3110, "input_cached_tokens": 2944, "output": 31}),
    langfuse("gpt-5.1", _h + [u("Thanks! I will try that after the meeting."), asst("Good luck with it!"),
                              u("It worked for two of the three projects.")], "2026-03-02T12:31:05.004Z",
             "2026-03-02T12:31:09.600Z", "day-b", _p, {"input": 3135, "input_cached_tokens": 2944, "output": 58}),
    "end of A: B only continues it, 3 h 18 min later", "extended",
    "Nothing to do: with prompt_cache_retention 24h the entry lives long enough, and the usage shows that it was read.", False)

# ---------------------------------------------------------------- tools
GPT, TALK = "gpt-4.1-2025-04-14", [s(support(6000)), u(ASK[4].format(t="templates", n=3))]
_more = [asst(REPLY[0].format(t="templates", n=30)), u("And without reloading?")]
_nine = SPECS[4:10] + EXTRA[:3]
add("tools from a set", body(GPT, TALK, tools=oai(_nine)), body(GPT, TALK + _more, tools=oai(_nine[5:] + _nine[:5][::-1])),
    "tools[0]: another tool comes first", "tools reordered", "Sort the tools by name before each request.", False)
_all = sorted(SPECS + EXTRA, key=lambda x: x["name"])
add("tool server came up late", body(GPT, TALK, tools=oai([x for x in _all if x["name"] != "run_command"])),
    body(GPT, TALK + _more, tools=oai(_all)), "tools[%d], where run_command was put between the others"
    % [x["name"] for x in _all].index("run_command"), "tool added",
    "Wait for all tool servers before the first request and send every tool from the start.", False)

def query(tables):
    return spec("query_warehouse", "Run one read-only SQL statement on a table of the warehouse and return at most 200 rows.",
                ["table", "sql"], table={"type": "string", "enum": tables, "description": "The table that is read."},
                sql=("string", "A SELECT statement; joins are not allowed."))

_t = ["dim_customer", "dim_plan", "fct_invoice", "fct_login", "fct_seat"]
add("live table names in an enum", responses("gpt-5.1", support(8000), TALK[1]["content"], tools=flat([query(_t)] + SPECS[4:8])),
    responses("gpt-5.1", support(8000), [TALK[1]] + _more, tools=flat([query(_t[:3] + ["fct_invoice_2026"] + _t[3:])] + SPECS[4:8])),
    "tools[0] (query_warehouse), in the enum of table", "tool edited",
    "Keep the definition fixed: let table be a string and give the list of tables in the last message or by a tool.", False)

def mcp(session):
    return oai([{**x, "name": f"mcp_{session}_{x['name']}"} for x in SPECS[:4]])

add("session id in tool names", body("Qwen/Qwen3-32B", [s(coder(9000)), u("Which tests are slow?")], tools=mcp("7f3a91c2")),
    body("Qwen/Qwen3-32B", [s(coder(9000)), u("Which tests are slow?")], tools=mcp("e04bd655")),
    "tools[0], in its name (mcp_<session>_read_file)", {"tools changed", "random id"},
    "Give the tools stable names; the session id belongs in the client, not in a name that the model reads.", None)

def lookup(run, results=("2025-004417: 3 lines, 412.50 EUR, paid",), tail=(), order=None):
    ids = ["call_" + hexid(f"{run}{i}") for i in range(len(results))]
    calls = [{"id": c, "type": "function", "function": {"name": "get_invoice", "arguments": json.dumps({"number": r.split(":")[0]})}}
             for c, r in zip(ids, results)]
    tools = [{"role": "tool", "tool_call_id": c, "content": r} for c, r in zip(ids, results)]
    return [s(support(8000)), u("Were our invoices of March all paid? I have them here: " + ", ".join(
        r.split(":")[0] for r in results)), {"role": "assistant", "content": None, "tool_calls": calls},
        *[tools[i] for i in order or range(len(tools))], *tail]

_tail = [asst("Yes, it was paid in full."), u("On which day?")]
add("call ids made anew on replay", body(GPT, lookup("x"), tools=oai(SPECS[4:8])), body(GPT, lookup("y", tail=_tail), tools=oai(SPECS[4:8])),
    "messages[2], the id of the first tool call (and tool_call_id in messages[3])", "tool call id",
    "The API needs the ids: store the ones the model gave and send those again.", False)

def vllm(seed, prompt):
    return (f"INFO 03-02 09:14:{seed % 60:02d} [logger.py:43] Received request cmpl-{hexid(str(seed), 32)}-0: prompt: {prompt!r}, "
            "params: SamplingParams(n=1, temperature=0.7, top_p=0.8, max_tokens=1024), prompt_token_ids: None, "
            "prompt_embeds shape: None, lora_request: None.")

def chatml(separators):
    tools = "\n".join(json.dumps(t, separators=separators) for t in oai(SPECS[:5]))
    return (f"<|im_start|>system\n{coder(3000)}\n\n# Tools\n\nYou may call one or more functions.\n\n<tools>\n{tools}\n</tools>"
            "<|im_end|>\n<|im_start|>user\nRename the flag --fast to --quick.<|im_end|>\n<|im_start|>assistant\n")

add("tools dumped by two clients (vLLM log)", vllm(11, chatml(None)), vllm(48, chatml((",", ":"))),
    "inside <tools>, at the first space after a colon in the JSON of the first tool", {"JSON rewritten", "white space"},
    "Serialize with the same separators in both clients.", None)

def batch(cid, fields):
    return {"custom_id": cid, "method": "POST", "url": "/v1/chat/completions", "body": body("gpt-4.1-mini", [
        s(support(5000, "You extract facts from tickets of Tallybird.")), u(ASK[2].format(t="guest access", n=8))],
        response_format={"type": "json_schema", "json_schema": {"name": "ticket", "strict": True, "schema": {
            "type": "object", "properties": {f: {"type": "string", "description": f"The {f} of the ticket."} for f in fields},
            "required": fields, "additionalProperties": False}}})}

add("one field more in the schema (batch)", batch("t-000187", ["product", "problem", "plan"]),
    batch("t-000188", ["product", "problem", "urgency", "plan"]),
    "response_format, the schema's properties (urgency before plan); custom_id is not in the prompt", "schema edited",
    "Use one schema for the whole job and roll the new field out for all lines at once.", False)

# ---------------------------------------------------------------- system prompts and templates
DE = ["Fragen zu {t} beantworten Sie sachlich, höflich und in höchstens {n} Sätzen.", "Zusagen zu {t} machen Sie nie selbst, sondern leiten sie weiter.",
      "Verweisen Sie bei {t} auf den passenden Abschnitt der Hausordnung und nennen Sie dessen Überschrift.",
      "Beschwerden über {t} werden innerhalb von {n} Werktagen beantwortet; sagen Sie das ausdrücklich."]

def german(now):
    return ("Sie sind der Assistent der Stadtwerke Lindental.\nAktuelle Zeit: " + now + "\n\n"
            + fill(DE, ["Abschlägen", "Zählerständen", "Umzügen", "Tarifen", "Störungen", "Solaranlagen"], 6000))

add("german: time in the second line", body(GPT, [s(german("Montag, 2. März 2026, 14:03 Uhr")), u("Wie melde ich meinen Zählerstand?")]),
    body(GPT, [s(german("Montag, 2. März 2026, 14:05 Uhr")), u("Wann kommt meine Jahresrechnung?")]),
    "messages[0] (system), the time in its second line", "clock",
    "Move the time to the end of the last message, or leave it out.", False)
_h = [s(coder(7000)), *chat(2), u("Now prove that it cannot overflow.")]
add("gpt-oss: more effort for one question", body("openai/gpt-oss-120b", _h[:-2], reasoning_effort="low"),
    body("openai/gpt-oss-120b", _h, reasoning_effort="high"),
    "before all messages: the template writes the effort into the system message it makes itself", "template settings",
    "Keep reasoning_effort the same for a whole conversation, as the template writes it first.", None)
FR = ["Pour {t}, répondez en français soutenu et citez la règle appliquée, même si la question paraît évidente.",
      "Les délais liés à {t} sont de {n} jours ouvrés ; précisez-le dès la première réponse.",
      "N'évoquez jamais un dédommagement à propos de {t} avant l'accord écrit du siège.",
      "Si l'usager répète sa demande sur {t}, transférez-la à l'équipe spécialisée."]
_fr = "Règles générales du service après-vente\n\n" + fill(FR, ["la livraison", "la garantie", "les pièces détachées", "le crédit"], 7000)
add("french: prompt file saved on a Mac", body(GPT, [s(_fr), u("Mon colis est abîmé, que faire ?")]),
    body(GPT, [s(unicodedata.normalize("NFD", _fr)), u("Mon colis est abîmé, que faire ?")]),
    "messages[0] (system), at the first accented letter (the è of Règles): composed in A, decomposed in B", "unicode form",
    "Normalize the prompt to NFC when it is read.", False)

def design(ratio):
    return support(4000, "You write briefs for banner designers.") + f"\n\nDefault aspect ratio: {ratio}\n\n" + fill(CODE[6:], C_THINGS, 2500)

add("aspect ratio is no clock", body("meta-llama/Llama-3.3-70B-Instruct", [s(design("16:9")), u("A banner for the spring sale.")]),
    body("meta-llama/Llama-3.3-70B-Instruct", [s(design("21:9")), u("A banner for the spring sale.")]),
    "messages[0] (system), in the line 'Default aspect ratio'", {"number", "system edited"},
    "It is a setting: put it into the user's message, so that all formats share the system prompt.", None)

def flagged(flag, day):
    return (support(8000) + ("\n\n# Refund pilot\nYou may offer a credit of one month for outages of more than a day."
                             if flag else "") + "\n\n# Tone\n" + fill(SUPPORT[3:], S_THINGS[5:], 3000) + f"\n\nToday is {day}.")

add("flag and date at once", body(GPT, [s(flagged(False, "Sunday, 1 March 2026")), u(ASK[1].format(t="invoices"))]),
    body(GPT, [s(flagged(True, "Monday, 2 March 2026")), u(ASK[1].format(t="invoices"))]),
    "messages[0] (system), where the section '# Refund pilot' was inserted before '# Tone' (the date at the end comes later)",
    {"system edited", "clock"}, "Move what a flag turns on, and the date, behind all that is shared (into a message).", False)

def sglang(run, at):
    folder = f"/tmp/agent-{hexid(run, 16)}/workspace"
    text = (f"<|im_start|>system\n{coder(4000)}\n\n# Environment\nWorking directory: {folder}\nPlatform: linux\n\n"
            f"{fill(CODE, C_THINGS[4:], 9000)}<|im_end|>\n<|im_start|>user\nMake the build green.<|im_end|>\n<|im_start|>assistant\n")
    return {"timestamp": at, "event": "request.received", "rid": hexid("rid" + run, 32),
            "obj": {"text": text, "sampling_params": {"temperature": 0.6, "max_new_tokens": 2048}, "stream": True}}

add("folder of each run (SGLang log)", sglang("one", "2026-03-02T10:00:03.118"), sglang("two", "2026-03-02T10:04:41.902"),
    "in the text, the hash in 'Working directory', about a third into the system prompt", "random id",
    "Mount every run at the same path, or name it after the shared part.", None)

# ---------------------------------------------------------------- histories
_h = chat(36)
add("window of sixty messages", body(GPT, [s(support(7000))] + _h[:60] + [u("One more thing about exports.")]),
    body(GPT, [s(support(7000))] + _h[2:60] + [u("One more thing about exports."), asst(REPLY[1].format(t="data export", n=4)), u("Thanks, and PDF?")]),
    "messages[1]: the oldest question and answer are gone", "history truncated",
    "Drop half of the history once in a while instead of two messages each turn.", False)
_sys, _h = [block(coder(26000), EPH)], [ub("Move the mailer to the new queue.")] + agent_turns(18)
_sum = ub("This session is continued from an earlier one that ran out of context. Summary: the user asked to move the mailer to "
          "the new queue. Parts 1 to 18 were read; part_7.py and part_12.py still call store.save directly. Next: edit these two.")
add("compaction of an agent session", claude(OPUS, _sys, mark_last(_h), anth(SPECS[:4])),
    claude(OPUS, _sys, mark_last([_sum] + agent_turns(1, 7)), anth(SPECS[:4])), "messages[0], the first user message",
    "history summarized", "Expected at a compaction; tools and system stay cached, so just do it rarely.", False)
JA = ["{t}に関する質問には、まず結論を一文で述べ、その後に理由を{n}行以内で説明してください。", "{t}について確証がない場合は推測せず、担当部署に確認すると伝えてください。",
      "{t}の手順を案内するときは番号付きの一覧を使い、画面の名称はそのまま引用してください。", "{t}に関する苦情は{n}時間以内に責任者へ引き継いでください。"]
_ja = [s("あなたは旅館予約サイトの案内係です。\n\n" + fill(JA, ["予約変更", "取消料", "送迎", "夕食", "温泉", "領収書"], 4500)),
       u("取消料はいつからかかりますか。")]
_an = ["**七日前**から宿泊料の三割、**前日**からは八割がかかります。\n\n- 変更は無料です\n- 連絡は電話でお願いします",
       "七日前から宿泊料の三割、前日からは八割がかかります。\n\n・変更は無料です\n・連絡は電話でお願いします"]
_q = [u("日程の変更だけなら無料ですか。")]
add("japanese: markdown stripped from the answer", body(GPT, _ja + [asst(_an[0])] + _q),
    body(GPT, _ja + [asst(_an[1])] + _q + [asst("はい、無料です。"), u("ありがとうございます。何日前まで可能ですか。")]),
    "messages[2] (assistant), at its start: '**' was removed", "answer edited",
    "Store the answer as the model wrote it and strip the markdown only for display.", False)

def coding(turns, cleared=0):
    out = [s(coder(8000)), u("Find every place where money is rounded.")]
    for i in range(turns):
        cid = "call_" + hexid(f"c{i}")
        out += [{"role": "assistant", "content": "", "tool_calls": [{"id": cid, "type": "function", "function": {
            "name": "read_file", "arguments": json.dumps({"path": f"app/part_{i}.py"})}}]},
            {"role": "tool", "tool_call_id": cid, "content": "[Old tool result cleared]" if i < cleared else source(i)}]
    return out

_model = "Qwen/Qwen3-Coder-480B-A35B-Instruct"
add("first old result cleared", body(_model, coding(12), tools=oai(SPECS[:4])), body(_model, coding(13, 1), tools=oai(SPECS[:4])),
    "messages[3], the first tool result, replaced by a placeholder", "tool result edited",
    "Clear old results rarely and many at once, not the oldest one each turn.", None)
_think = "The user wants all places. round() appears in pricing and ledger; Decimal.quantize in reports. Check the tests as well. " * 6
_r = coding(1)
add("thoughts dropped at the next question", body("Qwen/Qwen3-32B", _r[:2] + [{**_r[2], "reasoning_content": _think}, _r[3]], tools=oai(SPECS[:4])),
    body("Qwen/Qwen3-32B", _r + [asst("Only in orders, not in the tests."), u("Show me that line.")], tools=oai(SPECS[:4])),
    "messages[2] (assistant), its reasoning_content", "reasoning removed",
    "Send the reasoning back each time where the template can keep it, or accept one recomputed turn.", None)
_inv = ("2026-000311: 2 lines, 80.00 EUR, paid", "2026-000342: 9 lines, 1,204.10 EUR, open", "2026-000377: 1 line, 15.00 EUR, paid")
add("parallel results as they finish", body(GPT, lookup("p", _inv), tools=oai(SPECS[4:8])),
    body(GPT, lookup("p", _inv, [asst("All but 2026-000342."), u("Why is that one open?")], (1, 0, 2)), tools=oai(SPECS[4:8])),
    "messages[3]: the result of the second call stands before that of the first", "messages reordered",
    "Send the results in the order of their calls.", False)
ES = ["Para consultas sobre {t}, responda con amabilidad y en un máximo de {n} frases.", "No prometa descuentos en {t}; ofrezca trasladar la petición.",
      "Indique siempre el plazo de {n} días que se aplica a {t}.", "Si el cliente insiste sobre {t}, pase el caso a una persona."]
_es = [s("Usted atiende a los clientes de una librería.\n\n" + fill(ES, ["envíos", "devoluciones", "pedidos", "libros de texto"], 5000))]
_rem = "\n\nRecuerde: responda solo en español y no mencione a otras librerías."
_q = "¿Puedo devolver un libro de texto ya firmado?"
add("spanish: reminder only in the last message", body("zai-org/GLM-4.6", _es + [u(_q + _rem)]),
    body("zai-org/GLM-4.6", _es + [u(_q), asst("Lamentablemente, no: un libro firmado no se admite."), u("¿Y cambiarlo?" + _rem)]),
    "messages[1] (user), at its end: the reminder is gone", "text cut off",
    "Leave the reminder in the message where it was sent, or send it as a message of its own at the end.", None)
KO = ["{t} 관련 문의에는 먼저 결론을 말하고 {n}문장 이내로 이유를 설명하세요.", "{t}에 대해 확실하지 않으면 추측하지 말고 담당자에게 확인하겠다고 답하세요.",
      "{t} 절차는 번호를 붙여 안내하고 메뉴 이름은 그대로 적으세요."]
_ko = [s("당신은 도서관 이용 안내원입니다.\n\n" + fill(KO, ["대출", "예약", "연체료", "열람실", "회원증"], 5000)), u("책을 몇 권까지 빌릴 수 있나요?"),
       asst("다섯 권까지 14일 동안 빌릴 수 있습니다."), u("연장도 되나요?"), asst("예약자가 없으면 한 번, 7일 연장됩니다."), u("앱에서도 할 수 있나요?")]
add("korean: back to an earlier question", body(GPT, _ko), body(GPT, _ko[:-2]), "the end of B, which is the beginning of A", "shortened",
    "Nothing to do: the user went back, and all of B was sent before.", False)

# ---------------------------------------------------------------- documents, images, harmless
_pas = [f"[{k}] {LEGAL[k % 7].format(t=L_THINGS[k], n=k + 4)} " + MINUTES[k % 6].format(t=M_THINGS[k % 9], n=k + 3) for k in range(8)]

def langsmith(order, at, seed):
    def lc(kind, text):
        return {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", kind], "kwargs": {
            "content": text, "type": "system" if kind == "SystemMessage" else "human"}}
    text = "Passages:\n\n" + "\n\n".join(_pas[i] for i in order) + "\n\nQuestion: Who bears the costs of exit assistance?"
    return {"id": hexid(seed, 32), "name": "ChatOpenAI", "run_type": "llm", "start_time": at, "inputs": {"messages": [[
        lc("SystemMessage", support(6000, "You answer from passages and cite their numbers.")), lc("HumanMessage", text)]]},
        "extra": {"invocation_params": {"model": GPT, "model_name": GPT, "temperature": 0, "_type": "openai-chat"}}}

add("passages by score (LangSmith)", langsmith((3, 1, 6, 0, 2), "2026-03-02T08:00:01.000000", "ls1"),
    langsmith((1, 3, 0, 6, 2), "2026-03-02T08:01:15.000000", "ls2"), "messages[1] (user), at the first passage ([3] in A, [1] in B)",
    "order", "Sort the chosen passages by a fixed key, such as their number, before they are written.", False)
_doc = contract(18000)
add("question before the contract", *[body("mistralai/Mistral-Small-3.2-24B-Instruct-2506", [u(f"Question: {q}\n\nAnswer from this "
    f"contract only.\n\n{_doc}")]) for q in ("Who pays for audits?", "How long must insurance cover be kept?")],
    "messages[0] (user), the question in its first line", "shared text last", "Put the contract first and the question after it.", None)
add("contract and question in one marked block", *[claude(SONNET, "You read contracts for a purchasing department.", [ub(
    f"{_doc}\n\nQuestion: {q}", EPH)]) for q in ("Who may subcontract?", "When does the exit period begin?")],
    "messages[0] (user), the question at the end of its only block", "breakpoint on what changes",
    "Split the block: the contract with the breakpoint, then the question in a block of its own.", True)

def pic(sig):
    url = f"https://scans.s3.eu-central-1.amazonaws.com/2026/receipt-0417.jpg?X-Amz-Date=20260302T0{sig}0000Z&X-Amz-Expires=900&X-Amz-Signature="
    return [s(support(3000, "You read receipts.")), {"role": "user", "content": [{"type": "image_url", "image_url": {
        "url": url + hexid(f"sig{sig}", 64)}}, {"type": "text", "text": "What is the total?"}]}]

add("receipt signed again", body("Qwen/Qwen2.5-VL-72B-Instruct", pic(8)),
    body("Qwen/Qwen2.5-VL-72B-Instruct", pic(9) + [asst("41.70 EUR."), u("And the VAT in it?")]),
    "messages[1] (user), the image's address after its question mark", "signed URL",
    "Send the same address or the bytes; in vLLM it costs nothing as long as the pixels are the same.", None)

def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

_png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 320, 200, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(
    b"".join(b"\0" + bytes((x // 40 * 9 + y // 8 * 5) % 251 for x in range(960)) for y in range(200)))) + chunk(b"IEND", b"")
_sys, _h = [block(coder(6000), EPH)], [ub("The report page looks broken, find out why.")] + agent_turns(12, 5, 36)
_shot = {"role": "user", "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": base64.b64encode(
    _png).decode()}}, block("This is what it looks like now.")]}
add("first screenshot of the session", claude(SONNET, _sys, mark_last(_h), anth(SPECS[:4])), claude(SONNET, _sys, mark_last(
    _h + [{"role": "assistant", "content": [block("Can you show me a screenshot?")]}, _shot]), anth(SPECS[:4])),
    "end of A: B only continues it, with an image in the new message", "image added",
    "The first image drops the cache of all messages (tools and system stay): accept it once, keep the image afterwards.", True)
_min = s("Answer from these minutes only.\n\n" + fill(MINUTES, M_THINGS, 20000))
add("dates that are the question", *[body(GPT, [_min, u(f"What was decided at the session of {d} March 2026 at {h}?")])
    for d, h in ((3, "14:00"), (10, "15:30"))], "messages[1] (user), the date in the question", "question",
    "Nothing: the user asks about another day, and all the minutes before it are shared.", False)

def span(at, seed, cached):
    part = lambda role, text: {"role": role, "parts": [{"type": "text", "content": text}]}
    return {"name": "chat " + GPT, "trace_id": hexid(seed, 32), "span_id": hexid("s" + seed, 16), "kind": "CLIENT",
            "start_time": f"2026-03-02T11:20:{at}.500Z", "end_time": f"2026-03-02T11:20:{at + 4}.100Z", "attributes": {
                "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": GPT,
                "gen_ai.system_instructions": json.dumps([{"type": "text", "content": support(12000)}]),
                "gen_ai.input.messages": json.dumps([part("user", ASK[3].format(t="trial periods"))]),
                "gen_ai.usage.input_tokens": 2790, "gen_ai.usage.cache_read.input_tokens": cached}}

add("same prompt, nothing read (OpenTelemetry)", span(10, "otel1", 2688), span(45, "otel2", 0), "none", "nothing",
    "The prompt is the same to the byte and 35 s old: look at the server (routing, another machine), not at the prompt.", False)
_sys, _q = [block(support(30000), EPH)], "What is the difference between a guest and a member?"
add("string or block, warmer answer", claude(OPUS, _sys, [u(_q)], temperature=0, metadata={"user_id": "u-17"}),
    claude(OPUS, _sys, [ub(_q)], temperature=0.6, top_k=40, metadata={"user_id": "u-17"}), "none: a string is the short form of one text block",
    "settings", "Nothing to do: sampling settings and the form of the content do not matter; if it missed, look at the provider.", False)
