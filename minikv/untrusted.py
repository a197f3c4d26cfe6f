"""The gate for files that somebody else made: checkpoints, configs, tokenizers, traces.

Such a file may be cut off, of another kind, or made to do harm. So its size is compared with a limit before it is
read, its JSON may not be nested deeply, and each number in it is checked against its range before anything is counted
or allocated by it. Whatever is wrong is a `ValueError` in one line.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from minikv.errors import bounded, one_line, whole_number

LARGEST_JSON = 2**24  # bytes: room for an index of 100,000 weights
DEEPEST_JSON = 64
LARGEST_SIZE = 2**31 - 1
_KINDS = {list: "a list", str: "text", int: "a number", float: "a number", bool: "true or false", type(None): "null"}


def read_bytes(path: Path, most: int) -> bytes:
    """The content of the regular file `path`; `ValueError` if it is another kind of file or has over `most` bytes.

    >>> from minikv.files import asset
    >>> read_bytes(asset("model/config.json"), most=4096)[:1]
    b'{'
    """
    require_regular(path)
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"{path} has more than {most} bytes, the most that are read")
    return content


def require_regular(path: Path) -> None:
    """Raise `ValueError` unless `path` is a regular file: a pipe or a device might never end.

    >>> require_regular(Path())
    Traceback (most recent call last):
    ValueError: . is not a regular file
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError(f"{path} is not a regular file")


def read_text(path: Path, most: int) -> str:
    """The content of a UTF-8 file of at most `most` bytes, less a byte order mark; `ValueError` names what is wrong.

    >>> from minikv.files import asset
    >>> read_text(asset("model/config.json"), most=4096)[:1]
    '{'
    """
    try:
        return read_bytes(path, most).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8: {error.reason} at byte {error.start + 1}") from None


def read_json(path: Path, most: int = LARGEST_JSON, finite: bool = True) -> dict[str, Any]:
    """The JSON object in `path`, a file of at most `most` bytes; `ValueError` names the file where there is none.

    Unless all numbers must be `finite`, NaN and Infinity are read as well: transformers writes them into configs.

    >>> from minikv.files import asset
    >>> read_json(asset("configs/llama-3.1-8b.json"))["model_type"]
    'llama'
    """
    return json_object(read_text(path, most), str(path), finite)


def json_object(text: str | bytes, name: str, finite: bool = True) -> dict[str, Any]:
    """The JSON object that `text` spells; `ValueError` begins with `name`.

    >>> json_object('[1, 2]', "the index")
    Traceback (most recent call last):
    ValueError: the index holds a list: expected an object
    """
    found = parse_json(text, name, finite)
    if not isinstance(found, dict):
        raise ValueError(f"{name} holds {_KINDS[type(found)]}: expected an object")
    return found


def parse_json(text: str | bytes, name: str, finite: bool = True) -> Any:
    """Parse the JSON `text`, nested at most `DEEPEST_JSON` deep; a `ValueError` begins with `name`.

    Repeated keys are refused, and if `finite` so are NaN and Infinity, which JSON does not have.

    >>> parse_json('{"a": 1, "a": 2}', "config.json")
    Traceback (most recent call last):
    ValueError: config.json has the key 'a' twice
    """
    try:
        text = text.decode("utf-8-sig") if isinstance(text, bytes) else text
        found = (_DECODER if finite else _LENIENT).decode(text)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}" if error.lineno > 1 else f"column {error.colno}"
        raise ValueError(f"{name} is not JSON: {error.msg} at {where}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{name} is not UTF-8: {error.reason} at byte {error.start + 1}") from None
    except RecursionError:
        raise ValueError(f"{name} is nested too deeply: expected at most {DEEPEST_JSON} levels") from None
    except ValueError as error:  # a repeated key, a constant, an integer of thousands of digits
        raise refusal(name, error, between=" ") from None
    if text.count("[") + text.count("{") > DEEPEST_JSON and _depth(found) > DEEPEST_JSON:
        raise ValueError(f"{name} is nested too deeply: expected at most {DEEPEST_JSON} levels")
    return found


def _depth(found: Any) -> int:
    """Return how many objects and lists lie in each other, counted up to one more than the limit."""
    level, depth = [found], 0
    while level := [item for item in level if isinstance(item, (dict, list))]:
        if (depth := depth + 1) > DEEPEST_JSON:
            break
        level = [child for item in level for child in (item.values() if isinstance(item, dict) else item)]
    return depth


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"has the key {bounded(twice)} twice")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"has the number {name}: expected finite numbers")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)
_LENIENT = json.JSONDecoder(object_pairs_hook=_unique)


def int_field(
    name: str, value: Any, rule: str = "a size is at least 1", least: int = 1, most: int = LARGEST_SIZE
) -> int:
    """`value` as an int in [least, most]; any other value, of any type, is a `ValueError` with the rule.

    >>> int_field("num_hidden_layers", "32")
    Traceback (most recent call last):
    ValueError: num_hidden_layers is '32' (str), not a whole number: a size is at least 1
    """
    try:
        found = whole_number(name, value, least, rule)
    except TypeError as error:
        raise ValueError(str(error)) from None
    if found > most:
        raise ValueError(f"{name} is {bounded(found)}: expected at most {most}")
    return found


def float_field(name: str, value: Any, least: float, most: float = 1e300) -> float:
    """`value` as a float in [least, most]; any other value, NaN and booleans too, is a `ValueError`.

    >>> float_field("rope_theta", 500000, least=1)
    500000.0
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
        raise ValueError(f"{name} is {bounded(value)}: expected a number from {least:g} to {most:g}")
    return float(value)


def bool_field(settings: Mapping[str, Any], name: str) -> bool:
    """The boolean `name` of `settings`, false where it is absent or null; anything else is a `ValueError`.

    >>> bool_field({"mlp_bias": "no"}, "mlp_bias")
    Traceback (most recent call last):
    ValueError: mlp_bias is 'no': expected true or false
    """
    value = settings.get(name)
    if value is not None and not isinstance(value, bool):
        raise ValueError(f"{name} is {bounded(value)}: expected true or false")
    return bool(value)


def token_ids(config: Mapping[str, Any], name: str) -> list[int]:
    """The token ids that a config has under `name`: one, a list of them, or none; each is below its `vocab_size`.

    >>> token_ids({"vocab_size": 32, "eos_token_id": [2, 5]}, "eos_token_id")
    [2, 5]
    >>> token_ids({"vocab_size": 32, "eos_token_id": 40}, "eos_token_id")
    Traceback (most recent call last):
    ValueError: eos_token_id is 40: expected at most 31
    """
    found = config.get(name)
    ids = found if isinstance(found, list) else [] if found is None else [found]
    last = int_field("vocab_size", config.get("vocab_size", 2**31 - 1)) - 1
    return [int_field(name, id, "a token id is 0 or more", 0, last) for id in ids]


def refusal(what: str, error: BaseException, between: str = ": ", most: int = 160) -> ValueError:
    """The `ValueError` that says `what` and why, in one line, however long the message of `error` is.

    >>> refusal("the file is wrong", Exception("first\\nsecond"))
    ValueError('the file is wrong: first second')
    """
    why = " ".join(str(error)[: 2 * most].split()) or type(error).__name__
    return ValueError(f"{what}{between}{one_line(why, most)}")


@contextmanager
def refused(what: str) -> Iterator[None]:
    """While it is open, whatever goes wrong is a `ValueError` that says `what` and why, in one line.

    >>> with refused("config.json"):
    ...     {}["hidden_size"]
    Traceback (most recent call last):
    ValueError: config.json: 'hidden_size'
    """
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a panic of a library in Rust is no `Exception`
        raise refusal(what, error) from None
