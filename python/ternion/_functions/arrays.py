"""NumPy functions on tensors: they receive arrays that share the tensors' memory, and return
arrays.
"""

from __future__ import annotations

from typing import Any

from .._ternion import Tensor

# Attributes that the tensor provides itself, on any device.
_ARRAY_QUERIES = {"shape": lambda tensor: tuple(tensor.shape), "ndim": lambda tensor: tensor.ndim}


def _as_arrays(value: Any) -> Any:
    """Returns an argument with tensors replaced by arrays."""
    if isinstance(value, Tensor):
        import numpy

        return numpy.asarray(value)
    if isinstance(value, (list, tuple)):
        parts = [_as_arrays(part) for part in value]
        return parts if isinstance(value, list) else tuple(parts)
    return value


def array_function(self: Tensor, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """Implements NumPy's `__array_function__` protocol, as for `numpy.sum(x)`."""
    if func.__name__ in _ARRAY_QUERIES and len(args) == 1 and isinstance(args[0], Tensor) and not kwargs:
        return _ARRAY_QUERIES[func.__name__](args[0])
    return func(*_as_arrays(args), **{name: _as_arrays(value) for name, value in kwargs.items()})
