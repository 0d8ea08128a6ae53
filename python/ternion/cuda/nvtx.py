"""Ranges and markers in NVIDIA's profilers (`nsys profile python PROGRAM`), with PyTorch's names.
Without CUDA, or the NVTX library, they have no effect, and depths are -2.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .. import _ternion

__all__ = ["mark", "range", "range_pop", "range_push"]


def __dir__() -> list[str]:
    return __all__


def _text(function: str, msg: Any) -> str:
    if not isinstance(msg, str):
        raise TypeError(f"nvtx.{function}: msg is {type(msg).__name__}, expected str")
    return msg


def range_push(msg: str) -> int:
    """Begins a nested range, and returns the number of enclosing ranges of the thread; a negative
    number if no profiler is attached.

    Raises:
        TypeError: If the message is not a string.
    """
    return _ternion._nvtx_push(_text("range_push", msg))


def range_pop() -> int:
    """Ends the innermost range of the thread, and returns the number of enclosing ranges; a
    negative number if there is none, or if no profiler is attached.
    """
    return _ternion._nvtx_pop()


def mark(msg: str) -> None:
    """Adds a marker at the current time.

    Raises:
        TypeError: If the message is not a string.
    """
    _ternion._nvtx_mark(_text("mark", msg))


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A range around a block, or around a function that it decorates. The message is formatted with
    the arguments as by `str.format`.

    Raises:
        TypeError: If the message is not a string.
    """
    range_push(_text("range", msg).format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
