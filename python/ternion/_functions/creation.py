"""Functions that create tensors or draw random numbers, written in terms of native functions."""

from __future__ import annotations

import operator
from typing import Any

from .. import _ternion
from .._ternion import Tensor, _number
from .kinds import _check_layout, finfo, iinfo
from .shapes import _positional_or_keyword


def _size(size: tuple[Any, ...]) -> Any:
    return size[0] if len(size) == 1 and not isinstance(size[0], int) else size


def new_tensor(input: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False) -> Tensor:
    """Returns a tensor with the given values. Dtype and device are those of this tensor by default.

    Raises:
        TypeError: If a value is not a number.
        ValueError: If nested lists have different lengths.
    """
    return _ternion.tensor(data, dtype=dtype or input.dtype, device=device or input.device, requires_grad=requires_grad)


def new_zeros(input: Tensor, *sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False, layout: Any = None, pin_memory: bool = False) -> Tensor:
    """Returns a tensor of zeros. Dtype and device are those of this tensor by default.

    Shapes: any shape -> `size`

    Raises:
        ValueError: If a size is negative.
        TypeError: If a size is not an integer.
    """
    _check_layout("new_zeros", layout)
    return _ternion.zeros(_size(_positional_or_keyword("new_zeros", sizes, "size", size)), dtype=dtype or input.dtype, device=device or input.device, requires_grad=requires_grad)


def new_ones(input: Tensor, *sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False, layout: Any = None, pin_memory: bool = False) -> Tensor:
    """Returns a tensor of ones. Dtype and device are those of this tensor by default.

    Shapes: any shape -> `size`

    Raises:
        ValueError: If a size is negative.
        TypeError: If a size is not an integer.
    """
    _check_layout("new_ones", layout)
    return _ternion.ones(_size(_positional_or_keyword("new_ones", sizes, "size", size)), dtype=dtype or input.dtype, device=device or input.device, requires_grad=requires_grad)


def new_empty(input: Tensor, *sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False, layout: Any = None, pin_memory: bool = False) -> Tensor:
    """Returns a tensor with unspecified contents (zeros in this implementation). Dtype and device
    are those of this tensor by default.

    Shapes: any shape -> `size`

    Raises:
        ValueError: If a size is negative.
        TypeError: If a size is not an integer.
    """
    _check_layout("new_empty", layout)
    return _ternion.empty(_size(_positional_or_keyword("new_empty", sizes, "size", size)), dtype=dtype or input.dtype, device=device or input.device, requires_grad=requires_grad)


def new_full(input: Tensor, size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, layout: Any = None, pin_memory: bool = False) -> Tensor:
    """Returns a tensor filled with one value. Dtype and device are those of this tensor by default.

    Shapes: any shape -> `size`

    Raises:
        ValueError: If a size is negative.
        TypeError: If `fill_value` is not a number.
    """
    _check_layout("new_full", layout)
    return _ternion.full(size, fill_value, dtype=dtype or input.dtype, device=device or input.device, requires_grad=requires_grad)


def scalar_tensor(s: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, layout: Any = None, pin_memory: bool = False) -> Tensor:
    """Returns a number as a tensor without axes, by default of the default dtype.

    Shapes: a number -> []

    Raises:
        TypeError: If the value is not a number.
    """
    _check_layout("scalar_tensor", layout)
    if isinstance(s, Tensor):
        s = _number(s) if s.is_floating_point() else s.item()
    return _ternion.tensor(s, dtype=dtype or _ternion.get_default_dtype(), device=device, requires_grad=requires_grad)


def asarray(obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool = False) -> Tensor:
    """Returns the values as a tensor that shares their memory if possible, unless `copy` is true.
    See `as_tensor`.

    Raises:
        TypeError: If a value is not a number.
    """
    if copy:
        return _ternion.tensor(obj, dtype=dtype, device=device, requires_grad=requires_grad)
    result = _ternion.as_tensor(obj, dtype=dtype, device=device)
    return result.requires_grad_() if requires_grad else result


def logspace(
    start: float, end: float, steps: int, base: float = 10.0, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Returns `steps` numbers from `base ** start` to `base ** end` with evenly spaced exponents.

    They are computed in float64 and rounded once. For an integer dtype, the fractions of both
    exponents are truncated first, then those of the powers.

    Shapes: numbers -> [steps]

    Raises:
        ValueError: If `steps` is negative, or if a value is out of the dtype's range.
        TypeError: If `steps` is not an integer.
    """
    if operator.index(steps) < 0:
        raise ValueError(f"logspace: a count of {steps}, expected 0 or more")
    _check_layout("logspace", layout)
    result = _ternion._logspace((start, end, base), steps, dtype or _ternion.get_default_dtype(), device)
    return result.requires_grad_() if requires_grad else result


def fill(input: Tensor, value: Any) -> Tensor:
    """Returns a tensor filled with one value, with the shape, dtype and device of this tensor. No
    gradient flows to this tensor. A gradient flows to `value` if it is a tensor.

    Shapes: [..], value a number or [] -> the shape of `input`

    Raises:
        ValueError: If the value is out of the dtype's range, or is a tensor with axes.
    """
    return input.clone().fill_(value)


def randint_like(
    input: Tensor, low: int, high: int | None = None, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    memory_format: Any = None, layout: Any = None, pin_memory: bool = False, generator: Any = None,
) -> Tensor:  # fmt: skip
    """Returns random integers from `low` (default 0) up to, but not including, `high`, with the
    shape, dtype and device of `input`.

    Shapes: [..] -> the same shape

    Raises:
        ValueError: If there is no integer in the range from `low` to `high`.
    """
    _check_layout("randint_like", layout)
    low, high = (0, low) if high is None else (low, high)
    dtype = dtype or input.dtype
    samples = _ternion.randint(low, high, input.shape, generator=generator, dtype=_ternion.int64 if dtype == _ternion.bool else dtype, device=device or input.device)
    samples = samples.to(dtype)
    return samples.requires_grad_() if requires_grad else samples


def random_(input: Tensor, *limits: int, to: int | None = None, generator: Any = None, **first: int) -> Tensor:
    """Fills the tensor with random integers in place.

    `random_(to)` draws from 0 up to, but not including, `to`; `random_(from, to)` draws from `from`
    on. By default all integers that the dtype represents exactly are drawn, up to 2**40.

    Shapes: [..] -> the same shape

    Raises:
        ValueError: If there is no integer in the range.
        TypeError: If there are other arguments, or `from` without `to`.
    """
    low, high = _limits(input, limits, to, first)
    samples = _ternion.randint(low, high, input.shape, generator=generator, device=input.device)
    return input.copy_(samples)


def _limits(input: Tensor, limits: tuple[int, ...], to: int | None, first: dict[str, int]) -> tuple[int, int]:
    """Returns the range that `random_` draws from. `from` is a keyword of Python, and is therefore
    passed in `first`.
    """
    bounds = [*limits, *first.values(), *(() if to is None else (to,))]
    if len(bounds) > 2 or not first.keys() <= {"from"} or (first and (limits and to is not None or to is None and not limits)):
        raise TypeError(f"random_: {limits} with {first} and to={to}, expected nothing, to, or from and to")
    if first and limits:
        raise TypeError(f"random_: from={first['from']} behind {limits}, expected from and to")
    if bounds:
        return (0, bounds[0]) if len(bounds) == 1 else (bounds[0], bounds[1])
    exact = 2 if input.dtype == _ternion.bool else int(2 / finfo(input.dtype).eps) if input.is_floating_point() else iinfo(input.dtype).max + 1
    return 0, min(exact, 2**40)


def normal(
    mean: Any, std: Any = 1.0, size: Any = None, *, generator: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    layout: Any = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Returns normally distributed random numbers. Mean and standard deviation are tensors with one
    value per element, or numbers together with `size`.

    Raises:
        ValueError: If a standard deviation is negative, or if both `mean` and `std` are numbers and
            `size` is not given.
        TypeError: If `requires_grad` is set without `size`.
    """
    _check_layout("normal", layout)
    tensors = [value for value in (mean, std) if isinstance(value, Tensor)]
    if size is None and not tensors:
        raise ValueError("normal: expected a tensor as mean or std, or sizes")
    if (std.amin().item() if isinstance(std, Tensor) and std.numel() else 0 if isinstance(std, Tensor) else std) < 0:
        raise ValueError("normal: std below 0")
    if size is None:
        if requires_grad:
            raise TypeError("normal: expected sizes with requires_grad=True, got only tensors")
        like = tensors[0]
        dtype = dtype or like.dtype
        parameters = (value.to(dtype) if isinstance(value, Tensor) else _ternion.tensor(float(value), dtype=dtype, device=like.device) for value in (mean, std))
        return _ternion._normal(*parameters, generator)
    samples = mean + std * _ternion.randn(size, generator=generator, dtype=dtype, device=device)
    return samples.requires_grad_() if requires_grad else samples


def multinomial(input: Tensor, num_samples: int, replacement: bool = False, *, generator: Any = None) -> Tensor:
    """Draws indices with the given probabilities, which need not sum to 1: for each row of
    [.., categories], int64, [.., num_samples].

    Args:
        replacement: Whether an index may be drawn more than once.

    Raises:
        TypeError: If the input has no floating-point dtype.
        ValueError: If the input does not have one or two axes, if a probability is negative or not
            finite, if a row is all zeros, or if there are fewer nonzero categories than samples
            without replacement.
    """
    return input._multinomial(max(num_samples, 0), replacement, generator)


def _legacy_constructor(name: str, dtype: Any) -> Any:
    def constructor(*args: Any, device: Any = None) -> Tensor:
        if not args:
            return _ternion.zeros(0, dtype=dtype, device=device)
        if len(args) == 1 and not isinstance(args[0], int):
            return _ternion.tensor(args[0], dtype=dtype, device=device)
        return _ternion.zeros(*args, dtype=dtype, device=device)

    constructor.__name__ = constructor.__qualname__ = name
    constructor.__doc__ = f"A tensor of {str(dtype).split('.')[-1]}: of these sizes, filled with zeros, or with the values of a list. (An older way to say `tensor` or `zeros`.)"
    constructor.__doc__ += "\n\nRaises:\n    TypeError: values that are not numbers.\n    ValueError: a size below 0."
    return constructor


FloatTensor = _legacy_constructor("FloatTensor", _ternion.float32)
DoubleTensor = _legacy_constructor("DoubleTensor", _ternion.float64)
HalfTensor = _legacy_constructor("HalfTensor", _ternion.float16)
BFloat16Tensor = _legacy_constructor("BFloat16Tensor", _ternion.bfloat16)
LongTensor = _legacy_constructor("LongTensor", _ternion.int64)
IntTensor = _legacy_constructor("IntTensor", _ternion.int32)
ShortTensor = _legacy_constructor("ShortTensor", _ternion.int16)
CharTensor = _legacy_constructor("CharTensor", _ternion.int8)
ByteTensor = _legacy_constructor("ByteTensor", _ternion.uint8)
BoolTensor = _legacy_constructor("BoolTensor", _ternion.bool)
