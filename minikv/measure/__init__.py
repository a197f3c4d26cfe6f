"""Measuring a prefix cache: traces of real requests, and what a cache makes of them."""

from minikv.measure.replay import Replay, replay
from minikv.measure.traces import TraceError, TraceRequest, read_trace

__all__ = ["Replay", "TraceError", "TraceRequest", "read_trace", "replay"]
