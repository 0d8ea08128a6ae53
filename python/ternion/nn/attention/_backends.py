"""PyTorch's selection of attention kernels, which has no effect in Ternion."""

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
    """A context in which PyTorch uses only these attention kernels. In Ternion shapes, dtypes and
    the device determine the kernel, inside the context as outside.

    Args:
        backends: one `SDPBackend` or a list of them.
        set_priority: accepted without effect.

    Raises:
        TypeError: If a backend is not an `SDPBackend`.
        ValueError: If the list is empty or contains `SDPBackend.ERROR`.
    """
    requested = list(backends) if isinstance(backends, (list, tuple)) else [backends]
    for backend in requested:
        if not isinstance(backend, SDPBackend):
            raise TypeError(f"sdpa_kernel: expected SDPBackend or a list of them, got {type(backend).__name__}")
    if not requested or SDPBackend.ERROR in requested:
        names = ", ".join(backend.name for backend in requested) or "an empty list"
        raise ValueError(f"sdpa_kernel: expected a kernel, got {names}")
    yield
