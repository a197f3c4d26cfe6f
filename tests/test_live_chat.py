"""The chat of chapter 00: the same answers with and without the cache, live or stored."""

import json

import pytest
from live_chat import stored_runs

from minikv import asset
from minikv.course import live_chat as module
from minikv.course.live_chat import QUESTIONS, live_chat
from minikv.serving.tokenizer import load_tokenizer

pytest.importorskip("torch")


def test_the_stored_runs_are_what_a_run_gives():
    """`python assets/live_chat.py` writes them."""
    assert json.loads(asset("live_chat.json").read_text("utf-8")) == stored_runs()


def test_without_torch_the_stored_run_is_played_and_says_so(monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    played = live_chat()
    assert str(played).startswith("(torch is not installed: this is a stored run")
    assert [turn.question for turn in played.turns] == list(QUESTIONS)
    with pytest.raises(ValueError, match="without torch only the stored ones can be asked"):
        live_chat(questions=["Why?"])


def test_a_single_question_is_one_turn_and_not_one_a_letter():
    assert [turn.question for turn in live_chat(questions="What is a page?").turns] == ["What is a page?"]


def test_the_clock_goes_past_the_full_hour(monkeypatch):
    said, tokenizer = [], load_tokenizer(asset("model"))
    encode = tokenizer.encode
    monkeypatch.setattr(type(tokenizer), "encode", lambda self, text: said.append(text) or encode(text))
    monkeypatch.setattr(module, "NEW_TOKENS", 1)
    live_chat(clock=True, questions=["Hello!"] * 9)
    clock = [text for text in said if text.startswith("It is ")]
    assert (clock[0], clock[7:]) == ("It is 09:10. ", ["It is 09:59. ", "It is 10:06. "])
