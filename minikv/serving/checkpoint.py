"""Weights on disk: the safetensors format, read and written, in one file or in shards with an index.

    8 bytes       length of the header, little-endian
    the header    JSON: {"name": {"dtype": "F16", "shape": [2, 3], "data_offsets": [0, 12]}, ...}
    the data      all tensors, one after the other; offsets count from its first byte

The `safetensors` library checks that the tensors cover the data without gaps or overlaps, and maps the file: a weight
comes off the disk when it is used for the first time. What the library lets through is checked here: repeated names,
tensors by the hundred thousand or with thousands of dimensions, and dtypes that are not a decoder's weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from minikv.errors import bounded
from minikv.files import replace
from minikv.untrusted import inside, json_object, read_json, refusal, require_regular

_DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
_LARGEST_HEADER = 2**22  # bytes
_MOST_TENSORS = 20_000  # in a file
_MOST_DIMENSIONS = 8
_LONGEST_NAME = 200  # characters


def read_weights(folder: str | PathLike[str]) -> dict[str, torch.Tensor]:
    """All tensors of a checkpoint folder: `model.safetensors`, or the shards that its index lists.

    `FileNotFoundError` says what was looked for; `ValueError` names a file that is not what it says it is, or that is
    not in the folder.

    >>> from minikv.assets import asset
    >>> read_weights(asset("model"))["model.norm.weight"].dtype
    torch.float16
    """
    folder = Path(folder)
    whole, index = inside(folder, "model.safetensors"), inside(folder, "model.safetensors.index.json")
    if whole.exists():
        return read_safetensors(whole)
    if not index.exists():
        raise FileNotFoundError(f"{folder} has neither {whole.name} nor {index.name}")
    homes = read_json(index).get("weight_map")
    if not isinstance(homes, dict) or not homes:
        raise ValueError(f"{index} has the weight_map {bounded(homes)}: expected the file of each weight")
    for home in homes.values():
        inside(folder, home)
    shards = {home: read_safetensors(folder / home) for home in sorted(set(homes.values()))}
    for name, home in homes.items():
        if name not in shards[home]:
            raise ValueError(f"{index} says that {bounded(name)} is in {bounded(home)}: it is not")
    return {name: shards[home][name] for name, home in homes.items()}


def read_safetensors(path: str | PathLike[str]) -> dict[str, torch.Tensor]:
    """The tensors of one file, by name, in the file's order; they share its pages in memory until they are changed.

    `ValueError` names the file and what is wrong with it.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "one.safetensors"
    >>> write_safetensors(path, {"a": torch.ones(2, 3, dtype=torch.float16)})
    >>> read_safetensors(path)["a"].shape
    torch.Size([2, 3])
    """
    path = Path(path)
    header = _read_header(path)
    try:
        with safe_open(path, framework="pt") as file:
            for name, entry in header.items():
                _check_entry(path, name, entry)
            return {name: file.get_tensor(name) for name in header}
    except SafetensorError as error:
        raise refusal(f"{path} is not a safetensors file", error) from None
    except (RuntimeError, MemoryError) as error:  # what torch raises where it cannot map the file
        size = path.stat().st_size
        raise refusal(f"{path} has {size} bytes: expected what fits into memory", error, between="; ") from None


def _read_header(path: Path) -> dict[str, Any]:
    """The entry of each tensor, as the file has it."""
    require_regular(path)
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > _LARGEST_HEADER:
            raise ValueError(f"{path} has a header of {length} bytes: expected at most {_LARGEST_HEADER}")
        header = json_object(file.read(length), f"the header of {path}")
    header.pop("__metadata__", None)
    if len(header) > _MOST_TENSORS:
        raise ValueError(f"{path} has {len(header)} tensors: expected at most {_MOST_TENSORS}")
    return header


def _check_entry(path: Path, name: str, entry: Any) -> None:
    """Refuse what the library lets through: it has seen the file, so an entry has a dtype and a shape."""
    if entry["dtype"] not in _DTYPES:
        raise ValueError(f"{bounded(name)} in {path} is {entry['dtype']}: expected one of {', '.join(_DTYPES)}")
    if len(entry["shape"]) > _MOST_DIMENSIONS:
        raise ValueError(f"{bounded(name)} in {path} has {len(entry['shape'])} dimensions: expected at most 8")
    if len(name) > _LONGEST_NAME or not name.isprintable():
        raise ValueError(f"{path} has a tensor named {bounded(name)}: expected at most {_LONGEST_NAME} characters")


def write_safetensors(path: str | PathLike[str], tensors: Mapping[str, torch.Tensor]) -> None:
    """Write `tensors` to `path`; equal tensors give equal bytes, and a failure leaves what was there.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "one.safetensors"
    >>> write_safetensors(path, {"b": torch.tensor([1.5]), "a": torch.zeros(0)})
    >>> {name: tensor.tolist() for name, tensor in read_safetensors(path).items()}
    {'a': [], 'b': [1.5]}
    """
    for name, tensor in tensors.items():
        if tensor.dtype not in _DTYPES.values():
            raise ValueError(
                f"{bounded(name)} is {tensor.dtype}: expected one of {', '.join(map(str, _DTYPES.values()))}"
            )
    dense = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    replace(path, save(dense, metadata={"format": "pt"}))
