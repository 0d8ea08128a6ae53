"""Registries of live objects."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from typing import Generic, TypeVar

Kind = TypeVar("Kind")


class WeakRegistry(Generic[Kind]):
    """A registry of objects by weak references. Threads may add objects while others iterate, which
    a `WeakSet` does not allow.
    """

    def __init__(self) -> None:
        # Reentrant, because garbage collection in a method may call a method of this object.
        self._lock = threading.RLock()
        # By identity, in insertion order: objects may define `__eq__` in any way.
        self._refs: dict[int, weakref.ref[Kind]] = {}
        # Objects may die at any time, also in a thread that holds the lock. Their entries are
        # therefore removed when a new object is added.
        self._prune_size = 64

    def add(self, item: Kind) -> None:
        """Adds an object."""
        with self._lock:
            self._refs[id(item)] = weakref.ref(item)
            if len(self._refs) > self._prune_size:
                self._refs = {number: ref for number, ref in self._refs.items() if ref() is not None}
                self._prune_size = 2 * len(self._refs) + 64

    def __iter__(self) -> Iterator[Kind]:
        """Iterates over the objects that are alive now."""
        with self._lock:
            refs = list(self._refs.values())
        return iter([item for item in (ref() for ref in refs) if item is not None])
