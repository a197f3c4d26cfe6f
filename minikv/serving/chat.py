"""A conversation with an engine: questions in, text out as it comes, and what each turn took.

It is what makes a prefix cache worth its while: each turn sends everything that was said before, so all but the last
question has been computed, and its keys and values are still there unless somebody needed the room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from minikv.errors import whole_number
from minikv.serving.chat_format import ChatFormat, Turn
from minikv.serving.engine import Engine
from minikv.serving.request import Generation, Request, generation
from minikv.serving.sampling import Params, SamplingParams
from minikv.serving.tokenizer import TextStream, Tokenizer

ANSWER = SamplingParams(max_new_tokens=256)  # how an answer is sampled by default


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

    def __init__(self, engine: Engine, tokenizer: Tokenizer, format: ChatFormat, context: int = 2048):
        self._engine, self._tokenizer, self._format = engine, tokenizer, format
        context = whole_number("context", context, 1, "a model looks back at least 1 token")
        self.context = min(context, engine.manager.num_pages * engine.manager.page_size)
        self.turns: list[Turn] = []
        self.last: Generation | None = None

    def ask(
        self,
        question: str,
        params: Params = ANSWER,
        stopped: Callable[[], bool] = lambda: False,
    ) -> Iterator[str]:
        """The answer's text in pieces, as whole characters come out.

        After each step `stopped` is asked whether to continue. What came until it was stopped, or until the iterator
        was closed, is remembered as the answer. `ValueError`, and every turn is remembered as before, when the question
        alone is too long for the context, or the engine refuses the request.
        """
        params = SamplingParams.of(params)
        request = self._submit(question, params)
        stream, answer = TextStream(self._tokenizer), ""
        try:
            for token in self._tokens(request, stopped):
                piece = "" if token in self._engine.model.eos else stream.push(token)
                answer += piece
                if piece:
                    yield piece
            if rest := stream.close():
                answer += rest
                yield rest
        finally:
            if not request.is_over:
                self._engine.abort(request)
            self.last = generation(request)
            if request.output:
                self.turns.append(Turn(question, answer, [*request.output]))

    def _tokens(self, request: Request, stopped: Callable[[], bool]) -> Iterator[int]:
        """The tokens of `request`; between two of them another conversation may take the engine's steps."""
        sent = 0
        while True:
            over = request.is_over  # looked at first: a request that is over gets no further token
            while sent < len(request.output):
                sent += 1
                yield request.output[sent - 1]
            if over or stopped():
                return
            self._engine.step()

    def _submit(self, question: str, params: SamplingParams) -> Request:
        """Submit the conversation with `question`; turns that are too many are forgotten once it is accepted."""
        prompt, turns = self._prompt(question, params.max_new_tokens)
        request = self._engine.submit(prompt, params)
        self.turns = turns
        return request

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
