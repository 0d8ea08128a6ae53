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


def compared(name, found, own, exact=None, arguments=None):
    """Returns what is wrong with a result, a kind and a sentence, or None. `own` is PyTorch's
    result, `exact` the exact one if it is known."""
    difference = of_structure(found, own, "result")
    if difference:
        return difference
    invariant = invariants.of(name)
    if invariant is None:
        return _up_to_ties(name, found, own, exact, arguments)
    found = _converted(found)
    return _of_values(invariant(found), invariant(own), invariant(exact) if exact is not None else None, "invariant")


def _up_to_ties(name, found, own, exact, arguments):
    """Compares values, where indices of equal elements may be exchanged."""
    difference = _of_values(found, own, exact, "result", name not in STEPS)
    if difference is None or name not in invariants.TIES or arguments is None:
        return difference
    chosen = invariants.chosen(name, _converted(found), arguments)
    expected = invariants.chosen(name, own, arguments)
    return difference if chosen is None or expected is None else _of_values(chosen, expected, None, "chosen elements")


def _converted(found):
    if isinstance(found, ternion.Tensor):
        return torch_of(found)
    return tuple(_converted(item) for item in found) if isinstance(found, (list, tuple)) else found


def of_structure(found, own, where="result"):
    """Returns a difference in types of results, shapes or dtypes, or None."""
    if isinstance(own, torch.Tensor):
        return _of_form(found, own, where)
    if isinstance(own, (list, tuple)) and not isinstance(own, torch.Size):
        return _of_sequence(found, own, where)
    if isinstance(own, torch.Size):
        right = isinstance(found, tuple) and tuple(found) == tuple(own)
        return None if right else (SHAPE, f"{where} is {found}, expected {tuple(own)}")
    if isinstance(own, complex):
        raise LeftOut("complex numbers")
    if type(found) is not type(own):
        return DTYPE, f"{where} is {type(found).__name__}, expected {type(own).__name__}"
    return None


def _of_sequence(found, own, where):
    if not isinstance(found, (list, tuple)):
        return SHAPE, f"{where} is {type(found).__name__}, expected {len(own)} results"
    if len(found) != len(own):
        return SHAPE, f"{where} has {len(found)} parts, expected {len(own)}"
    fields = type(own).__match_args__ if type(own).__module__ == "torch.return_types" else ()
    lacking = [field for field in fields if not hasattr(found, field)]
    if lacking:
        return SHAPE, f"{where} has no field {', '.join(lacking)}"
    return next(filter(None, (of_structure(a, b, f"{where} {place}") for place, (a, b) in enumerate(zip(found, own)))), None)


def _of_form(found, own, where):
    if own.is_complex() or own.layout != torch.strided:
        raise LeftOut("complex or sparse results")
    if not isinstance(found, ternion.Tensor):
        return SHAPE, f"{where} is {type(found).__name__}, expected a tensor"
    if tuple(found.shape) != tuple(own.shape):
        return SHAPE, f"{where} has shape {list(found.shape)}, expected {list(own.shape)}"
    if dtype_name(found.dtype) != dtype_name(own.dtype):
        return DTYPE, f"{where} has dtype {dtype_name(found.dtype)}, expected {dtype_name(own.dtype)}"
    return None


def _of_values(found, own, exact, where, measured=True):
    """Returns a difference of numbers. The structure must be the same."""
    if isinstance(own, (list, tuple)):
        parts = zip(found, own, exact if exact is not None else [None] * len(own))
        return next(filter(None, (_of_values(*part, f"{where} {place}", measured) for place, part in enumerate(parts))), None)
    if not isinstance(own, torch.Tensor):
        if isinstance(own, float):
            return _of_values(torch.tensor(found, dtype=torch.float64), torch.tensor(own, dtype=torch.float64), None, where)
        return None if found == own else (VALUE, f"{where} is {found}, expected {own}")
    found = torch_of(found) if isinstance(found, ternion.Tensor) else found
    return of_numbers(VALUE, found, own.detach(), exact.detach() if isinstance(exact, torch.Tensor) else None, where, measured)


def of_numbers(kind, found, own, exact, where, measured=True):
    """Returns a difference of this kind between PyTorch tensors, described by its first element, or
    None."""
    wrong = ~near(found, own, exact, measured)
    if not wrong.any():
        return None
    first = tuple(int(index) for index in torch.nonzero(wrong)[0]) if wrong.ndim else ()
    expected = own[first].item() if exact is None or exact.shape != own.shape else exact[first].item()
    return kind, f"{where}{list(first)}: {found[first].item()!r}, expected {expected!r} ({int(wrong.sum())} of {wrong.numel()})"


def near(found, own, exact=None, measured=True):
    """Returns which elements are correct. With `measured`, the error of PyTorch's result extends
    the tolerance."""
    if not own.is_floating_point():
        return found == own
    relative, absolute = TOLERANCES[own.dtype]
    roundings = 10 * torch.finfo(torch.float64 if own.dtype == torch.float64 else torch.float32).eps
    found, own = found.double(), own.double()
    absolute = min(absolute, roundings + relative * _largest(own if exact is None else exact.double()))
    right = torch.isclose(found, own, rtol=relative, atol=absolute, equal_nan=True)
    if exact is None or exact.shape != own.shape or not exact.is_floating_point():
        return right
    exact = exact.double()
    error = (own - exact).abs()
    error = error[error.isfinite()]
    bound = 4 * error.max() if measured and error.numel() else 0.0
    as_near = (found - exact).abs() <= absolute + relative * exact.abs() + bound
    return right | as_near | torch.isclose(found, exact, rtol=relative, atol=0, equal_nan=True)


def _largest(numbers):
    """Returns the largest magnitude of the finite numbers."""
    finite = numbers[numbers.isfinite()]
    return finite.abs().max().item() if finite.numel() else 0.0
