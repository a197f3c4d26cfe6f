"""The command `minikv chat`: talk to a small model, or to a checkpoint of your own.

Ctrl-C stops a generation, not the program: it is looked at between two tokens, where nothing can be half done. A second
one, for a model that takes long over a step, is an ordinary interruption.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator

from minikv.cli.command import RefusedError, failing, positive, refusing, require_packages, whole
from minikv.errors import printable, shown
from minikv.files import asset
from minikv.serving import Generation, SamplingParams
from minikv.serving.chat import ANSWER, Chat, open_chat
from minikv.serving.model import Params
from minikv.serving.phrasebook import UNKNOWN, Phrasebook, stems
from minikv.untrusted import refusal

LOOKED_UP = "The chat looks for the question that you mean, and says so if it finds none."
HELP = "/new starts a new conversation, /exit or Ctrl-D leaves, Ctrl-C stops an answer."

_EXAMPLES = """examples:
  minikv chat                                         the small model that comes with the package
  minikv chat --temperature 0.8 --seed 3              sampled answers, the same ones for the same seed
  minikv chat --model ~/Llama-3.2-1B                  your own Llama checkpoint"""


def add_chat(chat: argparse.ArgumentParser) -> None:
    """Add the options of `minikv chat` to its parser.

    >>> parser = argparse.ArgumentParser(); add_chat(parser)
    >>> parser.parse_args(["--seed", "3"]).seed
    3
    """
    chat.epilog = _EXAMPLES
    chat.add_argument("--model", metavar="FOLDER", help="your own Llama checkpoint (default: the small model)")
    chat.add_argument("--max-new-tokens", type=positive, default=256, metavar="N", help="most new tokens (default 256)")
    chat.add_argument("--temperature", type=float, default=0.0, metavar="T", help="0 (default): the likeliest token")
    chat.add_argument("--seed", type=whole, default=0, metavar="S", help="seed if T is above 0 (default 0)")


def run_chat(options: argparse.Namespace) -> int:
    """Load the model that `options` name and chat until the input ends; returns the exit status."""
    if sys.stdin is None:
        raise RefusedError("cannot read the questions: standard input is closed")
    require_packages("the chat", "torch", "safetensors")
    with refusing(OSError, ValueError, ModuleNotFoundError):
        params = SamplingParams(options.max_new_tokens, options.temperature, options.seed)
        try:
            chat = open_chat(options.model or asset("model"))
        except (RuntimeError, MemoryError) as error:  # torch finds no memory for the weights, or for keys and values
            raise refusal(f"cannot open {shown(str(options.model))}", error) from error
        phrasebook = None if options.model else Phrasebook.read(asset("model/corpus.json"))
    with failing("the chat cannot continue"):
        converse(chat, params, phrasebook)
    return 0


# -- at a terminal ----------------------------------------------------------------------------------------------------


def converse(chat: Chat, params: Params = ANSWER, phrasebook: Phrasebook | None = None) -> None:
    """Answer the questions of standard input until it ends.

    With a `phrasebook` the model is asked the taught question that was meant, and nothing that is not in it.
    """
    if phrasebook is not None:
        _say(f"This model was taught {len(phrasebook.groups)} answers. {LOOKED_UP}")
    _say(HELP)
    for question in _questions():
        if question == "/new":
            chat.reset()
            _say("A new conversation. Earlier prompts are still in the cache.")
        elif question.startswith("/"):
            _say(HELP)
        elif meant := question if phrasebook is None else phrasebook.nearest(question):
            _answer(chat, question, meant, params)
        else:
            _say(f"bot: {UNKNOWN}")


def _questions() -> Iterator[str]:
    """Yield the lines that are typed, without empty ones; Ctrl-C discards the line."""
    while True:
        try:
            line = input("\nyou: ").strip()
        except EOFError:
            line = "/exit"
        except KeyboardInterrupt:
            print("\n(Ctrl-D leaves)")
            continue
        if line == "/exit":
            print()
            return
        if line:
            yield line


def _answer(chat: Chat, question: str, meant: str, params: Params) -> None:
    lines = WordWrap(_width(), column=len("bot:"))
    _write("bot:" + lines.push("" if stems(meant) == stems(question) else f" ({meant})"))
    begin, first = time.perf_counter(), 0.0
    with _ctrl_c() as pressed:
        try:
            for piece in chat.ask(meant, params, stopped=pressed.is_set):
                first = first or time.perf_counter() - begin
                _write(lines.push(printable(piece, kept="\n\t")))
            rest, took = " ..." if pressed.is_set() else "", _took(chat.last, first)
        except ValueError as error:  # a question that is too long
            rest, took = f" {error}", ""
        print(lines.push(rest) + lines.close())
        if took:
            _say(took)


def _write(text: str) -> None:
    """Show `text` at once."""
    print(text, end="", flush=True)


def _width() -> int | None:
    """The columns that a line may fill; the last one stays empty, since some terminals go to the next line after it."""
    return max(1, shutil.get_terminal_size().columns - 1) if sys.stdout.isatty() else None


def _say(text: str) -> None:
    """Write `text` as lines that fit there; in a file or a pipe it stays one line."""
    lines = WordWrap(_width())
    print(lines.push(text) + lines.close())


def _took(turn: Generation | None, first: float) -> str:
    """One line about a turn: what the cache served, what was computed, and how long the first token took."""
    if turn is None:
        return "[nothing was computed]"
    served = f"{turn.cached} of {turn.prompt} prompt tokens from the cache ({turn.cached / turn.prompt:.0%})"
    return f"[{served} · {turn.generated} generated, the first after {first * 1000:.0f} ms]"


@contextlib.contextmanager
def _ctrl_c() -> Iterator[threading.Event]:
    """While it is open the first Ctrl-C sets the event, and the second does what Ctrl-C does."""
    pressed = threading.Event()
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
        text = self._held + piece
        self._held = self._unit.sub("", text)
        return "".join(self._place(len(gap), word, self._width) for gap, word in self._unit.findall(text))

    def close(self) -> str:
        """Return the rest of the text, without trailing spaces."""
        return self.push("\n")[:-1]

    def _place(self, gap: int, word: str, width: int) -> str:
        """A word after a gap, in this line or in the next."""
        if word == "\n":
            self._column = 0
            return word
        before, self._column = self._column, self._column + gap + len(word)
        if self._column <= width:
            return " " * gap + word
        self._column = len(word)
        return "\n" + word if before else word
