"""Serving: a model that reads and writes keys and values through slots, and what drives it."""

from minikv.serving.contract import Chunk, Model

__all__ = ["Chunk", "Model"]
