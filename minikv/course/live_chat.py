"""The chat of chapter 00: the small model answers, with its cache or without, and each turn says what it took.

Where torch is not installed, the stored run of the same conversation is played: `assets/live_chat.json`, which a test
compares with a run.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class SpokenTurn:
    """A turn of the chat: `prompt` tokens were sent, of which `computed` had to be computed."""

    question: str
    answer: str
    prompt: int
    computed: int


class LiveChat:
    """The `turns` of a conversation; `str()` is what was said, and what each turn took."""

    def __init__(self, turns: Sequence[SpokenTurn], is_stored: bool = False):
        self.turns, self.is_stored = list(turns), is_stored

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
            lines += [f"you:   {turn.question}", f"model: {turn.answer}"]
            lines.append(f"       {turn.prompt} tokens in the prompt, {turn.computed} computed")
        return "\n".join(lines)


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
    import torch

    from minikv.manager import CacheManager
    from minikv.prefix import NoCache, RadixCache
    from minikv.serving import Engine
    from minikv.serving.llama import Llama
    from minikv.serving.tokenizer import load_tokenizer
    from minikv.store import KVStore

    model, tokenizer = Llama.from_folder(asset("model"), dtype=torch.float32), load_tokenizer(asset("model"))
    store = KVStore(model.shape, 2048, dtype=model.dtype)
    engine = Engine(model, CacheManager(2048, prefix_cache=RadixCache() if cache else NoCache(), store=store))
    return LiveChat(_spoken(engine, tokenizer, clock, questions))


def _spoken(engine: Any, tokenizer: Any, clock: bool, questions: Sequence[str]) -> list[SpokenTurn]:
    said, turns = tokenizer.encode(INSTRUCTIONS), []
    for turn, question in enumerate(questions):
        said += tokenizer.encode(f"User: {question}\nAssistant:")
        hour, minute = divmod(9 * 60 + 10 + 7 * turn, 60)
        prompt = (tokenizer.encode(f"It is {hour % 24:02}:{minute:02}. ") if clock else []) + said
        (found,) = engine.generate([prompt], NEW_TOKENS)
        answer = tokenizer.decode([token for token in found.tokens if token not in engine.model.eos]).strip()
        turns.append(SpokenTurn(question, answer, found.prompt, found.prompt - found.cached))
        said = [*said, *found.tokens, *tokenizer.encode("\n")]
    return turns


def _stored(cache: bool, clock: bool, questions: Sequence[str]) -> LiveChat:
    if tuple(questions) != QUESTIONS:
        raise ValueError(f"questions are {bounded(list(questions))}: without torch only the stored ones can be asked")
    runs = json.loads(asset("live_chat.json").read_text("utf-8"))
    turns = runs[run_name(cache, clock)]
    return LiveChat([SpokenTurn(**turn) for turn in turns], is_stored=True)


def run_name(cache: bool, clock: bool) -> str:
    """What a run is called in `assets/live_chat.json`.

    >>> run_name(cache=True, clock=False)
    'with a cache'
    """
    return f"{'with' if cache else 'without'} a cache{', with a clock' if clock else ''}"
