"""The threads of a `DataLoader`."""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any

from .._weak_registry import WeakRegistry

# When a program ends, threads that are still running get this many seconds to finish their current
# op. After that they are no longer waited for.
_SHUTDOWN_TIMEOUT = 0.5
_all_workers: WeakRegistry[Workers] = WeakRegistry()


class Workers:
    """Threads that apply `work` to submitted items. Each first calls `begin` with its index.

    They are daemon threads: neither the end of a program nor `stop` waits for one that is blocked.
    """

    def __init__(self, count: int, begin: Callable[[int], Any], work: Callable[[Any], Any]):
        self._begin, self._work = begin, work
        self._tasks: SimpleQueue[Any] = SimpleQueue()
        self._is_stopped = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(number,), name=f"ternion-loader_{number}", daemon=True) for number in range(count)]
        _all_workers.add(self)
        for thread in self._threads:
            thread.start()

    def submit(self, item: Any) -> Future[Any]:
        """Submits an item, and returns the future result of `work`."""
        future: Future[Any] = Future()
        self._tasks.put((future, item))
        return future

    def stop(self) -> None:
        """Starts no further tasks. Idle threads end immediately, busy ones after their current
        task.
        """
        self._is_stopped.set()
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            # Enough for an idle thread to end; a busy one is not waited for.
            thread.join(0.01)

    def join(self, until: float) -> None:
        """Waits for the threads until the given time."""
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _run(self, number: int) -> None:
        failure = None
        try:
            self._begin(number)
        except BaseException as error:
            failure = error
        while (task := self._tasks.get()) is not None and not self._is_stopped.is_set():
            future, item = task
            try:
                if failure is not None:
                    raise failure
                result = self._work(item)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)
            # No references are kept while the thread waits.
            del task, future, item
            result = None


@atexit.register
def _stop_all() -> None:
    """Stops all threads before the interpreter shuts down, after which they could no longer call
    anything.
    """
    running = list(_all_workers)
    for workers in running:
        workers.stop()
    until = time.monotonic() + _SHUTDOWN_TIMEOUT
    for workers in running:
        workers.join(until)
