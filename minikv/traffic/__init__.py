"""Tools for people with real traffic: traces, what a cache makes of them, why prompts miss, and how much it needs."""

from minikv.traffic.replay import Replay, replay
from minikv.traffic.traces import TraceError, TraceRequest, Traffic, open_traffic, read_trace

__all__ = ["Replay", "TraceError", "TraceRequest", "Traffic", "open_traffic", "read_trace", "replay"]
