"""The configuration of a sweep, from a TOML file; the whole file is checked before anything runs.

traces = ["day.jsonl", "sessions.jsonl.gz"]     files, from the folder of this file; or synthetic:chat and the like
capacities = ["10k", "20k", 1e6, "unlimited"]   blocks; k is 1,000
page_sizes = [1, 4, 16]                         blocks in a page (default 1)
indexes = ["radix", "hash"]                     or "all" (default radix)
policies = "all"                                of radix and window (default lru)
evict_by = ["node", "page"]                     of radix and window (default node)
span_hours = 8                                  sessions without start times begin evenly over these hours
block_size = 16                                 tokens, for traces that do not say it
jobs = 4                                        at once (default: as many as there are cores)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from minikv.errors import bounded
from minikv.prefix import INDEXES
from minikv.prefix.eviction import POLICIES
from minikv.prefix.radix import EVICT_BY
from minikv.traffic.replay import read_capacity
from minikv.traffic.traces import SPAN_HOURS
from minikv.untrusted import float_field, int_field, read_text, refused

_MOST_BYTES = 2**20
_LONGEST = 1000  # characters of a text
_Reader = Callable[[str, Any], Any]


@dataclass(frozen=True)
class SweepConfig:
    """The runs of a sweep: every combination of traces, capacities, page sizes, indexes, policies and ways to evict.

    `traces` are as they were written, and `folder` is where the files among them are. A capacity of `None` is
    unlimited. `policies` and `evict_by` are empty where nothing was said of them.
    """

    folder: Path
    traces: tuple[str, ...]
    capacities: tuple[int | None, ...]
    page_sizes: tuple[int, ...] = (1,)
    indexes: tuple[str, ...] = ("radix",)
    policies: tuple[str, ...] = ()
    evict_by: tuple[str, ...] = ()
    span_hours: float = SPAN_HOURS
    block_size: int | None = None
    jobs: int | None = None


def read_sweep_config(path: str | Path) -> SweepConfig:
    """The sweep that the TOML file `path` describes.

    `ValueError` names the file, the key, the value and the rule that it breaks; `OSError` says why the file cannot be
    read. No trace is opened.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "day.toml"
    >>> _ = path.write_text('traces = "day.jsonl"\\ncapacities = ["10k", "unlimited"]')
    >>> read_sweep_config(path).capacities
    (10000, None)
    """
    text = read_text(Path(path), _MOST_BYTES)
    try:
        found = _toml(text)
        for key in found:
            if key not in _READ:
                raise ValueError(f"there is no key {bounded(key)} in a sweep: expected {', '.join(_READ)}")
        for key in ("traces", "capacities"):
            if key not in found:
                raise ValueError(f"{key} is missing: a sweep needs traces and capacities")
        return SweepConfig(Path(path).parent, **{key: _READ[key](key, value) for key, value in found.items()})
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _toml(text: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    with refused("it is not TOML"):
        return tomllib.loads(text)


def _each(name: str, value: Any, read: _Reader | None = None, known: Iterable[str] = ()) -> tuple[Any, ...]:
    """The different values of a list, each by `read`, or one of those that are known.

    One value is a list of it, and "all" is every known value.
    """
    if value == "all" and known:
        return tuple(known)
    if value == []:
        raise ValueError(f"{name} is an empty list: expected at least 1 value")
    read = read or partial(_one_of, known=known)
    if not isinstance(value, list):
        return (read(name, value),)
    return tuple(dict.fromkeys(read(f"{name}[{at}]", item) for at, item in enumerate(value)))


def _one_of(name: str, value: Any, known: Iterable[str]) -> str:
    if value not in list(known):
        raise ValueError(f"{name} is {bounded(value)}: expected one of {', '.join(known)}")
    return str(value)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= _LONGEST or not value.isprintable():
        raise ValueError(f"{name} is {bounded(value)}: expected a text of 1 to {_LONGEST} printable characters")
    return value


_READ: dict[str, _Reader] = {
    "traces": partial(_each, read=_text),
    "capacities": partial(_each, read=read_capacity),
    "page_sizes": partial(_each, read=partial(int_field, rule="a page has at least 1 block")),
    "indexes": partial(_each, known=INDEXES),
    "policies": partial(_each, known=POLICIES),
    "evict_by": partial(_each, known=EVICT_BY),
    "span_hours": partial(float_field, least=0, most=1e6),
    "block_size": partial(int_field, rule="a block has at least 1 token"),
    "jobs": partial(int_field, rule="at least 1 run at once"),
}
