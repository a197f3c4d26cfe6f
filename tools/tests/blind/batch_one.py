"""40 pairs of requests (A sent before B) with expected answers.

kind: a name that `minikv why --kinds` lists, without "(harmless)", or a set of names where several are right.
Where a rule of the provider is why B misses, the kind is that rule, not the harmless change of the text.
provider_misses: a shared prefix under some 200 tokens counts as none. Sources: Anthropic's prompt-caching guide
(github anthropics/skills, claude-api/shared/prompt-caching.md), OpenAI's prompt-caching guide and API reference.
"""
import base64
import copy
import hashlib
import json
import random
import struct
import zlib

PAIRS = []


def add(name, a, b, place, kind, advice, misses):
    PAIRS.append({"name": name, "a": a, "b": b, "place": place, "kind": kind, "advice": advice, "provider_misses": misses})


# ---------------------------------------------------------------- texts
EN = ("{A} must be confirmed with {B} before {C}.", "If {B} cannot be reached, record {A} and continue with {C}.",
      "Never promise {C}; explain instead that {A} is reviewed by {B}.", "For {C}, quote {A} word for word.",
      "When a customer disputes {A}, open a case with {B} and mention {C}.",
      "{B} decides about {A}; you may only describe {C}.")
EN_W = (("the delivery window", "the invoice total", "a change of address", "the warranty period", "the meter reading",
         "a partial refund", "the contract number", "the cancellation notice", "a damaged parcel", "the service level"),
        ("the billing desk", "the regional depot", "a shift supervisor", "the claims team", "the network operator",
         "the account manager", "the fraud desk", "the field engineer"),
        ("closing the ticket", "a goodwill credit", "an expedited replacement", "a callback on the same day",
         "returns from abroad", "business accounts", "a second visit", "escalations outside office hours"))
DE = ("{A} ist vor {C} mit {B} abzustimmen.", "Ist {B} nicht erreichbar, wird {A} vermerkt und {C} fortgesetzt.",
      "Bei {C} gilt: {A} entscheidet ausschließlich {B}.", "Über {C} darf erst nach Prüfung durch {B} gesprochen werden.")
DE_W = (("die Rechnungskorrektur", "der Liefertermin", "die Zählerablesung", "der Tarifwechsel", "die Vertragslaufzeit"),
        ("die Buchhaltung", "das Regionallager", "die Schichtleitung", "die Netzstelle"),
        ("Rücksendungen", "Gutschriften", "Gewerbekunden", "Umzügen", "Reklamationen"))
FR = ("{A} doit être confirmé par {B} avant {C}.", "Si {B} est injoignable, notez {A} et poursuivez {C}.",
      "Ne promettez jamais {C} : {A} relève de {B}.", "Pour {C}, citez {A} mot pour mot.")
FR_W = (("le montant du devis", "le délai de rétractation", "le numéro de dossier", "le relevé d'identité"),
        ("le service sinistres", "l'agence locale", "le gestionnaire", "la direction juridique"),
        ("toute indemnisation", "la clôture du dossier", "un rendez-vous d'expertise", "la résiliation"))
ES = ("{A} se confirma con {B} antes de {C}.", "Si {B} no responde, anote {A} y continúe con {C}.",
      "No prometa {C}: {A} lo decide {B}.", "Para {C}, cite {A} literalmente.")
ES_W = (("el importe de la factura", "la fecha de entrega", "el número de póliza", "el cambio de domicilio"),
        ("el departamento de cobros", "la oficina central", "el técnico de zona", "la supervisora"),
        ("cerrar el caso", "una devolución", "las altas de empresa", "una segunda visita"))
PT = ("{A} deve ser confirmado com {B} antes de {C}.", "Se {B} não responder, registre {A} e siga com {C}.",
      "Não prometa {C}; {A} é decidido por {B}.", "Para {C}, cite {A} literalmente.")
PT_W = (("o valor da fatura", "o prazo de entrega", "o número do contrato", "o endereço de cobrança"),
        ("o setor financeiro", "a central técnica", "a supervisão", "a equipe de fraude"),
        ("encerrar o chamado", "um estorno", "contas empresariais", "uma nova visita"))


def prose(chars, seed, lang=(EN, EN_W), head="Section"):
    rng, out, n, size = random.Random(seed), [], 0, 0
    while size < chars:
        n += 1
        lines = [f"## {head} {n}"]
        for k in range(6):
            s = rng.choice(lang[0]).format(**{x: rng.choice(w) for x, w in zip("ABC", lang[1])})
            lines.append(f"{n}.{k + 1} {s[0].upper()}{s[1:]}")
        out.append("\n".join(lines))
        size += len(out[-1]) + 2
    return "\n\n".join(out)


def support(org, chars, seed):
    return f"You are the support assistant of {org}. Answer briefly and follow the rules below.\n\n" + prose(chars, seed)


TURNS = [("My parcel was marked as delivered but it is not here.", "I am sorry. Could you check with your neighbours first?"),
         ("They have nothing. The driver left no card either.", "Thank you. I have opened a search with the depot."),
         ("How long does that take?", "The depot answers within two working days."),
         ("Can I get the shoes replaced instead?", "Yes, once the depot confirms the loss."),
         ("And if they are sold out in my size?", "Then the full price is refunded to your card."),
         ("Does the refund include shipping?", "Yes, standard shipping is included."),
         ("I paid part of it with a gift card.", "That part goes back to the gift card.")]


def talk(n, last=None):
    """n finished turns, then a user message."""
    out = []
    for k in range(n):
        u, v = TURNS[k % len(TURNS)]
        tag = "" if k < len(TURNS) else f" (order {3100 + 17 * (k // len(TURNS))})"
        out += [{"role": "user", "content": u + tag}, {"role": "assistant", "content": v + tag}]
    return out + ([{"role": "user", "content": last}] if last else [])


def sysm(text):
    return {"role": "system", "content": text}


def chat(model, messages, **more):
    return {"model": model, "messages": messages, **more}


CC = {"type": "ephemeral"}


def block(text, cc=None):
    return {"type": "text", "text": text, **({"cache_control": cc} if cc else {})}


def claude(model, system, messages, **more):
    return {"model": model, "max_tokens": 2048, "system": system, **more, "messages": messages}


TOOL_SPECS = [
    ("search_orders", "Search the orders of a customer by e-mail address, status and period.",
     {"email": {"type": "string", "format": "email"}, "status": {"type": "string", "enum": ["open", "shipped", "returned"]},
      "limit": {"type": "integer", "minimum": 1, "maximum": 50}}, ["email"]),
    ("get_order", "Read one order with its lines, payments and parcels.",
     {"order_id": {"type": "string", "pattern": "^SO-[0-9]{6}$"}}, ["order_id"]),
    ("refund_line", "Refund one line of an order. Needs a reason the customer has agreed to.",
     {"order_id": {"type": "string"}, "line": {"type": "integer"}, "reason": {"type": "string"},
      "amount_cents": {"type": "integer", "minimum": 1}}, ["order_id", "line", "reason"]),
    ("track_parcel", "Ask the carrier where a parcel is.",
     {"tracking_number": {"type": "string"}, "carrier": {"type": "string", "enum": ["dhl", "ups", "gls", "dpd"]}},
     ["tracking_number"]),
    ("create_ticket", "Open a ticket for a human colleague with a summary of the conversation.",
     {"summary": {"type": "string", "maxLength": 800}, "priority": {"type": "string", "enum": ["low", "normal", "high"]},
      "tags": {"type": "array", "items": {"type": "string"}}}, ["summary"]),
    ("read_file", "Read a text file of the workspace, optionally a range of lines.",
     {"path": {"type": "string"}, "start": {"type": "integer"}, "end": {"type": "integer"}}, ["path"]),
]


def schema(props, req):
    return {"type": "object", "properties": copy.deepcopy(props), "required": list(req), "additionalProperties": False}


def a_tools(idx=range(6)):
    return [{"name": n, "description": d, "input_schema": schema(p, r)} for n, d, p, r in (TOOL_SPECS[i] for i in idx)]


def o_tools(idx=range(6), flat=False):
    out = []
    for n, d, p, r in (TOOL_SPECS[i] for i in idx):
        f = {"name": n, "description": d, "parameters": schema(p, r)}
        out.append({"type": "function", **f} if flat else {"type": "function", "function": f})
    return out


def hexid(*parts, n=32):
    return hashlib.sha256("/".join(map(str, parts)).encode()).hexdigest()[:n]


def uuid(*parts):
    h = hexid(*parts)
    return f"{h[:8]}-{h[8:12]}-4{h[13:16]}-a{h[17:20]}-{h[20:32]}"


# ---------------------------------------------------------------- forms of logs
def otel(name, model, system, messages, nano, used, read):
    parts = [{"role": m["role"], "parts": [{"type": "text", "content": m["content"]}]} for m in messages]
    return {"name": f"chat {model}", "traceId": hexid("t", name), "spanId": hexid("s", name, n=16), "kind": 3,
            "startTimeUnixNano": str(nano), "endTimeUnixNano": str(nano + 2_400_000_000),
            "attributes": {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": model,
                           "gen_ai.system_instructions": json.dumps([{"type": "text", "content": system}], ensure_ascii=False),
                           "gen_ai.input.messages": json.dumps(parts, ensure_ascii=False),
                           "gen_ai.usage.input_tokens": used, "gen_ai.usage.cache_read.input_tokens": read}}


def langsmith(name, messages, start, model="gpt-4.1"):
    cls = {"system": "SystemMessage", "user": "HumanMessage", "assistant": "AIMessage", "tool": "ToolMessage"}
    short = {"system": "system", "user": "human", "assistant": "ai", "tool": "tool"}
    lc = []
    for m in messages:
        kw = {"content": m["content"], "type": short[m["role"]]}
        if "tool_calls" in m:
            kw["additional_kwargs"] = {"tool_calls": m["tool_calls"]}
        if "tool_call_id" in m:
            kw["tool_call_id"] = m["tool_call_id"]
        lc.append({"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", cls[m["role"]]], "kwargs": kw})
    return {"id": uuid("run", name), "name": "ChatOpenAI", "run_type": "llm", "start_time": start,
            "inputs": {"messages": [lc]}, "extra": {"invocation_params": {"model": model, "_type": "openai-chat"}}}


def litellm(name, model, provider, messages, start, prompt_tokens, cached):
    return {"id": "chatcmpl-" + uuid("ll", name), "call_type": "acompletion", "custom_llm_provider": provider, "model": model,
            "startTime": start, "endTime": start + 3.2, "messages": messages,
            "model_parameters": {"max_tokens": 1024, "temperature": 0.2}, "prompt_tokens": prompt_tokens,
            "completion_tokens": 180, "response": {"usage": {"prompt_tokens": prompt_tokens,
                                                             "prompt_tokens_details": {"cached_tokens": cached}}}}


def langfuse(name, messages, start, model="gpt-4.1"):
    return {"id": uuid("lf", name), "type": "GENERATION", "name": "answer", "traceId": uuid("lt", name), "startTime": start,
            "model": model, "modelParameters": {"temperature": 0.3}, "input": {"messages": messages}}


def vllm(rid, when, prompt, max_tokens=512):
    return (f"INFO {when} [logger.py:43] Received request {rid}: prompt: {prompt!r}, params: SamplingParams(n=1, "
            f"temperature=0.0, top_p=1.0, max_tokens={max_tokens}), prompt_token_ids: None, prompt_embeds shape: None, "
            "lora_request: None.")


def sglang_ids(rid, when, ids):
    return {"timestamp": when, "event": "request.received", "rid": rid,
            "obj": {"rid": rid, "text": None, "input_ids": ids, "sampling_params": {"max_new_tokens": 256, "temperature": 0}}}


def chatml(messages):
    return "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages) + "<|im_start|>assistant\n"


# ================================================================ 1. the providers' rules
def rules():
    s = support("Nordwind Parcels", 14000, 1)
    add("claude-no-marker", claude("claude-sonnet-4-5-20250929", s, talk(2, "How long does that take?")),
        claude("claude-sonnet-4-5-20250929", s, talk(3, "Can I get the shoes replaced instead?")), "end of A", "no breakpoint",
        "The prompts are fine, but without any cache_control Anthropic caches nothing: mark the system prompt and the last "
        "message, or set cache_control at the top level.", True)

    s = support("Tern Build, a coding agent", 6000, 2)
    start = [{"role": "user", "content": [block("Find out why the nightly build of the parser fails.", CC)]}]
    plain = [{"role": "user", "content": "Find out why the nightly build of the parser fails."}]
    calls = [{"type": "tool_use", "id": f"toolu_01{hexid('lb', k, n=20)}", "name": "read_file",
              "input": {"path": f"parser/stage_{k}.py", "start": 1, "end": 80}} for k in range(14)]
    results = [{"type": "tool_result", "tool_use_id": c["id"], "content": prose(500, 900 + k, head="def stage")}
               for k, c in enumerate(calls)]
    results[-1]["cache_control"] = CC
    add("claude-28-blocks-in-a-turn", claude("claude-sonnet-4-5-20250929", s, start, tools=a_tools()),
        claude("claude-sonnet-4-5-20250929", s, plain + [{"role": "assistant", "content": calls},
                                                         {"role": "user", "content": results}], tools=a_tools()),
        "end of A", "breakpoint too far", "One turn added 28 blocks and a breakpoint looks back 20 at most, so it misses A's entry: mark "
        "a block every 15 or so, and the system prompt.", True)

    s = [block(support("Fjord Dental", 8500, 3), CC)]
    add("haiku-below-its-least-length", claude("claude-haiku-4-5-20251001", s, talk(0, "Do you treat children under six?")),
        claude("claude-haiku-4-5-20251001", s, talk(0, "Which documents do I bring to a first visit?")),
        "messages[0] (user), the question", "too short for the cache", "The marked prefix of some 2,000 tokens is below the 4,096 that Haiku "
        "4.5 needs, so nothing is stored: accept it or use a model with a lower least length.", True)

    s = {"role": "system", "content": [block(support("Kestrel Energy", 16000, 4), CC)]}
    mk = lambda n, q: [s] + talk(n) + [{"role": "user", "content": [block(q, CC)]}]
    add("claude-14-minutes-apart", litellm("a4", "claude-sonnet-4-5-20250929", "anthropic", mk(1, "Why is my bill higher?"),
                                           1793700000.0, 3720, 0),
        litellm("b4", "claude-sonnet-4-5-20250929", "anthropic",
                mk(1, "Why is my bill higher?") + [{"role": "assistant", "content": "Your meter was estimated in spring."},
                                                   {"role": "user", "content": [block("Can you correct it?", CC)]}],
                1793700840.0, 3760, 0), "end of A", "cache expired",
        "The prompt only grew, but 14 minutes passed and the entry lives 5: use ttl 1h where users answer this slowly.", True)

    head = "Assign the ticket to exactly one category of the manual.\n\n" + prose(11000, 5, head="Category") + "\n\nTicket:\n"
    one = lambda t: [{"role": "user", "content": [block(head + t, CC)]}]
    add("claude-marker-on-the-varying-block",
        claude("claude-sonnet-4-5-20250929", "You sort tickets.", one("The app logs me out whenever I open the invoice.")),
        claude("claude-sonnet-4-5-20250929", "You sort tickets.", one("Please send the contract to my new address.")),
        "messages[0].content[0], at the ticket after the manual", "breakpoint on what changes", "The only marker sits on the block that ends with "
        "the ticket: put the manual in a block of its own, marked, and the ticket after it.", True)

    s, m = support("Alder Returns", 9000, 6), talk(5)
    m.append({"role": "user", "content": [block("Please refund line 2 of SO-551203, it arrived broken.", CC)]})
    add("claude-tool-choice-forced", claude("claude-sonnet-4-5-20250929", s, m, tools=a_tools(), tool_choice={"type": "auto"}),
        claude("claude-sonnet-4-5-20250929", s, m, tools=a_tools(), tool_choice={"type": "tool", "name": "refund_line"}),
        "none", "template settings", "Changing tool_choice drops the cache of the messages, and only a message is marked: keep it fixed, "
        "or also mark the system prompt, whose entry survives.", True)

    s = sysm(support("Larch Telecom", 15000, 7))
    q = ("How do I move my number to you?", "Which router works with the fibre line?")
    opt = {"prompt_cache_options": {"mode": "explicit", "ttl": "30m"}, "prompt_cache_key": "larch-support"}
    add("gpt56-explicit-without-breakpoint", chat("gpt-5.6", [s] + talk(0, q[0]), **opt),
        chat("gpt-5.6", [s] + talk(0, q[1]), **opt), "messages[1] (user), the question", "no breakpoint",
        "In explicit mode without a prompt_cache_breakpoint the request uses no cache at all: mark the end of the system prompt "
        "(as a content part).", True)

    s = sysm(support("Wren Insurance", 15000, 8))
    key = {"prompt_cache_key": "wren-claims"}
    add("gpt56-implicit-new-question", chat("gpt-5.6", [s] + talk(0, "Is hail covered by the basic plan?"), **key),
        chat("gpt-5.6", [s] + talk(0, "My bicycle was stolen from the cellar. What now?"), **key),
        "messages[1] (user), the question", "breakpoint on what changes", "From GPT-5.6 on the implicit breakpoint lies at the latest message and no "
        "shorter prefix is matched: put an explicit prompt_cache_breakpoint at the end of the system prompt.", True)

    s = sysm(support("Plover Books", 1300, 9))
    add("gpt41-too-short", chat("gpt-4.1", [s] + talk(0, "Do you ship to Norway?")),
        chat("gpt-4.1", [s] + talk(0, "May I return an opened audiobook?")), "messages[1] (user), the question", "too short for the cache",
        "Nothing to do: the prompt is well below 1,024 tokens, where OpenAI caches nothing.", True)

    m = [sysm(support("Sorrel Travel", 12000, 10))] + talk(6, "So what will I get back in total?")
    add("gpt-model-switched", chat("gpt-4.1", m), chat("gpt-4.1-mini", m), "none", "namespace",
        "The prompt is the same, but caches belong to one model: keep a conversation on one model.", True)


# ================================================================ 2. tools
def tools():
    s = [block(support("Bramble Shop", 9000, 11), CC)]
    q = talk(0, "Where is order SO-118204?")
    add("claude-tools-reordered", claude("claude-sonnet-4-5-20250929", s, q, tools=a_tools([0, 1, 2, 3, 4])),
        claude("claude-sonnet-4-5-20250929", s, q, tools=a_tools([3, 0, 4, 1, 2])), "tools[0], search_orders against track_parcel",
        "tools reordered", "The MCP servers answered in another order: sort the tools by name before sending.", False)

    t = o_tools(flat=True)
    body = lambda tl: {"model": "gpt-4.1", "instructions": support("Teal Logistics", 9000, 12), "tools": tl,
                       "input": [{"role": "user", "content": "Open a ticket for the late pallet, please."}]}
    add("responses-tool-loaded-in-the-middle", body(t[:2] + t[3:]), body(t[:3] + t[3:]),
        "tools[2], refund_line where A has track_parcel", "tool added", "Send all tools from the start and limit them by "
        "tool_choice/allowed_tools, or at least append new ones at the end.", False)

    x, y = a_tools(), a_tools()
    y[0]["input_schema"]["properties"] = {k: y[0]["input_schema"]["properties"][k] for k in ("limit", "email", "status")}
    add("claude-schema-keys-shuffled", claude("claude-sonnet-4-5-20250929", s, q, tools=x),
        claude("claude-sonnet-4-5-20250929", s, q, tools=y), "tools[0] (search_orders), input_schema.properties: email first in A, "
        "limit first in B", "keys reordered", "The schema is generated from an unordered map: serialize it with a fixed key order.", False)

    x, y = a_tools(), a_tools()
    x[0]["description"] += " Today is Tuesday, 3 November 2026."
    y[0]["description"] += " Today is Wednesday, 4 November 2026."
    sy = lambda d: [block(support("Heron Retail", 9000, 13) + f"\n\nCurrent date: {d}", CC)]
    ask = talk(0, "What did I order last week?")
    add("claude-date-in-a-tool-and-in-the-system", claude("claude-sonnet-4-5-20250929", sy("2026-11-03"), ask, tools=x),
        claude("claude-sonnet-4-5-20250929", sy("2026-11-04"), ask, tools=y),
        "tools[0] (search_orders), the date at the end of its description (tools come first; a second date ends the system prompt)",
        {"clock", "tool edited"}, "Take the date out of the tool and the system prompt and give it with the user's message.", False)

    m = [sysm(support("Ibis Hotels", 9000, 14))] + talk(4, "Then please summarise what we agreed.")
    add("gpt-final-turn-without-tools", chat("gpt-4.1", m, tools=o_tools()), chat("gpt-4.1", m),
        "tools: six in A, none in B", "tool removed", "Leave the tools in and set tool_choice to none for the last turn.", False)

    def mistral(cid):
        t = json.dumps([{"type": "function", "function": f["function"]} for f in o_tools([1, 3])])
        call = json.dumps([{"name": "get_order", "arguments": {"order_id": "SO-700311"}, "id": cid}])
        res = json.dumps({"content": prose(1500, 15, head="Line"), "call_id": cid})
        return (f"<s>[INST] {support('Jay Freight', 4000, 15)}\n\nWhere is SO-700311?[/INST][TOOL_CALLS] {call}</s>[TOOL_RESULTS] "
                f"{res}[/TOOL_RESULTS][AVAILABLE_TOOLS] {t}[/AVAILABLE_TOOLS][INST] And when will it arrive?[/INST]")
    add("mistral-call-ids-made-anew", mistral("9Ae3bDc2F"), mistral("Qz81LmT0x"), "the id of the call of get_order in [TOOL_CALLS]",
        "tool call id", "The call needs an id, but keep the one that was first given instead of drawing a new one at each rendering.", None)

    def run(name, start, dump, more):
        tc = [{"id": "call_7tRk2Wm", "type": "function", "function": {"name": "track_parcel", "arguments": dump}}]
        return langsmith(name, [sysm(support("Ruddy Post", 9000, 16)), {"role": "user", "content": "Where is my parcel?"},
                                {"role": "assistant", "content": "", "tool_calls": tc},
                                {"role": "tool", "content": "In transit, hub Leeds.", "tool_call_id": "call_7tRk2Wm"}] + more, start)
    args = {"tracking_number": "1Z204E380338943508", "carrier": "ups"}
    add("langsmith-arguments-dumped-again", run("a16", "2026-11-03T09:12:04.118", json.dumps(args, separators=(",", ":")), []),
        run("b16", "2026-11-03T09:12:41.902", json.dumps(args),
            [{"role": "assistant", "content": "It is in Leeds."}, {"role": "user", "content": "Thanks. When will it come?"}]),
        "messages[2] (assistant), tool_calls[0] arguments: a space after the comma and colons", {"JSON rewritten", "answer edited"},
        "Replay the arguments as the model wrote them; do not parse and dump them again.", False)


# ================================================================ 3. system prompts, templates
def systems():
    def line(k, t, q):
        return {"custom_id": f"rating-{k}", "method": "POST", "url": "/v1/chat/completions",
                "body": chat("gpt-4.1", [sysm(f"Current time: {t}\n" + support("Quail Reviews", 12000, 20)), *talk(0, q)])}
    add("batch-time-in-first-line", line(1, "2026-11-03T08:00:01Z", "Rate: fine, but late."),
        line(2, "2026-11-03T08:00:02Z", "Rate: broken on arrival."), "messages[0] (system), the time in the first line (the text to rate differs too, but comes later)", "clock",
        "Drop the time, or put it after the fixed text (in the user message).", False)

    p = lambda who: [block(f"You are helping {who}. " + support("Osprey Bank", 16000, 21), CC)]
    add("claude-user-name-first", claude("claude-sonnet-4-5-20250929", p("Maria Alvarez (maria.alvarez@example.com)"),
                                         talk(0, "Raise my limit.")),
        claude("claude-sonnet-4-5-20250929", p("Tom Okafor (t.okafor@example.org)"), talk(0, "Raise my limit.")),
        "system[0], the name in the first sentence", {"system edited", "text edited"},
        "Move the user's name and address behind the fixed rules, after the breakpoint.", False)

    g = lambda sid: [sysm(f"Sitzung: {sid}\nDu bist der Assistent der Stadtwerke Ahrenfeld.\n\n" + prose(12000, 22, (DE, DE_W), "Regel")),
                     {"role": "user", "content": "Wie melde ich meinen Zählerstand?"}]
    add("de-session-id-first", chat("gpt-4.1", g(uuid("x", 1))), chat("gpt-4.1", g(uuid("x", 2))),
        "messages[0] (system), the session id in the first line", "random id",
        "Take the session id out of the prompt; give it as metadata or in a header.", False)

    rows = [f"品番 2025{1100 + k:04d} 棚{k % 9 + 1} 在庫あり。返品は箱が未開封の場合に限り受け付けます。" for k in range(120)]
    jp = lambda r: [sysm("あなたは部品販売店の案内係です。次の一覧だけを使って答えてください。\n" + "\n".join(r)),
                    {"role": "user", "content": "品番20251100はありますか。"}]
    changed = list(rows)
    changed[70] = rows[70].replace("20251170", "20251188")
    add("ja-part-number-like-a-date", chat("gpt-4.1", jp(rows)), chat("gpt-4.1", jp(changed)),
        "messages[0] (system), the part number 20251170 against 20251188 in line 72", {"system edited", "text edited", "number"},
        "The catalogue itself was edited (this is a part number, no clock): a rare change costs one rewrite; a frequent one "
        "belongs further back.", False)

    m = [{"role": "user", "content": prose(5000, 24) + "\n\nList the rules that mention the fraud desk."}]
    add("chatml-default-system-appears", chatml(m), chatml([sysm("You are Qwen, created by Alibaba Cloud. You are a helpful assistant."), *m]),
        "the very start: <|im_start|>user in A, <|im_start|>system with the default message in B", "system added",
        "Two templates (or versions of one) are in use: pin one and give the system message yourself.", None)

    ll = lambda d: ("<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday Date: "
                    f"{d}\n\n{support('Finch Labs', 8000, 25)}<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nCan I reset my key?"
                    "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n")
    add("vllm-llama-today-date", vllm("chatcmpl-" + hexid("v1"), "11-03 23:58:10", ll("03 Nov 2026")),
        vllm("chatcmpl-" + hexid("v2"), "11-04 00:01:44", ll("04 Nov 2026")), "the prompt, the line Today Date: of the template", "clock",
        "The template writes the day: give date_string as a constant; otherwise expect one miss a day.", None)

    f1, f2 = prose(7000, 26, (FR, FR_W), "Règle"), prose(6000, 27, (FR, FR_W), "Annexe")
    flag = "\n\n## Offre pilote\nProposez l'expertise vidéo aux assurés qui ont déposé un dossier complet."
    u = [{"role": "user", "content": "Mon dossier a-t-il été reçu ?"}]
    fr = "Vous êtes l'assistant de la Mutuelle du Rhône.\n\n"
    add("fr-otel-flagged-section", otel("a26", "gpt-4.1", fr + f1 + "\n\n" + f2, u, 1793710000000000000, 3420, 0),
        otel("b26", "gpt-4.1", fr + f1 + flag + "\n\n" + f2, u, 1793710031000000000, 3450, 1792),
        "the system instructions, the section Offre pilote that only B has, after the rules and before the annexes",
        {"text inserted", "system edited"}, "A feature flag inserts a section in the middle: put it at the end, or give it to all.", False)

    e1, e2 = prose(12000, 28, (ES, ES_W), "Norma"), prose(4000, 29, (ES, ES_W), "Anexo")
    es = lambda t, q: [sysm(f"Usted atiende a clientes de Aguas del Sur.\n\n{e1}\n\nHora actual: {t}\n\n{e2}"), *talk(0, q)]
    add("es-clock-and-question", chat("gpt-4o", es("03/11/2026 10:42", "¿Cuándo pasan a leer el contador?")),
        chat("gpt-4o", es("03/11/2026 10:47", "¿Puedo cambiar la cuenta de cobro?")),
        "messages[0] (system), the time after Hora actual, between norms and annexes (the question differs too, but comes later)",
        "clock", "Move the time to the end, with the question, which may differ.", False)


# ================================================================ 4. histories
def histories():
    s, h = sysm(support("Linnet Mail", 9000, 30)), talk(31)
    add("gpt-window-slides", chat("gpt-4.1", [s] + h[:60] + talk(0, "Anything else I should know?")),
        chat("gpt-4.1", [s] + h[4:62] + talk(0, "And who pays for the label?")), "messages[1]: A's four oldest messages are gone in B",
        "history truncated", "A window that slides each turn misses each turn: drop many messages at once and rarely, or compact.", False)

    s, h = [block(support("Dunlin Legal", 14000, 31), CC)], talk(20)
    end = {"role": "user", "content": [block("What is still open?", CC)]}
    summ = [{"role": "user", "content": "Summary of the conversation so far: " + prose(2500, 32, head="Point")},
            {"role": "assistant", "content": "Understood, I will go on from here."}]
    add("claude-compacted", claude("claude-sonnet-4-5-20250929", s, h + [end]), claude("claude-sonnet-4-5-20250929", s, summ + [end]),
        "messages[0]: the first message in A, the summary in B", "history summarized",
        "Nothing to do: the summary costs one rewrite, and the marked system prompt is still read.", False)

    s, h = sysm(support("Pipit Cloud", 9000, 33)), talk(7)
    e = copy.deepcopy(h)
    e[4]["content"] = "How long does that take for an express parcel?"
    add("langfuse-user-edits-earlier", langfuse("a33", [s] + h + talk(0, "Fine, thank you."), "2026-11-03T14:01:08.211Z"),
        langfuse("b33", [s] + e[:5], "2026-11-03T14:03:55.640Z"), "messages[5] (user), its end: a full question against a longer one",
        {"message edited", "question"}, "Nothing to do: the user changed an earlier message, and all before it is reused.", False)

    calls = [{"role": "assistant", "content": [{"type": "tool_use", "id": f"toolu_01{hexid('c', k, n=20)}", "name": "read_file",
                                               "input": {"path": f"src/part_{k}.go"}}]} for k in range(8)]
    def agent(cleared, marked_end):
        out = [{"role": "user", "content": "Rename Store to Depot everywhere and keep the tests green."}]
        for k, c in enumerate(calls):
            text = "[Old tool result content cleared]" if k < cleared else prose(1200, 340 + k, head="func Part")
            out += [c, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": c["content"][0]["id"], "content": text}]}]
        out[-1]["content"][0]["cache_control"] = marked_end
        return out
    s = [block(support("Siskin Code", 9000, 34), CC)]
    add("claude-old-results-cleared", claude("claude-sonnet-4-5-20250929", s, agent(0, CC), tools=a_tools()),
        claude("claude-sonnet-4-5-20250929", s, agent(5, CC), tools=a_tools()),
        "messages[2].content[0], the tool_result that B has cleared", "tool result edited",
        "Clear old results rarely and many at once; each clearing rewrites all that follows.", False)

    tcs = [{"id": f"call_{x}", "type": "function", "function": {"name": "get_order", "arguments": f'{{"order_id":"SO-{n}"}}'}}
           for x, n in (("aK1", 220101), ("bP7", 220102))]
    res = [{"role": "tool", "tool_call_id": "call_aK1", "content": prose(700, 35, head="Line")},
           {"role": "tool", "tool_call_id": "call_bP7", "content": prose(700, 36, head="Line")}]
    base = [sysm(support("Stilt Market", 9000, 35)), {"role": "user", "content": "Compare my last two orders."},
            {"role": "assistant", "content": None, "tool_calls": tcs}]
    add("gpt-parallel-results-swapped", chat("gpt-4.1", base + res, tools=o_tools([0, 1])),
        chat("gpt-4.1", base + res[::-1], tools=o_tools([0, 1])), "messages[3] (tool), the result of the second call instead of the first",
        "messages reordered", "Append results in the order of the calls, not as they arrive.", False)

    rng = random.Random(36)
    ids = [rng.randrange(300, 151000) for _ in range(3000)]
    more = [rng.randrange(300, 151000) for _ in range(420)]
    add("sglang-ids-extended", sglang_ids(hexid("r1"), "2026-11-03T10:00:01.120Z", ids),
        sglang_ids(hexid("r2"), "2026-11-03T10:00:19.004Z", ids + more), "end of A (3,000 token ids)", "extended",
        "Nothing to do in the prompt; if it missed, look at the server (eviction, another worker).", None)

    raw = chatml([sysm(support("Merlin Ops", 9000, 37)), {"role": "user", "content": "Which alarms can wait until Monday?"}])
    add("vllm-retry-same-prompt", vllm("cmpl-" + hexid("q1"), "11-03 15:20:01", raw), vllm("cmpl-" + hexid("q2"), "11-03 15:20:44", raw),
        "none", "nothing", "The prompts are the same: look at the server (eviction, routing to another replica, a restart).", None)

    s, h = support("Dipper Clinic", 16000, 38), talk(2)
    add("claude-marker-moved-on", claude("claude-sonnet-4-5-20250929", [block(s, CC)],
                                         h + [{"role": "user", "content": [block("Is the refund free?", CC)]}]),
        claude("claude-sonnet-4-5-20250929", [block(s, CC)],
               h + [{"role": "user", "content": "Is the refund free?"}, {"role": "assistant", "content": "Yes, it is."},
                    {"role": "user", "content": [block("Good, go ahead.", CC)]}]), "end of A", "extended",
        "Nothing to do: the marker moved and a string stands for its one block, A's whole prompt is read.", False)


# ================================================================ 5. passages, attachments, harmless
def png(seed, w=48, h=32):
    rows = b"".join(b"\0" + random.Random(f"{seed}/{y}").randbytes(3 * w) for y in range(h))
    part = lambda t, d: struct.pack(">I", len(d)) + t + d + struct.pack(">I", zlib.crc32(t + d))
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", struct.pack(">IIBBBBB", w, h, 8, 2, 0, 0, 0)) + \
        part(b"IDAT", zlib.compress(rows)) + part(b"IEND", b"")


def passages():
    ps = [f"[{hexid('p', k, n=6)}] " + prose(900, 400 + k, head="Clause") for k in range(8)]
    rag = lambda order, q: [sysm(support("Vireo Docs", 7000, 40)),
                            {"role": "user", "content": "Passages:\n\n" + "\n\n".join(ps[k] for k in order) + f"\n\nQuestion: {q}"}]
    add("gpt-passages-reranked", chat("gpt-4.1", rag([0, 1, 2, 3, 4, 5], "Who decides on refunds?")),
        chat("gpt-4.1", rag([2, 0, 1, 5, 3, 4], "Who decides on refunds?")), "messages[1] (user), the first passage", "order",
        "The same six passages came back in another order: sort them by id before building the prompt.", False)

    pp = [prose(1000, 420 + k, (PT, PT_W), "Trecho") for k in range(8)]
    pt = lambda order, q: [sysm("Responda apenas com base nos trechos.\n\n" + prose(7000, 41, (PT, PT_W), "Norma")),
                           {"role": "user", "content": "\n\n".join(pp[k] for k in order) + f"\n\nPergunta: {q}"}]
    add("pt-other-passages", chat("gpt-4.1", pt([0, 1, 2], "Quando recebo o estorno?")), chat("gpt-4.1", pt([5, 6, 7], "Como mudo o endereço?")),
        "messages[1] (user), the first passage (the question differs too, but comes later)", "question",
        "Nothing to do: another question finds other passages, and the system prompt is reused.", False)

    shot = lambda k: [sysm(support("Swift Desktop agent", 9000, 42)),
                      {"role": "user", "content": [{"type": "image_url", "image_url": {
                          "url": "data:image/png;base64," + base64.b64encode(png(k)).decode(), "detail": "low"}},
                          {"type": "text", "text": "This is the screen now. What is the next click?"}]}]
    add("gpt-new-screenshot-first", chat("gpt-4.1", shot("screen-1")), chat("gpt-4.1", shot("screen-2")),
        "messages[1].content[0], the image", "image changed",
        "Keep earlier screenshots and append the new one instead of replacing it in place.", False)

    qf = lambda q: [sysm("Use the manual in the message."), {"role": "user", "content": f"Question: {q}\n\nManual:\n" + prose(14000, 43)}]
    add("gpt-question-before-the-manual", chat("gpt-4.1", qf("May a partial refund be split?")),
        chat("gpt-4.1", qf("Who signs off a second visit?")), "messages[1] (user), the question, which stands before the manual",
        {"question", "text edited"}, "Put the manual first and the question after it; now 14,000 characters of manual are read anew each time.", False)

    src = prose(24000, 44, head="Article").split("\n")
    at = next(k for k in range(len(src) * 4 // 5, len(src)) if src[k] and not src[k].startswith("##"))
    new = src[:at] + [src[at].rstrip(".") + ", except for business accounts."] + src[at + 1:]
    doc = lambda t: [{"role": "user", "content": [
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "\n".join(t)},
         "title": "terms.txt", "cache_control": CC}, block("Which articles conflict?")]}]
    add("claude-document-changed-late", claude("claude-sonnet-4-5-20250929", "You review contracts.", doc(src)),
        claude("claude-sonnet-4-5-20250929", "You review contracts.", doc(new)),
        f"messages[0].content[0] (document), line {at + 1} of it, at four fifths", "breakpoint on what changes",
        "Anthropic reads whole marked blocks only, so four fifths in common are lost: cut the document into several marked blocks, "
        "or append the amendment.", True)

    s = sysm(support("Avocet Rail", 10000, 45))
    add("gpt-date-in-the-users-question", chat("gpt-4.1", [s] + talk(0, "Is the 7:12 to Hull running on 5 November 2026?")),
        chat("gpt-4.1", [s] + talk(0, "Is the 7:12 to Hull running on 9 November 2026?")), "messages[1] (user), the date in the question",
        "question", "Nothing to do: the date is what the user asks about, and it comes last.", False)

    m = [sysm(support("Grebe Weather", 10000, 46))] + talk(3, "And tomorrow?")
    add("gpt-temperature-only", chat("gpt-4.1", m, temperature=0.2, max_tokens=300), chat("gpt-4.1", m, temperature=0.9, max_tokens=900),
        "none", "settings", "Nothing to do: temperature and max_tokens are no part of the prompt.", False)


for make in (rules, tools, systems, histories, passages):
    make()
