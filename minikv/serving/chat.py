"""A conversation with an engine: a question, its answer as it comes, and what the cache served of it.

A conversation is what makes a prefix cache worth its while: each turn sends everything that was said before, so all but
the last question has been computed, and its keys and values are still there unless somebody needed the room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from minikv.errors import whole_number
from minikv.files import FileName
from minikv.manager import CacheManager
from minikv.serving.chat_format import PlainFormat, Turn
from minikv.serving.engine import Engine
from minikv.serving.model import Params, SamplingParams
from minikv.serving.request import Generation, generation
from minikv.serving.tokenizer import TextStream, Tokenizer, load_tokenizer

ANSWER = SamplingParams(max_new_tokens=256)  # how an answer is sampled by default
LONGEST = 4096  # tokens that a chat looks back at most, however far its model could: they have to fit in memory


class Chat:
    """A conversation: `ask` a question and read the answer piece by piece.

    `context` is how many tokens the model can look back, question and answer included, and at most the slots of the
    engine's manager. When a conversation grows beyond it, the older half of its turns is forgotten. `turns` are those
    that are remembered; `last` counts what the latest turn took.

    >>> from minikv import CacheManager, CanaryModel, SamplingParams
    >>> from minikv.serving.chat_format import PlainFormat
    >>> from minikv.serving.tokenizer import ByteTokenizer
    >>> chat = Chat(Engine(CanaryModel(128), CacheManager(400)), ByteTokenizer(), PlainFormat(ByteTokenizer()))
    >>> len("".join(chat.ask("What is a page?", SamplingParams(max_new_tokens=5))))
    5
    >>> _ = "".join(chat.ask("And a slot?", SamplingParams(max_new_tokens=5)))
    >>> chat.last.cached, chat.last.prompt
    (36, 66)
    """

    def __init__(self, engine: Engine, tokenizer: Tokenizer, format: PlainFormat, context: int = 2048):
        self._engine = engine
        self._tokenizer = tokenizer
        self._format = format
        context = whole_number("context", context, 1, "a model looks back at least 1 token")
        self.context = min(context, engine.manager.num_pages * engine.manager.page_size)
        self.turns: list[Turn] = []
        self.last: Generation | None = None

    def ask(self, question: str, params: Params = ANSWER, stopped: Callable[[], bool] = lambda: False) -> Iterator[str]:
        """The answer's text in pieces, as whole characters come out.

        After each token `stopped` is asked whether to continue. What came until it was stopped, or until the iterator
        was closed, is remembered as the answer. `ValueError`, and every turn is remembered as before, when the question
        alone is too long for the context, or the engine refuses the request.
        """
        params = SamplingParams.of(params)
        prompt, turns = self._prompt(question, params.max_new_tokens)
        text, answer, request = TextStream(self._tokenizer), "", None
        events = self._engine.stream([prompt], params)
        try:
            for request, token in events:
                piece = "" if token in request.eos else text.push(token)
                answer += piece
                if piece:
                    yield piece
                if stopped():
                    break
            rest = text.close()
            answer += rest
            yield rest
        finally:
            events.close()
            if request is not None:
                self.last = generation(request)
                self.turns = [*turns, Turn(question, answer, [*request.output])]

    def _prompt(self, question: str, max_new_tokens: int) -> tuple[list[int], list[Turn]]:
        """The conversation as ids, and its turns: the older half of them goes while it is too long."""
        room, turns = self.context - max_new_tokens, self.turns
        while len(prompt := self._format.prompt(turns, question)) > room:
            if not turns:
                raise ValueError(
                    f"the question takes {len(prompt)} tokens: the context of {self.context} has room for {room} "
                    f"before an answer of {max_new_tokens}"
                )
            turns = turns[(len(turns) + 1) // 2 :]
        return prompt, turns

    def reset(self) -> None:
        """Forget what was said; what was computed stays in the cache."""
        self.turns, self.last = [], None

    def __repr__(self) -> str:
        return f"Chat({len(self.turns)} turns)"


def open_chat(folder: FileName) -> Chat:
    """A chat with the checkpoint in `folder`, on this machine's CPU, over a store for two conversations.

    What was said is written in plain lines; `ValueError` or `OSError` says in one line why the folder cannot be read.

    >>> from minikv import asset
    >>> open_chat(asset("model"))
    Chat(0 turns)
    """
    from minikv.serving.llama import Llama
    from minikv.store import KVStore

    model, tokenizer = Llama.from_folder(folder), load_tokenizer(folder)
    format = PlainFormat(tokenizer, min(model.eos, default=None), model.config.bos)
    context = min(model.config.max_length, LONGEST)
    store = KVStore(model.shape, num_pages=2 * context, dtype=model.dtype)
    return Chat(Engine(model, CacheManager(2 * context, store=store)), tokenizer, format, context)
