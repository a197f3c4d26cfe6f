"""A made-up log of four applications with planted causes, each of which can be left out: its text is fixed then.

It is written without the package: the hit rate is that of an unlimited cache by bytes, from prefixes cut every 16.
"""

import functools
import json
import random

CAUSES = {
    "clock": "clock", "user": "differs by user", "window": "history truncated",
    "tools": "tools reordered", "age": "number", "spaces": "white space",
    "passages": "order", "request": "random id",
    "run": "random id", "instructions": "shared text last",
}  # fmt: skip  # and the kind of change that each is


def words(dice, count):
    return " ".join(
        "".join(dice.choice("abcdefghiklmnoprstuvw") for _ in range(dice.randint(2, 9))) for _ in range(count)
    )


@functools.lru_cache(1000)
def sentences(seed, count):
    dice = random.Random(seed)
    return " ".join(words(dice, 12).capitalize() + "." for _ in range(count))


def planted_causes(requests, seed=0, without=()):
    """The entries of the log, less the causes named in `without`."""
    has = {cause: cause not in without for cause in CAUSES}
    makers = [make(random.Random(f"{seed} {make.__name__}"), has) for make in (chat, agent, retrieval, batch)]
    dice = random.Random(seed)
    return [next(dice.choice(makers)) for _ in range(requests)]


def chat(dice, has):
    """Conversations with a clock in one of three, a block that differs by user, and a window of eight messages."""
    rules, more, end, talks, minute = sentences("rules", 5), sentences("more", 9), sentences("end", 3), [], 0
    users = [(words(dice, 2).title(), dice.randint(10**4, 10**5), dice.choice(("free", "gold"))) for _ in range(16)]
    while True:
        minute += dice.random() < 0.4
        if len(talks) < 8 or dice.random() < 0.3:
            how = dice.random()
            talks.append((dice.choice(users), how < 0.35, [], how > 0.65))
            del talks[:-8]
        user, timed, said, windowed = dice.choice(talks)
        now = f"{minute // 60 % 24:02d}:{minute % 60:02d}" if timed and has["clock"] else "12:00"
        name, number, plan = user if has["user"] else users[0]
        system = f"{rules}\nCustomer: {name}\nNumber: {number}\nPlan: {plan}\n{more}\nThe time is {now}.\n{end}"
        said.append({"role": "user", "content": words(dice, 30)})
        shown = said[-7:] if windowed and has["window"] else said
        yield {"model": "small", "route": "/chat", "talk": said[0]["content"],
               "messages": [{"role": "system", "content": system}, *shown]}  # fmt: skip
        said.append({"role": "assistant", "content": words(dice, 40)})


def agent(dice, has):
    """Agents with tools in any order, an age in an old result, and spaces at the ends of a message's lines."""
    names = [words(dice, 1) + f"_{n}x" for n in range(9)]
    tools = [{"type": "function", "function": {"name": name, "description": sentences(name, 2)}} for name in names]
    system, runs = sentences("agent", 8), []
    while True:
        if len(runs) < 5 or dice.random() < 0.1:
            runs.append(
                [[{"role": "user", "content": words(dice, 40)}], *(dice.random() < p for p in (0.25, 0.4, 0.3))]
            )
            del runs[:-5]
        run = dice.choice(runs)
        own, (said, shuffled, aged, spaced) = random.Random(dice.random()), run
        shown = [dict(message) for message in said]
        for at, message in enumerate(shown):
            if message["role"] == "tool":
                age = own.randint(10, 9999) if aged and has["age"] and at < 4 else 7
                message["content"] = f'{{"status": "ok", "age_seconds": {age}, "lines": "{message["content"]}"}}'
            if spaced and has["spaces"] and at == 1:
                message["content"] += " " * (len(said) % 3)
        yield {"model": "large", "route": "/agent", "talk": said[0]["content"],
               "tools": own.sample(tools, len(tools)) if shuffled and has["tools"] else tools,
               "messages": [{"role": "system", "content": system}, *shown]}  # fmt: skip
        said.append({"role": "assistant", "content": words(dice, 20)})
        said.append({"role": "tool", "content": words(dice, 60)})


def retrieval(dice, has):
    """Questions about passages, which come in any order, with an id before them."""
    topics = [[f"[{dice.randint(100, 999)}] {sentences(f'{topic} {n}', 4)}" for n in range(5)] for topic in range(10)]
    system = sentences("retrieval", 4)
    while True:
        passages, own = list(dice.choice(topics)), random.Random(dice.random())
        if dice.random() < 0.4 and has["passages"]:
            own.shuffle(passages)
        number = (
            f"request_id={own.getrandbits(64):016x}"
            if dice.random() < 0.3 and has["request"]
            else f"request_id={0:016x}"
        )
        text = "\n".join([number, "Passages:", *passages, "", "Question: " + words(dice, 12)])
        yield {
            "model": "large",
            "route": "/search",
            "messages": [{"role": "system", "content": system}, {"role": "user", "content": text}],
        }


def batch(dice, has):
    """Plain prompts with the id of a run at the beginning, and with the instructions after the document in some."""
    head, instructions = sentences("batch", 6), sentences("instructions", 9)
    while True:
        own = random.Random(dice.random())
        run = (
            f"{own.getrandbits(32):08x}-{own.getrandbits(16):04x}"
            if dice.random() < 0.35 and has["run"]
            else f"{0:08x}-{0:04x}"
        )
        document = sentences(dice.random(), 6)
        last = dice.random() < 0.5 and has["instructions"]
        parts = [f"Run {run}.", head] + ([document, instructions] if last else [instructions, document])
        yield {"model": "small", "route": "/batch", "prompt": "\n\n".join(parts)}


def hit_rate(entries):
    """Of all bytes: those which an unlimited cache has, from prefixes cut every 16 bytes."""
    seen, found, total = set(), 0, 0
    for entry in entries:
        parts = [json.dumps(tool) for tool in entry.get("tools", ())]
        parts += [f"<|im_start|>{one['role']}\n{one['content']}<|im_end|>\n" for one in entry.get("messages", ())]
        text = (entry["model"] + "\n").encode() + "".join([*parts, entry.get("prompt", "")]).encode()
        links, link = [], 0
        for at in range(0, len(text) - 15, 16):
            links.append(link := hash((link, text[at : at + 16])))
        total += len(text)
        found += 16 * next((number for number, link in enumerate(links) if link not in seen), len(links))
        seen.update(links)
    return found, total
