"""The life of a request, through a pool, a prefix cache and perhaps a store."""

from minikv.manager.fit import Manager, RunningSequence, TruncatingManager
from minikv.manager.manager import CacheManager
from minikv.manager.sequence import Sequence
from minikv.manager.windowed import WindowedManager

__all__ = ["CacheManager", "Manager", "RunningSequence", "Sequence", "TruncatingManager", "WindowedManager"]
