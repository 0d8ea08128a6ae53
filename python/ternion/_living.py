"""What there is of a kind, as long as somebody has it."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from typing import Generic, TypeVar

Kind = TypeVar("Kind")


class Living(Generic[Kind]):
    """Objects that are known while they live. Threads may add some while others go through them, which a `WeakSet` does not allow."""

    def __init__(self) -> None:
        # What is collected meanwhile may end with a call of this.
        self._lock = threading.RLock()
        # By identity, in the order in which they came: objects may compare as they like.
        self._known: dict[int, weakref.ref[Kind]] = {}
        # A place is left at any moment, also in a thread that holds the lock: those are removed when the next one comes.
        self._full = 64

    def add(self, item: Kind) -> None:
        """Knows of an object."""
        with self._lock:
            self._known[id(item)] = weakref.ref(item)
            if len(self._known) > self._full:
                self._known = {number: known for number, known in self._known.items() if known() is not None}
                self._full = 2 * len(self._known) + 64

    def __iter__(self) -> Iterator[Kind]:
        """Those that there are at this moment."""
        with self._lock:
            known = list(self._known.values())
        return iter([item for item in (each() for each in known) if item is not None])
