"""The part of a second request that the API of a provider reads from its cache, by dated rules.

A request writes the prefix of its prompt that ends at each of its breakpoints. The next request reads the longest such
prefix that ends where it looks:

    Anthropic                  at each `cache_control`, and at the 19 blocks before it
    OpenAI since GPT-5.6       at explicit breakpoints, and at the ends of messages of the user and of tools
    OpenAI before GPT-5.6      no breakpoints: every 128 tokens, from 1,024 on

Why a request reads less than it shares is found by trying again with one rule after the other taken away: the first
whose absence helps is the cause. The rules are in `providers.json`, each set with its source and the day of that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import Any, NamedTuple

from minikv.traffic.bodies import Body
from minikv.traffic.why.breakpoints import RUNS, breakpoints, endings, prompt_blocks
from minikv.untrusted import read_json

RULES = read_json(Path(__file__).with_name("providers.json"))
_UNSURE = 0.25  # of a least length, from which a length that is estimated from bytes cannot be told
_GPT = re.compile(r"gpt-(\d+)(?:[.-](\d)\b)?|\bo[134]\b|codex")
_CAUSES = ("too short for the cache", "cache expired", "cache lifetime changed", "template settings",
           "breakpoint too far", "breakpoint moved")  # fmt: skip  # that hide an entry, as they are taken away in turn


class Prediction(NamedTuple):
    """How much a provider reads for the second request and writes, in units of the prompt, and why it is not more.

    `rules` is a key of `RULES`, and `kind` a key of `KINDS`, empty where the provider reads what is shared. `unsure`: a
    length is too near to the least one to tell, or an age to a lifetime.
    """

    rules: str
    read: int
    written: int = 0
    kind: str = ""
    detail: str = ""
    unsure: bool = False

    @property
    def title(self) -> str:
        """The provider, and the day of its rules."""
        return f"{RULES[self.rules]['title']} (rules of {RULES[self.rules]['read']})"

    def as_json(self) -> dict[str, Any]:
        """The same as plain values, with the date of the rules and their source."""
        rules = {name: RULES[self.rules][name] for name in ("title", "read", "source", "unsettled")}
        return {**self._asdict(), "rules": rules}


def provider_of(*bodies: Body) -> str | None:
    """The rules for requests, by their model, else by the fields that only one provider has; `None` for any other.

    >>> from minikv.traffic.bodies import read_body
    >>> [provider_of(read_body({"model": m, "prompt": "Hi"})) for m in ("claude-opus-5", "gpt-5.6-sol", "gpt-4o", "m")]
    ['anthropic', 'openai', 'openai before', None]
    """
    models, pieces = [_model(body) for body in bodies], [piece for body in bodies for piece in body.pieces]
    for model in models:
        if "claude" in model:
            return "anthropic"
        if found := _GPT.search(model):
            since = (5, 6) <= (int(found[1] or 0), int(found[2] or 0)) < (30,)  # gpt-35 is Azure's name for GPT-3.5
            return "openai" if since else "openai before"
    marks, settings = {piece.mark for piece in pieces} - {""}, {name for body in bodies for name in body.settings}
    if "30m" in marks or "prompt_cache_options" in settings:
        return "openai"
    beside = not any(models) and any(piece.place.part == "system" for piece in pieces)
    if marks or "cache_control" in settings or beside:
        return "anthropic"
    return "openai before" if "prompt_cache_key" in settings else None


def _model(body: Body) -> str:
    return body.namespace.get("model", "").lower()


@dataclass(frozen=True)
class RequestPair:
    """Two requests to one provider, whose prompts are equal for `shared` characters.

    `size` counts the units of the second prompt up to a character; a token has `scale` of them, exactly or about.
    `age` is the seconds from the first request to the second, 0 where they are not known.
    """

    one: Body
    two: Body
    shared: int
    size: Callable[[int], int]
    scale: float = 1
    exact: bool = True
    age: float = 0

    def changed(self, names: Mapping[str, Any]) -> list[str]:
        """Those settings among `names` that differ between the requests."""
        return [name for name in names if self.one.settings.get(name) != self.two.settings.get(name)]


def predict(key: str, pair: RequestPair) -> Prediction:
    """Predict what a provider reads for the second of two requests, after it has answered the first; `key` of `RULES`.

    >>> from minikv.traffic.bodies import read_body
    >>> body = read_body({"model": "claude-opus-5", "messages": [{"role": "user", "content": "Hi"}]})
    >>> predict("anthropic", RequestPair(body, body, len(body.text), lambda at: at)).kind
    'no breakpoint'
    """
    if key != "anthropic" and pair.changed({"prompt_cache_key": 0}):
        return Prediction(key, 0, 0, "cache key changed")
    return (_Stepped if "step" in RULES[key] else _Marked)(key, pair).predict()


class _Api:
    """Two requests, and the rules of an API."""

    def __init__(self, key: str, pair: RequestPair):
        self.key, self.pair, self.rules = key, pair, RULES[key]
        self.least = self._of_model("least")
        margin = 0 if pair.exact else _UNSURE
        self.low, self.high = ((1 + sign * margin) * least * pair.scale for sign, least in zip((-1, 1), self.least))
        self.length, self.shared = pair.size(len(pair.two.text)), pair.size(pair.shared)
        self.lost = pair.changed(self.rules["from"])

    def _of_model(self, rule: str) -> Any:
        """The entry of a rule with the longest name that is in the name of the model."""
        table, model = self.rules[rule], re.sub(r"[.@_]", "-", _model(self.pair.two))
        return table[max((name for name in table if name in model), key=len)]

    def about(self, size: float) -> str:
        """A length in tokens, and what is needed."""
        least = " to ".join(f"{length:,}" for length in sorted(set(self.least)))
        return f"about {size / self.pair.scale:,.0f} tokens; at least {least} needed"

    def later(self) -> str:
        """The time between the requests."""
        return f"{self.pair.age / 60:,.0f} minutes later"


class _Stepped(_Api):
    """An API that cuts at fixed steps."""

    def predict(self) -> Prediction:
        surely, longest = self.rules["ttl"].values()
        step, near = self._of_model("step") * self.pair.scale, self.low <= self.shared < self.high
        if self.length < self.low:
            return Prediction(self.key, 0, 0, _CAUSES[0], self.about(self.length))
        if self.pair.age > longest:
            return Prediction(self.key, 0, 0, _CAUSES[1], self.later())
        if self.lost:
            return Prediction(self.key, 0, 0, _CAUSES[3], ", ".join(self.lost))
        read, old = int(self.shared // step * step) if self.shared >= self.low else 0, self.pair.age > surely
        detail = (
            self.later() if read and old and not near else self.about(self.shared) if self.shared < self.high else ""
        )
        return Prediction(self.key, read, 0, "", detail, near or (old and read > 0))


class _Marked(_Api):
    """An API that cuts at breakpoints."""

    def __init__(self, key: str, pair: RequestPair):
        super().__init__(key, pair)
        first, self.blocks = prompt_blocks(pair.one), prompt_blocks(pair.two)
        most = None if key == "anthropic" else self.rules["most"]
        self.before, self.marks = breakpoints(pair.one, first, most), breakpoints(pair.two, self.blocks, most)
        self.written = {first[number].end: (ttl, first[number].place) for number, ttl in self.before.items()}
        pictures = [sum("image" in piece.place.field for piece in body.pieces) for body in (pair.one, pair.two)]
        self.lost += ["images"] if pictures[0] != pictures[1] and "images" in self.rules["from"] else []
        self.level = min((self.rules["from"][name] for name in self.lost), default=3)

    def predict(self) -> Prediction:
        """Predict what is read and written, with the cause where it is not enough."""
        if refused := self._refused(self.before) or self._refused(self.marks):
            return Prediction(self.key, 0, 0, "breakpoints refused", refused)
        end = self._size(max(self.marks)) if self.marks else 0
        end = end if end >= self.low else 0
        if not (self.before and self.marks):
            kind = "breakpoint added" if self.marks else "breakpoint removed" if self.before else "no breakpoint"
            return Prediction(self.key, 0, end, kind)
        read = max(map(self._size, self._found(0)), default=0)
        kind, detail = self._cause(read)
        perhaps = [name for name in self.lost if name in self.rules.get("perhaps", ()) and read]
        near = self.low <= (read or end) < self.high
        if (near or perhaps) and not kind:
            detail = (
                self.about(read or end) if near else f"some models read {perhaps[0]} before tools and system prompt"
            )
        return Prediction(self.key, read, max(0, end - read), kind, detail, bool(detail and not kind))

    def _size(self, number: int) -> int:
        return self.pair.size(self.blocks[number].end)

    def _refused(self, marks: Mapping[int, str]) -> str:
        """Why the API refuses a request with these breakpoints."""
        kept = [self.rules["ttl"].get(ttl, 0) for ttl in marks.values()]
        if len(kept) > self.rules["most"]:
            return f"{len(kept)} breakpoints, at most {self.rules['most']}"
        return "a longer lifetime comes after a shorter one" if kept != sorted(kept, reverse=True) else ""

    def _found(self, free: int) -> list[int]:
        """The blocks of which the prefix was written and is found, the first `free` causes left out."""
        found = []
        for number, ttl in self._looked_at(_CAUSES[free:]):
            block = self.blocks[number]
            if block.end > self.pair.shared or block.end not in self.written:
                continue
            kept, _ = self.written[block.end]
            hidden = (self._size(number) < self.low, self.pair.age > self.rules["ttl"].get(kept, 0),
                      ttl not in ("", kept), block.level >= self.level)  # fmt: skip
            if not any(hidden[free:]):
                found.append(number)
        return found

    def _looked_at(self, causes: Sequence[str]) -> Iterator[tuple[int, str]]:
        """The blocks at which the API looks for what was written, and for which lifetime."""
        blocks, back = self.blocks, self.rules["back"] if _CAUSES[4] in causes else len(self.blocks)
        if not causes:
            yield from ((number, "") for number in range(len(blocks)))
        elif self.key == "anthropic":
            for number, ttl in self.marks.items():
                runs = groupby(range(number, -1, -1), key=lambda n: blocks[n].kind if blocks[n].kind in RUNS else n)
                yield from ((found, ttl) for _, run in islice(runs, back) for found in run)
        else:
            ends = endings(self.pair.two, blocks)
            for number, block in enumerate(blocks):
                if block.mark or number in ends[-1 - back :] or (number in ends and block.level == 1):
                    yield number, ""

    def _cause(self, read: int) -> tuple[str, str]:
        """Why much less is read than is shared, or two empty texts where it is not so."""
        if self.length < self.low:
            return _CAUSES[0], self.about(self.length)
        for free in range(len(_CAUSES) + 1):
            number = max(self._found(free), default=0)
            size = self._size(number) if self._found(free) else 0
            if self.shared - size < max(self.low, size):
                kind = _CAUSES[free - 1]
                detail = self._detail(kind, number) if free else ""
                return ("image added" if detail == "images" else kind if free else "", detail)
        kept = {block.end for block in self.blocks if block.end <= self.pair.shared}
        late = [place for end, (_, place) in self.written.items() if end not in kept]
        if not late:
            return "breakpoint too early", f"the last one is at {[*self.written.values()][-1][1]}"
        stable = [block.place for block in self.blocks if block.end <= self.pair.shared]
        before = f"the last block that both share is {stable[-1]}" if stable else "no whole block before it is shared"
        return "breakpoint on what changes", f"it is at {late[0]}; {before}"

    def _detail(self, cause: str, number: int) -> str:
        """More about a cause that hid what was written up to a block."""
        kept, place = self.written[self.blocks[number].end]
        last = max(self.marks)
        return {
            "too short for the cache": self.about(self._size(number)),
            "cache expired": f"{self.later()}, kept for {kept}",
            "cache lifetime changed": f"{kept} to {self.marks[last]}",
            "template settings": ", ".join(self.lost),
            "breakpoint too far": f"{last - number} blocks after what was written; {self.rules['back']} are looked at",
            "breakpoint moved": f"from {place} to {self.blocks[last].place}",
        }[cause]
