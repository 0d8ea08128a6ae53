"""Registries of live objects."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from typing import Generic, TypeVar

Kind = TypeVar("Kind")


class Living(Generic[Kind]):
    """A registry of objects by weak references. Threads may add objects while others iterate, which
    a `WeakSet` does not allow.
    """

    def __init__(self) -> None:
        # Reentrant, because garbage collection in a method may call a method of this object.
        self._lock = threading.RLock()
        # By identity, in insertion order: objects may define `__eq__` in any way.
        self._known: dict[int, weakref.ref[Kind]] = {}
        # Objects may die at any time, also in a thread that holds the lock. Their entries are
        # therefore removed when a new object is added.
        self._full = 64

    def add(self, item: Kind) -> None:
        """Adds an object."""
        with self._lock:
            self._known[id(item)] = weakref.ref(item)
            if len(self._known) > self._full:
                self._known = {number: known for number, known in self._known.items() if known() is not None}
                self._full = 2 * len(self._known) + 64

    def __iter__(self) -> Iterator[Kind]:
        """Iterates over the objects that are alive now."""
        with self._lock:
            known = list(self._known.values())
        return iter([item for item in (each() for each in known) if item is not None])
