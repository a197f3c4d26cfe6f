"""Measuring a prefix cache: traces of real requests, what a cache makes of them, and how fast it is."""

from minikv.measure.bench import Figures, bench
from minikv.measure.break_even import break_even_tokens
from minikv.measure.lap import Contender
from minikv.measure.race import race
from minikv.measure.traffic.replay import Replay, replay
from minikv.measure.traffic.traces import TraceError, TraceRequest, Traffic, open_traffic, read_trace

__all__ = [
    "Contender", "Figures", "Replay", "TraceError", "TraceRequest", "Traffic", "bench", "break_even_tokens",
    "open_traffic", "race", "read_trace", "replay",
]  # fmt: skip
