"""Measuring a prefix cache: how fast it is beside others, what it costs, and from which prompt on it pays."""

from minikv.measure.bench import Figures, bench
from minikv.measure.break_even import break_even_tokens
from minikv.measure.lap import Contender
from minikv.measure.race import race

__all__ = ["Contender", "Figures", "bench", "break_even_tokens", "race"]
