"""Load evicted keys and values back, or compute them again: at how many tokens does loading become faster?

Loading costs bytes over a link, in proportion to the tokens. Computing costs FLOPs, which grow faster than the tokens:
each token also looks back at all tokens before it. So loading may be slower at first. Once it is faster,
it stays faster.

    load     latency + tokens x bytes per token / bytes per second
    compute  (tokens x FLOPs per token + (tokens^2 + 2 x tokens x before) x attention FLOPs) / FLOPs per second

Here `before` is the number of tokens of the prompt that are already on the device.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from fractions import Fraction
from numbers import Rational, Real

from minikv.errors import bounded, whole_number

_MOST = 2**62  # tokens: beyond it "never" is an honest answer
_COUNT = "expected 0 or more tokens"


class BreakEven:
    """A link and a processor, and which of them is faster at bringing back keys and values.

    `token_bytes` is the size of one token's keys and values (`bytes_per_token`). `flops_per_token` is about twice the
    number of the model's parameters, and `attention_flops` is 2 x layers x heads x head size: a pair of tokens takes
    twice that, and a token looks back at half of the others on average. `latency` is in seconds. `TypeError` and
    `ValueError` name a number that is negative or not finite, or a rate that is 0. The comparison is exact: if both
    take the same time, loading is not worth it.

    >>> even = BreakEven(10, 2, 30, 6, attention_flops=1, latency=1)
    >>> even.tokens(), even.worth_loading(2), even.worth_loading(2, before=10)
    (3, False, True)
    """

    def __init__(
        self,
        token_bytes: float,
        bytes_per_second: float,
        flops_per_token: float,
        flops_per_second: float,
        *,
        attention_flops: float = 0,
        latency: float = 0,
    ):
        link, speed = _rate("bytes_per_second", bytes_per_second), _rate("flops_per_second", flops_per_second)
        size, dense = _amount("token_bytes", token_bytes), _amount("flops_per_token", flops_per_token)
        attention, wait = _amount("attention_flops", attention_flops), _amount("latency", latency) * speed
        gain = dense - size * speed / link  # FLOPs that each token saves by being loaded, before any attention
        scale = math.lcm(*(number.denominator for number in (attention, gain, wait)))  # whole numbers are exact
        self._attention, self._gain, self._wait = int(attention * scale), int(gain * scale), int(wait * scale)

    def worth_loading(self, tokens: int, before: int = 0) -> bool:
        """Return whether `tokens` tokens are loaded in less time than computed, when `before` come before them.

        Pass it as `CacheManager(worth_loading=...)`. `TypeError` and `ValueError` name a bad number of tokens.

        >>> BreakEven(131072, 3e9, 16.06e9, 400e12, attention_flops=262144).worth_loading(1000, before=4000)
        True
        """
        count, past = whole_number("tokens", tokens, 0, _COUNT), whole_number("before", before, 0, _COUNT)
        return count * (self._gain + self._attention * (count + 2 * past)) > self._wait

    def tokens(self, before: int = 0) -> int | None:
        """Return the smallest number of tokens worth loading after `before` others, or `None` if there is none."""
        last = 1
        while not self.worth_loading(last, before):  # the gain curves upward from 0: once above, it stays above
            last *= 2
            if last > _MOST:
                return None
        return bisect_left(range(last), True, last // 2 + 1, key=lambda tokens: self.worth_loading(tokens, before))


def break_even_tokens(
    token_bytes: float,
    bytes_per_second: float,
    flops_per_token: float,
    flops_per_second: float,
    *,
    attention_flops: float = 0,
    latency: float = 0,
) -> int | None:
    """Return the smallest number of tokens that are loaded in less time than computed, or `None` if there is none.

    The arguments are those of `BreakEven`. After a prefix of m tokens that are still cached, add
    2 x m x `attention_flops` to `flops_per_token`, or ask `BreakEven.tokens`.

    Llama 3.1 8B at 400 TFLOP/s: over PCIe 5, loading is always faster; over 25 Gbit Ethernet, only for long prefixes.

    >>> model = {"flops_per_token": 16.06e9, "flops_per_second": 400e12, "attention_flops": 2 * 32 * 32 * 128}
    >>> break_even_tokens(131072, 50e9, **model), break_even_tokens(131072, 3e9, **model)
    (1, 5403)
    """
    rates = token_bytes, bytes_per_second, flops_per_token, flops_per_second
    return BreakEven(*rates, attention_flops=attention_flops, latency=latency).tokens()


def _amount(name: str, value: float) -> Fraction:
    """Return `value` as a fraction, so that no rounding decides which is faster."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} is {bounded(value)} ({type(value).__name__}): expected a number")
    if not 0 <= value < math.inf:
        raise ValueError(f"{name} is {bounded(value)}: expected a finite number, 0 or more")
    if isinstance(value, Rational):
        return Fraction(int(value.numerator), int(value.denominator))  # those of numpy overflow
    return Fraction(float(value))


def _rate(name: str, value: float) -> Fraction:
    found = _amount(name, value)
    if not found:
        raise ValueError(f"{name} is 0: expected a rate above 0")
    return found
