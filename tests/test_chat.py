"""The chat: what a turn sends, what the cache serves of it, and that Ctrl-C stops an answer and nothing else."""

import io
import itertools
import os
import re
import signal
import sys

import pytest
from chats import assert_nothing_leaked
from hypothesis import given, settings
from hypothesis import strategies as st

from minikv import CacheManager, CanaryModel, asset, cli
from minikv.cli.chat import converse
from minikv.serving import Engine
from minikv.serving.chat import ANSWER, Chat, open_chat
from minikv.serving.chat_format import PlainFormat, Turn
from minikv.serving.phrasebook import UNKNOWN, Phrasebook
from minikv.serving.tokenizer import ByteTokenizer

BYTES = ByteTokenizer()
END = 256


def chat_with(model=None, context=400, pages=1000, page_size=1):
    engine = Engine(model or CanaryModel(END + 1, eos=[END]), CacheManager(pages, page_size))
    return Chat(engine, BYTES, PlainFormat(BYTES, END), context)


def said(chat, question, new=20):
    answer = "".join(chat.ask(question, new))
    assert_nothing_leaked(chat._engine.manager)
    return answer


def questions(chat):
    return [turn.question for turn in chat.turns]


# -- what a turn sends --------------------------------------------------------------------------


@settings(max_examples=20, deadline=None)
@given(st.lists(st.text("ab é?", min_size=1, max_size=8), min_size=2, max_size=4))
def test_of_a_later_turn_only_the_new_question_is_computed(asked):
    """The prompt of a turn begins with the last one's and its answer; all but that answer's last token is cached."""
    chat, before = chat_with(), 0
    for question in asked:
        assert said(chat, question, 7) == chat.turns[-1].text == BYTES.decode(chat.turns[-1].ids)
        assert chat.last.cached >= before
        before = chat.last.prompt + chat.last.generated - 1
    assert questions(chat) == asked


def test_a_new_conversation_forgets_what_was_said_and_not_what_was_computed():
    chat = chat_with()
    first = said(chat, "What is a page?")
    chat.reset()
    assert chat.turns == []
    assert said(chat, "What is a page?") == first
    assert chat.last.cached == chat.last.prompt - 1


@pytest.mark.parametrize(("spare", "kept"), [(0, [1, 2, 3, 4, 3, 4, 3, 4]), (-1, [1, 2, 3, 2, 3, 2, 3, 2])])
def test_a_conversation_that_outgrows_the_context_forgets_its_older_half(spare, kept):
    """There is just room for three turns and a question, or for one token less."""
    turns = [Turn(f"Question {number}", "x" * 20, [*b"x" * 20]) for number in range(3)]
    chat = chat_with(context=len(PlainFormat(BYTES, END).prompt(turns, "Question 3")) + 20 + spare)
    found = []
    for number in range(8):
        said(chat, f"Question {number}")
        assert questions(chat)[-1] == f"Question {number}"
        found.append(len(chat.turns))
    assert found == kept


def test_a_question_that_is_too_long_is_refused_and_nothing_is_forgotten_for_it():
    """The slots of the manager count, though the model could look back 350 tokens."""
    chat = chat_with(context=350, pages=150, page_size=2)
    said(chat, "short")
    with pytest.raises(
        ValueError, match=r"takes 281 tokens: the context of 300 has room for 280 before an answer of 20"
    ):
        said(chat, "z" * 264)
    assert questions(chat) == ["short"]
    said(chat, "z" * 263)
    assert questions(chat) == ["z" * 263]


def test_a_question_that_the_engine_refuses_costs_no_turn():
    """It fits once the older turns are gone, but has a byte that the model has no token for."""
    chat = chat_with(CanaryModel(128), context=200)
    chat._format = PlainFormat(BYTES)
    for _ in range(3):
        said(chat, "q" * 20, 10)
    before = [*chat.turns]
    with pytest.raises(ValueError, match="the model's tokens are 0 to 127"):
        said(chat, "é" * 40, 10)
    assert chat.turns == before
    assert len(before) == 3
    assert_nothing_leaked(chat._engine.manager)


def test_a_context_is_a_whole_number_of_tokens():
    with pytest.raises(ValueError, match="context is 0"):
        chat_with(context=0)


@pytest.mark.parametrize("pieces", [0, 1, 3])
def test_an_answer_that_nobody_listens_to_is_cut_off_and_remembered(pieces):
    chat = chat_with()
    answer = chat.ask("Tell me", 50)
    heard = "".join(next(answer) for _ in range(pieces))
    answer.close()
    assert [turn.text for turn in chat.turns] == [heard] * (pieces > 0)
    assert_nothing_leaked(chat._engine.manager)


# -- the terminal -------------------------------------------------------------------------------


def talk(chat, lines, params=ANSWER, phrasebook=None, out=None):
    """All that is printed while these lines are typed, into `out` if it is given."""
    out = out or io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.StringIO(lines) if isinstance(lines, str) else lines)
        patch.setattr(sys, "stdout", out)
        patch.setattr("minikv.cli.chat.time.perf_counter", itertools.count().__next__)
        converse(chat, params, phrasebook)
    assert_nothing_leaked(chat._engine.manager)
    return out.getvalue()


SERVED = r"\[(\d+) of (\d+) prompt tokens from the cache \((\d+)%\) · (\d+) generated, the first after 1000 ms"


def test_after_each_turn_it_says_what_the_cache_served_and_a_refused_question_leaves_it_running():
    out = talk(chat_with(context=100), "One\n\n" + "x" * 200 + "\nTwo\n", 6)
    assert re.findall(SERVED, out) == [("0", "20", "0", "6"), ("25", "48", "52", "6")]
    assert "the question takes 217 tokens" in out


def test_commands_are_not_sent_to_the_model():
    chat = chat_with()
    out = talk(chat, "/help\n/new\n/exit\nnever read\n")
    assert out.count("/new starts a new conversation") == 2
    assert "A new conversation" in out
    assert chat._engine.manager.cache.total_size == 0


def test_what_a_terminal_would_obey_is_not_printed():
    class Escaping(CanaryModel):
        def forward(self, chunks, store):
            logits = super().forward(chunks, store)
            logits[:, 27] = 100.0
            return logits

    assert talk(chat_with(Escaping(END + 1)), "One\n", 2).count("\N{REPLACEMENT CHARACTER}") == 2


def test_on_a_terminal_lines_break_between_words_as_the_answer_comes(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    terminal, written = io.StringIO(), []
    terminal.isatty = lambda: True
    terminal.flush = lambda: written.append(terminal.getvalue())
    question = "What happens when a request starts?\n"
    shown = talk(open_chat(asset("model")), question, out=terminal)
    in_one_line = talk(open_chat(asset("model")), question)
    words = [re.sub(r"\d+ ms", "", " ".join(text.split())) for text in (shown, in_one_line)]
    assert words[0] == words[1]
    assert max(map(len, in_one_line.split("\n"))) > 80
    assert max(map(len, shown.replace("you: ", "").split("\n"))) < 20
    assert len({*written}) > 10  # it did not wait for the whole answer


def test_with_a_phrasebook_the_model_is_asked_what_was_meant_and_nothing_else():
    chat, phrasebook = chat_with(), Phrasebook([["What is a lock?"], ["What is a page?"]])
    out = talk(chat, "so what are locks good for\nWhat is a volcano?\nwhat is a page\n", 3, phrasebook)
    for part in ("This model was taught 2 answers.", "bot: (What is a lock?)", f"bot: {UNKNOWN}\n"):
        assert part in out
    assert "(What is a page?)" not in out  # the same words
    assert questions(chat) == ["What is a lock?", "What is a page?"]
    assert out.count("generated") == 2


def test_the_small_model_comes_with_its_phrasebook(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("what r page tables for?\nWhat is 2+2?\n"))
    assert cli.main(["chat"]) == 0
    out = capsys.readouterr().out
    assert "bot: (What is a page table?) A page table says for each request" in out
    assert UNKNOWN in out


class Interrupted(CanaryModel):
    """Somebody presses Ctrl-C while it computes its step number `at`."""

    def __init__(self, at, times=1):
        super().__init__(END + 1, eos=[END])
        self.steps, self.at, self.times = 0, at, times

    def forward(self, chunks, store):
        self.steps += 1
        for _ in range(self.times if self.steps == self.at else 0):
            signal.raise_signal(signal.SIGINT)
        return super().forward(chunks, store)


def test_ctrl_c_stops_the_answer_and_the_next_question_is_answered():
    chat = chat_with(Interrupted(at=4))
    out = talk(chat, "One\nTwo\n", 8)
    assert re.findall(r"· (\d+) generated", out) == ["4", "8"]
    assert " ...\n" in out
    assert questions(chat) == ["One", "Two"]


def test_a_second_ctrl_c_is_an_interruption_that_loses_nothing():
    chat, before = chat_with(Interrupted(at=3, times=2)), signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        talk(chat, "One\n", 8)
    assert signal.getsignal(signal.SIGINT) is before
    assert chat.last.generated == 2
    assert_nothing_leaked(chat._engine.manager)


def test_ctrl_c_at_the_prompt_gives_up_the_line():
    class Impatient(io.StringIO):
        pressed = False

        def readline(self, *_):
            if not self.pressed:
                self.pressed = True
                raise KeyboardInterrupt
            return super().readline()

    out = talk(chat_with(), Impatient("One\n"), 3)
    assert "(Ctrl-D leaves)" in out
    assert "3 generated" in out


def test_a_wrong_call_says_what_is_wrong(capsys, monkeypatch):
    assert cli.main(["chat", "--temperature", "-1"]) == 2
    assert "temperature is -1.0" in capsys.readouterr().err
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert cli.main(["chat"]) == 2
    assert "pip install 'minikv[serving]'" in capsys.readouterr().err


@pytest.mark.nightly
@pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals are POSIX's")
def test_in_a_real_terminal():
    """A process of its own, with keys typed at it: a question, Ctrl-C into a long answer, a command, Ctrl-D."""
    pexpect = pytest.importorskip("pexpect")
    command = ["-m", "minikv", "chat", "--temperature", "9", "--max-new-tokens", "1500"]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    run = pexpect.spawn(sys.executable, command, timeout=60, encoding="utf-8", env=env)
    run.expect("you: ")
    run.sendline("What is a page table?")
    run.expect("bot:.")
    run.sendintr()
    run.expect(r"\.\.\.\s+\[0 of \d+ prompt tokens from the cache .*?\]")
    run.sendline("/new")
    run.expect("still in the cache.*you: ")
    run.sendeof()
    run.expect(pexpect.EOF)
    run.close()
    assert run.exitstatus == 0
