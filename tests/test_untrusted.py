"""The gate: what a file from outside may not be, and that each refusal is one short line."""

import os

import pytest

from minikv.untrusted import (
    DEEPEST_JSON,
    bool_field,
    float_field,
    int_field,
    parse_json,
    read_bytes,
    read_json,
    refusal,
    refused,
    token_ids,
)


def said(call, *arguments):
    """What the `ValueError` of a call says: one line, and not a long one."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        call(*arguments)
    message = str(caught.value)
    assert message.isprintable()
    assert len(message) < 300
    return message


# -- files ----------------------------------------------------------------------------------------------------------


def test_a_file_is_read_up_to_its_limit_and_not_a_byte_more(tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(b"12345")
    assert read_bytes(path, most=5) == b"12345"
    assert "more than 4 bytes" in said(read_bytes, path, 4)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are POSIX's")
def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "config.json")
    assert "is not a regular file" in said(read_json, tmp_path / "config.json")
    assert "is not a regular file" in said(read_json, tmp_path)


@pytest.mark.parametrize(("content", "why"), [
    (b"", "is not JSON"),
    (b"{", "is not JSON"),
    (b'{"a": 1} x', "is not JSON: Extra data"),
    (b"\xff\xfe{}", "is not UTF-8: invalid start byte at byte 1"),
    (b"[]", "holds a list: expected an object"),
    (b"7", "holds a number: expected an object"),
    (b'{"a": NaN}', "has the number NaN: expected finite numbers"),
    (b'{"a": -Infinity}', "has the number -Infinity: expected finite numbers"),
    (b'{"a": {"b": 1, "c": 2, "b": 3}}', "has the key 'b' twice"),
    (b'{"a": ' + b"9" * 5000 + b"}", "Exceeds the limit"),
    (b"[" * 200_000, "is nested too deeply: expected at most 64 levels"),
    (b'{"a":' * 100_000, "is nested too deeply: expected at most 64 levels"),
    (b'{"' + b"k" * 10**6 + b'": 1, "' + b"k" * 10**6 + b'": 2}', "has the key 'kkk"),
])  # fmt: skip
def test_a_file_that_is_no_object_is_named_with_the_reason(tmp_path, content, why):
    path = tmp_path / "config.json"
    path.write_bytes(content)
    message = said(read_json, path)
    assert message.startswith(str(path))
    assert why in message


def test_json_may_be_as_deep_as_the_limit_and_not_deeper():
    deepest = "[" * DEEPEST_JSON + "]" * DEEPEST_JSON
    assert parse_json(deepest, "it")
    assert parse_json(f"{deepest[:-1]}, []]", "it")  # more brackets, as deep
    assert "nested too deeply" in said(parse_json, f"[{deepest}]", "it")
    assert "nested too deeply" in said(parse_json, f'{{"a": {deepest}}}', "it")


def test_a_config_may_hold_numbers_that_json_does_not_have():
    assert parse_json('{"router": Infinity}', "it", finite=False) == {"router": float("inf")}


# -- fields ---------------------------------------------------------------------------------------------------------


VALUES = [0, -1, 1.5, "x", "", [], {}, None, True, float("nan"), float("inf"), 2**31, 10**400, 1e301]


@pytest.mark.parametrize("value", VALUES)
def test_a_field_is_a_size_or_a_number_or_a_switch_in_its_range(value):
    assert said(int_field, "hidden_size", value).startswith("hidden_size is ")
    if value in (1.5, 2**31):
        assert isinstance(float_field("rope_theta", value, 1), float)
    else:
        assert said(float_field, "rope_theta", value, 1).startswith("rope_theta is ")
    if value is not None and value is not True:
        assert said(bool_field, {"mlp_bias": value}, "mlp_bias").endswith("expected true or false")


def test_the_ends_of_a_range_are_in_it():
    assert [int_field("n", size) for size in (1, 2**31 - 1)] == [1, 2**31 - 1]
    assert float_field("x", 3, 3, 3) == 3.0
    assert said(token_ids, {"eos": 2**31 - 1}, "eos") == "eos is 2147483647: expected at most 2147483646"


def test_a_switch_that_is_absent_or_null_is_off():
    assert [bool_field(settings, "a") for settings in ({}, {"a": None}, {"a": False}, {"a": True})] == [0, 0, 0, 1]


def test_a_reason_is_one_line_however_long_or_odd_the_error_is():
    assert str(refusal("no", Exception("a\x1b[31m\n\n b" + "c" * 10**6))).startswith(
        "no: a\N{REPLACEMENT CHARACTER}[31m b"
    )
    assert len(str(refusal("no", Exception("c" * 10**6)))) < 200
    assert str(refusal("no", MemoryError())) == "no: MemoryError"


class PanicException(BaseException):
    """As the assertions of a library in Rust come, which are no `Exception`."""


def test_whatever_goes_wrong_meanwhile_is_one_line_and_ctrl_c_is_not():
    for error in (KeyError("a\nb"), PanicException("index out of bounds\nhere")):
        with pytest.raises(ValueError, match=r"^the file: ") as caught, refused("the file"):
            raise error
        assert str(caught.value).isprintable()
    with pytest.raises(KeyboardInterrupt), refused("the file"):
        raise KeyboardInterrupt
    with refused("the file"):
        pass
