"""The part of a second request that a provider's API reads from its cache, by its rules of a given day.

A request writes the prefix of its prompt that ends at each of its breakpoints. The next request reads the longest such
prefix that ends where it looks:

    Anthropic                  at each `cache_control`, and at the 19 blocks before it
    OpenAI since GPT-5.6       at explicit breakpoints, and at the ends of messages of the user and of tools
    OpenAI before GPT-5.6      no breakpoints: every 128 tokens, from 1,024 on

To find why a request reads less than it shares, the rules are left out one after the other: the first one without which
the request reads more is the cause. The rules are in `providers.json`, each set with its source and the day of that.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from minikv.untrusted import read_json
from minikv_tools.bodies import Body
from minikv_tools.pieces import Place
from minikv_tools.report import many
from minikv_tools.why.breakpoints import RUNS, PromptBlock, breakpoints, endings, images_in, prompt_blocks
from minikv_tools.why.changes import changed_settings

RULES = read_json(Path(__file__).with_name("providers.json"))
NOTHING_SHARED = "no block that both share reaches the minimum length"
_UNSURE = 0.25  # of a minimum length: a length estimated from bytes may be off by this share
_FILE = re.compile(r"^<\|(?:\w*image\w*|document|file|input_audio|video_url|input_file) ")
_CLAUDE = re.compile(r"(?:^|[\s/.:])claude")
_GPT = re.compile(r"gpt-(\d+)(?:[.-](\d{1,2})\b)?(?![\d.]*b\b)|(?:^|[\s/])(?:o[134]\b|codex-)")
_ELSEWHERE = re.compile(r"anthropic\.|bedrock|vertex|azure|@")  # on another platform than the API of its maker
_CAUSES = ("too short for the cache", "cache expired", "cache lifetime changed", "template settings",
           "breakpoint too far", "breakpoint moved")  # fmt: skip  # that hide an entry, as they are taken away in turn


class Prediction(NamedTuple):
    """How much a provider reads for the second request and writes, in units of the prompt, and why it is not more.

    `rules` is a key of `RULES`, and `kind` a key of `KINDS`, empty where the provider reads what is shared. `unsure`:
    it may still read it, but a length is too close to the minimum to tell, or an age to a lifetime. `advice` is added
    to the advice of the kind.
    """

    rules: str
    read: int
    written: int = 0
    kind: str = ""
    detail: str = ""
    unsure: bool = False
    advice: str = ""

    @property
    def title(self) -> str:
        """The provider, and the day of its rules."""
        return f"{RULES[self.rules]['title']} (rules of {RULES[self.rules]['read']})"


def providers_of(*bodies: Body) -> list[str]:
    """The rules for requests, by their model, or else by a field that only one provider has; all of them that fit.

    >>> from minikv_tools.bodies import read_body
    >>> [providers_of(read_body({"model": m, "prompt": "Hi"})) for m in ("claude-opus-5", "gpt-5.6-sol", "gpt-4o", "m")]
    [['anthropic'], ['openai'], ['openai before'], []]
    >>> providers_of(read_body({"prompt": "Hi", "prompt_cache_key": "a"})), providers_of(read_body({"prompt": "Hi"}))
    (['openai', 'openai before'], [])
    """
    model = " ".join(map(_model, bodies))
    if _CLAUDE.search(model):
        return ["anthropic"]
    if found := _GPT.search(model):
        since = (5, 6) <= (int(found[1] or 0), int(found[2] or 0)) < (30,)  # gpt-35 is Azure's name for GPT-3.5
        return ["openai" if since else "openai before"]
    if model.strip():
        return []
    named = {name for body in bodies for name in body.settings}
    named |= {piece.mark for body in bodies for piece in body.pieces}
    fits = {key: len(named.intersection(rules["fields"])) for key, rules in RULES.items()}
    return [key for key, count in fits.items() if count == max(1, *fits.values())]


def of_model(table: Mapping[str, Any], model: str) -> Any:
    """The entry with the longest name that is in the name of the model.

    >>> of_model({"": 128, "gpt-5-5": 2048}, "openai/gpt-5.5")
    2048
    """
    model = re.sub(r"[.@_]", "-", model.lower())
    return table[max((name for name in table if name in model), key=len)]


def _model(body: Body) -> str:
    return body.namespace.get("model", "").lower()


@dataclass(frozen=True)
class RequestPair:
    """Two requests to one provider; the second has `length` units and shares the first `shared` of them with the first.

    `count` returns how many units a text has; a token has `scale` of them, exactly or about. `age` is the time from the
    first request to the second in seconds, or 0 if it is not known.
    """

    one: Body
    two: Body
    shared: int
    length: int
    count: Callable[[str], int] = len
    scale: float = 1
    exact: bool = True
    age: float = 0


def predict(key: str, pair: RequestPair) -> Prediction:
    """Predict what a provider reads for the second of two requests, after it has answered the first; `key` of `RULES`.

    >>> from minikv_tools.bodies import read_body
    >>> body = read_body({"model": "claude-opus-5", "messages": [{"role": "user", "content": "Hi"}]})
    >>> predict("anthropic", RequestPair(body, body, 28, 28)).kind
    'too short for the cache'
    """
    found, rules = _Api(key, pair).predict(), RULES[key]
    bedrock = any("(cachePoint)" in piece.mark for body in (pair.one, pair.two) for piece in body.pieces)
    advice = rules["advice"] | (rules["advice of cachePoint"] if bedrock else {})
    vain = found.kind == "cache expired" and pair.age > max(rules["ttl"].values(), default=0)
    return found._replace(advice="" if vain else advice.get(found.kind, ""))


class _Api:
    """Two requests to an API: its blocks and breakpoints, and where the first one wrote."""

    def __init__(self, key: str, pair: RequestPair):
        self.key, self.pair, self.rules = key, pair, RULES[key]
        self.least = self._of_model("least")
        self.elsewhere = "anthropic_version" in pair.two.settings or bool(_ELSEWHERE.search(_model(pair.two)))
        self.low, self.high = self._limits()
        self.changed = changed_settings(pair.one.settings, pair.two.settings)
        before, after = (images_in(body) for body in (pair.one, pair.two))
        if bool(before) != bool(after):
            self.changed["images"] = f"images: {(before + after)[0]}"
        self.lost = {name: level for name, level in self.rules["from"].items() if name in self.changed}
        self.level = min(self.lost.values(), default=3)
        if "step" in self.rules:
            self.first = self.blocks = self._steps()
        else:
            self.first = prompt_blocks(pair.one, pair.count)
            self.blocks = prompt_blocks(pair.two, pair.count)
        latest = self.rules.get("latest")
        self.before = breakpoints(pair.one, self.first, latest)
        self.marks = breakpoints(pair.two, self.blocks, latest)
        self.written = {self.first[at].end: (ttl, self.first[at].place) for at, ttl in self.before.items()}

    def _limits(self) -> tuple[float, float]:
        """The length from which the API may cache a prompt, and the length from which it certainly does."""
        if any(_FILE.search(piece.text[:24]) for piece in self.pair.two.pieces):
            return 0, 0  # nobody knows how many tokens an attached file has
        margin = 0 if self.pair.exact else _UNSURE
        low, high = self.least
        most = 2 if self.elsewhere else 1 + margin  # Bedrock asks for 1,024 tokens where Anthropic does for 512
        return (1 - margin) * low * self.pair.scale, most * high * self.pair.scale

    def _steps(self) -> list[PromptBlock]:
        """A block for each step of the text that both requests share; at least one."""
        step = int(self._of_model("step") * self.pair.scale)
        brief = self.pair.one.settings.get("prompt_cache_retention") == "in_memory"
        kept = "1h" if brief else self._of_model("kept")
        ends = range(step, max(step, self.pair.shared) + 1, step)
        return [PromptBlock(end, Place("tools"), "", kept) for end in ends]

    def _of_model(self, rule: str) -> Any:
        return of_model(self.rules[rule], _model(self.pair.two))

    def predict(self) -> Prediction:
        """Predict what is read and written, with the cause where it is not enough."""
        nothing_read = {
            "cache key changed": self.changed.get("prompt_cache_key") if self.key != "anthropic" else "",
            "breakpoints refused": self._refused(self.before, self.first) or self._refused(self.marks, self.blocks),
            "too short for the cache": self._about(self.pair.length) if self.pair.length < self.low else "",
        }
        for kind, detail in nothing_read.items():
            if detail:
                return Prediction(self.key, 0, 0, kind, detail)
        ends = [self.blocks[number] for number in self.marks]
        end = ends[-1].end if ends and ends[-1].end >= self.low and "step" not in self.rules else 0
        if not (self.before and ends):
            where = f"in the first request; the second has one at {ends[0].place}" if ends else ""
            for _, place in self.written.values():
                where = where or f"in the second request; the first has one at {place}"
            return Prediction(self.key, 0, end, "no breakpoint", where)
        read = max(found := self._found(0), default=0)
        kind, detail = self._cause(read)
        size = self.pair.shared if "step" in self.rules else read or ends[-1].end
        doubts = {} if kind else self._doubts(size, self.blocks[found[read]] if read else None)
        unsure = [(cause, f"perhaps: {doubt}") for cause, doubt in doubts.items() if doubt]
        kind, detail = (unsure or [(kind, detail)])[0]
        return Prediction(self.key, read, max(0, end - read), kind, detail, bool(unsure))

    def _doubts(self, size: int, block: PromptBlock | None) -> dict[str, str]:
        """Return, by cause, what may hide an entry of `size` units that ends with `block`; empty where nothing does."""
        kept, back = self.written[block.end][0] if block else "", 0
        if block and block.level == 2 and not block.mark:
            back = sum(self.blocks[number].end > block.end for number in endings(self.pair.two, self.blocks))
        guide, surely = (self.rules.get(rule) for rule in ("guide", "surely"))
        return {
            "too short for the cache": self._about(size) * (self.low <= size < self.high),
            "cache expired": self._later() * (self.pair.age > surely.get(kept, self.pair.age)),
            "breakpoint too far": f"{back} messages end after it; OpenAI's guide checks {guide}, the reference all"
            * (back > (guide or back)),
        }

    def _refused(self, marks: Mapping[int, str], blocks: Sequence[PromptBlock]) -> str:
        """Why the API refuses a request with these breakpoints."""
        kept = [self.rules["ttl"].get(ttl, 0) for ttl in marks.values()]
        said = [f"{ttl}{' (automatic)' * (not blocks[at].mark)} at {blocks[at].place}" for at, ttl in marks.items()]
        if len(kept) > self.rules["most"]:
            return f"{len(kept)} breakpoints, but only {self.rules['most']} are allowed; the last is {said[-1]}"
        late = (
            f"a longer lifetime comes after a shorter one: {first}, then {then}"
            for (before, first), (after, then) in pairwise(zip(kept, said)) if after > before
        )  # fmt: skip
        return next(late, "")

    def _found(self, free: int) -> dict[int, int]:
        """Where written prefixes end that are found, with their blocks, if the first `free` causes are left out."""
        found = {}
        for number, ttl in self._looked_at(_CAUSES[free:]):
            block = self.blocks[number]
            kept, _ = self.written.get(block.end, ("", None))
            gone = self.pair.age > self.rules["ttl"].get(kept, math.inf)
            hidden = block.end < self.low, gone, ttl not in ("", kept), block.level >= self.level
            if kept and block.end <= self.pair.shared and not any(hidden[free:]):
                found[block.end] = number
        return found

    def _looked_at(self, causes: Sequence[str]) -> Iterator[tuple[int, str]]:
        """The blocks at which the API looks for what was written, and for which lifetime."""
        if self.key == "anthropic" and causes:
            back = self.rules["back"] if _CAUSES[4] in causes else len(self.blocks)
            for number, ttl in self.marks.items():
                yield from ((found, ttl) for run in self._positions(number)[:back] for found in run)
        else:
            ends = {*endings(self.pair.two, self.blocks)}
            for number, block in enumerate(self.blocks):
                if not causes or block.mark or number in ends:
                    yield number, ""

    def _positions(self, number: int) -> list[list[int]]:
        """The blocks from one back to the first, as Anthropic counts them: one by one, but a run of calls as one."""
        kinds = [block.kind for block in self.blocks]
        runs = groupby(range(number, -1, -1), lambda at: kinds[at] if kinds[at] in RUNS else at)
        return [[*run] for _, run in runs]

    def _cause(self, read: int) -> tuple[str, str]:
        """Why much less is read than is shared, or two empty texts if that is not so."""
        most = max(self._found(4), default=0) if self.lost else 0  # with the settings and the images of the first
        for free, cause in enumerate(("", *_CAUSES)):
            size = max(found := self._found(free), default=0)
            if self.pair.shared - size < self.least[0] * self.pair.scale and size >= most:
                detail = self._detail(cause, size, found[size]) if free else ""
                cause = "image added" if detail.startswith("images: ") else cause
                return cause, detail.removeprefix("images: ")
        stable = {block.end: block.place for block in self.blocks if block.end <= self.pair.shared}
        late = [place for end, (_, place) in self.written.items() if end not in stable]
        enough = max(stable, default=0) >= max(1, self.low)
        if not late:
            return "breakpoint too early", f"the last one is at {[*self.written.values()][-1][1]}"
        before = f"the last block that both share is {stable[max(stable)]}" if enough else NOTHING_SHARED
        return "breakpoint on what changes", f"it is at {late[0]}; {before}"

    def _detail(self, cause: str, size: int, number: int) -> str:
        """More about a cause that hid what was written up to a block."""
        (kept, place), last = self.written[size], max(self.marks)
        back = sum(number < min(run) for run in self._positions(last)) + 1
        return {
            "too short for the cache": self._about(size),
            "cache expired": f"{self._later()}; the entry is kept for {kept}",
            "cache lifetime changed": f"{kept} to {self.marks[last]}, at {self.blocks[last].place}",
            "template settings": ", ".join([self.changed[name] for name in self.lost]),
            "breakpoint too far": f"{place} is position {back}, counting back from the new breakpoint (position 1); "
            f"the provider checks only {self.rules.get('back')}",
            "breakpoint moved": f"from {place} to {self.blocks[last].place}",
        }[cause]

    def _about(self, size: float) -> str:
        least = " to ".join(f"{length:,}" for length in sorted(set(self.least)))
        differ = "; on this platform it may differ" * self.elsewhere
        return f"about {many(f'{size / self.pair.scale:,.0f}', 'token')}; the minimum is {least}{differ}"

    def _later(self) -> str:
        minutes = self.pair.age / 60
        return f"{minutes:,.0f} minutes later" if minutes < 120 else f"{minutes / 60:,.0f} hours later"
