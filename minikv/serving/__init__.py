"""Serving: a model that reads and writes keys and values through slots, and what drives it."""

from minikv.serving.contract import Chunk, Model
from minikv.serving.drafts import Drafter, PromptLookup
from minikv.serving.engine import Engine
from minikv.serving.generation import Event, Generation
from minikv.serving.order import FirstComeFirstServed, LongestPrefixFirst
from minikv.serving.request import Request
from minikv.serving.sampling import Sampler, SamplingParams
from minikv.serving.scheduled import ScheduledChunk
from minikv.serving.scheduler import Scheduler

__all__ = [
    "Chunk", "Drafter", "Engine", "Event", "FirstComeFirstServed", "Generation", "LongestPrefixFirst", "Model",
    "PromptLookup", "Request", "Sampler", "SamplingParams", "ScheduledChunk", "Scheduler",
]  # fmt: skip
