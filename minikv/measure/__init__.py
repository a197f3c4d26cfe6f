"""Measuring a prefix cache: how fast it is beside others, what it costs, and from which prompt on it pays."""

from minikv.measure.bench import bench
from minikv.measure.lap import Contender
from minikv.measure.race import race

__all__ = ["Contender", "bench", "race"]
