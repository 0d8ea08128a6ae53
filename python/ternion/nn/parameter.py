"""`Parameter` and `Buffer`, under the name of PyTorch's module."""

from __future__ import annotations

from typing import Any

from .._ternion import Parameter as Parameter, Tensor, zeros

__all__ = ["Buffer", "Parameter"]


def __dir__() -> list[str]:
    return __all__


class _BufferMeta(type):
    """Metaclass that makes `isinstance` true for tensors that are marked as buffers."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False)


class Buffer(metaclass=_BufferMeta):
    """Creates a tensor that becomes a buffer of the module to which it is assigned, as with
    `register_buffer`.

    Args:
        data: a tensor, whose memory the buffer shares; an empty tensor by default.
        persistent: whether the buffer is part of the state dict.

    Raises:
        TypeError: If `data` is not a tensor.
    """

    def __new__(cls, data: Any = None, persistent: bool = True) -> Any:
        if data is not None and not isinstance(data, Tensor):
            raise TypeError(f"Buffer: data of type {type(data).__name__}, expected a tensor")
        buffer: Any = zeros(0) if data is None else data.detach()
        buffer._is_buffer, buffer.persistent = True, persistent
        return buffer
