"""Where two prompts part: the place in each body, the key in a JSON text, and what is shown of it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikv.traffic import TraceError
from minikv_tools.bodies import read_body
from minikv_tools.why import places
from minikv_tools.why.places import json_key, read_prompt, shown_after, shown_before, shown_text, spot_at
from minikv_tools.why.texts import shared_length


def messages(*texts):
    return read_body({"messages": [{"role": "user", "content": text} for text in texts]})


def test_a_place_counts_the_characters_of_its_field():
    one, two = messages("Hi", "Good day"), messages("Hi", "Good bye")
    spot = spot_at(one, shared_length(one.text, two.text))
    assert str(spot) == "messages[1] (user), content, after 5 characters"
    assert spot.before.endswith("Good ")
    assert spot.after.startswith("day")


@pytest.mark.parametrize("body", [
    {"system": "say"}, {"instructions": "say"}, {"system": [{"type": "text", "text": "say"}]},
    {"messages": [{"role": "system", "content": "say"}]}, {"prompt": "say"},
])  # fmt: skip
def test_no_marker_of_the_template_counts_as_text_of_a_system_prompt(body):
    """What is sent is what is counted, in whichever form it is sent, and its keys are those of its JSON."""
    body = {"messages": [], **body}
    sent = json.dumps(body).replace("say", r"{\"a\": 5}")
    spot = spot_at(read_body(json.loads(sent)), read_body(body).text.index("say") + 6)
    assert (spot.at, spot.key) == (6, "a")
    assert str(spot).endswith(", a, after 6 characters")


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


def test_another_role_is_at_the_message_and_not_in_a_field_of_it():
    one, two = (read_body({"messages": [{"role": role, "content": "Hi"}]}) for role in ("user", "tool"))
    assert str(spot_at(one, shared_length(one.text, two.text))) == "messages[0] (user)"


def test_of_token_ids_the_eight_around_a_place_are_shown():
    one, two = (read_body({"prompt": [*range(40), last, *range(9)]}) for last in (50, 60))
    spot = spot_at(one, shared_length(one.text, two.text))
    assert str(spot) == "prompt, after 40 tokens"
    assert (shown_before(spot), shown_after(spot)) == ("…32 33 34 35 36 37 38 39", "50 0 1 2 3 4 5 6…")
    assert str(spot_at(read_body({"prompt": [7, 8]}), 1)) == "prompt, after 1 token"


def test_a_text_is_cut_where_more_of_it_is_around_a_place():
    body = read_body({"prompt": "a" * 36 + "b" * 44})
    shown = [(shown_before(spot), shown_after(spot)) for spot in (spot_at(body, at) for at in (35, 36, 37, 80))]
    assert shown[:2] == [("a" * 35, "a" + "b" * 43 + "…"), ("a" * 36, "b" * 44)]
    assert shown[2:] == [("…" + "a" * 35 + "b", "b" * 43), ("", "(its end)")]


def test_a_file_of_too_many_bytes_is_no_prompt(tmp_path, monkeypatch):
    monkeypatch.setattr(places, "LARGEST_PROMPT", 9)
    (tmp_path / "a").write_text("Be brief.", "utf-8")
    assert read_prompt(str(tmp_path / "a")).text == "Be brief."
    (tmp_path / "a").write_text("Be\nbrief!\n", "utf-8")
    with pytest.raises(TraceError, match="a has more than 9 bytes, the most that a prompt may have"):
        read_prompt(str(tmp_path / "a"))


def test_a_face_at_the_end_of_a_prompt_is_no_token_id():
    (one, two) = (read_body({"prompt": f"Hi {face}"}) for face in "😀😃")
    spot = spot_at(one, shared_length(one.text, two.text))
    assert shown_after(spot) == "😀"


def test_spaces_at_the_end_and_odd_characters_are_visible():
    assert shown_text("a \n\u200b\ud800  ") == "a \\n\\u200b\\ud800··"
    assert shown_text("\uffff" * 8) == r"\uffff" * 8, "the character before those of token ids"
