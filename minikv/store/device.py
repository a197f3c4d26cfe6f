"""Where a store lies and what numbers it keeps: a torch device and dtype, from what people write for them."""

from __future__ import annotations

from typing import Any

import torch

from minikv.errors import bounded

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16, "fp8": torch.float8_e4m3fn}


def dtype_of(dtype: Any) -> torch.dtype:
    """A float dtype by its name here or its torch object; `ValueError` for anything else.

    >>> dtype_of("bf16"), dtype_of(torch.float64)
    (torch.bfloat16, torch.float64)
    """
    found = DTYPES.get(dtype) if isinstance(dtype, str) else dtype
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise ValueError(f"dtype is {bounded(dtype)}: expected one of {', '.join(DTYPES)} or a torch float dtype")
    return found


def device_of(device: Any) -> torch.device:
    """A device that torch can keep bytes on, here and now, with its number ("cuda" became "cuda:0"); or `ValueError`.

    >>> device_of("cpu")
    device(type='cpu')
    >>> device_of("meta")
    Traceback (most recent call last):
    ValueError: device is 'meta': expected one that keeps bytes
    """
    try:
        found = torch.empty(0, device=torch.device(device)).device
    except (RuntimeError, AssertionError, TypeError, ValueError) as error:  # each build of torch says it in its own way
        raise ValueError(f"device is {bounded(device)}: torch has no such device here") from error
    if found.type == "meta":
        raise ValueError(f"device is {bounded(device)}: expected one that keeps bytes")
    return found


def side_stream(device: torch.device) -> Any:
    """A stream for what crosses to and from a GPU, beside what runs there; `None` elsewhere.

    >>> side_stream(torch.device("cpu"))
    """
    return torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]
