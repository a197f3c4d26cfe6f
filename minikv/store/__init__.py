"""The keys and values themselves: one allocation, two layouts, and the ways in which bytes move.

The index and the pools of this package know slots by number. Here a slot is a place in memory: the keys and values of
one token, in all layers. `KVStore` writes and reads them layer by layer, as a model does, and copies them whole, as a
cache does, also those of another store. It is one of the few parts of the package that import torch.

A store, and what it gives out, may be used by one thread at a time; an `Engine` takes care of that.
"""

from minikv.store.crossing import Crossing
from minikv.store.kv_store import KVStore
from minikv.store.slots import Slots

__all__ = ["Crossing", "KVStore", "Slots"]
