"""The chat: what a turn sends, what the cache serves of it, and that Ctrl-C stops an answer and nothing else."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from llamas import SIZES, llama, store_for
from llamas import settings as config_json
from safetensors.torch import save_file
from test_tokenizer import file_tokenizer

from minikv import CacheManager, CanaryModel, SamplingParams, asset, cli
from minikv.cli.chat import converse
from minikv.serving import Engine
from minikv.serving.chat import ANSWER, Chat, open_chat
from minikv.serving.chat_format import PlainFormat, Turn
from minikv.serving.phrasebook import UNKNOWN, Phrasebook
from minikv.serving.tokenizer import ByteTokenizer, load_tokenizer

BYTES = ByteTokenizer()
END = 256


def chat_with(model=None, context=400, slots=1000):
    engine = Engine(model or CanaryModel(END + 1, eos=[END]), CacheManager(slots))
    return Chat(engine, BYTES, PlainFormat(BYTES, END), context), engine


def test_two_chats_on_one_engine_hear_all_of_their_answers():
    """Each step computes for both, whoever asks for it."""
    engine = Engine(CanaryModel(128), CacheManager(1000))
    first, second = (Chat(engine, BYTES, PlainFormat(BYTES, END)) for _ in range(2))
    answers = first.ask("What is a page?", 8), second.ask("And a slot?", 8)
    said = ["", ""]
    for _ in range(8):
        for i, answer in enumerate(answers):
            said[i] += next(answer, "")
    said = [text + "".join(answer) for text, answer in zip(said, answers)]
    for question, text, chat in zip(("What is a page?", "And a slot?"), said, (first, second)):
        alone = Chat(Engine(CanaryModel(128), CacheManager(1000)), BYTES, PlainFormat(BYTES, END))
        assert text == "".join(alone.ask(question, 8)) == chat.turns[0].text
        assert len(text) == 8
    assert_nothing_leaked(engine)


class Interrupted(CanaryModel):
    """Somebody presses Ctrl-C while it computes its step number `at`."""

    def __init__(self, at, times=1):
        super().__init__(END + 1, eos=[END])
        self.steps, self.at, self.times = 0, at, times

    def forward(self, chunks, store):
        self.steps += 1
        if self.steps == self.at:
            for _ in range(self.times):
                signal.raise_signal(signal.SIGINT)
        return super().forward(chunks, store)


def assert_nothing_leaked(engine):
    engine.manager.check()
    assert not engine.manager.sequences
    assert engine.manager.available_size == engine.manager.num_pages * engine.manager.page_size


# -- what a turn sends ----------------------------------------------------------------------------------------------


@settings(max_examples=20, deadline=None)
@given(st.lists(st.text("ab é?", min_size=1, max_size=8), min_size=2, max_size=4))
def test_of_a_later_turn_only_the_new_question_is_computed(questions):
    """The prompt of a turn begins with the last one's and its answer; all but that answer's last token is cached."""
    chat, engine = chat_with()
    before = 0
    for question in questions:
        said = "".join(chat.ask(question, SamplingParams(7)))
        assert said == chat.turns[-1].text == BYTES.decode(chat.turns[-1].ids)
        assert chat.last.cached >= before
        before = chat.last.prompt + chat.last.generated - 1
        assert_nothing_leaked(engine)
    assert len(chat.turns) == len(questions)


def test_a_new_conversation_forgets_what_was_said_and_not_what_was_computed():
    chat, _ = chat_with()
    first = "".join(chat.ask("What is a page?", 5))
    chat.reset()
    assert chat.turns == []
    assert "".join(chat.ask("What is a page?", 5)) == first
    assert chat.last.cached == chat.last.prompt - 1


def test_a_conversation_that_outgrows_the_context_forgets_its_older_half():
    chat, _ = chat_with(context=150)
    kept = []
    for number in range(8):
        "".join(chat.ask(f"Question {number}", 20))
        assert chat.last.prompt + 20 <= 150
        assert chat.turns[-1].question == f"Question {number}"
        kept.append(len(chat.turns))
    assert kept[:3] == [1, 2, 3]
    assert 1 < max(kept) < 8


@pytest.mark.parametrize(("spare", "kept"), [(0, 1), (-1, 0)])
def test_a_conversation_that_just_fits_is_kept(spare, kept):
    turns = [Turn("Hi", " Hello.", [*b" Hello.", END])]
    needed = len(PlainFormat(BYTES, END).prompt(turns, "More?")) + 5
    chat, _ = chat_with(context=needed + spare)
    chat.turns = turns
    _ = "".join(chat.ask("More?", 5))
    assert [turn.question for turn in chat.turns] == ["Hi", "More?"][-1 - kept :]


def test_a_question_that_is_too_long_is_refused_and_nothing_is_forgotten_for_it():
    chat, engine = chat_with(context=100)
    _ = "".join(chat.ask("short", 20))
    with pytest.raises(
        ValueError, match=r"the question takes 217 tokens: the context of 100 has room for 80 before an"
    ):
        next(chat.ask("x" * 200, 20))
    assert [turn.question for turn in chat.turns] == ["short"]
    assert_nothing_leaked(engine)


def test_a_question_that_the_engine_refuses_costs_no_turn():
    """It fits once the older turns are gone, but has a byte that the model has no token for."""
    engine = Engine(CanaryModel(128), CacheManager(1000))
    chat = Chat(engine, BYTES, PlainFormat(BYTES), context=200)
    for _ in range(3):
        _ = "".join(chat.ask("q" * 20, 10))
    before = [*chat.turns]
    with pytest.raises(ValueError, match="the model's tokens are 0 to 127"):
        next(chat.ask("é" * 40, 10))
    assert chat.turns == before
    assert len(before) == 3
    assert_nothing_leaked(engine)


def test_a_conversation_keeps_to_the_slots_of_the_manager():
    """300 slots, though the model could look back 350 tokens: so no question is refused that fits into them."""
    engine = Engine(CanaryModel(128), CacheManager(num_pages=150, page_size=2))
    chat = Chat(engine, BYTES, PlainFormat(BYTES), context=350)
    assert chat.context == 300
    for _ in range(3):
        _ = "".join(chat.ask("q" * 40, 20))
    assert len("".join(chat.ask("z" * 200, 20))) == 20
    assert [turn.question[0] for turn in chat.turns] == ["z"]
    with pytest.raises(ValueError, match=r"takes 281 tokens: the context of 300 has room for 280 before an answer"):
        next(chat.ask("z" * 264, 20))
    assert len("".join(chat.ask("z" * 263, 20))) == 20
    assert_nothing_leaked(engine)


@pytest.mark.parametrize(("context", "error"), [(0, ValueError), (2.5, TypeError)])
def test_a_context_is_a_whole_number_of_tokens(context, error):
    with pytest.raises(error, match=f"context is {context}"):
        chat_with(context=context)


@pytest.mark.parametrize("pieces", [0, 1, 3])
def test_an_answer_that_nobody_listens_to_is_cut_off_and_remembered(pieces):
    chat, engine = chat_with()
    answer = chat.ask("Tell me", 50)
    heard = [next(answer) for _ in range(pieces)]
    answer.close()
    assert [turn.text for turn in chat.turns] == (["".join(heard)] if pieces else [])
    assert_nothing_leaked(engine)


# -- another model's folder -------------------------------------------------------------------------------------------


@pytest.fixture
def foreign(tmp_path):
    """A folder as `transformers` writes it, with a BPE tokenizer and a chat template, and the model there."""
    transformers = pytest.importorskip("transformers")
    file_tokenizer(tmp_path)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    tokenizer.chat_template = "{% for message in messages %}<{{ message.role }}>{{ message.content }}{% endfor %}"
    tokenizer.save_pretrained(tmp_path)
    sizes = {**SIZES, "vocab_size": 259, "num_key_value_heads": 2}
    config = transformers.LlamaConfig(**sizes, initializer_range=0.4, bos_token_id=257, eos_token_id=258)
    torch.manual_seed(0)
    theirs = transformers.LlamaForCausalLM(config).eval()
    theirs.save_pretrained(tmp_path)
    return tmp_path, theirs


def test_another_models_folder_is_talked_to_in_plain_lines(foreign, capsys, monkeypatch):
    """It begins with the model's first id; all that was said is in the cache in the next turn."""
    folder, theirs = foreign
    monkeypatch.setattr(sys, "stdin", io.StringIO("the first\nthe second\n"))
    assert cli.main(["chat", "--model", str(folder), "--max-new-tokens", "4"]) == 0
    first, second = re.findall(r"\[(\d+) of (\d+) prompt tokens", capsys.readouterr().out)
    prompt = [257, *load_tokenizer(folder).encode("User: the first\nAssistant:")]
    assert (int(first[0]), int(first[1])) == (0, len(prompt))
    assert int(second[0]) >= len(prompt)
    chat = open_chat(folder)
    _ = "".join(chat.ask("the first", 4))
    with torch.no_grad():
        wanted = theirs.generate(torch.tensor([prompt]), max_new_tokens=4, do_sample=False)[0, len(prompt) :]
    assert chat.turns[0].ids == wanted.tolist()


# -- the terminal ---------------------------------------------------------------------------------------------------


def talk(chat, lines, params=ANSWER, phrasebook=None, out=None):
    """What is printed while these lines are typed, into `out` if it is given."""
    out = out or io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.StringIO(lines) if isinstance(lines, str) else lines)
        patch.setattr(sys, "stdout", out)
        converse(chat, params, phrasebook)
    return out.getvalue()


def test_after_each_turn_it_says_what_the_cache_served():
    chat, _ = chat_with()
    out = talk(chat, "One\n\nTwo\n", SamplingParams(6))
    assert re.findall(
        r"\[(\d+) of (\d+) prompt tokens from the cache \((\d+)%\) · (\d+) generated, the first after", out
    ) == [
        ("0", "20", "0", "6"),
        ("25", "48", "52", "6"),
    ]


def test_commands_are_not_sent_to_the_model():
    chat, engine = chat_with()
    out = talk(chat, "/help\n/new\n/exit\nnever read\n")
    assert out.count("/new starts a new conversation") == 2
    assert "A new conversation" in out
    assert engine.manager.cache.total_size == 0


def test_a_question_that_is_too_long_leaves_the_program_running():
    chat, _ = chat_with(context=100)
    out = talk(chat, "x" * 200 + "\nshort\n", SamplingParams(20))
    assert "the question takes 217 tokens" in out
    assert out.count("generated") == 1


def test_what_a_terminal_would_obey_is_not_printed():
    class Escaping(CanaryModel):
        def forward(self, chunks, store):
            logits = super().forward(chunks, store)
            logits[:, 27] = 100.0
            return logits

    assert talk(chat_with(Escaping(END + 1))[0], "One\n", SamplingParams(2)).count("\N{REPLACEMENT CHARACTER}") == 2


class Terminal(io.StringIO):
    """As wide as `COLUMNS` says."""

    def isatty(self):
        return True


@pytest.mark.parametrize("columns", [20, 40, 80])
def test_on_a_terminal_lines_break_between_words_as_the_answer_comes(columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    written = []
    terminal = Terminal()
    terminal.flush = lambda: written.append(terminal.getvalue())
    question = "What happens when a request starts?"
    shown = talk(open_chat(asset("model")), f"{question}\n", out=terminal)
    shown = shown.replace("you: ", "you: \n")  # a terminal also shows the key that ends a question
    in_one_line = talk(open_chat(asset("model")), f"{question}\n")
    assert max(map(len, shown.split("\n"))) < columns
    assert re.sub(r"\d+ ms", "", " ".join(shown.split())) == re.sub(r"\d+ ms", "", " ".join(in_one_line.split()))
    assert max(len(line) for line in in_one_line.split("\n")) > 80
    assert len(set(written)) > 10  # it did not wait for the whole answer


def test_with_a_phrasebook_the_model_is_asked_what_was_meant_and_nothing_else():
    chat, _ = chat_with()
    phrasebook = Phrasebook([["What is a lock?"], ["What is a page?"]])
    questions = "so what are locks good for\nWhat is a volcano?\nwhat is a page\n"
    said = talk(chat, questions, SamplingParams(3), phrasebook)
    assert "This model was taught 2 answers." in said
    assert "bot: (What is a lock?)" in said
    assert f"bot: {UNKNOWN}\n" in said
    assert "(What is a page?)" not in said  # the same words
    assert [turn.question for turn in chat.turns] == ["What is a lock?", "What is a page?"]
    assert said.count("generated") == 2


def test_the_small_model_comes_with_its_phrasebook_and_a_checkpoint_of_ones_own_without(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("what r page tables for?\nWhat is 2+2?\n"))
    assert cli.main(["chat"]) == 0
    said = capsys.readouterr().out
    assert "bot: (What is a page table?) A page table says for each request" in said
    assert UNKNOWN in said
    config = config_json(vocab_size=257, eos_token_id=256, tokenizer_class="ByteTokenizer")
    (tmp_path / "config.json").write_text(json.dumps(config))
    save_file(llama(vocab_size=257, dtype=torch.float16).weights, tmp_path / "model.safetensors")
    monkeypatch.setattr(sys, "stdin", io.StringIO("What is 2+2?\n"))
    assert cli.main(["chat", "--model", str(tmp_path), "--max-new-tokens", "2"]) == 0
    said = capsys.readouterr().out
    assert UNKNOWN not in said
    assert "2 generated" in said


def test_ctrl_c_stops_the_answer_and_the_next_question_is_answered():
    model = Interrupted(at=4)
    chat, engine = chat_with(model)
    out = talk(chat, "One\nTwo\n", SamplingParams(8))
    stopped, whole = re.findall(r"· (\d+) generated", out)
    assert (int(stopped), int(whole)) == (4, 8)
    assert " ...\n" in out
    assert [turn.question for turn in chat.turns] == ["One", "Two"]
    assert_nothing_leaked(engine)


def test_a_second_ctrl_c_is_an_interruption_that_loses_nothing():
    chat, engine = chat_with(Interrupted(at=3, times=2))
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        talk(chat, "One\n", SamplingParams(8))
    assert signal.getsignal(signal.SIGINT) is before
    assert chat.last.generated == 2
    assert_nothing_leaked(engine)


def test_ctrl_c_at_the_prompt_gives_up_the_line():
    class Impatient(io.StringIO):
        pressed = False

        def readline(self, *_):
            if not self.pressed:
                self.pressed = True
                raise KeyboardInterrupt
            return super().readline()

    said = talk(chat_with()[0], Impatient("One\n"), 3)
    assert "(Ctrl-D leaves)" in said
    assert "3 generated" in said


@pytest.mark.parametrize(("arguments", "said"), [
    (["--model", "no_such_folder"], "no_such_folder has no config.json"),
    (["--temperature", "-1"], "temperature is -1.0"),
    (["--seed", "-1"], "seed is -1"),
])  # fmt: skip
def test_a_wrong_call_says_what_is_wrong(capsys, arguments, said):
    assert cli.main(["chat", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_without_torch_it_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert cli.main(["chat"]) == 2
    assert "pip install 'minikv[serving]'" in capsys.readouterr().err


@pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals are POSIX's")
def test_in_a_real_terminal():
    """A process of its own, with keys typed at it: a question, Ctrl-C into a long answer, a question, Ctrl-D."""
    pexpect = pytest.importorskip("pexpect")
    command = ["-m", "minikv", "chat", "--temperature", "9", "--max-new-tokens", "1500"]
    run = pexpect.spawn(
        sys.executable, command, timeout=60, encoding="utf-8", env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    run.expect("you: ")
    run.sendline("What is a page table?")
    run.expect("bot:.")
    run.sendintr()
    run.expect(r"\.\.\.\s+\[0 of \d+ prompt tokens from the cache .*?\]")
    run.expect("you: ")
    run.sendline("/new")
    run.expect("still in the cache.*you: ")
    run.sendeof()
    run.expect(pexpect.EOF)
    run.close()
    assert run.exitstatus == 0


def test_the_small_model_answers(capsys):
    chat = open_chat(asset("model"))
    assert "slots" in "".join(chat.ask("What is a page?"))
    assert chat.last.reason == "stop"
    "".join(chat.ask("Thanks!"))
    assert chat.last.cached > 0.8 * chat.last.prompt
    assert store_for(chat._engine.model).shape == chat._engine.manager.store.shape
