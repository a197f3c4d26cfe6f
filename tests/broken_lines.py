"""Sound lines of each format, broken ones made of them, and what is said of those."""

import json

from minikv.traffic import TraceError, open_traffic

SOUND = {
    "mooncake": {"timestamp": 3, "input_length": 900, "output_length": 20, "hash_ids": [0, 1], "session": "a"},
    "written": {"timestamp": 3, "input_length": 130, "output_length": 20, "block_size": 64, "unit": "bytes",
                "timed": False, "hash_ids": [0, 1]},
    "bailian": {"chat_id": 7, "parent_chat_id": -1, "timestamp": 1.5, "input_length": 40, "output_length": 20,
                "type": "text", "turn": 1, "hash_ids": [0, 1]},
    "agents": {"id": "a", "block_size": 64, "requests": [[0.0, 130, 9, 0, [[0, 2]], 1.5], [5, 200, 9, 1, [[7, 2]]]]},
}  # fmt: skip
NASTY = [
    None, True, False, 0, -1, 1, 1.5, -0.0, 1e300, 2**31, 2**32, 2**53 + 1, 2**63, 2**64, 10**400, "", "x", "1", "\0",
    "\ud800", "x" * 100_000, [], [[]], [None], [True], [-1], [2**32], [1.5], ["a"], [[0, 2**32]], [[0, 1, 2]], {},
    {"a": {"b": {}}}, [0] * 1000, [{}], {"": None},
]  # fmt: skip
SPELLED = ["NaN", "-Infinity", "1e999", "[" * 100 + "]" * 100, "[" * 50_000, "0x1", "9" * 5000, '{"a": 1, "a": 1}', ""]


def places(value, path=()):
    """The paths of every value in a nested one."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


def with_value(value, path, new):
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = with_value(value[path[0]], path[1:], new)
    return copy


def broken(entry):
    """Lines that differ from the sound one in a value, lack a key, are cut off, or have bytes that are not UTF-8."""
    for path in places(entry):
        yield from (json.dumps(with_value(entry, path, value)).encode() for value in NASTY)
        marked = json.dumps(with_value(entry, path, "@@")).encode()
        yield from (marked.replace(b'"@@"', spelled.encode()) for spelled in SPELLED)
    for key in entry:
        yield json.dumps({other: value for other, value in entry.items() if other != key}).encode()
    text = json.dumps(entry).encode()
    yield from (text[:at] for at in range(len(text)))
    yield from (text[:at] + b"\xff" + text[at + 1 :] for at in range(0, len(text), 3))


def write(path, content):
    """To a file that is new: to empty one that is there waits for the disk, and 6,000 times for long."""
    path.unlink(missing_ok=True)
    path.write_bytes(content)


def outcome(path):
    """What was said of a trace that could not be read to its end, or nothing."""
    said = ""
    try:
        with open_traffic(path) as traffic:
            for _ in traffic.requests:
                pass
    except TraceError as error:
        said = str(error) or "nothing"
    assert said.startswith(str(path) if said else "")
    assert len(said) < len(str(path)) + 420
    assert said.isprintable()
    return said
