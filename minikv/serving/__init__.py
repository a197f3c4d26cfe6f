"""A small serving engine: a model that reads and writes keys and values through slots, and what drives it."""

from minikv.serving.drafts import PromptLookup
from minikv.serving.engine import Engine
from minikv.serving.model import Chunk, Model, Sampler, SamplingParams
from minikv.serving.request import Event, Generation, Request
from minikv.serving.schedule import FirstComeFirstServed, LongestPrefixFirst
from minikv.serving.scheduler import Scheduler

__all__ = [
    "Chunk", "Engine", "Event", "FirstComeFirstServed", "Generation", "LongestPrefixFirst", "Model",
    "PromptLookup", "Request", "Sampler", "SamplingParams", "Scheduler",
]  # fmt: skip
