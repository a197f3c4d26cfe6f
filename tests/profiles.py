"""How Hypothesis searches, and which tests wait for the night or for a GPU: what the tests of both projects share."""

import os

import pytest
from hypothesis import HealthCheck, Phase, settings
from nightly import NIGHTLY

settings.register_profile("default", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("nightly", settings.get_profile("default"), max_examples=2000, derandomize=False)
settings.register_profile(  # a mutant that is found need not be found with the smallest example
    "mutants", settings.get_profile("default"), phases=[Phase.explicit, Phase.generate], report_multiple_bugs=False
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def skip_what_waits(items):
    """By day without those marked `nightly`, and those marked `gpu` where there are as many."""
    for item in items:
        if mark := item.get_closest_marker("gpu"):
            wanted, found = mark.kwargs.get("count", 1), gpus()
            if found < wanted:
                item.add_marker(pytest.mark.skip(reason=f"waits for {wanted} NVIDIA GPUs: {found} here"))
        if not NIGHTLY and item.get_closest_marker("nightly"):
            item.add_marker(pytest.mark.skip(reason="waits for the night: HYPOTHESIS_PROFILE=nightly"))


def gpus():
    """How many NVIDIA GPUs torch finds here."""
    import torch

    return torch.cuda.device_count()
