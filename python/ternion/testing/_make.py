"""`make_tensor`: random tensors for tests."""

from __future__ import annotations

import math
from typing import Any

from .. import _ternion
from .._functions.kinds import finfo, iinfo
from .._scopes import no_grad
from .._ternion import Tensor


def make_tensor(
    *shape: Any, dtype: Any, device: Any, low: float | None = None, high: float | None = None, requires_grad: bool = False,
    noncontiguous: bool = False, exclude_zero: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """Returns a tensor of numbers drawn uniformly from [`low`, `high`): by default from -9 to 9,
    for uint8 from 0 on; for bool both values.

    Args:
        noncontiguous: Whether the last axis has a stride of 2. Ignored if there are fewer than 2
            elements.
        exclude_zero: Replaces 0 by 1, or by the smallest normal number of a floating-point dtype.
        memory_format: Accepted for compatibility with PyTorch; elements are in row-major order.

    Raises:
        ValueError: If a limit is NaN, if `low` is not below `high`, if the limits are out of the
            dtype's range, if `requires_grad` is used with a dtype that is not floating point, or if
            `noncontiguous` is used with a `memory_format`.
    """
    sizes = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    if noncontiguous and memory_format is not None:
        raise ValueError("make_tensor: noncontiguous and memory_format, expected one of them")
    is_strided = noncontiguous and math.prod(sizes) > 1
    values = _random_values((*sizes[:-1], 2 * sizes[-1]) if is_strided else sizes, dtype, device, low, high)
    if requires_grad and not values.is_floating_point():
        raise ValueError(f"make_tensor: requires_grad of {values.dtype}, expected a floating dtype")
    # The view starts at element 1, so that an ignored offset is detected, too.
    result = values[..., 1::2] if is_strided else values
    if exclude_zero:
        with no_grad():
            result.masked_fill_(result == 0, finfo(result.dtype).tiny if result.is_floating_point() else 1)
    return result.requires_grad_() if requires_grad else result


def _random_values(sizes: tuple[int, ...], dtype: Any, device: Any, low: Any, high: Any) -> Tensor:
    """Returns random numbers within the limits, clipped to the range of the dtype."""
    kind = _ternion.zeros(0, dtype=dtype).dtype
    is_floating = kind.is_floating_point
    if is_floating:
        lowest, highest, default_range = finfo(kind).min, finfo(kind).max, (-9, 9)
    elif kind == _ternion.bool:
        lowest, highest, default_range = 0, 2, (0, 2)
    else:
        # The upper limit is exclusive, and must itself be a valid integer.
        lowest, highest, default_range = iinfo(kind).min, iinfo(kind).max + (kind != _ternion.int64), (-9, 10)
    low, high = default_range[0] if low is None else low, default_range[1] if high is None else high
    if not low < high or high < lowest or low >= highest:
        raise ValueError(f"make_tensor: from {low} to {high}, expected the lower number first, and numbers that {kind} has")
    low, high = max(low, lowest), min(high, highest)
    if is_floating:
        return (_ternion.rand(*sizes, dtype=_ternion.float64, device=device) * (high - low) + low).clamp(low, high).to(kind)
    return _ternion.randint(math.ceil(low), math.ceil(high), sizes, dtype=_ternion.int64, device=device).to(kind)
