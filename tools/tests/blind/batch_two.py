"""Forty pairs of requests (A, then B), each with the answer expected of a tool that explains prefix cache misses."""
import base64
import copy
import json
import random
import struct
import unicodedata
import zlib

# ---- texts
def table(text):
    return [part.split("|") for part in text.split("/")]

SHOP = table("Returns|Refunds|Shipping|Gift cards|Warranty|Tone of voice/When a customer asks about a late parcel|If "
             "the order was paid by gift card|For items above the free limit|Where the carrier reports damage|If the "
             "customer writes in anger|When the serial number is missing/look up the order before you promise "
             "anything|offer the replacement first and the refund second|name the warehouse team as the owner of the "
             "next step|quote the policy in one sentence, without legal terms|ask for a photo of the label and of the "
             "item|never mention internal stock codes/The supervisor reviews such tickets every week.|Do not guess a "
             "delivery day.|Partial refunds need a second pair of eyes.|Thank the customer for waiting, once.")
CODE = table("Working rules|Reading files|Editing|Running commands|Tests|Version control/Before you change a "
             "function|When a test fails for the first time|If the user names a file|After a refactoring of more than "
             "one module|When a command needs network access|If the build prints a warning that is new/read its "
             "callers and the tests that cover it|reproduce the failure with the smallest command that shows "
             "it|prefer the existing helper over a new one|leave unrelated lines exactly as they are|say what you are "
             "about to run and why|keep public names stable unless the user asked for a rename/Short answers are "
             "better than long ones.|Never claim that a test passed unless you ran it.|A diff that the reviewer "
             "cannot read in five minutes is too large.|Secrets do not belong into output.")
LAW = table("Definitions|Insured events|Exclusions|Duties after a loss|Deductible|Premium/Where water enters through "
             "an open window|If the policyholder moves to another building|Insofar as a third party is liable for the "
             "damage|When valuables are kept outside a locked room|If the loss is reported after the period named "
             "above|Where several insurers cover the same interest/the insurer indemnifies the cost of restoration at "
             "local prices|cover is limited to the sum in the schedule|the policyholder shall preserve the damaged "
             "items for inspection|the right to recover passes to the insurer|the premium is adjusted from the "
             "following quarter|both parties may appoint an expert of their choice/This does not affect mandatory "
             "consumer law.|The burden of proof lies with the party relying on it.|Costs of debris removal are "
             "included.|The schedule prevails over these conditions.")
OPS = table("Scope|Alert triage|Rollback|Capacity|Communication|Hand-over/When the error rate of a service doubles|If "
             "a deploy is in progress|Where a queue grows for ten minutes|When a customer reports the outage first|If "
             "the dashboard and the logs disagree|After the second page for the same cause/page the owner named in "
             "the catalogue and open an incident|freeze deploys of the affected region|roll back first and look for "
             "the cause later|post an update every half hour in the incident channel|compare the canary with the rest "
             "of the fleet|add capacity before you tune anything/Blame has no place in the report.|A rollback needs "
             "no approval.|Estimates are labelled as estimates.|The status page is updated by one person only.")

def pick(rng, items):
    return items[int(rng.random() * len(items))]

def sentences(rng, dom):
    while True:
        for cond in sorted(dom[1], key=lambda _: rng.random()):
            one, two = sorted(dom[2], key=lambda _: rng.random())[:2]
            text = f"{cond}, {one}" + (f", and {two}." if rng.random() < 0.4 else ".")
            yield text + " " + pick(rng, dom[3]) if rng.random() < 0.3 else text

def handbook(dom, chars, seed):
    rules, out, n = sentences(random.Random(seed), dom), [], 0
    while sum(len(x) + 1 for x in out) < chars:
        out.append(f"\n## {dom[0][n]}" if n < 6 else f"\n## More on {dom[0][n % 6].lower()}")
        out += ["- " + next(rules) for _ in range(6)]
        n += 1
    return "\n".join(out).strip() + "\n"

def paragraph(dom, chars, seed):
    rules, out = sentences(random.Random(seed), dom), ""
    while len(out) < chars:
        out += next(rules) + " "
    return out.strip()

OPENERS = ["One more thing on this:", "I am still stuck.", "Thanks. Next question:", "Hm, are you sure?", "Understood.",
           "My colleague sees it differently.", "Can you check that again?", "Here is what I found:"]

def dialog(dom, n, seed, size=500):
    """n turns that alternate, a user first: (role, text)."""
    rng, out = random.Random(seed), []
    for i in range(n):
        if i % 2 == 0:
            text = pick(rng, OPENERS) if i else "Hello, I need your help."
            case, rule = pick(rng, dom[1]), paragraph(dom, size // 4, rng.random())
            out.append(("user", f"{text} Our guide says: {rule} Does that also hold {case[0].lower() + case[1:]}?"))
        else:
            out.append(("assistant", paragraph(dom, size, rng.random())))
    return out

def foreign(lines, nouns, mark="- "):
    lines, nouns = lines.split("|"), nouns.split("|")
    return "\n".join(mark + line.format(nouns[(k + 3 * n) % len(nouns)]) for k in range(len(nouns))
                     for n, line in enumerate(lines))

DE = foreign("Thema {}: höflich und in höchstens fünf Sätzen antworten.|Thema {}: zuerst im Kundenkonto nachsehen.|"
             "Thema {}: niemals interne Kürzel nennen.|Ist beim Thema {} etwas unklar, frage genau einmal nach.|"
             "Beim Thema {} nicht auf andere Anbieter verweisen.|Beschwerden zum Thema {} gehen an die Fachabteilung.",
             "Abschlag|Zählerstand|Jahresrechnung|Umzug|Tarifwechsel|Kündigung|Netzanschluss|Wallbox|Lastschrift|"
             "Hausstrom|Fernwärme|Ratenzahlung|Vollmacht|Störung")
VI = foreign("Khi khách hỏi về {}, hãy trả lời ngắn gọn và lịch sự.|Luôn kiểm tra {} trong hệ thống trước khi hứa hẹn.|"
             "Không tiết lộ thông tin nội bộ liên quan đến {}.|Nếu chưa rõ về {}, chỉ hỏi lại khách một lần.|"
             "Chuyển khiếu nại về {} cho bộ phận phụ trách.", "đơn hàng|phí vận chuyển|hoàn tiền|đổi địa chỉ|mã giảm|"
             "bảo hành|tài khoản|thanh toán|giao hàng|hóa đơn|đánh giá|quà tặng|hủy đơn|điểm thưởng|kho|khuyến mãi")
JA = foreign("{}についての質問には、まず社内手順書を確認してから答えてください。|{}の変更は必ず利用者の同意を得てから行います。|"
             "{}が不明な場合は、推測せずに一度だけ確認してください。|{}に関する苦情は担当部署へ引き継ぎます。|"
             "{}の説明は三文以内にまとめてください。", "予約|請求書|送迎|会員情報|取り消し|見積もり|食事|部屋割り|浴場|駐車場|忘れ物", "・")
ZH = foreign("回答有关{}的问题之前，请先查询最新的业务规定。|涉及{}时，不要向客户透露内部编号。|如果{}的信息不完整，请只追问一次。|"
             "关于{}的投诉，请转交给对应的部门处理，并附上简短说明。|说明{}时语气要礼貌，不超过五句话。|未经客户确认，不得修改{}。",
             "订单|退款|发票|物流|会员积分|保修|账户安全|优惠券|换货|配送地址|付款方式|预售商品|赠品|评价", "· ")
PT_ITEMS = [{"código": f"CB-{300 + i}", "descrição": f"{name} para uso no lar", "preço": 19.9 + 7 * i, "estoque": i % 9}
            for i, name in enumerate("Cafeteira|Liquidificador|Ferro de passar|Torradeira|Chaleira|Batedeira|Fogão|"
                                     "Geladeira|Micro-ondas|Ventilador|Aquecedor|Balança".split("|") * 5)]

# ---- tools
def prop(kind, text, **more):
    return {"type": kind, "description": text, **more}
def neutral(name, text, props, required):
    return {"name": name, "description": text, "schema": {"type": "object", "properties": props, "required": required}}

TICKETS = [
    neutral("archive_case", "Moves a case to the archive. Only for closed cases.",
            {"case_id": prop("string", "Number of the case, such as C-10442."),
             "reason": prop("string", "One sentence.", maxLength=200)}, ["case_id", "reason"]),
    neutral("assign_case", "Gives a case to a colleague of the support team.",
            {"case_id": prop("string", "Number of the case."),
             "assignee": prop("string", "Short name of the colleague.", enum=["amara", "jonas", "li", "priya"]),
             "urgent": prop("boolean", "Whether to page the colleague.", default=False)}, ["case_id", "assignee"]),
    neutral("find_orders", "Searches orders by customer, state and time. Returns at most 50, the newest first.",
            {"customer_id": prop("string", "Id of the customer."),
             "state": prop("string", "State of the order.", enum=["open", "paid", "shipped", "returned"]),
             "limit": prop("integer", "How many.", minimum=1, maximum=50)}, ["customer_id"]),
    neutral("get_customer", "Reads the profile of a customer: name, language, addresses, consents.",
            {"customer_id": prop("string", "Id of the customer.")}, ["customer_id"]),
    neutral("issue_refund", "Refunds an order in whole or in part. Needs a reason that the customer may read.",
            {"order_id": prop("string", "Id of the order."), "cents": prop("integer", "Amount in cents.", minimum=1),
             "reason": prop("string", "Reason, in the customer's language.")}, ["order_id", "cents", "reason"]),
    neutral("search_articles", "Full text search in the help centre.",
            {"query": prop("string", "A few words."), "locale": prop("string", "Such as en-GB.", pattern="^..-..$"),
             "sections": prop("array", "Only these sections.", items={"type": "string"})}, ["query"]),
    neutral("track_parcel", "Asks the carrier where a parcel is.",
            {"tracking_number": prop("string", "As printed on the label."),
             "carrier": prop("string", "Carrier.", enum=["dhl", "gls", "ups"])}, ["tracking_number"]),
]
JIRA = neutral("jira_create_issue", "Creates an issue in the project of the support engineering team.",
               {"project": prop("string", "Key of the project."), "summary": prop("string", "Title of the issue."),
                "labels": prop("array", "Labels.", items={"type": "string"})}, ["project", "summary"])

def chat_tools(tools):
    return [{"type": "function", "function": {"name": t["name"], "description": t["description"],
                                              "parameters": copy.deepcopy(t["schema"])}} for t in tools]

def flat_tools(tools):
    return [{"type": "function", "name": t["name"], "description": t["description"],
             "parameters": copy.deepcopy(t["schema"]), "strict": False} for t in tools]

def claude_tools(tools):
    return [{"name": t["name"], "description": t["description"], "input_schema": copy.deepcopy(t["schema"])}
            for t in tools]

# ---- requests
SONNET, OPUS, HAIKU = "claude-sonnet-4-5-20250929", "claude-opus-4-1-20250805", "claude-haiku-4-5-20251001"

def cc(ttl=None):
    return {"type": "ephemeral", "ttl": ttl} if ttl else {"type": "ephemeral"}
def text_block(text, control=None):
    return {"type": "text", "text": text, "cache_control": control} if control else {"type": "text", "text": text}

def plain(turns):
    return [{"role": r, "content": t} for r, t in turns]
def ask(text):
    return [{"role": "user", "content": text}]

def marked(turns, control=None):
    """Messages with a breakpoint on the last one."""
    out = plain(turns)
    out[-1]["content"] = [text_block(out[-1]["content"], control or cc())]
    return out

def tooled(model, messages):
    return {"model": model, "tools": chat_tools(TICKETS), "messages": messages}
def claude(model, system, messages, **more):
    return {"model": model, "max_tokens": 4096, "system": system, **more, "messages": messages}

def chat(model, system, turns, **more):
    return {"model": model, "messages": [{"role": "system", "content": system}] + plain(turns), **more}
def call(cid, name, args):
    return {"id": cid, "type": "function", "function": {"name": name, "arguments": args}}

def litellm_entry(body, cid, start, answer, provider, cached):
    n = len(json.dumps(body["messages"])) // 4
    return {"id": cid, "call_type": "acompletion", "status": "success", "startTime": start, "endTime": start + 6.4,
            "model": body["model"], "model_group": body["model"], "custom_llm_provider": provider,
            "messages": body["messages"], "model_parameters": {"max_tokens": 2048, "stream": True},
            "response": {"choices": [{"index": 0, "finish_reason": "stop",
                                      "message": {"role": "assistant", "content": answer}}],
                         "usage": {"prompt_tokens": n, "completion_tokens": len(answer) // 4,
                                   "prompt_tokens_details": {"cached_tokens": cached}}},
            "prompt_tokens": n, "completion_tokens": len(answer) // 4, "cache_hit": False}

def langfuse(messages, model, gid, start, end, answer, cached):
    return {"id": gid, "traceId": "tr-5c1d09", "type": "GENERATION", "name": "assistant-turn", "startTime": start,
            "endTime": end, "model": model, "modelParameters": {"temperature": 0.3, "max_tokens": 1200},
            "input": messages, "output": {"role": "assistant", "content": answer},
            "usageDetails": {"input": len(json.dumps(messages)) // 4, "output": len(answer) // 4,
                             "input_cached_tokens": cached}, "level": "DEFAULT"}

def langsmith(system, question, run, start, params, usage):
    def lc(kind, text):
        return {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", kind],
                "kwargs": {"content": text, "type": kind[:-7].lower()}}
    return {"id": run, "name": "ChatOpenAI", "run_type": "llm", "start_time": start,
            "inputs": {"messages": [[lc("SystemMessage", system), lc("HumanMessage", question)]]},
            "extra": {"invocation_params": {"model": "gpt-4.1-mini", "model_name": "gpt-4.1-mini", **params},
                      "metadata": {"ls_provider": "openai", "ls_model_name": "gpt-4.1-mini", "ls_model_type": "chat"}},
            "outputs": {"llm_output": {"token_usage": usage, "model_name": "gpt-4.1-mini-2025-04-14"}}}

def otel(system, turns, span, start):
    attrs = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4.1",
             "gen_ai.request.max_tokens": 900, "gen_ai.conversation.id": "conv_b81",
             "gen_ai.system_instructions": json.dumps([{"type": "text", "content": system}]),
             "gen_ai.input.messages": json.dumps([{"role": r, "parts": [{"type": "text", "content": t}]}
                                                  for r, t in turns]),
             "gen_ai.usage.input_tokens": (len(system) + sum(len(t) for _, t in turns)) // 4}
    return {"name": "chat gpt-4.1", "traceId": "8f0e6b1d5a3c47c2", "spanId": span, "kind": 3,
            "startTimeUnixNano": str(start), "endTimeUnixNano": str(start + 3_100_000_000), "attributes": attrs}

def sglang(text, rid, stamp):
    return {"timestamp": stamp, "event": "request.received", "rid": rid,
            "obj": {"text": text, "input_ids": None, "sampling_params": {"temperature": 0.2, "max_new_tokens": 512},
                    "rid": rid, "return_logprob": False, "stream": True, "lora_path": None}}

def batch_line(cid, body):
    return {"custom_id": cid, "method": "POST", "url": "/v1/chat/completions", "body": body}
def chatml(turns):
    return "".join(f"<|im_start|>{r}\n{t}<|im_end|>\n" for r, t in turns) + "<|im_start|>assistant\n"

def llama3(turns):
    head = "<|start_header_id|>{}<|end_header_id|>\n\n"
    return "<|begin_of_text|>" + "".join(f"{head.format(r)}{t}<|eot_id|>" for r, t in turns) + head.format("assistant")

def png(side, seed):
    rng, out = random.Random(seed), b"\x89PNG\r\n\x1a\n"
    rows = b"".join(b"\0" + bytes(int(rng.random() * 256) for _ in range(side * 3)) for _ in range(side))
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    for tag, data in ((b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")):
        out += struct.pack(">I", len(data)) + tag + data + struct.pack(">I", zlib.crc32(tag + data))
    return base64.b64encode(out).decode()

PAIRS = []

def pair(name, a, b, place, kind, advice, misses):
    PAIRS.append({"name": name, "a": copy.deepcopy(a), "b": copy.deepcopy(b), "place": place, "kind": kind,
                  "advice": advice, "provider_misses": misses})

# ---- the rules of the providers
sys_code = "You are a coding assistant inside an editor.\n\n" + handbook(CODE, 6000, 11)
talk = dialog(CODE, 7, 12, 900)
files = [text_block(f"<file name='mod{i:02d}.py'>\n# {paragraph(CODE, 300, 700 + i)}\n</file>") for i in range(24)]
pair("ide-attaches-24-files", claude(SONNET, sys_code, marked(talk[:5])),
     claude(SONNET, sys_code, plain(talk[:6]) + [{"role": "user", "content": files + [text_block(
         "Which of these files still use the old helper?", cc())]}]),
     "end of A: B continues it, 26 blocks after A's only breakpoint", "breakpoint too far",
     "Over 20 blocks lie between the two breakpoints: keep the old one too, or set one in between.", True)
sys_haiku = [text_block("You sort incoming mail of a web shop.\n\n" + handbook(SHOP, 8200, 21), cc())]
pair("haiku-below-4096", claude(HAIKU, sys_haiku, ask("Subject: my parcel\n\nIt says delivered, it is not.")),
     claude(HAIKU, sys_haiku, ask("Subject: invoice\n\nPlease send it again, with our VAT number.")),
     "messages[0], the user's mail", "too short for the cache",
     "Nothing is wrong: Claude Haiku 4.5 caches from 4,096 tokens on; share more before it or accept it.", True)
sys_law = [text_block("You explain insurance conditions.\n\n" + handbook(LAW, 12000, 31), cc("1h"))]
talk = dialog(LAW, 7, 32, 700)
tools = claude_tools(TICKETS[2:6])
tools_b = copy.deepcopy(tools)
tools_b[-1]["cache_control"] = cc()
pair("five-minutes-before-one-hour", claude(OPUS, sys_law, marked(talk[:5]), tools=tools),
     claude(OPUS, sys_law, marked(talk[:7]), tools=tools_b),
     "end of A: B continues it; what is wrong is the new breakpoint on tools[3]", "breakpoints refused",
     "Refused: a five-minute breakpoint (tool) precedes a one-hour one (system); give it 1h or drop it.", True)
sys_shop = [text_block("You are the assistant of a support team.\n\n" + handbook(SHOP, 6000, 41), cc())]
talk = dialog(SHOP, 17, 42, 2200)
tools = claude_tools(TICKETS)
pair("forced-tool-at-the-end", claude(SONNET, sys_shop, marked(talk[:15]), tools=tools, tool_choice={"type": "auto"}),
     claude(SONNET, sys_shop, marked(talk[:17]), tools=tools, tool_choice={"type": "tool", "name": "assign_case"}),
     "end of A; the cause is tool_choice (auto, then one tool)", "template settings",
     "A new tool_choice drops Anthropic's cache of all messages: keep auto and ask for the tool in words.", True)
talk = dialog(OPS, 9, 52, 900)
sys_ops = {"role": "system", "content": [text_block("You help the engineer.\n\n" + handbook(OPS, 9000, 51), cc("1h"))]}
pair("one-hour-coffee-break",
     litellm_entry({"model": SONNET, "messages": [sys_ops] + marked(talk[:7], cc("1h"))}, "chatcmpl-a41",
                   1793697260.118, talk[7][1], "anthropic", 0),
     litellm_entry({"model": SONNET, "messages": [sys_ops] + marked(talk[:9], cc("1h"))}, "chatcmpl-a42",
                   1793698592.731, "Roll back the canary first.", "anthropic", 2790), "end of A", "extended",
     "Nothing: 22 minutes are within one hour, and a text as a string or as one block is the same prompt.", False)
sys_one = [text_block("You are a patient tutor for insurance clerks.\n\n" + handbook(LAW, 7000, 61), cc())]
talk = dialog(LAW, 43, 62, 1100)
pair("only-the-system-is-marked", claude(SONNET, sys_one, plain(talk[:41])), claude(SONNET, sys_one, plain(talk[:43])),
     "end of A", "breakpoint too early",
     "Only the system prompt is read back: add a breakpoint on the last message of each request.", True)
faq = "Answer from the handbook below only.\n\n" + handbook(SHOP, 19000, 71)
pair("gpt56-handbook-questions",
     chat("gpt-5.6", faq, [("user", "May I return opened headphones?")], prompt_cache_key="faq-en"),
     chat("gpt-5.6", faq, [("user", "How long does a refund to a gift card take?")], prompt_cache_key="faq-en"),
     "messages[1], the question", "breakpoint on what changes",
     "GPT-5.6 keeps only the end of the latest message: put a prompt_cache_breakpoint on the system message.", True)
talk = dialog(CODE, 9, 82, 800)
dev = {"role": "developer", "content": [{"type": "input_text", "text": handbook(CODE, 7000, 81)}]}

def responses_items(turns):
    kinds = {"user": "input_text", "assistant": "output_text"}
    return [{"role": r, "content": [{"type": kinds[r], "text": t}]} for r, t in turns]

explicit = {"model": "gpt-5.6", "store": False, "prompt_cache_options": {"mode": "explicit"}, "prompt_cache_key": "pr"}
pair("gpt56-explicit-without-marks", {**explicit, "input": [dev] + responses_items(talk[:7])},
     {**explicit, "input": [dev] + responses_items(talk[:9])}, "end of A", "no breakpoint",
     "Explicit mode caches nothing without marks: set a prompt_cache_breakpoint, or leave the mode out.", True)
sys_key = "You plan journeys by train.\n\n" + handbook(SHOP, 8000, 91)
talk = dialog(SHOP, 7, 92, 700)
pair("cache-key-per-request",
     chat("gpt-4.1", sys_key, talk[:5], prompt_cache_key="req-7f3e21c0-5d0a-4a51-9a0e-2f6f1b6f0c11"),
     chat("gpt-4.1", sys_key, talk[:7], prompt_cache_key="req-91ab44e7-0c3f-47d8-8e52-b7a95ad0e6f4"),
     "end of A; the cause is prompt_cache_key", "cache key changed",
     "The key is new for each request: use one for each customer or conversation.", True)
sys_mv = handbook(OPS, 7000, 101)
talk = dialog(OPS, 13, 102, 900)
pair("mark-went-up-to-the-system", claude(SONNET, [text_block(sys_mv)], marked(talk[:11])),
     claude(SONNET, [text_block(sys_mv, cc())], plain(talk[:13])), "end of A", "breakpoint moved",
     "A wrote only at its last message, B looks only at the system prompt: keep a breakpoint where A had it.", True)
sys_lf = {"role": "system", "content": "You are the writing coach of a newsroom.\n\n" + handbook(OPS, 9000, 111)}
talk = dialog(OPS, 11, 112, 800)
pair("gpt4o-after-a-long-lunch",
     langfuse([sys_lf] + plain(talk[:9]), "gpt-4o", "gen-01", "2026-11-03T10:41:07.310Z", "2026-11-03T10:41:13.002Z",
              talk[9][1], 3328),
     langfuse([sys_lf] + plain(talk[:11]), "gpt-4o", "gen-02", "2026-11-03T13:02:44.870Z", "2026-11-03T13:02:50.114Z",
              "Cut the second paragraph.", 0), "end of A", "cache expired",
     "OpenAI's cache in memory ends within an hour: send sooner, or use a model with retention of 24h.", True)

# ---- tools
sys_t = "You are the assistant of a support team.\n\n" + handbook(SHOP, 5000, 121)
talk = dialog(SHOP, 3, 122, 500)
pair("tools-out-of-a-set", chat("gpt-4.1", sys_t, talk[:3], tools=chat_tools(TICKETS)),
     chat("gpt-4.1", sys_t, talk[:3], tools=chat_tools([TICKETS[i] for i in (4, 0, 6, 2, 5, 1, 3)])),
     "tools[0]: archive_case in A, issue_refund in B", "tools reordered",
     "Sort the tools by name before each request.", False)

def timed_tools(now):
    slot = neutral("book_slot", f"Books a call back with a colleague. Current local time: {now}. Slots are 30 minutes.",
                   {"start": prop("string", "Start of the slot.", format="date-time"),
                    "phone": prop("string", "Number to call, with country code.")}, ["start", "phone"])
    return chat_tools([TICKETS[0], slot] + TICKETS[2:])

pair("time-in-a-tool", chat("gpt-4.1", sys_t, dialog(SHOP, 3, 132, 500), tools=timed_tools("2026-11-03 09:14")),
     chat("gpt-4.1", sys_t, dialog(SHOP, 5, 132, 500), tools=timed_tools("2026-11-03 09:16")),
     "tools[1] (book_slot), at the time in its description", {"clock", "tool edited"},
     "Take the time out of the description; give it at the end of the last message.", False)
sys_r = "You answer questions of the support team.\n\n" + handbook(SHOP, 6000, 141)
talk = dialog(SHOP, 5, 142, 600)
late = {"model": "gpt-5", "instructions": sys_r, "store": False}
pair("mcp-server-came-late", {**late, "tools": flat_tools(TICKETS[:5]), "input": responses_items(talk[:3])},
     {**late, "tools": flat_tools(TICKETS[:5] + [JIRA]), "input": responses_items(talk[:5])},
     "tools[5] (jira_create_issue), after the last tool of A", "tool added",
     "Send all tools from the first request on, and say in words or by tool_choice which may be used.", False)
talk = dialog(SHOP, 5, 152, 900)
pair("viewer-may-not-archive", claude(SONNET, sys_shop, marked(talk[:3]), tools=claude_tools(TICKETS)),
     claude(SONNET, sys_shop, marked(talk[:5]), tools=claude_tools(TICKETS[1:])),
     "tools[0]: archive_case is gone", "tool removed",
     "Keep all tools in every request, and say in a message which may be used.", False)

def map_tools(sort):
    out = chat_tools(TICKETS[1:6])
    for t in out:
        t["function"]["parameters"] = json.loads(json.dumps(t["function"]["parameters"], sort_keys=sort))
    return out

pair("schema-out-of-an-unordered-map", chat("gpt-4.1-mini", sys_t, dialog(SHOP, 1, 162), tools=map_tools(False)),
     chat("gpt-4.1-mini", sys_t, dialog(SHOP, 1, 162), tools=map_tools(True)),
     "tools[0].function.parameters, at its first key", "keys reordered",
     "Serialize the schemas the same way each time, with sorted keys.", False)

def tracked(one, two, turns):
    notes = [paragraph(SHOP, 150, n) for n in range(6)]
    return [{"role": "system", "content": sys_t}] + plain(turns[:1]) + [
        {"role": "assistant", "content": None, "tool_calls": [call(one, "find_orders", '{"customer_id": "cu_8812"}')]},
        {"role": "tool", "tool_call_id": one, "content": json.dumps({"orders": notes[:5]})},
        {"role": "assistant", "content": None, "tool_calls": [call(two, "track_parcel", '{"tracking_number": "003"}')]},
        {"role": "tool", "tool_call_id": two, "content": json.dumps({"hub": notes[5]})}] + plain(turns[1:])

talk = dialog(SHOP, 3, 172, 600)
pair("ids-made-anew-by-the-gateway",
     tooled("Qwen/Qwen3-32B", tracked("chatcmpl-tool-4b1f0c7a9d", "chatcmpl-tool-90e2d15b36", talk[:1])),
     tooled("Qwen/Qwen3-32B", tracked("chatcmpl-tool-c83a6e5512", "chatcmpl-tool-17fd40aa8e", talk[:3])),
     "messages[2].tool_calls[0].id", "tool call id",
     "Store the ids and send the same again; Qwen's template prints none, so its engine loses nothing by it.", None)

def staffed(names):
    out = claude_tools([TICKETS[1], TICKETS[2], TICKETS[4]])
    out[0]["input_schema"]["properties"]["assignee"]["enum"] = names
    return out

def dated(day):
    return [text_block(f"You distribute support cases. Today is {day}.\n\n" + handbook(SHOP, 7000, 181), cc())]

talk = dialog(SHOP, 3, 182, 700)
pair("who-is-online-and-what-day",
     claude(SONNET, dated("Monday, 2 November 2026"), marked(talk[:1]), tools=staffed(["amara", "jonas", "li"])),
     claude(SONNET, dated("Tuesday, 3 November 2026"), marked(talk[:1]), tools=staffed(["li", "priya", "tomas"])),
     "tools[0], the enum of assignee; after it, the date in system[0] changed too", {"tool edited", "clock"},
     "Let assignee be any string, and give the colleagues online and the date in the last message.", False)

# ---- system prompts, templates
def stadtwerke(now):
    return [text_block(f"Aktuelle Uhrzeit: {now}\n\nDu bist der Kundendienst der Stadtwerke Lindental.\n\n{DE}", cc())]

pair("uhrzeit-im-kopf",
     claude(SONNET, stadtwerke("Dienstag, 3. November 2026, 09:14:32 Uhr"), ask("Wie melde ich einen Umzug?")),
     claude(SONNET, stadtwerke("Dienstag, 3. November 2026, 09:15:07 Uhr"), ask("Wie melde ich einen Umzug?")),
     "system[0], at the time in the first line", "clock",
     "Move the time to the end of the last message, or round it to the day.", False)

def traced(rid):
    return f"You are the assistant of a bank's help desk.\nRequest-Id: {rid}\n\n" + handbook(OPS, 8000, 201)

talk = dialog(OPS, 5, 202, 700)
pair("request-id-in-the-instructions",
     otel(traced("5b0c7d52-6b0e-4e0b-a7a4-0b1f7c2f9e3d"), talk[:3], "a1f0c3d2e4b59687", 1793697260118000000),
     otel(traced("e2914fa8-33c5-4d17-8f6a-9cd0417be560"), talk[:5], "b7d2e6f1908a4c35", 1793697301954000000),
     "gen_ai.system_instructions, at the id in the second line", "random id",
     "Leave the request id out of the prompt and send it as a header or metadata.", False)
turns = [("system", "You are a careful assistant.\n\n" + handbook(OPS, 4000, 211))] + dialog(OPS, 5, 212, 600)
pair("old-template-in-one-client", chatml(turns), llama3(turns),
     "the very first marker of the prompt", "chat template changed",
     "Use one template, apply_chat_template of the model's own tokenizer, in every client.", None)
talk = dialog(CODE, 7, 222, 800)
pair("thinking-switched-on",
     chat("Qwen/Qwen3-32B", sys_code, talk, temperature=0.7, chat_template_kwargs={"enable_thinking": False}),
     chat("Qwen/Qwen3-32B", sys_code, talk, temperature=0.7, chat_template_kwargs={"enable_thinking": True}),
     "none in the messages; chat_template_kwargs.enable_thinking differs", "template settings",
     "The template writes this setting into the prompt: keep it the same within a conversation.", None)
vi = "Bạn là trợ lý chăm sóc khách hàng của một sàn thương mại điện tử.\n\n" + VI
vi_ask = [("user", "Khi nào tôi được hoàn tiền?")]
pair("vietnamese-from-a-mac", chat("gpt-4.1", unicodedata.normalize("NFC", vi), vi_ask),
     chat("gpt-4.1", unicodedata.normalize("NFD", vi), vi_ask),
     "messages[0] (system), at the first letter with a mark, in its first word", "unicode form",
     "Normalize the text to one form, such as NFC, when it is read.", False)

def yoyaku(rest):
    return chatml([("system", f"あなたは旅館の予約係です。丁寧に答えてください。\n本日の残り予算: {rest}円\n\n{JA}"),
                   ("user", "来月、家族四人で二泊したいのですが、部屋はありますか。")])

pair("zan-yosan", sglang(yoyaku("4170"), "5c0f2b7a", "2026-11-03T09:14:02.118204"),
     sglang(yoyaku("3982"), "77d1e9b4", "2026-11-03T09:14:21.540917"),
     "system prompt, at the remaining budget in its second line", "number",
     "Put the remaining budget at the end of the last message, or leave it out.", None)
head, tail = handbook(OPS, 5000, 261), handbook(OPS, 6000, 262)
old = "## Standards\nCite ISO 27001:2013 by clause. Screenshots are 16:9 and come without the names of customers.\n\n"
new = "## Standards\nCite ISO 27001:2022 and the local annex. Describe screenshots in words.\n\n"
draft = [("user", "Draft the weekly report for the audit committee, please.")]
pair("half-of-the-fleet-has-the-new-prompt",
     litellm_entry(chat("gpt-4.1", head + old + tail, draft), "chatcmpl-c71", 1793701811.5, "Here it is.", "openai", 0),
     litellm_entry(chat("gpt-4.1", head + new + tail, draft), "chatcmpl-c72", 1793701829.9, "The draft:", "openai", 0),
     "messages[0] (system), in the section Standards, at the year of the standard", {"system edited", "text edited"},
     "Two versions of the system prompt are in use: roll the new one out at once.", False)
sys_ls = "You summarize calls with clients.\n\n" + handbook(SHOP, 7500, 271)
transcript = "Summarize this call:\n\n" + paragraph(SHOP, 3000, 272)
pair("only-sampling-differs",
     langsmith(sys_ls, transcript, "0d1c9a52-run-1", "2026-11-03T09:14:02.118204", {"temperature": 0.2},
               {"prompt_tokens": 2310, "completion_tokens": 180, "prompt_tokens_details": {"cached_tokens": 0}}),
     langsmith(sys_ls, transcript, "0d1c9a52-run-2", "2026-11-03T09:14:40.007311", {"temperature": 0.9, "seed": 7},
               {"prompt_tokens": 2310, "completion_tokens": 240, "prompt_tokens_details": {"cached_tokens": 0}}),
     "none", "settings",
     "The prompts are the same, and sampling does not matter: look at the server (routing, eviction, load).", False)

# ---- histories
def clocked(now):
    return handbook(SHOP, 6000, 281) + f"\nThe customer's local time is {now}."

talk = dialog(SHOP, 43, 282, 420)
pair("window-of-twenty-and-a-clock", chat("gpt-4o", clocked("09:14"), talk[18:39]),
     chat("gpt-4o", clocked("09:17"), talk[20:41]),
     "messages[0], at the time in its last line; after it, two old messages are gone", {"clock", "history truncated"},
     "Move the time to the end of the last message; then drop old messages rarely and many at once.", False)
sys_cp = [text_block("You are a coding agent in a terminal.\n\n" + handbook(CODE, 15000, 291), cc())]
talk = dialog(CODE, 33, 292, 700)
brief = ("user", "Summary of our work so far:\n\n" + paragraph(CODE, 1800, 293) + "\n\nGo on from here.")
pair("compacted-after-31-messages", claude(SONNET, sys_cp, plain(talk[:31]), cache_control=cc()),
     claude(SONNET, sys_cp, plain([brief, talk[31], talk[32]]), cache_control=cc()),
     "messages[0]: the first question in A, the summary in B", "history summarized",
     "Expected at a compaction, and the system prompt is still read: compact rarely.", False)
lookup = call("call_0", "get_customer", '{"customer_id": "cu_8812"}')
think = {"role": "assistant", "content": "", "tool_calls": [lookup], "reasoning_content": paragraph(SHOP, 900, 301)}
shown = {"role": "tool", "tool_call_id": "call_0",
         "content": json.dumps({"name": "Ines Duarte", "language": "pt", "note": paragraph(SHOP, 700, 303)})}
first = [{"role": "system", "content": sys_t}, {"role": "user", "content": "Which language does cu_8812 speak?"}]
less = {k: v for k, v in think.items() if k != "reasoning_content"}
last = plain([("assistant", "Portuguese."), ("user", "Then write her a short greeting in Portuguese.")])
pair("thoughts-left-behind", tooled("Qwen/Qwen3-235B-A22B", first + [think, shown]),
     tooled("Qwen/Qwen3-235B-A22B", first + [less, shown] + last),
     "messages[2] (assistant), its reasoning_content", "reasoning removed",
     "Keep the reasoning where the template can, or accept one recomputed turn at each new question.", None)
calls = [call("call_Qk1", "find_orders", '{"customer_id": "cu_310"}'),
         call("call_Qk2", "get_customer", '{"customer_id": "cu_310"}'),
         call("call_Qk3", "search_articles", '{"query": "mould"}')]
got = [{"role": "tool", "tool_call_id": f"call_Qk{i + 1}", "content": [{"type": "text", "text": json.dumps(
    {"source": calls[i]["function"]["name"], "body": paragraph(SHOP, 800, 310 + i)})}]} for i in range(3)]
first = [{"role": "system", "content": sys_t}, {"role": "user", "content": "Customer cu_310 has mould on her shoes."},
         {"role": "assistant", "content": None, "tool_calls": calls}]
last = plain([("assistant", paragraph(SHOP, 400, 315)), ("user", "Write her that, please.")])
pair("results-as-they-finish", tooled("gpt-4.1", first + got),
     tooled("gpt-4.1", first + [got[1], got[0], got[2]] + last),
     "messages[3]: the result of find_orders in A, that of get_customer in B", "messages reordered",
     "Send the results in the order of the calls, not in that in which they finish.", False)
zh_sys = "你是一家网上商城的客服助手，请用简体中文回答。\n\n" + ZH
zh = [("user", "你好，我上周买的耳机右边没有声音，可以换一副吗？"),
      ("assistant", "您好！可以的，请您先提供订单编号，并拍一张产品标签的照片，我马上为您登记换货。"),
      ("user", "订单编号我发到邮箱了，照片也附上了。换货大概要多久？"),
      ("assistant", "收到，谢谢您。仓库确认之后，新的耳机一般会在五个工作日之内送达。"), ("user", "好的，运费由谁承担？")]
b = chat("gpt-4.1", zh_sys, zh)
b["messages"].insert(1, {"role": "system", "content": "客户记忆：客户姓陈，偏好电话联系，以前退过一次货，住在杭州。"})
pair("jiyi-inserted-late", chat("gpt-4.1", zh_sys, zh[:3]), b,
     "messages[1]: B has a note about the customer before the first question", "message inserted",
     "Append what is remembered after the last message instead of before old ones.", False)

def priced(one, two):
    rows = ",\n  ".join(f'{{"sku": "T-{n}", "unit_price": {one if n % 2 else two}, "note": "{paragraph(SHOP, 90, n)}"}}'
                        for n in range(331, 343))
    return f'{{"currency": "EUR", "items": [\n  {rows}\n]}}'

def basket(one, two):
    find = '{"customer_id": "7"}'
    return [{"role": "system", "content": sys_t}, {"role": "user", "content": "What is in the basket of customer 7?"},
            {"role": "assistant", "content": None, "tool_calls": [call("call_b7", "find_orders", find)]},
            {"role": "tool", "tool_call_id": "call_b7", "content": priced(one, two)}]

last = plain([("assistant", "Twelve articles, all in stock."), ("user", "Which is the dearest?")])
pair("prices-through-javascript", tooled("gpt-4.1", basket("12.0", "149.50")),
     tooled("gpt-4.1", basket("12", "149.5") + last),
     "messages[3] (tool), at the first unit_price: 12.0 in A, 12 in B", "number format",
     "Send the stored text of the result again, and do not parse and print it anew.", False)
talk = dialog(CODE, 9, 342, 800)
nag = "\n\n<reminder>The list of tasks is empty. Do not mention this to the user.</reminder>"
pair("reminder-taken-back", chat("gpt-4.1", sys_code, talk[:4] + [("user", talk[4][1] + nag)]),
     chat("gpt-4.1", sys_code, talk[:7]), "messages[5] (user), at its end, where A has a reminder", "text cut off",
     "Leave the reminder in the message it was sent with, or send it as a message of its own.", False)
IDS = [151644, 8948, 198] + [n * n * 7919 % 119983 for n in range(7, 1900)] + [151645, 198, 151644, 77091, 198]

def vllm_line(stamp, rid):
    return (f"INFO {stamp} [logger.py:43] Received request {rid}: prompt: None, params: SamplingParams(n=1, "
            "temperature=0.7, top_p=0.8, top_k=20, max_tokens=1024), "
            f"prompt_token_ids: {IDS}, prompt_embeds shape: None, lora_request: None.")

pair("the-same-tokens-twice", vllm_line("11-03 09:14:02", "cmpl-2f7b-0"), vllm_line("11-03 09:31:55", "cmpl-b40d-0"),
     "none", "nothing", "The prompts are the same: look at the server (capacity, eviction, another replica).", None)

# ---- passages, attachments
docs = [f"[{t}]\n{paragraph(LAW, 900, 360 + i)}" for i, t in enumerate(
    ["household.md", "bicycles.md", "glass.md", "deductibles.md", "moving.md", "notices.md"])]
intro = "Answer from these passages only and name the file.\n\n" + handbook(LAW, 1500, 369) + "\n"
bike = [("user", "Is my bicycle covered outside?")]
pair("passages-in-the-order-of-a-set", chat("gpt-4.1", intro + "\n\n".join(docs), bike),
     chat("gpt-4.1", intro + "\n\n".join(docs[i] for i in (3, 0, 5, 1, 4, 2)), bike),
     "messages[0] (system), at the first passage: household.md in A, deductibles.md in B", "order",
     "Sort the passages by a fixed key, such as the file's name.", False)

def photo(stamp, sig):
    return [{"type": "text", "text": "This is the damaged lamp."}, {"type": "image_url", "image_url": {
        "url": "https://claims-media.s3.eu-central-1.amazonaws.com/4471/lamp.jpg?X-Amz-Algorithm=AWS4-HMAC-SHA256"
               f"&X-Amz-Date={stamp}&X-Amz-Expires=900&X-Amz-SignedHeaders=host&X-Amz-Signature={sig}"}}]

talk = dialog(LAW, 4, 372, 900)
a = chat("gpt-4o", handbook(LAW, 6000, 371), [("user", "")] + talk[1:3])
b = chat("gpt-4o", handbook(LAW, 6000, 371), [("user", "")] + talk[1:4] + [("user", "And who pays for the new lamp?")])
a["messages"][1]["content"] = photo("20261103T081402Z", "3f8a0c41d27e9b65" * 4)
b["messages"][1]["content"] = photo("20261103T083127Z", "c05b97e1468fd23a" * 4)
pair("photo-signed-anew", a, b, "messages[1].content[1].image_url.url, after the question mark", "signed URL",
     "Keep the address that was sent first, or send the picture itself or a file id.", False)
lease = "<contract>\n" + handbook(LAW, 24000, 381) + "</contract>\n\n"
quote = "You are a paralegal. Quote the clause for each answer."
pair("contract-and-question-in-one-block",
     claude(SONNET, quote, marked([("user", lease + "Question: who pays for an expert of the insurer?")])),
     claude(SONNET, quote, marked([("user", lease + "Question: may the policyholder repair at once?")])),
     "messages[0].content[0], at the question after the contract", "breakpoint on what changes",
     "Split the message into two blocks, with the breakpoint on the contract, in both requests.", True)
sys_im = [text_block("You test web pages with the user.\n\n" + handbook(CODE, 7500, 391), cc())]
talk = dialog(CODE, 15, 392, 1800)
image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": png(40, 393)}}
shot = {"role": "user", "content": [image, text_block("This is what the page looks like now. Is it right?", cc())]}
pair("first-screenshot-of-the-session", claude(SONNET, sys_im, marked(talk[:13])),
     claude(SONNET, sys_im, plain(talk[:14]) + [shot]),
     "end of A: B continues it with the first image of the conversation", "image added",
     "The first image drops Anthropic's cache of all messages; the marked system prompt is still read.", True)

def loja(ascii_only):
    return ("Você é o assistente de vendas da Casa Boa. Responda em português, com até quatro frases.\n\nCatálogo:\n"
            + json.dumps(PT_ITEMS, ensure_ascii=ascii_only))

pair("catalogo-com-escapes", chat("gpt-4.1", loja(False), [("user", "Qual cafeteira é a mais barata?")]),
     chat("gpt-4.1", loja(True), [("user", "Qual cafeteira é a mais barata?")]),
     "messages[0] (system), in the catalogue, at the ó of the first código (\\u00f3 in B)", "JSON rewritten",
     "Write the JSON with the same settings (ensure_ascii, separators) in both services.", False)
rules = "You are a claims clerk. Apply the conditions below.\n\n" + handbook(LAW, 9000, 401)
one = "The claim was filed on 14 March 2024 at 17:30, after a pipe burst. Is it in time?"
two = "A storm broke two windows on 2 May 2023 at 08:05. Which deductible applies?"
pair("dates-in-the-questions", batch_line("claim-0091", chat("gpt-4.1-mini", rules, [("user", one)], max_tokens=300)),
     batch_line("claim-0092", chat("gpt-4.1-mini", rules, [("user", two)], max_tokens=300)),
     "messages[1], the user's question", "question",
     "Nothing to do: the questions differ, as they should, and what is before them is shared.", False)
