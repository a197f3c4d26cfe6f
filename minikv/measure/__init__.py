"""Measuring a prefix cache: how fast it is beside others, and what it costs."""

from minikv.measure.bench import bench
from minikv.measure.lap import Contender
from minikv.measure.race import race

__all__ = ["Contender", "bench", "race"]
