"""Sampling: from logits to the next token, with nothing that another request could disturb.

Each request has a generator of its own, so that what is sampled for it depends on its own logits and its own seed,
and not on who else is in the batch or in which order.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from minikv.errors import bounded, whole_number


class Sampler:
    """Picks the next token of one request: the likeliest at `temperature` 0, else by chance, from its own `seed`.

    Of equal logits the lowest token id is taken. One number is drawn for each token that is sampled.

    >>> import numpy as np
    >>> logits = np.array([0.0, 3.0, 3.0, 1.0])
    >>> Sampler()(logits)
    1
    >>> [Sampler(temperature=1.0, seed=5)(logits) for _ in range(3)]
    [2, 2, 2]
    """

    def __init__(self, temperature: float = 0.0, seed: int = 0):
        rule = "0 picks the likeliest token, more gives the others a chance"
        if isinstance(temperature, bool) or not isinstance(temperature, (int, float)):
            raise TypeError(f"temperature is {bounded(temperature)} ({type(temperature).__name__}), no number: {rule}")
        if not (math.isfinite(temperature) and temperature >= 0):
            raise ValueError(f"temperature is {bounded(temperature)}: {rule}")
        self.temperature, self.seed = temperature, whole_number("seed", seed, 0, "a seed is 0 or more")
        self._generator = np.random.default_rng(self.seed)

    def __call__(self, logits: npt.NDArray[Any]) -> int:
        """The next token, from the logits of all, (vocab_size,)."""
        require_choice(logits)
        if self.temperature == 0:
            return int(logits.argmax())  # numpy takes the first of equals
        scaled = (logits.astype(np.float64) - logits.max()) / self.temperature
        shares = np.exp(scaled).cumsum()
        return int(np.searchsorted(shares, self._generator.random() * shares[-1], side="right"))

    def __repr__(self) -> str:
        return f"Sampler(temperature={self.temperature}, seed={self.seed})"


def require_choice(logits: npt.NDArray[Any], whose: str = "") -> None:
    """Raise `ValueError`, which begins with `whose` logits they are, unless the largest of `logits` is a number.

    >>> require_choice(np.array([np.nan, 1.0]), "request 3: ")
    Traceback (most recent call last):
    ValueError: request 3: the largest logit is nan: there is nothing to choose from
    """
    largest = logits.max(initial=-np.inf)
    if not np.isfinite(largest):
        raise ValueError(f"{whose}the largest logit is {largest}: there is nothing to choose from")


def as_array(logits: Any) -> npt.NDArray[Any]:
    """Logits as a numpy array, wherever they were computed: one copy for the whole batch.

    >>> as_array([[1.0, 2.0]]).shape
    (1, 2)
    """
    if hasattr(logits, "detach"):  # a torch tensor, without importing torch
        logits = logits.detach().float().cpu().numpy()
    return np.asarray(logits)
