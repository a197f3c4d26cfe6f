"""The lines of a trace: of a file, packed or not, of standard input, cut off or without end."""

from __future__ import annotations

import gzip
import io
import sys

import pytest

from minikv.traffic.trace_file import LONGEST_LINE, TraceError, open_trace

pytestmark = pytest.mark.core


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "packed"])
@pytest.mark.parametrize("name", ["day.jsonl", "day.gz"])
def test_a_packed_file_is_told_by_its_content_and_not_by_its_name(pack, name, tmp_path):
    path = tmp_path / name
    path.write_bytes(pack(b"one\ntwo\n"))
    with open_trace(str(path)) as file:
        assert list(file) == [b"one\n", b"two\n"]
        assert file.name == str(path)


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "packed"])
def test_standard_input_is_read_likewise(pack, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(pack(b"one\ntwo"))))
    with open_trace("-") as file:
        assert list(file) == [b"one\n", b"two"]
        assert file.name == "standard input"


def test_a_line_without_end_comes_in_pieces_though_it_was_packed_into_few_bytes(tmp_path):
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b"{" * (3 * LONGEST_LINE), compresslevel=1, mtime=0))
    with open_trace(str(path)) as file:
        assert len(next(iter(file))) == LONGEST_LINE + 1


PACKED = gzip.compress(b"one\n" * 1000 + bytes(range(256)), mtime=0)


@pytest.mark.parametrize(
    "content",
    [
        PACKED[:-9],
        PACKED[:12],
        PACKED[:3],
        PACKED[:40] + b"XX" + PACKED[42:],
        PACKED[:-8] + b"\0" * 8,
        PACKED + b"rest",
    ],
    ids=["cut off", "only a header", "less than a header", "changed", "another checksum", "more behind it"],
)
def test_broken_packing_is_one_line_with_the_name_of_the_file(content, tmp_path):
    path = tmp_path / "day.gz"
    path.write_bytes(content)
    with open_trace(str(path)) as file, pytest.raises(TraceError) as caught:
        list(file)
    assert str(caught.value).startswith(f"{path} cannot be unpacked to its end: ")
    assert len(str(caught.value)) < len(str(path)) + 200


def test_a_file_that_cannot_be_opened_is_an_error_of_the_system(tmp_path, monkeypatch):
    for path in ("no such file", str(tmp_path), "a\0b"):
        with pytest.raises(OSError, match=r"No such file|directory|denied|NUL"), open_trace(path):
            pass
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(OSError, match="it is closed"), open_trace("-"):
        pass


def test_a_file_that_fails_half_way_is_one_line(tmp_path):
    class Failing(io.BytesIO):
        def readline(self, size=-1):
            raise OSError(5, "Input/output error")

    path = tmp_path / "day.jsonl"
    path.write_bytes(b"one")
    with open_trace(str(path)) as file:
        file._file = Failing()
        with pytest.raises(TraceError, match="cannot be read to its end: Input/output error"):
            list(file)


def test_a_name_is_shown_as_a_line(tmp_path):
    path = tmp_path / "\x1b[31mred"
    path.write_bytes(b"")
    with open_trace(str(path)) as file:
        assert file.name.isprintable()
        assert list(file) == []
