"""How a conversation is written: plain lines, the same way each time, for every model."""

from __future__ import annotations

from minikv.serving.chat_format import PlainFormat, Turn
from minikv.serving.tokenizer import ByteTokenizer

BYTES = ByteTokenizer()
END, START = 256, 257


def text_of(ids):
    return "".join({END: "<end>", START: "<start>"}.get(i, chr(i)) for i in ids)


def test_a_turn_sends_all_that_was_said_and_closes_what_was_cut_off():
    turns = [Turn("Hi", " Hello.", [*b" Hello.", END]), Turn("More", " An", [*b" An"])]
    sent = text_of(PlainFormat(BYTES, END).prompt(turns, "So?"))
    assert sent == "User: Hi\nAssistant: Hello.<end>\nUser: More\nAssistant: An<end>\nUser: So?\nAssistant:"


def test_a_model_without_an_end_has_nothing_to_close_and_one_with_a_start_begins_with_it():
    turns = [Turn("More", " An", [*b" An"])]
    sent = text_of(PlainFormat(BYTES, start=START).prompt(turns, "So?"))
    assert sent == "<start>User: More\nAssistant: An\nUser: So?\nAssistant:"


def test_the_ids_of_an_answer_are_sent_as_they_came():
    """A tokenizer may cut the text of an answer in another way: then the cache would serve only up to there."""
    odd = [END + 5, END]
    sent = PlainFormat(BYTES, END).prompt([Turn("Hi", "the", odd)], "So?")
    begin = len(PlainFormat(BYTES, END).prompt([], "Hi"))
    assert sent[begin : begin + 2] == odd
