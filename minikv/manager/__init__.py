"""The life of a request, through a pool, a prefix cache and perhaps a store."""

from minikv.manager.layered import LayeredManager, StatePool
from minikv.manager.manager import CacheManager
from minikv.manager.sequence import Sequence
from minikv.manager.windowed import WindowedManager

__all__ = ["CacheManager", "LayeredManager", "Sequence", "StatePool", "WindowedManager"]
