"""Traces of requests, and what they say about a cache."""

from minikv.traffic.replay import Replay, replay
from minikv.traffic.traces import TraceError, TraceRequest, Traffic, open_traffic, read_trace

__all__ = ["Replay", "TraceError", "TraceRequest", "Traffic", "open_traffic", "read_trace", "replay"]
