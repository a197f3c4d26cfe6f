"""The actions in a playground: its settings, its steps, and the tokens of a typed prompt."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields

from minikv.errors import truncated, whole_number
from minikv.prefix import BY_POLICY, PrefixCache, TieredCache, index_named
from minikv.testing.snapshot import ends, shorten
from minikv.tokens import pack

MOST_PAGES = 256  # so that every page can be drawn, and read, on one screen
MOST_TOKENS_A_PAGE = 64
_MOST_LETTERS = 24  # of a typed prompt
NAMES = {
    "page_size": "page size", "capacity": "capacity", "policy": "policy", "evict_by": "evict by", "index": "index",
    "host_pages": "host pages",
}  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """The cache and the pool of a playground; `capacity` is in pages, the rest as in `RadixCache`.

    `index` is the design of the cache, by its name in `INDEXES`. Those that are not in `BY_POLICY` have an order of
    eviction of their own, so `policy` and `evict_by` are what they are by default. Only the radix tree has host memory.

    >>> Settings(page_size=4, capacity=0)
    Traceback (most recent call last):
    ValueError: capacity is 0: a pool holds at least 1 page
    """

    page_size: int = 1
    capacity: int = 32
    policy: str = "lru"
    evict_by: str = "node"
    index: str = "radix"
    host_pages: int = 0

    def __post_init__(self) -> None:
        self.make()
        whole_number("capacity", self.capacity, 1, "a pool holds at least 1 page")
        for name, most, unit in (
            ("page_size", MOST_TOKENS_A_PAGE, "tokens"),
            ("capacity", MOST_PAGES, "pages"),
            ("host_pages", MOST_PAGES, "pages"),
        ):
            if (value := getattr(self, name)) > most:
                raise ValueError(f"{name} is {value}: a playground draws at most {most} {unit}")

    def make(self) -> PrefixCache:
        """An empty cache with these settings.

        >>> type(Settings(index="hash").make()).__name__
        'HashBlockCache'
        """
        if self.host_pages and self.index == "radix":
            return TieredCache(self.page_size, self.host_pages, policy=self.policy, evict_by=self.evict_by)
        whole_number("host_pages", self.host_pages, 0, f"index {self.index!r} has no host memory", 1)
        policy = None if self.policy == "lru" else self.policy
        evict_by = None if self.evict_by == "node" else self.evict_by
        return index_named(self.index, self.page_size, policy, evict_by)

    def __str__(self) -> str:
        shown = ["page_size", "capacity"]
        shown += ["policy", "evict_by"] if self.index in BY_POLICY else []
        shown += ["index"] if self.index != "radix" else []
        shown += ["host_pages"] if self.host_pages else []
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)

    def changes(self, other: Settings) -> str:
        """Describe the differences in `other`.

        >>> Settings().changes(Settings(page_size=4))
        'page size 1 → 4'
        """
        pairs = [(NAMES[f.name], getattr(self, f.name), getattr(other, f.name)) for f in fields(self)]
        return ", ".join(f"{name} {old} → {new}" for name, old, new in pairs if old != new)


@dataclass(frozen=True)
class Step:
    """One thing done in a playground: `verb` with what it needs, and `said`, how the class wrote it.

    The verbs: match, insert, lock and start (of `tokens` in `namespace`), unlock (lock `number`), evict (`number`
    tokens), publish, finish and abort (request `number`), reset, set (other `settings`) and scene (start over with
    `settings`). `text` says that the prompt was text.

    >>> print(prompt_step("insert", "1, 2, 3", namespace="B"))
    insert [1 2 3] in 'B'
    """

    verb: str
    said: str = ""
    tokens: tuple[int, ...] = ()
    namespace: str | None = None
    number: int = 0
    settings: Settings | None = None
    text: bool = False

    @property
    def where(self) -> str:
        """The namespace in words, cut if it is long; nothing for the default one."""
        return "" if self.namespace is None else f" in {truncated(repr(self.namespace), 40)}"

    def __str__(self) -> str:
        return f"{self.verb} {self.said}".rstrip() + self.where


def prompt_step(verb: str, typed: str, *, text: bool | None = None, namespace: str | None = None) -> Step:
    """A step with a prompt as it was typed: integers are token ids, anything else is text, each byte of it a token.

    What is in quotes is text too, and `text` decides by itself. Raises `ValueError` for a prompt that is empty or
    has no bytes, and for an integer that is not a token.

    >>> prompt_step("match", "héy").tokens, prompt_step("match", "1, 2").tokens, prompt_step("match", "'1 2'").tokens
    ((104, 195, 169, 121), (1, 2), (49, 32, 50))
    >>> prompt_step("match", "1 -2")
    Traceback (most recent call last):
    ValueError: tokens[1] is -2: a token is an integer in [0, 2**32)
    """
    ids = _ids(typed)
    if text is None:
        text, typed = ids is None, _unquoted(typed)
    if not (typed if text else ids):
        raise ValueError("the prompt is empty: type some words, or token ids such as 1 2 3")
    try:
        tokens = tuple(pack(typed.encode() if text else ids or []).tolist())
    except UnicodeEncodeError:
        raise ValueError("the prompt has half a character in it, which has no bytes: type it again") from None
    said = label_text(list(tokens)) if text else f"[{shorten(list(tokens))}]"
    return Step(verb, said, tokens, namespace, text=text)


def _unquoted(typed: str) -> str:
    found = re.fullmatch(r"\s*(['\"])(.+)\1\s*", typed, re.DOTALL)
    return found[2] if found else typed


def _ids(typed: str) -> list[int] | None:
    """The typed integers, or nothing where something else was typed."""
    typed = typed.strip()
    if typed.startswith("[") and typed.endswith("]"):
        typed = typed[1:-1].strip()
    words = re.split(r"\s*,\s*|\s+", typed) if typed else []
    if not all(re.fullmatch(r"-?[0-9]+", word) for word in words):
        return None
    for i, word in enumerate(words):
        if len(word) > 40:
            raise ValueError(f"tokens[{i}] is {word[:20]}…: a token is an integer in [0, 2**32)")
    return [int(word) for word in words]


def label_text(tokens: list[int]) -> str:
    """Tokens as the text whose bytes they are, of a long one both ends; where they are not bytes, as numbers.

    >>> label_text([104, 105, 10]), label_text([300, 5])
    ("'hi\\\\n'", '[300 5]')
    """
    if any(token > 255 for token in tokens):
        return f"[{shorten(tokens)}]"
    # A page may end in the middle of a character: its bytes are shown one by one then.
    text = bytes(tokens).decode("utf-8", "backslashreplace")
    shown = ends(text, _MOST_LETTERS)
    return "'" + "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown) + "'"
