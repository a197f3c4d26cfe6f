"""The chat of chapter 00: the small model answers, with or without a cache, and each turn says what it cost.

`live_chat` holds it with the package's engine, `chat_through` with the learner's `serve` (at the end of chapters 02 and
03). Without torch, the stored answers of `assets/live_chat.json` are replayed; a test compares them with a live run.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from importlib.util import find_spec
from typing import Any

from minikv.errors import bounded
from minikv.files import asset

INSTRUCTIONS = (
    "You are the assistant of a course on KV caches. Answer in one or two short sentences, in plain words, and use the "
    "field's own terms: token, slot, page, page table, prefix, radix tree, lock, eviction.\n"
)
QUESTIONS = "Hello!", "What is a slot?", "What is evicted first?"
NEW_TOKENS = 140
END = 256  # the token that ends an answer; those before it are bytes
WIDTH = 88  # of a printed line


@dataclass(frozen=True)
class SpokenTurn:
    """A turn of the chat: `prompt` tokens were sent, of which `computed` had to be computed."""

    question: str
    answer: str
    prompt: int
    computed: int


@dataclass(frozen=True, repr=False)
class LiveChat:
    """The `turns` of a conversation; `str()` shows what was said and what each turn cost."""

    turns: list[SpokenTurn]
    is_stored: bool = False

    @property
    def prompt(self) -> int:
        """Tokens of all prompts."""
        return sum(turn.prompt for turn in self.turns)

    @property
    def computed(self) -> int:
        """Tokens of all prompts that had to be computed."""
        return sum(turn.computed for turn in self.turns)

    def __repr__(self) -> str:
        lines = ["(torch is not installed: this is a stored run of the same conversation)"] * self.is_stored
        for turn in self.turns:
            said = f"you:   {turn.question}", f"model: {turn.answer}"
            lines += [textwrap.fill(line, WIDTH, subsequent_indent=" " * 7) for line in said]
            lines.append(f"       {turn.prompt} tokens in the prompt, {turn.computed} computed")
        return "\n".join(lines)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """As a block whose lines break between words: a notebook breaks those of plain text anywhere."""
        block = '<pre style="white-space:pre-wrap;word-break:normal;overflow-wrap:break-word">'
        return {"text/plain": repr(self), "text/html": f"{block}{escape(repr(self))}</pre>"}


def live_chat(cache: bool = True, clock: bool = False, questions: Sequence[str] = QUESTIONS) -> LiveChat:
    """Ask the small model, turn by turn, with a prefix cache or without; `questions` may be a single one.

    With `clock` the instructions begin with the time, which is seven minutes later in each turn. `ValueError` where
    other questions are asked and torch, which the model needs, is not installed.

    >>> chat = live_chat(questions=["What is a slot?"])
    >>> chat.turns[0].question, chat.prompt == chat.computed
    ('What is a slot?', True)
    """
    questions = [questions] if isinstance(questions, str) else questions
    if find_spec("torch") is None:
        return _stored(cache, clock, questions)
    from minikv.manager import CacheManager
    from minikv.prefix import NoCache, RadixCache
    from minikv.serving import Engine

    model, store = _small_model(2048)
    engine = Engine(model, CacheManager(2048, prefix_cache=RadixCache() if cache else NoCache(), store=store))

    def ask(prompt: list[int]) -> tuple[list[int], int]:
        (found,) = engine.generate([prompt], NEW_TOKENS)
        return found.tokens, found.prompt - found.cached

    return LiveChat(list(_spoken(ask, model.eos, questions, clock)))


def _small_model(num_slots: int) -> tuple[Any, Any]:
    """The small model and a store with `num_slots` slots for it."""
    import torch

    from minikv.serving.llama import Llama
    from minikv.store import KVStore

    model = Llama.from_folder(asset("model"), dtype=torch.float32)
    return model, KVStore(model.shape, num_slots, dtype=model.dtype)


def _tokenizer() -> Any:
    from minikv.serving.tokenizer import load_tokenizer

    return load_tokenizer(asset("model"))


def _spoken(
    ask: Callable[[list[int]], tuple[list[int], int]],
    ends: Collection[int],
    questions: Sequence[str] = QUESTIONS,
    clock: bool = False,
) -> Iterator[SpokenTurn]:
    """The turns, where `ask` gives the tokens of an answer to a prompt, and how many of the prompt's were computed."""
    tokenizer = _tokenizer()
    said = tokenizer.encode(INSTRUCTIONS)
    for turn, question in enumerate(questions):
        said += tokenizer.encode(f"User: {question}\nAssistant:")
        hour, minute = divmod(9 * 60 + 10 + 7 * turn, 60)
        prompt = (tokenizer.encode(f"It is {hour % 24:02}:{minute:02}. ") if clock else []) + said
        tokens, computed = ask(prompt[:])
        answer = tokenizer.decode([token for token in tokens if token not in ends]).strip()
        yield SpokenTurn(question, answer, len(prompt), computed)
        said = [*said, *tokens, *tokenizer.encode("\n")]


def _stored(cache: bool, clock: bool, questions: Sequence[str]) -> LiveChat:
    if tuple(questions) != QUESTIONS:
        raise ValueError(f"questions are {bounded(list(questions))}: without torch only the stored ones can be asked")
    runs = json.loads(asset("live_chat.json").read_text("utf-8"))
    turns = runs[run_name(cache, clock)]
    return LiveChat([SpokenTurn(**turn) for turn in turns], is_stored=True)


# -- the learner's own ------------------------------------------------------------------------------------------------


class SlotModel:
    """The small model as `serve` calls it: `model(tokens, row)` returns the next token.

    The keys and values of `tokens` are written to the last slots of `row`, and those of all earlier tokens are read
    from the slots before them: with wrong slots it talks nonsense. The token `model.end` ends an answer. Without torch,
    it replays `answers` and does not look at `row`.
    """

    def __init__(self, num_slots: int, answers: Sequence[str]):
        self.end: int = END
        self.computed = 0
        self._parts = _small_model(num_slots) if find_spec("torch") else None
        self._replay: Iterator[int] = (token for answer in answers for token in [*f" {answer}".encode(), self.end])

    def __call__(self, tokens: Sequence[int], row: Sequence[int]) -> int:
        """The token that follows; `ValueError` unless `row` has a slot for each of `tokens`."""
        if not 0 < len(tokens) <= len(row):
            raise ValueError(f"{len(tokens)} tokens and {len(row)} slots: expected tokens, each with a slot")
        self.computed += len(tokens)
        if self._parts is None:
            return next(self._replay)
        from minikv.serving import Chunk

        model, store = self._parts
        logits = model.forward([Chunk(tokens, len(row) - len(tokens), row)], store)
        return int(logits[0].argmax())


def chat_through(serve: Callable[..., list[int]], pool: Any, cache: Any) -> LiveChat:
    """Hold the chat of chapter 00 through `serve(model, pool, cache, prompt)`, which returns the tokens of an answer.

    In chapter 02 `serve` is the learner's `respond` (piece 2.5), and `cache` has its two verbs: `find(tokens)` returns
    the slots of the cached prefix in a new list, and `keep(tokens, row)` remembers a computed sequence. In chapter 03
    it is `reply` (piece 3.7), and `cache` is the root of a tree. The tokens that a turn computed are those that `serve`
    gave to the model, without the generated ones: 223, 34 and 41 with either cache.

    >>> def serve(model, pool, cache, prompt):
    ...     row, answer, new = [], [], prompt
    ...     while model.end not in answer:
    ...         row += pool.alloc(len(new)).tolist()
    ...         answer.append(model(new, row))
    ...         new = answer[-1:]
    ...     return answer
    >>> from minikv import FreeListPool
    >>> [turn.computed for turn in chat_through(serve, FreeListPool(2048), cache=None).turns]
    [223, 332, 481]
    """
    answers = [turn.answer for turn in _stored(True, False, QUESTIONS).turns]
    model = SlotModel(pool.size, answers)

    def ask(prompt: list[int]) -> tuple[list[int], int]:
        before, tokens = model.computed, serve(model, pool, cache, prompt)
        return tokens, model.computed - before - len(tokens) + 1

    return LiveChat(list(_spoken(ask, [model.end])))


def run_name(cache: bool, clock: bool) -> str:
    """Return the name of a run in `assets/live_chat.json`.

    >>> run_name(cache=True, clock=False)
    'with a cache'
    """
    return f"{'with' if cache else 'without'} a cache{', with a clock' if clock else ''}"
