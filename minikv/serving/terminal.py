"""The terminal side of `minikv chat`: a prompt, an answer as it comes, and a line about what the cache served.

Ctrl-C stops a generation, not the program: it is looked at between two steps of the engine, where nothing can be half
done. A second one, for a model that takes long over a step, is an ordinary interruption.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator
from os import PathLike
from typing import TextIO

from minikv.errors import printable
from minikv.manager import CacheManager
from minikv.serving.chat import ANSWER, Chat
from minikv.serving.chat_format import load_format
from minikv.serving.engine import Engine
from minikv.serving.llama import Llama
from minikv.serving.phrasebook import UNKNOWN, Phrasebook, stems
from minikv.serving.request import Generation
from minikv.serving.sampling import Params
from minikv.serving.tokenizer import load_tokenizer
from minikv.sizing import bytes_per_token
from minikv.store import KVStore

LOOKED_UP = "The chat looks for the question that you mean, and says so if it finds none."
HELP = "/new begins a new conversation, /exit or Ctrl-D leaves, Ctrl-C stops an answer."
LONGEST = 4096  # tokens that a chat looks back at most, however far its model could: they have to fit in memory
_MOST_STORE = 2**30  # bytes that a store may take however small the model is


def open_chat(folder: str | PathLike[str]) -> Chat:
    """A chat with the checkpoint in `folder`, on this machine's CPU, over a store for two conversations.

    >>> from minikv import asset
    >>> open_chat(asset("model"))
    Chat(0 turns)
    """
    model, tokenizer = Llama.from_folder(folder), load_tokenizer(folder)
    format, context = load_format(folder, tokenizer), min(model.config.max_length, LONGEST)
    needed, weights = 2 * context * bytes_per_token(model.shape, "fp32"), sum(w.nbytes for w in model.weights.values())
    if needed > _MOST_STORE + 4 * weights:  # a model whose heads are far larger than all else in it
        raise ValueError(f"the keys and values of {2 * context} tokens take {needed} bytes, the weights {weights}")
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
    """What is typed, line by line, without empty lines; Ctrl-C gives up the line."""
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
        self._width, self._column = width, column
        self._gap, self._word = "", ""  # what is held back

    def push(self, piece: str) -> str:
        """What can be written once `piece` has come."""
        return piece if self._width is None else "".join(self._next(char, self._width) for char in piece)

    def close(self) -> str:
        """What is left to write, without spaces at the end."""
        text, self._gap = self._place(self._width or 0), ""
        return text

    def _next(self, char: str, width: int) -> str:
        if not char.isspace():
            text = self._place(width) if len(self._word) == width else ""
            self._word += char
            return text
        text = self._place(width)
        if char != "\n":
            self._gap += " "
            return text
        self._gap, self._column = "", 0
        return f"{text}\n"

    def _place(self, width: int) -> str:
        """The word that was held back, in this line or in the next."""
        if not self._word:
            return ""
        text = self._gap + self._word
        if self._column + len(text) > width:
            text = ("\n" if self._column else "") + self._word
            self._column = 0
        self._column += len(text.lstrip("\n"))
        self._gap, self._word = "", ""
        return text
