"""Writes log.jsonl (requests, responses, the providers' cache verdicts) and key.json (what is true), deterministically.
A talk is a list of turns (TALKS): "." adds a message, a number waits so many seconds, "a+b" are two changes at once.
The provider is simulated with all that it sees: the request, and what a router or gateway behind the log did (`hid`).
The key compares what the log shows, which is the same without `hid`."""
import bisect, collections, copy, datetime, hashlib, json, pathlib, random
WORDS = """account address agent amount answer archive balance batch branch budget cancel carrier case charge claim clause client
column contract courier credit customer date delay delivery deposit desk discount draft entry error estimate event export factor
figure file filter freight goods handle hold index invoice item ledger letter limit line list manager margin notice offer order""".split()
HERE, T0 = pathlib.Path(__file__).parent, datetime.datetime(2026, 11, 3, 9, 0)
C_REASON = {k: k + "_changed" for k in ("model", "tools", "system", "messages")}   # in the order of the prompt
G_REASON = {"model": "model_changed", "cache key": "prompt_cache_key_changed", "service tier": "service_tier_changed", "tools": "tools_changed",
            "text format": "text_format_changed", "reasoning effort": "reasoning_effort_changed", "verbosity": "verbosity_changed",
            "compaction": "context_compacted", "instructions": "input_changed", "input": "input_changed"}
ALT = {"claude-opus-5": "claude-sonnet-5", "claude-sonnet-5": "claude-opus-5", "gpt-5.6-sol": "gpt-5.6-terra", "gpt-5.6-terra": "gpt-5.6-sol"}
PARAMS, ROUTED = ("thinking", "tool_choice", "output_config"), {True: "claude-opus-4-8", False: "gpt-5.6-terra"}
def text(seed, n):
    r, out = random.Random(f"text {seed}"), ""
    while len(out) < n: out += " ".join(r.choice(WORDS) for _ in range(r.randint(6, 15))).capitalize() + ". "
    return out[:-1]
SIZES = dict(billing=8400, freight=18000, coding=9600, support=7200, legal=11200, returns=6800)
SYS = {k: f"You are the {k} assistant of a trading house.\n" + text(k, n) for k, n in SIZES.items()}
def tool(name, claude):
    schema = {"type": "object", "properties": {"id": {"type": "string"}, "detail": {"type": "string"}}, "required": ["id"]}
    d = {"name": name, "description": f"{name.replace('_', ' ')}: " + text(name, 260)}
    return {**d, "input_schema": schema} if claude else {"type": "function", **d, "parameters": schema}
def ident(prefix, *a): return prefix + hashlib.sha256(repr(a).encode()).hexdigest()[:24]
def tok(x): return -(-len(x) // 4)
def common(a, b): return bisect.bisect_left(range(min(len(a), len(b))), True, key=lambda i: a[:i + 1] != b[:i + 1])
def norm(m):
    """A message without its marks, with a string as one text block."""
    c = m.get("content")
    c = [c] if isinstance(c, str) else [b["text"] if "text" in b else {k: v for k, v in b.items() if k != "cache_control"} for b in c or []]
    return json.dumps([m["role"], c] if "role" in m else m)
def view(s, b, hist, hid):
    """The parts of a request that a cache looks at."""
    sys = "\n".join(x for x in s["sys"].split("\n") if "strip" not in hid or not x.startswith("Current time")) + hid.get("gate", "")
    v, msgs = {"model": hid.get("served", b["model"]), "tools": json.dumps(b.get("tools", [])) + hid.get("mcp", "")}, [norm(m) for m in hist]
    if s["claude"]: return {**v, "system": sys, **{k: json.dumps(b.get(k)) for k in PARAMS}, "beta": hid.get("beta", ""), "messages": msgs}
    return {**v, "cache key": b.get("prompt_cache_key", ""), "service tier": hid.get("tier", b.get("service_tier", "auto")),
            "text format": json.dumps(b.get("text", {}).get("format")), "reasoning effort": b.get("reasoning", {}).get("effort", ""),
            "verbosity": b.get("text", {}).get("verbosity", ""), "instructions": sys, "input": msgs}
def parts(v): return [v["tools"], v.get("system", v.get("instructions")), *v.get("messages", v.get("input"))]
def diff(a, b):
    out = [k for k in a if isinstance(a[k], str) and a[k] != b[k]]
    for k in {"messages", "input"} & set(a):
        if b[k][:len(a[k])] != a[k]: out.append("compaction" if any('"compaction"' in m and m not in a[k] for m in b[k]) else k)
    return out
log, key, prints, c_cache, g_cache, last, line = [], [], {}, {}, [], {}, {}
def change(s, o, n, stamp):
    """What the client (or someone behind the log) changes before this turn."""
    b, h, hid, txt = s["body"], s["hist"], s["hid"], s["body"].get("text", {})
    def flip(a, x, y): return y if a == x else x
    b.update({"model": {"model": ALT.get(b["model"])}, "key": {"prompt_cache_key": f"user-{n}-{s['id']}"}, "parallel": {"parallel_tool_calls": False},
        "alias": {"model": b["model"] + "-2026-09-17"}, "tier": {"service_tier": flip(b.get("service_tier"), "priority", "auto")},
        "add": {"tools": b.get("tools", []) + [tool(f"extra_{n}", s["claude"])]}, "reorder": {"tools": b.get("tools", [])[1:] + b.get("tools", [])[:1]},
        "format": {"text": {**txt, "format": {"type": "json_schema", "name": f"answer_{n}", "schema": {"type": "object"}}}},
        "verbosity": {"text": {**txt, "verbosity": flip(txt.get("verbosity"), "low", "high")}},
        "effort": {"reasoning": {"effort": flip(b.get("reasoning", {}).get("effort"), "high", "low")}}, "think": {"thinking": {"type": "adaptive"}},
        "choice": {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}, "outcfg": {"output_config": {"effort": "medium"}},
        "params": {"metadata": {"user_id": f"u{n}"}, "stop_sequences": [f"END{n}"], "max_tokens": 1000 + n}}.get(o, {}))
    hid.update({"alias": {"served": b["model"][:-11]}, "route": {"served": ROUTED[s["claude"]]}, "quietroute": {"served": ROUTED[s["claude"]]},
        "hidtier": {"tier": "flex"}, "gate": {"gate": f"\n[gateway] {stamp}"}, "mcp": {"mcp": stamp}, "beta": {"beta": stamp}, "strip": {"strip": ""}}.get(o, {}))
    if o in ("route", "quietroute"): s["echo"] = o == "quietroute"
    if o == "home": hid.pop("served", None); hid.pop("tier", None)
    if o == "schema": b["tools"][0]["description"] += f" Valid on {stamp[:16]}."
    if o in ("clock", "front"):
        x = [y for y in s["sys"].split("\n") if not y.startswith("Current time")]
        x.insert(1 if o == "front" else 99, f"Current time: {stamp}"); s["sys"] = "\n".join(x)
    if o == "edit": h[0] = {**h[0], "content": s["say"](f"{s['id']} edited {n}", 700)}
    if o in ("drop", "retry", "fork"): del h[slice(*{"drop": (0, 2), "retry": (-1, None), "fork": (-2, None)}[o])]
    if o == "compact" and s["claude"]: h[:] = [{"role": "user", "content": "Summary of the talk so far: " + text(s["id"], 600)}, {"role": "assistant", "content": "Understood."}]
    elif o == "compact": h[:-2] = [{"type": "compaction", "id": ident("cmp_", s["id"]), "encrypted_content": ident("", s["id"]) * 30}]

def turn(s, op, t):
    claude, opt, ops, hid, n, b, h = s["claude"], s["opt"], op.split("+"), s["hid"], s["n"], s["body"], s["hist"]
    stamp, named = (T0 + datetime.timedelta(seconds=t)).isoformat() + "Z", last[s["mate"]] if "other" in ops else s["prev2"] if "older" in ops else s["prev"]
    for o in ops: change(s, o, n, stamp)
    if "retry" not in ops:
        call, res = h[-1] if h and s["called"] else None, text(f"{s['id']} result {n}", 1100)
        if not call: h.append({"role": "user", "content": s["say"](f"{s['id']} {n} {op}", 2600 if "long" in opt else 240 + 90 * (n % 4))})
        elif claude: h.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": call["content"][-1]["id"], "content": res}]})
        else: h.append({"type": "function_call_output", "call_id": call["call_id"], "output": res})
    # the request as the API takes it
    req = copy.deepcopy(b)
    if claude:
        mark = {"type": "ephemeral", **({"ttl": "1h"} if "1h" in opt else {})}
        req.update(system=s["sys"] if s["mark"] == "top" else [{"type": "text", "text": s["sys"], "cache_control": mark}], messages=copy.deepcopy(h))
        if s["mark"] == "top": req["cache_control"] = mark
        if s["mark"] == "last":
            c, m = req["messages"][-1]["content"], req["messages"][-1]
            m["content"] = [{"type": "text", "text": c}] if isinstance(c, str) else c; m["content"][-1]["cache_control"] = mark
        if "quiet" not in ops: req["diagnostics"] = {"previous_message_id": named}
    else:
        chain = "chain" in opt and s["prev"]
        req.update(instructions=s["sys"], input=h[0]["content"] if "string" in opt and len(h) == 1 else copy.deepcopy(h[-1:] if chain else h))
        if chain: req["previous_response_id"] = s["prev"]
        if named and "quiet" not in ops: req["prompt_cache_options"] = {"comparison_response_id": named}
    if "quiet" in ops: named = None
    seen, truth, rid = view(s, b, h, {}), view(s, b, h, hid), ident("msg_01" if claude else "resp_", s["id"], n, t)
    # the verdict of the provider
    before, names, segs = prints.get(named), C_REASON if claude else G_REASON, parts(truth)
    changed, real = (diff(before["seen"], seen), diff(before["truth"], truth)) if before else ([], [])
    f, sizes = "\0".join(segs), [sum(map(tok, segs[:i])) for i in range(len(segs) + 1)]
    total, same, say = sizes[-1], common(before["flat"], f) // 4 if before else 0, "none"
    own, forced = next((r for r in names if r in real), None), next((o[2:] for o in ops if o.startswith("V:")), None)
    if named and (forced == "notfound" or before["quiet"]): say = "previous_message_not_found" if claude else "comparison_response_not_found"
    elif named: say = forced or names.get(own) or ("unavailable" if real else "no divergence" if claude else "cache_hit")
    if claude:
        d = None if say in ("none", "no divergence") else {"cache_miss_reason": None if say == "pending" else {"type": say}}
        if say.endswith("_changed"): d["cache_miss_reason"]["cache_missed_input_tokens"] = total if own == "model" else total - same
    else:
        d = {"type": say} if named else None
        if say.endswith("_changed") or say == "context_compacted":
            m, whole = before["total"], own not in ("tools", "compaction", "instructions", "input")
            d = {"type": "cache_miss", "reason": say, "cache_missed_tokens": m if whole else m - same, "comparison_reusable_tokens": m}
    # the cache itself, and the usage
    out, read = 60 + 7 * (n % 5), 0
    if claude:
        ends, ttl = {"top": [len(segs)], "sys": [2], "last": [2, len(segs)]}[s["mark"]], 3600 if "1h" in opt else 300
        keys = {i: ident("", truth["model"], segs[:i], [truth[k] for k in (*PARAMS, "beta")] if i > 2 else "") for i in range(2, len(segs) + 1)}
        for i in keys:
            if any(e - 20 < i <= e for e in ends) and c_cache.get(keys[i], -1) >= t: read = sizes[i]; c_cache[keys[i]] = t + ttl
        for e in ends: c_cache[keys[e]] = t + ttl
        size = sizes[ends[-1]]
        write, rest = (size - read, total - size) if total > size or size == read else (size - read - 3, 3)
        use = {"input_tokens": rest, "cache_read_input_tokens": read, "cache_creation_input_tokens": write, "output_tokens": out,
               "cache_creation": {"ephemeral_5m_input_tokens": write if ttl == 300 else 0, "ephemeral_1h_input_tokens": 0 if ttl == 300 else write}}
    else:
        setting = [truth[k] for k in ("model", "service tier", "text format", "reasoning effort", "verbosity")] + [truth["cache key"]] * ("softkey" not in opt)
        read, best = max(((min(common(e[1], f) // 4, total - 1) // 128 * 128, i) for i, e in enumerate(g_cache) if e[0] == setting and e[2] >= t), default=(0, 0))
        if read >= 1024: g_cache[best][2] = t + 1800
        g_cache.append([setting, f, t + 1800]); read, size = read * (read >= 1024), total // 128 * 128
        use = {"input_tokens": total, "input_tokens_details": {"cached_tokens": read, "cache_write_tokens": max(size - read, 0)},
               "output_tokens": out, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": total + out}
    # the response, and what it adds to the talk
    s["called"], words = "agent" in opt and n % 3 != 2, text(f"{s['id']} answer {n}", 320)
    model, tier = b["model"] if s.get("echo") else truth["model"] + "-2026-09-17" * ("alias" in opt), truth.get("service tier", "").replace("auto", "default")
    if claude:
        item = {"role": "assistant", "content": [{"type": "text", "text": words}]}
        if s["called"]: item["content"].append({"type": "tool_use", "id": ident("toolu_", rid), "name": "look_up", "input": {"id": f"A{n}"}})
        res = {"id": rid, "type": "message", **item, "model": model, "stop_reason": "tool_use" if s["called"] else "end_turn", "usage": use, "diagnostics": d}
    else:
        item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": words}]}
        if s["called"]: item = {"type": "function_call", "call_id": ident("call_", rid), "name": "look_up", "arguments": f'{{"id": "A{n}"}}'}
        res = {"id": rid, "object": "response", "status": "completed", "model": model, "service_tier": tier, "output": [item], "usage": use, "prompt_cache_diagnostics": d}
    h.append(item)
    s.update(prev2=s["prev"], prev=rid, n=n + 1); last[s["id"]] = rid
    prints[rid] = dict(seen=seen, truth=truth, flat=f, size=size, total=total, shown=(model, tier), quiet=claude and "quiet" in ops)
    if "lost" in ops: return                       # a line that the log has lost
    log.append({"timestamp": stamp, "request": req, "response": res}); line[rid] = len(log)
    hidden, why = [k for k in real if k not in changed] + [f"{k} (undone)" for k in changed if k not in real], ""
    if not named: outcome, why = "NONE", "names no earlier response"
    elif named not in line: outcome, why = "UNKNOWN", "the named response is not in the log"
    elif say in ("unavailable", "pending") or "not_found" in say: outcome, why = "UNKNOWN", say
    elif say in ("no divergence", "cache_hit"): outcome, why = ("DIFFER", "the log shows a change that the provider does not see") if changed else ("AGREE", "")
    elif say not in names.values(): outcome, why = "UNKNOWN", "a reason or type that is not documented"
    elif say in [names.get(c) for c in changed]: outcome, why = "AGREE", "several changes: the provider names its first" if len(changed) > 1 else ""
    else: outcome, why = "DIFFER", f"the log shows {' and '.join(changed) or 'no change'}; behind the log: {' and '.join(hidden)}"
    key.append({"line": len(log), "conversation": s["id"], "op": op, "names_line": line.get(named), "changed": changed or ["nothing"] * bool(before),
        "hidden": hidden, "verdict": say, "outcome": outcome, "why": why, "certain": "alias" not in ops,
        "response_shows_it": bool(hidden and before["shown"] != (model, tier)), "expired": bool(before and not real and read + 128 < before["size"]),
        "prompt_tokens": total, "read_tokens": read})
# name, system prompt, mark of the cache (Claude), options, start, turns
TALKS = """c-quiet freight top - 900 . quiet . . V:context_management_changed V:notfound . ; c-router coding top agent 1000 . . route . home quietroute . home+add ;
c-params coding last agent 820 . think . choice outcfg beta ; c-edit coding top agent 420 . . edit . clock+V:pending ; c-names billing top - 1530 . . other . older ;
c-front billing last - 40 . . front front V:pending . ; c-two freight last - 1800 . . clock+edit . add+clock ; c-retry billing top - 1500 . . retry . fork params . ;
c-model coding top agent 200 . . model . model+add ; c-lost billing top - 1420 . . lost . lost clock . ; c-tools freight last agent 150 . . add . reorder ;
c-strip freight sys - 1700 . strip+front front . ; c-drop billing top - 500 . . . drop . compact . ; c-pause billing last - 620 . . 560 . 460 . ;
c-hour freight top 1h 700 . 1500 . 4200 . . ; c-gate billing last - 1150 . . gate . gate ; c-mcp coding top agent+mcp 1300 . . mcp . ;
c-steady freight sys agent 90 . . . . . ; g-odd returns - long 1330 . . V:unavailable V:notfound parallel+V:parallel_tool_calls_changed . V:cache_partial_hit ;
g-names returns - long+string 1900 . . other . retry quiet . ; g-two legal - - 1760 . effort+edit . verbosity+add tier+key ; g-alias legal - alias 1550 . . alias . ;
g-key support - softkey 330 . key . tier . key . tier ; g-compact2 returns - agent+long 760 . . . . compact . ; g-router legal - - 1080 . . hidtier . home quietroute ;
g-front support - - 60 . front front . V:unavailable ; g-pause support - - 980 . . 2300 . . 9000 V:notfound ; g-text legal - - 540 . . format . verbosity format ;
g-effort legal - - 640 . effort . effort verbosity ; g-lost returns - long 1640 . . lost . lost clock ; g-edit returns - long 860 . . edit . drop fork ;
g-strip support - - 1700 . strip+clock clock . ; g-gate support - - 1210 . gate . hidtier+clock ; g-model legal - - 260 . . model . model+clock ;
g-compact returns - long 730 . . . compact . ; g-tools legal - agent 120 . . add . reorder ; g-chain support - chain 1460 . . . clock .""".split(";")
LEGEND, turns = "changed: what the log shows; hidden: what changed behind it, or was undone there; expired: requests match, the entry was gone", []
for x in TALKS:
    name, system, mark, opt, start, *ops = x.split()
    claude, opt, r, t = name[0] == "c", opt.split("+"), random.Random(name), int(start)
    body = {"model": "claude-opus-5", "max_tokens": 2048} if claude else {"model": "gpt-5.6-sol", "store": True, "prompt_cache_key": "house-" + system}
    if system != "returns" or "agent" in opt: body["tools"] = [tool(y, claude) for y in ["look_up", "list_open", "open_case"][:3 if "agent" in opt else 2]]
    if "mcp" in opt:
        body.update(mcp_servers=[{"type": "url", "name": "stock", "url": "https://mcp.example.com/sse"}]); body["tools"].append({"type": "mcp_toolset", "mcp_server_name": "stock"})
    blocks = not claude and len(name) % 2 and "string" not in opt
    say = lambda seed, n, blocks=blocks: [{"type": "input_text", "text": text(seed, n)}] if blocks else text(seed, n)
    s = dict(id=name, claude=claude, sys=SYS[system], mark=mark, opt=opt, body=body, hist=[], hid={}, n=0, prev=None, prev2=None, say=say,
             called=False, mate="c-retry" if claude else "g-lost")
    for o in ops:
        if o.isdigit(): t += int(o)
        else: turns.append((t, name, s, o)); t += r.randint(24, 95)
for t, _, s, o in sorted(turns, key=lambda x: x[:2]): turn(s, o, t)
(HERE / "log.jsonl").write_text("".join(json.dumps(e) + "\n" for e in log))
sums = collections.Counter((("OpenAI: ", "Claude: ")[k["conversation"][0] == "c"] + k["verdict"], k["outcome"]) for k in key)
table = {v: {o: n for (w, o), n in sorted(sums.items()) if w == v} for v in sorted({v for v, _ in sums})}
total = {"legend": LEGEND, "entries": len(key), "outcomes": collections.Counter(k["outcome"] for k in key), "table": table}
(HERE / "key.json").write_text(json.dumps({**total, "lines": key}, indent=1))
print(len(key), dict(total["outcomes"]), *(f"{v:48}{c}" for v, c in table.items()), sep="\n")
