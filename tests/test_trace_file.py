"""The lines of a trace: of a file, packed or not, of standard input, cut off or without end."""

import gzip
import io
import sys

import pytest

from minikv.traffic.trace_file import TraceError, open_trace


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "packed"])
@pytest.mark.parametrize("name", ["day.jsonl", "day.gz", "-"])
def test_a_packed_file_is_told_by_its_content_and_not_by_its_name(pack, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content = pack(b"one\ntwo")
    (tmp_path / name).write_bytes(content)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    with open_trace(name) as file:
        assert list(file) == [b"one\n", b"two"]
        assert file.name == ("standard input" if name == "-" else name)


PACKED = gzip.compress(b"one\n" * 1000 + bytes(range(256)), mtime=0)
BROKEN = {
    "cut off": PACKED[:-9],
    "only a header": PACKED[:12],
    "less than a header": PACKED[:3],
    "changed": PACKED[:40] + b"XX" + PACKED[42:],
    "another checksum": PACKED[:-8] + b"\0" * 8,
    "more behind it": PACKED + b"rest",
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_packing_is_one_line_with_the_name_of_the_file(kind, tmp_path):
    path = tmp_path / "day.gz"
    path.write_bytes(BROKEN[kind])
    with open_trace(str(path)) as file, pytest.raises(TraceError) as caught:
        list(file)
    assert str(caught.value).startswith(f"{path} cannot be unpacked to its end: ")
    assert len(str(caught.value)) < len(str(path)) + 200


@pytest.mark.parametrize(("path", "reason"), [(".", "directory|denied"), ("a\0b", "NUL"), ("-", "it is closed")])
def test_a_file_that_cannot_be_opened_is_an_error_of_the_system(path, reason, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(OSError, match=reason), open_trace(path):
        pass


def test_a_file_that_fails_half_way_is_one_line(tmp_path):
    class Failing(io.BytesIO):
        def readline(self, size=-1):
            raise OSError(5, "Input/output error")

    path = tmp_path / "\x1b[31mred"
    path.write_bytes(b"one")
    with open_trace(str(path)) as file:
        file._file = Failing()
        with pytest.raises(TraceError, match="cannot be read to its end: Input/output error") as caught:
            list(file)
    assert str(caught.value).isprintable()
