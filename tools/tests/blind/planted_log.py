#!/usr/bin/env python3
"""A made-up log of 20,000 LLM requests from four applications over one day, with ten planted causes of lost prefix
reuse. `make_log(fixed)` yields the entries in order of time; the causes named in `fixed` are not planted, and all else
(requests, times, texts, choices) stays the same: each choice has its own generator, seeded by its purpose and place.

    python3 planted_log.py > planted_log.jsonl            the log as planted
    python3 planted_log.py --fix chat_clock,rag_crlf      without these
"""
import argparse
import bisect
import itertools
import json
import sys
from datetime import datetime, timedelta, timezone
from random import Random

SEED = "minikv-blind-1"
DAY = datetime(2025, 11, 18, tzinfo=timezone.utc)       # a Tuesday
DEPLOY = 13 * 3600                                      # the chat's system prompt got a new sentence at 13:00 (not planted)
COUNT = {"helpdesk-chat": 8000, "repo-agent": 2800, "docs-rag": 5200, "invoice-batch": 4000}
MODEL = {"helpdesk-chat": "llama-3.3-70b-instruct", "repo-agent": "claude-sonnet-4-5",
         "docs-rag": "mistral-small-24b-instruct", "invoice-batch": "qwen3-8b"}
FALLBACK = "qwen3-8b-fp8"
BODY = "request"                                        # the entry's field that holds the request body
KEEP, CUT = 11, 5                                       # messages: the widget's window; what is left after one big cut

# name: app, route, where it is, kinds that fit (first: best), the rate (the share of the conversations, sessions or
# requests, on the route where one is named, that have it), what was done, and what is done instead once fixed
CAUSES = {
    "chat_clock": ("helpdesk-chat", "/chat/mobile", "system message, first line", ["clock"], 0.95,
                   "the time of the request, to the second, starts the system prompt", "the date alone"),
    "chat_user_block": ("helpdesk-chat", "/chat/web", "system message, after the first sentence",
                        ["text edited", "system edited", "text inserted"], 0.9,
                        "a block about the customer stands before the long policy", "it stands after the policy"),
    "chat_window": ("helpdesk-chat", "/chat/widget", "messages, the first after the system message",
                    ["history truncated"], 1.0, f"only the last {KEEP} messages are sent: each turn drops two",
                    f"cut to {CUT} messages at once when there are more than {KEEP}"),
    "agent_tool_order": ("repo-agent", "any", "tools", ["tools reordered"], 0.26,
                         "one pool of workers builds the tools from a set: six orders", "one order"),
    "agent_result_age": ("repo-agent", "any", "messages, an old tool result (ci_status)",
                         ["tool result edited", "clock", "number"], 0.36,
                         "the ages ('4 min ago') in an old result are rendered again each time", "as first sent"),
    "rag_request_id": ("docs-rag", "/ask/partner", "last user message, first line", ["random id"], 0.7,
                       "a request id stands before the passages", "left out"),
    "rag_passage_order": ("docs-rag", "/ask/search", "last user message, the passages", ["order", "text edited"], 0.7,
                          "the same five passages come in the order of a noisy score", "sorted by number"),
    "rag_crlf": ("docs-rag", "/ask/desktop", "system message and last user message", ["line ends"], 1.0,
                 "the desktop client sends CRLF where all others send LF", "LF"),
    "batch_schema_keys": ("invoice-batch", "any", "tools, the keys of the definitions", ["keys reordered"], 0.12,
                          "short-lived workers write the tools from a hash map: other orders of keys", "one order"),
    "batch_model": ("invoice-batch", "any", "model", ["namespace"], 0.16,
                    f"some questions about a document go to a fallback, {FALLBACK}", "one model"),
}
CAUSES = {name: dict(zip("app route where kinds rate what fix".split(), cause)) for name, cause in CAUSES.items()}

WORDS = {
    "shop": "order parcel refund invoice customer account address delivery courier warehouse return label payment card "
            "voucher discount subscription renewal plan charge balance receipt tracking item colour size stock email "
            "password login profile support agent ticket escalation policy deadline weekend holiday region store pickup "
            "damaged missing late early partial exchange credit confirmation signature driver locker window",
    "code": "parser token buffer module function argument return value index loop cache branch commit merge test fixture "
            "assert failure timeout socket thread lock queue worker handler route schema migration column table query "
            "transaction rollback config flag default path import package version release build target compiler warning "
            "error trace stack frame pointer offset length checksum header payload retry backoff limit config",
    "docs": "cluster node replica volume snapshot backup restore endpoint gateway certificate key rotation policy role "
            "permission tenant quota region zone network subnet firewall rule log metric alert dashboard threshold "
            "upgrade downtime maintenance window console command option parameter default storage class archive retention "
            "encryption audit event trigger schedule job pipeline connector source sink partition offset schema",
    "bill": "supplier invoice number date due total net tax rate line quantity unit price account bank transfer reference "
            "contract purchase order delivery note discount freight currency rounding reminder balance credit debit item "
            "description period service consulting licence maintenance hours travel office material storage hosting",
}
WORDS = {k: v.split() for k, v in WORDS.items()}
GLUE = ("the a this each that which with for from when before after under between and or of in on to by is was can will "
        "must should does not only also then once until while if unless about into").split()


def rng(*place):
    return Random("|".join([SEED, *map(str, place)]))


def sentence(r, domain):
    words, vocab = [], WORDS[domain]
    for i in range(r.randint(6, 15)):
        words.append(r.choice(GLUE) if i % 2 == 0 and r.random() < 0.8 else r.choice(vocab))
    if r.random() < 0.2:
        words.insert(r.randrange(1, len(words)), str(r.randint(2, 900)))
    return (" ".join(words)).capitalize() + r.choice("....?" if r.random() < 0.3 else "....")


def prose(r, domain, size, sep=" "):
    """Sentences, about `size` bytes of them."""
    out, n = [], 0
    while n < size:
        out.append(sentence(r, domain))
        n += len(out[-1]) + 1
    return sep.join(out)


def hexes(r, n):
    return "".join(r.choice("0123456789abcdef") for _ in range(n))


def stamp(t):
    return (DAY + timedelta(milliseconds=round(t * 1000))).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def busy(r, first, last, peak):
    """A time of the day, in seconds, most often near the peak (all given in hours)."""
    return r.triangular(first * 3600, last * 3600, peak * 3600)


FIRST = "Anna Ben Carla David Elif Farid Greta Hugo Ines Jonas Kira Luis Maya Nils Olga Pavel Rosa Sven Tara Uwe Vera Yan".split()
LAST = "Abel Brandt Costa Dahl Engel Fischer Gomez Haas Ivanov Jansen Keller Lopez Meyer Novak Ortiz Peters Quist Rossi".split()


class App:
    def __init__(self, fixed, keep_all):
        self.fixed, self.keep_all = fixed, keep_all
        self.known = {}
        self.prepare()



class Chat(App):
    app = "helpdesk-chat"

    def prepare(self):
        r = rng("chat", "system")
        self.lead = "You are the help desk of Northfold, a shop for outdoor gear. Answer briefly and kindly."
        self.policy = "\n".join("- " + sentence(r, "shop") for _ in range(15)) + "\n\n" + prose(r, "shop", 250)
        self.news = "\nSince today parcels to islands take two days longer; say so before an order is placed."

    def talk(self, c):
        """The facts of a conversation: route, user, the causes' flags, and when each turn is sent."""
        if c not in self.known:
            r = rng("chat", c, "facts")
            route = r.choices(["/chat/web", "/chat/mobile", "/chat/widget"], [0.58, 0.28, 0.14])[0]
            n = r.randint(5, 24) if route == "/chat/widget" else min(1 + int(r.expovariate(1 / 3.6)), 12)
            t, times = busy(r, 0.2, 21.5, 14), []
            for _ in range(n):
                times.append(t)
                t += 25 + min(r.expovariate(1 / 90), 500)
            user = int(900 * r.random() ** 1.3)
            self.known[c] = dict(route=route, user=user, times=times, messages=[],
                                 clock=rng("chat", c, "clock").random() < CAUSES["chat_clock"]["rate"],
                                 block=rng("chat", c, "block").random() < CAUSES["chat_user_block"]["rate"])
        return self.known[c]

    def all(self):
        for c in itertools.count():
            for turn, t in enumerate(self.talk(c)["times"]):
                yield t, (c, turn)

    def card(self, user):
        r = rng("chat", "user", user)
        return (f"Customer: {r.choice(FIRST)} {r.choice(LAST)} (no. {r.randint(10**6, 10**7 - 1)})\n"
                f"Plan: {r.choice(['basic', 'plus', 'family', 'club'])}, since {r.randint(2016, 2025)}-{r.randint(1, 12):02}\n"
                f"Language: {r.choice(['en', 'de', 'fr', 'es', 'nl'])}; open orders: {r.randint(0, 4)}\n"
                f"Last contact: {prose(r, 'shop', 40)}")

    def system(self, talk, t):
        policy = self.policy + (self.news if t >= DEPLOY else "")
        if talk["route"] == "/chat/mobile" and talk["clock"]:
            now = f"{DAY + timedelta(seconds=t):%A, %d %B %Y, %H:%M:%S}"
            if "chat_clock" in self.fixed:
                now = now.rpartition(",")[0]
            return f"It is now {now}.\n{self.lead}\n\n{policy}"
        if talk["route"] == "/chat/web" and talk["block"]:
            card = self.card(talk["user"])
            if "chat_user_block" in self.fixed:
                return f"{self.lead}\n\n{policy}\n\n{card}"
            return f"{self.lead}\n\n{card}\n\n{policy}"
        return f"{self.lead}\n\n{policy}"

    def body(self, at, t):
        c, turn = at
        talk = self.talk(c)
        history = talk["messages"]
        while len(history) < 2 * turn + 1:
            i = len(history)
            r = rng("chat", c, "message", i)
            if i % 2:
                text = prose(r, "shop", r.randint(90, 430), r.choice([" ", "\n"]))
            else:
                text = prose(r, "shop", r.randint(30, 170))
                if r.random() < 0.1:            # a time at the end of what a user said: it stays there, and costs nothing
                    text += f" (sent {stamp(talk['times'][i // 2])[11:16]})"
            history.append({"role": "assistant" if i % 2 else "user", "content": text})
        start = 0
        if talk["route"] == "/chat/widget" and not self.keep_all:
            if "chat_window" in self.fixed:
                for n in range(1, 2 * turn + 2, 2):
                    if n - start > KEEP:
                        start = n - CUT
            else:
                start = max(0, 2 * turn + 1 - KEEP)
        r = rng("chat", c, turn, "settings")
        system = {"role": "system", "content": self.system(talk, t)}
        body = {"model": MODEL[self.app], "messages": [system] + history[start:2 * turn + 1],
                "temperature": r.choice([0.3, 0.3, 0.3, 0.7]), "max_tokens": r.choice([400, 600]), "stream": True}
        return talk["route"], f"c{talk['user']:04}", body


TOOLS = [("read_file", "path:string start:integer end:integer"), ("write_file", "path:string content:string"),
         ("search_code", "pattern:string path:string limit:integer"), ("run_tests", "target:string timeout:integer"),
         ("git_diff", "base:string path:string"), ("ci_status", "branch:string"), ("list_files", "path:string depth:integer"),
         ("open_ticket", "title:string text:string priority:string")]
BATCH_TOOLS = [("save_invoice", "supplier:string number:string date:string total:number currency:string"),
               ("save_line", "position:integer text:string quantity:number price:number"),
               ("flag_for_review", "reason:string severity:integer")]


def define(tools, domain, size):
    out = []
    for name, fields in tools:
        r = rng("tool", name)
        props = {}
        for field in fields.split():
            key, kind = field.split(":")
            props[key] = {"type": kind, "description": " ".join(sentence(r, domain).split()[:6])}
        out.append({"name": name, "description": prose(r, domain, size),
                    "input_schema": {"type": "object", "properties": props, "required": list(props)[:2]}})
    return out


class Agent(App):
    app = "repo-agent"

    def prepare(self):
        r = rng("agent", "system")
        self.tools = define(TOOLS, "code", 40)
        self.orders = []
        for k in range(6):
            order = list(range(len(self.tools)))
            rng("agent", "order", k).shuffle(order)
            self.orders.append(order)
        self.system = ("You are a careful engineer who works in a repository with the tools given. Read before you write, "
                       "run the tests after each change, and stop when the task is done.\n\n"
                       + "\n".join(f"{i + 1}. {sentence(r, 'code')}" for i in range(8)))

    def session(self, s):
        if s not in self.known:
            r = rng("agent", s, "facts")
            n = r.randint(5, 15)
            t, times = busy(r, 6.5, 21, 11), []
            for _ in range(n):
                times.append(t)
                t += r.uniform(9, 50)
            aged = rng("agent", s, "age")
            self.known[s] = dict(
                route=r.choices(["/agent/ide", "/agent/ci"], [0.7, 0.3])[0], user=r.randrange(60), times=times, steps=[],
                task=f"Task {r.randint(100, 9999)}: " + prose(r, "code", r.randint(120, 500)),
                repo=f"Repository: {r.choice(WORDS['code'])}-{r.choice(WORDS['code'])}, branch fix-{hexes(r, 4)}",
                age=aged.randint(1, 5) if aged.random() < CAUSES["agent_result_age"]["rate"] else None,
                jobs=[(name, aged.randint(100, 4000)) for name in ("build", "unit tests", "lint")])
        return self.known[s]

    def all(self):
        for s in itertools.count():
            for step, t in enumerate(self.session(s)["times"]):
                yield t, (s, step)

    def status(self, session, sent, t):
        """What ci_status said, at `sent`; with the ages as of `t`."""
        lines = [f"{name}: passed, finished {int(t - sent + age) // 60} min ago" for name, age in session["jobs"]]
        return "3 jobs on this branch\n" + "\n".join(lines) + f"\nlast push {int(t - sent + 45) // 60} min ago"

    def step(self, s, session, i):
        """The model's turn `i` and the result of its tool: two messages."""
        r = rng("agent", s, "step", i)
        name, fields = ("ci_status", "branch:string") if i == session["age"] else r.choice(
            [tool for tool in TOOLS if tool[0] != "ci_status"])
        given = {}
        for field in fields.split():
            key, kind = field.split(":")
            given[key] = r.randint(1, 400) if kind == "integer" else (
                f"src/{r.choice(WORDS['code'])}/{r.choice(WORDS['code'])}.py" if key in ("path", "target")
                else " ".join(r.choice(WORDS["code"]) for _ in range(r.randint(1, 8))))
        call = "toolu_" + hexes(r, 20)
        if name == "read_file":
            text = "\n".join(f"{n:4} {r.choice(['    ', '        ', ''])}{r.choice(WORDS['code'])} = "
                             f"{r.choice(WORDS['code'])}({r.choice(WORDS['code'])}, {r.randint(0, 99)})"
                             for n in range(r.randint(1, 50), r.randint(52, 66)))
            text = text[:560]
        else:
            text = prose(r, "code", r.randint(40, 340), "\n")
        said = [{"type": "text", "text": prose(r, "code", r.randint(30, 200))},
                {"type": "tool_use", "id": call, "name": name, "input": given}]
        return ({"role": "assistant", "content": said},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": text}]})

    def body(self, at, t):
        s, step = at
        session = self.session(s)
        while len(session["steps"]) < step:
            session["steps"].append(self.step(s, session, len(session["steps"])))
        messages = [{"role": "user", "content": f"{session['repo']}\n\n{session['task']}"}]
        for i, (said, result) in enumerate(session["steps"][:step]):
            if i == session["age"]:
                sent = session["times"][i + 1]
                text = self.status(session, sent, sent if "agent_result_age" in self.fixed else t)
                result = {"role": "user", "content": [dict(result["content"][0], content=text)]}
            messages += [said, result]
        tools, pool = self.tools, rng("agent", s, step, "pool")
        if pool.random() < CAUSES["agent_tool_order"]["rate"]:
            order = pool.choice(self.orders)
            if "agent_tool_order" not in self.fixed:
                tools = [tools[k] for k in order]
        user = f"dev{session['user']:02}"
        body = {"model": MODEL[self.app], "max_tokens": 4096, "cache_control": {"type": "ephemeral"}, "system": self.system,
                "tools": tools, "messages": messages, "metadata": {"user_id": user}}
        return session["route"], user, body


class Rag(App):
    app = "docs-rag"
    topics = 330

    def prepare(self):
        r = rng("rag", "system")
        self.system = ("Answer the question from the passages alone, and name the numbers of those that you used.\n"
                       "If they do not say it, say that you do not know.\n"
                       + "\n".join("* " + sentence(r, "docs") for _ in range(7)))
        weights = [1 / (k + 6) ** 0.8 for k in range(self.topics)]
        self.cum = list(itertools.accumulate(weights))

    def passages(self, topic):
        if topic not in self.known:
            r = rng("rag", "topic", topic)
            numbers = sorted(r.sample(range(1000, 9999), 5))
            self.known[topic] = [f"[{n}] {sentence(r, 'docs')}\n{prose(r, 'docs', r.randint(180, 380))}" for n in numbers]
        return self.known[topic]

    def all(self):
        for q in itertools.count():
            r = rng("rag", q, "time")
            t = busy(r, 5, 23.5, 10.5)
            for again in range(2 if r.random() < 0.006 else 1):         # a few are sent again, the same, after a timeout
                yield t + 30.5 * again, q

    def body(self, q, t):
        r = rng("rag", q, "facts")
        route = r.choices(["/ask/web", "/ask/partner", "/ask/search", "/ask/desktop"], [0.32, 0.25, 0.26, 0.17])[0]
        topic = bisect.bisect(self.cum, r.random() * self.cum[-1])
        user = r.randrange(400)
        passages = self.passages(topic)
        question = "Question: " + prose(r, "docs", r.randint(20, 110))
        head, system = "", self.system
        cause = rng("rag", q, "cause")
        planted = cause.random()
        if (route == "/ask/search" and planted < CAUSES["rag_passage_order"]["rate"]
                and "rag_passage_order" not in self.fixed):
            score = [1 - 0.12 * k + cause.gauss(0, 0.18) for k in range(5)]
            passages = [passages[k] for k in sorted(range(5), key=lambda k: -score[k])]
        if (route == "/ask/partner" and planted < CAUSES["rag_request_id"]["rate"]
                and "rag_request_id" not in self.fixed):
            head = "Request-ID: {}-{}-{}\n".format(*(hexes(cause, n) for n in (8, 4, 12)))
        text = f"{head}Passages:\n\n" + "\n\n".join(passages) + f"\n\n{question}"
        if route == "/ask/desktop" and "rag_crlf" not in self.fixed:
            text, system = text.replace("\n", "\r\n"), system.replace("\n", "\r\n")
        body = {"model": MODEL[self.app], "temperature": 0,
                "messages": [{"role": "system", "content": system}, {"role": "user", "content": text}],
                "user": f"u{user:03}"}
        return route, f"u{user:03}", body


def shaken(value, r):
    """The same JSON with the keys of each object in another order."""
    if isinstance(value, dict):
        keys = list(value)
        r.shuffle(keys)
        return {k: shaken(value[k], r) for k in keys}
    return [shaken(v, r) for v in value] if isinstance(value, list) else value


class Batch(App):
    app = "invoice-batch"
    asked = ["Save the invoice with its number, date, total and currency.", "Save each line of the invoice, in its order.",
             "Check that the lines add up to the net sum, and flag the invoice if they do not.",
             "Is there a contract or purchase order named? Flag the invoice if there is none.",
             "Check the bank account against the one named in the header."]

    def prepare(self):
        r = rng("batch", "system")
        self.tools = define(BATCH_TOOLS, "bill", 40)
        self.system = ("You read invoices for the accounts department. Use the tools, and write nothing else.\n"
                       + "\n".join(f"Rule {i + 1}: {sentence(r, 'bill')}" for i in range(8)))

    def all(self):
        for d in itertools.count():
            r = rng("batch", d, "time")
            t = r.choice([r.uniform(1, 4.5), r.uniform(1, 4.5), r.uniform(18, 23)]) * 3600
            for k in range(r.randint(2, 5)):
                yield t, (d, k)
                t += r.uniform(2, 20)

    def paper(self, d):
        if d not in self.known:
            r = rng("batch", "paper", d)
            lines = [f"{i + 1:3}  {' '.join(r.choice(WORDS['bill']) for _ in range(r.randint(2, 6))):44} "
                     f"{r.randint(1, 40):4} x {r.randint(100, 99999) / 100:9.2f}" for i in range(r.randint(3, 9))]
            self.known[d] = (f"INVOICE {r.randint(10**5, 10**6 - 1)}  page 1 of 1\n{r.choice(LAST)} & {r.choice(LAST)} Ltd., "
                              f"2025-{r.randint(6, 11):02}-{r.randint(1, 28):02}\nAccount {r.randint(10**9, 10**10 - 1)}\n\n"
                              + "\n".join(lines) + f"\n\n{prose(r, 'bill', r.randint(80, 260))}")
        return self.known[d]

    def body(self, at, t):
        d, k = at
        tools, model = self.tools, MODEL[self.app]
        r = rng("batch", d, k, "worker")
        if r.random() < CAUSES["batch_schema_keys"]["rate"] and "batch_schema_keys" not in self.fixed:
            tools = shaken(tools, r)
        r = rng("batch", d, k, "gateway")
        if r.random() < CAUSES["batch_model"]["rate"] and "batch_model" not in self.fixed:
            model = FALLBACK
        body = {"model": model, "max_tokens": 1024, "temperature": 0, "system": self.system, "tools": tools,
                "messages": [{"role": "user", "content": f"<invoice>\n{self.paper(d)}\n</invoice>\n\n{self.asked[k]}"}]}
        return "/batch/invoices", "svc-accounts", body


def make_log(fixed=frozenset(), keep_all=False):
    """Yields the entries, in order of time, without the causes in `fixed`. `keep_all`: no chat drops any message."""
    fixed = frozenset(fixed)
    if fixed - set(CAUSES):
        raise ValueError(f"no such cause: {', '.join(sorted(fixed - set(CAUSES)))}")
    apps = [kind(fixed, keep_all) for kind in (Chat, Agent, Rag, Batch)]
    plan = [(t, a, at) for a, app in enumerate(apps) for t, at in itertools.islice(app.all(), COUNT[app.app])]
    plan.sort(key=lambda e: (e[0], e[1], str(e[2])))
    for n, (t, a, at) in enumerate(plan):
        route, user, body = apps[a].body(at, t)
        yield {"id": f"req-{n:05}-{hexes(rng('log', n), 8)}", "time": stamp(t), "app": apps[a].app, "route": route,
               "user": user, "model": body["model"], BODY: body}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fix", default="", help="causes not to plant, with commas, or: all")
    parser.add_argument("-n", type=int, help="only the first N entries")
    args = parser.parse_args()
    fixed = set(CAUSES) if args.fix == "all" else {name for name in args.fix.split(",") if name}
    for entry in itertools.islice(make_log(fixed), args.n):
        sys.stdout.write(json.dumps(entry, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
