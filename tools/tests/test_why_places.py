"""Where two prompts part: the place in each body, the key in a JSON text, and what is shown of it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikv_tools.bodies import read_body
from minikv_tools.why.places import json_key, shown_after, shown_text, spot_at
from minikv_tools.why.texts import shared_length


def messages(*texts):
    return read_body({"messages": [{"role": "user", "content": text} for text in texts]})


def test_a_place_counts_the_characters_of_its_field():
    one, two = messages("Hi", "Good day"), messages("Hi", "Good bye")
    spot = spot_at(one, shared_length(one.text, two.text))
    assert str(spot) == "messages[1] (user), content, after 5 characters"
    assert spot.before.endswith("Good ")
    assert spot.after.startswith("day")


VALUE = {"name": "f", "parameters": {"props": [{"a": "x, y: {z}"}, {"b": [1, 22]}], "end": True}}


@pytest.mark.parametrize(("at", "key"), [
    ('"f"', "name"), ("x, y", "parameters.props[0].a"), ("22", "parameters.props[1].b[1]"), ("true", "parameters.end"),
])  # fmt: skip
def test_a_character_of_a_json_text_has_a_key(at, key):
    text = json.dumps(VALUE)
    assert json_key(text, text.index(at)) == key


@given(st.text('{}[]:,"\\ab'), st.integers(0, 50))
def test_a_key_of_anything_is_some_text(text, at):
    assert isinstance(json_key("{" + text, at), str)


@given(st.text())
def test_what_is_shown_is_one_printable_line(text):
    assert shown_text(text).isprintable()


def test_a_face_at_the_end_of_a_prompt_is_no_token_id():
    (one, two) = (read_body({"prompt": f"Hi {face}"}) for face in "😀😃")
    spot = spot_at(one, shared_length(one.text, two.text))
    assert shown_after(spot) == "😀"


def test_spaces_at_the_end_and_odd_characters_are_visible():
    assert shown_text("a \n\u200b\ud800  ") == "a \\n\\u200b\\ud800··"
