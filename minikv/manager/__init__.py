"""The life of a request, through a pool, a prefix cache and perhaps a store."""

from minikv.manager.manager import CacheManager
from minikv.manager.sequence import Manager, RunningSequence, Sequence, TruncatingManager
from minikv.manager.windowed import WindowedManager

__all__ = ["CacheManager", "Manager", "RunningSequence", "Sequence", "TruncatingManager", "WindowedManager"]
