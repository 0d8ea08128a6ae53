"""The threads of a `DataLoader`."""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any

from .._living import Living

# Threads that are not over when a program ends get so many seconds for the op that they are at: they are not waited for any longer.
_PATIENCE = 0.5
_all: Living[Workers] = Living()


class Workers:
    """Threads that do `work` on what they are given, after `begin` with their number.

    They are daemons: neither the end of a program nor `stop` waits for one that is held up.
    """

    def __init__(self, count: int, begin: Callable[[int], Any], work: Callable[[Any], Any]):
        self._begin, self._work = begin, work
        self._tasks: SimpleQueue[Any] = SimpleQueue()
        self._is_stopped = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,), name=f"ternion-loader_{number}", daemon=True) for number in range(count)]
        _all.add(self)
        for thread in self._threads:
            thread.start()

    def submit(self, given: Any) -> Future[Any]:
        """What `work` will make of `given`."""
        future: Future[Any] = Future()
        self._tasks.put((future, given))
        return future

    def stop(self) -> None:
        """Begins nothing more. Threads that are idle end at once, one that is at work when that is done."""
        self._is_stopped.set()
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            # Of a thread that has nothing to do this is no time; one at work is left alone.
            thread.join(0.01)

    def join(self, until: float) -> None:
        """Waits for the threads, up to this time."""
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _run(self, number: int) -> None:
        failed = None
        try:
            self._begin(number)
        except BaseException as error:
            failed = error
        while (task := self._tasks.get()) is not None and not self._is_stopped.is_set():
            future, given = task
            try:
                if failed is not None:
                    raise failed
                found = self._work(given)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(found)
            # Nothing is kept while the thread waits.
            del task, future, given
            found = None


@atexit.register
def _end() -> None:
    """Stops all threads before the interpreter goes: what they call then is no more."""
    running = list(_all)
    for workers in running:
        workers.stop()
    until = time.monotonic() + _PATIENCE
    for workers in running:
        workers.join(until)
