"""A small serving engine: a model that reads and writes keys and values through slots, and what drives it."""

from minikv.serving.drafts import Drafter, PromptLookup
from minikv.serving.engine import Engine
from minikv.serving.model import Chunk, Model, Sampler, SamplingParams
from minikv.serving.request import Event, Generation, Request
from minikv.serving.schedule import FirstComeFirstServed, LongestPrefixFirst, ScheduledChunk
from minikv.serving.scheduler import Scheduler

__all__ = [
    "Chunk", "Drafter", "Engine", "Event", "FirstComeFirstServed", "Generation", "LongestPrefixFirst", "Model",
    "PromptLookup", "Request", "Sampler", "SamplingParams", "ScheduledChunk", "Scheduler",
]  # fmt: skip
