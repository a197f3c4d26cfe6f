"""A conversation with an engine, and `minikv chat`: a prompt, an answer as it comes, and what the cache served of it.

A conversation is what makes a prefix cache worth its while: each turn sends everything that was said before, so all but
the last question has been computed, and its keys and values are still there unless somebody needed the room.

Ctrl-C stops a generation, not the program: it is looked at between two steps of the engine, where nothing can be half
done. A second one, for a model that takes long over a step, is an ordinary interruption.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TextIO

from minikv.errors import printable, whole_number
from minikv.files import FileName
from minikv.manager import CacheManager
from minikv.serving.chat_format import PlainFormat, Turn
from minikv.serving.engine import Engine
from minikv.serving.model import Params, SamplingParams
from minikv.serving.phrasebook import UNKNOWN, Phrasebook, stems
from minikv.serving.request import Generation, generation
from minikv.serving.tokenizer import TextStream, Tokenizer, load_tokenizer

ANSWER = SamplingParams(max_new_tokens=256)  # how an answer is sampled by default
LOOKED_UP = "The chat looks for the question that you mean, and says so if it finds none."
HELP = "/new begins a new conversation, /exit or Ctrl-D leaves, Ctrl-C stops an answer."
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
        self._engine, self._tokenizer, self._format = engine, tokenizer, format
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


# -- at a terminal ----------------------------------------------------------------------------------------------------


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


def converse(
    chat: Chat,
    params: Params = ANSWER,
    read: TextIO | None = None,
    write: TextIO | None = None,
    phrasebook: Phrasebook | None = None,
) -> None:
    """Ask and answer until the input ends; `read` and `write` are the terminal's unless they are given.

    With a `phrasebook` the model is asked the taught question that was meant, and nothing that is not in it.
    """
    write = write or sys.stdout
    if phrasebook is not None:
        _say(f"This model was taught {len(phrasebook.groups)} answers. {LOOKED_UP}", write)
    _say(HELP, write)
    for question in _questions(read or sys.stdin, write):
        if question == "/new":
            chat.reset()
            _say("A new conversation; what was computed is still in the cache.", write)
        elif question.startswith("/"):
            _say(HELP, write)
        elif meant := question if phrasebook is None else phrasebook.nearest(question):
            _answer(chat, question, meant, params, write)
        else:
            _say(f"bot: {UNKNOWN}", write)


def _questions(read: TextIO, write: TextIO) -> Iterator[str]:
    """Yield the lines that are typed, without empty ones; Ctrl-C discards the line."""
    while True:
        try:
            if read is sys.stdin:
                line = input("\nyou: ") + "\n"
            else:
                write.write("\nyou: ")
                line = read.readline()
        except EOFError:
            line = ""
        except KeyboardInterrupt:
            print("\n(Ctrl-D leaves)", file=write)
            continue
        if not line or line.strip() == "/exit":
            print(file=write)
            return
        if line.strip():
            yield line.strip()


def _answer(chat: Chat, question: str, meant: str, params: Params, write: TextIO) -> None:
    lines = WordWrap(_width(write), column=len("bot:"))
    write.write("bot:" + lines.push("" if stems(meant) == stems(question) else f" ({meant})"))
    write.flush()
    begin, first = time.perf_counter(), None
    with _ctrl_c() as pressed:
        try:
            for piece in chat.ask(meant, params, stopped=pressed.is_set):
                first = first or time.perf_counter() - begin
                write.write(lines.push(printable(piece, kept="\n\t")))
                write.flush()
            rest = lines.push(" ..." if pressed.is_set() else "") + lines.close()
        except ValueError as error:  # a question that is too long
            print(lines.push(f" {error}") + lines.close(), file=write)
            return
        print(rest, file=write)
        _say(_took(chat.last, first), write)


def _width(write: TextIO) -> int | None:
    """The columns that a line may fill; the last one stays empty, since some terminals go to the next line after it."""
    return max(1, shutil.get_terminal_size().columns - 1) if write.isatty() else None


def _say(text: str, write: TextIO) -> None:
    """Write `text` as lines that fit there; in a file or a pipe it stays one line."""
    lines = WordWrap(_width(write))
    print(lines.push(text) + lines.close(), file=write)


def _took(turn: Generation | None, first: float | None) -> str:
    """One line about a turn: what the cache served, what was computed, and how long the first token took."""
    if turn is None:
        return "[nothing was computed]"
    served = f"{turn.cached} of {turn.prompt} prompt tokens from the cache ({turn.cached / turn.prompt:.0%})"
    waited = "" if first is None else f", the first after {first * 1000:.0f} ms"
    return f"[{served} · {turn.generated} generated{waited}]"


@contextlib.contextmanager
def _ctrl_c() -> Iterator[threading.Event]:
    """While it is open the first Ctrl-C sets the event, and the second does what Ctrl-C does."""
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed  # signals are the main thread's
        return
    before = signal.getsignal(signal.SIGINT)

    def press(number: int, frame: object) -> None:
        signal.signal(signal.SIGINT, before)
        pressed.set()

    signal.signal(signal.SIGINT, press)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)


class WordWrap:
    r"""Text that comes in pieces, broken between words into lines of at most `width` characters; none without `width`.

    The first line begins at `column`. `push` returns what can be written now: a word is held back until it ends, since
    it may have to go to the next line. `close` returns the rest. A word longer than a line is cut.

    >>> lines = WordWrap(12, column=4)
    >>> [lines.push(" A pa"), lines.push("ge is "), lines.push("short."), lines.close()]
    [' A', ' page\nis', '', ' short.']
    """

    def __init__(self, width: int | None, column: int = 0):
        self._width, self._column, self._held = width, column, ""
        word = rf"\S{{{width}}}(?=\S)|\S{{1,{width}}}(?=\s)"  # as long as a line, or whole
        self._unit = re.compile(rf"([^\S\n]*)(\n|{word})")

    def push(self, piece: str) -> str:
        """Return the text that can be written after `piece`."""
        if self._width is None:
            return piece
        units = [*self._unit.finditer(self._held + piece)]
        self._held = (self._held + piece)[units[-1].end() if units else 0 :]
        return "".join(self._place(len(unit[1]), unit[2], self._width) for unit in units)

    def close(self) -> str:
        """Return the rest of the text, without trailing spaces."""
        return self.push("\n")[:-1]

    def _place(self, gap: int, word: str, width: int) -> str:
        """A word after a gap, in this line or in the next."""
        if word == "\n":
            self._column = 0
            return word
        text, ends = " " * gap + word, "\n" if self._column else ""
        if self._column + len(text) > width:
            self._column = len(word)
            return ends + word
        self._column += len(text)
        return text
