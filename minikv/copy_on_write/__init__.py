"""Sequences that share pages until one of them writes: what a page holds, and how it is found."""

from minikv.copy_on_write.copy_on_write import CopyOnWrite

__all__ = ["CopyOnWrite"]
