"""The pytest plugin: a fixture. Nothing else of the package is imported until a test asks for it."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(name="assert_prefix_stable")
def prefix_check() -> Any:
    """Check that a prompt builder always builds the same prompt: `minikv_tools.assert_prefix_stable`."""
    from minikv_tools.why.stable import assert_prefix_stable

    return assert_prefix_stable
