"""Compares a result of Ternion with PyTorch's.

A number is correct if it is close to PyTorch's result in this dtype, or about as close to the exact
result as PyTorch's is. The exact result is PyTorch's result in float64 for the same inputs, and the
tolerance is extended by four times the largest error of PyTorch's result, two bits. Close means
within PyTorch's own relative tolerance for the dtype (that of `torch.testing`), relative to the
number or to the largest number of the result, because sums have errors of that magnitude. Ten
rounding errors of numbers near 1 are allowed for results in which everything cancels. Integers and
bools must be equal.
"""

import torch

import ternion

from . import invariants
from .conversion import LeftOut, dtype_name, torch_of

VALUE, GRADIENT, SHAPE, DTYPE = "wrong value", "wrong gradient", "wrong shape", "wrong dtype"

# PyTorch's relative tolerances (`torch.testing.assert_close`), except for float64, where its 1e-7
# would accept results computed in float32: 1e-9, because its `polygamma` has an error of 5e-10. The
# absolute tolerances, PyTorch's 1e-5 for float32, limit what is allowed relative to the largest
# number.
TOLERANCES = {torch.float16: (1e-3, 1e-5), torch.bfloat16: (1.6e-2, 1e-5), torch.float32: (1.3e-6, 1e-5), torch.float64: (1e-9, 1e-9)}


# Functions with steps. Next to a step, the error of PyTorch's result is the height of the step, and
# not a measure for other elements.
STEPS = {"floor_divide", "remainder", "fmod", "__rmod__", "div", "round", "trunc", "floor", "ceil", "frac"}


def compared(name, actual, expected, exact=None, arguments=None):
    """Returns what is wrong with a result, a kind and a sentence, or None. `expected` is PyTorch's
    result, `exact` the exact one if it is known."""
    difference = of_structure(actual, expected, "result")
    if difference:
        return difference
    invariant = invariants.of(name)
    if invariant is None:
        return _up_to_ties(name, actual, expected, exact, arguments)
    actual = _converted(actual)
    return _of_values(invariant(actual), invariant(expected), invariant(exact) if exact is not None else None, "invariant")


def _up_to_ties(name, actual, theirs, exact, arguments):
    """Compares values, where indices of equal elements may be exchanged."""
    difference = _of_values(actual, theirs, exact, "result", name not in STEPS)
    if difference is None or name not in invariants.TIES or arguments is None:
        return difference
    chosen = invariants.chosen(name, _converted(actual), arguments)
    expected = invariants.chosen(name, theirs, arguments)
    return difference if chosen is None or expected is None else _of_values(chosen, expected, None, "chosen elements")


def _converted(result):
    if isinstance(result, ternion.Tensor):
        return torch_of(result)
    return tuple(_converted(item) for item in result) if isinstance(result, (list, tuple)) else result


def of_structure(actual, expected, where="result"):
    """Returns a difference in types of results, shapes or dtypes, or None."""
    if isinstance(expected, torch.Tensor):
        return _of_form(actual, expected, where)
    if isinstance(expected, (list, tuple)) and not isinstance(expected, torch.Size):
        return _of_sequence(actual, expected, where)
    if isinstance(expected, torch.Size):
        right = isinstance(actual, tuple) and tuple(actual) == tuple(expected)
        return None if right else (SHAPE, f"{where} is {actual}, expected {tuple(expected)}")
    if isinstance(expected, complex):
        raise LeftOut("complex numbers")
    if type(actual) is not type(expected):
        return DTYPE, f"{where} is {type(actual).__name__}, expected {type(expected).__name__}"
    return None


def _of_sequence(actual, expected, where):
    if not isinstance(actual, (list, tuple)):
        return SHAPE, f"{where} is {type(actual).__name__}, expected {len(expected)} results"
    if len(actual) != len(expected):
        return SHAPE, f"{where} has {len(actual)} parts, expected {len(expected)}"
    fields = type(expected).__match_args__ if type(expected).__module__ == "torch.return_types" else ()
    lacking = [field for field in fields if not hasattr(actual, field)]
    if lacking:
        return SHAPE, f"{where} has no field {', '.join(lacking)}"
    return next(filter(None, (of_structure(a, b, f"{where} {index}") for index, (a, b) in enumerate(zip(actual, expected)))), None)


def _of_form(actual, expected, where):
    if expected.is_complex() or expected.layout != torch.strided:
        raise LeftOut("complex or sparse results")
    if not isinstance(actual, ternion.Tensor):
        return SHAPE, f"{where} is {type(actual).__name__}, expected a tensor"
    if tuple(actual.shape) != tuple(expected.shape):
        return SHAPE, f"{where} has shape {list(actual.shape)}, expected {list(expected.shape)}"
    if dtype_name(actual.dtype) != dtype_name(expected.dtype):
        return DTYPE, f"{where} has dtype {dtype_name(actual.dtype)}, expected {dtype_name(expected.dtype)}"
    return None


def _of_values(actual, expected, exact, where, measured=True):
    """Returns a difference of numbers. The structure must be the same."""
    if isinstance(expected, (list, tuple)):
        parts = zip(actual, expected, exact if exact is not None else [None] * len(expected))
        return next(filter(None, (_of_values(*part, f"{where} {index}", measured) for index, part in enumerate(parts))), None)
    if not isinstance(expected, torch.Tensor):
        if isinstance(expected, float):
            return _of_values(torch.tensor(actual, dtype=torch.float64), torch.tensor(expected, dtype=torch.float64), None, where)
        return None if actual == expected else (VALUE, f"{where} is {actual}, expected {expected}")
    actual = torch_of(actual) if isinstance(actual, ternion.Tensor) else actual
    return of_numbers(VALUE, actual, expected.detach(), exact.detach() if isinstance(exact, torch.Tensor) else None, where, measured)


def of_numbers(kind, actual, theirs, exact, where, measured=True):
    """Returns a difference of this kind between PyTorch tensors, described by its first element, or
    None."""
    wrong = ~near(actual, theirs, exact, measured)
    if not wrong.any():
        return None
    first = tuple(int(index) for index in torch.nonzero(wrong)[0]) if wrong.ndim else ()
    expected = theirs[first].item() if exact is None or exact.shape != theirs.shape else exact[first].item()
    return kind, f"{where}{list(first)}: {actual[first].item()!r}, expected {expected!r} ({int(wrong.sum())} of {wrong.numel()})"


def near(actual, expected, exact=None, measured=True):
    """Returns which elements are correct. With `measured`, the error of PyTorch's result extends
    the tolerance."""
    if not expected.is_floating_point():
        return actual == expected
    relative, absolute = TOLERANCES[expected.dtype]
    roundings = 10 * torch.finfo(torch.float64 if expected.dtype == torch.float64 else torch.float32).eps
    actual, expected = actual.double(), expected.double()
    absolute = min(absolute, roundings + relative * _largest(expected if exact is None else exact.double()))
    right = torch.isclose(actual, expected, rtol=relative, atol=absolute, equal_nan=True)
    if exact is None or exact.shape != expected.shape or not exact.is_floating_point():
        return right
    exact = exact.double()
    error = (expected - exact).abs()
    error = error[error.isfinite()]
    bound = 4 * error.max() if measured and error.numel() else 0.0
    as_near = (actual - exact).abs() <= absolute + relative * exact.abs() + bound
    return right | as_near | torch.isclose(actual, exact, rtol=relative, atol=0, equal_nan=True)


def _largest(numbers):
    """Returns the largest magnitude of the finite numbers."""
    finite = numbers[numbers.isfinite()]
    return finite.abs().max().item() if finite.numel() else 0.0
