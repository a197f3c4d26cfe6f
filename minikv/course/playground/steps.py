"""The steps of a playground, as they were typed: its settings, and the tokens of a typed prompt."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from minikv.errors import truncated, whole_number
from minikv.prefix import PrefixCache, TieredCache, index_named
from minikv.testing.snapshot import ends, shorten
from minikv.tokens import pack

SIZES = {"page_size": (1, 64), "capacity": (1, 256), "host_pages": (0, 256)}  # so that all can be read on a screen
# What a verb is done with: the text of a prompt, the name of a lock or of a request, or a number of tokens.
FIELDS = {
    "match": "prompt", "insert": "prompt", "lock": "prompt", "start": "prompt", "unlock": "held",
    "publish": "held", "finish": "held", "abort": "held", "evict": "tokens",
}  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """The cache and the pool of a playground; `capacity` is in pages, the rest as in `RadixCache`.

    `index` is the design of the cache, by its name in `INDEXES`. Those that are not in `BY_POLICY` have an order of
    eviction of their own, so `policy` and `evict_by` are what they are by default. Only the radix tree has host memory.

    >>> Settings(page_size=4, capacity=300)
    Traceback (most recent call last):
    ValueError: capacity is 300: a playground draws 1 to 256
    """

    page_size: int = 1
    capacity: int = 32
    policy: str = "lru"
    evict_by: str = "node"
    index: str = "radix"
    host_pages: int = 0

    def __post_init__(self) -> None:
        for name, (least, most) in SIZES.items():
            whole_number(name, getattr(self, name), least, f"a playground draws {least} to {most}", most + 1)

    def make(self) -> PrefixCache:
        """An empty cache with these settings.

        >>> type(Settings(index="hash").make()).__name__
        'HashBlockCache'
        >>> cache = Settings(host_pages=8, policy="mru", evict_by="page").make()
        >>> for tokens, pages in ([1, 2], [0, 1]), ([3], [2]): _ = cache.insert(tokens, pages)
        >>> cache.evict(1).tolist(), cache.evict(1).tolist()
        ([2], [1])
        """
        if self.host_pages and self.index == "radix":
            return TieredCache(self.page_size, self.host_pages, policy=self.policy, evict_by=self.evict_by)
        whole_number("host_pages", self.host_pages, 0, f"{self.index!r} has no host memory", 1)
        ways = (None if way in ("lru", "node") else way for way in (self.policy, self.evict_by))
        return index_named(self.index, self.page_size, *ways)

    def having(self, changes: str) -> Settings:
        """The same settings with some changed: names, each with its value.

        >>> Settings().having("page_size 4 policy fifo").policy
        'fifo'
        """
        words = changes.split()
        return replace(
            self,
            **{name: type(getattr(self, name))(value) for name, value in zip(words[::2], words[1::2])},
        )


USUAL = Settings()


class Step(NamedTuple):
    """One step of a script: a verb, what it is done with as it was typed, and for a prompt its namespace.

    The verbs: match, insert, lock and start (a prompt), unlock, publish, finish and abort (what is
    held, as its list says it), evict (how many tokens), reset, set (settings) and scene (its name).

    >>> print(Step("insert", "1, 2, 3", "B"))
    insert [1 2 3] in 'B'
    """

    verb: str
    what: str = ""
    namespace: str = ""

    @property
    def prompt(self) -> tuple[tuple[int, ...], bool]:
        """The tokens of its prompt, none for a verb that has no prompt; and whether it is text."""
        return tokens_of(self.what) if FIELDS.get(self.verb) == "prompt" else ((), False)

    @property
    def said(self) -> str:
        """Its prompt or name in words; a long prompt or namespace is cut."""
        tokens, is_text = self.prompt
        where = f" in {truncated(repr(self.namespace), 40)}" if self.namespace else ""
        return label_in(tokens, is_text) + where if tokens else self.what

    def __str__(self) -> str:
        return f"{self.verb} {self.said}".rstrip()


def steps_in(text: str) -> list[Step]:
    """The steps of a script, as scenes have them: a verb, what it is done with, and perhaps its namespace.

    >>> print(*steps_in("insert the cat, evict 2, match 1 2 in B"), sep="; ")
    insert 'the cat'; evict 2; match [1 2] in 'B'
    """
    return [Step(*line) for line in re.findall(r"(\w+) ([^,]+?)(?: in (\w+))?(?:, |$)", text)]


def tokens_of(typed: str) -> tuple[tuple[int, ...], bool]:
    """The tokens of a prompt, and whether it is text: integers are ids, of anything else each byte is a token.

    What is in quotes is text, too. Raises `ValueError` for a prompt that is empty, and for an
    integer that is not a token.

    >>> tokens_of("héy"), tokens_of("1, 2"), tokens_of("'1 2'")
    (((104, 195, 169, 121), True), ((1, 2), False), ((49, 32, 50), True))
    >>> tokens_of("1 -2")
    Traceback (most recent call last):
    ValueError: tokens[1] is -2: a token is an integer in [0, 2**32)
    """
    words = re.findall(r"[^\s,\[\]]+", typed)
    if not words:
        raise ValueError("the prompt is empty: type some words, or token ids such as 1 2 3")
    if all(re.fullmatch(r"-?[0-9]+", word) for word in words):
        return tuple(pack([int(word[:40]) for word in words]).tolist()), False  # no token has 40 digits
    text = re.sub(r"\A\s*(['\"])(.+)\1\s*\Z", r"\2", typed, flags=re.DOTALL)
    return tuple(text.encode()), True


def label_in(tokens: Sequence[int], is_text: bool) -> str:
    """Tokens as numbers, or as the text whose bytes they are; of many, both ends.

    >>> print(label_in([104, 105, 10], is_text=True), label_in([104, 105], is_text=False))
    'hi\\n' [104 105]
    """
    if not is_text:
        return f"[{shorten([*tokens])}]"
    # A page may end in the middle of a character: its bytes are shown one by one then.
    return repr(ends(bytes(tokens).decode("utf-8", "backslashreplace"), 24))
