"""How a conversation is written: plain lines, the same way each time, for every model."""

import pytest

from minikv.serving.chat_format import PlainFormat, Turn
from minikv.serving.tokenizer import ByteTokenizer

END, START = 256, 257
ODD = END + 5  # not as a tokenizer cuts the text: what came is sent, or the cache would serve only up to there
TURNS = [Turn("Hi", " Hello.", [*b" Hello.", END]), Turn("More", " An", [*b" An", ODD])]


@pytest.mark.parametrize(("end", "start", "sent"), [
    (END, None, "User: Hi\nAssistant: Hello.<end>\nUser: More\nAssistant: An<odd><end>\nUser: So?\nAssistant:"),
    (None, START, "<start>User: Hi\nAssistant: Hello.<end>\nUser: More\nAssistant: An<odd>\nUser: So?\nAssistant:"),
])  # fmt: skip
def test_a_turn_sends_all_that_was_said_as_it_came_and_closes_what_was_cut_off(end, start, sent):
    """A model without an end has nothing to close, and one with a start begins with it."""
    ids = PlainFormat(ByteTokenizer(), end, start=start).prompt(TURNS, "So?")
    assert "".join({END: "<end>", START: "<start>", ODD: "<odd>"}.get(i) or chr(i) for i in ids) == sent
