"""Weights on disk: the safetensors format, read and written, in one file or in shards with an index.

    8 bytes       length of the header, little-endian
    the header    JSON: {"name": {"dtype": "F16", "shape": [2, 3], "data_offsets": [0, 12]}, ...}
    the data      all tensors, one after the other; offsets count from its first byte

The format is so simple that reading it takes a screen of code, and no package. Files are mapped, not read: a weight
comes off the disk when it is used for the first time.
"""

from __future__ import annotations

import json
import math
import mmap
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import torch

from minikv.errors import bounded
from minikv.serving.config import read_json

_DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


def read_weights(folder: str | PathLike[str]) -> dict[str, torch.Tensor]:
    """All tensors of a checkpoint folder: `model.safetensors`, or the shards that its index lists.

    `FileNotFoundError` says what was looked for; `ValueError` names a file that is not what it says it is.

    >>> from minikv.assets import asset
    >>> read_weights(asset("model"))["model.norm.weight"].dtype
    torch.float16
    """
    folder = Path(folder)
    whole, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if whole.exists():
        return read_safetensors(whole)
    if not index.exists():
        raise FileNotFoundError(f"{folder} has neither {whole.name} nor {index.name}")
    homes = read_json(index).get("weight_map")
    if not isinstance(homes, dict):
        raise ValueError(f"{index} has no weight_map")
    shards = {name: read_safetensors(folder / name) for name in sorted(set(homes.values()))}
    for name, home in homes.items():
        if name not in shards[home]:
            raise ValueError(f"{index} says that {name} is in {home}: it is not")
    return {name: shards[home][name] for name, home in homes.items()}


def read_safetensors(path: str | PathLike[str]) -> dict[str, torch.Tensor]:
    """The tensors of one file, by name, in the file's order; they share its memory and cannot change it.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "one.safetensors"
    >>> write_safetensors(path, {"a": torch.ones(2, 3, dtype=torch.float16)})
    >>> read_safetensors(path)["a"].shape
    torch.Size([2, 3])
    """
    path = Path(path)
    with path.open("rb") as file:
        head = file.read(8)
        size = path.stat().st_size
        start = 8 + int.from_bytes(head, "little")
        if len(head) < 8 or start > size:
            raise ValueError(f"{path} is no safetensors file: {size} bytes, and its header would end at {start}")
        try:
            header = dict(json.loads(file.read(start - 8)))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path} is no safetensors file: {error}") from None
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    header.pop("__metadata__", None)
    return {name: _tensor(path, name, entry, memory, start) for name, entry in header.items()}


def _tensor(path: Path, name: str, entry: Any, memory: mmap.mmap, start: int) -> torch.Tensor:
    try:
        kind, shape, (begin, end) = entry["dtype"], list(entry["shape"]), entry["data_offsets"]
        count = math.prod(shape)
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{name} in {path} is {bounded(entry)}: expected dtype, shape and data_offsets") from None
    if kind not in _DTYPES:
        raise ValueError(f"{name} in {path} is {kind}: expected one of {', '.join(_DTYPES)}")
    dtype = _DTYPES[kind]
    if end - begin != count * dtype.itemsize or not 0 <= begin <= end <= len(memory) - start:
        raise ValueError(f"{name} in {path} is {shape} of {kind}, but has bytes {begin} to {end}")
    if not count:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(memory, dtype=dtype, count=count, offset=start + begin).reshape(shape)


def write_safetensors(path: str | PathLike[str], tensors: Mapping[str, torch.Tensor]) -> None:
    """Write `tensors` to `path`, by name, so that equal tensors give equal bytes.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "one.safetensors"
    >>> write_safetensors(path, {"b": torch.tensor([1.5]), "a": torch.zeros(0)})
    >>> {name: tensor.tolist() for name, tensor in read_safetensors(path).items()}
    {'a': [], 'b': [1.5]}
    """
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    parts, at = [], 0
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        if tensor.dtype not in _NAMES:
            raise ValueError(f"{name} is {tensor.dtype}: expected one of {', '.join(map(str, _NAMES))}")
        raw = tensor.reshape(-1).view(torch.uint8).numpy().tobytes()
        header[name] = {"dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [at, at + len(raw)]}
        parts.append(raw)
        at += len(raw)
    head = json.dumps(header, separators=(",", ":")).encode()
    head += b" " * (-len(head) % 8)
    Path(path).write_bytes(len(head).to_bytes(8, "little") + head + b"".join(parts))
