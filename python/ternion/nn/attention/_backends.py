"""PyTorch's choice among kernels of attention, which is none here."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import contextmanager


class SDPBackend(enum.Enum):
    """PyTorch's kernels of `scaled_dot_product_attention`, for `sdpa_kernel`."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(backends: SDPBackend | list[SDPBackend], set_priority: bool = False) -> Iterator[None]:
    """A scope in which PyTorch takes only these kernels of attention. Here shapes, dtypes and the device decide, inside of it as outside.

    Args:
        backends: one `SDPBackend` or a list of them.
        set_priority: taken, and changes nothing.

    Raises:
        TypeError: something else than `SDPBackend`.
        ValueError: an empty list, or `SDPBackend.ERROR`.
    """
    given = list(backends) if isinstance(backends, (list, tuple)) else [backends]
    for backend in given:
        if not isinstance(backend, SDPBackend):
            raise TypeError(f"sdpa_kernel: expected SDPBackend or a list of them, got {type(backend).__name__}")
    if not given or SDPBackend.ERROR in given:
        names = ", ".join(backend.name for backend in given) or "an empty list"
        raise ValueError(f"sdpa_kernel: expected a kernel, got {names}")
    yield
