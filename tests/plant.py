"""Mistakes that are planted in the package to see whether a test notices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


def plant(patch: pytest.MonkeyPatch, owner: type, names: str, mistaken: Callable[..., Any]) -> None:
    """Replace methods of `owner`; `mistaken` gets the method that was there, and then whatever that would get."""
    for name in names.split():
        method = getattr(owner, name)
        patch.setattr(owner, name, lambda *args, method=method, **options: mistaken(method, *args, **options))
