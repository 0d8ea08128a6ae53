"""`assert_close`, with PyTorch's tolerances and messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Number
from typing import Any

import numpy as np

from .._ternion import Tensor, bfloat16, float16, float32, float64, from_dlpack, tensor

# rtol and atol by dtype, as in torch.testing. Values of other dtypes must be equal.
TOLERANCES = {float16: (1e-3, 1e-5), bfloat16: (1.6e-2, 1e-5), float32: (1.3e-6, 1e-5), float64: (1e-7, 1e-7)}


def assert_close(
    actual: Any, expected: Any, *, rtol: float | None = None, atol: float | None = None, equal_nan: bool = False, check_device: bool = True,
    check_dtype: bool = True, check_stride: bool = False, msg: Any = None,
) -> None:  # fmt: skip
    """Asserts that `|actual - expected| <= atol + rtol * |expected|` for all elements. The default
    tolerances are PyTorch's tolerances for the dtype.

    Args:
        actual: A tensor, an array, a PyTorch tensor, a number, None, or a list, tuple or dict of
            them.
        expected: The expected values, in the same structure.
        rtol, atol: The relative and absolute tolerance. Either both or neither must be given.
        equal_nan: Whether NaN is treated as close to NaN.
        check_device, check_dtype, check_stride: Whether these attributes must be equal, too.
            Without `check_dtype`, the looser tolerances of the two dtypes apply.
        msg: A message that replaces the generated one, or a function that maps the generated
            message to another one.

    Raises:
        AssertionError: If the values are not close. The message contains the number of mismatched
            elements and the greatest differences.
        ValueError: If only one of `rtol` and `atol` is given.
        TypeError: If the values cannot be compared.
    """
    if (rtol is None) != (atol is None):
        raise ValueError(f"assert_close: rtol {rtol} and atol {atol}: give both, or neither")
    options = dict(rtol=rtol, atol=atol, equal_nan=equal_nan, device=check_device, dtype=check_dtype, stride=check_stride)
    for path, left, right in _pairs(actual, expected, ""):
        message = _difference(left, right, options)
        if message is not None:
            message = f"{message}\n\nThe failure occurred for item {path}" if path else message
            raise AssertionError(msg(message) if callable(msg) else message if msg is None else msg)


def _pairs(actual, expected, path):
    """Yields the pairs of values to compare, with their paths in lists and dicts."""
    if _is_list(actual) and _is_list(expected):
        if len(actual) != len(expected):
            raise AssertionError(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}")
        for index, (left, right) in enumerate(zip(actual, expected)):
            yield from _pairs(left, right, f"{path}[{index}]")
    elif isinstance(actual, Mapping) and isinstance(expected, Mapping):
        missing, extra = sorted(set(expected) - set(actual)), sorted(set(actual) - set(expected))
        if missing or extra:
            lines = f"Missing keys in the actual mapping: {missing}\nMissing keys in the expected mapping: {extra}"
            raise AssertionError(f"The keys of the mappings do not match:\n{lines}")
        for key in actual:
            yield from _pairs(actual[key], expected[key], f"{path}[{key!r}]")
    else:
        yield path, actual, expected


def _is_list(value):
    return isinstance(value, Sequence) and not isinstance(value, str)


def _type_name(value):
    return "None" if value is None else f"a {type(value).__name__}"


def _as_tensor(value):
    if isinstance(value, Tensor):
        return value.detach()
    if isinstance(value, (np.ndarray, Number, np.generic)):
        return tensor(np.asarray(value))
    if hasattr(value, "__dlpack__"):
        # PyTorch tensors that require gradients cannot be exported.
        return from_dlpack(value.detach() if hasattr(value, "detach") else value)
    raise TypeError(f"assert_close: {type(value).__name__}, expected a tensor, an array, a number, None, or lists and dicts of them")


def _difference(actual, expected, options):
    """Returns a message if the values are not close, otherwise None."""
    if actual is None or expected is None:
        return None if actual is expected else f"None mismatch: {_type_name(actual)} is not {_type_name(expected)}"
    are_numbers = isinstance(actual, Number) and isinstance(expected, Number)
    if isinstance(actual, Number) != isinstance(expected, Number):
        kinds = f"{type(actual).__name__} and {type(expected).__name__}"
        raise TypeError(f"assert_close: {kinds} cannot be compared: take a tensor's item(), or make tensors of both")
    if isinstance(actual, bool) and isinstance(expected, bool):
        return None if actual == expected else f"Booleans mismatch: {actual} is not {expected}"
    actual, expected = _as_tensor(actual), _as_tensor(expected)
    message = _attributes(actual, expected, options)
    if message is not None:
        return message
    rtol, atol = _tolerances(actual, expected, options)
    left, right = _values(actual), _values(expected)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        absolute, size = np.abs(left - right), np.abs(right).astype(np.float64)
        near = absolute.astype(np.float64) <= atol + rtol * size if rtol or atol else False
        close = (left == right) | near & np.isfinite(size)
        if options["equal_nan"]:
            close |= np.isnan(left.astype(np.float64)) & np.isnan(size)
        relative = absolute.astype(np.float64) / size
    if close.all():
        return None
    exact = rtol == 0 and atol == 0
    if are_numbers:
        return _scalar_message(actual, expected, absolute.item(), relative.item(), rtol, atol, exact)
    return _tensor_message(~close, absolute, relative, rtol, atol, exact)


def _attributes(actual, expected, options):
    """Returns a message if attributes other than the values differ."""
    if actual.shape != expected.shape:
        return f"The values for attribute 'shape' do not match: {_size(actual)} != {_size(expected)}."
    for name in ("device", "dtype", "stride"):
        left, right = getattr(actual, name), getattr(expected, name)
        left, right = (left(), right()) if name == "stride" else (left, right)
        if options[name] and left != right:
            return f"The values for attribute '{name}' do not match: {left} != {right}."
    return None


def _size(value):
    return f"{list(value.shape)}"


def _tolerances(actual, expected, options):
    if options["rtol"] is not None:
        return float(options["rtol"]), float(options["atol"])
    both = [TOLERANCES.get(value.dtype, (0.0, 0.0)) for value in (actual, expected)]
    return max(rtol for rtol, _ in both), max(atol for _, atol in both)


def _values(value):
    """Returns the values in a dtype in which differences are exact, or nearly so."""
    value = value.cpu()
    if value.is_floating_point():
        return value.double().numpy()
    # Differences of 64-bit integers may need more than 64 bits.
    return value.numpy().astype(object if value.itemsize == 8 else np.int64)


def _scalar_message(actual, expected, absolute, relative, rtol, atol, exact):
    relation = "equal" if exact else "close"
    lines = f"Scalars are not {relation}!\n\nExpected {expected.item()} but got {actual.item()}."
    allowed = ["" if exact else f" (up to {limit} allowed)" for limit in (atol, rtol)]
    return f"{lines}\nAbsolute difference: {absolute}{allowed[0]}\nRelative difference: {relative}{allowed[1]}"


def _tensor_message(wrong, absolute, relative, rtol, atol, exact):
    relation = "equal" if exact else "close"
    count, total = int(wrong.sum()), wrong.size
    lines = [f"Tensor-likes are not {relation}!", "", f"Mismatched elements: {count} / {total} ({count / total:.1%})"]
    for kind, values, limit in (("absolute", absolute, atol), ("relative", relative, rtol)):
        # Elements that are close are excluded.
        masked = np.where(wrong, values.astype(np.float64), 0.0)
        at = np.unravel_index(int(np.argmax(masked)), masked.shape)
        index = tuple(int(number) for number in at)
        allowed = "" if exact else f" (up to {limit} allowed)"
        greatest = values[at]
        lines.append(f"Greatest {kind} difference: {greatest}" + (f" at index {index}" if index else "") + allowed)
    return "\n".join(lines)
