"""The gate: what a file from outside may not be, and that each refusal is one short line."""

from __future__ import annotations

import os

import pytest

from minikv.untrusted import (
    DEEPEST_JSON,
    bool_field,
    float_field,
    inside,
    int_field,
    parse_json,
    read_bytes,
    read_json,
    refusal,
)

pytestmark = pytest.mark.core


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
    assert "nested too deeply" in said(parse_json, f"[{deepest}]", "it")
    assert "nested too deeply" in said(parse_json, f'{{"a": {deepest}}}', "it")


# -- names of files -------------------------------------------------------------------------------------------------

OUTSIDE = ["../a", "..", "a/../../b", "/etc/passwd", "\\\\host\\share", "C:\\a", "C:a", "..\\a", "", "a\0b", "a\nb",
           "x" * 256, 5, None, ["a"]]  # fmt: skip


@pytest.mark.parametrize("name", OUTSIDE, ids=lambda name: repr(name)[:20])
def test_a_name_that_leads_out_of_its_folder_is_refused(tmp_path, name):
    assert "is not the name of a file in its own folder" in said(inside, tmp_path, name)


def test_a_name_in_the_folder_is_taken_whether_the_file_is_there_or_not(tmp_path):
    assert inside(tmp_path, "a.safetensors") == tmp_path / "a.safetensors"
    assert inside(tmp_path, "part/a..b") == tmp_path / "part" / "a..b"


@pytest.fixture
def linked(tmp_path):
    """A folder with a link `a` to `target`, which is a path from that folder."""

    def link(folder, target):
        (tmp_path / folder).mkdir(parents=True)
        try:
            (tmp_path / folder / "a").symlink_to(target)
        except OSError:
            pytest.skip("this system does not let us make links")
        return tmp_path / folder

    return link


@pytest.mark.parametrize(("folder", "target", "leaves"), [
    ("checkpoint", "b", False),
    ("checkpoint", "../secret", True),
    ("checkpoint", "/etc/passwd", True),
    ("snapshots/main", "../../blobs/0123", False),  # the cache of the Hugging Face Hub
    ("snapshots/main", "../../secret", True),
    ("snapshots/main", "../other/secret", True),
    ("checkpoint/main", "../../blobs/0123", True),
    ("checkpoint", "a", True),  # a link to itself leads nowhere
])  # fmt: skip
def test_a_link_stays_in_its_folder_or_leads_into_the_hubs_cache(linked, folder, target, leaves):
    folder = linked(folder, target)
    if leaves:
        assert "lead" in said(inside, folder, "a")
    else:
        assert inside(folder, "a") == folder / "a"


# -- fields ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0, -1, 1.5, "x", "", [], {}, None, True, float("nan"), 2**31, 10**400])
def test_a_size_is_a_whole_number_in_its_range(value):
    assert said(int_field, "hidden_size", value).startswith("hidden_size is ")


@pytest.mark.parametrize("value", [0, -5, float("nan"), float("inf"), "x", None, [], {}, True, 10**400, 1e301])
def test_a_number_is_finite_and_in_its_range(value):
    assert said(float_field, "rope_theta", value, 1).startswith("rope_theta is ")


def test_what_is_in_range_comes_back_in_its_own_type():
    assert (int_field("n", 2**31 - 1), float_field("x", 3, 1)) == (2**31 - 1, 3.0)
    assert isinstance(float_field("x", 3, 1), float)


@pytest.mark.parametrize("value", [0, 1, "no", "", [], {}, 1.0])
def test_a_switch_is_a_boolean(value):
    assert said(bool_field, {"mlp_bias": value}, "mlp_bias").endswith("expected true or false")


def test_a_switch_that_is_absent_or_null_is_off():
    assert [bool_field(settings, "a") for settings in ({}, {"a": None}, {"a": False}, {"a": True})] == [0, 0, 0, 1]


def test_a_reason_is_one_line_however_long_or_odd_the_error_is():
    assert str(refusal("no", Exception("a\x1b[31m\n\n b" + "c" * 10**6))).startswith(
        "no: a\N{REPLACEMENT CHARACTER}[31m b"
    )
    assert len(str(refusal("no", Exception("c" * 10**6)))) < 200
    assert str(refusal("no", MemoryError())) == "no: MemoryError"
