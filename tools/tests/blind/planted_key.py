#!/usr/bin/env python3
"""The key to planted_log.py: what each planted cause costs, counted by an unlimited prefix cache over the generated log.

A prompt is its tools, system and messages, in this order, as text with role markers; its bytes are cut into blocks of 64,
each hashed with all before it; each model has its own cache. A request reuses its longest run of blocks from its start
that earlier requests of the same model have; a last, partial block is never reused. Nothing here is shared with minikv.

    nice python3 planted_key.py [OUT.json]
"""
import json
import os
import resource
import sys
import time
from hashlib import blake2b

from planted_log import BODY, CAUSES, COUNT, make_log

BLOCK = 64


def dump(value):
    return json.dumps(value, ensure_ascii=False)


def text_of(content):
    """The text of a message's content: a string, or blocks in the ways of OpenAI and Anthropic."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    parts = []
    for block in content:
        kind = block["type"]
        if kind == "text":
            parts.append(block["text"])
        elif kind == "tool_use":
            parts.append(f"<call {block['id']}>{block['name']}{dump(block['input'])}</call>")
        elif kind == "tool_result":
            parts.append(f"<result {block['tool_use_id']}>{text_of(block['content'])}</result>")
        else:
            raise ValueError(kind)
    return "\n".join(parts)


def prompt_of(body):
    parts = []
    if body.get("tools"):
        parts.append("<|tools|>\n" + "\n".join(map(dump, body["tools"])) + "\n")
    if body.get("system"):
        parts.append(f"<|system|>\n{text_of(body['system'])}\n")
    for message in body["messages"]:
        parts.append(f"<|{message['role']}|>\n{text_of(message['content'])}\n")
    return ("".join(parts) + "<|assistant|>\n").encode()


def count(fixed, sums=None, keep_all=False):
    """Counts the log: totals, by app, and how many requests differ from `sums`, one digest for each request."""
    caches, apps, digests, differ = {}, {}, [], {}
    for n, entry in enumerate(make_log(fixed, keep_all)):
        body = entry[BODY]
        prompt = prompt_of(body)
        cache = caches.setdefault(body["model"], set())
        chain, reused, hit = b"", 0, True
        for at in range(0, len(prompt) - BLOCK + 1, BLOCK):
            chain = blake2b(chain + prompt[at:at + BLOCK], digest_size=12).digest()
            if hit and chain in cache:
                reused += BLOCK
            else:
                hit = False
                cache.add(chain)
        app = apps.setdefault(entry["app"], [0, 0, 0])
        app[0] += 1
        app[1] += len(prompt)
        app[2] += reused
        same = dump([entry["id"], entry["time"], entry["app"], entry["route"], entry["user"]])
        digest = (blake2b(same.encode(), digest_size=8).digest(), blake2b(dump(body).encode(), digest_size=8).digest())
        digests.append(digest)
        if sums is not None:
            if sums[n][0] != digest[0]:
                raise AssertionError(f"request {n} is another one")     # same requests, times, routes and users
            if sums[n][1] != digest[1]:
                differ[entry["app"]] = differ.get(entry["app"], 0) + 1
    total, reused = (sum(app[k] for app in apps.values()) for k in (1, 2))
    result = dict(requests=len(digests), total_bytes=total, reused_bytes=reused, hit_rate=round(reused / total, 6),
                  by_app={name: dict(requests=a, total_bytes=b, reused_bytes=c, hit_rate=round(c / b, 6))
                          for name, (a, b, c) in sorted(apps.items())})
    return result, digests, differ


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "planted_key.json")
    began = time.time()
    planted, sums, _ = count(frozenset())
    everything, _, changed = count(frozenset(CAUSES), sums)
    total, reused = planted["total_bytes"], planted["reused_bytes"]
    causes = []
    for name, cause in CAUSES.items():
        one, _, differ = count(frozenset([name]), sums)
        if set(differ) != {cause["app"]}:
            raise AssertionError(f"{name} changes requests of {sorted(differ)}")
        but, _, _ = count(frozenset(CAUSES) - {name})           # this one alone is left: what it costs in a clean log
        causes.append(dict(
            name=name, app=cause["app"], route=cause["route"], where=cause["where"], kinds=cause["kinds"],
            what=cause["what"], fix=cause["fix"], requests_changed=differ[cause["app"]],
            lost_share=round(one["reused_bytes"] / one["total_bytes"] - reused / total, 6),
            lost_bytes=one["reused_bytes"] - reused,
            computed_saved_bytes=(total - reused) - (one["total_bytes"] - one["reused_bytes"]),
            computed_saved_share=round(((total - reused) - (one["total_bytes"] - one["reused_bytes"])) / total, 6),
            total_bytes_after=one["total_bytes"], reused_bytes_after=one["reused_bytes"], hit_rate_after=one["hit_rate"],
            app_hit_rate_after=one["by_app"][cause["app"]]["hit_rate"],
            lost_share_if_alone=round(everything["hit_rate"] - but["hit_rate"], 6)))
        print(f"{name:18} {causes[-1]['lost_share']:8.3%} {one['hit_rate']:8.2%} {differ[cause['app']]:6} requests, "
              f"{time.time() - began:.0f} s", file=sys.stderr, flush=True)
        if name == "chat_window":               # the other remedy: nothing is dropped, so prompts are longer
            keep, _, _ = count(frozenset(), sums, True)
            causes[-1]["other_fix"] = dict(
                fix="the whole history is sent", lost_share=round(keep["hit_rate"] - reused / total, 6),
                lost_bytes=keep["reused_bytes"] - reused, total_bytes_after=keep["total_bytes"],
                reused_bytes_after=keep["reused_bytes"], hit_rate_after=keep["hit_rate"],
                computed_saved_bytes=(total - reused) - (keep["total_bytes"] - keep["reused_bytes"]))
    causes.sort(key=lambda c: -c["lost_share"])
    key = dict(block=BLOCK, requests=sum(COUNT.values()), planted=planted, all_fixed=everything,
               requests_changed=changed, causes=causes)
    with open(out, "w") as f:
        json.dump(key, f, indent=1)
        f.write("\n")
    print(f"planted {planted['hit_rate']:.2%}, all fixed {everything['hit_rate']:.2%}, {total / 1e6:.1f} MB of prompts")
    for app, was in planted["by_app"].items():
        now = everything["by_app"][app]
        print(f"  {app:14} {was['requests']:5} requests, {was['total_bytes'] / 1e6:5.1f} MB: "
              f"{was['hit_rate']:.1%} -> {now['hit_rate']:.1%}, {changed[app]} changed")
    for c in causes:
        print(f"  {c['name']:18} {c['app']:14} lost {c['lost_share']:6.2%} ({c['lost_bytes']:8} bytes; computed "
              f"{c['computed_saved_share']:6.2%}; alone {c['lost_share_if_alone']:6.2%}), after {c['hit_rate_after']:.2%}, "
              f"{c['requests_changed']} requests")
    for c in causes:
        if "other_fix" in c:
            print(f"  {c['name']}, other fix: {c['other_fix']}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{time.time() - began:.0f} s, {peak:.0f} MiB")


if __name__ == "__main__":
    main()
