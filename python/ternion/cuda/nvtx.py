"""Ranges and marks in NVIDIA's profilers (`nsys profile python PROGRAM`), under PyTorch's names. Without CUDA, or the library NVTX, they do nothing, and depths are -2."""

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
    """Begins a range within those that the thread has begun: the number of those around it, or a negative one where nobody listens.

    Raises:
        TypeError: a message that is no text.
    """
    return _ternion._nvtx_push(_text("range_push", msg))


def range_pop() -> int:
    """Ends the range that the thread began last: the number of those around it, or a negative one where there is none or nobody listens."""
    return _ternion._nvtx_pop()


def mark(msg: str) -> None:
    """Marks this moment.

    Raises:
        TypeError: a message that is no text.
    """
    _ternion._nvtx_mark(_text("mark", msg))


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A range around what is done in this context, or in a function that it decorates. Arguments are put into the message as by `str.format`.

    Raises:
        TypeError: a message that is no text.
    """
    range_push(_text("range", msg).format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
